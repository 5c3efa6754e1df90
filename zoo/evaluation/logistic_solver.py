"""Multinomial logistic regression under one penalty: training images, images that judge a fit, and a solver.

Images are given by their coordinates in a basis in which they are uncorrelated (:mod:`.logistic_basis`). Tables of
logits are looked at a block of rows at a time, which fits into the processor's cache.

The solver takes quasi-Newton steps on the logits of all images, with two matrix products an iteration. A step is a
direction in the parameters and the same direction in the logits (one product); any length of it is then tried without a
product; its gradient is the second. The loss is convex and the penalty strongly so: by the weights, the objective
exceeds its least value by no more than the squared gradient over twice the penalty (the duality gap of the dual point
that the probabilities are). The solver stops when that, and an estimate of what the intercepts add, is a small share of
the objective itself. :mod:`.logistic_certificate` then measures in float64, in the features themselves, what rounding
has done to the fit.

Curvature. Per class c the Hessian is sum_i p_ic (1 - p_ic) z_i z_i', plus the penalty. Of the images of other classes
the weights p (1 - p) are small and many, and their sum is nearly their mean times the diagonal spectrum. The few images
of class c itself have weights a hundred times larger: they enter as they are, as a correction of low rank that is
solved exactly (Woodbury).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..optional import require_extra

with require_extra("evaluate", needed_for="A probe"):
    import numpy as np
    import torch
    from torch import Tensor

_LOGITS_AT_A_TIME = 1 << 18  # a megabyte, which fits into the cache of a core
_NARROW = 128  # columns of z, up to which z'r takes half as long as r'z; with more it takes up to a third longer
_FEW_CLASSES = 256  # with which neither takes long: r'z, whose last digits may decide which C a few labels choose
TINY = float(np.finfo(np.float64).tiny)
LEAST_CURVATURE = 1e-13  # as a share of the largest second derivative


@dataclass(slots=True, kw_only=True, eq=False)
class LogisticProblem:
    """The training images in a basis: their logits, their loss and its gradient."""

    z: Tensor  # (n, rank + 1), the last column ones
    y: Tensor  # (n,) int64, 0 to n_classes - 1
    n_classes: int
    spectrum: Tensor  # (rank + 1,) squared norms of the columns of z
    products: int = 0  # with all images, so far
    n: int = field(init=False)
    place: Tensor = field(init=False)  # (n,) of each image's right class in flattened logits
    _blocks: list[tuple[slice, Tensor, Tensor]] = field(init=False)  # of rows: labels, and places in the block

    def __post_init__(self) -> None:
        self.n = len(self.y)
        self.place = torch.arange(self.n, device=self.y.device) * self.n_classes + self.y
        self._blocks = [
            (some, self.y[some], self.place[some] - some.start * self.n_classes)
            for some in split_logits(self.n, self.n_classes)
        ]

    def logits(self, parameters: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Of all images: parameters (n_classes, rank + 1) -> (n, n_classes)."""
        self.products += 1
        return torch.mm(self.z, parameters.T, out=out)

    def pulled(self, residuals: Tensor) -> Tensor:
        """Gradient of the loss by the parameters: residuals (n, n_classes) -> (n_classes, rank + 1)."""
        self.products += 1
        if self.z.shape[1] > _NARROW or self.n_classes <= _FEW_CLASSES:
            return residuals.T @ self.z
        return (self.z.T @ residuals).T.contiguous()

    def loss(self, logits: Tensor, out: Tensor | None = None) -> tuple[float, Tensor]:
        """Summed cross-entropy, added up in float64, and the residuals: probabilities minus one-hot labels."""
        residuals = torch.empty_like(logits) if out is None else out
        total = sum(self._loss_of(logits[some], y, place, residuals[some]) for some, y, place in self._blocks)
        return total, residuals

    def stepped(self, start: Tensor, move: Tensor, length: float, logits: Tensor, residuals: Tensor) -> float:
        """The summed loss at a length along a move of the logits; fills the logits there and their residuals.

        It takes a block of images at a time, which fits into the processor's cache: the dozen passes over all logits
        would otherwise cost as much as a product.
        """
        total = 0.0
        for some, y, place in self._blocks:
            there = torch.add(start[some], move[some], alpha=length, out=logits[some])
            total += self._loss_of(there, y, place, residuals[some])
        return total

    def squares(self, residuals: Tensor) -> Tensor:
        """Sum of the squared residuals of each class: (n, n_classes) -> (n_classes,)."""
        squares = [residuals[some].square().sum(dim=0) for some, _, _ in self._blocks]
        return squares[0] if len(squares) == 1 else torch.stack(squares).sum(dim=0)

    @staticmethod
    def _loss_of(logits: Tensor, y: Tensor, place: Tensor, out: Tensor) -> float:
        flat = out.view(-1)
        losses = compute_cross_entropies(logits, y, out)
        sure = flat[place] > 0.5
        flat[place] = 0.0
        missed = out.sum(dim=1)  # one minus the probability of the right class, to full precision where that is near 1
        losses = torch.where(sure, -torch.log1p(-missed.double()), losses)
        flat[place] = -missed
        return losses.sum().item()

    def start(self) -> Tensor:
        """The best parameters under an infinite penalty: no weight, and log frequencies as intercepts."""
        counts = torch.bincount(self.y, minlength=self.n_classes).to(self.z.dtype)
        parameters = torch.zeros(self.n_classes, self.z.shape[1], dtype=self.z.dtype, device=self.z.device)
        logs = counts.log()
        parameters[:, -1] = logs - logs.mean()
        return parameters


