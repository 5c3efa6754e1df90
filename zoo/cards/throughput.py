"""Images per second on five devices: measured by the author of timm, or expected of other networks with an interval.

``metadata/throughput.tsv`` has the measured speeds of timm's networks, ``metadata/devices.tsv`` a row per device: how
it was measured, and what to expect of a network that is not in the first table. ``scripts/throughput.py`` writes both,
``benchmarks/throughput.py`` prints how far expectations are off. Nothing here imports torch.

An encoder has one of three speeds:

* *measured*: its network was measured at the size of images of its card;
* *scaled*: its network was measured at another size (or with other windows of attention), and the speed changes as the
  expected one does;
* *expected*: seconds per image are a sum of operations, bytes written, calls, bytes of parameters and of activations,
  each at the rate of the device (:func:`estimate_seconds`).

All are of forward passes of images that lie on the device already, in the precision and the batches of the
measurements: half precision and hundreds of images on a GPU, float32 and one image on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from ..errors import ContentError, UnknownName, format_count
from ..files import get_content_folder
from .costs import Cost, find_cost
from .schema import EncoderCard

SPEEDS, DEVICES = "throughput.tsv", "devices.tsv"
SPEED_COLUMNS = ("device", "network", "px", "batch_size", "images_per_s", "gmacs", "params_m")
RATES = ("s_per_gflop", "s_per_written_byte", "s_per_operation", "s_per_parameter_byte", "s_per_activation_byte")
FACTORS = ("slowest", "fastest", "scaled_slowest", "scaled_fastest")
DEVICE_COLUMNS = ("device", "kind", "precision", "how", "source", "n_networks", *RATES, *FACTORS)
LEVEL = 0.9
"""Share of networks whose speed is in the interval."""
LIBRARIES = ("timm", "torchvision")
"""Whose networks of one name are the same."""
_SAME_GFLOPS = (0.93, 1.03)  # ratio of operations where the sizes of images are the same: timm counts the classifier
_SAME_BY_PIXEL = (0.6, 1.25)  # ratio of operations a pixel at two sizes: attention grows faster than the image
_SAME_PARAMETERS = (0.95, 1.05)  # ratio of parameters


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was measured, and what seconds of a network are expected there."""

    name: str  # "RTX 4090"
    kind: Literal["cuda", "cpu"]
    precision: str  # "float16 autocast"
    how: str  # "eager" or "compiled", and the version of PyTorch
    source: str  # file of the measurements
    n_networks: int  # by which rates are fitted
    rates: tuple[float, ...]  # RATES
    factors: tuple[float, ...]  # FACTORS: on the expected, and on the scaled speed; ends of the interval


@dataclass(frozen=True, slots=True)
class MeasuredThroughput:
    """A network of timm as it was measured on a device."""

    px: int
    batch_size: int
    images_per_s: float
    gmacs: float  # 1e9 multiply-adds an image
    params_m: float  # 1e6 parameters


@dataclass(frozen=True, slots=True)
class Throughput:
    """Images per second of an encoder on a device; nine in ten speeds are in the interval of an expectation."""

    value: float
    low: float | None  # None where it was measured
    high: float | None
    is_measured: bool
    source: str  # in words


def list_devices() -> tuple[Device, ...]:
    """The devices that were measured, in the order of the table."""
    return tuple(_devices().values())


def find_device(name: str) -> Device:
    """The device of that name, or the only one whose name contains it, by letters and digits alone: "rtx-4090".

    UnknownName with all names if there is none.
    """
    wanted = _letters(name)
    found = [device for key, device in _devices().items() if wanted and wanted in key]
    if wanted in _devices():
        return _devices()[wanted]
    if len(found) == 1:
        return found[0]
    names = [device.name for device in list_devices()]
    hint = f"Expected 'cuda', 'cpu' (timed on this machine) or one that was measured: {', '.join(names)}."
    raise UnknownName("device", name, names, hint=hint)


def estimate_throughput(card: EncoderCard, device: Device, *, cost: Cost | None = None) -> Throughput | None:
    """Images per second of an encoder at the size of images of its card; None if its cost is not known.

    ``cost`` is its cost, where that is not in the shipped table.
    """
    cost = cost or find_cost(card)
    if cost is None:
        return None
    seconds = estimate_seconds(cost, device.rates)
    slowest, fastest, scaled_slowest, scaled_fastest = device.factors
    rows = find_measured_speeds(card, device)
    for row in rows:
        if is_as_measured(row, cost):
            words = f"measured by the author of timm on {device.name}: {device.precision}, {device.how}, "
            return Throughput(row.images_per_s, None, None, True, f"{words}batches of {row.batch_size}")
    n_parameters = card.architecture.n_parameters
    same = [row for row in rows if _is_other_size(row, cost, n_parameters)]
    if same:
        row = min(same, key=lambda row: abs(math.log(row.px / cost.px)))
        value = row.images_per_s * estimate_seconds(rescale_cost(row, cost), device.rates) / seconds
        words = f"scaled by its cost from the speed that was measured at {row.px} px on {device.name}"
        return Throughput(value, value * scaled_slowest, value * scaled_fastest, False, words)
    words = f"expected of its cost, by {format_count(device.n_networks, 'network')} that were measured on {device.name}"
    least, most = _range(device)
    if not least <= cost.gflops <= most:
        words += f"; extrapolated, for these take {least:.3g} to {most:,.0f} GFLOPs per image"
    return Throughput(1 / seconds, slowest / seconds, fastest / seconds, False, words)


