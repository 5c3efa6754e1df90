"""Images with maps: the same places after preprocessing, the rendered set, folders of pairs, and files of maps."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import transforms

from tests.each import for_each
from zoo.cards.schema import Preprocess
from zoo.datasets import geometry, open_images, pixels_of
from zoo.datasets.dense import DenseData, align_map, read_map
from zoo.datasets.sources import open_dense
from zoo.errors import CorruptImage, DataError, QueryError, UnknownName

SMALL = "shapes:classes=4,train=12,val=8,size_px=16"
GEOMETRIES = [  # height, width, resize_px, crop_px
    (48, 64, 24, 24),  # down by whole numbers
    (47, 61, 25, 21),  # odd, and what is cropped is odd and even
    (21, 13, 40, 37),  # up
    (31, 97, 20, 28),  # padded above and below, cropped left and right
    (15, 17, 20, 25),  # padded by an odd number
]
HEIGHT, WIDTH = 4, 6
RAMP = np.arange(1, HEIGHT * WIDTH + 1).reshape(HEIGHT, WIDTH)
VECTORS = np.random.default_rng(0).normal(size=(HEIGHT, WIDTH, 3))


def about(resize_px: int, crop_px: int, **options: str) -> Preprocess:
    how = {"interpolation": "bilinear", **options}
    return Preprocess(resize_px=resize_px, crop_px=crop_px, mean=(0, 0, 0), std=(1, 1, 1), **how)  # type: ignore[arg-type]


def coordinates(height: int, width: int) -> tuple[Image.Image, np.ndarray]:
    """An image whose red is twice its column and whose green is twice its row, and the same as a map."""
    rows, columns = np.mgrid[:height, :width]
    pixels = np.stack([2 * columns, 2 * rows, np.zeros_like(rows)], axis=2).astype(np.uint8)
    return Image.fromarray(pixels), np.stack([columns, rows], axis=2).astype(np.float32)


@for_each([(sizes, fit) for sizes in GEOMETRIES for fit in ("crop", "squash")], arguments=2)
def test_a_map_goes_exactly_where_torchvision_puts_the_pixels_of_the_image(
    sizes: tuple[int, int, int, int], fit: str
) -> None:
    height, width, resize_px, crop_px = sizes
    image, places = coordinates(height, width)
    nearest = transforms.InterpolationMode.NEAREST_EXACT
    size = resize_px if fit == "crop" else (resize_px, resize_px)
    resized = transforms.Compose([transforms.Resize(size, interpolation=nearest), transforms.CenterCrop(crop_px)])
    expected = np.asarray(resized(image)).astype(np.float32)[:, :, :2] / 2  # (px, px, 2); 0 in the padding
    how = about(resize_px, crop_px) if fit == "crop" else replace(about(resize_px, crop_px), fit="squash")
    found, valid = align_map(places, np.ones((height, width), bool), how)
    assert found.shape == (2, crop_px, crop_px) and found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    assert not found[:, ~valid].any()


@for_each(["depth", "normals"])
def test_the_rendered_set_comes_with_its_exact_geometry(task: str) -> None:
    data, labelled = open_dense(SMALL, task=task), open_images(SMALL)
    assert data.train.unit == {"depth": "half widths of the image", "normals": "unit vectors"}[task]
    assert data.train.fingerprint != labelled.train.fingerprint
    for part, with_labels in ((data.train, labelled.train), (data.val, labelled.val)):
        np.testing.assert_array_equal(pixels_of(part.images), pixels_of(with_labels))
        assert part.images.names == with_labels.names and part.images.classes == ("image",)
        for i, (values, valid) in enumerate(pickle.loads(pickle.dumps(part)).maps):
            exact = geometry(with_labels, i)
            np.testing.assert_array_equal(values, exact.depth[:, :, None] if task == "depth" else exact.normals)
            assert values.dtype == np.float32 and valid.shape == (16, 16) and valid.all()
    few = data.train.subset([7, 2], split="two")
    np.testing.assert_array_equal(few.subset([1], split="one").maps[0][0], data.train.maps[2][0])
    assert data.train.subset(np.arange(12), split="train").fingerprint == data.train.fingerprint != few.fingerprint
    with pytest.raises(ValueError, match="read-only"):
        data.train.maps[3][0][0, 0, 0] = 1


def test_requests_and_parts_that_do_not_fit_are_refused() -> None:
    data = open_dense(SMALL, task="depth")
    for train, val in ((data.train, data.train), (data.train, data.val.subset([], split=""))):
        with pytest.raises(DataError, match="of 'x'"):
            DenseData("x", "depth", train, val)
    for spec in ("digits", "torchvision:CIFAR10:/data", "nowhere"):
        with pytest.raises(UnknownName, match="no image set with maps of depth"):
            open_dense(spec, task="depth")
    with pytest.raises(QueryError, match="OPTION=NUMBER"):
        open_dense("shapes:colour=3", task="depth")
    with pytest.raises(UnknownName, match="did you mean depth"):
        open_dense("shapes", task="dept")


def put(path: Path, stored: np.ndarray | None = None) -> Path:
    """A file as its ending says; by default an RGB image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, stored)
    elif path.suffix == ".npz":
        np.savez_compressed(path, stored)
    else:
        Image.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8) if stored is None else stored).save(path)
    return path


