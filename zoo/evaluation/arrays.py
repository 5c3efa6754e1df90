"""Validation of features, labels and numbers, and views of some rows of features that may lie on disk; no PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import DataError
from ..optional import require_extra

with require_extra("evaluate", needed_for="Evaluating features"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Array: TypeAlias = np.ndarray[Any, Any]

BLOCK_ROWS = 8192  # rows of features that are read or checked at a time


_BLOCK_NUMBERS = 1 << 24  # of wider rows, such as maps, fewer are read at a time: 64 MB of float32


def count_block_rows(width: int) -> int:
    """Rows of ``width`` numbers that are read or checked at a time.

    >>> count_block_rows(512), count_block_rows(62_720)
    (8192, 267)
    """
    return max(1, min(BLOCK_ROWS, _BLOCK_NUMBERS // max(width, 1)))


class FeatureArray(Protocol):
    """An array (n, dim) or what behaves like one: memory-mapped rows, :attr:`zoo.features.Features.x`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def check_rows(x: Any, name: str) -> FeatureArray:
    """``x`` itself if its rows can be read as they are needed, otherwise as an array; refuses all but (n, dim)."""
    if hasattr(x, "toarray"):
        raise DataError(f"Sparse data was passed as {name}, expected a dense array (n, dim): use {name}.toarray().")
    if not hasattr(x, "shape") or not hasattr(x, "__getitem__") or hasattr(x, "iloc"):
        try:
            x = np.asarray(x)
        except ValueError as error:  # rows of different lengths
            raise DataError(f"{name} cannot be read as an array ({error}); expected numbers (n, dim).") from error
    if len(x.shape) != 2:
        raise DataError(
            f"{name} has the shape {tuple(x.shape)}, expected a 2D array (n, dim), one row per image. Reshape your "
            "data "
            "either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one image."
        )
    if not x.shape[0] or not x.shape[1]:
        missing = "sample(s)" if not x.shape[0] else "feature(s)"
        raise DataError(
            f"{name} is empty: found array with 0 {missing} (shape={tuple(x.shape)}) while a minimum of 1 is required."
        )
    rows: FeatureArray = x
    return rows


def check_width(x: FeatureArray, dim: int, name: str, of: str) -> FeatureArray:
    """``x`` again, if its rows have ``dim`` features."""
    if x.shape[1] != dim:
        raise DataError(
            f"{name} has {x.shape[1]} features, but {of} is expecting {dim} features as input: "
            "compute both with the same encoder and representation."
        )
    return x


def convert_to_real(rows: Any, name: str) -> Array:
    """Rows as an array of real numbers of any type; what is no number yet becomes float64."""
    array = np.asarray(rows)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype}, expected real features.")
    if array.dtype.kind in "fiub":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} holds {array.dtype} ({error}), expected float features.") from error


def check_finite_rows(x: Any, name: str, first: int = 0) -> Array:
    """Finite features (n, dim), float32 or float64; ``first`` is the number of the first row in errors."""
    rows = convert_to_real(check_rows(x, name), name)
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)
    bad = find_non_finite_row(rows)
    if bad is not None:
        raise DataError(
            f"Row {first + bad} of {name} holds NaN or infinity, expected finite features: compute it again."
        )
    return rows


def convert_to_floats(rows: Any, name: str) -> Array:
    """Rows as contiguous float32, or float64 if their type holds more digits than that."""
    array = convert_to_real(rows, name)
    is_single = np.result_type(array.dtype, np.float32) == np.float32
    return np.ascontiguousarray(array, dtype=np.float32 if is_single else np.float64)


def convert_to_float32(rows: Any, name: str) -> Array:
    """Rows as contiguous float32; numbers too large for it become infinite, which is refused with the row's number."""
    with np.errstate(over="ignore"):
        return convert_to_floats(rows, name).astype(np.float32, copy=False)


def find_non_finite_row(x: Any) -> int | None:
    """The first row that holds NaN or infinity, or None; reads a block of rows at a time."""
    step = count_block_rows(x.shape[1])
    for start in range(0, x.shape[0], step):
        block = np.asarray(x[start : start + step])
        with np.errstate(over="ignore", invalid="ignore"):
            sums = block.sum(axis=1, dtype=np.float64)  # finite only if all are, and half the work of asking each
        if not np.isfinite(sums).all():
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if bad.size:
                return start + int(bad[0])
    return None


