"""k-means finds planted clusters and is as good as scikit-learn's; its two metrics are what their papers write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.clusters import cluster_learnability, coding_rate_reduction, fit_kmeans, vote_labels


def clustered(n: int, dim: int, n_groups: int, *, spread: float = 0.6, seed: int = 0) -> np.ndarray:
    """Groups on a power-law spectrum, off the origin."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((n_groups, dim))
    noise = spread * generator.standard_normal((n, dim))
    return ((centres[np.arange(n) % n_groups] + noise) * np.arange(1, dim + 1) ** -0.4 + 2).astype(np.float32)


@pytest.mark.parametrize("dim", [12, 300])  # without and with a start in fewer directions
def test_k_means_is_as_good_as_scikit_learn_and_does_not_see_the_order_of_rows(dim: int) -> None:
    planted = fit_kmeans(clustered(400, dim, 8, spread=0.05), 8, seed=1).labels
    assert all(len(set(planted[group::8].tolist())) == 1 for group in range(8)) and len(set(planted.tolist())) == 8
    z = clustered(500, dim, 30)
    ours = [fit_kmeans(z, 25, seed=seed).objective for seed in range(6)]
    theirs = [KMeans(25, n_init=1, random_state=seed).fit(z).inertia_ / len(z) for seed in range(6)]
    assert np.mean(ours) <= 1.01 * np.mean(theirs)
    order = np.random.default_rng(1).permutation(500)
    plain, shuffled = fit_kmeans(z, 17, seed=5), fit_kmeans(z[order], 17, seed=5)
    assert np.array_equal(plain.labels[order], shuffled.labels)
    assert plain.objective == pytest.approx(shuffled.objective, rel=1e-9)
    scaled = fit_kmeans((z.astype(np.float64) - 1) * 2.0**60, 17, seed=5).objective
    assert scaled * 2.0**-120 == pytest.approx(plain.objective, rel=0.1)


@pytest.mark.parametrize(("dim", "n_clusters"), [(3, 5), (20, 40), (300, 25)])
def test_every_row_is_in_the_cluster_of_its_nearest_mean(
    dim: int, n_clusters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.evaluation.label_free.clusters._TOLERANCE", 0.0)
    z = clustered(500, dim, 12)
    found = fit_kmeans(z, n_clusters)
    means = np.stack([z[found.labels == label].mean(axis=0, dtype=np.float64) for label in range(n_clusters)])
    squared = np.square(z.astype(np.float64)[:, None] - means[None]).sum(axis=2)
    own = np.take_along_axis(squared, found.labels[:, None], axis=1)[:, 0]
    assert (own <= squared.min(axis=1) * (1 + 1e-5)).all()
    assert found.objective == pytest.approx(own.mean(), rel=1e-6)


def test_k_means_of_one_cluster_of_all_rows_and_of_copies() -> None:
    z = clustered(50, 5, 3)
    assert fit_kmeans(z, 1).objective == pytest.approx(z.var(axis=0, dtype=np.float64).sum(), rel=1e-6)
    every = fit_kmeans(np.concatenate([z, z]), 50)
    assert np.array_equal(every.labels[:50], every.labels[50:]) and every.objective == 0
    copies = z[np.concatenate([np.arange(50), np.full(400, 7)])]
    for n_clusters in (20, 49):
        assert np.bincount(fit_kmeans(copies, n_clusters).labels, minlength=n_clusters).min() > 0


def drawn(n: int = 240, dim: int = 20, *, spread: float = 1.0, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((9, dim))
    z = centres[generator.integers(0, 9, n)] + spread * generator.standard_normal((n, dim))
    return z * np.exp(generator.standard_normal((n, 1)))  # of many lengths


def test_one_cluster_is_learnt_one_a_row_cannot_be_and_far_ones_always_are() -> None:
    z = drawn()
    assert cluster_learnability(z, n_clusters=1).value == 1
    assert cluster_learnability(z, n_clusters=240).value == pytest.approx(0, abs=1 / 240)
    assert cluster_learnability(drawn(spread=0.02), n_clusters=9, k=5).value == 1
    assert cluster_learnability(z).n_clusters == 15  # the root of the number of rows
    order = np.random.default_rng(2).permutation(240)
    assert cluster_learnability(z[order], seed=4).value == cluster_learnability(z, seed=4).value


@pytest.mark.parametrize("k", [1, 3])
def test_learnability_is_that_of_its_parts(k: int) -> None:
    z, z_val = drawn(seed=1), drawn(160, seed=2)
    unit = np.concatenate([z, z_val])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for n_clusters in (4, 60):
        found = cluster_learnability(z, z_val, n_clusters=n_clusters, k=k, seed=3)
        labels = fit_kmeans(unit, n_clusters, seed=3).labels
        order = np.argsort(np.linalg.norm(unit[240:, None] - unit[None, :240], axis=2), axis=1)[:, :k]
        assert found.value == pytest.approx(float((vote_labels(labels[:240][order]) == labels[240:]).mean()))
        if k == 1:
            theirs = KNeighborsClassifier(1, metric="cosine").fit(unit[:240], labels[:240])
            assert found.value == pytest.approx(theirs.score(unit[240:], labels[240:]))
        assert (found.n_train, found.n_val) == (240, 160)
    assert vote_labels(np.array([[4, 2, 2, 4, 9], [7, 8, 9, 10, 11], [1, 3, 3, 3, 1]])).tolist() == [4, 7, 3]


def test_copies_are_on_one_side_and_near_duplicates_are_counted() -> None:
    generator = np.random.default_rng(3)
    z = generator.standard_normal((400, 30))  # of which neighbours tell little
    alone = cluster_learnability(z, n_clusters=20)
    twice = cluster_learnability(np.concatenate([z, z]), n_clusters=20)
    assert alone.value < 0.5 and twice.value == pytest.approx(alone.value, abs=0.1)
    assert (twice.n_train, twice.n_val, twice.n_duplicates) == (400, 400, 400)
    assert "400 of 800 rows equal an earlier one" in twice.notes[0] and alone.notes == ()
    apart = cluster_learnability(z[:200], z[200:], n_clusters=20)
    leaking = cluster_learnability(z[:200], np.concatenate([z[200:], z[:150]]), n_clusters=20)
    assert (leaking.n_val, leaking.n_duplicates) == (apart.n_val, 150)
    near = np.concatenate([z, z * (1 + 1e-7 * generator.standard_normal((400, 30)))])
    found = cluster_learnability(near, n_clusters=20)
    assert found.value > alone.value + 0.2  # half of them lie across the split
    assert found.value_without_near_duplicates == pytest.approx(alone.value, abs=0.1)
    assert f"{found.n_near_duplicates} of 400 validation rows are near duplicates" in found.notes[0]


@pytest.mark.parametrize("shift", [1e-3, 1e-2, 1e-1])
def test_rows_that_are_there_twice_with_a_shift_are_noted(shift: float) -> None:
    generator = np.random.default_rng(0)
    z = generator.standard_normal((400, 30))
    alone = cluster_learnability(z, n_clusters=20)
    twice = np.concatenate([z, z + shift * generator.standard_normal(z.shape)])
    found = cluster_learnability(twice, n_clusters=20)
    assert alone.notes == () and found.value > alone.value + 0.15
    assert found.n_near_duplicates > 150 and "nearer than chance explains" in found.notes[0]
    assert found.value_without_near_duplicates == pytest.approx(alone.value, abs=0.12)


def labelled(n: int = 90, dim: int = 11) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    y = np.concatenate([np.arange(4), generator.integers(0, 4, n - 4)])
    return generator.normal(size=(4, dim))[y] * 2 + generator.normal(size=(n, dim)), y


def rate(z: np.ndarray, eps2: float) -> float:
    """Equation 6 with features as columns, word for word."""
    columns = (z / np.linalg.norm(z, axis=1, keepdims=True)).T
    dim, n = columns.shape
    return float(np.linalg.slogdet(np.eye(dim) + dim / (n * eps2) * columns @ columns.T)[1] / 2)


@pytest.mark.parametrize(("n", "dim"), [(90, 11), (30, 50)])
def test_coding_rate_reduction_is_the_formula_of_the_paper(n: int, dim: int) -> None:
    z, y = labelled(n, dim)
    for eps2 in (0.01, 0.5, 2.0):
        found = coding_rate_reduction(z, clusters=[f"class {one}" for one in y], eps2=eps2)
        within = sum((y == one).mean() * rate(z[y == one], eps2) for one in range(4))
        assert found.rate == pytest.approx(rate(z, eps2), rel=1e-12)
        assert found.rate_within == pytest.approx(within, rel=1e-12)
        assert found.value == found.rate - found.rate_within > 0
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(dim, dim)))[0]
    usual = coding_rate_reduction(z, clusters=y).value
    assert coding_rate_reduction(z @ turn * 1e-15, clusters=y).value == pytest.approx(usual, rel=1e-12)
    alike = coding_rate_reduction(np.concatenate([z, z]), clusters=np.repeat(["a", "b"], n))
    assert alike.value == pytest.approx(0.0, abs=1e-12)


