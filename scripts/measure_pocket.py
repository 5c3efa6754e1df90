"""Measures the toy encoders on its two image sets and Fashion-MNIST, into ``results/measured/`` of this checkout.

    python scripts/measure_pocket.py [NAME...] [--only probes|label-free] [--fashion-mnist FOLDER] [--scratch DIR] \
        [--out DIR]

What `zoo evaluate --decompose` and `zoo metric` do, for every encoder of ``metadata/pocket.toml``: errors in every
label setting and the risk decomposition on each set, with the supervised twin of the architecture where there is one
for the images. The parts mean what they say on the images that an encoder was pretrained on; elsewhere their
generalization compares two draws of new images. Fashion-MNIST is that of ``measure_packages.py``, if FOLDER is given.
Label-free metrics are of the two sets of the toy encoders: 10 views of 1,000 images, and the other set as the one to
transfer to; MINE is left out, for it alone takes longer than all others. Cluster learnability is measured with several
numbers of clusters and neighbours. Rows that are there already must come out again, to the last digit. Half an hour on
two cores; run ``make docs`` afterwards.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from measure_packages import fashion_mnist

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
from zoo.evaluation.label_free.measuring import compute_metric_inputs, make_metric_rows, measure
from zoo.features import Features
from zoo.files import get_content_folder, get_evaluations_folder
from zoo.results.recording import record
from zoo.results.vocabulary import LABEL_FREE_METRICS

FAMILY = "pocket"
DATA_SETS = ("shapes", "digits")
N, Q = 1000, 10
N_CLUSTERS, K = (10, 20, 70, 200, 500), (1, 5, 20)


def pocket() -> list[EncoderCard]:
    """Every toy encoder."""
    return [card for card in load_catalogue().values() if card.family == FAMILY]


def twin_of(card: EncoderCard, dataset: str) -> EncoderCard | None:
    """The network of the same architecture that was trained with the labels of this data set."""
    for other in pocket():
        supervised = other.objective.mode == "supervised" and other.pretraining.dataset == dataset
        if supervised and other.architecture.exact == card.architecture.exact:
            return other
    return None


def measured(card: EncoderCard, data: ImageData, root: Path, out: Path) -> int:
    """Measures one encoder on one data set; the number of rows that are new."""
    features = featurise_data(card.id, data, root=root)
    twin = twin_of(card, data.name)
    supervised: Features | None = None
    if twin is not None:
        supervised = featurise_data(twin.id, data, root=root, parts=("train",))["train"]
    request = Request(decompose=True, supervised=supervised)
    kept = get_runs_folder(root, card.id)
    evaluation = evaluate(features["train"], features["val"], request, card=card, cache=kept)
    return record(make_evaluation_rows(evaluation), folder=out).n_new


def label_free(card: EncoderCard, data: ImageData, target: ImageData, root: Path, out: Path) -> int:
    """Measures what needs no labels; the number of rows that are new."""
    names = [one.name for one in LABEL_FREE_METRICS.values() if one.needs != "pixels"]
    needs = {LABEL_FREE_METRICS[name].needs for name in names}
    inputs = compute_metric_inputs(card.id, data, needs, target=target, n=N, q=Q, root=root)
    found = list(measure(names, inputs))
    grid = [{"n_clusters": n_clusters, "k": k} for n_clusters in N_CLUSTERS for k in K]
    for setting in grid:
        found += measure(["cluster_learnability"], inputs, options={"cluster_learnability": setting})
    return record(make_metric_rows(found, inputs), folder=out).n_new


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="toy encoders; all unless given")
    parser.add_argument("--only", choices=["probes", "label-free"], help="what is measured; both unless given")
    parser.add_argument("--fashion-mnist", type=Path, help="folder of its four .gz files; left out unless given")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of features and probes")
    parser.add_argument(
        "--out", type=Path, default=get_content_folder("results") / "measured", help="folder of the rows"
    )
    options = parser.parse_args()
    wanted = [card for card in pocket() if not options.names or card.id in options.names]
    sets = {name: open_images(name) for name in DATA_SETS}
    if options.fashion_mnist and options.only != "label-free":
        images = fashion_mnist(options.fashion_mnist)
        sets[images.name] = images
    for name, data in sets.items():
        for card in wanted:
            start = time.perf_counter()
            n_new = 0
            if options.only != "label-free":
                n_new += measured(card, data, options.scratch, options.out)
            if options.only != "probes" and name in DATA_SETS:
                other = sets[next(one for one in DATA_SETS if one != name)]
                n_new += label_free(card, data, other, options.scratch, options.out)
            print(f"{name:16} {card.id:32} {n_new:3} new rows {time.perf_counter() - start:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
