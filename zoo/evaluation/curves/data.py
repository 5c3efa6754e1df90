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
from typing import Any, Literal, TypeAlias, cast

from ...cards.schema import Preprocess
from ...datasets import ImageData, ImageSet, open_dense, open_images
from ...datasets.dense import IMAGE_FOLDERS, MAP_FOLDERS, DenseData, MapSet, align_map
from ...datasets.images import compute_digest
from ...datasets.sources import DENSE_KINDS, read_data_options
from ...datasets.split_names import parse_part_name
from ...datasets.subsets import check_seed, draw_raw
from ...encoders.preprocess import build_preprocess
from ...errors import DataError, QueryError, format_count
from ...features.decoding import DecodingSpec, decode_batches
from ...optional import require_extra
from .recipe import TASKS, TransferTask, find_task

with require_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor

TransferSet: TypeAlias = ImageSet | MapSet
Regime: TypeAlias = int | Literal["all"]

_DENSE_OPTIONS = ("name", "val_share", "seed", "scale", "background", "max_pixels")


@dataclass(frozen=True, eq=False)
class TransferData:
    """Training and test images of a task; both an :class:`ImageSet` or both a :class:`MapSet`, as the task needs."""

    name: str
    task: TransferTask
    train: TransferSet
    test: TransferSet
    is_split_here: bool = False  # by the zoo, not by the source of the images

    @property
    def n_outputs(self) -> int:
        """Outputs of a decoder: classes, or channels of a map."""
        return len(get_image_set(self.train).classes) if self.task.n_channels is None else self.task.n_channels


def transfer_data(spec: str | os.PathLike[str] | ImageData | DenseData, task: str, **options: Any) -> TransferData:
    """The data of a task.

    Parameters
    ----------
    spec : str, path, ImageData or DenseData
        Of classification whatever :func:`zoo.datasets.open_images` takes, of the others whatever
        :func:`zoo.datasets.open_dense` takes; or what they return.
    task : str
        One of :data:`~zoo.evaluation.curves.recipe.TASKS`.
    **options
        Of these functions, such as ``name``, ``val_share``, ``seed`` or ``scale``.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As these functions; QueryError also if the data are of another task.
    """
    about = find_task(task)
    if isinstance(spec, ImageData | DenseData):
        data: ImageData | DenseData = spec
    elif about.is_dense:
        data = open_dense(spec, task=task, **{name: options[name] for name in _DENSE_OPTIONS if name in options})
    else:
        data = open_images(spec, **options)
    task_of_data = data.task if isinstance(data, DenseData) else "classification"
    task_of_data = "numbers" if not isinstance(data, DenseData) and data.train.target else task_of_data
    if task_of_data != task:
        raise QueryError(
            f"The data {data.name!r} is of {task_of_data}, and the task is {task}; expected data of the task."
        )
    return TransferData(data.name, about, data.train, data.val, data.is_split_here)


def resolve_task(spec: str | os.PathLike[str]) -> str:
    """The task of data that allow one only: depth or normals where images lie next to their maps.

    Refuses data with several: rendered images have them all, and a folder may hold both kinds of maps.

    >>> resolve_task("digits")
    'classification'
    """
    spec, tasks = read_data_options(os.fspath(spec))[0], list(TASKS)
    if spec.partition(":")[0] not in DENSE_KINDS:
        top = next((path for path in Path(spec).glob("*/") if parse_part_name(path.name) == "train"), Path(spec))
        found = set()
        for place in (top, *top.glob("*/")):  # images and maps lie in the folder, or in folders of it, as BUILDING/rgb
            names = {path.name for path in place.glob("*/")}
            if names & set(IMAGE_FOLDERS):
                found |= {task for task, folders in MAP_FOLDERS.items() if names & set(folders)}
        tasks = [task for task in TASKS if task in found] or ["classification"]
    if len(tasks) > 1:
        raise QueryError(f"{spec!r} allows several tasks; expected one of {', '.join(tasks)} (--task).")
    return tasks[0]


