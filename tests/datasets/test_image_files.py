"""Image files in sets of every source: deep, turned, in frames; what enters the fingerprint, what users are told."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import zoo
from tests.cli_runner import document, run
from tests.each import for_each
from tests.image_files import exif, shades, stored
from tests.image_sources import encoded, made
from zoo.datasets import ImageSet, array_images, open_images
from zoo.datasets.images import compute_digest
from zoo.datasets.notes import describe_decoding, describe_small_images
from zoo.datasets.sources import open_dense
from zoo.errors import CorruptImage, DataError, QueryError

ENCODER = "pocket_simclr_rn_shapes"
QUICK = ("--settings", "full", "--no-knn", "--no-record")
GREY = shades()
Write = Callable[[Path, np.ndarray], object]


def in_16_bits(path: Path, grey: np.ndarray) -> None:
    Image.fromarray(grey.astype(np.uint16) * 257).save(path.with_suffix(".png"))


def in_12_of_16_bits(path: Path, grey: np.ndarray) -> None:
    Image.fromarray(grey.astype(np.uint16) << 4 | grey >> 4).save(path.with_suffix(".tif"))


def in_shares(path: Path, grey: np.ndarray) -> None:
    Image.fromarray((grey / 255).astype(np.float32)).save(path.with_suffix(".tif"))


def in_8_bits(path: Path, grey: np.ndarray) -> None:
    Image.fromarray(grey).save(path.with_suffix(".png"))


def stripes(label: int, number: int) -> np.ndarray:
    """Grey levels, uint8 (24, 24): bright stripes across or along."""
    rows, columns = np.mgrid[:24, :24]
    noise = np.random.default_rng(number).normal(0, 12, (24, 24))
    return np.clip(150 + 60 * np.sin((columns if label else rows) / 2 + number) + noise, 120, 255).astype(np.uint8)


def folder_of(root: Path, write: Write, n: tuple[int, int] = (12, 8)) -> Path:
    """Two classes of stripes below train/ and val/."""
    for part, n_images in zip(("train", "val"), n, strict=True):
        for label in (0, 1):
            folder = root / part / "ab"[label]
            folder.mkdir(parents=True)
            for number in range(n_images):
                write(folder / str(number), stripes(label, 100 * n_images + number))
    return root


def pixels(images: ImageSet) -> np.ndarray:
    return np.stack([np.asarray(image.convert("RGB")) for image in images.images])


@for_each([in_16_bits, in_shares])
def test_a_folder_of_deep_images_gives_the_error_of_the_same_images_in_8_bits(write: Write, tmp_path: Path) -> None:
    results, tmp_path = {}, tmp_path / write.__name__
    for name, how in (("deep", write), ("usual", in_8_bits)):
        data = folder_of(tmp_path / name, how)
        (results[name],) = document("evaluate", ENCODER, str(data), *QUICK)["evaluations"]
    assert results["deep"]["errors"][0]["value"] == results["usual"]["errors"][0]["value"] < 25
    kind = "16-bit integers" if write is in_16_bits else "floating point"
    assert results["deep"]["images"]["train"]["scaled"] == {kind: 24}
    assert results["usual"]["images"]["val"]["scaled"] == {}
    for part in ("train", "val"):
        sets = [getattr(open_images(tmp_path / name), part) for name in results]
        np.testing.assert_array_equal(pixels(sets[0]), pixels(sets[1]))


def test_the_scale_reaches_verbs(tmp_path: Path) -> None:
    deep = str(folder_of(tmp_path / "deep", in_12_of_16_bits))
    metric = document("metric", "rankme", ENCODER, deep, "--scale", "0,4095", "--no-record")
    found = metric["images"]["val"]
    assert (found["scaled"], found["scale"]) == ({"16-bit integers": 16}, [0, 4095])
    assert any("4095 as white" in note for note in metric["notes"])
    for wrong in ("4095", "9,1", "0,inf", "1,2,3"):
        assert "LOW,HIGH" in run("features", ENCODER, deep, "--scale", wrong, code=2).stderr


def test_values_in_a_small_part_of_their_range_are_told_of_with_the_scale_that_uses_it(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "xrays", in_12_of_16_bits, n=(3, 2))
    usual, scaled = open_images(root), open_images(root, scale=(0, 4095))
    (note,) = describe_decoding([usual.train, usual.val])
    assert note.startswith("10 images of 16-bit integers are shown with 0 as black and 65535 as white")
    assert "--scale 0,4095" in note and "4095 as white, as --scale says" in describe_decoding([scaled.train])[0]
    assert usual.train.fingerprint != scaled.train.fingerprint
    np.testing.assert_array_equal(pixels(scaled.val)[0, :, :, 0], stripes(0, 200))


def test_fingerprints_change_where_pixels_do_and_nowhere_else(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "set", in_8_bits, n=(3, 2))
    (root / "train" / "a" / "0.png").unlink()
    image = Image.fromarray(GREY)
    for name, turn in (("1.jpg", 1), ("3.jpg", 3), ("6.jpg", 6)):
        image.save(tmp_path / name, exif=exif(turn))
    os.truncate(tmp_path / "1.jpg", max(os.path.getsize(tmp_path / name) for name in ("1.jpg", "3.jpg", "6.jpg")))
    found = {}
    for name in ("6.jpg", "3.jpg", "1.jpg"):
        shutil.copy(tmp_path / name, root / "train" / "a" / "9.jpg")
        assert os.path.getsize(root / "train" / "a" / "9.jpg") == os.path.getsize(tmp_path / "1.jpg")
        train = open_images(root).train
        found[name] = train.fingerprint
    assert len(set(found.values())) == 3
    assert train.contents is not None
    parts = ["folder", "a", "b", *train.names, train.labels.astype("<i8"), train.contents.astype("<u8")]
    assert found["1.jpg"] == compute_digest(parts)  # of names, labels and bytes alone
    for name in ("frames.gif", "pages.tif"):  # Pillow has always turned a TIFF, and shown the first of several frames
        before = open_images(root).train
        image.save(root / "train" / "b" / name, save_all=True, append_images=[image.rotate(180)], exif=exif(3))
        after = open_images(root)
        assert not after.train.reading.facts().keys() & {f"b/{name}"}
        assert any("several frames" in note for note in describe_decoding([after.train, after.val]))
        assert len(after.train) == len(before) + 1


@for_each(["torchvision", "huggingface"])
def test_data_sets_of_libraries_are_read_by_the_same_rules(library: str, tmp_path: Path) -> None:
    tmp_path = tmp_path / library
    tmp_path.mkdir()
    grey = [stripes(number % 2, number) for number in range(20)]
    images = {
        "usual": list(map(encoded, grey)),
        "deep": [encoded(one.astype(np.uint16) * 257) for one in grey],
        "turned": [encoded(stored(Image.fromarray(one), 6), exif=exif(6)) for one in grey],
    }
    labels = ["negative", "positive"] * 10
    specs = {name: made(tmp_path / name, library, labels, of) for name, of in images.items()}
    usual, deep, turned = (open_images(spec) for spec in specs.values())
    for data in (deep, turned):
        assert data.train.names == usual.train.names
        np.testing.assert_array_equal(pixels(data.train), pixels(usual.train))
        np.testing.assert_array_equal(pixels(pickle.loads(pickle.dumps(data.val))), pixels(data.val))
    assert usual.train.reading.facts() == {} and len(deep.train.reading.facts()) == 16
    assert turned.train.reading.as_dict()["turned_by_exif_orientation"] == {"6": 16}
    assert bool(turned.train.reading.facts()) == (library == "torchvision")  # datasets has always turned them
    whole = open_images(specs["deep"], scale=(0, 32767.5))
    assert whole.train.reading.scale == (0, 32767.5) and pixels(whole.train).min() > 230


def test_npz_arrays_of_16_bits_and_with_a_scale_of_any_numbers_are_taken(tmp_path: Path) -> None:
    grey, y = np.stack([shades(seed=seed) for seed in range(8)]), np.arange(8) % 2
    np.savez(tmp_path / "usual.npz", x=grey, y=y)
    expected = open_images(tmp_path / "usual.npz")
    for x, scale in (
        (grey.astype(np.uint16) * 257, None),
        (grey.astype(np.uint16) << 4 | grey >> 4, (0, 4095)),
        (grey.astype(np.int16) * 4 - 500, (-500, 520)),
        (grey.astype(np.float64) * 1e6, (0, 255e6)),
    ):
        np.savez(tmp_path / "other.npz", x=x, y=y)
        data = open_images(tmp_path / "other.npz", scale=scale)
        np.testing.assert_array_equal(pixels(data.train), pixels(expected.train))
        assert data.train.fingerprint == expected.train.fingerprint  # of pixels
        assert sum(data.train.reading.as_dict()["scaled"].values()) == len(data.train)


def dense_folder(root: Path, image: Image.Image, depth: np.ndarray, *, ending: str = "png", turn: int = 1) -> Path:
    for number in range(8):
        for kind in ("images", "depth", "normals"):
            (root / kind).mkdir(parents=True, exist_ok=True)
        image.save(root / "images" / f"{number}.{ending}", **({"exif": exif(turn)} if turn > 1 else {}))
        np.save(root / "depth" / f"{number}.npy", depth)
        np.save(root / "normals" / f"{number}.npy", np.dstack([depth * 0, depth * 0, depth * 0 + 1]))
    return root


@for_each([3, 6, 7])
def test_maps_of_depth_are_turned_with_their_images_and_maps_of_normals_refused(turn: int, tmp_path: Path) -> None:
    tmp_path = tmp_path / str(turn)
    upright, depth = Image.fromarray(GREY), 1 + GREY.astype(np.float32)
    as_stored = np.ascontiguousarray(np.asarray(stored(Image.fromarray(depth), turn)))
    for ending in ("png", "tif"):
        root = dense_folder(tmp_path / ending, stored(upright, turn), as_stored, ending=ending, turn=turn)
        data = open_dense(root, task="depth")
        np.testing.assert_array_equal(data.train.maps[0][0][:, :, 0], depth)
        np.testing.assert_array_equal(np.asarray(data.train.images.images[0]), GREY)
        with pytest.raises(DataError, match=f"EXIF orientation {turn}.*upright"):
            open_dense(root, task="normals").train.maps[0]
    if turn > 4:  # a map of the upright image does not lie on the stored one
        other = open_dense(dense_folder(tmp_path / "other", stored(upright, turn), depth, turn=turn), task="depth")
        with pytest.raises(DataError, match=f"before it is turned by its EXIF orientation {turn}"):
            other.train.maps[0]


@for_each([((40, 20), 32, ""), ((40, 16), 32, "16 pixels"), ((1, 1), 8, "1 pixel")], arguments=3)
def test_images_that_are_small_for_an_encoder_are_said_to_be_enlarged(
    size: tuple[int, int], px: int, says: str
) -> None:
    images = array_images(np.zeros((3, *size), np.uint8), np.array([0, 1, 0]), name="a", split="all", classes="ab")
    notes = describe_small_images(images, encoder="one", px=px)
    assert len(notes) == bool(says) and says in "".join(notes)
    assert ("3 of them are 1 pixel wide or high" in "".join(notes)) == (1 in size)


def test_values_in_a_third_of_their_range_are_told_of_and_values_in_most_of_it_are_not(tmp_path: Path) -> None:
    for name, most, is_told in (("third", 20_000, True), ("most", 50_000, False)):
        root = tmp_path / name
        folder_of(
            root,
            lambda path, grey, most=most: Image.fromarray(
                (grey.astype(np.float64) / 255 * most).astype(np.uint16)
            ).save(path.with_suffix(".png")),
            n=(3, 2),
        )
        image = np.zeros((64, 64), np.uint16)
        image[:, ::2] = most
        image[0, 0] = 65_535  # a single bright pixel hides nothing
        Image.fromarray(image).save(root / "train" / "a" / "0.png")
        (note,) = describe_decoding([open_images(root).train])
        assert ("--scale 0," in note or "--scale 9" in note) == is_told, note


def test_images_above_the_limit_of_pixels_are_read_where_asked_for_also_by_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder_of(tmp_path / "slides", in_8_bits, n=(3, 2))
    zoo.load(ENCODER)  # for the first time it computes features of the zoo's own images, which are larger
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 250)  # in place of 89 million; images have 576
    with pytest.raises(CorruptImage, match="--max-pixels N"):
        open_images(root).train.images[0]
    large = open_images(root, max_pixels=576).train.images
    sent = pickle.dumps(large)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 250)  # as in a process that is started afresh
    assert pickle.loads(sent)[0].size == (24, 24)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 250)
    assert run("evaluate", ENCODER, str(root), *QUICK, "--max-pixels", "600").output
    with pytest.raises(QueryError, match="from 1 on"):
        open_images(root, max_pixels=0)
