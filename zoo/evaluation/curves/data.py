"""The data of a transfer task: training and test images, the subsets of data regimes, and batches to train on.

The images of a regime are nested, stratified and drawn by seed. Every image has a rank that depends on the seed and its
position alone. The classes take turns by Webster's method: the k-th image by rank of a class with m images stands at
(2 k - 1) / m, and a regime of n images takes the n lowest. Maps have no classes: their images go by rank alone. The
validation part is drawn from the regime in the same way with the ranks inverted, except the last image of each class,
which stays to train on, and copies of images that are trained on.

Images that fit into memory are preprocessed once and shared by the runs of a process; others are read at each pass.

References
----------
M. L. Balinski and H. P. Young 1982, Fair Representation (Webster's method: no class loses an image as the regime grows,
and none is favoured for its size).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

from ...cards.schema import Preprocess
from ...datasets import ImageData, ImageSet, open_dense, open_images
from ...datasets.dense import IMAGE_FOLDERS, MAP_FOLDERS, DenseData, MapSet, aligned
from ...datasets.images import digest
from ...datasets.opening import DENSE_KINDS
from ...datasets.rgb import Scale
from ...datasets.subsets import checked_seed, raw_draws
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
Regime: TypeAlias = int | Literal["all"]


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
        return len(images_of(self.train).classes) if self.task.n_channels is None else self.task.n_channels


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
    tasks = list(TASKS)
    if os.fspath(spec).partition(":")[0] not in DENSE_KINDS:
        top = Path(spec) / "train" if (Path(spec) / "train").is_dir() else Path(spec)
        found = set()
        for place in (top, *top.glob("*/")):  # images and maps lie in the folder, or in folders of it, as BUILDING/rgb
            names = {path.name for path in place.glob("*/")}
            if names & set(IMAGE_FOLDERS):
                found |= {task for task, folders in MAP_FOLDERS.items() if names & set(folders)}
        tasks = [task for task in TASKS if task in found] or ["classification"]
    if len(tasks) > 1:
        raise QueryError(f"{os.fspath(spec)!r} allows several tasks; expected one of {', '.join(tasks)} (--task).")
    return tasks[0]


def images_of(part: TransferSet) -> ImageSet:
    """The images of a part, with classes or with maps."""
    return part if isinstance(part, ImageSet) else part.images


def labels_of(part: TransferSet) -> np.ndarray | None:
    """Int64 classes, shape (n,); None where each image has a map."""
    return part.labels if isinstance(part, ImageSet) else None


# --- regimes ---------------------------------------------------------------------------------------------------------

_RANK_STREAM = 7_003  # keeps the ranks apart from all other draws of a seed
_LEAST_TO_TRAIN = 2  # images, of whatever class: a batch of one has no variance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegimeSubset:
    """The images of a regime, by their positions in the training set."""

    n_requested: int  # labelled images that were asked for
    indices: np.ndarray  # int64 (n,), ascending: those to train on and those to validate on
    train: np.ndarray
    validation: np.ndarray  # choose learning rate and end of the training
    fingerprint: str  # hex, of the training set, the seed and these


def regime_subset(part: TransferSet, n: Regime, *, seed: int, validation_share: float = 0.2) -> RegimeSubset:
    """The images of the regime of ``n``, drawn by ``seed`` from the training set.

    ``n`` includes the images to validate on: ``validation_share`` of it, at least one. Refuses an ``n`` below 1 or
    above the number of images (QueryError), or so small that a class has no image to train on or none is left to
    validate on (DataError, with the least n).

    >>> from zoo.datasets import open_images
    >>> digits = open_images("digits").train
    >>> small, large = (regime_subset(digits, n, seed=0) for n in (20, 200))
    >>> len(small.train), len(small.validation), bool(np.isin(small.indices, large.indices).all())
    (16, 4, True)
    """
    n_all, name = len(part), images_of(part).name
    wanted = checked_regime(n, n_all, name=name)
    least, labels = least_images(part), _classes(part)
    ranks = raw_draws((checked_seed(seed), _RANK_STREAM), n_all)
    chosen = np.sort(_stratified_order(labels, ranks)[0][:wanted])  # (n,)
    if wanted < least:
        missing = np.setdiff1d(labels, labels[chosen])
        lack = "no image that could be spared to validate on"
        if missing.size:
            more = f" and of {missing.size - 1} more classes" if missing.size > 1 else ""
            lack = f"no image of the class {images_of(part).classes[int(missing[0])]!r}{more}"
        raise DataError(
            f"A regime of {wanted:,} of the {n_all:,} training images of {name!r} has {lack}; ask for at least "
            f"{least:,}."
        )
    n_validation = min(max(1, int(validation_share * wanted + 0.5)), wanted - _LEAST_TO_TRAIN)
    order, is_last = _stratified_order(labels[chosen], ~ranks[chosen])
    validation = chosen[order[~is_last[order]][:n_validation]]
    train = chosen[~np.isin(chosen, validation)]
    joined = images_of(part).together
    if joined is not None:
        leaked = np.isin(joined[validation], joined[train])
        if leaked.any() and not leaked.all():  # if all are, there is nothing else to validate on
            validation = validation[~leaked]
            train = chosen[~np.isin(chosen, validation)]
    parts = [array.astype("<i8") for array in (train, validation)]
    return RegimeSubset(
        n_requested=wanted,
        indices=chosen,
        train=train,
        validation=validation,
        fingerprint=digest(["regime", part.fingerprint, str(int(seed)), *parts]),
    )


def least_images(part: TransferSet) -> int:
    """The least regime with every class to train on and an image to validate on; the same for every seed."""
    counts = np.unique(_classes(part), return_counts=True)[1]
    if counts.sum() <= _LEAST_TO_TRAIN or counts.max() < 2:
        raise DataError(
            f"{images_of(part).name!r} has {counts.sum()} training images in {len(counts)} classes; expected at least "
            f"{_LEAST_TO_TRAIN} to train on and, of some class, one more to validate on."
        )
    smallest = counts.min()
    # of a class with m images, those that stand before the first of the smallest class: (2 k - 1) / m < 1 / smallest
    before = ((counts + smallest - 1) // smallest) // 2
    first_of_all = before[counts > smallest].sum() + (counts == smallest).sum()
    return int(max(first_of_all, len(counts) + 1, _LEAST_TO_TRAIN + 1))


def checked_regime(n: object, n_all: float, *, name: str) -> int:
    """Number of images of a regime, a whole number from 1 to that of all images, or "all"."""
    if isinstance(n, str) and n == "all":
        return int(n_all)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"A regime of {n!r} images of {name!r} was asked for; expected a whole number from 1, or all.")
    if n > n_all:
        raise QueryError(
            f"A regime of {n:,} images was asked for, but {name!r} has {n_all:,} training images; ask for at most so "
            "many, or for all."
        )
    return int(n)


def _classes(part: TransferSet) -> np.ndarray:
    """Class of each image; where there are maps, all images are of one class."""
    return part.labels if isinstance(part, ImageSet) else np.zeros(len(part), np.int64)


def _stratified_order(labels: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the order in which regimes take them, and whether each image is the last of its class by rank."""
    _, number, counts = np.unique(labels, return_inverse=True, return_counts=True)
    by_class = np.lexsort((np.arange(len(labels)), ranks, number))  # by class, then rank, then position
    place = np.empty(len(labels), np.int64)  # in its class by rank, from 0
    place[by_class] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    stand = (2 * place + 1) / counts[number]  # equal fractions are equal numbers, for division rounds correctly
    order = np.lexsort((np.arange(len(labels)), ranks, place, stand))  # of equals, the first of their class come first
    return order, place == counts[number] - 1


