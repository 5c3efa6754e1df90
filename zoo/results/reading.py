"""Reads and checks results files: tables of rows, errata, reported numbers, checksums.

Every refusal is one sentence: file, line, column, what it holds, what was expected, what to do. A wrong row or file of
the user's is left out with such a sentence; a wrong shipped one raises it. Others keep copies of
what was checked.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from ..cards.catalogue import Catalogue
from ..cards.content_cache import CachedContent
from ..errors import ResultsError, find_nearest_names, warn
from ..files import get_content_folder, is_of_user, list_content_files, read_contents
from .reported_values import COLUMNS as REPORTED_COLUMNS
from .reported_values import EVIDENCE, EVIDENCE_COLUMNS, FULL, PROTOCOLS, STANDINGS, ZERO_SHOT, ReportedNumber
from .reported_values import METRICS as REPORTED_METRICS
from .values import COLUMNS, IMAGENET, PUBLISHED_SOURCE, RISKS, Key, ResultErratum, Row, get_row_key
from .vocabulary import ERRATUM_KINDS, METRICS, find_split

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # float() takes '2_8.8' and ' 28.8 ' too
_WHOLE_NUMBER = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)  # one spelling each, lest '0' and '00' be two seeds
_PRINTED = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_RESOLUTION = re.compile(r"|native|[1-9]\d{1,4}(/[1-9]\d{1,4})*", re.ASCII)
_NEEDED = ("dataset", "source", "place", "measured_by")  # of a reported number
_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?", re.ASCII)
_INTERVAL_SLACK = 1e-9  # relative; a value and the ends of its interval come from different sums


def raise_error(error: ResultsError) -> NoReturn:
    """For what must be right."""
    raise error


def check_rows_read(
    where: Callable[[int], str],
    lines: Iterable[tuple[int, Row]],
    cards: Catalogue,
    seen: dict[Key, str],
    wrong: Callable[[ResultsError], None] = raise_error,
) -> list[Row]:
    """The right ones of numbered rows, with the encoder's id as its card spells it.

    ``where`` names the place of a line for messages ("FILE, line NUMBER"). ``seen`` maps :func:`get_row_key` each
    earlier row to its place, and is added to. ``wrong`` gets the error of each wrong row, and raises it unless given.
    """
    checks = _Checks(cards, seen)
    rows = []
    for line, row in lines:
        try:
            rows.append(checks.checked(where(line), row))
        except ResultsError as error:
            wrong(error)
    return rows


class _Checks:
    """Checks rows; what was right in an earlier row of any file is not checked again, for most rows repeat it."""

    _subjects: ClassVar[set[tuple[str | bool, ...]]] = set()
    _circumstances: ClassVar[set[Key]] = set()

    def __init__(self, cards: Catalogue, seen: dict[Key, str]) -> None:
        self._cards = cards
        self._seen = seen
        self._ids: dict[str, str] = {}  # spelling -> id
        self._unknown: dict[str, str] = {}  # spelling -> what is wrong with it

    def checked(self, place: str, row: Row) -> Row:
        if row.encoder in self._unknown:  # without another search for ids like it
            raise ResultsError(place + self._unknown[row.encoder])
        if row.encoder not in self._ids:
            try:
                self._ids[row.encoder] = _id_of(place, row.encoder, self._cards)
            except ResultsError as error:
                self._unknown[row.encoder] = str(error).removeprefix(place)
                raise
        if row.encoder != self._ids[row.encoder]:
            row = row._replace(encoder=self._ids[row.encoder])
        subject = (row.metric, row.dataset, row.split, row.n_train, row.unit, row.source == PUBLISHED_SOURCE)
        if subject not in self._subjects:
            _check_subject(place, row)
            self._subjects.add(subject)
        circumstance = (row.seed, row.protocol, row.source, row.date)
        if circumstance not in self._circumstances:
            _check_circumstance(place, row)
            self._circumstances.add(circumstance)
        _check_value(place, row)
        key = get_row_key(row)
        if key in self._seen:
            found = f"{row.encoder!r}, {row.metric!r}, {row.split!r} again (first in {self._seen[key]})"
            expected = "one row a measurement; delete one of them, or tell them apart by seed, protocol or source"
            _refuse(place, "encoder", found, expected)
        self._seen[key] = place
        return row


def _id_of(place: str, spelling: str, cards: Catalogue) -> str:
    if spelling in cards:
        return cards.id_of(spelling)
    _refuse_name(place, "encoder", spelling, cards, "the id of a card; correct it, or add a card to metadata/")


def _check_subject(place: str, row: Row) -> None:
    metric = METRICS.get(row.metric)
    if metric is None:
        _refuse_name(place, "metric", row.metric, METRICS, "a metric of results/README.md")
    if not metric.takes(row.split):
        others = ", 'train 10-shot -> val', 'train 0.5% -> val' or the like" if metric.any_labels else ""
        others += ", 'train 300 images -> val' or the like" if metric.any_images else ""
        _refuse_name(place, "split", row.split, metric.splits, f"a split of {metric.name!r}{others}")
    if row.unit != metric.unit:
        _refuse(place, "unit", repr(row.unit), f"{metric.unit!r} for {metric.name!r}; convert the value")
    if not row.dataset.strip():
        _refuse(place, "dataset", "nothing", "the name of a data set, such as 'imagenet-1k'")
    if row.n_train and not _WHOLE_NUMBER.fullmatch(row.n_train):
        _refuse(place, "n_train", repr(row.n_train), "a whole number of training images, or nothing")
    split = find_split(row.split)
    if row.dataset == IMAGENET and row.n_train:
        n_rounded = 0 if row.source == PUBLISHED_SOURCE else split.n_rounded
        if split.n_train is None or abs(int(row.n_train) - split.n_train) > n_rounded:
            wanted = "nothing" if split.n_train is None else str(split.n_train)
            about = f", give or take {n_rounded}," if n_rounded else ""
            expected = f"{wanted}{about} for {split.name!r} of {IMAGENET}; correct n_train or split"
            _refuse(place, "n_train", row.n_train, expected)
    if split.shots and row.n_train and int(row.n_train) % split.shots:
        expected = f"a multiple of {split.shots} for {split.name!r}; correct n_train or split"
        _refuse(place, "n_train", row.n_train, expected)


def _check_circumstance(place: str, row: Row) -> None:
    if row.seed and not _WHOLE_NUMBER.fullmatch(row.seed):
        _refuse(place, "seed", repr(row.seed), "a whole number, or nothing if it is unknown")
    for column, text in (("protocol", row.protocol), ("source", row.source)):
        if not text.strip():
            _refuse(place, column, "nothing", "a text that says how, or who, measured")
    if not is_date(row.date):
        _refuse(place, "date", repr(row.date), "a date like '2023-02-06' or '2023-02'")


def is_date(text: str) -> bool:
    """True for a day or month there is: ``2023-02-06``, ``2023-02``."""
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = match.groups(default="1")
    try:
        date(int(year), int(month), int(day))
    except ValueError:  # no such day
        return False
    return True


def _check_value(place: str, row: Row) -> None:
    value = _number(place, "value", row.value)
    if row.unit == "percent" and not 0 <= value <= 100:
        _refuse(place, "value", row.value, "an error between 0 and 100 percent")
    if row.unit == "percentage points" and abs(value) > 100:
        _refuse(place, "value", row.value, "a difference of two errors, between -100 and 100 percentage points")
    if value < 0 and row.metric.endswith("_error"):
        _refuse(place, "value", row.value, "an error, which is never below 0")
    if row.unit == "degrees" and value > 180:
        _refuse(place, "value", row.value, "an angle of at most 180 degrees")
    if row.ci_low or row.ci_high:
        low, high = _number(place, "ci_low", row.ci_low), _number(place, "ci_high", row.ci_high)
        slack = _INTERVAL_SLACK * max(1, abs(value))
        if not (low <= high and low - slack <= value <= high + slack):
            _refuse(place, "ci_low", f"{low} to {high} around {value}", "an interval that holds the value")


def _number(place: str, column: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        _refuse(place, column, repr(text), "a finite number; correct it, or delete the row if it was not measured")
    return number


def _refuse(place: str, column: str, found: str, expected: str, *, word: str = "column") -> NoReturn:
    raise ResultsError(f"{place}, {word} {column!r}: found {found}, expected {expected}.")


def _refuse_name(
    place: str, column: str, name: str, known: Iterable[str], expected: str, *, word: str = "column"
) -> NoReturn:
    near = ", ".join(map(repr, find_nearest_names(name, known)))
    _refuse(place, column, repr(name), f"{expected}; near are: {near}" if near else expected, word=word)


def read_files(suffix: str) -> dict[Path, bytes]:
    """Content of the results files whose names end in ``suffix``, the shipped ones first, then the user's.

    Unreadable files of the user's are left out with a :class:`~zoo.errors.ContentWarning`.
    """
    left_out: list[str] = []
    contents = read_own_contents(list_content_files("results", suffix), left_out)
    warn(left_out)
    return contents


def read_own_contents(paths: Iterable[Path], left_out: list[str]) -> dict[Path, bytes]:
    """Content by file; a sentence for each of the user's that cannot be read is added to ``left_out``."""
    return read_contents(paths, "results", ResultsError, left_out)


