"""Boosted regression trees on a few hundred rows: features, folds, cross-validation, explained variance, tuning.

Each fold is boosted by one thread, several folds at a time, and random numbers depend on seed and round alone, so that
predictions do not depend on the number of workers. Space, sampler (TPE) and error (the mean of ten fold RMSEs) of
tuning are those of Dubois et al. 2023, Appendix C.4; trials that cannot win end early. The error of the best settings
is optimistic (selection): score settings on other folds.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ContentError, QueryError
from ..execution.executor import Resources, count_cores
from ..execution.processes import Processes
from ..files import get_content_folder, replace_file
from ..optional import require_extra
from .columns import STUDY_COLUMNS
from .table import StudyTable, require_columns

with require_extra("study", needed_for="A study"):
    import numpy as np
    import pandas as pd
    import xgboost

if TYPE_CHECKING:
    import optuna

Array = np.ndarray
_ALL = (
    "objective", "ssl_mode", "is_stopgrad", "is_ema", "architecture_exact", "architecture", "family", "patch_size",
    "n_parameters", "z_dim", "z_layer", "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay",
    "scheduler", "pretraining_data", "img_size", "is_aug_invariant", "year", "is_official", "is_industry", "n_classes",
    "pred_dim", "projection_hid_width", "projection_hid_depth", "projection1_arch", "projection2_arch",
    "projection_same", "n_negatives", "finetuning_data", "other", "nviews", "n_augmentations",
    "projection_nparameters_hidden", "is_aug_autoaug", "is_aug_blur", "is_aug_color", "is_aug_crop", "is_aug_erasing",
    "is_aug_flip", "is_aug_gray", "is_aug_jigsaw", "is_aug_masking", "is_aug_normalize", "is_aug_photometric",
    "is_aug_rotate", "is_aug_solarize", "is_aug_anygeometric", "is_aug_anycolor",
)  # fmt: skip
_FILTERED = frozenset((
    "objective", "ssl_mode", "architecture", "family", "patch_size", "n_parameters", "z_dim", "z_layer", "epochs",
    "batch_size", "optimizer", "learning_rate", "scheduler", "pretraining_data", "is_aug_invariant", "is_official",
    "n_classes", "pred_dim", "projection1_arch", "projection2_arch", "projection_same", "n_negatives",
    "finetuning_data", "nviews", "n_augmentations", "projection_nparameters_hidden",
))  # fmt: skip
_FEW = frozenset((
    "objective", "architecture", "patch_size", "epochs", "pretraining_data", "projection2_arch", "nviews", "z_dim",
    "family", "ssl_mode", "n_parameters", "n_augmentations", "optimizer", "projection_nparameters_hidden",
))  # fmt: skip
TREE_FEATURES: dict[str, tuple[str, ...]] = {
    "all": _ALL,  # 51: what Appendix C.4 counts
    "filtered": tuple(name for name in _ALL if name in _FILTERED),  # 26: the models behind Table 6's "pre-filtering"
    "few": tuple(name for name in _ALL if name in _FEW),  # 14: the list in Appendix C.4
}
_STEPS = {"epochs": 200.0, "n_augmentations": 2.0}  # rounded to a multiple of it
_BASES = {  # rounded to a power of it
    **dict.fromkeys(
        ("batch_size", "z_dim", "patch_size", "pred_dim", "n_negatives", "n_classes", "nviews", "n_parameters"), 2.0
    ),
    **dict.fromkeys(("learning_rate", "weight_decay"), 10.0),
}


def prepare_facts(table: StudyTable, features: str | Sequence[str] = "few") -> pd.DataFrame:
    """Facts of encoders, rounded so that encoders which hardly differ look alike: encoder x feature.

    Epochs are rounded to multiples of 200, the number of augmentations to multiples of 2; sizes and counts to the
    nearest power of 2 and rates to the nearest power of 10, on the logarithmic scale. Text, and true or false, is
    categorical, its categories sorted; a missing cell is NaN.
    """
    names = list_tree_features(features)
    return pd.DataFrame({name: _prepared(table.frame[name]) for name in names}, index=table.frame.index)


def encode_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """What :func:`prepare_facts` gave as numbers alone: a category is its position among the sorted ones."""
    return pd.DataFrame(
        {
            name: frame[name].cat.codes.astype("float64").where(frame[name].notna())
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
            else frame[name]
            for name in frame
        },
        index=frame.index,
    )


def list_tree_features(features: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of a set of :data:`TREE_FEATURES`, or the given columns."""
    if isinstance(features, str):
        if features not in TREE_FEATURES:
            known = ", ".join(f"{name!r} ({len(columns)})" for name, columns in TREE_FEATURES.items())
            raise QueryError(f"Got the set of features {features!r}, expected one of {known}, or a list of columns.")
        return TREE_FEATURES[features]
    names = tuple(dict.fromkeys(features))
    if not names:
        raise QueryError("Got no features, expected at least one column; name some, or take the set 'few'.")
    require_columns(names)
    return names


