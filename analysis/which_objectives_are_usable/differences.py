"""Differences between groups of encoders, of means and with other columns held fixed.

Groups were never assigned at random, so differences of means are descriptive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from zoo.analysis.columns import Estimate
from zoo.analysis.groups import collect_group_values
from zoo.analysis.linear import adjust_discovery_rates, build_design, fit_ols
from zoo.analysis.table import StudyTable, require_columns
from zoo.errors import QueryError

_WORDS = {"projection1_arch": "projector", "projection2_arch": "projector"}  # of columns whose absence has a name
NONE = "none"  # value of a column where it is missing


def compare_group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Difference of the means of each two groups, by Welch's test; the group with the higher mean comes first.

    ``p_adjusted`` is the false-discovery rate over all pairs that can be tested: groups of two encoders that vary.
    """
    groups = collect_group_values(table, outcome, by)
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
    value, where a missing cell counts as the value in ``missing``, by default ``"none"``. HC3 intervals stand next to
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
