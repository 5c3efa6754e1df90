"""Alignment of views of an image, uniformity of different images, and contrast, the sum of both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import Array
from .arrays import features_of, pieces, require_number, require_varied, views_of

with requires_extra("evaluate", needed_for="Alignment and uniformity"):
    import numpy as np
    import torch

_PIECE_BYTES = 1 << 22  # of views whose distances are taken together
_BLOCK_ROWS = 2048  # whose distances to as many others are in memory at a time
_FLOAT32_FROM = 2e10  # multiplications of all pairs; with fewer, float32 saves nothing
_EXPM1_BELOW = 1.0  # mean of t d**2 up to which exp(-t d**2) - 1 is added up, for exp itself is near 1
_LOGSUMEXP_ABOVE = 32.0  # largest t d**2 up to which exp is added up, and not its logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Alignment plus uniformity: the contrastive loss in the limit of many negatives; lower is better."""

    value: float
    alignment: float
    uniformity: float
    n_images: int
    n_views: tuple[int, int]  # of the image with the fewest, and with the most


def alignment(z: Any, ids: Any = None, *, alpha: float = 2.0, normalise: bool = True) -> float:
    """Mean distance of two views of an image, to the power alpha: over all pairs of its views, then over images.

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n_rows, dim) with ``ids``
    ids : n_rows numbers or names, optional
        Which image each row is a view of, in any order.
    alpha : float
        Above 0.
    normalise : bool
        Whether features are divided by their Euclidean length first, as Wang and Isola do; Dubois et al. report both.

    Returns
    -------
    float
        0 or above, in (units of the features)**alpha, at most 2**alpha if normalised; lower is better, 0 means that
        views do not change the features.

    Raises
    ------
    DataError
        If there are fewer than two images or an image has one view; on NaN or infinity; if ids do not match the rows;
        if a row is all 0 and is to be normalised, or if the value overflows float64.
    QueryError
        If alpha is not above 0.

    Notes
    -----
    The published statistics of 169 encoders (Dubois et al.) count each view paired with itself, too: with q views of an
    image they are (q - 1) / q of this value.

    References
    ----------
    Wang and Isola 2020, Understanding Contrastive Representation Learning through Alignment and Uniformity on the
    Hypersphere; Lu et al. 2023, CLID, arXiv:2206.01251, Eq. 1; Dubois et al. 2023, arXiv:2302.03068, Appendix F.6.

    Examples
    --------
    >>> alignment([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 3.0]]])
    1.0
    """
    require_number(alpha, "alpha", above=0)
    rows, numbers = views_of(z, ids, needed_for="alignment")
    require_varied(rows, "z", needed_for="alignment")
    return _alignment(rows, numbers, alpha, normalise)


def uniformity(z: Any, *, t: float = 2.0, normalise: bool = True) -> float:
    """Log of the mean Gaussian potential exp(-t d**2) of the Euclidean distance d, over all pairs of features.

    Parameters
    ----------
    z : float array, shape (n, dim)
    t : float
        Above 0.
    normalise : bool
        Whether features are divided by their Euclidean length first.

    Returns
    -------
    float
        0 or below; lower is better, 0 means that all features are the same; normalised ones have at least -2 t n /
        (n - 1).

    Raises
    ------
    DataError
        If there is one row only; on NaN or infinity; if a row is all 0 and is to be normalised, or if distances
        overflow float64.
    QueryError
        If t is not above 0.

    Notes
    -----
    Exact: every pair counts once, in blocks of 2,048 rows by 2,048. Products of many float32 rows are taken in float32.
    |a|**2 + |b|**2 - 2 ab of unit vectors loses all digits where features lie close together, as 1 - cos does.
    Therefore the mean is subtracted from the normalised features first, in float64, and exp(-x) - 1 is summed, so that
    errors are relative to the spread of the features and not to their length.

    References
    ----------
    Wang and Isola 2020; Dubois et al. 2023, arXiv:2302.03068, Appendix F.6, who publish the log of the mean over a
    thousand random parts of the data.

    Examples
    --------
    >>> uniformity([[1.0, 0.0], [0.0, 5.0]])
    -4.0
    """
    require_number(t, "t", above=0)
    rows = features_of(z, least=2, needed_for="uniformity")
    require_varied(rows, "z", needed_for="uniformity")
    return _uniformity(rows, t, normalise, None)


def contrast(z: Any, ids: Any = None, *, alpha: float = 2.0, t: float = 2.0) -> Contrast:
    """Alignment plus uniformity of normalised views of images.

    Parameters
    ----------
    z, ids
        As for :func:`alignment`: shape (n_images, n_views, dim), or (n_rows, dim) with ids.
    alpha, t : float
        Of alignment and of uniformity.

    Returns
    -------
    Contrast
        ``value`` is dimensionless; lower is better (CLID ranks by its negative). Its uniformity is over pairs of views
        of different images, as Eq. 1 draws them.

    Raises
    ------
    DataError, QueryError
        As :func:`alignment` and :func:`uniformity`.

    References
    ----------
    Lu et al. 2023, CLID, arXiv:2206.01251, Section 3.2.

    Examples
    --------
    >>> contrast([[[1.0, 0.0], [2.0, 0.0]], [[-1.0, 0.0], [-3.0, 0.0]]]).value
    -8.0
    """
    require_number(alpha, "alpha", above=0)
    require_number(t, "t", above=0)
    rows, numbers = views_of(z, ids, needed_for="contrast")
    require_varied(rows, "z", needed_for="contrast")
    counts = np.bincount(numbers)
    aligned, uniform = _alignment(rows, numbers, alpha, True), _uniformity(rows, t, True, numbers)
    return Contrast(
        value=aligned + uniform,
        alignment=aligned,
        uniformity=uniform,
        n_images=len(counts),
        n_views=(int(counts.min()), int(counts.max())),
    )


