"""Directions with the least mean angle to given ones: medians on the sphere, of many places at once.

The mean angle is not convex over the whole sphere, so that a descent may end in a valley that is not the deepest. It
therefore starts from the three best of many directions: the normalised medians of the components, the mean, directions
of the data, and 64 spread evenly over the sphere. Up to 256 given directions a place, the choice and the descent are
over all of them; above, the valley is chosen by 256 in even steps and the descent in it is over all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import requires_extra

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_N_FEW = 256  # given directions that choose the valley
_N_OWN = 64  # of them that are tried as a start
_N_SPREAD = 64  # directions over the whole sphere, some 25 degrees apart
_N_STARTS = 3
_N_STEPS = 200
_STEP_RAD = 1e-5  # shorter steps end the descent
_N_NEWTON = 4  # steps that then find the bottom of a flat valley
_SAME_RAD = 1e-9  # directions closer than that are one
_BLOCK = 2_000_000  # values in memory at once


def directions_of_least_angle(units: Floats, valid: Mask) -> tuple[Floats, Floats]:
    """The direction with the least mean angle to the valid ones, of every place.

    Parameters
    ----------
    units : float array, shape (n_places, n, 3)
        Unit vectors.
    valid : bool array, shape (n_places, n)
        Which of them count.

    Returns
    -------
    directions : float array, shape (n_places, 3)
        Unit vectors; anything where nothing is valid.
    angles : float array, shape (n_places,)
        Their mean angles in radians; 0 where nothing is valid.

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
    found = medians.copy()
    same = valid & (((units - medians[:, None]) ** 2).sum(axis=2) < _SAME_RAD**2)
    hard = np.flatnonzero(2 * same.sum(axis=1) < n_valid)  # elsewhere half are one direction, and none is better
    if len(hard):
        few, few_valid = _few(units[hard], valid[hard])
        starts = _starts(few, few_valid, medians[hard])  # (n_hard, n_starts, 3)
        several = np.repeat(np.arange(len(hard)), _N_STARTS)
        ends = _descended(few[several], few_valid[several], starts.reshape(-1, 3))
        costs = _mean_angles(few[several], few_valid[several], ends).reshape(-1, _N_STARTS)
        best = ends.reshape(-1, _N_STARTS, 3)[np.arange(len(hard)), costs.argmin(axis=1)]
        if n > _N_FEW:
            best = _descended(units[hard], valid[hard], best)
        found[hard] = _snapped(units[hard], valid[hard], _polished(units[hard], valid[hard], best))
    return found, _mean_angles(units, valid, found)


def _descended(units: Floats, valid: Mask, start: Floats) -> Floats:
    """Weiszfeld's steps along the sphere, from one start a place, shape (n_places, 3)."""
    found = start.copy()
    going = np.arange(len(start))
    for _ in range(_N_STEPS):
        if not len(going):
            break
        own, here = units[going], found[going]
        along, aside, length = _parts(own, here)
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
        found[going] = _normalised(moved)
        going = going[turn > _STEP_RAD]
    return found


def _polished(units: Floats, valid: Mask, start: Floats) -> Floats:
    """Newton's steps along the sphere, each taken where it lowers the mean angle, shape (n_places, 3)."""
    found, cost = start, _mean_angles(units, valid, start)
    for _ in range(_N_NEWTON):
        along, aside, length = _parts(units, found)
        pulls = valid & (length > _SAME_RAD)
        safe = np.where(pulls, length, 1)
        towards = aside * (pulls / safe)[:, :, None]  # (n_places, n, 3), of length 1
        bend = along * pulls / safe  # the cotangent: second derivative of an angle, across the way to its direction
        weight = np.abs(bend).sum(axis=1) + 1
        here = found[:, :, None] * found[:, None]  # (n_places, 3, 3)
        curvature = bend.sum(axis=1)[:, None, None] * (np.eye(3) - here)
        curvature -= (towards * bend[:, :, None]).transpose(0, 2, 1) @ towards
        curvature += weight[:, None, None] * (here + 1e-9 * np.eye(3))  # it has an inverse; the step stays aside
        step = np.linalg.solve(curvature, towards.sum(axis=1)[:, :, None])[:, :, 0]
        moved = _normalised(found + step)
        new = _mean_angles(units, valid, moved)
        found = np.where((new < cost)[:, None], moved, found)
        cost = np.minimum(new, cost)
    return found


def _starts(units: Floats, valid: Mask, medians: Floats) -> Floats:
    """The directions to start from, best first, shape (n_places, n_starts, 3)."""
    n_places, n, _ = units.shape
    own = units[:, np.linspace(0, n - 1, min(n, _N_OWN)).astype(np.int64)]  # zero where not valid
    means = _normalised((units * valid[:, :, None]).sum(axis=1))
    spread = np.broadcast_to(_spread_directions(), (n_places, _N_SPREAD, 3))
    tried = np.concatenate([medians[:, None], means[:, None], own, spread], axis=1)  # (n_places, n_tried, 3)
    costs = np.empty(tried.shape[:2])
    step = max(1, _BLOCK // (n * tried.shape[1]))
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


def _few(units: Floats, valid: Mask) -> tuple[Floats, Mask]:
    """At most so many valid ones of every place, in even steps; zero where there are fewer."""
    n_valid = valid.sum(axis=1, keepdims=True)
    first = np.argsort(~valid, axis=1, kind="stable")  # the valid ones first
    size = min(_N_FEW, units.shape[1])
    rank = np.arange(size)[None]
    chosen = np.take_along_axis(first, np.where(n_valid > size, rank * n_valid // size, rank), axis=1)
    there = np.take_along_axis(valid, chosen, axis=1)
    return np.take_along_axis(units, chosen[:, :, None], axis=1) * there[:, :, None], there


def _component_medians(units: Floats, valid: Mask) -> Floats:
    """Shape (n_places, 3); of places where nothing is valid zero."""
    ordered = np.sort(np.where(valid[:, :, None], units, np.inf), axis=1)
    n_valid = valid.sum(axis=1)
    places = np.arange(len(units))
    below, above = (ordered[places, rank] for rank in (np.maximum(n_valid - 1, 0) // 2, n_valid // 2))
    return np.where(n_valid[:, None] > 0, 0.5 * below + 0.5 * above, 0.0)


def _mean_angles(units: Floats, valid: Mask, directions: Floats) -> Floats:
    along, _, length = _parts(units, directions)
    return np.asarray((np.arctan2(length, along) * valid).sum(axis=1) / np.maximum(valid.sum(axis=1), 1))


def _parts(units: Floats, directions: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each given direction what is along the other, what is aside from it, and the length of that."""
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
