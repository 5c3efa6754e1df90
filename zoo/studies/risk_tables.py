"""Risks by year and the best encoders as tables and estimates of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..analysis.best_encoders import Winner
from ..analysis.estimates import Estimate
from ..analysis.outcomes import OUTCOMES
from ..analysis.table import StudyTable
from ..analysis.trends import PARTS, YearRisks
from ..resultfiles import errata
from .findings import Rows, Table

if TYPE_CHECKING:
    import pandas as pd

Years = Mapping[int, YearRisks]
"""Risks by year, in the order of the years."""


def years_table(title: str, groups: Mapping[str, Years]) -> Table:
    """One row a group and year: encoders, which is the best one, components, full-shot error."""
    named, averaged = any(groups), all(risks.encoder is None for years in groups.values() for risks in years.values())
    headers = [
        *(["group"] if named else []), "year", "encoders", *([] if averaged else ["best"]),
        *(OUTCOMES[part].label for part in PARTS), "Full-shot error",
    ]  # fmt: skip
    rows = [
        [
            *([name] if named else []), str(year), str(risks.n), *([] if averaged else [str(risks.encoder)]),
            *(_cell(risks.parts[part], risks.n) for part in PARTS), f"{risks.error:.2f}",
        ]
        for name, years in groups.items() for year, risks in years.items()
    ]  # fmt: skip
    return Table(
        title=title, headers=headers, rows=rows,
        note="Components in percentage points, the error in percent, lower is better; a dash: nobody has measured it"
        + ("; n where fewer encoders have the component." if averaged else "."),
    )  # fmt: skip


def years_estimates(name: str, years: Years) -> list[Estimate]:
    """The components of each year, with the group in their method."""
    return [
        risks.parts[part].described(term=str(year) if risks.encoder is None else f"{year}: {risks.encoder}",
                                    method=f"{risks.parts[part].method or 'not measured'}, {name}")
        for year, risks in years.items() for part in PARTS
    ]  # fmt: skip


def not_measured(years: Years) -> str:
    """Which best encoders lack components, in words for a caption; empty if none does."""
    said = []
    for year, risks in years.items():
        gone = [OUTCOMES[part].label.lower() for part in PARTS if risks.parts[part].value is None]
        if gone and risks.encoder is not None:
            both = "" if risks.known_sum is None else f", {risks.known_sum:.2f} together"
            said.append(f"{' and '.join(gone)} of {risks.encoder} ({year}{both})")
    return f" Not measured: {'; '.join(said)}." if said else ""


def rows_used(part: str, table: StudyTable, *columns: str, of: StudyTable | None = None) -> Rows:
    """How many encoders of a table have all of these columns, and why the others were left out.

    Parameters
    ----------
    of : StudyTable, optional
        The whole table, if ``table`` has only some of its encoders: the others are counted by why they were left out.
    """
    before = {} if of is None else of.left_out
    gone = {} if of is None else {
        reason: len(encoders) - len(before.get(reason, ())) for reason, encoders in table.left_out.items()
    }  # fmt: skip
    left_out = {reason: n for reason, n in gone.items() if n} | table.n_left_out(*columns)
    return Rows(part=part, used=len(table) - sum(table.n_left_out(*columns).values()), left_out=left_out)


def encoders_table(title: str, frame: pd.DataFrame, settings: Sequence[str], *, note: str = "") -> Table:
    """One row an encoder: id, objective, architecture, dimensions, data, and accuracies in percent."""
    facts = ("objective", "architecture", "z_dim", "pretraining_data")
    rows = [[str(encoder), *(_fact(row[name]) for name in facts), *(_accuracy(float(row[name])) for name in settings)]
            for encoder, row in frame.iterrows()]  # fmt: skip
    return Table(title=title, headers=["encoder", *facts, *map(accuracy_label, settings)], rows=rows, note=note)


def winners_table(
    title: str, winners: Iterable[Winner], table: StudyTable, settings: Sequence[str],
    printed: Mapping[tuple[str, str], str],
) -> Table:  # fmt: skip
    """One row a category and setting: the winner's accuracies, the printed row, and how far ahead of whom it is."""
    rows = [
        [
            winner.category, accuracy_label(winner.setting), winner.encoder,
            *(_accuracy(float(table.frame[name][winner.encoder])) for name in settings),
            printed.get((winner.category, winner.setting), ""),
            winner.runner_up or "–", "–" if winner.margin is None else f"{winner.margin:.2f}", str(winner.n),  # noqa: RUF001
        ]
        for winner in winners
    ]  # fmt: skip
    return Table(
        title=title, rows=rows,
        headers=["category", "best at", "encoder", *map(accuracy_label, settings), "paper", "runner-up", "ahead by",
                 "encoders"],
        note="Accuracy in percent, higher is better. A lead of less than about 0.5 points is within what other test "
        "images could turn around.",
    )  # fmt: skip


