"""Work on processes of this machine: a pool of one process for each worker, so that one that dies costs its own piece.

Processes are spawned, as a fork would inherit the threads of libraries in whatever state they are. They begin when
there is work for them, keep the function and whatever it caches from piece to piece, and end with this process,
however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from ..errors import QueryError, StoreError
from .executor import DIED, THREADS, Ended, Failure, PendingWork, Pool, Resources, Worker, try_work

_SPAWN: Any = multiprocessing.get_context("spawn")
_LOOK_S = 0.1  # between two looks at what processes say
_PATIENCE_S = 20.0  # until a process that is to be ended has begun

Listen = Callable[[Any], None]
_LISTEN: ContextVar[Listen | None] = ContextVar("listen", default=None)


def send_message(message: object) -> None:
    """Passes something small on to the ``listen`` of the executor; does nothing if it has none."""
    if (listen := _LISTEN.get()) is not None:
        listen(message)


class Processes(Pool):
    """Does work on processes of this machine, or in this process.

    Parameters
    ----------
    n_processes : int
        That work at once; 0: in this process, one piece after the other. Only then function and work may be what
        cannot be pickled.
    gpus : sequence of str, optional
        What each process sees of the GPUs, as ``CUDA_VISIBLE_DEVICES`` says it; by default all of them.

    Attributes
    ----------
    listen : callable or None
        Called here, while outcomes are waited for, with what the function passes to :func:`send_message`.
    """

    def __init__(self, n_processes: int, *, gpus: Sequence[str] = ()) -> None:
        if isinstance(n_processes, bool) or n_processes < 0 or (gpus and len(gpus) != n_processes):
            raise QueryError(f"Asked for {n_processes} processes with GPUs for {len(gpus)}; expected 0 or more.")
        super().__init__()
        self.listen: Listen | None = None
        self.workers = [
            _Process(number, {"CUDA_VISIBLE_DEVICES": gpus[number]} if gpus else {}) for number in range(n_processes)
        ]
        self._here = Worker()
        self._here.name = format_worker_name()
        if n_processes == 0:
            self.workers = [self._here]
        self._function: Any = None  # pickled, unless it is done here
        self._n_cpus = 1
        self._has_begun = False

    @property
    def n_workers(self) -> int:
        """Pieces that run at once, at most."""
        return len(self.workers)

    def close(self) -> None:
        """Ends the processes; what they are at is lost."""
        for worker in self.workers:
            self._end(worker)

    def _take(self, function: Callable[[Any], Any], resources: Resources) -> None:
        is_here = self._here in self.workers
        self._function, self._n_cpus = function if is_here else _pickled(function), resources.n_cpus

    def _begin(self, worker: Worker, piece: PendingWork) -> None:
        if isinstance(worker, _Process):
            worker.begin(self._function, _pickled(piece.work), self._n_cpus)

    def _ended(self) -> Iterator[Ended]:
        if self._here.piece is not None:
            token = _LISTEN.set(self.listen)
            try:
                with _threads(self._n_cpus):
                    done = try_work(self._function, self._here.piece.work)
            finally:
                _LISTEN.reset(token)
            yield self._here, *done
            return
        running = (worker for worker in self.workers if isinstance(worker, _Process) and worker.piece)
        busy = {worker.future: worker for worker in running if worker.future is not None}
        ended, _ = wait(busy, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        for worker in busy.values():
            for message in worker.messages():
                if self.listen is not None:
                    self.listen(message)
            self._has_begun = self._has_begun or worker.pid > 0
        for future in ended:
            worker = busy[future]
            seconds = monotonic() - worker.began
            try:
                yield worker, *future.result()
            except (BrokenProcessPool, CancelledError):
                if not self._has_begun:
                    raise StoreError(
                        "A process could not begin its work; what it wrote to the terminal says why. A script that "
                        'asks for processes puts its work below if __name__ == "__main__".'
                    ) from None
                text = (
                    f"The process {worker.name} was killed or crashed {seconds:.1f} s after it began, perhaps for want "
                    "of memory."
                )
                worker.end()
                yield worker, None, Failure(kind=DIED, text=text, is_final=False), seconds
            except Exception as error:  # a value that cannot be pickled
                yield worker, None, Failure.of(error), seconds

    def _end(self, worker: Worker) -> None:
        worker.piece = None
        if isinstance(worker, _Process):
            worker.end()


class _Process(Worker):
    """A pool of one process, which is replaced by another when it dies."""

    def __init__(self, number: int, environment: Mapping[str, str]) -> None:
        self.place = number
        self.future: Future[Any] | None = None
        self.pid = 0  # of a process that is there
        self._environment = environment
        self._pool: ProcessPoolExecutor | None = None
        self._heard: Connection | None = None

    def begin(self, function: bytes, work: bytes, n_cpus: int) -> None:
        with _uninterrupted():  # a process that is started meanwhile never gets an interrupt
            if self._pool is None:
                self._heard, theirs = _SPAWN.Pipe(duplex=False)
                self._pool = ProcessPoolExecutor(
                    1, mp_context=_SPAWN, initializer=_start, initargs=(theirs, self._environment)
                )
            self.future = self._pool.submit(_do, function, work, n_cpus)

    def messages(self) -> Iterator[Any]:
        """What the process has told; the first thing is its id."""
        with suppress(EOFError, OSError):
            while self._heard is not None and self._heard.poll():
                said = self._heard.recv()
                if self.pid:
                    yield said
                else:
                    self.pid, self.name = said, format_worker_name(said)

    def end(self) -> None:
        if self._pool is None:
            return
        if not self.pid and self.future is not None and not self.future.done() and self._heard is not None:
            self._heard.poll(_PATIENCE_S)  # until it has told its id
        for _ in self.messages():
            pass
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._heard is not None:
            self._heard.close()
        self._pool, self._heard, self.pid = None, None, 0


def format_worker_name(pid: int | None = None) -> str:
    """Host and process id, by default of this process."""
    return f"{socket.gethostname()}-{os.getpid() if pid is None else pid}"


def _pickled(what: object) -> bytes:
    try:
        return pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise QueryError(
            f"What is to be done cannot go to other processes ({error}); make the functions in it functions of a "
            "module, or ask for one process."
        ) from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Holds an interrupt back until the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _threads(n_cpus: int) -> Iterator[None]:
    """So many threads of PyTorch in this process, if that has been imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(n_cpus)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _start(pipe: Connection, environment: Mapping[str, str]) -> None:
    """What a process does first."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)
    pipe.send(os.getpid())
    _LISTEN.set(pipe.send)


def _do(function: bytes, work: bytes, n_cpus: int) -> tuple[Any, Failure | None, float]:
    """What a process does with a piece of work."""
    os.environ.update(dict.fromkeys(THREADS, str(n_cpus)))  # for what is imported from here on
    with _threads(n_cpus):
        return try_work(lambda pickled: unpickle_function(function)(pickle.loads(pickled)), work)


@lru_cache(maxsize=1)
def unpickle_function(function: bytes) -> Any:
    """The function of the pieces, with whatever it keeps from piece to piece."""
    return pickle.loads(function)


def _end_with_parent() -> None:
    """Ends this process with the one that started it, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
