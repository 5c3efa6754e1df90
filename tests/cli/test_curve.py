"""The verb curve, with real encoders that are really trained."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.children import Child
from tests.cli_runner import document, run
from tests.drawn_curves import curve
from zoo.cli import main
from zoo.cli.curve import collect_notes, parse_seeds, print_curves
from zoo.errors import QueryError
from zoo.results.rows import measurements

ENCODER = "pocket_simclr_rn_shapes"
SHAPES = "shapes:classes=4,train=60,val=20,size_px=16"
QUICK = ("--learning-rates", "3e-3", "--set", "least_steps=4", "--set", "most_steps=4")
DEPTH = ("curve", ENCODER, SHAPES, "--task", "depth", "--maximal", "0.01")


pytestmark = pytest.mark.usefixtures("own_folders")


def test_a_dense_task_gives_curves_figures_a_strip_and_rows_and_is_not_measured_twice(tmp_path: Path) -> None:
    wanted = (*DEPTH, "--regimes", "20,all", "--seeds", "2", *QUICK, "--out", str(tmp_path / "out"))
    result = run(*wanted, "--json")
    assert result.stderr.startswith("9 runs\n1 of 9: constant baseline: depth_l1_error ")
    assert "9 of 9: pocket_simclr_rn_shapes, 60 images, seed 1: depth_l1_error " in result.stderr
    found = json.loads(result.stdout)
    (shown,) = found["curves"]
    assert shown["encoder"] == ENCODER and shown["maximal"]["value"] == 0.01 and shown["frozen"] is False
    assert [(point["n_requested"], point["n_actual"], point["n_seeds"]) for point in shown["points"]] == [
        (20, 20, 2),
        (60, 60, 2),
    ]
    names = {"curves_depth_l1_error.png", "curves_depth_l1_error.svg", "strip.png", "strip.svg", "curves.json"}
    assert {Path(path).name for path in found["files"]} == names == {path.name for path in (tmp_path / "out").iterdir()}
    assert Image.open(tmp_path / "out" / "strip.png").width > 1000
    kept = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert kept["curves"] == found["curves"] and len(kept["figures"]) == 2
    rows = [row for row in measurements() if row.metric == "depth_l1_error" and row.source == "own"]
    assert len(rows) == found["recorded"]["new"] == 10  # 9 runs and the recorded risk
    scratch = [run for run in found["runs"] if run["control"] == "scratch" and run["n_requested"] == 20]
    told = {row.seed: row.value for row in rows if "scratch" in row.protocol and row.n_train == 20}
    assert told == {one["seed"]: pytest.approx(one["risks"]["depth_l1_error"]) for one in scratch}
    again = run(*wanted)
    assert "0 rows added" in again.output and "10 were there" in again.output
    assert "of 9:" not in again.output  # nothing was trained


def test_a_part_of_the_work_says_how_much_is_left_to_the_others(tmp_path: Path) -> None:
    wanted = [*DEPTH, "--seeds", "1", *QUICK, "--no-record"]
    runs = {"done": 3, "all": 5, "folder": str(tmp_path / "runs")}
    part = [*wanted, "--regimes", "20,all", "--to", str(tmp_path / "runs"), "--part", "1/2"]
    assert document(*part) == {"part": {"k": 1, "n": 2}, "runs": runs}
    for options, sentence in (
        (["--part", "1/2"], "runs of all parts"),
        (["--on", "local", "--processes", "2"], "--processes"),
        (["--cpus-each", "2"], "add --on"),
        (["--to", "memory://runs"], "expected a folder"),
        (["--part", "3/2"], "expected K/N"),
    ):
        assert sentence in run(*wanted, *options, code=2).stderr


def test_a_stopped_command_of_several_encoders_is_a_run_that_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, names = tmp_path / "stopped", (ENCODER, "pocket_init_rn")
    how = [*names, SHAPES, *DEPTH[3:], "--regimes", "20,40,all", "--seeds", "2", *QUICK, "--no-record"]
    out = ["--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["zoo", "curve", *how, *out, "--to", str(place), "--part", "1/1"])
    process = Child(main).process
    while not list(place.glob("*.npz")):
        assert process.is_alive()
        time.sleep(0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join()
    kept = {path.name: path.read_bytes() for path in place.glob("*.npz")}
    (listed,) = document("runs", "ls", str(place))["runs"]
    assert (listed["verb"], listed["state"], listed["n_complete"], listed["n_features"]) == (
        "curve",
        "interrupted",
        0,
        2,
    )
    assert listed["command"] == ["curve", *how, *out] and listed["encoders"] == list(names)
    found = document("runs", "resume", str(place), listed["run"], "--on", "local:2")
    assert kept.items() <= {path.name: path.read_bytes() for path in place.glob("*.npz")}.items()
    whole = document("curve", *how, "--to", str(tmp_path / "whole"), "--part", "1/1")
    assert found["curves"] == whole["curves"] and (tmp_path / "out" / "curves.json").is_file()
    (listed,) = document("runs", "ls", str(place))["runs"]
    assert (listed["state"], listed["n_complete"]) == ("done", 2)


def test_a_classification_prints_risks_between_blind_guess_and_maximal_supervision(own_folders: Path) -> None:
    how = "--frozen --learning-rates 3e-3 --set most_steps=40 --set least_steps=40 --no-record --verbose"
    text = run("curve", "pocket_simclr_rn_digits", "digits", "--regimes", "30,all", "--seeds", "4,", *how.split())
    lines = text.stdout.splitlines()
    assert lines[1] == "Transfer error on digits in percent, 451 test images"
    assert lines[3].split()[:2] == ["encoder", "CCI"]
    assert lines[6].startswith("constant baseline 89.8 (") and ", maximal supervision " in lines[6]
    header, first, last = (line.split() for line in lines[8:11])
    around = ["images", "only"]  # of one seed
    assert header == ["encoder", "labels", "risk", *around, "cR", *around, "scratch", "gain", "it", "needs"]
    assert "images only: over test images alone" in text.stderr
    written = own_folders / "zoo_cache" / "curves" / "figures" / "digits-classification" / "curves.json"
    report = json.loads(written.read_text())
    assert report["curves"][0]["intervals_over"] == ["test images"]
    assert "95 % intervals over test images only" in report["figures"][0]["caption"]
    assert "(images only)" in written.with_name("curves_transfer_error.svg").read_text()
    assert first[:3] == ["pocket_simclr_rn_digits", "(frozen)", "30"] and last[2] == "1,346"
    assert "one run: nothing is known of the spread over seeds" in text.stderr
    assert "strip" not in text.stderr and "curves_transfer_error.png, curves.json" in text.stderr
    assert (own_folders / "zoo_cache" / "curves" / "figures" / "digits-classification" / "curves.json").is_file()
    assert not (own_folders / "zoo_home" / "results").exists()


def test_figures_that_cannot_be_written_do_not_cost_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    out = str(tmp_path / "taken" / "below")
    found = document(*DEPTH, "--regimes", "20,all", "--seeds", "1", *QUICK, "--out", out, code=1)
    (problem,) = found["problems"]
    assert "could not be written" in problem and "--out" in problem
    assert found["recorded"]["new"] == 6 and found["files"] == []


def test_bad_requests_get_one_sentence() -> None:
    depth, classes = (ENCODER, SHAPES, "--task", "depth"), (ENCODER, SHAPES, "--task", "classification")
    for code, arguments, expected in (
        (2, ("pocket_simclr", SHAPES, "--task", "depth"), "There is no encoder named 'pocket_simclr'; did you mean"),
        (2, (ENCODER, SHAPES), "expected one of classification, depth, normals (--task)"),
        (2, (ENCODER, "digits", "--task", "depth"), "There is no image set with maps of depth named 'digits'"),
        (2, (*depth, "--regimes", "20,x"), "The regime 'x' is no number of images"),
        (2, (*depth, "--regimes", "20,1k"), "A regime of 1,000 images was asked for"),
        (2, (*depth, "--regimes", "20,20"), "each once"),
        (2, (*depth, "--seeds", "0"), "Got --seeds '0'"),
        (2, (*depth, "--learning-rates", "fast"), "Got the learning rates 'fast'"),
        (2, (*depth, "--set", "least_step=3"), "did you mean least_steps"),
        (2, (*depth, "--set", "patience=long"), "Got --set patience=long"),
        (2, (*depth, "--epochs", "2", "--set", "epochs=3"), "expected it once"),
        (2, (*depth, "--batch-size", "0"), "batch_size=0"),
        (2, (*depth, "--device", "abacus"), "The device 'abacus' cannot be used here"),
        (1, (*classes, "--regimes", "2,all"), "has no image of the class"),
        (1, (*depth, "--regimes", "20,all", *QUICK, "--maximal", "99"), "Maximal supervision has a risk of 99"),
    ):
        result = run("curve", *arguments, code=code)
        (line,) = [line for line in result.stderr.splitlines() if not line.startswith(("1 of", "5 runs", "13 runs"))]
        assert line.startswith("Error: ") and expected in line and result.stdout == ""


def test_seeds_are_a_number_or_a_list() -> None:
    assert parse_seeds("3") == (0, 1, 2) and parse_seeds("2, 7") == (2, 7) and parse_seeds("5,") == (5,)
    for wrong in ("", "0", "-1", "a", "1,1", "1,,2", "1.5"):
        with pytest.raises(QueryError, match="expected their number from 1 to 1000"):
            parse_seeds(wrong)


def test_a_note_of_several_encoders_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    curves = [curve("a"), curve("b", calibrated=[0.5, 0.4, 0.3, 0.1, -0.2])]
    assert sum("calibrated risk of the encoder is below 0" in note for note in collect_notes(curves)) == 1
    assert any(note.startswith("b: With 1,000 labels") for note in collect_notes(curves))
    print_curves(curves)
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "Normals angular error on shapes-10-classes in degrees, 1,000 test images"
    assert printed[4].split()[:2] == ["a", "0.40"] and printed[4].endswith("0.95 to 0.08")
    assert printed[7].startswith("constant baseline 30.0 (30.0 to 30.0), maximal supervision 10.0 (9.8 to 10.2)")
    assert printed[10].split()[:3] == ["a", "50", "21.4"]  # 10 + 20 * 0.57
    assert printed[10].split()[-3:-1] == ["40", "%"]
