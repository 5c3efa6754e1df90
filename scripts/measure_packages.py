"""Measures the encoders whose weights come in Python packages, into ``results/measured/`` of this checkout.

    python scripts/measure_packages.py [NAME...] [--fashion-mnist FOLDER] [--scratch DIR] [--out DIR]

What ``zoo evaluate --decompose`` does, on digits and shapes, and on Fashion-MNIST if FOLDER has its four files, as
that of Debian's package ``dataset-fashion-mnist`` does (``/usr/share/datasets/fashion-mnist``): the first 10,000
images of its training set, which are in random order, and the first 2,000 test images, under the name
``fashionmnist-10k``; all of the 70,000 would take hours on one core. These encoders saw none of the images, so that
their encoder generalization compares two draws of new images. Half an hour an encoder on one core; run ``make docs``
afterwards.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np

from zoo.cards.catalogue import catalogue
from zoo.cards.schema import EncoderCard
from zoo.datasets import ImageData, open_images
from zoo.evaluation.evaluating import (
    Request,
    evaluate,
    evaluations_folder,
    featurise_data,
    rows_of_evaluation,
    runs_folder,
)
from zoo.files import content_folder
from zoo.results.recording import record

N_IMAGES = {"train": 10_000, "val": 2_000}  # a decomposition needs more images to train on than to test on


def packaged() -> list[EncoderCard]:
    """Every encoder whose weights come in a package."""
    return [card for card in catalogue().values() if str(card.weights.url).startswith("package:")]


def idx(path: Path) -> np.ndarray:
    """The bytes of a file of the IDX format: images (n, rows, columns) or labels (n,)."""
    content = gzip.decompress(path.read_bytes())
    n_axes = content[3]
    shape = np.frombuffer(content, dtype=">i4", count=n_axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def fashion_mnist(folder: Path, scratch: Path) -> ImageData:
    """The first training images and the first test images."""
    parts = {}
    for part, name in (("train", "train"), ("val", "t10k")):
        n = N_IMAGES[part]
        parts[f"x_{part}"] = idx(folder / f"{name}-images-idx3-ubyte.gz")[:n]
        parts[f"y_{part}"] = idx(folder / f"{name}-labels-idx1-ubyte.gz")[:n]
    path = scratch / "fashionmnist-10k.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **parts)
    return open_images(path, name="fashionmnist-10k")


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all whose weights come in packages unless given")
    parser.add_argument("--fashion-mnist", type=Path, help="folder of its four .gz files; left out unless given")
    parser.add_argument("--scratch", type=Path, default=evaluations_folder(), help="folder of features and probes")
    parser.add_argument("--out", type=Path, default=content_folder("results") / "measured", help="folder of the rows")
    options = parser.parse_args()
    sets = [open_images("digits"), open_images("shapes")]
    if options.fashion_mnist:
        sets.append(fashion_mnist(options.fashion_mnist, options.scratch))
    for card in packaged():
        for data in sets if not options.names or card.id in options.names else ():
            start = time.perf_counter()
            features = featurise_data(card.id, data, root=options.scratch)
            cache = runs_folder(options.scratch, card.id)
            evaluation = evaluate(features["train"], features["val"], Request(decompose=True), card=card, cache=cache)
            n_new = record(rows_of_evaluation(evaluation), folder=options.out).n_new
            print(f"{data.name:16} {card.id:24} {n_new:3} new rows {time.perf_counter() - start:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
