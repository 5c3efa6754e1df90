"""Leave-one-out ridge and neighbours: against refits by scikit-learn, invariances, groups, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier

from zoo.errors import DataError, QueryError
from zoo.evaluation import NeighbourProbe
from zoo.evaluation.transferability import (
    leave_one_out_neighbours,
    leave_one_out_ridge,
    neighbour_predictions,
    ridge_predictions,
)
from zoo.evaluation.transferability.components import centre_labelled, compute_components
from zoo.evaluation.transferability.leave_one_out import PENALTIES, _left_out_outputs, fit_ridge


def _clusters(n: int, dim: int, n_classes: int, *, seed: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return apart * random.normal(size=(n_classes, dim))[y] + random.normal(size=(n, dim)) + 3.0, y


def _refitted(z: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    """Outputs of each penalty for the images of a group by a fit of scikit-learn to all others."""
    targets = np.eye(y.max() + 1)[y]
    total = ((z - z.mean(axis=0)) ** 2).sum()
    found = []
    for share in PENALTIES:
        outputs = np.empty_like(targets)
        for group in np.unique(groups):
            out = groups == group
            outputs[out] = Ridge(alpha=share * total, solver="svd").fit(z[~out], targets[~out]).predict(z[out])
        found.append(outputs)
    return found


@pytest.mark.parametrize(("n", "dim"), [(40, 5), (24, 60), (13, 13), (14, 13)])
@pytest.mark.parametrize("grouped", [False, True])
def test_outputs_are_those_of_fits_without_the_image_or_group(n: int, dim: int, grouped: bool) -> None:
    z, y = _clusters(n, dim, 3, seed=n)
    groups = np.arange(n) if not grouped else np.random.default_rng(1).integers(0, n // 3, n)
    data = centre_labelled(z, y, least=3, needed_for="this test")
    found = _left_out_outputs(data, compute_components(data.z), groups if grouped else None)
    for (share, outputs, _), expected in zip(found, _refitted(z, y, groups), strict=True):
        # rounding in the products is magnified by up to the ratio of the sum of squares to the penalty
        np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-12 / share + 1e-10)


@pytest.mark.parametrize(("n", "dim"), [(40, 5), (24, 60)])
def test_a_fit_gives_other_images_the_outputs_of_scikit_learn(n: int, dim: int) -> None:
    z, y = _clusters(n, dim, 3, seed=3)
    others = _clusters(9, dim, 3, seed=4)[0]
    data = centre_labelled(z, y, least=3, needed_for="this test")
    fit = fit_ridge(data, None, by="squares")
    oracle = Ridge(alpha=fit.share * float(np.square(data.z).sum()), solver="svd").fit(z, data.targets)
    np.testing.assert_allclose(
        fit.outputs(others - z.mean(axis=0)), oracle.predict(others), rtol=0, atol=1e-12 / fit.share + 1e-10
    )


def test_ridge_takes_the_penalty_with_the_fewest_errors_and_the_largest_of_equals() -> None:
    z, y = _clusters(45, 10, 3, seed=2, apart=0.7)
    wrong = [int((outputs.argmax(axis=1) != y).sum()) for outputs in _refitted(z, y, np.arange(45))]
    found = ridge_predictions(z, y)
    assert found.chosen == PENALTIES[wrong.index(min(wrong))]
    assert found.value == pytest.approx(100 * (1 - min(wrong) / 45))
    assert found.correct.sum() == 45 - min(wrong)
    assert (found.correct == (found.predictions == y)).all()


def test_neighbours_are_those_of_scikit_learn() -> None:
    z, y = _clusters(60, 8, 4, seed=3)
    expected = []
    for row in range(60):
        rest = np.arange(60) != row
        probe = KNeighborsClassifier(7, metric="cosine", algorithm="brute", weights=lambda apart: np.exp(-apart / 0.07))
        expected.append(probe.fit(z[rest], y[rest]).predict(z[[row]])[0])
    assert neighbour_predictions(z, y, 7).predictions.tolist() == expected


def test_neighbours_outside_the_group_are_those_of_a_probe_that_never_saw_it() -> None:
    z, y = _clusters(50, 6, 3, seed=4)
    groups = np.random.default_rng(0).integers(0, 9, 50)
    expected = np.empty(50, dtype=int)
    for group in np.unique(groups):
        out = groups == group
        expected[out] = NeighbourProbe(k=5).fit(z[~out], y[~out]).predict(z[out])
    found = neighbour_predictions(z, y, 5, groups=groups)
    assert found.predictions.tolist() == expected.tolist()


@pytest.mark.parametrize("predictions", [ridge_predictions, neighbour_predictions])
def test_rotation_and_scale_change_nothing(predictions) -> None:
    z, y = _clusters(60, 20, 4, seed=6)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    usual = predictions(z, y).predictions.tolist()
    for other in (z @ turned, 1e-3 * z, 1e90 * z):
        assert predictions(other, y).predictions.tolist() == usual
    assert neighbour_predictions(z, y, 500).predictions.tolist() == neighbour_predictions(z, y, 59).predictions.tolist()


@pytest.mark.parametrize("predictions", [ridge_predictions, neighbour_predictions])
def test_order_of_rows_and_names_of_classes_do_not_matter(predictions) -> None:
    z, y = _clusters(40, 12, 3, seed=7)
    order = np.random.default_rng(0).permutation(40)
    names = np.array(["c", "a", "b"])
    usual = predictions(z, y)
    assert predictions(z[order], y[order]).predictions.tolist() == usual.predictions[order].tolist()
    assert predictions(z, names[y]).predictions.tolist() == names[usual.predictions].tolist()


@pytest.mark.parametrize("accuracy", [leave_one_out_ridge, leave_one_out_neighbours])
def test_an_image_alone_in_its_class_is_wrong_and_counted(accuracy) -> None:
    z, y = _clusters(20, 4, 2, seed=8, apart=20.0)
    y[3] = 2
    found = accuracy(z, y)
    assert found.n_alone == 1
    assert found.value <= 95
    assert "has no other of the same class" in found.notes[0]


def test_a_class_within_one_group_has_nothing_to_learn_from() -> None:
    z, y = _clusters(30, 4, 3, seed=8, apart=20.0)
    groups = np.where(y == 2, 100, np.arange(30))
    found = ridge_predictions(z, y, groups=groups)
    assert found.n_alone == 10
    assert not found.correct[y == 2].any()
    assert found.correct[y != 2].all()


@pytest.mark.parametrize("predictions", [ridge_predictions, neighbour_predictions])
def test_bad_input_is_refused(predictions) -> None:
    z, y = _clusters(10, 3, 2, seed=0)
    with pytest.raises(DataError, match="one class only"):
        predictions(z, np.zeros(10, dtype=int))
    with pytest.raises(DataError, match="needs at least 3"):
        predictions(z[:2], y[:2])
    with pytest.raises(DataError, match="rows of z are equal"):
        predictions(np.ones((10, 3)), y)
    with pytest.raises(DataError, match="one label for each of the 10 rows"):
        predictions(z, y[:9])
    with pytest.raises(DataError, match="of one group"):
        predictions(z, y, groups=np.ones(10))
    with pytest.raises(DataError, match="Row 4"):
        predictions(np.where(np.arange(10)[:, None] == 4, np.nan, z), y)
    for options in ({"k": 0}, {"temperature": 0}):
        with pytest.raises(QueryError):
            neighbour_predictions(z, y, **options)
