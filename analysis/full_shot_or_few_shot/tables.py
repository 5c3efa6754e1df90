"""The best encoders as tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import Winner
from zoo.analysis.table import StudyTable
from zoo.studies.findings import Table
from zoo.studies.tables import accuracy_label, with_interval

if TYPE_CHECKING:
    import pandas as pd


def encoders_table(title: str, frame: pd.DataFrame, settings: Sequence[str], *, note: str = "") -> Table:
    """One row an encoder: id, objective, architecture, dimensions, data, and accuracies in percent."""
    facts = ("objective", "architecture", "z_dim", "pretraining_data")
    rows = [
        [str(encoder), *(_fact(row[name]) for name in facts), *(_accuracy(float(row[name])) for name in settings)]
        for encoder, row in frame.iterrows()
    ]
    return Table(title=title, headers=["encoder", *facts, *map(accuracy_label, settings)], rows=rows, note=note)


def winners_table(
    title: str,
    winners: Iterable[Winner],
    table: StudyTable,
    settings: Sequence[str],
    printed: Mapping[tuple[str, str], str],
) -> Table:
    """One row a category and setting: the winner's accuracies, the printed row, and how far ahead of whom it is."""
    rows = [
        [
            winner.category,
            accuracy_label(winner.setting),
            winner.encoder,
            *(_accuracy(float(table.frame[name][winner.encoder])) for name in settings),
            printed.get((winner.category, winner.setting), ""),
            winner.runner_up or "–",  # noqa: RUF001
            "–" if winner.margin is None else f"{winner.margin:.2f}",  # noqa: RUF001
            str(winner.n),
        ]
        for winner in winners
    ]
    return Table(
        title=title,
        rows=rows,
        headers=[
            "category",
            "best at",
            "encoder",
            *map(accuracy_label, settings),
            "paper",
            "runner-up",
            "ahead by",
            "encoders",
        ],
        note="Accuracy in percent, higher is better. A lead of less than about 0.5 points is within what other test "
        "images could turn around.",
    )


def costs_table(costs: Sequence[tuple[str, Estimate, Estimate]]) -> Table:
    """What the encoder that is best at one setting loses in the other, one row a category."""
    return Table(
        title="What the winner of the other setting costs",
        headers=["category", "3-shot winner: loss in full-shot", "full-shot winner: loss in 3-shot"],
        rows=[[category, with_interval(full), with_interval(three)] for category, full, three in costs],
        note="Percentage points of error, with intervals of 50,000 test images taken as two samples.",
    )


def best_of_years_table(best: pd.DataFrame, full: str) -> Table:
    """The best fraction of each year: usability, probe generalization, and the error of the setting ``full``."""
    return Table(
        title="Best 20 % of each year, ImageNet-1K (Figure 6)",
        headers=["year", "encoder", "Usability", "Probe generalization", "Full-shot error"],
        rows=[
            [f"{row['year']:.0f}", str(encoder), *(f"{row[name]:.2f}" for name in ("usability", "probe_gen", full))]
            for encoder, row in best.iterrows()
        ],
        note="Of the encoders with all components, by full-shot error, rounded up to whole encoders; lower is better.",
    )


def _fact(value: Any) -> str:
    if value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accuracy(error: float) -> str:
    return "" if error != error else f"{100 - error:.1f}"
