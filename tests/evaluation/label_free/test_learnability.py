"""Cluster learnability is 1 for one cluster, 0 for one a row, and what k-means and nearest neighbours give between."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.arrays import features_of
from zoo.evaluation.label_free.clusters import _split, cluster_learnability, kmeans, voted
from zoo.evaluation.nearest import fingerprints, first_equals, points_of


def drawn(n: int = 240, dim: int = 20, *, spread: float = 1.0, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((9, dim))
    z = centres[generator.integers(0, 9, n)] + spread * generator.standard_normal((n, dim))
    return z * np.exp(generator.standard_normal((n, 1)))  # of many lengths


def test_one_cluster_is_learnt_and_one_a_row_cannot_be() -> None:
    z = drawn()
    assert cluster_learnability(z, n_clusters=1).value == 1
    assert cluster_learnability(z, n_clusters=240).value == pytest.approx(0, abs=1 / 240)


@pytest.mark.parametrize("k", [1, 5])
def test_far_clusters_are_always_learnt(k: int) -> None:
    assert cluster_learnability(drawn(spread=0.02), n_clusters=9, k=k).value == 1


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n_clusters", [4, 15, 60])
def test_the_value_is_that_of_its_parts(n_clusters: int, k: int) -> None:
    z, z_val = drawn(seed=1), drawn(160, seed=2)
    unit = np.concatenate([z, z_val])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    found = cluster_learnability(z, z_val, n_clusters=n_clusters, k=k, seed=3)
    labels = kmeans(unit, n_clusters, seed=3).labels
    order = np.argsort(np.linalg.norm(unit[240:, None] - unit[None, :240], axis=2), axis=1)[:, :k]
    told = voted(labels[:240][order])
    assert found.value == pytest.approx(float((told == labels[240:]).mean()))
    if k == 1:
        theirs = KNeighborsClassifier(1, metric="cosine").fit(unit[:240], labels[:240]).score(unit[240:], labels[240:])
        assert found.value == pytest.approx(theirs)
    assert (found.n_clusters, found.k, found.n_train, found.n_val) == (n_clusters, k, 240, 160)


def test_by_default_there_are_as_many_clusters_as_the_root_of_the_number_of_rows() -> None:
    found = cluster_learnability(drawn(230))
    assert (found.n_clusters, found.k, found.n_train, found.n_val) == (15, 1, 115, 115)
    assert 0 < found.value < 1
    found = cluster_learnability(drawn(100), drawn(21, seed=4))
    assert (found.n_clusters, found.n_train, found.n_val) == (11, 100, 21)
    assert cluster_learnability(drawn(100), train_share=0.8).n_train == 80


def test_the_order_of_rows_and_their_lengths_change_nothing() -> None:
    z = drawn()
    value = cluster_learnability(z).value
    order = np.random.default_rng(7).permutation(240)
    assert cluster_learnability(z[order]).value == value
    assert cluster_learnability(2.0**30 * z).value == value
    assert cluster_learnability(z * 2.0 ** np.arange(240)[:, None]).value == value


def test_no_row_is_told_by_its_own_copy() -> None:
    z = np.random.default_rng(3).standard_normal((400, 30))  # of which neighbours tell little
    alone = cluster_learnability(z, n_clusters=20)
    twice = cluster_learnability(np.concatenate([z, z]), n_clusters=20)
    assert alone.value < 0.5 and twice.value == pytest.approx(alone.value, abs=0.1)
    assert (twice.n_train, twice.n_val, twice.n_duplicates, alone.n_duplicates) == (400, 400, 400, 0)
    assert "400 of 800 rows equal an earlier one" in twice.notes[0] and alone.notes == ()
    apart = cluster_learnability(z[:200], z[200:], n_clusters=20)
    leaking = cluster_learnability(z[:200], np.concatenate([z[200:], z[:150]]), n_clusters=20)
    assert (leaking.n_val, leaking.n_duplicates) == (apart.n_val, 150)
    with pytest.raises(DataError, match=r"Every row of z_val equals a row of z"):
        cluster_learnability(z, z[:90])


def test_rows_told_by_near_duplicates_are_counted() -> None:
    generator = np.random.default_rng(3)
    z = generator.standard_normal((400, 30))
    alone = cluster_learnability(z, n_clusters=20)
    near = np.concatenate([z, z * (1 + 1e-7 * generator.standard_normal((400, 30)))])
    found = cluster_learnability(near, n_clusters=20)
    assert found.value > alone.value + 0.2  # half of them lie across the split
    assert found.value_without_near_duplicates == pytest.approx(alone.value, abs=0.1)
    assert 160 < found.n_near_duplicates < 240
    assert f"{found.n_near_duplicates} of 400 validation rows are near duplicates" in found.notes[0]


def test_the_split_without_copies_is_what_it_was() -> None:
    z = drawn(101)
    points = points_of(features_of(z), "cosine")
    marks = fingerprints(points)
    order = np.argsort(marks, kind="stable")
    expected = order[np.random.default_rng(5).permutation(101)]
    train, val = _split(marks, first_equals(points, np.arange(101)), 0.3, 5)
    assert np.array_equal(train, np.sort(expected[:30])) and np.array_equal(val, np.sort(expected[30:]))


def test_of_equally_frequent_clusters_that_of_the_nearest_voter_is_told() -> None:
    labels = np.array([[4, 2, 2, 4, 9], [7, 8, 9, 10, 11], [1, 3, 3, 3, 1]])
    assert voted(labels).tolist() == [4, 7, 3]


def test_what_cannot_be_learnt_is_refused_in_one_sentence() -> None:
    z = drawn()
    with pytest.raises(DataError, match="z has 3 rows, but cluster learnability needs at least 4"):
        cluster_learnability(z[:3])
    with pytest.raises(DataError, match="All 240 rows of z are equal"):
        cluster_learnability(np.ones((240, 5)))
    with pytest.raises(DataError, match="All 240 rows of z have the same direction"):
        cluster_learnability(np.outer(np.arange(1, 241), np.arange(1, 6)))
    with pytest.raises(DataError, match="Row 17 of z is 0 everywhere"):
        cluster_learnability(np.where(np.arange(240)[:, None] == 17, 0, z))
    with pytest.raises(DataError, match="holds NaN"):
        cluster_learnability(np.where(np.arange(240)[:, None] == 17, np.nan, z))
    with pytest.raises(DataError, match="z has 240 distinct rows, but k-means was asked for 241 clusters"):
        cluster_learnability(z, n_clusters=241)
    with pytest.raises(DataError, match="z has 120 rows to learn from, but 121 neighbours are to vote"):
        cluster_learnability(z, k=121)
    with pytest.raises(DataError, match="z_val has 3 features, but"):
        cluster_learnability(z, z[:, :3])
    with pytest.raises(QueryError, match="n_clusters is 0, expected a whole number of at least 1"):
        cluster_learnability(z, n_clusters=0)
    with pytest.raises(QueryError, match="k is 0, expected"):
        cluster_learnability(z, k=0)
    with pytest.raises(QueryError, match="train_share is 1, expected"):
        cluster_learnability(z, train_share=1)
