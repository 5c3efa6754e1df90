"""k-means: Lloyd's iteration on all features, without the rows whose cluster cannot have changed.

The start is found in a few directions (:mod:`.seeding`). For every row an upper bound of its distance to its own
centroid and lower bounds of those to the others are kept (Elkan 2003), where there are many, of several others together
(Ding et al. 2015); as centroids settle, fewer and fewer rows have to be compared with them again. Products are in
float32, sums of rows in float64. Random numbers are drawn for rows in an order of their own
(:func:`.distinct.fingerprints`), so that the clusters do not depend on the order of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array
from ..threads import threads_for
from .arrays import features_of
from .distinct import fingerprints
from .points import Points, blocks, points_of, product
from .seeding import reduced, spread_rows

with requires_extra("evaluate", needed_for="k-means"):
    import numpy as np
    import torch

_ROUNDS_IN_SEEDING = 50  # of Lloyd's iteration in the few directions
_LEAST_WIDTH = 1024  # in working out how many rows are compared together
_MOST_BOUNDS = 1 << 25  # in memory
_ROUNDING = 1e-5  # of a float32 distance, in proportion to the length of the row


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Clusters:
    """A partition of rows by k-means."""

    labels: Array
    """Cluster of each row, int64 (n,), 0 to n_clusters - 1; none is empty."""
    centroids: Array
    """Mean of each cluster's rows, float64 (n_clusters, dim)."""
    objective: float
    """Mean squared distance of a row from its centroid; lower is better."""
    n_iterations: int
    """Rounds with all features, those of the best start."""
    n_clusters: int


def kmeans(
    z: Any, n_clusters: int, *, seed: int = 0, n_restarts: int = 1, max_iter: int = 300, tol: float = 1e-4
) -> Clusters:
    """Partition of features into clusters around centroids, by Euclidean distance.

    The same rows in another order get the same clusters. A scale that is no power of two may, by rounding, lead to
    another partition, about as good.

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
    n_clusters : int
        From 1 to the number of distinct rows.
    seed : int
    n_restarts : int
        Starts, of which the one with the lowest objective counts.
    max_iter : int
    tol : float
        It ends when no row changes its cluster, or when the squared shifts of all centroids add up to less than this
        share of the mean variance of a feature, as scikit-learn does.

    Raises
    ------
    DataError
        If there are fewer distinct rows than clusters, or a number is not finite.
    QueryError
        If an option is out of its range.

    Examples
    --------
    >>> found = kmeans([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> sorted(found.centroids[:, 0].tolist()), found.objective, bool(found.labels[0] == found.labels[1])
    ([0.5, 10.5], 0.25, True)
    """
    require_n_clusters(n_clusters)
    rows = features_of(z, least=n_clusters, needed_for=f"k-means with {n_clusters} clusters")
    points = points_of(rows, "euclidean")
    return kmeans_points(points, n_clusters, seed=seed, n_restarts=n_restarts, max_iter=max_iter, tol=tol)


def require_n_clusters(n_clusters: int) -> None:
    """Refuses a number of clusters below 1."""
    if n_clusters < 1:
        raise QueryError(f"n_clusters is {n_clusters}, expected at least 1.")


