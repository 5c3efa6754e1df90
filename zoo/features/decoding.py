"""Decoding: batches of images that are ready for an encoder, made while it computes.

Without worker processes one thread decodes and preprocesses the next batches: Pillow and torch release the interpreter
for nearly all of their work. It takes one core and no more, for a second team of torch's threads would take turns with
that of the forward pass.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

from ..datasets import ImageSet
from ..errors import CorruptImage, DataError
from ..optional import require_extra
from .shards import Skipped

with require_extra("models", needed_for="Computing features"):
    import torch

Preprocess: TypeAlias = Callable[[Any], torch.Tensor]

_N_AHEAD = 2  # decoded batches that wait in memory
_DEATH_NOTICED_S = 0.5  # within which torch notices that a worker was killed


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """Images that are ready for the encoder."""

    positions: list[int]  # in the image set, of the images that could be read
    pixels: torch.Tensor | None  # (b, 3, px, px); None if none could be read
    unreadable: list[Skipped]
    refusal: str = ""  # why none of them is of use

    def pin_memory(self) -> DecodedBatch:
        """The same in memory from which a GPU copies by itself; torch's loader calls it."""
        return self if self.pixels is None else replace(self, pixels=self.pixels.pin_memory())


class DecodingSpec:
    """Image set and preprocessing as a data set of batches; a class so that worker processes can unpickle it."""

    def __init__(self, images: ImageSet, preprocess: Preprocess) -> None:
        self.images = images
        self.preprocess = preprocess

    def __getitem__(self, positions: Sequence[int]) -> DecodedBatch:
        """The batch of images at some positions."""
        tensors: list[torch.Tensor] = []
        read: list[int] = []
        unreadable: list[Skipped] = []
        for position in positions:
            try:
                tensors.append(self.preprocess(self.images[position][0]))
                read.append(position)
            except CorruptImage as error:  # as a value: the others of the batch are wanted
                unreadable.append(Skipped(image=error.image, position=position, reason=str(error)))
            except DataError as error:  # and would make several lines of this one
                return DecodedBatch([], None, [], refusal=str(error))
        for position, tensor in zip(read, tensors, strict=True):
            if tensor.shape != tensors[0].shape:
                names = self.images.names
                refusal = (
                    f"The preprocessing makes {tuple(tensors[0].shape)} of image {names[read[0]]!r} and "
                    f"{tuple(tensor.shape)} of {names[position]!r}; expected one shape for all images, so resize and "
                    "crop them to one size."
                )
                return DecodedBatch([], None, [], refusal=refusal)
        return DecodedBatch(read, torch.stack(tensors) if tensors else None, unreadable)


@contextmanager
def decode_batches(
    decoding: DecodingSpec, batches: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Iterator[Iterator[DecodedBatch]]:
    """The batches of images at these positions, in order, some of them ahead of time.

    ``n_workers`` processes decode; with none, a thread of this process. ``pin``: into memory from which a GPU copies by
    itself.
    """
    if n_workers:
        with closing(_in_processes(decoding, batches, n_workers=n_workers, pin=pin)) as loaded:
            yield loaded
        return
    with ThreadPoolExecutor(1, thread_name_prefix="zoo-decoding") as thread:
        n_threads = torch.get_num_threads()
        thread.submit(torch.set_num_threads, 1).result()  # of that thread; but torch also sets the number
        torch.set_num_threads(n_threads)  # of threads that are started later, which must not change
        waiting: deque[Future[DecodedBatch]] = deque()
        try:
            yield _ahead(thread, waiting, decoding, iter(batches), pin=pin)
        finally:
            for future in waiting:
                future.cancel()


def _in_processes(
    decoding: DecodingSpec, batches: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Generator[DecodedBatch, None, None]:
    """A generator, for the loader ends its processes when nothing refers to it: at the latest when this is closed."""
    loader: torch.utils.data.DataLoader[DecodedBatch] = torch.utils.data.DataLoader(
        decoding,  # type: ignore[arg-type]
        sampler=batches,
        batch_size=None,
        num_workers=n_workers,
        pin_memory=pin,
        generator=torch.Generator(),  # or each run would draw from the user's
    )
    try:
        yield from loader
        return
    except (RuntimeError, OSError, EOFError) as error:  # a dying process may leave no error
        if str(error).startswith("Caught "):  # of a living process, raised by images or preprocessing
            raise
        reason = str(error) or type(error).__name__
        # torch notices a death by a signal, and raises a RuntimeError at any point of the code: wait for it here,
        # before the loader is taken down
        with suppress(RuntimeError):
            time.sleep(_DEATH_NOTICED_S)
    # here nothing refers to the error any more, and through it to the loader and its processes
    raise make_worker_death_error(reason)


def is_death(error: BaseException) -> bool:
    """True of torch's error about a worker process that died, which it raises at any point of the code."""
    return isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker")  # it has no class of its own


def make_worker_death_error(reason: str) -> DataError:
    """The error about a worker process that died."""
    return DataError(
        f"A process that decodes images died ({reason.partition(chr(10))[0].rstrip('. ')}), perhaps for want of memory "
        "or shared memory; finished shards stay, run the same again with fewer workers (n_workers)."
    )


def _ahead(
    thread: ThreadPoolExecutor,
    waiting: deque[Future[DecodedBatch]],
    decoding: DecodingSpec,
    batches: Iterator[Sequence[int]],
    *,
    pin: bool,
) -> Iterator[DecodedBatch]:
    def fetch(positions: Sequence[int]) -> DecodedBatch:
        batch = decoding[positions]
        return batch.pin_memory() if pin else batch

    waiting.extend(thread.submit(fetch, positions) for positions in islice(batches, _N_AHEAD))
    while waiting:
        batch = waiting.popleft().result()
        waiting.extend(thread.submit(fetch, positions) for positions in islice(batches, 1))
        yield batch
