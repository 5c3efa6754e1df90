"""The suite itself: a run whose processes need too much memory fails and says for what; what stress runs leave out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress.kernels import NOT_NUMERICAL

CONFTEST = """
from tests import memory

memory.LIMIT_MB = 400

def pytest_configure(config):
    config.pluginmanager.register(memory.Memory(), "memory")
"""
SMALL = "def test_small():\n    assert True\n"
LARGE = "def test_large():\n    assert len(bytearray(600_000_000)) > 0\n"


@pytest.mark.parametrize("processes", [[], ["--numprocesses", "1"]], ids=["here", "in a worker"])
@pytest.mark.parametrize("tests", [SMALL, SMALL + LARGE], ids=["small", "large"])
def test_a_run_that_needs_too_much_memory_fails_and_names_the_test(
    tests: str, processes: list[str], tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *processes]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=repository, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == (1 if tests != SMALL else 0), done.stdout + done.stderr
    assert ("MB are allowed" in done.stdout) == ("test_large" in done.stdout) == (tests != SMALL)


def test_the_size_of_a_process_is_not_that_of_the_one_that_started_it(repository: Path) -> None:
    small = "from tests.memory import _peak_mb; print(_peak_mb())"
    large = f"import subprocess, sys; held = b'1' * 600_000_000; subprocess.run([sys.executable, '-c', {small!r}])"
    done = subprocess.run(
        [sys.executable, "-c", large], cwd=repository, capture_output=True, text=True, timeout=120, check=True
    )
    assert 0 < float(done.stdout) < 400


def test_every_file_that_is_not_run_with_other_kernels_exists(repository: Path) -> None:
    assert [pattern for pattern in NOT_NUMERICAL if not list((repository / "tests").rglob(f"{pattern}.py"))] == []
