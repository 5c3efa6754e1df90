"""The order of visits: nested, stratified, whole groups, all classes from the start."""

from __future__ import annotations

import numpy as np
import pytest

from tests.each import for_each
from zoo.choosing.visiting import Task, schedule
from zoo.errors import DataError


def task_of(y: np.ndarray, *, n_test: int = 900, groups: np.ndarray | None = None) -> Task:
    return Task(y_train=y, y_test=np.resize(np.unique(y), n_test), groups_train=groups, classes=("ant", "bee", "cow"))


def test_every_beginning_has_the_classes_in_their_proportions() -> None:
    y = np.repeat(np.arange(3), [2_000, 900, 100]).astype(np.int64)
    found = schedule(task_of(y), first_images=256, seed=3)
    assert np.array_equal(np.sort(found.train), np.arange(3_000))
    for n, _ in found.sizes:
        counts = np.bincount(y[found.train[:n]], minlength=3)
        assert np.abs(counts - n * np.array([2_000, 900, 100]) / 3_000).max() <= 1  # less than one image a class


@for_each(
    [
        (3_000, 3, ((128, 128), (256, 256), (512, 512), (1_024, 900), (2_048, 900), (3_000, 900))),
        (60, 3, ((60, 128), (60, 256), (60, 512), (60, 900))),  # few labels: all from the first rung on
        (3_000, 500, ((1_000, 128), (2_000, 256), (3_000, 512), (3_000, 900))),  # two images a class
    ],
    arguments=3,
)
def test_rungs_double_and_end_with_all_images(n: int, n_classes: int, sizes: tuple[tuple[int, int], ...]) -> None:
    y = (np.arange(n) % n_classes).astype(np.int64)
    found = schedule(task_of(y), first_images=256, seed=0)
    assert found.sizes == sizes
    assert np.bincount(y[found.train[: sizes[0][0]]]).min() >= 2


def test_the_seed_decides_the_order() -> None:
    y = (np.arange(600) % 3).astype(np.int64)
    one, again, other = (schedule(task_of(y), first_images=64, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.train, again.train)
    assert np.array_equal(one.test, again.test)
    assert not np.array_equal(one.train, other.train)
    assert not np.array_equal(one.test, other.test)


def test_images_of_a_group_come_together_and_never_on_both_sides_of_a_step() -> None:
    random = np.random.default_rng(0)
    groups = random.integers(0, 120, 2_000).astype(np.uint64)
    y = (groups % 3).astype(np.int64)
    found = schedule(task_of(y, groups=groups), first_images=256, seed=5)
    for n, _ in found.sizes:
        inside, outside = set(groups[found.train[:n]].tolist()), set(groups[found.train[n:]].tolist())
        assert not inside & outside
    assert set(y[found.train[: found.sizes[0][0]]].tolist()) == {0, 1, 2}


@for_each(
    [
        ([1, 1, 1, 1], [1], "All 4 training images have the label 'bee'"),
        ([0, 1, 2], [0], "one training image"),
        ([0, 0, 1, 1], [0, 2, 2], "2 test images have the label 'cow', which no training image has"),
        ([0, 0, 1], [], "empty"),
    ],
    arguments=3,
)
def test_images_that_no_probe_can_be_trained_or_tested_on_are_refused(
    train: list[int], test: list[int], match: str
) -> None:
    with pytest.raises(DataError, match=match):
        Task(y_train=np.array(train), y_test=np.array(test, np.int64), classes=("ant", "bee", "cow"))
