"""Adds measurements to the results: each once, with its provenance, whichever other processes are writing.

The user's measurements lie in ``results/measured/`` of the zoo home, one file per encoder. Next to it,
``ENCODER.provenance.jsonl`` has one line of JSON a row: the columns that distinguish rows and the value, and the
provenance (hashes of what was measured, the report of the probe); of several lines for one row the last counts, and
lines without a row are ignored. Both files are replaced as a whole, the provenance first. One process writes at a time;
on a file system without locks, record from one process and merge (``zoo results merge``).

A recorded number never changes: another value for the same row is refused, or reported and left out. Two values are the
same number if they differ by no more than ``ROUNDING`` of their size: features are float32, whose unit of rounding is
2**-24, and a sum of 2**14 products in another order typically moves by the root of their number times that (Higham and
Mary 2019, A New Approach to Probabilistic Rounding Error Analysis). The ends of an interval come from random draws, and
are the same up to ``INTERVAL_ROUNDING`` of its width, five times what they vary by between bootstraps.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..cards.catalogue import Catalogue, load_catalogue
from ..cards.writing import save_cards
from ..errors import ResultsError, warn
from ..files import get_content_folder, get_user_folder, lock_file, replace_file
from .reading import (
    check_rows_read,
    iterate_table_lines,
    parse_rows,
    raise_error,
    read_files,
    read_own_contents,
    require_table,
)
from .rows import Measurement, convert_measurement, convert_row, read_rows
from .values import COLUMNS, Key, Row, get_row_key

PROVENANCE_KEYS = {
    "weights_hash": "of the weights of the encoder",
    "preprocess_hash": "of the preprocessing of the images",
    "images_hash": "of the image sets, by what they were for: train, val",
    "features_hash": "of the features, by what they were for",
    "subset_hash": "of the training images that the probe was given",
    "code_version": "of the code that made the features and the probe",
    "settings": "that define the protocol",
    "report": "of the probe: what it chose, and whether it converged",
}
"""Keys of every provenance; None where there is nothing to say, as of the features of a recorded twin."""

ROUNDING = 2.0**-17  # of a value, relative
INTERVAL_ROUNDING = 0.05  # of an end of an interval, relative to its width

_IDENTITY = ("encoder", "metric", "dataset", "split", "n_train", "seed", "protocol", "source")  # as of key_of
_SUFFIX = ".provenance.jsonl"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def find_provenance(measurement: Measurement) -> dict[str, Any] | None:
    """What a recorded number was measured from; None if :func:`record` did not record it."""
    row = convert_measurement(measurement)
    row = row._replace(encoder=load_catalogue().id_of(row.encoder))
    wanted, last = get_row_identity(row), None
    for _, record_of_row in _provenance_records(build_file_stem(row.encoder)):
        provenance = record_of_row.pop("provenance")
        if record_of_row == wanted:
            last = provenance
    return last


def iterate_provenances(encoder: str) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """What every recorded number of an encoder was measured from, in addition to the columns that name its row."""
    for _, record_of_row in _provenance_records(build_file_stem(load_catalogue().id_of(encoder))):
        provenance = record_of_row.pop("provenance")
        yield record_of_row, provenance


def _provenance_line(row: Row, provenance: Mapping[str, Any]) -> bytes:
    missing = PROVENANCE_KEYS.keys() - provenance.keys()
    named = f"{row.encoder!r}, {row.metric!r}, {row.split!r}"
    if missing:
        raise ResultsError(
            f"The provenance of {named} lacks {', '.join(map(repr, sorted(missing)))}; None says that there is none."
        )
    line = get_row_identity(row) | {"provenance": _plain(provenance, named)}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def require_same_images(dataset: str, images: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses images under the name of a data set if rows of that name, of any encoder, were measured on others.

    ``images`` has the fingerprints of "train" and "val": under "images" those of the images with their labels, and
    under the name of a task those of the images with their maps. Rows without provenance say nothing.
    """
    if not any(images.values()):
        return
    known: set[Any] | None = None
    for where, line in _provenance_lines("*", containing=f'"dataset":{json.dumps(dataset)}'):
        if _names_these_images(line, images.get("images", {})):
            continue
        recorded = _provenance_line_of(where, line)
        provenance = recorded.pop("provenance")
        for kind, parts in get_image_fingerprints(provenance).items():
            for part, then in parts.items():
                now = images.get(kind, {}).get(part)
                if now is None or now == then:
                    continue
                if known is None:
                    rows = (row for row in read_rows(with_unlisted=True) if row.dataset == dataset)
                    known = {(get_row_key(row), float(row.value)) for row in rows}
                row_of_line = tuple(recorded.get(column) for column in _IDENTITY), recorded.get("value")
                if row_of_line in known:  # neither removed nor never written
                    raise ResultsError(
                        f"These are other images than those recorded as {dataset!r}: {part!r} has the hash {now[:12]}, "
                        f"and what is recorded of {recorded['encoder']} was measured on {then[:12]} ({where}); "
                        "name them with --dataset NAME; another split of the same images counts as others, too."
                    )


