"""What label-free metrics are computed from, featurised once with tiny encoders, and the metrics measured on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.feature_runs import image_set, with_damaged
from zoo import load
from zoo.datasets import ImageData, shapes
from zoo.errors import QueryError, UnknownName
from zoo.evaluation.evaluating import featurise_data
from zoo.evaluation.label_free.catalogue import PROTOCOL
from zoo.evaluation.label_free.measuring import (
    MetricInputs,
    SampleSizes,
    compute_metric_inputs,
    make_metric_rows,
    measure,
)
from zoo.evaluation.transferability import ridge_predictions
from zoo.features import Rows, load_features
from zoo.features.work_items import FeaturisingOptions
from zoo.results.recording import PROVENANCE_KEYS, record
from zoo.results.vocabulary import LABEL_FREE_METRICS, METRICS, NEEDS

NAME = "pocket_simclr_rn_shapes"
SIZES: dict[str, Any] = {"n": 30, "q": 4, "n_images": 60}


class Counting:
    """Counts the images that are told of."""

    def __init__(self) -> None:
        self.n_new: dict[str, int] = {}

    def __call__(self, label: str) -> Counting:
        self.label = label
        self.n_new[label] = 0
        return self

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """Nothing to count yet."""

    def advance(self, n_images: int) -> None:
        self.n_new[self.label] += n_images

    def end(self) -> None:
        """Nothing to count any more."""


@pytest.fixture(scope="module")
def data() -> ImageData:
    return shapes(classes=4, train=80, val=40)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluations")


@pytest.fixture(scope="module")
def target() -> ImageData:
    return shapes(classes=3, train=30, val=9, seed=1)


@pytest.fixture(scope="module")
def everything(data: ImageData, root: Path, target: ImageData) -> MetricInputs:
    return compute_metric_inputs(NAME, data, NEEDS, target=target, root=root, **SIZES)


def test_every_need_gets_the_arrays_that_it_names(everything: MetricInputs) -> None:
    shapes_of = {need: {name: np.shape(array) for name, array in everything.arguments(need).items()} for need in NEEDS}
    assert shapes_of == {
        "features": {"z": (60, 48)},
        "views": {"z": (30, 4, 48)},
        "rotations": {"z": (30, 4, 48), "z_val": (30, 4, 48)},
        "labelled": {"z": (60, 48), "y": (60,), "z_val": (40, 48), "y_val": (40,)},
        "labels": {"z": (60, 48), "y": (60,)},
        "source and target": {"z": (60, 48), "y": (60,), "z_target": (30, 48)},
        "pixels": {"images": (60, 3, 32, 32), "z": (60, 48), "images_val": (40, 3, 32, 32), "z_val": (40, 48)},
    }
    for need in NEEDS:
        for name in everything.arguments(need):
            assert name in NEEDS[need]
    assert not everything.refused
    assert sum("all are" in note for note in everything.notes) == 2  # of val and of the target


def test_scores_that_leave_images_out_leave_their_group_out(data: ImageData, tmp_path: Path) -> None:
    groups = np.arange(len(data.train), dtype=np.uint64) // 4
    alone = np.arange(1000, 1000 + len(data.val), dtype=np.uint64)
    grouped = replace(data, train=replace(data.train, groups=groups), val=replace(data.val, groups=alone))
    inputs = compute_metric_inputs(NAME, grouped, ["labels"], root=tmp_path, **SIZES)
    arguments = inputs.arguments("labels")
    drawn = [data.train.names.index(name) for name in inputs.samples["train"].images.names]
    assert arguments["groups"].tolist() == groups[drawn].tolist()
    ridge, neighbours, other = measure(["leave_one_out_ridge", "leave_one_out_neighbours", "h_score"], inputs)
    assert ridge.value == ridge_predictions(np.asarray(arguments["z"]), arguments["y"], groups=groups[drawn]).value
    assert neighbours.value is not None and other.value is not None


def test_features_are_those_that_the_encoder_gives_to_these_images(everything: MetricInputs, data: ImageData) -> None:
    encoder, preprocess = load(NAME)
    sample = everything.samples["train"]
    with torch.inference_mode():
        expected = encoder.eval()(torch.stack([preprocess(image) for image in sample.images.images])).numpy()
    np.testing.assert_allclose(np.asarray(sample.z), expected, rtol=1e-4, atol=1e-5)
    assert [data.train.names.index(name) % 4 for name in sample.images.names] == sample.y.tolist()
    turned = everything.arguments("rotations")["z"]
    straight = dict(zip(sample.images.names, np.asarray(sample.z), strict=True))
    names = [name.removesuffix("#0") for name in everything.samples["rotations of train"].images.names[::4]]
    for name, rows in zip(names, turned, strict=True):
        if name in straight:
            np.testing.assert_allclose(rows[0], straight[name], rtol=1e-4, atol=1e-5)


def test_pixels_belong_to_the_rows_of_features(everything: MetricInputs, data: ImageData) -> None:
    found = everything.arguments("pixels")
    assert found["images"].dtype == np.float32 and 0 <= found["images"].min() < found["images"].max() <= 1
    encoder, _ = load(NAME)
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in ([0.3] * 3, [0.2] * 3))
    with torch.inference_mode():
        expected = encoder.eval()((torch.from_numpy(found["images"]) - mean) / std).numpy()
    np.testing.assert_allclose(np.asarray(found["z"]), expected, rtol=1e-4, atol=1e-5)


def test_a_later_run_finds_everything_and_computes_nothing(
    everything: MetricInputs, data: ImageData, root: Path, target: ImageData
) -> None:
    counting = Counting()
    again = compute_metric_inputs(NAME, data, NEEDS, target=target, root=root, progress=counting, **SIZES)
    assert set(counting.n_new) == {"train", "val", "target", "views", "rotations of train", "rotations of val"}
    assert set(counting.n_new.values()) == {0}
    for name, sample in again.samples.items():
        assert np.array_equal(np.asarray(sample.z), np.asarray(everything.samples[name].z))
    assert isinstance(again.samples["views"].z, Rows)


def test_images_that_cannot_be_read_are_left_out_with_their_views_and_told(tmp_path: Path) -> None:
    train, val = with_damaged(image_set(20), 3, 7), image_set(12, seed=1, split="val")
    data = ImageData(name="noise", train=train, val=val)
    how = FeaturisingOptions(skip_corrupt=True)
    needs = ["features", "views", "pixels", "rotations"]
    found = compute_metric_inputs(NAME, data, needs, root=tmp_path, how=how, n=20, q=2, n_images=20)
    assert found.arguments("features")["z"].shape == (18, 48)
    assert found.arguments("views")["z"].shape == (18, 2, 48)
    assert found.arguments("rotations")["z"].shape == (18, 4, 48)
    assert found.arguments("pixels")["images"].shape[0] == 18
    assert any("2 images of noise (train) could not be read" in note for note in found.notes)


def test_an_encoder_without_augmentations_gets_everything_but_views_unless_they_are_named(
    data: ImageData, tmp_path: Path
) -> None:
    found = compute_metric_inputs("pocket_init_rn", data, ["features", "views"], root=tmp_path, **SIZES)
    assert set(found.refused) == {"views"} and "was not trained" in found.refused["views"]
    results = {one.metric.name: one for one in measure(["lidar", "rankme"], found)}
    assert results["lidar"].value is None and "was not trained" in results["lidar"].reason
    assert results["rankme"].value is not None and results["rankme"].value > 1
    named = compute_metric_inputs("pocket_init_rn", data, ["views"], root=tmp_path, recipe="crop,flip", **SIZES)
    assert named.samples["views"].images.split == "train augmented"
    (lidar,) = measure(["lidar"], named)
    (row,) = make_metric_rows([lidar], named)
    assert row.split == "train augmented" and 'augmentations=["crop", "flip"]' in row.protocol


def test_metrics_come_with_times_counts_and_rows_that_results_accept(everything: MetricInputs, tmp_path: Path) -> None:
    names = [name for name, metric in LABEL_FREE_METRICS.items() if metric.needs != "pixels"]
    found = list(measure(names, everything))
    assert {one.metric.name for one in found} == set(names)
    for one in found:
        assert (one.value is None) == bool(one.reason) and one.seconds_computing >= 0
        assert one.n_views == {"views": 4, "rotations": 4}.get(one.metric.needs)
        assert one.n_images == (30 if one.n_views else 60)
        assert METRICS[one.metric.name].takes(one.split)
        assert one.value is None or np.isfinite(one.value)
    refused = {one.metric.name: one.reason for one in found if one.value is None}
    assert not refused
    rows = make_metric_rows(found, everything, day=date(2026, 11, 20))
    assert len(rows) == len(names)
    assert record(rows, folder=tmp_path).n_new == len(names) and record(rows, folder=tmp_path).n_known == len(names)
    for row, provenance in rows.items():
        assert row.unit == METRICS[row.metric].unit and row.n_train is None and row.date == "2026-11-20"
        assert provenance.keys() >= PROVENANCE_KEYS.keys() and row.protocol.startswith(f"{PROTOCOL} (")
    assert {row.protocol for row in rows if row.metric == "lidar"} == {f"{PROTOCOL} (n=30, q=4)"}


def test_a_metric_that_cannot_be_had_stops_no_other(data: ImageData, tmp_path: Path) -> None:
    few = compute_metric_inputs(NAME, data, ["features", "source and target"], root=tmp_path, n_images=5)
    found = {one.metric.name: one for one in measure(["intrinsic_dimension", "target_label_entropy", "rankme"], few)}
    assert "needs at least" in found["intrinsic_dimension"].reason
    assert "No data set to transfer to" in found["target_label_entropy"].reason
    assert found["rankme"].value is not None and not found["rankme"].reason


def test_other_parts_and_stored_features_of_all_images(data: ImageData, root: Path, tmp_path: Path) -> None:
    validation = compute_metric_inputs(NAME, data, ["features", "views"], root=root, part="val", **SIZES)
    assert validation.arguments("features")["z"].shape == (40, 48)
    assert validation.samples["views"].images.split == "val pretraining-augmented"
    (lidar,) = measure(["mutual_information"], validation)
    assert lidar.reason.startswith("No features were computed for 'pixels'")
    featurise_data(NAME, data, root=tmp_path, parts=("train",))
    counting = Counting()
    found = compute_metric_inputs(NAME, data, ["features"], root=tmp_path, progress=counting, **SIZES).samples["train"]
    assert counting.n_new == {"train": 0} and found.z.shape == (60, 48)
    whole = load_features(found.features.folder or Path())
    rows = [list(whole.names).index(name) for name in found.images.names]
    assert np.array_equal(np.asarray(found.z), whole.x[rows]) and np.array_equal(found.y, whole.y[rows])


def test_sizes_and_options(everything: MetricInputs) -> None:
    assert SampleSizes.usual(384, seed=0) == SampleSizes(n_images=25_600, n=1_000, q=50, seed=0)
    assert SampleSizes.usual(2_048, seed=0) == SampleSizes(n_images=25_600, n=5_000, q=10, seed=0)
    (one,) = measure(["uniformity"], everything, options={"uniformity": {"t": 3.0}})
    (row,) = make_metric_rows([one], everything)
    (usual,) = measure(["uniformity"], everything)
    assert one.value != usual.value and "t=3.0" in row.protocol


def test_what_makes_no_sense_is_refused_before_anything_is_computed(
    everything: MetricInputs, data: ImageData, root: Path
) -> None:
    for options in ({"lidar": {}}, {"rankme": {"t": 1}}, {"rankme": {"eps": "a"}}):
        with pytest.raises(QueryError):
            measure(["rankme"], everything, options=options)
    for sizes in ({"q": 1}, {"n": 1}, {"n_images": 0}, {"q": True}):
        with pytest.raises(QueryError, match="whole number"):
            compute_metric_inputs(NAME, data, ["views"], root=root, **(SIZES | sizes))
    for options in ({"needs": ["view"]}, {"part": "test"}, {"recipe": "sparkle"}):
        with pytest.raises(UnknownName):
            compute_metric_inputs(NAME, data, **({"needs": ["views"], "root": root} | options))
    with pytest.raises(UnknownName, match="did you mean lidar"):
        measure(["lidars"], everything)
