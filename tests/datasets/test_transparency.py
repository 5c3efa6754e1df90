"""Transparent parts of images: shown over white from every source, told of, and in fingerprints where there are any."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.datasets.test_image_files import folder_of, stripes
from tests.each import for_each
from tests.image_files import png
from tests.image_sources import encoded, made
from zoo.datasets import ImageData, open_images
from zoo.datasets.images import compute_digest
from zoo.datasets.notes import describe_decoding
from zoo.datasets.rgb import to_rgb
from zoo.evaluation import load_probe

ENCODER = "pocket_simclr_rn_shapes"
QUICK = ("--settings", "full", "--no-knn", "--no-record")
HALF = np.full((8, 8, 4), 90, np.uint8)  # the left half black and transparent, the right half grey and opaque
HALF[:, :4] = 0
HALF[..., 3] = 255
HALF[:, :4, 3] = 0
INDEX = np.where(HALF[..., 3] == 0, 1, 2).astype(np.uint8)
COLOURS = bytes([9, 9, 9, 0, 0, 0, 90, 90, 90])
GREY = HALF[..., 0]

pytestmark = pytest.mark.usefixtures("home")


def saved(kind: str, **options: Any) -> Callable[[Path], object]:
    return lambda path: Image.fromarray(HALF).save(path, kind, **options)


CARRIERS: dict[str, Callable[[Path], object]] = {
    "rgba.png": lambda path: png(path, HALF),
    "la.png": lambda path: png(path, HALF[..., 2:]),
    "16 bits rgba.png": lambda path: png(path, HALF.astype(np.uint16) * 257),
    "16 bits la.png": lambda path: png(path, HALF[..., 2:].astype(np.uint16) * 257),
    "index.png": lambda path: png(path, INDEX, palette=COLOURS, transparency=b"\xff\0\xff"),
    "shares.png": lambda path: png(path, INDEX, palette=COLOURS, transparency=b"\x80\0"),
    "colour.png": lambda path: png(path, HALF[..., :3], transparency=bytes(6)),
    "16 bits colour.png": lambda path: png(path, HALF[..., :3].astype(np.uint16) * 257, transparency=bytes(6)),
    "shade.png": lambda path: png(path, GREY, transparency=bytes(2)),
    "16 bits shade.png": lambda path: png(path, GREY.astype(np.uint16) * 257, transparency=bytes(2)),
    "lossless.webp": saved("WEBP", lossless=True, exact=True),
    "frames.webp": saved("WEBP", lossless=True, save_all=True, append_images=[Image.fromarray(np.roll(HALF, 1, 1))]),
    "frames.gif": saved("GIF", save_all=True, append_images=[Image.fromarray(HALF[:, ::-1])]),
    "one.avif": saved("AVIF", quality=100, subsampling="4:4:4"),
    "one.tif": saved("TIFF"),
    "one.tga": saved("TGA"),
    "one.jp2": saved("JPEG2000"),
    "one.ico": saved("ICO", sizes=[(8, 8)]),
}


def seen(image: Image.Image | np.ndarray, **options: Any) -> np.ndarray:
    return np.asarray(to_rgb(image, **options))


def halves(pixels: np.ndarray) -> tuple[int, int]:
    """The grey of both halves."""
    assert np.ptp(pixels[:, :4]) <= 2 and np.ptp(pixels[:, 4:]) <= 2
    return int(pixels[0, 0, 0]), int(pixels[0, -1, 0])


@for_each(CARRIERS)
def test_transparent_parts_of_files_of_every_kind_are_shown_over_the_background(name: str, tmp_path: Path) -> None:
    root = folder_of(tmp_path / name, lambda path, grey: Image.fromarray(grey).save(f"{path}.png"), n=(3, 2))
    CARRIERS[name](root / "train" / "a" / f"of {name}")
    found = {}
    for background in ("white", "black", "drop"):
        data = open_images(root, background=background)
        place = data.train.names.index(f"a/of {name}")
        found[background] = halves(np.asarray(data.train.images[place].convert("RGB"), int))
        again = pickle.loads(pickle.dumps(data.train.images[place]))  # as it comes from a worker
        assert halves(seen(again).astype(int)) == found[background]
        assert set(data.train.reading.facts()) - {f"a/of {name}"} == set()
    assert found["white"] == (255, pytest.approx(90, abs=2)) and found["black"] == (0, pytest.approx(90, abs=2))
    assert found["drop"] == (0, pytest.approx(90, abs=2))
    with Image.open(root / "train" / "a" / f"of {name}") as opened:  # what a preprocessing is called on
        assert halves(seen(opened).astype(int)) == found["white"]


def literal_set(root: Path, n_channels: int) -> ImageData:
    """Eight small images, stored without compression, so that their bytes are always the same; opaque."""
    for part, first in (("train", 0), ("val", 4)):
        for number in range(4):
            pixels = np.full((6, 5, n_channels), 255, np.uint8)
            pixels[..., :3] = (np.arange(90).reshape(6, 5, 3) * 7 + 31 * (first + number)) % 256
            (root / part / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
            png(root / part / "ab"[number % 2] / f"{number}.png", pixels)
    return open_images(root)


@for_each(
    [
        (3, "2f2a85df168fef734a30b583c2e6adec", "dc7aa58b98f574c728e0db341babdd48"),
        (4, "e4898dfbf3ce9b4b7a556c64014d44ed", "29875cef33d85652e6089f1f80723004"),
    ],
    arguments=3,
)
def test_sets_without_a_transparent_pixel_have_the_fingerprint_of_their_files(
    n_channels: int, train: str, val: str, tmp_path: Path
) -> None:
    tmp_path = tmp_path / str(n_channels)
    data = literal_set(tmp_path / "set", n_channels)
    assert (data.train.fingerprint, data.val.fingerprint) == (train, val)
    assert describe_decoding([data.train, data.val]) == [] and data.train.reading.as_dict()["background"] is None
    assert open_images(tmp_path / "set", background="black").train.fingerprint == train
    pixels = np.full((6, 5, 4), 255, np.uint8)
    pixels[0, 0, 3] = 254
    png(tmp_path / "set" / "train" / "a" / "0.png", pixels)
    found = {name: open_images(tmp_path / "set", background=name).train for name in ("white", "#ffffff", "red", "drop")}
    assert len({images.fingerprint for images in found.values()}) == 3
    assert found["white"].fingerprint == found["#ffffff"].fingerprint
    dropped = found["drop"]
    assert dropped.contents is not None
    parts = ["folder", "a", "b", *dropped.names, dropped.labels.astype("<i8"), dropped.contents.astype("<u8")]
    assert dropped.fingerprint == compute_digest(parts)  # so that features from before are found again
    assert describe_decoding([found["white"]]) == [
        "1 image has transparent parts, shown over white (--background COLOUR, or drop)"
    ]


@for_each(["table", "npz", "parquet", "tar", "huggingface", "huggingface as RGB", "torchvision"])
def test_every_source_shows_transparent_parts_over_the_background(source: str, tmp_path: Path) -> None:
    half = [HALF + np.array([number] * 3 + [0], np.uint8) * (HALF[..., 3:] > 0) for number in range(20)]
    spec = made(tmp_path / source, source, ["negative", "positive"] * 10, list(map(encoded, half)))
    prints = set()
    for background, expected in (("white", 255), ("black", 0), ("drop", 0)):
        data = open_images(spec, background=background)
        left, right = halves(seen(data.train.images[0]).astype(int))
        assert left == expected and 90 <= right < 110
        assert data.val.reading.as_dict()["transparent"] == len(data.val)
        prints.add(data.train.fingerprint)
    assert len(prints) == (2 if source == "npz" else 3)  # npz: over pixels, where black is what is stored


@for_each([HALF.astype(np.uint16) * 257, HALF / 255])
def test_deep_arrays_with_alpha_are_composed(x: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=[x] * 4, y_train=[0, 1] * 2, x_val=[x] * 2, y_val=[0, 1])
    data = open_images(tmp_path / "a.npz")
    assert halves(seen(data.train.images[0]).astype(int)) == (255, 90)
    assert data.train.reading.as_dict()["transparent"] == 4


def on_glass(path: Path, grey: np.ndarray) -> None:
    """Stripes in alpha alone, as icons are."""
    pixels = np.zeros((*grey.shape, 4), np.uint8)
    pixels[..., 3] = 255 - grey
    png(Path(f"{path}.png"), pixels)


def test_icons_are_told_apart_and_a_saved_probe_keeps_the_background(tmp_path: Path) -> None:
    root, folder = folder_of(tmp_path / "icons", on_glass), tmp_path / "probe"
    np.testing.assert_array_equal(seen(open_images(root).train.images[0])[..., 0], stripes(0, 1200))
    errors = {}
    for background in ("white", "drop"):
        (found,) = document("evaluate", ENCODER, str(root), *QUICK, "--background", background)["evaluations"]
        errors[background] = found["errors"][0]["value"]
        assert {"transparent": 24, "background": background}.items() <= found["images"]["train"].items()
    assert errors["drop"] == 50 and errors["white"] < 25  # all images are black; of two classes
    run("evaluate", ENCODER, str(root), *QUICK, "--save", str(folder), "--background", "#0000ff")
    assert load_probe(folder).background == "#0000ff"
    found = document("predict", str(folder), str(root / "val"))["images"]["all"]
    assert {"transparent": 16, "background": "#0000ff"}.items() <= found.items()
    assert "16 images have transparent parts, shown over #0000ff (--background #0000ff)" in (
        run("predict", str(folder), str(root / "val")).output
    )
    asked = document("predict", str(folder), str(root / "val"), "--background", "white")
    assert asked["images"]["all"]["background"] == "white"
    assert "expected a colour" in run("features", ENCODER, str(root), "--background", "drp", code=2).stderr
