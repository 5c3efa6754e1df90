"""Runs a package's program in its environment: ENV/bin/python -P scripts/packages/_run.py PROGRAM INPUTS.

INPUTS is a folder of CASE.NAME.npy and cases.json (quantity -> cases). Printed is one JSON object: what the program's
functions return, by quantity and case; a number, or the first line of what the package raised. No zoo is needed here.
"""

import json
import runpy
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    """Run every function of the program on every case of its quantity."""
    program, folder = runpy.run_path(sys.argv[1]), Path(sys.argv[2])
    cases = json.loads((folder / "cases.json").read_text())
    found = {}
    for name, function in program["QUANTITIES"].items():
        found[name] = {}
        for case in cases[name.partition(":")[0]]:
            arrays = {path.name.split(".")[1]: np.load(path) for path in sorted(folder.glob(f"{case}.*.npy"))}
            try:
                found[name][case] = float(function(**arrays))
            except Exception as error:  # whatever a foreign package raises is its answer
                found[name][case] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
