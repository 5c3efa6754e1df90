"""alpha-ReQ against planted power laws and a weighted line that NumPy fits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.label_free.planted_spectra import SPECTRA, planted
from zoo.errors import DataError, QueryError
from zoo.evaluation.label_free import spectrum
from zoo.evaluation.label_free.rank import alpha_req
from zoo.evaluation.label_free.spectrum import Gram


@pytest.fixture
def no_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small features take the way of large ones."""
    monkeypatch.setattr(spectrum, "_SVD_OPERATIONS", 0.0)


def mirrored(alpha: float, dim: int, *, offset: float = 0.0) -> np.ndarray:
    """Rows whose covariance has the eigenvalues i ** -alpha, up to a factor, around any mean."""
    half = np.diag(np.arange(1.0, dim + 1) ** (-alpha / 2))
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))[0]
    return np.concatenate([half, -half]) @ turn + offset * np.random.default_rng(4).normal(size=dim)


def by_numpy(rows: np.ndarray, first: int, last: int, *, weighted: bool) -> float:
    values = np.linalg.eigvalsh(np.cov(rows.astype(np.float64).T))[::-1]
    ranks = np.arange(first, last + 1)
    weights = 1 / np.sqrt(ranks) if weighted else None  # polyfit squares them
    return -float(np.polyfit(np.log(ranks), np.log(values[ranks - 1]), 1, w=weights)[0])


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e-18, 0.0), (1e15, 20.0)])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_planted_exponent_is_recovered(alpha: float, scale: float, offset: float, weighted: bool) -> None:
    found = alpha_req(scale * mirrored(alpha, 120, offset=offset), weighted=weighted)
    assert found.value == pytest.approx(alpha, abs=1e-6)
    assert (found.first, found.last) == (4, 100)
    assert found.r_squared == pytest.approx(1.0, abs=1e-6) or alpha == 0.0


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize(("first", "last"), [(4, 60), (11, 50), (1, 3)])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n", [50, 800])
def test_the_line_is_the_one_numpy_fits(first: int, last: int, weighted: bool, n: int) -> None:
    last = min(last, n - 1)
    rows = np.random.default_rng(0).normal(size=(n, 70)) * np.exp(-np.arange(70) / 15) + 2.0
    found = alpha_req(rows.astype(np.float32), first=first, last=last, weighted=weighted)
    expected = by_numpy(rows.astype(np.float32), first, last, weighted=weighted)
    assert found.value == pytest.approx(expected, rel=1e-5)
    assert 0 < found.r_squared < 1
    assert found.uncertainty < 1e-4


def test_the_default_range_ends_where_the_eigenvalues_do() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 50))
    assert alpha_req(rows).last == 29
    assert alpha_req(np.random.default_rng(0).normal(size=(30, 20))).last == 20


def test_sums_give_the_same_exponent() -> None:
    rows = mirrored(1.0, 64, offset=1.0).astype(np.float32)
    gram = Gram()
    gram.update(rows)
    found = alpha_req(gram)
    assert found.value == pytest.approx(by_numpy(rows, 4, 64, weighted=True), abs=max(1e-9, found.uncertainty))
    assert found.uncertainty < 1e-4


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize(("n", "dim"), [(500, 80), (70, 200)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_collapsed_spectrum_is_refused_at_its_first_zero(n: int, dim: int, dtype: str) -> None:
    rows = planted(n, dim, SPECTRA["rank 20"](min(n, dim))).astype(dtype)
    with pytest.raises(DataError, match=r"Eigenvalue 21 of the covariance is 0 .*last=20"):
        alpha_req(rows)
    assert alpha_req(rows, last=20).last == 20


@pytest.mark.usefixtures("no_shortcut")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_direction_that_a_layer_norm_takes_is_left_out(dtype: str) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 80)) * np.arange(1, 81) ** -0.5
    rows = ((rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)).astype(dtype)
    assert alpha_req(rows).last == 79
    assert alpha_req(rows).value == pytest.approx(alpha_req(rows, last=79).value, abs=1e-5)
    with pytest.raises(DataError, match="Eigenvalue 80"):
        alpha_req(rows, last=80)


def test_an_offset_that_buries_eigenvalues_is_no_end_of_the_spectrum() -> None:
    rows = np.random.default_rng(0).normal(size=(600, 24)) * np.geomspace(3, 0.03, 24) + 1e6
    with pytest.raises(DataError, match="rounding"):
        alpha_req(rows.astype(np.float32))


def test_sums_refuse_what_they_cannot_see() -> None:
    gram = Gram()
    gram.update(mirrored(8.0, 100))
    with pytest.raises(DataError, match="below the rounding of sums"):
        alpha_req(gram)


def test_bad_ranges_and_features_are_one_sentence() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 20))
    for first, last in ((0, 10), (5, 6), (4, 21), (19, None)):
        with pytest.raises(QueryError, match="expected at least 3 of the 20"):
            alpha_req(rows, first=first, last=last)
    with pytest.raises(DataError, match="z has 11 rows, but alpha-ReQ needs at least 12"):
        alpha_req(rows[:11])
    with pytest.raises(DataError, match="are equal"):
        alpha_req(np.ones((30, 20)))
