"""What error linear classifiers of frozen features have with few labels: the zoo's probes and four others.

    python benchmarks/few_labels.py [NAME...] [--draws 20] [--features FOLDER] [--out cells.jsonl] [--json]

The pocket, the EfficientNet-Lites and eight encoders of the randomised population on digits, shapes and Fashion-MNIST,
with 3, 5, 10 and 30 labels a class, drawn anew each time, and once with all labels (of Fashion-MNIST the first 10,000).
Errors are in percent, of the test part (of Fashion-MNIST the first 2,000 images), means over encoders and draws:

* probe 2, probe 3: ``zoo-logistic-2`` and ``zoo-logistic-3``, whose settings are chosen on 15 further images a class;
  with all labels on what ``zoo evaluate`` holds out.
* probe 3, CV: ``zoo-logistic-3`` that has nothing but the few labels, and chooses by cross-validation on them.
* ridge: regression to the classes on features as they are, its penalty by the squared error of leaving one out.
* LDA: linear discriminant analysis, scikit-learn's, with the covariance shrunk by Ledoit and Wolf's rule.
* means: the nearest class mean of whitened features (variance plus a tenth of the mean variance).
* sklearn: LogisticRegressionCV, 10 values of C by 5 folds (3 with 3 labels a class). It is slow: the first two draws
  alone, and neither the Lites nor all labels.

Cells are kept in ``--out`` one by one, so that the script may be killed and goes on; draws come one after the other
over all encoders, so that any beginning is balanced. Features are computed where the folder has none.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegressionCV
from threadpoolctl import threadpool_limits

from zoo.cards.catalogue import catalogue
from zoo.datasets import open_images
from zoo.datasets.subsets import balanced
from zoo.evaluation.evaluating import evaluations_folder, featurise_data, probe_maker
from zoo.evaluation.measuring import divide, label_setting, retrained
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.transferability.components import centred_of
from zoo.evaluation.transferability.leave_one_out import ridge_of
from zoo.features import Features

DATA = {"digits": (None, None), "shapes": (None, None), "fashion-mnist": (10_000, 2_000)}  # first images of each part
SHOTS = (3, 5, 10, 30)
RANDOMISED = tuple(f"randomised_{number:03d}" for number in range(0, 64, 8))
FURTHER = 15  # images a class that settings are chosen on
N_SLOW = 2  # draws of LogisticRegressionCV
COLUMNS = {
    "two": "probe 2",
    "three": "probe 3",
    "three_cv": "probe 3, CV",
    "ridge": "ridge",
    "lda": "LDA",
    "means": "means",
    "sklearn": "sklearn",
}
RIVALS = ("ridge", "lda", "means", "sklearn")
Array = np.ndarray


def encoders() -> list[str]:
    """The pocket, what comes in packages, and some of the randomised ones."""
    shipped = [
        card.id
        for card in catalogue().values()
        if card.family == "pocket" or str(card.weights.url).startswith("package:")
    ]
    return [*shipped, *RANDOMISED]


def ridge(x: Array, y: Array, x_test: Array) -> Array:
    """Labels by ridge regression to the classes."""
    data = centred_of(x, y, least=3, needed_for="ridge")
    fit = ridge_of(data, None, loss=lambda outputs: float(np.square(data.targets - outputs).sum()))
    outputs = fit.outputs(x_test.astype(np.float64) - x.mean(axis=0, dtype=np.float64))
    return np.asarray(data.classes)[outputs.argmax(axis=1)]


def lda(x: Array, y: Array, x_test: Array) -> Array:
    """Labels by linear discriminant analysis."""
    return np.asarray(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y).predict(x_test))


def means(x: Array, y: Array, x_test: Array) -> Array:
    """Labels of the nearest class mean of whitened features."""
    centre = x.mean(axis=0, dtype=np.float64)
    _, values, axes = np.linalg.svd(x - centre, full_matrices=False)
    variances = values[values > 1e-7 * values[0]] ** 2 / len(x)
    turn = axes[: len(variances)].T / np.sqrt(variances + 0.1 * variances.mean())
    z, z_test = (x - centre) @ turn, (x_test - centre) @ turn
    of_classes = np.stack([z[y == label].mean(axis=0) for label in np.unique(y)])
    apart = np.square(of_classes).sum(axis=1) - 2 * z_test @ of_classes.T
    return np.asarray(np.unique(y)[apart.argmin(axis=1)])


def by_sklearn(x: Array, y: Array, x_test: Array) -> Array:
    """Labels by scikit-learn's logistic regression, C by cross-validation."""
    folds = min(5, int(np.bincount(y).min()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge on features as they are, and says so for every C
        return np.asarray(LogisticRegressionCV(cv=folds, max_iter=200).fit(x, y).predict(x_test))


OTHERS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "ridge": ridge,
    "lda": lda,
    "means": means,
    "sklearn": by_sklearn,
}


def few(train: Features, test: Features, shots: int, seed: int, *, is_slow: bool) -> dict[str, Any]:
    """Errors with some labels a class, and which preparation was chosen."""
    rows = balanced(train.y, shots, seed=seed).indices
    rest = np.random.default_rng([seed, shots]).permutation(np.setdiff1d(np.arange(len(train.y)), rows))
    further = np.concatenate([rest[train.y[rest] == label][:FURTHER] for label in np.unique(train.y)])
    x, y, x_val, y_val, x_test = train.x[rows], train.y[rows], train.x[further], train.y[further], test.x
    found: dict[str, Any] = {}
    for name, protocol in (("two", "zoo-logistic-2"), ("three", "zoo-logistic-3")):
        probe: Any = probe_maker(PROTOCOLS[protocol], device="cpu", seed=seed)()
        found[name] = _error(probe.fit(x, y, x_val=x_val, y_val=y_val).predict(x_test), test.y)
    found["preparation"] = probe.report_["preparation"]
    alone: Any = probe_maker(PROTOCOLS["zoo-logistic-3"], device="cpu", seed=seed)()
    found["three_cv"] = _error(alone.fit(x, y).predict(x_test), test.y)
    for name in OTHERS if is_slow else [name for name in OTHERS if name != "sklearn"]:
        found[name] = _error(OTHERS[name](x, y, x_test), test.y)
    return found


def full(train: Features, test: Features, seed: int) -> dict[str, Any]:
    """Errors with all labels."""
    found: dict[str, Any] = {}
    division = divide(label_setting("full"), train, n_test=len(test.y), seed=seed)
    choice, tuning = division.choice, division.tuning
    for name, protocol in (("two", "zoo-logistic-2"), ("three", "zoo-logistic-3")):
        probe: Any = probe_maker(PROTOCOLS[protocol], device="cpu", seed=seed)()
        probe.fit(train.x[choice], train.y[choice], x_val=train.x[tuning], y_val=train.y[tuning])
        found[name] = _error(retrained(probe, probe.report_, train.x, train.y).predict(test.x), test.y)
    found["preparation"] = probe.report_["preparation"]
    for name in ("ridge", "lda", "means"):
        found[name] = _error(OTHERS[name](train.x, train.y, test.x), test.y)
    return found


def _error(predicted: Array, y: Array) -> float:
    return 100 * float((np.asarray(predicted) != y).mean())


def first(features: Features, n: int | None) -> Features:
    """The features of the first images, in memory."""
    rows = slice(0, n or len(features.y))
    return Features(x=np.asarray(features.x[rows]), y=features.y[rows], origin=features.origin)


def cells(n_draws: int, names: list[str]) -> Iterator[tuple[str, int, int, str]]:
    """Data set, labels a class (0: all), seed and encoder."""
    for seed in range(n_draws):
        for data in DATA:
            for shots in (*SHOTS, 0) if seed == 0 else SHOTS:
                for name in names:
                    yield data, shots, seed, name


def table(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the table, and what is said of the bars."""
    rows, said = [], []
    for data in DATA:
        for shots in (*SHOTS, 0):
            some = [one for one in found if one["data"] == data and one["shots"] == shots]
            if not some:
                continue
            row: dict[str, Any] = {"data": data, "shots": shots, "n_draws": len({one["seed"] for one in some})}
            for column in COLUMNS:
                values = [one[column] for one in some if column in one]
                row[column] = float(np.mean(values)) if values else None
            slow = [one for one in some if "sklearn" in one]
            if slow:  # beside the probe on the same cells, which are fewer
                row["three_beside_sklearn"] = float(np.mean([one["three"] for one in slow]))
            per_encoder = [
                np.mean([one["three"] - one["two"] for one in some if one["encoder"] == name])
                for name in sorted({one["encoder"] for one in some})
            ]
            row["difference"] = float(np.mean(per_encoder))
            row["standard_error"] = float(np.std(per_encoder, ddof=1) / len(per_encoder) ** 0.5)
            row["worst_encoder"] = float(np.max(per_encoder))
            row["preparations"] = dict(Counter(one["preparation"] for one in some).most_common())
            rows.append(row)
            for rival in RIVALS:
                ours = row.get("three_beside_sklearn") if rival == "sklearn" else row["three"]
                if row[rival] is not None and ours - row[rival] > 0.7:
                    said.append(
                        f"{data}, {shots}: {ours - row[rival]:.1f} points behind {COLUMNS[rival]}, more than .7"
                    )
            if row["difference"] > 0.3:
                said.append(f"{data}, {shots}: {row['difference']:.2f} points worse than probe 2, more than .3")
            least = {5: 3.0, 10: 5.0}.get(shots, 0.0) if data == "digits" else 0.0
            if least and -row["difference"] < least:
                said.append(f"{data}, {shots}: {-row['difference']:.1f} points better than probe 2, expected {least:g}")
    return rows, said or ["all bars are met"]


def main() -> None:
    """Measure cell by cell, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all unless given")
    parser.add_argument("--draws", type=int, default=20, help="draws of the labels")
    parser.add_argument("--features", type=Path, default=evaluations_folder(), help="folder of features")
    parser.add_argument("--out", type=Path, default=Path("few_labels.jsonl"), help="file of the cells")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    options = parser.parse_args()
    names = options.names or encoders()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    found = {(one["data"], one["shots"], one["seed"], one["encoder"]): one for one in map(json.loads, lines)}
    torch.set_num_threads(1)
    loaded: dict[tuple[str, str], tuple[Features, Features]] = {}
    begun, told = time.perf_counter(), -1
    with threadpool_limits(limits=1), options.out.open("a") as file:
        for cell in cells(options.draws, names):
            data, shots, seed, name = cell
            if cell in found:
                continue
            if (data, name) not in loaded:
                parts = featurise_data(name, open_images(data), root=options.features)
                n_train, n_test = DATA[data]
                loaded[data, name] = first(parts["train"], n_train), first(parts["val"], n_test)
            train, test = loaded[data, name]
            is_slow = seed < N_SLOW and not name.startswith("sup_efficientnet")
            errors = few(train, test, shots, seed, is_slow=is_slow) if shots else full(train, test, seed)
            found[cell] = {"data": data, "shots": shots, "seed": seed, "encoder": name, **errors}
            file.write(json.dumps(found[cell]) + "\n")
            file.flush()
            if seed != told and not options.json:
                told = seed
                print(f"draw {seed} begins, {time.perf_counter() - begun:.0f} s", flush=True)
    rows, said = table([one for cell, one in found.items() if cell in set(cells(options.draws, names))])
    if options.json:
        print(json.dumps({"encoders": names, "rows": rows, "bars": said}))
        return
    print(f"{len(names)} encoders\n{'':20}" + "".join(f"{title:>12}" for title in COLUMNS.values()), end="")
    print("   3 - 2 (standard error; worst encoder)   chosen")
    for row in rows:
        head = f"{row['data']}, {row['shots'] or 'all'}"
        values = "".join(f"{'' if row[column] is None else format(row[column], '.1f'):>12}" for column in COLUMNS)
        apart = f"{row['difference']:+.2f} ({row['standard_error']:.2f}; {row['worst_encoder']:+.1f})"
        chosen = ", ".join(f"{name} {n}" for name, n in row["preparations"].items())
        print(f"{head:20}{values}   {apart:24} {chosen}")
    print("\n".join(said))


if __name__ == "__main__":
    main()
