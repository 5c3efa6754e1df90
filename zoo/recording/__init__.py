"""Adds measurements to the results: each once, with what it was measured from, whoever else is writing.

Own measurements lie in ``results/measured/`` of the zoo home, one file an encoder with rows like those of any results
file, and beside it ``ENCODER.provenance.jsonl`` with one line a row: the hashes of what it was measured from and the
report of the probe. Both are replaced as a whole, the provenance first: at any moment, a kill or a full disk included,
a reader finds the old rows or the new ones, and no row without its provenance. A line of provenance may be without
its row, and then counts for nothing.

Writers take turns by a lock that ends with its process. Where a file system has no locks, or only pretends to, a writer
still never replaces a file that has changed since it was read, looks again afterwards whether its rows are there, and
repeats itself until they are.

A number that was recorded never changes. The same row again is no error, so that a run which is repeated or resumed
records what is missing; another value for the same row is refused. There is no way to replace one here: a better
measurement has a protocol or a source of its own, and a wrong row is an erratum, or is taken out by hand.
"""

from __future__ import annotations

import csv
import io
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic import replaced
from ..cards import Catalogue, catalogue
from ..content import user_folder
from ..errors import ResultsError, warn
from ..measurements import Measurement, row_of
from ..resultchecks import Key, Row, checked_rows, key_of
from ..resultfiles import believable_rows_of, require_table
from ..results import read_files
from ..vocabulary import CI_HIGH, CI_LOW, COLUMNS, DATASET, ENCODER, METRIC, PROTOCOL, SEED, SOURCE, SPLIT, VALUE
from .provenance import PROVENANCE_KEYS, file_stem, provenance_line, provenance_of, sidecar_of
from .turns import turn

__all__ = ["PROVENANCE_KEYS", "Recorded", "provenance_of", "record"]

