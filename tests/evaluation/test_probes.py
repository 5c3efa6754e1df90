"""The logistic probe as its users see it: which C it chooses, what it reports, what it refuses."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import check_estimator

from tests.each import for_each
from zoo.errors import DataError, QueryError
from zoo.evaluation import LogisticProbe
from zoo.evaluation.logistic_path import PathPoint

CLASSES = 6


def drawn(n: int, seed: int, *, apart: float = 1.0, dim: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Classes with means in a few directions, noise in all of them: regularisation matters."""
    generator = np.random.default_rng(seed)
    means = np.zeros((CLASSES, dim))
    means[:, :4] = np.random.default_rng(99).normal(size=(CLASSES, 4)) * 1.5 * apart
    y = np.arange(n) % CLASSES
    return (means[y] + generator.normal(size=(n, dim))).astype(np.float32), y


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    (x, y), (x_val, y_val) = drawn(72, 0), drawn(600, 1)
    return {"x": x, "y": y, "x_val": x_val, "y_val": y_val}


def test_the_chosen_c_is_as_good_as_the_best_of_a_fine_grid_of_converged_fits(data: dict[str, Any]) -> None:
    probe = LogisticProbe(select="log_loss").fit(**data)
    losses = [
        log_loss(
            data["y_val"],
            LogisticRegression(C=c, tol=1e-8, max_iter=5000).fit(data["x"], data["y"]).predict_proba(data["x_val"]),
        )
        for c in np.geomspace(1e-3, 1e1, 33)
    ]
    assert probe.report_["validation_log_loss"] <= min(losses) * 1.001
    assert probe.report_["validation_log_loss"] == pytest.approx(
        log_loss(data["y_val"], probe.predict_proba(data["x_val"])), rel=1e-5
    )
    assert probe.report_["converged"] and probe.report_["gap"] <= 1e-4


def test_the_least_validation_error_is_chosen_when_it_is_asked_for(data: dict[str, Any]) -> None:
    by_error = LogisticProbe(select="error").fit(**data)
    missed = 100 * np.mean(by_error.predict(data["x_val"]) != data["y_val"])
    assert by_error.report_["validation_error_percent"] == pytest.approx(missed)
    grid = LogisticProbe(select="error", Cs=[10.0**power for power in range(-4, 4)]).fit(**data)
    best = min(grid.path_, key=lambda one: (one["validation_error_percent"], one["validation_log_loss"]))
    assert grid.report_["C"] == best["C"]
    assert by_error.report_["validation_error_percent"] <= best["validation_error_percent"] + 0.5


def test_of_equal_errors_the_lower_log_loss_wins_and_then_stronger_regularisation() -> None:
    x, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    probe = LogisticProbe(Cs=[0.1, 1.0, 10.0]).fit(x, y, x_val=x, y_val=y)  # none misses an image
    assert probe.report_["C"] == pytest.approx(10.0)
    constant = LogisticProbe(Cs=[0.1, 1.0, 10.0]).fit(x * 0, y, x_val=x, y_val=y)  # all are alike
    assert constant.report_["C"] == pytest.approx(0.1)


def test_the_search_goes_on_to_stronger_penalties_where_the_features_tell_nothing() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(40, 60)), np.arange(40) % 4
    noise = LogisticProbe(select="log_loss").fit(x, y, x_val=generator.normal(size=(400, 60)), y_val=np.arange(400) % 4)
    assert noise.report_["C"] < noise.path_[0]["C"]
    assert noise.report_["validation_log_loss"] == pytest.approx(math.log(4), rel=0.02)


def test_scikit_learns_own_stop_gives_scikit_learns_own_fit(data: dict[str, Any]) -> None:
    probe = LogisticProbe(C=5.0, stop="scikit-learn", tol=1e-4).fit(data["x"], data["y"])
    model = LogisticRegression(C=5.0, max_iter=1000).fit(data["x"], data["y"])
    np.testing.assert_array_equal(probe.coef_, model.coef_.astype(np.float64))
    np.testing.assert_array_equal(probe.predict(data["x_val"]), model.predict(data["x_val"]))
    converged = LogisticProbe(C=5.0).fit(data["x"], data["y"])
    assert converged.report_["objective"] <= probe.report_["objective"] * (1 + 1e-6)
    searched = LogisticProbe(stop="scikit-learn", select="log_loss", Cs=8).fit(**data)
    assert len(searched.path_) <= 8
    assert searched.report_["validation_log_loss"] == min(one["validation_log_loss"] for one in searched.path_)


@pytest.mark.parametrize(("n_classes", "size", "share"), [(2, 1e-5, 0.5), (2, 1e-5, 0.9), (40, 1e-4, None)])
def test_features_that_scikit_learn_takes_for_fitted_with_weights_of_zero_are_refused(
    n_classes: int, size: float, share: float | None
) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(400) % n_classes if share is None else (np.arange(400) >= share * 400).astype(int)
    x = 5 * generator.normal(size=(n_classes, 16))[y] + generator.normal(size=(400, 16))  # easily told apart
    blind = LogisticRegression(C=1e6, max_iter=1000).fit(size * x, y)
    assert (blind.predict(size * x) == y).mean() <= (share or 1.5 / n_classes)
    for options in ({"C": 1e6}, {"Cs": 5}, {}):
        with pytest.raises(DataError, match="ends without a weight"):
            LogisticProbe(stop="scikit-learn", **options).fit(size * x, y)
    for probe, seen in ((LogisticProbe(), size * x), (LogisticProbe(stop="scikit-learn", C=10.0), x)):
        assert probe.fit(seen, y).score(seen, y) > 0.95


