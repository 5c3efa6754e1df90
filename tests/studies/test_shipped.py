"""Every shipped study with few draws: its claims on the published rows, and what it makes of other tables.

``claims.tsv`` has what the paper prints, the verdict, and our number where it is no matter of draws.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.colors import to_rgba

from tests.each import for_each
from tests.figure_checks import figure_faults
from tests.own_encoder import add_own_encoder
from tests.shipped import QUICK, shipped_findings, shipped_table, with_few_draws
from zoo.analysis.table import StudyTable, study_table
from zoo.errors import QueryError
from zoo.evaluation.drawing import use_style
from zoo.studies.findings import TOO_FEW
from zoo.studies.report import build_report_document, render_html_report, render_markdown_report
from zoo.studies.running import StudyOptions, StudyRun, list_studies

STUDIES = list_studies()
CLAIMS = list(csv.DictReader(Path(__file__).with_name("claims.tsv").read_text("utf-8").splitlines(), delimiter="\t"))
ANSWERS = {  # what no draw decides
    "do_accuracies_agree": "are on average 1.1 points (0.6 to 1.7) below the published ones, over 114 encoders.",
    "do_untrained_encoders_trade_off": "14 untrained encoders usability and probe generalization correlate by -0.85",
    "does_the_order_matter": "For encoder generalization: over 10 encoders",
    "what_an_encoder_is_good_at": "none of 146 encoders is best in all four",
    "what_choices_change_on_average": "ViTs have 7.3 points (4.7 to 9.8) less probe generalization error than ResNets",
    "what_one_choice_changes": "usability error by -2.6 points (25 encoders), probe generalization error by +2.1 (51)",
    "where_the_risk_lies": "In 2016 mostly usability, 45.9 of 64.2 points of the best ImageNet-1K encoder; by 2022",
    "which_methods_find_the_effects": "finds 67 % of the effects and 7 % of those that do not exist, trees 69 %",
    "which_objectives_are_usable": "Clustering objectives: 3.7 points",
}
OF_THE_TABLE = ("do_accuracies_agree", "do_statistics_predict", "full_shot_or_few_shot", "where_the_risk_lies")


@pytest.mark.parametrize("name", sorted({row["study"] for row in CLAIMS}))
def test_claims_come_out_on_the_published_rows(name: str) -> None:
    found = {claim.claim: claim for claim in shipped_findings(name).claims}
    for row in CLAIMS:
        if row["study"] == name:
            claim = found[row["claim"]]
            assert (claim.paper, claim.verdict) == (row["paper"], row["verdict"]), claim
            if row["value"]:
                assert claim.value is not None and math.isclose(
                    claim.value, float(row["value"]), rel_tol=2e-3, abs_tol=2e-3
                ), claim


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_answers_its_question_in_a_sentence(name: str) -> None:
    answer = shipped_findings(name).answer
    assert answer.endswith(".") and "\n" not in answer and len(answer) <= 240 and len(answer.split()) <= 36
    assert answer != TOO_FEW and "nan" not in answer
    assert ANSWERS.get(name, "") in answer


def test_too_few_rows_are_said_to_be() -> None:
    without = shipped_table().frame.assign(nviews=1.0, z_dim=1.0)  # nothing differs in them alone
    few = with_few_draws("what_one_choice_changes")(replace(shipped_table(), frame=without), StudyOptions())
    assert few.answer == TOO_FEW


@for_each(OF_THE_TABLE)
def test_used_and_left_out_are_all_encoders_of_the_table(name: str) -> None:
    for corrected in (False, True):
        rows = shipped_findings(name, corrected=corrected).rows
        assert {one.used + sum(one.left_out.values()) for one in rows} == {len(shipped_table(corrected=corrected))}


@for_each(OF_THE_TABLE)
def test_a_handful_of_encoders_is_refused(name: str) -> None:
    table = shipped_table()
    with pytest.raises(QueryError, match="expected at least"):
        with_few_draws(name)(table.only(table.frame.index[:3], because="test"), StudyOptions())


@pytest.fixture(scope="module")
def with_mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudyTable]:
    """The corrected table with an encoder of the user's, in the home of that user."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        add_own_encoder(home, patch, splits=("train -> val", "train 1% -> val"))
        yield study_table(corrected=True, with_mine=True)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_answers_on_corrected_rows_with_a_sparse_encoder_of_mine(name: str, with_mine: StudyTable) -> None:
    assert with_mine.mine and len(with_mine) == 169
    findings = with_few_draws(name, **QUICK)(replace(with_mine, frame=with_mine.frame.copy()), StudyOptions())
    run = StudyRun(study=STUDIES[name], table=with_mine, findings=findings)
    assert findings.answer.endswith(".") and len(findings.answer) <= 240
    assert findings.claims
    assert len({claim.claim for claim in findings.claims}) == len(findings.claims)
    for claim in findings.claims:
        assert claim.reason or claim.verdict == "agrees", claim
        assert claim.claim and claim.source and claim.paper and claim.ours, claim
        assert "\n" not in claim.reason
    assert findings.estimates
    for estimate in findings.estimates:
        assert estimate.term and estimate.method and estimate.unit and estimate.n > 0, estimate
        assert estimate.value is not None or estimate.note, estimate
    assert findings.rows
    assert all(rows.used >= 0 and all(number > 0 for number in rows.left_out.values()) for rows in findings.rows)
    document = build_report_document([run])
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert run.study.question in render_html_report(document)
    assert run.study.question in render_markdown_report(document)
    with use_style():
        for figure in findings.figures:
            drawing = figure.draw()
            assert figure_faults(drawing) == [], figure.name
            assert drawing.axes, figure.name
            assert to_rgba(drawing.get_facecolor()) == (1.0, 1.0, 1.0, 1.0)
