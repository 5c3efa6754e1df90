"""Products of rows that are half their squared distances, in float32 or in bfloat16.

With three features more, or seven, the product of a row with another is (|a|^2 + |b|^2) / 2 - ab: the two squares are
features of their own, next to ones. So a tile of products serves the rows of both sides as it is, and a bfloat16 one,
which is rounded to 8 bits, is rounded in proportion to the distance and not to the lengths of the rows.

bfloat16 halves the time where the processor multiplies it, and rounds the rows, too. How far each is moved is measured,
so that nothing is assumed of the rounding: distances between rows change by no more than the two are moved.
"""

from __future__ import annotations

from typing import Any

from ...errors import MissingExtra
from ..streamed_checks import Array
from .points import Points

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="Nearest neighbours") from error

_AT_ONCE = 512  # rows that are centred and rounded together, so that they stay in the cache
_FAR = 2.0**126
"""Half the squared distance of rows that are only there to fill a tile."""


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """All products of rows (m, dim) and rows (n, dim): float32 (m, n), by NumPy, with all 24 bits.

    torch leaves some of them out if the user has allowed it.
    """
    found: Array = left.numpy() @ right.numpy().T
    return torch.from_numpy(found)


def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16, and torch has the library that lets it."""
    cpu: Any = torch.cpu
    library: Any = torch.backends.mkldnn
    supported = [getattr(cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return bool(library.is_available()) and any(ask is not None and bool(ask()) for ask in supported)


class Kind:
    """A number format: its rounding, memory for rows in it, and products of them."""

    def __init__(self, dim: int, *, halved: bool) -> None:
        self.dim = dim
        self.halved = halved
        self.n_parts = 3 if halved else 1  # that hold a float32 square
        self.width = dim + 2 * self.n_parts
        self.bytes = (2 if halved else 4) * self.width
        self.rounding = 2.0**-8 if halved else 0.0
        """By which a product is rounded when it is written down, in proportion to itself."""
        self.keys: Any = np.int16 if halved else np.float32
        """Type of products as they are compared; those of bfloat16 in the order of their bits."""
        self.farthest: Any = 0x7F80 if halved else np.inf
        self.nearest: Any = -0x8000 if halved else -np.inf

    def memory(self, n: int) -> torch.Tensor:
        """For n rows; by NumPy, which asks for pages that are large."""
        if self.halved:
            return torch.from_numpy(np.empty((n, self.width), dtype=np.int16)).view(torch.bfloat16)
        return torch.from_numpy(np.empty((n, self.width), dtype=np.float32))

    def load(self, points: Points, rows: Array, left: torch.Tensor) -> float:
        """Writes rows as left factors, and far ones after them; by how much they were moved at most, as a share."""
        moved = 0.0
        for start in range(0, len(rows), _AT_ONCE):
            block = points.block(_run(rows[start : start + _AT_ONCE]))
            own = left[start : start + len(block), : self.dim]
            torch.neg(block, out=own) if not self.halved else own.copy_(block).neg_()
            kept = block
            if self.halved:
                kept = own.float()
                block.add_(kept)
                lengths, apart = _squares(kept), _squares(block)
                np.divide(apart, lengths, out=apart, where=lengths > 0)
                moved = max(moved, float(apart.max()))
            self._write(left[start : start + len(block)], 0.5 * _squares(kept))
        left[len(rows) :] = 0
        self._write(left[len(rows) :], np.full(len(left) - len(rows), _FAR, dtype=np.float32))
        return float(np.sqrt(moved)) * 1.02

    def _write(self, left: torch.Tensor, half: Array) -> None:
        """The features that hold half the square, and those that are 1."""
        rest = torch.from_numpy(half)
        for part in range(self.dim, self.dim + self.n_parts):
            left[:, part] = rest
            rest = rest - left[:, part].float()
        left[:, self.dim + self.n_parts :] = 1

    def turn(self, left: torch.Tensor, right: torch.Tensor) -> None:
        """Left factors as right ones."""
        torch.neg(left[:, : self.dim], out=right[:, : self.dim])
        middle = self.dim + self.n_parts
        right[:, self.dim : middle] = left[:, middle:]
        right[:, middle:] = left[:, self.dim : middle]

    def products(self, left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Array:
        """Half the squared distances as keys (m, n), in the memory of ``out``."""
        tile = out[: len(left) * len(right)].view(len(left), len(right))
        if self.halved:
            torch.mm(left, right.T, out=tile)
            keys: Array = tile.view(torch.int16).numpy()
            return keys
        keys = tile.numpy()
        np.matmul(left.numpy(), right.numpy().T, out=keys)  # torch might leave out bits, if the user allowed it
        return keys

    def values(self, keys: Array) -> Array:
        """Half the squared distances that keys stand for, float64; what rounding made negative is 0."""
        if self.halved:
            keys = (np.maximum(keys, 0).astype(np.int32) << 16).view(np.float32)
        return np.maximum(keys, 0).astype(np.float64)

    def limits(self, values: Array) -> Array:
        """Keys that no smaller value's key is above, all below :attr:`farthest`."""
        single = np.minimum(values * (1 + 2.0**-20), _FAR / 2).astype(np.float32)
        return (single.view(np.int32) >> 16).astype(np.int16) + np.int16(1) if self.halved else single


def _squares(rows: torch.Tensor) -> Array:
    wide = rows.numpy()
    found: Array = np.einsum("nd,nd->n", wide, wide)
    return found


def _run(rows: Array) -> slice | Array:
    """A run of neighbouring rows as a slice, which needs no copy."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
