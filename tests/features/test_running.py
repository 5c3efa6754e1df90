"""Features of many encoders by an engine: the same files for any workers, failures that stop nothing else, going on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.feature_runs import DIM, Slowly, Told, encoder, image_set, kill_at_work, shard_names, to_tensor, with_damaged
from zoo.datasets import ImageData
from zoo.errors import DataError, QueryError, StoreError
from zoo.execution.executor import Executor, Resources, WorkResult, select_part
from zoo.execution.journal import Journal, list_run_records
from zoo.execution.processes import Processes
from zoo.features import featurise, load_features
from zoo.features.running import FollowUpTask, RunReport, build_run_spec, run_features
from zoo.features.store import claim
from zoo.features.work_items import FeatureRunSettings, FeaturisingOptions, build_features_path
from zoo.storage import resolve_place

NAMES = ("one", "two", "three")
PARTS = ("train", "val")
ONE = Resources(n_cpus=1)


def noise() -> ImageData:
    return ImageData(name="noise", train=image_set(30), val=image_set(14, seed=1, split="val"))


def damaged_noise() -> ImageData:
    whole = noise()
    return ImageData(name="noise", train=with_damaged(whole.train, 3, 17), val=whole.val)


class NotFinite(torch.nn.Module):
    """An encoder that gives nothing of use."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.full((len(images), DIM), torch.nan)


def loaded(name: str) -> tuple[torch.nn.Module, Any]:
    if name == "wrong":
        return NotFinite(), to_tensor
    return encoder(seed=NAMES.index(name)), to_tensor


def slow(name: str) -> tuple[torch.nn.Module, Any]:
    return encoder(Slowly(0.05), seed=NAMES.index(name)), to_tensor


def setting_at(place: Path | str, **changed: Any) -> FeatureRunSettings:
    data = noise()
    given: dict[str, Any] = {
        "source": noise,
        "load": loaded,
        "place": str(place),
        "fingerprints": {part: getattr(data, part).fingerprint for part in PARTS},
        "how": FeaturisingOptions(batch_size=4, device="cpu", skip_corrupt=True),
        "shard_size": 10,
    }
    return FeatureRunSettings(**given | changed)


def done(
    setting: FeatureRunSettings,
    names: tuple[str, ...] = NAMES,
    executor: Executor | None = None,
    *,
    progress: Told | None = None,
    resources: Resources = ONE,
    **changed: Any,
) -> RunReport:
    data, workers = setting.source(), executor or Processes(0)
    asked = build_run_spec(setting, names, data, PARTS, resources=resources)
    with Journal(resolve_place(setting.place), asked, engine="test", n_workers=workers.n_workers) as journal:
        return run_features(
            setting, names, data, PARTS, workers, journal, progress or Told(), resources=resources, **changed
        )


def folder_of(place: Path, name: str, part: str) -> Path:
    return place.joinpath(*build_features_path(name, getattr(noise(), part), precision="float32"))


def contents(place: Path, names: tuple[str, ...] = NAMES) -> dict[str, bytes]:
    """Index and shards of all features, by their paths."""
    folders = [folder_of(place, name, part) for name in names for part in PARTS]
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.name != "run.json"]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    place, progress = tmp_path_factory.mktemp("usual"), Told()
    report = done(setting_at(place), progress=progress)
    assert (report.n_items, report.n_done, report.n_there) == (5, 5, 0)  # three and two shards, all encoders in each
    assert sorted(report.complete) == sorted((name, part) for name in NAMES for part in PARTS)
    assert not report.incomplete and not report.failures
    assert progress.starts == [("one, two, three, noise", 3 * 44, 0)] and sum(progress.advances) == 3 * 44
    return contents(place)


def test_two_processes_write_the_same_files(usual: dict[str, bytes], tmp_path: Path) -> None:
    workers = Processes(2)
    try:
        assert not done(setting_at(tmp_path), executor=workers).failures
    finally:
        workers.close()
    assert contents(tmp_path) == usual


def test_parts_write_the_same_files_in_any_order_and_the_last_one_ends_it(
    usual: dict[str, bytes], tmp_path: Path
) -> None:
    setting = setting_at(tmp_path)
    first = done(setting, executor=select_part(Processes(0), 2, 2))
    assert first.n_items == 2 and first.incomplete and not first.failures
    second = done(setting, executor=select_part(Processes(0), 1, 2))
    assert second.n_items == 3 and not second.incomplete
    assert contents(tmp_path) == usual
    (record,) = list_run_records(resolve_place(tmp_path))
    assert len(record.writers) == 2 and record.total("items", "done") == 5