def parse_rows(path: Path, content: bytes, cards: Catalogue, seen: dict[Key, str], left_out: list[str]) -> list[Row]:
    """The rows of one file; of a user's file without the wrong ones, for which a sentence is added to ``left_out``.

    ``seen`` maps :func:`get_row_key` each row of earlier files to its place, and is added to.
    """
    wrong: list[ResultsError] = []
    refuse = wrong.append if is_of_user(path, "results") else raise_error
    rows = check_rows_read(
        lambda line: f"{path}, line {line}", iterate_table_lines(path, content, refuse), cards, seen, refuse
    )
    if wrong:
        others = f" and {len(wrong) - 1:,} more of its lines are" if len(wrong) > 1 else " is"
        left_out.append(f"{str(wrong[0]).removesuffix('.')}; this{others} left out.")
    return rows


def require_table(path: Path, content: bytes) -> None:
    """Refuses a file that is no table of results, to which no row could be added; its rows may be wrong."""
    for _ in iterate_table_lines(path, content, raise_error):
        pass


def iterate_table_lines(
    path: Path | str, content: bytes, wrong: Callable[[ResultsError], None]
) -> Iterator[tuple[int, Row]]:
    """Line number and fields of every row below the header; blank lines are skipped.

    ``wrong`` gets each error, and may raise it. A file that is no table has no rows, one that cannot be read from a
    line on has those before it.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong(ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8."))
        return

    def refuse(line: int, sentence: str) -> None:
        wrong(ResultsError(f"{path}, line {line}: {sentence}"))

    before, nul, _ = text.partition("\0")
    if nul:
        n_line = before.count("\n") + 1
        refuse(n_line, "found a NUL character, as UTF-16 and binary files hold, expected text; save it again as UTF-8.")
        return
    if not text.endswith("\n"):
        text, _, last = text.rpartition("\n")
        text += "\n" * bool(text)
        sentence = f"the file breaks off after {last[-40:]!r}, expected a line end; restore it from its source, or end"
        refuse(text.count("\n") + 1, f"{sentence} the last line if it is whole.")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        if tuple(header) != COLUMNS:
            refuse(1, f"found the columns {header}, expected exactly {','.join(COLUMNS)}.")
            return
        for row in reader:
            if len(row) == len(COLUMNS):
                yield reader.line_num, Row._make(row)
            elif row:
                n_fields = f"found {len(row)} fields, expected {len(COLUMNS)}"
                refuse(reader.line_num, f"{n_fields}; the line is cut off, or a comma is missing or needs quotes.")
    except csv.Error as error:
        refuse(reader.line_num, f"not readable as CSV ({error}); correct the line.")


def iterate_tab_separated(
    path: Path, content: bytes, columns: Sequence[str], wrong: Callable[[ResultsError], None]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and fields of every line below the header of a table with tabs; ``wrong`` gets each error."""
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        wrong(ResultsError(f"{path} is not UTF-8 text ({error}); save it again as UTF-8."))
        return
    if lines[0].rstrip("\r").split("\t") != [*columns]:
        found = " ".join(lines[0].split()) or "nothing"
        expected = f"expected exactly these columns between tabs: {' '.join(columns)}"
        wrong(ResultsError(f"{path}, line 1: found {found}, {expected}."))
        return
    if lines[-1]:
        wrong(ResultsError(f"{path}, line {len(lines)}: the file breaks off, expected a line end; restore it."))
    for number, line in enumerate(lines[1:-1], start=2):
        fields, place = line.rstrip("\r").split("\t"), f"{path}, line {number}"
        if len(fields) == len(columns):
            yield place, dict(zip(columns, fields, strict=True))
        else:
            n_fields = f"found {len(fields)} fields, expected {len(columns)} between tabs"
            wrong(ResultsError(f"{place}: {n_fields}; restore it."))


