"""Finished runs are kept at once and never repeated, whatever happens to the command, here and in several processes."""

from __future__ import annotations

import multiprocessing
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.children import Child
from tests.conftest import REPOSITORY
from tests.evaluation.curves.curve_runs import (
    HOW,
    N_TRAIN,
    calls,
    dying_encoder,
    encoder_that_needs,
    labelled,
    measured,
    numbers,
    planted_candidate,
    planted_data,
    planted_train,
    request,
    slow_encoder,
)
from zoo.encoders import Encoder
from zoo.errors import DataError, QueryError, StoreError, ZooError
from zoo.evaluation.curves.inputs import TransferData
from zoo.evaluation.curves.progress import CurveProgress
from zoo.evaluation.curves.recipe import TASKS, Recipe
from zoo.evaluation.curves.runs import CurveRun, Failure, Job, RunCache, Setup, Unfinished, Workload, all_jobs, perform
from zoo.evaluation.curves.tuning import Trained, Training, Transfer
from zoo.execution import processes
from zoo.execution.part import PartOf
from zoo.execution.processes import Processes

N_RUNS = 2 * 3 + 2 * 3 + 1 - 1  # encoder and scratch, three regimes, two seeds; the blind guess trains nothing


def test_every_run_is_done_once_and_a_second_time_none_is(tmp_path: Path) -> None:
    first = measured(tmp_path)
    done = calls(tmp_path / "log")
    assert len(done) == len(set(done)) == N_RUNS
    assert numbers(measured(tmp_path)) == numbers(first) and calls(tmp_path / "log") == done
    assert len(list((tmp_path / "runs").iterdir())) == N_RUNS + 1  # one file a run, and nothing else is left


def test_parts_of_the_work_do_every_run_once_and_the_last_one_reports(tmp_path: Path) -> None:
    for k in (1, 2):
        with pytest.raises(Unfinished, match=f"Part {k}/3 is done; .* of 13 runs are finished"):
            measured(tmp_path, executor=PartOf(Processes(0), k, 3))
    last = measured(tmp_path, executor=PartOf(Processes(0), 3, 3))
    assert len(calls(tmp_path / "log")) == N_RUNS
    assert numbers(last) == numbers(measured(tmp_path / "whole"))


@pytest.mark.parametrize("n_before", [0, 3, 7])
def test_a_command_that_was_interrupted_goes_on_where_it_was(tmp_path: Path, n_before: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "killed", train={"stop_after": n_before})
    assert len(calls(tmp_path / "killed" / "log")) == n_before
    assert numbers(measured(tmp_path / "killed")) == numbers(measured(tmp_path / "whole"))
    assert len(calls(tmp_path / "killed" / "log")) == N_RUNS


@pytest.mark.parametrize("content", [b"", b"not a run", None], ids=["empty", "other", "cut off"])
def test_a_damaged_file_counts_as_not_there(tmp_path: Path, content: bytes | None) -> None:
    first = measured(tmp_path)
    damaged = sorted((tmp_path / "runs").iterdir())[:4]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    assert numbers(measured(tmp_path)) == numbers(first)
    assert len(calls(tmp_path / "log")) in (N_RUNS + 3, N_RUNS + 4)  # one may be the blind guess


def test_a_file_of_another_run_under_its_name_counts_as_not_there(tmp_path: Path) -> None:
    first = measured(tmp_path)
    one, other = sorted((tmp_path / "runs").iterdir())[:2]
    one.write_bytes(other.read_bytes())
    assert numbers(measured(tmp_path)) == numbers(first)


def test_scratch_with_all_labels_is_maximal_supervision_and_has_a_calibrated_risk_of_0(tmp_path: Path) -> None:
    report = measured(tmp_path)
    assert [n for _, needs, n, _ in calls(tmp_path / "log") if needs == 80].count(N_TRAIN) == 2
    last = report.curves[0].points[-1].calibrated_scratch
    assert (last.value, last.ci_low, last.ci_high) == (0.0, 0.0, 0.0)
    runs = report.runs["planted", "scratch"][-2:]
    assert [run.control for run in runs] == ["scratch"] * 2
    assert all(
        np.array_equal(run.risks["transfer_error"], other.risks["transfer_error"])
        for run, other in zip(runs, report.runs["planted", "maximal"], strict=True)
    )


def test_an_encoder_equal_to_scratch_improves_nothing(tmp_path: Path) -> None:
    report = measured(tmp_path, candidates=[planted_candidate(needs=80)])
    improvement = report.curves[0].improvement
    assert improvement is not None and (improvement.value, improvement.ci_low, improvement.ci_high) == (0, 0, 0)


