"""LiDAR: effective rank of the scatter between images, whitened by the scatter of views within images.

The eigenvalues of W^-1/2 B W^-1/2 are those of R^-T B R^-1 for any R with R'R = W. R is the Cholesky factor of float64
sums of products if that is precise enough, which is checked on the rows: columns v of R^-1 Z for random Z must have
v'Wv = z'z, with v'Wv from the deviations themselves. Where it is not, or views do not use some direction, R is the
triangular factor of the deviations, which are never squared.

Sums are over deviations from the mean of an image, formed in float64, so that features far from the origin lose no
digits; columns are scaled by powers of two, so that features of any size stay in range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array
from ..eigen import eigh, svd
from .arrays import pieces, require_number, require_varied, views_of
from .spectrum import Products, eigenvalues, rounding_of_lapack, second_moments, triangular_factor

with requires_extra("evaluate", needed_for="LiDAR"):
    import numpy as np
    import torch
    from scipy.special import fdtri
    from torch import Tensor

_NOISE_UNITS = 32.0  # of rounding, up to which a deviation is rounding: stored numbers have 1, computed ones some ten
ONE_IN = 1000  # ratio_of_noise is exceeded in one of so many cases where all images are alike
_MOSTLY_NOISE = 2.0  # ratio below which most of the variance of the means of images is noise
_CHOLESKY_ERROR = 1e-7  # tolerated relative error of every eigenvalue, which moves LiDAR by some ten times as much
_CHECKED_DIRECTIONS = 32  # random ones in which that is checked


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

    Raises
    ------
    DataError
        If there are fewer than two images or an image has one view; on NaN or infinity; if ids do not match the rows;
        if all rows are equal, or all means; and if images differ in a direction in which the views of an image never
        do, for instance because there are fewer views than dimensions: its eigenvalue would be infinite.
    QueryError
        If delta or eps is negative or not finite.

    Notes
    -----
    The mean of q views is not the expectation over augmentations: Sigma_b comes out larger by about Sigma_w / q, so
    that a dimension of pure noise has an eigenvalue near 1 / q instead of 0, and LiDAR counts it in part: where no
    image differs from another, nearly all dimensions. ``ratio`` detects that, and ``notes`` say so. It has little power
    with few images or few views, or where images differ in few of many features: m features that differ by a share s of
    their variance within images add n_views * s * m / dim to it. Compare representations at the same n and q. The paper
    finds n = 1,000, q = 50 enough for I-JEPA, data2vec and DINO, and takes n = 5,000, q = 10 for SimCLR and n = 10,000,
    q = 10 for VICReg, whose features are longer.

    The value depends on rows as a set, not on their order. Memory: the features, the float64 means of images, and about
    five matrices of 8 dim**2 bytes.

    References
    ----------
    Thilak et al. 2023, LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL Architectures,
    arXiv:2312.04000, Eq. 1 and 2, Section 4.3.

    Examples
    --------
    >>> means = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    >>> views = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = lidar(means[:, None] + views)
    >>> round(found.value, 4), found.n_images, found.n_views
    (2.0, 4, (4, 4))
    """
    rows, numbers = views_of(z, ids, needed_for="LiDAR")
    require_number(delta, "delta", least=0)
    require_number(eps, "eps", least=0)
    require_varied(rows, "z", needed_for="LiDAR")
    views = grouped(rows, numbers)
    spectrum, rank, noise = _discriminative(views, delta=delta, unit=unit_roundoff(z, rows))
    return _lidar(
        spectrum, rank, noise, dim=views.dim, n_images=views.n_images, n_views=views.n_views, delta=delta, eps=eps
    )


