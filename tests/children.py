"""Functions in processes of their own, which are forks: PyTorch is not imported again, as it is by a new process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch


class Child:
    """A function in a process of its own, with one thread, as torch's loaders do it.

    Parameters
    ----------
    function : callable
        Without arguments; its result is pickled.
    has_children : bool, optional
        It starts processes itself; then nothing ends it with this process.
    """

    def __init__(self, function: Callable[[], object], *, has_children: bool = False) -> None:
        forking = multiprocessing.get_context("fork")
        self._said, saying = forking.Pipe(duplex=False)
        self.process = forking.Process(target=_said_into, args=(saying, function), daemon=not has_children)
        self.process.start()
        saying.close()

    def result(self) -> Any:
        """What the function returned."""
        assert self._said.poll(100)
        found = self._said.recv()
        self.process.join(20)
        assert not self.process.is_alive()
        return found


def _said_into(saying: Connection, function: Callable[[], object]) -> None:
    torch.set_num_threads(1)
    saying.send(function())


class ForkedCommand:
    """The command ``zoo`` as ``python -m zoo`` runs it, but that what this process has imported is there already.

    Parameters
    ----------
    arguments : str
        Of the command.
    terminal : int, optional
        Descriptor of its terminal; without one it prints into files, which :meth:`finish` reads.
    environment : mapping of str to str, optional
        In addition to that of this process; without it the variables of this process.
    run : callable, optional
        In place of the command, which it then has to call.
    """

    def __init__(
        self,
        *arguments: str,
        terminal: int | None = None,
        environment: Mapping[str, str] | None = None,
        run: Callable[[], None] | None = None,
    ) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 (until the end)
        out, err = [file.fileno() if terminal is None else terminal for file in self._files]

        def begin() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            torch.set_num_threads(1)
            for number, descriptor in enumerate(
                (os.open(os.devnull, os.O_RDWR) if terminal is None else out, out, err)
            ):
                os.dup2(descriptor, number)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 (until the end)
            if environment is not None:
                os.environ.clear()
                os.environ.update(environment)
            sys.argv = ["zoo", *arguments]
            if run is not None:
                return run()
            from zoo.cli import main

            main()

        self._process = multiprocessing.get_context("fork").Process(target=begin)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return not self._process.is_alive()

    def said(self) -> tuple[str, str]:
        """What it has printed so far, to both streams."""
        out, err = (os.pread(file.fileno(), 1 << 24, 0).decode() for file in self._files)
        return out, err

    def finish(self, timeout_s: float = 600) -> tuple[int | None, str, str]:
        """Waits for its end: the exit code, and what it printed to both streams."""
        self._process.join(timeout_s)
        return self._process.exitcode, *self.said()

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float = 200) -> None:
        """Waits until something is so, and the process has not ended."""
        patience = time.monotonic() + timeout_s
        while not is_so() and time.monotonic() < patience:
            assert not self.has_ended(), self.finish()
            time.sleep(0.02)

    def end_by(self, number: int, timeout_s: float = 200) -> tuple[int | None, str, str]:
        """Sends a signal; as :meth:`finish`, and nothing is left of the process."""
        os.kill(self.pid, number)
        try:
            return self.finish(timeout_s)
        finally:
            self._process.kill()
            self._process.join()
