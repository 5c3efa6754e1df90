"""Profiles: 0 is the worst encoder and 1 the best, the user's own take their places, and nothing missing becomes 0."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from tests.shipped import shipped_table, study_module
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError

of_encoders = study_module("what_an_encoder_is_good_at", "profiles")

NAMES = [axis.column for axis in of_encoders.AXES]


def row(*values: float) -> dict[str, float]:
    return {name: value for name, value in zip(NAMES, values, strict=True) if not math.isnan(value)}


PLANTED = {
    "good": row(20.0, 1.0, 10.0, 2.0, 0.5),
    "half": row(40.0, 2.0, 20.0, 6.0, 1.0),
    "bad": row(60.0, 3.0, 30.0, 10.0, 1.5),
    "without_twin": row(30.0, 1.5, 15.0, math.nan, math.nan),
}


def with_mine(table: StudyTable, cells: dict[str, float]) -> StudyTable:
    """The table with one more encoder that counts as the user's."""
    more = table_of({"my_encoder": cells})
    return replace(
        table,
        frame=pd.concat([table.frame, more.frame]),
        why_missing=pd.concat([table.why_missing, more.why_missing]),
        mine=("my_encoder",),
    )


def test_the_best_has_1_the_worst_0_and_the_middle_a_half() -> None:
    places = of_encoders.profiles_of(table_of(PLANTED)).places
    assert places.loc["good"].tolist() == [1.0] * 5
    assert places.loc["bad"].tolist() == [0.0] * 5
    assert places.loc["half"].tolist() == pytest.approx([0.5] * 5)


def test_an_axis_that_was_not_measured_has_no_place() -> None:
    profiles = of_encoders.profiles_of(table_of(PLANTED))
    assert profiles.known("without_twin") == ["train_test", "enc_gen", "probe_gen"]
    assert profiles.places.loc["without_twin", ["usability", "approx"]].isna().all()
    assert profiles.places.loc["without_twin", "probe_gen"] == pytest.approx(0.75)
    assert "without_twin" not in profiles.reference


def test_the_average_is_over_the_encoders_that_set_the_scale() -> None:
    profiles = of_encoders.profiles_of(table_of(PLANTED))
    assert profiles.reference == ("good", "half", "bad")
    assert profiles.average().tolist() == pytest.approx([0.5] * 5)


def test_an_encoder_of_mine_changes_no_published_place_and_may_lie_beyond_the_scale() -> None:
    table = table_of(PLANTED)
    before, after = (
        of_encoders.profiles_of(table),
        of_encoders.profiles_of(with_mine(table, row(10.0, 4.0, 20.0, 6.0, 1.0))),
    )
    assert after.places.loc[list(PLANTED)].equals(before.places)
    assert after.reference == before.reference
    assert after.beyond("my_encoder") == ["train_test", "enc_gen"]
    assert after.places.loc["my_encoder", "train_test"] == pytest.approx(1.25)
    assert before.beyond("good") == []


def test_the_published_scale_is_that_of_146_encoders() -> None:
    profiles = of_encoders.profiles_of(shipped_table())
    assert len(profiles.reference) == 146  # published_results.csv: encoders with all four components
    within = profiles.places.loc[list(profiles.reference)]
    assert within.min().tolist() == [0.0] * 5
    assert within.max().tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"one": PLANTED["good"], "two": PLANTED["without_twin"]}, "1 encoders of the table have all of"),
        ({"one": PLANTED["good"], "two": {**PLANTED["bad"], "approx": 0.5}}, "approx is 0.5 for all 2"),
    ],
)
def test_a_table_without_a_scale_is_refused(rows: dict[str, dict[str, float]], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        of_encoders.profiles_of(table_of(rows))
