"""Features that decompositions of matrices fail on: units that never fire, copies, one direction, scales far apart."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from tests.each import for_each
from zoo.errors import DataError
from zoo.evaluation import LogisticProbe, eigen
from zoo.evaluation.label_free.catalogue import compute, find_metric_function
from zoo.evaluation.logistic_basis import build_problem
from zoo.results.vocabulary import FEATURE_METRICS

SIZES = (260, 128), (600, 300), (800, 400)


def mostly_dead(seed: int, n: int, dim: int) -> Any:
    """Features (n, dim) of a ReLU network on narrow images: a few directions that fall off fast, most units at 0."""
    random = np.random.default_rng(seed)
    rank = min(100, dim // 4)
    signal = random.normal(size=(n, rank)) * np.arange(1.0, rank + 1) ** -(1 + seed % 2)
    x = np.maximum(signal @ random.normal(size=(rank, dim)) + random.normal(-1.5, 1.5, dim), 0).astype(np.float32)
    x[:, random.random(dim) < (0.3, 0.5, 0.7)[seed % 3]] = 0
    return x


def halves(x: Any) -> Any:
    """Two classes that the first unit that varies tells apart, but for every tenth image."""
    first = x[:, np.flatnonzero(x.std(axis=0) > 0)[0]]
    y = (first > np.median(first)).astype(np.int64)
    y[::10] = 1 - y[::10]
    return y


SIXTY = [(seed, *size) for size in SIZES for seed in range(20)]


@for_each(SIXTY, arguments=3)
def test_the_probe_of_sixty_matrices_is_that_in_float64(seed: int, n: int, dim: int) -> None:
    x = mostly_dead(seed, n, dim)
    y = halves(x)
    single = LogisticProbe(C=1.0).fit(x, y)
    double = LogisticProbe(C=1.0, precision="float64").fit(x, y)
    assert np.abs(single.predict_proba(x) - double.predict_proba(x)).max() < 0.05  # both end at a gap of 1e-4
    assert (single.predict(x) == double.predict(x)).mean() > 0.99


def test_units_that_never_change_have_no_weight() -> None:
    x = mostly_dead(2, 600, 300)
    y = halves(x)
    basis = build_problem(x, y, n_classes=2, dtype=torch.float32, device=torch.device("cpu"))[0]
    dead = np.flatnonzero(x.std(axis=0) == 0)
    assert len(dead) > 50
    assert not basis.axes[dead].any()
    assert basis.axes.shape[1] <= 300 - len(dead)


def hard(n: int, dim: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    plain = random.normal(size=(n, dim)).astype(np.float32)
    copies = plain[random.integers(0, 5, n)]
    return {
        "copies of five rows": copies,
        "almost copies": copies + np.float32(1e-6) * plain,
        "one direction": plain[:, :1] * np.ones(dim, np.float32),
        "each unit eight times": np.repeat(plain[:, : -(-dim // 8)], 8, axis=1)[:, :dim],
        "units of scales far apart": plain * np.float32(10) ** random.uniform(-15, 15, dim).astype(np.float32),
        "at the end of float32": plain * np.float32(1e37),
        "below the smallest normal number": plain * np.float32(1e-40),
        "at the end of float64": plain.astype(np.float64) * 1e300,
        "scales of float64 far apart": plain * 10 ** random.uniform(-200, 200, dim),
        "a large mean": plain * np.float32(1e-3) + np.float32(1e4),
        "one unit varies": np.where(np.arange(dim) == 0, plain, 0),
        "one unit an image": np.eye(dim, dtype=np.float32)[random.integers(0, dim, n)],
        "all equal": np.ones((n, dim), np.float32),
        "dead units": mostly_dead(2, n, dim),
    }


ENTROPIES = {"source_label_entropy", "target_label_entropy"}  # by probes, which are slow and tested for themselves
METRICS = sorted(FEATURE_METRICS.keys() - ENTROPIES - {"mutual_information"})  # which reads pixels


@for_each([(*size, kind) for size in ((80, 48), (60, 90)) for kind in hard(8, 8)], arguments=3)
def test_a_metric_has_a_value_or_says_why_not(n: int, dim: int, kind: str) -> None:
    z, y, half = hard(n, dim)[kind], np.random.default_rng(1).integers(0, 4, n), n // 2
    given = {"z": z, "y": y, "image_ids": np.repeat(np.arange(n // 4), 4)}
    given |= {"z_val": z[half:], "y_val": y[half:], "z_target": z[half:]}
    for metric in METRICS:
        parameters = inspect.signature(find_metric_function(metric)).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
        try:
            value = compute(metric, **{name: given[name] for name in needed}).value
        except DataError:
            continue
        assert np.isfinite(value), metric


@for_each([(n, C, kind) for n, C in ((40, 1e12), (200, 1.0)) for kind in hard(8, 8)], arguments=3)
def test_a_probe_ends_or_says_why_not(n: int, C: float, kind: str) -> None:  # noqa: N803
    x, y = hard(n, 64)[kind], np.arange(n) % 4
    try:
        probe = LogisticProbe(C=C, max_iter=200).fit(x, y)
    except DataError:
        return
    assert np.isfinite(probe.predict_proba(x)).all()


def test_where_divide_and_conquer_fails_iteration_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.normal(size=(60, 40)))
    products = x.T @ x
    expected = (
        eigen.compute_eigh(products),
        eigen.compute_eigvalsh(products.triu(), UPLO="U"),
        eigen.compute_svd(x),
        eigen.compute_svdvals(x),
    )

    def fail(*_: Any, **__: Any) -> Any:
        raise torch.linalg.LinAlgError("The algorithm failed to converge")  # type: ignore[attr-defined]

    for routine in ("eigh", "eigvalsh", "svd", "svdvals"):
        monkeypatch.setattr(torch.linalg, routine, fail)
    values, vectors = eigen.compute_eigh(products)
    assert torch.allclose(values, expected[0][0], rtol=1e-10)
    assert torch.allclose(vectors @ torch.diag(values) @ vectors.T, products, atol=1e-10)
    assert torch.allclose(eigen.compute_eigvalsh(products.triu(), UPLO="U"), expected[1], rtol=1e-10)
    left, singular, right = eigen.compute_svd(x)
    assert torch.allclose(left * singular @ right, x, atol=1e-10)
    assert torch.allclose(eigen.compute_svdvals(x), expected[3], rtol=1e-10)
    with pytest.raises(DataError, match="multiply them"):
        eigen.compute_eigh(torch.full((3, 3), torch.inf, dtype=torch.float64))


@for_each([3e38, 1e12, -1e9])
def test_a_number_next_to_which_the_others_have_no_digits_is_refused_with_row_and_column(value: float) -> None:
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (random.normal(size=(3, 256))[y] + random.normal(size=(90, 256))).astype(np.float32)
    x[7, 3] = value
    with pytest.raises(DataError, match=r"Row 7 of x has .* in column 3, so far from others"):
        LogisticProbe(C=1.0).fit(x, y)
    x[7, 3] = 1e4  # as massive as some units of transformers
    assert (LogisticProbe(C=1.0).fit(x, y).predict(x) == y).mean() > 0.9


def separable(n_classes: int = 10) -> tuple[Any, Any, Any]:
    """240 images with 20 units, the same with units of sizes from 1e-6 to 1e6, and labels that planes tell apart."""
    random = np.random.default_rng(2)
    x = random.normal(size=(240, 20))
    y = (x @ random.normal(size=(20, n_classes))).argmax(axis=1)
    return x.astype(np.float32), (x * 10.0 ** random.uniform(-6, 6, size=20)).astype(np.float32), y


PREPARATIONS = "as they are", "standardised", "whitened 1", "whitened 0.1", "whitened 0.001"


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_probe_chosen_on_its_own_images_ends_with_the_first_fit_that_has_no_error(n_classes: int) -> None:
    x, _, y = separable(n_classes)
    probe = LogisticProbe(preparations=PREPARATIONS, folds=5).fit(x, y, x_val=x.copy(), y_val=y.copy())
    errors = [one["validation_error_percent"] for one in probe.path_]
    assert errors.index(0.0) == len(errors) - 2  # the walk's last fit; that which goes on to the end follows
    assert probe.report_["converged"]
    assert len(probe.report_["preparations"]) == 1
    assert (probe.predict(x) == y).all()


def test_the_error_on_other_images_is_looked_for_beyond_a_fit_without_one() -> None:
    x, _, y = separable()
    again = LogisticProbe().fit(x, y, x_val=x[1:], y_val=y[1:])
    errors = [one["validation_error_percent"] for one in again.path_]
    assert errors.count(0.0) > 2


def test_units_of_sizes_far_apart_take_few_iterations_once_many_were_needed() -> None:
    _, x, y = separable()
    probe = LogisticProbe(preparations=PREPARATIONS, folds=5).fit(x, y, x_val=x, y_val=y)
    assert probe.report_["converged"]
    assert probe.report_["validation_error_percent"] == 0.0
    assert [one["converged"] for one in probe.path_] == [True] * len(probe.path_)
    hard = next(place for place, one in enumerate(probe.path_) if one["iterations"] >= 200)
    assert sum(one["iterations"] for one in probe.path_[hard + 1 :]) < 200


def test_newtons_steps_end_where_the_others_would() -> None:
    _, x, y = separable(3)
    many = LogisticProbe(C=1e3, max_iter=100_000, tol=1e-3)
    by_newton = LogisticProbe(C=1e3, tol=1e-8, precision="float64").fit(x, y)
    assert by_newton.report_["converged"]
    assert by_newton.report_["iterations"] < 1000
    many.fit(x, y)
    assert many.report_["objective"] >= by_newton.report_["objective"] * (1 - 1e-8)  # no fit is below the optimum