def test_a_killed_driver_is_gone_on_from(usual: dict[str, bytes], tmp_path: Path) -> None:
    setting = setting_at(tmp_path, load=slow)
    kill_at_work(lambda: done(setting).run, folder_of(tmp_path, "one", "train"))
    report = done(setting_at(tmp_path))
    assert report.n_done <= 4 and not report.incomplete
    assert contents(tmp_path) == usual
    assert sorted(writer.facts["state"] for writer in list_run_records(resolve_place(tmp_path))[0].writers) == [
        "ended",
        "running",
    ]


def test_an_encoder_that_fails_stops_no_other(usual: dict[str, bytes], tmp_path: Path) -> None:
    names = ("one", "wrong", "two", "three")
    report = done(setting_at(tmp_path), names)
    assert report.failed == ["wrong"] and report.given_up == ["wrong"]
    assert "features that are not finite under 'wrong'" in report.failures[0].sentence
    assert sorted(report.incomplete) == [("wrong", "train"), ("wrong", "val")]
    assert contents(tmp_path) == usual
    (writer,) = list_run_records(resolve_place(tmp_path))[0].writers
    assert {tuple(one["encoders"]) for one in writer.facts["failures"]} == {("wrong",)}


def test_images_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    setting = setting_at(tmp_path, source=damaged_noise)
    report = done(setting)
    assert report.n_skipped == 2 and not report.failures
    assert len(load_features(folder_of(tmp_path, "one", "train")).y) == 28
    (writer,) = list_run_records(resolve_place(tmp_path))[0].writers
    assert [one["image"] for one in writer.facts["skipped"]] == ["class/003.png", "class/017.png"]


def test_other_batches_or_threads_are_refused_in_what_was_begun(tmp_path: Path) -> None:
    place = str(tmp_path)
    done(setting_at(place), executor=select_part(Processes(0), 1, 2))
    other = FeaturisingOptions(batch_size=8, device="cpu", skip_corrupt=True)
    with pytest.raises(QueryError, match="were begun with batches of 4 images, got batches of 8 images; ask for"):
        done(setting_at(place, how=other))
    with pytest.raises(QueryError, match="with 1 thread a worker, got 2 threads a worker"):
        done(setting_at(place), resources=Resources(n_cpus=2))


def test_what_one_process_began_is_not_mixed_with_what_workers_did(tmp_path: Path) -> None:
    setting = setting_at(tmp_path)
    done(setting, executor=select_part(Processes(0), 1, 2))
    model, preprocess = loaded("one")
    alone = partial(featurise, model, preprocess, noise().train, name="one", batch_size=4, shard_size=10)
    with pytest.raises(DataError, match="were begun on workers; go on with the command that began them"):
        alone(folder=folder_of(tmp_path, "one", "train"))
    other = tmp_path / "other"
    claim(resolve_place(folder_of(other, "one", "train")), alone().origin, shard_size=10)
    with pytest.raises(QueryError, match="were begun by one process with all its threads"):
        done(setting_at(other))


def test_what_is_complete_is_not_computed_again_and_a_lost_shard_is(usual: dict[str, bytes], tmp_path: Path) -> None:
    setting = setting_at(tmp_path)
    done(setting)
    again = done(setting)
    assert again.n_items == 0 and len(again.complete) == 6
    folder = folder_of(tmp_path, "two", "val")
    (folder / "index.json").unlink()
    (folder / shard_names(folder)[0]).unlink()
    assert not done(setting).incomplete
    assert contents(tmp_path) == usual


def test_complete_encoders_bring_more_work_to_the_workers(tmp_path: Path) -> None:
    found: list[WorkResult[Any, Any]] = []

    def more(name: str) -> list[FollowUpTask]:
        assert (folder_of(tmp_path, name, "val") / "index.json").exists()
        return [FollowUpTask(encoder=name, do=partial(str.upper, name))]

    done(setting_at(tmp_path), on_complete=more, on_outcome=found.append)
    assert sorted((one.work.encoder, one.value) for one in found) == sorted((name, name.upper()) for name in NAMES)
    (writer,) = list_run_records(resolve_place(tmp_path))[0].writers
    assert writer.facts["more"] == {"done": 3, "failed": 0}


def test_other_versions_are_refused_while_there_is_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = setting_at(tmp_path)
    done(setting, executor=select_part(Processes(0), 1, 2))
    monkeypatch.setattr("zoo.features.running.collect_versions", lambda code: {"torch": "0.1"})
    with pytest.raises(StoreError, match=r"torch 0\.1 instead of"):
        done(setting)
