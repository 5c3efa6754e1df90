"""Products of blocks of rows with themselves, of which only the upper triangle is computed."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import MissingExtra

try:
    import numpy as np
    import torch
    from scipy.linalg.blas import dsyrk, ssyrk
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="A spectral metric") from error

COLUMNS = 256  # of a stripe
_FEW = 16
LARGE = 4096
"""Rows of a symmetric matrix from which PyTorch's eigenvalues take less time than NumPy's: two thirds at 8,192, while
at 2,048 they take half as long again."""


def block_rows(dim: int) -> int:
    """Rows of one product: more lose digits of float32, fewer make the adding up of products the larger part."""
    return max(2048, dim // 2)


def stripes(rows: Tensor, out: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
    """Rows (n, dim) transposed times rows: for each stripe of columns its start and (columns, dim - start).

    ``out`` is memory for them, which takes less time than new pages.
    """
    if rows.device.type == "cpu":
        rank_update = ssyrk if rows.dtype == torch.float32 else dsyrk  # half the work of a product, which torch has not
        into = None if out is None or out.dtype != rows.dtype else out.numpy().T  # no new pages
        found = rank_update(1.0, rows.contiguous().numpy().T, lower=1, c=into, overwrite_c=into is not None)
        product = torch.from_numpy(found.T)  # upper triangle
        for start in range(0, rows.shape[1], COLUMNS):
            yield start, product[start : start + COLUMNS, start:]
        return
    for start in range(0, rows.shape[1], COLUMNS):
        yield start, rows[:, start : start + COLUMNS].T @ rows[:, start:]


def empty(dim: int, like: Tensor) -> Tensor:
    """A matrix (dim, dim); on the CPU by NumPy, which asks for pages that are large."""
    if like.device.type == "cpu" and like.dtype == torch.float64:
        return torch.from_numpy(np.empty((dim, dim)))
    return like.new_empty(dim, dim)


def sum_of_rows(rows: Tensor) -> Tensor:
    """Over rows (n, dim), in float64, of sums of a few in their own type: near zero, so that little is lost."""
    whole = len(rows) // _FEW * _FEW
    few = rows[:whole].view(-1, _FEW, rows.shape[1]).sum(dim=1)
    return few.sum(dim=0, dtype=torch.float64) + rows[whole:].sum(dim=0, dtype=torch.float64)
