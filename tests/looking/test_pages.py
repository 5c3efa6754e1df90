"""Single-file pages: thumbnails that fit, and what a page refuses."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo.errors import QueryError, StoreError
from zoo.looking.pages import encode_data_address, make_thumbnail, note_stretched, require_page, write_page


def noise(height: int, width: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def opened(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


def test_a_thumbnail_is_the_whole_image_in_rgb() -> None:
    deep = Image.fromarray(np.linspace(0, 65535, 60 * 90).astype(np.uint16).reshape(60, 90))
    assert (make_thumbnail(noise(60, 90), 30).size, make_thumbnail(noise(60, 90), 300).size) == ((30, 20), (90, 60))
    small = make_thumbnail(deep, 30)
    assert small.mode == "RGB" and small.getextrema()[0][1] > 200


def test_small_images_are_stored_without_loss() -> None:
    image = noise(28, 28)
    address = encode_data_address(make_thumbnail(image, 128))
    assert address.startswith("data:image/png;") and np.array_equal(np.asarray(opened(address)), np.asarray(image))


def test_a_thumbnail_leaves_the_image_as_it_is() -> None:
    image = noise(128, 100)
    assert opened(encode_data_address(make_thumbnail(image, 64))).size == (50, 64) and image.size == (100, 128)
    assert make_thumbnail(noise(3, 9_000), 32).size == (32, 1)


def test_a_page_needs_a_name_and_a_folder(tmp_path: Path) -> None:
    assert write_page("é", tmp_path / "page.html").read_text(encoding="utf-8") == "é"
    with pytest.raises(QueryError, match=r"ends in \.html"):
        require_page(tmp_path / "page.pdf")
    with pytest.raises(StoreError, match="folder that is there"):
        require_page(tmp_path / "none" / "page.html")


def test_a_picture_that_would_be_black_is_stretched_and_says_so() -> None:
    dark = Image.fromarray((np.arange(4096) % 9).astype(np.uint8).reshape(64, 64))
    shown = make_thumbnail(dark, 64)
    assert np.asarray(shown).min() == 0 and np.asarray(shown).max() == 255 and shown.info["stretched"]
    for usual in (noise(64, 64), Image.new("RGB", (64, 64))):
        assert "stretched" not in make_thumbnail(usual, 64).info
    assert note_stretched(0) == "" and note_stretched(1).startswith("1 picture is")