def find_extreme(x: Any) -> tuple[int, int] | None:
    """Row and column of a number next to which the others have no digits left in float32, or None.

    It is larger than the median of the rows' largest sizes by more than 1 / eps.
    """
    step = count_block_rows(x.shape[1])
    blocks = range(0, x.shape[0], step)
    sizes = np.concatenate([np.abs(x[start : start + step]).max(axis=1) for start in blocks]).astype(np.float64)
    row = int(sizes.argmax())
    if not sizes[row] or sizes[row] * np.finfo(np.float32).eps <= np.median(sizes[sizes > 0]):
        return None
    return row, int(np.abs(x[row]).argmax())


def check_labels(y: Any, n: int, name: str) -> Array:
    """Labels of n rows as a vector of numbers or names."""
    if y is None:
        raise DataError(f"This requires {name} to be passed, but the target {name} is None: give one label per row.")
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


def list_classes(labels: Array) -> Array:
    """The classes among labels, ascending; at least two."""
    classes: Array = np.unique(labels)
    if len(classes) < 2:
        raise DataError(f"y holds one class only ({classes[0].item()!r}), expected 2 or more classes.")
    return classes


def number_labels(labels: Array, classes: Array) -> Array:
    """Number of each label's class in ascending ``classes``, int64, -1 where there is none."""
    if labels.dtype.kind in "OUS" and classes.dtype.kind not in "OUS":
        return np.full(len(labels), -1, dtype=np.int64)
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(classes[places] == labels, places, -1).astype(np.int64)


def has_validation(x_val: Any, y_val: Any) -> bool:
    """Whether there is validation data."""
    if (x_val is None) != (y_val is None):
        raise DataError("Got only one of x_val and y_val, expected both or neither.")
    return x_val is not None


def check_numbers(values: ArrayLike, *, name: str, n_axes: int | None = None) -> Floats:
    """Float64 values, NaN and infinity included, on ``n_axes`` axes; ``name`` opens the sentence of an error."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers ({error}); expected an array of numbers.") from error
    if n_axes is not None and found.ndim != n_axes:
        raise DataError(f"{name} has the shape {found.shape}; expected {n_axes} {'axis' if n_axes == 1 else 'axes'}.")
    return found


def check_finite_numbers(values: ArrayLike, *, name: str, n_axes: int | None = None) -> Floats:
    """The same, refusing NaN and infinity.

    >>> check_finite_numbers([0.5, float("nan")], name="The risk")
    Traceback (most recent call last):
    zoo.errors.DataError: The risk is nan at position 1; expected finite numbers, so leave out what was not measured.
    """
    found = check_numbers(values, name=name, n_axes=n_axes)
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        where = tuple(int(each) for each in bad[0])
        raise DataError(
            f"{name} is {found[where]}{format_position(where)}; expected finite numbers, so leave out what was not "
            "measured."
        )
    return found


def format_position(where: tuple[int, ...]) -> str:
    """An index in words, after a blank; empty for a single number.

    >>> format_position((1,)), format_position((0, 2)), format_position(())
    (' at position 1', ' at position (0, 2)', '')
    """
    if not where:
        return ""
    return f" at position {where[0] if len(where) == 1 else where}"


class RowView:
    """Rows ``indices`` of an array (n, dim), in that order, read as copies when they are asked for.

    It has the shape, dtype, length and slices that a probe needs; ``numpy.asarray`` reads all of them.

    >>> view = RowView(np.arange(8).reshape(4, 2), np.array([3, 0]))
    >>> view.shape, view[0].tolist(), view[1:].tolist(), np.asarray(view).tolist()
    ((2, 2), [6, 7], [[0, 1]], [[6, 7], [0, 1]])
    """

    ndim = 2

    def __init__(self, x: Any, indices: NDArray[np.int64]) -> None:
        self.x = x
        self.indices = indices

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indices), int(self.x.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.x.dtype  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> Any:
        return self.x[self.indices[rows]]

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


def select_rows(x: Any, indices: NDArray[np.int64]) -> Any:
    """These rows of features: ``x`` itself if it is all in order, a view if they lie on disk, else a copy."""
    if np.array_equal(indices, np.arange(x.shape[0])):
        return x
    if type(x) is np.ndarray:
        return x[indices]
    return RowView(x, indices)
