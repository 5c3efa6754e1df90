"""A calibrated learning curve as a whole: its numbers, its intervals, and what its notes say of odd values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.bootstrap import Drawn, interval_of, scratch_ends
from zoo.evaluation.curves.curve import CalibratedCurve, calibrated_curve

N_DRAWS = 400
LABELS = [50, 200, 800, 3200]
ENCODER, SCRATCH = [0.5, 0.35, 0.24, 0.13], [0.88, 0.7, 0.45, 0.16]
BLIND, MAXIMAL = 0.9, 0.1


def drawn(value: float, *, spread: float = 0.01, seed: int = 0) -> Drawn:
    return Drawn(value=value, draws=value + spread * np.random.default_rng(seed).normal(size=N_DRAWS))


def curve(
    encoder: Sequence[float | Drawn] = ENCODER, scratch: Sequence[float | Drawn] = SCRATCH, **changed: Any
) -> CalibratedCurve:
    """Without draws, unless they are handed in."""
    n = changed.pop("n", LABELS[: len(encoder)])
    some = [[each if isinstance(each, Drawn) else Drawn(value=each) for each in risks] for risks in (encoder, scratch)]
    given: dict[str, Any] = {
        "encoder": "mine",
        "task": "depth",
        "metric": "depth_l1_error",
        "unit": "metres",
        "dataset": "rooms",
        "protocol": "ours",
        "frozen": False,
        "regimes": [(each, each) for each in n],
        "risks": some[0],
        "scratch": some[1],
        "blind": Drawn(value=BLIND),
        "maximal": Drawn(value=MAXIMAL),
        "n_seeds": [3] * len(n),
        "n_test": 100,
        "maximal_n": 12_800,
    }
    return calibrated_curve(**(given | changed))


def with_draws(spread: float = 0.01) -> dict[str, Any]:
    """All risks move on their own, except for what they share: the controls' draws."""
    return {
        "encoder": [drawn(value, spread=spread, seed=i) for i, value in enumerate(ENCODER)],
        "scratch": [drawn(value, spread=spread, seed=10 + i) for i, value in enumerate(SCRATCH)],
        "blind": drawn(BLIND, spread=spread, seed=20),
        "maximal": drawn(MAXIMAL, spread=spread, seed=21),
    }


def told(found: CalibratedCurve, *words: str) -> bool:
    return any(all(word in note for word in words) for note in found.notes)


def test_numbers_of_a_curve_are_those_of_the_functions() -> None:
    found = curve()
    assert [point.calibrated.value for point in found.points] == pytest.approx([0.5, 0.3125, 0.175, 0.0375])
    first = found.points[0]
    assert first.calibrated_scratch.value == pytest.approx(0.975)
    assert first.relative_improvement is not None
    assert first.relative_improvement.value == pytest.approx(1 - 0.5 / 0.975)
    assert first.scratch_bound == "=" and first.scratch_n is not None and 200 < first.scratch_n < 800
    assert found.points[3].scratch_limit == found.points[3].scratch_n > 3200  # towards maximal supervision
    assert found.improvement is not None and 0.3 < found.improvement.value < 0.6
    assert found.improvement_range == pytest.approx((0.975, 0.075))


def test_a_curve_without_draws_has_no_intervals_and_says_so() -> None:
    found = curve()
    ends = [
        (each.ci_low, each.ci_high) for each in (found.blind, found.points[0].calibrated, found.improvement) if each
    ]
    assert ends == [(None, None)] * 3
    assert found.notes == (
        "Nothing is known of the uncertainty of some risks, so that no calibrated risk has an interval.",
    )


def test_one_risk_without_draws_takes_its_own_interval_and_that_of_the_improvement() -> None:
    given = with_draws()
    given["encoder"][1] = Drawn(value=ENCODER[1])
    found = curve(**given)
    assert [point.calibrated.ci_low is None for point in found.points] == [False, True, False, False]
    assert found.improvement is not None and found.improvement.ci_low is None
    assert told(found, "some calibrated risks are without an interval")


def test_an_ordinary_curve_with_intervals_has_nothing_to_explain() -> None:
    found = curve(**with_draws())
    assert found.notes == ()
    for each in (found.improvement, *(point.calibrated for point in found.points)):
        assert each is not None and each.ci_low is not None and each.ci_high is not None
        assert each.ci_low < each.value < each.ci_high
    low, high = found.points[1].scratch_n_low, found.points[1].scratch_n_high
    assert low is not None and high is not None and low < found.points[1].scratch_limit < high


def test_intervals_are_percentiles_of_what_each_draw_gives() -> None:
    given = with_draws()
    found = curve(**given)
    blind, maximal = given["blind"].draws, given["maximal"].draws
    by_draw = (given["encoder"][2].draws - maximal) / (blind - maximal)
    ends = found.points[2].calibrated
    assert (ends.ci_low, ends.ci_high) == pytest.approx(tuple(np.percentile(by_draw, [2.5, 97.5])))


