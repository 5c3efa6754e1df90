"""``zoo choose``: a plan, a choice on small images, its table, document and page, and refusals."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.evaluation.logistic import LogisticProbe

SHAPES = "shapes:classes=3,train=48,val=30,size_px=32,seed=1"
THREE = "pocket_simclr_rn_shapes,pocket_sup_rn_shapes_d24,pocket_simclr_rn_shapes_d24"
COMMAND = ("choose", SHAPES, "--encoders", THREE, "--device", "cpu", "--dataset", "my shapes")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choose")


@pytest.fixture(scope="module")
def chosen(kept: Path) -> Any:
    page = str(kept / "page.html")
    return document(*COMMAND, "--out", str(kept), "--page", page)


def test_the_document_has_the_ranking_the_costs_the_curve_and_the_next_command(chosen: Any, kept: Path) -> None:
    standings = chosen["race"]["standings"]
    assert {one["name"] for one in standings} == set(THREE.split(","))
    assert standings[0]["verdict"] == "leader"
    assert standings[0]["name"] == chosen["winner"]
    errors = [one["error"]["value"] for one in standings if one["status"] == "probed"]
    assert errors == sorted(errors)
    assert all(one["images_per_second"] > 0 and one["feature_bytes"] == 4 * one["dim"] * 78 for one in chosen["costs"])
    assert chosen["label_curves"][0]["encoder"] == chosen["winner"]
    assert chosen["commands"]["load"] == f'encoder, preprocess = zoo.load("{chosen["winner"]}")'
    assert chosen["commands"]["evaluate"] == (
        f"zoo evaluate {chosen['winner']} {SHAPES} --dataset 'my shapes' --to {kept} --device cpu --save DIR"
    )
    assert chosen["data"]["name"] == "my shapes"
    assert chosen["page"] == str(kept / "page.html")
    assert chosen["winner"] in (kept / "page.html").read_text(encoding="utf-8")


def test_the_next_command_runs_without_the_network_and_without_a_probe_of_all_labels(
    chosen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("zoo.features.computing._output", _never)
    fitted: list[int] = []
    whole_fit = LogisticProbe.fit

    def fit(self: LogisticProbe, x: Any, y: Any, **more: Any) -> LogisticProbe:
        fitted.append(len(y))
        return whole_fit(self, x, y, **more)

    monkeypatch.setattr(LogisticProbe, "fit", fit)
    words = shlex.split(chosen["commands"]["evaluate"].replace("DIR", str(tmp_path / "probe")))[1:]
    words += ["--page", str(tmp_path / "page.html")]  # whose probes of folds are those of the page of the choice
    (found,) = document(*words)["evaluations"]
    assert max(fitted) <= 15 < 48  # of five labels per class at most
    fitted.clear()
    (again,) = document(*words)["evaluations"]
    assert fitted == [] and again["errors"] == found["errors"] and again["metrics"] == found["metrics"]
    raised = chosen["race"]["standings"][0]["error"]["value"] - chosen["race"]["optimism"]  # for having been chosen
    assert found["errors"][-1]["value"] == pytest.approx(raised)
    assert Path(found["saved"], "probe.json").is_file()


def _never(*arguments: Any) -> Any:
    raise AssertionError("an image went through the network")


def test_a_second_call_computes_nothing_and_says_the_same_in_a_table(chosen: Any, kept: Path) -> None:
    again = (*COMMAND, "--out", str(kept))
    second = document(*again)
    assert [one["n_computed"] for one in second["costs"]] == [0, 0, 0]
    assert second["race"]["standings"] == chosen["race"]["standings"]
    result = run(*again)
    assert "Encoders for my shapes: 48 training and 30 test images, 3 classes" in result.stdout
    assert all(name in result.stdout for name in THREE.split(","))
    assert f"{chosen['winner']} has the lowest error" in result.stdout
    assert chosen["commands"]["evaluate"] in result.stderr
    assert len([line for line in result.stderr.splitlines() if not line.startswith("next, ")]) <= 5


def test_other_constraints_cost_nothing_new(chosen: Any, kept: Path) -> None:
    fewer = document(*COMMAND, "--out", str(kept), "--max-parameters", "30k")
    assert {one["name"] for one in fewer["race"]["standings"]} == set(THREE.split(",")[1:])
    assert [one["n_computed"] for one in fewer["costs"]] == [0, 0]
    assert fewer["plan"]["left_out"]["--max-parameters 30k"] == [THREE.split(",")[0]]


def test_a_dry_run_says_which_why_what_to_fetch_and_computes_nothing(kept: Path, tmp_path: Path) -> None:
    options = ("choose", SHAPES, "--dry-run", "--encoders", "4", "--device", "cpu", "--out", str(tmp_path / "none"))
    plan = document(*options)
    assert plan["dry_run"] is True
    assert len(plan["encoders"]) == 4
    assert all(one["why"] and one["expected_error"] > 0 for one in plan["encoders"])
    assert plan["fetch_bytes"] == sum(one["fetch_bytes"] or 0 for one in plan["encoders"]) > 10**8
    assert plan["sizes"][-1] == [48, 30]
    assert plan["images"].keys() >= {"train", "val"}
    result = run(*options, "-v")
    assert "To fetch: about" in result.stdout
    assert all(one["name"] in result.stdout and one["why"] in result.stderr for one in plan["encoders"])
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_meant_is_refused_in_a_sentence() -> None:
    for options, words in (
        ("--time 30", "got '30', expected a time"),
        ("--max-memory big", "expected memory such as 8GB"),
        ("--encoders 0", "expected a number such as 12"),
        ("--encoders pocket_simclr_rn_shape", "did you mean pocket_simclr_rn_shapes"),
        ("--licence MTI", "There is no licence named 'MTI'"),
        ("--page choice.txt", "ends in .html"),
        ("--dry-run --decompose", "--decompose has no effect"),
        ("--encoders init_rn50", "'untrained' removes all 1"),
        ("--max-parameters 1k", "the nearest: pocket_"),
        ('--offline --where card_family=="dinov2"', "can be tried here"),
    ):
        result = run("choose", SHAPES, *options.split(), code=2)
        assert words in " ".join(result.output.split())
        assert result.stdout == ""


def test_the_next_command_names_the_images_with_the_options_of_their_source(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines = ["path,a b,c,patient"]
    for i in range(24):
        Image.fromarray(generator.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png,{i % 2},{i // 2 % 2},{i}")
    (tmp_path / "my table.csv").write_text("\n".join([*lines, ""]))
    table = str(tmp_path / "my table.csv")
    options = ("--val-share", "0.3", "--label-columns", "a b,c", "--group", "patient")
    spelled = document("choose", table, "--dry-run", "--encoders", THREE, *options)["data"]["spelled"]
    assert shlex.split(spelled) == [table, *options]
    flag = document("choose", table, "--dry-run", "--encoders", THREE, "--multi-label", "--group", "patient")
    assert shlex.split(flag["data"]["spelled"]) == [table, "--multi-label", "--group", "patient"]
