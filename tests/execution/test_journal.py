"""Records of runs: who writes what, who runs still, and what is refused."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from zoo.errors import DataError, QueryError, StoreError
from zoo.execution.executor import Failure, WorkResult
from zoo.execution.journal import LOST_S, RUNS, Journal, RunSpec, find_run_record, list_run_records
from zoo.storage import LocalLocation, Location, resolve_place

VERSIONS = {"torch": "2.0", "zoo": "1"}


def asked(**settings: object) -> RunSpec:
    features = ({"encoder": "a", "part": "train", "folder": "a/features/x", "n_images": 9, "n_shards": 3},)
    return RunSpec(verb="features", command=("features", "a"), settings=settings, features=features, versions=VERSIONS)


def begun(place: Location, one: RunSpec, **changed: object) -> Journal:
    return Journal(place, one, engine="local:2", n_workers=2, **changed)  # type: ignore[arg-type]


def label(number: int) -> dict[str, object]:
    return {"encoders": ["a", "b"], "part": "train", "number": number, "shard_size": 4}


def outcome(number: int, *failures: Failure, fails: bool = False) -> WorkResult[int, bytes]:
    value = None if fails else b"done"
    return WorkResult(work=number, value=value, failures=failures, worker=f"host-{number % 2}", seconds=number + 0.5)


DIED = Failure(kind="WorkerDied", text="signal 9", is_final=False)
WRONG = Failure(kind="DataError", text="It is wrong.", is_final=False)


@pytest.mark.parametrize("where", ["", "memory://journal-test"])
def test_all_that_was_noted_is_found_again(where: str, tmp_path: Path) -> None:
    place = resolve_place(where or tmp_path)
    with begun(place, asked(batch_size=4)) as journal:
        journal.planned(4)
        journal.outcome(outcome(0), label(0), n_images=8, n_bytes=100)
        journal.outcome(outcome(1, DIED), label(1), n_images=8, n_bytes=50)
        journal.outcome(outcome(2, WRONG, WRONG, fails=True), label(2))
        journal.outcome(outcome(3), label(3), was_there=True)
        journal.skipped("a", "train", ["x.png", "y.png"], 7)
        journal.skipped("b", "train", ["x.png", "y.png"], 7)
        journal.complete("a", "train")
    (record,) = list_run_records(place)
    assert record.asked == asked(batch_size=4)
    (writer,) = record.writers
    facts = writer.facts
    assert facts["items"] == {"planned": 4, "done": 3, "there": 1, "failed": 1, "retried": 1}
    assert (facts["n_images"], facts["n_bytes"], facts["deaths"]) == (16, 150, 1)
    assert facts["workers"] == {"host-0": 2, "host-1": 2}
    assert [one["tries"] for one in facts["failures"]] == [["It is wrong.", "It is wrong."]]
    assert [one["tries"] for one in facts["retried"]] == [["the worker died: signal 9"]]
    assert facts["n_skipped"] == 7 and [one["image"] for one in facts["skipped"]] == ["x.png", "y.png"]
    assert writer.state == "ended" and not record.is_running


def test_the_same_settings_are_one_run_and_others_are_another(tmp_path: Path) -> None:
    place = resolve_place(tmp_path)
    with begun(place, asked(batch_size=4), part=(1, 2)), begun(place, asked(batch_size=4), part=(2, 2)):
        pass
    with begun(place, asked(batch_size=8)) as other:
        pass
    assert sorted(len(record.writers) for record in list_run_records(place)) == [1, 2]
    assert len(find_run_record(place, other.run[:8]).writers) == 1
    with pytest.raises(QueryError, match="Got the run '000000000000', expected one of those at"):
        find_run_record(place, "000000000000")
    (tmp_path / RUNS / other.run / "other-1.json").write_text("{")
    with pytest.raises(DataError, match=r"other-1.json: .*remove it, it decides nothing"):
        list_run_records(place)


def test_whether_a_process_runs_is_told_by_the_clock_of_the_place(tmp_path: Path) -> None:
    place = resolve_place(tmp_path)
    journal = begun(place, asked())
    path = tmp_path / RUNS / journal.run / f"{journal.writer}.json"
    assert list_run_records(place)[0].is_running
    past = time.time() - LOST_S - 30
    os.utime(path, (past, past))
    assert [writer.state for writer in list_run_records(place)[0].writers] == ["lost"]
    journal.end("interrupted")
    assert [writer.state for writer in list_run_records(place)[0].writers] == ["interrupted"]


def test_clocks_that_disagree_are_noted_and_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begun(resolve_place(tmp_path), asked()) as journal:
        assert journal.clock_note == ""
    there = LocalLocation.modified_s
    monkeypatch.setattr(LocalLocation, "modified_s", lambda place, name: (there(place, name) or 0.0) + 300)
    with begun(resolve_place(tmp_path), asked()) as journal:
        assert "is 300 s ahead of the one here" in journal.clock_note
        assert list_run_records(resolve_place(tmp_path))[0].is_running


def test_an_error_or_an_interrupt_is_the_last_entry(tmp_path: Path) -> None:
    with pytest.raises(StoreError), begun(resolve_place(tmp_path / "a"), asked()):
        raise StoreError("The disk is full.")
    with pytest.raises(KeyboardInterrupt), begun(resolve_place(tmp_path / "b"), asked()):
        raise KeyboardInterrupt
    (failed,), (stopped,) = (list_run_records(resolve_place(tmp_path / name))[0].writers for name in "ab")
    assert (failed.state, failed.facts["sentence"]) == ("failed", "The disk is full.")
    assert stopped.state == "interrupted"


def test_other_versions_are_refused_or_marked(tmp_path: Path) -> None:
    place = resolve_place(tmp_path)
    with begun(place, asked()):
        pass
    other = RunSpec(verb="features", command=(), settings={}, versions={**VERSIONS, "torch": "2.1"})
    with begun(place, other) as refused:
        assert "begun with other versions than those here (torch 2.1 instead of 2.0)" in refused.refusal
    with begun(place, other, mixed_versions=True) as journal:
        assert not journal.refusal
    (marked,) = [one.facts for one in list_run_records(place)[0].writers if one.facts["writer"] == journal.writer]
    assert marked["marked"] == {journal.writer: "torch 2.1 instead of 2.0"}
