"""Images that are copies of each other: known by their content, on one side of every split, counted and said."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.planted_features import GridProbe, features, gaussian_pair
from zoo.datasets import array_images, held_out, open_images
from zoo.datasets import images as contents_module
from zoo.datasets.images import contents_of_files, copies_of
from zoo.datasets.subsets import hash_split, stratified_split
from zoo.evaluation.curves.regimes import regime_subset
from zoo.evaluation.measuring import divide, label_setting
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.risk import decompose
from zoo.evaluation.streamed_training import with_copies
from zoo.features import load_features

ENCODER = "pocket_simclr_rn_shapes"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def noise(path: Path, seed: int) -> Path:
    """An image whose file has the size of all others: an uncompressed bitmap."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def folder(root: Path, *, n: int = 30, first: int = 0) -> Path:
    """Two classes of n images each, all different."""
    for number in range(2 * n):
        noise(root / ("cat" if number % 2 else "dog") / f"{number:03}.bmp", first + number)
    return root


def test_a_folder_is_told_by_what_is_in_its_files_and_not_by_their_names_and_sizes(tmp_path: Path) -> None:
    one, other = (open_images(folder(tmp_path / name / "data", first=first)) for name, first in (("a", 0), ("b", 500)))
    assert one.train.names == other.train.names and one.name == other.name == "data"
    assert one.train.fingerprint != other.train.fingerprint
    shutil.copytree(tmp_path / "a" / "data", tmp_path / "c" / "data")
    assert open_images(tmp_path / "c" / "data").train.fingerprint == one.train.fingerprint


def test_hashes_of_large_folders_are_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(contents_module, "_CACHED_FROM_BYTES", 1)
    files = [str(noise(tmp_path / f"{number}.bmp", number)) for number in range(4)]
    for file in files:
        os.utime(file, ns=(10**18, 10**18))
    monkeypatch.setattr(contents_module.time, "time_ns", lambda: 2**62)  # a day on which all of this is long ago
    before = contents_of_files(files)
    reads: list[str] = []
    read = contents_module._of_file
    monkeypatch.setattr(contents_module, "_of_file", lambda path: reads.append(path) or read(path))  # type: ignore[func-returns-value]
    assert np.array_equal(contents_of_files(files), before) and not reads
    noise(Path(files[2]), 99)  # of the same size
    os.utime(files[2], ns=(10**18, 10**18))  # and with the time of the old one, as some tools copy
    after = contents_of_files(files)
    assert len(reads) == 4 and (after != before).tolist() == [False, False, True, False]


@pytest.mark.parametrize("split", [hash_split, stratified_split])
def test_copies_lie_on_one_side_of_a_split_and_without_copies_nothing_moves(split: object) -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (200, 4, 4), np.uint8)
    labels = np.arange(200, dtype=np.int64) % 2
    names = [f"{number:03}" for number in range(200)]
    pixels[100:140] = pixels[:40]  # 40 copies, a few with the other label
    labels[100:105] = 1 - labels[:5]
    images = array_images(pixels, labels, name="x", split="all", classes=("a", "b"), names=names)
    data = split(images, val_share=0.3, seed=1)  # type: ignore[operator]
    assert not set(data.train.contents.tolist()) & set(data.val.contents.tolist())
    assert 40 < len(data.val) < 80 and len(data.train) + len(data.val) == 200
    alone = images.subset(np.arange(100), split="all")
    unknown = array_images(pixels[:100], labels[:100], name="x", split="all", classes=("a", "b"), names=names[:100])
    object.__setattr__(unknown, "contents", None)
    assert split(alone, val_share=0.3, seed=1).val.names == split(unknown, val_share=0.3, seed=1).val.names  # type: ignore[operator]


def test_a_held_out_part_has_as_many_images_as_asked_for_and_no_copy_of_the_rest() -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 300)
    contents = random.integers(0, 220, 300).astype(np.uint64)  # most are there once or twice, in any classes
    plain = held_out(labels, 60, seed=4)
    chosen = held_out(labels, 60, seed=4, contents=contents)
    assert len(chosen) == len(plain) == 60
    assert not np.isin(contents[chosen.rest()], contents[chosen.indices]).any()
    assert np.array_equal(np.bincount(labels[chosen.indices]), np.bincount(labels[plain.indices]))
    same = held_out(labels, 60, seed=4, contents=np.arange(300).astype(np.uint64))
    assert np.array_equal(same.indices, plain.indices)


@pytest.mark.parametrize("name", ["full", "5-shot", "10%"])
def test_no_probe_is_tuned_on_a_copy_of_what_it_is_trained_on(name: str) -> None:
    random = np.random.default_rng(2)
    labels, contents = np.arange(240) % 4, random.integers(0, 120, 240).astype(np.uint64)
    train = replace(features(np.zeros((240, 1), np.float32), labels), contents=contents)
    division = divide(label_setting(name), train, n_test=60, seed=0)
    assert len(division.tuning) > 0
    assert not np.isin(
        contents[division.tuning], contents[division.choice if division.refits else division.train]
    ).any()


