"""Progress of the runs of learning curves, and the time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runs import CurveRun, Job
    from .tuning import Step

_LONGEST_S = 1e7  # four months; a longer estimate is not shown


class CurveProgress:
    """Called as runs go on; this one shows nothing."""

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Runs begin, ``n_done`` of which were done before; the others take ``n_steps`` steps in all, at most.

        Called again when it is known what else is to be done.
        """

    def began(self, job: Job) -> None:
        """A run begins."""

    def step(self, job: Job, step: Step) -> None:
        """A run has done a step."""

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """A run is done and in the cache; None if it failed."""

    def end(self) -> None:
        """No more will come, whether all are done or not."""


class TimeLeft:
    """Seconds left of some runs, from the steps done and to come; a run that ends early has done all its steps."""

    def __init__(self, n_steps: int) -> None:
        self._total, self._ended = n_steps, 0.0
        self._under_way: dict[str, float] = {}
        self._begun_s = time.monotonic()

    def step(self, job: Job, share: float) -> None:
        self._under_way[job.key] = share * job.n_steps

    def ended(self, job: Job) -> None:
        self._under_way.pop(job.key, None)
        self._ended += job.n_steps

    def seconds(self, *, now_s: float | None = None) -> float | None:
        """None while nothing is known, or where it would be months."""
        done = self._ended + sum(self._under_way.values())
        taken_s = (time.monotonic() if now_s is None else now_s) - self._begun_s
        if done <= 0 or taken_s <= 0:
            return None
        left_s = max(0.0, self._total - done) * taken_s / done
        return left_s if left_s < _LONGEST_S else None


class CurveBar(CurveProgress):
    """Runs done, the ones under way and the time left, on stderr; silent where that is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._left = TimeLeft(0)
        self._now: dict[str, str] = {}  # key of a run under way -> its text

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
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
        self._now[job.key] = job.label
        self._draw()

    def step(self, job: Job, step: Step) -> None:
        share = step.step / max(1, step.n_steps)
        self._left.step(job, share)
        self._now[job.key] = f"{job.label} {100 * share:.0f} %"
        self._draw()

    def ended(self, job: Job, run: CurveRun | None) -> None:
        self._left.ended(job)
        self._now.pop(job.key, None)
        if self._bar is not None and run is not None:
            self._bar.advance(self._task)
        self._draw()

    def end(self) -> None:
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
