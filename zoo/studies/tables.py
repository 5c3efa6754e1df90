"""How studies write and draw risks: estimates and p-values as cells and tables, labels of axes, rows used, errata."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.columns import OUTCOMES, Estimate
from ..analysis.groups import PARTS
from ..analysis.table import StudyTable
from ..evaluation.drawing import COMPONENT_COLOURS, MARKS
from ..results.rows import errata
from .findings import FindingsTable, RowsUsed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def read_printed(path: Path) -> list[dict[str, str]]:
    """The rows of a table of printed numbers: tab-separated, with a header; lines that begin with # are remarks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))


def format_estimate(estimate: Estimate, *, digits: int = 1, signed: bool = True) -> str:
    """A value with its interval, or why it has none.

    >>> format_estimate(Estimate(term="a - b", value=2.0, ci_low=-1.0, ci_high=5.0, n=9, unit="points"))
    '+2.0 [-1.0, +5.0]'
    """
    if estimate.value is None:
        return "not identified"
    form = f"{'+' if signed else ''}.{digits}f"
    if estimate.ci_low is None or estimate.ci_high is None:
        return f"{estimate.value:{form}}"
    return f"{estimate.value:{form}} [{estimate.ci_low:{form}}, {estimate.ci_high:{form}}]"


def format_unsigned(estimate: Estimate, digits: int = 2) -> str:
    """The same without a plus sign."""
    return format_estimate(estimate, digits=digits, signed=False)


def build_cross_table(
    title: str,
    term: str,
    columns: Mapping[str, Sequence[Estimate]],
    *,
    note: str = "",
    digits: int = 2,
    signed: bool = True,
) -> FindingsTable:
    """One row per term, one column a set of estimates; a set without the term has an empty cell."""
    terms = list(dict.fromkeys(one.term for estimates in columns.values() for one in estimates))
    cells = [
        {one.term: format_estimate(one, digits=digits, signed=signed) for one in estimates}
        for estimates in columns.values()
    ]
    return FindingsTable(
        title=title,
        headers=[term, *columns],
        note=note,
        rows=[[one, *(column.get(one, "") for column in cells)] for one in terms],
    )


def format_p_value(p: float | None) -> str:
    """A p-value at two digits; empty if there is none.

    >>> format_p_value(0.0243), format_p_value(0.314), format_p_value(2.34e-4), format_p_value(None)
    ('0.024', '0.31', '2.3e-04', '')
    """
    if p is None:
        return ""
    return f"{p:.2g}" if p >= 1e-3 else f"{p:.1e}"


def format_effect_unit(estimate: Estimate) -> str:
    """The unit without what every risk has in common: "per unit of log(z_dim)", "mlp against identity"."""
    return estimate.unit.removeprefix("percentage points ")


def format_with_interval(estimate: Estimate) -> str:
    """A value and its interval: ``"-0.08 [-0.31, 0.15]"``."""
    low, high = estimate.ci_low, estimate.ci_high
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{'none' if estimate.value is None else f'{estimate.value:.2f}'}{interval}"


def label_risk_axis(outcome: str, *, lines: bool = False) -> str:
    """An axis of a component or an error: what it is, its unit, and that lower is better.

    >>> label_risk_axis("usability"), label_risk_axis("train_test", lines=True)
    ('Usability error [points], lower is better', 'Full-shot error [%]\\nlower is better')
    """
    one = OUTCOMES[outcome]
    words = one.label if one.label.endswith("error") else f"{one.label} error"
    gap = "\n" if lines else ", "
    return f"{words} [{'%' if one.unit == 'percent' else 'points'}]{gap}lower is better"


def count_rows_used(part: str, table: StudyTable, *columns: str, of: StudyTable | None = None) -> RowsUsed:
    """How many encoders of a table have all of these columns, and why the others of the whole table (``of``) do not."""
    before = {} if of is None else of.left_out
    gone = (
        {}
        if of is None
        else {reason: len(encoders) - len(before.get(reason, ())) for reason, encoders in table.left_out.items()}
    )
    left_out = {reason: n for reason, n in gone.items() if n} | table.n_left_out(*columns)
    return RowsUsed(part=part, used=len(table) - sum(table.n_left_out(*columns).values()), left_out=left_out)


def describe_errata(encoders: Iterable[str]) -> list[str]:
    """What the errata say of the measurements of these encoders, one sentence each."""
    named = list(dict.fromkeys(encoders))
    return [
        f"{erratum.encoder} is doubtful ({erratum.kind}): {erratum.reason}"
        for erratum in errata()
        if erratum.encoder in named
    ]


def format_named_numbers(values: Mapping[str, float], *, signed: bool = False) -> str:
    """Numbers with their names, one digit after the point; components by their words.

    >>> format_named_numbers({"probe_gen": -9.04, "clustering": 1.0}, signed=True)
    'probe generalization -9.0, clustering +1.0'
    """
    names = {part: OUTCOMES[part].label.lower() if part in OUTCOMES else part for part in values}
    return ", ".join(f"{names[part]} {value:{'+' if signed else ''}.1f}" for part, value in values.items())


COMPONENT_MARKS = dict(zip(PARTS, MARKS, strict=False))


def draw_with_bars(axes: Axes, x: Sequence[float], estimates: Sequence[Estimate], part: str) -> None:
    """Values of a component with their 95 % intervals, in its colour and mark."""
    y = [float("nan") if estimate.value is None else estimate.value for estimate in estimates]
    for position, estimate in zip(x, estimates, strict=True):
        if estimate.ci_low is not None and estimate.ci_high is not None:
            axes.vlines(
                position, estimate.ci_low, estimate.ci_high, color=COMPONENT_COLOURS[part], linewidth=0.9, alpha=0.7
            )
    axes.plot(x, y, color=COMPONENT_COLOURS[part], marker=COMPONENT_MARKS[part], label=OUTCOMES[part].label)
