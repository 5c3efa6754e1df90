"""Blind guesses: each metric has the constant that is best for it, and their risks are those of the test set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.evaluation.curves.curve_training import small_data, small_preprocess
from zoo.datasets.dense import MapSet, align_map
from zoo.errors import DataError
from zoo.evaluation.curves.calibration import (
    find_least_angle_directions,
    majority_class,
    pixelwise_direction,
    pixelwise_median,
)
from zoo.evaluation.curves.training import TransferResult, run_constant_baseline

X, Y, Z = np.eye(3)


def units(random: Any, *shape: int) -> Any:
    found = random.normal(size=(*shape, 3))
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def mean_angle(direction: Any, given: Any) -> float:
    sine = np.linalg.norm(np.cross(given, direction), axis=-1)
    return float(np.arctan2(sine, given @ direction).mean())


def least_angle_by_search(given: Any, seed: int) -> float:
    """Of scipy's search on the sphere from several starts, the given directions among them."""

    def cost(polar: Any) -> float:
        theta, phi = polar
        return mean_angle(np.array([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)]), given)

    starts = np.concatenate([units(np.random.default_rng(seed), 6), given[:6]])
    polars = [(np.arccos(np.clip(z, -1, 1)), np.arctan2(y, x)) for x, y, z in starts]
    options = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 200}
    searched = [minimize(cost, polar, method="Nelder-Mead", options=options).fun for polar in polars]
    return min(*searched, *(mean_angle(each, given) for each in given))


