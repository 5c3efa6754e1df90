"""Executors: pieces of work in any order on workers, tried again where they fail, outcomes as they come.

There are two: processes of this machine, and a Ray cluster. Either may do a part of the work by its number, for job
arrays and anything else that can count.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from .. import errors
from ..errors import (
    BuildError,
    DataError,
    MissingExtra,
    OtherFeatures,
    QueryError,
    StoreError,
    WeightsRefused,
    WeightsUnavailable,
    ZooError,
)
from ..version import __version__, find_library_version

W = TypeVar("W")
R = TypeVar("R")
E = TypeVar("E", bound="Executor")

N_TRIES = 4
"""Times that a piece of work is tried: once, and three times more, each on another worker where there is one."""

DIED = "WorkerDied"
"""Kind of the failure of a piece whose worker died."""

NOT_TRIED_AGAIN = (QueryError, OtherFeatures, MissingExtra, WeightsUnavailable, WeightsRefused)
"""Errors that another worker would meet too."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of the environment of a worker with the number of its threads."""

_OF_A_SENTENCE: tuple[type[ZooError], ...] = (
    QueryError,
    DataError,
    StoreError,
    BuildError,
    WeightsUnavailable,
    WeightsRefused,
)
_LIBRARIES = ("torch", "torchvision", "timm", "pillow", "numpy", "openvino")  # that may change numbers
ABSENT = "not installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one piece of work takes."""

    n_cpus: int = 1  # threads, too, so that its numbers do not depend on how many pieces run at once
    n_gpus: float = 0.0  # 0.5: two at once on each


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a piece of work could not be done, in a form that passes between processes."""

    kind: str  # class of the error, or DIED
    text: str  # the sentence
    is_final: bool  # another worker would meet it too

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an error is; one that is not the zoo's own says where it was raised."""
        text = str(error) or repr(error)
        if not isinstance(error, ZooError) and (frames := traceback.extract_tb(error.__traceback__)):
            text = f"{type(error).__name__}: {text} ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
        return cls(kind=type(error).__name__, text=text, is_final=isinstance(error, NOT_TRIED_AGAIN))

    def error(self) -> ZooError:
        """The failure as an error to raise: of its kind, or the next in the tree that is made of a sentence alone."""
        ancestors = getattr(errors, self.kind, ZooError).__mro__
        return next((kind for kind in ancestors if kind in _OF_A_SENTENCE), ZooError)(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult(Generic[W, R]):
    """Result of a piece of work."""

    work: W
    value: R | None  # None if it failed
    failures: tuple[Failure, ...]  # of the tries that failed, in their order
    worker: str  # of the last try: host and process id
    seconds: float  # of the last try

    @property
    def failed(self) -> bool:
        """True if no try succeeded."""
        return self.value is None


class Executor(Protocol):
    """Does work on workers."""

    part: tuple[int, int] | None  # k and n: its share of the work, which :func:`select_share` selects; None: all

    @property
    def n_workers(self) -> int:
        """Pieces that run at once, at most."""

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W], resources: Resources
    ) -> Iterator[WorkResult[W, R]]:
        """Outcomes of all pieces of work, in the order in which they end.

        Function and work must be picklable, and a value is small and not None: what is large goes to storage. ``work``
        is asked for its next piece when a worker is free, and again after every outcome, also when it had no more: so
        work may follow from outcomes. A piece that fails, or whose worker dies, is tried again on another worker,
        :data:`N_TRIES` times in all. When the iterator is closed, no work is left running.
        """

    def close(self) -> None:
        """Ends the workers; what they are at is lost."""


@dataclass(eq=False, slots=True)
class PendingWork:
    """A piece of work, and the tries of it that failed."""

    work: Any
    failures: list[Failure] = field(default_factory=list)
    tried_at: list[Hashable] = field(default_factory=list)  # places of workers


class Worker:
    """A worker of a :class:`Pool`, which does one piece at a time."""

    name = ""
    place: Hashable = None  # a process or a machine: a piece that failed at one is tried again at another
    piece: PendingWork | None = None
    began = 0.0


Ended = tuple[Worker, Any, Failure | None, float]
"""A worker whose piece has ended, with the value or the failure, and seconds."""