def unit_rows(rows: Array, which: Array) -> torch.Tensor:
    """The rows with these numbers in float64, each divided by its Euclidean length; refuses one that is all 0."""
    piece = torch.from_numpy(rows[which].astype(np.float64))
    largest = torch.linalg.vector_norm(piece, ord=math.inf, dim=1, keepdim=True)  # so that no square is out of range
    if not bool(largest.all()):
        row = int(which[int((largest[:, 0] == 0).nonzero()[0])])
        raise DataError(
            f"Row {row} of z is all 0 and has no direction, so that it cannot be normalised: leave that image out, or "
            "check what the encoder makes of it."
        )
    piece /= largest
    return piece.div_(torch.linalg.vector_norm(piece, dim=1, keepdim=True))


def all_unit_rows(rows: Array) -> torch.Tensor:
    """All rows in float64, each divided by its Euclidean length."""
    found = torch.empty(rows.shape, dtype=torch.float64)
    for part in pieces(*rows.shape):
        found[part] = unit_rows(rows, np.arange(part.start, part.stop))
    return found


def _alignment(rows: Array, numbers: Array, alpha: float, normalise: bool) -> float:
    largest = 1.0 if normalise else float(np.abs(rows).max())
    if largest == 0:
        return 0.0
    counts = np.bincount(numbers)
    order = np.argsort(numbers, kind="stable")
    first = np.cumsum(counts) - counts
    total = 0.0
    for n_views in np.unique(counts).tolist():
        images = np.flatnonzero(counts == n_views)
        step = max(1, _PIECE_BYTES // (8 * n_views * rows.shape[1]))
        for start in range(0, len(images), step):
            part = images[start : start + step]
            which = order[first[part][:, None] + np.arange(n_views)].ravel()
            piece = unit_rows(rows, which) if normalise else torch.from_numpy(rows[which] / np.float64(largest))
            total += _mean_powers(piece.reshape(len(part), n_views, -1), alpha)
    mean = total / len(counts)
    if mean and math.log(mean) + alpha * math.log(largest) > 700:
        raise DataError(f"The distances of z to the power {alpha:g} overflow float64: scale z, or normalise.")
    return float(mean * largest**alpha) if mean else 0.0


def _mean_powers(views: torch.Tensor, alpha: float) -> float:
    """Sum over images of the mean of |a - b|**alpha over pairs of their views; ``views`` is (m, n_views, dim)."""
    n_views = views.shape[1]
    if alpha == 2:  # the squared distances of all pairs add up to the squared distances from the mean, n_views times
        views = views - views[:, :1]  # so that equal ones are at 0 to the last digit
        return float(2 * (views - views.mean(dim=1, keepdim=True)).square().sum() / (n_views - 1))
    total = 0.0
    for lag in range(1, n_views):
        distances = torch.linalg.vector_norm(views[:, lag:] - views[:, :-lag], dim=2)
        total += float(distances.pow(alpha).sum())
    return total / (n_views * (n_views - 1) / 2)


def _uniformity(rows: Array, t: float, normalise: bool, images: Array | None) -> float:
    """Uniformity over all pairs of rows, or over those of different images if ``images`` numbers each row."""
    n, dim = rows.shape
    single = rows.dtype == np.float32 and n * n * dim / 2 > _FLOAT32_FROM
    points = _centred(rows, normalise)
    squared = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64).square_()
    mean, most = 2 * t * float(squared.mean()) * n / (n - 1), 4 * t * float(squared.max())  # of t d**2; most at most
    if not math.isfinite(most * n):
        raise DataError("The distances of z overflow float64: scale z, or normalise.")
    near, far = mean <= _EXPM1_BELOW, most > _LOGSUMEXP_ABOVE
    if single and (near or not far):
        points = points.float()
        squared = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64).square_().float()  # as they are now
    numbers = None if images is None else torch.from_numpy(images)
    total, n_pairs = 0.0 if near or not far else -math.inf, n * (n - 1) // 2
    for i, j in _blocks(n):
        found = (points[i] @ points[j].T).mul_(2 * t)
        found.sub_(t * squared[i][:, None]).sub_(t * squared[j]).clamp_(max=0)  # -t d**2
        left_out = torch.zeros((), dtype=torch.bool)
        if numbers is not None:
            left_out = numbers[i][:, None] == numbers[j]
            n_left_out = int(left_out.sum())
            n_pairs -= (n_left_out - len(found)) // 2 if i == j else n_left_out
        if i == j:
            left_out = left_out | torch.ones(found.shape, dtype=torch.bool).tril_()
        if near or not far:
            found = found.expm1_() if near else found.exp_()
            total += float((found.masked_fill_(left_out, 0) if left_out.ndim else found).sum(dtype=torch.float64))
        else:
            found.masked_fill_(left_out, -math.inf)
            total = float(np.logaddexp(total, float(torch.logsumexp(found.flatten(), dim=0))))
    if near:
        return math.log1p(total / n_pairs)
    return math.log(total / n_pairs) if not far else total - math.log(n_pairs)


def _centred(rows: Array, normalise: bool) -> torch.Tensor:
    """Rows in float64, of length 1 if ``normalise``, less their mean."""
    points = all_unit_rows(rows) if normalise else torch.from_numpy(rows.astype(np.float64))
    return points.sub_(points.mean(dim=0))


def _blocks(n: int) -> Iterator[tuple[slice, slice]]:
    """Each unordered pair of blocks of rows once, including a block with itself."""
    for i in range(0, n, _BLOCK_ROWS):
        for j in range(i, n, _BLOCK_ROWS):
            yield slice(i, min(i + _BLOCK_ROWS, n)), slice(j, min(j + _BLOCK_ROWS, n))
