"""Transfers whose risks are planted, for the tests of many runs: quick to train, and their answer is known."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zoo.cards.schema import Preprocess
from zoo.datasets.images import ImageSet, array_images
from zoo.datasets.subsets import draw_uniform
from zoo.encoders import Encoder
from zoo.errors import UnknownName
from zoo.evaluation.curves.data import TransferData
from zoo.evaluation.curves.models import Candidate
from zoo.evaluation.curves.recipe import TASKS
from zoo.evaluation.curves.report import CurveReport, CurveRequest, learning_curves
from zoo.evaluation.curves.training import OnStep, Training, TrainingStep, TransferResult, TransferSetup

PREPROCESS = Preprocess(resize_px=8, crop_px=8, interpolation="bilinear", mean=(0.5,) * 3, std=(0.25,) * 3)
HOW = Training(device="cpu")
N_TRAIN, N_TEST, N_CLASSES = 400, 300, 5
SCRATCH_NEEDS, PRETRAINED_NEEDS = 80.0, 20.0  # labels for half of what labels can do
CURVES = {"n_draws": 200, "seeds": (0, 1)}


def labelled(labels: np.ndarray, *, split: str = "train", name: str = "planted") -> ImageSet:
    """Grey images of these classes."""
    pixels = np.full((len(labels), 4, 4), 7 if split == "train" else 9, np.uint8)
    classes = [f"class {number}" for number in range(int(labels.max()) + 1)]
    return array_images(pixels, labels.astype(np.int64), name=name, split=split, classes=classes)


def planted_data(*, n_train: int = N_TRAIN) -> TransferData:
    """Five classes, alike in number."""
    train, test = (
        labelled(np.arange(n) % N_CLASSES, split=split) for n, split in ((n_train, "train"), (N_TEST, "val"))
    )
    return TransferData("planted", TASKS["classification"], train, test)


def planted_error(n: float, needs: float) -> float:
    """Share of the test images that a network gets wrong: from a constant baseline, 80 %, towards 5 %."""
    return float(0.05 + 0.75 / (1 + (n / needs) ** 2))


def _pooled(backbone: nn.Module, images: Tensor) -> Tensor:
    return images.mean(dim=(2, 3))


def encoder_that_needs(needs: float, seed: int = 0) -> Encoder:
    """One that remembers how many labels it needs."""
    encoder = Encoder(nn.Identity(), _pooled, dim=3)
    encoder.register_buffer("needs", torch.tensor(float(needs)))
    return encoder


def planted_candidate(name: str = "planted", *, needs: float = PRETRAINED_NEEDS) -> Candidate:
    """All of one architecture."""
    return Candidate(
        name=name,
        preprocess=PREPROCESS,
        weights_hash=f"w{needs}",
        architecture_hash="a",
        pretrained=partial(encoder_that_needs, needs),
        untrained=partial(encoder_that_needs, SCRATCH_NEEDS),
    )


def planted_train(
    encoder: Encoder,
    transfer: TransferSetup,
    how: Training,
    on_step: OnStep | None = None,
    *,
    log: Path | None = None,
    stop_after: int | None = None,
    fails: tuple[int, ...] = (),
) -> TransferResult:
    """Gets wrong what is planted; notes process, labels an encoder needs, images and seed in the ``log``.

    The keyboard interrupts after ``stop_after`` calls, and runs of the seeds ``fails`` fail.
    """
    data, seed = transfer.data, transfer.seed
    needs, n = float(encoder.needs), len(transfer.train) + len(transfer.validation)
    if stop_after is not None and len(calls(log)) >= stop_after:
        raise KeyboardInterrupt
    if log is not None:
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {needs:g} {n} {seed}\n")
    if on_step is not None:
        on_step(TrainingStep(step=5, n_steps=10, validation_risk=None))
    if seed in fails:
        raise UnknownName("seed", str(seed), ["0"])
    order = np.argsort(draw_uniform((1,), len(data.test)))  # the same images are hard for everybody
    difficulty = (np.argsort(order) + 0.5) / len(data.test)
    luck = 0.9 + 0.2 * float(draw_uniform((seed, 2, int(needs)), 1)[0])
    wrong = difficulty < planted_error(luck * n, needs)
    risks = {"transfer_error": 100.0 * wrong.astype(np.float32)}
    return TransferResult(risks=risks, examples=None, report={"learning_rate": 0.001, "steps": 10})


def calls(log: Path | None) -> list[tuple[int, float, int, int]]:
    """What was trained: process, labels the encoder needs, images, seed."""
    if log is None or not log.exists():
        return []
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(int(pid), float(needs), int(n), int(seed)) for pid, needs, n, seed in lines]


def request(**changes: Any) -> CurveRequest:
    """A small one."""
    return CurveRequest(**({"regimes": (20, 100, "all")} | CURVES | changes))


def measured(folder: Path, asked: CurveRequest | None = None, **options: Any) -> CurveReport:
    """One encoder, with what was trained noted in the log of the folder."""
    train = partial(planted_train, log=folder / "log", **options.pop("train", {}))
    candidates = options.pop("candidates", [planted_candidate()])
    data = options.pop("data", planted_data())
    folder.mkdir(exist_ok=True)
    return learning_curves(
        candidates, data, asked or request(), folder=folder / "runs", how=HOW, train=train, **options
    )


def numbers(report: CurveReport) -> list[Any]:
    """Everything that a report says, without how long it took."""
    return [curve.as_dict() for curve in report.curves]


def slow_encoder() -> Any:
    """Takes longer than anybody waits."""
    time.sleep(600)


def dying_encoder() -> Encoder:
    """Ends its process, as one does that takes too much memory."""
    os._exit(9)
