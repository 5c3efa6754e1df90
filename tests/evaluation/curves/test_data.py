"""Data regimes are nested and stratified, and the images of a run are the same from memory and from anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.evaluation.curves.curve_runs import labelled
from tests.evaluation.curves.curve_training import small_data, small_preprocess
from zoo.datasets import ImageSet, LazyImages
from zoo.datasets.dense import Maps, MapSet, align_map
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import CorruptImage, DataError, QueryError
from zoo.evaluation.curves.data import (
    HeldInputs,
    Inputs,
    StreamedInputs,
    TransferBatch,
    compute_image_bytes,
    compute_least_regime,
    load_inputs,
    release_inputs,
    resolve_task,
    select_regime_subset,
    split_positions,
)

BALANCED = np.arange(200) % 10
UNBALANCED = np.repeat([0, 1, 2, 3], [150, 60, 25, 5])
SETS = pytest.mark.parametrize("labels", [BALANCED, UNBALANCED[::-1]], ids=["alike", "unlike"])
PLENTY = 1 << 30


@pytest.fixture(autouse=True)
def _nothing_in_memory() -> Iterator[None]:
    release_inputs()
    yield
    release_inputs()


@SETS
def test_regimes_are_nested_have_the_classes_in_their_proportions_and_validate_on_none_alone(
    labels: np.ndarray,
) -> None:
    part, share = labelled(labels), np.bincount(labels) / len(labels)
    least = compute_least_regime(part)
    for seed in (0, 1):
        found = [select_regime_subset(part, n, seed=seed) for n in range(least, len(labels) + 1)]
        assert all(set(one.indices) < set(other.indices) for one, other in itertools.pairwise(found))
        for n, one in enumerate(found, start=least):
            counts = np.bincount(labels[one.indices], minlength=len(share))
            assert one.n_requested == len(one.indices) == n
            assert np.abs(counts - n * share).max() <= 1 + share.max() * len(share) / 2  # a rounding, and of the sum
            assert np.array_equal(np.sort(np.concatenate([one.train, one.validation])), one.indices)
            assert set(labels[one.train]) == set(labels)
            assert len(one.validation) == max(1, int(0.2 * n + 0.5)) or (n == least and len(one.validation))
        with pytest.raises(DataError, match=f"ask for at least {least}"):
            select_regime_subset(part, least - 1, seed=seed)
    all_of_it = select_regime_subset(labelled(UNBALANCED), "all", seed=0)
    assert np.bincount(UNBALANCED[all_of_it.validation]).tolist() == [30, 12, 5, 1]


def test_a_seed_decides_and_nothing_else_does() -> None:
    part = labelled(BALANCED)
    one, again, other = (select_regime_subset(part, 50, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.train, again.train) and one.fingerprint == again.fingerprint
    assert not np.array_equal(one.indices, other.indices) and one.fingerprint != other.fingerprint
    assert one.fingerprint != select_regime_subset(part, 50, seed=0, validation_share=0.3).fingerprint
    assert one.fingerprint != select_regime_subset(labelled(BALANCED, split="val"), 50, seed=0).fingerprint


def one_of(part: Any, positions: Any, preprocess: Any = None, **options: Any) -> Inputs:
    (found,) = load_inputs([(part, np.asarray(positions))], preprocess or small_preprocess(), **options)
    return found


def equal(one: TransferBatch, other: TransferBatch) -> bool:
    parts = zip((one.images, one.target, one.valid), (other.images, other.target, other.valid), strict=True)
    return all(a is b is None or torch.equal(a, b) for a, b in parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("task", "n_workers"), [("classification", 0), ("depth", 0), ("normals", 1)])
def test_memory_and_reading_anew_give_the_same_batches(task: str, n_workers: int) -> None:
    part, indices = small_data(task).train, np.array([7, 3, 50, 0, 12])
    held = one_of(part, indices, memory_bytes=PLENTY)
    streamed = one_of(part, indices, memory_bytes=0, n_workers=n_workers)
    assert isinstance(held, HeldInputs) and isinstance(streamed, StreamedInputs)
    cuts = [np.array([4, 0]), np.array([1, 2, 3])]
    assert all(equal(*both) for both in zip(held.batches(cuts), streamed.batches(cuts), strict=True))


def test_a_batch_is_what_the_preprocessing_and_the_alignment_make() -> None:
    part, wide = small_data("depth").train, replace(small_preprocess(), resize_px=20, crop_px=12)
    (batch,) = one_of(part, [9, 4], wide, memory_bytes=PLENTY).batches([np.array([1, 0])])
    assert isinstance(part, MapSet)
    for row, position in enumerate((4, 9)):
        values, valid = align_map(*part.maps[position], wide)
        assert torch.equal(batch.images[row], build_preprocess(wide)(part.images[position][0]))
        assert batch.valid is not None and np.array_equal(batch.valid[row], valid)
        assert np.array_equal(batch.target[row], values)


@dataclass
class Reads:
    """Reads images, counts how often, and breaks at one of them."""

    images: LazyImages
    bad: int = -1
    n: int = 0

    def __call__(self, number: int) -> object:
        self.n += 1
        if number == self.bad:
            raise CorruptImage.of(f"{number}.png", image_set="shapes", reason="it ends too early")
        return self.images.read(number)


def counted(fingerprint: str, bad: int = -1) -> tuple[ImageSet, Reads]:
    whole = small_data("classification").train
    assert isinstance(whole, ImageSet) and isinstance(whole.images, LazyImages)
    reads = Reads(whole.images, bad)
    return replace(whole, images=LazyImages(reads, whole.images.indices), fingerprint=fingerprint), reads  # type: ignore[arg-type]


def test_the_runs_of_a_process_decode_an_image_once_and_give_memory_up_for_others() -> None:
    (part, reads), (other, _) = counted("one"), counted("other")
    room = 60 * compute_image_bytes(part, small_preprocess().crop_px)
    one_of(part, np.arange(10), memory_bytes=room)
    one_of(part, np.arange(5, 20), memory_bytes=room)
    assert reads.n == 20, "five of them were there"
    wanted = [(part, np.arange(20)), (other, np.arange(20)), (other, np.arange(20, 60))]
    held, few, many = load_inputs(wanted, small_preprocess(), memory_bytes=room)
    assert reads.n == 20 and isinstance(held, HeldInputs) and isinstance(few, HeldInputs)
    assert isinstance(many, StreamedInputs), "what the same run uses is not given up"
    one_of(other, np.arange(60), memory_bytes=room)
    one_of(part, np.arange(4), memory_bytes=room)
    assert reads.n == 24, "what nobody used was given up"
    one_of(part, np.arange(4), replace(small_preprocess(), crop_px=8), memory_bytes=room)
    assert reads.n == 28, "another preprocessing is another image"


@pytest.mark.parametrize(("memory_bytes", "n_workers"), [(PLENTY, 0), (0, 0), (0, 1)])
def test_a_corrupt_image_is_named_wherever_it_is_read(memory_bytes: int, n_workers: int) -> None:
    part, _ = counted("broken", bad=3)
    with pytest.raises(CorruptImage, match=r"'3.png' of 'shapes'"):
        inputs = one_of(part, np.arange(6), memory_bytes=memory_bytes, n_workers=n_workers)
        list(inputs.batches(split_positions(6, 4)))


def _blank(read: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    values, valid = read(number)
    seen = np.zeros_like(valid)
    seen[0] = True  # a row that the crop leaves out
    return values, seen


def test_a_map_without_a_valid_pixel_where_the_encoder_looks_is_refused() -> None:
    whole = small_data("depth").train
    assert isinstance(whole, MapSet)
    part = replace(whole, maps=Maps(partial(_blank, whole.maps.read), whole.maps.indices), fingerprint="blank")
    assert len(one_of(part, np.arange(3), memory_bytes=PLENTY)) == 3
    with pytest.raises(DataError, match=r"'train/0' of .* has no valid pixel"):
        one_of(part, np.arange(3), replace(small_preprocess(), crop_px=8), memory_bytes=PLENTY)


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (("images", "depth"), "depth"),
        (("train/rgb", "train/normal", "val/rgb", "val/normal"), "normals"),
        (("train/house/rgb", "train/house/depth_zbuffer"), "depth"),
        (("train/cat", "train/dog", "val/cat", "val/dog"), "classification"),
    ],
)
def test_the_task_of_a_folder_is_what_lies_in_it(tmp_path: Path, folders: tuple[str, ...], expected: str) -> None:
    for name in folders:
        (tmp_path / name).mkdir(parents=True)
    assert resolve_task(tmp_path) == expected
    for name in ("images", "depth", "normals"):
        (tmp_path / "both" / name).mkdir(parents=True)
    with pytest.raises(QueryError, match="expected one of depth, normals"):
        resolve_task(tmp_path / "both")
