"""Images with maps of depth or normals from one text, whatever their source."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UnknownName
from ..rgb import Scale
from .alignment import aligned
from .dense_folders import dense_folder_data
from .dense_shapes import with_geometry
from .maps import DenseData, Maps, MapSet, checked_task
from .opening import VAL_SHARE, open_images, require_use

__all__ = ["DENSE_KINDS", "DenseData", "MapSet", "Maps", "aligned", "open_dense"]

DENSE_KINDS = {
    "shapes": "rendered images with exact depth and normals; shapes:classes=20,train=5000,val=1000,size_px=32,seed=0",
    "FOLDER": "images/ (or rgb/) beside depth/ (or depth_zbuffer/, depth_euclidean/) or normals/ (or normal/), below "
    "train/ and val/, or split by hash; maps as png, npy or npz",
}
"""What :func:`open_dense` takes, and what it is."""

_WITHOUT_MAPS = ("digits", "torchvision", "huggingface")  # of open_images; a folder of that name is "./NAME" here, too


def open_dense(
    spec: str | os.PathLike[str],
    *,
    task: str,
    name: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    scale: Scale | None = None,
) -> DenseData:
    """A training and a validation set of images with a map each.

    Parameters
    ----------
    spec : str or path
        One of :data:`DENSE_KINDS`. A folder that has the name of another kind is given as "./NAME".
    task : str
        "depth" or "normals".
    name : str, optional
        Of the data set, as it goes into results; by default that of the kind or the folder.
    val_share : float, optional
        Share of the images of a folder for validation where it has no train/: 0.2.
    seed : int
        Of that split; the rendered set has its own.
    scale : (float, float), optional
        Of images with more than 8 bits a channel, as for :func:`zoo.datasets.open_images`; maps stay as they are.

    Raises
    ------
    UnknownName
        If it is none of them, or the task has no maps; lists what would be.
    QueryError
        If it is one of them, wrongly written, or no image has a use for the scale.
    DataError
        If the images or maps are not what a decoder needs; says what and where.

    >>> data = open_dense("shapes:classes=4,train=8,val=4,size_px=16", task="depth")
    >>> values, valid = data.train.maps[0]
    >>> len(data.train), data.train.unit, values.shape, int(valid.sum())
    (8, 'half widths of the image', (16, 16, 1), 256)
    """
    checked_task(task)
    text = os.fspath(spec)
    kind = text.partition(":")[0]
    if kind == "shapes":
        return with_geometry(open_images(text, name=name, scale=scale), task=task)
    if kind in _WITHOUT_MAPS or not os.path.isdir(text):
        known = "; ".join(f"{key} ({meaning})" for key, meaning in DENSE_KINDS.items())
        raise UnknownName(f"image set with maps of {task}", text, ("shapes",), hint=f"Expected {known}.")
    folder = Path(text)
    share = VAL_SHARE if val_share is None else val_share
    own = name or folder.resolve().name or "images"  # the root of a disk has no name
    data = dense_folder_data(folder, task=task, name=own, val_share=share, seed=seed, scale=scale)
    if scale is not None:
        require_use([data.train.images, data.val.images], scale)
    return data