def get_image_set(part: TransferSet) -> ImageSet:
    """The images of a part, with classes or with maps."""
    return part if isinstance(part, ImageSet) else part.images


def get_class_labels(part: TransferSet) -> np.ndarray | None:
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


def select_regime_subset(part: TransferSet, n: Regime, *, seed: int, validation_share: float = 0.2) -> RegimeSubset:
    """The images of the regime of ``n``, drawn by ``seed`` from the training set.

    ``n`` includes the images to validate on: ``validation_share`` of it, at least one. Refuses an ``n`` below 1 or
    above the number of images (QueryError), or so small that a class has no image to train on or none is left to
    validate on (DataError, with the least n).

    >>> from zoo.datasets import open_images
    >>> digits = open_images("digits").train
    >>> small, large = (select_regime_subset(digits, n, seed=0) for n in (20, 200))
    >>> len(small.train), len(small.validation), bool(np.isin(small.indices, large.indices).all())
    (16, 4, True)
    """
    n_all, name = len(part), get_image_set(part).name
    wanted = check_regime(n, n_all, name=name)
    least, labels = compute_least_regime(part), _classes(part)
    ranks = draw_raw((check_seed(seed), _RANK_STREAM), n_all)
    chosen = np.sort(_stratified_order(labels, ranks)[0][:wanted])  # (n,)
    if wanted < least:
        missing = np.setdiff1d(labels, labels[chosen])
        lack = "no image that could be spared to validate on"
        if missing.size:
            more = f" and of {format_count(missing.size - 1, 'more class', 'more classes')}" if missing.size > 1 else ""
            lack = f"no image of the class {get_image_set(part).classes[int(missing[0])]!r}{more}"
        raise DataError(
            f"A regime of {wanted:,} of the {n_all:,} training images of {name!r} has {lack}; ask for at least "
            f"{least:,}."
        )
    n_validation = min(max(1, int(validation_share * wanted + 0.5)), wanted - _LEAST_TO_TRAIN)
    order, is_last = _stratified_order(labels[chosen], ~ranks[chosen])
    validation = chosen[order[~is_last[order]][:n_validation]]
    train = chosen[~np.isin(chosen, validation)]
    joined = get_image_set(part).together
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
        fingerprint=compute_digest(["regime", part.fingerprint, str(int(seed)), *parts]),
    )


