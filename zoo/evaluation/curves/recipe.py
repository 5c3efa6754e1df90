"""What an encoder is transferred to and how it is trained: tasks, recipes, and the name of the protocol they make.

Every option of the training that moves its number is in the recipe. The module does not import NumPy.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

from ...errors import QueryError, UnknownName


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTask:
    """One kind of transfer task."""

    name: str
    is_dense: bool  # a map an image, by a U-Net decoder; else a class, by a linear head
    n_channels: int | None  # of a map; None: as many outputs as the data has classes
    metrics: tuple[str, ...]  # names in zoo.results.vocabulary.METRICS; the first chooses learning rate and regimes
    loss: str  # what is minimised
    decoder: str
    meaning: str


TASKS = {
    task.name: task
    for task in (
        TransferTask(
            name="classification",
            is_dense=False,
            n_channels=None,
            metrics=("transfer_error",),
            loss="cross-entropy",
            decoder="linear head",
            meaning="the class of an image",
        ),
        TransferTask(
            name="depth",
            is_dense=True,
            n_channels=1,
            metrics=("depth_l1_error",),
            loss="mean absolute error over valid pixels",
            decoder="U-Net",
            meaning="the depth at each pixel",
        ),
        TransferTask(
            name="normals",
            is_dense=True,
            n_channels=3,
            metrics=("normals_l1_error", "normals_angular_error"),
            loss="mean absolute error over the three components of valid pixels",
            decoder="U-Net",
            meaning="the surface normal at each pixel: x to the right, y upwards, z towards the camera",
        ),
    )
}


def find_task(name: str) -> TransferTask:
    """One of :data:`TASKS`.

    >>> find_task("depth").metrics
    ('depth_l1_error',)
    """
    if name not in TASKS:
        raise UnknownName("task", name, TASKS, hint=f"Expected {', '.join(TASKS)}.")
    return TASKS[name]


_RULES = {  # not changed by any option; part of the digest, so that a changed rule is a new protocol
    "optimizer": "AdamW, learning rate rising over the first tenth of the steps, then half a cosine",
    "learning_rate": "all go the first quarter of the steps; the one with the lowest validation risk goes on",
    "weights": "those with the lowest validation risk; of equals, with the lowest validation loss",
    "targets": "maps less the median of each channel, over the mean absolute deviation from it, of the training part",
    "images": "preprocessed as the encoder's card says, without augmentation",
    "validation": "a share of the labels of the regime, drawn by seed, of every class if there is one",
    "subsets": "nested, drawn by seed, stratified by class where there are classes",
    "scratch": "random weights by seed, everything trained",
    "maximal": "scratch with all labels",
    "blind": "constant with the lowest risk on the training images",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Options of the training; the defaults are the protocol."""

    frozen: bool = False  # the encoder stays as it is; never of a control
    learning_rates: tuple[float, ...] = (1e-4, 5e-4, 2e-3, 1e-2)
    head_rate: float = 10.0  # times the learning rate, of a linear head; a U-Net learns at the rate itself
    weight_decay: float = 0.01
    batch_size: int = 16  # images per step of the optimizer
    accumulate: int = 1  # forward passes a step, each of batch_size / accumulate images
    epochs: float = 12.0  # passes over the training part of the labels ...
    least_steps: int = 300  # ... but at least, and
    most_steps: int = 20_000  # at most so many steps
    evaluations: int = 20  # of the validation part, evenly over the steps
    patience: int = 6  # of them without a better one, and training ends
    validation_share: float = 0.2
    clip_norm: float = 1.0  # of the gradient
    precision: str = "float32"  # of the forward pass: float32, bfloat16 or float16

    def __post_init__(self) -> None:
        whole = {"batch_size", "accumulate", "least_steps", "most_steps", "evaluations", "patience"}
        for name in (*whole, "epochs", "clip_norm", "head_rate", "weight_decay", "validation_share"):
            value, least = getattr(self, name), 1 if name in whole else 0
            kinds = int if name in whole else int | float
            is_valid = isinstance(value, kinds) and not isinstance(value, bool) and least <= value < math.inf
            if not is_valid or (value == 0 and name != "weight_decay") or (name == "validation_share" and value >= 1):
                expected = "a whole number from 1 on" if name in whole else "a number above 0"
                expected = {"weight_decay": "a number from 0 on", "validation_share": "between 0 and 1"}.get(
                    name, expected
                )
                raise QueryError(f"The recipe has {name}={value!r}; expected {expected}.")
        rates = self.learning_rates
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise QueryError(f"The recipe has learning_rates={rates!r}; expected numbers above 0.")
        if self.accumulate > self.batch_size:
            raise QueryError(
                f"The recipe has accumulate={self.accumulate} with batch_size={self.batch_size}; expected at most one "
                "forward pass per image."
            )
        if self.precision not in ("float32", "bfloat16", "float16"):
            raise QueryError(f"The recipe has precision={self.precision!r}; expected float32, bfloat16 or float16.")

    @property
    def of_controls(self) -> Recipe:
        """The same for networks that start at random weights, of which nothing is frozen."""
        return replace(self, frozen=False)

    def n_steps(self, n_train: int) -> int:
        """Steps of the optimizer at most, with ``n_train`` images to train on.

        >>> Recipe(epochs=2, least_steps=10).n_steps(3_200)
        400
        """
        wanted = math.ceil(self.epochs * n_train / self.batch_size)
        return min(max(wanted, self.least_steps), self.most_steps)


def format_protocol_name(task: TransferTask, recipe: Recipe, *, control: str = "encoder") -> str:
    """Name of the protocol, with the control and the options that are not its defaults, in alphabetical order.

    >>> from zoo.evaluation.curves.recipe import TASKS
    >>> format_protocol_name(TASKS["depth"], Recipe(frozen=True, epochs=3.0))
    'zoo-curve-depth-1 (epochs=3.0, frozen=true)'
    >>> format_protocol_name(TASKS["depth"], Recipe(frozen=True), control="scratch")
    'zoo-curve-depth-1 (control=scratch)'
    """
    named: dict[str, Any] = {} if control == "encoder" else {"control": control}
    if control != "blind":  # which trains nothing
        used = asdict(recipe if control == "encoder" else recipe.of_controls)
        named |= {name: value for name, value in used.items() if value != getattr(Recipe(), name)}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in named.items()}
    options = ", ".join(f"{name}={text}" for name, text in sorted(texts.items()))
    return format_base_protocol(task) + (f" ({options})" if options else "")


def format_base_protocol(task: TransferTask) -> str:
    """Name of the protocol of a task with its defaults, as zoo-curve-normals-1."""
    return f"zoo-curve-{task.name}-1"


def hash_recipe(task: TransferTask) -> str:
    """Hash of everything that defines the numbers of a task's protocol; a test pins it."""
    about = {"task": asdict(task), "recipe": asdict(Recipe()), "rules": _RULES}
    about["task"].pop("meaning")
    return blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()


def describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """Options and rules, for the provenance of a row."""
    return {**asdict(recipe), "rules": dict(_RULES)}
