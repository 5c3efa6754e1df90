"""Every page in Chromium: no error, no request that leaves the folder, readable on a phone, by keyboard and by ear."""

from __future__ import annotations

from tests.browser import inaccessible, unreached_by_keyboard
from tests.site.conftest import OpenPage, Site

IS_READY = "document.documentElement.classList.contains('js')"
WIDTH = "document.scrollingElement.scrollWidth"
MAIN = ("index.html", "choose.html", "compare.html", "encoders/dino_vitS16.html", "datasets/svhn.html")


def test_every_kind_of_page_opens_from_disk_and_server_and_fits_a_phone(
    site: Site, site_server: str, open_page: OpenPage
) -> None:
    page, wide, served = open_page(width=360, height=640), [], open_page(address=site_server)
    for path in site.one_of_each_kind:
        page.goto(site.address + path)
        is_ready, n_headings, width = page.evaluate(f"[{IS_READY}, document.querySelectorAll('h1').length, {WIDTH}]")
        assert is_ready and n_headings == 1, path
        if width > 360:
            wide.append((path, width))
        served.goto(site_server + path)
        assert served.evaluate(IS_READY), path
    assert wide == []


def test_axe_finds_nothing_on_any_kind_of_page(site: Site, open_page: OpenPage) -> None:
    page, found = open_page(width=360), {}
    for path in site.one_of_each_kind:
        page.emulate_media(color_scheme="light")
        page.goto(site.address + path)
        problems = inaccessible(page)  # at this width more of a page has to be scrolled
        if path in MAIN:
            page.emulate_media(color_scheme="dark")
            problems += [f"dark: {one}" for one in inaccessible(page, colours_alone=True)]
        if problems:
            found[path] = problems
    assert found == {}, "\n".join(f"{path}: {one}" for path, some in found.items() for one in some)


def test_the_keyboard_comes_everywhere_and_out_again(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"  # the link over the navigation is the first
    for path in MAIN:
        assert unreached_by_keyboard(open_page(path)) == [], path


def test_pages_are_complete_without_scripts(site: Site, open_page: OpenPage) -> None:
    page = open_page(javascript=False)
    for path in MAIN:
        page.goto(site.address + path)
        assert not page.evaluate(IS_READY)
        assert page.locator(".js-only:visible").count() == 0, path
        assert page.locator("table:visible, svg:visible").count() > 1, path
