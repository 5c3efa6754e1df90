"""Folders of images with maps: paired by name, read for what they hold, and refused by name where they are wrong."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo.datasets import open_images
from zoo.datasets.opening import open_dense
from zoo.errors import CorruptImage, DataError

HEIGHT, WIDTH = 4, 6
RAMP = np.arange(1, HEIGHT * WIDTH + 1).reshape(HEIGHT, WIDTH)


def put(path: Path, stored: np.ndarray | None = None) -> Path:
    """A file as its ending says; by default an RGB image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, stored)
    elif path.suffix == ".npz":
        np.savez(path, stored)
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
    data = open_dense(rooms, task="depth")
    assert (data.name, data.train.split, data.val.split, data.train.unit) == ("rooms", "train", "val", "as stored")
    assert data.train.images.names == ["images/0.jpg", "images/1.jpg", "images/2.jpg"]
    assert data.train.images.classes == ("image",) and data.train.images[2][1] == 0
    values, valid = data.train.maps[2]
    assert values.dtype == np.float32 and valid.all()
    np.testing.assert_array_equal(values[:, :, 0], RAMP * 1000 + 2)
    values, valid = pickle.loads(pickle.dumps(open_dense(str(rooms), task="normals", name="other"))).val.maps[1]
    np.testing.assert_allclose(np.linalg.norm(values, axis=2)[valid], 1, atol=1e-6)


def test_taskonomys_names_and_folders_above_or_below_are_paired(tmp_path: Path) -> None:
    for building in ("allensville", "beechwood"):
        for number in range(10):
            stem = f"point_{number}_view_0_domain"
            put(tmp_path / "above" / building / "rgb" / f"{stem}_rgb.png")
            put(tmp_path / "above" / building / "mask_valid" / f"{stem}_depth_zbuffer.png")
            put(tmp_path / "above" / building / "depth_zbuffer" / f"{stem}_depth_zbuffer.png", RAMP.astype(np.uint16))
            put(tmp_path / "above" / building / "normal" / f"{stem}_normal.png")
            put(tmp_path / "below" / "rgb" / building / f"{stem}_rgb.png")
            put(tmp_path / "below" / "depth_euclidean" / building / "1" / f"{stem}_depth_euclidean.png")
    whole = open_dense(tmp_path / "above", task="depth", val_share=0.3)
    assert len(whole.train) + len(whole.val) == 20
    assert "allensville/rgb/point_3_view_0_domain_rgb.png" in {*whole.train.images.names, *whole.val.images.names}
    np.testing.assert_array_equal(whole.train.maps[0][0][:, :, 0], RAMP)
    assert len(open_dense(tmp_path / "above", task="normals").train) > 10
    with pytest.raises(DataError, match=r"20 of 20 images in .*below have no map of depth of the same name, such as"):
        open_dense(tmp_path / "below", task="depth")


def test_one_folder_is_split_by_names_as_a_folder_of_classes_is(rooms: Path, tmp_path: Path) -> None:
    for number in range(40):
        put(tmp_path / "flat" / "images" / f"{number}.png")
        put(tmp_path / "flat" / "depth" / f"{number}.npy", RAMP + float(number))
        put(tmp_path / "other" / "images" / f"{number}.png")
        put(tmp_path / "other" / "more" / f"{number}.png")
    dense = open_dense(tmp_path / "flat", task="depth", val_share=0.4, seed=3)
    labelled = open_images(tmp_path / "other", val_share=0.4, seed=3)
    assert dense.val.images.names == [name for name in labelled.val.names if name.startswith("images")]
    for part in (dense.train, dense.val):
        for name, (values, _) in zip(part.images.names, part.maps, strict=True):
            assert values[0, 0, 0] == 1 + int(Path(name).stem)
    with pytest.raises(DataError, match="leaves the validation part without an image; take another share"):
        open_dense(tmp_path / "flat", task="depth", val_share=1e-9)
    with pytest.raises(DataError, match="validation share of 2; expected above 0 and below 1"):
        open_dense(tmp_path / "flat", task="depth", val_share=2)


