"""Paired comparisons, correlations and the regret of selection."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import (
    Resamples,
    compare_pairs,
    compute_regret,
    correlate_columns,
    draw_resamples,
    estimate_of,
    order,
)


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


RNG = np.random.default_rng(0)
N_ENCODERS, N_DRAWS = 9, 6
ERRORS = 50 * RNG.random((N_DRAWS, N_ENCODERS))
SCORES = -ERRORS + 10 * RNG.standard_normal((N_DRAWS, N_ENCODERS)).round(1)
COUNTS = draw_resamples(N_ENCODERS, N_DRAWS, n_resamples=40, seed=3)


def drawn(counts: Resamples, number: int) -> tuple[list[int], list[int]]:
    """The encoders and the draws of one resample, each as often as it was drawn."""
    rows = (counts.encoders[number], counts.draws[number])
    encoders, draws = (np.repeat(np.arange(len(one)), one.astype(int)).tolist() for one in rows)
    return encoders, draws


def test_order_is_scipys_tau_of_what_was_drawn() -> None:
    found = order(SCORES, ERRORS, COUNTS)
    for number in range(41):
        encoders, draws = drawn(COUNTS, number)
        by_hand = [stats.kendalltau(SCORES[row, encoders], -ERRORS[row, encoders]).statistic for row in draws]
        assert found[number] == pytest.approx(np.mean(by_hand), abs=1e-12)


def test_regret_is_what_the_chosen_one_of_those_drawn_has_more_than_the_best() -> None:
    rounded = SCORES.round(-1)  # with ties
    found = compute_regret(rounded, ERRORS, COUNTS)
    for number in range(41):
        encoders, draws = drawn(COUNTS, number)
        there = sorted(set(encoders))
        by_hand = []
        for row in draws:
            best = [one for one in there if rounded[row, one] == max(rounded[row, there])]
            by_hand.append(np.mean(ERRORS[row, best]) - min(ERRORS[row, there]))
        assert found[number] == pytest.approx(np.mean(by_hand), abs=1e-12)


def test_an_interval_over_draws_alone_is_that_of_a_mean() -> None:
    many = RNG.normal(5, 2, size=(400, 1))
    errors = np.concatenate([np.zeros((400, 1)), many], axis=1)
    scores = np.tile([0.0, 1.0], (400, 1))  # always chooses the second one
    counts = draw_resamples(2, 400, n_resamples=2_000)
    both = counts.encoders.min(axis=1) > 0  # resamples with both encoders
    one = estimate_of(compute_regret(scores, errors, counts)[both], Estimate(term="a", n=2, unit="points"))
    gains = np.maximum(errors[:, 1] - errors.min(axis=1), 0)
    assert one.value == pytest.approx(gains.mean())
    assert one.ci_low is not None and one.ci_high is not None
    assert one.ci_high - one.ci_low == pytest.approx(2 * 1.96 * gains.std() / 20, rel=0.15)
