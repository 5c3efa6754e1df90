"""Mirrors: folders or addresses of converted weights, for machines without a network.

A mirror is laid out as :mod:`zoo.weights.store` says, with a manifest for people and the cards beside it:

    manifest.json                    contents: encoder -> record, file, hash, size, licence
    records/KEY.json, tensors/SHA256.safetensors
    metadata/shipped/FAMILY.toml     the cards at the time when the mirror was made
    metadata/own/FILE.toml           cards of the user's encoders, which the zoo reads from here

``ZOO_MIRROR`` names it: a folder is read in place, any other address that fsspec understands is copied into the cache
as it is needed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import local_folder, replaced
from ..optional import requires_extra
from . import store
from .places import is_offline, weights_folder

_BLOCK = 1024**2  # bytes copied at a time
_MANIFEST = "manifest.json"
_FORMAT = "zoo-mirror-1"
_SECRET = re.compile(r"(^(?!.*://)|://)(?=[^/]*[:@])(.*)@", re.DOTALL)  # not the @ of hf://datasets/owner/name@branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One encoder to be mirrored."""

    encoder: str
    record: store.Record
    path: Path  # of its converted weights
    licence: str


def local_copy(place: str, keys: Sequence[str]) -> Path:
    """A folder on this machine with the mirror's weights of the first of ``keys`` that it has."""
    folder = local_folder(place)
    if folder is not None:
        if not folder.is_dir():
            raise WeightsUnavailable(f"There is no mirror at {folder}; correct ZOO_MIRROR or unset it.")
        return folder
    copy = weights_folder() / "mirrors" / blake2b(place.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    if any(store.find(copy, key) is not None for key in keys):
        return copy

    def failed(reason: str) -> ZooError:
        return WeightsUnavailable(f"The mirror {shown_mirror(place)} cannot be read ({reason}); check ZOO_MIRROR.")

    there = _opened(place, failed)
    for key in keys:
        name = f"records/{key}.json"
        if there.size(name) is not None:
            where = f"{shown_mirror(place)}/{name}"
            record = store.parse_record(there.read(name), where=where)
            if record.key != key:
                raise WeightsRefused(f"The record {where} is of other weights ({record.encoder!r}); remove the file.")
            _copy_here(there, store.tensors_path(copy, record.sha256))
            store.write_record(copy, record)
            return copy
    return copy


def write_mirror(
    place: str,
    items: Sequence[Item],
    cards: Mapping[str, bytes],
    *,
    zoo_version: str,
    progress: Callable[[str], None] = lambda encoder: None,
) -> int:
    """Copies weights, cards and a manifest to a folder or an address; what is there already stays. Returns bytes.

    ``cards`` has the content of card files by their path below ``metadata/``; ``progress`` is called with the id of
    each encoder before its weights are copied. After an error every file is whole, and the next run continues.
    """

    def failed(reason: str) -> ZooError:
        return StoreError(
            f"The mirror {shown_mirror(place)} cannot be written ({reason}); every file there is whole, run it again "
            "to go on."
        )

    n_copied = 0
    there = _opened(place, failed)
    manifest = _manifest(there)
    for item in items:
        progress(item.encoder)
        name = f"tensors/{item.path.name}"
        if there.size(name) != item.record.size_bytes:
            there.write(name, item.path)
            n_copied += item.record.size_bytes
        there.write(f"records/{item.record.key}.json", store.record_bytes(item.record))
        manifest["encoders"][item.encoder] = {
            "record": item.record.key,
            "sha256": item.record.sha256,
            "size_bytes": item.record.size_bytes,
            "licence": item.licence,
            "places": [origin.place for origin in item.record.origins],
        }
    for name, content in cards.items():
        there.write(f"metadata/{name}", content)
    manifest |= {"format": _FORMAT, "zoo": zoo_version, "encoders": dict(sorted(manifest["encoders"].items()))}
    there.write(_MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    return n_copied


def shown_mirror(place: str) -> str:
    """The place of a mirror as it may be printed: without the user, the password and the query of an address.

    >>> shown_mirror("ftp://me:secret@host/mirror"), shown_mirror("hf://datasets/me/mirror@main")
    ('ftp://***@host/mirror', 'hf://datasets/me/mirror@main')
    """
    if "://" not in place and "::" not in place:  # a folder
        return place
    address, query, _ = without_password(place).partition("?")
    return f"{address}?***" if query else address


def without_password(address: str) -> str:
    """An address, or a proxy that has no scheme, as it may be printed, even if it is malformed.

    >>> without_password("http://me:secret@proxy.org:3128"), without_password("localhost,.org")
    ('http://***@proxy.org:3128', 'localhost,.org')
    """
    return _SECRET.sub(r"\1***@", address)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The files of a mirror, by their path in it; all failures become the error that ``failed`` makes."""

    files: Any  # of fsspec
    root: str
    place: str
    failed: Callable[[str], ZooError]
    is_local: bool

    def size(self, name: str) -> int | None:
        """Bytes of a file, -1 if unknown; None if it is missing (fsspec's ``exists`` takes any failure for that)."""
        with _foreign(self.place, self.failed):
            try:
                size = self.files.info(f"{self.root}/{name}")["size"]
            except FileNotFoundError:
                return None
            return -1 if size is None else int(size)

    def read(self, name: str) -> bytes:
        with _foreign(self.place, self.failed):
            return bytes(self.files.cat_file(f"{self.root}/{name}"))

    def blocks(self, name: str) -> Iterator[bytes]:
        with _foreign(self.place, self.failed), self.files.open(f"{self.root}/{name}", "rb") as file:
            while block := file.read(_BLOCK):
                yield block

    def write(self, name: str, content: bytes | Path) -> None:
        """Object stores show a file when all of it is there; a local folder needs :func:`zoo.files.replaced`."""
        there = f"{self.root}/{name}"
        with _foreign(self.place, self.failed):
            if self.is_local:
                opened = content.open if isinstance(content, Path) else lambda mode: BytesIO(content)
                with opened("rb") as source, replaced(Path(there)) as target:
                    shutil.copyfileobj(source, target, _BLOCK)
            else:
                self.files.makedirs(there.rpartition("/")[0], exist_ok=True)
                if isinstance(content, Path):
                    self.files.put_file(str(content), there)
                else:
                    self.files.pipe_file(there, content)


def _opened(place: str, failed: Callable[[str], ZooError]) -> _Opened:
    folder = local_folder(place)
    is_here = folder is not None or (place.startswith("memory://") and "::" not in place)
    if is_offline() and not is_here:
        raise failed("ZOO_OFFLINE forbids to reach it: unset that, or use a folder of this machine")
    with requires_extra("models", needed_for="A mirror at an address"):
        import fsspec  # not at the top, for showing a place does not need it
        from fsspec.implementations.local import LocalFileSystem
    with _foreign(place, failed):
        try:
            files, root = fsspec.core.url_to_fs(place if folder is None else str(folder))
        except (ValueError, TypeError, ImportError) as error:
            words, cause = _message(error, place)
            name = shown_mirror(place)
            raise QueryError(f"The mirror {name!r} is neither a folder nor an address that works: {words}.") from cause
    return _Opened(files, str(root).rstrip("/"), place, failed, isinstance(files, LocalFileSystem))


@contextmanager
def _foreign(place: str, failed: Callable[[str], ZooError]) -> Iterator[None]:
    """Turns any error of fsspec and of the libraries below it into the error that ``failed`` makes; ZooErrors pass.

    The address decides which library that is, fsspec need not know it, and the errors of many (httpx, ftplib, zipfile)
    are no OSError: no list of classes can be complete. So every Exception counts, around these calls alone.
    """
    try:
        yield
    except ZooError:
        raise
    except Exception as error:
        words, cause = _message(error, place)
        raise failed(words) from cause


def _message(error: Exception, place: str) -> tuple[str, Exception | None]:
    """The text of a library's error, on one line, and the error; only its class if it repeats a part of the password.

    Libraries split an address at odd characters of the password, and quote the pieces.
    """
    match = _SECRET.search(place)
    secret = "" if match is None else match[2].partition(":")[2] or match[2]
    pieces = [piece for piece in re.split("[/?#@:]", secret) if piece]
    text, name = str(error).strip(), type(error).__name__
    if not text or any(form in text for piece in pieces for form in (piece, unquote(piece))):
        return name, None
    line = text.splitlines()[0].rstrip(".")
    return (line if " " in line else f"{name}: {line}"), error  # without a space it is only a path or a key


def _manifest(there: _Opened) -> dict[str, Any]:
    where = f"{shown_mirror(there.place)}/{_MANIFEST}"
    if there.size(_MANIFEST) is None:
        return {"encoders": {}}
    try:
        manifest = json.loads(there.read(_MANIFEST))
    except ValueError as error:
        raise StoreError(f"{where} is not readable as JSON ({error}); remove it.") from error
    is_ours = isinstance(manifest, dict) and manifest.get("format") == _FORMAT
    if not is_ours or not isinstance(manifest.get("encoders"), dict):
        raise StoreError(f"{where} belongs to no mirror of this zoo; choose another folder.")
    return dict(manifest)


def _copy_here(there: _Opened, path: Path) -> None:
    name, digest = f"tensors/{path.name}", hashlib.sha256()
    try:
        with replaced(path) as target:
            for block in there.blocks(name):
                digest.update(block)
                target.write(block)
            if digest.hexdigest() != path.stem:
                raise WeightsRefused(
                    f"The weights {shown_mirror(there.place)}/{name} have sha256 {digest.hexdigest()}, expected "
                    f"{path.stem}; remove that file and make the mirror again."
                )
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error}); free some space or set ZOO_CACHE.") from error
