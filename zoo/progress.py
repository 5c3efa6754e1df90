"""Progress of downloads and of runs over images: the protocol, a silent one, and a bar."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from .errors import escape_unprintable


class Progress(Protocol):
    """Receives how much of a piece of work is done, in its unit: bytes of a file, images of a run."""

    def start(self, name: str, total: int | None, done: int) -> None:
        """The work begins or resumes at ``done``; called again if a file is fetched from its start."""

    def advance(self, n: int) -> None:
        """``n`` more are done."""

    def end(self) -> None:
        """The work has ended, complete or not."""


class SilentProgress:
    """Shows no progress."""

    def start(self, name: str, total: int | None, done: int) -> None: ...

    def advance(self, n: int) -> None: ...

    def end(self) -> None: ...


class ProgressBar:
    """A bar with the rate and the time left on stderr, for a terminal or a notebook; ``unit`` is "B" or "images".

    Silent where stderr is no terminal, ``HF_HUB_DISABLE_PROGRESS_BARS`` or ``TQDM_DISABLE`` is set, or tqdm is missing.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._bar: Any = None

    def start(self, name: str, total: int | None, done: int) -> None:
        try:
            from tqdm.auto import tqdm
        except ModuleNotFoundError:  # work goes on without its bar
            return
        if self._bar is not None:  # another request for the same file
            self._bar.total, self._bar.n = total, done
            self._bar.refresh()
            return
        is_bytes = self._unit == "B"
        self._bar = tqdm(
            desc=escape_unprintable(name),
            total=total,
            initial=done,
            unit=self._unit if is_bytes else f" {self._unit}",
            unit_scale=is_bytes,
            unit_divisor=1000,
            file=sys.stderr,
            disable=True if _is_unwanted() else None,  # None: where stderr is no terminal
        )

    def advance(self, n: int) -> None:
        if self._bar is not None:
            self._bar.update(n)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _is_unwanted() -> bool:
    variables = ("HF_HUB_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")
    return any(os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE") for variable in variables)
