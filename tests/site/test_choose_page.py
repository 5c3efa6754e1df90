"""The page of choices: what Python draws, and what it hands to the script."""

from __future__ import annotations

import json
from functools import partial

import html5lib
import pytest

from zoo.analysis.label_budget import PredictedError
from zoo.cards.catalogue import catalogue
from zoo.choosing import budget_ranking
from zoo.choosing.budget_ranking import Candidate, answered, candidates
from zoo.choosing.constraints import NOT_GONE, Constraints, filters
from zoo.results.values import SETTINGS
from zoo.site.choose_page import START, STEPS, files
from zoo.site.contents import gather
from zoo.site.rendering import Renderer

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
ONLY = (
    "dino_vitS16*", "dino_rn50", "msn_vitb4_ep300*", "simclr_rn50", "clip_rn50", "ibot_vitB16", "swav_rn50", WRONG,
    "init_rn50", "sup_rn50", "dinov2_vitS14",
)  # fmt: skip


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_ranking, "rank_odds", partial(budget_ranking.rank_odds, n_draws=50))


class _Page:
    """The page of a site of a few encoders, and the data of its script."""

    def __init__(self, *only: str) -> None:
        self.contents = gather(only=only)
        renderer = Renderer(self.contents)
        (page,) = files(self.contents, renderer)
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.tree = parser.parse(page.content.decode())
        self.text = " ".join("".join(self.tree.itertext()).split())
        data = renderer.assets.get("budget.js")
        self.budget = None if data is None else json.loads(data.content.decode().removeprefix("const BUDGET = ")[:-2])

    def rows(self, within: str) -> list[list[str]]:
        """Cells of the table within the element of that id."""
        found = self.tree.findall(f".//*[@id='{within}']//tbody/tr")
        return [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in found]


@pytest.fixture(scope="module")
def page() -> _Page:
    return _Page(*ONLY)


def test_the_tables_are_the_ranking_of_the_command(page: _Page) -> None:
    for n_labels, within in [(START, "ranking"), *((one.n_labels, f"labels-{one.n_labels}") for one in SETTINGS)]:
        expected = [
            one for one in answered(n_labels, [NOT_GONE]).ranked if one.candidate.card.id in page.contents.entries
        ]
        expected = [one for one in expected if one.candidate.card.id != WRONG]
        rows = page.rows(within)
        assert [row[1].split()[0] for row in rows] == [one.candidate.card.id for one in expected]
        assert [(row[3], row[5]) for row in rows] == [
            (one.interval_text, one.candidate.predicted.kind) for one in expected
        ]


def test_the_script_gets_errors_and_noises_of_all_candidates(page: _Page) -> None:
    assert page.budget is not None
    ids = [row[0] for row in page.budget["rows"]]
    assert WRONG in ids
    assert not {"init_rn50", "sup_rn50", "dinov2_vitS14"} & {*ids}
    assert [step["labels"] for step in page.budget["steps"]] == [*STEPS]
    assert {one.n_labels for one in SETTINGS} <= {*STEPS}
    for step in page.budget["steps"]:
        of = {one.card.id: one.predicted for one in candidates(step["labels"])[1]}
        assert step["error"] == pytest.approx([of[one].error for one in ids], abs=1e-5)
        assert [page.budget["kinds"][letter] for letter in step["kinds"]] == [of[one].kind for one in ids]
        assert all(sd > 0 for sd in step["alone"])
        assert (step["law"] is None) == (step["kind"] != "extrapolated")
        assert step["words"]


def test_words_of_licence_and_access_are_those_of_the_constraints(page: _Page) -> None:
    assert page.budget is not None
    fields, cards = page.budget["fields"], catalogue()
    words = {
        "permissive": Constraints(licence="permissive"), "commercial": Constraints(licence="commercial"),
        "conditions": Constraints(licence="conditions"), "open": Constraints(access="open"),
    }  # fmt: skip
    assert page.budget["reasons"].keys() == words.keys() | {"gone", "wrong"}
    for row in page.budget["rows"]:
        one = dict(zip(fields, row, strict=True))
        card = cards[one["id"]]
        candidate = Candidate(card, {}, PredictedError(1_000, 1.0, "measured", ()), ())
        assert {*one["may"]} == {word for word, asked in words.items() if filters(asked)[0].keeps(candidate)}
        assert one["wrong"] == (one["id"] == WRONG)
        assert tuple(one["sets"]) == card.pretraining.image_sets


def test_it_says_what_has_no_rank_and_what_comes_next(page: _Page) -> None:
    unmeasured = [name for name, one in page.contents.entries.items() if one.summary is None]
    assert "dinov2_vitS14" in unmeasured
    assert f"{len(unmeasured)} encoders were never measured" in page.text
    first = page.rows("ranking")[0][1].split()[0]
    assert f"zoo recommend --labels {START}" in page.text
    assert f"zoo choose IMAGES --encoders {first}," in page.text
    assert "Left out: 1 (measured wrongly, see --include-wrong)." in page.text
