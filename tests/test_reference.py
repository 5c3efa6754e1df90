"""The API reference can be built, its links lead somewhere, and references in docstrings name what exists."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import zoo
from docs import reference

ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):`~?([\w.]+)`")


@pytest.mark.slow
def test_every_link_of_the_reference_leads_somewhere(tmp_path: Path) -> None:
    reference.write_reference(tmp_path)
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    anchors = {page: set(re.findall(r'id="([^"]+)"', text)) for page, text in pages.items()}
    broken, n_links = [], 0
    for page, text in pages.items():
        for link in re.findall(r'href="([^"$]+)"', text):
            if link.startswith(("http", "data:")):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            n_links += 1
            if target not in pages or (anchor and anchor not in anchors[target]):
                broken.append((page.name, link))
    assert not broken
    assert n_links > 1000
    for name in reference.MODULES:
        page = tmp_path.joinpath(*name.split(".")).with_suffix(".html")
        public = getattr(importlib.import_module(name), "__all__", ())
        assert {one for one in public if one not in anchors[page]} <= {"shapes"}, name  # a module has a page of its own


def docstrings() -> Iterator[tuple[ModuleType, str]]:
    """Every docstring of the package that refers to something, with its module."""
    root = Path(zoo.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        for text in re.findall(r'"""(.*?)"""', path.read_text(), flags=re.DOTALL):
            if "_content" not in parts and ROLE.search(text):
                yield importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts)), text


def exists(target: str, module: ModuleType) -> bool:
    """Whether a dotted name can be reached: from the package, the module or one of its classes or their objects."""
    if f"self.{target} = " in inspect.getsource(module) or f"self.{target}: " in inspect.getsource(module):
        return True
    if target.startswith("."):
        return _reaches(f"{module.__package__}{target}")
    classes = [one.__name__ for one in vars(module).values() if inspect.isclass(one)]
    names = (target, *(f"{module.__name__}.{name}" for name in (target, *(f"{one}.{target}" for one in classes))))
    return any(map(_reaches, names))


def _reaches(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        owner, _, field = name.rpartition(".")
        try:  # a field without a default, which no class has as an attribute
            return field in getattr(pkgutil.resolve_name(owner), "__annotations__", ())
        except (ImportError, AttributeError, ValueError):
            return False
    return True


def test_references_in_docstrings_name_what_exists() -> None:
    referring = [(module, target) for module, text in docstrings() for target in ROLE.findall(text)]
    assert len(referring) > 100
    gone = [(module.__name__, target) for module, target in referring if not exists(target, module)]
    assert not gone