Z = drawn(40, 5)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: fit_kmeans(Z, 41), "at least 41"),
        (lambda: fit_kmeans(Z[np.arange(40) % 4], 5), "z has 4 distinct rows"),
        (lambda: fit_kmeans(Z, 0), "n_clusters is 0"),
        (lambda: cluster_learnability(Z[:3]), "at least 4"),
        (lambda: cluster_learnability(np.outer(np.arange(1, 41), np.arange(1, 6))), "same direction"),
        (lambda: cluster_learnability(np.where(np.arange(40)[:, None] == 17, 0, Z)), "Row 17 of z is 0"),
        (lambda: cluster_learnability(np.where(np.arange(40)[:, None] == 17, np.nan, Z)), "NaN"),
        (lambda: cluster_learnability(Z, Z[:9]), "Every row of z_val"),
        (lambda: cluster_learnability(Z, k=21), "21 neighbours are to vote"),
        (lambda: cluster_learnability(Z, Z[:, :3]), "z_val has 3 features"),
        (lambda: cluster_learnability(Z, train_share=1), "train_share"),
        (lambda: coding_rate_reduction(np.eye(3), clusters=[0, 1, 1]), "at least 4"),
        (lambda: coding_rate_reduction(np.eye(5), clusters=[2] * 5), "in one cluster"),
        (lambda: coding_rate_reduction(np.eye(5), clusters=[0, 1]), "one label for each of the 5"),
        (lambda: coding_rate_reduction(np.eye(5, 4), clusters=[0, 0, 1, 1, 1]), "Row 4 of z is all 0"),
        (lambda: coding_rate_reduction(np.eye(5), n_clusters=5), "n_clusters is 5"),
        (lambda: coding_rate_reduction(np.eye(5), n_clusters=2, clusters=[0, 0, 1, 1, 1]), "both clusters"),
        (lambda: coding_rate_reduction(np.eye(5), eps2=0.0), "eps2"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(call: Any, fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        call()
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
