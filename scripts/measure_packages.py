"""Measures the encoders whose weights come in Python packages, into ``results/measured/`` of this checkout.

    python scripts/measure_packages.py [NAME...] [--fashion-mnist FOLDER] [--scratch DIR] [--out DIR]

What ``zoo evaluate --decompose`` does, on digits and shapes, and on Fashion-MNIST if FOLDER has its four files, as that
of Debian's package ``dataset-fashion-mnist`` does (``/usr/share/datasets/fashion-mnist``): the first 10,000 images of
its training set, which are in random order, and the first 2,000 test images, under the name ``fashionmnist-10k``; all
of the 70,000 would take hours on one core. These encoders saw none of the images, so that
their encoder generalization compares two draws of new images. Half an hour per encoder on one core; run ``make docs``
afterwards.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.datasets import ImageData, array_images, open_images, pixels_of
from zoo.evaluation.evaluating import (
    Request,
    evaluate,
    featurise_data,
    get_runs_folder,
    make_evaluation_rows,
)
from zoo.files import get_content_folder, get_evaluations_folder
from zoo.results.recording import record

NAME = "fashionmnist-10k"
N_IMAGES = {"train": 10_000, "val": 2_000}  # a decomposition needs more images to train on than to test on


def packaged() -> list[EncoderCard]:
    """Every encoder whose weights come in a package."""
    return [card for card in load_catalogue().values() if str(card.weights.url).startswith("package:")]


def fashion_mnist(folder: Path) -> ImageData:
    """The first training images and the first test images, whose classes are named by their numbers in the rows."""
    whole = open_images(f"fashion-mnist:{folder}")
    parts = {}
    for part, images in (("train", whole.train), ("val", whole.val)):
        first = images.subset(range(N_IMAGES[part]), split=part)
        parts[part] = array_images(pixels_of(first), first.labels, name=NAME, split=part, classes="0123456789")
    return ImageData(name=NAME, **parts)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all whose weights come in packages unless given")
    parser.add_argument("--fashion-mnist", type=Path, help="folder of its four .gz files; left out unless given")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of features and probes")
    parser.add_argument(
        "--out", type=Path, default=get_content_folder("results") / "measured", help="folder of the rows"
    )
    options = parser.parse_args()
    sets = [open_images("digits"), open_images("shapes")]
    if options.fashion_mnist:
        sets.append(fashion_mnist(options.fashion_mnist))
    for card in packaged():
        for data in sets if not options.names or card.id in options.names else ():
            start = time.perf_counter()
            features = featurise_data(card.id, data, root=options.scratch)
            cache = get_runs_folder(options.scratch, card.id)
            evaluation = evaluate(features["train"], features["val"], Request(decompose=True), card=card, cache=cache)
            n_new = record(make_evaluation_rows(evaluation), folder=options.out).n_new
            print(f"{data.name:16} {card.id:24} {n_new:3} new rows {time.perf_counter() - start:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
