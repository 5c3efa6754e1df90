"""Rows are read by blocks, each once an epoch, and never more of them than a window holds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from tests.each import for_each
from zoo.errors import DataError
from zoo.evaluation.streamed_training import (
    LabelledRows,
    ShuffledRows,
    compute_moments,
    select_stratified,
    split_near_equal,
)

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


def shuffled(data: LabelledRows, window_rows: int, *, batch_rows: int = 16, block_rows: int = 4) -> ShuffledRows:
    return ShuffledRows(
        data, batch_rows=batch_rows, window_bytes=4 * DIM * window_rows, block_rows=block_rows, device=CPU
    )


@for_each(product([1, 7, 40, 90, 101, 1000], [False, True]), arguments=2)
def test_every_row_comes_once_an_epoch_with_its_label_whatever_the_window(window_rows: int, of_a_subset: bool) -> None:
    x = numbered_rows(101)
    data = LabelledRows(x, np.arange(101) * 10)
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


@for_each([8, 50, 100])
def test_no_more_rows_are_read_at_a_time_than_half_a_window_holds(window_rows: int) -> None:
    rows = Counted(numbered_rows(500))
    for _ in shuffled(LabelledRows(rows, np.zeros(500, dtype=np.int64)), window_rows).epoch(0):
        pass
    assert 0 < rows.most <= window_rows // 2


@for_each([(1, 4), (5, 2), (100, 7), (4096, 512), (4097, 512), (1000, 4096)], arguments=2)
def test_batches_are_nearly_equal_and_add_up(n: int, batch_rows: int) -> None:
    sizes = split_near_equal(n, batch_rows)
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(2, n)
    assert abs(len(sizes) - n / batch_rows) <= 0.5 or len(sizes) in (1, n // 2)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_of_blocks_are_those_of_the_whole(offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.evaluation.streamed_training._BYTES_AT_A_TIME", 4 * DIM * 17)
    x = numbered_rows(100) + np.float32(offset)
    moments = compute_moments(LabelledRows(x, np.zeros(100, dtype=np.int64)))
    np.testing.assert_allclose(moments.mean, x.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, x.astype(np.float64).var(axis=0), rtol=1e-5)


@for_each([np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named_by_its_number_in_the_whole_set(value: float) -> None:
    x = numbered_rows(100)
    x[57, 2] = value
    with pytest.raises(DataError, match=r"Row 57 of x_val holds -?(nan|inf) as feature 2"):
        compute_moments(LabelledRows(x, np.zeros(100, dtype=np.int64), name="x_val").subset(np.arange(50, 100)))


def test_a_stratified_share_has_its_part_of_every_class_and_at_least_one_row() -> None:
    y = np.repeat([0, 1, 2, 3], [100, 50, 4, 1])
    drawn = select_stratified(y, 0.1, seed=(0,), keep_one=False)
    assert np.bincount(y[drawn]).tolist() == [10, 5, 1, 1]
    assert np.array_equal(drawn, np.unique(drawn))
    assert np.bincount(y[select_stratified(y, 1.0, seed=(0,), keep_one=True)]).tolist() == [99, 49, 3]
    assert np.array_equal(drawn, select_stratified(y, 0.1, seed=(0,), keep_one=False))
    assert not np.array_equal(drawn, select_stratified(y, 0.1, seed=(1,), keep_one=False))
