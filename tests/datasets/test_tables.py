"""CSV files of paths and labels: columns, splits, groups, tags, odd spellings, and all that may be wrong with them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.image_files import png
from zoo.datasets import open_images
from zoo.datasets.groups import groups_of_names
from zoo.datasets.imagefiles import notes_on
from zoo.datasets.images import indicators_of
from zoo.datasets.tables import read_table
from zoo.errors import DataError, QueryError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Forty images, each of noise of its own, in a folder beside the table."""
    (tmp_path / "pictures").mkdir()
    for number in range(40):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number:02}.png")
    return tmp_path


Row = dict[str, Any]


def rows(n: int = 40, **columns: Any) -> list[Row]:
    """A row an image, with two classes by turns unless a column says otherwise."""
    found: list[Row] = [{"path": f"pictures/{i:02}.png", "label": "cat" if i % 2 else "dog"} for i in range(n)]
    for name, values in columns.items():
        for row, value in zip(found, values, strict=True):
            row[name] = value
    return found


def table(folder: Path, given: list[Row], *, name: str = "images.csv", **how: Any) -> Path:
    """These rows as a file."""
    with open(folder / name, "w", encoding=how.pop("encoding", "utf-8"), newline="") as file:
        writer = csv.DictWriter(file, list(given[0]), **how)
        writer.writeheader()
        writer.writerows(given)
    return folder / name


def test_images_are_split_by_class_and_read_from_the_folder_of_the_table(images: Path) -> None:
    data = open_images(table(images, rows()))
    assert (data.name, data.train.classes, data.is_split_here) == ("images", ("cat", "dog"), True)
    assert data.val.n_per_class().tolist() == [4, 4] and len(data.train) == 32
    for part in (data.train, data.val):
        for (image, label), name in zip(part, part.names, strict=True):
            number = int(name[-6:-4])
            assert np.array_equal(image, np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8))
            assert part.classes[label] == ("cat" if number % 2 else "dog")


def test_absolute_paths_name_the_same_images(images: Path) -> None:
    given = rows()
    for row in given:
        row["path"] = str(images / row["path"])
    (images / "elsewhere").mkdir()
    one, other = open_images(table(images, rows())), open_images(table(images / "elsewhere", given))
    assert np.array_equal(np.sort(one.train.contents), np.sort(other.train.contents)) or len(other.train) == 32
    assert other.train.images[0].size == (8, 8)


def test_a_column_says_the_split_and_val_comes_before_test(images: Path) -> None:
    split = ["train"] * 20 + ["Test"] * 10 + ["valid"] * 10
    data = open_images(table(images, rows(split=split)))
    assert (len(data.train), len(data.val), data.is_split_here) == (20, 10, False)
    assert data.val.names[0] == "pictures/30.png"
    assert notes_on([data.train, data.val]) == [
        "10 images of the part 'test' are left out, for there are some of 'val'"
    ]
    data = open_images(table(images, rows(part=["training"] * 30 + ["testing"] * 10)), split_column="Part")
    assert (len(data.train), len(data.val), notes_on([data.train])) == (30, 10, [])


def test_the_order_of_rows_and_columns_is_that_of_the_file(images: Path) -> None:
    given = [dict(reversed(row.items())) for row in rows(split=["val", "train", "train"] * 13 + ["train"])][::-1]
    data = open_images(table(images, given))
    assert data.train.names == [row["path"] for row in given if row["split"] == "train"]


def test_the_fingerprint_is_over_paths_bytes_labels_and_groups(images: Path) -> None:
    split = ["train", "train", "val", "val"] * 10
    groups = [f"p{i // 4}" for i in range(40)]

    def fingerprint(given: list[Row], **how: Any) -> str:
        return open_images(table(images, given), **how).train.fingerprint

    plain = fingerprint(rows(split=split))
    assert fingerprint(rows(split=split, remark=["x"] * 40)) == plain
    other = rows(split=split)
    other[0]["label"] = "cat"
    found = {plain, fingerprint(other)}
    found.add(fingerprint(rows(split=split, patient=groups), group="patient"))
    found.add(fingerprint(rows(split=split, patient=groups[3:] + groups[:3]), group="patient"))
    found.add(fingerprint(rows(split=split)[4:]))
    Image.new("L", (8, 8)).save(images / "pictures" / "00.png")
    found.add(fingerprint(rows(split=split)))
    assert len(found) == 6


