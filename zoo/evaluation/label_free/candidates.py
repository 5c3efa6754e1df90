"""Rows that may be among the k nearest: all that are, and few others, from tiles of inexact products.

A tile of products of two blocks of rows serves the rows of both. In each direction its entries fall into groups, and
the smallest of each is found; the k-th smallest of those that a row has seen so far bounds the distance of its k-th
neighbour, and with it, by what rounding can have done, the entries that are worth keeping. Only groups that hold one
are looked at once more. So a tile is read twice after it is multiplied, and nothing is sorted.

With r the share by which rounding moves a row, a its length, and t the distance of rounded rows, the true distance d to
a row of length at most a + d is within r (2 a + d) of t. An inner product of n features is taken to be right to
8 sqrt(n) units of rounding, as for errors without a common direction (Higham and Mary 2019), exceeded once in 10^13
products, where the worst case would be n units.
"""

from __future__ import annotations

import math

from ...errors import MissingExtra
from ..streamed_checks import Array
from .points import Points
from .products import Kind

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Nearest neighbours") from error

SPARE = 128
"""Candidates beyond the neighbours that are asked for; where there are more, it is quicker to multiply exactly."""

_GROUPS = 64
_BLOCK_BYTES = 1 << 25  # of rows that are made ready for products at a time
_PENDING = 1 << 21  # candidates before those that have been outdone are thrown away
_UNIT = 2.0**-24
_TINY = 1e-35


def candidates(
    points: Points, queries: Array, among: Array, k: int, *, halved: bool, tile_rows: int
) -> tuple[Array, Array, Array]:
    """Pairs of a query and a row that may be among its k nearest, and the queries that have too many of them.

    Parameters
    ----------
    points : Points
    queries, among : int64
        Rows; the same array, or any others. A row is never its own candidate.
    k : int
    halved : bool
        Products of bfloat16 instead of float32.
    tile_rows : int
        Rows that are multiplied with as many others at a time, about.

    Returns
    -------
    at, rows : int64
        Places in ``queries``, in no order, and numbers of rows.
    lost : int64
        Places, ascending, that are left out of ``at``.
    """
    search = _Search(points, queries, among, k, halved=halved, tile_rows=tile_rows)
    search.run()
    search.settle()
    at, rows, _ = search.found()
    return at.astype(np.int64), among[rows], np.flatnonzero(search.side.lost)


class _Side:
    """Rows that candidates are sought for, and what is known of the distance of their neighbours."""

    def __init__(self, points: Points, rows: Array, k: int, kind: Kind) -> None:
        self.kind = kind
        self.lengths = 1.01 * np.sqrt(points.squares[rows])  # (m,), with what rounding adds
        self.best = np.full((len(rows), k), kind.farthest, dtype=kind.keys)
        self.limits = np.zeros(len(rows), dtype=kind.keys)
        self.lost = np.zeros(len(rows), dtype=bool)
        self.moved = points.rounding
        self.unit = (8 * math.sqrt(points.dim) + 24) * _UNIT

    def see(self, own: slice, smallest: Array, share: float) -> None:
        """Takes in the smallest keys of groups (m, n_groups), and sets the limits below which keys are kept."""
        k = self.best.shape[1]
        keys = np.concatenate([self.best[own], smallest], axis=1)
        keys.partition(k - 1, axis=1)
        self.best[own] = keys[:, :k]
        lengths, unit = self.lengths[own], self.unit
        kth = 2 * self.kind.values(keys[:, k - 1]) / (1 - self.kind.rounding)
        rounded = np.sqrt((kth + 8 * unit * lengths**2 + _TINY) / (1 - 2 * unit))  # k rows are as near, rounded
        apart = (rounded + 2 * share * lengths + 2 * self.moved) / (1 - share)  # and thus as they are
        reach = apart + share * (2 * lengths + apart) + 2 * self.moved  # of a row as near as that, rounded
        halves = 0.5 * (reach**2 + unit * (2 * lengths + reach) ** 2) * (1 + self.kind.rounding) + _TINY
        self.limits[own] = self.kind.limits(halves)
        self.limits[own][self.lost[own]] = self.kind.nearest


class _Search:
    """All tiles of queries and others, and the candidates that they leave."""

    def __init__(self, points: Points, queries: Array, among: Array, k: int, *, halved: bool, tile_rows: int) -> None:
        self.points, self.queries, self.among = points, queries, among
        self.symmetric = queries is among
        # A query among the others is found as its own neighbour, and is one too many.
        self.k = k + (not self.symmetric and bool(np.isin(queries, among).any()))
        self.kind = Kind(points.dim, halved=halved)
        self.side = _Side(points, queries, self.k, self.kind)
        self.n_groups = _GROUPS
        while self.n_groups < min(4 * self.k, tile_rows):
            self.n_groups *= 2
        self.tile_rows = max(1, tile_rows // self.n_groups) * self.n_groups
        self.block_rows = max(1, _BLOCK_BYTES // (self.kind.bytes * self.tile_rows)) * self.tile_rows
        self.share = 0.0  # by which rounding has moved a row, at most
        self.pending: list[tuple[Array, Array, Array]] = []
        self.n_pending = self.n_settled = 0
        self.most = k + SPARE

    def run(self) -> None:
        """All tiles."""
        left, right = (
            self.kind.memory(min(self.block_rows, self._padded(len(rows)))) for rows in (self.queries, self.among)
        )
        turned = self.kind.memory(len(right))
        out = torch.empty(self.tile_rows**2, dtype=left.dtype)
        for first in range(0, len(self.queries), self.block_rows):
            own = self._load(self.queries, first, left)
            for second in range(first if self.symmetric else 0, len(self.among), self.block_rows):
                same = self.symmetric and first == second
                others = own if same else self._load(self.among, second, right)
                facing = turned[: len(others)]
                self.kind.turn(others, facing)
                for i in range(0, len(own), self.tile_rows):
                    for j in range(i if same else 0, len(others), self.tile_rows):
                        rows, columns = own[i : i + self.tile_rows], facing[j : j + self.tile_rows]
                        keys = self.kind.products(rows, columns, out)
                        self._take(keys, first + i, second + j)

    def _padded(self, n: int) -> int:
        return -(-n // self.n_groups) * self.n_groups

    def _load(self, rows: Array, start: int, memory: torch.Tensor) -> torch.Tensor:
        """A block of rows as left factors, filled up to whole groups."""
        part = rows[start : start + self.block_rows]
        loaded = memory[: self._padded(len(part))]
        self.share = max(self.share, self.kind.load(self.points, part, loaded) + _UNIT)
        return loaded

    def _take(self, keys: Array, first: int, second: int) -> None:
        """Candidates from a tile (m, n), whose rows and columns start at these places."""
        if self.symmetric and first == second:
            np.fill_diagonal(keys, self.kind.farthest)
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
        self.side.see(own, smallest, self.share)
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
            self.side.limits[crowded] = self.kind.nearest
            kept = ~crowded[at]
            at, other, keys = at[kept], other[kept], keys[kept]
        self.pending = [(at, other, keys)]
        self.n_pending = self.n_settled = len(at)
