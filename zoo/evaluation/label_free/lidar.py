"""LiDAR: the effective rank of what tells images apart, whitened by how much views of one image differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import DataError, MissingExtra, QueryError
from ..threads import threads_for
from .arrays import require_varied, views_of
from .scatter import grouped, unit_roundoff
from .whitening import NOISE, discriminative_spectrum, spectrum_of_covariances

try:
    import numpy as np
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="LiDAR") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Lidar:
    """LiDAR of a representation.

    Attributes
    ----------
    value : float
        Dimensions, 1 to dim up to what eps adds; higher is better.
    n_images : int
        n of the paper, the surrogate classes.
    n_views : tuple of int
        q of the paper: of the image with the fewest views, and with the most.
    dim : int
    rank_within : int
        Directions in which views of one image differ by more than rounding; dim if there is a delta.
    delta, eps : float
    """

    value: float
    n_images: int
    n_views: tuple[int, int]
    dim: int
    rank_within: int
    delta: float
    eps: float


def lidar(z: Any, ids: Any = None, *, delta: float = 0.0, eps: float = 1e-7) -> Lidar:
    """LiDAR of views of images: exp of the entropy of the eigenvalues of Sigma_w^-1/2 Sigma_b Sigma_w^-1/2.

    Sigma_b is the covariance of the mean views of images and Sigma_w that of views around the mean of their image, both
    unbiased: divided by n_images - 1, and by the number of views less that of images. The eigenvalues themselves are
    normalised to sum to 1, as all dim of them, zeros included.

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n_rows, dim) with ``ids``
        Representations or embeddings of augmented images, neither centred nor scaled.
    ids : n_rows numbers or names, optional
        Which image each row is a view of, in any order; two views of each or more, not necessarily equally many.
    delta : float
        Added to the diagonal of Sigma_w, in squared units of the features. 0 stands for the limit of ever smaller ones,
        which is the same at any scale of the features and for every invertible linear map of them: directions that no
        view uses, as of a collapsed representation, have the eigenvalue 0. What counts as used is decided by the
        resolution of the numbers: about 4e-6 of a column's size in float32.
    eps : float
        Added to each normalised eigenvalue; dimensions with an eigenvalue of 0 contribute to the entropy by it.

    Returns
    -------
    Lidar
        With ``value`` in dimensions; higher is better, 1 means that one direction tells all images apart.

    Raises
    ------
    DataError
        If there are fewer than two images or an image has one view; if there is NaN or infinity; if ids do not match;
        if all rows are equal, or all means; and if there is a direction in which images differ but the views of an
        image never do, for instance as there are fewer views than dimensions: its eigenvalue would be infinite.
    QueryError
        If delta or eps is negative or not finite.

    Notes
    -----
    The mean of q views is not the expectation over augmentations: Sigma_b comes out larger by about Sigma_w / q, so
    that a dimension of pure noise has an eigenvalue near 1 / q instead of 0, and LiDAR counts it in part. Compare
    representations at the same n and q. The paper found n = 1,000, q = 50 enough for I-JEPA, data2vec and DINO, and
    took n = 5,000, q = 10 for SimCLR and n = 10,000, q = 10 for VICReg, whose features are longer.

    The value depends on rows as a set, not on their order. float32 features are multiplied in float32 only where it
    changes the value by less than 1e-6 of itself, which the condition of Sigma_w tells.

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
    _check(delta, eps)
    require_varied(rows, "z", needed_for="LiDAR")
    with threads_for(0):  # PyTorch's would wait in loops for their next work, on the cores that BLAS needs
        views = grouped(rows, numbers)
        spectrum, rank = discriminative_spectrum(views, delta=delta, unit=unit_roundoff(z, rows))
    return Lidar(
        value=_smooth_rank(spectrum, views.dim, eps),
        n_images=views.n_images,
        n_views=views.n_views,
        dim=views.dim,
        rank_within=rank,
        delta=delta,
        eps=eps,
    )


def lidar_from_scatter(
    within: Any, between: Any, *, n_images: int, n_views: int | tuple[int, int], delta: float = 0.0,
    eps: float = 1e-7, rounding: Any = None,
) -> Lidar:  # fmt: skip
    """LiDAR from the covariance matrices within and between images, which sums over any number of rows give.

    Parameters
    ----------
    within : float array, shape (dim, dim)
        Unbiased covariance of views around the mean of their image, without a delta.
    between : float array, shape (dim, dim)
        Unbiased covariance of the means.
    n_images : int
        At least 2.
    n_views : int or two
        Of every image, or the fewest and the most; at least 2.
    delta, eps : float
        As for :func:`lidar`. Directions are unused if their variance is below dim times the rounding of float64 sums,
        relative to the largest, which is coarser than what :func:`lidar` can tell apart from rows.
    rounding : float array, shape (dim,), optional
        Standard deviation that rounding gave each feature before it was added up: directions that vary by no more than
        some of it are unused, too. By default none did.

    Returns
    -------
    Lidar

    Raises
    ------
    DataError
        If the matrices are not two symmetric ones of finite numbers, or have no LiDAR for the reasons given there.
    QueryError
        If a number is out of its range.

    Examples
    --------
    >>> round(lidar_from_scatter(np.eye(3), np.diag([1.0, 1.0, 0.0]), n_images=9, n_views=5, eps=0.0).value, 6)
    2.0
    """
    _check(delta, eps)
    least, most = (n_views, n_views) if isinstance(n_views, int) else n_views
    if n_images < 2 or least < 2 or most < least:
        raise QueryError(
            f"n_images is {n_images} and n_views is {n_views}, expected at least 2 images of at least 2 views each."
        )
    matrices = [_covariance(within, "within"), _covariance(between, "between")]
    if matrices[0].shape != matrices[1].shape:
        raise DataError(
            f"within has the shape {tuple(matrices[0].shape)} and between {tuple(matrices[1].shape)}, expected two "
            "covariance matrices of the same features."
        )
    told = f"{n_images} images of {least if least == most else f'{least} to {most}'} views"
    noise = None if rounding is None else NOISE * torch.as_tensor(np.asarray(rounding, dtype=np.float64))
    spectrum, rank = spectrum_of_covariances(*matrices, delta=delta, views=told, noise=noise)
    dim = matrices[0].shape[0]
    return Lidar(
        value=_smooth_rank(spectrum[max(0, len(spectrum) - n_images + 1) :], dim, eps),  # n - 1 means are independent
        n_images=n_images,
        n_views=(least, most),
        dim=dim,
        rank_within=rank,
        delta=delta,
        eps=eps,
    )


def _smooth_rank(spectrum: torch.Tensor, dim: int, eps: float) -> float:
    """Equation 2 of dim eigenvalues, of which the missing ones are 0."""
    largest = spectrum.max()
    shares = spectrum / largest  # so that no sum is out of range
    shares = shares / shares.sum() + eps
    zeros = dim - len(spectrum)
    entropy = -torch.special.xlogy(shares, shares).sum() - zeros * (eps * np.log(eps) if eps else 0.0)
    return float(entropy.exp())


def _check(delta: float, eps: float) -> None:
    for name, number in (("delta", delta), ("eps", eps)):
        if not (np.isfinite(number) and number >= 0):
            raise QueryError(
                f"{name} is {number}, expected a number that is 0 or above, such as {1e-7 if name == 'eps' else 1e-4}."
            )


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
