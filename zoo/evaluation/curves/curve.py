"""A calibrated learning curve: every number of one encoder on one task, from its risks and those of its controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import DataError
from ..bootstrap import (
    MOST_LOST,
    Interval,
    calibrated_draws,
    improvement_draws,
    interval_of,
    n_lost,
    relative_draws,
    scratch_ends,
)
from ..bootstrap import Drawn as Drawn
from .calibration import Bound, labels_saved, no_scale

if TYPE_CHECKING:
    from ..bootstrap import Interval

NEAR_BLIND, NEAR_MAXIMAL = 0.9, 0.1  # calibrated risks of scratch between which the range counts as covered
_ENOUGH_SEEDS = 3


class Lost(NamedTuple):
    """Bootstrap draws in which a number is not identified."""

    what: Literal["calibrated", "relative", "improvement"]
    n: int
    regime: int = 0


def notes_of(
    points: Sequence[CurvePoint],
    *,
    improvement: Interval | None,
    no_improvement: str,
    frozen: bool,
    maximal_n: int | None,
    lost: Sequence[Lost],
    n_draws: Sequence[int],
) -> tuple[str, ...]:
    """All notes on a curve.

    Parameters
    ----------
    points : sequence of CurvePoint
        From the fewest labels to the most.
    improvement : Interval or None
        The cumulative one.
    no_improvement : str
        Why there is none; empty if there is.
    frozen : bool
        Whether the encoder stayed as it was.
    maximal_n : int or None
        Labels of maximal supervision; None of a recorded risk.
    lost : sequence of Lost
        Draws in which a number is not identified.
    n_draws : sequence of int
        Of each calibrated risk; 0 without an interval.
    """
    notes = [
        *_on_values(points, frozen=frozen),
        *_on_scratch(points, maximal_n=maximal_n),
        *_on_improvement(improvement, no_improvement),
        *_on_range(points),
        *_on_uncertainty(points, lost, n_draws=n_draws),
    ]
    return tuple(notes)


def _on_values(points: Sequence[CurvePoint], *, frozen: bool) -> Iterator[str]:
    below = [point for point in points if point.calibrated.value < 0]
    if below:
        chance = _within([point.calibrated for point in below], 0)
        yield (
            f"{_at(below)} the calibrated risk of the encoder is below 0{chance}: it does better than maximal "
            "supervision, which is then no good approximation of the best that labels can buy; improvements over "
            "scratch and comparisons of encoders on this task stay valid, but the curve does not end at maximal "
            "supervision."
        )
    above = [point for point in points if point.calibrated.value > 1]
    if above:
        chance = _within([point.calibrated for point in above], 1)
        yield (
            f"{_at(above)} the calibrated risk of the encoder is above 1{chance}: it does worse than a guess that "
            "never looks at the image."
        )
    worse = [point for point in points if point.calibrated.value > point.calibrated_scratch.value]
    if worse:
        chance = _within([point.relative_improvement for point in worse], 0)
        why = " (the encoder stayed frozen, and all of scratch was trained)" if frozen else ""
        what = "which tells nothing" if chance else "pre-training does worse there than random weights"
        yield f"{_at(worse)} the curve is above the diagonal{chance}{', ' if chance else ': '}{what}{why}."


def _on_scratch(points: Sequence[CurvePoint], *, maximal_n: int | None) -> Iterator[str]:
    below = [point for point in points if point.calibrated_scratch.value < 0]
    if below:
        chance = _within([point.calibrated_scratch for point in below], 0)
        control = "the recorded risk of maximal supervision" if maximal_n is None else "maximal supervision"
        yield (
            f"{_at(below)} the calibrated risk of scratch is below 0{chance}: it does better than {control}, so that "
            "there is no relative improvement there, and this part of the curve does not count in the cumulative "
            "improvement."
        )
    above = [point for point in points if point.calibrated_scratch.value > 1]
    if above:
        chance = _within([point.calibrated_scratch for point in above], 1)
        yield (
            f"{_at(above)} the calibrated risk of scratch is above 1{chance}: it does worse than a guess that never "
            "looks at the image."
        )
    same = [
        point
        for point in points
        if maximal_n is not None and point.n_actual >= maximal_n and point.calibrated_scratch.value == 0
    ]
    if same:
        yield (
            f"{_at(same)} scratch is maximal supervision itself, so that its calibrated risk is 0 and there is no "
            "relative improvement."
        )
    rising = [right for left, right in pairwise(points) if right.risk_scratch.value > left.risk_scratch.value]
    if rising:
        yield (
            f"{_at(rising)} scratch does worse than in the regime before: the cumulative improvement takes the area of "
            "this step back, and labels saved count to where scratch first reaches a risk; more seeds would tell "
            "whether it is chance."
        )


def _on_improvement(improvement: Interval | None, no_improvement: str) -> Iterator[str]:
    if no_improvement:
        yield f"There is no cumulative improvement: {no_improvement[0].lower()}{no_improvement[1:]}"
    elif improvement is not None and improvement.value > 1:
        yield (
            "The cumulative improvement is above 1, for the encoder does better than maximal supervision over much of "
            "the range."
        )
    elif improvement is not None and improvement.value < 0:
        chance = _within([improvement], 0)
        yield (
            f"The cumulative improvement is below 0{chance}: over the range as a whole, pre-training does worse than "
            "random weights."
        )


def _on_range(points: Sequence[CurvePoint]) -> Iterator[str]:
    scratch = [point.calibrated_scratch.value for point in points]
    if max(scratch) < NEAR_BLIND:
        yield (
            f"Scratch is nowhere near the blind guess (its highest calibrated risk is {max(scratch):.2f}), so that the "
            "range with few labels, where pre-training is mostly worth most, is not covered; fewer labels would cover "
            "it."
        )
    if min(scratch) > NEAR_MAXIMAL:
        yield (
            f"Scratch is nowhere near maximal supervision (its lowest calibrated risk is {min(scratch):.2f}), so that "
            "the range with many labels is not covered; more labels would cover it."
        )


def _on_uncertainty(points: Sequence[CurvePoint], lost: Sequence[Lost], *, n_draws: Sequence[int]) -> Iterator[str]:
    fewest = min(point.n_seeds for point in points)
    if fewest < _ENOUGH_SEEDS:
        few = [point for point in points if point.n_seeds == fewest]
        known = "nothing" if fewest == 1 else "little"
        yield (
            f"{_at(few)} there {'is one run' if fewest == 1 else f'are {fewest} runs'}, which "
            f"{'tells' if fewest == 1 else 'tell'} {known} about how much the seed matters; expected at least "
            f"{_ENOUGH_SEEDS} seeds."
        )
    if not all(n_draws):
        which = "some calibrated risks are without" if any(n_draws) else "no calibrated risk has"
        yield f"Nothing is known of the uncertainty of some risks, so that {which} an interval."
    most = max(n_draws)
    without_scale = max((each.n for each in lost if each.what == "calibrated"), default=0)
    own = {each: each.n if each.what == "calibrated" else each.n - without_scale for each in lost}
    of_regimes = [each for each in lost if each.what == "relative" and own[each] > 0]
    for each in [each for each in lost if each.what != "relative" and own[each] > 0]:
        yield f"In {own[each]:,} of {most:,} bootstrap draws {_REASONS[each.what]} {_kept([each], most)}."
    for some in ([each for each in of_regimes if each.n <= MOST_LOST * most],
                 [each for each in of_regimes if each.n > MOST_LOST * most]):  # fmt: skip
        if some:
            up_to = "up to " if len(some) > 1 else ""
            regimes = _listed([f"{each.regime:,}" for each in some])
            yield (
                f"In {up_to}{max(own[each] for each in some):,} of {most:,} bootstrap draws scratch with {regimes} "
                f"labels is no worse than maximal supervision; the interval of the relative improvement there "
                f"{_kept(some, most)}."
            )


_REASONS = {
    "calibrated": "maximal supervision is no better than the blind guess; the interval of calibrated risks, and of all "
    "that follows from them,",
    "improvement": "scratch does not improve from the first regime to the last; the interval of the cumulative "
    "improvement",
}


def _kept(some: Sequence[Lost], n_draws: int) -> str:
    return "counts them as outside" if some[0].n <= MOST_LOST * n_draws else "is left out for it"


def _at(points: Sequence[CurvePoint]) -> str:
    """Regimes as the opening of a sentence: With 100, 200 and 400 labels."""
    return f"With {_listed([f'{point.n_requested:,}' for point in points])} labels"


def _listed(shown: Sequence[str]) -> str:
    return f"{', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]}"


def _within(intervals: Sequence[Interval | None], level: float) -> str:
    """Whether all intervals hold the level, so that what is said may be chance."""
    for each in intervals:
        if each is None or each.ci_low is None or each.ci_high is None or not each.ci_low <= level <= each.ci_high:
            return ""
    return ", by no more than the uncertainty"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One data regime of a calibrated learning curve.

    Attributes
    ----------
    n_requested, n_actual : int
        Labels that were asked for, and that were used.
    n_seeds : int
        Runs behind the means.
    risk, risk_scratch : Interval
        Of the encoder and of scratch, in the curve's unit; lower is better.
    calibrated, calibrated_scratch : Interval
        The same between blind guess (1) and maximal supervision (0).
    relative_improvement : Interval or None
        (calibrated_scratch - calibrated) / calibrated_scratch, the share of scratch's risk that the encoder takes
        away; higher is better. None where scratch is no worse than maximal supervision, so that nothing is left.
    scratch_n : float or None
        Labels that scratch needs for the encoder's risk; None where only a bound is known.
    scratch_bound : "=", ">" or "<"
        Whether scratch needs as many labels as ``scratch_limit``, more, or fewer.
    scratch_limit : float
        ``scratch_n``, or the most or the fewest labels that scratch was measured with.
    scratch_n_low, scratch_n_high : float or None
        95 % interval of the labels that scratch needs; None for an end beyond what was measured, or without draws.
    share_saved : float
        1 - n_actual / scratch_limit, with the same bound: the share of scratch's labels that is saved.
    """

    n_requested: int
    n_actual: int
    n_seeds: int
    risk: Interval
    risk_scratch: Interval
    calibrated: Interval
    calibrated_scratch: Interval
    relative_improvement: Interval | None
    scratch_n: float | None
    scratch_bound: Bound
    scratch_limit: float
    scratch_n_low: float | None
    scratch_n_high: float | None
    share_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedCurve:
    """What an encoder is worth on a task, over several data regimes.

    Attributes
    ----------
    encoder, task, metric, unit, dataset, protocol : str
        The unit is that of the risks.
    frozen : bool
        Whether the encoder stayed as it was while its decoder was trained.
    blind, maximal : Interval
        Risks of the controls.
    points : tuple of CurvePoint
        The regimes, from the fewest labels to the most.
    improvement : Interval or None
        Calibrated cumulative improvement; higher is better, 0 is worth nothing, 1 is maximal supervision throughout.
        None where it is not identified; a note says why.
    improvement_range : (float, float) or None
        Calibrated risks of scratch between which it is measured, that with the fewest labels first.
    n_test : int or None
        Test images.
    notes : tuple of str
        What a reader must know: sentences on negative values, on the range that is covered, on seeds and intervals.
    """

    encoder: str
    task: str
    metric: str
    unit: str
    dataset: str
    protocol: str
    frozen: bool
    blind: Interval
    maximal: Interval
    points: tuple[CurvePoint, ...]
    improvement: Interval | None
    improvement_range: tuple[float, float] | None
    n_test: int | None
    notes: tuple[str, ...]

    @property
    def images_only(self) -> bool:
        """Whether intervals are over test images alone: a single seed says nothing of how seeds vary."""
        return min(point.n_seeds for point in self.points) == 1

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it; ``intervals_over`` says what the intervals are of."""
        found = asdict(self)
        found["intervals_over"] = ["test images"] if self.images_only else ["test images", "seeds"]
        found["improvement_range"] = None if self.improvement_range is None else list(self.improvement_range)
        return found | {"points": list(found["points"]), "notes": list(self.notes)}


def calibrated_curve(
    *,
    encoder: str,
    task: str,
    metric: str,
    unit: str,
    dataset: str,
    protocol: str,
    frozen: bool,
    regimes: Sequence[tuple[int, int]],
    risks: Sequence[Drawn],
    scratch: Sequence[Drawn],
    blind: Drawn,
    maximal: Drawn,
    n_seeds: Sequence[int],
    n_test: int | None = None,
    maximal_n: int | None = None,
) -> CalibratedCurve:
    """Calibrates risks, and computes all that follows from them, with intervals.

    Every number is computed anew from each bootstrap draw of the risks that it depends on, so that what they share
    cancels. A draw in which a number is not identified (maximal supervision no better than the blind guess, or scratch
    not improving) counts as outside of its interval; if they are more than 5 %, there is none. Notes say how many.

    Parameters
    ----------
    encoder, task, metric, unit, dataset, protocol : str
        What was measured; they go into the result as they are.
    frozen : bool
        Whether the encoder stayed as it was.
    regimes : sequence of (int, int)
        Labels that were asked for and that were used, both from the fewest to the most.
    risks, scratch : sequence of Drawn, one a regime
        Of the encoder and of scratch, means over seeds, in ``unit``; lower is better.
    blind, maximal : Drawn
        Risks of the controls, in ``unit``.
    n_seeds : sequence of int, one a regime
        Runs behind each mean.
    n_test : int, optional
        Test images.
    maximal_n : int, optional
        Labels of maximal supervision, if it is scratch with all labels; None for a recorded risk.

    Returns
    -------
    CalibratedCurve

    Raises
    ------
    DataError
        If maximal supervision is no better than the blind guess, there is no regime, one entry a regime is not what was
        handed in, labels do not rise, a risk is not finite, or risks have different numbers of draws.

    Examples
    --------
    >>> curve = calibrated_curve(
    ...     encoder="mine", task="classification", metric="transfer_error", unit="percent", dataset="digits",
    ...     protocol="ours", frozen=False, regimes=[(50, 50), (400, 400)], risks=[Drawn(value=50.0), Drawn(value=20.0)],
    ...     scratch=[Drawn(value=90.0), Drawn(value=30.0)], blind=Drawn(value=90.0), maximal=Drawn(value=10.0),
    ...     n_seeds=[3, 3], maximal_n=3200,
    ... )
    >>> [point.calibrated.value for point in curve.points], round(curve.points[1].scratch_n)
    ([0.5, 0.125], 1131)
    >>> curve.improvement_range, round(curve.improvement.value, 3)
    ((1.0, 0.25), 0.5)
    """
    _check_lengths(regimes, risks, scratch, n_seeds)
    _check_draws([*risks, *scratch, blind, maximal])
    if maximal.value >= blind.value:
        raise DataError(no_scale(blind=blind.value, maximal=maximal.value, where=f" ({metric} on {dataset})"))
    y, x = (calibrated_draws(some, blind=blind, maximal=maximal) for some in (risks, scratch))
    relative = [relative_draws(own, other) for own, other in zip(y, x, strict=True)]
    n = [n_actual for _, n_actual in regimes]
    further = [maximal_n] if maximal_n is not None and maximal_n > n[-1] else []  # one more point of scratch
    saved = labels_saved(
        n, [each.value for each in risks], [each.value for each in scratch],
        maximal=(further[0], maximal.value) if further else None,
    )  # fmt: skip
    path = [*scratch, maximal] if further else scratch
    ends = [scratch_ends([*n, *further], risk, path) for risk in risks]
    points = tuple(
        CurvePoint(
            n_requested=int(regimes[i][0]), n_actual=int(n[i]), n_seeds=int(n_seeds[i]),
            risk=interval_of(risks[i]), risk_scratch=interval_of(scratch[i]),
            calibrated=interval_of(y[i]), calibrated_scratch=interval_of(x[i]),
            relative_improvement=None if (own := relative[i]) is None else interval_of(own),
            scratch_n=saved.scratch_n[i], scratch_bound=saved.bound[i], scratch_limit=saved.limit[i],
            scratch_n_low=ends[i][0], scratch_n_high=ends[i][1], share_saved=saved.share_saved[i],
        )
        for i in range(len(regimes))
    )  # fmt: skip
    found, improved, reason = improvement_draws(y, x)
    improvement = None if improved is None else interval_of(improved)
    lost = [Lost("calibrated", max(n_lost(each) for each in (*y, *x)))]  # of all alike, for it lies with the controls
    lost += [Lost("relative", n_lost(each), int(n)) for each, (n, _) in zip(relative, regimes, strict=True) if each]
    lost += [Lost("improvement", n_lost(improved))] if improved else []
    return CalibratedCurve(
        encoder=encoder, task=task, metric=metric, unit=unit, dataset=dataset, protocol=protocol, frozen=frozen,
        blind=interval_of(blind), maximal=interval_of(maximal), points=points, improvement=improvement,
        improvement_range=None if found is None else (found.from_scratch, found.to_scratch),
        n_test=None if n_test is None else int(n_test),
        notes=notes_of(
            points, improvement=improvement, no_improvement=reason, frozen=frozen, maximal_n=maximal_n, lost=lost,
            n_draws=[len(each.draws) for each in (*y, *x)],
        ),
    )  # fmt: skip


def _check_lengths(
    regimes: Sequence[tuple[int, int]], risks: Sequence[Drawn], scratch: Sequence[Drawn], n_seeds: Sequence[int]
) -> None:
    lengths = (len(regimes), len(risks), len(scratch), len(n_seeds))
    if not lengths[0] or len(set(lengths)) > 1:
        raise DataError(
            "A curve was given {} regimes, {} risks, {} risks of scratch and {} numbers of seeds; expected one of each "
            "a regime, and at least one regime.".format(*lengths)
        )


def _check_draws(risks: Sequence[Drawn]) -> None:
    sizes = sorted({each.draws.shape for each in risks if each.draws.size})
    if len(sizes) > 1 or any(len(size) != 1 for size in sizes):
        raise DataError(
            f"The draws of the risks have the shapes {', '.join(map(str, sizes))}; expected as many of each risk, "
            "shape (n_draws,), draw i of all of one resample."
        )
