"""The nearest neighbours of every row among all others: exact, in bounded memory, and each pair multiplied once.

Candidates come from float32 products of centred rows, tile by tile; a tile of two blocks serves the rows of both. More
candidates are kept than are asked for. The error of such a product is bounded, so that it is known which candidates may
be among the nearest: of those the distances are computed in float64 from differences of coordinates, and ordered, equal
ones by row. A row whose last candidate may be among the nearest may have lost some; it is looked up again in float64,
among all rows. So the neighbours are those of a plain float64 search, whatever the size of the blocks.

The bound on a product of two vectors of length d is that for rounding errors without a common direction (Higham and
Mary 2019): 8 sqrt(d) units of rounding, exceeded once in 10^13 products, where the worst case would be d units.
"""

from __future__ import annotations

import math
from typing import Any

from ...errors import MissingExtra, QueryError
from ..streamed_checks import Array
from .arrays import features_of
from .distinct import first_equals
from .points import METRICS, Points, blocks, points_of
from .products import full_precision, product

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Nearest neighbours") from error

_SPARE = 14  # candidates beyond the neighbours that are asked for
_TILE_ROWS = 1536
_WIDE_BYTES = 1 << 26  # of float64 distances to all rows at a time
_FLOAT32, _FLOAT64 = 2.0**-24, 2.0**-53


def nearest(z: Any, k: int, *, metric: str = "euclidean", tile_rows: int = _TILE_ROWS) -> tuple[Array, Array]:
    """The k nearest other rows of every row.

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
    k : int
        From 1 to n - 1.
    metric : str
        "euclidean", or "cosine": the Euclidean distance of rows scaled to length 1, sqrt(2 - 2 cos), which orders rows
        as the cosine does.
    tile_rows : int
        Rows that are multiplied with as many others at a time; changes nothing but time and memory. With 2,048
        features and the default it is some 150 MB beside the features, for any number of rows.

    Returns
    -------
    distances : float64 (n, k), ascending, in units of the features
    rows : int64 (n, k)
        Of rows that are equally far the lower one comes first.

    Raises
    ------
    DataError
        If there are fewer than k + 1 rows, one is not finite, or one is 0 and the metric is "cosine".
    QueryError
        If an option is out of its range.

    Examples
    --------
    >>> distances, rows = nearest([[0.0], [1.0], [3.0]], 2)
    >>> distances.tolist(), rows.tolist()
    ([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]], [[1, 2], [0, 2], [1, 0]])
    """
    require_k(k)
    if metric not in METRICS:
        raise QueryError(f"metric is {metric!r}, expected {' or '.join(map(repr, METRICS))}.")
    points = points_of(features_of(z, least=k + 1, needed_for=f"a search for {k} neighbours"), metric)
    return nearest_points(points, k, tile_rows=tile_rows)


def require_k(k: int) -> None:
    """Refuses a number of neighbours below 1."""
    if k < 1:
        raise QueryError(f"k is {k}, expected a number of neighbours of at least 1.")


def nearest_points(
    points: Points, k: int, *, queries: Array | None = None, among: Array | None = None, tile_rows: int = _TILE_ROWS
) -> tuple[Array, Array]:
    """The same for points, or the k nearest of rows ``among`` for rows ``queries``, which have no row in common.

    Row numbers are those of the points in every case. ``among`` is ascending.
    """
    if queries is None or among is None:
        everything = np.arange(len(points))
        queries = among = everything
    available = len(among) - (queries is among)  # no row is its own neighbour
    width = min(k + _SPARE, available)
    with full_precision():
        scores, candidates = _candidates(points, queries, among, width, tile_rows)
    distances, rows, lost = _ordered(points, queries, scores, candidates, k, complete=width == available)
    if len(lost):
        distances[lost], rows[lost] = _among_all(points, queries[lost], among, k)
    return distances, rows


