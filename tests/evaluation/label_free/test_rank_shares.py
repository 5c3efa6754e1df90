"""NESum, the stable rank and matrix entropy: closed forms, NumPy's singular values, invariances, streams, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import matrix_entropy, nesum, rankme, stable_rank
from zoo.evaluation.label_free.spectrum import Gram, spectrum_of

METRICS = [nesum, stable_rank, matrix_entropy]


def _features(n: int, dim: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim)) * np.linspace(0.1, 2, dim) + 0.5


@pytest.mark.parametrize(("n", "dim"), [(80, 7), (20, 50)])
def test_they_are_sums_over_the_singular_values(n: int, dim: int) -> None:
    z = _features(n, dim)
    squares = np.linalg.svd(z, compute_uv=False) ** 2
    centred = np.linalg.svd(z - z.mean(axis=0), compute_uv=False) ** 2
    shares = squares / squares.sum()
    assert stable_rank(z) == pytest.approx(squares.sum() / squares[0], rel=1e-5)
    assert nesum(z) == pytest.approx(centred.sum() / centred[0], rel=1e-5)
    assert matrix_entropy(z) == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-5)
    assert matrix_entropy(z, order=2) == pytest.approx(-math.log((shares**2).sum()), abs=1e-5)
    assert matrix_entropy(z, order=0.5) == pytest.approx(2 * math.log(np.sqrt(shares).sum()), abs=1e-5)
    of_centred = centred[: min(n - 1, dim)] / centred.sum()
    expected = -(of_centred * np.log(of_centred)).sum()
    assert matrix_entropy(z, centred=True) == pytest.approx(expected, abs=1e-5)


def test_isotropic_features_have_all_their_dimensions() -> None:
    both = np.concatenate([np.eye(6), -np.eye(6)])
    assert nesum(both) == pytest.approx(6, rel=1e-9)
    assert stable_rank(np.eye(6)) == pytest.approx(6, rel=1e-9)
    for order in (0.5, 1.0, 2.0, 40.0):
        assert matrix_entropy(np.eye(6), order=order) == pytest.approx(math.log(6), abs=1e-9)


def test_features_on_a_line_have_one_dimension() -> None:
    line = np.outer(np.linspace(-1, 1, 9), [3.0, 4.0, 0.0])
    assert nesum(line) == pytest.approx(1, rel=1e-6)
    assert stable_rank(line) == pytest.approx(1, rel=1e-6)
    assert matrix_entropy(line) == pytest.approx(0, abs=1e-6)


def test_the_stable_rank_is_at_most_rankme_and_entropy_falls_with_the_order() -> None:
    z = _features(60, 12)
    assert stable_rank(z) < math.exp(matrix_entropy(z)) < rankme(z)
    entropies = [matrix_entropy(z, order=order) for order in (0.3, 0.999999, 1.0, 1.000001, 3.0)]
    assert entropies == sorted(entropies, reverse=True)
    assert entropies[1] == pytest.approx(entropies[3], abs=1e-4)


@pytest.mark.parametrize("metric", METRICS)
def test_rotation_scale_and_order_change_nothing(metric) -> None:
    z = _features(50, 9)
    usual = metric(z)
    random = np.random.default_rng(0)
    turned = z @ np.linalg.qr(random.normal(size=(9, 9)))[0]
    for other in (turned, 1e-3 * z, 1e150 * z, random.permutation(z)):
        assert metric(other) == pytest.approx(usual, rel=1e-5)
    assert nesum(z + 40) == pytest.approx(nesum(z), rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_streams_and_spectra_give_the_same(metric) -> None:
    z = _features(300, 8)
    gram = Gram()
    for start in range(0, 300, 70):
        gram.update(z[start : start + 70])
    assert metric(gram) == pytest.approx(metric(z), rel=1e-5)
    assert metric(spectrum_of(z)) == metric(z)


@pytest.mark.parametrize("metric", METRICS)
def test_bad_input_is_refused(metric) -> None:
    z = _features(10, 3)
    with pytest.raises(DataError, match="needs at least 2"):
        metric(z[:1])
    with pytest.raises(DataError, match="NaN"):
        metric(np.where(np.arange(10)[:, None] == 4, np.nan, z))
    with pytest.raises(DataError, match="are equal"):
        metric(np.ones((10, 3)))
    with pytest.raises(QueryError, match="order is 0"):
        matrix_entropy(z, order=0)


def test_an_order_that_sums_cannot_resolve_is_refused_for_sums_alone() -> None:
    z = _features(400, 12) * np.geomspace(1, 1e-11, 12)
    gram = Gram()
    gram.update(z)
    with pytest.raises(DataError, match="pass the features, or take a higher order"):
        matrix_entropy(gram, order=0.02)
    assert matrix_entropy(gram) == pytest.approx(matrix_entropy(z), abs=1e-5)
