"""Labelled features along their principal components, from the smaller one of their two Gram matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...optional import requires_extra
from ..arrays import Array
from ..label_free.labelled import labelled_of

with requires_extra("evaluate", needed_for="A score of labelled features"):
    import numpy as np

_SQUARABLE = 1e-100, 1e100  # largest numbers whose squares and their sums float64 holds as they are


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Labelled:
    """Features of n images in float64, and the number of each one's class."""

    z: Array  # float64 (n, dim), centred, in units of 1 / scale
    y: Array  # int64 (n,)
    classes: Array  # (n_classes,), ascending
    scale: float  # 1, or a power of two where the features are too large or too small to be squared

    @property
    def targets(self) -> Array:
        """1 for the class of an image and 0 for the others, float64 (n, n_classes)."""
        found: Array = (self.y[:, None] == np.arange(len(self.classes))).astype(np.float64)
        return found


def centred_of(z: Any, y: Any, *, least: int, needed_for: str) -> Labelled:
    """Checked features less their mean; refuses fewer than ``least`` rows, equal rows, and a single class."""
    given = labelled_of(z, y, least=least, needed_for=needed_for)
    rows = given.z.astype(np.float64)
    largest = max(float(rows.max()), -float(rows.min()))
    scale = 1.0
    if not _SQUARABLE[0] < largest < _SQUARABLE[1]:
        scale = math.ldexp(1.0, max(-1000, min(1000, -math.frexp(largest)[1])))
        rows *= scale
    rows -= rows.mean(axis=0)
    rows -= rows.mean(axis=0)  # what rounding left of a mean that is large beside the spread
    return Labelled(z=rows, y=given.y, classes=given.classes, scale=scale)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Components:
    """Centred features as U S V', by what a linear fit on them needs.

    ``scores`` are U S, and ``squares`` the squared singular values, descending, at least 0. Where there are no more
    images than dimensions, ``left`` is U: an orthonormal basis of all that is orthogonal to the constant vector.
    """

    scores: Array  # float64 (n, r)
    squares: Array  # float64 (r,)
    left: Array | None  # float64 (n, n - 1)


def components_of(z: Array, *, dual: bool | None = None) -> Components:
    """Components of centred rows (n, dim), from (n, n) products if ``dual`` and from (dim, dim) ones otherwise.

    By default the smaller one.
    """
    n, dim = z.shape
    if not (n <= dim if dual is None else dual):
        values, axes = np.linalg.eigh(z.T @ z)
        return Components(scores=z @ axes[:, ::-1], squares=np.maximum(values[::-1], 0.0), left=None)
    products = z @ z.T
    # the constant vector, which these products take to 0, is set apart from all others by the largest eigenvalue
    products += 2 * float(np.trace(products)) / n
    values, vectors = np.linalg.eigh(products)
    squares, left = np.maximum(values[-2::-1], 0.0), vectors[:, -2::-1]
    return Components(scores=left * np.sqrt(squares), squares=squares, left=left)
