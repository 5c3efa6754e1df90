"""Where k-means starts: centroids that are far apart, found in a few directions that hold most of the variance.

A greedy k-means++ start reads all features once a cluster, which takes longer than all else. In the span of 128
directions it takes little, and so do the first rounds of k-means, which move the centroids most; what is left to do
with all features is to settle.
"""

from __future__ import annotations

import math

from ...optional import requires_extra
from ..streamed_checks import Array
from .points import product

with requires_extra("evaluate", needed_for="k-means"):
    import numpy as np
    import torch

_DIRECTIONS = 128
_SKETCHED_ROWS = 1536


def reduced(x: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Centred rows (n, dim) in orthonormal directions that hold most of their variance, float32 (n, 128), or ``x``.

    The directions span what random combinations of features become by one multiplication with the covariance of some
    thousand rows (Halko et al. 2011).
    """
    if x.shape[1] <= _DIRECTIONS:
        return x
    drawn = generator.standard_normal((x.shape[1], _DIRECTIONS), dtype=np.float32)
    some = x[:: -(-len(x) // _SKETCHED_ROWS)].contiguous().numpy()
    basis = torch.linalg.qr(torch.from_numpy(some.T @ (some @ drawn)))[0]  # (dim, 128)
    return product(x, basis.T)


def spread_rows(x: torch.Tensor, n_clusters: int, generator: np.random.Generator) -> Array:
    """Rows to start from, int64 (n_clusters,): greedy k-means++ (Arthur and Vassilvitskii 2007, as in scikit-learn).

    The first is drawn at random, every other one with a probability in proportion to its squared distance from those
    that are chosen; of several draws the one that leaves the smallest sum is taken.
    """
    n_draws = 2 + int(math.log(n_clusters))
    squares = x.square().sum(dim=1)
    chosen = [int(generator.integers(len(x)))]
    left = _squared_distances(x, squares, torch.tensor(chosen))[0]
    for _ in range(1, n_clusters):
        sums = left.double().cumsum(dim=0)
        marks = torch.from_numpy(generator.random(n_draws)) * sums[-1]
        draws = torch.searchsorted(sums, marks, right=True).clamp_(max=len(x) - 1)
        after = torch.minimum(_squared_distances(x, squares, draws), left)  # (n_draws, n)
        best = int(after.sum(dim=1, dtype=torch.float64).argmin())
        chosen.append(int(draws[best]))
        left = after[best]
    return np.array(chosen)


def _squared_distances(x: torch.Tensor, squares: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Of some rows from all: float32 (m, n)."""
    found: torch.Tensor = (squares[rows, None] + squares).sub_(product(x, x[rows]).T, alpha=2)
    return found.clamp_(min=0).scatter_(1, rows[:, None], 0.0)
