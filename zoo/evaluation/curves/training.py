"""A network on its way at one learning rate: steps, evaluations, the best weights, and all of it as a state."""

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
from .losses import TargetScale as Scale
from .losses import loss_of, n_terms, risks_of
from .recipe import Recipe, Task

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor, nn

State: TypeAlias = dict[str, Any]
"""Tensors, numbers, texts, lists and dicts: what torch reads without running anything."""

_NAME = "training.pt"
_PATIENCE = 20  # times what a state costs, until the next


class KeptTraining:
    """The last state of one training.

    Parameters
    ----------
    folder : path or None
        Of this training alone; made with the first state. None keeps nothing.
    identity : dict
        Of all that the result depends on, as JSON holds it; a state of something else is not used.
    every_s : float
        Seconds between two states at least; more, up to 20 times as many, where writing one takes over a twentieth of
        them.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any], *, every_s: float) -> None:
        self._path = None if folder is None else folder / _NAME
        self._identity = json.dumps(identity, sort_keys=True)
        self._every_s, self._rest_s, self._last_s = every_s, every_s, time.monotonic()

    def find(self) -> State | None:
        """The state to go on from; None if there is none, or it is of another training or not whole.

        Raises
        ------
        StoreError
            If there is one that may not be read.
        """
        if self._path is None:
            return None
        try:
            found = torch.load(self._path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"The state of a training in {self._path} cannot be read ({error.strerror or error}); make it readable "
                "or remove it."
            ) from error
        except (RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError):
            return None  # a damaged file costs a repetition, and nothing else
        known = isinstance(found, dict) and found.get("identity") == self._identity
        return found["state"] if known else None

    def keep(self, state: Callable[[], State]) -> None:
        """Keeps a state, if the last one is old enough.

        Raises
        ------
        StoreError
            If it cannot be written; the last one is then still there.
        """
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
        self._rest_s = max(self._every_s, _PATIENCE * min(cost_s, self._every_s))


def copied(value: Any) -> Any:
    """The same on the CPU, sharing no memory with what training goes on with."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copied(one) for one in value)
    return value


