"""RankMe against the singular values that PyTorch gives in float32, and all spectral metrics from a folder of features.

    python benchmarks/spectral_metrics.py [--sizes 25600x2048,25600x8192] [--spectra power-law,collapsed] [--repeats 5]

What a user would type is ``torch.linalg.svdvals`` of the float32 features and the entropy of that. Both sides run in
turn in one process, on as many threads as PyTorch takes; medians, and the relative error of each against the float64
singular values of the same float32 features, which take a minute at 8,192 features (``--no-oracle`` leaves them out).

The features are drawn, not an encoder's, with spectra like theirs: in "power-law" the singular values of the centred
features fall as rank ** -0.5 and a mean as long as the largest of them is added; in "collapsed" 64 of them do and the
rest is what float32 rounds, so that the last, slowest step of ``zoo.evaluation.label_free.rank`` is needed.

On one thread of two busy cores, power law: 12,800 x 1,024 1.2 s against 2.0 s; 25,600 x 2,048 5.2 s against 7.7 s, off
by 1e-15 where svdvals is off by 1e-7. A collapsed spectrum of 1,024 features takes 3.8 s, three times as long as
svdvals, which is off by 5e-6 there.

Then a folder of features several times as large as the memory that is said: rankme, feature_rank, correlation_rank and
alpha_req in a process of its own, from one pass. Its peak is of the memory that is the process's own (RssAnon), for
pages of files that were read can be taken from it at any time; a process that only imports the same is subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from zoo.evaluation.label_free.rank import alpha_req, compute_spectrum, correlation_rank, feature_rank, rankme
from zoo.features import Features, Origin, load_features

RELATIVE_ERROR = 1e-5


def drawn(n: int, dim: int, spectrum: str, seed: int) -> torch.Tensor:
    """Float32 features (n, dim) with a spectrum of that name, made by blocks; random factors are nearly orthogonal."""
    generator = torch.Generator().manual_seed(seed)
    rank = dim if spectrum == "power-law" else min(64, dim)
    right = torch.linalg.qr(torch.randn(dim, rank, generator=generator))[0] * torch.arange(1.0, rank + 1) ** -0.5
    mean = torch.randn(dim, generator=generator) / dim**0.5
    found = torch.empty(n, dim)
    for start in range(0, n, 4096):
        left = torch.randn(min(4096, n - start), rank, generator=generator)
        found[start : start + 4096] = left @ right.T + mean
    return found


def entropy_rank(values: torch.Tensor) -> float:
    """RankMe of singular values, as one would write it."""
    shares = values / values.sum() + 1e-7
    return float(torch.exp(-(shares * shares.log()).sum()))


def exact_rankme(z: torch.Tensor) -> float:
    """From singular values of the triangular factor in float64."""
    return entropy_rank(torch.linalg.svdvals(torch.linalg.qr(z.double(), mode="r")[1]))


def alternated(sides: dict[str, Callable[[], float]], repeats: int) -> dict[str, dict[str, Any]]:
    """Median seconds and the value of each side, which run in turn."""
    found: dict[str, dict[str, Any]] = {name: {"seconds_each": []} for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            start = time.perf_counter()
            found[name]["value"] = side()
            found[name]["seconds_each"].append(time.perf_counter() - start)
    for one in found.values():
        one["seconds"] = median(one["seconds_each"])
    return found


def compared(n: int, dim: int, spectrum: str, options: argparse.Namespace) -> dict[str, Any]:
    """Both sides on features of one size and spectrum."""
    z = drawn(n, dim, spectrum, options.seed)
    sides: dict[str, Callable[[], float]] = {
        "zoo": lambda: rankme(z),
        "svdvals": lambda: entropy_rank(torch.linalg.svdvals(z)),
    }
    found: dict[str, Any] = {"n": n, "dim": dim, "spectrum": spectrum, "load_before": os.getloadavg()}
    found |= alternated(sides, options.repeats)
    found["times_faster"] = found["svdvals"]["seconds"] / found["zoo"]["seconds"]
    if options.oracle:
        found["float64"] = exact_rankme(z)
        for name in sides:
            found[name]["relative_error"] = abs(found[name]["value"] / found["float64"] - 1)
    return found


def streamed(options: argparse.Namespace) -> dict[str, Any]:
    """All spectral metrics of a features folder, and the memory that took."""
    n, dim = (int(size) for size in options.stream.split("x"))
    with tempfile.TemporaryDirectory(dir=options.folder) as private:
        numbers, folder = Path(private, "drawn.f32"), Path(private, "features")
        z = np.memmap(numbers, np.float32, "w+", shape=(n, dim))
        for number, start in enumerate(range(0, n, 8192)):
            z[start : start + 8192] = drawn(min(8192, n - start), dim, "power-law", options.seed + number).numpy()
        origin = Origin(
            encoder="drawn",
            dataset="drawn",
            split="all",
            weights_hash="",
            preprocess_hash="",
            images_hash="",
            representation="card",
            precision="float32",
            code_version="",
        )
        Features(z, np.zeros(n, np.int64), origin).save(folder)
        del z
        numbers.unlink()
        found = {"n": n, "dim": dim, "features_mb": n * dim * 4 / 1e6, "limit_mb": options.limit_mb}
        done = subprocess.run([sys.executable, __file__, "--read", str(folder)], check=True, capture_output=True)
        return found | json.loads(done.stdout)


def read(folder: str) -> dict[str, Any]:
    """In the process that reads: the metrics, seconds, and the most memory of its own."""
    bare = own_memory_mb()
    peaks, done = [bare], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peaks.append(own_memory_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    of = compute_spectrum(load_features(folder).x)
    values = {
        "rankme": rankme(of),
        "feature_rank": feature_rank(of),
        "correlation_rank": correlation_rank(of).value,
        "alpha_req": alpha_req(of).value,
    }
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return {"seconds": seconds, "peak_mb": max(peaks) - bare, "values": values}


def own_memory_mb() -> float:
    """Anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024 / 1e6