def costs_table(costs: Sequence[tuple[str, Estimate, Estimate]]) -> Table:
    """What the encoder that is best at one setting loses in the other, one row a category."""
    return Table(
        title="What the winner of the other setting costs",
        headers=["category", "3-shot winner: loss in full-shot", "full-shot winner: loss in 3-shot"],
        rows=[[category, with_interval(full), with_interval(three)] for category, full, three in costs],
        note="Percentage points of error, with intervals of 50,000 test images taken as two samples.",
    )  # fmt: skip


def best_of_years_table(best: pd.DataFrame, full: str) -> Table:
    """The best fraction of each year: usability, probe generalization, and the error of the setting ``full``."""
    return Table(
        title="Best 20 % of each year, ImageNet-1K (Figure 6)",
        headers=["year", "encoder", "Usability", "Probe generalization", "Full-shot error"],
        rows=[[f"{row['year']:.0f}", str(encoder), *(f"{row[name]:.2f}" for name in ("usability", "probe_gen", full))]
              for encoder, row in best.iterrows()],
        note="Of the encoders with all components, by full-shot error, rounded up to whole encoders; lower is better.",
    )  # fmt: skip


def doubts(encoders: Iterable[str]) -> list[str]:
    """What the errata say of the measurements of these encoders, one sentence each."""
    named = list(dict.fromkeys(encoders))
    return [f"{erratum.encoder} is doubtful ({erratum.kind}): {erratum.reason}"
            for erratum in errata() if erratum.encoder in named]  # fmt: skip


def listed(values: Mapping[str, float], *, signed: bool = False) -> str:
    """Numbers with their names, one digit after the point; components by their words.

    >>> listed({"probe_gen": -9.04, "clustering": 1.0}, signed=True)
    'probe generalization -9.0, clustering +1.0'
    """
    names = {part: OUTCOMES[part].label.lower() if part in OUTCOMES else part for part in values}
    return ", ".join(f"{names[part]} {value:{'+' if signed else ''}.1f}" for part, value in values.items())


def with_interval(estimate: Estimate) -> str:
    """A value and its interval: ``"-0.08 [-0.31, 0.15]"``."""
    low, high = estimate.ci_low, estimate.ci_high
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{'none' if estimate.value is None else f'{estimate.value:.2f}'}{interval}"


def accuracy_label(setting: str) -> str:
    """The words for the accuracy of a setting: ``"full-shot"``, ``"1 %"``, ``"3-shot"``."""
    return OUTCOMES[setting].label.removesuffix(" error").replace("Full", "full")


def _cell(estimate: Estimate, n: int) -> str:
    if estimate.value is None:
        return "–"  # noqa: RUF001
    half = "" if estimate.ci_high is None else f" ± {estimate.ci_high - estimate.value:.2f}"
    return f"{estimate.value:.2f}{half}{f' (n = {estimate.n})' if estimate.n != n else ''}"


def _fact(value: Any) -> str:
    if value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accuracy(error: float) -> str:
    return "" if error != error else f"{100 - error:.1f}"
