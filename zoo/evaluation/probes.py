"""Probes by protocol: which one a data set of some size gets, and how it is made.

With all labels it is the regularisation path where the data fits in memory, else passes over it. The path has an
optimum to converge to and needs no search over learning rates. The choice goes by the memory of the machine, not by
what happens to be free, so that the same machine always measures by the same protocol.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import QueryError
from ..optional import requires_extra
from .measuring import TunedProbe
from .protocols import PROTOCOLS, Protocol, protocol_named

with requires_extra("evaluate", needed_for="Training probes"):
    import torch

SHARE_OF_MEMORY = 0.5  # that the path solver may take
_CONTROL_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def full_shot_kind(
    n: int, dim: int, n_classes: int, *, memory_bytes: int | None = None, device: str | None = None
) -> tuple[str, str]:
    """The kind of probe for a training set of this size, "logistic" or "streamed", and the reason.

    ``memory_bytes`` is by default all that the machine or its control group has, or the GPU if it is the device.

    >>> full_shot_kind(50_000, 2048, 1000, memory_bytes=24 << 30)[0]
    'logistic'
    >>> full_shot_kind(1_281_167, 2048, 1000, memory_bytes=24 << 30)[1]
    'streamed: the path solver would need 77.8 GB for 1281167 x 2048 features, more than 50 % of 25.8 GB'
    """
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    memory = memory_bytes if memory_bytes is not None else _memory_bytes(torch.device(chosen))
    needed = path_bytes(n, dim, n_classes)
    fits = needed <= SHARE_OF_MEMORY * memory
    kind = "logistic" if fits else "streamed"
    verb, relation = ("needs", "at most") if fits else ("would need", "more than")
    return kind, (
        f"{kind}: the path solver {verb} {needed / 1e9:.1f} GB for {n} x {dim} features, {relation} "
        f"{100 * SHARE_OF_MEMORY:.0f} % of {memory / 1e9:.1f} GB"
    )


def path_bytes(n: int, dim: int, n_classes: int) -> int:
    """Memory of the path solver in float32, an upper estimate.

    It has the features and their coordinates in the basis of their principal directions (of n or dim, whichever is
    smaller; half as much again for the copies that these are made of), ten tables of logits, thirty of weights, and in
    float64 the Gram matrix with its eigenvectors, or what certificates need of pairs of classes. A fit that has to go
    on in float64 takes twice the coordinates and tables on top, from the half of the memory that is left free.
    """
    rank = min(n, dim)
    squares = 8 * 3 * max(rank, n_classes) ** 2
    return int(4 * (n * dim + 1.5 * n * rank + 10 * n * n_classes + 30 * rank * n_classes)) + squares


def _memory_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):  # Windows
        raise QueryError("This system does not say how much memory it has: choose 'logistic' or 'streamed' probes.")
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _CONTROL_GROUPS:
        text = limit.read_text().strip() if limit.is_file() else ""
        if text.isdecimal():  # "max" where there is no limit
            sizes.append(int(text))
    return min(sizes)


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

    ``kind`` is "logistic", "streamed", or "auto", which takes the first where it fits in memory: one kind for all label
    settings, so that their errors may be compared. ``changed`` are settings of the probe and ``parts`` rules of the
    decomposition; those that are not the protocol's become part of its name.
    """
    reason = f"{kind}: as asked for"
    if kind == "auto":
        kind, reason = full_shot_kind(n_train, dim, n_classes, device=device)
    settings, rules = dict(changed or {}), dict(parts or {})
    known = PROTOCOLS[_LINEAR[kind]].settings
    if unknown := sorted(settings.keys() - known.keys()):
        raise QueryError(f"A {kind} probe has no setting {unknown[0]!r}, expected one of {', '.join(sorted(known))}.")
    return Choice(
        errors=protocol_named(_LINEAR[kind], **settings),
        parts=protocol_named(_RISK_PROTOCOLS[kind], **settings, **rules),
        reason=reason,
    )


def probe_maker(protocol: Protocol, *, device: str | None = None, seed: int = 0) -> Callable[[], TunedProbe]:
    """A function that makes probes by the protocol; ``seed`` is of their random draws, such as the order of rows."""
    probe_class = getattr(import_module(f".{_MODULES[protocol.probe]}", __package__), protocol.probe)
    return partial(probe_class, **protocol.settings, device=device, seed=seed)
