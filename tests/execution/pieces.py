"""What workers do in the tests, in a module that they can import without much else."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.errors import DataError, QueryError
from zoo.execution.processes import send_message


def squared(number: int) -> int:
    """Small numbers take longer."""
    time.sleep(0.05 if number == 0 else 0)
    return number * number


def troubled(folder: Path, what: str) -> str:
    """Does what a piece is named after, after its process has noted it; the third try of some succeeds."""
    with (folder / what).open("a") as file:
        file.write(f"{os.getpid()}\n")
    n_tries = len((folder / what).read_text().split())
    if what == "killed" and n_tries < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "dies":
        os._exit(5)
    if what == "raises" and n_tries < 3:
        raise DataError(f"Try {n_tries} failed.")
    if what == "refuses":
        raise QueryError("No other worker could.")
    return f"{what} {n_tries}"


def slow(folder: Path, number: int) -> int:
    """Notes its process, then takes for ever, but for the first."""
    (folder / f"pid.{os.getpid()}").touch()
    time.sleep(0 if number == 0 else 600)
    return number + 1


def telling(number: int) -> int:
    """Says what it is at."""
    send_message(f"at {number}")
    return number


def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "not set")


class Following:
    """Work that may grow."""

    def __init__(self, work: deque[Any]) -> None:
        self.work = work

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.work:
            raise StopIteration
        return self.work.popleft()
