"""A calibrated learning curve: every number of one encoder on one task, from its risks and those of its controls.

With notes on what a reader must know of it, and the words that figures, tables and pages share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from ...errors import DataError
from ..bootstrap import (
    MOST_LOST,
    Drawn,
    Interval,
    calibrate_draws,
    compute_drawn_interval,
    compute_improvement_draws,
    compute_relative_draws,
    compute_scratch_interval,
    count_lost_draws,
)
from .calibration import NEAR_BLIND, NEAR_MAXIMAL, Bound, describe_missing_scale, labels_saved

_ENOUGH_SEEDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One data regime of a calibrated learning curve."""

    n_requested: int  # labels that were asked for, ...
    n_actual: int  # ... and that were used
    n_seeds: int  # runs behind the means
    risk: Interval  # of the encoder, in the curve's unit; lower is better
    risk_scratch: Interval
    calibrated: Interval  # the same between constant baseline (1) and maximal supervision (0)
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
    """What an encoder is worth on a task, over several data regimes."""

    encoder: str
    task: str
    metric: str
    unit: str  # of the risks
    dataset: str
    protocol: str
    frozen: bool  # the encoder stayed as it was while its decoder was trained
    blind: Interval  # risks of the controls
    maximal: Interval
    points: tuple[CurvePoint, ...]  # from the fewest labels to the most
    improvement: Interval | None  # calibrated cumulative improvement; None where a note says why
    improvement_range: tuple[float, float] | None  # calibrated risks of scratch that it is measured between
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
    cancels. A draw in which a number is not identified counts as outside of its interval; above 5 % there is none.

    Parameters
    ----------
    regimes : sequence of (int, int)
        Labels that were asked for and that were used, both from the fewest to the most.
    risks, scratch : sequence of Drawn, one a regime
        Of the encoder and of scratch, means over seeds, in ``unit``; lower is better.
    blind, maximal : Drawn
        Risks of the controls, in ``unit``.
    n_seeds : sequence of int, one a regime
        Runs behind each mean.
    maximal_n : int, optional
        Labels of maximal supervision, if it is scratch with all labels; None for a recorded risk.

    Raises
    ------
    DataError
        If maximal supervision is no better than the constant baseline, there is not one entry per regime, labels do not
        rise, a risk is not finite, or risks have different numbers of draws.

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
    """
    if not regimes or not len(regimes) == len(risks) == len(scratch) == len(n_seeds):
        raise DataError(
            f"A curve was given {len(regimes)} regimes, {len(risks)} risks, {len(scratch)} risks of scratch and "
            f"{len(n_seeds)} numbers of seeds; expected one of each a regime, and at least one regime."
        )
    sizes = {each.draws.shape for each in [*risks, *scratch, blind, maximal] if each.draws.size}
    if len(sizes) > 1:
        raise DataError(f"The draws of the risks have the shapes {sizes}; expected as many of each, shape (n_draws,).")
    if maximal.value >= blind.value:
        raise DataError(
            describe_missing_scale(blind=blind.value, maximal=maximal.value, where=f" ({metric} on {dataset})")
        )
    y, x = (calibrate_draws(some, blind=blind, maximal=maximal) for some in (risks, scratch))
    relative = [
        compute_relative_draws(encoder_risk, scratch_risk) for encoder_risk, scratch_risk in zip(y, x, strict=True)
    ]
    n = [n_actual for _, n_actual in regimes]
    end = (maximal_n, maximal.value) if maximal_n is not None and maximal_n > n[-1] else None  # one more of scratch
    saved = labels_saved(n, [each.value for each in risks], [each.value for each in scratch], maximal=end)
    path_n, path = (n, scratch) if end is None else ([*n, end[0]], [*scratch, maximal])
    points = []
    for i, risk in enumerate(risks):
        share = relative[i]
        low, high = compute_scratch_interval(path_n, risk, path)
        point = CurvePoint(
            n_requested=int(regimes[i][0]),
            n_actual=int(n[i]),
            n_seeds=int(n_seeds[i]),
            risk=compute_drawn_interval(risk),
            risk_scratch=compute_drawn_interval(scratch[i]),
            calibrated=compute_drawn_interval(y[i]),
            calibrated_scratch=compute_drawn_interval(x[i]),
            relative_improvement=None if share is None else compute_drawn_interval(share),
            scratch_n=saved.scratch_n[i],
            scratch_bound=saved.bound[i],
            scratch_limit=saved.limit[i],
            scratch_n_low=low,
            scratch_n_high=high,
            share_saved=saved.share_saved[i],
        )
        points.append(point)
    over, improved, reason = compute_improvement_draws(y, x)
    improvement = None if improved is None else compute_drawn_interval(improved)
    notes = [
        *_on_values(points, frozen=frozen, maximal_n=maximal_n),
        *_on_improvement(improvement, reason, points),
        *_on_uncertainty(points, [*y, *x], [each for each in relative if each], improved),
    ]
    return CalibratedCurve(
        encoder=encoder,
        task=task,
        metric=metric,
        unit=unit,
        dataset=dataset,
        protocol=protocol,
        frozen=frozen,
        blind=compute_drawn_interval(blind),
        maximal=compute_drawn_interval(maximal),
        points=tuple(points),
        improvement=improvement,
        improvement_range=None if over is None else (over.from_scratch, over.to_scratch),
        n_test=None if n_test is None else int(n_test),
        notes=tuple(notes),
    )


def _on_values(points: Sequence[CurvePoint], *, frozen: bool, maximal_n: int | None) -> Iterator[str]:
    control = "the recorded risk of maximal supervision" if maximal_n is None else "maximal supervision"
    if below := [point for point in points if point.calibrated.value < 0]:
        chance = _tied([point.calibrated for point in below], 0)
        yield (
            f"{_at(below)} the calibrated risk of the encoder is below 0{chance}: it beats {control}, which had too "
            "few labels to be the end of the scale; comparisons with scratch and other encoders stay valid."
        )
    if worse := [point for point in points if point.calibrated.value > point.calibrated_scratch.value]:
        chance = _tied([point.relative_improvement for point in worse], 0)
        why = " (the encoder stayed frozen, and all of scratch was trained)" if frozen else ""
        yield f"{_at(worse)} the encoder is worse than random weights, above the diagonal{chance}{why}."
    if below := [point for point in points if point.calibrated_scratch.value < 0]:
        chance = _tied([point.calibrated_scratch for point in below], 0)
        yield (
            f"{_at(below)} the calibrated risk of scratch is below 0{chance}: it beats {control}, so that there is no "
            "relative improvement, and this part does not count in the cumulative improvement."
        )
    for who, calibrated in (
        ("the encoder", [point.calibrated for point in points]),
        ("scratch", [point.calibrated_scratch for point in points]),
    ):
        if above := [each for each in zip(points, calibrated, strict=True) if each[1].value > 1]:
            chance = _tied([risk for _, risk in above], 1)
            yield f"{_at(point for point, _ in above)} {who} is worse than the constant baseline{chance}."
    if rising := [right for left, right in pairwise(points) if right.risk_scratch.value > left.risk_scratch.value]:
        yield (
            f"{_at(rising)} scratch is worse than with fewer labels: the cumulative improvement takes this step back; "
            "more seeds would show whether it is chance."
        )


def _on_improvement(improvement: Interval | None, reason: str, points: Sequence[CurvePoint]) -> Iterator[str]:
    if reason:
        yield f"There is no cumulative improvement: {reason[0].lower()}{reason[1:]}"
    elif improvement is not None and improvement.value < 0:
        yield f"The cumulative improvement is below 0{_tied([improvement], 0)}: pre-training does harm over the range."
    scratch = [point.calibrated_scratch.value for point in points]
    if max(scratch) < NEAR_BLIND:
        yield (
            f"The range with few labels, where pre-training is mostly worth most, is not covered: the highest "
            f"calibrated risk of scratch is {max(scratch):.2f}."
        )
    if min(scratch) > NEAR_MAXIMAL:
        yield (
            f"The range with many labels is not covered: the lowest calibrated risk of scratch is {min(scratch):.2f}."
        )


def _on_uncertainty(
    points: Sequence[CurvePoint], calibrated: Sequence[Drawn], relative: Sequence[Drawn], improved: Drawn | None
) -> Iterator[str]:
    fewest = min(point.n_seeds for point in points)
    if fewest < _ENOUGH_SEEDS:
        few = [point for point in points if point.n_seeds == fewest]
        runs, known = ("is one run", "nothing") if fewest == 1 else (f"are {fewest} runs", "little")
        yield f"{_at(few)} there {runs}: {known} is known of the spread over seeds; use {_ENOUGH_SEEDS} or more."
    if not all(len(each.draws) for each in calibrated):
        yield "The uncertainty of some risks is unknown, so that some calibrated risks have no interval."
    everywhere = max(map(count_lost_draws, calibrated))  # alike in all, for it lies with the controls
    for what, draws, reason in (
        ("calibrated risks", calibrated, "maximal supervision is no better than the constant baseline"),
        ("the relative improvement", relative, "scratch is no worse than maximal supervision in a regime"),
        ("the cumulative improvement", [improved] * (improved is not None), "scratch does not improve over the range"),
    ):
        most = max(draws, key=count_lost_draws, default=None)  # type: ignore[arg-type]
        if most is None or count_lost_draws(most) <= (0 if draws is calibrated else everywhere):
            continue
        is_lost = count_lost_draws(most) > MOST_LOST * len(most.draws)
        effect = "an interval is left out for it" if is_lost else "intervals count them as outside"
        yield f"In {count_lost_draws(most):,} of {len(most.draws):,} bootstrap draws of {what} {reason}; {effect}."


def _at(points: Iterable[CurvePoint]) -> str:
    """Regimes as the opening of a sentence: With 100, 200 and 400 labels."""
    shown = [f"{point.n_requested:,}" for point in points]
    return f"With {', '.join(shown[:-1])}{' and ' if shown[1:] else ''}{shown[-1]} labels"


def _tied(intervals: Sequence[Interval | None], level: float) -> str:
    """A remark if all intervals hold the level, so that the statement may be chance."""
    for each in intervals:
        if each is None or each.ci_low is None or each.ci_high is None or not each.ci_low <= level <= each.ci_high:
            return ""
    return " (within the confidence interval)"


def format_curve_label(curve: CalibratedCurve) -> str:
    """Name of a curve in a legend."""
    return f"{curve.encoder} (frozen)" if curve.frozen else curve.encoder


def format_improvement(improvement: Interval | None) -> str:
    """A calibrated cumulative improvement with its interval, as 0.42 [0.30, 0.55], for figures and tables."""
    if improvement is None:
        return "not identified"
    text = f"{improvement.value:z.2f}"
    if improvement.ci_low is None or improvement.ci_high is None:
        return text
    return f"{text} [{improvement.ci_low:z.2f}, {improvement.ci_high:z.2f}]"


def format_metric_name(name: str) -> str:
    """The name of a metric as words: depth L1 error."""
    return " ".join("L1" if word == "l1" else word for word in name.split("_"))


def format_unit(unit: str) -> str:
    """The unit of a metric behind its name: `` in degrees``, or nothing."""
    return "" if unit == "dimensionless" else f" in {unit}"
