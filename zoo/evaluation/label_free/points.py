"""Features as points between which distances are taken: centred blocks for fast products, exact coordinates else.

Distances do not change when a vector is taken off every row, but the rounding of |a|^2 + |b|^2 - 2 ab does: it grows
with the lengths. Blocks are therefore centred, and brought into the range of float32 by powers of two where they are
not. Cosine distances are those between rows of length 1, so that one search does for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..streamed_checks import Array

with requires_extra("evaluate", needed_for="Nearest neighbours"):
    import numpy as np
    import torch

METRICS = ("euclidean", "cosine")
_BLOCK_BYTES = 1 << 22  # of features that are looked at together, so that they stay in the cache
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


def blocks(n: int, dim: int, n_bytes: int = _BLOCK_BYTES) -> list[slice]:
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
