"""One run: choosing the learning rate, training a network to its best weights, and testing it; or a constant baseline.

The optimizer is AdamW; the learning rate rises over the first tenth of the steps and falls by half a cosine. All
learning rates go the first quarter of the steps, and the one with the lowest validation risk continues from where it
is, so that a run is the same as if its learning rate had been known from the start.

A run is determined by its seed, on a processor to the last bit with one number of threads, on a GPU as far as its
convolutions are: order of the images and noise of a step depend on the seed and the number of the step alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from ...cards.schema import Preprocess
from ...datasets.dense import MapSet
from ...datasets.subsets import draw_raw
from ...encoders.processor import keep_memory
from ...errors import DataError, QueryError, format_count
from ...features.computing import PRECISIONS, choose_device
from ...features.decoding import is_death, make_worker_death_error
from ...optional import require_extra
from ...regression_check import use_full_precision
from .calibration import majority_class, pixelwise_direction, pixelwise_median
from .data import (
    HeldInputs,
    Inputs,
    TransferBatch,
    TransferData,
    get_class_labels,
    load_inputs,
    read_targets,
    split_positions,
)
from .models import (
    TargetScale,
    TransferModel,
    build_transfer_model,
    compute_loss,
    compute_risks,
    compute_target_scale,
    count_loss_terms,
)
from .recipe import Recipe, TransferTask

with require_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor, nn

if TYPE_CHECKING:
    from ...encoders import Encoder

State: TypeAlias = dict[str, Any]

N_EXAMPLES = 8  # first test images, whose predictions are stored to look at
_MOST_SCALED = 1 << 24  # numbers of maps that give their scale, of evenly spaced images
_LARGEST_HALF = float(np.finfo(np.float16).max)
_ORDER_STREAM, _NOISE_STREAM = 7_004, 7_005  # of a seed: order of the images, and what a network draws in training
_MOST_IMAGES = 256  # of a forward pass without gradient, ...
_MOST_PIXELS = 1 << 20  # ... and so many pixels, unless training takes more


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a run is computed; moves no number beyond rounding."""

    device: str | None = None  # None: a GPU where there is one
    n_workers: int = 0  # processes that decode and preprocess; with none, a thread does
    memory_bytes: int = 2 << 30  # for images and maps that are preprocessed once, in each process


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransferSetup:
    """What an encoder is trained and tested on, and how: all that decides the result of a run but the encoder."""

    data: TransferData
    train: np.ndarray  # int64, at least two images of ``data.train`` to train on, ...
    validation: np.ndarray  # ... and at least one to choose learning rate and weights by
    preprocess: Preprocess
    recipe: Recipe
    seed: int  # of the decoder's first weights and the order of the images


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """How far a run is."""

    step: int  # steps done, those at learning rates that were given up included
    n_steps: int  # at most
    validation_risk: float | None  # after this step, in the unit of the first metric; None without an evaluation


