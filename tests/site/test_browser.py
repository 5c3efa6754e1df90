"""Every page in Chromium: no error, no request that leaves the folder, readable on a phone, by keyboard and by ear."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import inaccessible, unreached_by_keyboard
from tests.site.conftest import OpenPage, Site

IS_READY = "document.documentElement.classList.contains('js')"
WIDTH = "document.scrollingElement.scrollWidth"


def test_every_page_opens_from_the_disk_and_fits_a_phone(site: Site, open_page: OpenPage) -> None:
    page, wide = open_page(width=360, height=640), []
    for path in site.pages:
        page.goto(site.address + path)
        assert page.locator("h1").count() == 1, path
        assert page.evaluate(IS_READY), path
        if (width := page.evaluate(WIDTH)) > 360:
            wide.append((path, width))
    assert wide == []


def test_every_kind_of_page_opens_from_a_server_below_a_path(site: Site, site_server: str, open_page: OpenPage) -> None:
    page = open_page(address=site_server)
    for path in site.one_of_each_kind:
        page.goto(site_server + path)
        assert page.evaluate(IS_READY), path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1300), ("dark", 360)], ids=["light", "dark phone"])
def test_axe_finds_nothing_on_any_kind_of_page(scheme: str, width: int, site: Site, open_page: OpenPage) -> None:
    page, found = open_page(scheme=scheme, width=width), {}
    for path in site.one_of_each_kind:
        page.goto(site.address + path)
        if problems := inaccessible(page):
            found[path] = problems
    assert found == {}


def test_the_keyboard_comes_everywhere_and_out_again(site: Site, open_page: OpenPage) -> None:
    page = open_page()
    for path in site.one_of_each_kind:
        page.goto(site.address + path)
        assert unreached_by_keyboard(page) == [], path
    page.goto(site.address + "index.html")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"  # the link over the navigation is the first


def test_pages_are_complete_without_scripts(site: Site, open_page: OpenPage) -> None:
    page = open_page(javascript=False)
    for path in site.one_of_each_kind:
        page.goto(site.address + path)
        assert not page.evaluate(IS_READY)
        assert page.locator(".js-only:visible").count() == 0, path
        assert page.locator("table:visible, svg:visible").count() >= 1 or path == "about.html", path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots_are_kept(scheme: str, site: Site, open_page: OpenPage, repository: Path) -> None:
    folder = repository / "build" / "site-screenshots"
    for width in (360, 800, 1300):
        page = open_page(width=width, scheme=scheme)
        for path in ("index.html", "choose.html", "encoders/dino_vitS16.html"):
            page.goto(site.address + path)
            name = f"{Path(path).stem}-{width}-{scheme}.png"
            assert page.screenshot(path=folder / name, full_page=True)