def _names_these_images(line: str, parts: Mapping[str, str]) -> bool:
    """Whether a line of provenance is of these images, as its text alone tells; most lines of a data set are."""
    text = f'"images_hash":{json.dumps(dict(parts), separators=(",", ":"))}'
    return text in line and '"data_hash":{' not in line and '"task":' not in line


def get_image_fingerprints(provenance: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Fingerprints of the two parts of the data set that a number was measured on, by kind and part.

    Only of whole parts: a sample of its images, or views of them, have other fingerprints.
    """
    report, settings = (provenance.get(key) for key in ("report", "settings"))
    report, settings = (one if isinstance(one, Mapping) else {} for one in (report, settings))
    kinds: dict[str, Any] = {}
    n_asked, n_taken = settings.get("n_images"), report.get("n_images")
    if n_asked is None or (isinstance(n_taken, int) and n_taken < n_asked):
        task = report.get("task", "classification")
        kinds["images" if task == "classification" else task] = provenance.get("images_hash")
    if provenance.get("data_hash") is not None:
        kinds["images"] = provenance["data_hash"]
    return {
        kind: {part: parts[part] for part in ("train", "val") if isinstance(parts.get(part), str)}
        for kind, parts in kinds.items()
        if isinstance(parts, Mapping)
    }


def get_provenance_path(path: Path) -> Path:
    """The file of provenance next to a results file."""
    return path.with_name(path.name.removesuffix(".csv") + _SUFFIX)


def build_file_stem(encoder: str) -> str:
    """Name, without its ending, of the file with the rows of an encoder and all its other features.

    >>> build_file_stem("dino_vitS16@cls:9+10+11")
    'dino_vitS16'
    """
    return _UNSAFE.sub("_", encoder.partition("@")[0])


def get_row_identity(row: Row) -> dict[str, Any]:
    """The columns that tell a row from others, and its value, as a line of provenance names it."""
    return dict(zip(_IDENTITY, get_row_key(row), strict=True)) | {"value": float(row.value)}


def _plain(value: Any, named: str) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one, named) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, named) for one in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))  # JSON has no infinity
    if value is None or isinstance(value, str | int):
        return value
    if hasattr(value, "tolist"):  # an array, or a number of one
        return _plain(value.tolist(), named)
    raise ResultsError(
        f"The provenance of {named} holds {value!r} of type {type(value).__name__}, expected texts, numbers, true or "
        "false, None, and lists and tables of them."
    )


def _provenance_records(stem: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of every line of provenance of an encoder."""
    for where, line in _provenance_lines(stem):
        yield where, _provenance_line_of(where, line)


def _provenance_lines(stem: str, *, containing: str = "") -> Iterator[tuple[str, str]]:
    """Place and text of every line of provenance of an encoder, or of all, that contains a text."""
    for folder in (get_content_folder("results"), get_user_folder() / "results"):
        for path in sorted(folder.rglob(f"{stem}{_SUFFIX}")):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ResultsError(f"The provenance {path} cannot be read ({error}); restore or remove it.") from error
            for number, line in enumerate(text.split("\n"), start=1):
                if line and containing in line:
                    yield f"{path}, line {number}", line


def _provenance_line_of(where: str, line: str) -> dict[str, Any]:
    """A line of provenance: its row (:func:`get_row_identity`) and ``provenance``; ``where`` is for an error."""
    try:
        recorded: dict[str, Any] = json.loads(line)
        if not isinstance(recorded["provenance"], Mapping):
            raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{where}: found {line[:60]!r}, expected a JSON object with the key 'provenance'; restore the line, or "
            "remove it."
        ) from error
    return recorded


