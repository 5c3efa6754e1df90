"""Labels written in several ways, classes without a test image and columns of parts, whatever the source."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.cli_runner import document, run
from tests.each import for_each
from tests.image_sources import made
from tests.shard_files import png
from zoo.datasets import open_images
from zoo.datasets.labels import normalise_label
from zoo.errors import DataError

WRITTEN = [("Cat", "cat", "cat", "dog")[i % 4] for i in range(60)]
PETS = ["cat" if i % 2 else "dog" for i in range(40)]


pytestmark = pytest.mark.usefixtures("home")


def test_labels_are_alike_by_case_form_and_value() -> None:
    nfc, nfd = unicodedata.normalize("NFC", "CAFÉ"), unicodedata.normalize("NFD", "café")
    alike = [("circle", "CIRCLE"), ("Straße", "STRASSE"), (nfc, nfd), ("polar  bear", "Polar\u00a0bear"), ("1", "01"),
             (".50", "0.5"), ("-0", "0"), ("\uff11\uff12", "12"), ("cat", "c\u200bat"), ("1", "True")]  # fmt: skip
    for one, other in alike:
        assert normalise_label(one) == normalise_label(other)
    for one, other in (("1e3", "1000"), ("v1", "v1.0"), ("resume", "résumé")):
        assert normalise_label(one) != normalise_label(other)


@for_each(["folder", "folders", "npz", "table", "parquet", "huggingface"])
def test_labels_written_in_two_ways_are_said_and_joined_where_that_is_asked_for(source: str, tmp_path: Path) -> None:
    spec = made(tmp_path / source, source, WRITTEN)
    apart, joined = open_images(spec), open_images(spec, fold_labels=True)
    said = "2 labels differ only in case, in Unicode form or in how a number is written: 'cat', 'Cat'; --fold-labels "
    for data, classes, end in ((apart, ("Cat", "cat", "dog"), "joins them"), (joined, ("cat", "dog"), "has joined")):
        assert data.train.classes == data.val.classes == classes
        assert any(note.startswith(said + end) for note in data.train.reading.notes), data.train.reading.notes
        assert (data.train.n_per_class() + data.val.n_per_class())[-2:].tolist() == [30 if data is apart else 45, 15]
    assert apart.train.fingerprint != joined.train.fingerprint


@for_each(["folder", "folders", "npz", "parquet", "huggingface"])
def test_classes_that_may_stand_for_no_label_are_said(source: str, tmp_path: Path) -> None:
    for name in ("unlabeled", "no_label"):
        data = open_images(made(tmp_path / f"{source}-{name}", source, ["cat", "dog", name] * 20))
        said = f"20 images have classes that may stand for no label, {name!r}; leave them out if they do"
        assert said in data.train.reading.notes, data.train.reading.notes


def test_tags_and_numbers_written_in_two_ways_are_joined(tmp_path: Path) -> None:
    tags = [f"{label}|far" if number % 2 else label for number, label in enumerate(WRITTEN)]
    spec = made(tmp_path / "images", "table", tags)
    assert open_images(spec, multi_label=True).train.tags == ("Cat", "cat", "dog", "far")
    assert open_images(spec, multi_label=True, fold_labels=True).train.tags == ("cat", "dog", "far")
    columns = {"Cat": list("10" * 15), "cat": list("01" * 15), "dog": list("0011100000" * 3)}
    spec = made(tmp_path / "columns", "table", ["x"] * 30, **columns)
    with pytest.raises(DataError, match="tell no images apart, the first is 'Cat', which every image has"):
        open_images(spec, label_columns=["Cat", "cat", "dog"], fold_labels=True)
    spec = made(tmp_path / "numbers", "table", [("10", "10.0", "010", "9")[i % 4] for i in range(40)])
    data = open_images(spec)
    assert data.train.classes == ("010", "10", "10.0", "9") and "'010', '10', '10.0';" in data.train.reading.notes[0]
    assert len(open_images(spec, fold_labels=True).train.classes) == 2


def test_signs_that_are_not_seen_and_truths_are_said_and_joined(tmp_path: Path) -> None:
    spec = made(tmp_path / "images", "table", [("1", "True", "\uff11", "1\u200b", "0", "0")[i % 6] for i in range(60)])
    data = open_images(spec)
    assert len(data.train.classes) == 5
    assert "written: '1', '1\\u200b', 'True', '\\uff11'; --fold-labels joins them" in data.train.reading.notes[0]
    assert len(open_images(spec, fold_labels=True).train.classes) == 2


def test_parts_that_spell_a_class_in_two_ways_are_one_with_the_option(tmp_path: Path) -> None:
    nfc, nfd = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    for i, path in enumerate([f"{part}/{name}" for part, names in (("train", (nfc, "dog")), ("val", (nfd, "Dog")))
                              for name in names for _ in range(3 if part == "train" else 2)]):  # fmt: skip
        (tmp_path / "pets" / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / path / f"{i}.png").write_bytes(png(i))
    words = r"4 test images of 'pets' have a class that no training image has.*: 4 labels.*xe9.*u0301.*fold-labels"
    with pytest.raises(DataError, match=words):
        open_images(tmp_path / "pets")
    data = open_images(tmp_path / "pets", fold_labels=True)
    assert data.val.classes == data.train.classes == ("dog", nfc) and data.val.labels.tolist() == [0, 0, 1, 1]
    spec = made(tmp_path / "table", "table", ["a", "b", "b", "A"] * 10, split=["train", "train", "train", "test"] * 10)
    with pytest.raises(DataError, match=r"'A'; .*: 2 labels differ only in case.*--fold-labels joins them"):
        open_images(spec)
    assert open_images(spec, fold_labels=True).val.n_per_class().tolist() == [10, 0]


@for_each(["folders", "table", "parquet"])
def test_a_class_without_a_test_image_is_said_and_one_that_is_only_tested_refused(source: str, tmp_path: Path) -> None:
    tmp_path = tmp_path / source
    tmp_path.mkdir()
    split = ["test" if i % 5 == 4 else "train" for i in range(40)]
    labels = ["emu" if i in (8, 13) else label for i, label in enumerate(PETS)]
    data = open_images(made(tmp_path / "rare", source, labels, split=split))
    said = "1 of 3 classes has no test image, so that no test metric covers it: 'emu'"
    assert said in data.train.reading.notes and said in data.val.reading.notes
    assert data.val.classes == ("cat", "dog", "emu") and data.val.n_per_class()[2] == 0 and len(data.train) == 32
    if source != "parquet":
        labels = ["emu" if i in (4, 9) else label for i, label in enumerate(PETS)]
        with pytest.raises(DataError, match=r"2 test images of .* have a class that no training image has.*'emu'"):
            open_images(made(tmp_path / "new", source, labels, split=split))


def test_the_command_line_says_it_first_and_in_json_and_joins(tmp_path: Path) -> None:
    spec = made(tmp_path / "images", "table", WRITTEN[:40])
    quick = ("--settings", "full", "--no-knn", "--no-record", "--device", "cpu")
    found = run("evaluate", "pocket_init_rn", spec, *quick)
    said = "2 labels differ only in case, in Unicode form or in how a number is written: 'cat', 'Cat'"
    assert " ".join(found.stderr.split()).startswith(f"Note: {said}")
    probe = str(tmp_path / "probe")
    (one,) = document("evaluate", "pocket_init_rn", spec, *quick, "--fold-labels", "--save", probe)["evaluations"]
    assert len(one["metrics"]["per_class"]) == 2 and any(note.startswith(said) for note in one["images"]["notes"])
    assert "no classes of the probe" in document("predict", probe, spec)["note"]
    assert document("predict", probe, spec, "--fold-labels")["metrics"]["n_images"] == 8
    folder = Path(made(tmp_path / "new", "folder", ["DOG"]))
    assert document("predict", probe, str(folder))["metrics"] is None
    assert document("predict", probe, str(folder), "--fold-labels")["metrics"]["n_images"] == 1
