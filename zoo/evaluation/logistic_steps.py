"""What fits of one path have to do with each other: where the next begins, and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .logistic_solver import Point, Solver


def solved(
    solver: Solver,
    start: Point,
    penalty: float,
    *,
    tol: float,
    max_iterations: int,
    quick: bool = False,
    along: tuple[Tensor, Tensor] | None = None,
) -> Point:
    """The fit under a penalty; where float32 comes no nearer to it than ``tol`` allows, float64 goes on."""
    point = solver.minimise(start, penalty, tol=tol, max_iterations=max_iterations, quick=quick, along=along)
    if quick or not point.stalled or point.converged or solver.problem.z.dtype == torch.float64:
        return point
    exact = Solver(solver.problem.in_float64())
    again = exact.refreshed(Point(penalty=penalty, parameters=point.parameters.double(), logits=point.logits))
    again.iterations = point.iterations
    end = exact.minimise(again, penalty, tol=tol, max_iterations=max_iterations)
    solver.problem.products = exact.problem.products
    like = point.parameters.dtype
    gradient = None if end.gradient is None else end.gradient.to(like)
    return Point(
        penalty=penalty, parameters=end.parameters.to(like), logits=end.logits.to(like), gradient=gradient,
        objective=end.objective, gap=end.gap, gradient_norm=end.gradient_norm, iterations=end.iterations,
        converged=end.converged, stalled=end.stalled,
    )  # fmt: skip


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
