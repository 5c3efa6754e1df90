"""The scale of learning curves: 1 is the constant baseline, 0 maximal supervision; and what encoders are worth on it.

A calibrated risk is on that scale. The cumulative improvement sums up what an encoder is worth over all numbers of
labels; labels saved are those that training from scratch needs more for the same risk. The functions of bootstrap draws
give NaN where that of one value raises. Blind guesses are the constants with the lowest risk on training labels, by the
loss: the most frequent class, the median of every pixel, and the direction of every pixel with the least mean angle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...errors import DataError
from ...optional import require_extra
from ..arrays import check_finite_numbers, check_numbers, format_position

with require_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

NEAR_BLIND, NEAR_MAXIMAL = 0.9, 0.1  # calibrated risks of scratch with few labels, and with many, at the least


def calibrated_risk(risk: ArrayLike, *, blind: ArrayLike, maximal: ArrayLike) -> Floats:
    """Risk on a scale whose 1 is the constant baseline and whose 0 is maximal supervision.

    (R - R_maximal) / (R_blind - R_maximal), which does not depend on the unit of the loss. Values below 0 (better than
    maximal supervision) and above 1 (worse than a guess that never looks at the image) are not cut off.

    Parameters
    ----------
    risk : float array, any shape
        Lower is better, any unit. To calibrate several seeds, hand in their mean.
    blind, maximal : float array
        Risks of the constant baseline and of maximal supervision, in the same unit, of shapes that broadcast with
        ``risk``.

    Returns
    -------
    float array, of the shape that the three make together; lower is better

    Raises
    ------
    DataError
        If maximal supervision is no better than the constant baseline anywhere, a value is not finite, or the shapes do
        not go together.

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
    risks = check_finite_numbers(risk, name="The risk")
    blinds = check_finite_numbers(blind, name="The risk of the constant baseline")
    maxima = check_finite_numbers(maximal, name="The risk of maximal supervision")
    try:
        risks, blinds, maxima = np.broadcast_arrays(risks, blinds, maxima)
    except ValueError as error:
        raise DataError(
            f"The risk has the shape {risks.shape}, that of the constant baseline {blinds.shape} and that of maximal "
            f"supervision {maxima.shape}; expected shapes that numpy can broadcast together."
        ) from error
    wrong = np.argwhere(maxima >= blinds)
    if len(wrong):
        where = tuple(int(each) for each in wrong[0])
        raise DataError(
            describe_missing_scale(
                blind=float(blinds[where]), maximal=float(maxima[where]), where=format_position(where)
            )
        )
    return np.asarray((risks - maxima) / (blinds - maxima))


def calibrate_risk_draws(risk: ArrayLike, *, blind: ArrayLike, maximal: ArrayLike) -> Floats:
    """:func:`calibrated_risk` of bootstrap draws, (n_draws,) each; NaN for a draw without a scale, or with a NaN.

    >>> calibrate_risk_draws([5.0, 5.0], blind=[9.0, 4.0], maximal=[1.0, 4.0])
    array([0.5, nan])
    """
    risks, blinds, maxima = (np.asarray(each, dtype=np.float64) for each in (risk, blind, maximal))
    with np.errstate(invalid="ignore"):
        width = blinds - maxima
        quotients = (risks - maxima) / np.where((width > 0) & np.isfinite(width), width, np.nan)
    return np.asarray(np.where(np.isfinite(quotients), quotients, np.nan))


