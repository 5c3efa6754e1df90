"""The first page as Python renders it: order, columns, what is marked, and the data that its script reads."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import html5lib
import pytest

from zoo.choosing.expectations import Images
from zoo.choosing.ranking import rank_encoders
from zoo.results.facts import format_points
from zoo.results.values import SETTINGS, STUDY
from zoo.site import about_page, dataset_pages, first_page
from zoo.site.contents import Contents, gather
from zoo.site.drawing import STRIP, PlotPoint, spread_points
from zoo.site.first_page import FARTHEST, FIELDS, KINDS, SIZES, classify_network
from zoo.site.rendering import SiteRenderer

FAR = "openclip_vitB32_commonpools"
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@cache
def some() -> Contents:
    return gather(
        only=(
            "dino_*",
            "dinov2_*",
            "init_rn50",
            "pocket_*",
            "mae_vit*",
            "sup_rn50",
            "sup_efficientnet_lite0",
            FAR,
            WRONG,
        )
    )


def table(contents: Contents) -> tuple[str, list[dict[str, str]]]:
    """The page with all encoders in its table, and this as texts by the names of columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_page, "LISTED", len(contents.entries))
        [page] = first_page.build_files(contents, SiteRenderer(contents))
    document = html5lib.parse(page.content, namespaceHTMLElements=False)
    [found] = [one for one in document.iter("table") if one.get("class") == "encoders"]
    names = [head.get("data-name") for head in found.find("thead/tr")]
    rows = [["".join(cell.itertext()) for cell in row] for row in found.findall("tbody/tr")]
    return page.content.decode(), [dict(zip(names, row, strict=True)) for row in rows]


def data_of(contents: Contents) -> dict[str, dict[str, Any]]:
    """What the script reads, by id."""
    renderer = SiteRenderer(contents)
    [_] = first_page.build_files(contents, renderer)
    text = renderer.assets["encoders.js"].content.decode()
    data = json.loads(text.removeprefix("const ENCODERS = ").removesuffix(";\n"))
    assert [*data] == [*FIELDS]
    return {row[0]: dict(zip(FIELDS, row, strict=True)) for row in zip(*data.values(), strict=True)}


def test_encoders_come_by_expected_error_then_those_who_saw_its_labels_then_the_rest() -> None:
    _, rows = table(some())
    data = data_of(some())
    assert [row["encoder"] for row in rows] == list(data)
    drawn = [one for one in data.values() if one["drawn"]]
    flattered = [one for one in data.values() if one["expected"] is not None and not one["drawn"]]
    rest = [one for one in data.values() if one["expected"] is None]
    assert [*data.values()] == [*drawn, *flattered, *rest]
    for part in (drawn, flattered):
        assert [one["expected"] for one in part] == sorted(one["expected"] for one in part)
    assert "sup_efficientnet_lite0" in {one["id"] for one in flattered}
    assert {"pocket_simclr_rn_shapes", "dino_vitS16"} & {one["id"] for one in rest} == {"pocket_simclr_rn_shapes"}


def test_errors_are_those_of_the_ranking_and_measured_ones_exact() -> None:
    _, rows = table(some())
    by_name, data = {row["encoder"]: row for row in rows}, data_of(some())
    found = rank_encoders(1_281_167, 1_000, Images("imagenet-1k", "natural"))
    ranked = {one.card.id: one.number for one in found.ranked if one.card.id in data}
    assert {"dino_vitS16", "dinov2_vitS14"} <= ranked.keys()
    assert {one["id"] for one in data.values() if one["ranked"]} == ranked.keys()
    for name, one in ranked.items():
        row = by_name[name]
        low, high = one.interval
        assert (
            row["error"] == format_points(one.error)
            and row["interval"] == f"{format_points(low)}-{format_points(high)}"
        )
        assert row["basis"] == one.basis
    measured = some().entries["sup_rn50"].error("100%")  # of which ranking() would expect another
    assert data["sup_rn50"]["expected"] == measured and not data["sup_rn50"]["ranked"] and data["sup_rn50"]["drawn"]
    assert by_name["sup_rn50"]["basis"] == "the study, saw its labels"


