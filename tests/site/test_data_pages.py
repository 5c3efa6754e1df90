"""The files of data/: what they hold is what results, cards and tables of the package say."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import astuple, fields
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.result_rows import AddRows, user_of
from tests.site.site_under_test import contents
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import Missing
from zoo.results.facts import FACTS
from zoo.results.reported import reported_numbers
from zoo.results.rows import Measurement, measurements
from zoo.results.tables import results_df
from zoo.results.vocabulary import METRICS
from zoo.site.contents import gather
from zoo.site.data_tables import REASONS, DataTable, build_data_tables, write_csv_bytes, write_json_bytes


@cache
def made() -> dict[str, DataTable]:
    return {table.name: table for table in build_data_tables(contents())}


def read(table: DataTable) -> list[dict[str, str]]:
    """A table as a reader of its CSV file sees it."""
    return list(csv.DictReader(io.StringIO(write_csv_bytes(table).decode(), newline="")))


def test_results_read_back_are_the_measurements() -> None:
    kinds: dict[str, Any] = {"n_train": int, "seed": int, "value": float, "ci_low": float, "ci_high": float}
    found = [
        tuple(
            kinds.get(one.name, str)(row[one.name]) if row[one.name] or one.name not in kinds else None
            for one in fields(Measurement)
        )
        for row in read(made()["results"])
    ]
    assert found == [astuple(one) for one in measurements() if load_catalogue().lists(one.encoder)]
    wrong = [row for row in read(made()["results"]) if row["is_wrong"] == "true"]
    assert len(measurements()) - len(wrong) == len(measurements(exclude_wrong=True))
    numbers = {row["number"]: row for row in read(made()["result_errata"])}
    assert {numbers[row["errata"]]["kind"] for row in wrong} == {"wrong weights"}


@pytest.mark.parametrize(("name", "as_published"), [("study", False), ("study_as_published", True)])
def test_the_tables_of_the_study_are_those_of_the_package(name: str, as_published: bool) -> None:
    expected = results_df(is_multiindex=False, is_lower=False, as_published=as_published, extended=not as_published)
    text = io.StringIO(write_csv_bytes(made()[name]).decode())
    found = pd.read_csv(text, na_values=list(REASONS), keep_default_na=False, index_col="encoder")
    assert list(found.columns) == list(expected.columns) and list(found.index) == list(expected.index)
    for column in expected.columns:
        numbers = pd.to_numeric(expected[column], errors="coerce")
        if numbers.notna().any():
            assert pd.to_numeric(found[column], errors="coerce").tolist() == pytest.approx(
                numbers.tolist(), rel=0, abs=0, nan_ok=True
            ), column


def test_facts_keep_why_they_are_missing_in_both_formats() -> None:
    table = made()["encoders"]
    document = json.loads(write_json_bytes(table))
    names = [column["name"] for column in document["columns"]]
    assert names[: len(FACTS)] == list(FACTS)
    assert [(one["kind"], one["meaning"]) for one in document["columns"]] == [
        (c.kind, c.meaning) for c in table.columns
    ]
    as_csv, entries = read(table), list(contents().entries.values())
    for place, name in enumerate(FACTS):
        column = document["columns"][place]
        for number, entry in enumerate(entries):
            value, code = FACTS[name].of(entry.subject), column["cells"][number]
            cell = column["values"][code]
            if isinstance(value, Missing):
                assert (cell, column["missing"][code], as_csv[number][name]) == (None, value.value, value.value)
            else:
                assert code >= len(column["missing"]) and cell == (list(value) if isinstance(value, tuple) else value)


def test_risks_have_all_encoders_with_errors_and_components_add_up() -> None:
    rows = read(made()["risks"])
    assert len(rows) == 200 and [row["encoder"] for row in rows if row["is_wrong"] == "true"]
    for row in rows:
        parts = [
            row[name] for name in ("approximation_plus_usability", "probe_generalization", "encoder_generalization")
        ]
        if parts[0] != "not published":
            assert sum(map(float, parts)) == pytest.approx(float(row["error_100pct"]), abs=1e-6)


def test_reported_numbers_keep_their_digits() -> None:
    found = [(row["encoder"], row["protocol"], row["value"], row["doubt"]) for row in read(made()["reported"])]
    expected = [(one.encoder, one.protocol, one.printed, one.doubt) for one in reported_numbers()]
    assert sorted(found) == sorted(expected)


def test_every_empty_cell_has_a_reason_and_every_word_is_explained() -> None:
    for table in made().values():
        for place, column in enumerate(table.columns):
            assert column.meaning and "" not in table.missing(place), (table.name, column.name)
            assert all(len(row) == len(table.columns) for row in table.rows)
    metrics, protocols = ({row[0] for row in made()[name].rows} for name in ("metrics", "protocols"))
    assert set(METRICS) <= metrics
    used = {row["protocol"].partition(" (")[0] for name in ("results", "reported") for row in read(made()[name])}
    assert used <= protocols


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRows:
    return user_of(tmp_path, monkeypatch)


def test_rows_of_the_user_are_marked_and_only_there_if_asked_for(user: AddRows) -> None:
    user({"encoder": "dino_vitS16"}, {"encoder": "dino_vitS16@cls:9"})
    for with_mine, n_own in ((False, 0), (True, 2)):
        found = {
            table.name: table for table in build_data_tables(gather(only=["dino_vitS16", "mae_*"], with_mine=with_mine))
        }
        rows = read(found["results"])
        assert {row["encoder"].partition("@")[0] for row in rows} >= {"dino_vitS16", "mae_vitB16"}
        assert all(row["encoder"].startswith(("dino_vitS16", "mae_")) for row in rows)
        assert [row["protocol"] for row in rows if row["mine"] == "true"] == ["mine"] * n_own
        assert {row["mine"] for row in read(found["risks"])} == {"false"}  # the published ones count
