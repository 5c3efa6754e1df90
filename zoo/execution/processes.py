"""Work on processes of this machine, each with a pipe of its own, so that one that dies costs its own piece.

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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from time import monotonic
from typing import Any

from ..errors import QueryError, StoreError
from .executor import DIED, THREADS, Ended, Failure, PendingWork, Pool, Resources, Worker, try_work

_SPAWN: Any = multiprocessing.get_context("spawn")
_LOOK_S = 0.1  # between two looks at what processes say
_READY, _TOLD, _DONE = "ready", "told", "done"  # kinds of what processes say

Listen = Callable[[Any], None]
_LISTEN: ContextVar[Listen | None] = ContextVar("listen", default=None)


def send_message(message: object) -> None:
    """Passes something small on to the ``listen`` of the executor; does nothing if it has none."""
    if (listen := _LISTEN.get()) is not None:
        listen(message)


class Processes(Pool):
    """Does work on processes of this machine, or in this process.

    With ``n_processes`` of 0 it is done in this process, one piece after the other; only then function and work may be
    what cannot be pickled. ``gpus`` are what each process sees of the GPUs, as ``CUDA_VISIBLE_DEVICES`` says it; by
    default all of them. ``listen`` is called here, while outcomes are waited for, with what the function passes to
    :func:`send_message`.
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
            worker.begin((self._function, _pickled(piece.work), self._n_cpus))

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
        busy = {one.pipe: one for one in self.workers if isinstance(one, _Process) and one.piece and one.pipe}
        for pipe in wait(list(busy), timeout=_LOOK_S):
            worker = busy[pipe]
            try:
                kind, said = worker.heard()
            except (EOFError, OSError):
                yield worker, None, self._death(worker), monotonic() - worker.began
                continue
            self._has_begun = True
            if kind == _TOLD and self.listen is not None:
                self.listen(said)
            if kind == _DONE:
                yield worker, *pickle.loads(said)

    def _death(self, worker: _Process) -> Failure:
        seconds = monotonic() - worker.began
        worker.end()
        if not self._has_begun:
            raise StoreError(
                "A process could not begin its work; what it wrote to the terminal says why. A script that "
                'asks for processes puts its work below if __name__ == "__main__".'
            )
        text = f"The process {worker.name} was killed or crashed {seconds:.1f} s after it began, perhaps for want of "
        return Failure(kind=DIED, text=f"{text}memory.", is_final=False)

    def _end(self, worker: Worker) -> None:
        worker.piece = None
        if isinstance(worker, _Process):
            worker.end()


class _Process(Worker):
    """A process, which is replaced by another when it dies."""

    def __init__(self, number: int, environment: Mapping[str, str]) -> None:
        self.place = number
        self.pipe: Any = None  # to a process that is there
        self._environment = environment
        self._process: Any = None
        self._job: Any = None  # of a process that is not ready yet

    def begin(self, job: tuple[bytes, bytes, int]) -> None:
        """Gives it function, work and threads: at once, or when it is ready."""
        if self._process is not None and not self._process.is_alive():
            self.end()
        if self._process is not None:
            with suppress(OSError):  # of one that has died, which is found when it is listened to
                self.pipe.send(job)
            return
        self._job = job
        with _uninterrupted():  # a process that is started meanwhile never gets an interrupt
            self.pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_serve, args=(theirs, self._environment))
            self._process.start()
        theirs.close()  # so that the end of the process is that of the pipe
        self.name = format_worker_name(self._process.pid)
        self._ending = Finalize(None, self._process.kill, exitpriority=1)  # before this process waits for it

    def heard(self) -> tuple[str, Any]:
        """What it says next; EOFError or OSError if it has died."""
        kind, said = self.pipe.recv()
        if kind == _READY:
            self.pipe.send(self._job)
        return kind, said

    def end(self) -> None:
        """Kills it, if it is there."""
        if self._process is None:
            return
        self._ending()
        self._process.join()
        self._process.close()
        self.pipe.close()
        self._process = self.pipe = None


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


def _serve(pipe: Connection, environment: Mapping[str, str]) -> None:
    """What a process does: one piece of work after the other."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)
    _LISTEN.set(lambda message: pipe.send((_TOLD, message)))
    with suppress(EOFError, ConnectionError):  # of a process that has ended
        pipe.send((_READY, None))
        while True:
            pipe.send((_DONE, _done(*pipe.recv())))


def _done(function: bytes, work: bytes, n_cpus: int) -> bytes:
    """Value, failure and seconds of a try of a piece of work."""
    os.environ.update(dict.fromkeys(THREADS, str(n_cpus)))  # for what is imported from here on
    with _threads(n_cpus):
        value, failure, seconds = try_work(lambda pickled: unpickle_function(function)(pickle.loads(pickled)), work)
    try:
        return pickle.dumps((value, failure, seconds))
    except Exception as error:  # a value that cannot be pickled
        return pickle.dumps((None, Failure.of(error), seconds))


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