def test_marks_are_filled_by_what_a_number_rests_on_and_the_front_is_named() -> None:
    text, _ = table(some())
    document = html5lib.parse(text, namespaceHTMLElements=False)
    [drawing] = [one for one in document.findall(".//{*}svg") if one.get("role") == "img"]
    marks = {one[0].text.partition(":")[0]: one.get("class") for one in drawing.findall(".//{*}path") if len(one)}
    data = data_of(some())
    drawn = {name for name, one in data.items() if one["drawn"]}
    far = {name for name in drawn if data[name]["kind"] == "none" or data[name]["expected"] > FARTHEST}
    assert marks.keys() == drawn - far and far == {"init_rn50", FAR}
    assert "1 left out of the ranking (weights of another network)" in text
    assert "1 untrained" in text and "1 with an expected error above 60 %" in text  # what is not drawn is said
    kinds = {"the study": "f", "reported probe": "half", "other numbers": "hollow", "similar encoders": "hollow"}
    bases = {name: data[name]["basis"] for name in marks}
    assert {*bases.values()} >= {"the study", "reported probe"}
    assert all(marks[name].startswith(kinds[basis]) for name, basis in bases.items())
    best: list[str] = []
    for one in sorted((one for one in data.values() if one["ranked"]), key=lambda one: one["n_parameters"]):
        if not best or one["expected"] < data[best[-1]]["expected"]:
            best = [name for name in best if data[name]["n_parameters"] < one["n_parameters"]] + [one["id"]]
    assert [link.text for link in document.findall(".//*[@id='front']//a")] == best
    named = [one.text for one in drawing.findall(".//{*}text") if one.get("class") == "top"]
    assert named and {*named} <= {*best} and best[-1] in named
    assert {name for name, kind in marks.items() if "first" in kind} == {*best}
    groups = [*KINDS]
    assert all(
        kind.split()[0 if kind[0] == "f" else 1][1:] == str(groups.index(data[name]["kind"]) + 1)
        for name, kind in marks.items()
    )


def test_every_page_says_the_same_number_of_encoders_that_the_study_measured() -> None:
    contents = some()
    n = contents.n_measured
    assert n < sum(one.summary is not None for one in contents.entries.values())  # one was measured wrongly
    text, _ = table(contents)
    [about] = about_page.build_files(contents, SiteRenderer(contents))
    sets = next(iter(dataset_pages.build_files(contents, SiteRenderer(contents)))).content.decode()
    row = sets.partition(">ImageNet-1K</a>")[2].partition("<tr")[0]
    assert f"<b>{n}</b> {STUDY}" in text and f"{n} have an error on ImageNet-1K" in about.content.decode()
    assert f'data-label="by the study or this project">{n}<td' in row


def answers(text: str) -> list[dict[str, str]]:
    """The rows of the answer as texts by their classes, with the size they are for as "up to"."""
    document = html5lib.parse(text, namespaceHTMLElements=False)
    rows = document.findall(".//table[@class='best-of']/tbody/tr")
    return [
        {"up to": row[0].text} | {cell.get("class", ""): "".join(cell.itertext()) for cell in row[1:]} for row in rows
    ]


def test_the_answer_is_the_best_ranked_encoder_up_to_each_size_with_its_interval_and_its_rivals() -> None:
    text, _ = table(some())
    data = data_of(some())
    ranked = [one for one in data.values() if one["ranked"]]  # by rising error
    found = iter(answers(text))
    assert max(one["n_parameters"] for one in ranked) > 400e6
    for size in SIZES:
        fitting = [one for one in ranked if one["n_parameters"] <= size]
        if not fitting:
            continue  # no row
        row, best = next(found), fitting[0]
        assert row["name"] == best["id"] and row["n error"] == f"{format_points(best['expected'])}\N{NO-BREAK SPACE}%"
        assert row["n"] == f"{format_points(best['low'])}-{format_points(best['high'])}"
        assert row["kind"] == KINDS[best["kind"]] and row["n year"] == best["released"]
        dot = (
            "open"
            if best["basis"] in ("other numbers", "similar encoders")
            else "half"
            if best["basis"] == "reported probe"
            else "full"
        )
        assert f'<circle class="{dot}"' in text  # a front that rests on expectation alone looks so
        assert row["n reach"] == str(sum(one["low"] <= best["expected"] for one in fitting[1:]))
    assert next(found, None) is None
    assert "Not ranked: encoders that saw ImageNet's labels" in text


def test_a_site_without_ranked_encoders_has_no_answer_but_a_plot_and_a_table() -> None:
    for only in (("init_*",), ("pocket_simclr_rn*",), ("sup_rn50",)):
        text, rows = table(gather(only=only))
        assert answers(text) == [] and rows and "<h1>SSL Zoo</h1>" in text, only
        assert text.count("<title>SSL Zoo</title>") == 1 and 'class="marks"' in text, only


