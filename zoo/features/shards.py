"""Shards of features: safetensors files of so many rows, written whole, named by their content, mapped into memory.

A shard holds ``x`` float32 (rows, dim), ``y`` int64 (rows,), and the names of its images as UTF-8 (``names``) with
where each ends (``name_ends``). Its header has the hash of its run, its number, and which images were skipped. Its name
ends with the beginning of its hash, so that two processes which compute one shard write one file if they agree to the
last bit, and two files if they do not: never one with the hash of the other.

:class:`Rows` and :class:`Names` make the rows and names of many shards look like one array and one list.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from ..errors import DataError
from ..files import replaced
from ..optional import requires_extra
from ..weights.store import Placed, parse_safetensors, safetensors_header

with requires_extra("models", needed_for="Working with features"):
    import numpy as np

FORMAT = "zoo-features-2"

_NAME = re.compile(r"shard-(\d{6,})-([0-9a-f]{16})\.safetensors")
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}
_ARRAYS = {"y": "I64", "name_ends": "I64", "x": "F32", "names": "U8"}  # in this order each is aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An image that could not be read, and was left out on request."""

    image: str  # its name
    position: int  # in the image set
    reason: str  # the sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A shard that was written, as the index lists it."""

    file: str  # its name
    n_rows: int
    size_bytes: int
    digest: str  # hash of all its bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One shard on the disk."""

    path: Path
    run: str  # hash of what it belongs to
    number: int
    n_rows: int
    dim: int  # 0 if it has no rows
    size_bytes: int
    skipped: tuple[Skipped, ...]
    arrays: dict[str, Placed]


def write_shard(
    folder: Path,
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str],
    *,
    run: str,
    number: int,
    skipped: Sequence[Skipped] = (),
) -> Listed:
    """Writes one shard, whole or not at all; nothing of it is copied but the names."""
    encoded = [name.encode("utf-8", "surrogateescape") for name in names or [""] * len(y)]  # as names of files may be
    arrays: dict[str, np.ndarray] = {
        "y": np.ascontiguousarray(y, dtype="<i8"),
        "name_ends": np.cumsum([len(name) for name in encoded], dtype="<i8"),
        "x": np.ascontiguousarray(x, dtype="<f4"),
        "names": np.frombuffer(b"".join(encoded), dtype="u1"),
    }
    about = {
        "format": FORMAT,
        "run": run,
        "number": str(number),
        "skipped": json.dumps([asdict(image) for image in skipped]),
    }
    header = safetensors_header({name: (_ARRAYS[name], array.shape) for name, array in arrays.items()}, about)
    parts = [memoryview(header)]
    parts += [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    target = folder / f"shard-{number:06d}-{digest.hexdigest()[:16]}.safetensors"
    with replaced(target) as file:
        for part in parts:
            file.write(part)
    return Listed(file=target.name, n_rows=len(y), size_bytes=sum(map(len, parts)), digest=digest.hexdigest())


def read_shard(path: Path) -> Shard:
    """The header of a shard, checked against the length of the file; ValueError if it is not that of a shard."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            about, arrays = parse_safetensors(file, size)
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        if {name: array.dtype for name, array in arrays.items()} != _ARRAYS:
            raise ValueError("its arrays are not those of a shard")
        (n_rows, dim), n_labels, n_names = arrays["x"].shape, arrays["y"].shape, arrays["name_ends"].shape
        if n_labels != (n_rows,) or n_names != (n_rows,):
            raise ValueError("its rows, labels and names are not of one number")
        return Shard(
            path=path,
            run=str(about["run"]),
            number=int(about["number"]),
            n_rows=n_rows,
            dim=dim,
            size_bytes=size,
            skipped=tuple(Skipped(**image) for image in json.loads(about["skipped"])),
            arrays=arrays,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its header is not that of a shard ({error!r})") from error


def mapped(path: Path, placed: Placed) -> np.ndarray:
    """An array of a shard, mapped into memory for reading.

    ValueError if the file is shorter than it was: reading beyond its end would kill the process.
    """
    dtype, n_bytes = _TYPES[placed.dtype], placed.n_bytes
    if not n_bytes:
        return np.empty(placed.shape, dtype)
    if os.stat(path).st_size < placed.offset + n_bytes:
        raise ValueError("it is shorter than it was")
    return np.memmap(path, dtype=dtype, mode="r", offset=placed.offset, shape=placed.shape).view(np.ndarray)


def shard_files(folder: Path) -> Iterator[tuple[int, str, Path]]:
    """Number, beginning of the hash, and path of every file of a folder that is named as a shard, in order."""
    for path in sorted(folder.glob("shard-*.safetensors")):
        if match := _NAME.fullmatch(path.name):
            yield int(match[1]), match[2], path


def file_digest(path: Path) -> str:
    """The hash of all bytes of a file, as :func:`write_shard` gives it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


_N_MAPPED = 64  # shards mapped at once, each of which takes a file descriptor


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
        """Bytes that all of it would take in memory."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"Rows(shape={self.shape}, dtype=float32, in {len(self._shards)} shards)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("Rows lie in files, so that an array of them is always a copy.")
        array: np.ndarray = np.asarray(self[:], dtype=dtype)
        return array

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
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        done = 0
        while done < len(rows):
            number = int(np.searchsorted(self._ends, start + done, side="right"))
            first = self._first(number)
            piece = self._part(number)[start + done - first : stop - first]
            rows[done : done + len(piece)] = piece
            done += len(piece)
        return rows

    def _taken(self, positions: np.ndarray) -> np.ndarray:
        n = len(self)
        if positions.size and not (-n <= positions.min() and positions.max() < n):
            raise IndexError(f"rows {positions.min()} to {positions.max()} were asked for, there are {n:,}")
        positions = np.where(positions < 0, positions + n, positions)
        rows = np.empty((len(positions), self.shape[1]), self.dtype)
        order = np.argsort(positions, kind="stable")  # so that a disk reads forwards
        numbers = np.searchsorted(self._ends, positions[order], side="right")
        for number in np.unique(numbers).tolist():
            begin, end = np.searchsorted(numbers, [number, number + 1])
            of_shard = order[begin:end]
            rows[of_shard] = self._part(number)[positions[of_shard] - self._first(number)]
        return rows

    def _first(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _map(self, number: int) -> np.ndarray:
        return _read(self._shards[number], "x")


class Names(Sequence[str]):
    """Names of images, which stay on the disk until they are asked for."""

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
