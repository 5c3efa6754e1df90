"""Measuring an encoder: probes on its features, and what their errors say about it.

Everything is imported, with the libraries that it needs, when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .neighbours import NeighbourProbe
    from .probe import LogisticProbe
    from .streamed import StreamedProbe

__all__ = ["LogisticProbe", "NeighbourProbe", "StreamedProbe"]

_MODULES = {"LogisticProbe": "probe", "NeighbourProbe": "neighbours", "StreamedProbe": "streamed"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
