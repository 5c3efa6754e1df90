"""What a run of studies can be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many steps are done, and of how many."""


def no_progress(what: str, done: int, total: int) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Choices of a user; every study takes them all and reads those that concern it."""

    seed: int = 0  # of the bootstrap, the folds and the tuning
    tune: bool = False  # search the trees' settings anew instead of taking the stored ones
    n_trials: int = 50  # of that search, each target
    n_workers: int = 0  # processes; 0 means one a core
    encoders: tuple[str, ...] = ()  # of the radar; empty means those of the paper
    progress: Progress = no_progress
