"""A calibrated learning curve as a whole: its numbers, its intervals, and what its notes say of odd values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.evaluation.bootstrap import Drawn, compute_drawn_interval, compute_scratch_interval
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
    n = LABELS[: len(encoder)]
    some = [[each if isinstance(each, Drawn) else Drawn(value=each) for each in risks] for risks in (encoder, scratch)]
    given: dict[str, Any] = {
        **dict.fromkeys(("encoder", "task", "metric", "unit", "dataset", "protocol"), "any"),
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


def with_draws() -> dict[str, Any]:
    """All risks move on their own, except for what they share: the controls' draws."""
    return {
        "encoder": [drawn(value, seed=i) for i, value in enumerate(ENCODER)],
        "scratch": [drawn(value, seed=10 + i) for i, value in enumerate(SCRATCH)],
        "blind": drawn(BLIND, seed=20),
        "maximal": drawn(MAXIMAL, seed=21),
    }


def told(found: CalibratedCurve, *words: str) -> bool:
    return any(all(word in note for word in words) for note in found.notes)


def test_numbers_of_a_curve_are_those_of_the_functions_and_survive_json() -> None:
    found = curve()
    assert [point.calibrated.value for point in found.points] == pytest.approx([0.5, 0.3125, 0.175, 0.0375])
    first, last = found.points[0], found.points[3]
    assert first.relative_improvement is not None
    assert first.relative_improvement.value == pytest.approx(1 - 0.5 / 0.975)
    assert first.scratch_bound == "=" and first.scratch_n is not None and 200 < first.scratch_n < 800
    assert last.scratch_limit == last.scratch_n > 3200  # towards maximal supervision
    assert found.improvement is not None and (found.improvement.ci_low, first.calibrated.ci_low) == (None, None)
    assert found.improvement_range == pytest.approx((0.975, 0.075))
    document = curve(**with_draws()).as_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["points"][0]["calibrated"].keys() == {"value", "ci_low", "ci_high"}


def test_an_ordinary_curve_has_intervals_by_draw_and_nothing_to_explain() -> None:
    given = with_draws()
    found = curve(**given)
    assert found.notes == ()
    maximal, width = given["maximal"].draws, given["blind"].draws - given["maximal"].draws
    ends = found.points[2].calibrated
    by_draw = np.percentile((given["encoder"][2].draws - maximal) / width, [2.5, 97.5])
    assert (ends.ci_low, ends.ci_high) == pytest.approx(tuple(by_draw))
    low, high = found.points[1].scratch_n_low, found.points[1].scratch_n_high
    assert low is not None and high is not None and low < found.points[1].scratch_limit < high
    given["encoder"][1] = Drawn(value=ENCODER[1])
    one = curve(**given)
    assert [point.calibrated.ci_low is None for point in one.points] == [False, True, False, False]
    assert told(one, "no interval") and one.improvement is not None and one.improvement.ci_low is None


def test_what_risks_share_cancels_in_their_intervals() -> None:
    shift, scale = np.random.default_rng(0).normal(size=(2, N_DRAWS))
    scale = np.exp(0.1 * scale)

    def moved(values: Sequence[float]) -> list[Drawn]:
        return [Drawn(value=value, draws=scale * value + shift) for value in values]

    found = curve(moved(ENCODER), moved(SCRATCH), blind=moved([BLIND])[0], maximal=moved([MAXIMAL])[0])
    assert found.points[0].risk.ci_low is not None and found.points[0].risk.ci_low < 0  # of the risk itself it is wide
    assert found.improvement is not None and found.improvement.ci_low == pytest.approx(found.improvement.value)
    given = with_draws()
    equal = curve(**(given | {"encoder": given["scratch"]}))
    assert equal.improvement is not None
    assert (equal.improvement.value, equal.improvement.ci_low, equal.improvement.ci_high) == (0, 0, 0)
    assert [point.share_saved for point in equal.points] == [0.0] * 4


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (lambda: curve([0.3, 0.2, 0.09, 0.05]), ["With 800 and 3,200 labels", "of the encoder is below 0:"]),
        (
            lambda: curve([0.3, 0.2, 0.15, drawn(0.0999)], blind=drawn(BLIND), maximal=drawn(MAXIMAL, seed=1)),
            ["With 3,200 labels", "below 0 (within the confidence interval)"],
        ),
        (lambda: curve(scratch=[0.88, 0.7, 0.4, 0.06]), ["With 3,200", "scratch is below 0", "no relative"]),
        (lambda: curve(scratch=[0.88, 0.7, 0.4, 0.06], maximal_n=None), ["the recorded risk"]),
        (lambda: curve([0.95, 0.6, 0.5, 0.3]), ["With 50 labels the encoder is worse than the constant baseline"]),
        (
            lambda: curve(scratch=[0.92, 0.7, 0.45, 0.16]),
            ["With 50 labels scratch is worse than the constant baseline"],
        ),
        (lambda: curve([0.89, 0.8, 0.6, 0.5], frozen=True), ["worse than random weights", "stayed frozen"]),
        (lambda: curve([0.89, 0.8, 0.6, 0.5]), ["cumulative improvement is below 0"]),
        (lambda: curve(scratch=[0.75, 0.6, 0.45, 0.3]), ["few labels", "0.81"]),
        (lambda: curve(scratch=[0.75, 0.6, 0.45, 0.3]), ["many labels", "0.25"]),
        (lambda: curve(scratch=[0.88, 0.4, 0.45, 0.16]), ["With 800 labels scratch is worse than with fewer"]),
        (lambda: curve(n_seeds=[1, 3, 3, 3]), ["With 50 labels there is one run", "nothing"]),
        (lambda: curve(n_seeds=[2, 2, 3, 3]), ["With 50 and 200 labels there are 2 runs", "little"]),
        (lambda: curve([0.5], [0.88]), ["There is no cumulative improvement: a curve of 1 regime"]),
        (lambda: curve(scratch=[0.5, 0.5, 0.5, 0.5]), ["scratch does not improve from the first regime"]),
    ],
)
def test_odd_values_are_explained(found: Any, words: list[str]) -> None:
    assert told(found(), *words)


