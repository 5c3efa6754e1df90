"""The words of learning curves: any number of labelled images, and errors in the units of their tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.result_rows import AddRows, user_of
from zoo.errors import ContentWarning
from zoo.results.rows import measurements
from zoo.results.vocabulary import METRICS, SPLITS, find_split

UNITS = {
    "transfer_error": "percent",
    "depth_l1_error": "depth units of the data set",
    "normals_l1_error": "dimensionless",
    "normals_angular_error": "degrees",
}
DEPTH = {
    "metric": "depth_l1_error",
    "unit": UNITS["depth_l1_error"],
    "dataset": "shapes",
    "split": "train 300 images -> val",
    "n_train": "300",
    "value": "0.25",
    "ci_low": "0.2",
    "ci_high": "0.3",
    "protocol": "zoo-curve-depth-1",
}


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


@pytest.mark.parametrize("metric", UNITS)
def test_the_errors_of_curves_take_all_labels_and_any_number_and_no_other_split(metric: str) -> None:
    one, split = METRICS[metric], find_split("train 300 images -> val")
    assert (split.n_train, split.shots, split.name) == (300, None, "train 300 images -> val")
    assert (one.unit, one.lower_is_better) == (UNITS[metric], True)
    assert one.takes("train -> val") and one.takes("train 7 images -> val")
    others = [*SPLITS, "train 10-shot -> val", "train 0.5% -> val", "train 07 images -> val"]
    assert not any(one.takes(name) for name in others if name != "train -> val")
    assert not METRICS["linear_probe_error"].takes("train 300 images -> val")


def test_the_number_that_was_used_may_be_another_than_was_asked_for(add_rows: AddRows) -> None:
    add_rows(DEPTH | {"n_train": "298"}, DEPTH | {"split": "train -> val", "n_train": "4000", "seed": ""})
    asked, every = measurements()[-2:]
    assert (asked.split, asked.n_train, asked.value, asked.ci_high) == ("train 300 images -> val", 298, 0.25, 0.3)
    assert (every.n_train, every.seed) == (4000, None)


@pytest.mark.parametrize(
    "change",
    [
        {"value": "-0.1", "ci_low": "", "ci_high": ""},
        {"unit": "metres"},
        {"metric": "normals_angular_error", "unit": "degrees", "value": "190", "ci_low": "", "ci_high": ""},
        {"metric": "transfer_error", "unit": "percent", "value": "101", "ci_low": "", "ci_high": ""},
        {"metric": "linear_probe_error", "unit": "percent"},
        *({"split": f"train {n} images -> val"} for n in ("0", "03", "1,000", "\N{FULLWIDTH DIGIT THREE}", "")),
    ],
)
def test_a_row_that_cannot_be_is_refused(add_rows: AddRows, change: dict[str, str]) -> None:
    add_rows(DEPTH | change)
    with pytest.warns(ContentWarning, match="expected"):
        measurements()
