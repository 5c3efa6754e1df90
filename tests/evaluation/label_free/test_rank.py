"""Spectral metrics against NumPy in float64, closed forms and invariances; a monitor gives the same from sums."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.planted_features import features
from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import Monitor, rank
from zoo.evaluation.label_free.rank import (
    alpha_req,
    compute_spectrum,
    correlation_rank,
    feature_rank,
    matrix_entropy,
    nesum,
    rankme,
    rankme_augmented,
    stable_rank,
)
from zoo.evaluation.label_free.scatter import alignment, lidar
from zoo.features import load_features

SPECTRA = {
    "flat": lambda k: np.ones(k),
    "power law": lambda k: np.arange(1.0, k + 1) ** -0.5,
    "exponential": lambda k: np.exp(-np.arange(k) / 8.0),
    "rank 20": lambda k: np.where(np.arange(k) < 20, 1.0, 0.0),
    "rank 20 and noise": lambda k: np.where(np.arange(k) < 20, 1.0, 3e-5),
    "one direction": lambda k: np.where(np.arange(k) < 1, 1.0, 1e-4),
}


def planted(n: int, dim: int, singular: np.ndarray, *, seed: int = 0, offset: float = 0.0) -> np.ndarray:
    """Float64 rows with these singular values, but for an offset."""
    generator = np.random.default_rng(seed)
    k = min(n, dim)
    left = np.linalg.qr(generator.normal(size=(n, k)))[0]
    right = np.linalg.qr(generator.normal(size=(dim, k)))[0]
    return np.asarray((left * singular) @ right.T * n**0.5 + offset * generator.normal(size=dim))


def direct(z: np.ndarray) -> dict[str, float]:
    """Metrics as their papers write them."""
    z = z.astype(np.float64)
    values, centred = (np.linalg.svd(one, compute_uv=False) for one in (z, z - z.mean(axis=0)))
    shares, squares = values / values.sum() + 1e-7, values**2 / (values**2).sum()
    positive = squares[squares > 0]
    return {
        "rankme": math.exp(-(shares * np.log(shares)).sum()),
        "feature_rank": float((values > max(z.shape) * 1e-7 * values[0]).sum()),
        "stable_rank": (values**2).sum() / values[0] ** 2,
        "nesum": (centred**2).sum() / centred[0] ** 2,
        "matrix_entropy": float(-(positive * np.log(positive)).sum()),
    }


@pytest.mark.parametrize(("n", "dim"), [(1500, 160), (120, 400)])
@pytest.mark.parametrize("kind", SPECTRA)
def test_they_are_the_formulas_of_the_papers(kind: str, n: int, dim: int) -> None:
    for scale, offset, dtype in ((1.0, 0.0, "f4"), (1e-20, 0.2, "f4"), (1e20, 0.2, "f8")):
        rows = (scale * planted(n, dim, SPECTRA[kind](min(n, dim)), offset=offset)).astype(dtype)
        for name, expected in direct(rows).items():
            assert getattr(rank, name)(rows) == pytest.approx(expected, rel=1e-8, abs=1e-8), (name, scale)


def test_orders_of_matrix_entropy() -> None:
    rows = planted(80, 12, SPECTRA["power law"](12), offset=0.5)
    squares = np.linalg.svd(rows, compute_uv=False) ** 2
    shares = squares / squares.sum()
    assert matrix_entropy(rows, order=2) == pytest.approx(-math.log((shares**2).sum()), rel=1e-10)
    assert matrix_entropy(rows, order=0.5) == pytest.approx(2 * math.log(np.sqrt(shares).sum()), rel=1e-10)
    assert matrix_entropy(rows, centred=True) == pytest.approx(matrix_entropy(rows - rows.mean(axis=0)), rel=1e-9)
    for order in (0.5, 1.0, 2.0, 40.0):
        assert matrix_entropy(np.eye(6), order=order) == pytest.approx(math.log(6), abs=1e-9)


@pytest.mark.parametrize("metric", [rankme, feature_rank, nesum, stable_rank, matrix_entropy])
def test_rotation_scale_and_order_of_rows_change_nothing(metric: Callable[[Any], float]) -> None:
    for kind in ("power law", "rank 20"):
        rows = planted(400, 60, SPECTRA[kind](60))
        turn = np.linalg.qr(np.random.default_rng(5).normal(size=(60, 60)))[0]
        for other in (rows @ turn, rows * 1e-90, rows * 1e90, rows[::-1]):
            assert metric(other) == pytest.approx(metric(rows), rel=1e-9)


@pytest.mark.parametrize(("n", "dim"), [(900, 100), (100, 300)])
def test_a_planted_rank_is_recovered(n: int, dim: int) -> None:
    for planted_rank in (1, 20, 99, 100):
        singular = np.where(np.arange(100) < planted_rank, 1.0, 0.0)
        assert feature_rank(planted(n, dim, singular).astype(np.float32)) == planted_rank
    near = np.concatenate([np.ones(10), np.full(30, 1.001e-4), np.full(30, 0.999e-4)])  # next to the threshold
    assert feature_rank(planted(1000, 70, near)) == 40


def test_the_correlation_rank_is_that_of_torch_and_constant_features_add_nothing() -> None:
    rows = planted(1200, 90, SPECTRA["power law"](90) ** 3, offset=30.0).astype(np.float32)
    rows *= np.random.default_rng(1).uniform(0.01, 100, 90).astype(np.float32)
    for some in (rows, rows[:60]):
        correlations = torch.from_numpy(some).double().T.corrcoef()
        expected = float(torch.linalg.matrix_rank(correlations, atol=1e-4, rtol=0.01))
        assert (correlation_rank(some).value, correlation_rank(some).n_constant) == (expected, 0)
        constant = np.concatenate([some, np.full((len(some), 3), 0.3), np.zeros((len(some), 2))], axis=1)
        assert (correlation_rank(constant).value, correlation_rank(constant).n_constant) == (expected, 5)


def test_one_pass_over_rows_of_any_kind_gives_every_spectral_metric(tmp_path: Path) -> None:
    rows = planted(3000, 150, SPECTRA["power law"](150)).astype(np.float32)
    of, before = compute_spectrum(rows), rows.copy()
    expected = [rankme(rows), feature_rank(rows), correlation_rank(rows).value, alpha_req(rows).value, nesum(rows)]
    assert [rankme(of), feature_rank(of), correlation_rank(of).value, alpha_req(of).value, nesum(of)] == expected
    assert np.array_equal(rows, before)
    folder = features(rows, np.zeros(3000)).save(tmp_path / "features", shard_size=700)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for same in (iter(np.array_split(rows, 7)), load_features(folder).x, mapped, torch.from_numpy(rows)):
        assert rankme(same) == pytest.approx(expected[0], rel=1e-9)


METRICS = [rankme, feature_rank, correlation_rank, alpha_req, nesum, stable_rank, matrix_entropy]


@pytest.mark.parametrize("metric", METRICS)
def test_bad_features_are_refused(metric: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    broken = np.where(np.arange(50)[:, None] == 41, np.inf, rows)
    cases = {"Row 41": broken, "z has 1 row": rows[:1], r"\(50, 6, 1\)": rows[..., None], "Complex": rows * 1j}
    cases |= {"are equal": np.full((50, 6), 0.1), "scale them": rows.astype(np.float64) * 1e200}
    for fragment, wrong in cases.items():
        with pytest.raises(DataError, match=fragment):
            metric(wrong)


def test_bad_options_are_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 20))
    for wrong in (
        lambda: rankme(rows, eps=1.0),
        lambda: feature_rank(rows, eps=0.5),
        lambda: correlation_rank(rows, rtol=float("nan")),
        lambda: matrix_entropy(rows, order=0),
        lambda: alpha_req(rows, first=0, last=10),
        lambda: alpha_req(rows, first=5, last=6),
        lambda: alpha_req(rows, last=21),
        lambda: Monitor(alpha=0),
    ):
        with pytest.raises(QueryError):
            wrong()


def power_law(alpha: float, dim: int, *, offset: float = 0.0) -> np.ndarray:
    """Rows whose covariance has the eigenvalues i ** -alpha, up to a factor, around any mean."""
    half = np.diag(np.arange(1.0, dim + 1) ** (-alpha / 2))
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))[0]
    return np.concatenate([half, -half]) @ turn + offset * np.random.default_rng(4).normal(size=dim)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 3.0])
def test_a_planted_exponent_is_recovered(alpha: float) -> None:
    for scale, offset, weighted in ((1.0, 0.0, True), (1e-18, 0.0, False), (1e15, 20.0, True)):
        found = alpha_req(scale * power_law(alpha, 120, offset=offset), weighted=weighted)
        assert found.value == pytest.approx(alpha, abs=1e-6)
        assert (found.first, found.last) == (4, 100)
        assert found.r_squared == pytest.approx(1.0, abs=1e-6) or alpha == 0.0


@pytest.mark.parametrize("n", [50, 800])
def test_the_line_of_alpha_req_is_the_one_numpy_fits(n: int) -> None:
    rows = (np.random.default_rng(0).normal(size=(n, 70)) * np.exp(-np.arange(70) / 15) + 2.0).astype(np.float32)
    values = np.linalg.eigvalsh(np.cov(rows.astype(np.float64).T))[::-1]
    for first, last, weighted in ((4, 45, True), (11, 30, False), (1, 3, True)):
        ranks = np.arange(first, last + 1)
        weights = 1 / np.sqrt(ranks) if weighted else None  # polyfit squares them
        expected = -np.polyfit(np.log(ranks), np.log(values[ranks - 1]), 1, w=weights)[0]
        found = alpha_req(rows, first=first, last=last, weighted=weighted)
        assert found.value == pytest.approx(expected, rel=1e-9) and 0 < found.r_squared < 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_eigenvalues_of_zero_end_the_range_or_are_refused(dtype: str) -> None:
    for n, dim in ((500, 80), (70, 200)):
        collapsed = planted(n, dim, SPECTRA["rank 20"](min(n, dim))).astype(dtype)
        with pytest.raises(DataError, match=r"Eigenvalue 21 .*last=20"):
            alpha_req(collapsed)
        assert alpha_req(collapsed, last=20).last == 20
    rows = np.random.default_rng(0).normal(size=(500, 80)) * np.arange(1, 81) ** -0.5
    layer_norm = ((rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)).astype(dtype)
    assert alpha_req(layer_norm).last == 79
    with pytest.raises(DataError, match="Eigenvalue 80"):
        alpha_req(layer_norm, last=80)
    buried = np.random.default_rng(0).normal(size=(600, 24)) * np.geomspace(3, 0.03, 24) + 1e6
    with pytest.raises(DataError, match="rounding"):
        alpha_req(buried.astype(np.float32))


def views_drawn(n: int = 400, q: int = 4, dim: int = 30) -> np.ndarray:
    generator = np.random.default_rng(0)
    scales = np.arange(1.0, dim + 1) ** -0.5
    images = generator.normal(size=(n, 1, dim)) * scales + 0.5
    return (images + 0.3 * generator.normal(size=(n, q, dim)) * scales).astype(np.float32)


def followed(*batches: Any, **options: Any) -> Monitor:
    monitor = Monitor(**options)
    for batch in batches:
        monitor.update(batch)
    return monitor


def expected_of(rows: np.ndarray) -> dict[str, float]:
    return {
        "rankme": rankme(rows),
        "feature_rank": feature_rank(rows),
        "correlation_rank": correlation_rank(rows).value,
        "alpha_req": alpha_req(rows).value,
    }


@pytest.mark.parametrize("offset", [0.1, 1e3])
def test_a_monitor_of_features_gives_what_the_functions_give(offset: float) -> None:
    rows = planted(1000, 50, SPECTRA["power law"](50), offset=offset).astype(np.float32)
    rows[:, 7] = -7e3  # never changes
    monitor = followed(*(torch.from_numpy(part).requires_grad_() for part in np.array_split(rows, 7)))
    assert monitor.compute() == pytest.approx(expected_of(rows), rel=1e-5)
    assert (monitor.n_rows, monitor.n_views) == (1000, 1)
    monitor.reset()
    monitor.update(rows[:300])
    assert monitor.compute() == followed(rows[:300]).compute()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_a_monitor_of_views_gives_what_the_functions_give(alpha: float) -> None:
    views = views_drawn()
    monitor = followed(views[:150], views[150:], alpha=alpha)
    expected = expected_of(views.reshape(-1, 30)) | {
        "rankme_augmented": rankme_augmented(views.reshape(-1, 30)[::-1], ids=np.repeat(np.arange(400), 4)),
        "lidar": lidar(views).value,
        "alignment": alignment(views, alpha=alpha),
    }
    assert monitor.compute() == pytest.approx(expected, rel=1e-6)
    assert (monitor.n_rows, monitor.n_views) == (1600, 4)


@pytest.mark.parametrize("shape", ["features", "views"])
def test_monitors_of_processes_are_merged(shape: str) -> None:
    views = views_drawn()
    data = views if shape == "views" else views.reshape(-1, 30)
    data[..., 3] = 0.1  # never changes
    whole = followed(data).compute()
    parts = [followed(part) for part in np.array_split(data, 3)]
    merged = Monitor()
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    assert merged.compute() == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_lidar_of_a_collapsed_run_is_the_same_in_every_precision(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(300, 1, 20)) + 0.3 * rng.normal(size=(300, 5, 20))
    z = inner @ rng.normal(size=(20, 128))
    expected, half = lidar(z).value, torch.from_numpy(z).to(dtype)
    assert lidar(half).value == pytest.approx(expected, rel=0.01)
    assert followed(*half.chunk(3)).compute()["lidar"] == pytest.approx(expected, rel=0.01)


def test_what_a_run_lacks_is_told_and_stops_nothing() -> None:
    rows = planted(600, 200, SPECTRA["rank 20"](200)).astype(np.float32)
    collapsed = followed(rows)
    found = collapsed.compute()
    assert "Eigenvalue 21" in collapsed.notes["alpha_req"]
    assert found["correlation_rank"] == found["feature_rank"] == 20
    assert found["rankme"] == pytest.approx(rankme(rows), rel=1e-3)
    point = followed(np.ones((50, 8)))
    assert point.compute() == {} and all("are equal" in sentence for sentence in point.notes.values())
    same = followed(np.repeat(views_drawn(200, 1, 20), 2, axis=1))
    assert same.compute()["alignment"] == 0.0 and "infinite" in same.notes["lidar"]
    views = np.random.default_rng(0).normal(size=(200, 6, 16))
    alike = followed(views)
    assert alike.compute()["lidar"] > 14 and "measures noise" in alike.notes["lidar"]
    views[3, 1] = 0.0
    without_direction = followed(views)
    assert "alignment" not in without_direction.compute() and "all 0" in without_direction.notes["alignment"]


def test_bad_batches_are_refused() -> None:
    monitor = followed(views_drawn(20, 3, 5))
    broken = views_drawn(20, 3, 5)
    broken[2, 1, 0] = np.nan
    for fragment, wrong in {
        "before it had 3 views": views_drawn(20, 2, 5),
        "each image": np.ones((4, 5)),
        "at least 2 views": np.ones((4, 1, 5)),
        "Row 67": broken,
    }.items():
        with pytest.raises(DataError, match=fragment):
            monitor.update(wrong)
    assert monitor.n_rows == 60
    with pytest.raises(DataError, match="4 features, but those before"):
        followed(np.ones((4, 5))).update(np.ones((4, 4)))
    with pytest.raises(DataError, match="3 and of 2 views"):
        monitor.merge(followed(views_drawn(20, 2, 5)))
    with pytest.raises(DataError, match="cannot be added"):
        followed(np.eye(4)).merge(followed(np.eye(3)))
    with pytest.raises(DataError, match="No features"):
        Monitor().compute()