def describe_missing_scale(*, blind: float, maximal: float, where: str = "") -> str:
    """Message where maximal supervision is no better than the constant baseline."""
    return (
        f"Maximal supervision has a risk of {maximal:.6g} and the constant baseline one of {blind:.6g}{where}; "
        "expected maximal supervision to be lower, for calibrated risk runs from one to the other: train it on more "
        "labels or for longer, or take a recorded risk."
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

    The curve has the calibrated risk of scratch as x and that of the encoder as y, from the fewest labels to the most,
    straight between regimes. x - y is integrated over the measured range of x; where x goes up again (scratch gets
    worse with more labels) the integral is taken back, and the part at x < 0 (scratch better than maximal supervision)
    is cut off. 0 is worth as much as random weights, 1 reaches maximal supervision throughout, below 0 pre-training
    does harm, and above 1 the encoder is better than maximal supervision.

    Parameters
    ----------
    calibrated, calibrated_scratch : float array, shape (n_regimes,)
        Calibrated risks of the encoder and of scratch, in the order of the number of labels; lower is better.

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
    >>> cumulative_improvement([0.45, 0.25, 0.05], [0.9, 0.5, 0.1])  # half the risk of scratch in every regime
    Improvement(value=0.5, from_scratch=0.9, to_scratch=0.1, n_regimes=3)
    """
    y = check_finite_numbers(calibrated, name="The calibrated risk", n_axes=1)
    x = check_finite_numbers(calibrated_scratch, name="The calibrated risk of scratch", n_axes=1)
    if y.shape != x.shape:
        raise DataError(
            f"The calibrated risk has the shape {y.shape} and that of scratch {x.shape}; expected the same regimes of "
            "both."
        )
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
    return Improvement(value=value, from_scratch=float(x[0]), to_scratch=max(float(x[-1]), 0.0), n_regimes=len(x))


def compute_improvements(calibrated: ArrayLike, calibrated_scratch: ArrayLike) -> Floats:
    """:func:`cumulative_improvement` of every row of two tables (n_draws, n_regimes), as of bootstrap draws.

    NaN for a draw that :func:`cumulative_improvement` would refuse, or that holds a NaN.

    >>> compute_improvements([[0.4, 0.0], [0.4, 0.3]], [[0.8, 0.0], [0.2, 0.3]])
    array([0.5, nan])
    """
    y = check_numbers(calibrated, name="The calibrated risk", n_axes=2)
    x = check_numbers(calibrated_scratch, name="The calibrated risk of scratch", n_axes=2)
    improvements = np.full(len(x), np.nan)
    if x.shape[1] >= 2:
        usable = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1) & (x[:, 0] > 0) & (x[:, -1] < x[:, 0])
        improvements[usable] = _improvements(y[usable], x[usable])
    return improvements


def _improvements(y: Floats, x: Floats) -> Floats:
    """Of rows (n_draws, n_regimes) whose x begins above 0 and ends lower than it begins."""
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


Bound: TypeAlias = Literal["=", ">", "<"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSaved:
    """What scratch needs to reach the encoder's risk, one entry per regime."""

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

    Between regimes the risk of scratch is linear in the logarithm of the number of labels; if scratch reaches a risk
    more than once, the fewest labels count. Outside of what was measured only a bound is given. Risks may be calibrated
    or not, which makes no difference.

    Parameters
    ----------
    n : int array, shape (n_regimes,)
        Labels, rising.
    risk, risk_scratch : float array, shape (n_regimes,)
        Of the encoder and of scratch with so many labels, any unit; lower is better.
    maximal : (int, float), optional
        Labels and risk of maximal supervision, if it is scratch with more labels than the last regime.

    Raises
    ------
    DataError
        If the shapes differ, a value is not finite, or the numbers of labels are not whole, positive and rising.

    Examples
    --------
    >>> saved = labels_saved([100, 400, 1600], risk=[30.0, 20.0, 5.0], risk_scratch=[60.0, 40.0, 20.0])
    >>> round(saved.scratch_n[0]), saved.scratch_n[1:], saved.bound, saved.limit[2], saved.share_saved[1]
    (800, (1600.0, None), ('=', '=', '>'), 1600.0, 0.75)
    """
    labels = check_finite_numbers(n, name="The number of labels", n_axes=1)
    risks = check_finite_numbers(risk, name="The risk", n_axes=1)
    scratch = check_finite_numbers(risk_scratch, name="The risk of scratch", n_axes=1)
    if not len(labels) == len(risks) == len(scratch) > 0:
        raise DataError(
            f"There are {len(labels)} numbers of labels, {len(risks)} risks and {len(scratch)} risks of scratch; "
            "expected one of each a regime, and at least one regime."
        )
    path_n, path = labels, scratch
    if maximal is not None:
        path_n, path = np.append(labels, maximal[0]), np.append(scratch, maximal[1])
    if (path_n < 1).any() or (path_n != np.round(path_n)).any() or (np.diff(path_n) <= 0).any():
        shown = ", ".join(f"{each:g}" for each in path_n)
        raise DataError(f"The numbers of labels are {shown}; expected whole numbers from 1 on, each above the last.")
    needed = interpolate_scratch_labels(path_n, risks, np.broadcast_to(path, (len(risks), len(path))))
    bounds: list[Bound] = [">" if each == np.inf else "=" if each else "<" for each in needed]
    limits = [float(each) for each in np.where(needed == 0, path_n[0], np.minimum(needed, path_n[-1]))]
    return LabelsSaved(
        n=tuple(int(each) for each in labels),
        scratch_n=tuple(limit if bound == "=" else None for bound, limit in zip(bounds, limits, strict=True)),
        bound=tuple(bounds),
        limit=tuple(limits),
        share_saved=tuple(1 - float(count) / limit for count, limit in zip(labels, limits, strict=True)),
    )


def interpolate_scratch_labels(n: ArrayLike, risk: ArrayLike, risk_scratch: ArrayLike) -> Floats:
    """Labels with which scratch has a risk, in every bootstrap draw; 0 and infinity for fewer and more than in ``n``.

    ``n`` (n_points,) are the labels of scratch, rising; ``risk`` (n_draws,) is to be reached by ``risk_scratch``
    (n_draws, n_points), row by row. NaN for a draw that holds a NaN.

    >>> interpolate_scratch_labels([100, 400], risk=[30.0, 50.0, 10.0], risk_scratch=[[40.0, 20.0]] * 3)
    array([200.,   0.,  inf])
    """
    labels, wanted, path = (np.asarray(each, dtype=np.float64) for each in (n, risk, risk_scratch))
    draws = np.arange(len(wanted))
    reached = path <= wanted[:, None]
    right = reached.argmax(axis=1)
    left = np.maximum(right - 1, 0)
    above, below = path[draws, left], path[draws, right]
    between = reached.any(axis=1) & (right > 0) & (below < wanted)  # else reached at a point, without a logarithm
    share = np.where(between, above - wanted, 1) / np.where(between, above - below, 1)
    needed = np.where(between, labels[left] * (labels[right] / labels[left]) ** share, labels[right])
    needed = np.where(reached.any(axis=1), needed, np.inf)
    needed = np.where(path[:, 0] < wanted, 0.0, needed)
    return np.where(np.isfinite(path).all(axis=1) & np.isfinite(wanted), needed, np.nan)


# --- constant baselines
# ---------------------------------------------------------------------------------------------------

_MOST_VALUES = 4_000_000  # of maps in memory at once
_MOST_POOLED = 20_000  # normals that stand for all pixels together
_NO_ANGLE_RAD = 1e-7


def majority_class(labels: ArrayLike, n_classes: int) -> int:
    """The most frequent of classes 0 to ``n_classes`` - 1, the constant with the lowest 0-1 loss; of equals the first.

    DataError if all of the labels (n,) are the same, or one is no class.

    >>> majority_class([2, 0, 2, 1], 3)
    2
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n_classes:
        raise DataError(
            f"The labels have the shape {given.shape} and the type {given.dtype}; expected at least one whole number "
            f"from 0 to {n_classes - 1}, shape (n,)."
        )
    if given.min() == given.max():
        raise DataError(
            f"All {given.size} labels are the class {given[0]}, so that a guess without looking is never wrong; "
            "expected at least two classes."
        )
    return int(np.bincount(given.astype(np.int64), minlength=n_classes).argmax())


def pixelwise_median(maps: ArrayLike, valid: ArrayLike | None = None) -> Floats:
    """The median of every pixel, which has the lowest mean absolute error of all constant maps.

    Of maps (n, channels, h, w) in any unit, shape (channels, h, w) in the same. ``valid``, bool (n, h, w), says which
    pixels are known; others are never read. A pixel that is valid in no map gets the median of all valid pixels of its
    channel. DataError if nothing is valid, a valid pixel is not finite, or the maps are equal wherever they are valid.

    >>> maps = np.array([1.0, 2.0, 9.0]).reshape(3, 1, 1, 1)
    >>> pixelwise_median(maps).item(), pixelwise_median(maps, valid=np.array([[[True]], [[False]], [[True]]])).item()
    (2.0, 5.0)
    """
    values, mask = _maps(maps, valid)
    medians = np.empty(values.shape[1:])
    varies = False
    for rows in _blocks(values):
        known = np.broadcast_to(mask[:, None, rows], values[:, :, rows].shape)
        block = np.where(known, values[:, :, rows].astype(np.float64), np.inf)  # (n, c, rows, w)
        if not np.isfinite(block[known]).all():
            raise DataError("A valid pixel of the maps is not finite; expected such pixels to be marked as not valid.")
        ordered = np.sort(block, axis=0)
        n_valid = mask[:, rows].sum(axis=0)[None, None]  # (1, 1, rows, w)
        ranks = (n_valid - 1) // 2, n_valid // 2, n_valid - 1
        below, above, highest = (np.take_along_axis(ordered, np.maximum(rank, 0), axis=0)[0] for rank in ranks)
        varies |= bool(((highest > ordered[0]) & (n_valid[0] > 0)).any())
        medians[:, rows] = 0.5 * below + 0.5 * above
    if not varies:
        raise DataError(_constant(len(values)))
    never = ~mask.any(axis=0)
    if never.any():
        for channel in range(values.shape[1]):
            medians[channel, never] = np.median(values[:, channel][mask])
    return medians


def pixelwise_direction(normals: ArrayLike, valid: ArrayLike | None = None) -> Floats:
    """The direction of every pixel with the least mean angle to its normals: their median on the sphere.

    Of normals (n, 3, h, w) of any length above 0, unit vectors, shape (3, h, w). ``valid`` and errors are as for
    :func:`pixelwise_median`; a pixel that is valid in no map gets the best direction for the valid normals of all
    pixels, or for 20,000 of them in even steps.

    >>> towards, right = [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]
    >>> pixelwise_direction(np.array([towards, right, towards]).reshape(3, 3, 1, 1)).ravel()
    array([0., 0., 1.])
    """
    values, mask = _maps(normals, valid)
    n, n_channels, height, width = values.shape
    if n_channels != 3:
        raise DataError(f"The normals have the shape {values.shape}; expected three components, shape (n, 3, h, w).")
    directions = np.empty((height, width, 3))
    varies = False
    for rows in _blocks(values):
        known = mask[:, rows].reshape(n, -1).T  # (n_pixels, n)
        block = values[:, :, rows].reshape(n, 3, -1).transpose(2, 0, 1)  # (n_pixels, n, 3)
        best, angles = find_least_angle_directions(_units(block, known), known)
        varies |= bool((angles > _NO_ANGLE_RAD).any())
        directions[rows] = best.reshape(-1, width, 3)
    if not varies:
        raise DataError(_constant(n))
    never = ~mask.any(axis=0)
    if never.any():
        where = np.argwhere(mask)  # (n_valid, 3)
        image, row, column = where[np.linspace(0, len(where) - 1, min(len(where), _MOST_POOLED)).astype(np.int64)].T
        pooled = values[image, :, row, column][None]  # (1, n_pooled, 3)
        all_valid = np.ones(pooled.shape[:2], dtype=bool)
        directions[never] = find_least_angle_directions(_units(pooled, all_valid), all_valid)[0][0]
    return np.ascontiguousarray(directions.transpose(2, 0, 1))


def _units(vectors: NDArray[np.floating], valid: Mask) -> Floats:
    """Unit vectors where valid, zero elsewhere, shape (n_places, n, 3)."""
    units = np.where(valid[:, :, None], vectors, 0).astype(np.float64)
    length = np.sqrt((units * units).sum(axis=2, keepdims=True))
    if not np.isfinite(length).all() or (length[valid] == 0).any():
        raise DataError(
            "A valid normal is zero or not finite, so that it has no direction; expected such pixels to be marked as "
            "not valid."
        )
    return np.asarray(units / np.where(length > 0, length, 1))


def _maps(maps: ArrayLike, valid: ArrayLike | None) -> tuple[NDArray[np.floating], Mask]:
    values = np.asarray(maps)
    if values.ndim != 4 or 0 in values.shape or values.dtype.kind not in "fiu":
        raise DataError(
            f"The maps have the shape {values.shape} and the type {values.dtype}; expected at least one of numbers, "
            "shape (n, channels, h, w)."
        )
    shape = (values.shape[0], *values.shape[2:])
    mask = np.ones(shape, dtype=bool) if valid is None else np.asarray(valid)
    if mask.shape != shape or mask.dtype != bool or not mask.any():
        raise DataError(
            f"The mask of valid pixels has the shape {mask.shape} and the type {mask.dtype}, for maps of the shape "
            f"{values.shape}; expected bool, shape {shape}, with at least one valid pixel."
        )
    return values, mask


def _blocks(values: NDArray[np.floating]) -> list[slice]:
    """Rows of the maps, as many at a time as fit into the memory that is meant for them."""
    n, n_channels, height, width = values.shape
    step = max(1, _MOST_VALUES // (n * n_channels * width))
    return [slice(start, min(start + step, height)) for start in range(0, height, step)]


def _constant(n: int) -> str:
    return (
        f"All maps ({n}) are equal wherever they are valid, so that a guess without looking is never wrong; expected "
        "at least two that differ."
    )


_N_CHOOSING = 256  # given directions that choose the valley
_N_GIVEN_STARTS = 64  # of them that are tried as a start
_N_SPREAD = 64  # directions over the whole sphere, some 25 degrees apart
_N_STARTS = 3
_MOST_STEPS = 200
_LEAST_STEP_RAD = 1e-5  # shorter steps end the descent
_N_NEWTON = 4  # steps that then find the bottom of a flat valley
_SAME_RAD = 1e-9  # directions closer than that are one
_MOST_ANGLES = 2_000_000  # in memory at once


def find_least_angle_directions(units: Floats, valid: Mask) -> tuple[Floats, Floats]:
    """The direction with the least mean angle to the valid ones, of every place: their median on the sphere.

    Of unit vectors (n_places, n, 3) and whether they count, (n_places, n), gives unit vectors (n_places, 3), arbitrary
    where nothing is valid, and their mean angles in radians, (n_places,), 0 where nothing is valid.

    The mean angle is not convex over the sphere: the descent starts from the three best of many directions. Above 256
    given directions a place, the valley is chosen by 256 in even steps and the descent in it is over all.

    References
    ----------
    P. T. Fletcher, S. Venkatasubramanian and S. Joshi 2008, Robust statistics on Riemannian manifolds via the geometric
    median (Weiszfeld's step on a manifold; each lowers the mean angle).
    Y. Vardi and C.-H. Zhang 2000, The multivariate L1-median and associated data depth (the step at a given direction).
    """
    n_valid = valid.sum(axis=1)
    medians = _normalised(_component_medians(units, valid))
    best = medians.copy()
    same = valid & (((units - medians[:, None]) ** 2).sum(axis=2) < _SAME_RAD**2)
    hard = np.flatnonzero(2 * same.sum(axis=1) < n_valid)  # elsewhere half are one direction, and none is better
    if len(hard):
        few, few_valid = _evenly_chosen(units[hard], valid[hard])
        starts = _starts(few, few_valid, medians[hard])  # (n_hard, n_starts, 3)
        several = np.repeat(np.arange(len(hard)), _N_STARTS)
        ends = _descended(few[several], few_valid[several], starts.reshape(-1, 3))
        costs = _mean_angles(few[several], few_valid[several], ends).reshape(-1, _N_STARTS)
        lowest = ends.reshape(-1, _N_STARTS, 3)[np.arange(len(hard)), costs.argmin(axis=1)]
        if units.shape[1] > _N_CHOOSING:
            lowest = _descended(units[hard], valid[hard], lowest)
        best[hard] = _snapped(units[hard], valid[hard], _polished(units[hard], valid[hard], lowest))
    return best, _mean_angles(units, valid, best)


def _descended(units: Floats, valid: Mask, start: Floats) -> Floats:
    """Weiszfeld's steps along the sphere, from one start a place, shape (n_places, 3)."""
    directions = start.copy()
    going = np.arange(len(start))
    for _ in range(_MOST_STEPS):
        if not len(going):
            break
        here = directions[going]
        along, aside, length = _parts(units[going], here)
        counts = valid[going]
        at_pole = length < _SAME_RAD  # here, or opposite, where no direction leads to it
        pulls = counts & ~at_pole
        angles = np.arctan2(length, along)
        pull = (aside * (pulls / np.where(at_pole, 1, length))[:, :, None]).sum(axis=1)  # (n_going, 3)
        weight = (pulls / np.where(at_pole, 1, angles)).sum(axis=1)
        held = (counts & at_pole & (along > 0)).sum(axis=1) - (counts & at_pole & (along < 0)).sum(axis=1)
        strength = np.sqrt((pull**2).sum(axis=1))
        let_go = np.maximum(0, 1 - np.maximum(held, 0) / np.where(strength > 0, strength, 1))
        step = pull * (let_go / np.where(weight > 0, weight, 1))[:, None]
        turn = np.sqrt((step**2).sum(axis=1))
        moved = here * np.cos(turn)[:, None] + step * np.sinc(turn / np.pi)[:, None]
        directions[going] = _normalised(moved)
        going = going[turn > _LEAST_STEP_RAD]
    return directions


def _polished(units: Floats, valid: Mask, start: Floats) -> Floats:
    """Newton's steps along the sphere, each taken where it lowers the mean angle, shape (n_places, 3)."""
    directions, cost = start, _mean_angles(units, valid, start)
    for _ in range(_N_NEWTON):
        along, aside, length = _parts(units, directions)
        pulls = valid & (length > _SAME_RAD)
        safe = np.where(pulls, length, 1)
        towards = aside * (pulls / safe)[:, :, None]  # (n_places, n, 3), of length 1
        bend = along * pulls / safe  # the cotangent: second derivative of an angle, across the way to its direction
        weight = np.abs(bend).sum(axis=1) + 1
        here = directions[:, :, None] * directions[:, None]  # (n_places, 3, 3)
        curvature = bend.sum(axis=1)[:, None, None] * (np.eye(3) - here)
        curvature -= (towards * bend[:, :, None]).transpose(0, 2, 1) @ towards
        curvature += weight[:, None, None] * (here + 1e-9 * np.eye(3))  # it has an inverse; the step stays aside
        step = np.linalg.solve(curvature, towards.sum(axis=1)[:, :, None])[:, :, 0]
        moved = _normalised(directions + step)
        new = _mean_angles(units, valid, moved)
        directions = np.where((new < cost)[:, None], moved, directions)
        cost = np.minimum(new, cost)
    return directions


def _starts(units: Floats, valid: Mask, medians: Floats) -> Floats:
    """The directions to start from, best first, shape (n_places, n_starts, 3)."""
    n_places, n, _ = units.shape
    given = units[:, np.linspace(0, n - 1, min(n, _N_GIVEN_STARTS)).astype(np.int64)]  # zero where not valid
    means = _normalised((units * valid[:, :, None]).sum(axis=1))
    spread = np.broadcast_to(_spread_directions(), (n_places, _N_SPREAD, 3))
    tried = np.concatenate([medians[:, None], means[:, None], given, spread], axis=1)  # (n_places, n_tried, 3)
    costs = np.empty(tried.shape[:2])
    step = max(1, _MOST_ANGLES // (n * tried.shape[1]))
    for start in range(0, n_places, step):
        rows = slice(start, start + step)
        angles = np.arccos(np.clip(tried[rows] @ units[rows].transpose(0, 2, 1), -1, 1))  # (rows, n_tried, n)
        costs[rows] = (angles * valid[rows, None]).sum(axis=2)
    costs[(tried == 0).all(axis=2)] = np.inf
    best = np.argsort(costs, axis=1, kind="stable")[:, :_N_STARTS]
    return np.take_along_axis(tried, best[:, :, None], axis=1)


def _snapped(units: Floats, valid: Mask, directions: Floats) -> Floats:
    """The nearest given direction, where it is no worse: steps towards one get short before they are there."""
    along = np.where(valid, np.einsum("pnk,pk->pn", units, directions), -2.0)
    nearest = units[np.arange(len(units)), along.argmax(axis=1)]
    better = _mean_angles(units, valid, nearest) <= _mean_angles(units, valid, directions)
    return np.where((better & valid.any(axis=1))[:, None], nearest, directions)


def _evenly_chosen(units: Floats, valid: Mask) -> tuple[Floats, Mask]:
    """At most ``_N_CHOOSING`` valid directions of every place, in even steps; zero where there are fewer."""
    n_valid = valid.sum(axis=1, keepdims=True)
    first = np.argsort(~valid, axis=1, kind="stable")  # the valid ones first
    size = min(_N_CHOOSING, units.shape[1])
    rank = np.arange(size)[None]
    chosen = np.take_along_axis(first, np.where(n_valid > size, rank * n_valid // size, rank), axis=1)
    is_valid = np.take_along_axis(valid, chosen, axis=1)
    return np.take_along_axis(units, chosen[:, :, None], axis=1) * is_valid[:, :, None], is_valid


def _component_medians(units: Floats, valid: Mask) -> Floats:
    """Shape (n_places, 3); zero for places where nothing is valid."""
    ordered = np.sort(np.where(valid[:, :, None], units, np.inf), axis=1)
    n_valid = valid.sum(axis=1)
    places = np.arange(len(units))
    below, above = (ordered[places, rank] for rank in (np.maximum(n_valid - 1, 0) // 2, n_valid // 2))
    return np.where(n_valid[:, None] > 0, 0.5 * below + 0.5 * above, 0.0)


def _mean_angles(units: Floats, valid: Mask, directions: Floats) -> Floats:
    along, _, length = _parts(units, directions)
    return np.asarray((np.arctan2(length, along) * valid).sum(axis=1) / np.maximum(valid.sum(axis=1), 1))


def _parts(units: Floats, directions: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each given direction the part along the other, the part across it, and the length of that."""
    along = np.einsum("pnk,pk->pn", units, directions)
    aside = units - along[:, :, None] * directions[:, None]
    return along, aside, np.sqrt(np.einsum("pnk,pnk->pn", aside, aside))


def _normalised(vectors: Floats) -> Floats:
    length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    towards = np.array([0.0, 0.0, 1.0])  # the camera, where there is no direction
    return np.where(length > 1e-12, vectors / np.where(length > 1e-12, length, 1), towards)


def _spread_directions() -> Floats:
    """A spiral over the sphere, shape (n_spread, 3)."""
    rank = np.arange(_N_SPREAD) + 0.5
    z = 1 - 2 * rank / _N_SPREAD
    turn = np.pi * (3 - 5**0.5) * rank  # the golden angle
    radius = np.sqrt(1 - z**2)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), z], axis=1)