def lidar_of_covariances(
    within: Any,
    between: Any,
    *,
    n_images: int,
    n_views: int | tuple[int, int],
    delta: float = 0.0,
    eps: float = 1e-7,
    rounding: Any = None,
    error: Any = None,
) -> tuple[Lidar, float]:
    """LiDAR from the covariances within and between images, and a bound of the relative error of its eigenvalues.

    ``within`` (dim, dim) is the unbiased covariance of views around the mean of their image, without a delta, and
    ``between`` that of these means; ``n_views`` is that of every image, or the fewest and the most. Directions are
    unused if their variance is below the rounding of float64 sums and of their eigenvalues relative to the largest,
    which is coarser than what :func:`lidar` resolves from rows; or, with ``rounding`` (dim,), the standard deviation of
    the rounding of each feature before it was added up, if they vary by no more than some of it. Entry (i, j) of
    ``within`` is off by at most sqrt(e_i e_j) for e = ``error``, (dim,).

    >>> round(lidar_of_covariances(np.eye(3), np.diag([1.0, 1.0, 0.0]), n_images=9, n_views=5, eps=0.0)[0].value, 6)
    2.0
    """
    require_number(delta, "delta", least=0)
    require_number(eps, "eps", least=0)
    least, most = (n_views, n_views) if isinstance(n_views, int) else n_views
    if n_images < 2 or least < 2 or most < least:
        raise QueryError(
            f"n_images is {n_images} and n_views is {n_views}, expected at least 2 images of at least 2 views each."
        )
    within, between = _covariance(within, "within"), _covariance(between, "between")
    if within.shape != between.shape:
        raise DataError(
            f"within has the shape {tuple(within.shape)} and between {tuple(between.shape)}, expected two "
            "covariance matrices of the same features."
        )
    dim = len(within)
    noise = torch.zeros(dim, dtype=torch.float64)
    if rounding is not None:
        noise = _NOISE_UNITS * torch.as_tensor(np.asarray(rounding, dtype=np.float64))
    bound = torch.zeros_like(noise) if error is None else torch.as_tensor(np.asarray(error, dtype=np.float64))
    spectrum, rank, relative_error = _of_covariances(
        within, between, delta=delta, views=_counted(n_images, least, most), noise=noise, error=bound
    )
    ratio = None
    if least == most:
        varying = within.diagonal() > torch.maximum(noise.square(), bound)
        variances = within.diagonal()[varying]
        squared = float((within[varying][:, varying].square_() / torch.outer(variances, variances)).sum())
        if len(variances):
            ratio = _noise_ratio(
                variances,
                between.diagonal()[varying],
                squared,
                n_images=n_images,
                n_views=float(least),
                freedom=n_images * (least - 1),
            )
    found = _lidar(
        spectrum[: n_images - 1], rank, ratio, dim=dim, n_images=n_images, n_views=(least, most), delta=delta, eps=eps
    )  # n - 1 means are independent
    return found, relative_error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Views:
    """Rows of images, and the mean of each image."""

    rows: Array  # (n_rows, dim)
    ids: Tensor  # int64 (n_rows,): number of the image of each row
    counts: Tensor  # float64 (n_images,): views of each image
    means: Tensor  # float64 (n_images, dim)
    scale: Tensor  # float64 (dim,): powers of two that bring the largest number of a column to 0.5 to 1; 1 for zeros

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    @property
    def n_images(self) -> int:
        return len(self.counts)

    @property
    def within_freedom(self) -> int:
        """Rows less images: the divisor of the scatter within images, and the largest rank that it can have."""
        return len(self.rows) - self.n_images

    @property
    def n_views(self) -> tuple[int, int]:
        """Views of the image with the fewest, and with the most."""
        return int(self.counts.min()), int(self.counts.max())

    def deviations(self) -> Iterator[Tensor]:
        """Scaled deviations of the rows from the mean of their image, float64 (m, dim), piece by piece."""
        for part in pieces(len(self.rows), self.dim):
            piece = _tensor(self.rows[part]).to(torch.float64, copy=True)
            yield piece.sub_(self.means[self.ids[part]]).mul_(self.scale)

    def squared_deviations(self) -> Tensor:
        """Sum of the squares of each column of :meth:`deviations`, float64 (dim,)."""
        total = torch.zeros_like(self.scale)
        for piece in self.deviations():
            total += piece.square_().sum(dim=0)
        return total

    def centred_means(self) -> Tensor:
        """Scaled means of images, less the mean of these, float64 (n_images, dim)."""
        return (self.means - self.means.mean(dim=0)).mul_(self.scale)

    def noise(self, squared_deviations: Tensor, unit: float) -> Tensor:
        """Standard deviation, in scaled units, up to which a column may vary by rounding alone, float64 (dim,).

        ``unit`` is the relative error of the stored numbers (:func:`unit_roundoff`).
        """
        squares = squared_deviations + self.counts @ (self.means * self.scale).square_()
        return _NOISE_UNITS * unit * (squares / len(self.rows)).sqrt()


