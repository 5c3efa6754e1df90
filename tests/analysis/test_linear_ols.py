"""Least squares: the same numbers as statsmodels where the rows fix them, and none where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from tests.each import for_each
from zoo.analysis.columns import Estimate
from zoo.analysis.linear import CONSTANT, OlsFit, adjust_discovery_rates, build_design, compute_factor_test, fit_ols

pytestmark = pytest.mark.filterwarnings("error")
FORMULA = "y ~ np.log(size) + year + flag + C(kind, Treatment('mlp'))"
NAMES = {  # ours -> statsmodels'
    CONSTANT: "Intercept",
    "log(size)": "np.log(size)",
    "year": "year",
    "flag": "flag",
    "kind[identity]": "C(kind, Treatment('mlp'))[T.identity]",
    "kind[linear]": "C(kind, Treatment('mlp'))[T.linear]",
}


def planted(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Errors fall by 3 points per unit of log size, and rise by 2 for linear kinds."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": 2.0 ** random.integers(5, 12, n),
            "year": 2016.0 + random.integers(0, 7, n),
            "flag": (random.random(n) > 0.5).astype(float),
            "kind": random.choice(["identity", "linear", "mlp"], n),
        }
    )
    frame["y"] = 40.0 - 3.0 * np.log(frame["size"]) + 2.0 * (frame["kind"] == "linear") + random.normal(0.0, 1.0, n)
    return frame


def fitted(frame: pd.DataFrame, *, more: dict[str, Any] | None = None, **arguments: Any) -> OlsFit:
    design = build_design(
        frame, numeric=["year"], log=["size"], categorical=["kind"], boolean=["flag"], references={"kind": "mlp"}
    )
    matrix = design.matrix.assign(**(more or {}))
    return fit_ols(matrix, frame["y"], outcome_name="y", unit="points", method="test", **arguments)


def test_a_fit_equals_that_of_statsmodels_formulas() -> None:
    frame = planted()
    ours, theirs = fitted(frame), smf.ols(FORMULA, frame).fit()
    intervals = theirs.conf_int()
    for estimate in ours.estimates:
        name = NAMES[estimate.term]
        found = (estimate.value, estimate.ci_low, estimate.ci_high, estimate.p)
        assert found == pytest.approx((theirs.params[name], *intervals.loc[name], theirs.pvalues[name]), rel=1e-6)
        assert (estimate.n, estimate.unit, estimate.method, estimate.note) == (60, "points", "test", "")
    assert (ours.n, ours.n_columns, ours.rank, ours.residual_df) == (60, 6, 6, 54)
    assert ours.r_squared == pytest.approx(theirs.rsquared)
    assert ours.not_identified == ()


def test_robust_intervals_are_hc3_of_statsmodels() -> None:
    frame = planted()
    theirs = smf.ols(FORMULA, frame).fit().get_robustcov_results("HC3", use_t=True)
    named = dict(zip(theirs.model.exog_names, zip(theirs.conf_int(), theirs.pvalues, strict=True), strict=True))
    for estimate in fitted(frame).estimates:
        interval, p = named[NAMES[estimate.term]]
        assert (estimate.ci_low_robust, estimate.ci_high_robust) == pytest.approx(tuple(interval), rel=1e-6)
        assert estimate.p_robust == pytest.approx(p, rel=1e-6)


def test_a_collinear_column_is_named_and_has_no_p_value() -> None:
    frame = planted()
    plain = fitted(frame)
    fit = fitted(frame, more={"copy": (frame["kind"] == "linear") * 5.0})
    for term, other in (("copy", "kind[linear]"), ("kind[linear]", "copy")):
        estimate = fit.estimate(term)
        assert estimate.note == f"not identified: coincides with {other}"
        assert {estimate.value, estimate.p, estimate.ci_low, estimate.ci_high_robust} == {None}
    assert set(fit.not_identified) == {"copy", "kind[linear]"}
    assert (fit.rank, fit.n_columns, fit.residual_df) == (6, 7, 54)
    for term in ("log(size)", "year", "flag", "kind[identity]"):
        assert fit.estimate(term).value == pytest.approx(plain.estimate(term).value)
        assert fit.estimate(term).p == pytest.approx(plain.estimate(term).p)
        assert fit.estimate(term).p_robust == pytest.approx(plain.estimate(term).p_robust)


def test_a_row_with_a_column_of_its_own_leaves_the_robust_errors_of_the_others_alone() -> None:
    frame = planted()
    frame.loc[0, "kind"] = "lonely"
    fit = fitted(frame)
    lonely = fit.estimate("kind[lonely]")
    assert lonely.p is not None and lonely.p_robust is None and lonely.ci_low_robust is None
    assert "HC3" in lonely.note
    rest = fitted(frame.drop(index=0))
    for estimate in rest.estimates:
        same = fit.estimate(estimate.term)
        assert same.note == ""
        assert (same.value, same.p, same.p_robust) == pytest.approx((estimate.value, estimate.p, estimate.p_robust))
    assert fit.residual_df == rest.residual_df


@for_each([0.0, 2.5])
def test_an_exact_fit_has_no_p_value(noise: float) -> None:
    frame = planted().assign(y=lambda one: 3.0 + noise * one["flag"])
    fit = fitted(frame)
    assert fit.estimate("flag").value == pytest.approx(noise, abs=1e-9)
    assert fit.estimate("flag").p is None and "exactly" in fit.estimate("flag").note
    assert np.isnan(fit.r_squared) == (noise == 0.0)
    assert compute_factor_test(fit, ["kind[linear]", "kind[identity]"], name="kind").p is None


def test_the_test_of_a_factor_is_that_of_an_analysis_of_variance() -> None:
    frame = planted()
    ours = compute_factor_test(fitted(frame), ["kind[identity]", "kind[linear]"], name="kind")
    theirs = anova_lm(
        smf.ols(FORMULA.replace(" + C(kind, Treatment('mlp'))", ""), frame).fit(), smf.ols(FORMULA, frame).fit()
    )
    assert (ours.value, ours.p) == pytest.approx((theirs["F"].iloc[1], theirs["Pr(>F)"].iloc[1]))
    assert ours.unit == "F statistic, 2 and 54 degrees of freedom"
    assert (ours.term, ours.outcome, ours.n) == ("kind", "y", 60)


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg() -> None:
    p = [0.01, None, 0.04, 0.03, 0.5]
    estimates = [Estimate(term=str(place), value=1.0, n=9, unit="", p=one) for place, one in enumerate(p)]
    found = adjust_discovery_rates(estimates, family="four tests")
    # by hand: the k-th smallest of 4 times 4 / k, and no larger than what follows it
    assert [one.p_adjusted for one in found] == pytest.approx([0.04, None, 0.16 / 3, 0.16 / 3, 0.5])
    tested = [one for one in p if one is not None]
    rates = [one.p_adjusted for one in found if one.p_adjusted is not None]
    assert rates == pytest.approx(list(multipletests(tested, method="fdr_bh")[1]))
    assert [one.family for one in found] == ["four tests", "", "four tests", "four tests", "four tests"]
    assert adjust_discovery_rates([], family="none") == []
