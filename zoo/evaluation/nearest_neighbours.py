"""Exact nearest neighbours in bounded memory: float32 products leave candidates, which float64 ranks.

Of each query the k + 16 smallest distances by float32 products are kept, and those that may be among its k nearest, by
a bound of the products' error, are computed again in float64; equal ones are ordered by row. So the neighbours are
those of a plain float64 search, whatever the processor and the size of the blocks. A query whose k-th distance the
bound cannot tell from the (k + 16)-th is compared with all rows in float64. Products are never rounded to fewer digits,
whatever torch has been allowed elsewhere.

There are two searches, for what makes the one fast rules out the other:

* :func:`find_nearest`, of rows among themselves, in memory: every pair is multiplied once, for the rows of both
  sides.
* :class:`CosineIndex`, of queries among rows that may lie on disk, by cosine similarity: blocks are read in order,
  and may be multiplied on a GPU.

Below, u = 2^-24 is float32's unit of rounding, and g = (d + 4) u / (1 - (d + 4) u) bounds the relative error of a sum
of d + 2 products in any order, with or without fused operations, the rounding of squared lengths included.

Rows among themselves. With two features more, the product of a row with another is half their squared distance,
K = |a|^2 / 2 + |b|^2 / 2 - ab. Distances do not change when a vector is taken off every row, but the rounding of that
sum grows with the lengths: rows are therefore centred. Cosine distances are those between rows of length 1. K is off by
at most g (|a|^2 + |b|^2), so that for rows at the distance t, for which |b| <= |a| + t,

    t^2 <= 2 K + 2 g (3 |a|^2 + 2 t^2)    and    K <= t^2 / 2 + g (|a|^2 + (|a| + t)^2).

A row is moved by u |a| where it is rounded to float32, and for cosine distances by up to a constant m before: distances
change by no more than the two rows are moved. The float64 rounding of the final distances is far below the 2^-20 by
which limits are raised.

Reference. The similarity of a query q and a row v of length 1 is their product in float64, summed up pair by pair and
rounded to twelve digits, so that equal rows are equally similar. With a vector c taken off both, near the mean of the
rows,

    q v = (q - c) (v - c) + h(v) + c q,    h(v) = (v v - c c - (v - c) (v - c)) / 2,

of which the last is the same for all v, and the others are one product of d + 1 terms. It is off by at most
g (|q - c| |v - c| + |h(v)|) from summing up, and by 5 u (|q - c| + |v - c|) + 16 u u from the rounding of the rows
and of h.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import DataError, QueryError
from ..optional import require_extra
from .arrays import Array, check_finite_rows

with require_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from .streamed_training import LabelledRows

METRICS = ("euclidean", "cosine")
_UNIT, _FLOAT64_UNIT = 2.0**-24, 2.0**-53  # of rounding
_UNDERFLOW = 2.0**-100  # bound of the sum of numbers that float32 takes for 0


def multiply_rows(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """All products of float32 rows (m, dim) and (n, dim), with all 24 bits whatever torch is allowed to leave out."""
    if left.device.type == "cpu":
        found: Array = left.numpy() @ right.numpy().T
        return torch.from_numpy(found)
    allowed = getattr(torch.backends.cuda.matmul, "fp32_precision", None)  # older versions have one setting for all
    full = torch.get_float32_matmul_precision() == "highest" if allowed is None else allowed in ("none", "ieee")
    return left @ right.T if full else (left.double() @ right.double().T).float()


def scale_to_range(rows: Array) -> Array:
    """Rows as float32, float64 ones multiplied by powers of two so that it can hold their directions.

    >>> scale_to_range(np.array([[3 * 2.0**600, 0.0], [0.0, 2.0]])).max(axis=1).tolist()
    [0.75, 0.5]
    """
    return _squarable(rows).astype(np.float32, copy=False)


def _squarable(rows: Array) -> Array:
    """Rows whose squares float64 can hold: those of float64 multiplied by powers of two, which rounds nothing."""
    if rows.dtype == np.float32:
        return rows
    exponents = np.frexp(np.maximum(rows.max(axis=1), -rows.min(axis=1)))[1]
    found: Array = np.ldexp(rows, -exponents[:, None])
    return found


def _relative_error(dim: int) -> float:
    """g, as above."""
    return (dim + 4) * _UNIT / (1 - (dim + 4) * _UNIT)


def _norms(rows: Array) -> Array:
    """Lengths of float64 rows, each summed up by itself."""
    found: Array = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return found


def _first(at: Array, keys: Array, rows: Array, k: int) -> Array:
    """Indices (m, k) of the pairs with the smallest keys, then rows, of each of the m queries ``at`` which they are.

    Pairs in the order of queries and rows are sorted by their keys, one query a row of a table, stably: that takes a
    third of the time of sorting all pairs by query, key and row.
    """
    order = np.argsort(at * (int(rows.max(initial=0)) + 1) + rows)
    counts = np.bincount(at)
    counts = counts[counts > 0]
    starts = np.cumsum(counts) - counts
    query = np.repeat(np.arange(len(counts)), counts)
    table = np.full((len(counts), counts.max(initial=k)), np.inf)
    table[query, np.arange(len(order)) - starts[query]] = keys[order]
    nearest = np.argsort(table, axis=1, kind="stable")[:, :k]
    chosen: Array = order[starts[:, None] + nearest]
    return chosen


_CACHE_BYTES = 1 << 22  # of features that are processed together, so that they stay in the cache
_PAIRED_BYTES = 1 << 19  # of float64 rows whose exact distances are computed together


@dataclass(frozen=True, eq=False, slots=True)
class PointSet:
    """Rows (n, dim), how they are centred and scaled, and their ``lengths`` float64 (n,) for cosine distances."""

    x: Array
    lengths: Array | None
    scale: float  # a power of two, for numbers whose squares float32 or float64 cannot hold
    centre: Array  # float64 (dim,), of the scaled rows
    squares: Array  # float64 (n,): squared lengths of the centred rows as blocks have them

    def __len__(self) -> int:
        return len(self.x)

    @property
    def rounding(self) -> float:
        """How far at most float32 has moved a row of a block beyond its last digit."""
        return 0.0 if self.lengths is None or self.x.dtype != np.float32 else 2.0**-22

    @property
    def dim(self) -> int:
        return int(self.x.shape[1])

    def block(self, rows: slice | Array) -> torch.Tensor:
        """Centred rows, float32 (m, dim), in units of 1 / scale; of length 1 before that for cosine distances."""
        return torch.from_numpy(_centred(self.x[rows], self.lengths, rows, self.scale, self.centre))

    def exact(self, rows: slice | Array) -> Array:
        """Rows, float64 (m, dim), not centred, in units of 1 / scale; of length 1 for cosine distances."""
        found = self.x[rows].astype(np.float64)
        if self.scale != 1:
            found *= self.scale
        if self.lengths is not None:
            found /= self.lengths[rows, None]
        return found

    def exact_distances(self, first: Array, second: Array) -> Array:
        """Distances of pairs of rows, float64 (m,), from differences of coordinates.

        Every pair is summed up by itself, so that its distance does not depend on the other pairs, and equal rows are
        at equal distances to the last digit.
        """
        found = np.empty(len(first))
        for part in split_into_blocks(len(first), 2 * self.dim, _PAIRED_BYTES):
            apart = self.exact(first[part])
            apart -= self.exact(second[part])
            found[part] = np.einsum("nd,nd->n", apart, apart)
        distances: Array = np.sqrt(found)
        if self.lengths is None:
            return distances / self.scale
        same_direction = (self.dim + 8) * _FLOAT64_UNIT  # by so much two of length 1 may be rounded apart
        return np.where(distances <= same_direction, 0.0, distances)


def build_points(z: Array, metric: str, name: str = "z") -> PointSet:
    """Checked features (n, dim) as points; refuses rows of zeros for cosine distances."""
    scale = _power_of_two(max(_largest(z[part]) for part in split_into_blocks(*z.shape)), z.dtype)
    lengths = np.empty(len(z)) if metric == "cosine" else None
    total = np.zeros(z.shape[1])
    for part in split_into_blocks(*z.shape):
        wide = z[part].astype(np.float64)
        if scale != 1:
            wide *= scale
        if lengths is None:
            total += wide.sum(axis=0)
            continue
        lengths[part] = _norms(wide)
        if not lengths[part].all():
            raise DataError(
                f"Row {part.start + int(lengths[part].argmin())} of {name} is 0 everywhere, so it has no direction for "
                "a cosine: leave it out, or take Euclidean distances."
            )
        total += np.einsum("nd,n->d", wide, 1 / lengths[part])
    centre = total / len(z)
    if lengths is None and z.dtype == np.float32:  # so that a difference is rounded once, in proportion to itself
        centre = centre.astype(np.float32).astype(np.float64)
    squares = np.empty(len(z))
    for part in split_into_blocks(*z.shape):
        rows = _centred(z[part], lengths, part, scale, centre).astype(np.float64)
        squares[part] = np.einsum("nd,nd->n", rows, rows)
    return PointSet(z, lengths, scale, centre, squares)


def split_into_blocks(n: int, dim: int, n_bytes: int = _CACHE_BYTES) -> list[slice]:
    """Slices of n rows, as many rows at a time as take so many bytes in float32, at least 16."""
    step = max(16, n_bytes // (4 * dim))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _power_of_two(largest: float, dtype: Any) -> float:
    """1 if numbers so large can be squared and added up in float32, otherwise the power of two that makes them so."""
    if largest == 0 or 1e-6 < largest < 1e12:
        return 1.0
    most = 120 if dtype == np.float32 else 1000  # its type has to hold the power, too
    return math.ldexp(1.0, max(-most, min(most, -math.frexp(largest)[1])))


def _largest(rows: Array) -> float:
    return max(float(rows.max()), -float(rows.min()))


def _centred(rows: Array, lengths: Array | None, part: slice | Array, scale: float, centre: Array) -> Array:
    """Rows ``part`` of all, float32, brought into the range of their type before the centre is taken off."""
    if lengths is not None:
        factors = (scale / lengths[part])[:, None]
        if float(factors.max()) < float(np.finfo(rows.dtype).max):
            factors = factors.astype(rows.dtype)
        scaled = (rows * factors).astype(rows.dtype, copy=False)
    else:
        scaled = rows if scale == 1 else rows * rows.dtype.type(scale)
    found: Array = np.subtract(scaled, centre.astype(scaled.dtype), out=None if scaled is rows else scaled)
    return found.astype(np.float32, copy=False)


_SPARE = 16  # candidates beyond the neighbours that are asked for
_TILE_ROWS = 1024
_ROWS_IN_CACHE = 512  # that are centred and rounded together
_FEWEST_GROUPS = 64
_LOADED_BYTES = 1 << 25  # of rows that are loaded at a time
_MOST_PENDING = 1 << 21  # candidates before those beyond the limits are dropped
_LIMIT_MARGIN = 1 + 2.0**-20


class _Candidates:
    """The pairs with the ``width`` smallest keys of each of n queries."""

    def __init__(self, n: int, width: int, tile_rows: int) -> None:
        self.best = np.full((n, width), np.inf, dtype=np.float32)
        self._n_groups = min(max(_FEWEST_GROUPS, 2 * width), tile_rows)
        self._pending = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
        self._n_pending = self._n_settled = 0

    @property
    def limits(self) -> Array:
        """Float32 (n,): of each query, all pairs with a smaller key are there, ``width - 1`` or hardly more."""
        return self.best[:, -1]

    def take(self, keys: Array, first: int, other: int, *, axis: int = 0) -> None:
        """Collects from a tile, whose queries are along ``axis`` and begin at ``first``, the others at ``other``.

        The smallest keys of groups of the others bound the ``width``-th smallest of a query.
        """
        in_group = keys.shape[1 - axis] // self._n_groups
        if axis == 0:
            grouped = keys[:, : in_group * self._n_groups].reshape(len(keys), in_group, self._n_groups)
            smallest = grouped.min(axis=1, initial=np.inf)
        else:
            grouped = keys[: in_group * self._n_groups].reshape(in_group, self._n_groups, keys.shape[1])
            smallest = grouped.min(axis=0, initial=np.inf).T
        queries = slice(first, first + keys.shape[axis])
        best = np.concatenate([self.best[queries], smallest], axis=1)
        best.partition(self.best.shape[1] - 1, axis=1)
        self.best[queries] = best[:, : self.best.shape[1]]
        limits = self.limits[queries]
        hits = np.flatnonzero(keys < (limits[:, None] if axis == 0 else limits))
        row, column = np.divmod(hits, keys.shape[1])
        at, place = (row, column) if axis == 0 else (column, row)
        self._pending.append(((first + at).astype(np.int32), (other + place).astype(np.int32), keys[row, column]))
        self._n_pending += len(hits)
        if self._n_pending > max(_MOST_PENDING, 2 * self._n_settled):
            self.found()

    def found(self) -> tuple[Array, Array, Array]:
        """Positions of queries, positions of others and keys of all pairs that are within the limits."""
        at, other, keys = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        within = keys < self.limits[at]
        self._pending = [(at[within], other[within], keys[within])]
        self._n_pending = self._n_settled = len(self._pending[0][0])
        return self._pending[0]


def _collected(points: PointSet, queries: Array, among: Array, width: int, tile_rows: int) -> _Candidates:
    """Candidates by half the squared distances in float32, tile by tile; a tile of ``queries`` serves both sides."""
    symmetric = queries is among
    found = _Candidates(len(queries), width, tile_rows)
    step = max(1, _LOADED_BYTES // (4 * (points.dim + 2) * tile_rows)) * tile_rows
    out = np.empty(tile_rows**2, dtype=np.float32)
    for first in range(0, len(queries), step):
        left = _loaded(points, queries[first : first + step])
        for second in range(first if symmetric else 0, len(among), step):
            same = symmetric and first == second
            right = left.copy() if same else _loaded(points, among[second : second + step])
            right[:, :-2] *= -1
            right[:, [-2, -1]] = right[:, [-1, -2]]
            for i in range(0, len(left), tile_rows):
                for j in range(i if same else 0, len(right), tile_rows):
                    rows, columns = left[i : i + tile_rows], right[j : j + tile_rows]
                    keys = out[: len(rows) * len(columns)].reshape(len(rows), len(columns))
                    np.matmul(rows, columns.T, out=keys)  # torch might leave out bits, if the user allowed it
                    if same and i == j:
                        np.fill_diagonal(keys, np.inf)
                    found.take(keys, first + i, second + j)
                    if symmetric and first + i != second + j:
                        found.take(keys, second + j, first + i, axis=1)
    return found


def _loaded(points: PointSet, rows: Array) -> Array:
    """Factors of the products that are keys, float32 (m, dim + 2): a, |a|^2 / 2 and 1."""
    found = np.empty((len(rows), points.dim + 2), dtype=np.float32)
    for part in (slice(first, first + _ROWS_IN_CACHE) for first in range(0, len(rows), _ROWS_IN_CACHE)):
        found[part, :-2] = points.block(_run(rows[part])).numpy()
    found[:, -2] = 0.5 * points.squares[rows]
    found[:, -1] = 1
    return found


def _reach(points: PointSet, queries: Array, kth: Array) -> Array:
    """The largest key (m,) that one of the k nearest rows may have, from the k-th smallest keys of the queries."""
    g, moved = _relative_error(points.dim), points.rounding
    length = 1.001 * np.sqrt(points.squares[queries]) + moved  # rounded or not
    rounded = np.sqrt((2 * np.maximum(kth, 0) + 6 * g * length**2 + _UNDERFLOW) / (1 - 4 * g))  # k rows are as near
    apart = (rounded + 2 * _UNIT * length + 2 * moved) / (1 - _UNIT)  # and thus as they are
    reach = apart + _UNIT * (2 * length + apart) + 2 * moved  # of a row as near as that, rounded
    found: Array = _LIMIT_MARGIN * (0.5 * reach**2 + g * (length**2 + (length + reach) ** 2) + _UNDERFLOW)
    return found


def _run(rows: Array) -> slice | Array:
    """Consecutive rows as a slice, which needs no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def compute_fingerprints(points: PointSet) -> Array:
    """One number per row, float64 (n,): the same for equal rows, and for others only by accident.

    It is a weighted sum of the row, with fixed weights, so that rows that are sorted by it are in an order that does
    not depend on the order they came in.
    """
    weights = np.random.default_rng(20_170_922).standard_normal(points.dim)
    parts = []
    for part in split_into_blocks(len(points), points.dim):
        wide = points.x[part].astype(np.float64)
        if points.scale != 1:
            wide *= points.scale
        parts.append(np.einsum("nd,d->n", wide, weights))
    found = np.concatenate(parts)
    return found if points.lengths is None else found / points.lengths