def kmeans_points(
    points: Points,
    n_clusters: int,
    *,
    seed: int = 0,
    n_restarts: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    marks: Array | None = None,
) -> Clusters:
    """The same for points: of rows of length 1 if these are for cosine distances; ``marks`` are their fingerprints."""
    if n_restarts < 1 or max_iter < 1 or not tol >= 0:
        raise QueryError(
            f"n_restarts is {n_restarts}, max_iter {max_iter} and tol {tol}, expected numbers of at least 1, 1 and 0."
        )
    marks = fingerprints(points) if marks is None else marks
    _, distinct = np.unique(marks, return_inverse=True)
    n_distinct = int(distinct.max()) + 1
    if n_clusters > n_distinct:
        raise DataError(
            f"z has {n_distinct} distinct row{'s' * (n_distinct != 1)}, but k-means was asked for {n_clusters} "
            "clusters: ask for fewer, or give it more images."
        )
    order = np.argsort(marks, kind="stable")
    x = torch.from_numpy(np.empty((len(points), points.dim), dtype=np.float32))  # in large pages
    for part in blocks(len(points), points.dim):
        x[part] = points.block(order[part])
    if n_clusters == n_distinct:
        labels = torch.from_numpy(distinct[order])
        best = _finished(x, labels, *_sums(x, labels, n_clusters), 0)
    else:
        runs = (_run(x, n_clusters, (seed, restart), max_iter, tol) for restart in range(n_restarts))
        with threads_for(0):  # beside NumPy's products, threads of torch would wait for these, and cost more
            best = min(runs, key=lambda run: run[2])
    in_order = np.empty(len(points), dtype=np.int64)
    in_order[order] = best[0].numpy()
    unit = points.gain * (points.scale if points.lengths is None else 1.0)
    shift = points.centre / (points.scale if points.lengths is None else 1.0)
    return Clusters(
        labels=in_order,
        centroids=best[1].numpy() / unit + shift,
        objective=best[2] / unit / unit,
        n_iterations=best[3],
        n_clusters=n_clusters,
    )


_Run = tuple[torch.Tensor, torch.Tensor, float, int]  # labels, centroids float64, objective, iterations


def _run(x: torch.Tensor, n_clusters: int, seed: tuple[int, int], max_iter: int, tol: float) -> _Run:
    """From one start."""
    generator = np.random.default_rng(seed)
    few = reduced(x, generator)
    centroids = few[torch.from_numpy(spread_rows(few, n_clusters, generator))].double()
    enough = tol * float(torch.linalg.vector_norm(x, dim=1).double().square().mean()) / x.shape[1]
    labels = torch.full((len(x),), -1)
    if few is not x:
        labels = _lloyd(few, labels, centroids, _ROUNDS_IN_SEEDING, enough)[0]
    return _finished(x, *_lloyd(x, labels, centroids, max_iter, enough))


def _finished(
    x: torch.Tensor, labels: torch.Tensor, sums: torch.Tensor, counts: torch.Tensor, n_iterations: int
) -> _Run:
    """With the centroids that these labels make, and the mean squared distance from them."""
    centroids = sums / counts[:, None]
    single = centroids.float()
    total = 0.0
    for part in blocks(*x.shape):
        apart = x[part] - single[labels[part]]
        total += float(torch.linalg.vector_norm(apart, dim=1).double().square().sum())
    return labels, centroids, total / len(x), n_iterations


