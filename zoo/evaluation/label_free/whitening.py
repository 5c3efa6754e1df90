"""Scatter between images as it looks where the scatter within them is the same in all directions.

The eigenvalues of W^-1/2 B W^-1/2 are those of L^-1 B L^-T for any L with L L' = W, so that a Cholesky factor does what
costs an eigendecomposition and an inverse root otherwise, and the matrix stays symmetric. How exactly the eigenvalues
come out depends on the condition of W after its columns have been brought to the same length, which the factor tells:
products in float32 are good enough for small numbers, products in float64 for larger ones, and beyond that, or where W
is singular, a triangular factor of the deviations themselves takes the place of their products.
"""

from __future__ import annotations

from ...errors import DataError, MissingExtra
from ..streamed_checks import Array
from .eigenvalues import eigenvalues
from .row_products import second_moments, squares, triangular_factor
from .scatter import Views, grouped

try:
    import numpy as np
    import torch
    from scipy.linalg.blas import dtrsm, dtrsv
    from scipy.linalg.lapack import dpotrf, dsygst
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="evaluate", needed_for="LiDAR") from error

_SINGLE_LIMIT = 100.0  # norm of the inverse of the within correlations up to which float32 products are good for 1e-6
_DOUBLE_LIMIT = 1e8  # and float64 products
_POWER_STEPS = 6
_SMALL = 1e9  # multiplications of the scatter below which float32 would save nothing
NOISE = 32.0  # units of rounding up to which a deviation is rounding: stored numbers have 1, computed ones some ten


def discriminative_spectrum(views: Views, *, delta: float, unit: float) -> tuple[torch.Tensor, int]:
    """Eigenvalues of Sigma_lidar, and the rank of the scatter within images.

    Parameters
    ----------
    views : Views
    delta : float
        Added to the diagonal of the within covariance; 0 for the limit of small ones.
    unit : float
        Relative error with which the numbers were stored (:func:`.scatter.unit_roundoff`).

    Returns
    -------
    float64 tensor and int
        At most dim eigenvalues, none below 0; those that are missing are 0.

    Raises
    ------
    DataError
        If an eigenvalue is infinite, for images differ where their views do not, or if all are 0.
    """
    if views.dim > len(views.rows):
        return _in_their_span(views, delta, unit)
    if delta or views.within_freedom >= views.dim:
        large = views.rows.dtype == np.float32 and len(views.rows) * views.dim**2 > _SMALL
        for single in (True, False) if large else (False,):
            within = second_moments(views.contrasts(single=single), views.dim, single=single)
            noise = noise_of(views, within.diagonal(), unit)
            found, promising = _from_products(views, within, noise, delta=delta, single=single)
            if found is not None:
                return found
            if not promising:
                break
    return _from_factor(views, noise_of(views, squares(views.deviations(), views.dim), unit), delta=delta)


def spectrum_of_covariances(
    within: torch.Tensor, between: torch.Tensor, *, delta: float, views: str, noise: torch.Tensor | None = None
) -> tuple[torch.Tensor, int]:
    """The same from the two covariance matrices, float64 (dim, dim), in which rounding is that of float64 sums.

    Parameters
    ----------
    views : str
        How many there were, for the sentence of the error.
    noise : float64 tensor (dim,), optional
        Standard deviation up to which a column varies by rounding of the features alone.

    Raises
    ------
    DataError
        As above.
    """
    within, across = within.clone(), between.diagonal()
    within.diagonal().add_(delta)
    silent = within.diagonal() <= 0
    if bool((silent & (across > 0)).any()):
        raise _infinite(views)
    kept = torch.nonzero(~silent)[:, 0]
    if not bool((across > 0).any()):
        raise _all_zero(views)
    within, between = within[kept][:, kept], between[kept][:, kept]
    lengths = within.diagonal().sqrt()
    if noise is not None and not delta and bool((noise > 0).any()):
        lengths = torch.maximum(noise[kept], lengths * 2.0**-40)  # directions of less than 1 are rounding
    loudest = float((lengths.square() / within.diagonal()).max()) if noise is not None and not delta else 0.0
    found, _ = _whitened(within, between, limit=min(_DOUBLE_LIMIT, 1 / loudest) if loudest else _DOUBLE_LIMIT)
    if found is not None:
        return found, len(kept)
    values, directions = torch.linalg.eigh(within / torch.outer(lengths, lengths))
    rounding = len(kept) * 2.0**-52
    used = values > rounding * values[-1]
    if noise is not None and not delta:
        used &= values > 1
    white = directions.T @ (between / torch.outer(lengths, lengths)) @ directions
    left = white[~used][:, ~used]
    audible = rounding * float(white.diagonal().sum()) + (1.0 if noise is not None and not delta else 0.0)
    if len(left) and float(_eigenvalues(left)[-1]) > audible:
        raise _infinite(views)
    if not bool(used.any()):
        raise _all_zero(views)
    roots = values[used].sqrt()
    return _eigenvalues(white[used][:, used] / torch.outer(roots, roots)), int(used.sum())


