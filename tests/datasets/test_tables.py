"""CSV files of paths and labels: columns, splits, groups, tags, odd spellings, and all that may be wrong with them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.datasets import open_images
from zoo.datasets.imagefiles import notes_on
from zoo.datasets.images import indicators_of
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


@for_each(
    [
        ("images.csv", {}),
        ("images.tsv", {"delimiter": "\t"}),
        ("images.csv", {"delimiter": ";"}),
        ("images.csv", {"delimiter": "\t"}),
        ("images.csv", {"encoding": "utf-8-sig"}),
        ("images.CSV", {"lineterminator": "\n"}),
        ("images.csv", {"quoting": csv.QUOTE_ALL}),
    ],
    arguments=2,
)
def test_every_usual_spelling_of_a_table_is_read(name: str, how: dict[str, Any], images: Path) -> None:
    given = rows(remark=['a "quoted", broken\nline; with\tall'] * 40)
    plain = open_images(table(images, rows()), name="x")
    data = open_images(table(images, given, name=name, **how), name="x")
    assert data.train.fingerprint == plain.train.fingerprint and data.train.names == plain.train.names


@for_each(
    [
        (["10", "9"], ("9", "10")),
        (["1.0", "0.0"], ("0", "1")),
        (["01", "1"], ("01", "1")),
        (["-1", "1"], ("-1", "1")),
        (["b", "A"], ("A", "b")),
        (["None", "x"], ("None", "x")),
    ],
    arguments=2,
)
def test_classes_are_in_the_order_of_numbers_or_of_code_points(
    given: list[str], classes: tuple[str, ...], images: Path
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


def without(given: list[Row], *names: str) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in names} for row in given]


def changed(given: list[Row], at: int, **cells: Any) -> list[Row]:
    given[at] |= cells
    return given


PATIENTS = [f"p{i // 4}" for i in range(40)]
TAGS = {"multi_label": True}
SPLIT = ["train", "train", "val", "val"] * 10
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (lambda: without(rows(), "path"), {}, "no column of paths"),
    (lambda: without(rows(), "label"), {}, "no column of labels .*--label-column"),
    (lambda: without(rows(a=[0, 1] * 20, b=[1, 0] * 20), "label"), {}, r"--multi-label .* \(a, b\)"),
    (rows, {"group": "patient"}, "has no column 'patient'; its columns are 'path', 'label'"),
    (lambda: [row | {"Label": "x", "LABEL": "y"} for row in rows()], {"label_column": "lAbel"}, "3 columns 'lAbel'"),
    (lambda: changed(rows(), 4, path="pictures/04.jpg"), {}, "1 of 40 images .*'pictures/04.jpg' in line 6, column"),
    (lambda: [row | {"path": row["path"][:-4]} for row in rows()], {}, r"add the ending \.png"),
    (lambda: changed(rows(), 3, path=" "), {}, "no path .*line 5"),
    (lambda: changed(changed(rows(), 6, label="NaN"), 7, label=""), {}, "2 of 40 images .* no label .*line 8.*'NaN'"),
    (lambda: rows(label=["cat"] * 40), {}, "the label 'cat' in the column 'label'"),
    (lambda: rows(label=range(40)), {}, "different labels, such as '0'"),
    (lambda: rows(label=["a|b", "b", "a", ""] * 9 + ["a|c", "b", "b", "a"]), TAGS, "leaves the tag 'c' without"),
    (lambda: rows(label=["a|b", "b"] * 20), TAGS, "1 of 2 tags .*'b', which every image has"),
    (lambda: rows(a=[0, 1] * 20, b=[0] * 40), {"label_columns": ["a", "b"]}, "'b', which no image has"),
    (lambda: without(rows(), "label"), TAGS, "0 columns of 0 and 1"),
    (lambda: rows(a=[0, 1] * 20, b=[1, 0, -1, ""] * 10), {"label_columns": ["a", "b"]}, "20 of 40 .*'b'.* line 4"),
    (lambda: rows(split=["train", "val", "other", ""] * 10), {}, "20 of 40 .* no part .* line 4 with 'other'"),
    (lambda: rows(split=["train"] * 40), {}, "All 40 rows of .* are 'train'"),
    (lambda: changed(rows(split=SPLIT), 2, label="emu"), {}, "1 test images .* the first is 'emu'"),
    (lambda: changed(rows(patient=PATIENTS), 7, patient=""), {"group": "patient"}, "no group .*line 9"),
    (lambda: rows(patient=["p"] * 40), {"group": "patient"}, "of the group 'p'"),
    ("path,label\npictures/00.png,a\npictures/01.png,b,c\nx\n", {}, "2 rows .* line 3 with 3"),
    ("", {}, "holds no row"),
    ("path,label\n", {}, "holds no row"),
    ("path,label\nb\udce4r.png,a\n", {}, "no text in UTF-8"),
    ('path,label\n"a"b,c\n', {}, "Line 2 of .* is no row"),
]


@for_each(WRONG, arguments=3)
def test_what_is_wrong_is_counted_and_said_with_its_line_and_column(
    make: Any, how: dict[str, Any], words: str, images: Path
) -> None:
    if isinstance(make, str):
        (images / "images.csv").write_bytes(make.encode("utf-8", "surrogateescape"))
    else:
        table(images, make())
    with pytest.raises(DataError, match=words) as refused:
        open_images(images / "images.csv", **how)
    assert "\n" not in str(refused.value)


def test_options_of_tables_are_refused_where_they_do_nothing(images: Path) -> None:
    with pytest.raises(QueryError, match="group is of CSV files, and 'digits' is none"):
        open_images("digits", group="patient")
    with pytest.raises(QueryError, match="was named for two things"):
        open_images(table(images, rows()), label_column="label", group="label")


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


def test_blank_lines_anywhere_are_no_rows(images: Path) -> None:
    expected = open_images(table(images, rows()))
    lines = (images / "images.csv").read_text().splitlines()
    for blank in ("", "   ", " , ", ",", '" ",""', "\t"):
        (images / "images.csv").write_text("\n".join([blank, *lines[:9], blank, *lines[9:], blank, blank]))
        assert open_images(images / "images.csv").train.fingerprint == expected.train.fingerprint, blank
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
