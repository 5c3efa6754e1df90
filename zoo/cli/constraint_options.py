"""Options that say what an encoder must satisfy, and costs of encoders as text; for the verbs that pick encoders."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

import click

from ..cards.answers import AnswerColumn
from ..cards.costs import BATCH_SIZE
from ..cards.schema import EncoderCard
from ..choosing.constraints import ACCESS_WORDS, Constraints, find_known_cost, format_exact_count, format_memory
from ..choosing.expectations import list_domains, read_difficulties
from ..results.evidence import list_datasets
from .options import add_options, device_names, licences, parse_count, parse_memory
from .output import format_size


def _images_like(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    known = list_domains() if param.name == "domain" else read_difficulties().keys() & list_datasets().keys()
    return sorted(name for name in known if name.startswith(incomplete))


KIND_OF_IMAGES = (
    click.option(
        "--like", metavar="DATASET", shell_complete=_images_like, help="Your images are like those of a data set."
    ),
    click.option(
        "--domain", metavar="KIND", shell_complete=_images_like, help="The kind of your images, such as satellite."
    ),
)
"""Options that name images on which encoders were measured."""
LIMITS = (
    click.option(
        "--licence",
        default="any",
        show_default=True,
        metavar="WORD|SPDX,...",
        shell_complete=licences,
        help="Of the weights: any, permissive, commercial, conditions or ids, joined by commas.",
    ),
    click.option(
        "--access",
        type=click.Choice(ACCESS_WORDS),
        default="any",
        show_default=True,
        help="open: only weights that anyone can download.",
    ),
    click.option("--max-parameters", callback=parse_count, metavar="N", help="Largest encoder, such as 100M or 1e8."),
    click.option("--max-dim", callback=parse_count, metavar="N", help="Most dimensions of the features."),
    click.option(
        "--max-memory",
        callback=parse_memory,
        metavar="SIZE",
        help="Most memory on the device, such as 8GB, with batches of --batch-size; computed from the network.",
    ),
    click.option(
        "--min-images-per-second",
        type=click.FloatRange(min=0, min_open=True),
        metavar="N",
        help="Slowest encoder on the device: as measured on a named one, else expected from small networks timed here.",
    ),
    click.option("--where", metavar="EXPR", help="Only encoders for which this is true, as in zoo list."),
)
"""Options for constraints but the device and the batches, in the order of help."""
_ON_DEVICE = (
    click.option(
        "--device",
        metavar="NAME",
        shell_complete=device_names,
        help="Whose memory and speed count: cpu or cuda of this machine, or a measured one, such as 'RTX 4090'.  "
        "[default: a GPU's memory]",
    ),
    click.option("--batch-size", type=click.IntRange(1), default=BATCH_SIZE, show_default=True, help="Images a pass."),
)
_NAMES = ("licence", "access", "max_parameters", "max_dim", "max_memory", "min_images_per_second", "where")


def add_constraint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of :class:`zoo.choosing.constraints.Constraints`, which :func:`build_constraints` takes."""
    return add_options(command, [*LIMITS, *_ON_DEVICE])


def build_constraints(options: dict[str, Any], *, device: str | None, batch_size: int) -> Constraints:
    """The constraints among the options of a verb, which are taken out of them."""
    return Constraints(**{name: options.pop(name) for name in _NAMES}, device=device, batch_size=batch_size)


def format_constraint_options(constraints: Constraints) -> list[str]:
    """The options that ask for these constraints, as words of a command line that a shell takes."""
    usual, words = Constraints(), []
    texts: dict[str, Callable[[Any], str]] = {"max_memory": format_memory, "max_parameters": format_exact_count}
    texts["min_images_per_second"] = "{:g}".format
    for name in (*_NAMES, "device", "batch_size"):
        value = getattr(constraints, name)
        if value != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", shlex.quote(texts.get(name, str)(value))]
    return words


def needs_costs(constraints: Constraints) -> bool:
    """Whether the user has said anything of the device, so that costs are shown."""
    asked = (constraints.max_memory, constraints.min_images_per_second, constraints.device)
    return constraints.batch_size != BATCH_SIZE or any(value is not None for value in asked)


def build_cost_record(card: EncoderCard, constraints: Constraints) -> dict[str, Any]:
    """Operations and memory of an encoder as JSON, and images per second on a named device; null where not known."""
    cost, memory = find_known_cost(card), constraints.memory_of(card)
    record = {
        "gflops": None if cost is None else cost.gflops,
        "memory_bytes": memory,
        "memory_is": None if memory is None else "computed",
        "memory_device": constraints.memory_device,
        "batch_size": constraints.batch_size,
    }
    if constraints.measured_device is None:
        return record
    speed = constraints.speed_of(card)
    return record | {
        "images_per_second": None if speed is None else speed.value,
        "images_per_second_interval": None if speed is None or speed.is_measured else [speed.low, speed.high],
        "images_per_second_is": None if speed is None else "measured" if speed.is_measured else "expected",
        "images_per_second_source": None if speed is None else speed.source,
    }


def list_cost_columns(cards: Sequence[EncoderCard], constraints: Constraints) -> list[AnswerColumn]:
    """Operations in 1e9 per image, memory, and speed on a named device; no columns if nobody asked for costs."""
    if not needs_costs(constraints):
        return []
    costs, memory = map(find_known_cost, cards), map(constraints.memory_of, cards)
    columns = [
        AnswerColumn("GFLOPs", ["?" if one is None else f"{one.gflops:.3g}" for one in costs], has_numbers=True),
        AnswerColumn("memory", ["?" if one is None else format_size(one) for one in memory], has_numbers=True),
    ]
    if constraints.measured_device is not None:
        speeds = [
            "?" if one is None else f"{'' if one.is_measured else '~'}{float(f'{one.value:.3g}'):,g}"
            for one in map(constraints.speed_of, cards)
        ]
        columns.append(AnswerColumn("img/s", speeds, has_numbers=True))
    return columns


def format_cost_note(constraints: Constraints) -> str:
    """What the columns of :func:`list_cost_columns` hold."""
    is_gpu = constraints.memory_device.startswith("cuda")
    where = "a GPU, with CUDA's context" if is_gpu else "a CPU, without Python itself"
    note = (
        f"GFLOPs of one image at its own size (a multiply-add is two); memory is computed, not measured: on {where}, "
        f"batches of {constraints.batch_size} in float32, with a margin for allocators and kernels"
    )
    if (device := constraints.measured_device) is not None:
        note += (
            f"; img/s on {device.name} as timm's author measured them, in {device.precision}, {device.how}, without "
            "decoding of images; ~ expected from the network's cost (--json has intervals that hold nine in ten)"
        )
    return note
