"""Traps in the pixels of image files; :mod:`tests.traps` says how to read a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.datasets.test_dicom import dicom
from tests.image_files import exif, png, stored, tiff
from tests.traps import Trap, hold
from zoo.cards.catalogue import load_catalogue
from zoo.datasets.folders import make_unlabelled_images
from zoo.encoders.preprocess import build_preprocess

CARD = load_catalogue()["dino_vitS16"].preprocess
COLOURS = np.random.default_rng(0).integers(0, 256, (12, 20, 3), np.uint8)
GREY = np.random.default_rng(1).integers(0, 256, (12, 20), np.uint8)
GREY[0, :2] = 0, 255
Write = Callable[[Path], Any]


def shown(write: Write, *, name: str = "image.png", **how: Any) -> Callable[[Path], np.ndarray]:
    """What the zoo shows of the file that ``write`` writes, uint8 (height, width, 3)."""

    def show(folder: Path) -> np.ndarray:
        write(folder / name)
        return np.asarray(make_unlabelled_images([folder / name], **how).images[0].convert("RGB"))

    return show


def by_pillow(write: Write, *, name: str = "image.png") -> Callable[[Path], np.ndarray]:
    """The same as ``Image.open(file).convert("RGB")``, which loaders of torchvision and others call."""

    def show(folder: Path) -> np.ndarray:
        write(folder / name)
        return np.asarray(Image.open(folder / name).convert("RGB"))

    return show


def rgb(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[:, :, None], 3, axis=2)


def seen(image: Image.Image) -> np.ndarray:
    """What a card's preprocessing makes of an image."""
    return build_preprocess(CARD)(image).numpy()


# A checkerboard: where it is transparent the stored colour is black, elsewhere grey 90.
BOARD = np.indices((96, 96)).sum(0) // 3 % 2 == 0
CUT_OUT = np.dstack([np.where(BOARD, 0, 90)] * 3 + [np.where(BOARD, 0, 255)]).astype(np.uint8)
COMPOSED = rgb(np.where(BOARD, 255, 90).astype(np.uint8))
RED_AND_BLUE = np.where(BOARD, 0, 1).astype(np.uint8)
TWO_COLOURS = [255, 0, 0, 0, 0, 255]


def in_two_colours() -> Image.Image:
    image = Image.fromarray(RED_AND_BLUE, "P")
    image.putpalette(TWO_COLOURS)
    return image


def white_behind(image: Image.Image) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def resized_first(image: Image.Image) -> np.ndarray:
    """The preprocessing of the card, on an image that was resized with its alpha or palette, and converted then."""
    side = CARD.resize_px
    resized = image.resize((side, side), Image.Resampling.BICUBIC)
    return seen(white_behind(resized) if resized.mode == "RGBA" else resized.convert("RGB"))


def deep(pixels: np.ndarray, factor: int = 257) -> Write:
    return lambda path: png(path, pixels.astype(np.uint16) * factor)


def banded(pixels: np.ndarray, **how: Any) -> Write:
    return lambda path: tifffile.imwrite(path, pixels, **how)


def turned_by(orientation: int) -> Write:
    return lambda path: stored(Image.fromarray(COLOURS), orientation).save(path, exif=exif(orientation))


