"""Subsets of the training images are nested, stratified and reproducible, and too small ones are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.evaluation.curves.curve_runs import labelled
from zoo.datasets.opening import open_dense
from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.regimes import least_images, regime_subset

BALANCED = np.arange(200) % 10
UNBALANCED = np.repeat([0, 1, 2, 3], [150, 60, 25, 5])
SETS = pytest.mark.parametrize("labels", [BALANCED, UNBALANCED, UNBALANCED[::-1]], ids=["alike", "unlike", "reversed"])


@SETS
def test_of_one_seed_a_smaller_regime_is_within_every_larger_one(labels: np.ndarray) -> None:
    part = labelled(labels)
    sizes = range(least_images(part), len(labels) + 1)
    for seed in (0, 1, 2):
        sets = [set(regime_subset(part, n, seed=seed).indices.tolist()) for n in sizes]
        assert [len(found) for found in sets] == list(sizes)
        assert all(smaller < larger for smaller, larger in itertools.pairwise(sets))


@SETS
def test_every_regime_has_the_classes_in_their_proportions(labels: np.ndarray) -> None:
    part, share = labelled(labels), np.bincount(labels) / len(labels)
    for n in range(least_images(part), len(labels) + 1):
        counts = np.bincount(labels[regime_subset(part, n, seed=3).indices], minlength=len(share))
        assert np.abs(counts - n * share).max() <= 1 + share.max() * len(share) / 2  # a rounding, and that of the sum
        assert counts.min() >= 1


def test_a_regime_that_divides_evenly_has_exactly_the_proportions() -> None:
    counts = np.bincount(UNBALANCED[regime_subset(labelled(UNBALANCED), 48, seed=0).indices])
    assert counts.tolist() == [30, 12, 5, 1]


@SETS
def test_the_parts_make_the_regime_and_no_class_is_validated_on_alone(labels: np.ndarray) -> None:
    part = labelled(labels)
    for n in (least_images(part), 60, 111, len(labels)):
        found = regime_subset(part, n, seed=0, validation_share=0.2)
        assert np.array_equal(np.sort(np.concatenate([found.train, found.validation])), found.indices)
        assert set(labels[found.train]) == set(labels)
        assert len(found.validation) == max(1, int(0.2 * n + 0.5)) or n == least_images(part)
        assert len(found.validation) >= 1
        assert found.n_requested == found.n_actual == n


def test_the_validation_part_has_the_classes_in_their_proportions_too() -> None:
    found = regime_subset(labelled(UNBALANCED), "all", seed=0, validation_share=0.2)
    assert np.bincount(UNBALANCED[found.validation]).tolist() == [30, 12, 5, 1]


def test_a_seed_decides_and_nothing_else_does() -> None:
    part = labelled(BALANCED)
    one, again, other = (regime_subset(part, 50, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.train, again.train) and one.fingerprint == again.fingerprint
    assert not np.array_equal(one.indices, other.indices) and one.fingerprint != other.fingerprint
    assert one.fingerprint != regime_subset(part, 50, seed=0, validation_share=0.3).fingerprint
    assert one.fingerprint != regime_subset(labelled(BALANCED, split="val"), 50, seed=0).fingerprint


def test_all_is_every_image_and_the_seeds_differ_in_what_is_validated_on() -> None:
    part = labelled(BALANCED)
    one, other = (regime_subset(part, "all", seed=seed) for seed in (0, 1))
    assert np.array_equal(one.indices, np.arange(200)) and np.array_equal(one.indices, other.indices)
    assert not np.array_equal(one.validation, other.validation)


@SETS
def test_the_least_regime_is_the_first_with_every_class_and_an_image_to_validate_on(labels: np.ndarray) -> None:
    part = labelled(labels)
    least = least_images(part)
    assert set(labels[regime_subset(part, least, seed=5).train]) == set(labels)
    for seed in range(5):
        with pytest.raises(DataError, match=f"ask for at least {least}"):
            regime_subset(part, least - 1, seed=seed)


def test_a_class_that_is_missing_is_named() -> None:
    with pytest.raises(DataError, match=r"has no image of the class 'class 3'; ask for at least 24\."):
        regime_subset(labelled(UNBALANCED), 10, seed=0)
    with pytest.raises(DataError, match=r"no image of the class '.*' and of \d more classes"):
        regime_subset(labelled(BALANCED), 3, seed=0)
    with pytest.raises(DataError, match="no image that could be spared to validate on; ask for at least 11"):
        regime_subset(labelled(BALANCED), 10, seed=0)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "some"])
def test_what_is_no_number_of_images_is_refused(n: object) -> None:
    with pytest.raises(QueryError, match="expected a whole number from 1, or all"):
        regime_subset(labelled(BALANCED), n, seed=0)  # type: ignore[arg-type]


def test_a_regime_larger_than_the_data_is_refused_with_the_number_there_is() -> None:
    with pytest.raises(QueryError, match="'planted' has 200 training images"):
        regime_subset(labelled(BALANCED), 201, seed=0)


def test_data_without_an_image_to_spare_is_refused() -> None:
    with pytest.raises(DataError, match="No class of 'planted' has two"):
        regime_subset(labelled(np.arange(5)), "all", seed=0)
    with pytest.raises(DataError, match="has 2 training images"):
        regime_subset(labelled(np.array([0, 0])), "all", seed=0)


def test_images_with_maps_are_drawn_by_rank_alone() -> None:
    part = open_dense("shapes:classes=4,train=40,val=4,size_px=16", task="depth").train
    sets = [regime_subset(part, n, seed=0) for n in (3, 10, 25, 40)]
    assert [(len(one.train), len(one.validation)) for one in sets] == [(2, 1), (8, 2), (20, 5), (32, 8)]
    assert all(np.isin(one.indices, other.indices).all() for one, other in itertools.pairwise(sets))
    with pytest.raises(DataError, match="ask for at least 3"):
        regime_subset(part, 2, seed=0)
