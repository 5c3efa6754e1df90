"""Work on processes of this machine: each has a pipe, so that one that dies costs its own piece of work and no other.

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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from pathlib import Path
from time import monotonic
from typing import Any, Generic, Literal, TypeVar

from ..errors import QueryError, StoreError
from .executor import DIED, N_TRIES, WAIT, Failure, Outcome, Resources, Wait, attempt

W = TypeVar("W")
R = TypeVar("R")

_SPAWN: Any = multiprocessing.get_context("spawn")
_NAME = "zoo-worker"
_UNGUARDED = 79  # status of a process that began with the work of the script it was started by
_MOST_STILLBORN = 20  # processes in a row that are killed before they begin
_LOOK_S = 0.5  # between two looks at which processes live: a child of one that died may keep its pipe open
_PATIENCE_S = 5.0  # until a process that was asked to end has ended
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Listen = Callable[[Any], None]
_LISTEN: ContextVar[Listen | None] = ContextVar("listen", default=None)


def tell(message: object) -> None:
    """Passes something small on to whoever listens where the work is handed out; does nothing if nobody does."""
    if (listen := _LISTEN.get()) is not None:
        listen(message)


class Processes:
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
        Called here, while outcomes are waited for, with what the function passes to :func:`tell`.
    """

    def __init__(self, n_processes: int, *, gpus: Sequence[str] = ()) -> None:
        if isinstance(n_processes, bool) or n_processes < 0 or (gpus and len(gpus) != n_processes):
            raise QueryError(f"Asked for {n_processes} processes with GPUs for {len(gpus)}; expected 0 or more.")
        self.listen: Listen | None = None
        self._n, self._gpus = n_processes, tuple(gpus)
        self._workers: list[_Worker] = []
        self._is_running = False
        self._n_stillborn = 0
        # Before multiprocessing waits for its children at the end of this process, which then would never come.
        self._ended = Finalize(self, _end, args=(self._workers,), exitpriority=10)

    @property
    def n_workers(self) -> int:
        """Pieces that run at once, at most."""
        return max(1, self._n)

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W | Literal[Wait.WAIT]], resources: Resources
    ) -> Iterator[Outcome[W, R]]:
        """Outcomes of all pieces of work, in the order in which they end.

        See :meth:`Executor.map_unordered <zoo.execution.executor.Executor.map_unordered>`.

        Raises QueryError if function or work cannot go to another process, or the script that asks for processes does
        its work whenever it is imported.
        """
        if self._is_running:
            raise RuntimeError("these processes are at other work already; end that first")
        if self._n == 0:
            return self._here(function, work, resources)
        return self._elsewhere(_pickled(function), iter(work), resources.n_cpus)

    def close(self) -> None:
        """Ends the processes; what they are at is lost."""
        _end(self._workers)

    def _here(
        self, function: Callable[[W], R], work: Iterable[W | Literal[Wait.WAIT]], resources: Resources
    ) -> Iterator[Outcome[W, R]]:
        for one in work:
            if one is WAIT:
                raise RuntimeError("the work waits for an outcome while none is under way")
            piece = _Piece(one, b"")
            is_over = False
            while not is_over:
                token = _LISTEN.set(self.listen)
                try:
                    with _threads(resources.n_cpus):
                        value, failure, seconds = attempt(function, one, len(piece.failures) + 1)
                finally:
                    _LISTEN.reset(token)
                is_over = piece.is_over_with(failure)
            yield piece.outcome(value, worker_name(), seconds)

    def _elsewhere(
        self, function: bytes, work: Iterator[W | Literal[Wait.WAIT]], n_cpus: int
    ) -> Iterator[Outcome[W, R]]:
        again: deque[_Piece[W]] = deque()
        self._is_running = True
        try:
            while self._hand_out(work, again, function, n_cpus):
                yield from self._heard(again)
        finally:
            self._is_running = False
            _end(self._workers, [worker for worker in self._workers if worker.piece is not None])

    def _hand_out(
        self, work: Iterator[W | Literal[Wait.WAIT]], again: deque[_Piece[W]], function: bytes, n_cpus: int
    ) -> bool:
        """Gives every process something to do; False if there is nothing, and nothing is under way."""
        for piece in [*again]:
            worker = self._free_for(piece)
            if worker is not None:
                again.remove(piece)
                worker.take(piece, function, n_cpus)
        waits = False
        while not waits and sum(worker.piece is not None for worker in self._workers) < self._n:
            one = next(work, None)
            if one is None:
                break
            if one is WAIT:
                waits = True
                continue
            piece = _Piece(one, _pickled(one))
            worker = self._free_for(piece)
            assert worker is not None
            worker.take(piece, function, n_cpus)
        is_busy = any(worker.piece is not None for worker in self._workers)
        if waits and not is_busy:
            raise RuntimeError("the work waits for an outcome while none is under way")
        return is_busy

    def _free_for(self, piece: _Piece[Any]) -> _Worker | None:
        """A process without work which the piece has not failed in lately, if need be a new one."""
        avoided = piece.pids[-(self._n - 1) :] if self._n > 1 else []
        for worker in [*self._workers]:
            if worker.piece is None:
                if not worker.process.is_alive():
                    _end(self._workers, [worker])
                elif worker.process.pid not in avoided:
                    return worker
        if len(self._workers) == self._n:
            return None
        slot = min(set(range(self._n)) - {worker.slot for worker in self._workers})
        environment = {"CUDA_VISIBLE_DEVICES": self._gpus[slot]} if self._gpus else {}
        self._workers.append(_Worker(slot, environment))
        return self._workers[-1]

    def _heard(self, again: deque[_Piece[W]]) -> Iterator[Outcome[W, R]]:
        """Outcomes of what has just ended; what is to be tried again goes into ``again``."""
        busy = [worker for worker in self._workers if worker.piece is not None]
        spoken = wait([worker.pipe for worker in busy], _LOOK_S)
        for worker in busy:
            if worker.pipe not in spoken and worker.process.is_alive():
                continue
            name, done = worker_name(worker.process.pid), None
            messages, is_gone = worker.messages()
            for kind, *content in messages:
                if kind == "ready":
                    self._n_stillborn = 0
                    worker.begin()
                elif kind == "told" and self.listen is not None:
                    self.listen(content[0])
                elif kind == "refused":
                    raise QueryError(
                        f"What is to be done is not found in another process ({content[0]}); make the functions in it "
                        "functions of a module that can be imported there, or ask for one process."
                    )
                elif kind == "done":
                    done = content
            piece: _Piece[W] | None = worker.piece
            if piece is None or (done is None and not is_gone):
                continue
            if is_gone:
                _end(self._workers, [worker])
            worker.piece = None
            if done is None and not worker.is_ready:
                self._require_guarded(worker.exitcode)
                again.appendleft(piece)  # which is not to blame
                continue
            piece.pids.append(worker.pid)
            value, failure, seconds = done or (None, worker.death(name), monotonic() - worker.began)
            if piece.is_over_with(failure):
                yield piece.outcome(value, name, seconds)
            else:
                again.append(piece)

    def _require_guarded(self, exitcode: int | None) -> None:
        """Goes on if a process was killed before it began; one that could not begin is the end of all."""
        self._n_stillborn += 1
        if exitcode == _UNGUARDED:
            raise QueryError(
                "Work was asked for on several processes by a script that works whenever it is imported, and every "
                'process imports it; put its work below if __name__ == "__main__", or ask for one process.'
            )
        if (exitcode or 0) > 0 or self._n_stillborn > _MOST_STILLBORN:
            raise StoreError(
                f"A process could not begin its work (it ended with status {exitcode}); what it wrote to the terminal "
                "says why, or else look at how much memory is free."
            )


