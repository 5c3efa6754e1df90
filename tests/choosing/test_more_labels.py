"""Label curves: parts of the labels, planted power laws, and where nothing can be said."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.choosing.planted import population, says_it
from tests.each import for_each
from zoo.choosing.more_labels import LabelCurve, continued, label_curve, label_parts

SIZES = (200, 400, 800, 1_600)


def planted(
    floor: float, at_all: float, exponent: float, *, n_test: int = 4_000, seed: int = 0, sizes: tuple[int, ...] = SIZES
) -> LabelCurve:
    """The curve of measured errors with the noise of so many test images, on which all probes fail independently."""
    random = np.random.default_rng(seed)
    law = floor + (at_all - floor) * (np.array(sizes) / sizes[-1]) ** -exponent
    columns = [range(3), range(3, 6), range(6, 8), range(8, 9)][4 - len(sizes) :]
    columns = [range(one.start - columns[0].start, one.stop - columns[0].start) for one in columns]
    expected = np.concatenate([[value] * len(some) for value, some in zip(law, columns, strict=True)]) / 100
    measured = 100 * random.binomial(n_test, expected) / n_test
    spread = 100 * (expected * (1 - expected) / n_test) ** 0.5
    draws = measured + spread * random.standard_normal((1_000, len(measured)))
    return continued("e", sizes, measured, draws, columns, seed=seed)


def test_a_planted_law_is_continued() -> None:
    found = planted(2.0, 12.0, 0.5)
    assert [point.n_labels for point in found.expected] == [3_200, 6_400]
    for point, factor in zip(found.expected, (2, 4), strict=True):
        truth = 2.0 + 10.0 * factor**-0.5
        assert point.error.ci_low < truth < point.error.ci_high  # type: ignore[operator]
        assert abs(point.error.value - truth) < 1.5
        assert point.gain is not None
        assert point.gain.ci_low > 0  # type: ignore[operator]
    assert found.expected[1].error.value < found.expected[0].error.value < found.points[-1].error.value
    assert found.exponent is not None
    assert found.floor is not None
    assert found.exponent.ci_low < 0.5 < found.exponent.ci_high  # type: ignore[operator]
    assert found.floor.ci_low < 2.0 < found.floor.ci_high  # type: ignore[operator]
    assert found.refusal == ""


def test_intervals_hold_the_planted_errors() -> None:
    random = np.random.default_rng(1)
    held = given = 0
    for seed in range(50):
        floor, exponent = random.uniform(0, 10), random.uniform(0.1, 1.2)
        found = planted(floor, 10.0, exponent, seed=seed)
        for point, factor in zip(found.expected, (2, 4), strict=False):
            given += 1
            truth = floor + (10.0 - floor) * factor**-exponent
            held += point.error.ci_low <= truth <= point.error.ci_high  # type: ignore[operator]
    assert given > 40
    assert held >= 0.88 * given  # 95 % of laws that are drawn as the intervals assume; the two of a curve go together


@for_each(
    [
        ({"floor": 10.0, "at_all": 10.0, "exponent": 0.5}, "does not fall by more than chance explains"),
        (
            {"floor": -1.0, "at_all": 0.0, "exponent": 0.5, "sizes": SIZES[1:]},
            "with 1,600 labels no test image is wrong",
        ),
        ({"floor": 0.0, "at_all": 4.0, "exponent": 0.3, "n_test": 150, "seed": 3}, ""),  # laws that leave it open
        ({"floor": 2.0, "at_all": 12.0, "exponent": 0.5, "sizes": SIZES[2:]}, "at least 3 are needed"),
    ],
    arguments=2,
)
def test_where_nothing_can_be_expected_a_sentence_says_why(law: dict[str, Any], words: str) -> None:
    found = planted(**law)
    assert (found.expected, found.exponent, len(found.points)) == ((), None, len(law.get("sizes", SIZES)))
    assert found.refusal and words in found.refusal


def test_parts_are_nested_disjoint_and_have_the_classes_alike() -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(3), [400, 200, 100])
    order = random.permutation(700)
    found = label_parts(y, order, None)
    assert [len(parts) for parts in found] == [3, 3, 2, 1]
    for parts in found:
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)
        for part in parts:
            share = len(part) / 700
            assert np.abs(np.bincount(y[part]) - share * np.array([400, 200, 100])).max() <= 1.5
    for small, large in itertools.pairwise(found):
        for part in small:
            assert any(set(part.tolist()) <= set(other.tolist()) for other in large) or len(large) < len(small)
    assert np.array_equal(found[-1][0], np.arange(700))


def test_parts_of_groups_have_whole_groups_and_few_labels_fewer_sizes() -> None:
    groups = np.repeat(np.arange(100), 7).astype(np.uint64)
    y = (groups % 2).astype(np.int64)
    order = np.concatenate([np.flatnonzero(groups == one) for one in np.random.default_rng(0).permutation(100)])
    for parts in label_parts(y, order, groups):
        for part in parts:
            assert set(np.bincount(groups[part].astype(int))) <= {0, 7}
    assert [len(parts) for parts in label_parts(np.arange(20) % 5, np.arange(20), None)] == [2, 1]
    assert [len(parts) for parts in label_parts(np.arange(6) % 5, np.arange(6), None)] == [1]


def test_a_curve_is_that_of_its_probes() -> None:
    contenders, task = population([0.2], n_train=400, n_test=500)
    one = contenders[0]
    parts = label_parts(task.y_train, np.arange(400), None)
    rows = np.arange(500)
    found = label_curve("e", parts, one.train, task.y_train, one.test, rows, task.y_test, probe=says_it)
    assert [round(point.n_labels / 50) for point in found.points] == [1, 2, 4, 8]
    error = 100 * (one.test.argmax(axis=1) != task.y_test).mean()
    assert [point.error.value for point in found.points] == pytest.approx([error] * 4)
    assert found.refusal
