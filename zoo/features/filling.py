"""Features in their places: what is there, the shards that are computed into them, and the index that ends them.

One way for one encoder in this process and for many on workers. A shard is there by its name, which has its hash; that
its bytes are those of its hash is seen before the index is written, and what is damaged is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..datasets import ImageSet
from ..errors import CorruptImage, DataError
from ..optional import require_extra
from ..storage import Location
from .computing import ComputedShard, ForwardSpec, compute
from .origin import Origin, compute_run_hash, get_code_version, get_stored_type
from .shards import Skipped, parse_shard_number, write_shard
from .store import (
    INDEX,
    FeatureIndex,
    Features,
    FinishedShard,
    complete_origin,
    encode_contents,
    find_finished_shards,
    find_unfinished_run,
    load_features,
    publish,
    read_index,
    require_same_origin,
    require_same_way,
)

with require_extra("models", needed_for="Computing features"):
    import numpy as np


_Wanted = TypeVar("_Wanted")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FillTarget:
    """Features of an image set that belong into a place: what a network gives, or some columns of it."""

    place: Location
    origin: Origin
    network: str  # its name among those of the forward pass
    columns: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What is at the place of some features, by one listing."""

    is_complete: bool
    shard_size: int  # as it was begun, or as it is asked for
    begun: Origin | None = None  # of a run that did not end
    files: Mapping[int, list[str]]  # shards by their numbers

    def has(self, number: int) -> bool:
        """True of a shard that is there by its name."""
        return self.is_complete or number in self.files


def find_origin_there(
    name: str, images: ImageSet, preprocessing: str = "", *, representation: str | None = None
) -> Origin:
    """The origin of features as far as it is known before the encoder is loaded.

    ``preprocessing`` is the hash of it; the representation is by default that of the name.
    """
    return Origin(
        encoder=name,
        dataset=images.name,
        split=images.split,
        weights_hash="",
        preprocess_hash=preprocessing,
        images_hash=images.fingerprint,
        representation=(name.partition("@")[2] or "card") if representation is None else representation,
        precision="",
        code_version=get_code_version(),
    )


def find_present(place: Location, known: Origin, *, shard_size: int, way: Mapping[str, Any] | None = None) -> Present:
    """What is at a place; refuses other features than those that are known, and those that were begun another way.

    ``known`` is their origin, whose facts may be empty that only a loaded encoder has, and ``way`` that of
    :func:`~zoo.features.store.claim`.
    """
    names = place.names()
    files: dict[int, list[str]] = {}
    for file in names:
        if (number := parse_shard_number(file)) is not None:
            files.setdefault(number, []).append(file)
    if INDEX in names:
        origin = complete_origin(place)
        if origin is not None:
            require_same_origin(place, origin, known)
        return Present(is_complete=True, shard_size=shard_size, files=files)
    begun = find_unfinished_run(place)
    if begun is None:
        return Present(is_complete=False, shard_size=shard_size, files={})
    require_same_origin(place, begun.origin, known)
    require_same_way(place, begun.way, way)
    return Present(is_complete=False, shard_size=begun.shard_size, begun=begun.origin, files=files)


