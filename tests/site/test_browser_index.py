"""The first page in Chromium: table, filters, plot, the address that holds them, and the CSV of what is shown."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.browser import wait_until
from tests.site.conftest import OpenPage, Site
from tests.site.site_under_test import MINE
from zoo.cards.catalogue import load_catalogue
from zoo.results.derived import summaries
from zoo.results.values import SETTINGS
from zoo.site.drawing import FILLS
from zoo.site.expected import FILL_OF
from zoo.site.first_page import LISTED

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

_SHOWN = """name => {
  const table = document.querySelector("table.encoders");
  const at = [...table.tHead.rows[0].cells].findIndex(head => head.dataset.name === name);
  return [...table.tBodies[0].rows].filter(row => row.checkVisibility())
    .map(row => (row.cells[at].querySelector("a") ?? row.cells[at]).textContent.trim());
}"""

_BOXES = """() => ["#score", "#encoders", ".encoders tbody tr", "#plot .legend", "#whole", "footer"].map(one => {
  const { x, y, width, height } = document.querySelector(one).getBoundingClientRect();
  return [x, y, width, height];
})"""


def shown(page: Page, column: str = "encoder") -> list[str]:
    """Texts of a column of the table in all rows, which are asked for if some are left out, in their order."""
    if page.locator("#whole").is_visible():
        page.locator("#whole").click()
    return page.evaluate(_SHOWN, column)


def choices(page: Page) -> dict[str, str]:
    """What the address holds."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def n_marks(page: Page) -> int:
    """Points of the plot."""
    return page.locator("#plot .marks > path:not(.interval)").count()


def sort_by(page: Page, column: str, way: str) -> None:
    """Clicks a heading until the table has that order."""
    heading = page.locator(f"table.encoders th[data-name={column}]")
    for _ in range(3):
        heading.locator("button").click()
        if heading.get_attribute("aria-sort") == way:
            return
    raise AssertionError(f"{column} was never {way}")


def test_sorting_filtering_and_searching_and_the_link_that_holds_them(open_page: OpenPage) -> None:
    page = open_page()
    everything = shown(page)
    known = n_marks(page)
    for way, sign in (("ascending", 1), ("descending", -1)):
        sort_by(page, "error", way)
        texts = shown(page, "error")
        numbers = [float(text) for text in texts if text[0].isdigit()]
        assert known < len(numbers) < len(texts) and numbers == sorted(numbers, key=lambda one: sign * one)
        assert sorted(shown(page)) == sorted(everything)

    page.locator("#filters [name=q]").fill("dino vit")
    found = shown(page)
    assert "dino_vitS16" in found and set(found) < set(everything)
    assert str(len(found)) in page.locator("#count").inner_text()
    page.locator("#more [name=access]").select_option("open")
    page.locator("#q").press("Escape")  # the list of what is offered lies over it
    page.locator("#filters [name=measured]").check()
    page.locator("#more [name=max]").fill("50")
    kept = shown(page)
    assert kept and set(kept) < set(found) and n_marks(page) == len(kept)

    again = open_page(f"index.html#{urlsplit(page.url).fragment}")
    assert shown(again) == kept and n_marks(again) == len(kept)
    assert again.locator("#filters [name=q]").input_value() == "dino vit"
    again.locator("#clear").click()
    assert len(shown(again)) == len(everything) and choices(again).keys() <= {"order", "all"}


def test_the_csv_of_what_is_shown_has_the_values_of_the_results(site: Site, open_page: OpenPage) -> None:
    page = open_page("index.html#measured=1", accept_downloads=True)
    with page.expect_download() as expected:
        page.locator("#download").click()
    assert expected.value.suggested_filename.endswith(".csv")
    with open(expected.value.path(), encoding="utf-8", newline="") as file:
        table = {row["id"]: row for row in csv.DictReader(file)}
    assert list(table) == shown(page)
    shipped = {encoder: one for encoder, one in summaries(exclude_wrong=True).items() if encoder in table}
    assert len(shipped) > 10 and set(table) - set(shipped) == set(MINE[:2])
    for encoder, summary in shipped.items():
        for setting in SETTINGS:
            text = table[encoder][setting.name]
            expected_error = summary.errors.get(setting.name)
            assert (float(text) if text else None) == expected_error, (encoder, setting.name)


