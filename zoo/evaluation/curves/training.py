"""Training a network at one learning rate: steps, evaluations, the best weights, and the state it can continue from.

The optimizer is AdamW; the learning rate rises over the first tenth of the steps and falls by half a cosine. Order of
the images and the noise of a step depend on the seed and the number of the step alone, so that a training that
continues from a stored state ends as one that was never interrupted.
"""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from ...datasets.subsets import raw_draws
from ...errors import StoreError
from ...features.computing import PRECISIONS
from ...files import replaced
from ...optional import requires_extra
from .inputs import Batch, Inputs, cuts_of
from .losses import TargetScale, loss_of, n_terms, risks_of
from .recipe import Recipe, Task

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor, nn

State: TypeAlias = dict[str, Any]  # tensors, numbers, texts, lists, dicts: what torch.load reads with weights_only

_NAME = "training.pt"
_REST = 20  # times what writing a state took, until the next


class StoredTraining:
    """The file with the last state of one training, in a folder of its own; without a folder nothing is stored.

    ``identity`` has everything that the result depends on, as JSON holds it: a state of something else is not used.
    Between two states are at least ``every_s`` seconds; more, up to 20 times as many, where writing one takes over a
    twentieth of them.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], *, every_s: float) -> None:
        self._path = None if folder is None else folder / _NAME
        self._identity = json.dumps(identity, sort_keys=True)
        self._every_s, self._rest_s, self._last_s = every_s, every_s, time.monotonic()

    def load(self) -> State | None:
        """The state to continue from; None if there is none, or it is of another training or not whole."""
        if self._path is None:
            return None
        try:
            content = torch.load(self._path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"The state of a training in {self._path} cannot be read ({error.strerror or error}); make it readable "
                "or remove it."
            ) from error
        except (RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError):
            return None  # a damaged file costs a repetition, and nothing else
        is_of_this = isinstance(content, dict) and content.get("identity") == self._identity
        return content["state"] if is_of_this else None

    def save(self, state: Callable[[], State]) -> None:
        """Writes a state if the last one is old enough; if that fails, the last one is still there."""
        began_s = time.monotonic()
        if self._path is None or began_s - self._last_s < self._rest_s:
            return
        content = {"identity": self._identity, "state": state()}
        try:
            with replaced(self._path) as file:
                torch.save(content, file)
        except (OSError, RuntimeError) as error:  # torch makes a RuntimeError of a disk that is full
            reason = error.__context__ if isinstance(error.__context__, OSError) else error
            raise StoreError(
                f"The state of a training could not be written to {self._path.parent} ({reason}); the one before it is "
                "whole, so make room and run the same again to go on from there."
            ) from error
        self._last_s = time.monotonic()
        cost_s = self._last_s - began_s  # gigabytes to a slow disk would else take half of the time
        self._rest_s = max(self._every_s, _REST * min(cost_s, self._every_s))


def copied(value: Any) -> Any:
    """A copy on the CPU that shares no memory with the training."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(each) for each in value)
    return value