def test_all_images_of_a_group_are_on_one_side(images: Path) -> None:
    patients = [f"p{i // 4}" for i in range(40)]
    data = open_images(table(images, rows(patient=patients)), group="Patient")
    assert data.train.groups is not None and data.val.groups is not None
    assert not np.isin(data.train.groups, data.val.groups).any() and data.val.n_per_class().tolist() == [4, 4]
    np.testing.assert_array_equal(
        data.val.groups, groups_of_names(patients[int(name[-6:-4])] for name in data.val.names)
    )


def test_a_column_that_looks_like_groups_is_named_once_it_is_not_used(images: Path) -> None:
    given = rows(patient_id=[i // 4 for i in range(40)])
    (note,) = notes_on([open_images(table(images, given)).val])
    assert note == "images with the same 'patient_id' may be on both sides; --group patient_id keeps them together"
    assert notes_on([open_images(table(images, given), group="patient_id").train]) == []


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("images.csv", {}),
        ("images.tsv", {"delimiter": "\t"}),
        ("images.csv", {"delimiter": ";"}),
        ("images.csv", {"delimiter": "\t"}),
        ("images.csv", {"encoding": "utf-8-sig"}),
        ("images.CSV", {"lineterminator": "\n"}),
        ("images.csv", {"quoting": csv.QUOTE_ALL}),
    ],
)
def test_every_usual_spelling_of_a_table_is_read(images: Path, name: str, how: dict[str, Any]) -> None:
    given = rows(remark=['a "quoted", broken\nline; with\tall'] * 40)
    plain = open_images(table(images, rows()), name="x")
    data = open_images(table(images, given, name=name, **how), name="x")
    assert data.train.fingerprint == plain.train.fingerprint and data.train.names == plain.train.names


def test_lines_are_those_of_the_file_where_cells_have_several_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('path,label\n\n"a\nb",1\n\n , \n c ,2\n')
    found = read_table(tmp_path / "t.csv")
    assert list(found.lines) == [4, 7] and found.columns == (["a\nb", "c"], ["1", "2"])


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        (["10", "9"], ("9", "10")),
        (["1.0", "0.0"], ("0", "1")),
        (["01", "1"], ("01", "1")),
        (["-1", "1"], ("-1", "1")),
        (["b", "A"], ("A", "b")),
        (["None", "x"], ("None", "x")),
    ],
)
def test_classes_are_in_the_order_of_numbers_or_of_code_points(
    images: Path, given: list[str], classes: tuple[str, ...]
) -> None:
    assert open_images(table(images, rows(label=given * 20))).train.classes == classes


def tagged(n: int = 40) -> list[set[str]]:
    rng = np.random.default_rng(0)
    return [
        {tag for tag, share in (("ant", 0.5), ("bee", 0.4), ("cow", 0.2)) if rng.random() < share} for _ in range(n)
    ]


def test_columns_of_0_and_1_and_a_column_of_tags_are_the_same_multi_label_set(images: Path) -> None:
    has, split = tagged(), ["train", "train", "val", "train"] * 10
    plain = [{"path": row["path"], "split": row["split"]} for row in rows(split=split)]
    pairs = list(zip(plain, has, strict=True))
    columns = [row | {tag: int(tag in tags) for tag in ("ant", "bee", "cow")} for row, tags in pairs]
    asked = open_images(table(images, columns), label_columns=["ant", "bee", "cow"])
    found = open_images(table(images, columns), multi_label=True)
    for sign in "|;":
        text = [row | {"label": f" {sign} ".join(sorted(tags))} for row, tags in pairs]
        written = open_images(table(images, text), multi_label=True)
        assert written.train.fingerprint == found.train.fingerprint == asked.train.fingerprint
    expected = np.array([[tag in tags for tag in ("ant", "bee", "cow")] for tags in has])
    for part, name in ((found.train, "train"), (found.val, "val")):
        assert part.tags == ("ant", "bee", "cow")
        np.testing.assert_array_equal(indicators_of(part), expected[[one == name for one in split]])
        names = [part.classes[label] for label in part.labels]
        assert names == ["|".join(sorted(tags)) for tags, one in zip(has, split, strict=True) if one == name]


