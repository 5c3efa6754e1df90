"""Sums of products of rows that come piece by piece: second moments, squares of columns, a triangular factor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import MissingExtra
from .stripes import COLUMNS

try:
    import numpy as np
    import torch
    from scipy.linalg.blas import dsyrk, ssyrk
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="The scatter of views") from error

_ROWS_PER_PRODUCT = 4096  # fewer would write the result more often, more would leave the cache
_PRODUCTS_PER_SUM = 4  # of float32 products, before they are added up in float64: more would lose digits
_FEW = 64  # squares that are added up in the type of the rows: a fraction of the time that torch takes


def second_moments(pieces: Iterable[torch.Tensor], dim: int, *, single: bool) -> torch.Tensor:
    """Sum of the products x x' of all rows x, float64 (dim, dim), symmetric.

    Parameters
    ----------
    pieces : iterable of float64 tensors (m, dim)
    dim : int
    single : bool
        Products in float32, some thousand rows at a time, which are added up in float64; the diagonal is exact.
    """
    dtype: Any = np.float32 if single else np.float64
    buffer = np.empty((_ROWS_PER_PRODUCT, dim), dtype=dtype)
    product = np.zeros((dim, dim), dtype=dtype, order="F")
    total = torch.zeros((dim, dim), dtype=torch.float64)
    diagonal = torch.zeros(dim, dtype=torch.float64)

    n_products = 0

    def add(n_rows: int) -> None:
        nonlocal product, n_products
        if single:
            fresh = n_products % _PRODUCTS_PER_SUM == 0
            product = ssyrk(1.0, buffer[:n_rows].T, beta=0.0 if fresh else 1.0, c=product, overwrite_c=1)
            n_products += 1
            if n_products % _PRODUCTS_PER_SUM == 0:
                total.add_(torch.from_numpy(product.T))
        else:  # adds to what is there
            product = dsyrk(1.0, buffer[:n_rows].T, beta=1.0, c=product, overwrite_c=1)

    filled = 0
    for piece in pieces:
        if single:
            diagonal += _column_squares(piece)
        values = piece.numpy()
        while len(values):
            taken = values[: _ROWS_PER_PRODUCT - filled]
            buffer[filled : filled + len(taken)] = taken
            filled, values = filled + len(taken), values[len(taken) :]
            if filled == _ROWS_PER_PRODUCT:
                add(filled)
                filled = 0
    if filled:
        add(filled)
    if not single:
        total = torch.from_numpy(product.T).clone()
    else:
        if n_products % _PRODUCTS_PER_SUM:
            total.add_(torch.from_numpy(product.T))
        total.diagonal().copy_(diagonal)
    lower = total.tril_()  # BLAS fills one triangle of a symmetric product, and computes only that
    for start in range(0, dim, COLUMNS):
        stop = start + COLUMNS
        own = lower[start:stop, start:stop]
        own.copy_(own + own.tril(-1).T)
        lower[start:stop, stop:] = lower[stop:, start:stop].T
    return lower


def squares(pieces: Iterable[torch.Tensor], dim: int) -> torch.Tensor:
    """Sum of the squares of each column, float64 (dim,)."""
    total = torch.zeros(dim, dtype=torch.float64)
    for piece in pieces:
        total += _column_squares(piece)
    return total


def triangular_factor(pieces: Iterable[torch.Tensor], dim: int) -> torch.Tensor:
    """Upper triangular R with R'R the sum of the products of all rows, float64 (at most dim, dim).

    By Householder transformations of a stack of rows at a time, which never squares a number: directions of 1e-12 of
    the largest are still there, where the products themselves have lost all that is below 1e-8.
    """
    factor = torch.zeros((0, dim), dtype=torch.float64)
    stack, height = [factor], 0
    for piece in pieces:
        stack.append(piece)
        height += len(piece)
        if height >= max(dim, 4096):
            factor = torch.linalg.qr(torch.cat(stack), mode="r")[1]
            stack, height = [factor], 0
    return torch.linalg.qr(torch.cat(stack), mode="r")[1] if height else factor


def _column_squares(piece: torch.Tensor) -> torch.Tensor:
    """Sum of the squares of each column; some rows at a time in their own type, which are added up in float64."""
    values = piece.numpy()
    whole = len(values) // _FEW * _FEW
    few = values[:whole].reshape(-1, _FEW, values.shape[1])
    found = np.einsum("bij,bij->bj", few, few).sum(axis=0, dtype=np.float64)
    found += np.einsum("ij,ij->j", values[whole:], values[whole:])
    return torch.from_numpy(found)
