"""The best fraction of encoders, and how its risk changes with the number of labels by which it is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.groups import sort_by_error
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError


def select_best_fraction(frame: pd.DataFrame, *, by: str, fraction: float) -> pd.DataFrame:
    """The best rows, rounded up to whole encoders, so that there is always one; best first, rows without ``by`` left
    out.
    """
    rows = sort_by_error(frame, by)
    return rows.head(count_best(len(rows), fraction))


def select_best_fractions(frame: pd.DataFrame, groups: str, *, by: str, fraction: float) -> pd.DataFrame:
    """The best fraction of each group, rounded up, in the order of the groups; rows without a group are left out."""
    parts = [select_best_fraction(group, by=by, fraction=fraction) for _, group in frame.groupby(groups)]
    return pd.concat(parts) if parts else frame.iloc[:0]


def count_best(n: int, fraction: float) -> int:
    """How many encoders the best fraction of n are.

    >>> count_best(145, 0.2), count_best(7, 0.1), count_best(0, 0.2)
    (29, 1, 0)
    """
    return math.ceil(n * fraction - 1e-9)  # 0.2 * 145 is a little more than 29 in binary


def estimate_risks_of_best(
    table: StudyTable,
    settings: Sequence[str],
    components: Sequence[str],
    *,
    fraction: float = 0.2,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> tuple[Estimate, ...]:
    """Mean components of the best encoders in each setting, and their change from the first setting to the last.

    ``settings`` are columns of errors, the most labels first. Only encoders with all settings and components take part
    (five at least); each bootstrap sample selects its best encoders anew. Terms are ``"best 20 % by train_test"``.
    """
    rows = table.complete(*settings, *components).sort_index()
    if len(rows) < 5:
        raise QueryError(f"{len(rows)} encoders have all of {', '.join(settings)} and the components, expected 5.")
    k = len(select_best_fraction(rows, by=settings[0], fraction=fraction))
    errors, values = rows[list(settings)].to_numpy(), rows[list(components)].to_numpy()  # (n, settings), (n, parts)
    draws = np.random.default_rng(seed).integers(len(rows), size=(n_resamples, len(rows)))
    means, spread = [], []
    for position in range(len(settings)):
        chosen = np.argsort(errors[:, position], kind="stable")[:k]
        means.append(values[chosen].mean(axis=0))
        order = np.argsort(errors[draws, position], axis=1, kind="stable")[:, :k]
        spread.append(values[np.take_along_axis(draws, order, axis=1)].mean(axis=1))  # (resamples, parts)
    label = f"best {100 * fraction:g} %"
    by_term = [
        (f"{label} by {setting}", means[position], spread[position], f"mean of the {label}")
        for position, setting in enumerate(settings)
    ]
    change = f"{label} by {settings[-1]} - by {settings[0]}"
    by_term.append((change, means[-1] - means[0], spread[-1] - spread[0], f"change of the mean of the {label}"))
    estimates = []
    for term, mean, drawn, method in by_term:
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        for c, component in enumerate(components):
            unit = OUTCOMES[component].unit if component in OUTCOMES else "percentage points"
            one = Estimate(term=term, n=k, outcome=component, unit=unit, method=f"{method}, bootstrap")
            estimates.append(one.with_value(mean[c], (low[c], high[c])))
    return tuple(estimates)
