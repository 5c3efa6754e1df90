"""LiDAR is its paper's formula, whatever the rows' order and scale, and says so where it has no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import f as f_distribution

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.scatter import lidar


def covariances(rows: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased covariance within and between images, as the words say."""
    images = [rows[ids == one].astype(np.float64) for one in np.unique(ids)]
    means = np.array([image.mean(axis=0) for image in images])
    within = sum((image - image.mean(axis=0)).T @ (image - image.mean(axis=0)) for image in images)
    centred = means - means.mean(axis=0)
    return within / sum(len(image) - 1 for image in images), centred.T @ centred / (len(images) - 1)


def direct(rows: np.ndarray, ids: np.ndarray, *, delta: float = 0.0, eps: float = 1e-7) -> float:
    """Equations 1 and 2 with an inverse square root."""
    within, between = covariances(rows, ids)
    values, vectors = np.linalg.eigh(within + delta * np.eye(len(within)))
    root = vectors / np.sqrt(values) @ vectors.T
    found = np.linalg.eigvalsh(root @ between @ root).clip(0)
    shares = found / found.sum() + eps
    return float(np.exp(-(shares * np.log(shares)).sum()))


def drawn(
    n: int = 40, q: int = 5, dim: int = 16, *, rank: int | None = None, seed: int = 0, offset: float = 1.0
) -> np.ndarray:
    """Views of images with uneven spectra between and within, around a mean that is not 0; of that rank."""
    generator = np.random.default_rng(seed)
    inner = rank or dim
    means = generator.normal(size=(n, 1, inner)) * np.arange(1, inner + 1) ** -0.7 * 3
    views = means + generator.normal(size=(n, q, inner)) * np.arange(inner, 0, -1) ** -0.4
    return views @ generator.normal(size=(inner, dim)) + offset * generator.normal(size=dim)


