"""From a protocol to the probes that it describes, and which protocol a data set of some size gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import QueryError
from .full_shot import full_shot_probe
from .measuring import TunedProbe
from .protocols import PROTOCOLS, Protocol, protocol_named

_MODULES = {"LogisticProbe": "probe", "StreamedProbe": "streamed", "NeighbourProbe": "neighbours"}
_LINEAR = {"logistic": "zoo-logistic-2", "streamed": "zoo-streamed-1"}
_PARTS = {"logistic": "zoo-risk-logistic-2", "streamed": "zoo-risk-streamed-1"}
NEIGHBOURS = "zoo-nearest-neighbours-1"
KINDS = ("auto", *_LINEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The protocols of the linear probes of one encoder on one data set."""

    errors: Protocol
    parts: Protocol  # of the decomposition
    reason: str  # why these


def linear_protocols(
    kind: str,
    *,
    n_train: int,
    dim: int,
    n_classes: int,
    device: str | None,
    changed: Mapping[str, Any] | None = None,
    parts: Mapping[str, Any] | None = None,
) -> Choice:
    """The protocols for a training set of this size.

    Parameters
    ----------
    kind : str
        "logistic", "streamed", or "auto", which takes the first where it fits in memory. One kind for all label
        settings, so that its errors may be compared.
    changed : mapping, optional
        Settings of the probe; those that are not the protocol's become part of its name.
    parts : mapping, optional
        Rules of the decomposition, likewise.

    Raises
    ------
    QueryError
        If there is no such option.
    """
    reason = f"{kind}: as asked for"
    if kind == "auto":
        found = full_shot_probe(n_train, dim, n_classes, device=device)
        kind, reason = found.name, found.reason
    own, rules = dict(changed or {}), dict(parts or {})
    known = PROTOCOLS[_LINEAR[kind]].settings
    if unknown := sorted(own.keys() - known.keys()):
        raise QueryError(f"A {kind} probe has no setting {unknown[0]!r}, expected one of {', '.join(sorted(known))}.")
    return Choice(
        errors=protocol_named(_LINEAR[kind], **own), parts=protocol_named(_PARTS[kind], **own, **rules), reason=reason
    )


def neighbours_protocol() -> Protocol:
    """The protocol of the nearest neighbours."""
    return PROTOCOLS[NEIGHBOURS]


def probe_maker(protocol: Protocol, *, device: str | None = None, seed: int = 0) -> Callable[[], TunedProbe]:
    """Makes probes as the protocol says.

    Parameters
    ----------
    device : str, optional
        Where they are trained; a GPU where there is one.
    seed : int
        Of what a probe draws itself, such as the order of rows.
    """
    kind = getattr(import_module(f".{_MODULES[protocol.probe]}", __package__), protocol.probe)

    def made() -> TunedProbe:
        probe: TunedProbe = kind(**protocol.settings, device=device, seed=seed)
        return probe

    return made
