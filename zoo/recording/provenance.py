"""What each own measurement was measured from: one line of JSON a row, in a file beside that of the rows.

A line names its row by the columns that tell rows apart and by its value, and holds the provenance under a key of its
own. Where several lines name one row, the last counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..cards import catalogue
from ..errors import ResultsError
from ..files import content_folder, user_folder
from ..measurements import Measurement, row_of
from ..resultchecks import Row, key_of
from ..resultfiles import read_rows
from ..vocabulary import COLUMNS, DATASET, ENCODER, PROTOCOL, SOURCE, VALUE

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
"""What every provenance tells; None where there is nothing to tell, as of the features of a recorded twin."""

_SUFFIX = ".provenance.jsonl"
_IDENTITY = (*range(VALUE), PROTOCOL, SOURCE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def provenance_of(measurement: Measurement) -> dict[str, Any] | None:
    """What a recorded number was measured from; None if it was not recorded by :func:`zoo.recording.record`.

    Raises
    ------
    ResultsError
        If a file of provenance cannot be read or is damaged; names the line.
    """
    row = row_of(measurement)
    row[ENCODER] = catalogue().id_of(row[ENCODER])
    wanted, found = _identity(row, measurement), None
    for _, told in _told(file_stem(row[ENCODER])):
        provenance = told.pop("provenance")
        if told == wanted:
            found = provenance
    return found


def provenance_line(row: Row, measurement: Measurement, provenance: Mapping[str, Any]) -> bytes:
    """The line that goes with a checked row.

    Raises
    ------
    ResultsError
        If a key is missing, or a value is nothing that JSON has.
    """
    missing = PROVENANCE_KEYS.keys() - provenance.keys()
    named = f"{row[ENCODER]!r}, {measurement.metric!r}, {measurement.split!r}"
    if missing:
        raise ResultsError(
            f"The provenance of {named} lacks {', '.join(map(repr, sorted(missing)))}; None says that there is none."
        )
    line = _identity(row, measurement) | {"provenance": _plain(provenance, named)}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def require_same_images(dataset: str, images: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses images under the name of a data set if rows that are recorded under it were measured on others.

    Rows of any encoder count, the shipped ones and the user's; one without provenance says nothing.

    Parameters
    ----------
    dataset : str
        The name, as rows have it.
    images : mapping
        Fingerprints of "train" and "val": under "images" of the images with their labels, and under the name of a
        task of the images with their maps.

    Raises
    ------
    ResultsError
        If they are others; or if a file of results or of provenance is damaged.
    """
    if not any(images.values()):
        return
    known = {(key_of(row), float(row[VALUE])) for row in read_rows() if row[DATASET] == dataset}
    for where, told in _told("*", containing=f'"dataset":{json.dumps(dataset)}') if known else ():
        provenance = told.pop("provenance")
        if (tuple(told.get(COLUMNS[column]) for column in _IDENTITY), told.get("value")) not in known:
            continue  # taken out, or never written
        for kind, parts in images_behind(provenance).items():
            for part, recorded in parts.items():
                now = images.get(kind, {}).get(part)
                if now is not None and now != recorded:
                    raise ResultsError(
                        f"These are other images than those recorded as {dataset!r}: {part!r} has the hash {now[:12]}, "
                        f"and what is recorded of {told[COLUMNS[ENCODER]]} was measured on {recorded[:12]} ({where}); "
                        "name them with --dataset NAME; another split of the same images counts as others, too."
                    )


def images_behind(provenance: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Fingerprints of the two parts of the data set that a number was measured on, by kind and part.

    Only what is of a whole part: a sample of its images, or views of them, have other fingerprints.
    """
    report, settings, found = (provenance.get(key) for key in ("report", "settings", "images_hash"))
    report, settings = (one if isinstance(one, Mapping) else {} for one in (report, settings))
    kinds: dict[str, Any] = {}
    most, n_taken = settings.get("n_images"), report.get("n_images")
    if most is None or (isinstance(n_taken, int) and n_taken < most):
        task = report.get("task", "classification")
        kinds["images" if task == "classification" else task] = found
    if provenance.get("data_hash") is not None:
        kinds["images"] = provenance["data_hash"]
    return {
        kind: {part: parts[part] for part in ("train", "val") if isinstance(parts.get(part), str)}
        for kind, parts in kinds.items()
        if isinstance(parts, Mapping)
    }


def sidecar_of(path: Path) -> Path:
    """The file of provenance beside a results file."""
    return path.with_name(path.name.removesuffix(".csv") + _SUFFIX)


def file_stem(encoder: str) -> str:
    """Of the file that has the rows of an encoder, with all its representations.

    >>> file_stem("dino_vitS16@cls:9+10+11")
    'dino_vitS16'
    """
    return _UNSAFE.sub("_", encoder.partition("@")[0])


def _identity(row: Row, measurement: Measurement) -> dict[str, Any]:
    told: dict[str, Any] = dict(zip((COLUMNS[column] for column in _IDENTITY), key_of(row), strict=True))
    return told | {"value": float(measurement.value)}


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


def _told(stem: str, *, containing: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of every line of provenance of an encoder, or of all, that contains a text."""
    for where, line in _lines(stem):
        if containing not in line:
            continue
        try:
            told = json.loads(line)
            if not isinstance(told["provenance"], Mapping):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(
                f"{where}: found {line[:60]!r}, expected a JSON object with the key 'provenance'; restore the line, or "
                "remove it."
            ) from error
        yield where, told


def _lines(stem: str) -> Iterator[tuple[str, str]]:
    """Place and text of every line of provenance of an encoder, the shipped ones first."""
    for folder in (content_folder("results"), user_folder() / "results"):
        for path in sorted(folder.rglob(f"{stem}{_SUFFIX}")):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ResultsError(f"The provenance {path} cannot be read ({error}); restore or remove it.") from error
            for number, line in enumerate(text.split("\n"), start=1):
                if line:
                    yield f"{path}, line {number}", line
