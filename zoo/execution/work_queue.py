"""The one loop that hands out work: features, measurements, metrics and the runs of learning curves go through it.

It keeps nothing that could not be lost: what is done lies at its place, so that a process that died here is gone on
from by any other, with other workers or by another engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Generic, TypeVar

from ..errors import StoreError
from .executor import Executor, Resources, WorkResult
from .journal import Journal

W = TypeVar("W")


class WorkQueue(Generic[W]):
    """Pieces of work that are still to be done: those that follow from outcomes first, then those that were planned.

    The number of those planned, the share of this process, is noted in the journal. ``hand_out`` is called with each
    piece when a worker is free for it, and returns what is done in its place, or None to leave it out. StoreError if
    there is work and the run was begun with other versions of what may change numbers.
    """

    def __init__(
        self, planned: Sequence[W], journal: Journal | None, *, hand_out: Callable[[W], W | None] = lambda piece: piece
    ) -> None:
        if planned and journal is not None and journal.refusal:
            raise StoreError(journal.refusal)
        self.n_planned = 0
        self._journal, self._hand_out = journal, hand_out
        self._first, self._then = deque[W](), deque(planned)
        self._count(len(planned))

    def add(self, pieces: Iterable[W]) -> None:
        """Puts pieces before those that are left."""
        self._first.extend(pieces)

    def plan(self, pieces: Sequence[W], *, replaced: int = 0) -> None:
        """Puts pieces before those that are left, and notes them, less those whose place they take."""
        self._count(len(pieces) - replaced)
        self.add(pieces)

    def clear(self) -> None:
        """Leaves out what was not handed out yet."""
        self._first.clear()
        self._then.clear()

    def run(
        self,
        function: Callable[[W], Any],
        take: Callable[[WorkResult[W, Any]], None],
        executor: Executor,
        resources: Resources,
    ) -> None:
        """Hands everything out to workers, who call the function, and waits for it; ``take`` is called with outcomes.

        Workers with other versions, where an executor has looked for them, are noted in the journal.
        """
        try:
            with closing(executor.map_unordered(function, self, resources)) as outcomes:  # type: ignore[type-var]
                for outcome in outcomes:
                    take(outcome)
        finally:
            marked, refused = getattr(executor, "marked", None), getattr(executor, "refused", None)
            if self._journal is not None and (marked or refused):
                self._journal.versions_of(marked=marked or {}, refused=refused or {})

    def __iter__(self) -> Iterator[W]:
        return self

    def __next__(self) -> W:
        while waiting := self._first or self._then:
            if (piece := self._hand_out(waiting.popleft())) is not None:
                return piece
        raise StopIteration

    def _count(self, n: int) -> None:
        self.n_planned += n
        if self._journal is not None:
            self._journal.planned(n)
