"""H-score, GBC and TransRate: scikit-learn and direct formulas as oracles, closed forms, invariances, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf, ledoit_wolf_shrinkage
from sklearn.decomposition import PCA

from zoo.errors import DataError, QueryError
from zoo.evaluation.transferability import gbc, h_score, transrate

SHAPES = [(60, 6), (24, 50), (20, 20)]
SCORES = [h_score, gbc, transrate]


def _problem(n: int, dim: int, n_classes: int = 3, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % n_classes)
    spread = np.linspace(0.5, 2, dim)
    return random.normal(size=(n_classes, dim))[y] + spread * random.normal(size=(n, dim)) + 5.0, y


@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_h_score_is_that_of_the_covariance_of_ledoit_and_wolf(n: int, dim: int) -> None:
    z, y = _problem(n, dim)
    found = h_score(z, y)
    assert found.shrinkage == pytest.approx(ledoit_wolf_shrinkage(z), rel=1e-8)
    means = np.stack([z[y == number].mean(axis=0) for number in y])  # of the class of each image
    between = np.cov(means.T, bias=True)
    covariance = LedoitWolf().fit(z).covariance_
    expected = (1 - found.shrinkage) * np.trace(np.linalg.solve(covariance, between))
    assert found.value == pytest.approx(expected, rel=1e-8)


def test_h_score_with_a_given_shrinkage() -> None:
    z, y = _problem(40, 7)
    means = np.stack([z[y == number].mean(axis=0) for number in y])
    covariance = np.cov(z.T, bias=True)
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / 7 * np.eye(7)
    expected = 0.7 * np.trace(np.linalg.solve(shrunk, np.cov(means.T, bias=True)))
    assert h_score(z, y, shrinkage=0.3).value == pytest.approx(expected, rel=1e-9)


def test_h_score_is_between_zero_and_the_number_of_classes_less_one() -> None:
    y = np.arange(90) % 3
    far = 1e4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(90, 3))
    assert 1.9 < h_score(far, y, shrinkage=1e-9).value < 2
    unrelated = np.random.default_rng(1).normal(size=(3000, 4))
    assert 0 <= h_score(unrelated, np.arange(3000) % 3).value < 0.02


@pytest.mark.parametrize(("n", "dim"), SHAPES)
@pytest.mark.parametrize("covariance", ["spherical", "diagonal"])
def test_gbc_is_the_sum_over_pairs_of_gaussians(n: int, dim: int, covariance: str) -> None:
    z, y = _problem(n, dim)
    reduced = PCA(min(5, dim), svd_solver="full").fit_transform(z)
    classes = [reduced[y == number] for number in range(3)]
    expected = 0.0
    for i, one in enumerate(classes):
        for j, other in enumerate(classes):
            if i != j:
                first, second = (np.diag(rows.var(axis=0)) for rows in (one, other))
                if covariance == "spherical":
                    first, second = (np.eye(5) * np.trace(matrix) / 5 for matrix in (first, second))
                both, apart = (first + second) / 2, one.mean(axis=0) - other.mean(axis=0)
                distance = apart @ np.linalg.solve(both, apart) / 8
                dets = [np.linalg.slogdet(matrix)[1] for matrix in (both, first, second)]
                expected -= math.exp(-distance - (dets[0] - (dets[1] + dets[2]) / 2) / 2)
    assert gbc(z, y, n_components=5, covariance=covariance).value == pytest.approx(expected, rel=1e-8)


def test_gbc_of_two_gaussians_of_one_variance_is_that_of_their_distance() -> None:
    z = np.array([[-1.0], [1.0], [2.0], [4.0]])  # means 0 and 3, variance 1
    assert gbc(z, [0, 0, 1, 1]).value == pytest.approx(-2 * math.exp(-9 / 8), rel=1e-12)


def test_gbc_of_many_classes_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = _problem(80, 6, 20)
    usual = gbc(z, y).value
    monkeypatch.setattr("zoo.evaluation.transferability.separation._HALVES", 1)
    assert gbc(z, y).value == pytest.approx(usual, rel=1e-12)


def test_gbc_refuses_a_class_without_a_variance_and_bounds_that_of_equal_images() -> None:
    z, y = _problem(20, 4)
    alone = y.copy()
    alone[0] = 9
    with pytest.raises(DataError, match=r"one image only \(9 first\)"):
        gbc(z, alone)
    z[y == 1] = z[y == 1][0]
    assert -6 <= gbc(z, y, covariance="diagonal").value <= 0


@pytest.mark.parametrize(("n", "dim"), SHAPES)
@pytest.mark.parametrize("class_means", [False, True])
def test_transrate_is_the_difference_of_determinants(n: int, dim: int, class_means: bool) -> None:
    z, y = _problem(n, dim)
    centred = z - z.mean(axis=0)

    def rate(rows: np.ndarray) -> float:
        return float(0.5 * np.linalg.slogdet(np.eye(dim) + rows.T @ rows / (len(rows) * 1e-4))[1])

    parts = [centred[y == number] for number in range(3)]
    if class_means:
        parts = [part - part.mean(axis=0) for part in parts]
    expected = rate(centred) - sum(len(part) / n * rate(part) for part in parts)
    found = transrate(z, y, normalise=False, class_means=class_means)
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert found.value == pytest.approx(found.rate - found.rate_within, rel=1e-12)


def test_transrate_is_not_below_zero_and_zero_where_classes_have_one_distribution() -> None:
    z = np.random.default_rng(0).normal(size=(50, 4))
    assert transrate(np.concatenate([z, z]), np.repeat([0, 1], 50)).value == pytest.approx(0, abs=1e-9)
    for seed in range(5):
        assert transrate(*_problem(30, 12, seed=seed)).value > 0


def test_transrate_is_blind_to_two_opposite_means_unless_they_are_taken_off() -> None:
    y = np.repeat([0, 1], 50)
    noise = np.random.default_rng(0).normal(size=(50, 3))
    z = np.concatenate([noise, noise * [1, -1, -1]]) + 20 * np.array([1.0, 0, 0]) * (2 * y - 1)[:, None]
    assert transrate(z, y).value < 0.1 < 1 < transrate(z, y, class_means=True).value


def test_the_scale_of_transrate_is_that_of_eps() -> None:
    z, y = _problem(24, 50)
    twice = transrate(2 * z, y, normalise=False).value
    assert twice == pytest.approx(transrate(z, y, normalise=False, eps=1e-4 / 4).value, rel=1e-9)
    assert twice != pytest.approx(transrate(z, y, normalise=False).value, rel=1e-3)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_rotation_scale_shift_order_and_names_change_nothing(score, n: int, dim: int) -> None:
    z, y = _problem(n, dim, seed=3)
    usual = score(z, y).value
    random = np.random.default_rng(0)
    order = random.permutation(n)
    for other, labels in (
        (z @ np.linalg.qr(random.normal(size=(dim, dim)))[0], y),
        (1e-3 * z, y),
        (1e140 * z, y),
        (z + 11.0, y),
        (z[order], y[order]),
        (z, np.array(["c", "a", "b"])[y]),
    ):
        assert score(other, labels).value == pytest.approx(usual, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("score", SCORES)
def test_classes_that_move_apart_score_higher(score) -> None:
    random = np.random.default_rng(5)
    y = np.arange(90) % 3
    noise, centres = random.normal(size=(90, 8)), random.normal(size=(3, 8))
    values = [score(strength * centres[y] + noise, y).value for strength in (0.3, 1.0, 3.0)]
    assert values == sorted(values)


@pytest.mark.parametrize("score", SCORES)
def test_bad_input_is_refused(score) -> None:
    z, y = _problem(12, 3)
    with pytest.raises(DataError, match="one class only"):
        score(z, np.zeros(12, dtype=int))
    with pytest.raises(DataError, match="needs at least"):
        score(z[:2], [0, 1])
    with pytest.raises(DataError, match="rows of z are equal"):
        score(np.ones((12, 3)), y)
    with pytest.raises(DataError, match="Row 1 of z holds NaN"):
        score(np.where(np.arange(12)[:, None] == 1, np.nan, z), y)


def test_options_out_of_range_are_refused() -> None:
    z, y = _problem(12, 3)
    with pytest.raises(QueryError, match="shrinkage is 0"):
        h_score(z, y, shrinkage=0)
    with pytest.raises(QueryError, match="covariance is 'full'"):
        gbc(z, y, covariance="full")
    with pytest.raises(QueryError, match="n_components is 0"):
        gbc(z, y, n_components=0)
    with pytest.raises(QueryError, match="eps is 0"):
        transrate(z, y, eps=0)
