"""The attentive probe: planted cases, its gradient, its arrays, and what it refuses."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from zoo.errors import DataError, QueryError
from zoo.evaluation import AttentiveProbe
from zoo.evaluation.attention_pooling import (
    AttentionObjective,
    StandardisedMaps,
    fit_map_scale,
    predict_logits,
    run_lbfgs,
    run_one_cycle,
)

PLACES, CHANNELS, CLASSES = 16, 8, 4
CPU = torch.device("cpu")


def make_one_patch(n, *, seed):
    """Every class stands in a quarter of the patches; the right one in the only patch with a key."""
    draws = np.random.default_rng(seed)
    y, x = draws.integers(CLASSES, size=n), draws.normal(scale=0.3, size=(n, PLACES, CHANNELS))
    codes = np.stack([draws.permutation(PLACES) % CLASSES for _ in range(n)])
    x[:, :, :CLASSES] += 2 * np.eye(CLASSES)[codes]
    keys = [draws.choice(np.flatnonzero(row == label)) for row, label in zip(codes, y, strict=True)]
    x[np.arange(n), keys, CLASSES] += 3
    return x.astype(np.float32), y


def make_mean_only(n, *, seed):
    """A small part of the class in every patch, under noise."""
    draws = np.random.default_rng(seed)
    y = draws.integers(CLASSES, size=n)
    x = draws.normal(size=(n, PLACES, CHANNELS))
    x[:, :, :CLASSES] += 0.4 * np.eye(CLASSES)[y][:, None]
    return x.astype(np.float32), y


def make_objective(x, y, **changed):
    rows = x.reshape(len(x), -1)
    scale = fit_map_scale(rows, CHANNELS, changed.pop("n_components", 128), seed=0, device=CPU)
    maps = StandardisedMaps(rows, scale, **changed)
    how = {"n_classes": CLASSES, "n_queries": 3, "value_dim": 2, "penalty": 1e-3}
    return AttentionObjective(maps=maps, y=torch.from_numpy(y), **how)


def test_a_class_in_one_patch_is_read_by_attention_and_hidden_by_the_average():
    probe = AttentiveProbe().fit(*make_one_patch(500, seed=0))
    assert probe.kept_ == "attention"
    assert probe.score(*make_one_patch(300, seed=1)) > 0.95
    assert probe.report_["choice"]["average"]["validation_error_percent"] > 55  # chance is 75


def test_a_class_in_the_mean_alone_keeps_the_average():
    probe = AttentiveProbe().fit(*make_mean_only(400, seed=0))
    assert probe.kept_ == "average"
    assert probe.queries_.shape == (0, CHANNELS)


def test_a_quick_probe_reads_one_patch_too():
    probe = AttentiveProbe(quick=True).fit(*make_one_patch(500, seed=0))
    assert probe.kept_ == "attention"
    assert probe.score(*make_one_patch(300, seed=1)) > 0.9


@pytest.mark.parametrize("class_token", [False, True])
def test_the_gradient_is_that_of_autograd(class_token):
    x, y = make_one_patch(40, seed=0)
    objective = make_objective(x, y, class_token=class_token, n_components=5)
    vector = objective.start(0) * 5
    value, gradient = objective.measure(vector)
    moved = vector.clone().requires_grad_()
    parts = objective.split(moved)
    penalised = parts.queries, parts.values, parts.weights, parts.averages
    loss = torch.nn.functional.cross_entropy(predict_logits(objective, moved, objective.maps), objective.y)
    loss = loss + 0.5 * objective.penalty * sum(one.square().sum() for one in penalised)
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(gradient, moved.grad, rtol=1e-4, atol=1e-6)


def test_maps_that_are_not_held_in_memory_give_the_same_objective():
    x, y = make_one_patch(50, seed=0)
    held, read = make_objective(x, y), make_objective(x, y, in_memory=0)
    assert read.maps.held is None
    vector = held.start(0)
    torch.testing.assert_close(held.measure(vector)[1], read.measure(vector)[1], rtol=1e-5, atol=1e-7)


def test_the_second_training_ends_within_its_tolerance():
    objective = make_objective(*make_one_patch(200, seed=0))
    start = run_one_cycle(objective, seed=0, epochs=2, batch_size=32, learning_rate=0.03)
    rough, fine = (run_lbfgs(objective, start, tol=tol) for tol in (0.5, 1e-3))
    assert fine.converged
    assert fine.value < rough.value < objective.measure(start)[0]
    assert fine.gradient_norm < rough.gradient_norm


def test_predictions_are_those_of_the_starts_together():
    x, y = make_one_patch(300, seed=0)
    probe = AttentiveProbe(n_components=6, epochs=5).fit(x, y, x_val=x[:50], y_val=y[:50])
    penalty = probe.report_["penalty"]
    scale = probe._scale(x.reshape(300, -1))
    fit = probe._fit_penalty(probe._standardise(x.reshape(300, -1), scale), y, penalty)
    logits = torch.stack([predict_logits(fit.objective, one.vector, fit.objective.maps) for one in fit.starts]).mean(0)
    np.testing.assert_allclose(probe.predict_proba(x), torch.softmax(logits, dim=1).numpy(), atol=1e-4)


def test_fits_are_the_same_again_and_their_arrays_predict_alike():
    x, y = make_one_patch(200, seed=0)
    probe = AttentiveProbe(epochs=5).fit(x, y)
    again = clone(probe).fit(x.reshape(200, PLACES, CHANNELS), y)
    np.testing.assert_array_equal(again.coef_, probe.coef_)
    other = AttentiveProbe(channels=CHANNELS)
    other.adopt_fit(probe.fitted_arrays(), probe.report_)
    np.testing.assert_array_equal(other.predict(x.reshape(200, -1)), probe.predict(x))


def test_a_refit_takes_what_was_chosen():
    x, y = make_one_patch(300, seed=0)
    probe = AttentiveProbe(epochs=10).fit(x[:200], y[:200], x_val=x[200:], y_val=y[200:])
    chosen = probe.report_["penalty"]
    probe.refit(x, y)
    assert (probe.report_["penalty"], probe.report_["kept"]) == (chosen, "attention")


@pytest.mark.parametrize(
    ("options", "shape", "error", "said"),
    [
        ({}, (20, 32), DataError, "channels"),
        ({"channels": 7}, (20, 32), DataError, "places of 7 channels"),
        ({"class_token": True}, (20, 1, 8), DataError, "a class token and one or more places"),
        ({"penalties": ()}, (20, 4, 8), QueryError, "penalties"),
        ({"n_queries": 0}, (20, 4, 8), QueryError, "n_queries is 0"),
        ({"tol": -1.0}, (20, 4, 8), QueryError, "tol has -1.0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, shape, error, said):
    with pytest.raises(error, match=said):
        AttentiveProbe(**options).fit(np.zeros(shape), np.arange(20) % 2)
