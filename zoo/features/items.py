"""Items: the units in which features are computed on workers, and how they are planned and completed.

An item is some images of a set, those of one shard, and the encoders of a group, whose preprocessing is the same: a
worker decodes the images once, gives them to every encoder, and writes a shard each. Which items there are, who does
them, in which order and how often changes no shard: it is a function of the images, the encoder and the setting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..datasets import ImageData, ImageSet
from ..optional import requires_extra
from ..storage import Place
from .store import SHARD_SIZE

with requires_extra("models", needed_for="Computing features"):
    import torch

Load: TypeAlias = Callable[[str], tuple[torch.nn.Module, Any]]
STORED = ("float32", "float16")
"""Types in which the numbers of features can be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Featurising:
    """How features are computed; only precision and skipping change them beyond rounding."""

    batch_size: int = 64
    n_workers: int = 0
    device: str | None = None  # a GPU where there is one
    precision: str = "float32"
    skip_corrupt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all items of a run have in common; small, and goes to every worker."""

    source: Callable[[], ImageData]  # opens the images, once in a process; picklable
    place: str  # folder or address of all evaluations
    fingerprints: Mapping[str, str]  # by part; a worker that sees other images refuses
    load: Load | None = None  # zoo.load by default; picklable
    how: Featurising = field(default_factory=Featurising)
    stored: str = "float32"
    shard_size: int = SHARD_SIZE  # images an item, but those of a shard in a folder that was begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Images of one shard for the encoders of a group."""

    part: str  # "train" or "val"
    encoders: tuple[str, ...]  # ids
    number: int  # of the shard
    shard_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDone:
    """What became of an item."""

    digest: str  # hash of the hashes of its shards, in the order of the encoders
    n_rows: int  # images with features
    n_skipped: int  # images that could not be read
    batch_size: int  # the smallest that was used; less than asked for where the memory was too small
    n_there: int  # encoders whose shard was there already
    n_bytes: int  # that were written
    nondeterministic: tuple[int, ...]  # encoders, by their place in the item, whose features differed between two tries

    @property
    def was_there(self) -> bool:
        """True if nothing was computed."""
        return self.n_bytes == 0


def parse_done(value: bytes) -> ItemDone:
    """What :func:`compute_item` returned."""
    facts = json.loads(value)
    odd = facts.pop("odd")
    return ItemDone(**facts, nondeterministic=tuple(place for place in range(MOST) if odd >> place & 1))


MOST = 64
"""Encoders in an item, at most."""


def opened(source: Callable[[], ImageData]) -> ImageData:
    """The images of a source, which is opened once in a process: ``Setting.source``, by its pickled form."""
    raise NotImplementedError


def plan(
    setting: Setting,
    names: Sequence[str],
    data: ImageData,
    parts: Sequence[str],
    *,
    group_bytes: int | None = None,
    everything: bool = False,
) -> list[Item]:
    """The items that make features of all images of these parts under all encoders.

    Encoders with the same preprocessing, as their cards have it, are groups of as many as fit into ``group_bytes`` (by
    default half of the memory of this machine or its GPU). Groups come one after the other, each with all its images,
    so that the first encoders are complete, and can be measured, when the first group is through.

    Shards that are there by their names are left out, unless ``everything`` is asked for: a part of the work by number
    needs the same list whatever is there.
    """
    raise NotImplementedError


def alone(item: Item) -> list[Item]:
    """The same images for each encoder by itself: says which one an item fails of, and spares the others."""
    raise NotImplementedError


def compute_item(setting: Setting, item: Item) -> bytes:
    """Does one item: computes and writes the shards that are missing; a value for :func:`parse_done`, below 200 bytes.

    Where one of the encoders fails, the others' shards are written before its error is raised.
    """
    raise NotImplementedError


def complete(setting: Setting, name: str, part: str) -> bool:
    """Writes the index of an encoder's features of a part if all shards are there; True if there is an index.

    False although all items are done: shards were damaged or of another run, and have been removed; plan again.
    """
    raise NotImplementedError


def features_place(place: Place, name: str, images: ImageSet, *, precision: str, stored: str = "float32") -> Place:
    """Where the features of a part are, below the place of all evaluations."""
    for folder in features_path(name, images, precision=precision, stored=stored):
        place = place.below(folder)
    return place


def features_path(name: str, images: ImageSet, *, precision: str, stored: str = "float32") -> tuple[str, str, str]:
    """The folders of the features of a part, by encoder, data set, part, images and precision."""
    suffix = ("" if precision == "float32" else f"-{precision}") + ("" if stored == "float32" else f"-stored-{stored}")
    folder = f"{path_part(images.name)}-{path_part(images.split)}-{images.fingerprint[:12]}{suffix}"
    return path_part(name), "features", folder


def path_part(text: str) -> str:
    """A text as a part of a path on every system."""
    return re.sub(r"[^\w.+-]", "_", text) or "_"
