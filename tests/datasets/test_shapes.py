"""The rendered set: the same for ever, classes apart from nuisances, depth and normals exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.each import for_each
from zoo.datasets import pixels_of, shapes
from zoo.datasets.rendering import (
    CAMERA_Z,
    CLASSES,
    OBJECT,
    SHAPES,
    Scene,
    compute_first_hits,
    compute_geometry,
    draw_scene,
)
from zoo.errors import DataError

FIRST_SCENE = [0.6993361937460266, -0.02444265988077661, 0.011556417928665838, 0.5750864837594598, 0.03216409446526653,
               0.8222948472705228]  # fmt: skip
FIRST_MEANS = [86.6396, 79.0547, 65.8760]  # of the channels; the pixels themselves may differ by one between processors


def scene_of(shape: str, number: int = 0, *, with_bar: bool | None = None) -> Scene:
    kind = CLASSES.index(f"checks {shape}")
    while True:
        scene = draw_scene(kind, (0, 0, number, 0))
        if with_bar is None or (scene.bar is not None) == with_bar:
            return scene
        number += 1


def test_the_first_scene_is_the_one_it_has_always_been() -> None:
    scene = draw_scene(3, (0, 0, 0, 0))
    assert (scene.shape, scene.texture) == ("cube", "checks")
    found = [scene.size, *scene.centre, scene.ambient, scene.noise, float(scene.colours[0, 0])]
    np.testing.assert_allclose(found, FIRST_SCENE, atol=1e-12)
    first = pixels_of(shapes(train=20, val=20).train)[0]
    np.testing.assert_allclose(first.mean(axis=(0, 1)), FIRST_MEANS, atol=0.05)


def test_the_depth_of_a_sphere_is_that_of_its_equation() -> None:
    scene = scene_of("sphere", with_bar=False)
    seen = compute_geometry(scene, 64)
    across = (np.arange(64) + 0.5) / 32 - 1
    dx, dy = np.meshgrid(across - scene.centre[0], -across - scene.centre[1])
    height = (0.82 * scene.size) ** 2 - dx**2 - dy**2
    np.testing.assert_array_equal(seen.layer == OBJECT, height > 0)
    np.testing.assert_allclose(seen.depth[height > 0], CAMERA_Z - np.sqrt(height[height > 0]), atol=1e-6)
    expected = np.stack([dx, dy, np.sqrt(np.maximum(height, 0))], axis=-1) / (0.82 * scene.size)
    np.testing.assert_allclose(seen.normals[height > 0], expected[height > 0], atol=1e-6)


@for_each(
    [
        ({"classes": 1}, "classes=1; expected between 2 and 60"),
        ({"classes": 61}, "classes=61; expected between 2 and 60"),
        ({"size_px": 4}, "size_px=4; expected between 8 and 1,024"),
        ({"train": 19}, "train=19 images of 20 classes; expected at least one per class"),
        ({"seed": -1}, "The seed is -1"),
    ],
    arguments=2,
)
def test_a_set_that_cannot_be_rendered_is_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(DataError, match=words):
        shapes(**options)


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


@for_each(SHAPES)
def test_normals_are_unit_vectors_against_the_ray_that_point_out_of_the_solid(shape: str) -> None:
    origins, direction = rays(300, 2)
    t, normals = compute_first_hits(SHAPES[shape], origins, direction)
    hit = np.isfinite(t)
    points = origins[hit] + t[hit, None] * direction
    np.testing.assert_allclose(np.linalg.norm(normals[hit], axis=1), 1, atol=1e-12)
    assert (normals[hit] @ direction <= 0).all()
    assert not INSIDE[shape](points + 1e-6 * normals[hit]).any()
    assert INSIDE[shape](points - 1e-6 * normals[hit]).mean() > 0.99  # all but points at an edge
    assert not normals[~hit].any()


@for_each(SHAPES)
def test_a_hit_is_where_a_ray_first_gets_inside_and_a_miss_never_does(shape: str) -> None:
    origins, direction = rays(200, 0)
    t, _ = compute_first_hits(SHAPES[shape], origins, direction)
    steps = np.linspace(0, 4, 2001)
    inside = INSIDE[shape](origins[:, None] + steps[:, None] * direction)  # (rays, steps)
    first = np.where(inside.any(axis=1), steps[inside.argmax(axis=1)], np.inf)
    sure = np.isfinite(t) & np.isfinite(first)
    assert 20 < sure.sum() < 200 and (np.isfinite(t) ^ np.isfinite(first)).sum() <= 3  # those that graze an edge
    assert (np.abs(first[sure] - t[sure]) <= 4 / 2000 + 1e-9).mean() > 0.98 and (t[sure] <= first[sure] + 1e-9).all()
