"""Sums of second moments: what numpy makes of all rows at once, however they came."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free.gram import Gram


def drawn(n: int, dim: int, *, seed: int = 0, mean: float = 3.0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, dim)) @ generator.normal(size=(dim, dim)) / dim**0.5
    return (rows + mean * generator.normal(size=dim)).astype(np.float32)


def summed(*batches: np.ndarray, precision: str = "float64") -> Gram:
    gram = Gram(precision=precision)
    for batch in batches:
        gram.update(batch)
    return gram


def scatter_of(rows: np.ndarray) -> np.ndarray:
    centred = rows.astype(np.float64) - rows.astype(np.float64).mean(axis=0)
    return centred.T @ centred


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-13), ("float32", 1e-6)])
@pytest.mark.parametrize("dim", [1, 7, 512, 700])
def test_moments_are_those_of_all_rows(dim: int, precision: str, tolerance: float) -> None:
    rows = drawn(1500, dim)
    moments = summed(rows[:1100], rows[1100:], precision=precision).moments()
    expected = scatter_of(rows)
    own = np.sqrt(np.diagonal(expected))
    error = np.abs(moments.scatter.numpy() * moments.unit**2 - expected) / own / own[:, None]
    assert error.max() < tolerance
    np.testing.assert_allclose(moments.mean.numpy() * moments.unit, rows.mean(axis=0, dtype=np.float64), atol=tolerance)
    direct = rows.astype(np.float64).T @ rows.astype(np.float64)
    np.testing.assert_allclose(
        moments.second_moment.numpy() * moments.unit**2, direct, atol=tolerance * np.abs(direct).max()
    )


def test_what_float32_lost_is_measured() -> None:
    rows = drawn(4000, 300)
    moments = summed(rows, precision="float32").moments()
    expected = scatter_of(rows)
    own = np.sqrt(moments.squares.numpy()) * moments.unit
    found = np.abs(moments.scatter.numpy() * moments.unit**2 - expected) / own / own[:, None]
    actual = float(np.sqrt((found**2).mean()))
    assert actual / 3 < moments.lost < actual * 30
    assert summed(rows).moments().lost < 1e-13


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_merged_sums_are_those_of_one_pass(precision: str) -> None:
    rows = drawn(900, 40)
    rows[500:] += 100.0  # another shift in the second half
    whole = summed(rows, precision="float64").moments()
    halves = summed(rows[:500], precision=precision) + summed(rows[500:], precision=precision)
    empty = Gram()
    empty.merge(halves)
    empty.merge(Gram())
    for moments in (halves.moments(), empty.moments()):
        assert moments.count == 900
        np.testing.assert_allclose(
            moments.scatter.numpy() * moments.unit**2,
            whole.scatter.numpy() * whole.unit**2,
            atol=(1e-12 if precision == "float64" else 1e-7) * float(whole.scatter.max()) * whole.unit**2,
        )


def test_states_of_processes_add_up_as_arrays() -> None:
    rows = drawn(600, 30)
    states = [summed(part).state() for part in np.array_split(rows, 4)]
    added = {name: sum(state[name] for state in states) for name in states[0]}
    found, expected = Gram.from_state(added).moments(), summed(rows).moments()
    assert found.count == 600
    np.testing.assert_allclose(
        found.scatter.numpy() * found.unit**2, expected.scatter.numpy() * expected.unit**2, rtol=1e-9, atol=1e-9
    )


def test_sums_survive_pickling_and_go_on() -> None:
    rows = drawn(300, 12)
    gram = pickle.loads(pickle.dumps(summed(rows[:100])))
    gram.update(rows[100:])
    assert torch.equal(gram.moments().scatter, summed(rows[:100], rows[100:]).moments().scatter)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_feature_that_never_changes_has_no_variance_at_all(precision: str) -> None:
    rows = drawn(2500, 9)
    rows[:, 2], rows[:, 5] = 0.1, -7e9
    moments = summed(rows[:1200], rows[1200:], precision=precision).moments()
    assert np.flatnonzero(moments.constant.numpy()).tolist() == [2, 5]
    assert moments.scatter.diagonal()[[2, 5]].tolist() == [0.0, 0.0]
    states = [summed(part, precision=precision).state() for part in (rows[:1200], rows[1200:])]
    added = Gram.from_state({name: states[0][name] + states[1][name] for name in states[0]}).moments()
    assert np.flatnonzero(added.constant.numpy()).tolist() == [2, 5]


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-66, 2.0**66, 2.0**100])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_scale_of_features_changes_nothing_but_the_unit(scale: float, precision: str) -> None:
    rows = drawn(400, 8)
    one, other = (summed(part, precision=precision).moments() for part in (rows, rows * np.float32(scale)))
    assert torch.equal(one.scatter, other.scatter)
    assert other.unit == one.unit * scale


def test_features_of_very_different_scales_keep_their_digits() -> None:
    rows = drawn(500, 4) * np.array([1e-18, 1.0, 1e15, 1e-3], np.float32)
    moments = summed(rows, precision="float32").moments()
    expected = scatter_of(rows)
    own = np.sqrt(np.diagonal(expected))
    assert (np.abs(moments.scatter.numpy() * moments.unit**2 - expected) / own / own[:, None]).max() < 1e-6


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
    with pytest.raises(QueryError, match="'half'"):
        Gram(precision="half")
    with pytest.raises(DataError, match=r"expected \(dim,\) and \(dim, dim\)"):
        Gram.from_state(gram.state() | {"total": np.zeros(3)})
    with pytest.raises(DataError, match="scale them"):
        summed(rows.astype(np.float64) * 1e200).state()
