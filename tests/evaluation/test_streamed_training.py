"""Training candidates side by side is training each by itself as PyTorch would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from zoo.evaluation.streamed_training import (
    Hyperparameters,
    LabelledRows,
    PassSettings,
    ShuffledRows,
    TrainedCandidate,
    compute_moments,
    compute_schedule_factor,
    evaluate_candidates,
    split_near_equal,
    train,
)

N, DIM, CLASSES = 150, 6, 4
SETTING = PassSettings(
    epochs=3,
    n_classes=CLASSES,
    seed=1,
    stage=0,
    largest_batch=64,
    window_bytes=1 << 20,
    block_rows=8,
    device=torch.device("cpu"),
)
BASE = Hyperparameters(
    learning_rate_per_256=0.5, weight_decay=1e-2, batch_size=16, batch_norm=False, optimizer="sgd", schedule="cosine"
)
VARIED = [
    BASE,
    replace(BASE, optimizer="adam", learning_rate_per_256=3.0),
    replace(BASE, optimizer="adam", batch_norm=True, schedule="warmcosine"),
    replace(BASE, batch_size=64, schedule="multistep", batch_norm=True),
    replace(BASE, batch_size=32, schedule="constant"),
    replace(BASE, batch_norm=True, learning_rate_per_256=0.1),
]


@pytest.fixture(scope="module")
def data() -> LabelledRows:
    generator = np.random.default_rng(0)
    y = generator.integers(0, CLASSES, N)
    x = generator.normal(size=(N, DIM)) + generator.normal(size=(CLASSES, DIM))[y] + 1
    return LabelledRows(x.astype(np.float32), y)


def trained(
    data: LabelledRows, candidates: list[Hyperparameters], setting: PassSettings = SETTING
) -> list[TrainedCandidate]:
    return train(data, candidates, setting, after_epoch=lambda epoch: None)


def by_pytorch(data: LabelledRows, candidate: Hyperparameters) -> tuple[torch.nn.Module, float]:
    """The same training as a user of PyTorch would write it, on the same batches; and the loss of the last epoch."""
    reader = ShuffledRows(data, batch_rows=64, window_bytes=1 << 20, block_rows=8, device=torch.device("cpu"))
    linear = torch.nn.Linear(DIM, CLASSES)
    start = trained(data, [replace(candidate, learning_rate_per_256=1e-30, weight_decay=0.0)])[0]
    linear.load_state_dict(start.linear.state_dict())
    norm = torch.nn.BatchNorm1d(DIM, affine=False) if candidate.batch_norm else torch.nn.Identity()
    groups: list[dict[str, Any]] = [
        {"params": [linear.weight], "weight_decay": candidate.weight_decay},
        {"params": [linear.bias], "weight_decay": 0.0},
    ]
    optimizer = (
        torch.optim.Adam(groups, lr=1.0)
        if candidate.optimizer == "adam"
        else torch.optim.SGD(groups, lr=1.0, momentum=0.9)
    )
    n_steps = SETTING.epochs * sum(len(split_near_equal(size, candidate.batch_size)) for size in reader.sizes)
    step = 0
    for epoch in range(SETTING.epochs):
        total = 0.0
        for x, y in reader.epoch(SETTING.seed, SETTING.stage, epoch):
            sizes = split_near_equal(len(x), candidate.batch_size)
            for x_part, y_part in zip(x.split(sizes), y.split(sizes), strict=True):
                for group in optimizer.param_groups:
                    group["lr"] = candidate.learning_rate * compute_schedule_factor(candidate.schedule, step, n_steps)
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(linear(norm(x_part)), y_part)
                loss.backward()
                optimizer.step()
                step, total = step + 1, total + loss.item() * len(x_part)
    return linear, total / N


@pytest.mark.parametrize("candidate", VARIED, ids=lambda one: f"{one.optimizer}-{one.batch_size}-{one.batch_norm}")
def test_a_candidate_ends_where_pytorch_would_take_it(data: LabelledRows, candidate: Hyperparameters) -> None:
    (ours,) = trained(data, [candidate])
    theirs, loss = by_pytorch(data, candidate)
    torch.testing.assert_close(ours.linear.weight, theirs.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.linear.bias, theirs.bias, rtol=1e-4, atol=1e-5)
    assert ours.train_loss == pytest.approx(loss, rel=1e-5)


def test_a_candidate_does_not_depend_on_its_company(data: LabelledRows) -> None:
    together = trained(data, [*VARIED, *(replace(one, weight_decay=0.1) for one in VARIED)])
    for candidate, one in zip(VARIED, together, strict=False):
        (alone,) = trained(data, [candidate])
        torch.testing.assert_close(one.linear.weight, alone.linear.weight, rtol=1e-4, atol=1e-6)


def test_a_candidate_that_diverges_is_given_up_and_harms_no_other(data: LabelledRows) -> None:
    hopeless = replace(BASE, learning_rate_per_256=1e43)
    bad, good = trained(data, [hopeless, BASE])
    assert bad.diverged_at_epoch == 1 and bad.train_loss is None
    (alone,) = trained(data, [BASE])
    torch.testing.assert_close(good.linear.weight, alone.linear.weight)
    assert evaluate_candidates([bad, good], data, compute_moments(data), SETTING)[0] == (None, None)


def test_error_and_log_loss_are_those_of_the_logits(data: LabelledRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.evaluation.streamed_training._LOGITS_AT_A_TIME", 100)  # several blocks
    found = trained(data, VARIED)
    y = data.y.copy()
    y[:10] = -1  # of no class
    moments = compute_moments(data)
    scores = evaluate_candidates(found, LabelledRows(data.x, y), moments, SETTING)
    for one, (error, loss) in zip(found, scores, strict=True):
        x = torch.from_numpy(data.read(slice(None))).double()
        if one.candidate.batch_norm:
            x = (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + 1e-5).sqrt()
        logits = x @ one.linear.weight.detach().double().T + one.linear.bias.detach().double()
        assert error == pytest.approx(100 * (logits.argmax(dim=1).numpy() != y).mean())
        expected = torch.nn.functional.cross_entropy(logits[10:], torch.from_numpy(y[10:]))
        assert loss == pytest.approx(float(expected), rel=1e-5)
