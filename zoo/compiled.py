"""Checked content, kept: what was read and checked once is read again in a tenth of the time.

The copy is JSON in the cache folder, for a cache file must not run code. Its name is made of the content of every
source and of the modules that check them, so that a changed file or a changed rule is another name; its first line is
a checksum of the rest, so that a damaged copy is made again. A cache that cannot be read or written costs time and
nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from .files import cache_folder, replaced

_KEPT = 8  # copies of one kind: other homes, other versions
_PACKAGE = Path(__file__).parent


def compiled(kind: str, sources: Mapping[Path, bytes], rules: Iterable[str], make: Callable[[], Any]) -> Any:
    """What ``make`` returns, from the copy if there is one for just these sources and rules.

    Parameters
    ----------
    kind : str
        First part of the name of the copy, such as ``cards``.
    sources : mapping from Path to bytes
        Content of every file that ``make`` reads.
    rules : iterable of str
        Names of the modules of the zoo whose change makes old copies worthless.
    make : callable
        Reads and checks; what it returns must survive a round trip through JSON. Its errors pass through, and nothing
        is written then.
    """
    path = cache_folder() / f"{kind}-{_key(sources, rules)}.json"
    kept = _read(path)
    if kept is None:
        kept = make()
        _write(path, kind, kept)
    return kept


def _key(sources: Mapping[Path, bytes], rules: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    modules = {path: path.read_bytes() for path in (_PACKAGE / f"{name}.py" for name in rules)}
    for path, content in [*modules.items(), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


def _read(path: Path) -> Any:
    try:
        checksum, _, body = path.read_bytes().partition(b"\n")
    except OSError:  # absent or unreadable
        return None
    return json.loads(body) if checksum == _checksum(body) else None


def _write(path: Path, kind: str, value: Any) -> None:
    body = json.dumps(value, separators=(",", ":")).encode()
    try:
        with replaced(path) as file:
            file.write(_checksum(body) + b"\n" + body)
        copies = sorted(path.parent.glob(f"{kind}-*.json"), key=lambda copy: copy.stat().st_mtime, reverse=True)
        for old in copies[_KEPT:]:
            old.unlink(missing_ok=True)
    except OSError:  # a full or read-only disk, or another process that was quicker
        return
