"""Labels saved: how many labels training from scratch needs to get as far as an encoder does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...errors import DataError
from ...optional import requires_extra
from .arrays import finite_numbers, numbers

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Bound: TypeAlias = Literal["=", ">", "<"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSaved:
    """What scratch needs to reach the encoder's risk, one entry a regime.

    Attributes
    ----------
    n : tuple of int
        Labels that the encoder was trained on.
    scratch_n : tuple of float or None
        Labels with which scratch has the encoder's risk; None where only a bound is known.
    bound : tuple of "=", ">" or "<"
        "=": scratch needs ``limit`` labels; ">": more than that, and nobody measured how many; "<": fewer than that.
    limit : tuple of float
        Of the bound: the most or the fewest labels that scratch was measured with, or ``scratch_n`` itself.
    share_saved : tuple of float
        1 - n / limit: share of scratch's labels that the encoder makes superfluous, below 1; higher is better, below 0
        the encoder needs more labels than scratch. The bound holds for it too: ">" is at least so much.
    """

    n: tuple[int, ...]
    scratch_n: tuple[float | None, ...]
    bound: tuple[Bound, ...]
    limit: tuple[float, ...]
    share_saved: tuple[float, ...]


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
    found = [_bounded(float(each), path_n) for each in needed]
    return LabelsSaved(
        n=tuple(int(each) for each in labels),
        scratch_n=tuple(limit if bound == "=" else None for bound, limit in found),
        bound=tuple(bound for bound, _ in found),
        limit=tuple(limit for _, limit in found),
        share_saved=tuple(1 - float(own) / limit for own, (_, limit) in zip(labels, found, strict=True)),
    )


def labels_of_scratch(n: ArrayLike, risk: ArrayLike, risk_scratch: ArrayLike) -> Floats:
    """How many labels scratch needs for a risk, in every bootstrap draw, for an interval of :func:`labels_saved`.

    Parameters
    ----------
    n : int array, shape (n_points,)
        Labels with which scratch was measured, rising.
    risk : float array, shape (n_draws,)
        The risk to reach, any unit. NaN is allowed.
    risk_scratch : float array, shape (n_draws, n_points)
        Of scratch with so many labels, in the same unit; row i is of the draw of entry i of ``risk``.

    Returns
    -------
    float array, shape (n_draws,)
        0 where scratch needs fewer labels than the first of ``n``, infinity where it needs more than the last, NaN for
        a draw that holds a NaN.

    Raises
    ------
    DataError
        If the shapes do not go together, or the numbers of labels are not whole, positive and rising.

    Examples
    --------
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
    found = np.where(between, labels[left] * (labels[right] / labels[left]) ** share, labels[right])
    found = np.where(reached.any(axis=1), found, np.inf)
    found = np.where(path[:, 0] < wanted, 0.0, found)
    return np.where(np.isfinite(path).all(axis=1) & np.isfinite(wanted), found, np.nan)


def _bounded(needed: float, n: Floats) -> tuple[Bound, float]:
    if np.isinf(needed):
        return ">", float(n[-1])
    return ("=", needed) if needed else ("<", float(n[0]))


def _check_labels(labels: Floats) -> None:
    if (labels < 1).any() or (labels != np.round(labels)).any() or (np.diff(labels) <= 0).any():
        shown = ", ".join(f"{each:g}" for each in labels)
        raise DataError(f"The numbers of labels are {shown}; expected whole numbers from 1 on, each above the last.")
