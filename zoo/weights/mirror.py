"""A mirror: a folder or an address of converted weights, for machines that have no network.

It is laid out as :mod:`zoo.weights.store` says, with a manifest for people and the cards beside it:

    manifest.json                    what is in here: encoder -> record, file, hash, size, licence
    records/KEY.json, tensors/SHA256.safetensors
    metadata/shipped/FAMILY.toml     the cards as they were when the mirror was made
    metadata/own/FILE.toml           cards of the user's own encoders, which the zoo reads from here

``ZOO_MIRROR`` names it: a folder is read where it is, any other address that fsspec understands is copied into the
cache as it is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ..atomic import replaced
from ..content import local_folder
from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from . import store
from .environment import is_offline, weights_folder

_BLOCK = 1024**2
_MANIFEST = "manifest.json"
_FORMAT = "zoo-mirror-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One encoder to be mirrored."""

    encoder: str
    record: store.Record
    path: Path  # of its converted weights
    licence: str


def local_copy(place: str, keys: Sequence[str]) -> Path:
    """A folder on this machine that has what the mirror has of the first of ``keys`` that is there.

    Raises
    ------
    WeightsUnavailable
        If the mirror cannot be reached, or may not be because of ``ZOO_OFFLINE``.
    WeightsRefused
        If what it has is damaged.
    StoreError
        If the copy cannot be written.
    """
    folder = local_folder(place)
    if folder is not None:
        if not folder.is_dir():
            raise WeightsUnavailable(f"There is no mirror at {folder}; correct ZOO_MIRROR or unset it.")
        return folder
    copy = weights_folder() / "mirrors" / blake2b(place.encode(), digest_size=8).hexdigest()
    if any(store.find(copy, key) is not None for key in keys):
        return copy
    if is_offline() and not place.startswith("memory://"):
        raise WeightsUnavailable(
            f"The mirror {place} has not been copied yet, and ZOO_OFFLINE forbids to reach it; unset ZOO_OFFLINE or "
            "use a mirror in a folder of this machine."
        )
    try:
        files, root = _opened(place)
        for key in keys:
            there = f"{root}/records/{key}.json"
            if files.exists(there):
                record = store.parse_record(files.cat_file(there), where=f"{place}/records/{key}.json")
                _copy_here(
                    files, f"{root}/tensors/{record.sha256}.safetensors", store.tensors_path(copy, record.sha256)
                )
                store.keep(copy, record)
                return copy
    except OSError as error:
        raise WeightsUnavailable(f"The mirror {place} cannot be read ({error}); check ZOO_MIRROR.") from error
    return copy


def write_mirror(
    place: str,
    items: Sequence[Item],
    cards: Mapping[str, bytes],
    *,
    zoo_version: str,
    progress: Callable[[str], None] = lambda encoder: None,
) -> int:
    """Copies weights, cards and a manifest to a folder or an address; what is there already is left as it is.

    Parameters
    ----------
    place : str
        A folder, or an address that fsspec understands.
    items : sequence of Item
    cards : mapping of str to bytes
        Content of card files by their path below ``metadata/``.
    zoo_version : str
    progress : callable
        Called with the id of each encoder before its weights are copied.

    Returns
    -------
    int
        Bytes of weights that were copied.

    Raises
    ------
    StoreError
        If the mirror cannot be written; what was copied so far is whole, and the next run goes on from there.
    """
    n_copied = 0
    try:
        files, root = _opened(place)
        manifest = _manifest(files, root, place)
        for item in items:
            progress(item.encoder)
            there = f"{root}/tensors/{item.path.name}"
            if not (files.exists(there) and files.size(there) == item.record.size_bytes):
                _put(files, there, item.path)
                n_copied += item.record.size_bytes
            _write(files, f"{root}/records/{item.record.key}.json", store.record_bytes(item.record))
            manifest["encoders"][item.encoder] = {
                "record": item.record.key,
                "sha256": item.record.sha256,
                "size_bytes": item.record.size_bytes,
                "licence": item.licence,
                "places": [origin.place for origin in item.record.origins],
            }
        for name, content in cards.items():
            _write(files, f"{root}/metadata/{name}", content)
        manifest |= {"format": _FORMAT, "zoo": zoo_version, "encoders": dict(sorted(manifest["encoders"].items()))}
        _write(files, f"{root}/{_MANIFEST}", json.dumps(manifest, indent=1).encode() + b"\n")
    except OSError as error:
        raise StoreError(
            f"The mirror {place} cannot be written ({error}); every file there is whole, run it again to go on."
        ) from error
    return n_copied


def _opened(place: str) -> tuple[Any, str]:
    try:
        files, root = fsspec.core.url_to_fs(place)
    except (ValueError, ImportError) as error:
        raise QueryError(
            f"The mirror {place!r} is neither a folder nor an address that fsspec understands ({error})."
        ) from error
    return files, str(root).rstrip("/")


def _manifest(files: Any, root: str, place: str) -> dict[str, Any]:
    path = f"{root}/{_MANIFEST}"
    if not files.exists(path):
        return {"encoders": {}}
    try:
        manifest = json.loads(files.cat_file(path))
    except ValueError as error:
        raise StoreError(f"{place}/{_MANIFEST} is not readable as JSON ({error}); remove it.") from error
    is_ours = isinstance(manifest, dict) and manifest.get("format") == _FORMAT
    if not is_ours or not isinstance(manifest.get("encoders"), dict):
        raise StoreError(f"{place}/{_MANIFEST} belongs to no mirror of this zoo; choose another folder.")
    return dict(manifest)


def _put(files: Any, there: str, path: Path) -> None:
    """Object stores show a file when all of it is there; a local folder needs the usual care."""
    if isinstance(files, LocalFileSystem):
        with replaced(Path(there)) as target, open(path, "rb") as file:
            while block := file.read(_BLOCK):
                target.write(block)
    else:
        files.makedirs(there.rpartition("/")[0], exist_ok=True)
        files.put_file(str(path), there)


def _write(files: Any, there: str, content: bytes) -> None:
    if isinstance(files, LocalFileSystem):
        with replaced(Path(there)) as target:
            target.write(content)
    else:
        files.makedirs(there.rpartition("/")[0], exist_ok=True)
        files.pipe_file(there, content)


def _copy_here(files: Any, there: str, path: Path) -> None:
    digest = hashlib.sha256()
    try:
        with replaced(path) as target:
            for block in _blocks(files, there):
                digest.update(block)
                target.write(block)
            if digest.hexdigest() != path.stem:
                raise WeightsRefused(
                    f"The weights {there} of the mirror have sha256 {digest.hexdigest()}, expected {path.stem}; remove "
                    "that file and make the mirror again."
                )
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error}); free some space or set ZOO_CACHE.") from error


def _blocks(files: Any, there: str) -> Iterator[bytes]:
    try:
        with files.open(there, "rb") as file:
            while block := file.read(_BLOCK):
                yield block
    except OSError as error:
        raise WeightsUnavailable(
            f"The mirror has a record of {there}, and that file cannot be read ({error}); try again, or make it again."
        ) from error
