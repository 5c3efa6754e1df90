"""Groups of images and tags: stored with features, kept by subsets, and on one side of every split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.planted_features import features
from zoo.datasets import array_images
from zoo.datasets.groups import groups_of_names, shared_groups, together
from zoo.datasets.images import ImageSet, indicators_of
from zoo.errors import DataError
from zoo.features import Features, load_features, verify


def image_set(groups: np.ndarray | None, labels: np.ndarray, *, seed: int = 0) -> ImageSet:
    """Noise with these groups and labels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 4, 4), np.uint8)
    names = tuple(f"class {number}" for number in range(int(labels.max()) + 1))
    return array_images(pixels, labels.astype(np.int64), name="noise", split="all", classes=names, groups=groups)


def some(**changed: object) -> Features:
    """Features of ten images."""
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    return Features(**{"x": x, "y": np.arange(10) % 2, "origin": features(x, np.arange(10) % 2).origin} | changed)


def test_copies_and_groups_join_what_a_chain_of_both_connects() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        contents, groups = (rng.integers(0, 12, 20).astype(np.uint64) for _ in range(2))
        reached = np.eye(20, dtype=bool) | (contents[:, None] == contents) | (groups[:, None] == groups)
        for _ in range(5):
            reached = reached @ reached
        found = together(contents, groups)
        assert found is not None
        np.testing.assert_array_equal(found[:, None] == found, reached)


def test_what_is_known_alone_says_what_belongs_together() -> None:
    some_of = np.array([4, 4, 5], np.uint64)
    assert together(None, None) is None
    assert together(some_of, None) is some_of and together(None, some_of) is some_of


def test_subsets_keep_groups_and_tags() -> None:
    groups = groups_of_names(list("aabbcc"))
    images = image_set(groups, np.array([0, 1] * 3))
    chosen = images.subset([4, 1], split="part")
    np.testing.assert_array_equal(chosen.groups, groups[[4, 1]])
    assert chosen.fingerprint != image_set(None, np.array([0, 1] * 3)).subset([4, 1], split="part").fingerprint


def test_groups_and_tags_are_part_of_the_fingerprint() -> None:
    labels = np.array([0, 1, 0])
    plain, grouped, other = (
        image_set(None if names is None else groups_of_names(names), labels) for names in (None, "aab", "abb")
    )
    assert len({plain.fingerprint, grouped.fingerprint, other.fingerprint}) == 3


def test_features_keep_groups_and_tags_on_the_disk(tmp_path: Path) -> None:
    groups = groups_of_names([str(number // 2) for number in range(10)])
    given = some(groups=groups, tags=("cat", "dog"), classes=("cat", "cat|dog"))
    given.save(tmp_path / "one")
    found = verify(tmp_path / "one")
    np.testing.assert_array_equal(found.groups, groups)
    assert found.tags == ("cat", "dog") and indicators_of(found)[:2].tolist() == [[True, False], [True, True]]


def test_an_index_without_groups_and_tags_does_not_name_them(tmp_path: Path) -> None:
    some().save(tmp_path / "one")
    facts = json.loads((tmp_path / "one" / "index.json").read_text())
    assert not {"groups", "tags"} & facts.keys()
    found = load_features(tmp_path / "one")
    assert found.groups is None and found.tags == ()


def test_groups_must_be_one_hash_an_image() -> None:
    with pytest.raises(DataError, match="groups of images as uint64 \\(3,\\); expected uint64, one a row"):
        some(groups=np.zeros(3, np.uint64))
    with pytest.raises(DataError, match="has groups as int64; expected uint64"):
        image_set(np.zeros(4, np.int64), np.array([0, 1] * 2))


def test_indicators_of_images_without_tags_are_refused() -> None:
    with pytest.raises(DataError, match="have one class each and no tags"):
        indicators_of(image_set(None, np.array([0, 1])))


def test_groups_in_both_parts_are_counted() -> None:
    shared = shared_groups(groups_of_names("aab"), groups_of_names("bbcd"))
    assert shared is not None and shared.in_both == 1 and shared.test_images == 2
    assert shared.notes()[0].startswith("1 of 3 groups of test images also have training images (2 of 4 test images")
    assert shared_groups(groups_of_names("a"), None) is None
    alone = shared_groups(groups_of_names("a"), groups_of_names("b"))
    assert alone is not None and not alone.notes()
