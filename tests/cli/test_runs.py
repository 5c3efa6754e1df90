"""``zoo features`` of many encoders, and ``zoo runs``: what is told, refused, stopped and gone on with."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.children import Child
from tests.cli_runner import document, run
from zoo.cli import main
from zoo.execution.journal import list_run_records
from zoo.storage import resolve_place

NAMES = ("pocket_simclr_rn_shapes", "pocket_init_rn")
FEW = "shapes:train=60,val=30"
MANY = "digits"  # two shards to train on


def features(images: str, place: Path, *more: str, code: int = 0) -> Any:
    return document("features", *NAMES, images, "--to", str(place), *more, code=code)


def indexes(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("index.json"))}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    place = tmp_path_factory.mktemp("few")
    return place, features(FEW, place)


def test_features_of_several_encoders_are_a_list_and_a_run(few: tuple[Path, Any]) -> None:
    place, found = few
    assert [one["encoder"] for one in found["encoders"]] == list(NAMES)
    for one in found["encoders"]:
        assert [(part["part"], part["n_images"], part["dim"]) for part in one["features"]] == [
            ("train", 60, 48),
            ("val", 30, 48),
        ]
        assert (Path(one["features"][0]["folder"]) / "index.json").is_file()
    assert found["run"]["items"]["done"] == 2 and not found["run"]["failed"]
    again = features(FEW, place)
    assert again["run"]["run"] == found["run"]["run"] and again["run"]["items"]["planned"] == 0


def test_a_list_of_runs_says_how_far_they_are(few: tuple[Path, Any]) -> None:
    place, found = few
    (listed,) = document("runs", "ls", str(place))["runs"]
    assert (listed["run"], listed["state"]) == (found["run"]["run"], "done")
    assert (listed["n_features"], listed["n_complete"]) == (4, 4)
    assert listed["command"] == ["features", *NAMES, FEW]
    told = run("runs", "ls", str(place)).stdout.splitlines()[1].split()
    assert told[:5] == [found["run"]["run"], "features", "done", "2", "4/4"]
    assert "4 of 4 features are complete" in run("runs", "why", str(place), listed["run"][:5]).stdout


def test_sigterm_leaves_what_resume_goes_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, place = tmp_path / "whole", tmp_path / "stopped"
    features(MANY, whole, "--part", "1/1")
    monkeypatch.setattr(sys, "argv", ["zoo", "features", *NAMES, MANY, "--to", str(place), "--part", "1/1"])
    process = Child(main).process
    patience = time.monotonic() + 100
    while not list(place.rglob("shard-*")) and time.monotonic() < patience:
        assert process.is_alive()
        time.sleep(0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 143
    (record,) = list_run_records(resolve_place(place))
    assert [writer.state for writer in record.writers] == ["interrupted"]
    (listed,) = document("runs", "ls", str(place))["runs"]
    assert listed["state"] == "interrupted" and listed["n_complete"] < 4
    missing = document("runs", "why", str(place))["incomplete"]
    assert any(0 < one["missing_shards"] < one["shards"] for one in missing), missing
    resumed = document("runs", "resume", str(place), record.run[:6], "--part", "1/1")
    assert resumed["run"]["run"] == record.run and not resumed["run"]["incomplete"]
    assert indexes(place) == indexes(whole)
    assert document("runs", "ls", str(place))["runs"][0]["state"] == "done"


def test_an_encoder_without_weights_fails_alone_and_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    names = (NAMES[0], "dino_vitS16")
    failed = run("features", *names, FEW, "--to", str(tmp_path), code=1)
    assert "1 of 2 encoders could not be finished; the first, 'dino_vitS16'" in failed.stderr
    assert f"zoo runs why {tmp_path}" in failed.stderr
    told = document("runs", "why", str(tmp_path))
    assert told["state"] == "failed"
    assert [one["encoders"] for one in told["failures"]] == [["dino_vitS16"], ["dino_vitS16"]]
    assert told["failures"][0]["images"] == [0, 1024] and len(told["failures"][0]["tries"]) == 1
    assert {(one["encoder"], one["missing_shards"]) for one in told["incomplete"]} == {("dino_vitS16", 1)}
    printed = run("runs", "why", str(tmp_path)).stdout
    assert "dino_vitS16: train, images 0 to 1,023" in printed and "try 1: " in printed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--part", "9/8"), "9/8"),
        (("--part", "train"), "Got --part train, expected K/N, a part of the work by number; write --split train."),
        (("--on", "local:0"), "local:0"),
        (("--on", "slurm"), "slurm"),
        (("--gpus-each", "0.5"), "--gpus-each 0.5 has no effect: this process computes by itself"),
    ],
)
def test_options_of_engines_that_make_no_sense_are_refused(
    options: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    assert sentence in run("features", *NAMES, FEW, "--to", str(tmp_path), *options, code=2).output
