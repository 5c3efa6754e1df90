"""Shards of features: safetensors files of so many rows, written whole, named by their content, mapped into memory.

A shard holds ``x`` float32 or float16 (rows, dim), ``y`` int64 (rows,), and the names of its images as UTF-8
(``names``) with where each ends (``name_ends``). Its header has the hash of its run, its number, and which images were
skipped. Its name ends with its hash, so that two processes which compute one shard write one file if they agree to the
last bit, and two files if they do not: never one with the hash of the other.

At an address the header and what stands before the rows are read where they are. A whole shard is fetched when its rows
are first asked for, compared with its hash, and kept in a folder of the cache whose size is limited.

:class:`Rows` and :class:`ImageNames` make the rows and names of many shards look like one array and one list.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from ..errors import DataError, QueryError, StoreError
from ..files import get_cache_folder, lock_file, replace_file
from ..optional import require_extra
from ..storage import Location
from ..weights.store import ArrayLocation, build_safetensors_header, parse_safetensors

with require_extra("models", needed_for="Working with features"):
    import numpy as np

FORMAT = "zoo-features-2"

STORED = {"float32": "F32", "float16": "F16"}
"""Types in which rows may be stored; they are float32 when they are read."""

_NAME = re.compile(r"shard-(\d{6,})-([0-9a-f]{16}|[0-9a-f]{32})\.safetensors")  # older ones have half of the hash
_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_ARRAYS = {"y": "I64", "name_ends": "I64", "x": "F32", "names": "U8"}  # in this order each is aligned
_PATIENCE_S = 600.0  # for another process that fetches a shard
_HEAD_BYTES = 1 << 16  # read at once at an address: the header and the labels of some thousands of images


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An image that could not be read, and was left out on request."""

    image: str  # its name
    position: int  # in the image set
    reason: str  # the sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """A shard that was written, as the index lists it."""

    file: str  # its name
    n_rows: int
    size_bytes: int
    digest: str  # hash of all its bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureShard:
    """One shard in its place."""

    place: Location
    file: str  # its name
    run: str  # hash of what it belongs to
    number: int
    n_rows: int
    dim: int  # 0 if it has no rows
    size_bytes: int
    skipped: tuple[Skipped, ...]
    arrays: dict[str, ArrayLocation]
    digest: str = ""  # hash of all its bytes, as an index or its name has it; empty if neither does
    y: bytes | None = field(default=None, repr=False)  # of a shard at an address, from the same answer as its header


def write_shard(
    place: Location,
    x: np.ndarray,
    y: np.ndarray,
    names: Sequence[str],
    *,
    run: str,
    number: int,
    skipped: Sequence[Skipped] = (),
    stored: str = "float32",
) -> ShardEntry:
    """Writes one shard, whole or not at all: it is made in memory, hashed, and written at once under its final name.

    ``stored`` is one of :data:`STORED`; float16 rounds to eleven bits. DataError if a number is too large for that,
    PlaceError if the shard cannot be written.
    """
    encoded = [name.encode("utf-8", "surrogateescape") for name in names or [""] * len(y)]  # as names of files may be
    kinds = _ARRAYS | {"x": STORED[stored]}
    arrays: dict[str, np.ndarray] = {
        "y": np.ascontiguousarray(y, dtype="<i8"),
        "name_ends": np.cumsum([len(name) for name in encoded], dtype="<i8"),
        "x": _rounded(x, stored),
        "names": np.frombuffer(b"".join(encoded), dtype="u1"),
    }
    about = {
        "format": FORMAT,
        "run": run,
        "number": str(number),
        "skipped": json.dumps([asdict(image) for image in skipped]),
    }
    header = build_safetensors_header({name: (kinds[name], array.shape) for name, array in arrays.items()}, about)
    content = b"".join([header, *(array.reshape(-1).view(np.uint8).data for array in arrays.values())])
    digest = compute_digest(content)
    file = f"shard-{number:06d}-{digest}.safetensors"
    place.write(file, content)
    return ShardEntry(file=file, n_rows=len(y), size_bytes=len(content), digest=digest)


def _rounded(x: np.ndarray, stored: str) -> np.ndarray:
    """Rows in the type they are stored in."""
    kind = _TYPES[STORED[stored]]
    with np.errstate(over="ignore"):  # looked at below
        rows = np.ascontiguousarray(x, dtype=kind)
    if kind != np.float32 and not np.isfinite(rows).all():
        largest = float(np.abs(x).max())
        raise DataError(
            f"Features of up to {largest:g} were to be stored as {stored}, which ends at {np.finfo(kind).max:,.0f}; "
            "store them as float32."
        )
    return rows