class Pool:
    """What executors with workers of their own have in common: the loop that hands out work."""

    def __init__(self) -> None:
        self.part: tuple[int, int] | None = None
        self.workers: list[Worker] = []  # that can be given work
        self._is_running = False

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W], resources: Resources
    ) -> Iterator[WorkResult[W, R]]:
        """Outcomes of all pieces of work, in the order in which they end; see :class:`Executor`."""
        if self._is_running:
            raise RuntimeError("these workers are at other work already; end that first")
        self._take(function, resources)
        return self._outcomes(iter(work))

    def _outcomes(self, work: Iterator[Any]) -> Iterator[WorkResult[Any, Any]]:
        again: list[PendingWork] = []
        self._is_running = True
        try:
            while True:
                self._follow()
                for piece in [*again]:
                    if worker := self._free_for(piece):
                        again.remove(piece)
                        self._give(worker, piece)
                is_over = False
                while not is_over and (worker := self._free_for(None)):
                    one = next(work, None)
                    is_over = one is None
                    if not is_over:
                        self._give(worker, PendingWork(one))
                if is_over and not again and not any(worker.piece for worker in self.workers):
                    return
                for worker, value, failure, seconds in self._ended():
                    ended, worker.piece = worker.piece, None
                    assert ended is not None
                    if failure is not None:
                        ended.failures.append(failure)
                        ended.tried_at.append(worker.place)
                        if not failure.is_final and len(ended.failures) < N_TRIES:
                            again.append(ended)
                            continue
                    yield WorkResult(
                        work=ended.work,
                        value=value,
                        failures=tuple(ended.failures),
                        worker=worker.name,
                        seconds=seconds,
                    )
        finally:
            self._is_running = False
            for worker in [*self.workers]:
                if worker.piece is not None:
                    self._end(worker)

    def _free_for(self, piece: PendingWork | None) -> Worker | None:
        """A worker without work, for a piece that has failed one at another place than the last ones."""
        n_others = len({worker.place for worker in self.workers}) - 1
        avoided = piece.tried_at[-n_others:] if piece is not None and n_others > 0 else []
        free = (worker for worker in self.workers if worker.piece is None and worker.place not in avoided)
        return next(free, None)

    def _give(self, worker: Worker, piece: PendingWork) -> None:
        worker.piece, worker.began = piece, monotonic()
        self._begin(worker, piece)

    def _take(self, function: Callable[[Any], Any], resources: Resources) -> None:
        """Takes the function of the pieces that follow."""
        raise NotImplementedError

    def _follow(self) -> None:
        """Brings the workers up to date."""

    def _begin(self, worker: Worker, piece: PendingWork) -> None:
        """Begins a try of a piece."""
        raise NotImplementedError

    def _ended(self) -> Iterable[Ended]:
        """What has ended; waits a moment for it."""
        raise NotImplementedError

    def _end(self, worker: Worker) -> None:
        """Ends a worker, whatever it is at."""
        raise NotImplementedError


def try_work(function: Callable[[W], R], work: W) -> tuple[R | None, Failure | None, float]:
    """Tries a piece of work in this process: its value or why there is none, and seconds.

    What is no failure of the piece, such as an interrupt, passes.
    """
    began = monotonic()
    try:
        value = function(work)
        if value is not None:
            return value, None, monotonic() - began
        failure = Failure(kind="TypeError", text=f"{function} gave None, which is no value of work.", is_final=True)
    except Exception as error:  # whatever it is, the other pieces go on
        failure = Failure.of(error)
    return None, failure, monotonic() - began


def select_part(executor: E, k: int, n: int) -> E:
    """The executor, as one that does part k of n of the work: piece i, counted from 1, belongs to part (i - 1) % n + 1.

    So all parts together do every piece once, if each of them is given the same work in the same order, whatever the
    others have done.
    """
    _require_part(k, n)
    executor.part = (k, n)
    return executor


def select_share(executor: Executor, pieces: Sequence[W]) -> Sequence[W]:
    """Which of some pieces an executor does: those of its part, if it has one, else all."""
    return pieces if executor.part is None else pieces[executor.part[0] - 1 :: executor.part[1]]


def parse_part(text: str) -> tuple[int, int]:
    """k and n of a part of the work.

    >>> parse_part("7/64")
    (7, 64)
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip(), re.ASCII)
    if found is None:
        raise QueryError(f"Got the part {text!r} of the work, expected K/N, such as 7/64.")
    k, n = int(found[1]), int(found[2])
    _require_part(k, n)
    return k, n


def _require_part(k: int, n: int) -> None:
    if not 1 <= k <= n:
        raise QueryError(f"Got the part {k}/{n} of the work, expected K/N with K from 1 to {max(n, 1)}.")


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def collect_versions(*, code: int | None = None) -> dict[str, str]:
    """Versions of the zoo, of Python and of the libraries that compute features; imports none of them.

    The zoo's has a hash of its source, for checkouts differ more often than their version does. ``code`` is the number
    that counts versions with other features (``zoo.features.origin.CODE_NUMBER``).

    >>> collect_versions()["python"].count(".")
    1
    """
    numbers = {"zoo": f"{__version__}+{_source()}"}
    if code is not None:
        numbers["features"] = str(code)
    numbers["python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
    return numbers | {library: find_library_version(library) or ABSENT for library in _LIBRARIES}


def describe_version_difference(wanted: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Which versions differ, as part of a sentence; empty if none does.

    >>> describe_version_difference({"torch": "2.9.0", "timm": "1.0.26"}, {"torch": "2.8.0", "timm": "1.0.26"})
    'torch 2.8.0 instead of 2.9.0'
    """
    return ", ".join(
        f"{name} {here.get(name, ABSENT)} instead of {wanted.get(name, ABSENT)}"
        for name in dict.fromkeys([*wanted, *here])
        if here.get(name, ABSENT) != wanted.get(name, ABSENT)
    )


@cache
def _source() -> str:
    """Start of a hash of all modules of this package."""
    folder = Path(__file__).parents[1]
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
