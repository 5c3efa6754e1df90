"""The study of what an encoder is good at: claims, chosen encoders, missing corners, and every page of radars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from tests.shipped import shipped_findings, shipped_table, study_module
from tests.studies.parts import claim
from zoo.analysis.table import StudyTable, build_table
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import Findings, FindingsTable
from zoo.studies.running import StudyOptions, find_study, load_study

profiles = study_module("what_an_encoder_is_good_at")

figures = study_module("what_an_encoder_is_good_at")

STUDY = load_study(find_study("what_an_encoder_is_good_at"))
NAMES = [axis.column for axis in profiles.AXES]
PLANTED = {
    "best": dict(zip(NAMES, (20.0, 1.0, 10.0, 2.0, 0.5), strict=True)),
    "middle": dict(zip(NAMES, (30.0, 2.0, 15.0, 3.0, 0.7), strict=True)),
    "worst": dict(zip(NAMES, (60.0, 3.0, 30.0, 10.0, 1.5), strict=True)),
}


def study(table: StudyTable, encoders: Sequence[str] = ()) -> Findings:
    found = STUDY(table, StudyOptions(encoders=tuple(encoders)))
    assert isinstance(found, Findings)
    return found


def chosen(findings: Findings) -> FindingsTable:
    (found,) = [one for one in findings.tables if one.title == "Encoders of the radar"]
    return found


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("what_an_encoder_is_good_at")


def test_no_published_encoder_is_best_in_everything_but_a_planted_one_is(published: Findings) -> None:
    assert claim(published, "uniformly better").verdict == "agrees"
    found = claim(study(build_table(PLANTED)), "uniformly better")
    assert found.verdict == "not reproducible" and "best is best in all" in found.reason
    assert "for 1 no other" in found.ours


def test_an_encoder_without_a_twin_is_drawn_without_those_corners() -> None:
    found = study(shipped_table(), ["dino_vitS16_last"])
    assert chosen(found).rows[0][-2:] == ["", ""]
    unknown = [one.outcome for one in found.estimates if one.term == "dino_vitS16_last" and one.value is None]
    assert unknown == ["usability", "approx"]
    assert any("drawn without Usability and Approximation" in note for note in found.notes)
    with use_style():
        drawing = found.figures[0].draw()
        drawing.canvas.draw()
    texts = [text.get_text() for text in drawing.axes[1].texts]
    assert "Usability\nunknown" in texts and "Approx.\nunknown" in texts


of_encoders = study_module("what_an_encoder_is_good_at")

COLUMNS = [axis.column for axis in of_encoders.AXES]


def row(*values: float) -> dict[str, float]:
    return {name: value for name, value in zip(COLUMNS, values, strict=True) if not math.isnan(value)}


THREE = {
    "good": row(20.0, 1.0, 10.0, 2.0, 0.5),
    "half": row(40.0, 2.0, 20.0, 6.0, 1.0),
    "bad": row(60.0, 3.0, 30.0, 10.0, 1.5),
    "without_twin": row(30.0, 1.5, 15.0, math.nan, math.nan),
}


def with_mine(table: StudyTable, cells: dict[str, float]) -> StudyTable:
    """The table with one more encoder that counts as the user's."""
    more = build_table({"my_encoder": cells})
    return replace(
        table,
        frame=pd.concat([table.frame, more.frame]),
        why_missing=pd.concat([table.why_missing, more.why_missing]),
        mine=("my_encoder",),
    )


def test_the_best_has_1_the_worst_0_and_the_middle_a_half() -> None:
    places = of_encoders.profiles_of(build_table(THREE)).places
    assert places.loc["good"].tolist() == [1.0] * 5
    assert places.loc["bad"].tolist() == [0.0] * 5
    assert places.loc["half"].tolist() == pytest.approx([0.5] * 5)


def test_an_encoder_of_mine_changes_no_published_place_and_may_lie_beyond_the_scale() -> None:
    table = build_table(THREE)
    before, after = (
        of_encoders.profiles_of(table),
        of_encoders.profiles_of(with_mine(table, row(10.0, 4.0, 20.0, 6.0, 1.0))),
    )
    assert after.places.loc[list(THREE)].equals(before.places)
    assert after.reference == before.reference
    assert after.beyond("my_encoder") == ["train_test", "enc_gen"]
    assert after.places.loc["my_encoder", "train_test"] == pytest.approx(1.25)
    assert before.beyond("good") == []
