"""Computes features: an image set through the encoders of a group, in memory or shard by shard into a folder.

A group has one preprocessing, so that every batch is decoded once. What an encoder gives is the same to the last bit
whether it is alone or in a group, and whichever shards are computed in one go: every shard begins a batch. One encoder
may also give several features at once, each some columns of one wide row, into a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import TypeAlias

from ..datasets import ImageSet
from ..encoders.processor import explain_memory_errors, use_fast_forward
from ..errors import CorruptImage, DataError, PlaceError, QueryError, ZooError, format_count
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from ..regression_check import use_full_precision
from ..storage import Location, resolve_place
from .decoding import DecodedBatch, DecodingSpec, Preprocess, decode_batches, is_death, make_worker_death_error
from .origin import Origin, compute_run_hash, get_code_version
from .shards import Skipped, write_shard
from .store import (
    SHARD_SIZE,
    FeatureIndex,
    Features,
    FinishedShard,
    claim,
    encode_contents,
    find_finished_shards,
    hash_preprocess,
    hash_weights,
    load_features,
    publish,
    read_index,
    require_begun_here,
    require_same_origin,
)

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Types of autocast by name."""

COMPILED = "-compiled"
"""Ends the name of a precision whose forward pass torch compiles, which moves features by rounding."""

_SHARD_BYTES = 1 << 27  # of wide rows, of which one shard is in memory
_LEAST_ROWS = 64  # images a shard
_LEAST_CONVOLUTIONS = 4  # of a convolutional encoder, not counting 1 x 1 and patches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNetwork:
    """An encoder of a group."""

    encoder: torch.nn.Module
    name: str
    precision: str = "float32"  # as number_type names it
    channels_last: bool | None = None  # of its images; by default where it helps
    stays: bool = False  # as it was changed for computing: on its device and in its layout

    @property
    def is_compiled(self) -> bool:
        return self.precision.endswith(COMPILED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardSpec:
    """The encoders of a group, the images for them, and how to compute."""

    networks: tuple[GroupNetwork, ...]  # whose names differ
    decoding: DecodingSpec
    device: torch.device
    batch_size: int
    n_workers: int
    shard_size: int
    skip_corrupt: bool
    progress: Progress

    @property
    def images(self) -> ImageSet:
        return self.decoding.images

    @property
    def n_shards(self) -> int:
        return -(-len(self.images) // self.shard_size)

    def span(self, number: int) -> range:
        """Positions of the images of one shard."""
        return range(number * self.shard_size, min((number + 1) * self.shard_size, len(self.images)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputedShard:
    """The features of one shard of images under one encoder."""

    name: str  # of the encoder
    number: int
    positions: list[int]  # of its rows, in the image set
    x: np.ndarray  # float32 (rows, dim)
    skipped: tuple[Skipped, ...]


def choose_device(encoder: torch.nn.Module, wanted: str | torch.device | None) -> torch.device:
    """Where to compute: as wanted, else where the encoder is if that is a GPU, else on a GPU if there is one."""
    present = {tensor.device for tensor in encoder.state_dict().values()}
    if any(device.type == "meta" for device in present):
        raise QueryError("The encoder is on the device 'meta' and has no weights; load it on another one.")
    if wanted is None:
        best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return next((device for device in present if device.type != "cpu"), torch.device(best))
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise QueryError(
            f"The device {str(wanted)!r} cannot be used here ({_first_sentence(error)}); expected 'cpu', or a GPU that "
            "torch sees."
        ) from error
    if device.type == "meta":
        raise QueryError("Nothing can be computed on the device 'meta'; name 'cpu' or a GPU.")
    return device


def _first_sentence(error: Exception) -> str:
    return shorten(str(error).partition("\n")[0].partition(". ")[0], 120, placeholder="").rstrip(" ,.:")


def get_number_type(encoder: torch.nn.Module, precision: str) -> str:
    """What the forward pass computes in, by name.

    An encoder whose weights are stored in half precision computes in that alone.
    """
    plain = precision.removesuffix(COMPILED)
    if plain not in PRECISIONS:
        raise QueryError(
            f"The precision {precision!r} is not known; expected one of {', '.join(PRECISIONS)}, and {COMPILED!r} "
            "behind it where torch shall compile the encoder."
        )
    stored = str(_stored(encoder)).removeprefix("torch.")
    if stored == "float32":
        return precision
    if plain != "float32":
        raise QueryError(
            f"The weights of the encoder are stored in {stored}, so that it cannot compute in {plain}; leave out "
            "the precision, or convert the weights with encoder.float()."
        )
    return f"{stored} weights{precision.removeprefix(plain)}"


def get_autocast_dtype(precision: str) -> torch.dtype | None:
    """The type of autocast of a precision as number_type names it; None without autocast."""
    return PRECISIONS.get(precision.removesuffix(COMPILED))


def compute(
    forward: ForwardSpec,
    numbers: Iterable[int],
    keep: Callable[[ComputedShard], None],
    *,
    failed: Callable[[str, Exception], None] | None = None,
) -> None:
    """Computes some shards, in order, and gives each to ``keep`` as soon as it is finished, one for every encoder.

    If an encoder fails, ``failed`` is called with its name and the error, and the others go on; without ``failed`` the
    error is raised.
    """
    steps = [(number, start) for number in numbers for start in forward.span(number)[:: forward.batch_size]]
    cuts = [range(start, min(start + forward.batch_size, forward.span(number).stop)) for number, start in steps]
    pin = forward.device.type == "cuda"
    running = dict.fromkeys(forward.networks)  # in order, without those that failed
    fillings: dict[GroupNetwork, _ShardBuffer] = {}

    @contextmanager
    def watched(network: GroupNetwork) -> Iterator[None]:
        try:
            yield
        except (ZooError, RuntimeError, MemoryError) as error:
            if failed is None or is_death(error):
                raise
            del running[network]
            fillings.pop(network, None)
            failed(network.name, error.with_traceback(None))  # which would keep tensors alive

    with _deaths_told(), ExitStack() as stack:
        ready = {network: stack.enter_context(_ready(network, forward.device)) for network in forward.networks}
        batches = stack.enter_context(decode_batches(forward.decoding, cuts, n_workers=forward.n_workers, pin=pin))
        stack.enter_context(torch.inference_mode())
        stack.enter_context(use_full_precision())
        stack.enter_context(use_fast_forward(forward.device))
        for (number, start), batch in zip(steps, batches, strict=True):
            if not fillings:
                fillings.update({network: _ShardBuffer(forward, network, number) for network in running})
            if batch.refusal:
                raise DataError(batch.refusal)
            if batch.unreadable and not forward.skip_corrupt:
                raise CorruptImage(batch.unreadable[0].image, batch.unreadable[0].reason)
            is_last = start + forward.batch_size >= forward.span(number).stop
            finished: list[ComputedShard] = []
            for network in list(running):
                with watched(network):
                    fillings[network].take(batch, _output(forward, network, *ready[network], batch))
                    if is_last:
                        finished.append(fillings.pop(network).finished())
            for computed in finished:
                keep(computed)
            if not running:
                return
            forward.progress.advance(len(batch.positions) + len(batch.unreadable))


Encode: TypeAlias = Callable[[torch.Tensor], object]


@contextmanager
def _ready(network: GroupNetwork, device: torch.device) -> Iterator[tuple[Encode, torch.memory_format]]:
    """The encoder on its device, compiled if it shall be, and the memory layout of its images."""
    encoder = network.encoder.to(device).eval()
    with use_memory_format(encoder, network.channels_last, stays=network.stays) as layout:
        yield torch.compile(encoder, dynamic=False) if network.is_compiled else encoder, layout


def _output(
    forward: ForwardSpec, network: GroupNetwork, encode: Encode, layout: torch.memory_format, batch: DecodedBatch
) -> object:
    """What an encoder makes of a batch; None if it has no image."""
    if batch.pixels is None:
        return None
    device, dtype, pin = forward.device, _stored(network.encoder), forward.device.type == "cuda"
    is_shared = len(forward.networks) > 1  # and an encoder may change what it is given
    pixels = batch.pixels.to(device, dtype, non_blocking=pin, copy=is_shared, memory_format=layout)
    autocast = get_autocast_dtype(network.precision)
    with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
        if not network.is_compiled:
            return encode(pixels)  # (b, dim)
        n = len(pixels)
        full = pixels.new_zeros(forward.batch_size, *pixels.shape[1:]).contiguous(memory_format=layout)
        full[:n] = pixels  # of one shape, for which it was compiled
        try:
            output = encode(full)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            raise QueryError(
                f"torch cannot compile {network.name!r} here ({_first_sentence(error.inner_exception)}); leave out "
                f"--compile ({COMPILED!r} of the precision), or install the compiler that it asks for."
            ) from error
        return output[:n] if isinstance(output, torch.Tensor) else output


@contextmanager
def _deaths_told() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not is_death(error):
            raise
        raise make_worker_death_error(str(error)) from error


class _ShardBuffer:
    """One shard of an encoder while its batches come in.

    On a GPU the features of a batch are fetched after the next one was submitted, so that the GPU need not wait.
    """

    def __init__(self, forward: ForwardSpec, network: GroupNetwork, number: int) -> None:
        self._forward, self._network, self._number = forward, network, number
        self._positions: list[int] = []
        self._skipped: list[Skipped] = []
        self._x: np.ndarray | None = None  # (rows, dim), from the first batch on
        self._waiting: tuple[list[int], torch.Tensor] | None = None

    def take(self, batch: DecodedBatch, output: object) -> None:
        """Takes the output of the encoder for a batch; None if it had no image."""
        self._skipped += batch.unreadable
        self._fetch()
        if batch.positions:
            self._waiting = batch.positions, self._checked(output, len(batch.positions))
            if self._forward.device.type == "cpu":
                self._fetch()

    def finished(self) -> ComputedShard:
        self._fetch()
        x = np.empty((0, 0), np.float32) if self._x is None else self._x[: len(self._positions)]
        return ComputedShard(
            name=self._network.name,
            number=self._number,
            positions=self._positions,
            x=x,
            skipped=tuple(self._skipped),
        )

    def _checked(self, output: object, n_images: int) -> torch.Tensor:
        dim = None if self._x is None else self._x.shape[1]
        got = type(output).__name__
        if isinstance(output, torch.Tensor):
            right = output.is_floating_point() and output.ndim == 2 and len(output) == n_images
            if right and output.shape[1] == (dim or output.shape[1]) > 0:
                return output
            got = f"{output.dtype} {tuple(output.shape)}"
        raise DataError(
            f"The encoder {self._network.name!r} gives {got} for {format_count(n_images, 'image')}; expected "
            "floating-point "
            f"numbers of shape ({n_images}, {dim or 'dim'}), one vector an image."
        )

    def _fetch(self) -> None:
        if self._waiting is None:
            return
        (positions, output), self._waiting = self._waiting, None
        rows = output.float().cpu().numpy()  # (b, dim)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            self._refuse(positions, finite)
        if self._x is None:
            self._x = np.empty((len(self._forward.span(self._number)), rows.shape[1]), np.float32)
        done = len(self._positions)
        self._x[done : done + len(rows)] = rows
        self._positions += positions

    def _refuse(self, positions: list[int], finite: np.ndarray) -> None:
        images, n_broken = self._forward.images, int((~finite).sum())
        first = positions[int(np.argmin(finite))]
        others = f", and {n_broken - 1} more of its batch," if n_broken > 1 else ""
        raise DataError(
            f"The image {images.names[first]!r} of {images.name!r} (number {first}){others} has features that are not "
            f"finite under {self._network.name!r}; check the image, the weights and the precision."
        )


@contextmanager
def use_memory_format(
    encoder: torch.nn.Module, channels_last: bool | None, *, stays: bool = False
) -> Iterator[torch.memory_format]:
    """The encoder with the memory layout that its images will have; it is restored at the end, unless it stays."""
    if channels_last is None:
        channels_last = is_convolutional(encoder)
    if not channels_last:
        yield torch.contiguous_format
        return
    encoder.to(memory_format=torch.channels_last)
    try:
        yield torch.channels_last
    finally:
        if not stays:
            encoder.to(memory_format=torch.contiguous_format)


def is_convolutional(encoder: torch.nn.Module) -> bool:
    """True for a ResNet; false for a transformer, whose one convolution cuts the image into patches."""
    convolutions = [module for module in encoder.modules() if isinstance(module, torch.nn.Conv2d)]
    spatial = [module for module in convolutions if module.kernel_size not in (module.stride, (1, 1))]
    return len(spatial) >= _LEAST_CONVOLUTIONS


def _stored(encoder: torch.nn.Module) -> torch.dtype:
    floating = (parameter.dtype for parameter in encoder.parameters() if parameter.is_floating_point())
    return next(floating, torch.float32)


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
        Whether colours lie beside each other in memory, which changes rounding and speed alone. By default where it
        helps: in convolutional encoders.
    shard_size : int
        Images a shard, of which one is in memory at a time; in a folder that was begun, that of its shards.
    representation : str
        Which features of the encoder these are, if not those of its card.
    skip_corrupt : bool
        Leave out images that cannot be read, and list them in ``Features.skipped``, instead of ending with the first.
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
    forward, origin = _begun(
        encoder,
        encoder,
        preprocess,
        images,
        name=name,
        representation=representation,
        batch_size=batch_size,
        n_workers=n_workers,
        device=device,
        precision=precision,
        channels_last=channels_last,
        shard_size=shard_size,
        skip_corrupt=skip_corrupt,
        progress=progress,
    )
    if folder is None:
        return _in_memory(forward, origin)
    part = FeatureColumns(name=name, representation=representation, columns=None, place=resolve_place(folder))
    return _of_parts(forward, [(part, origin)])[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureColumns:
    """Features that are some columns of wide rows, or all of them."""

    name: str  # id of the encoder with these features
    representation: str  # as in Origin
    columns: Sequence[int] | None
    place: Location


def featurise_parts(
    wide: torch.nn.Module,
    encoder: torch.nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    parts: Sequence[FeatureColumns],
    *,
    batch_size: int = 64,
    n_workers: int = 0,
    device: str | None = None,
    precision: str = "float32",
    skip_corrupt: bool = False,
    progress: Progress | None = None,
) -> dict[str, Features]:
    """Features of every part by its name, of every image of a set, in its order; all stay on the disk.

    The places are those that :func:`featurise` would write for the parts by themselves: what one has finished the other
    does not compute again.

    Parameters
    ----------
    wide : torch.nn.Module
        From images float32 (n, 3, px, px) to rows float32 (n, width), of which the parts take columns.
    encoder : torch.nn.Module
        The encoder inside it: its weights are those of the features' origin.
    preprocess, images, batch_size, n_workers, device, precision, skip_corrupt, progress
        As for :func:`featurise`.
    parts : sequence of Part

    Raises
    ------
    CorruptImage, DataError, QueryError
        As :func:`featurise`.
    """
    width = max(column for part in parts for column in part.columns or ()) + 1
    forward, origin = _begun(
        wide,
        encoder,
        preprocess,
        images,
        name=parts[0].name,
        representation="",
        batch_size=batch_size,
        n_workers=n_workers,
        device=device,
        precision=precision,
        channels_last=None,
        shard_size=compute_shard_size(width),
        skip_corrupt=skip_corrupt,
        progress=progress,
    )
    return _of_parts(
        forward,
        [(part, replace(origin, encoder=part.name, representation=part.representation)) for part in parts],
    )


def compute_shard_size(width: int) -> int:
    """Images a shard of rows that are so wide."""
    fitting = SHARD_SIZE
    while fitting > _LEAST_ROWS and 4 * width * fitting > _SHARD_BYTES:
        fitting //= 2
    return fitting


def join_features(parts: Mapping[str, Features], names: Sequence[str], *, name: str, representation: str) -> Features:
    """Features of several parts beside each other, in memory, as another name of the encoder has them."""
    several = [parts[one] for one in names]
    x = np.concatenate([np.asarray(features.x[:]) for features in several], axis=1)
    origin = replace(several[0].origin, encoder=name, representation=representation)
    return replace(several[0], x=x, origin=origin, folder=None, where="")


def _begun(
    network: torch.nn.Module,
    encoder: torch.nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    *,
    name: str,
    representation: str,
    batch_size: int,
    n_workers: int,
    device: str | torch.device | None,
    precision: str,
    channels_last: bool | None,
    shard_size: int,
    skip_corrupt: bool,
    progress: Progress | None,
) -> tuple[ForwardSpec, Origin]:
    """How features are computed, and their origin, whose weights are those of ``encoder``."""
    if not len(images):
        raise DataError(f"The image set {images.name!r} holds no image; there is nothing to featurise.")
    where = choose_device(network, device)
    precision = get_number_type(network, precision)
    origin = Origin(
        encoder=name,
        dataset=images.name,
        split=images.split,
        weights_hash=hash_weights(encoder),
        preprocess_hash=hash_preprocess(preprocess),
        images_hash=images.fingerprint,
        representation=representation,
        precision=precision,
        code_version=get_code_version(),
    )
    forward = ForwardSpec(
        networks=(GroupNetwork(encoder=network, name=name, precision=precision, channels_last=channels_last),),
        decoding=DecodingSpec(images, preprocess),
        device=where,
        batch_size=batch_size,
        n_workers=n_workers,
        shard_size=shard_size,
        skip_corrupt=skip_corrupt,
        progress=progress or SilentProgress(),
    )
    return forward, origin


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
            _require_one_dim({x.shape[1], part.x.shape[1] if len(part.x) else x.shape[1]}, origin)
            x[len(read) : len(read) + len(part.x)] = part.x if len(part.x) else 0
        read.extend(part.positions)
        skipped.extend(part.skipped)

    with report_progress(forward, origin, n_done=0):
        compute(forward, range(forward.n_shards), keep)
    if x is None:
        raise _nothing_readable(images, skipped)
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


def _of_parts(forward: ForwardSpec, parts: Sequence[tuple[FeatureColumns, Origin]]) -> dict[str, Features]:
    """Computes what the places of the parts lack, and loads them."""
    images = forward.images
    try:
        _complete(forward, parts)
    except PlaceError as error:
        raise DataError(
            f"The features of {images.name!r} could not be written to {parts[0][0].place.shown} ({error.reason}); "
            "finished shards stay, make room or make it writable and run the same again to go on from them."
        ) from error
    found = {}
    for part, origin in parts:
        features = load_features(part.place)
        require_same_origin(part.place, features.origin, origin)
        require_wanted(forward, features.skipped)
        contents = (
            features.contents if images.contents is None else select_row_hashes(images.contents, features.skipped)
        )
        groups = select_row_hashes(images.groups, features.skipped)  # those of the images asked for, whatever is stored
        found[part.name] = replace(features, contents=contents, groups=groups, tags=images.tags, target=images.target)
    return found


def select_row_hashes(hashes: np.ndarray | None, skipped: Sequence[Skipped]) -> np.ndarray | None:
    """Hashes of the images of the rows, from those of all images."""
    return None if hashes is None else np.delete(hashes, [image.position for image in skipped])


@dataclass(frozen=True, slots=True, kw_only=True)
class _IncompleteFeatures:
    """A place that is not complete."""

    part: FeatureColumns
    origin: Origin
    shards: dict[int, FinishedShard]


def _complete(forward: ForwardSpec, parts: Sequence[tuple[FeatureColumns, Origin]]) -> None:
    """Computes what the places lack, those of one size of shards together."""
    images = forward.images
    by_size: dict[int, list[_IncompleteFeatures]] = {}
    for part, origin in parts:
        index = read_index(part.place)
        if index is not None:
            require_same_origin(part.place, index.origin, origin)
            continue
        require_begun_here(part.place)
        size = claim(part.place, origin, shard_size=forward.shard_size)
        shards = find_finished_shards(part.place, origin, n_images=len(images), shard_size=size)
        require_wanted(forward, [image for shard in shards.values() for image in shard.skipped])
        by_size.setdefault(size, []).append(_IncompleteFeatures(part=part, origin=origin, shards=shards))
    for size, some in by_size.items():
        _fill(replace(forward, shard_size=size), some)
    if not by_size:
        with report_progress(forward, parts[0][1], n_done=len(images)):
            pass


def _fill(forward: ForwardSpec, some: Sequence[_IncompleteFeatures]) -> None:
    """Computes the shards that places lack, and makes them complete."""
    images, labels = forward.images, np.asarray(forward.images.labels)

    def keep(computed: ComputedShard) -> None:
        names = [images.names[position] for position in computed.positions]
        for one in some:
            if computed.number in one.shards:
                continue
            x, columns = computed.x, one.part.columns
            if len(x) and columns is not None:
                x = x[:, list(columns)]
            run = compute_run_hash(one.origin, shard_size=forward.shard_size)
            listed = write_shard(
                one.part.place,
                x,
                labels[computed.positions],
                names,
                run=run,
                number=computed.number,
                skipped=computed.skipped,
            )
            one.shards[computed.number] = FinishedShard(listed=listed, dim=x.shape[1], skipped=computed.skipped)

    missing = [number for number in range(forward.n_shards) if any(number not in one.shards for one in some)]
    n_missing = sum(len(forward.span(number)) for number in missing)
    with report_progress(forward, some[0].origin, n_done=len(images) - n_missing):
        compute(forward, missing, keep)
    for one in some:
        finished = [one.shards[number] for number in sorted(one.shards)]
        publish(one.part.place, build_index(images, one.origin, finished, shard_size=forward.shard_size))


def build_index(images: ImageSet, origin: Origin, shards: Sequence[FinishedShard], *, shard_size: int) -> FeatureIndex:
    """The index of all shards of an image set, in their order; DataError if none of the images could be read."""
    skipped = tuple(image for shard in shards for image in shard.skipped)
    dims = {shard.dim for shard in shards if shard.listed.n_rows}
    if not dims:
        raise _nothing_readable(images, skipped)
    _require_one_dim(dims, origin)
    return FeatureIndex(
        origin=replace(origin, n_skipped=len(skipped)),
        classes=images.classes,
        dim=dims.pop(),
        shard_size=shard_size,
        shards=tuple(shard.listed for shard in shards),
        skipped=skipped,
        contents=encode_contents(select_row_hashes(images.contents, skipped)),
        groups=encode_contents(select_row_hashes(images.groups, skipped)),
        tags=images.tags,
        target=images.target,
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


def require_wanted(forward: ForwardSpec, skipped: Sequence[Skipped]) -> None:
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
