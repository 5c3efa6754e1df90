"""The order of the layers, read from the source: a module imports only from the groups to its left."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zoo

PACKAGE = Path(zoo.__file__).parent
GROUPS = [
    {"errors", "optional", "atomic", "content", "compiled", "version", "labelfree"},
    {"metadata", "cards", "cardchecks", "cardfiles", "columns", "representations", "tokens"},
    {
        "vocabulary",
        "results",
        "resultchecks",
        "resultfiles",
        "measurements",
        "decomposition",
        "publishedlayout",
        "published",
        "publishedlabelfree",
        "recording",
        "studyrows",
    },
    {"rgb", "weights", "preprocess", "datasets"},
    {"encoders"},
    {"provenance", "locations", "pretrained", "drift", "loading", "registration", "export"},
    {"features"},
    {"evaluation"},
    {"analysis"},
    {"studies"},
    {"hub", "cli", "web", "__main__"},
]
RANK = {name: rank for rank, group in enumerate(GROUPS) for name in group}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_content" not in path.parts)


def unit_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported_units(path: Path) -> set[str]:
    """Units of the zoo that a module imports, at its top or inside a function."""
    parents = list(path.relative_to(PACKAGE).parts[:-1])
    units = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parents[: len(parents) - node.level + 1] + (node.module or "").split(".") * bool(node.module)
            names = [base[0]] if base else [alias.name for alias in node.names]
            units.update(names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "zoo":
            pytest.fail(f"{path} imports {node.module} by its full name; expected a relative import")
        elif isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "zoo" for alias in node.names):
            pytest.fail(f"{path} imports zoo by its full name; expected a relative import")
    return units & (RANK.keys() | {path.stem for path in PACKAGE.glob("*.py")} | {"analysis", "studies", "cli", "web"})


def test_modules_import_only_from_groups_to_their_left() -> None:
    inner = [path for path in MODULES if unit_of(path) != "__init__"]  # the surface of the package imports lazily
    unplaced = sorted({unit_of(path) for path in inner} - RANK.keys())
    assert not unplaced, f"{unplaced} belong to no group; add them to GROUPS"
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {imported}, which is to its right"
        for path in inner
        for imported in sorted(imported_units(path) - {unit_of(path)})
        if RANK[imported] > RANK[unit_of(path)]
    ]
    assert not wrong, wrong


def test_nothing_imports_the_studies_or_the_surfaces() -> None:
    for path in MODULES:
        if unit_of(path) not in {"hub", "cli", "web", "__init__", "__main__"}:
            assert not imported_units(path) & {"hub", "cli", "web"}, path