@dataclass(eq=False, slots=True)
class _Piece(Generic[W]):
    work: W
    pickled: bytes
    failures: list[Failure] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)  # of the processes that tried it

    def is_over_with(self, failure: Failure | None) -> bool:
        """True unless it is to be tried again after a try that failed, or did not."""
        if failure is None:
            return True
        self.failures.append(failure)
        return failure.is_final or len(self.failures) >= N_TRIES

    def outcome(self, value: Any, worker: str, seconds: float) -> Outcome[W, Any]:
        return Outcome(work=self.work, value=value, failures=tuple(self.failures), worker=worker, seconds=seconds)


class _Worker:
    """A process, and this end of the pipe to it."""

    def __init__(self, slot: int, environment: Mapping[str, str]) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False) and (
            multiprocessing.current_process().name == _NAME
        ):
            sys.exit(_UNGUARDED)  # this is a process that was started for work, and is just importing the script
        self.slot, self.is_ready, self.began = slot, False, monotonic()
        self.piece: Any = None
        self._given: tuple[bytes, int] | None = None  # function and threads, as the process has them
        self._to_give: tuple[bytes, int] = b"", 0
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, environment), name=_NAME)
        with _package_on_path(), _uninterrupted():
            self.process.start()
        theirs.close()
        self.pid: int = self.process.pid
        self.exitcode: int | None = None

    def take(self, piece: _Piece[Any], function: bytes, n_cpus: int) -> None:
        """Takes a piece of work, and begins with it as soon as the process is ready."""
        self.piece, self._to_give = piece, (function, n_cpus)
        if self.is_ready:
            self.begin()

    def begin(self) -> None:
        self.is_ready, self.began = True, monotonic()
        new = None if self._to_give == self._given else self._to_give
        with suppress(OSError):  # it has died, which the next look finds
            self.pipe.send_bytes(pickle.dumps((new, self.piece.pickled, len(self.piece.failures) + 1)))
        self._given = self._to_give

    def messages(self) -> tuple[list[Any], bool]:
        """What the process has said, and whether it is gone and will say no more."""
        is_alive, said = self.process.is_alive(), list[Any]()
        try:
            while self.pipe.poll() and len(said) < 1000:
                said.append(pickle.loads(self.pipe.recv_bytes()))
            return said, not is_alive and not self.pipe.poll()
        except (EOFError, OSError):
            self.process.join(1)  # so that it has the status that it ended with
            return said, True

    def death(self, name: str) -> Failure:
        """What the piece of work is told that this process was at, which has ended."""
        code = self.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        text = f"The process {name} {how} {monotonic() - self.began:.1f} s after it began."
        return Failure(kind=DIED, text=text, is_final=False)

    def ask_to_end(self) -> None:
        """The first half of ending: processes without work end by themselves, the others are killed."""
        if self.piece is not None:
            self.process.kill()
        with suppress(OSError):
            self.pipe.send_bytes(b"")

    def end(self) -> None:
        """Waits for the end, which has been asked for."""
        self.process.join(_PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.exitcode = self.process.exitcode
        self.pipe.close()
        self.process.close()


def _end(workers: list[_Worker], some: Sequence[_Worker] | None = None) -> None:
    """Ends all workers, or some of them, and takes them out of the list."""
    ending = [*(workers if some is None else some)]
    with _uninterrupted():  # whoever is impatient interrupts twice
        for worker in ending:
            worker.ask_to_end()
        for worker in ending:
            worker.end()
            workers.remove(worker)


def worker_name(pid: int | None = None) -> str:
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
    """Holds an interrupt back until the end; a process that is started meanwhile never gets one."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _package_on_path() -> Iterator[None]:
    """This package on sys.path, of which a process that is started gets a copy: torch.hub takes it away again."""
    home = str(Path(__file__).resolve().parents[2])
    if home in sys.path:
        yield
        return
    sys.path.append(home)
    try:
        yield
    finally:
        sys.path.remove(home)


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
    """What a process does from its beginning to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one is interrupted too, and ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)

    def say(*message: object) -> None:
        pipe.send_bytes(pickle.dumps(message))

    _LISTEN.set(lambda message: say("told", message))
    function: Any = None
    with suppress(EOFError, OSError):  # nobody is there any more
        say("ready")
        while order := pipe.recv_bytes():
            given, pickled, number = pickle.loads(order)
            try:
                if given is not None:
                    os.environ.update(dict.fromkeys(THREADS, str(given[1])))  # for what is imported from here on
                    function, n_cpus = pickle.loads(given[0]), given[1]
                work = pickle.loads(pickled)
            except Exception as error:  # an import may raise anything
                say("refused", f"{type(error).__name__}: {error}")
                continue
            with _threads(n_cpus):
                done = attempt(function, work, number)
            try:
                say("done", *done)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                text = f"A value of the type {type(done[0]).__name__} cannot leave its process ({error})."
                say("done", None, Failure(kind="TypeError", text=text, is_final=True), done[2])


def _end_with_parent() -> None:
    """Ends this process with the one that started it, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