def test_what_risks_share_cancels_in_their_intervals() -> None:
    shift, scale = np.random.default_rng(0).normal(size=(2, N_DRAWS))
    scale = np.exp(0.1 * scale)

    def moved(values: Sequence[float]) -> list[Drawn]:
        return [Drawn(value=value, draws=scale * value + shift) for value in values]

    found = curve(moved(ENCODER), moved(SCRATCH), blind=moved([BLIND])[0], maximal=moved([MAXIMAL])[0])
    assert found.improvement is not None and found.improvement.ci_low is not None
    assert found.points[0].risk.ci_low is not None and found.points[0].risk.ci_low < 0  # of the risk itself it is wide
    assert found.improvement.ci_low == pytest.approx(found.improvement.value)
    assert found.points[0].calibrated.ci_high == pytest.approx(0.5)


def test_an_encoder_equal_to_scratch_is_worth_exactly_nothing_with_certainty() -> None:
    given = with_draws()
    found = curve(**(given | {"encoder": given["scratch"]}))
    assert found.improvement is not None
    assert (found.improvement.value, found.improvement.ci_low, found.improvement.ci_high) == (0, 0, 0)
    for point in found.points:
        assert point.relative_improvement is not None and point.relative_improvement.ci_high == 0
        assert point.share_saved == 0 and point.scratch_n == point.n_actual


def test_the_whole_curve_survives_json() -> None:
    found = curve(**with_draws()).as_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["points"][0]["calibrated"].keys() == {"value", "ci_low", "ci_high"}


# what the notes explain


def test_an_encoder_better_than_maximal_supervision_is_explained() -> None:
    found = curve([0.3, 0.2, 0.09, 0.05])
    assert found.points[3].calibrated.value < 0
    assert told(found, "With 800 and 3,200 labels", "of the encoder is below 0:", "better than maximal supervision")
    chance = curve([0.3, 0.2, 0.15, drawn(0.0999)], blind=drawn(BLIND), maximal=drawn(MAXIMAL, seed=1))
    assert told(chance, "With 3,200 labels", "below 0, by no more than the uncertainty:")


def test_scratch_better_than_maximal_supervision_has_no_relative_improvement_and_is_explained() -> None:
    found = curve(scratch=[0.88, 0.7, 0.4, 0.06])
    assert found.points[3].relative_improvement is None
    assert found.improvement_range == pytest.approx((0.975, 0.0))
    assert told(found, "With 3,200 labels", "risk of scratch is below 0", "no relative improvement")
    assert told(curve(scratch=[0.88, 0.7, 0.4, 0.06], maximal_n=None), "the recorded risk of maximal supervision")


def test_scratch_that_is_maximal_supervision_itself_is_named() -> None:
    found = curve(scratch=[0.88, 0.7, 0.4, MAXIMAL], maximal_n=3200)
    assert found.points[3].calibrated_scratch.value == 0 and found.points[3].relative_improvement is None
    assert found.points[3].scratch_bound == "=" and found.points[3].scratch_limit < 3200
    assert told(found, "With 3,200 labels scratch is maximal supervision itself")


def test_worse_than_a_guess_and_worse_than_scratch_are_explained() -> None:
    found = curve([0.95, 0.6, 0.5, 0.3], [0.92, 0.7, 0.45, 0.16])
    assert told(found, "With 50 labels", "risk of the encoder is above 1:", "never looks")
    assert told(found, "With 50 labels", "risk of scratch is above 1:")
    assert told(found, "With 50, 800 and 3,200 labels the curve is above the diagonal")
    assert told(curve([0.89, 0.8, 0.6, 0.5]), "cumulative improvement is below 0:")
    assert told(curve([0.89, 0.8, 0.6, 0.5], frozen=True), "above the diagonal", "the encoder stayed frozen")
    assert told(curve([0.05, 0.05, 0.05, 0.05]), "cumulative improvement is above 1")


def test_a_range_that_is_not_covered_is_named_with_its_end() -> None:
    found = curve(scratch=[0.75, 0.6, 0.45, 0.3])
    assert told(found, "nowhere near the blind guess", "0.81", "fewer labels")
    assert told(found, "nowhere near maximal supervision", "0.25", "more labels")


def test_scratch_that_gets_worse_in_between_is_named() -> None:
    assert told(curve(scratch=[0.88, 0.4, 0.45, 0.16]), "With 800 labels scratch does worse than in the regime before")


def test_few_seeds_are_named() -> None:
    assert told(curve(n_seeds=[1, 3, 3, 3]), "With 50 labels there is one run, which tells nothing")
    assert told(curve(n_seeds=[2, 2, 3, 3]), "With 50 and 200 labels there are 2 runs, which tell little")


def test_without_an_area_there_is_a_reason_instead_of_an_improvement() -> None:
    one = curve([0.5], [0.88])
    assert one.improvement is None and one.improvement_range is None
    assert told(one, "There is no cumulative improvement: a curve of 1 regime spans no area")
    flat = curve(scratch=[0.5, 0.5, 0.5, 0.5])
    assert flat.improvement is None and told(flat, "scratch does not improve from the first regime")


# draws in which a number is not identified


