"""LiDAR is its paper's formula, whatever the rows' order and scale, and says so where it has no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import f as f_distribution

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import scatter
from zoo.evaluation.label_free.catalogue import compute
from zoo.evaluation.label_free.scatter import Lidar, lidar, lidar_of_covariances


def covariances(rows: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased covariance within and between images, as the words say."""
    images = [rows[ids == one].astype(np.float64) for one in np.unique(ids)]
    means = np.array([image.mean(axis=0) for image in images])
    within = sum((image - image.mean(axis=0)).T @ (image - image.mean(axis=0)) for image in images)
    centred = means - means.mean(axis=0)
    return within / sum(len(image) - 1 for image in images), centred.T @ centred / (len(images) - 1)


def direct(z: np.ndarray, *, delta: float = 0.0, eps: float = 1e-7) -> float:
    """Equations 1 and 2 with an inverse square root."""
    within, between = covariances(z.reshape(-1, z.shape[-1]), np.repeat(np.arange(len(z)), z.shape[1]))
    values, vectors = np.linalg.eigh(within + delta * np.eye(len(within)))
    root = vectors / np.sqrt(values) @ vectors.T
    found = np.linalg.eigvalsh(root @ between @ root).clip(0)
    shares = found / found.sum() + eps
    return float(np.exp(-(shares * np.log(shares)).sum()))


def of_covariances(*matrices: Any, **options: Any) -> Lidar:
    return lidar_of_covariances(*matrices, **options)[0]


def drawn(
    n: int = 40, q: int = 5, dim: int = 16, *, rank: int | None = None, seed: int = 0, offset: float = 1.0
) -> np.ndarray:
    """Views of images with uneven spectra between and within, around a mean that is not 0; of that rank."""
    generator = np.random.default_rng(seed)
    inner = rank or dim
    means = generator.normal(size=(n, 1, inner)) * np.arange(1, inner + 1) ** -0.7 * 3
    views = means + generator.normal(size=(n, q, inner)) * np.arange(inner, 0, -1) ** -0.4
    return views @ generator.normal(size=(inner, dim)) + offset * generator.normal(size=dim)


def at_random(z: np.ndarray, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(z.shape[0] * z.shape[1])
    return z.reshape(-1, z.shape[-1])[order], np.repeat(np.arange(len(z)), z.shape[1])[order]


def rounding(z: np.ndarray) -> float:
    """Bound for float64 sums of products and LAPACK; the value may move ten times as much as an eigenvalue."""
    n, q, dim = z.shape
    within = covariances(z.reshape(-1, dim), np.repeat(np.arange(n), q))[0]
    return float(10 * (n * q + 10) * dim * 2.0**-53 * np.linalg.cond(within))


@pytest.mark.parametrize("delta", [0.0, 1e-4, 3.0])
@pytest.mark.parametrize("eps", [0.0, 1e-7, 1e-3])
@pytest.mark.parametrize(("n", "q", "dim"), [(40, 5, 16), (12, 30, 16), (17, 2, 16)])
def test_it_is_the_formula_of_the_paper(n: int, q: int, dim: int, delta: float, eps: float) -> None:
    z = drawn(n, q, dim)
    if eps == 0 and n <= dim:
        eps = 1e-12  # the oracle takes logarithms of shares that are 0
    assert lidar(z, delta=delta, eps=eps).value == pytest.approx(direct(z, delta=delta, eps=eps), rel=rounding(z))


def test_orthogonal_means_of_equal_size_count_one_dimension_each() -> None:
    means = np.concatenate([np.eye(6), -np.eye(6)]) * 4
    noise = np.concatenate([np.eye(8)[:, :6], -np.eye(8)[:, :6]])
    z = means[:, None, :] + noise
    assert lidar(z, eps=0.0).value == pytest.approx(6, rel=1e-12)
    assert lidar(z[:1].repeat(2, axis=0) + np.array([1.0, -1.0])[:, None, None], eps=0.0).value == pytest.approx(1)


def test_eigenvalues_of_zero_contribute_what_eps_says() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(6, 4, 10))
    noise -= noise.mean(axis=1, keepdims=True)
    z = np.concatenate([noise, -noise], axis=1)
    z[..., 0] += np.arange(6.0)[:, None]  # one direction tells images apart, so that shares are 1 + eps, eps, ...
    eps = 1e-3
    expected = np.exp(-(1 + eps) * np.log(1 + eps) - 9 * eps * np.log(eps))
    assert lidar(z, eps=eps).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_rows_and_the_names_of_images_change_nothing(dtype: Any) -> None:
    z = drawn().astype(dtype)
    rows, ids = at_random(z)
    expected = lidar(z).value
    rel = rounding(z)
    assert lidar(rows, ids).value == pytest.approx(expected, rel=rel)
    assert lidar(rows, [f"image {i % 7}-{i}" for i in ids]).value == pytest.approx(expected, rel=rel)
    assert lidar(torch.from_numpy(rows), ids).value == pytest.approx(expected, rel=rel)


