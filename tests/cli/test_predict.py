"""The verb predict, and what evaluate keeps for it, with real encoders on real images."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from zoo.datasets import open_images
from zoo.evaluation import load_probe

ENCODER = "pocket_init_rn"
IMAGES = "shapes:classes=4,train=120,val=40,size_px=16"
QUICK = ("--settings", "full", "--no-knn", "--no-record", "--device", "cpu")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A saved probe, and what evaluate printed of it."""
    folder = tmp_path_factory.mktemp("saved") / "probe"
    (found,) = document("evaluate", ENCODER, IMAGES, *QUICK, "--save", str(folder))["evaluations"]
    return folder, found


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test images as files, in folders of their classes."""
    root = tmp_path_factory.mktemp("photos")
    images = open_images(IMAGES).val
    for number in range(len(images)):
        image, label = images[number]
        folder = root / "new" / images.classes[label]
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{number:03}.png")
    return root


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_evaluate_keeps_the_probe_with_its_metrics(saved: tuple[Path, dict[str, Any]]) -> None:
    folder, found = saved
    names = {path.name for path in folder.iterdir()}
    assert names == {"probe.json", "probe.safetensors", "confusion.png", "confusion.svg"}
    assert found["saved"] == str(folder) and found["metrics"]["n_judged_otherwise"] == 0
    (error,) = found["errors"]
    assert found["metrics"]["metrics"]["error"]["value"] == pytest.approx(error["value"])
    assert {"balanced_error", "auroc", "average_precision", "log_loss"} <= found["metrics"]["metrics"].keys()
    probe = load_probe(folder)
    assert (probe.encoder, len(probe.classes)) == (ENCODER, 4)
    assert probe.about["metrics"] == {key: one for key, one in found["metrics"].items() if key != "n_judged_otherwise"}


def test_predictions_are_written_with_the_probability_of_each_class(
    saved: tuple[Path, dict[str, Any]], photos: Path, tmp_path: Path
) -> None:
    out, probe = tmp_path / "predictions.csv", load_probe(saved[0])
    found = document("predict", str(saved[0]), str(photos), "--out", str(out), "--device", "cpu")
    rows = rows_of(out)
    assert list(rows[0]) == ["path", "predicted", *(f"p_{name}" for name in probe.classes)]
    assert len(rows) == found["n_images"] == 40 and found["out"] == str(out) and "predictions" not in found
    paths = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))
    assert [row["path"] for row in rows] == paths
    expected = probe.predict_images([photos / path for path in paths], device="cpu")
    shares = np.array([[float(row[f"p_{name}"]) for name in probe.classes] for row in rows])
    assert np.allclose(shares, expected.probabilities, atol=1e-5)
    assert [row["predicted"] for row in rows] == list(expected.predicted)
    assert sum(found["predicted"].values()) == 40


def test_folders_named_as_classes_are_labels(saved: tuple[Path, dict[str, Any]], photos: Path) -> None:
    found = document("predict", str(saved[0]), str(photos), "--device", "cpu")
    assert found["note"] == "labels are the names of the images' folders"
    for name, one in found["metrics"]["metrics"].items():  # of the images in another order
        assert one["value"] == pytest.approx(saved[1]["metrics"]["metrics"][name]["value"], abs=1e-3)
    text = run("predict", str(saved[0]), str(photos), "--device", "cpu").output
    for words in ("balanced error", "AUROC", "log loss", "calibration error", "Each class", "Confusion matrix"):
        assert words in text
    assert "--group patient" in run("predict", str(saved[0]), str(photos), "--group", "patient", code=2).output
    files = sorted(map(str, photos.rglob("*.png")))[:3][::-1]
    single = document("predict", str(saved[0]), *files, "--device", "cpu")["predictions"]
    assert [one["path"] for one in single] == files
    assert sum(single[0]["probabilities"].values()) == pytest.approx(1)


def test_image_sets_of_the_zoo_are_taken_by_their_part(saved: tuple[Path, dict[str, Any]]) -> None:
    folder = str(saved[0])
    found = document("predict", folder, IMAGES, "--device", "cpu")
    assert found["n_images"] == 40 and not found["trained_on_these"]
    assert found["metrics"]["metrics"] == saved[1]["metrics"]["metrics"]
    both = document("predict", folder, IMAGES, "--split", "both", "--device", "cpu")
    assert both["n_images"] == 160 and both["trained_on_these"]
    assert {one["path"].partition("/")[0] for one in both["predictions"]} == {"train", "val"}
    text = run("predict", folder, IMAGES, "--split", "train", "--device", "cpu").output
    assert "the probe was trained on these images" in text
    other = document("predict", folder, "shapes:classes=6,train=12,val=6,size_px=16", "--device", "cpu")
    assert other["metrics"] is None and "are no classes of the probe" in other["note"]


def test_images_that_cannot_be_read_are_named(saved: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    Image.new("RGB", (20, 16)).save(folder / "good.png")
    (folder / "bad.jpg").write_bytes(b"no image")
    out = tmp_path / "out.csv"
    assert "bad.jpg" in run("predict", str(saved[0]), str(folder), "--out", str(out), code=1).output
    assert not out.exists()
    found = document("predict", str(saved[0]), str(folder), "--out", str(out), "--skip-corrupt")
    assert [Path(name).name for name in found["skipped"]] == ["bad.jpg"] and found["metrics"] is None
    assert [row["path"] for row in rows_of(out)] == ["good.png"]
    assert (
        "1 image could not be read and was left out"
        in run("predict", str(saved[0]), str(folder), "--skip-corrupt").output
    )


def test_all_rows_of_a_new_table_are_predicted_with_labels_or_without(
    saved: tuple[Path, dict[str, Any]], photos: Path, tmp_path: Path
) -> None:
    paths = sorted(str(path) for path in (photos / "new").rglob("*.png"))
    with open(tmp_path / "new.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "label"], *([path, Path(path).parent.name] for path in paths)])
    with open(tmp_path / "unlabelled.csv", "w", newline="") as file:
        csv.writer(file).writerows([["path", "remark"], *([path, "a photo"] for path in paths)])
    arguments = ("predict", str(saved[0]), str(tmp_path / "new.csv"), "--device", "cpu")
    found = document(*arguments)
    assert found["n_images"] == found["metrics"]["n_images"] == len(paths) == 40
    assert [one["path"] for one in found["predictions"]] == paths
    part = document(*arguments, "--split", "val")
    assert part["n_images"] == 8 and document(*arguments, "--val-share", "0.5")["n_images"] == 20
    found = document("predict", str(saved[0]), str(tmp_path / "unlabelled.csv"), "--device", "cpu")
    assert found["n_images"] == 40 and found["metrics"] is None
    assert found["note"].startswith("without labels: ") and "has no column of labels" in found["note"]
    with open(tmp_path / "parts.csv", "w", newline="") as file:
        cells = [[path, Path(path).parent.name, "train" if i % 4 else "test"] for i, path in enumerate(paths)]
        csv.writer(file).writerows([["path", "label", "split"], *cells])
    found = document("predict", str(saved[0]), str(tmp_path / "parts.csv"), "--device", "cpu")
    assert found["n_images"] == 10 and "to test on; --split both takes all" in found["note"]


def test_an_export_lies_next_to_the_probe(tmp_path: Path) -> None:
    few = "shapes:classes=2,train=16,val=8,size_px=16"
    folder = tmp_path / "exported"
    document("evaluate", ENCODER, few, *QUICK, "--save", str(folder), "--export", "torch")
    assert (folder / "model.pt2").stat().st_size > 10_000
    assert load_probe(folder).encoder == ENCODER


def test_what_is_not_there_and_what_has_no_image_is_refused(saved: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder = str(saved[0])
    assert "There is no file, folder or image set 'nowhere'" in run("predict", folder, "nowhere", code=2).output
    two = ("predict", folder, str(saved[0] / "confusion.png"), "nowhere")
    assert "There is no file or folder 'nowhere'" in run(*two, code=2).output
    assert "holds no image" in run("predict", folder, str(tmp_path), code=1).output
    assert "--split both" in run("predict", folder, folder, "--split", "both", code=2).output  # a folder with pictures
    (tmp_path / "notes.txt").write_text("mine")
    refused = run("evaluate", ENCODER, IMAGES, *QUICK, "--save", str(tmp_path), code=2).output
    assert "holds 'notes.txt', which is of no saved probe" in refused


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of images with the tags bright and red, four of each group, split by group."""
    folder, random = tmp_path_factory.mktemp("tagged"), np.random.default_rng(0)
    lines = ["path,bright,red,patient,split"]
    for number in range(200):
        bright, red = random.random(2) < 0.4
        colour = np.array([60, 60, 60]) + 120 * bright + np.array([60, -40, -40]) * red
        pixels = np.clip(colour + random.normal(0, 25, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03}.png")
        lines.append(f"{number:03}.png,{bright:d},{red:d},p{number // 4},{'train' if number < 120 else 'val'}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")
    return folder / "images.csv"


TAGGED = ("--multi-label", "--group", "patient", "--device", "cpu")


def test_images_with_tags_have_one_probe_a_tag_whose_mean_precision_is_recorded(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "probe"
    (found,) = document("evaluate", ENCODER, str(table), *TAGGED, "--save", str(folder))["evaluations"]
    metrics = found["metrics"]["metrics"]
    assert found["tags"] == ["bright", "red"] and found["metrics"]["n_groups"] == 20
    assert metrics["tag_average_precision"]["value"] > 90 and metrics["tag_average_precision"]["ci_low"] > 60
    assert found["recorded"]["new"] == 1 and "label settings" in found["not_applicable"]
    (row,) = document("results", "--dataset", found["dataset"])["measurements"]
    assert (row["metric"], row["protocol"]) == ("tag_average_precision", "zoo-logistic-multilabel-1")
    assert row["value"] == pytest.approx(metrics["tag_average_precision"]["value"])
    assert load_probe(folder).classes == ("bright", "red") and not (folder / "confusion.png").exists()

    out = tmp_path / "tags.csv"
    predicted = document("predict", str(folder), str(table), *TAGGED, "--out", str(out))
    assert predicted["metrics"]["metrics"]["tag_average_precision"] == metrics["tag_average_precision"]
    rows = rows_of(out)
    assert len(rows) == 80 and set(rows[0]) == {"path", "predicted", "p_bright", "p_red"}
    for one in rows:
        named = [tag for tag in ("bright", "red") if float(one[f"p_{tag}"]) > 0.5]
        assert one["predicted"] == "|".join(named)
    text = run("predict", str(folder), str(table), "--device", "cpu").output  # tags of the probe, so tags of the table
    assert "mean average precision" in text and "Each tag" in text


def test_lists_and_arrays_without_labels_are_predicted_whole_and_a_folder_that_was_trained_on_is_said(
    saved: tuple[Path, dict[str, Any]], photos: Path, tmp_path: Path
) -> None:
    paths = sorted(str(path) for path in (photos / "new").rglob("*.png"))
    (tmp_path / "list.txt").write_text("\n".join(paths))
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
    np.savez(tmp_path / "new.npz", x=pixels)
    np.savez(tmp_path / "labelled.npz", x=pixels, y=[Path(path).parent.name for path in paths])
    for name in ("list.txt", "new.npz"):
        found = document("predict", str(saved[0]), str(tmp_path / name), "--device", "cpu")
        assert (found["n_images"], found["metrics"]) == (40, None) and found["note"].startswith("without labels: ")
    found = document("predict", str(saved[0]), str(tmp_path / "labelled.npz"), "--device", "cpu")
    assert found["n_images"] == found["metrics"]["n_images"] == 40 and not found["trained_on_these"]
    run("evaluate", ENCODER, str(photos / "new"), *QUICK, "--save", str(tmp_path / "probe"))
    assert document("predict", str(tmp_path / "probe"), str(photos / "new"), "--device", "cpu")["trained_on_these"]
    assert not document("predict", str(saved[0]), str(photos / "new"), "--device", "cpu")["trained_on_these"]