def split_logits(n: int, n_classes: int) -> list[slice]:
    """Blocks of the rows of a table (n, n_classes) that fit into the cache."""
    rows = max(1, _LOGITS_AT_A_TIME // n_classes)
    return [slice(first, min(first + rows, n)) for first in range(0, n, rows)]


def compute_cross_entropies(logits: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """Cross-entropy of every row, in float64; ``right`` is its class, ``out`` takes the softmax.

    A row's largest probability is at least one over the number of classes, so that its logarithm loses nothing; that of
    the right class may be 0 in float32.
    """
    probabilities = torch.softmax(logits, dim=1, out=out)
    largest, top = logits.amax(dim=1), probabilities.amax(dim=1)
    chosen = logits.gather(1, right[:, None]).squeeze(1)
    return largest.double() - chosen.double() - top.double().log()


@dataclass(slots=True, eq=False)
class ValidationSet:
    """Images that penalties are judged by."""

    z: Tensor  # (n_val, rank + 1)
    y: Tensor  # (n_val,), -1 where the class is none of the training data's
    is_training: bool = False  # the training images themselves, as for the error that a probe has on them
    _known: Tensor = field(init=False)  # (n_val,) whether the class is one of the training data's
    _right: Tensor = field(init=False)  # (n_val,) class, 0 for unknown ones

    def __post_init__(self) -> None:
        self._known, self._right = self.y >= 0, self.y.clamp(min=0)

    def logits(self, parameters: Tensor) -> Tensor:
        """(n_classes, rank + 1) -> (n_val, n_classes)."""
        return self.z @ parameters.T

    def judged(self, logits: Tensor | InterpolatedLogits) -> tuple[float, float]:
        """Error in percent, with images of untrained classes counted as missed, and log loss of the other images."""
        return self.error(logits), self.log_loss(logits)

    def error(self, logits: Tensor | InterpolatedLogits) -> float:
        """In percent; of equal logits the first class counts as predicted."""
        blocks = split_logits(*logits.shape)
        wrong = sum(int((find_largest(logits[some]) != self.y[some]).sum()) for some in blocks)
        return 100.0 * (wrong / len(self.y))

    def log_loss(self, logits: Tensor | InterpolatedLogits) -> float:
        """Mean over the images of trained classes, in nats; NaN if there are none."""
        if not bool(self._known.any()):
            return float("nan")
        losses = [compute_cross_entropies(logits[some], self._right[some]) for some in split_logits(*logits.shape)]
        return float(torch.cat(losses)[self._known].mean())


def interpolate_parabola(values: Sequence[Tensor], places: Sequence[float], place: float) -> Tensor:
    """The value at ``place`` of the parabola through three arrays at three places (Lagrange)."""
    shares = [math.prod((place - other) / (mine - other) for other in places if other != mine) for mine in places]
    out = values[0] * shares[0]
    for share, value in zip(shares[1:], values[1:], strict=True):
        out.add_(value, alpha=share)
    return out


def find_largest(logits: Tensor) -> Tensor:
    """The place of the largest number of each row, the first of equals; NumPy's takes a seventh of torch's time."""
    return torch.from_numpy(logits.numpy().argmax(axis=1)) if logits.device.type == "cpu" else logits.argmax(dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class InterpolatedLogits:
    """Logits between those of three fits, made where they are looked at: a block of rows, which fits into the cache."""

    values: Sequence[Tensor]
    places: Sequence[float]
    place: float

    @property
    def shape(self) -> torch.Size:
        return self.values[0].shape

    def __getitem__(self, some: slice) -> Tensor:
        return interpolate_parabola([value[some] for value in self.values], self.places, self.place)


_GROUPS_PER_CLASS = 16  # of the images of a class; where it has more, the mean of each group stands for them
_CLASSES_AT_A_TIME = 64
_LEAST_WEIGHT = 1e-12
_MOST_LENGTHENING = 10.0


class Preconditioner:
    """An approximate inverse of the Hessian, renewed from residuals now and then."""

    def __init__(self, problem: LogisticProblem) -> None:
        self._problem = problem
        z, y, k = problem.z, problem.y, problem.n_classes
        counts = torch.bincount(y, minlength=k)
        self._n_groups = int(counts.max().clamp(max=_GROUPS_PER_CLASS))
        order = torch.argsort(y, stable=True)
        rank_in_class = torch.empty_like(y)
        first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        rank_in_class[order] = torch.arange(len(y), device=y.device) - first
        self._slot = y * self._n_groups + rank_in_class % self._n_groups  # (n,)
        sizes = torch.zeros(k * self._n_groups, dtype=z.dtype, device=z.device)
        sizes.index_add_(0, self._slot, torch.ones_like(sizes[:1]).expand(len(y)))
        self._sizes = sizes
        grouped = torch.zeros(k * self._n_groups, z.shape[1], dtype=z.dtype, device=z.device)
        grouped.index_add_(0, self._slot, z)
        grouped /= sizes.clamp(min=1.0)[:, None]
        self._grouped = grouped.view(k, self._n_groups, -1)  # (n_classes, n_groups, rank + 1)
        self._others = (problem.n - counts).clamp(min=1).to(z.dtype)
        # mean of p (1 - p) over the images of other classes, (n_classes,)
        self.bulk = torch.zeros(k, dtype=z.dtype, device=z.device)
        self._spread = k / (k - 1)  # the share for what leaves the others
        self._renewal: tuple[Tensor, Tensor] | None = None  # 1 - p of the right class and penalties, not yet used

    def renew(self, residuals: Tensor, gradient: Tensor, ridge: Tensor) -> None:
        """Updates from residuals (n, n_classes), their gradient (the last column is their sum) and each column's
        penalty; what a step needs in addition to ``bulk`` is computed when one is asked for.
        """
        problem = self._problem
        right = -residuals.view(-1)[problem.place]  # 1 - p of the right class, (n,)
        squares = problem.squares(residuals)
        missed = torch.zeros_like(squares).index_add_(0, problem.y, right)
        right_squares = torch.zeros_like(squares).index_add_(0, problem.y, right.square())
        # over other classes' images: sum of p, less sum of p squared
        others = (gradient[:, -1] + missed) - (squares - right_squares)
        total = others.clamp(min=0.0) * self._spread
        self.bulk = (total / self._others).clamp(min=_LEAST_WEIGHT)
        self._renewal = right, ridge

    def _factorise(self, right: Tensor, ridge: Tensor) -> None:
        problem = self._problem
        grouped = torch.zeros_like(self._sizes).index_add_(0, self._slot, right * (1.0 - right))
        shape = self._grouped.shape[:2]  # (n_classes, n_groups)
        extra = grouped.view(shape) * self._spread - self._sizes.view(shape) * self.bulk[:, None]
        self._root = extra.clamp(min=0.0).sqrt()
        self._inverse = 1.0 / torch.addcmul(ridge, self.bulk[:, None], problem.spectrum)  # (n_classes, rank + 1)
        inner = torch.empty(*shape, self._n_groups, dtype=right.dtype, device=right.device)
        for start in range(0, problem.n_classes, _CLASSES_AT_A_TIME):
            some = slice(start, start + _CLASSES_AT_A_TIME)
            scaled = self._grouped[some] * self._inverse[some, None, :]
            torch.bmm(scaled, self._grouped[some].transpose(1, 2), out=inner[some])
        inner = inner * self._root[:, :, None] * self._root[:, None, :]
        inner.diagonal(dim1=1, dim2=2).add_(1.0)
        self._factor, failed = torch.linalg.cholesky_ex(inner)
        if bool(failed.any()):  # the 1 was lost in rounding: these classes do without the correction
            self._root[failed > 0] = 0.0
            self._factor[failed > 0] = torch.eye(self._n_groups, dtype=inner.dtype, device=inner.device)

    def applied(self, gradient: Tensor) -> Tensor:
        """The gradient (n_classes, rank + 1) over the Hessian."""
        if self._renewal is not None:
            self._factorise(*self._renewal)
            self._renewal = None
        step = self._inverse * gradient
        # a row times a matrix, which is faster than the same as a matrix times a column
        seen = torch.bmm(step[:, None, :], self._grouped.transpose(1, 2)).squeeze(1) * self._root
        solved = torch.cholesky_solve(seen[:, :, None], self._factor).squeeze(2) * self._root
        back = torch.bmm(solved[:, None, :], self._grouped).squeeze(1)
        return step.addcmul_(self._inverse, back, value=-1.0)


_LARGEST_SHARE = 1e30  # of a remembered step in a direction; float32 ends at 3e38


@dataclass(slots=True, eq=False)
class _CurvaturePair:
    step: Tensor
    change: Tensor  # of the gradient, of loss and penalty together
    squared_length: float  # of the penalised columns
    product: float  # of step and change


@dataclass(slots=True, eq=False)
class CurvatureMemory:
    """The last steps and the change of the gradient along them. The loss's share holds under any other penalty too."""

    most: int = 6
    penalty: float = 0.0
    pairs: list[_CurvaturePair] = field(default_factory=list)

    def move(self, penalty: float) -> None:
        """Converts the pairs to another penalty."""
        apart = penalty - self.penalty
        for pair in self.pairs:
            pair.change[:, :-1].add_(pair.step[:, :-1], alpha=apart)
            pair.product += apart * pair.squared_length
        self.pairs = [pair for pair in self.pairs if pair.product > 0.0]
        self.penalty = penalty

    def remember(self, step: Tensor, change_of_loss: Tensor) -> None:
        """Adds a step (n_classes, rank + 1) and the change of the loss's gradient along it, which it may overwrite."""
        squared_length = compute_squared_norm(step)
        change = change_of_loss
        change[:, :-1].add_(step[:, :-1], alpha=self.penalty)
        product = compute_dot(step, change)
        if product > 1e-12 * self.penalty * squared_length:
            self.pairs.append(_CurvaturePair(step, change, squared_length, product))
        del self.pairs[: -self.most]

    def direction(self, gradient: Tensor, preconditioner: Preconditioner) -> Tensor:
        """The quasi-Newton step from a gradient (limited-memory BFGS, two loops)."""
        rest = gradient.clone()
        shares = []
        for pair in reversed(self.pairs):
            share = compute_dot(pair.step, rest) / pair.product
            if not abs(share) < _LARGEST_SHARE:
                return self._forgotten(gradient, preconditioner)
            rest.add_(pair.change, alpha=-share)
            shares.append(share)
        step = preconditioner.applied(rest)
        if self.pairs:
            step.mul_(self._length(preconditioner))
        for pair, share in zip(self.pairs, reversed(shares), strict=True):
            length = share - compute_dot(pair.change, step) / pair.product
            if not abs(length) < _LARGEST_SHARE:
                return self._forgotten(gradient, preconditioner)
            step.add_(pair.step, alpha=length)
        return step.neg_()

    def _forgotten(self, gradient: Tensor, preconditioner: Preconditioner) -> Tensor:
        """The step without pairs, which rounding has spoilt: they are dropped."""
        self.pairs.clear()
        return preconditioner.applied(gradient).neg_()

    def _length(self, preconditioner: Preconditioner) -> float:
        """The factor by which the preconditioner's steps are too short, as the last step shows.

        In weak regularisation they come out several times too long, for most of the preconditioner's bulk is of images
        that are settled; without this the line search would have to cut every direction.
        """
        pair = self.pairs[-1]
        promised = compute_dot(pair.change, preconditioner.applied(pair.change))
        if not promised > 0.0:  # so small that its square is nothing
            return 1.0
        return min(max(pair.product / promised, 1.0 / _MOST_LENGTHENING), _MOST_LENGTHENING)


def compute_dot(a: Tensor, b: Tensor) -> float:
    """Inner product of two arrays of one shape."""
    return float(torch.dot(a.reshape(-1), b.reshape(-1)))


def compute_squared_norm(parameters: Tensor) -> float:
    """Squared length of the penalised columns (all but the last), rows added up in float64."""
    return float(torch.linalg.vector_norm(parameters[:, :-1], dim=1).double().square().sum())


# Shares of the objective below which a promised decrease may be measured as mostly rounding, so that it is trusted
_TRUSTED_DECREASE = {torch.float32: 1e-5, torch.float64: 1e-11}
# Shares of the objective above which a measured decrease is more than rounding
_VISIBLE_DECREASE = {torch.float32: 1e-6, torch.float64: 1e-13}
# Iterations without a smaller gap or objective, after which more of this precision would not help
_PATIENCE = {torch.float32: 12, torch.float64: 50}
_MOST_BEYOND = 6  # iterations beyond the tolerance, towards the aim
_SHORT_STEP = 0.1  # of a direction, below which the remembered curvature is dropped
_RENEWED_FIRST, _RENEWED_EVERY = 3, 4  # iterations in which the preconditioner is renewed: it changes slowly
_MANY_ITERATIONS = 200  # after which small problems take Newton's steps: units of most different scales, as a rule
_SMALL_HESSIAN = 1 << 10, 1 << 23  # parameters, and parameters times images


@dataclass(slots=True, kw_only=True, eq=False)
class SolverPoint:
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


class LogisticSolver:
    """Solves one problem under one penalty after the other, reusing what it has learnt of the curvature."""

    def __init__(self, problem: LogisticProblem) -> None:
        self.problem = problem
        self.preconditioner = Preconditioner(problem)
        self.memory = CurvatureMemory()
        self._space: _Workspace | None = None
        size = problem.n_classes * problem.z.shape[1]
        self._is_small = size <= _SMALL_HESSIAN[0] and size * problem.n <= _SMALL_HESSIAN[1]
        self.is_hard = False  # small, and a fit took many iterations: Newton's steps from then on, in float64

    def cold(self, penalty: float) -> SolverPoint:
        """A start with weights 0 and the log frequencies as intercepts."""
        parameters = self.problem.start()
        logits = parameters[:, -1].expand(self.problem.n, -1).contiguous()
        return SolverPoint(penalty=penalty, parameters=parameters, logits=logits)

    def at(self, parameters: Tensor, penalty: float) -> SolverPoint:
        return SolverPoint(penalty=penalty, parameters=parameters, logits=self.problem.logits(parameters))

    def minimise(
        self,
        start: SolverPoint,
        penalty: float,
        *,
        tol: float,
        max_iterations: int,
        along: tuple[Tensor, Tensor] | None = None,
        aim: float | None = None,
    ) -> SolverPoint:
        """Minimises loss + penalty / 2 |weights|^2 from ``start``, which is not changed, until ``gap`` is at most
        ``tol``.

        ``along`` is a first direction, in parameters and logits, that costs no product: where the path was going. A fit
        that has converged goes on for ``aim``, a smaller gap, through a few more iterations.
        """
        problem, memory = self.problem, self.memory
        memory.move(penalty)
        parameters, logits, gradient = start.parameters, start.logits, start.gradient
        ridge = torch.full_like(problem.spectrum, penalty)
        ridge[-1] = 0.0
        space = self._space = self._space or _Workspace(*(torch.empty_like(logits) for _ in range(4)))
        loss, residuals = problem.loss(logits, out=space.before)
        weight = compute_squared_norm(parameters)
        if gradient is None:
            gradient = problem.pulled(residuals)
        best_gap, lowest, since_best, iterations, since_converged = float("inf"), float("inf"), 0, 0, 0
        patience, visible = _PATIENCE[logits.dtype], _VISIBLE_DECREASE[logits.dtype]
        while True:
            objective = loss + 0.5 * penalty * weight
            full = torch.addcmul(gradient, parameters, ridge)
            if iterations < _RENEWED_FIRST or iterations % _RENEWED_EVERY == 0:
                self.preconditioner.renew(residuals, gradient, ridge)
            gap, norm = self._gap(full, penalty)
            gap /= max(objective, torch.finfo(torch.float64).tiny)
            since_best = 0 if gap < 0.9 * best_gap or objective < lowest * (1.0 - visible) else since_best + 1
            best_gap, lowest = min(gap, best_gap), min(objective, lowest)
            converged, stalled = gap <= tol, since_best >= patience
            since_converged += converged
            is_done = converged and (gap <= (aim or tol) or since_converged > _MOST_BEYOND)
            if is_done or stalled or iterations >= max_iterations:
                break
            # A direction: where the path was going, else limited-memory BFGS
            if along is not None:
                step, move, along = *along, None
            else:
                self.is_hard |= self._is_small and start.iterations + iterations >= _MANY_ITERATIONS
                if self.is_hard and logits.dtype == torch.float32:
                    stalled = True
                    break
                newton = self._newton_step(full, residuals, ridge) if self.is_hard else None
                step = memory.direction(full, self.preconditioner) if newton is None else newton
                move = None
            slope = compute_dot(full, step)
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
            # A length along it, without a further product
            line = _LineObjective(
                loss, objective, slope, slope - compute_dot(gradient, step), penalty * compute_squared_norm(step)
            )
            length, loss = self._searched(line, logits, move, space)
            if length == 0.0:
                stalled = True
                break
            if length < _SHORT_STEP:  # the remembered curvature misleads
                memory.pairs.clear()
            # The gradient there, by the second product, and what it says of the curvature
            step = step * length
            parameters = parameters + step
            before, gradient = gradient, problem.pulled(space.residuals)
            memory.remember(step, gradient - before)
            weight = compute_squared_norm(parameters)
            spare = logits if iterations else torch.empty_like(logits)  # the first logits are the caller's
            logits, space.logits = space.logits, spare
            residuals, space.residuals = space.residuals, residuals
            space.before = residuals
            iterations += 1
        return SolverPoint(
            penalty=penalty,
            parameters=parameters,
            logits=logits,
            gradient=gradient,
            objective=objective,
            gap=gap,
            gradient_norm=norm,
            iterations=start.iterations + iterations,
            converged=converged,
            stalled=stalled,
        )

    def _newton_step(self, full: Tensor, residuals: Tensor, ridge: Tensor) -> Tensor | None:
        """The gradient (n_classes, rank + 1) over the whole Hessian; None if that has no Cholesky factor.

        Blocks of the Hessian are sum_i p_ia (1[a = b] - p_ib) z_i z_i', plus the penalty.
        """
        z, p = self.problem.z, residuals.clone()
        p.view(-1)[self.problem.place] += 1.0
        tall = (p[:, :, None] * z[:, None, :]).flatten(1)  # (n, n_classes * (rank + 1))
        hessian = -(tall.T @ tall)
        for a, block in enumerate(hessian.view(*full.shape, *full.shape).unbind()):
            block[:, a] += z.T @ (z * p[:, a, None])
        # The diagonal's last digits go to what adds up to nothing: the same intercept for all classes
        hessian.diagonal().add_(ridge.repeat(len(full))).mul_(1.0 + LEAST_CURVATURE)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if bool(failed):
            return None
        return torch.cholesky_solve(full.view(-1, 1), factor).view(full.shape).neg()

    def _gap(self, full: Tensor, penalty: float) -> tuple[float, float]:
        """Bound of the objective's excess, and the gradient's norm; the intercepts count by their curvature."""
        weights = compute_squared_norm(full)
        intercepts = full[:, -1].double().square()
        curvature = self.problem.n * self.preconditioner.bulk.double()
        left = weights / (2.0 * penalty) + float((intercepts / (2.0 * curvature)).sum())
        return left, (weights + float(intercepts.sum())) ** 0.5

    def _searched(self, line: _LineObjective, logits: Tensor, move: Tensor, space: _Workspace) -> tuple[float, float]:
        """A good length along a direction, by parabolas through the slope and tried lengths, and the loss there.

        ``space`` holds the logits and residuals there; the length is 0 if no better place was found.
        """
        length, best_length, best = 1.0, 0.0, line.objective
        for _ in range(10):
            loss = self.problem.stepped(logits, move, length, space.logits, space.residuals)
            value = line.value(loss, length)
            excess = value - line.objective - length * line.slope
            unseen = _TRUSTED_DECREASE[logits.dtype] * line.objective
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
class _LineObjective:
    """The objective along a direction, apart from the loss, which the logits give."""

    loss: float
    objective: float
    slope: float
    slope_of_penalty: float
    bend: float  # second derivative of the penalty

    def value(self, loss: float, length: float) -> float:
        return loss + (self.objective - self.loss) + length * self.slope_of_penalty + 0.5 * self.bend * length**2


@dataclass(slots=True, eq=False)
class _Workspace:
    """Tables (n, n_classes) that iterations and fits reuse, for new pages cost more than sums.

    None of them is part of a point that was returned.
    """

    logits: Tensor  # where a search tries
    before: Tensor  # residuals where it starts
    residuals: Tensor  # where it tries
    move: Tensor  # of the logits, along the direction
