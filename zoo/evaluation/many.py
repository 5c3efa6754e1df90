"""Measuring many encoders on workers: each as soon as its features are complete, its rows beside them.

What a worker measures of an encoder it writes below the place of the features, whole and only once: the rows as a
results file, ``ENCODER/rows/HASH.csv``, their provenance beside it as everywhere in the results, and whatever else is
to be told of it as JSON. The hash is of what the numbers follow from: the hashes of the features' shards and the
request. So a run that was stopped measures only what is missing, any number of processes may measure the same, and
which worker did it, in which order, changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..cards.catalogue import catalogue
from ..datasets import ImageData, ImageSet
from ..errors import DataError, QueryError
from ..features import Features, load_features
from ..features.computing import of_rows
from ..features.items import Setting, features_place, opened, path_part
from ..features.store import Index, read_index
from ..results.recording import files_of, measured_in, sidecar_of
from ..storage import Place, place_at
from .evaluating import (
    PARTS,
    SOURCE,
    Evaluation,
    Request,
    Rows,
    evaluate,
    evaluations_folder,
    rows_of_evaluation,
    runs_folder,
)
from .tagging import TagEvaluation, evaluate_tags, rows_of_tags

_FORMAT = "zoo-measured-1"
_NOT_IN_KEY = ("device", "supervised")  # of a request: rounding alone, and the twin, which is there by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What a worker needs to know to measure an encoder; small, picklable, the same for all of a run."""

    setting: Setting  # of the features
    request: Request  # ``supervised`` is a recorded training error or None
    twin: str | None = None  # id of the supervised twin, if its features are to tell
    source: str = SOURCE  # who measured
    day: date | None = None  # of the rows; today by default
    describe: Callable[[Evaluation | TagEvaluation], Mapping[str, Any]] | None = None  # what else is kept, as JSON

    def __post_init__(self) -> None:
        if isinstance(self.request.supervised, Features):
            raise QueryError("Many encoders are measured with a twin by its name (twin=), got features of one.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A piece of work: measure an encoder, whose features are complete."""

    encoder: str  # id


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEncoder:
    """What was measured of an encoder, as it lies beside its features."""

    encoder: str
    rows: Rows
    document: dict[str, Any]  # what ``describe`` gave; {} without it


def measure_one(measuring: Measuring, name: str) -> bytes:
    """Measures an encoder by its features and writes the rows, unless they are there; returns the hash in their name.

    DataError if its features, or those of its twin, are not complete.
    """
    setting = measuring.setting
    data = opened(setting.source)
    indexes = _indexes(measuring, name, data)
    at, key = _rows_place(setting, name), _key(measuring, data, indexes)
    if at.size(f"{key}.csv") is None:
        train, test = (_features(setting, name, data, part) for part in PARTS)
        root = place_at(setting.place).folder or evaluations_folder()  # probes are cached where the worker is
        cache = runs_folder(root, name)
        found: Evaluation | TagEvaluation
        if data.train.tags:
            found = evaluate_tags(train, test, measuring.request, scale=data.train.reading.scale)
            rows = rows_of_tags(found, source=measuring.source, day=measuring.day)
        else:
            request = measuring.request
            if measuring.twin is not None:
                request = replace(request, supervised=_features(setting, measuring.twin, data, "train"))
            found = evaluate(train, test, request, card=catalogue()[name], cache=cache)
            rows = rows_of_evaluation(found, source=measuring.source, day=measuring.day)
        write_measured(at, key, rows, {} if measuring.describe is None else measuring.describe(found))
    return key.encode()


def measured_before(measuring: Measuring, name: str, data: ImageData) -> MeasuredEncoder | None:
    """What a worker has measured of an encoder by this request; None if nobody has, or its features are not there."""
    try:
        indexes = _indexes(measuring, name, data)
    except DataError:
        return None
    return read_measured(_rows_place(measuring.setting, name), _key(measuring, data, indexes), name)


def write_measured(at: Place, key: str, rows: Rows, document: Mapping[str, Any]) -> None:
    """Writes what was measured of an encoder, the rows last: with them it is complete."""
    table, provenance = files_of(rows)
    at.write(f"{key}.json", json.dumps(document).encode())
    at.write(sidecar_of(Path(f"{key}.csv")).name, provenance)
    at.write_new(f"{key}.csv", table)


def read_measured(at: Place, key: str, name: str) -> MeasuredEncoder | None:
    """What :func:`write_measured` wrote; None if it did not come to its end."""
    table = at.read(f"{key}.csv")
    if table is None:
        return None
    provenance, document = at.read(sidecar_of(Path(f"{key}.csv")).name), at.read(f"{key}.json")
    where = f"{at.shown}/{key}.csv"
    if provenance is None or document is None:
        raise DataError(f"{where} lies there without its provenance; remove it, and run the same again.")
    try:
        told = json.loads(document)
    except ValueError as error:
        raise DataError(
            f"{at.shown}/{key}.json is damaged ({error}); remove {where}, and run the same again."
        ) from error
    return MeasuredEncoder(encoder=name, rows=measured_in(where, table, provenance), document=told)


def _features(setting: Setting, name: str, data: ImageData, part: str) -> Features:
    """Features of a part as :func:`zoo.features.featurise` returns them: with what is known of the images here."""
    images: ImageSet = getattr(data, part)
    features = load_features(_place(setting, name, data, part))
    contents = features.contents if features.contents is not None else of_rows(images.contents, features.skipped)
    return replace(features, contents=contents, groups=of_rows(images.groups, features.skipped), tags=images.tags)


def _rows_place(setting: Setting, name: str) -> Place:
    return place_at(setting.place).below(path_part(name)).below("rows")


def _place(setting: Setting, name: str, data: ImageData, part: str) -> Place:
    images, how = getattr(data, part), setting.how
    return features_place(place_at(setting.place), name, images, precision=how.precision, stored=setting.stored)


def _indexes(measuring: Measuring, name: str, data: ImageData) -> dict[str, Index]:
    """Of all features that the numbers follow from; refuses those that are not complete."""
    wanted = {part: (name, part) for part in PARTS}
    if measuring.twin is not None:
        wanted["twin"] = (measuring.twin, "train")
    found = {}
    for what, (encoder, part) in wanted.items():
        place = _place(measuring.setting, encoder, data, part)
        index = read_index(place)
        if index is None:
            raise DataError(
                f"The features of {encoder!r} ({part}) are not complete in {place.shown}; compute them first, or "
                "look whether this machine has the same images."
            )
        found[what] = index
    return found


def _key(measuring: Measuring, data: ImageData, indexes: Mapping[str, Index]) -> str:
    """Hash of everything that the rows follow from, but for rounding."""
    asked = {name: value for name, value in asdict(measuring.request).items() if name not in _NOT_IN_KEY}
    features = {what: [one.digest for one in index.shards] for what, index in indexes.items()}
    groups = [None if one.groups is None else _hash(one.groups.tobytes()) for one in (data.train, data.val)]
    facts = [_FORMAT, asked, measuring.request.supervised, measuring.source, features, groups]
    return _hash(json.dumps(facts, sort_keys=True, default=str).encode())


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()