@dataclass(frozen=True, slots=True)
class Difference:
    """A number that is recorded already, and was measured to be another; the recorded one stays."""

    place: str  # file and line of the recorded row
    encoder: str
    metric: str
    dataset: str
    split: str
    seed: int | None
    protocol: str
    source: str
    recorded: float
    now: float
    recorded_interval: tuple[float, float] | None
    interval_now: tuple[float, float] | None

    @property
    def is_of_interval(self) -> bool:
        """True if the value is the same, and its interval another."""
        return _is_same_value(self.recorded, self.now)

    @property
    def change(self) -> str:
        """What was recorded, and both numbers, in words."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        what = f"{self.metric} of {self.encoder} on {self.dataset}, {self.split}{seed}, by {self.protocol}"
        before, now = f"{self.recorded:.6g}", f"{self.now:.6g}"
        if self.is_of_interval:
            intervals = (self.recorded_interval, self.interval_now)
            before, now = ("nothing" if ends is None else f"{ends[0]:.6g} to {ends[1]:.6g}" for ends in intervals)
            what = f"95 % interval of {what}"
        elif before == now:
            before, now = repr(self.recorded), repr(self.now)
        return f"{what}: recorded: {before}, now: {now}"

    def __str__(self) -> str:
        return f"{self.change}; the recorded one stays"


@dataclass(frozen=True, slots=True)
class RecordedNumbers:
    """Result of measurements that were to be recorded."""

    paths: tuple[Path, ...]  # the files that they belong to
    n_new: int  # rows that were added
    n_known: int  # rows that were there already, with the same value
    differences: tuple[Difference, ...] = ()  # rows that are there with another value or interval, and stay so


class _Entry(NamedTuple):
    row: Row
    line: bytes  # of the results file
    provenance: bytes  # line of the file next to it


def record(
    measured: Mapping[Measurement, Mapping[str, Any]],
    *,
    folder: Path | None = None,
    differing: Literal["refuse", "tell"] = "refuse",
    alone: bool = False,
) -> RecordedNumbers:
    """Adds rows to the user's results, with their provenance; when it returns, they are on the disk.

    Everything is checked before anything is written, by the checks that reading makes. All rows of one encoder appear
    together; those of several encoders one file after the other.

    ``measured`` has each number with its provenance: the keys are :data:`PROVENANCE_KEYS` and any others, the values
    such as JSON has them (arrays become lists, numbers that are not finite become texts). ``folder`` is
    ``results/measured`` of the zoo home by default; only what is below a folder of results is read later. Of a row that
    is recorded with another value or interval, the recorded one stays: "refuse" then records nothing at all and raises
    :class:`~zoo.errors.ResultsError`, "tell" records the other rows and lists it in ``differences``. Rows of a data set
    whose recorded rows were measured on other images are refused as well, and so are values that no reader would take.
    With ``alone`` only the files of ``folder`` are looked at, which need not be below a folder of results, and their
    images are not compared.
    """
    cards = load_catalogue()
    for dataset, images in () if alone else _images_of(measured):
        require_same_images(dataset, images)
    folder = get_user_folder() / "results" / "measured" if folder is None else folder
    by_file: dict[Path, dict[Key, _Entry]] = {}
    for key, entry in _entries(measured, cards).items():
        by_file.setdefault(folder / f"{build_file_stem(entry.row.encoder)}.csv", {})[key] = entry
    differences: list[Difference] = []
    try:
        with lock_file(folder / ".lock" if alone else get_user_folder() / "results" / ".lock"):
            fresh = {}
            for path, entries in by_file.items():
                fresh[path], others = _unknown(path, entries, cards, alone)
                differences += others
            if differences and differing == "refuse":
                raise ResultsError(
                    f"{differences[0].place}: {differences[0].change}; but a recorded number never changes: give the "
                    "new one another protocol or source, or remove the old row if it is wrong."
                )
            n_new = sum(map(len, fresh.values()))
            save_cards(entry.row.encoder for entries in fresh.values() for entry in entries.values())
            for path, entries in fresh.items():
                _append(path, entries)
    except OSError as error:
        raise ResultsError(
            f"The results in {folder} cannot be written ({error.strerror}); what was recorded before is unharmed, make "
            "room or make the folder writable, and record again."
        ) from error
    n_known = len(measured) - n_new - len(differences)
    return RecordedNumbers(paths=tuple(by_file), n_new=n_new, n_known=n_known, differences=tuple(differences))


def build_result_files(measured: Mapping[Measurement, Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """A results file with these rows alone, and the file of provenance next to it, as :func:`record` writes them.

    The rows are checked as those that are recorded; ResultsError if one of them is wrong.
    """
    entries = _entries(measured, load_catalogue()).values()
    table = _csv_line(COLUMNS).encode() + b"".join(entry.line for entry in entries)
    return table, b"".join(entry.provenance for entry in entries)


def read_measured_file(where: str, table: bytes, beside: bytes) -> dict[Measurement, dict[str, Any]]:
    """The rows of a results file with their provenance, as :func:`record` takes them; ``where`` is for messages.

    ResultsError if a row is wrong or has no provenance.
    """
    found = {}
    for place, row, provenance in iterate_rows_with_provenance(where, table, beside, raise_error):
        if provenance is None:
            what = f"{row.metric!r} of {row.encoder!r}, {row.split!r}"
            raise ResultsError(f"{place}: {what} has no provenance; remove the file, and measure it again.")
        found[convert_row(row)] = provenance
    return found


def iterate_rows_with_provenance(
    where: str, table: bytes, beside: bytes, wrong: Callable[[ResultsError], None]
) -> Iterator[tuple[str, Row, dict[str, Any] | None]]:
    """Place, row and provenance (None if it has none) of a results file; ``wrong`` gets the error of a wrong line."""
    provenances: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(beside.decode("utf-8", "replace").split("\n"), start=1):
        if line:
            try:
                told = _provenance_line_of(f"{where.removesuffix('.csv')}{_SUFFIX}, line {number}", line)
            except ResultsError as error:
                wrong(error)
                continue
            provenance = told.pop("provenance")
            provenances[json.dumps(told, sort_keys=True)] = provenance
    places: dict[Key, str] = {}
    lines = iterate_table_lines(where, table, wrong)
    for row in check_rows_read(lambda line: f"{where}, line {line}", lines, load_catalogue(), places, wrong):
        yield places[get_row_key(row)], row, provenances.get(json.dumps(get_row_identity(row), sort_keys=True))


def _images_of(measured: Mapping[Measurement, Mapping[str, Any]]) -> list[tuple[str, dict[str, dict[str, str]]]]:
    """The different images behind measurements, by data set; of images with maps those of the same task alone."""
    distinct = set()
    for measurement, provenance in measured.items():
        images = get_image_fingerprints(provenance)
        if len(images) > 1:
            del images["images"]
        distinct.add((measurement.dataset, json.dumps(images, sort_keys=True)))
    return [(dataset, json.loads(images)) for dataset, images in sorted(distinct)]


def _entries(measured: Mapping[Measurement, Mapping[str, Any]], cards: Catalogue) -> dict[Key, _Entry]:
    """Checked rows that are to be written."""
    rows = [convert_measurement(measurement) for measurement in measured]
    checked = check_rows_read(
        lambda number: f"Measurement {number} of {len(rows)}", enumerate(rows, start=1), cards, {}
    )
    entries = {}
    for row, provenance in zip(checked, measured.values(), strict=True):
        entries[get_row_key(row)] = _Entry(row, _csv_line(row).encode(), _provenance_line(row, provenance))
    return entries


def _csv_line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _unknown(
    path: Path, entries: dict[Key, _Entry], cards: Catalogue, alone: bool
) -> tuple[dict[Key, _Entry], list[Difference]]:
    """Those that no results file has yet, and how others differ from what is recorded."""
    encoders = {entry.row.encoder.lower().encode() for entry in entries.values()}
    files = read_own_contents(sorted(path.parent.glob("*.csv")), []) if alone else read_files(".csv")
    if path not in files:
        files[path] = _content(path)
    seen: dict[Key, str] = {}
    rows, left_out = [], list[str]()
    for other, content in files.items():
        if any(encoder in content.lower() for encoder in encoders):
            rows += parse_rows(other, content, cards, seen, left_out)
    warn(left_out)
    recorded = {get_row_key(row): row for row in rows}
    fresh = {key: entry for key, entry in entries.items() if key not in recorded}
    pairs = ((seen[key], recorded[key], entry.row) for key, entry in entries.items() if key in recorded)
    return fresh, [difference for pair in pairs if (difference := compare_recorded(*pair)) is not None]


def compare_recorded(place: str, old: Row, new: Row) -> Difference | None:
    """How a number differs from the one that is recorded at a place; None if it is the same."""
    ends = [_ends(row) for row in (old, new)]
    values = [float(row.value) for row in (old, new)]
    if _is_same_value(*values) and _is_same_interval(*ends):
        return None
    return Difference(
        place=place,
        encoder=old.encoder,
        metric=old.metric,
        dataset=old.dataset,
        split=old.split,
        seed=int(old.seed) if old.seed else None,
        protocol=old.protocol,
        source=old.source,
        recorded=values[0],
        now=values[1],
        recorded_interval=ends[0],
        interval_now=ends[1],
    )


def _ends(row: Row) -> tuple[float, float] | None:
    return (float(row.ci_low), float(row.ci_high)) if row.ci_low and row.ci_high else None


def _is_same_value(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=1e-9)


def _is_same_interval(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if one is None or other is None:
        return one == other
    width = max(one[1] - one[0], other[1] - other[0])
    return all(
        _is_same_value(before, now) or abs(before - now) <= INTERVAL_ROUNDING * width
        for before, now in zip(one, other, strict=True)
    )


def _append(path: Path, entries: dict[Key, _Entry]) -> None:
    """Adds the lines, the provenance first."""
    if not entries:
        return
    before = _content(path) or _csv_line(COLUMNS).encode()
    content = before + b"".join(entry.line for entry in entries.values())
    for table in (before, content):  # to which rows can be added, and that can be read afterwards
        require_table(path, table)
    lines = _content(get_provenance_path(path)) + b"".join(entry.provenance for entry in entries.values())
    for target, text in ((get_provenance_path(path), lines), (path, content)):
        with replace_file(Path(os.path.realpath(target))) as file:  # behind a link is the file that others share
            file.write(text)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
