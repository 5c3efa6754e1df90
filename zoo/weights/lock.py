"""``zoo.lock``: hash and size of every file of weights at its first download, a line a place.

    sha256:93ed...1d3c 102412832 https://host/path/checkpoint.pth

``$ZOO_LOCK`` names it; without that, a ``zoo.lock`` in the working folder counts where there is one (make an empty one
to start), and the one in the user's folder always. Each is replaced as a whole, by one process at a time.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreError, WeightsRefused
from ..files import expand_path, get_user_folder, lock_for_writing, replace_file

_HEADER = "# SSL Zoo: sha256, bytes and place of every file of weights at its first download.\n"
_LINE = re.compile(r"sha256:([0-9a-f]{64}) ([0-9]+) (\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """A line: hash and size of the file at one place."""

    place: str
    sha256: str
    size_bytes: int
    lock: Path  # the file that says so


def _of_user() -> Path:
    return get_user_folder() / "zoo.lock"


def list_lock_files() -> list[Path]:
    """The lock files that count here, that of the experiment first; they need not exist."""
    if named := os.environ.get("ZOO_LOCK"):
        return [expand_path("ZOO_LOCK", named)]
    beside = Path("zoo.lock").absolute()
    is_of_experiment = beside.is_file() and beside != _of_user().absolute()
    return [beside, _of_user()] if is_of_experiment else [_of_user()]


def find_locked_file(place: str) -> LockEntry | None:
    """The line of a place, None if no lock file has one; WeightsRefused if two lock files contradict each other."""
    entries = [entry for path in list_lock_files() if (entry := _entries(path).get(place))]
    for entry in entries[1:]:
        if entry.sha256 != entries[0].sha256:
            raise WeightsRefused(
                f"The lock files contradict each other about {place}: {entries[0].lock} says sha256 "
                f"{entries[0].sha256}, {entry.lock} says {entry.sha256}; remove the wrong line."
            )
    return entries[0] if entries else None


def remember(place: str, *, sha256: str, size_bytes: int, is_download: bool) -> None:
    """Writes a place into every lock file that does not have it yet; WeightsRefused if one has another hash or size.

    Weights that are loaded from a cache are written into the lock file of the experiment only: the user's has them
    since their download, and need not be writable any more.
    """
    if not place.isprintable():
        raise WeightsRefused(
            f"The place {place!r} holds characters that a lock file cannot, expected an address or a path in one line."
        )
    for path in list_lock_files():
        with lock_for_writing(path):
            entries = _entries(path)
            if place in entries:
                require_same(entries[place], sha256=sha256, size_bytes=size_bytes)
                continue
            if path == _of_user() and not is_download:
                continue
            entries[place] = LockEntry(place=place, sha256=sha256, size_bytes=size_bytes, lock=path)
            lines = [f"sha256:{one.sha256} {one.size_bytes} {one.place}\n" for _, one in sorted(entries.items())]
            try:
                with replace_file(Path(os.path.realpath(path))) as file:  # behind a link is the file that others share
                    file.write("".join([_HEADER, *lines]).encode())
            except OSError as error:
                raise StoreError(
                    f"The lock file {path} cannot be written ({error.strerror}); it is as it was, make its folder "
                    "writable or name another file in ZOO_LOCK."
                ) from error


def require_same(entry: LockEntry, *, sha256: str, size_bytes: int) -> None:
    """Refuses a file that differs from what was locked."""
    if (entry.sha256, entry.size_bytes) != (sha256, size_bytes):
        raise WeightsRefused(
            f"The file at {entry.place} has sha256 {sha256} ({size_bytes:,} bytes), but {entry.lock} locked it at "
            f"{entry.sha256} ({entry.size_bytes:,} bytes); find out who changed it, and remove its line only if you "
            "trust the new file."
        )


def _entries(path: Path) -> dict[str, LockEntry]:
    """The lines of a lock file by place; none if there is no file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited on forever
            raise StoreError(f"The lock file {path} is no regular file; name another one in ZOO_LOCK.")
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # no other character ends a line here
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"The lock file {path} cannot be read ({error}); restore it or move it away.") from error
    entries: dict[str, LockEntry] = {}
    for number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise StoreError(
                f"{path}, line {number}: found {line[:80]!r}, expected 'sha256:HEX BYTES PLACE'; restore or remove it."
            )
        sha256, size, place = match[1], int(match[2]), match[3]
        before = entries.setdefault(place, LockEntry(place=place, sha256=sha256, size_bytes=size, lock=path))
        require_same(before, sha256=sha256, size_bytes=size)  # a merge of two branches may leave two lines
    return entries
