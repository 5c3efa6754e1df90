"""Rows are read by blocks, each once an epoch, and never more of them than a window holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.errors import DataError
from zoo.evaluation.arrays import labels_of, rows_of
from zoo.evaluation.streamed_training import Labelled, ShuffledRows, near_equal, scanned, stratified

CPU = torch.device("cpu")
DIM = 3


class Counted:
    """Rows that remember how many of them were asked for at a time."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.shape, self.most = x, x.shape, 0

    def __getitem__(self, index: Any) -> np.ndarray:
        rows = self.x[index]
        self.most = max(self.most, len(rows))
        return rows


def numbered_rows(n: int) -> np.ndarray:
    """The first feature of a row is its number."""
    x = np.random.default_rng(0).normal(size=(n, DIM)).astype(np.float32)
    x[:, 0] = np.arange(n)
    return x


def shuffled(data: Labelled, window_rows: int, *, batch_rows: int = 16, block_rows: int = 4) -> ShuffledRows:
    return ShuffledRows(
        data, batch_rows=batch_rows, window_bytes=4 * DIM * window_rows, block_rows=block_rows, device=CPU
    )


@pytest.mark.parametrize("window_rows", [1, 7, 40, 90, 101, 1000])
@pytest.mark.parametrize("of_a_subset", [False, True])
def test_every_row_comes_once_an_epoch_with_its_label_whatever_the_window(window_rows: int, of_a_subset: bool) -> None:
    x = numbered_rows(101)
    data = Labelled(x, np.arange(101) * 10)
    if of_a_subset:
        data = data.subset(np.flatnonzero(np.arange(101) % 3))
    reader = shuffled(data, window_rows)
    batches = list(reader.epoch(0, 0))
    assert [len(batch) for batch, _ in batches] == reader.sizes
    rows, labels = torch.cat([batch for batch, _ in batches]), torch.cat([batch for _, batch in batches])
    expected = np.arange(101) if data.index is None else data.index
    assert sorted(rows[:, 0].int().tolist()) == expected.tolist()
    assert torch.equal(rows[:, 0].long() * 10, labels)
    assert np.array_equal(rows.numpy(), x[rows[:, 0].int().numpy()])


@pytest.mark.parametrize("window_rows", [8, 50, 100])
def test_no_more_rows_are_read_at_a_time_than_half_a_window_holds(window_rows: int) -> None:
    rows = Counted(numbered_rows(500))
    for _ in shuffled(Labelled(rows, np.zeros(500, dtype=np.int64)), window_rows).epoch(0):
        pass
    assert 0 < rows.most <= window_rows // 2


def test_the_order_is_decided_by_the_seed_and_differs_between_epochs() -> None:
    reader = shuffled(Labelled(numbered_rows(200), np.zeros(200, dtype=np.int64)), 60)
    first, again, other = (
        torch.cat([batch for batch, _ in reader.epoch(*seed)])[:, 0] for seed in ((1, 0), (1, 0), (1, 1))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_rows_that_fit_are_shuffled_as_a_whole_and_others_across_the_whole_set() -> None:
    data = Labelled(numbered_rows(1000), np.zeros(1000, dtype=np.int64))
    for window_rows in (1000, 200):
        first_batch = next(iter(shuffled(data, window_rows, batch_rows=50).epoch(3)))[0][:, 0]
        assert first_batch.min() < 200 and first_batch.max() > 800


@pytest.mark.parametrize(("n", "batch_rows"), [(1, 4), (5, 2), (100, 7), (4096, 512), (4097, 512), (1000, 4096)])
def test_batches_are_nearly_equal_and_add_up(n: int, batch_rows: int) -> None:
    sizes = near_equal(n, batch_rows)
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(2, n)
    assert abs(len(sizes) - n / batch_rows) <= 0.5 or len(sizes) in (1, n // 2)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_of_blocks_are_those_of_the_whole(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.evaluation.streamed_training._BYTES_AT_A_TIME", 4 * DIM * 17)
    x = numbered_rows(100) + np.float32(offset)
    moments = scanned(Labelled(x, np.zeros(100, dtype=np.int64)))
    np.testing.assert_allclose(moments.mean, x.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, x.astype(np.float64).var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named_by_its_number_in_the_whole_set(value: float) -> None:
    x = numbered_rows(100)
    x[57, 2] = value
    with pytest.raises(DataError, match=r"Row 57 of x_val holds -?(nan|inf) as feature 2"):
        scanned(Labelled(x, np.zeros(100, dtype=np.int64), name="x_val").subset(np.arange(50, 100)))


def test_memory_mapped_rows_read_as_those_in_memory(tmp_path: Path) -> None:
    x = numbered_rows(90)
    np.save(tmp_path / "x.npy", x)
    y = np.zeros(90, dtype=np.int64)
    mapped = Labelled(np.load(tmp_path / "x.npy", mmap_mode="r"), y)
    for window_rows in (20, 90):
        pairs = zip(shuffled(mapped, window_rows).epoch(1), shuffled(Labelled(x, y), window_rows).epoch(1), strict=True)
        assert all(torch.equal(one, other) for (one, _), (other, _) in pairs)


def test_a_stratified_share_has_its_part_of_every_class_and_at_least_one_row() -> None:
    y = np.repeat([0, 1, 2, 3], [100, 50, 4, 1])
    drawn = stratified(y, 0.1, seed=(0,), keep_one=False)
    assert np.bincount(y[drawn]).tolist() == [10, 5, 1, 1]
    assert np.array_equal(drawn, np.unique(drawn))
    assert np.bincount(y[stratified(y, 1.0, seed=(0,), keep_one=True)]).tolist() == [99, 49, 3]
    assert np.array_equal(drawn, stratified(y, 0.1, seed=(0,), keep_one=False))
    assert not np.array_equal(drawn, stratified(y, 0.1, seed=(1,), keep_one=False))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros(4), r"x has the shape \(4,\), expected a 2D array"),
        (np.zeros((0, 4)), "x is empty"),
        (np.zeros((4, 0)), "x is empty"),
        ([[1.0], [1.0, 2.0]], "x cannot be read as an array"),
    ],
)
def test_what_is_no_table_of_features_is_refused(x: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        rows_of(x, "x")


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0, 1], r"y has the shape \(2,\), expected one label for each of the 3 rows"),
        ([0, 1, np.nan], "label of row 2 in y is nan"),
        ([0, 1, 0.5], "y holds continuous numbers"),
    ],
)
def test_what_are_no_labels_is_refused(y: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        labels_of(y, 3, "y")
