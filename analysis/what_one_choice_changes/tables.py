"""Tables of the controlled analysis: effects by choice and risk, and what repeating rows does to them."""

from __future__ import annotations

from collections.abc import Sequence

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.controlled import ControlledEffect
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import per, probability


def overview_table(effects: Sequence[ControlledEffect], outcomes: Sequence[str]) -> Table:
    """One row a choice, one column a risk: coefficient, p-value, encoders in groups."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for found in effects:
        for estimate in found.estimates:
            size = f"{found.n_encoders} in {found.n_groups}"
            cells.setdefault((found.treatment, per(estimate)), {})[found.outcome] = f"{short(estimate)}; {size}"
    return Table(
        title="What each choice changes, all others equal",
        headers=["choice", "contrast", *(OUTCOMES[outcome].label for outcome in outcomes)],
        rows=[
            [treatment, contrast, *(row.get(one, "") for one in outcomes)]
            for (treatment, contrast), row in cells.items()
        ],
        note="Percentage points; negative is better. After the semicolon: encoders in groups. Empty: too few.",
    )


def estimates_table(effects: Sequence[ControlledEffect], estimates: Sequence[Estimate]) -> Table:
    """One row an estimate, with both kinds of interval and the false-discovery rate.

    ``estimates`` are those of the effects, in their order.
    """
    groups = [found.n_groups for found in effects for _ in found.estimates]
    rows = []
    for estimate, n_groups in zip(estimates, groups, strict=True):
        rows.append(
            [
                estimate.term,
                OUTCOMES[estimate.outcome].label,
                per(estimate),
                _number(estimate.value),
                _interval(estimate.ci_low, estimate.ci_high),
                probability(estimate.p),
                probability(estimate.p_adjusted),
                _interval(estimate.ci_low_robust, estimate.ci_high_robust),
                probability(estimate.p_robust),
                str(estimate.n),
                str(n_groups),
                estimate.note,
            ]
        )
    return Table(
        title="All controlled estimates",
        headers=[
            "term",
            "risk",
            "contrast",
            "effect",
            "95 % interval",
            "p",
            "false-discovery rate",
            "HC3 interval",
            "HC3 p",
            "encoders",
            "groups",
            "note",
        ],
        rows=rows,
        note="Effects in percentage points; false-discovery rate by Benjamini and Hochberg, over all of this table.",
    )


def repetition_table(pairs: Sequence[tuple[ControlledEffect, ControlledEffect]]) -> Table:
    """Each encoder once beside the rows as the published code repeated them."""
    rows = []
    for once, repeated in pairs:
        for estimate in once.estimates:
            level = estimate.term.partition("[")[2].removesuffix("]") or None
            other = repeated.estimate(level)
            rows.append(
                [
                    estimate.term,
                    OUTCOMES[once.outcome].label,
                    _number(estimate.value),
                    probability(estimate.p),
                    str(once.n_encoders),
                    str(once.fit.residual_df),
                    _number(other.value),
                    probability(other.p),
                    f"{repeated.fit.n} of {repeated.n_encoders}",
                    str(repeated.fit.residual_df),
                ]
            )
    return Table(
        title="Each encoder once, and rows repeated as the published code did",
        headers=[
            "term",
            "risk",
            "effect",
            "p",
            "encoders",
            "residual df",
            "effect, repeated",
            "p, repeated",
            "rows of encoders, repeated",
            "residual df, repeated",
        ],
        rows=rows,
        note="The repeated rows are of encoders with every component, once for each column that varies in their group.",
    )


def rows_used(effects: Sequence[ControlledEffect]) -> list[Rows]:
    """Which rows each choice used, risks with the same ones together."""
    together: dict[tuple[object, ...], list[ControlledEffect]] = {}
    for found in effects:
        missing = found.left_out.get(f"{found.outcome} missing", 0)
        together.setdefault((found.treatment, found.n_encoders, missing), []).append(found)
    rows = []
    for alike in together.values():
        first = alike[0]
        left_out = dict(first.left_out)
        if missing := left_out.pop(f"{first.outcome} missing", 0):
            left_out = {"the risk is missing": missing, **left_out}
        risks = ", ".join(OUTCOMES[found.outcome].label.lower() for found in alike)
        rows.append(Rows(part=f"{first.treatment} ({risks})", used=first.n_encoders, left_out=left_out))
    return rows


def short(estimate: Estimate) -> str:
    """ "-3.82 (p 2e-04)", or why there is no such number."""
    if estimate.value is None:
        return "not identified"
    return _number(estimate.value) + (f" (p {probability(estimate.p)})" if estimate.p is not None else " (exact fit)")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.2f}".replace("-0.00", "0.00")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"
