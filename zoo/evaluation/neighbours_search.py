"""Nearest neighbours by cosine similarity, in bounded memory, and the same ones however the work is cut into blocks.

Similarities are products in float32, and these differ in the last digits with the shape of the blocks, so that they
cannot say which of two equally similar images comes first. Therefore more neighbours are kept than are asked for, and
whoever has a near tie at one of the numbers asked for is looked at again: the similarities of its candidates are summed
up in float64, one pair like the other, and ordered by similarity, then by row. If not even the candidates are certain,
as with features that are nearly all the same, its similarities with all rows are computed in float64 and rounded to
twelve digits. Products are never rounded to bfloat16: cosines of features that are not centred lie close together, and
neighbours would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import MissingExtra
from .streamed_checks import Array
from .streamed_rows import Labelled, writable

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Nearest neighbours") from error

_SPARE = 32  # neighbours that are kept beyond those asked for
_NEAR = 5e-6  # similarities closer than this may have changed places by rounding, up to some ten thousand features
_DIGITS = 12  # of a similarity in float64; rounding is some 1e-15


@dataclass(frozen=True, eq=False)
class Reference:
    """The images among which neighbours are sought."""

    data: Labelled
    device: torch.device
    block_bytes: int

    @property
    def query_rows(self) -> int:
        """Queries that pass over the reference together."""
        return max(1, min(4096, self.block_bytes // (4 * max(self.data.dim, 1024))))

    @property
    def rows(self) -> int:
        """Rows of the reference that are compared with them at a time."""
        return max(1, min(8192, self.block_bytes // (4 * max(self.data.dim, self.query_rows))))


def nearest(
    reference: Reference, queries: Labelled, wanted: Sequence[int], *, left_out: bool
) -> Iterator[tuple[Array, Array]]:
    """Neighbours of blocks of queries: similarities float64 (m, largest k), descending, and rows int64 (m, largest k).

    Parameters
    ----------
    wanted : sequence of int
        Numbers of neighbours; for each of them the first k are certain as a set.
    left_out : bool
        The queries are rows of the reference, and none is its own neighbour.
    """
    largest = max(wanted)
    width = min(largest + _SPARE + left_out, len(reference.data))
    for part, block in queries.blocks(reference.query_rows):
        own = None
        if left_out:
            own = np.arange(part.start, part.stop) if queries.index is None else queries.index[part]
        similarities, rows = _candidates(reference, block, width, own)
        doubtful = np.zeros(len(block), dtype=bool)
        for k in wanted:
            if k < similarities.shape[1]:
                doubtful |= similarities[:, k - 1] - similarities[:, k] <= _NEAR
        complete = width == len(reference.data)
        certain = complete | (similarities[:, largest - 1] - similarities[:, -1] > _NEAR)
        for query in np.flatnonzero(doubtful & certain):
            among = np.sort(rows[query])
            exact = _exact(_unit(block[query : query + 1])[0], reference.data.read(among))
            if own is not None:
                exact[among == own[query]] = -np.inf
            first = np.argsort(-exact, kind="stable")[:largest]
            similarities[query, :largest], rows[query, :largest] = exact[first], among[first]
        again = np.flatnonzero(doubtful & ~certain)
        if len(again):
            found = _among_all(reference, block[again], largest, None if own is None else own[again])
            similarities[again, :largest], rows[again, :largest] = found
        yield similarities[:, :largest], rows[:, :largest]


def _candidates(reference: Reference, block: Array, width: int, own: Array | None) -> tuple[Array, Array]:
    """The nearest rows by float32 similarity: float64 (m, width), descending, and int64 (m, width)."""
    exact = torch.get_float32_matmul_precision() == "highest"  # else float32 products keep fewer digits than _NEAR
    dtype = torch.float32 if exact else torch.float64
    queries = torch.from_numpy(_unit(block)).to(reference.device, dtype)
    best = torch.empty((len(block), 0), dtype=dtype, device=reference.device)
    rows = torch.empty((len(block), 0), dtype=torch.int64, device=reference.device)
    for part, other in reference.data.blocks(reference.rows):
        found = queries @ _unit_rows(writable(other).to(reference.device)).to(dtype).T
        _leave_out(found, own, part)
        values, places = torch.topk(found, min(width, found.shape[1]), dim=1, sorted=False)
        values, places = torch.cat([best, values], dim=1), torch.cat([rows, places + part.start], dim=1)
        best, kept = torch.topk(values, min(width, values.shape[1]), dim=1)
        rows = places.gather(1, kept)
    return best.double().cpu().numpy(), rows.cpu().numpy()


def _among_all(reference: Reference, block: Array, width: int, own: Array | None) -> tuple[Array, Array]:
    """The same, but in float64, and of equally similar rows the first."""
    queries = torch.from_numpy(_unit(block)).to(reference.device)
    best = torch.empty((len(block), 0), dtype=torch.float64, device=reference.device)
    rows = torch.empty((len(block), 0), dtype=torch.int64, device=reference.device)
    for part, other in reference.data.blocks(reference.rows):
        found = (queries @ torch.from_numpy(_unit(other)).to(reference.device).T).round(decimals=_DIGITS)
        _leave_out(found, own, part)
        values, places = torch.cat([best, found], dim=1).sort(dim=1, descending=True, stable=True)
        best, places = values[:, :width], places[:, :width]
        here = torch.arange(part.start, part.stop, device=reference.device).expand(len(block), -1)
        rows = torch.cat([rows, here], dim=1).gather(1, places)
    return best.cpu().numpy(), rows.cpu().numpy()


def _leave_out(found: torch.Tensor, own: Array | None, part: slice) -> None:
    """No query is its own neighbour."""
    if own is not None:
        inside = np.flatnonzero((own >= part.start) & (own < part.stop))
        found[torch.from_numpy(inside), torch.from_numpy(own[inside] - part.start)] = -torch.inf


def _unit_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows of length 1, or 0; scaled first, so that the squares of large and small numbers stay in range."""
    largest = rows.abs().amax(dim=1, keepdim=True)
    scaled = rows / torch.where(largest > 0, largest, 1)
    norm = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / torch.where(norm > 0, norm, 1)


def _unit(rows: Array) -> Array:
    """The same in float64."""
    wide = rows.astype(np.float64)
    norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
    unit: Array = wide / np.where(norms > 0, norms, 1)[:, None]
    return unit


def _exact(query: Array, rows: Array) -> Array:
    """Similarities in float64, (n,), of a unit vector with rows; those of equal rows are equal to the last digit."""
    found: Array = np.einsum("nd,d->n", _unit(rows), query)  # row by row: a product by BLAS would depend on the place
    return found
