"""Tuning boosted trees by cross-validation: one outcome, or several at once in processes.

The space, the sampler (TPE) and the error (the mean of ten fold RMSEs) are those of Dubois et al. 2023, Appendix C.4.
Each trial is scored at 300, 1000 and 2000 rounds, all folds side by side, and ends as soon as a straight continuation
of its last 100 rounds would not beat the best error. After each 50 trials the sampler starts afresh. The error of the
best settings is optimistic (selection): score settings on other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..execution.executor import Resources, n_cores
from ..execution.processes import Processes
from ..optional import requires_extra
from .table import StudyTable
from .trees import (
    Array,
    Sample,
    boost,
    booster_of,
    drawn_folds,
    named_features,
    number_of_workers,
    others,
    sample_of,
)

with requires_extra("study", needed_for="Tuning trees"):
    import numpy as np
    import optuna
    import xgboost

ROUNDS = (300, 1000, 2000)  # at which a trial is scored
TRIALS_OF_A_SAMPLER = 50
RANDOM_TRIALS = 20  # of a sampler, before the estimator takes over
_SEED_STEP = 1_000_003  # between two samplers of one search
_ROUNDS_BETWEEN_ERRORS, _ROUNDS_CONTINUED = 50, 100  # the fall over the latter is continued as a straight line
FoldMatrices = tuple[xgboost.DMatrix, xgboost.DMatrix, Array]  # to train on, held out, and the held-out outcomes
Progress = Callable[[str, int, int], None]  # called with the tuned outcome, how many are done, and of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The best settings of one search."""

    outcome: str
    features: str  # name of the set, or the columns
    parameters: Mapping[str, float | int]  # with rounds
    error: float  # mean of the fold RMSEs on the folds of the search, in the outcome's unit; flatters
    n: int  # encoders
    n_folds: int
    seed: int
    n_trials: int
    n_pruned: int  # of them given up before they had a score
    share_boosted: float  # of the rounds that boosting every trial to the end would have taken
    sampler: str = f"TPE after {RANDOM_TRIALS} random trials"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search to do; it can be sent to another process."""

    sample: Sample
    outcome: str
    features: str  # name of the set, or the columns
    n_trials: int
    n_folds: int
    seed: int  # of the search, the folds and the trees
    stop_at: float | None = None  # end at the first trial whose error is no larger


@dataclass(frozen=True, slots=True)
class Course:
    """How the boosting of one trial went."""

    error: float  # best mean fold RMSE at 300, 1000 or 2000 rounds; infinite if none was reached
    hoped_for: float  # the same, or what the straight continuation would have come to where that is less
    rounds: int | None  # at which; None if the trial was given up before
    boosted: int  # rounds, each fold


def searched(search: Search) -> Tuned:
    """The best settings among the trials."""
    sample, seed = search.sample, search.seed
    matrices = folds_of(sample, drawn_folds(sample.n, search.n_folds, seed=seed, draw=0))
    best, n_pruned, boosted, n_done = float("inf"), 0, 0, 0
    parameters: dict[str, Any] = {}
    with _quiet():
        for number in range(search.n_trials):
            if number % TRIALS_OF_A_SAMPLER == 0:
                drawn = seed + _SEED_STEP * (number // TRIALS_OF_A_SAMPLER)
                sampler = optuna.samplers.TPESampler(seed=drawn, n_startup_trials=RANDOM_TRIALS)
                study = optuna.create_study(sampler=sampler)
            trial = study.ask()
            tried = suggested(trial)
            course = course_of(matrices, tried, best=best, seed=seed)
            study.tell(trial, course.hoped_for)
            n_done, boosted = n_done + 1, boosted + course.boosted
            if course.rounds is None:
                n_pruned += 1
            elif course.error < best:
                best, parameters = course.error, {"rounds": course.rounds, **tried}
            if search.stop_at is not None and best <= search.stop_at:
                break
    return Tuned(
        outcome=search.outcome,
        features=search.features,
        parameters=parameters,
        error=best,
        n=sample.n,
        n_folds=search.n_folds,
        seed=seed,
        n_trials=n_done,
        n_pruned=n_pruned,
        share_boosted=boosted / (n_done * ROUNDS[-1]),
    )


def suggested(trial: optuna.Trial) -> dict[str, Any]:
    """The settings of a trial, but for the number of rounds."""
    return {
        "eta": trial.suggest_float("eta", 0.03, 1.0, log=True),
        "max_depth": trial.suggest_int("max_depth", 3, 10),
        "min_child_weight": trial.suggest_int("min_child_weight", 1, 9, step=2),
        "lambda": trial.suggest_float("lambda", 1e-3, 10.0, log=True),
        "alpha": trial.suggest_float("alpha", 1e-8, 1.0, log=True),
        "subsample": trial.suggest_float("subsample", 0.6, 1.0),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.3, 1.0),
    }


def folds_of(sample: Sample, folds: Sequence[Array]) -> list[FoldMatrices]:
    """For each fold the matrix to train on, the matrix held out, and its outcomes; to be shared by all trials."""
    return [(sample.matrix(others(sample.n, fold)), sample.matrix(fold), sample.y[fold]) for fold in folds]


def course_of(
    matrices: Sequence[FoldMatrices],
    parameters: Mapping[str, Any],
    *,
    best: float = float("inf"),
    seed: int,
) -> Course:
    """Boosts the folds of one trial side by side until going on cannot beat ``best``."""
    boosters = [booster_of(training, parameters, seed=seed) for training, _, _ in matrices]
    errors: list[float] = []
    lowest, at = float("inf"), None
    for done in range(_ROUNDS_BETWEEN_ERRORS, ROUNDS[-1] + 1, _ROUNDS_BETWEEN_ERRORS):
        for booster, (training, _, _) in zip(boosters, matrices, strict=True):
            boost(booster, training, range(done - _ROUNDS_BETWEEN_ERRORS, done))
        errors.append(_mean_error(boosters, matrices))
        if done in ROUNDS and errors[-1] < lowest:
            lowest, at = errors[-1], done
        if _hoped_for(errors) >= min(best, lowest):
            break
    ended_early = done < ROUNDS[-1]
    return Course(lowest, min(lowest, _hoped_for(errors)) if ended_early else lowest, at, done)


def _mean_error(boosters: Sequence[xgboost.Booster], matrices: Sequence[FoldMatrices]) -> float:
    """Mean of the fold RMSEs, summed in float64 whereas XGBoost's own metric is printed from float32."""
    errors = [
        np.sqrt(np.mean((booster.predict(held_out).astype("float64") - y) ** 2))
        for booster, (_, held_out, y) in zip(boosters, matrices, strict=True)
    ]
    return float(np.mean(errors))


