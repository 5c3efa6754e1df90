"""Many runs of learning curves, here or in several processes; each is kept at once, and none is done twice.

A run that fails does not keep the others from being done: what went wrong is said at the end. Whoever ends the command,
or kills it, ends its processes too; finished runs stay, and trainings under way go on from where they last were kept.
Two commands with one folder share the work: what one of them is at, the other does not begin.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import QueryError, StoreError
from ...optional import requires_extra
from .inputs import forget_inputs
from .jobs import Job, distinct
from .kept import KeptCurveRuns
from .performing import Failure, Setup, perform
from .progress import CurveProgress, Silent
from .runs import CurveRun
from .tuning import Step

with requires_extra("evaluate", needed_for="A learning curve"):
    import torch

_LOOK_S = 0.2  # between two looks at other processes
_SPAWN = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in whatever state they are

Outcome = CurveRun | Failure | None
Watch = Callable[[Mapping[str, CurveRun]], None]


class Runner:
    """Does jobs; used as a context, at whose end its processes are gone.

    Parameters
    ----------
    setup : Setup
    n_processes : int
        With 1 everything is done in this process.
    progress : CurveProgress, optional
        Told how far it is.

    Attributes
    ----------
    runs : dict from the key of a job to CurveRun
        What is done.

    Raises
    ------
    QueryError
        If the number of processes is below 1.
    """

    def __init__(self, setup: Setup, *, n_processes: int = 1, progress: CurveProgress | None = None) -> None:
        if isinstance(n_processes, bool) or n_processes < 1:
            raise QueryError(f"Asked for {n_processes} processes; expected at least 1.")
        self.runs: dict[str, CurveRun] = {}
        self._setup, self._n_processes = setup, n_processes
        self._progress: CurveProgress = Silent() if progress is None else progress
        self._pool: _Pool | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.end(at_once=error is not None)
        self._progress.end()
        forget_inputs()  # of runs in this process: gigabytes that are the user's again

    def do(self, jobs: Iterable[Job], *, watch: Watch | None = None) -> None:
        """Does what is not done; the results are in ``runs``.

        Parameters
        ----------
        jobs : iterable of Job
        watch : callable, optional
            Shown all runs before the first and after each that ends; what it raises ends the rest.

        Raises
        ------
        ZooError
            Of the first run that failed, once the others are done; says how many are finished.
        """
        wanted = distinct(jobs)
        kept, n_test = KeptCurveRuns(self._setup.folder), len(self._setup.data.test)
        for job in wanted:
            if job.key not in self.runs and (found := kept.find(job, n_test=n_test)) is not None:
                self.runs[job.key] = found
        missing = [job for job in wanted if job.key not in self.runs]
        self._progress.start(len(wanted), len(wanted) - len(missing), n_steps=sum(job.n_steps for job in missing))
        look = watch or (lambda runs: None)
        look(self.runs)
        failures = self._in_processes(missing, look) if self._n_processes > 1 else self._here(missing, look)
        if failures:
            raise _refusal(failures, n_jobs=len(wanted), n_done=sum(job.key in self.runs for job in wanted), at=kept)

    def _here(self, jobs: list[Job], look: Watch) -> list[tuple[Job, Failure]]:
        failures: list[tuple[Job, Failure]] = []
        waiting = deque(jobs)
        n_busy = 0  # jobs in a row that another process is at
        while waiting:
            job = waiting.popleft()
            self._progress.began(job)
            outcome = perform(job, self._setup, tell=partial(self._progress.step, job))
            n_busy = n_busy + 1 if outcome is None else 0
            if outcome is None:
                waiting.append(job)
                if n_busy == len(waiting):  # all that is left
                    time.sleep(_LOOK_S)
                    n_busy = 0
            elif self._ended(job, outcome, failures, look):
                break
        return failures

    def _in_processes(self, jobs: list[Job], look: Watch) -> list[tuple[Job, Failure]]:
        failures: list[tuple[Job, Failure]] = []
        if not jobs:
            return failures
        if self._pool is None:
            self._pool = _Pool(self._setup, self._n_processes)
        waiting, running = deque(jobs), dict[Future[Outcome], Job]()
        not_before_s: dict[str, float] = {}  # of jobs that another command is at
        try:
            while waiting or running:
                for _ in range(len(waiting)):
                    job = waiting.popleft()
                    if len(running) == self._n_processes or time.monotonic() < not_before_s.get(job.key, 0.0):
                        waiting.append(job)
                        continue
                    running[self._pool.submit(job)] = job
                    self._progress.began(job)
                if running:
                    done, _ = wait(running, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                else:
                    done = set()
                    time.sleep(_LOOK_S)
                self._tell(running.values())
                for future in done:
                    job, outcome = running.pop(future), future.result()
                    if outcome is None:
                        not_before_s[job.key] = time.monotonic() + _LOOK_S
                        waiting.append(job)
                    elif self._ended(job, outcome, failures, look):
                        waiting.clear()
        except BrokenProcessPool as error:
            raise StoreError(
                f"A process has died at one of {len(running)} runs, for want of memory or because the script that asks "
                'for several keeps its work outside of if __name__ == "__main__"; '
                f"{len(self.runs)} finished runs are kept in {self._setup.folder}: go on with fewer processes."
            ) from error
        return failures

    def _ended(self, job: Job, outcome: CurveRun | Failure, failures: list[tuple[Job, Failure]], look: Watch) -> bool:
        """Takes note of it; True if the rest need not be tried."""
        if isinstance(outcome, Failure):
            failures.append((job, outcome))
            self._progress.ended(job, None)
            return outcome.is_hopeless or job.control == "blind"  # without which there is no curve of anything
        self.runs[job.key] = outcome
        self._progress.ended(job, outcome)
        look(self.runs)
        return False

    def _tell(self, running: Iterable[Job]) -> None:
        """Passes on what other processes have said."""
        assert self._pool is not None
        by_key = {job.key: job for job in running}
        for key, step in self._pool.told():
            if key in by_key:
                self._progress.step(by_key[key], step)


class _Pool:
    """Processes that were started afresh, and end with this one."""

    def __init__(self, setup: Setup, n_processes: int) -> None:
        self._said: Any = _SPAWN.Queue()
        lifeline, self._held = _SPAWN.Pipe(duplex=False)
        n_threads = max(1, n_cores() // n_processes)
        own = replace(setup, how=replace(setup.how, memory_bytes=setup.how.memory_bytes // n_processes))
        _require_picklable(own)
        self._executor = ProcessPoolExecutor(
            n_processes, mp_context=_SPAWN, initializer=_begin, initargs=(own, self._said, lifeline, n_threads)
        )

    def submit(self, job: Job) -> Future[Outcome]:
        _require_picklable(job)
        with _found_by_others(), _uninterrupted():
            return self._executor.submit(_perform_here, job)

    def told(self) -> list[tuple[str, Step]]:
        found = []
        while True:
            try:
                found.append(self._said.get_nowait())
            except queue.Empty:
                return found

    def end(self, *, at_once: bool) -> None:
        if at_once:
            self._held.close()  # which the others see
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._held.close()
        self._said.close()


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
def _found_by_others() -> Iterator[None]:
    """This package on sys.path, of which a process that is started gets a copy: torch.hub takes it away again."""
    home = str(Path(__file__).resolve().parents[3])
    if home in sys.path:
        yield
        return
    sys.path.append(home)
    try:
        yield
    finally:
        sys.path.remove(home)


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_OURS: dict[str, Any] = {}  # of a process that was started for jobs: what all of them share


def _begin(setup: Setup, said: Any, lifeline: Connection, n_threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    said.cancel_join_thread()  # nobody may read any more
    torch.set_num_threads(n_threads)
    _OURS.update(setup=setup, said=said)


def _end_with(lifeline: Connection) -> None:
    """Ends this process with the one that asked for it, however that ends."""
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)


def _perform_here(job: Job) -> Outcome:
    last_s = 0.0

    def tell(step: Step) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _LOOK_S:
            last_s = time.monotonic()
            _OURS["said"].put((job.key, step))

    return perform(job, _OURS["setup"], tell=tell)


def _require_picklable(what: object) -> None:
    try:
        pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise QueryError(
            f"Runs cannot go to several processes ({error}); make what gives the encoders and the images functions of "
            "a module, or ask for one process."
        ) from error


def _refusal(failures: list[tuple[Job, Failure]], *, n_jobs: int, n_done: int, at: KeptCurveRuns) -> Exception:
    job, first = failures[0]
    rest = f", and {len(failures) - 1} more failed" if len(failures) > 1 else ""
    text = first.text.removesuffix(".")
    return first.kind(
        f"{text} (in the run {job.label!r}{rest}; {n_done} of {n_jobs} runs are finished and kept in {at.folder})."
    )
