"""A place for files: a folder of this machine, or any address that fsspec understands, such as s3://bucket/folder.

Files are written whole or not at all, and a file can be written only if there is none of its name. Nothing is locked.
Every failure of a library below becomes a :class:`~zoo.errors.PlaceError` that names the place without its password.

What an address can promise is what its file system does:

* Object stores (S3, Google Cloud, Azure, Hugging Face) and ``memory://`` show a file when all of it is there. Other
  file systems get a file under another name first, which is then renamed.
* A file is new only: on S3 by a conditional PUT (``If-None-Match``), which the server decides, as Google Cloud does; in
  ``memory://`` by a lock of this process. Elsewhere fsspec has nothing but to look first, so that of two writers in
  the same moment both may succeed, and the file of the later one stays, whole. A server of S3 that knows no conditional
  PUT refuses it with an error.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .errors import PlaceError, QueryError, ZooError
from .files import open_regular, parse_local_folder, replace_file
from .optional import require_extra

ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")  # values of environment variables

_BLOCK = 1024**2  # bytes copied at a time
_SECRET = re.compile(r"(^(?!.*://)|://)(?=[^/]*[:@])(.*)@", re.DOTALL)  # not the @ of hf://datasets/owner/name@branch
_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss", "memory", "hf"}  # and need no folders
_IN_MEMORY = threading.Lock()  # of writers to memory://
_STATES = (  # what file systems call a tag of the content, or else a time of change, best first
    *("ETag", "etag", "md5Hash", "content_md5", "blob_id", "LastModified", "last_modified", "mtime", "updated"),
    *("modified", "modify", "created"),
)
_N_CONFLICTS = 4  # tries of a conditional PUT that met another one in the same moment, as S3 asks for
_ABSENT = (FileNotFoundError, NotADirectoryError)

_Listing = dict[str, tuple[bool, int, str]]
"""By name: whether it is a folder, bytes of a file (-1 if unknown), and a text that changes when the file does."""


class Location(ABC):
    """Files by their names, which may have "/" in them."""

    folder: Path | None
    """The folder of this machine; None of an address."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """As it may be printed: without user, password and query."""

    @abstractmethod
    def below(self, name: str) -> Location:
        """The place below this one."""

    def names(self) -> list[str]:
        """Names of the files directly in it, sorted; none if there is no such place. Half-written ones do not count."""
        return list(self.states())

    def sizes(self) -> dict[str, int]:
        """Bytes of the files directly in it by their names, sorted, as :meth:`names` has them: one listing."""
        return {name: size for name, (size, _) in self.states().items()}

    def states(self) -> dict[str, tuple[int, str]]:
        """Bytes of each file directly in it, and a text that is another one when the file has changed, by one listing.

        The text is empty where the place says nothing that would change, and -1 stands for an unknown size.
        """
        return {name: (size, state) for name, (is_folder, size, state) in self._listed() if not is_folder}

    def places(self) -> list[str]:
        """Names of the places directly in it, sorted."""
        return [name for name, (is_folder, _, _) in self._listed() if is_folder]

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Bytes of a file, -1 if they are not known; None if it is missing."""

    @abstractmethod
    def read(self, name: str, start: int = 0, n_bytes: int | None = None) -> bytes | None:
        """A file or a part of it, which may be cut by its end; None if it is missing."""

    @abstractmethod
    def blocks(self, name: str) -> Iterator[bytes]:
        """A file piece by piece; PlaceError if it is missing."""

    @abstractmethod
    def write(self, name: str, content: bytes | Path) -> None:
        """Writes a file, in place of one that is there: one PUT of an object store."""

    @abstractmethod
    def write_new(self, name: str, content: bytes | Path) -> bool:
        """Writes a file unless one of its name is there, or appears meanwhile; False if so.

        An answer that a network loses is asked for again, so that False may also mean that the first try succeeded.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""

    @abstractmethod
    def modified_s(self, name: str) -> float | None:
        """When a file was written, in seconds since 1970 by the clock of the place; None if it is missing."""

    @abstractmethod
    def _entries(self) -> _Listing:
        """What is directly in it."""

    def _listed(self) -> list[tuple[str, tuple[bool, int, str]]]:
        """What is directly in it, sorted, without half-written files."""
        is_half = re.compile(r"\..*\.tmp").fullmatch
        return sorted((name, about) for name, about in self._entries().items() if name and not is_half(name))


def resolve_place(where: str | Path | Location) -> Location:
    """The place of a path or an address; a place is returned as it is.

    PlaceError if it is the address of another machine and ``ZOO_OFFLINE`` is set, or its library fails; QueryError if
    it is neither, or names a library that it needs and that is not installed.

    >>> resolve_place("memory://bucket/a").below("b").shown, resolve_place("file:///data").folder
    ('memory://bucket/a/b', PosixPath('/data'))
    """
    if not isinstance(where, str | Path):
        return where
    folder = where.absolute() if isinstance(where, Path) else parse_local_folder(where)
    if folder is not None:
        return LocalLocation(folder)
    address = _RemoteLocation(str(where))
    address.opened("read")
    return address


def require_writable(place: Location) -> None:
    """PlaceError where nothing can be written or removed: tries it by a small file, which is gone afterwards."""
    name = f".zoo-probe-{os.urandom(8).hex()}.tmp"
    place.write(name, b"may be removed\n")
    place.remove(name)


def is_offline() -> bool:
    """True if ``ZOO_OFFLINE`` says that no socket may be opened; an unknown word counts as yes."""
    return os.environ.get("ZOO_OFFLINE", "").strip().casefold() not in OFF


def format_place(where: str) -> str:
    """A folder or an address as it may be printed: without the user, the password and the query of an address.

    >>> format_place("ftp://me:secret@host/mirror"), format_place("hf://datasets/me/mirror@main")
    ('ftp://***@host/mirror', 'hf://datasets/me/mirror@main')
    """
    if "://" not in where and "::" not in where:  # a folder
        return where
    address, query, _ = strip_password(where).partition("?")
    return f"{address}?***" if query else address


def strip_password(address: str) -> str:
    """An address, or a proxy that has no scheme, as it may be printed, even if it is malformed.

    >>> strip_password("http://me:secret@proxy.org:3128"), strip_password("localhost,.org")
    ('http://***@proxy.org:3128', 'localhost,.org')
    """
    return _SECRET.sub(r"\1***@", address)


@dataclass(frozen=True)
class LocalLocation(Location):
    """A folder of this machine, which is made when the first file is written."""

    folder: Path

    @property
    def shown(self) -> str:
        return str(self.folder)

    def below(self, name: str) -> LocalLocation:
        return LocalLocation(self.folder / _inside(name))

    def size(self, name: str) -> int | None:
        status = self._status(name)
        return None if status is None else status.st_size

    def read(self, name: str, start: int = 0, n_bytes: int | None = None) -> bytes | None:
        with self._failing("read"):
            try:
                with open_regular(self._path(name)) as file:
                    file.seek(start)
                    return file.read(-1 if n_bytes is None else n_bytes)
            except _ABSENT:
                return None

    def blocks(self, name: str) -> Iterator[bytes]:
        with self._failing("read"), open_regular(self._path(name)) as file:
            while block := file.read(_BLOCK):
                yield block

    def write(self, name: str, content: bytes | Path) -> None:
        self._write(name, content, must_be_new=False)

    def write_new(self, name: str, content: bytes | Path) -> bool:
        path = self._path(name)
        if path.is_file():
            return False
        try:
            self._write(name, content, must_be_new=True)
        except PlaceError as error:
            if isinstance(error.__cause__, FileExistsError) and path.is_file():
                return False
            raise
        return True

    def remove(self, name: str) -> None:
        with self._failing("written"), suppress(NotADirectoryError):
            self._path(name).unlink(missing_ok=True)

    def modified_s(self, name: str) -> float | None:
        status = self._status(name)
        return None if status is None else status.st_mtime

    def _path(self, name: str) -> Path:
        return self.folder / _inside(name)

    def _write(self, name: str, content: bytes | Path, *, must_be_new: bool) -> None:
        with self._failing("written"):
            opened = content.open("rb") if isinstance(content, Path) else BytesIO(content)
            with opened as source, replace_file(self._path(name), must_be_new=must_be_new) as target:
                shutil.copyfileobj(source, target, _BLOCK)

    def _status(self, name: str) -> os.stat_result | None:
        with self._failing("read"):
            try:
                return self._path(name).stat()
            except _ABSENT:
                return None

    def _entries(self) -> _Listing:
        found = {}
        with self._failing("read"), suppress(*_ABSENT), os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    status = entry.stat()
                    state = f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
                    if entry.is_dir() or entry.is_file():
                        found[entry.name] = (entry.is_dir(), status.st_size, state)
        return found

    @contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _failure(self.shown, doing, error.strerror or str(error)) from error


@dataclass(frozen=True)
class _RemoteLocation(Location):
    """Files below an address of fsspec's, which opens it once per process."""

    address: str = field(repr=False)
    inner: str = ""  # path below the address
    folder: None = field(default=None, init=False, repr=False)

    @property
    def shown(self) -> str:
        return "/".join(part for part in (format_place(self.address).rstrip("/"), self.inner) if part)

    def below(self, name: str) -> _RemoteLocation:
        return replace(self, inner="/".join(part for part in (self.inner, _inside(name)) if part))

    def size(self, name: str) -> int | None:
        with self._at(name, "read") as (files, path):
            try:
                info = files.info(path)
            except _ABSENT:  # its own "exists" takes any failure for that
                return None
            size = -1 if info["size"] is None else int(info["size"])
        return None if info.get("type") == "directory" else size

    def read(self, name: str, start: int = 0, n_bytes: int | None = None) -> bytes | None:
        if n_bytes == 0:
            return b"" if self.size(name) is not None else None
        part = {} if (start, n_bytes) == (0, None) else {"start": start, "end": n_bytes and start + n_bytes}
        with self._at(name, "read") as (files, path):
            try:
                return bytes(files.cat_file(path, **part))
            except _ABSENT:
                return None

    def blocks(self, name: str) -> Iterator[bytes]:
        with self._at(name, "read") as (files, path), files.open(path, "rb") as file:
            while block := file.read(_BLOCK):
                yield block

    def write(self, name: str, content: bytes | Path) -> None:
        with self._at(name, "written") as (files, path):
            if _is_whole(files):
                _put(files, path, content)
                return
            parent, _, last = path.rpartition("/")
            files.makedirs(parent, exist_ok=True)
            half = f"{parent}/.{last[:100]}-{os.urandom(8).hex()}.tmp"
            try:
                _put(files, half, content)
                if files.exists(path):  # some servers rename to no name that is taken
                    files.rm_file(path)
                files.mv(half, path)
            except BaseException:
                with suppress(Exception):  # the first error is the one to raise
                    files.rm_file(half)
                raise

    def write_new(self, name: str, content: bytes | Path) -> bool:
        with self._at(name, "written") as (files, path):
            is_here = "memory" in _protocols(files)
            with _IN_MEMORY if is_here else nullcontext():
                if self.size(name) is not None:
                    return False
                if not _creates(files):
                    self.write(name, content)
                    return True
                if not _is_whole(files):
                    files.makedirs(path.rpartition("/")[0], exist_ok=True)
                return _put_new(files, path, content)

    def remove(self, name: str) -> None:
        with self._at(name, "written") as (files, path), suppress(FileNotFoundError):
            files.rm_file(path)

    def modified_s(self, name: str) -> float | None:
        with self._at(name, "read") as (files, path):
            try:
                return float(files.modified(path).timestamp())
            except FileNotFoundError:
                return None

    def opened(self, doing: str) -> tuple[Any, str]:
        """fsspec's file system and the path of the address in it."""
        is_here = self.address.startswith("memory://") and "::" not in self.address
        if is_offline() and not is_here:
            reason = "ZOO_OFFLINE forbids to reach it: unset that, or use a folder of this machine"
            raise _failure(format_place(self.address), doing, reason)
        with require_extra("models", needed_for="An address of files"):
            import fsspec  # not at the top, for showing a place does not need it
        with _foreign(self.address, doing, self.shown):
            try:
                files, root = fsspec.core.url_to_fs(self.address)
            except (ValueError, TypeError, ImportError) as error:
                words, cause = _message(error, self.address)
                name = format_place(self.address)
                raise QueryError(
                    f"The place {name!r} is neither a folder nor an address that works: {words}."
                ) from cause
        return files, str(root).rstrip("/")

    @contextmanager
    def _at(self, name: str, doing: str) -> Iterator[tuple[Any, str]]:
        """The file system and the path of a file; what fails in the block becomes a PlaceError."""
        files, root = self.opened(doing)
        path = "/".join(part for part in (root, self.inner, _inside(name)) if part)
        with _foreign(self.address, doing, self.shown):
            if doing == "read":
                files.invalidate_cache()
            yield files, path

    def _entries(self) -> _Listing:
        with self._at("", "read") as (files, path):
            try:
                listed = files.ls(path, detail=True)
            except _ABSENT:
                return {}
        found = {}
        for entry in listed:
            if str(entry["name"]).strip("/") != path.strip("/"):  # or it is a file
                name = str(entry["name"]).rstrip("/").rpartition("/")[2]
                state = next((f"{key} {entry[key]}" for key in _STATES if entry.get(key)), "")
                size = -1 if entry["size"] is None else int(entry["size"])
                found[name] = (entry["type"] == "directory", size, state)
        return found


