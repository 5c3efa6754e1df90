"""CLID and W-CLID, which standardise over a population of encoders, and joint ranks.

Every function takes arrays with one entry an encoder, in the same order, and returns values in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import DataError, QueryError
from ...optional import requires_extra
from ..arrays import Array

with requires_extra("evaluate", needed_for="CLID"):
    import numpy as np
    from scipy.stats import rankdata

_N_PARAMETERS = 3  # two weights and an intercept
_LEAST_RESIDUAL = 1e-9  # share of its variation that one predictor must have besides the other


def standardised(values: Sequence[float] | Array, *, name: str = "values") -> Array:
    """Values of a population, float64 (n_encoders,), scaled to [0, 1]: the least becomes 0 and the largest 1.

    ``name`` is theirs in errors. Refuses fewer than two encoders, and equal values (CLID, arXiv:2206.01251, section
    2.2).

    >>> standardised([10, 30, 20]).tolist()
    [0.0, 1.0, 0.5]
    """
    numbers = numbers_of(values, name)
    if len(numbers) < 2:
        raise QueryError(
            f"{name} has {len(numbers)} value, but standardising over a population needs at least 2 encoders."
        )
    halves = numbers / 2  # whose span is finite
    least, largest = halves.min(), halves.max()
    if least == largest:
        raise QueryError(
            f"All {len(numbers)} encoders have the same {name} ({numbers[0]:g}), so that it cannot be standardised "
            "to [0, 1]: take more encoders, or leave it out."
        )
    between: Array = (halves - least) / (largest - least)
    return between


def numbers_of(values: Any, name: str) -> Array:
    """Finite numbers, one an encoder, float64 (n_encoders,)."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers ({error}), expected one an encoder.") from error
    if numbers.ndim != 1 or not len(numbers):
        raise DataError(f"{name} has the shape {numbers.shape}, expected one number an encoder.")
    if not np.isfinite(numbers).all():
        at = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"Entry {at} of {name} is {numbers[at]}, expected finite numbers: leave out encoders without a value."
        )
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedClid:
    """W-CLID of a population, and the regression it comes from."""

    values: tuple[float, ...]  # predicted accuracies in the unit of ``accuracy``; higher is better
    weights: tuple[float, float]  # of standardised learnability and dimension, fitted on all encoders
    intercept: float
    n: int  # encoders
    leave_one_out: bool  # whether each value comes from a fit without that encoder


def clid(cluster_learnability: Sequence[float] | Array, intrinsic_dimension: Sequence[float] | Array) -> Array:
    """CLID: cluster learnability plus intrinsic dimension, both standardised to [0, 1] over the population.

    Parameters
    ----------
    cluster_learnability : array, shape (n_encoders,)
        As a fraction or in percent.
    intrinsic_dimension : array, shape (n_encoders,)
        In dimensions.

    Returns
    -------
    float64 array, shape (n_encoders,)
        Between 0 and 2, dimensionless; higher is better. A value is relative to this population and changes with it.

    Raises
    ------
    DataError
        If both are not finite numbers of the same encoders.
    QueryError
        If there are fewer than two encoders, or all have the same learnability or the same dimension.

    References
    ----------
    CLID, arXiv:2206.01251, section 2.2.

    Examples
    --------
    >>> clid([0.25, 0.75, 0.5], [10, 20, 30]).tolist()
    [0.0, 1.5, 1.5]
    """
    return _pair(cluster_learnability, intrinsic_dimension).sum(axis=1)  # type: ignore[no-any-return]


def w_clid(
    cluster_learnability: Sequence[float] | Array,
    intrinsic_dimension: Sequence[float] | Array,
    accuracy: Sequence[float] | Array,
    *,
    leave_one_out: bool = False,
) -> WeightedClid:
    """W-CLID: the weighted sum of the standardised pair that fits the accuracies best (ordinary least squares).

    Parameters
    ----------
    cluster_learnability, intrinsic_dimension : array, shape (n_encoders,)
        As for :func:`clid`.
    accuracy : array, shape (n_encoders,)
        The dependent variable, for example in-domain accuracy in percent.
    leave_one_out : bool
        Each encoder's value comes from weights that were fitted without it. Otherwise every encoder is predicted from
        a fit that has seen its accuracy, as in the paper, which flatters a correlation with that same accuracy.
        (Standardising uses no accuracy, and shifting or scaling a predictor does not change the predictions of a fit,
        so all fits share it.)

    Returns
    -------
    WeightedClid
        ``values`` (n_encoders,) are in the unit of ``accuracy``; higher is better.

    Raises
    ------
    DataError
        If the three are not finite numbers of the same encoders.
    QueryError
        If there are fewer than 4 encoders (5 with ``leave_one_out``), or one of the three is the same for all, or
        learnability and dimension are linear functions of each other, in which case no weights are determined.

    References
    ----------
    CLID, arXiv:2206.01251, section 2.2.

    Examples
    --------
    >>> found = w_clid([0, 1, 0, 1], [0, 0, 1, 1], [50, 70, 60, 80])
    >>> [round(weight, 6) for weight in found.weights], round(found.intercept, 6)
    ([20.0, 10.0], 50.0)
    """
    pair = _pair(cluster_learnability, intrinsic_dimension)  # (n, 2)
    truth = numbers_of(accuracy, "accuracy")
    n = len(pair)
    if len(truth) != n:
        raise DataError(f"accuracy has {len(truth)} values, expected one for each of the {n} encoders.")
    least = _N_PARAMETERS + 1 + leave_one_out
    if n < least:
        raise QueryError(
            f"W-CLID was asked for with {n} encoders, but fitting {_N_PARAMETERS} numbers"
            f"{', with one encoder left out,' if leave_one_out else ''} needs at least {least}."
        )
    if (truth == truth[0]).all():
        raise QueryError(
            f"All {n} encoders have the same accuracy ({truth[0]:g}), so that no weights can be learnt from it."
        )
    design = np.column_stack([pair, np.ones(n)])
    fit = _fitted(design, truth, without="")
    if leave_one_out:
        values = np.empty(n)
        for left_out in range(n):
            rest = np.arange(n) != left_out
            without = f" without encoder number {left_out}, counting from 0"
            values[left_out] = design[left_out] @ _fitted(design[rest], truth[rest], without=without)
    else:
        values = design @ fit
    return WeightedClid(
        values=tuple(values.tolist()),
        weights=(float(fit[0]), float(fit[1])),
        intercept=float(fit[2]),
        n=n,
        leave_one_out=leave_one_out,
    )


