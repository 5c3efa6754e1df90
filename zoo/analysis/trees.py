"""Boosted regression trees on a few hundred rows: features, folds, cross-validation, explained variance, settings.

Each fold is boosted by one thread, several folds at a time, and random numbers depend on seed and round alone, so that
predictions do not depend on the number of workers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ContentError, QueryError
from ..execution.executor import n_cores
from ..files import content_folder, replaced
from ..optional import requires_extra
from .columns import STUDY_COLUMNS
from .table import StudyTable, require_columns

with requires_extra("study", needed_for="A study"):
    import numpy as np
    import pandas as pd
    import xgboost

if TYPE_CHECKING:
    from .tree_tuning import Tuned

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


def prepared(table: StudyTable, features: str | Sequence[str] = "few") -> pd.DataFrame:
    """Facts of encoders, rounded so that encoders which hardly differ look alike: encoder x feature.

    Epochs are rounded to multiples of 200, the number of augmentations to multiples of 2; sizes and counts to the
    nearest power of 2 and rates to the nearest power of 10, on the logarithmic scale. Text, and true or false, is
    categorical, its categories sorted; a missing cell is NaN.
    """
    names = feature_names(features)
    return pd.DataFrame({name: _prepared(table.frame[name]) for name in names}, index=table.frame.index)


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """What :func:`prepared` gave as numbers alone: a category is its position among the sorted ones of the table."""
    return pd.DataFrame(
        {
            name: frame[name].cat.codes.astype("float64").where(frame[name].notna())
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
            else frame[name]
            for name in frame
        },
        index=frame.index,
    )


def feature_names(features: str | Sequence[str]) -> tuple[str, ...]:
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


def named_features(features: str | Sequence[str]) -> str:
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
        return pd.Series(nearest_power(column.to_numpy(), _BASES[name]), index=column.index, name=name)
    return column


def nearest_power(x: np.ndarray, base: float) -> np.ndarray:
    """Powers of a base that are nearest on the logarithmic scale; what is not above 0 stays as it is.

    >>> nearest_power(np.array([384.0, 768.0, 8.0, 0.0]), 2.0).tolist()
    [512.0, 1024.0, 8.0, 0.0]
    >>> nearest_power(np.array([0.2, 4e-4, np.nan]), 10.0).tolist()
    [0.1, 0.001, nan]
    """
    rounded = np.asarray(x, dtype="float64").copy()
    positive = rounded > 0
    rounded[positive] = base ** np.round(np.log(rounded[positive]) / np.log(base))
    return rounded


Array = np.ndarray
FIXED: dict[str, Any] = {  # what no search touches
    "objective": "reg:squarederror", "tree_method": "hist", "max_bin": 256, "nthread": 1, "seed_per_iteration": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
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

    def only(self, rows: Array) -> Sample:
        """Some rows as a sample."""
        return Sample(self.values.iloc[rows], self.x[rows], self.y[rows])


def sample_of(table: StudyTable, outcome: str, features: str | Sequence[str], *, n_least: int = 2) -> Sample:
    """The rows of a table that have an outcome in numbers, which must vary and be no feature; at least ``n_least``."""
    if not table.column(outcome).is_number:
        raise QueryError(
            f"The column {outcome} holds text, expected an outcome in numbers; take a risk such as usability."
        )
    values = prepared(table, features)
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
    return Sample(values[measured], coded(values)[measured].to_numpy(dtype="float64"), y)


def drawn_folds(n: int, n_folds: int, *, seed: int, draw: int) -> tuple[Array, ...]:
    """The rows 0 to n - 1 in random order, cut into nearly equal folds; tuning takes draw 0, scoring the others.

    >>> [len(fold) for fold in drawn_folds(11, 3, seed=0, draw=1)]
    [4, 4, 3]
    """
    return tuple(np.array_split(np.random.default_rng([seed, draw]).permutation(n), n_folds))


def others(n: int, fold: Array) -> Array:
    """The rows outside a fold, in ascending order."""
    return np.setdiff1d(np.arange(n), fold)


def booster_of(matrix: xgboost.DMatrix, parameters: Mapping[str, Any], *, seed: int) -> xgboost.Booster:
    """A booster that has not boosted yet; ``rounds`` is left to the caller."""
    settings = {name: value for name, value in parameters.items() if name != "rounds"}
    return xgboost.Booster({**FIXED, **settings, "seed": seed}, [matrix])


def boost(booster: xgboost.Booster, matrix: xgboost.DMatrix, rounds: range) -> None:
    """Boosts through the rounds, numbered from 0; going on later gives the same trees as going on at once."""
    for number in rounds:
        booster.update(matrix, number)


def trained(sample: Sample, parameters: Mapping[str, Any], *, seed: int) -> xgboost.Booster:
    """A model of all rows."""
    matrix = sample.matrix(np.arange(sample.n))
    booster = booster_of(matrix, parameters, seed=seed)
    boost(booster, matrix, range(parameters["rounds"]))
    return booster


def out_of_fold(
    sample: Sample, parameters: Mapping[str, Any], folds: Sequence[Sequence[Array]], *, seed: int, n_workers: int = 0
) -> Array:
    """Predictions of each row by the model that was not shown its fold, shape (n_repeats, n).

    ``folds`` has one division of all rows a repeat; ``n_workers`` threads boost them, 0 takes one a core.
    """
    predictions = np.empty((len(folds), sample.n))
    tasks = [(repeat, fold) for repeat, division in enumerate(folds) for fold in division]

    def fill(task: tuple[int, Array]) -> None:
        repeat, fold = task
        matrix = sample.matrix(others(sample.n, fold))
        booster = booster_of(matrix, parameters, seed=seed)
        boost(booster, matrix, range(parameters["rounds"]))
        predictions[repeat, fold] = booster.predict(sample.matrix(fold))

    for _ in _mapped(fill, tasks, n_workers):
        pass
    return predictions


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
        raise QueryError(f"Got {n_workers} workers, expected 1 or more, or 0 for one a core.")
    return n_workers or n_cores()


def fold_errors(y: Array, predictions: Array, folds: Sequence[Array]) -> Array:
    """Root-mean-square error of each fold, in the outcome's unit; ``predictions`` has shape (n,)."""
    return np.array([np.sqrt(np.mean((predictions[fold] - y[fold]) ** 2)) for fold in folds])


