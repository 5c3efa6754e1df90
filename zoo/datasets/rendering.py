"""Rendered image sets: coloured textured solids, as many images as wanted, with exact depth and normals.

A class is a shape with a texture. Colours, size, place, rotation, background, light, a bar in front and noise are drawn
for each image whatever its class. An image depends only on the seed, the split, its number and its class; images take
the classes in turn, so that any first part of a set is balanced, and a longer set begins with the shorter one.

One parallel ray a pixel (four for colour) is intersected with the surfaces, exact to rounding. A solid is a union of
pieces. A piece is an intersection of convex primitives, whose common interval along a ray is the intersection of
theirs; or a torus, whose quartic is solved by tracing its distance and Newton's method. Rays are
``origins + t * direction`` with one unit direction for all; ``t`` is infinite where a ray misses.

Lengths are in half widths of the image: the view is x and y from -1 to 1, x to the right, y upwards, z towards the
camera, the object near the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ..errors import DataError
from ..optional import require_extra
from .images import ImageData, ImageSet, LazyImages, compute_digest
from .subsets import check_seed, draw_normal_noise, draw_uniform, is_whole

with require_extra("models", needed_for="Working with images"):
    import numpy as np
    from PIL import Image

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
class ConvexIntersection:
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


Solid = tuple[ConvexIntersection | Torus, ...]


def compute_first_hits(solid: Solid, origins: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance (n,) along each ray from an origin (n, 3) to a solid, and the outward unit normals (n, 3) there.

    Where a ray misses, the distance is infinite and the normal zero.

    >>> ball = ConvexIntersection((Ball(1.0),))
    >>> t, normals = compute_first_hits((ball,), np.array([[0.0, 0.6, 5.0]]), np.array([0.0, 0.0, -1.0]))
    >>> t.round(12).tolist(), normals.round(12).tolist()
    ([4.2], [[0.0, 0.6, 0.8]])
    """
    t, normals = np.full(len(origins), np.inf), np.zeros_like(origins)
    for piece in solid:
        found, towards = piece.hits(origins, direction)
        nearer = found < t
        t[nearer], normals[nearer] = found[nearer], towards[nearer]
    return t, normals


def make_box(low: Vector, high: Vector) -> ConvexIntersection:
    """The box between two corners."""
    axes: tuple[Vector, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    sides = []
    for (x, y, z), least, most in zip(axes, low, high, strict=True):
        sides += [HalfSpace((x, y, z), most), HalfSpace((0 - x, 0 - y, 0 - z), -least)]  # no -0
    return ConvexIntersection(tuple(sides))


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


def _capped(low: float, high: float) -> tuple[HalfSpace, HalfSpace]:
    return HalfSpace((0.0, 0.0, 1.0), high), HalfSpace((0.0, 0.0, -1.0), -low)


def _pyramid(apex: float, base: float, half_width: float) -> ConvexIntersection:
    height = apex - base
    length = float(np.hypot(height, half_width))
    out, up = height / length, half_width / length  # the normal of a side leans upwards
    sides = ((out, 0.0), (-out, 0.0), (0.0, out), (0.0, -out))
    return ConvexIntersection(
        (*(HalfSpace((x, y, up), up * apex) for x, y in sides), HalfSpace((0.0, 0.0, -1.0), -base))
    )


SHAPES: dict[str, Solid] = {  # within REACH of the origin, sized to look about equally big
    "sphere": (ConvexIntersection((Ball(0.82),)),),
    "cube": (make_box((-0.66, -0.66, -0.66), (0.66, 0.66, 0.66)),),
    "torus": (Torus(0.72, 0.3),),
    "cone": (ConvexIntersection((Cone(0.95, 0.85 / 1.65), *_capped(-0.7, 2.0))),),
    "cross": (
        make_box((-1.0, -0.3, -0.3), (1.0, 0.3, 0.3)),
        make_box((-0.3, -1.0, -0.3), (0.3, 1.0, 0.3)),
        make_box((-0.3, -0.3, -1.0), (0.3, 0.3, 1.0)),
    ),
    "cylinder": (ConvexIntersection((Tube(0.56), *_capped(-0.82, 0.82))),),
    "pyramid": (_pyramid(0.95, -0.6, 0.72),),
    "dumbbell": (
        ConvexIntersection((Ball(0.5, (0.0, 0.0, 0.6)),)),
        ConvexIntersection((Ball(0.5, (0.0, 0.0, -0.6)),)),
        ConvexIntersection((Tube(0.22), *_capped(-0.6, 0.6))),
    ),
    "steps": (
        make_box((-0.75, -0.6, -0.7), (0.75, 0.6, -0.25)),
        make_box((-0.75, -0.6, -0.25), (0.25, 0.6, 0.2)),
        make_box((-0.75, -0.6, 0.2), (-0.25, 0.6, 0.65)),
    ),
    "dome": (ConvexIntersection((Ball(1.0, (0.0, 0.0, -0.45)), *_capped(-0.45, 2.0))),),
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
    """The scene of a key: always the same, and with the same nuisances whatever the class."""
    u = draw_uniform(key, 48)
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
            [
                _colour(u[20], between(21, 0.1, 0.7), between(22, 0.05, 0.55)),
                _colour(u[23], between(24, 0.1, 0.7), between(25, 0.05, 0.55)),
            ]
        ),
        background_waves=(between(26, -1.6, 1.6), between(27, -1.6, 1.6), between(28, 0, 2 * np.pi)),
        background_slopes=(between(29, -0.3, 0.3), between(30, -0.3, 0.3)),
        light=light / np.linalg.norm(light),
        ambient=between(31, 0.35, 0.6),
        bar=(between(33, 0, np.pi), between(34, -0.5, 0.5), between(35, 0.05, 0.12)) if u[32] < 0.3 else None,
        bar_colour=_colour(u[36], between(37, 0.0, 0.8), between(38, 0.1, 0.9)),
        noise=between(39, 0.0, 0.04),
    )


