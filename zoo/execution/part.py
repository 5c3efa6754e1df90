"""A part of the work by its number: for job arrays, and for machines that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

from ..errors import QueryError
from .executor import WAIT, Executor, Outcome, Resources, Wait

W = TypeVar("W")
R = TypeVar("R")


class PartOf:
    """Every n-th piece of work, done by another executor.

    Piece i of the work, counted from 1, belongs to part ``(i - 1) % n + 1``: so all parts together do every piece once,
    if each of them is given the same work in the same order, whatever the others have done.

    Parameters
    ----------
    executor : Executor
        Does the pieces of this part; ends with it.
    k, n : int
        Which part, from 1 to ``n``, and of how many.
    """

    def __init__(self, executor: Executor, k: int, n: int) -> None:
        if not 1 <= k <= n:
            raise QueryError(f"Got part {k} of {n}, expected a number from 1 to {max(n, 1)}.")
        self.executor, self.k, self.n = executor, k, n

    @property
    def n_workers(self) -> int:
        """Pieces that run at once, at most."""
        return self.executor.n_workers

    def map_unordered(
        self, function: Callable[[W], R], work: Iterable[W | Literal[Wait.WAIT]], resources: Resources
    ) -> Iterator[Outcome[W, R]]:
        """Outcomes of the pieces of this part; see :class:`~zoo.execution.executor.Executor`."""
        return self.executor.map_unordered(function, self.share(work), resources)

    def share(self, work: Iterable[W | Literal[Wait.WAIT]]) -> Iterator[W | Literal[Wait.WAIT]]:
        """The pieces of this part; :data:`~zoo.execution.executor.WAIT` passes."""
        number = 0
        for piece in work:
            if piece is WAIT:
                yield WAIT
                continue
            if number % self.n == self.k - 1:
                yield piece
            number += 1

    def close(self) -> None:
        """Ends the workers."""
        self.executor.close()
