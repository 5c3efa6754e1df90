"""Paired comparisons and correlations."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from zoo.analysis.correlations import compare_pairs, correlate_columns


def planted(n: int, *, mean: float, sd: float, seed: int = 0) -> pd.Series:
    """Differences with a known mean and spread."""
    return pd.Series(mean + sd * np.random.default_rng(seed).standard_normal(n), index=[f"e{i}" for i in range(n)])


def test_a_planted_difference_is_recovered_with_its_spread() -> None:
    found = compare_pairs(planted(400, mean=2.0, sd=3.0), term="planted")
    assert found.n == found.mean.n == 400
    assert found.mean.ci_low is not None and found.mean.ci_high is not None
    assert found.mean.ci_low < 2.0 < found.mean.ci_high
    assert found.sd == pytest.approx(3.0, abs=0.25)
    assert found.mean.p is not None and found.mean.p < 1e-10
    assert found.median.value == pytest.approx(2.0, abs=0.5)


def test_pairs_of_one_group_that_err_alike_have_a_wider_interval() -> None:
    shared = planted(8, mean=0.8, sd=1.0, seed=3)
    groups = pd.Series(np.repeat([f"g{i}" for i in range(8)], 10))
    differences = pd.Series(np.repeat(shared.to_numpy(), 10)) + planted(80, mean=0.0, sd=0.1).to_numpy()
    found = compare_pairs(differences, term="clustered", groups=groups)
    assert found.by_group is not None and found.by_group.value == pytest.approx(found.mean.value)
    widths = [one.ci_high - one.ci_low for one in (found.mean, found.by_group)]  # type: ignore[operator]
    assert widths[1] > 2 * widths[0]
    alone = compare_pairs(differences, term="each its own", groups=pd.Series(map(str, range(80))))
    assert alone.by_group is None


def test_intervals_of_both_coefficients_hold_what_they_promise() -> None:
    rng = np.random.default_rng(5)
    true_tau = 2 / math.pi * math.asin(0.5)  # of a bivariate normal with correlation .5: Kendall 1948
    covered = np.zeros(2)
    for _ in range(300):
        x = rng.standard_normal(25)
        y = 0.5 * x + math.sqrt(0.75) * rng.standard_normal(25)
        pair = correlate_columns(pd.Series(x), pd.Series(y), term="normal")
        covered += [one.ci_low < true < one.ci_high for one, true in zip(pair, (0.5, true_tau), strict=True)]  # type: ignore[operator]
    assert (covered / 300 > 0.91).all()
