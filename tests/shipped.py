"""The study table of the shipped rows, and what the shipped studies find in it, made once per process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from analysis.label_free_vs_probe.agreement import predictions
from zoo.analysis.importance import ExplainedVariance, explained_variance
from zoo.analysis.label_free import read_measured_rows
from zoo.analysis.table import StudyTable, limit_to_one_thread, study_table
from zoo.results.values import Row
from zoo.results.vocabulary import LABEL_FREE_METRICS
from zoo.studies import running
from zoo.studies.findings import Findings
from zoo.studies.running import StudyFunction, StudyOptions, find_study, load_study
from zoo.studies.trees import Trees, fit_trees


@cache
def shipped_table(*, corrected: bool = False) -> StudyTable:
    """The 169 encoders of the paper; shared, so whoever changes it takes a copy."""
    return study_table(corrected=corrected)


@pytest.fixture
def tables_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies that are run without encoders of the user's take the tables from here."""

    def table(*, corrected: bool = False, with_mine: bool = False) -> StudyTable:
        return study_table(corrected=corrected, with_mine=True) if with_mine else shipped_table(corrected=corrected)

    monkeypatch.setattr(running, "study_table", table)


@cache
def shipped_findings(study: str, *, corrected: bool = False) -> Findings:
    """What a study finds in the shipped rows with default options and few draws."""
    with limit_to_one_thread():
        found = with_few_draws(study)(shipped_table(corrected=corrected), StudyOptions())
    assert isinstance(found, Findings)
    return found


def _trees_with_few_draws(*given: Any, **options: Any) -> Trees:
    return fit_trees(*given, **options | {"n_subsamples": min(1, options.get("n_subsamples", 0))})


FEW_DRAWS = {
    "N_REPEATS": 1,
    "N_PERMUTATIONS": 199,
    "N_RESAMPLES": 60,
    "REPEATS": {"filtered": 1, "few": 1},
    "predictions": partial(predictions, n_resamples=60),
    "explained_variance": partial(explained_variance, n_folds=5),
    "fit_trees": _trees_with_few_draws,
}
"""By name in the modules of studies."""

LIGHT = {
    "rounds": 40,
    "eta": 0.2,
    "max_depth": 3,
    "min_child_weight": 1,
    "lambda": 1.0,
    "alpha": 0.0,
    "subsample": 1.0,
    "colsample_bytree": 1.0,
}


def _light_variance(*given: Any, **options: Any) -> ExplainedVariance:
    return explained_variance(*given, **options | {"n_folds": 5, "parameters": LIGHT})


def _light_trees(table: StudyTable, outcomes: Sequence[str], *given: Any, **options: Any) -> Trees:
    return _trees_with_few_draws(table, outcomes, *given, **options | {"parameters": dict.fromkeys(outcomes, LIGHT)})


def rows_of_two_metrics(**options: Any) -> list[Row]:
    """What was measured, without the label-free metrics but LiDAR and RankMe."""
    known = LABEL_FREE_METRICS.keys() - {"lidar", "rankme"}
    return [row for row in read_measured_rows(**options) if row.metric not in known]


QUICK = {
    "N_REPEATS_OF_EQ_25": 1,
    "read_measured_rows": rows_of_two_metrics,
    "explained_variance": _light_variance,
    "fit_trees": _light_trees,
}
"""More of them, for what depends neither on the settings of trees nor on which metrics there are."""


def with_few_draws(study: str, **others: Any) -> StudyFunction:
    """A study with few resamples, repetitions, folds and parts of the encoders: what it says, not how surely.

    Its modules are loaded for each caller, who may replace ``others`` of their names.
    """
    function = load_study(find_study(study))
    replaced = FEW_DRAWS | others
    for module in [one for loaded, one in sys.modules.items() if loaded.partition(".")[0] == function.__module__]:
        for name in replaced.keys() & vars(module).keys():
            setattr(module, name, replaced[name])
    return function


@cache
def study_module(study: str, module: str = "") -> ModuleType:
    """A shipped study, or a module of its folder, which is no package that could be imported by its name."""
    return import_module(f"{load_study(find_study(study)).__module__}.{module}".rstrip("."))