def _lloyd(
    x: torch.Tensor, labels: torch.Tensor, centroids: torch.Tensor, max_iter: int, enough: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Labels, none of them unused, the sums and the numbers of the rows of each, and how often it went round.

    It starts from labels, or from centroids where these are -1.
    """
    n_clusters = len(centroids)
    started = bool(labels[0] >= 0)
    if started:
        sums, counts = _sums(x, labels, n_clusters)
        centroids = sums / counts[:, None]
    lengths = torch.linalg.vector_norm(x, dim=1)
    slack = _ROUNDING * (lengths + float(centroids.norm(dim=1).max()))
    together = -(-len(x) * n_clusters // _MOST_BOUNDS)  # clusters that share a lower bound
    labels, above = labels.clone(), torch.full((len(x),), math.inf)
    below = torch.zeros(len(x), -(-n_clusters // together))
    for iteration in range(1, max_iter + 1):
        active = torch.nonzero(below.amin(dim=1) < above + slack)[:, 0]
        if not len(active):
            return labels, sums, counts, iteration
        own = _compare(x, lengths, active, centroids, above, below)
        moved = active[own != labels[active]]
        before, labels[active] = labels[moved], own
        if iteration == 1 and not started:
            sums, counts = _sums(x, labels, n_clusters)
        else:
            _add(sums, counts, x, moved, before, -1)
            _add(sums, counts, x, moved, labels[moved], 1)
        filled = _fill_empty(x, labels, above, below, sums, counts)
        if not filled and not len(moved):
            return labels, sums, counts, iteration
        new = sums / counts[:, None]
        shifts = (new - centroids).norm(dim=1)  # (n_clusters,)
        centroids = new
        if not filled and float(shifts.square().sum()) <= enough:
            return labels, sums, counts, iteration
        shifts = shifts.float() * (1 + _ROUNDING)
        above += shifts[labels]
        below -= _shared(shifts[None], below.shape[1], 0.0)
    return labels, sums, counts, max_iter


def _compare(
    x: torch.Tensor,
    lengths: torch.Tensor,
    active: torch.Tensor,
    centroids: torch.Tensor,
    above: torch.Tensor,
    below: torch.Tensor,
) -> torch.Tensor:
    """The nearest centroid of some rows; their bounds become the distances to it and to the others."""
    single = centroids.float()
    half = (0.5 * centroids.square().sum(dim=1)).float()
    found = []
    every = len(active) == len(x)
    for part in blocks(len(active), max(x.shape[1], len(centroids), _LEAST_WIDTH)):
        at = part if every else active[part]
        rows = x[part] if every else torch.from_numpy(x.numpy()[active[part].numpy()])
        scores = product(rows, single).sub_(half)  # (m, n_clusters), half the squared length less half the distance's
        own = torch.from_numpy(scores.numpy().argmax(axis=1))
        values = scores.gather(1, own[:, None])[:, 0]
        squares = lengths[at].square()
        above[at] = (squares - 2 * values).clamp_(min=0).sqrt_()
        scores.scatter_(1, own[:, None], -math.inf)
        others = _shared(scores, below.shape[1], -math.inf)
        below[at] = others.mul_(-2).add_(squares[:, None]).clamp_(min=0).sqrt_()
        found.append(own)
    return torch.cat(found)


def _shared(values: torch.Tensor, n_bounds: int, least: float) -> torch.Tensor:
    """Largest values (m, n_bounds) of the clusters that share a bound, from those of all (m, n_clusters)."""
    if values.shape[1] == n_bounds:
        return values
    together = -(-values.shape[1] // n_bounds)
    padded = torch.nn.functional.pad(values, (0, n_bounds * together - values.shape[1]), value=least)
    return padded.view(len(values), n_bounds, together).amax(dim=2)


def _fill_empty(
    x: torch.Tensor,
    labels: torch.Tensor,
    above: torch.Tensor,
    below: torch.Tensor,
    sums: torch.Tensor,
    counts: torch.Tensor,
) -> bool:
    """Gives each empty cluster the row farthest from its centroid that is not alone; whether there was one."""
    empty = torch.nonzero(counts == 0)[:, 0].tolist()
    candidates = iter(torch.argsort(above, descending=True).tolist() if empty else [])
    for cluster in empty:
        row = next(row for row in candidates if counts[labels[row]] > 1)
        at = torch.tensor([row])
        _add(sums, counts, x, at, labels[at], -1)
        labels[row], above[row], below[row] = cluster, 0.0, 0.0
        _add(sums, counts, x, at, labels[at], 1)
    return bool(empty)


def _add(
    sums: torch.Tensor, counts: torch.Tensor, x: torch.Tensor, rows: torch.Tensor, labels: torch.Tensor, sign: int
) -> None:
    """Adds rows to the sums of clusters, or takes them off."""
    for part in blocks(len(rows), x.shape[1]):
        some = torch.from_numpy(x.numpy()[rows[part].numpy()])
        sums.index_add_(0, labels[part], some.double(), alpha=sign)
    counts.index_add_(0, labels, torch.ones_like(labels), alpha=sign)


def _sums(x: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of the rows of each cluster, float64 (n_clusters, dim), and their numbers, int64 (n_clusters,)."""
    sums = torch.zeros(n_clusters, x.shape[1], dtype=torch.float64)
    for part in blocks(*x.shape):
        sums.index_add_(0, labels[part], x[part].double())
    return sums, torch.bincount(labels, minlength=n_clusters)
