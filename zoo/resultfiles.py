"""Reads and checks the files of ``results/``: rows of measurements, and the errata that say which to distrust.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from .cards import Catalogue, catalogue
from .content import content_files
from .errors import ResultsError, nearest_names
from .vocabulary import ERRATUM_KINDS, IMAGENET, METRICS, SPLITS

COLUMNS = (
    "encoder", "metric", "dataset", "split", "n_train", "seed", "value",
    "unit", "ci_low", "ci_high", "protocol", "source", "date",
)  # fmt: skip
ENCODER, METRIC, DATASET, SPLIT, N_TRAIN, SEED, VALUE, UNIT, CI_LOW, CI_HIGH, PROTOCOL, SOURCE, DATE = range(13)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultErratum:
    """A measurement, or a whole table, that should not be believed as it stands."""

    encoder: str  # id, or "*" for all
    metric: str  # name, or "*" for all
    kind: str  # one of ERRATUM_KINDS
    reason: str
    exclude: bool  # studies that ask for it leave these rows out

    def covers(self, encoder: str, metric: str) -> bool:
        """True if it speaks of this metric of this encoder."""
        return self.encoder in (encoder, "*") and self.metric in (metric, "*")


Row = list[str]  # the thirteen fields as text, checked; the encoder's id in its published spelling


def read_rows(metrics: Iterable[str] | None = None) -> list[Row]:
    """Rows of all results files, the shipped ones first, then the user's, each in the order of its lines.

    Parameters
    ----------
    metrics : iterable of str, optional
        Only these. A file that mentions none of them is not parsed at all, and so not checked either.

    Raises
    ------
    ResultsError
        At the first file or row that is wrong.
    """
    wanted = None if metrics is None else frozenset(metrics)
    cards = catalogue()
    seen: dict[tuple[str, ...], str] = {}
    rows: list[Row] = []
    for path in content_files("results", ".csv"):
        content = path.read_bytes()
        if content and wanted is not None and not any(metric.encode() in content for metric in wanted):
            continue
        checked = _checked_rows(path, content, cards, seen)
        rows += checked if wanted is None else [row for row in checked if row[METRIC] in wanted]
    return rows


def errata() -> tuple[ResultErratum, ...]:
    """Every erratum of ``results/errata.toml``, then those of the user's own ``results/errata.toml``.

    Raises
    ------
    ResultsError
        If a file is unreadable or an entry in it is wrong.
    """
    import tomllib  # 5 ms that only this needs

    cards = catalogue()
    found = []
    for path in content_files("results", "errata.toml"):
        try:
            document = tomllib.loads(path.read_bytes().decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ResultsError(f"{path} is not readable as TOML ({error}); correct or restore it.") from error
        entries = document.get("erratum")
        if set(document) != {"erratum"} or not isinstance(entries, list):
            raise ResultsError(f"{path}: found the tables {sorted(document)}, expected only [[erratum]] entries.")
        found += [_erratum(f"{path}, erratum {number}", entry, cards) for number, entry in enumerate(entries, start=1)]
    return tuple(found)


def _erratum(where: str, entry: object, cards: Catalogue) -> ResultErratum:
    names = [field.name for field in fields(ResultErratum)]
    if not isinstance(entry, dict) or sorted(entry) != sorted(names):
        keys = sorted(entry) if isinstance(entry, dict) else entry
        raise ResultsError(f"{where}: found the keys {keys}, expected {', '.join(names)}.")
    for name in names[:-1]:
        if not isinstance(entry[name], str) or not entry[name].strip():
            raise ResultsError(f"{where}, key {name!r}: found {entry[name]!r}, expected a text.")
    if not isinstance(entry["exclude"], bool):
        raise ResultsError(f"{where}, key 'exclude': found {entry['exclude']!r}, expected true or false.")
    known = (("encoder", cards, "*"), ("metric", METRICS, "*"), ("kind", ERRATUM_KINDS, ""))
    for name, choices, wildcard in known:
        if entry[name] not in choices and entry[name] != wildcard:
            near = ", ".join(map(repr, nearest_names(entry[name], choices)))
            raise ResultsError(
                f"{where}, key {name!r}: found {entry[name]!r}, expected a known {name}; near are: {near}."
            )
    encoder = entry["encoder"]
    return ResultErratum(**{**entry, "encoder": encoder if encoder == "*" else cards.id_of(encoder)})


def _checked_rows(path: Path, content: bytes, cards: Catalogue, seen: dict[tuple[str, ...], str]) -> list[Row]:
    ids: dict[str, str] = {}  # spelling -> id
    subjects: set[tuple[str, ...]] = set()  # checked combinations; most rows repeat one
    circumstances: set[tuple[str, ...]] = set()
    rows = []
    for line, row in _lines(path, content):
        spelling = row[ENCODER]
        if spelling not in ids:
            ids[spelling] = _id_of(path, line, spelling, cards)
        row[ENCODER] = ids[spelling]
        subject = (row[METRIC], row[DATASET], row[SPLIT], row[N_TRAIN], row[UNIT])
        if subject not in subjects:
            _check_subject(path, line, row)
            subjects.add(subject)
        circumstance = (row[SEED], row[PROTOCOL], row[SOURCE], row[DATE])
        if circumstance not in circumstances:
            _check_circumstance(path, line, row)
            circumstances.add(circumstance)
        _check_value(path, line, row)
        key = (*row[:VALUE], row[PROTOCOL], row[SOURCE])
        if key in seen:
            _refuse(
                path, line, "encoder",
                f"{row[ENCODER]!r}, {row[METRIC]!r}, {row[SPLIT]!r} again (first in {seen[key]})",
                "one row a measurement; delete one of them, or tell them apart by seed, protocol or source",
            )  # fmt: skip
        seen[key] = f"{path.name}, line {line}"
        rows.append(row)
    return rows


def _lines(path: Path, content: bytes) -> Iterator[tuple[int, Row]]:
    """Line number and fields of every row, the header and blank lines apart."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8.") from error
    if not text.endswith("\n"):
        last = text.rpartition("\n")[2]
        raise ResultsError(
            f"{path}, line {text.count(chr(10)) + 1}: the file breaks off after {last[-40:]!r}, expected a line end; "
            "restore it from its source, or end the last line if it is whole."
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader)
        if tuple(header) != COLUMNS:
            raise ResultsError(f"{path}, line 1: found the columns {header}, expected exactly {','.join(COLUMNS)}.")
        for row in reader:
            if len(row) != len(COLUMNS):
                if not row:
                    continue
                raise ResultsError(
                    f"{path}, line {reader.line_num}: found {len(row)} fields, expected {len(COLUMNS)}; "
                    "the line is cut off, or a comma is missing or needs quotes."
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise ResultsError(
            f"{path}, line {reader.line_num}: not readable as CSV ({error}); correct the line."
        ) from error


def _id_of(path: Path, line: int, spelling: str, cards: Catalogue) -> str:
    if spelling in cards:
        return cards.id_of(spelling)
    _refuse_name(path, line, "encoder", spelling, cards, "the id of a card; correct it, or add a card to metadata/")


def _check_subject(path: Path, line: int, row: Row) -> None:
    metric = METRICS.get(row[METRIC])
    if metric is None:
        _refuse_name(path, line, "metric", row[METRIC], METRICS, "a metric of results/README.md")
    if row[SPLIT] not in metric.splits:
        _refuse_name(path, line, "split", row[SPLIT], metric.splits, f"a split of {metric.name!r}")
    if row[UNIT] != metric.unit:
        _refuse(path, line, "unit", repr(row[UNIT]), f"{metric.unit!r} for {metric.name!r}; convert the value")
    if not row[DATASET].strip():
        _refuse(path, line, "dataset", "nothing", "the name of a data set, such as 'imagenet-1k'")
    n_train = row[N_TRAIN]
    if n_train and not (n_train.isascii() and n_train.isdigit()):
        _refuse(path, line, "n_train", repr(n_train), "a whole number of training images, or nothing")
    expected = SPLITS[row[SPLIT]].n_train
    if row[DATASET] == IMAGENET and n_train and int(n_train) != expected:
        wanted = "nothing" if expected is None else str(expected)
        _refuse(path, line, "n_train", n_train, f"{wanted} for {row[SPLIT]!r} of {IMAGENET}; correct n_train or split")


def _check_circumstance(path: Path, line: int, row: Row) -> None:
    if row[SEED] and not (row[SEED].isascii() and row[SEED].isdigit()):
        _refuse(path, line, "seed", repr(row[SEED]), "a whole number, or nothing if it is unknown")
    for column in (PROTOCOL, SOURCE):
        if not row[column].strip():
            _refuse(path, line, COLUMNS[column], "nothing", "a text that says how, or who, measured")
    date = row[DATE].split("-")
    if not (
        [len(part) for part in date] in ([4, 2], [4, 2, 2])
        and all(part.isascii() and part.isdigit() for part in date)
        and 1 <= int(date[1]) <= 12
        and (len(date) == 2 or 1 <= int(date[2]) <= 31)
    ):
        _refuse(path, line, "date", repr(row[DATE]), "a date like '2023-02-06' or '2023-02'")


def _check_value(path: Path, line: int, row: Row) -> None:
    value = _number(path, line, "value", row[VALUE])
    if row[UNIT] == "percent" and not 0 <= value <= 100:
        _refuse(path, line, "value", row[VALUE], "an error between 0 and 100 percent")
    if row[CI_LOW] or row[CI_HIGH]:
        low, high = _number(path, line, "ci_low", row[CI_LOW]), _number(path, line, "ci_high", row[CI_HIGH])
        if not low <= value <= high:
            _refuse(path, line, "ci_low", f"{low} to {high} around {value}", "an interval that holds the value")


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
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
