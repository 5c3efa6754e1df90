"""What is in a rendered image: the class (a shape with a texture) and everything that has nothing to do with it.

Lengths are in half widths of the image: the view is x and y from -1 to 1, x to the right, y upwards, z towards the
camera, the object near the origin.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..optional import requires_extra
from .draws import uniform_draws
from .solids import Ball, Cone, HalfSpace, Piece, Solid, Torus, Tube, box

with requires_extra("models", needed_for="Working with images"):
    import numpy as np


def _capped(low: float, high: float) -> tuple[HalfSpace, HalfSpace]:
    return HalfSpace((0.0, 0.0, 1.0), high), HalfSpace((0.0, 0.0, -1.0), -low)


def _pyramid(apex: float, base: float, half_width: float) -> Piece:
    height = apex - base
    length = float(np.hypot(height, half_width))
    out, up = height / length, half_width / length  # the normal of a side leans upwards
    sides = ((out, 0.0), (-out, 0.0), (0.0, out), (0.0, -out))
    return Piece((*(HalfSpace((x, y, up), up * apex) for x, y in sides), HalfSpace((0.0, 0.0, -1.0), -base)))


SHAPES: dict[str, Solid] = {  # within REACH of the origin, sized to look about equally big
    "sphere": (Piece((Ball(0.82),)),),
    "cube": (box((-0.66, -0.66, -0.66), (0.66, 0.66, 0.66)),),
    "torus": (Torus(0.72, 0.3),),
    "cone": (Piece((Cone(0.95, 0.85 / 1.65), *_capped(-0.7, 2.0))),),
    "cross": (
        box((-1.0, -0.3, -0.3), (1.0, 0.3, 0.3)),
        box((-0.3, -1.0, -0.3), (0.3, 1.0, 0.3)),
        box((-0.3, -0.3, -1.0), (0.3, 0.3, 1.0)),
    ),
    "cylinder": (Piece((Tube(0.56), *_capped(-0.82, 0.82))),),
    "pyramid": (_pyramid(0.95, -0.6, 0.72),),
    "dumbbell": (
        Piece((Ball(0.5, (0.0, 0.0, 0.6)),)),
        Piece((Ball(0.5, (0.0, 0.0, -0.6)),)),
        Piece((Tube(0.22), *_capped(-0.6, 0.6))),
    ),
    "steps": (
        box((-0.75, -0.6, -0.7), (0.75, 0.6, -0.25)),
        box((-0.75, -0.6, -0.25), (0.25, 0.6, 0.2)),
        box((-0.75, -0.6, 0.2), (-0.25, 0.6, 0.65)),
    ),
    "dome": (Piece((Ball(1.0, (0.0, 0.0, -0.45)), *_capped(-0.45, 2.0))),),
}
REACH = 1.25
TEXTURES = ("stripes", "checks", "dots", "sectors", "zigzag", "blotches")

_PAIRS = sorted(
    ((shape, texture) for shape in range(len(SHAPES)) for texture in range(len(TEXTURES))),
    key=lambda pair: (max(pair), pair[1] == max(pair), pair),
)
CLASSES = tuple(f"{TEXTURES[texture]} {tuple(SHAPES)[shape]}" for shape, texture in _PAIRS)
"""All classes; the first n of them are those of a set of n classes. The first 20 are five shapes in four textures."""

_LATTICE_LEAN = 0.6  # radians, of the lattice of dots, so that no face of a box runs along it


@dataclass(frozen=True)
class Scene:
    """One image before it has a size. Only ``shape`` and ``texture`` belong to the class; the rest is nuisance."""

    shape: str
    texture: str
    key: tuple[int, ...]  # of its draws
    size: float  # half widths a unit of the shape
    centre: tuple[float, float]
    rotation: np.ndarray  # (3, 3), from the shape's axes to the camera's
    texture_scale: float
    texture_phase: np.ndarray  # (3,), radians
    colours: np.ndarray  # (2, 3), RGB in 0 to 1: where the texture is on, and where it is off
    background_colours: np.ndarray  # (2, 3)
    background_waves: tuple[float, float, float]  # cycles a half width along x and y, phase in radians
    background_slopes: tuple[float, float]  # of z along x and y
    light: np.ndarray  # (3,), unit vector towards it
    ambient: float  # share of the light that comes from everywhere
    bar: tuple[float, float, float] | None  # angle in radians, offset, half width of the bar in front, if any
    bar_colour: np.ndarray  # (3,)
    noise: float  # standard deviation of a channel, of 1


def draw_scene(class_number: int, key: tuple[int, ...]) -> Scene:
    """The scene of a key: the same for ever, and with the same nuisances whatever the class."""
    u = uniform_draws(key, 48)
    shape, texture = _PAIRS[class_number]

    def between(number: int, low: float, high: float) -> float:
        return float(low + (high - low) * u[number])

    bright, dark = (
        _colour(u[0], between(1, 0.2, 0.8), between(2, 0.75, 1.0)),
        _colour(u[3], between(4, 0.3, 0.9), between(5, 0.2, 0.45)),
    )
    light = np.array([between(6, -0.7, 0.7), between(7, -0.3, 0.9), between(8, 0.6, 1.0)])
    return Scene(
        shape=tuple(SHAPES)[shape],
        texture=TEXTURES[texture],
        key=key,
        size=between(9, 0.64, 0.78),
        centre=(between(10, -0.1, 0.1), between(11, -0.1, 0.1)),
        rotation=_rotation(spin=between(12, 0, 2 * np.pi), lean=between(13, 0.65, 1.1), roll=between(14, -0.35, 0.35)),
        texture_scale=between(15, 0.88, 1.15),
        texture_phase=np.pi * u[16:19],
        colours=np.stack([bright, dark] if u[19] < 0.75 else [dark, bright]),
        background_colours=np.stack(
            [_colour(u[20], between(21, 0.1, 0.7), between(22, 0.05, 0.55)),
             _colour(u[23], between(24, 0.1, 0.7), between(25, 0.05, 0.55))]
        ),
        background_waves=(between(26, -1.6, 1.6), between(27, -1.6, 1.6), between(28, 0, 2 * np.pi)),
        background_slopes=(between(29, -0.3, 0.3), between(30, -0.3, 0.3)),
        light=light / np.linalg.norm(light),
        ambient=between(31, 0.35, 0.6),
        bar=(between(33, 0, np.pi), between(34, -0.5, 0.5), between(35, 0.05, 0.12)) if u[32] < 0.3 else None,
        bar_colour=_colour(u[36], between(37, 0.0, 0.8), between(38, 0.1, 0.9)),
        noise=between(39, 0.0, 0.04),
    )  # fmt: skip


def texture_on(scene: Scene, points: np.ndarray) -> np.ndarray:
    """Where the texture of a scene is on, bool (n,), at points (n, 3) in the axes of the shape; about half is on."""
    p = points / scene.texture_scale
    x, y, z = p.T
    along = 0.36 * x + 0.16 * y + 0.92 * z  # off the axis, or a flat shape would have one stripe
    one, two, three = scene.texture_phase
    if scene.texture == "stripes":
        return np.asarray(np.sin(11 * along + one) > 0)
    if scene.texture == "zigzag":
        ramp = np.abs((1.3 * (x + y) + two / (2 * np.pi)) % 1 - 0.5)  # 0 to 1/2 and back
        return np.asarray(np.sin(9.5 * (along + 0.9 * ramp) + one) > 0)
    if scene.texture == "checks":
        return np.asarray(np.sin(6.6 * x + one) * np.sin(6.6 * y + two) * np.sin(6.6 * z + three) > 0)
    if scene.texture == "sectors":
        return np.asarray(np.sin(5 * np.arctan2(y, x) + one) > 0)
    if scene.texture == "dots":
        turned = p @ _rotation(spin=0.5, lean=_LATTICE_LEAN, roll=0.7)
        cells = (turned / 0.56 + scene.texture_phase / (2 * np.pi)) % 1 - 0.5
        return np.asarray((cells**2).sum(axis=1) < 0.44**2)
    waves = uniform_draws((*scene.key, 1), 24).reshape(8, 3)  # blotches: waves of one length in all directions
    heights, turns = 2 * waves[:, 0] - 1, 2 * np.pi * waves[:, 1]
    flat = np.sqrt(1 - heights**2)
    directions = np.stack([flat * np.cos(turns), flat * np.sin(turns), heights])  # (3, 8), unit vectors
    return np.asarray(np.sin(7.5 * p @ directions + 2 * np.pi * waves[:, 2]).sum(axis=1) > 0)


def _rotation(*, spin: float, lean: float, roll: float) -> np.ndarray:
    """About the shape's own axis, then away from the camera (0: the axis points at it), then in the image; radians."""
    return np.asarray(_turn(roll, 0, 1) @ _turn(-lean, 1, 2) @ _turn(spin, 0, 1))


def _turn(angle: float, one: int, other: int) -> np.ndarray:
    turn = np.eye(3)
    turn[one, one] = turn[other, other] = np.cos(angle)
    turn[one, other], turn[other, one] = -np.sin(angle), np.sin(angle)
    return turn


def _colour(hue: float, saturation: float, value: float) -> np.ndarray:
    """RGB in 0 to 1 of a hue in turns; Smith 1978, Color gamut transform pairs."""
    wheel = np.clip(np.abs((6 * hue + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1, 0, 1)
    return np.asarray(value * (1 - saturation * (1 - wheel)))
