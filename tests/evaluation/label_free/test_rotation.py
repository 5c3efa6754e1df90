"""Rotation prediction: closed forms, a brute-force vote, and what may not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.labelled import rotation_accuracy


def _turned(n: int, *, seed: int, signal: float, dim: int = 8) -> np.ndarray:
    """Features of turned images: what the image is like, noise, and ``signal`` in a direction of the turn."""
    generator = np.random.default_rng(seed)
    z = generator.normal(size=(n, 1, dim)) + 0.3 * generator.normal(size=(n, 4, dim))
    z[:, :, :4] += signal * np.eye(4)
    return z


def test_turns_with_directions_of_their_own_are_all_told() -> None:
    found = rotation_accuracy(_turned(50, seed=0, signal=50.0), _turned(30, seed=1, signal=50.0))
    assert found.value == 100.0 and found.per_rotation == (100.0,) * 4 and found.standard_error == 0.0
    assert (found.n_train, found.n_val, found.n_shared, found.k) == (50, 30, 0, 20)


def test_features_that_do_not_change_with_the_turn_give_exactly_a_quarter() -> None:
    z, z_val = (np.repeat(np.random.default_rng(seed).normal(size=(40, 1, 6)), 4, axis=1) for seed in (0, 1))
    found = rotation_accuracy(z, z_val)
    assert found.value == 25.0 and found.per_rotation == (100.0, 0.0, 0.0, 0.0)


def test_features_without_signal_are_near_chance() -> None:
    z, z_val = (np.random.default_rng(seed).normal(size=(400, 4, 6)) for seed in (0, 1))
    found = rotation_accuracy(z, z_val)
    assert found.standard_error is not None
    assert abs(found.value - 25) < 4 * found.standard_error < 6


@pytest.mark.parametrize("k, temperature", [(1, 0.07), (5, 0.5), (20, 0.07)])
def test_the_vote_is_that_of_a_direct_float64_formula(k: int, temperature: float) -> None:
    z, z_val = _turned(40, seed=0, signal=0.6), _turned(25, seed=1, signal=0.6)
    rows, rows_val = (x.reshape(-1, 8) / np.linalg.norm(x.reshape(-1, 8), axis=1, keepdims=True) for x in (z, z_val))
    similarity = rows_val @ rows.T  # (100, 160)
    nearest = np.argsort(-similarity, axis=1)[:, :k]
    weights = np.exp(np.take_along_axis(similarity, nearest, axis=1) / temperature)
    votes = np.stack([(weights * (nearest % 4 == turn)).sum(axis=1) for turn in range(4)], axis=1)
    expected = (votes.argmax(axis=1) == np.tile(np.arange(4), 25)).reshape(25, 4)
    found = rotation_accuracy(z, z_val, k=k, temperature=temperature)
    assert found.value == pytest.approx(100 * expected.mean()) and 25 < found.value < 100
    assert found.per_rotation == pytest.approx(tuple(100 * expected.mean(axis=0)))
    assert found.standard_error == pytest.approx(100 * expected.mean(axis=1).std(ddof=1) / 5)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 64.0, 1e200])
def test_the_scale_of_features_does_not_matter(scale: float) -> None:
    z, z_val = _turned(40, seed=0, signal=0.6), _turned(25, seed=1, signal=0.6)
    assert rotation_accuracy(z * scale, z_val * scale).value == rotation_accuracy(z, z_val).value


def test_the_order_of_images_does_not_matter_nor_does_the_container() -> None:
    z, z_val = _turned(40, seed=0, signal=0.6), _turned(25, seed=1, signal=0.6)
    expected = rotation_accuracy(z, z_val)
    assert rotation_accuracy(z[::-1], z_val[::-1]).value == expected.value
    assert rotation_accuracy(torch.from_numpy(z), torch.from_numpy(z_val).float()) == expected


def test_one_turn_of_each_image_is_enough_where_the_signal_is_strong_and_the_draw_follows_the_seed() -> None:
    z, z_val = _turned(60, seed=0, signal=1.0), _turned(40, seed=1, signal=1.0)
    one, same, other = (rotation_accuracy(z, z_val, one_each=True, seed=seed) for seed in (0, 0, 1))
    assert one == same != other
    strong = rotation_accuracy(_turned(60, seed=0, signal=50.0), z_val + 50 * np.eye(4, 8), one_each=True, k=5)
    assert strong.value == 100.0


def test_validation_images_that_are_also_in_training_are_counted_and_nothing_else_is_refused() -> None:
    z = _turned(30, seed=0, signal=1.0)
    assert rotation_accuracy(z, np.concatenate([z[:3], _turned(9, seed=1, signal=1.0)])).n_shared == 3
    with pytest.raises(DataError, match="All 30 images of z_val are also in z"):
        rotation_accuracy(z, z)


def test_more_neighbours_than_there_are_become_all() -> None:
    assert rotation_accuracy(_turned(4, seed=0, signal=9.0), _turned(3, seed=1, signal=9.0), k=50).k == 16


_Z, _VAL = _turned(10, seed=0, signal=1.0), _turned(5, seed=1, signal=1.0)


@pytest.mark.parametrize(
    "z, z_val, sentence",
    [
        (_Z[0], _VAL, r"z has the shape \(4, 8\), expected \(n_images, 4, dim\)"),
        (_Z[:, :3], _VAL, r"z has the shape \(10, 3, 8\)"),
        (_Z, _VAL[:, :2], r"z_val has the shape \(5, 2, 8\)"),
        (_Z, _VAL[:, :, :5], "z_val has 5 features"),
        (_Z[:3], _VAL, "z has 3 images, but rotation prediction needs at least 4"),
        (_Z, _VAL[:1], "z_val holds views of 1 image"),
        (np.ones_like(_Z), _VAL, "All 40 rows of z are equal"),
        (np.where(_Z > 2, np.nan, _Z), _VAL, "holds NaN or infinity"),
    ],
)
def test_features_that_do_not_fit_are_refused_in_one_sentence(z: np.ndarray, z_val: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        rotation_accuracy(z, z_val)


def test_options_without_a_meaning_are_refused() -> None:
    for options in ({"k": 0}, {"temperature": 0.0}):
        with pytest.raises(QueryError):
            rotation_accuracy(_Z, _VAL, **options)
