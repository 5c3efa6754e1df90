"""How converted weights are kept: with where they came from and what converted them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .encoders import Encoder
from .encoders.layouts import layout_named
from .errors import StoreError
from .optional import requires_extra
from .version import __version__
from .weights import store
from .weights.places import portable
from .weights.tensors import Content, content_of, read_tensors, write_tensors

with requires_extra("models", needed_for="Converting weights"):
    from torch import Tensor

_LIBRARIES = ("torch", "torchvision", "timm", "safetensors", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Converted weights on this machine."""

    path: Path
    record: store.Record
    is_new: bool  # fetched and converted just now
    held: Mapping[str, Tensor] | None = None  # the weights themselves, where the file could not be written

    def tensors(self, *, remedy: str) -> dict[str, Tensor]:
        """The state dict, once every byte is what was written; ``remedy`` says what to do otherwise.

        Raises
        ------
        WeightsRefused
            If the file is damaged.
        StoreError
            If it cannot be read.
        """
        if self.held is not None:
            return dict(self.held)
        record = self.record
        content = Content(sha256=record.sha256, size_bytes=record.size_bytes, sums=record.sums)
        return read_tensors(self.path, content, remedy=remedy)


def registered_place(sha256: str) -> str:
    """The place of registered weights, as a card names it."""
    return f"{store.REGISTERED}{sha256}"


def found_in(folder: Path, key: str) -> Found | None:
    """What a folder of converted weights has under a key; None if nothing.

    Raises
    ------
    WeightsRefused
        If the record is damaged.
    StoreError
        If it cannot be read.
    """
    record = store.find(folder, key)
    if record is None:
        return None
    return Found(path=store.tensors_path(folder, record.sha256), record=record, is_new=False)


def architecture_hash(encoder: Encoder) -> str:
    """Hash of the names, shapes and types of a state dict; encoders that agree in it can share weights."""
    digest = blake2b(digest_size=16)
    for name, tensor in encoder.state_dict().items():
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    return digest.hexdigest()


def keep(
    folder: Path,
    name: str,
    tensors: Mapping[str, Tensor],
    *,
    encoder: Encoder,
    origins: tuple[store.Origin, ...],
    layout: str,
    is_registered: bool = False,
    selection: str = "",
    reading: store.Reading | None = None,
    may_be_held: bool = False,
) -> Found:
    """Writes converted weights and their record into a folder of the kind that :mod:`zoo.weights.store` describes.

    The record is found by the places of the files; registered weights are found by their own hash. Of a user's own file
    it says which encoder in it was asked for (``selection``), and what was taken and done (``reading``). With
    ``may_be_held`` weights that cannot be written are held in memory instead.

    Raises
    ------
    StoreError
        If they cannot be written and may not be held; nothing is left of them.
    """
    version_of_layout = layout_named(layout).version
    read_as = reading.layout if reading else layout
    about = {"format": "zoo-weights-1", "layout": f"{read_as} {layout_named(read_as).version}"}
    about |= {f"source_sha256_{number}": origin.sha256 for number, origin in enumerate(origins)}
    held = None
    try:
        content = write_tensors(folder / "tensors", tensors, about=about)
    except StoreError:
        if not may_be_held:
            raise
        content = content_of(tensors, about=about)
        held = {key: tensor.clone() for key, tensor in tensors.items()}  # no pages of a file that may change
    if is_registered:
        first = origins[0]
        place, address = registered_place(content.sha256), portable(first.address)
        origins = (replace(first, place=place, address=address),)  # this folder may be moved, or copied to a mirror
        layout, version_of_layout, selection = "zoo", layout_named("zoo").version, ""
    record = store.Record(
        encoder=name,
        origins=origins,
        layout=layout,
        layout_version=version_of_layout,
        architecture=architecture_hash(encoder),
        sha256=content.sha256,
        size_bytes=content.size_bytes,
        sums=content.sums,
        created=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        versions=_versions(),
        selection=selection,
        reading=reading,
    )
    path = store.tensors_path(folder, content.sha256)
    known = store.find(folder, record.key) if is_registered else None
    if known is not None:  # a second encoder of the same weights: the provenance of the first stands
        return Found(path=path, record=known, is_new=False)
    if held is None:
        store.keep(folder, record)
    return Found(path=path, record=record, is_new=held is None, held=held)


def discard(found: Found) -> None:
    """Takes back what :func:`keep` has just written, because the encoder cannot be right."""
    folder = found.path.parent.parent
    store.record_path(folder, found.record.key).unlink(missing_ok=True)
    if all(record is None or record.sha256 != found.record.sha256 for _, record in store.records(folder)):
        found.path.unlink(missing_ok=True)


def _versions() -> dict[str, str]:
    found = {"ssl-zoo": __version__}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:  # a source tree on the path has no distribution
            continue
    return found
