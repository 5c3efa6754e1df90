"""Entropy of a representation from the intrinsic dimension around each of its points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..streamed_checks import Array
from .arrays import features_of, require_varied
from .dimension import (
    EQUAL,
    LEAST,
    distinct_neighbours,
    near_duplicates,
    notes_on_duplicates,
    without_near_duplicates,
    worth_telling,
)

with requires_extra("evaluate", needed_for="The local intrinsic dimension"):
    import numpy as np
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDimensionEntropy:
    """An estimate of the entropy and what it rests on."""

    value: float
    """Nats."""
    k: int
    normalised: bool
    mean_dimension: float
    """Mean of the local dimensions."""
    n: int
    n_duplicates: int
    """Rows that equal an earlier one; they are left out."""
    n_used: int
    n_near_duplicates: int
    """Distinct rows whose first neighbour is a thousand times nearer than the median of first neighbours."""
    value_without_near_duplicates: float | None
    """The same estimate of one row of each group of them, if they are more than 0.5 % of the rows."""
    notes: tuple[str, ...] = ()


def local_dimension_entropy(z: Any, *, k: int = 10, normalised: bool = False) -> LocalDimensionEntropy:
    """Differential entropy of features from the local dimension and the distance of the k-th neighbour.

    Around each row, with its neighbours at the distances T_1 <= ... <= T_k, the dimension is
    D = ((k - 1) / sum over j < k of log(T_k / T_j)), and the log density log(k - 1) - D log T_k - log V(D), where V(D)
    is the volume of the unit ball; the entropy is the mean of its negative. That is what CLID prints: the density is a
    number of rows per volume, not a share of them, so that the value falls by log n for n rows of the same
    distribution. ``normalised=True`` divides the density by the n - 1 rows among which neighbours are sought, which
    adds log(n - 1) and makes the value an estimate of the entropy of the distribution.

    It rests on the unit of the features: scaled by c it grows by the mean dimension times log c. D is that of the
    maximum likelihood, (k - 1) / (k - 2) times too large on average, and so the value is off by about
    D log(T_k) / (k - 2) nats: a larger k helps where there are rows enough. Rotation, shifts and the order of rows do
    not change it; rows that equal an earlier one are left out and counted. Rows that nearly do lower it; they are
    counted, and ``notes`` say so where they are more than 0.5 % of the rows.

    Parameters
    ----------
    z : array, tensor or :attr:`zoo.features.Features.x`, shape (n, dim)
        At least 12 and at least k + 1 distinct rows.
    k : int
        Neighbours, at least 3.
    normalised : bool

    Returns
    -------
    LocalDimensionEntropy
        ``value`` in nats; higher is more expressive.

    Raises
    ------
    DataError
        If there are too few distinct rows, one has all its neighbours at one distance, or a number is not finite.
    QueryError
        If k is below 3.

    References
    ----------
    Lu et al. 2023, CLID, arXiv:2206.01251, Appendix B, Eq. 3-4; Levina and Bickel 2004.

    Examples
    --------
    >>> z = np.random.default_rng(0).random((4000, 2))  # of entropy 0
    >>> found = local_dimension_entropy(z, k=100, normalised=True)
    >>> abs(found.value) < 0.2, round(found.mean_dimension, 1)
    (True, 2.0)
    """
    if k < 3:
        raise QueryError(f"k is {k}, expected at least 3 neighbours.")
    needed_for = f"the local dimension from {k} neighbours"
    least = max(LEAST, k + 1)
    rows = features_of(z, least=least, needed_for=needed_for)
    require_varied(rows, "z", needed_for=needed_for)
    distances, n_duplicates = distinct_neighbours(rows, k, metric="euclidean", least=least, needed_for=needed_for)
    near, without = near_duplicates(distances), None
    if worth_telling(near.sum(), len(near)):
        without = without_near_duplicates(
            rows, distances, lambda other: _entropy(other, normalised)[0], metric="euclidean", least=least
        )
    value, mean_dimension = _entropy(distances, normalised)
    return LocalDimensionEntropy(
        value=value,
        k=k,
        normalised=normalised,
        mean_dimension=mean_dimension,
        n=len(rows),
        n_duplicates=n_duplicates,
        n_used=len(distances),
        n_near_duplicates=int(near.sum()),
        value_without_near_duplicates=without,
        notes=notes_on_duplicates(n_duplicates, int(near.sum()), len(rows), without),
    )


def _entropy(distances: Array, normalised: bool) -> tuple[float, float]:
    """The entropy and the mean dimension from the distances (n, k) of rows to their nearest ones."""
    k = distances.shape[1]
    logs = np.log(distances)
    mean_log_ratio = (logs[:, -1:] - logs[:, :-1]).mean(axis=1)
    flat = mean_log_ratio < EQUAL
    if flat.any():
        raise DataError(
            f"{int(flat.sum())} of {len(distances)} rows of z have their {k} nearest neighbours all at "
            "the same distance, where no local dimension is defined: take a larger k."
        )
    dimensions = 1 / mean_log_ratio
    log_volumes = dimensions / 2 * math.log(math.pi) - torch.lgamma(torch.from_numpy(dimensions / 2 + 1)).numpy()
    value = float((dimensions * logs[:, -1] + log_volumes).mean()) - math.log(k - 1)
    return value + (math.log(len(distances) - 1) if normalised else 0.0), float(dimensions.mean())
