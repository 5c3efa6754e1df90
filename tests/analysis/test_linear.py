"""Global linear analysis: a planted effect behind a confounder, the published numbers, and what cannot be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_table
from zoo.analysis.linear import global_linear_effect
from zoo.analysis.table import StudyTable, build_table
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED

pytestmark = pytest.mark.filterwarnings("error")
PUBLISHED = shipped_table()
EFFECT = -2.0  # planted, percentage points per unit of log(epochs)
SAME = {
    "pretraining_data": "ImageNet-1K",
    "ssl_mode": "contrastive",
    "n_augmentations": 6.0,
    "nviews": 2.0,
    "n_parameters": 2e7,
    "family": "resnet",
    "z_dim": 2048.0,
    "patch_size": 7.0,
    "is_industry": True,
    "is_official": False,
    "projection1_arch": "mlp",
    "projection2_arch": "mlp",
}


def rows(n: int = 120, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Longer training helps, but larger batches hurt more and go along with longer training; ViTs help by 5."""
    random = np.random.default_rng(seed)
    found = {}
    for place in range(n):
        epochs = float(np.exp(random.uniform(3.0, 7.0)))
        batch_size = 4.0 * epochs * float(np.exp(random.normal(0.0, 0.5)))
        family = "vit" if place % 3 else "resnet"
        error = 20.0 + EFFECT * np.log(epochs) + 3.0 * np.log(batch_size) - 5.0 * (family == "vit")
        found[f"e{place}"] = SAME | {
            "epochs": epochs,
            "batch_size": batch_size,
            "year": 2018.0 + place % 5,
            "family": family,
            "usability": float(error + random.normal(0.0, 0.5)),
        }
    return found


def planted(**changes: Any) -> StudyTable:
    return build_table({name: cells | changes for name, cells in rows().items()})


def test_a_planted_effect_is_recovered_where_a_simple_fit_has_the_wrong_sign() -> None:
    table = planted()
    found = global_linear_effect(table, "epochs", "usability")
    estimate = found.estimate("log(epochs)")
    simple = smf.ols("usability ~ np.log(epochs)", table.frame).fit().params["np.log(epochs)"]
    assert simple > 0.5
    assert estimate.ci_low is not None and estimate.ci_high is not None
    assert estimate.ci_low < EFFECT < estimate.ci_high < EFFECT + 0.5
    assert estimate.unit == "percentage points per unit of log(epochs)"
    assert (estimate.method, estimate.outcome, estimate.n) == ("global linear", "usability", 120)
    assert global_linear_effect(table, "family", "usability", levels=("resnet", "vit")).estimates[0].value == (
        pytest.approx(-5.0, abs=0.3)
    )


def test_a_treatment_that_coincides_with_a_control_is_not_identified() -> None:
    table = build_table(
        {
            name: cells | {"ssl_mode": "generative" if cells["family"] == "vit" else "contrastive"}
            for name, cells in rows().items()
        }
    )
    (estimate,) = global_linear_effect(table, "ssl_mode", "usability").estimates
    assert (estimate.value, estimate.p, estimate.ci_low) == (None, None, None)
    assert estimate.note == "not identified: coincides with family[vit]"
    assert global_linear_effect(table, "epochs", "usability").estimates[0].value == pytest.approx(EFFECT, abs=0.3)


def test_a_fit_equals_that_of_statsmodels_formulas_on_the_published_rows() -> None:
    found = global_linear_effect(PUBLISHED, "z_dim", "probe_gen")
    frame = PUBLISHED.frame.assign(
        projector=lambda one: one["projection2_arch"].fillna(one["projection1_arch"]).fillna("none"),
        industry=lambda one: one["is_industry"].astype(float),
        official=lambda one: one["is_official"].astype(float),
        # one of the two columns that coincide: the model is the same, of full rank
        mode=lambda one: one["ssl_mode"].replace("generative", "clustering"),
    )
    formula = (
        "probe_gen ~ C(pretraining_data) + C(mode) + np.log(epochs) + np.log(batch_size) + np.log(nviews)"
        " + n_augmentations + C(projector) + np.log(n_parameters) + C(family) + patch_size + year + industry + official"
        " + np.log(z_dim)"
    )
    theirs = smf.ols(formula, frame).fit()
    estimate, name = found.estimate("log(z_dim)"), "np.log(z_dim)"
    assert (estimate.value, estimate.p) == pytest.approx((theirs.params[name], theirs.pvalues[name]), rel=1e-5)
    assert found.fit.residual_df == theirs.df_resid
    assert found.fit.r_squared == pytest.approx(theirs.rsquared)
    # statsmodels has no HC3 where a row has a column of its own, as the only encoder of some data has
    shared = frame.groupby("pretraining_data")["probe_gen"].transform("size") > 1
    robust = smf.ols(formula, frame[shared]).fit().get_robustcov_results("HC3", use_t=True)
    assert (~shared).sum() == 2
    assert estimate.p_robust == pytest.approx(robust.pvalues[theirs.model.exog_names.index(name) - 2], rel=1e-4)


def test_rows_are_left_out_with_their_reasons() -> None:
    cells = rows()
    cells["e0"] |= {"usability": NOT_PUBLISHED}
    cells["e1"] |= {"projection1_arch": NOT_APPLICABLE, "projection2_arch": NOT_APPLICABLE}
    cells["e2"] |= {"projection1_arch": NOT_PUBLISHED, "projection2_arch": NOT_PUBLISHED}
    cells["e3"] |= {"projection2_arch": NOT_APPLICABLE, "family": "convnext"}
    table = build_table(cells)
    found = global_linear_effect(table, "epochs", "usability")
    assert (found.used, found.left_out) == (118, {"usability not published": 1, "projector not published": 1})
    assert "projector[none]" in found.fit.design  # no projector is a level, an unknown one is not
    vit = global_linear_effect(table, "family", "usability", levels=("resnet", "vit"))
    assert (vit.used, vit.left_out["family is neither resnet nor vit"]) == (117, 1)
