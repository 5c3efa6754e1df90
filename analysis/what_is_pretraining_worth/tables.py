"""Tables of calibrated learning curves: what pre-training is worth by encoder and task, and every regime of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from zoo.analysis.columns import Estimate
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Drawn, Interval
from zoo.evaluation.curves.curve import CurvePoint, format_improvement, format_metric_name
from zoo.studies.findings import FindingsTable, RowsUsed
from zoo.studies.tables import build_cross_table, format_unsigned

from .curves import (
    HOW_TO_MEASURE,
    Kind,
    MeasuredCurve,
    Panel,
    difference_of,
    estimate_of,
    largest_of,
    mean_of,
    spread_of,
)

_Of = Callable[[Sequence[MeasuredCurve]], Drawn]


def improvement_tables(panels: Iterable[Panel]) -> list[FindingsTable]:
    """One table per data set: CCI by encoder and task."""
    by_dataset: dict[str, list[Panel]] = {}
    for panel in panels:
        if panel.curves:
            by_dataset.setdefault(panel.dataset, []).append(panel)
    return [
        build_cross_table(
            f"Calibrated cumulative improvement on {dataset}",
            "encoder",
            {panel.name: improvement_estimates(panel) for panel in own},
            signed=False,
            note="0: worth as much as random weights, 1: maximal supervision from the fewest labels on. Each is of the "
            "range of scratch that was measured, which the tables of regimes tell.",
        )
        for dataset, own in by_dataset.items()
    ]


def regimes_table(panel: Panel) -> FindingsTable:
    """One row per encoder and regime: risks, calibrated risks, and the labels that scratch needs for as much."""
    rows = []
    for curve in panel.curves:
        for point in curve.curve.points:
            rows.append(
                [
                    f"{curve.encoder} ({curve.kind})",
                    f"{point.n_actual:,}",
                    str(point.n_seeds),
                    _cell(point.risk, 3),
                    _cell(point.risk_scratch, 3),
                    _cell(point.calibrated),
                    _cell(point.calibrated_scratch),
                    _cell(point.relative_improvement),
                    _labels(point),
                ]
            )
    first = panel.curves[0].curve
    controls = {f"{_cell(one.curve.blind, 3)} and {_cell(one.curve.maximal, 3)}": one.encoder for one in panel.curves}
    shown = "; ".join(f"{risks} ({encoder})" if len(controls) > 1 else risks for risks, encoder in controls.items())
    return FindingsTable(
        title=f"Every regime: {panel.name}",
        headers=[
            "encoder", "labels", "seeds", "risk", "risk of scratch", "calibrated risk", "that of scratch",
            "relative improvement", "labels scratch needs",
        ],
        rows=rows,
        note=f"Risk: {format_metric_name(panel.metric)} in {first.unit}, lower is better, with 95 % intervals. "
        f"Constant baseline and maximal supervision: {shown}. {_ranges(panel)} Protocol: {panel.protocol}.",
    )  # fmt: skip


def comparison_table(panels: Iterable[Panel]) -> FindingsTable:
    """One row a task: encoders, and what sections 5.1 to 5.4 of the paper compare."""

    def of_kind(panel: Panel, of: _Of, unit: str, *, is_pulled: bool = False) -> str:
        try:
            drawn = of(panel.of(*SELF_SUPERVISED))
        except QueryError:  # too few of them for it
            return ""
        return _estimated(drawn, len(panel.of(*SELF_SUPERVISED)), unit, is_pulled=is_pulled)

    rows = []
    for panel in panels:
        rows.append(
            [
                panel.name,
                str(len(panel.of(*SELF_SUPERVISED))),
                of_kind(panel, mean_improvement, CCI),
                of_kind(panel, best_improvement, CCI, is_pulled=True),
                of_kind(panel, spread_of_improvements, CCI, is_pulled=True),
                of_kind(panel, spread_with_most_labels, CALIBRATED, is_pulled=True),
                of_kind(panel, lambda curves: advantage(curves, "contrastive", "non-contrastive"), CCI),
                _against_supervised(panel),
            ]
        )
    return FindingsTable(
        title="Tasks side by side",
        headers=[
            "task", "self-supervised encoders", "mean CCI", "best CCI", "standard deviation of CCI",
            "that of calibrated risk with the most labels", "contrastive - non-contrastive, mean CCI",
            "contrastive - supervised, mean CCI",
        ],
        rows=rows,
        note="Means and deviations are over these encoders; intervals are of other test images and seeds, not of other "
        "encoders. Those of the best and of deviations are of the basic bootstrap, for noise alone makes both larger.",
    )  # fmt: skip


def rows_of(panels: Iterable[Panel]) -> list[RowsUsed]:
    """How many curves of a task were used, and how many sets of rows are no curve."""
    return [
        RowsUsed(
            part=panel.name,
            used=len(panel.curves),
            unit="curves",
            left_out={"rows that are no curve, see the notes": len(panel.refused)} if panel.refused else {},
        )
        for panel in panels
    ]


def _against_supervised(panel: Panel) -> str:
    try:
        drawn = advantage(panel.curves, "contrastive", "supervised")
    except QueryError:  # one of both is not there
        return ""
    return _estimated(drawn, len(panel.of("contrastive", "supervised")), CCI)


def _estimated(drawn: Drawn, n: int, unit: str, *, is_pulled: bool = False) -> str:
    one = estimate_of(drawn, term="", outcome="", n=n, unit=unit, method=METHOD, is_pulled=is_pulled)
    return format_unsigned(one)


def _ranges(panel: Panel) -> str:
    ranges = {curve.curve.improvement_range for curve in panel.curves if curve.curve.improvement_range is not None}
    if not ranges:
        return "No curve has a CCI."
    ends = " or ".join(f"{first:.2f} to {last:.2f}" for first, last in sorted(ranges, reverse=True))
    return f"CCI is of calibrated risks of scratch from {ends}."


def _labels(point: CurvePoint) -> str:
    """Labels with which scratch gets as far as the encoder, or their bound."""
    return f"{point.scratch_bound.replace('=', '')} {point.scratch_limit:,.0f}".strip()


def _cell(found: Interval | None, digits: int = 2) -> str:
    """A value with its interval; nothing where it is not defined."""
    if found is None:
        return ""
    if digits == 2:
        return format_improvement(found)
    text = f"{found.value:.{digits}g}"
    if found.ci_low is None or found.ci_high is None:
        return text
    return f"{text} [{found.ci_low:.{digits}g}, {found.ci_high:.{digits}g}]"


METHOD = "calibrated learning curves"
CCI, CALIBRATED = "share of the area under the diagonal", "calibrated risk"  # units
SELF_SUPERVISED: tuple[Kind, ...] = ("contrastive", "non-contrastive")
LEAST = 2  # encoders that can differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Wins:
    """In how many regimes of how many curves an encoder is better than scratch."""

    n: int
    better: int
    clearly_better: int  # the 95 % interval of the gain lies above 0
    clearly_worse: int
    worst: str  # where the gain is least: "ENCODER with 300 labels (depth on shapes)"
    worst_gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparable:
    """The same encoders on classification and on dense tasks of one data set."""

    dataset: str
    classification: tuple[Panel, ...]  # with the curves of these encoders alone
    dense: tuple[Panel, ...]
    encoders: tuple[str, ...]

    def across(self, of: Callable[[Sequence[MeasuredCurve]], Drawn]) -> tuple[Drawn, Drawn, Drawn]:
        """A quantity of a panel's curves: its mean over classification, over dense tasks, and their difference."""
        both = [mean_of([of(panel.curves) for panel in panels]) for panels in (self.classification, self.dense)]
        return both[0], both[1], difference_of(*both)


