"""Labelled features along their principal components, from the smaller one of their two Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...optional import require_extra
from ..arrays import Array
from ..eigen import compute_eigh
from ..label_free.labelled import check_labelled_features

with require_extra("evaluate", needed_for="A score of labelled features"):
    import numpy as np
    import torch


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LabelledMatrix:
    """Features of n images in float64, and the number of each one's class."""

    z: Array  # float64 (n, dim)
    y: Array  # int64 (n,)
    classes: Array  # (n_classes,), ascending

    @property
    def targets(self) -> Array:
        """1 for the class of an image and 0 for the others, float64 (n, n_classes)."""
        found: Array = (self.y[:, None] == np.arange(len(self.classes))).astype(np.float64)
        return found


def convert_labelled(z: Any, y: Any, *, least: int, needed_for: str, centred: bool = False) -> LabelledMatrix:
    """Checked features, less their mean if ``centred``; refuses too few rows, equal rows, and a single class."""
    given = check_labelled_features(z, y, least=least, needed_for=needed_for)
    rows = given.z.astype(np.float64)
    if centred:
        rows -= rows.mean(axis=0)
        rows -= rows.mean(axis=0)  # what rounding left of a mean that is large compared with the spread
    return LabelledMatrix(z=rows, y=given.y, classes=given.classes)


def centre_labelled(z: Any, y: Any, *, least: int, needed_for: str) -> LabelledMatrix:
    """The same less the mean of the rows."""
    return convert_labelled(z, y, least=least, needed_for=needed_for, centred=True)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Components:
    """Features as U S V', by what a linear fit on them needs.

    ``scores`` are U S, and ``squares`` the squared singular values, descending, at least 0. Where there are no more
    images than dimensions, ``left`` is U, an orthonormal basis: of all, or of what is orthogonal to the constant vector
    if the features are centred.
    """

    scores: Array  # float64 (n, r)
    squares: Array  # float64 (r,)
    left: Array | None  # float64 (n, r)

    def energies(self, targets: Array) -> Array:
        """Squares of the products of the left singular vectors and targets (n, m): float64 (r, m).

        0 for singular values that are rounding.
        """
        if self.left is not None:
            found: Array = (self.left.T @ targets) ** 2
        else:
            squares = np.where(self.is_positive, self.squares, np.inf)
            found = (self.scores.T @ targets) ** 2 / squares[:, None]
        return np.where(self.is_positive[:, None], found, 0.0)

    @property
    def is_positive(self) -> Array:
        """Which singular values are not rounding, bool (r,)."""
        largest = float(self.squares.max(initial=0.0))
        found: Array = self.squares > 8 * len(self.scores) * np.finfo(np.float64).eps * largest
        return found


def compute_components(z: Array, *, centred: bool = True) -> Components:
    """Components of rows (n, dim) from (n, n) or (dim, dim) products, the smaller; ``centred`` if their mean is 0."""
    n, dim = z.shape
    if n > dim:
        values, axes = (one.numpy() for one in compute_eigh(torch.from_numpy(z.T @ z)))
        return Components(scores=z @ axes[:, ::-1], squares=np.maximum(values[::-1], 0.0), left=None)
    products = z @ z.T
    if centred:  # the constant vector, which these products take to 0, is set apart by the largest eigenvalue
        products += 2 * float(np.trace(products)) / n
    values, vectors = (one.numpy() for one in compute_eigh(torch.from_numpy(products)))
    last = n - centred
    squares, left = np.maximum(values[:last][::-1], 0.0), vectors[:, :last][:, ::-1]
    return Components(scores=left * np.sqrt(squares), squares=squares, left=left)