def test_images_may_have_different_numbers_of_views() -> None:
    z = drawn()
    rows, ids = at_random(z)
    rows, ids = rows[17:], ids[17:]
    found = lidar(rows, ids)
    within, between = covariances(rows, ids)
    same = of_covariances(within, between, n_images=found.n_images, n_views=found.n_views)
    assert found.n_views[0] < found.n_views[1]
    assert found.value == pytest.approx(same.value, rel=2 * rounding(z))  # of fewer rows


@pytest.mark.parametrize("power", [-20, -7, 0, 7, 20])
@pytest.mark.parametrize("rank", [None, 5])
def test_the_scale_of_the_features_changes_nothing(power: int, rank: int | None) -> None:
    z = drawn(rank=rank).astype(np.float32)
    scaled = z * np.float32(2.0) ** (power * 3)
    assert lidar(scaled).value == pytest.approx(lidar(z).value, rel=1e-12)
    assert lidar(drawn(rank=rank) * 10.0**power).value == pytest.approx(lidar(drawn(rank=rank)).value, rel=1e-9)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e9])
def test_an_invertible_linear_map_changes_nothing(condition: float) -> None:
    z = drawn()
    generator = np.random.default_rng(3)
    left, right = (np.linalg.qr(generator.normal(size=(16, 16)))[0] for _ in range(2))
    mapped = z @ (left * np.geomspace(1, 1 / condition, 16) @ right)
    squared = min(rounding(z) * condition**2, 10 * scatter._CHOLESKY_ERROR)
    of_rows = 10 * 216 * 2.0**-53 * 12 * condition  # LAPACK's bound for QR; that of z is 12
    assert lidar(mapped).value == pytest.approx(lidar(z).value, rel=max(squared, of_rows))


@pytest.mark.parametrize("dim", [32, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 50.0])
def test_a_collapsed_representation_has_the_value_of_its_few_dimensions(dim: int, dtype: Any, offset: float) -> None:
    inner = drawn(60, 4, 20, seed=2, offset=0.0)
    basis = np.random.default_rng(1).normal(size=(20, dim))
    expected = lidar(inner, eps=0.0)
    z = inner @ basis + offset * np.random.default_rng(2).normal(size=dim)
    found = lidar(z.astype(dtype), eps=0.0)
    assert found.rank_within == expected.rank_within == 20
    assert found.value == pytest.approx(expected.value, rel=1e-4 if dtype == np.float32 else 1e-10)


def test_products_of_float32_features_that_were_computed_in_float32_are_collapsed_too() -> None:
    inner = drawn(60, 4, 20, seed=2, offset=0.0)
    z = inner.astype(np.float32) @ np.random.default_rng(1).normal(size=(20, 400)).astype(np.float32)
    assert lidar(z).rank_within == 20
    assert lidar(z.astype(np.float64)).rank_within == 20
    assert lidar(z).value == pytest.approx(lidar(inner).value, rel=1e-3)


