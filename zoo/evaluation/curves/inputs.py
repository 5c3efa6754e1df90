"""The images that a run looks at again and again: preprocessed once into memory where they fit, else at each pass.

What is in memory is shared by the runs of a process, for dozens of them use the same images: it is kept until something
else needs the room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol, cast
from weakref import WeakSet

from ...cards.schema import Preprocess
from ...datasets.dense import MapSet, aligned
from ...datasets.images import digest
from ...encoders.preprocess import build_preprocess
from ...errors import DataError
from ...features.computing import Decoding, decoded
from ...optional import requires_extra
from .losses import TransferSet, images_of
from .recipe import TASKS

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


_READ_AT_ONCE = 64  # images a batch, while filling memory


class Inputs(Protocol):
    """Some images of a part with their targets."""

    def __len__(self) -> int:
        """Images."""

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """A batch for each int64 array of positions, from 0 to the number of images; close it when done early."""

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """Targets and valid pixels of some images, on the CPU."""


class HeldInputs:
    """Inputs in memory.

    Parameters
    ----------
    images, target, valid : tensor
        As :class:`Batch` has them, of these images and maybe of others.
    rows : int64 array, shape (n,)
        Where the images are.
    """

    def __init__(self, images: Tensor, target: Tensor, valid: Tensor | None, rows: np.ndarray) -> None:
        self._images, self._target, self._valid, self._rows = images, target, valid, rows

    def __len__(self) -> int:
        return len(self._rows)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """See :class:`Inputs`."""
        for cut in cuts:
            own = torch.from_numpy(self._rows[cut]).to(self._images.device)
            yield Batch(self._images[own], self._target[own], None if self._valid is None else self._valid[own])

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """See :class:`Inputs`."""
        own = torch.from_numpy(self._rows[positions]).to(self._target.device)
        return self._target[own].cpu(), None if self._valid is None else self._valid[own].cpu()


class StreamedInputs:
    """Inputs that are decoded whenever they are asked for."""

    def __init__(
        self, part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int, pin: bool
    ) -> None:
        self._part, self._indices, self._preprocess = part, indices, preprocess
        self._n_workers, self._pin = n_workers, pin

    def __len__(self) -> int:
        return len(self._indices)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """See :class:`Inputs`."""
        chosen = [self._indices[cut].tolist() for cut in cuts]
        return read_batches(self._part, chosen, self._preprocess, n_workers=self._n_workers, pin=self._pin)

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """See :class:`Inputs`."""
        chosen = self._indices[positions]
        return targets_of(self._part, chosen.tolist(), self._preprocess)


def inputs_of(
    part: TransferSet,
    indices: np.ndarray,
    preprocess: Preprocess,
    *,
    memory_bytes: int,
    n_workers: int = 0,
    device: torch.device | None = None,
) -> Inputs:
    """Some images of a part, in memory if there is room.

    There is if the whole part fits into ``memory_bytes`` beside all that runs of this process still use, or else if
    these images do. On a GPU they are in its memory, if they take no more than a quarter of what is free there.

    Parameters
    ----------
    part : ImageSet or MapSet
    indices : int64 array, shape (n,)
        Of the images in the part, at least one.
    preprocess : Preprocess
    memory_bytes : int
        For all inputs of this process together.
    n_workers : int
        Processes that decode and preprocess; with none, a thread.
    device : torch.device, optional
        Where the network is.

    Raises
    ------
    CorruptImage, DataError
        If an image or a map cannot be read, here or while batches are read.
    """
    indices = np.asarray(indices, np.int64)
    gpu = device if device is not None and device.type == "cuda" else None
    for chosen in (None, indices):  # the whole part, which other runs have a use for too; these images alone
        held = _held(part, chosen, preprocess, memory_bytes=memory_bytes, gpu=gpu)
        if held is not None:
            return held.inputs(part, indices, preprocess, n_workers=n_workers)
    return StreamedInputs(part, indices, preprocess, n_workers=n_workers, pin=gpu is not None)


def forget_inputs() -> None:
    """Gives back the memory of inputs that no run uses any more."""
    for key in [key for key, held in _kept.items() if not held.users]:
        del _kept[key]


class _Held:
    """Memory for a part or a subset of it, filled as far as it was needed."""

    def __init__(self, part: TransferSet, chosen: np.ndarray | None, px: int, device: torch.device) -> None:
        n = len(part) if chosen is None else len(chosen)
        self._first = np.arange(len(part)) if chosen is None else np.full(len(part), -1)  # position -> row
        if chosen is not None:
            self._first[chosen] = np.arange(n)
        dense = isinstance(part, MapSet)
        self._images = torch.empty((n, 3, px, px), device=device)
        self._target = torch.empty(_target_shape(part, n, px), dtype=None if dense else torch.int64, device=device)
        self._valid = torch.empty((n, px, px), dtype=torch.bool, device=device) if dense else None
        self._is_there = np.zeros(n, bool)
        self.n_bytes = n_bytes_of(part, n, px)
        self.users: WeakSet[HeldInputs] = WeakSet()

    def inputs(self, part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int) -> HeldInputs:
        """Inputs of images of the part, all of which are then in memory."""
        found = HeldInputs(self._images, self._target, self._valid, self._first[indices])
        self.users.add(found)
        missing = np.sort(indices[~self._is_there[self._first[indices]]])  # sorted, so that a disk reads forwards
        cuts = cuts_of(len(missing), _READ_AT_ONCE)
        chosen: Sequence[Sequence[int]] = [missing[cut].tolist() for cut in cuts]
        with closing(read_batches(part, chosen, preprocess, n_workers=n_workers)) as batches:
            for batch, cut in zip(batches, cuts, strict=True):
                rows = self._first[missing[cut]]
                own = torch.from_numpy(rows).to(self._images.device)
                self._images[own] = batch.images.to(self._images.device)
                self._target[own] = batch.target.to(self._target.device)
                if self._valid is not None and batch.valid is not None:
                    self._valid[own] = batch.valid.to(self._valid.device)
                self._is_there[rows] = True
        return found


_kept: OrderedDict[tuple[str, str, str, str], _Held] = OrderedDict()  # the one last used at the end


def _held(
    part: TransferSet,
    chosen: np.ndarray | None,
    preprocess: Preprocess,
    *,
    memory_bytes: int,
    gpu: torch.device | None,
) -> _Held | None:
    """Memory for these images, if there is room for all of them."""
    of_chosen = "" if chosen is None else digest([chosen.astype("<i8")])
    px = preprocess.crop_px
    needed = n_bytes_of(part, len(part) if chosen is None else len(chosen), px)
    if needed > memory_bytes:
        return None
    key = part.fingerprint, of_chosen, repr(preprocess), str(gpu)
    if key not in _kept:
        used = {other: held.n_bytes for other, held in _kept.items()}
        for other in [other for other, held in _kept.items() if not held.users]:
            if sum(used.values()) + needed <= memory_bytes:
                break
            del used[other]
        if sum(used.values()) + needed > memory_bytes:
            return None
        for other in [other for other in _kept if other not in used]:
            del _kept[other]
        there = gpu is not None and needed <= torch.cuda.mem_get_info(gpu)[0] // 4
        _kept[key] = _Held(part, chosen, px, gpu if gpu is not None and there else torch.device("cpu"))
    _kept.move_to_end(key)
    return _kept[key]


def cuts_of(n: int, size: int) -> list[np.ndarray]:
    """The positions 0 to n - 1 in their order, ``size`` at a time.

    >>> cuts_of(5, 2)
    [array([0, 1]), array([2, 3]), array([4])]
    """
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def n_bytes_of(part: TransferSet, n: int, px: int) -> int:
    """Memory that n images of a part take with their targets."""
    target = int(np.prod(_target_shape(part, n, px)))
    return 4 * 3 * n * px**2 + (4 * target + n * px**2 if isinstance(part, MapSet) else 8 * target)


def _target_shape(part: TransferSet, n: int, px: int) -> tuple[int, ...]:
    return (n, int(TASKS[part.task].n_channels or 1), px, px) if isinstance(part, MapSet) else (n,)
