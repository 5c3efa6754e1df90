"""The order of the packages and the absence of import cycles, read from the source."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module

import click

from scripts import house
from scripts.house import PACKAGE, cycle, modules
from zoo.cards.catalogue import RULES
from zoo.cli import VERBS
from zoo.cli import zoo as command_line

ORDER = (
    ("errors", "version", "optional"),
    ("files", "progress"),
    ("storage", "execution"),
    ("cards",),
    ("results",),
    ("weights", "datasets"),
    ("encoders",),
    ("loading", "regression_check", "registration"),
    ("features",),
    ("evaluation",),
    ("analysis",),
    ("looking",),
    ("choosing",),
    ("studies",),
    ("site",),
    ("hub",),
    ("cli", "__main__"),
)
graph = cache(house.graph)
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


def test_no_verb_of_the_command_line_imports_another() -> None:
    context = click.Context(command_line, info_name="zoo")
    below = [getattr(command_line.get_command(context, name), "verbs", {}) for name in VERBS]
    verbs = {f"cli.{verb.module}" for some in (VERBS, *below) for verb in some.values()}
    wrong = [
        f"{name} imports {one}" for name, found in graph().items() if name.startswith("cli.") for one in found & verbs
    ]
    assert not wrong, wrong


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


def test_the_map_of_the_house_names_every_package_and_every_module_of_the_root() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = text.partition("## The house")[2].partition("\n    zoo/cli/")
    lines = (drawn[0] + "".join(drawn[1:]).partition("\n\n")[0]).splitlines()
    named = {word.rstrip("/") for line in lines for word in line.replace("zoo/", " ").split()}
    packages = {path.parent.name for path in modules().values() if path.name == "__init__.py"} - {"zoo", "layouts"}
    alone = {name for name in modules() if "." not in name and name not in packages} - {"", "version", "__main__"}
    assert not (packages | alone) - named
    assert len([line for line in lines if line.startswith("    ")]) <= 25


def test_the_root_has_eleven_modules_at_most() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 11


def test_a_checked_copy_depends_on_every_module_that_checking_imports() -> None:
    edges = graph()
    imported, todo = set(), ["cards.catalogue", "results.derived"]
    while todo:
        name = todo.pop()
        if name not in imported:
            imported.add(name)
            todo += edges[name]
    hashed = {"cards", "results", *RULES}
    free = {"", "version", "optional"}  # hold nothing that decides what a card or a row means
    assert {name for name in imported if name.partition(".")[0] not in hashed} <= free


def test_no_module_is_named_as_a_function_that_its_package_exports() -> None:
    wrong = []
    for name, path in modules().items():
        if path.name == "__init__.py" and "lazy(" in path.read_text(encoding="utf-8"):
            exported = set(import_module(f"zoo.{name}".rstrip(".")).__all__)
            wrong += [f"{name}.{one}" for one in exported if ".".join(filter(None, [name, one])) in modules()]
    assert not wrong, wrong
