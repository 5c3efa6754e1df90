"""The run that sees no image: each metric has the constant that is best for it, and risks are those of the test set."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.evaluation.curves.curve_training import same, small_data, small_preprocess
from zoo.datasets.dense import Maps, MapSet, aligned
from zoo.errors import DataError
from zoo.evaluation.curves.blind import pixelwise_direction
from zoo.evaluation.curves.inputs import TransferData
from zoo.evaluation.curves.tuning import Trained, blind_run

PREPROCESS = small_preprocess()
ALL = np.arange(60)


def blind(task: str, *, train: np.ndarray = ALL, memory_bytes: int = 1 << 24) -> Trained:
    return blind_run(small_data(task), PREPROCESS, train=train, memory_bytes=memory_bytes)


def maps_of(part: object, indices: np.ndarray) -> np.ndarray:
    assert isinstance(part, MapSet)
    return np.stack([aligned(*part.maps[int(index)], PREPROCESS)[0] for index in indices])  # (n, c, px, px)


def test_the_guess_of_a_class_is_the_most_frequent_one() -> None:
    data = small_data("classification")
    train = np.flatnonzero(np.isin(data.train.labels, [1, 3]))[:9]  # type: ignore[union-attr]
    guess = np.bincount(data.train.labels[train]).argmax()  # type: ignore[union-attr]
    run = blind("classification", train=train)
    expected = 100.0 * (data.test.labels != guess)  # type: ignore[union-attr]
    np.testing.assert_array_equal(run.risks["transfer_error"], expected)
    assert run.risks["transfer_error"].dtype == np.float32
    assert run.examples is None
    name = repr(data.train.classes[guess])  # type: ignore[union-attr]
    assert name in run.report["constants"]["transfer_error"]


def test_the_guess_of_depths_is_the_median_of_every_pixel() -> None:
    data, train = small_data("depth"), np.arange(31)
    median = np.median(maps_of(data.train, train), axis=0)
    run = blind("depth", train=train)
    wrong = np.abs(maps_of(data.test, np.arange(24)) - median).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(run.risks["depth_l1_error"], wrong, rtol=1e-5)
    assert run.examples is not None
    assert run.examples.dtype == np.float16
    np.testing.assert_array_equal(run.examples, np.repeat(median[None].astype(np.float16), 8, axis=0))
    assert run.report["constants"] == {"depth_l1_error": "the pixel-wise median of the 31 training images"}


def test_each_metric_of_normals_has_its_own_constant() -> None:
    data = small_data("normals")
    train, test = maps_of(data.train, ALL), maps_of(data.test, np.arange(24))
    run = blind("normals")
    wrong = np.abs(test - np.median(train, axis=0)).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(run.risks["normals_l1_error"], wrong, rtol=1e-4)
    direction = pixelwise_direction(train, None)
    cosine = np.clip((test * direction).sum(axis=1), -1, 1)
    degrees = np.degrees(np.arccos(cosine)).mean(axis=(1, 2))
    np.testing.assert_allclose(run.risks["normals_angular_error"], degrees, rtol=1e-2)
    assert "direction" in run.report["constants"]["normals_angular_error"]


def test_maps_that_do_not_fit_are_left_out_evenly_and_the_report_says_so() -> None:
    room = 20 * 16 * 16 * 5 + 7
    run = blind("depth", memory_bytes=room)
    spread = np.linspace(0, 59, 20).astype(np.int64)
    assert run.report["constants"]["depth_l1_error"].endswith("of 20 evenly spaced of the 60 training images")
    assert run.report["n_images"] == 20
    np.testing.assert_array_equal(run.risks["depth_l1_error"], blind("depth", train=spread).risks["depth_l1_error"])


def test_the_order_of_the_images_does_not_matter() -> None:
    assert same(blind("normals"), blind("normals", train=ALL[::-1].copy()))


def _flat(read: object, number: int) -> tuple[np.ndarray, np.ndarray]:
    values, valid = read(number)  # type: ignore[operator]
    return np.full_like(values, 3.0), valid


def test_targets_that_are_all_the_same_are_refused() -> None:
    with pytest.raises(DataError, match="All 10 labels are the class 0"):
        blind("classification", train=np.flatnonzero(small_data("classification").train.labels == 0)[:10])  # type: ignore[union-attr]
    data = small_data("depth")
    assert isinstance(data.train, MapSet)
    flat = replace(data.train, maps=Maps(partial(_flat, data.train.maps.read), data.train.maps.indices))
    with pytest.raises(DataError, match="All 60 maps are equal wherever they are valid"):
        blind_run(TransferData("flat", data.task, flat, data.test), PREPROCESS, train=ALL, memory_bytes=1 << 24)


def test_no_image_at_all_is_refused() -> None:
    with pytest.raises(DataError, match="no training image"):
        blind("depth", train=np.empty(0, np.int64))