_ORDER_STREAM, _NOISE_STREAM = 7_004, 7_005  # of a seed: order of the images, and what a network draws in training
_MOST_IMAGES = 256  # of a forward pass without gradient, ...
_MOST_PIXELS = 1 << 20  # ... and so many pixels, unless training takes more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitContext:
    """What all learning rates of a run have in common."""

    task: Task
    recipe: Recipe
    seed: int
    scale: TargetScale
    train: Inputs
    validation: Inputs
    device: torch.device
    px: int

    @property
    def batch_size(self) -> int:
        """Images a step; all of them, if there are fewer than a batch."""
        return min(self.recipe.batch_size, len(self.train))

    @property
    def n_steps(self) -> int:
        """Of the whole training."""
        return self.recipe.n_steps(len(self.train))

    @property
    def n_tuning(self) -> int:
        """Steps at every learning rate."""
        return -(-self.n_steps // 4)

    @property
    def layout(self) -> torch.memory_format:
        """How images and weights lie in memory: channels last on a GPU, which a U-Net is faster with."""
        # Not on processors: oneDNN 3.13 (PyTorch 2.15) writes beyond its memory in the gradient of some 1 x 1
        # convolutions in that layout with two threads or more, and there is little to win (8 % with a ResNet-18).
        return torch.channels_last if self.device.type == "cuda" else torch.contiguous_format

    def evaluations(self) -> frozenset[int]:
        """Numbers of the steps after which the validation part is evaluated; the end of the tuning is one."""
        n = self.recipe.evaluations
        return frozenset({-(-self.n_steps * i // n) for i in range(1, n + 1)} | {self.n_tuning})

    def cuts(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """The images of each of some steps: every epoch in another order, without those left that fill no batch."""
        n_of_epoch = len(self.train) // self.batch_size
        order, ordered = np.empty(0, np.int64), -1
        for step in range(start, stop):
            epoch, place = divmod(step, n_of_epoch)
            if epoch != ordered:
                ordered = epoch
                order = np.argsort(raw_draws((self.seed, _ORDER_STREAM, epoch), len(self.train)), kind="stable")
            yield order[place * self.batch_size : (place + 1) * self.batch_size]

    def parts(self, n: int) -> list[tuple[int, int]]:
        """Start and stop of each forward pass of a step with n images; of two images at least, for batch norm."""
        n_parts = max(1, min(self.recipe.accumulate, n // 2))
        edges = [n * i // n_parts for i in range(n_parts + 1)]
        return list(pairwise(edges))

    def autocast(self) -> torch.autocast:
        """The precision of forward passes."""
        dtype = PRECISIONS[self.recipe.precision]
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def evaluation_cuts(self, n: int) -> list[np.ndarray]:
        """The positions of n images, those of one forward pass without gradient at a time."""
        training = -(-self.batch_size // self.recipe.accumulate)
        return cuts_of(n, min(_MOST_IMAGES, max(_MOST_PIXELS // self.px**2, 2 * training)))

    def predictions(
        self, network: nn.Module, inputs: Inputs, *, n: int | None = None
    ) -> Iterator[tuple[Tensor, Batch]]:
        """Predictions for the first n images, float32 in the unit of training, with their batches; in eval mode."""
        network.eval()
        n_images = len(inputs) if n is None else min(n, len(inputs))
        with closing(inputs.batches(self.evaluation_cuts(n_images))) as batches:
            for batch in batches:
                batch = batch.to(self.device, self.layout)
                # Not around the yield, where it would be the caller's. What networks keep for the next time (masks,
                # rotations of positions) is used in training too, which takes none of inference_mode.
                with torch.no_grad(), self.autocast():
                    prediction = network(batch.images).float()
                yield prediction, batch


def evaluated(context: FitContext, network: nn.Module, inputs: Inputs) -> tuple[dict[str, np.ndarray], float]:
    """Risks of every image by every metric, float32 (n,), in its unit; and the mean loss, in the unit of training."""
    by_metric: dict[str, list[Tensor]] = {metric: [] for metric in context.task.metrics}
    losses: list[Tensor] = []
    terms: list[Tensor] = []
    for prediction, batch in context.predictions(network, inputs):  # nothing goes to the CPU here: no GPU waits
        target = context.scale.standardised(batch.target)
        losses.append(loss_of(context.task, prediction, target, batch.valid))
        terms.append(torch.as_tensor(n_terms(context.task, target, batch.valid), device=prediction.device))
        for metric, risk in risks_of(context.task, prediction, batch.target, batch.valid, scale=context.scale).items():
            by_metric[metric].append(risk)
    risks = {metric: torch.cat(parts).cpu().numpy() for metric, parts in by_metric.items()}
    n = torch.stack(terms).cpu().double()
    return risks, float((torch.stack(losses).cpu().double() * n).sum() / n.sum())


class Fitting:
    """A network, its optimizer, and the evaluations of the validation part so far.

    ``step`` is the number of steps done. ``history`` has [step, risk, loss] of each evaluation, the mean risk by the
    first metric and the loss; ``best`` is the entry of the best weights, or None.
    """

    def __init__(self, context: FitContext, network: nn.Module, learning_rate: float) -> None:
        self.context, self.network, self.learning_rate = context, network, learning_rate
        self.step = 0
        self.history: list[list[float]] = []
        self.best: list[float] | None = None
        self._best_weights: State = {}
        self._parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        device = context.device.type
        self._optimizer = torch.optim.AdamW(
            _groups(network, learning_rate, 1.0 if context.task.is_dense else context.recipe.head_rate),
            lr=learning_rate,
            weight_decay=context.recipe.weight_decay,
            fused=device in ("cpu", "cuda"),
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, partial(rate_factor, n_steps=context.n_steps)
        )
        self._scaler = torch.amp.GradScaler(device, enabled=context.recipe.precision == "float16")

    @property
    def diverged(self) -> bool:
        """Whether the last evaluation gave a loss or risk that is not finite."""
        return bool(self.history) and not all(map(math.isfinite, self.history[-1]))

    @property
    def is_over(self) -> bool:
        """At the last step, after divergence, or, from the end of the tuning on, out of patience."""
        if self.step >= self.context.n_steps or self.diverged:
            return True
        since = sum(step > self.best[0] for step, _, _ in self.history) if self.best else 0
        return self.step >= self.context.n_tuning and since >= self.context.recipe.patience

    def advance(self, until: int, after: Callable[[float | None], None]) -> None:
        """Trains to a step, or until it is over; calls ``after`` with the validation risk of each step, mostly None."""
        if self.is_over or self.step >= until:
            return
        context, evaluations = self.context, self.context.evaluations()
        self.network.train()
        with closing(context.train.batches(context.cuts(self.step, until))) as batches:
            for batch in batches:
                self._one_step(batch.to(context.device, context.layout))
                self.step += 1
                risk = self._evaluate() if self.step in evaluations else None
                after(risk)
                if risk is not None:
                    if self.is_over:
                        return
                    self.network.train()

    def load_best(self) -> None:
        """Puts the best weights into the network."""
        self.network.load_state_dict(self._best_weights, strict=False)

    def state(self) -> State:
        """All of it; shares memory with the training."""
        return {
            "learning_rate": self.learning_rate,
            "step": self.step,
            "history": self.history,
            "best": self.best,
            "best_weights": self._best_weights,
            "weights": trained_weights(self.network),
            "optimizer": self._optimizer.state_dict(),
            "schedule": self._schedule.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def load(self, state: State) -> None:
        """Continues from a state, whose tensors then belong to this training."""
        self.step, self.history, self.best = state["step"], state["history"], state["best"]
        self._best_weights = state["best_weights"]
        self.network.load_state_dict(state["weights"], strict=False)
        self._optimizer.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        self._scaler.load_state_dict(state["scaler"])

    def _one_step(self, batch: Batch) -> None:
        context = self.context
        self._seed()
        target = context.scale.standardised(batch.target)
        standardised = Batch(batch.images, target, batch.valid)
        n_all = n_terms(context.task, target, batch.valid)
        self._optimizer.zero_grad()
        for start, stop in context.parts(len(batch)):
            part = standardised.part(start, stop)
            with context.autocast():
                prediction = self.network(part.images)
            loss = loss_of(context.task, prediction.float(), part.target, part.valid)
            share = n_terms(context.task, part.target, part.valid) / n_all
            self._scaler.scale(loss * share).backward()  # type: ignore[no-untyped-call]
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._parameters, context.recipe.clip_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._schedule.step()

    def _seed(self) -> None:
        """Seeds dropout and dropped paths by the number of the step, so that no state of a generator is stored."""
        noise = int(raw_draws((self.context.seed, _NOISE_STREAM, self.step), 1)[0] >> np.uint64(1))
        torch.default_generator.manual_seed(noise)  # torch.manual_seed would note every call for all accelerators
        if self.context.device.type == "cuda":
            with torch.cuda.device(self.context.device):
                torch.cuda.manual_seed(noise)

    def _evaluate(self) -> float:
        risks, loss = evaluated(self.context, self.network, self.context.validation)
        risk = float(np.mean(risks[self.context.task.metrics[0]], dtype=np.float64))
        self.history.append([self.step, risk, loss])
        if not self.diverged and (self.best is None or (risk, loss) < tuple(self.best[1:])):
            self.best = [self.step, risk, loss]
            self._best_weights = copied(trained_weights(self.network))
        return risk


def trained_weights(network: nn.Module) -> dict[str, Any]:
    """The part of the state dict that training changes; shares memory with the network."""
    fixed = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    return {name: value for name, value in network.state_dict().items() if name not in fixed}


def _groups(network: nn.Module, learning_rate: float, head_rate: float) -> list[dict[str, Any]]:
    """Parameters for the optimizer: the encoder's, and those that start at random whatever the encoder."""
    named = dict(network.named_parameters())
    encoder = [each for name, each in named.items() if name.startswith("encoder.") and each.requires_grad]
    decoder = [each for name, each in named.items() if not name.startswith("encoder.")]
    groups = [{"params": decoder, "lr": head_rate * learning_rate}]
    return [{"params": encoder, "lr": learning_rate}, *groups] if encoder else groups


def rate_factor(step: int, *, n_steps: int) -> float:
    """Factor of the learning rate at a step: a rise over the first tenth of the steps, then half a cosine.

    >>> [round(rate_factor(step, n_steps=20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    rising = math.ceil(n_steps / 10)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / max(1, n_steps - rising))) / 2
