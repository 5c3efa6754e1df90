"""The certificate of a logistic regression: how far a fit is from its optimum at most, measured in float64.

It is measured in the features themselves, from weights and intercepts, whatever precision and basis they were found in.
The best intercepts of the given weights are found by Newton's method; its second derivatives are a table of pairs of
classes where these are few, and products with the probabilities of all rows where they are many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..optional import require_extra
from .arrays import Array
from .logistic_basis import Basis, build_problem, centre_and_scale
from .logistic_solver import LEAST_CURVATURE, TINY, LogisticProblem, split_logits

with require_extra("evaluate", needed_for="A probe"):
    import torch
    from torch import Tensor

_FLOAT64_NUMBERS_AT_A_TIME = 1 << 22  # features and logits, together
_NEWTON_STEPS = 30
_NEGLIGIBLE_SHARE = 1e-12  # of the objective, that Newton steps of the intercepts may leave
_PAIRED_CLASSES = 256  # up to which a table of pairs costs no more than some hundred products with the residuals
_CONJUGATE_STEPS, _CONJUGATE_SHARE = 200, 1e-12  # at most; of the squared error by the diagonal, that is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A fit as measured in float64."""

    objective: float
    gap: float  # bound of what the objective is above its least value, as a share of it
    gradient_norm: float  # of the objective, by weights of the scaled features and intercepts


