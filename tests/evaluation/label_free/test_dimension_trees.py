"""IdEst: the tree of scipy, dimensions that are known, invariances, duplicates, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import idest
from zoo.evaluation.label_free.dimension import _all_distances, _tree_length
from zoo.evaluation.nearest import points_of


def _drawn(n: int, dim: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, dim))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_length_is_that_of_the_minimum_spanning_tree_of_scipy(power: float) -> None:
    z = _drawn(70, 5) + 3
    apart = _all_distances(points_of(z, "euclidean"), np.arange(70))
    np.testing.assert_allclose(apart, cdist(z, z), atol=1e-7)
    expected = (minimum_spanning_tree(cdist(z, z)).data ** power).sum()
    assert _tree_length(apart, power) == pytest.approx(expected, rel=1e-6)


def test_the_tree_of_points_on_a_line_is_as_long_as_the_line() -> None:
    z = np.array([[0.0], [3.0], [1.0], [7.0]])
    assert _tree_length(_all_distances(points_of(z, "euclidean"), np.arange(4)), 1.0) == pytest.approx(7, rel=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_low_dimensions_are_found_wherever_they_lie(dim: int) -> None:
    z = _drawn(1500, dim)
    turned = z @ np.linalg.qr(np.random.default_rng(1).normal(size=(10, 10)))[0][:dim]
    # rows near the border have longer edges: a few hundredths for each dimension
    assert idest(turned).value == pytest.approx(dim, abs=0.12 * dim)


def test_the_estimate_grows_with_the_dimension() -> None:
    values = [idest(_drawn(400, dim)).value for dim in (2, 5, 10, 40)]
    assert values == sorted(values)


def test_slope_power_and_value_belong_together() -> None:
    z = _drawn(300, 4)
    one, half = idest(z), idest(z, power=0.5)
    assert one.value == pytest.approx(1 / (1 - one.slope))
    assert half.value == pytest.approx(0.5 / (1 - half.slope))
    assert one.sizes[0] == 30 and one.sizes[-1] == 300 and one.n_used == 300
    assert one.r_squared > 0.99


def test_rotation_scale_and_shift_change_nothing() -> None:
    z = _drawn(200, 6)
    usual = idest(z).value
    turned = z @ np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    for other in (turned, 1e-3 * z, 1e100 * z, z + 5):
        assert idest(other).value == pytest.approx(usual, rel=1e-5)
    assert idest(z, distance="cosine").value == pytest.approx(idest(9 * z, distance="cosine").value, rel=1e-5)


def test_equal_rows_are_left_out_and_counted() -> None:
    z = _drawn(200, 3)
    found = idest(np.concatenate([z, z[:30]]))
    assert found.value == idest(z).value
    assert (found.n, found.n_duplicates, found.n_used) == (230, 30, 200)
    assert "30 of 230 rows equal an earlier one" in found.notes[0]


def test_more_rows_than_are_wanted_are_drawn() -> None:
    z = _drawn(500, 2)
    found = idest(z, most=100)
    assert found.sizes[-1] == 100 and found.n_used == 500
    assert found.value != idest(z, most=100, seed=1).value
    assert idest(z, most=100).value == found.value


def test_bad_input_is_refused() -> None:
    z = _drawn(60, 3)
    with pytest.raises(DataError, match="needs at least 50"):
        idest(z[:40])
    with pytest.raises(DataError, match="30 distinct rows among 60"):
        idest(np.concatenate([z[:30], z[:30]]))
    with pytest.raises(DataError, match="are equal"):
        idest(np.ones((60, 3)))
    with pytest.raises(DataError, match="NaN"):
        idest(np.where(np.arange(60)[:, None] == 4, np.nan, z))
    with pytest.raises(DataError, match="which no dimension has"):
        idest(np.eye(60))  # all equally far apart
    with pytest.raises(QueryError, match="power is 0"):
        idest(z, power=0)
    with pytest.raises(QueryError, match="distance is 'squared_cosine'"):
        idest(z, distance="squared_cosine")
    with pytest.raises(QueryError, match="smallest is 1"):
        idest(z, smallest=1.0)
