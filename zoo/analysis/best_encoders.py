"""The best encoders: of a category, of each year, and the best fraction of a population.

Best means the lowest error or risk. Encoders without it do not take part, and ties go to the first id in alphabetical
order, so that the same table gives the same winners.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import QueryError
from ..optional import requires_extra
from .estimates import Estimate
from .outcomes import OUTCOMES
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A comparison of encoders"):
    import numpy as np
    import pandas as pd
    from statsmodels.stats import proportion

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
    runner_up: str | None  # None if nobody else competes
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
    """Rows of the encoders of a category; an encoder that lacks one of its columns is in none.

    Raises
    ------
    UnknownName
        If a column does not exist.
    """
    require_columns(category.where)
    frame = table.frame
    for column, values in category.where.items():
        frame = frame[frame[column].isin(list(values))]
    return frame


def ordered(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rows that have an error or risk, lowest first, ties by id."""
    return frame.dropna(subset=[by]).sort_index().sort_values(by, kind="stable")


def winner(table: StudyTable, category: Category, setting: str) -> Winner:
    """The best encoder of a category.

    Parameters
    ----------
    setting : str
        Column of an error, such as ``"train_test"``.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, or no encoder of the category has the error.
    """
    require_columns([setting])
    rows = ordered(members(table, category), setting)
    if rows.empty:
        raise QueryError(
            f"No encoder of the {len(table)} in the table is in the category {category.name!r} and has {setting}; "
            "expected at least one."
        )
    errors = rows[setting].tolist()
    return Winner(
        category=category.name, setting=setting, encoder=str(rows.index[0]), error=errors[0],
        runner_up=str(rows.index[1]) if len(rows) > 1 else None,
        margin=errors[1] - errors[0] if len(rows) > 1 else None, n=len(rows),
    )  # fmt: skip


def best_fraction(frame: pd.DataFrame, *, by: str, fraction: float) -> pd.DataFrame:
    """The best rows, rounded up to whole encoders, so that there is always one; best first.

    Parameters
    ----------
    frame : DataFrame
        Rows without ``by`` do not count.
    fraction : float
        In (0, 1].

    Raises
    ------
    QueryError
        If the fraction is out of range.
    """
    if not 0 < fraction <= 1:
        raise QueryError(f"Got the fraction {fraction:g} of the best encoders, expected more than 0 and at most 1.")
    rows = ordered(frame, by)
    return rows.head(n_best(len(rows), fraction))


def best_of_each(frame: pd.DataFrame, groups: str | Sequence[str], *, by: str) -> pd.DataFrame:
    """The best row of each group, in the order of the groups; rows without a group are left out."""
    columns = [groups] if isinstance(groups, str) else list(groups)
    found: pd.DataFrame = ordered(frame.dropna(subset=columns), by).groupby(columns, sort=False).head(1)
    return found.sort_values(columns, kind="stable")


def best_fraction_of_each(frame: pd.DataFrame, groups: str, *, by: str, fraction: float) -> pd.DataFrame:
    """The best fraction of each group, rounded up, in the order of the groups; rows without a group are left out.

    Raises
    ------
    QueryError
        As :func:`best_fraction`.
    """
    parts = [best_fraction(group, by=by, fraction=fraction) for _, group in frame.groupby(groups)]
    return pd.concat(parts) if parts else frame.iloc[:0]


def n_best(n: int, fraction: float) -> int:
    """How many encoders the best fraction of n are.

    >>> n_best(145, 0.2), n_best(7, 0.1), n_best(0, 0.2)
    (29, 1, 0)
    """
    return math.ceil(n * fraction - 1e-9)  # 0.2 * 145 is a little more than 29 in binary


def error_difference(table: StudyTable, first: str, second: str, setting: str) -> Estimate:
    """How much higher the error of one encoder is than that of another, as far as 50,000 test images can tell.

    The images are taken as two independent samples. Both encoders saw the same ones, and errors on the same images
    usually go together, so the interval is on the wide side; it holds neither the choice of the labels nor the seed of
    the probe.

    Returns
    -------
    Estimate
        First minus second, in percentage points; the p-value is that of the score test.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, or one of the encoders is not in the table or has no such error.
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
        term=f"{first} - {second}", value=(counts[0] - counts[1]) * 100 / N_TEST_IMAGES, ci_low=100 * float(low),
        ci_high=100 * float(high), p=p, n=N_TEST_IMAGES, unit="percentage points", outcome=setting,
        method="difference of two errors", note="n counts test images",
    )  # fmt: skip


def risks_of_best(
    table: StudyTable,
    settings: Sequence[str],
    components: Sequence[str],
    *,
    fraction: float = 0.2,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> tuple[Estimate, ...]:
    """Mean components of the best encoders in each setting, and how they change from the first setting to the last.

    Only encoders with all settings and components take part, so that every setting chooses from the same ones. Each
    resample of the bootstrap draws encoders, and chooses the best of the draw anew.

    Parameters
    ----------
    settings : sequence of str
        Columns of errors, the most labels first.
    components : sequence of str
        Columns that are averaged.
    fraction : float
        In (0, 1]; rounded up to whole encoders.

    Returns
    -------
    tuple of Estimate
        By setting and component, term ``"best 20 % by train_test"``; then a change a component, term ``"LAST -
        FIRST"``.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, fewer than 5 encoders have them all, or the fraction is out of range.
    """
    rows = table.complete(*settings, *components).sort_index()
    if len(rows) < 5:
        raise QueryError(f"{len(rows)} encoders have all of {', '.join(settings)} and the components, expected 5.")
    k = len(best_fraction(rows, by=settings[0], fraction=fraction))
    errors, values = rows[list(settings)].to_numpy(), rows[list(components)].to_numpy()  # (n, settings), (n, parts)
    draws = np.random.default_rng(seed).integers(len(rows), size=(n_resamples, len(rows)))
    means, spread = [], []
    for position in range(len(settings)):
        chosen = np.argsort(errors[:, position], kind="stable")[:k]
        means.append(values[chosen].mean(axis=0))
        order = np.argsort(errors[draws, position], axis=1, kind="stable")[:, :k]
        spread.append(values[np.take_along_axis(draws, order, axis=1)].mean(axis=1))  # (resamples, parts)
    label = f"best {100 * fraction:g} %"
    found = [
        _bootstrapped(f"{label} by {setting}", component, means[s][c], spread[s][:, c], k, f"mean of the {label}")
        for s, setting in enumerate(settings)
        for c, component in enumerate(components)
    ]
    found += [
        _bootstrapped(
            f"{label} by {settings[-1]} - by {settings[0]}", component, means[-1][c] - means[0][c],
            spread[-1][:, c] - spread[0][:, c], k, f"change of the mean of the {label}",
        )
        for c, component in enumerate(components)
    ]  # fmt: skip
    return tuple(found)


def _bootstrapped(term: str, component: str, value: float, spread: Any, n: int, method: str) -> Estimate:
    low, high = np.quantile(spread, [0.025, 0.975])
    return Estimate(
        term=term, value=float(value), ci_low=float(low), ci_high=float(high), n=n, outcome=component,
        unit=OUTCOMES[component].unit if component in OUTCOMES else "percentage points", method=f"{method}, bootstrap",
    )  # fmt: skip
