"""Nearest neighbours by cosine similarity, in bounded memory, and the same ones however the work is cut into blocks.

The similarity of a query q and a row v of length 1 is their product in float64, summed up pair by pair and rounded to
twelve digits, so that equal rows are equally similar; of those the one that comes first is nearer. Which pairs have to
be looked at so, products in float32 say. With a vector c taken off both, near the mean of the rows,

    q v = (q - c) (v - c) + h(v) + c q,    h(v) = (v v - c c - (v - c) (v - c)) / 2,

of which the last is the same for all v, and the others are one product of d + 1 terms. With units of rounding u = 2^-24
and g = (d + 4) u / (1 - (d + 4) u), it is off by at most g (|q - c| |v - c| + |h(v)|) from summing up, in any order and
with or without fused products, and by 5 u (|q - c| + |v - c|) + 16 u u from the rounding of the rows and of h. Rows
that may be among the nearest by that bound are kept; a query that has more of them than there is room for is compared
with all rows in float64. Products are never rounded to fewer digits, whatever torch has been allowed elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ..optional import requires_extra
from .streamed_checks import Array
from .streamed_rows import Labelled, require_finite

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch

_SPARE = 64  # neighbours that are kept beyond those asked for
_DIGITS = 12  # of a similarity
_FLOAT32, _FLOAT64 = 2.0**-24, 2.0**-53  # units of rounding
_UNDERFLOW = 2.0**-100  # what numbers that float32 takes for 0 add up to


@dataclass(frozen=True, eq=False)
class Reference:
    """The images among which neighbours are sought."""

    data: Labelled
    lengths: Array  # float64 (n,), infinite for rows of zeros, so that their similarities are 0
    centre: Array  # float32 (dim,), about the mean of the rows at length 1
    device: torch.device
    block_bytes: int

    @classmethod
    def of(cls, data: Labelled, *, device: torch.device, block_bytes: int) -> Reference:
        """Reads all rows once.

        Raises
        ------
        DataError
            If a feature is not finite; names the first such row.
        """
        lengths, total = np.empty(len(data)), np.zeros(data.dim)
        for part, block in data.blocks():
            require_finite(block, part, data)
            wide = _in_range(block).astype(np.float64)
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
        """Pairs whose rows are read together to sum up their similarities."""
        return max(1, self.block_bytes // (16 * self.data.dim))


def nearest(reference: Reference, queries: Labelled, wanted: int, *, left_out: bool) -> Iterator[tuple[Array, Array]]:
    """Neighbours of blocks of queries: similarities float64 (m, wanted), descending, and rows int64 (m, wanted).

    Parameters
    ----------
    wanted : int
        Number of neighbours.
    left_out : bool
        The queries are rows of the reference, and none is its own neighbour.
    """
    for part, block in queries.blocks(reference.query_rows):
        own = None
        if left_out:
            own = np.arange(part.start, part.stop) if queries.index is None else queries.index[part]
        unit = _in_range(block).astype(np.float64)
        unit /= _lengths(unit)[:, None]
        near, rows, off = _candidates(reference, unit, wanted, own)
        kept = near >= (near[:, wanted - 1] - 2 * off)[:, None]
        complete = ~kept[:, -1] if near.shape[1] < len(reference.data) else np.ones(len(block), dtype=bool)
        similarities = np.empty((len(block), wanted))
        neighbours = np.empty((len(block), wanted), dtype=np.int64)
        for some in _groups(np.flatnonzero(complete), kept.sum(axis=1), reference.pairs):
            similarities[some], neighbours[some] = _ordered(reference, unit[some], kept[some], rows[some], wanted)
        again = np.flatnonzero(~complete)
        if len(again):
            found = _among_all(reference, unit[again], wanted, None if own is None else own[again])
            similarities[again], neighbours[again] = found
        yield similarities, neighbours


def _candidates(reference: Reference, unit: Array, wanted: int, own: Array | None) -> tuple[Array, Array, Array]:
    """The most similar rows by products in float32, less c q, and what these may be off by.

    Returns
    -------
    products : float32 (m, width), descending
    rows : int64 (m, width)
    off : float64 (m,)
    """
    data, device = reference.data, reference.device
    width = min(wanted + _SPARE + (own is not None), len(data))
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
        own_squares = torch.from_numpy(np.isfinite(lengths).astype(np.float64)).to(device)  # 1, or 0
        others[:, -1] = 0.5 * (own_squares - squared_centre - squares)
        farthest, highest = max(farthest, float(squares.max())), max(highest, float(others[:, -1].abs().max()))
        found = _products(queries, others)
        _leave_out(found, own, part)
        values, places = torch.topk(found, min(width, found.shape[1]), dim=1, sorted=False)
        values, places = torch.cat([best, values], dim=1), torch.cat([rows, places + part.start], dim=1)
        best, kept = torch.topk(values, min(width, values.shape[1]), dim=1)
        rows = places.gather(1, kept)
    off = _bound(data.dim, apart, math.sqrt(farthest), highest)
    return best.cpu().numpy(), rows.cpu().numpy(), off


def _bound(dim: int, apart: Array, farthest: float, highest: float) -> Array:
    """What products of queries may be off by, the rounding of float64 and to twelve digits included: float64 (m,)."""
    n, u = dim + 4, _FLOAT32
    farthest += 3 * u  # which was measured from rounded rows
    found: Array = n * u / (1 - n * u) * (apart * farthest + highest) + 5 * u * (apart + farthest) + 16 * u * u
    return 1.001 * found + 8 * n * _FLOAT64 + 10.0**-_DIGITS + _UNDERFLOW


def _groups(queries: Array, counts: Array, most: int) -> Iterator[Array]:
    """Queries whose candidates are no more than so many together, or single ones."""
    first = 0
    ends = np.cumsum(counts[queries])
    while first < len(queries):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield queries[first:last]
        first = last


def _ordered(reference: Reference, unit: Array, kept: Array, rows: Array, wanted: int) -> tuple[Array, Array]:
    """Similarities and rows (m, wanted) of the candidates that are kept, which are no fewer for any query."""
    at, place = np.nonzero(kept)
    candidates = rows[at, place]
    read, which = np.unique(candidates, return_inverse=True)
    others = _in_range(reference.data.read(read)).astype(np.float64)
    products = np.empty(len(candidates))
    starts = np.searchsorted(at, np.arange(len(unit) + 1))
    for query, (first, last) in enumerate(pairwise(starts.tolist())):  # each pair by itself, unlike in a matrix product
        products[first:last] = np.einsum("nd,d->n", others[which[first:last]], unit[query])
    similarities = (products / reference.lengths[candidates]).round(_DIGITS)
    order = np.lexsort((candidates, -similarities, at))
    chosen = order[starts[:-1, None] + np.arange(wanted)]
    return similarities[chosen], candidates[chosen]


def _among_all(reference: Reference, unit: Array, wanted: int, own: Array | None) -> tuple[Array, Array]:
    """The same among all rows, by matrix products in float64."""
    device = reference.device
    queries = torch.from_numpy(unit).to(device)
    best = torch.empty((len(unit), 0), dtype=torch.float64, device=device)
    rows = torch.empty((len(unit), 0), dtype=torch.int64, device=device)
    for part, block in reference.data.blocks(reference.rows):
        others = torch.from_numpy(_in_range(block).astype(np.float64)).to(device)
        found = queries @ others.T
        found /= torch.from_numpy(reference.lengths[part]).to(device)
        found = found.round(decimals=_DIGITS)
        _leave_out(found, own, part)
        values, places = torch.cat([best, found], dim=1).sort(dim=1, descending=True, stable=True)
        best, places = values[:, :wanted], places[:, :wanted]
        here = torch.arange(part.start, part.stop, device=device).expand(len(unit), -1)
        rows = torch.cat([rows, here], dim=1).gather(1, places)
    return best.cpu().numpy(), rows.cpu().numpy()


def _leave_out(found: torch.Tensor, own: Array | None, part: slice) -> None:
    """No query is its own neighbour."""
    if own is not None:
        inside = np.flatnonzero((own >= part.start) & (own < part.stop))
        found[torch.from_numpy(inside), torch.from_numpy(own[inside] - part.start)] = -torch.inf


def _products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Products of float32 rows with all 24 bits; torch leaves some of them out if it has been allowed to."""
    if left.device.type == "cpu":
        found: Array = left.numpy() @ right.numpy().T
        return torch.from_numpy(found)
    allowed = getattr(torch.backends.cuda.matmul, "fp32_precision", None)  # older versions have one setting for all
    full = torch.get_float32_matmul_precision() == "highest" if allowed is None else allowed in ("none", "ieee")
    return left @ right.T if full else (left.double() @ right.double().T).float()


def _in_range(rows: Array) -> Array:
    """Rows whose squares float64 can hold: those of float64 are multiplied by powers of two, which rounds nothing."""
    if rows.dtype == np.float32:
        return rows
    exponents = np.frexp(np.maximum(rows.max(axis=1), -rows.min(axis=1)))[1]
    found: Array = np.ldexp(rows, -exponents[:, None])
    return found


def _lengths(wide: Array) -> Array:
    """Of rows in range, row by row; infinite for those of zeros."""
    found = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    return np.where(found > 0, found, np.inf)


def _units(rows: Array, lengths: Array) -> Array:
    """Rows of length 1 in float32, off by two units of rounding."""
    found: Array = (_in_range(rows) / lengths.astype(rows.dtype)[:, None]).astype(np.float32, copy=False)
    return found
