"""Housekeeping of folders of converted weights: listing, checking and removing what is in them.

What another process may be about to use is left alone: a file is garbage only if it is damaged, or if it has been
useless for an hour, and parts of a download for a day.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..cards.schema import LAYERS, EncoderCard, Missing
from ..errors import StoreError
from ..files import get_user_folder, parse_local_folder
from . import store
from .locations import get_mirror, get_weights_folder

_HOUR_S, _DAY_S = 3_600.0, 86_400.0
_BLOCK = 4 * 1024**2  # bytes read at a time
_TEMPORARY = re.compile(r"\..+-[0-9a-f]{16}\.tmp")  # as zoo.files names them

Places = tuple[str, ...]  # of an encoder's file, then of its companions


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsStore:
    """One folder of converted weights on this machine."""

    kind: Literal["cache", "copy of a mirror", "registered", "mirror"]
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record of a shelf, and the weights that it names."""

    shelf: WeightsStore
    path: Path  # of the record
    record: store.WeightsRecord | None  # None if it is damaged
    status: os.stat_result | None  # of the weights; None if they are not there

    @property
    def weights(self) -> Path | None:
        """Path of the weights, which may be missing."""
        return None if self.record is None else store.get_tensors_path(self.shelf.folder, self.record.sha256)

    @property
    def is_registered(self) -> bool:
        """True for a user's encoder, whose weights cannot be downloaded again."""
        return self.record is not None and self.record.origins[0].place.startswith(store.REGISTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageFile:
    """A useless file."""

    path: Path
    reason: str
    size_bytes: int


def list_stores() -> list[WeightsStore]:
    """The folders of converted weights of this user and environment, whether they exist or not."""
    copies = sorted((get_weights_folder() / "mirrors").glob("*"))
    everything = [
        WeightsStore(kind="cache", folder=get_weights_folder()),
        *(WeightsStore(kind="copy of a mirror", folder=folder) for folder in copies),
        WeightsStore(kind="registered", folder=get_user_folder() / "weights"),
    ]
    place = get_mirror()
    if place and (folder := parse_local_folder(place)) is not None:
        everything.append(WeightsStore(kind="mirror", folder=folder))
    first_at: dict[Path, WeightsStore] = {}
    for shelf in everything:
        first_at.setdefault(shelf.folder.resolve(), shelf)
    return list(first_at.values())


def list_store_records(shelf: WeightsStore) -> list[StoredRecord]:
    """Every record of a shelf."""
    items = []
    for path, record in store.iterate_weights_records(shelf.folder):
        status = None if record is None else _status(store.get_tensors_path(shelf.folder, record.sha256))
        items.append(StoredRecord(shelf=shelf, path=path, record=record, status=status))
    return items


def group_by_places(cards: Iterable[EncoderCard]) -> dict[Places, list[EncoderCard]]:
    """Trained encoders by the places from which each can be downloaded."""
    sharing: dict[Places, list[EncoderCard]] = {}
    for card in cards:
        for place in (card.weights.url, *card.weights.mirrors):
            if not isinstance(place, Missing):
                places = tuple(map(store.format_recorded_name, (place, *card.weights.companions)))
                sharing.setdefault(places, []).append(card)
    return sharing


def find_loading_encoders(
    record: store.WeightsRecord, cards: Mapping[Places, Sequence[EncoderCard]]
) -> tuple[str, ...]:
    """Ids of the encoders that load these weights, including the one that they were converted for.

    Decided by the cards, for state dicts cannot be compared without torch: encoders share weights if they read the same
    files, laid out alike, into the same network, whichever features they take from it.
    """
    alike = cards.get(tuple(origin.place for origin in record.origins), ())
    first = next((card for card in alike if card.id == record.encoder), None)
    if first is None:  # its card is gone, or it was loaded from a user's file
        return (record.encoder,)
    return tuple(card.id for card in alike if _network(card) == _network(first))


def _network(card: EncoderCard) -> tuple[object, ...]:
    """What decides names and shapes of a state dict; of the layer, what it needs in addition to the backbone."""
    built, layer = card.architecture, LAYERS[card.representation.layer]
    needed = (bool(layer.tokens), "proj" in layer.tokens, layer.is_quantised)
    return built.backbone, sorted(built.options.items()), needed, card.weights.converter


def is_record_for(record: store.WeightsRecord, card: EncoderCard) -> bool:
    """True if the weights were converted for this encoder, or for another one from the same file."""
    places = [place for place in (card.weights.url, *card.weights.mirrors) if not isinstance(place, Missing)]
    return record.encoder == card.id or record.origins[0].place in map(store.format_recorded_name, places)


def find_damage(path: Path, record: store.WeightsRecord, *, progress: Callable[[int], None] = lambda n: None) -> str:
    """How a file of weights differs from its record, every byte of it read; "" if it does not.

    ``progress`` is called with the number of bytes after every few MB.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
                progress(len(block))
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if size != record.size_bytes:
        return f"it has {size:,} bytes, expected {record.size_bytes:,}"
    return "" if digest.hexdigest() == record.sha256 else f"its sha256 is {digest.hexdigest()}"


def remove(among: Sequence[StoredRecord]) -> int:
    """Removes records, and the weights that no other record of their shelf needs; returns the bytes that are freed."""
    freed = 0
    try:
        for item in among:
            item.path.unlink(missing_ok=True)
        for shelf in {item.shelf for item in among}:
            needed = {other.weights for other in list_store_records(shelf)}
            unneeded = {item.weights: item.status for item in among if item.shelf == shelf and item.status is not None}
            for path, status in unneeded.items():
                if path is not None and path not in needed:
                    path.unlink(missing_ok=True)
                    freed += status.st_size
    except OSError as error:
        raise StoreError(f"{error.filename} cannot be removed ({error.strerror}); make its folder writable.") from error
    return freed


def find_garbage(*, layouts: Mapping[str, int] | None) -> list[GarbageFile]:
    """Useless files of the cache and of its copies of mirrors; nothing is removed.

    ``layouts`` has the version of every layout; without it, weights that an older version has converted are left alone.
    """
    found: list[GarbageFile] = []

    def is_old(path: Path, reason: str, age_s: float = _HOUR_S) -> bool:
        status = _status(path)
        if status is None or (age_s and time.time() - status.st_mtime <= age_s):
            return False
        found.append(GarbageFile(path=path, reason=reason, size_bytes=status.st_size))
        return True

    cache = get_weights_folder()
    for path in sorted(cache.rglob(".*.tmp")):
        if _TEMPORARY.fullmatch(path.name):
            is_old(path, "half written by a process that is gone")
    for path in sorted((cache / "partial").glob("[!.]*")):
        is_old(path, "of an abandoned download", _DAY_S)
    for path in sorted((cache / "downloads").glob("*")):
        is_old(path, "a download that was never converted")
    for shelf in list_stores():
        if shelf.kind not in ("cache", "copy of a mirror"):
            continue
        needed = set()
        for item in list_store_records(shelf):
            reason = _why_useless(item, layouts)
            if not reason or not is_old(item.path, reason, _HOUR_S if item.record else 0):
                needed.add(item.weights)
        for path in sorted((shelf.folder / "tensors").glob("*.safetensors")):
            if path not in needed:
                is_old(path, "weights without a record")
    return found


def discard(items: Iterable[GarbageFile]) -> tuple[int, list[str]]:
    """Removes garbage; returns the bytes freed, and a sentence a failure."""
    freed, failures = 0, []
    for item in items:
        try:
            item.path.unlink()
            freed += item.size_bytes
        except FileNotFoundError:  # another process was quicker
            continue
        except OSError as error:
            failures.append(f"{item.path} cannot be removed ({error.strerror}).")
    return freed, failures


def _why_useless(item: StoredRecord, layouts: Mapping[str, int] | None) -> str:
    """Why a record is useless; "" if it is of use."""
    record = item.record
    if record is None:
        return "a damaged record"
    if item.is_registered:
        return ""
    if record.key != item.path.stem:
        return "a record under the name of another one"
    if item.status is None:
        return "a record without its weights"
    if layouts is not None and record.layout_version < layouts.get(record.layout, 0):
        return f"converted by version {record.layout_version} of the layout {record.layout!r}"
    return ""


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); make its folder readable.") from error
