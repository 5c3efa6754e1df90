"""How studies write estimates and p-values: as cells of a table, and as tables."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..analysis.estimates import Estimate
from .findings import Table


def read_printed(path: Path) -> list[dict[str, str]]:
    """The rows of a table of printed numbers: tab-separated, with a header; lines that begin with # are remarks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))


def interval(estimate: Estimate, *, digits: int = 1, signed: bool = True) -> str:
    """A value with its interval, or why it has none.

    >>> interval(Estimate(term="a - b", value=2.0, ci_low=-1.0, ci_high=5.0, n=9, unit="points"))
    '+2.0 [-1.0, +5.0]'
    """
    if estimate.value is None:
        return "not identified"
    form = f"{'+' if signed else ''}.{digits}f"
    if estimate.ci_low is None or estimate.ci_high is None:
        return f"{estimate.value:{form}}"
    return f"{estimate.value:{form}} [{estimate.ci_low:{form}}, {estimate.ci_high:{form}}]"


def estimate_table(
    title: str, term: str, estimates: Sequence[Estimate], *, note: str = "", signed: bool = True
) -> Table:
    """One row an estimate: term, value, interval, p, false-discovery rate and n; empty columns are left out."""
    headers = [term, "value [95 % interval]", "p", "false-discovery rate", "encoders"]
    rows = [
        [
            one.term,
            interval(one, signed=signed),
            *("" if p is None else f"{p:.2g}" for p in (one.p, one.p_adjusted)),
            str(one.n),
        ]
        for one in estimates
    ]
    used = [place for place in range(len(headers)) if place < 2 or any(row[place] for row in rows)]
    return Table(
        title=title,
        headers=[headers[place] for place in used],
        rows=[[row[place] for place in used] for row in rows],
        note=note,
    )


def cross_table(
    title: str,
    term: str,
    columns: Mapping[str, Sequence[Estimate]],
    *,
    note: str = "",
    digits: int = 2,
    signed: bool = True,
) -> Table:
    """One row a term, one column a set of estimates; a set without the term has an empty cell."""
    terms = list(dict.fromkeys(one.term for found in columns.values() for one in found))
    cells = [{one.term: interval(one, digits=digits, signed=signed) for one in found} for found in columns.values()]
    return Table(
        title=title,
        headers=[term, *columns],
        note=note,
        rows=[[one, *(column.get(one, "") for column in cells)] for one in terms],
    )


def probability(p: float | None) -> str:
    """A p-value at two digits; empty if there is none.

    >>> probability(0.0243), probability(0.314), probability(2.34e-4), probability(None)
    ('0.024', '0.31', '2.3e-04', '')
    """
    if p is None:
        return ""
    return f"{p:.2g}" if p >= 1e-3 else f"{p:.1e}"


def per(estimate: Estimate) -> str:
    """The unit without what every risk has in common: "per unit of log(z_dim)", "mlp against identity"."""
    return estimate.unit.removeprefix("percentage points ")


def with_interval(estimate: Estimate) -> str:
    """A value and its interval: ``"-0.08 [-0.31, 0.15]"``."""
    low, high = estimate.ci_low, estimate.ci_high
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{'none' if estimate.value is None else f'{estimate.value:.2f}'}{interval}"