def compute_least_regime(part: TransferSet) -> int:
    """The least regime with every class to train on and an image to validate on; the same for every seed."""
    counts = np.unique(_classes(part), return_counts=True)[1]
    if counts.sum() <= _LEAST_TO_TRAIN or counts.max() < 2:
        raise DataError(
            f"{get_image_set(part).name!r} has {counts.sum()} training images in {len(counts)} classes; expected at "
            f"least {_LEAST_TO_TRAIN} to train on and, of some class, one more to validate on."
        )
    smallest = counts.min()
    # of a class with m images, those that stand before the first of the smallest class: (2 k - 1) / m < 1 / smallest
    before = ((counts + smallest - 1) // smallest) // 2
    first_of_all = before[counts > smallest].sum() + (counts == smallest).sum()
    return int(max(first_of_all, len(counts) + 1, _LEAST_TO_TRAIN + 1))


def check_regime(n: object, n_all: float, *, name: str) -> int:
    """Number of images of a regime, a whole number from 1 to that of all images, or "all"."""
    if isinstance(n, str) and n == "all":
        return int(n_all)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"A regime of {n!r} images of {name!r} was asked for; expected a whole number from 1, or all.")
    if n > n_all:
        raise QueryError(
            f"A regime of {format_count(int(n), 'image')} was asked for, but {name!r} has {n_all:,} to train on; "
            "ask for at most so many, or for all."
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
class TransferBatch:
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

    def part(self, start: int, stop: int) -> TransferBatch:
        """Some of its images."""
        valid = None if self.valid is None else self.valid[start:stop]
        return TransferBatch(self.images[start:stop], self.target[start:stop], valid)

    def to(self, device: torch.device, layout: torch.memory_format) -> TransferBatch:
        """The same on a device, where images lie as the network's weights do."""
        images = self.images.to(device, non_blocking=True)
        if images.ndim == 4:
            images = images.contiguous(memory_format=layout)
        valid = None if self.valid is None else self.valid.to(device, non_blocking=True)
        return TransferBatch(images, self.target.to(device, non_blocking=True), valid)

    def pin_memory(self) -> TransferBatch:
        """The same in pinned memory, from which a GPU copies by itself."""
        valid = None if self.valid is None else self.valid.pin_memory()
        return TransferBatch(self.images.pin_memory(), self.target.pin_memory(), valid)


class _PartReader:
    """A part of the data by positions; a class so that worker processes can unpickle it."""

    def __init__(self, part: TransferSet, preprocess: Preprocess, *, with_images: bool) -> None:
        self.part, self.preprocess = part, preprocess
        self.transform = build_preprocess(preprocess) if with_images else None

    def __getitem__(
        self, positions: Sequence[int]
    ) -> TransferBatch | DataError:  # which data loaders would garble if raised
        part, images = self.part, get_image_set(self.part)
        try:
            pixels = torch.empty(len(positions), 0)
            if self.transform is not None:
                pixels = torch.stack([self.transform(images[position][0]) for position in positions])  # (b, 3, px, px)
            if not isinstance(part, MapSet):
                return TransferBatch(pixels, torch.from_numpy(part.labels[np.asarray(positions, np.int64)]), None)
            maps = [align_map(*part.maps[position], self.preprocess) for position in positions]  # (c, px, px), (px, px)
        except DataError as error:
            return error
        for position, (_, valid) in zip(positions, maps, strict=True):
            if not valid.any():
                return DataError(
                    f"The map of {part.images.names[position]!r} of {part.name!r} ({part.split}) has no valid pixel in "
                    f"the {self.preprocess.crop_px} px that the encoder sees; expected at least one, so leave this "
                    "image out."
                )
        target, is_valid = (np.stack(arrays) for arrays in zip(*maps, strict=True))
        return TransferBatch(pixels, torch.from_numpy(target), torch.from_numpy(is_valid))


def read_batches(
    part: TransferSet,
    cuts: Sequence[Sequence[int]],
    preprocess: Preprocess,
    *,
    n_workers: int = 0,
    pin: bool = False,
    with_images: bool = True,
) -> Generator[TransferBatch, None, None]:
    """The batches at these positions of a part, in order, some of them decoded ahead of time; to be closed."""
    reading = cast(DecodingSpec, _PartReader(part, preprocess, with_images=with_images))  # positions in, a batch out
    with decode_batches(
        reading, cuts, n_workers=min(n_workers, len(cuts)), pin=pin
    ) as results:  # no process without a batch
        for read in cast(Iterator[TransferBatch | DataError], results):
            if isinstance(read, DataError):
                raise read
            yield read


def read_targets(
    part: TransferSet, indices: np.ndarray, preprocess: Preprocess, *, n_workers: int = 0
) -> Generator[TransferBatch, None, None]:
    """Batches of targets without images; to be closed."""
    cuts = [indices[cut].tolist() for cut in split_positions(len(indices), _READ_BATCH)]
    return read_batches(part, cuts, preprocess, n_workers=n_workers, with_images=False)


@dataclass(frozen=True, eq=False)
class HeldInputs:
    """Inputs in memory, each a batch of one image."""

    items: Sequence[TransferBatch]

    def __len__(self) -> int:
        return len(self.items)

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[TransferBatch, None, None]:
        """A batch for each int64 array of positions, from 0 to the number of images; close it when done early."""
        for cut in cuts:
            items = [self.items[position] for position in cut]
            valid = [item.valid for item in items if item.valid is not None]
            images, target = (torch.cat([getattr(item, name) for item in items]) for name in ("images", "target"))
            yield TransferBatch(images, target, torch.cat(valid) if valid else None)


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

    def batches(self, cuts: Iterable[np.ndarray]) -> Generator[TransferBatch, None, None]:
        """As :meth:`HeldInputs.batches`."""
        chosen = [self.indices[cut].tolist() for cut in cuts]
        return read_batches(self.part, chosen, self.preprocess, n_workers=self.n_workers, pin=self.pin)


Inputs: TypeAlias = HeldInputs | StreamedInputs
_Key: TypeAlias = tuple[str, str, str, int]  # fingerprint, preprocessing, device, bytes of an image
_in_memory: dict[_Key, dict[int, TransferBatch]] = {}  # images of the last runs of this process, by position


def load_inputs(
    wanted: Sequence[tuple[TransferSet, np.ndarray]],
    preprocess: Preprocess,
    *,
    memory_bytes: int,
    n_workers: int = 0,
    device: torch.device | None = None,
) -> list[Inputs]:
    """The inputs of a run: images of parts of the data by positions, in memory if they fit into ``memory_bytes``.

    Runs of one process share what is in memory. On a GPU images are in its memory, if they take no more than a quarter
    of what is free there.
    """
    gpu = device if device is not None and device.type == "cuda" else None
    needed: dict[_Key, set[int]] = {}
    keys: list[tuple[_Key, torch.device] | None] = []  # None: streamed
    for part, indices in wanted:
        n_bytes = compute_image_bytes(part, preprocess.crop_px)
        fits_gpu = gpu is not None and n_bytes * len(indices) <= torch.cuda.mem_get_info(gpu)[0] // 4
        place = gpu if gpu is not None and fits_gpu else torch.device("cpu")
        key = part.fingerprint, repr(preprocess), str(place), n_bytes
        fits = sum(one[-1] * len(some) for one, some in needed.items()) + n_bytes * len(indices) <= memory_bytes
        keys.append((key, place) if fits else None)
        if fits:
            needed.setdefault(key, set()).update(indices.tolist())
    everything = {key: needed.get(key, set()) | _in_memory.get(key, {}).keys() for key in {*needed, *_in_memory}}
    if sum(key[-1] * len(positions) for key, positions in everything.items()) > memory_bytes:
        for key in list(_in_memory):  # what this run has no use for
            _in_memory[key] = {at: item for at, item in _in_memory[key].items() if at in needed.get(key, ())}
    inputs: list[Inputs] = []
    for (part, indices), found in zip(wanted, keys, strict=True):
        if found is None:
            inputs.append(StreamedInputs(part, np.asarray(indices, np.int64), preprocess, n_workers, gpu is not None))
            continue
        key, place = found
        held = _in_memory.setdefault(key, {})
        missing = np.array(sorted(set(indices.tolist()) - held.keys()), np.int64)  # so that a disk reads forwards
        cuts = [missing[cut].tolist() for cut in split_positions(len(missing), _READ_BATCH)]
        with closing(read_batches(part, cuts, preprocess, n_workers=n_workers)) as batches:
            for batch, cut in zip(batches, cuts, strict=True):
                batch = batch.to(place, torch.contiguous_format)
                held |= {position: batch.part(row, row + 1) for row, position in enumerate(cut)}
        inputs.append(HeldInputs([held[position] for position in indices.tolist()]))
    return inputs


def release_inputs() -> None:
    """Gives back the memory of inputs."""
    _in_memory.clear()


def split_positions(n: int, size: int) -> list[np.ndarray]:
    """The positions 0 to n - 1 in their order, ``size`` at a time.

    >>> split_positions(5, 2)
    [array([0, 1]), array([2, 3]), array([4])]
    """
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def compute_image_bytes(part: TransferSet, px: int) -> int:
    """Memory that an image of a part takes with its target."""
    return px**2 * (12 + 4 * int(TASKS[part.task].n_channels or 1) + 1) if isinstance(part, MapSet) else 12 * px**2 + 8
