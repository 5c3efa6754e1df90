"""Measures the randomised population, into ``results/randomised/`` of this checkout.

    python scripts/measure_randomised.py [NAME...] [--processes 2] [--scratch DIR] [--out DIR]

What ``zoo evaluate`` and ``zoo metric`` do, for every encoder of ``metadata/randomised.toml``: on Fashion-MNIST errors
in every label setting, nearest neighbours, the risk decomposition with the supervised twin of the architecture, and
label-free metrics of 10 views of 1,000 images; on digits and shapes errors. MINE is left out, for it alone takes longer
than all others. Features and probes are kept in the scratch folder, so the script may be killed at any time. A metric
that an encoder's features or augmentations do not allow has no row; why is printed. So is a number that comes out other
than its row, which stays; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.datasets import ImageData, open_images
from zoo.evaluation.evaluating import (
    Request,
    evaluate,
    featurise_data,
    get_runs_folder,
    make_evaluation_rows,
)
from zoo.evaluation.label_free.measuring import MetricResult, compute_metric_inputs, make_metric_rows, measure
from zoo.files import get_content_folder, get_evaluations_folder
from zoo.results.recording import RecordedNumbers, record
from zoo.results.vocabulary import LABEL_FREE_METRICS

FAMILY, OWN, OTHERS = "randomised", "fashion-mnist", ("digits", "shapes")
N, Q = 1000, 10
N_SUBSETS = 1  # of 10,000 images each, held out for the probe generalization; more would take twice as long
# The probes' default of 1e-4 takes float64, and hours, and moves the parts of the risk by 0.01 points.
PROBE = {"tol": 1e-2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What measuring one encoder gave."""

    encoder: str
    n_new: int  # rows that were not there before
    seconds: float
    refused: tuple[str, ...]  # a line for each reason why metrics have no value
    differing: tuple[str, ...]  # a line for each number that is recorded otherwise


def cards() -> dict[str, EncoderCard]:
    """Every encoder of the family, twins among them."""
    return {card.id: card for card in load_catalogue().with_unlisted.values() if card.family == FAMILY}


def twin_of(card: EncoderCard) -> str:
    """The id of the supervised twin of an encoder's architecture."""
    twins = (one for one in cards().values() if "_twin_" in one.id)
    return next(one.id for one in twins if one.architecture.exact == card.architecture.exact)


def measured(name: str, scratch: Path, out: Path, *, images: Callable[[str], ImageData] = open_images) -> Outcome:
    """Measures one encoder and records the rows below ``out``."""
    torch.set_num_threads(1)
    start, card = time.perf_counter(), load_catalogue()[name]
    recorded: list[RecordedNumbers] = []
    kept = get_runs_folder(scratch, FAMILY)  # one for all, so that the probe of a twin is trained once
    for place in (OWN, *OTHERS):
        data = images(place)
        features = featurise_data(name, data, root=scratch)
        request = Request(changed=PROBE)
        if place == OWN:
            twin = featurise_data(twin_of(card), data, root=scratch, parts=("train",))["train"]
            request = Request(decompose=True, supervised=twin, n_subsets=N_SUBSETS, changed=PROBE)
        evaluation = evaluate(features["train"], features["val"], request, card=card, cache=kept)
        recorded.append(record(make_evaluation_rows(evaluation), folder=out, differing="tell"))
    names = [one.name for one in LABEL_FREE_METRICS.values() if one.needs != "pixels"]
    needs = {LABEL_FREE_METRICS[one].needs for one in names}
    inputs = compute_metric_inputs(name, images(OWN), needs, target=images(OTHERS[0]), n=N, q=Q, root=scratch)
    found = list(measure(names, inputs))
    recorded.append(record(make_metric_rows(found, inputs), folder=out, differing="tell"))
    return Outcome(
        encoder=name,
        n_new=sum(one.n_new for one in recorded),
        seconds=time.perf_counter() - start,
        refused=refusals(found),
        differing=tuple(f"{Path(d.place).name}: {d.change}" for one in recorded for d in one.differences),
    )


def refusals(found: Iterable[MetricResult]) -> tuple[str, ...]:
    """A line for each reason why metrics have no value, with the metrics."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        if one.value is None:
            by_reason.setdefault(one.reason, []).append(one.metric.name)
    return tuple(f"{', '.join(metrics)}: {reason}" for reason, metrics in by_reason.items())


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders of the population; all but the twins unless given")
    parser.add_argument("--processes", type=int, default=2, help="how many at once, each on one thread")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of features and probes")
    parser.add_argument("--out", type=Path, default=get_content_folder("results") / FAMILY, help="folder of the rows")
    options = parser.parse_args()
    family = cards()
    if unknown := [name for name in options.names if name not in family]:
        parser.error(f"{unknown[0]} is no encoder of the family {FAMILY}; see 'zoo list {FAMILY}'")
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in family if (name in options.names if options.names else "_twin_" not in name)]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(measured, name, options.scratch, options.out) for name in wanted]
        n_differing = 0
        for run in as_completed(runs):
            done = run.result()
            print(f"{done.encoder:20} {done.n_new:4} new rows {done.seconds:7.1f} s", flush=True)
            for line in done.refused:
                print(f"    not measured: {line}", flush=True)
            for line in done.differing:
                print(f"    not as recorded: {line}", flush=True)
            n_differing += len(done.differing)
    if n_differing:
        raise SystemExit(f"{n_differing} numbers are recorded otherwise, and stay so.")


if __name__ == "__main__":
    main()
