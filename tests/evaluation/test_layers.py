"""Every block, pooling and size of a real encoder on real images: what is measured, stored, chosen and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from zoo.cards.catalogue import load_catalogue
from zoo.datasets import ImageData, array_images, digits_data
from zoo.errors import DataError, QueryError
from zoo.evaluation.evaluating import featurise_data
from zoo.evaluation.layer_figure import build_layer_map, compute_fifths, make_layer_figure
from zoo.evaluation.layers import LayersReport, build_sized_cards, measure_layers
from zoo.evaluation.transferability import ridge_predictions
from zoo.features import load_features
from zoo.features.store import read_index
from zoo.storage import LocalLocation

VIT, RESNET = "pocket_simclr_vit_shapes", "pocket_simclr_rn_shapes"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluations")


@pytest.fixture(scope="module")
def report(root: Path) -> LayersReport:
    return measure_layers(VIT, few(), resolutions=[48], root=root, n_probed=2)


def few() -> ImageData:
    """A part of the digits, as a data set of its own."""
    whole = digits_data()
    train = whole.train.subset(np.arange(150), split="train")
    return ImageData(name="few digits", train=train, val=whole.val.subset(np.arange(120), split="val"))


def test_every_variant_has_its_errors_and_its_cost(report: LayersReport) -> None:
    assert len(report.variants) == 2 * 9 and (report.n_train, report.n_test, report.n_classes) == (150, 120, 10)
    assert {one.px for one in report.variants} == {32, 48}
    default = report.variants[report.default]
    assert (default.name, default.px, default.pooling, default.number) == (VIT, 32, "cls+avg", 2)
    for one in report.variants:
        assert 0 <= one.train_error.value <= 100 and one.seconds > 0
        assert one.train_error.ci_low <= one.train_error.value <= one.train_error.ci_high  # type: ignore[operator]
        assert one.behind.value == pytest.approx(one.test_error.value - report.chosen.test_error.value)
    by_block = [one.gflops for one in report.variants if one.px == 32 and one.pooling == "cls"]
    assert by_block == sorted(by_block) and len(set(by_block)) == 3
    assert report.chosen.train_error.value == min(one.train_error.value for one in report.variants)
    assert sum(one.probe_error is not None for one in report.variants) in (2, 3)
    assert default.probe_error is not None and report.chosen.probe_error is not None


def test_the_numbers_are_those_of_the_features_that_the_names_give(report: LayersReport, root: Path) -> None:
    data = few()
    for name in (VIT, f"{VIT}@cls:0", f"{VIT}@cls+avg:1"):
        one = next(one for one in report.variants if (one.name, one.px) == (name, 32))
        alone = featurise_data(name, data, root=root / "alone")
        train, test = alone["train"], alone["val"]
        left_out = ridge_predictions(np.asarray(train.x[:]), train.y)
        x = np.asarray(train.x[:], np.float64)
        oracle = RidgeClassifier(alpha=left_out.chosen * np.square(x - x.mean(axis=0)).sum())
        predicted = oracle.fit(x, train.y).predict(test.x[:])
        # of 150 and 120 images, one may be on the other side of a tie by the rounding of float32
        assert one.train_error.value == pytest.approx(100 - left_out.value, abs=100 / 150 + 1e-9)
        assert one.test_error.value == pytest.approx(100 * (predicted != test.y).mean(), abs=100 / 120 + 1e-9)


def test_evaluate_finds_the_features_in_the_folders_that_it_would_write(report: LayersReport, root: Path) -> None:
    folders = {
        folder.parent.parent.name
        for folder in root.glob("*/features/*")
        if read_index(LocalLocation(folder)) is not None
    }
    assert {VIT, f"{VIT}_cls_0", f"{VIT}_avg", f"{VIT}-48px"} <= folders and len(folders) >= 14
    before = {path: path.stat().st_mtime_ns for path in root.glob("*/features/*/index.json")}
    found = featurise_data(f"{VIT}@cls:0", few(), root=root)
    assert found["train"].folder is not None and (found["train"].folder / "index.json") in before
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_report_is_json_and_a_map(report: LayersReport) -> None:
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert document["chosen"]["load"] == report.chosen.command and len(document["variants"]) == 18
    assert sum(one["is_default"] for one in document["variants"]) == 1
    assert document["gain_nested"]["value"] == report.choice.nested.value
    grid = build_layer_map(report)
    assert grid.rows == ("2", "1", "0") and [words for _, words in grid.columns] == ["cls", "avg", "cls+avg"] * 2
    assert grid.shares["2"] > grid.shares["1"] > grid.shares["0"] > 0
    places = compute_fifths(report)
    best = int(np.argmin([one.train_error.value for one in report.variants]))
    assert places[best] == 4 and 0 in places
    assert report.chosen.name in make_layer_figure(report).caption


def test_a_second_run_computes_nothing_again_and_says_the_same(report: LayersReport, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.glob("**/*.safetensors")}
    again = measure_layers(VIT, few(), resolutions=[48], root=root, n_probed=2)
    assert {path: path.stat().st_mtime_ns for path in root.glob("**/*.safetensors")} == before
    for one, other in zip(report.variants, again.variants, strict=True):
        assert (one.name, one.train_error, one.test_error, one.probe_error) == (
            other.name, other.train_error, other.test_error, other.probe_error,
        )  # fmt: skip


def test_some_blocks_of_a_residual_network_and_the_sizes_nearest_to_the_default(tmp_path: Path) -> None:
    found = measure_layers(RESNET, few(), blocks=[0], root=tmp_path, n_probed=0)
    assert [(one.px, one.block) for one in found.variants] == [(px, b) for px in (24, 32, 48) for b in ("3.1", "1.1")]
    assert found.probe_nested is None and all(one.probe_error is None for one in found.variants)
    assert any("sides from 8 px, and are enlarged for 24, 32, 48 px" in note for note in found.notes)
    folder = next(tmp_path.glob(f"{RESNET}-24px/features/*-train-*"))
    assert load_features(folder).dim == 48


def test_sizes_are_near_the_shares_asked_for() -> None:
    assert list(build_sized_cards(load_catalogue()[VIT], None)[0]) == [24, 32, 48]
    assert list(build_sized_cards(load_catalogue()[VIT], [40])[0]) == [32, 40]
    with pytest.raises(QueryError, match=r"px=33 .* a multiple of 4"):
        build_sized_cards(load_catalogue()[VIT], [33])
    cards, notes = build_sized_cards(
        load_catalogue()["jigsaw_alexnet"], None
    )  # whose features are a map of one size, flattened
    assert list(cards) == [227] and "is measured at 227 px alone" in notes[0] and "dimensions instead of" in notes[0]


def test_what_cannot_be_measured_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"says already which features are taken; name 'pocket_simclr_vit_shapes'"):
        measure_layers(f"{VIT}@cls", few(), root=tmp_path)
    with pytest.raises(QueryError, match=r"no block 3 of .* blocks 0 to 2"):
        measure_layers(VIT, few(), blocks=[3], root=tmp_path)
    with pytest.raises(QueryError, match=r"'jigsaw_alexnet' has one variant alone"):
        measure_layers("jigsaw_alexnet", few(), resolutions=[], root=tmp_path)
    with pytest.raises(QueryError, match=r"n_train is 1; expected"):
        measure_layers(VIT, few(), n_train=1, root=tmp_path)
    pixels = np.zeros((6, 8, 8, 3), np.uint8)
    with pytest.raises(DataError, match="have the same label"):
        one_class = [
            array_images(pixels + part, np.zeros(6, np.int64), name="one", split=part_name, classes=["a", "b"])
            for part, part_name in enumerate(("train", "val"))
        ]
        measure_layers(VIT, ImageData(name="one", train=one_class[0], val=one_class[1]), root=tmp_path)
