"""Images with maps of depth or normals from one text, whatever their source."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import DataError, UnknownName
from ..optional import requires_extra
from .dense_folders import dense_folder_data
from .images import ImageData, ImageSet, LazyImages, digest
from .maps import CLASS, DenseData, Maps, MapSet, aligned, checked_task
from .opening import VAL_SHARE, open_images, require_use
from .rgb import Scale
from .shapes import Renderer, geometry_of

with requires_extra("models", needed_for="Rendering images"):
    import numpy as np

GEOMETRY = "shapes-maps-1"
"""Name of the way from a scene to maps; part of the fingerprint, and new whenever a value would change."""

KEPT_BYTES = 1 << 27
"""Of computed maps that stay in memory, for the next training that looks at them."""

UNITS = {"depth": "half widths of the image", "normals": "unit vectors"}


@dataclass(frozen=True)
class RenderedMaps:
    """Computes the maps of one split by the numbers of its images."""

    renderer: Renderer
    task: str

    def __call__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Float32 (size_px, size_px, channels) and bool (size_px, size_px), all true; not to be written to."""
        known = _computed.get((self, number))
        if known is None:
            known = self._values(number)
            known.setflags(write=False)
            if (len(_computed) + 1) * known.nbytes <= KEPT_BYTES:
                _computed[self, number] = known
        return known, np.ones(known.shape[:2], bool)

    def _values(self, number: int) -> np.ndarray:
        found = geometry_of(self.renderer.scene(number), self.renderer.size_px)
        return found.depth[:, :, None] if self.task == "depth" else found.normals


_computed: dict[tuple[RenderedMaps, int], np.ndarray] = {}  # the same whoever asks, so that nobody sees that it is kept


def with_geometry(data: ImageData, *, task: str) -> DenseData:
    """The rendered set with the depth or the normals at each pixel, all of them valid.

    Parameters
    ----------
    data : ImageData
        Of :func:`zoo.datasets.shapes`.
    task : str
        "depth": distance from the plane of the camera in half widths of the image; "normals": x to the right, y
        upwards, z towards the camera.

    Returns
    -------
    DenseData
        The fingerprint of a part is of that of its images, the task and the version of the geometry.

    Raises
    ------
    DataError
        If the images are not rendered ones.

    >>> from zoo.datasets import shapes
    >>> values, valid = with_geometry(shapes(train=20, val=20), task="normals").train.maps[3]
    >>> values.shape, bool(valid.all())
    ((32, 32, 3), True)
    """
    checked_task(task)
    parts = {part.split: _map_set(part, task) for part in (data.train, data.val)}
    return DenseData(name=data.name, task=task, train=parts[data.train.split], val=parts[data.val.split])


def _map_set(images: ImageSet, task: str) -> MapSet:
    lazy = images.images
    if not isinstance(lazy, LazyImages) or not isinstance(lazy.read, Renderer):
        raise DataError(
            f"Maps of {task} of {images.name!r} were asked for, and only the rendered set 'shapes' computes them; "
            "expected images of zoo.datasets.shapes."
        )
    unlabelled = replace(
        images,
        labels=np.zeros(len(images), np.int64),
        classes=(CLASS,),
        fingerprint=digest(["unlabelled", images.fingerprint]),
    )
    return MapSet(
        images=unlabelled,
        maps=Maps(RenderedMaps(lazy.read, task), lazy.indices),
        task=task,
        unit=UNITS[task],
        fingerprint=digest([GEOMETRY, task, images.fingerprint]),
    )


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
