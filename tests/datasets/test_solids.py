"""Where rays meet solids: against closed forms, and against membership tested point by point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from zoo.datasets.rendering import REACH, SHAPES, Ball, Cone, HalfSpace, Piece, Torus, Tube, box, first_hits

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


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_reaches_further_than_its_scene_allows(shape: str) -> None:
    for seed in range(3):
        origins, direction = rays(2000, seed)
        t, _ = first_hits(SHAPES[shape], origins, direction)
        points = (origins + np.where(np.isfinite(t), t, 0)[:, None] * direction)[np.isfinite(t)]
        assert np.linalg.norm(points, axis=1).max() < REACH


def test_a_ball_is_hit_at_its_upper_half() -> None:
    x = np.linspace(-1.5, 1.5, 61)
    t, normals = first_hits((Piece((Ball(1.0, (0.2, 0.0, 0.0)),)),), np.stack([x, 0 * x, 0 * x + 3], axis=1), DOWN)
    height = np.sqrt(np.maximum(1 - (x - 0.2) ** 2, 0))
    inside = np.abs(x - 0.2) < 1
    np.testing.assert_allclose(t[inside], 3 - height[inside], atol=1e-12)
    np.testing.assert_allclose(normals[inside, 2], height[inside], atol=1e-12)
    assert np.isinf(t[np.abs(x - 0.2) > 1 + 1e-9]).all()


def test_a_torus_from_above_is_two_circles_in_section() -> None:
    x = np.linspace(-1.1, 1.1, 111)
    t, normals = first_hits((Torus(0.7, 0.3),), np.stack([x, 0 * x, 0 * x + 3], axis=1), DOWN)
    ring = np.abs(x) - 0.7
    inside = np.abs(ring) < 0.299
    np.testing.assert_allclose(t[inside], 3 - np.sqrt(0.09 - ring[inside] ** 2), atol=1e-9)
    np.testing.assert_allclose(normals[inside, 0], np.sign(x[inside]) * ring[inside] / 0.3, atol=1e-8)
    assert np.isinf(t[np.abs(ring) > 0.301]).all()


@pytest.mark.parametrize("fall", [1.0, 0.8, 0.5, 0.2, 0.0])
def test_a_cone_is_hit_on_its_own_nappe_only(fall: float) -> None:
    direction = np.array([np.sqrt(1 - fall**2), 0, -fall])
    targets = np.random.default_rng(0).uniform([-1, -1, -1], [1, 1, 2], (200, 3))  # around the cone and its other nappe
    origins = targets - 4 * direction
    t, _ = first_hits((Piece((Cone(1.0, 0.5), HalfSpace((0.0, 0.0, -1.0), 1.0))),), origins, direction)
    points = origins + np.where(np.isfinite(t), t, 0)[:, None] * direction
    hit = points[np.isfinite(t)]
    assert len(hit) > 5
    assert (hit[:, 2] <= 1 + 1e-9).all() and (hit[:, 2] >= -1 - 1e-9).all()
    on_side = np.abs(np.hypot(hit[:, 0], hit[:, 1]) - 0.5 * (1 - hit[:, 2])) < 1e-9
    on_base = np.abs(hit[:, 2] + 1) < 1e-9
    assert (on_side | on_base).all()


def test_rays_along_a_face_or_an_axis_hit_or_miss_as_they_should() -> None:
    origins = np.array([[0.0, 0.0, 3.0], [0.7, 0.0, 3.0]])
    for solid in ((box((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5)),), (Piece((Tube(0.5), HalfSpace((0.0, 0.0, 1.0), 0.5))),)):
        t, normals = first_hits(solid, origins, DOWN)
        assert t.tolist() == [2.5, np.inf]
        assert normals[0].tolist() == [0, 0, 1]
