"""Numbers that somebody hands in, as arrays of finite float64, or one sentence on what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DataError
from ...optional import requires_extra

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def numbers(values: ArrayLike, *, name: str, n_axes: int | None = None) -> Floats:
    """Float64 values of what may be any table of numbers, NaN and infinity included.

    Parameters
    ----------
    values : array-like
    name : str
        What they are, to open a sentence with.
    n_axes : int, optional
        How many axes they must have.

    Raises
    ------
    DataError
        If they are no numbers, or not on so many axes.
    """
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers ({error}); expected an array of numbers.") from error
    if n_axes is not None and found.ndim != n_axes:
        raise DataError(f"{name} has the shape {found.shape}; expected {n_axes} {'axis' if n_axes == 1 else 'axes'}.")
    return found


def finite_numbers(values: ArrayLike, *, name: str, n_axes: int | None = None) -> Floats:
    """The same, refusing NaN and infinity.

    Raises
    ------
    DataError
        Also if a value is not finite; the sentence says where.

    >>> finite_numbers([0.5, float("nan")], name="The risk")
    Traceback (most recent call last):
    zoo.errors.DataError: The risk is nan at position 1; expected finite numbers, so leave out what was not measured.
    """
    found = numbers(values, name=name, n_axes=n_axes)
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        where = tuple(int(each) for each in bad[0])
        raise DataError(
            f"{name} is {found[where]}{position(where)}; expected finite numbers, so leave out what was not measured."
        )
    return found


def position(where: tuple[int, ...]) -> str:
    """An index in words, with a blank before it; nothing for a single number.

    >>> position((1,)), position((0, 2)), position(())
    (' at position 1', ' at position (0, 2)', '')
    """
    if not where:
        return ""
    return f" at position {where[0] if len(where) == 1 else where}"
