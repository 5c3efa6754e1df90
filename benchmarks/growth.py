"""How time and memory of commands grow with the user's own cards and measurements.

    python benchmarks/growth.py [--sizes 1 3 10] [--commands list show ...] [--home FOLDER] [--json]

Size 1 is a home of 1,000 registered cards, a file each as ``zoo register`` writes it, and of 100,000 rows, a file an
encoder as ``zoo evaluate`` writes it: ten data sets, one of them ImageNet-1K, with errors, components and label-free
metrics of every encoder on each. Every command is a process of its own: once after a row was added to the file of one
encoder ("changed"), then as often as ``--repetitions`` says with nothing changed ("again"), medians; "all" is the first
call ever, without a cache. Seconds on the clock and on the processor, and the peak of resident memory, come from the
resources of the process itself; the last table has how many times more the largest size takes than the smallest.
``site`` runs only if ``--commands`` names it, for it takes minutes.

Measured on 2026-11-27 on two busy processors with Python 3.11.7, seconds on the processor and MiB; "before" is JSON of
all rows, and a look at all files for every encoder. Goals with 10,000 cards: 0.4 s for ``list`` and ``show``, and 1.5 s
for the results of a data set, of which ``list`` takes more by 0.1 s.

===============================  ======  ======  =======  ========  =======
command                          size 1  size 3  size 10  before    MiB
===============================  ======  ======  =======  ========  =======
list, all                                           18.4      28.2      361
list, again                        0.16    0.23     0.52      5.50       80
list, changed                      0.25    0.43     1.10     19.03      224
show, again                        0.16    0.21     0.39      3.56       51
results of a data set, again       0.24    0.43     1.19      22.0      125
results of an encoder, again       0.18    0.22     0.39      3.36       57
recommend, again                   0.43    0.89     2.80 61.7 (1)     157
===============================  ======  ======  =======  ========  =======

(1) at size 1; it grew faster than its data.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.cards.catalogue import load_catalogue
from zoo.cards.writing import extract_facts, format_card_toml
from zoo.files import use_shipped_only
from zoo.results.values import COLUMNS

N_CARDS, N_DATASETS = 1_000, 10
_MODELS = ("dino_vitS16", "mae_vitB16", "dinov2_vitS14", "simclr_rn50", "clip_vitB32")
_PROBES = (("train -> val", 100), ("train 30-shot -> val", 30), ("train 5-shot -> val", 5), ("train 3-shot -> val", 3))
_PARTS = ("approximation_plus_usability", "probe_generalization", "encoder_generalization")
_IMAGENET_IMAGES = {100: 1_281_167, 30: 30_000, 5: 5_000, 3: 3_000}
_UNTIL_STAMPS_COUNT_S = 3.5  # what was just made is not trusted by its stamp
_START = "import sys; sys.argv[0] = 'zoo'; from zoo.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Measured:
    """One command at one size."""

    command: str
    size: float
    when: str  # "all", "changed" or "again"
    seconds: float
    processor_seconds: float
    peak_mib: float


def commands(n_cards: int, home: Path) -> dict[str, list[str]]:
    """Arguments of ``zoo`` by the name of each command."""
    one = _name(n_cards // 2)
    return {
        "list": ["list"],
        "show": ["show", one],
        "results of a data set": ["results", "--dataset", "own-3"],
        "results of an encoder": ["results", one],
        "recommend": ["recommend", "--labels", "20000"],
        "choose": ["choose", "digits", "--dry-run"],
        "site": ["site", "--out", str(home / "site"), "--with-mine", "--no-studies"],
    }


def make_home(home: Path, n_cards: int) -> None:
    """Writes cards and rows of so many encoders."""
    with use_shipped_only():
        cards = load_catalogue()
        models = [cards[name] for name in _MODELS if name in cards]
    texts = []
    for model in models:
        facts = extract_facts(model) | {"released": "not published"}
        facts["weights"] |= {
            "url": "zoo:SHA", "sha256": "SHA", "size_bytes": 1_000_000, "same_file_as": "not applicable",
            "mirrors": [], "companions": [], "format": "safetensors", "converter": "zoo",
            "availability": "open", "gate": "not applicable",
            "authors_url": "not published", "authors_availability": "not published", "revision": "not applicable",
        }  # fmt: skip
        facts["reported"] = dict.fromkeys(facts["reported"], "not published")
        texts.append(format_card_toml("NAME", facts, comment="Made by benchmarks/growth.py.", family=model.family))
    rows = home / "results" / "measured"
    rows.mkdir(parents=True)
    for number in range(n_cards):
        name, kind = _name(number), number % len(models)
        folder = home / "metadata" / "registered" / name
        folder.mkdir(parents=True)
        text = texts[kind].replace("NAME", name).replace("SHA", f"{number:064x}")
        (folder / f"{models[kind].family}.toml").write_text(text)
        with open(rows / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows_of(name))


def rows_of(name: str) -> list[list[object]]:
    """A hundred rows of one encoder, with the precision of measured ones."""
    draw, rows = random.Random(name), []
    for dataset in ["imagenet-1k", *(f"own-{number}" for number in range(1, N_DATASETS))]:
        images = _IMAGENET_IMAGES if dataset == "imagenet-1k" else {shots: 10 * shots for shots in _IMAGENET_IMAGES}
        error = draw.uniform(10, 40)
        for split, shots in _PROBES:
            value = min(error * (1 + 20 / (shots + 10)), 99.0)
            ends = [value - draw.uniform(0.1, 1), value + draw.uniform(0.1, 1)]
            rows.append(["linear_probe_error", dataset, split, images[shots], 0, value, "percent", *ends, "logistic-3"])
        for part, share in zip(_PARTS, (0.5, 0.3, 0.2), strict=True):
            rows.append([part, dataset, "train -> val", images[100], 0, error * share, "percentage points", "", ""])
            rows[-1].append("risk-3")
        knn = ["knn_error", dataset, "train -> val", images[100], 0, min(error * 1.2, 99.0), "percent", "", ""]
        rows += [[*knn, "nearest-neighbours-1"]]
        free = ["", 0, draw.uniform(10, 300), "dimensions", "", "", "label-free-1"]
        rows += [[metric, dataset, "train", *free] for metric in ("rankme", "feature_rank")]
    return [[name, *row[:-1], f"zoo-{row[-1]}", "measured", "2026-11-20"] for row in rows]


def _name(number: int) -> str:
    return f"own_{number:05d}"


def timed(arguments: list[str], home: Path) -> tuple[float, float, float]:
    """Seconds on the clock and on the processor, and the most MiB of memory, of one process."""
    environment = os.environ | {"ZOO_HOME": str(home), "ZOO_CACHE": str(home / "cache"), "ZOO_OFFLINE": "1"}
    start = time.perf_counter()
    with open(home / "stderr.txt", "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, used = os.wait4(process.pid, 0)  # of this child alone
    elapsed = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"zoo {' '.join(arguments)} ended with {process.returncode}: {(home / 'stderr.txt').read_text()}")
    peak = used.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    return elapsed, used.ru_utime + used.ru_stime, peak


def measured(home: Path, size: float, names: list[str], repetitions: int) -> list[Measured]:
    """Every command in every state of the caches."""
    n_cards = round(N_CARDS * size)
    asked = {name: arguments for name, arguments in commands(n_cards, home).items() if name in names}
    shutil.rmtree(home / "cache", ignore_errors=True)
    found = [Measured("list", size, "all", *timed(["list"], home))]
    print(f"size {size:g}: first call {found[0].seconds:.1f} s", file=sys.stderr)
    for number, (name, arguments) in enumerate(asked.items()):
        rows = home / "results" / "measured" / f"{_name(number)}.csv"
        seed = rows.read_bytes().count(b"\n")  # of no row before
        with open(rows, "a") as file:
            row = f"{_name(number)},knn_error,own-1,train -> val,1000,{seed},30,percent,,,"
            file.write(f"{row}zoo-nearest-neighbours-1,measured,2026-11-21\n")
        found.append(Measured(name, size, "changed", *timed(arguments, home)))
    time.sleep(_UNTIL_STAMPS_COUNT_S)
    for arguments in asked.values():
        timed(arguments, home)
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in asked}
    for _ in range(repetitions):
        for name, arguments in asked.items():
            runs[name].append(timed(arguments, home))
    for name, some in runs.items():
        seconds, used, peak = (statistics.median(column) for column in zip(*some, strict=True))
        found.append(Measured(name, size, "again", seconds, used, peak))
    return found


def main() -> None:
    """Make the homes, time everything and print the tables, or one JSON document."""
    every = [*commands(N_CARDS, Path())]
    parser = argparse.ArgumentParser(description="How time and memory grow with own cards and measurements.")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 3, 10], help="in 1,000 cards, 100,000 rows")
    parser.add_argument("--commands", nargs="+", choices=every, default=every[:-1], metavar="NAME", help=str(every))
    parser.add_argument("--repetitions", type=int, default=3, help="counted runs with nothing changed [3]")
    parser.add_argument("--home", type=Path, help="keep the homes below this folder, and use those that are there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as temporary:
        for size in options.sizes:
            home = (options.home or Path(temporary)) / f"size-{size:g}"
            if not home.exists():
                make_home(home, round(N_CARDS * size))
            found += measured(home, size, options.commands, options.repetitions)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if options.json:
        print(json.dumps({"load_average": load, "measured": [asdict(one) for one in found]}, indent=1))
        return
    print(f"load average {load}; sizes in {N_CARDS:,} cards and {N_CARDS * 10 * N_DATASETS:,} rows")
    by = {(one.command, one.when, one.size): one for one in found}
    first, *_, last = options.sizes[0], options.sizes[-1]
    for title, field in (("seconds", "seconds"), ("on the processor", "processor_seconds"), ("MiB", "peak_mib")):
        heads = "".join(f"{f'size {size:g}':>12}" for size in options.sizes)
        print(f"\n{title:32}{heads}{'growth':>10}")
        for command, when in dict.fromkeys((one.command, one.when) for one in found):
            values = [getattr(by[command, when, size], field) for size in options.sizes]
            cells = "".join(f"{value:12.2f}" for value in values)
            growth = f"{values[-1] / values[0]:9.1f}x"
            print(f"{f'{command}, {when}':32}{cells}{growth}")
    print(f"\nthe data grow {last / first:g} times")


if __name__ == "__main__":
    main()
