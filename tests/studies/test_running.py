"""Running studies: on which table, and how a verdict changes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.own_encoder import add_own_encoder
from tests.shipped import tables_made_once
from tests.small_study import small_study
from zoo.errors import MissingExtra, QueryError
from zoo.studies.running import StudyOptions, read_study, run_studies

__all__ = ["tables_made_once"]  # a fixture
pytestmark = pytest.mark.usefixtures("tables_made_once")


def test_a_number_that_agreed_on_the_published_rows_is_corrected_on_another_table(tmp_path: Path) -> None:
    (published,) = run_studies([read_study(small_study(tmp_path))])
    mean = published.findings.claims[0].value
    assert mean is not None
    path = small_study(tmp_path, ('printed="8.6"', f'printed="{mean:.4f}"'))
    (run,) = run_studies([read_study(path)], corrected=True)
    claim = run.findings.claims[0]
    assert claim.verdict == "corrected"
    assert claim.reason == f"{mean:.5f} on the published rows, which agrees; here errata applied and components signed"


def test_a_number_that_never_agreed_keeps_its_verdict_on_another_table(tmp_path: Path) -> None:
    path = small_study(tmp_path, ('printed="8.6"', 'printed="99.9"'))
    (run,) = run_studies([read_study(path)], corrected=True)
    claim = run.findings.claims[0]
    assert claim.verdict == "not reproducible"
    assert claim.reason.startswith("on the published rows, ") and claim.reason.endswith(": other rows")


def test_a_fault_that_was_shown_on_the_published_rows_stays_shown_on_another_table(tmp_path: Path) -> None:
    path = small_study(
        tmp_path, ('printed="8.6"', 'printed="146"'), ("ours=mean,", "ours=mean, as_the_paper_did=len(found),")
    )
    (run,) = run_studies([read_study(path)], corrected=True)
    assert run.findings.claims[0].verdict == "corrected"


def test_encoders_of_mine_change_a_number_but_no_verdict_on_the_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (published,) = run_studies([read_study(small_study(tmp_path))])
    add_own_encoder(tmp_path, monkeypatch)
    path = small_study(tmp_path, ('printed="8.6"', f'printed="{published.findings.claims[0].value:.4f}"'))
    (run,) = run_studies([read_study(path)], with_mine=True)
    assert run.findings.rows[0].used == 147
    claim = run.findings.claims[0]
    assert claim.verdict == "agrees"
    assert claim.reason.startswith("without 1 encoder of yours, 7.24")
    path = small_study(tmp_path, ('printed="8.6"', f'printed="{claim.value:.4f}"'))
    (both,) = run_studies([read_study(path)], corrected=True, with_mine=True)
    assert both.findings.claims[0].verdict == "not reproducible"


def test_progress_says_which_study_and_which_step(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    options = StudyOptions(progress=lambda *step: told.append(step))
    run_studies([read_study(small_study(tmp_path))], options=options)
    assert told == [("small", 0, 1), ("small: mean 1/1", 0, 1), ("done", 1, 1)]


UNEXPLAINED = "Claim(claim='x', source='', paper='1', ours='2', verdict='corrected')"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"<b>usability</b> | is small"', '"mean usability"', "makes the claim 'mean usability' twice"),
        ("claims=[\n", f"claims=[{UNEXPLAINED},\n", "no reason for 'x'"),
    ],
)
def test_claims_that_say_nothing_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = small_study(tmp_path, (old, new), ("import Figure,", "import Claim, Figure,"))
    with pytest.raises(QueryError, match=message):
        run_studies([read_study(path)])


def test_a_missing_library_shows_before_any_study_has_run(tmp_path: Path) -> None:
    (tmp_path / "needs").mkdir()
    wanted = "from zoo.errors import MissingExtra\nraise MissingExtra('xgboost', extra='study', needed_for='This')\n"
    lacking = small_study(tmp_path / "needs", ("from zoo.analysis.columns", f"{wanted}from zoo.analysis.columns"))
    marker = tmp_path / "ran"
    first = small_study(tmp_path, ("    found = table", f"    open({str(marker)!r}, 'w').close()\n    found = table"))
    with pytest.raises(MissingExtra, match=r"'xgboost'.*ssl-zoo with its extra \[study\]"):
        run_studies([read_study(first), read_study(lacking)])
    assert not marker.exists()
