"""The attentive probe: planted cases, its gradient, its arrays, and what it refuses."""

from dataclasses import replace

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
    how = {"n_classes": CLASSES, "n_queries": 3, "value_dim": 2}
    return AttentionObjective(maps=maps, y=torch.from_numpy(y), penalties=torch.tensor([1e-2, 1e-3]), **how)


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
    values, gradient = objective.measure(vector)
    moved = vector.clone().requires_grad_()
    parts = objective.split(moved)
    penalised = parts.queries, parts.values, parts.weights, parts.averages
    logits = predict_logits(objective, moved, objective.maps)
    losses = torch.stack([torch.nn.functional.cross_entropy(one, objective.y) for one in logits])
    squares = torch.stack([one.view(2, -1).square().sum(dim=1) for one in penalised]).sum(dim=0)
    losses = losses + 0.5 * objective.penalties * squares
    losses.sum().backward()
    torch.testing.assert_close(values, losses.detach(), rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient, moved.grad, rtol=1e-4, atol=1e-6)


def test_maps_that_are_not_held_in_memory_give_the_same_objective():
    x, y = make_one_patch(50, seed=0)
    held, read = make_objective(x, y), make_objective(x, y, in_memory=0)
    assert read.maps.held is None
    vector = held.start(0)
    torch.testing.assert_close(held.measure(vector)[1], read.measure(vector)[1], rtol=1e-5, atol=1e-7)


class CountedRows:
    """Rows that remember how many were read at a time."""

    def __init__(self, x):
        self.x, self.shape, self.dtype, self.most = x, x.shape, x.dtype, 0

    def __getitem__(self, rows):
        found = self.x[rows]
        self.most = max(self.most, len(found))
        return found


def test_components_are_found_some_images_at_a_time(monkeypatch):
    monkeypatch.setattr("zoo.evaluation.attention_pooling._NUMBERS_AT_A_TIME", 1)
    x = np.random.default_rng(0).normal(size=(60, 5 * CHANNELS)) * np.arange(1, 5 * CHANNELS + 1)
    read = CountedRows(x)
    scale = fit_map_scale(read, CHANNELS, 3, seed=0, device=CPU)
    values = np.linalg.eigvalsh(np.corrcoef(x.reshape(-1, CHANNELS), rowvar=False))
    assert read.most == 8
    assert scale.share == pytest.approx(values[-3:].sum() / values.sum(), rel=1e-4)


def test_members_are_those_that_they_would_be_alone():
    together = make_objective(*make_one_patch(100, seed=0))
    start = together.start(0)
    values, gradient = together.measure(start)
    for member, penalty in enumerate(together.penalties.split(1)):
        own, slope = (join_member(together, vector, member) for vector in (start, gradient))
        value, expected = replace(together, penalties=penalty).measure(own)
        torch.testing.assert_close(value, values[member, None])
        torch.testing.assert_close(slope, expected, rtol=1e-4, atol=1e-7)


def join_member(objective, vector, member):
    parts = objective.split(vector)
    names = ("queries", "values", "weights", "averages", "intercepts")
    return torch.cat([getattr(parts, name).chunk(len(objective.penalties))[member].flatten() for name in names])


@pytest.mark.parametrize(("n", "expected"), [(64, 30), (640, 40)])
def test_few_rows_are_gone_through_more_often(n, expected, monkeypatch):
    objective, counted = make_objective(*make_one_patch(n, seed=0)), []
    monkeypatch.setattr(AttentionObjective, "_add", lambda *given: counted.append(given))
    run_one_cycle(objective, seed=0, epochs=2, n_steps=30, batch_size=32, learning_rate=0.01)
    assert len(counted) == expected


def test_predictions_are_those_of_the_starts_together():
    x, y = make_one_patch(300, seed=0)
    probe = AttentiveProbe(n_components=6, epochs=5, n_steps=1).fit(x, y, x_val=x[:50], y_val=y[:50])
    rows = x.reshape(300, -1)
    maps = probe._standardise(rows, probe._scale(rows))
    fit = probe._train(maps, y, probe.penalties, 2)
    place = probe.penalties.index(probe.report_["penalty"])
    logits = predict_logits(fit.objective, fit.vector, maps)[2 * place : 2 * place + 2].mean(dim=0)
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
        ({"learning_rate": -1.0}, (20, 4, 8), QueryError, "learning_rate has -1.0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, shape, error, said):
    with pytest.raises(error, match=said):
        AttentiveProbe(**options).fit(np.zeros(shape), np.arange(20) % 2)
