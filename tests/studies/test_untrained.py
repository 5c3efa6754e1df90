"""The study of untrained encoders: the tradeoff with and without the one at chance, and what is arithmetic about it."""

from __future__ import annotations

import pytest

from tests.each import for_each
from tests.shipped import shipped_findings
from zoo.analysis.columns import Estimate
from zoo.analysis.table import build_table
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions, find_study, load_study

STUDY = load_study(find_study("do_untrained_encoders_trade_off"))


def study(*, corrected: bool = False) -> Findings:
    return shipped_findings("do_untrained_encoders_trade_off", corrected=corrected)


@pytest.fixture(scope="module")
def findings() -> Findings:
    return study()


def estimate(findings: Findings, term: str, unit: str, outcome: str = "usability with") -> Estimate:
    (found,) = [one for one in findings.estimates if one.term == term and one.unit == unit and outcome in one.outcome]
    return found


@for_each(
    [("untrained encoders", -0.847, -0.626, 14), ("untrained encoders above chance", -0.848, -0.564, 13)], arguments=4
)
def test_the_coefficients_are_those_of_the_raw_risks(
    term: str, r: float, tau: float, n: int, findings: Findings
) -> None:
    pearson, kendall = estimate(findings, term, "r"), estimate(findings, term, "tau")
    assert (pearson.value, kendall.value) == pytest.approx((r, tau), abs=1e-3)
    assert pearson.n == kendall.n == n
    for one in (pearson, kendall):
        assert one.ci_low is not None and one.ci_high is not None
        assert one.ci_low < one.value < one.ci_high < 0  # type: ignore[operator]


def test_the_encoders_come_from_the_untrained_population_whatever_the_table_holds() -> None:
    one = STUDY(build_table({"planted": {"train_test": 20.0}}), StudyOptions())
    assert one.estimates == study().estimates
    ids = [row[0] for row in one.tables[1].rows]
    assert len(ids) == 14 and all(name.startswith("init_") for name in ids)
