"""Checks the rows of results files, field by field.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import NoReturn

from . import vocabulary as words
from .cards import Catalogue
from .errors import ResultsError, nearest_names
from .results import PUBLISHED_SOURCE
from .vocabulary import IMAGENET, METRICS, known_split

Row = list[str]  # the thirteen fields as text
Key = tuple[str, ...]  # what tells one row from another
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # float() takes '2_8.8' and ' 28.8 ' too
_ROUNDING = 1e-9  # of a value and the ends of its interval, which come from different sums
_WHOLE_NUMBER = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)  # one spelling each, lest '0' and '00' be two seeds
_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?", re.ASCII)


def key_of(row: Row) -> Key:
    """What no two rows may have in common: everything but value, unit, interval and date."""
    return (*row[: words.VALUE], row[words.PROTOCOL], row[words.SOURCE])


def checked_rows(
    where: Callable[[int], str],
    lines: Iterable[tuple[int, Row]],
    cards: Catalogue,
    seen: dict[Key, str],
    wrong: Callable[[ResultsError], None] | None = None,
) -> list[Row]:
    """The rows of one file, the encoder's id in its published spelling.

    Parameters
    ----------
    where : callable
        From the number of a line to its place in words, for messages: "FILE, line NUMBER".
    lines : iterable of (int, list of str)
        Number and fields of each line.
    cards : Catalogue
        Encoders that may be named.
    seen : dict
        :func:`key_of` a row -> its place; of this file and those before it. Is added to.
    wrong : callable, optional
        Is given the error of each row that is wrong, which is then left out.

    Raises
    ------
    ResultsError
        At the first row that is wrong, without ``wrong``.
    """
    checks = _Checks(cards, seen)
    rows = []
    for line, row in lines:
        try:
            checks.check(where(line), row)
        except ResultsError as error:
            if wrong is None:
                raise
            wrong(error)
        else:
            rows.append(row)
    return rows


class _Checks:
    """What was right of earlier rows need not be checked again, for most rows repeat it."""

    def __init__(self, cards: Catalogue, seen: dict[Key, str]) -> None:
        self._cards = cards
        self._seen = seen
        self._ids: dict[str, str] = {}  # spelling -> id
        self._subjects: set[tuple[str | bool, ...]] = set()
        self._circumstances: set[Key] = set()

    def check(self, place: str, row: Row) -> None:
        """Refuses a row that is wrong; gives the encoder of another one the spelling of its card."""
        spelling = row[words.ENCODER]
        if spelling not in self._ids:
            self._ids[spelling] = _id_of(place, spelling, self._cards)
        row[words.ENCODER] = self._ids[spelling]
        subject = (
            row[words.METRIC],
            row[words.DATASET],
            row[words.SPLIT],
            row[words.N_TRAIN],
            row[words.UNIT],
            row[words.SOURCE] == PUBLISHED_SOURCE,
        )
        if subject not in self._subjects:
            _check_subject(place, row)
            self._subjects.add(subject)
        circumstance = (row[words.SEED], row[words.PROTOCOL], row[words.SOURCE], row[words.DATE])
        if circumstance not in self._circumstances:
            _check_circumstance(place, row)
            self._circumstances.add(circumstance)
        _check_value(place, row)
        key = key_of(row)
        if key in self._seen:
            _refuse(
                place, "encoder",
                f"{row[words.ENCODER]!r}, {row[words.METRIC]!r}, {row[words.SPLIT]!r} again "
                f"(first in {self._seen[key]})",
                "one row a measurement; delete one of them, or tell them apart by seed, protocol or source",
            )  # fmt: skip
        self._seen[key] = place


def _id_of(place: str, spelling: str, cards: Catalogue) -> str:
    if spelling in cards:
        return cards.id_of(spelling)
    _refuse_name(place, "encoder", spelling, cards, "the id of a card; correct it, or add a card to metadata/")


def _check_subject(place: str, row: Row) -> None:
    metric = METRICS.get(row[words.METRIC])
    if metric is None:
        _refuse_name(place, "metric", row[words.METRIC], METRICS, "a metric of results/README.md")
    if not metric.takes(row[words.SPLIT]):
        others = ", 'train 10-shot -> val', 'train 0.5% -> val' or the like" if metric.any_labels else ""
        others += ", 'train 300 images -> val' or the like" if metric.any_images else ""
        _refuse_name(place, "split", row[words.SPLIT], metric.splits, f"a split of {metric.name!r}{others}")
    split = known_split(row[words.SPLIT])
    if row[words.UNIT] != metric.unit:
        _refuse(place, "unit", repr(row[words.UNIT]), f"{metric.unit!r} for {metric.name!r}; convert the value")
    if not row[words.DATASET].strip():
        _refuse(place, "dataset", "nothing", "the name of a data set, such as 'imagenet-1k'")
    n_train = row[words.N_TRAIN]
    if n_train and not _WHOLE_NUMBER.fullmatch(n_train):
        _refuse(place, "n_train", repr(n_train), "a whole number of training images, or nothing")
    if row[words.DATASET] == IMAGENET and n_train:
        n_rounded = 0 if row[words.SOURCE] == PUBLISHED_SOURCE else split.n_rounded
        if split.n_train is None or abs(int(n_train) - split.n_train) > n_rounded:
            wanted = "nothing" if split.n_train is None else str(split.n_train)
            about = f", give or take {n_rounded}," if n_rounded else ""
            expected = f"{wanted}{about} for {split.name!r} of {IMAGENET}; correct n_train or split"
            _refuse(place, "n_train", n_train, expected)
    if split.shots and n_train and int(n_train) % split.shots:
        expected = f"a multiple of {split.shots} for {split.name!r}; correct n_train or split"
        _refuse(place, "n_train", n_train, expected)


def _check_circumstance(place: str, row: Row) -> None:
    if row[words.SEED] and not _WHOLE_NUMBER.fullmatch(row[words.SEED]):
        _refuse(place, "seed", repr(row[words.SEED]), "a whole number, or nothing if it is unknown")
    for column in (words.PROTOCOL, words.SOURCE):
        if not row[column].strip():
            _refuse(place, words.COLUMNS[column], "nothing", "a text that says how, or who, measured")
    if not _is_date(row[words.DATE]):
        _refuse(place, "date", repr(row[words.DATE]), "a date like '2023-02-06' or '2023-02'")


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


def _check_value(place: str, row: Row) -> None:
    value = _number(place, "value", row[words.VALUE])
    if row[words.UNIT] == "percent" and not 0 <= value <= 100:
        _refuse(place, "value", row[words.VALUE], "an error between 0 and 100 percent")
    if row[words.UNIT] == "percentage points" and abs(value) > 100:
        _refuse(place, "value", row[words.VALUE], "a difference of two errors, between -100 and 100 percentage points")
    if value < 0 and row[words.METRIC].endswith("_error"):
        _refuse(place, "value", row[words.VALUE], "an error, which is never below 0")
    if row[words.UNIT] == "degrees" and value > 180:
        _refuse(place, "value", row[words.VALUE], "an angle of at most 180 degrees")
    if row[words.CI_LOW] or row[words.CI_HIGH]:
        low, high = _number(place, "ci_low", row[words.CI_LOW]), _number(place, "ci_high", row[words.CI_HIGH])
        slack = _ROUNDING * max(1, abs(value))
        if not (low <= high and low - slack <= value <= high + slack):
            _refuse(place, "ci_low", f"{low} to {high} around {value}", "an interval that holds the value")


def _number(place: str, column: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        _refuse(place, column, repr(text), "a finite number; correct it, or delete the row if it was not measured")
    return number


def _refuse(place: str, column: str, found: str, expected: str) -> NoReturn:
    raise ResultsError(f"{place}, column {column!r}: found {found}, expected {expected}.")


def _refuse_name(place: str, column: str, name: str, known: Iterable[str], expected: str) -> NoReturn:
    nearest = nearest_names(name, known)
    _refuse(place, column, repr(name), expected + (f"; near are {', '.join(map(repr, nearest))}" if nearest else ""))
