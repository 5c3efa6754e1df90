"""The cache of content that was read and checked: JSON, whose parts are parsed when they are asked for.

Reading and checking all cards, or all results, takes longer than a listing should, so that what comes of it is kept.
The copy is JSON, for a cache file must not run code. Its name is made of the content of every source and of the modules
that check them, so that a changed file or a changed rule is another name; its first line is a checksum of the rest, so
that a damaged copy is made again; the second names the parts, each of which is a line of its own.

Not even the sources are read while none of them has changed: a second file, whose name is made of their stamps, names
the copy. A stamp has the time of the last change of the file's entry, which no program can set back, and counts only if
all stamps are older than the steps in which file systems tell time. A cache that cannot be read or written costs time
and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..files import cache_folder, replaced

_MOST_COPIES = 8  # of one kind: other homes, other versions
_SETTLED_NS = 3_000_000_000  # FAT tells the time of a change in steps of two seconds, the coarsest of file systems
_ZOO = Path(__file__).parents[1]

Stamp = tuple[Path, int, int, int, int]  # file, its number, times of change of content and of entry in ns, bytes


class Parts(Mapping[str, Any]):
    """JSON values by name, each parsed whenever it is asked for."""

    def __init__(self, lines: Mapping[str, bytes]) -> None:
        self._lines = lines

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._lines[name])

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


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
    stamped = [*stamps, *map(stamp, modules)]
    reminder = folder / f"{kind}-{_digest(repr(stamped).encode())}.key"
    named = _reminded(reminder, kind)
    parts = None if named is None else _read(folder / named)
    if parts is not None:
        return parts
    sources = read()
    path = folder / f"{kind}-{_key(modules, sources)}.json"
    parts = _read(path)
    if parts is None:
        parts = _write(path, kind, make(sources))
    if _are_settled(stamped):
        _remind(reminder, kind, path.name)
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


def _key(modules: Iterable[Path], sources: Mapping[Path, bytes]) -> str:
    digest = blake2b(digest_size=16)
    for path, content in [*((path, path.read_bytes()) for path in modules), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _reminded(reminder: Path, kind: str) -> str | None:
    """The name of the copy for these stamps, if it is known."""
    try:
        text = reminder.read_text(encoding="ascii")
    except (OSError, ValueError):  # missing or unreadable, or damaged
        return None
    return text if re.fullmatch(rf"{kind}-[0-9a-f]{{32}}\.json", text) else None


def _remind(reminder: Path, kind: str, name: str) -> None:
    try:
        with replaced(reminder) as file:
            file.write(name.encode())
        _remove_old(reminder.parent, f"{kind}-*.key")
    except OSError:  # as for a copy
        return


def _read(path: Path) -> Parts | None:
    try:
        checksum, _, body = path.read_bytes().partition(b"\n")
    except OSError:  # missing or unreadable
        return None
    if checksum != _digest(body).encode():
        return None
    names, *lines = body.split(b"\n")
    return Parts(dict(zip(json.loads(names), lines, strict=True)))


def _write(path: Path, kind: str, values: Mapping[str, Any]) -> Parts:
    """Keeps the values, if the disk lets us, and gives them as a reader of the copy would find them."""
    dumped = json.JSONEncoder(separators=(",", ":")).encode
    lines = {name: dumped(value).encode() for name, value in values.items()}
    body = b"\n".join([dumped(list(lines)).encode(), *lines.values()])
    try:
        with replaced(path) as file:
            file.write(_digest(body).encode() + b"\n" + body)
        _remove_old(path.parent, f"{kind}-*.json")
    except OSError:  # a full or read-only disk, or another process that was quicker
        pass
    return Parts(lines)


def _remove_old(folder: Path, pattern: str) -> None:
    copies = sorted(folder.glob(pattern), key=lambda copy: copy.stat().st_mtime, reverse=True)
    for old in copies[_MOST_COPIES:]:
        old.unlink(missing_ok=True)
