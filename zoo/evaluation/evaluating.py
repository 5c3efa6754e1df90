"""Measuring one encoder on one data set: features, label settings, neighbours, risk decomposition, rows of results.

From cheap to expensive; features and each probe are cached as soon as they are there. The linear probe is the
regularisation path where the data fits in the memory of the machine (not what happens to be free, so that a machine
always measures by the same protocol), otherwise it is trained by passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..cards.answers import AnswerColumn, AnswerTable, ShownInNotebooks, make_interval_columns
from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard
from ..datasets import ImageData, ImageSet
from ..datasets.images import CopyCounts, SharedGroups, count_copies, count_shared_groups
from ..encoders.processor import read_memory_size
from ..errors import DataError, QueryError, UnknownName, format_count
from ..features import Features
from ..features import featurise as compute_features
from ..features.maps import parse_map_grid
from ..features.origin import TORCH
from ..features.work_items import FeaturisingOptions, build_features_path
from ..files import format_path_part
from ..optional import require_extra
from ..progress import Progress
from ..results.rows import Measurement
from .arrays import count_block_rows
from .attention_pooling import compute_pooled_maps
from .bootstrap import (
    N_DRAWS,
    Drawn,
    Interval,
    build_outcome_table,
    compute_drawn_interval,
    resample_errors,
)
from .measuring import (
    N_SEEDS,
    PUBLISHED_SETTINGS,
    LabelSetting,
    ProbeCache,
    ProbeMaker,
    ProbeRun,
    SettingResult,
    check_count,
    check_pair,
    compute_mean_error,
    label_setting,
    measure_seeds,
)
from .protocols import PROTOCOLS, Protocol, build_protocol
from .risk import COMPONENTS, FULL, N_SUBSETS, OWN_SPLIT, SUBSET_SPLIT, Order, RiskReport, decompose

with require_extra("evaluate", needed_for="Measuring an encoder"):
    import numpy as np
    import torch

SHARE_OF_MEMORY = 0.5  # that the path solver may take
_MODULES = {"LogisticProbe": "logistic", "StreamedProbe": "streamed", "NeighbourProbe": "neighbours"}
_MODULES |= {"RidgeProbe": "regression", "AttentiveProbe": "attentive"}
_LINEAR = {"logistic": "zoo-logistic-3", "streamed": "zoo-streamed-2"}
LINEAR_PROTOCOLS = (*_LINEAR.values(), "zoo-logistic-2")
"""Protocols of linear probes; that of the decomposition has ``risk-`` before the rest of the name."""
ATTENTIVE = "zoo-attentive-2"
NEIGHBOURS = "zoo-nearest-neighbours-1"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be measured."""

    settings: tuple[str, ...] | None = None  # None: the published ones that the data set is large enough for
    n_seeds: int = N_SEEDS  # of the settings with few labels; all labels are there once
    n_subsets: int = N_SUBSETS  # of the decomposition
    seed: int = 0
    probe: str = "auto"  # "logistic", "streamed", or "auto": the first where it fits in memory; "attentive": of maps
    memory_bytes: int | None = None  # that "auto" reckons with; None: what this machine has
    protocol: str | None = None  # one of LINEAR_PROTOCOLS, whatever ``probe`` says
    changed: Mapping[str, Any] = field(default_factory=dict)  # settings of the linear probe, which then is another
    neighbours: bool = True
    decompose: bool = False
    order: Order = "standard"
    n_refits: int = 0  # resamples of the images on which the probes of the decomposition are trained again
    supervised: Features | float | None = None  # the twin, as zoo.evaluation.risk.decompose takes it
    n_bootstrap: int = N_DRAWS
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeProtocols:
    """The protocols of the linear probes of one encoder on one data set."""

    errors: Protocol
    parts: Protocol  # of the decomposition
    reason: str  # why these


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledComparison:
    """What pooling hides in one label setting: an attentive probe and the linear one of averaged maps, paired."""

    linear: SettingResult
    gain: Interval  # accuracy of the attentive probe minus that of the linear one, in percentage points

    @property
    def text(self) -> str:
        """One sentence."""
        found = self.gain
        interval = "" if found.ci_low is None else f" ({found.ci_low:.1f} to {found.ci_high:.1f})"
        return (
            f"what pooling hides, {self.linear.setting.name}: accuracy of the attentive probe minus that of the linear "
            f"probe of averaged patches, {found.value:+.1f} points{interval}, paired; the linear one errs on "
            f"{self.linear.error.value:.1f} %"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation(ShownInNotebooks):
    """The measurements of one encoder; in a notebook a table of errors, and of their components if there are any."""

    train: Features
    test: Features
    protocols: ProbeProtocols
    settings: tuple[SettingResult, ...]
    left_out: dict[str, str]  # published settings that the data set cannot have, and why
    neighbours: SettingResult | None
    neighbours_protocol: Protocol
    risk: RiskReport | None
    seed: int
    copies: CopyCounts | None  # images that are copies of others; None if their contents are not known
    groups: SharedGroups | None = None  # groups of images in both parts; None if groups are not known
    pooled: tuple[PooledComparison, ...] = ()  # of an attentive probe, by setting
    pooled_risk: RiskReport | None = None  # next to that of attentive probes: of the linear probe of averaged maps
    problems: tuple[str, ...] = ()  # why measured probes could not be cached

    @property
    def kind(self) -> str:
        """Of its probes: "linear" or "attentive"."""
        return "attentive" if self.protocols.errors.probe == "AttentiveProbe" else "linear"

    def build_tables(self, predicted: Mapping[str, Any] | None = None) -> list[AnswerTable]:
        """Errors by number of labels, and components; ``predicted`` are the label law's errors by setting."""
        neighbours, origin = [self.neighbours] if self.neighbours else [], self.train.origin
        results, n = [*self.settings, *neighbours], len(self.settings) + len(neighbours)
        called = [one.setting.name for one in self.settings]
        called += [f"full, {one.runs[0].report['k']} nearest neighbours" for one in neighbours]
        columns = [
            AnswerColumn(None, [origin.encoder] * n, key="encoder"),
            AnswerColumn(None, [origin.dataset] * n, key="dataset"),
            AnswerColumn(
                None, [self.kind] * len(self.settings) + ["nearest neighbours"] * len(neighbours), key="probe"
            ),
            AnswerColumn(None, [one.setting.name for one in results], key="labels"),
            AnswerColumn("labels", called),
            AnswerColumn("number", [one.runs[0].n_train for one in results], key="n_train"),
            *make_interval_columns(one.error for one in results),
            AnswerColumn("seeds", [len(one.runs) for one in results], key="n_seeds"),
        ]
        if predicted:
            laws = [predicted.get(name) for name in called]
            columns += make_interval_columns(laws, "law predicts", key="")
        title = f"{origin.encoder} on {origin.dataset}"
        about = f": {len(self.train.y):,} training and {format_count(len(self.test.y), 'test image')}, "
        about += (
            f"{format_count(len(self.train.classes), 'class', 'classes')}, {format_count(self.train.dim, 'dimension')}"
        )
        parts = [] if self.risk is None else self.risk.build_tables(has_sum=False)
        if self.pooled_risk is not None:
            own, other = *parts, *self.pooled_risk.build_tables(has_sum=False)
            parts = [
                replace(own, title=f"{own.title}, by attentive probes", notes=[]),
                replace(other, title=f"{other.title}, by linear probes of averaged patches"),
            ]
        tables = [AnswerTable(title=title, about=about, columns=columns), *parts]
        if len(self.pooled) > 1:
            points, ends = make_interval_columns((one.gain for one in self.pooled), "hidden", key="hidden_points")
            compared = [
                AnswerColumn("labels", [one.linear.setting.name for one in self.pooled]),
                *make_interval_columns(
                    (one.linear.error for one in self.pooled), "linear probe %", key="linear_percent"
                ),
                replace(points, form=lambda value: f"{value:+.1f}"),
                ends,
            ]
            title = "What pooling hides: points by which a linear probe of averaged patches errs more"
            tables.insert(1, AnswerTable(title=title, columns=compared))
        return tables


def average_maps(maps: Features) -> Features:
    """The mean of the patches of each image, (n, channels), and behind it the class token of maps that have one."""
    grid = parse_map_grid(maps.origin.representation)
    none = np.empty((0, grid.channels)), np.empty((0, grid.channels, 1))
    x = compute_pooled_maps(maps.x, *none, class_token=grid.has_class_token).astype(np.float32)
    origin = replace(maps.origin, representation=f"average of {maps.origin.representation}")
    return replace(maps, x=x, origin=origin, folder=None, where="")


def _compare_pooled(
    train: Features, test: Features, request: Request, results: Sequence[SettingResult], *, cache: Path | None
) -> Iterator[PooledComparison]:
    """The linear probe of averaged maps in each setting, and how much less the attentive one, of ``results``, errs."""
    protocol = PROTOCOLS[_LINEAR["logistic"]]
    make = build_probe_maker(protocol, device=request.device, seed=request.seed)
    runs = None if cache is None else ProbeCache(cache, protocol=protocol.name)
    for result in results:
        how: dict[str, Any] = {"seed": request.seed, "n_bootstrap": request.n_bootstrap}
        n_seeds = len(result.runs)
        linear = measure_seeds(train, test, result.setting, probe=make, n_seeds=n_seeds, cache=runs, **how)
        outcomes = [(None, run.correct) for run in (*linear.runs, *result.runs)]
        drawn = resample_errors(
            build_outcome_table(len(test.y), outcomes),
            {"linear": range(n_seeds), "attentive": range(n_seeds, 2 * n_seeds)},
            n_draws=request.n_bootstrap,
            seed=request.seed,
            groups=test.groups,
        )
        one, other = drawn["linear"], drawn["attentive"]
        gain = compute_drawn_interval(Drawn(value=one.value - other.value, draws=one.draws - other.draws))
        yield PooledComparison(linear=linear, gain=gain)


def evaluate(
    train: Features,
    test: Features,
    request: Request,
    *,
    card: EncoderCard | None = None,
    cache: Path | None = None,
    tell: Tell | None = None,
) -> Evaluation:
    """Measures an encoder by its features.

    Parameters
    ----------
    train, test : Features
        Of the images that probes learn from, and of those that they are tested on.
    request : Request
    card : EncoderCard, optional
        Of the encoder; the decomposition then says if it was pretrained on other images.
    cache : Path, optional
        Folder of cached probes.
    tell : callable, optional
        Called with a few words on what is measured next.

    Raises
    ------
    DataError
        If the features cannot be used together or are not finite, or a class has too few images for a setting that was
        asked for.
    QueryError
        If there is no such setting, kind of probe or number of seeds.
    """
    say = tell or (lambda text: None)
    check_count(request.n_seeds, what="seeds")
    wanted = list_settings(request, PUBLISHED_SETTINGS)
    check_pair(train, test)
    choice = _chosen(train, request)
    is_attentive = choice.errors.probe == "AttentiveProbe"
    kind = "attentive" if is_attentive else "linear"
    make = build_probe_maker(choice.errors, device=request.device, seed=request.seed, features=train)
    runs = None if cache is None else ProbeCache(cache, protocol=choice.errors.name)
    measured = partial(measure_seeds, train, test, seed=request.seed, n_bootstrap=request.n_bootstrap)
    results, left_out = [], {}
    for setting in sorted(wanted, key=lambda setting: _n_labels(setting, train)):
        n_seeds = 1 if setting.is_full else request.n_seeds
        say(f"{setting.name}: {n_seeds} {kind} {'probe' if n_seeds == 1 else 'probes'}")
        try:
            results.append(measured(setting, probe=make, n_seeds=n_seeds, cache=runs))
        except DataError as error:
            if request.settings is not None:
                raise
            left_out[setting.name] = str(error)
    neighbours = None
    by_neighbours = PROTOCOLS[NEIGHBOURS]
    voting = None if cache is None else ProbeCache(cache, protocol=by_neighbours.name)
    if request.neighbours and not is_attentive:
        say("nearest neighbours")
        vote = build_probe_maker(by_neighbours, device=request.device, seed=request.seed)
        neighbours = measured(label_setting("full"), probe=vote, n_seeds=1, cache=voting)
    risk = None
    if request.decompose:
        risk = evaluate_decomposition(train, test, request, card=card, cache=runs, tell=say)
    pooled: tuple[PooledComparison, ...] = ()
    pooled_risk = None
    if is_attentive:
        say("linear probes of averaged maps")
        averages = average_maps(train), average_maps(test)
        pooled = tuple(_compare_pooled(*averages, request, results, cache=cache))
        if request.decompose:
            twin = average_maps(request.supervised) if isinstance(request.supervised, Features) else request.supervised
            linear = replace(request, probe="logistic", changed={}, supervised=twin)
            pooled_risk = evaluate_decomposition(*averages, linear, card=card, cache=cache, tell=say)
    return Evaluation(
        pooled=pooled,
        pooled_risk=pooled_risk,
        train=train,
        test=test,
        protocols=choice,
        settings=tuple(results),
        left_out=left_out,
        neighbours=neighbours,
        neighbours_protocol=by_neighbours,
        risk=risk,
        seed=request.seed,
        copies=count_copies(train.contents, train.y, test.contents, test.y),
        groups=count_shared_groups(train.groups, test.groups),
        problems=tuple(problem for some in (runs, voting) if some is not None for problem in some.problems),
    )


def list_settings(request: Request, usual: Sequence[str]) -> list[LabelSetting]:
    """The label settings of a request, or the usual ones; refuses one that is asked for twice."""
    wanted = [label_setting(name) for name in request.settings or usual]
    if repeated := sorted({setting.name for setting in wanted if wanted.count(setting) > 1}):
        raise QueryError(f"The label setting {repeated[0]!r} is asked for twice; name each once.")
    return wanted


def evaluate_decomposition(
    train: Features,
    test: Features,
    request: Request,
    *,
    card: EncoderCard | None = None,
    cache: Path | ProbeCache | None = None,
    tell: Tell | None = None,
) -> RiskReport:
    """The decomposition alone; parameters and errors are those of :func:`evaluate`."""
    errors = _chosen(train, request).errors
    runs = ProbeCache(cache, protocol=errors.name) if isinstance(cache, Path) else cache
    return decompose(
        train,
        test,
        probe=build_probe_maker(errors, device=request.device, seed=request.seed, features=train),
        supervised=request.supervised,
        n_subsets=request.n_subsets,
        seed=request.seed,
        order=request.order,
        n_bootstrap=request.n_bootstrap,
        n_refits=request.n_refits,
        card=card,
        cache=runs,
        progress=lambda name: None if tell is None else tell(f"risk decomposition: {name}"),
    )


def _chosen(train: Features, request: Request) -> ProbeProtocols:
    """The protocols for a training set of this size: one kind for all label settings, so that errors may be compared.

    Changed settings of the probe and rules of the decomposition become part of their names.
    """
    kind, reason = request.probe, f"{request.probe}: as asked for"
    base = request.protocol
    if base is not None:
        if base not in LINEAR_PROTOCOLS:
            raise UnknownName("protocol of linear probes", base, LINEAR_PROTOCOLS)
        kind, reason = ("streamed" if base == _LINEAR["streamed"] else "logistic"), f"{base}: as asked for"
    elif kind == "auto":
        n_classes = len(train.classes) or int(train.y.max()) + 1
        kind, reason = choose_full_shot_kind(
            len(train.y), train.dim, n_classes, memory_bytes=request.memory_bytes, device=request.device
        )
    base = base or (_LINEAR | {"attentive": ATTENTIVE})[kind]
    known = PROTOCOLS[base].settings
    if unknown := sorted(request.changed.keys() - known.keys()):
        raise QueryError(
            f"Probes that are {kind} have no setting {unknown[0]!r}, expected one of {', '.join(sorted(known))}."
        )
    rules = {"n_subsets": request.n_subsets, "order": request.order}
    return ProbeProtocols(
        errors=build_protocol(base, **request.changed),
        parts=build_protocol(base.replace("zoo-", "zoo-risk-"), **request.changed, **rules),
        reason=reason,
    )


def build_probe_maker(
    protocol: Protocol, *, device: str | None = None, seed: int = 0, features: Features | None = None
) -> ProbeMaker:
    """A function that makes probes by the protocol; ``seed`` is of their random draws, such as the order of rows.

    A probe of maps takes what they are from ``features``; QueryError if these are no maps.
    """
    known: dict[str, Any] = {}
    if protocol.probe == "AttentiveProbe" and features is not None:
        grid = parse_map_grid(features.origin.representation)
        known = {"channels": grid.channels, "class_token": grid.has_class_token}
    return ProbeMaker(protocol=protocol, module=_MODULES[protocol.probe], device=device, seed=seed, known=known)


def choose_full_shot_kind(
    n: int, dim: int, n_classes: int, *, memory_bytes: int | None = None, device: str | None = None
) -> tuple[str, str]:
    """The kind of probe for a training set of this size, "logistic" or "streamed", and the reason.

    ``memory_bytes`` is by default all that the machine or its control group has, or the GPU if it is the device.

    >>> choose_full_shot_kind(50_000, 2048, 1000, memory_bytes=24 << 30)[0]
    'logistic'
    >>> choose_full_shot_kind(1_281_167, 2048, 1000, memory_bytes=24 << 30)[1]
    'streamed: the path solver would need 98.8 GB for 1281167 x 2048 features, more than 50 % of 25.8 GB'
    """
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    memory = memory_bytes if memory_bytes is not None else read_memory_size(torch.device(chosen))
    needed = estimate_path_bytes(n, dim, n_classes)
    fits = needed <= SHARE_OF_MEMORY * memory
    kind = "logistic" if fits else "streamed"
    verb, relation = ("needs", "at most") if fits else ("would need", "more than")
    return kind, (
        f"{kind}: the path solver {verb} {needed / 1e9:.1f} GB for {n} x {dim} features, {relation} "
        f"{100 * SHARE_OF_MEMORY:.0f} % of {memory / 1e9:.1f} GB"
    )


def estimate_path_bytes(n: int, dim: int, n_classes: int) -> int:
    """Memory of the path solver in float32, an upper estimate.

    It has the features and their coordinates in the basis of their principal directions (of n or dim, whichever is
    smaller) unscaled, of the best preparation so far and of the next one (half as much again for the copies that
    these are made of), ten tables of logits, thirty of weights, and in float64 the Gram matrix with its eigenvectors,
    or what certificates need of pairs of classes. A fit that has to go
    on in float64 takes twice the coordinates and tables on top, from the half of the memory that is left free.
    """
    rank = min(n, dim)
    squares = 8 * 3 * max(rank, n_classes) ** 2
    return int(4 * (n * dim + 3.5 * n * rank + 10 * n * n_classes + 30 * rank * n_classes)) + squares


def _n_labels(setting: LabelSetting, train: Features) -> float:
    if setting.n_per_class is not None:
        return float(setting.n_per_class * max(len(train.classes), 1))
    return len(train.y) * (100 if setting.percent is None else setting.percent) / 100


PARTS = ("train", "val")


def get_features_folder(root: Path, name: str, images: ImageSet, *, precision: str) -> Path:
    """Folder of the features of one part, by encoder, data set, part, images and precision."""
    return root.joinpath(*build_features_path(name, images, precision=precision))


def get_runs_folder(root: Path, name: str) -> Path:
    """Folder of the measured probes of an encoder."""
    return root / format_path_part(name) / "probes"


def locate_speed(root: Path, name: str) -> Path:
    """The file of how fast an encoder was in ``zoo choose``, which is there after any race."""
    return get_runs_folder(root, name).parent / "speed.json"


def featurise_data(
    name: str,
    data: ImageData,
    *,
    root: Path,
    how: FeaturisingOptions | None = None,
    load: Callable[[str], tuple[torch.nn.Module, Any]] | None = None,
    progress: Callable[[str], Progress] | None = None,
    parts: tuple[str, ...] = PARTS,
) -> dict[str, Features]:
    """Features of the parts ("train", "val") of a data set by their names; those in their folder are not recomputed.

    ``name`` is the id of an encoder of the zoo, with its representation if it is not that of the card; ``root`` is the
    folder of all evaluations; ``load`` gives encoder and preprocessing for the id (:func:`zoo.load` by default);
    ``progress`` gives, for a part, what reports its progress.
    """
    from ..loading import load as load_encoder

    n_planned = len(data.train) + (0 if data.is_whole else len(data.val))
    chosen = replace(how or FeaturisingOptions(), n_planned=n_planned)
    card_id = load_catalogue().id_of(name)
    encoder, preprocess = (load or load_encoder)(card_id)
    found = {}
    for part in parts:
        images: ImageSet = getattr(data, part)
        found[part] = compute_features(
            encoder,
            preprocess,
            images,
            name=card_id,
            folder=get_features_folder(root, card_id, images, precision=chosen.precision),
            representation=card_id.partition("@")[2] or "card",
            progress=None if progress is None else progress(part),
            **asdict(chosen),
        )
    return found


SOURCE = "measured"
_PERCENT, _POINTS = "percent", "percentage points"

Rows = dict[Measurement, dict[str, Any]]


def make_evaluation_rows(evaluation: Evaluation, *, source: str = SOURCE, day: date | None = None) -> Rows:
    """Measurements with their provenance: one row for each probe, and one for each part of the full-shot error."""
    writing = RowTemplate(evaluation.train, evaluation.test, source, day)
    rows: Rows = {}
    for metric, protocol, run in _runs(evaluation):
        error = compute_mean_error((run,), groups=_groups_of_run(evaluation, run))
        measured = writing.row(metric, run.split, run.n_train, run.seed, error, _PERCENT, protocol)
        rows[measured] = writing.provenance(protocol, report=run.report | {"n_tuning": run.n_tuning}, subsets=run.rows)
    if evaluation.risk is not None:
        rows |= _rows_of_parts(writing, evaluation.risk, evaluation.protocols.parts)
    return rows


def _groups_of_run(evaluation: Evaluation, run: ProbeRun) -> np.ndarray | None:
    """Groups of the images that a probe was evaluated on; None where they are not known."""
    part = evaluation.train if run.split in (OWN_SPLIT, SUBSET_SPLIT) else evaluation.test
    return part.groups if part.groups is None or run.evaluated is None else part.groups[run.evaluated]


def _runs(evaluation: Evaluation) -> Iterator[tuple[str, Protocol, ProbeRun]]:
    seen = set()
    metric = f"{evaluation.kind}_probe_error"
    linear = [(metric, run) for result in evaluation.settings for run in result.runs]
    if evaluation.risk is not None:
        own = {"linear_probe_error": metric}  # the twin's is of a network
        linear += [
            (own.get(risk.metric, risk.metric), run) for risk in evaluation.risk.risks.values() for run in risk.runs
        ]
    for metric, run in linear:
        if (metric, run.split, run.seed) not in seen:  # R_US is the full-shot error of the first seed
            seen.add((metric, run.split, run.seed))
            yield metric, evaluation.protocols.errors, run
    if evaluation.neighbours is not None:
        for run in evaluation.neighbours.runs:
            yield "knn_error", evaluation.neighbours_protocol, run


def _rows_of_parts(writing: RowTemplate, report: RiskReport, protocol: Protocol) -> Rows:
    report_fields = {
        "order": report.order,
        "n_train": report.n_train,
        "n_test": report.n_test,
        "warning": report.warning,
        "risks_percent": {name: risk.error.value for name, risk in report.risks.items()},
    }
    rows: Rows = {}
    for part in COMPONENTS:
        if part in report.intervals:
            found = report.intervals[part]
            measured = writing.row(part, FULL.split, report.n_train, report.seed, found, _POINTS, protocol)
            rows[measured] = writing.provenance(protocol, report=report_fields)
    twin = report.risks.get("R_PhiF")
    if twin is not None and not twin.runs:  # its error was given, not measured
        measured = writing.row(twin.metric, twin.split, report.n_train, None, twin.error, _PERCENT, protocol)
        rows[measured] = writing.provenance(protocol, report={"recorded_elsewhere": True})
    return rows


class RowTemplate:
    """The fields that all rows of one evaluation share; ``source`` says who measured, ``day`` is today by default."""

    def __init__(self, train: Features, test: Features, source: str, day: date | None) -> None:
        self.origin, self.source, self.day = train.origin, source, (day or date.today()).isoformat()
        self.images = {"train": train.origin.images_hash, "val": test.origin.images_hash}
        self.digests = {"train": hash_features(train), "val": hash_features(test)}

    def row(
        self, metric: str, split: str, n_train: int, seed: int | None, found: Interval, unit: str, protocol: Protocol
    ) -> Measurement:
        return Measurement(
            encoder=self.origin.encoder,
            metric=metric,
            dataset=self.origin.dataset,
            split=split,
            n_train=n_train,
            seed=seed,
            value=found.value,
            unit=unit,
            ci_low=found.ci_low,
            ci_high=found.ci_high,
            protocol=protocol.name,
            source=self.source,
            date=self.day,
        )

    def provenance(
        self, protocol: Protocol, *, report: dict[str, Any], subsets: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return {
            "weights_hash": self.origin.weights_hash,
            "preprocess_hash": self.origin.preprocess_hash,
            "images_hash": self.images,
            "features_hash": self.digests,
            "subset_hash": None if subsets is None else dict(subsets),
            "code_version": self.origin.code_version,
            "representation": self.origin.representation,
            "precision": self.origin.precision,
            **({} if self.origin.backend == TORCH else {"backend": self.origin.backend}),
            "settings": protocol.as_dict(),
            "report": report,
        }


def hash_features(features: Features) -> str:
    """Hash of the numbers and labels, row by row; the same in any shards, or in memory."""
    digest = blake2b(digest_size=16)
    for x, y in features.batches(count_block_rows(features.dim)):
        digest.update(np.ascontiguousarray(x, dtype="<f4").tobytes())
        digest.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()