def test_columns_that_never_change_count_as_zeros() -> None:
    z = drawn()
    dead = np.concatenate([z, np.zeros((*z.shape[:2], 3)), np.full((*z.shape[:2], 2), 7.0)], axis=2)
    assert lidar(dead, eps=0.0).value == pytest.approx(lidar(z, eps=0.0).value, rel=rounding(z))
    assert lidar(dead).rank_within == 16
    assert lidar(dead, eps=1e-4).value > lidar(z, eps=1e-4).value


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 10.0])
def test_more_dimensions_than_rows_are_the_same_formula(delta: float) -> None:
    z = drawn(6, 4, 40)
    assert lidar(z, delta=delta).value == pytest.approx(direct(z, delta=delta), rel=1e-9)
    assert lidar(z.astype(np.float32), delta=delta).value == pytest.approx(direct(z, delta=delta), rel=1e-5)


def test_a_small_delta_is_taken_literally_where_the_scatter_is_singular() -> None:
    z = drawn(60, 4, 30, rank=6, offset=0.0)
    assert lidar(z, delta=1e-9).value == pytest.approx(lidar(z).value, rel=1e-6)
    assert lidar(z, delta=1e-9).rank_within == 30
    assert lidar(z, delta=1e-6).value == pytest.approx(direct(z, delta=1e-6), rel=1e-6)


