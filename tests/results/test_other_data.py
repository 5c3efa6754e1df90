"""Measurements on other data sets than ImageNet-1K stand next to the published ones and change no table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import document, run
from tests.each import for_each
from tests.result_rows import AddRows, user_of
from zoo import results_df
from zoo.analysis import study_table
from zoo.cards.catalogue import load_catalogue
from zoo.hub.modelcard import find_imagenet_measurements
from zoo.results.derived import summaries
from zoo.results.tables import build_published_rows, build_unpublished_rows
from zoo.results.values import PUBLISHED_SOURCE

BASE = {
    "dataset": "digits",
    "n_train": "1347",
    "protocol": "zoo-logistic-2",
    "source": "measured",
    "ci_low": "",
    "ci_high": "",
}
PARTS = {"metric": "usability", "unit": "percentage points", "n_train": "", "protocol": "zoo-risk-logistic-2"}
PUBLISHED_ID = "dino_vitS16"
MEASURED = summaries()
UNMEASURED_ID = next(name for name in load_catalogue() if name not in MEASURED)
ROWS = [
    BASE | {"encoder": encoder} | change
    for encoder in (PUBLISHED_ID, UNMEASURED_ID)
    for change in (
        {"value": "3.1"},
        {"value": "2.9", "metric": "knn_error"},
        {"value": "0.1", "split": "train -> train"},
        {"value": "2.2", "split": "train minus subset -> subset", "n_train": "897"},
        {"value": "9.9", "split": "train 10-shot -> val", "n_train": "100"},
        {"value": "30", "split": "train 3-shot -> val", "n_train": "30"},
        {"value": "17", "split": "train 1% -> val", "n_train": "13"},
        PARTS | {"value": "-0.3"},
        PARTS | {"value": "0.1", "metric": "approximation_plus_usability"},
        PARTS | {"value": "2.1", "metric": "probe_generalization"},
        PARTS | {"value": "0.9", "metric": "encoder_generalization"},
        {"value": "0", "metric": "supervised_twin_error", "split": "train -> train"},
    )
]


@pytest.fixture
def add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


def test_summaries_and_tables_are_what_they_were(add_rows: AddRows) -> None:
    def everything() -> list[object]:
        tables = [
            results_df(as_published=as_published, exclude_wrong=not as_published, extended=True).to_csv()
            for as_published in (True, False)
        ]
        rows = [
            repr(rows_of(as_published=as_published, exclude_wrong=not as_published))
            for rows_of in (build_published_rows, build_unpublished_rows)
            for as_published in (True, False)
        ]
        studied = [
            study_table("all", corrected=corrected, with_mine=True).frame.to_csv() for corrected in (True, False)
        ]
        cards = [repr(find_imagenet_measurements(load_catalogue()[name])) for name in (PUBLISHED_ID, UNMEASURED_ID)]
        return [
            summaries(),
            summaries(exclude_wrong=True),
            summaries(source=PUBLISHED_SOURCE),
            tables,
            rows,
            studied,
            cards,
        ]

    before = everything()
    add_rows(*ROWS)
    assert everything() == before
    assert UNMEASURED_ID not in summaries()


@for_each([PUBLISHED_ID, UNMEASURED_ID])
def test_what_an_encoder_did_on_them_is_shown_with_its_source(encoder: str, add_rows: AddRows) -> None:
    add_rows(*(row | {"source": "own", "dataset": "birds"} for row in ROWS))
    printed = run("show", encoder, "--all").stdout
    section = printed[printed.index("Measured on birds by the source 'own'") :]
    lines = [line.split() for line in section.splitlines()]
    assert ["100%", "(1,347", "images)", "3.1"] in lines
    assert ["encoder", "generalization", "0.9", "points"] in lines
    assert "zoo-logistic-2" in section
    shown = [mean for mean in document("show", encoder)["other_results"] if mean["dataset"] == "birds"]
    assert len(shown) == len(ROWS) // 2
    assert {mean["source"] for mean in shown} == {"own"}


def test_lists_and_comparisons_are_of_another_data_set_on_request(add_rows: AddRows) -> None:
    add_rows(*(row | {"dataset": "birds"} for row in ROWS))
    columns = ("--columns", "encoder,error_100pct,error_3shot,approx,usability")
    listed = document("list", "--dataset", "birds", "--sort", "error_100pct", *columns)
    assert {one["encoder"] for one in listed["encoders"]} == {PUBLISHED_ID, UNMEASURED_ID}
    assert [one["error_3shot"] for one in listed["encoders"]] == [30, 30]
    assert [one["usability"] for one in listed["encoders"]] == pytest.approx([0.1, 0.1])
    compared = document("compare", PUBLISHED_ID, UNMEASURED_ID, "--dataset", "birds")
    assert compared["difference"]["train_test"] == 0
    assert document("compare", PUBLISHED_ID, UNMEASURED_ID)["difference"]["train_test"] is None
    assert "birds" in run("list", "--dataset", "brids", code=2).stderr


def generation(number: int, **change: str) -> list[dict[str, str]]:
    """The rows by a generation of the protocol of probes, all of whose errors are that number."""
    return [
        row
        | {"protocol": row["protocol"].replace("-2", f"-{number}"), "value": str(number), "dataset": "birds"}
        | change
        for row in ROWS
        if row["encoder"] == PUBLISHED_ID and row["metric" if "metric" in row else "source"] != "knn_error"
    ]


def test_errors_and_components_are_of_the_newest_generation_of_a_protocol(add_rows: AddRows) -> None:
    add_rows(*generation(3), *generation(2, date="2027-01-01"))
    summary = summaries(dataset="birds")[PUBLISHED_ID]
    assert set(summary.errors.values()) == {3.0}
    assert summary.decomposition is not None and summary.decomposition.approximation == 3.0
    section = run("show", PUBLISHED_ID, "--all").stdout.partition("Measured on birds")[2]
    assert "zoo-logistic-3" in section and "zoo-logistic-2" not in section
    errors = [one for one in generation(3) if "metric" not in one or one["metric"] == "linear_probe_error"]
    parts = [one for one in generation(2) if one.get("metric") not in (None, "linear_probe_error")]
    add_rows(*errors, *parts)
    summary = summaries(dataset="birds")[PUBLISHED_ID]
    assert summary.decomposition is not None and summary.decomposition.full_shot_error == 3.0
    assert summary.decomposition.probe_generalization == 0.0  # of errors by 3, not the 2 that was stated with 2


def test_a_table_has_one_generation_and_says_who_has_an_older_one_alone(add_rows: AddRows) -> None:
    older = {"encoder": UNMEASURED_ID}
    add_rows(*generation(3), *generation(2), *generation(2, **older))
    asked = ("results", "--dataset", "birds")
    shown = run(*asked)
    assert PUBLISHED_ID in shown.stdout and UNMEASURED_ID not in shown.stdout
    assert "measured by zoo-logistic-2 alone, 1 encoder: --protocol 'zoo-logistic-2'" in shown.stderr
    before = run(*asked, "--protocol", "zoo-logistic-2")
    assert PUBLISHED_ID in before.stdout and UNMEASURED_ID in before.stdout and "alone" not in before.stderr
    assert "3.0" not in before.stdout and "2.0" not in shown.stdout
