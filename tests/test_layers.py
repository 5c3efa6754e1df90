"""The order of the packages and the absence of import cycles, read from the source."""

from __future__ import annotations

import ast

from scripts.house import cycle, graph, modules

ORDER = (
    ("errors", "version", "optional"),
    ("files", "progress"),
    ("cards",),
    ("results",),
    ("weights", "datasets"),
    ("encoders",),
    ("loading", "drift", "registration"),
    ("features",),
    ("evaluation",),
    ("analysis",),
    ("studies",),
    ("hub",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def test_every_module_belongs_to_a_package_of_the_order() -> None:
    unplaced = sorted({name.partition(".")[0] for name in modules()} - RANK.keys() - {""})
    assert not unplaced, f"{unplaced} are not in ORDER"


def test_modules_import_only_from_packages_before_theirs() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, found in graph().items()
        if name  # the surface of the package imports lazily what is used
        for imported in found
        if imported and RANK[imported.partition(".")[0]] > RANK[name.partition(".")[0]]
    ]
    assert not wrong, wrong


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not cycle(graph()), " -> ".join(cycle(graph()))


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()})


def test_modules_of_the_zoo_are_imported_relatively() -> None:
    wrong = []
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            wrong += [f"{name} imports {one}" for one in names if one.partition(".")[0] == "zoo"]
    assert not wrong, wrong
