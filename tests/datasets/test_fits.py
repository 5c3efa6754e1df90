"""FITS images have the values that their headers mean; Pillow reads what is stored, without sign and offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.each import for_each
from zoo.datasets.folders import make_unlabelled_images
from zoo.datasets.notes import describe_decoding
from zoo.errors import CorruptImage, DataError

_BLOCK, _CARD = 2880, 80  # bytes, by the standard
PIXELS = np.random.default_rng(3).integers(0, 256, (12, 20)).astype(np.uint8)  # the first row is the upper one
DEEP = PIXELS.astype(np.uint16) * 257  # of 16 bits, whose high byte is PIXELS


def written(path: Path, stored: np.ndarray, **cards: Any) -> Path:
    """A FITS file; its rows begin below. Big-endian types are written as they are."""
    kind = -8 * stored.itemsize if stored.dtype.kind == "f" else 8 * stored.itemsize
    sides = {f"NAXIS{i}": n for i, n in enumerate(stored.shape[::-1], 1)}
    head = {"SIMPLE": "T", "BITPIX": kind, "NAXIS": stored.ndim, **sides, **cards}
    text = "".join(f"{name:<8}= {value!s:>20} / said".ljust(_CARD) for name, value in head.items()) + "END"
    parts = (text.encode().ljust(-(-len(text) // _BLOCK) * _BLOCK), stored[..., ::-1, :].tobytes())
    path.write_bytes(b"".join(part + bytes(-len(part) % _BLOCK) for part in parts))
    return path


def seen(path: Path, **how: Any) -> np.ndarray:
    return np.asarray(make_unlabelled_images([path], **how).images[0].convert("L"))


READ: dict[str, tuple[np.ndarray, dict[str, Any], tuple[float, float] | None]] = {
    "8 bits": (PIXELS, {}, None),
    "unsigned, as cameras write": ((DEEP.astype(int) - 32768).astype(">i2"), {"BZERO": 32768, "BSCALE": 1}, None),
    "an offset with an exponent": ((DEEP.astype(int) - 32768).astype(">i2"), {"BZERO": "3.2768D4"}, None),
    "signed": ((DEEP.astype(int) - 32768).astype(">i2"), {}, (-32768, 32767)),
    "signed bytes": (PIXELS, {"BZERO": -128}, (-128, 127)),
    "unsigned of 32 bits": ((DEEP.astype(np.int64) - 2**31).astype(">i4"), {"BZERO": 2**31}, (0, 65535)),
    "a scale of its own": (PIXELS.astype(">i2"), {"BSCALE": 0.5, "BZERO": -10}, (-10, 117.5)),
    "floating point": ((PIXELS / 255).astype(">f4"), {}, None),
    "floating point, scaled": ((PIXELS / 255).astype(">f4"), {"BSCALE": 4}, (0, 4)),
    "missing values, of which there are none": (
        (DEEP.astype(int) - 32768).astype(">i2"),
        {"BZERO": 32768, "BLANK": int(DEEP.min()) - 32767},
        None,
    ),
    "missing values in floating point, which has its own": ((PIXELS / 255).astype(">f4"), {"BLANK": 0}, None),
    "a card without a value": (PIXELS, {"BLANK": "", "BZERO": ""}, None),
    "a third axis of one plane": ((DEEP[None].astype(int) - 32768).astype(">i2"), {"BZERO": 32768}, None),
}


@for_each(READ)
def test_fits_images_have_the_values_that_their_headers_mean(name: str, tmp_path: Path) -> None:
    stored, cards, scale = READ[name]
    assert np.array_equal(seen(written(tmp_path / "a.fits", stored, **cards), scale=scale), PIXELS)


def test_pillow_still_reads_what_is_stored_or_this_reader_can_go(tmp_path: Path) -> None:
    file = written(tmp_path / "a.fits", (DEEP.astype(int) - 32768).astype(">i2"), BZERO=32768)
    assert np.array_equal(np.asarray(Image.open(file)), DEEP ^ 32768)


def test_values_below_0_need_a_scale_and_the_notes_say_their_kind(tmp_path: Path) -> None:
    file = written(tmp_path / "a.fits", (PIXELS.astype(int) - 100).astype(">i2"))
    with pytest.raises(DataError, match=r"signed 16-bit integers, from -100 to \d+ .*--scale"):
        make_unlabelled_images([file])
    assert "signed 16-bit integers" in "; ".join(describe_decoding([make_unlabelled_images([file], scale=(-100, 155))]))


def test_the_first_of_several_images_of_a_file_is_shown_with_a_note(tmp_path: Path) -> None:
    stored = (DEEP.astype(int) - 32768).astype(">i2")
    first, second = (written(tmp_path / name, stored, BZERO=32768) for name in ("a.fits", "b.fits"))
    extension = second.read_bytes().replace(b"SIMPLE  = " + b"T".rjust(20), b"XTENSION= 'IMAGE   '".ljust(30), 1)
    assert not any("several" in note for note in describe_decoding([make_unlabelled_images([first])]))
    first.write_bytes(first.read_bytes() + extension)
    assert np.array_equal(seen(first), PIXELS)
    assert any("a.fits'; the first is shown" in note for note in describe_decoding([make_unlabelled_images([first])]))


@pytest.mark.parametrize(
    ("stored", "cards", "reason"),
    [
        (np.stack([PIXELS] * 3), {}, "it holds 3 planes.*expected one"),
        (PIXELS, {"XTENSION": "'BINTABLE'"}, "holds a table.*funpack"),
        (PIXELS.astype(">i2"), {"BLANK": int(PIXELS[0, 0])}, "are not a number"),
    ],
)
def test_cubes_tables_and_missing_values_are_refused(
    stored: np.ndarray, cards: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.fits", stored, **cards)
    with pytest.raises(CorruptImage, match=reason):
        seen(file, scale=(0, 255))
