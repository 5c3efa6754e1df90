"""Metrics of views: LiDAR, alignment, uniformity, contrast.

LiDAR is the effective rank of the scatter between images, whitened by the scatter of views within images: the
eigenvalues of W^-1/2 B W^-1/2 are those of R^-T B R^-1 for any R with R'R = W. R is the triangular factor of the
deviations of views from the mean of their image, in float64, which are never squared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, format_range
from ...optional import require_extra
from ..arrays import Array
from ..eigen import compute_eigvalsh, compute_svd
from .arrays import (
    check_feature_rows,
    check_views,
    compute_triangular_factor,
    iterate_slices,
    require_number,
    require_varied,
)

with require_extra("evaluate", needed_for="A metric of views"):
    import numpy as np
    import torch
    from scipy.special import fdtri
    from torch import Tensor

NOISE_UNITS = 32.0  # of rounding, up to which a deviation is rounding: stored numbers have 1, computed ones some ten
_OF_ROWS = 1e-13  # relative precision of the triangular factor of rows
ONE_IN = 1000  # ratio_of_noise is exceeded in one of so many cases where all images are alike
_MOSTLY_NOISE = 2.0  # ratio below which most of the variance of the means of images is noise
_JUDGED_ROWS = 2048  # by which the precision of stored numbers is told
_PIECE_BYTES = 1 << 22  # of views whose distances are taken together
_BLOCK_ROWS = 2048  # whose distances to as many others are in memory at a time
_FLOAT32_FROM = 2e10  # multiplications of all pairs; with fewer, float32 saves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Lidar:
    """LiDAR of a representation, and what it rests on."""

    value: float  # dimensions, 1 to dim plus what eps adds; higher is better
    n_images: int  # n of the paper, the surrogate classes
    n_views: tuple[int, int]  # q of the paper: of the image with the fewest views, and with the most
    dim: int
    rank_within: int  # directions in which views of one image differ by more than rounding; dim if there is a delta
    delta: float
    eps: float
    ratio: float | None
    """n_views times the variance of the means of images over that of views of one image, mean over features.

    About 1 if images do not differ, for then the mean of views varies 1 / n_views as much as a view. None if it is not
    defined: no feature varies within images, or numbers of views differ and only their extremes are known.
    """
    ratio_of_noise: float | None
    """What the ratio exceeds in 1 of 1,000 cases if images do not differ.

    The quantile of an F distribution of (n_images - 1) d and (n_rows - n_images) d degrees of freedom, d = dim**2 over
    the sum of squared correlations of the features within images (Box 1954; Dempster 1958).
    """
    notes: tuple[str, ...] = ()


def lidar(z: Any, ids: Any = None, *, delta: float = 0.0, eps: float = 1e-7) -> Lidar:
    """LiDAR of views of images: exp of the entropy of the eigenvalues of Sigma_w^-1/2 Sigma_b Sigma_w^-1/2.

    Sigma_b is the covariance of the mean views of images and Sigma_w that of views around the mean of their image, both
    unbiased: divided by n_images - 1, and by the number of views less that of images. All dim eigenvalues, zeros
    included, are normalised to sum to 1.

    The mean of q views is not the expectation over augmentations: Sigma_b comes out larger by about Sigma_w / q, so
    that a dimension of pure noise has an eigenvalue near 1 / q instead of 0, and LiDAR counts it in part: where no
    image differs from another, nearly all dimensions. ``ratio`` detects that, and ``notes`` say so; it has little power
    with few images or views. Compare representations at the same n and q. The paper finds n = 1,000, q = 50 enough for
    I-JEPA, data2vec and DINO, and takes n = 5,000, q = 10 for SimCLR and n = 10,000, q = 10 for VICReg.

    Raises DataError if there are fewer than two images or an image has one view; on NaN or infinity; if ids do not
    match the rows; if all rows are equal, or all means; and if images differ in a direction in which the views of an
    image never do, for instance because there are fewer views than dimensions: its eigenvalue would be infinite;
    QueryError if delta or eps is negative or not finite.

    Source: Thilak et al. 2023, LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL Architectures,
    arXiv:2312.04000, Eq. 1 and 2, Section 4.3.

    >>> means = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    >>> views = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = lidar(means[:, None] + views)
    >>> round(found.value, 4), found.n_images, found.n_views
    (2.0, 4, (4, 4))

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n_rows, dim) with ``ids``
        Representations or embeddings of augmented images, neither centred nor scaled.
    ids : n_rows numbers or names, optional
        Which image each row is a view of, in any order; two views of each or more, not necessarily equally many.
    delta : float
        Added to the diagonal of Sigma_w, in squared units of the features. 0 stands for the limit of ever smaller ones,
        which is the same at any scale of the features and for every invertible linear map of them: directions that no
        view uses, as in a collapsed representation, have the eigenvalue 0. The precision of the stored numbers decides
        what counts as used: about 4e-6 of a column's size in float32.
    eps : float
        Added to each normalised eigenvalue, so that an eigenvalue of 0 contributes to the entropy, too.

    Returns
    -------
    Lidar
        ``value`` is in dimensions; higher is better, 1 means that images differ in one direction only.
    """
    rows, numbers = check_views(z, ids, needed_for="LiDAR")
    require_number(delta, "delta", least=0)
    require_number(eps, "eps", least=0)
    require_varied(rows, "z", needed_for="LiDAR")
    views = group_views(rows, numbers)
    factor = compute_triangular_factor(views.deviations())
    return compute_lidar(
        factor / (len(rows) - len(views.counts)) ** 0.5,
        views.centred_means() / (len(views.counts) - 1) ** 0.5,
        views.counts,
        noise=get_unit_roundoff(rows) * views.sizes(factor.square().sum(dim=0)),
        error=_OF_ROWS,
        delta=delta,
        eps=eps,
    )


def compute_lidar(
    root: Tensor, means: Tensor, counts: Tensor, *, noise: Tensor, error: float, delta: float, eps: float
) -> Lidar:
    """LiDAR from R and M (k, dim), R'R the covariance within images and M'M that between their means.

    ``counts`` are the views of each image, ``noise`` (dim,) is the standard deviation of the rounding of each feature,
    and ``error`` the precision of R and M relative to their norms.
    """
    noise = NOISE_UNITS * noise
    n_images, dim, freedom = len(counts), root.shape[1], int(counts.sum()) - len(counts)
    least, most = int(counts.min()), int(counts.max())
    images = f"{n_images} images of {format_range(least, most)} views"
    if freedom < dim:
        images += f" give {freedom} deviations, fewer than the {dim} dimensions"
    infinite = DataError(
        "Images differ in a direction in which the views of one image never do, so that LiDAR is infinite there "
        f"({images}); give it more views or images, or a delta above 0."
    )
    within, across = root.square().sum(dim=0), means.square().sum(dim=0)
    if n_images < 2 or not bool((across > noise.square()).any()):
        raise DataError(
            f"The mean of the views is the same for every image ({images}), so that LiDAR is not defined: "
            "the representation has collapsed, images differ by less than the precision of the numbers, or ids do not "
            "say which rows are views of one image."
        )
    varying = within > noise.square()
    outside = bool((~varying & (across > noise.square())).any())
    chance = None
    if bool(varying.any()) and not outside:
        unit = root[:, varying] / within[varying].sqrt()
        squared = float((unit @ unit.T).square().sum())  # the norm of the correlations within images
        chance = _noise_ratio(across[varying] / within[varying], squared, counts)
    if delta:
        added = torch.full_like(noise, delta**0.5)
        root = torch.linalg.qr(torch.cat([root, torch.diag(added)]), mode="r")[1]
        spectrum, rank = _squares(torch.linalg.solve_triangular(root.mT, means.mT, upper=False)), dim
    else:
        counted = noise > 0
        means = means[:, counted] / noise[counted]
        _, lengths, directions = compute_svd(root[:, counted] / noise[counted])
        used = lengths > max(1.0, error * float(lengths[0]))
        lengths, directions = lengths[used], directions[used]
        along = means @ directions.T
        rest = means - along @ directions
        if outside or float(_squares(rest)[0]) > 1 + (error * float(means.norm())) ** 2:
            raise infinite
        spectrum, rank = _squares(along / lengths), len(lengths)
    shares = spectrum / spectrum.sum() + eps
    zeros = dim - len(spectrum)
    entropy = -torch.special.xlogy(shares, shares).sum() - zeros * (eps * math.log(eps) if eps else 0.0)
    return Lidar(
        value=float(entropy.exp()),
        n_images=n_images,
        n_views=(least, most),
        dim=dim,
        rank_within=rank,
        delta=delta,
        eps=eps,
        ratio=None if chance is None else chance[0],
        ratio_of_noise=None if chance is None else chance[1],
        notes=() if chance is None else _notes(*chance),
    )


def _noise_ratio(ratios: Tensor, squared_correlations: float, counts: Tensor) -> tuple[float, float]:
    """Variance of the means of images over that expected by chance, and what it exceeds in 1 of ``ONE_IN`` cases.

    ``ratios`` (k,) are variances of the means over those within images, of the features that vary, and
    ``squared_correlations`` is the sum of the squares of the correlations (k, k) within images.
    """
    k, n_images, freedom = len(ratios), len(counts), int(counts.sum()) - len(counts)
    ratio = float(n_images / (1 / counts).sum() * ratios.mean())
    unbiased = squared_correlations  # of tr(C**2), which sampling adds k**2 / freedom to
    if freedom > 1:
        unbiased = freedom**2 / ((freedom + 2) * (freedom - 1)) * (squared_correlations - k**2 / freedom)
    d = min(max(k**2 / unbiased, 1.0), k) if unbiased > 0 else k  # effective number of independent features
    bias = freedom / (freedom - 2) if freedom > 2 else 1.0  # of a ratio of variances
    return ratio, bias * float(fdtri((n_images - 1) * d, freedom * d, 1 - 1 / ONE_IN))


def _notes(ratio: float, by_chance: float) -> tuple[str, ...]:
    if ratio <= by_chance:
        return (
            f"Nothing says that images differ: the means of their views vary {ratio:.3g} times as much as chance lets "
            f"them (by chance up to {by_chance:.3g} times), so the value measures noise.",
        )
    if ratio < _MOSTLY_NOISE:
        return (
            f"{100 / ratio:.0f} % of how the means of views vary from image to image is chance, so the value measures "
            "much noise: take more views of each image.",
        )
    return ()


def _squares(matrix: Tensor) -> Tensor:
    """Eigenvalues of the smaller one of B'B and BB', descending: they share all but zeros."""
    narrow = matrix.mT if matrix.shape[0] < matrix.shape[1] else matrix
    return compute_eigvalsh(narrow.T @ narrow).flip(0).clamp_min(0) if narrow.numel() else torch.zeros(1).double()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedViews:
    """Rows of images, and the mean of each image."""

    rows: Array  # (n_rows, dim)
    ids: Tensor  # int64 (n_rows,): number of the image of each row
    counts: Tensor  # float64 (n_images,): views of each image
    means: Tensor  # float64 (n_images, dim)

    def deviations(self) -> Iterator[Tensor]:
        """Deviations of the rows from the mean of their image, float64 (m, dim), piece by piece."""
        for part in iterate_slices(*self.rows.shape):
            yield torch.from_numpy(self.rows[part].astype(np.float64)) - self.means[self.ids[part]]

    def centred_means(self) -> Tensor:
        """Means of images, less the mean of these, float64 (n_images, dim)."""
        return self.means - self.means.mean(dim=0)

    def sizes(self, squared_deviations: Tensor) -> Tensor:
        """Root of the mean square of each column, by which its rounding is judged, float64 (dim,)."""
        return ((squared_deviations + self.counts @ self.means.square()) / len(self.rows)).sqrt()


def group_views(rows: Array, ids: Array) -> GroupedViews:
    """Rows (n_rows, dim) with the means of their images; ``ids`` are int64 (n_rows,), from 0 without gaps."""
    numbers = torch.from_numpy(np.ascontiguousarray(ids))
    counts = torch.bincount(numbers).double()
    sums = torch.zeros((len(counts), rows.shape[1]), dtype=torch.float64)
    for part in iterate_slices(*rows.shape):
        sums.index_add_(0, numbers[part], torch.from_numpy(rows[part].astype(np.float64)))
    return GroupedViews(rows=rows, ids=numbers, counts=counts, means=sums / counts[:, None])


def get_unit_roundoff(rows: Array) -> float:
    """Largest relative rounding error of a stored number of the rows: half a unit in the last place.

    float64 numbers that are float32 numbers were stored as float32 once, and float32 numbers that are half-precision
    numbers were rounded by the encoder.

    >>> get_unit_roundoff(np.ones((2, 2), dtype=np.float32)) == 2.0**-24
    True
    """
    some = torch.from_numpy(np.array(rows[:_JUDGED_ROWS]))
    if rows.dtype == np.float64:
        return 2.0**-24 if bool((some.float().double() == some).all()) else 2.0**-53
    for kind, unit in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        if bool((some.to(kind).float() == some).all()) and not bool((some == some.round()).all()):
            return unit  # small whole numbers are exact in any precision
    return 2.0**-24


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

    Raises DataError if there are fewer than two images or an image has one view; on NaN or infinity; if ids do not
    match the rows; if a row is all 0 and is to be normalised, or if the value overflows float64; QueryError if alpha is
    not above 0.

    Source: Wang and Isola 2020, Understanding Contrastive Representation Learning through Alignment and Uniformity on
    the Hypersphere; Lu et al. 2023, CLID, arXiv:2206.01251, Eq. 1; Dubois et al. 2023, arXiv:2302.03068, Appendix F.6.

    >>> alignment([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 3.0]]])
    1.0

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
    """
    require_number(alpha, "alpha", above=0)
    rows, numbers = check_views(z, ids, needed_for="alignment")
    require_varied(rows, "z", needed_for="alignment")
    return _alignment(rows, numbers, alpha, normalise)


