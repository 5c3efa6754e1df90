"""Where rays meet solids: against closed forms, and against membership tested point by point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from zoo.datasets.rendering import SHAPES, HalfSpace, Piece, Tube, box, first_hits

DOWN = np.array([0.0, 0.0, -1.0])


def in_box(p: np.ndarray, low: tuple[float, ...], high: tuple[float, ...]) -> np.ndarray:
    return ((p > np.array(low)) & (p < np.array(high))).all(axis=-1)


INSIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # written from what the shapes are, not from their surfaces
    "sphere": lambda p: np.linalg.norm(p, axis=-1) < 0.82,
    "cube": lambda p: np.abs(p).max(axis=-1) < 0.66,
    "torus": lambda p: (np.hypot(p[..., 0], p[..., 1]) - 0.72) ** 2 + p[..., 2] ** 2 < 0.3**2,
    "cone": lambda p: (
        (np.hypot(p[..., 0], p[..., 1]) < 0.85 * (0.95 - p[..., 2]) / 1.65) & (p[..., 2] > -0.7) & (p[..., 2] < 0.95)
    ),
    "cross": lambda p: (np.sort(np.abs(p), axis=-1)[..., 1] < 0.3) & (np.abs(p).max(axis=-1) < 1.0),
    "cylinder": lambda p: (np.hypot(p[..., 0], p[..., 1]) < 0.56) & (np.abs(p[..., 2]) < 0.82),
    "pyramid": lambda p: (
        (np.abs(p[..., :2]).max(axis=-1) < 0.72 * (0.95 - p[..., 2]) / 1.55) & (p[..., 2] > -0.6) & (p[..., 2] < 0.95)
    ),
    "dumbbell": lambda p: (
        (np.linalg.norm(np.abs(p) - [0, 0, 0.6], axis=-1) < 0.5)
        | (np.hypot(p[..., 0], p[..., 1]) < 0.22) & (np.abs(p[..., 2]) < 0.6)
    ),
    "steps": lambda p: (
        in_box(p, (-0.75, -0.6, -0.7), (0.75, 0.6, -0.25))
        | in_box(p, (-0.75, -0.6, -0.26), (0.25, 0.6, 0.2))
        | in_box(p, (-0.75, -0.6, 0.19), (-0.25, 0.6, 0.65))
    ),
    "dome": lambda p: (np.linalg.norm(p - [0, 0, -0.45], axis=-1) < 1.0) & (p[..., 2] > -0.45),
}


def rays(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Parallel rays in a direction of no symmetry, from outside, through the neighbourhood of the origin."""
    generator = np.random.default_rng(seed)
    direction = generator.normal(size=3)
    direction /= np.linalg.norm(direction)
    across = generator.uniform(-1, 1, size=(n, 3))
    return across - (across @ direction)[:, None] * direction - 2 * direction, direction


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_hit_is_where_a_ray_first_gets_inside_and_a_miss_never_does(shape: str, seed: int) -> None:
    origins, direction = rays(300, seed)
    t, _ = first_hits(SHAPES[shape], origins, direction)
    steps = np.linspace(0, 4, 2001)
    inside = INSIDE[shape](origins[:, None] + steps[:, None] * direction)  # (rays, steps)
    first = np.where(inside.any(axis=1), steps[inside.argmax(axis=1)], np.inf)
    hit = np.isfinite(t)
    assert 30 < hit.sum() < 300
    assert not np.isfinite(first[~hit]).any()
    grazing = hit & ~np.isfinite(first)  # inside for less than a step
    assert grazing.sum() <= 3
    sure = hit & ~grazing
    assert (
        np.abs(first[sure] - t[sure]) <= 4 / 2000 + 1e-9
    ).mean() > 0.99  # the others graze an edge before they enter
    assert (t[sure] <= first[sure] + 1e-9).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_unit_vectors_against_the_ray_that_point_out_of_the_solid(shape: str) -> None:
    origins, direction = rays(300, 2)
    t, normals = first_hits(SHAPES[shape], origins, direction)
    hit = np.isfinite(t)
    points = origins[hit] + t[hit, None] * direction
    np.testing.assert_allclose(np.linalg.norm(normals[hit], axis=1), 1, atol=1e-12)
    assert (normals[hit] @ direction <= 0).all()
    assert not INSIDE[shape](points + 1e-6 * normals[hit]).any()
    assert INSIDE[shape](points - 1e-6 * normals[hit]).mean() > 0.99  # all but points at an edge
    assert not normals[~hit].any()


def test_rays_along_a_face_or_an_axis_hit_or_miss_as_they_should() -> None:
    origins = np.array([[0.0, 0.0, 3.0], [0.7, 0.0, 3.0]])
    for solid in ((box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5)),), (Piece((Tube(0.5), HalfSpace((0.0, 0.0, 1.0), 0.5))),)):
        t, normals = first_hits(solid, origins, DOWN)
        assert t.tolist() == [2.5, np.inf]
        assert normals[0].tolist() == [0, 0, 1]