def _candidates(
    points: Points, queries: Array, among: Array, width: int, tile_rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Highest scores float32 (m, width), descending, and their rows int64 (m, width).

    The score of row j for row i is ij - jj / 2 in products of centred rows, half of ii less the squared distance.
    """
    best = torch.full((len(queries), width), -math.inf)
    rows = torch.full((len(queries), width), -1)
    half = torch.from_numpy(0.5 * points.squares).float()

    def keep(own: slice, scores: torch.Tensor, others: Array) -> None:
        values, places = torch.topk(scores, min(width, scores.shape[1]), dim=1, sorted=False)
        values = torch.cat([best[own], values], dim=1)
        found = torch.cat([rows[own], torch.from_numpy(others)[places]], dim=1)
        best[own], kept = torch.topk(values, width, dim=1)
        rows[own] = found.gather(1, kept)

    symmetric = queries is among
    for own in blocks(len(queries), 1, 4 * tile_rows):
        left = points.block(_run(queries[own]))
        for part in blocks(len(among), 1, 4 * tile_rows):
            if symmetric and part.start < own.start:
                continue
            tile = product(left, left if symmetric and part == own else points.block(_run(among[part])))
            if symmetric and part == own:
                tile.fill_diagonal_(-math.inf)
            elif symmetric:
                turned = tile.T.clone(memory_format=torch.contiguous_format)  # never the same memory, as of one row
                keep(part, turned.sub_(half[queries[own]]), queries[own])
            keep(own, tile.sub_(half[among[part]]), among[part])
    return best, rows


def _ordered(
    points: Points, queries: Array, scores: torch.Tensor, rows: torch.Tensor, k: int, *, complete: bool
) -> tuple[Array, Array, Array]:
    """Exact distances (m, k) and rows (m, k) from candidates, and the places of queries that may have lost some."""
    worth, among = scores.numpy().astype(np.float64), rows.numpy()
    error = _score_error(points, queries, worth[:, k - 1])
    near = worth >= (worth[:, k - 1] - 2 * error)[:, None]  # (m, width)
    lost = near[:, -1] & (not complete)
    near[lost] = False
    at, place = np.nonzero(near)
    first, second = queries[at], among[at, place]
    lower, higher = np.minimum(first, second), np.maximum(first, second)
    pairs, which = np.unique(lower * len(points) + higher, return_inverse=True)  # two that are each other's: once
    exact = points.exact_distances(pairs // len(points), pairs % len(points))[which]
    distances = np.full(near.shape, math.inf)
    distances[at, place] = exact
    order = np.lexsort((among, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(among, order, 1), np.flatnonzero(lost)


def _score_error(points: Points, queries: Array, kth: Array) -> Array:
    """By how much scores may be wrong, (m,), of rows that are as near as the k-th candidate, or nearer."""
    own = np.sqrt(points.squares[queries])  # (m,)
    longest = math.sqrt(float(points.squares.max()))
    unit = (8 * math.sqrt(points.dim) + 24) * _FLOAT32

    def error(other: Array) -> Array:
        found: Array = unit * own * other + 4 * _FLOAT32 * other**2 + points.rounding * (own + 2 * other)
        return found

    apart = points.squares[queries] - 2 * kth + 2 * error(np.full(len(own), longest))  # at most, squared
    return error(np.minimum(longest, own + np.sqrt(np.maximum(apart, 0))))


def _among_all(points: Points, queries: Array, among: Array, k: int) -> tuple[Array, Array]:
    """Neighbours by float64 products with all rows, and exact distances of all that these cannot tell apart.

    Equal rows are looked at once, for they are what most often cannot be told apart: no row of the k nearest groups
    of equal rows, by distance and first row, is behind one of another group.
    """
    firsts, groups = np.unique(first_equals(points, among), return_inverse=True)
    members = np.split(among[np.argsort(groups, kind="stable")], np.cumsum(np.bincount(groups))[:-1])
    found = np.empty((len(queries), k))
    rows = np.empty((len(queries), k), dtype=np.int64)
    wanted = min(k + 1, len(firsts))  # one of them may be the query itself, alone
    slack = 8 * (8 * math.sqrt(points.dim) + 24) * _FLOAT64 * float(points.squares.max())
    for part in blocks(len(queries), len(firsts), _WIDE_BYTES // 2):
        own = _wide(points, queries[part])
        squared = np.empty((len(own), len(firsts)))
        for others in blocks(len(firsts), points.dim):
            right = _wide(points, firsts[others])
            squared[:, others] = np.einsum("nd,nd->n", right, right) - 2 * own @ right.T
        for place, query in enumerate(queries[part]):
            limit = np.partition(squared[place], wanted - 1)[wanted - 1] + slack
            near = np.flatnonzero(squared[place] <= limit)
            apart = points.exact_distances(np.full(len(near), query), firsts[near])
            nearest_groups = np.lexsort((firsts[near], apart))[:wanted]
            some = [members[group][: k + 1] for group in near[nearest_groups]]
            candidates = np.concatenate(some)
            distances = np.repeat(apart[nearest_groups], [len(group) for group in some])
            distances[candidates == query] = math.inf
            order = np.lexsort((candidates, distances))[:k]
            found[part.start + place], rows[part.start + place] = distances[order], candidates[order]
    return found, rows


def _wide(points: Points, rows: Array) -> Array:
    """Centred rows in float64."""
    found: Array = (points.exact(rows) - points.centre) * points.gain
    return found


def _run(rows: Array) -> slice | Array:
    """A run of neighbouring rows as a slice, which needs no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
