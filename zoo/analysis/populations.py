"""Which encoders a question is about, and whether there are enough of them to ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..errors import QueryError
from .table import StudyTable, require_columns

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 5  # encoders below which a study has nothing to say
_Found = TypeVar("_Found")


def require_encoders(table: StudyTable, *, fewest: int = FEWEST) -> None:
    """Refuses a table of too few encoders.

    Raises
    ------
    QueryError
        If it has fewer than ``fewest``.
    """
    if len(table) < fewest:
        raise QueryError(
            f"The table has {len(table)} encoder{'s' * (len(table) != 1)}, expected at least {fewest} to compare; "
            "choose a larger one."
        )


def require_several(values: pd.Series, what: str) -> None:
    """Refuses a population that is all of one year, one family or the like.

    Raises
    ------
    QueryError
        If the values are all the same, or there are none.
    """
    if values.nunique() < 2:
        shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values.unique())
        raise QueryError(
            f"All {len(values)} encoders that can be compared have the {what} {shown or '(none)'}; "
            "expected several to compare."
        )


def those(table: StudyTable, column: str, value: object) -> StudyTable:
    """The encoders with a value in a column; the others are left out.

    Raises
    ------
    UnknownName, QueryError
        If the column does not exist, or no encoder has the value.
    """
    require_columns([column])
    chosen = table.frame.index[table.frame[column] == value]
    if chosen.empty:
        raise QueryError(f"No encoder of the table has the {column} {value}, expected some to follow; add one.")
    return table.only(chosen, because=f"{column} is not {value}")


def in_groups(table: StudyTable, column: str, answer: Callable[[StudyTable], _Found]) -> dict[str, _Found]:
    """What is found for each group of encoders that has a year and a full-shot error, by the value of a column."""
    groups = table.frame.dropna(subset=["year", "train_test"])[column].dropna().unique()
    return {str(group): answer(those(table, column, group)) for group in sorted(groups)}
