"""Solids under parallel rays: where each ray enters, and the unit normal there, from the equations of the surfaces.

A solid is a union of pieces. A piece is an intersection of convex primitives, whose common interval along a ray is the
intersection of theirs; or a torus, whose quartic is solved by tracing its distance and Newton's method. Rays are
``origins + t * direction`` with one unit direction for all; ``t`` is infinite where a ray misses.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..optional import requires_extra

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

Spans = tuple[np.ndarray, np.ndarray]  # where rays enter and leave, (n,) each; enter > leave: missed
Vector = tuple[float, float, float]


@dataclass(frozen=True)
class HalfSpace:
    """All points with ``normal . p <= offset``; the normal is a unit vector."""

    normal: Vector
    offset: float

    def spans(self, origins: np.ndarray, direction: np.ndarray) -> Spans:
        normal = np.asarray(self.normal)
        gap = self.offset - origins @ normal  # (n,)
        rate = float(direction @ normal)
        everywhere = np.full(len(origins), np.inf)
        if rate == 0:
            return np.where(gap >= 0, -np.inf, np.inf), everywhere
        return (gap / rate, everywhere) if rate < 0 else (-everywhere, gap / rate)

    def normals(self, points: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.normal), points.shape)


@dataclass(frozen=True)
class Ball:
    """All points within ``radius`` of ``centre``."""

    radius: float
    centre: Vector = (0.0, 0.0, 0.0)

    def spans(self, origins: np.ndarray, direction: np.ndarray) -> Spans:
        apart = origins - np.asarray(self.centre)
        return _quadratic_spans(1.0, apart @ direction, (apart**2).sum(axis=1) - self.radius**2)

    def normals(self, points: np.ndarray) -> np.ndarray:
        return np.asarray((points - np.asarray(self.centre)) / self.radius)


@dataclass(frozen=True)
class Tube:
    """The endless cylinder of ``radius`` around the z axis."""

    radius: float

    def spans(self, origins: np.ndarray, direction: np.ndarray) -> Spans:
        across = origins[:, :2]
        return _quadratic_spans(
            float(direction[:2] @ direction[:2]), across @ direction[:2], (across**2).sum(axis=1) - self.radius**2
        )

    def normals(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(points * np.array([1.0, 1.0, 0.0]) / self.radius)


@dataclass(frozen=True)
class Cone:
    """The endless cone around the z axis that opens downwards from ``apex`` with ``slope`` = radius / height."""

    apex: float
    slope: float

    def spans(self, origins: np.ndarray, direction: np.ndarray) -> Spans:
        down, fall = self.apex - origins[:, 2], -float(direction[2])  # height below the apex is down + t * fall
        square = self.slope**2
        a = float(direction[:2] @ direction[:2]) - square * fall**2
        b = origins[:, :2] @ direction[:2] - square * down * fall
        c = (origins[:, :2] ** 2).sum(axis=1) - square * down**2
        if a > 0:  # the ray crosses one nappe, and both crossings are of it
            enter, leave = _quadratic_spans(a, b, c)
            crossed = np.isfinite(enter)
            middle = np.add(enter, leave, out=np.zeros_like(enter), where=crossed) / 2
            above = crossed & (down + middle * fall < 0)
            return np.where(above, np.inf, enter), np.where(above, -np.inf, leave)
        a = min(a, -1e-12)  # a ray along the side of the cone is turned by less than the rounding
        root = np.sqrt(np.maximum(b * b - a * c, 0))
        first, last = (-b + root) / a, (-b - root) / a  # a < 0, so that first <= last
        endless = np.full(len(origins), np.inf)
        return (last, endless) if fall > 0 else (-endless, first)  # inside from one crossing on, the lower nappe

    def normals(self, points: np.ndarray) -> np.ndarray:
        outwards = points * np.array([1.0, 1.0, 0.0])
        outwards[:, 2] = self.slope**2 * (self.apex - points[:, 2])
        return _unit(outwards)


Primitive = HalfSpace | Ball | Tube | Cone


@dataclass(frozen=True)
class Piece:
    """The intersection of convex primitives."""

    parts: tuple[Primitive, ...]

    def hits(self, origins: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spans = [part.spans(origins, direction) for part in self.parts]
        enters = np.stack([enter for enter, _ in spans])  # (parts, n)
        latest = enters.argmax(axis=0)
        t = enters.max(axis=0)
        hit = (t < np.min([leave for _, leave in spans], axis=0)) & np.isfinite(t)
        normals = np.zeros_like(origins)
        for number, part in enumerate(self.parts):
            chosen = hit & (latest == number)
            normals[chosen] = part.normals(origins[chosen] + t[chosen, None] * direction)
        return np.where(hit, t, np.inf), normals


@dataclass(frozen=True)
class Torus:
    """A tube of radius ``minor`` around the circle of radius ``major`` in the plane z = 0."""

    major: float
    minor: float

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Signed distance to the surface, (n,); negative inside."""
        ring = np.hypot(points[:, 0], points[:, 1]) - self.major
        return np.asarray(np.hypot(ring, points[:, 2]) - self.minor)

    def normals(self, points: np.ndarray) -> np.ndarray:
        across = np.hypot(points[:, 0], points[:, 1])
        shrink = (across - self.major) / np.maximum(across, 1e-12)
        return _unit(points * np.stack([shrink, shrink, np.ones_like(shrink)], axis=1))

    def hits(self, origins: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        enter, leave = Ball(self.major + self.minor).spans(origins, direction)
        t, normals = np.full(len(origins), np.inf), np.zeros_like(origins)
        near = np.flatnonzero(enter < leave)
        start, at, end = origins[near], enter[near], leave[near]
        for _ in range(32):  # a step as long as the distance never jumps over the surface
            at = np.minimum(at + self.distances(start + at[:, None] * direction), end)
        for _ in range(10):  # and from there on Newton, where the ray is not along the surface
            points = start + at[:, None] * direction
            slope = self.normals(points) @ direction
            at = at - self.distances(points) / np.where(np.abs(slope) < 1e-3, -1, slope)
        points = start + at[:, None] * direction
        found = (np.abs(self.distances(points)) < 1e-9) & (self.normals(points) @ direction < 0) & (at <= end)
        t[near[found]] = at[found]
        normals[near[found]] = self.normals(points[found])
        return t, normals


Solid = tuple[Piece | Torus, ...]


def first_hits(solid: Solid, origins: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where rays first meet a solid.

    Parameters
    ----------
    solid : tuple of pieces
    origins : float64 array, shape (n, 3)
    direction : float64 array, shape (3,)
        A unit vector.

    Returns
    -------
    t : float64 (n,)
        Distance along the ray; infinite where it misses.
    normals : float64 (n, 3)
        Outward unit vectors, against the ray; zero where it misses.

    >>> t, normals = first_hits((Piece((Ball(1.0),)),), np.array([[0.0, 0.6, 5.0]]), np.array([0.0, 0.0, -1.0]))
    >>> t.round(12).tolist(), normals.round(12).tolist()
    ([4.2], [[0.0, 0.6, 0.8]])
    """
    t, normals = np.full(len(origins), np.inf), np.zeros_like(origins)
    for piece in solid:
        found, towards = piece.hits(origins, direction)
        nearer = found < t
        t[nearer], normals[nearer] = found[nearer], towards[nearer]
    return t, normals


def box(low: Vector, high: Vector) -> Piece:
    """The box between two corners."""
    sides = []
    for axis in range(3):
        for sign, offset in ((1.0, high[axis]), (-1.0, -low[axis])):
            normal = [0.0, 0.0, 0.0]
            normal[axis] = sign
            sides.append(HalfSpace((normal[0], normal[1], normal[2]), offset))
    return Piece(tuple(sides))


def _quadratic_spans(a: float, b: np.ndarray, c: np.ndarray) -> Spans:
    """Where a t^2 + 2 b t + c <= 0, for a >= 0."""
    if a < 1e-24:  # a ray along the axis: inside all the way, or nowhere
        return np.where(c <= 0, -np.inf, np.inf), np.full(len(b), np.inf)
    discriminant = b * b - a * c
    root = np.sqrt(np.maximum(discriminant, 0))
    missed = discriminant <= 0
    return np.where(missed, np.inf, (-b - root) / a), np.where(missed, -np.inf, (-b + root) / a)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))
