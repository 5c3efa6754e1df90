"""Data regimes of a learning curve: which numbers of labels, and which training images make up each of them.

A curve says most between the low-data regime, where a network trained from scratch is no better than a blind guess, and
the high-data regime, where it is as good as maximal supervision. The search for these ends tries scratch with one seed
on rungs of a ladder, from both ends and then halving what lies between, and the regimes are spread evenly over the
logarithm of n.

The images of a regime are nested, stratified and drawn by seed. Every image has a rank that depends on the seed and its
position alone, and the ranks put the images of each class into an order. The classes take turns by Webster's method:
the k-th image of a class with m images stands at (2 k - 1) / m, and a regime of n images takes the n lowest. Each class
so has its share of every regime, to within rounding, and with one seed a smaller regime is within every larger one.
Maps have no classes: their images go by rank alone. The validation part is drawn from the regime in the same way with
the ranks inverted, except the last image of each class, which stays to train on, and copies of images that are trained
on.

References
----------
"Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves" 2022, Section 3.3 (the choice
of transfer data regimes).
M. L. Balinski and H. P. Young 1982, Fair Representation (Webster's method: no class loses an image as the regime grows,
and none is favoured for its size).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...datasets.images import digest
from ...datasets.subsets import checked_seed, raw_draws
from ...errors import DataError, QueryError
from ...optional import requires_extra
from .calibration import NEAR_BLIND, NEAR_MAXIMAL
from .inputs import TransferSet, images_of, labels_of

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

Regime = int | Literal["all"]

_RANK_STREAM = 7_003  # keeps the ranks apart from all other draws of a seed
_LEAST_TO_TRAIN = 2  # images, of whatever class: a batch of one has no variance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegimeSubset:
    """The images of a regime, by their positions in the training set."""

    n_requested: int  # labelled images that were asked for
    indices: np.ndarray  # int64 (n,), ascending: those to train on and those to validate on
    train: np.ndarray
    validation: np.ndarray  # choose learning rate and end of the training
    fingerprint: str  # hex, of the training set, the seed and these

    @property
    def n_actual(self) -> int:
        """Labelled images that are used, the validation part among them."""
        return len(self.indices)


def regime_subset(part: TransferSet, n: Regime, *, seed: int, validation_share: float = 0.2) -> RegimeSubset:
    """The images of the regime of ``n``, drawn by ``seed`` from the training set.

    ``n`` includes the images to validate on: ``validation_share`` of it, rounded to the nearest whole number, at least
    one. Refuses an ``n`` below 1 or above the number of images (QueryError), or so small that a class has no image to
    train on or none is left to validate on (DataError, with the least n).

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
    ranks = raw_draws((checked_seed(seed), _RANK_STREAM), n_all)
    chosen = np.sort(_stratified_order(labels, ranks)[:wanted])  # (n,)
    if wanted < least:
        raise DataError(
            f"A regime of {wanted:,} of the {n_all:,} training images of {name!r} has "
            f"{_lack(part, np.setdiff1d(labels, labels[chosen]))}; ask for at least {least:,}."
        )
    n_validation = min(max(1, int(validation_share * wanted + 0.5)), wanted - _LEAST_TO_TRAIN)
    validation = chosen[_held_out(labels[chosen], ~ranks[chosen], n_validation)]
    train = chosen[~np.isin(chosen, validation)]
    joined = images_of(part).together
    if joined is not None:
        leaked = np.isin(joined[validation], joined[train])
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
    """The least regime with every class to train on and an image to validate on; the same for every seed."""
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
    """Number of images of a regime, a whole number from 1 to that of all images, or "all".

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
    """What is missing in a regime that is too small."""
    if not missing.size:
        return "no image that could be spared to validate on"
    classes = images_of(part).classes
    more = f" and of {missing.size - 1} more classes" if missing.size > 1 else ""
    return f"no image of the class {classes[int(missing[0])]!r}{more}"


def _labels(part: TransferSet) -> np.ndarray:
    """Class of each image; where there are maps, all images are of one class."""
    labels = labels_of(part)
    return np.zeros(len(part), np.int64) if labels is None else labels


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
    """Of each image its place in its class by rank, from 0, and the number of images of its class."""
    _, number, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((np.arange(len(labels)), ranks, number))  # by class, then rank, then position
    place = np.empty(len(labels), np.int64)
    place[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts[number]


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([km]?)", re.ASCII | re.IGNORECASE)
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_STEPS = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(1.0 + 0.1 * i for i in range(90)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where the regimes begin and end, as far as it is known."""

    low: int  # images
    high: int
    untried: tuple[int, ...]  # rungs to try next; empty when the ends are known
    notes: tuple[str, ...] = ()  # what the range does not reach


def parse_regimes(text: str, n_all: int | None = None) -> tuple[Regime, ...]:
    """Regimes from text: numbers of images by comma, with k or m for thousands and millions, or "all".

    None may pass ``n_all``, the number of training images, or come twice.

    >>> parse_regimes("50, 200, 1k, all")
    (50, 200, 1000, 'all')
    """
    regimes = tuple(_parsed(part.strip()) for part in text.split(","))
    resolved_regimes(regimes, math.inf if n_all is None else n_all)
    return regimes


