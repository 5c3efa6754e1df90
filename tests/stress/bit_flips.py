"""Flips single bits of what is cached of a ResNet-50, one at a time: every load must refuse it.

    python tests/stress/bit_flips.py [--flips 1000] [--seed 0]

Nine in ten flips hit the converted weights (94 MB), one in ten their record. Each is undone after its load. Expected:
1,000 of 1,000 refused, and the untouched cache loads at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.warm_load import checkpoint


def flip(path: Path, position: int, bit: int) -> None:
    """Inverts one bit of a file in place."""
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def main() -> int:
    """Prints the counts; 1 if any flip went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as private:
        for variable in ("ZOO_CACHE", "ZOO_HOME"):
            os.environ[variable] = str(Path(private, variable))
        import zoo
        from zoo.errors import WeightsRefused

        file = Path(private, "vissl.torch")
        checkpoint(file)
        zoo.register(file, like="simclr_rn50", name="flipped")
        (weights,) = Path(private, "ZOO_HOME", "weights", "tensors").iterdir()
        (record,) = Path(private, "ZOO_HOME", "weights", "records").iterdir()
        counts = {weights: [0, 0], record: [0, 0]}  # flips, refusals
        for number in range(arguments.flips):
            path = record if number % 10 == 9 else weights
            position, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
            flip(path, position, bit)
            counts[path][0] += 1
            try:
                zoo.load("flipped")
            except WeightsRefused as error:
                counts[path][1] += "\n" not in str(error)
            flip(path, position, bit)
        zoo.load("flipped")
    for path, (n_flips, n_refused) in counts.items():
        what = "record" if path == record else "weights"
        print(f"{what:8} {n_flips:5} flips {n_refused:5} refused with one sentence")
    return int(any(n_flips != n_refused for n_flips, n_refused in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
