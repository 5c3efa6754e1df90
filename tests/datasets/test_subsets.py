"""Subsets: balanced, stratified, held out; nested by seed, the same for ever, and files that cannot be edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.each import for_each
from zoo.datasets import Subset, balanced, digits_data, fraction, held_out, open_images
from zoo.datasets.images import compute_digest
from zoo.datasets.subsets import draw_normal_noise, draw_raw, draw_uniform
from zoo.errors import DataError

LABELS = np.repeat(np.arange(5), [40, 7, 100, 33, 20])[np.argsort(draw_uniform((1, 2), 200))]
FIRST_DRAWS = [8572904877659512946, 4625405768784920320]
FIRST_SUBSETS = "2a41711b59e56b069977bafe297d1c4f"


def counts(subset: Subset) -> list[int]:
    return np.bincount(LABELS[subset.indices], minlength=5).tolist()


def test_the_draws_are_the_ones_they_have_always_been() -> None:
    assert draw_raw((0,), 2).tolist() == FIRST_DRAWS
    assert draw_raw((1, 0), 1)[0] != draw_raw((1,), 1)[0] != draw_raw((1, 0, 0), 1)[0]
    noise = draw_normal_noise((3,), (200, 201))
    assert noise.dtype == np.float32 and abs(noise.mean()) < 0.01 and abs(noise.std() - 1) < 0.01


def test_the_subsets_are_the_ones_they_have_always_been() -> None:
    chosen = [balanced(LABELS, 3, seed=0), fraction(LABELS, 0.1, seed=0), held_out(LABELS, 20, seed=0)]
    assert compute_digest([subset.indices.astype("<i8") for subset in chosen]) == FIRST_SUBSETS


def test_a_share_is_rounded_in_each_class_and_leaves_none_out() -> None:
    assert counts(fraction(LABELS, 0.1)) == [4, 1, 10, 3, 2]
    assert counts(fraction(LABELS, 0.01)) == [1] * 5
    assert counts(fraction(LABELS, 1.0)) == [40, 7, 100, 33, 20]
    assert [fraction(LABELS, share).name for share in (0.01, 0.1, 0.005, 0.07)] == ["1%", "10%", "0.5%", "7%"]


@for_each(range(3))
def test_subsets_of_one_seed_are_nested_and_those_of_another_are_others(seed: int) -> None:
    three, five, seven = (set(balanced(LABELS, n, seed=seed).indices.tolist()) for n in (3, 5, 7))
    assert three < five < seven
    assert set(fraction(LABELS, 0.05, seed=seed).indices) < set(fraction(LABELS, 0.3, seed=seed).indices)
    assert set(held_out(LABELS, 20, seed=seed).indices) < set(held_out(LABELS, 60, seed=seed).indices)
    assert three != set(balanced(LABELS, 3, seed=seed + 1).indices.tolist())


def test_a_held_out_part_is_in_proportion_keeps_every_class_and_avoids_the_few_shots() -> None:
    part = held_out(LABELS, 100, seed=1)
    assert len(part) == 100 and counts(part) == [20, 4, 50, 16, 10]  # 3.5 and 16.5: the first of equals is rounded up
    most = held_out(LABELS, 195, seed=1)
    assert counts(most) == [39, 6, 99, 32, 19]
    assert len(held_out(LABELS, 190, seed=1)) == 190
    assert not np.intersect1d(part.indices, balanced(LABELS, 3, seed=1).indices).size
    np.testing.assert_array_equal(np.sort(np.concatenate([part.indices, part.rest()])), np.arange(200))


@for_each(
    [
        (lambda: balanced(LABELS, 8, classes=("a", "b", "c", "d", "e")), "'b' has 7; ask for at most 7"),
        (lambda: balanced(LABELS, 0), "expected 1 or more"),
        (lambda: balanced(LABELS, True), "expected 1 or more"),
        (lambda: balanced(np.zeros(3), 1), "expected whole numbers"),
        (lambda: balanced(LABELS, 1, seed=-1), "The seed is -1"),
        (lambda: fraction(LABELS, float("nan")), "above 0 and at most 1"),
        (lambda: held_out(LABELS, 196), "expected 1 to 195.*the smallest, class 1, has 7"),
    ],
    arguments=2,
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], Subset], words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()


def test_a_subset_of_an_image_set_picks_its_images_and_refuses_those_of_another() -> None:
    data = digits_data()
    subset = balanced(data.train.labels, 2)
    few = subset.of(data.train)
    assert few.n_per_class().tolist() == [2] * 10 and few.split == "train 2-shot"
    assert few.names == [data.train.names[index] for index in subset.indices]
    np.testing.assert_array_equal(np.asarray(few[3][0]), np.asarray(data.train[int(subset.indices[3])][0]))
    with pytest.raises(DataError, match="was made of 1,346 images"):
        subset.of(data.val)


@for_each([(1, "the 1 image of"), (12, "the 12 images, 1 without copies, of")], arguments=2)
def test_what_cannot_be_split_says_how_many_images_are_no_copies(n: int, words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", images=np.full((n, 4, 4, 3), 7, np.uint8), labels=np.arange(n) % 3)
    with pytest.raises(DataError, match=f"Splitting {words} 'set' leaves"):
        open_images(tmp_path / "set.npz")
