"""The page of choices: what Python draws, and what it hands to the script."""

from __future__ import annotations

import json

import html5lib
import pytest

from zoo.cards.catalogue import load_catalogue
from zoo.cards.throughput import estimate_throughput, find_device, list_devices
from zoo.choosing.constraints import Constraints, build_filters
from zoo.choosing.expectations import Images, read_difficulties
from zoo.choosing.ranking import RankedEncoder, rank_encoders
from zoo.results.facts import format_points
from zoo.results.values import SETTINGS
from zoo.site.choose_page import START, STEPS, build_files, find_front_groups
from zoo.site.contents import gather
from zoo.site.rendering import SiteRenderer

ONLY = (
    "dino_vitS16*", "dino_rn50", "msn_vitb4_ep300*", "simclr_rn50", "clip_rn50", "ibot_vitB16", "swav_rn50",
    "init_rn50", "sup_rn50", "dinov2_vitS14", "uni_vitL16", "pocket_simclr_rn_shapes", "npidpp_rn50w2",
)  # fmt: skip
NOBODY = {"init_rn50", "sup_rn50", "pocket_simclr_rn_shapes"}  # without a rank on this page
ON_IMAGENET = Images("imagenet-1k", "natural")


class _Page:
    """The page of a site of a few encoders, and the data of its script."""

    def __init__(self, *only: str) -> None:
        self.contents = gather(only=only)
        renderer = SiteRenderer(self.contents)
        (page,) = build_files(self.contents, renderer)
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.tree = parser.parse(page.content.decode())
        self.text = " ".join("".join(self.tree.itertext()).split())
        data = renderer.assets.get("budget.js")
        self.budget = None if data is None else json.loads(data.content.decode().removeprefix("const BUDGET = ")[:-2])

    def rows(self) -> list[list[str]]:
        """Cells of the table."""
        found = self.tree.findall(".//*[@id='ranking']//tbody/tr")
        return [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in found]


@pytest.fixture(scope="module")
def page() -> _Page:
    return _Page(*ONLY)


def test_the_table_is_the_ranking_of_the_command(page: _Page) -> None:
    expected = [one for one in rank_encoders(START, 1_000, ON_IMAGENET).ranked if one.card.id in page.contents.entries]
    assert "dinov2_vitS14" in {one.card.id for one in expected}
    rows = page.rows()
    assert [row[1] for row in rows] == [one.card.id for one in expected]
    assert [row[0].rstrip("=") for row in rows] == [str(place) for place in range(1, len(rows) + 1)]
    for row, one in zip(rows, expected, strict=True):
        low, high = one.number.interval
        assert row[2:5] == [
            format_points(one.number.error),
            f"{format_points(low)}-{format_points(high)}",
            one.number.rests_on,
        ]
    assert "Without a rank, gated: uni_vitL16" in page.text
    assert f"zoo recommend --labels {START}" in page.text
    assert f"zoo choose IMAGES --encoders {rows[0][1]}," in page.text
    assert "Left out: 1 (weights gone)" in page.text


def test_the_script_gets_all_candidates_kinds_of_images_and_stops(page: _Page) -> None:
    assert page.budget is not None
    ids = [row[0] for row in page.budget["rows"]]
    assert {*ids} == page.contents.entries.keys() - NOBODY
    assert [step["labels"] for step in page.budget["steps"]] == [*STEPS]
    assert {one.n_labels for one in SETTINGS} <= {*STEPS}
    kinds = [one["id"] for one in page.budget["kinds"]]
    assert kinds[0] == "imagenet-1k" and {*kinds} == read_difficulties().keys() - {"overall"}
    for one in page.budget["kinds"]:
        assert len(one["level"]) == len(STEPS) and len(one["mean"]) == len(one["sd"]) == len(ids)
    own = dict(zip(ids, (row[-1] for row in page.budget["rows"]), strict=True))
    assert own["dino_vitS16"] is not None and own["dinov2_vitS14"] is None


def test_words_of_limits_and_speeds_are_those_of_the_cards(page: _Page) -> None:
    assert page.budget is not None
    fields, cards = page.budget["fields"], load_catalogue()
    words = {
        "permissive": Constraints(licence="permissive"), "commercial": Constraints(licence="commercial"),
        "conditions": Constraints(licence="conditions"), "open": Constraints(access="open"),
    }  # fmt: skip
    assert page.budget["reasons"].keys() == words.keys() | {"gone", "untold"}
    someone = rank_encoders(START, 1_000, ON_IMAGENET).ranked[0].number
    for place, row in enumerate(page.budget["rows"]):
        one = dict(zip(fields, row, strict=True))
        card = cards[one["id"]]
        allowed = {word for word, asked in words.items() if build_filters(asked)[0].keeps(RankedEncoder(card, someone))}
        assert {*one["may"]} == allowed
        assert (one["id"] == "uni_vitL16") == (one["gated"] == 1) == (one["domains"] is not None)
        assert (one["id"] == "npidpp_rn50w2") == (one["gone"] == 1)
        for device in page.budget["devices"]:
            speed = estimate_throughput(card, find_device(device["name"]))
            assert speed is not None and device["speed"][place][0] == pytest.approx(speed.value, rel=1e-3)
            assert len(device["speed"][place]) == (1 if speed.is_measured else 3)
    assert [one["name"] for one in page.budget["devices"]] == [one.name for one in list_devices()]


def test_groups_of_the_figure_are_those_of_a_front() -> None:
    ranked = rank_encoders(START, 1_000, ON_IMAGENET).ranked[:60]
    groups = find_front_groups(ranked, lambda card: card.representation.dim)
    front = [one for one, group in zip(ranked, groups, strict=True) if group == 1]
    dims = [one.card.representation.dim for one in front]
    assert groups[0] == 1 and dims == sorted(set(dims), reverse=True)
    assert dims[-1] == min(one.card.representation.dim for one in ranked)


def test_a_site_without_candidates_says_so() -> None:
    page = _Page("init_rn50", "pocket_simclr_rn_shapes")
    assert page.budget is None and "No encoder of this site can be ranked" in page.text


def test_a_site_of_special_images_alone_ranks_nobody_until_they_are_asked_for() -> None:
    page = _Page("keep_vitL16", "uni_vitL16")
    assert "0 encoders by the error to expect on ImageNet-1K" in page.text
    assert "Without a rank, for pathology H&E images: keep_vitL16" in page.text
    assert page.budget is not None and len(page.budget["rows"]) == 2