def test_columns_of_tags_need_not_all_be_used(images: Path) -> None:
    columns = rows(a=[0, 1] * 20, b=[1, 1, 0, 0] * 10, weight=[0.5] * 40, sick=["True", "False"] * 20)
    given = [{key: value for key, value in row.items() if key != "label"} for row in columns]
    data = open_images(table(images, given), multi_label=True)
    assert data.train.tags == ("a", "b", "sick")
    assert open_images(table(images, given), label_columns=["b", "sick"]).train.tags == ("b", "sick")


def test_dicom_and_deep_grey_images_of_a_table_are_read_as_those_of_a_folder(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset

    given, expected = [], []
    for i in range(8):
        values = np.random.default_rng(i).integers(0, 4096, (12, 10)).astype(np.uint16)
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID = pydicom.uid.DigitalXRayImageStorageForPresentation
        meta.MediaStorageSOPInstanceUID = f"1.2.{i}"
        file = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        file.Rows, file.Columns, file.SamplesPerPixel = 12, 10, 1
        file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 16, 12, 11, 0
        file.PhotometricInterpretation = "MONOCHROME2"
        file.WindowCenter, file.WindowWidth = 1000, 801
        file.PixelData = values.tobytes()
        name = ("scan.dcm", "1.2.840.7", "IM000")[i % 3] + str(i) + (".dcm" if i % 3 == 0 else "")
        file.save_as(tmp_path / name, enforce_file_format=True)
        given.append({"file": name, "target": "ab"[i % 2]})
        expected.append(np.clip(np.rint((values.astype(float) - 600) / 800 * 255), 0, 255))
    for i in range(8, 16):
        values = np.random.default_rng(i).integers(0, 65536, (12, 10)).astype(np.uint16)
        png(tmp_path / f"{i}.png", values)
        given.append({"file": f"{i}.png", "target": "ab"[i % 2]})
        expected.append(values // 256)
    data = open_images(table(tmp_path, given))
    order = {row["file"]: i for i, row in enumerate(given)}
    for part in (data.train, data.val):
        for image, name in zip(part.images, part.names, strict=True):
            assert np.abs(np.asarray(image).astype(int) - expected[order[name]]).max() <= 1
    kinds = data.train.reading.as_dict()["scaled"]
    assert set(kinds) == {"DICOM", "16-bit integers"}


def without(given: list[Row], *names: str) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in names} for row in given]


def changed(given: list[Row], at: int, **cells: Any) -> list[Row]:
    given[at] |= cells
    return given


