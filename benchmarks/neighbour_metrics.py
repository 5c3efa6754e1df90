"""What intrinsic dimension and cluster learnability take, against what one would type today.

    python benchmarks/neighbour_metrics.py [--rows 10000] [--dim 2048] [--repeats 3] [--large 50000] [--json]

TwoNN: ours against scikit-dimension's, and the search of two neighbours against faiss's flat index (aims: 4 and 2 times
faster with the same neighbours, the same value to 1e-6). Cluster learnability: ours against scikit-learn's ``KMeans``
with one start and ``KNeighborsClassifier`` on the same normalised features (aim: 5 times faster), and the objectives
of k-means alone over ``--seeds`` seeds (aim: no worse on average). ``--large`` is searched in a process of its own,
for its time and, on Linux, for the memory that it takes in addition to the features; 0 leaves it out. Sides take turns
in one process; the medians are printed, with load and threads. A library that is not installed is left out, and it is
said so: pip install scikit-dimension faiss-cpu.

On two cores (load 0.6 to 1.7): TwoNN 0.89 s, 6.3 times faster than scikit-dimension, its value to 4e-8; the search 2.7
times faster than faiss (one row of 10,000 has another neighbour there, for faiss's float32); cluster learnability
0.84 s, 6.0 times faster; k-means alone 12 times, its objective 0.2 % above scikit-learn's over 3 seeds and 0.15 % below
over 12; 50,000 rows in 16.7 s with 121 MB in addition to the features.

The features are drawn, not an encoder's: groups whose centres and noise fall with the rank of the direction as
features' spectra do, turned so that no feature is a direction, and off the origin, as after a ReLU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.neighbors import KNeighborsClassifier

from zoo.evaluation.label_free.clusters import cluster_learnability, fit_kmeans
from zoo.evaluation.label_free.dimension import intrinsic_dimension
from zoo.evaluation.nearest_neighbours import find_nearest


def drawn(n: int, dim: int, n_groups: int, seed: int) -> np.ndarray:
    """Features, float32 (n, dim), made block by block so that no more memory is taken than they need."""
    generator = np.random.default_rng(seed)
    ranks = np.arange(1, dim + 1, dtype=np.float32)
    centres = generator.standard_normal((n_groups, dim), dtype=np.float32) * 1.5 * ranks**-0.7
    turn = np.linalg.qr(generator.standard_normal((dim, dim), dtype=np.float32))[0]
    z = np.empty((n, dim), dtype=np.float32)
    for start in range(0, n, 4096):
        part = z[start : start + 4096]
        noise = generator.standard_normal(part.shape, dtype=np.float32) * ranks**-0.5
        part[:] = (centres[generator.integers(0, n_groups, len(part))] + noise) @ turn + np.float32(0.3)
    return z


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds that a call takes, those of all processors together, and what it gives."""
    start, used = time.perf_counter(), time.process_time()
    found = call()
    return time.perf_counter() - start, time.process_time() - used, found


