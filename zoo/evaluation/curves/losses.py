"""What training minimises, and how wrong a prediction is for each image, in the unit of the task's metrics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...datasets import ImageData, ImageSet, open_dense, open_images
from ...datasets.dense import DenseData, MapSet
from ...datasets.dense_folders import IMAGE_FOLDERS, MAP_FOLDERS
from ...datasets.opening import DENSE_KINDS
from ...datasets.rgb import Scale
from ...errors import DataError, QueryError
from ...optional import requires_extra
from .recipe import TASKS, Task, task_named

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor
    from torch.nn import functional


@dataclass(frozen=True, slots=True)
class TargetScale:
    """Where the numbers of a map lie; a network predicts ``(target - centre) / spread``.

    One spread for all channels, so that the loss is the same but for a factor.

    >>> TargetScale((10.0,), 2.0).in_units(TargetScale((10.0,), 2.0).standardised(torch.tensor([[[14.0]]]))).item()
    14.0
    """

    centre: tuple[float, ...] = ()  # of each channel; none: numbers are as they are
    spread: float = 1.0

    def standardised(self, target: Tensor) -> Tensor:
        """From the unit of the data to that of training, shape (n, c, ...); classes stay what they are."""
        return (target - self._centre(target)) / self.spread if self.centre else target

    def in_units(self, prediction: Tensor) -> Tensor:
        """From the unit of training to that of the data."""
        return prediction * self.spread + self._centre(prediction) if self.centre else prediction

    def _centre(self, like: Tensor) -> Tensor:
        return like.new_tensor(self.centre).view(-1, *(1,) * (like.dim() - 2))  # (c, 1, 1)


def scale_of(values: np.ndarray, *, what: str) -> TargetScale:
    """Median of each channel, and mean absolute deviation from it over all channels.

    Parameters
    ----------
    values : float32 array, shape (n, c)
    what : str
        Of what they are, for the error.

    Raises
    ------
    DataError
        If all are the same.

    >>> scale_of(np.float32([[1], [2], [6]]), what="three depths")
    TargetScale(centre=(2.0,), spread=1.6666666666666667)
    """
    centre = np.median(values, axis=0).astype(np.float64)  # (c,)
    spread = float(np.mean(np.abs(values.astype(np.float64) - centre)))
    if not spread:
        constant = ", ".join(f"{number:g}" for number in centre)
        raise DataError(f"All of {what} are {constant}; expected a target that varies, for there is nothing to learn.")
    return TargetScale(tuple(centre.tolist()), spread)


def loss_of(task: Task, prediction: Tensor, target: Tensor, valid: Tensor | None) -> Tensor:
    """Mean of the task's loss over the images, or the valid numbers of their maps.

    Parameters
    ----------
    task : Task
    prediction : float32 tensor, shape (n, n_outputs) or (n, n_outputs, px, px)
    target : int64 tensor, shape (n,), or float32 tensor, shape (n, n_outputs, px, px)
        Maps in the unit of training; finite everywhere.
    valid : bool tensor, shape (n, px, px), or None
        Of maps; at least one pixel.

    Returns
    -------
    float32 tensor, shape ()
        Cross-entropy, or mean absolute error; lower is better.

    >>> from zoo.evaluation.curves.recipe import TASKS
    >>> map_, seen = torch.zeros(1, 1, 1, 2), torch.tensor([[[True, False]]])
    >>> loss_of(TASKS["depth"], map_ + 3, map_, seen).item()
    3.0
    """
    if valid is None:
        return functional.cross_entropy(prediction, target)
    wrong = (prediction - target).abs() * valid.unsqueeze(1)  # (n, c, px, px)
    return wrong.sum() / n_terms(task, target, valid)


def n_terms(task: Task, target: Tensor, valid: Tensor | None) -> Tensor | int:
    """How many numbers :func:`loss_of` is the mean of; with it, means over parts of a batch make that of the whole."""
    return len(target) if valid is None else valid.sum() * int(task.n_channels or 1)


def risks_of(
    task: Task, prediction: Tensor, target: Tensor, valid: Tensor | None, *, scale: TargetScale
) -> dict[str, Tensor]:
    """How wrong the prediction is for each image, by every metric of the task.

    Parameters
    ----------
    task : Task
    prediction : float32 tensor, shape (n, n_outputs) or (n, n_outputs, px, px)
        In the unit of training.
    target : int64 tensor, shape (n,), or float32 tensor, shape (n, n_outputs, px, px)
        Maps in the unit of the data; finite everywhere.
    valid : bool tensor, shape (n, px, px), or None
        Of maps; at least one pixel of each image.
    scale : Scale
        From the unit of training to that of the data.

    Returns
    -------
    dict from a metric to float32 tensor, shape (n,)
        Lower is better. ``transfer_error``: 0 or 100 %. ``*_l1_error``: mean absolute error over the valid pixels (and
        the components), in the unit of the data. ``normals_angular_error``: mean angle in degrees between the
        predicted and the true direction; a prediction of no length has none, and is wrong by 90.

    >>> from zoo.evaluation.curves.recipe import TASKS
    >>> risks_of(TASKS["classification"], torch.eye(2), torch.tensor([0, 0]), None, scale=TargetScale())
    {'transfer_error': tensor([  0., 100.])}
    """
    if valid is None:
        wrong = prediction.argmax(dim=1) != target
        return {task.metrics[0]: 100.0 * wrong.float()}
    found = scale.in_units(prediction)
    weight = valid.float() / valid.sum(dim=(1, 2), keepdim=True)  # (n, px, px), sums to 1 an image
    absolute = (found - target).abs().mean(dim=1)  # (n, px, px)
    risks = {task.metrics[0]: (absolute * weight).sum(dim=(1, 2))}
    for metric in task.metrics[1:]:  # the one other metric there is
        risks[metric] = (angles(found, target) * weight).sum(dim=(1, 2))
    return risks


def angles(one: Tensor, other: Tensor) -> Tensor:
    """Degrees between vectors of any length, shape (n, 3, ...) -> (n, ...); 90 if one has no length.

    By the tangent of half the angle, which unlike the inverse cosine is exact near 0 and 180 degrees.

    >>> round(angles(torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([[0.0, 1e-4, 1.0]])).item(), 5)
    0.00573
    """
    a, b = functional.normalize(one, dim=1), functional.normalize(other, dim=1)
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=1), (a + b).norm(dim=1)))


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
        :func:`zoo.datasets.open_dense` takes; or what they return.
    task : str
        One of :data:`~zoo.evaluation.curves.recipe.TASKS`.
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
    found = tuple(TASKS) if os.fspath(spec).partition(":")[0] in DENSE_KINDS else _tasks_of_folder(Path(spec))
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
