"""Small transfers that are trained in a second, for the tests of one run of a learning curve."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from zoo.cards.schema import Preprocess
from zoo.encoders import Encoder
from zoo.evaluation.curves.data import TransferData, transfer_data
from zoo.evaluation.curves.models import Candidate, candidate
from zoo.evaluation.curves.recipe import Recipe
from zoo.evaluation.curves.training import OnStep, Training, TransferResult, TransferSetup, train_run

RECIPE = Recipe(learning_rates=(1e-3, 4e-3), batch_size=8, epochs=1.0, least_steps=16, evaluations=8, head_rate=1.0)
"""Two learning rates of 4 and of 16 steps: 20 in all, and a look after every other one."""

ON_CPU = Training(device="cpu")


@cache
def small_data(task: str) -> TransferData:
    """60 rendered images to learn from and 24 to be tested on."""
    return transfer_data("shapes:classes=4,train=60,val=24,size_px=16", task)


@cache
def pocket(name: str = "pocket_sup_rn_shapes") -> Candidate:
    """A tiny encoder of the zoo."""
    return candidate(name)


@cache
def _encoder(name: str) -> Encoder:
    return pocket(name).pretrained()


def small_preprocess() -> Preprocess:
    """Of the toy encoders, for images of 16 px."""
    return replace(pocket().preprocess, resize_px=16, crop_px=16)


def small_run(
    task: str,
    *,
    recipe: Recipe = RECIPE,
    seed: int = 0,
    n_train: int = 30,
    how: Training = ON_CPU,
    on_step: OnStep | None = None,
    name: str = "pocket_sup_rn_shapes",
    **changed: Any,
) -> TransferResult:
    """Trains on the first images, validates on the last ten."""
    what: dict[str, Any] = {
        "data": small_data(task),
        "train": np.arange(n_train),
        "validation": np.arange(50, 60),
        "preprocess": small_preprocess() if name == "pocket_sup_rn_shapes" else pocket(name).preprocess,
    }
    encoder = changed.pop("encoder", None) or _encoder(name)
    return train_run(encoder, TransferSetup(**(what | changed), recipe=recipe, seed=seed), how, on_step)


def same(one: TransferResult, other: TransferResult) -> bool:
    """Whether two runs found the same, to the last bit."""
    facts, others = ({key: value for key, value in run.report.items() if key != "seconds"} for run in (one, other))
    examples = [None if run.examples is None else run.examples.tobytes() for run in (one, other)]
    return (
        facts == others
        and examples[0] == examples[1]
        and one.risks.keys() == other.risks.keys()
        and all(np.array_equal(one.risks[metric], other.risks[metric]) for metric in one.risks)
    )