def in_turns(
    sides: dict[str, Callable[[], Any]], repeats: int
) -> tuple[dict[str, float], dict[str, float], dict[str, Any]]:
    """Median seconds of each side, of the clock and of processors, and what it gave last; one takes turns with another.

    Each has been called once before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    used: dict[str, list[float]] = {name: [] for name in sides}
    found = {name: side() for name, side in sides.items()}
    for _ in range(repeats):
        for name, side in sides.items():
            taken, of_processors, found[name] = timed(side)
            seconds[name].append(taken)
            used[name].append(of_processors)
    return (
        {name: median(taken) for name, taken in seconds.items()},
        {name: median(taken) for name, taken in used.items()},
        found,
    )


def by_faiss(z: np.ndarray, k: int) -> np.ndarray:
    """Rows of the k nearest neighbours; the nearest of all is the row itself."""
    import faiss

    index = faiss.IndexFlatL2(z.shape[1])
    index.add(z)
    rows = index.search(z, k + 1)[1]
    others = rows != np.arange(len(z))[:, None]
    others[:, -1] &= ~others.all(axis=1)
    found: np.ndarray = rows[others].reshape(len(z), k)
    return found


def two_nn(z: np.ndarray, repeats: int) -> dict[str, Any]:
    """Intrinsic dimension, and the search that it rests on."""
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: intrinsic_dimension(z).value,
        "our search": lambda: find_nearest(z, 2)[1],
        "ours, float64 features": lambda: intrinsic_dimension(z.astype(np.float64)).value,
    }
    if find_spec("skdim"):
        from skdim.id import TwoNN

        sides["scikit-dimension"] = lambda: float(TwoNN().fit(z).dimension_)
    if find_spec("faiss"):
        sides["faiss"] = lambda: by_faiss(z, 2)
    seconds, used, found = in_turns(sides, repeats)
    record: dict[str, Any] = {"seconds": seconds, "processor seconds": used, "dimension": found["ours"]}
    if "scikit-dimension" in found:
        record["scikit-dimension / ours"] = seconds["scikit-dimension"] / seconds["ours"]
        record["relative difference"] = abs(found["ours"] / found["scikit-dimension"] - 1)
    if "faiss" in found:
        record["faiss / our search"] = seconds["faiss"] / seconds["our search"]
        record["faiss / ours"] = seconds["faiss"] / seconds["ours"]
        record["rows with other neighbours than faiss"] = int((found["faiss"] != found["our search"]).any(axis=1).sum())
    record["left out"] = [name for name in ("scikit-dimension", "faiss") if name not in found]
    return record


def learnability(z: np.ndarray, n_clusters: int, repeats: int) -> dict[str, Any]:
    """k-means and nearest neighbours, from features as they come to the value."""

    def theirs() -> float:
        unit = z / np.linalg.norm(z, axis=1, keepdims=True)
        labels = KMeans(n_clusters, n_init=1, random_state=0).fit_predict(unit)
        drawn_rows = np.random.default_rng(0).permutation(len(z))
        train, val = np.split(drawn_rows, 2)
        classifier = KNeighborsClassifier(1, metric="cosine").fit(unit[train], labels[train])
        return float(classifier.score(unit[val], labels[val]))

    sides = {"ours": lambda: cluster_learnability(z, n_clusters=n_clusters).value, "scikit-learn": theirs}
    seconds, used, found = in_turns(sides, repeats)
    ratio = seconds["scikit-learn"] / seconds["ours"]
    return {"seconds": seconds, "processor seconds": used, "value": found, "scikit-learn / ours": ratio}


def clustering(z: np.ndarray, n_clusters: int, n_seeds: int) -> dict[str, Any]:
    """k-means alone: objectives and seconds, seed by seed, and at the default settings of both sides."""
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    objectives: dict[str, list[float]] = {"ours": [], "scikit-learn": []}
    seconds: dict[str, list[float]] = {"ours": [], "scikit-learn": []}
    iterations: dict[str, list[int]] = {"ours": [], "scikit-learn": []}
    for seed in range(n_seeds):
        taken, _, mine = timed(lambda seed=seed: fit_kmeans(unit, n_clusters, seed=seed))
        seconds["ours"].append(taken)
        taken, _, other = timed(lambda seed=seed: KMeans(n_clusters, n_init=1, random_state=seed).fit(unit))
        seconds["scikit-learn"].append(taken)
        objectives["ours"].append(mine.objective)
        objectives["scikit-learn"].append(float(np.square(unit - other.cluster_centers_[other.labels_]).sum() / len(z)))
        iterations["ours"].append(mine.n_iterations)
        iterations["scikit-learn"].append(int(other.n_iter_))
    means = {side: float(np.mean(values)) for side, values in objectives.items()}
    return {
        "seconds": {side: median(values) for side, values in seconds.items()},
        "iterations": iterations,
        "mean objective": means,
        "objectives": objectives,
        "ours / scikit-learn": means["ours"] / means["scikit-learn"],
    }


def _large(n: int, dim: int, answer: Any) -> None:
    """In a process of its own: seconds, and the most memory beyond that of the features."""
    z = drawn(n, dim, 100, 0)
    find_nearest(z[:300], 2)  # what libraries take at their first use is not the search's
    Path("/proc/self/clear_refs").write_text("5")  # what making the features took is not the search's, either
    before = _most_memory()
    seconds, _, _ = timed(lambda: find_nearest(z, 2))
    beside = _most_memory() - before
    answer.put({"rows": n, "seconds": seconds, "features MB": z.nbytes / 1e6, "beside them MB": beside})


def _most_memory() -> float:
    """The most that this process has held, MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def large(n: int, dim: int) -> dict[str, Any]:
    """The search at a size where all distances do not fit."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_large, args=(n, dim, answer))
    process.start()
    found: dict[str, Any] = answer.get()
    process.join()
    return found


def main() -> None:
    """Run all parts and print them, or one JSON document."""
    parser = argparse.ArgumentParser(description="Time of TwoNN and cluster learnability against other libraries.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--groups", type=int, default=100, help="that the features are drawn in [100]")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5, help="of k-means alone [5]")
    parser.add_argument("--large", type=int, default=50_000, help="rows of the large search; 0 leaves it out [50000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    load = os.getloadavg()
    z = drawn(options.rows, options.dim, options.groups, options.seed)
    record: dict[str, Any] = {"options": vars(options), "threads": torch.get_num_threads(), "load_before": load}
    record["TwoNN"] = two_nn(z, options.repeats)
    record["cluster learnability"] = learnability(z, options.clusters, options.repeats)
    record["k-means"] = clustering(z, options.clusters, options.seeds)
    if options.large:
        record["large search"] = large(options.large, options.dim)
    record["load_after"] = os.getloadavg()
    if options.json:
        print(json.dumps(record, indent=1))
        return
    print(f"{options.rows} rows of {options.dim} features, {record['threads']} threads, load {load[0]:.1f} before and "
          f"{record['load_after'][0]:.1f} after")  # fmt: skip
    for part in ("TwoNN", "cluster learnability", "k-means", "large search"):
        if part in record:
            print(f"\n{part}")
            for name, value in record[part].items():
                print(f"  {name:40} {json.dumps(value)}")


if __name__ == "__main__":
    main()
