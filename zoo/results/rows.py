"""Rows of measurements: their files read and checked, the errata about them, and the risks derived from them.

Every refusal is one sentence: file, line, column, what it holds, what was expected, what to do. A wrong row or file of
the user's is left out with such a sentence; a wrong shipped one raises it.

The decomposition of the full-shot error is derived from the raw risks and never clipped: a component may be negative,
and together they are the full-shot error. With R_PhiF the training error of a supervised network of the same
architecture (the twin), R_AF the error of a probe on its own training images, R_AS its error on held-out training
images and R_US the full-shot error on the validation images (Dubois et al. 2023, arXiv:2302.03068)::

    approximation          = R_PhiF
    usability              = R_AF - R_PhiF
    probe_generalization   = R_AS - R_AF
    encoder_generalization = R_US - R_AS

An encoder without a supervised twin has only the sum of the first two, R_AF.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import NoReturn, TypeVar

from ..cards.catalogue import Catalogue, catalogue
from ..cards.schema import NOT_PUBLISHED
from ..errors import QueryError, ResultsError, UnknownName, nearest_names, warn
from ..files import content_folder
from .values import (
    IMAGENET,
    PUBLISHED_SOURCE,
    SETTINGS,
    ResultErratum,
    RiskDecomposition,
    SeedMean,
    Summary,
    is_of_user,
    read_files,
)
from .vocabulary import COLUMNS, ERRATUM_KINDS, METRICS, Row, known_split

Key = tuple[str, ...]

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # float() takes '2_8.8' and ' 28.8 ' too
_WHOLE_NUMBER = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)  # one spelling each, lest '0' and '00' be two seeds
_DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?", re.ASCII)
_INTERVAL_SLACK = 1e-9  # relative; a value and the ends of its interval come from different sums


def _raise(error: ResultsError) -> NoReturn:
    raise error


def key_of(row: Row) -> Key:
    """What no two rows may have in common: everything but value, unit, interval and date."""
    return (row.encoder, row.metric, row.dataset, row.split, row.n_train, row.seed, row.protocol, row.source)


def checked_rows(
    where: Callable[[int], str],
    lines: Iterable[tuple[int, Row]],
    cards: Catalogue,
    seen: dict[Key, str],
    wrong: Callable[[ResultsError], None] = _raise,
) -> list[Row]:
    """The right ones of numbered rows, with the encoder's id as its card spells it.

    ``where`` names the place of a line for messages ("FILE, line NUMBER"). ``seen`` maps :func:`key_of` each earlier
    row to its place, and is added to. ``wrong`` gets the error of each wrong row, and raises it unless given.
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
    """Checks rows; what was right in an earlier row is not checked again, for most rows repeat it."""

    def __init__(self, cards: Catalogue, seen: dict[Key, str]) -> None:
        self._cards = cards
        self._seen = seen
        self._ids: dict[str, str] = {}  # spelling -> id
        self._subjects: set[tuple[str | bool, ...]] = set()
        self._circumstances: set[Key] = set()

    def checked(self, place: str, row: Row) -> Row:
        if row.encoder not in self._ids:
            self._ids[row.encoder] = _id_of(place, row.encoder, self._cards)
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
        key = key_of(row)
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
    split = known_split(row.split)
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
    near = ", ".join(map(repr, nearest_names(name, known)))
    _refuse(place, column, repr(name), f"{expected}; near are: {near}" if near else expected, word=word)


