"""The documentation as pages of the site: links, anchors, pictures and tables of every text."""

from __future__ import annotations

import re
from posixpath import normpath

import pytest

from tests.conftest import REPOSITORY
from zoo.site import docs_pages, rendering
from zoo.site.contents import Contents, gather
from zoo.site.docs_pages import GROUPS, INDEX, list_groups, read_texts
from zoo.site.rendering import SiteRenderer


@pytest.fixture(scope="module")
def contents() -> Contents:
    return gather(only=("pocket_simclr_*",))


@pytest.fixture(scope="module")
def pages(contents: Contents) -> dict[str, str]:
    """Text of every page and asset by path."""
    renderer = SiteRenderer(contents)
    files = {file.path: file.content.decode() for file in docs_pages.build_files(contents, renderer)}
    return files | {one.path: "" for one in renderer.assets.values()}


def test_every_text_of_the_repository_is_a_page_that_the_contents_name(pages: dict[str, str]) -> None:
    texts = {path.stem for path in (REPOSITORY / "docs").glob("*.md")} | {"metadata", "results", "analysis"}
    assert {f"docs/{name}.html" for name in texts} | {INDEX} == {path for path in pages if path.endswith(".html")}
    groups = list_groups(read_texts())
    assert sorted(address for named in groups.values() for address, _ in named) == sorted(
        {path for path in pages if path.endswith(".html")} - {INDEX} | {"notebook.html"}
    )
    assert {name for names in GROUPS.values() for name in names} <= texts | {"notebook"}
    assert all(f'href="../{address}"' in pages[INDEX] for named in groups.values() for address, _ in named)


def test_links_lead_to_pages_and_anchors_that_are_there(pages: dict[str, str]) -> None:
    ids = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in pages.items()}
    n_anchors, broken = 0, []
    for path, text in pages.items():
        body = text.partition('<article class="docs-text">')[2].partition("</article>")[0]
        for link in re.findall(r'<(?:a href|img src)="([^"]+)"', body):
            target, _, anchor = link.partition("#")
            place = normpath(f"docs/{target}") if target else path
            if re.match(r"[a-z]+:", link) or place == "notebook.html":
                continue
            n_anchors += bool(anchor)
            if place not in pages or (anchor and anchor not in ids[place]):
                broken.append((path, link))
    assert not broken and n_anchors > 20


def test_pages_have_neither_styles_nor_comments_and_code_can_be_scrolled(pages: dict[str, str]) -> None:
    for path, text in pages.items():
        assert "<td>Next to the file" not in text  # which stands behind a table and a comment
        assert "style=" not in text and "&lt;!--" not in text and "<pre><code" not in text, path
    assert '<td class="n">' in pages["docs/costs.html"]
    reading = pages["docs/reading.html"]
    assert reading.count("<h1>") + reading.count("<h1 ") == 1 and reading.count("<img ") == 3
    assert '<a href="#one-error-taken-apart">One error, taken apart</a>' in reading
    assert 'aria-label="Table 1"' in reading and "width=" in reading


def test_docs_are_in_the_header_and_the_source_once_its_address_is_known(
    contents: Contents, pages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '<a href="../docs/index.html">Docs</a>' in pages["docs/reading.html"]
    assert ">Source</a>" not in pages["docs/reading.html"] and "OWNER/ssl-zoo/blob" not in pages["docs/families.html"]
    for module in (rendering, docs_pages):
        monkeypatch.setattr(module, "find_repository", lambda: "https://example.org/ann/ssl-zoo")
    renderer = SiteRenderer(contents)
    files = {file.path: file.content.decode() for file in docs_pages.build_files(contents, renderer)}
    assert '<a href="https://example.org/ann/ssl-zoo">Source</a>' in files["docs/reading.html"]
    assert 'href="https://example.org/ann/ssl-zoo/blob/HEAD/metadata/' in files["docs/families.html"]
