"""The first page as Python renders it: order, columns, what is marked, and the data that its script reads."""

from __future__ import annotations

import json
from functools import cache

import html5lib

from zoo.results.values import SETTINGS
from zoo.site import first_page
from zoo.site.contents import Contents, gather
from zoo.site.first_page import FIELDS, encoder_data, in_order
from zoo.site.rendering import Renderer

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


@cache
def some() -> Contents:
    return gather(only=("dino_*", "dinov2_*", "init_rn50", "pocket_*", "mae_vit*", WRONG))


def table(contents: Contents) -> tuple[str, list[dict[str, str]]]:
    """The page, and its table as texts by the names of columns."""
    [page] = first_page.files(contents, Renderer(contents))
    document = html5lib.parse(page.content, namespaceHTMLElements=False)
    [found] = document.iter("table")
    names = [head.get("data-name") for head in found.find("thead/tr")]
    rows = [["".join(cell.itertext()) for cell in row] for row in found.findall("tbody/tr")]
    return page.content.decode(), [dict(zip(names, row, strict=True)) for row in rows]


def test_measured_encoders_come_by_their_error_then_reported_ones_then_the_rest_by_month() -> None:
    _, rows = table(some())
    assert [row["encoder"] for row in rows] == [entry.id for entry in in_order(some())]
    numbers = [float(row["error"]) for row in rows if row["error"][0].isdigit()]
    rest = rows[len(numbers) :]
    assert numbers == sorted(numbers) and len(numbers) > 10 and all(not row["error"][0].isdigit() for row in rest)
    reported = [row for row in rest if "*" in row["reported"]]
    others = rest[len(reported) :]
    assert reported and others and all("*" not in row["reported"] for row in others)
    for part in (reported, others):
        months = [row["released"] if row["released"][0].isdigit() else "" for row in part]
        assert months == sorted(months, reverse=True)


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
    assert by_name[WRONG]["error"] == "excluded as wrong"
    assert by_name["pocket_simclr_rn_shapes"]["error"] == "not measured"
    assert by_name["init_rn50"]["released"] == by_name["init_rn50"]["licence"] == "not applicable"


def test_data_of_scripts_has_exact_errors_and_leaves_out_what_is_wrong() -> None:
    renderer = Renderer(some())
    [_] = first_page.files(some(), renderer)
    text = renderer.assets["encoders.js"].content.decode()
    data = json.loads(text.removeprefix("const ENCODERS = ").removesuffix(";\n"))
    assert data["fields"] == list(FIELDS)
    rows = {row[0]: dict(zip(FIELDS, row, strict=True)) for row in data["rows"]}
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
    assert "Errors of a linear probe on shapes in percent" in text and "shapes: error with all labels, measured" in text
    assert '<option value="on digits">error on digits, all labels (' in text
    row = dict(zip(FIELDS, encoder_data(contents)["rows"][0], strict=True))
    assert row["100%"] == errors[row["id"]] and row["elsewhere"]["shapes"] == row["100%"]
