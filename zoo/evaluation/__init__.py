"""Measuring an encoder: probes on its features, and what their errors say about it.

Everything is imported, with the libraries that it needs, when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluating import Evaluation, Request, evaluate
    from .measuring import measure, measure_seeds
    from .neighbours import NeighbourProbe
    from .probe import LogisticProbe
    from .risk import RiskReport, decompose
    from .settings import label_setting
    from .streamed import StreamedProbe

__all__ = [
    "Evaluation",
    "LogisticProbe",
    "NeighbourProbe",
    "Request",
    "RiskReport",
    "StreamedProbe",
    "decompose",
    "evaluate",
    "label_setting",
    "measure",
    "measure_seeds",
]

_MODULES = {
    "Evaluation": "evaluating",
    "LogisticProbe": "probe",
    "NeighbourProbe": "neighbours",
    "Request": "evaluating",
    "RiskReport": "risk",
    "StreamedProbe": "streamed",
    "decompose": "risk",
    "evaluate": "evaluating",
    "label_setting": "settings",
    "measure": "measuring",
    "measure_seeds": "measuring",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
