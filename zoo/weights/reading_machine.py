"""The state of the machine that follows pickles: where it is, its stack, its marks and its memo."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from .reading_inert import Budget, Inert, Lookup, Refusal, is_plain_key

Step = TypeVar("Step")
Bytes: TypeAlias = bytes | mmap.mmap
Persistent: TypeAlias = Callable[[Any], Any]
"""From a persistent id to what stands for it: a storage of torch."""

_MOST_TUPLE_KEYS = 1000  # whose hashes a file can make collide


class Machine:
    """A pickle that is being read.

    Parameters
    ----------
    data : bytes or mmap
        Holds the pickle.
    lookup : callable
        What stands for a name, or None.
    budget : Budget
        Of the whole file.
    persistent : callable, optional
        What stands for a persistent id. Without it a pickle that has one is refused.
    start : int
        Where in ``data`` the pickle starts; ``position`` is where the next instruction is.
    """

    def __init__(
        self,
        data: Bytes,
        *,
        lookup: Lookup,
        budget: Budget,
        persistent: Persistent | None = None,
        start: int = 0,
    ) -> None:
        self.data = data
        self.end = len(data)
        self.position = start
        self.lookup = lookup
        self.budget = budget
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []  # the stack below each mark
        self.memo: dict[int, Any] = {}
        self._n_tuple_keys = 0

    def take(self, n: int) -> bytes:
        """The next ``n`` bytes."""
        start = self.position
        if n > self.end - start:
            raise Refusal("it ends in the middle of a pickle")
        self.position = start + n
        return self.data[start : start + n]

    def byte(self) -> int:
        """The next byte, as a number."""
        position = self.position
        if position >= self.end:
            raise Refusal("it ends in the middle of a pickle")
        self.position = position + 1
        return self.data[position]

    def number(self, n: int) -> int:
        """The next ``n`` bytes as a number that is not negative."""
        return int.from_bytes(self.take(n), "little")

    def above_mark(self) -> list[Any]:
        """What lies above the topmost mark; it and the mark are gone."""
        items = self.stack
        self.stack = self.marked.pop()
        return items

    def key(self, key: Any) -> Any:
        """``key``, if looking it up takes a moment: hashing what a file has nested can take forever."""
        kind = type(key)
        if kind is tuple:
            self._n_tuple_keys += 1
            if self._n_tuple_keys > _MOST_TUPLE_KEYS or not is_plain_key(key, depth=3):
                raise Refusal("it uses odd or large tuples, or very many of them, as keys")
        elif not (is_plain_key(key, depth=0) or isinstance(key, Inert)):
            raise Refusal("it uses a container, a tensor or a huge number as a key")
        return key


def table(by_code: dict[bytes, Step]) -> tuple[Step | None, ...]:
    """The entries of a table of instructions by code, for all 256 of them."""
    return tuple(by_code.get(bytes([code])) for code in range(256))
