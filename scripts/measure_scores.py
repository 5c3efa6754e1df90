"""Measures what scores of a few labels say of encoders, for the study ``do_transferability_scores_predict``.

    python scripts/measure_scores.py [NAME...] [--fashion-mnist FOLDER] [--scratch DIR] [--out DIR] [--minutes M]

The toy encoders and those whose weights come in Python packages, on digits, rendered shapes (of another seed
than those that these were pretrained on) and the first images of Fashion-MNIST (as Debian's package
``dataset-fashion-mnist`` has them). For each image set, number of labels per class and seed a balanced subset of the
training part is drawn; every score and every probe sees exactly these labels, and the truth is the error on the whole
test part of the probe that ``zoo choose`` trains on all of them (``zoo-logistic-3``). Smaller subsets of a seed lie
within its larger ones.

What is finished is kept in the scratch folder, seed by seed, so that the script may be killed at any time and a new
score costs only itself. Seconds are those of the processor with one thread, of all scores and probes alternately in
one run at the end. Written are ``scores.csv.gz`` (a row per data set, number of labels, seed and encoder),
``seconds.csv`` (of the first draw) and ``provenance.toml``. Featurising takes half an hour on one core, the rest
as long.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from zoo.cards.catalogue import load_catalogue
from zoo.choosing.scoring import Task, build_logistic_scorer
from zoo.datasets import ImageData, open_images
from zoo.datasets.subsets import balanced
from zoo.evaluation.evaluating import featurise_data
from zoo.evaluation.label_free.rank import compute_spectrum, matrix_entropy, nesum, rankme, stable_rank
from zoo.evaluation.logistic import LogisticProbe
from zoo.evaluation.transferability.components import centre_labelled
from zoo.evaluation.transferability.leave_one_out import fit_ridge, neighbour_predictions, ridge_predictions
from zoo.evaluation.transferability.scores import gbc, h_score, logme, nleep, transrate
from zoo.features import featurise
from zoo.files import get_content_folder, get_evaluations_folder, replace_file
from zoo.loading import load

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package
FASHION_IMAGES = 3_000  # of either part
SHAPES = "shapes:train=3000,val=3000,seed=1"
N_CLASSES = 10  # of the shapes, their first ones, so that chance is the same in all sets
BUDGETS = (5, 20, 100)  # labels per class
N_SEEDS = 20
N_TIMED = 1  # draws of which seconds are the median
N_REPEATS = 3  # of featurising some images
FIXED_C = 100.0  # of a probe that chooses nothing, over the mean squared distance of the features from their mean
FIXED_TOL = 1e-3  # of its objective
TINY = 1e-12  # of a probability, for its logarithm
PROTOCOL = "zoo-logistic-3"
STUDY = "do_transferability_scores_predict"
Values = dict[str, float]


def encoders() -> list[str]:
    """The toy encoders, and what comes in packages."""
    return [
        card.id
        for card in load_catalogue().values()
        if card.family == "pocket" or str(card.weights.url).startswith("package:")
    ]


def image_sets(fashion_mnist: Path | None, scratch: Path) -> list[ImageData]:
    """Digits, shapes, and Fashion-MNIST if its folder is given."""
    sets = [open_images("digits"), _first_classes(open_images(SHAPES))]
    if fashion_mnist is not None:
        sets.insert(1, _fashion_mnist(fashion_mnist, scratch))
    return sets


def _first_classes(data: ImageData) -> ImageData:
    parts = {
        part.split: part.subset(np.flatnonzero(part.labels < N_CLASSES), split=f"{part.split} {N_CLASSES} classes")
        for part in (data.train, data.val)
    }
    return replace(data, train=parts["train"], val=parts["val"])


def _fashion_mnist(folder: Path, scratch: Path) -> ImageData:
    """Its first images, in a file of their own, so that features are theirs alone."""
    path = scratch / f"fashionmnist-{FASHION_IMAGES // 1000}k.npz"
    if not path.exists():
        data, parts = open_images(f"fashion-mnist:{folder}"), {}
        for part in (data.train, data.val):
            parts[f"x_{part.split}"] = np.stack([np.asarray(part.images[place]) for place in range(FASHION_IMAGES)])
            parts[f"y_{part.split}"] = part.labels[:FASHION_IMAGES]
        with replace_file(path) as file:
            np.savez(file, **parts)
    return open_images(path, name=path.stem)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cached:
    """Features of an image set by one encoder, in memory."""

    x_train: np.ndarray  # float32 (n, dim)
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def features_of(name: str, data: ImageData, scratch: Path) -> Cached:
    """Features of both parts, computed where they are not in the scratch folder."""
    found = featurise_data(name, data, root=scratch)
    train, test = found["train"], found["val"]
    return Cached(x_train=train.x[:], y_train=train.y, x_test=test.x[:], y_test=test.y)


# ---- what is measured: functions of the few labels -> values by name ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """The labelled images of one seed, as an encoder shows them."""

    x: np.ndarray  # float32 (n, dim)
    y: np.ndarray
    seed: int


Judge = Callable[[Draw], Values]


def folds(draw: Draw) -> Values:
    """A probe of fixed C, trained on each half of the labels: its error and log loss on the other half."""
    x, y = draw.x, draw.y
    wrong, losses = [], []
    for train, test in StratifiedKFold(2, shuffle=True, random_state=draw.seed).split(x, y):
        size = float(np.square(x[train] - x[train].mean(axis=0)).sum(axis=1).mean())
        probe = LogisticProbe(C=FIXED_C / size, tol=FIXED_TOL, device="cpu").fit(x[train], y[train])
        shares = probe.predict_proba(x[test])
        wrong.append(probe.classes_[shares.argmax(axis=1)] != y[test])
        losses.append(-np.log(np.maximum(shares[np.arange(len(test)), np.searchsorted(probe.classes_, y[test])], TINY)))
    return {"folds": 100 * float(np.concatenate(wrong).mean()), "folds_loss": float(np.concatenate(losses).mean())}


def ridge_squares(draw: Draw) -> Values:
    """The mean squared error of ridge regression to the classes, an image left out at a time, by its best penalty.

    Allen's PRESS over the number of images, of which :func:`ridge_predictions` counts the errors.
    """
    data = centre_labelled(draw.x, draw.y, least=3, needed_for="ridge")
    fit = fit_ridge(data, None, by="squares")
    return {"ridge_squares": float(np.square(data.targets - fit.left_out).sum()) / len(data.y)}


def published_logme(draw: Draw) -> float:
    """LogME by the formula and the iteration of its authors' code, which is not the evidence for n below dim.

    MacKay's fixed point for the precisions of weights and noise, 11 steps at most; then ``dim / 2 log(alpha)`` is
    added for all dimensions, while the determinant has as many as there are singular values.
    """
    n, dim = draw.x.shape
    u, s, _ = np.linalg.svd(draw.x.astype(np.float64), full_matrices=False)
    squares, values = s**2, []
    for label in np.unique(draw.y):
        target = (draw.y == label).astype(np.float64)
        energies = (u.T @ target) ** 2
        rest = float((target**2).sum() - energies.sum())
        alpha = beta = 1.0
        for _ in range(11):
            ratio = alpha / beta
            gamma = (squares / (squares + ratio)).sum()
            weights = (squares * energies / (ratio + squares) ** 2).sum()
            misfit = (energies / (1 + squares / ratio) ** 2).sum() + rest
            alpha, beta = gamma / (weights + 1e-5), (n - gamma) / (misfit + 1e-5)
            if abs(alpha / beta - ratio) <= 1e-3 * ratio:
                break
        determinant = np.log(alpha + beta * squares).sum()
        fit = beta * misfit + alpha * weights + n * np.log(2 * np.pi)
        values.append((dim * np.log(alpha) + n * np.log(beta) - determinant - fit) / 2 / n)
    return float(np.mean(values))


def spectrum(draw: Draw) -> Values:
    """Metrics that look at the spectrum of the features alone, which takes nearly all of their time."""
    found = compute_spectrum(draw.x)
    metrics = {"rankme": rankme, "nesum": nesum, "stable_rank": stable_rank, "matrix_entropy": matrix_entropy}
    return {name: float(metric(found)) for name, metric in metrics.items()}


JUDGES: dict[str, Judge] = {
    "folds": folds,
    "ridge": lambda draw: {"ridge": ridge_predictions(draw.x, draw.y).value},
    "ridge_squares": ridge_squares,
    "neighbours": lambda draw: {"neighbours": neighbour_predictions(draw.x, draw.y, device="cpu").value},
    "logme": lambda draw: {"logme": logme(draw.x, draw.y).value},
    "logme_published": lambda draw: {"logme_published": published_logme(draw)},
    "h_score": lambda draw: {"h_score": h_score(draw.x, draw.y).value},
    "gbc": lambda draw: {"gbc": gbc(draw.x, draw.y).value},
    "nleep": lambda draw: {"nleep": nleep(draw.x, draw.y).value},
    "transrate": lambda draw: {"transrate": transrate(draw.x, draw.y).value},
    "spectrum": spectrum,
    "width": lambda draw: {"width": float(draw.x.shape[1])},
}


def truth(draw: Draw, cached: Cached) -> np.ndarray:
    """What the probe of ``zoo choose``, trained on all labels of the draw, predicts of the test part."""
    task = Task(y_train=draw.y, y_test=cached.y_test)
    predict = build_logistic_scorer(task, seed=draw.seed, device="cpu")("", np.arange(len(draw.y)), draw.x, draw.y)
    return np.asarray(predict(cached.x_test, np.arange(len(cached.x_test))))


def _error(predicted: np.ndarray, y: np.ndarray) -> float:
    return 100 * float((predicted != y).mean())


# ---- measuring, cell by cell ----

Cell = tuple[str, int, int]  # image set, labels per class, seed
Measured = dict[str, dict[str, Any]]  # encoder -> {"values": ..., "judges": ..., "predictions": ...}


def cells_of(sets: Sequence[ImageData], n_seeds: int, *, first: int = 0) -> Iterator[Cell]:
    """Seed by seed, so that any beginning has all image sets and budgets."""
    for seed in range(first, n_seeds):
        for budget in BUDGETS:
            for data in sets:
                yield data.name, budget, seed


def measured(scratch: Path, cell: Cell) -> Measured:
    """What is kept of a cell."""
    path = _cell_file(scratch, cell)
    found: Measured = json.loads(path.read_text()) if path.exists() else {}
    return found


def _cell_file(scratch: Path, cell: Cell) -> Path:
    return scratch / "scores" / f"{'-'.join(map(str, cell))}.json"


def predictions_of(one: dict[str, Any]) -> np.ndarray:
    """What the probe of the truth predicts of the test images, int64 (n_test,)."""
    return np.frombuffer(b64decode(one["predictions"]), dtype=np.uint8).astype(np.int64)


def labelled_rows(y_train: np.ndarray, cell: Cell) -> np.ndarray:
    """The rows of the training part that a cell has the labels of."""
    return balanced(y_train, cell[1], seed=cell[2]).indices


def measure_cell(cell: Cell, features: dict[str, Cached], scratch: Path) -> None:
    """All scores and the truth of one draw of the labels; what is kept is not computed again."""
    found = measured(scratch, cell)
    for name, cached in features.items():
        one = found.setdefault(name, {"values": {}, "judges": [], "predictions": ""})
        draw = _draw(cached, cell)
        for judge in [judge for judge in JUDGES if judge not in one["judges"]]:
            one["values"] |= JUDGES[judge](draw)
            one["judges"].append(judge)
        if not one["predictions"]:
            predicted = truth(draw, cached)
            one["values"]["truth"] = _error(predicted, cached.y_test)
            one["predictions"] = b64encode(predicted.astype(np.uint8).tobytes()).decode()
    with replace_file(_cell_file(scratch, cell)) as file:
        file.write(json.dumps(found).encode())


def _draw(cached: Cached, cell: Cell) -> Draw:
    rows = labelled_rows(cached.y_train, cell)
    return Draw(x=cached.x_train[rows], y=cached.y_train[rows], seed=cell[2])


def seconds_of(cell: Cell, features: dict[str, Cached], scratch: Path) -> dict[str, dict[str, float]]:
    """Seconds of the processor by encoder and judge, one after the other, in an order that the seed turns."""
    path = scratch / "scores" / f"seconds-{'-'.join(map(str, cell))}.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    every = ["truth", *JUDGES]
    turn = cell[2] % len(every)
    for name, cached in features.items():
        if set(every) == set(found.get(name, ())):
            continue
        draw = _draw(cached, cell)
        found[name] = {}
        for judge in every[turn:] + every[:turn]:
            begun = time.process_time()
            truth(draw, cached) if judge == "truth" else JUDGES[judge](draw)
            found[name][judge] = time.process_time() - begun
    with replace_file(path) as file:
        file.write(json.dumps(found).encode())
    return found


def seconds_an_image(names: Sequence[str], sets: Sequence[ImageData], scratch: Path) -> dict[str, dict[str, float]]:
    """Seconds of the processor that featurising one image takes, by image set and encoder: the median of three."""
    path = scratch / "scores" / "seconds_an_image.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    wanted = {(data.name, name) for data in sets for name in names if name not in found.get(data.name, ())}
    taken: dict[tuple[str, str], list[float]] = {pair: [] for pair in wanted}
    for repeat in range(N_REPEATS):
        for name in dict.fromkeys(name for _, name in sorted(wanted)):
            encoder, preprocess = load(name)
            n = 256 if name.startswith("pocket") else 32
            for data in sets:
                some = data.train.subset(np.arange(repeat * n, (repeat + 1) * n), split=f"speed {repeat}")
                featurise(encoder, preprocess, some.subset(np.arange(8), split="warm"), name=name, device="cpu")
                begun = time.process_time()
                featurise(encoder, preprocess, some, name=name, device="cpu")
                taken.setdefault((data.name, name), []).append((time.process_time() - begun) / n)
    for (data_name, name), values in taken.items():
        found.setdefault(data_name, {})[name] = float(np.median(values))
    with replace_file(path) as file:
        file.write(json.dumps(found).encode())
    return found


# ---- what is shipped ----


def write(sets: Sequence[ImageData], names: Sequence[str], n_seeds: int, scratch: Path, out: Path) -> int:
    """Writes the scores of all cells that are complete; how many there are."""
    cells = {}
    for cell in cells_of(sets, n_seeds):
        found = measured(scratch, cell)
        if all(
            name in found and found[name]["predictions"] and set(JUDGES) <= set(found[name]["judges"]) for name in names
        ):
            cells[cell] = found
    if not cells:
        return 0
    columns = sorted(next(iter(next(iter(cells.values())).values()))["values"].keys() - {"truth"})
    lines = [",".join(["data", "labels", "seed", "encoder", "truth", *columns])]
    for cell, found in sorted(cells.items()):
        for name in names:
            numbers = [f"{found[name]['values'][column]:.7g}" for column in ("truth", *columns)]
            lines.append(",".join([*map(str, cell), name, *numbers]))
    with replace_file(out / "scores.csv.gz") as file:
        file.write(gzip.compress("\n".join([*lines, ""]).encode(), compresslevel=9, mtime=0))
    return len(cells)


def write_seconds(features: dict[str, dict[str, Cached]], scratch: Path, out: Path) -> None:
    """Writes the medians of the seconds of every judge, over the first draws."""
    lines = ["data,labels,encoder,judge,seconds"]
    for data, of_set in features.items():
        for budget in BUDGETS:
            runs = [seconds_of((data, budget, seed), of_set, scratch) for seed in range(N_TIMED)]
            for name in of_set:
                for judge in ("truth", *JUDGES):
                    middle = np.median([run[name][judge] for run in runs])
                    lines.append(f"{data},{budget},{name},{judge},{middle:.3g}")
    with replace_file(out / "seconds.csv") as file:
        file.write("\n".join([*lines, ""]).encode())


def provenance(sets: Sequence[ImageData], names: Sequence[str], n_seeds: int, scratch: Path) -> str:
    """How it was measured, as TOML."""
    packages = ("numpy", "scipy", "scikit-learn", "torch", "torchvision")
    lines = [
        "# How scores.csv.gz and seconds.csv were made: python scripts/measure_scores.py",
        f'date = "{date.today().isoformat()}"',
        f'machine = "{_processor()}, one thread"',
        f'python = "{platform.python_version()}"',
        f"seeds = {n_seeds}",
        f"labels_a_class = {list(BUDGETS)}",
        f'truth = "error of {PROTOCOL} on the test part, percent"',
        f'folds = "two halves, logistic regression with C {FIXED_C:g} / mean squared distance from the mean"',
        "",
        "[versions]",
        *(f'{name} = "{version(name)}"' for name in packages),
    ]
    speed = seconds_an_image(names, sets, scratch)
    for data in sets:
        lines += [
            "",
            f'[images."{data.name}"]',
            f"classes = {len(np.unique(data.train.labels))}",
            f"train = {len(data.train)}",
            f"test = {len(data.val)}",
            f'train_fingerprint = "{data.train.fingerprint}"',
            f'test_fingerprint = "{data.val.fingerprint}"',
            "",
            f'[seconds_an_image."{data.name}"]',
            *(f"{name} = {speed[data.name][name]:.3g}" for name in names),
        ]
    return "\n".join(lines) + "\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    """Featurise, measure seed by seed, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all unless given, and only all are written")
    parser.add_argument("--fashion-mnist", type=Path, default=FASHION_MNIST, help="folder of its four .gz files")
    parser.add_argument("--scratch", type=Path, default=get_evaluations_folder(), help="folder of features and scores")
    parser.add_argument("--out", type=Path, default=get_content_folder("analysis") / STUDY, help="folder of the files")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="draws of the labels")
    parser.add_argument("--first", type=int, default=0, help="seed to begin with, for several processes at once")
    parser.add_argument("--minutes", type=float, help="ends after the cell that this time ends in; all unless given")
    options = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.perf_counter()
    names = options.names or encoders()
    with threadpool_limits(limits=1):
        sets = image_sets(options.fashion_mnist if options.fashion_mnist.is_dir() else None, options.scratch)
        features = {data.name: {name: features_of(name, data, options.scratch) for name in names} for data in sets}
        print(f"features {time.perf_counter() - begun:.0f} s", flush=True)
        for cell in cells_of(sets, options.seeds, first=options.first):
            started = time.perf_counter()
            measure_cell(cell, features[cell[0]], options.scratch)
            print(*cell, f"{time.perf_counter() - started:.1f} s", flush=True)
            if options.minutes is not None and time.perf_counter() - begun > 60 * options.minutes:
                break
        n_cells = write(sets, encoders(), options.seeds, options.scratch, options.out)
        print(f"{n_cells} cells written to {options.out}, {time.perf_counter() - begun:.0f} s", flush=True)
        if n_cells and not options.names:
            write_seconds(features, options.scratch, options.out)
            with replace_file(options.out / "provenance.toml") as file:
                file.write(provenance(sets, names, options.seeds, options.scratch).encode())


if __name__ == "__main__":
    main()
