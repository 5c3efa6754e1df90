"""Takes what users see of the zoo at a commit as one JSON document, and compares two of them.

Take one before a change that must not move anything, one after it, and look at every difference::

    python scripts/snapshot.py take before.json
    python scripts/snapshot.py take after.json
    python scripts/snapshot.py compare before.json after.json

A snapshot holds the output of verbs (documents of --json, texts of --help), the tables of the Python API, features,
label-free metrics, and a probe with decomposition. It needs the extra `dev`, no network, and some ten minutes;
``--only PART`` takes a part. Its commands run with a home and a cache of their own: nothing of the user's is in it.

Comparing: keys and values must be equal, numbers within 1e-9 of each other relative to their size, or the number that
``--tolerance`` names (1e-6 where a sum's order changed); texts are shown as a diff. The exit code is 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
BUDGETS = ("1000", "2k", "5000", "20k", "100k", "500k", "1281167")
POCKET = ("pocket_simclr_rn_shapes", "pocket_dino_vit_shapes", "pocket_mae_vit_digits", "pocket_init_vit")
PAIRS = (("dino_rn50", "dino_vitS16"), ("mae_vitB16", "simclr_rn50", "byol_rn50_bs4096"), POCKET[:2])
FILTERS = (("dino*",), ("--where", "family == 'vit' and z_dim <= 768"), ("--sort", "train_test"))

Part = Callable[[Path], dict[str, Any]]


def environment(folder: Path) -> dict[str, str]:
    """Of a process that sees this checkout, and a home and a cache below a folder."""
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "ZOO_HOME": str(folder / "home"),
        "ZOO_CACHE": str(folder / "cache"),
        "ZOO_OFFLINE": "1",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


def zoo(*arguments: str, folder: Path) -> Any:
    """The document of a command, or its text and exit code where it prints none."""
    done = subprocess.run(
        [sys.executable, "-c", "from zoo.cli import main; main()", *arguments],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout.replace(str(folder), "<folder>").replace(str(REPOSITORY), "<repository>")
    if done.returncode == 0 and "--json" in arguments:
        return json.loads(text)
    problem = done.stderr.replace(str(folder), "<folder>") if done.returncode else ""
    return {"exit code": done.returncode, "text": text, "problem": problem}


def python(script: str, *, folder: Path) -> Any:
    """The JSON that a script prints, run against this checkout."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def names(document: Any) -> list[str]:
    """Ids of the encoders that ``zoo list --json`` lists."""
    rows = document["encoders"] if isinstance(document, dict) else document
    return [row["id"] if "id" in row else row["encoder"] for row in rows]


def helps(folder: Path) -> dict[str, Any]:
    """`--help` of every verb."""
    found = {"zoo --help": zoo("--help", folder=folder)}
    lines = found["zoo --help"]["text"].partition("Verbs:\n")[2].partition("\n\n")[0].splitlines()
    verbs = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    return found | {f"zoo {verb} --help": zoo(verb, "--help", folder=folder) for verb in verbs}


def lists(folder: Path) -> dict[str, Any]:
    """`list`, `show` of every encoder, and `compare`."""
    found = {"list": zoo("list", "--json", folder=folder)}
    found |= {f"list {' '.join(some)}": zoo("list", *some, "--json", folder=folder) for some in FILTERS}
    found |= {f"show {name}": zoo("show", name, "--json", folder=folder) for name in names(found["list"])}
    return found | {f"compare {' '.join(some)}": zoo("compare", *some, "--json", folder=folder) for some in PAIRS}


def results(folder: Path) -> dict[str, Any]:
    """`results` of every data set, and `recommend` at seven label budgets."""
    found = {"results": zoo("results", "--json", folder=folder)}
    for dataset in ("imagenet-1k", "digits", "shapes"):
        found[f"results --dataset {dataset}"] = zoo("results", "--dataset", dataset, "--json", folder=folder)
    for budget in BUDGETS:
        found[f"recommend --labels {budget}"] = zoo("recommend", "--labels", budget, "--json", folder=folder)
    return found


def tables(folder: Path) -> dict[str, Any]:
    """`metadata_dict`, `metadata_df` and `results_df` in all their forms."""
    return python(
        """
import itertools, json, sys
import zoo

def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return plain(value.item())
    if isinstance(value, float):
        return value if value == value else "nan"
    return f"{type(value).__name__}: {value}"

def frame(table):
    columns = [str(column) for column in table.columns]
    rows = {str(name): plain(list(row)) for name, row in zip(table.index, table.itertuples(index=False))}
    dtypes = dict(zip(columns, map(str, table.dtypes)))
    return {"index": plain(table.index.name), "columns": columns, "dtypes": dtypes, "order": list(rows), "rows": rows}

found = {}
both = (False, True)
for drop, lower, published in itertools.product(both, both, both):
    key = f"drop_missing={drop}, is_lower={lower}, as_published={published}"
    found[f"metadata_dict({key})"] = plain(zoo.metadata_dict(drop, is_lower=lower, as_published=published))
    for levels in both:
        form = f"is_multiindex={levels}, {key}"
        found[f"metadata_df({form})"] = frame(zoo.metadata_df(levels, lower, drop, as_published=published))
        for wrong, extended in itertools.product(both, both):
            more = f"{form}, exclude_wrong={wrong}, extended={extended}"
            found[f"results_df({more})"] = frame(
                zoo.results_df(levels, lower, drop, as_published=published, exclude_wrong=wrong, extended=extended)
            )
json.dump(found, sys.stdout)
""",
        folder=folder,
    )


