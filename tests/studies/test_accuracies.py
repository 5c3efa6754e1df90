"""The study of published accuracies: every number of Appendix F.1 and Table 8, and tables that lack them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.shipped import shipped_findings, shipped_table
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError
from zoo.evaluation.drawing import style
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, study_named

STUDY = load_study(study_named("do_accuracies_agree"))
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
TABLE_8 = {  # Table 8 of the paper, whose text layer merges the rows of one objective and architecture
    "byol_rn50_augNocolor, full-shot": "-4.07", "dissl_resnet50_dNone_e100_m2, full-shot": "5.04",
    "deepcluster_rn50_bs512_ep200_mmselfsup, full-shot": "-17.57", "jigsaw_rn50, full-shot": "10.77",
    "jigsaw_rn50_in22k, full-shot": "17.58", "msn_vitb16_ep600, 1 % of labels": "-4.27",
    "msn_vitl16_ep600, full-shot": "6.36", "mugs_vits16_ep800_extractS, full-shot": "-1.71",
    "mugs_vits16_ep800_extractS, 1 % of labels": "4.03", "pirl_rn50_ep200, full-shot": "3.62",
    "relativeloc_rn50_70ep_mmselfsup, full-shot": "3.16", "rotnet_rn50_in1k, full-shot": "7.16",
    "rotnet_rn50_in22k, full-shot": "7.31", "simclr_rn101_ep100, full-shot": "-3.78",
    "simclr_rn50_bs256_ep200_mmselfsup, full-shot": "6.28", "speccl_resnet50_bs384_ep100, full-shot": "5.31",
}  # fmt: skip


def study(table: StudyTable) -> Findings:
    found = STUDY(table, StudyOptions())
    assert isinstance(found, Findings)
    return found


def claim(findings: Findings, words: str) -> Claim:
    (found,) = [one for one in findings.claims if words in one.claim]
    return found


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("do_accuracies_agree")


@pytest.fixture(scope="module")
def corrected() -> Findings:
    return shipped_findings("do_accuracies_agree", corrected=True)


@pytest.mark.parametrize(("pair", "printed"), TABLE_8.items())
def test_every_number_of_table_8_comes_out(published: Findings, pair: str, printed: str) -> None:
    found = claim(published, f"accuracy of {pair}")
    assert (found.paper, found.verdict) == (printed, "agrees")
    assert found.value == pytest.approx(float(printed), abs=0.005)


@pytest.mark.parametrize(
    ("words", "printed"),  # Appendix F.1
    [
        ("Mean of published minus measured accuracy, full-shot", "1.13"),
        ("Standard deviation of published minus measured accuracy, full-shot", "3.01"),
        ("Mean of published minus measured accuracy, 1 %", "0.14"),
        ("Standard deviation of published minus measured accuracy, 1 %", "2.39"),
        ("Mean of published minus measured accuracy, 5-shot", "-0.34"),
        ("Standard deviation of published minus measured accuracy, 5-shot", "0.48"),
        ("p-value of the paired t-test", "1e-4"),
    ],
)
def test_every_number_of_the_text_comes_out(published: Findings, words: str, printed: str) -> None:
    found = claim(published, words)
    assert (found.paper, found.verdict) == (printed, "agrees")


def test_the_wrong_weights_are_named_and_the_mean_without_them_stands_beside(published: Findings) -> None:
    without = [one for one in published.estimates if "wrong weights" in one.term and one.method == "paired t-test"]
    assert [one.n for one in without] == [113]
    assert without[0].value == pytest.approx(1.2955, abs=1e-3)
    assert any(WRONG in note and "SimCLR" in note for note in published.notes)


def test_errata_take_a_row_and_an_accuracy_that_belongs_to_another_file(corrected: Findings) -> None:
    assert corrected.rows[0].used == 113
    assert claim(corrected, f"accuracy of {WRONG}").ours == "not available"
    nocolor = claim(corrected, "accuracy of byol_rn50_augNocolor")
    assert nocolor.value == pytest.approx(-0.072, abs=1e-3)  # 63.4 instead of the copied 59.4
    assert "63.4" in nocolor.reason
    assert not any("although an erratum" in note for note in corrected.notes)


def test_a_planted_offset_is_the_mean_and_its_sign_is_published_minus_measured() -> None:
    rng = np.random.default_rng(0)
    errors = 30 + rng.standard_normal(40)
    rows = {
        f"planted_{number}": {"train_test": error, "top1acc_in1k_official": 100 - error + 2 + rng.normal(0, 0.3)}
        for number, error in enumerate(errors)
    }
    found = study(table_of(rows))
    mean = next(one for one in found.estimates if one.method == "paired t-test")
    assert mean.ci_low is not None and mean.ci_high is not None and mean.ci_low < 2 < mean.ci_high
    assert claim(found, "Mean of published minus measured accuracy, full-shot").verdict == "not reproducible"
    assert claim(found, "Mean of published minus measured accuracy, 5-shot").ours == "not available"
    assert claim(found, "The difference is not significant, 5-shot").verdict == "not reproducible"
    with style():
        assert found.figures[0].draw().axes


@pytest.mark.parametrize("corrected", [False, True])
def test_used_and_left_out_are_all_encoders_of_the_table(corrected: bool) -> None:
    table = shipped_table(corrected=corrected)
    found = shipped_findings("do_accuracies_agree", corrected=corrected)
    assert {rows.used + sum(rows.left_out.values()) for rows in found.rows} == {len(table)}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_handful_of_encoders_is_refused_in_one_sentence(n: int) -> None:
    table = shipped_table()
    with pytest.raises(QueryError, match=rf"^The table has {n} encoders?, expected at least 5 to compare"):
        study(table.only(table.frame.index[:n], because="test"))
