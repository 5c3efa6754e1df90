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

from ...datasets.imagesets import digest
from ...drift import full_precision
from ...errors import DataError, QueryError
from ...features.forward import device_for
from ...features.hashes import weights_hash
from ...metadata import Preprocess
from ...optional import requires_extra
from ...version import __version__
from .choosing import Chosen, Step, fitted, none_is_finite
from .data import TransferData
from .fitting import Setting, evaluated
from .inputs import HeldInputs, Inputs, cuts_of, inputs_of
from .losses import Scale, scale_of
from .models import TransferModel, transfer_model
from .recipe import Recipe, recipe_digest
from .runs import N_EXAMPLES
from .training_state import KeptTraining

with requires_extra("models", needed_for="Training a transfer"):
    import numpy as np
    import torch
    from torch import nn

if TYPE_CHECKING:
    from ...encoders import Encoder

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
