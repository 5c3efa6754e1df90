"""A contribution is a branch of a real git repository: rows, cards, what was checked, a table; errors in a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scripts.submit_results import Submission, main, submit
from tests.results.test_merging import BASE, FULL, OTHER, TOLD
from zoo.cards.catalogue import load_catalogue
from zoo.cards.writing import format_card_file
from zoo.errors import QueryError, ResultsError, StoreError
from zoo.results.merging import merge
from zoo.results.recording import find_provenance, record
from zoo.results.rows import measurements

OWN = replace(BASE, source="own")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The zoo home, with two rows in it."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    record({OWN: TOLD, replace(FULL, source="own"): TOLD})
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a shared repository, with one commit; git knows nobody's settings."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")
    folder = tmp_path / "shared"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "README.md").write_text("# Shared results\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Something")


def accepted(folder: Path, done: Submission) -> None:
    git(folder, "merge", "--quiet", done.branch)


def test_a_contribution_is_a_branch_that_others_merge(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")
    done = submit(repository, source="Ann")
    assert (git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")) == before
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "rev-parse", done.branch).strip() == done.commit
    assert (done.n_rows, done.source, done.encoders) == (2, "Ann", ("dino_vitS16",))
    assert set(done.files) == {
        "results/measured/dino_vitS16.csv",
        "results/measured/dino_vitS16.provenance.jsonl",
        f"{done.folder}/README.md",
        f"{done.folder}/checks.json",
    }
    accepted(repository, done)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "bob"))
    assert merge([repository]).n_new == 2
    assert [row for row in measurements() if row.dataset == "birds"] == [BASE, FULL]
    assert find_provenance(BASE) == TOLD


def test_each_number_stands_next_to_the_best_one_known(repository: Path) -> None:
    better = [replace(BASE, encoder="mae_vitB16", value=value, seed=seed) for seed, value in enumerate((11.0, 12.0))]
    there = [*better, replace(BASE, encoder="dino_rn50", value=14.0)]
    record(dict.fromkeys(there, TOLD), folder=repository / "results" / "measured", alone=True)
    commit(repository)
    done = submit(repository, source="Ann", encoders={"dino_vitS16"})
    first, second = done.numbers
    assert (first["place"], first["of"], first["best"]["encoder"], first["best"]["value"]) == (2, 3, "mae_vitB16", 11.5)
    assert (second["place"], second["of"], second["best"]) == (1, 1, None)
    page = git(repository, "show", f"{done.branch}:{done.folder}/README.md")
    assert "| 12.5 percent | 11.5 | mae_vitB16 | 2 of 3 |" in page
    facts = json.loads(git(repository, "show", f"{done.branch}:{done.folder}/checks.json"))
    assert (facts["format"], facts["n_rows"], len(facts["passed"])) == ("zoo-contribution-1", 2, 4)
    assert facts["numbers"][0]["best"] == {"encoder": "mae_vitB16", "value": 11.5, "source": "Ann"}


def test_the_card_of_an_own_encoder_goes_along(repository: Path, home: Path) -> None:
    (home / "metadata").mkdir()
    text = format_card_file(load_catalogue()["pocket_init_rn"], comment="Mine.").replace(
        "pocket_init_rn", "birds_of_ann"
    )
    (home / "metadata" / "ann.toml").write_text(text)
    record({replace(BASE, encoder="birds_of_ann", source="Ann"): TOLD})
    done = submit(repository, encoders={"birds_of_ann"})
    assert (done.cards, done.source) == (("birds_of_ann",), "Ann")
    assert "[encoders.birds_of_ann]" in git(repository, "show", f"{done.branch}:metadata/contributed/birds_of_ann.toml")


def test_what_the_repository_has_is_not_submitted_again(repository: Path) -> None:
    accepted(repository, submit(repository, source="Ann"))
    with pytest.raises(QueryError, match=r"nothing to submit to .*: all 2 rows are there already"):
        submit(repository, source="Ann")
    record({replace(OTHER, source="own"): TOLD})
    done = submit(repository, source="Ann", dry_run=True)
    assert (done.n_rows, done.n_known, done.commit) == (1, 2, None)
    assert git(repository, "branch", "--list").count("\n") == 2


def test_rows_that_contradict_the_repository_are_refused(repository: Path) -> None:
    theirs = {replace(BASE, value=13.0): TOLD | {"weights_hash": "b2"}}
    record(theirs, folder=repository / "results" / "measured", alone=True)
    commit(repository)
    with pytest.raises(ResultsError, match=r"1 row contradicts those of .*weights_hash"):
        submit(repository, source="Ann")
    assert git(repository, "branch", "--list") == "* main\n"


def test_rows_without_provenance_are_refused_or_left_out(repository: Path, home: Path) -> None:
    beside = home / "results" / "measured" / "dino_vitS16.provenance.jsonl"
    beside.write_text(beside.read_text().splitlines()[0] + "\n")
    with pytest.raises(
        ResultsError, match=r"1 of 2 rows have no whole provenance, the first is .*dino_vitS16.csv, line 3"
    ):
        submit(repository, source="Ann")
    done = submit(repository, source="Ann", skip_bare=True)
    assert (done.n_rows, done.n_bare) == (1, 1)


def test_a_repository_that_would_not_pass_its_checks_is_refused(repository: Path) -> None:
    (repository / "results").mkdir()
    (repository / "results" / "wrong.csv").write_text("no,columns\n")
    commit(repository)

    def disagree(row: object, provenance: object) -> str:
        return "The settings are others."

    with pytest.raises(
        ResultsError, match=r"results/measured/dino_vitS16.csv, line 2: The settings are others \(2 prob"
    ):
        submit(repository, source="Ann", protocol=disagree)
    assert git(repository, "branch", "--list") == "* main\n"


def test_a_commit_that_fails_leaves_no_branch(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(StoreError, match=r"git commit failed in .*: refused"):
        submit(repository, source="Ann")
    assert git(repository, "branch", "--list") == "* main\n"
    assert git(repository, "worktree", "list").count("\n") == 1


def test_what_cannot_be_submitted_is_refused(tmp_path: Path, repository: Path) -> None:
    def refused(words: str, to: Path = repository, **options: Any) -> None:
        with pytest.raises(QueryError, match=words):
            submit(to, **{"source": "Ann"} | options)

    (tmp_path / "plain").mkdir()
    git(repository, "branch", "ours")
    refused("which names nobody", source=None)
    refused("expected who measured", source="own")
    refused("you have no rows of these encoders", encoders={"mae_vitB16"})
    refused("has a branch 'ours' already", branch="ours")
    refused("There is no folder", tmp_path / "nowhere")
    refused("no clone of a git repository", tmp_path / "plain")
    git(tmp_path / "plain", "init", "--quiet")
    refused("no clone of a git repository with a commit", tmp_path / "plain")
    (repository / "README.md").write_text("# Changed")
    refused("has 1 changes that are not committed, such as 'README.md'")


def test_the_script_tells_the_branch_and_what_comes_next(
    repository: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--to", str(repository), "--source", "Ann"]
    record({replace(OTHER, source="own"): TOLD | {"settings": None}})
    with pytest.raises(SystemExit, match="would not pass 'zoo results check'"):
        main(arguments)
    shutil.rmtree(home / "results")
    record({replace(BASE, protocol="of somebody", source="own"): TOLD})
    capsys.readouterr()
    main([*arguments, "dino_*", "--dry-run", "--json"])
    assert json.loads(capsys.readouterr().out)["commit"] is None
    main([*arguments, "dino_*"])
    said = capsys.readouterr().err
    branch = git(repository, "branch", "--list", "contribution/*").strip()
    assert f"1 row of dino_vitS16 by Ann are on the branch {branch}" in said
    assert f"git -C {repository} push origin {branch}" in said
    main([*arguments, "--branch", "second", "--json"])
    again = json.loads(capsys.readouterr().out)
    assert (again["rows"], again["branch"], len(again["files"])) == (1, "second", 4)