_ORDER, _NOISE = 7_004, 7_005  # streams of a seed: the order of the images, and what a network draws while training
_EVALUATED = 256  # images of a forward pass without gradient, at most ...
_PIXELS = 1 << 20  # ... and so many pixels, unless training takes more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """What all learning rates of a run have in common."""

    task: Task
    recipe: Recipe
    seed: int
    scale: Scale
    train: Inputs
    validation: Inputs
    device: torch.device
    px: int

    @property
    def batch_size(self) -> int:
        """Images a step; all of them, if a batch is more than there are."""
        return min(self.recipe.batch_size, len(self.train))

    @property
    def n_steps(self) -> int:
        """Of the whole training."""
        return self.recipe.n_steps(len(self.train))

    @property
    def n_tuning(self) -> int:
        """Steps that every learning rate goes."""
        return -(-self.n_steps // 4)

    @property
    def layout(self) -> torch.memory_format:
        """How images and weights lie: with the colours beside each other, which nearly halves the time of a U-Net."""
        return torch.channels_last if self.device.type in ("cpu", "cuda") else torch.contiguous_format

    def evaluations(self) -> frozenset[int]:
        """Numbers of the steps after which the validation part is looked at; the end of the tuning is one."""
        n = self.recipe.evaluations
        return frozenset({-(-self.n_steps * i // n) for i in range(1, n + 1)} | {self.n_tuning})

    def cuts(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """The images of some steps: every epoch in an order of its own, without what is left over for no batch."""
        an_epoch = len(self.train) // self.batch_size
        order, drawn = np.empty(0, np.int64), -1
        for step in range(start, stop):
            epoch, place = divmod(step, an_epoch)
            if epoch != drawn:
                drawn = epoch
                order = np.argsort(raw_draws((self.seed, _ORDER, epoch), len(self.train)), kind="stable")
            yield order[place * self.batch_size : (place + 1) * self.batch_size]

    def parts(self, n: int) -> list[tuple[int, int]]:
        """First image and end of each forward pass of a step with n images; of two images at least, for batch norm."""
        n_parts = max(1, min(self.recipe.accumulate, n // 2))
        edges = [n * i // n_parts for i in range(n_parts + 1)]
        return list(pairwise(edges))

    def autocast(self) -> torch.autocast:
        """Of forward passes."""
        dtype = PRECISIONS[self.recipe.precision]
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def looks(self, n: int) -> list[np.ndarray]:
        """The positions of n images, as many at a time as a forward pass without gradient may have."""
        training = -(-self.batch_size // self.recipe.accumulate)
        return cuts_of(n, min(_EVALUATED, max(_PIXELS // self.px**2, 2 * training)))

    def looked_at(self, network: nn.Module, inputs: Inputs, *, n: int | None = None) -> Iterator[tuple[Tensor, Batch]]:
        """Predictions for the first n images, float32 in the unit of training, with their batches; in eval mode."""
        network.eval()
        n_looked = len(inputs) if n is None else min(n, len(inputs))
        with closing(inputs.batches(self.looks(n_looked))) as batches:
            for batch in batches:
                own = batch.to(self.device, self.layout)
                # Not around the yield, where it would be the caller's. What networks keep for the next time (masks,
                # rotations of positions) is used in training too, which takes none of inference_mode.
                with torch.no_grad(), self.autocast():
                    prediction = network(own.images).float()
                yield prediction, own


def evaluated(setting: Setting, network: nn.Module, inputs: Inputs) -> tuple[dict[str, np.ndarray], float]:
    """Risks of every image by every metric, float32 (n,), in its unit; and the mean loss, in the unit of training."""
    found: dict[str, list[Tensor]] = {metric: [] for metric in setting.task.metrics}
    losses: list[Tensor] = []
    terms: list[Tensor] = []
    for prediction, batch in setting.looked_at(network, inputs):  # nothing is fetched, so that no GPU waits
        target = setting.scale.standardised(batch.target)
        losses.append(loss_of(setting.task, prediction, target, batch.valid))
        terms.append(torch.as_tensor(n_terms(setting.task, target, batch.valid), device=prediction.device))
        for metric, risk in risks_of(setting.task, prediction, batch.target, batch.valid, scale=setting.scale).items():
            found[metric].append(risk)
    risks = {metric: torch.cat(ones).cpu().numpy() for metric, ones in found.items()}
    n = torch.stack(terms).cpu().double()
    return risks, float((torch.stack(losses).cpu().double() * n).sum() / n.sum())


class Fitting:
    """A network, its optimizer, and what validation has said so far.

    Attributes
    ----------
    step : int
        Steps done.
    history : list of [step, risk, loss]
        Of the validation part: mean risk of the first metric, and loss.
    best : list of [step, risk, loss], or None
        Of the best weights.
    """

    def __init__(self, setting: Setting, network: nn.Module, learning_rate: float) -> None:
        self.setting, self.network, self.learning_rate = setting, network, learning_rate
        self.step = 0
        self.history: list[list[float]] = []
        self.best: list[float] | None = None
        self._best_weights: State = {}
        self._parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        device = setting.device.type
        self._optimizer = torch.optim.AdamW(
            _groups(network, learning_rate, 1.0 if setting.task.is_dense else setting.recipe.head_rate),
            lr=learning_rate,
            weight_decay=setting.recipe.weight_decay,
            fused=device in ("cpu", "cuda"),
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, partial(rate_factor, n_steps=setting.n_steps)
        )
        self._scaler = torch.amp.GradScaler(device, enabled=setting.recipe.precision == "float16")

    @property
    def diverged(self) -> bool:
        """Whether the last evaluation gave a loss or risk that is not finite."""
        return bool(self.history) and not all(map(math.isfinite, self.history[-1]))

    @property
    def is_over(self) -> bool:
        """At the last step, after divergence, or, from the end of the tuning on, out of patience."""
        if self.step >= self.setting.n_steps or self.diverged:
            return True
        since = sum(step > self.best[0] for step, _, _ in self.history) if self.best else 0
        return self.step >= self.setting.n_tuning and since >= self.setting.recipe.patience

    def advance(self, until: int, after: Callable[[float | None], None]) -> None:
        """Goes on to a step, or until it is over.

        Parameters
        ----------
        until : int
            Number of steps.
        after : callable
            Told the validation risk after each step; None where there is none.
        """
        if self.is_over or self.step >= until:
            return
        setting, looks = self.setting, self.setting.evaluations()
        self.network.train()
        with closing(setting.train.batches(setting.cuts(self.step, until))) as batches:
            for batch in batches:
                self._one_step(batch.to(setting.device, setting.layout))
                self.step += 1
                risk = self._look() if self.step in looks else None
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
        """Goes on from a state, which is then no one else's."""
        self.step, self.history, self.best = state["step"], state["history"], state["best"]
        self._best_weights = state["best_weights"]
        self.network.load_state_dict(state["weights"], strict=False)
        self._optimizer.load_state_dict(state["optimizer"])
        self._schedule.load_state_dict(state["schedule"])
        self._scaler.load_state_dict(state["scaler"])

    def _one_step(self, batch: Batch) -> None:
        setting = self.setting
        self._seed()
        target = setting.scale.standardised(batch.target)
        own = Batch(batch.images, target, batch.valid)
        n_all = n_terms(setting.task, target, batch.valid)
        self._optimizer.zero_grad()
        for start, stop in setting.parts(len(batch)):
            part = own.part(start, stop)
            with setting.autocast():
                prediction = self.network(part.images)
            loss = loss_of(setting.task, prediction.float(), part.target, part.valid)
            share = n_terms(setting.task, part.target, part.valid) / n_all
            self._scaler.scale(loss * share).backward()  # type: ignore[no-untyped-call]
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._parameters, setting.recipe.clip_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._schedule.step()

    def _seed(self) -> None:
        """Of units and paths that the network drops; a step has its own, so that no state of it need be kept."""
        noise = int(raw_draws((self.setting.seed, _NOISE, self.step), 1)[0] >> np.uint64(1))
        torch.default_generator.manual_seed(noise)  # torch.manual_seed would note every call for all accelerators
        if self.setting.device.type == "cuda":
            with torch.cuda.device(self.setting.device):
                torch.cuda.manual_seed(noise)

    def _look(self) -> float:
        risks, loss = evaluated(self.setting, self.network, self.setting.validation)
        risk = float(np.mean(risks[self.setting.task.metrics[0]], dtype=np.float64))
        self.history.append([self.step, risk, loss])
        if not self.diverged and (self.best is None or (risk, loss) < tuple(self.best[1:])):
            self.best = [self.step, risk, loss]
            self._best_weights = copied(trained_weights(self.network))
        return risk


def trained_weights(network: nn.Module) -> dict[str, Any]:
    """Of the state dict what training changes; shares memory with the network."""
    fixed = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    return {name: value for name, value in network.state_dict().items() if name not in fixed}


def _groups(network: nn.Module, learning_rate: float, head_rate: float) -> list[dict[str, Any]]:
    """Parameters for the optimizer: the encoder's, and those that start at random whatever the encoder."""
    own = dict(network.named_parameters())
    encoder = [parameter for name, parameter in own.items() if name.startswith("encoder.") and parameter.requires_grad]
    decoder = [parameter for name, parameter in own.items() if not name.startswith("encoder.")]
    groups = [{"params": decoder, "lr": head_rate * learning_rate}]
    return [{"params": encoder, "lr": learning_rate}, *groups] if encoder else groups


def rate_factor(step: int, *, n_steps: int) -> float:
    """What the learning rate of a step is multiplied by: a rise over the first tenth, then half a cosine.

    >>> [round(rate_factor(step, n_steps=20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    rising = math.ceil(n_steps / 10)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / max(1, n_steps - rising))) / 2