def test_a_changed_map_has_another_fingerprint_even_if_its_size_is_the_same(rooms: Path, tmp_path: Path) -> None:
    before = open_dense(rooms, task="depth")
    shutil.copytree(rooms, tmp_path / "copy")
    assert open_dense(tmp_path / "copy", task="depth", name="x").train.fingerprint == before.train.fingerprint
    assert open_dense(rooms, task="normals").train.fingerprint != before.train.fingerprint
    put(rooms / "train" / "depth" / "1.png", np.full((HEIGHT, WIDTH), 9, np.uint16))
    changed = open_dense(rooms, task="depth")
    assert changed.train.fingerprint != before.train.fingerprint
    assert changed.train.images.fingerprint == before.train.images.fingerprint
    assert changed.val.fingerprint == before.val.fingerprint
    (rooms / "train" / "depth" / "1.png").unlink()
    found = set()
    for scale in (1.0, 2.0):
        put(rooms / "train" / "depth" / "1.npy", RAMP * scale)
        found.add(open_dense(rooms, task="depth").train.fingerprint)
    assert len(found) == 2


def test_an_image_without_a_map_and_a_map_without_an_image_are_named(rooms: Path) -> None:
    for number in (1, 2):
        (rooms / "train" / "depth" / f"{number}.png").unlink()
    with pytest.raises(DataError, match=r"2 of 3 images in .*train have no map of depth .*'images/1.jpg', 'images/2"):
        open_dense(rooms, task="depth")
    for number in (1, 2):
        (rooms / "train" / "images" / f"{number}.jpg").unlink()
    with pytest.raises(DataError, match=r"2 of 3 maps of normals in .* have no image .*'normals/1.png', 'normals/2"):
        open_dense(rooms, task="normals")
    assert len(open_dense(rooms, task="depth").train) == 1


def test_a_task_without_maps_is_refused_with_what_there_is(rooms: Path, tmp_path: Path) -> None:
    for part in ("train", "val"):
        shutil.rmtree(rooms / part / "depth")
    with pytest.raises(DataError, match=r"train holds no maps of depth, but maps of normals in normals/; expected dep"):
        open_dense(rooms, task="depth")
    put(tmp_path / "labelled" / "cat" / "1.png")
    with pytest.raises(DataError, match=r"labelled holds no image in a folder images/ or rgb/; expected images/NAME"):
        open_dense(tmp_path / "labelled", task="depth")
    put(tmp_path / "bare" / "rgb" / "1.png")
    with pytest.raises(DataError, match="no maps of normals, but images without any map; expected normals/ or normal/"):
        open_dense(tmp_path / "bare", task="normals")
    shutil.rmtree(rooms / "val")
    with pytest.raises(DataError, match="has train/ but none of val/, validation/, test/"):
        open_dense(rooms, task="normals")


def test_folders_whose_meaning_is_not_clear_are_refused(rooms: Path, tmp_path: Path) -> None:
    shutil.copytree(rooms / "val" / "depth", rooms / "val" / "depth_euclidean")
    with pytest.raises(DataError, match=r"holds depth in depth/ and in depth_euclidean/; expected one of them"):
        open_dense(rooms, task="depth")
    shutil.rmtree(rooms / "val" / "depth")
    with pytest.raises(DataError, match=r"train has depth/ and .*val has depth_euclidean/; expected one kind of depth"):
        open_dense(rooms, task="depth")
    for kind in ("images", "normals"):
        for part in ("train", "val"):
            shutil.copytree(rooms / part / kind, tmp_path / "turned" / kind / part)
    with pytest.raises(DataError, match=r"images holds train/ and a part .* expected these above it, as train/images/"):
        open_dense(tmp_path / "turned", task="normals")
    shutil.rmtree(rooms / "val")
    shutil.copytree(rooms / "train", rooms / "val")
    with pytest.raises(DataError, match="are the same 3 images"):
        open_dense(rooms, task="normals")


