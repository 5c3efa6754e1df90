"""Compares what libraries make of the same weights: ``docs/same_weights.json`` and ``docs/same_weights.md``.

    python scripts/compare_weights.py [FAMILY...] --authors FOLDER [--uv PATH | --python PATH]

A family is a module of ``scripts/same_weights/``, which builds a network with random weights in one library, converts
them to the others and the zoo, and runs all on the same rendered images. They run in an environment of their own, made
with ``uv`` (or venv and pip) of the pinned requirements, or in that of ``--python``, which must have those versions.
FOLDER has clones of the authors' repositories, called OWNER+NAME; the commits that the families state are taken out of
them. Families that are not named keep their numbers; ``--render`` runs none and writes the page alone. The words are in
``docs/same_weights.toml``, and what ``zoo show --all`` says in ``metadata/same_weights.tsv``; nothing here runs in CI.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FAMILIES = tuple(
    sorted(path.stem for path in (ROOT / "scripts" / "same_weights").glob("[a-z]*.py") if path.stem != "shared")
)
REQUIREMENTS = {
    "timm": "1.0.31", "transformers": "5.23.0", "open_clip_torch": "3.3.0", "torch": "2.15.0", "torchvision": "0.29.2",
    "numpy": "2.4.6", "pillow": "13.0.0",
}  # fmt: skip
LIBRARIES = {
    "authors": "authors",
    "timm": "timm",
    "transformers": "transformers",
    "open_clip": "OpenCLIP",
    "zoo": "the zoo",
}
SUBJECTS = {
    "tensors": "which tensors",
    "resize": "resize and crop",
    "colours": "mean, std, channels",
    "positions": "positions",
    "tokens": "tokens",
    "feature": "the feature",
    "norm": "final norm",
    "activation": "GELU",
    "classes": "the classifier",
    "precision": "precision",
}
"""What may differ, by its name in the data: rows of a family's table in this order."""

ROUNDING = 1e-5  # below it, two features are the same but for rounding

TOP = """# The same weights in other libraries

Made by `scripts/compare_weights.py`; nothing of it runs in CI. Many weights can be had from their authors, timm,
transformers and OpenCLIP, and what these make of one photograph differs: in how it is resized, in how positions are
interpolated, and in what is taken to be the feature. For each family the first table says what each does, the second
by how much it matters, and the text what the zoo's card follows. `zoo show ID --all` says in a line where `hf:` or
`timm:` of the same weights gives other features.

Networks have their published widths and kinds of layers, mostly fewer blocks, and random weights, converted from one
library to another: no number says how good features are. "Relative" is the root mean square of the difference of two
features over that of the first; rounding of float32 is about 1e-6. Pixels are steps of 255 before mean and standard
deviation are taken; the images are rendered, with edges and fine gratings. With trained weights a difference is there
where it is here, and may be larger or smaller. Settings marked "read" were read in a source, with which the library's
own code was then run, unless the text says that it was not.

The table here has a row for each family: which feature it is about, whose network gives another for the card's default
input, how far the card's features move where others make the input by their own defaults (one network for all, on five
rendered photographs), and whom the card follows. Numbers are relative; who is not named gives the card's.
"""


def main() -> None:
    """Run the families that are named, and write numbers and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; all unless named")
    parser.add_argument("--authors", type=Path, help="folder of clones of the authors' repositories, OWNER+NAME")
    parser.add_argument(
        "--uv", default=shutil.which("uv"), help="uv, which makes the environment; on PATH unless given"
    )
    parser.add_argument("--python", help="an interpreter that has the requirements, in place of a new environment")
    parser.add_argument("--render", action="store_true", help="run nothing, and write the page of the stored numbers")
    options = parser.parse_args()
    unknown = set(options.families) - set(FAMILIES)
    if unknown:
        parser.error(f"there is no family {min(unknown)!r}, expected some of {', '.join(FAMILIES)}")
    if not options.render and options.authors is None:
        parser.error("--authors is missing: a folder with clones of the authors' repositories")
    if not options.render:
        with TemporaryDirectory() as folder:
            python = options.python or make_environment(Path(folder) / "venv", uv=options.uv)
            for family in options.families or FAMILIES:
                print(family, flush=True)
                found = {family: run_family(family, python=python, authors=options.authors.resolve())}
                numbers = read_numbers() | found  # read again: another run may have renewed other families
                (DOCS / "same_weights.json").write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n")
    (DOCS / "same_weights.md").write_text(render_page(read_words(), read_numbers(), read_told()))


def make_environment(folder: Path, *, uv: str | None) -> str:
    """The interpreter of a new environment with the requirements and what the zoo needs."""
    wanted = [f"{name}=={version}" for name, version in REQUIREMENTS.items()] + [f"{ROOT}[transformers]", "einops"]
    python = str(folder / "bin" / "python")
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *wanted], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python


def run_family(family: str, *, python: str, authors: Path) -> dict[str, Any]:
    """What ``same_weights.FAMILY`` prints in the environment of an interpreter, which must have the pinned versions."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])
    environment = os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    command = [python, "-P", "-m", "same_weights", family, authors]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, text=True).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    versions = {name: found["versions"][name].partition("+")[0] for name in REQUIREMENTS}
    if versions != REQUIREMENTS:
        raise SystemExit(f"{python} has {versions}, expected {REQUIREMENTS}")
    return found


