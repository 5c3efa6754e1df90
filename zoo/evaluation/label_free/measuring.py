"""Metrics of the features of one encoder on one data set, computed and timed, or refused, and their rows of results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ...results.rows import Measurement
from ...results.vocabulary import FeatureMetric, feature_metric
from ..evaluating import SOURCE, features_digest
from .catalogue import OPTIONS, PROTOCOLS, compute
from .inputs import Inputs, Sizes, taken_by
from .spectrum import spectrum_of

_TYPES: dict[type, Any] = {bool: bool, int: int, float: (int, float), str: str}  # by the type of the default
_TYPES_OF_NONE: dict[str, Any] = {
    "n_clusters": int,
    "last": int,
    "discard": (int, float),
    "shrinkage": (int, float),
    "C": (int, float),
    "critic": str,
}
_WORDS = {bool: "true or false", int: "a whole number", (int, float): "a finite number", str: "a word"}
Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The value of one metric, or why it has none."""

    metric: FeatureMetric
    value: float | None  # None where it was refused
    details: Mapping[str, Any]  # other fields of the function's record
    reason: str  # a sentence; "" where there is a value
    notes: tuple[str, ...]  # sentences for readers of the value
    dataset: str
    split: str  # in the words of results/
    n_images: int  # different ones, without those of a validation set; 0 where it was refused before that
    n_views: int | None  # of each image; None where there are no views
    seconds_featurising: float  # of its samples in this run, which it may share with others
    seconds_computing: float
    seed: int
    options: Mapping[str, Any]


def measure(
    metrics: Iterable[str], inputs: Inputs, *, seed: int = 0, options: Options | None = None
) -> Iterator[Measured]:
    """Compute metrics one after the other; those that need the same arrays follow each other.

    Yields each as soon as it is computed. Where images or features do not allow a metric, its ``reason`` says why.
    ``inputs`` have what these metrics need; ``seed`` is for metrics that draw something; ``options`` are by metric, as
    ``{"lidar": {"delta": 1e-4}}``. Unknown metrics and options are refused before any is computed.
    """
    wanted = [feature_metric(name) for name in dict.fromkeys(metrics)]
    given = {name: dict(chosen) for name, chosen in (options or {}).items()}
    check_options([one.name for one in wanted], given)
    return _measured(wanted, inputs, seed, given)


def _measured(
    wanted: list[FeatureMetric], inputs: Inputs, seed: int, options: Mapping[str, Mapping[str, Any]]
) -> Iterator[Measured]:
    for need in dict.fromkeys(one.needs for one in wanted):
        try:
            arguments, reason = inputs.arguments(need), ""
        except (DataError, QueryError) as error:
            arguments, reason = {}, str(error)
        spectrum = None
        for one in wanted:
            if one.needs != need:
                continue
            taken = taken_by(one, arguments)
            if one.streams and arguments:  # one pass over the features for all of these
                spectrum = spectrum or spectrum_of(arguments["z"])
                taken = {"z": spectrum}
            yield _one(one, inputs, taken, reason, seed, options.get(one.name, {}))


def _one(
    one: FeatureMetric, inputs: Inputs, arguments: dict[str, Any], reason: str, seed: int, options: Mapping[str, Any]
) -> Measured:
    value, details = None, {}
    notes: tuple[str, ...] = ()
    begun_s = time.perf_counter()
    if not reason:
        seeded = {"seed": seed} if one.seeded else {}
        try:
            found = compute(one.name, **arguments, **(seeded | dict(options)))
            value, details, notes = found.value, dict(found.details), found.notes
        except (DataError, QueryError, MissingExtra) as error:
            reason = str(error)
    seconds = time.perf_counter() - begun_s
    if value is not None and not math.isfinite(value):
        value, reason = None, f"{one.title} came out as {value}, which is no number to compare encoders by."
    samples = {} if not arguments else inputs.samples_for(one.needs)
    first = next(iter(samples.values()), None)
    n_views = {"views": inputs.sizes.q, "rotations": 4}.get(one.needs)
    n_rows = 0 if first is None else len(first.y) // (n_views or 1)
    return Measured(
        metric=one,
        value=value,
        details=details,
        reason=reason,
        notes=notes,
        dataset=inputs.dataset,
        split=_split(one.needs, inputs),
        n_images=n_rows,
        n_views=n_views,
        seconds_featurising=sum(sample.seconds for sample in samples.values()),
        seconds_computing=seconds,
        seed=seed,
        options=dict(options),
    )


