"""The entropy from local dimensions is the paper's formula, and the entropy of distributions that have a known one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.dimension import local_dimension_entropy


def by_formula(z: np.ndarray, k: int) -> float:
    """CLID, Eq. 4, one row after the other."""
    total = 0.0
    for row, own in enumerate(z):
        others = np.delete(z, row, axis=0)
        apart = np.sort(np.sqrt(np.square(others - own).sum(axis=1)))[:k]
        dimension = 1 / (sum(math.log(apart[-1] / other) for other in apart[:-1]) / (k - 1))
        volume = dimension / 2 * math.log(math.pi) - float(gammaln(dimension / 2 + 1))
        total += dimension * math.log(apart[-1]) + volume
    return total / len(z) - math.log(k - 1)


@pytest.mark.parametrize("k", [3, 10, 40])
def test_the_value_is_that_of_the_formula(k: int) -> None:
    z = np.random.default_rng(0).standard_normal((120, 6)) + 4
    found = local_dimension_entropy(z, k=k)
    assert found.value == pytest.approx(by_formula(z, k), rel=1e-10)
    assert local_dimension_entropy(z, k=k, normalised=True).value == pytest.approx(found.value + math.log(119))
    assert (found.k, found.n, found.n_used, found.n_duplicates) == (k, 120, 120, 0)


@pytest.mark.parametrize(
    ("name", "entropy", "dimension"),
    [("uniform", 0.0, 2), ("gaussian", 1 + math.log(2 * math.pi), 2), ("circle", math.log(2 * math.pi), 1)],
)
def test_a_distribution_of_known_entropy_has_it(name: str, entropy: float, dimension: int) -> None:
    generator = np.random.default_rng(1)
    z = generator.random((6000, 2)) if name == "uniform" else generator.standard_normal((6000, 2))
    if name == "circle":  # the entropy of a manifold within the plane
        z /= np.linalg.norm(z, axis=1, keepdims=True)
    found = local_dimension_entropy(z, k=100, normalised=True)
    assert found.value == pytest.approx(entropy, abs=0.15)
    assert found.mean_dimension == pytest.approx(dimension, rel=0.05)


def test_scale_adds_what_it_should_and_rotation_order_and_copies_nothing() -> None:
    generator = np.random.default_rng(2)
    z = generator.standard_normal((200, 4))
    found = local_dimension_entropy(z)
    rotation = np.linalg.qr(generator.standard_normal((4, 4)))[0]
    for other in (z @ rotation, z[generator.permutation(200)], z + 50):
        assert local_dimension_entropy(other).value == pytest.approx(found.value, rel=1e-9)
    expected = found.value + found.mean_dimension * math.log(7)
    assert local_dimension_entropy(7 * z).value == pytest.approx(expected, rel=1e-9)
    near = np.concatenate([z, z[:60] + 1e-7 * generator.standard_normal((60, 4))])
    doubled = local_dimension_entropy(near)
    assert doubled.n_near_duplicates == 120 and "120 of 260 rows" in doubled.notes[0]
    assert doubled.value < found.value - 1
    assert doubled.value_without_near_duplicates == pytest.approx(found.value, abs=1e-4)
    copied = local_dimension_entropy(np.concatenate([z, z[:60]]))
    assert (copied.value, copied.n_duplicates, copied.n_used) == (pytest.approx(found.value, rel=1e-12), 60, 200)


def test_what_has_no_local_dimension_is_refused_in_one_sentence() -> None:
    z = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(DataError, match="z has 20 rows, but the local dimension from 20 neighbours needs at least 21"):
        local_dimension_entropy(z[:20], k=20)
    with pytest.raises(DataError, match="z has 8 distinct rows among 40"):
        local_dimension_entropy(z[np.arange(40) % 8], k=5)
    with pytest.raises(DataError, match="All 40 rows of z are equal"):
        local_dimension_entropy(np.ones((40, 3)))
    with pytest.raises(DataError, match="40 of 40 rows of z have their 5 nearest neighbours all at the same distance"):
        local_dimension_entropy(np.eye(40), k=5)
    with pytest.raises(DataError, match="holds NaN"):
        local_dimension_entropy(np.where(z == z[3, 1], np.nan, z))
    with pytest.raises(QueryError, match="k is 2, expected a whole number of at least 3"):
        local_dimension_entropy(z, k=2)
