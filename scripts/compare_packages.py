"""Compares what other packages compute with what the zoo does, into docs/other_packages.json and .md.

    python scripts/compare_packages.py [PACKAGE...] [--uv PATH] [--environments DIR]

Each named package (all without names; ``--page`` only renders) is installed into an environment of its own, with the
versions that its program ``scripts/packages/PACKAGE.py`` pins, and run on the inputs of ``scripts/quantities``. With
``uv``, on the path or by ``--uv``, it has the program's Python version as well; else it is this Python, venv and pip.
``UV_*`` and ``PIP_*`` of the environment reach them. Packages that are not named keep their numbers. The words of the
page are in docs/other_packages.toml:

    [quantities.NAME]        paper: how ours differs from its paper, or "as defined"; short: the same in some words, for
                             the first table; without it ours is what the paper defines
    [packages.PACKAGE.QUANTITY], or "QUANTITY:VARIANT" where a package has several
    call                     what was called
    what                     what it computes, in the zoo's terms
    turn                     how to turn ours into theirs or back, or why that cannot be
    formula                  theirs by the zoo's functions, if there is one; the arrays of the case, ``ours``, np, the
                             names of math and HELPERS are known
    within                   relative difference up to which the formula holds, 1e-3 unless given
    cases                    of the formula, all unless given
    paper                    whether it is what its paper defines
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from scripts.quantities import CASES, HELPERS, Quantity, inputs, quantities  # noqa: E402
from zoo.errors import ZooError  # noqa: E402
from zoo.evaluation import label_free  # noqa: E402

PROGRAMS, DOCS = HERE / "scripts" / "packages", HERE / "docs"
NUMBERS, WORDS, PAGE = (DOCS / f"other_packages.{kind}" for kind in ("json", "toml", "md"))
EQUAL = 1e-3  # relative difference below which two numbers count as the same on the page


def programs() -> dict[str, Path]:
    """The program of every package by the package's name."""
    return {path.stem.replace("_", "-"): path for path in sorted(PROGRAMS.glob("[!_]*.py"))}


def constants(program: Path) -> dict[str, Any]:
    """REQUIREMENTS and, if it is there, PYTHON of a program, without running it."""
    found: dict[str, Any] = {"PYTHON": "3.11"}
    for node in ast.parse(program.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("REQUIREMENTS", "PYTHON"):
                found[name] = ast.literal_eval(node.value)
    return found


def write_inputs(folder: Path) -> None:
    """The arrays of all cases as CASE.NAME.npy, and which quantity has which cases."""
    for case, arrays in inputs().items():
        for name, array in arrays.items():
            np.save(folder / f"{case}.{name}.npy", array)
    (folder / "cases.json").write_text(json.dumps({name: one.cases for name, one in quantities().items()}))


def environment(package: str, program: Path, folder: Path, uv: str | None) -> Path:
    """The interpreter of an environment with what the program requires, made where there is none."""
    python, wanted = folder / package / "bin" / "python", constants(program)
    if not python.exists():
        made = [uv, "venv", "-q", "--python", wanted["PYTHON"]] if uv else [sys.executable, "-m", "venv"]
        subprocess.run([*made, str(folder / package)], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
    subprocess.run([*install, *wanted["REQUIREMENTS"]], check=True)
    return python


def measured(python: Path, program: Path, folder: Path) -> dict[str, Any]:
    """What a package computes, with the versions and the date."""
    versions = (
        "import json, platform, importlib.metadata as m;"
        "print(json.dumps([platform.python_version(), {d.metadata['Name']: d.version for d in m.distributions()}]))"
    )
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    quiet.pop("PYTHONPATH", None)
    listed = subprocess.run([python, "-P", "-c", versions], check=True, capture_output=True, text=True, env=quiet)
    number, installed = json.loads(listed.stdout)
    named = {requirement.partition("==")[0] for requirement in constants(program)["REQUIREMENTS"]}
    command = [python, "-P", PROGRAMS / "_run.py", program, folder]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet, cwd=folder)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": number,
        "versions": {name: installed[name] for name in sorted(installed) if name in named},
        "values": json.loads(ran.stdout.splitlines()[-1]),
    }


def ours() -> dict[str, dict[str, float | str]]:
    """What the zoo computes, by quantity and case: a number, or why there is none."""
    cases = inputs()
    return {name: {case: computed(one, cases[case]) for case in one.cases} for name, one in quantities().items()}


def computed(one: Quantity, arrays: dict[str, Any]) -> float | str:
    """What the zoo computes of a case, or the sentence with which it refuses."""
    try:
        return float(one.ours(**arrays))
    except ZooError as error:
        return f"{type(error).__name__}: {error}"


def by_formula(formula: str, value: float, arrays: dict[str, Any]) -> float:
    """The number that a formula of the words gives for a case; ``value`` is ours."""
    functions = {name: getattr(label_free, name) for name in dir(label_free) if not name.startswith("_")}
    known = {**vars(math), "np": np, **functions, **HELPERS, **arrays, "ours": value}
    return float(eval(formula, {"__builtins__": {"int": int, "min": min}}, known))


def same(one: Any, other: Any, within: float = EQUAL) -> bool:
    """Whether both are numbers that differ by no more than this share of the larger."""
    both = isinstance(one, float) and isinstance(other, float)
    return both and (one == other or abs(one - other) <= within * max(abs(one), abs(other)))


def shown(value: float | str) -> str:
    """A number with four digits, or that there is none."""
    return f"{value:.4g}" if isinstance(value, float) and math.isfinite(value) else str(value).partition(":")[0]


