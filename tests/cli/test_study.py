"""``zoo study``: lists, runs, prints and reports; what it refuses, it refuses in one sentence, half-writing nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_runner import document, run
from tests.conftest import REPOSITORY, Run
from tests.shipped import tables_made_once
from tests.small_study import small_study
from zoo.files import list_shipped_studies

__all__ = ["tables_made_once"]  # a fixture
pytestmark = pytest.mark.usefixtures("tables_made_once")


def refusal(*arguments: str) -> str:
    """The sentence with which ``zoo study`` refuses; it is one line."""
    lines = run("study", *arguments, code=2).output.strip().splitlines()
    (error,) = [line for line in lines if line.startswith("Error: ")]
    return error


def test_without_a_name_the_studies_are_listed_with_their_questions() -> None:
    listed = document("study")["studies"]
    assert [record["name"] for record in listed] == list(list_shipped_studies())
    assert all(record["question"].endswith("?") and "Command: zoo study" in record["introduction"] for record in listed)
    assert listed[0]["question"] in run("study").stdout


def test_a_study_prints_claim_paper_ours_verdict_and_why(tmp_path: Path) -> None:
    shown = run("study", str(small_study(tmp_path, ('printed="8.6"', 'printed="99"')))).stdout
    assert shown.startswith(
        "Is usability small?\nUsability error is 7.2 points on average, over the encoders & more.\n\n"
    )
    for word in ("claim", "paper", "ours", "verdict", "why", "mean usability", "99", "not reproducible", "other rows"):
        assert word in shown
    assert "2 claims; studies of the published encoders take the table as published (169 encoders)" in shown
    assert "1 agree, 0 compatible, 0 corrected, 1 not reproducible" in shown


def test_json_has_claims_rows_and_every_estimate(tmp_path: Path) -> None:
    found = document("study", str(small_study(tmp_path)))
    assert found["table"]["name"] == "as published"
    (study,) = found["studies"]
    assert study["estimates"][0]["term"] == "mean"
    assert study["answer"].startswith("Usability error is 7.2 points")
    assert study["rows"] == [
        {"part": "mean", "used": 146, "unit": "encoders", "left_out": {"usability not published": 23}}
    ]
    assert {claim["claim"] for claim in study["claims"]} == {"mean usability", "<b>usability</b> | is small"}


def test_the_corrected_table_is_taken_when_asked_for(tmp_path: Path) -> None:
    found = document("study", str(small_study(tmp_path)), "--corrected")
    assert found["table"]["encoders"] == 168
    assert list(found["table"]["left_out"]) == ["measured wrongly, says an erratum"]
    assert "ours_on_other_table" in found["studies"][0]["claims"][0]


def test_one_page_is_written_on_demand_and_needs_a_name(tmp_path: Path) -> None:
    path = str(small_study(tmp_path))
    assert "index.html" in run("study", path, "--out", str(tmp_path / "folder")).stdout
    assert json.loads((tmp_path / "folder" / "report.json").read_text())["studies"][0]["name"] == "small"
    shown = run("study", path, "--out", str(tmp_path / "report"), "--single-file").stdout
    assert "report.html" in shown and "1 figures inside" in shown
    assert (tmp_path / "report.html").is_file() and not (tmp_path / "report").exists()
    assert document("study", path, "--out", str(tmp_path / "report"), "--single-file")["report"].endswith("report.html")
    assert "expected --out DIR too" in refusal(path, "--single-file")


def test_a_request_that_cannot_be_understood_is_refused() -> None:
    for arguments, message in {
        "where_risk_lies": "There is no study named 'where_risk_lies'; did you mean where_the_risk_lies",
        "all where_the_risk_lies": "expected 'all' alone",
        "absent.py": "There is no file absent.py",
        "what_an_encoder_is_good_at --encoder dino_vitS": "There is no encoder named 'dino_vitS'",
    }.items():
        assert message in refusal(*arguments.split())


def test_a_missing_library_is_named_with_the_extra_and_no_report_is_begun(run_apart: Run, tmp_path: Path) -> None:
    script = "import sys; sys.modules['xgboost'] = None\nfrom zoo.cli import main\nmain()"
    done = run_apart(script, "study", "all", "--out", tmp_path / "report", path=[REPOSITORY], warm=True)
    assert done.returncode == 1 and "xgboost" in done.stderr and "[study]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
