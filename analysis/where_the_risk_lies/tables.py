"""Components of the error by year, as tables and estimates of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import PARTS
from zoo.studies.findings import Table

from .years import YearRisks

if TYPE_CHECKING:
    pass


Years = Mapping[int, YearRisks]
"""Risks by year, in the order of the years."""


def years_table(title: str, groups: Mapping[str, Years]) -> Table:
    """One row a group and year: encoders, which is the best one, components, full-shot error."""
    named, averaged = any(groups), all(risks.encoder is None for years in groups.values() for risks in years.values())
    headers = [
        *(["group"] if named else []),
        "year",
        "encoders",
        *([] if averaged else ["best"]),
        *(OUTCOMES[part].label for part in PARTS),
        "Full-shot error",
    ]
    rows = [
        [
            *([name] if named else []),
            str(year),
            str(risks.n),
            *([] if averaged else [str(risks.encoder)]),
            *(_cell(risks.parts[part], risks.n) for part in PARTS),
            f"{risks.error:.2f}",
        ]
        for name, years in groups.items()
        for year, risks in years.items()
    ]
    return Table(
        title=title,
        headers=headers,
        rows=rows,
        note="Components in percentage points, the error in percent, lower is better; a dash: nobody has measured it"
        + ("; n where fewer encoders have the component." if averaged else "."),
    )


def years_estimates(name: str, years: Years) -> list[Estimate]:
    """The components of each year, with the group in their method."""
    return [
        risks.parts[part].described(
            term=str(year) if risks.encoder is None else f"{year}: {risks.encoder}",
            method=f"{risks.parts[part].method or 'not measured'}, {name}",
        )
        for year, risks in years.items()
        for part in PARTS
    ]


def not_measured(years: Years) -> str:
    """Which best encoders lack components, in words for a caption; empty if none does."""
    said = []
    for year, risks in years.items():
        gone = [OUTCOMES[part].label.lower() for part in PARTS if risks.parts[part].value is None]
        if gone and risks.encoder is not None:
            both = "" if risks.known_sum is None else f", {risks.known_sum:.2f} together"
            said.append(f"{' and '.join(gone)} of {risks.encoder} ({year}{both})")
    return f" Not measured: {'; '.join(said)}." if said else ""


def _cell(estimate: Estimate, n: int) -> str:
    if estimate.value is None:
        return "–"  # noqa: RUF001
    half = "" if estimate.ci_high is None else f" ± {estimate.ci_high - estimate.value:.2f}"
    return f"{estimate.value:.2f}{half}{f' (n = {estimate.n})' if estimate.n != n else ''}"
