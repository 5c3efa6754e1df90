"""One run of a learning curve: what is chosen, what is kept, and that a killed one ends like any other."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.curves.curve_training import ON_CPU, RECIPE, pocket, same, small_data, small_run
from zoo.encoders import Encoder
from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.training import TrainingStep, TransferResult
from zoo.features.store import hash_weights


@cache
def uninterrupted(task: str) -> TransferResult:
    return small_run(task)


@pytest.mark.parametrize(("task", "rates"), [("classification", (3e-3, 1e-7)), ("depth", (1e-7, 3e-3))])
def test_the_winner_is_as_if_its_learning_rate_had_been_known(task: str, rates: tuple[float, ...]) -> None:
    tuned = small_run(task, recipe=replace(RECIPE, learning_rates=rates))
    alone = small_run(task, recipe=replace(RECIPE, learning_rates=(tuned.report["learning_rate"],)))
    rate = alone.report["learning_rate"]
    own = [trial for trial in tuned.report["learning_rates"] if trial["learning_rate"] == rate]
    tuned.report["learning_rates"] = own
    assert same(tuned, alone) and (1e-7 not in rates or rate == 3e-3)


@pytest.mark.parametrize("changed", [{"frozen": True}, {"precision": "float16"}, {"accumulate": 3}])
def test_a_run_is_the_same_again(changed: dict[str, Any]) -> None:
    one, again = (small_run("classification", recipe=replace(RECIPE, **changed)) for _ in range(2))
    assert same(one, again)


def test_a_run_is_that_of_its_seed_and_leaves_everything_else_alone() -> None:
    encoder = pocket().pretrained()
    before, random = hash_weights(encoder), torch.random.get_rng_state()
    one = small_run("classification", encoder=encoder)
    assert hash_weights(encoder) == before and torch.equal(torch.random.get_rng_state(), random)
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    torch.manual_seed(1234)
    assert same(small_run("classification", encoder=encoder), one)
    assert not same(small_run("classification", seed=1), one)


def test_the_weights_are_those_of_the_lowest_validation_risk_and_training_ends_with_patience() -> None:
    report = small_run("classification", recipe=replace(RECIPE, learning_rates=(3e-3,), least_steps=40)).report
    best = min(report["validation"], key=lambda look: (look["risk"], look["loss"], look["step"]))
    assert report["best_step"] == best["step"]
    hopeless = replace(RECIPE, learning_rates=(1e-12,), patience=1, evaluations=16, frozen=True)
    report = small_run("classification", recipe=hopeless).report
    assert 4 <= report["n_steps_done"] == max(4, report["validation"][-1]["step"]) < report["n_steps"] == 16


def test_progress_counts_all_learning_rates_and_tells_the_risk_of_evaluations() -> None:
    told: list[TrainingStep] = []
    run = small_run("depth", on_step=told.append)
    assert [(step.step, step.n_steps) for step in told] == [(step, 20) for step in range(1, 21)]
    assert [step.step for step in told if step.validation_risk is not None] == list(range(2, 21, 2))
    assert told[-1].validation_risk == run.report["validation"][-1]["risk"]


def test_a_learning_rate_that_diverges_is_left_out_and_if_all_do_it_is_said() -> None:
    run = small_run("depth", recipe=replace(RECIPE, learning_rates=(1e38, 1e-3)))
    diverged, finite = run.report["learning_rates"]
    assert diverged["diverged_at_step"] in (2, 4) and diverged["validation_risk"] is None
    assert finite["diverged_at_step"] is None and run.report["learning_rate"] == 1e-3
    with pytest.raises(DataError, match=r"not finite, at every learning rate of the recipe \(1e\+38, 2e\+38\)"):
        small_run("depth", recipe=replace(RECIPE, learning_rates=(1e38, 2e38)))


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"n_train": 1}, DataError, "1 image to train on"),
        ({"recipe": replace(RECIPE, batch_size=1)}, QueryError, "batch normalisation"),
        ({"how": replace(ON_CPU, device="cuda:77")}, QueryError, "'cuda:77' cannot be used"),
    ],
)
def test_what_cannot_be_trained_is_refused(changed: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        small_run("classification", **changed)
    alone = replace(RECIPE, batch_size=1, frozen=True, learning_rates=(1e-3,), least_steps=2, epochs=0.05)
    assert small_run("classification", n_train=2, recipe=alone).report["n_train"] == 2


def test_parts_of_a_batch_memory_and_precision_train_nearly_the_same_network() -> None:
    short = replace(RECIPE, learning_rates=(1e-3,), least_steps=4, epochs=0.1)
    whole, parts = (
        small_run("depth", recipe=replace(short, accumulate=n), name="pocket_sup_vit_shapes") for n in (1, 4)
    )
    np.testing.assert_allclose(parts.risks["depth_l1_error"], whole.risks["depth_l1_error"], rtol=1e-3)
    assert same(uninterrupted("depth"), small_run("depth", how=replace(ON_CPU, memory_bytes=0)))
    frozen = [
        small_run("classification", recipe=replace(RECIPE, frozen=True), how=replace(ON_CPU, memory_bytes=memory))
        for memory in (1 << 30, 0)  # features are computed once, or at every step
    ]
    losses = [[look["loss"] for look in run.report["validation"]] for run in frozen]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = small_run("depth", recipe=replace(RECIPE, precision="bfloat16"))
    full = uninterrupted("depth").report["validation"][-1]["risk"]
    assert run.report["validation"][-1]["risk"] == pytest.approx(full, rel=0.1)


def test_training_beats_not_looking_and_a_linear_head_has_a_learning_rate_of_its_own() -> None:
    labels = small_data("classification").test.labels  # type: ignore[union-attr]
    error = small_run("classification", recipe=replace(RECIPE, least_steps=60), n_train=50).risks["transfer_error"]
    assert error.mean() < 100 * (1 - np.bincount(labels).max() / len(labels)) - 10
    for task, is_the_same in (("classification", False), ("depth", True)):
        other = small_run(task, recipe=replace(RECIPE, head_rate=10.0))
        assert same(other, uninterrupted(task)) is is_the_same, task


class Remembering(nn.Module):
    """Keeps a mask for the largest batch so far, as transformers keep masks and turns of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.mask: Tensor | None = None

    def forward(self, images: Tensor) -> Tensor:
        if self.mask is None or len(self.mask) < len(images):
            self.mask = torch.full((len(images), 1, 1, 1), 0.5)
        return torch.as_tensor(self.layer(images) * self.mask[: len(images)])


def test_half_precision_weights_are_trained_in_float32_and_what_a_network_keeps_is_of_use() -> None:
    torch.manual_seed(0)
    encoder = Encoder(Remembering(), lambda backbone, images: backbone(images).mean(dim=(2, 3)), dim=4).half()
    run = small_run("classification", encoder=encoder)
    assert run.report["n_steps_done"] > 4, "there was an evaluation, of more images than a step has, in between"
    assert same(run, small_run("classification", encoder=encoder.float()))
