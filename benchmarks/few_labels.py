"""What error linear classifiers of frozen features have with few labels: the zoo's probes and four others.

    python benchmarks/few_labels.py [NAME...] [--draws 20] [--first 0] [--features FOLDER] [--out cells.jsonl]
                                     [--show] [--json]

Toy encoders, EfficientNet-Lites and eight encoders of the randomised population on digits, shapes and
Fashion-MNIST, with 3, 5, 10 and 30 labels per class, drawn anew each time, and once with all labels (of Fashion-MNIST
the first 10,000). Errors are in percent, of the test part (of Fashion-MNIST the first 2,000 images), means over
encoders and draws:

* probe 2, probe 3: ``zoo-logistic-2`` and ``zoo-logistic-3``, whose settings are chosen on 15 further images per class;
  with all labels on what ``zoo evaluate`` holds out.
* probe 3, CV: ``zoo-logistic-3`` that has nothing but the few labels, and chooses by cross-validation on them; the
  first three draws.
* ridge: regression to the classes on unscaled features, its penalty by the squared error of leaving one out.
* LDA: linear discriminant analysis, scikit-learn's, with the covariance shrunk by Ledoit and Wolf's rule.
* means: the nearest class mean of whitened features (variance plus a tenth of the mean variance).
* sklearn: LogisticRegressionCV, 10 values of C by 5 folds (3 with 3 labels per class). It is slow: the
  first draw alone, and neither the Lites nor all labels.

Cells are kept in ``--out`` one by one, so that the script may be killed and goes on; draws come one after the other
over all encoders, so that any beginning is balanced, and ``--show`` prints the table of what there is. Features are
computed where the folder has none.

Differences of probe 3 are paired: of the cells that have both columns, a mean for each encoder, then the mean over
encoders and its standard error, in which encoders alone are drawn anew. The best other column is that which probe 3 is
furthest behind, or least ahead of; picked from five after the fact, it looks a little better than it is.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegressionCV
from threadpoolctl import threadpool_limits

from zoo.cards.catalogue import load_catalogue
from zoo.datasets import open_images
from zoo.datasets.subsets import balanced
from zoo.evaluation.evaluating import build_probe_maker, featurise_data
from zoo.evaluation.measuring import divide, label_setting
from zoo.evaluation.protocols import PROTOCOLS
from zoo.evaluation.transferability.components import centre_labelled
from zoo.evaluation.transferability.leave_one_out import fit_ridge
from zoo.features import Features
from zoo.files import get_evaluations_folder

DATA = {"digits": (None, None), "shapes": (None, None), "fashion-mnist": (10_000, 2_000)}  # first images of each part
SHOTS = (3, 5, 10, 30)
RANDOMISED = tuple(f"randomised_{number:03d}" for number in range(0, 64, 8))
FURTHER = 15  # images per class that settings are chosen on
N_SLOW, N_CV = 1, 3  # draws of LogisticRegressionCV, and of the probe that chooses by cross-validation
COLUMNS = {
    "two": "probe 2",
    "three": "probe 3",
    "three_cv": "probe 3, CV",
    "ridge": "ridge",
    "lda": "LDA",
    "means": "means",
    "sklearn": "sklearn",
}
MOST_BEHIND, MOST_WORSE = 0.7, 0.3  # points that probe 3 may have more than the best column, and than probe 2
LEAST_BETTER = {("digits", 5): 3.0, ("digits", 10): 5.0}  # points that it has less than probe 2
Array = np.ndarray
Cell = dict[str, Any]


def encoders() -> list[str]:
    """The toy encoders, what comes in packages, and some of the randomised ones."""
    shipped = [
        card.id
        for card in load_catalogue().values()
        if card.family == "pocket" or str(card.weights.url).startswith("package:")
    ]
    return [*shipped, *RANDOMISED]


def ridge(x: Array, y: Array, x_test: Array) -> Array:
    """Labels by ridge regression to the classes."""
    data = centre_labelled(x, y, least=3, needed_for="ridge")
    fit = fit_ridge(data, None, by="squares")
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
        warnings.simplefilter("ignore")  # it does not converge on unscaled features, and says so for every C
        return np.asarray(LogisticRegressionCV(cv=folds, max_iter=200).fit(x, y).predict(x_test))


OTHERS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "ridge": ridge,
    "lda": lda,
    "means": means,
    "sklearn": by_sklearn,
}


def few(train: Features, test: Features, shots: int, seed: int, *, is_slow: bool) -> dict[str, Any]:
    """Errors with some labels per class, and which preparation was chosen."""
    rows = balanced(train.y, shots, seed=seed).indices
    rest = np.random.default_rng([seed, shots]).permutation(np.setdiff1d(np.arange(len(train.y)), rows))
    further = np.concatenate([rest[train.y[rest] == label][:FURTHER] for label in np.unique(train.y)])
    x, y, x_val, y_val, x_test = train.x[rows], train.y[rows], train.x[further], train.y[further], test.x
    found: dict[str, Any] = {}
    for name, protocol in (("two", "zoo-logistic-2"), ("three", "zoo-logistic-3")):
        probe: Any = build_probe_maker(PROTOCOLS[protocol], device="cpu", seed=seed)()
        found[name] = _error(probe.fit(x, y, x_val=x_val, y_val=y_val).predict(x_test), test.y)
    found["preparation"] = probe.report_["preparation"]
    if seed < N_CV:
        alone: Any = build_probe_maker(PROTOCOLS["zoo-logistic-3"], device="cpu", seed=seed)()
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
        probe: Any = build_probe_maker(PROTOCOLS[protocol], device="cpu", seed=seed)()
        probe.fit(train.x[choice], train.y[choice], x_val=train.x[tuning], y_val=train.y[tuning])
        found[name] = _error(probe.refit(train.x, train.y).predict(test.x), test.y)
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


def cells(n_draws: int, names: list[str], *, begin: int = 0) -> Iterator[tuple[str, int, int, str]]:
    """Data set, labels per class (0: all), seed and encoder."""
    for seed in range(begin, n_draws):
        for data in DATA:
            for shots in (*SHOTS, 0) if seed == 0 else SHOTS:
                for name in names:
                    yield data, shots, seed, name


def apart(some: list[Cell], column: str) -> dict[str, float]:
    """Error of probe 3 less that of a column, for each encoder that has both."""
    differences = defaultdict(list)
    for one in some:
        if column in one:
            differences[one["encoder"]].append(one["three"] - one[column])
    return {name: float(np.mean(values)) for name, values in differences.items()}


def mean_and_error(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and its standard error, which one value alone does not have."""
    some = list(values)
    return float(np.mean(some)), float(np.std(some, ddof=1) / len(some) ** 0.5) if len(some) > 1 else None


