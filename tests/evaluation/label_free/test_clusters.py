"""k-means finds planted clusters, ends where Lloyd's iteration has nothing to do, and is as good as scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.clusters import kmeans


def clustered(n: int, dim: int, n_groups: int, *, spread: float = 0.6, seed: int = 0) -> np.ndarray:
    """Groups on a power-law spectrum, off the origin."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((n_groups, dim))
    noise = spread * generator.standard_normal((n, dim))
    return ((centres[np.arange(n) % n_groups] + noise) * np.arange(1, dim + 1) ** -0.4 + 2).astype(np.float32)


def distances_to(z: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return np.square(z.astype(np.float64)[:, None] - centroids[None]).sum(axis=2)


@pytest.mark.parametrize("dim", [10, 300])  # without and with a start in fewer directions
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_clusters_are_found(dim: int, seed: int) -> None:
    z = clustered(400, dim, 8, spread=0.05)
    labels = kmeans(z, 8, seed=seed).labels
    assert all(len(set(labels[group::8].tolist())) == 1 for group in range(8))
    assert set(labels.tolist()) == set(range(8))


@pytest.mark.parametrize(("dim", "n_clusters"), [(3, 5), (20, 40), (300, 25)])
def test_every_row_is_in_the_cluster_of_its_nearest_mean(dim: int, n_clusters: int) -> None:
    z = clustered(500, dim, 12)
    found = kmeans(z, n_clusters, tol=0)
    means = np.stack([z[found.labels == label].mean(axis=0, dtype=np.float64) for label in range(n_clusters)])
    assert found.centroids == pytest.approx(means, rel=1e-5, abs=1e-6)
    squared = distances_to(z, means)
    own = np.take_along_axis(squared, found.labels[:, None], axis=1)[:, 0]
    assert (own <= squared.min(axis=1) * (1 + 1e-5)).all()
    assert found.objective == pytest.approx(own.mean(), rel=1e-6)
    assert found.n_clusters == n_clusters and found.labels.dtype == np.int64


@pytest.mark.parametrize("dim", [12, 200])
def test_it_is_as_good_as_scikit_learn_on_average(dim: int) -> None:
    z = clustered(600, dim, 30)
    ours = [kmeans(z, 25, seed=seed).objective for seed in range(8)]
    theirs = [KMeans(25, n_init=1, random_state=seed).fit(z).inertia_ / len(z) for seed in range(8)]
    assert np.mean(ours) <= 1.01 * np.mean(theirs)
    assert kmeans(z, 25, n_restarts=8).objective <= min(np.median(ours), np.median(theirs))


@pytest.mark.parametrize("dim", [12, 200])
def test_the_order_of_rows_changes_nothing(dim: int) -> None:
    z = clustered(300, dim, 10)
    order = np.random.default_rng(1).permutation(300)
    plain, shuffled = kmeans(z, 17, seed=5), kmeans(z[order], 17, seed=5)
    assert np.array_equal(plain.labels[order], shuffled.labels)
    assert plain.objective == pytest.approx(shuffled.objective, rel=1e-9)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40, 1e-100, 1e100])
def test_scale_and_shift_leave_the_objective_in_proportion(factor: float) -> None:
    z = clustered(300, 15, 6, spread=0.1).astype(np.float64)
    plain = kmeans(z, 6)
    scaled = kmeans(factor * (z - 1), 6)
    assert scaled.objective / factor / factor == pytest.approx(plain.objective, rel=1e-5)
    assert scaled.centroids[scaled.labels] / factor + 1 == pytest.approx(plain.centroids[plain.labels], rel=1e-5)


def test_one_cluster_has_the_mean_and_as_many_as_rows_have_the_rows() -> None:
    z = clustered(50, 5, 3)
    one = kmeans(z, 1)
    assert one.centroids[0] == pytest.approx(z.mean(axis=0, dtype=np.float64), rel=1e-6)
    assert one.objective == pytest.approx(z.var(axis=0, dtype=np.float64).sum(), rel=1e-6)
    every = kmeans(z, 50)
    assert sorted(every.labels.tolist()) == list(range(50)) and every.objective == 0
    copies = kmeans(np.concatenate([z, z]), 50)
    assert np.array_equal(copies.labels[:50], copies.labels[50:]) and copies.objective == 0


@pytest.mark.parametrize("n_clusters", [20, 49])
def test_no_cluster_is_empty_where_most_rows_are_copies(n_clusters: int) -> None:
    z = clustered(50, 5, 3)[np.concatenate([np.arange(50), np.full(400, 7)])]
    found = kmeans(z, n_clusters)
    assert np.bincount(found.labels, minlength=n_clusters).min() > 0
    assert len(set(found.labels[50:].tolist())) == 1


def test_what_cannot_be_clustered_is_refused_in_one_sentence() -> None:
    z = clustered(50, 5, 3)
    with pytest.raises(DataError, match="z has 50 rows, but k-means with 51 clusters needs at least 51"):
        kmeans(z, 51)
    with pytest.raises(DataError, match="z has 4 distinct rows, but k-means was asked for 5 clusters"):
        kmeans(z[np.arange(50) % 4], 5)
    with pytest.raises(DataError, match="Row 9 of z holds NaN"):
        kmeans(np.where(np.arange(50)[:, None] == 9, np.nan, z), 3)
    with pytest.raises(QueryError, match="n_clusters is 0, expected a whole number of at least 1"):
        kmeans(z, 0)
    with pytest.raises(QueryError, match="n_restarts is 0, expected"):
        kmeans(z, 3, n_restarts=0)
