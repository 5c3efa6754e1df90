"""Options of ``zoo curve``: the data, what is measured of it, and how networks are trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError, UnknownName
from .image_options import COLUMN_OPTIONS, DATA_OPTIONS, IMAGE_KINDS, SPLIT_OPTIONS
from .options import refuse_idle
from .probe_options import say, settings_of

if TYPE_CHECKING:
    from ..evaluation.curves.data import TransferData
    from ..evaluation.curves.recipe import Recipe
    from ..evaluation.curves.tuning import Training

DATA_HELP = f"""\b
DATA is, for a classification, one of
{IMAGE_KINDS}
\b
and for depth or normals one of
  shapes                   the same rendered images, with their exact depth and normals
  FOLDER                   images/ beside depth/ or normals/ (png, npy, npz), below train/ and val/, or split by hash
"""
_MOST_SEEDS = 1000


def _task_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..evaluation.curves.tasks import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


def _metric_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..evaluation.curves.tasks import TASKS

    chosen = [task for task in TASKS.values() if ctx.params.get("task") in (None, task.name)]
    return [name for task in chosen for name in task.metrics if name.startswith(incomplete)]


_WHAT = (
    click.option("--task", metavar="TASK", shell_complete=_task_names,
                 help="classification, depth or normals; may be left out where the data allow one only."),
    click.option("--regimes", default="auto", show_default=True, metavar="LIST",
                 help="Numbers of labels by comma, as 50,200,1k,all; auto: from where scratch is near the blind guess "
                      "to where it is near maximal supervision."),
    click.option("--count", type=click.IntRange(2, 100), default=5, show_default=True,
                 help="How many regimes auto proposes."),
    click.option("--seeds", default="3", show_default=True, metavar="N|LIST",
                 help="How many from 0 on, or which by comma: 0,1,2."),
    click.option("--frozen", is_flag=True, help="Train the decoder alone; the encoder stays as it is."),
    click.option("--maximal", type=float, metavar="RISK",
                 help="Risk of maximal supervision, instead of training it: percent of a classification, or the L1 "
                      "error."),
    click.option("--metric", "metrics", multiple=True, metavar="METRIC", shell_complete=_metric_names,
                 help="Show this metric of the task.  [default: all of them]"),
)  # fmt: skip
_TRAINING = (
    click.option("--learning-rates", metavar="LIST", help="By comma; the best on the validation part is taken."),
    click.option("--epochs", type=float, help="Passes over the labels."),
    click.option("--batch-size", type=int, help="Images a step of the optimizer."),
    click.option("--accumulate", type=int, help="Forward passes a step, where the memory is small."),
    click.option("--precision", metavar="NAME", help="Of the forward pass: float32, bfloat16 or float16."),
    click.option("--set", "changed", metavar="NAME=VALUE", multiple=True,
                 help="Another setting of the recipe, as least_steps=50. A changed recipe is named in the protocol. "
                      "Repeatable."),
    click.option("--device", metavar="DEVICE", help="Where to train.  [default: a GPU if there is one]"),
    click.option("--workers", "n_workers", type=click.IntRange(0, 1024), default=0, help="Processes that decode."),
    click.option("--processes", "n_processes", type=click.IntRange(1, 1024), default=1, show_default=True,
                 help="Networks that are trained at once."),
)  # fmt: skip
_NAMED = ("epochs", "batch_size", "accumulate", "precision")


def curve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options but those of the output, passed on by their names."""
    for option in reversed((*_WHAT, *DATA_OPTIONS, *_TRAINING)):
        command = option(command)
    return command


def data_of(spec: str, options: dict[str, Any]) -> TransferData:
    """The data that the arguments name.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As :func:`zoo.evaluation.curves.data.transfer_data`; and if an option would do nothing to this data.
    """
    from ..evaluation.curves.data import transfer_data

    if options["task"] in ("depth", "normals") or not spec.startswith("huggingface:"):
        refuse_idle(COLUMN_OPTIONS, f"{spec!r} is no Hugging Face data set of classes, and has no columns")
    if options["regimes"].strip().lower() != "auto":
        refuse_idle(("count",), "the regimes are given by --regimes", remedy=", or take --regimes auto")
    say(f"looking at {spec}")
    data = transfer_data(
        spec, options["task"], name=options["dataset"], val_share=options["val_share"], seed=options["split_seed"],
        image_column=options["image_column"], label_column=options["label_column"], scale=options["scale"],
    )  # fmt: skip
    if not data.is_split_here:
        refuse_idle(SPLIT_OPTIONS, f"{spec!r} says itself which images are to be tested on")
    return data


