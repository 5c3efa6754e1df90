"""The one table that every study reads: cards joined with measurements, one row per encoder, published column names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, UnknownName
from ..optional import require_extra
from ..results.derived import summaries
from ..results.tables import build_published_rows, build_unpublished_rows, find_measured_twice
from .columns import STUDY_COLUMNS, StudyColumn

with require_extra("study", needed_for="A study"):
    import numpy as np
    import pandas as pd
    from threadpoolctl import threadpool_limits

Population = Literal["self-supervised", "supervised", "untrained", "all"]
UNKNOWN_MODE = (
    "yours, whose card does not say how it was trained: zoo unregister it and register it again with --set "
    "objective.mode=contrastive or like, which keeps its results"
)
OF_ANOTHER = "yours, and by its card not {}"
_MODES = {"supervised": "supervised", "initialized": "untrained"}  # any other mode of objective is self-supervised


@dataclass(frozen=True, slots=True)
class StudyTable:
    """Encoders by facts and measurements, and how the rows were chosen."""

    frame: pd.DataFrame  # index "enc": ids; float64, str or object (true, false, NaN) columns
    why_missing: pd.DataFrame  # like frame: "", "not published" or "not applicable"
    corrected: bool  # errata applied, wrong rows left out, components signed
    mine: tuple[str, ...]  # encoders that came from the user's own measurements
    left_out: Mapping[str, tuple[str, ...]]  # reason -> ids of encoders of the population that are not in the table
    with_mine: bool = False  # the user's encoders were asked for, whether there are any or not
    protocols_of_mine: tuple[str, ...] = ()  # by which the user's errors were measured

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, name: str) -> StudyColumn:
        """Kind, unit, label and meaning of a column; UnknownName if there is none."""
        require_columns([name])
        return STUDY_COLUMNS[name]

    def complete(self, *names: str) -> pd.DataFrame:
        """The rows that have all of these columns; UnknownName if one is no column, QueryError if no row has them."""
        require_columns(names)
        rows = self.frame.dropna(subset=list(names))
        if rows.empty:
            raise QueryError(
                f"None of the {len(self)} encoders of the table has {' and '.join(names)}; "
                "expected at least one, so measure it or leave out the study."
            )
        return rows

    def n_left_out(self, *names: str) -> dict[str, int]:
        """How many rows :meth:`complete` leaves out, by the first of the columns that is missing and why."""
        counts: dict[str, int] = {}
        reasons = self.why_missing[list(names)]
        for row in reasons.itertuples(index=False):
            first = next((f"{name} {why}" for name, why in zip(names, row, strict=True) if why), None)
            if first is not None:
                counts[first] = counts.get(first, 0) + 1
        return counts

    def only(self, encoders: Iterable[str], *, because: str) -> StudyTable:
        """The same table with these encoders only; the others are left out, with the reason."""
        chosen = self.frame.index.isin(list(encoders))
        gone = tuple(self.frame.index[~chosen])
        left_out = {**self.left_out, because: (*self.left_out.get(because, ()), *gone)} if gone else self.left_out
        return replace(self, frame=self.frame[chosen], why_missing=self.why_missing[chosen], left_out=left_out)


def study_table(
    population: Population = "self-supervised", *, corrected: bool = False, with_mine: bool = False
) -> StudyTable:
    """Cards joined with measurements on ImageNet-1K.

    Parameters
    ----------
    population : str
        ``"self-supervised"`` are the 169 encoders of the paper, ``"untrained"`` its 16 random ones, ``"supervised"``
        the twins; or ``"all"``.
    corrected : bool
        Errata applied to facts, measurements that an erratum excludes left out, components signed. Else everything is
        as it was published: facts with their faults, components clipped at 0.
    with_mine : bool
        With encoders that only you have measured, from the results in your zoo home; their components are signed.

    Raises
    ------
    QueryError
        If the population is unknown.
    ResultsError, CardError
        If a file is unreadable or something in it is wrong.
    """
    populations = ("self-supervised", "supervised", "untrained", "all")
    if population not in populations:
        raise QueryError(f"Got the population {population!r}, expected one of {', '.join(populations)}.")
    rows = _of(population, build_published_rows(as_published=not corrected, exclude_wrong=corrected))
    left_out: dict[str, tuple[str, ...]] = {}
    if corrected:
        everybody = _of(population, build_published_rows(as_published=True, exclude_wrong=False))
        left_out["measured wrongly, says an erratum"] = tuple(encoder for encoder in everybody if encoder not in rows)
    mine: dict[str, dict[str, Any]] = {}
    if with_mine:
        everybody = build_unpublished_rows(as_published=not corrected, exclude_wrong=corrected)
        mine = _of(population, everybody)
        if population != "all":
            cards = load_catalogue()
            unknown = [name for name in everybody if _population_of(cards[name]) is None]
            left_out[UNKNOWN_MODE] = tuple(unknown)
            others = tuple(name for name in everybody if name not in mine and name not in unknown)
            left_out[OF_ANOTHER.format(population)] = others
        left_out["your measurement of a published encoder, whose published row counts"] = tuple(find_measured_twice())
    return StudyTable(
        *_frames({**rows, **mine}),
        corrected,
        tuple(mine),
        {why: ids for why, ids in left_out.items() if ids},
        with_mine,
        tuple(sorted({one.campaign.protocol for one in summaries(encoders=mine).values()})) if mine else (),
    )


def require_columns(names: Iterable[str]) -> None:
    """Raise UnknownName, with the nearest columns, for a name that is no column of the study table."""
    for name in names:
        if name not in STUDY_COLUMNS:
            raise UnknownName("column of the study table", name, STUDY_COLUMNS)


def build_table(rows: Mapping[str, Mapping[str, Any]], *, corrected: bool = False) -> StudyTable:
    """A study table of given cells, such as a planted population; columns that are not given are missing."""
    require_columns({name for cells in rows.values() for name in cells})
    return StudyTable(*_frames(rows), corrected, (), {})


def _of(population: str, rows: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    cards = load_catalogue()  # once, for it looks after every card file
    return {encoder: cells for encoder, cells in rows.items() if population in ("all", _population_of(cards[encoder]))}


def _population_of(card: EncoderCard) -> str | None:
    """The population of an encoder; None if its card does not say how it was trained."""
    mode = card.objective.mode
    return None if isinstance(mode, Missing) else _MODES.get(mode, "self-supervised")


def _frames(rows: Mapping[str, Mapping[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    for encoder, encoder_cells in rows.items():
        for name, cell in encoder_cells.items():
            if isinstance(cell, float) and math.isinf(cell):
                raise QueryError(f"{name} of {encoder!r} is {cell}, expected a finite number; correct or remove it.")
    index = pd.Index(list(rows), name="enc", dtype="object")
    typed, reasons = {}, {}
    for column in STUDY_COLUMNS.values():
        cells: Sequence[Any] = [cells.get(column.name, Missing.NOT_PUBLISHED) for cells in rows.values()]
        reasons[column.name] = [cell.value if isinstance(cell, Missing) else _nan_reason(cell) for cell in cells]
        plain = [np.nan if isinstance(cell, Missing) or cell is None else cell for cell in cells]
        dtype = "float64" if column.is_number else "object"
        typed[column.name] = pd.Series(plain, index=index, dtype=dtype)
    return pd.DataFrame(typed, index=index), pd.DataFrame(reasons, index=index, dtype="object")


def _nan_reason(cell: Any) -> str:
    return Missing.NOT_PUBLISHED.value if cell is None or cell != cell else ""


FEWEST = 5  # encoders below which a study has nothing to say


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """One thread of BLAS in the block or function: on a few hundred rows more of them mostly wait for each other."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def require_encoders(table: StudyTable, *, fewest: int = FEWEST) -> None:
    """Raise QueryError if the table has fewer than ``fewest`` encoders."""
    if len(table) < fewest:
        raise QueryError(
            f"The table has {len(table)} encoder{'s' * (len(table) != 1)}, expected at least {fewest} to compare; "
            "choose a larger one."
        )


def select_encoders(table: StudyTable, column: str, value: object) -> StudyTable:
    """The encoders with a value in a column, of which there must be one; the others are left out."""
    require_columns([column])
    chosen = table.frame.index[table.frame[column] == value]
    if chosen.empty:
        raise QueryError(f"No encoder of the table has the {column} {value}, expected some to follow; add one.")
    return table.only(chosen, because=f"{column} is not {value}")
