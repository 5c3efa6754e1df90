"""Measures encoders by probes on their maps, into ``results/measured/`` of this checkout.

    python scripts/measure_maps.py [NAME...] [--only masks|attentive] [--sets NAME,...] [--fashion-mnist FOLDER]
        [--scratch DIR] [--out DIR]

What ``zoo segment`` measures on the masks of the rendered shapes, and ``zoo evaluate --probe attentive`` with all
labels on shapes, digits and Fashion-MNIST (that of ``measure_packages.py``, if FOLDER is given), of every toy encoder
and of those whose weights come in packages: of the map that each pools, at its card's size. Rows that are there
already must come out again. Hours on two cores; run ``make docs`` afterwards.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from measure_packages import fashion_mnist, packaged
from measure_pocket import DATA_SETS, pocket

from zoo.datasets import DenseData, ImageData, open_dense, open_images
from zoo.evaluation.evaluating import Request, evaluate, get_runs_folder, make_evaluation_rows
from zoo.evaluation.segmentation_rows import make_segmentation_rows
from zoo.evaluation.segmentation_runs import measure_segmentation
from zoo.features import featurise_maps
from zoo.files import get_content_folder, get_evaluations_folder
from zoo.results.recording import record


def measure_masks(name: str, data: DenseData, root: Path, out: Path) -> int:
    """Measures one encoder on masks; the number of rows that are new."""
    (variant,) = measure_segmentation([name], data, root=root)
    return record(make_segmentation_rows(variant), folder=out).n_new


def measure_attentive(name: str, data: ImageData, root: Path, out: Path) -> int:
    """Measures one encoder by an attentive probe with all labels; the number of rows that are new."""
    (maps,) = featurise_maps(name, data, root=root).values()
    request = Request(probe="attentive", settings=("full",))
    evaluation = evaluate(maps["train"], maps["val"], request, cache=get_runs_folder(root, f"{name}@map"))
    return record(make_evaluation_rows(evaluation), folder=out).n_new


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all of both kinds unless given")
    parser.add_argument("--only", choices=["masks", "attentive"], help="what is measured; both unless given")
    parser.add_argument("--sets", default=",".join(DATA_SETS), help="of the attentive probe, by comma")
    parser.add_argument("--fashion-mnist", type=Path, help="folder of its four .gz files; left out unless given")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of maps")
    parser.add_argument(
        "--out", type=Path, default=get_content_folder("results") / "measured", help="folder of the rows"
    )
    options = parser.parse_args()
    masks = open_dense("shapes", task="segmentation")
    sets = [open_images(name) for name in filter(None, options.sets.split(","))]
    if options.fashion_mnist:
        sets.append(fashion_mnist(options.fashion_mnist))
    for name in options.names or [card.id for card in (*pocket(), *packaged())]:
        work: list[tuple[str, Any, Any]] = (
            [("masks of shapes", measure_masks, masks)] if options.only != "attentive" else []
        )
        work += [(data.name, measure_attentive, data) for data in sets if options.only != "masks"]
        for words, measure, data in work:
            start = time.perf_counter()
            n_new = measure(name, data, options.scratch, options.out)
            print(f"{words:16} {name:32} {n_new:3} new rows {time.perf_counter() - start:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
