"""Calibrated risk, and what follows from it: cumulative improvement over scratch, and how many labels are saved.

A calibrated risk is on the scale from a blind guess (1) to maximal supervision (0). The cumulative improvement is what
an encoder is worth over all numbers of labels at once; labels saved are those that training from scratch needs more for
the same risk. The functions of many bootstrap draws give NaN where that of one value would refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import finite_numbers, numbers, position

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

NEAR_BLIND, NEAR_MAXIMAL = 0.9, 0.1  # calibrated risks of scratch with few labels, and with many, at the least


def calibrated_risk(risk: ArrayLike, *, blind: ArrayLike, maximal: ArrayLike) -> Floats:
    """Risk on a scale whose 1 is the blind guess and whose 0 is maximal supervision.

    (R - R_maximal) / (R_blind - R_maximal). It does not change when all three risks are multiplied by a positive
    number, or a number is added to all three: the unit of the loss does not matter. To calibrate the scratch control,
    hand in its risk.

    Below 0 is better than maximal supervision, which then was no good approximation of what labels can buy; above 1 is
    worse than a guess that never looks at the image. Neither is cut off.

    Parameters
    ----------
    risk : float array, any shape
        Lower is better, any unit. To calibrate several seeds, hand in their mean.
    blind : float array
        Risk of the constant prediction with the lowest risk, in the same unit; any shape that goes with that of
        ``risk`` by numpy's rules.
    maximal : float array
        Risk of the network trained on as many labels as there are, in the same unit; likewise.

    Returns
    -------
    float array, of the shape that the three make together; lower is better

    Raises
    ------
    DataError
        If maximal supervision is no better than the blind guess anywhere, a value is not finite, the shapes do not go
        together, or the quotient is too large for a float.

    References
    ----------
    Measuring the Effectiveness of Self-Supervised Learning using Calibrated Learning Curves, under review at ICLR
    2022, Eq. 2 and 3.

    Examples
    --------
    Error rates in percent, of ten classes alike in number:

    >>> calibrated_risk([90.0, 40.0, 15.0, 10.0], blind=90.0, maximal=15.0)
    array([ 1.        ,  0.33333333,  0.        , -0.06666667])
    """
    risks = finite_numbers(risk, name="The risk")
    blinds = finite_numbers(blind, name="The risk of the blind guess")
    maxima = finite_numbers(maximal, name="The risk of maximal supervision")
    try:
        risks, blinds, maxima = np.broadcast_arrays(risks, blinds, maxima)
    except ValueError as error:
        raise DataError(
            f"The risk has the shape {risks.shape}, that of the blind guess {blinds.shape} and that of maximal "
            f"supervision {maxima.shape}; expected shapes that numpy can broadcast together."
        ) from error
    wrong = np.argwhere(maxima >= blinds)
    if len(wrong):
        where = tuple(int(each) for each in wrong[0])
        raise DataError(no_scale(blind=float(blinds[where]), maximal=float(maxima[where]), where=position(where)))
    calibrated = _quotients(risks, blinds, maxima)
    if not np.isfinite(calibrated).all():
        raise DataError(
            "The risks are too far from each other for their quotient to be a float; expected risks of comparable size."
        )
    return calibrated


def calibrated_risk_draws(risk: ArrayLike, *, blind: ArrayLike, maximal: ArrayLike) -> Floats:
    """:func:`calibrated_risk` of bootstrap draws, (n_draws,) each; NaN for a draw without a scale, or that holds a NaN.

    >>> calibrated_risk_draws([5.0, 5.0], blind=[9.0, 4.0], maximal=[1.0, 4.0])
    array([0.5, nan])
    """
    risks = numbers(risk, name="The risk", n_axes=1)
    blinds = numbers(blind, name="The risk of the blind guess", n_axes=1)
    maxima = numbers(maximal, name="The risk of maximal supervision", n_axes=1)
    if not len(risks) == len(blinds) == len(maxima):
        raise DataError(
            f"There are {len(risks)} draws of the risk, {len(blinds)} of the blind guess and {len(maxima)} of maximal "
            "supervision; expected as many of each."
        )
    return _quotients(risks, blinds, maxima)


def _quotients(risks: Floats, blinds: Floats, maxima: Floats) -> Floats:
    """NaN where the scale has no width, or the quotient is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = blinds - maxima
        quotients = (risks - maxima) / np.where((width > 0) & np.isfinite(width), width, np.nan)
    return np.asarray(np.where(np.isfinite(quotients), quotients, np.nan))


