"""A calibrated learning curve: every number of one encoder on one task, from its risks and those of its controls.

With the sentences that a reader must know of it (nothing is hidden, and nothing cut off), and the words that figures,
tables and pages share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from ...errors import DataError, QueryError
from ..bootstrap import (
    MOST_LOST,
    Drawn,
    Interval,
    calibrated_draws,
    improvement_draws,
    interval_of,
    n_lost,
    relative_draws,
    scratch_ends,
)
from .calibration import NEAR_BLIND, NEAR_MAXIMAL, Bound, labels_saved, no_scale

_ENOUGH_SEEDS = 3


class Lost(NamedTuple):
    """Bootstrap draws in which a number is not identified."""

    what: Literal["calibrated", "relative", "improvement"]
    n: int
    regime: int = 0


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
    yield from _on_worse_than_blind("the encoder", {point: point.calibrated for point in points})
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
    yield from _on_worse_than_blind("scratch", {point: point.calibrated_scratch for point in points})
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


def _on_worse_than_blind(who: str, calibrated: Mapping[CurvePoint, Interval]) -> Iterator[str]:
    above = [point for point, risk in calibrated.items() if risk.value > 1]
    if above:
        chance = _within([calibrated[point] for point in above], 1)
        yield (
            f"{_at(above)} the calibrated risk of {who} is above 1{chance}: it does worse than a guess that never "
            "looks at the image."
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
    alone = {each: each.n if each.what == "calibrated" else each.n - without_scale for each in lost}
    of_regimes = [each for each in lost if each.what == "relative" and alone[each] > 0]
    for each in [each for each in lost if each.what != "relative" and alone[each] > 0]:
        yield f"In {alone[each]:,} of {most:,} bootstrap draws {_REASONS[each.what]} {_consequence(each, most)}."
    within = [each for each in of_regimes if each.n <= MOST_LOST * most]
    for some in (within, [each for each in of_regimes if each not in within]):
        if some:
            up_to = "up to " if len(some) > 1 else ""
            regimes = _listed([f"{each.regime:,}" for each in some])
            yield (
                f"In {up_to}{max(alone[each] for each in some):,} of {most:,} bootstrap draws scratch with {regimes} "
                f"labels is no worse than maximal supervision; the interval of the relative improvement there "
                f"{_consequence(some[0], most)}."
            )


_REASONS = {
    "calibrated": "maximal supervision is no better than the blind guess; the interval of calibrated risks, and of all "
    "that follows from them,",
    "improvement": "scratch does not improve from the first regime to the last; the interval of the cumulative "
    "improvement",
}


def _consequence(lost: Lost, n_draws: int) -> str:
    return "counts them as outside" if lost.n <= MOST_LOST * n_draws else "is left out for it"


def _at(points: Sequence[CurvePoint]) -> str:
    """Regimes as the opening of a sentence: With 100, 200 and 400 labels."""
    return f"With {_listed([f'{point.n_requested:,}' for point in points])} labels"


def _listed(shown: Sequence[str]) -> str:
    return f"{', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]}"


def _within(intervals: Sequence[Interval | None], level: float) -> str:
    """That all intervals hold the level, so that the statement may be chance; else nothing."""
    for each in intervals:
        if each is None or each.ci_low is None or each.ci_high is None or not each.ci_low <= level <= each.ci_high:
            return ""
    return ", by no more than the uncertainty"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One data regime of a calibrated learning curve."""

    n_requested: int  # labels that were asked for, ...
    n_actual: int  # ... and that were used
    n_seeds: int  # runs behind the means
    risk: Interval  # of the encoder, in the curve's unit; lower is better
    risk_scratch: Interval
    calibrated: Interval  # the same between blind guess (1) and maximal supervision (0)
    calibrated_scratch: Interval
    relative_improvement: Interval | None
    """(calibrated_scratch - calibrated) / calibrated_scratch, the share of scratch's risk that the encoder takes away;
    higher is better. None where scratch is no worse than maximal supervision."""
    scratch_n: float | None  # labels that scratch needs for the encoder's risk; None where only a bound is known
    scratch_bound: Bound  # whether scratch needs as many labels as ``scratch_limit`` ("="), more (">"), or fewer ("<")
    scratch_limit: float  # ``scratch_n``, or the most or the fewest labels that scratch was measured with
    scratch_n_low: float | None  # 95 % interval of the labels that scratch needs; None for an end beyond what was ...
    scratch_n_high: float | None  # ... measured, or without draws
    share_saved: float  # 1 - n_actual / scratch_limit, with the same bound: the share of scratch's labels that is saved


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
        Sentences on negative values, on the range that is covered, on seeds and intervals.
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
        document = asdict(self)
        document["intervals_over"] = ["test images"] if self.images_only else ["test images", "seeds"]
        document["improvement_range"] = None if self.improvement_range is None else list(self.improvement_range)
        return document | {"points": list(document["points"]), "notes": list(self.notes)}


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
    """Calibrates the risks of an encoder and of scratch, and computes all that follows from them, with intervals.

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
        If maximal supervision is no better than the blind guess, there is no regime, there is not one entry a regime,
        labels do not rise, a risk is not finite, or risks have different numbers of draws.

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
    relative = [relative_draws(encoder_risk, scratch_risk) for encoder_risk, scratch_risk in zip(y, x, strict=True)]
    n = [n_actual for _, n_actual in regimes]
    further = [maximal_n] if maximal_n is not None and maximal_n > n[-1] else []  # one more point of scratch
    saved = labels_saved(
        n,
        [each.value for each in risks],
        [each.value for each in scratch],
        maximal=(further[0], maximal.value) if further else None,
    )
    path = [*scratch, maximal] if further else scratch
    ends = [scratch_ends([*n, *further], risk, path) for risk in risks]
    points = tuple(
        CurvePoint(
            n_requested=int(regimes[i][0]),
            n_actual=int(n[i]),
            n_seeds=int(n_seeds[i]),
            risk=interval_of(risks[i]),
            risk_scratch=interval_of(scratch[i]),
            calibrated=interval_of(y[i]),
            calibrated_scratch=interval_of(x[i]),
            relative_improvement=None if (share := relative[i]) is None else interval_of(share),
            scratch_n=saved.scratch_n[i],
            scratch_bound=saved.bound[i],
            scratch_limit=saved.limit[i],
            scratch_n_low=ends[i][0],
            scratch_n_high=ends[i][1],
            share_saved=saved.share_saved[i],
        )
        for i in range(len(regimes))
    )
    over, improved, reason = improvement_draws(y, x)
    improvement = None if improved is None else interval_of(improved)
    lost = [Lost("calibrated", max(n_lost(each) for each in (*y, *x)))]  # of all alike, for it lies with the controls
    lost += [Lost("relative", n_lost(each), int(n)) for each, (n, _) in zip(relative, regimes, strict=True) if each]
    lost += [Lost("improvement", n_lost(improved))] if improved else []
    notes = (
        *_on_values(points, frozen=frozen),
        *_on_scratch(points, maximal_n=maximal_n),
        *_on_improvement(improvement, reason),
        *_on_range(points),
        *_on_uncertainty(points, lost, n_draws=[len(each.draws) for each in (*y, *x)]),
    )
    return CalibratedCurve(
        encoder=encoder,
        task=task,
        metric=metric,
        unit=unit,
        dataset=dataset,
        protocol=protocol,
        frozen=frozen,
        blind=interval_of(blind),
        maximal=interval_of(maximal),
        points=points,
        improvement=improvement,
        improvement_range=None if over is None else (over.from_scratch, over.to_scratch),
        n_test=None if n_test is None else int(n_test),
        notes=notes,
    )


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


def label_of(curve: CalibratedCurve) -> str:
    """Name of a curve in a legend."""
    return f"{curve.encoder} (frozen)" if curve.frozen else curve.encoder


def improvement_text(improvement: Interval | None) -> str:
    """A calibrated cumulative improvement with its interval, for figures and tables.

    >>> from zoo.evaluation.bootstrap import Interval
    >>> improvement_text(Interval(value=0.42, ci_low=0.3, ci_high=0.55)), improvement_text(None)
    ('0.42 [0.30, 0.55]', 'not identified')
    """
    if improvement is None:
        return "not identified"
    text = f"{improvement.value:z.2f}"
    if improvement.ci_low is None or improvement.ci_high is None:
        return text
    return f"{text} [{improvement.ci_low:z.2f}, {improvement.ci_high:z.2f}]"


def caption_of(curves: Sequence[CalibratedCurve]) -> str:
    """Caption of a figure: metric, unit, images, seeds, range of the CCI, and what values beyond the controls mean."""
    first = curves[0]
    points = [point for curve in curves for point in curve.points]
    seeds = sorted({point.n_seeds for point in points})
    n_seeds = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    tested = "" if first.n_test is None else f" of {first.n_test:,} test images"
    has_intervals = any(point.calibrated.ci_low is not None for point in points)
    images_only = any(curve.images_only for curve in curves)
    over = " over test images only, without how much seeds vary" if images_only else ""
    sentences = [
        f"Risk is {words_of(first.metric)}{in_unit(first.unit)}{tested}, calibrated so that the blind guess "
        f"({first.blind.value:.4g}) lies at 1 and maximal supervision ({first.maximal.value:.4g}) at 0; lower is "
        "better.",
        f"Mean over {n_seeds} seed{'' if seeds == [1] else 's'}"
        + (f", bands and bars are 95 % intervals{over}." if has_intervals else ", without intervals."),
    ]
    ranges = sorted({curve.improvement_range for curve in curves if curve.improvement_range is not None})
    if ranges:
        low, high = min(map(min, ranges)), max(map(max, ranges))
        over = (
            f"from {low:z.2f} to {high:z.2f}" if len(ranges) == 1 else f"of its own, within {low:z.2f} to {high:z.2f}"
        )
        sentences.append(
            "CCI: area between an encoder's curve and the diagonal over the area below the diagonal, for cR of scratch "
            f"{over}; 0 is worth nothing, 1 reaches maximal supervision throughout."
        )
    if any(point.calibrated.value < 0 or point.calibrated_scratch.value < 0 for point in points):
        sentences.append(
            "Below 0 the risk is lower than with maximal supervision, which there is no approximation of the best that "
            "labels can buy; comparisons with scratch stay valid."
        )
    if any(point.calibrated.value > 1 or point.calibrated_scratch.value > 1 for point in points):
        sentences.append("Above 1 the risk is higher than that of the blind guess.")
    if len({curve.maximal.value for curve in curves}) > 1:
        sentences.append("Each encoder is calibrated by the maximal supervision of its own architecture.")
    return " ".join(sentences)


def require_drawable(curves: Sequence[CalibratedCurve]) -> None:
    """Refuses curves for one figure that are none, of several metrics, data sets or tasks, or two of one encoder."""
    if not curves:
        raise QueryError("Got no curve to draw, expected at least one.")
    for name in ("metric", "dataset", "task"):
        values = sorted({getattr(curve, name) for curve in curves})
        if len(values) > 1:
            raise QueryError(
                f"Got curves of {' and '.join(values)} for one figure, expected one {name}; draw a figure for each."
            )
    labels = [label_of(curve) for curve in curves]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None:
        raise QueryError(f"Got two curves of {repeated!r} for one figure, expected one curve an encoder.")


def words_of(name: str) -> str:
    """The name of a metric as words.

    >>> words_of("depth_l1_error")
    'depth L1 error'
    """
    return " ".join("L1" if word == "l1" else word for word in name.split("_"))


def in_unit(unit: str) -> str:
    """The unit of a metric behind its name.

    >>> in_unit("degrees"), in_unit("dimensionless")
    (' in degrees', '')
    """
    return "" if unit == "dimensionless" else f" in {unit}"
