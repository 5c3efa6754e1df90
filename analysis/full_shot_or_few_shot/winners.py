"""The categories of the paper's Table 2, and the best encoder of each; ties go to the first id of the alphabet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from statsmodels.stats import proportion

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import ordered
from zoo.analysis.table import StudyTable, require_columns
from zoo.errors import QueryError

N_TEST_IMAGES = 50_000  # validation images of ImageNet-1K, on which every error of the table was measured


@dataclass(frozen=True, slots=True)
class Category:
    """Encoders that compete with each other."""

    name: str
    where: Mapping[str, tuple[object, ...]]  # column -> the values that belong to it


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


_IMAGENET = {"pretraining_data": ("ImageNet-1K",)}
TABLE_2 = (
    Category("RN50, ImageNet-1K", {**_IMAGENET, "architecture": ("resnet50",)}),
    Category("any CNN, ImageNet-1K", {**_IMAGENET, "family": ("resnet", "convnext")}),
    Category("ViT-S/16, ImageNet-1K", {**_IMAGENET, "architecture": ("vits",), "patch_size": (16,)}),
    Category("any ViT, ImageNet-1K", {**_IMAGENET, "family": ("vit",)}),
    Category("any data and architecture, published features", {"is_our_extract": (False,)}),
)
"""The categories of the paper's Table 2."""
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
    rows = ordered(members(table, category), setting)
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
    """How much higher the error of one encoder is than that of another, as far as 50,000 test images can tell.

    First minus second, in percentage points; the p-value is that of the score test. The images are taken as two
    independent samples. Both encoders saw the same ones, and errors on the same images usually go together, so the
    interval is on the wide side; it holds neither the choice of the labels nor the seed of the probe.
    """
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
