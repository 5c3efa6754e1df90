"""Images with maps of depth or normals, to which every source of maps is brought; maps of rendered images.

:func:`aligned` brings a map to the pixels of an encoder's input.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..cards.schema import Preprocess
from ..errors import DataError, UnknownName
from ..optional import requires_extra
from .images import ImageData, ImageSet, LazyItems, digest, require_two_parts
from .rendering import Renderer, cached_array, geometry_of, rendered

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import functional

CHANNELS = {"depth": 1, "normals": 3}
"""Tasks that have maps, and the numbers at a pixel of each."""

CLASS = "image"
"""The one class of images that have maps in place of labels."""

GEOMETRY = "shapes-maps-1"
"""Name of the way from a scene to maps; part of the fingerprint, and new whenever a value would change."""

_RENDERED_UNITS = {"depth": "half widths of the image", "normals": "unit vectors"}


class Maps(LazyItems[tuple[np.ndarray, np.ndarray]]):
    """Maps that are read or computed each time they are asked for; indexing gives ``(values, valid)``.

    Attributes
    ----------
    read : callable
        From a number to ``values``, float32 (height, width, channels), 0 where not valid, and ``valid``, bool (height,
        width); neither is to be written to. Workers of a loader get a pickled copy, as of
        :class:`~zoo.datasets.LazyImages`.
    indices : int64 array, shape (n,)
        The number that ``read`` takes for each map.
    """


@dataclass(frozen=True, eq=False)
class MapSet:
    """Images of one split with a map each.

    Attributes
    ----------
    images : ImageSet
        All of the one class :data:`CLASS`.
    maps : Maps
        As many, in the same order, each of the height and width of its image.
    task : str
        "depth" (1 channel) or "normals" (3: unit vectors).
    unit : str
        Of the values, in words.
    fingerprint : str
        Hex. Two sets with the same fingerprint have the same images and maps; the function that makes a set says how
        they enter it.

    Raises
    ------
    DataError
        If there are not as many maps as images.
    UnknownName
        If no such task has maps.
    """

    images: ImageSet
    maps: Maps
    task: str
    unit: str
    fingerprint: str

    def __post_init__(self) -> None:
        checked_task(self.task)
        if len(self.images) != len(self.maps):
            raise DataError(
                f"The image set {self.name!r} has {len(self.images):,} images and {len(self.maps):,} maps of "
                f"{self.task}; expected a map an image."
            )

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.images.name

    @property
    def split(self) -> str:
        """Of its part: "train", "val", ..."""
        return self.images.split

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, indices: np.ndarray | Sequence[int], *, split: str) -> MapSet:
        """Some of the images with their maps, in the order of ``indices``.

        The whole set in its order keeps its fingerprint; any other subset has one of this set's and the indices.

        Raises
        ------
        DataError
            If an index is not between 0 and n - 1, or comes twice.
        """
        images = self.images.subset(indices, split=split)
        chosen = np.asarray(indices).astype(np.int64)
        whole = np.array_equal(chosen, np.arange(len(self)))
        return MapSet(
            images=images,
            maps=Maps(self.maps.read, self.maps.indices[chosen]),
            task=self.task,
            unit=self.unit,
            fingerprint=self.fingerprint if whole else digest(["subset", self.fingerprint, chosen.astype("<i8")]),
        )


@dataclass(frozen=True)
class DenseData:
    """A data set of a dense task: train on ``train``, test on ``val``.

    Raises
    ------
    DataError
        If a part is empty, both are the same, or they are not of one task and unit.
    """

    name: str
    task: str
    train: MapSet
    val: MapSet
    is_split_here: bool = False  # by the zoo, and not by the source of the images

    def __post_init__(self) -> None:
        require_two_parts(self.name, self.train, self.val, learner="a decoder")
        for part in (self.train, self.val):
            if part.task != self.task or part.unit != self.train.unit:
                raise DataError(
                    f"The part {part.split!r} of {self.name!r} has maps of {part.task}, {part.unit}; expected "
                    f"{self.task}, {self.train.unit}, in both parts."
                )


def checked_task(task: str) -> str:
    """The name of a task, if it has maps.

    >>> checked_task("depth")
    'depth'
    """
    if task not in CHANNELS:
        raise UnknownName("task with maps", task, CHANNELS, hint=f"Expected {' or '.join(CHANNELS)}.")
    return task


@dataclass(frozen=True)
class RenderedMaps:
    """Computes the maps of one rendered split by the numbers of its images."""

    renderer: Renderer
    task: str

    def __call__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Float32 (size_px, size_px, channels) and bool (size_px, size_px), all true; read-only."""
        values = cached_array(_computed, (self, number), lambda: self._values(number))
        return values, np.ones(values.shape[:2], bool)

    def _values(self, number: int) -> np.ndarray:
        exact = geometry_of(self.renderer.scene(number), self.renderer.size_px)
        return exact.depth[:, :, None] if self.task == "depth" else exact.normals


