"""Tables of calibrated learning curves: what pre-training is worth by encoder and task, and every regime of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zoo.analysis.curves import MeasuredCurve, Panel, estimate_of
from zoo.errors import QueryError
from zoo.evaluation.bootstrap import Drawn, Interval
from zoo.evaluation.curves.curve import CurvePoint, improvement_text, words_of
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import cross_table, interval

from .comparisons import (
    CALIBRATED,
    CCI,
    METHOD,
    SELF_SUPERVISED,
    advantage,
    best_improvement,
    improvement_estimates,
    mean_improvement,
    spread_of_improvements,
    spread_with_most_labels,
)

_Of = Callable[[Sequence[MeasuredCurve]], Drawn]


def improvement_tables(panels: Iterable[Panel]) -> list[Table]:
    """One table a data set: CCI by encoder and task."""
    by_dataset: dict[str, list[Panel]] = {}
    for panel in panels:
        if panel.curves:
            by_dataset.setdefault(panel.dataset, []).append(panel)
    return [
        cross_table(
            f"Calibrated cumulative improvement on {dataset}",
            "encoder",
            {panel.name: improvement_estimates(panel) for panel in own},
            signed=False,
            note="0: worth as much as random weights, 1: maximal supervision from the fewest labels on. Each is of the "
            "range of scratch that was measured, which the tables of regimes tell.",
        )
        for dataset, own in by_dataset.items()
    ]


def regimes_table(panel: Panel) -> Table:
    """One row an encoder and regime: risks, calibrated risks, and the labels that scratch needs for as much."""
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
    return Table(
        title=f"Every regime: {panel.name}",
        headers=[
            "encoder",
            "labels",
            "seeds",
            "risk",
            "risk of scratch",
            "calibrated risk",
            "that of scratch",
            "relative improvement",
            "labels scratch needs",
        ],
        rows=rows,
        note=f"Risk: {words_of(panel.metric)} in {first.unit}, lower is better, with 95 % intervals. Blind guess and "
        f"maximal supervision: {shown}. {_ranges(panel)} Protocol: {panel.protocol}.",
    )


def comparison_table(panels: Iterable[Panel]) -> Table:
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
    return Table(
        title="Tasks beside each other",
        headers=[
            "task",
            "self-supervised encoders",
            "mean CCI",
            "best CCI",
            "standard deviation of CCI",
            "that of calibrated risk with the most labels",
            "contrastive - non-contrastive, mean CCI",
            "contrastive - supervised, mean CCI",
        ],
        rows=rows,
        note="Means and deviations are over these encoders; intervals are of other test images and seeds, not of other "
        "encoders. Those of the best and of deviations are of the basic bootstrap, for noise alone makes both larger.",
    )


def rows_of(panels: Iterable[Panel]) -> list[Rows]:
    """How many curves of a task were used, and how many sets of rows are no curve."""
    return [
        Rows(
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
    return interval(one, digits=2, signed=False)


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
        return improvement_text(found)
    text = f"{found.value:.{digits}g}"
    if found.ci_low is None or found.ci_high is None:
        return text
    return f"{text} [{found.ci_low:.{digits}g}, {found.ci_high:.{digits}g}]"
