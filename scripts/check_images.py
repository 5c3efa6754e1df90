"""Renders the images of which ``zoo check`` computes features: ``zoo/check_images/*.png``.

They are bundled, so that nothing has to be rendered at run time; this script is where they come from, and a test holds
them to it, pixel by pixel. All arithmetic is on whole numbers, which every machine gets right alike. Run it after a
change here, and then count up ``_FORMAT`` in ``zoo/regression_check.py``, for recordings of other images cannot be
compared.

Each image has what a change of preprocessing shows in: texture, fine rings, thin lines and hard edges for the resize,
other modes than RGB for the conversion, other shapes than a square for the crop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FOLDER = Path(__file__).resolve().parent.parent / "zoo" / "check_images"

Integers = NDArray[np.int64]


def landscape() -> Image.Image:
    """RGB, 360 x 240: sky with clouds, two ridges, grass; larger than the input of most encoders."""
    width, height = 360, 240
    y, x = _grid(width, height)
    clouds = _noise(x, y * 3, cell=64, seed=1) * 2 + _noise(x, y * 2, cell=16, seed=2)
    sky = np.stack([96 + y // 2 + clouds // 8, 140 + y // 3 + clouds // 10, 224 - y // 6 + clouds // 32], axis=-1)
    far_ridge = 110 + _wave(x, period=150) // 6 - _noise(x, 0 * y, cell=24, seed=3) // 8
    near_ridge = 150 + _wave(x + 60, period=230) // 5 - _noise(x, 0 * y, cell=12, seed=4) // 16
    rock = _noise(x, y, cell=8, seed=5) // 8
    far = np.stack([92 + rock, 104 + rock, 132 + rock], axis=-1)
    blades = _noise(x * 4, y, cell=4, seed=6) // 3
    tufts = _noise(x, y * 2, cell=32, seed=7) // 4
    grass = np.stack([40 + tufts + blades // 2, 84 + tufts // 2 + blades, 30 + blades // 3], axis=-1)
    pixels = np.where((y > near_ridge)[..., None], grass, np.where((y > far_ridge)[..., None], far, sky))
    return Image.fromarray((pixels.clip(0, 255) // 4 * 4).astype(np.uint8), mode="RGB")


def portrait() -> Image.Image:
    """Greyscale, 150 x 220: rings that get finer outwards, on a slope of brightness."""
    width, height = 150, 220
    y, x = _grid(width, height)
    rings = _wave((x - 75) ** 2 + (y - 110) ** 2, period=700)
    return Image.fromarray((rings * 3 // 4 + y * 60 // height).astype(np.uint8), mode="L")


def badge() -> Image.Image:
    """RGBA, 230 x 230: three discs that fade out, and a chequered ground that only shows if transparency is dropped."""
    side = 230
    y, x = _grid(side, side)
    pixels = np.zeros((side, side, 4), dtype=np.int64)
    pixels[..., :3] = np.where(((x // 23 + y // 23) % 2)[..., None] == 1, [250, 220, 40], [30, 40, 90])
    for channel, (centre_x, centre_y) in enumerate([(80, 90), (150, 90), (115, 150)]):
        distance = (x - centre_x) ** 2 + (y - centre_y) ** 2
        inside = distance < 60**2
        colour = np.full(3, 40)
        colour[channel] = 230
        pixels[..., :3] = np.where(inside[..., None], (pixels[..., :3] + 3 * colour) // 4, pixels[..., :3])
        pixels[..., 3] = np.maximum(pixels[..., 3], np.where(inside, 255 - distance // 18, 0))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8), mode="RGBA")


def sign() -> Image.Image:
    """Palette of six colours, 101 x 67: lines one pixel wide, squares and a diagonal; smaller than any input."""
    width, height = 101, 67
    y, x = _grid(width, height)
    index = np.where((x // 9 + y // 11) % 3 == 0, 1, 0)
    index = np.where((x > 50) & (y % 3 == 0), 2, index)
    index = np.where((x < 40) & (x % 5 == 0), 3, index)
    index = np.where(abs(2 * x - 3 * y) < 5, 4, index)
    index = np.where((abs(x - 72) < 14) & (abs(y - 34) < 14) & ((x + y) % 2 == 0), 5, index)
    image = Image.fromarray(index.astype(np.uint8), mode="P")
    image.putpalette([245, 240, 230, 200, 30, 40, 20, 20, 20, 40, 90, 180, 250, 180, 0, 0, 130, 90])
    return image


IMAGES: dict[str, Callable[[], Image.Image]] = {
    "landscape": landscape,
    "portrait": portrait,
    "badge": badge,
    "sign": sign,
}


def _grid(width: int, height: int) -> tuple[Integers, Integers]:
    y, x = np.mgrid[:height, :width].astype(np.int64)
    return y, x


def _wave(position: Integers, *, period: int) -> Integers:
    """Up from 0 to 255 and down again, once a period."""
    phase = position % period * 510 // period
    return np.minimum(phase, 510 - phase)


def _noise(x: Integers, y: Integers, *, cell: int, seed: int) -> Integers:
    """Smooth noise from 0 to 255: random at the corners of square cells, interpolated between them."""
    left, top = x // cell, y // cell
    along, down = x % cell, y % cell
    upper = _hashed(left, top, seed) * (cell - along) + _hashed(left + 1, top, seed) * along
    lower = _hashed(left, top + 1, seed) * (cell - along) + _hashed(left + 1, top + 1, seed) * along
    return (upper * (cell - down) + lower * down) // (cell * cell)


def _hashed(x: Integers, y: Integers, seed: int) -> Integers:
    """A number from 0 to 255 that looks random, the same for the same arguments."""
    mixed = (x * 73_856_093 ^ y * 19_349_663 ^ seed * 83_492_791) & 0xFFFFFF
    mixed = (mixed ^ mixed >> 11) * 1_103_515 & 0xFFFFFF
    return (mixed ^ mixed >> 7) & 255


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, render in IMAGES.items():
        path = FOLDER / f"{name}.png"
        render().save(path, optimize=True)
        print(f"{path}: {path.stat().st_size:,} bytes")
