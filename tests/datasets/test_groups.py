"""Groups, copies and tags: known by names and contents, counted, and on one side of every split."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.each import for_each
from tests.planted_features import features, planted_groups
from zoo.datasets import array_images, held_out
from zoo.datasets import images as contents_module
from zoo.datasets.images import (
    ImageSet,
    compute_split_groups,
    count_copies,
    hash_group_names,
    hash_image_files,
    indicators_of,
)
from zoo.datasets.subsets import split_by_hash, split_stratified
from zoo.evaluation.curves.data import select_regime_subset
from zoo.evaluation.measuring import divide, label_setting


def image_set(groups: np.ndarray | None, labels: np.ndarray, *, seed: int = 0) -> ImageSet:
    """Noise with these groups and labels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 4, 4), np.uint8)
    names = tuple(f"class {number}" for number in range(int(labels.max()) + 1))
    return array_images(pixels, labels.astype(np.int64), name="noise", split="all", classes=names, groups=groups)


def test_copies_and_groups_join_what_a_chain_of_both_connects() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        contents, groups = (rng.integers(0, 12, 20).astype(np.uint64) for _ in range(2))
        reached = np.eye(20, dtype=bool) | (contents[:, None] == contents) | (groups[:, None] == groups)
        for _ in range(5):
            reached = reached @ reached
        found = compute_split_groups(contents, groups)
        assert found is not None
        np.testing.assert_array_equal(found[:, None] == found, reached)


def population(seed: int, *, n: int = 400, n_classes: int = 3, n_groups: int = 60) -> ImageSet:
    """Groups of unequal sizes, most images of a group of one class; some images are copies of one of another group."""
    rng = np.random.default_rng(seed)
    of = rng.choice(n_groups, n, p=rng.dirichlet(np.full(n_groups, 2.0)))
    labels = np.where(rng.random(n) < 0.7, of % n_classes, rng.integers(n_classes, size=n))
    labels[:n_classes] = np.arange(n_classes)
    found = image_set(hash_group_names(map(str, of)), labels, seed=seed)
    contents = found.contents
    assert contents is not None
    contents[rng.choice(n, 3)] = contents[0]
    return replace(found, contents=contents)


@for_each([0.2, 0.5])
def test_no_group_and_no_copy_is_on_both_sides_of_a_split_and_shares_of_classes_are_kept(share: float) -> None:
    missed = []
    for seed in range(25):
        images = population(seed)
        data = split_stratified(images, val_share=share, seed=seed)
        for one, other in ((data.train.groups, data.val.groups), (data.train.contents, data.val.contents)):
            assert not np.isin(one, other).any()
        assert sorted([*data.train.names, *data.val.names]) == sorted(images.names)
        held = data.val.n_per_class() / images.n_per_class()
        missed.append(np.abs(held - share))
        assert (held > 0).all() and (held < 1).all()
    assert np.mean(missed) < 0.05  # a group has 1.7 % of all images in the mean, and 5 % of a class


def test_a_held_out_part_has_whole_groups() -> None:
    for seed in range(20):
        images = population(seed)
        part = held_out(images.labels, 80, seed=seed, contents=images.contents, groups=images.groups)
        joined = images.together
        assert joined is not None and not np.isin(joined[part.indices], joined[part.rest()]).any()
        assert 60 <= len(part) <= 100 and set(images.labels[part.rest()]) == {0, 1, 2}


@for_each(["full", "5-shot", "20%", "60%"])
def test_probes_are_never_tuned_on_a_group_that_they_learn_from(setting: str) -> None:
    for seed in range(5):
        train = planted_groups(seed)
        division = divide(label_setting(setting), train, n_test=40, seed=seed)
        assert train.groups is not None and len(division.tuning)
        assert not np.isin(train.groups[division.tuning], train.groups[division.choice]).any()


