"""NLEEP: closed forms of LEEP, scikit-learn's mixture, invariances, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from zoo.errors import DataError, QueryError
from zoo.evaluation.transferability import nleep
from zoo.evaluation.transferability.mixtures import leep


def _problem(n: int, dim: int, n_classes: int = 3, *, apart: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return apart * random.normal(size=(n_classes, dim))[y] + random.normal(size=(n, dim)), y


def test_leep_is_the_mean_log_of_the_expected_prediction() -> None:
    memberships = np.random.default_rng(0).dirichlet(np.ones(4), size=20)
    y = np.arange(20) % 3
    total = 0.0
    for image in range(20):
        expected = 0.0
        for component in range(4):
            of_component = memberships[:, component]
            expected += memberships[image, component] * of_component[y == y[image]].sum() / of_component.sum()
        total += math.log(expected)
    assert leep(memberships, y, 3) == pytest.approx(total / 20, rel=1e-12)


def test_leep_of_one_component_is_minus_the_entropy_of_the_labels() -> None:
    y = np.repeat([0, 1], [15, 5])
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert leep(np.ones((20, 1)), y, 2) == pytest.approx(-entropy, rel=1e-12)


def test_leep_of_components_of_one_class_each_is_zero() -> None:
    y = np.arange(12) % 3
    assert leep(np.eye(6)[2 * y + np.arange(12) % 2], y, 3) == 0


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_nleep_is_leep_of_the_mixture_of_scikit_learn(covariance: str) -> None:
    z, y = _problem(120, 10, apart=4.0)  # so far apart that no start of the fit finds another mixture
    found = nleep(z, y, per_class=1, covariance=covariance)
    reduced = PCA(0.8, svd_solver="full").fit_transform(z)
    assert found.n_directions == reduced.shape[1]
    reduced /= np.sqrt((reduced**2).mean())
    mixture = GaussianMixture(3, covariance_type=covariance, random_state=0).fit(reduced)
    assert found.value == pytest.approx(leep(mixture.predict_proba(reduced), y, 3), abs=1e-6)


def test_classes_far_apart_score_zero_and_one_gaussian_scores_minus_the_entropy() -> None:
    z, y = _problem(90, 4, apart=200.0)
    assert nleep(z, y, per_class=1).value == pytest.approx(0, abs=1e-9)
    few = nleep(z[:4], np.array([0, 1, 0, 1]))
    assert few.n_components == 2
    assert "2 Gaussians were fitted and not 10" in few.notes[0]


def test_scale_shift_and_names_change_nothing() -> None:
    z, y = _problem(90, 6)
    usual = nleep(z, y)
    for other in (1e-3 * z, 1e6 * z, z + 2.0):
        assert nleep(other, y).value == pytest.approx(usual.value, abs=1e-6)
    assert nleep(z, np.array(["c", "a", "b"])[y]).value == pytest.approx(usual.value, abs=1e-9)
    assert nleep(z, y, seed=0).value == usual.value <= 0


def test_a_fit_that_was_cut_short_is_said() -> None:
    z, y = _problem(200, 6, apart=0.1)
    found = nleep(z, y, max_iter=1)
    assert not found.converged
    assert "had not converged after 1 steps" in found.notes[-1]


def test_bad_input_is_refused() -> None:
    z, y = _problem(12, 3)
    with pytest.raises(DataError, match="one class only"):
        nleep(z, np.zeros(12, dtype=int))
    with pytest.raises(DataError, match="needs at least 4"):
        nleep(z[:3], y[:3])
    with pytest.raises(DataError, match="rows of z are equal"):
        nleep(np.ones((12, 3)), y)
    with pytest.raises(DataError, match="Row 3 of z holds NaN"):
        nleep(np.where(np.arange(12)[:, None] == 3, np.nan, z), y)
    with pytest.raises(QueryError, match="energy is 0"):
        nleep(z, y, energy=0)
    with pytest.raises(QueryError, match="covariance is 'round'"):
        nleep(z, y, covariance="round")
