"""How far speeds expected on measured devices are off, of networks, families and devices that are left out.

    python benchmarks/throughput.py

Networks are those of ``metadata/throughput.tsv`` whose cost is known at the size of images at which they were measured.
In each part a line per device: median and 90th percentile of the absolute relative error of images per second, and how
many of 100 measured speeds are within the interval.

* One network left out, and one family (by the first letters of timm's name): the rates that are shipped, against a
  straight line of logarithms of seconds by operations alone, and by parameters alone. The interval of a family has its
  ends from the errors of the other families; that of a network has the ends that are shipped.
* Another size: the speed at one size of images scaled from each other size of the same network, against the square of
  the side.
* One device left out: its speeds from those of another device, and from the mean of all others, after one scale: the
  median ratio over all networks, or the ratio of one network, ResNet-50 at 224 px.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.throughput import Fit, Network, by_rates, ends, log_ratios, networks, rates_of, scaled_log_ratios
from zoo.cards.costs import Cost
from zoo.cards.throughput import list_devices, load_speeds

SCALED_BY = ("resnet50", 224)


def by_line(of: Callable[[Cost], float]) -> Fit:
    """A straight line of the logarithm of seconds by that of one number."""

    def fit(known: Sequence[Network]) -> Callable[[Cost], float]:
        line = statistics.linear_regression(
            [math.log(of(one.cost)) for one in known], [math.log(one.seconds) for one in known]
        )
        return lambda cost: math.exp(line.intercept + line.slope * math.log(of(cost)))

    return fit


FITS: dict[str, Fit] = {
    "rates": by_rates,
    "GFLOPs only": by_line(lambda cost: cost.gflops),
    "parameters only": by_line(lambda cost: cost.parameter_bytes),
}


def errors(log_ratios: Sequence[float]) -> str:
    """Median and 90th percentile of the relative error of the expected speed, in percent."""
    found = sorted(abs(math.expm1(-ratio)) for ratio in log_ratios)
    return f"{100 * statistics.median(found):5.0f} {100 * found[math.ceil(0.9 * len(found)) - 1]:5.0f}"


def share_within(log_ratios: Sequence[float], of_each: Sequence[tuple[float, float]]) -> str:
    """How many of 100 are within their intervals."""
    inside = [low <= math.exp(ratio) <= high for ratio, (low, high) in zip(log_ratios, of_each, strict=True)]
    return f"{100 * statistics.mean(inside):5.0f}"


def family_ends(known: Sequence[Network], found: Sequence[float]) -> list[tuple[float, float]]:
    """The ends of the interval of each network, from the errors of other families."""
    pairs = list(zip(known, found, strict=True))
    of_family = {
        family: ends(ratio for other, ratio in pairs if other.family != family)
        for family in {one.family for one in known}
    }
    return [of_family[one.family] for one in known]


def left_out_networks() -> None:
    groups: dict[str, Callable[[Network], object]] = {"network": lambda one: one.name, "family": lambda one: one.family}
    for what, group in groups.items():
        print(f"\none {what} left out: median and 90th percentile of errors, percent; in 100 intervals")
        print(f"{'':20}{'n':>5}" + "".join(f"{name:>20}" for name in FITS))
        for device in list_devices():
            known = networks(load_speeds()[device.name])
            cells = []
            for fit in FITS.values():
                found = log_ratios(known, fit, group)
                of_each = family_ends(known, found)
                if what == "network":
                    of_each = [ends(log_ratios(known, fit, lambda one: one.family))] * len(known)
                cells.append(f"{errors(found)} {share_within(found, of_each)}")
            print(f"{device.name:20}{len(known):5}" + "".join(f"{cell:>20}" for cell in cells))


def other_sizes() -> None:
    print("\nscaled from another size: median and 90th percentile of errors, percent")
    print(f"{'':20}{'n':>5}{'rates':>20}{'square of side':>20}")
    for device in list_devices():
        known = networks(load_speeds()[device.name])
        scaled = scaled_log_ratios(known, rates_of(known))
        squares = [
            math.log(one.row.images_per_s * one.cost.px**2 / (row.images_per_s * row.px**2))
            for one in known
            for row in one.other_sizes
        ]
        print(f"{device.name:20}{len(scaled):5}{errors(scaled):>20}{errors(squares):>20}")


def left_out_devices() -> None:
    rates = {
        device.name: {
            (name, row.px): math.log(row.images_per_s)
            for name, rows in load_speeds()[device.name].items()
            for row in rows
        }
        for device in list_devices()
    }
    common = sorted(set.intersection(*map(set, rates.values())))
    print(
        f"\none device left out: errors over {len(common)} networks and sizes, percent; scaled by all, by one network"
    )
    print(f"{'from':20}" + "".join(f"{'to ' + name:>26}" for name in rates))
    sources = {**{name: [name] for name in rates}, "mean of all others": list(rates)}
    for source, several in sources.items():
        cells = []
        for target in rates:
            others = [name for name in several if name != target]
            if not others:
                cells.append("-")
                continue
            ratios = {key: rates[target][key] - statistics.mean(rates[name][key] for name in others) for key in common}
            by_all, by_one = statistics.median(ratios.values()), ratios[SCALED_BY]
            cells.append(" ".join(errors([ratio - scale for ratio in ratios.values()]) for scale in (by_all, by_one)))
        print(f"{source:20}" + "".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    left_out_networks()
    other_sizes()
    left_out_devices()
