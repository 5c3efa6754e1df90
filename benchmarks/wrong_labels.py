"""How many planted wrong labels are found first, and how many of all, compared with the lowest probability of the
label.

    python benchmarks/wrong_labels.py [--share 0.03] [--seeds 5] [--features FOLDER] [--json]

Of a share of the training images the label is replaced: by another class drawn at random ("any"), or by the class that
the probe takes theirs for most often ("like"). Labels are then checked by ``zoo.looking.mistakes.find_wrong_labels``,
with five folds and settings chosen on the replaced labels. All rankings have the same out-of-sample probabilities:

* zoo: by the ratio of the probabilities of the label and the most probable other class.
* margin: by their difference, the normalised margin of confident learning.
* lowest: by the probability of the label.

First: percent of the first 50 that are planted (of digits at most 80, for 40 are). Found: percent of the planted labels
among all that the zoo names, which are those that are less probable than another class; of the other rankings among as
many. Means over seeds. Images have wrong and ambiguous labels of their own, which count as errors here.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np

from zoo.datasets import open_images
from zoo.evaluation.evaluating import featurise_data
from zoo.features import Features
from zoo.files import get_evaluations_folder
from zoo.looking import mistakes

CASES = (
    ("digits", "pocket_simclr_rn_shapes"),
    ("digits", "pocket_sup_rn_shapes"),
    ("shapes", "pocket_simclr_rn_shapes"),
    ("shapes", "pocket_sup_rn_shapes"),
    ("fashion-mnist:/usr/share/datasets/fashion-mnist", "sup_efficientnet_lite0"),
)
MOST_IMAGES = 10_000  # the first ones of the training part
FIRST = 50


def features_of(images: str, encoder: str, root: Path) -> Features:
    """Features of the training part, or of its first images."""
    data = open_images(images)
    if len(data.train) > MOST_IMAGES:
        data = replace(data, train=data.train.subset(np.arange(MOST_IMAGES), split="train"))
    return featurise_data(encoder, data, root=root, parts=("train",))["train"]


def out_of_sample(features: Features, y: np.ndarray, seed: int) -> tuple[mistakes.WrongLabels, np.ndarray]:
    """Wrong labels as the zoo finds them, and the probabilities that it finds them by."""
    kept: list[np.ndarray] = []
    ranked = mistakes.find_contradicted

    def watched(p: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, int]:
        kept.append(p)
        return ranked(p, labels)

    names = list(map(str, range(len(y))))
    with mock.patch.object(mistakes, "find_contradicted", watched):
        found = mistakes.find_wrong_labels(replace(features, y=y, names=names), seed=seed)
    return found, kept[0]


def measured(features: Features, probabilities: np.ndarray, *, kind: str, share: float, seed: int) -> dict[str, float]:
    """The shares of one draw, and the seconds it took."""
    rng = np.random.default_rng(seed)
    n, n_classes, every = len(features.y), len(features.classes), np.arange(len(features.y))
    planted, y = rng.permutation(n)[: round(share * n)], features.y.copy()
    if kind == "like":
        total = np.stack([probabilities[features.y == c].sum(axis=0) for c in range(n_classes)])
        np.fill_diagonal(total, 0)
        y[planted] = total.argmax(axis=1)[y[planted]]
    else:
        y[planted] = (y[planted] + rng.integers(1, n_classes, len(planted))) % n_classes
    started = perf_counter()
    found, p = out_of_sample(features, y, seed)
    seconds = perf_counter() - started
    own, others = p[every, y], p.copy()
    others[every, y] = 0
    rankings = {
        "zoo": own / others.max(axis=1),
        "margin": own - others.max(axis=1),
        "lowest": own,
    }
    shares = {"planted": len(planted), "named": found.n_found, "confident": found.n_confident, "seconds": seconds}
    for name, scores in rankings.items():
        is_planted = np.isin(np.argsort(scores, kind="stable"), planted)
        shares[f"{name}_first"] = 100 * float(is_planted[:FIRST].mean())
        shares[f"{name}_found"] = 100 * float(is_planted[: found.n_found].sum() / len(planted))
    return shares


def main() -> None:
    """Measures and prints a line a case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=0.03, help="of the labels that are flipped")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--features", type=Path, default=None, help="where features are kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    root = options.features or get_evaluations_folder()
    rows = []
    for images, encoder in CASES:
        features = features_of(images, encoder, root)
        _, probabilities = out_of_sample(features, features.y, 0)
        for kind in ("any", "like"):
            asked = {"kind": kind, "share": options.share}
            draws = [measured(features, probabilities, **asked, seed=seed) for seed in range(options.seeds)]
            mean = {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
            one: dict[str, Any] = {"images": images.partition(":")[0], "encoder": encoder, "kind": kind, **mean}
            rows.append(one)
            if not options.json:
                told = "; ".join(
                    f"{name} first {one[f'{name}_first']:.0f} found {one[f'{name}_found']:.0f}"
                    for name in ("zoo", "margin", "lowest")
                )
                print(
                    f"{one['images']}, {encoder}, {kind}: {len(features.y):,} labels, {one['planted']:.0f} planted, "
                    f"{one['named']:.0f} named, {one['confident']:.0f} confidently; {told}; {one['seconds']:.1f} s",
                    flush=True,
                )
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
