"""How the runs of learning curves are computed: memory, processes, states and weights, which move no number."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.curves.curve_runs import HOW, planted_candidate, planted_data, planted_train
from tests.evaluation.curves.curve_training import RECIPE, pocket, same, small_data, small_preprocess, small_run
from zoo.encoders import Encoder
from zoo.errors import QueryError
from zoo.evaluation.curves.inputs import HeldInputs, StreamedInputs, forget_inputs, inputs_of, n_bytes_of, read_batches
from zoo.evaluation.curves.recipe import Recipe
from zoo.evaluation.curves.runs import CurveRun, Runner, Setup, Workload, perform
from zoo.evaluation.curves.training import StoredTraining
from zoo.evaluation.curves.tuning import blind_run

PREPROCESS = small_preprocess()


@pytest.fixture(autouse=True)
def _nothing_in_memory() -> Iterator[None]:
    forget_inputs()
    yield
    forget_inputs()


class Remembering(nn.Module):
    """Keeps a mask for the largest batch so far, as transformers keep masks and turns of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm1d(4)
        self.mask: Tensor | None = None

    def forward(self, images: Tensor) -> Tensor:
        if self.mask is None or len(self.mask) < len(images):
            self.mask = torch.full((len(images), 1, 1, 1), 0.5)
        seen: Tensor = self.layer(images) * self.mask[: len(images)]
        found: Tensor = self.norm(seen.mean(dim=(2, 3)))
        return found


def _all_of_it(backbone: nn.Module, images: Tensor) -> Tensor:
    found: Tensor = backbone(images)
    return found


def remembering() -> Encoder:
    torch.manual_seed(0)
    return Encoder(Remembering(), _all_of_it, dim=4).eval().requires_grad_(False)


def test_what_a_network_keeps_while_it_is_evaluated_is_of_use_in_training() -> None:
    run = small_run("classification", encoder=remembering())
    assert run.report["n_steps_done"] > 4, "there was an evaluation, of more images than a step has, in between"


def test_weights_that_are_stored_in_half_precision_are_trained_in_float32() -> None:
    stored = remembering().half()
    assert same(small_run("classification", encoder=stored), small_run("classification", encoder=stored.float()))


def test_batches_of_one_image_are_refused_whatever_kind_of_batch_normalisation_there_is() -> None:
    with pytest.raises(QueryError, match="batch_size=1, and the encoder has batch normalisation"):
        small_run("classification", encoder=remembering(), recipe=replace(RECIPE, batch_size=1))


def test_states_come_more_seldom_where_writing_one_takes_long(tmp_path: Path) -> None:
    written: list[int] = []

    def state() -> dict[str, Any]:
        time.sleep(0.2)
        written.append(len(written))
        return {"number": len(written)}

    stored = StoredTraining(tmp_path, {}, every_s=0.05)
    for _ in range(3):
        time.sleep(0.06)
        stored.save(state)
    assert written == [0], "the next is due after a second: twenty times what is the least"
    always = StoredTraining(tmp_path, {}, every_s=0)
    always.save(state)
    always.save(state)
    assert always.load() == {"number": 3}


def test_no_process_is_started_that_has_no_batch_to_read() -> None:
    part = small_data("classification").train
    reading = read_batches(part, [[0, 1]], PREPROCESS, n_workers=3)
    assert len(next(reading)) == 2
    assert len(multiprocessing.active_children()) == 1
    reading.close()
    assert list(read_batches(part, [], PREPROCESS, n_workers=3)) == []


def test_the_maps_of_a_blind_guess_are_read_by_processes_as_by_none() -> None:
    data = small_data("normals")
    alone, helped = (
        blind_run(data, PREPROCESS, train=np.arange(60), memory_bytes=1 << 24, n_workers=n) for n in (0, 1)
    )
    assert all(np.array_equal(alone.risks[metric], helped.risks[metric]) for metric in data.task.metrics)


def test_the_images_in_memory_are_given_back_when_the_runs_are_done(tmp_path: Path) -> None:
    one, other = (small_data(task).train for task in ("classification", "depth"))
    room = n_bytes_of(other, len(other), PREPROCESS.crop_px)  # for one of them
    with Runner(Setup(data=planted_data(), recipe=Recipe(), folder=tmp_path, how=HOW, train=planted_train)):
        inputs = inputs_of(one, np.arange(4), PREPROCESS, memory_bytes=room)
        assert isinstance(inputs_of(other, np.arange(60), PREPROCESS, memory_bytes=room), StreamedInputs)
        del inputs
    assert isinstance(inputs_of(other, np.arange(60), PREPROCESS, memory_bytes=room), HeldInputs)


def timed_train(*arguments: Any, **options: Any) -> Any:
    """Was at it for two minutes, in processes that were killed."""
    trained = planted_train(*arguments, **options)
    return replace(trained, report={**trained.report, "seconds": 120.0})


def test_the_seconds_of_a_run_are_those_of_all_processes_that_were_at_it(tmp_path: Path) -> None:
    setup = Setup(data=planted_data(), recipe=Recipe(), folder=tmp_path, how=HOW, train=timed_train)
    run = perform(Workload(data=setup.data, recipe=setup.recipe).encoder(planted_candidate(), 50, 0), setup)
    assert isinstance(run, CurveRun) and run.report["seconds"] == 120.0


def test_every_transfer_of_the_pocket_runs_in_each_precision_with_parts_of_batches() -> None:
    for precision in ("bfloat16", "float16"):
        recipe = replace(RECIPE, precision=precision, accumulate=3, learning_rates=(1e-3,), least_steps=4, epochs=0.1)
        for name in ("pocket_sup_rn_shapes", "pocket_sup_vit_shapes"):
            run = small_run("normals", name=name, recipe=recipe)
            assert pocket(name).name == name and np.isfinite(run.risks["normals_l1_error"]).all()
