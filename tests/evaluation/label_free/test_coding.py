"""The coding rate is a log-determinant, and its reduction what knowing the clusters saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.catalogue import compute
from zoo.evaluation.label_free.clusters import coding_rate_reduction, kmeans


def drawn(n: int = 90, dim: int = 11, *, n_classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), generator.integers(0, n_classes, n - n_classes)])
    return generator.normal(size=(n_classes, dim))[y] * 2 + generator.normal(size=(n, dim)), y


def rate(z: np.ndarray, eps2: float) -> float:
    """Equation 6 with features as columns, word for word."""
    columns = (z / np.linalg.norm(z, axis=1, keepdims=True)).T
    dim, n = columns.shape
    return float(np.linalg.slogdet(np.eye(dim) + dim / (n * eps2) * columns @ columns.T)[1] / 2)


@pytest.mark.parametrize("eps2", [0.01, 0.5, 2.0])
@pytest.mark.parametrize(("n", "dim"), [(90, 11), (30, 50)])
def test_it_is_the_formula_of_the_paper(n: int, dim: int, eps2: float) -> None:
    z, y = drawn(n, dim)
    found = coding_rate_reduction(z, clusters=y, eps2=eps2)
    within = sum((y == one).mean() * rate(z[y == one], eps2) for one in range(4))
    assert found.rate == pytest.approx(rate(z, eps2), rel=1e-12)
    assert found.rate_within == pytest.approx(within, rel=1e-12)
    assert found.value == found.rate - found.rate_within > 0
    assert (found.n, found.n_clusters) == (n, 4)


@pytest.mark.parametrize("dim", [8, 40])
def test_orthogonal_classes_have_a_closed_form(dim: int) -> None:
    z = np.repeat(np.eye(8, dim), 6, axis=0)
    found = coding_rate_reduction(z, clusters=np.repeat(np.arange(8), 6))
    assert found.rate == pytest.approx(8 / 2 * np.log(1 + dim / (8 * 0.5)), rel=1e-13)
    assert found.rate_within == pytest.approx(np.log(1 + dim / 0.5) / 2, rel=1e-13)


def test_clusters_that_are_all_alike_save_nothing() -> None:
    z, _ = drawn()
    found = coding_rate_reduction(np.concatenate([z, z]), clusters=np.repeat(["a", "b"], len(z)))
    assert found.value == pytest.approx(0.0, abs=1e-12)


def test_rotation_scale_order_and_the_names_of_clusters_change_nothing() -> None:
    z, y = drawn()
    generator = np.random.default_rng(1)
    order = generator.permutation(len(z))
    rotation = np.linalg.qr(generator.normal(size=(11, 11)))[0]
    changed = coding_rate_reduction((z @ rotation * 1e-15)[order], clusters=[f"class {3 - one}" for one in y[order]])
    assert changed.value == pytest.approx(coding_rate_reduction(z, clusters=y).value, rel=1e-12)


def test_float32_features_give_the_float64_answer() -> None:
    z, y = drawn()
    expected = coding_rate_reduction(z.astype(np.float32).astype(np.float64), clusters=y).value
    assert coding_rate_reduction(z.astype(np.float32), clusters=y).value == pytest.approx(expected, rel=1e-13)


def test_clusters_are_the_square_root_of_the_rows_by_k_means_of_normalised_features() -> None:
    z, _ = drawn(100, 6)
    found = coding_rate_reduction(z, seed=3)
    labels = kmeans(z / np.linalg.norm(z, axis=1, keepdims=True), 10, seed=3).labels
    assert found.n_clusters == 10
    assert found == coding_rate_reduction(z, clusters=labels)
    assert coding_rate_reduction(z, n_clusters=4, seed=3).n_clusters == 4
    assert compute("coding_rate_reduction", z=z, seed=3).value == found.value


@pytest.mark.parametrize(
    ("z", "options", "sentence"),
    [
        (np.eye(3), {"clusters": [0, 1, 1]}, "needs at least 4"),
        (np.eye(5), {"clusters": [2, 2, 2, 2, 2]}, "All 5 rows are in one cluster"),
        (np.eye(5), {"clusters": [0, 1]}, "expected one label for each of the 5 rows"),
        (np.eye(5, 4), {"clusters": [0, 0, 1, 1, 1]}, "Row 4 of z is all 0"),
        (np.full((5, 4), np.inf), {}, "NaN or infinity"),
        (np.eye(5), {"n_clusters": 1}, "n_clusters is 1, expected a number from 2 to 4"),
        (np.eye(5), {"n_clusters": 5}, "n_clusters is 5, expected a number from 2 to 4"),
        (np.eye(5), {"n_clusters": 2, "clusters": [0, 0, 1, 1, 1]}, "both clusters and n_clusters"),
        (np.eye(5), {"eps2": 0.0}, "eps2 is 0.0, expected a finite number above 0"),
        (np.eye(5), {"eps2": float("nan")}, "eps2 is nan, expected a finite number above 0"),
    ],
)
def test_what_has_no_value_is_refused_in_a_sentence(z: np.ndarray, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        coding_rate_reduction(z, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
