"""Features for metrics: checks of arrays and options, rows in blocks, their triangular factor, and sums of batches.

Computations are in float64 and hold for features whose largest number is between 1e-100 and 1e100 in size, so that
squares can be added up; others are refused.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from ...errors import DataError, QueryError
from ...optional import require_extra
from ..arrays import Array, check_finite_rows, check_labels, check_rows, convert_to_floats
from ..eigen import compute_eigh

with require_extra("models", needed_for="A label-free metric"):
    import numpy as np
    import torch
    from torch import Tensor

_LARGEST = 1e100  # and its inverse the least
_PIECE_BYTES = 1 << 22  # of float64 rows that are worked on together, so that they stay in the cache
_BLOCK_ROWS = 2048  # read or multiplied at a time
_FACTOR_NUMBERS = 1 << 25  # of the rows of one QR decomposition
_CONSTANT = 1e-12  # share of a sum of squares below which a difference of sums is rounding


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
        raise make_collapsed_error(len(z), name, needed_for, z[0])


def make_collapsed_error(n: int, name: str, needed_for: str, row: Array) -> DataError:
    """The error of features that are the same in all ``n`` rows."""
    return DataError(
        f"All {n} rows of {name} are equal, so {needed_for} is not defined: {describe_coarseness(row)}the "
        "representation has collapsed to a point, or it is always the same image."
    )


_COARSE = 0.01  # distance of neighbouring numbers from which differences of common features are lost


def describe_coarseness(z: Array) -> str:
    """How far apart the numbers of ``z`` are in the precision that holds them, where rounding may hide what differs.

    >>> describe_coarseness(np.full((3, 2), 1e4, np.float16))
    'float16, which holds these numbers, has steps of 8 at 1e+04, so that smaller differences were rounded away; or '
    >>> describe_coarseness(np.full((3, 2), 0.7, np.float32))
    ''
    """
    rows = torch.from_numpy(np.asarray(z, dtype=np.float64))
    size = float(rows.abs().max())
    kinds = (torch.float16, torch.bfloat16, torch.float32)
    kind = next((kind for kind in kinds if bool((rows.to(kind).double() == rows).all())), torch.float64)
    step = torch.finfo(kind).eps * 2.0 ** math.floor(math.log2(size or 1.0))
    steps = f"{str(kind).removeprefix('torch.')}, which holds these numbers, has steps of {step:.2g}"
    return f"{steps} at {size:.2g}, so that smaller differences were rounded away; or " * (step >= _COARSE)


def _require_range(least: float, most: float, name: str) -> None:
    size = max(abs(least), abs(most))
    if size and not 1 / _LARGEST < size < _LARGEST:
        raise DataError(
            f"The largest number of {name} is {size:.0e}, expected features whose squares float64 holds (1e-100 to "
            "1e100): scale them."
        )


def check_feature_rows(z: Any, name: str = "z", *, least: int = 1, needed_for: str = "this metric") -> Array:
    """Features as an array (n, dim) in memory, float64 if they are, else float32; finite, of at least ``least`` rows.

    >>> check_feature_rows([[1, 2], [3, 4]]).dtype
    dtype('float64')
    >>> check_feature_rows([[1.0, 2.0]], least=3, needed_for="TwoNN")
    Traceback (most recent call last):
    ...
    zoo.errors.DataError: z has 1 row, but TwoNN needs at least 3: give it more images.
    """
    rows = check_finite_rows(_on_cpu(z), name)
    require_rows(len(rows), least, name, needed_for=needed_for)
    if rows.dtype == np.float64:
        _require_range(float(rows.min()), float(rows.max()), name)
    return rows


def check_views(z: Any, ids: Any = None, name: str = "z", *, needed_for: str = "this metric") -> tuple[Array, Array]:
    """Views of images as features (n, dim), and the number of the image that each is a view of, int64 (n,).

    ``z`` has the shape (n_images, n_views, dim), or (n, dim) with ``ids``: n numbers or names of images, in any order.
    Refuses fewer than two images, and an image with fewer than two views.

    >>> rows, ids = check_views(np.arange(12.0).reshape(2, 3, 2))
    >>> rows.shape, ids.tolist()
    ((6, 2), [0, 0, 0, 1, 1, 1])
    """
    z = _on_cpu(z)
    shape = tuple(getattr(z, "shape", np.shape(z)))
    if len(shape) not in (2, 3) or not all(shape) or (len(shape) == 2) != (ids is not None):
        raise DataError(
            f"{name} has the shape {shape}{' and there are ids' if ids is not None else ''}, but {needed_for} needs to "
            "know which rows are views of one image: pass (n_images, n_views, dim) alone, or (n, dim) with ids."
        )
    if ids is None:
        rows = check_feature_rows(np.asarray(z).reshape(-1, shape[2]), name, needed_for=needed_for)
        numbers = np.repeat(np.arange(shape[0]), shape[1])
    else:
        if any(one is None for one in np.asarray(ids, dtype=object).ravel()):
            raise DataError("ids holds None, expected the number or name of the image that each row is a view of.")
        rows = check_feature_rows(z, name, needed_for=needed_for)
        numbers = np.unique(check_labels(ids, len(rows), "ids"), return_inverse=True)[1]
    counts = np.bincount(numbers)
    if len(counts) < 2 or counts.min() < 2:
        raise DataError(
            f"{name} holds views of {len(counts)} image{'s' * (len(counts) != 1)}, the fewest {int(counts.min())} of "
            f"one, but {needed_for} needs at least 2 images of at least 2 views each."
        )
    return rows, numbers.astype(np.int64)


def iterate_slices(n: int, dim: int) -> Iterator[slice]:
    """Slices of ``n`` rows, each of some 4 MB of float64 numbers."""
    step = max(1, _PIECE_BYTES // (8 * dim))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def convert_to_tensor(rows: Any, name: str, first: int = 0) -> Tensor:
    """Rows (n, dim) as a tensor without gradient: float64 if they are float64 or whole numbers, else float32.

    Refuses NaN, infinity and numbers out of range, on a GPU not before they are used; ``first`` is the number of the
    first row, for the message.

    >>> convert_to_tensor([[1, 2]], "z").dtype
    torch.float64
    """
    if not isinstance(rows, Tensor):
        array = np.asarray(rows)
        array = convert_to_floats(array.astype(np.float64) if array.dtype.kind in "iub" else array, name)
        rows = torch.from_numpy(array if array.flags.writeable else array.copy())
    found: Tensor = rows.detach()
    if found.is_complex():
        raise DataError(f"Complex data not supported: {name} holds {found.dtype}, expected real features.")
    if found.dtype not in (torch.float32, torch.float64):
        found = found.to(torch.float32 if found.is_floating_point() else torch.float64)
    if found.ndim != 2:
        raise DataError(f"{name} has the shape {tuple(found.shape)}, expected (n, dim), one row per image.")
    if found.device.type == "cuda":
        return found
    found = found.cpu()  # other devices have no float64
    if found.numel():
        least, most = (float(end) for end in torch.aminmax(found))
        if not (math.isfinite(least) and math.isfinite(most)):
            row = first + int(torch.isfinite(found).all(dim=1).int().argmin())
            raise DataError(f"Row {row} of {name} holds NaN or infinity, expected finite features: compute it again.")
        _require_range(min(least, -1.0), max(most, 1.0), name)
    return found


def _on_cpu(z: Any) -> Any:
    """A tensor of any device and type as one that NumPy can read."""
    if not hasattr(z, "detach"):
        return z
    found = z.detach().cpu()
    return found.float() if str(found.dtype) == "torch.bfloat16" else found


def iterate_batches(z: Any, name: str = "z") -> Iterator[Tensor]:
    """Checked rows of an array, a tensor, rows on disk or an iterator of batches, some thousand at a time."""
    if isinstance(z, Iterator):
        n, dim = 0, None
        for batch in z:
            rows = convert_to_tensor(batch, "the batches so far", n)
            n, dim = n + len(rows), dim or rows.shape[1]
            if rows.shape[1] != dim:
                raise DataError(f"A batch has {rows.shape[1]} features, but those before it had {dim}.")
            if len(rows):
                yield rows
        if not n:
            raise DataError(f"{name} has no batches, expected features (n, dim) in each of them.")
        return
    every = check_rows(z, name)
    for start in range(0, every.shape[0], _BLOCK_ROWS):
        yield convert_to_tensor(every[start : start + _BLOCK_ROWS], name, start)


def compute_triangular_factor(blocks: Iterable[Tensor]) -> Tensor:
    """Upper triangular R (k, dim) with R'R the second moments of float64 rows in blocks (m, dim), by QR.

    Nothing is squared, so that directions of 1e-10 of the largest survive. Memory: a few times 8 dim**2 bytes.
    """
    waiting: list[Tensor] = []
    for rows in blocks:
        waiting.append(rows)
        dim = rows.shape[1]
        if sum(map(len, waiting[1:])) >= max(dim, min(max(4 * dim, _BLOCK_ROWS), _FACTOR_NUMBERS // dim)):
            waiting = [torch.linalg.qr(torch.cat(waiting), mode="r")[1]]
    factor: Tensor = torch.linalg.qr(torch.cat(waiting), mode="r")[1]
    return factor


class Gram:
    """Count, sum and second moments of rows that come in batches, in float64.

    Rows are shifted by the first one before they are multiplied, so that features far from the origin lose no digits.
    Memory: 8 dim**2 bytes (34 MB for 2,048 features) on the device of the first batch. On a GPU only the first update
    waits for the device, and NaN is reported when the sums are read.

    >>> gram, other = Gram(), Gram()
    >>> gram.update(np.array([[1.0, 0.0], [3.0, 4.0]]))
    >>> other.update(np.array([[5.0, 2.0]]))
    >>> gram.merge(other)
    >>> gram.count
    3
    """

    def __init__(self) -> None:
        self.count = 0
        self._shift = self._total = torch.empty(0, dtype=torch.float64)
        self._products = torch.empty(0, 0, dtype=torch.float64)

    @torch.no_grad()
    def update(self, batch: Any) -> None:
        """Add rows (n, dim), an array or a tensor of any device; refuses NaN and another number of features."""
        rows = convert_to_tensor(batch, "the batches so far", self.count)
        if not len(rows):
            return
        if not self.count:
            self._shift = rows[0].double()
            self._total = torch.zeros_like(self._shift)
            self._products = self._total.new_zeros(2 * (len(self._total),))
        if rows.shape[1] != len(self._shift):
            raise DataError(f"A batch has {rows.shape[1]} features, but those before it had {len(self._shift)}.")
        with torch.autocast(rows.device.type, enabled=False):
            for part in torch.split(rows.to(self._shift.device), _BLOCK_ROWS):
                moved = part.double() - self._shift
                self._products.addmm_(moved.T, moved)
                self._total += moved.sum(dim=0)
        self.count += len(rows)

    def merge(self, other: Gram) -> None:
        """Add the sums of another one, which stays as it is."""
        if not other.count:
            return
        if not self.count:
            self.__dict__.update(copy.deepcopy(other.__dict__))
            return
        if len(other._shift) != len(self._shift):
            raise DataError(
                f"Sums of {len(other._shift)} and of {len(self._shift)} features cannot be added: expected the same "
                "number."
            )
        shift, total, products = (one.to(self._shift.device) for one in (other._shift, other._total, other._products))
        step = shift - self._shift
        across = torch.outer(step, total)
        self._products += products + across + across.T + other.count * torch.outer(step, step)
        self._total += total + other.count * step
        self.count += other.count

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (dim,), scatter about it (dim, dim), and features that never change, bool (dim,); refuses NaN."""
        if not self.count:
            raise DataError("No features were seen yet: update with a batch first.")
        if not bool(torch.isfinite(self._products).all()):
            raise DataError(
                f"NaN, infinity or a number too large for float64 is in the {self.count} rows that were added up, "
                "expected finite features."
            )
        scatter = self._products - torch.outer(self._total, self._total) / self.count
        constant = scatter.diagonal() <= _CONSTANT * self._products.diagonal()
        scatter.diagonal().masked_fill_(constant, 0.0)
        return self._shift + self._total / self.count, scatter, constant


def compute_moment_root(products: Tensor) -> Tensor:
    """R (dim, dim) with R'R these sums of products, resolved to about 1e-6 of its largest singular value."""
    values, directions = compute_eigh(products)
    return values.clamp_min(0).sqrt()[:, None] * directions.T