def parse_errata(path: Path, content: bytes, cards: Catalogue, left_out: list[str]) -> list[ResultErratum]:
    """The errata of one file; a sentence for each wrong one of a user's file is added to ``left_out``."""
    known = []

    def refuse(error: ResultsError) -> None:
        if not is_of_user(path, "results"):
            raise error
        left_out.append(f"{str(error).removesuffix('.')}; it is left out.")

    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        refuse(ResultsError(f"{path} is not readable as TOML ({error}); correct or restore it."))
        return []
    entries = document.get("erratum", [])
    if set(document) - {"erratum"} or not isinstance(entries, list):
        refuse(ResultsError(f"{path}: found the keys {sorted(document)}, expected only [[erratum]] entries."))
        return []
    for number, entry in enumerate(entries, start=1):
        try:
            known.append(_erratum(f"{path}, erratum {number}", entry, cards))
        except ResultsError as error:
            refuse(error)
    return known


def _erratum(where: str, entry: object, cards: Catalogue) -> ResultErratum:
    names = [field.name for field in fields(ResultErratum)]
    if not isinstance(entry, dict) or sorted(entry) != sorted(names):
        keys = sorted(entry) if isinstance(entry, dict) else entry
        raise ResultsError(f"{where}: found the keys {keys}, expected {', '.join(names)}.")
    for name in names[:-1]:
        if not isinstance(entry[name], str) or not entry[name].strip():
            _refuse(where, name, repr(entry[name]), "a text", word="key")
    if not isinstance(entry["exclude"], bool):
        _refuse(where, "exclude", repr(entry["exclude"]), "true or false", word="key")
    encoder = entry["encoder"]
    if encoder != "*":
        if encoder not in cards:
            _refuse_name(where, "encoder", encoder, cards, "the id of a card, or '*' for all", word="key")
        encoder = cards.id_of(encoder)
    if entry["metric"] not in ("*", *METRICS):
        expected = "a metric of results/README.md, or '*' for all"
        _refuse_name(where, "metric", entry["metric"], METRICS, expected, word="key")
    if entry["kind"] not in ERRATUM_KINDS:
        expected = f"one of {', '.join(map(repr, ERRATUM_KINDS))}"
        _refuse_name(where, "kind", entry["kind"], ERRATUM_KINDS, expected, word="key")
    return ResultErratum(**{**entry, "encoder": encoder})


