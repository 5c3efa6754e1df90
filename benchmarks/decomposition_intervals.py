"""How often intervals of the risk decomposition hold the truth: given the probes, and with the probes trained again.

    python benchmarks/decomposition_intervals.py [PROBLEM...] [--repeats 200] [--refits 20] [--truths 1000]

Planted problems, drawn again for each repeat, with the probe of `zoo-logistic-2`, but in float64:

* ``blobs``: four overlapping classes around four points in six dimensions. The best linear probe is well determined.
* ``xor``: two classes, each around two opposite corners of a square. No linear probe is right on more than three
  corners, and chance decides which of many equally bad ones is found, so that probes of the same data disagree.

The truth is the mean of each part over further draws of training and test images. Along with how often both kinds of 95
% intervals hold it stands how wide they are in the mean, and in how many repeats the probes are said to disagree, at
the level of 1 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.evaluation.evaluating import build_probe_maker
from zoo.evaluation.protocols import build_protocol
from zoo.evaluation.risk import RiskReport, decompose
from zoo.features import Features, Origin

N_TRAIN, N_TEST = 240, 80
PARTS = ("approximation_plus_usability", "probe_generalization", "encoder_generalization", "full_shot_error")
CORNERS = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]], float)


def blobs(n: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Features (n, 6) and labels (n,)."""
    means = 1.2 * np.random.default_rng(0).normal(size=(4, 6))
    y = random.permutation(np.arange(n) % 4)
    return means[y] + random.normal(size=(n, 6)), y


def xor(n: int, random: np.random.Generator) -> tuple[Any, Any]:
    """Features (n, 2) and labels (n,)."""
    corner = random.integers(4, size=n)
    return CORNERS[corner] + 0.4 * random.normal(size=(n, 2)), corner // 2


PROBLEMS: dict[str, Callable[[int, np.random.Generator], tuple[Any, Any]]] = {"blobs": blobs, "xor": xor}


def report_of(problem: str, repeat: int, *, n_refits: int, n_bootstrap: int) -> RiskReport:
    """The decomposition of one draw of the images."""
    random = np.random.default_rng([repeat, n_refits > 0])
    parts = []
    for split, n in (("train", N_TRAIN), ("val", N_TEST)):
        x, y = PROBLEMS[problem](n, random)
        origin = Origin(
            encoder="planted", dataset=problem, split=split, weights_hash="w", preprocess_hash="p",
            images_hash=f"{split} {repeat}", representation="card", precision="float32", code_version="planted",
        )  # fmt: skip
        parts.append(Features(x=x.astype(np.float32), y=y.astype(np.int64), origin=origin))
    probe = build_probe_maker(build_protocol("zoo-logistic-2", precision="float64"), device="cpu")
    return decompose(parts[0], parts[1], probe=probe, n_refits=n_refits, n_bootstrap=n_bootstrap, seed=repeat)


def measure(problem: str, *, n_repeats: int, n_refits: int, n_truths: int) -> None:
    """Print one table."""
    begun = time.perf_counter()
    truths = [report_of(problem, repeat, n_refits=0, n_bootstrap=100) for repeat in range(n_truths)]
    truth = {part: float(np.mean([report.intervals[part].value for report in truths])) for part in PARTS}
    spread = {part: float(np.std([report.intervals[part].value for report in truths])) for part in PARTS}
    unstable = sum(report.is_unstable for report in truths)
    held: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for repeat in range(n_repeats):
        report = report_of(problem, repeat, n_refits=n_refits, n_bootstrap=2000)
        assert report.refit is not None
        for kind, intervals in (("given these probes", report.intervals), ("with refits", report.refit.intervals)):
            for part in PARTS:
                one = intervals[part]
                assert one.ci_low is not None and one.ci_high is not None
                held.setdefault((kind, part), []).append(
                    (one.ci_low <= truth[part] <= one.ci_high, one.ci_high - one.ci_low)
                )
        unstable += report.is_unstable
    print(f"{problem}: {n_repeats} repeats of {n_refits} refits, {time.perf_counter() - begun:.0f} s")
    print(f"{'part':30} {'truth':>6} {'sd':>5}   given these probes   with refits")
    for part in PARTS:
        cells = [held[kind, part] for kind in ("given these probes", "with refits")]
        shares = [
            f"{100 * np.mean([hit for hit, _ in cell]):5.1f} % ({np.mean([w for _, w in cell]):4.1f})" for cell in cells
        ]
        print(f"{part:30} {truth[part]:6.1f} {spread[part]:5.1f}   {shares[0]:>18}   {shares[1]:>14}")
    print(f"probes said to disagree: {unstable} of {n_repeats + n_truths}", flush=True)


def main() -> None:
    """Measure each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help="all unless given")
    parser.add_argument("--repeats", type=int, default=200, help="data sets with intervals")
    parser.add_argument("--refits", type=int, default=20, help="resamples of each")
    parser.add_argument("--truths", type=int, default=1000, help="further data sets that the truth is the mean of")
    options = parser.parse_args()
    unknown = set(options.problems) - PROBLEMS.keys()
    if unknown:
        parser.error(f"there is no {sorted(unknown)[0]!r}; expected some of {', '.join(PROBLEMS)}")
    for problem in options.problems or PROBLEMS:
        measure(problem, n_repeats=options.repeats, n_refits=options.refits, n_truths=options.truths)


if __name__ == "__main__":
    main()
