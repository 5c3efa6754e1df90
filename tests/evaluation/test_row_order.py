"""Rows of features in any order give the same numbers: metrics of features, of predictions, and probes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import drawn
from zoo.errors import ZooError
from zoo.evaluation import LogisticProbe, NeighbourProbe, classification_metrics
from zoo.evaluation.label_free.catalogue import compute
from zoo.evaluation.ranking_metrics import ScoreRanking
from zoo.results.vocabulary import FEATURE_METRICS

METRICS = [
    name
    for name, metric in FEATURE_METRICS.items()
    if metric.needs in ("features", "labels") and name != "nleep"  # its mixture of scikit-learn's starts from the order
]
SEEDS, ROWS = st.integers(0, 2**32 - 1), st.integers(12, 40)


def labelled(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of three classes, their labels, and an order of the rows."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    z = random.standard_normal((n, 5)) + 2 * np.eye(5)[y]
    return z.astype(np.float32), y, random.permutation(n)


def value_or_sentence(name: str, z: np.ndarray, y: np.ndarray) -> float | str:
    """The value of a metric, or why there is none."""
    labels: dict[str, Any] = {} if FEATURE_METRICS[name].needs == "features" else {"y": y}
    try:
        return compute(name, z=z, **labels).value
    except ZooError as error:
        return str(error)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_of_features_does_not_see_the_order_of_rows(name: str) -> None:
    @drawn
    @given(SEEDS, ROWS)
    def check(seed: int, n: int) -> None:
        z, y, order = labelled(seed, n)
        plain, shuffled = value_or_sentence(name, z, y), value_or_sentence(name, z[order], y[order])
        assert shuffled == (plain if isinstance(plain, str) else pytest.approx(plain, rel=1e-6, abs=1e-9))

    check()


@drawn
@given(SEEDS, ROWS)
def test_metrics_of_predictions_do_not_see_the_order_of_images(seed: int, n: int) -> None:
    z, y, order = labelled(seed, n)
    shares = np.exp(z[:, :3].astype(np.float64).round(1))  # with ties
    shares /= shares.sum(axis=1, keepdims=True)
    plain, shuffled = (
        classification_metrics(y[rows], shares[rows], n_draws=0).as_dict() for rows in (np.arange(n), order)
    )
    assert set(shuffled["metrics"]) == set(plain["metrics"])
    for name, found in plain["metrics"].items():
        assert shuffled["metrics"][name]["value"] == pytest.approx(found["value"], rel=1e-9, abs=1e-12, nan_ok=True)
    one, other = (ScoreRanking(shares[rows, 0], y[rows] == 0).of(np.ones((n, 1))) for rows in (np.arange(n), order))
    assert one.auroc == pytest.approx(other.auroc) and one.average_precision == pytest.approx(other.average_precision)


@drawn
@given(SEEDS, ROWS)
def test_probes_do_not_see_the_order_of_training_rows(seed: int, n: int) -> None:
    z, y, order = labelled(seed, n)
    queries, _, _ = labelled(seed + 1, 30)
    for probe in (LogisticProbe(C=1.0, tol=1e-8), NeighbourProbe(k=5)):
        plain = probe.fit(z, y).predict_proba(queries)
        shuffled = probe.fit(z[order], y[order]).predict_proba(queries)
        assert shuffled == pytest.approx(plain, abs=1e-3)
        assert probe.fit(z, y).predict_proba(queries[::-1])[::-1] == pytest.approx(plain, abs=1e-6)
