"""Intervals of errors over groups of images: closed forms, and how often they hold the truth."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tests.each import for_each
from zoo.evaluation.bootstrap import (
    build_outcome_table,
    compute_design_effects,
    compute_disagreement_p,
    compute_interval,
    resample_errors,
)

N_DRAWS = 20_000


def repeated(wrong: list[int], sizes: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of groups that a probe is wrong on as a whole, or right, and the groups."""
    groups = np.repeat(np.arange(len(wrong)), sizes).astype(np.uint64)
    return np.repeat(np.array(wrong, np.int8), sizes)[:, None], groups


@for_each([0, 1, 6])
def test_where_whole_groups_are_wrong_the_draws_are_those_of_jeffreys_over_groups(n_wrong: int) -> None:
    outcomes, groups = repeated([1] * n_wrong + [0] * (20 - n_wrong), 7)
    draws = resample_errors(outcomes, {"error": [0]}, n_draws=N_DRAWS, groups=groups)["error"].draws
    exact = stats.beta(n_wrong + 0.5, 20 - n_wrong + 0.5)
    p_value = stats.kstest(draws / 100, exact.cdf).pvalue
    # 20 groups show a design effect of 7 * 20 / 19, which is cut to 7
    assert p_value > 1e-3


def test_a_design_effect_is_between_one_and_the_mean_size_by_images() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 30, 300).astype(np.uint64)
    sizes = np.unique(groups, return_counts=True)[1]
    tables = [rng.random(300) < 0.3, rng.random(30)[groups.astype(int)] < 0.3, np.zeros(300), np.ones(300)]
    found = compute_design_effects(np.stack(tables, axis=1).astype(np.int8), groups)
    most = (sizes**2).sum() / 300
    assert 1 <= found[0] < 2.2
    np.testing.assert_allclose(found[1:], most)
    assert compute_design_effects(np.array([[1], [0]], np.int8), np.array([4, 4], np.uint64))[0] == 2


@for_each([0.0, 0.3, 1.0])
def test_intervals_hold_the_truth_about_as_often_as_they_say(alike: float) -> None:
    rng, held, held_by_images, n = np.random.default_rng(1), 0, 0, 200
    for seed in range(n):
        groups = np.repeat(np.arange(60), rng.integers(1, 10, 60)).astype(np.uint64)
        if alike in (0.0, 1.0):
            shares = np.full(60, 0.3) if alike == 0 else (rng.random(60) < 0.3).astype(float)
        else:
            shares = rng.beta(0.3 * (1 - alike) / alike, 0.7 * (1 - alike) / alike, 60)
        wrong = (rng.random(len(groups)) < shares[groups.astype(int)]).astype(np.int8)[:, None]
        over_groups, over_images = (
            compute_interval(
                100 * wrong.mean(), resample_errors(wrong, {"e": [0]}, n_draws=400, seed=seed, groups=of)["e"].draws
            )
            for of in (groups, None)
        )
        assert over_groups.ci_low is not None and over_groups.ci_high is not None
        assert over_images.ci_low is not None and over_images.ci_high is not None
        held += over_groups.ci_low <= 30 <= over_groups.ci_high
        held_by_images += over_images.ci_low <= 30 <= over_images.ci_high
    assert held / n > 0.88  # 0.95 less three standard errors of 200 trials, and a little
    assert alike == 0 or held_by_images / n < 0.85


def test_probes_that_differ_by_groups_alone_do_not_disagree() -> None:
    rng, n, alarms, alarms_by_images = np.random.default_rng(2), 100, 0, 0
    for _ in range(n):
        groups = np.repeat(np.arange(120), 8).astype(np.uint64)
        wrong = np.repeat(rng.random(120) < 0.3, 8)
        parts = [np.flatnonzero(groups % 3 == part) for part in range(3)]
        outcomes = build_outcome_table(len(groups), [(rows, ~wrong[rows]) for rows in parts])
        alarms += compute_disagreement_p(outcomes, groups=groups) < 0.05
        alarms_by_images += compute_disagreement_p(outcomes) < 0.05
    assert alarms <= 15 < alarms_by_images
