"""Blind guesses equal the best constant that a search by brute force finds, masks and ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from zoo.errors import DataError
from zoo.evaluation.curves.blind import (
    directions_of_least_angle,
    majority_class,
    mean_target,
    pixelwise_direction,
    pixelwise_median,
)

X, Y, Z = np.eye(3)


def units(random: Any, *shape: int) -> Any:
    found = random.normal(size=(*shape, 3))
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def mean_angle(direction: Any, given: Any) -> float:
    sine = np.linalg.norm(np.cross(given, direction), axis=-1)
    return float(np.arctan2(sine, given @ direction).mean())


def least_angle_by_search(given: Any, seed: int) -> float:
    """Of scipy's search on the sphere from many starts, the given directions among them."""

    def cost(polar: Any) -> float:
        theta, phi = polar
        return mean_angle(np.array([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)]), given)

    starts = np.concatenate([units(np.random.default_rng(seed), 12), given[:12]])
    polars = [(np.arccos(np.clip(z, -1, 1)), np.arctan2(y, x)) for x, y, z in starts]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 400}
    searched = [minimize(cost, polar, method="Nelder-Mead", options=options).fun for polar in polars]
    return min(*searched, *(mean_angle(each, given) for each in given))


def as_maps(given: Any) -> Any:
    """Directions of one pixel, shape (n, 3), as maps."""
    return np.asarray(given)[:, :, None, None]


# classes


def test_no_class_errs_less_than_the_majority_class() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        n_classes = int(random.integers(2, 9))
        labels = np.append(random.integers(0, n_classes, int(random.integers(1, 30))), [0, 1])
        errors = [float(np.mean(labels != guess)) for guess in range(n_classes)]
        assert majority_class(labels, n_classes) == int(np.argmin(errors))