_ATTEMPTS = 50  # of writing rows that others, who write at the same moment, take away
_PAUSE_S = 0.01
_STALE_S = 3600.0  # nobody writes one file for an hour
_ROUNDING = 1e-9  # the same number from sums in another order


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of measurements that were to be recorded."""

    paths: tuple[Path, ...]  # the files that they belong to
    n_new: int  # rows that were added
    n_known: int  # rows that were there already, with the same value


@dataclass(frozen=True, slots=True)
class _Entry:
    row: Row
    line: bytes  # of the results file
    provenance: bytes  # line of the file beside it


def record(measured: Mapping[Measurement, Mapping[str, Any]], *, folder: Path | None = None) -> Recorded:
    """Adds rows to the user's results, with their provenance.

    Everything is checked before anything is written, by the checks that reading makes. All rows of one encoder appear
    together; those of several encoders one file after the other.

    Parameters
    ----------
    measured : mapping from Measurement to mapping
        Each number, and what it was measured from: the keys are :data:`PROVENANCE_KEYS` and any others, the values
        such as JSON has them. Arrays become lists, numbers that are not finite become texts.
    folder : Path, optional
        Where the files of the encoders lie; ``results/measured`` of the zoo home. Only what is below a folder of
        results is found again.

    Returns
    -------
    Recorded
        When it is returned, the rows are on the disk.

    Raises
    ------
    ResultsError
        If a value is not what its column takes, or a row is there with another value or interval; if the provenance
        lacks a key or holds what JSON cannot; if a file is damaged or cannot be written. What had been recorded stays.
    """
    cards = catalogue()
    folder = user_folder() / "results" / "measured" if folder is None else folder
    by_file: dict[Path, dict[Key, _Entry]] = {}
    for key, entry in _entries(measured, cards).items():
        by_file.setdefault(folder / f"{file_stem(entry.row[ENCODER])}.csv", {})[key] = entry
    try:
        with turn(user_folder() / "results" / ".lock"):
            fresh = {path: _unknown(path, entries, cards) for path, entries in by_file.items()}
            n_new = sum(map(len, fresh.values()))
            for path, entries in fresh.items():
                _append(path, entries)
        _until_kept({path: entries for path, entries in fresh.items() if entries})
    except OSError as error:
        raise ResultsError(
            f"The results in {folder} cannot be written ({error.strerror}); what was recorded before is unharmed, make "
            "room or make the folder writable, and record again."
        ) from error
    return Recorded(paths=tuple(by_file), n_new=n_new, n_known=len(measured) - n_new)


def _entries(measured: Mapping[Measurement, Mapping[str, Any]], cards: Catalogue) -> dict[Key, _Entry]:
    """What is to be written, checked, by what tells the rows apart."""
    rows = [row_of(measurement) for measurement in measured]
    checked = checked_rows(lambda number: f"Measurement {number} of {len(rows)}", enumerate(rows, start=1), cards, {})
    entries = {}
    for row, (measurement, provenance) in zip(checked, measured.items(), strict=True):
        try:
            line = _csv_line(row).encode()
        except UnicodeEncodeError as error:
            raise ResultsError(f"{row!r} holds {error.object[error.start]!r}, which is no character.") from error
        entries[key_of(row)] = _Entry(row, line, provenance_line(row, measurement, provenance))
    return entries


def _csv_line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _unknown(path: Path, entries: dict[Key, _Entry], cards: Catalogue) -> dict[Key, _Entry]:
    """Those that no results file has yet; refuses one that is there with another number."""
    there = {key_of(row): (place, row) for place, row in _rows_like(path, entries, cards)}
    fresh = {}
    for key, entry in entries.items():
        if key not in there:
            fresh[key] = entry
        else:
            _require_same(*there[key], entry.row)
    return fresh


def _rows_like(path: Path, entries: dict[Key, _Entry], cards: Catalogue) -> list[tuple[str, Row]]:
    """Place and fields of every row, in any file that may hold one of these."""
    encoders = {entry.row[ENCODER].lower().encode() for entry in entries.values()}
    sources = {entry.row[SOURCE].replace('"', '""').encode() for entry in entries.values()}  # as CSV quotes it
    files = read_files(".csv")
    if not any(_is_same(path, other) for other in files):
        files[path] = _content(path)
    seen: dict[Key, str] = {}
    rows, left_out = [], list[str]()
    for other, content in files.items():
        folded = content.lower()
        if any(encoder in folded for encoder in encoders) and any(source in content for source in sources):
            rows += believable_rows_of(other, content, cards, seen, left_out)
    warn(left_out)
    return [(seen[key_of(row)], row) for row in rows]


def _is_same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _require_same(place: str, old: Row, new: Row) -> None:
    for column in (VALUE, CI_LOW, CI_HIGH):
        if not _agree(old[column], new[column]):
            seed = f", seed {new[SEED]}" if new[SEED] else ""
            raise ResultsError(
                f"{place}: {old[METRIC]!r} of {old[ENCODER]!r} on {old[DATASET]!r}, {old[SPLIT]!r}{seed}, by "
                f"{old[PROTOCOL]!r} has the {COLUMNS[column]} {old[column] or 'nothing'}, and is now to have "
                f"{new[column] or 'nothing'}, but a recorded number never changes; give the new one another protocol "
                "or source, or take the old row out if it is wrong."
            )


def _agree(one: str, other: str) -> bool:
    if not one or not other:
        return one == other
    return math.isclose(float(one), float(other), rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _append(path: Path, entries: dict[Key, _Entry]) -> None:
    """Adds the lines that are not there; nothing, if somebody else wrote in between."""
    if not entries:
        return
    _remove_stale(path.parent)
    before, beside = _content(path), _content(sidecar_of(path))
    if before:
        require_table(path, before)
    content = before or _csv_line(COLUMNS).encode()
    content += b"".join(entry.line for entry in entries.values() if not _has(content, entry.line))
    require_table(path, content)  # once more, as it will be read
    lines = beside if beside.endswith(b"\n") or not beside else beside + b"\n"
    lines += b"".join(entry.provenance for entry in entries.values() if not _has(lines, entry.provenance))
    try:
        _replace(sidecar_of(path), lines, beside)
        _replace(path, content, before)
    except _ChangedError:
        return


def _has(content: bytes, line: bytes) -> bool:
    return content.startswith(line) or b"\n" + line in content


def _replace(path: Path, content: bytes, before: bytes) -> None:
    if content == before:
        return
    with replaced(Path(os.path.realpath(path))) as file:  # behind a link is the file that others share
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # now, so that next to nothing lies between this look and the new name
        if _content(path) != before:
            raise _ChangedError


class _ChangedError(Exception):
    """Another process has written the file since it was read."""


def _until_kept(fresh: dict[Path, dict[Key, _Entry]]) -> None:
    """Looks whether the lines are there once everybody who was just writing has done so, and adds them again if not."""
    for _ in range(_ATTEMPTS):
        if not fresh:
            return
        time.sleep(random.uniform(_PAUSE_S, 2 * _PAUSE_S))
        fresh = {path: entries for path, entries in fresh.items() if not _are_kept(path, entries)}
        if fresh:
            with turn(user_folder() / "results" / ".lock"):
                for path, entries in fresh.items():
                    _append(path, entries)
    raise ResultsError(
        f"{', '.join(map(str, fresh))}: the rows are not kept, so many others write there; record them again."
    )


def _are_kept(path: Path, entries: dict[Key, _Entry]) -> bool:
    content, beside = _content(path), _content(sidecar_of(path))
    return all(_has(content, entry.line) and _has(beside, entry.provenance) for entry in entries.values())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _remove_stale(folder: Path) -> None:
    """Removes what writers who were killed have left."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
        except FileNotFoundError:  # its writer lives, and has just given it its name
            continue