def describe_tree_features(features: str | Sequence[str]) -> str:
    """The name of a set of features, or its columns by comma."""
    return features if isinstance(features, str) else ", ".join(features)


def _prepared(column: pd.Series) -> pd.Series:
    name = str(column.name)
    if STUDY_COLUMNS[name].kind == "true or false":
        return column.astype(pd.CategoricalDtype([False, True]))
    if not STUDY_COLUMNS[name].is_number:
        return column.astype(pd.CategoricalDtype(sorted(column.dropna().unique())))
    if name in _STEPS:
        return (column / _STEPS[name]).round() * _STEPS[name]
    if name in _BASES:
        return pd.Series(round_to_power(column.to_numpy(), _BASES[name]), index=column.index, name=name)
    return column


def round_to_power(x: np.ndarray, base: float) -> np.ndarray:
    """Powers of a base that are nearest on the logarithmic scale; what is not above 0 stays as it is.

    >>> round_to_power(np.array([384.0, 768.0, 8.0, 0.0]), 2.0).tolist()
    [512.0, 1024.0, 8.0, 0.0]
    >>> round_to_power(np.array([0.2, 4e-4, np.nan]), 10.0).tolist()
    [0.1, 0.001, nan]
    """
    rounded = np.asarray(x, dtype="float64").copy()
    positive = rounded > 0
    rounded[positive] = base ** np.round(np.log(rounded[positive]) / np.log(base))
    return rounded