def explained_by_fold(errors: Array, y: Array) -> float:
    """The paper's percentage: 1 - (mean of the fold RMSEs)^2 / variance, which is optimistic for small folds."""
    return float(100 * (1 - np.mean(errors) ** 2 / np.var(y)))


def explained_pooled(y: Array, predictions: Array) -> float:
    """Out-of-fold R2 in percent: 1 - mean squared error / variance, over rows and repeats; shape (n_repeats, n)."""
    return float(100 * (1 - np.mean((predictions - y) ** 2) / np.var(y)))


def pooled_interval(y: Array, predictions: Array, *, seed: int, n_draws: int = 2000) -> tuple[float, float]:
    """95 % interval of :func:`explained_pooled` by drawing rows with replacement; the models stay as they are."""
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


def tuned_parameters(
    outcome: str, features: str | Sequence[str] = "few", *, path: Path | None = None
) -> dict[str, Any]:
    """The stored settings of the trees of an outcome, with ``rounds`` and XGBoost's names of the others."""
    return dict(stored_tuning(outcome, features, path=path)["parameters"])


def stored_tuning(
    outcome: str, features: str | Sequence[str] = "few", *, path: Path | None = None
) -> Mapping[str, Any]:
    """Everything that is stored of one search: ``parameters``, ``error``, ``n``, ``n_trials``, ..., and ``how``."""
    document = _document(path or content_folder("analysis") / FILE)
    sets = {name: entries for name, entries in document.items() if name != "how"}
    entry = sets.get(features, {}).get(outcome) if isinstance(features, str) else None
    if entry is None:
        known = "; ".join(f"{name}: {', '.join(entries)}" for name, entries in sets.items())
        raise QueryError(
            f"No settings of trees are stored for {outcome} with the features {features!r}, expected one of {known}; "
            "give parameters, such as those that zoo.analysis.tree_tuning.tune finds."
        )
    return {**entry, "how": document["how"]}


def written_parameters(
    tunings: Iterable[Tuned],
    path: Path,
    *,
    date: str,
    table: str,
    scores: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> Path:
    """Writes tuned settings where :func:`tuned_parameters` reads them, replaced whole.

    ``date`` and ``table`` say when and on which rows; ``scores`` are percentages of explained variance by set of
    features and outcome: ``by_fold``, ``pooled``, ``nested_by_fold``, ``nested_pooled``.
    """
    written = list(tunings)
    if not written:
        raise QueryError("Got no tuned settings to write, expected at least one; tune an outcome first.")
    how = {
        "function": "zoo.analysis.tree_tuning.tune_all",
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
    with replaced(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    _document.cache_clear()
    return path


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)  # a float as long as it must be to be read back


@cache
def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ContentError(
            f"The stored settings of trees at {path} cannot be read ({error}); "
            "reinstall ssl-zoo or clone the repository again."
        ) from error
