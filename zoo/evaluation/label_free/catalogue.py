"""Metrics of features by name, and the protocols of their numbers; :mod:`zoo.results.vocabulary` lists the metrics.

Of both kinds: label-free metrics and, from :mod:`zoo.evaluation.transferability`, scores of labelled features.

The function of a metric returns a float, or a frozen dataclass with a field ``value``, whose other fields are details
(how many rows were left out, and the like); ``notes``, if it has them, are sentences for readers of the value. As with
probes (:mod:`zoo.evaluation.protocols`), a protocol never changes: another default, or another computation that moves a
value by more than rounding, is a new name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from hashlib import blake2b
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ...results.vocabulary import FEATURE_METRICS, LABEL_FREE, TRANSFERABILITY, feature_metric

PROTOCOL = "zoo-label-free-1"  # a row of results names the options that a user changed behind it
SCORES_PROTOCOL = "zoo-transferability-1"
PROTOCOLS: Mapping[str, str] = MappingProxyType({LABEL_FREE: PROTOCOL, TRANSFERABILITY: SCORES_PROTOCOL})
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        LABEL_FREE: "label-free metric of the features of images, of views by the augmentations of the encoder's "
        "training, or of turned images; with the options that follow unless its name says others",
        TRANSFERABILITY: "transferability score of the features of images and their labels; copies of an image and "
        "images of one group are left out together where single ones are left out; with the options that follow "
        "unless its name says others",
    }
)
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "n_images": 25_600,  # as in RankMe (arXiv:2210.02885, section 3.1)
        "n_and_q_up_to_1024_dimensions": [1_000, 50],  # LiDAR (arXiv:2312.04000, section 4.3) takes more images where
        "n_and_q_above": [5_000, 10],  # features are longer
        "n_pixels": 10_000,
    }
)
SAMPLES_OF: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {LABEL_FREE: SAMPLES, TRANSFERABILITY: MappingProxyType({"n_images": SAMPLES["n_images"]})}
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {name: one.options for name, one in FEATURE_METRICS.items()}
"""Options of each metric by name; a test compares them with the defaults of its function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The value of a metric, its details and notes."""

    value: float
    details: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def function_of(name: str) -> Callable[..., Any]:
    """The function of a metric."""
    one = feature_metric(name)
    module, _, function = one.function.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"..{one.package}.{module}", __package__), function)
    return found


def compute(name: str, **arguments: Any) -> Value:
    """The value of a metric of features by its name.

    Parameters
    ----------
    name : str
        A key of :data:`zoo.results.vocabulary.FEATURE_METRICS`, such as ``"rankme"``.
    **arguments
        The arrays that the metric needs (:data:`zoo.results.vocabulary.NEEDS` names them), and options of its function.

    Returns
    -------
    Value
        ``value`` in the unit of the metric; ``details`` and ``notes`` of its record. The metric's ``unit`` and
        ``higher_is_better`` say how to read it.

    Raises
    ------
    UnknownName
        If there is no such metric.
    DataError, QueryError
        As its function does.

    Examples
    --------
    >>> import numpy as np
    >>> round(compute("rankme", z=np.eye(4)).value, 4)
    4.0
    """
    return value_of(function_of(name)(**arguments))


def value_of(found: Any) -> Value:
    """A float, or a record with a field ``value``, as a value with details.

    >>> value_of(3.5)
    Value(value=3.5, details={}, notes=())
    """
    if is_dataclass(found) and not isinstance(found, type):
        details = asdict(found)
        return Value(value=float(details.pop("value")), details=details, notes=details.pop("notes", ()))
    return Value(value=float(found), details={})


def digest(name: str) -> str:
    """Hash of everything that defines the numbers of a metric."""
    content = {"samples": dict(SAMPLES_OF[feature_metric(name).kind]), "options": dict(OPTIONS[name])}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def protocol_row(kind: str = LABEL_FREE) -> str:
    """The line of the protocol of a kind of metrics in the table of ``results/README.md``."""
    chosen = [one for one in FEATURE_METRICS.values() if one.kind == kind]
    options = "; ".join(f"{one.name} {json.dumps(dict(one.options), sort_keys=True)}" for one in chosen)
    samples = "; ".join(f"{name} {json.dumps(value)}" for name, value in SAMPLES_OF[kind].items())
    return f"| `{PROTOCOLS[kind]}` | {MEANINGS[kind]} | {samples}; {options} |"
