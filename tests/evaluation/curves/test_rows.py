"""Learning curves of a real encoder, from images to rows of results with what they were measured from."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from tests.evaluation.curves.curve_runs import HOW, measured, request
from zoo.errors import QueryError
from zoo.evaluation.curves.inputs import transfer_data
from zoo.evaluation.curves.models import candidate
from zoo.evaluation.curves.progress import CurveProgress
from zoo.evaluation.curves.recipe import Recipe
from zoo.evaluation.curves.report import CurveReport, CurveRequest, learning_curves, rows_of_curves
from zoo.evaluation.curves.runs import Job
from zoo.evaluation.curves.tuning import Step
from zoo.results.recording import PROVENANCE_KEYS, provenance_of, record
from zoo.results.rows import measurements

NAME = "pocket_sup_rn_shapes"
DAY = date(2026, 11, 21)
TINY = Recipe(learning_rates=(3e-3, 1e-3), epochs=1, least_steps=8, evaluations=4, batch_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the runs of this file."""
    return tmp_path_factory.mktemp("runs")


def real(folder: Path, task: str, asked: CurveRequest) -> CurveReport:
    data = transfer_data("shapes:classes=3,train=36,val=18", task)
    return learning_curves([candidate(NAME)], data, asked, folder=folder, how=HOW)


@pytest.fixture(scope="module")
def classification(folder: Path) -> CurveReport:
    """A frozen encoder, whose maximal supervision was recorded, for eight steps take nobody far."""
    asked = CurveRequest(regimes=(9, "all"), seeds=(0, 1), recipe=replace(TINY, frozen=True), maximal=0.0, n_draws=200)
    return real(folder, "classification", asked)


@pytest.fixture(scope="module")
def normals(folder: Path) -> CurveReport:
    """Two metrics of maps."""
    asked = CurveRequest(regimes=(6, 12), seeds=(0,), recipe=TINY, maximal=0.0, n_draws=200)
    return real(folder, "normals", asked)


def test_a_real_encoder_goes_from_images_to_a_curve(classification: CurveReport, normals: CurveReport) -> None:
    (curve,) = classification.curves
    assert (curve.encoder, curve.frozen, curve.dataset) == (NAME, True, "shapes-3-classes-32px")
    assert curve.blind.value == pytest.approx(100 * 2 / 3)
    assert [(point.n_requested, point.n_seeds) for point in curve.points] == [(9, 2), (36, 2)]
    (other,) = normals.curves  # a risk was recorded for the first metric alone
    assert (other.metric, other.unit, other.n_test) == ("normals_l1_error", "dimensionless", 18)
    runs = normals.runs[NAME, "encoder"]
    assert [run.examples.shape for run in runs if run.examples is not None] == [(8, 3, 32, 32)] * 2
    assert all(set(run.risks) == {"normals_l1_error", "normals_angular_error"} for run in runs)
    assert runs[0].report["learning_rate"] in TINY.learning_rates


def test_real_runs_are_found_again(folder: Path, classification: CurveReport) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = real(folder, "classification", classification.request)
    assert again.curves == classification.curves
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


class InTheMiddle(CurveProgress):
    """Interrupts in the middle of the training of the encoder."""

    def step(self, job: Job, step: Step) -> None:
        if job.control == "encoder":  # at whichever step is told, which on a fast machine are few
            raise KeyboardInterrupt


def test_a_real_training_that_is_killed_goes_on_and_ends_as_one_that_is_not(tmp_path: Path) -> None:
    data = transfer_data("shapes:classes=3,train=36,val=18", "classification")
    asked = CurveRequest(regimes=(12,), seeds=(0,), recipe=TINY, maximal=0.0, n_draws=20)
    one, other = tmp_path / "killed", tmp_path / "whole"
    how = replace(HOW, state_seconds=0.0)
    with pytest.raises(KeyboardInterrupt):
        learning_curves([candidate(NAME)], data, asked, folder=one, how=how, progress=InTheMiddle())
    assert len(list(one.glob("*.npz"))) == 2 and len(list(one.glob("*.fit/*"))) == 1
    killed, whole = (learning_curves([candidate(NAME)], data, asked, folder=folder, how=how) for folder in (one, other))
    assert killed.curves == whole.curves and not list(one.glob("*.fit"))
    (run,), (same,) = killed.runs[NAME, "encoder"], whole.runs[NAME, "encoder"]
    assert run.report["validation"] == same.report["validation"]


