"""CLID, W-CLID and joint ranks: closed forms, and what may not change them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from zoo.errors import DataError, QueryError, ZooError
from zoo.evaluation.label_free.population import clid, joint_rank_product, standardised, w_clid, weighted_clid


def _population(n: int = 28, *, noise: float = 2.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Learnability, dimension, and an accuracy that depends on both."""
    generator = np.random.default_rng(0)
    learnability, dimension = generator.uniform(0.2, 0.7, n), generator.uniform(8, 40, n)
    return learnability, dimension, 30 + 40 * learnability + 0.5 * dimension + noise * generator.normal(size=n)


def test_standardised_values_go_from_0_to_1_in_proportion() -> None:
    assert standardised([4, 2, 3, 2.5]).tolist() == [1.0, 0.0, 0.5, 0.25]


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 1e300])
def test_values_of_any_size_are_standardised(scale: float) -> None:
    assert standardised(np.array([-1.0, 0.0, 1.0]) * scale).tolist() == [0.0, 0.5, 1.0]


def test_clid_is_the_sum_of_both_standardised() -> None:
    assert clid([0.3, 0.5, 0.4], [10, 20, 40]).tolist() == pytest.approx([0, 1 + 1 / 3, 0.5 + 1])


@pytest.mark.parametrize("scale, shift", [(100.0, 0.0), (1e-6, 3.0), (7.0, -50.0)])
def test_clid_keeps_its_values_when_either_input_is_scaled_or_shifted(scale: float, shift: float) -> None:
    learnability, dimension, _ = _population()
    expected = clid(learnability, dimension)
    for other in (clid(learnability * scale + shift, dimension), clid(learnability, dimension * scale + shift)):
        np.testing.assert_allclose(other, expected, atol=1e-8)
        assert (other.argsort() == expected.argsort()).all()


def test_w_clid_finds_the_weights_that_accuracies_were_made_with() -> None:
    learnability, dimension, accuracy = _population(noise=0.0)
    found = w_clid(learnability, dimension, accuracy)
    assert found.weights == pytest.approx((40 * np.ptp(learnability), 0.5 * np.ptp(dimension)))
    assert found.intercept == pytest.approx(30 + 40 * learnability.min() + 0.5 * dimension.min())
    assert found.values == pytest.approx(accuracy) and found.n == 28


def test_w_clid_is_the_least_squares_fit_of_the_normal_equations() -> None:
    learnability, dimension, accuracy = _population()
    design = np.column_stack([learnability, dimension, np.ones(28)])
    expected = design @ np.linalg.solve(design.T @ design, design.T @ accuracy)
    assert w_clid(learnability, dimension, accuracy).values == pytest.approx(expected)


def test_an_encoder_left_out_does_not_see_its_own_accuracy() -> None:
    learnability, dimension, accuracy = _population()
    before = w_clid(learnability, dimension, accuracy, leave_one_out=True).values
    changed = accuracy.copy()
    changed[5] += 1000
    after = w_clid(learnability, dimension, changed, leave_one_out=True).values
    assert after[5] == pytest.approx(before[5])
    assert not np.allclose(np.delete(after, 5), np.delete(before, 5))


def test_values_left_out_follow_from_the_leverage_of_each_encoder() -> None:
    learnability, dimension, accuracy = _population()
    design = np.column_stack([standardised(learnability), standardised(dimension), np.ones(28)])
    hat = design @ np.linalg.inv(design.T @ design) @ design.T
    expected = accuracy - (accuracy - hat @ accuracy) / (1 - np.diag(hat))
    assert w_clid(learnability, dimension, accuracy, leave_one_out=True).values == pytest.approx(expected)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_w_clid_keeps_its_values_when_predictors_are_scaled_and_shifted(leave_one_out: bool) -> None:
    learnability, dimension, accuracy = _population()
    expected = w_clid(learnability, dimension, accuracy, leave_one_out=leave_one_out).values
    other = w_clid(100 * learnability, 3 * dimension - 8, accuracy, leave_one_out=leave_one_out).values
    assert other == pytest.approx(expected)