def test_the_plot_answers_hover_brush_legend_and_keys(open_page: OpenPage) -> None:
    page = open_page()
    plot = page.locator("#plot svg[role=application]")
    everything, tip = n_marks(page), page.locator("#plot .tip")
    page.locator("#plot .marks > path").last.hover(force=True)
    name, told = tip.locator("strong").inner_text(), tip.inner_text()
    data = {*page.evaluate("ENCODERS.id")}
    assert name in data and "%" in told

    legend = page.locator("#plot .legend button")
    size = int(legend.first.inner_text().rpartition("(")[2].rstrip(")"))
    legend.first.click()
    assert n_marks(page) == everything - size and choices(page)["off"]
    assert legend.first.get_attribute("aria-pressed") == "false"
    legend.first.press("Enter")
    assert n_marks(page) == everything and choices(page) == {}

    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.85, steps=3)
    page.mouse.up()
    inside = n_marks(page)
    assert 0 < inside < everything
    again = open_page(f"index.html#{urlsplit(page.url).fragment}")
    assert n_marks(again) == inside
    page.get_by_role("button", name="Reset zoom").click()
    assert n_marks(page) == everything and choices(page) == {}

    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    said = page.locator("#plot output").inner_text()
    assert said.partition(",")[0] in data


def test_the_plot_tells_what_numbers_rest_on_and_names_the_front(open_page: OpenPage) -> None:
    page = open_page(width=1300)
    rows = page.evaluate("Zoo.encoders().filter(one => one.drawn && one.kind !== 'none' && one.expected <= 60)")
    assert page.locator("#plot .fills li").all_inner_texts() == [*FILLS.values()]
    counts = Counter(FILL_OF[one["basis"]] for one in rows)
    for kind, fill in {"f": "full", "half": "half", "hollow": "open"}.items():
        assert page.locator(f"#plot .marks > [class^={kind}]").count() == counts[fill]
    best = page.locator("#front a").all_text_contents()
    named = page.locator("#plot .top").all_text_contents()
    assert named and {*named} <= {*best} and page.locator("#plot .marks .first").count() == len(best)
    page.locator("#more [name=mode]").select_option("contrastive")
    fewer = page.locator("#front a").all_text_contents()
    assert fewer and {*fewer} - {*best} and page.locator("#plot .marks .first").count() == len(fewer)
    page.locator("#clear").click()
    page.locator("#plot svg[role=application]").focus()
    page.keyboard.press("Home")
    said = page.locator("#plot output").inner_text()
    one = next(row for row in rows if row["id"] == said.partition(",")[0])
    assert one["basis"] in said
    assert one["low"] is None or f"90 % interval {one['low']:.1f} to {one['high']:.1f}" in said
    page.locator("#other summary").click()
    page.locator("#axes [name=score]").select_option("100%")
    assert page.locator("#plot .top").count() == 0 and not page.locator("#front").is_visible()


def test_the_search_field_filters_everything_and_leads_to_encoders_by_keyboard(site: Site, open_page: OpenPage) -> None:
    page = open_page()
    everything = shown(page)
    page.locator("#q").click()
    page.keyboard.type("dino_vit")
    found = shown(page)
    assert "dino_vitS16" in found and set(found) < set(everything) and n_marks(page) <= len(found)
    offered = page.locator("#found a").all_inner_texts()
    begins = [one.startswith("dino_vit") for one in offered[:-1]]
    assert begins[0] and begins == sorted(begins, reverse=True) and all("dino_vit" in one for one in offered[:-1])
    assert str(len(found)) in offered[-1]
    assert {row.split()[0] for row in page.locator(".best-of .name").all_inner_texts()} <= set(found)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent").startswith(offered[1].split()[0])
    page.keyboard.press("Escape")
    assert not page.locator("#found").is_visible() and page.evaluate("document.activeElement.id") == "q"
    page.keyboard.press("Enter")
    page.wait_for_url("**/encoders/*.html")
    assert page.locator("h1").inner_text().startswith(offered[0].split()[0])

    page = open_page()
    page.locator("#q").fill("clustering")  # no name has it
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "table" and choices(page)["q"] == "clustering"
    page.locator("#q").fill("no such encoder")
    assert page.locator("#found").inner_text() == "No encoder matches" and shown(page) == []
    page.keyboard.press("Enter")  # leads nowhere, and breaks nothing
    assert n_marks(page) == 0