def read_rows(
    metrics: Iterable[str] | None = None, *, left_out: list[str] | None = None, with_unlisted: bool = False
) -> list[Row]:
    """Rows of all results files, the shipped ones first, then the user's, each in the order of its lines.

    With ``metrics`` only theirs: a shipped file that mentions none of them is not parsed, the user's are checked in any
    case. A sentence for each of the user's files with something wrong is added to ``left_out``, or else warned of.
    Shipped rows of encoders of an experiment are among them if ``with_unlisted``.
    """
    wanted = None if metrics is None else frozenset(metrics)
    cards, sentences = catalogue(), [] if left_out is None else left_out
    seen: dict[Key, str] = {}
    rows: list[Row] = []
    for path, content in read_files(".csv", with_unlisted=with_unlisted).items():
        may_be_skipped = wanted is not None and content and not is_of_user(path)
        if may_be_skipped and not any(metric.encode() in content for metric in wanted or ()):
            continue
        checked = rows_of(path, content, cards, seen, sentences)
        rows += checked if wanted is None else [row for row in checked if row.metric in wanted]
    if left_out is None:
        warn(sentences)
    return rows


def rows_of(path: Path, content: bytes, cards: Catalogue, seen: dict[Key, str], left_out: list[str]) -> list[Row]:
    """The rows of one file; of a user's file without the wrong ones, for which a sentence is added to ``left_out``.

    ``seen`` maps :func:`key_of` each row of earlier files to its place, and is added to.
    """
    wrong: list[ResultsError] = []
    refuse = wrong.append if is_of_user(path) else _raise
    rows = checked_rows(lambda line: f"{path}, line {line}", table_lines(path, content, refuse), cards, seen, refuse)
    if wrong:
        others = f" and {len(wrong) - 1:,} more of its lines are" if len(wrong) > 1 else " is"
        left_out.append(f"{str(wrong[0]).removesuffix('.')}; this{others} left out.")
    return rows


def require_table(path: Path, content: bytes) -> None:
    """Refuses a file that is no table of results, to which no row could be added; its rows may be wrong."""
    for _ in table_lines(path, content, _raise):
        pass


def table_lines(path: Path | str, content: bytes, wrong: Callable[[ResultsError], None]) -> Iterator[tuple[int, Row]]:
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


def without_wrong(rows: Iterable[Row], known: Iterable[ResultErratum]) -> list[Row]:
    """Rows that no erratum excludes."""
    wrong = [erratum for erratum in known if erratum.exclude]
    return [row for row in rows if not any(erratum.covers(row.encoder, row.metric) for erratum in wrong)]


def errata(*, left_out: list[str] | None = None) -> tuple[ResultErratum, ...]:
    """Every erratum of ``results/errata.toml``, then those of the user's ``results/errata.toml``.

    Parameters
    ----------
    left_out : list of str, optional
        Gets a sentence for everything of the user's that is wrong; without it, they are warnings.

    Raises
    ------
    ResultsError
        If the shipped file is unreadable or an entry in it is wrong.
    """
    import tomllib  # 5 ms that only this needs

    cards, sentences = catalogue(), [] if left_out is None else left_out
    known = []

    def refuse(path: Path, error: ResultsError) -> None:
        if not is_of_user(path):
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
                known.append(_erratum(f"{path}, erratum {number}", entry, cards))
            except ResultsError as error:
                refuse(path, error)
    if left_out is None:
        warn(sentences)
    return tuple(known)


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


CHECKSUMS = "CHECKSUMS"  # in the shipped folder; `make docs` writes it


def checksums_text() -> str:
    """What ``results/CHECKSUMS`` should hold: SHA-256 and path of every shipped results file, as sha256sum has it."""
    return "".join(f"{checksum}  {name}\n" for name, checksum in _checksums().items())