@pytest.mark.parametrize(("n_lost", "effect"), [(12, "count them as outside"), (40, "left out")])
def test_draws_without_a_scale_are_counted_once(n_lost: int, effect: str) -> None:
    given = with_draws()
    maximal = given["maximal"].draws.copy()
    maximal[:n_lost] = 2.0  # far above the constant baseline
    found = curve(**(given | {"maximal": Drawn(value=MAXIMAL, draws=maximal)}))
    (note,) = found.notes
    assert f"In {n_lost} of 400 bootstrap draws" in note and effect in note
    assert (found.points[0].calibrated.ci_low is None) == (n_lost == 40) and found.points[0].risk.ci_low is not None


def test_draws_in_which_scratch_is_too_good_or_does_not_improve_are_counted() -> None:
    given = with_draws()
    found = curve(**(given | {"scratch": [*given["scratch"][:3], drawn(0.105, seed=13)]}))
    last = found.points[3].relative_improvement
    assert last is not None and last.ci_low is None and told(found, "relative improvement", "left out")
    flat = given["scratch"][3].draws.copy()
    flat[:30] = 0.89
    found = curve(**(given | {"scratch": [*given["scratch"][:3], Drawn(value=SCRATCH[3], draws=flat)]}))
    assert told(found, "scratch does not improve", "left out")


@pytest.mark.parametrize("n_lost", [0, 120, 200])
def test_an_interval_holds_95_percent_of_all_draws_those_that_are_lost_included(n_lost: int) -> None:
    draws = np.random.default_rng(0).normal(size=4000)
    draws[np.argsort(draws)[len(draws) - n_lost :]] = np.nan  # as of a quotient whose divisor comes near 0
    found = compute_drawn_interval(Drawn(value=0.0, draws=draws))
    assert found.ci_low is not None and found.ci_high is not None
    assert np.mean((draws >= found.ci_low) & (draws <= found.ci_high)) == pytest.approx(0.95, abs=0.001)
    lost = np.where(np.isnan(draws), np.nan, 0.5 + 0.1 * draws)
    flat = [Drawn(value=each, draws=np.full(len(draws), each)) for each in (1.0, 0.0)]
    low, high = compute_scratch_interval([100, 10_000], Drawn(value=0.5, draws=lost), flat)
    labels = 100 * 100 ** (1 - lost)
    assert low is not None and high is not None
    assert np.mean((labels >= low * 0.999) & (labels <= high * 1.001)) == pytest.approx(0.95, abs=0.003)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"maximal": Drawn(value=0.95)}, r"0\.95 and the constant baseline one of 0\.9"),
        ({"blind": Drawn(value=float("nan"))}, "constant baseline is nan"),
        ({"n_seeds": [3]}, "expected one of each"),
        ({"regimes": [(50, 50), (200, 50), (800, 800), (900, 900)]}, "expected whole numbers"),
        (
            {"blind": Drawn(value=0.9, draws=np.ones(3)), "maximal": Drawn(value=0.1, draws=np.ones(2))},
            "expected as many",
        ),
        ({"encoder": [], "scratch": []}, "at least one regime"),
    ],
)
def test_a_table_that_is_no_curve_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        curve(**changed)