FIXED: dict[str, Any] = {  # what no search touches
    "objective": "reg:squarederror", "tree_method": "hist", "max_bin": 256, "nthread": 1, "seed_per_iteration": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeSample:
    """What one model is trained on: the encoders that have the outcome."""

    values: pd.DataFrame  # encoder x feature, as prepared() gives it
    x: Array  # (n, n_features) float64, categories as numbers
    y: Array  # (n,) float64, the outcome

    @property
    def n(self) -> int:
        """Encoders."""
        return len(self.y)

    def matrix(self, rows: Array) -> xgboost.DMatrix:
        """Some rows as XGBoost reads them; without names, which it would decode anew in every round of boosting."""
        return xgboost.DMatrix(self.x[rows], label=self.y[rows], nthread=1)

    def only(self, rows: Array) -> TreeSample:
        """Some rows as a sample."""
        return TreeSample(self.values.iloc[rows], self.x[rows], self.y[rows])


def select_sample(table: StudyTable, outcome: str, features: str | Sequence[str], *, n_least: int = 2) -> TreeSample:
    """The rows of a table that have an outcome in numbers, which must vary and be no feature; at least ``n_least``."""
    if not table.column(outcome).is_number:
        raise QueryError(
            f"The column {outcome} holds text, expected an outcome in numbers; take a risk such as usability."
        )
    values = prepare_facts(table, features)
    if outcome in values:
        raise QueryError(
            f"Got {outcome} as outcome and as feature, expected it only once; leave it out of the features."
        )
    measured = table.frame[outcome].notna()
    y = table.frame.loc[measured, outcome].to_numpy(dtype="float64")
    if len(y) < n_least:
        raise QueryError(
            f"Only {len(y)} of the {len(table)} encoders of the table have {outcome}, expected at least {n_least}; "
            "measure more of them or ask for fewer folds."
        )
    if np.ptp(y) == 0:
        raise QueryError(
            f"The outcome {outcome} is {y[0]:g} for all {len(y)} encoders that have it, expected one that varies; "
            "there is nothing to explain."
        )
    return TreeSample(values[measured], encode_categories(values)[measured].to_numpy(dtype="float64"), y)


def draw_folds(n: int, n_folds: int, *, seed: int, draw: int) -> tuple[Array, ...]:
    """The rows 0 to n - 1 in random order, cut into nearly equal folds; tuning takes draw 0, scoring the others.

    >>> [len(fold) for fold in draw_folds(11, 3, seed=0, draw=1)]
    [4, 4, 3]
    """
    return tuple(np.array_split(np.random.default_rng([seed, draw]).permutation(n), n_folds))


def list_rows_outside(n: int, fold: Array) -> Array:
    """The rows outside a fold, in ascending order."""
    return np.setdiff1d(np.arange(n), fold)


def build_booster(matrix: xgboost.DMatrix, parameters: Mapping[str, Any], *, seed: int) -> xgboost.Booster:
    """A booster that has not boosted yet; ``rounds`` is left to the caller."""
    settings = {name: value for name, value in parameters.items() if name != "rounds"}
    return xgboost.Booster({**FIXED, **settings, "seed": seed}, [matrix])


def run_boosting(booster: xgboost.Booster, matrix: xgboost.DMatrix, rounds: range) -> None:
    """Boosts through the rounds, numbered from 0; going on later gives the same trees as going on at once."""
    for number in rounds:
        booster.update(matrix, number)


def train_trees(sample: TreeSample, parameters: Mapping[str, Any], *, seed: int) -> xgboost.Booster:
    """A model of all rows."""
    matrix = sample.matrix(np.arange(sample.n))
    booster = build_booster(matrix, parameters, seed=seed)
    run_boosting(booster, matrix, range(parameters["rounds"]))
    return booster


def predict_out_of_fold(
    sample: TreeSample,
    parameters: Mapping[str, Any],
    folds: Sequence[Sequence[Array]],
    *,
    seed: int,
    n_workers: int = 0,
) -> Array:
    """Predictions of each row by the model that was not shown its fold, shape (n_repeats, n).

    ``folds`` has one division of all rows a repeat; ``n_workers`` threads boost them, 0 takes one per core.
    """
    predictions = np.empty((len(folds), sample.n))
    tasks = [(repeat, fold) for repeat, division in enumerate(folds) for fold in division]

    def fill(task: tuple[int, Array]) -> None:
        repeat, fold = task
        matrix = sample.matrix(list_rows_outside(sample.n, fold))
        booster = build_booster(matrix, parameters, seed=seed)
        run_boosting(booster, matrix, range(parameters["rounds"]))
        predictions[repeat, fold] = booster.predict(sample.matrix(fold))

    for _ in _mapped(fill, tasks, n_workers):
        pass
    return predictions


PREDICTIONS = "out_of_fold.json"
"""In ``analysis/``: predictions of the shipped rows, which take a minute of boosting, by :func:`hash_predictions`."""


def hash_predictions(
    sample: TreeSample, parameters: Mapping[str, Any], folds: Sequence[Sequence[Array]], seed: int
) -> str:
    """A hash of all that :func:`predict_out_of_fold` depends on: rows, settings, folds, seed, release of XGBoost."""
    rounded = [[f"{value:.9g}" for value in numbers.ravel()] for numbers in (sample.x, sample.y)]  # as processors agree
    rows = [*rounded, [[fold.tolist() for fold in division] for division in folds]]
    decisive = [rows, {**FIXED, **parameters}, seed, xgboost.__version__]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def read_stored_predictions(key: str) -> Array | None:
    """What ``scripts/stored_predictions.py`` stored under a key, shape (n_repeats, n); None if nothing."""
    path = get_content_folder("analysis") / PREDICTIONS
    found = _document(path)["predictions"].get(key)
    return None if found is None else np.array(found, dtype="float32").astype("float64")  # as XGBoost gives them


def _mapped(function: Any, tasks: Sequence[Any], n_workers: int) -> Iterator[Any]:
    workers = min(number_of_workers(n_workers), len(tasks))
    if workers == 1:
        yield from map(function, tasks)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, tasks)


def number_of_workers(n_workers: int) -> int:
    """``n_workers``, or the cores that this process may use if it is 0."""
    if n_workers < 0:
        raise QueryError(f"Got {n_workers} workers, expected 1 or more, or 0 for one per core.")
    return n_workers or count_cores()


