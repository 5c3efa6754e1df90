"""Rendered image sets: coloured textured solids, as many images as wanted, with exact depth and normals.

A class is a shape with a texture. Colours, size, place, rotation, background, light, a bar in front and noise are drawn
for each image whatever its class. An image depends only on the seed, the split, its number and its class; images take
the classes in turn, so that any first part of a set is balanced, and a longer set begins with the shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DataError
from ..optional import requires_extra
from .draws import checked_seed
from .imagesets import ImageData, ImageSet, LazyImages, digest
from .rendering import Geometry, geometry_of, render
from .scenes import CLASSES, Scene, draw_scene

with requires_extra("models", needed_for="Rendering images"):
    import numpy as np

with requires_extra("models", needed_for="Working with images"):
    from PIL import Image

RENDERING = "shapes-1"
"""Name of the way from a seed to pixels; part of the fingerprint, and new whenever a pixel would change."""

_SPLITS = {"train": 0, "val": 1}
_SIZES_PX = range(8, 1025)


KEPT_BYTES = 1 << 27
"""Of rendered images that stay in memory, for the next encoder that looks at them; 40,000 of 32 px."""


@dataclass(frozen=True)
class Renderer:
    """Renders the images of one split by their numbers."""

    seed: int
    split: str
    n_classes: int
    size_px: int

    def __call__(self, number: int) -> Image.Image:
        return Image.fromarray(self.pixels(number))

    def pixels(self, number: int) -> np.ndarray:
        """Uint8 (size_px, size_px, 3), not to be written to."""
        known = _rendered.get((self, number))
        if known is not None:
            return known
        pixels = render(self.scene(number), self.size_px)
        pixels.setflags(write=False)
        if (len(_rendered) + 1) * pixels.nbytes <= KEPT_BYTES:
            _rendered[self, number] = pixels
        return pixels

    def scene(self, number: int) -> Scene:
        return draw_scene(number % self.n_classes, (self.seed, _SPLITS[self.split], number, 0))


_rendered: dict[tuple[Renderer, int], np.ndarray] = {}  # the same whoever asks, so that nobody sees that it is kept


def shapes(*, classes: int = 20, train: int = 5_000, val: int = 1_000, size_px: int = 32, seed: int = 0) -> ImageData:
    """The rendered image set.

    Parameters
    ----------
    classes : int
        Between 2 and 60; the classes of a smaller set are the first of a larger one.
    train, val : int
        Images in each split, in all; at least one a class. The same numbers in the two splits are different images.
    size_px : int
        Height and width, 8 to 1,024; the scenes do not depend on it. A person tells all classes apart from 64 px on.
    seed : int
        Another seed gives other images of the same classes.

    Returns
    -------
    ImageData
        RGB images, rendered each time they are asked for; :func:`zoo.datasets.pixels_of` renders all into one array.
        The fingerprint is of the recipe (this renderer's version, seed, split, classes, count, size), not of the
        pixels, which may differ by one level of 255 between processors.

    Raises
    ------
    DataError
        If one of these is out of range.

    >>> data = shapes(classes=20, train=40, val=20, size_px=16)
    >>> data.train.classes[:2], len(data.val), data.train[0][0].size
    (('stripes sphere', 'stripes cube'), 20, (16, 16))
    """
    checked_seed(seed)
    for what, value, allowed in (("classes", classes, range(2, len(CLASSES) + 1)), ("size_px", size_px, _SIZES_PX)):
        if value not in allowed:
            raise DataError(
                f"The rendered image set was asked for with {what}={value!r}; expected between {allowed[0]:,} and "
                f"{allowed[-1]:,}."
            )
    for split, n in (("train", train), ("val", val)):
        if isinstance(n, bool) or not isinstance(n, int) or n < classes:
            raise DataError(
                f"The rendered image set was asked for with {split}={n!r} images of {classes} classes; expected at "
                f"least one a class, {split}={classes} or more."
            )
    parts = {split: _image_set(Renderer(int(seed), split, classes, size_px), n) for split, n in
             (("train", train), ("val", val))}  # fmt: skip
    return ImageData(name=parts["train"].name, train=parts["train"], val=parts["val"])


def geometry(images: ImageSet, index: int) -> Geometry:
    """Exact depth and surface normals of an image of the rendered set, or of a subset of it.

    Parameters
    ----------
    images : ImageSet
        From :func:`shapes`.
    index : int
        Of the image in ``images``.

    Returns
    -------
    Geometry
        ``depth`` float32 (size_px, size_px) in half widths of the image, ``normals`` float32 (size_px, size_px, 3),
        ``layer`` uint8 (size_px, size_px).

    Raises
    ------
    DataError
        If the images are not rendered ones.

    >>> geometry(shapes(train=20, val=20).train, 3).normals.shape
    (32, 32, 3)
    """
    read = images.images.read if isinstance(images.images, LazyImages) else None
    if not isinstance(read, Renderer) or not isinstance(images.images, LazyImages):
        raise DataError(
            f"Depth and normals of {images.name!r} were asked for, and only the rendered set 'shapes' knows them; "
            "expected images of zoo.datasets.shapes."
        )
    return geometry_of(read.scene(int(images.images.indices[index])), read.size_px)


def _set_name(renderer: Renderer) -> str:
    """Other classes or another size make another data set, with its own name in results; another seed does not."""
    if (renderer.n_classes, renderer.size_px) == (20, 32):
        return "shapes"
    return f"shapes-{renderer.n_classes}-classes-{renderer.size_px}px"


def _image_set(renderer: Renderer, n: int) -> ImageSet:
    numbers = np.arange(n)
    recipe = [RENDERING, str(renderer.seed), renderer.split, str(renderer.n_classes), str(n), str(renderer.size_px)]
    return ImageSet(
        name=_set_name(renderer),
        split=renderer.split,
        images=LazyImages(renderer, numbers),
        labels=(numbers % renderer.n_classes).astype(np.int64),
        classes=CLASSES[: renderer.n_classes],
        names=[f"{renderer.split}/{number}" for number in numbers.tolist()],
        fingerprint=digest(recipe),
    )
