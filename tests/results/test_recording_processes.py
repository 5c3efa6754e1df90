"""Recording when other processes write, when writers are killed, and when the disk is full or has no locks."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.results.record_writers import leftovers, measured, provenance, record_at_once
from zoo.results.recording import find_provenance, record
from zoo.results.rows import measurements

ROW = measured("this process", 0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    return tmp_path


def test_several_processes_at_once_lose_nothing_although_some_are_killed() -> None:
    found = record_at_once(n_writers=3, n_rows=5, n_killed=1, seed=3)
    assert found.errors == ""
    assert found.n_acknowledged >= 2 * 5
    assert (found.n_lost, found.n_twice, found.n_bare) == (0, 0, 0)
    assert found.n_acknowledged <= found.n_rows <= found.n_acknowledged + found.n_killed
    assert found.n_read > 0


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import zoo.files, zoo.results.recording
from tests.results.record_writers import measured, provenance
step, steps = int(sys.argv[2]), 0
def counted(real):
    def call(*arguments, **options):
        global steps
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call
os.fsync, os.replace, os.open = counted(os.fsync), counted(os.replace), counted(os.open)
row = measured("this process", 1)
zoo.results.recording.record({row: provenance(row)})
print("recorded")
"""


def test_a_kill_at_any_step_leaves_the_old_rows_or_the_new_ones_with_their_provenance(home: Path) -> None:
    record({ROW: provenance(ROW)})
    after, outcomes = measured("this process", 1), []
    for step in range(1, 99):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(REPOSITORY), str(step)], capture_output=True, text=True, check=False
        )
        rows = [row for row in measurements() if row.source == ROW.source]
        outcomes.append(rows == [ROW, after])
        assert rows in ([ROW], [ROW, after])
        assert all(find_provenance(row) == provenance(row) for row in rows)
        if done.stdout:
            break
        assert done.returncode == -9, done.stderr
    assert outcomes == sorted(outcomes) and {*outcomes} == {False, True}
    assert record({ROW: provenance(ROW), after: provenance(after)}).n_known == 2


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from zoo.errors import ResultsError
from zoo.results.recording import record
from tests.results.record_writers import measured, provenance
row = measured("this process", 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    record({row: provenance(row)})
except ResultsError as error:
    print(error)
"""


@pytest.mark.parametrize("at", ["provenance", "rows"])
def test_on_a_full_disk_what_was_recorded_stays_and_one_sentence_says_so(home: Path, at: str) -> None:
    (path,) = record({ROW: provenance(ROW)}).paths
    beside = path.with_name("dino_vitS16.provenance.jsonl")
    if at == "rows":  # many rows, whose provenance has been moved away
        record({measured("before", number): provenance(ROW) for number in range(40)})
        beside.write_bytes(b"")
    before, limit = path.read_bytes(), beside.stat().st_size + 100 if at == "provenance" else path.stat().st_size + 50
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(REPOSITORY), str(limit)], capture_output=True, text=True, check=True
    )
    assert f"The results in {path.parent} cannot be written (File too large)" in done.stdout
    assert done.stdout.count("\n") == 1
    assert path.read_bytes() == before
    assert leftovers(home) == []
    after = measured("this process", 1)
    assert record({after: provenance(after)}).n_new == 1
    assert find_provenance(after) == provenance(after)


def test_a_file_system_without_locks_is_written_to_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert record({ROW: provenance(ROW)}).n_new == 1
    assert ROW in measurements()
