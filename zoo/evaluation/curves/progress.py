"""How far the runs of learning curves are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .runs import CurveRun, Job
    from .tuning import Step

_LONG_S = 1e7  # four months, and nobody believes an estimate


class CurveProgress(Protocol):
    """What many runs tell about themselves."""

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Runs begin, ``n_done`` of which were done before; the others take ``n_steps`` steps in all, at most.

        Called again when it is known what else is to be done.
        """

    def began(self, job: Job) -> None:
        """A run begins."""

    def step(self, job: Job, step: Step) -> None:
        """A run has gone on."""

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """A run is done and kept; None if it failed."""

    def end(self) -> None:
        """No more will come, whether all are done or not."""


class Silent:
    """A progress that nobody sees."""

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Says nothing."""

    def began(self, job: Job) -> None:
        """Says nothing."""

    def step(self, job: Job, step: Step) -> None:
        """Says nothing."""

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """Says nothing."""

    def end(self) -> None:
        """Says nothing."""


class TimeLeft:
    """What is left of some runs, in seconds, from the steps that were done and those that are to come.

    A run that ends early has done all its steps: those to come will end as early.
    """

    def __init__(self, n_steps: int) -> None:
        self._total, self._ended = n_steps, 0.0
        self._under_way: dict[str, float] = {}
        self._begun_s = time.monotonic()

    def step(self, job: Job, share: float) -> None:
        """A run has done a share of its steps."""
        self._under_way[job.key] = share * job.n_steps

    def ended(self, job: Job) -> None:
        """A run is done."""
        self._under_way.pop(job.key, None)
        self._ended += job.n_steps

    def seconds(self, *, now_s: float | None = None) -> float | None:
        """None while nothing is known."""
        done = self._ended + sum(self._under_way.values())
        taken_s = (time.monotonic() if now_s is None else now_s) - self._begun_s
        if done <= 0 or taken_s <= 0:
            return None
        left_s = max(0.0, self._total - done) * taken_s / done
        return left_s if left_s < _LONG_S else None


class CurveBar:
    """Runs done, the ones under way and the time left, on stderr; silent where that is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._left = TimeLeft(0)
        self._now: dict[str, str] = {}  # key of a run under way -> what is said of it

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Draws the bar, with what was there before as done."""
        from rich.console import Console  # only where it may be drawn
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._left, self._now = TimeLeft(n_steps), {}
        if self._bar is not None:
            self._bar.update(self._task, total=n_jobs, completed=n_done)
            return
        console = Console(stderr=True)
        if not console.is_terminal:
            return
        left, now = TextColumn("{task.fields[left]}"), TextColumn("{task.fields[now]}")
        self._bar = Progress(TextColumn("runs"), BarColumn(), MofNCompleteColumn(), left, now, console=console)
        self._task = self._bar.add_task("runs", total=n_jobs, completed=n_done, left="", now="")
        self._bar.start()

    def began(self, job: Job) -> None:
        """Names the run."""
        self._now[job.key] = job.label
        self._draw()

    def step(self, job: Job, step: Step) -> None:
        """Says how far the run is."""
        share = step.step / max(1, step.n_steps)
        self._left.step(job, share)
        self._now[job.key] = f"{job.label} {100 * share:.0f} %"
        self._draw()

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """Moves the bar."""
        self._left.ended(job)
        self._now.pop(job.key, None)
        if self._bar is not None and run is not None:
            self._bar.advance(self._task)
        self._draw()

    def end(self) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.update(self._task, left="", now="")
            self._bar.stop()
        self._bar = None

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, left=time_text(self._left.seconds()), now="; ".join(self._now.values()))


def time_text(seconds: float | None) -> str:
    """A time left, in words.

    >>> time_text(None), time_text(42.3), time_text(754), time_text(40_000)
    ('', '42 s left', '13 min left', '11 h 7 min left')
    """
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s left"
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min left"
