"""What every source of images becomes: labelled images of one split, and a training and a validation set together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import overload

from ..errors import DataError
from ..optional import requires_extra
from .contents import contents_of_pixels
from .imagefiles import RULES, Reading

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

with requires_extra("models", needed_for="Working with images"):
    from PIL import Image


class LazyImages(Sequence[Image.Image]):
    """Images that are decoded each time they are asked for.

    Attributes
    ----------
    read : callable
        From a number to a PIL image. Workers of a loader get a pickled copy, so that it is a function of a module, a
        ``functools.partial`` of one, or an object of a class of a module.
    indices : int64 array, shape (n,)
        The number that ``read`` wants for each image.
    """

    def __init__(self, read: Callable[[int], Image.Image], indices: np.ndarray) -> None:
        self.read = read
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Image.Image: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Image.Image]: ...
    def __getitem__(self, index: int | slice) -> Image.Image | Sequence[Image.Image]:
        if isinstance(index, slice):
            return LazyImages(self.read, self.indices[index])
        return self.read(int(self.indices[index]))


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one split; indexing gives ``(PIL image, label)`` as torch's loaders expect.

    Attributes
    ----------
    name, split : str
        Of the data set, and of its part: "train", "val", ...
    images : sequence of PIL images
        n images of any mode and size; may decode when asked, and then raises :class:`~zoo.errors.CorruptImage`.
    labels : int64 array, shape (n,)
        Numbers of classes.
    classes : tuple of str
        Names of the classes, in the order of their numbers.
    names : sequence of str
        One an image, unique: its path below the folder of the set, or its number.
    fingerprint : str
        Hex. Two sets with the same fingerprint have the same images, names, labels and classes; how an image enters it
        is said where the set is made.
    reading : Reading
        Which images are turned or scaled when they are read.
    contents : uint64 array, shape (n,), or None
        A hash of what is in each image, as :mod:`zoo.datasets.contents` has it; copies have the same one. None where
        images are made rather than read, or their source does not show what is in them without decoding them.

    Raises
    ------
    DataError
        If these do not fit each other.
    """

    name: str
    split: str
    images: Sequence[Image.Image]
    labels: np.ndarray
    classes: tuple[str, ...]
    names: Sequence[str]
    fingerprint: str
    reading: Reading = field(default_factory=Reading)
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.images)
        for what, found in (("labels", self.labels), ("names", self.names), ("contents", self.contents)):
            if found is not None and len(found) != n:
                raise DataError(
                    f"The image set {self.name!r} has {n:,} images and {len(found):,} {what}; "
                    f"expected one of its {what} an image."
                )
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise DataError(
                f"The image set {self.name!r} has labels as {self.labels.dtype} of shape {self.labels.shape}; "
                f"expected int64 of shape ({n},)."
            )
        wrong = np.flatnonzero((self.labels < 0) | (self.labels >= len(self.classes)))
        if wrong.size:
            raise DataError(
                f"{wrong.size:,} of {n:,} images of {self.name!r} have no label of its {len(self.classes)} classes, "
                f"the first is {self.names[wrong[0]]!r} with {self.labels[wrong[0]]}; expected 0 to "
                f"{len(self.classes) - 1}."
            )
        if len(set(self.names)) != n:
            raise DataError(f"Two images of the set {self.name!r} have the same name; expected a name of its own each.")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return self.images[index], int(self.labels[index])

    def n_per_class(self) -> np.ndarray:
        """How many images each class has, int64 (n_classes,)."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    def subset(self, indices: np.ndarray | Sequence[int], *, split: str) -> ImageSet:
        """Some of the images, in the order of ``indices``; the classes and their numbers stay.

        The whole set in its order keeps its fingerprint; any other subset has one of this set's and the indices.

        Raises
        ------
        DataError
            If an index is not between 0 and n - 1, or comes twice.
        """
        chosen = np.asarray(indices)
        n = len(self)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise DataError(
                f"A subset of {self.name!r} was asked for by {chosen.dtype} of shape {chosen.shape}; "
                "expected a list of whole numbers."
            )
        chosen = chosen.astype(np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= n):
            raise DataError(
                f"A subset of {self.name!r} asks for the images {chosen.min()} to {chosen.max()}; expected 0 to "
                f"{n - 1}."
            )
        if len(np.unique(chosen)) != len(chosen):
            raise DataError(f"A subset of {self.name!r} asks for an image twice; expected each at most once.")
        whole = np.array_equal(chosen, np.arange(n))
        names = [self.names[index] for index in chosen.tolist()]
        return ImageSet(
            name=self.name,
            split=split,
            images=_chosen_images(self.images, chosen),
            labels=self.labels[chosen],
            classes=self.classes,
            names=names,
            fingerprint=self.fingerprint if whole else digest(["subset", self.fingerprint, chosen.astype("<i8")]),
            reading=self.reading.of(names),
            contents=None if self.contents is None else self.contents[chosen],
        )


@dataclass(frozen=True)
class ImageData:
    """A data set for probing: train on ``train``, test on ``val``. Both have the same classes, in the same order."""

    name: str
    train: ImageSet
    val: ImageSet
    is_split_here: bool = False  # by the zoo, and not by the source of the images

    def __post_init__(self) -> None:
        if self.train.classes != self.val.classes:
            odd = sorted(set(self.train.classes) ^ set(self.val.classes)) or ["the order"]
            raise DataError(
                f"The two parts of {self.name!r} do not have the same classes: {self.train.split!r} has "
                f"{len(self.train.classes)}, {self.val.split!r} has {len(self.val.classes)}, and they differ in "
                f"{', '.join(map(repr, odd[:5]))}; expected the same in both."
            )
        for part in (self.train, self.val):
            if not len(part):
                raise DataError(
                    f"The part {part.split!r} of {self.name!r} holds no image; expected some in both parts."
                )
        n_present = int((self.train.n_per_class() > 0).sum())
        if n_present < 2:
            raise DataError(
                f"All {len(self.train):,} training images of {self.name!r} have the same label, "
                f"{self.train.classes[self.train.labels[0]]!r}; expected two classes or more."
            )
        if self.train.fingerprint == self.val.fingerprint:
            raise DataError(
                f"The two parts of {self.name!r} are the same {len(self.train):,} images; a probe must be tested on "
                "images that it was not trained on: give it two different parts."
            )


def array_images(
    pixels: np.ndarray,
    labels: np.ndarray,
    *,
    name: str,
    split: str,
    classes: Sequence[str],
    names: Sequence[str] | None = None,
) -> ImageSet:
    """An image set of an array; its fingerprint is over every pixel.

    Parameters
    ----------
    pixels : uint8 array, shape (n, height, width) or (n, height, width, 3)
        Grey or RGB.
    labels : int64 array, shape (n,)
    names : sequence of str, optional
        By default the numbers of the images.

    >>> images = array_images(np.zeros((2, 4, 4), np.uint8), np.array([0, 1]), name="black", split="all", classes="ab")
    >>> images[1][0].size, images[1][1], images.names
    ((4, 4), 1, ('0', '1'))
    """
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or (pixels.ndim == 4 and pixels.shape[3] != 3):
        raise DataError(
            f"The pixels of {name!r} are {pixels.dtype} of shape {pixels.shape}; expected uint8 of shape "
            "(n, height, width) or (n, height, width, 3)."
        )
    given = tuple(map(str, range(len(pixels)))) if names is None else tuple(names)
    return ImageSet(
        name=name,
        split=split,
        images=LazyImages(partial(_image_of_array, pixels), np.arange(len(pixels))),
        labels=labels,
        classes=tuple(classes),
        names=given,
        fingerprint=digest(["array", *classes, *given, labels.astype("<i8"), str(pixels.shape), pixels]),
        contents=contents_of_pixels(pixels),
    )


def pixels_of(images: ImageSet) -> np.ndarray:
    """All pixels of a set whose images have one size and mode, uint8 (n, height, width[, channels]).

    Raises
    ------
    DataError
        If an image has another size, mode or depth; names it.
    """
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image, so that it has no pixels.")
    first = np.asarray(images.images[0])
    stacked = np.empty((len(images), *first.shape), np.uint8)  # (n, h, w[, c])
    for i, image in enumerate(images.images):
        found = np.asarray(image)
        if found.shape != first.shape or found.dtype != np.uint8:
            raise DataError(
                f"The image {images.names[i]!r} of {images.name!r} is {found.dtype} of shape {found.shape}; expected "
                f"uint8 of shape {first.shape}, as the first: preprocess them to one size first."
            )
        stacked[i] = found
    return stacked


def digest(parts: Iterable[str | np.ndarray]) -> str:
    """Hex hash of texts and arrays in their order; no two different lists of parts run into each other."""
    found = blake2b(digest_size=16)
    for part in parts:
        content = memoryview(part.encode("utf-8", "surrogateescape")) if isinstance(part, str) else _octets(part)
        found.update(content.nbytes.to_bytes(8, "little"))
        found.update(content)
    return found.hexdigest()


def fingerprint_of(parts: Iterable[str | np.ndarray], reading: Reading) -> str:
    """The hash of what a source says of its images, and of how they are read where files alone do not decide that."""
    found, facts = digest(parts), reading.facts()
    return digest([RULES, found, *facts, *facts.values()]) if facts else found


def _octets(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _chosen_images(images: Sequence[Image.Image], chosen: np.ndarray) -> LazyImages:
    if isinstance(images, LazyImages):  # not a chain of subsets: what reads stays reachable
        return LazyImages(images.read, images.indices[chosen])
    return LazyImages(images.__getitem__, chosen)


def _image_of_array(pixels: np.ndarray, index: int) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels[index]))
