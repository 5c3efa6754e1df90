"""Training many linear probes in one pass over the data.

All candidates see the same rows in the same order. Those with the same batch size and the same choice of batch
normalisation form a stack: their batches are the same, so that one matrix product, of the batch (b, dim) and the
stacked weights of m candidates (m * n_classes, dim), serves all of them, and another one their gradients. A stack with
smaller batches splits what is read for the largest. What becomes of a candidate does not depend on its company, but for
rounding.

Gradients are written out rather than recorded; the steps are those of ``torch.optim``, fused, with an optimizer for
each candidate. The intercept is not decayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ..optional import requires_extra
from .streamed_checks import Array
from .streamed_optimizers import factor, optimizer_of
from .streamed_rows import Labelled, Moments, ShuffledRows, near_equal, writable
from .streamed_space import Candidate

with requires_extra("evaluate", needed_for="Training probes"):
    import numpy as np
    import torch

State: TypeAlias = dict[str, Any]
EPSILON = 1e-5  # of batch normalisation, as everywhere
_LOGITS = 1 << 24  # numbers in memory while evaluating


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all candidates of a pass have in common."""

    epochs: int
    n_classes: int
    seed: int
    stage: int  # 0 while tuning, 1 in the final training: another order of rows, another beginning
    largest_batch: int
    window_bytes: int
    block_rows: int
    precision: str
    device: torch.device


@dataclass(eq=False)
class Trained:
    """One candidate after, or in the middle of, its training."""

    candidate: Candidate
    weight: torch.Tensor  # (n_classes, dim)
    bias: torch.Tensor  # (n_classes,)
    steps: list[State] = field(default_factory=lambda: [{}, {}])  # the optimizer's, for weight and bias
    train_loss: float | None = None  # mean over the last epoch, while the weights moved
    diverged_at_epoch: int | None = None


class Stack:
    """Candidates that share batches, and so the products of a step."""

    def __init__(self, members: Sequence[Trained], setting: Setting, sizes: Sequence[int]) -> None:
        self.members = list(members)
        self._classes, self._precision = setting.n_classes, setting.precision
        self.batch_size = members[0].candidate.batch_size
        self.batch_norm = members[0].candidate.batch_norm
        self._total_steps = setting.epochs * sum(len(near_equal(size, self.batch_size)) for size in sizes)
        self._weight = torch.cat([member.weight for member in members]).to(setting.device)  # (m n_classes, dim)
        self._bias = torch.cat([member.bias for member in members]).to(setting.device)
        self._weight_gradient = torch.empty_like(self._weight)
        self._bias_gradient = torch.empty_like(self._bias)
        self.loss = torch.zeros(len(members), dtype=torch.float64, device=setting.device)  # summed over rows
        self._optimizers = []
        for number, member in enumerate(members):
            part = slice(number * self._classes, (number + 1) * self._classes)
            weight = torch.nn.Parameter(self._weight[part])
            bias = torch.nn.Parameter(self._bias[part])
            weight.grad, bias.grad = self._weight_gradient[part], self._bias_gradient[part]
            optimizer = optimizer_of(member.candidate, weight, bias)
            for parameter, state in zip((weight, bias), member.steps, strict=True):
                for name, value in state.items():
                    optimizer.state[parameter][name] = value.to(setting.device, copy=True)
            self._optimizers.append((member.candidate, optimizer, weight, bias))

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int) -> None:
        """One step of every member on one batch: float32 (b, dim), int64 (b,)."""
        b, m = len(x), len(self.members)
        if self.batch_norm:
            x = torch.nn.functional.batch_norm(x, None, None, training=True, eps=EPSILON)
        logits = product(x, self._weight.T, self._precision).add_(self._bias).view(b, m, self._classes)
        residual = torch.log_softmax(logits, dim=2)
        index = y.view(b, 1, 1).expand(b, m, 1)
        self.loss.sub_(residual.gather(2, index).sum(dim=(0, 2), dtype=torch.float64))
        residual.exp_().scatter_add_(2, index, residual.new_full((1, 1, 1), -1.0).expand(b, m, 1)).div_(b)
        flat = residual.view(b, m * self._classes)
        product(flat.T, x, self._precision, out=self._weight_gradient)
        torch.sum(flat, dim=0, out=self._bias_gradient)
        for candidate, optimizer, _, _ in self._optimizers:
            share = factor(candidate.schedule, number, self._total_steps)
            for group in optimizer.param_groups:
                group["lr"] = candidate.learning_rate * share
            optimizer.step()

    def state(self) -> list[Trained]:
        """The members as they are now; copies on the CPU."""
        for member, (_, optimizer, weight, bias) in zip(self.members, self._optimizers, strict=True):
            member.weight, member.bias = _copy(weight), _copy(bias)
            member.steps = [
                {name: _copy(value) for name, value in optimizer.state[parameter].items() if value is not None}
                for parameter in (weight, bias)
            ]
        return self.members

    def survivors(self, epoch: int, n: int) -> list[bool]:
        """Notes the losses of an epoch over n rows; False for members that diverged in it."""
        losses = (self.loss / n).tolist()
        self.loss.zero_()
        finite = []
        for member, loss, (_, _, weight, _) in zip(self.members, losses, self._optimizers, strict=True):
            finite.append(math.isfinite(loss) and bool(torch.isfinite(weight).all()))
            member.train_loss = loss if finite[-1] else None
            member.diverged_at_epoch = None if finite[-1] else epoch
        return finite


