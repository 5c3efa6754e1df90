"""Pages of data sets: what others measured, in order and with its doubts, apart from what authors report and the zoo
measured; and the same numbers on pages of encoders and in comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from html import unescape

from tests.site.site_under_test import contents
from zoo.results.evidence import find_contradictions, find_numbers_on, find_origin
from zoo.results.reported import reported_numbers
from zoo.site import dataset_pages
from zoo.site.compare_page import iterate_shown_sections, list_lines
from zoo.site.contents import gather
from zoo.site.dataset_pages import find_measured_sets, tabulate_by_others
from zoo.site.encoder_results import tabulate_reported
from zoo.site.rendering import SiteRenderer


@cache
def pages() -> Mapping[str, str]:
    return {
        file.path.removeprefix("datasets/").removesuffix(".html"): file.content.decode()
        for file in dataset_pages.build_files(contents(), SiteRenderer(contents()))
    }


def section(page: str, anchor: str) -> str:
    return pages()[page].split(f'<section id="{anchor}">')[1].split("</section>")[0]


def rows(markup: str) -> list[list[str]]:
    """Cells of the rows of a table as text."""
    body = markup.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in re.split(r"<t[hd]\b[^>]*>", row)[1:]]
        for row in body.split("<tr>")[1:]
    ]


def test_every_number_of_an_origin_is_on_the_page_of_its_data_set() -> None:
    sets = find_measured_sets(contents())
    evidence = [one for one in reported_numbers() if find_origin(one) and one.dataset in sets]
    shown = {(name, one.encoder, one.value) for name, some in sets.items() for one in some.numbers}
    assert len(evidence) > 6000
    assert {(one.dataset, one.encoder, one.value) for one in evidence if one.encoder in contents().entries} <= shown
    assert set(pages()) == {"index", *sets}


def test_a_table_has_one_protocol_the_best_first_and_doubtful_numbers_last_with_the_reason() -> None:
    found = rows(section("eurosat", "few-shot-mteb"))
    doubtful = [row[1].endswith("*!") for row in found]
    assert doubtful == sorted(doubtful) and any(doubtful)
    values = [float(row[1]) for row, doubt in zip(found, doubtful, strict=True) if not doubt]
    assert values == sorted(values, reverse=True)
    assert all("doubtful: " in row[-1] for row, doubt in zip(found, doubtful, strict=True) if doubt)
    [dinov2] = [row for row in found if row[0] == "dinov2_vitB14"]
    assert dinov2[1:3] == ["81.7", "sd 2.8 of 5"] and "86.6M" in dinov2 and "Apache-2.0" in dinov2
    [clip] = [row for row in found if row[0] == "clip_vitB16"]
    assert "projected to the space of texts" in clip


def test_a_protocol_has_a_figure_where_five_encoders_were_measured() -> None:
    drawn = section("eurosat", "few-shot-mteb").count("<title>")
    there = [one for one in find_numbers_on("eurosat") if find_origin(one) == "mteb" and not one.doubt]
    sure = {one.encoder for one in there if one.protocol == "reported-few-shot"}
    assert drawn == len(sure)
    assert "<svg" not in section("m-eurosat", "linear-torchgeo-bench")  # two encoders


def test_origins_that_contradict_each_other_are_both_shown_and_name_the_other_number() -> None:
    pair = next(one for one in find_contradictions(find_numbers_on("svhn")) if one[0].encoder == "clip_vitB16")
    values = {find_origin(one): f"{one.value:.1f}" for one in pair}
    for origin, other in (("open_clip", "clip_benchmark"), ("clip_benchmark", "open_clip")):
        [row] = [row for row in rows(section("svhn", f"zero-shot-{origin}")) if row[0] == "clip_vitB16"]
        assert row[1] == values[origin] and f"has {values[other]}" in row[-1]
    assert "contradict each other" in pages()["svhn"] and "contradict each other" not in pages()["eurosat"]


def test_measurements_of_the_zoo_and_numbers_of_authors_stand_apart() -> None:
    here = {row[0]: row[1] for row in rows(section("imagenet-1k", "here"))}
    assert here["dino_vitS16"] == "24.6" and "deepcluster_rn50_bs512_ep200_mmselfsup" not in here
    stated = rows(section("imagenet-1k", "stated"))
    assert ["dino_vitS16", "linear", "accuracy", "77.0*"] in [row[:4] for row in stated]
    assert not any("dino_vitS16" in [row[0] for row in rows(section("imagenet-1k", anchor))]
                   for anchor in ("few-shot-mteb", "zero-shot-open_clip"))  # fmt: skip
    assert 'id="here"' not in pages()["eurosat"]
    assert "LVD-142M" in pages()["imagenet-1k"]  # a pretraining set with its training images


def test_an_encoder_has_a_row_a_data_set_apart_from_what_its_authors_report() -> None:
    entry = contents().entries["clip_vitB16"]
    found = tabulate_by_others(entry)
    assert found is not None
    titles = [title for _, some in found["domains"] for page, title, _ in some if page]
    assert len(titles) == len(set(titles)) == found["n_datasets"]
    assert len({domain for domain, _ in found["domains"]}) == len(found["domains"])
    cells = {
        title: dict(zip(found["heads"], some, strict=True)) for _, rows in found["domains"] for _, title, some in rows
    }
    assert cells["SVHN"]["zero-shot", "OpenCLIP"] == "51.9"
    assert cells["EuroSAT"]["few-shot", "MTEB"] == "74.2 ± 3.2"
    assert tabulate_by_others(contents().entries["dino_vitS16"]) is None
    table = tabulate_reported([one for one in entry.reported if not find_origin(one)])
    assert table is None or len(table.rows) < 20


def test_a_comparison_has_what_two_of_its_encoders_share() -> None:
    site = gather(only=["dinov2_vitB14", "clip_vitB16", "mae_vitB16"])
    entries = list(site.entries.values())
    made = list_lines(entries)
    for ids, few_shot, zero_shot in (
        (("dinov2_vitB14", "clip_vitB16"), True, False),
        (("dinov2_vitB14", "mae_vitB16"), False, False),
    ):
        parts = iterate_shown_sections(made, entries, [site.entries[one] for one in ids])
        shown = {row["line"].name for part in parts for row in part["rows"]}
        assert ("eurosat/reported-few-shot/mteb" in shown) is few_shot
        assert ("eurosat/reported-zero-shot/open_clip" in shown) is zero_shot


def test_a_site_of_encoders_that_nobody_else_measured_has_the_list_alone() -> None:
    site = gather(only=["dino_vitS16"])
    [index] = dataset_pages.build_files(site, SiteRenderer(site))
    assert index.path == "datasets/index.html" and "<table" not in index.content.decode()
