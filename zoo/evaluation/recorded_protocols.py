"""Checks the settings of recorded rows: they must be those that the name of a row's protocol stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import QueryError
from ..results.values import Row
from .label_free.catalogue import OPTIONS
from .label_free.catalogue import PROTOCOLS as METRIC_PROTOCOLS
from .protocols import PROTOCOLS, restore_protocol

_CURVES = "zoo-curve-"


def find_protocol_problem(row: Row, provenance: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings that a row was measured by; "" if nothing is, None if nobody here can tell.

    They must be those that the name of its protocol stands for, down to the digest.
    """
    base, settings = row.protocol.partition(" (")[0], provenance.get("settings")
    told = settings if isinstance(settings, Mapping) else {}
    if base in PROTOCOLS:
        try:
            name = restore_protocol(told).name
        except QueryError as error:
            return str(error)
        return "" if name == row.protocol else f"The protocol is {row.protocol!r}, and its settings are of {name!r}."
    if base in METRIC_PROTOCOLS.values():
        return _find_metric_problem(row, base, told)
    if base.startswith(_CURVES):
        from .curves.recipe import TASKS, hash_recipe

        report = provenance.get("report")
        task = TASKS.get(report.get("task", "")) if isinstance(report, Mapping) else None
        wanted = None if task is None else hash_recipe(task)
        if wanted is not None and told.get("digest") == wanted:
            return ""
        return f"The settings of {row.protocol!r} have the digest {told.get('digest')!r}, expected {wanted!r}."
    return None


def _find_metric_problem(row: Row, base: str, told: Mapping[str, Any]) -> str:
    usual = OPTIONS.get(row.metric)
    options = told.get("options")
    if usual is None or told.get("name") != base or not isinstance(options, Mapping):
        return f"The settings of {row.metric!r} are of {told.get('name')!r}, expected {base!r} with its options."
    unknown = sorted(options.keys() - usual.keys())
    if unknown:
        return f"{row.metric!r} was measured with the option {unknown[0]!r}, expected {', '.join(usual) or 'none'}."
    silent = [name for name, value in options.items() if value != usual[name] and f"{name}=" not in row.protocol]
    if silent:
        return f"The protocol {row.protocol!r} does not name the option {silent[0]!r}, expected every changed one."
    return ""
