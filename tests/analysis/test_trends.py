"""Risks by year: of the best, on average, and who carries a change."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.shipped import study_module
from zoo.analysis.table import StudyTable, in_groups, require_encoders, table_of, those
from zoo.errors import QueryError

years = study_module("where_the_risk_lies", "years")

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


def test_the_best_of_each_year_has_the_lowest_error_and_says_of_how_many() -> None:
    best = years.risks_of_best_by_year(planted())
    assert {year: (risks.encoder, risks.n) for year, risks in best.items()} == {
        2016: ("old", 1),
        2019: ("good", 2),
        2021: ("bare", 1),
    }
    assert years.known(best[2019], "usability") == 6.0


def test_a_risk_that_nobody_measured_stays_missing_with_what_is_known_of_it() -> None:
    risks = years.risks_of_best_by_year(planted())[2021]
    assert risks.parts["usability"].value is None
    assert risks.parts["usability"].note == "usability of bare: not published"
    assert risks.known_sum == 2.5
    assert years.mean_risks_by_year(planted())[2021].parts["usability"].value is None
    with pytest.raises(QueryError, match=r"^2021 has no usability"):
        years.known(risks, "usability")


def test_averages_have_the_interval_of_students_t() -> None:
    mean = years.mean_risks_by_year(planted())[2019].parts["usability"]
    low, high = stats.t.interval(0.95, 1, loc=13.0, scale=stats.sem([6.0, 20.0]))
    assert (mean.value, mean.n) == (13.0, 2)
    assert (mean.ci_low, mean.ci_high) == (pytest.approx(low), pytest.approx(high))
    assert years.mean_risks_by_year(planted())[2016].parts["usability"].ci_low is None


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


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (2016, 2021, "^No encoder of 2021 has usability"),
        (2019, 2016, "^The average usability did not fall from 2019 to 2016"),
    ],
)
def test_a_fall_that_is_not_there_is_carried_by_nobody(first: int, last: int, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        years.carried_by(planted(), "usability", "family", first=first, last=last)


def test_the_slope_over_years_is_the_planted_one() -> None:
    table = table_of({f"e{i}": {"year": 2010 + i, "enc_gen": 5 - 0.25 * i + 0.01 * (-1) ** i} for i in range(10)})
    slope = years.slope_over_years(table, "enc_gen")
    assert slope.value == pytest.approx(-0.25, abs=0.005)
    assert slope.ci_low is not None and slope.ci_high is not None and slope.ci_low < -0.25 < slope.ci_high < -0.24
    assert slope.unit == "percentage points per year"


def test_a_rise_and_fall_is_a_difference_between_years_and_no_trend() -> None:
    middle = {2018: 4.0, 2019: 2.0, 2020: 4.0}
    table = table_of(
        {
            f"e{i}-{year}": {"year": year, "enc_gen": mean + 0.2 * ((i * 7 + year) % 5)}
            for year, mean in middle.items()
            for i in range(10)
        }
        | {"alone": {"year": 2016, "enc_gen": 40.0}}
    )
    anova, ranks = years.years_differ(table, "enc_gen")
    slope = years.slope_over_years(table.only(table.frame.index.drop("alone"), because="test"), "enc_gen")
    assert slope.ci_low is not None and slope.ci_high is not None and slope.ci_low < 0 < slope.ci_high
    groups = [table.frame.loc[table.frame["year"] == year, "enc_gen"] for year in middle]
    assert (anova.value, anova.p) == pytest.approx(stats.f_oneway(*groups))
    assert (ranks.value, ranks.p) == pytest.approx(stats.kruskal(*groups))
    assert anova.n == ranks.n == 30  # a year of one encoder says nothing of years


def test_a_population_is_chosen_and_counted() -> None:
    assert list(those(planted(), "family", "resnet").frame.index) == ["old", "good"]
    assert in_groups(planted(), "family", len) == {"resnet": 2, "vit": 2}
    with pytest.raises(QueryError, match=r"^No encoder of the table has the family convnext"):
        those(planted(), "family", "convnext")
    require_encoders(planted())
    with pytest.raises(QueryError, match=r"^The table has 5 encoders, expected at least 6 to compare"):
        require_encoders(planted(), fewest=6)


def test_a_mean_difference_is_paired() -> None:
    found = years.mean_difference(planted(), "probe_gen", "usability")
    expected = stats.ttest_rel([15.0, 20.0, 20.0], [40.0, 6.0, 20.0])
    assert (found.value, found.n) == (pytest.approx(-11 / 3), 3)
    assert found.p == pytest.approx(expected.pvalue)
    with pytest.raises(QueryError, match=r"expected at least 2"):
        years.mean_difference(planted().only(["old"], because="test"), "probe_gen", "usability")
