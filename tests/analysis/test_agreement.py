"""Agreement of two measurements: planted differences are found, outliers and few pairs told, bad input refused."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import correlations, is_high, leave_one_out, paired_comparison
from zoo.errors import QueryError


def planted(n: int, *, mean: float, sd: float, seed: int = 0) -> pd.Series:
    """Differences with a known mean and spread."""
    return pd.Series(mean + sd * np.random.default_rng(seed).standard_normal(n), index=[f"e{i}" for i in range(n)])


def test_a_planted_difference_is_recovered_with_its_spread() -> None:
    found = paired_comparison(planted(400, mean=2.0, sd=3.0), term="planted")
    assert found.n == found.mean.n == 400
    assert found.mean.ci_low is not None and found.mean.ci_high is not None
    assert found.mean.ci_low < 2.0 < found.mean.ci_high
    assert found.sd == pytest.approx(3.0, abs=0.25)
    assert found.mean.p is not None and found.mean.p < 1e-10
    assert found.median.value == pytest.approx(2.0, abs=0.5)


def test_the_t_test_is_that_of_two_paired_columns() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal(20) + 70, rng.standard_normal(20) + 69
    found = paired_comparison(pd.Series(first - second), term="two columns")
    theirs = stats.ttest_rel(first, second)
    assert found.mean.p == pytest.approx(theirs.pvalue)
    assert (found.mean.ci_low, found.mean.ci_high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))


def test_three_pairs_say_what_they_cannot() -> None:
    found = paired_comparison(pd.Series([-0.9, -0.1, 0.0]), term="three")
    assert found.smallest_p == stats.wilcoxon([1.0, 2.0, 3.0]).pvalue == 0.25  # all signs alike, the most extreme case
    assert found.median.ci_low is None and "too few" in found.median.note
    limit, shift = stats.t.ppf(0.975, 2), found.detectable / found.sd * math.sqrt(3)
    power = stats.nct.sf(limit, 2, shift) + stats.nct.cdf(-limit, 2, shift)  # of the test, by the noncentral t
    assert power == pytest.approx(0.8, abs=1e-4)


def test_pairs_of_one_group_that_err_alike_have_a_wider_interval() -> None:
    shared = planted(8, mean=0.8, sd=1.0, seed=3)
    groups = pd.Series(np.repeat([f"g{i}" for i in range(8)], 10))
    differences = pd.Series(np.repeat(shared.to_numpy(), 10)) + planted(80, mean=0.0, sd=0.1).to_numpy()
    found = paired_comparison(differences, term="clustered", groups=groups)
    assert found.by_group is not None and found.by_group.value == pytest.approx(found.mean.value)
    widths = [one.ci_high - one.ci_low for one in (found.mean, found.by_group)]  # type: ignore[operator]
    assert widths[1] > 2 * widths[0]
    alone = paired_comparison(differences, term="each its own", groups=pd.Series(map(str, range(80))))
    assert alone.by_group is None


@pytest.mark.parametrize(
    ("differences", "words"),
    [([1.0], "at least 2"), ([1.0, 1.0, 1.0], "some spread"), ([1.0, math.nan], "missing or infinite")],
)
def test_pairs_that_cannot_be_compared_are_refused(differences: list[float], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        paired_comparison(pd.Series(differences), term="bad")


def test_the_same_order_throughout_has_a_tau_without_an_interval() -> None:
    rising = pd.Series([1.0, 2.0, 3.0, 5.0, 8.0])
    r, tau = correlations(rising, rising**3, term="monotone")
    assert tau.value == pytest.approx(1.0) and tau.ci_low is None and tau.note
    assert r.value is not None and r.value < 1.0


def test_intervals_of_both_coefficients_hold_what_they_promise() -> None:
    rng = np.random.default_rng(5)
    true_tau = 2 / math.pi * math.asin(0.5)  # of a bivariate normal with correlation .5: Kendall 1948
    covered = np.zeros(2)
    for _ in range(300):
        x = rng.standard_normal(25)
        y = 0.5 * x + math.sqrt(0.75) * rng.standard_normal(25)
        pair = correlations(pd.Series(x), pd.Series(y), term="normal")
        covered += [one.ci_low < true < one.ci_high for one, true in zip(pair, (0.5, true_tau), strict=True)]  # type: ignore[operator]
    assert (covered / 300 > 0.91).all()


def test_the_row_that_makes_a_correlation_is_named() -> None:
    x, y = planted(20, mean=0, sd=1), planted(20, mean=0, sd=1, seed=9)
    x.iloc[7] = y.iloc[7] = 30.0
    without = leave_one_out(x, y)
    assert without.idxmin() == "e7"
    assert without.drop("e7").min() > 0.9 > 0.5 > without["e7"]
    with pytest.raises(QueryError, match="too few"):
        leave_one_out(x.iloc[:4], y.iloc[:4])
    one_varies = pd.Series([0.0, 0.0, 0.0, 0.0, 1.0])
    with pytest.raises(QueryError, match="never varies"):
        leave_one_out(one_varies, pd.Series([1.0, 2.0, 3.0, 4.0, 5.0]))


@pytest.mark.parametrize(
    ("value", "sign", "high"),
    [(0.5, 0, True), (-0.61, 0, True), (-0.61, 1, False), (-0.61, -1, True), (0.49, 1, False), (None, 0, False)],
)
def test_a_correlation_is_high_from_a_half_on_in_the_direction_that_is_claimed(
    value: float | None, sign: int, high: bool
) -> None:
    assert is_high(Estimate(term="r", value=value, n=10, unit="r"), sign=sign) is high
