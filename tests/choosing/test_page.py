"""The page of a choice and its words: every standing is in it, all text is escaped, nothing comes from elsewhere."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from zoo.choosing import wording
from zoo.choosing.choosing import Choice, choose
from zoo.datasets import open_images
from zoo.errors import QueryError, StoreError
from zoo.evaluation.bootstrap import Interval

ENCODERS = ["pocket_simclr_rn_shapes", "pocket_sup_rn_shapes_d24", "pocket_simclr_rn_shapes_d24"]


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Choice:
    data = open_images("shapes:classes=3,train=48,val=30,size_px=32,seed=1")
    root = tmp_path_factory.mktemp("kept")
    return choose(data, encoders=ENCODERS, device="cpu", root=root, spelled="shapes", decompose=True)


class Reader(HTMLParser):
    """The text of a page, its tags, and whether they are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.labels: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        self.labels += [value for name, value in attrs if name == "aria-label" and value]
        if tag not in ("meta", "br", "img", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def test_the_page_is_whole_and_has_every_standing_with_its_numbers(choice: Choice) -> None:
    source = wording.render_choice_page(choice)
    page = Reader(source)
    text = page.text
    assert not page.tags & {"script", "link", "iframe", "img", "object"}
    assert not set(re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", source)) and "@import" not in source
    assert "prefers-color-scheme: dark" in source
    assert len(page.labels) >= 10 and all(page.labels)  # every figure in two widths, with words
    assert all(name in page.labels[0] for name in ENCODERS)
    assert "probe generalization" in page.labels[-1]
    for row in wording.build_ranked_table(choice).rows:
        assert all(cell in text for cell in row)
    for line in wording.answer(choice):
        assert line in text
    assert choice.commands["load"] in text
    assert choice.data.fingerprints[0] in text
    assert "Seed 0" in text


def test_text_is_escaped(choice: Choice) -> None:
    bad = "<script>alert('x')</script> & \"co\""
    data = dataclasses.replace(choice.data, name=bad, spelled=bad)
    text = wording.render_choice_page(dataclasses.replace(choice, data=data, notes=(bad,)))
    assert "<script" not in text
    assert bad in Reader(text).text


def test_in_a_notebook_it_is_a_table_a_frame_and_plots(choice: Choice) -> None:
    frame, table = choice.df, choice._repr_html_()
    assert [*frame["encoder"]] == [one.name for one in choice.race.standings]
    assert {"error_percent", "images_per_second", "memory_bytes", "n_parameters"} <= {*frame}
    assert all(name in table for name in ENCODERS) and "images per second" not in table
    bad = "<script>alert('x')</script>"
    assert "<script" not in dataclasses.replace(choice, data=dataclasses.replace(choice.data, name=bad))._repr_html_()
    for cost in (None, "n_parameters", "images_per_second"):
        drawing = Figure(layout="constrained")
        axes = drawing.subplots()
        assert choice.plot(ax=axes, cost=cost) is axes
        assert "error, percent (lower is better)" in (axes.get_xlabel(), axes.get_ylabel())
        drawing.canvas.draw()
    with pytest.raises(QueryError, match="'price', expected images_per_second or n_parameters"):
        choice.plot(cost="price")


def test_the_page_is_written_whole_and_refused_before_any_work(choice: Choice, tmp_path: Path) -> None:
    path = wording.write_page(choice, tmp_path / "choice.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [one.name for one in tmp_path.iterdir()] == ["choice.html"]
    with pytest.raises(QueryError, match=r"ends in \.html"):
        wording.write_page(choice, tmp_path / "choice.txt")
    with pytest.raises(StoreError, match="a folder that is there"):
        wording.write_page(choice, tmp_path / "nowhere" / "choice.html")


def test_the_answer_names_ties_and_what_was_not_told(choice: Choice) -> None:
    behind = Interval(value=0.4, ci_low=-1.0, ci_high=1.8)
    first, second, third = (
        dataclasses.replace(one, name=name, verdict=verdict, status=status, behind=behind)
        for one, name, verdict, status in zip(
            choice.race.standings,
            ENCODERS,
            ("leader", "tie", "not told apart"),
            ("probed", "probed", "dropped"),
            strict=True,
        )
    )
    race = dataclasses.replace(choice.race, standings=(first, second, third))
    costs = tuple(
        dataclasses.replace(choice.costs[0], name=one, images_per_second=speed)
        for one, speed in zip(ENCODERS, (10.0, 30.0, 90.0), strict=True)
    )
    planted = dataclasses.replace(choice, race=race, costs=costs)
    said = " ".join(wording.answer(planted))
    assert f"tied with it: {ENCODERS[1]} (up to 1.8 points worse)" in said
    assert f"The fastest within 0.5 points of it is {ENCODERS[1]}" in said
    assert f"not shown to be worse: {ENCODERS[2]}" in said
    far = dataclasses.replace(second, behind=Interval(value=9.0, ci_low=-2.0, ci_high=20.0))
    apart = dataclasses.replace(planted, race=dataclasses.replace(race, standings=(first, far, third)))
    assert "up to 20.0 points worse" in " ".join(wording.answer(apart))
    assert "fastest" not in " ".join(wording.answer(apart))
    rows = wording.build_ranked_table(planted).rows
    assert [row[0] for row in rows] == ["1-2", "1-2", "3"]
    assert [row[6] for row in rows] == ["best", "tie", "dropped"]


def test_what_more_labels_buy_is_said_or_why_it_cannot_be(choice: Choice) -> None:
    curve = choice.curves[0]
    refused = dataclasses.replace(curve, expected=(), refusal="the error does not fall")
    assert wording.describe_more_labels(refused).endswith("the error does not fall.")
    then, gain = Interval(value=3.04, ci_low=2.0, ci_high=4.0), Interval(value=0.92, ci_low=0.5, ci_high=1.5)
    now = dataclasses.replace(curve.points[-1], error=Interval(value=3.96, ci_low=3.0, ci_high=5.0))
    point = dataclasses.replace(now, n_labels=9_600, error=then, gain=gain)
    said = wording.describe_more_labels(dataclasses.replace(curve, points=(now,), expected=(point,)))
    assert "3.0 % (2.0 to 4.0) with 9,600 labels, 1.0 points (0.5 to 1.5) less than now" in said  # 4.0 less 3.0
    said = wording.describe_more_labels(dataclasses.replace(curve, points=(now,), expected=(point,)), 0.5)
    assert "3.5 % (2.5 to 4.5) with 9,600 labels, 1.0 points (0.5 to 1.5) less than now" in said  # 4.5 less 3.5


def test_durations_are_said_in_the_unit_that_people_use() -> None:
    said = [wording.format_duration(seconds) for seconds in np.geomspace(0.1, 1e6, 200)]
    order = list(dict.fromkeys(text.split()[1].rstrip("s") for text in said))
    assert order == ["second", "minute", "hour"]
    assert wording.format_duration(7_200) == "2.0 hours"
