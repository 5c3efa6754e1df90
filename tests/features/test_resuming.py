"""Runs that are killed, meet a full disk, another run or a dying worker: what is finished stays, the rest follows."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.children import Child
from tests.feature_runs import (
    AfterBatches,
    Slowly,
    encoder,
    image_set,
    kill_at_work,
    shard_names,
    to_tensor,
    with_damaged,
)
from zoo.errors import CorruptImage, DataError
from zoo.features import Features, featurise, load_features, verify
from zoo.features.shards import read_shard, write_shard
from zoo.storage import LocalLocation

OPTIONS = {"name": "small", "batch_size": 4, "shard_size": 10}  # 10 is no multiple of 4: shards begin batches


def run(folder: Path | None, *before: torch.nn.Module) -> Features:
    return featurise(encoder(*before), to_tensor, image_set(50), folder=folder, **OPTIONS)  # type: ignore[arg-type]


def uninterrupted() -> Features:
    return run(None)


def stopped_after(folder: Path, n_shards: int) -> list[str]:
    """A run that ended in its next shard; names of what it finished."""

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        run(folder, AfterBatches(3 * n_shards, stop))
    names = shard_names(folder)
    assert len(names) == n_shards
    return names


def test_a_killed_run_goes_on_and_ends_with_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    kill_at_work(lambda: len(run(folder, Slowly(0.05))), folder)
    finished = shard_names(folder)
    assert 2 <= len(finished) < 5 and not (folder / "index.json").exists()
    with pytest.raises(DataError, match="unfinished; run the same command again"):
        load_features(folder)
    inodes = [(folder / name).stat().st_ino for name in finished]
    features = run(folder)
    assert [(folder / name).stat().st_ino for name in finished] == inodes
    np.testing.assert_array_equal(features.x, uninterrupted().x)
    np.testing.assert_array_equal(features.y, image_set(50).labels)
    assert list(features.names) == list(image_set(50).names)
    verify(folder)
    uninterrupted().save(tmp_path / "saved", shard_size=10)
    streamed, saved = (
        {path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("features", "saved")
    )
    assert streamed == saved


def test_on_a_full_disk_the_finished_shards_stay_and_one_sentence_says_so(tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    def refusal() -> str:
        with pytest.raises(DataError) as caught:
            run(tmp_path / "features", AfterBatches(8, full))
        return str(caught.value)

    said = Child(refusal).result()
    assert isinstance(said, str) and "\n" not in said
    assert "could not be written" in said and "File too large" in said and "finished shards stay" in said
    assert len(shard_names(tmp_path / "features")) == 2
    assert {path.suffix for path in (tmp_path / "features").iterdir()} == {".safetensors", ".json"}  # no half file
    features = run(tmp_path / "features")
    np.testing.assert_array_equal(features.x, uninterrupted().x)


def test_two_processes_on_one_folder_end_with_the_same_whole_features(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    children = [Child(lambda: run(folder, Slowly(0.01)).x[:].tobytes()) for _ in range(2)]
    assert [child.result() for child in children] == [uninterrupted().x.tobytes()] * 2
    np.testing.assert_array_equal(verify(folder).x[:], uninterrupted().x)
    assert len(list(folder.iterdir())) == 6  # five shards and the index


def test_of_two_versions_of_a_shard_that_round_differently_one_is_taken_whole(tmp_path: Path) -> None:
    first, _ = stopped_after(tmp_path, 2)
    shard, expected = read_shard(LocalLocation(tmp_path), first), uninterrupted()
    rounded = np.nextafter(np.asarray(expected.x)[:10], np.float32(9))
    write_shard(LocalLocation(tmp_path), rounded, expected.y[:10], expected.names[:10], run=shard.run, number=0)
    features = run(tmp_path)
    assert len(list(tmp_path.iterdir())) == 6
    verify(tmp_path)
    assert any(np.array_equal(features.x[:10], version) for version in (rounded, expected.x[:10]))
    np.testing.assert_array_equal(features.x[10:], expected.x[10:])


def test_a_folder_of_an_unfinished_run_takes_no_features_of_another(tmp_path: Path) -> None:
    finished = stopped_after(tmp_path, 2)
    images = image_set(50)
    others = {
        "weights": (encoder(seed=1), to_tensor, images, OPTIONS),
        "encoder": (encoder(), to_tensor, images, {**OPTIONS, "name": "other"}),
        "preprocessing": (encoder(), np.asarray, images, OPTIONS),
        "images": (encoder(), to_tensor, image_set(50, seed=1), OPTIONS),
        "split": (encoder(), to_tensor, image_set(50, split="val"), OPTIONS),
        "precision": (encoder(), to_tensor, images, {**OPTIONS, "precision": "bfloat16"}),
        "representation": (encoder(), to_tensor, images, {**OPTIONS, "representation": "avg"}),
    }
    for what, (module, preprocess, given, options) in others.items():
        with pytest.raises(DataError, match=f"they differ in {what} .*; name another folder"):
            featurise(module, preprocess, given, folder=tmp_path, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="A run that did not end"):
        uninterrupted().save(tmp_path)
    assert shard_names(tmp_path) == finished
    featurise(encoder(), to_tensor, images, folder=tmp_path, **OPTIONS)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="they differ in weights"):
        featurise(encoder(seed=1), to_tensor, images, folder=tmp_path, **OPTIONS)  # type: ignore[arg-type]


def test_a_shard_that_was_damaged_meanwhile_is_computed_again(tmp_path: Path) -> None:
    first, second = stopped_after(tmp_path, 2)
    (tmp_path / first).write_bytes((tmp_path / first).read_bytes()[:-3])
    content = bytearray((tmp_path / second).read_bytes())
    content[-20] ^= 1
    (tmp_path / second).write_bytes(content)
    features = run(tmp_path)
    np.testing.assert_array_equal(features.x, uninterrupted().x)
    verify(tmp_path)


def test_a_begun_folder_keeps_its_shards_when_others_are_asked_for(tmp_path: Path) -> None:
    finished = stopped_after(tmp_path, 2)
    features = featurise(encoder(), to_tensor, image_set(50), name="small", batch_size=4, folder=tmp_path, shard_size=3)
    assert shard_names(tmp_path)[:2] == finished and len(shard_names(tmp_path)) == 5
    np.testing.assert_array_equal(features.x, uninterrupted().x)


def test_after_a_damaged_image_a_run_goes_on_without_it_and_only_then(tmp_path: Path) -> None:
    images = with_damaged(image_set(50), 33)
    with pytest.raises(CorruptImage, match=r"class/033.png.* --skip-corrupt"):
        featurise(encoder(), to_tensor, images, folder=tmp_path, **OPTIONS)  # type: ignore[arg-type]
    finished = shard_names(tmp_path)
    assert len(finished) == 3
    features = featurise(encoder(), to_tensor, images, folder=tmp_path, skip_corrupt=True, **OPTIONS)  # type: ignore[arg-type]
    assert set(finished) < set(shard_names(tmp_path))
    assert features.origin.n_skipped == 1 and [image.position for image in features.skipped] == [33]
    alone = featurise(encoder(), to_tensor, images, skip_corrupt=True, **OPTIONS)  # type: ignore[arg-type]
    np.testing.assert_array_equal(features.x, alone.x)
    with pytest.raises(CorruptImage, match=r"class/033.png"):
        featurise(encoder(), to_tensor, images, folder=tmp_path, **OPTIONS)  # type: ignore[arg-type]


class Dies:
    """A preprocessing whose process is killed at one image."""

    def __init__(self, fatal: bytes) -> None:
        self.fatal = fatal

    def __repr__(self) -> str:
        return "to_tensor"

    def __call__(self, image: object) -> object:
        if np.asarray(image).tobytes() == self.fatal:
            os.kill(os.getpid(), 9)
        return to_tensor(image)


def test_a_worker_that_dies_is_one_sentence_and_the_run_can_go_on(tmp_path: Path) -> None:
    images = image_set(50)
    fatal = Dies(np.asarray(images.images[45]).tobytes())
    with pytest.raises(DataError, match=r"^A process that decodes images died .*n_workers[^\n]*$"):
        featurise(encoder(), fatal, images, folder=tmp_path, n_workers=1, **OPTIONS)  # type: ignore[arg-type]
    fatal.fatal = b""
    features = featurise(encoder(), fatal, images, folder=tmp_path, **OPTIONS)  # type: ignore[arg-type]
    np.testing.assert_array_equal(features.x, uninterrupted().x)