def damaged_files() -> list[str]:
    """Shipped results files that are missing or differ from what was shipped, as paths below ``results/``.

    A file that was cut between two rows reads well; only its checksum shows it. ``CHECKSUMS`` itself is named if it is
    unreadable or leaves out a file.
    """
    try:
        lines = (content_folder("results") / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return [CHECKSUMS]
    shipped = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    present = _checksums()
    damaged = [name for name, checksum in shipped.items() if present.get(name) != checksum]
    return damaged if present.keys() <= shipped.keys() else [*damaged, CHECKSUMS]


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


def measurements(
    *,
    metrics: str | Iterable[str] | None = None,
    encoders: str | Iterable[str] | None = None,
    exclude_wrong: bool = False,
) -> list[Measurement]:
    """Rows of all results files, the shipped ones first, then the user's.

    Shipped rows of encoders of an experiment, such as the family ``randomised``, are there only if ``encoders`` names
    one of them.

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
    wanted = None if metrics is None else _names(metrics)
    for name in wanted or ():
        if name not in METRICS:
            raise UnknownName("metric", name, METRICS, hint="results/README.md explains them all.")
    ids = None if encoders is None else {catalogue().id_of(name) for name in _names(encoders)}
    rows = read_rows(wanted, with_unlisted=not all(map(catalogue().lists, ids or ())))
    if ids is not None:
        rows = [row for row in rows if row.encoder in ids]
    if exclude_wrong:
        rows = without_wrong(rows, errata())
    return [measurement_of(row) for row in rows]


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def measurement_of(row: Row) -> Measurement:
    """A checked row with its numbers as numbers."""
    return Measurement(
        encoder=row.encoder,
        metric=row.metric,
        dataset=row.dataset,
        split=row.split,
        n_train=int(row.n_train) if row.n_train else None,
        seed=int(row.seed) if row.seed else None,
        value=float(row.value),
        unit=row.unit,
        ci_low=float(row.ci_low) if row.ci_low else None,
        ci_high=float(row.ci_high) if row.ci_high else None,
        protocol=row.protocol,
        source=row.source,
        date=row.date,
    )


def row_of(measurement: Measurement) -> Row:
    """The fields of its row, as text from which every number comes back equal.

    >>> row = row_of(Measurement("a", "b", "c", "d", 5, None, 0.1 + 0.2, "percent", None, None, "e", "f", "2026-11"))
    >>> ",".join(row)
    'a,b,c,d,5,,0.30000000000000004,percent,,,e,f,2026-11'
    """
    texts = {column: getattr(measurement, column) for column in COLUMNS}
    for column in ("n_train", "seed"):
        texts[column] = "" if texts[column] is None else str(texts[column])
    for column in ("value", "ci_low", "ci_high"):
        texts[column] = "" if texts[column] is None else repr(float(texts[column]))
    return Row(**texts)


def means_over_seeds(rows: Iterable[Measurement]) -> list[SeedMean]:
    """Means of the rows that differ in their seed only, in the order of the first of each."""
    groups: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.encoder, row.metric, row.dataset, row.split, row.n_train, row.unit, row.protocol, row.source)
        groups.setdefault(key, []).append(row)
    return [_mean(same) for same in groups.values()]


def _mean(same: list[Measurement]) -> SeedMean:
    first, values = same[0], [row.value for row in same]
    low, high = (first.ci_low, first.ci_high) if len(same) == 1 else (min(values), max(values))
    return SeedMean(
        encoder=first.encoder,
        metric=first.metric,
        dataset=first.dataset,
        split=first.split,
        n_train=first.n_train,
        unit=first.unit,
        protocol=first.protocol,
        source=first.source,
        value=math.fsum(values) / len(values),
        n_seeds=len(same),
        low=low,
        high=high,
    )


_ASSUMED_ZERO = "assumed zero"  # protocol of a twin that was not measured
_PROBE, _TWIN = "linear_probe_error", "supervised_twin_error"
_FULL_SHOT = "train -> val"
_ON_TRAINING_IMAGES = "train -> train"
_HELD_OUT = "train minus subset -> subset"
_RISKS = (_PROBE, _TWIN, "probe_generalization", "encoder_generalization")

AnyRow = TypeVar("AnyRow", Row, Measurement)
Risks = dict[tuple[str, str], tuple[float, str]]  # metric, split -> mean over seeds, protocol


def derived_summaries(
    *, exclude_wrong: bool, source: str | None, with_unlisted: bool
) -> tuple[dict[str, list[Summary]], list[str]]:
    """The risks of every encoder by data set, derived from all rows or those of one source of ImageNet-1K risks.

    Beside them a sentence for everything of the user's that is wrong and left out.
    """
    left_out: list[str] = []
    rows = read_rows(_RISKS, left_out=left_out, with_unlisted=with_unlisted)
    known_errata = errata(left_out=left_out)
    if source is not None:
        sources = sorted({row.source for row in rows if row.dataset == IMAGENET})
        if source not in sources:
            raise QueryError(f"No ImageNet-1K risk comes from the source {source!r}, expected one of {sources}.")
        rows = [row for row in rows if row.source == source]
    if exclude_wrong:
        rows = without_wrong(rows, known_errata)
    by_dataset: dict[str, dict[str, list[Row]]] = {IMAGENET: {}}
    for row in rows:
        by_dataset.setdefault(row.dataset, {}).setdefault(row.encoder, []).append(row)
    summaries = {
        dataset: [
            _summary(encoder, risks, known_errata)
            for encoder, rows_of_encoder in by_encoder.items()
            if (risks := _risks_of_one_campaign(rows_of_encoder))
        ]
        for dataset, by_encoder in by_dataset.items()
    }
    return summaries, left_out


def _summary(encoder: str, risks: Risks, known_errata: Iterable[ResultErratum]) -> Summary:
    return Summary(
        encoder=encoder,
        errors={
            setting.name: risks[_PROBE, setting.split][0] for setting in SETTINGS if (_PROBE, setting.split) in risks
        },
        decomposition=_decomposition(risks),
        errata=tuple(erratum for erratum in known_errata if erratum.encoder == encoder),
    )


def campaign_of(rows: Sequence[AnyRow]) -> AnyRow | None:
    """The row whose source and protocol are those of an encoder's summary on one data set; None without a probe.

    It is of the published campaign where there is one, else of the newest, else of the last.
    """
    probes = [row for row in rows if row.metric == _PROBE]
    return max(reversed(probes), key=lambda row: (row.source == PUBLISHED_SOURCE, row.date), default=None)


def _risks_of_one_campaign(rows: Sequence[Row]) -> Risks:
    """Means over seeds of one source and protocol; {} if there is no probe."""
    best = campaign_of(rows)
    if best is None:
        return {}
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row.source == best.source and (row.metric != _PROBE or row.protocol == best.protocol):
            values.setdefault((row.metric, row.split, row.protocol), []).append(float(row.value))
    return {(metric, split): (sum(seeds) / len(seeds), protocol) for (metric, split, protocol), seeds in values.items()}


def _decomposition(risks: Risks) -> RiskDecomposition | None:
    """The components from the raw risks; from the published components where the raw risks were never published."""
    value = {key: mean for key, (mean, _) in risks.items()}
    full_shot = value.get((_PROBE, _FULL_SHOT))
    training, held_out = value.get((_PROBE, _ON_TRAINING_IMAGES)), value.get((_PROBE, _HELD_OUT))
    if full_shot is None:
        return None
    if training is not None and held_out is not None:
        probe, encoder = held_out - training, full_shot - held_out
    elif ("probe_generalization", _FULL_SHOT) in value and ("encoder_generalization", _FULL_SHOT) in value:
        probe, encoder = value["probe_generalization", _FULL_SHOT], value["encoder_generalization", _FULL_SHOT]
        training = full_shot - probe - encoder
    else:
        return None
    twin, protocol = risks.get((_TWIN, _ON_TRAINING_IMAGES), (None, ""))
    return RiskDecomposition(
        approximation=NOT_PUBLISHED if twin is None else twin,
        usability=NOT_PUBLISHED if twin is None else training - twin,
        approximation_plus_usability=training,
        probe_generalization=probe,
        encoder_generalization=encoder,
        approximation_assumed=protocol == _ASSUMED_ZERO,
    )