def compile_tables(sources: Mapping[Path, bytes], cards: Catalogue) -> dict[str, Any]:
    """What a copy of the shipped files holds: rows by encoder with their places in the order of all, and errata."""
    seen: dict[Key, str] = {}
    rows: list[Row] = []
    known: list[ResultErratum] = []
    for path, content in sources.items():
        if path.name.endswith("errata.toml"):
            known += parse_errata(path, content, cards, [])
        elif path.suffix == ".csv":
            rows += parse_rows(path, content, cards, seen, [])
    made: dict[str, Any] = {"errata": [asdict(one) for one in known]}
    for place, row in enumerate(rows):
        part = f"{'risks' if row.metric in RISKS else 'others'} {row.encoder}"
        made.setdefault(part, []).append([place, *row[1:]])
    encoders = list(dict.fromkeys(row.encoder for row in rows))
    return made | {"encoders": encoders, "unlisted": cards.find_unlisted(encoders)}


def collect_keys(parts: CachedContent, encoders: Iterable[str]) -> dict[Key, str]:
    """The keys of shipped rows of these encoders, with their place for a sentence."""
    stored = ((encoder, parts.get(f"{kind} {encoder}", ())) for encoder in encoders for kind in ("risks", "others"))
    return {
        get_row_key(Row(encoder, *fields)): "the zoo's own results" for encoder, rows in stored for _, *fields in rows
    }


def iterate_reported_numbers(
    contents: Mapping[Path, bytes],
    cards: Catalogue,
    seen: dict[tuple[str, ...], str],
    wrong: Callable[[ResultsError], None],
) -> Iterator[ReportedNumber]:
    """The right rows of some files; ``wrong`` gets the error of every other one.

    ``seen`` maps the key of every earlier number to its place, and is added to.
    """
    for path, content in contents.items():
        shared = _origin(path)
        for place, texts in iterate_tab_separated(
            path, content, EVIDENCE_COLUMNS if shared else REPORTED_COLUMNS, wrong
        ):
            try:
                number = _reported_number(place, {**texts, **shared}, cards)
                if number.key in seen:
                    raise ResultsError(
                        f"{place}: found {number.printed} for what {seen[number.key]} has already, expected one value "
                        "per encoder, task, setting and features, as no origin contradicts itself; delete one, or tell "
                        "them apart by setting, resolution, features, source or place."
                    )
            except ResultsError as error:
                wrong(error)
                continue
            seen[number.key] = place
            yield number


def _origin(path: Path) -> dict[str, str]:
    """What all rows of a file of ``results/evidence`` share; nothing for other files."""
    if path.parent.name != EVIDENCE:
        return {}
    origins = tomllib.loads((path.parent / "origins.toml").read_text(encoding="utf-8"))
    return {name: origins[path.stem][name] for name in ("source", "date", "place", "measured_by")}


