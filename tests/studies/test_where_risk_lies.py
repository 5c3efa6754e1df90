"""The study of where the risk lies: its claims on the published rows, on others, and on planted ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shipped import shipped_findings, study_module
from zoo.analysis.table import StudyTable, build_table
from zoo.errors import QueryError
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions, find_study, load_study

run = load_study(find_study("where_the_risk_lies"))


def findings(table: StudyTable) -> Findings:
    return run(table, StudyOptions())


def claims(found: Findings) -> dict[str, Claim]:
    return {claim.claim: claim for claim in found.claims}


@pytest.fixture(scope="module")
def published() -> Findings:
    return shipped_findings("where_the_risk_lies")


def test_the_corrected_table_leaves_out_the_best_of_2018_and_keeps_signed_components() -> None:
    found = shipped_findings("where_the_risk_lies", corrected=True)
    assert claims(found)["Usability improved steadily from 2016 to 2019"].ours == (
        "45.9 (2016, best of 1), 18.4 (2018, best of 2), -0.1 (2019, best of 9)"
    )
    assert not any("wrong weights" in note for note in found.notes)


def planted(**cells: Any) -> StudyTable:
    rows = [
        ("a", 2016, 40.0, 10.0, "vit"),
        ("b", 2019, 10.0, 30.0, "vit"),
        ("c", 2021, 5.0, 20.0, "vit"),
        ("d", 2022, 6.0, 10.0, "vit"),
        ("e", 2022, 8.0, 14.0, "vit"),
    ]
    return build_table(
        {
            name: {
                "year": year,
                "usability": usability,
                "probe_gen": probe,
                "approx": 1.0,
                "enc_gen": 2.0,
                "train_test": usability + probe + 3,
                "family": family,
                "ssl_mode": "contrastive",
                "pretraining_data": "ImageNet-1K",
                **cells,
            }
            for name, year, usability, probe, family in rows
        }
    )


def test_a_planted_history_is_told_as_it_was() -> None:
    found = claims(findings(planted()))
    assert found["Usability drove the improvements from 2016 to 2019"].ours.startswith("-30.0 points")
    assert found["Probe generalization drove the improvements since 2019"].ours.startswith("-20.0 points")
    assert found["Usability of the best of 2021"].ours.startswith("5.00")
    assert found["Usability of the best of 2021"].verdict == "not reproducible"  # neither zero nor missing


def test_one_family_is_one_sentence_in_place_of_an_answer() -> None:
    claim = claims(findings(planted()))[
        "Clustering ViTs carry most of the fall of average probe generalization since 2019 (ImageNet-1K)"
    ]
    assert claim.ours == "not available"
    assert "All 5 encoders that can be compared" in claim.reason and "family and ssl_mode" in claim.reason


def test_a_year_that_is_missing_makes_its_claims_unavailable_and_no_others() -> None:
    rows = planted().frame.to_dict("index")
    rows["f"] = {**rows["e"], "train_test": 30.0}
    found = claims(findings(build_table({name: rows[name] for name in "bcdef"})))
    assert found["Usability was the largest source of error (best of 2016)"].ours == "not available"
    assert "2016" in found["Usability was the largest source of error (best of 2016)"].reason
    assert found["Probe generalization is now the largest source of error (best of 2022)"].verdict == "agrees"


years = study_module("where_the_risk_lies")

ROWS = {
    "old": {"year": 2016, "train_test": 60.0, "approx": 1.0, "usability": 40.0, "probe_gen": 15.0, "enc_gen": 4.0,
            "family": "resnet"},
    "good": {"year": 2019, "train_test": 30.0, "approx": 1.0, "usability": 6.0, "probe_gen": 20.0, "enc_gen": 3.0,
             "family": "resnet"},
    "weak": {"year": 2019, "train_test": 45.0, "approx": 1.0, "usability": 20.0, "probe_gen": 20.0, "enc_gen": 4.0,
             "family": "vit"},
    "bare": {"year": 2021, "train_test": 20.0, "approx_plus_usability": 2.5, "probe_gen": 15.0, "enc_gen": 2.5,
             "family": "vit"},
    "undated": {"train_test": 1.0},
}  # fmt: skip


def planted_years() -> StudyTable:
    return build_table(ROWS)


def test_a_risk_that_nobody_measured_stays_missing_with_what_is_known_of_it() -> None:
    risks = years.risks_of_best_by_year(planted_years())[2021]
    assert risks.parts["usability"].value is None
    assert risks.parts["usability"].note == "usability of bare: not published"
    assert risks.known_sum == 2.5
    assert years.mean_risks_by_year(planted_years())[2021].parts["usability"].value is None
    with pytest.raises(QueryError, match=r"^2021 has no usability"):
        years.known(risks, "usability")


def test_changes_between_years_are_later_minus_earlier() -> None:
    best = years.risks_of_best_by_year(planted_years())
    assert years.changes_between(best, 2016, 2019) == {
        "approx": 0.0,
        "usability": -34.0,
        "probe_gen": 5.0,
        "enc_gen": -1.0,
    }
    with pytest.raises(QueryError, match=r"^None of the encoders is of 2017"):
        years.of_year(best, 2017)


def test_the_shares_of_a_fall_add_up_and_show_who_carries_it() -> None:
    shares = years.carried_by(planted_years(), "usability", "family", first=2016, last=2019)
    # from 40 to the average 13 of 2019: half of 40 - 6 = 34 by the ResNet, half of 40 - 20 = 20 by the ViT
    assert [(share.term, share.n) for share in shares] == [("resnet", 1), ("vit", 1)]
    assert shares[0].value == pytest.approx(100 * 17 / 27)
    assert sum(share.value or 0.0 for share in shares) == pytest.approx(100.0)


def test_the_slope_over_years_is_the_planted_one() -> None:
    table = build_table({f"e{i}": {"year": 2010 + i, "enc_gen": 5 - 0.25 * i + 0.01 * (-1) ** i} for i in range(10)})
    slope = years.slope_over_years(table, "enc_gen")
    assert slope.value == pytest.approx(-0.25, abs=0.005)
    assert slope.ci_low is not None and slope.ci_high is not None and slope.ci_low < -0.25 < slope.ci_high < -0.24
    assert slope.unit == "percentage points per year"
