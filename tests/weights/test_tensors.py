"""Files of converted weights: written whole, named by their content, and refused if a single bit is another one."""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import safetensors
import torch
from safetensors.torch import load_file

from tests.weights.test_store import every_fault, files_below
from zoo.errors import StoreError, WeightsRefused
from zoo.weights import tensors
from zoo.weights.store import format_weights_filename
from zoo.weights.tensors import (
    BLOCK,
    BlockChecksums,
    TensorFileContent,
    compute_block_sums,
    read_tensors,
    write_tensors,
)

ABOUT = {"format": "zoo-weights-1", "layout": "dino 1"}
REMEDY = "run the remedy"


def state() -> dict[str, torch.Tensor]:
    """One tensor of every type, of shapes with nothing, one and many numbers."""
    generator = torch.Generator().manual_seed(0)
    floats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    made = {f"float.{number}": torch.randn(3, 5, generator=generator).to(dtype) for number, dtype in enumerate(floats)}
    made |= {"count": torch.tensor(7), "index": torch.arange(5, dtype=torch.int32), "mask": torch.tensor([True, False])}
    return made | {"bytes": torch.arange(11, dtype=torch.uint8), "nothing": torch.empty(0, 4), "ä": torch.ones(1)}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Sums of 64 bytes each, so that small files have many."""
    monkeypatch.setattr(tensors, "BLOCK", 64)
    for name, value in {"_ROWS": 2, "_COLUMNS": 4}.items():
        monkeypatch.setattr(tensors, name, value)
    yield 64


@pytest.fixture
def kept(tmp_path: Path, small_blocks: int) -> tuple[Path, TensorFileContent]:
    content = write_tensors(tmp_path, state(), about=ABOUT)
    return tmp_path / format_weights_filename(content.sha256), content


def test_every_type_and_shape_survives_under_the_hash_of_the_content(tmp_path: Path) -> None:
    content = write_tensors(tmp_path / "new" / "folder", state(), about=ABOUT)
    path = tmp_path / "new" / "folder" / format_weights_filename(content.sha256)
    found = path.read_bytes()
    assert (content.sha256, content.size_bytes) == (hashlib.sha256(found).hexdigest(), len(found))
    assert equal(read_tensors(path, content, remedy=REMEDY), state())
    assert equal(load_file(path), state())
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.metadata() == ABOUT
    backwards = dict(reversed(state().items()))
    assert write_tensors(path.parent, backwards, about=dict(reversed(ABOUT.items()))) == content
    assert write_tensors(path.parent, state(), about=ABOUT | {"layout": "dino 2"}) != content
    assert len(files_below(tmp_path)) == 2


def test_after_any_fault_all_or_nothing_is_there(tmp_path: Path) -> None:
    def write() -> None:
        for path in tmp_path.iterdir():
            path.unlink()
        write_tensors(tmp_path, state(), about=ABOUT)

    def check(was_named: bool) -> None:
        assert list(files_below(tmp_path).values()) == ([whole] if was_named else [])

    write()
    (whole,) = files_below(tmp_path).values()
    calls = every_fault(write, check, StoreError)
    assert calls.count("write") >= 3
    assert list(files_below(tmp_path).values()) == [whole]


def test_a_full_disk_is_one_sentence_that_says_how_much_is_needed(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys, torch\nfrom pathlib import Path\n"
        "from zoo.errors import StoreError\nfrom zoo.weights.tensors import write_tensors\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "try:\n"
        "    write_tensors(Path(sys.argv[1]), {'a': torch.zeros(1_000_000)}, about={})\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    printed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert f"{tmp_path} (File too large), where 4.0 MB are needed" in printed.stdout
    assert "ZOO_CACHE" in printed.stdout and printed.stdout.count("\n") == 1
    assert files_below(tmp_path) == {}


def test_any_single_flipped_bit_and_any_other_length_is_refused(kept: tuple[Path, TensorFileContent]) -> None:
    path, content = kept
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        start = position // 64 * 64
        end = min(len(whole), start + 64)
        with pytest.raises(WeightsRefused, match=f"are damaged between bytes {start:,} and {end:,}; {REMEDY}"):
            read_tensors(path, content, remedy=REMEDY)
    for other in [whole[:end] for end in range(0, len(whole), 7)] + [whole + b"\0", whole * 2]:
        path.write_bytes(other)
        with pytest.raises(WeightsRefused, match=f"found {len(other):,} bytes, expected {len(whole):,}; {REMEDY}"):
            read_tensors(path, content, remedy=REMEDY)


def test_what_is_no_file_of_tensors_is_one_sentence(kept: tuple[Path, TensorFileContent]) -> None:
    path, content = kept
    path.write_bytes(b"no header")
    summing = BlockChecksums()
    summing.update(memoryview(b"no header"))
    right = TensorFileContent(sha256=hashlib.sha256(b"no header").hexdigest(), size_bytes=9, sums=summing.sums())
    with pytest.raises(WeightsRefused, match="are no safetensors file"):
        read_tensors(path, right, remedy=REMEDY)
    path.unlink()
    with pytest.raises(StoreError, match=rf"cannot be read \(No such file or directory\); {REMEDY}"):
        read_tensors(path, content, remedy=REMEDY)
    path.mkdir()
    with pytest.raises((StoreError, WeightsRefused), match=REMEDY):
        read_tensors(path, content, remedy=REMEDY)


def test_tensors_are_their_own_and_stay_when_the_file_is_replaced_or_removed(
    kept: tuple[Path, TensorFileContent],
) -> None:
    path, content = kept
    before = path.read_bytes()
    read = read_tensors(path, content, remedy=REMEDY)
    for tensor in read_tensors(path, content, remedy=REMEDY).values():
        tensor.zero_()
    assert path.read_bytes() == before
    write_tensors(path.parent, state(), about=ABOUT)
    os.unlink(path)
    assert equal(read, state())


def sums_of(content: bytes | bytearray) -> tuple[str, ...]:
    summing = BlockChecksums()
    summing.update(memoryview(content))
    return summing.sums()


def test_a_mapped_file_and_its_bytes_in_pieces_have_the_same_sums(tmp_path: Path) -> None:
    for n_bytes in (1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 12345):
        content = random.Random(n_bytes).randbytes(n_bytes)
        (tmp_path / "file").write_bytes(content)
        summing, position, chance = BlockChecksums(), 0, random.Random(1)
        while position < n_bytes:
            length = chance.choice((1, 1000, 300_000, BLOCK, 2 * BLOCK))
            summing.update(memoryview(content)[position : position + length])
            position += length
        with open(tmp_path / "file", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
            assert summing.sums() == sums_of(content) == tuple(compute_block_sums(mapped))
        assert len(sums_of(content)) == -(-n_bytes // BLOCK)


def test_changed_words_change_the_sum_of_their_block_and_no_other() -> None:
    """Up to three of them, also where a plain sum would not notice: the highest bit of two, or as much more as less."""
    content = bytearray(random.Random(0).randbytes(3 * BLOCK))
    before = sums_of(content)
    for position in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 77, 3 * BLOCK - 1):
        content[position] ^= 128
        changed = [
            number for number, (now, then) in enumerate(zip(sums_of(content), before, strict=True)) if now != then
        ]
        assert changed == [position // BLOCK]
        content[position] ^= 128
    empty = sums_of(bytes(BLOCK))
    for words in [*combinations((0, 1, 512, 513, 131071), 2), *combinations((0, 1, 512, 513), 3)]:
        highest, more_and_less = bytearray(BLOCK), bytearray(BLOCK)
        for number, word in enumerate(words):
            highest[word * 8 + 7] ^= 128  # adds 2^63, and twice that is nothing
            change = 5 if number else -5 * (len(words) - 1)
            more_and_less[word * 8 : (word + 1) * 8] = change.to_bytes(8, "little", signed=True)
        assert empty not in (sums_of(highest), sums_of(more_and_less))
