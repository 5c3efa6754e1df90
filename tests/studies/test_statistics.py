"""The study of feature statistics: Eq. 26 to three digits, what five encoders do to it, and a planted confounder."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_findings, shipped_table
from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, load_study, study_named

STUDY = load_study(study_named("do_statistics_predict"))
FORMULA = "train_test ~ np.log(train_rank) + train_uniformity + trainrealaug_alignment"


def study(table: StudyTable) -> Findings:
    found = STUDY(table, StudyOptions())
    assert isinstance(found, Findings)
    return found


def claim(findings: Findings, words: str) -> Claim:
    (found,) = [one for one in findings.claims if words in one.claim]
    return found


def estimate(findings: Findings, method: str, term: str) -> Estimate:
    (found,) = [one for one in findings.estimates if (one.method, one.term) == (method, term)]
    return found


def planted(n: int, *, seed: int = 0, error: float = 1.0, of_uniformity: float = 0.0) -> StudyTable:
    """Error = 90 - 8 log(rank) + of_uniformity * uniformity; uniformity falls with the logarithm of the rank."""
    rng = np.random.default_rng(seed)
    rows = {}
    for number in range(n):
        log_rank = rng.uniform(4, 7)
        uniformity = -0.5 * log_rank + 0.3 * rng.standard_normal()
        rows[f"planted_{number}"] = {
            "architecture_exact": "resnet50",
            "ssl_mode": "siamese",
            "train_rank": math.exp(log_rank),
            "train_uniformity": uniformity,
            "trainrealaug_alignment": rng.uniform(0.1, 0.5),
            "train_alignment": rng.uniform(0.5, 1.5),
            "train_test": 90 - 8 * log_rank + of_uniformity * uniformity + error * rng.standard_normal(),
        }
    return table_of(rows)


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("do_statistics_predict")


def test_equation_26_is_that_of_a_formula_on_the_same_rows(published: Findings) -> None:
    frame = shipped_table().frame
    rows = frame[frame["architecture_exact"] == "resnet50"].dropna(
        subset=["train_test", "train_rank", "train_uniformity", "trainrealaug_alignment"]
    )
    assert len(rows) == published.rows[0].used == 70
    theirs = smf.ols(FORMULA, rows).fit()
    robust = theirs.get_robustcov_results("HC3", use_t=True)
    for position, (term, name) in enumerate(
        zip(
            ("constant", "log(train_rank)", "train_uniformity", "trainrealaug_alignment"),
            theirs.params.index,
            strict=True,
        )
    ):
        ours = estimate(published, "Eq. 26", term)
        assert ours.value == pytest.approx(theirs.params[name], rel=1e-6)
        assert ours.p == pytest.approx(theirs.pvalues[name], rel=1e-4)
        assert ours.p_robust == pytest.approx(robust.pvalues[position], rel=1e-4)


@pytest.mark.parametrize(
    ("term", "value"),  # Eq. 26 to three digits, with a statsmodels formula on the 70 published rows
    [("constant", 93.3), ("log(train_rank)", -9.50), ("train_uniformity", -0.507), ("trainrealaug_alignment", 4.40)],
)
def test_equation_26_comes_out_to_three_digits(published: Findings, term: str, value: float) -> None:
    ours = estimate(published, "Eq. 26", term).value
    assert ours is not None and float(f"{ours:.3g}") == value


@pytest.mark.parametrize(
    ("words", "printed"),  # Appendix F.6
    [
        ("Coefficient of constant", "93"),
        ("Coefficient of log(effective dimensionality)", "-9.5"),
        ("Coefficient of uniformity in", "-0.51"),
        ("Coefficient of alignment in", "4.4"),
        ("R2 of Eq. 26", "0.58"),
        ("p-value of log(effective", "4e-11"),
        ("p-value of uniformity in", "0.74"),
        ("p-value of alignment in", "0.59"),
        ("three times", "10"),
        ("Coefficient of uniformity without", "6"),
        ("p-value of uniformity without", "0.001"),
        ("R2 without", "0.19"),
        ("Coefficient of alignment within", "40.7"),
        ("p-value of alignment within", "6e-7"),
    ],
)
def test_every_number_of_the_appendix_comes_out(published: Findings, words: str, printed: str) -> None:
    found = claim(published, words)
    assert (found.paper, found.verdict) == (printed, "agrees")


def test_alignment_within_a_class_goes_the_other_way_alone_on_the_same_rows(published: Findings) -> None:
    found = claim(published, "within a class is highly")
    assert (found.verdict, found.value) == ("corrected", pytest.approx(-0.316, abs=5e-3))
    assert found.reason.endswith("lie farther apart go with less error on the same rows")


@pytest.mark.parametrize("corrected", [False, True])
def test_used_and_left_out_are_all_encoders_of_the_table(corrected: bool) -> None:
    table = shipped_table(corrected=corrected)
    found = shipped_findings("do_statistics_predict", corrected=corrected)
    assert {rows.used + sum(rows.left_out.values()) for rows in found.rows} == {len(table)}
    assert all(rows.left_out["not a ResNet-50"] == 92 for rows in found.rows)


def test_a_planted_slope_is_recovered_and_its_correlate_is_not_blamed() -> None:
    found = study(planted(60))
    slope, uniformity = (estimate(found, "Eq. 26", term) for term in ("log(train_rank)", "train_uniformity"))
    assert slope.ci_low is not None and slope.ci_high is not None and slope.ci_low < -8 < slope.ci_high
    assert uniformity.p is not None and uniformity.p > 0.05
    alone = next(
        one for one in found.estimates if (one.term, one.outcome, one.unit) == ("train_uniformity", "train_test", "r")
    )
    assert alone.p is not None and alone.p < 1e-6  # correlated with the error, by way of the rank alone
    assert claim(found, "three times").value == pytest.approx(8 * math.log(3), abs=1.0)
    assert found.rows[1].left_out == {}
    assert not any("predict a transformation" in note for note in found.notes)


def test_a_planted_effect_of_uniformity_is_found_beside_the_rank() -> None:
    found = study(planted(60, of_uniformity=5.0))
    ours = estimate(found, "Eq. 26", "train_uniformity")
    assert ours.ci_low is not None and ours.ci_high is not None and 0 < ours.ci_low < 5 < ours.ci_high
    assert claim(found, "uniformity is not predictive").verdict == "corrected"


def test_too_few_resnets_are_refused_in_one_sentence() -> None:
    with pytest.raises(QueryError, match=r"^9 ResNet-50s of the table have train_test, .*, expected at least 10"):
        study(planted(9))


def test_resnets_without_alignment_within_a_class_leave_only_its_claims_open() -> None:
    rows = planted(30).frame.drop(columns="train_alignment").to_dict("index")
    gone = [one.claim for one in study(table_of(rows)).claims if one.ours == "not available"]
    assert len(gone) == 4 and all("within a class" in words or "Normalising" in words for words in gone)


def test_an_encoder_with_some_statistics_only_counts_where_it_can(published: Findings) -> None:
    table = shipped_table()
    more = table_of({"mine": {"architecture_exact": "resnet50", "train_test": 25.0, "train_rank": 900.0}})
    sparse = replace(
        table,
        frame=pd.concat([table.frame, more.frame]),
        why_missing=pd.concat([table.why_missing, more.why_missing]),
        mine=("mine",),
    )
    found = study(sparse)
    assert found.estimates == published.estimates
    assert found.rows[0].left_out["train_uniformity not published"] == 1


def test_the_corrected_rows_lack_the_one_on_wrong_weights() -> None:
    found = shipped_findings("do_statistics_predict", corrected=True)
    assert [rows.used for rows in found.rows] == [69, 64]
    assert claim(found, "Coefficient of log(effective").verdict == "agrees"