PATIENTS = [f"p{i // 4}" for i in range(40)]
WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no paths": (lambda: without(rows(), "path"), {}, "no column of paths under a usual name .path, file, image"),
    "no labels": (lambda: without(rows(), "label"), {}, r"no column of labels under a usual name .*--label-column"),
    "tags and not asked for them": (
        lambda: without(rows(a=[0, 1] * 20, b=[1, 0] * 20), "label"),
        {},
        r"or --multi-label for the columns of 0 and 1 \(a, b\)",
    ),
    "an unknown column": (rows, {"group": "patient"}, "has no column 'patient'; its columns are 'path', 'label'"),
    "two columns of a name": (
        lambda: [row | {"Label": "x", "LABEL": "y"} for row in rows()],
        {"label_column": "lAbel"},
        "has 3 columns 'lAbel'; expected one",
    ),
    "missing files": (
        lambda: changed(changed(rows(), 4, path="pictures/04.jpg"), 9, path="x"),
        {},
        r"2 of 40 images of .* are not there, the first is 'pictures/04.jpg' in line 6, column 'path'",
    ),
    "paths without endings": (
        lambda: [row | {"path": row["path"][:-4]} for row in rows()],
        {},
        r"40 of 40 images .*'pictures/00' in line 2.*; add the ending \.png",
    ),
    "empty paths": (
        lambda: changed(rows(), 3, path=" "),
        {},
        "1 rows of .* have no path .*, the first is line 5",
    ),
    "duplicate paths": (
        lambda: changed(changed(rows(), 8, path="pictures/../pictures/03.png"), 9, path="pictures/03.png"),
        {},
        r"1 rows of .* with another label, part or group, .* 'pictures/../pictures/03.png' in the lines 5 and 10",
    ),
    "labels left out": (
        lambda: changed(changed(rows(), 6, label="NaN"), 7, label=""),
        {},
        r"2 of 40 images of .* have no label in the column 'label', which holds 'NaN' in line 8",
    ),
    "one class": (
        lambda: rows(label=["cat"] * 40),
        {},
        "All 40 images of .* have the label 'cat' in the column 'label'; expected two classes or more",
    ),
    "as many classes as images": (
        lambda: rows(label=range(40)),
        {},
        "All 40 images of .* have different labels in the column 'label', such as '0' in line 2; expected fewer",
    ),
    "a tag with one image": (
        lambda: rows(label=["a|b", "b", "a", ""] * 9 + ["a|c", "b", "b", "a"]),
        {"multi_label": True},
        r"leaves 1 of 3 tags without a test image, the first is 'c' \(it has 1 images\)",
    ),
    "a tag of every image": (
        lambda: rows(label=["a|b", "b"] * 20),
        {"multi_label": True},
        "1 of 2 tags of .* tell no images apart, the first is 'b', which every image has",
    ),
    "a tag of no image": (
        lambda: rows(a=[0, 1] * 20, b=[0] * 40),
        {"label_columns": ["a", "b"]},
        "1 of 2 tags of .* the first is 'b', which no image has",
    ),
    "no tags": (
        lambda: without(rows(), "label"),
        {"multi_label": True},
        "has 0 columns of 0 and 1 and no column",
    ),
    "indicators that are none": (
        lambda: rows(a=[0, 1] * 20, b=[1, 0, -1, ""] * 10),
        {"label_columns": ["a", "b"]},
        "20 of 40 images of .* have neither 0 nor 1 in the column 'b', the first is '-1' in line 4",
    ),
    "an unknown part": (
        lambda: rows(split=["train", "val", "other", ""] * 10),
        {},
        "20 of 40 rows of .* have no part in the column 'split', the first is line 4 with 'other'",
    ),
    "one part": (lambda: rows(split=["train"] * 40), {}, "All 40 rows of .* are 'train' in the column 'split'"),
    "a class that is tested alone": (
        lambda: changed(rows(split=["train", "train", "val", "val"] * 10), 2, label="emu"),
        {},
        "1 test images of .* have a class that no training image has, the first is in line 4 with 'emu'",
    ),
    "a group left out": (
        lambda: changed(rows(patient=PATIENTS), 7, patient=""),
        {"group": "patient"},
        "1 of 40 images of .* have no group in the column 'patient', the first is line 9",
    ),
    "one group": (
        lambda: rows(patient=["p"] * 40),
        {"group": "patient"},
        "All 40 images of .* are of the group 'p' in the column 'patient'",
    ),
    "rows of other lengths": (
        None,
        {},
        "2 rows of .* do not have the 2 cells .* the first is line 3 with 3",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_counted_and_said_with_its_line_and_column(images: Path, wrong: str) -> None:
    make, how, words = WRONG[wrong]
    if make is None:
        (images / "images.csv").write_text("path,label\npictures/00.png,a\npictures/01.png,b,c\nx\n")
        path = images / "images.csv"
    else:
        path = table(images, make())
    with pytest.raises(DataError, match=words) as refused:
        open_images(path, **how)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no row below its first line"),
        (b"path,label\n", "holds no row below its first line"),
        (b"path,label\nb\xe4r.png,a\n", "is no text in UTF-8"),
        (b'path,label\n"a"b,c\n', "Line 2 of .* is no row of a table"),
        (b'path,label\na.png,"b\n', "is no row of a table"),
        (b"path,label\n\0\1\2", "images.csv"),
    ],
)
def test_a_file_that_is_no_table_is_said_to_be_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "images.csv").write_bytes(content)
    with pytest.raises(DataError, match=words):
        open_images(tmp_path / "images.csv")
    with pytest.raises(DataError, match="There is no file"):
        open_images(tmp_path / "absent.csv")


def test_options_of_tables_are_refused_elsewhere(images: Path) -> None:
    with pytest.raises(QueryError, match="group is of CSV files, and 'digits' is none"):
        open_images("digits", group="patient")
    with pytest.raises(QueryError, match="was named for two things"):
        open_images(table(images, rows()), label_column="label", group="label")
    with pytest.raises(QueryError, match="columns of 0 and 1; expected one of them"):
        open_images(table(images, rows(a=[0, 1] * 20)), label_column="label", label_columns=["a", "label"])