def resolved_regimes(regimes: Sequence[Regime], n_all: float, *, name: str = "the data") -> tuple[int, ...]:
    """Numbers of images, ascending; refuses none at all, more than there are, and the same twice.

    >>> resolved_regimes(("all", 50), 200)
    (50, 200)
    """
    if not regimes:
        raise QueryError("No regime was asked for; name some numbers of images, such as 50,200,1k,all.")
    numbers = [n_all if n == "all" else checked_regime(n, n_all, name=name) for n in regimes]
    for n in numbers:
        if numbers.count(n) > 1:
            same = "all images" if n == math.inf else f"{n:,} images"
            raise QueryError(f"The regime of {same} was asked for twice; name each once.")
    return tuple(sorted(numbers))  # type: ignore[arg-type]  # infinite only in parse_regimes, which checks


def ladder(n_least: int, n_all: int, *, fineness: int = 0) -> tuple[int, ...]:
    """Numbers of images from the least possible to all, in steps of 1, 2, 5, 10 or finer ones, and both ends.

    >>> ladder(11, 1346)
    (11, 20, 50, 100, 200, 500, 1000, 1346)
    """
    if n_least > n_all:
        raise DataError(f"Regimes start at {n_least:,} images, but there are {n_all:,}; add images.")
    powers = range(len(str(n_all)))
    between = {round(step * 10**power) for power in powers for step in _STEPS[fineness]}
    return tuple(sorted({n_least, n_all} | {n for n in between if n_least < n < n_all}))


def ends(rungs: Sequence[int], calibrated: Mapping[int, float]) -> Ends:
    """Where the range from near blind to near maximal begins and ends, and which rungs of the ladder to try next.

    ``calibrated`` has the calibrated risk of scratch on those rungs that were tried.
    """
    last = len(rungs) - 1
    tried = {number: calibrated[n] for number, n in enumerate(rungs) if n in calibrated}
    missing = tuple(rungs[number] for number in sorted({0, last}) if number not in tried)
    if missing:
        return Ends(low=rungs[0], high=rungs[-1], untried=missing)
    learnt = min((number for number, risk in tried.items() if risk < NEAR_BLIND), default=0)  # the first that is
    low = max((number for number in tried if number < learnt), default=0)
    high = min((number for number, risk in tried.items() if number > low and risk <= NEAR_MAXIMAL), default=last)
    short = max((number for number in tried if number < high), default=0)  # the last that is not near maximal yet
    halves = set()
    if low < learnt:
        halves.add((low + learnt) // 2)
    if tried[high] <= NEAR_MAXIMAL:
        halves.add((short + high) // 2)
    untried = tuple(rungs[number] for number in sorted(halves) if number not in tried)
    return Ends(low=rungs[low], high=rungs[high], untried=untried, notes=_notes(rungs, tried, low, high))


def spread(low: int, high: int, *, count: int) -> tuple[int, ...]:
    """Round numbers from ``low`` to ``high``, both among them, as evenly over their logarithm as there are.

    >>> spread(11, 1346, count=5), spread(3, 5, count=5)
    ((11, 50, 100, 500, 1346), (3, 4, 5))
    """
    if high - low < count:
        return tuple(range(low, high + 1))
    ladders = (ladder(low, high, fineness=fineness) for fineness in range(len(_STEPS)))
    known = next((rungs for rungs in ladders if len(rungs) >= count), tuple(range(low, high + 1)))
    wanted = np.linspace(math.log(low), math.log(high), count)
    chosen: list[int] = []
    for number, place in enumerate(wanted):
        first = known.index(chosen[-1]) + 1 if chosen else 0
        free = known[first : len(known) - (count - 1 - number)]  # so that enough are left for those to come
        chosen.append(min(free, key=lambda n: (abs(math.log(n) - place), n)))
    return tuple(chosen)


def _parsed(part: str) -> Regime:
    if part.lower() == "all":
        return "all"
    match = _NUMBER.fullmatch(part)
    number = float(match[1]) * _FACTORS[match[2].lower()] if match else 0.0
    if number < 1 or not number.is_integer():
        raise QueryError(
            f"The regime {part!r} is no number of images; expected whole numbers from 1, with k or m for thousands and "
            "millions, or all, with commas between them, such as 50,200,1k,all."
        )
    return int(number)


def _notes(rungs: Sequence[int], tried: Mapping[int, float], low: int, high: int) -> tuple[str, ...]:
    notes = []
    if tried[low] < NEAR_BLIND:
        notes.append(
            f"Scratch is far from the blind guess already at {rungs[low]:,} images, the least that were tried "
            f"(calibrated risk {tried[low]:.2f}): the regimes do not cover the range up to {NEAR_BLIND}."
        )
    if tried[high] > NEAR_MAXIMAL:
        notes.append(
            f"Scratch is not near maximal supervision even at {rungs[high]:,} images, the most that were tried "
            f"(calibrated risk {tried[high]:.2f}): the regimes do not cover the range down to {NEAR_MAXIMAL}."
        )
    return tuple(notes)
