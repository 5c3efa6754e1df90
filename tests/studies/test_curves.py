"""The study of calibrated learning curves: claims on planted encoders whose every number is known in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.planted_curves import (
    MAE,
    ROTNET,
    SCRATCH,
    SIMCLR,
    SUPERVISED,
    VICREG,
    WORTH,
    curve,
    population,
    provenance,
)
from tests.shipped import shipped_table, study_module
from zoo.analysis.curves import Panel, curve_measurements, found_curves, main_panels, panels_of
from zoo.analysis.table import study_table
from zoo.errors import QueryError
from zoo.evaluation.curves.recipe import TASKS, Recipe
from zoo.evaluation.drawing import style
from zoo.results.recording import record
from zoo.results.rows import Measurement
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, study_named

comparisons = study_module("what_is_pretraining_worth", "comparisons")

NAME = "what_is_pretraining_worth"
tables, of_paper = study_module(NAME, "tables"), study_module(NAME, "claims")
STUDY = load_study(study_named(NAME))
Worth = Mapping[str, Mapping[str, float]]


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


@pytest.mark.parametrize(
    ("words", "value"),
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
)
def test_what_is_planted_is_found_and_agrees(planted: list[Claim], words: str, value: float) -> None:
    one = claim(planted, words)
    assert one.value == pytest.approx(value, abs=1e-6)
    assert one.verdict == "agrees", one


def test_every_section_of_the_paper_has_its_claims(planted: list[Claim]) -> None:
    sections = [one.source.partition(",")[0] for one in planted]
    assert sections == ["Section 5.1"] * 3 + ["Section 5.2"] * 3 + ["Section 5.3"] * 2 + ["Section 5.4"] * 2


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


def test_noise_leaves_claims_open_and_says_that_the_encoders_do_not_tell() -> None:
    equal: Worth = {task: dict.fromkeys(encoders, 0.2) for task, encoders in WORTH.items()}
    found = claims(population(equal, half_width=0.15))
    for words in ("differ more in CCI", "The best self-supervised", "ones on classification", "by less on dense"):
        one = claim(found, words)
        assert one.verdict == "not reproducible" and "do not tell" in one.reason and "tiny networks" in one.reason
    assert "most are within chance" in claim(found, "in every regime").reason
    assert "do not settle it" in claim(found, "as contrastive on classification").reason


def test_encoders_equal_to_scratch_beat_it_in_no_regime() -> None:
    found = comparisons.wins_of([(panel, one) for panel in panels(curve(SIMCLR, 0.0)) for one in panel.curves])
    assert (found.n, found.better, found.clearly_better, found.clearly_worse) == (3, 0, 0, 0)
    assert found.worst_gain.value == pytest.approx(0.0, abs=1e-12)


def test_a_supervised_encoder_that_has_seen_the_labels_is_named() -> None:
    rows = [*curve(SIMCLR, 0.3, dataset="shapes"), *curve(SUPERVISED, 0.35, dataset="shapes")]
    one = claim(claims(rows), "as contrastive on classification")
    assert f"{SUPERVISED} has seen the labels of classification on shapes" in one.ours and one.verdict == "agrees"
    elsewhere = claim(claims(population()), "as contrastive on classification")
    assert "has seen" not in elsewhere.ours


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


def test_without_any_curve_nothing_is_available_and_no_claim_is_lost(planted: list[Claim]) -> None:
    found = of_paper.claims.judged(())
    assert [one.claim for one in found] == [one.claim for one in planted]
    assert {one.ours for one in found} == {"not available"} and all(one.reason for one in found)


def test_one_regime_has_gains_and_no_improvement() -> None:
    found = claims(curve(SIMCLR, 0.3, scratch={200: 0.5}))
    assert claim(found, "in every regime").value == 1
    assert claim(found, "over all regimes").ours == "not available"
    with pytest.raises(QueryError, match="two data sizes at least"):
        comparisons.gain_at_ends(panels(curve(SIMCLR, 0.3, scratch={200: 0.5}))[0].curves)


def test_tasks_are_compared_on_the_encoders_that_all_of_them_have() -> None:
    rows = [row for row in population() if not (row.encoder == VICREG and row.metric == "depth_l1_error")]
    rows += curve(SIMCLR, 0.9, dataset="digits")  # a data set without a dense task
    both = comparisons.comparable(panels(rows), "contrastive", "non-contrastive")
    assert (both.dataset, both.encoders) == ("planted", tuple(sorted([SIMCLR, ROTNET, MAE])))
    assert [len(panel.curves) for panel in (*both.classification, *both.dense)] == [3, 3, 3]
    with pytest.raises(QueryError, match="No data set has curves of the same supervised encoder"):
        comparisons.comparable(panels(curve(SUPERVISED, 0.1)), "supervised")


def test_a_fine_tuned_panel_is_held_against_claims_before_a_frozen_one() -> None:
    frozen = Recipe(frozen=True)
    rows = [*curve(SIMCLR, 0.3), *(row for name in (SIMCLR, VICREG) for row in curve(name, 0.1, recipe=frozen))]
    (main,) = panels(rows)
    assert main.name == "classification on planted" and len(main.curves) == 1
    names = [panel.name for panel in panels_of(found_curves(rows))]
    assert names == ["classification on planted", "classification on planted (frozen=true)"]


def test_the_tables_have_every_encoder_task_and_regime() -> None:
    every = panels_of(found_curves(population()))
    (improvements,) = tables.improvement_tables(every)
    assert improvements.headers == ["encoder", *(f"{task} on planted" for task in TASKS)]
    cells = {row[0]: row[1:] for row in improvements.rows}
    assert [cell.split()[0] for cell in cells[f"{SIMCLR} (contrastive)"]] == ["0.60", "0.30", "0.20"]
    regimes = tables.regimes_table(every[0])
    assert len(regimes.rows) == 5 * len(SCRATCH) and all(len(row) == len(regimes.headers) for row in regimes.rows)
    first = regimes.rows[0]
    assert first[:3] == [f"{SIMCLR} (contrastive)", "50", "2"]
    assert [cell.split()[0] for cell in first[5:8]] == ["0.36", "0.90", "0.60"]
    compared = tables.comparison_table(every)
    assert [row[1] for row in compared.rows] == ["4", "4", "4"]
    assert compared.rows[0][6].startswith("0.30 [") and compared.rows[0][7].startswith("-0.05 [")
    assert [one.used for one in tables.rows_of(every)] == [5, 5, 5]


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
    with style():
        assert len(figure.draw().axes) == 2
    assert any("on incomplete" in note and "control=maximal" in note for note in found.notes)
    used = {one.part: (one.used, sum(one.left_out.values())) for one in found.rows}
    assert used["depth on planted"] == (5, 0) and used["classification on incomplete"] == (0, 1)
    names = [one.name for one in found.figures]
    assert len(set(names)) == len(names)


def test_a_users_rows_take_part_only_when_they_are_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(home))
    assert "planted" in {row.dataset for row in curve_measurements(with_mine=True)}
    assert "planted" not in {row.dataset for row in curve_measurements()}


def test_with_no_curve_at_all_the_study_runs_and_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDY.__globals__, "curve_measurements", lambda **_: [])
    found = STUDY(shipped_table(), StudyOptions())
    assert (list(found.figures), list(found.tables), list(found.estimates), list(found.rows)) == ([], [], [], [])
    assert found.notes[0] == of_paper.NO_CURVES and "zoo curve NAME... DATA --task classification" in of_paper.NO_CURVES
    assert len(found.claims) == 10


def test_every_estimate_has_its_unit_number_and_method() -> None:
    (panel,) = panels(curve(SIMCLR, 0.3))
    (one,) = comparisons.improvement_estimates(panel)
    assert (one.n, one.unit, one.method) == (3, "share of the area under the diagonal", "calibrated learning curves")
    assert one.ci_low is not None and one.ci_high is not None and 0.29 < one.ci_low < 0.3 < one.ci_high < 0.31
    assert 0 < of_paper.MINOR < 1