def grouped(rows: Array, ids: Array) -> Views:
    """Rows (n_rows, dim) with the means of their images; ``ids`` are int64 (n_rows,), from 0 without gaps."""
    numbers = torch.from_numpy(np.ascontiguousarray(ids))
    counts = torch.bincount(numbers).double()
    sums = torch.zeros((len(counts), rows.shape[1]), dtype=torch.float64)
    largest = torch.zeros(rows.shape[1], dtype=torch.float64)
    for part in pieces(*rows.shape):
        piece = _tensor(rows[part]).double()
        sums.index_add_(0, numbers[part], piece)
        largest = torch.maximum(largest, torch.maximum(-piece.amin(dim=0), piece.amax(dim=0)))
    scale = torch.where(largest > 0, torch.exp2(-torch.frexp(largest)[1].double()), torch.ones_like(largest))
    return Views(rows=rows, ids=numbers, counts=counts, means=sums / counts[:, None], scale=scale)


def unit_roundoff(given: Any, rows: Array) -> float:
    """Largest relative rounding error of a stored number of the rows: half a unit in the last place.

    float64 numbers all of which are float32 numbers were stored as float32 once.

    >>> unit_roundoff(None, np.ones((2, 2), dtype=np.float32)) == 2.0**-24
    True
    """
    kind = str(getattr(given, "dtype", ""))
    if kind.endswith("bfloat16"):
        return 2.0**-8
    if kind.endswith("float16"):
        return 2.0**-11
    if rows.dtype == np.float32:
        return _roundoff_of_single(rows)
    with np.errstate(over="ignore", under="ignore"):
        for part in pieces(*rows.shape):
            if not np.array_equal(rows[part], rows[part].astype(np.float32)):
                return 2.0**-53
    return 2.0**-24


def _roundoff_of_single(rows: Array) -> float:
    """Of float32 numbers, which an encoder that computes in half precision has rounded before."""
    for kind, unit in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        halves, whole = True, True
        for part in pieces(*rows.shape):
            piece = _tensor(rows[part])
            halves = bool((piece.to(kind).float() == piece).all())
            whole = whole and bool((piece == piece.round()).all())
            if not halves:
                break
        if halves and not whole:  # small whole numbers are exact in any precision
            return unit
    return 2.0**-24


_Noise = tuple[float, float] | None  # the ratio of noise, and what it exceeds in one of ONE_IN cases


