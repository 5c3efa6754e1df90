"""The solver below the logistic probe: closed forms, scikit-learn's optimum, what must not change the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from zoo.evaluation.logistic_curvature import Memory, dot
from zoo.evaluation.logistic_path import Path, Validation
from zoo.evaluation.logistic_problem import problem_of
from zoo.evaluation.logistic_solver import Solver
from zoo.evaluation.probe import LogisticProbe

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


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("c", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize(
    "kind",
    ["digits", "fewer images", "few of each class", "one feature", "two classes", "outlying feature"],
)
def test_the_objective_is_that_of_scikit_learns_optimum(kind: str, c: float, precision: str) -> None:
    x, y = drawn(kind)
    best = theirs(x, y, c, 1e-10)
    probe = LogisticProbe(C=c, precision=precision).fit(x, y)
    reached = ours(x, y, probe, c)
    assert probe.report_["converged"]
    assert best * (1 - 1e-6) <= reached <= best * (1 + 1e-4)
    assert probe.report_["objective"] == pytest.approx(reached, rel=1e-5)
    assert reached - best <= (probe.report_["gap"] + 1e-7) * reached  # the certificate is one


@pytest.mark.parametrize("c", [10.0, 1000.0])
def test_the_objective_is_no_worse_than_scikit_learns_at_its_own_tolerance(c: float) -> None:
    x, y = drawn("digits")
    probe = LogisticProbe(C=c).fit(x, y)
    assert ours(x, y, probe, c) <= theirs(x, y, c, 1e-4) * (1 + 2e-5)
    assert ours(x, y, LogisticProbe(C=c, tol=1e-5).fit(x, y), c) <= theirs(x, y, c, 1e-4) * (1 + 1e-6)


@pytest.mark.parametrize("c", [0.1, 5.0, 500.0])
def test_one_hot_features_have_a_closed_form(c: float) -> None:
    n_classes, copies = 6, 5
    y = np.repeat(np.arange(n_classes), copies)
    probe = LogisticProbe(C=c, tol=1e-10, precision="float64").fit(np.eye(n_classes)[y], y)

    def slope(a: float) -> float:  # weights a (1 - 1/k) on the diagonal, -a/k beside it: |W|^2 is a^2 (k - 1)
        return a / c - copies * n_classes * math.exp(-a) / (1.0 + (n_classes - 1) * math.exp(-a))

    apart = brentq(slope, 0.0, 100.0)
    expected = apart * (np.eye(n_classes) - 1.0 / n_classes)
    np.testing.assert_allclose(probe.coef_, expected, atol=2e-4 * apart)
    assert probe.score(np.eye(n_classes), np.arange(n_classes)) == 1.0


def test_constant_features_give_the_frequencies_of_the_classes() -> None:
    y = np.array([0] * 6 + [1] * 3 + [2])
    probe = LogisticProbe().fit(np.full((10, 4), 3.5), y, x_val=np.full((3, 4), 3.5), y_val=np.array([0, 1, 2]))
    np.testing.assert_allclose(probe.predict_proba(np.full((1, 4), 3.5)), [[0.6, 0.3, 0.1]], rtol=1e-5)
    assert not probe.coef_.any()


def test_turned_features_give_the_same_predictions_and_scaled_ones_do_with_c_over_the_square() -> None:
    x, y = drawn("digits")
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(x.shape[1], x.shape[1])))
    plain = LogisticProbe(C=3.0, tol=1e-8, precision="float64").fit(x, y)
    for other, c in ((x @ turn, 3.0), (x * 50.0, 3.0 / 2500.0), (x + 100.0, 3.0)):
        probe = LogisticProbe(C=c, tol=1e-8, precision="float64").fit(other, y)
        np.testing.assert_allclose(probe.predict_proba(other), plain.predict_proba(x), atol=1e-4)


def test_repeated_rows_count_twice() -> None:
    x, y = drawn("fewer images")
    once = LogisticProbe(C=2.0, tol=1e-9, precision="float64").fit(x, y)
    twice = LogisticProbe(C=1.0, tol=1e-9, precision="float64").fit(np.repeat(x, 2, axis=0), np.repeat(y, 2))
    np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_features_of_any_scale_are_fitted(scale: float) -> None:
    x, y = drawn("fewer images")
    plain = LogisticProbe(C=1.0).fit(x, y)
    for dtype in (np.float32, np.float64):
        scaled = (x * scale).astype(dtype)
        probe = LogisticProbe(C=1.0 / scale**2).fit(scaled, y)
        np.testing.assert_allclose(probe.predict_proba(scaled), plain.predict_proba(x), atol=1e-3)


def test_hardly_any_penalty_on_separable_classes_overflows_nothing() -> None:
    x, y = drawn("fewer images")
    probe = LogisticProbe(C=1e12).fit(x, y)
    assert np.isfinite(probe.coef_).all() and probe.score(x, y) == 1.0
    assert 0 < probe.report_["objective"] < 1e-6


def test_one_and_two_threads_agree_and_a_repeated_fit_is_the_same(threads: None) -> None:
    x, y = drawn("digits")
    fitted = []
    for number in (1, 2, 2):
        torch.set_num_threads(number)
        fitted.append(LogisticProbe(C=10.0, tol=1e-6).fit(x, y))
    assert fitted[0].report_["objective"] == pytest.approx(fitted[1].report_["objective"], rel=2e-6)
    np.testing.assert_allclose(fitted[0].predict_proba(x), fitted[1].predict_proba(x), atol=2e-3)
    np.testing.assert_array_equal(fitted[1].coef_, fitted[2].coef_)


def test_float64_takes_over_where_float32_ends() -> None:
    x, y = drawn("digits")
    probe = LogisticProbe(C=100.0, tol=1e-11).fit(x.astype(np.float32), y)
    assert probe.report_["converged"] and probe.report_["gap"] <= 1e-11


def test_too_few_iterations_are_told() -> None:
    x, y = drawn("digits")
    probe = LogisticProbe(C=1e4, max_iter=2).fit(x, y)
    assert not probe.report_["converged"] and probe.report_["iterations"] == 2


@pytest.mark.parametrize("kind", ["digits", "fewer images"])
def test_the_basis_keeps_every_distance_and_residuals_are_the_derivative(kind: str) -> None:
    x, y = drawn(kind)
    basis, problem = problem_of(x, y, n_classes=int(y.max()) + 1, dtype=torch.float64, device=CPU)
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


def test_what_is_remembered_of_the_curvature_holds_under_another_penalty() -> None:
    memory = Memory(penalty=2.0)
    step, change = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.5, 0.25, 0.125]])
    memory.remember(step.clone(), change.clone())
    memory.move(0.1)
    expected = change + 0.1 * torch.tensor([[1.0, 2.0, 0.0]])  # the intercept has no penalty
    torch.testing.assert_close(memory.pairs[0].change, expected)
    assert memory.pairs[0].product == pytest.approx(dot(step, expected), rel=1e-6)


def test_the_preconditioner_solves_a_problem_of_few_own_images_in_few_steps() -> None:
    x, y = drawn("fewer images")
    _, problem = problem_of(x, y, n_classes=4, dtype=torch.float64, device=CPU)
    solver = Solver(problem)
    point = solver.minimise(solver.cold(0.01), 0.01, tol=1e-6, max_iterations=100)
    assert point.converged and point.iterations <= 20
    assert problem.products == 2 * point.iterations + 1


def test_validation_images_of_no_trained_class_are_errors_without_a_log_loss() -> None:
    judge = Validation(torch.eye(3), torch.tensor([0, 1, -1]))
    error, loss = judge.judged(torch.tensor([[5.0, 0.0], [0.0, 5.0], [0.0, 5.0]]))
    assert error == pytest.approx(100 / 3) and loss == pytest.approx(math.log1p(math.exp(-5.0)), rel=1e-5)


def test_a_path_begins_each_fit_where_the_last_two_lead() -> None:
    x, y = drawn("digits")
    basis, problem = problem_of(x, y, n_classes=10, dtype=torch.float32, device=CPU)
    judge = Validation(basis.coordinates(x), torch.from_numpy(y))
    path = Path(problem, judge, select="log_loss", tol=1e-4, max_iterations=500, c_times_penalty=1.0)
    penalties = [float(problem.spectrum[0]) / 10 / 2**power for power in range(9)]
    path.along(penalties)
    apart = 0
    for penalty in penalties:
        solver = Solver(problem)
        apart += solver.minimise(solver.cold(penalty), penalty, tol=1e-4, max_iterations=500).iterations
    assert path.iterations < 0.7 * apart