def test_the_command_line_takes_columns_and_groups_and_says_what_it_does(images: Path) -> None:
    given = [{"img": row["path"], "finding": row["label"], "patient": PATIENTS[i]} for i, row in enumerate(rows())]
    path = str(table(images, given))
    arguments = ["pocket_init_rn", path, "--image-column", "img", "--label-column", "finding"]
    done = run("features", *arguments)
    assert "--group patient keeps them together" in " ".join(done.output.split())
    probes = ["--settings", "full", "--no-knn", "--no-record"]
    said = run("evaluate", *arguments, *probes, "--group", "patient").output
    assert "intervals are over the 2 groups of test images" in " ".join(said.split())
    grouped = document("features", *arguments, "--group", "patient")
    assert grouped["groups"] == {"in_both": 0, "test_images": 0, "n_train": 8, "n_test": 2, "n_test_images": 8}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--group", "patient"], "'digits' is no CSV file"),
        (["--multi-label"], "'digits' is no CSV file"),
        (["--label-column", "x"], "is no Hugging Face data set, shards or CSV file"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: list[str], words: str) -> None:
    done = run("evaluate", "pocket_init_rn", "digits", *options, code=2)
    assert words in " ".join(done.output.split())


def test_a_group_on_both_sides_of_a_given_split_is_counted(images: Path) -> None:
    split = ["train"] * 30 + ["test"] * 10
    path = str(table(images, rows(patient=PATIENTS, split=split)))
    arguments = ["features", "pocket_init_rn", path, "--group", "patient"]
    assert document(*arguments)["groups"]["in_both"] == 1
    said = " ".join(run(*arguments).output.split())
    assert "1 of 3 groups of test images also have training images (2 of 10 test images, 20 %)" in said


def test_links_and_case_do_not_hide_that_a_file_is_missing(images: Path) -> None:
    os.remove(images / "pictures" / "39.png")
    (images / "pictures" / "39.png").mkdir()
    with pytest.raises(DataError, match=r"1 of 40 images of .* are not there"):
        open_images(table(images, rows()))


@pytest.mark.parametrize("blank", ["", "   ", " , ", ",", '" ",""', "\t"])
def test_blank_lines_anywhere_are_no_rows(images: Path, blank: str) -> None:
    expected = open_images(table(images, rows()))
    lines = (images / "images.csv").read_text().splitlines()
    (images / "images.csv").write_text("\n".join([blank, *lines[:9], blank, *lines[9:], blank, blank]))
    found = open_images(images / "images.csv")
    assert found.train.fingerprint == expected.train.fingerprint
    (images / "pictures" / "30.png").unlink()
    with pytest.raises(DataError, match=r"the first is 'pictures/30\.png' in line 34,"):
        open_images(images / "images.csv")


def test_paths_may_be_written_as_windows_does(images: Path) -> None:
    expected = open_images(table(images, rows()))
    windows = [row | {"path": row["path"].replace("/", "\\")} for row in rows()]
    assert open_images(table(images, windows)).train.fingerprint == expected.train.fingerprint
    mixed = changed(windows, 3, path=".\\pictures/03.png")
    assert len(open_images(table(images, mixed)).val) == 8
    with pytest.raises(
        DataError, match=r"the first is 'pictures.+no\.png' in line 6.*looked for as .*pictures/no\.png"
    ):
        open_images(table(images, changed(mixed, 4, path="pictures\\no.png")))
    (images / "pictures" / "03.png").rename(images / "pictures\\03.png")  # a name of its own
    data = open_images(table(images, changed(rows(), 3, path="pictures\\03.png")))
    assert "pictures\\03.png" in [*data.train.names, *data.val.names]


def test_a_row_that_repeats_another_counts_once_and_one_that_contradicts_is_refused(images: Path) -> None:
    split = ["train", "train", "test", "test"] * 10
    given = rows(patient=PATIENTS, split=split, note=range(40))
    expected = open_images(table(images, given), group="patient")
    again = [given[6] | {"note": "again"}, given[6] | {"path": ".\\pictures\\06.png"}, given[1]]
    found = open_images(table(images, [*given, *again]), group="patient")
    assert found.train.fingerprint == expected.train.fingerprint and found.val.fingerprint == expected.val.fingerprint
    assert found.train.reading.notes == ("3 rows repeat an earlier one and are left out",)
    for other in ({"label": "emu"}, {"split": "test"}, {"patient": "other"}):
        contrary = [*given, given[5] | other, given[5]]
        with pytest.raises(
            DataError, match=r"1 rows of .* with another label, part or group, .* in the lines 7 and 42"
        ):
            open_images(table(images, contrary), group="patient")
    assert len(open_images(table(images, [*given, given[5] | {"label": "CAT"}]), fold_labels=True).train) == 20
