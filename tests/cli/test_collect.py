"""``zoo results merge``: what it prints, its JSON and exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cli_runner import document, run
from tests.results.test_merging import BASE, FULL, rows_in


def test_merge_counts_what_it_did_and_sets_contradictions_aside(tmp_path: Path, home: Path) -> None:
    ann = rows_in(tmp_path / "ann", BASE, FULL)
    bob = rows_in(tmp_path / "bob", replace(BASE, value=13.0), FULL)
    said = run("results", "merge", str(ann), str(bob), "--dry-run", code=1)
    assert " ".join(said.stdout.split()) == "rows to be added 2 the same again 1 contradict others 1"
    assert "12.5 in " in said.stderr and "their provenances agree" in said.stderr
    assert not home.exists()
    done = document("results", "merge", str(ann), str(bob), code=1)
    assert [done[name] for name in ("rows", "new", "known", "again")] == [4, 2, 0, 1]
    (one,) = done["contradictions"]
    assert (one["kept"]["row"]["value"], one["other"]["row"]["value"]) == ("12.5", "13.0")
    assert Path(done["set_aside"]).is_file()
    assert run("results", "merge", str(ann)).stdout.split()[-3:] == ["recorded", "already", "2"]


def test_merge_into_a_folder_leaves_the_results_alone(tmp_path: Path, home: Path) -> None:
    out = tmp_path / "out"
    done = document("results", "merge", str(rows_in(tmp_path / "ann", BASE)), "--out", str(out))
    assert done["added_to"] == [str(out / "dino_vitS16.csv")]
    assert not home.exists()
    (tmp_path / "empty").mkdir()
    assert "There are no results files in" in run("results", "merge", str(tmp_path / "empty"), code=1).stderr