def compute_fold_errors(y: Array, predictions: Array, folds: Sequence[Array]) -> Array:
    """Root-mean-square error of each fold, in the outcome's unit; ``predictions`` has shape (n,)."""
    return np.array([np.sqrt(np.mean((predictions[fold] - y[fold]) ** 2)) for fold in folds])


def compute_r2_by_fold(errors: Array, y: Array) -> float:
    """The paper's percentage: 1 - (mean of the fold RMSEs)^2 / variance, which is optimistic for small folds."""
    return float(100 * (1 - np.mean(errors) ** 2 / np.var(y)))


def compute_pooled_r2(y: Array, predictions: Array) -> float:
    """Out-of-fold R2 in percent: 1 - mean squared error / variance, over rows and repeats; shape (n_repeats, n)."""
    return float(100 * (1 - np.mean((predictions - y) ** 2) / np.var(y)))


def resample_pooled_r2(y: Array, predictions: Array, *, seed: int, n_draws: int = 2000) -> tuple[float, float]:
    """95 % interval of :func:`compute_pooled_r2` by drawing rows with replacement; the models stay as they are."""
    squared = np.mean((predictions - y) ** 2, axis=0)  # (n,)
    drawn = np.random.default_rng([seed, len(y)]).integers(len(y), size=(n_draws, len(y)))
    variance = np.var(y[drawn], axis=1)
    explained = 100 * (1 - squared[drawn].mean(axis=1)[variance > 0] / variance[variance > 0])
    low, high = np.percentile(explained, [2.5, 97.5])
    return float(low), float(high)


FILE = "tuned_trees.toml"
LIBRARIES = ("xgboost", "optuna", "numpy", "pandas")
_HEAD = """\
# Settings of boosted trees by set of features and outcome; zoo.analysis.trees reads and writes this file.
#
# "error" is the mean of the fold RMSEs on the folds of the search, in percentage points. It is the least of all that
# the search saw and flatters. "by_fold" and "pooled" are explained variance in percent over one division into 30 other
# folds; they may still flatter, for the settings have seen the same encoders. "nested_by_fold" and "nested_pooled",
# where they are given, do not: over the same 30 folds, each is predicted with settings that were searched anew, as
# thoroughly, without it.
"""


def read_tuned_parameters(
    outcome: str, features: str | Sequence[str] = "few", *, path: Path | None = None
) -> dict[str, Any]:
    """The stored settings of the trees of an outcome, with ``rounds`` and XGBoost's names of the others."""
    return dict(read_stored_tuning(outcome, features, path=path)["parameters"])


def read_stored_tuning(
    outcome: str, features: str | Sequence[str] = "few", *, path: Path | None = None
) -> Mapping[str, Any]:
    """Everything that is stored of one search: ``parameters``, ``error``, ``n``, ``n_trials``, ..., and ``how``."""
    document = _document(path or get_content_folder("analysis") / FILE)
    sets = {name: entries for name, entries in document.items() if name != "how"}
    entry = sets.get(features, {}).get(outcome) if isinstance(features, str) else None
    if entry is None:
        known = "; ".join(f"{name}: {', '.join(entries)}" for name, entries in sets.items())
        raise QueryError(
            f"No settings of trees are stored for {outcome} with the features {features!r}, expected one of {known}; "
            "give parameters, such as those that zoo.analysis.trees.tune finds."
        )
    return {**entry, "how": document["how"]}


