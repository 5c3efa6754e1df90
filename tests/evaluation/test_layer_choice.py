"""Choosing among variants: by training images, judged by test images, on planted outcomes whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from zoo.errors import DataError
from zoo.evaluation.layer_choice import choose, difference, differences, errors, paired_p, paired_tests, signed_p

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


def test_the_nested_gain_is_on_average_the_true_one_where_one_variant_is_better() -> None:
    rates = np.full(20, 0.4)
    rates[7] = 0.25
    found = [
        choose(
            *planted(seed, n_variants=20, n_train=50, n_test=150, rates=rates),
            default=0,
            costs=np.ones(20),
            n_draws=200,
        )
        for seed in range(N_SEEDS)
    ]
    surplus = np.array([one.nested.value - 100 * (rates[one.chosen] - rates[0]) for one in found])
    assert abs(surplus.mean()) < 4 * surplus.std(ddof=1) / N_SEEDS**0.5
    naive = np.array([one.naive.value - 100 * (rates[one.chosen] - rates[0]) for one in found])
    assert naive.mean() < -4 * naive.std(ddof=1) / N_SEEDS**0.5  # too good, beyond chance


def test_of_equal_errors_the_default_is_chosen_and_else_the_cheapest() -> None:
    wrong = np.zeros((10, 4), bool)
    wrong[:2] = True
    assert choose(wrong, wrong, default=2, costs=np.array([1.0, 2, 3, 4])).chosen == 2
    wrong[0, [0, 3]] = False
    found = choose(wrong, wrong, default=2, costs=np.array([9.0, 2, 3, 4]))
    assert (found.chosen, found.cheapest) == (3, 1)  # ten images tell none of them apart
    assert found.p_values[3] is None and found.p_value == found.p_values[2] == 1.0
    assert found.tied == (True,) * 4


def test_a_default_that_is_chosen_differs_from_itself_by_nothing() -> None:
    random = np.random.default_rng(0)
    wrong = random.random((50, 3)) < np.array([0.1, 0.5, 0.6])
    found = choose(wrong, wrong, default=0, costs=np.ones(3))
    assert found.chosen == 0 and found.p_value is None
    assert (found.nested.value, found.nested.ci_low, found.nested.ci_high) == (0, 0, 0)


@pytest.mark.parametrize(("only_one", "only_other"), [(0, 0), (3, 3), (9, 1), (1, 12)])
def test_the_paired_test_is_the_exact_binomial_one_of_images_on_which_the_two_differ(
    only_one: int, only_other: int
) -> None:
    one = np.array([True] * only_one + [False] * only_other + [True, False, False])
    other = np.array([False] * only_one + [True] * only_other + [True, False, False])
    expected = binomtest(only_one, only_one + only_other).pvalue if only_one + only_other else 1.0
    assert paired_p(one, other) == pytest.approx(expected)


def test_the_interval_of_an_error_is_that_of_jeffreys_and_holds_the_value() -> None:
    wrong = np.zeros((40, 3), bool)
    wrong[:10, 1] = True
    wrong[:, 2] = True
    none, some, every = errors(wrong)
    assert (none.value, none.ci_low) == (0, 0) and every.ci_high == 100
    assert some.ci_low == pytest.approx(100 * beta.ppf(0.025, 10.5, 30.5))
    assert some.ci_high == pytest.approx(100 * beta.ppf(0.975, 10.5, 30.5))


def test_images_of_one_group_count_as_one() -> None:
    random = np.random.default_rng(1)
    wrong = random.random((60, 2)) < np.array([0.2, 0.45])
    alone = difference(wrong, 1, 0)
    copied = np.repeat(wrong, 9, axis=0)
    grouped = difference(copied, 1, 0, groups=np.repeat(np.arange(60, dtype=np.uint64), 9))
    loose = difference(copied, 1, 0)
    assert grouped.value == pytest.approx(alone.value)
    assert grouped.ci_high - grouped.ci_low == pytest.approx(alone.ci_high - alone.ci_low, rel=0.1)  # type: ignore[operator]
    assert loose.ci_high - loose.ci_low < 0.5 * (grouped.ci_high - grouped.ci_low)  # type: ignore[operator]


def test_groups_tell_variants_apart_by_the_signs_of_their_differences() -> None:
    wrong = np.zeros((40, 3), bool)
    wrong[:30, 1] = True
    wrong[:2, 2] = True
    of_groups = np.repeat(np.arange(20, dtype=np.uint64), 2)
    assert paired_tests(wrong, 0, groups=of_groups) == (1.0, pytest.approx(2 / 2**15), 1.0)
    low, high = (getattr(differences(wrong, 0, groups=of_groups)[2], end) for end in ("ci_low", "ci_high"))
    assert low < 0 < high  # one group of twenty is no evidence


def test_signs_of_single_images_make_the_exact_test_of_pairs() -> None:
    for n_more, n_less in ((5, 1), (7, 7), (9, 2)):
        differences_of = np.array([1.0] * n_more + [-1.0] * n_less + [0.0] * 5)
        assert signed_p(differences_of) == pytest.approx(binomtest(n_more, n_more + n_less).pvalue)
    many = np.array([1.0] * 60 + [-1.0] * 30)
    exact = binomtest(60, 90).pvalue
    assert signed_p(many) == pytest.approx(exact, abs=5 * (exact / 1e4) ** 0.5)  # 5 standard errors of 10,000 draws


def test_outcomes_of_other_variants_are_refused() -> None:
    with pytest.raises(DataError, match=r"the shapes \(5, 3\) and \(4, 2\); expected images x variants"):
        choose(np.zeros((5, 3), bool), np.zeros((4, 2), bool), default=0, costs=np.ones(3))
    with pytest.raises(DataError, match="at least one image each"):
        choose(np.zeros((5, 3), bool), np.zeros((0, 3), bool), default=0, costs=np.ones(3))


def test_differences_of_the_same_outcomes_are_known_to_be_none() -> None:
    wrong = np.array([[True, True, False]] * 5 + [[False, False, True]] * 5)
    same = differences(wrong, 0)[1]
    assert (same.value, same.ci_low, same.ci_high) == (0, 0, 0)