def _reported_number(place: str, fields: dict[str, str], cards: Catalogue) -> ReportedNumber:
    """The number of a line; ResultsError says which field is wrong."""

    def refuse(column: str, expected: str) -> ResultsError:
        found = repr(fields[column]) if fields[column] else "nothing"
        return ResultsError(f"{place}, column {column!r}: found {found}, expected {expected}.")

    def known(column: str, words: Collection[str], what: str) -> None:
        if fields[column] not in words:
            near = ", ".join(map(repr, find_nearest_names(fields[column], words)))
            raise refuse(column, f"{what}{f'; near are: {near}' if near else ''}")

    if fields["encoder"] not in cards:
        known("encoder", cards, "the id of a card")
    known("metric", REPORTED_METRICS, "a metric of reported numbers, see results/README.md")
    known("protocol", PROTOCOLS, "a protocol of reported numbers, see results/README.md")
    known("standing", STANDINGS, f"one of {', '.join(STANDINGS)}")
    metric = REPORTED_METRICS[fields["metric"]]
    known("unit", metric.units, " or ".join(metric.units))
    for column in _NEEDED:
        if not fields[column].strip():
            raise refuse(column, "a text")
    if not _fits(fields["split"], fields["dataset"], fields["protocol"]):
        raise refuse("split", _EXPECTED_SPLIT)
    if not is_date(fields["date"]):
        raise refuse("date", "a date like '2026-11-22' or '2026-11', when the source was read")
    if not _RESOLUTION.fullmatch(fields["resolution"]):
        raise refuse("resolution", "pixels such as '224', several such as '224/336', 'native', or nothing")
    if "repeats" in fields and fields["protocol"] == "reported-zero-shot" and not cards[fields["encoder"]].saw_texts:
        raise refuse("protocol", f"a protocol of features, for the card of {fields['encoder']} knows of no texts")
    value = float(fields["value"]) if _PRINTED.fullmatch(fields["value"]) else math.nan
    most = {"percent": 100.0, "fraction": 1.0, "dimensionless": 1.0}.get(fields["unit"], math.inf)
    least = -1.0 if fields["unit"] == "dimensionless" else 0.0
    if not least <= value <= most:
        raise refuse("value", f"a number as it is printed, from {least:g}{'' if most == math.inf else f' to {most:g}'}")
    more: dict[str, Any] = {name: float(fields[name]) if fields[name] else None for name in _SPREADS if name in fields}
    if fields.get("repeats"):
        more["repeats"] = int(fields["repeats"])
    more |= {name: text for name, text in fields.items() if name not in ("encoder", "value", "repeats", *_SPREADS)}
    return ReportedNumber(encoder=cards.id_of(fields["encoder"]), value=value, printed=fields["value"], **more)


_SPREADS = ("sd", "low", "high")
_EXPECTED_SPLIT = (
    f"nothing, but of {IMAGENET} {FULL!r}, {ZERO_SHOT!r} by reported-zero-shot, or as in 'train 1% -> val' by "
    "reported-few-labels or reported-few-shot"
)


def _fits(split: str, dataset: str, protocol: str) -> bool:
    """Only the splits of ImageNet-1K are known; those of other data sets are the source's own."""
    if dataset != IMAGENET:
        return not split
    if protocol in ("reported-few-labels", "reported-few-shot"):
        return split not in (FULL, "") and METRICS["linear_probe_error"].takes(split)
    return split == (ZERO_SHOT if protocol == "reported-zero-shot" else FULL)


CHECKSUMS = "CHECKSUMS"  # in the shipped folder; `make docs` writes it


def format_checksums() -> str:
    """What ``results/CHECKSUMS`` should hold: SHA-256 and path of every shipped results file, as sha256sum has it."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in _checksums().items())


def find_damaged_files() -> list[str]:
    """Shipped results files that are missing or differ from what was shipped, as paths below ``results/``.

    A file that was cut between two rows reads well; only its checksum shows it. ``CHECKSUMS`` itself is named if it is
    unreadable or leaves out a file.
    """
    try:
        lines = (get_content_folder("results") / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return [CHECKSUMS]
    shipped = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    present = _checksums()
    damaged = [name for name, checksum in shipped.items() if present.get(name) != checksum]
    return damaged if present.keys() <= shipped.keys() else [*damaged, CHECKSUMS]


def _checksums() -> dict[str, str]:
    folder = get_content_folder("results")
    patterns = ("*.csv", "*.tsv", "*.provenance.jsonl", "errata.toml")
    paths = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    return {path.relative_to(folder).as_posix(): _checksum(path) for path in paths if path.name[0] != "."}


def _checksum(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable ({error.strerror})"  # which no checksum equals
