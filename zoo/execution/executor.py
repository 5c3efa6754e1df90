"""What every executor does: pieces of work in any order, tried again where they fail, outcomes as they come."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Generic, Literal, Protocol, TypeVar

from .. import errors
from ..errors import (
    BuildError,
    DataError,
    MissingExtra,
    QueryError,
    StoreError,
    WeightsRefused,
    WeightsUnavailable,
    ZooError,
)

W = TypeVar("W")
R = TypeVar("R")

N_TRIES = 4
"""Times that a piece of work is tried: once, and three times more, each on another worker where there is one."""

DIED = "WorkerDied"
"""Kind of the failure of a piece whose worker died."""

NOT_TRIED_AGAIN = (QueryError, MissingExtra, WeightsUnavailable, WeightsRefused)
"""Errors that another worker would meet too."""

_KINDS: tuple[type[ZooError], ...] = (
    QueryError,
    DataError,
    StoreError,
    BuildError,
    WeightsUnavailable,
    WeightsRefused,
)  # that are made of a sentence


class Wait(Enum):
    """Says that there is no work before another outcome."""

    WAIT = "wait"


WAIT = Wait.WAIT
"""What an iterator of work yields when its next piece depends on an outcome that is not there yet."""


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
        """The failure that an error is; one that nobody has worded says where it was raised."""
        text = str(error) or repr(error)
        if not isinstance(error, ZooError) and (frames := traceback.extract_tb(error.__traceback__)):
            text = f"{type(error).__name__}: {text} ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})"
        return cls(kind=type(error).__name__, text=text, is_final=isinstance(error, NOT_TRIED_AGAIN))

    def error(self) -> ZooError:
        """The failure as an error to raise: of its kind, or the next in the tree that is made of a sentence alone."""
        ancestors = getattr(errors, self.kind, ZooError).__mro__
        return next((kind for kind in ancestors if kind in _KINDS), ZooError)(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[W, R]):
    """What became of a piece of work."""

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

    @property
    def n_workers(self) -> int:
        """Pieces that run at once, at most."""

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W | Literal[Wait.WAIT]], resources: Resources
    ) -> Iterator[Outcome[W, R]]:
        """Outcomes of all pieces of work, in the order in which they end.

        Function and work must be picklable, and a value is small and not None: what is large goes to storage. ``work``
        is asked for its next piece when a worker is free; it may yield :data:`WAIT`, and is then asked again after the
        next outcome, for which some piece must be under way. A piece that fails, or whose worker dies, is tried again
        on another worker, :data:`N_TRIES` times in all. When the iterator is closed, no work is left running.
        """

    def close(self) -> None:
        """Ends the workers; what they are at is lost."""


_TRY: ContextVar[int] = ContextVar("try", default=1)


def current_try() -> int:
    """Which try of its piece of work the calling function is: 1 for the first."""
    return _TRY.get()


def attempt(function: Callable[[W], R], work: W, number: int) -> tuple[R | None, Failure | None, float]:
    """Try ``number`` of a piece of work in this process: its value or why there is none, and seconds.

    What is no failure of the piece, such as an interrupt, passes.
    """
    began, token = monotonic(), _TRY.set(number)
    try:
        value = function(work)
        if value is not None:
            return value, None, monotonic() - began
        failure = Failure(kind="TypeError", text=f"{function} gave None, which is no value of work.", is_final=True)
    except Exception as error:  # whatever it is, the other pieces go on
        failure = Failure.of(error)
    finally:
        _TRY.reset(token)
    return None, failure, monotonic() - began


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
