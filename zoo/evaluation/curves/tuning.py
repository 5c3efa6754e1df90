"""One run: the learning rate is chosen, the network trained to its best weights, and every test image judged.

All learning rates go the first quarter of the steps, on the schedule of the whole training, and the one with the lowest
validation risk goes on from where it is. So nothing of what it learned is thrown away, and a run is the same as if its
learning rate had been known from the start.

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
from typing import TYPE_CHECKING, Any

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
from .inputs import HeldInputs, Inputs, cuts_of, inputs_of, read_targets
from .losses import TargetScale as Scale
from .losses import TransferData, TransferSet, risks_of, scale_of
from .models import TransferModel, transfer_model
from .recipe import Recipe, recipe_digest
from .runs import N_EXAMPLES
from .training import Fitting, KeptTraining, Setting, State, copied, evaluated, trained_weights

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import Tensor, nn

if TYPE_CHECKING:
    from ...encoders import Encoder


@dataclass(frozen=True, slots=True)
class Step:
    """How far a run is.

    Attributes
    ----------
    step : int
        Steps done, those at learning rates that were given up included.
    n_steps : int
        At most.
    validation_risk : float or None
        After this step, in the unit of the first metric; None if nobody looked.
    """

    step: int
    n_steps: int
    validation_risk: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """A training that is over.

    Attributes
    ----------
    fitting : Fitting
        At the learning rate that was chosen.
    trials : list of dict
        What each learning rate had reached at the end of the tuning, in their order.
    earlier_s : float
        Seconds of the processes that worked on it before.
    """

    fitting: Fitting
    trials: list[dict[str, Any]]
    earlier_s: float


def fitted(
    setting: Setting,
    network: nn.Module,
    kept: KeptTraining,
    tell: Callable[[Step], None] | None,
    *,
    began_s: float,
) -> Chosen | None:
    """Trains at all learning rates, and to the end at the best; None if none gives finite losses.

    Parameters
    ----------
    setting : Setting
    network : nn.Module
        With the weights to begin with, on the device; has those of the last step afterwards.
    kept : KeptTraining
        From where it goes on, and where it is kept after steps.
    tell : callable, optional
        Told after every step.
    began_s : float
        When this process began with it, by the monotonic clock.
    """
    rates, n_tuning = setting.recipe.learning_rates, setting.n_tuning
    first = copied(trained_weights(network)) if len(rates) > 1 else {}
    found = kept.find()
    trials: list[dict[str, Any]] = [] if found is None else found["trials"]
    leader: State | None = None if found is None else found["leader"]
    earlier_s = 0.0 if found is None else found["seconds"]

    def advance(fitting: Fitting, until: int, *, before: int) -> None:
        """Goes on to a step; ``before`` steps were done at learning rates that are no longer trained."""

        def state() -> State:
            seconds = earlier_s + time.monotonic() - began_s
            return {"trials": trials, "leader": leader, "fitting": fitting.state(), "seconds": seconds}

        def after(risk: float | None) -> None:
            kept.keep(state)
            if tell is not None:
                tell(Step(before + fitting.step, (len(rates) - 1) * n_tuning + setting.n_steps, risk))

        fitting.advance(until, after)

    fitting: Fitting | None = None
    for number in range(len(trials), len(rates)):
        network.load_state_dict(first, strict=False)
        fitting = Fitting(setting, network, rates[number])
        if found is not None:
            fitting.load(found["fitting"])
            found = None
        advance(fitting, n_tuning, before=number * n_tuning)
        trials.append(_trial(fitting))
        if _best(trials) == number and number + 1 < len(rates):
            leader = copied(fitting.state())
    best = _best(trials)
    if best is None:
        return None
    if fitting is None or best + 1 < len(rates):
        fitting = Fitting(setting, network, rates[best])
        if leader is not None:
            fitting.load(leader)
    if found is not None:  # of the training after the choice
        fitting.load(found["fitting"])
    leader = None
    advance(fitting, setting.n_steps, before=(len(rates) - 1) * n_tuning)
    return Chosen(fitting=fitting, trials=trials, earlier_s=earlier_s)


def none_is_finite(setting: Setting, *, data: str) -> DataError:
    """The sentence for :func:`fitted` that gave nothing."""
    tried = ", ".join(f"{rate:g}" for rate in setting.recipe.learning_rates)
    return DataError(
        f"Training on {len(setting.train):,} images of {data!r} in {setting.recipe.precision} gives losses that are "
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


__all__ = ["Step", "Trained", "Training", "as_examples", "train_run"]

_SCALED = 1 << 24  # numbers of maps at most that say where they lie, of evenly spaced images
_READ_AT_ONCE = 64
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)
_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a run is computed; moves no number beyond rounding."""

    device: str | None = None  # None: a GPU where there is one
    n_workers: int = 0  # processes that decode and preprocess; with none, a thread does
    memory_bytes: int = 2 << 30  # for images and maps that are preprocessed once, in each process
    state_seconds: float = 60.0  # between two states of a training, at least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """What a run found.

    Attributes
    ----------
    risks : dict from a metric to float32 array, shape (n_test,)
        Of each test image, in the unit of the metric; lower is better.
    examples : float16 array, shape (n_examples, c, px, px), or None
        Predictions for the first test images, of dense tasks, in the unit of the data.
    report : dict
        What JSON holds.
    """

    risks: dict[str, np.ndarray]
    examples: np.ndarray | None
    report: dict[str, Any]


def train_run(
    encoder: Encoder,
    data: TransferData,
    *,
    train: np.ndarray,
    validation: np.ndarray,
    preprocess: Preprocess,
    recipe: Recipe,
    seed: int,
    how: Training,
    state: Path | None = None,
    tell: Callable[[Step], None] | None = None,
) -> Trained:
    """Trains an encoder with a decoder, and tests it.

    Parameters
    ----------
    encoder : Encoder
        With the weights to begin with; a copy of it is trained.
    data : TransferData
    train, validation : int64 arrays
        Images of ``data.train`` to train on, at least two, and to choose learning rate and weights by, at least one.
    preprocess : Preprocess
        From an image to the encoder's input.
    recipe : Recipe
    seed : int
        Of the decoder's first weights and the order of the images.
    how : Training
    state : Path, optional
        Folder for how far this run is, from time to time; started again with it, it goes on from there. It is for the
        caller to remove.
    tell : callable, optional
        Told after every step.

    Returns
    -------
    Trained
        Its report has the learning rate that was chosen, what all of them reached, the history of the validation part,
        and the numbers of steps and images.

    Raises
    ------
    DataError
        If there are too few images, the training targets are all the same, no learning rate gives finite losses, or an
        image or map cannot be read (CorruptImage).
    QueryError
        If there is no such device, the encoder has no spatial features for a dense task, or a batch does not fit into
        the memory of the GPU.
    StoreError
        If the state cannot be kept.
    """
    began_s = time.monotonic()
    train, validation = np.asarray(train, np.int64), np.asarray(validation, np.int64)
    if len(train) < 2 or not len(validation):
        raise DataError(
            f"There are {len(train)} images of {data.name!r} to train on and {len(validation)} to validate on; "
            "expected at least 2 and 1, so ask for more labels."
        )
    device = device_for(encoder, how.device)
    identity = {}
    if state is not None:
        identity = _identity(encoder, data, train, validation, preprocess, recipe, seed, device)
    kept = KeptTraining(state, identity, every_s=how.state_seconds)
    model = transfer_model(
        deepcopy(encoder).float(),  # weights that are stored in half precision are too coarse for small steps
        data.task, n_outputs=data.n_outputs, px=preprocess.crop_px, frozen=recipe.frozen, seed=seed,
    )  # fmt: skip
    if recipe.batch_size == 1 and any(isinstance(one, _BATCH_NORMS) and one.training for one in model.modules()):
        raise QueryError(
            "The recipe has batch_size=1, and the encoder has batch normalisation; expected at least two images a step."
        )
    with _computing(device, recipe):
        parts = (data.train, train), (data.train, validation), (data.test, np.arange(len(data.test)))
        inputs = [
            inputs_of(part, own, preprocess, memory_bytes=how.memory_bytes, n_workers=how.n_workers, device=device)
            for part, own in parts
        ]
        setting = Setting(
            task=data.task, recipe=recipe, seed=seed, scale=_scale(data, inputs[0], preprocess.crop_px),
            train=inputs[0], validation=inputs[1], device=device, px=preprocess.crop_px,
        )  # fmt: skip
        model.to(device).to(memory_format=setting.layout)
        network: nn.Module = model
        n_bytes = 4 * encoder.dim * (len(train) + len(validation))
        if recipe.frozen and not data.task.is_dense and n_bytes <= how.memory_bytes:
            network = model.head
            setting = replace(
                setting,
                train=_features(setting, model, setting.train, encoder.dim),
                validation=_features(setting, model, setting.validation, encoder.dim),
            )
        chosen = fitted(setting, network, kept, tell, began_s=began_s)
        if chosen is None:
            raise none_is_finite(setting, data=data.name)
        chosen.fitting.load_best()
        risks, _ = evaluated(setting, model, inputs[2])
        examples = _examples(setting, model, inputs[2]) if data.task.is_dense else None
    about = {"device": device.type, "seconds": chosen.earlier_s + time.monotonic() - began_s}
    return Trained(risks=risks, examples=examples, report=_report(chosen, setting) | about)


def as_examples(predictions: np.ndarray) -> np.ndarray:
    """Predictions as they are kept to look at, float16."""
    found: np.ndarray = np.clip(predictions, -_HALF, _HALF).astype(np.float16)
    return found


@contextmanager
def _computing(device: torch.device, recipe: Recipe) -> Iterator[None]:
    """Full precision, and the user's random numbers as they were; errors that torch has no words for."""
    gpu = [device] if device.type == "cuda" else []
    own: AbstractContextManager[Any] = torch.cuda.device(device) if gpu else nullcontext()  # else the first is used too
    try:
        with own, torch.random.fork_rng(devices=gpu), full_precision():
            yield
    except torch.OutOfMemoryError as error:
        raise QueryError(
            f"A step of {recipe.batch_size} images in {recipe.accumulate} forward passes does not fit into the memory "
            f"of {str(device)!r}; expected a recipe with more of them (accumulate), or smaller batches."
        ) from error
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):  # torch has no class of its own for this
            raise
        raise DataError(
            f"A process that decodes images died ({str(error).partition(chr(10))[0].rstrip('. ')}); run the same again "
            "with fewer workers (n_workers)."
        ) from error