def planted(n: int = 40, q: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Views, and noise of 5 dimensions, of mean 0 in every image and uncorrelated with how views of an image differ."""
    half = drawn(n, q // 2, 8)
    noise = np.random.default_rng(9).normal(size=(n, q // 2, 5))
    return np.concatenate([half, half], axis=1), np.concatenate([noise, -noise], axis=1)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_noise_that_tells_no_image_apart_does_not_change_it(size: float) -> None:
    z, noise = planted()
    before, after = lidar(z, eps=0.0), lidar(np.concatenate([z, size * noise], axis=2), eps=0.0)
    bound = rounding(np.concatenate([z, noise], axis=2))  # the unit of a column cancels
    assert after.value == pytest.approx(before.value, rel=bound)
    assert (before.rank_within, after.rank_within) == (8, 13)


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-3])
def test_with_noise_dimensions_it_is_below_the_bound_of_proposition_1(delta: float) -> None:
    z, noise = planted()
    eps, p, r = 1e-9, z.shape[2], noise.shape[2]
    within, between = covariances(z.reshape(-1, p), np.repeat(np.arange(len(z)), z.shape[1]))
    spectrum = np.linalg.eigvals(np.linalg.solve(within + delta * np.eye(p), between)).real
    total = spectrum.sum()
    assert spectrum.max() / total < 1 - np.exp(-1)
    assert delta < (np.exp(-1) - eps) * total
    bound = np.exp(-2 * p * np.log(total / (total + r * delta)) - r * delta / total * np.log(delta / total))
    before = lidar(z, delta=delta, eps=eps).value
    after = lidar(np.concatenate([z, noise], axis=2), delta=delta, eps=eps).value
    assert after <= before * bound * (1 + 1e-6)


def test_few_views_let_noise_count_by_one_over_their_number() -> None:
    noise = np.random.default_rng(0).normal(size=(4000, 4, 3))
    within, between = covariances(noise.reshape(-1, 3), np.repeat(np.arange(4000), 4))
    assert np.linalg.eigvals(np.linalg.solve(within, between)) == pytest.approx(np.full(3, 1 / 4), rel=0.1)


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10])
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_sums_and_the_triangular_factor_agree(condition: float, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    z = drawn(300, 6, 64)
    generator = np.random.default_rng(3)
    left, right = (np.linalg.qr(generator.normal(size=(64, 64)))[0] for _ in range(2))
    z = z @ (left * np.geomspace(1, condition**-0.5, 64) @ right)
    found = lidar(z, delta=delta)
    if condition < 1e10:
        assert found.value == pytest.approx(direct(z, delta=delta), rel=1e-6)
    monkeypatch.setattr(scatter, "_CHOLESKY_ERROR", 0.0)
    again = lidar(z, delta=delta)
    assert found.value == pytest.approx(again.value, rel=1e-6) and found.ratio == pytest.approx(again.ratio, rel=1e-9)


def noise(n: int = 300, q: int = 10, dim: int = 64, *, seed: int = 0) -> np.ndarray:
    """Views of images that are all alike, of correlated features."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, q, dim)) * np.arange(1, dim + 1) ** -0.5 @ generator.normal(size=(dim, dim)) + 5.0


def test_a_value_that_measures_noise_says_so_and_signals_do_not() -> None:
    alike, generator = noise(), np.random.default_rng(1)
    found = lidar(alike)
    assert found.value > 50 and found.ratio == pytest.approx(1, abs=0.1) and found.ratio < found.ratio_of_noise < 1.3
    assert len(found.notes) == 1 and "the value measures noise" in found.notes[0]
    signals = generator.normal(size=(300, 64))
    strong = lidar(alike + 20 * signals[:, None, :5] @ generator.normal(size=(5, 64)))
    assert strong.value < 8 and strong.ratio > 10 and strong.notes == ()
    weak = lidar(alike + 0.2 * alike.std() * signals[:, None])
    assert weak.ratio_of_noise < weak.ratio < 2 and f"{100 / weak.ratio:.0f} % of how" in weak.notes[0]


def test_the_ratio_is_of_each_feature_in_its_own_unit() -> None:
    z = noise(60, 4, 12) + np.random.default_rng(1).normal(size=(60, 1, 12))
    rows, ids = at_random(z)
    within, between = covariances(rows, ids)
    expected = 4 * np.mean(np.diagonal(between) / np.diagonal(within))
    constant = np.concatenate([z * np.geomspace(1e-9, 1e9, 12), np.full((60, 4, 2), 7.0)], axis=2)
    for found in (
        lidar(z),
        lidar(rows, ids),
        lidar(constant),
        lidar(z, delta=0.1),
        of_covariances(within, between, n_images=60, n_views=4),
    ):
        assert found.ratio == pytest.approx(expected, rel=1e-9)
        assert found.ratio_of_noise == pytest.approx(lidar(z).ratio_of_noise, rel=1e-9)


def test_images_of_unequal_numbers_of_views_have_the_same_ratio() -> None:
    rows, ids = at_random(noise(300, 12))
    kept = np.sort(np.random.default_rng(2).permutation(len(rows))[:1500])  # of 1 to 11 views
    kept = kept[np.isin(ids[kept], np.flatnonzero(np.bincount(ids[kept]) > 1))]
    found = lidar(rows[kept], ids[kept])
    assert found.n_views[1] > 3 * found.n_views[0] and found.ratio == pytest.approx(1, abs=0.1)
    assert "measures noise" in found.notes[0]


def test_noise_is_taken_for_a_signal_in_one_of_a_thousand_cases() -> None:
    """Of 200 draws 4 or more have a probability below 1e-4."""
    found = [lidar(noise(40, 4, 12, seed=seed)) for seed in range(200)]
    assert sum(one.ratio > one.ratio_of_noise for one in found) < 4
    generator = np.random.default_rng(0)
    independent = lidar(generator.normal(size=(200, 10, 16)))
    d = 16  # effective features
    assert independent.ratio_of_noise == pytest.approx(f_distribution.isf(1e-3, 199 * d, 1800 * d), rel=0.01)
    copies = lidar(
        np.repeat(generator.normal(size=(200, 10, 1)), 16, axis=2) + generator.normal(size=(200, 10, 16)) / 1e3
    )
    assert copies.ratio_of_noise == pytest.approx(f_distribution.isf(1e-3, 199, 1800), rel=0.01)


def test_the_ratio_is_left_out_where_it_is_not_defined() -> None:
    z = drawn(20, 1, 6).repeat(3, axis=1)
    assert lidar(z, delta=1.0).ratio is None and lidar(z, delta=1.0).notes == ()
    within, between = covariances(*at_random(drawn()))
    assert of_covariances(within, between, n_images=40, n_views=(3, 5)).ratio is None


def test_sums_that_are_not_precise_are_found_out() -> None:
    rows, ids = at_random(drawn(300, 6, 64))
    views = scatter.grouped(rows, ids)
    within = scatter.second_moments(views.deviations(), 64)
    everything, nothing = torch.arange(64), torch.zeros(64, dtype=torch.float64)
    assert scatter._checked_cholesky(views, within, everything, nothing) is not None
    off = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for size in (1e-5, 1e-6):  # relative to the diagonal; one entry alone is found out, too
        wrong = within + size * within.diagonal().sqrt().outer(within.diagonal().sqrt()) * (off + off.T)
        assert scatter._checked_cholesky(views, wrong, everything, nothing) is None
        one = within.clone()
        one[7, 7] *= 1 + size
        assert scatter._checked_cholesky(views, one, everything, nothing) is None


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_covariances_give_what_rows_give(delta: float) -> None:
    z = drawn(30, 6, 24, rank=9)
    within, between = covariances(z.reshape(-1, 24), np.repeat(np.arange(30), 6))
    found = of_covariances(within, between, n_images=30, n_views=6, delta=delta)
    assert found.value == pytest.approx(lidar(z, delta=delta).value, rel=1e-8)
    assert found.rank_within == (24 if delta else 9)
    assert of_covariances(torch.from_numpy(within), between, n_images=30, n_views=(6, 6), delta=delta) == found


def test_rows_are_not_changed_and_may_be_read_only_or_turned_round() -> None:
    z = drawn()
    before = z.copy()
    rows, ids = z.reshape(-1, 16), np.repeat(np.arange(40), 5)
    expected = lidar(z).value
    assert np.array_equal(z, before)
    rows.setflags(write=False)
    assert lidar(rows, ids).value == expected
    assert lidar(rows[::-1], ids[::-1]).value == pytest.approx(expected, rel=rounding(z))


def test_the_catalogue_computes_it() -> None:
    z = drawn()
    found = compute("lidar", z=z)
    assert found.value == lidar(z).value
    assert found.details["n_images"] == 40


@pytest.mark.parametrize(
    ("z", "options", "sentence"),
    [
        (np.zeros((3, 1, 4)), {}, "one view only"),
        (np.zeros((1, 3, 4)), {}, "at least 2 images"),
        (np.zeros((3, 3, 4)), {}, "All 9 rows of z are equal"),
        (np.full((3, 3, 4), np.nan), {}, "NaN or infinity"),
        (np.zeros((6, 4)), {}, "which rows are views of one image"),
        (np.zeros((6, 4)), {"ids": [0, 0, 1, 1]}, "expected one label for each of the 6 rows"),
        (drawn(10, 3, 40), {}, "LiDAR is infinite there (10 images of 3 views give 20 deviations"),
        (drawn(4, 2, 40), {}, "LiDAR is infinite there (4 images of 2 views give 4 deviations"),
        (np.arange(12.0).reshape(4, 1, 3).repeat(2, axis=1), {}, "LiDAR is infinite"),
        (np.arange(12.0).reshape(1, 4, 3).repeat(5, axis=0), {}, "mean of the views is the same for every image"),
        (np.arange(12.0).reshape(1, 4, 3).repeat(5, axis=0), {"delta": 1.0}, "mean of the views is the same"),
    ],
)
def test_what_has_no_lidar_is_refused_in_a_sentence(z: np.ndarray, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        lidar(z, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"delta": -1.0}, {"eps": -1e-7}, {"delta": float("nan")}, {"eps": float("inf")}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(QueryError, match="expected a finite number of at least 0"):
        lidar(drawn(), **options)


@pytest.mark.parametrize(
    ("within", "between", "options", "sentence"),
    [
        (np.eye(2), np.eye(3), {}, "of the same features"),
        (np.eye(3)[:2], np.eye(3), {}, "expected a covariance matrix (dim, dim)"),
        (np.diag([1.0, 0.0]), np.eye(2), {}, "LiDAR is infinite"),
        (np.ones((2, 2)), np.eye(2), {}, "LiDAR is infinite"),
        (np.eye(2), np.zeros((2, 2)), {}, "same for every image"),
        (np.diag([1.0, -1.0]), np.eye(2), {}, "negative variance"),
        (np.full((2, 2), np.nan), np.eye(2), {}, "NaN or infinity"),
        (np.eye(2), np.eye(2), {"n_images": 1}, "at least 2 images"),
        (np.eye(2), np.eye(2), {"n_views": 1}, "at least 2 views"),
    ],
)
def test_covariances_without_a_lidar_are_refused(
    within: np.ndarray, between: np.ndarray, options: dict[str, int], sentence: str
) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        of_covariances(within, between, **{"n_images": 5, "n_views": 3, **options})
    assert sentence in str(caught.value)
