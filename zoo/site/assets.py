"""Third-party code of the site: the script of DataTables, from the package ``itables``, and what it is made of.

``itables`` ships DataTables with its extensions and jQuery as one ES module. Browsers refuse modules from ``file://``,
so that the module becomes a classic script here: it runs in a function of its own and leaves one global, ``DataTable``.
Its style sheet is left out: it is for extensions that the site does not use, with images in it that the site's
Content-Security-Policy blocks; ``styles/20-table.css`` has the few rules that a sorted table needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files

from ..errors import ContentError
from ..optional import requires_extra
from .rendering import Renderer

ASSET = "datatables.js"
_SHOWN = 80  # characters of what a bundle ends with, in messages
_EXPORT = re.compile(r"\bexport\s*\{([^{}]*)\};?")
_LISTED = re.compile(r"^(\S+):\n\s*\(\*!(.*?)\*\)", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)\b")
_INSIDE = (  # what the texts of others name: name, text, licence
    ("pako", re.compile(r"\bpako\b"), "MIT"),
    ("FileSaver.js", re.compile(r"FileSaver\.js \((?P<version>[\d.]+)\)"), "MIT"),
    ("Lucide", re.compile(r"\bLucide\b"), "ISC"),
)


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """One piece of software that the site carries and that is not ours."""

    name: str
    version: str  # "" where its licence text names none
    licence: str
    files: tuple[str, ...]  # names in Renderer.assets that hold it


def datatables(renderer: Renderer) -> str:
    """Path of the classic script that offers ``DataTable``.

    Raises
    ------
    MissingExtra
        If itables is not installed.
    ContentError
        If the installed itables has no bundle of DataTables as this module knows it.
    """
    if ASSET not in renderer.assets:
        renderer.asset(ASSET, _classic().encode())
    return renderer.assets[ASSET].path


def third_party() -> list[ThirdParty]:
    """Everything that is in the script of :func:`datatables`, the package that ships it first; errors as there."""
    text, version = _bundle()
    found = {"itables": ThirdParty("itables", version, "MIT", (ASSET,))}
    for place, notice in _LISTED.findall(text[text.rindex("/*!") :]):
        name = re.sub(r"-dt$", "", place.partition("/")[0])  # NAME-dt is the styling of NAME
        stated = _VERSION.search(notice.strip().split("\n\n")[0])
        if name not in found or (stated and not found[name].version):
            found[name] = ThirdParty(name, stated[1] if stated else "", _licence(notice), (ASSET,))
        for inside, pattern, licence in _INSIDE:
            if seen := pattern.search(notice):
                found[inside] = ThirdParty(inside, seen.groupdict().get("version", ""), licence, (ASSET,))
    return list(found.values())


def _licence(notice: str) -> str:
    if "GPL" in notice:
        return "MIT or GPL-3.0"
    return "MIT"  # jQuery says so in its notice; datatables.net/license is the text of MIT


@cache
def _bundle() -> tuple[str, str]:
    """The module as itables ships it, and the version of itables."""
    with requires_extra("site", needed_for="The table of a site"):
        import itables
    text = files(itables).joinpath("html", "dt_bundle.js")
    version = str(metadata("itables")["Version"])
    if not text.is_file():
        raise ContentError(
            f"The installed itables {version} has no file html/dt_bundle.js, expected its bundle of DataTables; "
            "install a version from 2.9 on that ships it."
        )
    return text.read_text(encoding="utf-8"), version


def _classic() -> str:
    """The module as a classic script, opened by the licence of itables; the others' are at its end."""
    text, version = _bundle()
    return f"/*! The bundle of itables {version}\n{_licence_of_itables()}\n*/\n{as_classic(text, version)}"


def as_classic(module: str, version: str) -> str:
    """A bundled ES module as a classic script that assigns its default export to ``DataTable``.

    Raises
    ------
    ContentError
        If the module imports something, or does not have exactly one list of exports, with a default.

    Examples
    --------
    >>> as_classic("var a=1;export{a as default};", "2.9")
    '"use strict";(()=>{var a=1;window.DataTable=a;})();\\n'
    """
    exports = list(_EXPORT.finditer(module))
    named = dict(_exported(exports[0][1])) if len(exports) == 1 else {}
    if "default" not in named or re.match(r"\s*import\b", module):
        raise ContentError(
            f"The bundle of DataTables of itables {version} has {len(exports)} lists of exports and ends with "
            f"{module[-_SHOWN:].strip()!r}, expected one such list with a default; install an itables of 2.9."
        )
    [export] = exports
    before, after = module[: export.start()], module[export.end() :]
    return f'"use strict";(()=>{{{before}window.DataTable={named["default"]};{after}}})();\n'


def _exported(names: str) -> Iterator[tuple[str, str]]:
    """Pairs of the exported name and the name within the module."""
    for one in names.split(","):
        local, _, exported = one.strip().partition(" as ")
        yield (exported or local).strip(), local.strip()


def _licence_of_itables() -> str:
    return str(metadata("itables")["License"] or "MIT License").strip().replace("*/", "* /")
