"""The data of a transfer task: images with classes, or with a map each, in a training and a test set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...datasets import ImageData, ImageSet, open_images
from ...datasets.dense import DenseData, MapSet, open_dense
from ...datasets.dense_pairs import IMAGE_FOLDERS, MAP_FOLDERS
from ...errors import QueryError
from ...rgb import Scale
from .tasks import TASKS, Task, task_named

TransferSet: TypeAlias = ImageSet | MapSet


@dataclass(frozen=True, eq=False)
class TransferData:
    """Train on ``train``, test on ``test``; both are :class:`ImageSet` or both :class:`MapSet`, as the task needs."""

    name: str
    task: Task
    train: TransferSet
    test: TransferSet
    is_split_here: bool = False  # by the zoo, and not by the source of the images

    @property
    def n_outputs(self) -> int:
        """Numbers that a decoder gives: classes, or channels of a map."""
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
    scale: Scale | None = None,
) -> TransferData:
    """The data of a task.

    Parameters
    ----------
    spec : str, path, ImageData or DenseData
        Of classification whatever :func:`zoo.datasets.open_images` takes, of the others whatever
        :func:`zoo.datasets.dense.open_dense` takes; or what they return.
    task : str
        One of :data:`~zoo.evaluation.curves.tasks.TASKS`.
    name, val_share, seed, image_column, label_column, scale
        As for these functions.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As these functions; and if the data is of another task.
    """
    about = task_named(task)
    if isinstance(spec, ImageData | DenseData):
        found: ImageData | DenseData = spec
    elif about.is_dense:
        found = open_dense(spec, task=task, name=name, val_share=val_share, seed=seed, scale=scale)
    else:
        found = open_images(
            spec, name=name, val_share=val_share, seed=seed, image_column=image_column, label_column=label_column,
            scale=scale,
        )  # fmt: skip
    own = found.task if isinstance(found, DenseData) else "classification"
    if own != task:
        raise QueryError(f"The data {found.name!r} is of {own}, and the task is {task}; expected data of the task.")
    return TransferData(found.name, about, found.train, found.val, found.is_split_here)


def task_of(spec: str | os.PathLike[str]) -> str:
    """The task that data allow, if it is the only one: depth or normals where images lie beside their maps.

    Parameters
    ----------
    spec : str or path
        As for :func:`transfer_data`.

    Returns
    -------
    str

    Raises
    ------
    QueryError
        If there are several: rendered images have them all, and a folder may hold both kinds of maps.

    >>> task_of("digits")
    'classification'
    """
    found = tuple(TASKS) if os.fspath(spec).partition(":")[0] == "shapes" else _tasks_of_folder(Path(spec))
    if len(found) > 1:
        raise QueryError(f"{os.fspath(spec)!r} allows several tasks; expected one of {', '.join(found)} (--task).")
    return found[0]


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
    """The images of a part, whatever comes with them."""
    return part if isinstance(part, ImageSet) else part.images


def labels_of(part: TransferSet) -> object:
    """Int64 classes, shape (n,); None where each image has a map."""
    return part.labels if isinstance(part, ImageSet) else None
