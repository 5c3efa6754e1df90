"""Images with maps: the same places after preprocessing, subsets, the rendered set, and what has no maps."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from torchvision import transforms

from zoo.cards.schema import Preprocess
from zoo.datasets import geometry, open_images, pixels_of, shapes
from zoo.datasets.dense import DenseData, Maps, MapSet, aligned, with_geometry
from zoo.datasets.opening import DENSE_KINDS, open_dense
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import DataError, QueryError, UnknownName

SMALL = "shapes:classes=4,train=12,val=8,size_px=16"
GEOMETRIES = [  # height, width, resize_px, crop_px
    (32, 32, 32, 32),  # nothing happens
    (48, 64, 24, 24),  # down by whole numbers
    (47, 61, 25, 21),  # odd, and what is cropped is odd and even
    (61, 47, 20, 15),
    (40, 40, 33, 20),
    (20, 30, 50, 44),  # up
    (21, 13, 40, 37),
    (97, 31, 32, 27),
    (31, 97, 20, 28),  # padded above and below, cropped left and right
    (30, 30, 20, 28),  # padded all around
    (15, 17, 20, 25),  # padded by an odd number
    (33, 20, 12, 19),
]


def about(resize_px: int, crop_px: int, interpolation: str = "bilinear") -> Preprocess:
    return Preprocess(resize_px=resize_px, crop_px=crop_px, interpolation=interpolation, mean=(0, 0, 0), std=(1, 1, 1))


def coordinates(height: int, width: int) -> tuple[Image.Image, np.ndarray]:
    """An image whose red is twice its column and whose green is twice its row, and the same as a map."""
    rows, columns = np.mgrid[:height, :width]
    pixels = np.stack([2 * columns, 2 * rows, np.zeros_like(rows)], axis=2).astype(np.uint8)
    return Image.fromarray(pixels), np.stack([columns, rows], axis=2).astype(np.float32)


@pytest.mark.parametrize("sizes", GEOMETRIES, ids=str)
def test_a_map_goes_exactly_where_torchvision_puts_the_pixels_of_the_image(sizes: tuple[int, int, int, int]) -> None:
    height, width, resize_px, crop_px = sizes
    image, places = coordinates(height, width)
    nearest = transforms.Compose(
        [
            transforms.Resize(resize_px, interpolation=transforms.InterpolationMode.NEAREST_EXACT),
            transforms.CenterCrop(crop_px),
        ]
    )
    expected = np.asarray(nearest(image)).astype(np.float32)[:, :, :2] / 2  # (px, px, 2); 0 in the padding
    found, valid = aligned(places, np.ones((height, width), bool), about(resize_px, crop_px))
    assert found.shape == (2, crop_px, crop_px) and found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    assert not found[:, ~valid].any()


@pytest.mark.parametrize("sizes", [(48, 64, 24, 24), (47, 61, 25, 21), (97, 31, 20, 28)], ids=str)
def test_a_map_is_squashed_as_torchvision_squashes_the_image(sizes: tuple[int, int, int, int]) -> None:
    height, width, resize_px, crop_px = sizes
    image, places = coordinates(height, width)
    nearest = transforms.Compose(
        [
            transforms.Resize((resize_px, resize_px), interpolation=transforms.InterpolationMode.NEAREST),
            transforms.CenterCrop(crop_px),
        ]
    )
    expected = np.asarray(nearest(image)).astype(np.float32)[:, :, :2] / 2
    squashed = replace(about(resize_px, crop_px), fit="squash")
    found, valid = aligned(places, np.ones((height, width), bool), squashed)
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    assert valid.all() == (resize_px >= crop_px)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("sizes", GEOMETRIES, ids=str)
def test_what_the_encoder_sees_at_a_pixel_is_what_its_map_tells_of(
    sizes: tuple[int, int, int, int], interpolation: str
) -> None:
    height, width, resize_px, crop_px = sizes
    image, places = coordinates(height, width)
    seen = build_preprocess(about(resize_px, crop_px, interpolation))(image).numpy()[:2] * 255 / 2  # (2, px, px)
    found, valid = aligned(places, np.ones((height, width), bool), about(resize_px, crop_px))
    white = Image.new("RGB", (width, height), "white")
    padded = build_preprocess(about(resize_px, crop_px, interpolation))(white).numpy()[0] < 0.5
    np.testing.assert_array_equal(valid, ~padded)
    assert padded.any() == (resize_px < crop_px)
    apart = (seen - found)[:, valid]
    step = min(height, width) / resize_px  # pixels of the image from one pixel of the input to the next
    assert np.abs(apart).max() < 0.5 + 0.25 + 0.15 * step  # the nearest one, eight bits, and the border of the image
    inner = (found > step) & (found < np.array([width, height])[:, None, None] - 1 - step) & valid
    bias = (seen - found)[inner].mean()  # an even whole number has no middle pixel
    assert abs(bias) < 0.2 or (bias == pytest.approx(-0.5, abs=0.1) and step == 2)


def test_a_map_has_no_value_that_is_not_in_it_and_directions_keep_their_length() -> None:
    generator = np.random.default_rng(0)
    normals = generator.normal(size=(37, 53, 3)).astype(np.float32)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    for resize_px in (20, 80):
        found, valid = aligned(normals, np.ones((37, 53), bool), about(resize_px, 18))
        assert {tuple(row) for row in found.reshape(3, -1).T} <= {tuple(row) for row in normals.reshape(-1, 3)}
        assert valid.all()
        np.testing.assert_allclose(np.linalg.norm(found, axis=0), 1, atol=1e-6)


def test_missing_pixels_stay_missing_and_their_values_do_not_get_out() -> None:
    values, valid = np.full((8, 8, 1), np.nan), np.zeros((8, 8), bool)
    values[2:4, 2:6], valid[2:4, 2:6] = 5.0, True
    found, found_valid = aligned(values, valid, about(16, 16))
    assert found_valid.sum() == 4 * 8 and set(np.unique(found).tolist()) == {0.0, 5.0}
    np.testing.assert_array_equal(found[0] == 5, found_valid)


def test_a_map_of_other_shape_than_its_valid_pixels_is_refused() -> None:
    with pytest.raises(DataError, match=r"values of shape \(8, 8\) .* expected \(height, width, channels\)"):
        aligned(np.zeros((8, 8)), np.ones((8, 8), bool), about(8, 8))
    with pytest.raises(DataError, match="valid pixels as float64"):
        aligned(np.zeros((8, 8, 1)), np.ones((8, 8)), about(8, 8))


@pytest.mark.parametrize("task", ["depth", "normals"])
def test_the_rendered_set_comes_with_its_exact_geometry(task: str) -> None:
    data, labelled = open_dense(SMALL, task=task), open_images(SMALL)
    assert (data.name, data.task, len(data.train), len(data.val)) == (labelled.name, task, 12, 8)
    assert data.train.unit == {"depth": "half widths of the image", "normals": "unit vectors"}[task]
    for part, with_labels in ((data.train, labelled.train), (data.val, labelled.val)):
        assert (part.name, part.split) == (with_labels.name, with_labels.split)
        np.testing.assert_array_equal(pixels_of(part.images), pixels_of(with_labels))
        assert part.images.names == with_labels.names and part.images.classes == ("image",)
        assert not part.images.labels.any()
        for i, (values, valid) in enumerate(part.maps):
            exact = geometry(with_labels, i)
            expected = exact.depth[:, :, None] if task == "depth" else exact.normals
            np.testing.assert_array_equal(values, expected)
            assert values.dtype == np.float32 and valid.dtype == bool and valid.shape == (16, 16) and valid.all()


def test_a_map_is_the_same_when_it_is_asked_for_again_and_nobody_can_write_to_it() -> None:
    maps = open_dense(SMALL, task="depth").train.maps
    first, again = maps[3][0], maps[3][0]
    np.testing.assert_array_equal(first, again)
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0, 0] = 1


def test_what_stays_in_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[object, np.ndarray] = {}
    monkeypatch.setattr("zoo.datasets.dense._computed", kept)
    monkeypatch.setattr("zoo.datasets.rendering.CACHE_BYTES", 5 * 16 * 16 * 4)
    maps = open_dense(SMALL, task="depth").train.maps
    values = [values for values, _ in maps]
    assert len(kept) == 5
    np.testing.assert_array_equal(values, [values for values, _ in maps])


@pytest.mark.parametrize("task", ["depth", "normals"])
def test_maps_survive_pickling_for_the_workers_of_a_loader(task: str) -> None:
    part = open_dense(SMALL, task=task).val
    copied = pickle.loads(pickle.dumps(part))
    assert copied.fingerprint == part.fingerprint
    np.testing.assert_array_equal(copied.maps[5][0], part.maps[5][0])


def test_a_subset_has_its_own_maps_in_its_order_and_the_whole_keeps_its_fingerprint() -> None:
    part = open_dense(SMALL, task="normals").train
    few = part.subset([7, 2], split="train 2 images")
    assert (len(few), few.split, few.images.names) == (2, "train 2 images", ["train/7", "train/2"])
    np.testing.assert_array_equal(few.maps[0][0], part.maps[7][0])
    np.testing.assert_array_equal(few.subset([1], split="one").maps[0][0], part.maps[2][0])
    assert part.subset(np.arange(12), split="train").fingerprint == part.fingerprint
    assert len({part.fingerprint, few.fingerprint, part.subset([2, 7], split="train").fingerprint}) == 3
    with pytest.raises(DataError, match="asks for an image twice"):
        part.subset([1, 1], split="train")
    with pytest.raises(DataError, match="asks for the images 0 to 12; expected 0 to 11"):
        part.subset([0, 12], split="train")


def test_a_fingerprint_is_of_the_task_the_images_and_the_split() -> None:
    sets = [open_dense(spec, task=task) for spec in (SMALL, f"{SMALL},seed=1") for task in ("depth", "normals")]
    fingerprints = [part.fingerprint for data in sets for part in (data.train, data.val)]
    labelled = open_images(SMALL).train
    assert len({*fingerprints, labelled.fingerprint, sets[0].train.images.fingerprint}) == 10
    renamed = open_dense(SMALL, task="depth", name="mine")
    assert (renamed.name, renamed.val.name) == ("mine", "mine")
    assert renamed.train.fingerprint == fingerprints[0]


@pytest.mark.parametrize("spec", ["digits", "torchvision:CIFAR10:/data", "huggingface:/data", "x.npz", "nowhere"])
def test_a_source_without_maps_is_refused_with_those_that_have_some(spec: str) -> None:
    with pytest.raises(UnknownName, match=f"no image set with maps of depth named {spec!r}") as caught:
        open_dense(spec, task="depth")
    assert all(f"{kind} (" in str(caught.value) for kind in DENSE_KINDS)


def test_a_wrongly_written_request_is_refused() -> None:
    with pytest.raises(QueryError, match="expected OPTION=NUMBER"):
        open_dense("shapes:colour=3", task="depth")
    with pytest.raises(UnknownName, match="no task with maps named 'dept'; did you mean depth"):
        open_dense("shapes", task="dept")
    with pytest.raises(UnknownName, match="Expected depth or normals"):
        open_dense(SMALL, task="classification")


def test_images_that_were_not_rendered_have_no_geometry() -> None:
    with pytest.raises(DataError, match="only the rendered set 'shapes' computes them"):
        with_geometry(open_images("digits"), task="depth")


def test_parts_that_do_not_fit_each_other_are_refused() -> None:
    data, normals = open_dense(SMALL, task="depth"), open_dense(SMALL, task="normals")
    with pytest.raises(DataError, match="the same 12 images"):
        DenseData("x", "depth", data.train, data.train)
    with pytest.raises(DataError, match=r"'val' of 'x' has maps of normals, unit vectors; expected depth, half"):
        DenseData("x", "depth", data.train, normals.val)
    with pytest.raises(DataError, match="'none' of 'x' holds no image"):
        DenseData("x", "depth", data.train, data.val.subset([], split="none"))
    with pytest.raises(DataError, match="has 12 images and 8 maps of depth; expected a map an image"):
        replace(data.train, maps=data.val.maps)
    with pytest.raises(UnknownName, match="no task with maps"):
        MapSet(data.train.images, data.train.maps, "edges", "", "0")


def test_maps_are_read_by_the_numbers_of_their_images() -> None:
    maps = Maps(lambda number: (np.full((1, 1, 1), number, np.float32), np.ones((1, 1), bool)), np.array([4, 2]))
    assert len(maps) == 2 and [values.item() for values, _ in maps] == [4, 2]
    assert maps[1][0].item() == 2


def test_an_image_of_the_rendered_set_is_found_again_by_its_scene() -> None:
    part = with_geometry(shapes(train=20, val=20), task="depth").train.subset([9, 4], split="two")
    np.testing.assert_array_equal(geometry(part.images, 0).depth, part.maps[0][0][:, :, 0])