def _put(files: Any, path: str, content: bytes | Path, **how: str) -> None:
    if isinstance(content, Path):
        files.put_file(str(content), path, **how)
    else:
        files.pipe_file(path, content, **how)


def _put_new(files: Any, path: str, content: bytes | Path) -> bool:
    """Does a conditional PUT; False if there is such a file."""
    for n_left in reversed(range(_N_CONFLICTS)):
        try:
            _put(files, path, content, mode="create")
            return True
        except FileExistsError:
            return False
        except OSError as error:
            code = getattr(error.__cause__, "response", {}).get("Error", {}).get("Code")
            if code == "PreconditionFailed":
                return False
            if code != "ConditionalRequestConflict" or not n_left:
                raise
    return False


def _protocols(files: Any) -> set[str]:
    protocol = files.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def _is_whole(files: Any) -> bool:
    """True if a file can be seen only when all of it is there; such stores have no folders that must be made."""
    return bool(_protocols(files) & _WHOLE)


def _creates(files: Any) -> bool:
    """True if the file system itself writes only new files, if asked to."""
    return all(
        "mode" in inspect.signature(getattr(files, f"_{name}", getattr(files, name))).parameters
        for name in ("pipe_file", "put_file")
    )


def _inside(name: str) -> str:
    """A name that stays in its place."""
    if name.startswith("/") or "\\" in name or ".." in name.split("/"):
        raise QueryError(f"The name {name!r} leads out of its place; expected one below it, such as 'a/b.json'.")
    return name.strip("/")