def test_weights_from_one_domain_rank_encoders_in_another() -> None:
    learnability, dimension, accuracy = _population()
    fit = w_clid(learnability, dimension, accuracy)
    values = weighted_clid(learnability, dimension, fit.weights, intercept=fit.intercept)
    assert values == pytest.approx(fit.values)
    assert weighted_clid(learnability, dimension, (1.0, 1.0)) == pytest.approx(clid(learnability, dimension))


def test_the_best_by_both_has_the_joint_rank_1_and_the_worst_the_number_of_encoders() -> None:
    assert joint_rank_product([3, 1, 2], [30, 10, 20]).tolist() == [1.0, 3.0, 2.0]


def test_equal_scores_share_the_mean_of_their_ranks() -> None:
    assert joint_rank_product([5, 5, 1], [5, 5, 1]).tolist() == [1.5, 1.5, 3.0]


def test_equal_products_of_ranks_are_equal_numbers() -> None:
    ranks = joint_rank_product([6, 5, 4, 3, 2, 1], [3, 4, 5, 6, 2, 1])  # 1 x 4, 2 x 3, 3 x 2, 4 x 1
    assert ranks[0] == ranks[3] == 2.0 and ranks[1] == ranks[2]


@pytest.mark.parametrize("order", list(permutations(range(4)))[1::7])
def test_joint_ranks_depend_on_order_alone_and_treat_both_alike(order: tuple[int, ...]) -> None:
    first, second = np.array([0.1, 0.9, 0.4, 0.5]), np.array([8.0, 2.0, 6.0, 7.0])
    expected = joint_rank_product(first, second)
    taken = list(order)
    assert (joint_rank_product(np.exp(first), second**3) == expected).all()
    assert (joint_rank_product(second, first) == expected).all()
    assert (joint_rank_product(first[taken], second[taken]) == expected[taken]).all()


_GOOD = [0.1, 0.5, 0.3, 0.9, 0.2]


@pytest.mark.parametrize(
    "refused, sentence",
    [
        (lambda: standardised([2.0, 2.0]), "All 2 encoders have the same values"),
        (lambda: standardised([2.0]), "needs at least 2 encoders"),
        (lambda: standardised([[1.0, 2.0]]), r"shape \(1, 2\)"),
        (lambda: standardised(["a", "b"]), "cannot be read as numbers"),
        (lambda: clid([0.1, np.nan], [1, 2]), "Entry 1 of cluster learnability is nan"),
        (lambda: clid([0.1, 0.2], [5, 5]), "same intrinsic dimension"),
        (lambda: clid([0.1, 0.2], [5, 6, 7]), "2 values and intrinsic dimension 3"),
        (lambda: clid(0.1, [5, 6, 7]), r"cluster learnability has the shape \(\)"),
        (lambda: w_clid([1, 2, 3], [3, 1, 2], [1, 2, 4]), "needs at least 4"),
        (lambda: w_clid([1, 2, 3, 5], [3, 1, 2, 1], [1, 2, 4, 5], leave_one_out=True), "needs at least 5"),
        (lambda: w_clid(_GOOD, _GOOD, [1, 2, 4, 3, 7]), "do not vary independently"),
        (lambda: w_clid(_GOOD, [1 - 2 * x for x in _GOOD], [1, 2, 4, 3, 7]), "do not vary independently"),
        (lambda: w_clid([1, 2, 2, 2, 2], _GOOD, [1, 2, 4, 3, 7], leave_one_out=True), "without encoder number 0"),
        (lambda: w_clid(_GOOD, [3, 1, 2, 1, 1], [7] * 5), "same accuracy"),
        (lambda: w_clid(_GOOD, [3, 1, 2, 1, 1], [7, 8]), "accuracy has 2 values"),
        (lambda: weighted_clid(_GOOD, [3, 1, 2, 1, 1], (1.0,)), "weights holds 1 number"),
        (lambda: joint_rank_product([1, 2], [1, 2, 3]), "first has 2 scores and second has 3"),
        (lambda: joint_rank_product([1], [1]), "at least 2"),
        (lambda: joint_rank_product([1, np.inf], [1, 2]), "Entry 1 of first is inf"),
    ],
)
def test_what_has_no_answer_is_refused_in_one_sentence(refused, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((DataError, QueryError), match=sentence) as caught:
        refused()
    assert isinstance(caught.value, ZooError) and "\n" not in str(caught.value)
