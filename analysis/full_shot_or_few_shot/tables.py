"""The categories and rows of Tables 2 and 4, the best encoders of each, and the tables of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from statsmodels.stats import proportion

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import sort_by_error
from zoo.analysis.table import StudyTable, require_columns
from zoo.errors import QueryError
from zoo.studies.findings import FindingsTable
from zoo.studies.tables import format_with_interval, read_printed

FULL, ONE, THREE = "train_test", "train-balsbst-ntrain0.01_test", "train-nperclass-3_test"
SHOWN = (FULL, ONE, THREE)


_IMAGENET = {"pretraining_data": ("ImageNet-1K",)}


@dataclass(frozen=True, slots=True)
class Category:
    """Encoders that compete with each other."""

    name: str
    where: Mapping[str, tuple[object, ...]]  # column -> the values that belong to it


TABLE_2 = (
    Category("RN50, ImageNet-1K", {**_IMAGENET, "architecture": ("resnet50",)}),
    Category("any CNN, ImageNet-1K", {**_IMAGENET, "family": ("resnet", "convnext")}),
    Category("ViT-S/16, ImageNet-1K", {**_IMAGENET, "architecture": ("vits",), "patch_size": (16,)}),
    Category("any ViT, ImageNet-1K", {**_IMAGENET, "family": ("vit",)}),
    Category("any data and architecture, published features", {"is_our_extract": (False,)}),
)
"""The categories of the paper's Table 2."""
CATEGORIES = {category.name: category for category in TABLE_2}
COLUMNS = {"full-shot": FULL, "1 %": ONE, "3-shot": THREE}  # as the printed tables name them


