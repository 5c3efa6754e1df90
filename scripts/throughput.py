"""Writes ``metadata/throughput.tsv``, measured speeds of networks, and ``metadata/devices.tsv``, how fast others are.

    python scripts/throughput.py [CSV]

CSV has the rows of timm's ``results/benchmark-infer-*.csv`` for networks that have cards (machine, timm_architecture,
image_size, batch_size, images_per_s, gmacs, params_m); numbers are copied as they are written there. Without it the
measured speeds stay, and only the rates of the devices are fitted again, as after a change of ``metadata/costs.tsv``.

Rates are the non-negative ones with the smallest sum of squared relative errors of seconds, over the networks that a
card has with the same operations and size of images. The ends of the interval are quantiles of errors of networks of
whose family no network was in the fit: a network that nobody measured may be of a family that nobody measured.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from zoo.cards import throughput
from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import Cost, find_cost
from zoo.cards.throughput import (
    DEVICE_COLUMNS,
    DEVICES,
    FACTORS,
    LEVEL,
    LIBRARIES,
    RATES,
    SPEED_COLUMNS,
    SPEEDS,
    MeasuredThroughput,
    estimate_seconds,
    is_as_measured,
    list_cost_terms,
    read_rows,
    rescale_cost,
)
from zoo.files import get_content_folder, replace_file

SOURCE = "huggingface/pytorch-image-models@aa4b5850c154:results/benchmark-infer-{}.csv"
MACHINES = {  # of timm's files: device, kind, precision, how
    "amp-nchw-pt291-cu128-4090": ("RTX 4090", "cuda", "float16 autocast", "eager, PyTorch 2.9.1"),
    "amp-nchw-pt291-cu130-5090": ("RTX 5090", "cuda", "float16 autocast", "eager, PyTorch 2.9.1"),
    "amp_bf16-nchw-pt291-cu130-pro6000maxq-dynamo": (
        *("RTX PRO 6000 Max-Q", "cuda", "bfloat16 autocast", "compiled, PyTorch 2.9.1"),
    ),
    "amp-nchw-pt240-cu124-rtx3090": ("RTX 3090", "cuda", "float16 autocast", "eager, PyTorch 2.4.0"),
    "fp32-nchw-pt240-cpu-i9_10940x-dynamo": ("i9-10940X", "cpu", "float32", "compiled, PyTorch 2.4.0"),
}
_BEFORE_FAMILY = re.compile(r"(?:tf|wide|sam2)_")

Row = dict[str, str]
Fit = Callable[[Sequence["Network"]], Callable[[Cost], float]]
"""From networks to what gives the seconds of a cost."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network that was measured on a device and whose cost is known."""

    name: str
    cost: Cost
    row: MeasuredThroughput
    other_sizes: tuple[MeasuredThroughput, ...]

    @property
    def seconds(self) -> float:
        """Measured, an image."""
        return 1 / self.row.images_per_s

    @property
    def family(self) -> str:
        """By timm's name, without its version: "convnext" of ``convnextv2_tiny``."""
        return family_of(self.name)


def family_of(name: str) -> str:
    """The first letters of a name of timm.

    >>> [family_of(name) for name in ("convnextv2_tiny", "eva02_base_patch14_224", "tf_efficientnet_lite0")]
    ['convnext', 'eva', 'efficientnet']
    """
    return re.split(r"v?\d|_", _BEFORE_FAMILY.sub("", name))[0]


@cache
def _costs() -> dict[str, list[Cost]]:
    """Costs of networks by timm's name, of all cards that name it."""
    found: dict[str, list[Cost]] = {}
    for card in load_catalogue().values():
        library, _, name = card.architecture.backbone.partition(":")
        cost = find_cost(card)
        if cost is not None and library in LIBRARIES:
            found.setdefault(name, []).append(cost)
    return found


def networks(of_device: dict[str, tuple[MeasuredThroughput, ...]]) -> list[Network]:
    """Networks whose cost is known at the size at which they were measured, each at every such size."""
    found = []
    for name, rows in sorted(of_device.items()):
        for row in rows:
            cost = next((cost for cost in _costs().get(name, ()) if is_as_measured(row, cost)), None)
            if cost is not None:
                found.append(Network(name, cost, row, tuple(one for one in rows if one.px != row.px)))
    return found


