"""The study of feature statistics: Eq. 26 to three digits, what five encoders do to it, and a planted confounder."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_findings, shipped_table
from tests.studies.parts import claim, find
from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable, build_table
from zoo.studies.findings import Findings
from zoo.studies.running import find_study, load_study

study = partial(find, load_study(find_study("do_statistics_predict")))
FORMULA = "train_test ~ np.log(train_rank) + train_uniformity + trainrealaug_alignment"


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
    return build_table(rows)


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
