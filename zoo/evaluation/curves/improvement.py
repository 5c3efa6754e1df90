"""Calibrated cumulative improvement: what an encoder is worth over scratch, over all data sizes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import DataError
from ...optional import requires_extra
from .arrays import finite_numbers, numbers

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A calibrated cumulative improvement, and the range it is of.

    Attributes
    ----------
    value : float
        Share of the area under the diagonal; higher is better.
    from_scratch, to_scratch : float
        Calibrated risks of scratch in the first and the last regime, between which the area lies; at least 0.
    n_regimes : int
        Points of the curve.
    """

    value: float
    from_scratch: float
    to_scratch: float
    n_regimes: int


def cumulative_improvement(calibrated: ArrayLike, calibrated_scratch: ArrayLike) -> Improvement:
    """Area between the diagonal and an encoder's curve, as a share of the area under the diagonal.

    The curve has the calibrated risk of scratch as its x and that of the encoder as its y. It is followed from the
    regime with the fewest labels to that with the most, straight between neighbours, and x - y is integrated over the
    way that x goes down; where x goes up again, with scratch getting worse with more labels, the integral is taken
    back. Both areas lie over the measured range of x alone, from its first to its last value, which the result
    states: what is outside is unknown and does not count.

    0 is an encoder that is worth as much as random weights, in every regime or in the sum; 1 is one that reaches
    maximal supervision throughout; below 0 pre-training does harm. Above 1 the encoder is better than maximal
    supervision (its calibrated risk is below 0), which is not cut off. Where scratch is better than maximal supervision
    (x below 0) there is no area under the diagonal: that part of the curve is cut off at x = 0.

    Parameters
    ----------
    calibrated : float array, shape (n_regimes,)
        Calibrated risk of the encoder, in the order of the number of labels; lower is better.
    calibrated_scratch : float array, shape (n_regimes,)
        That of scratch in the same regimes.

    Returns
    -------
    Improvement

    Raises
    ------
    DataError
        If there is one regime only, scratch does not improve from the first to the last, scratch is no worse than
        maximal supervision from the first on, the shapes differ, or a value is not finite.

    References
    ----------
    Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves, under review at ICLR
    2022, section 3.3, Calibrated Cumulative Improvement.

    Examples
    --------
    >>> cumulative_improvement([0.45, 0.25, 0.05], [0.9, 0.5, 0.1]).value  # half the risk of scratch in every regime
    0.5
    >>> cumulative_improvement([0.0, 0.0], [0.9, 0.1])
    Improvement(value=1.0, from_scratch=0.9, to_scratch=0.1, n_regimes=2)
    """
    y = finite_numbers(calibrated, name="The calibrated risk", n_axes=1)
    x = finite_numbers(calibrated_scratch, name="The calibrated risk of scratch", n_axes=1)
    _check_shapes(y, x)
    if len(x) < 2:
        raise DataError(
            f"A curve of {len(x)} regime{'s' * (len(x) != 1)} spans no area in the plot against scratch; expected at "
            "least two numbers of labels for a cumulative improvement."
        )
    if x[0] <= 0:
        raise DataError(
            f"Scratch has a calibrated risk of {x[0]:.3g} in the first regime, no worse than maximal supervision, so "
            "that there is no area under the diagonal; expected regimes with fewer labels."
        )
    if x[-1] >= x[0]:
        raise DataError(
            f"Scratch does not improve from the first regime (calibrated risk {x[0]:.3g}) to the last ({x[-1]:.3g}), "
            "so that the curve spans no range; expected regimes with more labels, or more seeds."
        )
    value = float(_improvements(y[None], x[None])[0])
    if not np.isfinite(value):
        raise DataError(
            "The calibrated risks are too large for their area to be a float; expected risks of about the size of the "
            "blind guess."
        )
    return Improvement(value=value, from_scratch=float(x[0]), to_scratch=max(float(x[-1]), 0.0), n_regimes=len(x))


def cumulative_improvements(calibrated: ArrayLike, calibrated_scratch: ArrayLike) -> Floats:
    """:func:`cumulative_improvement` of every row: of each bootstrap draw, for an interval.

    Parameters
    ----------
    calibrated, calibrated_scratch : float arrays, shape (n_draws, n_regimes)
        Row i of both is of one draw. NaN is allowed.

    Returns
    -------
    float array, shape (n_draws,); higher is better
        NaN for a draw that :func:`cumulative_improvement` would refuse, or that holds a NaN.

    Raises
    ------
    DataError
        If the shapes differ or have not two axes.

    Examples
    --------
    >>> cumulative_improvements([[0.4, 0.0], [0.4, 0.3]], [[0.8, 0.0], [0.2, 0.3]])
    array([0.5, nan])
    """
    y = numbers(calibrated, name="The calibrated risk", n_axes=2)
    x = numbers(calibrated_scratch, name="The calibrated risk of scratch", n_axes=2)
    _check_shapes(y, x)
    found = np.full(len(x), np.nan)
    if x.shape[1] >= 2:
        usable = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1) & (x[:, 0] > 0) & (x[:, -1] < x[:, 0])
        found[usable] = _improvements(y[usable], x[usable])
        found[~np.isfinite(found)] = np.nan
    return found


def _improvements(y: Floats, x: Floats) -> Floats:
    """Of rows that are identified, shape (n_draws, n_regimes)."""
    with np.errstate(over="ignore", invalid="ignore"):
        scale = x[:, :1]  # squares of very small numbers would vanish
        gap = (x - y) / scale  # (n_draws, n_regimes); exactly 0 for an encoder that equals scratch
        x = x / scale
        left, right, gap_left, gap_right = x[:, :-1], x[:, 1:], gap[:, :-1], gap[:, 1:]  # (n_draws, n_regimes - 1)
        crosses = (left < 0) != (right < 0)
        share = left / np.where(crosses, left - right, 1.0)  # of the way from left to right, at which x is 0
        gap_at_zero = gap_left + share * (gap_right - gap_left)
        gap_left = np.where(crosses & (left < 0), gap_at_zero, gap_left)
        gap_right = np.where(crosses & (right < 0), gap_at_zero, gap_right)
        way = np.maximum(left, 0) - np.maximum(right, 0)  # 0 where both ends are cut off
        twice_between = ((gap_left + gap_right) * way).sum(axis=1)
        last = np.maximum(x[:, -1], 0)
        return np.asarray(twice_between / ((1 - last) * (1 + last)))  # twice the area under the diagonal, exactly


def _check_shapes(y: Floats, x: Floats) -> None:
    if y.shape != x.shape:
        raise DataError(
            f"The calibrated risk has the shape {y.shape} and that of scratch {x.shape}; expected the same regimes of "
            "both."
        )
