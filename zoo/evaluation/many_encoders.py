"""Measuring many encoders on workers: by probes, each as soon as its features are complete, or by metrics.

A worker writes the rows below the place of the features, whole and once: ``ENCODER/rows/HASH.csv`` with its provenance
and a JSON document. The hash is of the hashes of the features' shards and the request, so that a run that was stopped
measures only what is missing, whatever the workers.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..cards.catalogue import load_catalogue
from ..datasets import ImageData, ImageSet
from ..encoders.processor import read_memory_size
from ..errors import DataError, QueryError
from ..execution.executor import Executor, Failure, Resources, WorkResult, select_share
from ..execution.journal import Journal
from ..execution.work_queue import WorkQueue
from ..features import Features
from ..features.filling import load_features_of
from ..features.origin import get_code_version
from ..features.running import FollowUpTask, RunReport, run_features
from ..features.store import FeatureIndex, read_index
from ..features.work_items import FeatureRunSettings, get_features_location, open_image_source
from ..files import format_path_part, get_evaluations_folder
from ..optional import require_extra
from ..progress import Progress
from ..results.recording import build_result_files, get_provenance_path, read_measured_file
from ..results.vocabulary import find_feature_metric
from ..storage import Location, resolve_place
from .evaluating import (
    LINEAR_PROTOCOLS,
    PARTS,
    SOURCE,
    Evaluation,
    Request,
    Rows,
    Tell,
    choose_full_shot_kind,
    estimate_path_bytes,
    evaluate,
    get_runs_folder,
    make_evaluation_rows,
)
from .label_free.measuring import MetricInputs, MetricResult, compute_metric_inputs, make_metric_rows, measure
from .multilabel import TagEvaluation, evaluate_tags, make_tag_rows
from .regression import RegressionEvaluation, evaluate_numbers, make_number_rows

with require_extra("evaluate", needed_for="Measuring an encoder"):
    import torch

_FORMAT = "zoo-measured-1"
_ASKED = (  # of a request; the device and the memory change rounding and the kind of probe alone
    *("settings", "n_seeds", "n_subsets", "seed", "probe", "changed", "neighbours", "decompose", "order", "n_refits"),
    *("supervised", "n_bootstrap"),
)
_SHARE_OF_MEMORY = 0.8  # of a machine, that probes may take at once


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSpec:
    """What a worker needs to know to measure an encoder; small, picklable, the same for all of a run."""

    setting: FeatureRunSettings  # of the features
    request: Request  # ``supervised`` is a recorded training error or None
    twin: str | None = None  # id of the supervised twin, if its features are to tell
    source: str = SOURCE  # who measured
    day: date | None = None  # of the rows; today by default
    describe: Callable[[Any], Mapping[str, Any]] | None = None  # what else is kept of an evaluation, as JSON

    def __post_init__(self) -> None:
        if isinstance(self.request.supervised, Features):
            raise QueryError("Many encoders are measured with a twin by its name (twin=), got features of one.")

    @property
    def asked(self) -> dict[str, Any]:
        """What is to be measured, as JSON values: what decides it in addition to the features."""
        asked = {name: getattr(self.request, name) for name in _ASKED} | {"source": self.source, "twin": self.twin}
        found: dict[str, Any] = json.loads(json.dumps(asked, default=repr))
        return found

    def key(self, name: str, data: ImageData) -> str:
        """Hash of everything that the rows follow from, but for rounding; DataError if features are not complete."""
        indexes = _indexes(self, name, data)
        kind = _kind(self.request, indexes["train"])
        asked = self.asked | {"probe": kind, "protocol": self.request.protocol or LINEAR_PROTOCOLS}
        features = {what: [one.digest for one in index.shards] for what, index in indexes.items()}
        groups = [None if one.groups is None else _hash(one.groups.tobytes()) for one in (data.train, data.val)]
        return _hash(json.dumps([_FORMAT, asked, features, groups], sort_keys=True).encode())

    def measure(self, name: str, data: ImageData) -> tuple[Rows, Mapping[str, Any]]:
        """Rows of an encoder by its features, and what is kept next to them."""
        train, test = (_features(self.setting, name, data, part) for part in PARTS)
        cache = get_runs_folder(_root(self.setting), name)  # probes are cached where the worker is
        found: Evaluation | TagEvaluation | RegressionEvaluation
        if data.train.target:
            found = evaluate_numbers(train, test, self.request, cache=cache)
            rows = make_number_rows(found, source=self.source, day=self.day)
        elif data.train.tags:
            found = evaluate_tags(train, test, self.request, cache=cache)
            rows = make_tag_rows(found, source=self.source, day=self.day)
        else:
            request = self.request
            if self.twin is not None:
                request = replace(request, supervised=_features(self.setting, self.twin, data, "train"))
            found = evaluate(train, test, request, card=load_catalogue()[name], cache=cache)
            rows = make_evaluation_rows(found, source=self.source, day=self.day)
        return rows, {} if self.describe is None else self.describe(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSpec:
    """What a worker needs to know to compute metrics of an encoder; small, picklable, the same for all of a run."""

    setting: FeatureRunSettings  # of the features; its fingerprints are also that of "target"
    metrics: tuple[str, ...]
    target: Callable[[], ImageData] | None = None  # opens the data set to transfer to
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by metric
    taken: Mapping[str, Any] = field(
        default_factory=dict
    )  # part, n_images, n, q, seed, recipe of ``compute_metric_inputs``
    source: str = SOURCE
    day: date | None = None
    describe: Callable[[MetricInputs, Sequence[MetricResult]], Mapping[str, Any]] | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """What is to be measured, as JSON values."""
        return {
            "images": dict(self.setting.fingerprints),
            "metrics": list(self.metrics),
            "options": {name: dict(one) for name, one in self.options.items()},
            "taken": dict(self.taken),
            "source": self.source,
        }

    def key(self, name: str, data: ImageData) -> str:
        """Hash of everything that the rows follow from, but for rounding."""
        how = [self.setting.how.precision, self.setting.how.skip_corrupt, get_code_version()]
        asked = [sorted(self.metrics), self.options, self.taken, self.source, how]
        facts = [_FORMAT, asked, self.setting.fingerprints, repr(load_catalogue()[name])]
        return _hash(json.dumps(facts, sort_keys=True, default=repr).encode())

    def measure(self, name: str, data: ImageData) -> tuple[Rows, Mapping[str, Any]]:
        """Rows of an encoder, and what is kept next to them."""
        inputs, found = compute_encoder_metrics(self, name)
        rows = make_metric_rows(found, inputs, source=self.source, day=self.day)
        return rows, {} if self.describe is None else self.describe(inputs, found)


def compute_encoder_metrics(
    measuring: MetricsSpec,
    name: str,
    *,
    progress: Callable[[str], Progress] | None = None,
    tell: Tell | None = None,
) -> tuple[MetricInputs, list[MetricResult]]:
    """Metrics of an encoder, with what they were computed from, in this process.

    The features are kept below the place, or, where that is an address, in the cache of this machine: views are made
    by the augmentations of one encoder's training, so that nobody else could use them.
    """
    setting, target = measuring.setting, None
    data = _opened(setting)
    if measuring.target is not None:
        target = open_image_source(measuring.target)
        _require_same(target.train, setting.fingerprints.get("target"))
    inputs = compute_metric_inputs(
        name,
        data,
        {find_feature_metric(one).needs for one in measuring.metrics},
        target=target,
        root=_root(setting),
        how=setting.how,
        progress=progress,
        **measuring.taken,
    )
    found = []
    for one in measure(measuring.metrics, inputs, seed=measuring.taken.get("seed", 0), options=measuring.options):
        if tell is not None:
            tell(f"{one.metric.title}, {one.seconds_computing:.1f} s")
        found.append(one)
    return inputs, found


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEncoder:
    """What was measured of an encoder, as it lies next to its features."""

    encoder: str
    rows: Rows
    document: dict[str, Any]  # what ``describe`` gave; {} without it


def measure_one(measuring: MeasurementSpec | MetricsSpec, name: str) -> bytes:
    """Measures an encoder and writes the rows, unless they are there; returns the hash in their name.

    DataError if features that it takes, or those of its twin, are not complete.
    """
    data = _opened(measuring.setting)
    at, key = _rows_place(measuring.setting, name), measuring.key(name, data)
    if at.size(f"{key}.csv") is None:
        write_measured(at, key, *measuring.measure(name, data))
    return key.encode()


def find_measured_encoder(
    measuring: MeasurementSpec | MetricsSpec, name: str, data: ImageData
) -> MeasuredEncoder | None:
    """What a worker has measured of an encoder by this request; None if nobody has, or its features are not there."""
    try:
        key = measuring.key(name, data)
    except DataError:
        return None
    return read_measured(_rows_place(measuring.setting, name), key, name)


def write_measured(at: Location, key: str, rows: Rows, document: Mapping[str, Any]) -> None:
    """Writes what was measured of an encoder, the rows last: with them it is complete."""
    table, provenance = build_result_files(rows)
    at.write(f"{key}.json", json.dumps(document).encode())
    at.write(get_provenance_path(Path(f"{key}.csv")).name, provenance)
    at.write_new(f"{key}.csv", table)


def read_measured(at: Location, key: str, name: str) -> MeasuredEncoder | None:
    """What :func:`write_measured` wrote; None if it did not come to its end."""
    table = at.read(f"{key}.csv")
    if table is None:
        return None
    provenance, document = at.read(get_provenance_path(Path(f"{key}.csv")).name), at.read(f"{key}.json")
    where = f"{at.shown}/{key}.csv"
    if provenance is None or document is None:
        raise DataError(f"{where} lies there without its provenance; remove it, and run the same again.")
    try:
        told = json.loads(document)
    except ValueError as error:
        raise DataError(
            f"{at.shown}/{key}.json is damaged ({error}); remove {where}, and run the same again."
        ) from error
    return MeasuredEncoder(encoder=name, rows=read_measured_file(where, table, provenance), document=told)


@dataclass(slots=True, kw_only=True)
class ManyEncodersReport:
    """Result of measuring many encoders, as far as this process is concerned."""

    measured: list[MeasuredEncoder]  # by this request, whoever did it, in the order of the names
    failed: dict[str, Failure]  # by encoder
    still_open: list[str]  # encoders whose features are not complete, or that nobody has measured yet
    name: str  # of the run
    features: RunReport | None = None  # if they were computed by themselves


def evaluate_many(
    measuring: MeasurementSpec,
    names: Sequence[str],
    data: ImageData,
    executor: Executor,
    journal: Journal,
    progress: Progress,
    *,
    resources: Resources,
) -> ManyEncodersReport:
    """Features and measurements of some encoders on workers; each is measured as soon as its features are complete.

    Numbers do not depend on the workers: a piece of work has a fixed number of threads, and the kind of probe goes by
    the memory of this machine, of which probes on its workers take no more than it has. With a part of the work by
    number, an encoder is measured by the part that completes its features, and one that was complete before by the part
    that its place among the names falls to. ``data`` are the images of the setting, as they are opened here.

    QueryError or DataError if the features of the twin cannot be computed; what fails of the other encoders is in the
    result.
    """
    run = partial(run_features, measuring.setting, data=data, executor=executor, journal=journal, resources=resources)
    if measuring.twin is not None:
        of_twin = run(names=[measuring.twin], parts=("train",), progress=progress)
        if of_twin.failures:
            raise DataError(
                f"The features of the supervised twin {measuring.twin!r} could not be computed, and without "
                f"them nothing is measured: {of_twin.failures[0].sentence}"
            )
    queue = _EncoderQueue(_with_memory(measuring, resources), names, data, executor, resources)
    report = run(names=names, parts=PARTS, progress=progress, on_complete=queue.complete, on_outcome=queue.ended)
    failed = {one.encoder: Failure(kind="DataError", text=one.sentence, is_final=False) for one in report.failures}
    return _gathered(queue.measuring, names, data, failed | queue.failed, journal.run, report)


def measure_many_metrics(
    measuring: MetricsSpec,
    names: Sequence[str],
    data: ImageData,
    executor: Executor,
    journal: Journal,
    progress: Progress,
    *,
    resources: Resources,
) -> ManyEncodersReport:
    """Metrics of some encoders on workers, one piece of work per encoder.

    Parameters and result are those of :func:`evaluate_many`.
    """
    own = select_share(executor, names)
    failed: dict[str, Failure] = {}

    def take(outcome: WorkResult[str, bytes]) -> None:
        journal.outcome(outcome, {"encoders": [outcome.work], "part": None, "number": None})
        progress.advance(1)
        if outcome.failed:
            failed[outcome.work] = outcome.failures[-1]

    queue = WorkQueue(own, journal)
    progress.start("metrics", len(own), 0)
    try:
        queue.run(partial(measure_one, measuring), take, executor, resources)
    finally:
        progress.end()
    return _gathered(measuring, names, data, failed, journal.run)


def _gathered(
    measuring: MeasurementSpec | MetricsSpec,
    names: Sequence[str],
    data: ImageData,
    failed: dict[str, Failure],
    run: str,
    features: RunReport | None = None,
) -> ManyEncodersReport:
    """Result of all encoders, whoever measured them."""
    found = {name: find_measured_encoder(measuring, name, data) for name in names if name not in failed}
    return ManyEncodersReport(
        measured=[one for one in found.values() if one is not None],
        failed=failed,
        still_open=[name for name, one in found.items() if one is None],
        name=run,
        features=features,
    )


def _with_memory(measuring: MeasurementSpec, resources: Resources) -> MeasurementSpec:
    """The same with the memory that the kind of probe goes by, so that it is one kind on all workers.

    Only where they compute on GPUs and there is none here, each goes by its own.
    """
    request = measuring.request
    if request.memory_bytes is not None:
        return measuring
    device = request.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if resources.n_gpus and device == "cpu":
        return measuring
    return replace(measuring, request=replace(request, memory_bytes=read_memory_size(torch.device(device))))


class _EncoderQueue:
    """Encoders that are to be measured: so many at once as memory allows."""

    def __init__(
        self,
        measuring: MeasurementSpec,
        names: Sequence[str],
        data: ImageData,
        executor: Executor,
        resources: Resources,
    ) -> None:
        self.measuring, self.failed = measuring, dict[str, Failure]()
        self._data, self._waiting, self._open = data, deque[tuple[str, int]](), dict[str, int]()
        own = select_share(executor, names)
        n_machines = getattr(executor, "n_nodes", 1)  # of a cluster
        if resources.n_gpus:
            n_machines = max(1, int(executor.n_workers * resources.n_gpus))
        memory = measuring.request.memory_bytes
        self._room = None if memory is None else int(_SHARE_OF_MEMORY * memory) * n_machines
        # of what was complete before, each part of the work has its own
        self._of_others = {name for name in names if name not in own and self._there(name) is not None}

    def complete(self, name: str) -> list[FollowUpTask]:
        """What is to be done once the features of an encoder are complete."""
        indexes = self._there(name)
        if indexes is None or name in self._of_others:
            return []
        key = self.measuring.key(name, self._data)
        if _rows_place(self.measuring.setting, name).size(f"{key}.csv") is not None:
            return []
        self._waiting.append((name, self._bytes(indexes["train"])))
        return self._next()

    def ended(self, outcome: WorkResult[FollowUpTask, bytes]) -> list[FollowUpTask]:
        """Takes what became of measuring an encoder; returns what can be done next."""
        name = outcome.work.encoder
        self._open.pop(name, None)
        if outcome.failed:
            self.failed[name] = outcome.failures[-1]
        return self._next()

    def _next(self) -> list[FollowUpTask]:
        found = []
        while self._waiting:
            name, n_bytes = self._waiting[0]
            if self._room is not None and self._open and sum(self._open.values()) + n_bytes > self._room:
                break
            self._waiting.popleft()
            self._open[name] = n_bytes
            found.append(FollowUpTask(encoder=name, do=partial(measure_one, self.measuring, name)))
        return found

    def _there(self, name: str) -> dict[str, FeatureIndex] | None:
        """What the numbers of an encoder follow from; None if it is not complete."""
        try:
            return _indexes(self.measuring, name, self._data)
        except DataError:
            return None

    def _bytes(self, index: FeatureIndex) -> int:
        """Memory that measuring takes, roughly."""
        n = sum(shard.n_rows for shard in index.shards)
        if _kind(self.measuring.request, index) == "logistic":
            return estimate_path_bytes(n, index.dim, max(len(index.classes), 2))
        return 0


def _opened(setting: FeatureRunSettings) -> ImageData:
    data = open_image_source(setting.source)
    for part in PARTS:
        _require_same(getattr(data, part), setting.fingerprints.get(part))
    return data


def _root(setting: FeatureRunSettings) -> Path:
    """Where a worker keeps what only itself can use: the place, or in the cache if that is an address."""
    return resolve_place(setting.place).folder or get_evaluations_folder()


def _require_same(images: ImageSet, fingerprint: str | None) -> None:
    if fingerprint is not None and images.fingerprint != fingerprint:
        raise DataError(
            f"This worker sees other images of {images.name!r} ({images.split}) than who began the run: their hash is "
            f"{images.fingerprint[:12]}, expected {fingerprint[:12]}; give all machines the same files."
        )


def _features(setting: FeatureRunSettings, name: str, data: ImageData, part: str) -> Features:
    """Features of a part as :func:`zoo.features.featurise` returns them: with what is known of the images here."""
    return load_features_of(_place(setting, name, data, part), getattr(data, part))


def _rows_place(setting: FeatureRunSettings, name: str) -> Location:
    return resolve_place(setting.place).below(format_path_part(name)).below("rows")


def _place(setting: FeatureRunSettings, name: str, data: ImageData, part: str) -> Location:
    images, how = getattr(data, part), setting.how
    return get_features_location(
        resolve_place(setting.place), name, images, precision=how.precision, stored=setting.stored
    )


def _indexes(measuring: MeasurementSpec, name: str, data: ImageData) -> dict[str, FeatureIndex]:
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


def _kind(request: Request, index: FeatureIndex) -> str:
    """The kind of the linear probe as far as it is known here: "auto" where it goes by the GPU of the worker."""
    if request.protocol is not None:
        return "streamed" if "streamed" in request.protocol else "logistic"
    if request.probe != "auto" or request.memory_bytes is None:
        return request.probe
    n = sum(shard.n_rows for shard in index.shards)
    return choose_full_shot_kind(n, index.dim, max(len(index.classes), 2), memory_bytes=request.memory_bytes)[0]


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()