@pytest.fixture
def rooms(tmp_path: Path) -> Path:
    """Three images to train on and two to test on, with depth as 16-bit png and normals as png."""
    for part, n in (("train", 3), ("val", 2)):
        for number in range(n):
            put(tmp_path / "rooms" / part / "images" / f"{number}.jpg")
            put(tmp_path / "rooms" / part / "depth" / f"{number}.png", (RAMP * 1000 + number).astype(np.uint16))
            colours = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
            put(tmp_path / "rooms" / part / "normals" / f"{number}.png", colours)
    return tmp_path / "rooms"


def test_a_folder_with_both_parts_is_opened_for_either_task(rooms: Path) -> None:
    (rooms / "train" / "depth" / "notes.txt").write_text("x")
    data = open_dense(rooms, task="depth")
    assert (data.name, data.train.split, data.val.split, data.train.unit) == ("rooms", "train", "val", "as stored")
    assert data.train.images.names == ["images/0.jpg", "images/1.jpg", "images/2.jpg"]
    np.testing.assert_array_equal(data.train.maps[2][0][:, :, 0], RAMP * 1000 + 2)
    values, valid = pickle.loads(pickle.dumps(open_dense(str(rooms), task="normals"))).val.maps[1]
    np.testing.assert_allclose(np.linalg.norm(values, axis=2)[valid], 1, atol=1e-6)


def test_taskonomys_names_are_paired_and_one_folder_is_split_by_names(tmp_path: Path) -> None:
    for building in ("allensville", "beechwood"):
        for number in range(10):
            stem = f"point_{number}_view_0_domain"
            put(tmp_path / "above" / building / "rgb" / f"{stem}_rgb.png")
            put(tmp_path / "above" / building / "mask_valid" / f"{stem}_depth_zbuffer.png")
            put(tmp_path / "above" / building / "depth_zbuffer" / f"{stem}_depth_zbuffer.png", RAMP.astype(np.uint16))
            put(tmp_path / "above" / building / "normal" / f"{stem}_normal.png")
            put(tmp_path / "labelled" / building / "rgb" / f"{stem}_rgb.png")
    whole = open_dense(tmp_path / "above", task="depth", val_share=0.3, seed=3)
    assert "allensville/rgb/point_3_view_0_domain_rgb.png" in {*whole.train.images.names, *whole.val.images.names}
    np.testing.assert_array_equal(whole.train.maps[0][0][:, :, 0], RAMP)
    assert len(open_dense(tmp_path / "above", task="normals").train) > 10
    labelled = open_images(tmp_path / "labelled", val_share=0.3, seed=3).val.names
    assert sorted(whole.val.images.names) == sorted(labelled)


