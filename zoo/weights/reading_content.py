"""The last check: what has been read is plain values, tensors and inert stand-ins, and small enough to walk through."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .reading_inert import Inert, Refusal
from .reading_tensors import TYPES

MOST_DEPTH = 100  # of containers in containers; whoever walks through them may do it by recursion
MOST_VALUES = 10_000_000  # counted as often as they are met on a walk
_PLAIN = frozenset({bool, int, float, str, bytes, type(None)})
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_TYPES = frozenset(TYPES.values())


def check_content(content: Any) -> None:
    """Refuses content that a reader of it could stumble over.

    Inert stand-ins may hold each other, as configurations do; whoever walks through containers does not enter them.

    Raises
    ------
    Refusal
        If there is anything but plain values, strided tensors of plain numbers on the CPU, and ``Inert``; if containers
        hold themselves, are nested deeply, or hold each other so often that a walk through them would not end.
    """
    sizes: dict[int, tuple[int, int]] = {}  # id of a finished container -> values below it, depth
    seen: set[int] = set()  # ids of tensors and inert objects
    roots = [content]
    while roots:
        for item in _measured(roots.pop(), sizes, seen):
            roots += [item.arguments, item.attributes, item.state]


def _measured(root: Any, sizes: dict[int, tuple[int, int]], seen: set[int]) -> list[Inert]:
    """Measures all containers below ``root``, innermost first; the inert objects in them that were not seen before."""
    found: list[Inert] = []
    open_: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        value, is_finished = waiting.pop()
        if type(value) not in _CONTAINERS:
            if type(value) not in _PLAIN and id(value) not in seen:
                seen.add(id(value))
                _check_object(value, found)
        elif is_finished:
            open_.discard(id(value))
            sizes[id(value)] = _size(value, sizes)
        elif id(value) not in sizes:
            if id(value) in open_:
                raise Refusal("it has containers that hold themselves")
            open_.add(id(value))
            waiting.append((value, True))
            waiting.extend((item, False) for item in _items(value))
    return found


def _size(container: Any, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    n, depth = 1, 0
    for item in _items(container):
        n_below, depth_below = sizes.get(id(item), (1, 0)) if type(item) in _CONTAINERS else (1, 0)
        n += n_below
        depth = max(depth, depth_below)
    if n > MOST_VALUES or depth + 1 > MOST_DEPTH:
        raise Refusal("it nests containers too deeply, or uses them over and over in each other")
    return n, depth + 1


def _items(container: Any) -> list[Any]:
    return [*container.keys(), *container.values()] if type(container) is dict else list(container)


def _check_object(value: Any, found: list[Inert]) -> None:
    if isinstance(value, Inert):
        found.append(value)
    elif isinstance(value, Tensor):
        _check_tensor(value)
    else:
        raise Refusal("it holds an array that is never filled, or a storage that is no tensor's")


def _check_tensor(tensor: Tensor) -> None:
    if type(tensor) is not Tensor or tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise Refusal(f"it holds a tensor that is {tensor.layout} on {tensor.device.type}, expected a plain one")
    if tensor.dtype not in _TYPES or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        raise Refusal(f"it holds a tensor of {tensor.dtype}, expected plain numbers")
    if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
        raise Refusal("it holds truth values that are neither true nor false")
