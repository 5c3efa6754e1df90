"""Searching settings of trees: what is given up loses little, workers change nothing, and what is stored is whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.analysis.importance import estimate_nested_variance
from zoo.analysis.table import StudyTable, build_table
from zoo.analysis.trees import (
    FILE,
    ROUNDS,
    boost_folds,
    build_fold_matrices,
    draw_folds,
    read_stored_tuning,
    read_tuned_parameters,
    select_sample,
    tune,
    tune_all,
    write_parameters,
)
from zoo.errors import QueryError

SETTINGS = {
    "eta": 0.1,
    "max_depth": 3,
    "min_child_weight": 5,
    "lambda": 1.0,
    "alpha": 0.01,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
}
FEATURES = ("z_dim", "year")


@pytest.fixture(scope="module")
def planted() -> StudyTable:
    """A small population: usability falls with z_dim, and the year says nothing."""
    generator = np.random.default_rng(0)
    rows: dict[str, dict[str, Any]] = {}
    for number in range(40):
        power = int(generator.integers(8, 13))
        rows[str(number)] = {
            "z_dim": 2.0**power,
            "year": float(generator.integers(2018, 2023)),
            "usability": 40 - 2.0 * power + generator.normal(),
            "probe_gen": power + generator.normal(),
        }
    return build_table(rows)


def test_a_trial_that_cannot_win_ends_before_it_has_a_score_and_one_that_can_does_not(planted: StudyTable) -> None:
    sample = select_sample(planted, "usability", FEATURES)
    matrices = build_fold_matrices(sample, draw_folds(sample.n, 3, seed=0, draw=0))
    lost = boost_folds(matrices, SETTINGS, best=0.01, seed=0)
    assert lost.rounds is None and lost.boosted < ROUNDS[0] and lost.hoped_for > 0.01
    won = boost_folds(matrices, SETTINGS, best=100.0, seed=0)
    assert won.rounds in ROUNDS and won.error < 100.0


def test_several_targets_are_tuned_alike_by_one_process_and_by_two(planted: StudyTable) -> None:
    told: list[tuple[str, int, int]] = []
    outcomes = ["usability", "probe_gen"]
    how = {"features": FEATURES, "n_trials": 1, "n_folds": 2, "progress": lambda *what: told.append(what)}
    alone, together = (tune_all(planted, outcomes, n_workers=n_workers, **how) for n_workers in (1, 2))
    assert alone == together
    assert list(alone) == outcomes
    assert told == [("usability", 1, 2), ("probe_gen", 2, 2)] * 2


def test_nested_tuning_never_shows_a_fold_to_the_search_of_its_settings(planted: StudyTable) -> None:
    honest = estimate_nested_variance(planted, "usability", features=FEATURES, n_trials=2, n_folds=2, n_workers=1)
    folds = draw_folds(40, 2, seed=0, draw=1)
    frame = planted.frame.copy()
    frame.iloc[folds[0], frame.columns.get_loc("usability")] *= 3
    spoilt = StudyTable(frame, planted.why_missing, False, (), {})
    again = estimate_nested_variance(spoilt, "usability", features=FEATURES, n_trials=2, n_folds=2, n_workers=1)
    assert (honest.predictions.iloc[folds[0]] == again.predictions.iloc[folds[0]]).all(axis=None)
    assert (honest.predictions.iloc[folds[1]] != again.predictions.iloc[folds[1]]).any(axis=None)
    assert 0 < honest.pooled < 100  # a strong plain effect


def test_what_is_written_is_read_back_to_the_last_digit(
    planted: StudyTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.analysis.trees.get_content_folder", lambda name: tmp_path / name)
    path = tmp_path / "analysis" / FILE
    tuned = replace(tune(planted, "usability", features=FEATURES, n_trials=2, n_folds=3), features="few")
    with pytest.raises(QueryError, match="Got no tuned settings to write"):
        write_parameters([], path, date="2026-01-31", table="planted")
    scores = {("few", "usability"): {"pooled": 61.239, "nested_pooled": 55.004}}
    assert write_parameters([tuned], path, date="2026-01-31", table="planted", scores=scores) == path
    assert read_tuned_parameters("usability", "few") == tuned.parameters
    stored = read_stored_tuning("usability", "few")
    assert (stored["pooled"], stored["nested_pooled"], stored["error"]) == (61.24, 55.0, tuned.error)
    assert str(stored["how"]["date"]) == "2026-01-31"
