"""A home that an earlier version wrote is opened by every verb that reads it: nothing is lost or computed twice."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import document, names, run
from tests.saved_homes.writing import ENCODER, VERBS
from zoo.features import load_features

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
BY_NAME = pytest.mark.parametrize("saved", ARCHIVES, ids=[path.name for path in ARCHIVES], indirect=True)


@pytest.fixture
def saved(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The archived home as this user's; what its version answered, by verb."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    answers: dict[str, Any] = json.loads((tmp_path / "answers.json").read_text())
    return answers


def everything(folder: str) -> dict[str, bytes]:
    """Every file of a folder but locks."""
    files = (path for path in Path(folder).rglob("*") if path.is_file() and path.name != ".lock")
    return {path.as_posix(): path.read_bytes() for path in files}


def times_of_shards(folder: str) -> dict[str, int]:
    """When each file of features below a folder was written."""
    return {path.as_posix(): path.stat().st_mtime_ns for path in Path(folder).rglob("shard-*")}


@BY_NAME
def test_the_registered_encoder_is_listed_shown_and_its_rows_are_found(saved: dict[str, Any]) -> None:
    assert ENCODER in names("list")
    assert document(*VERBS["show"])["encoder"] == saved["show"]["encoder"]
    assert document(*VERBS["results"]) == saved["results"]
    run("results", "check", "home")


@BY_NAME
def test_features_and_probes_are_found_and_give_the_same_numbers(saved: dict[str, Any]) -> None:
    home, features = everything("home"), everything("features")
    found = document(*VERBS["features"])["features"]
    assert [{**one, "folder": str(Path(one["folder"]).relative_to(Path.cwd()))} for one in found] == (
        saved["features"]["features"]
    )
    assert [load_features(one["folder"]).x.shape for one in found] == [(45, 24), (30, 24)]
    assert everything("features") == features
    shards = times_of_shards("cache/evaluations")
    arguments = [one for one in VERBS["evaluate"] if one not in ("--save", "probe")]
    (now,), (then,) = document(*arguments)["evaluations"], saved["evaluate"]["evaluations"]
    assert (now["recorded"]["new"], now["recorded"]["known"]) == (0, then["recorded"]["new"])
    assert len(shards) == 2 and times_of_shards("cache/evaluations") == shards, "features are computed anew"
    assert [error["value"] for error in now["errors"]] == [error["value"] for error in then["errors"]]
    predicted = document(*VERBS["predict"])["metrics"]["metrics"]
    for name, metric in saved["predict"]["metrics"]["metrics"].items():
        assert predicted[name]["value"] == pytest.approx(metric["value"], rel=1e-3, abs=1e-3)
    assert everything("home") == home


@BY_NAME
def test_runs_of_a_curve_are_found_and_no_number_is_new(saved: dict[str, Any]) -> None:
    result, then = run(*VERBS["curve"], "--json"), saved["curve"]
    now = json.loads(result.stdout)
    assert "1 of 5:" not in result.stderr, "a run is made anew"
    assert (now["recorded"]["new"], now["recorded"]["known"]) == (0, then["recorded"]["new"])
    assert [one["risks"] for one in now["runs"]] == [one["risks"] for one in then["runs"]]
    metrics = zip(document(*VERBS["metric"])["metrics"], saved["metric"]["metrics"], strict=True)
    assert all(one["value"] == pytest.approx(other["value"], rel=1e-4) for one, other in metrics)
