"""Calibrated risk: a risk on the scale from a blind guess to the best that labels can buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DataError
from ...optional import requires_extra
from .arrays import finite_numbers, numbers, position

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


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
    found = _quotients(risks, blinds, maxima)
    if not np.isfinite(found).all():
        raise DataError(
            "The risks are too far from each other for their quotient to be a float; expected risks of comparable size."
        )
    return found


def calibrated_risk_draws(risk: ArrayLike, *, blind: ArrayLike, maximal: ArrayLike) -> Floats:
    """:func:`calibrated_risk` of bootstrap draws, some of which may have no scale.

    Parameters
    ----------
    risk, blind, maximal : float arrays, shape (n_draws,)
        Entry i of each is of one draw. NaN is allowed.

    Returns
    -------
    float array, shape (n_draws,); lower is better
        NaN for a draw whose maximal supervision is no better than its blind guess, or that holds a NaN.

    Raises
    ------
    DataError
        If the shapes differ or have not one axis.

    Examples
    --------
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
    """NaN where there is none."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = blinds - maxima
        found = (risks - maxima) / np.where((width > 0) & np.isfinite(width), width, np.nan)
    return np.asarray(np.where(np.isfinite(found), found, np.nan))


def no_scale(*, blind: float, maximal: float, where: str = "") -> str:
    """The sentence on maximal supervision that is no better than the blind guess."""
    return (
        f"Maximal supervision has a risk of {maximal:.6g} and the blind guess one of {blind:.6g}{where}; expected "
        "maximal supervision to be lower, for calibrated risk runs from one to the other: train it on more labels or "
        "for longer, or take a recorded risk."
    )
