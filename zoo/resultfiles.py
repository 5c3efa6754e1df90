"""Reads the files of ``results/``: rows of measurements, and the errata that say which to distrust.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from .cards import Catalogue, catalogue
from .errors import ResultsError, nearest_names, warn
from .files import content_folder
from .resultchecks import Key, Row, checked_rows
from .results import ResultErratum, is_own, read_files
from .vocabulary import COLUMNS, ENCODER, ERRATUM_KINDS, METRIC, METRICS

CHECKSUMS = "CHECKSUMS"  # in the shipped folder; `make docs` writes it


def read_rows(metrics: Iterable[str] | None = None, *, left_out: list[str] | None = None) -> list[Row]:
    """Rows of all results files, the shipped ones first, then the user's, each in the order of its lines.

    Rows of the user's that are wrong are left out.

    Parameters
    ----------
    metrics : iterable of str, optional
        Only these. A shipped file that mentions none of them is not parsed; the user's are checked in any case.

    left_out : list of str, optional
        Is added a sentence for each file of the user's in which something is wrong; without it, that is warned of.

    Raises
    ------
    ResultsError
        At the first shipped file or row that is wrong.
    """
    wanted = None if metrics is None else frozenset(metrics)
    cards, sentences = catalogue(), [] if left_out is None else left_out
    seen: dict[Key, str] = {}
    rows: list[Row] = []
    for path, content in read_files(".csv").items():
        may_be_skipped = wanted is not None and content and not is_own(path)
        if may_be_skipped and not any(metric.encode() in content for metric in wanted or ()):
            continue
        checked = believable_rows_of(path, content, cards, seen, sentences)
        rows += checked if wanted is None else [row for row in checked if row[METRIC] in wanted]
    if left_out is None:
        warn(sentences)
    return rows


def believable_rows_of(
    path: Path, content: bytes, cards: Catalogue, seen: dict[Key, str], left_out: list[str]
) -> list[Row]:
    """The rows of one file, without those that are wrong if it is the user's.

    Parameters
    ----------
    path, content, cards, seen
        As of :func:`rows_of`.
    left_out : list of str
        Is added a sentence if any were wrong.

    Raises
    ------
    ResultsError
        At the first row of a shipped file that is wrong.
    """
    if not is_own(path):
        return rows_of(path, content, cards, seen)
    wrong: list[ResultsError] = []
    rows = checked_rows(
        lambda line: f"{path}, line {line}", _lines(path, content, wrong.append), cards, seen, wrong.append
    )
    if wrong:
        others = f" and {len(wrong) - 1:,} more of its lines are" if len(wrong) > 1 else " is"
        left_out.append(f"{str(wrong[0]).removesuffix('.')}; this{others} left out.")
    return rows


def rows_of(path: Path, content: bytes, cards: Catalogue, seen: dict[Key, str]) -> list[Row]:
    """The rows of one file, all of which must be right.

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
    return checked_rows(lambda line: f"{path}, line {line}", _lines(path, content, _raise), cards, seen)


def require_table(path: Path, content: bytes) -> None:
    """Refuses a file that is no table of results, to which no row could be added; its rows may be wrong.

    Raises
    ------
    ResultsError
        Says where it is none.
    """
    for _ in _lines(path, content, _raise):
        pass


def without_wrong(rows: Iterable[Row], known: Iterable[ResultErratum]) -> list[Row]:
    """Rows that no erratum excludes."""
    wrong = [erratum for erratum in known if erratum.exclude]
    return [row for row in rows if not any(erratum.covers(row[ENCODER], row[METRIC]) for erratum in wrong)]


def errata(*, left_out: list[str] | None = None) -> tuple[ResultErratum, ...]:
    """Every erratum of ``results/errata.toml``, then those of the user's own ``results/errata.toml``.

    Parameters
    ----------
    left_out : list of str, optional
        Is added a sentence for everything of the user's that is wrong; without it, that is warned of.

    Raises
    ------
    ResultsError
        If the shipped file is unreadable or an entry in it is wrong.
    """
    import tomllib  # 5 ms that only this needs

    cards, sentences = catalogue(), [] if left_out is None else left_out
    found = []

    def refuse(path: Path, error: ResultsError) -> None:
        if not is_own(path):
            raise error
        sentences.append(f"{str(error).removesuffix('.')}; it is left out.")

    for path, content in read_files("errata.toml").items():
        try:
            document = tomllib.loads(content.decode("utf-8-sig"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            refuse(path, ResultsError(f"{path} is not readable as TOML ({error}); correct or restore it."))
            continue
        entries = document.get("erratum", [])
        if set(document) - {"erratum"} or not isinstance(entries, list):
            keys = sorted(document)
            refuse(path, ResultsError(f"{path}: found the keys {keys}, expected only [[erratum]] entries."))
            continue
        for number, entry in enumerate(entries, start=1):
            try:
                found.append(_erratum(f"{path}, erratum {number}", entry, cards))
            except ResultsError as error:
                refuse(path, error)
    if left_out is None:
        warn(sentences)
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


def _lines(path: Path, content: bytes, wrong: Callable[[ResultsError], None]) -> Iterator[tuple[int, Row]]:
    """Line number and fields of every row, the header and blank lines apart.

    What is wrong is handed to ``wrong``, which may raise it. A file that is no table has no rows, one that cannot be
    read from a line on has those before it.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong(ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8."))
        return
    before, nul, _ = text.partition("\0")
    if nul:
        wrong(
            ResultsError(
                f"{path}, line {before.count(chr(10)) + 1}: found a NUL character, as UTF-16 and binary files hold, "
                "expected text; save it again as UTF-8."
            )
        )
        return
    if not text.endswith("\n"):
        text, _, last = text.rpartition("\n")
        text += "\n" * bool(text)
        wrong(
            ResultsError(
                f"{path}, line {text.count(chr(10)) + 1}: the file breaks off after {last[-40:]!r}, expected a line "
                "end; restore it from its source, or end the last line if it is whole."
            )
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        if tuple(header) != COLUMNS:
            wrong(ResultsError(f"{path}, line 1: found the columns {header}, expected exactly {','.join(COLUMNS)}."))
            return
        for row in reader:
            if len(row) == len(COLUMNS):
                yield reader.line_num, row
            elif row:
                wrong(
                    ResultsError(
                        f"{path}, line {reader.line_num}: found {len(row)} fields, expected {len(COLUMNS)}; "
                        "the line is cut off, or a comma is missing or needs quotes."
                    )
                )
    except csv.Error as error:
        wrong(ResultsError(f"{path}, line {reader.line_num}: not readable as CSV ({error}); correct the line."))


def _raise(error: ResultsError) -> NoReturn:
    raise error


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
