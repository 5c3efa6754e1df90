"""Intervals of risks hold what they promise, and what is shared between runs cancels in what is computed from them."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.bootstrap import compute_interval, make_constant_draws, resample_errors, resample_risks

N_TEST = 120


def losses(n_runs: int, *, seed: int = 0) -> list[np.ndarray]:
    """Skewed, as those of depth are, and alike on hard images."""
    random = np.random.default_rng(seed)
    hard = random.gamma(2.0, 1.0, N_TEST)
    return [hard * random.uniform(0.5, 1.5, N_TEST) for _ in range(n_runs)]


def test_values_are_means_and_draws_vary_as_the_mean_of_the_images_does() -> None:
    runs = losses(3)
    found = resample_risks(runs, {"all": [0, 1, 2], "one": [1]}, n_draws=20_000)
    assert found.means["all"].value == pytest.approx(np.mean(runs))
    assert found.means["one"].value == found.runs[1].value == pytest.approx(runs[1].mean())
    assert found.means["one"].draws.std() == pytest.approx(runs[1].std() / np.sqrt(N_TEST + 1), rel=0.03)
    assert resample_risks(runs, {"all": [0]}, n_draws=0).means["all"].draws.size == 0
    assert np.array_equal(make_constant_draws(3.5, n_draws=4).draws, np.full(4, 3.5))


@pytest.mark.parametrize(
    ("n_seeds", "spread", "low", "high"), [(4, 0.0, 0.91, 0.99), (4, 0.3, 0.91, 0.99), (1, 0.6, 0, 0.55)]
)
def test_intervals_hold_the_expected_risk_as_often_as_they_say_and_of_one_seed_less_often(
    n_seeds: int, spread: float, low: float, high: float
) -> None:
    random = np.random.default_rng(7)
    n_held, n_repeated = 0, 200
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        runs = [hard + spread * random.standard_normal() + 0.3 * random.standard_normal(N_TEST) for _ in range(n_seeds)]
        found = resample_risks(runs, {"all": range(n_seeds)}, n_draws=200, seed=int(random.integers(1 << 30)))
        around = compute_interval(found.means["all"].value, found.means["all"].draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 2.0 <= around.ci_high
    assert low <= n_held / n_repeated <= high


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_intervals_of_a_difference_hold_it_whether_its_seeds_have_anything_in_common_or_not(share: float) -> None:
    random = np.random.default_rng(11)
    n_held, n_repeated, n_seeds = 0, 200, 4
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        common = 0.2 * random.standard_normal(n_seeds)
        runs = []
        for level in (1.0, 1.5):
            shift = share * common + (1 - share) * 0.2 * random.standard_normal(n_seeds)
            runs += [level * hard + shift[i] + 0.3 * random.standard_normal(N_TEST) for i in range(n_seeds)]
        seed = int(random.integers(1 << 30))
        found = resample_risks(
            runs, {"one": range(n_seeds), "other": range(n_seeds, 2 * n_seeds)}, n_draws=200, seed=seed
        )
        one, other = found.means["one"], found.means["other"]
        around = compute_interval(other.value - one.value, other.draws - one.draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 1.0 <= around.ci_high
    assert 0.9 <= n_held / n_repeated <= 1.0


def test_a_mean_of_two_seeds_borrows_from_other_networks_how_much_seeds_vary() -> None:
    random = np.random.default_rng(3)
    n_held, widths, n_repeated, n_networks = 0, [], 150, 6
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        runs = [hard + 0.4 * random.standard_normal() for _ in range(2 * n_networks)]
        groups = {number: [2 * number, 2 * number + 1] for number in range(n_networks)}
        pools = dict.fromkeys(groups, "alike")
        found = resample_risks(runs, groups, pools=pools, n_draws=200, seed=int(random.integers(1 << 30)))
        around = compute_interval(found.means[0].value, found.means[0].draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 2.0 <= around.ci_high
        widths.append(around.ci_high - around.ci_low)
    assert 0.9 <= n_held / n_repeated <= 0.99
    assert np.median(widths) < 2 * 2.45 * np.sqrt(0.4**2 / 2 + 2 / N_TEST) * 1.3  # t with 6 degrees of freedom


def test_means_of_the_same_risks_are_moved_alike_and_those_of_others_are_not() -> None:
    hard = np.random.default_rng(0).gamma(2.0, 0.01, N_TEST)
    runs = [hard + shift for shift in (-0.5, 0.4, -0.5, 0.4, 0.3, 0.9)]
    groups = {"one": [0, 1], "same": [2, 3], "other": [4, 5]}
    found = resample_risks(runs, groups, pools=dict.fromkeys(groups, 0)).means
    assert np.array_equal(found["one"].draws, found["same"].draws)
    above = [found[name].draws > found[name].value for name in ("one", "other")]
    assert 0.4 < np.mean(above[0] == above[1]) < 0.6  # variances are shared, and heavy-tailed; directions are not


def test_a_difference_of_runs_has_the_interval_of_the_difference_alone_and_an_affine_change_changes_it_alike() -> None:
    one, other = losses(2)
    found = resample_risks([one, one.copy(), other], {"a": [0], "b": [1], "c": [2]}, n_draws=5_000).means
    assert np.array_equal(found["a"].draws, found["b"].draws)
    difference = (found["a"].draws - found["c"].draws).std()
    assert difference == pytest.approx((one - other).std() / np.sqrt(N_TEST + 1), rel=0.1)
    changed = resample_risks([4 * one + 7], {"a": [0]}, n_draws=5_000).means
    again = resample_risks([one], {"a": [0]}, n_draws=5_000).means
    assert np.allclose(changed["a"].draws, 4 * again["a"].draws + 7)


def test_with_bounds_a_single_error_has_the_interval_of_a_proportion() -> None:
    wrong = np.zeros(200)
    wrong[:9] = 100.0
    draws = resample_risks([wrong], {"one": [0]}, bounds=(0, 100), n_draws=40_000).means["one"].draws
    known = resample_errors((wrong > 0).astype(np.int8)[:, None], {"one": [0]}, n_draws=40_000)["one"].draws
    assert np.allclose(np.percentile(draws, [2.5, 50, 97.5]), np.percentile(known, [2.5, 50, 97.5]), atol=0.1)
    nothing = resample_risks([np.zeros(100)], {"one": [0]}, bounds=(0, 100), n_draws=4_000).runs[0]
    assert nothing.ci_low == 0.0 and 1.5 < float(nothing.ci_high or 0) < 4.0


@pytest.mark.parametrize("runs", [[], [np.zeros(3), np.zeros(4)], [np.zeros(3), np.array([0, 1, np.nan])]])
def test_what_cannot_be_resampled_together_is_refused(runs: list[np.ndarray]) -> None:
    with pytest.raises(DataError):
        resample_risks(runs, {})