def _hoped_for(errors: Sequence[float]) -> float:
    """The error at the last round if it fell on as fast as lately; minus infinity while too few rounds are done."""
    lately = _ROUNDS_CONTINUED // _ROUNDS_BETWEEN_ERRORS
    if len(errors) <= lately:
        return float("-inf")
    fall = max(errors[-1 - lately] - errors[-1], 0.0) / _ROUNDS_CONTINUED
    return errors[-1] - fall * (ROUNDS[-1] - _ROUNDS_BETWEEN_ERRORS * len(errors))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Optuna from writing a line a search to standard error."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def tune(
    table: StudyTable,
    outcome: str,
    *,
    features: str | Sequence[str] = "few",
    n_trials: int = 50,
    n_folds: int = 10,
    seed: int = 0,
    stop_at: float | None = None,
) -> Tuned:
    """Searches the settings of the trees that predict an outcome best out of fold.

    Outcome and features are those of :func:`zoo.analysis.importance.explained_variance`; the folds are others. The
    search ends at the first trial whose error is no larger than ``stop_at``.
    """
    search = search_for(table, outcome, features, n_trials=n_trials, n_folds=n_folds, seed=seed)
    return searched(replace(search, stop_at=stop_at))


def search_for(
    table: StudyTable, outcome: str, features: str | Sequence[str], *, n_trials: int, n_folds: int, seed: int
) -> Search:
    """A search on the encoders of a table that have an outcome."""
    sample, named = sample_of(table, outcome, features, n_least=n_folds), named_features(features)
    return Search(sample=sample, outcome=outcome, features=named, n_trials=n_trials, n_folds=n_folds, seed=seed)


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
    """:func:`tune` for several outcomes in ``n_workers`` processes (0: one a core), with the same result."""
    searches = [
        search_for(table, outcome, features, n_trials=n_trials, n_folds=n_folds, seed=seed)
        for outcome in dict.fromkeys(outcomes)
    ]
    by_outcome: dict[str, Tuned] = {}
    for tuned in searched_all(searches, n_workers):
        by_outcome[tuned.outcome] = tuned
        if progress is not None:
            progress(tuned.outcome, len(by_outcome), len(searches))
    return by_outcome


def searched_all(searches: Sequence[Search], n_workers: int = 0) -> Iterator[Tuned]:
    """The results of searches, in their order, each as soon as it and those before it are done."""
    workers = min(number_of_workers(n_workers), len(searches))
    if workers <= 1:
        yield from map(searched, searches)
        return
    done: dict[int, Tuned] = {}
    resources = Resources(n_cpus=max(1, n_cores() // workers))
    with closing(Processes(workers)) as processes:
        outcomes = processes.map_unordered(_with_number, enumerate(searches), resources)
        for number in range(len(searches)):
            while number not in done:
                outcome = next(outcomes)
                if outcome.value is None:
                    raise outcome.failures[-1].error()
                done.update([outcome.value])
            yield done.pop(number)


def _with_number(numbered: tuple[int, Search]) -> tuple[int, Tuned]:
    return numbered[0], searched(numbered[1])
