"""Pages of studies: everything a study found is there, as text; it is run once and kept until something changes."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import re
import shutil
from dataclasses import replace
from pathlib import Path

import html5lib
import pytest

from tests.shipped import shipped_table
from tests.small_study import small_study
from zoo.site import gather, study_pages
from zoo.site.rendering import File, SiteRenderer
from zoo.studies.running import Study, read_study

HOSTILE = "<script>alert(1)</script>"
CHANGES = (
    ("A histogram", HOSTILE),
    ("Is usability small?", "Is <i>usability</i> small?"),
    ('rows=[["a", "1.0"]]', 'rows=[[str(one), "1.0"] for one in range(201)]'),
)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study in a folder of its own, as the only one, with a cache of its own."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "analysis").mkdir()
    found = read_study(small_study(tmp_path / "analysis", *CHANGES))
    monkeypatch.setattr(study_pages, "_table", shipped_table)
    monkeypatch.setattr(study_pages, "list_studies", lambda: {found.name: found})
    return found


def made(**changes: object) -> dict[str, bytes]:
    """The files of studies by path, of a site of one encoder."""
    contents = replace(gather(only=["dino_vitS16"]), **changes)  # type: ignore[arg-type]
    files: list[File] = [*study_pages.build_files(contents, SiteRenderer(contents))]
    return {file.path: file.content for file in files}


def test_a_study_has_a_page_figures_and_data_which_are_kept(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made()
    assert sorted(files) == [
        "studies/claims.html",
        "studies/data/small-estimates.csv",
        "studies/data/small-table1.csv",
        "studies/figures/small-histogram.csv",
        "studies/figures/small-histogram.svg",
        "studies/index.html",
        "studies/small.html",
    ]
    for path in ("studies/index.html", "studies/small.html"):
        page = files[path].decode()
        assert "Usability error is 7.2 points on average, over the encoders &amp; more." in page
        html5lib.HTMLParser(strict=True).parse(page)
        assert "<script>alert" not in page
        assert "<i>usability" not in page
    for path in ("studies/claims.html", "studies/small.html"):
        assert "all encoders that the zoo ships" in re.sub(r"\s+", " ", files[path].decode())
    claims = re.sub(r"<[^>]+>", "", files["studies/claims.html"].decode())
    assert "The printed number comes out" in claims and "<table" not in files["studies/index.html"].decode()
    assert "1 of 2 claims agree" in files["studies/index.html"].decode()
    page = files["studies/small.html"].decode()
    assert page.index("<figure") < page.index('id="claims"')  # what it found comes before what was claimed
    for text in (
        "&lt;b&gt;usability&lt;/b&gt;",
        "All &amp; more",
        "a note of the study",
        "mean: ",
        "the mean usability",
    ):
        assert text in page
    for link in re.findall(r'(?:src|href)="((?:figures|data)/[^"]+)"', page):
        assert f"studies/{link}" in files
    assert page.count("<tr>") < 3 + 200 + 10  # of 201 rows of the table the page has 200
    assert len(files["studies/data/small-table1.csv"].splitlines()) == 202

    header, *rows = csv.reader(io.StringIO(files["studies/figures/small-histogram.csv"].decode()))
    assert header == ["encoder", "usability"] and len(rows) == 146  # encoders with the component
    svg = files["studies/figures/small-histogram.svg"].decode()
    assert "prefers-color-scheme: dark" in svg
    assert "<script" not in svg

    monkeypatch.setattr(study_pages, "run_study_tables", None)  # nothing is run again
    assert made() == files


def test_what_is_kept_counts_for_the_same_study_and_content_alone(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = study_pages.run_studies_cached([study])
    (kept,) = (study_pages.get_cache_folder() / "studies").iterdir()
    ran: list[str] = []

    def counted(one: Study, *given: object, **named: object) -> object:
        ran.append(one.name)
        return findings_of(one, *given, **named)

    findings_of = study_pages.run_study_tables
    monkeypatch.setattr(study_pages, "run_study_tables", counted)
    assert study_pages.run_studies_cached([study]) == [first]
    assert ran == []
    kept.write_bytes(kept.read_bytes()[:-9])  # damaged
    assert study_pages.run_studies_cached([study]) == [first]
    assert ran == ["small"]  # on both tables
    study.path.write_text(study.path.read_text().replace("other rows", "more rows"))
    (changed,) = study_pages.run_studies_cached([study])
    assert ran == ["small"] * 2
    assert "more rows" in json.dumps(changed)


@pytest.mark.slow
def test_processes_give_what_this_one_gives_and_are_gone_at_the_end(study: Study, tmp_path: Path) -> None:
    second = tmp_path / "analysis" / "second.py"
    second.write_text(study.path.read_text())
    both = [study, read_study(second)]
    told: list[str] = []
    apart = study_pages.run_studies_cached(both, tell=told.append, n_processes=2)
    assert sorted(one.partition(",")[0] for one in told[1:]) == ["second", "small"] and told[2].endswith("2 of 2")
    assert multiprocessing.active_children() == []
    shutil.rmtree(study_pages.get_cache_folder())
    assert study_pages.run_studies_cached(both, n_processes=1) == apart
