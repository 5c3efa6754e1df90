"""The study of what an encoder is good at: claims, chosen encoders, missing corners, and every page of radars."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.each import for_each
from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings, Table
from zoo.studies.running import StudyOptions, load_study, study_named

profiles = study_module("what_an_encoder_is_good_at")

figures = study_module("what_an_encoder_is_good_at")

STUDY = load_study(study_named("what_an_encoder_is_good_at"))
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


def claim(findings: Findings, words: str) -> Claim:
    (found,) = [one for one in findings.claims if words in one.claim]
    return found


def chosen(findings: Findings) -> Table:
    (found,) = [one for one in findings.tables if one.title == "Encoders of the radar"]
    return found


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("what_an_encoder_is_good_at")


def test_no_published_encoder_is_best_in_everything_but_a_planted_one_is(published: Findings) -> None:
    assert claim(published, "uniformly better").verdict == "agrees"
    found = claim(study(table_of(PLANTED)), "uniformly better")
    assert found.verdict == "not reproducible" and "best is best in all" in found.reason
    assert "for 1 no other" in found.ours


def test_an_encoder_without_a_twin_is_drawn_without_those_corners() -> None:
    found = study(shipped_table(), ["dino_vitS16_last"])
    assert chosen(found).rows[0][-2:] == ["", ""]
    unknown = [one.outcome for one in found.estimates if one.term == "dino_vitS16_last" and one.value is None]
    assert unknown == ["usability", "approx"]
    assert any("drawn without Usability and Approximation" in note for note in found.notes)
    with style():
        drawing = found.figures[0].draw()
        drawing.canvas.draw()
    texts = [text.get_text() for text in drawing.axes[1].texts]
    assert "Usability\nunknown" in texts and "Approx.\nunknown" in texts


@for_each(
    [
        ("sup_rn50", False, "sup_rn50 is not in this table, expected one of its 169"),
        ("deepcluster_rn50_bs512_ep200_mmselfsup", True, "measured wrongly"),
    ],
    arguments=3,
)
def test_an_encoder_that_the_table_lacks_is_refused(encoder: str, corrected: bool, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        study(shipped_table(corrected=corrected), [encoder])


def test_an_encoder_with_too_few_axes_is_refused_only_if_it_was_asked_for() -> None:
    table = table_of({**PLANTED, "sparse": {"train_test": 25.0}})
    assert study(table).rows[1].used == 3
    with pytest.raises(QueryError, match=r"sparse has 1 of the 5 axes.*measure enc_gen and"):
        study(table, ["sparse"])