def page(numbers: dict[str, Any], words: dict[str, Any]) -> str:
    """The document, from what was measured and the words."""
    lines = ["<!-- made by scripts/compare_packages.py from other_packages.json and .toml -->", ""]
    lines += [words["title"], "", words["opening"].strip(), "", *glance(numbers, words), "", "## Inputs", ""]
    lines += [f"* **{case}**: {what}" for case, what in CASES.items()]
    for name, one in quantities().items():
        lines += section(name, one, numbers, words)
    lines += ["", "## Versions", "", "| package | with | Python | run on |", "|---|---|---|---|"]
    for package, found in numbers["packages"].items():
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        lines.append(f"| {package} | {versions} | {found['python']} | {found['date']} |")
    return "\n".join([*lines, "", words["closing"].strip(), ""])


def anchor(title: str) -> str:
    """What a heading's address ends with on GitHub."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def factors(pairs: list[tuple[Any, Any]], of_percent: bool) -> str:
    """Theirs over ours, from least to most; in points of percent, and where one is 0 or below, theirs minus ours."""
    both = [pair for pair in pairs if all(isinstance(one, float) for one in pair)]
    if not both:
        return "a number where ours refuses" if isinstance(pairs[0][0], float) else "no number"
    apart = of_percent or min(min(pair) for pair in both) <= 0
    found = sorted(one - other if apart else one / other for one, other in both)
    ends = dict.fromkeys(f"{end:+.2g}" if apart else f"{end:.3g}" for end in (found[0], found[-1]))
    return " to ".join(ends) + " times" * (not apart)


def glance(numbers: dict[str, Any], words: dict[str, Any]) -> list[str]:
    """The first table: per quantity who has our number, and who another one and by how much."""
    lines = [words["glance"].strip(), "", "| quantity | ours | equal to ours | another number |", "|---|---|---|---|"]
    for name, one in quantities().items():
        mine, equal, apart = numbers["ours"][name], [], []
        for package, key, values in measured_of(name, numbers):
            label = package + f" ({key.partition(':')[2]})" * (":" in key)
            alike = [case for case in one.cases if same(values.get(case), mine[case])]
            if len(alike) == len(one.cases):
                equal.append(label)
                continue
            # "no paper" is not "not its paper's"
            label = f"*{label}*" if re.match(r"no\b(?! paper)", words["packages"][package][key]["paper"]) else label
            pairs = [(values.get(case), mine[case]) for case in one.cases if case not in alike]
            but = f" (equal on {' and '.join(alike)})" if alike else ""
            apart.append(f"{label} {factors(pairs, 'percent' in one.title)}{but}")
        whose = words["quantities"][name].get("short", "as its paper") if one.in_zoo else "not in the zoo"
        title = f"[{one.title}](#{anchor(one.title)})"
        lines.append(f"| {title} | {whose} | {', '.join(equal) or 'none'} | {'; '.join(apart) or 'none'} |")
    return lines


def measured_of(name: str, numbers: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Package, key and values by case of everything that was measured of a quantity."""
    for package, found in numbers["packages"].items():
        for key, values in found["values"].items():
            if key.partition(":")[0] == name:
                yield package, key, values


def section(name: str, one: Quantity, numbers: dict[str, Any], words: dict[str, Any]) -> list[str]:
    """The part of the page on one quantity."""
    mine = numbers["ours"][name]
    whose = ("Ours: ", "zoo") if one.in_zoo else ("Not in the zoo. ", "by definition")
    lines = ["", f"## {one.title}", "", whose[0] + words["quantities"][name]["paper"].strip()]
    lines += ["", f"| | {' | '.join(one.cases)} |", f"|---|{'--:|' * len(one.cases)}"]
    lines.append(f"| **{whose[1]}** `{one.call}` | {' | '.join(shown(mine[case]) for case in one.cases)} |")
    notes, alike = [], []
    for package, key, values in measured_of(name, numbers):
        said = words["packages"][package][key]
        known = [values.get(case, "not run") for case in one.cases]
        cells = (shown(value) + " =" * same(value, mine[case]) for value, case in zip(known, one.cases, strict=True))
        lines.append(f"| {package} `{said['call']}` | {' | '.join(cells)} |")
        if said.get("formula") == "ours" and said["what"] == "the same.":
            alike.append(f"**{package}** `{said['call']}`")
            continue
        formula = f" `{said['formula']}`" if said.get("formula", "ours") != "ours" else ""
        notes.append(
            f"* **{package}** `{said['call']}`: {said['what'].strip()} *Ours to theirs:* {said['turn'].strip()}"
            f"{formula} *Its paper:* {said['paper'].strip()}"
        )
    if alike:
        notes.append(f"* the same as ours, as defined: {', '.join(alike)}")
    return [*lines, *([""] if notes else []), *notes]


def main() -> None:
    """Measure the named packages and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="all unless given")
    parser.add_argument("--page", action="store_true", help="render the page from the numbers that there are")
    parser.add_argument("--uv", default=shutil.which("uv"), help="program uv; venv and pip without it")
    parser.add_argument(
        "--environments", type=Path, help="folder where environments stay; a temporary one unless given"
    )
    options = parser.parse_args()
    known = programs()
    for package in options.packages:
        if package not in known:
            parser.error(f"{package} has no program in scripts/packages, expected one of {', '.join(known)}")
    numbers = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {"packages": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "inputs"
        folder.mkdir()
        write_inputs(folder)
        for package in [] if options.page else options.packages or known:
            home = (options.environments or Path(scratch)).resolve()
            python = environment(package, known[package], home, options.uv)
            numbers["packages"][package] = measured(python, known[package], folder)
            print(package, json.dumps(numbers["packages"][package]["values"]), flush=True)
    kept = {package: found for package, found in sorted(numbers["packages"].items()) if package in known}
    numbers = {"ours": ours(), "packages": kept}
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n")
    PAGE.write_text(page(numbers, tomllib.loads(WORDS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
