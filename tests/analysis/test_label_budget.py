"""The error to expect with a given number of labels: exact where it must be, and as good as claimed on real curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from tests.each import for_each
from zoo.analysis.label_budget import (
    EXPONENT,
    Curve,
    HeldOutError,
    Noise,
    estimate_held_out_error,
    estimate_noise,
    predict_error,
    simulate_ranks,
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


@for_each([1_000, 2_345, 4_000, 8_000, 20_000, 100_000, 1_000_000])
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


@for_each([4_000, 9_999, 20_000, 50_000, 300_000, 1_200_000])
def test_inside_it_is_the_monotone_cubic_of_scipy(n_labels: int, curves: list[Curve]) -> None:
    for curve in curves:
        places = [-(n**-EXPONENT) for n in sorted(curve)]
        reference = PchipInterpolator(places, [math.log(curve[n]) for n in sorted(curve)])
        predicted = predict_error(curve, n_labels)
        assert predicted is not None
        assert predicted.error == pytest.approx(math.exp(reference(-(n_labels**-EXPONENT))), rel=1e-9)


@for_each([0, 999, 1_281_168, 10**9])
def test_labels_of_which_nothing_was_measured_are_refused(n_labels: int) -> None:
    with pytest.raises(QueryError, match=f"Got {n_labels:,} labels, expected at (least|most)"):
        predict_error({n: power_law(n) for n in GRID}, n_labels)


@for_each(
    [
        (1_000, 3_000, (3_000, 5_000)),
        (2_000, 3_000, (3_000,)),
        (4_000, 5_000, (5_000,)),
        (20_000, 30_000, (30_000,)),
        (500_000, 30_000, (12_811, 30_000)),
    ],
    arguments=3,
)
def test_the_trial_is_at_least_as_hard_as_the_prediction(
    n_labels: int, predicted: int, left_out: tuple[int, ...], curves: list[Curve]
) -> None:
    held_out = estimate_held_out_error(curves, n_labels)
    assert held_out is not None
    assert (held_out.predicted, held_out.left_out) == (predicted, left_out)


def test_the_law_with_a_floor_is_met_exactly_where_it_holds_and_its_difference_is_in_the_interval() -> None:
    curve = {n: 8 + 500 * n**-0.27 for n in GRID}
    predicted = predict_error(curve, 1_000)
    held_out = HeldOutError(3_000, (3_000, 5_000), 1.0, 2.0, 100, 1.3, GRID[2:])
    assert predicted is not None
    noise = estimate_noise(curve, predicted, held_out)
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
        noise = estimate_noise(curve, predicted, trial)
        assert noise is not None
        low, high = noise.interval(predicted.error)
        held += low <= whole[3_000] <= high
        low, high = Noise(noise.images, noise.prediction).interval(predicted.error)
        by_noise_alone += low <= whole[3_000] <= high
    assert held / len(complete) == pytest.approx(0.87, abs=0.01)
    assert by_noise_alone / len(complete) == pytest.approx(0.80, abs=0.01)


def test_what_errs_alike_for_all_encoders_moves_no_rank() -> None:
    ranked = simulate_ranks([30.0, 31.0, 32.0], [Noise(0.01, law=5.0)] * 3)
    assert [(odds.lowest, odds.highest, odds.best) for odds in ranked] == [(1, 1, 1.0), (2, 2, 0.0), (3, 3, 0.0)]
