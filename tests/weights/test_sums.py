"""Sums of blocks: equal however they are computed, and different after any change of up to three words."""

from __future__ import annotations

import mmap
import random
from itertools import combinations
from pathlib import Path

import pytest

from zoo.weights.tensors import BLOCK, Summing, block_sums

WORD = 8


def of(content: bytes) -> tuple[str, ...]:
    summing = Summing()
    summing.update(memoryview(content))
    return summing.sums()


def of_file(path: Path) -> tuple[str, ...]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        return tuple(block_sums(mapped))


@pytest.mark.parametrize("n_bytes", [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 12345])
def test_a_mapped_file_and_its_bytes_in_pieces_have_the_same_sums(tmp_path: Path, n_bytes: int) -> None:
    content = random.Random(n_bytes).randbytes(n_bytes)
    (tmp_path / "file").write_bytes(content)
    summing = Summing()
    position, chance = 0, random.Random(1)
    while position < n_bytes:
        length = chance.choice((1, 1000, 300_000, BLOCK, 2 * BLOCK))
        summing.update(memoryview(content)[position : position + length])
        position += length
    assert summing.sums() == of(content) == of_file(tmp_path / "file")
    assert len(of(content)) == -(-n_bytes // BLOCK)


def test_a_flipped_bit_changes_the_sum_of_its_block_and_no_other() -> None:
    content = bytearray(random.Random(0).randbytes(3 * BLOCK))
    before = of(content)
    for position in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 77, 3 * BLOCK - 1):
        content[position] ^= 128
        changed = [number for number, (now, then) in enumerate(zip(of(content), before, strict=True)) if now != then]
        assert changed == [position // BLOCK]
        content[position] ^= 128


@pytest.mark.parametrize("words", [*combinations((0, 1, 512, 513, 131071), 2), *combinations((0, 1, 512, 513), 3)])
def test_two_or_three_changed_words_never_cancel(words: tuple[int, ...]) -> None:
    """Also where a plain sum would not notice: the highest bit of two words, or as much more as less."""
    content = bytearray(BLOCK)
    before = of(content)
    for word in words:
        content[word * WORD + 7] ^= 128  # adds 2^63, and twice that is nothing
    assert of(content) != before
    more_and_less = bytearray(BLOCK)
    for number, word in enumerate(words):
        change = 5 if number else -5 * (len(words) - 1)
        more_and_less[word * WORD : (word + 1) * WORD] = change.to_bytes(WORD, "little", signed=True)
    assert of(more_and_less) != before


def test_exchanged_words_change_the_sums() -> None:
    content = bytearray(random.Random(0).randbytes(BLOCK))
    before = of(content)
    content[:8], content[8:16] = content[8:16], content[:8]
    assert of(content) != before
