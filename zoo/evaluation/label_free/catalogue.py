"""Calls label-free metrics by their names: the table of contents is :mod:`zoo.results.vocabulary`.

The function of a metric returns a float, or a frozen dataclass with a field ``value``, whose other fields say how it
came about (how many rows were left out, and the like), and whose ``notes``, if it has them, are sentences for whoever
reads the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from hashlib import blake2b
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ...results.vocabulary import LABEL_FREE_METRICS, NEEDS, LabelFreeMetric
from ...results.vocabulary import label_free_metric as metric

__all__ = ["LABEL_FREE_METRICS", "NEEDS", "LabelFreeMetric", "Value", "compute", "function_of", "metric", "value_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A computed metric."""

    value: float
    details: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def function_of(name: str) -> Callable[..., Any]:
    """The function of a metric.

    Raises
    ------
    UnknownName
        If there is no such metric.
    """
    module, _, function = metric(name).function.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f".{module}", __package__), function)
    return found


def compute(name: str, **arguments: Any) -> Value:
    """A metric of the arguments that its line of :data:`NEEDS` names, with its own options.

    Raises
    ------
    UnknownName
        If there is no such metric.
    DataError, QueryError
        As its function.
    """
    return value_of(function_of(name)(**arguments))


def value_of(found: Any) -> Value:
    """A float, or a record with a field ``value``, as a value and what else is known.

    >>> value_of(3.5)
    Value(value=3.5, details={}, notes=())
    """
    if is_dataclass(found) and not isinstance(found, type):
        details = asdict(found)
        return Value(value=float(details.pop("value")), details=details, notes=details.pop("notes", ()))
    return Value(value=float(found), details={})


PROTOCOL = "zoo-label-free-1"
"""Name of this way of measuring, with whatever a user chose otherwise behind it."""

MEANING = (
    "label-free metric of the features of images, of views by the augmentations of the encoder's training, or of "
    "turned images; with the options that follow unless its name says others"
)
SAMPLES: Mapping[str, Any] = MappingProxyType(
    {
        "n_images": 25_600,  # as in RankMe (arXiv:2210.02885, section 3.1)
        "n_and_q_up_to_1024_dimensions": [1_000, 50],  # LiDAR (arXiv:2312.04000, section 4.3) takes more images where
        "n_and_q_above": [5_000, 10],  # features are longer
        "n_pixels": 10_000,
    }
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {name: one.options for name, one in LABEL_FREE_METRICS.items()}
"""Options of each metric by name, as its function has them."""


def digest(name: str) -> str:
    """Hash of what defines the numbers of a metric."""
    content = {"samples": dict(SAMPLES), "options": dict(OPTIONS[name])}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def protocol_row() -> str:
    """Its line in the table of protocols of ``results/README.md``."""
    options = "; ".join(f"{name} {json.dumps(dict(chosen), sort_keys=True)}" for name, chosen in OPTIONS.items())
    samples = "; ".join(f"{name} {json.dumps(value)}" for name, value in SAMPLES.items())
    return f"| `{PROTOCOL}` | {MEANING} | {samples}; {options} |"
