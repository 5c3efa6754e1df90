"""Checks the rows of results files, field by field.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NoReturn

from . import vocabulary as words
from .cards import Catalogue
from .errors import ResultsError, nearest_names
from .vocabulary import IMAGENET, METRICS, SPLITS

Row = list[str]  # the thirteen fields as text
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # float() takes '2_8.8' and ' 28.8 ' too
_WHOLE_NUMBER = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)  # one spelling each, lest '0' and '00' be two seeds
_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?", re.ASCII)


def checked_rows(
    path: Path, lines: Iterable[tuple[int, Row]], cards: Catalogue, seen: dict[tuple[str, ...], str]
) -> list[Row]:
    """The rows of one file, the encoder's id in its published spelling.

    Parameters
    ----------
    path : Path
        Of the file, for messages.
    lines : iterable of (int, list of str)
        Number and fields of each line.
    cards : Catalogue
        Encoders that may be named.
    seen : dict
        What tells one measurement from another -> where it is; of this file and those before it. Is added to.

    Raises
    ------
    ResultsError
        At the first row that is wrong.
    """
    ids: dict[str, str] = {}  # spelling -> id
    subjects: set[tuple[str, ...]] = set()  # checked combinations; most rows repeat one
    circumstances: set[tuple[str, ...]] = set()
    rows = []
    for line, row in lines:
        spelling = row[words.ENCODER]
        if spelling not in ids:
            ids[spelling] = _id_of(path, line, spelling, cards)
        row[words.ENCODER] = ids[spelling]
        subject = (row[words.METRIC], row[words.DATASET], row[words.SPLIT], row[words.N_TRAIN], row[words.UNIT])
        if subject not in subjects:
            _check_subject(path, line, row)
            subjects.add(subject)
        circumstance = (row[words.SEED], row[words.PROTOCOL], row[words.SOURCE], row[words.DATE])
        if circumstance not in circumstances:
            _check_circumstance(path, line, row)
            circumstances.add(circumstance)
        _check_value(path, line, row)
        key = (*row[: words.VALUE], row[words.PROTOCOL], row[words.SOURCE])
        if key in seen:
            _refuse(
                path, line, "encoder",
                f"{row[words.ENCODER]!r}, {row[words.METRIC]!r}, {row[words.SPLIT]!r} again (first in {seen[key]})",
                "one row a measurement; delete one of them, or tell them apart by seed, protocol or source",
            )  # fmt: skip
        seen[key] = f"{path.name}, line {line}"
        rows.append(row)
    return rows


def _id_of(path: Path, line: int, spelling: str, cards: Catalogue) -> str:
    if spelling in cards:
        return cards.id_of(spelling)
    _refuse_name(path, line, "encoder", spelling, cards, "the id of a card; correct it, or add a card to metadata/")


def _check_subject(path: Path, line: int, row: Row) -> None:
    metric = METRICS.get(row[words.METRIC])
    if metric is None:
        _refuse_name(path, line, "metric", row[words.METRIC], METRICS, "a metric of results/README.md")
    if row[words.SPLIT] not in metric.splits:
        _refuse_name(path, line, "split", row[words.SPLIT], metric.splits, f"a split of {metric.name!r}")
    if row[words.UNIT] != metric.unit:
        _refuse(path, line, "unit", repr(row[words.UNIT]), f"{metric.unit!r} for {metric.name!r}; convert the value")
    if not row[words.DATASET].strip():
        _refuse(path, line, "dataset", "nothing", "the name of a data set, such as 'imagenet-1k'")
    n_train = row[words.N_TRAIN]
    if n_train and not _WHOLE_NUMBER.fullmatch(n_train):
        _refuse(path, line, "n_train", repr(n_train), "a whole number of training images, or nothing")
    expected = SPLITS[row[words.SPLIT]].n_train
    if row[words.DATASET] == IMAGENET and n_train and int(n_train) != expected:
        wanted = "nothing" if expected is None else str(expected)
        _refuse(
            path, line, "n_train", n_train, f"{wanted} for {row[words.SPLIT]!r} of {IMAGENET}; correct n_train or split"
        )


def _check_circumstance(path: Path, line: int, row: Row) -> None:
    if row[words.SEED] and not _WHOLE_NUMBER.fullmatch(row[words.SEED]):
        _refuse(path, line, "seed", repr(row[words.SEED]), "a whole number, or nothing if it is unknown")
    for column in (words.PROTOCOL, words.SOURCE):
        if not row[column].strip():
            _refuse(path, line, words.COLUMNS[column], "nothing", "a text that says how, or who, measured")
    if not _is_date(row[words.DATE]):
        _refuse(path, line, "date", repr(row[words.DATE]), "a date like '2023-02-06' or '2023-02'")


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if not found:
        return False
    year, month, day = found.groups(default="1")
    try:
        date(int(year), int(month), int(day))
    except ValueError:  # no such day
        return False
    return True


def _check_value(path: Path, line: int, row: Row) -> None:
    value = _number(path, line, "value", row[words.VALUE])
    if row[words.UNIT] == "percent" and not 0 <= value <= 100:
        _refuse(path, line, "value", row[words.VALUE], "an error between 0 and 100 percent")
    if row[words.CI_LOW] or row[words.CI_HIGH]:
        low, high = _number(path, line, "ci_low", row[words.CI_LOW]), _number(path, line, "ci_high", row[words.CI_HIGH])
        if not low <= value <= high:
            _refuse(path, line, "ci_low", f"{low} to {high} around {value}", "an interval that holds the value")


def _number(path: Path, line: int, column: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        _refuse(path, line, column, repr(text), "a finite number; correct it, or delete the row if it was not measured")
    return number


def _refuse(path: Path, line: int, column: str, found: str, expected: str) -> NoReturn:
    raise ResultsError(f"{path}, line {line}, column {column!r}: found {found}, expected {expected}.")


def _refuse_name(path: Path, line: int, column: str, name: str, known: Iterable[str], expected: str) -> NoReturn:
    nearest = nearest_names(name, known)
    _refuse(
        path, line, column, repr(name), expected + (f"; near are {', '.join(map(repr, nearest))}" if nearest else "")
    )
