"""Reads the files of ``results/``: rows of measurements, and the errata that say which to distrust.

Every refusal is one sentence: file, line, column, what was found, what was expected, what to do.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from ..cards.catalogue import Catalogue, catalogue
from ..errors import QueryError, ResultsError, UnknownName, nearest_names, warn
from ..files import content_folder
from . import vocabulary as words
from .values import PUBLISHED_SOURCE, SETTINGS, ResultErratum, SeedMean, is_own, read_files
from .vocabulary import (
    CI_HIGH,
    CI_LOW,
    COLUMNS,
    DATASET,
    DATE,
    ENCODER,
    ERRATUM_KINDS,
    IMAGENET,
    METRIC,
    METRICS,
    N_TRAIN,
    PROTOCOL,
    SEED,
    SOURCE,
    SPLIT,
    VALUE,
    known_split,
)

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
        :func:`~zoo.results.rows.key_of` the rows of the files before this -> their places; is added to.

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


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a results file; ``results/README.md`` explains the columns."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: int | None  # None: no probe was trained
    seed: int | None  # None: unknown, or a mean over several
    value: float
    unit: str
    ci_low: float | None  # None: no interval was stated
    ci_high: float | None
    protocol: str
    source: str
    date: str

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """What no two measurements have in common: everything but value, unit, interval and date."""
        return (
            self.encoder, self.metric, self.dataset, self.split, self.n_train, self.seed, self.protocol, self.source,
        )  # fmt: skip


def measurements(
    *,
    metrics: str | Iterable[str] | None = None,
    encoders: str | Iterable[str] | None = None,
    exclude_wrong: bool = False,
) -> list[Measurement]:
    """Rows of all results files, the shipped ones first, then the user's.

    Parameters
    ----------
    metrics, encoders : str or iterable of str, optional
        Only this one or these; the case of an encoder's id does not matter.
    exclude_wrong : bool
        Without the rows that an erratum excludes.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    UnknownName
        If there is no such metric or encoder.
    """
    wanted = None if metrics is None else [_known_metric(name) for name in _names(metrics)]
    ids = None if encoders is None else {catalogue().id_of(name) for name in _names(encoders)}
    rows = read_rows(wanted)
    if ids is not None:
        rows = [row for row in rows if row[ENCODER] in ids]
    if exclude_wrong:
        rows = without_wrong(rows, errata())
    return [_measurement(row) for row in rows]


def means_over_seeds(rows: Iterable[Measurement]) -> list[SeedMean]:
    """The rows, those that differ in their seed only together, in the order of the first of each."""
    groups: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.encoder, row.metric, row.dataset, row.split, row.n_train, row.unit, row.protocol, row.source)
        groups.setdefault(key, []).append(row)
    return [_mean(same) for same in groups.values()]


def _mean(same: list[Measurement]) -> SeedMean:
    first, values = same[0], [row.value for row in same]
    low, high = (first.ci_low, first.ci_high) if len(same) == 1 else (min(values), max(values))
    return SeedMean(
        first.encoder, first.metric, first.dataset, first.split, first.n_train, first.unit, first.protocol,
        first.source, math.fsum(values) / len(values), len(same), low, high,
    )  # fmt: skip


def row_of(measurement: Measurement) -> Row:
    """The fields of its row, as text from which every number comes back equal.

    >>> row = row_of(Measurement("a", "b", "c", "d", 5, None, 0.1 + 0.2, "percent", None, None, "e", "f", "2026-11"))
    >>> ",".join(row)
    'a,b,c,d,5,,0.30000000000000004,percent,,,e,f,2026-11'
    """
    value, low, high = (
        "" if number is None else repr(float(number))
        for number in (measurement.value, measurement.ci_low, measurement.ci_high)
    )
    n_train, seed = ("" if number is None else str(number) for number in (measurement.n_train, measurement.seed))
    return [
        measurement.encoder, measurement.metric, measurement.dataset, measurement.split, n_train, seed, value,
        measurement.unit, low, high, measurement.protocol, measurement.source, measurement.date,
    ]  # fmt: skip


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _known_metric(name: str) -> str:
    if name not in METRICS:
        raise UnknownName("metric", name, METRICS, hint="results/README.md explains them all.")
    return name


def _measurement(row: Row) -> Measurement:
    encoder, metric, dataset, split = row[:N_TRAIN]
    unit, (protocol, source, date) = row[VALUE + 1], row[CI_HIGH + 1 :]
    n_train, seed, low, high = row[N_TRAIN], row[SEED], row[CI_LOW], row[CI_HIGH]
    return Measurement(
        encoder=encoder,
        metric=metric,
        dataset=dataset,
        split=split,
        n_train=int(n_train) if n_train else None,
        seed=int(seed) if seed else None,
        value=float(row[VALUE]),
        unit=unit,
        ci_low=float(low) if low else None,
        ci_high=float(high) if high else None,
        protocol=protocol,
        source=source,
        date=date,
    )


ASSUMED_ZERO = "assumed zero"  # protocol of a twin that was not measured
_PROBE, _TWIN = "linear_probe_error", "supervised_twin_error"
_FULL_SHOT = "train -> val"
_OWN_TRAINING_SET = "train -> train"
_HELD_OUT = "train minus subset -> subset"
_RISKS = (_PROBE, _TWIN, "probe_generalization", "encoder_generalization")

Risks = dict[tuple[str, str], tuple[float, str]]  # metric, split -> mean over seeds, protocol


def summary_facts(*, exclude_wrong: bool, source: str | None) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """What :func:`zoo.results.summaries` makes its values of: by data set, one table an encoder, as JSON has it.

    An erratum is its fields; a component that cannot be known is None. ``source`` is one of ImageNet-1K. Beside it a
    sentence for everything of the user's that is wrong and left out.
    """
    left_out: list[str] = []
    rows = read_rows(_RISKS, left_out=left_out)
    known_errata = errata(left_out=left_out)
    if source is not None:
        sources = sorted({row[SOURCE] for row in rows if row[DATASET] == IMAGENET})
        if source not in sources:
            raise QueryError(f"No ImageNet-1K risk comes from the source {source!r}, expected one of {sources}.")
        rows = [row for row in rows if row[SOURCE] == source]
    if exclude_wrong:
        rows = without_wrong(rows, known_errata)
    by_dataset: dict[str, list[Row]] = {IMAGENET: []}
    for row in rows:
        by_dataset.setdefault(row[DATASET], []).append(row)
    return {dataset: _facts_of(own, known_errata) for dataset, own in by_dataset.items()}, left_out


def _facts_of(rows: Sequence[Row], known_errata: Sequence[ResultErratum]) -> list[dict[str, Any]]:
    by_encoder: dict[str, list[Row]] = {}
    for row in rows:
        by_encoder.setdefault(row[ENCODER], []).append(row)
    found = []
    for encoder, own in by_encoder.items():
        risks = _risks_of_one_campaign(own)
        if risks:
            errors = {
                setting.name: risks[_PROBE, setting.split][0]
                for setting in SETTINGS
                if (_PROBE, setting.split) in risks
            }
            named = [
                {name: getattr(erratum, name) for name in erratum.__slots__}
                for erratum in known_errata
                if erratum.encoder == encoder
            ]
            found.append(
                {"encoder": encoder, "errors": errors, "decomposition": _decomposition_document(risks), "errata": named}
            )
    return found


def _risks_of_one_campaign(rows: Sequence[Row]) -> Risks:
    probes = [row for row in rows if row[METRIC] == _PROBE]
    if not probes:
        return {}
    best = _preferred(probes)
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row[SOURCE] != best[SOURCE]:
            continue
        if row[METRIC] == _PROBE and row[PROTOCOL] != best[PROTOCOL]:
            continue
        key = (row[METRIC], row[SPLIT], row[PROTOCOL])
        values.setdefault(key, []).append(float(row[VALUE]))
    return {(metric, split): (sum(seeds) / len(seeds), protocol) for (metric, split, protocol), seeds in values.items()}


def _preferred(rows: Sequence[Row]) -> Row:
    """The row whose source and protocol are taken: the published one, else the newest, else the last."""
    best = rows[0]
    for row in rows[1:]:
        if _precedence(row) >= _precedence(best):
            best = row
    return best


def _precedence(row: Row) -> tuple[bool, str]:
    return row[SOURCE] == PUBLISHED_SOURCE, row[DATE]


def _decomposition_document(risks: Risks) -> dict[str, Any] | None:
    """The components from the raw risks; from the published components where the raw risks were never published."""
    value = {key: pair[0] for key, pair in risks.items()}
    full_shot = value.get((_PROBE, _FULL_SHOT))
    own, held_out = value.get((_PROBE, _OWN_TRAINING_SET)), value.get((_PROBE, _HELD_OUT))
    if full_shot is None:
        return None
    if own is not None and held_out is not None:
        probe, encoder = held_out - own, full_shot - held_out
    elif ("probe_generalization", _FULL_SHOT) in value and ("encoder_generalization", _FULL_SHOT) in value:
        probe, encoder = value["probe_generalization", _FULL_SHOT], value["encoder_generalization", _FULL_SHOT]
        own = full_shot - probe - encoder
    else:
        return None
    twin, protocol = risks.get((_TWIN, _OWN_TRAINING_SET), (None, ""))
    return {
        "approximation": twin,
        "usability": None if twin is None else own - twin,
        "approximation_plus_usability": own,
        "probe_generalization": probe,
        "encoder_generalization": encoder,
        "approximation_assumed": protocol == ASSUMED_ZERO,
    }
