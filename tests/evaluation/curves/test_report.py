"""Learning curves: planted ones come out as planted, and finished runs are kept and never repeated."""

from __future__ import annotations

import math
import multiprocessing
from dataclasses import replace
from datetime import date
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
    dying_encoder,
    encoder_that_needs,
    labelled,
    measured,
    numbers,
    planted_candidate,
    planted_data,
    planted_error,
    planted_train,
    request,
    slow_encoder,
)
from zoo.errors import DataError, QueryError, StoreError, ZooError
from zoo.evaluation.curves.calibration import NEAR_BLIND, NEAR_MAXIMAL
from zoo.evaluation.curves.data import TransferData, transfer_data
from zoo.evaluation.curves.models import candidate
from zoo.evaluation.curves.recipe import TASKS, Recipe
from zoo.evaluation.curves.report import (
    CurveReport,
    CurveRequest,
    build_ladder,
    find_scale_ends,
    learning_curves,
    make_curve_rows,
    parse_regimes,
    resolve_regimes,
    select_spread_regimes,
)
from zoo.evaluation.curves.runs import CurveJob, CurveProgress, CurveRun, CurveWorkload, UnfinishedParts
from zoo.evaluation.curves.training import TrainingStep, TransferResult
from zoo.execution import processes
from zoo.execution.executor import select_part
from zoo.execution.processes import Processes
from zoo.results.recording import PROVENANCE_KEYS, find_provenance, record
from zoo.results.rows import measurements

N_RUNS = 2 * 3 + 2 * 3 + 1 - 1  # encoder and scratch, three regimes, two seeds; the constant baseline trains nothing
NAME = "pocket_sup_rn_shapes"


class Noted(CurveProgress):
    """A progress that remembers what it was told, and may interrupt."""

    def __init__(self, interrupt_at: str = "") -> None:
        self.told: list[tuple[Any, ...]] = []
        self.interrupt_at = interrupt_at

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        self.told.append(("start", n_jobs, n_done, n_steps))

    def began(self, job: CurveJob) -> None:
        self.told.append(("began", job.label))
        if job.control == self.interrupt_at:
            raise KeyboardInterrupt

    def step(self, job: CurveJob, step: TrainingStep) -> None:
        self.told.append(("step", job.label, step.step / step.n_steps))

    def ended(self, job: CurveJob, run: CurveRun | None) -> None:
        self.told.append(("ended", job.label, run is not None))

    def end(self) -> None:
        self.told.append(("end",))


def test_a_curve_says_what_was_planted(tmp_path: Path) -> None:
    report = measured(tmp_path, request(regimes=(20, 60, 150, "all"), seeds=(0, 1, 2), n_draws=500))
    (curve,) = report.curves
    maximal = planted_error(N_TRAIN, SCRATCH_NEEDS)
    assert report.regimes == (20, 60, 150, N_TRAIN) and curve.blind.value == pytest.approx(80.0)
    assert curve.maximal.value == pytest.approx(100 * maximal, abs=3)
    for point in curve.points:
        risk = planted_error(point.n_actual, PRETRAINED_NEEDS)
        assert point.calibrated.value == pytest.approx((risk - maximal) / (0.8 - maximal), abs=0.08)
    assert curve.improvement is not None and curve.improvement.ci_low is not None
    assert 0.5 < curve.improvement.ci_low < curve.improvement.value
    assert curve.points[1].scratch_n == pytest.approx(60 * SCRATCH_NEEDS / PRETRAINED_NEEDS, rel=0.25)
    last = curve.points[-1].calibrated_scratch  # scratch with all labels is maximal supervision
    assert (last.value, last.ci_low, last.ci_high) == (0.0, 0.0, 0.0)
    assert (curve.protocol, curve.n_test, curve.unit) == ("zoo-curve-classification-1", 300, "percent")
    equal = measured(tmp_path, candidates=[planted_candidate(needs=80)]).curves[0].improvement
    assert equal is not None and (equal.value, equal.ci_low, equal.ci_high) == (0, 0, 0)


