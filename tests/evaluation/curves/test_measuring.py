"""Learning curves of planted encoders come out as they were planted, at regimes that were asked for or found."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evaluation.curves.curve_runs import (
    HOW,
    N_TRAIN,
    PRETRAINED_NEEDS,
    SCRATCH_NEEDS,
    calls,
    encoder_that_needs,
    labelled,
    measured,
    planted_candidate,
    planted_data,
    planted_error,
    request,
)
from zoo.errors import DataError, QueryError
from zoo.evaluation.curves.inputs import TransferData
from zoo.evaluation.curves.progress import CurveBar, TimeLeft
from zoo.evaluation.curves.recipe import TASKS, Recipe
from zoo.evaluation.curves.report import CurveRequest, learning_curves
from zoo.evaluation.curves.runs import CurveRun, Job, Workload
from zoo.evaluation.curves.tuning import Step


class Noted:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        self.told.append(("start", n_jobs, n_done, n_steps))

    def began(self, job: Job) -> None:
        self.told.append(("began", job.label))

    def step(self, job: Job, step: Step) -> None:
        self.told.append(("step", job.label, step.step / step.n_steps))

    def ended(self, job: Job, run: CurveRun | None) -> None:
        self.told.append(("ended", job.label, run is not None))

    def end(self) -> None:
        self.told.append(("end",))


def test_a_curve_says_what_was_planted(tmp_path: Path) -> None:
    report = measured(tmp_path, request(regimes=(20, 60, 150, "all"), seeds=(0, 1, 2), n_draws=500))
    (curve,) = report.curves
    assert report.regimes == (20, 60, 150, N_TRAIN)
    assert curve.blind.value == pytest.approx(80.0)
    assert curve.maximal.value == pytest.approx(100 * planted_error(N_TRAIN, SCRATCH_NEEDS), abs=3)
    for point in curve.points:
        risk, maximal = planted_error(point.n_actual, PRETRAINED_NEEDS), planted_error(N_TRAIN, SCRATCH_NEEDS)
        assert point.calibrated.value == pytest.approx((risk - maximal) / (0.8 - maximal), abs=0.08)
        assert point.n_seeds == 3
    assert curve.improvement is not None and curve.improvement.ci_low is not None
    assert 0.5 < curve.improvement.ci_low < curve.improvement.value
    assert curve.points[1].scratch_n == pytest.approx(60 * SCRATCH_NEEDS / PRETRAINED_NEEDS, rel=0.25)
    assert (curve.protocol, curve.n_test, curve.unit) == ("zoo-curve-classification-1", 300, "percent")


def test_a_report_has_every_run_by_candidate_and_control(tmp_path: Path) -> None:
    report = measured(tmp_path, candidates=[planted_candidate("one"), planted_candidate("two", needs=40)])
    assert {role: len(runs) for role, runs in report.runs.items()} == {
        (name, control): n
        for name in ("one", "two")
        for control, n in (("blind", 1), ("maximal", 2), ("scratch", 6), ("encoder", 6))
    }
    runs = report.runs["two", "encoder"]
    assert [(run.n_requested, run.seed) for run in runs] == [(n, seed) for n in (20, 100, N_TRAIN) for seed in (0, 1)]
    assert all(run.control == control for (_, control), runs in report.runs.items() for run in runs)
    assert [curve.encoder for curve in report.curves] == ["one", "two"]
    assert runs[0].report["n_train"] + runs[0].report["n_validation"] == runs[0].n_actual == 20
    for (name, control, metric), found in report.intervals.items():
        for run, around in zip(report.runs[name, control], found, strict=True):
            assert around.value == pytest.approx(run.risk(metric))
            assert around.ci_low is not None and around.ci_high is not None and around.ci_low < around.ci_high


def test_one_regime_gives_a_curve_without_a_cumulative_improvement_and_says_so(tmp_path: Path) -> None:
    (curve,) = measured(tmp_path, request(regimes=(60,))).curves
    assert curve.improvement is None and len(curve.points) == 1
    assert any("There is no cumulative improvement" in note for note in curve.notes)


def test_regimes_are_found_and_what_was_tried_is_used(tmp_path: Path) -> None:
    report = measured(tmp_path, request(regimes=None, count=4), data=planted_data(n_train=3_000))
    tried = [(needs, n, seed) for _, needs, n, seed in calls(tmp_path / "log")]
    assert len(tried) == len(set(tried))
    scratch = [point.calibrated_scratch.value for point in report.curves[0].points]
    assert len(report.regimes) == 4 and scratch[0] > 0.85 and scratch[-1] < 0.15 and report.notes == ()
    asked = measured(tmp_path, request(regimes=report.regimes), data=planted_data(n_train=3_000))
    assert asked.curves == report.curves and len(calls(tmp_path / "log")) == len(tried)


def test_a_search_that_does_not_reach_the_ends_says_so(tmp_path: Path) -> None:
    report = measured(tmp_path, request(regimes=None, maximal=1.0), data=planted_data(n_train=60))
    assert len(report.notes) == 1 and "not near maximal supervision even at 60 images" in report.notes[0]


def test_a_search_for_several_architectures_covers_them_all(tmp_path: Path) -> None:
    slow = replace(planted_candidate("slow"), architecture_hash="b", untrained=partial(encoder_that_needs, 600))
    data = planted_data(n_train=3_000)
    asked = request(regimes=None, maximal=5.0)
    alone = [measured(tmp_path, asked, data=data, candidates=[one]).regimes for one in (planted_candidate(), slow)]
    both = measured(tmp_path, asked, data=data, candidates=[planted_candidate(), slow])
    assert both.regimes[0] == min(found[0] for found in alone) < max(found[0] for found in alone)
    assert both.regimes[-1] == max(found[-1] for found in alone) > min(found[-1] for found in alone)


def test_a_recorded_risk_takes_the_place_of_maximal_supervision(tmp_path: Path) -> None:
    report = measured(tmp_path, request(maximal=2.0))
    (curve,) = report.curves
    assert (curve.maximal.value, curve.maximal.ci_low, curve.maximal.ci_high) == (2.0, 2.0, 2.0)
    assert report.runs["planted", "maximal"] == ()
    assert curve.points[-1].calibrated_scratch.value > 0
    assert [run.control for run in report.runs["planted", "scratch"]] == ["scratch"] * 6


def test_maximal_supervision_worse_than_the_blind_guess_ends_it_before_the_regimes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"transfer_error on planted"):
        measured(tmp_path, data=planted_data(), train={"fails": ()}, candidates=[hopeless_candidate()])
    done = calls(tmp_path / "log")
    assert [n for _, _, n, _ in done] == [N_TRAIN, N_TRAIN] and len(list((tmp_path / "runs").iterdir())) == 3
    with pytest.raises(DataError, match=r"transfer_error on planted"):
        measured(tmp_path, request(maximal=85.0))
    assert calls(tmp_path / "log") == done


def hopeless_candidate() -> Any:
    """Its scratch needs more labels than there are."""
    return replace(planted_candidate(), untrained=partial(encoder_that_needs, 1e9), architecture_hash="hopeless")


def test_what_cannot_be_measured_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    for asked, error, says in (
        (request(regimes=(20, N_TRAIN + 1)), QueryError, "has 400 training images"),
        (request(regimes=(20, 20)), QueryError, "asked for twice"),
        (request(regimes=()), QueryError, "No regime"),
        (request(regimes=(4, 20)), DataError, "ask for at least 6"),
    ):
        with pytest.raises(error, match=says):
            measured(tmp_path, asked)
    for names in ([], ["one", "one"]):
        with pytest.raises(QueryError, match="each named once"):
            measured(tmp_path, candidates=[planted_candidate(name) for name in names])
    assert calls(tmp_path / "log") == []


def test_a_class_of_the_test_images_alone_is_refused(tmp_path: Path) -> None:
    train, test = labelled(np.array([0, 1, 0, 1, 2, 2])).subset([0, 1, 2, 3], split="train"), labelled(np.arange(3))
    with pytest.raises(DataError, match="1 test images of 'odd' have the class 'class 2', which no training image has"):
        learning_curves(
            [planted_candidate()],
            TransferData("odd", TASKS["classification"], train, test),
            request(),
            folder=tmp_path,
            how=HOW,
        )


@pytest.mark.parametrize(
    "changes", [{"seeds": ()}, {"seeds": (0, 0)}, {"seeds": (-1,)}, {"maximal": -1.0}, {"regimes": None, "count": 1}]
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="expected"):
        CurveRequest(**changes)


def test_progress_is_told_of_every_run_and_of_what_was_there(tmp_path: Path) -> None:
    noted, again = Noted(), Noted()
    measured(tmp_path, progress=noted)
    n_steps = sum(Recipe().n_steps(n - n // 5) for n in (20, 100, N_TRAIN)) * 4
    assert noted.told[0] == ("start", 13, 0, n_steps) and noted.told[-1] == ("end",)
    assert noted.told[1:3] == [("began", "blind guess"), ("ended", "blind guess", True)]
    assert ("step", "maximal supervision, 400 images, seed 0", 0.5) in noted.told
    assert [told[0] for told in noted.told].count("ended") == 13
    measured(tmp_path, progress=again)
    assert again.told == [("start", 13, 13, 0), ("end",)]


def test_time_left_is_by_steps_and_begins_when_something_is_known() -> None:
    work = Workload(data=planted_data(), recipe=Recipe())
    one, other = (work.encoder(planted_candidate(), n, 0) for n in (20, 400))
    left = TimeLeft(one.n_steps + other.n_steps)
    begun_s = left._begun_s
    assert left.seconds() is None
    left.step(one, 0.5)
    assert left.seconds(now_s=begun_s + 10) == pytest.approx(10 * (other.n_steps / one.n_steps + 0.5) / 0.5)
    left.ended(one)
    assert left.seconds(now_s=begun_s + 10) == pytest.approx(10 * other.n_steps / one.n_steps)
    left.ended(other)
    assert left.seconds(now_s=begun_s + 10) == 0


def test_a_bar_is_silent_where_there_is_no_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path, progress=CurveBar())
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_bar_shows_runs_time_left_and_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    job = Workload(data=planted_data(), recipe=Recipe()).scratch(planted_candidate(), N_TRAIN, 0)
    bar = CurveBar()
    bar.start(7, 3, n_steps=4 * job.n_steps)
    bar.began(job)
    bar.step(job, Step(step=5, n_steps=10, validation_risk=None))
    time.sleep(0.3)  # it is drawn ten times a second
    bar.end()
    said = capfd.readouterr().err
    assert "3/7" in said and "maximal supervision, 400 images, seed 0 50 %" in said and "s left" in said
