"""What probes accept as features and labels, and the sentences in which they refuse anything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import DataError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Training probes"):
    import numpy as np

with requires_extra("models", needed_for="Evaluating features"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    from numpy.typing import NDArray

Array: TypeAlias = np.ndarray[Any, Any]


class Rows(Protocol):
    """An array (n, dim) or what behaves like one: memory-mapped rows, :attr:`zoo.features.Features.x`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and features."""

    def __getitem__(self, index: Any, /) -> Any:
        """Rows of a slice or of an array of row numbers."""


def rows_of(x: Any, name: str) -> Rows:
    """``x`` itself if its rows can be read as they are needed, otherwise as an array.

    Raises
    ------
    DataError
        If it is no table of numbers with at least one row and one feature.
    """
    if hasattr(x, "toarray"):
        raise DataError(f"Sparse data was passed as {name}, expected a dense array (n, dim): use {name}.toarray().")
    if not hasattr(x, "shape") or not hasattr(x, "__getitem__") or hasattr(x, "iloc"):
        try:
            x = np.asarray(x)
        except ValueError as error:  # rows of different lengths
            raise DataError(f"{name} cannot be read as an array ({error}); expected numbers (n, dim).") from error
    if len(x.shape) != 2:
        raise DataError(
            f"{name} has the shape {tuple(x.shape)}, expected a 2D array (n, dim), one row an image. Reshape your data "
            "either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one image."
        )
    if not x.shape[0] or not x.shape[1]:
        missing = "sample(s)" if not x.shape[0] else "feature(s)"
        raise DataError(
            f"{name} is empty: found array with 0 {missing} (shape={tuple(x.shape)}) while a minimum of 1 is required."
        )
    rows: Rows = x
    return rows


def labels_of(y: Any, n: int, name: str) -> Array:
    """Labels as a vector of n.

    Raises
    ------
    DataError
        If they are not n numbers or names, one for each row.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise DataError(f"{name} has the shape {labels.shape}, expected one label for each of the {n} rows.")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            at = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise DataError(f"The label of row {at} in {name} is {labels[at]}, expected a class (no NaN or infinity).")
        if (labels != np.round(labels)).any():
            raise DataError(f"Unknown label type: {name} holds continuous numbers, expected classes.")
    return labels


def width_checked(x: Rows, dim: int, name: str, of: str) -> Rows:
    """``x`` again, if its rows have ``dim`` features."""
    if x.shape[1] != dim:
        raise DataError(
            f"{name} has {x.shape[1]} features, but {of} is expecting {dim} features as input: "
            "compute both with the same encoder and representation."
        )
    return x


def numbered(labels: Array, classes: Array) -> Array:
    """Number of each label's class in ascending ``classes``, int64, -1 where there is none."""
    if labels.dtype.kind in "OUS" and classes.dtype.kind not in "OUS":
        return np.full(len(labels), -1, dtype=np.int64)
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(classes[places] == labels, places, -1).astype(np.int64)


def classes_of(labels: Array) -> Array:
    """The classes that labels name, ascending.

    Raises
    ------
    DataError
        If there is one only.
    """
    classes: Array = np.unique(labels)
    if len(classes) < 2:
        raise DataError(f"y holds one class only ({classes[0].item()!r}), expected 2 or more classes to tell apart.")
    return classes


def both_or_neither(x_val: Any, y_val: Any) -> bool:
    """Whether there is validation data."""
    if (x_val is None) != (y_val is None):
        raise DataError("Got only one of x_val and y_val, expected both or neither.")
    return x_val is not None


def floats_of(rows: Any, name: str) -> Array:
    """Rows that were read, as contiguous float32, or float64 if they hold more digits than that."""
    array = np.asarray(rows)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype}, expected float32 features.")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} holds {array.dtype} ({error}), expected float32 features.") from error
    is_single = np.result_type(array.dtype, np.float32) == np.float32
    return np.ascontiguousarray(array, dtype=np.float32 if is_single else np.float64)


def float32_of(rows: Any, name: str) -> Array:
    """Rows that were read, as contiguous float32; numbers too large for it become infinite."""
    with np.errstate(over="ignore"):  # becomes infinite, which is refused with the number of the row
        return floats_of(rows, name).astype(np.float32, copy=False)


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


BLOCK_ROWS = 8192


class RowView:
    """Rows of an array in a given order, read when they are asked for, as copies.

    It has the shape, dtype, length and slices that a probe needs; ``numpy.asarray`` reads all of them.

    Parameters
    ----------
    x : array or what reads like one, shape (n_all, dim)
    indices : int64 array, shape (n,)
        Which rows.

    Examples
    --------
    >>> view = RowView(np.arange(8).reshape(4, 2), np.array([3, 0]))
    >>> view.shape, view[0].tolist(), view[1:].tolist(), np.asarray(view).tolist()
    ((2, 2), [6, 7], [[0, 1]], [[6, 7], [0, 1]])
    """

    def __init__(self, x: Any, indices: NDArray[np.int64]) -> None:
        self.x = x
        self.indices = indices

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimensions."""
        return len(self.indices), int(self.x.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.x.dtype  # type: ignore[no-any-return]

    ndim = 2

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> Any:
        return self.x[self.indices[rows]]

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


def chosen_rows(x: Any, indices: NDArray[np.int64]) -> Any:
    """These rows of features: the features themselves if it is all in order, a view if they lie on disk, else a copy.

    Parameters
    ----------
    x : array or what reads like one, shape (n, dim)
    indices : int64 array
    """
    if np.array_equal(indices, np.arange(x.shape[0])):
        return x
    if type(x) is np.ndarray:
        return x[indices]
    return RowView(x, indices)


def not_finite(x: Any) -> int | None:
    """The first row that holds a number which is not finite, or None; reads a block of rows at a time."""
    for start in range(0, x.shape[0], BLOCK_ROWS):
        block = np.asarray(x[start : start + BLOCK_ROWS])
        sums = block.sum(axis=1, dtype=np.float64)  # finite only if all are, and half the work of asking each
        if not np.isfinite(sums).all():
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if bad.size:
                return start + int(bad[0])
    return None
