"""What the tests of pages share: a site, written once a run, and one browser a process.

``open_page("choose.html", width=360, scheme="dark")`` opens a page of the site and fails its test where the page says
an error, asks for what is not in its folder, or is answered by nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from tests.browser import Watch, browsing, serving_folder, wait_until
from tests.site import site_under_test

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OpenPage = Callable[..., "Page"]
SUB_PATH = "/some/sub/path/"
ENCODER_PAGES = tuple(
    f"encoders/{one}.html" for one in ("dino_vitS16", "clip_vitB16", "pocket_simclr_rn_shapes", "hostile_script")
)
DATASET_PAGES = tuple(f"datasets/{one}.html" for one in ("index", "imagenet-1k", "svhn"))
DOCS_PAGES = ("docs/index.html", "docs/reading.html", "docs/results.html")


@dataclass(frozen=True)
class Site:
    """A site on the disk."""

    folder: Path

    @property
    def address(self) -> str:
        """Of the folder, for a browser; with a slash at its end."""
        return self.folder.as_uri() + "/"

    @property
    def pages(self) -> list[str]:
        """Paths of all pages, in order."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.html"))

    @property
    def one_of_each_kind(self) -> list[str]:
        """Pages of different kinds; of encoders of the study, measured by others or elsewhere, and the user's."""
        studies = [page for page in self.pages if page.startswith("studies/") and page != "studies/index.html"]
        singles = [page for page in self.pages if not page.startswith(("encoders/", "studies/", "datasets/", "docs/"))]
        indices = [page for page in self.pages if page == "studies/index.html"]
        return [*singles, *DATASET_PAGES, *DOCS_PAGES, *studies[:1], *indices, *ENCODER_PAGES]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, shipped_files_looked_at_once: None) -> Site:
    """The site under test, which the first process that needs it writes for all."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, home = shared / "site #1", shared / "site-home"  # a folder whose name needs quoting in an address
    with FileLock(shared / "site.lock"):
        if not (shared / "site.written").exists():
            home.mkdir()
            with site_under_test.user(home):
                site_under_test.write(folder)
            (shared / "site.written").touch()
    return Site(folder)


@pytest.fixture(scope="session")
def site_server(site: Site) -> Iterator[str]:
    """Address of the site on a loopback server, below a path; with a slash at its end."""
    with serving_folder(site.folder, SUB_PATH) as address:
        yield address


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium; it ends with the tests of this folder, for its event loop would be in the way of others."""
    with browsing() as found:
        yield found


@pytest.fixture
def open_page(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Opens pages of the site; what they did wrong fails the test at its end."""
    contexts, watches = {}, []

    def open_one(
        path: str = "index.html",
        *,
        address: str = "",
        width: int = 1300,
        height: int = 900,
        scheme: str = "light",
        javascript: bool = True,
        used: bool = True,
        **options: Any,
    ) -> Page:
        """``path`` may end with a hash; ``address`` is another place of the site, such as that of ``site_server``;
        ``used`` moves the pointer, with which a page loads the data that it needs to answer."""
        root = address or site.address
        key = (width, height, scheme, javascript, *sorted(options.items()))
        if key not in contexts:
            contexts[key] = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                java_script_enabled=javascript,
                **options,
            )
            contexts[key].set_default_timeout(10_000)
        page = contexts[key].new_page()
        watches.append(Watch(root))
        watches[-1].over(page)
        page.goto(root + path, wait_until="load")
        if used and javascript and page.evaluate("document.body.dataset.later"):
            page.mouse.move(1, 1)
            wait_until(page, "performance.getEntriesByName('zoo-interactive').length")
        return page

    yield open_one
    for context in contexts.values():
        context.close()
    assert [problem for watch in watches for problem in watch.problems] == []