def read_numbers() -> dict[str, Any]:
    """What the families printed, by their names."""
    path = DOCS / "same_weights.json"
    return json.loads(path.read_text()) if path.exists() else {}


def read_words() -> dict[str, Any]:
    """Title, encoders, network and text of each family, and what each library does, subject by subject."""
    return tomllib.loads((DOCS / "same_weights.toml").read_text())


def read_told() -> list[dict[str, str]]:
    """What ``zoo show --all`` says, a row for encoders and a place of the same weights."""
    with (ROOT / "metadata" / "same_weights.tsv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def render_page(words: Mapping[str, Any], numbers: Mapping[str, Any], told: Sequence[Mapping[str, str]]) -> str:
    """``docs/same_weights.md``, of words and numbers."""
    sections = [TOP, "\n".join(_front(words, numbers))]
    for family, about in words.items():
        found = numbers[family]
        sections.append("\n".join(_family_lines(about, found, told)))
    return "\n".join(sections)


def _front(words: Mapping[str, Any], numbers: Mapping[str, Any]) -> Iterator[str]:
    """A row for each family."""
    rows = []
    for family, about in words.items():
        front = about["front"]
        apart = [_apart(front[name], numbers[family]["differences"]) for name in ("network", "input")]
        rows.append([about["title"], front["feature"], *apart, front["follows"]])
    yield from _table(["family", "the feature", "networks that differ", "inputs that differ", "the card follows"], rows)


def _apart(entries: Sequence[Sequence[str]], differences: Sequence[Mapping[str, Any]]) -> str:
    """Who differs and by how much, of entries (who, about, between, case) or (who, what else)."""
    values = {
        (one["about"], one["between"], one["case"]): one["value"] for one in differences if one["unit"] == "relative"
    }
    told = []
    for who, *named in entries:
        if len(named) == 1:
            told.append(f"{who}: {named[0]}")
        elif (value := values.get((named[0], named[1], named[2]))) is None:
            told.append(f"{who}: not measured")
        elif value >= ROUNDING:
            told.append(f"{who}: {_value(value)}")
    return "; ".join(told) or "none"


def _family_lines(
    about: Mapping[str, Any], found: Mapping[str, Any], told: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    yield f"## {about['title']}\n"
    commits = ", ".join(f"{name} at {commit[:7]}" for name, commit in found["authors"].items())
    versions = found["versions"]
    libraries = (
        f"timm {versions['timm']}, transformers {versions['transformers']}, OpenCLIP {versions['open_clip_torch']}"
    )
    yield f"{about['network']} Authors: {commits or 'their code was not run'}. {libraries}; {found['date']}.\n"
    yield from _table(
        ["", *LIBRARIES.values()],
        [[text, *(about[name].get(key, "") for key in LIBRARIES)] for name, text in SUBJECTS.items() if name in about],
    )
    yield from _table(["what differs", "between", "by how much, and where"], list(_measured(found["differences"])))
    yield about["follows"].strip() + "\n"
    own = [row for row in told if set(row["encoders"].split()) & set(about["encoders"])]
    if own:
        yield "`zoo show --all` says, of places of the same weights:\n"
        for row in own:
            places = ", ".join(f"`{place}`" for place in dict.fromkeys(row["places"].split()))
            yield f"* {places}: {row['says']}."
        yield ""


def _measured(differences: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """A row for what differs between two, with the cases of each value."""
    grouped: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for one in differences:
        key = (SUBJECTS[one["about"]], one["between"], one["unit"])
        grouped.setdefault(key, {}).setdefault(_value(one["value"]), []).append(one["case"])
    for (about, between, unit), values in grouped.items():
        cases = [f"{value} {{}} ({'; '.join(where)})" for value, where in values.items()]
        if len(values) == 1 and len(where := next(iter(values.values()))) > 1:
            cases = [f"{next(iter(values))} {{}} (in all {len(where)} cases)"]
        yield [about, between, "; ".join([cases[0].format(unit), *(text.replace(" {}", "") for text in cases[1:])])]


def _value(value: float) -> str:
    return (
        "0" if value == 0 else "below 1e-5" if value < ROUNDING else f"{value:.2g}" if value < 100 else f"{value:.0f}"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(row) + " |"
    yield ""


if __name__ == "__main__":
    main()
