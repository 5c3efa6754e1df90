"""How far a download is."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Protocol

from .optional import requires_extra


class DownloadProgress(Protocol):
    """What a download tells about itself; one for each file."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """A body begins or goes on at ``done_bytes``; called again if the file has to be fetched from its start."""

    def advance(self, n_bytes: int) -> None:
        """More bytes are on the disk."""

    def end(self) -> None:
        """No more will come, whether the file is whole or not."""


class NoDownloadBar:
    """A progress that nobody sees."""

    def start(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """Says nothing."""

    def advance(self, n_bytes: int) -> None:
        """Says nothing."""

    def end(self) -> None:
        """Says nothing."""


class DownloadBar:
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


class ImageProgress(Protocol):
    """What a run over images tells about itself."""

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """It begins, or goes on where ``n_done`` of the images were done before."""

    def advance(self, n_images: int) -> None:
        """More images are done."""

    def end(self) -> None:
        """No more will come, whether all are done or not."""


class NoImageBar:
    """A progress that nobody sees."""

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """Says nothing."""

    def advance(self, n_images: int) -> None:
        """Says nothing."""

    def end(self) -> None:
        """Says nothing."""


class ImageBar:
    """Images, images per second and time left on stderr; silent where that is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._begun_s = 0.0
        self._n_new = 0

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """Draws the bar, with what was there before as done."""
        from rich.console import Console  # only where it may be drawn
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Drawn

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        self._bar = Drawn(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(name, total=n_images, completed=n_done, rate="")
        self._begun_s, self._n_new = time.monotonic(), 0
        self._bar.start()

    def advance(self, n_images: int) -> None:
        """Moves the bar."""
        if self._bar is None:
            return
        self._n_new += n_images
        per_second = self._n_new / max(time.monotonic() - self._begun_s, 1e-9)
        self._bar.update(self._task, advance=n_images, rate=f"{per_second:,.{1 if per_second < 10 else 0}f} images/s")

    def end(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