def test_a_changed_map_has_another_fingerprint_even_if_its_size_is_the_same(rooms: Path) -> None:
    before = open_dense(rooms, task="depth")
    put(rooms / "train" / "depth" / "1.png", np.full((HEIGHT, WIDTH), 9, np.uint16))
    changed = open_dense(rooms, task="depth")
    assert changed.train.fingerprint != before.train.fingerprint and changed.val.fingerprint == before.val.fingerprint
    assert changed.train.images.fingerprint == before.train.images.fingerprint
    (rooms / "train" / "depth" / "1.png").unlink()
    found = set()
    for scale in (1.0, 2.0):
        put(rooms / "train" / "depth" / "1.npy", RAMP * scale)
        found.add(open_dense(rooms, task="depth").train.fingerprint)
    assert len(found) == 2


TROUBLES = {
    "a map is missing": (lambda r: (r / "train/depth/1.png").unlink(), "depth", "1 of 3 images .*'images/1.jpg'"),
    "an image is missing": (lambda r: (r / "train/images/1.jpg").unlink(), "normals", "1 of 3 maps .*'normals/1.png'"),
    "no maps": (lambda r: shutil.rmtree(r / "train" / "depth"), "depth", "one of depth/"),
    "two kinds": (lambda r: shutil.copytree(r / "val/depth", r / "val/depth_euclidean"), "depth", "one of depth/"),
    "other kinds": (lambda r: (r / "val/depth").rename(r / "val/depth_euclidean"), "depth", "in both"),
    "two of a name": (lambda r: put(r / "train/images/0.png"), "depth", "would both be of '0'"),
    "parts below": (lambda r: [shutil.copytree(r / "val/images", r / f"train/images/{p}") for p in ("train", "val")],
                    "depth", "expected the parts above it"),
    "the same images": (lambda r: (shutil.rmtree(r / "val"), shutil.copytree(r / "train", r / "val")), "depth",
                        "the same 3 images"),
}  # fmt: skip


@for_each(TROUBLES)
def test_folders_that_are_not_clear_are_refused(trouble: str, rooms: Path, tmp_path: Path) -> None:
    make, task, words = TROUBLES[trouble]
    other = shutil.copytree(rooms, tmp_path / trouble)
    make(other)
    with pytest.raises(DataError, match=words):
        open_dense(other, task=task)


def test_a_wrong_map_or_image_is_named_when_it_is_read_and_the_others_are_not_touched(rooms: Path) -> None:
    file = rooms / "val" / "depth" / "1.png"
    part = open_dense(rooms, task="depth").val
    for stored, words in ((RAMP.T, "4 x 6 px and its image"), (RAMP * 0, "no valid pixel"), (None, "cannot be read")):
        file.write_text("this is no map") if stored is None else put(file, stored.astype(np.uint16))
        with pytest.raises(DataError, match=rf"^The depth map 'depth/1\.png' of 'rooms' .*{words}"):
            part.maps[1]
        assert part.maps[0][1].all()
    put(file, RAMP.astype(np.uint16))
    (rooms / "val" / "images" / "1.jpg").write_bytes(b"this is no image")
    for ask in (lambda: part.images[1], lambda: part.maps[1]):
        with pytest.raises(CorruptImage, match=r"'images/1.jpg' of 'rooms' cannot be read"):
            ask()


def read(path: Path, task: str) -> tuple[np.ndarray, np.ndarray]:
    values, valid = read_map(str(path), task=task, shown=f"The map {path.name!r}")
    assert values.dtype == np.float32 and valid.dtype == np.bool_
    assert values.shape == (*valid.shape, 1 if task == "depth" else 3)
    assert np.isfinite(values).all() and not values[~valid].any()
    return values, valid


