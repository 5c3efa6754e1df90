"""In which order the images of a race are visited, and how many of them each rung has.

Training images come in a seeded random order that is stratified by class, test images in a random one; images of a
group go together. A rung has twice as many images as the one before and only adds to them, so that races over other
contenders, or with another budget, visit the same images in the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..datasets.subsets import raw_draws
from ..errors import DataError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

_TRAIN_STREAM, _TEST_STREAM = 7_301, 7_302  # keep the orders apart from all other draws of a seed
_FEWEST_A_CLASS = 2  # training images in the first rung


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """Labels of the training and the test images.

    Attributes
    ----------
    y_train, y_test : int64 arrays, shapes (n_train,) and (n_test,)
    groups_train, groups_test : uint64 arrays of these shapes, or None
        Images with the same number (of one patient, or copies of each other) are not independent: they go together
        into a rung and into a resample.
    classes : tuple of str
        Names for messages.

    Raises
    ------
    DataError
        If no probe can be trained or tested on them; says why.
    """

    y_train: NDArray[np.int64]
    y_test: NDArray[np.int64]
    groups_train: NDArray[np.uint64] | None = None
    groups_test: NDArray[np.uint64] | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.y_train) or not len(self.y_test):
            raise DataError("A part of the images is empty; expected training images and test images.")
        present, counts = np.unique(self.y_train, return_counts=True)
        if len(present) < 2:
            raise DataError(
                f"All {len(self.y_train):,} training images have the label {self._name(present[0])}; expected at least "
                "two classes to tell apart."
            )
        if counts.max() < 2:
            raise DataError(
                f"Each of the {len(present):,} classes has one training image, so that none is left to choose the "
                "settings of a probe on; expected two or more of some class."
            )
        unknown = np.setdiff1d(self.y_test, present)
        if len(unknown):
            raise DataError(
                f"{int((self.y_test == unknown[0]).sum()):,} test images have the label {self._name(unknown[0])}, "
                "which no training image has; expected every class among the training images."
            )

    @property
    def n_train(self) -> int:
        return len(self.y_train)

    @property
    def n_test(self) -> int:
        return len(self.y_test)

    def _name(self, label: Any) -> str:
        return repr(self.classes[int(label)]) if 0 <= int(label) < len(self.classes) else str(int(label))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """In which order images are visited, and how many a rung has; a race over other contenders has the same."""

    train: Rows
    test: Rows
    sizes: tuple[tuple[int, int], ...]  # training and test images of each rung


def schedule(task: Task, *, first_images: int, seed: int) -> Schedule:
    """The orders of the images and the sizes of the rungs.

    Every beginning of the training images has all classes alike, as far as whole images and groups allow; the first
    rung has all classes.
    """
    train = _stratified(task.y_train, task.groups_train, key=(seed, _TRAIN_STREAM))
    test = _stratified(np.zeros_like(task.y_test), task.groups_test, key=(seed, _TEST_STREAM))
    ends_train, ends_test = _ends(train, task.groups_train), _ends(test, task.groups_test)
    half = first_images / 2
    fewest: float = max(half, _FEWEST_A_CLASS * len(np.unique(task.y_train)))
    if task.n_train <= 2 * first_images:  # all labels from the start: the probe judges
        fewest = task.n_train
    sizes: list[tuple[int, int]] = []
    n_train, n_test = float(fewest), half
    while not sizes or sizes[-1] != (task.n_train, task.n_test):
        whole = _up_to(ends_train, n_train), _up_to(ends_test, n_test)
        if not sizes or whole != sizes[-1]:
            sizes.append(whole)
        n_train, n_test = 2 * n_train, 2 * n_test
    return Schedule(train=train, test=test, sizes=tuple(sizes))


def _stratified(y: NDArray[np.int64], groups: NDArray[np.uint64] | None, *, key: tuple[int, ...]) -> Rows:
    """Positions in a random order of whole groups, each beginning of which has all classes alike."""
    n = len(y)
    number = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    n_groups = int(number.max()) + 1
    ranks = raw_draws(key, n_groups)
    size = np.bincount(number, minlength=n_groups)
    classes, place = np.unique(y, return_inverse=True)
    table = np.zeros((n_groups, len(classes)), np.int64)
    np.add.at(table, (number, place.reshape(-1)), 1)
    main = table.argmax(axis=1)  # the class of most of its images
    order = np.lexsort((ranks, main))
    before = np.cumsum(size[order]) - size[order]
    n_of = np.bincount(main, weights=size, minlength=len(classes))
    started = np.cumsum(n_of) - n_of
    due = np.empty(n_groups)
    due[order] = (before - started[main[order]]) / n_of[main[order]]
    turn = np.empty(n_groups, np.int64)
    turn[np.lexsort((ranks, due))] = np.arange(n_groups)
    return np.lexsort((np.arange(n), turn[number])).astype(np.int64)


def _ends(order: Rows, groups: NDArray[np.uint64] | None) -> Rows:
    """How many images there may be in a beginning of whole groups, ascending."""
    if groups is None:
        return np.arange(1, len(order) + 1)
    ordered = groups[order]
    return np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(order))


def _up_to(ends: Rows, n: float) -> int:
    return int(ends[min(int(np.searchsorted(ends, n)), len(ends) - 1)])


def clusters_of(groups: NDArray[np.uint64] | None, order: Rows) -> Any:
    """Numbers of groups in the order of visits; None without groups."""
    return None if groups is None else np.unique(groups[order], return_inverse=True)[1].reshape(-1)
