"""The verbs evaluate, features, probe and decompose, with real encoders on real images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.evaluation.featurising import evaluations_folder
from zoo.results import measurements

ENCODER = "pocket_simclr_rn_shapes"
IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
DATASET = "shapes-4-classes-16px"
QUICK = ("--settings", "full,5-shot", "--seeds", "2", "--subsets", "2")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of a user who has measured nothing; the cache of features stays, for it changes no number."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("features")
    found = document("features", ENCODER, IMAGES, "--out", str(root))
    return {one["part"]: one["folder"] for one in found["features"]}


def test_an_encoder_is_measured_and_every_number_recorded_once(home: Path) -> None:
    (first,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose")["evaluations"]
    assert {error["setting"]: error["n_train"] for error in first["errors"]} == {"5-shot": 20, "full": 120}
    parts = first["decomposition"]["parts"]
    assert parts["approximation"] is None
    total = sum(part["value"] for part in parts.values() if part)
    assert total == pytest.approx(first["decomposition"]["full_shot_error"]["value"])
    assert first["recorded"]["new"] == len([row for row in measurements() if row.dataset == DATASET]) == 10
    (again,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose")["evaluations"]
    assert (again["recorded"]["new"], again["recorded"]["known"]) == (0, 10)
    assert again["errors"] == first["errors"]
    rows = document("results", "--dataset", DATASET)["measurements"]
    assert {row["metric"] for row in rows} >= {"linear_probe_error", "knn_error", "encoder_generalization"}
    assert (home / "results" / "measured" / f"{ENCODER}.csv").is_file()


def test_the_table_shows_prediction_beside_measurement_and_says_where_the_assumption_fails(home: Path) -> None:
    text = run("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--no-record").output
    assert "law predicts" in text and "5-shot" in text and "encoder generalization" in text
    assert f"{ENCODER} was pretrained on shapes, not on {DATASET}" in text
    assert not (home / "results").exists()


def test_the_single_steps_give_what_the_whole_gives(folders: dict[str, str]) -> None:
    (whole,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--no-record")["evaluations"]
    probed = document("probe", folders["train"], folders["val"], *QUICK[:4])
    assert [(error["setting"], error["value"]) for error in probed["errors"]] == [
        (error["setting"], error["value"]) for error in whole["errors"]
    ]
    parts = document("decompose", folders["train"], folders["val"], "--subsets", "2")["parts"]
    assert parts == whole["decomposition"]["parts"]


def test_a_changed_setting_is_another_protocol(folders: dict[str, str]) -> None:
    few = ("--settings", "5-shot", "--seeds", "1", "--no-knn")
    usual = document("probe", folders["train"], folders["val"], *few)
    changed = document("probe", folders["train"], folders["val"], *few, "--set", "stop=scikit-learn", "--set", "Cs=5")
    assert usual["protocol"] == "zoo-logistic-2"
    assert changed["protocol"] == 'zoo-logistic-2 (Cs=5, stop="scikit-learn")'
    assert changed["errors"][0]["runs"][0]["report"]["stop"] == "scikit-learn"
    for wrong, says in (("speed=9", "speed"), ("tol", "NAME=VALUE"), ("select=beauty", "beauty")):
        assert says in run("probe", folders["train"], folders["val"], *few, "--set", wrong, code=2).output


def test_a_twin_splits_approximation_from_usability(folders: dict[str, str]) -> None:
    found = document("decompose", folders["train"], folders["val"], "--subsets", "1", "--supervised", "2.5")
    assert found["parts"]["approximation"]["value"] == 2.5
    own = run("decompose", folders["train"], folders["val"], "--supervised", folders["train"], code=1).output
    assert "trained as 'contrastive'" in own
    twin = document("evaluate", ENCODER, IMAGES, *QUICK, "--decompose", "--supervised", "pocket_sup_rn_shapes")
    parts = twin["evaluations"][0]["decomposition"]["parts"]
    assert parts["approximation"]["value"] + parts["usability"]["value"] == pytest.approx(
        parts["approximation_plus_usability"]["value"]
    )


def test_several_representations_are_measured_each_on_its_own() -> None:
    names = ("init_vitS16@avg", "init_vitS16@cls:10")
    few = "shapes:classes=2,train=16,val=8,size_px=16"
    found = document("evaluate", *names, few, "--settings", "full", "--no-knn", "--no-record")["evaluations"]
    assert [(one["encoder"], one["dim"]) for one in found] == [(names[0], 384), ("init_vitS16@cls:10", 384)]


def test_an_encoder_that_cannot_be_measured_does_not_stop_the_others() -> None:
    few = "shapes:classes=2,train=12,val=8,size_px=16"
    result = run("evaluate", "pirl_rn50", ENCODER, few, "--settings", "full", "--json", code=1)
    assert '"failed": [\n  {"encoder": "pirl_rn50"' in result.stdout and "1 of 2 encoders" in result.stderr


def folder_of_images(root: Path, counts: dict[str, int]) -> Path:
    random = np.random.default_rng(0)
    for name, n in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(n):
            pixels = random.integers(0, 256, size=(16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def test_a_corrupt_image_ends_the_run_with_its_name_and_can_be_left_out(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "pets", {"cat": 20, "dog": 20})
    (root / "cat" / "3.png").write_bytes(b"no image")
    refused = run("evaluate", ENCODER, str(root), "--settings", "full", code=1).output
    assert "3.png" in refused and "--skip-corrupt" in refused
    (found,) = document("evaluate", ENCODER, str(root), "--settings", "full", "--skip-corrupt")["evaluations"]
    assert [name.rsplit("/", 1)[-1] for part in found["skipped"].values() for name in part] == ["3.png"]
    assert found["n_train"] + found["n_test"] == 39


@pytest.mark.parametrize(
    ("counts", "arguments", "says", "code"),
    [
        ({"cat": 30}, (), "class", 1),
        ({"cat": 30, "dog": 6}, ("--settings", "10-shot"), "dog", 1),
        ({"cat": 30, "dog": 30}, ("--settings", "many"), "many", 2),
        ({"cat": 30, "dog": 30}, ("--device", "abacus"), "abacus", 2),
        ({"cat": 30, "dog": 30}, ("--supervised", "no_such_encoder"), "no_such_encoder", 2),
        ({"cat": 30, "dog": 30}, ("--decompose", "--supervised", "130"), "130", 2),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, counts: dict[str, int], arguments: Any, says: str, code: int
) -> None:
    root = folder_of_images(tmp_path / "pets", counts)
    message = run("evaluate", ENCODER, str(root), *arguments, code=code).stderr
    assert says in message and len(message.strip().splitlines()) == 1


def test_features_of_another_encoder_or_the_same_images_are_refused(folders: dict[str, str], tmp_path: Path) -> None:
    few = "shapes:classes=4,train=24,val=16,size_px=16"
    other = document("features", "pocket_simclr_rn_shapes_d24", few, "--part", "val", "--out", str(tmp_path))[
        "features"
    ][0]["folder"]
    assert "encoder" in run("probe", folders["train"], other, code=1).output
    assert "same" in run("probe", folders["train"], folders["train"], code=1).output
    assert "training images first" in run("probe", folders["val"], folders["train"], code=1).output
    assert "no features folder" in run("probe", folders["train"], str(tmp_path / "none"), code=1).output


def test_what_is_kept_lies_in_the_cache_unless_a_folder_is_named(tmp_path: Path) -> None:
    found = document("features", ENCODER, IMAGES, "--part", "val")["features"][0]
    assert Path(found["folder"]).is_relative_to(evaluations_folder())
    elsewhere = document("features", ENCODER, IMAGES, "--part", "val", "--out", str(tmp_path))["features"][0]
    assert Path(elsewhere["folder"]).is_relative_to(tmp_path)
