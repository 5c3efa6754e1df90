"""What fits of one path have to do with each other: where the next begins, and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..optional import requires_extra
from .logistic_solver import Point

with requires_extra("evaluate", needed_for="A probe"):
    import torch
    from torch import Tensor


def onwards(points: Sequence[Point], penalty: float) -> tuple[Tensor, Tensor] | None:
    """Where the last two points lead under the next penalty, in parameters and logits."""
    if len(points) < 2 or not points[-2].penalty > points[-1].penalty > penalty:
        return None
    before, last = points[-2:]
    ratio = math.log(last.penalty / penalty) / math.log(before.penalty / last.penalty)
    return (last.parameters - before.parameters) * ratio, (last.logits - before.logits) * ratio


def lowest_from(start: int, n: int, key: Callable[[int], tuple[float, ...]]) -> int:
    """Number of the lowest of n keys downhill from one of them, looking at few: by steps that halve."""
    known: dict[int, tuple[float, ...]] = {}

    def of(number: int) -> tuple[float, ...]:
        if number not in known:
            known[number] = key(number)
        return known[number]

    best, step = start, max(1, n // 4)
    while step:
        beside = [number for number in (best - step, best + step) if 0 <= number < n]
        lower = min([best, *beside], key=of)
        if lower == best:
            step //= 2
        best = lower
    return best


def interpolated(values: Sequence[Tensor], places: Sequence[float], place: float) -> Tensor:
    """Of three arrays at three places the parabola's value at another (Lagrange)."""
    out = torch.zeros_like(values[0])
    for mine, value in zip(places, values, strict=True):
        share = math.prod((place - other) / (mine - other) for other in places if other != mine)
        out.add_(value, alpha=share)
    return out
