"""Image files in sets of every source: deep, turned, in frames; what enters the fingerprint, what users are told."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features
from datasets import Image as ImageFeature
from PIL import Image

from tests.cli_runner import document, run
from tests.image_files import exif, shades, stored, tiff
from zoo.datasets import ImageData, ImageSet, array_images, open_images
from zoo.datasets.imagefiles import notes_on, size_notes
from zoo.datasets.images import digest
from zoo.datasets.opening import open_dense
from zoo.errors import DataError, QueryError

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


@pytest.mark.parametrize("write", [in_16_bits, in_shares])
def test_a_folder_of_deep_images_gives_the_error_of_the_same_images_in_8_bits(tmp_path: Path, write: Write) -> None:
    results = {}
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


def test_features_of_turned_copies_are_those_of_the_upright_images(tmp_path: Path) -> None:
    def turned(path: Path, grey: np.ndarray) -> None:
        orientation = int(path.name) % 8 + 1
        stored(Image.fromarray(grey), orientation).save(path.with_suffix(".png"), exif=exif(orientation))

    names = {"upright": folder_of(tmp_path / "upright", in_8_bits), "turned": folder_of(tmp_path / "turned", turned)}
    found = {name: document("features", ENCODER, str(root), "--split", "val") for name, root in names.items()}
    from zoo.features import load_features

    x = {name: np.asarray(load_features(one["features"][0]["folder"]).x) for name, one in found.items()}
    np.testing.assert_array_equal(x["turned"], x["upright"])
    by_orientation = {str(orientation): 2 for orientation in range(2, 9)}
    assert found["turned"]["images"]["val"]["turned_by_exif_orientation"] == by_orientation
    text = run("evaluate", ENCODER, str(names["turned"]), *QUICK).output
    assert "34 images were turned upright" in text and "6 of orientation 2, 6 of orientation 3" in text


def test_values_in_a_small_part_of_their_range_are_told_of_with_the_scale_that_uses_it(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "xrays", in_12_of_16_bits)
    output = run("evaluate", ENCODER, str(root), *QUICK).output
    assert "40 images of 16-bit integers are shown with 0 as black and 65535 as white" in output
    assert "--scale 0,4095" in output
    output = run("evaluate", ENCODER, str(root), *QUICK, "--scale", "0,4095").output
    assert "4095 as white, as --scale says" in output
    usual, scaled = open_images(root), open_images(root, scale=(0, 4095))
    assert usual.train.fingerprint != scaled.train.fingerprint == open_images(root, scale=(0, 4095)).train.fingerprint
    np.testing.assert_array_equal(pixels(scaled.val)[0, :, :, 0], stripes(0, 800))
    assert pixels(usual.val).max() <= 15


def test_the_scale_reaches_every_verb_that_opens_images_and_is_refused_where_it_shows_nothing_otherwise(
    tmp_path: Path,
) -> None:
    deep, usual = str(folder_of(tmp_path / "deep", in_12_of_16_bits)), str(folder_of(tmp_path / "usual", in_8_bits))
    scale = ("--scale", "0,4095")
    expected = {"scaled": {"16-bit integers": 16}, "scale": [0, 4095]}
    features = document("features", ENCODER, deep, *scale)
    metric = document("metric", "rankme", ENCODER, deep, *scale, "--no-record")
    for found in (features["images"]["val"], metric["images"]["val"]):
        assert {key: found[key] for key in expected} == expected
    assert any("4095 as white" in note for note in metric["notes"])
    training = ("--regimes", "8,all", "--seeds", "1", "--learning-rates", "1e-2", "--set", "least_steps=40")
    out = ("--no-record", "--out", str(tmp_path / "out"))
    curve = ("curve", ENCODER, deep, "--task", "classification", *training, *out)
    assert any("4095 as white" in note for note in document(*curve, *scale)["notes"])
    for images in (usual, "digits", "shapes:classes=2,train=8,val=4,size_px=8"):
        assert "leave it out" in run("features", ENCODER, images, *scale, code=2).stderr
    for wrong in ("4095", "9,1", "0,x", "0,inf", "1,2,3"):
        assert "LOW,HIGH" in run("features", ENCODER, deep, "--scale", wrong, code=2).stderr
    assert "-1000" in run("features", ENCODER, usual, "--scale", "-1000,4000", code=2).stderr  # no option


def test_values_that_no_range_tells_of_are_refused_at_once_with_the_remedy(tmp_path: Path) -> None:
    def in_hounsfield(path: Path, grey: np.ndarray) -> None:
        Image.fromarray(grey.astype(np.int32) * 16 - 1024).save(path.with_suffix(".tif"))

    def in_255ths(path: Path, grey: np.ndarray) -> None:
        Image.fromarray(grey.astype(np.float32)).save(path.with_suffix(".tif"))

    for name, write, kind in (("ct", in_hounsfield, "32-bit integers"), ("raw", in_255ths, "floating point")):
        root = folder_of(tmp_path / name, write)
        message = run("evaluate", ENCODER, str(root), *QUICK, code=1).stderr
        assert f"24 of the 24 images of '{name}'" in message and kind in message and "--scale" in message
        assert len(message.strip().splitlines()) == 1
    ct = open_images(tmp_path / "ct", scale=(-1024, 255 * 16 - 1024))
    np.testing.assert_array_equal(pixels(ct.train)[0, :, :, 0], stripes(0, 1200))


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
    assert found["1.jpg"] == digest(parts)  # of names, labels and bytes alone
    for name in ("frames.gif", "pages.tif"):  # Pillow has always turned a TIFF, and shown the first of several frames
        before = open_images(root).train
        image.save(root / "train" / "b" / name, save_all=True, append_images=[image.rotate(180)], exif=exif(3))
        after = open_images(root)
        assert not after.train.reading.facts().keys() & {f"b/{name}"}
        assert any("several frames" in note for note in notes_on([after.train, after.val]))
        assert len(after.train) == len(before) + 1


def torchvision_set(root: Path, write: Callable[[Path, np.ndarray], object]) -> ImageData:
    """Rendered SST2, which lists PNG files, with others in their places."""
    for part in ("train", "valid", "test"):
        for label in ("negative", "positive"):
            folder = root / "rendered-sst2" / part / label
            folder.mkdir(parents=True)
            for number in range(3):
                write(folder / f"{number}{part[0]}.png", stripes(label == "positive", number + 9 * ord(part[0])))
    return open_images(f"torchvision:RenderedSST2:{root}")


def huggingface_set(root: Path, encoded: Callable[[np.ndarray], bytes], **options: Any) -> ImageData:
    features = Features({"image": ImageFeature(), "label": ClassLabel(names=["a", "b"])})
    parts = {}
    for part, first in (("train", 0), ("test", 50)):
        rows = [{"bytes": encoded(stripes(number % 2, first + number)), "path": None} for number in range(6)]
        parts[part] = Dataset.from_dict({"image": rows, "label": [0, 1] * 3}, features=features)
    DatasetDict(parts).save_to_disk(root)
    return open_images(f"huggingface:{root}", **options)


def test_data_sets_of_libraries_are_read_by_the_same_rules(tmp_path: Path) -> None:
    def saved(image: Image.Image, **options: Any) -> bytes:
        content = io.BytesIO()
        image.save(content, "PNG", **options)
        return content.getvalue()

    def usual(grey: np.ndarray) -> bytes:
        return saved(Image.fromarray(grey))

    def deep(grey: np.ndarray) -> bytes:
        return saved(Image.fromarray(grey.astype(np.uint16) * 257))

    def turned(grey: np.ndarray) -> bytes:
        return saved(stored(Image.fromarray(grey), 6), exif=exif(6))

    found: dict[str, list[ImageData]] = {"torchvision": [], "huggingface": []}
    for encoded in (usual, deep, turned):
        name = encoded.__name__
        write = lambda path, grey, encoded=encoded: path.write_bytes(encoded(grey))  # noqa: E731
        found["torchvision"].append(torchvision_set(tmp_path / f"torchvision {name}", write))
        found["huggingface"].append(huggingface_set(tmp_path / f"huggingface {name}", encoded))
    for library, sets in found.items():
        for data in sets[1:]:
            for part in ("train", "val"):
                np.testing.assert_array_equal(pixels(getattr(data, part)), pixels(getattr(sets[0], part)), library)
            again = pickle.loads(pickle.dumps(data.val))
            np.testing.assert_array_equal(pixels(again), pixels(data.val))
        assert sets[0].train.reading.facts() == {} and len(sets[1].train.reading.facts()) == 6
        assert sets[2].train.reading.as_dict()["turned_by_exif_orientation"] == {"6": 6}
    assert found["huggingface"][2].train.reading.facts() == {}  # which that library has always turned
    whole = huggingface_set(tmp_path / "scaled", deep, scale=(0, 32767.5))
    assert whole.train.reading.scale == (0, 32767.5) and pixels(whole.train).min() > 230


def test_npz_arrays_of_16_bits_and_with_a_scale_of_any_numbers_are_taken(tmp_path: Path) -> None:
    grey, y = np.stack([shades(seed=seed) for seed in range(8)]), np.arange(8) % 2
    usual = tmp_path / "usual.npz"
    np.savez(usual, x=grey, y=y)
    expected = open_images(usual)
    cases = {
        "deep": (grey.astype(np.uint16) * 257, None),
        "twelve": (grey.astype(np.uint16) << 4 | grey >> 4, (0, 4095)),
        "signed": (grey.astype(np.int16) * 4 - 500, (-500, 520)),
        "wide": (grey.astype(np.float64) * 1e6, (0, 255e6)),
    }
    for name, (x, scale) in cases.items():
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
        data = open_images(tmp_path / f"{name}.npz", scale=scale)
        np.testing.assert_array_equal(pixels(data.train), pixels(expected.train))
        assert data.train.fingerprint == expected.train.fingerprint  # of pixels
        assert sum(data.train.reading.as_dict()["scaled"].values()) == len(data.train)
    for name in ("signed", "wide"):
        with pytest.raises(DataError, match="--scale"):
            open_images(tmp_path / f"{name}.npz")
    with pytest.raises(QueryError, match="8 bits"):
        open_images(usual, scale=(0, 4095))


def dense_folder(root: Path, image: Image.Image, depth: np.ndarray, *, ending: str = "png", turn: int = 1) -> Path:
    for number in range(8):
        for kind in ("images", "depth", "normals"):
            (root / kind).mkdir(parents=True, exist_ok=True)
        image.save(root / "images" / f"{number}.{ending}", **({"exif": exif(turn)} if turn > 1 else {}))
        np.save(root / "depth" / f"{number}.npy", depth)
        np.save(root / "normals" / f"{number}.npy", np.dstack([depth * 0, depth * 0, depth * 0 + 1]))
    return root


@pytest.mark.parametrize("turn", range(2, 9))
def test_maps_of_depth_are_turned_with_their_images_and_maps_of_normals_refused(tmp_path: Path, turn: int) -> None:
    upright, depth = Image.fromarray(GREY), 1 + GREY.astype(np.float32)
    as_stored = np.ascontiguousarray(np.asarray(stored(Image.fromarray(depth), turn)))
    for ending in ("png", "tif"):
        root = dense_folder(tmp_path / ending, stored(upright, turn), as_stored, ending=ending, turn=turn)
        data = open_dense(root, task="depth")
        values, valid = data.train.maps[0]
        np.testing.assert_array_equal(values[:, :, 0], depth)
        assert valid.all() and valid.shape == depth.shape
        np.testing.assert_array_equal(np.asarray(data.train.images.images[0]), GREY)
        with pytest.raises(DataError, match=f"EXIF orientation {turn}.*upright"):
            open_dense(root, task="normals").train.maps[0]
    plain = open_dense(dense_folder(tmp_path / "plain", upright, depth), task="depth")
    assert plain.train.images.reading.facts() == {}
    if turn > 4:  # a map of the upright image does not lie on the stored one
        other = open_dense(dense_folder(tmp_path / "other", stored(upright, turn), depth, turn=turn), task="depth")
        with pytest.raises(DataError, match=f"before it is turned by its EXIF orientation {turn}"):
            other.train.maps[0]


def test_files_of_12_bits_and_with_a_white_zero_are_read_by_what_their_tags_say(tmp_path: Path) -> None:
    def packed(path: Path, grey: np.ndarray) -> None:
        tiff(path.with_suffix(".tif"), 4095 - (grey.astype(np.uint16) << 4 | grey >> 4), bits=12)

    def inverted(path: Path, grey: np.ndarray) -> None:
        tiff(path.with_suffix(".tif"), 65535 - grey.astype(np.uint16) * 257, bits=16, white_is_zero=True)

    for name, write in (("packed", packed), ("inverted", inverted)):
        data = open_images(folder_of(tmp_path / name, write, n=(2, 3)))
        grey = pixels(data.train)[0, :, :, 0]
        np.testing.assert_array_equal(grey, stripes(0, 200) if name == "inverted" else 255 - stripes(0, 200))
    assert open_images(tmp_path / "packed").val.reading.as_dict()["scaled"] == {"12-bit integers": 6}


@pytest.mark.parametrize(
    ("size", "px", "says"), [((40, 20), 32, ""), ((40, 16), 32, "16 pixels"), ((1, 1), 8, "1 pixel")]
)
def test_images_that_are_small_for_an_encoder_are_said_to_be_enlarged(
    size: tuple[int, int], px: int, says: str
) -> None:
    images = array_images(np.zeros((3, *size), np.uint8), np.array([0, 1, 0]), name="a", split="all", classes="ab")
    notes = size_notes(images, encoder="one", px=px)
    assert len(notes) == bool(says) and says in "".join(notes)
    assert ("3 of them are 1 pixel wide or high" in "".join(notes)) == (1 in size)
