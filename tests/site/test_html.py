"""Every page as text: valid, with nothing inline, every reference in it to something that is there."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

import html5lib

from tests.each import for_each
from tests.site.conftest import Site
from tests.site.site_under_test import HANDLER, SCRIPT, TEMPLATE

CSP = "default-src 'self'"
_REFERRING = ("aria-describedby", "aria-labelledby", "aria-controls", "aria-owns", "for", "list", "headers")


@dataclass
class Seen(HTMLParser):
    """What the tests ask of a page."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)  # texts inside script elements

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._inside in ("script", "style") else self.texts).append(data)

    def all(self, *names: str) -> list[tuple[str, str]]:
        """Elements and values of these attributes."""
        return [(tag, found[name]) for tag, found in self.elements for name in names if name in found]


@cache
def seen(path: Path) -> Seen:
    """A page, read once."""
    parser = Seen()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    return parser


def test_pages_of_every_kind_are_valid_html(site: Site) -> None:
    def is_valid(page: str) -> None:
        html5lib.HTMLParser(strict=True).parse((site.folder / page).read_text(encoding="utf-8"))

    more = [f"encoders/{one}.html" for one in ("uni_vitL16", "aim_1B14_dfn2b", "hostile_people", "swav_rn50")]
    for_each([*site.one_of_each_kind, *more])(is_valid)()


def test_every_page_has_one_policy_and_nothing_inline(site: Site) -> None:
    def has_nothing_inline(page: str) -> None:
        parsed = seen(site.folder / page)
        policies = [e["content"] for tag, e in parsed.elements if e.get("http-equiv") == "Content-Security-Policy"]
        assert policies == [CSP]
        assert parsed.scripts == []
        assert [tag for tag, _ in parsed.elements if tag in ("style", "base", "iframe", "object", "embed")] == []
        handlers = [(tag, name) for tag, found in parsed.elements for name in found if re.match("on|style$", name)]
        assert handlers == []

    for_each(site.pages)(has_nothing_inline)()


def test_every_reference_is_to_something_that_is_there(site: Site) -> None:
    files = {path.relative_to(site.folder).as_posix() for path in site.folder.rglob("*") if path.is_file()}
    ids = {page: Counter(value for _, value in seen(site.folder / page).all("id")) for page in site.pages}
    dead: dict[str, str] = {}  # address from the folder -> a page that has it

    def refers_rightly(page: str) -> None:
        parsed = seen(site.folder / page)
        assert [one for one, count in ids[page].items() if count > 1] == [], "an id twice"
        named = [one for _, value in parsed.all(*_REFERRING) for one in value.split()]
        assert sorted({one for one in named if one not in ids[page]}) == [], "names of no element"
        for tag, address in parsed.all("href", "src", "action", "xlink:href"):
            split = urlsplit(address)
            if split.scheme or split.netloc:
                assert tag == "a" and split.scheme in ("http", "https") and split.netloc, (tag, address)
                continue
            target = normpath(PurePosixPath(page).parent / unquote(split.path)) if split.path else page
            place = unquote(split.fragment) if target in ids and "=" not in split.fragment else ""  # others are choices
            if target not in files or (place and place not in ids[target]):
                dead[f"{target}#{place}"] = page

    for_each(site.pages)(refers_rightly)()
    assert dead == {}


def test_names_of_files_are_safe_everywhere(site: Site) -> None:
    names = [path.relative_to(site.folder).as_posix() for path in site.folder.rglob("*")]
    assert [name for name in names if name.startswith("encoders/dino_vitS16-cls-9-10-")]  # other features of it
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", name)] == []
    assert [name for name, count in Counter(name.casefold() for name in names).items() if count > 1] == []


@for_each([SCRIPT, HANDLER, TEMPLATE])
def test_what_a_card_says_is_text(text: str, site: Site) -> None:
    parsed = seen(site.folder / "encoders" / "hostile_script.html")
    assert text in " ".join(parsed.texts)
