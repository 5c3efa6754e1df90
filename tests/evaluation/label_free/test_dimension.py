"""TwoNN, spanning trees and local dimensions: formulas, known dimensions, and what may not change them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.dimension import _tree_length, idest, intrinsic_dimension, local_dimension_entropy
from zoo.evaluation.nearest_neighbours import find_nearest


def drawn(n: int, dim: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, dim))


def turned(z: np.ndarray, dim: int) -> np.ndarray:
    """The same points in a space of more dimensions, in no direction of its axes."""
    basis = np.linalg.qr(np.random.default_rng(8).standard_normal((dim, z.shape[1])))[0]
    return z @ basis.T + 3.0


def sphere(n: int) -> np.ndarray:
    z = np.random.default_rng(5).standard_normal((n, 3))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@pytest.mark.parametrize(("z", "dimension"), [(drawn(2500, 1), 1), (drawn(2500, 5), 5), (sphere(2500), 2)])
def test_a_manifold_of_known_dimension_has_it(z: np.ndarray, dimension: int) -> None:
    for fit in ("linear", "maximum_likelihood"):
        assert intrinsic_dimension(turned(z, 30), fit=fit).value == pytest.approx(dimension, rel=0.06)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_twonn_is_the_line_or_the_likelihood_of_scikit_dimension(dtype: type) -> None:
    z = (np.random.default_rng(1).standard_normal((400, 30)) * np.arange(1, 31) ** -0.8 + 2).astype(dtype)
    apart = np.sort(cdist(z.astype(np.float64), z.astype(np.float64)), axis=1)
    logs = np.sort(np.log(apart[:, 2] / apart[:, 1]))
    for discard in (0.0, 0.1, 0.37):
        kept = min(int(400 * (1 - discard)), 399)
        heights = -np.log(1 - np.arange(1, kept + 1) / 400)
        expected = float(np.linalg.lstsq(logs[:kept, None], heights, rcond=None)[0][0])
        found = intrinsic_dimension(z, discard=discard)
        assert found.value == pytest.approx(expected, rel=1e-9)
        assert (found.n, found.n_used, found.n_discarded) == (400, 400, 400 - kept)
    censored = intrinsic_dimension(z, fit="maximum_likelihood", discard=0.2)
    assert censored.value == pytest.approx(319 / (logs[:320].sum() + 80 * logs[319]))


def test_the_cosine_distance_as_printed_halves_the_dimension() -> None:
    z = np.random.default_rng(7).standard_normal((500, 5))
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    chord = intrinsic_dimension(z, distance="cosine").value
    assert chord == pytest.approx(intrinsic_dimension(unit).value, rel=1e-9)
    assert intrinsic_dimension(z, distance="squared_cosine").value == pytest.approx(chord / 2, rel=1e-12)


@pytest.mark.parametrize(
    "estimate",
    [
        lambda z: intrinsic_dimension(z).value,
        lambda z: intrinsic_dimension(z, distance="cosine").value,
        lambda z: idest(z, distance="cosine").value,
        lambda z: idest(z).value,
    ],
)
def test_rotation_and_scale_change_nothing(estimate: Any) -> None:
    z = drawn(250, 12) * np.arange(1, 13) ** -0.5 + 0.7
    rotation = np.linalg.qr(np.random.default_rng(4).standard_normal((12, 12)))[0]
    for other in (z @ rotation, 1e-60 * z, 1e60 * z):
        assert estimate(other) == pytest.approx(estimate(z), rel=1e-6)


def test_copies_of_rows_are_counted_and_change_nothing() -> None:
    z = np.random.default_rng(6).standard_normal((200, 6))
    order = np.random.default_rng(7).permutation(300)
    copies = np.concatenate([z, z[:70], np.tile(z[5], (30, 1))])[order]
    for estimate in (intrinsic_dimension, local_dimension_entropy):
        found = estimate(copies)
        assert (found.n, found.n_duplicates, found.n_used) == (300, 100, 200)
        assert found.notes == ("100 of 300 rows equal an earlier one and are left out.",)
        assert found.value == pytest.approx(estimate(z).value, rel=1e-12)
    assert idest(np.concatenate([z, z[:30]])).value == pytest.approx(idest(z).value, rel=1e-9)
    scaled = intrinsic_dimension(np.concatenate([z, 3 * z]), distance="cosine")
    assert scaled.n_duplicates == 200


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_near_duplicates_are_counted_and_the_value_without_them_is_told(share: float) -> None:
    generator = np.random.default_rng(3)
    z = turned(generator.standard_normal((1000, 5)), 20)
    doubled = np.concatenate([z, z[: int(share * 1000)]])
    doubled[1000:] += 1e-6 * generator.standard_normal((len(doubled) - 1000, 20))
    for estimate in (intrinsic_dimension, local_dimension_entropy):
        alone, found = estimate(z), estimate(doubled)
        assert (alone.n_near_duplicates, alone.value_without_near_duplicates, alone.notes) == (0, None, ())
        assert found.n_near_duplicates == 2 * int(share * 1000) and found.value < alone.value
        assert found.value_without_near_duplicates == pytest.approx(alone.value, rel=0.03)
        assert f"{found.n_near_duplicates:,} of {len(doubled):,} rows are near duplicates" in found.notes[0]
    assert intrinsic_dimension(np.concatenate([z, z[:2] + 1e-6])).notes == ()  # too few to be worth a word


@pytest.mark.parametrize("times", [3, 10, 30, 100, 300])
def test_a_fifth_of_the_rows_repeated_nearer_than_usual_is_noted_with_a_better_value(times: float) -> None:
    generator = np.random.default_rng(0)
    z = generator.standard_normal((1000, 5))
    shift = generator.standard_normal((200, 5))
    shift *= np.median(find_nearest(z, 1)[0]) / times / np.linalg.norm(shift, axis=1, keepdims=True)
    alone, found = intrinsic_dimension(z), intrinsic_dimension(np.concatenate([z, z[:200] + shift]))
    assert alone.notes == () and found.value < 2 and len(found.notes) == 1
    without = found.value_without_near_duplicates
    assert without is not None and abs(without - alone.value) < 0.4 * abs(found.value - alone.value)
    if times >= 10:
        assert without == pytest.approx(alone.value, rel=0.06) and found.n_near_duplicates >= 400


@pytest.mark.parametrize("k", [3, 10, 40])
def test_the_entropy_is_that_of_the_formula(k: int) -> None:
    z = np.random.default_rng(0).standard_normal((120, 6)) + 4
    total = 0.0
    for apart in np.sort(cdist(z, z), axis=1)[:, 1 : k + 1]:  # CLID, Eq. 4, one row after the other
        dimension = (k - 1) / sum(math.log(apart[-1] / other) for other in apart[:-1])
        total += dimension * math.log(apart[-1]) + dimension / 2 * math.log(math.pi) - gammaln(dimension / 2 + 1)
    found = local_dimension_entropy(z, k=k)
    assert found.value == pytest.approx(total / 120 - math.log(k - 1), rel=1e-10)
    assert local_dimension_entropy(z, k=k, normalised=True).value == pytest.approx(found.value + math.log(119))
    scaled = local_dimension_entropy(7 * z, k=k)
    assert scaled.value == pytest.approx(found.value + found.mean_dimension * math.log(7), rel=1e-9)


def test_a_distribution_of_known_entropy_has_it() -> None:
    gaussian = local_dimension_entropy(np.random.default_rng(1).standard_normal((5000, 2)), k=100, normalised=True)
    assert gaussian.value == pytest.approx(1 + math.log(2 * math.pi), abs=0.15)
    assert gaussian.mean_dimension == pytest.approx(2, rel=0.05)


def test_the_tree_is_that_of_scipy_and_finds_low_dimensions() -> None:
    apart = cdist(drawn(70, 5), drawn(70, 5))
    for power in (0.5, 2.0):
        expected = (minimum_spanning_tree(apart).data ** power).sum()
        assert _tree_length(apart, power) == pytest.approx(expected, rel=1e-6)
    for dim in (1, 3):
        assert idest(turned(drawn(1200, dim), 10)).value == pytest.approx(dim, abs=0.12 * dim)
    one, half = idest(drawn(300, 4)), idest(drawn(300, 4), power=0.5)
    assert one.value == pytest.approx(1 / (1 - one.slope)) and half.value == pytest.approx(0.5 / (1 - half.slope))
    assert one.sizes[0] == 30 and one.sizes[-1] == 300 and one.r_squared > 0.99
    few = idest(drawn(500, 2), most=100)
    assert few.sizes[-1] == 100 and few.n_used == 500
    assert few.value == idest(drawn(500, 2), most=100).value != idest(drawn(500, 2), most=100, seed=1).value


Z = drawn(60, 3)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: intrinsic_dimension(Z[:11]), "at least 12"),
        (lambda: intrinsic_dimension(np.ones((20, 3))), "are equal"),
        (lambda: intrinsic_dimension(Z[np.arange(40) % 5]), "5 distinct rows among 40"),
        (lambda: intrinsic_dimension(np.where(Z[3, 1] == Z, np.inf, Z)), "NaN"),
        (lambda: intrinsic_dimension(np.eye(30)), "equally far"),
        (lambda: intrinsic_dimension(Z, discard=0.99), "equally far"),
        (lambda: intrinsic_dimension(Z, discard=1), "discard is 1"),
        (lambda: intrinsic_dimension(Z, fit="bayes"), "fit is"),
        (lambda: intrinsic_dimension(Z, distance="l1"), "distance is"),
        (lambda: idest(Z[:40]), "at least 50"),
        (lambda: idest(np.concatenate([Z[:30], Z[:30]])), "30 distinct rows among 60"),
        (lambda: idest(np.eye(60)), "no dimension has"),
        (lambda: idest(Z, power=0), "power is 0"),
        (lambda: idest(Z, distance="squared_cosine"), "distance is"),
        (lambda: local_dimension_entropy(Z[:20], k=20), "at least 21"),
        (lambda: local_dimension_entropy(np.eye(40), k=5), "all at the same distance"),
        (lambda: local_dimension_entropy(Z, k=2), "k is 2"),
    ],
)
def test_what_has_no_dimension_is_refused_in_a_sentence(call: Any, fragment: str) -> None:
    with pytest.raises((DataError, QueryError)) as caught:
        call()
    assert fragment in str(caught.value) and "\n" not in str(caught.value)
