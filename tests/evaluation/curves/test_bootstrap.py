"""Intervals of risks hold what they promise, and what is shared between runs cancels in what is computed from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.bootstrap import Drawn, constant_draws, error_draws, image_draws, interval, resampled
from zoo.evaluation.curves.curve import CalibratedCurve, calibrated_curve

N_TEST = 120


def losses(n_runs: int, *, seed: int = 0, n_test: int = N_TEST) -> list[np.ndarray]:
    """Skewed, as those of depth are, and alike on hard images."""
    random = np.random.default_rng(seed)
    hard = random.gamma(2.0, 1.0, n_test)
    return [hard * random.uniform(0.5, 1.5, n_test) for _ in range(n_runs)]


def curve_of(risks: list[Drawn], scratch: list[Drawn], blind: Drawn, maximal: Drawn, n_seeds: int) -> CalibratedCurve:
    regimes = [(10 * 4**i, 10 * 4**i) for i in range(len(risks))]
    return calibrated_curve(
        encoder="planted",
        task="depth",
        metric="depth_l1_error",
        unit="metres",
        dataset="planted",
        protocol="none",
        frozen=False,
        regimes=regimes,
        risks=risks,
        scratch=scratch,
        blind=blind,
        maximal=maximal,
        n_seeds=[n_seeds] * len(risks),
        n_test=N_TEST,
    )


def test_the_value_is_the_mean_over_seeds_and_images() -> None:
    runs = losses(3)
    found = resampled(runs, {"all": [0, 1, 2], "one": [1]}, n_draws=50)
    assert found.means["all"].value == pytest.approx(np.mean(runs))
    assert found.means["one"].value == found.runs[1].value == pytest.approx(runs[1].mean())


def test_the_draws_vary_as_the_mean_of_the_images_does() -> None:
    (run,) = losses(1)
    draws = resampled([run], {"one": [0]}, n_draws=20_000).means["one"].draws
    assert draws.std() == pytest.approx(run.std() / np.sqrt(N_TEST + 1), rel=0.03)
    assert draws.mean() == pytest.approx(run.mean(), rel=0.005)


@pytest.mark.parametrize("seed_matters", [0.0, 0.15])
def test_intervals_hold_the_expected_risk_of_many_seeds_and_images_as_often_as_they_say(seed_matters: float) -> None:
    random = np.random.default_rng(7)
    n_held, n_repeated, n_seeds = 0, 400, 4
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        shift = 1 + seed_matters * random.standard_normal(n_seeds)
        runs = [hard * shift[i] + 0.3 * random.standard_normal(N_TEST) for i in range(n_seeds)]
        found = resampled(runs, {"all": range(n_seeds)}, n_draws=300, seed=int(random.integers(1 << 30)))
        around = interval(found.means["all"].value, found.means["all"].draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 2.0 <= around.ci_high
    assert 0.91 <= n_held / n_repeated <= 0.99


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_intervals_of_a_difference_hold_it_whether_its_seeds_have_anything_in_common_or_not(share: float) -> None:
    random = np.random.default_rng(11)
    n_held, n_repeated, n_seeds = 0, 400, 4
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        common = 0.2 * random.standard_normal(n_seeds)
        runs = []
        for level in (1.0, 1.5):
            shift = share * common + (1 - share) * 0.2 * random.standard_normal(n_seeds)
            runs += [level * hard + shift[i] + 0.3 * random.standard_normal(N_TEST) for i in range(n_seeds)]
        seed = int(random.integers(1 << 30))
        found = resampled(runs, {"one": range(n_seeds), "other": range(n_seeds, 2 * n_seeds)}, n_draws=300, seed=seed)
        one, other = found.means["one"], found.means["other"]
        around = interval(other.value - one.value, other.draws - one.draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 1.0 <= around.ci_high
    assert 0.91 <= n_held / n_repeated <= (1.0 if share else 0.99)  # what is common is counted as if it were not


def test_an_interval_of_one_seed_misses_how_much_seeds_vary_and_is_called_one_of_images_only() -> None:
    random = np.random.default_rng(5)
    n_held, n_repeated = 0, 200
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        runs = [hard + 0.6 * random.standard_normal()]  # the image mean has a standard error of 0.13
        found = resampled(runs, {"one": [0]}, n_draws=200, seed=int(random.integers(1 << 30)))
        around = interval(found.means["one"].value, found.means["one"].draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 2.0 <= around.ci_high
    assert n_held / n_repeated < 0.55  # a normal distribution has 0.32 there
    risks = [found.means["one"], Drawn(value=1.5, draws=found.means["one"].draws - found.means["one"].value + 1.5)]
    scale = {"blind": constant_draws(9.0, n_draws=200), "maximal": constant_draws(1.0, n_draws=200)}
    for n_seeds, over in ((1, ["test images"]), (2, ["test images", "seeds"])):
        curve = curve_of(risks, risks, **scale, n_seeds=n_seeds)
        assert curve.images_only == (n_seeds == 1) and curve.as_dict()["intervals_over"] == over


def test_a_mean_of_two_seeds_borrows_from_other_networks_how_much_seeds_vary() -> None:
    random = np.random.default_rng(3)
    n_held, widths, n_repeated, n_networks = 0, [], 300, 6
    for _ in range(n_repeated):
        hard = random.gamma(2.0, 1.0, N_TEST)  # mean 2
        runs = [hard + 0.4 * random.standard_normal() for _ in range(2 * n_networks)]
        groups = {number: [2 * number, 2 * number + 1] for number in range(n_networks)}
        found = resampled(
            runs, groups, pools=dict.fromkeys(groups, "alike"), n_draws=300, seed=int(random.integers(1 << 30))
        )
        around = interval(found.means[0].value, found.means[0].draws)
        assert around.ci_low is not None and around.ci_high is not None
        n_held += around.ci_low <= 2.0 <= around.ci_high
        widths.append(around.ci_high - around.ci_low)
    assert 0.91 <= n_held / n_repeated <= 0.99
    assert np.median(widths) < 2 * 2.45 * np.sqrt(0.4**2 / 2 + 2 / N_TEST) * 1.3  # t with 6 degrees of freedom


def test_means_of_the_same_risks_are_moved_alike_and_those_of_others_are_not() -> None:
    hard = np.random.default_rng(0).gamma(2.0, 0.01, N_TEST)
    runs = [hard + shift for shift in (-0.5, 0.4, -0.5, 0.4, 0.3, 0.9)]
    found = resampled(
        runs, {"one": [0, 1], "same": [2, 3], "other": [4, 5]}, pools=dict.fromkeys(("one", "same", "other"), 0)
    ).means
    assert np.array_equal(found["one"].draws, found["same"].draws)
    above = [found[name].draws > found[name].value for name in ("one", "other")]
    assert 0.4 < np.mean(above[0] == above[1]) < 0.6  # variances are shared, and heavy-tailed; directions are not


def test_networks_whose_means_are_equal_by_chance_are_not_moved_alike() -> None:
    runs = [np.zeros(N_TEST) for _ in range(4)]
    for run, n_wrong, start in zip(runs, (20, 60, 20, 60), (0, 0, 60, 60), strict=True):
        run[start : start + n_wrong] = 100.0  # equally many images, and others
    found = resampled(runs, {"one": [0, 1], "other": [2, 3]}, bounds=(0.0, 100.0)).means
    assert found["one"].value == found["other"].value
    above = [found[name].draws > found[name].value for name in ("one", "other")]
    assert np.mean(above[0] == above[1]) < 0.6


def test_seeds_that_differ_make_the_interval_of_their_mean_wider() -> None:
    random = np.random.default_rng(0)
    hard = random.gamma(2.0, 1.0, N_TEST)
    alike, unlike = ([hard * (1 + spread * i) for i in (-1, 0, 1)] for spread in (0.0, 0.5))
    narrow, wide = (resampled(runs, {"all": range(3)}).means["all"].draws.std() for runs in (alike, unlike))
    assert wide > 2 * narrow


def test_equal_runs_have_equal_draws_and_a_difference_has_that_of_the_difference_alone() -> None:
    one, other = losses(2)
    found = resampled([one, one.copy(), other], {"a": [0], "b": [1], "c": [2]}, n_draws=5_000)
    assert np.array_equal(found.means["a"].draws, found.means["b"].draws)
    difference = (found.means["a"].draws - found.means["c"].draws).std()
    assert difference == pytest.approx((one - other).std() / np.sqrt(N_TEST + 1), rel=0.1)


def test_an_affine_change_of_the_loss_changes_the_draws_alike_and_no_calibrated_number() -> None:
    runs = losses(6)
    groups = {"encoder": [0], "more": [1], "scratch": [2], "more scratch": [3], "blind": [4], "maximal": [5]}
    scales = {"blind": 3.0, "scratch": 2.5, "more scratch": 1.5, "encoder": 1.8, "more": 1.2, "maximal": 1.0}
    scaled = [runs[i] * scales[name] for name, (i,) in groups.items()]
    found, changed = (
        resampled([scale * run + shift for run in scaled], groups, n_draws=200).means
        for scale, shift in ((1.0, 0.0), (4.0, 7.0))
    )
    curves = [
        curve_of([one["encoder"], one["more"]], [one["scratch"], one["more scratch"]], one["blind"], one["maximal"], 3)
        for one in (found, changed)
    ]
    assert np.allclose(changed["more"].draws, 4 * found["more"].draws + 7)
    assert curves[0].improvement is not None and curves[1].improvement is not None
    assert curves[1].improvement.value == pytest.approx(curves[0].improvement.value)
    assert curves[1].improvement.ci_low == pytest.approx(curves[0].improvement.ci_low)
    for before, after in zip(curves[0].points, curves[1].points, strict=True):
        assert after.calibrated.ci_high == pytest.approx(before.calibrated.ci_high)


def test_with_bounds_a_single_error_has_the_interval_of_a_proportion() -> None:
    wrong = np.zeros(200)
    wrong[:9] = 100.0
    draws = resampled([wrong], {"one": [0]}, bounds=(0, 100), n_draws=40_000).means["one"].draws
    known = error_draws((wrong > 0).astype(np.int8)[:, None], {"one": [0]}, n_draws=40_000)["one"]
    assert np.allclose(np.percentile(draws, [2.5, 50, 97.5]), np.percentile(known, [2.5, 50, 97.5]), atol=0.1)


def test_an_error_of_nothing_has_an_interval_that_is_no_point() -> None:
    found = resampled([np.zeros(100)], {"one": [0]}, bounds=(0, 100), n_draws=4_000)
    assert found.runs[0].ci_low == 0.0 and 1.5 < float(found.runs[0].ci_high or 0) < 4.0


def test_draws_in_many_blocks_are_the_same_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.stack(losses(3), axis=1)
    whole = image_draws(table, bounds=None, n_draws=100, random=np.random.default_rng(1))
    monkeypatch.setattr("zoo.evaluation.bootstrap._WEIGHTS_AT_A_TIME", 7 * N_TEST)
    assert np.allclose(image_draws(table, bounds=None, n_draws=100, random=np.random.default_rng(1)), whole)


def test_a_seed_gives_the_same_draws_again_and_another_seed_others() -> None:
    runs = losses(2)
    one, again, other = (resampled(runs, {"a": [0, 1]}, n_draws=50, seed=seed).means["a"].draws for seed in (0, 0, 1))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def test_without_draws_there_are_values_and_no_intervals() -> None:
    found = resampled(losses(2), {"a": [0, 1]}, n_draws=0)
    assert found.means["a"].draws.size == 0 and found.runs[0].ci_low is None


def test_a_recorded_risk_does_not_vary() -> None:
    assert np.array_equal(constant_draws(3.5, n_draws=4).draws, np.full(4, 3.5))


def test_a_curve_of_one_seed_says_that_its_interval_is_not_of_seeds() -> None:
    scales = (2.5, 1.5, 1.8, 1.2, 3.0, 1.0)
    runs = [scale * run for scale, run in zip(scales, losses(6), strict=True)]
    found = resampled(runs, dict(enumerate([[i] for i in range(6)])), n_draws=200).means
    one = curve_of([found[2], found[3]], [found[0], found[1]], found[4], found[5], 1)
    three = curve_of([found[2], found[3]], [found[0], found[1]], found[4], found[5], 3)
    assert any("seed" in note for note in one.notes) and not any("seed" in note for note in three.notes)
    assert replace(one, notes=()).improvement == three.improvement


def test_what_cannot_be_resampled_together_is_refused() -> None:
    with pytest.raises(DataError, match="expected at least one"):
        resampled([], {})
    with pytest.raises(DataError, match="the same test images in every run"):
        resampled([np.zeros(3), np.zeros(4)], {})
    with pytest.raises(DataError, match="run 1 on test image 2 is nan"):
        resampled([np.zeros(3), np.array([0, 1, np.nan])], {})
