"""Nearest images and layouts, on features whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.errors import DataError, QueryError
from zoo.looking import neighbourhood
from zoo.looking.neighbourhood import laid_out, nearest_images, select_apart


def at_angles(*degrees: float) -> np.ndarray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_neighbours_are_the_nearest_by_angle_whatever_the_length() -> None:
    features = at_angles(0, 10, 25, 90) * np.array([[1.0], [50], [0.1], [3]])
    distances, rows = nearest_images(features, 2)
    assert rows.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert np.allclose(distances[0], 1 - np.cos(np.radians([10, 25])))


def test_exact_copies_are_no_neighbours() -> None:
    features, contents = at_angles(0, 0, 0, 30, 60), np.array([7, 7, 7, 8, 9], np.uint64)
    distances, rows = nearest_images(features, 4, contents=contents)
    assert rows[0].tolist() == [3, 4, -1, -1] and np.isnan(distances[0, 2:]).all()
    assert sorted(rows[3].tolist()) == [0, 1, 2, 4]
    only = nearest_images(features[:2], 1, contents=contents[:2])[1]
    assert only.tolist() == [[-1], [-1]]


def test_one_image_and_features_of_zeros_have_no_neighbours() -> None:
    with pytest.raises(DataError, match="1 rows"):
        nearest_images(at_angles(0), 3)
    with pytest.raises(DataError, match="0 everywhere"):
        nearest_images(np.array([[1.0, 0], [0, 0]]), 1)


def test_a_layout_fills_the_square_and_keeps_what_is_near_near() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(3, 8)[np.arange(30) % 3]
    places, explained = laid_out(centres + 0.01 * rng.normal(size=(30, 8)))
    assert explained is not None and 0.9 < explained <= 1
    assert places.min() >= 0 and places.max() <= 1 and np.isclose(np.ptp(places, axis=0).max(), 1)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    same = np.arange(30)[:, None] % 3 == np.arange(30) % 3
    assert apart[same].max() < 0.2 < apart[~same].min()


def test_layouts_that_cannot_be_made_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match="expected pca or umap"):
        laid_out(at_angles(0, 1), layout="tsne")
    with pytest.raises(DataError, match="the same"):
        laid_out(at_angles(0, 0))
    monkeypatch.setattr(neighbourhood, "find_spec", lambda name: None)
    with pytest.raises(QueryError, match="pip install umap-learn"):
        laid_out(at_angles(0, 1), layout="umap")


def test_umap_is_given_the_seed_and_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    class Umap:
        def __init__(self, **options: object) -> None:
            asked.update(options)

        def fit_transform(self, x: np.ndarray) -> np.ndarray:
            assert np.allclose(np.linalg.norm(x, axis=1), 1)
            return x[:, :2] * 7

    monkeypatch.setattr(neighbourhood, "find_spec", lambda name: name)
    monkeypatch.setattr(neighbourhood, "import_module", lambda name: type("module", (), {"UMAP": Umap}))
    places, explained = laid_out(3 * at_angles(0, 10, 20, 30, 90), layout="umap", seed=5)
    assert explained is None and asked["random_state"] == 5 and np.isclose(np.ptp(places, axis=0).max(), 1)
    with pytest.raises(QueryError, match="5 or more"):
        laid_out(at_angles(0, 1), layout="umap")


def test_pictures_that_stand_apart_do_not_overlap() -> None:
    places = np.random.default_rng(0).random((200, 2))
    taken = select_apart(places, 0.1)
    apart = np.abs(places[taken][:, None] - places[taken][None]).max(axis=2)
    assert taken[0] == 0 and apart[~np.eye(len(taken), dtype=bool)].min() >= 0.1