# --- batches ---------------------------------------------------------------------------------------------------------

_READ_BATCH = 64  # images, while maps are read or memory is filled


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

    def pin_memory(self) -> Batch:
        """The same in pinned memory, from which a GPU copies by itself."""
        valid = None if self.valid is None else self.valid.pin_memory()
        return Batch(self.images.pin_memory(), self.target.pin_memory(), valid)


class _Reading:
    """A part of the data by positions; a class so that worker processes can unpickle it."""

    def __init__(self, part: TransferSet, preprocess: Preprocess, *, with_images: bool) -> None:
        self.part, self.preprocess = part, preprocess
        self.transform = build_preprocess(preprocess) if with_images else None

    def __getitem__(self, positions: Sequence[int]) -> Batch | DataError:  # which data loaders would garble if raised
        images = images_of(self.part)
        try:
            pixels = torch.empty(len(positions), 0)
            if self.transform is not None:
                pixels = torch.stack([self.transform(images[position][0]) for position in positions])  # (b, 3, px, px)
            return Batch(pixels, *targets_of(self.part, positions, self.preprocess))
        except DataError as error:
            return error


def targets_of(part: TransferSet, positions: Sequence[int], preprocess: Preprocess) -> tuple[Tensor, Tensor | None]:
    """Target and valid pixels of some images, as :class:`Batch` has them; no image is decoded."""
    if not isinstance(part, MapSet):
        return torch.from_numpy(part.labels[np.asarray(positions, np.int64)]), None
    maps = [aligned(*part.maps[position], preprocess) for position in positions]  # (c, px, px), (px, px)
    for position, (_, valid) in zip(positions, maps, strict=True):
        if not valid.any():
            raise DataError(
                f"The map of {part.images.names[position]!r} of {part.name!r} ({part.split}) has no valid pixel in the "
                f"{preprocess.crop_px} px that the encoder sees; expected at least one, so leave this image out."
            )
    target, is_valid = (np.stack(arrays) for arrays in zip(*maps, strict=True))
    return torch.from_numpy(target), torch.from_numpy(is_valid)


