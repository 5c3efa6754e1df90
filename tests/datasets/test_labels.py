"""Labels written in several ways, classes without a test image and columns of parts, whatever the source."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from datasets import Image as ImageFeature
from PIL import Image

from tests.cli_runner import document, run
from tests.shard_files import png
from zoo.datasets import open_images
from zoo.datasets.labels import label_key
from zoo.errors import DataError

WRITTEN = ("Cat", "cat", "cat", "dog")  # by turns
PARTS = ["Train", "train", "train", "TRAIN", "dev"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))


def noise(number: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8))


def put(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise(number).save(path)


def folder(root: Path, labels: list[str]) -> str:
    for number, label in enumerate(labels):
        put(root / label / f"{number}.png", number)
    return str(root)


def folders(root: Path, labels: list[str]) -> str:
    for number, label in enumerate(labels):
        put(root / ("val" if number % 5 == 4 else "train") / label / f"{number}.png", number)
    return str(root)


def npz(root: Path, labels: list[str]) -> str:
    root.mkdir()
    np.savez(root / "all.npz", x=np.stack([np.asarray(noise(i)) for i in range(len(labels))]), y=np.array(labels))
    return str(root / "all.npz")


def table(root: Path, labels: list[str], **columns: list[str]) -> str:
    for number in range(len(labels)):
        put(root / f"{number}.png", number)
    names = ["path", "label", *columns]
    rows = zip([f"{i}.png" for i in range(len(labels))], labels, *columns.values(), strict=True)
    (root / "all.csv").write_text("\n".join(map(",".join, [names, *rows])), encoding="utf-8")
    return str(root / "all.csv")


def tagged(root: Path, labels: list[str]) -> str:
    return table(root, [f"{label}|far" if number % 2 else label for number, label in enumerate(labels)])


def parquet(root: Path, labels: list[str], **columns: list[str]) -> str:
    root.mkdir()
    images = [png(i) for i in range(len(labels))]
    pq.write_table(pa.table({"image": images, "label": labels, **columns}), root / "all.parquet", row_group_size=7)
    return f"parquet:{root}/all.parquet"


def saved(root: Path, labels: list[str], **columns: list[str]) -> str:
    kinds = {"image": ImageFeature(), "label": ClassLabel(names=sorted(set(labels)))}
    cells = {"image": [{"bytes": png(i), "path": None} for i in range(len(labels))], "label": labels, **columns}
    features = Features(kinds | {name: Value("string") for name in columns})
    Dataset.from_dict(cells, features=features).save_to_disk(str(root))
    return f"huggingface:{root}"


SOURCES: dict[str, Callable[[Path, list[str]], str]] = {
    "folder": folder,
    "folders": folders,
    "npz": npz,
    "table": table,
    "parquet": parquet,
    "huggingface": saved,
}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("circle", "CIRCLE", True),
        ("Straße", "STRASSE", True),
        (unicodedata.normalize("NFC", "CAFÉ"), unicodedata.normalize("NFD", "café"), True),
        ("polar  bear", "Polar\u00a0bear", True),
        ("1", "01", True),
        ("1.0", "+1.", True),
        (".50", "0.5", True),
        ("-0", "0", True),
        ("1000", "1000.00", True),
        ("1e3", "1000", False),
        ("v1", "v1.0", False),
        ("1", "-1", False),
        ("resume", "résumé", False),
        ("10", "100", False),
    ],
)
def test_labels_are_alike_by_case_form_and_value(one: str, other: str, is_same: bool) -> None:
    assert (label_key(one) == label_key(other)) == is_same


@pytest.mark.parametrize("source", SOURCES)
def test_labels_written_in_two_ways_are_said_and_joined_where_that_is_asked_for(tmp_path: Path, source: str) -> None:
    labels = [WRITTEN[i % 4] for i in range(60)]
    spec = SOURCES[source](tmp_path / "images", labels)
    apart, joined = open_images(spec), open_images(spec, fold_labels=True)
    said = "2 labels differ only in case, in Unicode form or in how a number is written: 'cat', 'Cat'; --fold-labels "
    for data, classes, end in ((apart, ("Cat", "cat", "dog"), "joins them"), (joined, ("cat", "dog"), "has joined")):
        assert data.train.classes == data.val.classes == classes
        assert any(note.startswith(said + end) for note in data.train.reading.notes), data.train.reading.notes
        assert (data.train.n_per_class() + data.val.n_per_class())[-2:].tolist() == [30 if data is apart else 45, 15]
    assert apart.train.fingerprint != joined.train.fingerprint


def test_tags_written_in_two_ways_are_joined(tmp_path: Path) -> None:
    spec = tagged(tmp_path / "images", [WRITTEN[i % 4] for i in range(60)])
    assert open_images(spec, multi_label=True).train.tags == ("Cat", "cat", "dog", "far")
    assert open_images(spec, multi_label=True, fold_labels=True).train.tags == ("cat", "dog", "far")
    columns = {"Cat": list("10" * 15), "cat": list("01" * 15), "dog": list("0011100000" * 3)}
    spec = table(tmp_path / "columns", ["x"] * 30, **columns)
    with pytest.raises(DataError, match="tell no images apart, the first is 'Cat', which every image has"):
        open_images(spec, label_columns=["Cat", "cat", "dog"], fold_labels=True)


def test_parts_that_spell_a_class_in_two_ways_are_one_with_the_option(tmp_path: Path) -> None:
    nfc, nfd = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    for part, names in (("train", (nfc, "dog")), ("val", (nfd, "Dog"))):
        for name in names:
            for number in range(3 if part == "train" else 2):
                put(tmp_path / "pets" / part / name / f"{number}.png", hash((part, name, number)) % 2**31)
    words = r"4 test images of 'pets' have a class that no training image has.*: 4 labels.*\\xe9.*e\\u0301.*fold-labels"
    with pytest.raises(DataError, match=words):
        open_images(tmp_path / "pets")
    data = open_images(tmp_path / "pets", fold_labels=True)
    assert data.val.classes == data.train.classes == ("dog", nfc) and data.val.labels.tolist() in ([0, 0, 1, 1],)
    split = ["train", "train", "train", "test"] * 10
    spec = table(tmp_path / "table", ["a", "b", "b", "A"] * 10, split=split)
    with pytest.raises(DataError, match=r"'A'; .*: 2 labels differ only in case.*--fold-labels joins them"):
        open_images(spec)
    assert open_images(spec, fold_labels=True).val.n_per_class().tolist() == [10, 0]


@pytest.mark.parametrize("source", ["folders", "table", "npz", "parquet"])
def test_a_class_without_a_test_image_is_said_and_one_that_is_only_tested_refused(tmp_path: Path, source: str) -> None:
    n, rare = 40, {8, 13}
    labels = ["emu" if i in rare else "cat" if i % 2 else "dog" for i in range(n)]
    is_test = np.array([i % 5 == 4 and i not in rare for i in range(n)])

    def made(root: Path, is_test: np.ndarray) -> str:
        if source == "folders":
            for i in range(n):
                put(root / ("val" if is_test[i] else "train") / labels[i] / f"{i}.png", i)
            return str(root)
        split = ["test" if one else "train" for one in is_test]
        if source == "npz":
            root.mkdir()
            x, y = np.stack([np.asarray(noise(i)) for i in range(n)]), np.array(labels)
            parts = {"train": ~is_test, "test": is_test}
            np.savez(
                root / "a.npz", **{f"{k}_{p}": v[one] for p, one in parts.items() for k, v in (("x", x), ("y", y))}
            )
            return str(root / "a.npz")
        return (table if source == "table" else parquet)(root, labels, split=split)

    data = open_images(made(tmp_path / "rare", is_test))
    said = "1 of 3 classes has no test image, so that no test metric covers it: 'emu'"
    assert said in data.train.reading.notes and said in data.val.reading.notes
    assert data.val.classes == ("cat", "dog", "emu") and data.val.n_per_class()[2] == 0 and len(data.train) == 32
    if source in ("folders", "table"):
        with pytest.raises(DataError, match=r"2 test images of .* have a class that no training image has.*'emu'"):
            open_images(made(tmp_path / "new", np.isin(np.arange(n), [*rare, 0, 1])))


@pytest.mark.parametrize("source", [table, parquet, saved])
@pytest.mark.parametrize("name", ["subset", "Fold", "SET", "partition", "phase", "split"])
def test_a_column_of_parts_under_another_name_is_used(tmp_path: Path, source: Callable[..., str], name: str) -> None:
    labels = ["cat" if i % 2 else "dog" for i in range(40)]
    data = open_images(source(tmp_path / "images", labels, **{name: PARTS * 8}))
    assert (len(data.train), len(data.val), data.is_split_here) == (32, 8, False)
    said = f"training and test images are those of the column {name!r}"
    assert (said in data.train.reading.notes) == (name != "split" or source is not table)


@pytest.mark.parametrize("source", [table, parquet, saved])
def test_a_column_that_names_no_parts_is_said_not_to_be_used(tmp_path: Path, source: Callable[..., str]) -> None:
    labels = ["cat" if i % 2 else "dog" for i in range(40)]
    data = open_images(source(tmp_path / "folds", labels, fold=list("01234" * 8)))
    (note,) = data.train.reading.notes
    assert data.is_split_here and note.startswith(
        "the column 'fold' was not used (its values name no training and test part, the first is '0')"
    )
    both = open_images(source(tmp_path / "both", labels, fold=PARTS * 8, set=list("ab" * 20), subset=PARTS * 8))
    assert both.train.reading.notes[:2] == (
        "training and test images are those of the column 'subset'",
        "the column 'fold' was not used, for 'subset' says which images are tested on",
    )


def test_the_command_line_says_it_first_and_in_json_and_joins(tmp_path: Path) -> None:
    spec = table(tmp_path / "images", [WRITTEN[i % 4] for i in range(40)])
    quick = ("--settings", "full", "--no-knn", "--no-record", "--device", "cpu")
    found = run("evaluate", "pocket_init_rn", spec, *quick)
    said = "2 labels differ only in case, in Unicode form or in how a number is written: 'cat', 'Cat'"
    assert " ".join(found.stderr.split()).startswith(f"Note: {said}")
    (one,) = document("evaluate", "pocket_init_rn", spec, *quick)["evaluations"]
    assert any(note.startswith(said) for note in one["images"]["notes"])
    probe = str(tmp_path / "probe")
    (one,) = document("evaluate", "pocket_init_rn", spec, *quick, "--fold-labels", "--save", probe)["evaluations"]
    assert len(one["metrics"]["per_class"]) == 2
    assert "no classes of the probe" in document("predict", probe, spec)["note"]
    assert document("predict", probe, spec, "--fold-labels")["metrics"]["n_images"] == 8
    put(tmp_path / "new" / "DOG" / "1.png", 1)
    assert document("predict", probe, str(tmp_path / "new"))["metrics"] is None
    assert document("predict", probe, str(tmp_path / "new"), "--fold-labels")["metrics"]["n_images"] == 1
