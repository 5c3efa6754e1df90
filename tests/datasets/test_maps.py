"""Files of maps: what is a value, what is missing, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zoo.datasets.dense_folders import read_map
from zoo.errors import DataError

HEIGHT, WIDTH = 4, 6
RAMP = np.arange(1, HEIGHT * WIDTH + 1).reshape(HEIGHT, WIDTH)
VECTORS = np.random.default_rng(0).normal(size=(HEIGHT, WIDTH, 3))


def put(path: Path, stored: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, stored)
    elif path.suffix == ".npz":
        np.savez_compressed(path, stored)
    else:
        Image.fromarray(stored).save(path)
    return path


def read(path: Path, task: str) -> tuple[np.ndarray, np.ndarray]:
    values, valid = read_map(str(path), task=task, shown=f"The map {path.name!r}")
    assert values.dtype == np.float32 and valid.dtype == np.bool_
    assert values.shape == (*valid.shape, 1 if task == "depth" else 3)
    assert np.isfinite(values).all() and not values[~valid].any()
    return values, valid


@pytest.mark.parametrize("ending", ["png", "PNG", "npy", "npz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_whole_numbers_are_depth_but_for_zero_and_the_largest(tmp_path: Path, dtype: type, ending: str) -> None:
    stored = RAMP.astype(dtype)
    stored[0, :3] = 0, np.iinfo(dtype).max, np.iinfo(dtype).max - 1
    values, valid = read(put(tmp_path / f"0.{ending}", stored), "depth")
    assert np.flatnonzero(~valid).tolist() == [0, 1]
    np.testing.assert_array_equal(values[:, :, 0], np.where(valid, stored, 0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.filterwarnings("error")
def test_floating_point_is_depth_where_it_is_finite(tmp_path: Path, ending: str, dtype: type | str) -> None:
    stored = (RAMP / 8).astype(dtype)
    stored[1, :3] = np.nan, np.inf, -np.inf
    stored[0, 0] = 0
    missing = [6, 7, 8]
    if dtype is np.float64:
        stored[2, 0] = 1e300  # is infinite as float32
        missing.append(12)
    channel = stored[:, :, None] if dtype is np.float16 else stored
    values, valid = read(put(tmp_path / f"0.{ending}", channel), "depth")
    assert np.flatnonzero(~valid).tolist() == missing
    np.testing.assert_array_equal(values[valid][:, 0], stored[valid])


@pytest.mark.parametrize("ending", ["png", "npy"])
def test_colours_are_directions_but_for_black_and_grey(tmp_path: Path, ending: str) -> None:
    stored = np.full((HEIGHT, WIDTH, 3), (128, 128, 255), np.uint8)
    stored[0, :4] = (0, 0, 0), (128, 127, 128), (255, 128, 128), (128, 0, 128)
    values, valid = read(put(tmp_path / f"0.{ending}", stored), "normals")
    assert np.flatnonzero(~valid).tolist() == [0, 1]
    np.testing.assert_allclose(values[0, 2:5], [(1, 0, 0), (0, -1, 0), (0, 0, 1)], atol=0.006)
    np.testing.assert_allclose(np.linalg.norm(values[valid], axis=1), 1, atol=1e-6)


def test_directions_stored_as_colours_come_back_within_the_step_of_eight_bits(tmp_path: Path) -> None:
    directions = VECTORS / np.linalg.norm(VECTORS, axis=2, keepdims=True)
    stored = np.rint((directions + 1) / 2 * 255).astype(np.uint8)
    values, valid = read(put(tmp_path / "0.png", stored), "normals")
    assert valid.all()
    np.testing.assert_allclose(values, directions, atol=2 / 255)


@pytest.mark.filterwarnings("error")
def test_vectors_become_directions_but_for_short_ones(tmp_path: Path) -> None:
    stored = VECTORS.copy()
    stored[0, :4] = (np.nan, 0, 1), (0, 0, 0), (0.05, 0.05, 0.05), (0, 1e200, 0)
    values, valid = read(put(tmp_path / "0.npy", stored), "normals")
    assert np.flatnonzero(~valid).tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(values[valid], stored[valid] / np.linalg.norm(stored[valid], axis=1)[:, None], rtol=1e-6)


def test_of_several_arrays_the_one_named_for_the_task_is_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", confidence=RAMP, depth=RAMP / 2, normals=VECTORS)
    np.testing.assert_array_equal(read(tmp_path / "0.npz", "depth")[0][:, :, 0], RAMP / 2)
    assert read(tmp_path / "0.npz", "normals")[1].all()
    np.savez(tmp_path / "0.npz", a=RAMP, b=RAMP)
    with pytest.raises(DataError, match=r"'0.npz' holds a, b; expected one array, or one of them named 'depth'"):
        read(tmp_path / "0.npz", "depth")


@pytest.mark.parametrize(
    ("task", "ending", "stored", "words"),
    [
        ("depth", "png", np.ones((4, 6, 3), np.uint8), r"has 3 channels \(mode RGB\); expected one, grey of 8 or 16"),
        ("depth", "png", np.ones((4, 6), bool), r"has 1 channel \(mode 1\); expected one, grey of 8 or 16 bits"),
        ("normals", "png", np.ones((4, 6), np.uint8), r"has 1 channel \(mode L\); expected RGB of 8 bits"),
        ("normals", "png", np.ones((4, 6, 4), np.uint8), r"has 4 channels \(mode RGBA\); expected RGB of 8 bits"),
        ("depth", "npy", np.ones((4, 6, 2)), r"is float64 of shape \(4, 6, 2\); expected floating point or whole"),
        ("depth", "npy", np.ones((1, 4, 6)), r"move the channels to the end with \.transpose\(1, 2, 0\)"),
        ("normals", "npz", np.ones((3, 4, 6)), r"of shape \(height, width, 3\); move the channels to the end"),
        ("normals", "npy", np.ones((4, 6, 3), int), r"is int64 of shape .* expected floating point or uint8"),
        ("depth", "npy", np.ones((4, 6), complex), "is complex128 of shape"),
        ("depth", "npy", np.ones((0, 6)), r"of shape \(0, 6\)"),
        ("depth", "png", np.zeros((4, 6), np.uint16), "has no valid pixel, for all are 0, the largest of its type"),
        ("depth", "npz", np.full((4, 6), np.nan), "has no valid pixel"),
        ("normals", "png", np.zeros((4, 6, 3), np.uint8), "has no valid pixel, for all are black"),
    ],
)
def test_another_content_is_refused_by_name(
    tmp_path: Path, task: str, ending: str, stored: np.ndarray, words: str
) -> None:
    with pytest.raises(DataError, match=rf"^The map '0\.{ending}' .*{words}"):
        read(put(tmp_path / f"0.{ending}", stored), task)


@pytest.mark.parametrize("how", ["empty", "text", "cut", "objects", "member", "gone", "other"])
@pytest.mark.parametrize("ending", ["png", "npy", "npz"])
@pytest.mark.filterwarnings("error")
def test_a_damaged_file_is_named(tmp_path: Path, ending: str, how: str) -> None:
    file = put(tmp_path / f"0.{ending}", RAMP.astype(np.uint16))
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-60])
    elif how == "objects":
        with open(file, "wb") as opened:
            np.save(opened, np.array([{}, None]), allow_pickle=True)
    elif how == "member":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("depth", b"no array")
    elif how == "gone":
        file.unlink()
    elif how == "other":
        Image.new("L", (WIDTH, HEIGHT), 5).save(file, format="JPEG")
    else:
        file.write_bytes(b"" if how == "empty" else b"this is no map")
    with pytest.raises(DataError, match=rf"^The map '0\.{ending}' cannot be read \(.+\); restore it, or remove it and"):
        read(file, "depth")


def test_whatever_bytes_are_flipped_a_file_is_read_or_refused(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for ending in ("png", "npy", "npz"):
        file = put(tmp_path / f"0.{ending}", RAMP.astype(np.uint16))
        whole, n_refused = file.read_bytes(), 0
        for _ in range(150):
            content = np.frombuffer(whole, np.uint8).copy()
            content[generator.integers(0, len(content), 3)] = generator.integers(0, 256, 3)
            file.write_bytes(content.tobytes())
            try:
                read(file, "depth")
            except DataError as error:
                assert str(error).startswith(f"The map '0.{ending}' ")
                n_refused += 1
        assert n_refused > 20


def test_a_file_that_claims_to_be_huge_is_refused_and_not_read(tmp_path: Path) -> None:
    file = put(tmp_path / "0.npy", RAMP)
    claim = b"(40000000, 60000000), }"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"(4, 6), }".ljust(len(claim)), claim))
    assert file.read_bytes() != content and file.stat().st_size == len(content)
    with pytest.raises(DataError, match=r"^The map '0.npy' cannot be read"):
        read(file, "depth")
