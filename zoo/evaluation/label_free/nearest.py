"""The nearest neighbours of every row among all others: exact, in bounded memory, and each pair multiplied once.

Products in float32, whose error is bounded, leave a few candidates for each row (:mod:`.candidates`). Of those the
distances are computed in float64 from differences of coordinates, and ordered, equal ones by row. A row to which
float32 leaves too many is looked up again in float64, among all rows. So the neighbours are those of a plain float64
search, whatever the processor and the size of the tiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array
from .arrays import features_of

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

METRICS = ("euclidean", "cosine")
_CACHE_BYTES = 1 << 22  # of features that are looked at together, so that they stay in the cache
_SQUARED_RANGE = 1e-20, 1e30  # of squared lengths that float32 can hold with all that is made of them
_PAIRS = 128  # whose exact distance is taken together, likewise


@dataclass(frozen=True, eq=False, slots=True)
class Points:
    """Rows (n, dim), where they are centred, and how they are scaled; ``lengths`` float64 (n,) for cosine distances."""

    x: Array
    lengths: Array | None
    scale: float  # a power of two, for numbers whose squares float32 or float64 cannot hold
    centre: Array  # float64 (dim,), of the scaled rows
    gain: float  # a power of two, the same for the centred rows
    squares: Array  # float64 (n,): squared lengths of the centred rows as blocks have them

    def __len__(self) -> int:
        return len(self.x)

    @property
    def rounding(self) -> float:
        """By how far at most float32 has moved a row of a block, in the units of blocks and beyond its own digits."""
        return 0.0 if self.lengths is None or self.x.dtype != np.float32 else self.gain * 2.0**-22

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.x.shape[1])

    def block(self, rows: slice | Array) -> torch.Tensor:
        """Centred rows, float32 (m, dim), in units of 1 / (scale gain)."""
        centred = _centred(self.x[rows], _part(self.lengths, rows), self.scale, self.centre, self.gain)
        return torch.from_numpy(centred)

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

        Every pair is summed up by itself, so that its distance does not depend on what else is asked for, and equal
        rows are at equal distances to the last digit.
        """
        found = np.empty(len(first))
        for start in range(0, len(first), _PAIRS):
            part = slice(start, start + _PAIRS)
            apart = self.exact(first[part])
            apart -= self.exact(second[part])
            found[part] = np.einsum("nd,nd->n", apart, apart)
        distances: Array = np.sqrt(found)
        if self.lengths is None:
            return distances / self.scale
        same_direction = (self.dim + 8) * 2.0**-53  # by so much two of length 1 may be rounded apart
        return np.where(distances <= same_direction, 0.0, distances)


def points_of(z: Array, metric: str, name: str = "z") -> Points:
    """Checked features (n, dim) as points.

    Raises
    ------
    DataError
        If a row that has a direction is needed and one has none.
    """
    scale = _in_range(max(_largest(z[part]) for part in blocks(*z.shape)), z.dtype)
    lengths = np.empty(len(z)) if metric == "cosine" else None
    total = np.zeros(z.shape[1])
    for part in blocks(*z.shape):
        wide = z[part].astype(np.float64)
        if scale != 1:
            wide *= scale
        if lengths is None:
            total += wide.sum(axis=0)
            continue
        lengths[part] = np.sqrt(np.einsum("nd,nd->n", wide, wide))
        if not lengths[part].all():
            raise DataError(
                f"Row {part.start + int(lengths[part].argmin())} of {name} is 0 everywhere, so it has no direction for "
                "a cosine: leave it out, or take Euclidean distances."
            )
        total += np.einsum("nd,n->d", wide, 1 / lengths[part])
    centre = total / len(z)
    if lengths is None and z.dtype == np.float32:  # so that a difference is rounded once, in proportion to itself
        centre = centre.astype(np.float32).astype(np.float64)
    squares, gain = _squares(z, lengths, scale, centre, 1.0), 1.0
    if lengths is None and not _SQUARED_RANGE[0] < squares.max() < _SQUARED_RANGE[1]:
        parts = blocks(*z.shape)
        spread = max(_largest(_scaled(z[part], None, scale) - centre) for part in parts)
        gain = _in_range(spread, z.dtype)
        squares = _squares(z, lengths, scale, centre, gain)
    return Points(z, lengths, scale, centre, gain, squares)


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """All products of rows (m, dim) and rows (n, dim): float32 (m, n), by NumPy, with all 24 bits.

    torch leaves some of them out if the user has allowed it.
    """
    found: Array = left.numpy() @ right.numpy().T
    return torch.from_numpy(found)


