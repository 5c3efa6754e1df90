"""Choosing among variants: by training images, judged by test images, on planted outcomes whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from tests.each import for_each
from zoo.errors import DataError
from zoo.evaluation.layer_choice import choose, compute_differences, compute_paired_p_values, compute_variant_errors

N_SEEDS = 60


def planted(seed: int, *, n_variants: int, n_train: int, n_test: int, rates: np.ndarray) -> tuple[np.ndarray, ...]:
    """Outcomes that are independent, each variant with an error rate of its own."""
    random = np.random.default_rng([seed, n_variants])
    return tuple(random.random((n, n_variants)) < rates for n in (n_train, n_test))


def test_among_equal_variants_the_naive_gain_is_luck_and_the_nested_one_is_none() -> None:
    n_variants, rate = 30, 0.3
    found = [
        choose(*planted(seed, n_variants=n_variants, n_train=60, n_test=150, rates=np.full(n_variants, rate)),
               default=0, costs=np.ones(n_variants), n_draws=400)
        for seed in range(N_SEEDS)
    ]  # fmt: skip
    naive, nested = (np.array([getattr(one, which).value for one in found]) for which in ("naive", "nested"))
    assert naive.mean() < -8  # the least of 30 binomials of 60 is 2 of their standard deviations of 5.9 below the mean
    assert abs(nested.mean()) < 4 * nested.std(ddof=1) / N_SEEDS**0.5
    held = np.mean([one.nested.ci_low <= 0 <= one.nested.ci_high for one in found])  # type: ignore[operator]
    assert held >= 0.85  # 51 of 60: a 95 % interval has fewer with a chance below 0.001
    assert all(one.optimism == one.nested.value - one.naive.value for one in found)


def test_of_equal_errors_the_default_is_chosen_and_else_the_cheapest() -> None:
    wrong = np.zeros((10, 4), bool)
    wrong[:2] = True
    assert choose(wrong, wrong, default=2, costs=np.array([1.0, 2, 3, 4])).chosen == 2
    wrong[0, [0, 3]] = False
    found = choose(wrong, wrong, default=2, costs=np.array([9.0, 2, 3, 4]))
    assert (found.chosen, found.cheapest) == (3, 1)  # ten images tell none of them apart
    assert found.p_values[3] is None and found.p_value == found.p_values[2] == 1.0
    assert found.tied == (True,) * 4


@for_each([(0, 0), (3, 3), (9, 1), (1, 12)], arguments=2)
def test_the_paired_test_is_the_exact_binomial_one_of_images_on_which_the_two_differ(
    only_one: int, only_other: int
) -> None:
    one = np.array([True] * only_one + [False] * only_other + [True, False, False])
    other = np.array([False] * only_one + [True] * only_other + [True, False, False])
    expected = binomtest(only_one, only_one + only_other).pvalue if only_one + only_other else 1.0
    assert compute_paired_p_values(np.stack([other, one], axis=1), 0)[1] == pytest.approx(expected)


def test_the_interval_of_an_error_is_that_of_jeffreys_and_holds_the_value() -> None:
    wrong = np.zeros((40, 3), bool)
    wrong[:10, 1] = True
    wrong[:, 2] = True
    none, some, every = compute_variant_errors(wrong)
    assert (none.value, none.ci_low) == (0, 0) and every.ci_high == 100
    assert some.ci_low == pytest.approx(100 * beta.ppf(0.025, 10.5, 30.5))
    assert some.ci_high == pytest.approx(100 * beta.ppf(0.975, 10.5, 30.5))


def test_groups_tell_variants_apart_by_the_signs_of_their_differences() -> None:
    wrong = np.zeros((40, 3), bool)
    wrong[:30, 1] = True
    wrong[:2, 2] = True
    of_groups = np.repeat(np.arange(20, dtype=np.uint64), 2)
    assert compute_paired_p_values(wrong, 0, groups=of_groups) == (1.0, pytest.approx(2 / 2**15), 1.0)
    low, high = (getattr(compute_differences(wrong, 0, groups=of_groups)[2], end) for end in ("ci_low", "ci_high"))
    assert low < 0 < high  # one group of twenty is no evidence


def test_losses_are_told_apart_where_the_interval_of_their_paired_difference_lacks_0() -> None:
    random = np.random.default_rng(0)
    hard, numbers = random.exponential(1.0, (300, 1)), random.normal(0, 2, 300)
    losses = np.concatenate([hard, hard * 0.9, hard + random.normal(0, 0.3, (300, 1)), hard], axis=1)
    found = choose(losses, losses, default=0, costs=np.ones(4), train_numbers=numbers, test_numbers=numbers)
    assert found.chosen == 1 and found.tied == (False, True, False, False)
    assert found.nested.value == pytest.approx(-10 * hard.mean() / numbers.var()) and found.nested.ci_high < 0  # type: ignore[operator]
    for groups in (None, np.repeat(np.arange(60, dtype=np.uint64), 5)):
        p_values = compute_paired_p_values(losses, 0, groups=groups, numbers=numbers)
        assert p_values[0] == p_values[3] == 1.0
        for p, apart in zip(p_values, compute_differences(losses, 0, groups=groups, numbers=numbers), strict=True):
            assert (p < 0.05) == (not apart.ci_low <= 0 <= apart.ci_high)  # type: ignore[operator]


def test_outcomes_of_other_variants_are_refused() -> None:
    with pytest.raises(DataError, match=r"the shapes \(5, 3\) and \(4, 2\); expected images x variants"):
        choose(np.zeros((5, 3), bool), np.zeros((4, 2), bool), default=0, costs=np.ones(3))
    with pytest.raises(DataError, match="at least one image each"):
        choose(np.zeros((5, 3), bool), np.zeros((0, 3), bool), default=0, costs=np.ones(3))
