"""The forward pass: an image set through the encoders of a group, shard by shard.

A group has one preprocessing, so that every batch is decoded once. What an encoder gives is the same to the last bit
whether it is alone or in a group, and whichever shards are computed in one go: every shard begins a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from textwrap import shorten
from typing import TypeAlias

from ..datasets import ImageSet
from ..encoders.processor import use_fast_forward
from ..errors import CorruptImage, DataError, QueryError, ZooError, format_count
from ..optional import require_extra
from ..progress import Progress
from ..regression_check import use_full_precision
from .decoding import DecodedBatch, DecodingSpec, decode_batches, is_death, make_worker_death_error
from .origin import TORCH
from .shards import Skipped

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Types of autocast by name."""

COMPILED = "-compiled"
"""Ends the name of a precision whose forward pass torch compiles, which moves features by rounding."""

Encode: TypeAlias = Callable[[torch.Tensor], object]

_LEAST_CONVOLUTIONS = 4  # of a convolutional encoder, not counting 1 x 1 and patches


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturisingOptions:
    """How features are computed; only precision and skipping change them beyond rounding."""

    batch_size: int = 64
    n_workers: int = 0
    device: str | None = None  # a GPU where there is one
    precision: str = "float32"
    skip_corrupt: bool = False
    backend: str = "auto"  # of zoo.features.backends
    n_planned: int | None = None  # images that one backend computes, where it is chosen here; by default those given


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNetwork:
    """An encoder of a group."""

    encoder: torch.nn.Module
    name: str
    precision: str = "float32"  # as number_type names it
    channels_last: bool | None = None  # of its images; by default where it helps
    stays: bool = False  # as it was changed for computing: on its device and in its layout
    program: Encode | None = None  # of another backend, which computes in place of the encoder
    backend: str = TORCH

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
    spans, size = {number: forward.span(number) for number in numbers}, forward.batch_size
    cuts = [(number, span[at : at + size]) for number, span in spans.items() for at in range(0, len(span), size)]
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
        batches = stack.enter_context(
            decode_batches(forward.decoding, [cut for _, cut in cuts], n_workers=forward.n_workers, pin=pin)
        )
        stack.enter_context(torch.inference_mode())
        stack.enter_context(use_full_precision())
        for (number, cut), batch in zip(cuts, batches, strict=True):
            if not fillings:
                fillings.update({network: _ShardBuffer(forward, network, number) for network in running})
            if batch.refusal:
                raise DataError(batch.refusal)
            if batch.unreadable and not forward.skip_corrupt:
                raise CorruptImage(batch.unreadable[0].image, batch.unreadable[0].reason)
            is_last = cut.stop == spans[number].stop
            finished: list[ComputedShard] = []
            for network in list(running):
                with watched(network):
                    fillings[network].take(batch, _output(forward, network, ready[network], batch))
                    if is_last:
                        finished.append(fillings.pop(network).finished())
            for computed in finished:
                keep(computed)
            if not running:
                return
            forward.progress.advance(len(batch.positions) + len(batch.unreadable))


@dataclass(frozen=True, slots=True, eq=False)
class _ReadyNetwork:
    """An encoder on its device, compiled if it shall be."""

    encode: Encode
    layout: torch.memory_format  # of its images
    fast: AbstractContextManager[object]  # of its forward passes


@contextmanager
def _ready(network: GroupNetwork, device: torch.device) -> Iterator[_ReadyNetwork]:
    fast = use_fast_forward(network.encoder, device)
    if network.program is not None:
        yield _ReadyNetwork(network.program, torch.contiguous_format, fast)
        return
    encoder = network.encoder.to(device).eval()
    with use_memory_format(encoder, network.channels_last, stays=network.stays) as layout:
        encode = torch.compile(encoder, dynamic=False) if network.is_compiled else encoder
        yield _ReadyNetwork(encode, layout, fast)


def _output(forward: ForwardSpec, network: GroupNetwork, ready: _ReadyNetwork, batch: DecodedBatch) -> object:
    """What an encoder makes of a batch; None if it has no image."""
    if batch.pixels is None:
        return None
    device, dtype, pin = forward.device, _stored(network.encoder), forward.device.type == "cuda"
    is_shared = len(forward.networks) > 1  # and an encoder may change what it is given
    pixels = batch.pixels.to(device, dtype, non_blocking=pin, copy=is_shared, memory_format=ready.layout)
    autocast = get_autocast_dtype(network.precision)
    casting = torch.autocast(device.type, dtype=autocast, enabled=autocast is not None)
    with casting, ready.fast:
        if not network.is_compiled:
            return ready.encode(pixels)  # (b, dim)
        n = len(pixels)
        full = pixels.new_zeros(forward.batch_size, *pixels.shape[1:]).contiguous(memory_format=ready.layout)
        full[:n] = pixels  # of one shape, for which it was compiled
        try:
            output = ready.encode(full)
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
