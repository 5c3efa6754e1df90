"""Ridge regression to numbers: scikit-learn's, with planted answers, and what goes into the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, cross_val_predict

from tests.planted_features import features
from zoo.datasets.images import get_numbers, hash_group_names
from zoo.errors import DataError, QueryError
from zoo.evaluation import evaluate, load_probe, save_probe
from zoo.evaluation.evaluating import Request
from zoo.evaluation.regression import (
    METRIC,
    UNIT,
    RidgeProbe,
    compute_number_metrics,
    evaluate_numbers,
    make_number_rows,
)
from zoo.features import Features
from zoo.results.vocabulary import METRICS

REQUEST = Request(n_bootstrap=500)


def planted(n: int, *, r2: float, dim: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of different scales, and a number of which their best linear map explains the share r2."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, dim))
    signal = x @ np.ones(dim) / dim**0.5
    y = 40 + 10 * (np.sqrt(r2) * signal + np.sqrt(1 - r2) * random.standard_normal(n))
    return 3.0 + x * 10.0 ** np.arange(dim), y


def parts(x: np.ndarray, y: np.ndarray, n: int) -> tuple[Features, Features]:
    """Features labelled with numbers, whose first n are trained on; both parts share the list of the numbers."""
    places = {"train": np.arange(n), "val": np.arange(n, len(y))}
    classes = tuple(map(repr, y.tolist()))
    train, test = (
        replace(features(x[some], some, split=split), classes=classes, target="age") for split, some in places.items()
    )
    return train, test


def pair(*, r2: float = 0.8, n: int = 300, n_test: int = 200, seed: int = 0) -> tuple[Features, Features]:
    return parts(*planted(n + n_test, r2=r2, seed=seed), n)


@pytest.mark.parametrize(("n", "dim"), [(60, 8), (20, 40)])
def test_the_probe_is_the_ridge_of_scikit_learn_and_its_r2_that_of_left_out_images(n: int, dim: int) -> None:
    x, y = planted(n, r2=0.7, dim=5, seed=1)
    x = np.concatenate([x, np.random.default_rng(2).standard_normal((n, dim - 5)), np.full((n, 1), 7.0)], axis=1)
    probe = RidgeProbe().fit(x, y)
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), np.inf)
    oracle = Ridge(alpha=probe.report_["alpha"]).fit(z, y)
    assert np.allclose(probe.predict(x), oracle.predict(z), rtol=1e-6)
    assert probe.coef_[-1] == 0  # of the unit that does not change
    for groups, folds in ((None, LeaveOneOut()), (np.arange(n) // 3, LeaveOneGroupOut())):
        chosen = RidgeProbe().fit(x, y, groups=groups).report_
        left_out = cross_val_predict(Ridge(alpha=chosen["alpha"]), z, y, groups=groups, cv=folds)
        assert chosen["left_out_r2"] == pytest.approx(r2_score(y, left_out), abs=1e-6)


def test_metrics_are_those_of_scikit_learn_with_ties_and_groups_widen_intervals() -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 9, 200).astype(float)
    predicted = y + random.normal(0, 2, 200).round()
    found = compute_number_metrics(y, predicted, n_draws=300).metrics
    assert found["r2"].value == pytest.approx(r2_score(y, predicted))
    assert found["mean_absolute_error"].value == pytest.approx(mean_absolute_error(y, predicted))
    assert found["spearman"].value == pytest.approx(spearmanr(y, predicted).statistic)
    alike, groups = np.tile([y, predicted], 5), np.tile(np.arange(200), 5)
    grouped = compute_number_metrics(*alike, groups=groups, n_draws=300).metrics["r2"]
    alone = compute_number_metrics(*alike, n_draws=300).metrics["r2"]
    assert grouped.ci_high - grouped.ci_low > 1.5 * (alone.ci_high - alone.ci_low)  # type: ignore[operator]


def test_the_planted_r2_is_in_most_intervals_and_a_permuted_number_is_not_explained() -> None:
    held, chance = 0, []
    for seed in range(40):
        x, y = planted(2200, r2=0.6, seed=seed)
        fit, rest = RidgeProbe().fit(x[:2000], y[:2000]), slice(2000, None)
        found = compute_number_metrics(y[rest], fit.predict(x[rest]), n_draws=400).metrics["r2"]
        held += found.ci_low <= 0.6 <= found.ci_high  # type: ignore[operator]
        shuffled = np.random.default_rng(seed).permutation(y)
        by_chance = RidgeProbe().fit(x[:2000], shuffled[:2000])
        chance.append(compute_number_metrics(shuffled[rest], by_chance.predict(x[rest]), n_draws=400).metrics["r2"])
    assert held >= 33  # 38 are expected, and fewer than 33 of 40 once in 900 series
    assert abs(float(np.mean([one.value for one in chance]))) < 0.03 and max(one.value for one in chance) < 0.1


def test_an_outlier_may_leave_more_unexplained_than_there_is() -> None:
    found = compute_number_metrics([1.0, 2.0, 3.0], [1.0, 2.0, 30.0], n_draws=100)
    assert found.metrics["r2"].value < -300 and found.unexplained.value > 100
    assert found.unexplained.ci_low <= found.unexplained.value <= found.unexplained.ci_high  # type: ignore[operator]


def test_more_labels_explain_more_and_every_probe_is_a_row() -> None:
    found = evaluate_numbers(*pair(), replace(REQUEST, settings=("full", "5%"), n_seeds=3))
    few, full = found.settings
    assert (few.n_train, len(few.runs), full.n_train, len(full.runs)) == (15, 3, 300, 1)
    assert few.metrics.metrics["r2"].value < full.metrics.metrics["r2"].value
    assert few.metrics.metrics["r2"].ci_high <= 1 and few.metrics.metrics["spearman"].ci_high <= 1  # type: ignore[operator]
    rows = make_number_rows(found)
    assert [(row.metric, row.unit, row.protocol) for row in rows] == [(METRIC, UNIT, "zoo-ridge-1")] * 4
    assert METRICS[METRIC].unit == UNIT and METRICS[METRIC].lower_is_better
    (last,) = (row for row in rows if row.split == "train -> val")
    assert last.value == pytest.approx(100 * (1 - full.metrics.metrics["r2"].value))
    assert rows[last]["report"]["metrics"]["spearman"]["value"] == full.metrics.metrics["spearman"].value


def test_copies_and_groups_choose_no_penalty_for_each_other() -> None:
    random = np.random.default_rng(0)
    noise, y = (random.standard_normal(shape).repeat(3, axis=0) for shape in ((40, 300), 40))  # of each patient three
    groups = hash_group_names([f"patient {number // 3}" for number in range(120)])
    train, test = parts(noise, y, 60)
    for alike in ({"groups": groups}, {"contents": groups}):
        both = [replace(part, **{name: one[part.y] for name, one in alike.items()}) for part in (train, test)]
        found = evaluate_numbers(both[0], both[1], replace(REQUEST, settings=("full",)))
        assert found.kept.probe.about["chosen"]["left_out_r2"] < 0.2
    alone = evaluate_numbers(train, test, replace(REQUEST, settings=("full",))).kept.probe.about["chosen"]
    assert alone["left_out_r2"] > 0.9  # each is known from its twins


def test_a_saved_probe_predicts_the_same_numbers(tmp_path: Path) -> None:
    train, test = pair()
    kept = evaluate_numbers(train, test, REQUEST).kept
    loaded = load_probe(save_probe(kept.probe, tmp_path / "probe"))
    assert (loaded.kind, loaded.classes) == ("numbers", ("age",))
    expected = RidgeProbe().fit(train.x, get_numbers(train)).predict(test.x)
    assert np.allclose(loaded.predict_proba(test)[:, 0], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"settings": ("30-shot",)}, QueryError, "'30-shot' is a number of labels per class"),
        ({"settings": ("full", "full")}, QueryError, "asked for twice"),
    ],
)
def test_settings_of_classes_are_refused(change: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        evaluate_numbers(*pair(), replace(REQUEST, **change))


def test_probes_of_classes_and_of_numbers_refuse_each_others_labels_and_too_little_is_said() -> None:
    train, test = pair()
    with pytest.raises(DataError, match="The labels of 'planted-images' are 'age'"):
        evaluate(train, test, REQUEST)
    with pytest.raises(DataError, match="are classes"):
        evaluate_numbers(replace(train, target=""), replace(test, target=""), REQUEST)
    few = pair(n=9)
    with pytest.raises(DataError, match="has 9 training and 200 test images with numbers; expected at least 10"):
        evaluate_numbers(*few, REQUEST)
    with pytest.raises(DataError, match="have one number"):
        compute_number_metrics([3.0, 3.0], [1.0, 2.0])
    with pytest.raises(DataError, match="got 2 images; expected at least 3"):
        RidgeProbe().fit(np.eye(2), [1, 2])
    assert (
        RidgeProbe().fit(np.random.default_rng(0).random((20, 3)), np.ones(20)).predict(np.eye(3)).tolist() == [1.0] * 3
    )
