"""The images of a race: their labels, the order of visits, and what judges on them: ridge regression, and the probe.

Training images come in a seeded random order that is stratified by class, test images in a random one, whole groups
together. A rung has twice as many images as the one before and only adds to them, so that races over other contenders,
or with another budget, visit the same images in the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..datasets.images import ImageSet, get_numbers
from ..datasets.subsets import draw_raw
from ..errors import DataError, format_count
from ..evaluation.transferability.components import LabelledMatrix
from ..evaluation.transferability.leave_one_out import fit_ridge
from ..optional import require_extra

with require_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..datasets import ImageData
    from ..evaluation.measuring import ProbeCache
    from ..features import Features

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Truths = NDArray[np.bool_]

PROTOCOL = "zoo-logistic-3"  # of the probe
PROTOCOLS_OF_PROBES, RIDGE = (PROTOCOL, "zoo-logistic-2"), "zoo-ridge-1"  # the last one of numbers
SCORE = "ridge"  # judges before all labels are there
_TRAIN_STREAM, _TEST_STREAM = 7_301, 7_302  # keep the orders apart from all other draws of a seed
_N_RANGES = 10  # of numbers, each of which is in every rung alike
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
    given_groups_test : uint64 array, shape (n_test,), or None
        The same without copies: of these the error of one encoder has its interval, as zoo evaluate prints it.
    classes : tuple of str
        Names for messages.
    numbers : (float64 array, float64 array), optional
        Numbers to be predicted of the training and the test images. Labels are ranges of them.

    Raises
    ------
    DataError
        If no probe can be trained or tested on them; says why.
    """

    y_train: NDArray[np.int64]
    y_test: NDArray[np.int64]
    groups_train: NDArray[np.uint64] | None = None
    groups_test: NDArray[np.uint64] | None = None
    given_groups_test: NDArray[np.uint64] | None = None
    classes: tuple[str, ...] = ()
    numbers: tuple[Any, Any] | None = None
    judge: ClassVar[str] = SCORE

    def __post_init__(self) -> None:
        if not len(self.y_train) or not len(self.y_test):
            raise DataError("A part of the images is empty; expected training images and test images.")
        present, counts = np.unique(self.y_train, return_counts=True)
        if len(present) < 2:
            raise DataError(
                f"All {len(self.y_train):,} training images have the label {self._name(present[0])}; expected at least "
                "two classes."
            )
        if counts.max() < 2:
            raise DataError(
                f"Each of the {len(present):,} classes has one training image, so that none is left to choose the "
                "settings of a probe on; expected two or more of some class."
            )
        unknown = np.setdiff1d(self.y_test, present)
        if len(unknown):
            raise DataError(
                f"{format_count(int((self.y_test == unknown[0]).sum()), 'test image has', 'test images have')} the "
                f"label {self._name(unknown[0])}, which no training image has; expected every class among them."
            )

    @property
    def n_train(self) -> int:
        return len(self.y_train)

    @property
    def n_test(self) -> int:
        return len(self.y_test)

    @property
    def targets(self) -> tuple[Any, Any]:
        """What probes learn of the training images and are judged by on the test images: labels, or numbers."""
        return self.numbers or (self.y_train, self.y_test)

    def score(self, name: str, chunk: Chunk) -> tuple[Any, Any, float]:
        """What judges a contender before all labels are there, as :func:`score_by_ridge`."""
        return score_by_ridge(chunk)

    def compute_losses(self, predicted: Any, rows: Any) -> Any:
        """Losses of what a probe gave of these test images."""
        return compute_losses(predicted, self.targets[1][rows])

    def _name(self, label: Any) -> str:
        return repr(self.classes[int(label)]) if 0 <= int(label) < len(self.classes) else str(int(label))


