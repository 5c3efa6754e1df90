"""Partial downloads: files whose bytes are at any moment the beginning of one body, each written by one process.

In the folder ``partial/`` lie, for a download of the place with hash KEY::

    KEY.ID.OWNER.part    the bytes; ``free`` instead of an owner once a process has given up and left them in order
    KEY.ID.json          which body they are the beginning of, written before its first byte

A process writes only to a file that carries its own name. What a dead process has left is taken over by renaming it,
which one of several takers can do; whoever finds nothing to take starts a file of its own. So at worst a download is
wasted, and nobody ever waits for a lock.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from pathlib import Path

from ..files import publish, replaced, synchronise_folder
from .http_owners import FREE, State, owner, state_of

_LONG_S = 3600.0  # untouched for so long, a partial of another machine counts as left behind
_TOO_LONG_S = 7 * 24 * 3600.0  # nobody comes back for it
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Which body a server sends, as far as it says."""

    etag: str  # with its quotes; "" if there is none
    last_modified: str
    total_bytes: int | None

    @property
    def validator(self) -> str:
        """What to send as If-Range: a strong ETag, or else the date; "" if the body can never be resumed."""
        strong = self.etag if self.etag.startswith('"') else ""
        return strong or self.last_modified


class Partial:
    """One file being downloaded: its bytes on the disk, their hash, and the body that they are the beginning of."""

    def __init__(self, path: Path, *, address: str) -> None:
        self.path = path
        self.version: Version | None = None
        self.size_bytes = 0
        self.is_joined = False  # from more than one answer, so that a wrong hash may be the seam's fault
        self._address = address
        self._hash = sha256()
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115  what a killed process wrote is there

    @property
    def sha256(self) -> str:
        """Of the bytes so far."""
        return self._hash.hexdigest()

    @property
    def is_complete(self) -> bool:
        """True if there are as many bytes as the server promised."""
        return self.version is not None and self.size_bytes == self.version.total_bytes

    @property
    def resumable_bytes(self) -> int:
        """How many bytes need not be asked for again."""
        return self.size_bytes if self.version and self.version.validator else 0

    def begin(self, version: Version | None) -> None:
        """Throws away what is there; None if it is not known yet which body comes."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = sha256()
        self.size_bytes, self.is_joined, self.version = 0, False, version
        if version is not None:
            with replaced(_record(self.path)) as file:
                file.write(json.dumps({"address": self._address, **asdict(version)}).encode())

    def write(self, data: bytes) -> None:
        """Appends bytes of the body; they survive this process from then on."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]
        self._hash.update(data)
        self.size_bytes += len(data)

    def publish(self, target: Path) -> None:
        """Makes the file ``target``, which is there as a whole or not at all."""
        os.fsync(self._file.fileno())
        self._file.close()
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(self.path, target)
        _record(self.path).unlink(missing_ok=True)

    def remove(self) -> None:
        """Leaves nothing behind."""
        self._file.close()
        self.path.unlink(missing_ok=True)
        _record(self.path).unlink(missing_ok=True)

    def release(self) -> None:
        """Leaves the bytes to whoever goes on with them; does nothing after :meth:`publish` or :meth:`remove`."""
        if self._file.closed:
            return
        with suppress(OSError):  # on a failing disk it stays under this process's name, as if that had been killed
            if not self.resumable_bytes:
                self.remove()
                return
            os.fsync(self._file.fileno())
            self._file.close()
            os.rename(self.path, _named(self.path, FREE))

    def take_up(self, version: Version, origin: Path | None) -> None:
        """Goes on after bytes that somebody left, here or in ``origin``, which are read once for their hash."""
        with open(origin or self.path, "rb") as left:
            while block := left.read(_BLOCK):
                if origin:
                    self._file.write(block)
                self._hash.update(block)
                self.size_bytes += len(block)
        self._file.seek(self.size_bytes)
        self.version, self.is_joined = version, True
        if version.total_bytes is not None and self.size_bytes > version.total_bytes:
            self.begin(None)