_computed: dict[Hashable, np.ndarray] = {}


def with_geometry(data: ImageData, *, task: str) -> DenseData:
    """Images of :func:`zoo.datasets.shapes` with the depth or the normals at each pixel, all of them valid.

    Depth is the distance from the plane of the camera in half widths of the image; normals have x to the right, y
    upwards and z towards the camera. The fingerprint of a part is of that of its images, the task and the version of
    the geometry.

    >>> from zoo.datasets import shapes
    >>> values, valid = with_geometry(shapes(train=20, val=20), task="normals").train.maps[3]
    >>> values.shape, bool(valid.all())
    ((32, 32, 3), True)
    """
    checked_task(task)
    train, val = _rendered_map_set(data.train, task), _rendered_map_set(data.val, task)
    return DenseData(name=data.name, task=task, train=train, val=val)


def _rendered_map_set(images: ImageSet, task: str) -> MapSet:
    renderer, numbers = rendered(images)
    unlabelled = replace(
        images,
        labels=np.zeros(len(images), np.int64),
        classes=(CLASS,),
        fingerprint=digest(["unlabelled", images.fingerprint]),
    )
    return MapSet(
        images=unlabelled,
        maps=Maps(RenderedMaps(renderer, task), numbers),
        task=task,
        unit=_RENDERED_UNITS[task],
        fingerprint=digest([GEOMETRY, task, images.fingerprint]),
    )


def aligned(values: np.ndarray, valid: np.ndarray, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    """A map on the grid of an encoder's input: values float32 (channels, crop_px, crop_px), valid pixels bool.

    ``values`` (height, width, channels) and ``valid`` (height, width) go through the geometry of
    :func:`zoo.encoders.preprocess.build_preprocess`: the shorter side, or both, become ``resize_px``, the centre is
    cropped, and what is smaller than the crop is padded. Each pixel takes the value of the map's pixel that its centre
    falls into, none is blended: directions keep their length, and no depth lies between an object and what is behind
    it. Values are 0 where not valid, as in the padding.

    >>> ramp, everywhere = np.arange(8.0).reshape(2, 4, 1), np.ones((2, 4), bool)
    >>> about = Preprocess(resize_px=2, crop_px=2, interpolation="bilinear", mean=(0, 0, 0), std=(1, 1, 1))
    >>> aligned(ramp, everywhere, about)[0].tolist()
    [[[1.0, 2.0], [5.0, 6.0]]]
    """
    if values.ndim != 3 or valid.shape != values.shape[:2] or valid.dtype != np.bool_:
        raise DataError(
            f"A map has values of shape {values.shape} and valid pixels as {valid.dtype} of shape {valid.shape}; "
            "expected (height, width, channels) and bool (height, width)."
        )
    height, width, n_channels = values.shape
    about = preprocess.resize_px, preprocess.crop_px, preprocess.fit == "squash"
    source = _source_pixels(height, width, *about)  # (px, px)
    valid_there = valid.reshape(-1)[source] & (source >= 0)
    moved = values.reshape(-1, n_channels)[source].astype(np.float32)  # (px, px, c)
    moved[~valid_there] = 0
    return np.ascontiguousarray(moved.transpose(2, 0, 1)), valid_there


@lru_cache(maxsize=16)
def _source_pixels(height: int, width: int, resize_px: int, crop_px: int, is_squashed: bool) -> np.ndarray:
    """The number of the map's pixel for each pixel of the input, int64 (crop_px, crop_px); -1 in the padding.

    Torchvision resizes a row and a column of numbers from 1 on, so that the rounding is the same as that of images.
    """
    short, long = min(height, width), max(height, width)
    longer_px = resize_px if is_squashed else int(resize_px * long / short)  # as torchvision rounds it
    resized = {long: longer_px, short: resize_px}  # px of each side

    def moved(side: int) -> np.ndarray:
        numbers = Image.fromarray(np.arange(1, side + 1, dtype=np.int32)[:, None])
        column = functional.resize(numbers, [resized[side], 1], transforms.InterpolationMode.NEAREST_EXACT)
        return np.asarray(functional.center_crop(column, [crop_px, 1]))[:, 0].astype(np.int64) - 1  # padded with 0

    rows, columns = moved(height)[:, None], moved(width)[None, :]
    source = np.where((rows >= 0) & (columns >= 0), rows * width + columns, -1)
    source.setflags(write=False)
    return source
