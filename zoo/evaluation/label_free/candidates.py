"""Rows that may be among the k nearest: all that are, and few others, from tiles of float32 products.

With two features more, the product of a row with another is half their squared distance, |a|^2 / 2 + |b|^2 / 2 - ab, so
that a tile of products serves the rows of both sides. In each direction its entries fall into groups, and the smallest
of each is found; the k-th smallest of those that a row has seen so far bounds the distance of its k-th neighbour, and
with it, by what rounding can have done, the entries that are worth keeping. Only groups that hold one are looked at
once more. So a tile is read twice after it is multiplied, and nothing is sorted.

What rounding can have done, with its unit u = 2^-24: a product K of rows of d features, which is a sum of d + 2 terms
in any order, with or without fused operations, is off by at most g (|a|^2 + |b|^2), the rounding of the two squares
included, with g = (d + 4) u / (1 - (d + 4) u). So for rows at the distance t, for which |b| <= |a| + t,

    t^2 <= 2 K + 2 g (3 |a|^2 + 2 t^2)    and    K <= t^2 / 2 + g (|a|^2 + (|a| + t)^2).

A row is moved by u |a| where it is rounded to float32, and for cosine distances by up to a constant m before: distances
change by no more than the two rows are moved. That float64 rounds distances in their order as well is far below the
2^-20 by which limits are raised.
"""

from __future__ import annotations

from ...optional import requires_extra
from ..streamed_checks import Array
from .points import Points

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np

SPARE = 128
"""Candidates beyond the neighbours that are asked for; where there are more, it is quicker to multiply in float64."""

_GROUPS = 64
_BLOCK_BYTES = 1 << 25  # of rows that are made ready for products at a time
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
        self.block_rows = max(1, _BLOCK_BYTES // (4 * self.width * self.tile_rows)) * self.tile_rows
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
