"""Processes do every piece of work once, or say why not, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.execution.pieces import Following, slow, squared, telling, troubled, variable
from zoo.errors import QueryError
from zoo.execution.executor import N_TRIES, Resources
from zoo.execution.processes import Processes, format_worker_name

ONE = Resources()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Two, for all tests of this module: those that die are replaced."""
    with closing(Processes(2)) as two:
        yield two


def test_outcomes_come_as_they_end_with_the_threads_that_a_piece_takes(processes: Processes) -> None:
    outcomes: list[Any] = [*processes.map_unordered(squared, range(8), ONE)]
    assert sorted((one.work, one.value) for one in outcomes) == [(number, number**2) for number in range(8)]
    workers = {one.worker for one in outcomes}
    assert 1 <= len(workers) <= 2 == processes.n_workers and format_worker_name() not in workers
    for n_cpus in (1, 2):
        outcomes = [*processes.map_unordered(variable, ["OMP_NUM_THREADS"], Resources(n_cpus=n_cpus))]
        assert [one.value for one in outcomes] == [str(n_cpus)]


def test_what_fails_is_tried_again_elsewhere_and_only_that(processes: Processes, tmp_path: Path) -> None:
    names = ["one", "killed", "dies", "raises", "refuses", "two", "three"]
    outcomes = {one.work: one for one in processes.map_unordered(partial(troubled, tmp_path), names, ONE)}
    pids = {name: (tmp_path / name).read_text().split() for name in names}
    assert {name: len(tries) for name, tries in pids.items()} == {
        "one": 1, "two": 1, "three": 1, "killed": 3, "raises": 3, "dies": N_TRIES, "refuses": 1,
    }  # fmt: skip
    for name in ("killed", "dies", "raises"):
        assert all(first != second for first, second in zip(pids[name], pids[name][1:], strict=False))
    assert {name: one.value for name, one in outcomes.items() if not one.failed} == {
        "one": "one 1", "two": "two 1", "three": "three 1", "killed": "killed 3", "raises": "raises 3",
    }  # fmt: skip
    assert [failure.kind for failure in outcomes["dies"].failures] == ["WorkerDied"] * N_TRIES
    assert [failure.text for failure in outcomes["raises"].failures] == ["Try 1 failed.", "Try 2 failed."]
    (refused,) = outcomes["refuses"].failures
    assert refused.is_final and isinstance(refused.error(), QueryError)


@pytest.mark.parametrize("n", [0, 2])
def test_work_may_follow_from_outcomes(processes: Processes, n: int) -> None:
    executor = processes if n else Processes(0)
    work = deque([1])
    seen: list[Any] = []
    for outcome in executor.map_unordered(squared, Following(work), ONE):
        seen.append(outcome.value)
        work.extend([2] * (len(seen) == 1))
    assert seen == [1, 4]


def test_closing_the_outcomes_leaves_nothing_running(processes: Processes, tmp_path: Path) -> None:
    outcomes = processes.map_unordered(partial(slow, tmp_path), iter(range(5)), ONE)
    with pytest.raises(RuntimeError, match="at other work already"), closing(outcomes):  # type: ignore[type-var]
        first = next(outcomes)
        processes.map_unordered(squared, [1], ONE)
    assert first.value == 1
    idle = int(first.worker.rpartition("-")[2])
    assert {pid for pid in noted(tmp_path) if is_alive(pid)} <= {idle}
    assert [one.value for one in processes.map_unordered(squared, [3], ONE)] == [9]


def test_this_process_does_the_same_with_what_cannot_be_pickled(processes: Processes, tmp_path: Path) -> None:
    told: list[object] = []
    here = Processes(0)
    here.listen = told.append
    outcomes = {one.work: one for one in here.map_unordered(lambda what: troubled(tmp_path, what), ["raises"], ONE)}
    assert outcomes["raises"].value == "raises 3" and len(outcomes["raises"].failures) == 2
    assert outcomes["raises"].worker == format_worker_name() and here.n_workers == 1
    (none,) = here.map_unordered(lambda what: None, ["x"], ONE)
    assert none.failed and "no value" in none.failures[0].text
    (bug,) = here.map_unordered(lambda what: what[1], ["x"], ONE)
    assert bug.failures[0].kind == "IndexError" and "test_processes.py, line" in bug.failures[0].text
    list(here.map_unordered(telling, [1, 2], ONE))
    assert told == ["at 1", "at 2"]
    for function, work in ((lambda number: number, 1), (str, lambda: 1)):
        with pytest.raises(QueryError, match="functions of a module"):
            list(processes.map_unordered(function, [work], ONE))
    with pytest.raises(QueryError, match="expected 0 or more"):
        Processes(-1)


SCRIPT = """
import os, sys
from functools import partial
from pathlib import Path
from tests.execution.pieces import slow, telling
from zoo.execution.executor import Resources
from zoo.execution.processes import Processes

def main():
    told = []
    processes = Processes(2)
    processes.listen = told.append
    if sys.argv[2:] == ["tell"]:
        print(*[one.value for one in processes.map_unordered(telling, [1], Resources())], *told)
        return
    for outcome in processes.map_unordered(partial(slow, Path(sys.argv[1])), range(1, 4), Resources()):
        print(outcome)
"""
GUARD = 'if __name__ == "__main__":\n    main()\n'


def started(folder: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(script)
    command = [sys.executable, str(path), str(folder), *arguments]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True)


def noted(folder: Path) -> list[int]:
    return [int(path.suffix[1:]) for path in folder.glob("pid.*")]


def is_alive(pid: int) -> bool:
    """Zombies, of processes that nobody waits for, are not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, how: signal.Signals) -> None:
    parent = started(tmp_path, SCRIPT + GUARD)
    deadline = time.monotonic() + 60
    while len(noted(tmp_path)) < 2 and parent.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(noted(tmp_path)) == 2
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)  # as the keys do it
    else:
        parent.send_signal(how)
    _, said = parent.communicate(timeout=60)
    while any(map(is_alive, noted(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, noted(tmp_path)))
    assert said.count("Traceback") == (how == signal.SIGINT), said  # of the parent alone


def test_a_script_may_do_its_work_below_its_name_and_nowhere_else(tmp_path: Path) -> None:
    refused = started(tmp_path, SCRIPT + "main()\n", "tell")
    assert 'puts its work below if __name__ == "__main__"' in refused.communicate(timeout=60)[1]
    done = started(tmp_path, SCRIPT + GUARD, "tell")
    assert done.communicate(timeout=60) == ("1 at 1\n", "")
