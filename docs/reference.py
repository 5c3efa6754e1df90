"""Writes the reference of the Python API to ``build/reference/``, from the docstrings, with pdoc: ``make docs``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pdoc
import pdoc.render

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    "zoo",
    "zoo.analysis",
    "zoo.analysis.table",
    "zoo.cards.schema",
    "zoo.choosing",
    "zoo.datasets",
    "zoo.encoders",
    "zoo.errors",
    "zoo.evaluation",
    "zoo.evaluation.curves",
    "zoo.evaluation.label_free",
    "zoo.evaluation.transferability",
    "zoo.features",
    "zoo.looking",
    "zoo.looking.mistakes",
    "zoo.results",
    "zoo.studies.findings",
)
"""What users import; the other modules explain themselves to those who read the code."""


def import_lazy_names(names: Iterable[str] = MODULES) -> None:
    """Put names that packages import on first use into their dictionaries, the only place where pdoc looks."""
    for name in names:
        module = import_module(name)
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            if not inspect.ismodule(value):
                vars(module).setdefault(public, value)


def write_reference(folder: Path) -> None:
    """Write one page per module, an index and a search index into ``folder``."""
    import_lazy_names()
    pdoc.render.configure(docformat="numpy", show_source=False, footer_text="SSL Zoo")
    pdoc.pdoc(*MODULES, output_directory=folder)
    for page in folder.rglob("*.html"):
        page.write_text(_with_live_links(page.read_text(encoding="utf-8")), encoding="utf-8")


def _with_live_links(page: str) -> str:
    """A page without links to inherited members, which pdoc links and hides."""
    anchors = set(re.findall(r'id="([^"]+)"', page))
    return re.sub(r'<a href="#([^"]+)">(.*?)</a>', lambda link: link[0] if link[1] in anchors else link[2], page)


if __name__ == "__main__":
    target = ROOT / "build" / "reference"
    write_reference(target)
    print(f"{target.relative_to(ROOT)}: {len(MODULES)} modules", file=sys.stderr)
