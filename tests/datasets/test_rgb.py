"""From images of any kind to what an encoder is shown: shades, orientations, arrays, extreme shapes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision import transforms

from tests.each import for_each
from tests.image_files import exif, shades, stored
from zoo.cards.catalogue import load_catalogue
from zoo.datasets.rgb import RGB, apply_orientation, crop_extreme_ratio, to_rgb
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import DataError, QueryError

GREY = shades()
EXPECTED = np.repeat(GREY[:, :, None], 3, axis=2)


def seen(image: Image.Image | np.ndarray, **options: object) -> np.ndarray:
    found = to_rgb(image, **options)  # type: ignore[arg-type]
    assert found.mode == "RGB"
    return np.asarray(found)


def test_a_16_bit_image_keeps_its_shades() -> None:
    for factor, kind in ((257, "<u2"), (256, "<u2"), (257, ">u2")):  # white is 65,535, or 65,280
        deep = Image.fromarray((GREY.astype(np.uint16) * factor).astype(kind))
        assert deep.mode in ("I;16", "I;16B")
        np.testing.assert_array_equal(seen(deep), EXPECTED)


def test_a_scale_cuts_what_lies_outside_and_does_not_touch_8_bits() -> None:
    values = np.array([[-2000.0, -1000.0, 200.0, 1400.0, 9000.0, np.inf]], np.float32)
    assert seen(Image.fromarray(values), scale=(-1000, 1400))[0, :, 0].tolist() == [0, 0, 128, 255, 255, 255]
    np.testing.assert_array_equal(seen(Image.fromarray(GREY), scale=(100, 101)), EXPECTED)
    for wrong in ((1, 1), (2, 1), (0, float("nan")), (0, float("inf")), (1,), 3):
        with pytest.raises(QueryError, match="LOW"):
            to_rgb(GREY, scale=wrong)  # type: ignore[arg-type]


def test_images_of_8_bits_are_converted_as_pillow_does() -> None:
    colours = Image.fromarray(np.random.default_rng(2).integers(0, 256, (9, 7, 3), np.uint8))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV"):
        image = colours.convert(mode)
        np.testing.assert_array_equal(seen(image), np.asarray(image.convert("RGB")))


def test_arrays_are_the_images_of_their_pixels() -> None:
    colours = np.random.default_rng(3).integers(0, 256, (9, 7, 4), np.uint8)
    colours[:, :, 3] = 255
    for array in (GREY, GREY[:, :, None], colours[:, :, :3], colours, colours[::-1, ::2, :3], GREY > 99):
        image = Image.fromarray(np.ascontiguousarray(array.squeeze()))
        np.testing.assert_array_equal(seen(array), np.asarray(image.convert("RGB")))
    deep = colours[:, :, :3].astype(np.uint16) * 257
    for array in (deep, deep.astype(np.float64) / 65535, (deep / 65535).astype(np.float32)):
        np.testing.assert_array_equal(seen(array), colours[:, :, :3])
    faint = np.full((2, 2, 4), (40, 40, 40, 128), np.uint8)  # over white 40 * 128 / 255 + 127
    for array in (faint, faint.astype(np.uint16) * 257, (faint / 255).astype(np.float32)):
        assert np.ptp(seen(array)) == 0 and abs(int(seen(array)[0, 0, 0]) - 147) <= 1


@for_each([np.zeros((3, 9, 7), np.uint8), np.zeros((0, 4), np.uint8), np.full((4, 4), 300),
    np.zeros((4, 4), np.complex64), np.array([["a"]]), torch.zeros(3, 8, 8), "photo.jpg", None])  # fmt: skip
def test_what_is_no_image_is_refused_in_one_sentence(wrong: object) -> None:
    with pytest.raises(DataError, match="expected") as caught:
        build_preprocess(load_catalogue()["simclr_rn50"].preprocess)(wrong)
    assert "\n" not in str(caught.value)


@for_each(["AVIF", "JPEG", "PNG", "WEBP", "TIFF"])
def test_an_image_is_turned_as_its_orientation_says_and_once(ending: str) -> None:
    upright = Image.fromarray(np.kron(GREY, np.ones((8, 8), np.uint8)))
    for orientation in range(1, 9):
        content, lying = io.BytesIO(), stored(upright, orientation)
        lying.save(content, ending, exif=exif(orientation), **({"lossless": True} if ending == "WEBP" else {}))
        with Image.open(content) as opened:
            expected = np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
        with Image.open(content) as opened:
            found = to_rgb(opened)
            np.testing.assert_array_equal(seen(opened.convert("RGB")), expected)
        np.testing.assert_array_equal(np.asarray(found), expected)
        np.testing.assert_array_equal(seen(found), expected)
        np.testing.assert_array_equal(apply_orientation(np.asarray(lying), orientation), np.asarray(upright))


PIXELS = np.random.default_rng(4).integers(0, 256, (5000, 3), np.uint8)


@for_each([224, 288])
def test_an_extremely_long_image_is_cut_to_more_than_its_crop_before_it_is_resized(crop_px: int) -> None:
    how = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(crop_px)])
    line = Image.fromarray(PIXELS[:500, None])  # 1 x 500
    for image in (line, line.transpose(Image.Transpose.ROTATE_90)):
        found = crop_extreme_ratio(image)
        assert max(found.size) == 16
        np.testing.assert_array_equal(np.asarray(how(found)), np.asarray(how(image)))
    odd = Image.fromarray(PIXELS[: 7 * 150].reshape(150, 7, 3))
    difference = np.asarray(how(crop_extreme_ratio(odd))).astype(int) - np.asarray(how(odd))
    assert np.abs(difference).max() <= 6  # half a pixel after the resize
    ordinary = Image.fromarray(PIXELS[:400].reshape(80, 5, 3))
    assert crop_extreme_ratio(ordinary) is ordinary


def test_the_first_step_is_pickled_with_its_own_text(run_apart: Callable[..., CompletedProcess[str]]) -> None:
    step = RGB()
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(step))))
    assert repr(again) == repr(step) == "RGB()"
    deep = Image.fromarray(GREY.astype(np.uint16) << 8)
    np.testing.assert_array_equal(np.asarray(again(deep)), np.asarray(step(deep)))
    script = (
        "import pickle, sys, numpy\n"
        "from importlib.util import find_spec\n"
        "assert find_spec('zoo') is None\n"
        "step = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "print(numpy.asarray(step(numpy.array([[0, 32768, 65535]], numpy.uint16)))[0, :, 0].tolist())\n"
        "try: step(numpy.full((2, 2), numpy.nan))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    done = run_apart(script, pickle.dumps(step).hex())
    assert done.stdout.splitlines()[0] == "[0, 128, 255]", done.stderr
    assert done.stdout.splitlines()[1].startswith("ValueError The image has 4 of 4 values that are not a number")
