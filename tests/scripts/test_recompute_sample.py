"""Submitted rows are checked and measured again: of a toy encoder on few images, nothing is replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.recompute_sample import count_skipped_rows, main, recompute
from tests.cli_runner import run
from zoo.datasets import open_images
from zoo.errors import QueryError
from zoo.evaluation.evaluating import Request, evaluate, featurise_data, make_evaluation_rows
from zoo.evaluation.label_free.measuring import compute_metric_inputs, make_metric_rows, measure
from zoo.evaluation.recorded_protocols import find_protocol_problem
from zoo.files import get_content_folder
from zoo.results.merging import check
from zoo.results.recording import record
from zoo.results.rows import Measurement

ENCODER = "pocket_init_rn"
Tamper = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, and the rows that an encoder has on them."""
    folder = tmp_path_factory.mktemp("submitted")
    random, labels = np.random.default_rng(0), np.arange(36) % 3
    pixels = (random.integers(0, 120, (36, 32, 32, 3)) + 60 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(folder / "stripes.npz", x_train=pixels[:24], y_train=labels[:24], x_val=pixels[24:], y_val=labels[24:])
    data = open_images(str(folder / "stripes.npz"))
    found = featurise_data(ENCODER, data, root=folder / "features")
    request = Request(settings=("2-shot",), n_seeds=2, seed=3, probe="logistic")
    rows: dict[Measurement, dict[str, Any]] = make_evaluation_rows(
        evaluate(found["train"], found["val"], request), source="Ann"
    )
    inputs = compute_metric_inputs(ENCODER, data, {"features", "labels"}, root=folder / "features")
    options = {"leave_one_out_neighbours": {"k": 5}}
    measured = measure(["uniformity", "leave_one_out_neighbours"], inputs, options=options)
    rows |= make_metric_rows(measured, inputs, source="Ann")
    record(rows, folder=folder / "results", alone=True)
    return folder


@pytest.fixture
def tampered(submitted: Path, tmp_path: Path) -> Tamper:
    """Makes a copy of the rows in which a text is another one, wherever it stands."""

    def change(before: str, after: str) -> Path:
        shutil.copytree(submitted / "results", tmp_path / "results")
        texts = {path: path.read_text() for path in (tmp_path / "results").glob("*.*")}
        assert any(before in text for text in texts.values())
        for path, text in texts.items():
            path.write_text(text.replace(before, after))
        return tmp_path / "results"

    return change


def images(submitted: Path) -> dict[str, str]:
    return {"stripes": str(submitted / "stripes.npz")}


def test_every_row_of_a_right_submission_is_checked_and_comes_out_the_same(submitted: Path) -> None:
    checked = check([submitted / "results"], protocol=find_protocol_problem)
    assert (checked.problems, checked.unknown_protocols, len(checked.found)) == ((), {}, 5)
    done = recompute(checked.found, sample=100, images=images(submitted))
    assert [(one.state, one.reason) for one in done] == [("same", "")] * 5


def test_a_number_that_was_changed_comes_out_otherwise(
    submitted: Path, tampered: Tamper, capsys: pytest.CaptureFixture[str]
) -> None:
    row = next(one.row for one in check([submitted / "results"]).found if one.row.metric == "uniformity")
    folder = tampered(row.value, str(float(row.value) * 1.001))
    table = folder / f"{ENCODER}.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text(lines[0] + "".join(line for line in lines if "uniformity" in line))
    source = f"stripes={submitted}/stripes.npz"
    with pytest.raises(SystemExit, match="1 of 1 rows came out otherwise"):
        main([str(folder), "--sample", "6", "--images", source, "--json"])
    (one,) = json.loads(capsys.readouterr().out)["recomputed"]
    assert (one["state"], float(one["now"]["value"])) == ("other", pytest.approx(float(row.value)))
    assert one["reason"].startswith(
        "uniformity of pocket_init_rn on stripes, train, seed 0, by zoo-label-free-1: recorded"
    )


def test_other_weights_and_other_images_are_told(submitted: Path, tampered: Tamper) -> None:
    found = check([submitted / "results"]).found
    weights = str((found[0].provenance or {})["weights_hash"])
    folder = tampered(weights, "0" * 32)
    (one,) = recompute(check([folder]).found, sample=1, images=images(submitted), root=submitted / "features")
    assert (one.state, one.reason) == (
        "other",
        f"Its weights have the hash 000000000000, and those here {weights[:12]}.",
    )
    done = recompute(found, sample=1)
    assert count_skipped_rows(done) == {
        "Where the images of 'stripes' are is not known; say it with --images stripes=IMAGES.": 5
    }
    (reason,) = count_skipped_rows(recompute(found, sample=1, images={"stripes": "digits"}))
    assert reason == "'digits' has other images than 'stripes' of this row."
    with pytest.raises(QueryError, match="There are no rows of the data set 'birds'; expected one of stripes"):
        recompute(found, sample=1, images={"birds": "digits"})


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"max_iter":1000', '"max_iter":10', "'zoo-logistic-3' has the options of 'zoo-logistic-3 (max_iter=10)'"),
        ('"probe":"LogisticProbe"', '"probe":"StreamedProbe"', "'zoo-logistic-3' has the hash"),
        ('"options":{"k":5}', '"options":{"k":5,"temperature":1.0}', "does not name the option 'temperature'"),
        ('"name":"zoo-label-free-1"', '"name":"another"', "are of 'another', expected 'zoo-label-free-1'"),
    ],
)
def test_settings_must_be_those_that_a_protocol_stands_for(
    tampered: Tamper, before: str, after: str, words: str
) -> None:
    problems = check([tampered(before, after)], protocol=find_protocol_problem).problems
    assert problems
    assert all(one.kind == "protocol" and words in one.sentence for one in problems)


