"""How long the zoo takes to start: whole processes, alternating, medians, with the goals next to them.

    python benchmarks/startup.py [--repetitions 15] [--json]

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


def main() -> None:
    """Time everything and print one table, or one JSON document."""
    parser = argparse.ArgumentParser(description="Start-up times of the zoo, next to those of its neighbours.")
    parser.add_argument("--repetitions", type=int, default=15, help="counted runs of each command [15]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
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