@pytest.mark.parametrize("kind", ["zero", "constant", "told apart by no plane"])
def test_features_without_a_slope_at_any_size_are_guessed_by_either_stop(kind: str) -> None:
    y = np.arange(40) % 2
    square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]], np.float32)[np.arange(40) % 4]
    x = {"zero": 0 * square, "constant": 0 * square + np.float32(3.7), "told apart by no plane": square}[kind]
    for stop in ("scikit-learn", "convergence"):
        assert LogisticProbe(stop=stop, C=1.0).fit(x, y).score(x, y) == 0.5


def test_any_labels_are_given_back_and_those_not_trained_are_never_predicted(data: dict[str, Any]) -> None:
    names = np.array([-5, 3, 2**40, 7, 11, 12])
    y_val = names[data["y_val"]]
    y_val[:6] = 999
    probe = LogisticProbe().fit(data["x"], names[data["y"]], x_val=data["x_val"], y_val=y_val)
    assert probe.classes_.tolist() == sorted(names.tolist())
    predicted = probe.predict(data["x_val"])
    assert predicted.dtype == np.int64 and 999 not in predicted
    assert probe.report_["n_unseen_validation_labels"] == 6 and probe.report_["validation_error_percent"] >= 1.0


def test_the_report_and_the_path_are_json_and_the_fit_can_be_pickled(data: dict[str, Any]) -> None:
    told: list[PathPoint] = []
    probe = LogisticProbe(progress=told.append).fit(**data)
    assert [one.C for one in told] == [one["C"] for one in probe.path_] and len(told) == probe.report_["n_fits"]
    assert json.loads(json.dumps([probe.report_, probe.path_], allow_nan=False)) == [probe.report_, probe.path_]
    again = pickle.loads(pickle.dumps(LogisticProbe(C=1.0).fit(data["x"], data["y"])))
    assert again.predict(data["x_val"]).shape == (600,)
    assert probe.report_["products_of_all"] >= 2 * probe.report_["iterations_of_all"]


def test_it_is_a_scikit_learn_classifier() -> None:
    probe = LogisticProbe()
    assert clone(probe).get_params() == probe.get_params()
    reasons = {
        "check_dtype_object": "DataError is a ValueError, whatever is wrong with the features",
        "check_supervised_y_2d": "a column of labels is taken as labels, without a warning",
    }
    check_estimator(probe, expected_failed_checks=reasons, on_skip=None)


@for_each(
    [
        ({"select": "accuracy"}, "select is 'accuracy', expected one of 'error', 'log_loss'"),
        ({"stop": "early"}, "stop is 'early'"),
        ({"precision": "bfloat16"}, "precision is 'bfloat16'"),
        ({"precision": "auto"}, "precision is 'auto', expected one of 'float32', 'float64'"),
        ({"Cs": 1}, "Cs is 1, expected 3 fits or more"),
        ({"Cs": []}, "expected 3 fits or more, values of C"),
        ({"Cs": [1.0, 0.0]}, "C is 0.0, expected a finite number above 0"),
        ({"C": math.inf}, "C is inf"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_iter": 0}, "max_iter is 0"),
    ],
    arguments=2,
)
def test_an_option_without_a_meaning_is_refused(options: dict[str, Any], said: str, data: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=said):
        LogisticProbe(**options).fit(**data)


def test_what_cannot_be_fitted_is_refused_in_one_sentence(data: dict[str, Any]) -> None:
    x, y, x_val, y_val = data.values()
    broken = x.copy()
    broken[17, 3] = np.nan
    for changed, said in (
        ({"x": broken}, "Row 17 of x holds NaN or infinity"),
        ({"x_val": x_val * np.float32(np.inf)}, "Row 0 of x_val holds NaN"),
        ({"y": np.zeros(72, dtype=int)}, "one class only"),
        ({"y": y[:-1]}, "y has the shape"),
        ({"y": None}, "requires y to be passed"),
        ({"x_val": x_val[:, :5]}, "x_val has 5 features"),
        ({"y_val": None}, "only one of x_val and y_val"),
    ):
        with pytest.raises(DataError, match=said):
            LogisticProbe().fit(**{"x": x, "y": y, "x_val": x_val, "y_val": y_val, **changed})
    with pytest.raises(DataError, match="No class has two images"):
        LogisticProbe().fit(x[:6], y[:6])
    probe = LogisticProbe(C=1.0).fit(x, y)
    with pytest.raises(DataError, match="Row 17 of x"):
        probe.predict(broken)
    with pytest.raises(DataError, match="expecting 24 features"):
        probe.predict(x[:, :3])
