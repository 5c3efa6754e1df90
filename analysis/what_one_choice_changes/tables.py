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


def why_it_differs(
    ours: ControlledEffect,
    theirs: ControlledEffect,
    of_all: ControlledEffect,
    *,
    level: str | None,
    bound: float | None,
    misprint_of: str | None,
) -> str:
    """Why a printed number is not ours, from what differs between the computations.

    ``theirs`` has rows repeated, ``of_all`` is of all encoders with the outcome; ``bound`` is one that a p-value is
    printed to be below.
    """
    estimate, error = ours.estimate(level), ours.standard_error(level)
    if theirs.fit.n > theirs.n_encoders:
        reason = (
            f"the published code counted {theirs.n_encoders} encoders {theirs.fit.n} times, once for each column that "
            f"varies in their group ({theirs.fit.residual_df} residual degrees of freedom instead of "
            f"{ours.fit.residual_df}), which gives {short(theirs.estimate(level))}; each once: {short(estimate)}"
        )
        if bound is not None and all((one.estimate(level).p or 0.0) >= bound for one in (ours, theirs)):
            reason += f"; neither is below {bound:.0e}" + (
                f", and the appendix prints {misprint_of}" if misprint_of else ""
            )
        if of_all.n_encoders != ours.n_encoders:
            reason += f"; all {of_all.n_encoders} encoders with this risk give {short(of_all.estimate(level))}"
        return reason
    found = f"{estimate.value:.3f} +- {error:.3f} with {ours.fit.residual_df} degrees of freedom"
    if misprint_of is not None:
        return f"a misprint of {misprint_of}: an effect of {found} has p {probability(estimate.p)}"
    return f"no encoder is counted twice here, and the effect is {found}, p {probability(estimate.p)}"


def short(estimate: Estimate) -> str:
    """ "-3.82 (p 2e-04)", or why there is no such number."""
    if estimate.value is None:
        return "not identified"
    return _number(estimate.value) + (f" (p {probability(estimate.p)})" if estimate.p is not None else " (exact fit)")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.2f}".replace("-0.00", "0.00")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"
