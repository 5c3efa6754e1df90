"""The order of the layers, read from the source: a module imports only from the groups to its left."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zoo

PACKAGE = Path(zoo.__file__).parent
GROUPS = [
    {"errors", "atomic", "content", "compiled", "version", "labelfree"},
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
    {"weights", "preprocess", "datasets"},
    {"encoders"},
    {"provenance", "locations", "pretrained", "drift", "loading", "registration", "export"},
    {"features"},
    {"evaluation"},
    {"analysis"},
    {"studies"},
    {"hub", "cli", "web"},
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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_groups_to_its_left(path: Path) -> None:
    unit = unit_of(path)
    if unit == "__init__":  # the surface of the package: everything lazily
        return
    assert unit in RANK, f"{unit} belongs to no group; add it to GROUPS and to the design"
    for imported in imported_units(path) - {unit}:
        assert RANK[imported] <= RANK[unit], f"{unit} imports {imported}, which is to its right"


def test_nothing_imports_the_studies_or_the_surfaces() -> None:
    for path in MODULES:
        if unit_of(path) not in {"hub", "cli", "web", "__init__"}:
            assert not imported_units(path) & {"hub", "cli", "web"}, path


REPOSITORY = PACKAGE.parent
SOURCES = sorted(
    path.relative_to(REPOSITORY)
    for folder in ("zoo", "analysis", "tests", "benchmarks", "docs")
    for path in (REPOSITORY / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_a_file_stays_small(path: Path) -> None:
    assert len((REPOSITORY / path).read_text().splitlines()) <= 300