def _failure(shown: str, doing: str, reason: str) -> PlaceError:
    advice = "make it writable, or name another place" if doing == "written" else "check the place and your access"
    return PlaceError(f"The place {shown} cannot be {doing} ({reason}); {advice}.", reason=reason)


@contextmanager
def _foreign(address: str, doing: str, shown: str) -> Iterator[None]:
    """Turns any error of fsspec and of the libraries below it into a PlaceError; ZooErrors pass.

    The address decides which library that is, fsspec need not know it, and the errors of many (httpx, ftplib, zipfile)
    are no OSError: no list of classes can be complete. So every Exception counts, around these calls alone.
    """
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        words, cause = _message(error, address)
        raise _failure(shown, doing, words) from cause


def _message(error: Exception, address: str) -> tuple[str, Exception | None]:
    """The text of a library's error, on one line, and the error; only its class if it repeats a part of the password.

    Libraries split an address at odd characters of the password, and quote the pieces.
    """
    match = _SECRET.search(address)
    secret = "" if match is None else match[2].partition(":")[2] or match[2]
    pieces = [piece for piece in re.split("[/?#@:]", secret) if piece]
    text, name = str(error).strip(), type(error).__name__
    if not text or any(form in text for piece in pieces for form in (piece, unquote(piece))):
        return name, None
    line = text.splitlines()[0].rstrip(".")
    return (line if " " in line else f"{name}: {line}"), error  # without a space it is only a path or a key