def read_batches(
    part: TransferSet,
    cuts: Sequence[Sequence[int]],
    preprocess: Preprocess,
    *,
    n_workers: int = 0,
    pin: bool = False,
    with_images: bool = True,
) -> Generator[Batch, None, None]:
    """The batches at these positions of a part, in order, some of them decoded ahead of time; to be closed."""
    reading = cast(Decoding, _Reading(part, preprocess, with_images=with_images))  # positions in, a batch out
    with decoded(reading, cuts, n_workers=min(n_workers, len(cuts)), pin=pin) as results:  # no process without a batch
        for read in cast(Iterator[Batch | DataError], results):
            if isinstance(read, DataError):
                raise read
            yield read


def read_targets(
    part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int = 0
) -> Generator[Batch, None, None]:
    """Batches of targets without images; to be closed."""
    cuts = [indices[cut].tolist() for cut in cuts_of(len(indices), _READ_BATCH)]
    return read_batches(part, cuts, preprocess, n_workers=n_workers, with_images=False)


@dataclass(frozen=True, eq=False)
class HeldInputs:
    """Inputs in memory: the images at ``rows``, int64 (n,), of tensors as :class:`Batch` has them."""

    held: Batch
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """A batch for each int64 array of positions, from 0 to the number of images; close it when done early."""
        held = self.held
        for cut in cuts:
            rows = torch.from_numpy(self.rows[cut]).to(held.images.device)
            yield Batch(held.images[rows], held.target[rows], None if held.valid is None else held.valid[rows])

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """Targets and valid pixels of some images, on the CPU."""
        rows = torch.from_numpy(self.rows[positions]).to(self.held.target.device)
        valid = self.held.valid
        return self.held.target[rows].cpu(), None if valid is None else valid[rows].cpu()


