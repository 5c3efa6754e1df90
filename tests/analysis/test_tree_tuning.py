"""Searching settings of trees: what is given up loses little, workers change nothing, and what is stored is whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoo.analysis.importance import nested_variance
from zoo.analysis.table import StudyTable, table_of
from zoo.analysis.tree_tuning import ROUNDS, course_of, folds_of, tune, tune_all
from zoo.analysis.trees import (
    FILE,
    drawn_folds,
    fold_errors,
    out_of_fold,
    sample_of,
    stored_tuning,
    tuned_parameters,
    written_parameters,
)
from zoo.errors import ContentError, QueryError

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
    return table_of(rows)


@pytest.fixture(scope="module")
def both(planted: StudyTable) -> tuple[Any, Any]:
    """The same small search, giving hopeless trials up and boosting every one to the end."""
    return (
        tune(planted, "usability", features=FEATURES, n_trials=4, n_folds=3),
        tune(planted, "usability", features=FEATURES, n_trials=4, n_folds=3, give_up=False),
    )


def test_giving_up_hopeless_trials_hardly_changes_the_best_and_saves_most_rounds(both: tuple[Any, Any]) -> None:
    quick, whole = both
    assert whole.share_boosted == 1 and whole.n_pruned == 0
    assert quick.share_boosted < 0.5
    assert whole.error <= quick.error <= 1.01 * whole.error  # 0.5 % at most was seen on the published rows


def test_a_trial_is_scored_at_each_number_of_rounds_as_if_it_had_been_boosted_that_far_only(
    planted: StudyTable,
) -> None:
    sample = sample_of(planted, "usability", FEATURES)
    folds = drawn_folds(sample.n, 3, seed=0, draw=0)
    course = course_of(folds_of(sample, folds), SETTINGS, seed=0, give_up=False)
    scores = {
        rounds: fold_errors(
            sample.y, out_of_fold(sample, {**SETTINGS, "rounds": rounds}, [folds], seed=0)[0], folds
        ).mean()
        for rounds in ROUNDS
    }
    assert course.boosted == ROUNDS[-1]
    assert course.error == pytest.approx(min(scores.values()), rel=1e-12)
    assert course.rounds == min(scores, key=lambda rounds: scores[rounds])


def test_a_trial_that_cannot_win_ends_before_it_has_a_score_and_one_that_can_does_not(planted: StudyTable) -> None:
    sample = sample_of(planted, "usability", FEATURES)
    matrices = folds_of(sample, drawn_folds(sample.n, 3, seed=0, draw=0))
    lost = course_of(matrices, SETTINGS, best=0.01, seed=0)
    assert lost.rounds is None and lost.boosted < ROUNDS[0] and lost.hoped_for > 0.01
    won = course_of(matrices, SETTINGS, best=100.0, seed=0)
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
    honest = nested_variance(planted, "usability", features=FEATURES, n_trials=2, n_folds=2, n_workers=1)
    folds = drawn_folds(40, 2, seed=0, draw=1)
    frame = planted.frame.copy()
    frame.iloc[folds[0], frame.columns.get_loc("usability")] *= 3
    spoilt = StudyTable(frame, planted.why_missing, False, (), {})
    again = nested_variance(spoilt, "usability", features=FEATURES, n_trials=2, n_folds=2, n_workers=1)
    assert (honest.predictions.iloc[folds[0]] == again.predictions.iloc[folds[0]]).all(axis=None)
    assert (honest.predictions.iloc[folds[1]] != again.predictions.iloc[folds[1]]).any(axis=None)
    assert 0 < honest.pooled < 100  # a strong plain effect


def test_what_is_written_is_read_back_to_the_last_digit(
    both: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.analysis.trees.content_folder", lambda name: tmp_path / name)
    path = tmp_path / "analysis" / FILE
    tuned = replace(both[0], features="few")
    with pytest.raises(QueryError, match="Got no tuned settings to write"):
        written_parameters([], path, date="2026-01-31", table="planted")
    scores = {("few", "usability"): {"pooled": 61.239, "nested_pooled": 55.004}}
    assert written_parameters([tuned], path, date="2026-01-31", table="planted", scores=scores) == path
    assert tuned_parameters("usability", "few") == tuned.parameters
    stored = stored_tuning("usability", "few")
    assert (stored["pooled"], stored["nested_pooled"], stored["error"]) == (61.24, 55.0, tuned.error)
    assert str(stored["how"]["date"]) == "2026-01-31"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[few", "cannot be read"),
        ("[how]\n[few.usability]\nn = 3\n", "entry few.usability of .* is wrong"),
        ("[how]\n[few.usability]\nparameters = { rounds = 0 }\n", "have no alpha"),
    ],
)
def test_a_damaged_file_of_settings_is_named(
    content: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_text(content)
    monkeypatch.setattr("zoo.analysis.trees.content_folder", lambda name: tmp_path)
    with pytest.raises(ContentError, match=sentence):
        tuned_parameters("usability", "few")