def studies(folder: Path) -> dict[str, Any]:
    """Every study, on the results as published and on the corrected ones."""
    known = zoo("study", "--json", folder=folder)
    questions = [study["name"] for study in (known["studies"] if isinstance(known, dict) else known)]
    found: dict[str, Any] = {"study": known}
    for question in questions:
        for options in ((), ("--corrected",)):
            found[" ".join(("study", question, *options))] = zoo("study", question, *options, "--json", folder=folder)
    return found


def measured(folder: Path) -> dict[str, Any]:
    """Features of toy encoders, label-free metrics, probes and a decomposition, on images that need no network."""
    found: dict[str, Any] = {}
    found["features"] = python(
        f"""
import json, sys
import numpy as np, torch
from PIL import Image
import zoo
found = {{}}
for name in {POCKET!r}:
    encoder, preprocess = zoo.load(name)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 40, 56, 3), dtype=np.uint8)
    with torch.inference_mode():
        batch = torch.stack([preprocess(Image.fromarray(image)) for image in pixels])
        found[name] = encoder(batch).double().tolist()
json.dump(found, sys.stdout)
""",
        folder=folder,
    )
    python(
        """
import numpy as np
draws = np.random.default_rng(0)
images = draws.normal(size=(200, 1, 12)) * np.geomspace(3, 0.3, 12)
views = (images + 0.5 * draws.normal(size=(200, 4, 12))).astype(np.float32)
np.save("views.npy", views)
np.save("features.npy", views[:, 0])
print("{}")
""",
        folder=folder,
    )
    found["metrics of features"] = zoo("metric", "all", "features.npy", "--json", folder=folder)
    found["metrics of views"] = zoo("metric", "all", "views.npy", "--json", folder=folder)
    found["metrics of images"] = zoo("metric", "all", POCKET[0], "digits", "--json", folder=folder)
    found["probe"] = python(
        """
import json, sys
import numpy as np
from zoo.evaluation import LogisticProbe
draws = np.random.default_rng(1)
y = draws.integers(0, 5, 400)
x = (draws.normal(size=(5, 16))[y] + 2 * draws.normal(size=(400, 16))).astype(np.float32)
probe = LogisticProbe(Cs=(0.01, 0.1, 1.0)).fit(x[:200], y[:200], x_val=x[200:], y_val=y[200:])
report = {key: value for key, value in probe.report_.items() if "iterations" not in key and "products" not in key}
json.dump({"report": report, "coef": probe.coef_.tolist(), "predicted": probe.predict(x).tolist()}, sys.stdout)
""",
        folder=folder,
    )
    for name in POCKET[:2]:
        arguments = ("evaluate", name, "digits", "--decompose", "--json")
        found[" ".join(arguments)] = zoo(*arguments, folder=folder)
    return found


PARTS: dict[str, Part] = {
    "helps": helps,
    "lists": lists,
    "results": results,
    "tables": tables,
    "studies": studies,
    "measured": measured,
}


def take(only: list[str]) -> dict[str, Any]:
    """The snapshot of this checkout."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="zoo-snapshot-") as name:
        folder = Path(name).resolve()
        for part in only:
            print(f"{part} ...", file=sys.stderr, flush=True)
            found[part] = PARTS[part](folder)
    return found


def differences(old: Any, new: Any, tolerance: float, where: str = "") -> Iterator[tuple[str, str]]:
    """Places where two documents differ, and how."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            place = f"{where} > {key}" if where else str(key)
            if key not in new:
                yield place, "is gone"
            elif key not in old:
                yield place, "is new"
            else:
                yield from differences(old[key], new[key], tolerance, place)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield where, f"{len(old)} entries became {len(new)}"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, tolerance, f"{where}[{number}]")
    elif is_number(old) and is_number(new):
        if not math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance * 1e-3):
            yield where, f"{old!r} became {new!r}"
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        if old != new:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
            yield where, "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
    elif old != new:
        yield where, f"{old!r} became {new!r}"


def is_number(value: Any) -> bool:
    """Truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def main() -> int:
    """Takes a snapshot, or compares two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    taking = verbs.add_parser("take", help="write a snapshot of this checkout")
    taking.add_argument("out", type=Path)
    taking.add_argument("--only", action="append", choices=[*PARTS], metavar="PART", help=f"of {', '.join(PARTS)}")
    comparing = verbs.add_parser("compare", help="show where two snapshots differ")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-9, help="of numbers, relative to their size")
    comparing.add_argument("--most", type=int, default=20, help="differences shown of one command")
    given = parser.parse_args()
    if given.verb == "take":
        given.out.write_text(json.dumps(take(given.only or [*PARTS]), indent=1))
        return 0
    old, new = json.loads(given.old.read_text()), json.loads(given.new.read_text())
    total = 0
    for part in [*old, *(part for part in new if part not in old)]:
        for command in {**old.get(part, {}), **new.get(part, {})}:
            one, other = old.get(part, {}).get(command), new.get(part, {}).get(command)
            found = list(differences(one, other, given.tolerance))
            total += len(found)
            if found:
                print(f"\n{part}: {command}: {len(found)} differences")
            for where, what in found[: given.most]:
                print("  " + (f"{where}: " if where else "") + what.replace("\n", "\n    "))
    print(f"\n{total} differences")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
