"""The regularisation path of a multinomial logistic regression: from strong to weak, then in between.

A search walks by powers of ten from the penalty that hides all but the first direction of the data towards none,
each fit beginning where the last two point to, and as far as the validation data want it. There every fit stops early
(``_LOOSE``), for it only says where the best penalty lies. Between the best and its two neighbours the path is smooth
in the logarithm of the penalty: validation logits interpolated between the three fits, at the price of no fit at all,
say which penalty is best, and that one is solved to the end.
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

_STEP = 10.0
_LOOSE = 3e-3
_CLEARLY = 0.005  # of the validation log loss
_BETWEEN = 8  # interpolated penalties between two neighbours of the best
_FITTED = 1e-5  # objective per image, in nats, at which the walk has reached its weak end
_PATIENCE = {"log_loss": 1, "error": 2}  # fits without a better one that end the walk


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
class _Fit:
    point: Point
    logits: Tensor | None  # of the validation images
    record: PathPoint


class Path:
    """Fits of one problem under several penalties, judged by one validation set.

    ``c_times_penalty`` is C times the solver's penalty: the square of the features' scale and what two classes share.
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
        self._quick = problem.quick is not None

    def along(self, penalties: Sequence[float]) -> tuple[Point, PathPoint]:
        """Fits every penalty, from strong to weak, each to the end; returns the best."""
        fits: list[_Fit] = []
        best: _Fit | None = None
        for penalty in sorted(penalties, reverse=True):
            fit = self._continued(fits, penalty, self.tol)
            fit.logits = None
            fits = [*fits[-1:], fit]
            best = fit if best is None or self._key(fit) < self._key(best) else best
        assert best is not None
        return best.point, best.record

    def searched(self, most: int) -> tuple[Point, PathPoint]:
        """Looks for the best penalty with at most so many fits (three at least); returns the fit under it."""
        if self.problem.z.shape[1] == 1:  # features that tell nothing: every penalty gives the same
            return self.along([1.0])
        fits = self._walked(most)
        best = min(range(len(fits)), key=lambda place: self._key(fits[place]))
        penalty, start = self._between(fits, best)
        final = self._fitted(start, penalty, self.tol)
        if self._promised_more(fits[best], final):
            again = self._fitted(fits[best].point, fits[best].point.penalty, self.tol)
            final = min(again, final, key=self._key)
        return final.point, final.record

    def towards(self, penalty: float) -> tuple[Point, PathPoint]:
        """One penalty, without knowing any other: by tenfold steps from a strong one, each just good enough."""
        spectrum = self.problem.spectrum[:-1]
        current = float(spectrum.max()) / self.problem.n_classes if len(spectrum) else penalty
        points = [self.solver.cold(max(current, penalty))]
        while current > penalty * math.sqrt(_STEP):
            start = points[-1]
            along = _onwards(points, current) if len(points) > 2 else None
            point = solved(
                self.solver, start, current, tol=max(_LOOSE, self.tol), max_iterations=self.max_iterations,
                quick=self._quick, along=along,
            )  # fmt: skip
            points = [points[0], *points[1:][-1:], point]
            self.iterations += point.iterations
            point.iterations = 0
            current /= _STEP
        final = self._fitted(
            points[-1], penalty, self.tol, along=_onwards(points, penalty) if len(points) > 2 else None
        )
        return final.point, final.record

    def _walked(self, most: int) -> list[_Fit]:
        """Fits from strong to weak, of which the best is not at an end unless there are no more."""
        spectrum = self.problem.spectrum[:-1]
        largest = float(spectrum.max())
        penalty = largest / self.problem.n_classes
        half_seen = float(spectrum.median()) / self.problem.n_classes
        fits: list[_Fit] = []
        best, since_best = 0, 0
        loose = max(_LOOSE, self.tol)
        while len(fits) < max(most - 2, 1):
            may_end = not fits or (penalty * _STEP <= half_seen and self._beats_guessing(fits[best]))
            if may_end and since_best >= _PATIENCE[self.select]:
                break
            fits.append(self._continued(fits[-2:], penalty, loose))
            if self._key(fits[-1]) < self._key(fits[best]) or len(fits) == 1:
                best, since_best = len(fits) - 1, 0
            else:
                since_best += 1
            for place, fit in enumerate(fits[:-2]):  # logits are large: only the best, its neighbours and the last two
                if abs(place - best) > 1:
                    fit.logits, fit.point.logits = None, fit.point.logits[:0]
            if fits[-1].point.objective < _FITTED * self.problem.n:
                break
            penalty /= _STEP
        while best == 0 and len(fits) < max(most - 1, 1):
            fit = self._fitted(fits[0].point, fits[0].point.penalty * _STEP, loose)
            fits.insert(0, fit)
            best = 0 if self._key(fit) < self._key(fits[1]) else 1
        return fits

    def _beats_guessing(self, fit: _Fit) -> bool:
        """Whether it errs less on the validation images than the most frequent of their classes would."""
        if self.validation is None:
            return True
        known = self.validation.y[self.validation.y >= 0]
        most = int(torch.bincount(known).max()) if len(known) else 0
        return fit.record.validation_error_percent < 100.0 * (1.0 - most / len(self.validation.y))

    def _continued(self, fits: Sequence[_Fit], penalty: float, tol: float) -> _Fit:
        """A fit that begins with the last one, and goes first where the last two point to."""
        if not fits:
            return self._fitted(self.solver.cold(penalty), penalty, tol)
        return self._fitted(fits[-1].point, penalty, tol, along=_onwards([fit.point for fit in fits], penalty))

    def _between(self, fits: Sequence[_Fit], best: int) -> tuple[float, Point]:
        """The best penalty between the best fit and its neighbours by interpolation, and the point to begin with."""
        if self.validation is None or not 0 < best < len(fits) - 1:
            return fits[best].point.penalty, fits[best].point
        three = fits[best - 1 : best + 2]
        places = [math.log(fit.point.penalty) for fit in three]
        between = [
            left + (right - left) * step / (_BETWEEN + 1)
            for left, right in ((places[0], places[1]), (places[1], places[2]))
            for step in range(1, _BETWEEN + 1)
        ]
        between.insert(_BETWEEN, places[1])
        keys = []
        for place in between:
            judged = [fit.logits for fit in three if fit.logits is not None]
            error, loss = self.validation.judged(_interpolated(judged, places, place))
            keys.append(self._ordered(error, loss, math.exp(place)))
        chosen = between[min(range(len(keys)), key=keys.__getitem__)]
        parameters = _interpolated([fit.point.parameters for fit in three], places, chosen)
        logits = _interpolated([fit.point.logits for fit in three], places, chosen)
        return math.exp(chosen), Point(penalty=math.exp(chosen), parameters=parameters, logits=logits)

    def _fitted(self, start: Point, penalty: float, tol: float, *, along: tuple[Tensor, Tensor] | None = None) -> _Fit:
        quick = self._quick and tol > self.tol
        start.iterations = 0
        if self._quick and not quick:
            start, along = self.solver.refreshed(start), None  # logits that came from bfloat16 end here
        point = solved(
            self.solver, start, penalty, tol=tol, max_iterations=self.max_iterations, quick=quick, along=along
        )
        logits, error, loss = None, math.nan, math.nan
        if self.validation is not None:
            logits = self.validation.logits(point.parameters, quick=quick)
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
        return _Fit(point, logits, record)

    def _promised_more(self, loose: _Fit, final: _Fit) -> bool:
        """Whether a fit that stopped early was so much better than the final one that it deserves an end, too."""
        if loose.point.penalty == final.point.penalty:
            return False
        if self.select == "error":
            return loose.record.validation_error_percent < final.record.validation_error_percent
        return loose.record.validation_log_loss < final.record.validation_log_loss * (1.0 - _CLEARLY)

    def _key(self, fit: _Fit) -> tuple[float, ...]:
        return self._ordered(fit.record.validation_error_percent, fit.record.validation_log_loss, fit.point.penalty)

    def _ordered(self, error: float, loss: float, penalty: float) -> tuple[float, ...]:
        loss = math.inf if math.isnan(loss) else loss
        return (error, loss, -penalty) if self.select == "error" else (loss, error, -penalty)


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
    if not point.stalled or point.converged or solver.problem.z.dtype == torch.float64:
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


def _onwards(points: Sequence[Point], penalty: float) -> tuple[Tensor, Tensor] | None:
    """Where the last two points lead under the next penalty, in parameters and logits."""
    if len(points) < 2 or not points[-2].penalty > points[-1].penalty > penalty:
        return None
    before, last = points[-2:]
    ratio = math.log(last.penalty / penalty) / math.log(before.penalty / last.penalty)
    return (last.parameters - before.parameters) * ratio, (last.logits - before.logits) * ratio


def _interpolated(values: Sequence[Tensor], places: Sequence[float], place: float) -> Tensor:
    """Of three arrays at three places the parabola's value at another (Lagrange)."""
    out = torch.zeros_like(values[0])
    for mine, value in zip(places, values, strict=True):
        share = math.prod((place - other) / (mine - other) for other in places if other != mine)
        out.add_(value, alpha=share)
    return out
