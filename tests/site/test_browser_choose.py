"""The page of choices in Chromium: slider, filters, order and fronts, and ranks that are those of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.site.conftest import OpenPage
from zoo.analysis.label_budget import Noise, rank_odds
from zoo.cards.catalogue import catalogue

if TYPE_CHECKING:
    from playwright.sync_api import Page

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
ENCODERS = "[...document.querySelectorAll('#ranking tbody th a')].map(one => one.textContent)"
RANKED = """labels => {
  const step = BUDGET.steps.find(one => one.labels === labels);
  const law = place => step.law ? step.law[place] : 0;
  const list = step.error.map((error, place) => ({ error, alone: step.alone[place], law: law(place) }));
  list.sort((a, b) => a.error - b.error);
  Zoo.odds(list, Zoo.normals());
  return list;
}"""


def shown(page: Page) -> list[str]:
    """Ids in the table; the page answers a change in its next frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: list[str] = page.evaluate(ENCODERS)
    return found


def slide(page: Page, labels: int) -> None:
    """Moves the slider as a key does."""
    page.evaluate(
        """labels => {
          const slider = document.getElementById('labels');
          slider.value = BUDGET.steps.findIndex(one => one.labels === labels);
          slider.dispatchEvent(new Event('input', { bubbles: true }));
        }""",
        labels,
    )


def test_ranks_are_those_of_python_within_the_noise_of_the_draws(open_page: OpenPage) -> None:
    page = open_page("choose.html")
    for labels in (1_000, 3_000, 100_000):
        found: list[dict[str, Any]] = page.evaluate(RANKED, labels)
        noises = [Noise(one["alone"], law=one["law"]) for one in found]
        for one, odds in zip(found, rank_odds([one["error"] for one in found], noises), strict=True):
            assert abs(one["best"] - odds.best) < 0.064  # four standard errors of a difference, 2,000 draws each
            assert abs(one["rank_low"] - odds.lowest) <= 1
            assert abs(one["rank_high"] - odds.highest) <= 1
            if abs(odds.beats_first - 0.05) > 0.02:
                assert one["tie"] == odds.ties_with_first


def test_the_table_of_the_script_is_that_of_python(open_page: OpenPage) -> None:
    texts = []
    for javascript in (False, True):
        rows = open_page("choose.html", javascript=javascript).locator("#ranking tbody tr").all()
        cells = [row.locator("td, th").all_inner_texts() for row in rows]
        texts.append([[" ".join(one[1].split()), one[2], one[3], *one[5:]] for one in cells])
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10


def test_choices_filter_are_in_the_address_and_on_the_command_line(open_page: OpenPage) -> None:
    page = open_page("choose.html")
    everybody = shown(page)
    cards = catalogue()
    slide(page, 5_000)
    page.get_by_label("Feature dimensions, at most").fill("1024")
    page.get_by_label("Licence of the weights").select_option("permissive")
    page.get_by_label("CLIP", exact=False).first.check()
    page.locator("[data-order=parameters] button").click()
    kept = shown(page)
    assert 0 < len(kept) < len(everybody)
    assert all(cards[one].representation.dim <= 1024 for one in kept if one in cards)
    sizes = [cards[one].architecture.n_parameters for one in kept if one in cards]
    assert sizes == sorted(sizes)
    assert not {"clip_rn50", "clip_vitB16"} & {*kept}
    asked = "--licence permissive --max-dim 1024 --where '\"CLIP\" not in image_sets'"
    assert page.locator("#recommend").inner_text() == f"zoo recommend --labels 5000 {asked}"
    assert page.locator("#next").inner_text().endswith(asked)

    address = page.url
    assert "labels=5000" in address and "order=parameters-asc" in address
    again = open_page("choose.html" + address.partition("choose.html")[2])
    assert shown(again) == kept
    assert again.url == address
    again.get_by_role("button", name="Reset choices").click()
    assert shown(again) == everybody
    assert "#" not in again.url


def test_an_address_may_hold_anything(open_page: OpenPage) -> None:
    everybody = shown(open_page("choose.html"))
    page = open_page("choose.html#labels=9e99&parameters=a&dim=-3&licence=<b>&access=x&without=nothing&order=y-z&all=7")
    assert {*shown(page)} == {*everybody}
    assert "1,281,167 in all" in page.locator("#answer").inner_text()
    assert page.get_by_label("Licence of the weights").input_value() == ""
    assert WRONG not in shown(page)
    page.get_by_label("also measurements that an erratum").check()
    assert WRONG in shown(page)
    page = open_page("choose.html#parameters=0.001")
    assert shown(page) == [] and "No encoder is left" in page.locator("#answer").inner_text()
    assert page.locator("#front-dim .marks path").count() == 0
