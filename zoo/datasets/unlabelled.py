"""Images without labels, such as those that a probe is to classify: files, nested folders, or images in memory.

They become an image set whose labels are all 0 and mean nothing, so that they go through an encoder as others do.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..optional import requires_extra
from .endings import images_among
from .folders import entries_of
from .imagefiles import files_reading, read_image
from .images import ImageSet, LazyImages
from .rgb import WHITE, Scale, to_rgb

with requires_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image


def unlabelled_images(
    images: Iterable[Any],
    *,
    names: Sequence[str] | None = None,
    name: str = "images",
    scale: Scale | None = None,
    background: str = WHITE,
) -> ImageSet:
    """Images without labels as an image set.

    Parameters
    ----------
    images : iterable of PIL images, arrays (height, width[, 3]) or paths
    names : sequence of str, optional
        One an image, unique; by default paths, and numbers of images in memory.
    name : str
        Of the set, in messages.
    scale : (float, float), optional
        As for :func:`~zoo.datasets.open_images`, of images with more than 8 bits a channel.
    background : str
        As for :func:`~zoo.datasets.open_images`, of images with transparent parts.

    Raises
    ------
    DataError
        If one of them is none of these, two have the same name, or the values of one have no range.

    >>> found = unlabelled_images([np.zeros((4, 6), np.uint8)])
    >>> found[0][0].size, found.names
    ((6, 4), ['0'])
    """
    items = list(images)
    for number, item in enumerate(items):
        if not isinstance(item, Image.Image | np.ndarray | str | os.PathLike):
            raise DataError(f"Image {number} is a {type(item).__name__}; expected a PIL image, an array or a path.")
    own = [os.fspath(one) if isinstance(one, str | os.PathLike) else str(i) for i, one in enumerate(items)]
    found = ImageSet(
        name=name,
        split="all",
        images=LazyImages(_Reading(items, name, scale, background), np.arange(len(items))),
        labels=np.zeros(len(items), np.int64),
        classes=("not known",),
        names=own if names is None else list(names),
        fingerprint="",
    )
    files = [i for i, item in enumerate(items) if isinstance(item, str | os.PathLike)]
    reading = files_reading(
        [own[i] for i in files], [found.names[i] for i in files], image_set=name, scale=scale, background=background
    )
    return replace(found, reading=reading)


def image_files(folder: Path, left_out: Counter[str]) -> list[str]:
    """Paths of the images below a folder, at any depth, relative to it with / between, in the order of their names.

    Other files are added to ``left_out``.
    """
    found: list[str] = []
    waiting, seen = [("", folder)], set()
    while waiting:
        below, here = waiting.pop()
        place = os.stat(here)
        if (place.st_dev, place.st_ino) in seen:  # a link to a folder that is there already
            continue
        seen.add((place.st_dev, place.st_ino))
        folders, files = entries_of(here, left_out)
        found += [f"{below}{name}" for name in images_among((file.name for file in files), left_out)]
        waiting += [(f"{below}{inner.name}/", Path(inner.path)) for inner in folders]
    return sorted(found)


def joined(parts: Sequence[ImageSet]) -> ImageSet:
    """Several parts of one data set as one, whose names begin with the part if there are several."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    groups = [part.groups for part in parts if part.groups is not None]
    return ImageSet(
        name=first.name,
        split="all",
        images=LazyImages(_Joined(parts), np.arange(sum(map(len, parts)))),
        labels=np.concatenate([part.labels for part in parts]),
        classes=first.classes,
        names=[f"{part.split}/{name}" for part in parts for name in part.names],
        fingerprint="",
        groups=np.concatenate(groups) if len(groups) == len(parts) else None,
        tags=first.tags,
    )


class _Joined:
    """Reads the image of a number in several sets."""

    def __init__(self, parts: Sequence[ImageSet]) -> None:
        self.parts = parts

    def __call__(self, number: int) -> Image.Image:
        for part in self.parts:
            if number < len(part):
                return part.images[number]
            number -= len(part)
        raise IndexError(number)


class _Reading:
    """Reads the image of a number; a class so that worker processes can unpickle it."""

    def __init__(self, items: Sequence[Any], name: str, scale: Scale | None, background: str) -> None:
        self.items, self.name, self.scale, self.background = items, name, scale, background

    def __call__(self, number: int) -> Image.Image:
        item = self.items[number]
        if isinstance(item, str | os.PathLike):
            path = os.fspath(item)
            return read_image(path, image=path, image_set=self.name, scale=self.scale, background=self.background)
        return to_rgb(item, scale=self.scale, background=self.background)
