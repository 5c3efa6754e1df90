"""Groups of images and tags: stored with features, kept by subsets, and on one side of every split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.planted_features import GridProbe, features
from zoo.datasets import array_images, held_out
from zoo.datasets.images import ImageSet, groups_of_names, indicators_of, shared_groups, together
from zoo.datasets.subsets import stratified_split
from zoo.errors import DataError
from zoo.evaluation.measuring import divide, label_setting
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.risk import decompose
from zoo.features import Features, verify


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


def test_subsets_keep_groups_and_tags() -> None:
    groups = groups_of_names(list("aabbcc"))
    images = image_set(groups, np.array([0, 1] * 3))
    chosen = images.subset([4, 1], split="part")
    np.testing.assert_array_equal(chosen.groups, groups[[4, 1]])
    assert chosen.fingerprint != image_set(None, np.array([0, 1] * 3)).subset([4, 1], split="part").fingerprint


def test_features_keep_groups_and_tags_on_the_disk(tmp_path: Path) -> None:
    groups = groups_of_names([str(number // 2) for number in range(10)])
    given = some(groups=groups, tags=("cat", "dog"), classes=("cat", "cat|dog"))
    given.save(tmp_path / "one")
    found = verify(tmp_path / "one")
    np.testing.assert_array_equal(found.groups, groups)
    assert found.tags == ("cat", "dog") and indicators_of(found)[:2].tolist() == [[True, False], [True, True]]


def test_groups_in_both_parts_are_counted() -> None:
    shared = shared_groups(groups_of_names("aab"), groups_of_names("bbcd"))
    assert shared is not None and shared.in_both == 1 and shared.test_images == 2
    assert shared.notes()[0].startswith("1 of 3 groups of test images also have training images (2 of 4 test images")
    assert shared_groups(groups_of_names("a"), None) is None
    alone = shared_groups(groups_of_names("a"), groups_of_names("b"))
    assert alone is not None and not alone.notes()


def population(seed: int, *, n: int = 400, n_classes: int = 3, n_groups: int = 60) -> ImageSet:
    """Groups of unequal sizes, most images of a group of one class; some images are copies of one of another group."""
    rng = np.random.default_rng(seed)
    of = rng.choice(n_groups, n, p=rng.dirichlet(np.full(n_groups, 2.0)))
    labels = np.where(rng.random(n) < 0.7, of % n_classes, rng.integers(n_classes, size=n))
    labels[:n_classes] = np.arange(n_classes)
    found = image_set(groups_of_names(map(str, of)), labels, seed=seed)
    contents = found.contents
    assert contents is not None
    contents[rng.choice(n, 3)] = contents[0]
    return replace(found, contents=contents)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_no_group_and_no_copy_is_on_both_sides_of_a_split_and_shares_of_classes_are_kept(share: float) -> None:
    missed = []
    for seed in range(25):
        images = population(seed)
        data = stratified_split(images, val_share=share, seed=seed)
        for one, other in ((data.train.groups, data.val.groups), (data.train.contents, data.val.contents)):
            assert not np.isin(one, other).any()
        assert sorted([*data.train.names, *data.val.names]) == sorted(images.names)
        held = data.val.n_per_class() / images.n_per_class()
        missed.append(np.abs(held - share))
        assert (held > 0).all() and (held < 1).all()
    assert np.mean(missed) < 0.05  # a group has 1.7 % of all images in the mean, and 5 % of a class


def test_one_group_of_everything_is_refused() -> None:
    with pytest.raises(DataError, match="leaves the validation part without"):
        stratified_split(image_set(groups_of_names("aaaaaa"), np.arange(6) % 2), val_share=0.2, seed=0)


def test_a_held_out_part_has_whole_groups() -> None:
    for seed in range(20):
        images = population(seed)
        part = held_out(images.labels, 80, seed=seed, contents=images.contents, groups=images.groups)
        joined = images.together
        assert joined is not None and not np.isin(joined[part.indices], joined[part.rest()]).any()
        assert 60 <= len(part) <= 100 and set(images.labels[part.rest()]) == {0, 1, 2}


def planted(seed: int, *, n: int = 240, part: str = "train") -> Features:
    """Features in which a group says more than the class does."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(n // 4), 4)
    y = of % 2
    x = (rng.normal(size=(n // 4, 6))[of] + 0.5 * y[:, None] + 0.1 * rng.normal(size=(n, 6))).astype(np.float32)
    names = groups_of_names([f"{part} {one}" for one in of])
    return replace(features(x, y, split=part), groups=names, contents=np.arange(n).astype(np.uint64))


@pytest.mark.parametrize("setting", ["full", "5-shot", "20%", "60%"])
def test_probes_are_never_tuned_on_a_group_that_they_learn_from(setting: str) -> None:
    for seed in range(5):
        train = planted(seed)
        division = divide(label_setting(setting), train, n_test=40, seed=seed)
        assert train.groups is not None and len(division.tuning)
        assert not np.isin(train.groups[division.tuning], train.groups[division.choice]).any()


def test_neighbours_of_the_own_group_do_not_vote_where_k_is_chosen() -> None:
    train = planted(0)
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=60)[np.repeat(np.arange(60), 4)]  # of a group, and no other knows it
    probe = NeighbourProbe(k=(1, 3)).fit(train.x, y, groups=train.groups)
    unaware = NeighbourProbe(k=(1, 3)).fit(train.x, y)
    assert unaware.report_["validation_error_percent"] < 5 < 25 < probe.report_["validation_error_percent"]


def test_a_decomposition_keeps_groups_together_and_says_how_sure_it_is_of_them() -> None:
    report = decompose(planted(0), planted(1, n=80, part="val"), probe=GridProbe, n_bootstrap=200, n_refits=5)
    assert report.refit is not None and report.refit.n == 5
    for run in report.risks["R_AS"].runs:
        groups = planted(0).groups
        assert groups is not None and run.evaluated is not None
        rest = np.setdiff1d(np.arange(240), run.evaluated)
        assert not np.isin(groups[run.evaluated], groups[rest]).any()


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


@pytest.mark.parametrize("seed", range(5))
def test_every_tag_is_on_both_sides_of_a_split(seed: int) -> None:
    data = stratified_split(tagged(seed=seed), val_share=0.25, seed=seed)
    for part in (data.train, data.val):
        assert indicators_of(part).any(axis=0).all() and part.tags == ("a", "b", "c")
    assert 10 <= len(data.val) <= 20