def recipe_of(options: dict[str, Any]) -> Recipe:
    """How networks are to be trained.

    Raises
    ------
    UnknownName
        If there is no setting of a name.
    QueryError
        If a value makes no sense, or is given twice.
    """
    from ..evaluation.curves.recipe import Recipe

    given: dict[str, Any] = {name: options[name] for name in _NAMED if options[name] is not None}
    if options["learning_rates"] is not None:
        given["learning_rates"] = rates_of(options["learning_rates"])
    for name, value in settings_of(options["changed"]).items():
        known = [field.name for field in fields(Recipe) if field.name != "frozen"]
        if name not in known:
            raise UnknownName("setting of the recipe", name, known, hint=f"There are {', '.join(known)}.")
        if name in given:
            raise QueryError(f"Got {name} by its own option and by --set, expected it once.")
        given[name] = rates_of(str(value)) if name == "learning_rates" else _number(name, value)
    return Recipe(frozen=options["frozen"], **given)


def training_of(options: dict[str, Any]) -> Training:
    """What of the training moves no number.

    Raises
    ------
    QueryError
        If there is no such device.
    """
    from torch import nn

    from ..evaluation.curves.tuning import Training
    from ..features.forward import device_for

    device_for(nn.Identity(), options["device"])  # refused before any weights are fetched

    return Training(device=options["device"], n_workers=options["n_workers"])


def rates_of(text: str) -> tuple[float, ...]:
    """Learning rates from text.

    Raises
    ------
    QueryError
        If one of them is no number.

    >>> rates_of("3e-4,1e-3")
    (0.0003, 0.001)
    """
    try:
        return tuple(float(part) for part in text.strip("[]").split(","))
    except ValueError:
        raise QueryError(f"Got the learning rates {text!r}, expected numbers by comma, as 3e-4,1e-3.") from None


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds from their number, or from a list.

    Raises
    ------
    QueryError
        If it is neither.

    >>> seeds_of("3"), seeds_of("7,1"), seeds_of("5,")
    ((0, 1, 2), (7, 1), (5,))
    """
    wrong = QueryError(
        f"Got --seeds {text!r}, expected their number from 1 to {_MOST_SEEDS}, or different seeds by comma, as 0,1,2."
    )
    parts = [part.strip() for part in text.removesuffix(",").split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part, re.ASCII) for part in parts):
        raise wrong
    numbers = tuple(map(int, parts))
    if "," not in text:
        if not 1 <= numbers[0] <= _MOST_SEEDS:
            raise wrong
        return tuple(range(numbers[0]))
    if len(set(numbers)) < len(numbers) or len(numbers) > _MOST_SEEDS:
        raise wrong
    return numbers


def metrics_of(options: dict[str, Any]) -> tuple[str, ...]:
    """Metrics of the task that are shown: the first alone with a recorded risk of maximal supervision, which is of it.

    Raises
    ------
    UnknownName
        If there is no such task, or it does not have one of the metrics.
    QueryError
        If a recorded risk is given, and another metric is asked for.
    """
    from ..evaluation.curves.tasks import task_named

    known = task_named(options["task"]).metrics
    given: Sequence[str] = options["metrics"]
    for name in given:
        if name not in known:
            raise UnknownName("metric of the task", name, known, hint=f"It has {' and '.join(known)}.")
    chosen = tuple(name for name in known if name in given) or known
    if options["maximal"] is None:
        return chosen
    if chosen[0] != known[0]:
        raise QueryError(
            f"Got --maximal with --metric {chosen[0]}, expected {known[0]}, which the recorded risk is of."
        )
    return chosen[:1]


def _number(name: str, value: Any) -> Any:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and name != "precision")
    ):
        raise QueryError(f"Got --set {name}={value}, expected a number.")
    return value
