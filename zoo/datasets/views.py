"""Several views of each image as an image set: random augmentations by a recipe, or quarter turns.

A set of views is an image set like any other, whose images are made when they are asked for: it goes through an
encoder, in worker processes or not, and its features are kept and found again. Row i q + j is view j of image i.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from ..errors import QueryError
from ..metadata import EncoderCard
from ..optional import requires_extra
from .augmentations import Recipe
from .augmenting import DRAWING, augmented
from .draws import checked_seed
from .imagesets import ImageSet, LazyImages, digest

with requires_extra("models", needed_for="Augmenting images"):
    import numpy as np
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import v2

ANGLES = (0, 90, 180, 270)
"""Degrees, against the clock."""

_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def views_of(images: ImageSet, recipe: Recipe, *, n: int | None = None, q: int = 10, seed: int = 0) -> ImageSet:
    """q random views of each of n images.

    Parameters
    ----------
    images : ImageSet
    recipe : Recipe
        From :func:`zoo.datasets.augmentations.recipe_of`.
    n : int, optional
        How many images, drawn by seed; all of them by default. More images of one seed hold the fewer.
    q : int
        Views of each, at least 2; more views of one seed hold the fewer.
    seed : int

    Returns
    -------
    ImageSet
        n * q RGB images of recipe.size_px; labels are the numbers of the source images, 0 to n - 1, and classes their
        names. A view depends on the seed, the name of the image, its own number and the recipe alone.

    Raises
    ------
    QueryError
        If there are fewer than n images, or q is below 2.
    DataError
        If the seed is none.
    """
    if isinstance(q, bool) or not isinstance(q, int | np.integer) or q < 2:
        raise QueryError(
            f"{q!r} views of each image of {images.name!r} were asked for; expected at least q=2, for views of one "
            "image are compared with each other."
        )
    chosen = images.subset(drawn_images(images, n, seed=seed), split=images.split)
    # as the vocabulary of results has it: views as in pretraining, or alike for every encoder
    how = "pretraining-augmented" if recipe.is_own else "augmented"
    return ImageSet(
        name=images.name,
        split=f"{images.split} {how}",
        images=LazyImages(
            ViewReader(chosen.images, chosen.names, recipe, int(q), int(seed)), np.arange(len(chosen) * q)
        ),
        labels=np.repeat(np.arange(len(chosen)), q).astype(np.int64),
        classes=tuple(chosen.names),
        names=[f"{name}#view{view}" for name in chosen.names for view in range(q)],
        fingerprint=digest([DRAWING, chosen.fingerprint, recipe.fingerprint_text, str(int(seed)), str(int(q))]),
    )


def rotations_of(images: ImageSet, *, n: int | None = None, seed: int = 0) -> ImageSet:
    """Each of n images turned by 0, 90, 180 and 270 degrees against the clock, before any resize.

    Parameters
    ----------
    images : ImageSet
    n : int, optional
        How many images, drawn by seed; all of them by default.
    seed : int

    Returns
    -------
    ImageSet
        n * 4 images; labels are 0 to 3, the number of quarter turns.

    Raises
    ------
    QueryError
        If there are fewer than n images.
    DataError
        If the seed is none.

    Examples
    --------
    >>> from zoo.datasets import digits_data
    >>> turned = rotations_of(digits_data().val, n=5)
    >>> len(turned), turned.labels[:5].tolist(), turned.split
    (20, [0, 1, 2, 3, 0], 'val rotated')
    """
    chosen = images.subset(drawn_images(images, n, seed=seed), split=images.split)
    return ImageSet(
        name=images.name,
        split=f"{images.split} rotated",
        images=LazyImages(TurnReader(chosen.images), np.arange(len(chosen) * len(ANGLES))),
        labels=np.tile(np.arange(len(ANGLES)), len(chosen)).astype(np.int64),
        classes=tuple(f"{angle} degrees" for angle in ANGLES),
        names=[f"{name}#{angle}" for name in chosen.names for angle in ANGLES],
        fingerprint=digest(["rotations-1", chosen.fingerprint]),
    )


def drawn_images(images: ImageSet, n: int | None, *, seed: int = 0) -> np.ndarray:
    """Positions of n images, int64, ascending: those whose names have the lowest hashes under a seed.

    Raises
    ------
    QueryError
        If there are fewer.
    DataError
        If the seed is none.
    """
    checked_seed(seed)
    n_there = len(images)
    if n is None:
        return np.arange(n_there)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= n_there:
        raise QueryError(
            f"{n!r} images of {images.name!r} ({images.split}) were asked for, which has {n_there:,}; expected 1 to "
            f"{n_there:,}."
        )
    if n == n_there:
        return np.arange(n_there)
    key = str(int(seed)).encode()
    ranks = np.array([_rank(name, key) for name in images.names], np.uint64)
    return np.sort(np.argsort(ranks, kind="stable")[:n]).astype(np.int64)


def view_preprocess(card: EncoderCard) -> transforms.Compose:
    """From a view to an encoder's input: its preprocessing without resize and crop, which views have behind them.

    Parameters
    ----------
    card : EncoderCard

    Returns
    -------
    torchvision.transforms.Compose
        A PIL image -> float32 tensor (3, px, px), normalised as the card says; of torchvision's classes alone.
    """
    about = card.preprocess
    return transforms.Compose(
        [v2.RGB(), transforms.ToTensor(), transforms.Normalize(mean=list(about.mean), std=list(about.std))]
    )


class _Reader:
    """Reads source images; keeps the last one, for its views are asked for one after the other."""

    def __init__(self, sources: Sequence[Image.Image]) -> None:
        self.sources = sources
        self._last: tuple[int, Image.Image] | None = None

    def source(self, index: int) -> Image.Image:
        last = self._last  # one look, for another thread may read, too
        if last is None or last[0] != index:
            last = (index, self.sources[index])
            self._last = last
        return last[1]


class ViewReader(_Reader):
    """From i q + j to view j of image i; a class so that worker processes can unpickle it."""

    def __init__(self, sources: Sequence[Image.Image], names: Sequence[str], recipe: Recipe, q: int, seed: int) -> None:
        super().__init__(sources)
        self.names, self.recipe, self.q, self.seed = names, recipe, q, seed

    def __call__(self, number: int) -> Image.Image:
        index, view = divmod(number, self.q)
        return augmented(self.source(index), self.recipe, seed=self.seed, name=self.names[index], view=view)

    def __reduce__(self) -> tuple[type[ViewReader], tuple[object, ...]]:
        return ViewReader, (self.sources, self.names, self.recipe, self.q, self.seed)


class TurnReader(_Reader):
    """From 4 i + j to image i after j quarter turns."""

    def __call__(self, number: int) -> Image.Image:
        index, turns = divmod(number, len(ANGLES))
        source, turn = self.source(index), _TURNS[turns]
        return source if turn is None else source.transpose(turn)

    def __reduce__(self) -> tuple[type[TurnReader], tuple[object, ...]]:
        return TurnReader, (self.sources,)


def _rank(name: str, key: bytes) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest(), "big")