def table(found: list[Cell]) -> list[dict[str, Any]]:
    """A row for each data set and number of labels."""
    rows = []
    for data, shots in product(DATA, (*SHOTS, 0)):
        some = [one for one in found if one["data"] == data and one["shots"] == shots]
        if not some:
            continue
        others = {
            column: mean_and_error(apart(some, column).values())
            for column in COLUMNS
            if column != "three" and any(column in one for one in some)
        }
        best = max((column for column in others if column != "three_cv"), key=lambda column: others[column][0])
        values = {column: [one[column] for one in some if column in one] for column in COLUMNS}
        rows.append(
            {
                "data": data,
                "shots": shots,
                "n_draws": len({one["seed"] for one in some}),
                "n_cells": len(some),
                "errors": {column: float(np.mean(errors)) for column, errors in values.items() if errors},
                "three_less": others,
                "best_other": best,
                "preparations": dict(Counter(one["preparation"] for one in some).most_common()),
            }
        )
    return rows


def bars(rows: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    """Whether each bar is met, and by which row it is decided."""

    def place(row: dict[str, Any]) -> str:
        return f"{row['data']}, {row['shots'] or 'all'}"

    far = max(rows, key=lambda row: row["three_less"][row["best_other"]][0])
    behind = far["three_less"][far["best_other"]][0]
    met = [
        (
            behind <= MOST_BEHIND,
            f"in every row at most {MOST_BEHIND} points behind the best column: worst {behind:+.2f} to "
            f"{COLUMNS[far['best_other']]} ({place(far)})",
        )
    ]
    for row in rows:
        least = LEAST_BETTER.get((row["data"], row["shots"]))
        if least is not None:
            better = -row["three_less"]["two"][0]
            met.append((better >= least, f"{place(row)}: {least:g} points better than probe 2 or more: {better:.2f}"))
    far = max(rows, key=lambda row: row["three_less"]["two"][0])
    worse = far["three_less"]["two"][0]
    met.append(
        (worse <= MOST_WORSE, f"nowhere more than {MOST_WORSE} worse than probe 2: worst {worse:+.2f} ({place(far)})")
    )
    return met


def worst_rows(found: list[Cell], names: list[str]) -> dict[str, tuple[float, str, int, int]]:
    """For each encoder the row where probe 3 does worst compared with probe 2: the difference, the row, its draws."""
    worst = {}
    for name in names:
        own: dict[tuple[str, int], list[float]] = defaultdict(list)
        for one in found:
            if one["encoder"] == name:
                own[one["data"], one["shots"]].append(one["three"] - one["two"])
        if own:
            data, shots = max(own, key=lambda row: float(np.mean(own[row])))
            worst[name] = float(np.mean(own[data, shots])), data, shots, len(own[data, shots])
    return worst


def show(found: list[Cell], names: list[str]) -> None:
    """Print the table, the bars and the worst row of each encoder."""
    rows = table(found)
    print(f"{len({one['encoder'] for one in found})} encoders\n{'':20}{'draws':>6}{'cells':>6}", end="")
    print("".join(f"{title:>12}" for title in COLUMNS.values()) + f"   {'3 - 2':16}{'3 - best other':28}chosen")
    for row in rows:
        head = f"{row['data']}, {row['shots'] or 'all'}"
        values = "".join(
            f"{format(row['errors'][column], '.1f') if column in row['errors'] else '':>12}" for column in COLUMNS
        )
        two, other = (
            f"{mean:+.2f} (" + ("one encoder" if error is None else f"{error:.2f}") + ")"
            for mean, error in (row["three_less"]["two"], row["three_less"][row["best_other"]])
        )
        other = f"{other} {COLUMNS[row['best_other']]}"
        chosen = ", ".join(f"{name} {n}" for name, n in row["preparations"].items())
        print(f"{head:20}{row['n_draws']:6}{row['n_cells']:6}{values}   {two:16}{other:28}{chosen}")
    print(
        f"fewer cells: sklearn of {N_SLOW} draw, probe 3, CV of {N_CV}; differences are of cells that have both columns"
    )
    print("\nBars, of probe 3")
    for is_met, meaning in bars(rows):
        print(f"{'met' if is_met else 'NOT MET':8} {meaning}")
    print("\nWorst row of each encoder, 3 - 2")
    for name, (difference, data, shots, n) in worst_rows(found, names).items():
        print(f"{name:32}{difference:+7.2f}   {data}, {shots or 'all'} ({n} draw{'s' if n > 1 else ''})")


def measure(
    missing: list[tuple[str, int, int, str]], found: dict[tuple[str, int, int, str], Cell], options: argparse.Namespace
) -> None:
    """Add cells to those that there are, and to the file."""
    torch.set_num_threads(1)
    loaded: dict[tuple[str, str], tuple[Features, Features]] = {}
    begun, told = time.perf_counter(), -1
    with threadpool_limits(limits=1), options.out.open("a") as file:
        for cell in missing:
            data, shots, seed, name = cell
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


def main() -> None:
    """Measure cell by cell, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="encoders; all unless given")
    parser.add_argument("--draws", type=int, default=20, help="draws of the labels")
    parser.add_argument("--first", type=int, default=0, help="draw to begin with, for several processes at once")
    parser.add_argument("--features", type=Path, default=get_evaluations_folder(), help="folder of features")
    parser.add_argument("--out", type=Path, default=Path("few_labels.jsonl"), help="file of the cells")
    parser.add_argument("--show", action="store_true", help="compute nothing, print the table of the cells in --out")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    options = parser.parse_args()
    names = options.names or encoders()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    found = {(one["data"], one["shots"], one["seed"], one["encoder"]): one for one in map(json.loads, lines)}
    wanted = list(cells(options.draws, names, begin=options.first))
    if not options.show:
        measure([cell for cell in wanted if cell not in found], found, options)
    some = [found[cell] for cell in wanted if cell in found]
    if not some:
        parser.error(f"{options.out} has no cell of these encoders; run without --show to compute them")
    if options.json:
        rows = table(some)
        print(json.dumps({"rows": rows, "bars": bars(rows), "worst_rows": worst_rows(some, names)}))
    else:
        show(some, names)


if __name__ == "__main__":
    main()
