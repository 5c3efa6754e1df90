"""From images to batches of an encoder's input, decoded ahead of the forward pass.

Without worker processes one thread decodes and preprocesses the next batches while the encoder computes: Pillow and
torch let go of the interpreter for nearly all of their work. It takes one core and no more, for a second team of
torch's threads would take turns with that of the forward pass.
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
from ..optional import requires_extra
from .shards import Skipped

with requires_extra("models", needed_for="Computing features"):
    import torch

Preprocess: TypeAlias = Callable[[Any], torch.Tensor]

_N_AHEAD = 2  # batches that wait, decoded, in memory
_NOTICING_S = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Images that are ready for the encoder."""

    positions: list[int]  # in the image set, of the images that could be read
    pixels: torch.Tensor | None  # (b, 3, px, px); None if none could be read
    unreadable: list[Skipped]
    refusal: str = ""  # why none of them is of use

    def pin_memory(self) -> Batch:
        """The same where a GPU copies from by itself; torch's loader calls it."""
        return self if self.pixels is None else replace(self, pixels=self.pixels.pin_memory())


class Decoding:
    """Image set and preprocessing as a data set of batches; a class so that worker processes can unpickle it."""

    def __init__(self, images: ImageSet, preprocess: Preprocess) -> None:
        self.images = images
        self.preprocess = preprocess

    def __getitem__(self, positions: Sequence[int]) -> Batch:
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
                return Batch([], None, [], refusal=str(error))
        for position, tensor in zip(read, tensors, strict=True):
            if tensor.shape != tensors[0].shape:
                names = self.images.names
                return Batch(
                    [],
                    None,
                    [],
                    refusal=(
                        f"The preprocessing makes {tuple(tensors[0].shape)} of image {names[read[0]]!r} and "
                        f"{tuple(tensor.shape)} of {names[position]!r}; expected one shape for all images, so resize "
                        "and crop them to one size."
                    ),
                )
        return Batch(read, torch.stack(tensors) if tensors else None, unreadable)


@contextmanager
def decoded(
    decoding: Decoding, batches: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Iterator[Iterator[Batch]]:
    """The batches at these positions, in order, some of them ahead of time.

    Parameters
    ----------
    decoding : Decoding
    batches : sequence of sequence of int
        Positions in the image set.
    n_workers : int
        Processes; with none, a thread of this process.
    pin : bool
        Into memory from which a GPU copies by itself.
    """
    if n_workers:
        with closing(_in_processes(decoding, batches, n_workers=n_workers, pin=pin)) as found:
            yield found
        return
    with ThreadPoolExecutor(1, thread_name_prefix="zoo-decoding") as thread:
        n_threads = torch.get_num_threads()
        thread.submit(torch.set_num_threads, 1).result()  # of that thread; but torch also keeps the number
        torch.set_num_threads(n_threads)  # for threads to come, who shall find what was there
        waiting: deque[Future[Batch]] = deque()
        try:
            yield _ahead(thread, waiting, decoding, iter(batches), pin=pin)
        finally:
            for future in waiting:
                future.cancel()


def _in_processes(
    decoding: Decoding, batches: Sequence[Sequence[int]], *, n_workers: int, pin: bool
) -> Generator[Batch, None, None]:
    """A generator, for the loader ends its processes when nothing refers to it: at the latest when this is closed."""
    loader: torch.utils.data.DataLoader[Batch] = torch.utils.data.DataLoader(
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
    except (RuntimeError, OSError, EOFError) as error:  # what a dying process leaves is not always there to be read
        if str(error).startswith("Caught "):  # that of a living one, raised by images or preprocessing
            raise
        reason = str(error) or type(error).__name__
        # Torch notices a death by a signal, and raises a RuntimeError in the middle of whatever happens then: let that
        # be here, before the loader is taken down.
        with suppress(RuntimeError):
            time.sleep(_NOTICING_S)
    # Here nothing refers to the error any more and, through it, to the loader and its processes.
    raise died(reason)


def died(reason: str) -> DataError:
    """The sentence on a worker process that is no more."""
    return DataError(
        f"A process that decodes images died ({reason.partition(chr(10))[0].rstrip('. ')}), perhaps for want of memory "
        "or shared memory; finished shards stay, run the same again with fewer workers (n_workers)."
    )


def _ahead(
    thread: ThreadPoolExecutor,
    waiting: deque[Future[Batch]],
    decoding: Decoding,
    batches: Iterator[Sequence[int]],
    *,
    pin: bool,
) -> Iterator[Batch]:
    def fetch(positions: Sequence[int]) -> Batch:
        batch = decoding[positions]
        return batch.pin_memory() if pin else batch

    waiting.extend(thread.submit(fetch, positions) for positions in islice(batches, _N_AHEAD))
    while waiting:
        batch = waiting.popleft().result()
        waiting.extend(thread.submit(fetch, positions) for positions in islice(batches, 1))
        yield batch
