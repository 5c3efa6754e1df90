"""The words for splits and metrics: those of the published rows, and any number of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each import for_each
from tests.result_rows import AddRows, user_of
from zoo.errors import ContentWarning, UnknownName
from zoo.results.rows import measurements
from zoo.results.values import PUBLISHED_SOURCE
from zoo.results.vocabulary import METRICS, find_split


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


@for_each(
    [
        ("train 1-shot -> val", 1_000, 1),
        ("train 10-shot -> val", 10_000, 10),
        ("train 732-shot -> val", 732_000, 732),
        ("train 2% -> val", 25_623, None),
        ("train 0.5% -> val", 6_405, None),
        ("train 0.00000001% -> val", 0, None),
        ("train 99.9% -> val", 1_279_885, None),
    ],
    arguments=3,
)
def test_any_number_of_labels_is_a_split(name: str, n_train: int, shots: int | None) -> None:
    split = find_split(name)
    assert (split.name, split.n_train, split.shots) == (name, n_train, shots)
    assert METRICS["linear_probe_error"].takes(name) and METRICS["knn_error"].takes(name)
    assert not any(METRICS[metric].takes(name) for metric in ("usability", "supervised_twin_error", "uniformity"))


def test_other_spellings_are_refused(add_rows: AddRows) -> None:
    labels = (
        "0-shot",
        "03-shot",
        "3.5-shot",
        "3_0-shot",
        "\N{FULLWIDTH DIGIT THREE}-shot",
        "0%",
        "100%",
        "1.0%",
        "1e-1%",
    )
    for name in (f"train {one} -> val" for one in labels):
        with pytest.raises(UnknownName, match=r"There is no split named .* Others are spelt like"):
            find_split(name)
    add_rows({"split": "train 03-shot -> val", "dataset": "digits", "n_train": ""})
    with pytest.warns(ContentWarning, match=r"column 'split': .*expected a split of 'linear_probe_error', 'train 10"):
        measurements()


@for_each(
    [
        (
            {"split": "train 10-shot -> val", "n_train": "10010"},
            "found 10010, expected 10000 for 'train 10-shot -> val'",
        ),
        ({"split": "train 2% -> val", "n_train": "30000"}, "found 30000, expected 25623, give or take 1000, for"),
        ({"split": "train 1% -> val", "n_train": "14000"}, "found 14000, expected 12811, give or take 1000, for"),
        (
            {"split": "train 1% -> val", "n_train": "12812", "source": PUBLISHED_SOURCE},
            "found 12812, expected 12811 for",
        ),
        (
            {"split": "train 7-shot -> val", "n_train": "71", "dataset": "digits"},
            "found 71, expected a multiple of 7 for",
        ),
        (
            {"split": "val", "metric": "uniformity", "unit": "dimensionless"},
            "found 1281167, expected nothing for 'val'",
        ),
    ],
    arguments=2,
)
def test_the_number_of_labels_must_fit_the_split(change: dict[str, str], words: str, add_rows: AddRows) -> None:
    add_rows(change)
    with pytest.warns(ContentWarning, match=f"column 'n_train': {words}"):
        measurements()


def test_a_share_of_each_class_is_rounded_and_a_data_set_of_ones_own_has_its_own_size(add_rows: AddRows) -> None:
    add_rows(
        {"split": "train 1% -> val", "n_train": "12820"},
        {"split": "train 10-shot -> val", "n_train": "10000"},
        {"split": "train 10-shot -> val", "n_train": "100", "dataset": "digits"},
        {"split": "train -> val", "n_train": "1347", "dataset": "digits", "metric": "knn_error"},
        {"split": "val -> val", "n_train": "450", "dataset": "digits"},
    )
    assert [row.n_train for row in measurements()[-5:]] == [12820, 10000, 100, 1347, 450]


COMPONENT = {"metric": "usability", "unit": "percentage points", "dataset": "digits", "n_train": ""}


def test_a_component_is_a_signed_difference_of_two_errors(add_rows: AddRows) -> None:
    add_rows(COMPONENT | {"value": "-2.5", "ci_low": "-4", "ci_high": "0.5"})
    assert (measurements()[-1].value, measurements()[-1].ci_low) == (-2.5, -4)
    add_rows(COMPONENT | {"value": "-100.5", "ci_low": "", "ci_high": ""})
    with pytest.warns(ContentWarning, match=r"column 'value': .*between -100 and 100 percentage points"):
        measurements()


def test_an_interval_may_miss_its_value_by_rounding_and_no_more(add_rows: AddRows) -> None:
    add_rows({"value": "24.5", "ci_low": "24.500000000000004", "ci_high": "24.9"})
    assert measurements()[-1].ci_low == 24.500000000000004
    add_rows({"value": "24.5", "ci_low": "24.500001", "ci_high": "24.9"})
    with pytest.warns(ContentWarning, match="expected an interval that holds the value"):
        measurements()
