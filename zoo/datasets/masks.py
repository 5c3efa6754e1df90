"""Which patches of an image are hidden: at random, in blocks, or all but a context."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..optional import requires_extra
from .strengths import Masking

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

Uniform = Callable[[int], np.ndarray]
"""From a number n to n draws in [0, 1), the same whenever it is asked."""

_BLOCK_RATIO = (0.3, 1 / 0.3)  # BEiT, arXiv:2106.08254, Algorithm 1
_SMALLEST_BLOCK = 16 / 196  # share of the patches, likewise
_N_ATTEMPTS = 100
_CONTEXT, _TARGET, _TARGET_RATIO, _N_TARGETS = (0.85, 1.0), (0.15, 0.2), (0.75, 1.5), 4  # I-JEPA, Appendix A


def hidden_patches(masking: Masking, n_rows: int, n_columns: int, uniform: Uniform) -> np.ndarray:
    """True where a patch is hidden, bool (n_rows, n_columns); at least one patch stays.

    >>> int(hidden_patches(Masking(share=0.75), 4, 4, lambda n: np.linspace(0, 0.9, n)).sum())
    12
    """
    n = n_rows * n_columns
    if masking.kind == "context":
        hidden = ~_context(n_rows, n_columns, uniform)
    elif masking.kind == "blocks":
        hidden = _blocks(n_rows, n_columns, round(masking.share * n), uniform)
    else:
        hidden = np.zeros(n, bool)
        hidden[np.argsort(uniform(n), kind="stable")[: int(masking.share * n)]] = True
        hidden = hidden.reshape(n_rows, n_columns)
    if hidden.all():
        hidden[n_rows // 2, n_columns // 2] = False
    return hidden


def _blocks(n_rows: int, n_columns: int, n_hidden: int, uniform: Uniform) -> np.ndarray:
    """Rectangles one after the other, as long as they hide no more than the share."""
    hidden = np.zeros((n_rows, n_columns), bool)
    least = min(max(1, round(_SMALLEST_BLOCK * n_rows * n_columns)), max(n_hidden, 1))
    for size, ratio, top, left in uniform(4 * _N_ATTEMPTS).reshape(-1, 4).tolist():
        n_open = n_hidden - int(hidden.sum())
        if n_open <= 0:
            break
        area = least + size * max(n_open - least, 0)
        rows = _block(n_rows, n_columns, area, _between(_BLOCK_RATIO, ratio, logarithmic=True), top, left)
        n_new = int((~hidden[rows]).sum())
        if 0 < n_new <= n_open:
            hidden[rows] = True
    return hidden


def _context(n_rows: int, n_columns: int, uniform: Uniform) -> np.ndarray:
    """True where the encoder sees something."""
    draws = uniform(4 * (1 + _N_TARGETS)).reshape(-1, 4).tolist()
    n = n_rows * n_columns
    size, _, top, left = draws[0]
    seen = np.zeros((n_rows, n_columns), bool)
    seen[_block(n_rows, n_columns, n * _between(_CONTEXT, size), 1.0, top, left)] = True
    size, ratio = draws[1][:2]  # one size for the four targets of an image
    for _, _, top, left in draws[1:]:
        area = n * _between(_TARGET, size)
        seen[_block(n_rows, n_columns, area, _between(_TARGET_RATIO, ratio), top, left)] = False
    return seen


def _block(n_rows: int, n_columns: int, area: float, ratio: float, top: float, left: float) -> tuple[slice, slice]:
    """A rectangle of so many patches, height over width as said, somewhere in the image."""
    height = min(n_rows, max(1, round(math.sqrt(area * ratio))))
    width = min(n_columns, max(1, round(math.sqrt(area / ratio))))
    first_row, first_column = int(top * (n_rows - height + 1)), int(left * (n_columns - width + 1))
    return slice(first_row, first_row + height), slice(first_column, first_column + width)


def _between(ends: tuple[float, float], draw: float, *, logarithmic: bool = False) -> float:
    low, high = ends
    return low * (high / low) ** draw if logarithmic else low + (high - low) * draw