OnStep: TypeAlias = Callable[[TrainingStep], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransferResult:
    """Result of a run.

    ``risks`` has for each metric a float32 array (n_test,), in the unit of the metric; lower is better. ``examples``,
    of dense tasks, are predictions for the first test images, float16 (n_examples, c, px, px), in the unit of the data.
    ``report`` is what JSON holds: the learning rate that was chosen, what all of them reached, the history of the
    validation part, and the numbers of steps and images.
    """

    risks: dict[str, np.ndarray]
    examples: np.ndarray | None
    report: dict[str, Any]


def copy_to_cpu(value: Any) -> Any:
    """A copy on the CPU that shares no memory with the training."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: copy_to_cpu(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(copy_to_cpu(each) for each in value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitContext:
    """What all learning rates of a run have in common."""

    task: TransferTask
    recipe: Recipe
    seed: int
    scale: TargetScale
    train: Inputs
    validation: Inputs
    device: torch.device
    px: int

    @property
    def batch_size(self) -> int:
        """Images per step; all of them, if there are fewer than a batch."""
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
                order = np.argsort(draw_raw((self.seed, _ORDER_STREAM, epoch), len(self.train)), kind="stable")
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
        return split_positions(n, min(_MOST_IMAGES, max(_MOST_PIXELS // self.px**2, 2 * training)))

    def predictions(
        self, network: nn.Module, inputs: Inputs, *, n: int | None = None
    ) -> Iterator[tuple[Tensor, TransferBatch]]:
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


def evaluate_network(context: FitContext, network: nn.Module, inputs: Inputs) -> tuple[dict[str, np.ndarray], float]:
    """Risks of every image by every metric, float32 (n,), in its unit; and the mean loss, in the unit of training."""
    by_metric: dict[str, list[Tensor]] = {metric: [] for metric in context.task.metrics}
    losses: list[Tensor] = []
    terms: list[Tensor] = []
    for prediction, batch in context.predictions(network, inputs):  # nothing goes to the CPU here: no GPU waits
        target = context.scale.standardised(batch.target)
        losses.append(compute_loss(context.task, prediction, target, batch.valid))
        terms.append(torch.as_tensor(count_loss_terms(context.task, target, batch.valid), device=prediction.device))
        for metric, risk in compute_risks(
            context.task, prediction, batch.target, batch.valid, scale=context.scale
        ).items():
            by_metric[metric].append(risk)
    risks = {metric: torch.cat(parts).cpu().numpy() for metric, parts in by_metric.items()}
    n = torch.stack(terms).cpu().double()
    return risks, float((torch.stack(losses).cpu().double() * n).sum() / n.sum())


class TrainingState:
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
            self._optimizer, partial(compute_rate_factor, n_steps=context.n_steps)
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
            "step": self.step,
            "history": self.history,
            "best": self.best,
            "best_weights": self._best_weights,
            "weights": select_trained_weights(self.network),
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

    def _one_step(self, batch: TransferBatch) -> None:
        context = self.context
        self._seed()
        target = context.scale.standardised(batch.target)
        standardised = TransferBatch(batch.images, target, batch.valid)
        n_all = count_loss_terms(context.task, target, batch.valid)
        self._optimizer.zero_grad()
        for start, stop in context.parts(len(batch)):
            part = standardised.part(start, stop)
            with context.autocast():
                prediction = self.network(part.images)
            loss = compute_loss(context.task, prediction.float(), part.target, part.valid)
            share = count_loss_terms(context.task, part.target, part.valid) / n_all
            self._scaler.scale(loss * share).backward()  # type: ignore[no-untyped-call]
        self._scaler.unscale_(self._optimizer)
        torch.nn.utils.clip_grad_norm_(self._parameters, context.recipe.clip_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._schedule.step()

    def _seed(self) -> None:
        """Seeds dropout and dropped paths by the number of the step."""
        noise = int(draw_raw((self.context.seed, _NOISE_STREAM, self.step), 1)[0] >> np.uint64(1))
        torch.default_generator.manual_seed(noise)  # torch.manual_seed would note every call for all accelerators
        if self.context.device.type == "cuda":
            with torch.cuda.device(self.context.device):
                torch.cuda.manual_seed(noise)

    def _evaluate(self) -> float:
        risks, loss = evaluate_network(self.context, self.network, self.context.validation)
        risk = float(np.mean(risks[self.context.task.metrics[0]], dtype=np.float64))
        self.history.append([self.step, risk, loss])
        if not self.diverged and (self.best is None or (risk, loss) < tuple(self.best[1:])):
            self.best = [self.step, risk, loss]
            self._best_weights = copy_to_cpu(select_trained_weights(self.network))
        return risk


def select_trained_weights(network: nn.Module) -> dict[str, Any]:
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


def compute_rate_factor(step: int, *, n_steps: int) -> float:
    """Factor of the learning rate at a step: a rise over the first tenth of the steps, then half a cosine.

    >>> [round(compute_rate_factor(step, n_steps=20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    rising = math.ceil(n_steps / 10)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * (step - rising) / max(1, n_steps - rising))) / 2


# --- a run -----------------------------------------------------------------------------------------------------------


def train_run(
    encoder: Encoder, transfer: TransferSetup, how: Training, on_step: OnStep | None = None
) -> TransferResult:
    """Trains a copy of an encoder with a decoder, and tests it."""
    began_s = time.monotonic()
    data, preprocess, recipe = transfer.data, transfer.preprocess, transfer.recipe
    train, validation = transfer.train, transfer.validation
    if len(train) < 2 or not len(validation):
        raise DataError(
            f"{data.name!r} has {format_count(len(train), 'image')} to train on and {len(validation)} to validate "
            "on; expected at least 2 and 1, so ask for more labels."
        )
    device = choose_device(encoder, how.device)
    model = build_transfer_model(
        deepcopy(encoder).float(),  # weights that are stored in half precision are too coarse for small steps
        data.task,
        n_outputs=data.n_outputs,
        px=preprocess.crop_px,
        frozen=recipe.frozen,
        seed=transfer.seed,
    )
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)
    if recipe.batch_size == 1 and any(isinstance(each, norms) and each.training for each in model.modules()):
        raise QueryError(
            "The recipe has batch_size=1, the encoder batch normalisation; expected two or more images per step."
        )
    with _computing(device, recipe):
        wanted = [(data.train, train), (data.train, validation), (data.test, np.arange(len(data.test)))]
        of_train, of_validation, of_test = load_inputs(
            wanted, preprocess, memory_bytes=how.memory_bytes, n_workers=how.n_workers, device=device
        )
        context = FitContext(
            task=data.task,
            recipe=recipe,
            seed=transfer.seed,
            scale=_scale(transfer),
            train=of_train,
            validation=of_validation,
            device=device,
            px=preprocess.crop_px,
        )
        model.to(device).to(memory_format=context.layout)
        network: nn.Module = model
        n_bytes = 4 * encoder.dim * (len(train) + len(validation))
        if recipe.frozen and not data.task.is_dense and n_bytes <= how.memory_bytes:
            network = model.head
            context = replace(
                context,
                train=_features(context, model, of_train),
                validation=_features(context, model, of_validation),
            )
        fitting, trials = _fitted(context, network, on_step)
        if fitting is None:
            tried = ", ".join(f"{rate:g}" for rate in recipe.learning_rates)
            raise DataError(
                f"Training on {format_count(len(train), 'image')} of {data.name!r} in {recipe.precision} gives losses "
                f"that are not finite, at every learning rate of the recipe ({tried}); expected finite ones, so check "
                "weights and targets, or give it smaller learning rates."
            )
        fitting.load_best()
        risks, _ = evaluate_network(context, model, of_test)
        examples = None
        if data.task.is_dense:
            predictions = context.predictions(model, of_test, n=N_EXAMPLES)
            maps = [context.scale.in_units(prediction) for prediction, _ in predictions]
            examples = _as_examples(torch.cat(maps).cpu().numpy())
    history = fitting.history[:-1] if fitting.diverged else fitting.history
    report = {
        "learning_rate": fitting.learning_rate,
        "learning_rates": trials,
        "n_train": len(train),
        "n_validation": len(validation),
        "n_steps": context.n_steps,
        "n_steps_done": fitting.step,
        "best_step": int(fitting.best[0]) if fitting.best else 0,
        "diverged_at_step": fitting.step if fitting.diverged else None,
        "validation": [{"step": int(step), "risk": risk, "loss": loss} for step, risk, loss in history],
        "scale": asdict(context.scale),
        "precision": recipe.precision,
        "device": device.type,
        "seconds": time.monotonic() - began_s,
    }
    return TransferResult(risks=risks, examples=examples, report=report)


def _fitted(
    context: FitContext, network: nn.Module, on_step: OnStep | None
) -> tuple[TrainingState | None, list[dict[str, Any]]]:
    """Trains at all learning rates, and to the end at the best; None if no learning rate gives finite losses.

    The network has the weights to begin with, on the device, and those of the last step afterwards.
    """
    rates, n_tuning = context.recipe.learning_rates, context.n_tuning
    first = copy_to_cpu(select_trained_weights(network)) if len(rates) > 1 else {}
    trials: list[dict[str, Any]] = []
    leader: State | None = None

    def advance(fitting: TrainingState, until: int, *, before: int) -> None:
        """Trains to a step; ``before`` steps were done at learning rates that are no longer trained."""

        def after(risk: float | None) -> None:
            if on_step is not None:
                on_step(TrainingStep(before + fitting.step, (len(rates) - 1) * n_tuning + context.n_steps, risk))

        fitting.advance(until, after)

    for number, rate in enumerate(rates):
        network.load_state_dict(first, strict=False)
        fitting = TrainingState(context, network, rate)
        advance(fitting, n_tuning, before=number * n_tuning)
        step, risk, loss = fitting.history[-1]
        is_finite = not fitting.diverged
        trials.append(
            {
                "learning_rate": fitting.learning_rate,
                "validation_risk": risk if is_finite else None,
                "validation_loss": loss if is_finite else None,
                "diverged_at_step": None if is_finite else int(step),
            }
        )
        if _best(trials) == number and number + 1 < len(rates):
            leader = copy_to_cpu(fitting.state())
    best = _best(trials)
    if best is None:
        return None, trials
    if best + 1 < len(rates) and leader is not None:
        fitting = TrainingState(context, network, rates[best])
        fitting.load(leader)
    leader = None
    advance(fitting, context.n_steps, before=(len(rates) - 1) * n_tuning)
    return fitting, trials


def _best(trials: Sequence[dict[str, Any]]) -> int | None:
    """The number of the best; of equals the first."""
    ranks = [
        (trial["validation_risk"], trial["validation_loss"], number)
        for number, trial in enumerate(trials)
        if trial["diverged_at_step"] is None
    ]
    return min(ranks)[2] if ranks else None


@contextmanager
def _computing(device: torch.device, recipe: Recipe) -> Iterator[None]:
    """Full precision, and the user's random state as it was; errors of torch become sentences that say what to do."""
    gpu = [device] if device.type == "cuda" else []
    if device.type == "cpu":
        keep_memory()
    on_gpu: AbstractContextManager[Any] = torch.cuda.device(device) if gpu else nullcontext()  # else the first too
    try:
        with on_gpu, torch.random.fork_rng(devices=gpu), use_full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise QueryError(
            f"A step of {recipe.batch_size} images in {recipe.accumulate} forward passes does not fit into the memory "
            f"of {str(device)!r}; expected a recipe with more of them (accumulate), or smaller batches."
        ) from error
    except RuntimeError as error:
        if not is_death(error):
            raise
        raise make_worker_death_error(str(error)) from error


def _scale(transfer: TransferSetup) -> TargetScale:
    """The scale of maps, from the training part; classes have none."""
    data, px = transfer.data, transfer.preprocess.crop_px
    if not data.task.is_dense:
        return TargetScale()
    n_images = min(len(transfer.train), max(1, _MOST_SCALED // (data.n_outputs * px**2)))
    chosen = np.unique(np.linspace(0, len(transfer.train) - 1, n_images).astype(np.int64))
    values = []
    with closing(read_targets(data.train, transfer.train[chosen], transfer.preprocess)) as batches:
        for batch in batches:
            numbers = batch.target.movedim(1, -1)  # (n, px, px, c)
            values.append((numbers.flatten(0, 2) if batch.valid is None else numbers[batch.valid]).numpy())
    return compute_target_scale(
        np.concatenate(values), what=f"the {data.task.name} maps of {n_images:,} images of {data.name!r}"
    )


def _features(context: FitContext, model: TransferModel, inputs: Inputs) -> HeldInputs:
    """Features of a frozen encoder, computed once for all steps."""
    items: list[TransferBatch] = []
    model.eval()
    with closing(inputs.batches(context.evaluation_cuts(len(inputs)))) as batches:
        for batch in batches:
            batch = batch.to(context.device, context.layout)
            with torch.no_grad(), context.autocast():
                seen = TransferBatch(model.encoder_features(batch.images).float(), batch.target, None)
            items += [seen.part(row, row + 1) for row in range(len(batch))]
    return HeldInputs(items)


def _as_examples(predictions: np.ndarray) -> np.ndarray:
    """Predictions as they are stored to look at, float16."""
    examples: np.ndarray = np.clip(predictions, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
    return examples


# --- a constant baseline
# ---------------------------------------------------------------------------------------------------

_CONSTANTS = {  # the constant baseline with the lowest risk by a metric of maps, and its name
    "depth_l1_error": (pixelwise_median, "the pixel-wise median"),
    "normals_l1_error": (pixelwise_median, "the pixel-wise median of each component"),
    "normals_angular_error": (pixelwise_direction, "the pixel-wise direction with the least mean angle"),
}


def run_constant_baseline(
    data: TransferData, preprocess: Preprocess, *, memory_bytes: int, n_workers: int = 0
) -> TransferResult:
    """The constant with the lowest risk on the training images, tested; each metric has its own.

    Maps are cropped as the images of the encoders are that it is compared with. If they take more than
    ``memory_bytes``, evenly spaced ones that fit stand for all. ``examples`` repeat the constant of the first metric.

    >>> from zoo.cards.catalogue import load_catalogue
    >>> from zoo.evaluation.curves.data import transfer_data
    >>> data = transfer_data("shapes:classes=4,train=40,val=20", "classification")
    >>> blind = run_constant_baseline(data, load_catalogue()["pocket_sup_rn_shapes"].preprocess, memory_bytes=1 << 20)
    >>> float(blind.risks["transfer_error"].mean())
    75.0
    """
    began_s = time.monotonic()
    n_train, examples = len(data.train), None
    if isinstance(data.train, MapSet) and isinstance(data.test, MapSet):
        px, n_channels = preprocess.crop_px, int(data.task.n_channels or 1)
        n_images = min(max(1, memory_bytes // (px**2 * (4 * n_channels + 1))), n_train)
        chosen = np.linspace(0, n_train - 1, n_images).astype(np.int64)
        maps = np.empty((n_images, n_channels, px, px), np.float32)
        valid = np.empty((n_images, px, px), bool)
        done = 0
        with closing(read_targets(data.train, chosen, preprocess, n_workers=n_workers)) as batches:
            for batch in batches:
                maps[done : done + len(batch)] = batch.target.numpy()
                valid[done : done + len(batch)] = True if batch.valid is None else batch.valid.numpy()
                done += len(batch)
        constants = {metric: _CONSTANTS[metric][0](maps, valid).astype(np.float32) for metric in data.task.metrics}
        parts: dict[str, list[Tensor]] = {metric: [] for metric in constants}
        with closing(read_targets(data.test, np.arange(len(data.test)), preprocess, n_workers=n_workers)) as batches:
            for batch in batches:
                for metric, constant in constants.items():
                    prediction = torch.from_numpy(constant).expand(len(batch), *constant.shape)
                    of_batch = compute_risks(data.task, prediction, batch.target, batch.valid, scale=TargetScale())
                    parts[metric].append(of_batch[metric])
        risks = {metric: torch.cat(each).numpy() for metric, each in parts.items()}
        first = constants[data.task.metrics[0]]
        examples = _as_examples(np.repeat(first[None], min(N_EXAMPLES, len(data.test)), axis=0))
        some = f"{n_images:,} evenly spaced of the {n_train:,}" if n_images < n_train else f"the {n_train:,}"
        words = {metric: f"{_CONSTANTS[metric][1]} of {some} training images" for metric in constants}
    else:
        labels, tested = get_class_labels(data.train), get_class_labels(data.test)
        guess = majority_class(labels, data.n_outputs)  # type: ignore[arg-type]  # images with classes
        share, metric, n_images = 100 * float(np.mean(labels == guess)), data.task.metrics[0], n_train
        risks = {metric: np.where(tested == guess, 0, 100).astype(np.float32)}
        name = data.train.classes[guess]
        words = {metric: f"the most frequent class, {name!r}, of {share:.3g} % of the training images"}
    seconds = time.monotonic() - began_s
    report = {"constants": words, "n_images": n_images, "n_train": n_train, "seconds": seconds}
    return TransferResult(risks=risks, examples=examples, report=report)
