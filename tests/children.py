"""Functions in processes of their own, which are forks: PyTorch is not imported again, as it is by a new process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
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