def noise_of(views: Views, within_squares: torch.Tensor, unit: float) -> torch.Tensor:
    """Standard deviation, in scaled units, up to which a column may vary by rounding alone, float64 (dim,)."""
    return NOISE * unit * ((within_squares + views.squared_means()) / len(views.rows)).sqrt()


def _from_products(
    views: Views, within: torch.Tensor, noise: torch.Tensor, *, delta: float, single: bool
) -> tuple[tuple[torch.Tensor, int] | None, bool]:
    """The spectrum from sums of products, or None; then whether products with more digits might do.

    ``within``, the sum of squares around the means, is used up.
    """
    within.div_(views.within_freedom)
    many = views.n_images >= views.dim
    if many:
        between = second_moments(views.pieces_of_means(), views.dim, single=single).div_(views.n_images - 1)
        across = between.diagonal()
        _require_different(across, noise, views)
    else:
        between = _means(views, noise)
        across = squares([between], views.dim)
    if delta:
        within.diagonal().add_(delta * views.scale.square())
    else:
        silent = within.diagonal() <= noise.square()
        if bool((silent & (across > noise.square())).any()):
            raise _infinite(_told(views))
        kept = torch.nonzero(~silent)[:, 0]
        if not len(kept):
            return None, False
        if len(kept) < len(silent):
            within, noise = within[kept][:, kept], noise[kept]
            between = between[kept][:, kept] if many else between[:, kept]
    if not many and len(between) >= len(within):
        between = second_moments([between], len(within), single=single)
    loudest = 0.0 if delta else float((noise.square() / within.diagonal()).max())
    limit = _SINGLE_LIMIT if single else _DOUBLE_LIMIT
    found, inverse = _whitened(within, between, limit=min(limit, 1 / loudest) if loudest else limit)
    if found is not None:
        return (found, len(within)), True
    return None, inverse * max(loudest, 1 / _DOUBLE_LIMIT) < 1


def _whitened(within: torch.Tensor, between: torch.Tensor, *, limit: float) -> tuple[torch.Tensor | None, float]:
    """Eigenvalues of W^-1/2 B W^-1/2, or None where W is too near to a singular one; and the norm of W's inverse.

    Parameters
    ----------
    within : float64 tensor (dim, dim)
        W, of a positive diagonal.
    between : float64 tensor (dim, dim), or (n, dim) with n < dim, whose B'B is meant
    limit : float
        Norm of the inverse, of W with its columns brought to the same length, from which there is no answer. It is
        infinite if W is not positive definite.
    """
    lengths = within.diagonal().sqrt()
    correlations = (within / lengths).div_(lengths[:, None])
    factor, failed = dpotrf(correlations.numpy().T, lower=1, clean=0, overwrite_a=1)  # symmetric: no copy for columns
    if failed:
        return None, float("inf")
    inverse = _norm_of_inverse(factor)
    if inverse > limit:
        return None, inverse
    if len(between) < len(within):
        white = torch.from_numpy(dtrsm(1.0, factor, (between / lengths).numpy().T, lower=1, overwrite_b=1))  # (dim, n)
        return _eigenvalues(_smaller(white)), inverse
    white, _ = dsygst((between / lengths).div_(lengths[:, None]).numpy().T, factor, lower=1, overwrite_a=1)
    return _eigenvalues(torch.from_numpy(white)), inverse  # of which only the lower triangle is there


def _norm_of_inverse(factor: Array) -> float:
    """Largest eigenvalue of (L L')^-1, by some steps of the power method; a little below it."""
    vector = np.random.default_rng(0).normal(size=len(factor))
    norm = 0.0
    for _ in range(_POWER_STEPS):
        vector = dtrsv(factor, vector / np.linalg.norm(vector), lower=1)
        vector = dtrsv(factor, vector, lower=1, trans=1)
        norm = float(np.linalg.norm(vector))
    return norm


