"""The study of what an encoder is good at: claims, chosen encoders, missing corners, and every page of radars."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.shipped import shipped_findings, shipped_table, study_module
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError, UnknownName
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings, Table
from zoo.studies.running import StudyOptions, load_study, study_named

profiles = study_module("what_an_encoder_is_good_at", "profiles")

figures = study_module("what_an_encoder_is_good_at", "figures")

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


@pytest.mark.parametrize(
    ("words", "printed"),  # Section 1 of the paper
    [
        ("Full-shot accuracy of swav", "76"),
        ("Full-shot accuracy of msn", "74"),
        ("3-shot accuracy of swav", "37"),
        ("3-shot accuracy of msn", "63"),
    ],
)
def test_the_four_accuracies_of_the_introduction_come_out(published: Findings, words: str, printed: str) -> None:
    found = claim(published, words)
    assert (found.paper, found.verdict) == (printed, "agrees")


def test_23_encoders_lack_a_corner_and_not_two(published: Findings) -> None:
    found = claim(published, "Encoders without a supervised twin")
    assert (found.paper, found.ours, found.verdict) == ("2", "23", "corrected")
    average = claim(published, "average of Figure 1")
    assert (average.ours, average.verdict) == ("146", "corrected")
    assert {rows.used + sum(rows.left_out.values()) for rows in published.rows} == {169}
    assert published.rows[1].used == 146 and sum(published.rows[1].left_out.values()) == 23


@pytest.mark.parametrize(
    ("words", "printed"),  # Section 5
    [("Encoders that were analysed", "169"), ("Objectives of", "28"), ("Architectures of", "20"), ("Years in", "7")],
)
def test_the_counts_of_section_5_come_out(published: Findings, words: str, printed: str) -> None:
    found = claim(published, words)
    assert (found.paper, found.ours, found.verdict) == (printed, printed, "agrees")


def test_a_count_that_differs_is_corrected() -> None:
    found = claim(study(table_of(PLANTED)), "Objectives of")
    assert (found.ours, found.verdict) == ("0", "corrected")


def test_no_published_encoder_is_best_in_everything_but_a_planted_one_is(published: Findings) -> None:
    assert claim(published, "uniformly better").verdict == "agrees"
    found = claim(study(table_of(PLANTED)), "uniformly better")
    assert found.verdict == "not reproducible" and "best is best in all" in found.reason
    assert "for 1 no other" in found.ours


def test_the_default_radar_has_the_encoders_that_the_text_names(published: Findings) -> None:
    ids = [row[0] for row in chosen(published).rows]
    assert ids == ["clip_vitL14_px336", "swav_rn50w4", "msn_vitl16_ep600"]
    swav = chosen(published).rows[1]
    assert swav[1:3] == ["82 % (23.76)", "54 % (3.67)"]  # 100 * (64.494 - 23.76) / (64.494 - 15.01) of published rows


def test_chosen_encoders_are_found_in_any_case_and_once(published: Findings) -> None:
    found = study(shipped_table(), ["DINO_rn50", "dino_rn50", "simclr_rn50"])
    assert [row[0] for row in chosen(found).rows] == ["dino_rn50", "simclr_rn50"]
    assert found.claims == published.claims


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


def test_an_unknown_encoder_is_refused_with_near_names() -> None:
    with pytest.raises(UnknownName, match="dino_rn50"):
        study(shipped_table(), ["dino_rn5"])


@pytest.mark.parametrize(
    ("encoder", "corrected", "words"),
    [
        ("sup_rn50", False, "sup_rn50 is not in this table, expected one of its 169"),
        ("deepcluster_rn50_bs512_ep200_mmselfsup", True, "measured wrongly"),
    ],
)
def test_an_encoder_that_the_table_lacks_is_refused(encoder: str, corrected: bool, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        study(shipped_table(corrected=corrected), [encoder])


def test_an_encoder_with_too_few_axes_is_refused_only_if_it_was_asked_for() -> None:
    table = table_of({**PLANTED, "sparse": {"train_test": 25.0}})
    assert study(table).rows[1].used == 3
    with pytest.raises(QueryError, match=r"sparse has 1 of the 5 axes.*measure enc_gen and"):
        study(table, ["sparse"])


def test_every_complete_encoder_has_one_radar_on_some_page() -> None:
    table = shipped_table(corrected=True)
    drawn = [figure for figure in study(table).figures if figure.name.startswith("figure26")]
    assert [figure.name for figure in drawn] == [f"figure26_page{number}" for number in range(1, 6)]
    shown = {str(row[0]).replace(" ", "") for figure in drawn if figure.data is not None for row in figure.data()[1:]}
    assert set(table.frame.dropna(subset=NAMES).index) <= shown
