"""How long the zoo takes to start: whole processes, alternating, medians, with the goals next to them.

    python benchmarks/startup.py [--repetitions 15] [--json]
    python benchmarks/startup.py --walk 300 [--against CHECKOUT]

With ``--walk N`` it goes the way of docs/choosing.md on N images of one folder instead, every verb a process of its
own, and prints what each spent on processors: what one verb has computed, the next should find. ``--against`` goes it
with another checkout too, verb by verb in turns, each with a home and a cache of its own. What ``import torch`` takes
is printed behind them.

Processor seconds at cfb8b79c and after, bytecode kept: on 2026-11-29 of 60 images, on two cores that others used,
and on 2026-11-30 of 5,000 at a load of 9, on which ``import torch`` alone took 3.84; the last but one number is of a
run by itself, for sources had changed under the first:

========================  =======  =======  =========  =========
verb                      60 then  60 now   5000 then  5000 now
========================  =======  =======  =========  =========
recommend                                        3.33       3.37
choose                                          70.67      39.21
choose again                                    16.37       3.09
evaluate --save --page      14.60     9.92      45.16      21.88
evaluate                    10.03     3.39      17.25       7.49
evaluate again               9.20      .52      15.77       2.80
predict, one image           7.89     3.04      13.32       5.96
look, one image              6.49     4.16      11.25       6.12
layers                                         105.39      38.20
metric rankme,logme          8.36     4.86      16.45      10.25
the same again               6.96      .48      17.95       1.97
all                                            332.91     140.33
========================  =======  =======  =========  =========

A later ``zoo list`` took .70 processor seconds while it estimated the errors to expect, and .32 since it reads them
(medians of three alternated runs of both builds, at a load of 20 on two cores, on which ``python -c pass`` took
.02 to .03; on a quiet machine .47 before). At a load of 3 it takes .28: .02 for Python, .03 for click, .07 for 36 data
classes, which Python writes anew in every process; ``zoo --version`` takes .16. At no load it takes .18 (.16 with a
search word), ``zoo --version`` .10, and ``import click`` .06.

Every round runs each command once, so that a busy moment of the machine hits all of them alike; the first two rounds
warm the caches and are not counted. Expected on a quiet machine where `python -c pass` takes 11 ms: every goal met.

Measured on 2026-11-23 on two quiet cores with Python 3.11.7 and 1,085 cards, medians of 15 in milliseconds, without
kept bytecode; in the last column three days before, with 226 cards.

========================  ====  =======  =========
command                   goal  elapsed  226 cards
========================  ====  =======  =========
python -c pass                       14         11
import zoo                  60       48         38
zoo list                   150      118        117
zoo list, on a terminal    150      113        119
zoo list dinov3            150      109
zoo show                   120      112         86
completion of an encoder   150       98
list of torch.hub         1000       86
zoo list --json            300      224        104
zoo results                         105        113
zoo recommend                       391
import pandas                       418        366
import timm                        4315       3825
========================  ====  =======  =========
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_ENCODER = "dino_vitS16"
_UNTIL_STAMPS_COUNT_S = 3.5  # what was just made is not trusted by its stamp


@dataclass(frozen=True, slots=True)
class Command:
    """A process to time, and the most milliseconds it should take."""

    name: str
    arguments: tuple[str, ...]
    goal_ms: float | None = None
    terminal: bool = False  # stdout is a terminal, so that the table is drawn
    completes: str = ""  # a line that a shell asks to complete


_LISTED_BY_HUB = "import hubconf; print(sum(map(callable, vars(hubconf).values())))"  # what torch.hub.list does itself
COMMANDS = (
    Command("python -c pass", ("-c", "pass")),
    Command("import zoo", ("-c", "import zoo"), 60),
    Command("zoo list", ("-m", "zoo", "list"), 150),
    Command("zoo list, on a terminal", ("-m", "zoo", "list"), 150, terminal=True),
    Command("zoo list dinov3", ("-m", "zoo", "list", "dinov3"), 150),
    Command("zoo show", ("-m", "zoo", "show", _ENCODER), 120),
    Command("completion of an encoder", ("-m", "zoo"), 150, completes="zoo show dino"),
    Command("list of torch.hub", ("-c", _LISTED_BY_HUB), 1000),
    Command("zoo list --json", ("-m", "zoo", "list", "--json"), 300),
    Command("zoo results", ("-m", "zoo", "results")),
    Command("zoo recommend", ("-m", "zoo", "recommend", "--labels", "20000")),
    Command("import pandas", ("-c", "import pandas")),
    Command("import timm", ("-c", "import timm")),
)


def milliseconds(command: Command) -> tuple[float, float]:
    """Wall-clock time of one process, from before it starts until it has ended, and its time on processors."""
    process = [sys.executable, *command.arguments]
    before = _on_processors()
    if command.terminal:
        elapsed = _on_terminal(process)
    else:
        asked = {"_ZOO_COMPLETE": "bash_complete", "COMP_WORDS": command.completes, "COMP_CWORD": "2"}
        environment = os.environ | (asked if command.completes else {})
        start = time.perf_counter()
        subprocess.run(process, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, env=environment)
        elapsed = (time.perf_counter() - start) * 1e3
    return elapsed, _on_processors() - before


def _on_processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def _on_terminal(process: list[str]) -> float:
    controller, terminal = os.openpty()
    start = time.perf_counter()
    with subprocess.Popen(process, stdin=terminal, stdout=terminal, stderr=terminal) as running:
        os.close(terminal)
        while _read(controller):
            pass
        code = running.wait()
    elapsed = (time.perf_counter() - start) * 1e3
    os.close(controller)
    if code != 0:
        raise subprocess.CalledProcessError(code, process)
    return elapsed


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65_536)
    except OSError:  # how Linux says that the other side has closed
        return b""


def medians(commands: tuple[Command, ...], repetitions: int) -> list[dict[str, object]]:
    """One record a command: median, quickest, goal, and whether the median meets it."""
    times: dict[str, list[tuple[float, float]]] = {command.name: [] for command in commands}
    for command in commands:
        milliseconds(command)
    time.sleep(_UNTIL_STAMPS_COUNT_S)
    for command in commands:
        milliseconds(command)
    for _ in range(repetitions):
        for command in commands:
            times[command.name].append(milliseconds(command))
    records: list[dict[str, object]] = []
    for command in commands:
        elapsed, used = zip(*times[command.name], strict=True)
        records.append(
            {
                "command": command.name,
                "median_ms": round(statistics.median(elapsed), 1),
                "quickest_ms": round(min(elapsed), 1),
                "processor_ms": round(statistics.median(used), 1),
                "goal_ms": command.goal_ms,
                "met": None if command.goal_ms is None else statistics.median(elapsed) < command.goal_ms,
            }
        )
    return records


_ENCODERS = "pocket_simclr_rn_shapes,pocket_sup_rn_shapes"


def walk(folder: Path, work: Path) -> list[tuple[str, list[str]]]:
    """The verbs of docs/choosing.md on a folder of images, with their arguments; results go below ``work``."""
    best, image = _ENCODERS.partition(",")[0], str(next(folder.rglob("*.png")))
    few = ["--settings", "full"]
    kept, page = str(work / "probe"), str(work / "mistakes.html")
    return [
        ("recommend", ["recommend", "--labels", "1000"]),
        ("choose", ["choose", str(folder), "--encoders", _ENCODERS, "--time", "none"]),
        ("choose again", ["choose", str(folder), "--encoders", _ENCODERS, "--time", "none"]),
        ("evaluate --save --page", ["evaluate", best, str(folder), *few, "--save", kept, "--page", page]),
        ("evaluate", ["evaluate", best, str(folder), *few]),
        ("evaluate again", ["evaluate", best, str(folder), *few]),
        ("predict, one image", ["predict", kept, image]),
        ("look, one image", ["look", best, image, "--out", str(work / "look")]),
        ("layers", ["layers", best, str(folder)]),
        ("metric rankme,logme", ["metric", "rankme,logme", best, str(folder)]),
        ("the same again", ["metric", "rankme,logme", best, str(folder)]),
    ]


def draw_folder(folder: Path, n: int) -> None:
    """Writes ``n`` rendered images of four classes as PNG files in a folder a class."""
    from zoo.datasets import shapes

    data = shapes(classes=4, train=n, val=4, size_px=64, seed=5)
    for place, image in enumerate(data.train.images):
        path = folder / str(int(data.train.labels[place])) / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)


def print_walk(n: int, checkouts: list[Path]) -> None:
    """Processor seconds of every verb under each checkout, in turns."""
    with TemporaryDirectory() as temporary:
        draw_folder(Path(temporary, "images"), n)
        homes = [Path(temporary, str(number)) for number in range(len(checkouts))]
        for home in homes:
            home.mkdir()
        walks = [walk(Path(temporary, "images"), home) for home in homes]
        print(f"{'processor seconds':26}" + "".join(f"{checkout.name:>16}" for checkout in checkouts))
        totals = [0.0] * len(checkouts)
        for verbs in zip(*walks, strict=True):
            spent = []
            for checkout, home, (_, arguments) in zip(checkouts, homes, verbs, strict=True):
                before = _on_processors()
                own = {"ZOO_HOME": str(home / "home"), "ZOO_CACHE": str(home / "cache"), "PYTHONPATH": str(checkout)}
                process = [sys.executable, "-m", "zoo", *arguments]
                subprocess.run(process, cwd=checkout, env=os.environ | own, check=True, capture_output=True)
                spent.append((_on_processors() - before) / 1e3)
            totals = [total + one for total, one in zip(totals, spent, strict=True)]
            print(f"{verbs[0][0]:26}" + "".join(f"{one:16.2f}" for one in spent), flush=True)
        print(f"{'all':26}" + "".join(f"{one:16.2f}" for one in totals))
        before = _on_processors()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        print(f"import torch alone: {(_on_processors() - before) / 1e3:.2f}")


def main() -> None:
    """Time everything and print one table, or one JSON document."""
    parser = argparse.ArgumentParser(description="Start-up times of the zoo, next to those of its neighbours.")
    parser.add_argument("--repetitions", type=int, default=15, help="counted runs of each command [15]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--walk", type=int, metavar="N", help="time the verbs of docs/choosing.md on N images instead")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="with --walk: another checkout")
    options = parser.parse_args()
    if options.walk:
        checkouts = [options.against.resolve()] if options.against else []
        print_walk(options.walk, [*checkouts, Path(__file__).resolve().parents[1]])
        return
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    records = medians(COMMANDS, options.repetitions)
    if options.json:
        circumstances = {
            "repetitions": options.repetitions,
            "load_average": load,
            "bytecode_kept": not sys.dont_write_bytecode,
        }
        print(json.dumps({**circumstances, "commands": records}, indent=1))
        return
    bytecode = "not kept" if sys.dont_write_bytecode else "kept"
    print(f"{options.repetitions} alternating repetitions, whole processes, load average {load}, bytecode {bytecode}")
    print(f"{'':26}{'median':>10}{'quickest':>10}{'processor':>10}{'goal':>10}")
    for record in records:
        goal = "" if record["goal_ms"] is None else f"< {record['goal_ms']:.0f}"
        verdict = {"None": "", "True": "  met", "False": "  missed"}[str(record["met"])]
        print(
            f"{record['command']:26}{record['median_ms']:>7} ms{record['quickest_ms']:>7} ms"
            f"{record['processor_ms']:>7} ms{goal:>10}{verdict}"
        )


if __name__ == "__main__":
    main()
