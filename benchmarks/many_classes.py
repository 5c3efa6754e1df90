"""What a linear probe of many classes with few images each takes: another checkout, this one, and scikit-learn.

    python benchmarks/many_classes.py --old CHECKOUT [--classes 500] [--repeats 2] [--growth 125,250,500] [--json]

Everything that ``zoo evaluate`` measures of features that are there already: 1 % of the labels and 3-shot with five
seeds each, full, and nearest neighbours. There are 4 training and 2 test images per class and 48 features, as of
herbaria, products or faces under a small encoder. The two checkouts take turns, each run in a process of its own, whose
processor seconds (user and system) are without imports, and whose peak memory is with them. The command's setting of
OMP_WAIT_POLICY goes with the new side alone, unless ``--as-it-is`` or OMP_NUM_THREADS=1 takes it away. A run of one
class count takes about four times as long with twice as many classes, for with as many images per class a table of
logits has images times classes; ``--images`` fixes the number of images instead.

scikit-learn: ``LogisticRegression`` of the features as they are, all training images, at C of 0.1, 1 and 10; no choice
among them, no seed, no preparation, and no few labels, so that its seconds are of three fits, ours of eleven tuned
probes.

The features are drawn: class means and noise whose spectra fall as those of encoders do, turned so that no feature is
a direction.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

N_TEST = 2  # images per class
DIM = 48
SPREAD = 0.7  # of the class means: a linear probe misses a fifth of 2,000 classes


def drawn(n_classes: int, n_train: int, seed: int) -> list[Any]:
    """Features float32 and labels of training and test images."""
    import numpy as np

    generator = np.random.default_rng(seed)
    ranks = np.arange(1, DIM + 1)
    turn = np.linalg.qr(generator.standard_normal((DIM, DIM)))[0]
    means = SPREAD * generator.standard_normal((n_classes, DIM)) * ranks**-0.4
    found = []
    for n in (n_train, N_TEST * n_classes):
        y = np.arange(n) % n_classes
        x = means[y] + 0.5 * generator.standard_normal((n, DIM)) * ranks**-0.25
        found += [(2.0 * (x @ turn) + 0.4).astype(np.float32), y.astype(np.int64)]
    return found


def spent() -> float:
    """Processor seconds of this process so far, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def evaluated(options: argparse.Namespace) -> dict[str, Any]:
    """The zoo's side, of whichever checkout is imported."""
    import zoo  # before torch, as the command does
    from zoo.evaluation.evaluating import Request, evaluate
    from zoo.features import Features, Origin

    x, y, x_test, y_test = drawn(options.classes, options.images, options.seed)
    parts = []
    for split, rows, labels in (("train", x, y), ("val", x_test, y_test)):
        origin = Origin(
            encoder="drawn", dataset="drawn", split=split, weights_hash="w", preprocess_hash="p",
            images_hash=f"{split} {len(labels)}", representation="card", precision="float32", code_version="zoo 0, 1",
        )  # fmt: skip
        names = tuple(f"class {number}" for number in range(options.classes))
        parts.append(Features(x=rows, y=labels, origin=origin, classes=names))
    began, clock = spent(), time.perf_counter()
    found = evaluate(parts[0], parts[1], Request(device="cpu"))
    return {
        "checkout": str(Path(zoo.__file__).parents[1]),
        "processor seconds": spent() - began,
        "seconds": time.perf_counter() - clock,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "errors": {one.setting.name: round(one.error.value, 3) for one in found.settings},
        "left out": list(found.left_out),
    }


def by_sklearn(options: argparse.Namespace) -> dict[str, Any]:
    """Three fits of all training images."""
    from sklearn.linear_model import LogisticRegression

    x, y, x_test, y_test = drawn(options.classes, options.images, options.seed)
    began, errors = spent(), {}
    for c in (0.1, 1.0, 10.0):
        model = LogisticRegression(C=c, max_iter=1000).fit(x, y)
        errors[f"full, C {c:g}"] = round(100 * float((model.predict(x_test) != y_test).mean()), 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"processor seconds": spent() - began, "peak MB": peak, "errors": errors}


def run(side: str, options: argparse.Namespace, classes: int, images: int) -> dict[str, Any]:
    """One side in a process of its own; ``side`` is a checkout or "scikit-learn"."""
    command = [sys.executable, __file__, "--side", side, "--classes", str(classes), "--images", str(images)]
    environment = os.environ | ({} if side == "scikit-learn" else {"PYTHONPATH": side})
    if side == options.new and not options.as_it_is:
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # which the command sets, and the API leaves alone
    done = subprocess.run(
        [*command, "--seed", str(options.seed)], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """All sides in turns, then the growth of this checkout."""
    sides = [*([options.old] if options.old else []), options.new]
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(options.repeats):
        for side in sides:
            runs[side].append(run(side, options, options.classes, options.images))
            print(f"{side}: {json.dumps(runs[side][-1])}", file=sys.stderr, flush=True)
    record: dict[str, Any] = {"runs": runs}
    seconds = {side: median(one["processor seconds"] for one in of) for side, of in runs.items()}
    record["processor seconds"] = seconds
    if options.old:
        record["new / old"] = seconds[options.new] / seconds[options.old]
    if options.sklearn:
        record["scikit-learn"] = run("scikit-learn", options, options.classes, options.images)
    grown = [int(one) for one in options.growth.split(",") if one]
    per_class = options.images // options.classes
    record["growth"] = {
        n: {"classes and images": run(options.new, options, n, per_class * n),
            "classes alone": run(options.new, options, n, per_class * max(grown))}
        for n in grown
    }  # fmt: skip
    return record


def main() -> None:
    """Run the sides and print them, or one JSON document."""
    parser = argparse.ArgumentParser(description="Processor seconds of probes of many classes with few images each.")
    parser.add_argument("--old", help="checkout to compare with [none]")
    parser.add_argument("--new", default=str(Path(__file__).parents[1]), help="checkout [that of this script]")
    parser.add_argument("--classes", type=int, default=500)
    parser.add_argument("--images", type=int, default=0, help="training images [4 per class]")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--growth", default="", help="numbers of classes, by comma [none]")
    parser.add_argument("--sklearn", action="store_true", help="scikit-learn, too")
    parser.add_argument("--as-it-is", action="store_true", help="leave OMP_WAIT_POLICY alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.images = options.images or 4 * options.classes
    if options.side:
        print(json.dumps(by_sklearn(options) if options.side == "scikit-learn" else evaluated(options)))
        return
    load = os.getloadavg()
    record = {"options": vars(options), "load before": load, **compared(options), "load after": os.getloadavg()}
    if options.json:
        print(json.dumps(record, indent=1))
        return
    for name, value in record.items():
        print(f"{name:20} {json.dumps(value)}")


if __name__ == "__main__":
    main()
