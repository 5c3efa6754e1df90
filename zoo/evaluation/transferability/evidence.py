"""LogME: the log evidence of labels under a Bayesian linear model on the features, exact and at its largest.

With targets y (1 for one class and 0 for the others), weights drawn from N(0, 1/alpha) and noise from N(0, 1/beta),
y is normal with covariance (1 + X X'/t) / beta, t = alpha / beta. In the left singular vectors of X, of which y has the
energies e_j beside singular values s_j,

    log p(y) = n/2 log(beta / 2 pi) - beta/2 Q - 1/2 sum_j log(1 + s_j^2 / t),    Q = sum_j e_j / (1 + s_j^2 / t),

where singular values of 0 add to Q and not to the determinant: the dimensions that features have beyond the images
change nothing. For a given t the best beta is n / Q, and what is left is a search over log t. As each term is a
logistic curve of log t or its integral, the second derivative is less than n in size, and the value between two points
of a grid that are a step h apart exceeds both by no more than n h^2 / 8. Every peak of the grid that comes within that
of the highest is then searched by golden section, so that no other maximum is taken for the largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...optional import requires_extra
from ..arrays import Array
from ..label_free.arrays import require_number
from .components import centred_of, components_of, labelled_in_float64

with requires_extra("evaluate", needed_for="LogME"):
    import numpy as np

_LEAST = 3  # images
_STEP = 0.125  # of the logarithm of t on the grid
_BELOW, _ABOVE = 1e-18, 1e9  # ends of the grid, relative to the largest squared singular value and to their sum
_GOLDEN = (math.sqrt(5) - 1) / 2
_SHRINKING = 45  # steps of a golden section, to 1e-10 of two steps of the grid
_NUMBERS_AT_A_TIME = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """The evidence, and how much of the features it uses."""

    value: float  # nats an image
    n: int
    n_classes: int
    effective_dimensions: float  # mean over the classes of the number of directions that the labels determine
    n_without_signal: int  # classes for which weights of 0 are best
    n_at_least_noise: int  # classes for which the least noise that is allowed is best


def logme(z: Any, y: Any, *, intercept: bool = False, least_noise: float = 1e-3) -> LogEvidence:
    """LogME: log evidence of the labels an image under a linear model on the features, at its best alpha and beta.

    The mean over the classes, each against the rest; in float64, from the smaller one of the two Gram matrices, which
    give the same value. The largest value over alpha (precision of the weights) and beta (of the noise) is searched for
    globally, and bounded by ``least_noise`` alone.

    The code that its authors publish (github.com/thuml/LogME) is another number where there are fewer images than
    dimensions: it adds dim/2 log(alpha) and leaves the same term for the dim - n directions without data out of the
    determinant, so that values grow with the width of the features whatever these say of the labels. For 60 images of
    two classes and 256 dimensions of pure noise it is about 9 nats, and the evidence -1.07. It also adds 1e-5 to sums
    of squares and stops after at most 11 steps.

    As published, the model has no intercept and features are not centred: where the mean of the features is far from
    0 it serves as one. ``intercept=True`` adds one with a flat prior, so that shifts change nothing: the value is then
    the evidence of n - 1 contrasts of the targets, for each of them, and not comparable with that without.

    Rotation and scaling of the features change nothing, nor do other names of the classes.

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    intercept : bool
    least_noise : float
        Smallest standard deviation of the noise that is allowed, where targets are 0 and 1. Without it the evidence
        has no bound where features give the labels exactly with fewer degrees of freedom than images, as for two equal
        rows in otherwise independent ones.

    Returns
    -------
    LogEvidence
        ``value`` in nats an image; higher is better. It may be positive, for it is a density. Compare encoders on the
        same images only: labels without any signal have -1/2 log(2 pi e p) for a class of the share p.

    Raises
    ------
    DataError
        If there are fewer than 3 images or one class only, all rows are equal, a number is not finite, or labels do
        not match the rows.
    QueryError
        If ``least_noise`` is not above 0.

    References
    ----------
    You et al. 2021, LogME, arXiv:2102.11005, section 4; its search for alpha and beta, arXiv:2110.10545; MacKay 1992.

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> known = logme([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]], y)
    >>> unknown = logme([[1.0, 0.1], [0.0, 1.0], [1.0, 0.0], [0.1, 1.0]], y)
    >>> known.value > unknown.value
    True
    """
    require_number(least_noise, "least_noise", above=0)
    checked = (centred_of if intercept else labelled_in_float64)(z, y, least=_LEAST, needed_for="LogME")
    targets = checked.targets
    if intercept:
        targets = targets - targets.mean(axis=0)
    found = evidence_of(checked.z, targets, centred=intercept, least_noise=least_noise)
    return LogEvidence(
        value=float(found.values.mean()) / (len(targets) - intercept),
        n=len(targets),
        n_classes=len(checked.classes),
        effective_dimensions=float(found.effective_dimensions.mean()),
        n_without_signal=int(np.isinf(found.ratios).sum()),
        n_at_least_noise=int(found.at_least_noise.sum()),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Maxima:
    """The largest log evidence of each of m targets, and where it is."""

    values: Array  # nats, float64 (m,)
    ratios: Array  # alpha / beta in units of z squared, (m,); infinite where weights of 0 are best
    precisions: Array  # beta (m,)
    at_least_noise: Array  # bool (m,)
    effective_dimensions: Array  # (m,)


def evidence_of(
    z: Array, targets: Array, *, centred: bool = False, least_noise: float = 1e-3, dual: bool | None = None
) -> Maxima:
    """The largest evidence of float64 targets (n, m), given features (n, dim); of both the mean is 0 if ``centred``."""
    components = components_of(z, centred=centred, dual=dual)
    energies = components.energies(targets).T  # (m, r)
    positive = components.is_positive
    squares, energies = components.squares[positive], np.ascontiguousarray(energies[:, positive])
    n = len(z) - centred
    rest = np.maximum((targets**2).sum(axis=0) - energies.sum(axis=1), 0.0)
    if len(squares) == n:
        rest[:] = 0.0  # and not what rounding left
    problem = _Problem(squares, n, least_noise**-2)
    logs = np.arange(math.log(_BELOW * squares[0]), math.log(_ABOVE * squares.sum()), _STEP)
    heights = problem.heights(logs, energies, rest)  # (points, m)
    best = heights.max(axis=0)
    sides = np.pad(heights, ((1, 1), (0, 0)), constant_values=-np.inf)
    is_peak = (heights >= sides[:-2]) & (heights >= sides[2:]) & (heights >= best - n * _STEP**2 / 8)
    points, which = np.nonzero(is_peak)
    values, ratios = np.full(len(best), -np.inf), np.empty(len(best))
    step = max(1, _NUMBERS_AT_A_TIME // len(squares))
    for first in range(0, len(points), step):
        some = which[first : first + step]
        at, peaks = problem.climbed(logs[points[first : first + step]], energies[some], rest[some])
        for target, place, height in zip(some.tolist(), at.tolist(), peaks.tolist(), strict=True):
            if height > values[target]:
                values[target], ratios[target] = height, math.exp(place)
    flat = problem.height_without_weights(energies, rest)
    ratios = np.where(flat >= values, np.inf, ratios)
    values = np.maximum(values, flat)
    kept = 1 / (1 + squares / ratios[:, None])
    misfits = (energies * kept).sum(axis=1) + rest
    with np.errstate(divide="ignore"):
        precisions = np.minimum(n / misfits, problem.most)
    return Maxima(
        values=values,
        ratios=ratios,
        precisions=precisions,
        at_least_noise=n >= problem.most * misfits,
        effective_dimensions=(1 - kept).sum(axis=1),
    )


class _Problem:
    """Log evidence as a function of log t, with the best precision of the noise for each."""

    def __init__(self, squares: Array, n: int, most: float) -> None:
        self.squares, self.n, self.most = squares, n, most

    def _of(self, misfits: Array, determinants: Array) -> Array:
        with np.errstate(divide="ignore"):
            precisions = np.minimum(self.n / misfits, self.most)
        found: Array = self.n / 2 * np.log(precisions / (2 * math.pi)) - precisions * misfits / 2 - determinants / 2
        return found

    def heights(self, logs: Array, energies: Array, rest: Array) -> Array:
        """At each of some points for each target, (points, m)."""
        ratios = self.squares / np.exp(logs)[:, None]  # (points, r)
        misfits = (1 / (1 + ratios)) @ energies.T + rest
        return self._of(misfits, np.log1p(ratios).sum(axis=1)[:, None])

    def height_without_weights(self, energies: Array, rest: Array) -> Array:
        """The limit of large t, (m,)."""
        return self._of(energies.sum(axis=1) + rest, np.zeros(len(energies)))

    def climbed(self, logs: Array, energies: Array, rest: Array) -> tuple[Array, Array]:
        """Highest points within a step of ``logs``, one a target, and the heights there; each (m,)."""

        def height(at: Array) -> Array:
            ratios = self.squares / np.exp(at)[:, None]
            misfits = (energies / (1 + ratios)).sum(axis=1) + rest
            return self._of(misfits, np.log1p(ratios).sum(axis=1))

        low, high = logs - _STEP, logs + _STEP
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = height(left), height(right)
        for _ in range(_SHRINKING):
            falls = at_left >= at_right
            low, high = np.where(falls, low, left), np.where(falls, right, high)
            new = np.where(falls, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
            at_new = height(new)
            left, right = np.where(falls, new, right), np.where(falls, left, new)
            at_left, at_right = np.where(falls, at_new, at_right), np.where(falls, at_left, at_new)
        middle = (low + high) / 2
        return middle, height(middle)
