"""The cache of content that was read and checked: JSON, whose parts are parsed when they are asked for.

Reading and checking all cards, or all results, takes longer than a listing should, so that what comes of it is kept.
The copy is JSON, for a cache file must not run code. Its name is made of the content of every source and of the modules
that check them, so that a changed file or a changed rule is another name. Its second line has the length and the
checksum of each part, and the first line that of the second; what is damaged is noticed when it is read, and all is
made again.

Not even the sources are read while none of them has changed: a second file has their stamps and the name of the copy. A
stamp has the time of the last change of the file's entry, which no program can set back, and counts only if all stamps
are older than the steps in which file systems tell time. A cache that cannot be read or written costs time and nothing
else.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

from ..files import cache_folder, replaced

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_MOST_COPIES = 8  # of one kind: other homes, other versions
_SETTLED_NS = 3_000_000_000  # FAT tells the time of a change in steps of two seconds, the coarsest of file systems
_ZOO = Path(__file__).parents[1]

Stamp = tuple[Path, int, int, int, int]  # file, its number, times of change of content and of entry in ns, bytes


class Parts(Mapping[str, Any]):
    """JSON values by name, each checked and parsed whenever it is asked for."""

    def __init__(self, data: bytes, places: Mapping[str, tuple[int, int, int]], again: Callable[[], Parts]) -> None:
        self._data = data
        self._places = places  # first byte, the byte after the last one, checksum
        self._again = again  # makes all of it anew

    def __getitem__(self, name: str) -> Any:
        first, end, checksum = self._places[name]
        line = self._data[first:end]
        if crc32(line) != checksum:
            new = self._again()
            self._data, self._places = new._data, new._places
            return self[name]
        return json.loads(line)

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
) -> Parts:
    """What ``make`` returns for the content of the sources, from the cached copy if there is one.

    ``kind`` begins the name of the copy, ``stamps`` are those of every source, taken before ``read`` returns what is in
    them, and ``rules`` names the packages and modules of the zoo that decide what ``make`` returns. That must survive a
    round trip through JSON. Errors of ``read`` and ``make`` pass through, and nothing is written then.
    """
    folder, modules = cache_folder(), _modules(tuple(rules))

    def again() -> Parts:
        sources = read()
        return _write(folder / _name(kind, modules, sources), kind, make(sources), again)

    stamped = [*stamps, *map(stamp, modules)]
    told = "\n".join([f"{path}\0{numbers}" for path, *numbers in stamped])
    paths = "\0".join([str(path) for path, *_ in stamped])
    reminder = folder / f"{kind}-{crc32(paths.encode(errors='surrogateescape')):08x}.key"
    name = _reminded(reminder, kind, told)
    parts = None if name is None else _read(folder / name, again)
    if parts is not None:
        return parts
    sources = read()
    path = folder / _name(kind, modules, sources)
    parts = _read(path, again)
    if parts is None:
        parts = _write(path, kind, make(sources), again)
    if _are_settled(stamped):
        _remind(reminder, kind, path.name, told)
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


def _are_settled(stamps: Sequence[Stamp]) -> bool:
    """True if any later change of a file gives it another stamp."""
    newest = time.time_ns() - _SETTLED_NS
    return all(number >= 0 and max(content, entry) < newest for _, number, content, entry, _ in stamps)


@lru_cache(maxsize=8)
def _modules(rules: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(path for name in rules for path in (sorted((_ZOO / name).glob("*.py")) or [_ZOO / f"{name}.py"]))


def _name(kind: str, modules: Iterable[Path], sources: Mapping[Path, bytes]) -> str:
    from hashlib import blake2b  # which takes longer than reading a copy

    digest = blake2b(digest_size=16)
    for path, content in [*((path, path.read_bytes()) for path in modules), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    return f"{kind}-{digest.hexdigest()}.json"


def _reminded(reminder: Path, kind: str, told: str) -> str | None:
    """The name of the copy for these stamps, if it is known."""
    try:
        content = reminder.read_bytes().decode(errors="surrogateescape")
    except OSError:  # missing or unreadable
        return None
    name, _, stamps = content.partition("\n")
    return name if stamps == told and re.fullmatch(rf"{kind}-[0-9a-f]{{32}}\.json", name) else None


def _remind(reminder: Path, kind: str, name: str, told: str) -> None:
    try:
        with replaced(reminder) as file:
            file.write(f"{name}\n{told}".encode(errors="surrogateescape"))
        _remove_old(reminder.parent, f"{kind}-*.key")
    except OSError:  # as for a copy
        return


def _read(path: Path, again: Callable[[], Parts]) -> Parts | None:
    try:
        data = path.read_bytes()
    except OSError:  # missing or unreadable
        return None
    first = data.find(b"\n")
    second = data.find(b"\n", first + 1)
    index = data[first + 1 : second]
    if second < 0 or data[:first] != _checksum(index):
        return None
    places = _places(json.loads(index), second + 1)
    whole = max((end for _, end, _ in places.values()), default=second + 1)
    return Parts(data, places, again) if whole == len(data) else None  # else it breaks off


def _checksum(index: bytes) -> bytes:
    return f"{crc32(index):08x}".encode()


def _places(index: Iterable[tuple[str, int, int]], start: int) -> dict[str, tuple[int, int, int]]:
    places = {}
    for name, length, checksum in index:
        places[name] = (start, start + length, checksum)
        start += length + 1
    return places


def _write(path: Path, kind: str, values: Mapping[str, Any], again: Callable[[], Parts]) -> Parts:
    """Keeps the values, if the disk lets us, and gives them as a reader of the copy would find them."""
    lines = {name: _line(value) for name, value in values.items()}
    places = [(name, len(line), crc32(line)) for name, line in lines.items()]
    index = _line(places)
    head = _checksum(index) + b"\n" + index + b"\n"
    data = head + b"\n".join(lines.values())
    try:
        with replaced(path) as file:
            file.write(data)
        _remove_old(path.parent, f"{kind}-*.json")
    except OSError:  # a full or read-only disk, or another process that was quicker
        pass
    return Parts(data, _places(places, len(head)), again)


def _line(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def _remove_old(folder: Path, pattern: str) -> None:
    copies = sorted(folder.glob(pattern), key=lambda copy: copy.stat().st_mtime, reverse=True)
    for old in copies[_MOST_COPIES:]:
        old.unlink(missing_ok=True)