def improvement_estimates(panel: Panel) -> list[Estimate]:
    """CCI of each encoder that has one."""
    return [
        estimate_of(
            curve.improvement,
            term=f"{curve.encoder} ({curve.kind})",
            outcome=f"CCI: {panel.name}",
            n=len(curve.curve.points),
            unit=CCI,
            method=METHOD,
        )
        for curve in panel.curves
        if curve.improvement is not None
    ]


def gain_estimates(panel: Panel) -> list[Estimate]:
    """Gain of each encoder in each regime."""
    return [_gain(curve, regime, panel.name) for curve in panel.curves for regime in range(len(curve.curve.points))]


def wins_of(curves: Iterable[tuple[Panel, MeasuredCurve]]) -> Wins:
    """How often scratch is beaten."""
    gains = [_gain(curve, regime, panel.name) for panel, curve in curves for regime in range(len(curve.curve.points))]
    if not gains:
        raise _nobody("one")
    least = min(gains, key=_value)
    return Wins(
        n=len(gains),
        better=sum(_value(one) > 0 for one in gains),
        clearly_better=sum(one.ci_low is not None and one.ci_low > 0 for one in gains),
        clearly_worse=sum(one.ci_high is not None and one.ci_high < 0 for one in gains),
        worst=f"{least.term} ({least.outcome.partition(': ')[2]})",
        worst_gain=least,
    )