def tagged(n: int = 60, *, seed: int = 0) -> ImageSet:
    """A multi-label set of three tags, some of whose combinations come once."""
    rng = np.random.default_rng(seed)
    has = rng.random((n, 3)) < [0.5, 0.3, 0.15]
    has[0] = True
    names = ["|".join(tag for tag, there in zip("abc", row, strict=True) if there) for row in has]
    classes = sorted(set(names))
    pixels = rng.integers(0, 256, (n, 4, 4), np.uint8)
    labels = np.array([classes.index(name) for name in names])
    return array_images(pixels, labels, name="tagged", split="all", classes=classes, tags=("a", "b", "c"))


@for_each(range(5))
def test_every_tag_is_on_both_sides_of_a_split(seed: int) -> None:
    data = split_stratified(tagged(seed=seed), val_share=0.25, seed=seed)
    for part in (data.train, data.val):
        assert indicators_of(part).any(axis=0).all() and part.tags == ("a", "b", "c")
    assert 10 <= len(data.val) <= 20


def noise(path: Path, seed: int) -> Path:
    """An image whose file has the size of all others: an uncompressed bitmap."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_hashes_of_large_folders_are_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(contents_module, "_CACHED_FROM_BYTES", 1)
    files = [str(noise(tmp_path / f"{number}.bmp", number)) for number in range(4)]
    for file in files:
        os.utime(file, ns=(10**18, 10**18))
    monkeypatch.setattr(contents_module.time, "time_ns", lambda: 2**62)  # a day on which all of this is long ago
    before = hash_image_files(files)
    reads: list[str] = []
    read = contents_module._of_file
    monkeypatch.setattr(contents_module, "_of_file", lambda path: reads.append(path) or read(path))  # type: ignore[func-returns-value]
    assert np.array_equal(hash_image_files(files), before) and not reads
    noise(Path(files[2]), 99)  # of the same size
    os.utime(files[2], ns=(10**18, 10**18))  # and with the time of the old one, as some tools copy
    after = hash_image_files(files)
    assert len(reads) == 4 and (after != before).tolist() == [False, False, True, False]


@for_each([split_by_hash, split_stratified])
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


@for_each(["full", "5-shot", "10%"])
def test_no_probe_is_tuned_on_a_copy_of_what_it_is_trained_on(name: str) -> None:
    random = np.random.default_rng(2)
    labels, contents = np.arange(240) % 4, random.integers(0, 120, 240).astype(np.uint64)
    train = replace(features(np.zeros((240, 1), np.float32), labels), contents=contents)
    division = divide(label_setting(name), train, n_test=60, seed=0)
    assert len(division.tuning) > 0
    assert not np.isin(
        contents[division.tuning], contents[division.choice if division.refits else division.train]
    ).any()


def test_a_regime_is_not_validated_on_copies_of_what_it_is_trained_on() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 4, 4), np.uint8)
    pixels[30:] = pixels[:30]
    labels = (np.arange(60) % 3).astype(np.int64)
    part = array_images(pixels, labels, name="x", split="train", classes=("a", "b", "c"))
    for n in (24, 60):
        found = select_regime_subset(part, n, seed=0, validation_share=0.4)
        assert len(found.validation) and not np.isin(part.contents[found.validation], part.contents[found.train]).any()


def test_copies_are_counted_within_and_between_parts() -> None:
    train, test = np.array([1, 1, 1, 2, 3], np.uint64), np.array([3, 4, 4, 5, 1], np.uint64)
    found = count_copies(train, np.array([0, 0, 1, 0, 2]), test, np.array([1, 0, 0, 2, 0]))
    assert found is not None
    assert (found.test_in_train, found.within_train, found.within_test, found.in_two_classes) == (2, 2, 1, 2)
    assert len(found.notes()) == 4 and "2 of 5 test images" in found.notes()[0]
    assert count_copies(None, np.zeros(0, np.int64), test, np.zeros(5, np.int64)) is None
