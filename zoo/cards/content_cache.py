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
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from ..files import get_cache_folder, replace_file

_MOST_COPIES = 8  # of one kind: other homes, other checkouts
_SETTLED_NS = 3_000_000_000  # FAT tells the time of a change in steps of two seconds, the coarsest of file systems
_ZOO = Path(__file__).parents[1]

Stamp = tuple[str, int, int, int, int]  # file, its number, times of change of content and of entry in ns, bytes


class CachedContent(Mapping[str, Any]):
    """JSON values by name, each parsed whenever it is asked for."""

    def __init__(self, digest: str, lengths: Iterable[tuple[str, int]], data: bytes | mmap, start: int = 0) -> None:
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

    def select(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of those of these names that there are."""
        places = {name: self._places[name] for name in names if name in self._places}
        return {name: json.loads(self._data[first:end]) for name, (first, end) in places.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def load_cached_content(
    kind: str,
    stamps: Iterable[Stamp],
    rules: Iterable[str],
    read: Callable[[], Mapping[Path, bytes]],
    make: Callable[[Mapping[Path, bytes]], Mapping[str, Any]],
    *,
    of: Path,
    beside: str = "",
) -> CachedContent:
    """What ``make`` returns for the content of the sources, from the cached copy if there is one.

    ``kind`` begins the name of the copy, one for each folder ``of`` content; ``stamps`` are those of every source, from
    before ``read`` returns what is in them, and ``rules`` names the packages and modules of the zoo that decide what
    ``make`` returns: JSON values, at least one. ``beside`` is the digest of other copies that it depends on. Errors of
    ``read`` and ``make`` pass through, and nothing is written then.
    """
    modules = _modules(tuple(rules))
    stamped = [*stamps, *map(read_stamp, modules)]
    told = "\n".join([beside, *map(repr, stamped)])
    copy = locate_copy(kind, of, ".json")
    told_then, parts = _read(copy)
    if parts is not None and told_then == told:
        return parts
    sources = read()
    digest = _digest(beside, modules, sources)
    lines = None
    if parts is None or parts.digest != digest:
        values = make(sources)
        lines = {name: json.dumps(value, separators=(",", ":")).encode() for name, value in values.items()}
        parts = CachedContent(digest, [(name, len(line)) for name, line in lines.items()], b"\n".join(lines.values()))
    is_settled = len(select_settled(stamped)) == len(stamped)
    if lines is not None or is_settled:
        head = json.dumps([told if is_settled else "", parts.digest, parts.lengths], separators=(",", ":")).encode()
        write_copy(copy, lambda file: file.writelines([head, b"\n", parts.body]))
    return parts


def locate_copy(kind: str, of: Path, suffix: str) -> Path:
    """The file of a copy: of a kind, of the content of a folder, made by this installation of the zoo."""
    where = f"{of}\0{_ZOO}".encode(errors="surrogateescape")
    return get_cache_folder() / f"{kind}-{crc32(where):08x}{suffix}"


def select_settled(stamps: Iterable[Stamp]) -> list[Stamp]:
    """Those by which a later change would be seen."""
    newest = time.time_ns() - _SETTLED_NS
    return [one for one in stamps if one[1] >= 0 and max(one[2], one[3]) < newest]


def read_stamp(path: str) -> Stamp:
    """What changes whenever a file does; of what is no file, or cannot be looked at, a stamp that never counts."""
    try:
        status = os.stat(path)
    except OSError:  # such as a broken link, which reading refuses
        return path, -1, -1, -1, -1
    if not stat.S_ISREG(status.st_mode):
        return path, -1, -1, -1, -1
    return path, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


@lru_cache(maxsize=8)
def _modules(rules: tuple[str, ...]) -> tuple[str, ...]:
    paths = (path for name in rules for path in (sorted((_ZOO / name).glob("*.py")) or [_ZOO / f"{name}.py"]))
    return tuple(map(str, paths))


def read_module_stamps(rules: Iterable[str]) -> list[Stamp]:
    """Stamps of the packages and modules of the zoo with these names."""
    return list(map(read_stamp, _modules(tuple(rules))))


def _digest(beside: str, modules: Iterable[str], sources: Mapping[Path, bytes]) -> str:
    from hashlib import blake2b  # which takes longer than reading a copy

    digest = blake2b(beside.encode(), digest_size=16)
    for path, content in [*((path, Path(path).read_bytes()) for path in modules), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _read(copy: Path) -> tuple[str, CachedContent | None]:
    """The stamps in a copy and what it holds; nothing if it is missing, unreadable or breaks off."""
    try:
        with open(copy, "rb") as file:  # of many cards a part alone is read; an open file cannot be replaced on Windows
            data = file.read() if os.name == "nt" else mmap(file.fileno(), 0, access=ACCESS_READ)
        start = data.find(b"\n") + 1
        told, digest, lengths = json.loads(data[:start])
        parts = CachedContent(digest, lengths, data, start)
    except (OSError, ValueError, TypeError):
        return "", None
    return (told, parts) if parts.is_whole else ("", None)


def write_copy(copy: Path, fill: Callable[[BinaryIO], None]) -> None:
    """Writes a copy whole, and removes the oldest ones of its kind; on a full or read-only disk nothing."""
    try:
        with replace_file(copy) as file:
            fill(file)
        kind = copy.name.rpartition("-")[0]
        copies = copy.parent.glob(f"{kind}-*{copy.suffix}")
        for old in sorted(copies, key=lambda path: path.stat().st_mtime, reverse=True)[_MOST_COPIES:]:
            old.unlink(missing_ok=True)
    except OSError:  # or another process was quicker
        return
