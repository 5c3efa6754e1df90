"""Features for a search by cosine similarity, which works in float32: brought into its range."""

from __future__ import annotations

from ...optional import requires_extra
from ..streamed_checks import Array

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np


def in_range(z: Array) -> Array:
    """Rows whose directions float32 can hold: float32 as they are; float64 each multiplied by a power of two.

    No cosine similarity changes by it. Rows of zeros stay zeros.

    >>> in_range(np.array([[3 * 2.0**600, 0.0], [0.0, 2.0]])).max(axis=1).tolist()
    [0.75, 0.5]
    """
    if z.dtype == np.float32:
        return z
    exponents = np.frexp(np.abs(z).max(axis=1, keepdims=True))[1]
    return np.ldexp(z, -exponents).astype(np.float32)  # type: ignore[no-any-return]
