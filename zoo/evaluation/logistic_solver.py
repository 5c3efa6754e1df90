"""One penalty at a time: quasi-Newton steps on the logits of all images, two matrix products an iteration.

A step is a direction in the parameters and the same direction in the logits (one product); any length of it is then
tried without a product; its gradient is the second. The loss is convex and the penalty strongly so: by the weights,
the objective exceeds its least value by no more than the squared gradient over twice the penalty (the duality gap of
the dual point that the probabilities are). The solver stops when that, and an estimate of what the intercepts add, is a
small share of the objective itself; :meth:`.logistic_problem.Exact.certificate` then says whether it is so.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..optional import requires_extra
from .logistic_curvature import Memory, Preconditioner, dot, squared
from .logistic_problem import Problem

with requires_extra("evaluate", needed_for="A probe"):
    import torch
    from torch import Tensor

_TOO_SMALL_TO_SEE = {torch.float32: 1e-5, torch.float64: 1e-11}
"""A promised decrease, as a share of the objective, whose measured value may be mostly rounding."""
_VISIBLE = {torch.float32: 1e-6, torch.float64: 1e-13}
"""A decrease of the objective, as a share of it, that is more than rounding."""
_PATIENCE = {torch.float32: 12, torch.float64: 50}
"""Iterations without a smaller gap or objective, after which more of this precision would not help."""
_SHORT = 0.1
_ALWAYS, _EVERY = 3, 4
"""The preconditioner is renewed in each of the first iterations and then now and then: it changes slowly."""


@dataclass(slots=True, kw_only=True, eq=False)
class Point:
    """Where a solver is, or where it ended."""

    penalty: float
    parameters: Tensor  # (n_classes, rank + 1)
    logits: Tensor  # (n, n_classes), of the training images
    gradient: Tensor | None = None  # of the loss alone, (n_classes, rank + 1)
    objective: float = float("inf")
    gap: float = float("inf")  # about a bound of what the objective is above its least value, as a share of it
    gradient_norm: float = float("inf")  # of the objective
    iterations: int = 0
    converged: bool = False
    stalled: bool = False
    weights: Tensor | None = None  # float64 (n_classes, dim + 1), of the scaled features, if float64 found them


class Solver:
    """Solves one problem under one penalty after the other, and keeps what it learns of the curvature."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.preconditioner = Preconditioner(problem)
        self.memory = Memory()
        self._space: _Space | None = None

    def cold(self, penalty: float) -> Point:
        """A start from nothing: weights 0, intercepts the log frequencies."""
        parameters = self.problem.start()
        logits = parameters[:, -1].expand(self.problem.n, -1).contiguous()
        return Point(penalty=penalty, parameters=parameters, logits=logits)

    def at(self, parameters: Tensor, penalty: float) -> Point:
        """A start from parameters (n_classes, rank + 1)."""
        return Point(penalty=penalty, parameters=parameters, logits=self.problem.logits(parameters))

    def minimise(
        self,
        start: Point,
        penalty: float,
        *,
        tol: float,
        max_iterations: int,
        along: tuple[Tensor, Tensor] | None = None,
    ) -> Point:
        """Minimises loss + penalty / 2 |weights|^2.

        Parameters
        ----------
        start : Point
            Left as it is.
        penalty : float
        tol : float
            Stop when ``gap`` is no larger.
        max_iterations : int
        along : pair of tensors, optional
            A first direction, in parameters and logits, that costs no product: where the path was going.
        """
        problem, memory = self.problem, self.memory
        memory.move(penalty)
        parameters, logits, gradient = start.parameters, start.logits, start.gradient
        ridge = torch.full_like(problem.spectrum, penalty)
        ridge[-1] = 0.0
        space = self._space = self._space or _Space(*(torch.empty_like(logits) for _ in range(4)))
        loss, residuals = problem.loss(logits, out=space.before)
        weight = squared(parameters)
        if gradient is None:
            gradient = problem.pulled(residuals)
        best_gap, lowest, since_best, iterations = float("inf"), float("inf"), 0, 0
        patience, visible = _PATIENCE[logits.dtype], _VISIBLE[logits.dtype]
        while True:
            objective = loss + 0.5 * penalty * weight
            full = torch.addcmul(gradient, parameters, ridge)
            if iterations < _ALWAYS or iterations % _EVERY == 0:
                self.preconditioner.renew(residuals, gradient, ridge)
            gap, norm = self._gap(full, penalty)
            gap /= max(objective, torch.finfo(torch.float64).tiny)
            since_best = 0 if gap < 0.9 * best_gap or objective < lowest * (1.0 - visible) else since_best + 1
            best_gap, lowest = min(gap, best_gap), min(objective, lowest)
            converged, stalled = gap <= tol, since_best >= patience
            if converged or stalled or iterations >= max_iterations:
                break
            if along is not None:
                step, move, along = *along, None
            else:
                step = memory.direction(full, self.preconditioner)
                move = None
            slope = dot(full, step)
            if slope >= 0.0:
                if move is not None:
                    continue
                if not memory.pairs:  # the preconditioner is positive: only rounding is left
                    stalled = True
                    break
                memory.pairs.clear()
                continue
            if move is None:
                move = problem.logits(step, out=space.move)
            line = _Line(loss, objective, slope, slope - dot(gradient, step), penalty * squared(step))
            length, loss = self._searched(line, logits, move, space)
            if length == 0.0:
                stalled = True
                break
            if length < _SHORT:  # the loss bends otherwise than what is remembered of it
                memory.pairs.clear()
            step = step * length
            parameters = parameters + step
            before, gradient = gradient, problem.pulled(space.residuals)
            memory.remember(step, gradient - before)
            weight = squared(parameters)
            spare = logits if iterations else torch.empty_like(logits)  # the first logits are the caller's
            logits, space.logits = space.logits, spare
            residuals, space.residuals = space.residuals, residuals
            space.before = residuals
            iterations += 1
        return Point(
            penalty=penalty, parameters=parameters, logits=logits, gradient=gradient, objective=objective, gap=gap,
            gradient_norm=norm, iterations=start.iterations + iterations, converged=converged, stalled=stalled,
        )  # fmt: skip

    def _gap(self, full: Tensor, penalty: float) -> tuple[float, float]:
        """Bound of what is left to gain, and the gradient's norm; the intercepts count by their own curvature."""
        weights = squared(full)
        intercepts = full[:, -1].double().square()
        curvature = self.problem.n * self.preconditioner.bulk.double()
        left = weights / (2.0 * penalty) + float((intercepts / (2.0 * curvature)).sum())
        return left, (weights + float(intercepts.sum())) ** 0.5

    def _searched(self, line: _Line, logits: Tensor, move: Tensor, space: _Space) -> tuple[float, float]:
        """A good length along a direction, by parabolas through the slope and tried lengths, and the loss there.

        Where that is, ``space`` holds; a length of 0 if no better place was found.
        """
        length, best_length, best = 1.0, 0.0, line.objective
        for _ in range(10):
            loss = self.problem.stepped(logits, move, length, space.logits, space.residuals)
            value = line.value(loss, length)
            excess = value - line.objective - length * line.slope
            unseen = _TOO_SMALL_TO_SEE[logits.dtype] * line.objective
            if abs(line.slope) * length < unseen and value <= line.objective + unseen:
                return length, loss
            ideal = -0.5 * line.slope * length**2 / excess if excess > 0.0 else 4.0 * length
            if value < line.objective and 0.5 * length <= ideal <= 2.0 * length:
                return length, loss
            if value < best:
                best, best_length = value, length
            elif best_length > 0.0:  # a longer or shorter length was better: take it
                break
            length = min(max(ideal, 0.1 * length), 4.0 * length)
        if best_length == 0.0:
            return 0.0, line.loss
        return best_length, self.problem.stepped(logits, move, best_length, space.logits, space.residuals)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The objective along a direction, but for what the logits say."""

    loss: float
    objective: float
    slope: float
    slope_of_penalty: float
    bend: float  # second derivative of the penalty

    def value(self, loss: float, length: float) -> float:
        """The objective at a length where the loss is known."""
        return loss + (self.objective - self.loss) + length * self.slope_of_penalty + 0.5 * self.bend * length**2


@dataclass(slots=True, eq=False)
class _Space:
    """Tables (n, n_classes) that iterations and fits use again, for new pages cost more than sums.

    None of them is part of a point that was returned.
    """

    logits: Tensor  # where a search tries
    before: Tensor  # residuals where it starts
    residuals: Tensor  # where it tries
    move: Tensor  # of the logits, along the direction
