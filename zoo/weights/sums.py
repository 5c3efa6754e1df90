"""Sums that tell whether a block of bytes is still what it was, several times as fast as a hash of all its bytes.

A block is laid out as a table of 64-bit words, whose rows and whose columns are added up, modulo 2^64; what is kept is
a hash of these sums. One changed word changes two of them. Two changed words lie in different rows or in different
columns, and so change some, and so do three: whatever is confined to three words is found for certain. More words
escape only if they form rectangles in which the changes cancel exactly. This finds accidents; forgers are found by
SHA-256.
"""

from __future__ import annotations

import mmap
from hashlib import blake2b

from ..optional import requires_extra

with requires_extra("models", needed_for="Checking weights"):
    import torch

BLOCK = 1024**2  # bytes of which one sum is kept
_ROWS, _COLUMNS = 256, 512  # of words of 8 bytes


class Summing:
    """The sums of bytes that come in pieces of any length."""

    def __init__(self) -> None:
        self._block = bytearray(BLOCK)
        self._filled = 0
        self._sums: list[str] = []

    def update(self, piece: memoryview) -> None:
        """Takes the next bytes."""
        while len(piece):
            taken = piece[: BLOCK - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            piece = piece[len(taken) :]
            if self._filled == BLOCK:
                self._close()

    def sums(self) -> tuple[str, ...]:
        """Of every block, the last one filled up with zeros; call it once, at the end."""
        if self._filled:
            self._block[self._filled :] = bytes(BLOCK - self._filled)
            self._close()
        return tuple(self._sums)

    def _close(self) -> None:
        self._sums += _of_blocks(self._block, 1)
        self._filled = 0


def block_sums(mapped: mmap.mmap) -> list[str]:
    """The sums of a file that is mapped into memory, as :class:`Summing` gives them; torch shares them out to cores."""
    n_whole, rest = divmod(len(mapped), BLOCK)
    sums = _of_blocks(mapped, n_whole) if n_whole else []
    if rest:
        tail = Summing()
        with memoryview(mapped) as view:
            tail.update(view[n_whole * BLOCK :])
        sums += tail.sums()
    return sums


def _of_blocks(data: mmap.mmap | bytearray, n: int) -> list[str]:
    words = torch.frombuffer(data, dtype=torch.int64, count=n * _ROWS * _COLUMNS).view(n, _ROWS, _COLUMNS)
    sums = torch.cat((words.sum(2), words.sum(1)), dim=1).numpy()  # (n, rows + columns)
    return [blake2b(of_block, digest_size=8).hexdigest() for of_block in sums]
