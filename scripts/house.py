"""Prints the size of every room next to its budget, and the shape of the package: cycles, small modules.

python scripts/house.py            # the table
python scripts/house.py --modules  # and every module with its lines and the modules that import it
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from prettytable import PrettyTable

PACKAGE = Path(__file__).resolve().parent.parent / "zoo"
SMALL = 80  # lines; below that a module with a single importer is a question
MODULES = 220  # of the package, at most
ROOMS = {  # lines to stay under, by name; a room may borrow from another
    "weights": (("zoo/weights",), 2_000),
    "features, execution, storage": (("zoo/features", "zoo/execution", "zoo/files.py", "zoo/storage.py"), 3_800),
    "datasets": (("zoo/datasets",), 4_600),
    "evaluation": (("zoo/evaluation",), 7_400),  # without the rooms below
    "label-free metrics": (("zoo/evaluation/label_free",), 3_200),
    "learning curves": (("zoo/evaluation/curves",), 3_200),
    "transferability": (("zoo/evaluation/transferability",), 900),
    "command line": (("zoo/cli",), 6_500),
    "results": (("zoo/results",), 3_200),
    "analysis": (("zoo/analysis",), 6_300),
    "studies": (("zoo/studies",), 1_700),
    "looking": (("zoo/looking",), 900),
    "choosing": (("zoo/choosing",), 3_900),
    "site": (("zoo/site",), 4_300),
    "encoders": (("zoo/encoders",), 4_600),
    "cards": (("zoo/cards",), 2_600),
    "hub": (("zoo/hub",), 600),
    "root": (("zoo",), 1_700),  # what no other room has
}
BESIDE = {"zoo": 60_500, "analysis": 11_000, "tests": 36_000}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below ``zoo``; a package by the name of its folder."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if "_content" not in parts:
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules that a module imports when it runs, at its top or inside a function, but not for type checkers alone."""
    package = name.split(".") if path.name == "__init__.py" and name else name.split(".")[:-1]
    found = set()
    for node in _run(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])]
        for alias in node.names:
            inner = ".".join([*base, alias.name])
            found.add(inner if inner in known else ".".join(base))
    return found - {name}


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield from _run(other)
        else:
            yield child
            yield from _run(child)


def graph() -> dict[str, set[str]]:
    """What each module imports."""
    known = modules()
    return {name: imports(name, path, known) for name, path in known.items()}


def room_of(path: Path) -> str:
    """The room with the longest folder or file name that holds a module."""
    place = path.relative_to(PACKAGE.parent)
    found = [
        (len(Path(one).parts), name)
        for name, (places, _) in ROOMS.items()
        for one in places
        if place.is_relative_to(one)
    ]
    return max(found)[1]


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle, in its order; empty if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main() -> int:
    """Prints the tables; the exit status is 1 where modules import each other in a circle."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", action="store_true", help="list every module as well")
    asked = parser.parse_args()
    edges, lines = graph(), {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    importers = defaultdict(set)
    for name, imported in edges.items():
        for one in imported:
            importers[one].add(name)
    if asked.modules:
        table = PrettyTable(["module", "lines", "imported by"], align="l", max_width=90)
        table.add_rows([[name or "zoo", n, ", ".join(sorted(importers[name]))] for name, n in sorted(lines.items())])
        print(table)
    by_room = defaultdict(list)
    for name, path in modules().items():
        by_room[room_of(path)].append(lines[name])
    table = PrettyTable(["room", "modules", "largest", "lines", "budget", "over"], align="r")
    table.align["room"] = "l"
    for room, (_, budget) in ROOMS.items():
        sizes = by_room[room]
        over = max(sum(sizes) - budget, 0)
        table.add_row([room, len(sizes), max(sizes), f"{sum(sizes):,}", f"{budget:,}", f"{over:,}" if over else ""])
    table.add_divider()
    for folder, budget in BESIDE.items():
        sizes = [len(path.read_text().splitlines()) for path in (PACKAGE.parent / folder).rglob("*.py")]
        over = max(sum(sizes) - budget, 0)
        count = f"{len(sizes)} of {MODULES}" if folder == "zoo" else len(sizes)
        table.add_row([f"{folder}/", count, max(sizes), f"{sum(sizes):,}", f"{budget:,}", f"{over:,}" if over else ""])
    print(table)
    small = [name for name, n in lines.items() if n < SMALL and len(importers[name]) == 1]
    print(f"modules of fewer than {SMALL} lines with one importer: {', '.join(small) or 'none'}")
    circle = cycle(edges)
    print(f"import cycle: {' -> '.join(circle) or 'none'}")
    return int(bool(circle))


if __name__ == "__main__":
    sys.exit(main())
