"""The error to expect with a given number of labels: exact where it must be, and as good as claimed on real curves."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from zoo.analysis.label_budget import (
    EXPONENT,
    Curve,
    HeldOutError,
    Noise,
    amplification,
    held_out_error,
    noise_of,
    predict_error,
    rank_odds,
)
from zoo.errors import QueryError
from zoo.results.derived import summaries
from zoo.results.values import SETTINGS

GRID = (3_000, 5_000, 12_811, 30_000, 1_281_167)


def power_law(n: float) -> float:
    return 12 * math.exp(4 * n**-EXPONENT)


@pytest.fixture(scope="module")
def curves() -> list[Curve]:
    """Measured errors of every encoder with more than one setting."""
    found = [
        {setting.n_labels: summary.errors[setting.name] for setting in SETTINGS if setting.name in summary.errors}
        for summary in summaries().values()
    ]
    return [curve for curve in found if len(curve) > 1]


@pytest.mark.parametrize("n_labels", [1_000, 2_345, 4_000, 8_000, 20_000, 100_000, 1_000_000])
def test_a_power_law_is_met_exactly_inside_and_below_the_settings(n_labels: int) -> None:
    predicted = predict_error({n: power_law(n) for n in GRID}, n_labels)
    assert predicted is not None
    assert predicted.error == pytest.approx(power_law(n_labels), rel=1e-9)


def test_a_measured_setting_is_returned_as_it_was_measured(curves: list[Curve]) -> None:
    for curve in curves:
        for n_labels, error in curve.items():
            predicted = predict_error(curve, n_labels)
            assert predicted is not None
            assert (predicted.error, predicted.kind, predicted.basis) == (error, "measured", (n_labels,))


@pytest.mark.parametrize("n_labels", [4_000, 9_999, 20_000, 50_000, 300_000, 1_200_000])
def test_inside_it_is_the_monotone_cubic_of_scipy(curves: list[Curve], n_labels: int) -> None:
    for curve in curves:
        places = [-(n**-EXPONENT) for n in sorted(curve)]
        reference = PchipInterpolator(places, [math.log(curve[n]) for n in sorted(curve)])
        predicted = predict_error(curve, n_labels)
        assert predicted is not None
        assert predicted.error == pytest.approx(math.exp(reference(-(n_labels**-EXPONENT))), rel=1e-9)


def test_two_settings_are_joined_by_a_straight_line() -> None:
    predicted = predict_error({3_000: power_law(3_000), 30_000: power_law(30_000)}, 10_000)
    assert predicted is not None
    assert predicted.error == pytest.approx(power_law(10_000))


def test_more_labels_never_raise_the_expected_error(curves: list[Curve]) -> None:
    budgets = [round(1_000 * 1.08**step) for step in range(93)]
    for curve in curves:
        errors = [predicted.error for n in budgets if (predicted := predict_error(curve, n)) is not None]
        assert len(errors) == len(budgets)
        assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors))


def test_an_extrapolated_error_stays_a_percentage() -> None:
    predicted = predict_error({3_000: 99.0, 5_000: 90.0, 12_811: 60.0}, 1_000)
    assert predicted is not None
    assert predicted.error <= 100
    assert predicted.kind == "extrapolated"


def test_the_settings_next_to_the_number_of_labels_are_named() -> None:
    curve = {n: power_law(n) for n in GRID}
    assert [predict_error(curve, n).basis for n in (2_000, 4_000, 100_000)] == [  # type: ignore[union-attr]
        (3_000, 5_000, 12_811),
        (3_000, 5_000),
        (30_000, 1_281_167),
    ]


@pytest.mark.parametrize("curve", [{}, {3_000: 50.0, 5_000: 45.0}, {1_281_167: 20.0}])
def test_a_curve_that_does_not_reach_is_not_predicted(curve: Curve) -> None:
    assert predict_error(curve, 1_500) is None


def test_a_curve_that_ends_before_the_number_of_labels_is_not_predicted() -> None:
    assert predict_error({3_000: 50.0, 5_000: 45.0, 12_811: 40.0}, 20_000) is None


@pytest.mark.parametrize("n_labels", [0, 999, 1_281_168, 10**9])
def test_labels_of_which_nothing_was_measured_are_refused(n_labels: int) -> None:
    with pytest.raises(QueryError, match=f"Got {n_labels:,} labels, expected at (least|most)"):
        predict_error({n: power_law(n) for n in GRID}, n_labels)


def test_an_error_of_zero_is_refused() -> None:
    with pytest.raises(QueryError, match="expected positive errors"):
        predict_error({3_000: 10.0, 5_000: 0.0}, 4_000)


def test_settings_left_out_are_predicted_as_well_as_the_docstring_says(curves: list[Curve]) -> None:
    claimed = {4_000: 0.19, 20_000: 0.21, 200_000: 0.43, 2_000: 0.46, 1_000: 1.45}
    for n_labels, points in claimed.items():
        held_out = held_out_error(curves, n_labels)
        assert held_out is not None
        assert held_out.n == 167
        assert held_out.mean_absolute_error == pytest.approx(points, abs=0.006)
        assert held_out.mean_absolute_error < held_out.percentile_90


@pytest.mark.parametrize(
    ("n_labels", "predicted", "left_out"),
    [
        (1_000, 3_000, (3_000, 5_000)),
        (2_000, 3_000, (3_000,)),
        (4_000, 5_000, (5_000,)),
        (20_000, 30_000, (30_000,)),
        (500_000, 30_000, (12_811, 30_000)),
    ],
)
def test_the_trial_is_at_least_as_hard_as_the_prediction(
    curves: list[Curve], n_labels: int, predicted: int, left_out: tuple[int, ...]
) -> None:
    held_out = held_out_error(curves, n_labels)
    assert held_out is not None
    assert (held_out.predicted, held_out.left_out) == (predicted, left_out)


def test_a_measured_setting_has_no_held_out_error(curves: list[Curve]) -> None:
    assert all(held_out_error(curves, n) is None for n in GRID)


def test_no_held_out_error_is_made_up_from_too_few_settings() -> None:
    assert held_out_error([{3_000: 50.0, 5_000: 45.0, 30_000: 30.0}], 4_000) is None


@pytest.mark.parametrize("hidden", [5_000, 12_811, 30_000])
def test_it_beats_the_straight_line_in_log_labels(curves: list[Curve], hidden: int) -> None:
    complete = [curve for curve in curves if len(curve) == 5]
    ours, line = 0.0, 0.0
    for curve in complete:
        rest = {n: error for n, error in curve.items() if n != hidden}
        predicted = predict_error(rest, hidden)
        assert predicted is not None
        low, high = predicted.basis
        share = math.log(hidden / low) / math.log(high / low)
        ours += abs(predicted.error - curve[hidden])
        line += abs(rest[low] + share * (rest[high] - rest[low]) - curve[hidden])
    assert ours < line / 3


@pytest.mark.parametrize(("settings", "n_labels"), [(GRID[:3], 1_000), (GRID[:3], 2_000), (GRID[2:], 3_000)])
def test_amplification_is_what_noise_of_the_measurements_does_to_a_prediction(
    settings: tuple[int, ...], n_labels: int
) -> None:
    def predicted(factors: dict[int, float]) -> float:
        found = predict_error({n: power_law(n) * factors.get(n, 1.0) for n in settings}, n_labels)
        assert found is not None
        return math.log(found.error)

    step = 1e-6
    weights = [(predicted({n: math.exp(step)}) - predicted({n: math.exp(-step)})) / (2 * step) for n in settings]
    assert amplification(settings, n_labels) == pytest.approx(math.hypot(*weights), rel=1e-6)


def test_with_1000_labels_the_misses_of_the_trial_are_scaled_by_the_ratio_of_the_noise(curves: list[Curve]) -> None:
    held_out = held_out_error(curves, 1_000)
    assert held_out is not None
    for curve in curves:
        predicted = predict_error(curve, 1_000)
        if predicted is None or predicted.basis != GRID[:3]:
            continue
        noise = noise_of(curve, predicted, held_out)
        assert noise is not None
        assert noise.scale == pytest.approx(10.1243 / 6.0289, rel=1e-4)
        assert noise.prediction == pytest.approx(noise.scale * held_out.root_mean_square)
    assert held_out.mean_absolute_error * noise.scale == pytest.approx(2.43, abs=0.01)
    assert held_out.percentile_90 * noise.scale == pytest.approx(4.68, abs=0.01)


def test_the_law_with_a_floor_is_met_exactly_where_it_holds_and_its_difference_is_in_the_interval() -> None:
    curve = {n: 8 + 500 * n**-0.27 for n in GRID}
    predicted = predict_error(curve, 1_000)
    held_out = HeldOutError(3_000, (3_000, 5_000), 1.0, 2.0, 100, 1.3, GRID[2:])
    assert predicted is not None
    noise = noise_of(curve, predicted, held_out)
    assert noise is not None
    assert predicted.error + noise.law == pytest.approx(8 + 500 * 1_000**-0.27, abs=0.01)
    low, high = noise.interval(predicted.error)
    assert low <= predicted.error + noise.law <= high


def test_intervals_of_an_extrapolation_hold_measurements_further_off_than_those_they_were_scaled_from(
    curves: list[Curve],
) -> None:
    """5-shot is predicted from 1 % on, and what was missed is scaled to 3-shot, which nothing else saw."""
    complete = [curve for curve in curves if len(curve) == len(GRID)]
    rest = [{n: curve[n] for n in GRID[2:]} for curve in complete]
    near = [
        predict_error(curve, 5_000).error - whole[5_000]  # type: ignore[union-attr]
        for curve, whole in zip(rest, complete, strict=True)
    ]
    trial = HeldOutError(5_000, (3_000, 5_000), 0, 0, len(near), math.sqrt(np.mean(np.square(near))), GRID[2:])
    held, by_noise_alone = 0, 0
    for curve, whole in zip(rest, complete, strict=True):
        predicted = predict_error(curve, 3_000)
        assert predicted is not None
        noise = noise_of(curve, predicted, trial)
        assert noise is not None
        low, high = noise.interval(predicted.error)
        held += low <= whole[3_000] <= high
        low, high = Noise(noise.images, noise.prediction).interval(predicted.error)
        by_noise_alone += low <= whole[3_000] <= high
    assert held / len(complete) == pytest.approx(0.87, abs=0.01)
    assert by_noise_alone / len(complete) == pytest.approx(0.80, abs=0.01)


def test_a_measured_setting_has_the_noise_of_its_validation_images_alone() -> None:
    predicted = predict_error({3_000: 36.0}, 3_000)
    assert predicted is not None
    assert noise_of({3_000: 36.0}, predicted, None) == Noise(pytest.approx(100 * math.sqrt(0.36 * 0.64 / 50_000)))


def test_two_encoders_win_as_often_as_the_normal_distribution_says() -> None:
    noises = [Noise(0.3, 0.4), Noise(0.0, 1.2)]  # standard deviation of the difference 1.3
    one, other = rank_odds([30.0, 31.3], noises, n_draws=20_000)
    expected = 0.5 * math.erfc(1 / math.sqrt(2))  # one standard deviation
    assert other.beats_first == other.best == pytest.approx(expected, abs=5 * math.sqrt(expected / 20_000))
    assert one.best + other.best == 1
    assert other.ties_with_first


def test_what_errs_alike_for_all_encoders_moves_no_rank() -> None:
    ranked = rank_odds([30.0, 31.0, 32.0], [Noise(0.01, law=5.0)] * 3)
    assert [(odds.lowest, odds.highest, odds.best) for odds in ranked] == [(1, 1, 1.0), (2, 2, 0.0), (3, 3, 0.0)]


def test_equals_share_their_ranks_and_the_same_seed_gives_the_same_odds() -> None:
    ranked = rank_odds([30.0] * 4, [Noise(1.0)] * 4)
    assert {(odds.lowest, odds.highest) for odds in ranked} == {(1, 4)}
    assert sum(odds.best for odds in ranked) == pytest.approx(1)
    assert all(odds.best == pytest.approx(0.25, abs=5 * 0.01) for odds in ranked)
    assert ranked == rank_odds([30.0] * 4, [Noise(1.0)] * 4)