def product(a: torch.Tensor, b: torch.Tensor, precision: str, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Matrix product in float32, or of both factors rounded to bfloat16; float32 either way."""
    if precision == "bfloat16":
        found = torch.mm(a.bfloat16(), b.bfloat16())
        return found.float() if out is None else out.copy_(found)
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


def train(
    data: Labelled,
    candidates: Sequence[Candidate],
    setting: Setting,
    *,
    began: Mapping[str, Any] | None = None,
    after_epoch: Callable[[int, Callable[[], State]], None],
) -> list[Trained]:
    """Trains candidates side by side, reading the data once an epoch for all.

    Parameters
    ----------
    began : mapping, optional
        State of the same training after some epochs, as ``after_epoch`` was given it: go on from there.
    after_epoch : callable
        Called after each epoch with the number of epochs done and a function that gives the state.

    Returns
    -------
    list of Trained
        In the order of the candidates, on the CPU.
    """
    reader = ShuffledRows(
        data, batch_rows=setting.largest_batch, window_bytes=setting.window_bytes, block_rows=setting.block_rows,
        device=setting.device,
    )  # fmt: skip
    if began is None:
        done, members = 0, [Trained(candidate, *_beginning(data.dim, setting)) for candidate in candidates]
    else:
        done = began["epochs"]
        members = [Trained(candidate, **one) for candidate, one in zip(candidates, began["members"], strict=True)]
    stacks = _stacked(members, setting, reader.sizes)
    with torch.no_grad():
        for epoch in range(done, setting.epochs):
            if not stacks:
                break
            _epoch(stacks, reader, epoch, setting)
            finite = [stack.survivors(epoch + 1, len(data)) for stack in stacks]
            if not all(all(ones) for ones in finite):
                for stack in stacks:
                    stack.state()
                stacks = _stacked(members, setting, reader.sizes)
            after_epoch(epoch + 1, partial(_state, epoch + 1, members, stacks))
        for stack in stacks:
            stack.state()
    return members


def evaluated(
    trained: Sequence[Trained], data: Labelled, moments: Moments, setting: Setting
) -> list[tuple[float | None, float | None]]:
    """Error in percent and mean log loss of each; (None, None) for one that diverged.

    Rows whose label no class has are errors, and no part of the log loss.
    """
    errors, losses, known = np.zeros(len(trained)), np.zeros(len(trained)), int((data.y >= 0).sum())
    k = setting.n_classes
    for plain in (True, False):
        some = [
            number
            for number, one in enumerate(trained)
            if one.diverged_at_epoch is None and one.candidate.batch_norm is not plain
        ]
        if not some:
            continue
        weight = torch.cat([trained[number].weight for number in some]).to(setting.device)
        bias = torch.cat([trained[number].bias for number in some]).to(setting.device)
        mean, scale = normalisation(moments) if not plain else (None, None)
        for part, block in data.blocks(max(1, min(4096, _LOGITS // len(weight)))):
            x = writable(block).to(setting.device)
            if mean is not None and scale is not None:
                x = (x - mean.to(x)) * scale.to(x)
            logits = torch.addmm(bias, x, weight.T).view(len(x), len(some), k)
            y = torch.from_numpy(data.y[part]).to(setting.device).view(-1, 1)
            wrong = (logits.argmax(dim=2) != y).sum(dim=0)
            index = y.clamp(min=0).unsqueeze(2).expand(-1, len(some), 1)
            loss = -torch.log_softmax(logits, dim=2).gather(2, index).squeeze(2) * (y >= 0)
            errors[some] += wrong.cpu().numpy()
            losses[some] += loss.sum(dim=0, dtype=torch.float64).cpu().numpy()
    return [
        (None, None)
        if one.diverged_at_epoch is not None or not math.isfinite(loss)
        else (float(100 * wrong / len(data)), float(loss / known) if known else None)
        for one, wrong, loss in zip(trained, errors, losses, strict=True)
    ]


def normalisation(moments: Moments) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and scale that take the place of a batch's own: those of all training rows, float64 (dim,).

    A feature that never varied in training says nothing, so that it is scaled to 0.
    """
    scale: Array = np.where(moments.variance > 0, 1 / np.sqrt(moments.variance + EPSILON), 0.0)
    return torch.from_numpy(moments.mean), torch.from_numpy(scale)


def _epoch(stacks: Sequence[Stack], reader: ShuffledRows, epoch: int, setting: Setting) -> None:
    """One pass; what is read for the largest batch is split for the others."""
    done = [epoch * sum(len(near_equal(size, stack.batch_size)) for size in reader.sizes) for stack in stacks]
    for x, y in reader.epoch(setting.seed, setting.stage, epoch):
        for number, stack in enumerate(stacks):
            first = 0
            for size in near_equal(len(x), stack.batch_size):
                stack.step(x[first : first + size], y[first : first + size], done[number])
                first, done[number] = first + size, done[number] + 1


def _stacked(members: Sequence[Trained], setting: Setting, sizes: Sequence[int]) -> list[Stack]:
    together: dict[tuple[int, bool], list[Trained]] = {}
    for member in members:
        if member.diverged_at_epoch is None:
            together.setdefault((member.candidate.batch_size, member.candidate.batch_norm), []).append(member)
    return [Stack(some, setting, sizes) for some in together.values()]


def _beginning(dim: int, setting: Setting) -> tuple[torch.Tensor, torch.Tensor]:
    """The uniform numbers a torch.nn.Linear begins with, the same ones for all candidates of a stage."""
    words = np.random.SeedSequence([setting.seed, setting.stage, 1]).generate_state(1)
    generator = torch.Generator().manual_seed(int(words[0]))
    bound = 1 / math.sqrt(dim)
    weight = torch.empty(setting.n_classes, dim).uniform_(-bound, bound, generator=generator)
    return weight, torch.empty(setting.n_classes).uniform_(-bound, bound, generator=generator)


def _state(epochs: int, members: Sequence[Trained], stacks: Sequence[Stack]) -> State:
    for stack in stacks:
        stack.state()
    return {
        "epochs": epochs,
        "members": [
            {
                "weight": one.weight, "bias": one.bias, "steps": one.steps, "train_loss": one.train_loss,
                "diverged_at_epoch": one.diverged_at_epoch,
            }
            for one in members
        ],
    }  # fmt: skip


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)
