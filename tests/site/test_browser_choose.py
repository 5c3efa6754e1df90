"""The page of choices in Chromium: slider, images, device, filters, order and front, and ranks that are ranking()'s."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.site.conftest import OpenPage
from zoo.cards.catalogue import load_catalogue
from zoo.cards.throughput import estimate_throughput, find_device
from zoo.choosing.constraints import Constraints
from zoo.choosing.expectations import Images
from zoo.choosing.ranking import TIE, rank_encoders
from zoo.results.values import IMAGENET
from zoo.site.choose_page import START

if TYPE_CHECKING:
    from playwright.sync_api import Page

OWN_ERRATUM = "swav_rn50"  # whose measurements the user of the site excludes
ENCODERS = "[...document.querySelectorAll('#ranking tbody th a')].map(one => one.textContent)"
CELLS = "[...document.querySelectorAll('#ranking tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
KINDS = {
    IMAGENET: Images(IMAGENET, "natural"), "pathology": Images.named(domain="pathology"),
    "eurosat": Images.named(like="eurosat"),
}  # fmt: skip


def settled(page: Page) -> None:
    """Waits for the next frame, in which the page answers a change."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(page: Page) -> list[str]:
    """Ids in the table."""
    settled(page)
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
    settled(page)


def test_errors_intervals_and_ties_are_those_of_python(open_page: OpenPage) -> None:
    page = open_page("choose.html")
    cards = load_catalogue()
    for kind, images in KINDS.items():
        page.locator("#choices [name=images]").select_option(kind)
        for labels in (1_000, 12_811, 70_000, 1_281_167):
            slide(page, labels)
            rows: list[list[str]] = [row for row in page.evaluate(CELLS) if row[1] in cards and row[1] != OWN_ERRATUM]
            found = {one.card.id: one.number for one in rank_encoders(labels, 1_000, images).ranked}
            names = {row[1] for row in rows}
            assert len(names) > 15 and ("hibou_vitL14" in names) == (kind == "pathology")
            expected = {name: one for name, one in found.items() if name in names}
            assert [row[1] for row in rows] == [*expected]
            tied = [row[1] for row in rows if row[0].endswith("=")]
            tied.sort(key=lambda name: found[name].basis in ("other numbers", "similar encoders"))
            racers = [*{cards[name].family: name for name in reversed(tied)}.values()][::-1]
            named = [one for one in page.locator("#answer a").all_inner_texts() if one in names]  # not the user's
            assert named == sorted(racers, key=tied.index)[: len(named)] and bool(named) <= (len(tied) > 3)
            first = found[rows[0][1]]
            assert rows[0][0] == "1="
            for row, one in zip(rows, expected.values(), strict=True):
                assert float(row[2]) == pytest.approx(one.error, abs=0.06) and row[4] == one.rests_on
                if images.dataset != IMAGENET or one.basis != "the study":  # the user's measurements widen those
                    assert [float(end) for end in row[3].split("-")] == pytest.approx(one.interval, abs=0.06)
                better = 0.5 * math.erfc((one.odds - first.odds) / (one.sd_from(first) * math.sqrt(2)))
                if one is not first and abs(better - TIE) > 0.01:
                    assert row[0].endswith("=") == (better > TIE and one.basis != "similar encoders")


def test_the_table_of_the_script_is_that_of_python(open_page: OpenPage) -> None:
    texts = []
    for javascript in (False, True):
        rows = open_page("choose.html", javascript=javascript).locator("#ranking tbody tr").all()
        texts.append([[" ".join(cell.split()) for cell in row.locator("td, th").all_inner_texts()] for row in rows])
    assert texts[0] == texts[1]
    assert len(texts[0]) > 20


