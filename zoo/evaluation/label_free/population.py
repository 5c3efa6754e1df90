"""What only a population of encoders has: CLID and W-CLID, which standardise over it, and joint ranks.

Every function takes numbers with one entry an encoder, in the same order, and gives numbers in that order.
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


def standardised(values: Sequence[float] | Array, *, name: str = "values") -> Array:
    """Numbers of a population moved and scaled to [0, 1]: its least becomes 0 and its largest 1.

    Parameters
    ----------
    values : array, shape (n_encoders,)
        In any unit.
    name : str
        What the caller calls them, for errors.

    Returns
    -------
    float64 array (n_encoders,)
        Unchanged, but for rounding, when all values are multiplied by a positive number or shifted.

    Raises
    ------
    DataError
        If they are not finite numbers in a row.
    QueryError
        If there are fewer than two, or all are the same.

    References
    ----------
    CLID, arXiv:2206.01251, section 2.2.

    Examples
    --------
    >>> standardised([10, 30, 20]).tolist()
    [0.0, 1.0, 0.5]
    """
    numbers = numbers_of(values, name)
    if len(numbers) < 2:
        raise QueryError(
            f"{name} has {len(numbers)} value, but standardising over a population needs at least 2 encoders."
        )
    halves = numbers / 2  # the span of numbers is finite then, whatever they are
    least, largest = halves.min(), halves.max()
    if least == largest:
        raise QueryError(
            f"All {len(numbers)} encoders have the same {name} ({numbers[0]:g}), so that it cannot be standardised "
            "to [0, 1]: take more encoders, or leave it out."
        )
    between: Array = (halves - least) / (largest - least)
    return between


def numbers_of(values: Any, name: str) -> Array:
    """Finite numbers, one an encoder, float64 (n_encoders,).

    Raises
    ------
    DataError
    """
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


__all__ = ["WeightedClid", "clid", "joint_rank_product", "standardised", "w_clid", "weighted_clid"]

_PARAMETERS = 3  # two weights and an intercept
_ADMISSIBLE = 1e-9  # share of its variation that the second predictor must keep once the first is accounted for


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedClid:
    """W-CLID of a population, and the regression it comes from.

    ``values`` are predicted accuracies in the unit of ``accuracy``, one an encoder; higher is better. ``weights`` are
    those of cluster learnability and of intrinsic dimension, each standardised to [0, 1]; they and ``intercept`` were
    fitted on all ``n`` encoders, while with ``leave_one_out`` each value comes from a fit without that encoder.
    """

    values: tuple[float, ...]
    weights: tuple[float, float]
    intercept: float
    n: int
    leave_one_out: bool


def clid(cluster_learnability: Sequence[float] | Array, intrinsic_dimension: Sequence[float] | Array) -> Array:
    """CLID: cluster learnability plus intrinsic dimension, both standardised to [0, 1] over the population.

    Parameters
    ----------
    cluster_learnability : array, shape (n_encoders,)
        As a fraction or in percent.
    intrinsic_dimension : array, shape (n_encoders,)

    Returns
    -------
    float64 array (n_encoders,) between 0 and 2, dimensionless; higher is better. A value says how an encoder stands
    within this population and changes with it.

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
    accuracy : array, shape (n_encoders,)
        What is regressed on, for example in-domain accuracy in percent.
    leave_one_out : bool
        Each encoder's value comes from weights that were fitted without it. Otherwise every encoder is predicted from
        a fit that has seen its accuracy, as in the paper, which flatters a correlation with that same accuracy.
        (Standardising sees no accuracy, and moving or scaling a predictor does not change what a fit predicts; so all
        fits share it.)

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
    least = _PARAMETERS + 1 + leave_one_out
    if n < least:
        raise QueryError(
            f"W-CLID was asked for with {n} encoders, but fitting {_PARAMETERS} numbers"
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
        values=tuple(values.tolist()), weights=(float(fit[0]), float(fit[1])), intercept=float(fit[2]), n=n,
        leave_one_out=leave_one_out,
    )  # fmt: skip


def weighted_clid(
    cluster_learnability: Sequence[float] | Array,
    intrinsic_dimension: Sequence[float] | Array,
    weights: Sequence[float],
    *,
    intercept: float = 0.0,
) -> Array:
    """W-CLID elsewhere: weights that were learnt in one domain, for learnability and dimension measured in another.

    Parameters
    ----------
    cluster_learnability, intrinsic_dimension : array, shape (n_encoders,)
        Standardised to [0, 1] over their own population here.
    weights : two numbers
        Of learnability and of dimension: :attr:`WeightedClid.weights`.
    intercept : float
        Moves all values; no ranking depends on it.

    Returns
    -------
    float64 array (n_encoders,); higher is better.

    Raises
    ------
    DataError, QueryError
        As :func:`clid`, and if weights are not two finite numbers.

    Examples
    --------
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

    Parameters
    ----------
    first, second : array, shape (n_encoders,)
        Scores of which the higher is better, in any units; turn the sign of a loss, an error or an entropy. Rank 1 is
        the best encoder's, and equal scores share the mean of their ranks.

    Returns
    -------
    float64 array (n_encoders,) from 1 to n_encoders; LOWER is better. Negate it to correlate it with accuracies. Pairs
    of ranks with equal products give exactly equal numbers.

    Raises
    ------
    DataError
        If both are not finite numbers of the same encoders.
    QueryError
        If there are fewer than two encoders.

    References
    ----------
    CLID, arXiv:2206.01251, section 3.5 and Table 3. A product of ranks depends on which end is counted from; the paper
    does not say, and rank 1 is taken to be the best.

    Examples
    --------
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
    """Both standardised, (n, 2)."""
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
    """Weights and intercept, (3,), of least squares."""
    centred = design[:, :2] - design[:, :2].mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    if lengths.min() <= _ADMISSIBLE or _shared(centred / lengths) >= 1 - _ADMISSIBLE:
        raise QueryError(
            "Cluster learnability and intrinsic dimension do not vary independently of each other among the "
            f"{len(design)} encoders{without}, so that no weights are determined: take more encoders, or CLID."
        )
    found: Array = np.linalg.lstsq(design, truth, rcond=None)[0]
    return found


def _shared(units: Array) -> float:
    """Share of the variation of one column, of length 1, that the other one explains."""
    return float((units[:, 0] @ units[:, 1]) ** 2)