def test_there_is_a_row_for_every_run_with_everything_that_it_was_measured_from(classification: CurveReport) -> None:
    rows = rows_of_curves(classification, source="us", day=DAY)
    told = [(row.protocol, row.split, row.n_train, row.seed) for row in rows]
    options = "batch_size=8, control=scratch, epochs=1, evaluations=4, learning_rates=[0.003, 0.001], least_steps=8"
    scratch = f"zoo-curve-classification-1 ({options})"
    frozen = scratch.replace("control=scratch, ", "").replace("evaluations=4", "evaluations=4, frozen=true")
    assert told == [
        ("zoo-curve-classification-1 (control=blind)", "train -> val", 36, None),
        (scratch, "train 9 images -> val", 9, 0),
        (scratch, "train 9 images -> val", 9, 1),
        (scratch, "train -> val", 36, 0),
        (scratch, "train -> val", 36, 1),
        (frozen, "train 9 images -> val", 9, 0),
        (frozen, "train 9 images -> val", 9, 1),
        (frozen, "train -> val", 36, 0),
        (frozen, "train -> val", 36, 1),
        (scratch.replace("scratch", "maximal"), "train -> val", None, None),
    ]
    assert {(row.encoder, row.metric, row.unit, row.source, row.date) for row in rows} == {
        (NAME, "transfer_error", "percent", "us", "2026-11-21")
    }
    for row, provenance in rows.items():
        assert provenance.keys() >= PROVENANCE_KEYS.keys()
        is_encoder = "control" not in row.protocol
        assert (provenance["weights_hash"] is not None) == is_encoder
        assert provenance["settings"]["frozen"] is is_encoder
        assert provenance["images_hash"]["train"] == classification.data.train.fingerprint
        assert (provenance["subset_hash"] is None) == (row.seed is None)
        assert "seconds" not in provenance["report"]
        if row.seed is None:
            continue
        assert row.ci_low is not None and row.ci_high is not None and row.ci_low <= row.value <= row.ci_high
        assert provenance["report"]["n_actual"] == row.n_train
        assert {"control", "n_requested", "learning_rate", "validation"} <= provenance["report"].keys()
    maximal = next(row for row in rows if "control=maximal" in row.protocol)
    assert rows[maximal]["report"]["recorded_elsewhere"] is True and (maximal.value, maximal.ci_low) == (0.0, None)


def test_rows_are_recorded_once_and_come_back_with_their_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classification: CurveReport, normals: CurveReport
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    for report, n in ((classification, 10), (normals, 2 * (1 + 2 + 2) + 1)):
        rows = rows_of_curves(report, source="us", day=DAY)
        assert record(rows).n_new == n == len(rows)
        assert record(rows_of_curves(report, source="us")).n_known == n
        found = [
            row for row in measurements(encoders=NAME) if row.source == "us" and row.metric in report.data.task.metrics
        ]
        assert found == list(rows)
        for row in found:
            provenance = provenance_of(row)
            assert (
                provenance is not None and provenance["preprocess_hash"] and provenance["settings"]["batch_size"] == 8
            )


def test_maximal_supervision_that_was_measured_has_a_row_a_seed_and_scratch_has_the_same(tmp_path: Path) -> None:
    report = measured(tmp_path)
    named = replace(report, candidates=(replace(report.candidates[0], name=NAME),))
    named = replace(
        named,
        runs={(NAME, control): runs for (_, control), runs in report.runs.items()},
        intervals={(NAME, control, metric): found for (_, control, metric), found in report.intervals.items()},
    )
    rows = rows_of_curves(named, day=DAY)
    maximal, scratch = (
        [(row.split, row.seed, row.value) for row in rows if f"control={control}" in row.protocol]
        for control in ("maximal", "scratch")
    )
    assert maximal == scratch[-2:] and len(scratch) == 6
    assert [split for split, _, _ in scratch] == [
        *["train 20 images -> val"] * 2,
        *["train 100 images -> val"] * 2,
        *["train -> val"] * 2,
    ]


def test_an_encoder_without_a_card_cannot_be_recorded_and_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"'planted' has no card.*zoo register"):
        rows_of_curves(measured(tmp_path, request(regimes=(20, 100))))