def test_names_that_are_not_one_pair_are_refused(rooms: Path) -> None:
    put(rooms / "train" / "images" / "0.png")
    with pytest.raises(DataError, match=r"'images/0.jpg' and 'images/0.png' in .* would both be the image of '0'"):
        open_dense(rooms, task="depth")
    (rooms / "train" / "images" / "0.png").unlink()
    put(rooms / "train" / "normals" / "0.npy", np.ones((HEIGHT, WIDTH, 3)))
    with pytest.raises(DataError, match="would both be the map of '0'; expected one: rename or remove the other"):
        open_dense(rooms, task="normals")
    put(rooms / "val" / "depth" / "7.jpg")
    with pytest.raises(DataError, match=r"7\.jpg ends in \.jpg; expected one of .*\.png: convert it without loss"):
        open_dense(rooms, task="depth")
    (rooms / "val" / "depth" / "7.jpg").unlink()
    for name in ("a", "A"):
        put(rooms / "val" / "images" / f"{name}.jpg")
        put(rooms / "val" / "depth" / f"{name}.png", RAMP.astype(np.uint8))
    if (rooms / "val" / "images" / "A.jpg").samefile(rooms / "val" / "images" / "a.jpg"):
        assert len(open_dense(rooms, task="depth").val) == 3  # a disk that takes them for one cannot hold both
    else:
        with pytest.raises(DataError, match="differ only by case"):
            open_dense(rooms, task="depth")


def test_links_are_followed_loops_end_and_a_folder_in_two_parts_is_refused(rooms: Path) -> None:
    (rooms / "train" / "images" / "again").symlink_to(".", target_is_directory=True)
    (rooms / "train" / "up").symlink_to(".", target_is_directory=True)
    (rooms / "train" / "images" / ".hidden.jpg").write_text("x")
    (rooms / "train" / "depth" / "notes.txt").write_text("x")
    assert len(open_dense(rooms, task="depth").train) == 3
    shutil.rmtree(rooms / "val" / "images")
    (rooms / "val" / "images").symlink_to(rooms / "train" / "images", target_is_directory=True)
    with pytest.raises(DataError, match=r"is one with a folder of 'train images', by a link"):
        open_dense(rooms, task="depth")


def test_a_damaged_image_is_corrupt_with_or_without_its_map(rooms: Path) -> None:
    (rooms / "val" / "images" / "1.jpg").write_bytes(b"this is no image")
    part = open_dense(rooms, task="depth").val
    for ask in (lambda: part.images[1], lambda: part.maps[1]):
        with pytest.raises(CorruptImage, match=r"'images/1.jpg' of 'rooms' cannot be read .* or remove it and its map"):
            ask()
    assert part.images[0][1] == 0


@pytest.mark.parametrize("how", ["text", "gone", "size", "nothing"])
def test_a_map_that_is_wrong_is_named_when_it_is_read_and_the_others_are_not_touched(rooms: Path, how: str) -> None:
    file = rooms / "val" / "depth" / "1.png"
    maps = open_dense(rooms, task="depth").val.maps
    if how == "text":
        file.write_text("this is no map")
    elif how == "gone":
        file.unlink()
    else:
        put(file, np.zeros((HEIGHT, WIDTH), np.uint16) if how == "nothing" else RAMP.T.astype(np.uint16))
    words = {
        "size": r"is 4 x 6 px and its image 'images/1\.jpg' is 6 x 4 px; expected the same width and height",
        "nothing": "has no valid pixel",
    }.get(how, r"cannot be read \(.+\); restore it, or remove it and its image")
    with pytest.raises(DataError, match=rf"^The depth map 'depth/1\.png' of 'rooms' {words}"):
        maps[1]
    assert maps[0][1].all()
