"""From a part of the data to batches of a network's input and its targets, decoded in whatever process asks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

from ...datasets.dense import MapSet, aligned
from ...errors import DataError
from ...features.decoding import Decoding, decoded
from ...metadata import Preprocess
from ...optional import requires_extra
from ...preprocess import build_preprocess
from .data import TransferSet, images_of

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What a step trains on, or an evaluation looks at.

    Attributes
    ----------
    images : float32 tensor, shape (b, 3, px, px)
        Preprocessed; of a frozen encoder its features, shape (b, dim).
    target : int64 tensor, shape (b,), or float32 tensor, shape (b, c, px, px)
        Classes; or maps in the unit of the data, 0 where they are not valid.
    valid : bool tensor, shape (b, px, px), or None
        Of maps; at least one pixel an image.
    """

    images: Tensor
    target: Tensor
    valid: Tensor | None

    def __len__(self) -> int:
        return len(self.target)

    def part(self, start: int, stop: int) -> Batch:
        """Some of its images."""
        valid = None if self.valid is None else self.valid[start:stop]
        return Batch(self.images[start:stop], self.target[start:stop], valid)

    def to(self, device: torch.device, layout: torch.memory_format) -> Batch:
        """The same on a device, where images lie as the network's weights do."""
        images = self.images.to(device, non_blocking=True)
        if images.ndim == 4:
            images = images.contiguous(memory_format=layout)
        valid = None if self.valid is None else self.valid.to(device, non_blocking=True)
        return Batch(images, self.target.to(device, non_blocking=True), valid)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A batch as it leaves the process that decoded it, or why there is none: loaders garble errors."""

    batch: Batch | None
    refusal: DataError | None = None

    def pin_memory(self) -> _Read:
        """The same where a GPU copies from by itself."""
        if self.batch is None:
            return self
        one = self.batch
        valid = None if one.valid is None else one.valid.pin_memory()
        return replace(self, batch=Batch(one.images.pin_memory(), one.target.pin_memory(), valid))


class _Reading:
    """A part of the data by positions; a class so that worker processes can unpickle it."""

    def __init__(self, part: TransferSet, preprocess: Preprocess, *, with_images: bool = True) -> None:
        self.part, self.preprocess = part, preprocess
        self.transform = build_preprocess(preprocess) if with_images else None

    def __getitem__(self, positions: Sequence[int]) -> _Read:
        images = images_of(self.part)
        try:
            pixels = torch.empty(len(positions), 0)
            if self.transform is not None:
                pixels = torch.stack([self.transform(images[position][0]) for position in positions])  # (b, 3, px, px)
            target, valid = targets_of(self.part, positions, self.preprocess)
        except DataError as error:
            return _Read(None, error)
        return _Read(Batch(pixels, target, valid))


def targets_of(part: TransferSet, positions: Sequence[int], preprocess: Preprocess) -> tuple[Tensor, Tensor | None]:
    """Target and valid pixels of some images, as :class:`Batch` has them; no image is decoded.

    Raises
    ------
    DataError
        If a map cannot be read, or has no valid pixel where the encoder looks (names it).
    """
    if not isinstance(part, MapSet):
        return torch.from_numpy(part.labels[np.asarray(positions, np.int64)]), None
    both = [_map_of(part, position, preprocess) for position in positions]
    target, valid = (np.stack(ones) for ones in zip(*both, strict=True))
    return torch.from_numpy(target), torch.from_numpy(valid)


def _map_of(part: MapSet, position: int, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    values, valid = aligned(*part.maps[position], preprocess)  # (c, px, px), (px, px)
    if not valid.any():
        raise DataError(
            f"The map of {part.images.names[position]!r} of {part.name!r} ({part.split}) has no valid pixel in the "
            f"{preprocess.crop_px} px that the encoder sees; expected at least one, so leave this image out."
        )
    return values, valid


def read_batches(
    part: TransferSet,
    cuts: Sequence[Sequence[int]],
    preprocess: Preprocess,
    *,
    n_workers: int = 0,
    pin: bool = False,
) -> Generator[Batch, None, None]:
    """The batches at these positions of a part, in order, some of them decoded ahead of time; to be closed.

    Raises
    ------
    CorruptImage, DataError
        If an image or a map cannot be read; a worker process dies.
    """
    return _batches(_Reading(part, preprocess), cuts, n_workers=n_workers, pin=pin)


def read_targets(
    part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, batch_size: int, n_workers: int = 0
) -> Generator[tuple[Tensor, Tensor | None], None, None]:
    """Targets and valid pixels of images of a part, batch after batch, without the images; to be closed.

    Raises
    ------
    DataError
        If a map cannot be read; a worker process dies.
    """
    cuts = [indices[start : start + batch_size].tolist() for start in range(0, len(indices), batch_size)]
    reading = _Reading(part, preprocess, with_images=False)
    with closing(_batches(reading, cuts, n_workers=n_workers, pin=False)) as batches:
        for batch in batches:
            yield batch.target, batch.valid


def _batches(
    reading: _Reading, cuts: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Generator[Batch, None, None]:
    alike = cast(Decoding, reading)  # in what counts: positions in, a batch out
    with decoded(alike, cuts, n_workers=min(n_workers, len(cuts)), pin=pin) as found:  # no process without a batch
        for read in cast(Iterator[_Read], found):
            if read.refusal is not None:
                raise read.refusal
            if read.batch is not None:
                yield read.batch