def test_rows_that_are_there_twice_or_contradict_others_are_problems(submitted: Path, tampered: Tamper) -> None:
    row = next(one.row for one in check([submitted / "results"]).found if one.row.metric == "uniformity")
    other = tampered(row.value, str(float(row.value) * 1.001))
    kinds = [one.kind for one in check([submitted / "results", other]).problems]
    assert (kinds.count("twice"), kinds.count("contradiction"), len(kinds)) == (4, 1, 5)
    sidecar = other / f"{ENCODER}.provenance.jsonl"
    sidecar.unlink()
    assert [one.kind for one in check([other]).problems] == ["provenance"] * 5
    result = run("results", "check", str(other), code=1)
    assert "5 problems were found in 5 rows" in result.stderr


def test_the_shipped_rows_pass_every_check_of_protocols() -> None:
    names = ("pocket_simclr_rn_shapes", "pocket_init_rn")
    checked = check(
        [get_content_folder("results") / "measured" / f"{name}.csv" for name in names], protocol=find_protocol_problem
    )
    assert (checked.problems, checked.unknown_protocols) == ((), {})
    curves = {one.row.protocol for one in checked.found if one.row.protocol.startswith("zoo-curve-")}
    assert curves
    parts = [one for one in checked.found if one.row.metric == "usability"]
    (done,) = recompute(parts[:1], sample=1)
    assert (done.state, done.reason) == ("passed over", "Rows of 'usability' are not measured again.")


def test_the_check_says_what_it_checked(submitted: Path) -> None:
    assert "5 rows of 1 file checked, 0 problems" in run("results", "check", str(submitted / "results")).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--images", "stripes"), "expected NAME=IMAGES, each name once"),
        (("--images", "birds=digits"), "There are no rows of the data set 'birds'"),
        (("--sample", "1"), "No row could be measured again."),
    ],
)
def test_what_cannot_be_measured_again_is_a_sentence(
    submitted: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(submitted / "results"), *arguments])
    assert words in f"{ended.value} {capsys.readouterr().err}"