def test_of_equally_frequent_classes_the_first_is_guessed() -> None:
    assert majority_class(np.array([3, 1, 3, 1], dtype=np.uint8), 10) == 1


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([], r"shape \(0,\)"),
        ([4, 4, 4], "All 3 labels are the class 4, so that a guess without looking is never wrong"),
        ([0, 5], "run from 0 to 5; expected 0 to 4 with 5 classes"),
        ([-1, 2], "run from -1 to 2"),
        ([0.0, 1.0], "type float64; expected at least one whole number"),
        ([[0, 1]], r"shape \(1, 2\)"),
    ],
)
def test_labels_that_leave_nothing_to_guess_are_refused(labels: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        majority_class(labels, 5)


# squared and absolute error


def test_no_constant_has_a_lower_squared_error_than_the_mean() -> None:
    random = np.random.default_rng(0)
    targets = random.normal(size=(17, 3, 2)) * 10
    found = mean_target(targets)
    assert found.shape == (3, 2)
    for place in np.ndindex(3, 2):
        values = targets[:, *place]
        best = minimize(lambda guess, values=values: np.mean((values - guess) ** 2), 0.0).x[0]
        assert found[place] == pytest.approx(best, abs=1e-5)
        grid = np.linspace(values.min(), values.max(), 2001)
        assert np.mean((values - found[place]) ** 2) <= np.mean((values[:, None] - grid) ** 2, axis=0).min() + 1e-12


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ([2.0, 2.0], "All 2 targets are equal, so"),
        ([1.0], "There is one target"),
        (np.empty((0, 3)), "expected at least one"),
        ([1.0, np.nan], "The target is nan at position 1"),
    ],
)
def test_targets_that_leave_nothing_to_guess_are_refused(targets: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        mean_target(targets)


@pytest.mark.parametrize("n", [2, 5, 8, 31])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_no_constant_map_has_a_lower_absolute_error_than_the_median_of_the_valid_pixels(n: int, dtype: Any) -> None:
    random = np.random.default_rng(n)
    maps = (20 * random.random((n, 2, 6, 5))).astype(dtype)
    valid = random.random((n, 6, 5)) < 0.6
    valid[0] = True
    found = pixelwise_median(maps, valid)
    assert found.shape == (2, 6, 5)
    for channel, row, column in np.ndindex(2, 6, 5):
        values = maps[valid[:, row, column], channel, row, column].astype(float)
        by_candidate = np.abs(values[:, None] - values).mean(axis=0)
        own = np.abs(values - found[channel, row, column]).mean()
        assert own == pytest.approx(by_candidate.min(), abs=1e-12)
        assert found[channel, row, column] == np.median(values)


def test_what_is_not_valid_is_never_read_and_pixels_never_valid_get_the_median_of_all() -> None:
    random = np.random.default_rng(0)
    maps = random.normal(size=(9, 2, 4, 4))
    valid = random.random((9, 4, 4)) < 0.7
    valid[:, 1, 2] = False
    expected = pixelwise_median(maps, valid)
    spoiled = np.where(valid[:, None], maps, np.nan)
    assert np.array_equal(pixelwise_median(spoiled, valid), expected)
    for channel in range(2):
        assert expected[channel, 1, 2] == np.median(maps[:, channel][valid])
    normals = pixelwise_direction(np.where(valid[:, None], maps[:, [0, 1, 0]] + 0.1, np.inf), valid)
    assert np.allclose(np.linalg.norm(normals, axis=0), 1)


def test_maps_in_blocks_give_what_maps_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    maps, valid = random.normal(size=(12, 3, 7, 5)), random.random((12, 7, 5)) < 0.8
    before = pixelwise_median(maps, valid), pixelwise_direction(maps, valid)
    monkeypatch.setattr("zoo.evaluation.curves.blind._MOST_ANGLES", 200)
    monkeypatch.setattr("zoo.evaluation.curves.blind._MOST_VALUES", 300)
    assert np.array_equal(pixelwise_median(maps, valid), before[0])
    assert np.allclose(pixelwise_direction(maps, valid), before[1], atol=1e-12)


# directions


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("seed", range(3))
def test_no_direction_has_a_smaller_mean_angle_wherever_the_given_ones_lie_on_the_sphere(n: int, seed: int) -> None:
    random = np.random.default_rng(100 * n + seed)
    given = units(random, n)
    _, found = directions_of_least_angle(given[None], np.ones((1, n), dtype=bool))
    assert found[0] <= least_angle_by_search(given, seed) + 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_no_direction_has_a_smaller_mean_angle_among_normals_that_face_the_camera(seed: int) -> None:
    random = np.random.default_rng(seed)
    maps = units(random, 21, 1, 3).transpose(0, 3, 1, 2)  # (21, 3, 1, 3)
    maps[:, 2] = np.abs(maps[:, 2])
    valid = random.random((21, 1, 3)) < 0.7
    found = pixelwise_direction(maps, valid)
    assert np.allclose(np.linalg.norm(found, axis=0), 1)
    for column in range(3):
        given = maps[valid[:, 0, column], :, 0, column]
        assert mean_angle(found[:, 0, column], given) <= least_angle_by_search(given, seed) + 1e-8


@pytest.mark.parametrize(
    "given",
    [
        [X, -X],
        [X, -X, Y],
        [X, -X, Y, -Y],
        [X, X, -X, Y],
        [X, Y],
        [X, X, Y, Y],
        [X, Y, Z],
        [Z, Z, Z, -Z, -Z, X, Y],
        [X, -X, Y, -Y, Z, -Z, Z],
    ],
)
def test_opposite_and_repeated_directions_have_a_best_one_too(given: list[Any]) -> None:
    found = pixelwise_direction(as_maps(given)).ravel()
    assert np.linalg.norm(found) == pytest.approx(1)
    assert mean_angle(found, np.array(given)) <= least_angle_by_search(np.array(given), 0) + 1e-8


def test_a_direction_with_half_of_the_votes_wins_exactly() -> None:
    random = np.random.default_rng(0)
    others = units(random, 40)
    assert np.array_equal(pixelwise_direction(as_maps([*others, *[Z] * 41])).ravel(), Z)


def test_the_median_turns_with_the_directions_and_does_not_care_for_their_order() -> None:
    random = np.random.default_rng(0)
    given = units(random, 15) + 1.5 * Z
    rotation = np.linalg.qr(random.normal(size=(3, 3)))[0]
    found = pixelwise_direction(as_maps(given)).ravel()
    assert np.allclose(pixelwise_direction(as_maps(given @ rotation.T)).ravel(), rotation @ found, atol=1e-6)
    assert np.allclose(pixelwise_direction(as_maps(random.permutation(given))).ravel(), found, atol=1e-6)


def test_the_length_of_a_normal_does_not_matter() -> None:
    random = np.random.default_rng(0)
    given = units(random, 15) + Z
    lengths = 10.0 ** random.integers(-200, 200, size=(15, 1))
    assert np.allclose(pixelwise_direction(as_maps(given)), pixelwise_direction(as_maps(given * lengths)), atol=1e-9)


def test_many_directions_are_as_easy_as_few() -> None:
    random = np.random.default_rng(0)
    given = units(random, 3, 2000) + np.array([0, 0, 0.8])  # three places
    given /= np.linalg.norm(given, axis=-1, keepdims=True)
    valid = random.random((3, 2000)) < 0.9
    found, angles = directions_of_least_angle(given, valid)
    for place in range(3):
        near = found[place] + 0.01 * units(random, 200)
        near /= np.linalg.norm(near, axis=-1, keepdims=True)
        own = given[place, valid[place]]
        assert angles[place] == pytest.approx(mean_angle(found[place], own))
        assert angles[place] <= min(mean_angle(each, own) for each in near)


@pytest.mark.parametrize("guess", [pixelwise_median, pixelwise_direction])
@pytest.mark.parametrize(
    ("maps", "valid", "told"),
    [
        (np.ones((3, 3, 2, 2)), None, "All 3 maps are equal wherever they are valid, so that a guess"),
        (np.ones((1, 3, 2, 2)), None, "There is one map, which a guess without looking gets right"),
        (np.ones((3, 2, 2)), None, r"shape \(3, 2, 2\) and the type float64; expected .* \(n, channels, h, w\)"),
        (np.ones((0, 3, 2, 2)), None, "expected at least one"),
        (np.full((2, 3, 1, 1), "a"), None, "expected at least one of numbers"),
        (np.ones((2, 3, 2, 2)), np.zeros((2, 2, 2), dtype=bool), "None of the 2 maps has a valid pixel"),
        (np.ones((2, 3, 2, 2)), np.ones((2, 3, 2), dtype=bool), r"shape \(2, 3, 2\).*expected .* shape \(2, 2, 2\)"),
        (np.ones((2, 3, 2, 2)), np.ones((2, 2, 2)), "type float64, for maps"),
        (np.array([1.0, np.nan] * 6).reshape(2, 3, 2, 1), None, "not finite.*; expected such pixels to be marked"),
    ],
)
def test_maps_that_leave_nothing_to_guess_are_refused(guess: Any, maps: Any, valid: Any, told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        guess(maps, valid)
    assert str(caught.value).count(". ") == 0 and str(caught.value).endswith(".")


def test_normals_without_a_direction_or_with_other_channels_are_refused() -> None:
    with pytest.raises(DataError, match="zero or not finite, so that it has no direction"):
        pixelwise_direction(as_maps([X, 0 * X]))
    with pytest.raises(DataError, match="expected three components"):
        pixelwise_direction(np.ones((2, 1, 2, 2)))
    with pytest.raises(DataError, match="All 2 maps are equal"):
        pixelwise_direction(as_maps([X, 2 * X]))
