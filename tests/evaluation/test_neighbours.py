"""The vote of nearest neighbours is what a plain loop over all pairs gives, in blocks of any size."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from tests.each import for_each
from zoo.errors import DataError, QueryError
from zoo.evaluation.neighbours import NeighbourProbe

SMALL_BLOCKS = 1 << 15


def drawn(n: int, seed: int, *, dim: int = 12, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, n)
    centres = np.random.default_rng(99).normal(size=(classes, dim))
    return (centres[y] + generator.normal(size=(n, dim))).astype(np.float32), y


def by_double_loop(
    x: np.ndarray, y: np.ndarray, queries: np.ndarray, k: int, temperature: float = 0.07, *, own: Any = None
) -> np.ndarray:
    """Votes (m, n_classes), as the method is told in a paper."""
    classes = np.unique(y)
    votes = np.zeros((len(queries), len(classes)))
    for q, query in enumerate(queries.astype(np.float64)):
        similarities = []
        for row, other in enumerate(x.astype(np.float64)):
            lengths = np.linalg.norm(query) * np.linalg.norm(other)
            cosine = float(query @ other / lengths) if lengths else 0.0
            similarities.append((-round(cosine, 12), row))
        if own is not None:
            similarities.pop(own[q])
        for negative, row in sorted(similarities)[:k]:
            votes[q, np.searchsorted(classes, y[row])] += np.exp(-negative / temperature)
    return votes


@for_each(product([1, 5, 40, 150], [SMALL_BLOCKS, 1 << 27]), arguments=2)
def test_votes_equal_those_of_a_double_loop(k: int, block_bytes: int) -> None:
    (x, y), (queries, _) = drawn(150, 0), drawn(60, 1)
    probe = NeighbourProbe(k=k, block_bytes=block_bytes).fit(x, y)
    expected = by_double_loop(x, y, queries, k)
    shares = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probe.predict_proba(queries), shares, rtol=1e-4, atol=1e-6)
    assert np.array_equal(probe.predict(queries), shares.argmax(axis=1))


@for_each([1 << 13, SMALL_BLOCKS, 1 << 27])
def test_of_equal_neighbours_the_first_vote_whatever_the_blocks(block_bytes: int) -> None:
    x, _ = drawn(9, 0)
    x = np.repeat(x, 40, axis=0)[np.random.default_rng(0).permutation(360)]  # each vector 40 times
    y = np.random.default_rng(1).integers(0, 4, 360)
    queries, _ = drawn(50, 1)
    probe = NeighbourProbe(k=25, block_bytes=block_bytes).fit(x, y)
    expected = by_double_loop(x, y, queries, 25)
    np.testing.assert_allclose(
        probe.predict_proba(queries), expected / expected.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6
    )


@for_each([0.0, 1e-4, 1e-3])
def test_features_that_are_nearly_all_the_same_are_ranked_all_the_same(noise: float) -> None:
    generator = np.random.default_rng(0)
    x = (1 + noise * generator.normal(size=(300, 10))).astype(np.float32)
    y, queries = generator.integers(0, 3, 300), (1 + noise * generator.normal(size=(20, 10))).astype(np.float32)
    probe = NeighbourProbe(k=20, block_bytes=1 << 13).fit(x, y)
    if noise == 0:
        assert np.allclose(probe.predict_proba(queries), np.bincount(y[:20], minlength=3) / 20)
        return
    expected = by_double_loop(x, y, queries, 20)
    shares = expected / expected.sum(axis=1, keepdims=True)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries.astype(float), x.astype(float))]
    near = np.sort(unit[0] @ unit[1].T, axis=1)
    clear = near[:, -20] - near[:, -21] > 3e-12  # a digit more or less in the twelfth place changes no neighbour
    assert clear.mean() > 0.5
    np.testing.assert_allclose(probe.predict_proba(queries)[clear], shares[clear], rtol=1e-4, atol=1e-6)


@for_each([1 << 13, 1 << 27])
def test_features_in_float64_have_the_neighbours_that_float64_says(block_bytes: int) -> None:
    order = np.random.default_rng(5).permutation(300)
    angles = 0.5 + 1e-9 * order  # of which float32 tells none from another
    x = np.stack([np.cos(angles), np.sin(angles), np.zeros(300)], axis=1)
    probe = NeighbourProbe(k=1, block_bytes=block_bytes).fit(x, order)
    assert probe.predict(np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])).tolist() == [0, 299]


def test_k_with_the_smallest_validation_error_is_chosen() -> None:
    (x, y), (x_val, y_val) = drawn(300, 0), drawn(120, 1)
    probe = NeighbourProbe(k=(1, 10, 100)).fit(x, y, x_val=x_val, y_val=y_val)
    errors = {k: 100 * (by_double_loop(x, y, x_val, k).argmax(axis=1) != y_val).mean() for k in (1, 10, 100)}
    assert probe.report_["errors_percent"] == pytest.approx({str(k): error for k, error in errors.items()})
    assert errors[probe.k_] == min(errors.values())
    assert probe.report_["validation_error_percent"] == pytest.approx(100 * (1 - probe.score(x_val, y_val)))
    json.dumps(probe.report_)


@for_each([30, 1000])
def test_without_validation_data_each_training_image_is_classified_by_the_others(n_left_out: int) -> None:
    x, y = drawn(90, 0)
    probe = NeighbourProbe(k=(3, 12), n_left_out=n_left_out, block_bytes=SMALL_BLOCKS).fit(x, y)
    rows = np.sort(np.random.Generator(np.random.PCG64(0)).permutation(90)[:n_left_out])
    for k in (3, 12):
        votes = by_double_loop(x, y, x[rows], k, own=rows)
        error = 100 * (votes.argmax(axis=1) != y[rows]).mean()
        assert probe.report_["errors_percent"][str(k)] == pytest.approx(error)


def test_a_k_beyond_the_number_of_images_is_cut_and_the_report_says_so() -> None:
    x, y = drawn(15, 0)
    probe = NeighbourProbe(k=200).fit(x, y)
    assert probe.k_ == 15
    assert probe.report_["notes"] == ["k = 200 was cut to 15, for no more training images can vote."]
    assert NeighbourProbe(k=(5, 20, 100)).fit(x, y).report_["errors_percent"].keys() == {"5", "14"}


def test_it_is_a_scikit_learn_classifier() -> None:
    probe = NeighbourProbe(k=5)
    assert clone(probe).get_params() == probe.get_params()
    reasons = {
        "check_dtype_object": "DataError is a ValueError, whatever is wrong with the features",
        "check_supervised_y_2d": "a column of labels is taken as labels, without a warning",
        "check_methods_subset_invariance": "float32 products of other shapes differ in the last digit",
    }
    check_estimator(probe, expected_failed_checks=reasons, on_skip=None)


@for_each(
    [
        ({"k": 0}, "k is 0, expected numbers of neighbours"),
        ({"k": ()}, r"k is \(\), expected numbers of neighbours"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a number above 0"),
        ({"block_bytes": 0}, "block_bytes is 0"),
    ],
    arguments=2,
)
def test_options_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        NeighbourProbe(**options).fit(*drawn(20, 0))


def test_data_that_is_not_as_expected_is_refused_in_a_sentence() -> None:
    x, y = drawn(30, 0)
    bad = x.copy()
    bad[17, 2] = np.nan
    probe, fitted = NeighbourProbe(), NeighbourProbe(k=3).fit(x, y)
    for call, said in [
        (lambda: probe.fit(bad, y), "Row 17 of x holds nan as feature 2"),
        (lambda: probe.fit(x, y, x_val=bad, y_val=y), "Row 17 of x_val holds nan"),
        (lambda: probe.fit(x, np.zeros(30)), "one class only"),
        (lambda: probe.fit(x[:0], y[:0]), "x is empty"),
        (lambda: probe.fit(x, y, x_val=x[:, :3], y_val=y), "x_val has 3 features"),
        (lambda: probe.fit(x, y, y_val=y), "only one of x_val and y_val"),
        (lambda: fitted.predict(x[:, :3]), "X has 3 features, but NeighbourProbe is expecting 12"),
        (lambda: fitted.predict(bad), "Row 17 of x holds nan"),
    ]:
        with pytest.raises(DataError, match=said):
            call()
