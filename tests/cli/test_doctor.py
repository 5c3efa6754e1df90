"""``zoo doctor``: what it finds sound, what it calls a problem, and that it never waits for long."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.card_text import VALID
from tests.cli_runner import document, run
from zoo.cards.catalogue import load_catalogue
from zoo.cli.doctor import EXTRAS


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    return tmp_path


def found(*arguments: str, code: int = 0) -> dict[str, tuple[str, str]]:
    """Status and detail by name of the check."""
    checks = document("doctor", "--offline", *arguments, code=code)["checks"]
    return {check["name"]: (check["status"], check["detail"]) for check in checks}


def test_a_sound_installation_has_no_problem() -> None:
    checks = found()
    assert checks["cards"] == ("ok", f"{len(load_catalogue()):,} read")
    assert checks["results"][0] == "ok"
    assert checks["hosts"] == ("ok", "not asked (--offline or ZOO_OFFLINE)")
    assert document("doctor", "--offline")["sound"] is True
    assert "No problem found." in run("doctor", "--offline").stdout


def test_a_broken_card_is_a_problem_and_exit_code_1(own_folder: Path) -> None:
    (own_folder / "metadata" / "mine.toml").write_text(VALID.replace("epochs = 800", 'epochs = "many"'))
    status, detail = found(code=1)["your own cards"]
    assert status == "problem"
    assert "field 'pretraining.epochs'" in detail
    result = run("doctor", "--offline", code=1)
    assert "PROBLEM: " in result.stdout
    assert result.stderr.endswith("Error: 1 problem: your own cards.\n")


def test_a_results_file_that_was_changed_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.results import reading

    monkeypatch.setattr(reading, "find_damaged_files", lambda: ["published/risks.csv"])
    status, detail = found(code=1)["results intact"]
    assert status == "problem" and detail.startswith("published/risks.csv: not as the checksums say")


def test_a_file_where_a_folder_should_be_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    variables = {"ZOO_HOME": "your own folder", "ZOO_CACHE": "zoo (ZOO_CACHE)"}
    for variable in variables:
        monkeypatch.setenv(variable, str(tmp_path / "file" / "further" / "down"))
    checks = found(code=1)
    for variable, name in variables.items():
        assert checks[name][0] == "problem"
        assert f"{tmp_path / 'file'} is not a folder" in checks[name][1]
        assert f"set {variable} to" in checks[name][1]


def test_the_extras_are_those_of_the_project(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    for extra, libraries in EXTRAS.items():
        declared = {Requirement(text).name for text in project["optional-dependencies"][extra]}
        assert declared - {"ssl-zoo"} == set(libraries.split())


def test_passwords_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:sec@ret@proxy.example.org:3128")
    monkeypatch.setenv("ZOO_MIRROR", "ftp://me:sec@ret@host/m")
    text = run("doctor", "--offline").stdout
    assert "***@" in text and "ftp://***@host/m: every load comes from there" in text
    assert "ret@" not in text