def planes(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


VALUES = np.linspace(-1000, 3000, 240).reshape(12, 20).round()
HOUNSFIELD = (VALUES + 1000).astype(np.uint16)
CT = {"bits": 16, "WindowCenter": 40, "WindowWidth": 400, "RescaleSlope": 1, "RescaleIntercept": -1000}


def scan(stored_values: np.ndarray = HOUNSFIELD, **elements: Any) -> Write:
    return lambda path: dicom(path, stored_values, **{**CT, **elements})


def through_window(centre: float, width: float) -> np.ndarray:
    """By PS3.3 C.11.2.1.2.1 of the standard: the centre lies half a value lower, and the width has one value less."""
    return rgb(np.rint(np.clip((VALUES - (centre - 0.5)) / (width - 1) + 0.5, 0, 1) * 255).astype(np.uint8))


def by_bits(stored_values: np.ndarray) -> np.ndarray:
    return rgb((stored_values >> 8).astype(np.uint8))


def exact_window(centre: float, width: float) -> np.ndarray:
    """LINEAR_EXACT of the same place."""
    return rgb(np.rint(np.clip((VALUES - centre) / width + 0.5, 0, 1) * 255).astype(np.uint8))


SHARES = (COLOURS[..., 0] / np.float32(255)).astype(np.float32)

PIXELS = [
    Trap(
        "alpha is composed before the image is resized",
        zoo=lambda _: seen(Image.fromarray(CUT_OUT)),
        right=lambda _: seen(Image.fromarray(COMPOSED)),
        usual=lambda _: resized_first(Image.fromarray(CUT_OUT)),
    ),
    Trap(
        "transparent pixels are what lies behind them and not the colour that is stored there",
        zoo=shown(lambda path: png(path, CUT_OUT)),
        right=COMPOSED,
        usual=by_pillow(lambda path: png(path, CUT_OUT)),
    ),
    Trap(
        "a palette becomes colours before the image is resized",
        zoo=lambda _: seen(in_two_colours()),
        right=lambda _: seen(Image.fromarray(np.array(TWO_COLOURS, np.uint8).reshape(2, 3)[RED_AND_BLUE])),
        usual=lambda _: resized_first(in_two_colours()),
    ),
    Trap(
        "16-bit grey is shown by its range",
        zoo=shown(deep(GREY)),
        right=rgb(GREY),
        usual=by_pillow(deep(GREY)),
    ),
    Trap(
        "32-bit floating point from 0 to 1 is shown by that range",
        zoo=shown(lambda path: tiff(path, SHARES, bits=32), name="image.tif"),
        right=rgb(COLOURS[..., 0]),
        usual=by_pillow(lambda path: tiff(path, SHARES, bits=32), name="image.tif"),
    ),
    Trap(
        "16-bit colours have the scale that is asked for",
        zoo=shown(deep(COLOURS, 16), scale=(0, 4080)),
        right=COLOURS,
        usual=by_pillow(deep(COLOURS, 16)),
    ),
    Trap(
        "16-bit TIFF with one plane per colour is not scrambled",
        zoo=shown(
            banded(planes(COLOURS.astype(np.uint16) * 257), photometric="rgb", planarconfig="separate"), name="a.tif"
        ),
        right=COLOURS,
        usual=by_pillow(
            banded(planes(COLOURS.astype(np.uint16) * 257), photometric="rgb", planarconfig="separate"), name="a.tif"
        ),
    ),
    Trap(
        "16-bit TIFF in which 0 is white is inverted",
        zoo=shown(
            lambda path: tiff(path, 65535 - GREY.astype(np.uint16) * 257, bits=16, white_is_zero=True), name="a.tif"
        ),
        right=rgb(GREY),
        usual=lambda folder: by_bits(65535 - GREY.astype(np.uint16) * 257),
    ),
    Trap(
        "a fourth band of near infrared is no alpha",
        zoo=shown(banded(np.dstack([COLOURS, GREY]), photometric="rgb", extrasamples=["unspecified"]), name="a.tif"),
        right=COLOURS,
        usual=lambda _: np.asarray(white_behind(Image.fromarray(np.dstack([COLOURS, GREY])))),
    ),
    Trap(
        "an image is turned as its EXIF orientation says",
        zoo=shown(turned_by(6)),
        right=COLOURS,
        usual=by_pillow(turned_by(6)),
    ),
    Trap(
        "white and black are so where 1 bit stores each pixel",
        zoo=shown(lambda path: Image.fromarray(BOARD).save(path)),
        right=rgb(np.where(BOARD, 255, 0).astype(np.uint8)),
        usual=lambda _: rgb(BOARD.astype(np.uint8)),  # numpy.asarray of such an image
    ),
    Trap(
        "CMYK becomes colours of light",
        zoo=shown(lambda path: Image.fromarray(COLOURS).convert("CMYK").save(path), name="a.tif"),
        right=COLOURS,
        usual=lambda _: np.asarray(Image.fromarray(COLOURS).convert("CMYK"))[..., :3],
    ),
    Trap(
        "a DICOM window is that of the standard and not the range of the bits",
        zoo=shown(scan(), name="a.dcm"),
        right=through_window(40, 400),
        usual=by_bits(HOUNSFIELD),
    ),
    Trap(
        "a DICOM window has one value less than its width, half a value lower",
        zoo=shown(scan(WindowCenter=40, WindowWidth=20), name="a.dcm"),
        right=through_window(40, 20),
        usual=exact_window(40, 20),
    ),
    Trap(
        "the window that a DICOM file calls LINEAR_EXACT is exact",
        zoo=shown(scan(WindowCenter=40, WindowWidth=20, VOILUTFunction="LINEAR_EXACT"), name="a.dcm"),
        right=exact_window(40, 20),
        usual=through_window(40, 20),
    ),
    Trap(
        "a DICOM window is applied to rescaled values",
        zoo=shown(scan(), name="a.dcm"),
        right=through_window(40, 400),
        usual=lambda _: rgb(np.rint(np.clip((HOUNSFIELD - 39.5) / 399 + 0.5, 0, 1) * 255).astype(np.uint8)),
    ),
    Trap(
        "the first of several DICOM windows is applied",
        zoo=shown(scan(WindowCenter=[40, 500], WindowWidth=[400, 2000]), name="a.dcm"),
        right=through_window(40, 400),
        usual=through_window(500, 2000),
    ),
    Trap(
        "MONOCHROME1 is inverted",
        zoo=shown(scan(PhotometricInterpretation="MONOCHROME1"), name="a.dcm"),
        right=255 - through_window(40, 400),
        usual=through_window(40, 400),
    ),
]


@pytest.mark.parametrize("trap", PIXELS, ids=str)
def test_pixels_are_right_where_the_usual_way_has_others(trap: Trap, tmp_path: Path) -> None:
    hold(trap, tmp_path)
