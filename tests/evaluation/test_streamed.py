"""The full-shot probe that is trained by passes over its data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from tests.each import for_each
from tests.planted_features import ORIGIN
from zoo.errors import DataError, QueryError
from zoo.evaluation.neighbours import NeighbourProbe
from zoo.evaluation.streamed import STANDARD, PassProgress, SearchSpace, StreamedProbe, create_study
from zoo.evaluation.streamed_training import Hyperparameters
from zoo.features import Features, load_features

DIM, CLASSES = 8, 4
SMALL: dict[str, Any] = {
    "n_trials": 8,
    "n_startup_trials": 6,
    "candidates_per_pass": 4,
    "epochs": 6,
    "batch_size": (16, 32, 64),
    "tuning_share": 0.4,
}

SPACE = SearchSpace(
    learning_rate_per_256=(1e-3, 1.0),
    weight_decay=(1e-8, 2e-4),
    batch_size=(512, 1024, 2048, 4096),
    batch_norm=(True, False),
    optimizer=("adam", "sgd"),
    schedule=("multistep", "cosine", "warmcosine"),
)


def drawn(n: int, seed: int, *, spread: float = 1.0, mean: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes, in the order of the classes as image sets are stored."""
    centres = np.random.default_rng(7).normal(size=(CLASSES, DIM))
    generator = np.random.default_rng(seed)
    y = np.sort(generator.integers(0, CLASSES, n))
    x = centres[y] + spread * generator.normal(size=(n, DIM)) + mean
    return x.astype(np.float32), y.astype(np.int64)


@pytest.fixture(scope="module")
def train_data() -> tuple[np.ndarray, np.ndarray]:
    return drawn(300, 0)


@pytest.fixture(scope="module")
def val_data() -> tuple[np.ndarray, np.ndarray]:
    return drawn(200, 1)


@pytest.fixture(scope="module")
def fitted(train_data: Any, val_data: Any) -> StreamedProbe:
    return StreamedProbe(**SMALL).fit(*train_data, x_val=val_data[0], y_val=val_data[1])


def test_the_probe_is_about_as_good_as_the_best_logistic_regression(train_data: Any, val_data: Any) -> None:
    options = {**SMALL, "epochs": 40, "n_trials": 12}
    probe = StreamedProbe(**options).fit(*train_data, x_val=val_data[0], y_val=val_data[1])
    best = max(LogisticRegression(C=c).fit(*train_data).score(*val_data) for c in (0.01, 0.1, 1.0))
    assert probe.score(*val_data) >= best - 0.02


def test_one_hot_features_are_learnt_and_constant_ones_give_the_most_frequent_class() -> None:
    y = np.repeat([3, 5, 9], [40, 20, 20])
    one_hot = (y[:, None] == [3, 5, 9]).astype(np.float32)
    options = {**SMALL, "epochs": 30, "batch_size": (16,), "learning_rate_per_256": (0.5, 1.0)}
    assert StreamedProbe(**options).fit(one_hot, y).score(one_hot, y) == 1.0
    constant = StreamedProbe(**options).fit(np.ones((80, 3), dtype=np.float32), y)
    assert set(constant.predict(np.ones((5, 3)))) == {3}


def test_the_report_says_what_was_chosen_and_is_json(fitted: StreamedProbe, val_data: Any) -> None:
    report = json.loads(json.dumps(fitted.report_))
    assert report["n_trials"] == len(report["trials"]) == 8
    assert report["validation_error_percent"] == pytest.approx(100 * (1 - fitted.score(*val_data)))
    probabilities = fitted.predict_proba(val_data[0])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    log_loss = -np.log(probabilities[np.arange(200), val_data[1]]).mean()
    assert report["validation_log_loss"] == pytest.approx(log_loss, rel=1e-5)
    best = min(report["trials"], key=lambda trial: (trial["validation_error_percent"], trial["validation_log_loss"]))
    assert {**best, "trial": report["trials"].index(best)} == report["chosen"]


def test_the_coefficients_are_the_probe_whatever_the_normalisation(train_data: Any) -> None:
    for batch_norm in (True, False):
        probe = StreamedProbe(**SMALL, batch_norm=(batch_norm,)).fit(*train_data)
        x = train_data[0]
        np.testing.assert_allclose(
            probe.decision_function(x), x @ probe.coef_.T + probe.intercept_, rtol=1e-3, atol=1e-4
        )
        assert np.array_equal(probe.predict(x), probe.classes_[probe.decision_function(x).argmax(axis=1)])


def test_features_in_a_folder_are_read_as_those_in_memory(train_data: Any, val_data: Any, tmp_path: Path) -> None:
    Features(*train_data, ORIGIN).save(tmp_path / "features", shard_size=70)
    stored = load_features(tmp_path / "features")
    for options in ({}, {"window_bytes": 4 * DIM * 64}):
        probe = StreamedProbe(**SMALL, **options).fit(stored.x, stored.y)
        assert np.array_equal(probe.coef_, StreamedProbe(**SMALL, **options).fit(*train_data).coef_)
        assert np.array_equal(probe.predict(stored.x), probe.predict(train_data[0]))
    by_neighbours = NeighbourProbe(k=5).fit(stored.x, stored.y)
    assert np.array_equal(by_neighbours.predict(stored.x), NeighbourProbe(k=5).fit(*train_data).predict(stored.x))