def test_no_held_out_subset_has_a_copy_of_what_its_probe_is_trained_on() -> None:
    train, test = gaussian_pair(n_train=240, n_test=60)
    twice = np.arange(240) // 8 * 4 + np.arange(240) % 4  # row i and i + 4 are one image
    doubled = features(np.asarray(train.x)[twice], train.y[twice])
    object.__setattr__(doubled, "contents", twice.astype(np.uint64))
    memory = decompose(features(doubled.x, doubled.y), test, probe=NearestCopy, n_bootstrap=100)
    honest = decompose(doubled, test, probe=NearestCopy, n_bootstrap=100)
    assert memory.risks["R_AS"].error.value < 25 < 45 < honest.risks["R_AS"].error.value
    for run_ in honest.risks["R_AS"].runs:
        outside = np.setdiff1d(np.arange(240), run_.evaluated)
        assert not np.isin(doubled.contents[run_.evaluated], doubled.contents[outside]).any()


class NearestCopy(GridProbe):
    """Knows an image that it has seen, and nothing else."""

    def fit(self, x: object, y: object, *, x_val: object = None, y_val: object = None) -> NearestCopy:
        self.seen = {row.tobytes(): label for row, label in zip(np.asarray(x), np.asarray(y), strict=True)}
        self.report_ = {}
        return self

    def refit(self, x: object, y: object) -> NearestCopy:
        return self.fit(x, y)

    def predict(self, x: object) -> object:
        return np.array([self.seen.get(row.tobytes(), 0) for row in np.asarray(x)])


def test_probes_that_hold_out_rows_by_themselves_keep_copies_together() -> None:
    y, groups = np.arange(60) % 3, (np.arange(60) // 6 * 3 + np.arange(60) % 3).astype(np.uint64)  # all twice
    out = with_copies(np.arange(0, 60, 7), y, groups)
    assert len(out) and not np.isin(groups[np.setdiff1d(np.arange(60), out)], groups[out]).any()
    random = np.random.default_rng(3)
    means = random.normal(size=(3, 8))
    x = (means[y] + 2.0 * random.normal(size=(60, 8))).astype(np.float32)[groups.astype(int)]
    x = np.concatenate([x, (means[y] + 2.0 * random.normal(size=(60, 8))).astype(np.float32)])
    labels = np.concatenate([y, y])
    groups = np.concatenate([groups, 1000 + np.arange(60).astype(np.uint64)])  # sixty images without a copy
    told, untold = (NeighbourProbe(k=(1, 20)).fit(x, labels, **more).report_ for more in ({"groups": groups}, {}))
    assert told["errors_percent"]["1"] > untold["errors_percent"]["1"] + 10  # copies find each other


def test_a_regime_is_not_validated_on_copies_of_what_it_is_trained_on() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 4, 4), np.uint8)
    pixels[30:] = pixels[:30]
    labels = (np.arange(60) % 3).astype(np.int64)
    part = array_images(pixels, labels, name="x", split="train", classes=("a", "b", "c"))
    for n in (24, 60):
        found = regime_subset(part, n, seed=0, validation_share=0.4)
        assert len(found.validation) and not np.isin(part.contents[found.validation], part.contents[found.train]).any()


def test_copies_are_counted_within_and_between_parts() -> None:
    train, test = np.array([1, 1, 1, 2, 3], np.uint64), np.array([3, 4, 4, 5, 1], np.uint64)
    found = copies_of(train, np.array([0, 0, 1, 0, 2]), test, np.array([1, 0, 0, 2, 0]))
    assert found is not None
    assert (found.test_in_train, found.within_train, found.within_test, found.in_two_classes) == (2, 2, 1, 2)
    assert len(found.notes()) == 4 and "2 of 5 test images" in found.notes()[0]
    assert copies_of(None, np.zeros(0, np.int64), test, np.zeros(5, np.int64)) is None


def test_leaked_images_are_said_by_every_verb_that_reads_them(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    for number in range(24):
        noise(root / "train" / ("cat" if number % 2 else "dog") / f"{number}.bmp", number)
    for number in range(10):
        noise(root / "val" / ("cat" if number % 2 else "dog") / f"{number}.bmp", 100 + number)
    for number in (1, 3, 5):  # cats that were trained on
        shutil.copy(root / "train" / "cat" / f"{number}.bmp", root / "val" / "cat" / f"again {number}.bmp")
    shutil.copy(root / "train" / "cat" / "7.bmp", root / "train" / "dog" / "is a cat.bmp")
    counts = {"test_in_train": 3, "within_train": 1, "within_test": 0, "in_two_classes": 1, "n_train": 25, "n_test": 13}
    few = ("--settings", "full", "--no-record")
    (found,) = document("evaluate", ENCODER, str(root), *few)["evaluations"]
    assert found["copies"] == counts
    text = run("evaluate", ENCODER, str(root), *few).output
    assert "3 of 13 test images (23 %) are exact copies of training images" in text
    assert "1 image stands in more than one class" in text
    assert document("metric", "rankme", ENCODER, str(root), "--no-record")["copies"] == counts
    folders = {one["part"]: one["folder"] for one in document("features", ENCODER, str(root))["features"]}
    assert document("probe", folders["train"], folders["val"], "--settings", "full")["copies"] == counts
    assert document("decompose", folders["train"], folders["val"], "--subsets", "1")["copies"] == counts


def test_features_on_disk_know_what_is_in_their_images(tmp_path: Path) -> None:
    few = features(np.ones((5, 2)), [0, 1, 0, 1, 0])
    object.__setattr__(few, "contents", np.array([1, 2, 2**63 + 1, 4, 1], np.uint64))
    assert np.array_equal(load_features(few.save(tmp_path / "known")).contents, few.contents)
    assert load_features(features(np.ones((5, 2)), [0, 1, 0, 1, 0]).save(tmp_path / "unknown")).contents is None
