"""Groups of encoders: their means, and the best of a category or a year.

Best means the lowest error or risk; ties
go to the first id in alphabetical order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import require_extra
from .columns import COMPONENTS, Estimate
from .table import StudyTable

with require_extra("study", needed_for="A comparison of groups"):
    import numpy as np
    import pandas as pd
    from scipy import stats

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PARTS = tuple(outcome.column for outcome in COMPONENTS)


def estimate_group_means(table: StudyTable, outcome: str, by: str) -> tuple[Estimate, ...]:
    """Mean of an outcome in each group of the column ``by``, lowest first, with Student's 95 % interval."""
    return tuple(
        sorted(
            (
                _mean(group, values, table, outcome)
                for group, values in collect_group_values(table, outcome, by).items()
            ),
            key=lambda estimate: (estimate.value or 0.0, estimate.term),
        )
    )


def collect_group_values(table: StudyTable, outcome: str, by: str) -> dict[str, NDArray[np.float64]]:
    """The values of an outcome in each group of the column ``by``."""
    rows = table.complete(outcome, by)
    return {str(group): values.to_numpy(float) for group, values in rows.groupby(rows[by].astype(str))[outcome]}


def _mean(group: str, values: NDArray[np.float64], table: StudyTable, outcome: str) -> Estimate:
    mean, unit = float(values.mean()), table.column(outcome).unit
    label = Estimate(term=group, n=len(values), unit=unit, outcome=outcome, method="mean of the group")
    if len(values) < 2:
        return label.with_value(mean, note="one encoder, so nothing says how much it varies")
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return label.with_value(mean, (mean - half, mean + half))


def sort_by_error(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    """Rows that have an error or risk, lowest first, ties by id."""
    return frame.dropna(subset=[by]).sort_index().sort_values(by, kind="stable")