def test_trainings_that_diverge_are_reported_and_the_best_of_the_others_is_used(train_data: Any, val_data: Any) -> None:
    options = {**SMALL, "learning_rate_per_256": (1e-2, 1e30), "standard_first": False, "n_trials": 10}
    probe = StreamedProbe(**options).fit(1e6 * train_data[0], train_data[1], x_val=1e6 * val_data[0], y_val=val_data[1])
    diverged = [trial for trial in probe.report_["trials"] if trial["diverged_at_epoch"] is not None]
    assert 0 < probe.report_["n_diverged"] == len(diverged) < 10
    assert all(trial["validation_error_percent"] is None for trial in diverged)
    assert np.isfinite(probe.coef_).all()
    json.dumps(probe.report_, allow_nan=False)


def test_progress_is_told_after_every_epoch(train_data: Any) -> None:
    told: list[PassProgress] = []
    StreamedProbe(**SMALL, progress=told.append).fit(*train_data)
    assert [one.epoch for one in told] == list(range(1, 7)) * 3  # two rounds, and the final training
    assert [one.n_candidates for one in told[::6]] == [4, 4, 1]
    assert {one.stage for one in told[:-6]} == {"tuning"} and {one.stage for one in told[-6:]} == {"final"}


def test_it_is_a_scikit_learn_classifier() -> None:
    probe = StreamedProbe(
        n_trials=1,
        epochs=20,
        batch_size=(16,),
        optimizer=("sgd",),
        batch_norm=(True,),
        schedule=("cosine",),
        learning_rate_per_256=(4.0, 5.0),
        tuning_share=1.0,
        standard_first=False,
    )
    assert clone(probe).get_params() == probe.get_params()
    reasons = {
        "check_dtype_object": "DataError is a ValueError, whatever is wrong with the features",
        "check_supervised_y_2d": "a column of labels is taken as labels, without a warning",
    }
    check_estimator(probe, expected_failed_checks=reasons, on_skip=None)


@for_each(
    [
        ({"n_trials": 0}, "n_trials is 0, expected at least 1"),
        ({"tuning_share": 0.0}, "tuning_share is 0.0"),
        ({"optimizer": ("sgdd",)}, "optimizer is .*expected at least one of adam, sgd"),
        ({"batch_size": (1,)}, "batch_size is .*2 rows or more"),
        ({"weight_decay": (0.0, 1.0)}, "weight_decay is .*0 < lowest <= highest"),
    ],
    arguments=2,
)
def test_options_out_of_range_are_refused(options: dict[str, Any], said: str, train_data: Any) -> None:
    with pytest.raises(QueryError, match=said):
        StreamedProbe(**{**SMALL, **options}).fit(*train_data)


def test_data_that_is_not_as_expected_is_refused_in_a_sentence(train_data: Any, fitted: StreamedProbe) -> None:
    x, y = train_data
    bad = x.copy()
    bad[17, 2] = np.nan
    probe = StreamedProbe(**SMALL)
    for call, said in [
        (lambda: probe.fit(bad, y), "Row 17 of x holds nan as feature 2"),
        (lambda: probe.fit(x, y, x_val=bad, y_val=y), "Row 17 of x_val holds nan"),
        (lambda: probe.fit(x, np.zeros(300)), "one class only"),
        (lambda: probe.fit(x[:0], y[:0]), "x is empty"),
        (lambda: probe.fit(x, y, x_val=x[:, :3], y_val=y), "x_val has 3 features, but the probe is expecting 8"),
        (lambda: probe.fit(x, y, x_val=x), "only one of x_val and y_val"),
        (lambda: probe.fit(x, None), "requires y to be passed"),
        (lambda: fitted.predict(x[:, :3]), "X has 3 features, but StreamedProbe is expecting 8"),
        (lambda: fitted.predict(bad), "Row 17 of x holds nan"),
        (lambda: probe.fit(x[:2], [0, 1]), "No class has two rows"),
    ]:
        with pytest.raises(DataError, match=said):
            call()


def asked(study: Any, n: int, space: SearchSpace = SPACE) -> list[Hyperparameters]:
    return [Hyperparameters(**study.ask(space.distributions).params) for _ in range(n)]


def test_the_first_trials_are_standard_settings_and_the_space_is_covered_at_random() -> None:
    found = asked(create_study(SPACE, seed=0, n_startup=20, standard_first=True), 20)
    assert tuple(found[:5]) == STANDARD
    assert all(one in SPACE for one in found)
    assert len(set(found)) == 20
    assert {one.optimizer for one in found[5:]} == {"adam", "sgd"}


def test_later_trials_learn_from_earlier_ones_and_differ_among_themselves() -> None:
    def later() -> list[Hyperparameters]:
        study = create_study(SPACE, seed=5, n_startup=20, standard_first=False)
        for number in range(20):
            trial = study.ask(SPACE.distributions)
            rate = trial.params["learning_rate_per_256"]
            study.tell(trial, 100 if number % 9 == 8 else 50 - 10 * np.log10(rate))  # some diverged
        return asked(study, 10)

    found = later()
    assert len(set(found)) == 10
    assert np.median([one.learning_rate_per_256 for one in found]) > 0.2  # of 0.001 to 1, the larger the better
    assert found == later()


def test_standard_settings_outside_the_space_are_left_out() -> None:
    small = replace(SPACE, batch_size=(512,), batch_norm=(True,), optimizer=("sgd",), schedule=("multistep",))
    found = asked(create_study(small, seed=0, n_startup=3, standard_first=True), 3, small)
    assert found[0] == STANDARD[2] and not set(found[1:]) & set(STANDARD)


def test_the_same_seed_gives_the_same_probe(train_data: Any, fitted: StreamedProbe, val_data: Any) -> None:
    again = StreamedProbe(**SMALL).fit(*train_data, x_val=val_data[0], y_val=val_data[1])
    assert np.array_equal(again.coef_, fitted.coef_) and again.report_ == fitted.report_