def evaluate_texture(scene: Scene, points: np.ndarray) -> np.ndarray:
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
    waves = draw_uniform((*scene.key, 1), 24).reshape(8, 3)  # blotches: waves of one length in all directions
    heights, turns = 2 * waves[:, 0] - 1, 2 * np.pi * waves[:, 1]
    flat = np.sqrt(1 - heights**2)
    directions = np.stack([flat * np.cos(turns), flat * np.sin(turns), heights])  # (3, 8), unit vectors
    return np.asarray(np.sin(7.5 * p @ directions + 2 * np.pi * waves[:, 2]).sum(axis=1) > 0)


def _rotation(*, spin: float, lean: float, roll: float) -> np.ndarray:
    """About the axis of the shape, then away from the camera (0: the axis points at it), then in the image; radians."""
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


CAMERA_Z, BAR_Z, BACKGROUND_Z = 3.0, 1.0, -1.6  # half widths of the image; no object reaches the bar or the background
BACKGROUND, OBJECT, BAR = 0, 1, 2
_SUPERSAMPLING = 2


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a camera with parallel rays sees at the centre of each pixel; row 0 is the top.

    Attributes
    ----------
    depth : float32 array, shape (size_px, size_px)
        Distance from the plane of the camera along the viewing direction, in half widths of the image.
    normals : float32 array, shape (size_px, size_px, 3)
        Unit vectors: x to the right, y upwards, z towards the camera (never negative).
    layer : uint8 array, shape (size_px, size_px)
        0 background (a plane, tilted a little), 1 the object, 2 the bar in front of it.
    """

    depth: np.ndarray
    normals: np.ndarray
    layer: np.ndarray


View = tuple[np.ndarray, np.ndarray, np.ndarray]  # what n rays hit first: points (n, 3), normals (n, 3), layer (n,)


def render(scene: Scene, size_px: int) -> np.ndarray:
    """The image of a scene, uint8 (size_px, size_px, 3)."""
    n = size_px * _SUPERSAMPLING
    points, normals, layer = _look(scene, n)
    albedo = _albedo(scene, points, layer)  # (n * n, 3)
    light = np.maximum(normals @ scene.light, 0)
    shaded = albedo * (scene.ambient + (1 - scene.ambient) * light)[:, None]
    blocks = shaded.reshape(size_px, _SUPERSAMPLING, size_px, _SUPERSAMPLING, 3)
    image = blocks.mean(axis=(1, 3))  # (size_px, size_px, 3)
    image += scene.noise * draw_normal_noise((*scene.key, 2), image.shape)
    return np.asarray(np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8))


def compute_geometry(scene: Scene, size_px: int) -> Geometry:
    """Exact depth and normals of a scene at the centres of the pixels."""
    points, normals, layer = _look(scene, size_px)
    grid = (size_px, size_px)
    return Geometry(
        depth=(CAMERA_Z - points[:, 2]).astype(np.float32).reshape(grid),
        normals=normals.astype(np.float32).reshape(*grid, 3),
        layer=layer.reshape(grid),
    )


def _look(scene: Scene, n: int) -> View:
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
    t, towards = compute_first_hits(SHAPES[scene.shape], origins, -scene.rotation[2])  # the camera looks along -z
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
    return points, normals, layer


def _albedo(scene: Scene, points: np.ndarray, layer: np.ndarray) -> np.ndarray:
    """Colours before the light, (n, 3)."""
    waves_x, waves_y, phase = scene.background_waves
    turns = 2 * np.pi * (waves_x * points[:, 0] + waves_y * points[:, 1]) + phase
    one, other = scene.background_colours
    albedo = other + (0.5 + 0.5 * np.sin(turns))[:, None] * (one - other)
    on_object = layer == OBJECT
    centre = np.array([*scene.centre, 0.0])
    seen = (points[on_object] - centre) @ scene.rotation / scene.size  # in the axes of the shape
    albedo[on_object] = np.where(evaluate_texture(scene, seen)[:, None], scene.colours[0], scene.colours[1])
    albedo[layer == BAR] = scene.bar_colour
    return np.asarray(albedo)


RENDERING = "shapes-1"
"""Name of the way from a seed to pixels; part of the fingerprint, and new whenever a pixel would change."""

_SPLITS = {"train": 0, "val": 1}
_SIZES_PX = range(8, 1025)

CACHE_BYTES = 1 << 27
"""Largest size of a cache of computed arrays, for the next reader of the same images; 40,000 images of 32 px."""


def load_cached_array(
    cache: dict[Hashable, np.ndarray], key: Hashable, compute: Callable[[], np.ndarray]
) -> np.ndarray:
    """A read-only array of the cache, computed where it is missing, and stored while the cache is not full."""
    array = cache.get(key)
    if array is None:
        array = compute()
        array.setflags(write=False)
        if (len(cache) + 1) * array.nbytes <= CACHE_BYTES:
            cache[key] = array
    return array


@dataclass(frozen=True)
class ShapesRenderer:
    """Renders the images of one split by their numbers."""

    seed: int
    split: str
    n_classes: int
    size_px: int

    def __call__(self, number: int) -> Image.Image:
        return Image.fromarray(self.pixels(number))

    def pixels(self, number: int) -> np.ndarray:
        """Uint8 (size_px, size_px, 3), read-only."""
        return load_cached_array(_rendered, (self, number), lambda: render(self.scene(number), self.size_px))

    def scene(self, number: int) -> Scene:
        return draw_scene(number % self.n_classes, (self.seed, _SPLITS[self.split], number, 0))


_rendered: dict[Hashable, np.ndarray] = {}


def shapes(*, classes: int = 20, train: int = 5_000, val: int = 1_000, size_px: int = 32, seed: int = 0) -> ImageData:
    """The rendered image set.

    Parameters
    ----------
    classes : int
        Between 2 and 60; the classes of a smaller set are the first of a larger one.
    train, val : int
        Images in each split, in all; at least one per class. The same numbers in the two splits are different images.
    size_px : int
        Height and width, 8 to 1,024; the scenes do not depend on it. A person tells all classes apart from 64 px on.
    seed : int
        Another seed gives other images of the same classes.

    Returns
    -------
    ImageData
        RGB images, rendered each time they are asked for. The fingerprint is of the recipe (this renderer's version,
        seed, split, classes, count, size), not of the pixels, which may differ by one level of 255 between processors.

    >>> data = shapes(classes=20, train=40, val=20, size_px=16)
    >>> data.train.classes[:2], len(data.val), data.train[0][0].size
    (('stripes sphere', 'stripes cube'), 20, (16, 16))
    """
    check_seed(seed)
    for what, value, allowed in (("classes", classes, range(2, len(CLASSES) + 1)), ("size_px", size_px, _SIZES_PX)):
        if value not in allowed:
            raise DataError(
                f"The rendered image set was asked for with {what}={value!r}; expected between {allowed[0]:,} and "
                f"{allowed[-1]:,}."
            )
    counts = {"train": train, "val": val}
    for split, n in counts.items():
        if not is_whole(n, classes):
            raise DataError(
                f"The rendered image set was asked for with {split}={n!r} images of {classes} classes; expected at "
                f"least one per class, {split}={classes} or more."
            )
    parts = {split: _image_set(ShapesRenderer(int(seed), split, classes, size_px), n) for split, n in counts.items()}
    return ImageData(name=parts["train"].name, train=parts["train"], val=parts["val"])


def geometry(images: ImageSet, index: int) -> Geometry:
    """Exact depth and surface normals of an image of the rendered set, or of a subset of it; DataError of any other.

    >>> geometry(shapes(train=20, val=20).train, 3).normals.shape
    (32, 32, 3)
    """
    renderer, numbers = get_renderer(images)
    return compute_geometry(renderer.scene(int(numbers[index])), renderer.size_px)


def get_renderer(images: ImageSet) -> tuple[ShapesRenderer, np.ndarray]:
    """The renderer of a rendered set, and the numbers of its images, (n,); any other set is refused."""
    lazy = images.images
    if not isinstance(lazy, LazyImages) or not isinstance(lazy.read, ShapesRenderer):
        raise DataError(
            f"Depth and normals of {images.name!r} were asked for, and only the rendered set 'shapes' computes them; "
            "expected images of zoo.datasets.shapes."
        )
    return lazy.read, lazy.indices


def _image_set(renderer: ShapesRenderer, n: int) -> ImageSet:
    numbers = np.arange(n)
    # other classes or another size make another data set, with another name in results; another seed does not
    name = f"shapes-{renderer.n_classes}-classes-{renderer.size_px}px"
    recipe = [RENDERING, str(renderer.seed), renderer.split, str(renderer.n_classes), str(n), str(renderer.size_px)]
    return ImageSet(
        name="shapes" if (renderer.n_classes, renderer.size_px) == (20, 32) else name,
        split=renderer.split,
        images=LazyImages(renderer, numbers),
        labels=(numbers % renderer.n_classes).astype(np.int64),
        classes=CLASSES[: renderer.n_classes],
        names=[f"{renderer.split}/{number}" for number in numbers.tolist()],
        fingerprint=compute_digest(recipe),
    )