def compute_digest(content: bytes) -> str:
    """The hash of a shard's bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read_shard(place: Location, file: str, *, size: int | None = None) -> FeatureShard:
    """The header of a shard, checked against its length; ValueError if it is missing or not a shard.

    At an address ``size`` is the length if it is known, as from :meth:`zoo.storage.Location.sizes`.
    """
    head: bytes | None = None
    try:
        if place.folder is not None:
            with open(place.folder / file, "rb") as opened:
                size = os.fstat(opened.fileno()).st_size
                about, arrays = parse_safetensors(opened, size)
        else:
            head, size = _head(place, file, size)
            about, arrays = parse_safetensors(BytesIO(head), size)
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        kinds = {name: array.dtype for name, array in arrays.items()}
        if kinds not in [_ARRAYS | {"x": kind} for kind in STORED.values()]:
            raise ValueError("its arrays are not those of a shard")
        (n_rows, dim), n_labels, n_names = arrays["x"].shape, arrays["y"].shape, arrays["name_ends"].shape
        if n_labels != (n_rows,) or n_names != (n_rows,):
            raise ValueError("its rows, labels and names are not of one number")
        return FeatureShard(
            place=place,
            file=file,
            run=str(about["run"]),
            number=int(about["number"]),
            n_rows=n_rows,
            dim=dim,
            size_bytes=size,
            skipped=tuple(Skipped(**image) for image in json.loads(about["skipped"])),
            arrays=arrays,
            digest=_hash_in(file),
            y=None if head is None else _cut(head, arrays["y"]),
        )
    except FileNotFoundError as error:
        raise ValueError(error.strerror) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its header is not that of a shard ({error!r})") from error


def _head(place: Location, file: str, size: int | None) -> tuple[bytes, int]:
    """The first bytes of a shard at an address, with all of its header, and its length."""
    head = place.read(file, 0, _HEAD_BYTES)
    size = place.size(file) if size is None or size < 0 else size
    if head is None or size is None:
        raise FileNotFoundError(0, "No such file", file)
    n_header = 8 + int.from_bytes(head[:8], "little")
    if len(head) < n_header <= size:
        head = place.read(file, 0, n_header) or b""
    return head, size


def _cut(head: bytes, placed: ArrayLocation) -> bytes | None:
    """The bytes of an array, if the first bytes of its file have all of it."""
    end = placed.offset + placed.n_bytes
    return head[placed.offset : end] if end <= len(head) else None


def _hash_in(file: str) -> str:
    match = _NAME.fullmatch(file)
    return match[2] if match and len(match[2]) == 32 else ""


def map_shard_array(path: Path, placed: ArrayLocation) -> np.ndarray:
    """An array of a shard, mapped into memory for reading.

    ValueError if the file is shorter than it was: reading beyond its end would kill the process.
    """
    dtype, n_bytes = _TYPES[placed.dtype], placed.n_bytes
    if not n_bytes:
        return np.empty(placed.shape, dtype)
    if os.stat(path).st_size < placed.offset + n_bytes:
        raise ValueError("it is shorter than it was")
    return np.memmap(path, dtype=dtype, mode="r", offset=placed.offset, shape=placed.shape).view(np.ndarray)


def list_shard_files(place: Location) -> dict[str, tuple[int, str, int]]:
    """Number, hash (of older ones its first half), and bytes of every file that is named as a shard, in order."""
    found = {}
    for file, size in place.sizes().items():
        if match := _NAME.fullmatch(file):
            found[file] = int(match[1]), match[2], size
    return found


def parse_shard_number(file: str) -> int | None:
    """The number of a shard by its name; None if no shard is called so."""
    match = _NAME.fullmatch(file)
    return int(match[1]) if match else None


def is_shard_name(file: str) -> bool:
    """False for a name that no shard has, such as one that leads elsewhere."""
    return _NAME.fullmatch(file) is not None


def hash_shard_file(place: Location, file: str) -> str:
    """The hash of all bytes of a file, as :func:`write_shard` gives it; PlaceError if it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    for block in place.blocks(file):
        digest.update(block)
    return digest.hexdigest()


