"""Decoding: batches of images that are ready for an encoder, made while it computes.

Without worker processes one thread decodes and preprocesses the next batches: Pillow and torch release the interpreter
for nearly all of their work. It takes one core and no more, for a second team of torch's threads would take turns with
that of the forward pass. Where images are decoded carefully, another process does it, so that an image which ends the
process is found and left out.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

from ..datasets import ImageSet
from ..errors import CorruptImage, DataError
from ..optional import requires_extra
from .shards import Skipped

with requires_extra("models", needed_for="Computing features"):
    import torch

Preprocess: TypeAlias = Callable[[Any], torch.Tensor]

_N_AHEAD = 2  # decoded batches that wait in memory
_DEATH_NOTICED_S = 0.5  # within which torch notices that a worker was killed


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Images that are ready for the encoder."""

    positions: list[int]  # in the image set, of the images that could be read
    pixels: torch.Tensor | None  # (b, 3, px, px); None if none could be read
    unreadable: list[Skipped]
    refusal: str = ""  # why none of them is of use

    def pin_memory(self) -> Batch:
        """The same in memory from which a GPU copies by itself; torch's loader calls it."""
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
        return self.batch(read, tensors, unreadable)

    def batch(self, read: list[int], tensors: Sequence[torch.Tensor], unreadable: list[Skipped]) -> Batch:
        """The batch of the tensors of these images, which must have one shape."""
        for position, tensor in zip(read, tensors, strict=True):
            if tensor.shape != tensors[0].shape:
                names = self.images.names
                refusal = (
                    f"The preprocessing makes {tuple(tensors[0].shape)} of image {names[read[0]]!r} and "
                    f"{tuple(tensor.shape)} of {names[position]!r}; expected one shape for all images, so resize and "
                    "crop them to one size."
                )
                return Batch([], None, [], refusal=refusal)
        return Batch(read, torch.stack(list(tensors)) if tensors else None, unreadable)


@contextmanager
def decoded(
    decoding: Decoding, batches: Sequence[Sequence[int]], *, n_workers: int, pin: bool, careful: bool = False
) -> Iterator[Iterator[Batch]]:
    """The batches of images at these positions, in order, some of them ahead of time.

    ``n_workers`` processes decode; with none, a thread of this process. ``pin``: into memory from which a GPU copies by
    itself. ``careful``: an image that ends the process which decodes it is left out, and none is decoded ahead.
    """
    if careful:
        with closing(_carefully(decoding, batches)) as found:
            yield found
        return
    if n_workers:
        with closing(_in_processes(decoding, batches, n_workers=n_workers, pin=pin)) as loaded:
            yield loaded
        return
    with ThreadPoolExecutor(1, thread_name_prefix="zoo-decoding") as thread:
        n_threads = torch.get_num_threads()
        thread.submit(torch.set_num_threads, 1).result()  # of that thread; but torch also sets the number
        torch.set_num_threads(n_threads)  # of threads that are started later, which must not change
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
    except (RuntimeError, OSError, EOFError) as error:  # a dying process may leave no error
        if str(error).startswith("Caught "):  # of a living process, raised by images or preprocessing
            raise
        reason = str(error) or type(error).__name__
        # torch notices a death by a signal, and raises a RuntimeError at any point of the code: wait for it here,
        # before the loader is taken down
        with suppress(RuntimeError):
            time.sleep(_DEATH_NOTICED_S)
    # here nothing refers to the error any more, and through it to the loader and its processes
    raise died(reason)


def is_death(error: BaseException) -> bool:
    """True of torch's error about a worker process that died, which it raises at any point of the code."""
    return isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker")  # it has no class of its own


def died(reason: str) -> DataError:
    """The error about a worker process that died."""
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


def _carefully(decoding: Decoding, batches: Sequence[Sequence[int]]) -> Generator[Batch, None, None]:
    """Batches whose images are decoded one by one in a process that may die of them; then there is another."""
    apart = _Apart(decoding)
    n_fatal = 0
    try:
        for positions in batches:
            read: list[int] = []
            tensors: list[torch.Tensor] = []
            unreadable: list[Skipped] = []
            for position in positions:
                one = apart[position] or apart[position]  # for the process may have died of something else
                if one is None:
                    images, n_fatal = decoding.images, n_fatal + 1
                    why = CorruptImage.of(images.names[position], image_set=images.name, reason=FATAL)
                    unreadable.append(Skipped(image=why.image, position=position, reason=str(why)))
                elif one.refusal:
                    yield one
                    return
                elif one.pixels is None:
                    unreadable += one.unreadable
                else:
                    read.append(position)
                    tensors.append(one.pixels[0])
            yield decoding.batch(read, tensors, unreadable)
        if n_fatal == sum(map(len, batches)) > _FEW:
            raise DataError(
                f"All {n_fatal:,} images of {decoding.images.name!r} from number {batches[0][0]:,} on end the process "
                "that decodes them, as if memory or a library were missing on this machine; look at what it prints."
            )
    finally:
        apart.close()


FATAL = "the process that decodes it ends, or never does"
"""Why an image was left out; the same whatever the end was, for it is part of the shard."""


def is_fatal(image: Skipped) -> bool:
    """True of an image that was left out because no process could decode it."""
    return f"({FATAL})" in image.reason


class _Apart:
    """A process that decodes one image after the other; if one ends it, another begins with the next."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding
        self._running: tuple[BaseProcess, Connection] | None = None

    def __getitem__(self, position: int) -> Batch | None:
        """The batch of one image; None if it ended the process."""
        if self._running is None:
            context: Any = get_context("fork" if sys.platform == "linux" else None)  # another one would import all anew
            here, there = context.Pipe()
            process = context.Process(target=_decode_apart, args=(self._decoding, here, there), daemon=True)
            process.start()
            there.close()
            self._running = process, here
        connection = self._running[1]
        try:
            connection.send_bytes(str(position).encode())
            if connection.poll(_PATIENCE_S):
                batch: Batch = pickle.loads(connection.recv_bytes())
                return batch
        except (EOFError, OSError):
            pass
        self.close()
        return None

    def close(self) -> None:
        """Ends the process."""
        if self._running is None:
            return
        (process, connection), self._running = self._running, None
        connection.close()
        process.kill()  # there is nothing that it would lose
        process.join()
        process.close()


_FEW = 4  # images that may all be fatal
_PATIENCE_S = 300.0  # for one image, whose decoding may never end


def _decode_apart(decoding: Decoding, here: Connection, there: Connection) -> None:
    here.close()  # of a forked process: or this one would not notice the end of the other
    torch.set_num_threads(1)
    with suppress(EOFError, OSError):
        while True:
            position = int(there.recv_bytes())
            there.send_bytes(pickle.dumps(decoding[[position]]))
