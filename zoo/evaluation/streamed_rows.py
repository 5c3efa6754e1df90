"""Rows of features that may lie on disk: checked, read by blocks, shuffled through a window that memory can hold.

How an epoch is shuffled: the rows are cut into blocks of a few neighbouring rows; the blocks are put into a random
order and dealt out to windows; the rows of a window are read in the order of the disk and then shuffled among
themselves. Each row comes once an epoch. If all rows fit into one window they are read once, and every epoch is a plain
random permutation. Otherwise two windows of half the size take turns, one being read while the other is used. Blocks
are small because image sets are stored class by class: with long blocks a window would hold few of the classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..datasets.contents import beside_the_first
from ..errors import DataError
from ..optional import requires_extra
from .streamed_checks import Array, Rows, float32_of, floats_of

with requires_extra("evaluate", needed_for="Training probes"):
    import numpy as np
    import torch

_SEQUENTIAL_BYTES = 1 << 25  # of features read at a time where the order does not matter


@dataclass(frozen=True, eq=False)
class Labelled:
    """Some of the rows of a set of features, and their classes.

    ``index`` are the rows of ``x`` that belong, ascending, or None for all; ``y`` int64 (n,) are numbers of classes in
    the order of the rows, -1 for a label that no class has; ``name`` is what errors call ``x``. Rows are read as
    float32 unless ``is_wide``, which leaves float64 as it is.
    """

    x: Rows
    y: Array
    index: Array | None = None
    name: str = "x"
    is_wide: bool = False

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.x.shape[1]

    def read(self, position: slice | Array) -> Array:
        """Rows at positions among those that belong, ascending: (m, dim)."""
        rows = self.x[_slice_if_possible(position if self.index is None else self.index[position])]
        return floats_of(rows, self.name) if self.is_wide else float32_of(rows, self.name)

    def blocks(self, n_rows: int = 0) -> Iterator[tuple[slice, Array]]:
        """All rows in their order, ``n_rows`` at a time or as many as are sensible."""
        step = n_rows or max(1, _SEQUENTIAL_BYTES // (4 * max(1, self.dim)))
        for first in range(0, len(self), step):
            part = slice(first, min(first + step, len(self)))
            yield part, self.read(part)

    def subset(self, positions: Array) -> Labelled:
        """Only the rows at some positions, ascending."""
        index = positions if self.index is None else self.index[positions]
        return Labelled(self.x, self.y[positions], index, self.name, self.is_wide)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance (dividing by n) of each feature, float64 (dim,)."""

    mean: Array
    variance: Array


def scanned(data: Labelled) -> Moments:
    """Reads all rows once: their moments.

    Raises
    ------
    DataError
        If a feature is not finite; names the first such row.
    """
    n, mean = 0, np.zeros(data.dim)
    squares = np.zeros(data.dim)  # sum of squared deviations from the mean
    for part, block in data.blocks():
        require_finite(block, part, data)
        m, own = len(block), block.mean(axis=0, dtype=np.float64)
        shift = own.astype(np.float32)
        centred, rest, step = block - shift, own - shift, own - mean
        squares += np.square(centred, dtype=np.float64).sum(axis=0) - m * rest**2 + step**2 * (n * m / (n + m))
        n += m
        mean += step * (m / n)
    return Moments(mean, np.maximum(squares / n, 0))


def require_finite(block: Array, part: slice, data: Labelled) -> None:
    """Refuses a block of rows, those of a part of the data, with NaN or infinity in it.

    Raises
    ------
    DataError
        Names the first such row and feature.
    """
    finite = np.isfinite(block)
    if finite.all():
        return
    at, feature = (int(number) for number in np.argwhere(~finite)[0])
    row = part.start + at if data.index is None else int(data.index[part.start + at])
    raise DataError(
        f"Row {row} of {data.name} holds {block[at, feature]} as feature {feature}, expected finite numbers (no NaN or "
        "infinity): compute the features of that image again, or leave it out."
    )


