"""Blind guesses: the constant prediction with the lowest risk, for a guess that knows the labels but sees no image.

Which constant that is depends on the loss: the most frequent class for the 0-1 loss, the mean for the squared error,
the median of every pixel for the absolute error, and for the angle between directions the direction with the least
mean angle. All are computed on training labels; their risk, on the test images, is the 1 of calibrated risk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DataError
from ...optional import requires_extra
from ..arrays import finite_numbers

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_N_CHOOSING = 256  # given directions that choose the valley
_N_GIVEN_STARTS = 64  # of them that are tried as a start
_N_SPREAD = 64  # directions over the whole sphere, some 25 degrees apart
_N_STARTS = 3
_MOST_STEPS = 200
_LEAST_STEP_RAD = 1e-5  # shorter steps end the descent
_N_NEWTON = 4  # steps that then find the bottom of a flat valley
_SAME_RAD = 1e-9  # directions closer than that are one
_MOST_ANGLES = 2_000_000  # in memory at once


def directions_of_least_angle(units: Floats, valid: Mask) -> tuple[Floats, Floats]:
    """The direction with the least mean angle to the valid ones, of every place: their median on the sphere.

    Of unit vectors (n_places, n, 3) and whether they count, (n_places, n), gives unit vectors (n_places, 3), arbitrary
    where nothing is valid, and their mean angles in radians, (n_places,), 0 where nothing is valid.

    The mean angle is not convex over the whole sphere, so that a descent may end in a valley that is not the deepest.
    It therefore starts from the three best of many directions: the normalised medians of the components, the mean,
    directions of the data, and 64 spread evenly over the sphere. Up to 256 given directions a place, the choice and the
    descent are over all of them; above, the valley is chosen by 256 in even steps and the descent in it is over all.

    References
    ----------
    P. T. Fletcher, S. Venkatasubramanian and S. Joshi 2008, Robust statistics on Riemannian manifolds via the geometric
    median (Weiszfeld's step on a manifold; each lowers the mean angle).
    Y. Vardi and C.-H. Zhang 2000, The multivariate L1-median and associated data depth (the step at a given direction).

    Examples
    --------
    Three directions on one circle, of which the middle one is the median:

    >>> turns = np.radians([0.0, 10.0, 50.0])
    >>> units = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)[None]
    >>> direction, angle = directions_of_least_angle(units, np.ones((1, 3), dtype=bool))
    >>> bool(np.allclose(direction, units[:, 1])), round(float(np.degrees(angle[0])), 6)
    (True, 16.666667)
    """
    n = units.shape[1]
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
        if n > _N_CHOOSING:
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


_MOST_VALUES = 4_000_000  # of maps in memory at once
_MOST_POOLED = 20_000  # normals that stand for all pixels together
_NO_ANGLE_RAD = 1e-7


def majority_class(labels: ArrayLike, n_classes: int) -> int:
    """The most frequent class, which has the lowest mean 0-1 loss of all constant predictions.

    Parameters
    ----------
    labels : int array, shape (n,)
        From 0 to ``n_classes`` - 1.
    n_classes : int
        Classes may be missing from the labels.

    Returns
    -------
    int; the lowest of several that are equally frequent

    Raises
    ------
    DataError
        If there is no label, a label is no class, or all labels are the same.

    Examples
    --------
    >>> majority_class([2, 0, 2, 1], 3)
    2
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
        raise DataError(
            f"The labels have the shape {given.shape} and the type {given.dtype}; expected at least one whole number, "
            "shape (n,)."
        )
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= n_classes:
        raise DataError(f"The labels run from {low} to {high}; expected 0 to {n_classes - 1} with {n_classes} classes.")
    if low == high:
        raise DataError(
            f"All {given.size} labels are the class {low}, so that a guess without looking is never wrong; expected at "
            "least two classes."
        )
    return int(np.bincount(given.astype(np.int64), minlength=n_classes).argmax())


def mean_target(targets: ArrayLike) -> Floats:
    """The mean, which has the lowest mean squared error of all constant predictions.

    Parameters
    ----------
    targets : float array, shape (n, ...)
        One number, vector or map an image, any unit.

    Returns
    -------
    float array, shape (...), in the unit of the targets

    Raises
    ------
    DataError
        If there is no target, one is not finite, or all are the same.

    Examples
    --------
    >>> mean_target([[1.0, 5.0], [3.0, 5.0]])
    array([2., 5.])
    """
    values = finite_numbers(targets, name="The target")
    if not values.ndim or not values.size:
        raise DataError(f"The targets have the shape {values.shape}; expected at least one, shape (n, ...).")
    if (values == values[0]).all():
        raise DataError(_constant(len(values), "target"))
    return np.asarray(values.mean(axis=0))


