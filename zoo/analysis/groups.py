"""Groups of encoders: means and their differences, the best of a category or a year, and how risks change over years.

Groups were never assigned at random, so differences of means are descriptive. Best means the lowest error or risk; ties
go to the first id in alphabetical order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import require_extra
from .columns import COMPONENTS, OUTCOMES, Estimate
from .linear import adjust_discovery_rates, build_design, fit_ols
from .table import StudyTable, require_columns

with require_extra("study", needed_for="A comparison of groups"):
    import numpy as np
    import pandas as pd
    from scipy import stats

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PARTS = tuple(outcome.column for outcome in COMPONENTS)
_WORDS = {"projection1_arch": "projector", "projection2_arch": "projector"}  # of columns whose absence has a name
NONE = "none"  # value of a column where it is missing


def estimate_group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Mean of an outcome in each group of the column ``by``, lowest first, with Student's 95 % interval."""
    return tuple(
        sorted(
            (_mean(group, values, table, outcome) for group, values in _groups(table, outcome, by).items()),
            key=lambda estimate: (estimate.value or 0.0, estimate.term),
        )
    )


def compare_group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Difference of the means of each two groups, by Welch's test; the group with the higher mean comes first.

    ``p_adjusted`` is the false-discovery rate over all pairs that can be tested: groups of two encoders that vary.
    """
    groups = _groups(table, outcome, by)
    if len(groups) < 2:
        raise QueryError(
            f"Got {len(groups)} group of {by} among the encoders with {outcome}, expected at least 2 to compare."
        )
    ordered = sorted(groups, key=lambda group: (-float(groups[group].mean()), group))
    differences = [
        _difference(first, second, groups, table.column(outcome).unit, outcome)
        for first, second in combinations(ordered, 2)
    ]
    return tuple(adjust_discovery_rates(differences, family=f"{outcome} by pairs of {by}"))


def estimate_adjusted_differences(
    table: StudyTable,
    outcome: str,
    by: str,
    *,
    reference: str,
    fixed: Sequence[str],
    logged: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> tuple[Estimate, ...]:
    """Difference of each group to the ``reference`` group in a linear model that holds other columns ``fixed``.

    A fixed number enters linearly, or as its natural logarithm if it is ``logged``; any other column as one term a
    value, where a missing cell counts as the value in ``missing``, by default ``"none"``. HC3 intervals stand beside
    the classical ones. A difference that the fixed columns determine has no value and a note.
    """
    require_columns(fixed)
    numbers = [name for name in fixed if table.column(name).is_number]
    values = [name for name in fixed if name not in numbers]
    rows = table.complete(outcome, by, *numbers)
    filled = rows.assign(**{name: _as_values(rows[name], (missing or {}).get(name, NONE)) for name in values})
    design = build_design(
        filled,
        numeric=[name for name in numbers if name not in logged],
        log=[name for name in numbers if name in logged],
        categorical=[by, *values],
        references={by: reference},
    )
    called = [
        f"no {_WORDS.get(name, name)} called {value}" for name, value in (missing or {}).items() if name in values
    ]
    matrix = design.matrix.sub(design.matrix.mean()).assign(constant=1.0)  # centred: years are far from 0
    fit = fit_ols(
        matrix,
        rows[outcome],
        terms=design.terms[by],
        outcome_name=outcome,
        unit=table.column(outcome).unit,
        method="linear, fixed: " + (", ".join([*fixed, *called]) or "nothing"),
    )
    groups = {term: term.removeprefix(f"{by}[").removesuffix("]") for term in design.terms[by]}
    return tuple(estimate.described(term=f"{groups[estimate.term]} - {reference}") for estimate in fit.estimates)


def _groups(table: StudyTable, outcome: str, by: str) -> dict[str, NDArray[np.float64]]:
    rows = table.complete(outcome, by)
    return {str(group): values.to_numpy(float) for group, values in rows.groupby(rows[by].astype(str))[outcome]}


def _mean(group: str, values: NDArray[np.float64], table: StudyTable, outcome: str) -> Estimate:
    mean, unit = float(values.mean()), table.column(outcome).unit
    label = Estimate(term=group, n=len(values), unit=unit, outcome=outcome, method="mean of the group")
    if len(values) < 2:
        return label.with_value(mean, note="one encoder, so nothing says how much it varies")
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return label.with_value(mean, (mean - half, mean + half))


def _difference(first: str, second: str, groups: dict[str, NDArray[np.float64]], unit: str, outcome: str) -> Estimate:
    one, other = groups[first], groups[second]
    difference, n = float(one.mean() - other.mean()), len(one) + len(other)
    label = Estimate(term=f"{first} - {second}", n=n, unit=unit, outcome=outcome, method="difference of means, Welch")
    if min(len(one), len(other)) < 2:
        note = "one of the groups has one encoder, so the difference cannot be tested"
        return label.with_value(difference, note=note)
    if np.ptp(one) == 0 == np.ptp(other):
        return label.with_value(difference, note="neither group varies, so the difference cannot be tested")
    test: Any = stats.ttest_ind(one, other, equal_var=False)
    return label.with_value(difference, test.confidence_interval(0.95), p=test.pvalue)


def _as_values(cells: pd.Series[Any], missing: str) -> pd.Series[Any]:
    return cells.astype(object).where(cells.notna(), missing).astype(str)


def sort_by_error(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rows that have an error or risk, lowest first, ties by id."""
    return frame.dropna(subset=[by]).sort_index().sort_values(by, kind="stable")


def select_best_fraction(frame: pd.DataFrame, *, by: str, fraction: float) -> pd.DataFrame:
    """The best rows, rounded up to whole encoders, so that there is always one; best first, rows without ``by`` left
    out.
    """
    rows = sort_by_error(frame, by)
    return rows.head(count_best(len(rows), fraction))


def select_best_of_each(frame: pd.DataFrame, groups: str | Sequence[str], *, by: str) -> pd.DataFrame:
    """The best row of each group, in the order of the groups; rows without a group are left out."""
    columns = [groups] if isinstance(groups, str) else list(groups)
    best: pd.DataFrame = sort_by_error(frame.dropna(subset=columns), by).groupby(columns, sort=False).head(1)
    return best.sort_values(columns, kind="stable")


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
