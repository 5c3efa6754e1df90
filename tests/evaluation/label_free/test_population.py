"""CLID, W-CLID and joint ranks: closed forms, and what may not change them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.catalogue import clid, compute_joint_rank, w_clid


def population(n: int = 28, *, noise: float = 2.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Learnability, dimension, and an accuracy that depends on both."""
    generator = np.random.default_rng(0)
    learnability, dimension = generator.uniform(0.2, 0.7, n), generator.uniform(8, 40, n)
    return learnability, dimension, 30 + 40 * learnability + 0.5 * dimension + noise * generator.normal(size=n)


def test_clid_is_the_sum_of_both_standardised_whatever_their_units() -> None:
    assert clid([0.3, 0.5, 0.4], [10, 20, 40]).tolist() == pytest.approx([0, 1 + 1 / 3, 0.5 + 1])
    learnability, dimension, _ = population()
    expected = clid(learnability, dimension)
    for scale, shift in ((100.0, 0.0), (1e-6, 3.0)):
        for other in (clid(learnability * scale + shift, dimension), clid(learnability, dimension * scale + shift)):
            np.testing.assert_allclose(other, expected, atol=1e-8)


def test_w_clid_is_least_squares() -> None:
    learnability, dimension, accuracy = population(noise=0.0)
    exact = w_clid(learnability, dimension, accuracy)
    assert exact.weights == pytest.approx((40 * np.ptp(learnability), 0.5 * np.ptp(dimension)))
    assert exact.intercept == pytest.approx(30 + 40 * learnability.min() + 0.5 * dimension.min())
    learnability, dimension, accuracy = population()
    design = np.column_stack([learnability, dimension, np.ones(28)])
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    assert w_clid(learnability, dimension, accuracy).values == pytest.approx(hat @ accuracy)
    expected = accuracy - (accuracy - hat @ accuracy) / (1 - np.diag(hat))  # by the leverage of each encoder
    left_out = w_clid(100 * learnability, 3 * dimension - 8, accuracy, leave_one_out=True).values
    assert left_out == pytest.approx(expected)


def test_joint_ranks_depend_on_order_alone_and_treat_both_alike() -> None:
    assert compute_joint_rank([3, 1, 2], [30, 10, 20]).tolist() == [1.0, 3.0, 2.0]
    assert compute_joint_rank([5, 5, 1], [5, 5, 1]).tolist() == [1.5, 1.5, 3.0]
    ranks = compute_joint_rank([6, 5, 4, 3, 2, 1], [3, 4, 5, 6, 2, 1])  # 1 x 4, 2 x 3, 3 x 2, 4 x 1
    assert ranks[0] == ranks[3] == 2.0 and ranks[1] == ranks[2]
    first, second = np.array([0.1, 0.9, 0.4, 0.5]), np.array([8.0, 2.0, 6.0, 7.0])
    expected = compute_joint_rank(first, second)
    assert (compute_joint_rank(np.exp(first), second**3) == expected).all()
    assert (compute_joint_rank(second, first) == expected).all()


GOOD = [0.1, 0.5, 0.3, 0.9, 0.2]


@pytest.mark.parametrize(
    ("refused", "fragment"),
    [
        (lambda: clid([0.1], [2.0]), "at least 2"),
        (lambda: clid(["a", "b"], [1, 2]), "cannot be read as numbers"),
        (lambda: clid([0.1, np.nan], [1, 2]), "cluster learnability is nan"),
        (lambda: clid([0.1, 0.2], [5, 5]), "same intrinsic dimension"),
        (lambda: clid([0.1, 0.2], [5, 6, 7]), "2 values and intrinsic dimension 3"),
        (lambda: clid(0.1, [5, 6, 7]), "shape ()"),
        (lambda: w_clid([1, 2, 3], [3, 1, 2], [1, 2, 4]), "at least 4"),
        (lambda: w_clid([1, 2, 3, 5], [3, 1, 2, 1], [1, 2, 4, 5], leave_one_out=True), "at least 5"),
        (lambda: w_clid(GOOD, [1 - 2 * x for x in GOOD], [1, 2, 4, 3, 7]), "do not vary independently"),
        (lambda: w_clid([1, 2, 2, 2, 2], GOOD, [1, 2, 4, 3, 7], leave_one_out=True), "without encoder number 0"),
        (lambda: w_clid(GOOD, [3, 1, 2, 1, 1], [7] * 5), "same accuracy"),
        (lambda: w_clid(GOOD, [3, 1, 2, 1, 1], [7, 8]), "accuracy has 2 values"),
        (lambda: compute_joint_rank([1, 2], [1, 2, 3]), "first has 2 scores and second has 3"),
        (lambda: compute_joint_rank([1], [1]), "at least 2"),
    ],
)
def test_what_has_no_answer_is_refused_in_a_sentence(refused: Any, fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        refused()
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