def test_every_run_is_done_once_and_candidates_of_one_architecture_share_their_controls(tmp_path: Path) -> None:
    noted, again = Noted(), Noted()
    first = measured(tmp_path, progress=noted)
    done = calls(tmp_path / "log")
    assert len(done) == len(set(done)) == N_RUNS == len(list((tmp_path / "runs").iterdir())) - 1
    n_steps = sum(Recipe().n_steps(n - n // 5) for n in (20, 100, N_TRAIN)) * 4
    assert noted.told[0] == ("start", 13, 0, n_steps) and noted.told[-1] == ("end",)
    assert noted.told[1:3] == [("began", "constant baseline"), ("ended", "constant baseline", True)]
    assert ("step", "maximal supervision, 400 images, seed 0", 0.5) in noted.told
    assert numbers(measured(tmp_path, progress=again)) == numbers(first) and calls(tmp_path / "log") == done
    assert again.told == [("start", 13, 13, 0), ("end",)]
    both = measured(tmp_path, candidates=[planted_candidate("one"), planted_candidate("two", needs=40)])
    assert len(calls(tmp_path / "log")) == N_RUNS + 6
    counts = {"blind": 1, "maximal": 2, "scratch": 6, "encoder": 6}
    assert {role: len(runs) for role, runs in both.runs.items()} == {
        (name, control): n for name in ("one", "two") for control, n in counts.items()
    }
    assert all(run.control == control for (_, control), runs in both.runs.items() for run in runs)
    for (name, control, metric), found in both.intervals.items():
        for run, around in zip(both.runs[name, control], found, strict=True):  # type: ignore[index]
            assert around.value == pytest.approx(run.risk(metric)) and around.ci_low is not None
    measured(tmp_path, request(recipe=Recipe(frozen=True)))  # which finds its controls
    assert len(calls(tmp_path / "log")) == N_RUNS + 12


def test_other_images_weights_recipes_or_seeds_find_nothing() -> None:
    work = CurveWorkload(data=planted_data(), recipe=Recipe())
    keys = {
        work.encoder(planted_candidate(), 50, 0).key,
        CurveWorkload(data=planted_data(n_train=390), recipe=Recipe()).encoder(planted_candidate(), 50, 0).key,
        CurveWorkload(data=planted_data(), recipe=Recipe(epochs=3.0)).encoder(planted_candidate(), 50, 0).key,
        work.encoder(planted_candidate(needs=3), 50, 0).key,
        work.encoder(planted_candidate(), 50, 1).key,
        work.encoder(planted_candidate(), 60, 0).key,
        work.scratch(planted_candidate(), 50, 0).key,
    }
    assert len(keys) == 7


@pytest.mark.parametrize("n_before", [0, 3, 7])
def test_a_command_that_was_interrupted_goes_on_where_it_was(tmp_path: Path, n_before: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "killed", train={"stop_after": n_before})
    assert len(calls(tmp_path / "killed" / "log")) == n_before
    assert numbers(measured(tmp_path / "killed")) == numbers(measured(tmp_path / "whole"))
    assert len(calls(tmp_path / "killed" / "log")) == N_RUNS


def test_a_damaged_file_or_one_of_another_run_counts_as_not_there(tmp_path: Path) -> None:
    first = measured(tmp_path)
    one, two, three, four, other = sorted((tmp_path / "runs").iterdir())[:5]
    for path, content in ((one, b""), (two, b"no run"), (three, three.read_bytes()[:-40]), (four, other.read_bytes())):
        path.write_bytes(content)
    assert numbers(measured(tmp_path)) == numbers(first)
    assert len(calls(tmp_path / "log")) in (N_RUNS + 3, N_RUNS + 4)  # one may be the constant baseline


def test_parts_of_the_work_do_every_run_once_and_the_last_one_reports(tmp_path: Path) -> None:
    for k in (1, 2):
        with pytest.raises(UnfinishedParts, match=f"Part {k}/3 is done; .* of 13 runs are finished"):
            measured(tmp_path, executor=select_part(Processes(0), k, 3))
    last = measured(tmp_path, executor=select_part(Processes(0), 3, 3))
    assert len(calls(tmp_path / "log")) == N_RUNS and numbers(last) == numbers(measured(tmp_path / "whole"))


@pytest.fixture
def quick_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are forks of one that has imported PyTorch and holds nothing else of this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zoo.evaluation.curves.runs", "tests.evaluation.curves.curve_runs"])
    monkeypatch.setattr(processes, "_SPAWN", context)


@pytest.mark.usefixtures("quick_to_start")
@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_run_that_fails_does_not_keep_the_others_from_being_done(tmp_path: Path, n_processes: int) -> None:
    with pytest.raises(ZooError, match=r"no seed named '1'.*and 5 more failed; 7 of 13 runs are finished and kept"):
        measured(tmp_path, train={"fails": (1,)}, n_processes=n_processes)
    assert len(calls(tmp_path / "log")) == N_RUNS
    assert numbers(measured(tmp_path)) == numbers(measured(tmp_path / "whole"))
    assert len(calls(tmp_path / "log")) == N_RUNS + 6


@pytest.mark.usefixtures("quick_to_start")
def test_an_interrupt_or_a_death_ends_other_processes_and_what_was_finished_stays(tmp_path: Path) -> None:
    slow, dying = (replace(planted_candidate(), pretrained=one) for one in (slow_encoder, dying_encoder))
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path, candidates=[slow], n_processes=2, progress=Noted(interrupt_at="encoder"))
    assert not multiprocessing.active_children()
    assert len(list((tmp_path / "runs").glob("*.npz"))) >= 3  # the ends of the scale, which come first
    with pytest.raises(ZooError, match=r"fewer processes.*7 of 13 runs"):
        measured(tmp_path, candidates=[dying], n_processes=2)
    measured(tmp_path)
    assert len(calls(tmp_path / "log")) <= N_RUNS + 1  # of those under way, one may have been past its training


def test_what_cannot_be_kept_or_go_to_other_processes_ends_the_rest_at_once(tmp_path: Path) -> None:
    here = replace(planted_candidate(), pretrained=lambda: encoder_that_needs(1))
    with pytest.raises(QueryError, match="functions of a module"):
        measured(tmp_path, candidates=[here], n_processes=2)
    with pytest.raises(QueryError, match="expected at least 1"):
        measured(tmp_path, n_processes=0)

    (tmp_path / "runs").write_text("a file")
    with pytest.raises((StoreError, DataError), match="runs"):
        measured(tmp_path)
    train, test = (labelled(np.zeros(n, np.int64), split=split) for n, split in ((40, "train"), (8, "val")))
    one_class = TransferData("one", TASKS["classification"], train, test)
    with pytest.raises(DataError, match=r"All 40 labels are the class 0.*; 0 of \d+ runs are finished"):
        measured(tmp_path / "other", data=one_class, asked=request(regimes=(20,)))
    assert calls(tmp_path / "log") == calls(tmp_path / "other" / "log") == []


def diverging_train(*arguments: Any, **options: Any) -> TransferResult:
    trained = planted_train(*arguments)
    trained.risks["transfer_error"][3] = np.nan
    return trained


def test_risks_that_are_none_are_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lower the learning rates"):
        learning_curves(
            [planted_candidate()], planted_data(), request(), folder=tmp_path, how=HOW, train=diverging_train
        )
    assert len(list(tmp_path.glob("*.npz"))) == 1  # the constant baseline


def test_a_recorded_risk_takes_the_place_of_maximal_supervision_which_must_beat_the_blind_guess(
    tmp_path: Path,
) -> None:
    report = measured(tmp_path / "one", request(maximal=2.0))
    assert report.curves[0].maximal.value == 2.0 and report.runs["planted", "maximal"] == ()
    assert [run.control for run in report.runs["planted", "scratch"]] == ["scratch"] * 6
    hopeless = partial(encoder_that_needs, 1e9)  # its scratch needs more labels than there are
    with pytest.raises(DataError, match="transfer_error on planted"):
        measured(tmp_path, candidates=[replace(planted_candidate(), untrained=hopeless)])
    assert [n for _, _, n, _ in calls(tmp_path / "log")] == [N_TRAIN, N_TRAIN], "before the regimes"
    with pytest.raises(DataError, match="transfer_error on planted"):
        measured(tmp_path, request(maximal=85.0))
    assert len(calls(tmp_path / "log")) == 2


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        *(({"regimes": regimes}, {}) for regimes in ((20, N_TRAIN + 1), (20, 20), (), (4, 20))),
        *(({"seeds": seeds}, {}) for seeds in ((), (0, 0), (-1,))),
        ({"maximal": -1.0}, {}),
        ({"regimes": None, "count": 1}, {}),
        ({}, {"candidates": []}),
        ({}, {"candidates": [planted_candidate(), planted_candidate()]}),
        ({}, {"data": replace(planted_data(), test=labelled(np.arange(6)))}),
        ({}, {"data": transfer_data("shapes:classes=4,train=40,val=8,size_px=16", "depth")}),  # it has no stages
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_trained(
    tmp_path: Path, asked: dict[str, Any], options: dict[str, Any]
) -> None:
    with pytest.raises((QueryError, DataError), match=r"expected|ask for|has no spatial"):
        measured(tmp_path, request(**asked), **options)
    assert calls(tmp_path / "log") == []


# the search for regimes


def test_regimes_are_found_for_all_architectures_and_what_was_tried_is_used(tmp_path: Path) -> None:
    data = planted_data(n_train=3_000)
    report = measured(tmp_path, request(regimes=None, count=4), data=data)
    tried = [(needs, n, seed) for _, needs, n, seed in calls(tmp_path / "log")]
    scratch = [point.calibrated_scratch.value for point in report.curves[0].points]
    assert len(tried) == len(set(tried)) and len(report.regimes) == 4
    assert scratch[0] > 0.85 and scratch[-1] < 0.15
    assert measured(tmp_path, request(regimes=report.regimes), data=data).curves == report.curves
    assert len(calls(tmp_path / "log")) == len(tried)
    slow = replace(planted_candidate("slow"), architecture_hash="b", untrained=partial(encoder_that_needs, 600))
    both = measured(tmp_path, request(regimes=None), data=data, candidates=[planted_candidate(), slow])
    assert both.regimes[0] == report.regimes[0] and both.regimes[-1] > report.regimes[-1]
    (short,) = measured(tmp_path, request(regimes=None, maximal=1.0), data=planted_data(n_train=60)).curves
    assert any("The range with many labels is not covered" in note for note in short.notes)


@pytest.mark.parametrize("text", ["", "50,,100", "many", "1.2", "-5", "0", "1e3", "5 0"])
def test_regimes_are_read_from_text(text: str) -> None:
    assert parse_regimes("50,200, 1k ,2.5K,1m,all") == (50, 200, 1000, 2500, 1_000_000, "all")
    assert resolve_regimes(("all", 200, 50), 300) == (50, 200, 300)
    with pytest.raises(QueryError, match="such as 50,200,1k,all"):
        parse_regimes(text)


def searched(rungs: tuple[int, ...], curve: dict[int, float]) -> tuple[int, int]:
    tried: dict[int, float] = {}
    while (found := find_scale_ends(rungs, tried))[2]:
        assert not set(found[2]) & tried.keys()
        tried |= {n: curve[n] for n in found[2]}
    assert len(tried) <= 2 + 2 * math.ceil(math.log2(len(rungs)))
    return found[:2]


def test_the_search_finds_the_ends_that_trying_everything_would_find() -> None:
    rungs = build_ladder(11, 1_000_000)
    for middle in (30, 200, 5_000, 90_000):
        for width in (0.2, 0.7, 1.0):
            curve = {n: 1 / (1 + math.exp((math.log(n) - math.log(middle)) / width)) for n in rungs}
            low = max((n for n in rungs if curve[n] >= NEAR_BLIND), default=11)
            high = min((n for n in rungs if curve[n] <= NEAR_MAXIMAL), default=rungs[-1])
            assert searched(rungs, curve) == (low, high)
    assert searched(rungs, dict.fromkeys(rungs, 0.97)) == (11, 1_000_000)
    assert build_ladder(3, 60) == (3, 5, 10, 20, 50, 60) and build_ladder(20, 20) == (20,)
    with pytest.raises(DataError, match="add images"):
        build_ladder(11, 10)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_as_many_regimes_are_proposed_as_were_asked_for_each_once(count: int) -> None:
    for low, high in ((10, 100), (11, 1346), (3, 90_000)):
        found = select_spread_regimes(low, high, count=count)
        assert len(found) == count and found[0] == low and found[-1] == high and list(found) == sorted(set(found))
    assert select_spread_regimes(3, 5, count=5) == (3, 4, 5) and select_spread_regimes(7, 7, count=5) == (7,)


# real encoders and rows


def real(folder: Path, task: str, **asked: Any) -> CurveReport:
    data = transfer_data("shapes:classes=3,train=36,val=18", task)
    recipe = Recipe(learning_rates=(3e-3, 1e-3), epochs=1, least_steps=8, evaluations=4, batch_size=8, frozen=True)
    made = CurveRequest(**{"seeds": (0, 1), "recipe": recipe, "maximal": 0.0, "n_draws": 200} | asked)
    return learning_curves([candidate(NAME)], data, made, folder=folder, how=HOW)


def test_there_is_a_row_for_every_run_with_everything_that_it_was_measured_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    report = real(tmp_path / "runs", "classification", regimes=(9, "all"))
    assert report.curves[0].frozen and report.curves[0].blind.value == pytest.approx(100 * 2 / 3)
    rows = make_curve_rows(report, source="us", day=date(2026, 11, 21))
    options = "batch_size=8, control=scratch, epochs=1, evaluations=4, learning_rates=[0.003, 0.001], least_steps=8"
    scratch = f"zoo-curve-classification-1 ({options})"
    frozen = scratch.replace("control=scratch, ", "").replace("evaluations=4", "evaluations=4, frozen=true")
    places = [(f"train{' 9 images' * (n == 9)} -> val", n, seed) for n in (9, 36) for seed in (0, 1)]
    assert [(row.protocol, row.split, row.n_train, row.seed) for row in rows] == [
        ("zoo-curve-classification-1 (control=blind)", "train -> val", 36, None),
        *((scratch, *place) for place in places),
        *((frozen, *place) for place in places),
        (scratch.replace("scratch", "maximal"), "train -> val", None, None),
    ]
    for row, provenance in rows.items():
        assert provenance.keys() >= PROVENANCE_KEYS.keys() and "seconds" not in provenance["report"]
        is_encoder = "control" not in row.protocol
        assert (provenance["weights_hash"] is not None) == provenance["settings"]["frozen"] == is_encoder
        assert provenance["images_hash"]["train"] == report.data.train.fingerprint
        assert (provenance["subset_hash"] is None) == (row.seed is None)
        if row.seed is not None:
            assert row.ci_low is not None and row.ci_high is not None and row.ci_low <= row.value <= row.ci_high
            assert {"control", "n_requested", "learning_rate", "validation"} <= provenance["report"].keys()
    assert record(rows).n_new == 10 and record(make_curve_rows(report, source="us")).n_known == 10
    found = [row for row in measurements(encoders=NAME) if row.source == "us"]
    assert found == list(rows) and all((find_provenance(row) or {})["preprocess_hash"] for row in found)
    with pytest.raises(QueryError, match="has no card"):
        make_curve_rows(measured(tmp_path, request(regimes=(20, 100))))
