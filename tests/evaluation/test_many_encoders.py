"""Many encoders on workers: the same rows by any way, measured when their features are complete, written once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.datasets import ImageData, open_images
from zoo.errors import DataError, QueryError
from zoo.evaluation.evaluating import Evaluation, Request, Rows, evaluate, featurise_data, make_evaluation_rows
from zoo.evaluation.many_encoders import (
    ManyEncodersReport,
    MeasurementSpec,
    MetricsSpec,
    _EncoderQueue,
    evaluate_many,
    find_measured_encoder,
    measure_many_metrics,
    measure_one,
)
from zoo.execution.executor import Executor, Resources, WorkResult, select_part
from zoo.execution.journal import Journal
from zoo.execution.processes import Processes
from zoo.features.running import build_run_spec
from zoo.features.work_items import FeatureRunSettings, FeaturisingOptions
from zoo.progress import SilentProgress
from zoo.storage import resolve_place

NAMES = ["pocket_init_rn", "pocket_simclr_rn_shapes"]
IMAGES = "shapes:classes=2,train=24,val=12,size_px=16"
HOW = FeaturisingOptions(device="cpu", batch_size=8)
ONE = Resources(n_cpus=1)


def described(found: Any) -> dict[str, Any]:
    assert isinstance(found, Evaluation)
    return {"encoder": found.train.origin.encoder, "settings": [one.setting.name for one in found.settings]}


@pytest.fixture(scope="module")
def data() -> ImageData:
    return open_images(IMAGES)


def asking(where: str | Path, data: ImageData, **changed: Any) -> MeasurementSpec:
    setting = FeatureRunSettings(
        source=partial(open_images, IMAGES),
        place=str(where),
        fingerprints={"train": data.train.fingerprint, "val": data.val.fingerprint},
        how=HOW,
        shard_size=8,
    )
    request = Request(settings=("full", "3-shot"), n_seeds=1, memory_bytes=1 << 40, device="cpu")
    return replace(MeasurementSpec(setting=setting, request=request, source="me", describe=described), **changed)


def measured(
    measuring: MeasurementSpec, data: ImageData, executor: Executor | None = None, names: list[str] = NAMES
) -> ManyEncodersReport:
    asked = build_run_spec(measuring.setting, names, data, ("train", "val"), resources=ONE, more=measuring.asked)
    with Journal(resolve_place(measuring.setting.place), asked, engine="here", n_workers=1) as journal:
        return evaluate_many(measuring, names, data, executor or Processes(0), journal, SilentProgress(), resources=ONE)


def numbers(rows: Rows) -> dict[Any, Any]:
    """Values, and hashes of the features that they were measured on."""
    found = {}
    for row, provenance in rows.items():
        assert row.source == "me"
        found[row.metric, row.split, row.seed] = row.value, row.ci_low, dict(provenance["features_hash"])
    return found


@pytest.fixture(scope="module")
def expected(data: ImageData, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same by the library, one encoder after the other, with one thread."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {}
    for name in NAMES:
        features = featurise_data(name, data, root=tmp_path_factory.mktemp("library"), how=HOW)
        request = Request(settings=("full", "3-shot"), n_seeds=1, device="cpu")
        found[name] = numbers(make_evaluation_rows(evaluate(features["train"], features["val"], request), source="me"))
    torch.set_num_threads(n_threads)
    return found


@pytest.mark.parametrize("where", ["", "memory://many"])
def test_rows_are_those_of_the_library_and_lie_whole_next_to_the_features(
    where: str, data: ImageData, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    measuring = asking(where or tmp_path / "place", data)
    done = measured(measuring, data)
    assert not done.failed and not done.still_open
    assert {one.encoder: numbers(one.rows) for one in done.measured} == expected
    assert done.measured[0].document == {"encoder": NAMES[0], "settings": ["3-shot", "full"]}
    rows = resolve_place(measuring.setting.place).below(NAMES[0]).below("rows")
    (stem,) = {name.partition(".")[0] for name in rows.names()}
    assert rows.names() == [f"{stem}.csv", f"{stem}.json", f"{stem}.provenance.jsonl"]
    before = [rows.modified_s(name) for name in rows.names()]
    value = measure_one(measuring, NAMES[0])
    assert value == stem.encode() and len(value) < 200
    assert [rows.modified_s(name) for name in rows.names()] == before
    other = replace(measuring, request=replace(measuring.request, seed=1))
    assert find_measured_encoder(other, NAMES[0], data) is None


def test_parts_of_the_work_give_the_same_rows_and_the_last_part_measures(
    data: ImageData, expected: dict[str, Any], tmp_path: Path
) -> None:
    measuring = asking(tmp_path, data)
    first = measured(measuring, data, select_part(Processes(0), 1, 2))
    assert not first.measured and first.still_open == NAMES and not first.failed
    second = measured(measuring, data, select_part(Processes(0), 2, 2))
    assert {one.encoder: numbers(one.rows) for one in second.measured} == expected
    for name in NAMES:
        for path in (tmp_path / name / "rows").iterdir():
            path.unlink()
    again = [measured(measuring, data, select_part(Processes(0), part, 2)).measured for part in (1, 2)]
    assert [[one.encoder for one in found] for found in again] == [NAMES[:1], NAMES]  # one by each


def test_an_encoder_that_fails_stops_no_other_and_its_twin_stops_all(data: ImageData, tmp_path: Path) -> None:
    names = ["pirl_rn50", NAMES[0]]
    done = measured(asking(tmp_path, data), data, names=names)
    assert [one.encoder for one in done.measured] == [NAMES[0]] and done.failed.keys() == {"pirl_rn50"}
    assert "pirl_rn50" in done.failed["pirl_rn50"].text
    request = replace(asking(tmp_path, data).request, settings=("100-shot",))
    few = measured(asking(tmp_path, data, request=request), data, names=NAMES[:1])
    assert not few.measured and "100" in few.failed[NAMES[0]].text
    with pytest.raises(DataError, match="supervised twin 'pirl_rn50'"):
        measured(asking(tmp_path, data, twin="pirl_rn50"), data, names=NAMES[:1])


def test_a_twin_is_featurised_on_the_training_images_and_splits_the_error(data: ImageData, tmp_path: Path) -> None:
    request = Request(settings=("full",), neighbours=False, decompose=True, n_subsets=1, device="cpu")
    measuring = asking(tmp_path, data, request=request, twin="pocket_sup_rn_shapes")
    (one,) = measured(measuring, data, names=NAMES[1:]).measured
    assert "usability" in {row.metric for row in one.rows}
    folders = [path.name for path in (tmp_path / "pocket_sup_rn_shapes" / "features").iterdir()]
    assert len(folders) == 1 and "-train-" in folders[0]
    with pytest.raises(QueryError, match="twin="):
        features = featurise_data(NAMES[0], data, root=tmp_path / "more", how=HOW)["train"]
        asking(tmp_path, data, request=replace(request, supervised=features))


def test_probes_take_no_more_memory_at_once_than_there_is(data: ImageData, tmp_path: Path) -> None:
    measuring = asking(tmp_path, data)
    measured(measuring, data)
    for seed, memory_bytes, at_once in ((1, 1 << 40, [1, 1]), (2, 1, [1, 0])):
        request = replace(measuring.request, seed=seed, probe="logistic", memory_bytes=memory_bytes)
        queue = _EncoderQueue(replace(measuring, request=request), NAMES, data, Processes(0), ONE)
        handed_out = [queue.complete(name) for name in NAMES]
        assert [len(some) for some in handed_out] == at_once
        outcome = WorkResult(work=handed_out[0][0], value=b"", failures=(), worker="", seconds=0.0)
        assert len(queue.ended(outcome)) == 2 - sum(at_once)


def test_metrics_are_pieces_of_work_an_encoder_and_rows_are_found_again(data: ImageData, tmp_path: Path) -> None:
    setting = asking(tmp_path, data).setting
    measuring = MetricsSpec(setting=setting, metrics=("rankme", "logme"), source="me")

    def computed(executor: Executor, wanted: MetricsSpec = measuring) -> ManyEncodersReport:
        asked = build_run_spec(wanted.setting, NAMES, data, (), resources=ONE, verb="metric", more=wanted.asked)
        with Journal(resolve_place(tmp_path), asked, engine="here", n_workers=1) as journal:
            return measure_many_metrics(wanted, NAMES, data, executor, journal, SilentProgress(), resources=ONE)

    first = computed(select_part(Processes(0), 1, 2))
    assert [one.encoder for one in first.measured] == NAMES[:1] and first.still_open == NAMES[1:]
    done = computed(Processes(0))
    assert [{row.metric for row in one.rows} for one in done.measured] == [{"rankme", "logme"}] * 2
    assert done.measured[0].rows == first.measured[0].rows
    other_images = replace(setting, fingerprints={**setting.fingerprints, "val": "0" * 32})
    other = computed(Processes(0), replace(measuring, setting=other_images))
    assert not other.measured and "other images" in other.failed[NAMES[0]].text
