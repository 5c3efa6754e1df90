"""The order and the regret of scores: by hand and by scipy, of what each resample drew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.do_transferability_scores_predict.selection import Resamples, compute_regret, draw_resamples, order
from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import estimate_of

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