class ShuffledRows:
    """Rows in a new random order every epoch, in batches, without ever holding more than a window of them.

    Parameters
    ----------
    batch_rows : int
        Size of the batches; they are made nearly equal, so they have up to half as many more or fewer.
    window_bytes : int
        Of features in memory, but for a batch.
    block_rows : int
        Neighbouring rows that go to the same window.
    """

    def __init__(
        self, data: Labelled, *, batch_rows: int, window_bytes: int, block_rows: int, device: torch.device
    ) -> None:
        self._data, self._device = data, device
        rows = max(1, window_bytes // (4 * data.dim))
        self._held: torch.Tensor | None = None
        self._in_one = len(data) <= rows
        self._block = max(1, min(block_rows, rows // 2))
        self._blocks_a_window = max(1, rows // 2 // self._block)
        self._y = torch.from_numpy(np.ascontiguousarray(data.y)).to(device)
        self.sizes = near_equal(len(data), batch_rows)
        """Of the batches of an epoch."""

    def epoch(self, *seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batches of an epoch: float32 (b, dim) and int64 (b,), on the device; every row once.

        ``seed`` decides the order, together with the sizes of block and window, and nothing else does.
        """
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        sizes = iter(self.sizes)
        missing, parts = next(sizes), list[tuple[torch.Tensor, torch.Tensor]]()
        for x, y, order in self._windows(generator):
            at = 0
            while at < len(order):
                take = order[at : at + missing]
                parts.append((x.index_select(0, take), y.index_select(0, take)))
                at, missing = at + len(take), missing - len(take)
                if not missing:
                    yield (
                        parts[0]
                        if len(parts) == 1
                        else (
                            torch.cat([part for part, _ in parts]),
                            torch.cat([part for _, part in parts]),
                        )
                    )
                    missing, parts = next(sizes, 0), []

    def _windows(self, generator: np.random.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Rows of each window, their classes, and the order to take them in."""
        n = len(self._data)
        if self._in_one:
            if self._held is None:
                self._held = self._tensor(slice(0, n))
            yield self._held, self._y, torch.from_numpy(generator.permutation(n)).to(self._device)
            return
        blocks = generator.permutation(-(-n // self._block))
        windows = [
            self._positions(np.sort(blocks[first : first + self._blocks_a_window]))
            for first in range(0, len(blocks), self._blocks_a_window)
        ]
        orders = [torch.from_numpy(generator.permutation(len(window))) for window in windows]
        with ThreadPoolExecutor(max_workers=1) as reader:
            coming = reader.submit(self._tensor, windows[0])
            for number, (window, order) in enumerate(zip(windows, orders, strict=True)):
                x = coming.result()
                if number + 1 < len(windows):
                    coming = reader.submit(self._tensor, windows[number + 1])
                y = self._y.index_select(0, torch.from_numpy(window).to(self._device))
                yield x, y, order.to(self._device)

    def _positions(self, blocks: Array) -> Array:
        positions = (blocks[:, None] * self._block + np.arange(self._block)).ravel()
        return positions[positions < len(self._data)]

    def _tensor(self, position: slice | Array) -> torch.Tensor:
        return writable(self._data.read(position)).to(self._device)


def near_equal(n: int, batch_rows: int) -> list[int]:
    """Sizes of the batches that n rows make: their number is rounded, and no two sizes differ by more than one.

    Batches of one row are avoided, for they have no variance.

    >>> near_equal(10, 4), near_equal(9, 4), near_equal(3, 4), near_equal(3, 2)
    ([5, 5], [4, 5], [3], [3])
    """
    number = max(1, min(round(n / batch_rows), n // 2))
    return [(i + 1) * n // number - i * n // number for i in range(number)]


def stratified(y: Array, share: float, *, seed: Sequence[int], keep_one: bool) -> Array:
    """Positions of a share of each class, ascending.

    Of a class with n rows ``share * n`` are drawn, rounded, but at least one; or, to ``keep_one``, at most n - 1.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(seed))))
    drawn = []
    order = np.argsort(y, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(y[order])) + 1):
        wanted = max(1, int(share * len(rows) + 0.5))
        drawn.append(generator.permutation(rows)[: min(wanted, len(rows) - keep_one)])
    return np.sort(np.concatenate(drawn))


def with_copies(held_out: Array, y: Array, groups: Array) -> Array:
    """Positions held out such that every row goes with the first of its group, and no class is held out whole.

    >>> with_copies(np.array([0]), np.array([0, 0, 0, 1]), np.array([5, 6, 5, 7])).tolist()
    [0, 2]
    """
    is_out = np.zeros(len(y), bool)
    is_out[held_out] = True
    together = beside_the_first(is_out, groups)
    whole = np.setdiff1d(y, y[~together])
    return np.flatnonzero(together & ~np.isin(groups, groups[np.isin(y, whole)]))


def writable(rows: Array) -> torch.Tensor:
    """A tensor of the same numbers; memory that may only be read is copied, for torch has no such tensors."""
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy())


def _slice_if_possible(index: slice | Array) -> slice | Array:
    """A run of neighbouring rows as a slice, which reads without gathering."""
    if isinstance(index, slice) or not len(index) or index[-1] - index[0] != len(index) - 1:
        return index
    return slice(int(index[0]), int(index[-1]) + 1)
