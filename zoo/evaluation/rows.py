"""Some rows of features that may lie on disk, behind the manners of one array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..optional import requires_extra

with requires_extra("models", needed_for="Evaluating features"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
