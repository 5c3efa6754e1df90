"""Many runs of learning curves, here or in several processes; each is kept at once, and none is done twice.

A run that fails does not keep the others from being done: what went wrong is said at the end. Whoever ends the command,
or kills it, ends its processes too; finished runs stay, and trainings under way go on from where they last were kept.
Two commands with one folder share the work: what one of them is at, the other does not begin.
"""

from __future__ import annotations

import json
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
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ...cards.schema import Preprocess
from ...encoders import Encoder
from ...errors import (
    BuildError,
    DataError,
    MissingExtra,
    QueryError,
    StoreError,
    WeightsRefused,
    WeightsUnavailable,
    ZooError,
)
from ...optional import requires_extra
from .inputs import forget_inputs
from .losses import TransferData
from .progress import CurveProgress, Silent
from .recipe import Recipe
from .runs import CurveRun, Job, KeptCurveRuns, Workload, distinct
from .tuning import Step, Trained, Training, blind_run, train_run

with requires_extra("evaluate", needed_for="A learning curve"):
    import numpy as np
    import torch

_KINDS = (QueryError, DataError, StoreError, BuildError, WeightsUnavailable, WeightsRefused)
_BLIND_BYTES = 1 << 30  # of maps for the blind guess; fixed, for where there are more it moves the number
_HOPELESS = (StoreError, MissingExtra)  # for the other runs too


class Train(Protocol):
    """Trains one network and tests it, as :func:`zoo.evaluation.curves.tuning.train_run` does."""

    def __call__(
        self,
        encoder: Encoder,
        data: TransferData,
        *,
        train: np.ndarray,
        validation: np.ndarray,
        preprocess: Preprocess,
        recipe: Recipe,
        seed: int,
        how: Training,
        state: Path | None = None,
        tell: Callable[[Step], None] | None = None,
    ) -> Trained:
        """Risks of every test image, in the metrics of the task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setup:
    """What all runs of a report are done with; goes to other processes."""

    data: TransferData
    recipe: Recipe
    folder: Path
    how: Training
    train: Train = train_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run could not be done, in a form that passes between processes."""

    kind: type[ZooError]
    text: str
    is_hopeless: bool  # the other runs would meet it too

    @classmethod
    def of(cls, error: ZooError) -> Failure:
        """The failure that an error is."""
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), ZooError)
        return cls(kind=kind, text=str(error), is_hopeless=isinstance(error, _HOPELESS))


def perform(job: Job, setup: Setup, *, tell: Callable[[Step], None] | None = None) -> CurveRun | Failure | None:
    """Does a job, unless it was done before; its run is kept.

    Returns
    -------
    CurveRun, Failure or None
        None if another process is at the same job.
    """
    kept = KeptCurveRuns(setup.folder)
    try:
        with kept.turn(job) as is_ours:
            if not is_ours:
                return None
            found = kept.find(job, n_test=len(setup.data.test))  # another process may just have ended it
            return _done(job, setup, kept, tell) if found is None else found
    except ZooError as error:
        return Failure.of(error)


def _done(job: Job, setup: Setup, kept: KeptCurveRuns, tell: Callable[[Step], None] | None) -> CurveRun:
    begun_s = time.monotonic()
    trained, about = _trained(job, setup, kept.state_folder(job), tell)
    report = {"seconds": time.monotonic() - begun_s, **trained.report, **about}  # a training knows of earlier processes
    run = CurveRun(
        control=job.control,
        n_requested=job.n,
        n_actual=job.n,
        seed=job.seed,
        risks={metric: np.asarray(risks, np.float32) for metric, risks in trained.risks.items()},
        examples=trained.examples,
        report=json.loads(json.dumps(report)),  # as it comes back from where it is kept
    )
    _check(job, run, setup.data)
    kept.keep(job, run)
    return run


def _trained(
    job: Job, setup: Setup, state: Path, tell: Callable[[Step], None] | None
) -> tuple[Trained, dict[str, Any]]:
    """What came out, and which images went in."""
    data, preprocess = setup.data, job.candidate.preprocess
    if job.seed is None:
        everything = np.arange(len(data.train), dtype=np.int64)
        found = blind_run(
            data, preprocess, train=everything, memory_bytes=_BLIND_BYTES, n_workers=setup.how.n_workers
        )  # fmt: skip
        return found, {"subset_hash": None, "n_train": len(everything), "n_validation": 0}
    work = Workload(data=data, recipe=setup.recipe)
    subset = work.subset(job.n, job.seed)
    is_encoder = job.control == "encoder"
    trained = setup.train(
        job.candidate.pretrained() if is_encoder else job.candidate.untrained(job.seed),
        data,
        train=subset.train,
        validation=subset.validation,
        preprocess=preprocess,
        recipe=setup.recipe if is_encoder else setup.recipe.of_controls,
        seed=job.seed,
        how=setup.how,
        state=state,
        tell=tell,
    )
    n_train, n_validation = len(subset.train), len(subset.validation)
    return trained, {"subset_hash": subset.fingerprint, "n_train": n_train, "n_validation": n_validation}


def _check(job: Job, run: CurveRun, data: TransferData) -> None:
    """Refuses risks that are none, before they are kept."""
    if set(run.risks) != set(data.task.metrics):
        raise DataError(
            f"The run {job.label!r} gave the risks {', '.join(sorted(run.risks)) or 'of nothing'}; expected those of "
            f"{data.task.name}: {', '.join(data.task.metrics)}."
        )
    for metric, risks in run.risks.items():
        if risks.shape != (len(data.test),) or not np.isfinite(risks).all():
            raise DataError(
                f"The run {job.label!r} gave {metric} of shape {risks.shape}, {int((~np.isfinite(risks)).sum())} of "
                f"them not finite; expected a finite number for each of {len(data.test):,} test images: lower the "
                "learning rates if the training diverged."
            )


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
