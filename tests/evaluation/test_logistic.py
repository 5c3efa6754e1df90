"""The solver below the logistic probe: closed forms, scikit-learn's optimum, what must not change the answer."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from tests.each import for_each
from zoo.errors import DataError, QueryError
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.logistic_basis import build_problem
from zoo.evaluation.logistic_certificate import Float64Problem, _PairedCurvature, _RowCurvature
from zoo.evaluation.logistic_solver import ValidationSet, compute_cross_entropies

CPU = torch.device("cpu")


def drawn(kind: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    if kind == "digits":
        x, y = load_digits(return_X_y=True)
        return x[:600] / 16.0, y[:600]
    n, dim, classes = {
        "fewer images": (40, 90, 4),
        "few of each class": (30, 8, 14),
        "one feature": (60, 1, 3),
        "two classes": (50, 6, 2),
        "outlying feature": (90, 7, 3),
    }[kind]
    y = np.arange(n) % classes
    x = generator.normal(size=(classes, dim))[y] + generator.normal(size=(n, dim))
    if kind == "outlying feature":
        x[:, 0] *= 1e3
    return x, y


def objective(x: np.ndarray, y: np.ndarray, weights: np.ndarray, intercepts: np.ndarray, c: float) -> float:
    """scikit-learn's, of the weights of all classes (of two classes: of their difference)."""
    logits = x.astype(np.float64) @ weights.T + intercepts
    logits -= logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]
    share = 1.0 if len(weights) == 2 else 0.5  # |w1 - w0|^2 = 2 (|w0|^2 + |w1|^2) where they sum to 0
    return float(losses.sum() + share / c * np.square(weights).sum())


def theirs(x: np.ndarray, y: np.ndarray, c: float, tol: float) -> float:
    model = LogisticRegression(C=c, tol=tol, max_iter=50_000).fit(x - x.mean(axis=0), y)
    weights, intercepts = model.coef_, model.intercept_
    if len(weights) == 1:
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    return objective(x - x.mean(axis=0), y, weights, intercepts, c)


def ours(x: np.ndarray, y: np.ndarray, probe: LogisticProbe, c: float) -> float:
    mean = x.mean(axis=0)
    return objective(x - mean, y, probe.coef_, probe.intercept_ + probe.coef_ @ mean, c)


def may_differ(probe: LogisticProbe) -> float:
    """How far weights may be from the optimum's: the penalty makes the objective strongly convex."""
    report = probe.report_
    c = report["C"] / (2.0 if len(probe.classes_) == 2 else 1.0)
    return math.sqrt(2.0 * c * report["tol"] * report["objective"])


@for_each(
    product(
        ["digits", "fewer images", "few of each class", "one feature", "two classes", "outlying feature"],
        [1e-3, 1.0, 300.0],
        ["float32", "float64"],
    ),
    arguments=3,
)
def test_the_objective_is_that_of_scikit_learns_optimum(kind: str, c: float, precision: str) -> None:
    x, y = drawn(kind)
    best = theirs(x, y, c, 1e-10)
    probe = LogisticProbe(C=c, precision=precision).fit(x, y)
    reached = ours(x, y, probe, c)
    assert probe.report_["converged"]
    assert reached <= best * (1 + 1e-4)
    assert probe.report_["objective"] == pytest.approx(reached, rel=1e-9)
    assert reached - best <= (probe.report_["gap"] + 1e-12) * reached


@for_each([1e-3, 1.0, 100.0])
def test_with_one_huge_column_the_objective_is_nearer_to_the_least_than_a_fifth_of_tol(c: float) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 5, 300)
    x = generator.normal(size=(300, 40))
    x[:, 0] = 1e3 * (y + 0.01 * x[:, 0])
    x = x.astype(np.float32)
    probe, best = LogisticProbe(C=c).fit(x, y), LogisticProbe(C=c, tol=1e-12, precision="float64").fit(x, y)
    assert probe.report_["converged"] and best.report_["converged"]
    assert ours(x.astype(np.float64), y, probe, c) <= ours(x.astype(np.float64), y, best, c) * (1 + 2e-5)


