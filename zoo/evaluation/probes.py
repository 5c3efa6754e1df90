"""From a protocol to the probes that it describes, and which protocol a data set of some size gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..optional import requires_extra
from .measuring import TunedProbe
from .protocols import PROTOCOLS, Protocol, protocol_named

with requires_extra("evaluate", needed_for="Training probes"):
    import torch

if TYPE_CHECKING:
    from .logistic import LogisticProbe
    from .streamed import StreamedProbe

SHARE_OF_MEMORY = 0.5
_CONTROL_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True, eq=False, kw_only=True)
class FullShot:
    """A probe for all labels, not yet fitted, and why it is that one."""

    probe: LogisticProbe | StreamedProbe
    name: str  # "logistic" or "streamed"
    needed_bytes: int  # by the path solver
    memory_bytes: int
    reason: str


def full_shot_probe(
    n: int,
    dim: int,
    n_classes: int,
    *,
    memory_bytes: int | None = None,
    device: str | None = None,
    share: float = SHARE_OF_MEMORY,
    logistic: dict[str, Any] | None = None,
    streamed: dict[str, Any] | None = None,
) -> FullShot:
    """The probe that a data set of this size gets.

    Parameters
    ----------
    n, dim, n_classes : int
        Of the training set.
    memory_bytes : int, optional
        By default all that the machine or its control group has, or the GPU if it is the device.
    device : str, optional
        By default "cuda" if there is one.
    share : float
        Of the memory that the path solver may take.
    logistic, streamed : dict, optional
        Options of the one probe and the other.

    Raises
    ------
    QueryError
        If a size is not positive.

    Examples
    --------
    >>> full_shot_probe(50_000, 2048, 1000, memory_bytes=24 << 30, device="cpu").name
    'logistic'
    >>> full_shot_probe(1_281_167, 2048, 1000, memory_bytes=24 << 30, device="cpu").reason
    'streamed: the path solver would need 77.8 GB for 1281167 x 2048 features, more than 50 % of 25.8 GB'
    """
    if min(n, dim, n_classes) < 1 or not 0 < share <= 1:
        raise QueryError(
            f"Got {n} rows, {dim} features, {n_classes} classes and a share of {share}; expected sizes of at least 1 "
            "and a share above 0 and up to 1."
        )
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    memory = memory_bytes if memory_bytes is not None else _memory_bytes(torch.device(chosen))
    needed = path_bytes(n, dim, n_classes)
    fits = needed <= share * memory
    name = "logistic" if fits else "streamed"
    verb, relation = ("needs", "at most") if fits else ("would need", "more than")
    reason = (
        f"{name}: the path solver {verb} {needed / 1e9:.1f} GB for {n} x {dim} features, {relation} {share:.0%} of "
        f"{memory / 1e9:.1f} GB"
    ).replace("%", " %")
    probe: LogisticProbe | StreamedProbe
    if fits:
        from .logistic import LogisticProbe

        probe = LogisticProbe(device=device, **(logistic or {}))
    else:
        from .streamed import StreamedProbe

        probe = StreamedProbe(device=device, **(streamed or {}))
    return FullShot(probe=probe, name=name, needed_bytes=needed, memory_bytes=memory, reason=reason)


def path_bytes(n: int, dim: int, n_classes: int) -> int:
    """Memory of the path solver, counted generously, in float32.

    The features and their coordinates in the basis of their principal directions (of n or dim, whichever is smaller;
    half as much again for the copies that these are made of), ten tables of logits, thirty of weights, and in float64
    the Gram matrix with its eigenvectors, or what certificates need of pairs of classes. A fit that has to go on in
    float64 takes twice the coordinates and tables on top, from the half of the memory that is left free.
    """
    rank = min(n, dim)
    squares = 8 * 3 * max(rank, n_classes) ** 2
    return int(4 * (n * dim + 1.5 * n * rank + 10 * n * n_classes + 30 * rank * n_classes)) + squares


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):  # Windows
        raise QueryError("This system does not say how much memory it has: give memory_bytes.")
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _CONTROL_GROUPS:
        text = limit.read_text().strip() if limit.is_file() else ""
        if text.isdecimal():  # "max" where there is no limit
            found.append(int(text))
    return min(found)


_MODULES = {"LogisticProbe": "logistic", "StreamedProbe": "streamed", "NeighbourProbe": "neighbours"}
_LINEAR = {"logistic": "zoo-logistic-2", "streamed": "zoo-streamed-1"}
_RISK_PROTOCOLS = {"logistic": "zoo-risk-logistic-2", "streamed": "zoo-risk-streamed-1"}
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
        errors=protocol_named(_LINEAR[kind], **own),
        parts=protocol_named(_RISK_PROTOCOLS[kind], **own, **rules),
        reason=reason,
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
