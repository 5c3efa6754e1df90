"""One set of images as two: by the hash of each name, or stratified by class.

Copies of an image are on one side, that of the first of them in the order of the set.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from ..errors import DataError
from ..optional import requires_extra
from .contents import beside_the_first
from .draws import checked_seed, raw_draws
from .imagesets import ImageData, ImageSet
from .subsets import lowest_of_each

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

_STREAM = 7_002  # keeps the split apart from the subsets of the same seed


def hash_split(images: ImageSet, *, val_share: float, seed: int) -> ImageData:
    """Each image goes by its name alone, so that images which are added or removed move no other.

    An image is in "val" if the first 8 bytes of BLAKE2b of "SEED/NAME", as a number from 0 to 1, are below
    ``val_share``. Copies go by the name of the first of them.

    Raises
    ------
    DataError
        If the share is not between 0 and 1, or a class is left without an image to train on.
    """
    _require_share(images, val_share)
    return _halves(images, in_val_by_name(images, val_share=val_share, seed=seed))


def in_val_by_name(images: ImageSet, *, val_share: float, seed: int) -> np.ndarray:
    """Which images the rule of :func:`hash_split` tests on, bool (n,).

    Images that are all copies of each other, so that no part would be left without one, go by their own names.
    """
    limit = round(val_share * 2**64)
    prefix = f"{checked_seed(seed)}/"
    by_name = np.array([_hash(prefix + name) < limit for name in images.names], bool)
    together = beside_the_first(by_name, images.contents)
    return by_name if together.all() or not together.any() else together


def stratified_split(images: ImageSet, *, val_share: float, seed: int) -> ImageData:
    """The same share of each class, rounded to the nearest, and at least one image of each class on both sides.

    Where copies leave no other way, a class has fewer images to test on, or none.

    Raises
    ------
    DataError
        If the share is not between 0 and 1, or a class has fewer than two images.
    """
    _require_share(images, val_share)
    counts = images.n_per_class()
    present = np.flatnonzero(counts)
    wanted = np.clip(np.floor(counts[present] * val_share + 0.5).astype(np.int64), 1, counts[present] - 1)
    ranks = raw_draws((checked_seed(seed), _STREAM), len(images))
    in_val = np.zeros(len(images), bool)
    in_val[lowest_of_each(images.labels, present, wanted, ranks, images.contents)] = True
    return _halves(images, in_val)


def _halves(images: ImageSet, in_val: np.ndarray) -> ImageData:
    train = np.bincount(images.labels[~in_val], minlength=len(images.classes))
    empty = np.flatnonzero((train == 0) & (images.n_per_class() > 0))
    if empty.size or not in_val.any():
        what = f"the class {images.classes[empty[0]]!r} without" if empty.size else "the validation part without"
        raise DataError(
            f"Splitting the {len(images):,} images of {images.name!r} leaves {what} an image; take another share or "
            "seed, add images, or split them yourself into train/ and val/."
        )
    return ImageData(
        name=images.name,
        train=images.subset(np.flatnonzero(~in_val), split="train"),
        val=images.subset(np.flatnonzero(in_val), split="val"),
        is_split_here=True,
    )


def renamed(data: ImageData, name: str) -> ImageData:
    """The same images under another name."""
    return replace(data, name=name, train=replace(data.train, name=name), val=replace(data.val, name=name))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def _require_share(images: ImageSet, val_share: float) -> None:
    if not 0 < val_share < 1:
        raise DataError(
            f"{images.name!r} was to be split with a validation share of {val_share!r}; expected above 0 and below 1."
        )
