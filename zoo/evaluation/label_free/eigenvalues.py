"""Eigenvalues of symmetric matrices in float64 or in float32, and how far rounding may have moved them.

In float32 the reduction to three diagonals reads half the bytes, which is what it spends its time on. Its error was
measured with one thread and with two on spectra of every kind (flat, power laws, half of it zero, one value above all
others, 500 to 8,192 rows): an eigenvalue is off by a part of itself and by a part of the mean eigenvalue times the root
of their number, more or less at random. Small eigenvalues below a long tail are therefore known far better than to the
rounding of the largest. These are limits that were seen, with a margin; no theorem gives any as narrow.
"""

from __future__ import annotations

import math

from ...errors import MissingExtra
from ..streamed_checks import Array
from .stripes import COLUMNS, LARGE

try:
    import numpy as np
    import scipy.linalg
    import torch
    from torch import Tensor
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="models", needed_for="A spectral metric") from error

SINGLE = 2.0**-24
"""Relative rounding of float32."""

_OWN, _MEAN = 16.0, 2.0  # standard deviation in units of rounding: times the eigenvalue, times mean * sqrt(k)
TOGETHER = 0.1
"""Share of that by which all may be off in one direction: .02 where eigenvalues decay, .15 where all are alike."""
_LARGEST, _MOST = 32.0, 24.0  # the same for the error of the one that is off most


def eigenvalues(matrix: Tensor) -> Tensor:
    """Of a symmetric matrix (k, k), of which the lower triangle is read; float64 (k,), descending."""
    if matrix.dtype == torch.float64 and matrix.device.type == "cpu" and len(matrix) < LARGE:
        array = matrix.numpy()
        turned = bool(array.flags.c_contiguous)  # LAPACK wants columns, and would have it copied
        squares = scipy.linalg.eigvalsh(array.T if turned else array, lower=not turned, check_finite=False)
        found = torch.from_numpy(squares)
    else:
        found = torch.linalg.eigvalsh(matrix)  # of the lower triangle, which rounds six times less than the upper
    return found.flip(0).double()


def in_float32(scatter: Tensor, mean: Tensor | None, count: int) -> Tensor:
    """Lower triangle of a float64 matrix (k, k), plus count times the outer product of the mean; by stripes of columns.

    What is above it stays 0, so that no memory is written for it.
    """
    found = torch.from_numpy(np.zeros(scatter.shape, dtype=np.float32))
    for start in range(0, len(scatter), COLUMNS):
        stop = start + COLUMNS
        stripe = scatter[start:stop, start:]
        if mean is not None:
            stripe = torch.addr(stripe, mean[start:stop], mean[start:], alpha=count)
        found[start:stop, start:] = stripe
    return found.T


def spread(squares: Array, rounding: float) -> Array:
    """Standard deviation of the error of each of some eigenvalues (k,), descending, found with that rounding.

    Of eigenvalues that stand clear of :func:`largest_error` only: those of a floor below it may be off by more.
    """
    found: Array = rounding * np.hypot(_OWN * squares, _MEAN * float(squares.mean()) * math.sqrt(len(squares)))
    return found


def largest_error(squares: Array, rounding: float) -> float:
    """What no eigenvalue was seen to be off by more than."""
    return rounding * (_LARGEST * float(squares[0]) + _MOST * float(squares.mean()) * math.sqrt(len(squares)))
