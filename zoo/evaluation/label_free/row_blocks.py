"""Features as blocks of rows that are read, checked and forgotten, as often as somebody asks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...errors import DataError, MissingExtra
from ..streamed_checks import rows_of

try:
    import numpy as np
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A spectral metric") from error


class RowBlocks:
    """Features (n, dim) that can be read more than once: an array, a tensor, rows on the disk.

    Parameters
    ----------
    z : array, tensor of any device or :attr:`zoo.features.Features.x`, shape (n, dim)
    name : str
        What errors call it.

    Raises
    ------
    DataError
        If it is no table of numbers.
    """

    def __init__(self, z: Any, name: str = "z") -> None:
        self._rows, self._name = rows_of(z, name), name
        self.n, self.dim = (int(size) for size in self._rows.shape)
        self._finite = False
        self.dtype = tensor_of(self._rows[:1], name).dtype

    def blocks(self, n_rows: int) -> Iterator[Tensor]:
        """All rows in their order, ``n_rows`` at a time; refuses those that are not finite when it is first read."""
        for start in range(0, self.n, n_rows):
            rows = tensor_of(self._rows[start : start + n_rows], self._name)
            if not self._finite:
                require_finite(rows, start, self._name)
            yield rows
        self._finite = True

    def in_float64(self) -> Tensor:
        """All of it as a new tensor."""
        return torch.cat([rows.double() for rows in self.blocks(4096)])


def tensor_of(rows: Any, name: str) -> Tensor:
    """Rows (n, dim) as a tensor of float64 if they are or are whole numbers, else float32, without a gradient.

    Raises
    ------
    DataError
        If they are no table of numbers.

    Examples
    --------
    >>> tensor_of([[1, 2]], "z").dtype
    torch.float64
    """
    found = rows if isinstance(rows, Tensor) else _from_array(np.asarray(rows), name)
    found = found.detach()
    if found.is_complex():
        raise DataError(f"Complex data not supported: {name} holds {found.dtype}, expected real features.")
    if found.dtype not in (torch.float32, torch.float64):
        found = found.to(torch.float32 if found.is_floating_point() else torch.float64)
    if found.ndim != 2:
        raise DataError(f"{name} has the shape {tuple(found.shape)}, expected (n, dim), one row an image.")
    return found if found.device.type in ("cpu", "cuda") else found.cpu()  # others have no float64


def _from_array(array: np.ndarray[Any, Any], name: str) -> Tensor:
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype}, expected real features.")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} holds {array.dtype} ({error}), expected float features.") from error
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    usable = array.flags.writeable and array.dtype.isnative and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if usable else array.astype(array.dtype.newbyteorder("="), order="C"))


def require_finite(rows: Tensor, first: int, name: str) -> None:
    """Refuses NaN and infinity; ``first`` is the number of the first of these rows.

    Raises
    ------
    DataError
        Names the row.
    """
    if rows.numel() and not all(math.isfinite(float(extreme)) for extreme in torch.aminmax(rows)):
        row = first + int(torch.isfinite(rows).all(dim=1).int().argmin())
        raise DataError(f"Row {row} of {name} holds NaN or infinity, expected finite features: compute it again.")
