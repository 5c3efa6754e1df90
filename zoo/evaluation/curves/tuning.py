"""One run: choosing the learning rate, training a network to its best weights, and testing it; or a blind guess.

All learning rates go the first quarter of the steps, on the schedule of the whole training, and the one with the lowest
validation risk continues from where it is. So no step of it is wasted, and a run is the same as if its learning rate
had been known from the start.

A run is determined by its seed: on a processor to the last bit with one number of threads, however often it was killed
and started again; on a GPU as far as its convolutions are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...cards.schema import Preprocess
from ...datasets.dense import MapSet
from ...datasets.images import digest
from ...drift import full_precision
from ...errors import DataError, QueryError
from ...features.computing import device_for
from ...features.store import weights_hash
from ...optional import requires_extra
from ...version import __version__
from .blind import majority_class, pixelwise_direction, pixelwise_median
from .inputs import HeldInputs, Inputs, TransferData, cuts_of, inputs_of, read_targets
from .losses import TargetScale, risks_of, scale_of
from .models import TransferModel, transfer_model
from .recipe import Recipe, recipe_digest
from .training import FitContext, Fitting, State, StoredTraining, copied, evaluated, trained_weights

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor, nn

if TYPE_CHECKING:
    from ...encoders import Encoder


N_EXAMPLES = 8  # first test images, whose predictions are stored to look at
_MOST_SCALED = 1 << 24  # numbers of maps that give their scale, of evenly spaced images
_READ_BATCH = 64  # images, while maps are read
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)
_LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a run is computed; moves no number beyond rounding."""

    device: str | None = None  # None: a GPU where there is one
    n_workers: int = 0  # processes that decode and preprocess; with none, a thread does
    memory_bytes: int = 2 << 30  # for images and maps that are preprocessed once, in each process
    state_seconds: float = 60.0  # between two states of a training, at least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfer:
    """What an encoder is trained and tested on, and how: all that decides the result of a run but the encoder."""

    data: TransferData
    train: np.ndarray  # int64, at least two images of ``data.train`` to train on, ...
    validation: np.ndarray  # ... and at least one to choose learning rate and weights by
    preprocess: Preprocess
    recipe: Recipe
    seed: int  # of the decoder's first weights and the order of the images


@dataclass(frozen=True, slots=True)
class Step:
    """How far a run is."""

    step: int  # steps done, those at learning rates that were given up included
    n_steps: int  # at most
    validation_risk: float | None  # after this step, in the unit of the first metric; None without an evaluation


OnStep: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """Result of a run.

    ``risks`` has for each metric a float32 array (n_test,), in the unit of the metric; lower is better. ``examples``,
    of dense tasks, are predictions for the first test images, float16 (n_examples, c, px, px), in the unit of the data.
    ``report`` is what JSON holds: the learning rate that was chosen, what all of them reached, the history of the
    validation part, and the numbers of steps and images.
    """

    risks: dict[str, np.ndarray]
    examples: np.ndarray | None
    report: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """A training that is over."""

    fitting: Fitting  # at the learning rate that was chosen
    trials: list[dict[str, Any]]  # what each learning rate had reached at the end of the tuning, in their order
    earlier_s: float  # seconds of the processes that worked on it before


def _fitted(
    context: FitContext, network: nn.Module, stored: StoredTraining, on_step: OnStep | None, *, began_s: float
) -> Chosen | None:
    """Trains at all learning rates, and to the end at the best; None if none gives finite losses.

    The network has the weights to begin with, on the device, and those of the last step afterwards; ``began_s`` is when
    this process began with it, by the monotonic clock.
    """
    rates, n_tuning = context.recipe.learning_rates, context.n_tuning
    first = copied(trained_weights(network)) if len(rates) > 1 else {}
    resumed = stored.load()
    trials: list[dict[str, Any]] = [] if resumed is None else resumed["trials"]
    leader: State | None = None if resumed is None else resumed["leader"]
    earlier_s = 0.0 if resumed is None else resumed["seconds"]

    def advance(fitting: Fitting, until: int, *, before: int) -> None:
        """Trains to a step; ``before`` steps were done at learning rates that are no longer trained."""

        def state() -> State:
            seconds = earlier_s + time.monotonic() - began_s
            return {"trials": trials, "leader": leader, "fitting": fitting.state(), "seconds": seconds}

        def after(risk: float | None) -> None:
            stored.save(state)
            if on_step is not None:
                on_step(Step(before + fitting.step, (len(rates) - 1) * n_tuning + context.n_steps, risk))

        fitting.advance(until, after)

    fitting: Fitting | None = None
    for number in range(len(trials), len(rates)):
        network.load_state_dict(first, strict=False)
        fitting = Fitting(context, network, rates[number])
        if resumed is not None:
            fitting.load(resumed["fitting"])
            resumed = None
        advance(fitting, n_tuning, before=number * n_tuning)
        trials.append(_trial(fitting))
        if _best(trials) == number and number + 1 < len(rates):
            leader = copied(fitting.state())
    best = _best(trials)
    if best is None:
        return None
    if fitting is None or best + 1 < len(rates):
        fitting = Fitting(context, network, rates[best])
        if leader is not None:
            fitting.load(leader)
    if resumed is not None:  # of the training after the choice
        fitting.load(resumed["fitting"])
    leader = None
    advance(fitting, context.n_steps, before=(len(rates) - 1) * n_tuning)
    return Chosen(fitting=fitting, trials=trials, earlier_s=earlier_s)


