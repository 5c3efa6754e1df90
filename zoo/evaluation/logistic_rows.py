"""Rows for a probe that works in memory: checked features, and images held out to choose C on."""

from __future__ import annotations

from typing import Any

from ..errors import DataError
from ..optional import requires_extra
from .streamed_checks import Array, rows_of

with requires_extra("evaluate", needed_for="A probe"):
    import numpy as np

_HELD_OUT = 0.2
_ROWS_AT_A_TIME = 8192


def table_of(x: Any, name: str, first: int = 0) -> Array:
    """Features as an array of float32, or of float64 if they are; no NaN, no infinity."""
    rows = np.asarray(rows_of(x, name))
    if rows.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {rows.dtype}, expected real features.")
    if rows.dtype not in (np.float32, np.float64):
        try:
            rows = rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} holds {rows.dtype} ({error}), expected float features.") from error
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        fine = np.isfinite(rows[start : start + _ROWS_AT_A_TIME]).all(axis=1)
        if not fine.all():
            row = first + start + int(fine.argmin())
            raise DataError(f"Row {row} of {name} holds NaN or infinity, expected finite features: compute it again.")
    return rows


def held_out_rows(y: Array, seed: int) -> Array:
    """Which rows C is chosen on: a fifth of every class, at least one image but never a class's only one."""
    draws = np.random.default_rng(seed).permutation(len(y))
    out = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        own = draws[y[draws] == label]
        if len(own) > 1:
            out[own[: max(1, round(_HELD_OUT * len(own)))]] = True
    if not out.any():
        raise DataError("No class has two images, so none can be held out to choose C on; pass x_val and y_val, or C.")
    return out