@pytest.mark.filterwarnings("error")
@for_each([np.uint8, np.uint16, np.float16, ">f4", np.float64])
def test_depth_is_missing_where_it_is_0_the_largest_or_not_finite(dtype: type, tmp_path: Path) -> None:
    stored = RAMP.astype(dtype)
    if stored.dtype.kind == "u":
        stored[0, :2] = 0, np.iinfo(dtype).max
    else:
        stored[0, :2] = np.nan, np.inf if dtype is not np.float64 else 1e300  # which is infinite as float32
    for ending in ("npy", "npz", "PNG")[: 2 + (stored.dtype.kind == "u")]:
        values, valid = read(put(tmp_path / f"0.{ending}", stored), "depth")
        assert np.flatnonzero(~valid).tolist() == [0, 1]
        np.testing.assert_array_equal(values[valid][:, 0], stored[valid])


@for_each(["png", "npy"])
def test_directions_are_missing_where_colours_are_black_or_grey_and_vectors_short(ending: str, tmp_path: Path) -> None:
    stored = np.full((HEIGHT, WIDTH, 3), (128, 128, 255), np.uint8)
    stored[0, :4] = (0, 0, 0), (128, 127, 128), (255, 128, 128), (128, 0, 128)
    values, valid = read(put(tmp_path / f"0.{ending}", stored), "normals")
    assert np.flatnonzero(~valid).tolist() == [0, 1]
    np.testing.assert_allclose(values[0, 2:5], [(1, 0, 0), (0, -1, 0), (0, 0, 1)], atol=0.006)
    vectors = VECTORS.copy()
    vectors[0, :4] = (np.nan, 0, 1), (0, 0, 0), (0.05, 0.05, 0.05), (0, 1e200, 0)
    values, valid = read(put(tmp_path / "1.npy", vectors), "normals")
    assert np.flatnonzero(~valid).tolist() == [0, 1, 2, 3]
    lengths = np.linalg.norm(vectors[valid], axis=1)[:, None]
    np.testing.assert_allclose(values[valid], vectors[valid] / lengths, rtol=1e-6)


@for_each(
    [
        ("depth", "png", np.ones((4, 6, 3), np.uint8)),
        ("depth", "png", np.ones((4, 6), bool)),
        ("normals", "png", np.ones((4, 6), np.uint8)),
        ("normals", "png", np.ones((4, 6, 4), np.uint8)),
        ("depth", "npy", np.ones((1, 4, 6))),
        ("depth", "npz", np.ones((4, 0))),
        ("depth", "npy", np.ones((4, 6), complex)),
        ("normals", "npz", np.ones((4, 6, 3), np.uint16)),
        ("normals", "npy", np.zeros((4, 6, 3))),
        ("depth", "npy", np.array([["a"]])),
    ],
    arguments=3,
)
def test_another_content_is_refused_by_name(task: str, ending: str, stored: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^The map '0\.{ending}' .*"):
        read(put(tmp_path / f"0.{ending}", stored), task)


@pytest.mark.filterwarnings("error")
@for_each(["png", "npy", "npz"])
def test_damaged_and_malicious_files_are_read_or_refused_by_name(ending: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    file = put(tmp_path / f"0.{ending}", RAMP.astype(np.uint16))
    whole, n_refused = file.read_bytes(), 0
    contents = [b"", b"this is no map", whole[:-60]]
    for _ in range(60):
        content = np.frombuffer(whole, np.uint8).copy()
        content[generator.integers(0, len(content), 3)] = generator.integers(0, 256, 3)
        contents.append(content.tobytes())
    for content in contents:
        file.write_bytes(content)
        try:
            read(file, "depth")
        except DataError as error:
            assert str(error).startswith(f"The map '0.{ending}' ")
            n_refused += 1
    assert n_refused > 10
    with open(file, "wb") as opened:
        np.save(opened, np.array([{}, None]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        read(file, "depth")