def told(found: dict[str, Any]) -> int:
    """Prints what was measured; how many limits of error and memory were passed."""
    missed = 0
    print(f"{found['threads']} threads, load average {found['load_before'][0]:.1f}, medians of {found['repeats']}")
    print("      features   spectrum    svdvals        zoo   faster     error   svdvals")
    for one in found["compared"]:
        errors = [one[name].get("relative_error") for name in ("zoo", "svdvals")]
        shown = "".join(f"{error:10.1e}" if error is not None else f"{'':10}" for error in errors)
        print(
            f"{one['n']:>7} x {one['dim']:<5}{one['spectrum']:>10}{one['svdvals']['seconds']:>9.2f} s"
            f"{one['zoo']['seconds']:>9.2f} s{one['times_faster']:>9.2f}{shown}"
        )
        missed += (errors[0] or 0) > RELATIVE_ERROR
    if "streamed" in found:
        one = found["streamed"]
        print(
            f"from disk: {one['n']} x {one['dim']}, {one['features_mb']:.0f} MB, four metrics in {one['seconds']:.1f} "
            f"s with {one['peak_mb']:.0f} MB of memory at most, {one['limit_mb']} MB allowed"
        )
        missed += one["peak_mb"] > one["limit_mb"]
    return missed


def main() -> int:
    """Number of limits of error and memory that were passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="25600x2048,25600x8192", help="of features, by comma")
    parser.add_argument("--spectra", default="power-law,collapsed", help="by comma")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-oracle", dest="oracle", action="store_false", help="without float64 singular values")
    parser.add_argument("--stream", default="400000x2048", help="size of the folder; empty for none [400000x2048]")
    parser.add_argument("--limit-mb", type=int, default=1000, help="memory for reading it [1000]")
    parser.add_argument("--folder", help="where it is written [the system's for temporary files]")
    parser.add_argument("--threads", type=int, default=0, help="[as PyTorch chooses]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(options.read)))
        return 0
    if options.threads:
        torch.set_num_threads(options.threads)
    found: dict[str, Any] = {"threads": torch.get_num_threads(), "repeats": options.repeats}
    found["load_before"] = os.getloadavg()
    found["compared"] = [
        compared(*(int(number) for number in size.split("x")), spectrum, options)
        for size in options.sizes.split(",")
        if size
        for spectrum in options.spectra.split(",")
    ]
    if options.stream:
        found["streamed"] = streamed(options)
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    return told(found)


if __name__ == "__main__":
    sys.exit(main())
