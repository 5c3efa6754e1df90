"""Coding-rate reduction: by how much fewer nats features can be told if one knows the cluster of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array, labels_of
from .arrays import features_of
from .pairs import unit_rows
from .spectrum import second_moments

with requires_extra("evaluate", needed_for="The coding rate"):
    import numpy as np
    import torch

_PIECE_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingRateReduction:
    """Coding rates in nats an image.

    Attributes
    ----------
    value : float
        ``rate`` less ``rate_within``; higher is better.
    rate : float
        Of all features together.
    rate_within : float
        Mean of the rates within clusters, weighted by their sizes.
    n_clusters, n : int
    eps2 : float
    """

    value: float
    rate: float
    rate_within: float
    n_clusters: int
    n: int
    eps2: float


def coding_rate_reduction(
    z: Any, *, clusters: Any = None, n_clusters: int | None = None, eps2: float = 0.5, seed: int = 0
) -> CodingRateReduction:
    """Coding-rate reduction Delta R (MCR2) of normalised features, with clusters by k-means unless they are given.

    R = 1/2 logdet(I + dim / (n eps2) Z Z') for the normalised features Z (dim, n), and R_c the mean of the same within
    clusters, weighted by their sizes; the answer is R - R_c.

    Parameters
    ----------
    z : float array, shape (n, dim)
        Features of images, neither centred nor scaled; rows are divided by their Euclidean length here.
    clusters : n numbers or names, optional
        Classes, or clusters found elsewhere.
    n_clusters : int, optional
        For k-means of the normalised features; the square root of n, rounded, by default.
    eps2 : float
        Squared distortion up to which features are told. 0.5 is the default of the method's own code, whose argument
        ``eps`` is this square; CLID uses that code as it comes.
    seed : int
        Of k-means.

    Returns
    -------
    CodingRateReduction
        With ``value`` in nats, 0 or above; higher is better.

    Raises
    ------
    DataError
        If there are fewer than 4 rows; on NaN or infinity; if a feature is all 0; if clusters do not match, or are one.
    QueryError
        If eps2 is not above 0, n_clusters is no number from 2 to n - 1, or clusters and n_clusters are both given.

    References
    ----------
    Yu et al. 2020, Learning Diverse and Discriminative Representations via the Principle of Maximal Coding Rate
    Reduction, Eq. 6; Lu et al. 2023, CLID, arXiv:2206.01251, Section 3.2.

    Examples
    --------
    >>> found = coding_rate_reduction([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], clusters=[0, 0, 1, 1])
    >>> round(found.rate, 6), round(found.rate_within, 6)  # log 3, and half of log 5
    (1.098612, 0.804719)
    """
    if not (math.isfinite(eps2) and eps2 > 0):
        raise QueryError(f"eps2 is {eps2}, expected a number above 0, such as 0.5.")
    rows = features_of(z, least=4, needed_for="coding-rate reduction")
    unit = np.empty(rows.shape, dtype=np.float64)
    step = max(1, _PIECE_BYTES // (8 * rows.shape[1]))
    for start in range(0, len(rows), step):
        which = np.arange(start, min(start + step, len(rows)))
        unit[start : start + step] = unit_rows(rows, which).numpy()
    numbers = _clusters(unit, clusters, n_clusters, seed)
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers)
    within = 0.0
    for members in np.split(order, np.cumsum(sizes)[:-1]):
        within += len(members) / len(unit) * _rate(unit[members], eps2)
    rate = _rate(unit, eps2)
    return CodingRateReduction(
        value=rate - within, rate=rate, rate_within=within, n_clusters=len(sizes), n=len(unit), eps2=eps2
    )


def _clusters(unit: Array, clusters: Any, n_clusters: int | None, seed: int) -> Array:
    """Number of the cluster of each row, from 0 without gaps."""
    if clusters is not None and n_clusters is not None:
        raise QueryError("Got both clusters and n_clusters, expected the clusters or how many k-means shall find.")
    if clusters is None:
        wanted = round(math.sqrt(len(unit))) if n_clusters is None else n_clusters
        if not 2 <= wanted < len(unit):
            raise QueryError(
                f"n_clusters is {wanted}, expected a number from 2 to {len(unit) - 1}, less than the rows."
            )
        from .clusters import kmeans  # not needed for clusters that are given

        clusters = kmeans(unit, wanted, seed=seed).labels
    numbers: Array = np.unique(labels_of(clusters, len(unit), "clusters"), return_inverse=True)[1]
    if not numbers.any():
        raise DataError(
            f"All {len(unit)} rows are in one cluster, but coding-rate reduction compares at least 2: it would be 0 "
            "for any features."
        )
    return numbers


def _rate(unit: Array, eps2: float) -> float:
    """1/2 logdet(I + dim / (n eps2) Z Z') by the smaller of Z Z' and Z' Z, which have the same one."""
    n, dim = unit.shape
    narrow = unit if dim <= n else np.ascontiguousarray(unit.T)
    moments = second_moments([torch.from_numpy(narrow)], narrow.shape[1]).mul_(dim / (n * eps2))
    moments.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(moments)  # no eigenvalue is below 1
    return float(factor.diagonal().log().sum())
