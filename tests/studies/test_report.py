"""The report: what is in it, and that a folder is written whole, replaced only if untouched, or left alone."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import stat
from pathlib import Path

import pytest

from tests.small_study import small_study
from zoo.errors import QueryError, StoreError
from zoo.studies.report import require_reportable, write_page, write_report
from zoo.studies.running import StudyRun, read_study, run_studies


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[StudyRun]:
    return run_studies([read_study(small_study(tmp_path_factory.mktemp("study")))], compare=True)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_has_a_page_markdown_numbers_and_both_kinds_of_figure(runs: list[StudyRun], tmp_path: Path) -> None:
    written = write_report(runs, tmp_path / "report")
    assert [path.relative_to(tmp_path / "report").as_posix() for path in written] == [
        "estimates.csv",
        "figures/small-histogram.csv",
        "figures/small-histogram.png",
        "figures/small-histogram.svg",
        "files.json",
        "index.html",
        "report.json",
        "report.md",
    ]
    assert (tmp_path / "report" / "figures" / "small-histogram.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_escapes_what_a_study_says_and_its_links_lead_somewhere(runs: list[StudyRun], tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write_report(runs, folder)
    page = (folder / "index.html").read_text()
    assert "&lt;b&gt;usability&lt;/b&gt;" in page
    assert "<b>usability" not in page
    assert "All &amp; more" in page
    assert "<p>Usability error is 7.2 points on average, over the encoders &amp; more.</p>" in page
    for link in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert link.startswith("https://arxiv.org/") or (folder / link).is_file(), link
    markdown = (folder / "report.md").read_text()
    assert "<b>usability</b> \\| is small" in markdown
    assert "\nUsability error is 7.2 points on average, over the encoders & more.\n" in markdown
    for link in re.findall(r"\]\(([^)]+)\)", markdown):
        assert (folder / link).is_file(), link


def test_the_report_opens_with_counts_by_study_and_all_that_does_not_agree(
    runs: list[StudyRun], tmp_path: Path
) -> None:
    write_report(runs, tmp_path / "report")
    for name, first in (("index.html", '<h2 id="small">'), ("report.md", "## Is usability small?")):
        opening = (tmp_path / "report" / name).read_text().partition(first)[0]
        for verdict in ("agrees", "compatible", "corrected", "not reproducible"):
            assert verdict in opening
        assert "mean usability" in opening and "other rows" in opening  # what does not agree, and why
        assert "is small" not in opening  # it agrees
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert (
        document["studies"][0]["verdicts"]
        == document["verdicts"]
        == {
            "agrees": 1,
            "compatible": 0,
            "corrected": 0,
            "not reproducible": 1,
        }
    )
    assert [claim["rests_on"] for claim in document["studies"][0]["claims"]] == ["", ""]


def test_one_page_stands_alone_with_its_figures_inside(runs: list[StudyRun], tmp_path: Path) -> None:
    page = write_page(runs, tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = page.read_text()
    targets = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert all(target.startswith(("#", "https://arxiv.org/", "data:image/svg+xml;base64,")) for target in targets)
    (image,) = [target for target in targets if target.startswith("data:")]
    assert b"<svg" in base64.b64decode(image.partition(",")[2])
    for anchor in (target[1:] for target in targets if target.startswith("#")):
        assert f'id="{anchor}"' in text
    assert "7.244" in text  # the estimate, whose file is not next to it


def test_an_untouched_page_is_replaced_with_the_same_bytes_and_any_other_file_is_kept(
    runs: list[StudyRun], tmp_path: Path
) -> None:
    page = write_page(runs, tmp_path / "mine.html")
    before = page.read_bytes()
    assert page == tmp_path / "mine.html" and write_page(runs, page).read_bytes() == before
    for content in (before.replace(b"usability", b"something", 1), before + b"<!-- mine -->", b"thesis", b""):
        page.write_bytes(content)
        with pytest.raises(QueryError, match="no untouched earlier report"):
            write_page(runs, page)
        assert page.read_bytes() == content
    page.unlink()
    page.mkdir()
    with pytest.raises(QueryError, match="is no file"):
        require_reportable(page, single_file=True)


def test_json_and_csv_have_every_estimate_with_its_term(runs: list[StudyRun], tmp_path: Path) -> None:
    write_report(runs, tmp_path / "report")
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    (estimate,) = document["studies"][0]["estimates"]
    assert (estimate["term"], estimate["outcome"], estimate["n"], estimate["ci_low"]) == (
        "mean",
        "usability",
        146,
        None,
    )
    with (tmp_path / "report" / "estimates.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["study"], row["term"], float(row["value"])) == ("small", "mean", estimate["value"])


@pytest.mark.parametrize("change", ["added", "changed", "removed", "unlisted", "foreign"])
def test_a_folder_in_which_something_would_be_lost_is_refused_and_left_alone(
    runs: list[StudyRun], tmp_path: Path, change: str
) -> None:
    folder = tmp_path / "report"
    if change == "foreign":
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")
    else:
        write_report(runs, folder)
    if change == "added":
        (folder / "notes.txt").write_text("mine")
    elif change == "changed":
        (folder / "report.md").write_text("mine")
    elif change == "removed":
        (folder / "report.md").unlink()
    elif change == "unlisted":
        (folder / "files.json").write_text("{}")
    before = content(folder)
    with pytest.raises(QueryError, match="no untouched earlier report"):
        write_report(runs, folder)
    assert content(folder) == before


def test_a_figure_that_cannot_be_drawn_leaves_no_half_written_report(tmp_path: Path) -> None:
    path = small_study(tmp_path, ("axes[0].hist", "axes[7].hist"))
    runs = run_studies([read_study(path)])
    with pytest.raises(IndexError):
        write_report(runs, tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["small.py"]


def test_an_unwritable_place_is_refused_in_one_sentence(runs: list[StudyRun], tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    long = closed / ("x" * 300)
    with pytest.raises(StoreError, match=r"cannot be (read|written)"):
        write_report(runs, long)
    assert list(closed.iterdir()) == []
    assert stat.S_ISDIR(os.stat(closed).st_mode)
