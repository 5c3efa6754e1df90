"""Fits of a multinomial logistic regression along its regularisation path, judged by validation images, and their best.

Each fit begins where the last two point to. Fits that only locate the best penalty may stop early
(``RegularisationPath.loose``). A fit that counts is measured in float64 in the features themselves, whatever it was
solved in, and goes on in float64 if that does not certify it.

The search (:func:`search_path`) walks by powers of ten from the penalty that hides all but the first direction of the
data towards none, as far as the validation data want it. Between the best and its two neighbours the path is smooth in
the logarithm of the penalty: validation logits interpolated between the three fits, without any further fit, say which
penalty is best, and that one is solved to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..optional import require_extra
from .logistic_basis import Basis
from .logistic_certificate import Float64Problem
from .logistic_solver import (
    InterpolatedLogits,
    LogisticProblem,
    LogisticSolver,
    SolverPoint,
    ValidationSet,
    interpolate_parabola,
)

with require_extra("evaluate", needed_for="A probe"):
    import torch
    from torch import Tensor


def extrapolate_points(points: Sequence[SolverPoint], penalty: float) -> tuple[Tensor, Tensor] | None:
    """Extrapolation of the last two points, in the logarithm of the penalty, to the next one: parameters and logits."""
    if len(points) < 2 or not points[-2].penalty > points[-1].penalty > penalty:
        return None
    before, last = points[-2:]
    ratio = math.log(last.penalty / penalty) / math.log(before.penalty / last.penalty)
    return (last.parameters - before.parameters) * ratio, (last.logits - before.logits) * ratio


def find_lowest_index(start: int, n: int, key: Callable[[int], tuple[float, ...]]) -> int:
    """Index of the lowest of n keys downhill from ``start``, by steps that halve, so that few keys are computed."""
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


STEP = 10.0
_LOOSE_TOL = 3e-3
_SHARE_OF_TOL = 0.5  # that float64 goes on to
# Where one direction's square is so many times the next one's, the excess may be near its bound, the gap: a fit that
# counts then goes on for that share of the tolerance
_HUGE_DIRECTION, _SHARE_OF_AIM = 1e4, 0.2
_CERTIFICATE_TRIES = 3
_STRONG_PENALTY = 2.0**24  # times the square of the largest direction: the weights are then one step from 0
_LEAST_PENALTY_IN_FLOAT32 = 1e-30


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


def make_choice_key(select: str, error: float, log_loss: float, weakness: float) -> tuple[float, ...]:
    """What fits are chosen by, the lowest first; of equals the less ``weakness``, which C or minus the penalty is."""
    log_loss = math.inf if math.isnan(log_loss) else log_loss
    return (error, log_loss, weakness) if select == "error" else (log_loss, error, weakness)


@dataclass(slots=True, eq=False)
class PathFit:
    """One fit, with its logits of the validation images while they may be needed."""

    point: SolverPoint
    weights: Tensor | None  # float64 (n_classes, dim + 1), of the scaled features, and intercepts; of a fit that counts
    logits: Tensor | None  # of the validation images
    record: PathPoint


class RegularisationPath:
    """Fits of one problem under several penalties, judged by one validation set.

    ``c_times_penalty`` is C times the solver's penalty: the square of the features' scale, and 2 for two classes. The
    validation set of a fold is judged with those of the others, and by itself for ``progress`` alone.
    """

    def __init__(
        self,
        basis: Basis,
        problem: LogisticProblem,
        exact: Float64Problem,
        validation: ValidationSet | None,
        *,
        select: str,
        tol: float,
        max_iterations: int,
        c_times_penalty: float,
        progress: Callable[[PathPoint], None] | None = None,
        is_fold: bool = False,
    ) -> None:
        self.basis, self.problem, self.exact, self.validation = basis, problem, exact, validation
        self.select, self.tol = select, tol
        self.max_iterations, self.progress, self.c_times_penalty = max_iterations, progress, c_times_penalty
        self.judges = validation is not None and (progress is not None or not is_fold)
        self.solver = LogisticSolver(problem)
        self.records: list[PathPoint] = []
        self.iterations = 0
        self.loose = max(_LOOSE_TOL, tol)
        self.largest = float(problem.spectrum[:-1].max()) if len(problem.spectrum) > 1 else 0.0
        first, second = problem.spectrum[:-1].topk(2).values.tolist() if len(problem.spectrum) > 2 else (0.0, 0.0)
        self.has_huge_direction = first > _HUGE_DIRECTION * second
        self._wide: tuple[Basis, LogisticSolver] | None = None

    @property
    def products(self) -> int:
        """Matrix products with all images so far, those of certificates included."""
        wide = 0 if self._wide is None or self._wide[1] is self.solver else self._wide[1].problem.products
        return self.problem.products + self.exact.products + wide

    def narrow(self) -> None:
        """Lets go of the rows in float64 until they are needed again."""
        if self._wide is not None and self._wide[1] is not self.solver:
            self.problem.products, self._wide = self.problem.products + self._wide[1].problem.products, None

    def along(self, penalties: Sequence[float]) -> PathFit:
        """Fits every penalty, from strong to weak, each to the end; returns the best."""
        fits: list[PathFit] = []
        best: PathFit | None = None
        for penalty in sorted(penalties, reverse=True):
            fit = self.continued(fits, penalty, self.tol)
            fit.logits = None
            fits = [*fits[-1:], fit]
            best = fit if best is None or self.key(fit) < self.key(best) else best
        assert best is not None
        return best

    def towards(self, penalty: float) -> PathFit:
        """One penalty, without knowing any other: by tenfold steps from a strong one, each just good enough."""
        current = self.largest / self.problem.n_classes
        points = [self.solver.cold(max(current, penalty))]
        while current > penalty * math.sqrt(STEP):
            start = points[-1]
            along = extrapolate_points(points, current) if len(points) > 2 else None
            point = self._solved(start, current, self.loose, along)
            points = [points[0], *points[1:][-1:], point]
            self.iterations += point.iterations
            if not point.converged:  # nor would it under a weaker penalty
                break
            point.iterations = 0
            current /= STEP
        along = extrapolate_points(points, penalty) if len(points) > 2 else None
        return self.fitted(points[-1], penalty, self.tol, along=along)

    def continued(self, fits: Sequence[PathFit], penalty: float, tol: float) -> PathFit:
        """A fit that begins with the last one, and goes first where the last two point to."""
        if not fits:
            return self.fitted(None, penalty, tol)
        return self.fitted(fits[-1].point, penalty, tol, along=extrapolate_points([fit.point for fit in fits], penalty))

    def fitted(
        self, start: SolverPoint | None, penalty: float, tol: float, *, along: tuple[Tensor, Tensor] | None = None
    ) -> PathFit:
        """A fit from a point, or from no weights, judged and recorded; certified if its tolerance is the final one."""
        if start is not None:
            start.iterations = 0
        point, weights = self._solved(start, penalty, tol, along), None
        if tol == self.tol:
            point, weights = self._certified(point)
        logits, error, loss = None, math.nan, math.nan
        if self.validation is not None:
            logits = self.validation.logits(point.parameters)
            if self.judges:
                error, loss = self.validation.judged(logits)
        record = PathPoint(
            C=self.c_times_penalty / penalty,
            iterations=point.iterations,
            objective=point.objective,
            gradient_norm=point.gradient_norm,
            gap=point.gap,
            tol=tol,
            converged=point.converged,
            validation_error_percent=error,
            validation_log_loss=loss,
        )
        self.records.append(record)
        self.iterations += point.iterations
        if self.progress is not None:
            self.progress(record)
        return PathFit(point, weights, logits, record)

    def _solved(
        self, start: SolverPoint | None, penalty: float, tol: float, along: tuple[Tensor, Tensor] | None = None
    ) -> SolverPoint:
        """A fit from a point (or from no weights), in float64 where float32 comes no nearer than ``tol`` allows."""
        if penalty > _STRONG_PENALTY * self.largest:
            return self._measured(self._in_basis(self.exact.under_a_strong_penalty(penalty), penalty))[0]
        start = start or self.solver.cold(penalty)
        is_float32 = self.basis.axes.dtype == torch.float32
        is_hard = self.solver.is_hard or (self._wide is not None and self._wide[1].is_hard)
        if is_float32 and (is_hard or penalty < _LEAST_PENALTY_IN_FLOAT32):
            return self._in_float64(replace(start, penalty=penalty), tol)
        aim = _SHARE_OF_AIM * tol if tol == self.tol and self.has_huge_direction else None
        point = self.solver.minimise(start, penalty, tol=tol, max_iterations=self.max_iterations, along=along, aim=aim)
        if point.converged or not point.stalled or not is_float32:
            return point
        if start.weights is not None:  # float32 may have lost what float64 had found
            point = replace(start, penalty=penalty, iterations=point.iterations)
        return self._in_float64(point, tol)

    def _certified(self, point: SolverPoint) -> tuple[SolverPoint, Tensor]:
        """The same fit as it is in the features themselves, with its weights there; float64 goes on if need be."""
        measured, weights = self._measured(point)
        tol = self.tol
        for _ in range(_CERTIFICATE_TRIES):  # the solver counts intercepts otherwise than the certificate
            if measured.converged or not point.converged:
                break
            point = self._in_float64(point, tol)
            measured, weights = self._measured(point)
            tol *= 0.1
        return measured, weights

    def _measured(self, point: SolverPoint) -> tuple[SolverPoint, Tensor]:
        weights = self._weights(point)
        found = self.exact.certificate(weights, point.penalty)
        point = replace(
            point,
            objective=found.objective,
            gap=found.gap,
            gradient_norm=found.gradient_norm,
            converged=found.gap <= self.tol,
        )
        return point, weights

    def _in_float64(self, point: SolverPoint, tol: float) -> SolverPoint:
        """A fit that goes on from a point in the basis of float64, as far as there are iterations left."""
        basis, solver = self._wide = self._wide or self._widened()
        solver.is_hard |= self.solver.is_hard
        start = solver.at(basis.parameters(self._weights(point)), point.penalty)
        start.iterations = point.iterations
        left = max(0, self.max_iterations - point.iterations)
        end = solver.minimise(start, point.penalty, tol=_SHARE_OF_TOL * tol, max_iterations=left)
        found = self._in_basis(basis.weights(end.parameters), point.penalty)
        return replace(
            found,
            objective=end.objective,
            gap=end.gap,
            gradient_norm=end.gradient_norm,
            iterations=end.iterations,
            converged=end.gap <= tol,
            stalled=end.stalled,
        )

    def _widened(self) -> tuple[Basis, LogisticSolver]:
        if self.basis.axes.dtype == torch.float64:
            return self.basis, self.solver
        basis, problem = self.exact.problem()
        return basis, LogisticSolver(problem)

    def _in_basis(self, weights: Tensor, penalty: float) -> SolverPoint:
        """The point of weights from float64, as precisely as the basis has it."""
        return replace(self.solver.at(self.basis.parameters(weights), penalty), weights=weights)

    def _weights(self, point: SolverPoint) -> Tensor:
        return self.basis.weights(point.parameters) if point.weights is None else point.weights

    def key(self, fit: PathFit) -> tuple[float, ...]:
        """Lower for the better of two fits."""
        record = fit.record
        return make_choice_key(
            self.select, record.validation_error_percent, record.validation_log_loss, -fit.point.penalty
        )


class FoldPaths:
    """One path a fold of cross-validation, all under the same C, judged by the rows that each leaves out.

    Penalties are those of ``whole``, the path of all rows, of which the walk takes the spectrum.
    """

    def __init__(self, whole: RegularisationPath, paths: Sequence[RegularisationPath], labels: Tensor) -> None:
        self.whole, self.paths = whole, paths
        self.problem, self.select, self.loose, self.iterations = whole.problem, whole.select, whole.loose, 0
        self.validation = ValidationSet(labels[:, None], labels)  # in the order of the folds
        self._parts: dict[float, list[PathFit]] = {}

    def continued(self, fits: Sequence[PathFit], penalty: float, tol: float) -> PathFit:
        """A fit of every fold that goes on from those of the last penalties."""
        before = [self._parts[fit.point.penalty] for fit in fits]
        return self._judged(
            penalty,
            [
                path.continued([parts[place] for parts in before], self._penalty(path, penalty), tol)
                for place, path in enumerate(self.paths)
            ],
        )

    def fitted(self, start: SolverPoint, penalty: float, tol: float) -> PathFit:
        """A fit of every fold from those of another penalty."""
        parts = zip(self.paths, self._parts[start.penalty], strict=True)
        return self._judged(
            penalty, [path.fitted(part.point, self._penalty(path, penalty), tol) for path, part in parts]
        )

    def key(self, fit: PathFit) -> tuple[float, ...]:
        return self.whole.key(fit)

    def _penalty(self, path: RegularisationPath, penalty: float) -> float:
        return penalty * path.c_times_penalty / self.whole.c_times_penalty

    def _judged(self, penalty: float, parts: list[PathFit]) -> PathFit:
        self._parts[penalty] = parts
        logits = torch.cat([part.logits for part in parts if part.logits is not None])
        error, loss = self.validation.judged(logits)
        records = [part.record for part in parts]
        nothing = logits[:0]
        point = SolverPoint(
            penalty=penalty, parameters=nothing, logits=nothing, objective=max(record.objective for record in records)
        )
        record = replace(
            records[0],
            C=self.whole.c_times_penalty / penalty,
            iterations=sum(record.iterations for record in records),
            objective=point.objective,
            validation_error_percent=error,
            validation_log_loss=loss,
        )
        return PathFit(point, None, logits, record)


AnyPath = RegularisationPath | FoldPaths


def is_settled(path: AnyPath, error: float) -> bool:
    """Whether no other fit can have fewer errors: those counted are on the training images, and there are none.

    Under weaker penalties only the log loss falls, without an end, for its infimum is at infinite weights.
    """
    return error == 0.0 and path.select == "error" and path.validation is not None and path.validation.is_training


_BETTER_LOG_LOSS = 0.005  # share by which a loose fit must be better than the final one to be fitted to the end
_N_BETWEEN = 8  # interpolated penalties between two neighbours of the best
_FITTED_NATS = 1e-5  # objective per image at which the walk has reached its weak end
_PATIENCE = {"log_loss": 1, "error": 2}  # fits without a better one that end the walk


@dataclass(slots=True, eq=False)
class LocatedPenalty:
    """The best penalty of a walk, before it is fitted to the end."""

    best: PathFit  # of the walk
    penalty: float  # best by interpolation
    start: SolverPoint  # of its fit
    key: tuple[float, ...]  # what is expected of it


def search_path(path: RegularisationPath, most: int) -> PathFit:
    """The fit under the best penalty, by at most so many fits (three at least)."""
    return finish_fit(path, locate_penalty(path, most))


def locate_penalty(path: AnyPath, most: int, penalties: Sequence[float] = ()) -> LocatedPenalty:
    """The best penalty of a path, of those named from strong to weak, or by a search of one fit less than ``most``."""
    if path.problem.z.shape[1] == 1:  # features that tell nothing: every penalty gives the same
        penalties = penalties[:1] or [1.0]
    if penalties:
        along: list[PathFit] = []
        for penalty in penalties:
            along.append(path.continued(along[-2:], penalty, path.loose))
        fit = min(along, key=path.key)
        return LocatedPenalty(fit, fit.point.penalty, fit.point, path.key(fit))
    fits = _walked(path, most)
    best = min(range(len(fits)), key=lambda place: path.key(fits[place]))
    penalty, start, key = _between(path, fits, best)
    return LocatedPenalty(fits[best], penalty, start, key)


def finish_fit(path: RegularisationPath, found: LocatedPenalty) -> PathFit:
    """The fit that was located, to its end."""
    final = path.fitted(found.start, found.penalty, path.tol)
    if _promised_more(path, found.best, final):
        again = path.fitted(found.best.point, found.best.point.penalty, path.tol)
        final = min(again, final, key=path.key)
    return final


def _walked(path: AnyPath, most: int) -> list[PathFit]:
    """Fits from strong to weak, of which the best is not at an end unless there are no more."""
    spectrum = path.problem.spectrum[:-1]
    largest = float(spectrum.max())
    penalty = largest / path.problem.n_classes
    half_seen = float(spectrum.median()) / path.problem.n_classes
    fits: list[PathFit] = []
    best, since_best = 0, 0
    while len(fits) < max(most - 2, 1):
        may_end = not fits or (penalty * STEP <= half_seen and _beats_guessing(path, fits[best]))
        if may_end and since_best >= _PATIENCE[path.select]:
            break
        fits.append(path.continued(fits[-2:], penalty, path.loose))
        if path.key(fits[-1]) < path.key(fits[best]) or len(fits) == 1:
            best, since_best = len(fits) - 1, 0
        else:
            since_best += 1
        for place, fit in enumerate(fits[:-2]):  # logits are large: only the best, its neighbours and the last two
            if abs(place - best) > 1:
                fit.logits, fit.point.logits = None, fit.point.logits[:0]
        is_fitted = fits[-1].point.objective < _FITTED_NATS * len(path.problem.y)
        if is_fitted or is_settled(path, fits[-1].record.validation_error_percent):
            break
        penalty /= STEP
    while best == 0 and len(fits) < max(most - 1, 1):
        fit = path.fitted(fits[0].point, fits[0].point.penalty * STEP, path.loose)
        fits.insert(0, fit)
        best = 0 if path.key(fit) < path.key(fits[1]) else 1
    return fits


def _beats_guessing(path: AnyPath, fit: PathFit) -> bool:
    """Whether its validation error is below that of the most frequent class."""
    if path.validation is None:
        return True
    known = path.validation.y[path.validation.y >= 0]
    most = int(torch.bincount(known).max()) if len(known) else 0
    return fit.record.validation_error_percent < 100.0 * (1.0 - most / len(path.validation.y))


def _between(path: AnyPath, fits: Sequence[PathFit], best: int) -> tuple[float, SolverPoint, tuple[float, ...]]:
    """The best penalty between the best fit and its neighbours by interpolation, the point to begin with, its key."""
    if path.validation is None or not 0 < best < len(fits) - 1:
        return fits[best].point.penalty, fits[best].point, path.key(fits[best])
    three = fits[best - 1 : best + 2]
    places = [math.log(fit.point.penalty) for fit in three]
    between = [
        left + (right - left) * step / (_N_BETWEEN + 1)
        for left, right in ((places[0], places[1]), (places[1], places[2]))
        for step in range(1, _N_BETWEEN + 1)
    ]
    between.insert(_N_BETWEEN, places[1])

    judge = path.validation
    logits_of = [fit.logits for fit in three if fit.logits is not None]

    def key(number: int) -> tuple[float, ...]:
        error, loss = judge.judged(InterpolatedLogits(logits_of, places, between[number]))
        return make_choice_key(path.select, error, loss, -math.exp(between[number]))

    if path.select == "log_loss":  # smooth along the path
        number = find_lowest_index(_N_BETWEEN, len(between), key)
    else:  # the log loss, which costs five times as much, decides among the fewest errors alone
        errors = [judge.error(InterpolatedLogits(logits_of, places, place)) for place in between]
        number = min((number for number, error in enumerate(errors) if error == min(errors)), key=key)
    chosen = between[number]
    parameters = interpolate_parabola([fit.point.parameters for fit in three], places, chosen)
    logits = interpolate_parabola([fit.point.logits for fit in three], places, chosen)
    start = SolverPoint(penalty=math.exp(chosen), parameters=parameters, logits=logits)
    return start.penalty, start, key(number)


def _promised_more(path: RegularisationPath, loose: PathFit, final: PathFit) -> bool:
    """Whether a fit that stopped early was so much better than the final one that it is fitted to the end, too."""
    if loose.point.penalty == final.point.penalty:
        return False
    if path.select == "error":
        return loose.record.validation_error_percent < final.record.validation_error_percent
    return loose.record.validation_log_loss < final.record.validation_log_loss * (1.0 - _BETTER_LOG_LOSS)
