"""From a scene to pixels, depth and normals: one parallel ray a pixel (four for colour), exact to rounding."""

from __future__ import annotations

from dataclasses import dataclass

from ..optional import requires_extra
from .draws import normal_noise
from .scenes import REACH, SHAPES, Scene, texture_on
from .solids import first_hits

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

CAMERA_Z, BAR_Z, BACKGROUND_Z = 3.0, 1.0, -1.6  # half widths of the image; no object reaches the bar or the background
BACKGROUND, OBJECT, BAR = 0, 1, 2
_SUPERSAMPLING = 2


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a camera with parallel rays sees at the centre of each pixel; row 0 is the top.

    Attributes
    ----------
    depth : float32 array, shape (size_px, size_px)
        Distance from the plane of the camera along the viewing direction, in half widths of the image; so one pixel is
        2 / size_px of the same unit wide, and nothing depends on the size of the image.
    normals : float32 array, shape (size_px, size_px, 3)
        Unit vectors: x to the right, y upwards, z towards the camera (never negative).
    layer : uint8 array, shape (size_px, size_px)
        0 background (a plane, tilted a little), 1 the object, 2 the bar in front of it.
    """

    depth: np.ndarray
    normals: np.ndarray
    layer: np.ndarray


@dataclass(frozen=True, eq=False)
class _View:
    """What each of n rays hits first, all float64 but ``layer``."""

    points: np.ndarray  # (n, 3)
    normals: np.ndarray  # (n, 3)
    layer: np.ndarray  # uint8 (n,)


def render(scene: Scene, size_px: int) -> np.ndarray:
    """The image of a scene, uint8 (size_px, size_px, 3)."""
    n = size_px * _SUPERSAMPLING
    view = _look(scene, n)
    albedo = _albedo(scene, view)  # (n * n, 3)
    light = np.maximum(view.normals @ scene.light, 0)
    shaded = albedo * (scene.ambient + (1 - scene.ambient) * light)[:, None]
    blocks = shaded.reshape(size_px, _SUPERSAMPLING, size_px, _SUPERSAMPLING, 3)
    image = blocks.mean(axis=(1, 3))  # (size_px, size_px, 3)
    image += scene.noise * normal_noise((*scene.key, 2), image.shape)
    return np.asarray(np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8))


def geometry_of(scene: Scene, size_px: int) -> Geometry:
    """Exact depth and normals of a scene at the centres of the pixels."""
    view = _look(scene, size_px)
    grid = (size_px, size_px)
    return Geometry(
        depth=(CAMERA_Z - view.points[:, 2]).astype(np.float32).reshape(grid),
        normals=view.normals.astype(np.float32).reshape(*grid, 3),
        layer=view.layer.reshape(grid),
    )


def _look(scene: Scene, n: int) -> _View:
    across = (np.arange(n) + 0.5) * (2 / n) - 1
    x, y = (part.ravel() for part in np.meshgrid(across, -across))  # row 0 is the top
    slope_x, slope_y = scene.background_slopes
    facing = np.array([-slope_x, -slope_y, 1.0])
    points = np.stack([x, y, BACKGROUND_Z + slope_x * x + slope_y * y], axis=1)  # (n * n, 3)
    normals = np.tile(facing / np.linalg.norm(facing), (n * n, 1))
    layer = np.full(n * n, BACKGROUND, np.uint8)

    from_centre = points[:, :2] - np.asarray(scene.centre)
    near = np.flatnonzero((from_centre**2).sum(axis=1) < (REACH * scene.size) ** 2)
    origins = np.pad(from_centre[near], ((0, 0), (0, 1))) @ scene.rotation / scene.size  # in the axes of the shape
    t, towards = first_hits(SHAPES[scene.shape], origins, -scene.rotation[2])  # the camera looks along -z
    hit = np.isfinite(t)
    seen = near[hit]
    points[seen, 2] = -scene.size * t[hit]
    normals[seen] = towards[hit] @ scene.rotation.T
    layer[seen] = OBJECT

    if scene.bar is not None:
        angle, offset, half_width = scene.bar
        barred = np.abs(np.cos(angle) * x + np.sin(angle) * y - offset) < half_width
        points[barred, 2] = BAR_Z
        normals[barred] = (0.0, 0.0, 1.0)
        layer[barred] = BAR
    return _View(points, normals, layer)


def _albedo(scene: Scene, view: _View) -> np.ndarray:
    """Colours before the light, (n, 3)."""
    waves_x, waves_y, phase = scene.background_waves
    turns = 2 * np.pi * (waves_x * view.points[:, 0] + waves_y * view.points[:, 1]) + phase
    one, other = scene.background_colours
    albedo = other + (0.5 + 0.5 * np.sin(turns))[:, None] * (one - other)
    on_object = view.layer == OBJECT
    centre = np.array([*scene.centre, 0.0])
    points = (view.points[on_object] - centre) @ scene.rotation / scene.size  # in the axes of the shape
    albedo[on_object] = np.where(texture_on(scene, points)[:, None], scene.colours[0], scene.colours[1])
    albedo[view.layer == BAR] = scene.bar_colour
    return np.asarray(albedo)
