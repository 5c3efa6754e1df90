"""The cache of content that was read and checked: JSON, whose parts are parsed when they are asked for.

A copy has the stamps of its sources, by which it is known to be up to date without reading them, and a hash of their
content and of the modules that check them. Stamps count only if all are older than the steps in which file systems tell
time. A cache that cannot be read or written costs time and nothing else.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from ..files import cache_folder, replaced

_MOST_COPIES = 8  # of one kind: other homes, other checkouts
_SETTLED_NS = 3_000_000_000  # FAT tells the time of a change in steps of two seconds, the coarsest of file systems
_ZOO = Path(__file__).parents[1]

Stamp = tuple[Path, int, int, int, int]  # file, its number, times of change of content and of entry in ns, bytes


class Parts(Mapping[str, Any]):
    """JSON values by name, each parsed whenever it is asked for."""

    def __init__(self, digest: str, lengths: Iterable[tuple[str, int]], data: bytes, start: int = 0) -> None:
        self.digest = digest  # of the sources and rules
        self.lengths = tuple(lengths)  # names and bytes, in the order of the data
        self._data = data
        self._start = start
        self._places: dict[str, tuple[int, int]] = {}
        for name, length in self.lengths:
            self._places[name] = (start, start + length)
            start += length + 1
        self.is_whole = start - 1 == len(data)  # else it breaks off

    @property
    def body(self) -> bytes:
        """All parts, a line each."""
        return self._data[self._start :]

    def __getitem__(self, name: str) -> Any:
        first, end = self._places[name]
        return json.loads(self._data[first:end])

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def compiled(
    kind: str,
    stamps: Iterable[Stamp],
    rules: Iterable[str],
    read: Callable[[], Mapping[Path, bytes]],
    make: Callable[[Mapping[Path, bytes]], Mapping[str, Any]],
    *,
    beside: str = "",
) -> Parts:
    """What ``make`` returns for the content of the sources, from the cached copy if there is one.

    ``kind`` begins the name of the copy, ``stamps`` are those of every source, taken before ``read`` returns what is in
    them, and ``rules`` names the packages and modules of the zoo that decide what ``make`` returns: JSON values, at
    least one. ``beside`` is the digest of other copies that it depends on. Errors of ``read`` and ``make`` pass
    through, and nothing is written then.
    """
    modules = _modules(tuple(rules))
    stamped = [*stamps, *map(stamp, modules)]
    told = "\n".join([beside, *(f"{path}\0{numbers}" for path, *numbers in stamped)])
    paths = "\0".join(str(path) for path, *_ in stamped)
    copy = cache_folder() / f"{kind}-{crc32(paths.encode(errors='surrogateescape')):08x}.json"
    told_then, parts = _read(copy)
    if parts is not None and told_then == told:
        return parts
    sources = read()
    digest = _digest(beside, modules, sources)
    lines = None
    if parts is None or parts.digest != digest:
        values = make(sources)
        lines = {name: json.dumps(value, separators=(",", ":")).encode() for name, value in values.items()}
        parts = Parts(digest, [(name, len(line)) for name, line in lines.items()], b"\n".join(lines.values()))
    newest = time.time_ns() - _SETTLED_NS
    is_settled = all(number >= 0 and max(content, entry) < newest for _, number, content, entry, _ in stamped)
    if lines is not None or is_settled:
        _write(copy, told if is_settled else "", parts)
    return parts


def stamp(path: Path) -> Stamp:
    """What changes whenever a file does; of what is no file, or cannot be looked at, a stamp that never counts."""
    try:
        status = os.stat(path)
    except OSError:  # such as a broken link, which reading refuses
        return path, -1, -1, -1, -1
    if not stat.S_ISREG(status.st_mode):
        return path, -1, -1, -1, -1
    return path, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


@lru_cache(maxsize=8)
def _modules(rules: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(path for name in rules for path in (sorted((_ZOO / name).glob("*.py")) or [_ZOO / f"{name}.py"]))


def _digest(beside: str, modules: Iterable[Path], sources: Mapping[Path, bytes]) -> str:
    from hashlib import blake2b  # which takes longer than reading a copy

    digest = blake2b(beside.encode(), digest_size=16)
    for path, content in [*((path, path.read_bytes()) for path in modules), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _read(copy: Path) -> tuple[str, Parts | None]:
    """The stamps in a copy and what it holds; nothing if it is missing, unreadable or breaks off."""
    try:
        data = copy.read_bytes()
        start = data.index(b"\n") + 1
        told, digest, lengths = json.loads(data[:start])
        parts = Parts(digest, lengths, data, start)
    except (OSError, ValueError, TypeError):
        return "", None
    return (told, parts) if parts.is_whole else ("", None)


def _write(copy: Path, told: str, parts: Parts) -> None:
    head = json.dumps([told, parts.digest, parts.lengths], separators=(",", ":")).encode()
    try:
        with replaced(copy) as file:
            file.write(head + b"\n" + parts.body)
        kind = copy.name.rpartition("-")[0]
        copies = sorted(copy.parent.glob(f"{kind}-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in copies[_MOST_COPIES:]:
            old.unlink(missing_ok=True)
    except OSError:  # a full or read-only disk, or another process that was quicker
        return