def gain_at_ends(curves: Sequence[MeasuredCurve]) -> tuple[Drawn, Drawn, Drawn]:
    """Mean gain with the fewest labels, the most, and the first less the second, over curves of several regimes."""
    gains = [curve.gains for curve in curves if len(curve.gains) > 1]
    if not gains:
        raise _nobody("one with two data sizes at least")
    first, last = (mean_of([own[end] for own in gains]) for end in (0, -1))
    return first, last, difference_of(first, last)


def mean_improvement(curves: Sequence[MeasuredCurve]) -> Drawn:
    """Mean CCI of the curves that have one."""
    return mean_of(improvements(curves, least=1))


def spread_of_improvements(curves: Sequence[MeasuredCurve]) -> Drawn:
    """Standard deviation of CCI over encoders, at least two."""
    return spread_of(improvements(curves))


def spread_with_most_labels(curves: Sequence[MeasuredCurve]) -> Drawn:
    """Standard deviation of the calibrated risk over encoders, in the largest regime that all of them have."""
    if len(curves) < LEAST:
        raise _nobody("two")
    shared = set(curves[0].rows.regimes).intersection(*(curve.rows.regimes for curve in curves))
    if not shared:
        raise QueryError(f"The curves on {curves[0].rows.dataset} share no data size; {HOW_TO_MEASURE} with the same.")
    largest = max(shared, key=lambda regime: regime[::-1])
    return spread_of([curve.calibrated[curve.rows.regimes.index(largest)] for curve in curves])


def best_improvement(curves: Sequence[MeasuredCurve]) -> Drawn:
    """CCI of the best encoder, whichever it is in a draw."""
    return largest_of(improvements(curves, least=1))


def advantage(curves: Sequence[MeasuredCurve], first: Kind, second: Kind) -> Drawn:
    """Mean CCI of encoders of one kind less that of another."""
    groups = [[curve for curve in curves if curve.kind == kind] for kind in (first, second)]
    for kind, group in zip((first, second), groups, strict=True):
        if not any(curve.improvement is not None for curve in group):
            raise QueryError(f"No {kind} encoder has a CCI there; {HOW_TO_MEASURE} with such a one.")
    return difference_of(*(mean_improvement(group) for group in groups))


def improvements(curves: Sequence[MeasuredCurve], *, least: int = LEAST) -> list[Drawn]:
    """CCI of the curves that have one, ``least`` of them at least."""
    found = [curve.improvement for curve in curves if curve.improvement is not None]
    if len(found) < least:
        raise _nobody("two" if least == LEAST else "one")
    return found


def comparable(panels: Iterable[Panel], *kinds: Kind) -> Comparable:
    """The data set with the most encoders of these kinds that have a CCI on classification and on dense tasks."""
    by_dataset: dict[str, list[Panel]] = {}
    for panel in panels:
        by_dataset.setdefault(panel.dataset, []).append(panel)
    best: Comparable | None = None
    for dataset, own in sorted(by_dataset.items()):
        known = [{curve.encoder for curve in panel.of(*kinds) if curve.improvement is not None} for panel in own]
        shared = set.intersection(*known)
        if not shared or len({panel.is_dense for panel in own}) < LEAST:
            continue
        if best is None or len(shared) > len(best.encoders):
            chosen = [_only(panel, shared) for panel in own]
            best = Comparable(
                dataset=dataset,
                encoders=tuple(sorted(shared)),
                classification=tuple(panel for panel in chosen if not panel.is_dense),
                dense=tuple(panel for panel in chosen if panel.is_dense),
            )
    if best is None:
        raise QueryError(
            f"No data set has curves of the same {' or '.join(kinds)} encoder on classification and on a dense task; "
            f"{HOW_TO_MEASURE} on one."
        )
    return best


def _only(panel: Panel, encoders: set[str]) -> Panel:
    return replace(panel, curves=tuple(curve for curve in panel.curves if curve.encoder in encoders))


def _gain(curve: MeasuredCurve, regime: int, where: str) -> Estimate:
    labels = curve.rows.regimes[regime][1]
    seeds = curve.curve.points[regime].n_seeds
    return estimate_of(
        curve.gains[regime],
        term=f"{curve.encoder} with {labels} label{'s' * (labels != 1)}",
        outcome=f"gain over scratch: {where}",
        n=seeds,
        unit=CALIBRATED,
        method=METHOD,
    )


def _value(estimate: Estimate) -> float:
    return 0.0 if estimate.value is None else estimate.value


def _nobody(how_many: str) -> QueryError:
    return QueryError(f"There are too few encoders with a learning curve there, expected {how_many}; {HOW_TO_MEASURE}.")
