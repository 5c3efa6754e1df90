"""Means of an outcome by group, and how the groups differ: as they are, and with other columns held fixed.

Groups of encoders were never assigned at random, so a difference of means describes; it is no effect. Holding columns
fixed removes what they explain linearly, and shows which differences the table cannot tell from those columns at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import requires_extra
from .estimates import Estimate
from .ols import adjusted, design_of, fit_ols
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A comparison of groups"):
    import numpy as np
    from scipy import stats

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_WORDS = {"projection1_arch": "projector", "projection2_arch": "projector"}  # of columns whose absence has a name
NONE = "none"  # value of a column where it is missing


def group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Mean of an outcome in each group, lowest first.

    Parameters
    ----------
    table : StudyTable
        Encoders without the outcome or without a group are left out.
    outcome, by : str
        A number column, and the column whose values are the groups.

    Returns
    -------
    tuple of Estimate
        Terms ``"clustering"``, in the outcome's unit, with the 95 % interval of Student's t; a group of one encoder has
        none.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, or no encoder has both.
    """
    return tuple(sorted((_mean(group, values, table, outcome) for group, values in _groups(table, outcome, by).items()),
                        key=lambda estimate: (estimate.value or 0.0, estimate.term)))  # fmt: skip


def group_differences(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Difference of the means of each two groups, by Welch's test, which assumes no equal variances.

    Returns
    -------
    tuple of Estimate
        Terms ``"generative - clustering"``, the group with the higher mean first; ``p_adjusted`` is the
        false-discovery rate (Benjamini and Hochberg) over all pairs that can be tested. A pair with a group of one
        encoder, or of two groups that do not vary, has a value and no test.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, no encoder has both, or there is one group only.
    """
    groups = _groups(table, outcome, by)
    if len(groups) < 2:
        raise QueryError(
            f"Got {len(groups)} group of {by} among the encoders with {outcome}, expected at least 2 to compare."
        )
    ordered = sorted(groups, key=lambda group: (-float(groups[group].mean()), group))
    found = [
        _difference(first, second, groups, table.column(outcome).unit, outcome)
        for first, second in combinations(ordered, 2)
    ]
    return tuple(adjusted(found, family=f"{outcome} by pairs of {by}"))


def adjusted_differences(
    table: StudyTable,
    outcome: str,
    by: str,
    *,
    reference: str,
    fixed: Sequence[str],
    logged: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> tuple[Estimate, ...]:
    """Difference of each group to a reference group in a linear model that holds other columns fixed.

    Parameters
    ----------
    reference : str
        The group that the others are compared with.
    fixed : sequence of str
        Other columns. A number enters linearly, and encoders without it are left out; any other column enters as one
        term a value.
    logged : sequence of str
        Those of the numbers that enter as natural logarithms.
    missing : mapping, optional
        Value that a missing cell of a column counts as; by default ``"none"``, a value of its own.

    Returns
    -------
    tuple of Estimate
        Terms ``"generative - clustering"``, ordinary least squares, with HC3 intervals beside the classical ones. A
        difference that the fixed columns determine is not identified: its value is None and its note says why. The
        method names the fixed columns, and what their missing cells count as if ``missing`` says so.

    Raises
    ------
    UnknownName, QueryError
        If a column does not exist, or no encoder of the reference group is left.
    """
    require_columns(fixed)
    numbers = [name for name in fixed if table.column(name).is_number]
    values = [name for name in fixed if name not in numbers]
    rows = table.complete(outcome, by, *numbers)
    filled = rows.assign(**{name: _as_values(rows[name], (missing or {}).get(name, NONE)) for name in values})
    design = design_of(
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
        matrix, rows[outcome], terms=design.terms[by], outcome_name=outcome, unit=table.column(outcome).unit,
        method="linear, fixed: " + (", ".join([*fixed, *called]) or "nothing"),
    )  # fmt: skip
    groups = {term: term.removeprefix(f"{by}[").removesuffix("]") for term in design.terms[by]}
    return tuple(estimate.described(term=f"{groups[estimate.term]} - {reference}") for estimate in fit.estimates)


def _groups(table: StudyTable, outcome: str, by: str) -> dict[str, NDArray[np.float64]]:
    rows = table.complete(outcome, by)
    return {str(group): values.to_numpy(float) for group, values in rows.groupby(rows[by].astype(str))[outcome]}


def _mean(group: str, values: NDArray[np.float64], table: StudyTable, outcome: str) -> Estimate:
    estimate = Estimate(term=group, value=float(values.mean()), n=len(values), unit=table.column(outcome).unit,
                        outcome=outcome, method="mean of the group")  # fmt: skip
    if len(values) < 2:
        return estimate.described(note="one encoder, so nothing says how much it varies")
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return estimate.described(ci_low=float(values.mean()) - half, ci_high=float(values.mean()) + half)


def _difference(first: str, second: str, groups: dict[str, NDArray[np.float64]], unit: str, outcome: str) -> Estimate:
    one, other = groups[first], groups[second]
    estimate = Estimate(term=f"{first} - {second}", value=float(one.mean() - other.mean()), n=len(one) + len(other),
                        unit=unit, outcome=outcome, method="difference of means, Welch")  # fmt: skip
    if min(len(one), len(other)) < 2:
        return estimate.described(note="one of the groups has one encoder, so the difference cannot be tested")
    if np.ptp(one) == 0 == np.ptp(other):
        return estimate.described(note="neither group varies, so the difference cannot be tested")
    test: Any = stats.ttest_ind(one, other, equal_var=False)
    interval = test.confidence_interval(0.95)
    return estimate.described(ci_low=float(interval.low), ci_high=float(interval.high), p=float(test.pvalue))


def _as_values(cells: pd.Series[Any], missing: str) -> pd.Series[Any]:
    return cells.astype(object).where(cells.notna(), missing).astype(str)
