"""The study of calibrated learning curves: claims on planted encoders whose every number is known in closed form."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.what_is_pretraining_worth.curves import Panel, found_curves, main_panels, panels_of
from tests.each import for_each
from tests.planted_curves import (
    MAE,
    ROTNET,
    SIMCLR,
    SUPERVISED,
    VICREG,
    WORTH,
    curve,
    population,
    provenance,
)
from tests.shipped import study_module
from zoo.analysis.table import study_table
from zoo.errors import QueryError
from zoo.evaluation.curves.recipe import TASKS
from zoo.evaluation.drawing import use_style
from zoo.results.recording import record
from zoo.results.rows import Measurement
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, find_study, load_study

comparisons = study_module("what_is_pretraining_worth", "tables")

NAME = "what_is_pretraining_worth"
tables, of_paper = study_module(NAME, "tables"), study_module(NAME)
STUDY = load_study(find_study(NAME))


def panels(rows: list[Measurement]) -> tuple[Panel, ...]:
    return main_panels(panels_of(found_curves(rows)))


def claims(rows: list[Measurement]) -> list[Claim]:
    return of_paper.claims.judged(panels(rows))


def claim(found: list[Claim], words: str) -> Claim:
    (one,) = [each for each in found if words in each.claim]
    return one


@pytest.fixture(scope="module")
def planted() -> list[Claim]:
    return claims(population())


@for_each(
    [
        ("in every regime", 18),  # two encoders, three tasks, three regimes
        ("over all regimes", 0.2),  # the least of the means over two encoders: .5, .3, .2
        ("diminishes", (0.9 - 0.1) * (0.5 + 0.3 + 0.2) / 3),
        ("differ more in CCI", 0.03666667**0.5 - 0.05773503),
        ("differ more in calibrated risk", 0.1 * (0.03666667**0.5 - 0.05773503)),
        ("The best self-supervised", 0.6 - (0.3 + 0.2) / 2),
        ("ones on classification", 0.5 - 0.2),
        ("by less on dense", 0.3 - 0.1),
        ("as contrastive on classification", 0.55 - 0.5),
        ("as contrastive on dense", 0.25 - 0.3),
    ],
    arguments=2,
)
def test_what_is_planted_is_found_and_agrees(words: str, value: float, planted: list[Claim]) -> None:
    one = claim(planted, words)
    assert one.value == pytest.approx(value, abs=1e-6)
    assert one.verdict == "agrees", one


def test_the_opposite_population_upholds_no_claim_and_corrects_none() -> None:
    opposite = {
        "classification": {SIMCLR: -0.1, VICREG: -0.1, ROTNET: 0.0, MAE: 0.0, SUPERVISED: 0.4},
        "depth": {SIMCLR: 0.5, VICREG: 0.1, ROTNET: 0.0, MAE: 0.0, SUPERVISED: 0.9},
    }
    rows = [row for row in population(opposite) if row.encoder != SIMCLR or "control" in row.protocol]
    for task, worth in (("classification", -0.1), ("depth", 0.5)):  # a gain that grows with labels
        grows = {50: 0.9, 200: 0.5 * (1 - worth), 1000: 0.1 - 0.9 * abs(worth)}
        rows += [row for row in curve(SIMCLR, worth, task=task, calibrated=grows) if "control" not in row.protocol]
    found = claims(rows)
    assert {one.verdict for one in found} == {"not reproducible"}
    assert all(one.reason for one in found)
    assert "scratch has the lower risk in" in claim(found, "in every regime").reason
    assert "the other way round" in claim(found, "differ more in CCI").reason
    assert (
        "more than 0.1 ahead beyond chance: supervised on depth on planted"
        in claim(found, "on dense tasks (CCI wit").reason
    )


def test_a_claim_without_the_rows_that_it_needs_says_so() -> None:
    found = claims(curve(SIMCLR, 0.3))
    assert claim(found, "in every regime").verdict == "agrees"
    for words in ("differ more in CCI", "The best self", "ones on classification", "as contrastive on dense"):
        one = claim(found, words)
        assert (one.ours, one.verdict) == ("not available", "not reproducible") and "run 'zoo curve" in one.reason
    only_contrastive = population({task: {SIMCLR: 0.3, VICREG: 0.2} for task in TASKS})
    assert "No non-contrastive encoder has a CCI" in claim(claims(only_contrastive), "ones on classification").reason
    supervised = claim(claims(curve(SUPERVISED, 0.3)), "in every regime")
    assert "No task has curves of contrastive encoders" in supervised.reason


def test_tasks_are_compared_on_the_encoders_that_all_of_them_have() -> None:
    rows = [row for row in population() if not (row.encoder == VICREG and row.metric == "depth_l1_error")]
    rows += curve(SIMCLR, 0.9, dataset="digits")  # a data set without a dense task
    both = comparisons.comparable(panels(rows), "contrastive", "non-contrastive")
    assert (both.dataset, both.encoders) == ("planted", tuple(sorted([SIMCLR, ROTNET, MAE])))
    assert [len(panel.curves) for panel in (*both.classification, *both.dense)] == [3, 3, 3]
    with pytest.raises(QueryError, match="No data set has curves of the same supervised encoder"):
        comparisons.comparable(panels(curve(SUPERVISED, 0.1)), "supervised")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planted rows as a user has them, and rows that are no curve."""
    folder = tmp_path_factory.mktemp("home")
    rows = population() + curve(SIMCLR, 0.3, dataset="incomplete", controls=("scratch", "blind"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_HOME", str(folder))
        assert record(provenance(rows)).n_new == len(rows)
    return folder


def test_recorded_rows_come_back_as_the_study_of_a_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(home))
    found = STUDY(study_table(with_mine=True), StudyOptions())
    assert isinstance(found, Findings)
    told = {(one.outcome, one.term): one.value for one in found.estimates}
    for task, encoders in WORTH.items():
        assert told[f"CCI: {task} on planted", f"{SIMCLR} (contrastive)"] == pytest.approx(encoders[SIMCLR])
        assert told[f"gain over scratch: {task} on planted", f"{SIMCLR} with 50 labels"] == pytest.approx(
            0.9 * encoders[SIMCLR]
        )
    (figure,) = [one for one in found.figures if one.name == "curves_classification_on_planted"]
    with use_style():
        assert len(figure.draw().axes) == 2
    assert any("on incomplete" in note and "control=maximal" in note for note in found.notes)
    used = {one.part: (one.used, sum(one.left_out.values())) for one in found.rows}
    assert used["depth on planted"] == (5, 0) and used["classification on incomplete"] == (0, 1)
    names = [one.name for one in found.figures]
    assert len(set(names)) == len(names)
