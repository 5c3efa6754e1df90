"""RankMe and ranks against closed forms, invariances, and the plain formula in float64 for every kind of spectrum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.evaluation.label_free.planted_spectra import SPECTRA, direct_rankme, planted
from tests.planted_features import features
from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import spectrum
from zoo.evaluation.label_free.rank import (
    alpha_req,
    correlation_rank,
    effective_rank,
    feature_rank,
    rankme,
    rankme_augmented,
    threshold_rank,
)
from zoo.evaluation.label_free.spectrum import AS_THEY_ARE, CENTRED, STANDARDISED, Gram, SingularValues, spectrum_of
from zoo.features import load_features


@pytest.fixture
def no_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small features take the way of large ones."""
    monkeypatch.setattr(spectrum, "_SVD_OPERATIONS", 0.0)


@pytest.fixture(params=["one decomposition", "sums, then rows"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small features take their own way, and that of large ones."""
    if request.param == "sums, then rows":
        monkeypatch.setattr(spectrum, "_SVD_OPERATIONS", 0.0)


def signs(size: int) -> np.ndarray:
    """A matrix of 1 and -1 with orthogonal columns, the first of which is all 1; ``size`` is a power of two."""
    found = np.ones((1, 1))
    while len(found) < size:
        found = np.block([[found, found], [found, -found]])
    return found


def of_known_values(n: int, dim: int, squares: np.ndarray, *, offset: float) -> np.ndarray:
    """Float64 rows of mean ``offset`` whose centred singular values are root(n dim squares), to the last digit.

    Squares of powers of two that span 2**40 leave every entry, a sum of them, without rounding.
    """
    k = len(squares)
    return (signs(n)[:, 1 : k + 1] * np.sqrt(squares)) @ signs(dim)[:, :k].T + offset


@pytest.mark.parametrize("dim", [1, 2, 17])
def test_equal_singular_values_count_in_full(dim: int) -> None:
    rows = np.concatenate([np.eye(dim), np.zeros((3, dim))])
    share = 1 / dim + 1e-7
    assert rankme(rows) == pytest.approx(np.exp(-dim * share * np.log(share)), rel=1e-12)


def test_two_values_give_the_entropy_of_their_shares() -> None:
    assert rankme(np.diag([3.0, 1.0]), eps=0.0) == pytest.approx(np.exp(0.75 * np.log(4 / 3) + 0.25 * np.log(4)))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("kind", SPECTRA)
@pytest.mark.parametrize(("n", "dim"), [(1500, 160), (120, 400)])
@pytest.mark.parametrize(("scale", "offset", "dtype"), [(1.0, 0.0, "f4"), (1e-20, 0.2, "f4"), (1e20, 0.2, "f8")])
def test_rankme_is_within_1e_5_of_float64(kind: str, n: int, dim: int, scale: float, offset: float, dtype: str) -> None:
    rows = (scale * planted(n, dim, SPECTRA[kind](min(n, dim)), offset=offset)).astype(dtype)
    expected = direct_rankme(rows)
    found = effective_rank(rows)
    assert abs(found.value / expected - 1) < 1e-5
    assert abs(found.value / expected - 1) <= found.relative_error + 1e-9


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize(("n", "dim"), [(4096, 64), (64, 256)])
@pytest.mark.parametrize("span", [0, 6, 20])
@pytest.mark.parametrize("offset", [0.0, 1.0, 2.0**20])
def test_every_interval_holds_the_singular_value(n: int, dim: int, span: int, offset: float) -> None:
    k = min(n - 1, dim)
    squares = 4.0 ** -np.sort(np.arange(k) % (span + 1))
    rows = of_known_values(n, dim, squares, offset=offset if span < 20 else min(offset, 1.0))
    exact = {CENTRED: np.sqrt(n * dim * squares), STANDARDISED: np.sqrt(dim * squares / squares.sum())}
    if not offset:
        exact[AS_THEY_ARE] = exact[CENTRED]
    for of, expected in exact.items():
        seen: list[SingularValues] = []
        found = spectrum_of(rows).resolve(of, lambda one, seen=seen: bool(seen.append(one)))
        assert [one.from_sums for one in seen] == [True, False]
        for one in seen:
            low, high = one.low[:k] * one.unit, one.high[:k] * one.unit
            assert (low <= expected).all() and (expected <= high).all(), (of, one.from_sums)
        assert ((found.high - found.low)[:k] <= 1e-8 * found.values[0]).all()  # and tells what it has to


def test_features_are_read_and_not_changed(no_shortcut: None) -> None:
    rows = planted(900, 40, SPECTRA["rank 20"](40), offset=1e3)
    before = rows.copy()
    assert rankme(rows) == rankme(torch.from_numpy(rows)) and correlation_rank(rows).value
    assert np.array_equal(rows, before)


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("kind", SPECTRA)
def test_sums_know_how_far_off_they_are(kind: str) -> None:
    rows = planted(2000, 160, SPECTRA[kind](160), offset=0.1).astype(np.float32)
    gram = Gram()
    gram.update(rows)
    found = effective_rank(gram)
    assert abs(found.value / direct_rankme(rows) - 1) <= found.relative_error + 1e-9


def test_sums_too_coarse_for_a_collapsed_spectrum_are_refused() -> None:
    gram = Gram()
    gram.update(planted(600, 200, SPECTRA["rank 20"](200)).astype(np.float32))
    with pytest.raises(DataError, match="pass the features, or take effective_rank"):
        rankme(gram)


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("kind", ["power law", "rank 20"])
def test_rotation_scale_and_order_of_rows_change_nothing(kind: str) -> None:
    rows = planted(800, 120, SPECTRA[kind](120))
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(120, 120)))[0]
    order = np.random.default_rng(6).permutation(800)
    for other in (rows @ turn, rows * 1e-18, rows * 1e18, rows[order]):
        assert rankme(other) == pytest.approx(rankme(rows), rel=1e-6)
        assert feature_rank(other) == feature_rank(rows)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("rank", [1, 2, 20, 99, 100])
@pytest.mark.parametrize(("n", "dim"), [(900, 100), (100, 300)])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_planted_rank_is_recovered(rank: int, n: int, dim: int, scale: float) -> None:
    singular = np.where(np.arange(100) < rank, 1.0, 0.0)
    assert feature_rank((scale * planted(n, dim, singular)).astype(np.float32)) == rank


@pytest.mark.usefixtures("both_ways")
def test_values_next_to_the_threshold_fall_on_their_side() -> None:
    threshold = 1000 * 1e-7
    singular = np.concatenate([np.ones(10), np.full(30, threshold * 1.001), np.full(30, threshold * 0.999)])
    assert threshold_rank(planted(1000, 70, singular)).value == 40


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_the_correlation_rank_is_that_of_torch(offset: float) -> None:
    rows = planted(1200, 90, SPECTRA["power law"](90) ** 3, offset=offset).astype(np.float32)
    rows *= np.random.default_rng(1).uniform(0.01, 100, 90).astype(np.float32)
    expected = torch.linalg.matrix_rank(torch.from_numpy(rows).double().T.corrcoef(), atol=1e-4, rtol=0.01)
    found = correlation_rank(rows)
    assert (found.value, found.n_constant, found.n_uncertain) == (float(expected), 0, 0)
    few = correlation_rank(rows[:60])
    assert few.value == float(
        torch.linalg.matrix_rank(torch.from_numpy(rows[:60]).double().T.corrcoef(), atol=1e-4, rtol=0.01)
    )


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("n", [40, 400])
def test_constant_features_add_nothing_to_the_correlation_rank(n: int) -> None:
    rows = np.random.default_rng(0).normal(size=(n, 60)).astype(np.float32)
    with_constants = np.concatenate([rows, np.full((n, 3), 0.3, np.float32), np.zeros((n, 2), np.float32)], axis=1)
    found = correlation_rank(with_constants)
    assert (found.value, found.n_constant) == (correlation_rank(rows).value, 5)


def test_views_are_rows_in_any_order() -> None:
    views = np.random.default_rng(0).normal(size=(20, 3, 8))
    ids, order = np.repeat(np.arange(20), 3), np.random.default_rng(1).permutation(60)
    assert rankme_augmented(views) == pytest.approx(rankme(views.reshape(60, 8)), rel=1e-12)
    assert rankme_augmented(views.reshape(60, 8)[order], ids=ids[order]) == pytest.approx(rankme_augmented(views))


class CountedRows:
    """An array that counts how often its rows are read."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows, self.shape, self.n_read = rows, rows.shape, 0

    def __getitem__(self, index: Any) -> np.ndarray:
        found = self._rows[index]
        self.n_read += len(found)
        return found


@pytest.mark.usefixtures("no_shortcut")
def test_one_pass_gives_every_spectral_metric() -> None:
    rows = planted(3000, 150, SPECTRA["power law"](150)).astype(np.float32)
    counted = CountedRows(rows)
    of = spectrum_of(counted)
    found = [rankme(of), feature_rank(of), correlation_rank(of).value, alpha_req(of).value]
    assert counted.n_read == 3001  # and one to look at its type
    expected = [rankme(rows), feature_rank(rows), correlation_rank(rows).value, alpha_req(rows).value]
    assert found == expected


@pytest.mark.usefixtures("no_shortcut")
def test_features_on_disk_and_batches_that_come_once_give_the_same(tmp_path: Path) -> None:
    rows = planted(3000, 150, SPECTRA["power law"](150)).astype(np.float32)
    folder = features(rows, np.zeros(3000)).save(tmp_path / "features", shard_size=700)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for same in (iter(np.array_split(rows, 7)), load_features(folder).x, mapped, torch.from_numpy(rows)):
        assert rankme(same) == pytest.approx(direct_rankme(rows), rel=1e-5)


@pytest.mark.usefixtures("no_shortcut")
def test_a_row_far_beyond_the_first_ones_does_not_overflow() -> None:
    rows = planted(3000, 20, SPECTRA["flat"](20)).astype(np.float32)
    rows[:2000] *= 1e-18
    rows[2000:] *= 1e18
    assert rankme(rows) == pytest.approx(direct_rankme(rows), rel=1e-5)


@pytest.mark.parametrize("metric", [rankme, feature_rank, correlation_rank])
def test_bad_features_are_one_sentence(metric: Any, no_shortcut: None) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    broken = rows.copy()
    broken[41, 2] = np.inf
    with pytest.raises(DataError, match="Row 41 of z holds NaN or infinity"):
        metric(broken)
    with pytest.raises(DataError, match=r"z has 1 row, but .* needs at least 2"):
        metric(rows[:1])
    for constant in (np.zeros((50, 6)), np.full((50, 6), 0.1, np.float32), np.full((5, 60), 0.1)):
        with pytest.raises(DataError, match="rows of z are equal"):
            metric(constant)
    with pytest.raises(DataError, match=r"\(50, 6, 1\)"):
        metric(rows[..., None])
    with pytest.raises(DataError, match="Complex"):
        metric(rows * 1j)


def test_bad_options_are_one_sentence() -> None:
    rows = np.eye(3)
    for eps in (-1e-9, 1.0, float("nan")):
        with pytest.raises(QueryError, match="eps is"):
            rankme(rows, eps=eps)
    with pytest.raises(QueryError, match="no singular value can pass"):
        feature_rank(rows, eps=0.5)
    with pytest.raises(QueryError, match="rtol is"):
        correlation_rank(rows, rtol=float("nan"))
