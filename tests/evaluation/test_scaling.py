"""Preparations of features: the same optimum as by hand, chosen on other rows, and any features that may come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.each import for_each
from zoo.errors import DataError, QueryError
from zoo.evaluation import LogisticProbe
from zoo.evaluation.measuring import FEWEST_TUNING, needs_cross_validation
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.scaling import split_folds

PREPARATIONS = PROTOCOLS["zoo-logistic-3"].settings["preparations"]


def drawn(n: int = 90, dim: int = 12, n_classes: int = 3, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features whose leading directions say nothing of the classes."""
    generator = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    x = generator.normal(size=(n, dim)) * np.geomspace(30.0, 0.3, dim)
    x[:, -n_classes:] += np.eye(n_classes)[y]
    return (x @ np.linalg.qr(np.random.default_rng(7).normal(size=(dim, dim)))[0] + 2.0), y


def by_hand(x: np.ndarray, preparation: str) -> np.ndarray:
    centred = x - x.mean(axis=0)
    if preparation == "as they are":
        return centred
    if preparation == "standardised":
        return centred / x.std(axis=0)
    strength = float(preparation.split()[1])
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    rank = int((values > 1e-10 * values[0]).sum())
    variances = values[:rank] ** 2 / len(x)
    return left[:, :rank] * values[:rank] / np.sqrt(variances + strength * variances.mean())


@for_each(PREPARATIONS)
def test_the_optimum_is_that_of_features_prepared_by_hand(preparation: str) -> None:
    for n, dim in ((90, 12), (30, 50)):
        x, y = drawn(n, dim)
        probe = LogisticProbe(C=0.7, preparations=(preparation,), precision="float64", tol=1e-10).fit(x, y)
        model = LogisticRegression(C=0.7, tol=1e-10, max_iter=20_000).fit(by_hand(x, preparation), y)
        expected = model.predict_proba(by_hand(x, preparation))
        assert np.abs(probe.predict_proba(x) - expected).max() < 1e-4
        logits = x @ probe.coef_.T + probe.intercept_
        assert np.abs(logits - probe.decision_function(x)).max() < 1e-6 * np.abs(logits).max()


@for_each(["as they are", "standardised", "whitened 0.001"])
def test_a_fit_that_float32_cannot_finish_goes_on_in_float64(preparation: str) -> None:
    x, y = drawn(60, 40)
    x = x.astype(np.float32)
    probe = LogisticProbe(preparations=(preparation,)).fit(x, y, x_val=x, y_val=y)
    assert probe.report_["converged"]
    assert np.array_equal(probe.predict(x), y)


def test_the_best_preparation_is_chosen_on_the_validation_rows() -> None:
    x, y = drawn(60, seed=1)
    x_val, y_val = drawn(300, seed=2)
    probe = LogisticProbe(preparations=PREPARATIONS).fit(x, y, x_val=x_val, y_val=y_val)
    tried = {one["preparation"]: one["validation_error_percent"] for one in probe.report_["preparations"]}
    assert tuple(tried) == PREPARATIONS
    chosen = probe.report_["preparation"]
    assert tried[chosen] == min(tried.values()) < tried["as they are"]
    c, p = probe.report_["C"], probe.predict_proba(x)
    again = probe.refit(x, y)
    assert again.report_["preparation"] == chosen and again.report_["C"] == pytest.approx(c)
    assert np.abs(again.predict_proba(x) - p).max() < 0.01
    alone = {
        name: LogisticProbe(preparations=(name,)).fit(x, y, x_val=x_val, y_val=y_val).report_ for name in PREPARATIONS
    }
    assert alone[chosen]["C"] == c


def test_the_scale_of_features_says_nothing_where_they_are_prepared() -> None:
    x, y = drawn(60, seed=1)
    x_val, _ = drawn(50, seed=2)
    sizes = np.geomspace(1e-12, 1e12, x.shape[1])
    for preparation, scaled in (("standardised", sizes), ("whitened 0.1", 1e-20), ("whitened 0.1", 1e15)):
        plain = LogisticProbe(C=1.0, preparations=(preparation,), precision="float64").fit(x, y)
        other = LogisticProbe(C=1.0, preparations=(preparation,), precision="float64").fit(x * scaled, y)
        found = other.predict_proba(x_val * scaled)
        assert np.abs(plain.predict_proba(x_val) - found).max() < 0.01


