"""Numbers of a population of encoders, one an encoder: checked, and standardised to [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array

with requires_extra("evaluate", needed_for="CLID"):
    import numpy as np


def standardised(values: Sequence[float] | Array, *, name: str = "values") -> Array:
    """Numbers of a population moved and scaled to [0, 1]: its least becomes 0 and its largest 1.

    Parameters
    ----------
    values : array, shape (n_encoders,)
        In any unit.
    name : str
        What the caller calls them, for errors.

    Returns
    -------
    float64 array (n_encoders,)
        Unchanged, but for rounding, when all values are multiplied by a positive number or shifted.

    Raises
    ------
    DataError
        If they are not finite numbers in a row.
    QueryError
        If there are fewer than two, or all are the same.

    References
    ----------
    CLID, arXiv:2206.01251, section 2.2.

    Examples
    --------
    >>> standardised([10, 30, 20]).tolist()
    [0.0, 1.0, 0.5]
    """
    numbers = numbers_of(values, name)
    if len(numbers) < 2:
        raise QueryError(
            f"{name} has {len(numbers)} value, but standardising over a population needs at least 2 encoders."
        )
    halves = numbers / 2  # the span of numbers is finite then, whatever they are
    least, largest = halves.min(), halves.max()
    if least == largest:
        raise QueryError(
            f"All {len(numbers)} encoders have the same {name} ({numbers[0]:g}), so that it cannot be standardised "
            "to [0, 1]: take more encoders, or leave it out."
        )
    between: Array = (halves - least) / (largest - least)
    return between


def numbers_of(values: Any, name: str) -> Array:
    """Finite numbers, one an encoder, float64 (n_encoders,).

    Raises
    ------
    DataError
    """
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers ({error}), expected one an encoder.") from error
    if numbers.ndim != 1 or not len(numbers):
        raise DataError(f"{name} has the shape {numbers.shape}, expected one number an encoder.")
    if not np.isfinite(numbers).all():
        at = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"Entry {at} of {name} is {numbers[at]}, expected finite numbers: leave out encoders without a value."
        )
    return numbers