def _from_factor(views: Views, noise: torch.Tensor, *, delta: float) -> tuple[torch.Tensor, int]:
    """The spectrum from a triangular factor of the deviations, which tells directions of rounding from others."""
    means = _means(views, noise)
    if delta:
        factor = triangular_factor(views.deviations(), views.dim) / views.within_freedom**0.5
        factor = torch.linalg.qr(torch.cat([factor, torch.diag(delta**0.5 * views.scale)]), mode="r")[1]
        white = torch.linalg.solve_triangular(factor.T, means.T, upper=False)
        return _eigenvalues(_smaller(white)), views.dim
    alive = torch.nonzero(noise)[:, 0]  # the others are 0 in every row
    means, per_noise = means[:, alive] / noise[alive], 1 / noise[alive]
    pieces = (piece[:, alive].mul_(per_noise) for piece in views.deviations())
    factor = triangular_factor(pieces, len(alive)) / views.within_freedom**0.5
    _, lengths, directions = torch.linalg.svd(factor, full_matrices=False)
    rounding = len(alive) * 2.0**-52  # of the factor, relative to the longest
    used = lengths > max(1.0, rounding * float(lengths[0]))
    directions = directions[used]  # (rank, dim)
    inside = means @ directions.T
    outside = means - inside @ directions
    if float(_eigenvalues(_smaller(outside))[-1]) > 1 + rounding**2 * float(means.square().sum()):
        raise _infinite(_told(views))
    if not len(directions):
        raise _all_zero(_told(views))
    return _eigenvalues(_smaller(inside / lengths[used])), int(used.sum())


def _in_their_span(views: Views, delta: float, unit: float) -> tuple[torch.Tensor, int]:
    """The spectrum from the coordinates of the rows in the space that they span, which has fewer dimensions.

    Outside of it there is no scatter between images, so that all eigenvalues there are 0. Without a delta every map of
    the features may precede the rotation, and the one taken makes the rounding of all columns the same.
    """
    noise = noise_of(views, squares(views.deviations(), views.dim), unit)
    _means(views, noise)
    smallest = float(views.scale.min())
    scale = torch.full_like(noise, smallest)
    if not delta:
        scale = torch.where(noise > 0, views.scale / torch.where(noise > 0, noise, 1), 0)
    wide = (torch.from_numpy(views.rows.astype(np.float64)) - views.means.mean(dim=0)).mul_(scale)  # (n_rows, dim)
    rows = torch.linalg.qr(wide.T, mode="r")[1].T.contiguous().numpy()  # (n_rows, n_rows)
    found = grouped(rows, views.ids.numpy(), scaled=False)
    if not delta:
        return _from_factor(found, torch.ones(found.dim, dtype=torch.float64), delta=0.0)
    spectrum, rank = _from_factor(found, torch.zeros(found.dim, dtype=torch.float64), delta=delta * smallest**2)
    return spectrum, rank + views.dim - found.dim


def _means(views: Views, noise: torch.Tensor) -> torch.Tensor:
    """Matrix (n_images, dim) whose B'B is the covariance between images, in scaled units; not all rounding."""
    means = views.centred_means().div_((views.n_images - 1) ** 0.5)
    _require_different(squares([means], views.dim), noise, views)
    return means


def _require_different(across: torch.Tensor, noise: torch.Tensor, views: Views) -> None:
    """``across``: variances of the means of images, (dim,)."""
    if not bool((across > noise.square()).any()):
        raise _all_zero(_told(views))


def _eigenvalues(matrix: torch.Tensor) -> torch.Tensor:
    """Of a symmetric matrix that has no negative ones, ascending; what rounding put below 0 is 0."""
    return eigenvalues(matrix).flip(0).clamp_(min=0)


def _smaller(matrix: torch.Tensor) -> torch.Tensor:
    """B'B or BB', whichever is smaller: they have the same eigenvalues but for zeros."""
    narrow = matrix.T if matrix.shape[0] < matrix.shape[1] else matrix
    product: torch.Tensor = narrow.T @ narrow
    return product


def _told(views: Views) -> str:
    least, most = views.n_views
    told = f"{views.n_images} images of {least if least == most else f'{least} to {most}'} views"
    if views.within_freedom < views.dim:
        told += f" give {views.within_freedom} deviations, and as many as dimensions are the least"
    return told


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