def test_candidates_of_one_architecture_share_their_controls(tmp_path: Path) -> None:
    candidates = [planted_candidate("one", needs=20), planted_candidate("two", needs=40)]
    measured(tmp_path, candidates=candidates)
    assert len(calls(tmp_path / "log")) == 3 * 3 * 2
    other = replace(planted_candidate("three", needs=10), architecture_hash="b")
    measured(tmp_path, candidates=[*candidates, other])
    assert len(calls(tmp_path / "log")) == 3 * 3 * 2 + 2 * 3 * 2


def test_another_recipe_finds_nothing_and_a_frozen_encoder_finds_its_controls(tmp_path: Path) -> None:
    measured(tmp_path)
    measured(tmp_path, request(recipe=Recipe(frozen=True)))
    assert len(calls(tmp_path / "log")) == N_RUNS + 6
    measured(tmp_path, request(recipe=Recipe(epochs=3.0)))
    assert len(calls(tmp_path / "log")) == 2 * N_RUNS + 6


def test_other_images_weights_or_seeds_find_nothing(tmp_path: Path) -> None:
    job = Workload(data=planted_data(), recipe=Recipe()).encoder(planted_candidate(), 50, 0)
    others = [
        Workload(data=planted_data(n_train=390), recipe=Recipe()).encoder(planted_candidate(), 50, 0),
        Workload(data=planted_data(), recipe=Recipe()).encoder(planted_candidate(needs=3), 50, 0),
        Workload(data=planted_data(), recipe=Recipe()).encoder(planted_candidate(), 50, 1),
        Workload(data=planted_data(), recipe=Recipe()).encoder(planted_candidate(), 60, 0),
        Workload(data=planted_data(), recipe=Recipe()).scratch(planted_candidate(), 50, 0),
    ]
    assert job.key not in {other.key for other in others} and len({other.key for other in others}) == 5
    assert job.key == Workload(data=planted_data(), recipe=Recipe()).encoder(planted_candidate("me"), 50, 0).key


def test_the_order_soon_gives_something_to_look_at() -> None:
    work = Workload(data=planted_data(), recipe=Recipe())
    jobs = all_jobs(work, [planted_candidate("one"), planted_candidate("two", needs=9)], (100, 20), (0, 1))
    assert [(job.control, job.n, job.seed) for job in jobs] == [
        ("blind", 400, None), ("maximal", 400, 0), ("maximal", 400, 1),
        ("scratch", 20, 0), ("encoder", 20, 0), ("encoder", 20, 0),
        ("scratch", 20, 1), ("encoder", 20, 1), ("encoder", 20, 1),
        ("scratch", 100, 0), ("encoder", 100, 0), ("encoder", 100, 0),
        ("scratch", 100, 1), ("encoder", 100, 1), ("encoder", 100, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_run_that_fails_does_not_keep_the_others_from_being_done(
    tmp_path: Path, n_processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != REPOSITORY]
    monkeypatch.setattr(sys, "path", elsewhere)  # as torch.hub leaves it: other processes find the package nevertheless
    with pytest.raises(ZooError, match=r"no seed named '1'.*and 5 more failed; 7 of 13 runs are finished and kept"):
        measured(tmp_path, train={"fails": (1,)}, n_processes=n_processes)
    assert len(calls(tmp_path / "log")) == N_RUNS
    report = measured(tmp_path)
    assert len(calls(tmp_path / "log")) == N_RUNS + 6
    assert numbers(report) == numbers(measured(tmp_path / "whole"))


def test_what_another_command_is_at_is_left_to_it(tmp_path: Path) -> None:
    setup = Setup(data=planted_data(), recipe=Recipe(), folder=tmp_path / "runs", how=HOW, train=planted_train)
    job = Workload(data=setup.data, recipe=setup.recipe).encoder(planted_candidate(), 50, 0)
    with RunCache(setup.folder).turn(job) as is_ours:
        assert is_ours and perform(job, setup) is None
    run = perform(job, setup)
    assert isinstance(run, CurveRun) and not (tmp_path / "runs" / f"{job.key}.fit").exists()


def test_two_commands_at_once_share_the_work(tmp_path: Path) -> None:
    both = [Child(lambda: numbers(measured(tmp_path / "shared"))) for _ in range(2)]
    assert [child.result() for child in both] == [numbers(measured(tmp_path / "alone"))] * 2
    assert sorted(entry[1:] for entry in calls(tmp_path / "shared" / "log")) == sorted(
        entry[1:] for entry in calls(tmp_path / "alone" / "log")
    )


def test_the_processes_of_a_command_that_is_killed_end_with_it_and_what_was_finished_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))  # where they say that they have begun
    slow = replace(planted_candidate(), pretrained=slow_encoder)
    process = Child(lambda: measured(tmp_path / "shared", candidates=[slow], n_processes=2), has_children=True).process
    deadline = time.monotonic() + 80
    begun = tmp_path / "begun"
    while len(list(tmp_path.glob("begun.*"))) < 2 and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    workers = [int(path.suffix[1:]) for path in tmp_path.glob(f"{begun.name}.*")]
    assert len(workers) == 2
    process.kill()
    process.join(20)
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers))
    n_done = len(calls(tmp_path / "shared" / "log"))
    measured(tmp_path / "shared")
    assert n_done > 0 and len(calls(tmp_path / "shared" / "log")) == N_RUNS