def _discriminative(views: Views, *, delta: float, unit: float) -> tuple[Tensor, int, _Noise]:
    """Nonzero eigenvalues of Sigma_lidar, the rank within images, and the ratio of noise.

    Refuses infinite eigenvalues, where images differ in a direction in which their views do not, and all zeros.
    """
    freedom = views.within_freedom
    within: Tensor | None = None
    triangle: tuple[Tensor, float] | None = None
    if freedom >= views.dim:
        within = second_moments(views.deviations(), views.dim)
        squares = within.diagonal()
    else:
        triangle = triangular_factor(views.deviations(), views.dim)
        squares = triangle[0].square().sum(dim=0)
    means = views.centred_means().div_((views.n_images - 1) ** 0.5)  # B'B is the covariance between images
    across, noise = means.square().sum(dim=0), views.noise(squares, unit)
    if not bool((across > noise.square()).any()):
        raise _all_zero(_described(views))
    varying = squares / freedom > noise.square()
    outside = bool((~varying & (across > noise.square())).any())
    if outside and not delta:
        raise _infinite(_described(views))
    columns = torch.nonzero(noise if delta else varying)[:, 0]  # whose directions are whitened
    added, noise, means = delta * views.scale[columns].square(), noise[columns], means[:, columns]
    ratio = None
    if not outside and bool(varying.any()):
        lengths = squares[varying].sqrt()
        if triangle is None:
            assert within is not None
            correlations = within[varying][:, varying].div_(lengths).div_(lengths[:, None])
        else:
            unit_columns = triangle[0][:, varying] / lengths
            correlations = unit_columns @ unit_columns.T  # of the same norm as the correlations
        ratio = _noise_ratio(
            squares[varying] / freedom,
            across[varying],
            float(correlations.square_().sum()),
            n_images=views.n_images,
            n_views=float(views.n_images / (1 / views.counts).sum()),
            freedom=freedom,
        )
    # The Cholesky factor of the sums where it is precise and views use all directions; else the triangular factor.
    root = None if within is None else _checked_cholesky(views, within, columns, added)
    if root is not None and (delta or _all_used(root / noise)):
        return _whitened(root, means), views.dim if delta else len(columns), ratio
    factor, error = triangle or triangular_factor(views.deviations(), views.dim)
    root = factor[:, columns] / freedom**0.5
    if delta:
        root = torch.cat([root, torch.diag(added.sqrt())])
    root = torch.linalg.qr(root, mode="r")[1]
    if delta:
        return _whitened(root, means), views.dim, ratio
    root, means = root / noise, means / noise
    if _all_used(root):
        return _whitened(root, means), len(columns), ratio
    spectrum, rank = _in_used_directions(root, means, error, views)
    return spectrum, rank, ratio


