"""The data of a transfer task, and the batches of it that a run reads again and again.

Images that fit into memory are preprocessed once, the others at each pass. What is in memory is shared by the runs of a
process, dozens of which use the same images: it stays until something else needs the room.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias, cast
from weakref import WeakSet

from ...cards.schema import Preprocess
from ...datasets import ImageData, ImageSet, open_dense, open_images
from ...datasets.dense import IMAGE_FOLDERS, MAP_FOLDERS, DenseData, MapSet, aligned
from ...datasets.images import digest
from ...datasets.opening import DENSE_KINDS
from ...datasets.rgb import Scale
from ...encoders.preprocess import build_preprocess
from ...errors import DataError, QueryError
from ...features.decoding import Decoding, decoded
from ...optional import requires_extra
from .recipe import TASKS, Task, task_named

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor


TransferSet: TypeAlias = ImageSet | MapSet


@dataclass(frozen=True, eq=False)
class TransferData:
    """Training and test images of a task; both an :class:`ImageSet` or both a :class:`MapSet`, as the task needs."""

    name: str
    task: Task
    train: TransferSet
    test: TransferSet
    is_split_here: bool = False  # by the zoo, not by the source of the images

    @property
    def n_outputs(self) -> int:
        """Outputs of a decoder: classes, or channels of a map."""
        if self.task.n_channels is not None:
            return self.task.n_channels
        return len(images_of(self.train).classes)


def transfer_data(
    spec: str | os.PathLike[str] | ImageData | DenseData,
    task: str,
    *,
    name: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    image_column: str | None = None,
    label_column: str | None = None,
    label_columns: Sequence[str] = (),
    split_column: str | None = None,
    group: str | None = None,
    multi_label: bool = False,
    fold_labels: bool = False,
    scale: Scale | None = None,
    background: str = "white",
) -> TransferData:
    """The data of a task.

    Parameters
    ----------
    spec : str, path, ImageData or DenseData
        Of classification whatever :func:`zoo.datasets.open_images` takes, of the others whatever
        :func:`zoo.datasets.open_dense` takes; or what they return.
    task : str
        One of :data:`~zoo.evaluation.curves.recipe.TASKS`.
    name, val_share, seed, scale, background
        As for these functions.
    image_column, label_column, label_columns, split_column, group, multi_label, fold_labels
        As for :func:`zoo.datasets.open_images`.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As these functions; QueryError also if the data are of another task.
    """
    about = task_named(task)
    if isinstance(spec, ImageData | DenseData):
        data: ImageData | DenseData = spec
    elif about.is_dense:
        data = open_dense(
            spec, task=task, name=name, val_share=val_share, seed=seed, scale=scale, background=background
        )
    else:
        data = open_images(
            spec,
            name=name,
            val_share=val_share,
            seed=seed,
            image_column=image_column,
            label_column=label_column,
            label_columns=label_columns,
            split_column=split_column,
            group=group,
            multi_label=multi_label,
            fold_labels=fold_labels,
            scale=scale,
            background=background,
        )
    task_of_data = data.task if isinstance(data, DenseData) else "classification"
    if task_of_data != task:
        raise QueryError(
            f"The data {data.name!r} is of {task_of_data}, and the task is {task}; expected data of the task."
        )
    return TransferData(data.name, about, data.train, data.val, data.is_split_here)


def task_of(spec: str | os.PathLike[str]) -> str:
    """The task of data that allow one only: depth or normals where images lie beside their maps.

    Refuses data with several: rendered images have them all, and a folder may hold both kinds of maps.

    >>> task_of("digits")
    'classification'
    """
    tasks = tuple(TASKS) if os.fspath(spec).partition(":")[0] in DENSE_KINDS else _tasks_of_folder(Path(spec))
    if len(tasks) > 1:
        raise QueryError(f"{os.fspath(spec)!r} allows several tasks; expected one of {', '.join(tasks)} (--task).")
    return tasks[0]


def _tasks_of_folder(folder: Path) -> tuple[str, ...]:
    top = folder / "train" if (folder / "train").is_dir() else folder
    inside = sorted(path for path in top.glob("*") if path.is_dir())
    found = set()
    for place in (top, *inside):  # images and maps lie in the folder, or in folders of it, as BUILDING/rgb
        names = {path.name for path in place.glob("*") if path.is_dir()}
        if names & set(IMAGE_FOLDERS):
            found |= {task for task, folders in MAP_FOLDERS.items() if names & set(folders)}
    return tuple(task for task in TASKS if task in found) or ("classification",)


def images_of(part: TransferSet) -> ImageSet:
    """The images of a part, with classes or with maps."""
    return part if isinstance(part, ImageSet) else part.images


def labels_of(part: TransferSet) -> np.ndarray | None:
    """Int64 classes, shape (n,); None where each image has a map."""
    return part.labels if isinstance(part, ImageSet) else None


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Images and targets of one step or one evaluation.

    ``images`` are float32 (b, 3, px, px), preprocessed; of a frozen encoder its features, (b, dim). ``target`` is int64
    (b,), classes, or float32 (b, c, px, px), maps in the unit of the data, 0 where they are not valid. ``valid``, of
    maps, is bool (b, px, px), with at least one pixel an image.
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
    """A batch as it leaves the process that decoded it, or its error, which data loaders would garble."""

    batch: Batch | None
    error: DataError | None = None

    def pin_memory(self) -> _Read:
        """The same in pinned memory, from which a GPU copies by itself."""
        if self.batch is None:
            return self
        batch = self.batch
        valid = None if batch.valid is None else batch.valid.pin_memory()
        return replace(self, batch=Batch(batch.images.pin_memory(), batch.target.pin_memory(), valid))


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
    """Target and valid pixels of some images, as :class:`Batch` has them; no image is decoded."""
    if not isinstance(part, MapSet):
        return torch.from_numpy(part.labels[np.asarray(positions, np.int64)]), None
    maps = [_map_of(part, position, preprocess) for position in positions]
    target, valid = (np.stack(arrays) for arrays in zip(*maps, strict=True))
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
    """The batches at these positions of a part, in order, some of them decoded ahead of time; to be closed."""
    return _batches(_Reading(part, preprocess), cuts, n_workers=n_workers, pin=pin)


def read_targets(
    part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, batch_size: int, n_workers: int = 0
) -> Generator[tuple[Tensor, Tensor | None], None, None]:
    """Targets and valid pixels of images of a part, batch after batch, without the images; to be closed."""
    cuts = [indices[start : start + batch_size].tolist() for start in range(0, len(indices), batch_size)]
    reading = _Reading(part, preprocess, with_images=False)
    with closing(_batches(reading, cuts, n_workers=n_workers, pin=False)) as batches:
        for batch in batches:
            yield batch.target, batch.valid


def _batches(
    reading: _Reading, cuts: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Generator[Batch, None, None]:
    decoding = cast(Decoding, reading)  # which it is in what counts: positions in, a batch out
    with decoded(decoding, cuts, n_workers=min(n_workers, len(cuts)), pin=pin) as results:  # no process without a batch
        for read in cast(Iterator[_Read], results):
            if read.error is not None:
                raise read.error
            if read.batch is not None:
                yield read.batch


_READ_BATCH = 64  # images, while filling memory


class Inputs(Protocol):
    """Some images of a part with their targets."""

    def __len__(self) -> int:
        """Images."""

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """A batch for each int64 array of positions, from 0 to the number of images; close it when done early."""

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """Targets and valid pixels of some images, on the CPU."""


class HeldInputs:
    """Inputs in memory: the images at ``rows``, int64 (n,), of tensors as :class:`Batch` has them."""

    def __init__(self, images: Tensor, target: Tensor, valid: Tensor | None, rows: np.ndarray) -> None:
        self._images, self._target, self._valid, self._rows = images, target, valid, rows

    def __len__(self) -> int:
        return len(self._rows)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        for cut in cuts:
            rows = torch.from_numpy(self._rows[cut]).to(self._images.device)
            yield Batch(self._images[rows], self._target[rows], None if self._valid is None else self._valid[rows])

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        rows = torch.from_numpy(self._rows[positions]).to(self._target.device)
        return self._target[rows].cpu(), None if self._valid is None else self._valid[rows].cpu()


class StreamedInputs:
    """Inputs that are decoded at each pass."""

    def __init__(
        self, part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int, pin: bool
    ) -> None:
        self._part, self._indices, self._preprocess = part, indices, preprocess
        self._n_workers, self._pin = n_workers, pin

    def __len__(self) -> int:
        return len(self._indices)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        chosen = [self._indices[cut].tolist() for cut in cuts]
        return read_batches(self._part, chosen, self._preprocess, n_workers=self._n_workers, pin=self._pin)

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        return targets_of(self._part, self._indices[positions].tolist(), self._preprocess)


def inputs_of(
    part: TransferSet,
    indices: np.ndarray,
    preprocess: Preprocess,
    *,
    memory_bytes: int,
    n_workers: int = 0,
    device: torch.device | None = None,
) -> Inputs:
    """Some images of a part, at least one, in memory if there is room.

    There is if the whole part fits into ``memory_bytes`` (for all inputs of this process together) beside all that runs
    still use, or else if these images do. On a GPU they are in its memory, if they take no more than a quarter of what
    is free there. ``n_workers`` processes decode and preprocess; with none, a thread.
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
    for key in [key for key, held in _in_memory.items() if not held.users]:
        del _in_memory[key]


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
        self._is_filled = np.zeros(n, bool)
        self.n_bytes = n_bytes_of(part, n, px)
        self.users: WeakSet[HeldInputs] = WeakSet()

    def inputs(self, part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int) -> HeldInputs:
        """Inputs of images of the part, all of which are then in memory."""
        inputs = HeldInputs(self._images, self._target, self._valid, self._first[indices])
        self.users.add(inputs)
        missing = np.sort(indices[~self._is_filled[self._first[indices]]])  # sorted, so that a disk reads forwards
        cuts = cuts_of(len(missing), _READ_BATCH)
        chosen: Sequence[Sequence[int]] = [missing[cut].tolist() for cut in cuts]
        with closing(read_batches(part, chosen, preprocess, n_workers=n_workers)) as batches:
            for batch, cut in zip(batches, cuts, strict=True):
                rows = self._first[missing[cut]]
                at = torch.from_numpy(rows).to(self._images.device)
                self._images[at] = batch.images.to(self._images.device)
                self._target[at] = batch.target.to(self._target.device)
                if self._valid is not None and batch.valid is not None:
                    self._valid[at] = batch.valid.to(self._valid.device)
                self._is_filled[rows] = True
        return inputs


_in_memory: OrderedDict[tuple[str, str, str, str], _Held] = OrderedDict()  # last used at the end


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
    if key not in _in_memory:
        used = {other: held.n_bytes for other, held in _in_memory.items()}
        for other in [other for other, held in _in_memory.items() if not held.users]:
            if sum(used.values()) + needed <= memory_bytes:
                break
            del used[other]
        if sum(used.values()) + needed > memory_bytes:
            return None
        for other in [other for other in _in_memory if other not in used]:
            del _in_memory[other]
        fits_gpu = gpu is not None and needed <= torch.cuda.mem_get_info(gpu)[0] // 4
        _in_memory[key] = _Held(part, chosen, px, gpu if gpu is not None and fits_gpu else torch.device("cpu"))
    _in_memory.move_to_end(key)
    return _in_memory[key]


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