def exact_problem(kind: str) -> tuple[Float64Problem, float]:
    """In float64, and the square of the features' scale, which is C times the penalty."""
    x, y = drawn(kind)
    basis, problem = build_problem(x, y, n_classes=int(y.max()) + 1, dtype=torch.float64, device=CPU)
    return Float64Problem(x, problem.y, n_classes=problem.n_classes, basis=basis), 1.0 / basis.scale**2


@for_each(product(["digits", "few of each class", "outlying feature"], [0.01, 1.0, 100.0]), arguments=2)
def test_a_certificate_bounds_what_any_weights_and_intercepts_miss(kind: str, c: float) -> None:
    exact, factor = exact_problem(kind)
    x, y = drawn(kind)
    best = LogisticProbe(C=c, tol=1e-9, precision="float64").fit(x, y)
    assert best.report_["converged"]
    generator = torch.Generator().manual_seed(3)
    optimum = torch.cat([best._weights, best._intercepts[:, None]], dim=1)
    for size in (0.0, 1e-6, 1e-3, 1.0):
        for part in (slice(None), slice(-1, None)):  # everything, and intercepts alone
            weights = optimum.clone()
            away = torch.randn(weights[:, part].shape, generator=generator, dtype=torch.float64)
            weights[:, part] += size * away * weights.abs().mean()
            found = exact.certificate(weights, factor / c)
            assert found.gap * found.objective >= found.objective - best.report_["objective"] * (1 + 1e-12)
            if size == 0.0:
                assert found.gap <= 1e-9
                assert found.objective == pytest.approx(best.report_["objective"], rel=1e-12)


@for_each(product([1e-42, 1e-20, 1e20], [np.float32, np.float64]), arguments=2)
def test_the_default_c_has_a_fit_whatever_the_size_of_features(scale: float, dtype: type) -> None:
    x, y = drawn("fewer images")
    scaled = (x * scale).astype(dtype)
    probe = LogisticProbe(C=1.0).fit(scaled, y)
    assert np.isfinite(probe.coef_).all() and np.isfinite(probe.decision_function(scaled)).all()
    if scale < 1:  # the penalty hides the features, and every class has as many images
        assert probe.report_["converged"]
        np.testing.assert_allclose(probe.predict_proba(scaled), 0.25, rtol=1e-9)
    else:
        assert probe.score(scaled, y) == 1.0 and probe.report_["converged"] == (probe.report_["gap"] <= 1e-4)


def test_a_size_that_float64_cannot_square_is_refused_in_a_sentence() -> None:
    x, y = drawn("fewer images")
    for scale in (1e-160, 1e160):
        with pytest.raises(DataError, match="multiply them by a number"):
            LogisticProbe(C=1.0).fit(x * scale, y)
    with pytest.raises(QueryError, match="C is 1e"):
        LogisticProbe(C=1e250).fit(x * 1e100, y)


@for_each([0.1, 5.0, 500.0])
def test_one_hot_features_have_a_closed_form(c: float) -> None:
    n_classes, copies = 6, 5
    y = np.repeat(np.arange(n_classes), copies)
    probe = LogisticProbe(C=c, tol=1e-10, precision="float64").fit(np.eye(n_classes)[y], y)

    def slope(a: float) -> float:  # weights a (1 - 1/k) on the diagonal, -a/k off it: |W|^2 is a^2 (k - 1)
        return a / c - copies * n_classes * math.exp(-a) / (1.0 + (n_classes - 1) * math.exp(-a))

    apart = brentq(slope, 0.0, 100.0)
    expected = apart * (np.eye(n_classes) - 1.0 / n_classes)
    np.testing.assert_allclose(probe.coef_, expected, atol=may_differ(probe))
    assert probe.score(np.eye(n_classes), np.arange(n_classes)) == 1.0


def test_constant_features_give_the_frequencies_of_the_classes() -> None:
    y = np.array([0] * 6 + [1] * 3 + [2])
    probe = LogisticProbe().fit(np.full((10, 4), 3.5), y, x_val=np.full((3, 4), 3.5), y_val=np.array([0, 1, 2]))
    np.testing.assert_allclose(probe.predict_proba(np.full((1, 4), 3.5)), [[0.6, 0.3, 0.1]], rtol=1e-5)
    assert not probe.coef_.any()