def _none_is_finite(context: FitContext, *, data: str) -> DataError:
    tried = ", ".join(f"{rate:g}" for rate in context.recipe.learning_rates)
    return DataError(
        f"Training on {len(context.train):,} images of {data!r} in {context.recipe.precision} gives losses that are "
        f"not finite, at every learning rate of the recipe ({tried}); expected finite ones, so check weights and "
        "targets, or give it smaller learning rates."
    )


def _trial(fitting: Fitting) -> dict[str, Any]:
    step, risk, loss = fitting.history[-1]
    finite = not fitting.diverged
    return {
        "learning_rate": fitting.learning_rate,
        "validation_risk": risk if finite else None,
        "validation_loss": loss if finite else None,
        "diverged_at_step": None if finite else int(step),
    }


def _best(trials: list[dict[str, Any]]) -> int | None:
    """The number of the best; of equals the first."""
    ranks = [
        (trial["validation_risk"], trial["validation_loss"], number)
        for number, trial in enumerate(trials)
        if trial["diverged_at_step"] is None
    ]
    return min(ranks)[2] if ranks else None


def train_run(
    encoder: Encoder, transfer: Transfer, how: Training, state: Path | None = None, on_step: OnStep | None = None
) -> Trained:
    """Trains a copy of an encoder with a decoder, and tests it.

    ``state`` is a folder for how far this run is, from time to time; started again with it, it continues from there.
    It is for the caller to remove.
    """
    began_s = time.monotonic()
    data, preprocess, recipe = transfer.data, transfer.preprocess, transfer.recipe
    train, validation = np.asarray(transfer.train, np.int64), np.asarray(transfer.validation, np.int64)
    if len(train) < 2 or not len(validation):
        raise DataError(
            f"There are {len(train)} images of {data.name!r} to train on and {len(validation)} to validate on; "
            "expected at least 2 and 1, so ask for more labels."
        )
    device = device_for(encoder, how.device)
    identity = {} if state is None else _identity(encoder, transfer, device)
    stored = StoredTraining(state, identity, every_s=how.state_seconds)
    model = transfer_model(
        deepcopy(encoder).float(),  # weights that are stored in half precision are too coarse for small steps
        data.task,
        n_outputs=data.n_outputs,
        px=preprocess.crop_px,
        frozen=recipe.frozen,
        seed=transfer.seed,
    )
    if recipe.batch_size == 1 and any(isinstance(each, _BATCH_NORMS) and each.training for each in model.modules()):
        raise QueryError(
            "The recipe has batch_size=1, and the encoder has batch normalisation; expected at least two images a step."
        )
    with _computing(device, recipe):
        parts = (data.train, train), (data.train, validation), (data.test, np.arange(len(data.test)))
        inputs = [
            inputs_of(part, images, preprocess, memory_bytes=how.memory_bytes, n_workers=how.n_workers, device=device)
            for part, images in parts
        ]
        context = FitContext(
            task=data.task,
            recipe=recipe,
            seed=transfer.seed,
            scale=_scale(data, inputs[0], preprocess.crop_px),
            train=inputs[0],
            validation=inputs[1],
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
                train=_features(context, model, context.train, encoder.dim),
                validation=_features(context, model, context.validation, encoder.dim),
            )
        chosen = _fitted(context, network, stored, on_step, began_s=began_s)
        if chosen is None:
            raise _none_is_finite(context, data=data.name)
        chosen.fitting.load_best()
        risks, _ = evaluated(context, model, inputs[2])
        examples = _examples(context, model, inputs[2]) if data.task.is_dense else None
    about = {"device": device.type, "seconds": chosen.earlier_s + time.monotonic() - began_s}
    return Trained(risks=risks, examples=examples, report=_report(chosen, context) | about)


