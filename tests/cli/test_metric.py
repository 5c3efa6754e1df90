"""The verb metric, with a real encoder on real images and with files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli_runner import document, run
from zoo.evaluation.label_free.rank import rankme
from zoo.evaluation.label_free.scatter import lidar
from zoo.evaluation.transferability import logme, ridge_predictions
from zoo.results.recording import find_provenance
from zoo.results.rows import measurements
from zoo.results.vocabulary import FEATURE_METRICS, TRANSFERABILITY_SCORES

pytestmark = pytest.mark.usefixtures("home")

ENCODER = "pocket_simclr_rn_shapes"
IMAGES = "shapes:classes=4,train=300,val=100,size_px=16"
DATASET = "shapes-4-classes-16px"
SMALL = ("--views-of", "60", "--views", "4", "--set", "mutual_information.n_steps=5")


@pytest.fixture
def views(tmp_path: Path) -> tuple[Path, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 1, 6)) + 0.3 * rng.normal(size=(40, 5, 6))
    np.save(tmp_path / "views.npy", z)
    return tmp_path / "views.npy", z


def test_all_metrics_of_an_encoder_are_computed_and_recorded_once(home: Path) -> None:
    first = document("metric", "all", ENCODER, IMAGES, *SMALL, "--target", "digits")
    found = {one["metric"]: one for one in first["metrics"]}
    assert "No data set to transfer to" in run("metric", "rankme,target_label_entropy", ENCODER, IMAGES).output
    assert found.keys() == FEATURE_METRICS.keys()
    assert all(one["value"] is not None and not one["reason"] for one in found.values())
    assert found["rankme"]["n_images"] == 300 and found["lidar"]["n_views"] == 4 and found["lidar"]["n_images"] == 60
    assert first["recorded"]["new"] == len(found)
    rows = {row.metric: row for row in measurements() if row.dataset == DATASET}
    assert rows["rankme"].value == found["rankme"]["value"] and rows["rankme"].protocol == "zoo-label-free-1"
    assert rows["lidar"].protocol == "zoo-label-free-1 (n=60, q=4)"
    assert rows["lidar"].split == "train pretraining-augmented"
    again = document("metric", "all", ENCODER, IMAGES, *SMALL, "--target", "digits")
    assert (again["recorded"]["new"], again["recorded"]["known"]) == (0, len(found))
    report = (find_provenance(rows["lidar"]) or {})["report"]
    assert report["ratio"] == found["lidar"]["details"]["ratio"] > 1
    assert report["notes"] == [*first["notes"], *found["lidar"]["notes"]]
    shown = document("results", "--dataset", DATASET)["measurements"]
    assert "cluster_learnability" in {row["metric"] for row in shown}


def test_files_give_what_the_functions_give(tmp_path: Path, views: tuple[Path, np.ndarray]) -> None:
    path, z = views
    (found,) = document("metric", "lidar", str(path))["metrics"]
    assert found["value"] == lidar(z).value and found["details"]["n_images"] == 40
    (found,) = document("metric", "lidar", str(path), "--set", "lidar.delta=0.5")["metrics"]
    assert found["value"] == lidar(z, delta=0.5).value
    np.savez(tmp_path / "rows.npz", z=z.reshape(-1, 6), ids=np.repeat(np.arange(40), 5))
    values = {one["metric"]: one["value"] for one in document("metric", "all", str(tmp_path / "rows.npz"))["metrics"]}
    assert values["lidar"] == pytest.approx(lidar(z).value) and values["rankme"] == rankme(z.reshape(-1, 6))
    assert values["mutual_information"] is None


def test_scores_of_labelled_features_come_from_files_and_are_recorded_by_their_protocol(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    z = rng.normal(size=(3, 8))[y] + rng.normal(size=(60, 8))
    np.savez(tmp_path / "rows.npz", z=z, y=y)
    (found,) = document("metric", "logme", str(tmp_path / "rows.npz"), "--set", "logme.intercept=true")["metrics"]
    assert found["value"] == logme(z, y, intercept=True).value and found["unit"] == "nats"
    everything = document("metric", "all", str(tmp_path / "rows.npz"))["metrics"]
    values = {one["metric"]: one["value"] for one in everything}
    assert all(values[name] is not None for name in TRANSFERABILITY_SCORES)
    np.savez(tmp_path / "grouped.npz", z=z, y=y, groups=np.arange(60) // 6)
    grouped = document("metric", "leave_one_out_ridge,h_score", str(tmp_path / "grouped.npz"))["metrics"]
    assert grouped[0]["value"] == ridge_predictions(z, y, groups=np.arange(60) // 6).value
    assert grouped[1]["value"] == values["h_score"]
    np.savez(tmp_path / "alone.npz", z=z)
    assert "y is missing" in run("metric", "logme", str(tmp_path / "alone.npz"), code=2).output
    document("metric", "gbc,h_score", ENCODER, IMAGES, "--n-images", "100", "--split", "val", "--set", "gbc.floor=0.01")
    rows = {row.metric: row for row in measurements() if row.dataset == DATASET}
    assert rows["gbc"].protocol == "zoo-transferability-1 (floor=0.01, n_images=100)" and rows["gbc"].split == "val"
    assert rows["h_score"].protocol == "zoo-transferability-1 (n_images=100)" and rows["h_score"].n_train is None


def test_bad_requests_get_one_sentence(views: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    flat, broken = views[1][:, 0], views[1].copy()
    broken[3, 0, 0] = np.nan
    np.save(tmp_path / "flat.npy", flat)
    np.save(tmp_path / "nan.npy", broken)
    (tmp_path / "text.npy").write_text("no array")
    for arguments, expected, code in (
        ((), "--list", 2),
        (("rank_me", "x.npy"), "did you mean rankme", 2),
        (("rankme", "nowhere.npy"), "There is no nowhere.npy", 1),
        (("lidar", views[0], "--set", "delta=1"), "METRIC.NAME=VALUE", 2),
        (("rankme", views[0]), "one row per image", 2),
        (("one_shot_accuracy", views[0]), "y, z_val, y_val are missing", 2),
        (("lidar", tmp_path / "flat.npy"), "several views of each image", 2),
        (("lidar", tmp_path / "nan.npy"), "NaN", 1),
        (("rankme", tmp_path / "text.npy"), "cannot be read as features", 1),
    ):
        result = run("metric", *map(str, arguments), code=code)
        assert expected in result.output and len(result.output.strip().splitlines()) == 1
