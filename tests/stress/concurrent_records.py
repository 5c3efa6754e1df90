"""Processes record measurements into one file at once, some are killed (SIGKILL) at random moments; is anything lost?

    python tests/stress/concurrent_records.py [--processes 6] [--rows 10] [--kills 2] [--rounds 2] [--seed 0] [--json]

Every process adds its rows one by one and says so after each; meanwhile another one reads all results again and again.
A round is right if every row that was acknowledged is in the file exactly once, with its own provenance, if at most one
unacknowledged row a killed process is there too, and if every reading succeeded. Expected: every round right; the
command exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.results.record_writers import Outcome, leftovers, record_at_once

_COLUMNS = ("n_killed", "n_failed", "n_acknowledged", "n_rows", "n_lost", "n_twice", "n_bare", "n_read")


def is_right(found: Outcome) -> bool:
    """Nothing lost, doubled or without provenance, and nothing that nobody wrote."""
    n_more = found.n_rows - found.n_acknowledged
    return found.n_lost == found.n_twice == found.n_bare == found.n_failed == 0 and 0 <= n_more <= found.n_killed


def main() -> int:
    """Prints a line a round."""
    parser = argparse.ArgumentParser(description="Record from several processes at once, and kill some of them.")
    parser.add_argument("--processes", type=int, default=6, help="how many write at once [6]")
    parser.add_argument("--rows", type=int, default=10, help="that each adds, one by one [10]")
    parser.add_argument("--kills", type=int, default=2, help="how many of them are killed [2]")
    parser.add_argument("--rounds", type=int, default=2, help="how many times [2]")
    parser.add_argument("--seed", type=int, default=0, help="of the moments [0]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rounds = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as home:
            os.environ["ZOO_HOME"] = home
            began = time.perf_counter()
            found = record_at_once(
                n_writers=options.processes,
                n_rows=options.rows,
                n_killed=min(options.kills, options.processes),
                seed=options.seed + number,
            )
            rounds.append(
                {"right": is_right(found), "seconds": round(time.perf_counter() - began, 2)}
                | asdict(found)
                | {"left": len(leftovers(Path(home))), "load_average": round(os.getloadavg()[0], 1)}
            )
    if options.json:
        print(json.dumps(rounds, indent=2))
    else:
        heads = ("right", "seconds", *_COLUMNS, "left", "load_average")
        print("  ".join(f"{head:>{max(8, len(head))}}" for head in heads))
        for one in rounds:
            print("  ".join(f"{one[head]!s:>{max(8, len(head))}}" for head in heads))
            print(str(one["errors"]), end="", file=sys.stderr)
    return 0 if all(one["right"] for one in rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