@dataclass(slots=True, eq=False)
class Float64Problem:
    """The problem in the features as they were given, in float64, a block of images at a time."""

    x: Array  # (n, dim)
    y: Tensor  # (n,) int64, 0 to n_classes - 1
    n_classes: int
    basis: Basis  # of which it takes mean and scale
    products: int = 0  # with all images, so far

    def certificate(self, weights: Tensor, penalty: float) -> Certificate:
        """Measures weights of the scaled features and intercepts, float64 (n_classes, dim + 1).

        The objective with the best intercepts of given weights is strongly convex in these, by the penalty, and its
        gradient is that by the weights where the intercepts are best. So it exceeds its least value by no more than
        that gradient squared over twice the penalty, and the fit exceeds it by what its intercepts cost besides. The
        best intercepts are found by Newton's method, as far as float64 resolves them.
        """
        here = self._summed(weights)
        squared = float(weights[:, :-1].square().sum())
        objective = here.loss + 0.5 * penalty * squared
        best, weights, left = here, weights.clone(), math.inf
        for _ in range(_NEWTON_STEPS):
            step = best.curvature.solve(best.gradient[:, -1])
            left = 0.5 * float(step @ best.gradient[:, -1])
            spread = float(step.max() - step.min())
            if left <= _NEGLIGIBLE_SHARE * objective or not math.isfinite(spread):
                break
            step *= math.log1p(spread) / spread  # as far as no loss of this kind can rise
            weights[:, -1] -= step
            there = self._summed(weights)
            if not there.loss < best.loss:
                weights[:, -1] += step  # only rounding is left
                break
            best = there
        else:
            left = math.inf
        by_weights = best.gradient[:, :-1].add(weights[:, :-1], alpha=penalty).square().sum()
        excess = max(0.0, here.loss - best.loss) + left + float(by_weights) / (2.0 * penalty)
        here.gradient[:, :-1].add_(weights[:, :-1], alpha=penalty)
        return Certificate(
            objective=objective,
            gap=excess / max(objective, TINY) if math.isfinite(excess) else math.inf,
            gradient_norm=float(here.gradient.square().sum()) ** 0.5,
        )

    def under_a_strong_penalty(self, penalty: float) -> Tensor:
        """The optimum up to a share of the largest direction's square over the penalty: one step from no weights."""
        counts = torch.bincount(self.y, minlength=self.n_classes).double()
        weights = torch.zeros(self.n_classes, self.x.shape[1] + 1, dtype=torch.float64, device=self.y.device)
        weights[:, -1] = counts.log() - counts.log().mean()
        weights[:, :-1] = self._summed(weights).gradient[:, :-1] / -penalty
        return weights

    def problem(self) -> tuple[Basis, LogisticProblem]:
        return build_problem(
            self.x,
            self.y.cpu().numpy(),
            n_classes=self.n_classes,
            dtype=torch.float64,
            device=self.y.device,
            centre=(self.basis.mean.cpu(), self.basis.scale),  # penalties are of this scale
        )

    def _summed(self, weights: Tensor) -> _LossSums:
        self.products += 2
        k, n = self.n_classes, len(self.y)
        loss, gradient = 0.0, torch.zeros_like(weights)
        curvature = _PairedCurvature(weights.new_zeros(k, k)) if k <= _PAIRED_CLASSES else _RowCurvature(n, self.y, k)
        step = max(1, _FLOAT64_NUMBERS_AT_A_TIME // (self.x.shape[1] + k))
        for start in range(0, len(self.y), step):
            some = slice(start, start + step)
            rows = centre_and_scale(self.x[some], self.basis.mean, self.basis.scale, weights)
            z = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
            part = LogisticProblem(z=z, y=self.y[some], n_classes=k, spectrum=z[:0])
            more, residuals = part.loss(part.logits(weights))
            loss += more
            gradient += part.pulled(residuals)
            curvature.add(some, residuals, part.place)
        return _LossSums(loss, gradient, curvature)


@dataclass(frozen=True, slots=True, eq=False)
class _LossSums:
    """Sums over all images."""

    loss: float
    gradient: Tensor  # of the loss, (n_classes, dim + 1)
    curvature: _PairedCurvature | _RowCurvature  # by the intercepts


@dataclass(frozen=True, slots=True, eq=False)
class _PairedCurvature:
    """Second derivatives of the loss by the intercepts, as a table: minus the products of the probabilities of two
    classes, with a diagonal that makes rows sum to 0.
    """

    together: Tensor  # float64 (n_classes, n_classes), those products

    def add(self, some: slice, residuals: Tensor, place: Tensor) -> None:
        """Counts rows by their residuals (m, n_classes), which become probabilities."""
        residuals.view(-1)[place] += 1.0
        self.together.add_(residuals.T @ residuals)

    def solve(self, gradient: Tensor) -> Tensor:
        """Newton's step (n_classes,) from the gradient by the intercepts."""
        hessian = -self.together
        hessian.fill_diagonal_(0.0)
        diagonal = -hessian.sum(dim=1)
        hessian.diagonal().copy_(diagonal + max(float(diagonal.max()) * LEAST_CURVATURE, TINY))
        step: Tensor = torch.linalg.solve_ex(hessian, gradient)[0]
        return step


class _RowCurvature:
    """The same without a table of pairs of classes, which takes n_classes times as long to fill as the loss does.

    Of a direction v, with the residuals R = P - Y of all rows (probabilities less one-hot labels, float32), g their sum
    and u = R v, it has

        H v = sum over rows of p (v - p'v) = v g - R'(Y v + u) - Y'u,

    in which nothing is the difference of two large numbers where rows are settled, as 1 - p would be. A step is found
    by conjugate gradients over the diagonal, p (1 - p) summed up; as Newton's, it leaves of an error its square and the
    millionth part, so that float32 is enough.
    """

    def __init__(self, n: int, y: Tensor, n_classes: int) -> None:
        self.residuals = torch.empty(n, n_classes, device=y.device)
        self.y = y

    def add(self, some: slice, residuals: Tensor, place: Tensor) -> None:
        """Keeps the residuals (m, n_classes) of some rows."""
        self.residuals[some] = residuals

    def solve(self, gradient: Tensor) -> Tensor:
        """Newton's step (n_classes,) from the gradient by the intercepts."""
        right = self.residuals.gather(1, self.y[:, None]).squeeze(1).double()
        blocks = [self.residuals[some] for some in split_logits(*self.residuals.shape)]
        squares = torch.stack([block.square().sum(dim=0) for block in blocks]).double().sum(dim=0)
        diagonal = gradient - squares  # p (1 - p) is |r| - r^2, where r is negative for the right class
        diagonal.index_add_(0, self.y, right, alpha=-2.0)
        inverse = 1.0 / diagonal.clamp(min=max(float(diagonal.max()) * LEAST_CURVATURE, TINY))
        step, rest = torch.zeros_like(gradient), gradient - gradient.mean()  # along equal intercepts H is 0
        direction = inverse * rest
        size = first = float(rest @ direction)
        for _ in range(_CONJUGATE_STEPS):
            image = self._times(direction, gradient)
            bend = float(direction @ image)
            if not bend > 0.0 or not size > _CONJUGATE_SHARE * first:
                break
            step.add_(direction, alpha=size / bend)
            rest.sub_(image, alpha=size / bend)
            scaled = inverse * rest
            before, size = size, float(rest @ scaled)
            direction = scaled.add_(direction, alpha=size / before)
        return step

    def _times(self, direction: Tensor, gradient: Tensor) -> Tensor:
        seen = self.residuals @ direction.float()
        back = self.residuals.T @ (direction[self.y].float() + seen)
        out = direction * gradient - back.double()
        return out.index_add_(0, self.y, seen.double(), alpha=-1.0)
