"""Pages of encoders and the comparison in Chromium: copy buttons, what is added and removed, and the address of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tests.browser import wait_until
from tests.site.conftest import OpenPage
from tests.site.site_under_test import MINE, SCRIPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

_LINES = """() => {
  const rows = [...document.querySelectorAll("#compared tbody tr:not(.section)")];
  const texts = rows.map(row => [...row.cells].map(cell => cell.firstChild?.textContent.trim() ?? ""));
  return Object.fromEntries(texts.map(([name, ...cells]) => [name, cells]));
}"""
_DRAWN = """() => [...document.querySelectorAll("#curves *, #compared :not(button)")].map(one => [
  one.tagName, ...["class", "href", "d", "x", "width", "scope", "colspan"].map(name => one.getAttribute(name) || ""),
  ...[...one.childNodes].filter(child => child.nodeType === 3 && child.data.trim()).map(child => child.data.trim()),
].join("|"))"""
_HEADINGS = "n => document.querySelectorAll('#compared thead th').length === n"


def compared(page: Page) -> list[str]:
    """Ids at the head of the comparison."""
    return page.locator("#compared thead th a").all_inner_texts()


def add(page: Page, name: str) -> str:
    """Asks for one more; returns what the page says to it."""
    page.locator("#add").fill(name)
    page.locator("#add").press("Enter")
    return page.locator("#said").inner_text()


def test_comparisons_are_made_changed_and_sent_as_a_link(open_page: OpenPage) -> None:
    page = open_page("compare.html#e=dino_vitS16,dino_vitB16")
    assert compared(page) == ["dino_vitS16", "dino_vitB16"]
    different = page.evaluate(_LINES)
    page.locator("#everything").check()
    everything = page.evaluate(_LINES)
    assert set(different) < set(everything)
    for name in set(everything) - set(different):
        assert len(set(everything[name])) == 1, name
    page.locator("#everything").uncheck()

    add(page, "mae_vitB16")
    page.get_by_role("button", name="Remove dino_vitS16").click()
    assert compared(page) == ["dino_vitB16", "mae_vitB16"]
    assert "mae_vitB16" in page.url
    for name in ("barlow_rn50", "swav_rn50", "clip_rn50", MINE[0]):
        add(page, name)
    assert len(compared(page)) == 6
    assert "6" in add(page, "simclr_rn50") and len(compared(page)) == 6
    again = open_page(f"compare.html#{urlsplit(page.url).fragment}")
    assert compared(again) == compared(page) and again.evaluate(_LINES) == page.evaluate(_LINES)


def test_the_script_draws_what_the_page_came_with(open_page: OpenPage) -> None:
    static, scripted = (open_page("compare.html", javascript=on).evaluate(_DRAWN) for on in (False, True))
    assert scripted == static
    page = open_page(f"compare.html#e={quote(SCRIPT)},dino_vitS16&all=1")
    wait_until(page, _HEADINGS, arg=1)
    assert compared(page) == ["dino_vitS16"] and SCRIPT in page.locator("#said").inner_text()
    page.evaluate("location.hash = ''")  # as the button Back does
    wait_until(page, _HEADINGS, arg=6)
    assert page.evaluate(_DRAWN) == static


def test_neighbours_are_compared_by_links_of_the_script(open_page: OpenPage) -> None:
    page = open_page("encoders/dino_vitS16.html")
    link = page.locator("#near p.note a").first
    variants = page.locator("#near ul").first.locator("a").all_inner_texts()
    assert "dino_vitS16@cls:9+10" in variants
    link.click()
    wait_until(page, _HEADINGS, arg=1 + len(variants))
    assert compared(page) == ["dino_vitS16", *variants]


def test_copy_buttons_copy_what_stands_next_to_them(open_page: OpenPage) -> None:
    page = open_page("encoders/dino_vitS16.html")
    buttons = page.locator("button.copy")
    assert buttons.count() >= 2
    other = open_page("index.html")
    for place in range(buttons.count()):
        page.bring_to_front()
        code = page.locator(f"#{buttons.nth(place).get_attribute('data-copy')}").inner_text()
        buttons.nth(place).click()
        wait_until(
            page, "place => document.querySelectorAll('button.copy')[place].textContent.startsWith('Copied')", arg=place
        )
        other.bring_to_front()
        search = other.locator("#filters [name=q]")
        search.fill("")
        search.press("ControlOrMeta+v")
        assert search.input_value().split() == code.split()  # a field of one line has spaces for lines
