"""The comparison: which lines it has, what it marks, and that its data for the script say the same."""

from __future__ import annotations

import re
from functools import cache

from tests.site.site_under_test import contents
from zoo.results.facts import FACTS, format_points
from zoo.results.values import SETTINGS
from zoo.site.compare_page import (
    MOST,
    NOT_COMPARED,
    SECTIONS,
    Cell,
    Line,
    compute_line_differences,
    is_shown,
    iterate_shown_sections,
    list_lines,
    mark_lowest,
    pick_first_encoders,
)
from zoo.site.contents import gather
from zoo.site.expected import compute_site_errors


@cache
def all_lines() -> dict[str, Line]:
    return {line.name: line for line in list_lines(list(contents().entries.values()))}


def cells(name: str, *ids: str) -> list[Cell]:
    places = list(contents().entries)
    return [all_lines()[name].cells[places.index(one)] for one in ids]


def texts(name: str, *ids: str) -> list[str]:
    return [cell.text for cell in cells(name, *ids)]


def test_every_column_of_listings_is_compared() -> None:
    assert set(FACTS) - set(NOT_COMPARED) <= set(all_lines())
    assert {line.section for line in all_lines().values()} == set(SECTIONS)


def test_errors_are_those_of_the_results() -> None:
    for entry in contents().entries.values():
        errors = {} if entry.summary is None else entry.summary.errors
        found = {one.name: cells(one.column, entry.id)[0].value for one in SETTINGS}
        assert found == {one.name: errors.get(one.name) for one in SETTINGS}, entry.id


def test_the_first_line_has_the_errors_that_people_choose_by_with_intervals_and_what_they_rest_on() -> None:
    entries = list(contents().entries.values())
    _, expected = compute_site_errors(contents())
    line = list_lines(entries, expected)[0]
    of = dict(zip(contents().entries, line.cells, strict=True))
    assert of["dino_vitS16"].text == "24.6 (24.1 to 25.1), measured by the study"
    low, high = expected["dinov2_vitS14"].low or 0.0, expected["dinov2_vitS14"].high or 0.0
    assert (
        f"({format_points(low)} to {format_points(high)}), expected from a reported linear probe"
        in of["dinov2_vitS14"].text
    )
    assert of["pocket_simclr_rn_shapes"].is_missing and not of["sup_rn50"].contends  # it saw ImageNet's labels


def test_lines_have_names_of_people_and_not_of_columns() -> None:
    labels = [line.label for line in all_lines().values()]
    assert [one for one in labels if "_" in one or re.search(r"\bn ?pus\b|top1acc|\bknn\b", one)] == []


def test_texts_are_those_of_the_command_line() -> None:
    pair = ("dino_vitS16", "mae_vitB16")
    assert texts("n_parameters", *pair) == ["21.7M", "85.8M"]
    assert texts("patch_size", "dino_rn50") == ["not applicable"]
    assert texts("time_hours", *pair) == ["194", "not published"]
    assert texts("train_test", *pair) == ["24.6", "34.0"]
    assert texts("reported_linear", *pair) == ["77.0*", "68.0*"]
    assert texts("licence_words", "mae_vitB16") == ["no commercial use; name the authors and changes"]
    assert compute_line_differences(all_lines()["train_test"], cells("train_test", *pair)) == ["", "+9.4"]
    assert texts("train_test", "uni_vitL16") == ["not measured"]
    assert texts("gflops", "clip_vitB16") == ["35.1"]


def test_the_best_is_marked_with_its_direction_and_ties() -> None:
    line = all_lines()["train_test"]
    assert mark_lowest(line, cells("train_test", "mae_vitB16", "dino_vitS16", "uni_vitL16")) == ["", "lowest", ""]
    tie = [Cell("1.0", 1.04), Cell("1.0", 0.96), Cell("2.0", 2.0), Cell("0.0 (assumed)", 0.0, contends=False)]
    assert mark_lowest(line, tie) == ["lowest, tied", "lowest, tied", "", ""]
    assert mark_lowest(line, tie[:2]) == ["", ""]  # nothing to choose
    near = [Cell("1.0 (0.5 to 2.0)", 1.0, reach=(0.5, 2.0)), Cell("1.5 (1.0 to 3.0)", 1.5, reach=(1.0, 3.0))]
    assert mark_lowest(line, [*near, Cell("4.0 (3.5 to 5.0)", 4.0, reach=(3.5, 5.0))]) == ["lowest, tied"] * 2 + [""]
    assert not any(all_lines()[name].best for name in ("z_dim", "reported_linear", "epochs", "released", "n_errata"))


def test_numbers_that_an_erratum_excludes_are_marked_and_take_no_part() -> None:
    wrong, right = "deepcluster_rn50_bs512_ep200_mmselfsup", "dino_rn50"
    assert texts("train_test", wrong)[0].endswith(" !")
    assert texts("result_errata", wrong)[0].startswith("wrong weights: In all likelihood")
    pair = cells("train_test", wrong, right)
    assert mark_lowest(all_lines()["train_test"], pair) == ["", ""]
    assert compute_line_differences(all_lines()["train_test"], pair) == ["", ""]


def test_facts_are_shown_where_they_differ_and_measurements_where_there_are_any() -> None:
    entries = list(contents().entries.values())
    chosen = [contents().entries[one] for one in ("dino_vitS16", "dino_vitS16_last")]
    shown = {
        row["line"].name
        for part in iterate_shown_sections(list(all_lines().values()), entries, chosen)
        for row in part["rows"]
    }
    assert {"z_dim", "z_layer", "train_test", "approx"} <= shown
    assert not {"n_parameters", "objective", "licence_words", "reported_knn"} & shown
    unlike = Line("a", "a", "", "", "training", "", None, ())
    reasons = [Cell("not published", is_missing=True), Cell("not recorded", is_missing=True)]
    assert not is_shown(unlike, reasons) and is_shown(unlike, [*reasons, Cell("7")])
    unmeasured = [contents().entries[one] for one in ("uni_vitL16", "hibou_vitL14")]
    titles = [part["section"] for part in iterate_shown_sections(list(all_lines().values()), entries, unmeasured)]
    assert SECTIONS["errors"] not in titles


def test_the_page_without_a_script_has_six_encoders_of_six_modes() -> None:
    chosen, how = pick_first_encoders(contents())
    assert len(chosen) == MOST == len({entry.card.objective.mode for entry in chosen})
    assert "smallest error" in how
    few, said = pick_first_encoders(gather(only=["uni_vitL16", "hibou*"]))
    assert "uni_vitL16" in [entry.id for entry in few] and said == f"the first {len(few)} of the site"
