"""Risks by year: of the best, on average, and who carries a change."""

from __future__ import annotations

import pytest

from tests.shipped import study_module
from zoo.analysis.table import StudyTable, table_of
from zoo.errors import QueryError

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


def planted() -> StudyTable:
    return table_of(ROWS)


def test_a_risk_that_nobody_measured_stays_missing_with_what_is_known_of_it() -> None:
    risks = years.risks_of_best_by_year(planted())[2021]
    assert risks.parts["usability"].value is None
    assert risks.parts["usability"].note == "usability of bare: not published"
    assert risks.known_sum == 2.5
    assert years.mean_risks_by_year(planted())[2021].parts["usability"].value is None
    with pytest.raises(QueryError, match=r"^2021 has no usability"):
        years.known(risks, "usability")


def test_changes_between_years_are_later_minus_earlier() -> None:
    best = years.risks_of_best_by_year(planted())
    assert years.changes_between(best, 2016, 2019) == {
        "approx": 0.0,
        "usability": -34.0,
        "probe_gen": 5.0,
        "enc_gen": -1.0,
    }
    with pytest.raises(QueryError, match=r"^None of the encoders is of 2017"):
        years.of_year(best, 2017)


def test_the_shares_of_a_fall_add_up_and_show_who_carries_it() -> None:
    shares = years.carried_by(planted(), "usability", "family", first=2016, last=2019)
    # from 40 to the average 13 of 2019: half of 40 - 6 = 34 by the ResNet, half of 40 - 20 = 20 by the ViT
    assert [(share.term, share.n) for share in shares] == [("resnet", 1), ("vit", 1)]
    assert shares[0].value == pytest.approx(100 * 17 / 27)
    assert sum(share.value or 0.0 for share in shares) == pytest.approx(100.0)


def test_the_slope_over_years_is_the_planted_one() -> None:
    table = table_of({f"e{i}": {"year": 2010 + i, "enc_gen": 5 - 0.25 * i + 0.01 * (-1) ** i} for i in range(10)})
    slope = years.slope_over_years(table, "enc_gen")
    assert slope.value == pytest.approx(-0.25, abs=0.005)
    assert slope.ci_low is not None and slope.ci_high is not None and slope.ci_low < -0.25 < slope.ci_high < -0.24
    assert slope.unit == "percentage points per year"
