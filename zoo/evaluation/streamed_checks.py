"""What probes accept as features and labels, and the sentences in which they refuse anything else."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from ..errors import DataError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Training probes"):
    import numpy as np

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
