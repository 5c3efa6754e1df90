"""LogME, H-score, GBC, NLEEP and TransRate: SciPy and scikit-learn as oracles, and what may not change them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import null_space
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import LedoitWolf, ledoit_wolf_shrinkage
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from zoo.errors import DataError, QueryError
from zoo.evaluation.transferability import gbc, h_score, logme, nleep, transrate
from zoo.evaluation.transferability.scores import compute_leep, maximise_evidence

SHAPES = [(40, 6), (12, 30), (13, 13), (25, 24)]
SCORES = [logme, h_score, gbc, nleep, transrate]


def problem(n: int, dim: int, n_classes: int = 3, *, seed: int = 0, apart: float = 1.0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    spread = np.linspace(0.5, 2, dim)
    return apart * random.normal(size=(n_classes, dim))[y] + spread * random.normal(size=(n, dim)) + 0.3, y


def one_hot(y: np.ndarray, n_classes: int = 3) -> np.ndarray:
    return (y[:, None] == np.arange(n_classes)).astype(float)


@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_logme_is_the_density_of_the_labels_at_the_best_alpha_and_beta(n: int, dim: int) -> None:
    z, y = problem(n, dim)
    targets = one_hot(y)
    found = maximise_evidence(z, targets)

    def density(target: np.ndarray, alpha: float, beta: float) -> float:
        covariance = np.eye(n) / beta + z @ z.T / alpha
        return float(multivariate_normal(np.zeros(n), covariance).logpdf(target))

    for number, target in enumerate(targets.T):
        beta, ratio = float(found.precisions[number]), min(float(found.ratios[number]), 1e9)
        assert found.values[number] == pytest.approx(density(target, ratio * beta, beta), rel=1e-6)
        for alpha in np.geomspace(0.1, 1e3, 7):
            for other in np.geomspace(1e-2, 1e3, 8):
                assert density(target, alpha, other) <= found.values[number] + 1e-6
    assert logme(z, y).value == pytest.approx(found.values.mean() / n, rel=1e-12)


def test_the_density_is_the_integral_over_the_weights() -> None:
    z, target = np.array([[1.0], [0.4], [-0.3]]), np.array([1.0, 0.0, 0.0])
    found = maximise_evidence(z, target[:, None])
    beta = float(found.precisions[0])
    alpha = float(found.ratios[0]) * beta

    def joint(weight: float) -> float:
        likelihood = norm(z[:, 0] * weight, beta**-0.5).pdf(target).prod()
        return float(likelihood * norm(0, alpha**-0.5).pdf(weight))

    # to the twelfth standard deviation of the prior
    integral, _ = quad(joint, -12 * alpha**-0.5, 12 * alpha**-0.5, epsabs=1e-12, epsrel=1e-10, limit=200)
    assert math.log(integral) == pytest.approx(found.values[0], rel=1e-7)


def test_logme_in_closed_form() -> None:
    y = np.arange(12) % 2
    assert logme(np.eye(12), y).value == pytest.approx(-0.5 * math.log(2 * math.pi * math.e / 2), abs=1e-9)
    noise = logme(np.random.default_rng(0).normal(size=(60, 256)), np.arange(60) % 2)
    assert noise.value == pytest.approx(-0.5 * math.log(math.pi * math.e), abs=0.02)  # not 9, whatever the width
    assert noise.effective_dimensions < 10
    z, y = problem(18, 5, seed=5)
    usual = logme(z, y, intercept=True).value
    assert logme(z + 7.0, y, intercept=True).value == pytest.approx(usual, rel=1e-9)
    contrasts = null_space(np.ones((1, 18))).T
    expected = maximise_evidence(contrasts @ z, contrasts @ one_hot(y)).values.mean() / 17
    assert usual == pytest.approx(expected, rel=1e-9)
    z, y = problem(20, 50)
    twice, labels = np.concatenate([z, z[:5]]), np.concatenate([y, y[:5]])
    values = [logme(twice, labels, least_noise=least).value for least in (1e-2, 1e-3, 1e-4)]
    assert values == sorted(values) and logme(twice, labels).n_at_least_noise == 3


@pytest.mark.parametrize(("n", "dim"), SHAPES)
def test_h_score_is_that_of_the_covariance_of_ledoit_and_wolf(n: int, dim: int) -> None:
    z, y = problem(n, dim)
    found = h_score(z, y)
    assert found.shrinkage == pytest.approx(ledoit_wolf_shrinkage(z), rel=1e-8)
    means = np.stack([z[y == number].mean(axis=0) for number in y])  # of the class of each image
    between, covariance = np.cov(means.T, bias=True), np.cov(z.T, bias=True)
    expected = (1 - found.shrinkage) * np.trace(np.linalg.solve(LedoitWolf().fit(z).covariance_, between))
    assert found.value == pytest.approx(expected, rel=1e-8)
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / dim * np.eye(dim)
    expected = 0.7 * np.trace(np.linalg.solve(shrunk, between))
    assert h_score(z, y, shrinkage=0.3).value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("covariance", ["spherical", "diagonal"])
def test_gbc_is_the_sum_over_pairs_of_gaussians(covariance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, dim in SHAPES:
        z, y = problem(n, dim)
        reduced = PCA(min(5, dim), svd_solver="full").fit_transform(z)
        classes = [reduced[y == number] for number in range(3)]
        expected = 0.0
        for i, one in enumerate(classes):
            for other in classes[:i] + classes[i + 1 :]:
                first, second = (np.diag(rows.var(axis=0)) for rows in (one, other))
                if covariance == "spherical":
                    first, second = (np.eye(5) * np.trace(matrix) / 5 for matrix in (first, second))
                both, apart = (first + second) / 2, one.mean(axis=0) - other.mean(axis=0)
                distance = apart @ np.linalg.solve(both, apart) / 8
                dets = [np.linalg.slogdet(matrix)[1] for matrix in (both, first, second)]
                expected -= math.exp(-distance - (dets[0] - (dets[1] + dets[2]) / 2) / 2)
        found = gbc(z, y, n_components=5, covariance=covariance).value
        assert found == pytest.approx(expected, rel=1e-8)
    monkeypatch.setattr("zoo.evaluation.transferability.scores._HALVES", 1)
    assert gbc(z, y, n_components=5, covariance=covariance).value == pytest.approx(found, rel=1e-12)
    z[y == 1] = z[y == 1][0]
    assert -6 <= gbc(z, y, covariance=covariance).value <= 0


def test_gbc_of_two_gaussians_of_one_variance_is_that_of_their_distance() -> None:
    z = np.array([[-1.0], [1.0], [2.0], [4.0]])  # means 0 and 3, variance 1
    assert gbc(z, [0, 0, 1, 1]).value == pytest.approx(-2 * math.exp(-9 / 8), rel=1e-12)


@pytest.mark.parametrize("class_means", [False, True])
def test_transrate_is_the_difference_of_determinants(class_means: bool) -> None:
    for n, dim in SHAPES:
        z, y = problem(n, dim)
        centred = z - z.mean(axis=0)
        parts = [centred[y == number] for number in range(3)]
        if class_means:
            parts = [part - part.mean(axis=0) for part in parts]

        def rate(rows: np.ndarray, dim: int = dim) -> float:
            return float(0.5 * np.linalg.slogdet(np.eye(dim) + rows.T @ rows / (len(rows) * 1e-4))[1])

        expected = rate(centred) - sum(len(part) / n * rate(part) for part in parts)
        found = transrate(z, y, normalise=False, class_means=class_means)
        assert found.value == pytest.approx(expected, rel=1e-8)
        twice = transrate(2 * z, y, normalise=False, class_means=class_means, eps=4e-4).value
        assert twice == pytest.approx(found.value, rel=1e-9)
    z = np.random.default_rng(0).normal(size=(50, 4))
    assert transrate(np.concatenate([z, z]), np.repeat([0, 1], 50)).value == pytest.approx(0, abs=1e-9)


def test_leep_is_the_mean_log_of_the_expected_prediction() -> None:
    memberships = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    y = np.arange(20) % 3
    given = np.stack([memberships[y == number].sum(axis=0) for number in range(3)]) / memberships.sum(axis=0)
    expected = np.mean([math.log(memberships[image] @ given[y[image]]) for image in range(20)])
    assert compute_leep(memberships, y, 3) == pytest.approx(expected, rel=1e-12)
    assert compute_leep(np.ones((20, 1)), np.repeat([0, 1], 10), 2) == pytest.approx(-math.log(2), rel=1e-12)
    assert compute_leep(np.eye(6)[2 * (np.arange(12) % 3) + np.arange(12) % 2], np.arange(12) % 3, 3) == 0


def test_nleep_is_leep_of_the_mixture_of_scikit_learn() -> None:
    z, y = problem(120, 10, apart=4.0)  # so far apart that no start of the fit finds another mixture
    for covariance in ("diag", "full"):
        found = nleep(z, y, per_class=1, covariance=covariance)
        reduced = PCA(0.8, svd_solver="full").fit_transform(z)
        assert found.n_directions == reduced.shape[1]
        reduced /= np.sqrt((reduced**2).mean())
        mixture = GaussianMixture(3, covariance_type=covariance, random_state=0).fit(reduced)
        assert found.value == pytest.approx(compute_leep(mixture.predict_proba(reduced), y, 3), abs=1e-6)
    few = nleep(z[:4], np.array([0, 1, 0, 1]))
    assert few.n_components == 2 and "2 Gaussians were fitted and not 10" in few.notes[0]
    cut_short = nleep(*problem(200, 6, apart=0.1), max_iter=1)
    assert not cut_short.converged and "not converged after 1 steps" in cut_short.notes[-1]


@pytest.mark.parametrize("score", SCORES)
def test_rotation_scale_order_and_names_change_nothing(score: Any) -> None:
    for n, dim in SHAPES:
        z, y = problem(n, dim, seed=3, apart=4.0)
        order = np.random.default_rng(0).permutation(n)
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, dim)))[0]
        changed = [(1e-3 * z, y), (2.0**200 * z, y), (z, np.array(["c", "a", "b"])[y])]
        if score is not nleep:  # whose fit starts elsewhere
            changed += [(z @ turn, y), (z[order], y[order])]
        if score is not logme:
            changed += [(z + 11.0, y)]
        usual = score(z, y).value
        for other, labels in changed:
            assert score(other, labels).value == pytest.approx(usual, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_classes_that_move_apart_score_higher(score: Any) -> None:
    values = [score(*problem(90, 8, seed=5, apart=apart)).value for apart in (0.1, 1.0, 5.0)]
    assert values == sorted(values)


@pytest.mark.parametrize("score", SCORES)
def test_bad_input_is_refused(score: Any) -> None:
    z, y = problem(12, 3)
    for fragment, features, labels in (
        ("one class only", z, np.zeros(12, dtype=int)),
        ("needs at least", z[:2], [0, 1]),
        ("are equal", np.ones((12, 3)), y),
        ("Row 1", np.where(np.arange(12)[:, None] == 1, np.nan, z), y),
        ("scale them", z * 1e150, y),
    ):
        with pytest.raises(DataError, match=fragment):
            score(features, labels)


def test_options_out_of_range_are_refused() -> None:
    z, y = problem(12, 3)
    with pytest.raises(DataError, match=r"one image only \(9 first\)"):
        gbc(z, np.where(np.arange(12) == 0, 9, y))
    for call in (
        lambda: logme(z, y, least_noise=0),
        lambda: h_score(z, y, shrinkage=0),
        lambda: gbc(z, y, covariance="full"),
        lambda: gbc(z, y, n_components=0),
        lambda: nleep(z, y, energy=0),
        lambda: nleep(z, y, covariance="round"),
        lambda: transrate(z, y, eps=0),
    ):
        with pytest.raises(QueryError):
            call()
