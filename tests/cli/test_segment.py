"""The verb segment, what it keeps and shows, and masks that predict writes of new images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.datasets import open_dense
from zoo.datasets.dense import align_map
from zoo.datasets.images import array_images
from zoo.evaluation import load_probe
from zoo.evaluation.segmentation_runs import measure_segmentation, predict_maps
from zoo.loading import load_for_whole_images

ENCODER, IMAGES = "pocket_simclr_rn_shapes", "shapes:classes=3,train=90,val=30,size_px=32"
BOTH = (ENCODER, "pocket_simclr_vit_shapes")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segment")


@pytest.fixture(scope="module")
def found(out: Path) -> dict[str, Any]:
    """Two layers at two sizes, with a probe and a page."""
    more = ("--save", str(out / "probe"), "--page", str(out / "page.html"), "--boundary", "--out", str(out / "maps"))
    return document("segment", ENCODER, IMAGES, "--layers", "1,-1,1+2", "--px", "32,48", *more)


def test_layers_and_sizes_are_compared_with_intervals(found: dict[str, Any]) -> None:
    assert [(one["layers"], one["px"]) for one in found["results"]] == [
        (layers, px) for px in (32, 48) for layers in ([1], [2], [1, 2])
    ]
    assert found["classes"] == ["background", "stripes sphere", "stripes cube", "checks sphere", "bar"]
    for one in found["results"]:
        assert one["probe"]["protocol"] == "zoo-segment-2"
        assert {"miou", "pixel_accuracy", "boundary_f1", "iou background", "iou bar"} <= one["metrics"].keys()
        for metric in one["metrics"].values():
            assert metric["ci_low"] <= metric["value"] <= metric["ci_high"]
    best = max(found["results"], key=lambda one: one["tuning_score"])
    assert found["chosen"] == best["name"]


def test_the_saved_probe_predicts_the_masks_that_were_measured(found: dict[str, Any], out: Path) -> None:
    probe, data = load_probe(out / "probe"), open_dense(IMAGES, task="segmentation")
    assert (probe.kind, list(probe.classes)) == ("masks", found["classes"])
    (one,) = [one for one in found["results"] if one["name"] == found["chosen"]]
    right, n = 0, 0
    for i, (name, predicted) in enumerate(predict_maps(probe, data.val.images)):
        assert name == data.val.images.names[i]
        right, n = right + int((predicted == data.val.maps[i][0][:, :, 0]).sum()), n + predicted.size
    assert 100 * right / n == pytest.approx(one["metrics"]["pixel_accuracy"]["value"], abs=0.1)


def test_predict_writes_masks_at_the_size_of_each_image(found: dict[str, Any], out: Path) -> None:
    photos = out / "photos"
    (photos / "a").mkdir(parents=True)
    image = open_dense(IMAGES, task="segmentation").val.images[0][0]
    for name, size in (("a/1.png", (80, 50)), ("2.png", (31, 47)), ("2.jpg", (20, 20))):
        image.resize(size).save(photos / name)
    done = document("predict", str(out / "probe"), str(photos), "--out", str(out / "masks"))
    written = {path.relative_to(out / "masks").as_posix() for path in (out / "masks").rglob("*.png")}
    assert written == {"a/1.png", "2.png.png", "2.jpg.png"} and done["n_images"] == 3
    mask = Image.open(out / "masks/a/1.png")
    assert (mask.mode, mask.size) == ("P", (80, 50)) and set(np.unique(mask)) <= set(range(5))
    assert mask.getpalette()[3:9] == [128, 0, 0, 0, 128, 0]
    percent = next(one["percent"] for one in done["predictions"] if one["path"] == "a/1.png")
    assert percent["background"] == pytest.approx(100 * (np.asarray(mask) == 0).mean())
    assert "3 files written" in run("predict", str(out / "probe"), str(photos), "--out", str(out / "masks")).output


def test_the_page_shows_the_worst_typical_and_best_images_and_says_errors_in_words(
    found: dict[str, Any], out: Path
) -> None:
    text = (out / "page.html").read_text()
    assert found["page"] == str(out / "page.html") and text.count("<img") == 18 * 4 + 5
    for words in ("<h2>Worst</h2>", "<h2>Typical</h2>", "<h2>Best</h2>", "of pixels are wrong", "stripes cube"):
        assert words in text


def test_whole_images_are_resized_as_their_masks_are() -> None:
    _, transform, whole = load_for_whole_images(ENCODER, px=48)
    ramp = np.arange(60 * 90, dtype=np.float32).reshape(60, 90, 1)
    moved, valid = align_map(ramp, np.ones((60, 90), bool), whole)
    assert moved.shape == (1, 48, 48) and valid.all() and (moved[0, 0, 0], moved[0, -1, -1]) == (0, 60 * 90 - 1)
    assert transform(Image.new("RGB", (90, 60))).shape == (3, 48, 48)


def test_an_exported_probe_gives_the_probabilities_of_each_pixel(found: dict[str, Any], out: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    probe, data = load_probe(out / "probe"), open_dense(IMAGES, task="segmentation")
    probe.export_onnx(out / "model.onnx")
    px, transform = probe.about["px"], probe.network[1]
    pictures = np.stack([np.asarray(data.val.images[i][0].resize((px, px))) for i in range(3)])
    images = array_images(pictures, np.zeros(3, np.int64), name="new", split="new", classes=("image",))
    session = runtime.InferenceSession(str(out / "model.onnx"), providers=["CPUExecutionProvider"])
    pixels = np.stack([transform(image).numpy() for image, _ in images])
    (given,) = session.run(["probabilities"], {"images": pixels})
    assert given.shape == (3, 5, px, px) and np.allclose(given.sum(axis=1), 1, atol=1e-4)
    predicted = np.stack([one for _, one in predict_maps(probe, images)])
    assert (given.argmax(axis=1) == predicted).mean() > 0.999  # but for ties


def test_depth_has_errors_in_its_unit_and_is_predicted(out: Path) -> None:
    options = ("--target", "depth", "--save", str(out / "depth"), "--page", str(out / "depth.html"))
    done = document("segment", ENCODER, IMAGES, *options)
    assert (
        done["unit"] == "half widths of the image" and {"rmse", "within_ratio"} <= done["results"][0]["metrics"].keys()
    )
    image = out / "depth.png"
    open_dense(IMAGES, task="depth").val.images[0][0].resize((40, 24)).save(image)
    run("predict", str(out / "depth"), str(image), "--out", str(out / "depths"))
    (written,) = (out / "depths").rglob("*.npy")
    depth = np.load(written)
    assert depth.shape == (24, 40) and depth.min() > 0 and depth.max() < 10
    assert "half widths of the image" in (out / "depth.html").read_text()


def test_two_encoders_are_compared_image_by_image_and_ignored_classes_are_gone() -> None:
    printed = run("segment", *BOTH, IMAGES, "--ignore", "bar", "--balanced", "--no-record").output
    assert "paired interval" in printed and "on tuning images" in printed and "\nbar " not in printed
    assert all(f"{name}, block" in printed for name in BOTH)


def test_what_the_last_layer_measures_becomes_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    line = ("segment", ENCODER, IMAGES, "--layers", "1,2")
    assert document(*line)["recorded"]["new"] == 2 and document(*line)["recorded"]["known"] == 2
    assert document(*line, "--no-record")["recorded"] is None and document(*line, "--px", "48")["recorded"] is None
    other = run(*line, "--ignore", "bar", code=1).output
    assert "other images than those recorded" in other and "--dataset NAME" in other


def test_a_folder_with_a_probe_of_another_encoder_is_refused_before_any_work(found: dict[str, Any], out: Path) -> None:
    refused = run("segment", *BOTH, IMAGES, "--save", str(out / "probe"), code=2).output
    assert f"holds a probe of {ENCODER!r}" in refused and BOTH[1] in refused


REFUSED = {
    ("--layers", "first"): "expected whole numbers by comma, and ranges",
    ("--layers", "7"): "expected the number of a block, from 0 to 2",
    ("--px", "large"): "expected whole numbers by comma",
    ("--ignore", "tree"): "'tree' was to be ignored, and is no value or class",
    ("--target", "depth", "--balanced"): "--balanced has no effect: depth has no classes",
    ("--val-share", "0.3"): "says itself which images are to be tested on",
    ("--page", "page.txt"): "expected a name that ends in .html",
}


@for_each(REFUSED)
def test_what_makes_no_sense_is_refused_in_one_sentence(options: tuple[str, ...]) -> None:
    assert REFUSED[options] in run("segment", ENCODER, IMAGES, *options, code=2).output


def test_maps_stay_in_memory_without_a_folder() -> None:
    data = open_dense("shapes:classes=2,train=20,val=10,size_px=32", task="segmentation")
    (one,) = measure_segmentation([ENCODER], data, n_draws=50)
    assert one.predict(3).shape == (32, 32) and one.layers == (2,) and one.px == 32
