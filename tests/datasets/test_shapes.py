"""The rendered set: the same for ever, classes apart from nuisances, depth and normals exact."""

from __future__ import annotations

import pickle
from dataclasses import fields

import numpy as np
import pytest

from zoo.datasets import digits, geometry, open_images, pixels_of, shapes
from zoo.datasets.rendering import (
    BACKGROUND,
    BACKGROUND_Z,
    BAR,
    BAR_Z,
    CAMERA_Z,
    CLASSES,
    OBJECT,
    REACH,
    SHAPES,
    TEXTURES,
    Scene,
    draw_scene,
    geometry_of,
    texture_on,
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


def test_the_two_splits_and_other_seeds_share_no_image() -> None:
    data = shapes(classes=4, train=40, val=40, size_px=16)
    other = shapes(classes=4, train=40, val=40, size_px=16, seed=1)
    sets = [{image.tobytes() for image in pixels_of(part)} for part in (data.train, data.val, other.train, other.val)]
    assert len(set.union(*sets)) == 160
    assert len({part.fingerprint for part in (data.train, data.val, other.train, other.val)}) == 4


def test_an_image_does_not_depend_on_what_was_rendered_before_and_survives_pickling() -> None:
    images = shapes(train=40, val=20).train
    once = np.asarray(images[7][0])
    copied = pickle.loads(pickle.dumps(images))
    np.testing.assert_array_equal(np.asarray(copied[7][0]), once)
    np.testing.assert_array_equal(np.asarray(images.subset([7, 3], split="part")[0][0]), once)


def test_the_first_scene_is_the_one_it_has_always_been() -> None:
    scene = draw_scene(3, (0, 0, 0, 0))
    assert (scene.shape, scene.texture) == ("cube", "checks")
    found = [scene.size, *scene.centre, scene.ambient, scene.noise, float(scene.colours[0, 0])]
    np.testing.assert_allclose(found, FIRST_SCENE, atol=1e-12)
    first = pixels_of(shapes(train=20, val=20).train)[0]
    np.testing.assert_allclose(first.mean(axis=(0, 1)), FIRST_MEANS, atol=0.05)


def test_everything_but_shape_and_texture_is_drawn_without_looking_at_the_class() -> None:
    one, other = draw_scene(0, (5, 0, 9, 0)), draw_scene(17, (5, 0, 9, 0))
    assert (one.shape, one.texture) != (other.shape, other.texture)
    for field in fields(Scene):
        if field.name not in ("shape", "texture"):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_there_are_sixty_classes_and_twenty_of_them_are_five_shapes_in_four_textures() -> None:
    assert len(set(CLASSES)) == len(SHAPES) * len(TEXTURES) == 60
    assert {tuple(name.split()) for name in CLASSES[:20]} == {(t, s) for t in TEXTURES[:4] for s in tuple(SHAPES)[:5]}


@pytest.mark.parametrize("texture", TEXTURES)
def test_a_texture_is_on_in_about_half_of_space_so_that_it_has_no_colour_of_its_own(texture: str) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
    kind = CLASSES.index(f"{texture} cube")
    shares = [texture_on(draw_scene(kind, (1, 0, number, 0)), points).mean() for number in range(20)]
    assert 0.3 < np.mean(shares) < 0.6


def test_a_histogram_of_colours_does_not_give_the_class_away_but_the_pixels_say_more_than_chance() -> None:
    data = shapes(classes=9, train=900, val=360, size_px=16)
    x, x_val = (pixels_of(part).astype(int) for part in (data.train, data.val))
    histograms = [
        np.stack([np.bincount((image // 64 @ [16, 4, 1]).ravel(), minlength=64) for image in part])
        for part in (x, x_val)
    ]
    by_colour = linear_accuracy(*histograms, data.train.labels, data.val.labels)
    by_pixel = linear_accuracy(x.reshape(900, -1), x_val.reshape(360, -1), data.train.labels, data.val.labels)
    assert by_colour < 0.2 and 0.2 < by_pixel < 0.9  # chance is 0.11, with a standard error of 0.017


def linear_accuracy(x: np.ndarray, x_val: np.ndarray, y: np.ndarray, y_val: np.ndarray) -> float:
    """Ridge regression on one-hot labels, in closed form."""
    scale = x.std() * np.sqrt(x.shape[1])
    centred, centred_val = (x - x.mean(axis=0)) / scale, (x_val - x.mean(axis=0)) / scale
    gram = centred @ centred.T + 0.05 * np.eye(len(x)) * np.trace(centred @ centred.T) / len(x)
    weights = centred.T @ np.linalg.solve(gram, np.eye(y.max() + 1)[y] - 1 / (y.max() + 1))
    return float(((centred_val @ weights).argmax(axis=1) == y_val).mean())


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


def test_a_scene_does_not_depend_on_the_size_of_its_image() -> None:
    small, large = (geometry_of(scene_of("pyramid", with_bar=False), px) for px in (21, 63))
    np.testing.assert_allclose(small.depth, large.depth[1::3, 1::3], atol=1e-6)  # every third pixel has the same centre


def test_no_object_can_reach_the_bar_or_the_background() -> None:
    extremes = [draw_scene(0, (2, 0, number, 0)) for number in range(300)]
    assert max(scene.size for scene in extremes) * REACH < BAR_Z
    for scene in extremes:
        nearest = BACKGROUND_Z + sum(abs(slope) for slope in scene.background_slopes)  # at a corner of the view
        assert -scene.size * REACH > nearest


def test_geometry_follows_an_image_into_a_subset_and_is_refused_for_other_images() -> None:
    images = shapes(train=20, val=20).train
    np.testing.assert_array_equal(geometry(images.subset([9], split="one"), 0).depth, geometry(images, 9).depth)
    with pytest.raises(DataError, match="only the rendered set 'shapes' computes them"):
        geometry(digits(), 0)


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
