"""Several features of the same images from one forward pass, each into a folder of its own.

An encoder gives one wide row an image, and each part takes columns of it. The places are those that
:func:`zoo.features.featurise` would write for the parts by themselves: what one has finished the other does not compute
again, and a run that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..datasets import ImageSet
from ..errors import DataError, PlaceError
from ..optional import requires_extra
from ..progress import Progress, Silent
from ..storage import Place
from .computing import (
    Computed,
    Forward,
    Network,
    compute,
    device_for,
    index_of,
    number_type,
    of_rows,
    reported,
    require_wanted,
)
from .decoding import Decoding
from .origin import Origin, code_version, run_hash
from .shards import write_shard
from .store import (
    SHARD_SIZE,
    Features,
    Finished,
    claim,
    finished_shards,
    load_features,
    preprocess_hash,
    read_index,
    remove_leftovers,
    require_begun_here,
    require_same_origin,
    tidy,
    weights_hash,
    write_index,
)

with requires_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

_SHARD_BYTES = 1 << 27  # of wide rows, of which one shard is in memory
_LEAST_ROWS = 64  # images a shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Features that are some columns of the wide rows."""

    name: str  # id of the encoder with these features
    representation: str  # as in Origin
    columns: Sequence[int]
    place: Place


@dataclass(slots=True, kw_only=True, eq=False)
class _Open:
    """A place that is not complete."""

    part: Part
    origin: Origin
    shards: dict[int, Finished]


def featurise_parts(
    wide: torch.nn.Module,
    encoder: torch.nn.Module,
    preprocess: Callable[[Any], torch.Tensor],
    images: ImageSet,
    parts: Sequence[Part],
    *,
    batch_size: int = 64,
    n_workers: int = 0,
    device: str | None = None,
    precision: str = "float32",
    skip_corrupt: bool = False,
    progress: Progress | None = None,
) -> dict[str, Features]:
    """Features of every part by its name, of every image of a set, in its order; all stay on the disk.

    Parameters
    ----------
    wide : torch.nn.Module
        From images float32 (n, 3, px, px) to rows float32 (n, width), of which the parts take columns.
    encoder : torch.nn.Module
        The encoder inside it: its weights are those of the features' origin.
    preprocess, images, batch_size, n_workers, device, precision, skip_corrupt, progress
        As for :func:`zoo.features.featurise`.
    parts : sequence of Part

    Raises
    ------
    CorruptImage, DataError, QueryError
        As :func:`zoo.features.featurise`.
    """
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to featurise.")
    precision_name, autocast = number_type(wide, precision)
    forward = Forward(
        networks=(Network(encoder=wide, name=parts[0].name, autocast=autocast),),
        decoding=Decoding(images, preprocess),
        device=device_for(wide, device),
        batch_size=batch_size,
        n_workers=n_workers,
        shard_size=shard_size_of(max(column for part in parts for column in part.columns) + 1),
        skip_corrupt=skip_corrupt,
        progress=progress or Silent(),
    )
    origin = Origin(
        encoder="",
        dataset=images.name,
        split=images.split,
        weights_hash=weights_hash(encoder),
        preprocess_hash=preprocess_hash(preprocess),
        images_hash=images.fingerprint,
        representation="",
        precision=precision_name,
        code_version=code_version(),
    )
    origins = {part.name: replace(origin, encoder=part.name, representation=part.representation) for part in parts}
    try:
        _complete(forward, [(part, origins[part.name]) for part in parts])
    except PlaceError as error:
        raise DataError(
            f"The features of {images.name!r} could not be written to {parts[0].place.shown} "
            f"({error.reason}); finished shards stay, make room or make it writable and run the same again."
        ) from error
    return {part.name: _loaded(forward, part, origins[part.name]) for part in parts}


def shard_size_of(width: int) -> int:
    """Images a shard of rows that are so wide."""
    fitting = SHARD_SIZE
    while fitting > _LEAST_ROWS and 4 * width * fitting > _SHARD_BYTES:
        fitting //= 2
    return fitting


def _loaded(forward: Forward, part: Part, origin: Origin) -> Features:
    features = load_features(part.place)
    require_same_origin(part.place, features.origin, origin)
    require_wanted(forward, features.skipped)
    images = forward.images
    contents = features.contents if features.contents is not None else of_rows(images.contents, features.skipped)
    return replace(features, contents=contents, groups=of_rows(images.groups, features.skipped), tags=images.tags)


def _complete(forward: Forward, parts: Sequence[tuple[Part, Origin]]) -> None:
    """Computes what the places lack, those of one size of shards together."""
    by_size: dict[int, list[_Open]] = {}
    for part, origin in parts:
        index = read_index(part.place)
        if index is not None:
            require_same_origin(part.place, index.origin, origin)
            continue
        require_begun_here(part.place)
        size = claim(part.place, origin, shard_size=forward.shard_size)
        remove_leftovers(part.place)
        shards = finished_shards(part.place, origin, n_images=len(forward.images), shard_size=size)
        require_wanted(forward, [image for shard in shards.values() for image in shard.skipped])
        by_size.setdefault(size, []).append(_Open(part=part, origin=origin, shards=shards))
    for size, some in by_size.items():
        _fill(replace(forward, shard_size=size), some)


def _fill(forward: Forward, some: Sequence[_Open]) -> None:
    images, labels = forward.images, np.asarray(forward.images.labels)

    def keep(computed: Computed) -> None:
        names = [images.names[position] for position in computed.positions]
        for one in some:
            if computed.number in one.shards:
                continue
            x = computed.x[:, list(one.part.columns)] if len(computed.x) else computed.x
            listed = write_shard(
                one.part.place,
                x,
                labels[computed.positions],
                names,
                run=run_hash(one.origin, shard_size=forward.shard_size),
                number=computed.number,
                skipped=computed.skipped,
            )
            one.shards[computed.number] = Finished(listed=listed, dim=x.shape[1], skipped=computed.skipped)

    there = {number for number in range(forward.n_shards) if all(number in one.shards for one in some)}
    missing = [number for number in range(forward.n_shards) if number not in there]
    with reported(forward, some[0].origin, n_done=sum(len(forward.span(number)) for number in there)):
        compute(forward, missing, keep)
    for one in some:
        listed = [one.shards[number] for number in sorted(one.shards)]
        write_index(one.part.place, index_of(images, one.origin, listed, shard_size=forward.shard_size))
        published = read_index(one.part.place)  # this one, or that of a process that was faster
        if published is not None:
            tidy(one.part.place, published)


def joined(parts: Mapping[str, Features], names: Sequence[str], *, name: str, representation: str) -> Features:
    """Features of several parts beside each other, in memory, as another name of the encoder has them."""
    several = [parts[one] for one in names]
    x = np.concatenate([np.asarray(features.x[:]) for features in several], axis=1)
    origin = replace(several[0].origin, encoder=name, representation=representation)
    return replace(several[0], x=x, origin=origin, folder=None, where="")
