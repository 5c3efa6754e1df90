"""Nearest neighbours are those of a plain float64 search over all pairs, in tiles of any size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.each import for_each
from zoo.errors import DataError, QueryError
from zoo.evaluation.nearest_neighbours import build_points, find_nearest, find_nearest_points


def by_all_pairs(z: np.ndarray, k: int, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours as a textbook has them."""
    z = z.astype(np.float64)
    if metric == "cosine":
        z = z / np.linalg.norm(z, axis=1, keepdims=True)
    distances = np.sqrt(np.square(z[:, None] - z[None]).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


def features(kind: str) -> np.ndarray:
    generator = np.random.default_rng(3)
    plain = generator.standard_normal((150, 40))
    if kind == "power-law spectrum, not centred":
        return plain * np.arange(1.0, 41.0) ** -0.7 + 5
    if kind == "tight clusters far apart":
        return 100 * generator.standard_normal((5, 40))[np.arange(150) % 5] + 1e-3 * plain
    if kind == "far from the origin":
        return (plain + 30_000).astype(np.float32)
    if kind == "small numbers":
        return 1e-200 * plain
    if kind == "large numbers":
        return 1e200 * plain
    if kind == "one large row":
        return plain * np.where(np.arange(150) == 7, 1e4, 1.0)[:, None]
    return plain.astype(np.float32)


KINDS = ["plain", "power-law spectrum, not centred", "tight clusters far apart", "far from the origin", "one large row"]


@for_each(product(KINDS, ["euclidean", "cosine"], [1, 2, 20, 149]), arguments=3)
def test_neighbours_are_those_of_all_pairs(kind: str, metric: str, k: int) -> None:
    z = features(kind)
    distances, rows = find_nearest(z, k, metric=metric)
    expected, expected_rows = by_all_pairs(z, k, metric)
    assert rows.dtype == np.int64 and distances.dtype == np.float64
    assert np.array_equal(rows, expected_rows)
    assert distances == pytest.approx(expected, rel=1e-12, abs=1e-14)


@for_each(["small numbers", "large numbers"])
def test_numbers_whose_squares_nothing_can_hold_have_neighbours(kind: str) -> None:
    z = features(kind)
    scale = np.abs(z).max()
    distances, rows = find_nearest(z, 3)
    expected, expected_rows = by_all_pairs(z / scale, 3, "euclidean")
    assert np.array_equal(rows, expected_rows)
    assert distances / scale == pytest.approx(expected, rel=1e-12)


@for_each([1e-2, 1e-7, 1e-10])
def test_neighbours_too_many_and_too_near_for_float32_are_found(spread: float) -> None:
    generator = np.random.default_rng(11)
    z = np.concatenate([8 + spread * generator.standard_normal((250, 20)), generator.standard_normal((90, 20))])
    z = z[generator.permutation(340)]
    expected, expected_rows = by_all_pairs(z, 2, "euclidean")
    distances, rows = find_nearest_points(build_points(z, "euclidean"), 2, tile_rows=64)
    assert np.array_equal(rows, expected_rows)
    assert distances == pytest.approx(expected, rel=1e-12)


@for_each([2, 3, 60])
def test_copies_are_at_distance_0_and_come_in_the_order_of_rows(n_copies: int) -> None:
    plain = features("plain")[: 120 // n_copies]
    z = np.tile(plain, (n_copies, 1))
    distances, rows = find_nearest(z, 5)
    expected, expected_rows = by_all_pairs(z, 5, "euclidean")
    assert np.array_equal(rows, expected_rows)
    assert (distances[:, : min(5, n_copies - 1)] == 0).all()
    assert distances == pytest.approx(expected, rel=1e-12)


@for_each(KINDS)
def test_neighbours_among_other_rows_are_those_of_all_pairs(kind: str) -> None:
    z = features(kind)
    z[40] = z[3]
    queries, among = np.arange(0, 150, 3), np.setdiff1d(np.arange(150), np.arange(0, 150, 3))
    distances, rows = find_nearest_points(build_points(z, "euclidean"), 4, queries=queries, among=among, tile_rows=16)
    wide = z.astype(np.float64)
    every = np.sqrt(np.square(wide[queries][:, None] - wide[among][None]).sum(axis=2))
    order = np.argsort(every, axis=1, kind="stable")[:, :4]
    assert np.array_equal(rows, among[order])
    assert distances == pytest.approx(np.take_along_axis(every, order, axis=1), rel=1e-12)


def test_what_has_no_neighbours_is_refused_in_one_sentence() -> None:
    z = features("plain")
    with pytest.raises(DataError, match=r"z has 3 rows, but a search for 3 neighbours needs at least 4"):
        find_nearest(z[:3], 3)
    broken = z.copy()
    broken[17, 2] = np.nan
    with pytest.raises(DataError, match="Row 17 of z holds NaN"):
        find_nearest(broken, 1)
    broken[17] = 0
    with pytest.raises(DataError, match="Row 17 of z is 0 everywhere"):
        find_nearest(broken, 1, metric="cosine")
    with pytest.raises(QueryError, match="k is 0, expected"):
        find_nearest(z, 0)
    with pytest.raises(QueryError, match="metric is 'manhattan', expected 'euclidean' or 'cosine'"):
        find_nearest(z, 1, metric="manhattan")