def open_partial(folder: Path, place: str, *, address: str, is_checkable: bool) -> Partial:
    """A partial download that belongs to this process: one that was left behind, or an empty one.

    Parameters
    ----------
    folder : Path
        The folder of partial downloads; made if it is not there.
    place : str
        What is downloaded.
    address : str
        For whoever looks into the folder.
    is_checkable : bool
        The hash of the whole file is known, so that bytes may be trusted that a crashed machine has perhaps not
        written: a file system may keep the length of a file and lose what was in it.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = key_of(place)
    left = [(path, state) for path, state in _left_behind(folder, key) if state != "elsewhere" or is_checkable]
    for path, state in sorted(left, key=lambda item: _size(item[0]), reverse=True):
        with suppress(OSError):  # another process was quicker, or another user's file cannot be written
            return _claimed(path, state, address)
    return Partial(_new(folder, key), address=address)


def sweep(folder: Path, place: str) -> None:
    """Removes what was left behind: of this place all of it, of others what nobody has touched for a week."""
    key = key_of(place)
    for path, _ in _left_behind(folder, key):
        path.unlink(missing_ok=True)
        _record(path).unlink(missing_ok=True)
    now = time.time()
    for path in folder.glob("*.part"):
        if now - _touched(path) > _TOO_LONG_S and state_of(_owner(path)) != "alive":
            path.unlink(missing_ok=True)
    used = {_record(path).name for path in folder.glob("*.part")}
    for path in folder.iterdir():  # after an hour, because a file that is being renamed may be in no list
        is_garbage = path.suffix in (".json", ".taken", ".tmp", ".sha256") and path.name not in used
        if is_garbage and now - _touched(path) > _LONG_S:
            path.unlink(missing_ok=True)


def key_of(place: str) -> str:
    """Under which name downloads of a place are kept."""
    return blake2b(place.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _left_behind(folder: Path, key: str) -> Iterator[tuple[Path, State]]:
    for path in folder.glob(f"{key}.*.part"):
        state = state_of(_owner(path))
        if state in ("free", "dead") or (state == "elsewhere" and time.time() - _touched(path) > _LONG_S):
            yield path, state


def _claimed(path: Path, state: State, address: str) -> Partial:
    """Makes a file that was left behind this process's own; OSError if another was quicker."""
    version = _version(_record(path))
    if state == "elsewhere":  # its writer may only be asleep: it keeps the old file, and the bytes go into a new one
        taken = path.with_suffix(f".{secrets.token_hex(4)}.taken")
        os.utime(path)  # fresh again, so that nobody else takes it or sweeps it away
        os.rename(path, taken)
        partial = Partial(_new(path.parent, _key(path)), address=address)
        if version is not None:
            partial.begin(version)
            partial.take_up(version, taken)
        taken.unlink()
        _record(path).unlink(missing_ok=True)
        return partial
    mine = _named(path, owner())
    os.rename(path, mine)
    partial = Partial(mine, address=address)
    if version is None:
        partial.begin(None)
    else:
        partial.take_up(version, None)
    return partial


def _version(record: Path) -> Version | None:
    """What a record says; None if it says nothing of use."""
    try:
        said = json.loads(record.read_bytes())
        version = Version(etag=said["etag"], last_modified=said["last_modified"], total_bytes=said["total_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_sane = isinstance(version.etag, str) and isinstance(version.last_modified, str)
    return version if is_sane and isinstance(version.total_bytes, int | None) else None


def _new(folder: Path, key: str) -> Path:
    path = folder / f"{key}.{secrets.token_hex(4)}.{owner()}.part"
    path.touch(exist_ok=False)
    synchronise_folder(folder)
    return path


def _key(path: Path) -> str:
    return path.name.split(".")[0]


def _owner(path: Path) -> str:
    return path.name.split(".")[2] if path.name.count(".") == 3 else ""


def _named(path: Path, who: str) -> Path:
    key, identity, _, suffix = path.name.split(".")
    return path.with_name(f"{key}.{identity}.{who}.{suffix}")


def _record(path: Path) -> Path:
    key, identity, *_ = path.name.split(".")
    return path.with_name(f"{key}.{identity}.json")


def _touched(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone in the meantime: not left behind
        return time.time()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
