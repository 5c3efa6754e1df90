"""The rows of many shards behind the manners of one array, and the names of their images behind those of a list."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, overload

from ..errors import DataError
from ..optional import requires_extra
from .shards import Shard, mapped

with requires_extra("models", needed_for="Working with features"):
    import numpy as np

_N_MAPPED = 64  # shards at once, each of which takes a descriptor


class Rows:
    """float32 (n, dim), as an array that stays on the disk: only what is asked for is read, and comes as a copy.

    Understood are ``len``, ``shape``, ``dtype``, one row, slices, arrays of positions or of truth values, each also
    with columns (``rows[10:20, :5]``), ``np.asarray`` for all of it, and :meth:`batches`. It may be pickled, and read
    by several threads.

    Parameters
    ----------
    shards : sequence of Shard
        In order; those without rows may be among them.
    dim : int
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, shards: Sequence[Shard], *, dim: int) -> None:
        self._shards = tuple(shard for shard in shards if shard.n_rows)
        self._ends = np.array(list(accumulate(shard.n_rows for shard in self._shards)), dtype=np.int64)
        self.shape = (int(self._ends[-1]) if self._shards else 0, dim)
        self._part = lru_cache(_N_MAPPED)(self._map)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rows, (self._shards, self.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """What all of it would take in memory."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, dtype=float32, in {len(self._shards)} shards)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("Rows lie in files, so that an array of them is always a copy.")
        found: np.ndarray = np.asarray(self[:], dtype=dtype)
        return found

    def __getitem__(self, key: Any) -> np.ndarray:
        if isinstance(key, tuple):
            return self._with_columns(key)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._range(start, max(start, stop))
            return self._taken(np.arange(start, stop, step))
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            row: np.ndarray = self._taken(np.array([key]))[0]  # (dim,)
            return row
        wanted = np.asarray(key)
        if wanted.dtype == np.bool_:
            if wanted.shape != (len(self),):
                raise IndexError(f"truth values of shape {wanted.shape} for {len(self):,} rows; expected one a row")
            wanted = np.flatnonzero(wanted)
        if wanted.ndim != 1 or not (np.issubdtype(wanted.dtype, np.integer) or not wanted.size):
            raise IndexError(f"rows are asked for by slices or one-dimensional whole numbers, got {key!r}")
        return self._taken(wanted.astype(np.int64))

    def batches(self, n_rows: int) -> Iterator[np.ndarray]:
        """Its rows in order, ``n_rows`` at a time, float32 (n_rows, dim); the last ones may be fewer."""
        for start in range(0, len(self), n_rows):
            yield self[start : start + n_rows]

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), 1024):
            yield from self[start : start + 1024]

    def _with_columns(self, key: tuple[Any, ...]) -> np.ndarray:
        if len(key) != 2 or not isinstance(key[1], (int, np.integer, slice)):
            raise IndexError(f"columns are asked for by a number or a slice behind the rows, got {key!r}")
        return self[key[0]][..., key[1]]

    def _range(self, start: int, stop: int) -> np.ndarray:
        found = np.empty((stop - start, self.shape[1]), self.dtype)
        done = 0
        while done < len(found):
            number = int(np.searchsorted(self._ends, start + done, side="right"))
            first = self._first(number)
            piece = self._part(number)[start + done - first : stop - first]
            found[done : done + len(piece)] = piece
            done += len(piece)
        return found

    def _taken(self, positions: np.ndarray) -> np.ndarray:
        n = len(self)
        if positions.size and not (-n <= positions.min() and positions.max() < n):
            raise IndexError(f"rows {positions.min()} to {positions.max()} were asked for, there are {n:,}")
        positions = np.where(positions < 0, positions + n, positions)
        found = np.empty((len(positions), self.shape[1]), self.dtype)
        order = np.argsort(positions, kind="stable")  # so that a disk reads forwards
        numbers = np.searchsorted(self._ends, positions[order], side="right")
        for number in np.unique(numbers).tolist():
            begin, end = np.searchsorted(numbers, [number, number + 1])
            of_shard = order[begin:end]
            found[of_shard] = self._part(number)[positions[of_shard] - self._first(number)]
        return found

    def _first(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _map(self, number: int) -> np.ndarray:
        return _read(self._shards[number], "x")


class Names(Sequence[str]):
    """Names of images, which stay on the disk until somebody asks."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = tuple(shard for shard in shards if shard.n_rows)
        self._ends = list(accumulate(shard.n_rows for shard in self._shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"image {index} was asked for, there are {len(self):,}")
        number = bisect_right(self._ends, position)
        shard = self._shards[number]
        row = position - (self._ends[number - 1] if number else 0)
        ends, text = _read(shard, "name_ends"), _read(shard, "names")
        return _decoded(text[ends[row - 1] if row else 0 : ends[row]].tobytes())

    def __iter__(self) -> Iterator[str]:
        for shard in self._shards:
            start, text = 0, _read(shard, "names").tobytes()
            for end in _read(shard, "name_ends").tolist():
                yield _decoded(text[start:end])
                start = end

    def __repr__(self) -> str:
        return f"Names({len(self):,} of images)"


def labels_of(shards: Sequence[Shard]) -> np.ndarray:
    """The labels of all rows of some shards, int64 (n,), in memory."""
    parts = [_read(shard, "y") for shard in shards]
    return np.concatenate(parts).astype(np.int64, copy=False) if parts else np.empty(0, np.int64)


def _rows(shards: tuple[Shard, ...], dim: int) -> Rows:
    return Rows(shards, dim=dim)


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _read(shard: Shard, name: str) -> np.ndarray:
    try:
        return mapped(shard.path, shard.arrays[name])
    except (OSError, ValueError) as error:
        raise DataError(
            f"The features in {shard.path} cannot be read any more ({error}); restore the file, or remove the folder "
            "and compute the features again."
        ) from error
