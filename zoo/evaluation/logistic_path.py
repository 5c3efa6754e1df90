"""Fits of a multinomial logistic regression along its regularisation path, judged by validation images.

Each fit begins where the last two point to. What only says where the best penalty lies may stop early
(``Path.loose``). Where products in bfloat16 are allowed, changes are computed in them; a fit that counts is then
computed anew in float32, and goes on in it if that is not the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from .logistic_problem import Problem, cross_entropies
from .logistic_solver import Point, Solver
from .logistic_steps import onwards, solved

STEP = 10.0
_LOOSE = 3e-3
_NEARLY = 0.7  # of the tolerance, for what bfloat16 says of a fit that counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPoint:
    """One value of C as it was fitted; errors in percent, losses in nats."""

    C: float
    iterations: int
    objective: float
    gradient_norm: float
    gap: float
    tol: float
    converged: bool
    validation_error_percent: float
    validation_log_loss: float

    def as_dict(self) -> dict[str, Any]:
        """Names and values, fit for JSON."""
        return asdict(self)


@dataclass(slots=True, eq=False)
class Validation:
    """Images that penalties are judged by."""

    z: Tensor  # (n_val, rank + 1)
    y: Tensor  # (n_val,), -1 where the class is none of the training data's
    quick: Tensor | None = None  # z in bfloat16

    def logits(self, parameters: Tensor, *, quick: bool = False) -> Tensor:
        """(n_classes, rank + 1) -> (n_val, n_classes)."""
        if quick and self.quick is not None:
            return (self.quick @ parameters.to(torch.bfloat16).T).to(parameters.dtype)
        return self.z.to(parameters.dtype) @ parameters.T

    def judged(self, logits: Tensor) -> tuple[float, float]:
        """Error in percent, where a class that was not trained is always missed, and log loss of the other images."""
        known = self.y >= 0
        own = logits.gather(1, self.y.clamp(min=0)[:, None]).squeeze(1)
        losses = cross_entropies(logits, own)
        wrong = float((logits.argmax(dim=1) != self.y).double().mean())
        return 100.0 * wrong, float(losses[known].mean()) if bool(known.any()) else float("nan")


@dataclass(slots=True, eq=False)
class Fit:
    """One fit, with what it says of the validation images while that may be needed."""

    point: Point
    logits: Tensor | None  # of the validation images
    record: PathPoint


class Path:
    """Fits of one problem under several penalties, judged by one validation set.

    ``c_times_penalty`` is C times the solver's penalty: the square of the features' scale and what two classes share.
    ``quick`` says whether changes are still computed in bfloat16, which ends with the first fit that gets lost in it.
    """

    def __init__(
        self,
        problem: Problem,
        validation: Validation | None,
        *,
        select: str,
        tol: float,
        max_iterations: int,
        c_times_penalty: float,
        progress: Callable[[PathPoint], None] | None = None,
    ) -> None:
        self.problem, self.validation, self.select, self.tol = problem, validation, select, tol
        self.max_iterations, self.progress, self.c_times_penalty = max_iterations, progress, c_times_penalty
        self.solver = Solver(problem)
        self.records: list[PathPoint] = []
        self.iterations = 0
        self.quick = problem.quick is not None
        self.loose = max(_LOOSE, tol)

    def along(self, penalties: Sequence[float]) -> tuple[Point, PathPoint]:
        """Fits every penalty, from strong to weak, each to the end; returns the best."""
        fits: list[Fit] = []
        best: Fit | None = None
        for penalty in sorted(penalties, reverse=True):
            fit = self.continued(fits, penalty, self.tol)
            fit.logits = None
            fits = [*fits[-1:], fit]
            best = fit if best is None or self.key(fit) < self.key(best) else best
        assert best is not None
        return best.point, best.record

    def towards(self, penalty: float) -> tuple[Point, PathPoint]:
        """One penalty, without knowing any other: by tenfold steps from a strong one, each just good enough."""
        spectrum = self.problem.spectrum[:-1]
        current = float(spectrum.max()) / self.problem.n_classes if len(spectrum) else penalty
        points = [self.solver.cold(max(current, penalty))]
        while current > penalty * math.sqrt(STEP):
            start = points[-1]
            along = onwards(points, current) if len(points) > 2 else None
            point = self._solved(start, current, tol=self.loose, quick=True, along=along)
            points = [points[0], *points[1:][-1:], point]
            self.iterations += point.iterations
            point.iterations = 0
            current /= STEP
        final = self.fitted(points[-1], penalty, self.tol, along=onwards(points, penalty) if len(points) > 2 else None)
        return final.point, final.record

    def continued(self, fits: Sequence[Fit], penalty: float, tol: float) -> Fit:
        """A fit that begins with the last one, and goes first where the last two point to."""
        if not fits:
            return self.fitted(self.solver.cold(penalty), penalty, tol)
        return self.fitted(fits[-1].point, penalty, tol, along=onwards([fit.point for fit in fits], penalty))

    def fitted(self, start: Point, penalty: float, tol: float, *, along: tuple[Tensor, Tensor] | None = None) -> Fit:
        """A fit from a point, judged and written down."""
        loose = tol > self.tol
        start.iterations = 0
        if self.quick and not loose:  # rounded changes, but of what was exact, and exact again before it counts
            exact = self.solver.refreshed(start)
            start = self._solved(exact, penalty, tol=_NEARLY * tol, quick=True, along=along)
            iterations, along = start.iterations, None
            start = self.solver.refreshed(start)
            start.iterations = iterations
        point = self._solved(start, penalty, tol=tol, quick=loose, along=along)
        logits, error, loss = None, math.nan, math.nan
        if self.validation is not None:
            logits = self.validation.logits(point.parameters, quick=loose and self.quick)
            error, loss = self.validation.judged(logits)
        record = PathPoint(
            C=self.c_times_penalty / penalty, iterations=point.iterations, objective=point.objective,
            gradient_norm=point.gradient_norm, gap=point.gap, tol=tol, converged=point.converged,
            validation_error_percent=error, validation_log_loss=loss,
        )  # fmt: skip
        self.records.append(record)
        self.iterations += point.iterations
        if self.progress is not None:
            self.progress(record)
        return Fit(point, logits, record)

    def _solved(
        self, start: Point, penalty: float, *, tol: float, quick: bool, along: tuple[Tensor, Tensor] | None
    ) -> Point:
        """A fit from a point; the first that bfloat16 gets lost in is made again without, and so is all after it."""
        most = self.max_iterations
        if quick and self.quick:
            point = solved(self.solver, start, penalty, tol=tol, max_iterations=most, quick=True, along=along)
            if point.converged or not point.stalled:
                return point
            self.quick = False
            self.solver.memory.pairs.clear()
            start = self.solver.refreshed(start)
            start.iterations = point.iterations
        return solved(self.solver, start, penalty, tol=tol, max_iterations=most, along=along)

    def key(self, fit: Fit) -> tuple[float, ...]:
        """What is lower for the better of two fits."""
        return self.ordered(fit.record.validation_error_percent, fit.record.validation_log_loss, fit.point.penalty)

    def ordered(self, error: float, loss: float, penalty: float) -> tuple[float, ...]:
        """Error and log loss in the order that they are chosen by; of equals, the stronger penalty."""
        loss = math.inf if math.isnan(loss) else loss
        return (error, loss, -penalty) if self.select == "error" else (loss, error, -penalty)
