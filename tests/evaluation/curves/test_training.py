"""One run of a learning curve: what is chosen, what is kept, and that a killed one ends like any other."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.children import Child
from tests.evaluation.curves.curve_training import ON_CPU, RECIPE, pocket, same, small_data, small_run
from zoo.errors import DataError, QueryError, StoreError
from zoo.evaluation.curves.recipe import Recipe
from zoo.evaluation.curves.tuning import Step, Trained
from zoo.features.store import weights_hash

TASKS = ("classification", "depth", "normals")
KEEPS_NONE = replace(ON_CPU, state_seconds=3600)


class Killed(BaseException):
    """What ends a run from outside."""


def killed_at(*steps: int) -> Callable[[Step], None]:
    def on_step(step: Step) -> None:
        if step.step in steps:
            raise Killed

    return on_step


@cache
def uninterrupted(task: str) -> Trained:
    return small_run(task)


@pytest.mark.parametrize("task", TASKS)
def test_the_winner_is_as_if_its_learning_rate_had_been_known(task: str) -> None:
    tuned = small_run(task)
    alone = small_run(task, recipe=replace(RECIPE, learning_rates=(tuned.report["learning_rate"],)))
    own = [trial for trial in tuned.report["learning_rates"] if trial["learning_rate"] == alone.report["learning_rate"]]
    assert own == alone.report["learning_rates"]
    tuned.report["learning_rates"] = own
    assert same(tuned, alone)


def test_the_first_learning_rate_can_win_and_goes_on_from_its_own_state() -> None:
    tuned = small_run("classification", recipe=replace(RECIPE, learning_rates=(3e-3, 1e-7)))
    alone = small_run("classification", recipe=replace(RECIPE, learning_rates=(3e-3,)))
    assert tuned.report["learning_rate"] == 3e-3
    assert tuned.report["validation"] == alone.report["validation"]
    assert all(np.array_equal(tuned.risks[metric], alone.risks[metric]) for metric in alone.risks)


@pytest.mark.parametrize(
    ("task", "step"),
    [*(("classification", step) for step in (1, 3, 4, 5, 8, 9, 14, 20)), *(("depth", step) for step in (3, 8, 14))],
)
def test_a_run_that_was_killed_ends_as_one_that_was_not(task: str, step: int, tmp_path: Path) -> None:
    whole = uninterrupted(task)
    with pytest.raises(Killed):
        small_run(task, state=tmp_path, on_step=killed_at(step))
    told: list[Step] = []
    assert same(small_run(task, state=tmp_path, on_step=told.append), whole)
    assert [one.step for one in told] == list(range(step + 1, 21)), "nothing is done twice, between evaluations either"


@pytest.mark.parametrize("name", ["frozen", "float16", "accumulated"])
def test_a_run_may_be_killed_again_and_again(name: str, tmp_path: Path) -> None:
    changed = {"frozen": {"frozen": True}, "float16": {"precision": "float16"}, "accumulated": {"accumulate": 3}}[name]
    recipe = replace(RECIPE, **changed)
    whole = small_run("classification", recipe=recipe)
    for step in (3, 7, 11, 15, 19):
        with pytest.raises(Killed):
            small_run("classification", recipe=recipe, state=tmp_path, on_step=killed_at(step))
    assert same(small_run("classification", recipe=recipe, state=tmp_path), whole)


def test_a_process_that_was_killed_outright_leaves_a_state_to_go_on_from(tmp_path: Path) -> None:
    def kill(step: Step) -> None:
        if step.step == 11:
            os.kill(os.getpid(), signal.SIGKILL)

    process = Child(lambda: small_run("depth", state=tmp_path, on_step=kill)).process
    process.join(100)
    assert process.exitcode == -signal.SIGKILL
    told: list[Step] = []
    assert same(small_run("depth", state=tmp_path, on_step=told.append), uninterrupted("depth"))
    assert told[0].step == 12


def test_the_state_of_another_run_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        small_run("classification", state=tmp_path, on_step=killed_at(10))
    others: tuple[dict[str, Any], ...] = ({"seed": 1}, {"n_train": 29}, {"recipe": replace(RECIPE, weight_decay=0.5)})
    for changed in others:
        with pytest.raises(Killed):  # one that goes on begins with step 11
            small_run("classification", state=tmp_path, on_step=killed_at(1), how=KEEPS_NONE, **changed)
    told: list[Step] = []
    small_run("classification", state=tmp_path, on_step=told.append)
    assert told[0].step == 11


def test_a_damaged_state_costs_a_repetition_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        small_run("classification", state=tmp_path, on_step=killed_at(10))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:1000])
    assert same(small_run("classification", state=tmp_path), uninterrupted("classification"))


def test_a_full_disk_is_said_and_the_state_before_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        small_run("classification", state=tmp_path, on_step=killed_at(10))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    try:
        with pytest.raises(StoreError, match=r"could not be written to .*File too large"):
            small_run("classification", state=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]
    told: list[Step] = []
    assert same(small_run("classification", state=tmp_path, on_step=told.append), uninterrupted("classification"))
    assert told[0].step == 11


def test_states_are_written_no_more_often_than_asked(tmp_path: Path) -> None:
    small_run("classification", state=tmp_path, how=KEEPS_NONE)
    assert not list(tmp_path.iterdir())


def test_a_run_is_that_of_its_seed_and_leaves_everything_else_alone() -> None:
    encoder = pocket().pretrained()
    before, random = weights_hash(encoder), torch.random.get_rng_state()
    one = small_run("classification", encoder=encoder)
    assert weights_hash(encoder) == before
    assert torch.equal(torch.random.get_rng_state(), random)
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    torch.manual_seed(1234)
    assert same(small_run("classification", encoder=encoder), one)
    assert not same(small_run("classification", seed=1), one)


def test_the_weights_are_those_of_the_lowest_validation_risk_and_of_equals_of_the_lowest_loss() -> None:
    report = small_run("classification", recipe=replace(RECIPE, learning_rates=(3e-3,), least_steps=40)).report
    best = min(report["validation"], key=lambda look: (look["risk"], look["loss"], look["step"]))
    assert report["best_step"] == best["step"]


def test_training_ends_when_patience_does_but_never_while_learning_rates_are_compared() -> None:
    hopeless = replace(RECIPE, learning_rates=(1e-12,), patience=1, evaluations=16)
    report = small_run("classification", recipe=replace(hopeless, frozen=True)).report
    assert report["n_steps_done"] < report["n_steps"] == 16
    assert report["n_steps_done"] >= 4
    assert report["n_steps_done"] == max(4, report["validation"][-1]["step"])


def test_progress_counts_all_learning_rates_and_tells_the_risk_where_somebody_looked() -> None:
    told: list[Step] = []
    run = small_run("depth", on_step=told.append)
    assert [step.step for step in told] == list(range(1, 21))
    assert {step.n_steps for step in told} == {20}
    assert [step.step for step in told if step.validation_risk is not None] == list(range(2, 21, 2))
    assert told[-1].validation_risk == run.report["validation"][-1]["risk"]


def test_a_learning_rate_that_diverges_is_left_out() -> None:
    run = small_run("depth", recipe=replace(RECIPE, learning_rates=(1e38, 1e-3)))
    diverged, finite = run.report["learning_rates"]
    assert diverged["diverged_at_step"] in (2, 4)
    assert diverged["validation_risk"] is None
    assert finite["diverged_at_step"] is None
    assert run.report["learning_rate"] == 1e-3
    assert np.isfinite(run.risks["depth_l1_error"]).all()


def test_no_learning_rate_without_divergence_is_refused_in_a_sentence() -> None:
    with pytest.raises(DataError, match=r"not finite, at every learning rate of the recipe \(1e\+38, 2e\+38\)"):
        small_run("depth", recipe=replace(RECIPE, learning_rates=(1e38, 2e38)))


@pytest.mark.parametrize("n_train", [2, 3, 9])
def test_few_images_are_one_batch_and_what_is_left_of_an_epoch_is_none(n_train: int) -> None:
    run = small_run("classification", n_train=n_train)
    assert run.report["n_train"] == n_train
    assert np.isin(run.risks["transfer_error"], (0, 100)).all()


def test_a_single_image_is_refused() -> None:
    with pytest.raises(
        DataError, match="There are 1 images of 'shapes-4-classes-16px' to train on and 10 to validate on"
    ):
        small_run("classification", n_train=1)


def test_batches_of_one_image_are_refused_where_batches_are_normalised() -> None:
    with pytest.raises(QueryError, match="batch_size=1, and the encoder has batch normalisation"):
        small_run("depth", recipe=replace(RECIPE, batch_size=1))
    run = small_run("depth", recipe=replace(RECIPE, batch_size=1, frozen=True, epochs=0.1))
    assert run.report["n_steps"] == 16


def test_parts_of_a_batch_give_the_gradient_of_the_whole() -> None:
    name, short = "pocket_sup_vit_shapes", Recipe(learning_rates=(1e-3,), batch_size=8, epochs=0.1, least_steps=4)
    whole = small_run("depth", recipe=short, name=name)
    parts = small_run("depth", recipe=replace(short, accumulate=4), name=name)
    np.testing.assert_allclose(parts.risks["depth_l1_error"], whole.risks["depth_l1_error"], rtol=1e-3)


def test_a_frozen_encoder_is_computed_once_and_gives_what_it_gives_at_every_step() -> None:
    frozen = replace(RECIPE, frozen=True)
    once = small_run("classification", recipe=frozen)
    always = small_run("classification", recipe=frozen, how=replace(ON_CPU, memory_bytes=0))
    np.testing.assert_allclose(
        [look["loss"] for look in once.report["validation"]],
        [look["loss"] for look in always.report["validation"]],
        rtol=1e-4,
    )
    assert same(small_run("depth", recipe=frozen), small_run("depth", recipe=frozen))


def test_images_in_memory_and_images_read_again_and_again_train_the_same_network() -> None:
    assert same(uninterrupted("normals"), small_run("normals", how=replace(ON_CPU, memory_bytes=0)))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns_as_well_and_warns_of_nothing(precision: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = small_run("depth", recipe=replace(RECIPE, precision=precision))
    full = uninterrupted("depth")
    assert run.report["validation"][-1]["risk"] == pytest.approx(full.report["validation"][-1]["risk"], rel=0.1)


def test_training_beats_not_looking() -> None:
    labels = small_data("classification").test.labels  # type: ignore[union-attr]
    longer = replace(RECIPE, least_steps=60)
    error = small_run("classification", recipe=longer, n_train=50).risks["transfer_error"].mean()
    assert error < 100 * (1 - np.bincount(labels).max() / len(labels)) - 10


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(QueryError, match="The device 'cuda:77' cannot be used here"):
        small_run("classification", how=replace(ON_CPU, device="cuda:77"))


def test_a_linear_head_has_a_learning_rate_of_its_own_and_a_decoder_of_maps_has_not() -> None:
    for task, is_the_same in (("classification", False), ("depth", True), ("normals", True)):
        other = small_run(task, recipe=replace(RECIPE, head_rate=10.0))
        assert same(other, uninterrupted(task)) is is_the_same, task
