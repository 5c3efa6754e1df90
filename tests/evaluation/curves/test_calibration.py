"""Calibrated risk, cumulative improvement and labels saved: closed forms, invariances, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.curves.calibration import (
    calibrate_risk_draws,
    calibrated_risk,
    compute_improvements,
    cumulative_improvement,
    interpolate_scratch_labels,
    labels_saved,
)

SCRATCHES = [[0.9, 0.1], [1.0, 0.5, 0.0], [1.2, 0.7, 0.65, 0.3], [0.8, 0.9, 0.2, 0.4, 0.05], [0.9, 0.3, -0.1, -0.4]]


def planted(seed: int) -> tuple[Any, Any]:
    """Risks of an encoder and of scratch with noise on them; the constant baseline has 3 and maximal supervision 1."""
    random = np.random.default_rng(seed)
    scratch = np.linspace(2.9, 1.1, 6) + 0.1 * random.normal(size=6)
    return scratch - random.uniform(-0.2, 0.8, 6), scratch


@pytest.mark.parametrize("scale", [1e-150, 0.37, 1e150])
@pytest.mark.parametrize("shift", [0.0, 40.0])
def test_an_affine_change_of_the_loss_changes_no_calibrated_number(scale: float, shift: float) -> None:
    n = [10, 20, 40, 80, 160, 320]
    for seed in range(10):
        both = planted(seed)
        before = [calibrated_risk(each, blind=3.0, maximal=1.0) for each in both]
        ends = {"blind": scale * (3.0 + shift), "maximal": scale * (1.0 + shift)}
        after = [calibrated_risk(scale * (each + shift), **ends) for each in both]
        assert np.allclose(before, after, rtol=1e-11, atol=1e-11)
        assert cumulative_improvement(*before).value == pytest.approx(cumulative_improvement(*after).value, abs=1e-10)
        assert labels_saved(n, *both).limit == pytest.approx(labels_saved(n, *after).limit, rel=1e-9)


def test_the_controls_are_the_ends_of_the_scale_and_nothing_is_cut_off() -> None:
    maximal = np.random.default_rng(0).normal(size=200)
    assert np.all(calibrated_risk(maximal + 0.3, blind=maximal + 0.3, maximal=maximal) == 1)
    assert np.all(calibrated_risk(maximal, blind=maximal + 0.3, maximal=maximal) == 0)
    assert calibrated_risk([-1.0, 4.0], blind=2.0, maximal=0.0).tolist() == [-0.5, 2.0]
    found = calibrated_risk(np.arange(6.0).reshape(3, 2), blind=[10.0, 20.0], maximal=[[0.0], [1.0], [2.0]])
    assert found[2, 1] == pytest.approx((5 - 2) / (20 - 2))


@pytest.mark.parametrize("x", SCRATCHES)
@pytest.mark.parametrize("share", [0.0, 0.75, 1.0, 1.5])
def test_a_share_of_the_risk_of_scratch_is_one_minus_it_over_any_range(x: list[float], share: float) -> None:
    assert cumulative_improvement(share * np.array(x), x).value == pytest.approx(1 - share, abs=1e-14)


def test_what_lies_left_of_zero_is_cut_off_where_the_curve_crosses_it() -> None:
    cut = cumulative_improvement([0.6, 0.2, 0.1], [1.0, 0.4, 0.0])
    found = cumulative_improvement([0.6, 0.2, 0.0, -5.0], [1.0, 0.4, -0.4, -0.9])
    assert found.value == pytest.approx(cut.value)
    assert (found.from_scratch, found.to_scratch, found.n_regimes) == (1.0, 0.0, 4)
    again = cumulative_improvement([0.6, 0.2, 0.0, 0.3], [1.0, 0.4, -0.4, 0.4])  # and comes back at y = 0.15
    way_back = ((0 - 0.15) + (0.4 - 0.3)) / 2 * (0 - 0.4)
    assert again.value * (1 - 0.4**2) / 2 == pytest.approx(cut.value / 2 + way_back)


def test_functions_of_draws_equal_those_of_one_value_or_are_nan() -> None:
    random = np.random.default_rng(0)
    risk, blind, maximal = random.normal(size=(3, 200))
    risk[3], blind[4], maximal[5] = np.nan, np.inf, np.nan
    x = np.linspace(0.9, 0.0, 5) + 0.5 * random.normal(size=(200, 5))
    y = x - random.uniform(-0.3, 0.5, size=x.shape)
    x[7, 2], y[8, 4], x[9, 0] = np.nan, np.nan, np.inf
    calibrated, areas = calibrate_risk_draws(risk, blind=blind, maximal=maximal), compute_improvements(y, x)
    for i in range(200):
        one: Callable[[], Any] = lambda i=i: float(calibrated_risk(risk[i], blind=blind[i], maximal=maximal[i]))  # type: ignore[misc]  # noqa: E731
        area: Callable[[], Any] = lambda i=i: cumulative_improvement(y[i], x[i]).value  # type: ignore[misc]  # noqa: E731
        for found, expected in ((calibrated[i], one), (areas[i], area)):
            try:
                assert found == pytest.approx(expected(), rel=1e-12)
            except DataError:
                assert np.isnan(found)
    n, path, wanted = [10, 30, 90, 270], np.linspace(0.9, 0.2, 4) + 0.2 * random.normal(size=(99, 4)), risk[:99]
    path[5, 1], wanted[3] = np.nan, 0.5
    needed = interpolate_scratch_labels(n, wanted, path)
    assert np.flatnonzero(np.isnan(needed)).tolist() == [5]
    for i in set(range(99)) - {5}:
        saved = labels_saved(n, [wanted[i]] * 4, path[i])
        assert needed[i] == {"<": 0.0, ">": np.inf}.get(saved.bound[0], saved.limit[0])


def test_labels_are_read_off_straight_lines_over_the_logarithm() -> None:
    n = np.array([10, 100, 1000, 10_000])
    scratch = 50 - 10 * np.log10(n)
    found = labels_saved(n, risk=scratch - 5, risk_scratch=scratch)
    assert found.bound == ("=", "=", "=", ">") and found.scratch_n[3] is None and found.limit[3] == 10_000
    assert found.scratch_n[:3] == pytest.approx(n[:3] * 10**0.5)
    assert found.share_saved == pytest.approx([1 - 10**-0.5] * 3 + [0.0])
    equal = labels_saved([7, 30, 111], risk=[0.9, 0.4, 0.1], risk_scratch=[0.9, 0.4, 0.1])
    assert equal.scratch_n == (7.0, 30.0, 111.0) and equal.share_saved == (0.0, 0.0, 0.0)
    worse = labels_saved([100, 400], risk=[0.9, 0.5], risk_scratch=[0.8, 0.2])
    assert worse.bound == ("<", "=") and worse.share_saved == pytest.approx((0.0, -1.0))
    ups = labels_saved([1, 10, 100, 1000], risk=[0.7, 0.5, 0.6, 0.4], risk_scratch=[0.9, 0.5, 0.7, 0.3])
    assert ups.scratch_n == pytest.approx((10**0.5, 10, 10**0.75, 10**2.75)), "where scratch first gets there"
    longer = labels_saved([10, 100], risk=[0.4, 0.1], risk_scratch=[0.9, 0.5], maximal=(10_000, 0.3))
    assert longer.scratch_n[0] == pytest.approx(1000) and longer.bound[1] == ">" and longer.limit[1] == 10_000


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        (calibrated_risk, {"risk": 1.0, "blind": 0.5, "maximal": 0.5}, "maximal supervision to be lower"),
        (calibrated_risk, {"risk": [1.0, 1.0], "blind": [2.0, 0.3], "maximal": 0.4}, "at position 1"),
        (calibrated_risk, {"risk": [1.0, np.nan], "blind": 2.0, "maximal": 0.0}, "The risk is nan at position 1"),
        (calibrated_risk, {"risk": 1.0, "blind": 2.0, "maximal": -np.inf}, "maximal supervision is -inf"),
        (calibrated_risk, {"risk": [1, 2, 3], "blind": [2, 2], "maximal": 0}, "broadcast"),
        (calibrated_risk, {"risk": "low", "blind": 1, "maximal": 0}, "cannot be read"),
        (cumulative_improvement, {"calibrated": [0.5], "calibrated_scratch": [0.9]}, "spans no area"),
        (cumulative_improvement, {"calibrated": [0.5, 0.4], "calibrated_scratch": [0.5, 0.5]}, "not improve"),
        (cumulative_improvement, {"calibrated": [0.5, 0.4], "calibrated_scratch": [0.0, -0.5]}, "no worse than"),
        (cumulative_improvement, {"calibrated": [0.5, np.nan], "calibrated_scratch": [0.9, 0.5]}, "nan"),
        (cumulative_improvement, {"calibrated": [0.5, 0.4, 0.3], "calibrated_scratch": [0.9, 0.5]}, "same regimes"),
        (labels_saved, {"n": [], "risk": [], "risk_scratch": []}, "0 numbers of labels"),
        (labels_saved, {"n": [20, 10], "risk": [0.5, 0.4], "risk_scratch": [0.5, 0.4]}, "each above the last"),
        (labels_saved, {"n": [1.5, 10], "risk": [0.5, 0.4], "risk_scratch": [0.5, 0.4]}, "whole numbers"),
        (labels_saved, {"n": [5, 10], "risk": [1, 1], "risk_scratch": [1, 1], "maximal": (10, 0.1)}, "each above"),
    ],
)
def test_what_is_no_curve_is_refused(function: Callable[..., Any], arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        function(**arguments)