def weighted_clid(
    cluster_learnability: Sequence[float] | Array,
    intrinsic_dimension: Sequence[float] | Array,
    weights: Sequence[float],
    *,
    intercept: float = 0.0,
) -> Array:
    """W-CLID elsewhere: :attr:`WeightedClid.weights` learnt in one domain, for learnability and dimension of another.

    Both are standardised to [0, 1] over their population here. Returns float64 (n_encoders,), higher is better; the
    intercept moves all values and no rank.

    >>> weighted_clid([1, 2], [5, 4], (20.0, 10.0), intercept=50.0).tolist()
    [60.0, 70.0]
    """
    pair = _pair(cluster_learnability, intrinsic_dimension)
    factors = numbers_of(weights, "weights")
    if len(factors) != 2 or not np.isfinite(intercept):
        raise DataError(
            f"weights holds {len(factors)} numbers and intercept is {intercept}, expected two weights (of learnability "
            "and of dimension) and a finite intercept."
        )
    values: Array = pair @ factors + intercept
    return values


def joint_rank_product(first: Sequence[float] | Array, second: Sequence[float] | Array) -> Array:
    """Joint rank of two predictors: the geometric mean of an encoder's ranks by one and by the other.

    Both are (n_encoders,) scores of which the higher is better; turn the sign of a loss, an error or an entropy. Rank 1
    is the best encoder's, and equal scores share the mean of their ranks. The result, from 1 to n_encoders, is better
    where it is LOWER; equal products of ranks give exactly equal numbers. CLID, arXiv:2206.01251, section 3.5 and Table
    3, does not say from which end ranks are counted, on which the product depends; rank 1 is taken to be the best.

    >>> joint_rank_product([0.9, 0.5, 0.7], [10, 40, 20]).round(3).tolist()
    [1.732, 1.732, 2.0]
    """
    one, other = numbers_of(first, "first"), numbers_of(second, "second")
    if len(one) != len(other):
        raise DataError(f"first has {len(one)} scores and second has {len(other)}, expected both of the same encoders.")
    if len(one) < 2:
        raise QueryError(f"A joint rank was asked for with {len(one)} encoder, but ranks need at least 2.")
    return np.sqrt(rankdata(-one) * rankdata(-other))  # type: ignore[no-any-return]


def _pair(cluster_learnability: Any, intrinsic_dimension: Any) -> Array:
    """Both standardised, (n_encoders, 2)."""
    learnability = numbers_of(cluster_learnability, "cluster learnability")
    dimension = numbers_of(intrinsic_dimension, "intrinsic dimension")
    if len(learnability) != len(dimension):
        raise DataError(
            f"cluster learnability has {len(learnability)} values and intrinsic dimension {len(dimension)}, expected "
            "both of the same encoders."
        )
    return np.column_stack(
        [
            standardised(learnability, name="cluster learnability"),
            standardised(dimension, name="intrinsic dimension"),
        ]
    )


def _fitted(design: Array, truth: Array, *, without: str) -> Array:
    """Two weights and the intercept of least squares, (3,)."""
    centred = design[:, :2] - design[:, :2].mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    if lengths.min() <= _LEAST_RESIDUAL or _shared(centred / lengths) >= 1 - _LEAST_RESIDUAL:
        raise QueryError(
            "Cluster learnability and intrinsic dimension do not vary independently of each other among the "
            f"{len(design)} encoders{without}, so that no weights are determined: take more encoders, or CLID."
        )
    found: Array = np.linalg.lstsq(design, truth, rcond=None)[0]
    return found


def _shared(units: Array) -> float:
    """Share of the variation of one column, of length 1, that the other one explains."""
    return float((units[:, 0] @ units[:, 1]) ** 2)
