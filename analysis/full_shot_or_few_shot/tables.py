"""Tables 2 and 4 as they are printed, beside what the results table has; the best encoders as tables of a report.

Accuracy is 100 minus the error, in percent. The full-shot accuracy of the last row of Table 4 shares every digit with
that of another encoder, which an erratum calls suspicious.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import Table
from zoo.studies.tables import accuracy_label, read_printed, with_interval

from .winners import ANY_FEATURES, TABLE_2, Category, Winner, error_difference, members, winner

if TYPE_CHECKING:
    import pandas as pd

FULL, ONE, THREE = "train_test", "train-balsbst-ntrain0.01_test", "train-nperclass-3_test"
SHOWN = (FULL, ONE, THREE)
CATEGORIES = {category.name: category for category in TABLE_2}
COLUMNS = {"full-shot": FULL, "1 %": ONE, "3-shot": THREE}  # as the printed tables name them


@dataclass(frozen=True, slots=True)
class PrintedWinner:
    """A row of Table 2."""

    category: Category
    best_at: tuple[str, ...]  # columns of the errors for which it is underlined
    name: str
    accuracies: tuple[str, str, str]  # full-shot, 1 %, 3-shot
    million_parameters: str

    @property
    def shown(self) -> str:
        return " / ".join(self.accuracies)


@dataclass(frozen=True, slots=True)
class PrintedFeatures:
    """A row of Table 4."""

    encoder: str  # id, from objective, architecture and dimensions
    name: str
    ours: bool  # extracted by the authors of the paper
    dimensions: str
    accuracies: tuple[str, str, str]

    @property
    def shown(self) -> str:
        return " / ".join(self.accuracies)


WINNERS = [
    PrintedWinner(
        category=CATEGORIES[row["category"]],
        best_at=tuple(COLUMNS[setting] for setting in row["best_at"].split(", ")),
        name=row["name"],
        accuracies=(row["full-shot"], row["1 %"], row["3-shot"]),
        million_parameters=row["million_parameters"],
    )
    for row in read_printed(Path(__file__).with_name("table2.tsv"))
]
FEATURES = [
    PrintedFeatures(
        encoder=row["encoder"],
        name=row["name"],
        ours=row["extracted_by"] == "the paper",
        dimensions=row["dimensions"],
        accuracies=(row["full-shot"], row["1 %"], row["3-shot"]),
    )
    for row in read_printed(Path(__file__).with_name("table4.tsv"))
]


def accuracies_of(table: StudyTable, encoder: str) -> tuple[float, ...]:
    """Accuracies of an encoder in full-shot, 1 % and 3-shot, in percent; a QueryError if the table lacks one."""
    errors = [float(table.frame[setting].get(encoder, float("nan"))) for setting in SHOWN]
    if any(error != error for error in errors):
        raise QueryError(f"{encoder} has no error in full-shot, 1 % and 3-shot in the table; expected all, measure it.")
    return tuple(100 - error for error in errors)


def winners_of(table: StudyTable) -> list[Winner]:
    """The winner of each category of Table 2, and of all features, in full-shot, 1 % and 3-shot, where there is one."""
    return [
        winner(table, category, setting)
        for category in (*TABLE_2, ANY_FEATURES)
        for setting in SHOWN
        if members(table, category)[setting].notna().any()
    ]


def accuracy_estimates(table: StudyTable) -> list[Estimate]:
    """The accuracies of Tables 2 and 4, each row in full-shot, 1 % and 3-shot, in percent; higher is better.

    The rows are those of :func:`winners_table` and :func:`features_table`. A winner of two settings is there twice,
    so ``method`` names the table, and in Table 2 the category and the setting by which it is the best.
    """
    rows = [
        (one.encoder, f"Table 2, {one.category}, best by {accuracy_label(one.setting)}") for one in winners_of(table)
    ]
    rows += [(row.encoder, "Table 4") for row in FEATURES if row.encoder in table.frame.index]
    return [
        _accuracy_estimate(encoder, setting, float(table.frame[setting][encoder]), method)
        for encoder, method in rows
        for setting in SHOWN
    ]


def costs_of_choosing(table: StudyTable) -> list[tuple[str, Estimate, Estimate]]:
    """By category: what the 3-shot winner costs in full-shot, and what the full-shot winner costs in 3-shot."""
    best = {(one.category, one.setting): one.encoder for one in winners_of(table)}
    costs_by_category = []
    for category in (*TABLE_2, ANY_FEATURES):
        full, three = best.get((category.name, FULL)), best.get((category.name, THREE))
        if full is None or three is None or table.frame.loc[[full, three], [FULL, THREE]].isna().any(axis=None):
            continue
        costs = [error_difference(table, three, full, FULL), error_difference(table, full, three, THREE)]
        labelled = [cost.described(method=f"{cost.method}, {category.name}") for cost in costs]
        costs_by_category.append((category.name, labelled[0], labelled[1]))
    return costs_by_category


def winners_table(table: StudyTable) -> Table:
    """Table 2: ids and accuracies beside the printed row, and how far ahead of whom each winner is."""
    printed = {(row.category.name, setting): f"{row.name}: {row.shown}" for row in WINNERS for setting in row.best_at}
    rows = [
        [
            one.category,
            accuracy_label(one.setting),
            one.encoder,
            *(_accuracy(float(table.frame[name][one.encoder])) for name in SHOWN),
            printed.get((one.category, one.setting), ""),
            one.runner_up or "–",  # noqa: RUF001
            "–" if one.margin is None else f"{one.margin:.2f}",  # noqa: RUF001
            str(one.n),
        ]
        for one in winners_of(table)
    ]
    return Table(
        title="Best encoders by category and setting (Table 2)",
        rows=rows,
        headers=[
            "category",
            "best at",
            "encoder",
            *map(accuracy_label, SHOWN),
            "paper",
            "runner-up",
            "ahead by",
            "encoders",
        ],
        note="Accuracy in percent, higher is better. A lead of less than about 0.5 points is within what other test "
        "images could turn around.",
    )


def features_table(table: StudyTable) -> Table:
    """Table 4: ids, dimensions and accuracies beside the printed ones."""
    rows = [
        [
            row.encoder,
            "yes" if row.ours else "no",
            f"{table.frame['z_dim'][row.encoder]:g}",
            *(_accuracy(float(table.frame[setting][row.encoder])) for setting in SHOWN),
            row.shown,
        ]
        for row in FEATURES
        if row.encoder in table.frame.index
    ]
    return Table(
        title="Smaller features of the same encoders (Table 4)",
        rows=rows,
        headers=["encoder", "ours", "dimensions", *map(accuracy_label, SHOWN), "paper"],
        note="Accuracy in percent, higher is better. Ours: extracted by the authors of the paper.",
    )


def costs_table(costs: Sequence[tuple[str, Estimate, Estimate]]) -> Table:
    """What the encoder that is best at one setting loses in the other, one row a category."""
    return Table(
        title="What the winner of the other setting costs",
        headers=["category", "3-shot winner: loss in full-shot", "full-shot winner: loss in 3-shot"],
        rows=[[category, with_interval(full), with_interval(three)] for category, full, three in costs],
        note="Percentage points of error, with intervals of 50,000 test images taken as two samples.",
    )


def front_table(front: pd.DataFrame) -> Table:
    """The encoders that no other one beats in both settings: id, facts, and accuracies in percent."""
    facts = ("objective", "architecture", "z_dim", "pretraining_data")
    return Table(
        title=f"The {len(front)} encoders that no other one beats in both full-shot and 3-shot",
        headers=["encoder", *facts, *map(accuracy_label, SHOWN)],
        rows=[
            [str(encoder), *(_fact(row[name]) for name in facts), *(_accuracy(float(row[name])) for name in SHOWN)]
            for encoder, row in front.iterrows()
        ],
        note="Accuracy in percent, higher is better.",
    )


def best_of_years_table(best: pd.DataFrame) -> Table:
    """The best fraction of each year: usability, probe generalization and full-shot error."""
    return Table(
        title="Best 20 % of each year, ImageNet-1K (Figure 6)",
        headers=["year", "encoder", "Usability", "Probe generalization", "Full-shot error"],
        rows=[
            [f"{row['year']:.0f}", str(encoder), *(f"{row[name]:.2f}" for name in ("usability", "probe_gen", FULL))]
            for encoder, row in best.iterrows()
        ],
        note="Of the encoders with all components, by full-shot error, rounded up to whole encoders; lower is better.",
    )


def _accuracy_estimate(encoder: str, setting: str, error: float, method: str) -> Estimate:
    known = error == error
    return Estimate(
        term=encoder,
        value=100 - error if known else None,
        n=1,
        unit="percent accuracy",
        outcome=setting,
        method=method,
        note="" if known else "the table has no such error of it",
    )


def _fact(value: Any) -> str:
    if value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _accuracy(error: float) -> str:
    return "" if error != error else f"{100 - error:.1f}"
