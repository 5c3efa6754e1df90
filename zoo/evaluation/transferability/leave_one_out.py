"""Leave-one-out accuracy of ridge regression, in closed form, and of nearest neighbours.

Every image is classified by what was learnt from all others, so that all labels train and all test. Nothing is trained
again: the fit without some images follows from the fit with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import DataError
from ...optional import require_extra
from ..arrays import Array, check_labels
from ..label_free.arrays import require_number
from ..label_free.labelled import check_labelled_features
from ..nearest_neighbours import CosineIndex, compute_votes
from ..streamed_training import LabelledRows as LabelledRows
from .components import Components, LabelledMatrix, centre_labelled, compute_components

with require_extra("evaluate", needed_for="Leave-one-out accuracy"):
    import numpy as np
    import torch

PENALTIES = tuple(10.0 ** (-half / 2) for half in range(17))
"""Penalties that ridge chooses from, 1 to 1e-8, as shares of the sum of squares of the centred features."""
_RIDGE, _NEIGHBOURS = "leave-one-out ridge", "leave-one-out nearest neighbours"
_BLOCK_BYTES = 1 << 27


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveOneOut:
    """What is predicted for each image from all others."""

    value: float  # accuracy in percent
    predictions: Array  # (n,), labels as in y
    correct: Array  # bool (n,)
    chosen: float  # the penalty as a share of the sum of squares, or the number of neighbours
    n_alone: int  # images whose class has no other image to learn from; none of them can be right


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOneOutAccuracy:
    """The accuracy alone."""

    value: float  # percent
    n: int
    n_classes: int
    chosen: float
    n_alone: int
    notes: tuple[str, ...] = ()


def ridge_predictions(z: Any, y: Any, *, groups: Any = None) -> LeaveOneOut:
    """Classes by ridge regression on all other images, one class against the rest, with an intercept.

    The targets are 1 for the class of an image and 0 for the others (1 and -1 give the same predictions), and the class
    with the largest output is predicted. With the hat matrix H of the fit to all images, the residuals of the fit
    without the images I are (1 - H_II)^-1 times those of the fit with them, which is exact. One penalty of
    :data:`PENALTIES` serves all classes: that with the fewest errors, the largest of equals. As it is chosen by the
    accuracy that it gives, the accuracy is slightly optimistic.

    Raises DataError if there are fewer than 3 images, one class only or one group only, all rows are equal, a number is
    not finite, or labels or groups do not match the rows.

    Source: Allen 1974, the predicted residual sum of squares; Rifkin and Lippert 2007, "Notes on regularized least
    squares".

    >>> found = ridge_predictions([[0.0], [0.1], [1.0], [1.1]], [3, 3, 7, 7])
    >>> found.value, found.predictions.tolist()
    (100.0, [3, 3, 7, 7])

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    groups : array, shape (n,), optional
        Images with the same number or name, as those of one patient, are left out together.

    Returns
    -------
    LeaveOneOut
        ``value`` is the accuracy in percent; higher is better. An image that is the only one of its class, or whose
        group has all of them, is always wrong.
    """
    data = centre_labelled(z, y, least=3, needed_for=_RIDGE)
    numbers = number_image_groups(groups, len(data.y))
    fit = fit_ridge(data, numbers, by="errors")
    return _record(fit.left_out.argmax(axis=1), data.y, data.classes, fit.share, numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ridge:
    """Ridge regression to the classes at its best penalty."""

    left_out: Array  # outputs for the images it was fitted on, each without itself or its group, (n, n_classes)
    weights: Array  # (dim, n_classes), of centred features
    intercept: Array  # (n_classes,)
    share: float  # the penalty, as a share of the sum of squares

    def outputs(self, z: Array) -> Array:
        """Of other features, less the mean of those that it was fitted on; (m, n_classes)."""
        found: Array = z @ self.weights + self.intercept
        return found


def fit_ridge(
    data: LabelledMatrix,
    numbers: Array | None,
    *,
    by: Literal["errors", "squares"],
    targets: Array | None = None,
) -> Ridge:
    """The fit whose outputs for left-out images have the fewest errors of classes, or the least sum of squared
    differences from the targets; of equal ones that of the largest penalty.

    Features are centred and not all equal; ``numbers`` are those of at least two groups, or None; ``targets``
    (n, n_targets) are by default those of the classes.
    """
    components, targets = compute_components(data.z), data.targets if targets is None else targets
    least = math.inf
    for share, outputs, residuals in _left_out_outputs(data, components, numbers, targets):
        wrong = outputs.argmax(axis=1) != data.y if by == "errors" else np.square(targets - outputs)
        if (lost := float(wrong.sum())) < least:  # penalties fall
            least, chosen, best, rest = lost, share, outputs, residuals
    # what a fit leaves of a target is the penalty times its weights in terms of the rows
    weights = data.z.T @ (rest / (chosen * float(components.squares.sum())))
    return Ridge(left_out=best, weights=weights, intercept=targets.mean(axis=0), share=chosen)


def neighbour_predictions(
    z: Any, y: Any, k: int = 10, *, temperature: float = 0.07, groups: Any = None, device: str | None = None
) -> LeaveOneOut:
    """Classes by a weighted vote of the k nearest other images.

    The vote is that of :class:`zoo.evaluation.NeighbourProbe`: similarity is the cosine of features, neither centred
    nor scaled otherwise, and a neighbour's vote weighs exp(similarity / temperature).

    Raises DataError as :func:`ridge_predictions`; QueryError if k or the temperature is out of its range.

    Source: Wu et al. 2018, "Unsupervised feature learning via non-parametric instance discrimination", section 3.4.

    >>> neighbour_predictions([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], list("aabb"), k=1).predictions.tolist()
    ['a', 'a', 'b', 'b']

    Parameters
    ----------
    z : float array, shape (n, dim)
    y : array, shape (n,)
        Labels of two classes or more.
    k : int
        Neighbours that vote, or all other images where there are fewer.
    temperature : float
    groups : array, shape (n,), optional
        An image of the same group, as of the same patient, is no neighbour.
    device : str, optional
        Of torch; None takes a GPU if there is one.

    Returns
    -------
    LeaveOneOut
        ``value`` is the accuracy in percent; higher is better.
    """
    require_number(k, "k", least=1, whole=True)
    require_number(temperature, "temperature", above=0)
    data = check_labelled_features(z, y, least=3, needed_for=_NEIGHBOURS)
    numbers = number_image_groups(groups, len(data.y))
    n = len(data.y)
    k = min(k, n - 1)
    wanted = k if numbers is None else min(k + int(np.bincount(numbers).max()) - 1, n - 1)
    rows = LabelledRows(data.z, data.y, is_wide=True)
    reference = CosineIndex.of(
        rows,
        device=torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu")),
        block_bytes=_BLOCK_BYTES,
    )
    found, first = np.empty(n, dtype=np.int64), 0
    for similarities, neighbours in reference.nearest(rows, wanted, left_out=True):
        part = slice(first, first + len(neighbours))
        voting = np.ones(neighbours.shape, dtype=bool)
        if numbers is not None:
            voting = numbers[neighbours] != numbers[part, None]
            voting &= voting.cumsum(axis=1) <= k
        labels = data.y[neighbours]
        found[part] = compute_votes(similarities, labels, len(data.classes), temperature, voting).argmax(axis=1)
        first = part.stop
    return _record(found, data.y, data.classes, float(k), numbers)


def leave_one_out_ridge(z: Any, y: Any, *, groups: Any = None) -> LeaveOneOutAccuracy:
    """Accuracy of ridge regression on all other images: :func:`ridge_predictions` in one number, in percent.

    Arguments, of the same shape, direction (higher is better) and errors are the same; ``chosen`` is the penalty.

    Source: Allen 1974, the predicted residual sum of squares; Rifkin and Lippert 2007.

    >>> leave_one_out_ridge([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1]).value
    100.0
    """
    return _accuracy(ridge_predictions(z, y, groups=groups), y)


def leave_one_out_neighbours(
    z: Any, y: Any, *, k: int = 10, temperature: float = 0.07, groups: Any = None
) -> LeaveOneOutAccuracy:
    """Accuracy of a vote of the k nearest other images: :func:`neighbour_predictions` in one number, in percent.

    Arguments, of the same shape, direction (higher is better) and errors are the same; ``chosen`` is the number of
    neighbours.

    Source: Wu et al. 2018, "Unsupervised feature learning via non-parametric instance discrimination", section 3.4.

    >>> leave_one_out_neighbours([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], [0, 0, 1, 1], k=1).value
    100.0
    """
    return _accuracy(neighbour_predictions(z, y, k, temperature=temperature, groups=groups), y)


def number_image_groups(groups: Any, n: int) -> Array | None:
    """Number of the group of each image, int64 (n,), or None; refuses a single group."""
    if groups is None:
        return None
    names, numbers = np.unique(check_labels(groups, n, "groups"), return_inverse=True)
    if len(names) < 2:
        raise DataError(
            f"All {n} images are of one group ({names[0].item()!r}), and none is left to learn from: give images of "
            "two groups or more."
        )
    return numbers.astype(np.int64)


def _record(found: Array, y: Array, classes: Array, chosen: float, numbers: Array | None) -> LeaveOneOut:
    groups = np.arange(len(y)) if numbers is None else numbers
    pairs = np.unique(np.stack([y, groups]), axis=1)
    lone = np.flatnonzero(np.bincount(pairs[0]) == 1)  # classes within one group
    correct = found == y
    return LeaveOneOut(
        value=100 * float(correct.mean()),
        predictions=classes[found],
        correct=correct,
        chosen=chosen,
        n_alone=int(np.isin(y, lone).sum()),
    )


def _accuracy(found: LeaveOneOut, y: Any) -> LeaveOneOutAccuracy:
    alone, n = found.n_alone, len(found.correct)
    note = (
        f"{alone:,} image{'s' * (alone > 1)} of {n:,} {'have' if alone > 1 else 'has'} no other of the same class to "
        "learn from, and counted as wrong."
    )
    return LeaveOneOutAccuracy(
        value=found.value,
        n=n,
        n_classes=len(np.unique(check_labels(y, n, "y"))),
        chosen=found.chosen,
        n_alone=alone,
        notes=(note,) if alone else (),
    )


def _left_out_outputs(
    data: LabelledMatrix, components: Components, numbers: Array | None, targets: Array | None = None
) -> Iterator[tuple[float, Array, Array]]:
    """Each penalty, falling, as a share of the sum of squares; the outputs (n, n_classes) for images left out, and what
    the fit to all leaves of the targets.
    """
    n = len(data.y)
    targets = data.targets if targets is None else targets
    centred = targets - targets.mean(axis=0)
    basis = components.scores if components.left is None else components.left
    along = basis.T @ centred  # (r, n_classes)
    total = float(components.squares.sum())
    penalties = [share * total for share in PENALTIES]
    # what is left of a target: with U, in terms that are all positive, for n up to dim; else the target less its fit
    if components.left is not None:
        kept = np.stack([penalty / (components.squares + penalty) for penalty in penalties])
        own = basis**2 @ kept.T  # 1 - h (n, penalties)
    else:
        kept = np.stack([-1 / (components.squares + penalty) for penalty in penalties])
        own = 1 - 1 / n + basis**2 @ kept.T
    blocks = []  # groups of more than one image, those of one size together: row numbers and parts of the basis
    if numbers is not None:
        counts = np.bincount(numbers)
        members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
        for size in np.unique(counts[counts > 1]):
            rows = np.stack([one for one in members if len(one) == size])
            blocks.append((rows, basis[rows]))
    for place, share in enumerate(PENALTIES):
        residuals = basis @ (kept[place][:, None] * along)
        if components.left is None:
            residuals += centred
        left_out = residuals / own[:, place, None]
        for rows, several in blocks:  # (m, size) row numbers, and their part of the basis (m, size, r)
            between = (several * kept[place]) @ several.transpose(0, 2, 1)
            if components.left is None:
                between += np.eye(rows.shape[1]) - 1 / n
            left_out[rows] = np.linalg.solve(between, residuals[rows])
        yield share, targets - left_out, residuals
