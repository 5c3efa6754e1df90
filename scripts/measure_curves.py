"""Measures calibrated learning curves of toy encoders, into ``results/measured/`` of this checkout.

    python scripts/measure_curves.py [TASK...] [--processes 2] [--scratch DIR] [--out DIR]

What `zoo curve` does, for three self-supervised toy encoders and a supervised one, all of one architecture
and pretrained on the rendered images: their classes, depth and surface normals, with five data regimes from 2 labels a
class on; and the classes of the handwritten digits, which none of them has seen. Two seeds. Runs are kept as they
finish, and the script may be killed at any time; rows that are there already must come out again, to the last digit.

On two cores, with nothing else running and OMP_NUM_THREADS=1: classification 181 s, depth 433 s, normals 448 s,
together 18 minutes; digits 104 s.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from zoo.evaluation.curves.data import transfer_data
from zoo.evaluation.curves.models import candidate
from zoo.evaluation.curves.report import CurveRequest, learning_curves, make_curve_rows
from zoo.evaluation.curves.training import Training
from zoo.files import get_cache_folder, get_content_folder
from zoo.results.recording import record

ENCODERS = (
    "pocket_simclr_rn_shapes",
    "pocket_barlow_rn_shapes",
    "pocket_rotnet_rn_shapes",
    "pocket_sup_rn_shapes",
)
SHAPES, DIGITS = (50, 120, 300, 700, 1600), (20, 50, 120, 300, 800)
CURVES = {  # name of the choice -> data, task, regimes
    "classification": ("shapes", "classification", SHAPES),
    "depth": ("shapes", "depth", SHAPES),
    "normals": ("shapes", "normals", SHAPES),
    "digits": ("digits", "classification", DIGITS),
}
SEEDS = (0, 1)


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(CURVES)}; all unless given")
    parser.add_argument("--processes", type=int, default=2, help="runs at once, each on one thread")
    parser.add_argument(
        "--scratch", type=Path, default=get_cache_folder() / "curves", help="where finished runs are kept"
    )
    parser.add_argument(
        "--out", type=Path, default=get_content_folder("results") / "measured", help="folder of the rows"
    )
    options = parser.parse_args()
    unknown = set(options.tasks) - CURVES.keys()
    if unknown:
        parser.error(f"there is no {sorted(unknown)[0]!r}; expected some of {', '.join(CURVES)}")
    candidates = [candidate(name) for name in ENCODERS]
    started = time.perf_counter()
    for choice in options.tasks or CURVES:
        spec, task, regimes = CURVES[choice]
        begun = time.perf_counter()
        report = learning_curves(
            candidates,
            transfer_data(spec, task),
            CurveRequest(regimes=regimes, seeds=SEEDS),
            folder=options.scratch,
            how=Training(device="cpu"),
            n_processes=options.processes,
        )
        n_new = record(make_curve_rows(report, source="measured"), folder=options.out).n_new
        print(f"{choice}: {n_new} new rows, {time.perf_counter() - begun:.0f} s", flush=True)
        for curve in report.curves:
            gained = curve.improvement
            told = "not identified" if gained is None else f"{gained.value:.2f} [{gained.ci_low}, {gained.ci_high}]"
            print(f"  {curve.encoder:28} {curve.metric:22} CCI {told}")
    print(f"in all {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