def uniformity(z: Any, *, t: float = 2.0, normalise: bool = True) -> float:
    """Log of the mean Gaussian potential exp(-t d**2) of the Euclidean distance d, over all pairs of features.

    Exact: every pair counts once. Products of many float32 rows are taken in float32. The mean is subtracted from the
    normalised features first, in float64, so that errors are relative to their spread and not to their length.

    Raises DataError if there is one row only; on NaN or infinity; or if a row is all 0 and is to be normalised;
    QueryError if t is not above 0.

    Source: Wang and Isola 2020; Dubois et al. 2023, arXiv:2302.03068, Appendix F.6, who publish the log of the mean
    over a thousand random parts of the data.

    >>> uniformity([[1.0, 0.0], [0.0, 5.0]])
    -4.0

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
    """
    require_number(t, "t", above=0)
    rows = check_feature_rows(z, least=2, needed_for="uniformity")
    require_varied(rows, "z", needed_for="uniformity")
    return _uniformity(rows, t, normalise, None)


def contrast(z: Any, ids: Any = None, *, alpha: float = 2.0, t: float = 2.0) -> Contrast:
    """Alignment plus uniformity of normalised views of images.

    Arguments and errors are those of :func:`alignment`, with views of shape (n_images, n_views, dim), and of
    :func:`uniformity`. The ``value`` of the record is dimensionless; lower is better (CLID ranks by its negative). Its
    uniformity is over pairs of views of different images, as Eq. 1 draws them.

    Source: Lu et al. 2023, CLID, arXiv:2206.01251, Section 3.2.

    >>> contrast([[[1.0, 0.0], [2.0, 0.0]], [[-1.0, 0.0], [-3.0, 0.0]]]).value
    -8.0
    """
    require_number(alpha, "alpha", above=0)
    require_number(t, "t", above=0)
    rows, numbers = check_views(z, ids, needed_for="contrast")
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


