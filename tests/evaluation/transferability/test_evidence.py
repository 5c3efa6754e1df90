"""LogME: the evidence against integrals, densities of scipy, closed forms and invariances; both forms; refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.linalg import null_space
from scipy.stats import multivariate_normal, norm

from zoo.errors import DataError, QueryError
from zoo.evaluation.transferability import logme
from zoo.evaluation.transferability.evidence import Maxima, evidence_of

SHAPES = [(40, 6), (12, 30), (13, 13), (25, 24)]


def _problem(n: int, dim: int, n_classes: int = 3, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return random.normal(size=(n_classes, dim))[y] + random.normal(size=(n, dim)) + 0.3, y


def _density(z: np.ndarray, target: np.ndarray, alpha: float, beta: float) -> float:
    """Log density of the target, by its covariance."""
    covariance = np.eye(len(z)) / beta + z @ z.T / alpha
    return float(multivariate_normal(np.zeros(len(z)), covariance).logpdf(target))


def _of_one(z: np.ndarray, target: np.ndarray) -> Maxima:
    return evidence_of(z, target[:, None])


@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_the_value_is_the_density_of_the_labels_at_its_alpha_and_beta(n: int, dim: int) -> None:
    z, y = _problem(n, dim)
    targets = (y[:, None] == np.arange(3)).astype(float)
    found = evidence_of(z, targets)
    assert np.isfinite(found.ratios).all()
    for number in range(3):
        beta, ratio = float(found.precisions[number]), float(found.ratios[number])
        assert found.values[number] == pytest.approx(_density(z, targets[:, number], ratio * beta, beta), rel=1e-6)
    assert logme(z, y).value == pytest.approx(found.values.mean() / n, rel=1e-12)


@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_no_other_alpha_and_beta_give_more(n: int, dim: int) -> None:
    z, y = _problem(n, dim, seed=1)
    target = (y == 0).astype(float)
    found = _of_one(z, target)
    for alpha in np.geomspace(0.1, 1e3, 13):
        for beta in np.geomspace(1e-2, 1e3, 15):
            assert _density(z, target, alpha, beta) <= found.values[0] + 1e-6


def test_the_density_is_the_integral_over_the_weights() -> None:
    z, target = np.array([[1.0], [0.4], [-0.3]]), np.array([1.0, 0.0, 0.0])
    found = _of_one(z, target)
    beta = float(found.precisions[0])
    alpha = float(found.ratios[0]) * beta

    def joint(weight: float) -> float:
        likelihood = norm(z[:, 0] * weight, beta**-0.5).pdf(target).prod()
        return float(likelihood * norm(0, alpha**-0.5).pdf(weight))

    # to the twelfth standard deviation of the prior
    integral, _ = quad(joint, -12 * alpha**-0.5, 12 * alpha**-0.5, epsabs=1e-12, epsrel=1e-10, limit=200)
    assert math.log(integral) == pytest.approx(found.values[0], rel=1e-7)


def test_the_density_is_the_integral_over_two_weights_of_fewer_images_than_dimensions_and_one() -> None:
    z, target = np.array([[1.0, 0.2], [0.4, -0.5]]), np.array([1.0, 0.0])
    alpha, beta = 2.0, 3.0

    def joint(second: float, first: float) -> float:
        residuals = target - z @ np.array([first, second])
        exponent = -0.5 * beta * residuals @ residuals - 0.5 * alpha * (first**2 + second**2)
        return float(beta / (2 * np.pi) * alpha / (2 * np.pi) * np.exp(exponent))

    integral, _ = dblquad(joint, -8, 8, -8, 8, epsabs=1e-9)
    assert math.log(integral) == pytest.approx(_density(z, target, alpha, beta), rel=1e-6)


@pytest.mark.parametrize(("n", "dim"), SHAPES)
@pytest.mark.parametrize("centred", [False, True])
def test_both_forms_agree(n: int, dim: int, centred: bool) -> None:
    z, y = _problem(n, dim, seed=2)
    targets = (y[:, None] == np.arange(3)).astype(float)
    if centred:
        z, targets = z - z.mean(axis=0), targets - targets.mean(axis=0)
    primal, dual = (evidence_of(z, targets, centred=centred, dual=dual) for dual in (False, True))
    np.testing.assert_allclose(primal.values, dual.values, rtol=1e-7)


def test_orthonormal_features_have_the_variances_along_them_and_beside_them() -> None:
    n, dim = 30, 5
    z = np.linalg.qr(np.random.default_rng(0).normal(size=(n, dim)))[0]
    target = z @ np.array([2.0, -1.0, 1.5, 1.0, -2.0]) + np.random.default_rng(1).normal(size=n) / 5
    along = float(((z.T @ target) ** 2).sum())
    beside = float(target @ target) - along
    expected = -dim / 2 * math.log(2 * math.pi * math.e * along / dim)
    expected -= (n - dim) / 2 * math.log(2 * math.pi * math.e * beside / (n - dim))
    assert _of_one(z, target).values[0] == pytest.approx(expected, rel=1e-10)


def test_isotropic_features_say_nothing_of_labels() -> None:
    y = np.arange(12) % 2
    assert logme(np.eye(12), y).value == pytest.approx(-0.5 * math.log(2 * math.pi * math.e / 2), abs=1e-9)


def test_labels_without_signal_have_the_density_of_noise() -> None:
    z = np.random.default_rng(0).normal(size=(60, 256))
    found = logme(z, np.arange(60) % 2)
    assert found.value == pytest.approx(-0.5 * math.log(math.pi * math.e), abs=0.02)
    assert found.effective_dimensions < 10


def test_leaving_the_empty_directions_out_of_the_determinant_ranks_by_width() -> None:
    random = np.random.default_rng(3)
    y = np.arange(60) % 2
    values, wrong = [], []
    for dim in (64, 256, 1024):
        z = random.normal(size=(60, dim))
        targets = (y[:, None] == np.arange(2)).astype(float)
        found = evidence_of(z, targets, least_noise=0.3)
        values.append(logme(z, y).value)
        alphas = np.minimum(found.ratios, 1e6) * found.precisions
        wrong.append(float((found.values + (dim - 60) / 2 * np.log(alphas)).mean()) / 60)
    assert max(values) - min(values) < 0.05
    assert wrong[2] - wrong[1] > 10 * (max(values) - min(values))


def test_dimensions_without_data_change_nothing() -> None:
    z, y = _problem(20, 8)
    wide = np.concatenate([z, np.zeros((20, 100))], axis=1)
    assert logme(wide, y).value == pytest.approx(logme(z, y).value, rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_rotation_scale_order_and_names_change_nothing(n: int, dim: int, intercept: bool) -> None:
    z, y = _problem(n, dim, seed=4)
    usual = logme(z, y, intercept=intercept).value
    random = np.random.default_rng(0)
    turned = z @ np.linalg.qr(random.normal(size=(dim, dim)))[0]
    order = random.permutation(n)
    for other, labels in (
        (turned, y),
        (1e-3 * z, y),
        (1e140 * z, y),
        (1e-140 * z, y),
        (z[order], y[order]),
        (z, np.array(["c", "a", "b"])[y]),
    ):
        assert logme(other, labels, intercept=intercept).value == pytest.approx(usual, rel=1e-7)


def test_an_intercept_makes_shifts_change_nothing_and_is_the_evidence_of_contrasts() -> None:
    z, y = _problem(18, 5, seed=5)
    usual = logme(z, y, intercept=True).value
    assert logme(z + 7.0, y, intercept=True).value == pytest.approx(usual, rel=1e-9)
    assert logme(z + 7.0, y).value != pytest.approx(logme(z, y).value, rel=1e-3)
    contrasts = null_space(np.ones((1, 18))).T
    targets = (y[:, None] == np.arange(3)).astype(float)
    assert evidence_of(contrasts @ z, contrasts @ targets).values.mean() / 17 == pytest.approx(usual, rel=1e-9)


def test_equal_rows_leave_the_evidence_bounded_by_the_least_noise() -> None:
    z, y = _problem(20, 50)
    twice, labels = np.concatenate([z, z[:5]]), np.concatenate([y, y[:5]])
    values = [logme(twice, labels, least_noise=noise).value for noise in (1e-2, 1e-3, 1e-4)]
    assert values[0] < values[1] < values[2]
    assert logme(twice, labels).n_at_least_noise == 3


def test_evidence_follows_the_signal() -> None:
    random = np.random.default_rng(6)
    y = np.arange(90) % 3
    noise, centres = random.normal(size=(90, 20)), random.normal(size=(3, 20))
    values = [logme(strength * centres[y] + noise, y).value for strength in (0.0, 0.3, 1.0, 3.0)]
    assert values == sorted(values)


def test_bad_input_is_refused() -> None:
    z, y = _problem(10, 3)
    with pytest.raises(DataError, match="one class only"):
        logme(z, np.zeros(10, dtype=int))
    with pytest.raises(DataError, match="needs at least 3"):
        logme(z[:2], y[:2])
    with pytest.raises(DataError, match="rows of z are equal"):
        logme(np.ones((10, 3)), y)
    with pytest.raises(DataError, match="Row 2 of z holds NaN"):
        logme(np.where(np.arange(10)[:, None] == 2, np.inf, z), y)
    with pytest.raises(QueryError, match="least_noise is 0"):
        logme(z, y, least_noise=0)


def test_a_class_with_one_image_has_an_evidence_too() -> None:
    z, y = _problem(10, 3, 2)
    y[0] = 5
    assert math.isfinite(logme(z, y).value)
