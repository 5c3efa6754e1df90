"""Images beside their features for MINE: checked, divided, standardised and read by rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array, width_checked
from .arrays import features_of, require_varied

with requires_extra("models", needed_for="MINE"):
    import numpy as np
    import torch

_NEEDED_FOR = "mutual information"
_LEAST, _LEAST_VALIDATION, _LEAST_STOPPING, _MOST_STOPPING = 256, 32, 16, 4096
_VALIDATION_SHARE = 0.2
_SAMPLED = 16_384  # images whose moments stand for those of all
_ROWS_AT_A_TIME = 256
_CONSTANT = 1e-12  # relative spread below which numbers differ by rounding only


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Images (n, channels, height, width) or vectors (n, dim), as they were given, and their features (n, dim)."""

    images: Any
    z: Array

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Of one image."""
        return tuple(int(side) for side in self.images.shape[1:])


@dataclass(frozen=True, eq=False, slots=True)
class Split:
    """Row numbers, each in a random order: to train on, to choose the step on, to evaluate on."""

    fitted: Array
    stopping: Array
    validation: Array


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """Mean of images by channel and of features, and what they are multiplied by after it is taken off, float64."""

    image_mean: Array
    image_factor: Array
    z_mean: Array
    z_factor: Array


@dataclass(frozen=True, eq=False, slots=True)
class StandardisedPairs:
    """Pairs whose batches come standardised, as float32 on a device."""

    images: Any
    z: torch.Tensor  # (n, dim), on the CPU
    moments: Moments
    device: torch.device

    def read(self, rows: Array) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and features of some rows."""
        block = _block(self.images, rows)
        mean, factor = (part.astype(block.dtype) for part in (self.moments.image_mean, self.moments.image_factor))
        images = torch.from_numpy(((block - mean) * factor).astype(np.float32, copy=False))
        return images.to(self.device), self.z[torch.from_numpy(rows)].to(self.device)


def checked_options(
    *, n_steps: Any, batch_size: Any, n_shuffles: Any, learning_rate: Any, weight_decay: Any, stopping_share: Any
) -> None:
    """Refuses options that have no meaning.

    Raises
    ------
    QueryError
    """
    for name, number, least in (("n_steps", n_steps, 1), ("batch_size", batch_size, 2), ("n_shuffles", n_shuffles, 1)):
        if not isinstance(number, Integral) or isinstance(number, bool) or number < least:
            raise QueryError(f"{name} is {number!r}, expected a whole number of at least {least}.")
    for name, value, low, high in (
        ("learning_rate", learning_rate, math.ulp(0.0), math.inf),
        ("weight_decay", weight_decay, 0.0, math.inf),
        ("stopping_share", stopping_share, 0.0, 0.5),
    ):
        if not (isinstance(value, Real) and math.isfinite(value) and low <= float(value) <= high):
            expected = "from 0 to 0.5" if high == 0.5 else "above 0" if low else "of at least 0"
            raise QueryError(f"{name} is {value!r}, expected a finite number {expected}.")


def pairs_of(images: Any, z: Any, images_val: Any, z_val: Any) -> tuple[Pairs, Pairs | None]:
    """Training pairs, and validation pairs where they are given.

    Raises
    ------
    DataError
        If images and features do not belong together, are too few, not finite or all the same, or if validation has
        other shapes.
    """
    train = _pairs(images, z, "images", "z", least=_LEAST)
    require_varied(train.z, "z", needed_for=_NEEDED_FOR)
    if _all_equal(train.images):
        raise DataError(
            f"All {len(train.z)} images are equal, so that there is nothing to know of them: {_NEEDED_FOR} needs "
            "different images."
        )
    if (images_val is None) != (z_val is None):
        raise DataError("Got only one of images_val and z_val, expected both or neither.")
    if images_val is None:
        return train, None
    validation = _pairs(images_val, z_val, "images_val", "z_val", least=_LEAST_VALIDATION)
    width_checked(validation.z, train.z.shape[1], "z_val", _NEEDED_FOR)
    if validation.image_shape != train.image_shape:
        raise DataError(
            f"An image of images_val has the shape {validation.image_shape} and one of images {train.image_shape}, "
            "expected the same of both."
        )
    return train, validation


def split_of(n: int, stopping_share: float, generator: np.random.Generator, *, hold_out: bool) -> Split:
    """Divides ``n`` training rows; ``validation`` is empty unless some are to be held out."""
    order = generator.permutation(n)
    validation, rest = np.split(order, [round(_VALIDATION_SHARE * n) if hold_out else 0])
    n_stopping = 0
    if stopping_share:
        n_stopping = min(max(round(stopping_share * len(rest)), _LEAST_STOPPING), _MOST_STOPPING)
    stopping, fitted = np.split(rest, [n_stopping])
    return Split(fitted, stopping, validation)