def blocks(n: int, dim: int, n_bytes: int = _CACHE_BYTES) -> list[slice]:
    """Slices of n rows, as many rows at a time as take so many bytes in float32, at least 16."""
    step = max(16, n_bytes // (4 * dim))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def _in_range(largest: float, dtype: Any) -> float:
    """1 if numbers so large can be squared and added up in float32, otherwise the power of two that makes them so."""
    if largest == 0 or 1e-12 < largest < 1e12:
        return 1.0
    most = 120 if dtype == np.float32 else 1000  # its type has to hold the power, too
    return math.ldexp(1.0, max(-most, min(most, -math.frexp(largest)[1])))


def _largest(rows: Array) -> float:
    return max(float(rows.max()), -float(rows.min()))


def _squares(z: Array, lengths: Array | None, scale: float, centre: Array, gain: float) -> Array:
    """Squared lengths of centred rows, float64 (n,)."""
    found = []
    with np.errstate(over="ignore"):  # then they are taken again, with another gain
        for part in blocks(*z.shape):
            rows = _centred(z[part], _part(lengths, part), scale, centre, gain).astype(np.float64)
            found.append(np.einsum("nd,nd->n", rows, rows))
    return np.concatenate(found)


def _scaled(rows: Array, lengths: Array | None, scale: float) -> Array:
    """Rows in the range of their type; of length 1 for cosine distances."""
    if lengths is not None:
        found: Array = rows * (scale / lengths).astype(rows.dtype)[:, None]
        return found
    return rows if scale == 1 else rows * rows.dtype.type(scale)


def _centred(rows: Array, lengths: Array | None, scale: float, centre: Array, gain: float) -> Array:
    scaled = _scaled(rows, lengths, scale)
    own = None if scaled is rows else scaled  # memory that may be written to
    found: Array = np.subtract(scaled, centre.astype(scaled.dtype), out=own)
    if gain != 1:
        found *= found.dtype.type(gain)
    return found.astype(np.float32, copy=False)


def _part(lengths: Array | None, rows: slice | Array) -> Array | None:
    return None if lengths is None else lengths[rows]


SPARE = 128
"""Candidates beyond the neighbours that are asked for; where there are more, it is quicker to multiply in float64."""

_GROUPS = 64
_PRODUCT_BYTES = 1 << 25  # of rows that are made ready for products at a time
_AT_ONCE = 512  # rows that are centred and rounded together, so that they stay in the cache
_PENDING = 1 << 21  # candidates before those that have been outdone are thrown away
_UNIT = 2.0**-24
_UNDERFLOW = 2.0**-100  # what numbers that float32 takes for 0 add up to
_RAISED = 1 + 2.0**-20
_FAR = 2.0**126
"""Half the squared distance of rows that are only there to fill a tile."""


def candidates(points: Points, queries: Array, among: Array, k: int, *, tile_rows: int) -> tuple[Array, Array, Array]:
    """Pairs of a query and a row that may be among its k nearest, and the queries that have too many of them.

    Parameters
    ----------
    points : Points
    queries, among : int64
        Rows; the same array, or any others. A row is never its own candidate.
    k : int
    tile_rows : int
        Rows that are multiplied with as many others at a time, about.

    Returns
    -------
    at, rows : int64
        Places in ``queries``, in no order, and numbers of rows.
    lost : int64
        Places, ascending, that are left out of ``at``.
    """
    search = _Search(points, queries, among, k, tile_rows=tile_rows)
    search.run()
    search.settle()
    at, rows, _ = search.found()
    return at.astype(np.int64), among[rows], np.flatnonzero(search.side.lost)


class _Side:
    """Rows that candidates are sought for, and what is known of the distance of their neighbours."""

    def __init__(self, points: Points, rows: Array, k: int) -> None:
        self.moved = points.rounding
        self.lengths = 1.001 * np.sqrt(points.squares[rows]) + self.moved  # (m,), rounded or not
        self.best = np.full((len(rows), k), np.inf, dtype=np.float32)
        self.limits = np.zeros(len(rows), dtype=np.float32)
        self.lost = np.zeros(len(rows), dtype=bool)
        self.g = (points.dim + 4) * _UNIT / (1 - (points.dim + 4) * _UNIT)

    def see(self, own: slice, smallest: Array) -> None:
        """Takes in the smallest products of groups (m, n_groups), and sets the limits below which they are kept."""
        k = self.best.shape[1]
        keys = np.concatenate([self.best[own], smallest], axis=1)
        keys.partition(k - 1, axis=1)
        self.best[own] = keys[:, :k]
        length, g, moved = self.lengths[own], self.g, self.moved
        kth = np.maximum(keys[:, k - 1], 0).astype(np.float64)
        rounded = np.sqrt((2 * kth + 6 * g * length**2 + _UNDERFLOW) / (1 - 4 * g))  # k rows are as near, rounded
        apart = (rounded + 2 * _UNIT * length + 2 * moved) / (1 - _UNIT)  # and thus as they are
        reach = apart + _UNIT * (2 * length + apart) + 2 * moved  # of a row as near as that, rounded
        limits = 0.5 * reach**2 + g * (length**2 + (length + reach) ** 2) + _UNDERFLOW
        self.limits[own] = np.minimum(_RAISED * limits, _FAR / 2)
        self.limits[own][self.lost[own]] = -np.inf


class _Search:
    """All tiles of queries and others, and the candidates that they leave."""

    def __init__(self, points: Points, queries: Array, among: Array, k: int, *, tile_rows: int) -> None:
        self.points, self.queries, self.among = points, queries, among
        self.symmetric = queries is among
        # A query among the others is found as its own neighbour, and is one too many.
        self.k = k + (not self.symmetric and bool(np.isin(queries, among).any()))
        self.side = _Side(points, queries, self.k)
        self.n_groups = _GROUPS
        while self.n_groups < min(4 * self.k, tile_rows):
            self.n_groups *= 2
        self.tile_rows = max(1, tile_rows // self.n_groups) * self.n_groups
        self.width = points.dim + 2
        self.block_rows = max(1, _PRODUCT_BYTES // (4 * self.width * self.tile_rows)) * self.tile_rows
        self.pending: list[tuple[Array, Array, Array]] = []
        self.n_pending = self.n_settled = 0
        self.most = k + SPARE

    def run(self) -> None:
        """All tiles."""
        left, right = (
            np.empty((min(self.block_rows, self._padded(len(rows))), self.width), dtype=np.float32)
            for rows in (self.queries, self.among)
        )
        turned = np.empty_like(right)
        out = np.empty(self.tile_rows**2, dtype=np.float32)
        for first in range(0, len(self.queries), self.block_rows):
            own = self._load(self.queries, first, left)
            for second in range(first if self.symmetric else 0, len(self.among), self.block_rows):
                same = self.symmetric and first == second
                others = own if same else self._load(self.among, second, right)
                facing = turned[: len(others)]
                np.negative(others[:, :-2], out=facing[:, :-2])
                facing[:, -2], facing[:, -1] = others[:, -1], others[:, -2]
                for i in range(0, len(own), self.tile_rows):
                    for j in range(i if same else 0, len(others), self.tile_rows):
                        rows, columns = own[i : i + self.tile_rows], facing[j : j + self.tile_rows]
                        tile = out[: len(rows) * len(columns)].reshape(len(rows), len(columns))
                        np.matmul(rows, columns.T, out=tile)  # torch might leave out bits, if the user allowed it
                        self._take(tile, first + i, second + j)

    def _padded(self, n: int) -> int:
        return -(-n // self.n_groups) * self.n_groups

    def _load(self, rows: Array, start: int, memory: Array) -> Array:
        """A block of rows as left factors, -a, |a|^2 / 2 and 1, filled up to whole groups by rows that are far."""
        part = rows[start : start + self.block_rows]
        loaded = memory[: self._padded(len(part))]
        for first in range(0, len(part), _AT_ONCE):
            some = part[first : first + _AT_ONCE]
            np.negative(self.points.block(_run(some)).numpy(), out=loaded[first : first + len(some), :-2])
        loaded[: len(part), -2] = 0.5 * self.points.squares[part]
        loaded[len(part) :, :-2], loaded[len(part) :, -2] = 0, _FAR
        loaded[:, -1] = 1
        return loaded

    def _take(self, keys: Array, first: int, second: int) -> None:
        """Candidates from a tile (m, n), whose rows and columns start at these places."""
        if self.symmetric and first == second:
            np.fill_diagonal(keys, np.inf)
        m, n = keys.shape
        groups = keys.reshape(m, n // self.n_groups, self.n_groups)
        self._keep(first, second, groups.min(axis=1), groups)
        if self.symmetric and first != second:
            groups = keys.reshape(m // self.n_groups, self.n_groups, n)
            smallest = np.ascontiguousarray(groups.min(axis=0).T)
            self._keep(second, first, smallest, groups.transpose(2, 0, 1))

    def _keep(self, own_start: int, other_start: int, smallest: Array, groups: Array) -> None:
        """Entries of groups (m, n_in_group, n_groups) that are within the limits of their rows."""
        own = slice(own_start, min(own_start + len(smallest), len(self.queries)))
        smallest = smallest[: own.stop - own.start]
        self.side.see(own, smallest)
        limits = self.side.limits[own]
        row, group = np.nonzero(smallest <= limits[:, None])
        members = groups[row, :, group]  # (n, n_in_group)
        hit, place = np.nonzero(members <= limits[row, None])
        at, other = own.start + row[hit], other_start + place * self.n_groups + group[hit]
        keys = members[hit, place]
        if not self.symmetric:
            others = self.queries[at] != self.among[other]
            at, other, keys = at[others], other[others], keys[others]
        self.pending.append((at.astype(np.int32), other.astype(np.int32), keys))
        self.n_pending += len(at)
        if self.n_pending > max(_PENDING, 2 * self.n_settled):
            self.settle()

    def found(self) -> tuple[Array, Array, Array]:
        """All candidates so far: places in queries, places in among, keys."""
        at, other, keys = (np.concatenate(part) for part in zip(*self.pending, strict=True))
        return at, other, keys

    def settle(self) -> None:
        """Throws away what has been outdone, and gives up rows that have too many candidates."""
        at, other, keys = self.found()
        kept = (keys <= self.side.limits[at]) & ~self.side.lost[at]
        at, other, keys = at[kept], other[kept], keys[kept]
        crowded = np.bincount(at, minlength=len(self.queries)) > self.most
        if crowded.any():
            self.side.lost[crowded] = True
            self.side.limits[crowded] = -np.inf
            kept = ~crowded[at]
            at, other, keys = at[kept], other[kept], keys[kept]
        self.pending = [(at, other, keys)]
        self.n_pending = self.n_settled = len(at)


def _run(rows: Array) -> slice | Array:
    """A run of neighbouring rows as a slice, which needs no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def fingerprints(points: Points) -> Array:
    """One number a row, float64 (n,): the same for equal rows, and for others only by accident.

    It is a weighted sum of the row, always the same one, so that rows that are sorted by it are in an order of their
    own, whatever order they came in.
    """
    weights = np.random.default_rng(20_170_922).standard_normal(points.dim)
    parts = []
    for part in blocks(len(points), points.dim):
        wide = points.x[part].astype(np.float64)
        if points.scale != 1:
            wide *= points.scale
        parts.append(np.einsum("nd,d->n", wide, weights))
    found = np.concatenate(parts)
    return found if points.lengths is None else found / points.lengths


def first_equals(points: Points, rows: Array) -> Array:
    """For each of some ascending rows the first of them that is equal to it, in every feature: int64 (m,)."""
    _, start, group = np.unique(fingerprints(points)[rows], return_index=True, return_inverse=True)
    firsts = rows[start[group]]
    copies = np.flatnonzero(firsts != rows)
    for part in blocks(len(copies), points.dim):
        at = copies[part]
        equal = (points.x[rows[at]] == points.x[firsts[at]]).all(axis=1)
        firsts[at[~equal]] = rows[at[~equal]]
    found: Array = firsts
    return found


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


def in_range(z: Array) -> Array:
    """Rows whose directions float32 can hold: float32 as they are; float64 each multiplied by a power of two.

    No cosine similarity changes by it. Rows of zeros stay zeros.

    >>> in_range(np.array([[3 * 2.0**600, 0.0], [0.0, 2.0]])).max(axis=1).tolist()
    [0.75, 0.5]
    """
    if z.dtype == np.float32:
        return z
    exponents = np.frexp(np.abs(z).max(axis=1, keepdims=True))[1]
    return np.ldexp(z, -exponents).astype(np.float32)  # type: ignore[no-any-return]
