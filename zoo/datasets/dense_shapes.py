"""The rendered image set with its exact depth or normals."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import DataError
from ..optional import requires_extra
from .imagesets import ImageData, ImageSet, LazyImages, digest
from .maps import CLASS, DenseData, Maps, MapSet, checked_task
from .rendering import geometry_of
from .shapes import Renderer

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