def as_maps(given: Any) -> Any:
    """Directions of one pixel, shape (n, 3), as maps."""
    return np.asarray(given)[:, :, None, None]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_the_median_is_of_valid_pixels_alone_and_in_blocks_as_at_once(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(8)
    maps, valid = (20 * random.random((8, 2, 6, 5))).astype(dtype), random.random((8, 6, 5)) < 0.6
    valid[:, 1, 2] = False
    found = pixelwise_median(maps, valid)
    for channel, row, column in np.ndindex(2, 6, 5):
        values = maps[valid[:, row, column], channel, row, column].astype(float)
        expected = np.median(values) if len(values) else np.median(maps[:, channel][valid])
        assert found[channel, row, column] == expected
    spoiled = np.where(valid[:, None], maps, np.nan)
    directions = pixelwise_direction(spoiled[:, [0, 1, 0]] + 0.1, valid)
    monkeypatch.setattr("zoo.evaluation.curves.calibration._MOST_ANGLES", 200)
    monkeypatch.setattr("zoo.evaluation.curves.calibration._MOST_VALUES", 300)
    assert np.array_equal(pixelwise_median(spoiled, valid), found)
    assert np.allclose(pixelwise_direction(spoiled[:, [0, 1, 0]] + 0.1, valid), directions, atol=1e-12)


@pytest.mark.parametrize(
    "given",
    [
        *(units(np.random.default_rng(n), n) for n in (1, 2, 3, 5, 8, 13)),
        [X, -X, Y],
        [X, X, -X, Y],
        [X, Y, Z],
        [Z, Z, Z, -Z, -Z, X, Y],
        [X, -X, Y, -Y, Z, -Z, Z],
    ],
)
def test_no_direction_has_a_smaller_mean_angle(given: Any) -> None:
    given = np.array(given)
    _, found = find_least_angle_directions(given[None], np.ones((1, len(given)), dtype=bool))
    assert found[0] <= least_angle_by_search(given, len(given)) + 1e-8


def test_many_directions_are_as_easy_as_few_and_half_of_the_votes_win_exactly() -> None:
    random = np.random.default_rng(0)
    given = units(random, 3, 2000) + 0.8 * Z  # three places
    given /= np.linalg.norm(given, axis=-1, keepdims=True)
    valid = random.random((3, 2000)) < 0.9
    found, angles = find_least_angle_directions(given, valid)
    for place in range(3):
        near = found[place] + 0.01 * units(random, 50)
        own = given[place, valid[place]]
        assert angles[place] == pytest.approx(mean_angle(found[place], own))
        assert angles[place] <= min(mean_angle(each, own) for each in near / np.linalg.norm(near, axis=-1)[:, None])
    votes = as_maps([*units(random, 40), *[Z] * 41])
    assert np.array_equal(pixelwise_direction(votes).ravel(), Z)


def test_the_median_direction_turns_with_the_directions_and_knows_no_length() -> None:
    random = np.random.default_rng(0)
    given = units(random, 15) + 1.5 * Z
    rotation = np.linalg.qr(random.normal(size=(3, 3)))[0]
    found = pixelwise_direction(as_maps(given)).ravel()
    turned = as_maps(random.permutation(given * 10.0 ** random.integers(-20, 20, size=(15, 1))) @ rotation.T)
    assert np.allclose(pixelwise_direction(turned).ravel(), rotation @ found, atol=1e-6)


NOTHING = [np.ones((3, 3, 2, 2)), np.ones((3, 2, 2)), np.ones((0, 3, 2, 2)), np.full((2, 3, 1, 1), "a")]
BOTH = (pixelwise_median, pixelwise_direction)


@pytest.mark.parametrize(
    ("guess", "given", "valid"),
    [
        *((majority_class, labels, 5) for labels in ([], [4, 4, 4], [0, 5], [0.0, 1.0])),
        *((guess, maps, None) for guess in BOTH for maps in NOTHING),
        *((guess, np.ones((2, 3, 2, 2)), mask) for guess in BOTH for mask in (np.zeros((2, 2, 2), bool), np.ones(2))),
        *((guess, np.array([1.0, np.nan] * 6).reshape(2, 3, 2, 1), None) for guess in BOTH),
        *(
            (pixelwise_direction, maps, None)
            for maps in (as_maps([X, 0 * X]), as_maps([X, 2 * X]), np.ones((2, 1, 2, 2)))
        ),
    ],
)
def test_what_leaves_nothing_to_guess_is_refused(guess: Any, given: Any, valid: Any) -> None:
    with pytest.raises(DataError, match="expected"):
        guess(given, valid)


def blind(task: str, *, memory_bytes: int = 1 << 24) -> TransferResult:
    return run_constant_baseline(small_data(task), small_preprocess(), memory_bytes=memory_bytes)


def maps_of(part: object, indices: np.ndarray) -> np.ndarray:
    assert isinstance(part, MapSet)
    return np.stack([align_map(*part.maps[int(index)], small_preprocess())[0] for index in indices])  # (n, c, px, px)


def test_the_guess_of_a_class_is_the_most_frequent_one() -> None:
    data, run = small_data("classification"), blind("classification")
    guess = np.bincount(data.train.labels).argmax()  # type: ignore[union-attr]
    np.testing.assert_array_equal(run.risks["transfer_error"], 100.0 * (data.test.labels != guess))  # type: ignore[union-attr]
    assert repr(data.train.classes[guess]) in run.report["constants"]["transfer_error"]  # type: ignore[union-attr]


def test_the_guess_of_depths_is_the_median_of_every_pixel_of_the_maps_that_fit() -> None:
    data, spread = small_data("depth"), np.linspace(0, 59, 20).astype(np.int64)
    run = blind("depth", memory_bytes=20 * 16 * 16 * 5 + 7)
    median = np.median(maps_of(data.train, spread), axis=0)
    wrong = np.abs(maps_of(data.test, np.arange(24)) - median).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(run.risks["depth_l1_error"], wrong, rtol=1e-5)
    np.testing.assert_array_equal(run.examples, np.repeat(median[None].astype(np.float16), 8, axis=0))
    assert "20 evenly spaced of the 60" in run.report["constants"]["depth_l1_error"] and run.report["n_images"] == 20


def test_each_metric_of_normals_has_its_own_constant() -> None:
    data, run = small_data("normals"), blind("normals")
    train, test = maps_of(data.train, np.arange(60)), maps_of(data.test, np.arange(24))
    wrong = np.abs(test - np.median(train, axis=0)).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(run.risks["normals_l1_error"], wrong, rtol=1e-4)
    cosine = np.clip((test * pixelwise_direction(train)).sum(axis=1), -1, 1)
    degrees = np.degrees(np.arccos(cosine)).mean(axis=(1, 2))
    np.testing.assert_allclose(run.risks["normals_angular_error"], degrees, rtol=1e-2)