def test_the_headline_says_from_which_size_on_one_kind_leads_if_one_does() -> None:
    def headline(*kinds: str) -> str:
        found = [
            PlotPoint(id=kind, href="", x=(5.46 + place) * 1e6, y=30.04 - place, group=[*KINDS].index(kind) + 1)
            for place, kind in enumerate(kinds)
        ]
        return first_page._headline(found, len({*kinds, "self"})).replace("\N{NO-BREAK SPACE}", " ")

    falls = "the lowest expected error falls from 29 % there to 27 % at 8.5 million"
    assert headline("self", "text", "text", "text") == (
        f"Encoders trained with text lead from 6.5 million parameters on: {falls}"
    )
    assert headline("text", "text", "text").startswith("Encoders trained with text lead at every size: ")
    for mixed in (("self", "text", "self", "text"), ("self", "self", "self")):  # nobody leads, or nobody else is there
        assert headline(*mixed).startswith("The lowest expected error falls from 30 % at 5.5 million parameters to 2")
    assert headline("text") == "The lowest expected error is 30 %, with 5.5 million parameters" and headline() == ""


def test_what_a_network_learnt_from() -> None:
    def kind(name: str) -> str:
        return classify_network(gather(only=(name,)).entries[name].card)

    assert {kind(name) for name in ("dino_vitS16", "dinov2_vitS14", "mae_vitB16", "aim_1B14_dfn2b")} == {"self"}
    assert {kind(name) for name in ("clip_vitB16", "pe_core_vitB16_224", "aimv2_vit3B14_448")} == {"text"}
    assert {kind(name) for name in ("sup_rn50", "eupe_vitT16")} == {"labels"} and kind("init_rn50") == "none"


def test_points_of_about_the_same_size_lie_side_by_side_and_alone_ones_where_they_are() -> None:
    same = [PlotPoint(id=f"{n}", href="", x=23_508_032 + n, y=20 + n / 10) for n in range(40)]
    alone = PlotPoint(id="alone", href="", x=90e6, y=20)
    found = spread_points([*same, alone])
    assert [one.id for one in found] == [one.id for one in [*same, alone]] and found[-1] == alone
    moved = [math.log((one.at or 0.0) / one.x) for one in found[:-1]]
    half = 0.02 * math.log(90e6 / 23_508_032)  # of a short axis; of a long one math.log(STRIP)
    assert len({*moved}) == 40 and all(abs(one) <= half * (1 + 1e-9) for one in moved)
    assert max(moved) - min(moved) > 1.8 * half and all(abs(a - b) > 0.2 * half for a, b in pairwise(moved))
    assert {one.id: one.at for one in spread_points([alone, *same[::-1]])} == {one.id: one.at for one in found}
    far = spread_points([*same, replace(alone, x=90e9)])
    assert 0.9 * math.log(STRIP) < max(math.log((one.at or 0.0) / one.x) for one in far[:-1]) <= math.log(STRIP)


def test_every_cell_has_its_value_or_the_reason_why_there_is_none() -> None:
    _, rows = table(some())
    by_name = {row["encoder"]: row for row in rows}
    assert all(all(row.values()) for row in rows)
    dino = by_name["dino_vitS16"]
    assert (dino["error"], dino["parameters"], dino["dim"], dino["reported"]) == (
        "24.6",
        "21.7M",
        "1536",
        "77.0* linear",
    )
    assert dino["licence"] == "Apache-2.0: any use" and dino["training"] == "dino, clustering"
    assert by_name["pocket_simclr_rn_shapes"]["error"] == "not expected"
    assert by_name[WRONG]["basis"].endswith(", weights of another network")
    assert by_name["init_rn50"]["released"] == by_name["init_rn50"]["licence"] == "not applicable"


def test_data_of_scripts_has_exact_errors_and_leaves_out_what_is_wrong() -> None:
    rows = data_of(some())
    right = some().entries["dino_vitS16"].right
    assert right is not None and {s.name: rows["dino_vitS16"][s.name] for s in SETTINGS} == right.errors
    assert rows[WRONG]["wrong"] and rows[WRONG]["100%"] is None and rows[WRONG]["usability"] is None
    assert rows["dino_vitS16"]["reported"]["linear"] == "77.0*" and rows["init_rn50"]["licence"] is None


def test_encoders_measured_on_other_data_alone_are_listed_by_their_errors_there() -> None:
    contents = gather(only=("pocket_simclr_rn*",))
    text, rows = table(contents)
    errors = {entry.id: entry.elsewhere["shapes"].errors["100%"] for entry in contents.entries.values()}
    assert [row["encoder"] for row in rows] == sorted(errors, key=errors.__getitem__)
    assert [row["error"] for row in rows] == [f"{errors[row['encoder']]:.1f}" for row in rows]
    assert (
        "Error of a linear probe on shapes with all labels" in text and "shapes: measured error with all labels" in text
    )
    assert '<option value="on digits">error on digits, all labels (' in text
    row = next(iter(data_of(contents).values()))
    assert row["100%"] == errors[row["id"]] and row["elsewhere"]["shapes"] == row["100%"]
