"""Profiles: 0 is the worst encoder and 1 the best, the user's own take their places, and nothing missing becomes 0."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from tests.shipped import study_module
from zoo.analysis.table import StudyTable, table_of

of_encoders = study_module("what_an_encoder_is_good_at")

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
