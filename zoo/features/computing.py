"""An image set through an encoder, in memory or shard by shard into a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..datasets import ImageSet
from ..errors import CorruptImage, DataError, QueryError
from ..optional import requires_extra
from .decoding import Decoding, Preprocess
from .forward import Computed, Forward, compute, device_for, number_type
from .hashes import preprocess_hash, weights_hash
from .index import (
    Finished,
    Index,
    claim,
    encoded,
    finished_shards,
    read_index,
    remove_leftovers,
    require_same_origin,
    write_index,
)
from .origin import Origin, code_version, run_hash, with_skipped
from .progress import Progress, Silent
from .shards import Skipped, write_shard
from .store import SHARD_SIZE, Features, load_features, tidy

with requires_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch


def featurise(
    encoder: torch.nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    *,
    name: str,
    folder: str | Path | None = None,
    batch_size: int = 64,
    n_workers: int = 0,
    device: str | torch.device | None = None,
    precision: str = "float32",
    channels_last: bool | None = None,
    shard_size: int = SHARD_SIZE,
    representation: str = "card",
    skip_corrupt: bool = False,
    progress: Progress | None = None,
) -> Features:
    """Features of every image of a set, in its order.

    With a folder they stream to the disk, one shard after the other, and a run that was killed goes on where it was
    when it is started again: its features are then those of an uninterrupted run to the last bit, for every shard
    begins a batch. Several processes on one folder do each other no harm; at worst they repeat each other's work.

    Parameters
    ----------
    encoder, preprocess
        As :func:`zoo.load` returns them; the encoder is left in eval mode on ``device``.
    images : ImageSet
        n labelled images.
    name : str
        Id of the encoder, kept with the features.
    folder : path, optional
        Of these features alone; made if it does not exist. Without it everything stays in memory.
    batch_size : int
        Images a forward pass; the features do not depend on it beyond rounding.
    n_workers : int
        Processes that decode and preprocess; with none, a thread does while the encoder computes.
    device : str or torch.device, optional
        Where the encoder runs; a GPU where there is one.
    precision : {"float32", "bfloat16", "float16"}
        Of the forward pass: float32 with all its bits (no TF32), or torch's autocast. Kept with the features, which
        are float32 whatever was computed. An encoder whose weights are stored in another type computes in that.
    channels_last : bool, optional
        Whether colours lie beside each other in memory, which changes rounding and speed alone. By default where it
        helps: in convolutional encoders.
    shard_size : int
        Images a shard, of which one is in memory at a time; a folder that was begun keeps its own.
    representation : str
        Which features of the encoder these are, if not those of its card.
    skip_corrupt : bool
        Leave out images that cannot be read, and tell them as ``Features.skipped``, instead of ending with the first.
    progress : Progress, optional
        Told of every batch.

    Returns
    -------
    Features
        x float32 (n, dim), y int64 (n,), with names, classes and origin; n without skipped images. With a folder, x
        stays on the disk.

    Raises
    ------
    CorruptImage
        If an image cannot be read, and none is to be skipped; shards that were finished stay.
    DataError
        If the set is empty; an image gives features that are not finite (names it); the encoder gives something else
        than one vector an image; the folder was begun with another encoder, weights, preprocessing, images or
        precision (says which), is damaged, or cannot be written; a worker process dies.
    QueryError
        If an option makes no sense, or there is no such device.
    """
    least_numbers = (("batch_size", batch_size, 1), ("n_workers", n_workers, 0), ("shard_size", shard_size, 1))
    for what, number, least in least_numbers:
        if number < least:
            raise QueryError(f"{what} is {number}; expected a whole number of at least {least}.")
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to featurise.")
    place = device_for(encoder, device)
    said, autocast = number_type(encoder, precision)
    origin = Origin(
        encoder=name,
        dataset=images.name,
        split=images.split,
        weights_hash=weights_hash(encoder),
        preprocess_hash=preprocess_hash(preprocess),
        images_hash=images.fingerprint,
        representation=representation,
        precision=said,
        code_version=code_version(),
    )
    forward = Forward(
        encoder=encoder,
        name=name,
        decoding=Decoding(images, preprocess),
        device=place,
        autocast=autocast,
        channels_last=channels_last,
        batch_size=batch_size,
        n_workers=n_workers,
        shard_size=shard_size,
        skip_corrupt=skip_corrupt,
        progress=progress or Silent(),
    )
    if folder is None:
        return _in_memory(forward, origin)
    return _in_folder(forward, origin, Path(folder))


def _in_memory(forward: Forward, origin: Origin) -> Features:
    images = forward.images
    x: np.ndarray | None = None  # (n, dim), from the first shard on
    read: list[int] = []
    skipped: list[Skipped] = []

    def keep(part: Computed) -> None:
        nonlocal x
        if x is None and len(part.x):
            x = np.empty((len(images), part.x.shape[1]), np.float32)
        if x is not None:
            _require_one_dim({x.shape[1], part.x.shape[1] if len(part.x) else x.shape[1]}, origin)
            x[len(read) : len(read) + len(part.x)] = part.x if len(part.x) else 0
        read.extend(part.positions)
        skipped.extend(part.skipped)

    with _told(forward, origin, n_done=0):
        compute(forward, range(forward.n_shards), keep)
    if x is None:
        raise _nothing_readable(images, skipped)
    return Features(
        x=x[: len(read)],
        y=np.asarray(images.labels)[read].astype(np.int64, copy=False),
        origin=with_skipped(origin, len(skipped)),
        names=[images.names[position] for position in read],
        classes=images.classes,
        skipped=tuple(skipped),
        contents=None if images.contents is None else images.contents[read],
    )


def _in_folder(forward: Forward, origin: Origin, folder: Path) -> Features:
    try:
        there = read_index(folder)
        if there is None:
            _fill(forward, origin, folder)
        else:
            require_same_origin(folder, there.origin, origin)
            with _told(forward, origin, n_done=len(forward.images)):
                pass
    except OSError as error:
        raise DataError(
            f"The features of {origin.dataset!r} could not be written to {folder} ({error.strerror or error}); "
            "finished shards stay, make room or make it writable and run the same again to go on from them."
        ) from error
    features = load_features(folder)
    require_same_origin(folder, features.origin, origin)
    _require_wanted(forward, features.skipped)
    if features.contents is None:  # computed before anybody looked at what is in the images
        features = replace(features, contents=_contents(forward, features.skipped))
    return features


def _contents(forward: Forward, skipped: Sequence[Skipped]) -> np.ndarray | None:
    """What is in the images of the rows."""
    contents = forward.images.contents
    return None if contents is None else np.delete(contents, [image.position for image in skipped])


def _fill(forward: Forward, origin: Origin, folder: Path) -> None:
    """Computes the shards that a folder lacks, and makes it complete."""
    images = forward.images
    forward = forward.with_shards_of(claim(folder, origin, shard_size=forward.shard_size))
    remove_leftovers(folder)
    shards = finished_shards(folder, origin, n_images=len(images), shard_size=forward.shard_size)
    _require_wanted(forward, [image for shard in shards.values() for image in shard.skipped])
    run = run_hash(origin, shard_size=forward.shard_size)
    labels = np.asarray(images.labels)

    def keep(part: Computed) -> None:
        names = [images.names[position] for position in part.positions]
        listed = write_shard(
            folder, part.x, labels[part.positions], names, run=run, number=part.number, skipped=part.skipped
        )
        shards[part.number] = Finished(listed=listed, dim=part.x.shape[1], skipped=part.skipped)

    missing = [number for number in range(forward.n_shards) if number not in shards]
    with _told(forward, origin, n_done=sum(shard.listed.n_rows + len(shard.skipped) for shard in shards.values())):
        compute(forward, missing, keep)
    write_index(folder, _index(forward, origin, [shards[number] for number in sorted(shards)]))
    published = read_index(folder)  # this one, or that of a process that was faster
    if published is not None:
        tidy(folder, published)


def _index(forward: Forward, origin: Origin, shards: Sequence[Finished]) -> Index:
    skipped = tuple(image for shard in shards for image in shard.skipped)
    dims = {shard.dim for shard in shards if shard.listed.n_rows}
    if not dims:
        raise _nothing_readable(forward.images, skipped)
    _require_one_dim(dims, origin)
    return Index(
        origin=with_skipped(origin, len(skipped)),
        classes=forward.images.classes,
        dim=dims.pop(),
        shard_size=forward.shard_size,
        shards=tuple(shard.listed for shard in shards),
        skipped=skipped,
        contents=encoded(_contents(forward, skipped)),
    )


@contextmanager
def _told(forward: Forward, origin: Origin, *, n_done: int) -> Iterator[None]:
    """Begins and ends what a progress is told."""
    name = f"{origin.encoder}, {origin.dataset} ({origin.split})"
    forward.progress.start(name, len(forward.images), n_done)
    try:
        yield
    finally:
        forward.progress.end()


def _require_wanted(forward: Forward, skipped: Sequence[Skipped]) -> None:
    """Refuses features without some of the images where all were asked for."""
    if skipped and not forward.skip_corrupt:
        raise CorruptImage(skipped[0].image, skipped[0].reason)


def _require_one_dim(dims: set[int], origin: Origin) -> None:
    if len(dims) > 1:
        raise DataError(
            f"The encoder {origin.encoder!r} gives features of {' and of '.join(map(str, sorted(dims)))} dimensions "
            f"for different images of {origin.dataset!r}; expected one number for all."
        )


def _nothing_readable(images: ImageSet, skipped: Sequence[Skipped]) -> DataError:
    return DataError(
        f"None of the {len(images):,} images of {images.name!r} can be read, the first is {skipped[0].image!r}; there "
        "is nothing to featurise."
    )
