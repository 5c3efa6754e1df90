"""What ``zoo curve`` tells where there is no terminal for a bar: a line for each run that is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..evaluation.curves.progress import TimeLeft, time_text

if TYPE_CHECKING:
    from ..evaluation.curves.choosing import Step
    from ..evaluation.curves.jobs import Job
    from ..evaluation.curves.runs import CurveRun


class FinishedRuns:
    """Lines on stderr, one a run, with its risks and the time left.

    Parameters
    ----------
    several : bool
        Whether there are several architectures, so that a control must say of which it is.
    """

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._n_jobs = self._n_done = 0
        self._left = TimeLeft(0)

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Says how many runs there are, and how many of them were finished before; nothing where all were."""
        if n_done < n_jobs:
            there = f", {n_done} of them finished before" if n_done else ""
            click.echo(f"{n_jobs} run{'s' * (n_jobs != 1)}{there}", err=True)
        self._n_jobs, self._n_done = n_jobs, n_done
        self._left = TimeLeft(n_steps)

    def began(self, job: Job) -> None:
        """Says nothing."""

    def step(self, job: Job, step: Step) -> None:
        """Counts steps, for the time left."""
        self._left.step(job, step.step / max(1, step.n_steps))

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """Says what a run has found, or that it failed; why is said at the end."""
        self._left.ended(job)
        if run is None:
            click.echo(f"failed: {self._label(job)}", err=True)
            return
        self._n_done += 1
        found = ", ".join(f"{metric} {run.risk(metric):.4g}" for metric in run.risks)
        left = time_text(self._left.seconds()) if self._n_done < self._n_jobs else ""
        click.echo(f"{self._n_done} of {self._n_jobs}: {self._label(job)}: {found}{left and f' ({left})'}", err=True)

    def end(self) -> None:
        """Says nothing."""

    def _label(self, job: Job) -> str:
        of_network = self._several and job.control in ("scratch", "maximal")
        return f"{job.label}, architecture of {job.candidate.name}" if of_network else job.label
