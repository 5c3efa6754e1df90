"""What the solver knows of the curvature of a multinomial logistic regression: a preconditioner, and past steps.

Per class c the Hessian is sum_i p_ic (1 - p_ic) z_i z_i', plus the penalty. Of the images of other classes the weights
p (1 - p) are small and many, and their sum is nearly their mean times the diagonal spectrum. The few images of class c
itself have weights a hundred times larger: they stay as they are, as a correction of low rank that is solved exactly
(Woodbury). On few-shot problems of 1,000 classes this halves the iterations that a diagonal needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..optional import requires_extra
from .logistic_problem import Problem

with requires_extra("evaluate", needed_for="A probe"):
    import torch
    from torch import Tensor

_GROUPS = 16  # of a class's own images; where it has more, the mean of each group stands for them
_CLASSES_AT_A_TIME = 64
_LEAST_WEIGHT = 1e-12
_MOST_TIMES = 10.0


class Preconditioner:
    """An approximate inverse of the Hessian, renewed from residuals whenever they are known."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        z, y, k = problem.z, problem.y, problem.n_classes
        counts = torch.bincount(y, minlength=k)
        self._n_groups = int(counts.max().clamp(max=_GROUPS))
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
        self._own = grouped.view(k, self._n_groups, -1)  # (n_classes, n_groups, rank + 1)
        self._others = (problem.n - counts).clamp(min=1).to(z.dtype)
        self._counts = counts.to(z.dtype)
        self.bulk = torch.zeros(k, dtype=z.dtype, device=z.device)
        """Mean of p (1 - p) over the images of other classes, (n_classes,)."""

    def renew(self, residuals: Tensor, gradient: Tensor, ridge: Tensor) -> None:
        """From residuals (n, n_classes), their gradient (its last column is their sum) and each column's penalty."""
        problem = self._problem
        own = -residuals.view(-1)[problem.place]  # 1 - p of the right class, (n,)
        squares = problem.squares(residuals)
        missed = torch.zeros_like(squares).index_add_(0, problem.y, own)
        own_squares = torch.zeros_like(squares).index_add_(0, problem.y, own.square())
        # over other classes' images: sum of p, less sum of p squared; a share k / (k - 1) for what leaves the others
        spread = problem.n_classes / (problem.n_classes - 1)
        others = (gradient[:, -1] + missed) - (squares - own_squares)
        weight = own * (1.0 - own)
        grouped = torch.zeros_like(self._sizes).index_add_(0, self._slot, weight)
        total = others.clamp(min=0.0) * spread
        self.bulk = (total / self._others).clamp(min=_LEAST_WEIGHT)
        extra = grouped.view(self._own.shape[:2]) * spread - self._sizes.view(self._own.shape[:2]) * self.bulk[:, None]
        self._root = extra.clamp(min=0.0).sqrt()  # (n_classes, n_groups)
        self._inverse = 1.0 / torch.addcmul(ridge, self.bulk[:, None], problem.spectrum)  # (n_classes, rank + 1)
        inner = torch.empty(*self._own.shape[:2], self._n_groups, dtype=own.dtype, device=own.device)
        for start in range(0, problem.n_classes, _CLASSES_AT_A_TIME):
            some = slice(start, start + _CLASSES_AT_A_TIME)
            scaled = self._own[some] * self._inverse[some, None, :]
            torch.bmm(scaled, self._own[some].transpose(1, 2), out=inner[some])
        inner = inner * self._root[:, :, None] * self._root[:, None, :]
        inner.diagonal(dim1=1, dim2=2).add_(1.0)
        self._factor = torch.linalg.cholesky(inner)

    def applied(self, gradient: Tensor) -> Tensor:
        """The gradient (n_classes, rank + 1) over the Hessian."""
        step = self._inverse * gradient
        # a row times a matrix, for the same as a matrix times a column takes five times as long
        seen = torch.bmm(step[:, None, :], self._own.transpose(1, 2)).squeeze(1) * self._root  # (n_classes, n_groups)
        solved = torch.cholesky_solve(seen[:, :, None], self._factor).squeeze(2) * self._root
        back = torch.bmm(solved[:, None, :], self._own).squeeze(1)
        return step.addcmul_(self._inverse, back, value=-1.0)


@dataclass(slots=True, eq=False)
class _Pair:
    step: Tensor
    change: Tensor  # of the gradient, of loss and penalty together
    squared_length: float  # of the penalised columns
    product: float  # of step and change


@dataclass(slots=True, eq=False)
class Memory:
    """The last steps and how the gradient changed along them. The loss's share holds under any other penalty too."""

    most: int = 6
    penalty: float = 0.0
    pairs: list[_Pair] = field(default_factory=list)

    def move(self, penalty: float) -> None:
        """Turns what is remembered into what it would be under another penalty."""
        apart = penalty - self.penalty
        for pair in self.pairs:
            pair.change[:, :-1].add_(pair.step[:, :-1], alpha=apart)
            pair.product += apart * pair.squared_length
        self.pairs = [pair for pair in self.pairs if pair.product > 0.0]
        self.penalty = penalty

    def remember(self, step: Tensor, change_of_loss: Tensor) -> None:
        """Takes a step (n_classes, rank + 1) and the change of the loss's gradient along it, which it may overwrite."""
        squared_length = squared(step)
        change = change_of_loss
        change[:, :-1].add_(step[:, :-1], alpha=self.penalty)
        product = dot(step, change)
        if product > 1e-12 * self.penalty * squared_length:
            self.pairs.append(_Pair(step, change, squared_length, product))
        del self.pairs[: -self.most]

    def direction(self, gradient: Tensor, preconditioner: Preconditioner) -> Tensor:
        """The quasi-Newton step from a gradient (limited-memory BFGS, two loops)."""
        rest = gradient.clone()
        shares = []
        for pair in reversed(self.pairs):
            share = dot(pair.step, rest) / pair.product
            rest.add_(pair.change, alpha=-share)
            shares.append(share)
        step = preconditioner.applied(rest)
        if self.pairs:
            step.mul_(self._length(preconditioner))
        for pair, share in zip(self.pairs, reversed(shares), strict=True):
            step.add_(pair.step, alpha=share - dot(pair.change, step) / pair.product)
        return step.neg_()

    def _length(self, preconditioner: Preconditioner) -> float:
        """By how much the preconditioner's steps are too short, as far as the last step tells.

        In weak regularisation they come out several times too long, for most of its bulk is of images that are
        settled; without this the line search would have to cut every direction, what is remembered of it included.
        """
        pair = self.pairs[-1]
        promised = dot(pair.change, preconditioner.applied(pair.change))
        if not promised > 0.0:  # so small that its square is nothing
            return 1.0
        return min(max(pair.product / promised, 1.0 / _MOST_TIMES), _MOST_TIMES)


def dot(a: Tensor, b: Tensor) -> float:
    """Inner product of two arrays of one shape."""
    return float(torch.dot(a.reshape(-1), b.reshape(-1)))


def squared(parameters: Tensor) -> float:
    """Squared length of the penalised columns (all but the last), rows added up in float64."""
    return float(torch.linalg.vector_norm(parameters[:, :-1], dim=1).double().square().sum())
