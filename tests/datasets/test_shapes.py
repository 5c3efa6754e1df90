"""The rendered set: the same for ever, classes apart from nuisances, depth and normals exact."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.datasets import open_images, pixels_of, shapes
from zoo.datasets.rendering import (
    BACKGROUND,
    BAR,
    BAR_Z,
    CAMERA_Z,
    CLASSES,
    OBJECT,
    SHAPES,
    Scene,
    draw_scene,
    geometry_of,
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


def test_a_longer_set_begins_with_the_shorter_one_and_takes_the_classes_in_turn() -> None:
    short, long = (shapes(classes=6, train=n, val=6, size_px=16).train for n in (12, 18))
    np.testing.assert_array_equal(pixels_of(short), pixels_of(long)[:12])
    assert long.labels.tolist() == [*range(6), *range(6), *range(6)]
    assert short.fingerprint != long.fingerprint
    assert long.subset(range(18), split="train").fingerprint == long.fingerprint


def test_the_first_scene_is_the_one_it_has_always_been() -> None:
    scene = draw_scene(3, (0, 0, 0, 0))
    assert (scene.shape, scene.texture) == ("cube", "checks")
    found = [scene.size, *scene.centre, scene.ambient, scene.noise, float(scene.colours[0, 0])]
    np.testing.assert_allclose(found, FIRST_SCENE, atol=1e-12)
    first = pixels_of(shapes(train=20, val=20).train)[0]
    np.testing.assert_allclose(first.mean(axis=(0, 1)), FIRST_MEANS, atol=0.05)


def test_the_depth_of_a_sphere_is_that_of_its_equation() -> None:
    scene = scene_of("sphere", with_bar=False)
    seen = geometry_of(scene, 64)
    across = (np.arange(64) + 0.5) / 32 - 1
    dx, dy = np.meshgrid(across - scene.centre[0], -across - scene.centre[1])
    height = (0.82 * scene.size) ** 2 - dx**2 - dy**2
    np.testing.assert_array_equal(seen.layer == OBJECT, height > 0)
    np.testing.assert_allclose(seen.depth[height > 0], CAMERA_Z - np.sqrt(height[height > 0]), atol=1e-6)
    expected = np.stack([dx, dy, np.sqrt(np.maximum(height, 0))], axis=-1) / (0.82 * scene.size)
    np.testing.assert_allclose(seen.normals[height > 0], expected[height > 0], atol=1e-6)


def test_the_background_is_a_plane_and_the_bar_is_in_front_of_everything() -> None:
    scene = scene_of("cone", with_bar=True)
    seen = geometry_of(scene, 48)
    across = (np.arange(48) + 0.5) / 24 - 1
    x, y = np.meshgrid(across, -across)
    far = seen.layer == BACKGROUND
    slopes, *_ = np.linalg.lstsq(np.stack([x[far], y[far], np.ones(far.sum())], axis=1), -seen.depth[far], rcond=None)
    np.testing.assert_allclose(slopes[:2], scene.background_slopes, atol=1e-5)
    np.testing.assert_allclose(seen.depth[seen.layer == BAR], CAMERA_Z - BAR_Z)
    assert seen.depth[seen.layer == OBJECT].max() < seen.depth[far].max()
    assert seen.depth[seen.layer == BAR].max() < seen.depth[seen.layer == OBJECT].min()


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_the_slopes_of_the_depth_and_of_unit_length(shape: str) -> None:
    seen = geometry_of(scene_of(shape, with_bar=False), 200)
    assert seen.depth.dtype == seen.normals.dtype == np.float32 and seen.layer.dtype == np.uint8
    np.testing.assert_allclose(np.linalg.norm(seen.normals, axis=-1), 1, atol=1e-6)
    step = 2 / 200
    z = -seen.depth.astype(np.float64)
    slope_x = (z[1:-1, 2:] - z[1:-1, :-2]) / (2 * step)
    slope_y = (z[:-2, 1:-1] - z[2:, 1:-1]) / (2 * step)
    inner = seen.normals[1:-1, 1:-1].astype(np.float64)
    smooth = inner[..., 2] > 0.35  # not where the surface turns away, nor at an edge
    for vertical, horizontal in ((0, 1), (2, 1), (1, 0), (1, 2)):
        beside = seen.normals[vertical : vertical + 198, horizontal : horizontal + 198]
        smooth &= ((beside * inner).sum(axis=-1) > 0.995) & (
            seen.layer[vertical : vertical + 198, horizontal : horizontal + 198] == seen.layer[1:-1, 1:-1]
        )
        smooth &= np.abs(z[vertical : vertical + 198, horizontal : horizontal + 198] - z[1:-1, 1:-1]) < 6 * step
    assert (smooth & (seen.layer[1:-1, 1:-1] == OBJECT)).sum() > 500
    across = np.stack([-slope_x, -slope_y, np.ones_like(slope_x)], axis=-1)
    across /= np.linalg.norm(across, axis=-1, keepdims=True)
    np.testing.assert_allclose(across[smooth], inner[smooth], atol=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": 1}, "classes=1; expected between 2 and 60"),
        ({"classes": 61}, "classes=61; expected between 2 and 60"),
        ({"size_px": 4}, "size_px=4; expected between 8 and 1,024"),
        ({"train": 19}, "train=19 images of 20 classes; expected at least one a class"),
        ({"seed": -1}, "The seed is -1"),
    ],
)
def test_a_set_that_cannot_be_rendered_is_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(DataError, match=words):
        shapes(**options)


def test_other_classes_or_another_size_have_another_name() -> None:
    names = [open_images(spec).name for spec in ("shapes", "shapes:seed=3,train=40", "shapes:classes=10,size_px=64")]
    assert names == ["shapes", "shapes", "shapes-10-classes-64px"]