def find_first_equals(points: PointSet, rows: Array) -> Array:
    """For each of some ascending rows the first of them that is equal to it, in every feature: int64 (m,)."""
    _, start, group = np.unique(compute_fingerprints(points)[rows], return_index=True, return_inverse=True)
    firsts = rows[start[group]]
    copies = np.flatnonzero(firsts != rows)
    for part in split_into_blocks(len(copies), points.dim):
        at = copies[part]
        equal = (points.x[rows[at]] == points.x[firsts[at]]).all(axis=1)
        firsts[at[~equal]] = rows[at[~equal]]
    return firsts


_WIDE_BYTES = 1 << 26  # of float64 distances to all rows at a time


def find_nearest(z: Any, k: int, *, metric: str = "euclidean", tile_rows: int = _TILE_ROWS) -> tuple[Array, Array]:
    """The k nearest other rows of every row.

    Parameters
    ----------
    z : array or :attr:`zoo.features.Features.x`, shape (n, dim)
    k : int
        From 1 to n - 1.
    metric : str
        "euclidean", or "cosine": the Euclidean distance of rows scaled to length 1, sqrt(2 - 2 cos), which orders rows
        as the cosine does.
    tile_rows : int
        Rows that are multiplied with as many others at a time, at least 64; changes nothing but time and memory. With
        2,048 features and the default it is some 100 MB in addition to the features and some 200 bytes per row.

    Returns
    -------
    distances : float64 (n, k), ascending, in units of the features
    rows : int64 (n, k)
        Of rows that are equally far the lower one comes first.

    Examples
    --------
    >>> distances, rows = find_nearest([[0.0], [1.0], [3.0]], 2)
    >>> distances.tolist(), rows.tolist()
    ([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]], [[1, 2], [0, 2], [1, 0]])
    """
    if k < 1:
        raise QueryError(f"k is {k}, expected a number of neighbours of at least 1.")
    if metric not in METRICS:
        raise QueryError(f"metric is {metric!r}, expected {' or '.join(map(repr, METRICS))}.")
    rows = check_finite_rows(z, "z")
    if len(rows) <= k:
        raise DataError(f"z has {len(rows)} rows, but a search for {k} neighbours needs at least {k + 1}.")
    return find_nearest_points(build_points(rows, metric), k, tile_rows=tile_rows)


