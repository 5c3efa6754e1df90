"""The nearest neighbours of every row among all others: exact, in bounded memory, and each pair multiplied once.

Products in float32, whose error is bounded, leave a few candidates for each row (:mod:`.candidates`). Of those the
distances are computed in float64 from differences of coordinates, and ordered, equal ones by row. A row to which
float32 leaves too many is looked up again in float64, among all rows. So the neighbours are those of a plain float64
search, whatever the processor and the size of the tiles.
"""

from __future__ import annotations

import math
from typing import Any

from ...errors import QueryError
from ...optional import requires_extra
from ..streamed_checks import Array
from .arrays import features_of
from .candidates import candidates
from .distinct import first_equals
from .points import METRICS, Points, blocks, points_of

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np

_TILE_ROWS = 1024
_PAIRS_AT_ONCE = 1 << 20  # candidates whose exact distances are sorted together
_WIDE_BYTES = 1 << 26  # of float64 distances to all rows at a time
_FLOAT64 = 2.0**-53


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
        Rows that are multiplied with as many others at a time, at least 64; changes nothing but time and memory. With
        2,048 features and the default it is some 100 MB beside the features and some 200 bytes a row.

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
    points: Points,
    k: int,
    *,
    queries: Array | None = None,
    among: Array | None = None,
    tile_rows: int = _TILE_ROWS,
) -> tuple[Array, Array]:
    """The same for points, or the k nearest of rows ``among`` for rows ``queries``, which have no row in common.

    Row numbers are those of the points in every case. ``among`` is ascending.
    """
    if queries is None or among is None:
        everything = np.arange(len(points))
        queries = among = everything
    at, rows, lost = candidates(points, queries, among, k, tile_rows=tile_rows)
    distances, neighbours = _ordered(points, queries, at, rows, k)
    if len(lost):
        distances[lost], neighbours[lost] = _among_all(points, queries[lost], among, k)
    return distances, neighbours


def _ordered(points: Points, queries: Array, at: Array, rows: Array, k: int) -> tuple[Array, Array]:
    """Exact distances (m, k) and rows (m, k) from all pairs that may be among the nearest; 0 for queries without."""
    distances, neighbours = np.zeros((len(queries), k)), np.zeros((len(queries), k), dtype=np.int64)
    ends = np.cumsum(np.bincount(at, minlength=len(queries)))
    chunk = (ends - 1) // _PAIRS_AT_ONCE  # of each query
    for number in range(int(chunk[-1]) + 1):
        own = np.flatnonzero(chunk == number)
        if len(own):
            pairs = np.flatnonzero(chunk[at] == number) if chunk[-1] else slice(None)
            _order(points, queries, at[pairs], rows[pairs], distances, neighbours)
    return distances, neighbours


def _order(points: Points, queries: Array, at: Array, rows: Array, distances: Array, neighbours: Array) -> None:
    """Writes the nearest of some queries, of which all pairs are given."""
    first, k = queries[at], distances.shape[1]
    lower, higher = np.minimum(first, rows), np.maximum(first, rows)
    pairs, which = np.unique(lower * len(points) + higher, return_inverse=True)  # two that are each other's: once
    exact = points.exact_distances(pairs // len(points), pairs % len(points))[which]
    order = np.lexsort((rows, exact, at))
    own, starts = np.unique(at[order], return_index=True)
    chosen = order[starts[:, None] + np.arange(k)]  # (n, k)
    distances[own], neighbours[own] = exact[chosen], rows[chosen]


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
    # |b|^2 - 2 ab is off by 3 (d + 4) units of the largest square; distances that order by 4 (d + 6), each twice
    longest = 1.001 * math.sqrt(points.squares.max()) + points.rounding
    slack = 16 * (points.dim + 8) * _FLOAT64 * longest**2
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