def _checked_cholesky(views: Views, within: Tensor, columns: Tensor, added: Tensor) -> Tensor | None:
    """Upper triangular R with R'R the covariance within images of some columns, or None if it is not precise.

    ``within`` is the sum of products of deviations, and ``added`` is added to the diagonal of the covariance. With F
    the relative error of the eigenvalues, Z' F Z of k random directions has k times its Frobenius norm; that it falls
    short of a quarter of it has a probability below 1e-6, for F of rank 1, for which it is most likely.
    """
    covariance = within[columns][:, columns].div_(views.within_freedom)
    covariance.diagonal().add_(added)
    lengths = covariance.diagonal().sqrt()
    factor, failed = torch.linalg.cholesky_ex(covariance.div_(lengths).div_(lengths[:, None]))
    if int(failed):
        return None
    root = factor.mT * lengths
    z = torch.randn(len(columns), _CHECKED_DIRECTIONS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    v = torch.linalg.solve_triangular(root, z, upper=True)
    found = torch.zeros(_CHECKED_DIRECTIONS, _CHECKED_DIRECTIONS, dtype=torch.float64)
    for piece in views.deviations():
        along = (piece if len(columns) == views.dim else piece[:, columns]) @ v
        found += along.T @ along
    found = found / views.within_freedom + v.T @ (added[:, None] * v)
    error = 4 * float(torch.linalg.matrix_norm(found - z.T @ z)) / _CHECKED_DIRECTIONS
    return root if error <= _CHOLESKY_ERROR else None


def _all_used(root: Tensor) -> bool:
    """Whether every direction varies by more than 1, for a square factor R: then no singular value is below 1."""
    if root.shape[0] != root.shape[1] or not bool(root.diagonal().all()):
        return False
    inverse = torch.linalg.solve_triangular(root, torch.eye(len(root), dtype=torch.float64), upper=True)
    return bool(torch.linalg.matrix_norm(inverse) < 1)


def _whitened(root: Tensor, means: Tensor) -> Tensor:
    """Nonzero eigenvalues of R^-T B'B R^-1, descending."""
    return _squares(torch.linalg.solve_triangular(root.mT, means.mT, upper=False))


def _in_used_directions(root: Tensor, means: Tensor, error: float, views: Views) -> tuple[Tensor, int]:
    """Eigenvalues and rank where views do not use all directions; root and means (n_images, dim) in units of noise."""
    _, lengths, directions = svd(root)
    used = lengths > max(1.0, error * float(lengths[0]))
    directions = directions[used]  # (rank, dim)
    inside = means @ directions.T
    outside = means - inside @ directions
    if float(_squares(outside)[0]) > 1 + error**2 * float(means.square().sum()):
        raise _infinite(_described(views))
    if not len(directions):
        raise _all_zero(_described(views))
    return _squares(inside / lengths[used]), int(used.sum())


def _of_covariances(
    within: Tensor, between: Tensor, *, delta: float, views: str, noise: Tensor, error: Tensor
) -> tuple[Tensor, int, float]:
    """Eigenvalues, rank and a bound of their relative error from the two covariance matrices, float64 (dim, dim).

    ``views`` describes the images in errors, ``noise`` (dim,) is the standard deviation up to which a column varies by
    rounding of the features alone, and entry (i, j) of ``within`` is off by at most sqrt(e_i e_j) for e = ``error``,
    (dim,).
    """
    within, across = within.clone(), between.diagonal()
    within.diagonal().add_(delta)
    constant = within.diagonal() <= error
    if bool((constant & (across > error)).any()):
        raise _infinite(views)
    columns = torch.nonzero(~constant)[:, 0]
    if not bool((across > 0).any()):
        raise _all_zero(views)
    within, between, error = within[columns][:, columns], between[columns][:, columns], error[columns]
    lengths, noisy = within.diagonal().sqrt(), not delta and bool((noise > 0).any())
    if noisy:
        lengths = torch.maximum(noise[columns], lengths * 2.0**-40)  # directions of less than 1 are rounding
    values, directions = eigh(within / torch.outer(lengths, lengths))
    lost = rounding_of_lapack(len(columns)) * float(values[-1]) + float((error / lengths.square()).sum())
    used = values > (max(lost, 1.0) if noisy else lost)
    rotated = directions.T @ (between / torch.outer(lengths, lengths)) @ directions
    unused = rotated[~used][:, ~used]
    rounding = rounding_of_lapack(len(columns)) * float(rotated.diagonal().sum()) + float(noisy)
    if len(unused) and float(eigenvalues(unused)[0]) > rounding:
        raise _infinite(views)
    if not bool(used.any()):
        raise _all_zero(views)
    roots = values[used].sqrt()
    spectrum = eigenvalues(rotated[used][:, used] / torch.outer(roots, roots))
    return spectrum, int(used.sum()), lost / float(values[used].min())


def _noise_ratio(
    variances: Tensor, across: Tensor, squared_correlations: float, *, n_images: int, n_views: float, freedom: int
) -> _Noise:
    """Variance of the means of images over that expected by chance, and what it exceeds in 1 of ``ONE_IN`` cases.

    ``variances`` and ``across`` (k,) are those of views within images and of the means of images, for the features that
    vary; ``squared_correlations`` the sum of the squares of the correlations (k, k) within images; ``n_views`` the
    harmonic mean over images; ``freedom`` rows less images.
    """
    k = len(variances)
    ratio = n_views * float((across / variances).mean())
    unbiased = squared_correlations  # of tr(C**2), which sampling adds k**2 / freedom to
    if freedom > 1:
        unbiased = freedom**2 / ((freedom + 2) * (freedom - 1)) * (squared_correlations - k**2 / freedom)
    d = min(max(k**2 / unbiased, 1.0), k) if unbiased > 0 else k  # effective number of independent features
    bias = freedom / (freedom - 2) if freedom > 2 else 1.0  # of a ratio of variances
    return ratio, bias * float(fdtri((n_images - 1) * d, freedom * d, 1 - 1 / ONE_IN))


def _lidar(
    spectrum: Tensor,
    rank: int,
    noise: _Noise,
    *,
    dim: int,
    n_images: int,
    n_views: tuple[int, int],
    delta: float,
    eps: float,
) -> Lidar:
    """The record, with notes for a value that mostly measures noise."""
    notes: tuple[str, ...] = ()
    if noise is not None and noise[0] <= noise[1]:
        notes = (
            f"Nothing says that images differ: the means of their views vary {noise[0]:.3g} times as much as chance "
            f"lets them (by chance up to {noise[1]:.3g} times), so the value measures noise.",
        )
    elif noise is not None and noise[0] < _MOSTLY_NOISE:
        notes = (
            f"{100 / noise[0]:.0f} % of how the means of views vary from image to image is chance, so the value "
            "measures much noise: take more views of each image.",
        )
    return Lidar(
        value=_smooth_rank(spectrum, dim, eps),
        n_images=n_images,
        n_views=n_views,
        dim=dim,
        rank_within=rank,
        delta=delta,
        eps=eps,
        ratio=None if noise is None else noise[0],
        ratio_of_noise=None if noise is None else noise[1],
        notes=notes,
    )


def _smooth_rank(spectrum: torch.Tensor, dim: int, eps: float) -> float:
    """Equation 2 for ``dim`` eigenvalues, of which those that are missing are 0."""
    largest = spectrum.max()
    shares = spectrum / largest  # so that no sum is out of range
    shares = shares / shares.sum() + eps
    zeros = dim - len(spectrum)
    entropy = -torch.special.xlogy(shares, shares).sum() - zeros * (eps * np.log(eps) if eps else 0.0)
    return float(entropy.exp())


def _covariance(matrix: Any, name: str) -> torch.Tensor:
    matrix = matrix.detach().cpu().numpy() if hasattr(matrix, "detach") else matrix
    array = np.array(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not len(array):
        raise DataError(f"{name} has the shape {array.shape}, expected a covariance matrix (dim, dim).")
    if not np.isfinite(array).all():
        raise DataError(f"{name} holds NaN or infinity, expected finite numbers.")
    sizes = np.sqrt(np.abs(np.diagonal(array)))
    if (np.diagonal(array) < 0).any() or (np.abs(array - array.T) > 1e-6 * np.outer(sizes, sizes)).any():
        raise DataError(f"{name} is no covariance matrix: it is not symmetric, or has a negative variance.")
    return torch.from_numpy((array + array.T) / 2)


def _squares(matrix: Tensor) -> Tensor:
    """Eigenvalues of the smaller one of B'B and BB', descending: they share all but zeros."""
    narrow = matrix.mT if matrix.shape[0] < matrix.shape[1] else matrix
    products = Products(narrow.shape[1])
    products.add(narrow)
    return eigenvalues(products.upper)


def _counted(n_images: int, least: int, most: int) -> str:
    return f"{n_images} images of {least if least == most else f'{least} to {most}'} views"


def _described(views: Views) -> str:
    """The images and views, for an error; also whether there are too few for the dimensions."""
    text = _counted(views.n_images, *views.n_views)
    if views.within_freedom < views.dim:
        text += f" give {views.within_freedom} deviations, fewer than the {views.dim} dimensions"
    return text


def _infinite(views: str) -> DataError:
    return DataError(
        "Images differ in a direction in which the views of one image never do, so that LiDAR is infinite there "
        f"({views}); give it more views or images, or a delta above 0."
    )


def _all_zero(views: str) -> DataError:
    return DataError(
        f"The mean of the views is the same for every image ({views}), so that LiDAR is not defined: the "
        "representation has collapsed, or ids do not say which rows are views of one image."
    )


def _tensor(rows: Array) -> Tensor:
    """Rows as a tensor; copied where torch cannot share their memory."""
    rows = np.ascontiguousarray(rows)
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())
