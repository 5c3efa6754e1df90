"""Tuning boosted trees on the study table: one outcome, or several at once, each in a process of its own.

How a search goes, and why it is quick, is told in :mod:`zoo.analysis.tree_search`; what was tuned once is stored and
read by :mod:`zoo.analysis.stored_trees`. An error that was searched for is the least of many noisy ones and flatters:
score settings on other folds.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from ..errors import QueryError
from .stored_trees import stored_tuning, tuned_parameters, written_parameters
from .table import StudyTable
from .tree_features import named_features
from .tree_search import Search, Tuned, searched
from .trees import number_of_workers, sample_of

__all__ = [
    "Progress", "Search", "Tuned", "searched_all", "stored_tuning", "tune", "tune_all", "tuned_parameters",
    "written_parameters",
]  # fmt: skip
Progress = Callable[[str, int, int], None]
"""Told what was tuned, how many targets are done, and of how many."""


def tune(
    table: StudyTable,
    outcome: str,
    *,
    features: str | Sequence[str] = "few",
    n_trials: int = 50,
    n_folds: int = 10,
    seed: int = 0,
    give_up: bool = True,
    stop_at: float | None = None,
) -> Tuned:
    """Searches the settings of the trees that predict an outcome best out of fold.

    Parameters
    ----------
    table : StudyTable
    outcome, features : str
        As in :func:`zoo.analysis.importance.explained_variance`.
    n_trials, n_folds : int
    seed : int
        Of the search, the folds and the trees; the folds are others than those of scoring with the same seed.
    give_up : bool
        End hopeless trials; else each is boosted through 2000 rounds.
    stop_at : float, optional
        End the search at the first trial whose error is no larger.

    Raises
    ------
    UnknownName, QueryError
        As :func:`zoo.analysis.trees.sample_of`, with one encoder a fold at least; or if there is no trial to do.
    """
    sample = sample_of(table, outcome, features, n_least=n_folds)
    return searched(
        Search(
            sample=sample, outcome=outcome, features=named_features(features), n_trials=n_trials, n_folds=n_folds,
            seed=seed, give_up=give_up, stop_at=stop_at,
        )
    )  # fmt: skip


def tune_all(
    table: StudyTable,
    outcomes: Sequence[str],
    *,
    features: str | Sequence[str] = "few",
    n_trials: int = 50,
    n_folds: int = 10,
    seed: int = 0,
    n_workers: int = 0,
    progress: Progress | None = None,
) -> dict[str, Tuned]:
    """:func:`tune` for several outcomes, each in a process of its own; the result does not depend on their number.

    Parameters
    ----------
    n_workers : int
        Processes; 0 takes one a core, 1 stays in this process.
    progress : callable, optional
        Called with the outcome that has been tuned, the number done and the number of all.

    Raises
    ------
    QueryError
        As :func:`tune`; or if processes cannot be started here.
    """
    searches = [
        Search(
            sample=sample_of(table, outcome, features, n_least=n_folds), outcome=outcome,
            features=named_features(features), n_trials=n_trials, n_folds=n_folds, seed=seed,
        )
        for outcome in dict.fromkeys(outcomes)
    ]  # fmt: skip
    found: dict[str, Tuned] = {}
    for tuned in searched_all(searches, n_workers):
        found[tuned.outcome] = tuned
        if progress is not None:
            progress(tuned.outcome, len(found), len(searches))
    return found


def searched_all(searches: Sequence[Search], n_workers: int = 0) -> Iterator[Tuned]:
    """What searches find, in their order, each as soon as it and those before it are done.

    Raises
    ------
    QueryError
        As :func:`zoo.analysis.tree_search.searched`; or if processes cannot be started here.
    """
    workers = min(number_of_workers(n_workers), len(searches))
    if workers <= 1:
        yield from map(searched, searches)
        return
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(searched, searches)
    except BrokenProcessPool as error:
        raise QueryError(
            "A process that was started for tuning has died, as all do if the script that tunes does not keep its own "
            'work below if __name__ == "__main__"; put that line there, or tune with n_workers=1.'
        ) from error