def test_ordinary_names_find_encoders_data_sets_and_studies(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#q").focus()
    wait_until(page, "typeof NAMES !== 'undefined'")
    every = {
        "ViT-B/16": "dino_vitB16", "vit_base_patch16": "mae_vitB16", "dino v2 small": "dinov2_vitS14",
        "vit_small_patch16_224.dino": "dino_vitS16", "timm/vit_small_patch16_224.dino": "dino_vitS16",
        "histology": "hibou_vitL14", "openai": "clip_vitB16", "Facebook": "dino_rn50",
        "facebook/dinov2-small": "dinov2_vitS14",
    }  # fmt: skip
    for asked, encoder in every.items():
        page.locator("#q").fill(asked)
        found = shown(page)
        assert encoder in found, asked
        assert {*load_catalogue().finder.find(asked.split())} & {*every.values()} <= {*found}, asked
    page.locator("#q").fill("dino v2")
    assert "dinov2_vitS14" in shown(page) and "dino_vitS16" not in shown(page)
    page.locator("#q").fill("dino 2.0")  # the number of a licence is no name
    assert "dino_vitS16" not in shown(page)
    page.locator("#q").fill("eurosat")
    assert page.locator("#found a").all_inner_texts()[0].startswith("EuroSAT") and shown(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/*.html")


def test_the_answer_follows_licence_year_and_training_and_their_link(open_page: OpenPage) -> None:
    page = open_page()
    before, headline = page.locator(".best-of tbody").inner_text(), page.locator("#score").inner_text()
    ranked = page.evaluate("Zoo.encoders().filter(one => one.ranked)")
    wanted = {"commercial": "yes", "since": "2023", "kind": "self"}
    for name, value in wanted.items():
        page.locator(f"#filters [name={name}]").select_option(value)
    right = [
        one
        for one in ranked
        if one["commercial"] == "yes" and (one["released"] or "") >= "2023" and one["kind"] == "self"
    ]
    assert right and page.locator("#score").inner_text() != headline
    rows = page.locator(".best-of tbody tr").all_inner_texts()
    assert rows[-1].split("\t")[1] == right[0]["id"] and f"{right[0]['low']:.1f}-{right[0]['high']:.1f}" in rows[-1]
    again = open_page(f"index.html#{urlsplit(page.url).fragment}")
    assert choices(again) == wanted and again.locator(".best-of tbody tr").all_inner_texts() == rows
    again.locator("#more [name=max]").fill("1")
    assert {row.split("\t")[1] for row in again.locator(".best-of tbody tr").all_inner_texts()} == {"none is ranked"}
    again.locator("#clear").click()
    assert again.locator(".best-of tbody").inner_text() == before and again.locator("#score").inner_text() == headline
    written = open_page(javascript=False)  # what Python wrote
    assert (
        written.locator(".best-of tbody").inner_text() == before and written.locator("#score").inner_text() == headline
    )


_OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("#plot .top")].map(one => [one.textContent, one.getBBox()]);
  const axis = document.querySelector("#plot .axis").getBBox();
  const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  return boxes.flatMap(([name, box], place) => [
    ...boxes.slice(place + 1).filter(([, other]) => meet(box, other)).map(([other]) => `${name} over ${other}`),
    ...box.x < axis.x || box.x + box.width > axis.x + axis.width ? [`${name} beyond the plot`] : []]);
}"""


def test_names_of_the_front_never_overlap_whatever_is_shown(open_page: OpenPage) -> None:
    for width in (1300, 800, 390):
        page = open_page(width=width)
        for asked in ("", "kind=self", "kind=text", "since=2023", "x=gflops", "q=dino", "max=100"):
            page.evaluate("asked => { location.hash = asked; }", asked)
            page.evaluate("new Promise(done => setTimeout(done, 50))")
            assert page.evaluate(_OVERLAPS) == [], (width, asked)


def test_links_of_earlier_sites_still_leave_out_the_modes_that_they_name(open_page: OpenPage) -> None:
    page = open_page()
    everything = n_marks(page)
    drawn = "one => one.drawn && one.kind !== 'none' && one.expected <= 60"
    n_out = page.evaluate(f"Zoo.encoders().filter({drawn}).filter(one => one.mode === 'clustering').length")
    old = open_page("index.html#off=clustering")
    assert 0 < n_out < everything and n_marks(old) == everything - n_out


def test_the_first_rows_come_with_the_page_and_the_script_writes_the_same_and_all_others(open_page: OpenPage) -> None:
    rows = "[...document.querySelectorAll('.encoders tbody tr')]"
    written, page = open_page(javascript=False), open_page()
    texts = [
        [*map(str.strip, row.locator("th, td").all_inner_texts())] for row in written.locator(".encoders tr").all()[1:]
    ]
    assert (
        len(texts) == LISTED
        and page.evaluate(f"{rows}.map(row => [...row.cells].map(one => one.innerText.trim()))") == texts
    )
    assert written.locator("#after a[href='data/index.html#encoders']").is_visible()
    everything = page.evaluate("ENCODERS.id")
    page.locator("#q").fill(everything[-1])  # which is not among the first
    assert shown(page)[0] == everything[-1]
    page.locator("#clear").click()
    page.locator("#whole").click()
    assert shown(page) == everything and choices(page) == {"all": "1"}


def test_the_page_loads_little_until_it_is_used(site: Site, site_server: str, open_page: OpenPage) -> None:
    page = open_page(address=site_server, used=False)
    names = page.evaluate("performance.getEntriesByType('resource').map(one => one.name.split('/').pop())")
    assert len(names) <= 3 and not any(one.startswith("encoders") for one in names)  # style sheet, script, perhaps icon
    files = [site.folder / "index.html", *(site.folder / "assets" / one for one in names)]
    assert sum(len(gzip.compress(one.read_bytes())) for one in files) < 60_000
    before = page.evaluate(_BOXES)
    page.mouse.move(1, 1)
    wait_until(page, "document.querySelector('#plot [role=application]')")
    moved = [
        abs(place - was)
        for one, old in zip(page.evaluate(_BOXES), before, strict=True)
        for place, was in zip(one, old, strict=True)
    ]
    assert max(moved) <= 2  # pixels: nothing jumps


def test_what_is_typed_and_asked_for_while_the_data_load_is_done_once_they_are_there(
    site_server: str, open_page: OpenPage
) -> None:
    page = open_page(address=site_server, used=False)
    loads: list[Route] = []
    page.route("**/encoders-*.js", lambda route: loads.append(route))  # which come when the test says so
    page.locator("#filters [name=measured]").check()
    page.locator(".encoders tbody input").first.check()
    page.locator("#q").click()
    page.keyboard.type("dino_vit")
    page.keyboard.press("Shift+Tab")
    page.locator("#q").focus()
    assert page.locator("#plot [role=application]").count() == 0 and len(loads) == 1
    loads[0].continue_()
    wait_until(page, "document.querySelector('#plot [role=application]')")
    assert page.locator("#q").input_value() == "dino_vit" and page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("S")
    assert choices(page) == {"q": "dino_vitS", "measured": "1", "e": choices(page)["e"]}
    assert "dino_vitS16" in shown(page) and page.locator("#comparison").is_visible()

    again = open_page(address=site_server, used=False)
    again.route("**/encoders-*.js", lambda route: loads.append(route))
    again.locator("#whole").click()
    again.locator("th[data-name=parameters]").click()
    loads[1].continue_()
    wait_until(again, "document.querySelector('#plot [role=application]')")
    assert choices(again) == {"all": "1", "order": "parameters-asc"} and not again.locator("#whole").is_visible()
