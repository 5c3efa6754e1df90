"""Neural collapse: how much features of a class vary, measured by how far classes are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import labels_of
from .arrays import require_varied, views_of
from .lidar import Views, grouped, unit_roundoff

with requires_extra("evaluate", needed_for="Neural collapse"):
    import numpy as np
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralCollapse:
    """Variability within classes.

    Attributes
    ----------
    value : float
        NC1, dimensionless; 0 is full collapse.
    definition : str
    n_classes : int
        Images, or labels.
    n_members : tuple of int
        Rows of the class with the fewest, and with the most.
    rank_between : int
        Directions in which the means differ and which therefore count.
    variance_within, variance_between : float
        Traces of the two population covariances, in squared units of the features.
    """

    value: float
    definition: str
    n_classes: int
    n_members: tuple[int, int]
    rank_between: int
    variance_within: float
    variance_between: float


def neural_collapse(
    z: Any, ids: Any = None, *, y: Any = None, definition: Literal["papyan", "dubois"] = "papyan"
) -> NeuralCollapse:
    """NC1: trace of the covariance within classes times the pseudo-inverse of that between them.

    Parameters
    ----------
    z : float array, shape (n_images, n_views, dim), or (n_rows, dim) with ``ids`` or ``y``
        Features, neither centred nor scaled.
    ids : n_rows numbers or names, optional
        Which image each row is a view of: images are the classes.
    y : n_rows labels, optional
        Labels are the classes, in place of images.
    definition : {"papyan", "dubois"}
        "papyan": tr(Sigma_W pinv(Sigma_B)) / n_classes with population covariances, Sigma_B that of the means of
        classes; directions in which the means differ by rounding only do not count. "dubois", as in the published
        statistics of 169 encoders: not divided by the number of classes, unbiased covariances, that within the mean
        over classes, and of the covariance between only eigenvalues above 1 % of the largest and above 1e-4 count, so
        that it depends on the scale of the features. Their ``nc1norm`` is this over the root of the rank of the
        correlation matrix.

    Returns
    -------
    NeuralCollapse
        With ``value`` 0 or above; smaller means that features vary less within classes.

    Raises
    ------
    DataError
        If there is one class, or one with one member; on NaN or infinity; if ids or labels do not match; if all rows or
        all means are equal, or no direction counts.
    QueryError
        If both ids and y are given, or a definition that is not known.

    References
    ----------
    Papyan, Han and Donoho 2020, Prevalence of neural collapse during the terminal phase of deep learning training,
    NC1; Dubois et al. 2023, arXiv:2302.03068.

    Examples
    --------
    >>> views = np.array([[[1.0, 1.0], [1.0, -1.0]], [[-1.0, 1.0], [-1.0, -1.0]]])
    >>> neural_collapse(views).value, neural_collapse(views + np.array([[[1.0, 0.0], [-1.0, 0.0]]])).value
    (0.0, 0.5)
    """
    if definition not in ("papyan", "dubois"):
        raise QueryError(f"definition is {definition!r}, expected 'papyan' or 'dubois'.")
    if y is not None and ids is not None:
        raise QueryError("Got both ids and y, expected one of them: classes are images or labels.")
    rows, numbers = _classes(z, y) if y is not None else views_of(z, ids, needed_for="neural collapse")
    require_varied(rows, "z", needed_for="neural collapse")
    views = grouped(rows, numbers)
    spread = views.squared_deviations()
    means = views.centred_means()
    noise = views.noise(spread, unit_roundoff(z, rows))
    if not bool((means.square().mean(dim=0) > noise.square()).any()):
        raise DataError(
            f"The means of all {views.n_images} classes are the same, so that neural collapse is not defined: expected "
            "classes or images that the representation tells apart."
        )
    scale = float(views.scale[noise > 0].min())  # one for all columns, for the pseudo-inverse depends on it
    means, noise = means * (scale / views.scale), noise * (scale / views.scale)
    if definition == "papyan":
        value, rank = _papyan(views, means, noise, scale)
    else:
        value, rank = _dubois(views, means, scale)
    least, most = views.n_views
    return NeuralCollapse(
        value=value,
        definition=definition,
        n_classes=views.n_images,
        n_members=(least, most),
        rank_between=rank,
        variance_within=float((spread / views.scale.square()).sum() / len(rows)),
        variance_between=float((means / scale).square().sum() / views.n_images),
    )


def _papyan(views: Views, means: torch.Tensor, noise: torch.Tensor, scale: float) -> tuple[float, int]:
    """Deviations in the directions of the means, each in units of how much the means vary in it."""
    _, lengths, directions = torch.linalg.svd(means / views.n_images**0.5, full_matrices=False)
    counted = lengths > (directions.square() @ noise.square()).sqrt()
    axes = (directions[counted] / lengths[counted][:, None]).T  # (dim, rank)
    to_scale = scale / views.scale
    total = sum(float(((piece * to_scale) @ axes).square().sum()) for piece in views.deviations())
    return total / len(views.rows) / views.n_images, int(counted.sum())


def _dubois(views: Views, means: torch.Tensor, scale: float) -> tuple[float, int]:
    _, lengths, directions = torch.linalg.svd(means / (views.n_images - 1) ** 0.5, full_matrices=False)
    variances = lengths.square()
    counted = variances > max(0.01 * float(variances[0]), 1e-4 * scale**2)
    if not bool(counted.any()):
        raise DataError(
            "No direction has a variance of the means above 1e-4, so that neural collapse as of 'dubois' is not "
            "defined: take 'papyan', which does not depend on the scale of the features."
        )
    axes = (directions[counted] / lengths[counted][:, None]).T
    weights = 1 / ((views.counts - 1) * views.n_images)  # the mean over classes of unbiased covariances
    to_scale = scale / views.scale
    total, at = 0.0, 0
    for piece in views.deviations():
        own = weights[views.ids[at : at + len(piece)]]
        total += float((((piece * to_scale) @ axes).square().sum(dim=1) * own).sum())
        at += len(piece)
    return total, int(counted.sum())


def _classes(z: Any, y: Any) -> tuple[Any, Any]:
    """Rows and the number of the class of each."""
    shape = tuple(getattr(z, "shape", np.shape(z)))
    n = int(np.prod(shape[:-1])) if len(shape) > 1 else 0
    if len(shape) == 3 and len(np.shape(y)) == 1 and len(y) == shape[0]:
        y = np.repeat(np.asarray(y), shape[1])  # views of an image are of its class
    labels = np.unique(labels_of(y, n, "y"), return_inverse=True)[1]
    counts = np.bincount(labels)
    if len(counts) < 2 or counts.min() < 2:
        raise DataError(
            f"y has {len(counts)} class{'es' * (len(counts) != 1)}, the smallest with {int(counts.min())} of the {n} "
            "rows, but neural collapse needs at least 2 classes of at least 2 rows."
        )
    flat = (z if hasattr(z, "reshape") else np.asarray(z)).reshape(n, shape[-1]) if len(shape) == 3 else z
    return views_of(flat, labels, needed_for="neural collapse")
