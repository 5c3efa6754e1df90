"""Intervals of errors: closed forms, invariances, and how often they hold what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from tests.each import for_each
from zoo.errors import DataError
from zoo.evaluation.bootstrap import (
    Interval,
    build_outcome_table,
    compute_drawn_interval,
    compute_interval,
    estimate_surplus_variances,
    resample_errors,
)


def wrong(*counts: tuple[int, int]) -> Any:
    """One probe per image set of (wrong, right) images."""
    (n_wrong, n_right) = counts[0]
    return np.repeat(np.array([1, 0], dtype=np.int8), [n_wrong, n_right])[:, None]


def holds(found: Interval, truth: float) -> bool:
    assert found.ci_low is not None and found.ci_high is not None
    return found.ci_low <= truth <= found.ci_high


@for_each([(0, 40), (3, 40), (50, 200), (199, 200)], arguments=2)
def test_a_single_error_has_the_interval_of_jeffreys(n_wrong: int, n: int) -> None:
    draws = resample_errors(wrong((n_wrong, n - n_wrong)), {"error": [0]}, n_draws=200_000)["error"].draws
    expected = 100 * beta.ppf([0.025, 0.975], n_wrong + 0.5, n - n_wrong + 0.5)
    assert np.percentile(draws, [2.5, 97.5]) == pytest.approx(expected, abs=0.1, rel=0.02)


def test_errors_on_the_same_images_go_up_and_down_together() -> None:
    column = wrong((60, 140))
    together = resample_errors(np.hstack([column, column]), {"a": [0], "b": [1]})
    apart = [resample_errors(column, {"a": [0]}, seed=seed)["a"].draws for seed in (0, 1)]
    assert 0 < np.std(together["a"].draws - together["b"].draws) < 0.15 * np.std(apart[0] - apart[1])


def test_a_probe_without_images_is_refused() -> None:
    with pytest.raises(DataError, match="Probe 1 was evaluated on no image"):
        resample_errors(np.array([[0, -1], [1, -1]], dtype=np.int8), {"error": [0]})


def test_seeds_that_vary_no_more_than_their_images_add_little() -> None:
    random = np.random.default_rng(0)
    draws = random.normal(0.3, 0.05, size=(4000, 10))
    quiet = estimate_surplus_variances([(np.full(10, 0.3), draws)], random=random)
    loud = estimate_surplus_variances([(0.3 + 0.5 * np.arange(-4.5, 5), draws)], random=random)
    assert quiet.max() == 0
    assert np.median(loud) == pytest.approx(0.25 * np.var(np.arange(10), ddof=1), rel=0.15)


def test_intervals_of_an_error_and_of_a_difference_hold_the_truth_as_often_as_they_say() -> None:
    random, n_repeats, held = np.random.default_rng(5), 1000, [0, 0]
    for repeat in range(n_repeats):
        shares = (0.2, 0.27)
        outcomes = [(random.random((n, 1)) < p).astype(np.int8) for n, p in zip((150, 250), shares, strict=True)]
        drawn = [resample_errors(o, {"e": [0]}, n_draws=400, seed=repeat, part=i) for i, o in enumerate(outcomes)]
        one, two = (each["e"].draws for each in drawn)
        means = [100 * float(o.mean()) for o in outcomes]
        held[0] += holds(compute_interval(means[0], one), 20)
        held[1] += holds(compute_interval(means[1] - means[0], two - one), 7)
    assert all(0.93 <= count / n_repeats <= 0.97 for count in held), held


@for_each([(0.0, 0.94, 0.99), (0.05, 0.93, 0.98)], arguments=3)
def test_intervals_over_seeds_and_subsets_hold_the_truth(seed_effect: float, lowest: float, highest: float) -> None:
    random, n_repeats, n_seeds, n_train, n_subset, held = np.random.default_rng(6), 400, 5, 800, 150, [0, 0]
    for repeat in range(n_repeats):
        own = random.random(n_train) < 0.1  # R_AF, on the same images
        evaluated: list[Any] = [(None, ~own)]
        for _ in range(n_seeds):
            subset = random.choice(n_train, n_subset, replace=False)
            share = 0.25 + seed_effect * random.normal()
            evaluated.append((subset, random.random(n_subset) >= share))
        outcomes = build_outcome_table(n_train, evaluated)
        draws = resample_errors(outcomes, {"own": [0], "mean": range(1, n_seeds + 1)}, n_draws=400, seed=repeat)
        mean = 100 * float(np.mean([~correct for _, correct in evaluated[1:]]))
        held[0] += holds(compute_drawn_interval(draws["mean"]), 25)
        held[1] += holds(compute_interval(mean - 100 * float(own.mean()), draws["mean"].draws - draws["own"].draws), 15)
    assert all(lowest <= count / n_repeats <= highest for count in held), held
