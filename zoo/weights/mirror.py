"""Mirrors: folders or addresses of converted weights, for machines without a network.

A mirror is laid out as :mod:`zoo.weights.store` says, with ``manifest.json`` for people and the cards next to it:
``metadata/shipped/`` as they were, and ``metadata/own/`` of the user's encoders, which the zoo reads from here.
``ZOO_MIRROR`` names it: a folder is read in place, any other address that fsspec understands is copied into the cache
as it is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..errors import PlaceError, StoreError, WeightsRefused, WeightsUnavailable
from ..files import parse_local_folder, replace_file
from ..storage import Location, format_place, resolve_place
from . import store
from .locations import get_weights_folder

_MANIFEST = "manifest.json"
_FORMAT = "zoo-mirror-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorItem:
    """One encoder to be mirrored."""

    encoder: str
    record: store.WeightsRecord
    path: Path  # of its converted weights
    licence: str


def copy_from_mirror(place: str, keys: Sequence[str]) -> Path:
    """A folder on this machine with the mirror's weights of the first of ``keys`` that it has."""
    folder = parse_local_folder(place)
    if folder is not None:
        if not folder.is_dir():
            raise WeightsUnavailable(f"There is no mirror at {folder}; correct ZOO_MIRROR or unset it.")
        return folder
    copy = get_weights_folder() / "mirrors" / blake2b(place.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    if any(store.find(copy, key) is not None for key in keys):
        return copy
    try:
        there = resolve_place(place)
        for key in keys:
            name = f"records/{key}.json"
            if (content := there.read(name)) is None:
                continue
            record = store.parse_record(content, where=f"{there.shown}/{name}", key=key)
            _copy_here(there, store.get_tensors_path(copy, record.sha256))
            store.write_record(copy, record)
            break
    except PlaceError as error:
        raise WeightsUnavailable(
            f"The mirror {format_place(place)} cannot be read ({error.reason}); check ZOO_MIRROR."
        ) from error.__cause__
    return copy


def write_mirror(
    place: str,
    items: Sequence[MirrorItem],
    cards: Mapping[str, bytes],
    *,
    zoo_version: str,
    progress: Callable[[str], None] = lambda encoder: None,
) -> int:
    """Copies weights, cards and a manifest to a folder or an address; what is there already stays. Returns bytes.

    ``cards`` has the content of card files by their path below ``metadata/``; ``progress`` is called with the id of
    each encoder before its weights are copied. After an error every file is whole, and the next run continues.
    """
    n_copied = 0
    try:
        there = resolve_place(place)
        manifest = _manifest(there)
        for item in items:
            progress(item.encoder)
            name = f"tensors/{item.path.name}"
            if there.size(name) != item.record.size_bytes:
                there.write(name, item.path)
                n_copied += item.record.size_bytes
            there.write(f"records/{item.record.key}.json", store.encode_record(item.record))
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
    except PlaceError as error:
        raise StoreError(
            f"The mirror {format_place(place)} cannot be written ({error.reason}); every file there is whole, run it "
            "again to go on."
        ) from error.__cause__
    return n_copied


def _manifest(there: Location) -> dict[str, Any]:
    where = f"{there.shown}/{_MANIFEST}"
    content = there.read(_MANIFEST)
    if content is None:
        return {"encoders": {}}
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise StoreError(f"{where} is not readable as JSON ({error}); remove it.") from error
    is_ours = isinstance(manifest, dict) and manifest.get("format") == _FORMAT
    if not is_ours or not isinstance(manifest.get("encoders"), dict):
        raise StoreError(f"{where} belongs to no mirror of this zoo; choose another folder.")
    return dict(manifest)


def _copy_here(there: Location, path: Path) -> None:
    name, digest = f"tensors/{path.name}", hashlib.sha256()
    try:
        with replace_file(path) as target:
            for block in there.blocks(name):
                digest.update(block)
                target.write(block)
            if digest.hexdigest() != path.stem:
                raise WeightsRefused(
                    f"The weights {there.shown}/{name} have sha256 {digest.hexdigest()}, expected "
                    f"{path.stem}; remove that file and make the mirror again."
                )
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error}); free some space or set ZOO_CACHE.") from error