class Impatient(CurveProgress):
    """Interrupts when the first encoder begins, which would take very long."""

    def began(self, job: Job) -> None:
        if job.control == "encoder":
            raise KeyboardInterrupt


@pytest.fixture
def quick_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes have imported PyTorch already, for it does not matter here how they begin; nothing else is new.

    They are forks of a process that holds nothing of this one, as one that was spawned holds nothing of it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zoo.evaluation.curves.runs", "tests.evaluation.curves.curve_runs"])
    monkeypatch.setattr(processes, "_SPAWN", context)


@pytest.mark.usefixtures("quick_to_start")
def test_an_interrupt_ends_other_processes_at_once_and_what_was_finished_stays(tmp_path: Path) -> None:
    slow = replace(planted_candidate(), pretrained=slow_encoder)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path, candidates=[slow], n_processes=2, progress=Impatient())
    assert not multiprocessing.active_children()
    n_done = len(list((tmp_path / "runs").glob("*.npz")))
    assert n_done >= 3  # the ends of the scale, which come first
    measured(tmp_path)
    assert len(calls(tmp_path / "log")) <= N_RUNS + 1  # of those under way, one may have been past its training


@pytest.mark.usefixtures("quick_to_start")
def test_a_process_that_dies_is_told_of_and_what_was_finished_stays(tmp_path: Path) -> None:
    dying = replace(planted_candidate(), pretrained=dying_encoder)
    with pytest.raises(ZooError, match=r"status 9 .* as 4 in all .*fewer processes .*5 more failed; 7 of 13 runs"):
        measured(tmp_path, candidates=[dying], n_processes=2)
    assert len(list((tmp_path / "runs").glob("*.npz"))) == 7


def test_what_cannot_go_to_other_processes_is_refused(tmp_path: Path) -> None:
    here = replace(planted_candidate(), pretrained=lambda: encoder_that_needs(1))
    with pytest.raises(QueryError, match="functions of a module, or ask for one process"):
        measured(tmp_path, candidates=[here], n_processes=2)
    with pytest.raises(QueryError, match="expected at least 1"):
        measured(tmp_path, n_processes=0)


def test_a_folder_that_cannot_be_written_to_ends_the_rest_at_once(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises((StoreError, DataError), match="runs"):
        measured(tmp_path)
    assert calls(tmp_path / "log") == []


def test_risks_that_are_none_are_refused_and_not_kept(tmp_path: Path) -> None:
    setup = Setup(data=planted_data(), recipe=Recipe(), folder=tmp_path, how=HOW, train=diverging_train)
    job = Workload(data=setup.data, recipe=setup.recipe).encoder(planted_candidate(), 50, 0)
    failed = perform(job, setup)
    assert isinstance(failed, Failure) and "lower the learning rates" in failed.text
    assert RunCache(tmp_path).find(job, n_test=len(setup.data.test)) is None


def diverging_train(encoder: Encoder, transfer: Transfer, how: Training, *rest: Any) -> Trained:
    """Ends with no number."""
    trained = planted_train(encoder_that_needs(1), transfer, how, *rest)
    trained.risks["transfer_error"][3] = np.nan
    return trained


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_a_blind_guess_nothing_is_trained(tmp_path: Path) -> None:
    train, test = (labelled(np.zeros(n, np.int64), split=split) for n, split in ((40, "train"), (8, "val")))
    with pytest.raises(DataError, match=r"All 40 labels are the class 0.*; 0 of \d+ runs are finished"):
        measured(tmp_path, data=TransferData("one", TASKS["classification"], train, test), asked=request(regimes=(20,)))
    assert calls(tmp_path / "log") == []
