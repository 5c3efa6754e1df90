"""How far a download is."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

from ..optional import requires_extra


class Progress(Protocol):
    """What a download tells about itself; one for each file."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """A body begins or goes on at ``done_bytes``; called again if the file has to be fetched from its start."""

    def advance(self, n_bytes: int) -> None:
        """More bytes are on the disk."""

    def end(self) -> None:
        """No more will come, whether the file is whole or not."""


class Silent:
    """A progress that nobody sees."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """Says nothing."""

    def advance(self, n_bytes: int) -> None:
        """Says nothing."""

    def end(self) -> None:
        """Says nothing."""


class Bar:
    """Bytes, speed and time left on stderr, in the terminal's or the notebook's way.

    Silent where stderr is no terminal, or ``HF_HUB_DISABLE_PROGRESS_BARS`` or ``TQDM_DISABLE`` is set.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """Draws the bar, with what was there before as done."""
        with requires_extra("models", needed_for="Downloading weights"):
            from tqdm.auto import tqdm
        if self._bar is not None:  # another request for the same file
            self._bar.total, self._bar.n = total_bytes, done_bytes
            self._bar.refresh()
            return
        self._bar = tqdm(
            desc=name,
            total=total_bytes,
            initial=done_bytes,
            unit="B",
            unit_scale=True,
            unit_divisor=1000,
            file=sys.stderr,
            disable=True if _is_unwanted() else None,  # None: where stderr is no terminal
        )

    def advance(self, n_bytes: int) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.update(n_bytes)

    def end(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _is_unwanted() -> bool:
    variables = ("HF_HUB_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")
    return any(os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE") for variable in variables)
