"""The comparison in Chromium: what the script draws of the page's own encoders is what Python drew."""

from __future__ import annotations

from tests.site.conftest import OpenPage

_DRAWN = """() => [...document.querySelectorAll("#curves *, #compared :not(button)")].map(one => [
  one.tagName, ...["class", "href", "d", "x", "width", "scope", "colspan"].map(name => one.getAttribute(name) || ""),
  ...[...one.childNodes].filter(child => child.nodeType === 3 && child.data.trim()).map(child => child.data.trim()),
].join("|"))"""
_HEADINGS = "n => document.querySelectorAll('#compared thead th').length === n"


def test_the_script_draws_what_the_page_came_with(open_page: OpenPage) -> None:
    static, scripted = (open_page("compare.html", javascript=on).evaluate(_DRAWN) for on in (False, True))
    assert scripted == static
    page = open_page("compare.html#e=dino_vitS16&all=1")
    page.wait_for_function(_HEADINGS, arg=1)
    page.evaluate("location.hash = ''")  # as the button Back does
    page.wait_for_function(_HEADINGS, arg=6)
    assert page.evaluate(_DRAWN) == static
