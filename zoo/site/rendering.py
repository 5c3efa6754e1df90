"""From templates and values to the files of a site: pages, and assets whose names have the hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..optional import require_extra
from ..version import __version__, find_repository
from .contents import Contents, SiteEntry
from .drawing import split_name

if TYPE_CHECKING:
    import jinja2

PAGES = (
    ("index.html", "Encoders"),
    ("choose.html", "Choose"),
    ("compare.html", "Compare"),
    ("look.html", "Look"),
    ("datasets/index.html", "Data sets"),
    ("studies/index.html", "Studies"),
    ("data/index.html", "Data"),
    ("docs/index.html", "Docs"),
    ("about.html", "About"),
)
"""The navigation of every page: address and name."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of the site."""

    path: str  # below the folder of the site, with slashes
    content: bytes


@dataclass
class SiteRenderer:
    """Makes pages of templates, and keeps the assets that they name."""

    contents: Contents
    assets: dict[str, File] = field(default_factory=dict)  # by name without hash
    tell: Callable[[str], None] = lambda what: None  # of what takes long, while it is made

    def asset(self, name: str, content: bytes) -> str:
        """Adds a file to ``assets/`` and returns its path, ``assets/NAME-HASH.SUFFIX``."""
        stem, _, suffix = name.rpartition(".")
        path = f"assets/{stem}-{hashlib.sha256(content).hexdigest()[:10]}.{suffix}"
        self.assets[name] = File(path, content)
        return path

    def data(self, name: str, constant: str, value: Any) -> str:
        """Adds a script that assigns a value to a constant, and returns its path."""
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
        return self.asset(name, f"const {constant} = {text};\n".encode())

    def page(self, template: str, path: str, *, title: str, kind: str, later: str = "", **values: Any) -> File:
        """A page at ``path``.

        ``kind`` is ``data-page`` of its body, which tells the site's scripts what to do; ``later`` is the path of data
        that these need, loaded once somebody uses the page. A template extends ``base.html.jinja`` and fills the block
        ``main``.
        """
        root = "../" * path.count("/")
        text = self.environment.get_template(template).render(
            title=title, kind=kind, path=path, root=root, later=later, pages=PAGES, site=self.contents.title,
            source=find_repository(), version=__version__,
            style=self.style, site_scripts=[*self.site_scripts(kind)], icon=self.icon, **values,
        )  # fmt: skip
        return File(path, text.encode() + b"\n")

    @cached_property
    def environment(self) -> jinja2.Environment:
        """Escapes everything; an undefined name is an error."""
        with require_extra("site", needed_for="A site"):
            import jinja2

        found = jinja2.Environment(
            loader=jinja2.PackageLoader("zoo.site"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        found.filters["split_name"] = split_name
        return found

    @cached_property
    def style(self) -> str:
        """Path of the site's style sheet: the files of ``styles/`` in the order of their names."""
        return self.asset("site.css", _joined("styles", ".css"))

    def site_scripts(self, kind: str) -> Iterator[str]:
        """Paths of the site's own scripts: the shared one, and ``scripts/KIND.js`` if this kind of page has one."""
        yield self.script
        own = files(__package__).joinpath("scripts", f"{kind}.js")
        if own.is_file():
            yield self.asset(f"{kind}.js", own.read_bytes())

    @cached_property
    def script(self) -> str:
        """Path of what all pages share: the files of ``scripts/`` that begin with a number, in their order."""
        return self.asset("site.js", _joined("scripts", ".js"))

    @cached_property
    def icon(self) -> str:
        """Path of the icon, without which browsers ask for one outside the folder of the site."""
        return self.asset("icon.svg", files(__package__).joinpath("icon.svg").read_bytes())


def get_encoder_page(entry: SiteEntry) -> str:
    """Path of the page of an encoder."""
    return f"encoders/{entry.file}.html"


def get_dataset_page(dataset: str) -> str:
    """Path of the page of a data set."""
    return f"datasets/{dataset}.html"


def get_study_page(study: str) -> str:
    """Path of the page of a study."""
    return f"studies/{study}.html"


def _joined(folder: str, suffix: str) -> bytes:
    below = files(__package__).joinpath(folder)
    parts = sorted(
        (one for one in below.iterdir() if one.name[0].isdigit() and one.name.endswith(suffix)),
        key=lambda one: one.name,
    )
    return b"\n".join(one.read_bytes().strip() + b"\n" for one in parts)
