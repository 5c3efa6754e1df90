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
from zoo.datasets.images import get_numbers, indicators_of
from zoo.datasets.labels import describe_numeric_labels, is_measurement
from zoo.datasets.notes import describe_decoding
from zoo.errors import DataError, QueryError

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Forty images, each of noise of its own, in a folder next to the table."""
    (tmp_path / "pictures").mkdir()
    for number in range(40):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number:02}.png")
    return tmp_path


Row = dict[str, Any]


def rows(n: int = 40, **columns: Any) -> list[Row]:
    """A row per image, with two classes by turns unless a column says otherwise."""
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
    assert describe_decoding([data.train, data.val]) == [
        "10 images of the part 'test' are left out, for there are some of 'val'"
    ]
    data = open_images(table(images, rows(part=["training"] * 30 + ["testing"] * 10)), split_column="Part")
    assert (len(data.train), len(data.val), describe_decoding([data.train])) == (30, 10, [])


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
        (["Nonesuch", "x"], ("Nonesuch", "x")),
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
    (lambda: without(rows(a=[0, 1] * 20, b=[1, 0, 0, 1] * 10), "label"), {}, r"--multi-label .* \(a, b\)"),
    (rows, {"group": "patient"}, "has no column 'patient'; its columns are 'path', 'label'"),
    (lambda: [row | {"Label": "x", "LABEL": "y"} for row in rows()], {"label_column": "lAbel"}, "3 columns 'lAbel'"),
    (lambda: changed(rows(), 4, path="pictures/04.jpg"), {}, "1 of 40 images .*'pictures/04.jpg' in line 6, column"),
    (lambda: [row | {"path": f"{row['path'][:-4]}x"} for row in rows()], {}, "or below the folder of the table"),
    (lambda: changed(rows(), 3, path=" "), {}, "no path .*line 5"),
    (lambda: changed(changed(rows(), 6, label="NaN"), 7, label=""), {}, "2 of 40 images .* no label,.*line 8.*'NaN'"),
    (lambda: rows(label=["cat"] * 40), {}, "the label 'cat' in the column 'label'"),
    (lambda: rows(label=range(40)), {}, "different labels, such as '0'"),
    (lambda: rows(label=["a|b", "b", "a", ""] * 9 + ["a|c", "b", "b", "a"]), TAGS, "leaves the tag 'c' without"),
    (lambda: rows(label=["a|b", "b"] * 20), TAGS, "1 of 2 tags .*'b', which every image has"),
    (lambda: rows(a=[0, 1] * 20, b=[0] * 40), {"label_columns": ["a", "b"]}, "'b', which no image has"),
    (lambda: without(rows(), "label"), TAGS, "0 columns of 0 and 1"),
    (
        lambda: rows(a=[0, 1] * 20, b=[1, 0, -1, ""] * 10),
        {"label_columns": ["a", "b"]},
        "10 of 40 .* -1, .*'b'.* line 4",
    ),
    (lambda: rows(a=[0, 1] * 20, b=[1, 0, 2, "x"] * 10), {"label_columns": ["a", "b"]}, "20 of 40 .*'b'.* line 4"),
    (lambda: rows(split=["train", "val", "other", ""] * 10), {}, "20 of 40 .* no part .* line 4 with 'other'"),
    (lambda: rows(split=["train"] * 40), {}, "All 40 rows of .* are 'train'"),
    (lambda: changed(rows(split=SPLIT), 2, label="emu"), {}, "1 test image .* the first is 'emu'"),
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
        with pytest.raises(DataError, match=r"1 row with .* another label, part or group, .* in the lines 7 and 42"):
            open_images(table(images, contrary), group="patient")
    assert len(open_images(table(images, [*given, given[5] | {"label": "CAT"}]), fold_labels=True).train) == 20


def notes_of(file: Path, **how: Any) -> tuple[str, ...]:
    return open_images(file, **how).train.reading.notes


def bare(**columns: Any) -> list[Row]:
    """Rows that name images without folder and ending, and have no label but those given."""
    return without([row | {"image_id": row["path"][9:11]} for row in rows(**columns)], "path", "label")


def test_names_without_ending_or_in_another_folder_are_found_and_said(images: Path) -> None:
    expected = open_images(table(images / "pictures", [row | {"path": row["path"][9:]} for row in rows()]), name="x")
    file = table(images, bare(dx=[row["label"] for row in rows()]))
    data = open_images(file, name="x")
    assert data.train.names == expected.train.names and data.train.fingerprint == expected.train.fingerprint
    assert data.train.reading.notes == (
        "images are those of the column 'image_id'",
        "labels are those of the column 'dx'",
        "40 of 40 names of images were found in pictures/ with the ending .png",
    )
    named = open_images(file, name="x", image_folder=images / "pictures")
    assert named.train.fingerprint == data.train.fingerprint
    (images / "more" / "deep").mkdir(parents=True)
    for number in range(20):
        (images / "pictures" / f"{number:02}.png").rename(images / "more" / "deep" / f"{number:02}.png")
    data = open_images(file)
    assert (data.train.names[0][:9], data.train.names[-1][:8]) == ("more/deep", "pictures")
    assert "40 of 40 names of images were found in more/deep/, pictures/ with the ending .png" in notes_of(file)


def test_names_that_more_than_one_image_has_are_refused_with_both(images: Path) -> None:
    file = table(images, bare(dx=[row["label"] for row in rows()]))
    (images / "small").mkdir()
    for number in range(40):
        Image.new("L", (4, 4), number).save(images / "small" / f"{number:02}.jpg")
    with pytest.raises(DataError, match=r"there are pictures/00\.png and small/00\.jpg: .*--image-folder"):
        open_images(file)
    assert open_images(file, image_folder=images / "small").train.names[0].endswith(".jpg")
    (images / "small" / "07.jpg").unlink()  # one folder is left that has them all
    assert open_images(file).train.names[0].endswith(".png")
    with pytest.raises(DataError, match=r"There is no folder .*nowhere"):
        open_images(file, image_folder=images / "nowhere")
    with pytest.raises(QueryError, match="image_folder is of CSV files"):
        open_images("digits", image_folder=images)


def test_a_column_is_taken_by_a_less_sure_name_only_if_no_other_has_one(images: Path) -> None:
    given = [row | {"breed": row["label"], "species": "cat"} for row in rows()]
    with pytest.raises(DataError, match="may have its labels in 'breed' and 'species'; say in which with --label-col"):
        open_images(table(images, without(given, "label")))
    file = table(images, without([row | {"photo of it": row["path"]} for row in rows()], "path"))
    assert notes_of(file) == ("images are those of the column 'photo of it'",)  # each ends like an image


def test_columns_of_which_each_image_has_one_are_classes(images: Path) -> None:
    hot = {name: [float(i % 3 == place) for i in range(40)] for place, name in enumerate(("MEL", "NV", "BCC"))}
    file = table(images, without(rows(**hot), "label"))
    data = open_images(file)
    assert data.train.classes == ("BCC", "MEL", "NV") and not data.train.tags
    assert "classes are the 3 columns MEL, NV, BCC, of which each image has one" in data.train.reading.notes
    assert open_images(file, multi_label=True).train.tags == ("MEL", "NV", "BCC")
    assert open_images(file, ignore_labels=["NV"]).train.classes == ("BCC", "MEL")
    hot["NV"][0] = 1.0
    with pytest.raises(DataError, match=r"--multi-label for the columns of 0 and 1 \(MEL, NV, BCC\)"):
        open_images(table(images, without(rows(**hot), "label")))


@for_each(
    [("ant,bee", ",", "a comma"), ("ant bee", " ", "blanks"), ("['ant', 'bee']", ",", "a comma")],
    arguments=3,
)
def test_tags_with_commas_or_blanks_between_them_are_several(written: str, sign: str, by: str, images: Path) -> None:
    two = ["ant|bee", "ant", "bee", "bee|cow", "ant|cow", "cow", "ant|bee|cow"]
    cells = [two[i % 7] for i in range(40)]
    expected = open_images(table(images, rows(label=cells)), multi_label=True)
    if written.startswith("["):
        cells = [str(cell.split("|")) for cell in cells]
    file = table(images, rows(tagged=[cell.replace("|", sign) for cell in cells]))
    found = open_images(file, multi_label=True, label_column="tagged")
    assert found.train.tags == ("ant", "bee", "cow") and found.train.fingerprint == expected.train.fingerprint
    assert f"3 tags are told apart by {by} in the column 'tagged'" in found.train.reading.notes
    (hint,) = notes_of(file, label_column="tagged")
    assert "--multi-label takes them for several" in hint
    file = table(images, rows(label=["polar bear", "brown bear", "cat", "bear"] * 10))  # not taken apart
    assert open_images(file, multi_label=True).train.tags == ("bear", "brown bear", "cat", "polar bear")
    assert notes_of(file) == ()


def test_blank_cells_of_tags_count_as_0_and_uncertain_ones_as_asked(images: Path) -> None:
    columns = {"Edema": ["1.0", "0.0", "-1.0", "", "1.0"] * 8, "Mass": ["1.0", "", "0.0", "1.0"] * 10}
    file = table(images, without(rows(**columns), "label"))
    with pytest.raises(DataError, match=r"8 of 40 .* -1, which is uncertain, in the column 'Edema', .* line 4 .*--unc"):
        open_images(file, multi_label=True)
    has = {}
    for uncertain, counts in (("positive", 1), ("negative", 0)):
        data = open_images(file, multi_label=True, uncertain=uncertain)
        assert {"18 blank cells of 2 columns of tags count as 0", f"8 cells with -1 count as {counts}"} <= {
            *data.train.reading.notes
        }
        has[uncertain] = sum(int(indicators_of(part)[:, 0].sum()) for part in (data.train, data.val))
    assert has == {"positive": 24, "negative": 16}


@for_each(["NA", "nan", "null", "None", "#N/A", "?", "-", "unknown", "Unlabelled", "-1"])
def test_a_label_that_may_stand_for_none_is_refused_left_out_or_kept(odd: str, images: Path) -> None:
    others = ["0", "1"] if odd == "-1" else ["cat", "dog"]
    file = table(images, rows(label=[odd if i % 4 == 0 else others[i % 2] for i in range(40)]))
    with pytest.raises(DataError, match=r"10 of 40 .* line 2 with .*; --ignore-label .* leaves .*--keep-na takes"):
        open_images(file)
    left = open_images(file, ignore_labels=[odd])
    assert left.train.classes == tuple(others) and len(left.train) + len(left.val) == 30
    assert left.train.reading.notes == (f"10 images with the label {odd!r} are left out",)
    kept = open_images(file, keep_na=True)
    assert set(kept.train.classes) == {odd, *others} and len(kept.train) + len(kept.val) == 40
    with pytest.raises(QueryError, match=r"No images of .* have the label 'emu'"):
        open_images(file, ignore_labels=["emu"])


def test_withheld_labels_of_the_test_part_are_said_and_left_out(images: Path) -> None:
    given = rows(split=["train"] * 30 + ["test"] * 10, label=["0", "1"] * 15 + ["-1"] * 10)
    with pytest.raises(DataError, match="part 'test' are such, whose labels are withheld: --ignore-label -1 tests on"):
        open_images(table(images, given))
    data = open_images(table(images, given), ignore_labels=["-1"])
    assert data.is_split_here and (len(data.train), len(data.val)) == (24, 6)
    assert "no image of the part 'test' has another label: some of the others are tested on" in data.train.reading.notes


def test_columns_that_measure_something_are_numbers_and_others_classes_unless_asked_for(images: Path) -> None:
    rng = np.random.default_rng(0)
    ages = [f"{age:.1f}" for age in rng.normal(50, 20, 40)]
    found = open_images(table(images, rows(age=ages)), label_column="age")
    assert (found.train.target, len(found.train), len(found.val)) == ("age", 32, 8)
    of_name = dict(zip(found.train.names, get_numbers(found.train), strict=True))
    assert all(
        of_name[f"pictures/{i:02}.png"] == float(age) for i, age in enumerate(ages) if f"pictures/{i:02}.png" in of_name
    )
    (note,) = found.train.reading.notes
    assert note == (
        f"the labels of 'age' are numbers ({len(set(ages))} distinct): a regression probe; --target class takes them "
        "for classes"
    )
    commas = open_images(table(images, rows(age=[age.replace(".", ",") for age in ages])), label_column="age")
    assert get_numbers(commas.train).tolist() == get_numbers(found.train).tolist()
    assert "commas in them are taken for decimal points" in commas.train.reading.notes
    halves, whole = [f"{(i % 5) / 2 + 1}" for i in range(40)], [i % 19 + 40 for i in range(40)]
    for name, column, n in (
        ("label", halves, 5),
        ("grade", halves, 5),
        ("grade", whole, 19),
        ("weeks", range(18, 58), 0),
    ):
        file = table(images, rows(**{name: column}))
        taken = open_images(file, label_column=name)
        assert (taken.train.target == "") == (n > 0) and (not n or len(taken.train.classes) == n)
        hint = f"the {n} numbers of 'grade' were taken for classes; --target number predicts them as numbers"
        assert (hint in taken.train.reading.notes) == (name == "grade")
        forced = open_images(file, label_column=name, label_kind="number")
        assert forced.train.target == name and get_numbers(forced.val).mean() > 0
        assert not [note for note in forced.train.reading.notes if "--target" in note]
    assert (
        len(
            open_images(
                table(images, rows(age=[i // 2 + 20 for i in range(40)])), label_column="age", label_kind="class"
            ).train.classes
        )
        == 20
    )


@for_each(["", "n.d.", "inf", "1,234", "nan", "31 years"])
def test_what_is_no_number_among_numbers_is_refused_by_its_line_and_left_out_if_asked(odd: str, images: Path) -> None:
    ages = [f"{20.25 + i}" for i in range(39)]
    file = table(images, rows(age=[*ages, odd]))
    with pytest.raises(DataError, match=r"1 of 40 images of .* 'age', the first is line 41 .*--ignore-label"):
        open_images(file, label_column="age")
    left = open_images(file, label_column="age", ignore_labels=[odd])
    assert len(left.train) + len(left.val) == 39 and left.train.target == "age"


def test_one_number_several_columns_of_them_and_a_folder_of_classes_are_refused(images: Path) -> None:
    file = table(images, rows(age=[7] * 40, a=[i % 2 for i in range(40)], b=[i % 3 == 0 for i in range(40)]))
    with pytest.raises(DataError, match=r"All 40 images of .* have the number '7' in the column 'age'"):
        open_images(file, label_column="age", label_kind="number")
    for how in ({"label_columns": ["age", "a"]}, {"multi_label": True}):
        with pytest.raises(QueryError, match=r"expected one column of them .* one number per image"):
            open_images(file, label_kind="number", **how)
    with pytest.raises(QueryError, match="label_kind is of CSV files"):
        open_images("digits", label_kind="number")
    with pytest.raises(QueryError, match="Got the label_kind 'age'; expected 'class' or 'number'"):
        open_images(file, label_kind="age")


def test_numbers_of_patients_stay_on_one_side(images: Path) -> None:
    ages = [f"{20.25 + i}" for i in range(40)]
    found = open_images(
        table(images, rows(age=ages, who=[f"p{i // 4}" for i in range(40)])), label_column="age", group="who"
    )
    assert not set(found.train.groups.tolist()) & set(found.val.groups.tolist())  # type: ignore[union-attr]


@for_each(["images.csv", "images.tsv", "metadata.csv"])
def test_folders_in_the_paths_say_the_parts_where_no_column_does(name: str, images: Path) -> None:
    given = rows(path=[f"{name}s/{'train' if i < 28 else 'val'}/{i:02}.png" for i in range(40)])
    for i, row in enumerate(given):
        (images / row["path"]).parent.mkdir(parents=True, exist_ok=True)
        (images / row["path"]).write_bytes((images / "pictures" / f"{i:02}.png").read_bytes())
    how = {"delimiter": "\t"} if name.endswith("tsv") else {}
    data = open_images(table(images, given, name=name, **how))
    assert (len(data.train), len(data.val), data.is_split_here) == (28, 12, False)
    assert "training and test images are those of the folders in the paths" in describe_decoding([data.train])
    windows = [row | {"path": row["path"].replace("/", "\\")} for row in given]
    assert len(open_images(table(images, windows, name=name, **how)).val) == 12
    said = [row | {"Usage": "test" if i < 10 else "train"} for i, row in enumerate(given)]
    by_column = open_images(table(images, said, name=name, **how))
    assert len(by_column.val) == 10
    given[0]["path"] = "pictures/00.png"
    part = open_images(table(images, given, name=name, **how))
    assert part.is_split_here
    assert "parts that folders in paths say were not used, for 1 of 40 paths have none" in describe_decoding(
        [part.train]
    )


def test_paths_that_begin_with_a_slash_may_be_below_the_folder_of_images(images: Path) -> None:
    (images / "places.txt").write_text("".join(f"/{i:02}.png {i % 2}\n" for i in range(40)))
    data = open_images(images / "places.txt", image_folder=images / "pictures")
    assert len(data.train) + len(data.val) == 40 and sorted(data.train.names)[0] == "00.png"
    with pytest.raises(DataError, match=r"40 of 40 images .* are not there"):
        open_images(images / "places.txt", image_folder=images)


@for_each(
    ["Patient ID", "SubjectID", "StudyInstanceUID", "slide", "Scene-ID", "video", "participant", "person", "site"]
)
def test_a_column_that_may_say_groups_is_named_however_it_is_written(name: str, images: Path) -> None:
    notes = notes_of(table(images, rows(**{name: [f"g{i // 2}" for i in range(40)]})))
    quoted = f"'{name}'" if " " in name else name
    assert f"images with the same {name!r} may be on both sides; --group {quoted} keeps them together" in notes
    for values in (range(40), ["one"] * 40):
        assert not any("both sides" in note for note in notes_of(table(images, rows(**{name: values}))))


def test_columns_of_1_and_minus_1_alone_are_tags_that_an_image_has_or_has_not(images: Path) -> None:
    columns = {"Smiling": ["1", "-1"] * 20, "Young": ["-1", "-1", "1", "1"] * 10}
    data = open_images(table(images, without(rows(**columns), "label")), multi_label=True)
    assert sum(indicators_of(part).sum(axis=0) for part in (data.train, data.val)).tolist() == [20, 20]
    assert "40 cells with -1 count as 0, for the others have 1" in describe_decoding([data.train])
    for other in ("0", ""):
        columns["Young"][1] = other
        with pytest.raises(DataError, match="-1, which is uncertain"):
            open_images(table(images, without(rows(**columns), "label")), multi_label=True)


def test_a_second_column_that_is_called_like_labels_is_said(images: Path) -> None:
    file = table(images, rows(target=[i % 4 for i in range(40)]))
    assert "labels are those of the column 'label', not of 'target'" in notes_of(file)
    assert notes_of(file, label_column="label") == ()


def test_many_numbers_under_the_name_label_are_said_to_be_classes_unless_they_count_from_0_or_1_or_are_codes() -> None:
    ages, classes, codes = range(18, 90), range(100), [f"{code:05}" for code in range(115, 9000, 99)]
    said = "the 72 numbers of 'label' were taken for classes; --target number predicts them as numbers"
    assert describe_numeric_labels(dict.fromkeys(map(str, ages), 1), "label") == [said]
    assert not describe_numeric_labels(dict.fromkeys(map(str, classes), 1), "label")
    for name in ("label", "postcode"):
        assert not describe_numeric_labels(dict.fromkeys(codes, 1), name) and not is_measurement(
            dict.fromkeys(codes, 1), name
        )
    assert is_measurement({f"{share / 10:.1f} %": 1 for share in range(400)}, "share")