def write_parameters(
    tunings: Iterable[Tuned],
    path: Path,
    *,
    date: str,
    table: str,
    scores: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> Path:
    """Writes tuned settings where :func:`read_tuned_parameters` reads them, replaced whole.

    ``date`` and ``table`` say when and on which rows; ``scores`` are percentages of explained variance by set of
    features and outcome: ``by_fold``, ``pooled``, ``nested_by_fold``, ``nested_pooled``.
    """
    written = list(tunings)
    if not written:
        raise QueryError("Got no tuned settings to write, expected at least one; tune an outcome first.")
    how = {
        "function": "zoo.analysis.trees.tune_all",
        "table": table,
        "n_folds": written[0].n_folds,
        "seed": written[0].seed,
        "sampler": written[0].sampler,
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    }
    lines = [_HEAD, "[how]", f"date = {date}", *(f"{name} = {_toml(value)}" for name, value in how.items())]
    for tuned in written:
        settings = ", ".join(f"{name} = {_toml(value)}" for name, value in tuned.parameters.items())
        lines += ["", f"[{tuned.features}.{tuned.outcome}]", f"parameters = {{ {settings} }}"]
        lines += [f"{name} = {_toml(getattr(tuned, name))}" for name in ("error", "n", "n_trials", "n_pruned")]
        known = (scores or {}).get((tuned.features, tuned.outcome), {})
        lines += [f"{name} = {value:.2f}" for name, value in known.items()]
    with replace_file(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    _document.cache_clear()
    return path


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)  # a float as long as it must be to be read back


@cache
def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return found
    except (OSError, ValueError) as error:
        raise ContentError(
            f"What is stored of trees at {path} cannot be read ({error}); "
            "reinstall ssl-zoo or clone the repository again."
        ) from error


# Tuning

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

    sample: TreeSample
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


def search_settings(search: Search) -> Tuned:
    """The best settings among the trials."""
    with require_extra("study", needed_for="Tuning trees"):
        import optuna

    sample, seed = search.sample, search.seed
    matrices = build_fold_matrices(sample, draw_folds(sample.n, search.n_folds, seed=seed, draw=0))
    best, n_pruned, boosted, n_done = float("inf"), 0, 0, 0
    parameters: dict[str, Any] = {}
    with _quiet():
        for number in range(search.n_trials):
            if number % TRIALS_OF_A_SAMPLER == 0:
                drawn = seed + _SEED_STEP * (number // TRIALS_OF_A_SAMPLER)
                sampler = optuna.samplers.TPESampler(seed=drawn, n_startup_trials=RANDOM_TRIALS)
                study = optuna.create_study(sampler=sampler)
            trial = study.ask()
            tried = suggest_settings(trial)
            course = boost_folds(matrices, tried, best=best, seed=seed)
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


def suggest_settings(trial: optuna.Trial) -> dict[str, Any]:
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


def build_fold_matrices(sample: TreeSample, folds: Sequence[Array]) -> list[FoldMatrices]:
    """For each fold the matrix to train on, the matrix held out, and its outcomes; to be shared by all trials."""
    return [(sample.matrix(list_rows_outside(sample.n, fold)), sample.matrix(fold), sample.y[fold]) for fold in folds]


def boost_folds(
    matrices: Sequence[FoldMatrices],
    parameters: Mapping[str, Any],
    *,
    best: float = float("inf"),
    seed: int,
) -> Course:
    """Boosts the folds of one trial side by side until going on cannot beat ``best``."""
    boosters = [build_booster(training, parameters, seed=seed) for training, _, _ in matrices]
    errors: list[float] = []
    lowest, at = float("inf"), None
    for done in range(_ROUNDS_BETWEEN_ERRORS, ROUNDS[-1] + 1, _ROUNDS_BETWEEN_ERRORS):
        for booster, (training, _, _) in zip(boosters, matrices, strict=True):
            run_boosting(booster, training, range(done - _ROUNDS_BETWEEN_ERRORS, done))
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
    import optuna  # half a second

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
    return search_settings(replace(search, stop_at=stop_at))


def search_for(
    table: StudyTable, outcome: str, features: str | Sequence[str], *, n_trials: int, n_folds: int, seed: int
) -> Search:
    """A search on the encoders of a table that have an outcome."""
    sample, named = select_sample(table, outcome, features, n_least=n_folds), describe_tree_features(features)
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
    """:func:`tune` for several outcomes in ``n_workers`` processes (0: one per core), with the same result."""
    searches = [
        search_for(table, outcome, features, n_trials=n_trials, n_folds=n_folds, seed=seed)
        for outcome in dict.fromkeys(outcomes)
    ]
    by_outcome: dict[str, Tuned] = {}
    for tuned in iterate_searches(searches, n_workers):
        by_outcome[tuned.outcome] = tuned
        if progress is not None:
            progress(tuned.outcome, len(by_outcome), len(searches))
    return by_outcome


def iterate_searches(searches: Sequence[Search], n_workers: int = 0) -> Iterator[Tuned]:
    """The results of searches, in their order, each as soon as it and those before it are done."""
    workers = min(number_of_workers(n_workers), len(searches))
    if workers <= 1:
        yield from map(search_settings, searches)
        return
    done: dict[int, Tuned] = {}
    resources = Resources(n_cpus=max(1, count_cores() // workers))
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
    return numbered[0], search_settings(numbered[1])