@dataclass(frozen=True, eq=False)
class StreamedInputs:
    """Inputs that are decoded at each pass, by ``n_workers`` processes or a thread."""

    part: TransferSet
    indices: np.ndarray
    preprocess: Preprocess
    n_workers: int
    pin: bool

    def __len__(self) -> int:
        return len(self.indices)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[Batch, None, None]:
        """As :meth:`HeldInputs.batches`."""
        chosen = [self.indices[cut].tolist() for cut in cuts]
        return read_batches(self.part, chosen, self.preprocess, n_workers=self.n_workers, pin=self.pin)

    def targets(self, positions: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """As :meth:`HeldInputs.targets`."""
        return targets_of(self.part, self.indices[positions].tolist(), self.preprocess)


Inputs: TypeAlias = HeldInputs | StreamedInputs


class _Held:
    """Memory for a part of the data, filled as far as it was needed."""

    def __init__(self, part: TransferSet, chosen: np.ndarray, px: int, device: torch.device) -> None:
        n = len(chosen)
        self.first = np.full(len(part), -1)  # position -> row
        self.first[chosen] = np.arange(n)
        images = torch.empty((n, 3, px, px), device=device)
        if isinstance(part, MapSet):
            target = torch.empty((n, int(TASKS[part.task].n_channels or 1), px, px), device=device)
            self.batch = Batch(images, target, torch.empty((n, px, px), dtype=torch.bool, device=device))
        else:
            self.batch = Batch(images, torch.empty(n, dtype=torch.int64, device=device), None)
        self.is_filled = np.zeros(n, bool)
        self.n_bytes = n_bytes_of(part, n, px)

    def fill(self, part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int) -> None:
        """Reads the images that are not in memory yet."""
        missing = np.sort(indices[~self.is_filled[self.first[indices]]])  # sorted, so that a disk reads forwards
        cuts = [missing[cut] for cut in cuts_of(len(missing), _READ_BATCH)]
        with closing(read_batches(part, [cut.tolist() for cut in cuts], preprocess, n_workers=n_workers)) as batches:
            for batch, cut in zip(batches, cuts, strict=True):
                rows = self.first[cut]
                at = torch.from_numpy(rows).to(self.batch.images.device)
                self.batch.images[at] = batch.images.to(at.device)
                self.batch.target[at] = batch.target.to(at.device)
                if self.batch.valid is not None and batch.valid is not None:
                    self.batch.valid[at] = batch.valid.to(at.device)
                self.is_filled[rows] = True


_in_memory: dict[tuple[str, str, str, str], _Held] = {}  # of the last runs of this process


def inputs_of(
    wanted: Sequence[tuple[TransferSet, np.ndarray]],
    preprocess: Preprocess,
    *,
    memory_bytes: int,
    n_workers: int = 0,
    device: torch.device | None = None,
) -> list[Inputs]:
    """The inputs of a run: images of parts of the data by positions, in memory if there is room.

    Runs of one process share what is in memory. A whole part is held if it fits into ``memory_bytes`` beside the others
    of this run, or else the images of the run, or else they are read at each pass. On a GPU they are in its memory, if
    they take no more than a quarter of what is free there.
    """
    gpu = device if device is not None and device.type == "cuda" else None
    inputs: list[Inputs] = []
    used: set[tuple[str, str, str, str]] = set()
    for part, positions in wanted:
        indices = np.asarray(positions, np.int64)
        for chosen in (np.arange(len(part)), indices):  # the whole part, which other runs have a use for too
            key = part.fingerprint, digest([chosen.astype("<i8")]), repr(preprocess), str(gpu)
            needed = n_bytes_of(part, len(chosen), preprocess.crop_px)
            if sum(_in_memory[other].n_bytes for other in used - {key}) + needed > memory_bytes:
                continue
            if key not in _in_memory:
                for other in [other for other in _in_memory if other not in used]:
                    if sum(held.n_bytes for held in _in_memory.values()) + needed > memory_bytes:
                        del _in_memory[other]
                fits_gpu = gpu is not None and needed <= torch.cuda.mem_get_info(gpu)[0] // 4
                at = gpu if gpu is not None and fits_gpu else torch.device("cpu")
                _in_memory[key] = _Held(part, chosen, preprocess.crop_px, at)
            used.add(key)
            held = _in_memory[key]
            held.fill(part, indices, preprocess, n_workers=n_workers)
            inputs.append(HeldInputs(held.batch, held.first[indices]))
            break
        else:
            inputs.append(StreamedInputs(part, indices, preprocess, n_workers, pin=gpu is not None))
    return inputs


def forget_inputs() -> None:
    """Gives back the memory of inputs."""
    _in_memory.clear()


def cuts_of(n: int, size: int) -> list[np.ndarray]:
    """The positions 0 to n - 1 in their order, ``size`` at a time.

    >>> cuts_of(5, 2)
    [array([0, 1]), array([2, 3]), array([4])]
    """
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def n_bytes_of(part: TransferSet, n: int, px: int) -> int:
    """Memory that n images of a part take with their targets."""
    n_target = px**2 * (4 * int(TASKS[part.task].n_channels or 1) + 1) if isinstance(part, MapSet) else 8
    return n * (4 * 3 * px**2 + n_target)