def odd(kind: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = drawn(40, 8, 4)
    x = x.astype(np.float32)
    if kind == "units that do not change":
        x[:, 3], x[:, 5] = 0.0, 1e4
    if kind == "units that change by rounding":
        x[:, 3] = np.float32(1e4) + np.float32(1e-3) * (y == 1)
    if kind == "rows that repeat":
        x, y = np.repeat(x[:20], 2, axis=0), np.repeat(y[:20], 2)
    if kind == "a class with one row":
        y = np.where(np.arange(40) == 7, 4, y)
    if kind == "more units than rows":
        x = np.tile(x, 20) + np.random.default_rng(0).normal(size=(40, 160)).astype(np.float32)
    if kind == "no unit that changes":
        x = np.ones_like(x)
    return x, y


@for_each(
    [
        "units that do not change",
        "units that change by rounding",
        "rows that repeat",
        "a class with one row",
        "more units than rows",
        "no unit that changes",
    ]
)
def test_odd_features_have_a_finite_fit(kind: str) -> None:
    x, y = odd(kind)
    settings: dict[str, Any] = PROTOCOLS["zoo-logistic-3"].settings | {"Cs": 8}
    by_folds = LogisticProbe(**settings).fit(x, y)
    by_rows = LogisticProbe(**settings).fit(x, y, x_val=x[::2] + np.float32(0.1), y_val=y[::2])
    for probe in (by_folds, by_rows):
        assert np.isfinite(probe.coef_).all() and np.isfinite(probe.intercept_).all()
        assert np.isfinite(probe.predict_proba(x)).all()
        assert probe.report_["converged"]
    for name in PREPARATIONS:
        alone = LogisticProbe(C=1.0, preparations=(name,)).fit(x, y)
        if kind == "units that do not change":
            assert not alone.coef_[:, [3, 5]].any()
        if kind == "units that change by rounding" and name == "standardised":
            assert not alone.coef_[:, 3].any()


def test_each_class_stays_in_every_fold_and_groups_are_together() -> None:
    generator = np.random.default_rng(3)
    y = generator.integers(5, size=80)
    y[:2] = 5, 6  # classes of one row
    groups = generator.integers(30, size=80)
    for some in (None, groups, np.arange(80)):
        folds = split_folds(y, 5, seed=0, groups=some)
        left_out = np.concatenate([out for _, out in folds])
        assert 2 <= len(folds) <= 5 and len(np.unique(left_out)) == len(left_out)
        for rows, out in folds:
            assert set(y[rows]) == set(y)
            assert np.array_equal(np.sort(np.append(rows, out)), np.arange(80))
            if some is not None:
                assert not np.intersect1d(some[rows], some[out]).size
    assert len(np.unique(np.concatenate([out for _, out in split_folds(y, 5, seed=0)]))) == 78
    for impossible in (np.arange(6), np.repeat(np.arange(3), 2)):
        with pytest.raises(DataError, match="No class has two images that are neither copies nor of one group"):
            split_folds(impossible, 5, seed=0, groups=impossible)


def test_cross_validation_chooses_on_the_labels_alone() -> None:
    x, y = drawn(60, seed=1)
    probe = LogisticProbe(**dict(PROTOCOLS["zoo-logistic-3"].settings)).fit(x, y)
    report = probe.report_
    assert (report["n_folds"], report["n_val"], report["n_train"]) == (5, 60, 60)
    assert report["preparation"] in PREPARATIONS[1:]
    values = LogisticProbe(preparations=PREPARATIONS, folds=3, Cs=[0.01, 1.0, 100.0]).fit(x, y)
    assert values.report_["C"] in (0.01, 1.0, 100.0)
    assert needs_cross_validation(probe, n_tuning=FEWEST_TUNING - 1, n_train=1000)
    assert not needs_cross_validation(probe, n_tuning=FEWEST_TUNING, n_train=1000)
    assert not needs_cross_validation(probe, n_tuning=60, n_train=60)  # it is tuned on what it is trained on
    assert not needs_cross_validation(LogisticProbe(), n_tuning=10, n_train=1000)


@for_each(
    [
        ({"preparations": ("whitened",)}, "There is no preparation 'whitened' of features; expected 'as they are'"),
        ({"preparations": ("whitened -1",)}, "expected .*a shrinkage above 0"),
        ({"preparations": ()}, r"preparations are \[\], expected one or more"),
        ({"preparations": PREPARATIONS, "C": 1.0}, "expected one, whose C is given"),
        ({"preparations": PREPARATIONS, "stop": "scikit-learn"}, "fits unscaled features.*zoo-logistic-2"),
        ({"folds": 1}, "folds is 1, expected 0 or a whole number from 2 on"),
    ],
    arguments=2,
)
def test_what_is_no_preparation_is_refused(options: dict[str, Any], message: str) -> None:
    x, y = drawn()
    with pytest.raises(QueryError, match=message):
        LogisticProbe(**options).fit(x, y)
