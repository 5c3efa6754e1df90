"""The images of a run: the same numbers from memory and from anew, shared by the runs of a process, named if broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch

from tests.evaluation.curves.curve_training import small_data, small_preprocess
from zoo.datasets import ImageSet, LazyImages
from zoo.datasets.dense import Maps, MapSet, aligned
from zoo.encoders.preprocess import build_preprocess
from zoo.errors import CorruptImage, DataError
from zoo.evaluation.curves.inputs import (
    Batch,
    HeldInputs,
    StreamedInputs,
    cuts_of,
    forget_inputs,
    inputs_of,
    n_bytes_of,
)

PREPROCESS = small_preprocess()
PLENTY = 1 << 30


@pytest.fixture(autouse=True)
def _nothing_in_memory() -> Iterator[None]:
    forget_inputs()
    yield
    forget_inputs()


def equal(one: Batch, other: Batch) -> bool:
    valid = (one.valid is None) == (other.valid is None)
    if one.valid is not None and other.valid is not None:
        valid = torch.equal(one.valid, other.valid)
    return valid and torch.equal(one.images, other.images) and torch.equal(one.target, other.target)


@pytest.mark.parametrize("task", ["classification", "depth", "normals"])
def test_memory_and_reading_anew_give_the_same_batches(task: str) -> None:
    part, indices = small_data(task).train, np.array([7, 3, 50, 0, 12])
    held = inputs_of(part, indices, PREPROCESS, memory_bytes=PLENTY)
    streamed = inputs_of(part, indices, PREPROCESS, memory_bytes=0)
    assert isinstance(held, HeldInputs)
    assert isinstance(streamed, StreamedInputs)
    cuts = [np.array([4, 0]), np.array([1, 2, 3])]
    for one, other in zip(held.batches(cuts), streamed.batches(cuts), strict=True):
        assert equal(one, other)
    for one, other in zip(held.targets(cuts[1]), streamed.targets(cuts[1]), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)  # type: ignore[arg-type]


def test_processes_read_what_a_thread_reads() -> None:
    part, indices = small_data("normals").train, np.arange(12)
    alone = inputs_of(part, indices, PREPROCESS, memory_bytes=0)
    helped = inputs_of(part, indices, PREPROCESS, memory_bytes=0, n_workers=1)
    for one, other in zip(alone.batches(cuts_of(12, 5)), helped.batches(cuts_of(12, 5)), strict=True):
        assert equal(one, other)


def test_a_batch_is_what_the_preprocessing_and_the_alignment_make() -> None:
    part = small_data("depth").train
    wide = replace(PREPROCESS, resize_px=20, crop_px=12)
    (batch,) = inputs_of(part, np.array([9, 4]), wide, memory_bytes=PLENTY).batches([np.array([1, 0])])
    assert isinstance(part, MapSet)
    for row, position in enumerate((4, 9)):
        values, valid = aligned(*part.maps[position], wide)
        assert torch.equal(batch.images[row], build_preprocess(wide)(part.images[position][0]))
        assert np.array_equal(batch.target[row], values)
        assert batch.valid is not None
        assert np.array_equal(batch.valid[row], valid)


@dataclass
class Counted:
    """Reads images, and counts how often."""

    images: LazyImages
    n: int = 0

    def __call__(self, number: int) -> object:
        self.n += 1
        return self.images.read(number)


def counted(fingerprint: str) -> tuple[ImageSet, Counted]:
    whole = small_data("classification").train
    assert isinstance(whole, ImageSet)
    assert isinstance(whole.images, LazyImages)
    counter = Counted(whole.images)
    images = LazyImages(counter, whole.images.indices)  # type: ignore[arg-type]
    return replace(whole, images=images, fingerprint=fingerprint), counter


def test_the_runs_of_a_process_decode_an_image_once() -> None:
    part, counter = counted("shared")
    first = inputs_of(part, np.arange(10), PREPROCESS, memory_bytes=PLENTY)
    assert counter.n == 10
    second = inputs_of(part, np.arange(5, 20), PREPROCESS, memory_bytes=PLENTY)
    assert counter.n == 20, "ten of them were there"
    del first, second
    inputs_of(part, np.arange(20), PREPROCESS, memory_bytes=PLENTY)
    assert counter.n == 20
    inputs_of(part, np.arange(4), replace(PREPROCESS, crop_px=8), memory_bytes=PLENTY)
    assert counter.n == 24, "another preprocessing is another image"


def test_memory_is_given_up_for_others_unless_a_run_uses_it() -> None:
    (one, counter), (other, _) = counted("one"), counted("other")
    room = n_bytes_of(one, len(one), PREPROCESS.crop_px) * 3 // 2  # for one set, and half of another
    used = inputs_of(one, np.arange(4), PREPROCESS, memory_bytes=room)
    few = inputs_of(other, np.arange(20), PREPROCESS, memory_bytes=room)
    assert isinstance(few, HeldInputs), "these fit, if not the whole set"
    assert isinstance(inputs_of(other, np.arange(20, 60), PREPROCESS, memory_bytes=room), StreamedInputs)
    del used, few
    assert isinstance(inputs_of(other, np.arange(60), PREPROCESS, memory_bytes=room), HeldInputs)
    inputs_of(one, np.arange(4), PREPROCESS, memory_bytes=room)
    assert counter.n == 8, "what nobody used was given up"


def _broken(read: object, bad: int, number: int) -> object:
    if number == bad:
        raise CorruptImage.of(f"{number}.png", image_set="shapes", reason="it ends too early")
    return read(number)  # type: ignore[operator]


@pytest.mark.parametrize(("memory_bytes", "n_workers"), [(PLENTY, 0), (0, 0), (0, 1)])
def test_a_corrupt_image_is_named_wherever_it_is_read(memory_bytes: int, n_workers: int) -> None:
    whole = small_data("classification").train
    assert isinstance(whole, ImageSet)
    assert isinstance(whole.images, LazyImages)
    images = LazyImages(partial(_broken, whole.images.read, 3), whole.images.indices)  # type: ignore[arg-type]
    part = replace(whole, images=images, fingerprint="broken")
    with pytest.raises(CorruptImage, match=r"'3.png' of 'shapes' cannot be read \(it ends too early\)"):
        inputs = inputs_of(part, np.arange(6), PREPROCESS, memory_bytes=memory_bytes, n_workers=n_workers)
        list(inputs.batches(cuts_of(6, 4)))


def _blank(read: object, number: int) -> tuple[np.ndarray, np.ndarray]:
    values, valid = read(number)  # type: ignore[operator]
    seen = np.zeros_like(valid)
    seen[0] = True  # a row that the crop leaves out
    return values, seen


def test_a_map_without_a_valid_pixel_where_the_encoder_looks_is_refused() -> None:
    whole = small_data("depth").train
    assert isinstance(whole, MapSet)
    part = replace(whole, maps=Maps(partial(_blank, whole.maps.read), whole.maps.indices), fingerprint="blank")
    assert len(inputs_of(part, np.arange(3), PREPROCESS, memory_bytes=PLENTY)) == 3
    with pytest.raises(
        DataError, match=r"The map of 'train/0' of .* has no valid pixel in the 8 px that the encoder sees"
    ):
        inputs_of(part, np.arange(3), replace(PREPROCESS, crop_px=8), memory_bytes=PLENTY)