def find_nearest_points(
    points: PointSet,
    k: int,
    *,
    queries: Array | None = None,
    among: Array | None = None,
    tile_rows: int = _TILE_ROWS,
) -> tuple[Array, Array]:
    """The same for points, or the k nearest of the rows ``among``, ascending, for ``queries``, which are other rows."""
    if queries is None or among is None:
        everything = np.arange(len(points))
        queries = among = everything
    found = _collected(points, queries, among, k + _SPARE, tile_rows)
    limits = _reach(points, queries, np.partition(found.best, k - 1, axis=1)[:, k - 1])
    separated = limits < found.limits
    at, other, keys = found.found()
    possible = separated[at] & (keys <= limits[at])
    distances, neighbours = _ordered(points, queries, at[possible].astype(np.int64), among[other[possible]], k)
    lost = np.flatnonzero(~separated)
    if len(lost):
        distances[lost], neighbours[lost] = _among_all(points, queries[lost], among, k)
    return distances, neighbours


def _ordered(points: PointSet, queries: Array, at: Array, rows: Array, k: int) -> tuple[Array, Array]:
    """Exact distances (m, k) and rows (m, k) from all pairs that may be among the nearest; 0 where there are none."""
    first = queries[at]
    pairs = np.minimum(first, rows) * len(points) + np.maximum(first, rows)
    pairs, which = np.unique(pairs, return_inverse=True)  # two that are each other's candidates: once
    exact = points.exact_distances(pairs // len(points), pairs % len(points))[which]
    best = _first(at, exact, rows, k)
    distances, neighbours = np.zeros((len(queries), k)), np.zeros((len(queries), k), dtype=np.int64)
    distances[at[best[:, 0]]], neighbours[at[best[:, 0]]] = exact[best], rows[best]
    return distances, neighbours


def _among_all(points: PointSet, queries: Array, among: Array, k: int) -> tuple[Array, Array]:
    """Neighbours by float64 products with all rows, and exact distances of all that these cannot tell apart.

    Equal rows are compared once, for they are what most often cannot be told apart: no row of the k nearest groups of
    equal rows, by distance and first row, is behind one of another group.
    """
    firsts, groups = np.unique(find_first_equals(points, among), return_inverse=True)
    members = np.split(among[np.argsort(groups, kind="stable")], np.cumsum(np.bincount(groups))[:-1])
    found = np.empty((len(queries), k))
    rows = np.empty((len(queries), k), dtype=np.int64)
    wanted = min(k + 1, len(firsts))  # one of them may be the query itself, alone
    # |b|^2 - 2 ab is off by 3 (d + 4) units of the largest square; distances that order by 4 (d + 6), each twice
    longest = 1.001 * math.sqrt(points.squares.max()) + points.rounding
    slack = 16 * (points.dim + 8) * _FLOAT64_UNIT * longest**2
    for part in split_into_blocks(len(queries), len(firsts), _WIDE_BYTES // 2):
        left = points.exact(queries[part]) - points.centre
        squared = np.empty((len(left), len(firsts)))
        for others in split_into_blocks(len(firsts), points.dim):
            right = points.exact(firsts[others]) - points.centre
            squared[:, others] = np.einsum("nd,nd->n", right, right) - 2 * left @ right.T
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


_DIGITS = 12  # of a similarity


@dataclass(frozen=True, eq=False)
class CosineIndex:
    """The rows among which neighbours are sought by cosine similarity."""

    data: LabelledRows
    lengths: Array  # float64 (n,), infinite for rows of zeros, so that their similarities are 0
    centre: Array  # float32 (dim,), about the mean of the rows at length 1
    device: torch.device
    block_bytes: int

    @classmethod
    def of(cls, data: LabelledRows, *, device: torch.device, block_bytes: int) -> CosineIndex:
        """Reads all rows once; refuses NaN and infinity."""
        lengths, total = np.empty(len(data)), np.zeros(data.dim)
        for part, block in data.finite_blocks():
            wide = _squarable(block).astype(np.float64)
            lengths[part] = _lengths(wide)
            total += np.einsum("nd,n->d", wide, 1 / lengths[part])
        return cls(data, lengths, (total / len(data)).astype(np.float32), device, block_bytes)

    @property
    def query_rows(self) -> int:
        """Queries that pass over the reference together."""
        return max(1, min(4096, self.block_bytes // (4 * max(self.data.dim, 1024))))

    @property
    def rows(self) -> int:
        """Rows of the reference that are compared with them at a time."""
        return max(1, min(8192, self.block_bytes // (4 * max(2 * self.data.dim, self.query_rows))))

    @property
    def pairs(self) -> int:
        """Pairs whose rows are read together to compute their similarities."""
        return max(1, self.block_bytes // (16 * self.data.dim))

    def nearest(self, queries: LabelledRows, wanted: int, *, left_out: bool) -> Iterator[tuple[Array, Array]]:
        """Similarities float64 (m, wanted), descending, and rows int64 (m, wanted) of blocks of queries.

        With ``left_out``, the queries are rows of the reference, and none is its own neighbour.
        """
        for part, block in queries.blocks(self.query_rows):
            itself = None
            if left_out:
                itself = np.arange(part.start, part.stop) if queries.index is None else queries.index[part]
            unit = _squarable(block).astype(np.float64)
            unit /= _lengths(unit)[:, None]
            near, rows, off = _similar(self, unit, wanted, itself)
            possible = near >= (near[:, wanted - 1] - 2 * off)[:, None]
            complete = ~possible[:, -1] if near.shape[1] < len(self.data) else np.ones(len(block), dtype=bool)
            similarities = np.empty((len(block), wanted))
            neighbours = np.empty((len(block), wanted), dtype=np.int64)
            settled = np.flatnonzero(complete)
            step = max(1, self.pairs // near.shape[1])
            for some in (settled[first : first + step] for first in range(0, len(settled), step)):
                similarities[some], neighbours[some] = _ranked(self, unit[some], possible[some], rows[some], wanted)
            again = np.flatnonzero(~complete)
            if len(again):
                found = _ranked_all(self, unit[again], wanted, None if itself is None else itself[again])
                similarities[again], neighbours[again] = found
            yield similarities, neighbours


def _similar(reference: CosineIndex, unit: Array, wanted: int, itself: Array | None) -> tuple[Array, Array, Array]:
    """Float32 products less c q of the most similar rows, descending (m, width), the rows, and error bounds (m,)."""
    data, device = reference.data, reference.device
    width = min(wanted + _SPARE + (itself is not None), len(data))
    centre = torch.from_numpy(reference.centre).to(device)
    centred = torch.from_numpy(unit - reference.centre).to(device)
    queries = torch.cat([centred, torch.ones_like(centred[:, :1])], dim=1).float()
    apart = torch.linalg.vector_norm(centred, dim=1).cpu().numpy()
    squared_centre = float(centre.double().square().sum())
    farthest, highest = 0.0, 0.0
    best = torch.empty((len(unit), 0), device=device)
    rows = torch.empty((len(unit), 0), dtype=torch.int64, device=device)
    for part, block in data.blocks(reference.rows):
        others = torch.empty((len(block), data.dim + 1), device=device)
        lengths = reference.lengths[part]
        others[:, :-1] = torch.from_numpy(_units(block, lengths)).to(device)
        others[:, :-1] -= centre
        squares = torch.linalg.vector_norm(others[:, :-1], dim=1, dtype=torch.float64).square_()
        unit_squares = torch.from_numpy(np.isfinite(lengths).astype(np.float64)).to(device)  # 1, or 0
        others[:, -1] = 0.5 * (unit_squares - squared_centre - squares)
        farthest, highest = max(farthest, float(squares.max())), max(highest, float(others[:, -1].abs().max()))
        found = multiply_rows(queries, others)
        _leave_out(found, itself, part)
        values, places = torch.topk(found, min(width, found.shape[1]), dim=1, sorted=False)
        values, places = torch.cat([best, values], dim=1), torch.cat([rows, places + part.start], dim=1)
        best, most_similar = torch.topk(values, min(width, values.shape[1]), dim=1)
        rows = places.gather(1, most_similar)
    off = _bound(data.dim, apart, math.sqrt(farthest), highest)
    return best.cpu().numpy(), rows.cpu().numpy(), off


def _bound(dim: int, apart: Array, farthest: float, highest: float) -> Array:
    """Error bound of the products of queries, float64 (m,), including the rounding of float64 and to twelve digits."""
    u = _UNIT
    farthest += 3 * u  # which was measured from rounded rows
    found: Array = _relative_error(dim) * (apart * farthest + highest) + 5 * u * (apart + farthest) + 16 * u * u
    return 1.001 * found + 8 * (dim + 4) * _FLOAT64_UNIT + 10.0**-_DIGITS + _UNDERFLOW


def _ranked(reference: CosineIndex, unit: Array, possible: Array, rows: Array, wanted: int) -> tuple[Array, Array]:
    """Similarities and rows (m, wanted) of the possible candidates, of which every query has enough."""
    at, place = np.nonzero(possible)
    candidates = rows[at, place]
    read, which = np.unique(candidates, return_inverse=True)
    others = _squarable(reference.data.read(read)).astype(np.float64)
    products = np.empty(len(candidates))
    starts = np.searchsorted(at, np.arange(len(unit) + 1))
    for query, (first, last) in enumerate(pairwise(starts.tolist())):  # each pair by itself, unlike in a matrix product
        products[first:last] = np.einsum("nd,d->n", others[which[first:last]], unit[query])
    similarities = (products / reference.lengths[candidates]).round(_DIGITS)
    chosen = _first(at, -similarities, candidates, wanted)
    return similarities[chosen], candidates[chosen]


def _ranked_all(reference: CosineIndex, unit: Array, wanted: int, itself: Array | None) -> tuple[Array, Array]:
    """The same among all rows, by matrix products in float64."""
    device = reference.device
    queries = torch.from_numpy(unit).to(device)
    best = torch.empty((len(unit), 0), dtype=torch.float64, device=device)
    rows = torch.empty((len(unit), 0), dtype=torch.int64, device=device)
    for part, block in reference.data.blocks(reference.rows):
        others = torch.from_numpy(_squarable(block).astype(np.float64)).to(device)
        found = queries @ others.T
        found /= torch.from_numpy(reference.lengths[part]).to(device)
        found = found.round(decimals=_DIGITS)
        _leave_out(found, itself, part)
        values, places = torch.cat([best, found], dim=1).sort(dim=1, descending=True, stable=True)
        best, places = values[:, :wanted], places[:, :wanted]
        here = torch.arange(part.start, part.stop, device=device).expand(len(unit), -1)
        rows = torch.cat([rows, here], dim=1).gather(1, places)
    return best.cpu().numpy(), rows.cpu().numpy()


def _leave_out(found: torch.Tensor, itself: Array | None, part: slice) -> None:
    """No query is its own neighbour."""
    if itself is not None:
        inside = np.flatnonzero((itself >= part.start) & (itself < part.stop))
        found[torch.from_numpy(inside), torch.from_numpy(itself[inside] - part.start)] = -torch.inf


def _lengths(wide: Array) -> Array:
    """Lengths of rows in range; infinite for those of zeros, whose similarities are then 0."""
    found = _norms(wide)
    return np.where(found > 0, found, np.inf)


def _units(rows: Array, lengths: Array) -> Array:
    """Rows of length 1 in float32, off by two units of rounding."""
    found: Array = (_squarable(rows) / lengths.astype(rows.dtype)[:, None]).astype(np.float32, copy=False)
    return found


def compute_votes(
    similarities: Array, labels: Array, n_classes: int, temperature: float, voting: Array | None = None
) -> Array:
    """Votes float64 (m, n_classes) of neighbours (m, k) from their similarities, descending, and class numbers.

    The nearest neighbour's is 1. With ``voting``, bool (m, k), only those vote, and the nearest of them has 1.
    """
    if voting is not None:
        similarities = np.where(voting, similarities, -np.inf)
    weights = np.exp((similarities - similarities.max(axis=1, keepdims=True)) / temperature)
    votes = np.zeros((len(labels), n_classes))
    np.add.at(votes, (np.broadcast_to(np.arange(len(labels))[:, None], labels.shape), labels), weights)
    return votes
