"""Calibrated risk, cumulative improvement and labels saved: closed forms, invariances, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.curves.calibration import (
    calibrated_risk,
    calibrated_risk_draws,
    cumulative_improvement,
    cumulative_improvements,
    labels_of_scratch,
    labels_saved,
)

SCRATCHES = [[0.9, 0.1], [1.0, 0.5, 0.0], [1.2, 0.7, 0.65, 0.3], [0.8, 0.9, 0.2, 0.4, 0.05]]


def planted(seed: int, n_regimes: int = 6) -> tuple[Any, Any, float, float]:
    """Risks of an encoder and of scratch with noise on them, of the blind guess and of maximal supervision."""
    random = np.random.default_rng(seed)
    blind, maximal = 3.0, 1.0
    scratch = np.linspace(2.9, 1.1, n_regimes) + 0.1 * random.normal(size=n_regimes)
    return scratch - random.uniform(-0.2, 0.8, n_regimes), scratch, blind, maximal


# calibrated risk


def test_the_blind_guess_is_one_and_maximal_supervision_zero() -> None:
    random = np.random.default_rng(0)
    maximal = random.normal(size=1000) * 10.0 ** random.integers(-8, 9, 1000)
    blind = maximal + np.abs(maximal) * random.uniform(0.01, 3, 1000) + 1e-9
    assert np.all(calibrated_risk(blind, blind=blind, maximal=maximal) == 1)
    assert np.all(calibrated_risk(maximal, blind=blind, maximal=maximal) == 0)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 0.37, 1.0, 1e6, 1e150])
@pytest.mark.parametrize("shift", [0.0, -2.5, 40.0])
def test_an_affine_change_of_the_loss_changes_neither_calibrated_risk_nor_improvement(
    scale: float, shift: float
) -> None:
    for seed in range(20):
        risk, scratch, blind, maximal = planted(seed)
        before = [calibrated_risk(each, blind=blind, maximal=maximal) for each in (risk, scratch)]
        after = [
            calibrated_risk(scale * (each + shift), blind=scale * (blind + shift), maximal=scale * (maximal + shift))
            for each in (risk, scratch)
        ]
        assert np.allclose(before, after, rtol=1e-11, atol=1e-11)
        values = [cumulative_improvement(*each).value for each in (before, after)]
        assert values[0] == pytest.approx(values[1], abs=1e-10)


def test_risks_of_seeds_and_regimes_are_calibrated_by_controls_of_either() -> None:
    risks = np.arange(6.0).reshape(3, 2)
    found = calibrated_risk(risks, blind=[10.0, 20.0], maximal=[[0.0], [1.0], [2.0]])
    assert found.shape == (3, 2)
    assert found[2, 1] == pytest.approx((5 - 2) / (20 - 2))
    assert float(calibrated_risk(3, blind=5, maximal=1)) == 0.5


def test_values_beyond_the_controls_are_not_cut_off() -> None:
    assert calibrated_risk([-1.0, 4.0], blind=2.0, maximal=0.0).tolist() == [-0.5, 2.0]


@pytest.mark.parametrize(
    ("risk", "blind", "maximal", "told"),
    [
        (1.0, 0.5, 0.6, r"risk of 0\.6 and the blind guess one of 0\.5; expected .* lower"),
        (1.0, 0.5, 0.5, "expected maximal supervision to be lower"),
        ([1.0, 1.0], [2.0, 0.3], 0.4, r"blind guess one of 0\.3 at position 1;"),
        ([1.0, np.nan], 2.0, 0.0, "The risk is nan at position 1; expected finite"),
        (1.0, np.inf, 0.0, "The risk of the blind guess is inf; expected finite"),
        (1.0, 2.0, -np.inf, "The risk of maximal supervision is -inf"),
        ([1.0, 2.0, 3.0], [2.0, 2.0], 0.0, r"shape \(3,\), that of the blind guess \(2,\).*broadcast"),
        ("low", 1.0, 0.0, "The risk cannot be read as numbers"),
        (1e308, 1e308, -1e308, "too far from each other"),
    ],
)
def test_risks_without_a_scale_are_refused_in_one_sentence(risk: Any, blind: Any, maximal: Any, told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        calibrated_risk(risk, blind=blind, maximal=maximal)
    assert str(caught.value).count(". ") == 0 and str(caught.value).endswith(".")


def test_calibrated_draws_equal_the_function_or_are_nan() -> None:
    random = np.random.default_rng(0)
    risk, blind, maximal = random.normal(size=(3, 500))
    risk[3], blind[4], maximal[5] = np.nan, np.inf, np.nan
    found = calibrated_risk_draws(risk, blind=blind, maximal=maximal)
    for i in range(500):
        try:
            expected = float(calibrated_risk(risk[i], blind=blind[i], maximal=maximal[i]))
        except DataError:
            assert np.isnan(found[i])
        else:
            assert found[i] == expected
    with pytest.raises(DataError, match="2 draws of the risk, 1 of the blind guess"):
        calibrated_risk_draws([1.0, 2.0], blind=[3.0], maximal=[0.0, 0.0])


# cumulative improvement


@pytest.mark.parametrize("x", SCRATCHES)
def test_an_encoder_equal_to_scratch_improves_by_exactly_nothing(x: list[float]) -> None:
    assert cumulative_improvement(x, x).value == 0
    crossing = [*x, -0.3, 0.01]
    assert cumulative_improvement(crossing, crossing).value == 0


@pytest.mark.parametrize("x", [*SCRATCHES, [0.9, 0.4, -0.2], [0.5, -0.1, 0.2], [0.9, 0.3, -0.1, -0.4]])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.75, 1.5])
def test_a_share_of_the_risk_of_scratch_is_one_minus_it_over_any_range(x: list[float], share: float) -> None:
    assert cumulative_improvement(share * np.array(x), x).value == pytest.approx(1 - share, abs=1e-14)


def test_a_triangle_has_its_area() -> None:
    # from (1, 1) straight down to (0.5, 0) and along the axis: 1/4 is left of the 1/2 under the diagonal
    assert cumulative_improvement([1.0, 0.0, 0.0], [1.0, 0.5, 0.0]).value == pytest.approx(0.5)
    # from (1, 0) straight to (0, 1): as much below the diagonal as above it
    assert cumulative_improvement([0.0, 1.0], [1.0, 0.0]).value == pytest.approx(0)


def test_a_constant_calibrated_risk_has_its_area_over_the_measured_range_alone() -> None:
    found = cumulative_improvement([0.2, 0.2, 0.2], [0.9, 0.7, 0.3])
    assert found.value == pytest.approx(1 - 0.2 * (0.9 - 0.3) / ((0.9**2 - 0.3**2) / 2))
    assert (found.from_scratch, found.to_scratch, found.n_regimes) == (0.9, 0.3, 3)


def test_more_than_maximal_supervision_is_more_than_one_and_harm_is_less_than_nothing() -> None:
    assert cumulative_improvement([-0.1, -0.1], [1.0, 0.0]).value == pytest.approx(1.2)
    assert cumulative_improvement([1.0, 1.0], [1.0, 0.0]).value == pytest.approx(-1)


def test_regimes_in_between_on_the_same_lines_change_nothing() -> None:
    y, x = np.array([0.7, 0.3, 0.1]), np.array([1.0, 0.6, 0.1])
    share = np.linspace(0, 2, 9)
    fine = [np.interp(share, [0, 1, 2], each) for each in (y, x)]
    assert cumulative_improvement(*fine).value == pytest.approx(cumulative_improvement(y, x).value)


def test_a_way_back_along_the_same_line_cancels() -> None:
    def line(x: Any) -> Any:
        return 0.1 + 0.3 * np.array(x)

    straight, detour = [0.9, 0.2], [0.9, 0.4, 0.95, 0.1, 0.5, 0.2]
    expected = cumulative_improvement(line(straight), straight).value
    assert cumulative_improvement(line(detour), detour).value == pytest.approx(expected)


def test_what_lies_left_of_zero_is_cut_off_where_the_curve_crosses_it() -> None:
    # it crosses x = 0 half way between the last two regimes, at y = 0.1
    cut = cumulative_improvement([0.6, 0.2, 0.1], [1.0, 0.4, 0.0])
    found = cumulative_improvement([0.6, 0.2, 0.0, -5.0], [1.0, 0.4, -0.4, -0.9])
    assert found.value == pytest.approx(cut.value)
    assert found.to_scratch == 0 and found.n_regimes == 4
    again = cumulative_improvement([0.6, 0.2, 0.0, 0.3], [1.0, 0.4, -0.4, 0.4])  # and comes back at y = 0.15
    way_back = ((0 - 0.15) + (0.4 - 0.3)) / 2 * (0 - 0.4)
    assert again.value * (1 - 0.4**2) / 2 == pytest.approx(cut.value / 2 + way_back)


def test_the_area_is_that_of_a_fine_riemann_sum() -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        y, x = random.uniform(-0.2, 1, 7), np.sort(random.uniform(0.05, 1.1, 7))[::-1]
        at = np.linspace(x[0], x[-1], 200_001)
        middle = (at[:-1] + at[1:]) / 2
        expected = (middle - np.interp(middle, x[::-1], y[::-1])).sum() / middle.sum()
        assert cumulative_improvement(y, x).value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("y", "x", "told"),
    [
        ([0.5], [0.9], "A curve of 1 regime spans no area"),
        ([], [], "A curve of 0 regimes spans no area"),
        ([0.5, 0.4], [0.5, 0.5], r"does not improve from the first regime \(calibrated risk 0\.5\) to the last"),
        ([0.5, 0.4, 0.1], [0.5, 0.1, 0.6], "does not improve"),
        ([0.5, 0.4], [-0.1, -0.5], r"risk of -0\.1 in the first regime, no worse than maximal supervision"),
        ([0.5, 0.4], [0.0, -0.5], "no worse than maximal supervision"),
        ([0.5, np.nan], [0.9, 0.5], "The calibrated risk is nan at position 1"),
        ([0.5, 0.4], [np.inf, 0.5], "The calibrated risk of scratch is inf at position 0"),
        ([0.5, 0.4, 0.3], [0.9, 0.5], r"shape \(3,\) and that of scratch \(2,\)"),
        ([[0.5, 0.4]], [[0.9, 0.5]], r"shape \(1, 2\); expected 1 axis"),
        ([1e308, -1e308], [1e-300, 0.0], "too large for their area"),
    ],
)
def test_a_curve_without_an_area_is_refused_in_one_sentence(y: Any, x: Any, told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        cumulative_improvement(y, x)
    assert str(caught.value).count(". ") == 0 and str(caught.value).endswith(".")


def test_improvements_of_draws_equal_the_function_row_by_row_or_are_nan() -> None:
    random = np.random.default_rng(0)
    x = np.linspace(0.9, 0.0, 5) + 0.5 * random.normal(size=(2000, 5))
    y = x - random.uniform(-0.3, 0.5, size=x.shape)
    x[7, 2], y[8, 4], x[9, 0] = np.nan, np.nan, np.inf
    found = cumulative_improvements(y, x)
    n_refused = 0
    for i in range(len(x)):
        try:
            expected = cumulative_improvement(y[i], x[i]).value
        except DataError:
            n_refused += 1
            assert np.isnan(found[i])
        else:
            assert found[i] == pytest.approx(expected, rel=1e-12)
    assert 20 < n_refused < 1000
    assert np.isnan(cumulative_improvements(y[:, :1], x[:, :1])).all()


# labels saved


def test_labels_are_read_off_straight_lines_over_the_logarithm() -> None:
    n = np.array([10, 100, 1000, 10_000])
    scratch = 50 - 10 * np.log10(n)
    found = labels_saved(n, risk=scratch - 5, risk_scratch=scratch)
    assert found.bound == ("=", "=", "=", ">")
    assert found.scratch_n[:3] == pytest.approx(n[:3] * 10**0.5)
    assert found.scratch_n[3] is None and found.limit[3] == 10_000
    assert found.share_saved == pytest.approx([1 - 10**-0.5] * 3 + [0.0])


def test_an_encoder_equal_to_scratch_saves_exactly_nothing() -> None:
    found = labels_saved([7, 30, 111], risk=[0.9, 0.4, 0.1], risk_scratch=[0.9, 0.4, 0.1])
    assert found.scratch_n == (7.0, 30.0, 111.0) and found.bound == ("=", "=", "=")
    assert found.share_saved == (0.0, 0.0, 0.0)


def test_a_worse_encoder_needs_more_labels_than_scratch() -> None:
    found = labels_saved([100, 400], risk=[0.9, 0.5], risk_scratch=[0.8, 0.2])
    assert found.bound == ("<", "=") and found.scratch_n[0] is None and found.limit[0] == 100
    assert found.scratch_n[1] == pytest.approx(100 * 4**0.5)
    assert found.share_saved == pytest.approx((0.0, -1.0))


def test_a_curve_that_goes_up_and_down_counts_where_it_first_gets_there() -> None:
    n, scratch = [1, 10, 100, 1000], [0.9, 0.5, 0.7, 0.3]
    found = labels_saved(n, risk=[0.7, 0.5, 0.6, 0.4], risk_scratch=scratch)
    assert found.scratch_n == pytest.approx((10**0.5, 10, 10**0.75, 10**2.75))
    flat = labels_saved(n, risk=[0.5] * 4, risk_scratch=[0.9, 0.5, 0.5, 0.5])
    assert flat.scratch_n == (10.0,) * 4


def test_maximal_supervision_is_one_more_point_of_the_curve_of_scratch() -> None:
    short = labels_saved([10, 100], risk=[0.4, 0.1], risk_scratch=[0.9, 0.5])
    assert short.bound == (">", ">") and short.limit == (100.0, 100.0)
    longer = labels_saved([10, 100], risk=[0.4, 0.1], risk_scratch=[0.9, 0.5], maximal=(10_000, 0.3))
    assert longer.scratch_n[0] == pytest.approx(1000) and longer.bound[1] == ">" and longer.limit[1] == 10_000


def test_calibrating_or_rescaling_the_risks_saves_the_same_labels() -> None:
    n = [10, 20, 40, 80, 160, 320]
    for seed in range(10):
        risk, scratch, blind, maximal = planted(seed)
        own, other = (calibrated_risk(each, blind=blind, maximal=maximal) for each in (risk, scratch))
        before, after = labels_saved(n, risk, scratch), labels_saved(n, own, other)
        assert before.bound == after.bound
        assert before.limit == pytest.approx(after.limit, rel=1e-9)


def test_labels_of_draws_equal_the_function_row_by_row() -> None:
    random = np.random.default_rng(0)
    n = [10, 30, 90, 270]
    path = np.linspace(0.9, 0.2, 4) + 0.2 * random.normal(size=(300, 4))
    risk = random.uniform(0, 1.2, 300)
    path[5, 1] = np.nan
    found = labels_of_scratch(n, risk, path)
    assert np.isnan(found[5]) and np.isnan(found).sum() == 1
    ends = {"<": 0.0, ">": np.inf}
    for i in set(range(300)) - {5}:
        one = labels_saved(n, [risk[i]] * 4, path[i])
        assert found[i] == ends.get(one.bound[0], one.limit[0])


@pytest.mark.parametrize(
    ("n", "risk", "scratch", "maximal", "told"),
    [
        ([], [], [], None, "0 numbers of labels, 0 risks"),
        ([10, 20], [0.5], [0.5, 0.4], None, "2 numbers of labels, 1 risks and 2 risks of scratch"),
        ([20, 10], [0.5, 0.4], [0.5, 0.4], None, "are 20, 10; expected whole numbers from 1 on"),
        ([10, 10], [0.5, 0.4], [0.5, 0.4], None, "each above the last"),
        ([0, 10], [0.5, 0.4], [0.5, 0.4], None, "from 1 on"),
        ([1.5, 10], [0.5, 0.4], [0.5, 0.4], None, "whole numbers"),
        ([5, 10], [0.5, np.nan], [0.5, 0.4], None, "The risk is nan at position 1"),
        ([5, 10], [0.5, 0.4], [np.inf, 0.4], None, "The risk of scratch is inf"),
        ([5, 10], [0.5, 0.4], [0.5, 0.4], (10, 0.1), "the last regime has 10 labels; expected"),
    ],
)
def test_a_table_that_is_no_curve_is_refused_in_one_sentence(
    n: Any, risk: Any, scratch: Any, maximal: Any, told: str
) -> None:
    with pytest.raises(DataError, match=told) as caught:
        labels_saved(n, risk, scratch, maximal=maximal)
    assert str(caught.value).count(". ") == 0 and str(caught.value).endswith(".")
