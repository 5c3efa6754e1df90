"""The error to expect with a given number of labels: exact where it must be, and as good as claimed on real curves."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from scipy.interpolate import PchipInterpolator

from zoo.analysis.label_budget import EXPONENT, Curve, held_out_error, predict_error
from zoo.errors import QueryError
from zoo.results import SETTINGS, summaries

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
