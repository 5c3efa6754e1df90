"""The verbs evaluate and metric by workers: as in one process, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli_runner import document, run
from tests.each import for_each
from zoo.results.recording import iterate_provenances
from zoo.results.rows import measurements

pytestmark = pytest.mark.usefixtures("home")

NAMES = ("pocket_init_rn", "pocket_simclr_rn_shapes")
IMAGES = "shapes:classes=2,train=24,val=12,size_px=16"
DATASET = "shapes-2-classes-16px"
QUICK = ("--settings", "full,3-shot", "--seeds", "1", "--device", "cpu")


def recorded() -> dict[Any, Any]:
    """Rows but for their date, with the features that they were measured on."""
    rows = [replace(row, date="") for row in measurements() if row.dataset == DATASET]
    features = {
        (name, line["metric"], line["split"]): provenance["features_hash"]
        for name in NAMES
        for line, provenance in iterate_provenances(name)
        if line["dataset"] == DATASET
    }
    return {key: (row, features[key]) for row in rows for key in [(row.encoder, row.metric, row.split)]}


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_another_process_a_part_and_this_process_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, documents = [], []
    for folder, engine in (("one", ()), ("two", ("--on", "local:1"))):
        monkeypatch.setenv("ZOO_HOME", str(tmp_path / f"home of {folder}"))
        documents.append(document("evaluate", *NAMES, IMAGES, *QUICK, "--to", str(tmp_path / folder), *engine))
        rows.append(recorded())
    assert rows[0] == rows[1] and len(rows[0]) == 6
    for found in documents[1:]:
        assert found["failed"] == found["open"] == [] and not found["run"]["incomplete"]
        for one, other in zip(documents[0]["evaluations"], found["evaluations"], strict=True):
            assert one.keys() == other.keys() and one["recorded"]["new"] == other["recorded"]["new"] == 3
            assert (one["errors"], one["neighbours"]) == (other["errors"], other["neighbours"])
    again = document("evaluate", *NAMES, IMAGES, *QUICK, "--to", str(tmp_path / "two"))  # of this process, from there
    assert again["evaluations"][0]["errors"] == documents[0]["evaluations"][0]["errors"]


def test_a_part_says_what_is_open_and_resume_prints_a_table(tmp_path: Path, home: Path) -> None:
    arguments = ("evaluate", "pirl_rn50", *NAMES, IMAGES, *QUICK, "--to", str(tmp_path / "place"))
    first = run(*arguments, "--part", "1/2", "--no-record", code=1)
    assert "pirl_rn50: " in first.stderr and "1 of 3 encoders" in first.stderr
    assert f"waiting for other parts of the work: {NAMES[0]}, {NAMES[1]}" in first.stderr
    command = first.stderr.partition("go on with: zoo ")[2].splitlines()[0].split()
    assert not (home / "results").exists()
    done = run(*command, "--part", "2/2", code=1)  # --no-record is remembered
    assert "2 encoders on shapes-2-classes-16px: 24 training and 12 test images" in done.stdout
    assert "nearest neighbours" in done.stdout and "lower is better" in done.stderr
    assert not (home / "results").exists()
    merged = document("results", "merge", str(tmp_path / "place"))
    assert len(recorded()) == 6 and merged


def test_metrics_of_several_encoders_in_this_process_and_by_workers(tmp_path: Path) -> None:
    arguments = ("metric", "rankme", *NAMES, IMAGES, "--device", "cpu", "--to", str(tmp_path / "place"))
    found = document(*arguments)
    assert [one["encoder"] for one in found["encoders"]] == list(NAMES) and found["failed"] == []
    by_workers = document(*arguments, "--part", "1/1")
    for one, other in zip(found["encoders"], by_workers["encoders"], strict=True):
        assert one.keys() == other.keys() and other["recorded"]["known"] == 1
        assert one["metrics"][0]["value"] == pytest.approx(other["metrics"][0]["value"])
    assert by_workers["open"] == [] and by_workers["run"]["engine"] == "this process, part 1/1"


@for_each(
    [
        (("evaluate", NAMES[0], IMAGES, "--on", "local:2", "--save", "probe"), "keep no probe"),
        (("evaluate", NAMES[0], IMAGES, "--part", "3/2"), "3/2"),
        (("evaluate", NAMES[0], IMAGES, "--on", "local:0"), "local:0"),
        (("evaluate", NAMES[0], IMAGES, "--cpus-each", "2"), "has no effect"),
        (("metric", "rankme", NAMES[0], IMAGES, "--part", "train"), "write --split train"),
        (("metric", "rankme", NAMES[0], IMAGES, "--store", "float16"), "--store float16 has no effect"),
    ],
    arguments=2,
)
def test_what_workers_cannot_do_is_refused_in_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    message = run(*arguments, code=2).stderr
    assert says in message and len(message.strip().splitlines()) == 1
