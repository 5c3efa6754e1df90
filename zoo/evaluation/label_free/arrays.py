"""Checks of the arguments of label-free metrics (features, views, ids, options), and reading of features in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array, floats_of, labels_of, rows_of, table_of

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np
    import torch
    from torch import Tensor

_PIECE_BYTES = 1 << 22  # of float64 rows that are worked on together, so that they stay in the cache


def require_number(
    value: Any,
    name: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse an option that is not a finite (or whole) number between its ends.

    >>> require_number(1.5, "discard", least=0, below=1)
    Traceback (most recent call last):
    ...
    zoo.errors.QueryError: discard is 1.5, expected a finite number of at least 0 and below 1.
    """
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool) and math.isfinite(value)
    if (
        is_number
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and (below is None or value < below)
    ):
        return
    ends = {"of at least": least, "above": above, "of at most": most, "below": below}
    expected = " and ".join(f"{word} {end:g}" for word, end in ends.items() if end is not None)
    raise QueryError(f"{name} is {value!r}, expected a {'whole' if whole else 'finite'} number {expected}.")


def require_choice(value: Any, name: str, choices: tuple[str, ...]) -> None:
    """Refuse an option that is not one of these words."""
    if value not in choices:
        raise QueryError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}.")


def require_rows(n: int, least: int, name: str, *, needed_for: str) -> None:
    """Refuse fewer than ``least`` rows."""
    if n < least:
        raise DataError(
            f"{name} has {n} row{'s' * (n != 1)}, but {needed_for} needs at least {least}: give it more images."
        )


def require_varied(z: Array, name: str, *, needed_for: str) -> None:
    """Refuse features that are the same in every row."""
    if all(bool((z[start : start + 512] == z[:1]).all()) for start in range(0, len(z), 512)):  # ends with the first
        raise collapsed(len(z), name, needed_for)


def collapsed(n: int, name: str, needed_for: str) -> DataError:
    """The error of features that are the same in all ``n`` rows."""
    return DataError(
        f"All {n} rows of {name} are equal, so {needed_for} is not defined: the representation has collapsed to a "
        "point, or it is always the same image."
    )


def require_finite(rows: Tensor, first: int, name: str) -> None:
    """Refuse NaN and infinity; ``first`` is the number of the first of these rows, for the message."""
    if rows.numel() and not all(math.isfinite(float(extreme)) for extreme in torch.aminmax(rows)):
        row = first + int(torch.isfinite(rows).all(dim=1).int().argmin())
        raise DataError(f"Row {row} of {name} holds NaN or infinity, expected finite features: compute it again.")


def features_of(z: Any, name: str = "z", *, least: int = 1, needed_for: str = "this metric") -> Array:
    """Features as an array (n, dim) in memory, float64 if they are, else float32; finite, of at least ``least`` rows.

    >>> features_of([[1, 2], [3, 4]]).dtype
    dtype('float64')
    >>> features_of([[1.0, 2.0]], least=3, needed_for="TwoNN")
    Traceback (most recent call last):
    ...
    zoo.errors.DataError: z has 1 row, but TwoNN needs at least 3: give it more images.
    """
    rows = table_of(_on_cpu(z), name)
    require_rows(len(rows), least, name, needed_for=needed_for)
    return rows


def views_of(z: Any, ids: Any = None, name: str = "z", *, needed_for: str = "this metric") -> tuple[Array, Array]:
    """Views of images as features (n, dim), and the number of the image that each is a view of, int64 (n,).

    ``z`` has the shape (n_images, n_views, dim), or (n, dim) with ``ids``: n numbers or names of images, in any order.
    Refuses fewer than two images, and an image with fewer than two views.

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


def pieces(n: int, dim: int) -> Iterator[slice]:
    """Slices of ``n`` rows, each of some 4 MB of float64 numbers."""
    step = max(1, _PIECE_BYTES // (8 * dim))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


class RowBlocks:
    """Features (n, dim) that can be read more than once: an array, a tensor of any device, or rows on disk."""

    def __init__(self, z: Any, name: str = "z") -> None:
        self._rows, self._name = rows_of(z, name), name
        self.n, self.dim = (int(size) for size in self._rows.shape)
        self._finite = False
        self.dtype = tensor_of(self._rows[:1], name).dtype

    def blocks(self, n_rows: int) -> Iterator[Tensor]:
        """All rows in order, ``n_rows`` at a time; the first pass refuses NaN and infinity."""
        for start in range(0, self.n, n_rows):
            rows = tensor_of(self._rows[start : start + n_rows], self._name)
            if not self._finite:
                require_finite(rows, start, self._name)
            yield rows
        self._finite = True

    def in_float64(self) -> Tensor:
        """All rows as a new float64 tensor."""
        return torch.cat([rows.double() for rows in self.blocks(4096)])


def tensor_of(rows: Any, name: str) -> Tensor:
    """Rows (n, dim) as a tensor without gradient: float64 if they are float64 or whole numbers, else float32.

    >>> tensor_of([[1, 2]], "z").dtype
    torch.float64
    """
    if not isinstance(rows, Tensor):
        array = np.asarray(rows)
        array = floats_of(array.astype(np.float64) if array.dtype.kind in "iub" else array, name)
        rows = torch.from_numpy(array if array.flags.writeable else array.copy())
    found: Tensor = rows.detach()
    if found.is_complex():
        raise DataError(f"Complex data not supported: {name} holds {found.dtype}, expected real features.")
    if found.dtype not in (torch.float32, torch.float64):
        found = found.to(torch.float32 if found.is_floating_point() else torch.float64)
    if found.ndim != 2:
        raise DataError(f"{name} has the shape {tuple(found.shape)}, expected (n, dim), one row an image.")
    return found if found.device.type in ("cpu", "cuda") else found.cpu()  # others have no float64


def _on_cpu(z: Any) -> Any:
    """A tensor of any device and type as one that NumPy can read."""
    if not hasattr(z, "detach"):
        return z
    found = z.detach().cpu()
    return found.float() if str(found.dtype) == "torch.bfloat16" else found
