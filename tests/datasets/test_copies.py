"""Copies by pixels: the same picture in files that differ stays on one side of a split, and is counted."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from tests.each import for_each
from tests.image_files import exif
from tests.image_sources import made
from zoo.datasets import ImageData, open_images
from zoo.datasets.images import compute_digest, count_copies, hash_image_files

N = 24


def noise(seed: int, size: int = 16) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8))


def saved(image: Image.Image, kind: str, **how: object) -> bytes:
    held = io.BytesIO()
    image.save(held, kind, **how)
    return held.getvalue()


def anew(number: int) -> bytes:
    """The picture of a number in another file."""
    image = noise(number)
    ways = (
        lambda: saved(image, "PNG", compress_level=1),
        lambda: saved(image, "BMP"),
        lambda: saved(image, "WEBP", lossless=True),
        lambda: saved(image.convert("RGBA"), "PNG"),
    )
    return ways[number % 4]()


def both(data: ImageData) -> tuple[set[bytes], set[bytes]]:
    train, val = ({image.convert("RGB").tobytes() for image in part.images} for part in (data.train, data.val))
    return train, val


@for_each(["folder", "table", "tar", "parquet", "huggingface"])
def test_a_picture_saved_anew_is_on_one_side_of_every_split(kind: str, tmp_path: Path) -> None:
    twice = [saved(noise(i), "PNG", compress_level=9) for i in range(N)] + [anew(i) for i in range(N)]
    data = open_images(made(tmp_path / kind, kind, ["a", "b"] * N, twice), val_share=0.4)
    train, val = both(data)
    assert val and not train & val and len(train | val) == N
    found = count_copies(data.train.contents, data.train.labels, data.val.contents, data.val.labels)
    assert found is not None and found.within_train + found.within_test == N and not found.test_in_train


def test_copies_between_given_parts_are_counted(tmp_path: Path) -> None:
    images = [anew(i // 5) if i % 5 == 4 else saved(noise(i // 5 if i % 5 == 0 else i), "PNG") for i in range(40)]
    data = open_images(made(tmp_path / "set", "folders", ["a", "b"] * 20, images))
    found = count_copies(data.train.contents, data.train.labels, data.val.contents, data.val.labels)
    assert found is not None and found.test_in_train == 8


def test_photographs_whose_metadata_alone_differ_are_copies_and_those_compressed_anew_are_not(tmp_path: Path) -> None:
    for number in range(8):
        for name, how in (("a", {}), ("b", {"exif": exif(1)}), ("c", {"quality": 60})):
            path = tmp_path / "set" / "xy"[number % 2] / f"{number}{name}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(saved(noise(number, 64), "JPEG", **how))
    data = open_images(tmp_path / "set")
    names = [*data.train.names, *data.val.names]
    assert data.train.contents is not None and data.val.contents is not None
    content = dict(zip(names, [*data.train.contents.tolist(), *data.val.contents.tolist()], strict=True))
    of_class = {name.partition("/")[2]: value for name, value in content.items()}
    assert all(of_class[f"{i}a.jpg"] == of_class[f"{i}b.jpg"] != of_class[f"{i}c.jpg"] for i in range(8))


def test_a_photograph_and_the_png_made_of_it_are_copies(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / "set" / "xy"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(saved(noise(number), "JPEG"))
        Image.open(folder / f"{number}.jpg").save(folder / f"{number}.png")
    train, val = both(open_images(tmp_path / "set", val_share=0.4))
    assert val and not train & val


def test_fingerprints_are_of_files_whether_there_are_copies_or_not(tmp_path: Path) -> None:
    for number in range(12):
        path = tmp_path / ("train", "val")[number // 2 % 2] / "xy"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(noise(number // 4), "PNG", compress_level=1 + 2 * (number % 4)))
    train = open_images(tmp_path).train
    files = hash_image_files([str(tmp_path / "train" / name) for name in train.names])
    assert train.contents is not None and len(set(train.contents.tolist())) == 3 < len(set(files.tolist())) == 6
    parts = ["folder", *train.classes, *train.names, train.labels.astype("<i8"), files.astype("<u8")]
    assert train.fingerprint == compute_digest(parts)


def test_images_that_lose_what_they_differ_in_are_no_copies_and_deep_ones_saved_anew_are(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (12, 16, 16), np.uint16)
    for number, small in enumerate(values):
        grey = Image.fromarray((small if number % 2 else small * 200).astype(np.uint16))
        for level in (1, 9):
            path = tmp_path / "set" / "xy"[number // 2 % 2] / f"{number}-{level}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(saved(grey, "PNG", compress_level=level))
    data = open_images(tmp_path / "set", val_share=0.4)
    assert data.train.contents is not None and data.val.contents is not None
    n_contents = len({*data.train.contents.tolist(), *data.val.contents.tolist()})
    assert n_contents == 6 + 12  # values below 256 are all black, so that only their files tell them apart
