"""Files of converted weights: written whole, named by their content, and refused if a single bit is another one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors
import torch
from safetensors.torch import load_file

from tests.weights.test_store import every_fault, files_below
from zoo.errors import StoreError, WeightsRefused
from zoo.weights import tensors
from zoo.weights import tensors as sums
from zoo.weights.store import file_name
from zoo.weights.tensors import Content, read_tensors, write_tensors

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
    for name, value in {"BLOCK": 64, "_ROWS": 2, "_COLUMNS": 4}.items():
        monkeypatch.setattr(sums, name, value)
    yield 64


class TestWriting:
    def test_every_type_and_shape_survives(self, tmp_path: Path) -> None:
        content = write_tensors(tmp_path / "new" / "folder", state(), about=ABOUT)
        path = tmp_path / "new" / "folder" / file_name(content.sha256)
        assert equal(read_tensors(path, content, remedy=REMEDY), state())
        assert equal(load_file(path), state())
        with safetensors.safe_open(path, framework="pt") as file:
            assert file.metadata() == ABOUT

    def test_the_name_is_the_hash_of_the_content(self, tmp_path: Path) -> None:
        content = write_tensors(tmp_path, state(), about=ABOUT)
        ((name, found),) = files_below(tmp_path).items()
        assert name == f"{hashlib.sha256(found).hexdigest()}.safetensors"
        assert content.sha256 == hashlib.sha256(found).hexdigest()
        assert content.size_bytes == len(found)

    def test_equal_tensors_are_equal_files_in_whatever_order(self, tmp_path: Path) -> None:
        backwards = dict(reversed(state().items()))
        first = write_tensors(tmp_path, state(), about=ABOUT)
        assert write_tensors(tmp_path, backwards, about=dict(reversed(ABOUT.items()))) == first
        assert write_tensors(tmp_path, state(), about=ABOUT | {"layout": "dino 2"}) != first
        assert len(files_below(tmp_path)) == 2

    @pytest.mark.parametrize("n_bytes", [1, 63, 64, 65, 128, 1000])
    def test_sums_cover_every_byte(self, tmp_path: Path, small_blocks: int, n_bytes: int) -> None:
        content = write_tensors(tmp_path, {"a": torch.zeros(n_bytes, dtype=torch.uint8)}, about={})
        assert len(content.sums) == -(-content.size_bytes // small_blocks)
        read_tensors(tmp_path / file_name(content.sha256), content, remedy=REMEDY)

    def test_after_any_fault_all_or_nothing_is_there(self, tmp_path: Path) -> None:
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

    def test_a_full_disk_is_one_sentence_that_says_how_much_is_needed(self, tmp_path: Path) -> None:
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
        printed = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert f"{tmp_path} (File too large), where 4.0 MB are needed" in printed.stdout
        assert "ZOO_CACHE" in printed.stdout and printed.stdout.count("\n") == 1
        assert files_below(tmp_path) == {}


class TestReading:
    @pytest.fixture
    def kept(self, tmp_path: Path, small_blocks: int) -> tuple[Path, Content]:
        content = write_tensors(tmp_path, state(), about=ABOUT)
        return tmp_path / file_name(content.sha256), content

    def test_any_single_flipped_bit_is_refused_and_found(self, kept: tuple[Path, Content]) -> None:
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

    def test_any_other_length_is_refused(self, kept: tuple[Path, Content]) -> None:
        path, content = kept
        whole = path.read_bytes()
        for damaged in [whole[:end] for end in range(len(whole))] + [whole + b"\0", whole * 2]:
            path.write_bytes(damaged)
            with pytest.raises(
                WeightsRefused, match=f"found {len(damaged):,} bytes, expected {len(whole):,}; {REMEDY}"
            ):
                read_tensors(path, content, remedy=REMEDY)

    def test_what_is_no_file_is_one_sentence(self, kept: tuple[Path, Content]) -> None:
        path, content = kept
        path.unlink()
        with pytest.raises(StoreError, match=rf"cannot be read \(No such file or directory\); {REMEDY}"):
            read_tensors(path, content, remedy=REMEDY)
        path.mkdir()
        with pytest.raises((StoreError, WeightsRefused), match=REMEDY):
            read_tensors(path, content, remedy=REMEDY)

    def test_a_file_of_another_kind_is_refused_even_with_right_checksums(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"no header")
        summing = sums.Summing()
        summing.update(memoryview(b"no header"))
        content = Content(sha256=hashlib.sha256(b"no header").hexdigest(), size_bytes=9, sums=summing.sums())
        with pytest.raises(WeightsRefused, match="are no safetensors file"):
            read_tensors(path, content, remedy=REMEDY)

    def test_writing_to_a_tensor_does_not_write_to_the_file(self, kept: tuple[Path, Content]) -> None:
        path, content = kept
        before = path.read_bytes()
        for tensor in read_tensors(path, content, remedy=REMEDY).values():
            tensor.zero_()
        assert path.read_bytes() == before
        assert equal(read_tensors(path, content, remedy=REMEDY), state())

    def test_tensors_stay_when_the_file_is_replaced_or_removed(self, kept: tuple[Path, Content]) -> None:
        path, content = kept
        read = read_tensors(path, content, remedy=REMEDY)
        write_tensors(path.parent, state(), about=ABOUT)
        os.unlink(path)
        assert equal(read, state())
