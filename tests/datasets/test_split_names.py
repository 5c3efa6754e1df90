"""Columns that say which images are trained and which are tested on, by their names and by their values."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, Features, load_from_disk

from tests.each import for_each
from tests.image_sources import made
from zoo.datasets import ImageData, open_images
from zoo.datasets.split_names import find_split
from zoo.errors import DataError

SOURCES = ("table", "parquet", "huggingface")
PETS = ["cat" if i % 2 else "dog" for i in range(40)]
PARTS = ["train"] * 24 + ["val"] * 8 + ["test"] * 8


pytestmark = pytest.mark.usefixtures("home")


def opened(folder: Path, source: str, how: dict[str, Any] | None = None, **columns: list[str]) -> ImageData:
    return open_images(made(folder / source, source, PETS, **columns), **(how or {}))


def sizes(data: ImageData) -> tuple[int, int, bool]:
    return len(data.train), len(data.val), data.is_split_here


@for_each(
    [(source, name) for source in SOURCES for name in ("Usage", "Fold", "SET", "dataset_split", "mode", "whatever")],
    arguments=2,
)
def test_a_column_that_names_a_part_in_every_row_is_used_whatever_its_name(
    source: str, name: str, tmp_path: Path
) -> None:
    words = {"train": "Training", "val": "PublicTest", "test": "PrivateTest"} if name == "Usage" else {}
    data = opened(tmp_path / name, source, **{name: [words.get(part, part) for part in PARTS]})
    assert sizes(data) == (24, 8, False)
    assert f"training and test images are those of the column {name!r}" in data.train.reading.notes
    assert any(note.startswith("8 images of ") and note.count("left out") for note in data.train.reading.notes)


@for_each([(source, name) for source in SOURCES for name in ("is_test", "isTest", "test_set", "holdout")], arguments=2)
def test_a_column_of_0_and_1_whose_name_says_a_part_is_used(source: str, name: str, tmp_path: Path) -> None:
    data = opened(tmp_path / name, source, **{name: [str(int(part == "test")) for part in PARTS]})
    assert sizes(data) == (32, 8, False)
    assert data.train.reading.notes == (f"training and test images are those of the column {name!r} (1: test)",)


@for_each(
    [
        ({"is_train": "train"}, ["train"] * 24 + ["test"] * 16),
        ({"is_valid": "val"}, ["train"] * 24 + ["val"] * 8 + ["train"] * 8),
        ({"train": "train", "val": "val"}, PARTS),
        ({"is_training_image": "train", "in_test": "test"}, PARTS),
        ({"is_train": "train", "is_val": "val", "is_test": "test"}, PARTS),
    ],
    arguments=2,
)
def test_columns_of_0_and_1_say_the_parts_of_all_rows_together(marks: dict[str, str], parts: list[str]) -> None:
    for no, yes in (("0", "1"), ("False", "True"), ("0.0", "1.0"), ("no", "Yes")):
        columns = {name: [yes if part == marked else no for part in PARTS] for name, marked in marks.items()}
        found = find_split(columns)
        assert (found.columns, found.parts) == (tuple(marks), parts)


def test_parts_are_known_in_any_case_width_and_padding(tmp_path: Path) -> None:
    written = ["Train ", "\uff34\uff32\uff21\uff29\uff2e", "TRAIN", "train\u200b", " \uff54est"] * 8
    assert sizes(opened(tmp_path, "table", {"split_column": "where"}, where=written)) == (32, 8, False)
    assert sizes(opened(tmp_path / "found", "table", where=written)) == (32, 8, False)


@for_each(SOURCES)
def test_what_looks_like_a_split_and_is_none_is_said_or_refused(source: str, tmp_path: Path) -> None:
    mixed = ["extra" if i % 10 == 0 else part for i, part in enumerate(PARTS)]
    with pytest.raises(DataError, match=r"4 of 40 images .* have no part in the column 'subset'"):
        opened(tmp_path / "sure", source, subset=mixed)
    (note,) = opened(tmp_path / "not sure", source, remark=mixed).train.reading.notes
    assert note.startswith("the column 'remark' was not used (not all of its values name a part, as 'extra')")
    (note,) = opened(tmp_path / "folds", source, cv_fold=list("01234" * 8)).train.reading.notes
    assert note.startswith("the column 'cv_fold' was not used (its values name no training and test part, the first")
    assert "for one of its folds add a column of train and test" in note
    both = opened(tmp_path / "both", source, stage=PARTS, is_test=[str(i % 2) for i in range(40)])
    assert both.train.reading.notes[:2] == (
        "training and test images are those of the column 'stage'",
        "the column 'is_test' was not used, for 'stage' says which images are tested on",
    )
    two_marks = {"is_train": ["1"] * 20 + ["0"] * 20, "is_test": ["0"] * 10 + ["1"] * 30}
    with pytest.raises(DataError, match=r"10 of 40 images .* have no part in the column"):
        opened(tmp_path / "contrary", source, **two_marks)


@for_each(SOURCES)
def test_a_column_of_0_and_1_that_may_say_parts_is_named_and_used_where_asked_for(source: str, tmp_path: Path) -> None:
    marks = {"service_test": ["True" if i < 10 else "False" for i in range(40)]}
    data = opened(tmp_path / "not sure", source, **marks)
    (note,) = data.train.reading.notes
    assert data.is_split_here and note.startswith("the column 'service_test' of 0 and 1 was not taken for parts")
    if source == "table":
        assert sizes(opened(tmp_path / "sure", source, {"split_column": "service_test"}, **marks)) == (30, 10, False)


def test_labels_groups_and_tags_say_no_parts(tmp_path: Path) -> None:
    spec = made(tmp_path / "labels", "table", PARTS, patient=[f"p{i // 2}" for i in range(40)])
    assert open_images(spec).train.classes == ("test", "train", "val")
    assert open_images(spec, group="patient").is_split_here
    spec = made(tmp_path / "group", "table", PETS, ward=PARTS)
    assert open_images(spec, group="ward").train.reading.notes == ()
    cells = [[f"{i}.png", i % 2, i % 3 == 0, i > 30] for i in range(40)]
    with open(tmp_path / "labels" / "tags.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "train", "car", "is_test"], *cells])
    data = open_images(tmp_path / "labels" / "tags.csv", multi_label=True)
    assert data.train.tags == ("train", "car") and sizes(data) == (31, 9, False)
    said = "the column {0!r} of 0 and 1 was not taken for parts; --split-column {0} takes it for them"
    assert said.format("train") in data.train.reading.notes
    usable = made(tmp_path / "usable", "table", PETS, is_valid=["0"] * 10 + ["1"] * 30)
    assert open_images(usable).train.reading.notes == (said.format("is_valid"),)
    assert sizes(open_images(usable, split_column="is_valid")) == (10, 30, False)


def test_the_names_of_a_numbered_class_say_the_part(tmp_path: Path) -> None:
    made(tmp_path / "plain", "huggingface", PETS, stage=PARTS)
    saved = load_from_disk(str(tmp_path / "plain"))
    features = Features({**saved.features, "stage": ClassLabel(names=["train", "val", "test"])})
    Dataset.from_dict(saved.to_dict(), features=features).save_to_disk(str(tmp_path / "named"))
    assert sizes(open_images(f"huggingface:{tmp_path}/named", label_column="label")) == (24, 8, False)
