"""The training images of a data regime: nested, stratified and drawn by seed, with a part to validate on.

Every image has a rank that depends only on the seed and its position, and the ranks put the images of each class into
an order. The classes take turns by Webster's method: the k-th image of a class with m images stands at (2 k - 1) / m,
and a regime of n images takes the n lowest. Each class so has its share of every regime, to within rounding, and of one
seed a smaller regime is within every larger one. Maps have no classes: their images go by rank alone.

The validation part is drawn of the regime in the same way with the ranks turned round, but for the last image of each
class, which stays to train on, and for copies of images that are trained on.

References
----------
M. L. Balinski and H. P. Young 1982, Fair Representation (Webster's method: no class loses an image as the regime grows,
and none is favoured for its size).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...datasets.draws import checked_seed, raw_draws
from ...datasets.imagesets import digest
from ...errors import DataError, QueryError
from ...optional import requires_extra
from .data import TransferSet, images_of, labels_of

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

Regime = int | Literal["all"]

_STREAM = 7_003  # keeps the ranks apart from all other draws of a seed
_LEAST_TO_TRAIN = 2  # images, of whatever class: a batch of one has no variance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegimeSubset:
    """The images of a regime, by their positions in the training set.

    Attributes
    ----------
    n_requested : int
        Labelled images that were asked for.
    indices : int64 array, shape (n,)
        All of them, ascending.
    train, validation : int64 arrays
        Those that are trained on, and those that choose learning rate and end; ascending, and together ``indices``.
    fingerprint : str
        Hex, of the training set, the seed and these.
    """

    n_requested: int
    indices: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    fingerprint: str

    @property
    def n_actual(self) -> int:
        """Labelled images that are used, the validation part among them."""
        return len(self.indices)


def regime_subset(part: TransferSet, n: Regime, *, seed: int, validation_share: float = 0.2) -> RegimeSubset:
    """The images of the regime of ``n``.

    Parameters
    ----------
    part : ImageSet or MapSet
        The training set.
    n : int or "all"
        Labelled images, those to validate on among them.
    seed : int
        Of one seed, the images of a smaller regime are among those of a larger one.
    validation_share : float
        Of the n images, rounded to the nearest whole number; at least one, and of each class one stays to train on.

    Raises
    ------
    QueryError
        If ``n`` is below 1 or above the number of images.
    DataError
        If it is so small that a class has no image to train on, or none is left to validate on; says the least n.

    Examples
    --------
    >>> from zoo.datasets import open_images
    >>> digits = open_images("digits").train
    >>> small, large = (regime_subset(digits, n, seed=0) for n in (20, 200))
    >>> len(small.train), len(small.validation), bool(np.isin(small.indices, large.indices).all())
    (16, 4, True)
    """
    n_all, name = len(part), images_of(part).name
    wanted = checked_regime(n, n_all, name=name)
    labels = _labels(part)
    least = least_images(part)
    ranks = raw_draws((checked_seed(seed), _STREAM), n_all)
    chosen = np.sort(_stratified_order(labels, ranks)[:wanted])  # (n,)
    if wanted < least:
        raise DataError(
            f"A regime of {wanted:,} of the {n_all:,} training images of {name!r} has "
            f"{_lack(part, np.setdiff1d(labels, labels[chosen]))}; ask for at least {least:,}."
        )
    n_validation = min(max(1, int(validation_share * wanted + 0.5)), wanted - _LEAST_TO_TRAIN)
    validation = chosen[_held_out(labels[chosen], ~ranks[chosen], n_validation)]
    train = chosen[~np.isin(chosen, validation)]
    contents = images_of(part).contents
    if contents is not None:
        leaked = np.isin(contents[validation], contents[train])
        if leaked.any() and not leaked.all():  # if all are, there is nothing else to validate on
            validation = validation[~leaked]
            train = chosen[~np.isin(chosen, validation)]
    parts = [array.astype("<i8") for array in (train, validation)]
    return RegimeSubset(
        n_requested=wanted,
        indices=chosen,
        train=train,
        validation=validation,
        fingerprint=digest(["regime", part.fingerprint, str(int(seed)), *parts]),
    )


def least_images(part: TransferSet) -> int:
    """The least regime with every class to train on and an image to validate on; the same for every seed.

    Raises
    ------
    DataError
        If there is none, because there are too few images.
    """
    counts = np.unique(_labels(part), return_counts=True)[1]
    if counts.sum() <= _LEAST_TO_TRAIN:
        raise DataError(
            f"{images_of(part).name!r} has {counts.sum()} training images; expected at least {_LEAST_TO_TRAIN} to "
            "train on and one to validate on."
        )
    if counts.max() < 2:
        raise DataError(
            f"No class of {images_of(part).name!r} has two training images; expected at least one class with an image "
            "to train on and one to validate on."
        )
    smallest = counts.min()
    # of a class with m images, those that stand before the first of the smallest class: (2 k - 1) / m < 1 / smallest
    before = ((counts + smallest - 1) // smallest) // 2
    first_of_all = before[counts > smallest].sum() + (counts == smallest).sum()
    return int(max(first_of_all, len(counts) + 1, _LEAST_TO_TRAIN + 1))


def checked_regime(n: object, n_all: float, *, name: str) -> int:
    """How many images a regime asks for.

    Raises
    ------
    QueryError
        If it is no whole number from 1 to the number of images, nor "all".

    >>> checked_regime("all", 1346, name="digits")
    1346
    """
    if isinstance(n, str) and n == "all":
        return int(n_all)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"A regime of {n!r} images of {name!r} was asked for; expected a whole number from 1, or all.")
    if n > n_all:
        raise QueryError(
            f"A regime of {n:,} images was asked for, but {name!r} has {n_all:,} training images; ask for at most so "
            "many, or for all."
        )
    return int(n)


def _lack(part: TransferSet, missing: np.ndarray) -> str:
    """What a regime that is too small does not have."""
    if not missing.size:
        return "no image that could be spared to validate on"
    classes = images_of(part).classes
    more = f" and of {missing.size - 1} more classes" if missing.size > 1 else ""
    return f"no image of the class {classes[int(missing[0])]!r}{more}"


def _labels(part: TransferSet) -> np.ndarray:
    """Of each image; where there are maps, all images are of one class."""
    found = labels_of(part)
    return np.zeros(len(part), np.int64) if found is None else np.asarray(found)


def _stratified_order(labels: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Positions in the order in which regimes take them, int64 (n,)."""
    place, size = _places(labels, ranks)
    stand = (2 * place + 1) / size  # equal fractions are equal numbers, for division rounds correctly
    return np.lexsort((np.arange(len(labels)), ranks, place, stand))  # of equals, the first of their class come first


def _held_out(labels: np.ndarray, ranks: np.ndarray, n: int) -> np.ndarray:
    """Positions of the first ``n`` in that order, or fewer, without the last of each class."""
    place, size = _places(labels, ranks)
    order = _stratified_order(labels, ranks)
    return np.asarray(order[(place < size - 1)[order]][:n])


def _places(labels: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each image its place in its class, from 0, by rank; and how many images its class has."""
    _, number, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((np.arange(len(labels)), ranks, number))  # by class, then rank, then position
    place = np.empty(len(labels), np.int64)
    place[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts[number]
