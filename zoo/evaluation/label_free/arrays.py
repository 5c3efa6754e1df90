"""What label-free metrics accept as features, views and ids, and the sentences in which they refuse anything else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import Array, labels_of, rows_of, table_of

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np
    import torch
    from torch import Tensor


def features_of(z: Any, name: str = "z", *, least: int = 1, needed_for: str = "this metric") -> Array:
    """Features as an array (n, dim) in memory, float64 if they are, else float32; finite.

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
    name : str
        What the caller calls it.
    least : int
        Rows below which there is no answer.
    needed_for : str
        The metric, for the sentence.

    Raises
    ------
    DataError
        If it is no table of finite numbers with so many rows.

    Examples
    --------
    >>> features_of([[1, 2], [3, 4]]).dtype
    dtype('float64')
    >>> features_of([[1.0, 2.0]], least=3, needed_for="TwoNN")
    Traceback (most recent call last):
    ...
    zoo.errors.DataError: z has 1 row, but TwoNN needs at least 3: give it more images.
    """
    rows = table_of(_on_cpu(z), name)
    if len(rows) < least:
        raise DataError(
            f"{name} has {len(rows)} row{'s' * (len(rows) != 1)}, but {needed_for} needs at least {least}: "
            "give it more images."
        )
    return rows


def views_of(z: Any, ids: Any = None, name: str = "z", *, needed_for: str = "this metric") -> tuple[Array, Array]:
    """Views of images as features (n, dim), and the number of the image each is a view of, int64 (n,).

    Parameters
    ----------
    z : array, shape (n_images, n_views, dim), or (n, dim) with ``ids``
    ids : n numbers or names, optional
        Which image each row is a view of, in any order.
    name, needed_for : str

    Raises
    ------
    DataError
        If there are fewer than two images, an image has fewer than two views, or ids do not match rows.

    Examples
    --------
    >>> rows, ids = views_of(np.arange(12.0).reshape(2, 3, 2))
    >>> rows.shape, ids.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    """
    z = _on_cpu(z)
    shape = tuple(getattr(z, "shape", np.shape(z)))
    if len(shape) not in (2, 3) or not all(shape):
        raise DataError(
            f"{name} has the shape {shape}, but {needed_for} needs features of views, (n_images, n_views, dim), or "
            "(n, dim) with ids."
        )
    if ids is not None and any(one is None for one in np.asarray(ids, dtype=object).ravel()):
        raise DataError("ids holds None, expected the number or name of the image that each row is a view of.")
    if len(shape) == 3:
        if ids is not None:
            raise DataError(
                f"{name} has the shape {shape} and ids were given, too; expected (n_images, n_views, dim) "
                "alone or (n, dim) with ids."
            )
        rows = features_of(np.asarray(z).reshape(-1, shape[2]), name, needed_for=needed_for)
        numbers = np.repeat(np.arange(shape[0]), shape[1])
    else:
        rows = features_of(z, name, needed_for=needed_for)
        if ids is None:
            raise DataError(
                f"{name} has the shape {shape}, but {needed_for} needs to know which rows are views of one image: "
                "pass an array (n_images, n_views, dim), or ids."
            )
        numbers = np.unique(labels_of(ids, len(rows), "ids"), return_inverse=True)[1]
    counts = np.bincount(numbers)
    if len(counts) < 2:
        raise DataError(f"{name} holds views of 1 image, but {needed_for} needs at least 2 images.")
    if counts.min() < 2:
        raise DataError(
            f"{int((counts < 2).sum())} of {len(counts)} images in {name} have one view only, but {needed_for} needs "
            "at least 2 views of each."
        )
    return rows, numbers.astype(np.int64)


def require_varied(z: Array, name: str, *, needed_for: str) -> None:
    """Refuses features that are the same in every row.

    Raises
    ------
    DataError
    """
    if all(bool((z[start : start + 512] == z[:1]).all()) for start in range(0, len(z), 512)):  # ends with the first
        raise DataError(
            f"All {len(z)} rows of {name} are equal, so {needed_for} is not defined: the representation has collapsed "
            "to a point, or it is always the same image."
        )


class RowBlocks:
    """Features (n, dim) that can be read more than once: an array, a tensor, rows on the disk.

    Parameters
    ----------
    z : array, tensor of any device or :attr:`zoo.features.Features.x`, shape (n, dim)
    name : str
        What errors call it.

    Raises
    ------
    DataError
        If it is no table of numbers.
    """

    def __init__(self, z: Any, name: str = "z") -> None:
        self._rows, self._name = rows_of(z, name), name
        self.n, self.dim = (int(size) for size in self._rows.shape)
        self._finite = False
        self.dtype = tensor_of(self._rows[:1], name).dtype

    def blocks(self, n_rows: int) -> Iterator[Tensor]:
        """All rows in their order, ``n_rows`` at a time; refuses those that are not finite when it is first read."""
        for start in range(0, self.n, n_rows):
            rows = tensor_of(self._rows[start : start + n_rows], self._name)
            if not self._finite:
                require_finite(rows, start, self._name)
            yield rows
        self._finite = True

    def in_float64(self) -> Tensor:
        """All of it as a new tensor."""
        return torch.cat([rows.double() for rows in self.blocks(4096)])


def tensor_of(rows: Any, name: str) -> Tensor:
    """Rows (n, dim) as a tensor of float64 if they are or are whole numbers, else float32, without a gradient.

    Raises
    ------
    DataError
        If they are no table of numbers.

    Examples
    --------
    >>> tensor_of([[1, 2]], "z").dtype
    torch.float64
    """
    found = rows if isinstance(rows, Tensor) else _from_array(np.asarray(rows), name)
    found = found.detach()
    if found.is_complex():
        raise DataError(f"Complex data not supported: {name} holds {found.dtype}, expected real features.")
    if found.dtype not in (torch.float32, torch.float64):
        found = found.to(torch.float32 if found.is_floating_point() else torch.float64)
    if found.ndim != 2:
        raise DataError(f"{name} has the shape {tuple(found.shape)}, expected (n, dim), one row an image.")
    return found if found.device.type in ("cpu", "cuda") else found.cpu()  # others have no float64


def require_finite(rows: Tensor, first: int, name: str) -> None:
    """Refuses NaN and infinity; ``first`` is the number of the first of these rows.

    Raises
    ------
    DataError
        Names the row.
    """
    if rows.numel() and not all(math.isfinite(float(extreme)) for extreme in torch.aminmax(rows)):
        row = first + int(torch.isfinite(rows).all(dim=1).int().argmin())
        raise DataError(f"Row {row} of {name} holds NaN or infinity, expected finite features: compute it again.")


def _on_cpu(z: Any) -> Any:
    """A tensor of any device and type as one that NumPy can read."""
    if not hasattr(z, "detach"):
        return z
    found = z.detach().cpu()
    return found.float() if str(found.dtype) == "torch.bfloat16" else found


def _from_array(array: np.ndarray[Any, Any], name: str) -> Tensor:
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} holds {array.dtype}, expected real features.")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} holds {array.dtype} ({error}), expected float features.") from error
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    usable = array.flags.writeable and array.dtype.isnative and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if usable else array.astype(array.dtype.newbyteorder("="), order="C"))