def no_scale(*, blind: float, maximal: float, where: str = "") -> str:
    """Message where maximal supervision is no better than the blind guess."""
    return (
        f"Maximal supervision has a risk of {maximal:.6g} and the blind guess one of {blind:.6g}{where}; expected "
        "maximal supervision to be lower, for calibrated risk runs from one to the other: train it on more labels or "
        "for longer, or take a recorded risk."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A calibrated cumulative improvement, and the range it is of."""

    value: float  # share of the area under the diagonal; higher is better
    from_scratch: float  # calibrated risks of scratch in the first and ...
    to_scratch: float  # ... in the last regime, between which the area lies; at least 0
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
    """:func:`cumulative_improvement` of every row of two tables (n_draws, n_regimes): of each bootstrap draw.

    NaN for a draw that :func:`cumulative_improvement` would refuse, or that holds a NaN.

    >>> cumulative_improvements([[0.4, 0.0], [0.4, 0.3]], [[0.8, 0.0], [0.2, 0.3]])
    array([0.5, nan])
    """
    y = numbers(calibrated, name="The calibrated risk", n_axes=2)
    x = numbers(calibrated_scratch, name="The calibrated risk of scratch", n_axes=2)
    _check_shapes(y, x)
    improvements = np.full(len(x), np.nan)
    if x.shape[1] >= 2:
        usable = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1) & (x[:, 0] > 0) & (x[:, -1] < x[:, 0])
        improvements[usable] = _improvements(y[usable], x[usable])
        improvements[~np.isfinite(improvements)] = np.nan
    return improvements


def _improvements(y: Floats, x: Floats) -> Floats:
    """Of rows (n_draws, n_regimes) whose x begins above 0 and ends lower than it begins."""
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


Bound: TypeAlias = Literal["=", ">", "<"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSaved:
    """What scratch needs to reach the encoder's risk, one entry a regime."""

    n: tuple[int, ...]  # labels that the encoder was trained on
    scratch_n: tuple[float | None, ...]  # labels with which scratch has the encoder's risk; None with only a bound
    bound: tuple[Bound, ...]  # scratch needs ``limit`` labels ("="), more (">") or fewer ("<")
    limit: tuple[float, ...]  # ``scratch_n``, or the most or the fewest labels that scratch was measured with
    share_saved: tuple[float, ...]
    """1 - n / limit: share of scratch's labels that the encoder saves, below 1; higher is better, below 0 the encoder
    needs more labels than scratch. The bound holds for it too: with ">" it is at least so much."""


def labels_saved(
    n: ArrayLike, risk: ArrayLike, risk_scratch: ArrayLike, *, maximal: tuple[int, float] | None = None
) -> LabelsSaved:
    """How many labels scratch needs to reach the encoder's risk in each regime.

    Between the regimes that were measured, the risk of scratch is taken to be linear in the logarithm of the number of
    labels. If scratch reaches a risk more than once, its curve going up and down, the fewest labels count. Outside of
    what was measured only a bound is given: a curve is not continued.

    Risks may be calibrated or not, which makes no difference.

    Parameters
    ----------
    n : int array, shape (n_regimes,)
        Labels, rising.
    risk : float array, shape (n_regimes,)
        Of the encoder with so many labels, any unit; lower is better.
    risk_scratch : float array, shape (n_regimes,)
        Of scratch with as many, in the same unit.
    maximal : (int, float), optional
        Labels and risk of maximal supervision, if it is scratch with more labels than the last regime: one more point
        of the curve of scratch.

    Returns
    -------
    LabelsSaved

    Raises
    ------
    DataError
        If there is no regime, the shapes differ, a value is not finite, the numbers of labels are not whole, positive
        and rising, or maximal supervision has no more labels than the last regime.

    Examples
    --------
    >>> saved = labels_saved([100, 400, 1600], risk=[30.0, 20.0, 5.0], risk_scratch=[60.0, 40.0, 20.0])
    >>> round(saved.scratch_n[0]), saved.scratch_n[1], saved.scratch_n[2]
    (800, 1600.0, None)
    >>> saved.bound, saved.limit[2]  # scratch needs more than 1600 labels to err on 5 %
    (('=', '=', '>'), 1600.0)
    >>> saved.share_saved[1]
    0.75
    """
    labels = finite_numbers(n, name="The number of labels", n_axes=1)
    risks = finite_numbers(risk, name="The risk", n_axes=1)
    scratch = finite_numbers(risk_scratch, name="The risk of scratch", n_axes=1)
    if not len(labels) == len(risks) == len(scratch) > 0:
        raise DataError(
            f"There are {len(labels)} numbers of labels, {len(risks)} risks and {len(scratch)} risks of scratch; "
            "expected one of each a regime, and at least one regime."
        )
    _check_labels(labels)
    path_n, path = labels, scratch
    if maximal is not None:
        point = finite_numbers(maximal, name="The labels and risk of maximal supervision", n_axes=1)
        if len(point) != 2 or point[0] <= labels[-1]:
            raise DataError(
                f"Maximal supervision is given as {maximal!r}, and the last regime has {labels[-1]:.0f} labels; "
                "expected its number of labels, above that, and its risk."
            )
        path_n, path = np.append(labels, point[0]), np.append(scratch, point[1])
    needed = labels_of_scratch(path_n, risks, np.broadcast_to(path, (len(risks), len(path))))
    bounded = [_bounded(float(each), path_n) for each in needed]
    return LabelsSaved(
        n=tuple(int(each) for each in labels),
        scratch_n=tuple(limit if bound == "=" else None for bound, limit in bounded),
        bound=tuple(bound for bound, _ in bounded),
        limit=tuple(limit for _, limit in bounded),
        share_saved=tuple(1 - float(count) / limit for count, (_, limit) in zip(labels, bounded, strict=True)),
    )


def labels_of_scratch(n: ArrayLike, risk: ArrayLike, risk_scratch: ArrayLike) -> Floats:
    """How many labels scratch needs for a risk, in every bootstrap draw, for an interval of :func:`labels_saved`.

    ``n`` are the labels with which scratch was measured, rising, (n_points,); ``risk`` is the one to reach, (n_draws,);
    row i of ``risk_scratch``, (n_draws, n_points), is of the same draw as entry i of it. The result, (n_draws,), is 0
    where scratch needs fewer labels than the first of ``n``, infinity where it needs more than the last, and NaN for a
    draw that holds a NaN.

    >>> labels_of_scratch([100, 400], risk=[30.0, 50.0, 10.0], risk_scratch=[[40.0, 20.0]] * 3)
    array([200.,   0.,  inf])
    """
    labels = finite_numbers(n, name="The number of labels", n_axes=1)
    wanted = numbers(risk, name="The risk", n_axes=1)
    path = numbers(risk_scratch, name="The risk of scratch", n_axes=2)  # (n_draws, n_points)
    if path.shape != (len(wanted), len(labels)) or not len(labels):
        raise DataError(
            f"There are {len(labels)} numbers of labels, {len(wanted)} risks, and risks of scratch of the shape "
            f"{path.shape}; expected these to be of shape ({len(wanted)}, {len(labels)}), with at least one column."
        )
    _check_labels(labels)
    draws = np.arange(len(wanted))
    reached = path <= wanted[:, None]
    right = reached.argmax(axis=1)
    left = np.maximum(right - 1, 0)
    above, below = path[draws, left], path[draws, right]
    between = reached.any(axis=1) & (right > 0) & (below < wanted)  # else reached at a point, without a logarithm
    with np.errstate(over="ignore", invalid="ignore"):
        share = np.where(between, above - wanted, 1) / np.where(between, above - below, 1)
    needed = np.where(between, labels[left] * (labels[right] / labels[left]) ** share, labels[right])
    needed = np.where(reached.any(axis=1), needed, np.inf)
    needed = np.where(path[:, 0] < wanted, 0.0, needed)
    return np.where(np.isfinite(path).all(axis=1) & np.isfinite(wanted), needed, np.nan)


def _bounded(needed: float, n: Floats) -> tuple[Bound, float]:
    if np.isinf(needed):
        return ">", float(n[-1])
    return ("=", needed) if needed else ("<", float(n[0]))


def _check_labels(labels: Floats) -> None:
    if (labels < 1).any() or (labels != np.round(labels)).any() or (np.diff(labels) <= 0).any():
        shown = ", ".join(f"{each:g}" for each in labels)
        raise DataError(f"The numbers of labels are {shown}; expected whole numbers from 1 on, each above the last.")
