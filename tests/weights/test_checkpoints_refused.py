"""Malicious, damaged and foreign files are refused in one sentence, and nothing that they ask for happens."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.weights.malice import armed, text, whole
from tests.weights.malice_bombs import tensor
from tests.weights.malice_files import malicious_files, torch_zip
from tests.weights.malice_good import good_files
from zoo.errors import WeightsRefused
from zoo.weights.checkpoints import read_checkpoint

STRESS = REPOSITORY / "tests" / "stress" / "malicious_files.py"
TEETH = """
import pickle, sys, warnings
from pathlib import Path
import numpy, torch
from tests.stress.malicious_files import Guard
from tests.weights.malice import armed
warnings.simplefilter("ignore")
canary, guard = Path(sys.argv[1]), Guard()

def unpickled(data):
    try:
        pickle.loads(data)
    except (TypeError, AttributeError, ValueError, IndexError, KeyError, OSError, pickle.UnpicklingError):
        pass
    return canary.exists()

harmless = [name for name, data in armed(canary).items() if not unpickled(data) or canary.unlink()]
sys.addaudithook(guard)
guard.is_reading = True
unseen = [name for name, data in armed(canary).items() if unpickled(data) or not guard.harm or guard.harm.clear()]
guard.is_reading = False
print(len(armed(canary)), harmless, unseen)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=REPOSITORY, check=False
    )


def test_every_malicious_file_is_refused_in_one_sentence_and_nothing_runs(tmp_path: Path) -> None:
    path, canary = tmp_path / "file", tmp_path / "canary"
    n = 0
    for label, data in malicious_files(canary):
        path.write_bytes(data)
        with pytest.raises(WeightsRefused) as refused:
            read_checkpoint(path, what="'encoder' (https://weights.example/file)")
        message = str(refused.value)
        assert message.startswith("The file of 'encoder' (https://weights.example/file) is refused, because it"), label
        assert message.isprintable(), label
        assert message.count(". ") == 0, label
        assert len(message) < 500, label
        assert not canary.exists(), label
        n += 1
    assert n > 500
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]


def test_python_would_run_every_armed_pickle_and_the_guard_of_the_mutations_would_see_it(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    result = run("-c", TEETH, str(canary))
    assert result.stdout.split("\n")[0] == f"{len(armed(canary))} [] []", result.stderr


def test_mutated_files_run_nothing_and_neither_hang_nor_crash() -> None:
    result = run(str(STRESS), "--mutations", "60", "--workers", "1", "--seed", "7", "--without-corpus")
    assert "0 executed, 0 hung, 0 crashed, 0 greedy, 0 accepted, 0 unclear" in result.stdout, (
        result.stdout + result.stderr
    )
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html>", "it is a page of a web server"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of git-lfs, not the file it points to"),
        (b"\x1f\x8b\x08\0", "it is a gzip file"),
        (bytes(257) + b"ustar", "it is a tar archive"),
        (b"\x89HDF\r\n", "it is an HDF5 file"),
        (b"abc\x1b[31m", "it is a file of another kind that starts with 61 62 63 1b 5b 33 31 6d"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, start: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(start + b"\0" * 1000 * bool(start))
    with pytest.raises(WeightsRefused, match=reason.replace("[", r"\[")):
        read_checkpoint(path, what="'encoder'")


def test_a_name_from_a_file_cannot_play_with_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(whole(text("\x1b[2J\u202e") + text("os" + "x" * 500) + b"\x93"))
    with pytest.raises(WeightsRefused) as refused:
        read_checkpoint(path, what="'encoder'")
    assert r"it asks for '\x1b[2J\u202e.osxxx" in str(refused.value)
    assert "x..." in str(refused.value)


@pytest.mark.parametrize("label", good_files())
def test_a_good_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, label: str) -> None:
    path, data = tmp_path / "file", good_files()[label]
    for length in range(0, len(data), max(1, len(data) // 50)):
        path.write_bytes(data[:length])
        with pytest.raises(WeightsRefused):
            read_checkpoint(path, what="'encoder'")


def test_a_file_that_is_both_a_tar_archive_and_a_pickle_is_not_unpacked(tmp_path: Path) -> None:
    head = b"\x80\2X\0\2\0\0evil"  # a text of 512 bytes, the first block of a tar archive
    block = bytearray(head.ljust(512, b"\0"))
    block[100:136] = b"0000644\x000000000\x000000000\x0000000000000\x00"[:36]
    block[257:263] = b"ustar\0"
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    path = tmp_path / "file"
    path.write_bytes(bytes(block) + bytes(7) + b"." + bytes(1024))
    with pytest.raises(WeightsRefused, match="something after the end of its pickle"):
        read_checkpoint(path, what="'encoder'")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_refusal_keeps_neither_the_file_open_nor_its_bytes_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(torch_zip(whole(tensor(0, (4,), (1,)) + tensor(1, (4,), (1,)) + b"\x86")))
    with pytest.raises(WeightsRefused) as refused:
        read_checkpoint(path, what="'encoder'")
    gc.disable()  # frames of the error must not be what keeps it
    try:
        assert str(path) not in Path("/proc/self/maps").read_text()
        assert str(path) not in [os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()]
    finally:
        gc.enable()
    assert "beyond its storage" in str(refused.value)