def test_a_device_shows_speeds_that_sort_and_limit(open_page: OpenPage) -> None:
    page = open_page("choose.html")
    everybody, cards, device = shown(page), load_catalogue(), find_device("RTX 4090")
    assert page.get_by_label("Images per second there").is_disabled()
    page.get_by_label("Device").select_option("RTX 4090")
    page.get_by_label("Images per second there").fill("3000")
    page.locator("[data-name=speed] button").click()
    kept = [one for one in shown(page) if one in cards]
    speeds = [speed.value for one in kept if (speed := estimate_throughput(cards[one], device))]
    assert len(speeds) == len(kept) and speeds == sorted(speeds, reverse=True) and speeds[-1] >= 3000
    limits = Constraints(device="RTX 4090", min_images_per_second=3000)
    found = {one.card.id for one in rank_encoders(START, 1_000, KINDS[IMAGENET], limits).ranked}
    assert {*kept} == found & {*everybody} and len(kept) < len(everybody)
    assert page.locator("#recommend").inner_text().endswith('--min-images-per-second 3000 --device "RTX 4090"')
    assert "--min-images" not in page.locator("#next").inner_text()
    page.get_by_label("Figure against").select_option("speed")
    settled(page)
    front = page.locator("#list a").all_text_contents()
    assert front and front[0] == next(one for one in shown(page) if one in front)  # the fastest first
    page.get_by_label("Device").select_option("")
    assert {*everybody} <= {*shown(page)}
    assert page.get_by_label("Figure against").input_value() == "parameters"


def test_choices_filter_are_in_the_address_and_on_the_command_line(open_page: OpenPage) -> None:
    page = open_page("choose.html")
    everybody = shown(page)
    cards = load_catalogue()
    slide(page, 5_000)
    page.get_by_label("Feature dimensions, at most").fill("1024")
    page.get_by_label("Licence of the weights").select_option("permissive")
    page.get_by_text("Not trained on images of …").click()
    page.get_by_label("CLIP", exact=False).first.check()
    page.locator("[data-name=parameters] button").click()
    kept = shown(page)
    assert 0 < len(kept) < len(everybody)
    assert all(cards[one].representation.dim <= 1024 for one in kept if one in cards)
    sizes = [cards[one].architecture.n_parameters for one in kept if one in cards]
    assert sizes == sorted(sizes)
    assert not {"clip_rn50", "clip_vitB16"} & {*kept}
    asked = "--licence permissive --max-dim 1024 --where '\"CLIP\" not in image_sets'"
    assert page.locator("#recommend").inner_text() == f"zoo recommend --labels 5000 {asked}"
    assert page.locator("#next").inner_text().endswith(asked)
    page.locator("#choices [name=images]").select_option("eurosat")
    settled(page)
    assert page.locator("#recommend").inner_text() == f"zoo recommend --labels 50 --like eurosat {asked}"

    kept, address = shown(page), page.url
    assert "labels=5000" in address and "order=parameters-asc" in address and "images=eurosat" in address
    again = open_page("choose.html" + address.partition("choose.html")[2])
    assert shown(again) == kept
    assert again.url == address
    again.get_by_role("button", name="Reset choices").click()
    assert shown(again) == everybody
    assert "#" not in again.url


def test_an_address_may_hold_anything(open_page: OpenPage) -> None:
    everybody = shown(open_page("choose.html"))
    page = open_page(
        "choose.html#labels=9e99&parameters=a&dim=-3&licence=<b>&access=x&without=nothing&order=y-z&all=7&images=moon"
        "&device=abacus&speed=9&against=speed"
    )
    assert {*shown(page)} >= {*everybody}  # some have numbers with all labels alone
    assert "on ImageNet-1K with 1,281 labels per class" in page.locator("#answer").inner_text()
    assert page.get_by_label("Licence of the weights").input_value() == ""
    assert "npidpp_rn50w2" not in shown(page)
    page.get_by_label("also encoders whose weights are gone").check()
    assert "npidpp_rn50w2" in shown(page)
    page = open_page("choose.html#parameters=0.001")
    assert shown(page) == [] and "No encoder is left" in page.locator("#answer").inner_text()
    assert page.locator("#front .marks path").count() == 0


def test_on_a_phone_every_row_of_the_ranking_has_its_error_in_view(open_page: OpenPage) -> None:
    page = open_page("choose.html", width=390)
    errors = "[...document.querySelectorAll('#ranking td:nth-child(3)')]"
    ends = page.evaluate(f"{errors}.map(one => one.getBoundingClientRect().right)")
    assert len(ends) > 5 and max(ends) <= 390
    assert "LicenseRef" not in page.inner_text("#ranking")
