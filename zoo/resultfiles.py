"""Reads the files of ``results/``: rows of measurements, and the errata that say which to distrust.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

from .cards import Catalogue, catalogue
from .content import content_folder
from .errors import ResultsError, nearest_names
from .resultchecks import Key, Row, checked_rows
from .results import ResultErratum, read_files
from .vocabulary import COLUMNS, ENCODER, ERRATUM_KINDS, METRIC, METRICS

CHECKSUMS = "CHECKSUMS"  # in the shipped folder; `make docs` writes it


def read_rows(metrics: Iterable[str] | None = None) -> list[Row]:
    """Rows of all results files, the shipped ones first, then the user's, each in the order of its lines.

    Parameters
    ----------
    metrics : iterable of str, optional
        Only these. A shipped file that mentions none of them is not parsed; the user's are checked in any case.

    Raises
    ------
    ResultsError
        At the first file or row that is wrong.
    """
    wanted = None if metrics is None else frozenset(metrics)
    cards, shipped = catalogue(), content_folder("results")
    seen: dict[Key, str] = {}
    rows: list[Row] = []
    for path, content in read_files(".csv").items():
        may_be_skipped = wanted is not None and content and path.is_relative_to(shipped)
        if may_be_skipped and not any(metric.encode() in content for metric in wanted or ()):
            continue
        checked = rows_of(path, content, cards, seen)
        rows += checked if wanted is None else [row for row in checked if row[METRIC] in wanted]
    return rows


def rows_of(path: Path, content: bytes, cards: Catalogue, seen: dict[Key, str]) -> list[Row]:
    """The rows of one file.

    Parameters
    ----------
    path : Path
        For messages.
    content : bytes
        Of the file.
    cards : Catalogue
        Encoders that may be named.
    seen : dict
        :func:`~zoo.resultchecks.key_of` the rows of the files before this -> their places; is added to.

    Raises
    ------
    ResultsError
        At the first row that is wrong.
    """
    return checked_rows(lambda line: f"{path}, line {line}", _lines(path, content), cards, seen)


def without_wrong(rows: Iterable[Row], known: Iterable[ResultErratum]) -> list[Row]:
    """Rows that no erratum excludes."""
    wrong = [erratum for erratum in known if erratum.exclude]
    return [row for row in rows if not any(erratum.covers(row[ENCODER], row[METRIC]) for erratum in wrong)]


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
    for path, content in read_files("errata.toml").items():
        try:
            document = tomllib.loads(content.decode("utf-8-sig"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ResultsError(f"{path} is not readable as TOML ({error}); correct or restore it.") from error
        entries = document.get("erratum", [])
        if set(document) - {"erratum"} or not isinstance(entries, list):
            raise ResultsError(f"{path}: found the keys {sorted(document)}, expected only [[erratum]] entries.")
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
    encoder, metric, kind = entry["encoder"], entry["metric"], entry["kind"]
    if encoder != "*":
        _check_name(where, "encoder", encoder, cards, "the id of a card, or '*' for all")
        encoder = cards.id_of(encoder)
    if metric != "*":
        _check_name(where, "metric", metric, METRICS, "a metric of results/README.md, or '*' for all")
    _check_name(where, "kind", kind, ERRATUM_KINDS, f"one of {', '.join(map(repr, ERRATUM_KINDS))}")
    return ResultErratum(**{**entry, "encoder": encoder})


def _check_name(where: str, key: str, name: str, known: Collection[str], expected: str) -> None:
    if name not in known:
        nearest = ", ".join(map(repr, nearest_names(name, known)))
        near = f"; near are: {nearest}" if nearest else ""
        raise ResultsError(f"{where}, key {key!r}: found {name!r}, expected {expected}{near}.")


def _lines(path: Path, content: bytes) -> Iterator[tuple[int, Row]]:
    """Line number and fields of every row, the header and blank lines apart."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8.") from error
    before, nul, _ = text.partition("\0")
    if nul:
        raise ResultsError(
            f"{path}, line {before.count(chr(10)) + 1}: found a NUL character, as UTF-16 and binary files hold, "
            "expected text; save it again as UTF-8."
        )
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


def checksums_text() -> str:
    """What ``results/CHECKSUMS`` should hold: SHA-256 and path of every shipped results file, as sha256sum has it."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in _checksums().items())


def damaged_files() -> list[str]:
    """Shipped results files that are missing or differ from what was shipped, as paths below ``results/``.

    A file that was cut between two rows reads well; only its checksum tells. ``CHECKSUMS`` itself is named if it is
    unreadable or leaves out a file.
    """
    try:
        lines = (content_folder("results") / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return [CHECKSUMS]
    shipped = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    found = _checksums()
    damaged = [name for name, checksum in shipped.items() if found.get(name) != checksum]
    return damaged if found.keys() <= shipped.keys() else [*damaged, CHECKSUMS]


def _checksums() -> dict[str, str]:
    folder = content_folder("results")
    patterns = ("*.csv", "*.tsv", "*.provenance.jsonl", "errata.toml")
    paths = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    return {path.relative_to(folder).as_posix(): _checksum(path) for path in paths if path.name[0] != "."}


def _checksum(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable ({error.strerror})"  # which no checksum equals
