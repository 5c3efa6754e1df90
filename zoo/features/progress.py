"""How far a run over images is."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Progress(Protocol):
    """What a run over images tells about itself."""

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """It begins, or goes on where ``n_done`` of the images were done before."""

    def advance(self, n_images: int) -> None:
        """More images are done."""

    def end(self) -> None:
        """No more will come, whether all are done or not."""


class Silent:
    """A progress that nobody sees."""

    def start(self, name: str, n_images: int, n_done: int) -> None:
        """Says nothing."""

    def advance(self, n_images: int) -> None:
        """Says nothing."""

    def end(self) -> None:
        """Says nothing."""


class Bar:
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