def some_lost(n_lost: int, **changed: Any) -> CalibratedCurve:
    given = with_draws()
    maximal = given["maximal"].draws.copy()
    maximal[:n_lost] = 2.0  # far above the blind guess
    return curve(**(given | {"maximal": Drawn(value=MAXIMAL, draws=maximal)} | changed))


def test_a_few_draws_without_a_scale_are_left_out_and_counted() -> None:
    found = some_lost(12)
    assert told(found, "In 12 of 400 bootstrap draws maximal supervision is no better", "counts them as outside.")
    for each in (found.points[0].calibrated, found.improvement):
        assert each is not None and each.ci_low is not None and abs(each.ci_low - each.value) < 0.1


def test_many_draws_without_a_scale_leave_no_interval() -> None:
    found = some_lost(40)
    assert told(found, "In 40 of 400 bootstrap draws", "and of all that follows from them, is left out for it.")
    assert found.points[0].calibrated.ci_low is None and found.points[0].risk.ci_low is not None
    assert found.improvement is not None and found.improvement.ci_low is None
    assert len(found.notes) == 1  # not again for each regime and for the improvement


def test_draws_in_which_scratch_does_not_improve_are_counted() -> None:
    given = with_draws()
    last = given["scratch"][3].draws.copy()
    last[:30] = 0.89
    found = curve(**(given | {"scratch": [*given["scratch"][:3], Drawn(value=SCRATCH[3], draws=last)]}))
    assert found.improvement is not None and found.improvement.ci_low is None
    assert told(found, "bootstrap draws scratch does not improve", "cumulative improvement is left out for it.")


def test_scratch_near_maximal_supervision_has_no_interval_of_relative_improvement() -> None:
    given = with_draws()
    given["scratch"][3] = drawn(0.105, spread=0.01, seed=13)
    found = curve(**given)
    last = found.points[3].relative_improvement
    assert last is not None and last.ci_low is None
    assert told(found, "scratch with 3,200 labels is no worse than maximal supervision", "left out for it")
    assert found.improvement is not None and found.improvement.ci_low is not None


def test_an_end_beyond_what_was_measured_is_open() -> None:
    given = with_draws()
    given["encoder"][3] = drawn(0.1, spread=0.02, seed=3)
    found = curve(**(given | {"maximal_n": None}))
    assert found.points[3].scratch_bound == ">" and found.points[3].scratch_n is None
    assert found.points[3].scratch_limit == 3200 and found.points[3].scratch_n_high is None


def test_an_interval_holds_its_value_and_none_is_made_of_nothing() -> None:
    assert interval_of(Drawn(value=1.0, draws=np.full(10, np.nan))).ci_low is None
    assert interval_of(Drawn(value=1.0, draws=np.linspace(2, 3, 50))).ci_low == 1.0


@pytest.mark.parametrize("n_lost", [0, 40, 120, 200])
def test_an_interval_holds_95_percent_of_all_draws_those_that_are_lost_included(n_lost: int) -> None:
    draws = np.random.default_rng(0).normal(size=4000)
    draws[np.argsort(draws)[len(draws) - n_lost :]] = np.nan  # as of a quotient whose divisor comes near 0
    found = interval_of(Drawn(value=0.0, draws=draws))
    assert found.ci_low is not None and found.ci_high is not None
    share = np.mean((draws >= found.ci_low) & (draws <= found.ci_high))
    assert share == pytest.approx(0.95, abs=0.001)
    lost = np.where(np.isnan(draws), np.nan, 0.5 + 0.1 * draws)
    flat = [Drawn(value=each, draws=np.full(len(draws), each)) for each in (1.0, 0.0)]
    low, high = scratch_ends([100, 10_000], Drawn(value=0.5, draws=lost), flat)
    labels = 100 * 100 ** (1 - lost)
    assert low is not None and high is not None
    assert np.mean((labels >= low * 0.999) & (labels <= high * 1.001)) == pytest.approx(0.95, abs=0.003)


# bad input


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"maximal": Drawn(value=0.95)},
            r"0\.95 and the blind guess one of 0\.9 \(depth_l1_error on rooms\); expected",
        ),
        ({"blind": Drawn(value=float("nan"))}, "The risk of the blind guess is nan"),
        ({"n_seeds": [3]}, "4 regimes, 4 risks, 4 risks of scratch and 1 numbers of seeds; expected one of each"),
        ({"regimes": [(50, 50), (200, 50), (800, 800), (900, 900)]}, "are 50, 50, 800, 900; expected whole numbers"),
        (
            {"blind": Drawn(value=0.9, draws=np.ones(3)), "maximal": Drawn(value=0.1, draws=np.ones(2))},
            "draw i of all of one resample",
        ),
    ],
)
def test_a_table_that_is_no_curve_is_refused_in_one_sentence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        curve(**changed)
    assert str(caught.value).count(". ") == 0 and str(caught.value).endswith(".")


def test_no_regime_is_no_curve() -> None:
    with pytest.raises(DataError, match="0 regimes, 0 risks"):
        curve([], [])
