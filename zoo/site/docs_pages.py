"""``docs/``: the documentation of the repository as pages, with a contents page and the notebook.

Texts are Markdown, in the checkout or in the wheel's copy. A link between two of them leads to the other's page, one to
another file of the repository to its address, where that is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from ..files import get_content_folder
from ..optional import require_extra
from ..version import find_repository
from .contents import Contents
from .notebook_page import PAGE as NOTEBOOK
from .rendering import File, SiteRenderer

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

INDEX = "docs/index.html"
GROUPS = {  # stems of docs/, or folders with a README.md, by what they are for; others come last
    "Start": ("reading", "loading", "choosing", "notebook"),
    "Measure": ("measuring", "measuring_reference", "probes", "maps", "label-free", "curves", "looking"),
    "Use it elsewhere": ("elsewhere", "other_packages", "same_weights", "costs"),
    "What is in the zoo": ("families", "left_out", "metadata", "results", "analysis", "randomised"),
    "On several machines": ("cluster", "scale", "contributing_results", "site"),
}
_FOLDERS = ("metadata", "results", "analysis")  # whose README.md is a page as well
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_LINK = re.compile(r"[a-z]+:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DocsText:
    """One text: where it stands in the repository, its title, and its Markdown without comments."""

    place: str  # as docs/reading.md
    title: str
    text: str

    @property
    def stem(self) -> str:
        """What its page is called."""
        path = Path(self.place)
        return path.parent.name if path.name == "README.md" else path.stem

    @property
    def page(self) -> str:
        """Path of its page."""
        return f"docs/{self.stem}.html"


def read_texts() -> dict[str, DocsText]:
    """Every text of the documentation, by its place in the repository."""
    paths = {f"docs/{path.name}": path for path in sorted(get_content_folder("docs").glob("*.md"))}
    paths |= {f"{name}/README.md": get_content_folder(name) / "README.md" for name in _FOLDERS}
    found = {}
    for place, path in paths.items():
        text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
        title = _TITLE.search(text)
        found[place] = DocsText(place, title[1] if title else path.stem, text)
    return found


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The contents page, and a page per text; their pictures are assets."""
    texts = read_texts()
    groups = list_groups(texts)
    yield renderer.page("docs_index.html.jinja", INDEX, title="Docs", kind="docs", groups=groups)
    for one in texts.values():
        body, headings = render_text(one, texts, renderer)
        values: dict[str, Any] = {"body": body, "headings": headings, "groups": groups, "place": one.place}
        yield renderer.page("docs.html.jinja", one.page, title=one.title, kind="docs", **values)


def list_groups(texts: dict[str, DocsText]) -> dict[str, list[tuple[str, str]]]:
    """Address and title of every page, by what it is for."""
    pages = {one.stem: (one.page, one.title) for one in texts.values()} | {"notebook": (NOTEBOOK, "A notebook")}
    known = {name for names in GROUPS.values() for name in names}
    groups = {group: [pages[name] for name in names if name in pages] for group, names in GROUPS.items()}
    return groups | {"Further": [page for name, page in pages.items() if name not in known]}


def render_text(
    text: DocsText, texts: dict[str, DocsText], renderer: SiteRenderer
) -> tuple[Any, list[tuple[str, str]]]:
    """A text as HTML, and anchor and words of its second-level headings."""
    with require_extra("site", needed_for="A site"):
        from markdown_it import MarkdownIt
        from markupsafe import Markup
    markdown: MarkdownIt = MarkdownIt("commonmark", {"html": False}).enable("table")
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    tokens = markdown.parse(text.text)
    headings, seen = [], dict[str, int]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            words = "".join(one.content for one in tokens[place + 1].children or ())
            anchor = make_anchor(words, seen)
            token.attrSet("id", anchor)
            headings += [(anchor, words)] * (token.tag == "h2")
        if token.type in ("th_open", "td_open") and "right" in str(token.attrs.pop("style", "")):
            token.attrSet("class", "n")  # for a style would be blocked
        for one in token.children or ():
            if one.type == "link_open":
                _lead(one, text, texts)
            elif one.type == "image":
                _picture(one, text, renderer)
    return Markup(markdown.renderer.render(tokens, markdown.options, {})), headings


def make_anchor(words: str, seen: dict[str, int]) -> str:
    """The anchor of a heading, as GitHub makes it, numbered where a page has it already.

    >>> seen = {}
    >>> make_anchor("By how much protocols differ", seen), make_anchor("Images, like these", seen)
    ('by-how-much-protocols-differ', 'images-like-these')
    """
    anchor = re.sub(r"[^\w\- ]", "", words.casefold()).replace(" ", "-")
    seen[anchor] = seen.get(anchor, -1) + 1
    return f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor


def _lead(token: Token, text: DocsText, texts: dict[str, DocsText]) -> None:
    """A link to where the file is on the site or in the repository; one to a place unknown becomes a word."""
    target, hash_, anchor = str(token.attrGet("href")).partition("#")
    if not target or _LINK.match(target):
        return
    place = normpath(f"{Path(text.place).parent.as_posix()}/{target}")
    if place in texts:
        token.attrSet("href", f"../{texts[place].page}{hash_}{anchor}")
    elif place.endswith(".ipynb"):
        token.attrSet("href", f"../{NOTEBOOK}")
    elif repository := find_repository():
        token.attrSet("href", f"{repository}/blob/HEAD/{place}{hash_}{anchor}")
    else:
        token.attrs.pop("href")
        token.attrSet("title", f"{place} in the repository")


def _picture(token: Token, text: DocsText, renderer: SiteRenderer) -> None:
    """The picture as an asset, with its size, so that the page does not move when it comes."""
    source = normpath(f"{Path(text.place).parent.as_posix()}/{token.attrGet('src')}")
    folder, _, rest = source.partition("/")
    content = (get_content_folder(folder) / rest).read_bytes()
    token.attrSet("src", f"../{renderer.asset('docs-' + rest.replace('/', '-'), content)}")
    if content.startswith(b"\x89PNG"):
        width, height = (int.from_bytes(content[at : at + 4]) for at in (16, 20))
        token.attrSet("width", str(width // 2))
        token.attrSet("height", str(height // 2))
    token.attrSet("loading", "lazy")


def _region(words: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{words}">'


def _open_table(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: dict[str, Any]) -> str:
    env["tables"] = env.get("tables", 0) + 1
    return f"{_region('Table ' + str(env['tables']))}<table>\n"


def _close_table(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    return "</table></div>\n"


def _code(renderer: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    from markupsafe import escape

    return f'<pre tabindex="0"><code>{escape(tokens[place].content)}</code></pre>\n'


_RULES = {"table_open": _open_table, "table_close": _close_table, "fence": _code, "code_block": _code}
