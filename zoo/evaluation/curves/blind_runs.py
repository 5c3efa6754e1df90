"""The run that sees no image: constants from the training targets, and how wrong they are for each test image."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from ...datasets.dense import MapSet
from ...errors import DataError
from ...metadata import Preprocess
from ...optional import requires_extra
from .blind import majority_class, pixelwise_direction, pixelwise_median
from .data import TransferData, TransferSet
from .losses import Scale, risks_of
from .reading import read_targets
from .runs import N_EXAMPLES
from .tuning import Trained, as_examples

with requires_extra("models", needed_for="A blind guess"):
    import numpy as np
    import torch
    from torch import Tensor

_CONSTANTS = {
    "depth_l1_error": (pixelwise_median, "the pixel-wise median"),
    "normals_l1_error": (pixelwise_median, "the pixel-wise median of each component"),
    "normals_angular_error": (pixelwise_direction, "the pixel-wise direction with the least mean angle"),
}
"""What is guessed blindly for the lowest risk by a metric, and how to say it."""

_READ_AT_ONCE = 64  # maps


def blind_run(
    data: TransferData, preprocess: Preprocess, *, train: np.ndarray, memory_bytes: int, n_workers: int = 0
) -> Trained:
    """The constant with the lowest risk on the training images, tested; each metric has its own.

    Parameters
    ----------
    data : TransferData
    preprocess : Preprocess
        Of the encoders that it is compared with: maps are cropped as their images are.
    train : int64 array
        Images of ``data.train``, in any order.
    memory_bytes : int
        For their maps; if they take more, evenly spaced ones that fit stand for all, as the report says.
    n_workers : int
        Processes that read maps; with none, a thread does.

    Returns
    -------
    Trained
        ``examples`` is the constant of the first metric, as often as there are examples. The report says in words what
        each metric's constant is, and how many training images it is of.

    Raises
    ------
    DataError
        If there is no training image, their targets are all the same, or a map cannot be read.

    Examples
    --------
    >>> from zoo.cards import catalogue
    >>> from zoo.evaluation.curves.data import transfer_data
    >>> data = transfer_data("shapes:classes=4,train=40,val=20", "classification")
    >>> card = catalogue()["pocket_sup_rn_shapes"]
    >>> blind = blind_run(data, card.preprocess, train=np.arange(40), memory_bytes=1 << 20)
    >>> float(blind.risks["transfer_error"].mean())
    75.0
    """
    began = time.monotonic()
    train = np.sort(np.asarray(train, np.int64))
    if not len(train):
        raise DataError(f"There is no training image of {data.name!r} to guess blindly from; expected at least two.")
    if isinstance(data.train, MapSet):
        risks, examples, about = _of_maps(data, data.train, preprocess, train, memory_bytes, n_workers)
    else:
        labels = data.train.labels[train]
        guess = majority_class(labels, data.n_outputs)
        share = 100 * float(np.mean(labels == guess))
        metric = data.task.metrics[0]
        name = data.train.classes[guess]
        risks, examples = {metric: np.where(data.test.labels == guess, 0, 100).astype(np.float32)}, None  # type: ignore[union-attr]
        about = {
            "constants": {metric: f"the most frequent class, {name!r}, of {share:.3g} % of the training images"},
            "n_images": len(train),
        }
    seconds = time.monotonic() - began
    return Trained(risks=risks, examples=examples, report={**about, "n_train": len(train), "seconds": seconds})


def _of_maps(
    data: TransferData, part: MapSet, preprocess: Preprocess, train: np.ndarray, memory_bytes: int, n_workers: int
) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, Any]]:
    px, n_channels = preprocess.crop_px, int(data.task.n_channels or 1)
    n_fitting = max(1, memory_bytes // (px**2 * (4 * n_channels + 1)))
    chosen = train[np.linspace(0, len(train) - 1, min(n_fitting, len(train))).astype(np.int64)]
    maps = np.empty((len(chosen), n_channels, px, px), np.float32)
    valid = np.empty((len(chosen), px, px), bool)
    done = 0
    with closing(read_targets(part, chosen, preprocess, batch_size=_READ_AT_ONCE, n_workers=n_workers)) as batches:
        for target, seen in batches:
            maps[done : done + len(target)] = target.numpy()
            valid[done : done + len(target)] = True if seen is None else seen.numpy()
            done += len(target)
    constants = {metric: _CONSTANTS[metric][0](maps, valid).astype(np.float32) for metric in data.task.metrics}
    risks = _risks(data, constants, preprocess, n_workers)
    first = constants[data.task.metrics[0]]
    examples = as_examples(np.repeat(first[None], min(N_EXAMPLES, len(data.test)), axis=0))
    some = f"{len(chosen):,} evenly spaced of the {len(train):,}" if len(chosen) < len(train) else f"the {len(train):,}"
    words = {metric: f"{_CONSTANTS[metric][1]} of {some} training images" for metric in constants}
    return risks, examples, {"constants": words, "n_images": len(chosen)}


def _risks(
    data: TransferData, constants: dict[str, np.ndarray], preprocess: Preprocess, n_workers: int
) -> dict[str, np.ndarray]:
    found: dict[str, list[Tensor]] = {metric: [] for metric in constants}
    part: TransferSet = data.test
    everything = np.arange(len(part))
    with closing(read_targets(part, everything, preprocess, batch_size=_READ_AT_ONCE, n_workers=n_workers)) as batches:
        for target, valid in batches:
            for metric, constant in constants.items():
                prediction = torch.from_numpy(constant).expand(len(target), *constant.shape)
                found[metric].append(risks_of(data.task, prediction, target, valid, scale=Scale())[metric])
    return {metric: torch.cat(ones).numpy() for metric, ones in found.items()}