def describe_accuracy(setting: str) -> str:
    """The words for the accuracy of a setting: ``"full-shot"``, ``"1 %"``, ``"3-shot"``."""
    return OUTCOMES[setting].label.removesuffix(" error").replace("Full", "full")


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
    """The accuracies of Tables 2 and 4, each row in full-shot, 1 % and 3-shot, in percent."""
    rows = [
        (one.encoder, f"Table 2, {one.category}, best by {describe_accuracy(one.setting)}") for one in winners_of(table)
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


def winners_table(table: StudyTable) -> FindingsTable:
    """Table 2: ids and accuracies next to the printed row, and how far ahead of whom each winner is."""
    printed = {(row.category.name, setting): f"{row.name}: {row.shown}" for row in WINNERS for setting in row.best_at}
    rows = [
        [
            one.category,
            describe_accuracy(one.setting),
            one.encoder,
            *(_accuracy(float(table.frame[name][one.encoder])) for name in SHOWN),
            printed.get((one.category, one.setting), ""),
            one.runner_up or "–",  # noqa: RUF001
            "–" if one.margin is None else f"{one.margin:.2f}",  # noqa: RUF001
            str(one.n),
        ]
        for one in winners_of(table)
    ]
    return FindingsTable(
        title="Best encoders by category and setting (Table 2)",
        rows=rows,
        headers=[
            "category",
            "best at",
            "encoder",
            *map(describe_accuracy, SHOWN),
            "paper",
            "runner-up",
            "ahead by",
            "encoders",
        ],
        note="Accuracy in percent, higher is better. A lead of less than about 0.5 points is within what other test "
        "images could turn around.",
    )


def features_table(table: StudyTable) -> FindingsTable:
    """Table 4: ids, dimensions and accuracies next to the printed ones."""
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
    return FindingsTable(
        title="Smaller features of the same encoders (Table 4)",
        rows=rows,
        headers=["encoder", "ours", "dimensions", *map(describe_accuracy, SHOWN), "paper"],
        note="Accuracy in percent, higher is better. Ours: extracted by the authors of the paper.",
    )


def costs_table(costs: Sequence[tuple[str, Estimate, Estimate]]) -> FindingsTable:
    """What the encoder that is best at one setting loses in the other, one row a category."""
    return FindingsTable(
        title="What the winner of the other setting costs",
        headers=["category", "3-shot winner: loss in full-shot", "full-shot winner: loss in 3-shot"],
        rows=[[category, format_with_interval(full), format_with_interval(three)] for category, full, three in costs],
        note="Percentage points of error, with intervals of 50,000 test images taken as two samples.",
    )


def front_table(front: pd.DataFrame) -> FindingsTable:
    """The encoders that no other one beats in both settings: id, facts, and accuracies in percent."""
    facts = ("objective", "architecture", "z_dim", "pretraining_data")
    return FindingsTable(
        title=f"The {len(front)} encoders that no other one beats in both full-shot and 3-shot",
        headers=["encoder", *facts, *map(describe_accuracy, SHOWN)],
        rows=[
            [str(encoder), *(_fact(row[name]) for name in facts), *(_accuracy(float(row[name])) for name in SHOWN)]
            for encoder, row in front.iterrows()
        ],
        note="Accuracy in percent, higher is better.",
    )


def best_of_years_table(best: pd.DataFrame) -> FindingsTable:
    """The best fraction of each year: usability, probe generalization and full-shot error."""
    return FindingsTable(
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


N_TEST_IMAGES = 50_000  # validation images of ImageNet-1K, on which every error of the table was measured


@dataclass(frozen=True, slots=True)
class Winner:
    """The best encoder of a category in one setting."""

    category: str
    setting: str  # column of the error
    encoder: str
    error: float  # percent, lower is better
    runner_up: str | None  # None if it is the only one
    margin: float | None  # percentage points by which the runner-up's error is higher
    n: int  # encoders that compete


ANY_FEATURES = Category("any data, architecture and features", {})
"""The last category with the features that the paper's authors extracted themselves."""


def members(table: StudyTable, category: Category) -> pd.DataFrame:
    """Rows of the encoders of a category; an encoder that lacks one of its columns is in none."""
    require_columns(category.where)
    frame = table.frame
    for column, values in category.where.items():
        frame = frame[frame[column].isin(list(values))]
    return frame


def winner(table: StudyTable, category: Category, setting: str) -> Winner:
    """The encoder of a category with the lowest error in a setting, a column such as ``"train_test"``."""
    require_columns([setting])
    rows = sort_by_error(members(table, category), setting)
    if rows.empty:
        raise QueryError(
            f"No encoder of the {len(table)} in the table is in the category {category.name!r} and has {setting}; "
            "expected at least one."
        )
    errors = rows[setting].tolist()
    return Winner(
        category=category.name,
        setting=setting,
        encoder=str(rows.index[0]),
        error=errors[0],
        runner_up=str(rows.index[1]) if len(rows) > 1 else None,
        margin=errors[1] - errors[0] if len(rows) > 1 else None,
        n=len(rows),
    )


def error_difference(table: StudyTable, first: str, second: str, setting: str) -> Estimate:
    """First minus second error, with the interval of 50,000 test images taken as two independent samples."""
    require_columns([setting])
    counts = []
    for encoder in (first, second):
        error = table.frame[setting].get(encoder, math.nan)
        if math.isnan(error):
            raise QueryError(f"{encoder} has no {setting} in the table, expected one to compare; measure it.")
        counts.append(round(error / 100 * N_TEST_IMAGES))
    samples = (counts[0], N_TEST_IMAGES, counts[1], N_TEST_IMAGES)
    low, high = proportion.confint_proportions_2indep(*samples, compare="diff", method="newcomb")
    p = 1.0  # of equal counts, for which the score test divides by nothing if both are 0
    if counts[0] != counts[1]:
        p = float(proportion.test_proportions_2indep(*samples, compare="diff", method="score").pvalue)
    return Estimate(
        term=f"{first} - {second}",
        n=N_TEST_IMAGES,
        unit="percentage points",
        outcome=setting,
        method="difference of two errors",
    ).with_value(
        (counts[0] - counts[1]) * 100 / N_TEST_IMAGES,
        (100 * float(low), 100 * float(high)),
        p=p,
        note="n counts test images",
    )