def estimate_seconds(cost: Cost, rates: Sequence[float]) -> float:
    """Seconds per image by the rates of a device.

    >>> estimate_seconds(Cost(224, 8.0, 100, 10, 0, 90, 7), (0.5, 0.1, 1.0, 0.01, 0.0))
    21.0
    """
    return sum(rate * number for rate, number in zip(rates, list_cost_terms(cost), strict=True))


def list_cost_terms(cost: Cost) -> tuple[float, ...]:
    """What seconds are a sum of, in the order of ``RATES``."""
    return (cost.gflops, cost.written_bytes, cost.n_operations, cost.parameter_bytes, cost.activation_bytes)


def is_as_measured(row: MeasuredThroughput, cost: Cost) -> bool:
    """Whether a network of that name costs what the measured one did, so that no option of it was changed."""
    return row.px == cost.px and _SAME_GFLOPS[0] < cost.gflops / (2 * row.gmacs) < _SAME_GFLOPS[1]


def rescale_cost(row: MeasuredThroughput, cost: Cost) -> Cost:
    """The cost of a network at the size at which it was measured: what grows with the image, by operations."""
    share = 2 * row.gmacs / cost.gflops
    return replace(
        cost,
        px=row.px,
        gflops=2 * row.gmacs,
        written_bytes=round(share * cost.written_bytes),
        activation_bytes=round(share * cost.activation_bytes),
    )


def find_measured_speeds(card: EncoderCard, device: Device) -> tuple[MeasuredThroughput, ...]:
    """Rows of the network that a card's backbone names, at all sizes."""
    library, _, name = card.architecture.backbone.partition(":")
    return load_speeds()[device.name].get(name, ()) if library in LIBRARIES else ()


def _is_other_size(row: MeasuredThroughput, cost: Cost, n_parameters: int) -> bool:
    """Whether the row is of the same network with images of another size, or cut into other windows."""
    by_pixel = cost.gflops / cost.px**2 / (2 * row.gmacs / row.px**2)
    is_as_large = _SAME_PARAMETERS[0] < n_parameters / 1e6 / row.params_m < _SAME_PARAMETERS[1]
    return is_as_large and _SAME_BY_PIXEL[0] < by_pixel < _SAME_BY_PIXEL[1]


def _range(device: Device) -> tuple[float, float]:
    gflops = [2 * row.gmacs for rows in load_speeds()[device.name].values() for row in rows]
    return min(gflops), max(gflops)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


@cache
def _devices() -> dict[str, Device]:
    """Devices by the letters and digits of their names."""
    return {
        _letters(row["device"]): Device(
            name=row["device"],
            kind="cpu" if row["kind"] == "cpu" else "cuda",
            precision=row["precision"],
            how=row["how"],
            source=row["source"],
            n_networks=int(row["n_networks"]),
            rates=tuple(float(row[name]) for name in RATES),
            factors=tuple(float(row[name]) for name in FACTORS),
        )
        for row in read_rows(get_content_folder("metadata") / DEVICES, DEVICE_COLUMNS)
    }


@cache
def load_speeds() -> dict[str, dict[str, tuple[MeasuredThroughput, ...]]]:
    """What was measured, by device and timm's name of the network."""
    found: dict[str, dict[str, tuple[MeasuredThroughput, ...]]] = {}
    for row in read_rows(get_content_folder("metadata") / SPEEDS, SPEED_COLUMNS):
        numbers = (float(row[name]) for name in ("images_per_s", "gmacs", "params_m"))
        one = MeasuredThroughput(int(row["px"]), int(row["batch_size"]), *numbers)
        of_device = found.setdefault(row["device"], {})
        of_device[row["network"]] = (*of_device.get(row["network"], ()), one)
    return found


def read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a table with these columns, separated by tabs; ContentError if it has others."""
    head, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()] or [[]]
    if tuple(head) != tuple(columns) or any(len(line) != len(columns) for line in lines):
        raise ContentError(f"{path} has other columns than {', '.join(columns)}; restore it.")
    return [dict(zip(columns, line, strict=True)) for line in lines]
