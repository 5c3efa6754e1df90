"""Calls label-free metrics by their names: the table of contents is :mod:`zoo.labelfree`.

The function of a metric returns a float, or a frozen dataclass with a field ``value``, whose other fields say how it
came about (how many rows were left out, and the like), and whose ``notes``, if it has them, are sentences for whoever
reads the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from importlib import import_module
from typing import Any

from ...labelfree import LABEL_FREE_METRICS, NEEDS, LabelFreeMetric, metric

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
