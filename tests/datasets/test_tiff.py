"""TIFF files of bands and types that Pillow refuses, scrambles or wraps; colours of 16 bits in PNG and TIFF."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.each import for_each
from tests.image_files import exif, png, stored
from tests.image_sources import made
from zoo.datasets import open_images
from zoo.datasets.folders import make_unlabelled_images
from zoo.datasets.notes import describe_decoding
from zoo.errors import CorruptImage, DataError, MissingExtra

COLOURS = np.random.default_rng(3).integers(0, 256, (12, 20, 5), np.uint8)
RGB = np.ascontiguousarray(COLOURS[..., :3])
GREY = RGB[..., 0]
DEEP = COLOURS.astype(np.uint16) * 257
TWELVE = COLOURS.astype(np.uint16) << 4 | COLOURS >> 4


def written(path: Path, pixels: np.ndarray, **how: Any) -> Path:
    tifffile.imwrite(path, pixels, **{"photometric": "rgb", **how})
    return path


def planes(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def seen(path: Path, **how: Any) -> np.ndarray:
    return np.asarray(make_unlabelled_images([path], **how).images[0].convert("RGB"))


def told(path: Path, **how: Any) -> str:
    return "; ".join(describe_decoding([make_unlabelled_images([path], **how)]))


GREY_IN_BANDS = {"photometric": "minisblack", "planarconfig": "contig"}
PLANES = {"planarconfig": "separate"}
READ = {
    "planes of 16 bits": (planes(DEEP[..., :3]), PLANES, ""),
    "planes of 16 bits, packed": (planes(DEEP[..., :3]), PLANES | {"compression": "lzw"}, ""),
    "three bands": (RGB, GREY_IN_BANDS, "3 bands that are not said to be colours"),
    "three bands of 16 bits": (DEEP[..., :3], GREY_IN_BANDS, "3 bands that are not said to be colours"),
    "near infrared": (COLOURS[..., :4], {"extrasamples": ["unspecified"]}, "4 bands, of which red, green and blue"),
    "five bands with colours": (DEEP, {}, "5 bands, of which red, green and blue"),
    "floating point": ((RGB / np.float32(255)).astype(np.float32), {}, "floating point"),
}


def test_unsigned_values_of_32_bits_do_not_become_negative(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tif", GREY.astype(np.uint32) * 16843009, photometric="minisblack")
    assert np.array_equal(seen(file, scale=(0, 2**32 - 1))[..., 0], GREY)
    with pytest.raises(DataError, match="--scale 0,4294967295"):
        make_unlabelled_images([file])


@for_each(READ)
def test_bands_that_say_their_colours_are_shown_in_them(kind: str, tmp_path: Path) -> None:
    pixels, how, note = READ[kind]
    path = written(tmp_path / f"{kind}.tif", pixels, **how)
    np.testing.assert_array_equal(seen(path), RGB)
    assert note in told(path)


def test_a_further_band_without_a_name_is_no_alpha_and_what_is_marked_as_alpha_is(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tif", COLOURS[..., :4], extrasamples=["unassalpha"])
    assert "as near infrared: --background drop" in told(path)
    np.testing.assert_array_equal(seen(path, background="drop"), RGB)
    content = bytearray(path.read_bytes())
    at = content.index(b"\x52\x01\x03\x00\x01\x00")  # the tag 338, which becomes one that nobody reads
    content[at : at + 2] = b"\x51\x01"
    path.write_bytes(content)
    np.testing.assert_array_equal(seen(path), RGB)


@for_each([(2, np.uint8), (2, np.uint16), (4, np.uint16), (5, np.uint8)], arguments=2)
def test_bands_that_do_not_say_their_colours_are_refused_by_their_number(n: int, dtype: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "a.tif", COLOURS[..., :n].astype(dtype), **GREY_IN_BANDS)
    with pytest.raises(CorruptImage, match=rf"it holds {n} bands of {np.dtype(dtype)}"):
        seen(path)


def test_signed_values_of_8_bits_need_a_scale_and_do_not_wrap(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tif", (GREY.astype(int) - 128).astype(np.int8), photometric="minisblack")
    with pytest.raises(DataError, match=r"signed 8-bit integers, from -128 .* --scale"):
        seen(path)
    np.testing.assert_array_equal(seen(path, scale=(-128, 127))[..., 0], GREY)


def test_values_that_stand_for_missing_ones_are_none_of_those_that_a_scale_is_advised_for(tmp_path: Path) -> None:
    heights = np.where(GREY < 100, -9999, GREY / 255).astype(np.float32)
    path = written(tmp_path / "a.tif", heights, photometric="minisblack")
    with pytest.raises(
        DataError, match=r"from 0\.39\S* to \S+ .* and -9999 where values seem to be missing.*--scale 0\.39"
    ):
        seen(path)
    np.testing.assert_array_equal(seen(path, scale=(0, 1))[..., 0], np.where(GREY < 100, 0, GREY))


def deep_png(path: Path, pixels: np.ndarray) -> Path:
    return png(path.with_suffix(".png"), pixels)


def deep_tiff(path: Path, pixels: np.ndarray) -> Path:
    return written(path.with_suffix(".tif"), pixels)


@for_each([deep_png, deep_tiff])
def test_colours_of_12_bits_in_16_are_noted_and_a_scale_shows_all_of_them(
    write: Callable[[Path, np.ndarray], Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "a", TWELVE[..., :3])
    np.testing.assert_array_equal(seen(path), RGB >> 4)
    assert "16 of 256 shades: --scale 0,4095" in told(path)
    np.testing.assert_array_equal(seen(path, scale=(0, 4095)), RGB)
    assert "4095 as white, as --scale says" in told(path, scale=(0, 4095))
    whole = write(tmp_path / "b", DEEP[..., :3])
    np.testing.assert_array_equal(seen(whole), RGB)
    assert "--scale" not in told(whole)


def test_grey_and_colours_with_alpha_in_16_bits_are_scaled_too(tmp_path: Path) -> None:
    opaque = np.full((12, 20, 1), 65535, np.uint16)
    for number, bands in enumerate((TWELVE[..., :1], TWELVE[..., :3])):
        path = png(tmp_path / f"{number}.png", np.dstack([bands, opaque]))
        np.testing.assert_array_equal(seen(path, scale=(0, 4095)), RGB if number else np.dstack([GREY] * 3))


@for_each(["folder", "tar", "parquet", "huggingface"])
def test_every_source_scales_colours_of_16_bits(kind: str, tmp_path: Path) -> None:
    of_16 = [deep_png(tmp_path / f"{kind}{i}", np.roll(TWELVE[..., :3], i, 1)).read_bytes() for i in range(20)]
    source = made(tmp_path / kind, kind, ["a", "b"] * 10, of_16)
    usual, scaled = open_images(source), open_images(source, scale=(0, 4095))
    assert "--scale 0,4095" in "; ".join(describe_decoding([usual.train]))
    assert usual.train.fingerprint != scaled.train.fingerprint
    shown = {np.asarray(image.convert("RGB")).tobytes() for image in scaled.train.images}
    assert shown <= {np.roll(RGB, i, 1).tobytes() for i in range(20)}


def test_without_the_extra_full_colours_are_read_and_a_scale_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, odd = deep_png(tmp_path / "a", DEEP[..., :3]), written(tmp_path / "b.tif", planes(DEEP[..., :3]), **PLANES)
    monkeypatch.setitem(__import__("sys").modules, "tifffile", None)
    monkeypatch.setitem(__import__("sys").modules, "imagecodecs", None)
    np.testing.assert_array_equal(seen(path), RGB)
    for read in (lambda: seen(path, scale=(0, 4095)), lambda: seen(odd)):
        with pytest.raises(MissingExtra, match="tiff"):
            read()


def test_heic_files_are_turned_once_whether_exif_or_the_container_says_so(tmp_path: Path) -> None:
    upright = np.zeros((96, 64, 3), np.uint8)
    upright[:48] = 255
    for name, metadata in (("exif alone", exif(6)), ("both", exif(6).tobytes())):
        held = io.BytesIO()
        stored(Image.fromarray(upright), 6).save(held, "HEIF", exif=metadata)
        (tmp_path / f"{name}.heic").write_bytes(held.getvalue())
        found = seen(tmp_path / f"{name}.heic")
        assert found.shape == (96, 64, 3) and found[:40].min() > 200 and found[56:].max() < 50