_N_MAPPED = 64  # shards mapped at once, each of which takes a file descriptor
_MAPPED_BYTES = 1 << 29  # of them together, but for one shard: the system counts what was read of them as memory
_N_TEXTS = 8  # shards whose names stay in memory


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

    def __init__(self, shards: Sequence[FeatureShard], *, dim: int) -> None:
        self._shards = tuple(replace(shard, y=None) for shard in shards if shard.n_rows)
        self._ends = np.array(list(accumulate(shard.n_rows for shard in self._shards)), dtype=np.int64)
        self.shape = (int(self._ends[-1]) if self._shards else 0, dim)
        largest = max((shard.size_bytes for shard in self._shards), default=1)
        self._part = lru_cache(max(1, min(_N_MAPPED, _MAPPED_BYTES // largest)))(self._map)

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


class PickedRows:
    """Some rows of several :class:`Rows`, one behind the other, in any order; they stay on the disk, too.

    Parameters
    ----------
    parts : sequence of Rows
        Of one dimension.
    positions : int64 array, shape (n,)
        Of the rows in all parts together.
    """

    ndim, dtype = Rows.ndim, Rows.dtype

    def __init__(self, parts: Sequence[Rows], positions: np.ndarray) -> None:
        self._rows = Rows([shard for one in parts for shard in one._shards], dim=parts[0].shape[1])
        self._positions, self.shape = positions, (len(positions), parts[0].shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Rows by a slice or by positions, float32 (k, dim)."""
        return self._rows[self._positions[key]]


class ImageNames(Sequence[str]):
    """Names of images, which stay on the disk until they are asked for."""

    def __init__(self, shards: Sequence[FeatureShard]) -> None:
        self._shards = tuple(replace(shard, y=None) for shard in shards if shard.n_rows)
        self._ends = list(accumulate(shard.n_rows for shard in self._shards))
        self._text = lru_cache(_N_TEXTS)(self._read)

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageNames, (self._shards,)

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
        row = position - (self._ends[number - 1] if number else 0)
        ends, text = self._text(number)
        return _decoded(text[ends[row - 1] if row else 0 : ends[row]].tobytes())

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self._shards)):
            ends, text = self._read(number)
            start, content = 0, text.tobytes()
            for end in ends.tolist():
                yield _decoded(content[start:end])
                start = end

    def _read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the names of a shard end, and their bytes."""
        shard = self._shards[number]
        return _read(shard, "name_ends"), _read(shard, "names")

    def __repr__(self) -> str:
        return f"Names({len(self):,} of images)"


def read_shard_labels(shards: Sequence[FeatureShard]) -> np.ndarray:
    """The labels of all rows of some shards, int64 (n,), in memory."""
    parts = [_read(shard, "y") for shard in shards]
    return np.concatenate(parts).astype(np.int64, copy=False) if parts else np.empty(0, np.int64)


def _rows(shards: tuple[FeatureShard, ...], dim: int) -> Rows:
    return Rows(shards, dim=dim)


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _read(shard: FeatureShard, name: str) -> np.ndarray:
    """An array of a shard: mapped from the disk, or from the cache; all but rows by themselves, if nothing is there."""
    placed = shard.arrays[name]
    try:
        if shard.place.folder is not None:
            return map_shard_array(shard.place.folder / shard.file, placed)
        if name == "x":
            with suppress(FileNotFoundError):  # removed meanwhile by a process that needed room
                return map_shard_array(_copy(shard), placed)
            return map_shard_array(_copy(shard), placed)
        content = shard.y if name == "y" else None
        if content is None:
            content = shard.place.read(shard.file, placed.offset, placed.n_bytes)
        if content is None or len(content) != placed.n_bytes:
            raise ValueError("No such file" if content is None else "it is shorter than it was")
        return np.frombuffer(content, _TYPES[placed.dtype]).reshape(placed.shape)
    except QueryError:  # of the limit of the cache
        raise
    except (OSError, ValueError) as error:
        raise DataError(
            f"The features in {shard.place.shown}/{shard.file} cannot be read any more ({error}); restore the file, or "
            "remove the folder and compute the features again."
        ) from error


_COPIES = "features"  # folder of the cache with copies of shards at addresses, named by their hashes
_LIMIT = "ZOO_FEATURES_CACHE_GB"


def _copy(shard: FeatureShard) -> Path:
    """The copy of a shard in the cache, fetched and compared with its hash if it is not there."""
    folder = get_cache_folder() / _COPIES
    path = folder / f"{shard.digest}.safetensors"
    try:
        os.utime(path)  # used now: what was not used for longest goes first
        return path
    except FileNotFoundError:
        pass
    limit = read_cache_limit()
    try:
        with lock_file(folder / f"{shard.digest[:2]}.lock", patience_s=_PATIENCE_S):
            if not path.exists():  # or another process has fetched it meanwhile
                content = shard.place.read(shard.file)
                if content is None:
                    raise ValueError("No such file")
                if compute_digest(content) != shard.digest:
                    raise ValueError("its hash differs")
                with replace_file(path) as file:
                    file.write(content)
        _make_room(folder, limit, keep=path)
    except OSError as error:
        raise StoreError(
            f"A copy of {shard.place.shown}/{shard.file} cannot be written to {folder} ({error.strerror or error}); "
            "make room there, or set ZOO_CACHE."
        ) from error
    return path


def read_cache_limit() -> int:
    """Bytes that copies of shards at addresses may take; QueryError if the environment says no such number."""
    stated = os.environ.get(_LIMIT) or "50"
    try:
        limit = float(stated)
        if not limit >= 0:
            raise ValueError
        return int(min(limit * 1e9, 1e18))
    except ValueError:
        raise QueryError(f"{_LIMIT} is {stated!r}; expected a number of gigabytes, such as 50.") from None


def _make_room(folder: Path, limit: int, *, keep: Path) -> None:
    """Removes the copies that were not used for longest, until the rest fits; the newest one always stays."""
    copies = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".safetensors"):
            with suppress(FileNotFoundError):  # another process makes room
                status = entry.stat()
                copies.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
    excess = sum(size for _, size, _ in copies) - limit
    for _, size, path in sorted(copies):
        if excess <= 0:
            return
        if path != keep:
            path.unlink(missing_ok=True)
            excess -= size
