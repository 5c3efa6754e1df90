"""Sums of second moments: what exact arithmetic makes of all rows at once, however they came."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch

from zoo.errors import DataError
from zoo.evaluation.label_free.spectrum import Gram, Moments, mirrored


def drawn(n: int, dim: int, *, seed: int = 0, mean: float = 3.0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, dim)) @ generator.normal(size=(dim, dim)) / dim**0.5
    return (rows + mean * generator.normal(size=dim)).astype(np.float32)


def summed(*batches: np.ndarray) -> Gram:
    gram = Gram()
    for batch in batches:
        gram.update(batch)
    return gram


def merged(*batches: np.ndarray) -> Gram:
    gram = Gram()
    for batch in batches:
        gram.merge(summed(batch))
    return gram


def added(*batches: np.ndarray) -> Gram:
    states = [summed(batch).state() for batch in batches]
    return Gram.from_state({name: np.sum([state[name] for state in states], axis=0) for name in states[0]})


def exact_scatter(rows: np.ndarray) -> list[list[Fraction]]:
    """Sum of products of deviations from the mean, without any rounding."""
    table = [[Fraction(float(number)) for number in column] for column in rows.T]
    means = [sum(column) / len(column) for column in table]
    away = [[number - mean for number in column] for column, mean in zip(table, means, strict=True)]
    return [[sum(a * b for a, b in zip(one, other, strict=True)) for other in away] for one in away]


def scatter_of(moments: Moments) -> np.ndarray:
    return mirrored(moments.scatter.clone()).numpy() * moments.unit**2


@pytest.mark.parametrize("dim", [1, 7, 300])
def test_moments_are_those_of_all_rows(dim: int) -> None:
    rows = drawn(1500, dim)
    moments = summed(rows[:1100], rows[1100:]).moments()
    wide = rows.astype(np.float64)
    expected = (wide - wide.mean(axis=0)).T @ (wide - wide.mean(axis=0))
    np.testing.assert_allclose(scatter_of(moments), expected, atol=1e-12 * np.trace(expected))
    np.testing.assert_allclose(moments.mean.numpy(), wide.mean(axis=0), atol=1e-12)
    direct = mirrored(moments.second_moment).numpy()
    np.testing.assert_allclose(direct, wide.T @ wide, atol=1e-12 * np.trace(direct))


@pytest.mark.parametrize("together", [summed, merged, added])
@pytest.mark.parametrize(("offset", "drift"), [(0.0, 0.0), (1e4, 0.0), (3.0, 1e3)])
def test_the_error_is_below_its_bound_and_the_bound_is_not_idle(together: object, offset: float, drift: float) -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((120, 5)) * [1.0, 1e-6, 1e3, 1.0, 2.0] + offset
    rows[70:] += drift
    moments = together(rows[:40], rows[40:90], rows[90:]).moments()  # type: ignore[operator]
    expected, found = exact_scatter(rows), scatter_of(moments)
    bound = np.sqrt(np.outer(moments.error, moments.error))
    for i in range(5):
        for j in range(5):
            assert abs(Fraction(float(found[i, j])) - expected[i][j]) <= Fraction(float(bound[i, j]))
    if together is summed and not drift:
        assert (moments.error.numpy() <= 1e-12 * np.diagonal(found)).all()


def test_the_bound_grows_with_a_block_and_not_with_all_rows() -> None:
    moments = summed(*np.array_split(drawn(20_000, 3), 10)).moments()
    assert float((moments.error / moments.scatter.diagonal()).max()) < 2100 * 2.0**-53


def test_sums_survive_pickling_and_go_on() -> None:
    rows = drawn(300, 12)
    gram = pickle.loads(pickle.dumps(summed(rows[:100])))
    gram.update(rows[100:])
    assert torch.equal(gram.moments().scatter, summed(rows[:100], rows[100:]).moments().scatter)


@pytest.mark.parametrize("together", [summed, merged, added])
def test_a_feature_that_never_changes_is_told_from_one_that_hardly_does(together: object) -> None:
    rows = drawn(2500, 9)
    rows[:, 2], rows[:, 5] = 0.1, -7e9
    rows[:, 7] = 1 + np.arange(2500) % 2 * 1e-4
    moments = together(rows[:1200], rows[1200:]).moments()  # type: ignore[operator]
    assert np.flatnonzero(moments.constant.numpy()).tolist() == [2, 5]
    if together is not added:
        assert moments.scatter.diagonal()[[2, 5]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scale", [2.0**-500, 2.0**-100, 2.0**66, 2.0**100, 2.0**450])
def test_the_scale_of_features_changes_nothing_but_their_unit(scale: float) -> None:
    rows = drawn(400, 8).astype(np.float64)
    one, other = summed(rows).moments(), summed(rows * scale).moments()
    ratio = (scale / other.unit) ** 2
    assert torch.equal(one.scatter * ratio, other.scatter) and torch.equal(one.error * ratio, other.error)


def test_features_of_very_different_scales_keep_their_digits() -> None:
    rows = drawn(500, 4) * np.array([1e-18, 1.0, 1e15, 1e-3], np.float32)
    found, expected = scatter_of(summed(rows).moments()), exact_scatter(rows)
    own = np.sqrt(np.diagonal(found))
    for i in range(4):
        for j in range(4):
            assert abs(float(expected[i][j]) - found[i, j]) <= 1e-12 * own[i] * own[j]


def test_arrays_of_every_kind_are_read_alike() -> None:
    rows = drawn(50, 6)
    frozen = rows.copy()
    frozen.flags.writeable = False
    expected = summed(rows).moments().scatter.numpy()
    for same in (frozen, rows[::-1][::-1], np.asfortranarray(rows), rows.astype(">f4"), torch.from_numpy(rows)):
        np.testing.assert_allclose(summed(same).moments().scatter.numpy(), expected, rtol=0, atol=1e-12)


def test_bad_batches_are_one_sentence() -> None:
    rows = drawn(30, 4)
    gram = summed(rows)
    broken = rows.copy()
    broken[7, 1] = np.nan
    with pytest.raises(DataError, match=r"Row 37 of the batches so far holds NaN"):
        gram.update(broken)
    assert gram.count == 30
    with pytest.raises(DataError, match="5 features, but those before it had 4"):
        gram.update(drawn(3, 5))
    with pytest.raises(DataError, match="cannot be added"):
        gram.merge(summed(drawn(3, 5)))
    with pytest.raises(DataError, match="No features were seen"):
        Gram().moments()
    with pytest.raises(DataError, match=r"shape \(4,\)"):
        gram.update(rows[0])
    with pytest.raises(DataError, match=r"expected \(dim,\) and \(dim, dim\)"):
        Gram.from_state(gram.state() | {"total": np.zeros(3)})
    with pytest.raises(DataError, match="scale them"):
        summed(rows.astype(np.float64) * 1e200).state()