def moments_of(pairs: Pairs, rows: Array) -> Moments:
    """Moments of the pairs of some rows; of images, those of a sample where there are many.

    Features that do not vary among them are multiplied by 0, for a critic has learnt nothing from them.
    """
    peak, count, total = 0.0, 0, np.zeros(pairs.image_shape[0])
    blocks = [rows[at : at + _ROWS_AT_A_TIME] for at in range(0, min(len(rows), _SAMPLED), _ROWS_AT_A_TIME)]
    for block in (_by_channel(pairs, some) for some in blocks):
        peak, count = max(peak, float(np.abs(block).max())), count + len(block)
        total += block.sum(axis=0)
    mean, squares = total / count, np.zeros_like(total)
    for block in (_by_channel(pairs, some) for some in blocks):
        squares += np.square((block - mean) / (peak or 1.0)).sum(axis=0)
    spread = np.sqrt(squares / count)  # in units of the peak
    image_factor = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > _CONSTANT) / (peak or 1.0)
    own = pairs.z[rows].astype(np.float64)
    largest = np.abs(own).max(axis=0)
    own /= np.where(largest > 0, largest, 1)
    z_mean, z_spread = own.mean(axis=0), own.std(axis=0)
    factor = np.divide(1.0, z_spread, out=np.zeros_like(z_spread), where=z_spread > _CONSTANT)
    shape = (-1,) + (1,) * (len(pairs.image_shape) - 1)
    return Moments(
        mean.reshape(shape), image_factor.reshape(shape), z_mean * largest, factor / np.where(largest > 0, largest, 1)
    )


def standardised_pairs(pairs: Pairs, moments: Moments, device: torch.device) -> StandardisedPairs:
    """Pairs to read batches from."""
    z = np.empty(pairs.z.shape, dtype=np.float32)
    for at in range(0, len(z), _ROWS_AT_A_TIME):
        part = slice(at, at + _ROWS_AT_A_TIME)
        z[part] = (pairs.z[part] - moments.z_mean) * moments.z_factor
    return StandardisedPairs(pairs.images, torch.from_numpy(z), moments, device)


def batches_of(rows: Array, batch_size: int, generator: np.random.Generator) -> Iterator[Array]:
    """Batches without end: every pass in a new order; what does not fill a batch waits for another pass."""
    size = min(batch_size, len(rows))
    while True:
        order = rows[generator.permutation(len(rows))]
        for at in range(0, len(order) - size + 1, size):
            yield order[at : at + size]


def _pairs(images: Any, z: Any, name: str, z_name: str, *, least: int) -> Pairs:
    rows = features_of(z, z_name, least=least, needed_for=_NEEDED_FOR)
    if not hasattr(images, "shape") or not hasattr(images, "__getitem__"):
        images = np.asarray(images)
    shape = tuple(images.shape)
    if len(shape) not in (2, 4) or 0 in shape:
        raise DataError(f"{name} has the shape {shape}, expected (n, channels, height, width), or (n, dim) of vectors.")
    if shape[0] != len(rows):
        raise DataError(f"{name} has {shape[0]} images and {z_name} {len(rows)} rows, expected one row an image.")
    for at in range(0, len(rows), _ROWS_AT_A_TIME):
        block = _block(images, slice(at, at + _ROWS_AT_A_TIME))
        if block.dtype.kind != "f":
            raise DataError(f"{name} holds {block.dtype}, expected real numbers.")
        fine = np.isfinite(block).reshape(len(block), -1).all(axis=1)
        if not fine.all():
            raise DataError(f"Image {at + int(fine.argmin())} of {name} holds NaN or infinity, expected finite pixels.")
    return Pairs(images, rows)


def _all_equal(images: Any) -> bool:
    first = _block(images, slice(0, 1))
    return all(
        bool((_block(images, slice(at, at + _ROWS_AT_A_TIME)) == first).all())
        for at in range(0, images.shape[0], _ROWS_AT_A_TIME)
    )


def _by_channel(pairs: Pairs, rows: Array) -> Array:
    """Numbers of each channel, float64 (n_numbers, n_channels)."""
    block = _block(pairs.images, rows).astype(np.float64)
    flat: Array = np.moveaxis(block, 1, -1).reshape(-1, block.shape[1])
    return flat


def _block(images: Any, rows: Array | slice) -> Array:
    """Some images in memory: float64 if they are, otherwise float32; of another kind if they are no real numbers."""
    if isinstance(images, torch.Tensor):
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(images.device)
        some = images.detach()[index].cpu()
        return (some if some.is_complex() or some.dtype == torch.float64 else some.float()).numpy()
    block: Array = np.asarray(images[rows])
    return block if block.dtype.kind not in "fiub" or block.dtype == np.float64 else block.astype(np.float32)
