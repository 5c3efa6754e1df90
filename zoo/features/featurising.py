"""Features of an image set under one encoder, in memory or in a folder, where a run that was killed is gone on with.

One encoder may also give several features at once, each some columns of one wide row, into a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..datasets import ImageSet
from ..encoders.processor import explain_memory_errors
from ..errors import DataError, PlaceError, QueryError
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from ..storage import Location, resolve_place
from .backends import choose_backend
from .computing import (
    ComputedShard,
    FeaturisingOptions,
    ForwardSpec,
    GroupNetwork,
    choose_device,
    compute,
    get_number_type,
)
from .decoding import DecodingSpec, Preprocess
from .filling import (
    FillTarget,
    build_unreadable_error,
    fill,
    find_origin_there,
    find_present,
    finish,
    load_features_of,
    pick_columns,
    plan_shards,
    require_one_dim,
)
from .origin import Origin, format_storage
from .shards import Skipped
from .store import (
    SHARD_SIZE,
    Features,
    FinishedShard,
    claim,
    find_unfinished_run,
    hash_preprocess,
    hash_weights,
    read_index,
)

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

ROUNDS = 3
"""Times that shards which are lost or damaged are computed."""

SHARD_BYTES = 1 << 27
"""Most bytes of a shard of wide rows, of which one is in memory, unless one row has more."""


def featurise(
    encoder: torch.nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    *,
    name: str,
    folder: str | Path | Location | None = None,
    batch_size: int = 64,
    n_workers: int = 0,
    device: str | torch.device | None = None,
    precision: str = "float32",
    channels_last: bool | None = None,
    shard_size: int = SHARD_SIZE,
    representation: str = "card",
    skip_corrupt: bool = False,
    backend: str = "auto",
    n_planned: int | None = None,
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
        Id of the encoder, stored with the features.
    folder : path, str or Place, optional
        Of these features alone; made if it does not exist. Without it everything stays in memory. It may be an address
        that fsspec understands, such as ``s3://bucket/features``.
    batch_size : int
        Images a forward pass; the features do not depend on it beyond rounding.
    n_workers : int
        Processes that decode and preprocess; with none, a thread does while the encoder computes.
    device : str or torch.device, optional
        Where the encoder runs; a GPU where there is one.
    precision : {"float32", "bfloat16", "float16"}
        Of the forward pass: float32 with all its bits (no TF32), or torch's autocast. Stored with the features, which
        are float32 in any case. An encoder whose weights are stored in another type computes in that. With
        ``-compiled`` behind it (``bfloat16-compiled``) torch compiles the encoder, which takes up to minutes first.
    channels_last : bool, optional
        Whether colours lie side by side in memory, which changes rounding and speed alone. By default where it
        helps: in convolutional encoders.
    shard_size : int
        Images per shard, of which one is in memory at a time; in a folder that was begun, that of its shards.
    representation : str
        Which features of the encoder these are, if not those of its card.
    skip_corrupt : bool
        Leave out images that cannot be read, and list them in ``Features.skipped``, instead of ending with the first.
    backend : {"auto", "torch", "openvino"}
        What runs the forward pass: see :mod:`zoo.features.backends`. Features of another backend are PyTorch's up to
        rounding, and are stored as the same; a run that was begun goes on with its own.
    n_planned : int, optional
        Images by whose number ``auto`` chooses, where these are some of those that belong together.
    progress : Progress, optional
        Is called after every batch.

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
    how = FeaturisingOptions(
        batch_size=batch_size,
        n_workers=n_workers,
        device=None if device is None else str(device),
        precision=precision,
        skip_corrupt=skip_corrupt,
    )
    network = GroupNetwork(encoder=encoder, name=name, precision=precision, channels_last=channels_last)
    forward = build_forward(network, preprocess, images, how, shard_size=shard_size, progress=progress)
    origin = build_origin(forward, encoder, representation=representation)
    choose = partial(choose_backend, n_images=n_planned or len(images), weights_hash=origin.weights_hash)
    if folder is None:
        return _in_memory(*_with_backend(forward, origin, choose, backend))
    place = resolve_place(folder)
    if read_index(place) is None:
        begun = find_unfinished_run(place)
        forward, origin = _with_backend(forward, origin, choose, begun.origin.backend if begun else backend)
    return _in_places(forward, [FillTarget(place=place, origin=origin, network=name)])[0]


def _with_backend(
    forward: ForwardSpec, origin: Origin, choose: Callable[..., GroupNetwork], wanted: str
) -> tuple[ForwardSpec, Origin]:
    """A forward pass of one network, and the origin of its features, with the backend that is chosen for it."""
    network = choose(forward.networks[0], forward.decoding, device=forward.device, wanted=wanted.partition(" ")[0])
    return replace(forward, networks=(network,)), replace(origin, backend=network.backend)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureColumns:
    """Features that are some columns of wide rows, or all of them."""

    name: str  # of these features among the parts: by default the id of the encoder with them
    representation: str  # as in Origin
    columns: Sequence[int] | None  # a range is taken without a copy of its numbers
    place: Location | None  # None: in memory
    encoder: str = ""  # its id, where that is not the name


def featurise_parts(
    wide: torch.nn.Module,
    encoder: torch.nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    parts: Sequence[FeatureColumns],
    *,
    how: FeaturisingOptions,
    stored: str = "float32",
    progress: Progress | None = None,
) -> dict[str, Features]:
    """Features of every part by its name, of every image of a set, in its order; all on the disk, or all in memory.

    The places are those that :func:`featurise` would write for the parts by themselves: what one has finished the other
    does not compute again.

    Parameters
    ----------
    wide : torch.nn.Module
        From images float32 (n, 3, px, px) to rows float32 (n, width), of which the parts take columns.
    encoder : torch.nn.Module
        The encoder inside it: its weights are those of the features' origin.
    preprocess, images, progress
        As for :func:`featurise`.
    parts : sequence of FeatureColumns
    how : FeaturisingOptions
    stored : {"float32", "float16"}
        The type of the numbers on the disk.

    Raises
    ------
    CorruptImage, DataError, QueryError
        As :func:`featurise`.
    """
    width = max((_find_end(part.columns) for part in parts if part.columns), default=0)
    network = GroupNetwork(encoder=wide, name=parts[0].encoder or parts[0].name, precision=how.precision)
    forward = build_forward(network, preprocess, images, how, shard_size=compute_shard_size(width), progress=progress)
    origin = build_origin(forward, encoder, representation="")
    origins = [replace(origin, encoder=one.encoder or one.name, representation=one.representation) for one in parts]
    names = [part.name for part in parts]
    if all(part.place is None for part in parts):
        whole = _in_memory(forward, origin)
        x = [whole.x[:] if part.columns is None else pick_columns(whole.x[:], part.columns) for part in parts]
        given = zip(names, x, origins, strict=True)
        return {name: replace(whole, x=own, origin=of_part) for name, own, of_part in given}
    targets = [
        FillTarget(
            place=part.place,
            origin=replace(of_part, precision=format_storage(of_part.precision, stored)),
            network=network.name,
            columns=part.columns,
        )
        for part, of_part in zip(parts, origins, strict=True)
        if part.place is not None
    ]
    return dict(zip(names, _in_places(forward, targets), strict=True))


def _find_end(columns: Sequence[int]) -> int:
    """One more than the last column."""
    return 1 + (max(columns[0], columns[-1]) if isinstance(columns, range) else max(columns))


def compute_shard_size(width: int) -> int:
    """Images per shard of rows that are so wide."""
    fitting = SHARD_SIZE
    while fitting > 1 and 4 * width * fitting > SHARD_BYTES:
        fitting //= 2
    return fitting


def join_features(parts: Mapping[str, Features], names: Sequence[str], *, name: str, representation: str) -> Features:
    """Features of several parts side by side, in memory, as another name of the encoder has them."""
    several = [parts[one] for one in names]
    x = np.concatenate([np.asarray(features.x[:]) for features in several], axis=1)
    origin = replace(several[0].origin, encoder=name, representation=representation)
    return replace(several[0], x=x, origin=origin, folder=None, where="")


def build_forward(
    network: GroupNetwork,
    preprocess: Preprocess,
    images: ImageSet,
    how: FeaturisingOptions,
    *,
    shard_size: int,
    progress: Progress | None,
) -> ForwardSpec:
    """How features are computed under one network."""
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to featurise.")
    device, precision = choose_device(network.encoder, how.device), get_number_type(network.encoder, network.precision)
    return ForwardSpec(
        networks=(replace(network, precision=precision),),
        decoding=DecodingSpec(images, preprocess),
        device=device,
        batch_size=how.batch_size,
        n_workers=how.n_workers,
        shard_size=shard_size,
        skip_corrupt=how.skip_corrupt,
        progress=progress or SilentProgress(),
    )


def build_origin(forward: ForwardSpec, encoder: torch.nn.Module, *, representation: str) -> Origin:
    """The origin of features, whose weights are those of ``encoder``."""
    (network,), hashed = forward.networks, hash_preprocess(forward.decoding.preprocess)
    known = find_origin_there(network.name, forward.images, hashed, representation=representation)
    return replace(known, weights_hash=hash_weights(encoder), precision=network.precision)


def _in_memory(forward: ForwardSpec, origin: Origin) -> Features:
    images = forward.images
    x: np.ndarray | None = None  # (n, dim), from the first shard on
    read: list[int] = []
    skipped: list[Skipped] = []

    def keep(part: ComputedShard) -> None:
        nonlocal x
        if x is None and len(part.x):
            x = np.empty((len(images), part.x.shape[1]), np.float32)
        if x is not None:
            require_one_dim({x.shape[1], part.x.shape[1] if len(part.x) else x.shape[1]}, origin)
            x[len(read) : len(read) + len(part.x)] = part.x if len(part.x) else 0
        read.extend(part.positions)
        skipped.extend(part.skipped)

    with report_progress(forward, origin, n_done=0):
        compute(forward, range(forward.n_shards), keep)
    if x is None:
        raise build_unreadable_error(images, skipped)
    return Features(
        x=x[: len(read)],
        y=np.asarray(images.labels)[read].astype(np.int64, copy=False),
        origin=replace(origin, n_skipped=len(skipped)),
        names=[images.names[position] for position in read],
        classes=images.classes,
        skipped=tuple(skipped),
        contents=None if images.contents is None else images.contents[read],
        groups=None if images.groups is None else images.groups[read],
        tags=images.tags,
        target=images.target,
    )


def _in_places(forward: ForwardSpec, targets: Sequence[FillTarget]) -> list[Features]:
    """Computes what the places of the targets lack, and loads them, in their order."""
    images = forward.images
    try:
        _complete(forward, targets)
    except PlaceError as error:
        raise DataError(
            f"The features of {images.name!r} could not be written to {targets[0].place.shown} ({error.reason}); "
            "finished shards stay, make room or make it writable and run the same again to go on from them."
        ) from error
    return [load_features_of(target.place, images, target.origin) for target in targets]


def _complete(forward: ForwardSpec, targets: Sequence[FillTarget]) -> None:
    """Computes what the places lack, those of one size of shards together."""
    images = forward.images
    written: dict[FillTarget, dict[int, FinishedShard]] = {target: {} for target in targets}

    def is_finished(target: FillTarget) -> bool:
        skip_corrupt, own = forward.skip_corrupt, written[target]
        return finish(target.place, images, target.origin, skip_corrupt=skip_corrupt, written=own)

    def wrote(target: FillTarget, number: int, finished: FinishedShard) -> None:
        written[target][number] = finished

    left = [target for target in targets if not is_finished(target)]
    if not left:
        with report_progress(forward, targets[0].origin, n_done=len(images)):
            return
    for _ in range(ROUNDS):
        there = {}
        for target in left:
            size = claim(target.place, target.origin, shard_size=forward.shard_size)
            there[target] = find_present(target.place, target.origin, shard_size=size)
        for size, lacking in plan_shards(there, len(images), shard_size=forward.shard_size).items():
            sized = replace(forward, shard_size=size)
            n_lacking = sum(len(sized.span(number)) for number in lacking)
            with report_progress(sized, left[0].origin, n_done=len(images) - n_lacking):
                fill(sized, lacking, wrote)
        left = [target for target in left if not is_finished(target)]
        if not left:
            return
    raise DataError(
        f"The features in {left[0].place.shown} lack shards that were computed; run the same again, or name another "
        "place."
    )


@contextmanager
def report_progress(forward: ForwardSpec, origin: Origin, *, n_done: int) -> Iterator[None]:
    """Begins and ends the progress of a run; says so if its batches are too large."""
    name = f"{origin.encoder}, {origin.dataset} ({origin.split})"
    forward.progress.start(name, len(forward.images), n_done)
    try:
        with explain_memory_errors(forward.batch_size, forward.device):
            yield
    finally:
        forward.progress.end()
