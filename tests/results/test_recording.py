"""Own measurements are added once, checked, with their provenance, and come back as they were."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.each import for_each
from zoo.errors import ContentWarning, ResultsError
from zoo.results.recording import PROVENANCE_KEYS, find_provenance, record, require_same_images
from zoo.results.rows import Measurement, convert_measurement, measurements
from zoo.results.values import COLUMNS

BASE = Measurement(
    encoder="dino_vitS16",
    metric="linear_probe_error",
    dataset="digits",
    split="train 10-shot -> val",
    n_train=100,
    seed=0,
    value=100 * 7 / 450,
    unit="percent",
    ci_low=0.1 + 0.2,
    ci_high=math.pi,
    protocol="zoo-logistic-2",
    source="own",
    date="2026-11-20",
)
FULL = replace(BASE, split="train -> val", n_train=1347)
TOLD = dict.fromkeys(PROVENANCE_KEYS) | {"weights_hash": "a1", "report": {"C": 0.5, "converged": True}}


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of results, which is not there yet."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    return tmp_path / "results"


def mine() -> list[Measurement]:
    return [row for row in measurements() if row.source == "own" and row.dataset == "digits"]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_recorded_is_read_back_equal_to_the_last_digit(results: Path) -> None:
    said = record({BASE: TOLD, FULL: TOLD})
    assert (said.n_new, said.n_known, said.paths) == (2, 0, (results / "measured" / "dino_vitS16.csv",))
    assert mine() == [BASE, FULL]
    assert (results / "measured" / "dino_vitS16.csv").read_text().splitlines()[1] == (
        "dino_vitS16,linear_probe_error,digits,train 10-shot -> val,100,0,1.5555555555555556,percent,"
        "0.30000000000000004,3.141592653589793,zoo-logistic-2,own,2026-11-20"
    )


def test_rows_are_added_behind_those_that_are_there_and_never_twice(results: Path) -> None:
    record({BASE: TOLD})
    before = (results / "measured" / "dino_vitS16.csv").read_bytes()
    said = record({BASE: TOLD, FULL: TOLD})
    assert (said.n_new, said.n_known) == (1, 1)
    after = (results / "measured" / "dino_vitS16.csv").read_bytes()
    assert after.startswith(before) and mine() == [BASE, FULL]
    unchanged = files(results)
    again = replace(BASE, value=BASE.value * (1 + 1e-12), date="2026-12-24")
    assert record({again: TOLD, FULL: TOLD}).n_known == 2
    assert files(results) == unchanged


def test_a_recorded_number_never_changes(results: Path) -> None:
    (path,) = record({BASE: TOLD}).paths
    before = files(results)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"value": 1.5, "ci_low": 1.0}, "recorded: 1.55556, now: 1.5; but"),
        ({"ci_low": 0.5}, "recorded: 0.3 to 3.14159, now: 0.5 to 3.14159; but"),
        ({"ci_low": None, "ci_high": None}, "recorded: 0.3 to 3.14159, now: nothing; but"),
    ]
    for change, words in changes:
        with pytest.raises(ResultsError, match=words) as refusal:
            record({FULL: TOLD, replace(BASE, **change): TOLD})
        assert str(refusal.value).startswith(f"{path}, line 2: ")
        assert files(results) == before
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ResultsError, match=r"line 2: the file breaks off"), pytest.warns(ContentWarning):
        record({FULL: TOLD})


def test_a_row_that_another_file_has_is_known_and_stays_alone(results: Path) -> None:
    results.mkdir()
    (results / "mine.csv").write_text(
        f"{','.join(COLUMNS)}\n{','.join(convert_measurement(BASE)).upper().replace(*SPELT)}\n"
    )
    assert record({BASE: TOLD}).n_known == 1
    assert not (results / "measured").exists()
    with pytest.raises(ResultsError, match=r"mine.csv, line 2: .* never changes"):
        record({replace(BASE, value=2.0): TOLD})


SPELT = (
    ",".join(convert_measurement(BASE)[1:]).upper(),
    ",".join(convert_measurement(BASE)[1:]),
)  # all but the id in its own case


@for_each(
    [
        ({"encoder": "dino_vitS17"}, "column 'encoder': found 'dino_vitS17'"),
        ({"metric": "top1"}, "column 'metric': found 'top1'"),
        ({"value": math.nan}, "column 'value': found 'nan', expected a finite number"),
        ({"value": 101.0}, "column 'value': found 101.0, expected an error between 0 and 100 percent"),
        ({"n_train": 55.0}, "column 'n_train': found '55.0', expected a whole number"),
        ({"n_train": 55}, "column 'n_train': found 55, expected a multiple of 10 for 'train 10-shot -> val'"),
        ({"ci_low": 3.0}, "column 'ci_low': found 3.0 to 3.1"),
        ({"protocol": ""}, "column 'protocol': found nothing"),
        ({"protocol": "a\0b"}, "found a NUL character"),
        ({"date": "yesterday"}, "column 'date': found 'yesterday'"),
    ],
    arguments=2,
)
def test_a_wrong_value_is_refused_before_anything_is_written(change: dict[str, Any], words: str, results: Path) -> None:
    with pytest.raises(ResultsError, match=words):
        record({FULL: TOLD, replace(BASE, **change): TOLD})
    assert not list(results.rglob("*.csv")) and not list(results.rglob("*.jsonl"))


def test_encoders_have_files_of_their_own_in_a_folder_of_choice(results: Path) -> None:
    other = replace(BASE, encoder="mae_vitB16")
    said = record({BASE: TOLD, other: TOLD}, folder=results / "there")
    assert [path.name for path in said.paths] == ["dino_vitS16.csv", "mae_vitB16.csv"]
    assert sorted(mine(), key=lambda row: row.encoder) == [BASE, other]
    assert find_provenance(other) == TOLD
    assert record({BASE: TOLD, other: TOLD}, folder=results / "there").n_known == 2


class TestProvenance:
    """What a number was measured from."""

    def test_it_is_found_by_the_number_it_belongs_to(self) -> None:
        full = {**TOLD, "weights_hash": "b2", "more": [1, (2.5, None)]}
        record({BASE: TOLD, FULL: full})
        assert find_provenance(BASE) == TOLD
        assert find_provenance(FULL) == {**full, "more": [1, [2.5, None]]}
        assert find_provenance(replace(BASE, encoder="dino_vits16")) == TOLD
        assert find_provenance(replace(BASE, value=1.5)) is None
        assert find_provenance(replace(BASE, seed=1)) is None
        assert find_provenance(next(row for row in measurements() if row.encoder == "dino_vitS16")) is None

    def test_arrays_become_lists_and_infinite_numbers_texts(self) -> None:
        told = {
            **TOLD,
            "report": {0.1: np.arange(2), "loss": np.float32("inf"), "k": np.int64(3), "n": math.nan},
        }
        record({BASE: told})
        found = find_provenance(BASE)
        assert found is not None
        assert found["report"] == {"0.1": [0, 1], "loss": "inf", "k": 3, "n": "nan"}

    def test_a_row_is_never_without_it(self, results: Path) -> None:
        for told, words in (({}, "lacks 'code_version'"), ({**TOLD, "report": {"probe": object}}, "expected texts")):
            with pytest.raises(ResultsError, match=f"The provenance of 'dino_vitS16', .* {words}"):
                record({BASE: told})
        assert not list(results.rglob("*.csv"))

    def test_that_of_a_row_that_never_came_is_superseded(self, results: Path) -> None:
        (path,) = record({BASE: TOLD}).paths
        path.unlink()  # as if the power had failed between the two files
        assert record({BASE: {**TOLD, "weights_hash": "later"}}).n_new == 1
        assert (find_provenance(BASE) or {})["weights_hash"] == "later"
        lines = (path.parent / "dino_vitS16.provenance.jsonl").read_text().splitlines()
        assert [json.loads(line)["provenance"]["weights_hash"] for line in lines] == ["a1", "later"]

    def test_a_damaged_line_is_named(self, results: Path) -> None:
        (path,) = record({BASE: TOLD}).paths
        beside = path.parent / "dino_vitS16.provenance.jsonl"
        beside.write_text(beside.read_text() + '{"encoder": "dino\n')
        with pytest.raises(ResultsError, match=r"provenance.jsonl, line 2: found '\{\"encoder\": \"dino'"):
            find_provenance(BASE)


def test_what_another_processor_rounds_otherwise_is_the_same_number(results: Path) -> None:
    plain = replace(BASE, value=37.25, ci_low=None, ci_high=None)
    record({plain: TOLD})
    near, far = (replace(plain, value=float(np.float32(37.25) * np.float32(1 + factor))) for factor in (3e-6, 3e-5))
    assert record({replace(near, encoder="DINO_vits16"): TOLD}).n_known == 1
    with pytest.raises(ResultsError, match="never changes"):
        record({far: TOLD})


def test_an_image_that_falls_into_another_class_is_another_number_told_next_to_what_is_new(results: Path) -> None:
    record({BASE: TOLD})
    one_more = replace(BASE, value=100 * 8 / 450, ci_low=0.4, ci_high=3.5)
    before = (results / "measured" / "dino_vitS16.csv").read_bytes()
    said = record({one_more: TOLD, FULL: TOLD}, differing="tell")
    assert (said.n_new, said.n_known, len(said.differences)) == (1, 0, 1)
    (found,) = said.differences
    assert (found.recorded, found.now, found.seed) == (BASE.value, one_more.value, 0)
    assert "recorded: 1.55556, now: 1.77778; the recorded one stays" in str(found)
    assert (results / "measured" / "dino_vitS16.csv").read_bytes().startswith(before) and mine() == [BASE, FULL]


def test_an_interval_of_other_random_draws_is_the_same_and_one_of_other_images_is_not(results: Path) -> None:
    record({BASE: TOLD})
    width = math.pi - 0.1 - 0.2
    drawn = replace(BASE, ci_low=0.3 + 0.02 * width, ci_high=math.pi - 0.03 * width)
    assert record({drawn: TOLD}, differing="tell").n_known == 1
    (found,) = record({replace(BASE, ci_low=0.3 + 0.2 * width): TOLD}, differing="tell").differences
    assert found.is_of_interval and "0.3 to 3.14159, now: 0.868319 to 3.14159" in str(found)


class TestImages:
    """Rows of one data set are of the same images."""

    TOLD_OF = TOLD | {"images_hash": {"train": "aa" * 16, "val": "bb" * 16}}

    def test_rows_of_other_images_under_one_name_are_refused(self, results: Path) -> None:
        base = replace(BASE, dataset="data")
        record({base: self.TOLD_OF})
        before = files(results)
        other = self.TOLD_OF | {"images_hash": {"train": "aa" * 16, "val": "cc" * 16}}
        for changed in (replace(base, encoder="mae_vitB16"), replace(base, split="train -> val", n_train=900)):
            with pytest.raises(
                ResultsError, match="other images than those recorded as 'data': 'val' has the hash cccc"
            ):
                record({changed: other}, differing="tell")
        assert files(results) == before
        assert record({replace(base, dataset="data-2"): other, replace(base, seed=1): self.TOLD_OF}).n_new == 2

    def test_the_shipped_rows_count_and_a_row_that_was_taken_out_does_not(self, results: Path) -> None:
        with pytest.raises(ResultsError, match="other images than those recorded as 'digits'"):
            require_same_images("digits", {"images": {"train": "aa" * 16}})
        (path,) = record({replace(BASE, dataset="data"): self.TOLD_OF}).paths
        other = {"images": {"train": "dd" * 16}}
        with pytest.raises(ResultsError, match="--dataset NAME"):
            require_same_images("data", other)
        path.write_text(path.read_text().splitlines()[0] + "\n")
        require_same_images("data", other)

    def test_samples_of_the_images_are_not_taken_for_all_of_them(self, results: Path) -> None:
        sampled = {
            "images_hash": {"train": "ee" * 16},
            "data_hash": {"train": "aa" * 16, "val": "bb" * 16},
            "settings": {"n_images": 100},
            "report": {"n_images": 100},
        }
        record({replace(BASE, dataset="data"): TOLD | sampled})
        require_same_images("data", {"images": {"train": "aa" * 16, "val": "bb" * 16}})
        with pytest.raises(ResultsError, match="other images"):
            require_same_images("data", {"images": {"train": "ee" * 16, "val": "bb" * 16}})

    def test_images_with_maps_are_compared_by_task_and_by_the_images_alone(self, results: Path) -> None:
        rooms = {
            "images_hash": {"train": "11" * 16},
            "data_hash": {"train": "aa" * 16},
            "report": {"task": "depth"},
        }
        depth = replace(
            BASE, dataset="rooms", metric="depth_l1_error", split="train -> val", unit="depth units of the data set"
        )
        record({depth: TOLD | rooms})
        require_same_images("rooms", {"images": {"train": "aa" * 16}, "normals": {"train": "22" * 16}})
        for others in ({"images": {"train": "ab" * 16}}, {"depth": {"train": "12" * 16}}):
            with pytest.raises(ResultsError, match="other images"):
                require_same_images("rooms", others)