def at_random(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(5).permutation(z.shape[0] * z.shape[1])
    return z.reshape(-1, z.shape[-1])[order], np.repeat(np.arange(len(z)), z.shape[1])[order]


@pytest.mark.parametrize(("n", "q", "dim"), [(40, 5, 16), (12, 30, 16), (17, 2, 16), (6, 4, 40)])
def test_it_is_the_formula_of_the_paper(n: int, q: int, dim: int) -> None:
    z = drawn(n, q, dim)
    for delta in (1e-4, 3.0) if dim == 40 else (0.0, 1e-4, 3.0):
        for eps in (1e-12, 1e-7, 1e-3):
            expected = direct(*at_random(z), delta=delta, eps=eps)
            assert lidar(z, delta=delta, eps=eps).value == pytest.approx(expected, rel=1e-8)


def test_closed_forms() -> None:
    means = np.concatenate([np.eye(6), -np.eye(6)]) * 4
    noise = np.concatenate([np.eye(8)[:, :6], -np.eye(8)[:, :6]])
    assert lidar(means[:, None, :] + noise, eps=0.0).value == pytest.approx(6, rel=1e-12)
    noise = np.random.default_rng(0).normal(size=(6, 4, 10))
    noise -= noise.mean(axis=1, keepdims=True)
    z = np.concatenate([noise, -noise], axis=1)
    z[..., 0] += np.arange(6.0)[:, None]  # one direction tells images apart, so that shares are 1 + eps, eps, ...
    eps = 1e-3
    expected = np.exp(-(1 + eps) * np.log(1 + eps) - 9 * eps * np.log(eps))
    assert lidar(z, eps=eps).value == pytest.approx(expected, rel=1e-12)


def test_order_names_containers_scale_and_linear_maps_change_nothing() -> None:
    z, generator = drawn(), np.random.default_rng(3)
    rows, ids = at_random(z)
    expected = lidar(z).value
    left, right = (np.linalg.qr(generator.normal(size=(16, 16)))[0] for _ in range(2))
    assert lidar(rows, [f"image {i % 7}-{i}" for i in ids]).value == pytest.approx(expected, rel=1e-10)
    assert lidar(torch.from_numpy(rows), ids).value == pytest.approx(expected, rel=1e-10)
    for other in (z * 1e-60, z * 1e60, z @ (left * np.geomspace(1, 1e-6, 16) @ right)):
        assert lidar(other).value == pytest.approx(expected, rel=1e-8)
    some = lidar(rows[17:], ids[17:])
    assert some.n_views[0] < some.n_views[1]
    assert some.value == pytest.approx(direct(rows[17:], ids[17:]), rel=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [32, 300])
def test_a_collapsed_representation_has_the_value_of_its_few_dimensions(dim: int, dtype: Any) -> None:
    inner = drawn(60, 4, 20, seed=2, offset=0.0)
    expected = lidar(inner, eps=0.0)
    for offset in (0.0, 50.0):
        basis = np.random.default_rng(1).normal(size=(20, dim))
        z = inner @ basis + offset * np.random.default_rng(2).normal(size=dim)
        z[..., -2:] = 7.0  # never change
        found = lidar(z.astype(dtype), eps=0.0)
        assert found.rank_within == expected.rank_within == 20
        assert found.value == pytest.approx(expected.value, rel=1e-4 if dtype == np.float32 else 1e-9)
    assert lidar(z, delta=1e-9).rank_within == dim


@pytest.mark.parametrize(("dtype", "offset"), [(np.float32, 1e5), (np.float16, 10.0)])
def test_an_offset_far_above_the_spread_drops_no_column(dtype: Any, offset: float) -> None:
    generator = np.random.default_rng(0)
    spread = np.where(np.arange(30) < 15, 2.0, 0.3)
    z = generator.normal(size=(200, 1, 30)) * spread + generator.normal(size=(200, 8, 30)) * spread
    stored = (z + offset).astype(dtype)
    assert lidar(stored).rank_within == 30
    assert lidar(stored).value == pytest.approx(lidar(stored.astype(np.float64) - offset).value, rel=1e-6)


def noise(n: int = 300, q: int = 10, dim: int = 64, *, seed: int = 0) -> np.ndarray:
    """Views of images that are all alike, of correlated features."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, q, dim)) * np.arange(1, dim + 1) ** -0.5 @ generator.normal(size=(dim, dim)) + 5.0


def test_a_value_that_measures_noise_says_so_and_signals_do_not() -> None:
    alike, generator = noise(), np.random.default_rng(1)
    found = lidar(alike)
    assert found.value > 50 and found.ratio == pytest.approx(1, abs=0.1) and found.ratio < found.ratio_of_noise < 1.3
    assert "the value measures noise" in found.notes[0]
    signals = generator.normal(size=(300, 64))
    strong = lidar(alike + 20 * signals[:, None, :5] @ generator.normal(size=(5, 64)))
    assert strong.value < 8 and strong.ratio > 10 and strong.notes == ()
    weak = lidar(alike + 0.2 * alike.std() * signals[:, None])
    assert weak.ratio_of_noise < weak.ratio < 2 and f"{100 / weak.ratio:.0f} % of how" in weak.notes[0]


def test_the_ratio_is_of_each_feature_in_its_own_unit_and_its_bound_a_quantile_of_f() -> None:
    z = noise(60, 4, 12) + np.random.default_rng(1).normal(size=(60, 1, 12))
    within, between = covariances(*at_random(z))
    expected = 4 * np.mean(np.diagonal(between) / np.diagonal(within))
    constant = np.concatenate([z * np.geomspace(1e-9, 1e9, 12), np.full((60, 4, 2), 7.0)], axis=2)
    for found in (lidar(z), lidar(*at_random(z)), lidar(constant), lidar(z, delta=0.1)):
        assert found.ratio == pytest.approx(expected, rel=1e-9)
        assert found.ratio_of_noise == pytest.approx(lidar(z).ratio_of_noise, rel=1e-9)
    assert lidar(drawn(20, 1, 6).repeat(3, axis=1), delta=1.0).ratio is None
    independent = lidar(np.random.default_rng(0).normal(size=(200, 10, 16)))
    assert independent.ratio_of_noise == pytest.approx(f_distribution.isf(1e-3, 199 * 16, 1800 * 16), rel=0.01)


@pytest.mark.parametrize(
    ("z", "options", "fragment"),
    [
        (np.zeros((3, 1, 4)), {}, "2 views each"),
        (np.zeros((1, 3, 4)), {}, "2 images"),
        (np.zeros((3, 3, 4)), {}, "are equal"),
        (np.full((3, 3, 4), np.nan), {}, "NaN"),
        (np.zeros((6, 4)), {}, "which rows are views"),
        (np.zeros((6, 2, 4)), {"ids": [0, 0, 1, 1, 2, 2]}, "there are ids"),
        (np.zeros((6, 4)), {"ids": [0, 0, 1, 1]}, "one label for each"),
        (np.zeros((4, 4)), {"ids": [0, 0, 1, None]}, "None"),
        (drawn(10, 3, 40), {}, "infinite there (10 images of 3 views give 20"),
        (np.arange(12.0).reshape(4, 1, 3).repeat(2, axis=1), {}, "infinite"),
        (np.arange(12.0).reshape(1, 4, 3).repeat(5, axis=0), {}, "same for every image"),
        (np.arange(12.0).reshape(1, 4, 3).repeat(5, axis=0), {"delta": 1.0}, "same for every image"),
        (drawn() * 1e150, {}, "scale them"),
        (drawn(), {"delta": -1.0}, "delta"),
        (drawn(), {"eps": float("nan")}, "eps"),
    ],
)
def test_what_has_no_lidar_is_refused_in_a_sentence(z: np.ndarray, options: dict[str, Any], fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        lidar(z, **options)
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
