"""A monitor gives what the functions give for all that it has seen, in one process or in many."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from tests.evaluation.label_free.planted_spectra import SPECTRA, planted
from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import rank
from zoo.evaluation.label_free.monitor import Monitor
from zoo.evaluation.label_free.pairs import alignment
from zoo.evaluation.label_free.scatter import lidar


def views_drawn(n: int = 400, q: int = 4, dim: int = 30, *, spread: float = 0.3) -> np.ndarray:
    generator = np.random.default_rng(0)
    scales = np.arange(1.0, dim + 1) ** -0.5
    images = generator.normal(size=(n, 1, dim)) * scales + 0.5
    return (images + spread * generator.normal(size=(n, q, dim)) * scales).astype(np.float32)


def followed(*batches: Any, **options: Any) -> Monitor:
    monitor = Monitor(**options)
    for batch in batches:
        monitor.update(batch)
    return monitor


def expected_of(rows: np.ndarray) -> dict[str, float]:
    return {
        "rankme": rank.rankme(rows),
        "feature_rank": rank.feature_rank(rows),
        "correlation_rank": rank.correlation_rank(rows).value,
        "alpha_req": rank.alpha_req(rows).value,
    }


@pytest.mark.parametrize("n_batches", [1, 7])
def test_features_give_what_the_functions_give(n_batches: int) -> None:
    rows = planted(1000, 50, SPECTRA["power law"](50), offset=0.1).astype(np.float32)
    monitor = followed(*(torch.from_numpy(part) for part in np.array_split(rows, n_batches)))
    assert monitor.compute() == pytest.approx(expected_of(rows), rel=1e-5)
    assert monitor.notes == {}
    assert (monitor.n_rows, monitor.n_views) == (1000, 1)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_views_give_what_the_functions_give(alpha: float) -> None:
    views = views_drawn()
    monitor = followed(views[:150], views[150:], alpha=alpha)
    expected = expected_of(views.reshape(-1, 30)) | {
        "rankme_augmented": rank.rankme_augmented(views),
        "lidar": lidar(views).value,
        "alignment": alignment(views, alpha=alpha),
    }
    assert monitor.compute() == pytest.approx(expected, rel=1e-6)
    assert (monitor.n_rows, monitor.n_views) == (1600, 4)


def test_covariances_are_the_unbiased_ones() -> None:
    views = views_drawn(50, 3, 6).astype(np.float64)
    within, between = followed(views).covariances()
    means = views.mean(axis=1)
    deviations = (views - means[:, None]).reshape(-1, 6)
    np.testing.assert_allclose(within, deviations.T @ deviations / (50 * 2), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(between, np.cov(means.T), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("shape", ["features", "views"])
def test_processes_are_merged_or_added_as_arrays(shape: str) -> None:
    views = views_drawn()
    data = views if shape == "views" else views.reshape(-1, 30)
    whole = followed(data).compute()
    parts = [followed(part) for part in np.array_split(data, 3)]
    states = [part.state() for part in parts]
    merged = Monitor()
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    assert merged.compute() == pytest.approx(whole, rel=1e-9)
    added = Monitor.from_state({name: sum(state[name] for state in states) for name in states[0]})
    assert added.compute() == pytest.approx(whole, rel=1e-7)
    assert all(isinstance(array, np.ndarray) and array.dtype == np.float64 for array in states[0].values())


def test_reset_forgets() -> None:
    rows = planted(300, 20, SPECTRA["flat"](20))
    monitor = followed(views_drawn())
    monitor.reset()
    monitor.update(rows)
    assert monitor.compute() == followed(rows).compute()


def test_gradients_and_low_precision_are_left_alone() -> None:
    rows = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        monitor = followed(rows.clone().requires_grad_())
    assert monitor.compute() == followed(rows).compute()
    half = rows.to(torch.bfloat16)
    assert followed(half).compute() == followed(half.float()).compute()


def test_a_collapsed_run_is_told_and_not_stopped() -> None:
    rows = planted(600, 200, SPECTRA["rank 20"](200)).astype(np.float32)
    monitor = followed(rows)
    found = monitor.compute()
    assert "Eigenvalue 21" in monitor.notes["alpha_req"]
    assert found["correlation_rank"] == found["feature_rank"] == 20
    expected = rank.effective_rank(rows).value
    off = float(monitor.notes["rankme"].partition("certain to ")[2].partition(" ")[0])
    assert 1e-5 < off < 1e-2 and abs(found["rankme"] / expected - 1) <= off


def test_the_direction_that_a_layer_norm_takes_is_left_out_of_a_run_too() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 80)) * np.arange(1, 81) ** -0.5
    rows = ((rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)).astype(np.float32)
    assert followed(rows).compute()["alpha_req"] == pytest.approx(rank.alpha_req(rows).value, rel=1e-6)


def test_a_run_collapsed_to_a_point_has_no_metrics() -> None:
    point = followed(np.ones((50, 8)))
    assert point.compute() == {}
    assert all("are equal" in sentence for sentence in point.notes.values())


def test_views_that_never_differ_have_no_lidar_without_a_delta_but_the_rest() -> None:
    views = np.repeat(views_drawn(200, 1, 20), 2, axis=1)
    monitor = followed(views)
    found = monitor.compute()
    assert found["alignment"] == 0.0
    assert ("lidar" in found) != ("lidar" in monitor.notes)
    assert followed(views, delta=1e-4).compute()["lidar"] == pytest.approx(lidar(views, delta=1e-4).value, rel=1e-6)


def test_a_run_whose_images_are_alike_is_told_that_lidar_measures_noise() -> None:
    views = np.random.default_rng(0).normal(size=(200, 6, 16))
    monitor = followed(views)
    assert monitor.compute()["lidar"] > 14
    assert "the value measures noise" in monitor.notes["lidar"]
    images = np.random.default_rng(1).normal(size=(200, 1, 16))
    signal = followed(views + 2 * images)
    assert signal.compute()["lidar"] > 14 and "lidar" not in signal.notes


def test_alignment_of_views_without_a_direction_is_refused() -> None:
    views = views_drawn(40, 2, 5)
    views[3, 1] = 0.0
    monitor = followed(views)
    assert "alignment" not in monitor.compute()
    assert "1 views are all 0" in monitor.notes["alignment"]


def test_bad_batches_are_one_sentence() -> None:
    monitor = followed(views_drawn(20, 3, 5))
    with pytest.raises(DataError, match=r"before it had 3 views of each image"):
        monitor.update(views_drawn(20, 2, 5))
    with pytest.raises(DataError, match=r"before it had 3 views of each image"):
        monitor.update(np.ones((4, 5)))
    with pytest.raises(DataError, match=r"at least 2 views"):
        monitor.update(np.ones((4, 1, 5)))
    broken = views_drawn(20, 3, 5)
    broken[2, 1, 0] = np.nan
    with pytest.raises(DataError, match=r"Row 67 of the views so far holds NaN"):
        monitor.update(broken)
    assert monitor.n_rows == 60
    with pytest.raises(DataError, match="3 and of 2 views"):
        monitor.merge(followed(views_drawn(20, 2, 5)))
    with pytest.raises(DataError, match="No features were seen"):
        Monitor().compute()
    with pytest.raises(DataError, match="Views of 0 images"):
        followed(np.eye(4)).covariances()
    with pytest.raises(QueryError, match="alpha is 0"):
        Monitor(alpha=0)
