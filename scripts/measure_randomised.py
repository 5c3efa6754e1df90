"""Measures the randomised population, into ``results/randomised/`` of this checkout.

    python scripts/measure_randomised.py [NAME...] [--processes 2] [--scratch DIR] [--out DIR]

What ``zoo evaluate`` and ``zoo metric`` do, for every encoder of ``metadata/randomised.toml``: on Fashion-MNIST errors
in every label setting, nearest neighbours, the risk decomposition with the supervised twin of the architecture, and
label-free metrics of 10 views of 1,000 images; on digits and shapes errors. MINE is left out, for it alone takes longer
than all others. What is measured already is not measured again, so the script may be killed at any time.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

from zoo.cards.catalogue import catalogue
from zoo.cards.schema import EncoderCard
from zoo.datasets import open_images
from zoo.evaluation.evaluating import (
    Request,
    evaluate,
    evaluations_folder,
    featurise_data,
    rows_of_evaluation,
    runs_folder,
)
from zoo.evaluation.label_free.inputs import inputs_of
from zoo.evaluation.label_free.measuring import measure, rows_of_measured
from zoo.files import content_folder
from zoo.results.recording import record
from zoo.results.vocabulary import LABEL_FREE_METRICS

FAMILY, OWN, OTHERS = "randomised", "fashion-mnist", ("digits", "shapes")
N, Q = 1000, 10
N_SUBSETS = 1  # of 10,000 images each, held out for the probe generalization; more would take twice as long
# The probes' default of 1e-4 takes float64, and hours, and moves the parts of the risk by 0.01 points.
PROBE = {"tol": 1e-2}


def cards() -> dict[str, EncoderCard]:
    """Every encoder of the family, twins among them."""
    return {card.id: card for card in catalogue().with_unlisted.values() if card.family == FAMILY}


def twin_of(card: EncoderCard) -> str:
    """The id of the supervised twin of an encoder's architecture."""
    twins = (one for one in cards().values() if "_twin_" in one.id)
    return next(one.id for one in twins if one.architecture.exact == card.architecture.exact)


def measured(name: str, scratch: Path, out: Path) -> tuple[str, int, float]:
    """Measures one encoder; its name, the number of rows that are new, and seconds."""
    torch.set_num_threads(1)
    start, card, n_new = time.perf_counter(), catalogue()[name], 0
    kept = runs_folder(scratch, FAMILY)  # one for all, so that the probe of a twin is trained once
    for place in (OWN, *OTHERS):
        data = open_images(place)
        features = featurise_data(name, data, root=scratch)
        request = Request(changed=PROBE)
        if place == OWN:
            twin = featurise_data(twin_of(card), data, root=scratch, parts=("train",))["train"]
            request = Request(decompose=True, supervised=twin, n_subsets=N_SUBSETS, changed=PROBE)
        evaluation = evaluate(features["train"], features["val"], request, card=card, cache=kept)
        n_new += record(rows_of_evaluation(evaluation), folder=out).n_new
    names = [one.name for one in LABEL_FREE_METRICS.values() if one.needs != "pixels"]
    needs = {LABEL_FREE_METRICS[one].needs for one in names}
    inputs = inputs_of(name, open_images(OWN), needs, target=open_images(OTHERS[0]), n=N, q=Q, root=scratch)
    n_new += record(rows_of_measured(list(measure(names, inputs)), inputs), folder=out).n_new
    return name, n_new, time.perf_counter() - start


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders of the population; all but the twins unless given")
    parser.add_argument("--processes", type=int, default=2, help="how many at once, each on one thread")
    parser.add_argument("--scratch", type=Path, default=evaluations_folder(), help="folder of features and probes")
    parser.add_argument("--out", type=Path, default=content_folder("results") / FAMILY, help="folder of the rows")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in cards() if (name in options.names if options.names else "_twin_" not in name)]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        runs = [pool.submit(measured, name, options.scratch, options.out) for name in wanted]
        for run in as_completed(runs):
            name, n_new, seconds = run.result()
            print(f"{name:20} {n_new:4} new rows {seconds:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
