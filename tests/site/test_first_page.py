"""The first page as Python renders it: order, columns, what is marked, and the data that its script reads."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import html5lib

from zoo.choosing.expectations import Images
from zoo.choosing.ranking import ranking
from zoo.results.facts import points
from zoo.results.values import SETTINGS
from zoo.site import first_page
from zoo.site.contents import Contents, gather
from zoo.site.first_page import FIELDS
from zoo.site.rendering import Renderer

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@cache
def some() -> Contents:
    return gather(
        only=("dino_*", "dinov2_*", "init_rn50", "pocket_*", "mae_vit*", "sup_rn50", "sup_efficientnet_lite0", WRONG)
    )


def table(contents: Contents) -> tuple[str, list[dict[str, str]]]:
    """The page, and its table as texts by the names of columns."""
    [page] = first_page.files(contents, Renderer(contents))
    document = html5lib.parse(page.content, namespaceHTMLElements=False)
    [found] = document.iter("table")
    names = [head.get("data-name") for head in found.find("thead/tr")]
    rows = [["".join(cell.itertext()) for cell in row] for row in found.findall("tbody/tr")]
    return page.content.decode(), [dict(zip(names, row, strict=True)) for row in rows]


def data_of(contents: Contents) -> dict[str, dict[str, Any]]:
    """What the script reads, by id."""
    renderer = Renderer(contents)
    [_] = first_page.files(contents, renderer)
    text = renderer.assets["encoders.js"].content.decode()
    data = json.loads(text.removeprefix("const ENCODERS = ").removesuffix(";\n"))
    assert data["fields"] == list(FIELDS)
    return {row[0]: dict(zip(FIELDS, row, strict=True)) for row in data["rows"]}


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
    found = ranking(1_281_167, 1_000, Images("imagenet-1k", "natural"))
    ranked = {one.card.id: one.expected for one in found.ranked if one.card.id in data}
    assert {"dino_vitS16", "dinov2_vitS14"} <= ranked.keys()
    assert {one["id"] for one in data.values() if one["ranked"]} == ranked.keys()
    for name, one in ranked.items():
        row = by_name[name]
        low, high = one.interval
        assert row["error"] == points(one.error) and row["interval"] == f"{points(low)}-{points(high)}"
        assert row["basis"] == one.basis
    measured = some().entries["sup_rn50"].error("100%")  # of which ranking() would expect another
    assert data["sup_rn50"]["expected"] == measured and not data["sup_rn50"]["ranked"] and data["sup_rn50"]["drawn"]
    assert by_name["sup_rn50"]["basis"] == "measured here, saw its labels"


def test_marks_are_filled_by_what_a_number_rests_on_and_the_front_is_named() -> None:
    text, _ = table(some())
    document = html5lib.parse(text, namespaceHTMLElements=False)
    [drawing] = [one for one in document.findall(".//{*}svg") if one.get("role") == "img"]
    marks = {one[0].text.partition(":")[0]: one.get("class") for one in drawing.findall(".//{*}path") if len(one)}
    data = data_of(some())
    assert marks.keys() == {name for name, one in data.items() if one["drawn"]}
    kinds = {"measured here": "f", "measured by others": "half", "reported": "hollow", "kin": "hollow"}
    bases = {name: data[name]["basis"] for name in marks}
    assert {*bases.values()} >= {"measured here", "measured by others"}
    assert all(marks[name].startswith(kinds[basis]) for name, basis in bases.items())
    best: list[str] = []
    for one in sorted((one for one in data.values() if one["ranked"]), key=lambda one: one["n_parameters"]):
        if not best or one["expected"] < data[best[-1]]["expected"]:
            best = [name for name in best if data[name]["n_parameters"] < one["n_parameters"]] + [one["id"]]
    assert [link.text for link in document.findall(".//*[@id='front']//a")] == best
    named = [one.text for one in drawing.findall(".//{*}text") if one.get("class") == "top"]
    assert named and {*named} <= {*best} and best[-1] in named
    assert {name for name, kind in marks.items() if "first" in kind} == {*best}


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