def _as_examples(predictions: np.ndarray) -> np.ndarray:
    """Predictions as they are stored to look at, float16."""
    examples: np.ndarray = np.clip(predictions, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
    return examples


@contextmanager
def _computing(device: torch.device, recipe: Recipe) -> Iterator[None]:
    """Full precision, and the user's random state as it was; errors of torch become sentences that say what to do."""
    gpu = [device] if device.type == "cuda" else []
    on_gpu: AbstractContextManager[Any] = torch.cuda.device(device) if gpu else nullcontext()  # else the first too
    try:
        with on_gpu, torch.random.fork_rng(devices=gpu), full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise QueryError(
            f"A step of {recipe.batch_size} images in {recipe.accumulate} forward passes does not fit into the memory "
            f"of {str(device)!r}; expected a recipe with more of them (accumulate), or smaller batches."
        ) from error
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):  # for which torch has no class
            raise
        raise DataError(
            f"A process that decodes images died ({str(error).partition(chr(10))[0].rstrip('. ')}); run the same again "
            "with fewer workers (n_workers)."
        ) from error


def _scale(data: TransferData, train: Inputs, px: int) -> TargetScale:
    """The scale of maps, from the training part; classes have none."""
    if not data.task.is_dense:
        return TargetScale()
    n_images = min(len(train), max(1, _MOST_SCALED // (data.n_outputs * px**2)))
    positions = np.unique(np.linspace(0, len(train) - 1, n_images).astype(np.int64))
    values = []
    for cut in cuts_of(n_images, _READ_BATCH):
        target, valid = train.targets(positions[cut])
        numbers = target.movedim(1, -1)  # (n, px, px, c)
        values.append((numbers.flatten(0, 2) if valid is None else numbers[valid]).numpy())
    return scale_of(np.concatenate(values), what=f"the {data.task.name} maps of {n_images:,} images of {data.name!r}")


def _features(context: FitContext, model: TransferModel, inputs: Inputs, dim: int) -> HeldInputs:
    """Features of a frozen encoder, computed once for all steps."""
    features, positions = torch.empty((len(inputs), dim), device=context.device), np.arange(len(inputs))
    done = 0
    model.eval()
    with closing(inputs.batches(context.evaluation_cuts(len(inputs)))) as batches:
        for batch in batches:
            images = batch.to(context.device, context.layout).images
            with torch.no_grad(), context.autocast():
                features[done : done + len(batch)] = model.encoder_features(images).float()
            done += len(batch)
    target, _ = inputs.targets(positions)
    return HeldInputs(features, target.to(context.device), None, positions)


def _examples(context: FitContext, model: TransferModel, test: Inputs) -> np.ndarray:
    maps = [context.scale.in_units(prediction) for prediction, _ in context.predictions(model, test, n=N_EXAMPLES)]
    return _as_examples(torch.cat(maps).cpu().numpy())


def _identity(encoder: Encoder, transfer: Transfer, device: torch.device) -> dict[str, Any]:
    """All that a training depends on."""
    data, images = transfer.data, [np.asarray(part).astype("<i8") for part in (transfer.train, transfer.validation)]
    return {
        "format": "zoo-curve-training-1",
        "versions": [__version__, torch.__version__, np.__version__],
        "encoder": [str(encoder), weights_hash(encoder)],
        "data": [data.name, data.train.fingerprint, data.test.fingerprint, data.n_outputs],
        "images": digest(images),
        "preprocess": asdict(transfer.preprocess),
        "recipe": [recipe_digest(data.task), asdict(transfer.recipe)],
        "seed": transfer.seed,
        "device": device.type,
    }


def _report(chosen: Chosen, context: FitContext) -> dict[str, Any]:
    fitting = chosen.fitting
    history = fitting.history[:-1] if fitting.diverged else fitting.history
    best = fitting.best or [0.0, 0.0, 0.0]
    return {
        "learning_rate": fitting.learning_rate,
        "learning_rates": chosen.trials,
        "n_train": len(context.train),
        "n_validation": len(context.validation),
        "n_steps": context.n_steps,
        "n_steps_done": fitting.step,
        "best_step": int(best[0]),
        "diverged_at_step": fitting.step if fitting.diverged else None,
        "validation": [{"step": int(step), "risk": risk, "loss": loss} for step, risk, loss in history],
        "scale": asdict(context.scale),
        "precision": context.recipe.precision,
    }


_CONSTANTS = {  # the blind guess with the lowest risk by a metric of maps, and its name
    "depth_l1_error": (pixelwise_median, "the pixel-wise median"),
    "normals_l1_error": (pixelwise_median, "the pixel-wise median of each component"),
    "normals_angular_error": (pixelwise_direction, "the pixel-wise direction with the least mean angle"),
}


def blind_run(
    data: TransferData, preprocess: Preprocess, *, train: np.ndarray, memory_bytes: int, n_workers: int = 0
) -> Trained:
    """The constant with the lowest risk on some training images, tested; each metric has its own.

    Maps are cropped as the images of the encoders are that it is compared with. If they take more than
    ``memory_bytes``, evenly spaced ones that fit stand for all. ``examples`` repeat the constant of the first metric.
    The report says in words what each metric's constant is, and how many training images it is of.

    >>> from zoo.cards.catalogue import catalogue
    >>> from zoo.evaluation.curves.inputs import transfer_data
    >>> data = transfer_data("shapes:classes=4,train=40,val=20", "classification")
    >>> card = catalogue()["pocket_sup_rn_shapes"]
    >>> blind = blind_run(data, card.preprocess, train=np.arange(40), memory_bytes=1 << 20)
    >>> float(blind.risks["transfer_error"].mean())
    75.0
    """
    began = time.monotonic()
    train = np.sort(np.asarray(train, np.int64))
    if not len(train):
        raise DataError(f"There is no training image of {data.name!r} to guess blindly from; expected at least two.")
    if isinstance(data.train, MapSet):
        risks, examples, about = _of_maps(data, data.train, preprocess, train, memory_bytes, n_workers)
    else:
        labels = data.train.labels[train]
        guess = majority_class(labels, data.n_outputs)
        share = 100 * float(np.mean(labels == guess))
        metric = data.task.metrics[0]
        name = data.train.classes[guess]
        is_right = data.test.labels == guess  # type: ignore[union-attr]
        risks, examples = {metric: np.where(is_right, 0, 100).astype(np.float32)}, None
        about = {
            "constants": {metric: f"the most frequent class, {name!r}, of {share:.3g} % of the training images"},
            "n_images": len(train),
        }
    seconds = time.monotonic() - began
    return Trained(risks=risks, examples=examples, report={**about, "n_train": len(train), "seconds": seconds})


def _of_maps(
    data: TransferData, part: MapSet, preprocess: Preprocess, train: np.ndarray, memory_bytes: int, n_workers: int
) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, Any]]:
    px, n_channels = preprocess.crop_px, int(data.task.n_channels or 1)
    n_fitting = max(1, memory_bytes // (px**2 * (4 * n_channels + 1)))
    chosen = train[np.linspace(0, len(train) - 1, min(n_fitting, len(train))).astype(np.int64)]
    maps = np.empty((len(chosen), n_channels, px, px), np.float32)
    valid = np.empty((len(chosen), px, px), bool)
    done = 0
    with closing(read_targets(part, chosen, preprocess, batch_size=_READ_BATCH, n_workers=n_workers)) as batches:
        for target, is_valid in batches:
            maps[done : done + len(target)] = target.numpy()
            valid[done : done + len(target)] = True if is_valid is None else is_valid.numpy()
            done += len(target)
    constants = {metric: _CONSTANTS[metric][0](maps, valid).astype(np.float32) for metric in data.task.metrics}
    risks = _risks_of_constants(data, constants, preprocess, n_workers)
    first = constants[data.task.metrics[0]]
    examples = _as_examples(np.repeat(first[None], min(N_EXAMPLES, len(data.test)), axis=0))
    some = f"{len(chosen):,} evenly spaced of the {len(train):,}" if len(chosen) < len(train) else f"the {len(train):,}"
    words = {metric: f"{_CONSTANTS[metric][1]} of {some} training images" for metric in constants}
    return risks, examples, {"constants": words, "n_images": len(chosen)}


def _risks_of_constants(
    data: TransferData, constants: dict[str, np.ndarray], preprocess: Preprocess, n_workers: int
) -> dict[str, np.ndarray]:
    by_metric: dict[str, list[Tensor]] = {metric: [] for metric in constants}
    every = np.arange(len(data.test))
    with closing(read_targets(data.test, every, preprocess, batch_size=_READ_BATCH, n_workers=n_workers)) as batches:
        for target, valid in batches:
            for metric, constant in constants.items():
                prediction = torch.from_numpy(constant).expand(len(target), *constant.shape)
                risks = risks_of(data.task, prediction, target, valid, scale=TargetScale())
                by_metric[metric].append(risks[metric])
    return {metric: torch.cat(parts).numpy() for metric, parts in by_metric.items()}