def test_turned_features_give_the_same_predictions_and_scaled_ones_do_with_c_over_the_square() -> None:
    x, y = drawn("digits")
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(x.shape[1], x.shape[1])))
    plain = LogisticProbe(C=3.0, tol=1e-11, precision="float64").fit(x, y)
    for other, c in ((x @ turn, 3.0), (x * 50.0, 3.0 / 2500.0), (x + 100.0, 3.0)):
        probe = LogisticProbe(C=c, tol=1e-11, precision="float64").fit(other, y)
        logits = 4.0 * (may_differ(plain) + may_differ(probe) * math.sqrt(3.0 / c))  # of rows no longer than that
        np.testing.assert_allclose(probe.predict_proba(other), plain.predict_proba(x), atol=logits)


@for_each(["digits", "fewer images"])
def test_the_basis_keeps_every_distance_and_residuals_are_the_derivative(kind: str) -> None:
    x, y = drawn(kind)
    basis, problem = build_problem(x, y, n_classes=int(y.max()) + 1, dtype=torch.float64, device=CPU)
    np.testing.assert_allclose(basis.coordinates(x), problem.z, atol=1e-6)
    centred = torch.from_numpy((x - x.mean(axis=0)) / basis.scale)
    np.testing.assert_allclose(problem.z[:, :-1] @ problem.z[:, :-1].T, centred @ centred.T, atol=1e-9)
    parameters = torch.randn(problem.n_classes, problem.z.shape[1], dtype=torch.float64, generator=torch.manual_seed(0))
    parameters.requires_grad_()
    torch.nn.functional.cross_entropy(problem.z @ parameters.T, problem.y, reduction="sum").backward()
    loss, residuals = problem.loss(problem.logits(parameters.detach()))
    np.testing.assert_allclose(problem.pulled(residuals), parameters.grad, atol=1e-9)
    expected = torch.nn.functional.cross_entropy(problem.z @ parameters.T, problem.y, reduction="sum")
    assert loss == pytest.approx(float(expected.detach()), rel=1e-12)


@for_each([0.1, 3.0, 30.0])
def test_newtons_step_of_intercepts_by_products_is_that_by_a_table_of_pairs(size: float) -> None:
    generator = torch.Generator().manual_seed(7)
    k, n = 40, 300
    y = torch.randint(k, (n,), generator=generator)
    logits = size * torch.randn(n, k, generator=generator, dtype=torch.float64)
    logits[torch.arange(n), y] += size  # the larger, the more rows are settled
    residuals = torch.softmax(logits, dim=1)
    residuals[torch.arange(n), y] = 0.0
    residuals[torch.arange(n), y] = -residuals.sum(dim=1)
    gradient, place = residuals.sum(dim=0), torch.arange(n) * k + y
    by_rows, by_pairs = _RowCurvature(n, y, k), _PairedCurvature(torch.zeros(k, k, dtype=torch.float64))
    by_rows.add(slice(None), residuals, place)
    by_pairs.add(slice(None), residuals.clone(), place)
    one, other = by_rows.solve(gradient), by_pairs.solve(gradient)
    one, other = one - one.mean(), other - other.mean()  # equal intercepts change nothing
    assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


def test_cross_entropies_are_those_of_float64_also_where_a_probability_is_0() -> None:
    logits = torch.tensor([[0.0, 1.0, -2.0], [0.0, 200.0, 90.0], [500.0, 0.0, 499.0]])
    right = torch.tensor([0, 0, 1])
    exact = torch.nn.functional.cross_entropy(logits.double(), right, reduction="none")
    assert torch.allclose(compute_cross_entropies(logits, right), exact, rtol=1e-6)


def test_of_equal_logits_the_first_class_is_predicted_and_untrained_classes_are_missed() -> None:
    logits = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0], [3.0, 0.0]])
    judge = ValidationSet(logits, torch.tensor([0, 1, 1, -1]))
    assert judge.error(logits) == 50.0
    losses = [math.log(2), math.log(2), math.log1p(math.exp(-2))]
    assert judge.log_loss(logits) == pytest.approx(sum(losses) / 3, rel=1e-6)