def pixelwise_median(maps: ArrayLike, valid: ArrayLike | None = None) -> Floats:
    """The median of every pixel, which has the lowest mean absolute error of all constant maps.

    Of an even number of values it is the middle between the two in the middle. A pixel that is valid in no map gets the
    median of all valid pixels of its channel.

    Parameters
    ----------
    maps : float array, shape (n, channels, h, w)
        Any unit.
    valid : bool array, shape (n, h, w), optional
        Pixels whose value is known; all by default. What is elsewhere is never read, NaN included.

    Returns
    -------
    float array, shape (channels, h, w), in the unit of the maps

    Raises
    ------
    DataError
        If the shapes are others, no pixel is valid, a valid one is not finite, or the maps are equal wherever they are
        valid.

    Examples
    --------
    >>> maps = np.array([1.0, 2.0, 9.0]).reshape(3, 1, 1, 1)
    >>> pixelwise_median(maps).item()
    2.0
    >>> pixelwise_median(maps, valid=np.array([True, False, True]).reshape(3, 1, 1)).item()
    5.0
    """
    values, mask = _maps(maps, valid)
    medians = np.empty(values.shape[1:])
    never, varies = np.zeros(values.shape[2:], dtype=bool), False
    for rows in _blocks(values):
        block, known = values[:, :, rows].astype(np.float64), mask[:, None, rows]  # (n, c, rows, w), (n, 1, rows, w)
        if not np.isfinite(block[np.broadcast_to(known, block.shape)]).all():
            raise DataError("A valid pixel of the maps is not finite; expected such pixels to be marked as not valid.")
        ordered = np.sort(np.where(known, block, np.inf), axis=0)
        n_valid = known.sum(axis=0, keepdims=True)  # (1, 1, rows, w)
        ranks = (n_valid - 1) // 2, n_valid // 2, n_valid - 1
        below, above, highest = (np.take_along_axis(ordered, np.maximum(rank, 0), axis=0)[0] for rank in ranks)
        never[rows] = n_valid[0, 0] == 0
        varies |= bool(((highest > ordered[0]) & (n_valid[0] > 0)).any())
        medians[:, rows] = 0.5 * below + 0.5 * above
    if not varies:
        raise DataError(_constant(len(values), "map"))
    if never.any():
        for channel in range(values.shape[1]):
            medians[channel, never] = np.median(values[:, channel][mask])
    return medians


def pixelwise_direction(normals: ArrayLike, valid: ArrayLike | None = None) -> Floats:
    """The direction of every pixel with the least mean angle to its normals: their median on the sphere.

    It is found by descent from several starts, and may be one of several where several are equally good. A pixel that
    is valid in no map gets the best direction for the valid normals of all pixels, or for 20,000 of them in even steps.

    Parameters
    ----------
    normals : float array, shape (n, 3, h, w)
        Of any length above 0; only the direction counts.
    valid : bool array, shape (n, h, w), optional
        Pixels whose normal is known; all by default. What is elsewhere is never read, NaN included.

    Returns
    -------
    float array, shape (3, h, w)
        Unit vectors.

    Raises
    ------
    DataError
        If the shapes are others, no pixel is valid, a valid normal is zero or not finite, or the normals are equal
        wherever they are valid.

    References
    ----------
    P. T. Fletcher, S. Venkatasubramanian and S. Joshi 2008, Robust statistics on Riemannian manifolds via the geometric
    median.

    Examples
    --------
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
        best, angles = directions_of_least_angle(_units(block, known), known)
        varies |= bool((angles > _NO_ANGLE_RAD).any())
        directions[rows] = best.reshape(-1, width, 3)
    if not varies:
        raise DataError(_constant(n, "map"))
    never = ~mask.any(axis=0)
    if never.any():
        where = np.argwhere(mask)  # (n_valid, 3)
        image, row, column = where[np.linspace(0, len(where) - 1, min(len(where), _MOST_POOLED)).astype(np.int64)].T
        pooled = values[image, :, row, column][None]  # (1, n_pooled, 3)
        all_valid = np.ones(pooled.shape[:2], dtype=bool)
        directions[never] = directions_of_least_angle(_units(pooled, all_valid), all_valid)[0][0]
    return np.ascontiguousarray(directions.transpose(2, 0, 1))


def _units(vectors: NDArray[np.floating], valid: Mask) -> Floats:
    """Unit vectors where valid, zero elsewhere, shape (n_places, n, 3)."""
    units = np.where(valid[:, :, None], vectors, 0).astype(np.float64)
    largest = np.abs(units).max(axis=2, keepdims=True, initial=0)  # squares of very large numbers would overflow
    if not np.isfinite(largest).all() or (largest[valid] == 0).any():
        raise DataError(
            "A valid normal is zero or not finite, so that it has no direction; expected such pixels to be marked as "
            "not valid."
        )
    units /= np.where(largest > 0, largest, 1)
    length = np.sqrt((units * units).sum(axis=2, keepdims=True))
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
    if mask.shape != shape or mask.dtype != bool:
        raise DataError(
            f"The mask of valid pixels has the shape {mask.shape} and the type {mask.dtype}, for maps of the shape "
            f"{values.shape}; expected true or false, shape {shape}."
        )
    if not mask.any():
        raise DataError(f"None of the {len(values)} maps has a valid pixel; expected at least some to guess from.")
    return values, mask


def _blocks(values: NDArray[np.floating]) -> list[slice]:
    """Rows of the maps, as many at a time as fit into the memory that is meant for them."""
    n, n_channels, height, width = values.shape
    step = max(1, _MOST_VALUES // (n * n_channels * width))
    return [slice(start, min(start + step, height)) for start in range(0, height, step)]


def _constant(n: int, noun: str) -> str:
    if n == 1:
        return f"There is one {noun}, which a guess without looking gets right; expected at least two that differ."
    where = " wherever they are valid" if noun == "map" else ""
    return f"All {n} {noun}s are equal{where}, so that a guess without looking is never wrong; expected different ones."
