"""What every source of maps becomes: images of one split with a map of depth or normals each, and two such sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..cards.schema import Preprocess
from ..errors import DataError, UnknownName
from ..optional import requires_extra
from .images import ImageSet, digest

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import functional

CHANNELS = {"depth": 1, "normals": 3}
"""Tasks that have maps, and the numbers at a pixel of each."""

CLASS = "image"
"""The one class of images that have maps in place of labels."""


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps that are read or computed each time they are asked for; indexing gives ``(values, valid)``.

    Attributes
    ----------
    read : callable
        From a number to ``values``, float32 (height, width, channels), 0 where not valid, and ``valid``, bool (height,
        width); neither is to be written to. Workers of a loader get a pickled copy, as of
        :class:`~zoo.datasets.LazyImages`.
    indices : int64 array, shape (n,)
        The number that ``read`` wants for each map.
    """

    read: Callable[[int], tuple[np.ndarray, np.ndarray]]
    indices: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.read(int(self.indices[index]))

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return map(self.read, self.indices.tolist())


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
        Hex. Two sets with the same fingerprint have the same images and maps; how they enter it is said where the set
        is made.

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
        for part in (self.train, self.val):
            if not len(part):
                raise DataError(
                    f"The part {part.split!r} of {self.name!r} holds no image; expected some in both parts."
                )
            if part.task != self.task or part.unit != self.train.unit:
                raise DataError(
                    f"The part {part.split!r} of {self.name!r} has maps of {part.task}, {part.unit}; expected "
                    f"{self.task}, {self.train.unit}, in both parts."
                )
        if self.train.fingerprint == self.val.fingerprint:
            raise DataError(
                f"The two parts of {self.name!r} are the same {len(self.train):,} images; a decoder must be tested on "
                "images that it was not trained on: give it two different parts."
            )


def checked_task(task: str) -> str:
    """The name of a task, if it has maps.

    Raises
    ------
    UnknownName
        If it has none; lists those that have.

    >>> checked_task("depth")
    'depth'
    """
    if task not in CHANNELS:
        raise UnknownName("task with maps", task, CHANNELS, hint=f"Expected {' or '.join(CHANNELS)}.")
    return task


def aligned(values: np.ndarray, valid: np.ndarray, preprocess: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    """A map on the grid of an encoder's input.

    The geometry is that of :func:`zoo.encoders.preprocess.build_preprocess`: the shorter side becomes ``resize_px``,
    the centre is cropped, and what is smaller than the crop is padded. Each pixel takes the value of the map's pixel
    that its centre falls into, none is blended: directions keep their length, and no depth lies between an object and
    what is behind it.

    Parameters
    ----------
    values : float array, shape (height, width, channels)
    valid : bool array, shape (height, width)
    preprocess : Preprocess
        ``card.preprocess`` of the encoder.

    Returns
    -------
    values : float32 array, shape (channels, crop_px, crop_px)
        0 where not valid.
    valid : bool array, shape (crop_px, crop_px)
        False in the padding, too.

    Raises
    ------
    DataError
        If the shapes do not fit each other.

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
    taken = _taken(height, width, preprocess.resize_px, preprocess.crop_px)  # (px, px)
    found_valid = valid.reshape(-1)[taken] & (taken >= 0)
    found = values.reshape(-1, n_channels)[taken].astype(np.float32)  # (px, px, c)
    found[~found_valid] = 0
    return np.ascontiguousarray(found.transpose(2, 0, 1)), found_valid


@lru_cache(maxsize=16)
def _taken(height: int, width: int, resize_px: int, crop_px: int) -> np.ndarray:
    """The number of the map's pixel for each pixel of the input, int64 (crop_px, crop_px); -1 in the padding.

    Torchvision moves a row and a column whose pixels are their own numbers from 1 on, so that its rounding is ours.
    """
    short, long = min(height, width), max(height, width)
    resized = {long: int(resize_px * long / short), short: resize_px}  # px of each side, as torchvision rounds it

    def moved(side: int) -> np.ndarray:
        numbers = Image.fromarray(np.arange(1, side + 1, dtype=np.int32)[:, None])
        column = functional.resize(numbers, [resized[side], 1], transforms.InterpolationMode.NEAREST_EXACT)
        return np.asarray(functional.center_crop(column, [crop_px, 1]))[:, 0].astype(np.int64) - 1  # padded with 0

    rows, columns = moved(height)[:, None], moved(width)[None, :]
    taken = np.where((rows >= 0) & (columns >= 0), rows * width + columns, -1)
    taken.setflags(write=False)
    return taken
