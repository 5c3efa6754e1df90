"""Paired comparisons: against scipy, with groups, and how often simultaneous intervals hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoo.choosing.comparing import Look, behind_alone, compared, error_of, error_percent_draws


def look_of(wrong: dict[str, np.ndarray], **changed: object) -> Look:
    n_test = len(next(iter(wrong.values())))
    return replace(Look(1, 10, n_test, "probe", wrong, {}, None, {}, 0.0), **changed)  # type: ignore[arg-type]


def outcomes(n: int, shares: dict[str, float], *, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    hard = random.uniform(size=n)
    return {name: 0.6 * hard + 0.4 * random.uniform(size=n) < share for name, share in shares.items()}


def test_a_difference_is_that_of_a_paired_t_test_with_half_an_image_more() -> None:
    from scipy.stats import ttest_rel

    wrong = outcomes(400, {"a": 0.2, "b": 0.3}, seed=0)
    value, error, freedom = look_of(wrong).behind("b", "a")
    by_scipy = ttest_rel(wrong["b"].astype(float), wrong["a"].astype(float))
    plain = (error**2 - 100**2 / 400**2) ** 0.5
    assert value / plain == pytest.approx(by_scipy.statistic, rel=1e-9)
    assert freedom == by_scipy.df


def test_copies_of_images_in_one_group_add_nothing() -> None:
    wrong = outcomes(300, {"a": 0.2, "b": 0.3}, seed=1)
    value, error, freedom = look_of(wrong).behind("b", "a")
    tripled = {name: np.repeat(one, 3) for name, one in wrong.items()}
    again = look_of(tripled, clusters=np.repeat(np.arange(300), 3)).behind("b", "a")
    assert again[0] == pytest.approx(value, rel=1e-12)
    assert again[2] == freedom
    assert again[1] == pytest.approx(error, rel=0.01)  # the half image more is a third of one here
    assert look_of(tripled).behind("b", "a")[1] < 0.7 * error


def test_a_contender_that_gains_on_the_leader_is_not_worse_beyond_doubt() -> None:
    random = np.random.default_rng(0)
    wrong = {"lead": random.uniform(size=2_000) < 0.1, "late": random.uniform(size=2_000) < 0.3}
    gains = {"lead": np.zeros(2_000, np.int8), "late": (random.uniform(size=2_000) < 0.2).astype(np.int8)}
    resting = look_of(wrong, gained={name: np.zeros(2_000, np.int8) for name in wrong}, n_doublings=4.0)
    gaining = look_of(wrong, gained=gains, n_doublings=4.0)
    assert resting.worse("late", "lead", margin=2.0) < 1e-6
    assert gaining.worse("late", "lead", margin=2.0) > 0.5  # a tenth a doubling, four of them
    assert gaining.projected("late") < resting.projected("late")


def test_simultaneous_intervals_are_wider_than_those_of_a_pair_and_hold_whoever_leads() -> None:
    look = look_of(outcomes(600, {"a": 0.2, "b": 0.21, "c": 0.22, "d": 0.23, "e": 0.24}, seed=3))
    names = sorted(look.wrong, key=look.error)
    _, behind, _ = compared(look, names, level=0.95, seed=0)
    for name in names[1:]:
        alone, together = behind_alone(look, name, names[0], level=0.95), behind[name]
        assert together.value == pytest.approx(alone.value)
        assert together.ci_low < alone.ci_low < alone.ci_high < together.ci_high  # type: ignore[operator]
    held = 0
    for seed in range(60):
        look = look_of(outcomes(300, dict.fromkeys("abcdef", 0.3), seed=seed))  # all are equally good
        _, behind, _ = compared(look, sorted(look.wrong, key=look.error), level=0.95, seed=seed)
        held += all(one.ci_low <= 0.0 for one in behind.values())  # type: ignore[operator]
    assert held >= 52  # 57 are expected; fewer than 52 with a probability of 1 %


def test_the_error_of_the_best_of_equals_is_too_low_by_about_its_optimism() -> None:
    missing, optimism = [], []
    for seed in range(40):
        look = look_of(outcomes(400, dict.fromkeys("abcdefgh", 0.3), seed=seed))
        names = sorted(look.wrong, key=look.error)
        missing.append(np.mean([look.error(name) for name in names]) - look.error(names[0]))
        optimism.append(compared(look, names, level=0.95, seed=seed)[2])
    assert np.mean(missing) > 0.5
    assert 0.3 * np.mean(missing) < np.mean(optimism) < 1.5 * np.mean(missing)
    errors, behind, none = compared(look, ["a"], level=0.95, seed=0)
    assert (none, behind) == (0.0, {})
    assert errors["a"].ci_low < look.error("a") < errors["a"].ci_high  # type: ignore[operator]


def test_draws_of_groups_vary_as_their_means_do() -> None:
    random = np.random.default_rng(0)
    per_group = random.uniform(size=80) < 0.3
    wrong = np.repeat(per_group, 10)[:, None]
    draws = error_percent_draws(wrong, np.repeat(np.arange(80), 10), seed=0)
    share = per_group.mean()
    assert draws.std() == pytest.approx(100 * (share * (1 - share) / 80) ** 0.5, rel=0.1)
    assert error_percent_draws(wrong, None, seed=0).std() < 0.5 * draws.std()


def test_no_error_has_an_interval_above_zero() -> None:
    found = error_of(look_of({"a": np.zeros(100, bool)}), "a", seed=0)
    assert (found.value, found.ci_low) == (0.0, 0.0)
    assert 1.0 < (found.ci_high or 0.0) < 4.0