def normalise_rows(rows: Array, which: Array) -> Tensor:
    """The rows with these numbers in float64, each divided by its Euclidean length; refuses one that is all 0."""
    piece = torch.from_numpy(rows[which].astype(np.float64))
    lengths = torch.linalg.vector_norm(piece, dim=1, keepdim=True)
    if not bool(lengths.all()):
        raise DataError(
            f"Row {int(which[int(lengths[:, 0].argmin())])} of z is all 0 and has no direction, so that it cannot be "
            "normalised: leave that image out, or check what the encoder makes of it."
        )
    return piece.div_(lengths)


def normalise_all_rows(rows: Array) -> Tensor:
    """All rows in float64, each divided by its Euclidean length."""
    return torch.cat([normalise_rows(rows, np.arange(part.start, part.stop)) for part in iterate_slices(*rows.shape)])


def _alignment(rows: Array, numbers: Array, alpha: float, normalise: bool) -> float:
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
            piece = normalise_rows(rows, which) if normalise else torch.from_numpy(rows[which].astype(np.float64))
            total += _mean_powers(piece.reshape(len(part), n_views, -1), alpha)
    if not math.isfinite(total):
        raise DataError(f"The distances of z to the power {alpha:g} overflow float64: scale z, or normalise.")
    return total / len(counts)


def _mean_powers(views: Tensor, alpha: float) -> float:
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
    points = normalise_all_rows(rows) if normalise else torch.from_numpy(rows.astype(np.float64))
    points = points.sub_(points.mean(dim=0))
    if normalise and rows.dtype == np.float32 and n * n * dim / 2 > _FLOAT32_FROM:
        points = points.float()
    squared = torch.linalg.vector_norm(points, dim=1, dtype=torch.float64).square_()
    numbers = torch.arange(n) if images is None else torch.from_numpy(images)
    total, n_pairs = -math.inf, 0
    for i in range(0, n, _BLOCK_ROWS):
        for j in range(i, n, _BLOCK_ROWS):
            one, other = slice(i, i + _BLOCK_ROWS), slice(j, j + _BLOCK_ROWS)
            found = (points[one] @ points[other].T).double().mul_(2 * t)
            found.sub_(t * squared[one][:, None]).sub_(t * squared[other]).clamp_(max=0)  # -t d**2
            counted = numbers[one][:, None] != numbers[other]
            if i == j:
                counted = counted.triu()
            found = found[counted]
            n_pairs += len(found)
            total = float(np.logaddexp(total, float(torch.logsumexp(found, dim=0)))) if len(found) else total
    return total - math.log(n_pairs)
