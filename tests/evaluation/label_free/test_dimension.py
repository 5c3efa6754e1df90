"""TwoNN gives the dimension of manifolds that have one, and does not see rotations, scales, orders or copies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.dimension import intrinsic_dimension


def turned(z: np.ndarray, dim: int) -> np.ndarray:
    """The same points in a space of more dimensions, in no direction of its axes."""
    basis = np.linalg.qr(np.random.default_rng(8).standard_normal((dim, z.shape[1])))[0]
    return z @ basis.T + 3.0


def manifold(name: str, n: int = 3000) -> np.ndarray:
    generator = np.random.default_rng(5)
    if name == "sphere":
        z = generator.standard_normal((n, 3))
        return turned(z / np.linalg.norm(z, axis=1, keepdims=True), 30)
    if name == "swiss roll":
        angle = 1.5 * math.pi * np.sqrt(1 + 8 * generator.random(n))
        roll = [angle * np.cos(angle), 21 * generator.random(n) * 2, angle * np.sin(angle)]
        return turned(np.stack(roll, axis=1), 64)
    return turned(generator.random((n, int(name))), 40)


def by_formula(z: np.ndarray, discard: float) -> float:
    """TwoNN as scikit-dimension 0.5 has it: the line through the origin without the largest ratios."""
    z = z.astype(np.float64)
    distances = np.sort(np.sqrt(np.square(z[:, None] - z[None]).sum(axis=2)), axis=1)
    n, ratios = len(z), np.sort(distances[:, 2] / distances[:, 1])
    kept = min(int(n * (1 - discard)), n - 1)
    x, y = np.log(ratios[:kept]), -np.log(1 - np.arange(1, kept + 1) / n)
    return float(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0])


@pytest.mark.parametrize("fit", ["linear", "maximum_likelihood"])
@pytest.mark.parametrize(("name", "dimension"), [("1", 1), ("2", 2), ("5", 5), ("sphere", 2), ("swiss roll", 2)])
def test_a_manifold_of_known_dimension_has_it(name: str, dimension: int, fit: str) -> None:
    assert intrinsic_dimension(manifold(name), fit=fit).value == pytest.approx(dimension, rel=0.06)


@pytest.mark.parametrize("discard", [0.0, 0.1, 0.37])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_line_is_that_of_scikit_dimension(discard: float, dtype: type) -> None:
    z = (np.random.default_rng(1).standard_normal((400, 30)) * np.arange(1, 31) ** -0.8 + 2).astype(dtype)
    found = intrinsic_dimension(z, discard=discard)
    assert found.value == pytest.approx(by_formula(z, discard), rel=1e-9)
    assert (found.n, found.n_used, found.n_discarded) == (400, 400, max(1, 400 - int(400 * (1 - discard))))


def test_the_most_likely_exponent_is_that_of_the_formula() -> None:
    z = np.random.default_rng(2).standard_normal((300, 4))
    distances = np.sort(np.sqrt(np.square(z[:, None] - z[None]).sum(axis=2)), axis=1)
    logs = np.sort(np.log(distances[:, 2] / distances[:, 1]))
    assert intrinsic_dimension(z, fit="maximum_likelihood").value == pytest.approx(299 / logs.sum())
    censored = intrinsic_dimension(z, fit="maximum_likelihood", discard=0.2)
    assert censored.value == pytest.approx(239 / (logs[:240].sum() + 60 * logs[239]))
    assert censored.n_discarded == 60


@pytest.mark.parametrize("fit", ["linear", "maximum_likelihood"])
@pytest.mark.parametrize("distance", ["euclidean", "cosine", "squared_cosine"])
def test_rotation_scale_and_order_change_nothing(distance: str, fit: str) -> None:
    generator = np.random.default_rng(4)
    z = generator.standard_normal((250, 12)) * np.arange(1, 13) ** -0.5 + 0.7
    rotation = np.linalg.qr(generator.standard_normal((12, 12)))[0]
    value = intrinsic_dimension(z, distance=distance, fit=fit).value
    for other in (z @ rotation, 1e-120 * z, 1e120 * z, z[generator.permutation(250)]):
        assert intrinsic_dimension(other, distance=distance, fit=fit).value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_copies_of_rows_are_counted_and_change_nothing(distance: str) -> None:
    generator = np.random.default_rng(6)
    z = generator.standard_normal((200, 6))
    alone = intrinsic_dimension(z, distance=distance)
    copies = np.concatenate([z, z[:70], z[:20], z[:20], np.tile(z[5], (90, 1))])
    found = intrinsic_dimension(copies[generator.permutation(400)], distance=distance)
    assert (found.n, found.n_duplicates, found.n_used) == (400, 200, 200)
    assert found.notes == ("200 of 400 rows equal an earlier one and are left out.",)
    assert found.value == pytest.approx(alone.value, rel=1e-12)
    if distance == "cosine":
        scaled = intrinsic_dimension(np.concatenate([z, 3 * z, 0.7 * z]), distance="cosine")
        assert (scaled.n_duplicates, scaled.value) == (400, pytest.approx(alone.value, rel=1e-9))


@pytest.mark.parametrize("share", [0.05, 0.2, 1.0])
def test_near_duplicates_are_counted_and_the_value_without_them_is_told(share: float) -> None:
    generator = np.random.default_rng(3)
    z = turned(generator.standard_normal((1500, 5)), 20)
    doubled = np.concatenate([z, z[: int(share * 1500)]])
    doubled[1500:] += 1e-6 * generator.standard_normal((len(doubled) - 1500, 20))
    alone, found = intrinsic_dimension(z), intrinsic_dimension(doubled[generator.permutation(len(doubled))])
    assert (alone.n_near_duplicates, alone.value_without_near_duplicates, alone.notes) == (0, None, ())
    assert found.n_near_duplicates == 2 * int(share * 1500) and found.n_duplicates == 0
    assert found.value < 0.8 * alone.value
    assert found.value_without_near_duplicates == pytest.approx(alone.value, rel=0.03)
    assert f"{found.n_near_duplicates:,} of {len(doubled):,} rows are near duplicates" in found.notes[0]


def test_a_few_near_duplicates_and_low_dimensions_are_not_worth_a_word() -> None:
    z = manifold("5")
    few = np.concatenate([z, z[:7] + 1e-6])  # 14 of 3007 rows
    assert (intrinsic_dimension(few).n_near_duplicates, intrinsic_dimension(few).notes) == (14, ())
    assert intrinsic_dimension(manifold("1")).notes == ()  # where 0.1 % of the ratios are above 1000


def test_the_cosine_distance_as_printed_halves_the_dimension() -> None:
    z = np.random.default_rng(7).standard_normal((500, 5))
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    chord = intrinsic_dimension(z, distance="cosine").value
    assert chord == pytest.approx(intrinsic_dimension(unit).value, rel=1e-9)
    assert chord == pytest.approx(4, rel=0.15)
    printed = np.sort(2 - 2 * unit @ unit.T, axis=1)  # D of CLID's note 3
    logs = np.sort(np.log(printed[:, 2] / printed[:, 1]))[:450]
    slope = float(logs @ -np.log(1 - np.arange(1, 451) / 500) / (logs @ logs))
    assert intrinsic_dimension(z, distance="squared_cosine").value == pytest.approx(slope, rel=1e-6)
    assert intrinsic_dimension(z, distance="squared_cosine").value == pytest.approx(chord / 2, rel=1e-12)


def test_what_has_no_dimension_is_refused_in_one_sentence() -> None:
    z = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(DataError, match="z has 11 rows, but the intrinsic dimension by TwoNN needs at least 12"):
        intrinsic_dimension(z[:11])
    with pytest.raises(DataError, match="All 20 rows of z are equal"):
        intrinsic_dimension(np.ones((20, 3)))
    with pytest.raises(DataError, match="z has 5 distinct rows among 40, but TwoNN needs at least 12"):
        intrinsic_dimension(z[np.arange(40) % 5])
    with pytest.raises(DataError, match="holds NaN or infinity"):
        intrinsic_dimension(np.where(z == z[3, 1], np.inf, z))
    with pytest.raises(DataError, match="equally far"):
        intrinsic_dimension(np.eye(30))
    with pytest.raises(DataError, match="equally far"):
        intrinsic_dimension(z, discard=0.99)
    with pytest.raises(QueryError, match="discard is 1, expected"):
        intrinsic_dimension(z, discard=1)
    with pytest.raises(QueryError, match="fit is 'bayes', expected one of 'linear', 'maximum_likelihood'"):
        intrinsic_dimension(z, fit="bayes")
    with pytest.raises(QueryError, match="distance is 'l1', expected one of 'euclidean'"):
        intrinsic_dimension(z, distance="l1")