def rates_of(known: Sequence[Network]) -> tuple[float, ...]:
    """The rates, none negative, with the smallest sum of squared relative errors of the networks' seconds."""
    rows = [[number / one.seconds for number in list_cost_terms(one.cost)] for one in known]
    scales = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    scaled = [[number / scale for number, scale in zip(row, scales, strict=True)] for row in rows]
    size = range(len(scales))
    products = [[sum(row[i] * row[j] for row in scaled) for j in size] for i in size]
    sums = [sum(column) for column in zip(*scaled, strict=True)]
    best, gain = [0.0] * len(scales), 0.0
    for n in size:
        for some in combinations(size, n + 1):
            found = _solved([[products[i][j] for j in some] for i in some], [sums[i] for i in some])
            explained = sum(rate * sums[i] for rate, i in zip(found, some, strict=True))
            if min(found) > 0 and explained > gain:
                gain = explained
                best = [found[some.index(i)] if i in some else 0.0 for i in size]
    return tuple(rate / scale for rate, scale in zip(best, scales, strict=True))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a system of linear equations that is symmetric and positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            row[i:] = [a - factor * b for a, b in zip(row[i:], pivot[i:], strict=True)]
    found = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        found[i] = (rows[i][-1] - sum(rows[i][j] * found[j] for j in range(i + 1, len(rows)))) / rows[i][i]
    return found


def by_rates(known: Sequence[Network]) -> Callable[[Cost], float]:
    """The fit that is shipped."""
    rates = rates_of(known)
    return lambda cost: estimate_seconds(cost, rates)


def log_ratios(known: Sequence[Network], fit: Fit, group: Callable[[Network], object]) -> list[float]:
    """Logarithm of measured by expected speed of each network, with its whole group left out of the fit."""
    expected = {}
    for one in dict.fromkeys(map(group, known)):
        expected[one] = fit([other for other in known if group(other) != one])
    return [math.log(expected[group(one)](one.cost) / one.seconds) for one in known]


def scaled_log_ratios(known: Sequence[Network], rates: Sequence[float]) -> list[float]:
    """Logarithm of measured by expected speed where that is scaled from each other size of the same network."""
    found = []
    for one in known:
        for row in one.other_sizes:
            scaled = estimate_seconds(rescale_cost(row, one.cost), rates) / estimate_seconds(one.cost, rates)
            found.append(math.log(one.row.images_per_s / (row.images_per_s * scaled)))
    return found


def ends(log_ratios: Iterable[float]) -> tuple[float, float]:
    """Factors on an expectation between which the next speed is, at the level of the intervals.

    >>> [round(math.log(end), 2) for end in ends([i / 100 for i in range(1, 20)])]
    [0.01, 0.19]
    """
    ordered = sorted(log_ratios)
    rank = max(1, math.floor((1 - LEVEL) / 2 * (len(ordered) + 1) + 1e-9))
    return math.exp(ordered[rank - 1]), math.exp(ordered[-rank])


def device_row(machine: str, of_device: dict[str, tuple[MeasuredThroughput, ...]]) -> Row:
    """The row of a device, fitted."""
    name, kind, precision, how = MACHINES[machine]
    known = networks(of_device)
    rates = rates_of(known)
    factors = (
        *ends(log_ratios(known, by_rates, lambda one: one.family)),
        *ends(scaled_log_ratios(known, rates)),
    )
    about = dict(
        zip(DEVICE_COLUMNS, (name, kind, precision, how, SOURCE.format(machine), str(len(known))), strict=False)
    )
    return (
        about
        | {column: f"{rate:.6g}" for column, rate in zip(RATES, rates, strict=True)}
        | {column: f"{factor:.4g}" for column, factor in zip(FACTORS, factors, strict=True)}
    )


def speed_rows(path: Path) -> list[Row]:
    """The rows of the file, by device and network."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {
                "device": MACHINES[row["machine"]][0],
                "network": row["timm_architecture"],
                "px": row["image_size"],
                **{name: row[name] for name in ("batch_size", "images_per_s", "gmacs", "params_m")},
            }
            for row in csv.DictReader(file)
        ]
    order = [device for device, *_ in MACHINES.values()]
    return sorted(rows, key=lambda row: (order.index(row["device"]), row["network"], int(row["px"])))


def write(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Writes a table whole or not at all."""
    lines = ["\t".join(columns), *("\t".join(row[name] for name in columns) for row in rows)]
    with replace_file(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="?", type=Path)
    options = parser.parse_args(arguments)
    folder = get_content_folder("metadata")
    if options.csv is not None:
        write(folder / SPEEDS, SPEED_COLUMNS, speed_rows(options.csv))
    rows = [device_row(machine, throughput.load_speeds()[name]) for machine, (name, *_) in MACHINES.items()]
    write(folder / DEVICES, DEVICE_COLUMNS, rows)
    print(f"{len(read_rows(folder / SPEEDS, SPEED_COLUMNS))} speeds, {len(rows)} devices")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