def build_task(data: ImageData) -> Task:
    """The labels of an image set, whose test images are resampled by group, or by copies."""
    joined = data.val.together
    groups: dict[str, Any] = {
        "groups_train": data.train.groups,
        "given_groups_test": data.val.groups,
        "groups_test": None if joined is None or len(np.unique(joined)) == len(joined) else joined,
    }
    if data.train.target:
        return _number_task(data.train, data.val, **groups)
    return Task(y_train=data.train.labels, y_test=data.val.labels, classes=data.train.classes, **groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """In which order images are visited, and how many a rung has; a race over other contenders has the same."""

    train: Rows
    test: Rows
    sizes: tuple[tuple[int, int], ...]  # training and test images of each rung


def build_schedule(task: Task, *, first_images: int, seed: int) -> Schedule:
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
    ranks = draw_raw(key, n_groups)
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


def number_groups(groups: NDArray[np.uint64] | None, order: Rows) -> Any:
    """Numbers of the groups of some images; None without groups."""
    return None if groups is None else np.unique(groups[order], return_inverse=True)[1].reshape(-1)


# --- what judges ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Labelled features of one rung."""

    x_train: Floats  # (n_train, dim), in the order of visits
    y_train: NDArray[np.int64]
    x_test: Floats
    y_test: NDArray[np.int64]
    groups: NDArray[np.int64] | None  # of the training images

    def quarter(self) -> Chunk:
        """The same with the first quarter of the labels."""
        n = max(len(self.y_train) // 4, 1)
        groups = None if self.groups is None else self.groups[:n]
        return replace(self, x_train=self.x_train[:n], y_train=self.y_train[:n], groups=groups)


def _number_task(train: ImageSet, test: ImageSet, **groups: Any) -> Task:
    """The task of images that are labelled with numbers, whose ranges are visited alike."""
    from ..evaluation.regression import require_enough  # which a plan for classes does without

    numbers, others = get_numbers(train), get_numbers(test)
    require_enough(test.name, len(numbers), len(others))
    if not others.std():
        raise DataError(f"All {len(others):,} test images of {test.name!r} have one number; expected different ones.")
    ends = np.unique(np.quantile(numbers, np.arange(1, _N_RANGES) / _N_RANGES))
    y, y_test = (np.searchsorted(ends, some) for some in (numbers, others))
    present, y = np.unique(y, return_inverse=True)
    y_test = np.clip(np.searchsorted(present, y_test), 0, len(present) - 1)
    return Task(y_train=y.reshape(-1), y_test=y_test, numbers=(numbers, others), **groups)


def compute_losses(predicted: Any, targets: Any) -> Any:
    """Whether each prediction is wrong; of numbers its squared error."""
    return np.square(predicted - targets) if targets.dtype.kind == "f" else np.asarray(predicted) != targets


def score_by_ridge(chunk: Chunk) -> tuple[Truths, Truths, float]:
    """Ridge regression to the classes, which judges before all labels are there.

    Returns whether it is wrong on each training image (n_train,) and on each test image (n_test,), and its mean squared
    error over both, by which contenders are ordered; lower is better. A training image is predicted from those of other
    groups, in closed form; of a single group there is none to predict it from, and the first array is empty. The
    penalty has the least squares on those. Squares order encoders better than errors do, and than scores of
    transferability (``zoo study do_transferability_scores_predict``).
    """
    if chunk.y_train.dtype.kind == "f":
        return _number_score(chunk)
    classes, numbers = np.unique(chunk.y_train, return_inverse=True)
    mean, z = chunk.x_train.mean(axis=0, dtype=np.float64), chunk.x_train.astype(np.float64)
    data = LabelledMatrix(z=z - mean, y=numbers.reshape(-1), classes=classes)
    targets = data.targets
    groups = None if chunk.groups is None else np.unique(chunk.groups, return_inverse=True)[1].reshape(-1)
    is_one_group = groups is not None and int(groups.max()) == 0
    if len(classes) == 1 or not (z != z[0]).any():  # nothing to fit
        left_out = np.broadcast_to(targets.mean(axis=0), targets.shape)
        on_test = np.broadcast_to(targets.mean(axis=0), (len(chunk.y_test), len(classes)))
    else:
        others = None if is_one_group else groups
        fit = fit_ridge(data, others, by="squares")
        left_out, on_test = fit.left_out, fit.outputs(chunk.x_test.astype(np.float64) - mean)
    y_test = (chunk.y_test[:, None] == classes).astype(np.float64)
    n_judged = 0 if is_one_group else len(targets)
    squares = np.square(targets - left_out).sum(axis=1)[:n_judged], np.square(y_test - on_test).sum(axis=1)
    return (
        classes[left_out.argmax(axis=1)][:n_judged] != chunk.y_train[:n_judged],
        classes[on_test.argmax(axis=1)] != chunk.y_test,
        float(np.concatenate(squares).mean()),
    )


def _number_score(chunk: Chunk) -> tuple[Any, Any, float]:
    """The same of numbers, by the probe itself: no training image judges in addition to the test images."""
    from ..evaluation.regression import RidgeProbe  # which a plan does without

    is_one = chunk.groups is not None and len(np.unique(chunk.groups)) == 1
    probe = RidgeProbe().fit(chunk.x_train, chunk.y_train, groups=None if is_one else chunk.groups)
    on_test = compute_losses(probe.predict(chunk.x_test), chunk.y_test)
    return np.empty(0), on_test, float(on_test.mean())


Predict = Callable[[Any, Any], Any]
"""From features (n, dim) of test images, and their rows, to labels (n,)."""
Probe = Callable[[str, Any, Any, Any], Predict]
"""Trains a probe: name of the contender, rows of the training images (ascending), their features and labels."""


def fit_on_labels(
    train: Features,
    *,
    n_test: int,
    seed: int,
    protocol: str,
    device: str | None = None,
    cache: ProbeCache | None = None,
) -> Any:
    """The probe of ``zoo evaluate`` with all labels of ``train``, tuned for so many test images.

    Parts of the labels may have too few groups to hold some out; then the images that are held out are of the same
    groups as the others, which may cost the best choice and no more.
    """
    from ..evaluation.evaluating import build_probe_maker
    from ..evaluation.measuring import TuningSplit, divide_own, fit_probe
    from ..evaluation.protocols import PROTOCOLS

    make = build_probe_maker(PROTOCOLS[protocol], seed=seed, device=device)
    rows, labels = np.arange(len(train.y)), get_numbers(train) if train.target else None

    def fitted(some: Features) -> Any:
        if labels is not None:
            return fit_probe(
                make(), some, TuningSplit(train=rows, tuning=rows, refits=True), labels=labels, cache=cache
            )
        n_free = len(rows) - len(np.unique(some.y))  # each class keeps an image
        division = divide_own(some, rows, n_test=min(n_test, n_free), seed=seed)
        return fit_probe(make(), some, division, cache=cache)

    try:
        return fitted(train)
    except DataError:
        if train.together is None:
            raise
        return fitted(replace(train, contents=None, groups=None))


def build_logistic_scorer(
    task: Task,
    *,
    seed: int = 0,
    device: str | None = None,
    protocol: str = PROTOCOL,
    kept: Callable[[str, Rows], tuple[Features, ProbeCache]] | None = None,
) -> Probe:
    """A maker of the probes of ``zoo evaluate`` with all labels that it is given (:func:`fit_on_labels`).

    ``kept`` gives the features of these training images of a contender, and the cache that has the probe once it was
    trained, where ``zoo evaluate`` looks for it; without it features are those that the maker is called with.
    """

    def fitted(name: str, rows: Rows, x: Floats, y: NDArray[np.int64]) -> Predict:
        train, cache = kept(name, rows) if kept else (_features(task, name, rows, x, y), None)
        probe = fit_on_labels(train, n_test=task.n_test, seed=seed, protocol=protocol, device=device, cache=cache)

        def predict(x_test: Any, rows_test: Any = None) -> Any:
            return probe.predict(x_test)

        return predict

    return fitted


def _features(task: Task, name: str, rows: Rows, x: Floats, y: NDArray[np.int64]) -> Features:
    """Features that were computed elsewhere, with the groups of the task."""
    from ..features import Features, Origin

    unknown: dict[str, Any] = dict.fromkeys(
        ("dataset", "weights_hash", "preprocess_hash", "images_hash", "code_version"), ""
    )
    origin = Origin(encoder=name, split="train", representation="card", precision="float32", **unknown)
    groups = None if task.groups_train is None else task.groups_train[rows]
    return Features(x=np.asarray(x, np.float32), y=y, origin=origin, classes=task.classes, groups=groups)
