"""The forward passes: batches of decoded images in, shards of checked features out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from textwrap import shorten

from ..datasets import ImageSet
from ..drift import full_precision
from ..errors import CorruptImage, DataError, QueryError
from ..optional import requires_extra
from .decoding import Batch, Decoding, decoded, died
from .progress import Progress
from .shards import Skipped

with requires_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""What autocast computes in, by name."""

_CONVOLUTIONS = 4  # from so many that look around themselves, an encoder is called convolutional


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forward:
    """An encoder, the images for it, and how to compute."""

    encoder: torch.nn.Module
    name: str
    decoding: Decoding
    device: torch.device
    autocast: torch.dtype | None
    channels_last: bool | None
    batch_size: int
    n_workers: int
    shard_size: int
    skip_corrupt: bool
    progress: Progress

    @property
    def images(self) -> ImageSet:
        """The image set."""
        return self.decoding.images

    @property
    def n_shards(self) -> int:
        """Shards that the image set takes."""
        return -(-len(self.images) // self.shard_size)

    def with_shards_of(self, shard_size: int) -> Forward:
        """The same with shards of another size."""
        return replace(self, shard_size=shard_size)

    def span(self, number: int) -> range:
        """Positions of the images of one shard."""
        return range(number * self.shard_size, min((number + 1) * self.shard_size, len(self.images)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computed:
    """The features of one shard of images."""

    number: int
    positions: list[int]  # of its rows, in the image set
    x: np.ndarray  # float32 (rows, dim)
    skipped: tuple[Skipped, ...]


def device_for(encoder: torch.nn.Module, wanted: str | torch.device | None) -> torch.device:
    """Where to compute: as wanted, else where the encoder is if that is a GPU, else on a GPU if there is one.

    Raises
    ------
    QueryError
        If there is no such device.
    """
    found = {tensor.device for tensor in encoder.state_dict().values()}
    if any(device.type == "meta" for device in found):
        raise QueryError("The encoder is on the device 'meta' and has no weights; load it on another one.")
    if wanted is None:
        own = next((device for device in found if device.type != "cpu"), None)
        other = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return own or torch.device(other)
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        said = str(error).partition("\n")[0].partition(". ")[0]  # the first of torch's sentences
        reason = shorten(said, 120, placeholder="").rstrip(" ,.:")
        raise QueryError(
            f"The device {str(wanted)!r} cannot be used here ({reason}); expected 'cpu', or a GPU that torch sees."
        ) from error
    if device.type == "meta":
        raise QueryError("Nothing can be computed on the device 'meta'; name 'cpu' or a GPU.")
    return device


def number_type(encoder: torch.nn.Module, precision: str) -> tuple[str, torch.dtype | None]:
    """What the forward pass computes in, in words, and for autocast; None without autocast.

    Raises
    ------
    QueryError
        If there is no such precision, or the weights are stored in half precision and another one is asked for.
    """
    if precision not in PRECISIONS:
        raise QueryError(f"The precision {precision!r} is not known; expected one of {', '.join(PRECISIONS)}.")
    stored = str(_stored(encoder)).removeprefix("torch.")
    if stored == "float32":
        return precision, PRECISIONS[precision]
    if precision != "float32":
        raise QueryError(
            f"The weights of the encoder are stored in {stored}, so that it cannot compute in {precision}; leave out "
            "the precision, or convert the weights with encoder.float()."
        )
    return f"{stored} weights", None


def compute(forward: Forward, numbers: Iterable[int], keep: Callable[[Computed], None]) -> None:
    """Computes some shards, in order, and hands each to ``keep`` as soon as it is finished.

    Raises
    ------
    CorruptImage, DataError, QueryError
        As :func:`zoo.features.featurise` says.
    """
    steps = [(number, start) for number in numbers for start in forward.span(number)[:: forward.batch_size]]
    cuts = [range(start, min(start + forward.batch_size, forward.span(number).stop)) for number, start in steps]
    pin = forward.device.type == "cuda"
    encoder = forward.encoder.to(forward.device).eval()
    stored = _stored(encoder)
    try:
        with (
            in_layout(encoder, forward.channels_last) as layout,
            decoded(forward.decoding, cuts, n_workers=forward.n_workers, pin=pin) as batches,
            torch.inference_mode(),
            torch.autocast(forward.device.type, dtype=forward.autocast, enabled=forward.autocast is not None),
            full_precision(),
        ):
            filling: _Filling | None = None
            for (number, start), batch in zip(steps, batches, strict=True):
                if filling is None:
                    filling = _Filling(forward, number)
                filling.require_readable(batch)
                output = None
                if batch.pixels is not None:
                    pixels = batch.pixels.to(forward.device, stored, non_blocking=pin, memory_format=layout)
                    output = encoder(pixels)  # (b, dim)
                filling.take(batch, output)
                if start + forward.batch_size >= forward.span(number).stop:
                    keep(filling.finished())
                    filling = None
                forward.progress.advance(len(batch.positions) + len(batch.unreadable))
    except torch.OutOfMemoryError as error:
        raise QueryError(
            f"{forward.batch_size} images at once do not fit into the memory of {str(forward.device)!r}; ask for a "
            "smaller batch_size, finished shards stay."
        ) from error
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):  # torch has no class of its own for this
            raise
        raise died(str(error)) from error


class _Filling:
    """One shard while its batches come in.

    On a GPU the features of a batch are fetched when the next one has been sent off, so that the GPU need not wait.
    """

    def __init__(self, forward: Forward, number: int) -> None:
        self._forward, self._number = forward, number
        self._positions: list[int] = []
        self._skipped: list[Skipped] = []
        self._x: np.ndarray | None = None  # (rows, dim), from the first batch on
        self._waiting: tuple[list[int], torch.Tensor] | None = None

    def require_readable(self, batch: Batch) -> None:
        """Refuses a batch with a damaged image, unless such are skipped."""
        if batch.refusal:
            raise DataError(batch.refusal)
        if batch.unreadable and not self._forward.skip_corrupt:
            first = batch.unreadable[0]
            raise CorruptImage(first.image, first.reason)

    def take(self, batch: Batch, output: object) -> None:
        """Takes what the encoder made of a batch; None if it had no image."""
        self._skipped += batch.unreadable
        self._fetch()
        if batch.positions:
            self._waiting = batch.positions, self._checked(output, len(batch.positions))
            if self._forward.device.type == "cpu":
                self._fetch()

    def finished(self) -> Computed:
        """The whole shard."""
        self._fetch()
        x = np.empty((0, 0), np.float32) if self._x is None else self._x[: len(self._positions)]
        return Computed(number=self._number, positions=self._positions, x=x, skipped=tuple(self._skipped))

    def _checked(self, output: object, n_images: int) -> torch.Tensor:
        dim = None if self._x is None else self._x.shape[1]
        got = type(output).__name__
        if isinstance(output, torch.Tensor):
            right = output.is_floating_point() and output.ndim == 2 and len(output) == n_images
            if right and output.shape[1] == (dim or output.shape[1]) > 0:
                return output
            got = f"{output.dtype} {tuple(output.shape)}"
        raise DataError(
            f"The encoder {self._forward.name!r} gives {got} for {n_images} images; expected floating-point numbers of "
            f"shape ({n_images}, {dim or 'dim'}), one vector an image."
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
            f"finite under {self._forward.name!r}; check the image, the weights and the precision."
        )


@contextmanager
def in_layout(encoder: torch.nn.Module, channels_last: bool | None) -> Iterator[torch.memory_format]:
    """The encoder with its weights as its images will be, and as they were at the end."""
    if channels_last is None:
        channels_last = is_convolutional(encoder)
    if not channels_last:
        yield torch.contiguous_format
        return
    encoder.to(memory_format=torch.channels_last)
    try:
        yield torch.channels_last
    finally:
        encoder.to(memory_format=torch.contiguous_format)


def is_convolutional(encoder: torch.nn.Module) -> bool:
    """True for a ResNet; false for a transformer, whose one convolution cuts the image into patches."""
    convolutions = [module for module in encoder.modules() if isinstance(module, torch.nn.Conv2d)]
    return sum(module.kernel_size != module.stride and module.kernel_size != (1, 1) for module in convolutions) >= (
        _CONVOLUTIONS
    )


def _stored(encoder: torch.nn.Module) -> torch.dtype:
    floating = (parameter.dtype for parameter in encoder.parameters() if parameter.is_floating_point())
    return next(floating, torch.float32)