def _scale(data: TransferData, train: Inputs, px: int) -> Scale:
    """Where the numbers of maps lie, from the training part; classes are as they are."""
    if not data.task.is_dense:
        return Scale()
    n_images = min(len(train), max(1, _SCALED // (data.n_outputs * px**2)))
    positions = np.unique(np.linspace(0, len(train) - 1, n_images).astype(np.int64))
    values = []
    for cut in cuts_of(n_images, _READ_AT_ONCE):
        target, valid = train.targets(positions[cut])
        numbers = target.movedim(1, -1)  # (n, px, px, c)
        values.append((numbers.flatten(0, 2) if valid is None else numbers[valid]).numpy())
    return scale_of(np.concatenate(values), what=f"the {data.task.name} maps of {n_images:,} images of {data.name!r}")


def _features(setting: Setting, model: TransferModel, inputs: Inputs, dim: int) -> HeldInputs:
    """What a frozen encoder makes of the images, once for all steps."""
    features, positions = torch.empty((len(inputs), dim), device=setting.device), np.arange(len(inputs))
    done = 0
    model.eval()
    with closing(inputs.batches(setting.looks(len(inputs)))) as batches:
        for batch in batches:
            own = batch.to(setting.device, setting.layout)
            with torch.no_grad(), setting.autocast():
                features[done : done + len(batch)] = model.encoder_features(own.images).float()
            done += len(batch)
    target, _ = inputs.targets(positions)
    return HeldInputs(features, target.to(setting.device), None, positions)


def _examples(setting: Setting, model: TransferModel, test: Inputs) -> np.ndarray:
    found = [setting.scale.in_units(prediction) for prediction, _ in setting.looked_at(model, test, n=N_EXAMPLES)]
    return as_examples(torch.cat(found).cpu().numpy())


def _identity(
    encoder: Encoder,
    data: TransferData,
    train: np.ndarray,
    validation: np.ndarray,
    preprocess: Preprocess,
    recipe: Recipe,
    seed: int,
    device: torch.device,
) -> dict[str, Any]:
    """All that a training depends on."""
    return {
        "format": "zoo-curve-training-1",
        "versions": [__version__, torch.__version__, np.__version__],
        "encoder": [str(encoder), weights_hash(encoder)],
        "data": [data.name, data.train.fingerprint, data.test.fingerprint, data.n_outputs],
        "images": digest([train.astype("<i8"), validation.astype("<i8")]),
        "preprocess": asdict(preprocess),
        "recipe": [recipe_digest(data.task), asdict(recipe)],
        "seed": seed,
        "device": device.type,
    }


def _report(chosen: Chosen, setting: Setting) -> dict[str, Any]:
    fitting = chosen.fitting
    history = fitting.history[:-1] if fitting.diverged else fitting.history
    best = fitting.best or [0.0, 0.0, 0.0]
    return {
        "learning_rate": fitting.learning_rate,
        "learning_rates": chosen.trials,
        "n_train": len(setting.train),
        "n_validation": len(setting.validation),
        "n_steps": setting.n_steps,
        "n_steps_done": fitting.step,
        "best_step": int(best[0]),
        "diverged_at_step": fitting.step if fitting.diverged else None,
        "validation": [{"step": int(step), "risk": risk, "loss": loss} for step, risk, loss in history],
        "scale": asdict(setting.scale),
        "precision": setting.recipe.precision,
    }


_CONSTANTS = {
    "depth_l1_error": (pixelwise_median, "the pixel-wise median"),
    "normals_l1_error": (pixelwise_median, "the pixel-wise median of each component"),
    "normals_angular_error": (pixelwise_direction, "the pixel-wise direction with the least mean angle"),
}
"""What is guessed blindly for the lowest risk by a metric, and how to say it."""


def blind_run(
    data: TransferData, preprocess: Preprocess, *, train: np.ndarray, memory_bytes: int, n_workers: int = 0
) -> Trained:
    """The constant with the lowest risk on the training images, tested; each metric has its own.

    Parameters
    ----------
    data : TransferData
    preprocess : Preprocess
        Of the encoders that it is compared with: maps are cropped as their images are.
    train : int64 array
        Images of ``data.train``, in any order.
    memory_bytes : int
        For their maps; if they take more, evenly spaced ones that fit stand for all, as the report says.
    n_workers : int
        Processes that read maps; with none, a thread does.

    Returns
    -------
    Trained
        ``examples`` is the constant of the first metric, as often as there are examples. The report says in words what
        each metric's constant is, and how many training images it is of.

    Raises
    ------
    DataError
        If there is no training image, their targets are all the same, or a map cannot be read.

    Examples
    --------
    >>> from zoo.cards.catalogue import catalogue
    >>> from zoo.evaluation.curves.losses import transfer_data
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
        risks, examples = {metric: np.where(data.test.labels == guess, 0, 100).astype(np.float32)}, None  # type: ignore[union-attr]
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
    with closing(read_targets(part, chosen, preprocess, batch_size=_READ_AT_ONCE, n_workers=n_workers)) as batches:
        for target, seen in batches:
            maps[done : done + len(target)] = target.numpy()
            valid[done : done + len(target)] = True if seen is None else seen.numpy()
            done += len(target)
    constants = {metric: _CONSTANTS[metric][0](maps, valid).astype(np.float32) for metric in data.task.metrics}
    risks = _risks(data, constants, preprocess, n_workers)
    first = constants[data.task.metrics[0]]
    examples = as_examples(np.repeat(first[None], min(N_EXAMPLES, len(data.test)), axis=0))
    some = f"{len(chosen):,} evenly spaced of the {len(train):,}" if len(chosen) < len(train) else f"the {len(train):,}"
    words = {metric: f"{_CONSTANTS[metric][1]} of {some} training images" for metric in constants}
    return risks, examples, {"constants": words, "n_images": len(chosen)}


def _risks(
    data: TransferData, constants: dict[str, np.ndarray], preprocess: Preprocess, n_workers: int
) -> dict[str, np.ndarray]:
    found: dict[str, list[Tensor]] = {metric: [] for metric in constants}
    part: TransferSet = data.test
    everything = np.arange(len(part))
    with closing(read_targets(part, everything, preprocess, batch_size=_READ_AT_ONCE, n_workers=n_workers)) as batches:
        for target, valid in batches:
            for metric, constant in constants.items():
                prediction = torch.from_numpy(constant).expand(len(target), *constant.shape)
                found[metric].append(risks_of(data.task, prediction, target, valid, scale=Scale())[metric])
    return {metric: torch.cat(ones).numpy() for metric, ones in found.items()}
