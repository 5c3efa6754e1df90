"""What judges contenders in a race: cheap scores with an outcome for each image, and the probe itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..datasets.subsets import held_out
from ..errors import DataError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np
    from scipy.linalg import eigh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .visiting import Task

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Truths = NDArray[np.bool_]

PROTOCOL = "zoo-logistic-2"  # of the probe
TUNING_SHARE = 0.2  # of the labels, for the choice of the probe's C, as the protocol has it
PENALTIES = 10.0 ** np.arange(-4, 4)  # penalties, in units of the mean square of the features


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Labelled features of one rung, and test features that no score sees the labels of before it has predicted."""

    x_train: Floats  # (n_train, dim), in the order of visits
    y_train: NDArray[np.int64]
    x_test: Floats
    y_test: NDArray[np.int64]
    groups: NDArray[np.int64] | None  # of the training images

    def quarter(self) -> Chunk:
        """The same with the first quarter of the labels."""
        n = max(len(self.y_train) // 4, 1)
        groups = None if self.groups is None else self.groups[:n]
        return Chunk(
            x_train=self.x_train[:n], y_train=self.y_train[:n], x_test=self.x_test, y_test=self.y_test, groups=groups
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """What a score says of a contender on a chunk."""

    left_out: Truths  # wrong on each training image, from the others, (n_train,) or empty
    on_test: Truths  # wrong on each test image, (n_test,) or empty
    value: float  # what contenders are ordered by, lower is better


def _by_ridge(chunk: Chunk) -> Judged:
    """Ridge regression to the classes on left-out training images and on test images, ordered by its squares."""
    wrong, squares = _ridge(chunk)
    return Judged(left_out=wrong[0], on_test=wrong[1], value=float(np.concatenate(squares).mean()))


def _by_ridge_errors(chunk: Chunk) -> Judged:
    """The same, ordered by its errors."""
    wrong, _ = _ridge(chunk)
    return Judged(left_out=wrong[0], on_test=wrong[1], value=float(np.concatenate(wrong).mean()))


def _by_ridge_left_out(chunk: Chunk) -> Judged:
    """The same on left-out training images alone, ordered by its squares."""
    wrong, squares = _ridge(chunk)
    return Judged(left_out=wrong[0], on_test=wrong[1][:0], value=float(squares[0].mean()))


def _by_ridge_test(chunk: Chunk) -> Judged:
    """The same on test images alone, ordered by its squares."""
    wrong, squares = _ridge(chunk)
    return Judged(left_out=wrong[0][:0], on_test=wrong[1], value=float(squares[1].mean()))


def _ridge(chunk: Chunk) -> tuple[tuple[Truths, Truths], tuple[Any, Any]]:
    """Whether ridge regression to the classes is wrong on each left-out training image and on each test image, and the
    squares of what it misses the class by.

    Left out is one image, or its group, in closed form. The penalty has the least squares on those.
    """
    classes, place = np.unique(chunk.y_train, return_inverse=True)
    y = np.eye(len(classes))[place.reshape(-1)]  # (n, n_classes)
    mean, x = chunk.x_train.mean(axis=0, dtype=np.float64), chunk.x_train.astype(np.float64)
    x -= mean
    others = chunk.x_test.astype(np.float64) - mean
    n, dim = x.shape
    if n <= dim:
        values, u = eigh(x @ x.T, check_finite=False, driver="evd")
        known = values > values[-1] * n * np.finfo(np.float64).eps
        values, u = values[known], u[:, known]
        projected = (others @ x.T) @ (u / np.sqrt(values))
    else:
        values, v = eigh(x.T @ x, check_finite=False, driver="evd")
        known = values > values[-1] * dim * np.finfo(np.float64).eps
        values, v = values[known], v[:, known]
        u, projected = x @ (v / np.sqrt(values)), others @ v
    centre = y.mean(axis=0)
    target = u.T @ (y - centre)  # (rank, n_classes)
    y_test = (chunk.y_test[:, None] == classes).astype(np.float64)
    least = math.inf
    for penalty in PENALTIES * float(values.sum() / n if len(values) else 1.0):
        shrunk = values / (values + penalty)
        residual = y - centre - u @ (shrunk[:, None] * target)
        left_out = y - _left_out(residual, u, shrunk, chunk.groups)
        squares = np.square(y - left_out).sum(axis=1)  # (n,)
        if squares.sum() < least:
            least = float(squares.sum())
            on_test = centre + projected @ ((shrunk / np.sqrt(values))[:, None] * target)
            wrong = classes[left_out.argmax(axis=1)] != chunk.y_train, classes[on_test.argmax(axis=1)] != chunk.y_test
            found = wrong, (squares, np.square(y_test - on_test).sum(axis=1))
    return found


def _left_out(residual: Any, u: Any, shrunk: Any, groups: NDArray[np.int64] | None) -> Any:
    """Residuals of images that were not fitted, nor others of their groups, from those of the fit to all."""
    n = len(residual)
    fewest = 1.0 / n  # an image that nothing else predicts keeps its residual finite
    if groups is None:
        leverage = 1.0 / n + (np.square(u) * shrunk).sum(axis=1)
        return residual / np.maximum(1.0 - leverage, fewest * 1e-6)[:, None]
    found = np.empty_like(residual)
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        own = np.eye(len(rows)) * (1 + 1e-9) - 1.0 / n - (u[rows] * shrunk) @ u[rows].T
        found[rows] = np.linalg.solve(own, residual[rows])
    return found


SCORES: dict[str, Callable[[Chunk], Judged]] = {
    "ridge": _by_ridge,
    "ridge-errors": _by_ridge_errors,
    "ridge-left-out": _by_ridge_left_out,
    "ridge-test": _by_ridge_test,
}
"""Scores that judge before all labels are there. The squares of ridge order encoders better than its errors, and than
scores of transferability (``zoo study do_transferability_scores_predict``)."""

Predict = Callable[[Any, Any], Any]
"""From features (n, dim) of test images, and their rows, to labels (n,)."""
Probe = Callable[[str, Any, Any, Any], Predict]
"""Trains a probe: name of the contender, rows of the training images (ascending), their features and labels."""


def logistic_probe(
    task: Task, *, contents: NDArray[np.uint64] | None = None, seed: int = 0, device: str | None = None
) -> Probe:
    """A maker of probes by the protocol zoo-logistic-2: C by a held-out fifth of the labels, then all labels.

    On all labels it is the probe of ``zoo evaluate`` in its setting "full": whole groups are held out, and copies (the
    same number in ``contents`` of the training images) together. Parts of the labels may have too few groups for that;
    then the images that are held out are of the same groups as the others, which may cost the best C and no more.
    """

    def fitted(name: str, rows: Rows, x: Floats, y: NDArray[np.int64]) -> Predict:
        from ..evaluation.evaluating import probe_maker
        from ..evaluation.protocols import PROTOCOLS

        probe: Any = probe_maker(PROTOCOLS[PROTOCOL], seed=seed, device=device)()
        n_free = len(y) - len(np.unique(y))  # each class keeps an image
        n = min(task.n_test, math.ceil(TUNING_SHARE * len(y)), n_free)
        some = None if contents is None else contents[rows]
        drawn = partial(held_out, y, n, seed=seed, classes=task.classes)
        groups = None if task.groups_train is None else task.groups_train[rows]
        try:
            held = drawn(contents=some, groups=groups).indices
        except DataError:
            held = drawn().indices
        rest = np.setdiff1d(np.arange(len(y)), held)
        probe.fit(x[rest], y[rest], x_val=x[held], y_val=y[held])
        again = type(probe)(**(probe.get_params() | {"C": probe.report_["C"]}))
        again.fit(x, y)

        def predict(x_test: Any, rows_test: Any = None) -> Any:
            return again.predict(x_test)

        return predict

    return fitted
