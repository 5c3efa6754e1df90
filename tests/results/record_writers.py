"""Processes that record measurements at once, some of them killed, and what can be read meanwhile and afterwards."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conftest import REPOSITORY
from zoo.results.recording import PROVENANCE_KEYS, find_provenance
from zoo.results.rows import Measurement, measurements

_WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.results.record_writers import measured, provenance
from zoo.results.recording import record
writer, n_rows = sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(n_rows):
    row = measured(writer, number)
    record({row: provenance(row)})
    print(number, flush=True)
"""
SOURCE = "several at once"
_MOST_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of the rows of several writers."""

    n_killed: int
    n_failed: int  # ended by themselves with an error
    n_acknowledged: int  # rows of which a writer said that they were recorded
    n_rows: int  # in the file
    n_lost: int  # acknowledged and not in the file
    n_twice: int
    n_bare: int  # rows whose provenance is missing or that of another row
    n_read: int  # times that all could be read while they were writing
    errors: str  # what the failed ones wrote


def measured(writer: str, number: int) -> Measurement:
    """A row that no other writer has."""
    return Measurement(
        encoder="dino_vitS16",
        metric="linear_probe_error",
        dataset="digits",
        split="train -> val",
        n_train=1347,
        seed=number,
        value=random.Random(f"{writer} {number}").uniform(0, 100),
        unit="percent",
        ci_low=None,
        ci_high=None,
        protocol=f"of {writer}",
        source=SOURCE,
        date="2026-11-20",
    )


def provenance(row: Measurement) -> dict[str, object]:
    """A provenance of some size, which names its row."""
    return dict.fromkeys(PROVENANCE_KEYS) | {"report": {"row": [row.protocol, row.seed], "path": [0.1] * 200}}


def record_at_once(*, n_writers: int, n_rows: int, n_killed: int, seed: int) -> Outcome:
    """Starts writers on one file of ``$ZOO_HOME``, kills (SIGKILL) some at random moments, and reads all the while."""
    chance = random.Random(seed)
    command = [sys.executable, "-c", _WRITER, str(REPOSITORY)]
    writers = {
        f"writer {number}": subprocess.Popen(
            [*command, f"writer {number}", str(n_rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(n_writers)
    }
    for process in writers.values():
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    began = time.monotonic()
    for process in writers.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    doomed = chance.sample(sorted(writers), n_killed)
    typical_s = 0.05 * n_writers * n_rows
    moments = sorted((began + chance.uniform(0, typical_s), name) for name in doomed)
    n_read = 0
    while any(process.poll() is None for process in writers.values()):
        assert time.monotonic() - began < _MOST_S, "the writers hang"
        while moments and moments[0][0] <= time.monotonic():
            writers[moments.pop(0)[1]].kill()
        measurements(metrics="linear_probe_error")
        n_read += 1
        time.sleep(0.01)
    acknowledged, errors, n_failed = [], "", 0
    for name, process in writers.items():
        said, complaint = process.communicate()
        acknowledged += [measured(name, int(line)) for line in said.split()]
        if process.returncode not in (0, -9):
            n_failed += 1
            errors += complaint
    rows = [row for row in measurements() if row.source == SOURCE]
    times = Counter(rows)
    return Outcome(
        n_killed=sum(process.returncode == -9 for process in writers.values()),
        n_failed=n_failed,
        n_acknowledged=len(acknowledged),
        n_rows=len(rows),
        n_lost=sum(row not in times for row in acknowledged),
        n_twice=sum(count > 1 for count in times.values()),
        n_bare=sum(_row_of_provenance(row) != [row.protocol, row.seed] for row in times),
        n_read=n_read,
        errors=errors,
    )


def _row_of_provenance(row: Measurement) -> object:
    found = find_provenance(replace(row))
    return None if found is None else found["report"]["row"]


def leftovers(home: Path) -> list[str]:
    """Names of the temporary files that killed writers left."""
    return [name for _, _, names in os.walk(home) for name in names if name.endswith(".tmp")]