def plan_shards(
    there: Mapping[_Wanted, Present | None], n_images: int, *, shard_size: int, everything: bool = False
) -> dict[int, dict[int, list[_Wanted]]]:
    """Which features lack a shard, by the images of a shard and its number, ascending; the one plan of all features.

    ``there`` is what is at the place of each, or None where those of another origin are, of which every shard is
    lacking; ``shard_size`` that of such. ``everything``: also shards that are there.
    """
    plan: dict[int, dict[int, list[_Wanted]]] = {}
    for wanted, present in there.items():
        size = shard_size if present is None else present.shard_size
        for number in range(-(-n_images // size)):
            if everything or present is None or not present.has(number):
                plan.setdefault(size, {}).setdefault(number, []).append(wanted)
    return {size: dict(sorted(lacking.items())) for size, lacking in plan.items()}


def fill(
    forward: ForwardSpec,
    lacking: Mapping[int, Sequence[FillTarget]],
    wrote: Callable[[FillTarget, int, FinishedShard], None],
    *,
    failed: Callable[[str, Exception], None] | None = None,
) -> None:
    """Computes shards by their numbers, writes each for the targets that lack it, and tells ``wrote``.

    ``failed`` is that of :func:`~zoo.features.computing.compute`.
    """
    images, labels = forward.images, np.asarray(forward.images.labels)

    def keep(computed: ComputedShard) -> None:
        names = [images.names[position] for position in computed.positions]
        for target in lacking[computed.number]:
            if target.network != computed.name:
                continue
            x = computed.x
            if len(x) and target.columns is not None:
                x = pick_columns(x, target.columns)
            listed = write_shard(
                target.place,
                x,
                labels[computed.positions],
                names,
                run=compute_run_hash(target.origin, shard_size=forward.shard_size),
                number=computed.number,
                skipped=computed.skipped,
                stored=get_stored_type(target.origin.precision),
            )
            wrote(target, computed.number, FinishedShard(listed=listed, dim=x.shape[1], skipped=computed.skipped))

    compute(forward, sorted(lacking), keep, failed=failed)


def pick_columns(x: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Columns of rows, float32 (n, width); those of a range are a view."""
    if isinstance(columns, range):
        return x[:, columns.start : columns.stop : columns.step]
    return x[:, list(columns)]


def finish(
    place: Location,
    images: ImageSet,
    known: Origin,
    *,
    skip_corrupt: bool,
    written: Mapping[int, FinishedShard] | None = None,
) -> bool:
    """Writes the index of features whose shards are all there and whole; True if there is an index.

    What is damaged is removed, so that it is lacking from then on. Shards that were ``written`` by this process are not
    read again.

    Raises
    ------
    CorruptImage
        If images were skipped, and none is to be.
    DataError
        If the features are others, or no image could be read.
    """
    index = read_index(place)
    if index is not None:
        require_same_origin(place, index.origin, known)
        _require_wanted(index.skipped, skip_corrupt)
        return True
    begun = find_unfinished_run(place)
    if begun is None:
        return False
    require_same_origin(place, begun.origin, known)
    there = place.names()  # what another process writes meanwhile stays
    size = begun.shard_size
    shards = find_finished_shards(place, begun.origin, n_images=len(images), shard_size=size, trusted=written or {})
    _require_wanted([image for number in sorted(shards) for image in shards[number].skipped], skip_corrupt)
    if len(shards) < -(-len(images) // size):
        for file in there:
            if (number := parse_shard_number(file)) is not None and number not in shards:
                place.remove(file)
        return False
    publish(place, _index_of(images, begun.origin, [shards[number] for number in sorted(shards)], shard_size=size))
    return True


def load_features_of(place: Location, images: ImageSet, origin: Origin | None = None) -> Features:
    """The complete features of a place, with what is known of the images asked for, whatever is stored.

    They are refused if they are not those of an origin, where one is given.
    """
    features = load_features(place)
    if origin is not None:
        require_same_origin(place, features.origin, origin)
    contents = features.contents if images.contents is None else _of_rows(images.contents, features.skipped)
    groups = _of_rows(images.groups, features.skipped)
    return replace(features, contents=contents, groups=groups, tags=images.tags, target=images.target)


def require_one_dim(dims: set[int], origin: Origin) -> None:
    """Refuses an encoder that gives vectors of several lengths."""
    if len(dims) > 1:
        raise DataError(
            f"The encoder {origin.encoder!r} gives features of {' and of '.join(map(str, sorted(dims)))} dimensions "
            f"for different images of {origin.dataset!r}; expected one number for all."
        )


def build_unreadable_error(images: ImageSet, skipped: Sequence[Skipped]) -> DataError:
    """The error about an image set of which no image can be read."""
    return DataError(
        f"None of the {len(images):,} images of {images.name!r} can be read, the first is {skipped[0].image!r}; there "
        "is nothing to featurise."
    )


def _index_of(images: ImageSet, origin: Origin, shards: Sequence[FinishedShard], *, shard_size: int) -> FeatureIndex:
    """The index of all shards of an image set, in their order; DataError if none of the images could be read."""
    skipped = tuple(image for shard in shards for image in shard.skipped)
    dims = {shard.dim for shard in shards if shard.listed.n_rows}
    if not dims:
        raise build_unreadable_error(images, skipped)
    require_one_dim(dims, origin)
    return FeatureIndex(
        origin=replace(origin, n_skipped=len(skipped)),
        classes=images.classes,
        dim=dims.pop(),
        shard_size=shard_size,
        shards=tuple(shard.listed for shard in shards),
        skipped=skipped,
        contents=encode_contents(_of_rows(images.contents, skipped)),
        groups=encode_contents(_of_rows(images.groups, skipped)),
        tags=images.tags,
        target=images.target,
    )


def _of_rows(hashes: np.ndarray | None, skipped: Sequence[Skipped]) -> np.ndarray | None:
    """Hashes of the images of the rows, from those of all images."""
    return None if hashes is None else np.delete(hashes, [image.position for image in skipped])


def _require_wanted(skipped: Sequence[Skipped], skip_corrupt: bool) -> None:
    """Refuses features without some of the images where all were asked for."""
    if skipped and not skip_corrupt:
        raise CorruptImage(skipped[0].image, skipped[0].reason)