def rows_of_measured(
    measured: Iterable[Measured], inputs: Inputs, *, source: str = SOURCE, day: date | None = None
) -> dict[Measurement, dict[str, Any]]:
    """Rows of ``results/`` with their provenance, for :func:`zoo.results.recording.record`; refused metrics have none.

    ``source`` is who measured, and ``day`` today by default.
    """
    digests: dict[str, str] = {}
    rows = {}
    for one in measured:
        if one.value is None:
            continue
        samples = inputs.samples_for(one.metric.needs)
        for name, sample in samples.items():
            digests[name] = digests.get(name) or features_digest(sample.features)
        origin = next(iter(samples.values())).features.origin
        settings = _settings(one, inputs)
        changed = ", ".join(
            f"{name}={json.dumps(value, sort_keys=True, default=str)}" for name, value in settings.items()
        )
        protocol = PROTOCOLS[one.metric.kind]
        row = Measurement(
            encoder=origin.encoder,
            metric=one.metric.name,
            dataset=one.dataset,
            split=one.split,
            n_train=None,
            seed=one.seed,
            value=one.value,
            unit=one.metric.unit,
            ci_low=None,
            ci_high=None,
            protocol=f"{protocol} ({changed})" if changed else protocol,
            source=source,
            date=(day or date.today()).isoformat(),
        )
        rows[row] = {
            "weights_hash": origin.weights_hash,
            "preprocess_hash": origin.preprocess_hash,
            "images_hash": {name: sample.images.fingerprint for name, sample in samples.items()},
            "data_hash": dict(inputs.data_hash),
            "features_hash": {name: digests[name] for name in samples},
            "subset_hash": None,
            "code_version": origin.code_version,
            "representation": origin.representation,
            "precision": origin.precision,
            "settings": {"name": protocol} | asdict(inputs.sizes) | {"options": dict(one.options)},
            "report": dict(one.details)
            | {"n_images": one.n_images, "n_views": one.n_views, "notes": [*inputs.notes, *one.notes]},
        }
    return rows


def _settings(one: Measured, inputs: Inputs) -> dict[str, Any]:
    """Settings of a measurement that differ from the usual ones, by name."""
    found = {name: value for name, value in one.options.items() if value != OPTIONS[one.metric.name].get(name)}
    usual = Sizes.usual(inputs.card.representation.dim, seed=inputs.sizes.seed)
    sizes = {"views": ("n", "q"), "rotations": ("n",)}.get(one.metric.needs, ("n_images",))
    found |= {
        name: getattr(inputs.sizes, name) for name in sizes if getattr(inputs.sizes, name) != getattr(usual, name)
    }
    if one.metric.needs in ("views", "rotations") and one.n_images < inputs.sizes.n:
        found["n"] = one.n_images  # there were no more
    precision = next(iter(inputs.samples_for(one.metric.needs).values())).features.origin.precision
    if precision != "float32":
        found["precision"] = precision
    if one.metric.needs == "views" and inputs.recipe is not None and not inputs.recipe.is_of_card:
        found["augmentations"] = list(inputs.recipe.augmentations)
    if one.seed != inputs.sizes.seed:
        found["seed_of_images"] = inputs.sizes.seed
    if one.metric.needs == "source and target":
        found["target"] = inputs.samples["target"].images.name
    return dict(sorted(found.items()))


def _split(need: str, inputs: Inputs) -> str:
    if need in ("features", "labels"):
        return inputs.part
    if need == "views":
        of_training = inputs.recipe is None or inputs.recipe.is_of_card
        return f"{inputs.part} {'pretraining-augmented' if of_training else 'augmented'}"
    return "train -> val"


def check_options(metrics: Iterable[str], options: Options) -> None:
    """Refuse options of metrics that are not measured, unknown options, and values of another type."""
    names = [feature_metric(name).name for name in metrics]
    for name, chosen in options.items():
        if feature_metric(name).name not in names:
            raise QueryError(f"Options are given for {name!r}, which is not measured; expected {', '.join(names)}.")
        known = OPTIONS[name]
        for option, value in chosen.items():
            if option not in known:
                raise QueryError(f"{name!r} has no option {option!r}; expected one of {', '.join(known) or 'none'}.")
            expected = _TYPES.get(type(known[option])) or _TYPES_OF_NONE.get(option)
            if expected is None:
                raise QueryError(f"{name}.{option} takes an array; call the function from Python.")
            if value is None and known[option] is None:
                continue
            fits = isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
            if not fits or (isinstance(value, float) and not math.isfinite(value)):
                raise QueryError(f"{name}.{option} is {value!r}, expected {_WORDS[expected]}.")
