"""Global linear analysis: a planted effect behind a confounder, the published numbers, and what cannot be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_table, study_module
from zoo.analysis.linear import CONTROLS, TIED, LinearEffect, global_linear_effect
from zoo.analysis.table import StudyTable, table_of
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import agrees_with

artefacts = study_module("what_choices_change_on_average", "artefacts")

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
    return table_of({name: cells | changes for name, cells in rows().items()})


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


def test_controls_that_never_vary_are_left_out() -> None:
    found = global_linear_effect(planted(), "epochs", "usability")
    assert found.controls == ("batch_size", "family", "year")
    assert (found.fit.n_columns, found.fit.rank, found.left_out) == (5, 5, {})


def test_a_treatment_that_coincides_with_a_control_is_not_identified() -> None:
    table = table_of(
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


PRINTED = [  # treatment, outcome, term, what is printed (p, coefficient, standard error), how; Dubois et al. 2023
    ("family", "probe_gen", "family[vit]", {"p": "9e-8"}, {"levels": ("resnet", "vit")}),  # 5.3.3
    ("n_parameters", "approx", "log(n_parameters)", {"p": "4e-17"}, {}),  # 5.3.3
    ("train_rank", "usability", "log(train_rank)", {"p": "6e-8"}, {}),  # Figure 19b
    ("n_augmentations", "usability", "log(n_augmentations)", {"p": "4e-2", "value": "-5.3"}, {}),  # D.2
    ("projection2_arch", "usability", "projection2_arch[mlp]", {"p": "1e-3", "value": "-8.6", "se": "2.6"}, {}),  # D.3
    ("projection_nparameters_hidden", "usability", "log(projection_nparameters_hidden)",
     {"p": "2e-2", "value": "-0.68", "se": "0.28"}, {}),  # D.3
    ("projection2_arch", "train_rank", "projection2_arch[linear]", {"p": "3e-9"}, {}),  # D.3
    ("ssl_mode", "usability", "ssl_mode[transform]", {"p": "1e-2"}, {}),  # D.4
]  # fmt: skip


@pytest.mark.parametrize(("treatment", "outcome", "term", "printed", "how"), PRINTED)
def test_the_printed_numbers_come_out(
    treatment: str, outcome: str, term: str, printed: dict[str, str], how: dict[str, Any]
) -> None:
    found = global_linear_effect(PUBLISHED, treatment, outcome, **how)
    estimate = found.estimate(term)
    ours = {"p": estimate.p, "value": estimate.value, "se": found.standard_error(term)}
    for what, number in printed.items():
        value = ours[what]
        assert value is not None and agrees_with(number, value), (what, number, value)


@pytest.mark.parametrize(
    ("treatment", "outcome", "value", "p", "n"),
    [  # recomputed with the formula interface of statsmodels 0.15 on the published table
        ("z_dim", "usability", -4.0376, 6.65e-4, 146),  # printed as p < 1e-9
        ("z_dim", "probe_gen", 3.4441, 1.39e-9, 169),  # printed as p < 1e-9
        ("n_parameters", "usability", -0.7903, 0.306, 146),  # printed as 4e-17, which is that of approximation
        ("batch_size", "usability", -0.8681, 0.0872, 146),  # said not to be significant
    ],
)
def test_other_numbers_are_those_of_the_formula_interface(
    treatment: str, outcome: str, value: float, p: float, n: int
) -> None:
    (estimate,) = global_linear_effect(PUBLISHED, treatment, outcome).estimates
    assert (estimate.value, estimate.p) == pytest.approx((value, p), rel=4e-3)
    assert estimate.n == n


def test_a_linear_projector_goes_along_with_lower_effective_dimensionality() -> None:
    found = global_linear_effect(PUBLISHED, "projection2_arch", "train_rank")
    estimate = found.estimate("projection2_arch[linear]")
    assert estimate.value == pytest.approx(-1077, abs=1)  # the paper says it improves
    assert estimate.unit == "dimensions linear against identity"
    assert found.test is not None and found.test.p is not None and found.test.p < 1e-6


def test_generative_objectives_are_not_identified_on_the_published_rows() -> None:
    found = global_linear_effect(PUBLISHED, "ssl_mode", "usability")
    estimate = found.estimate(artefacts.GENERATIVE)
    assert (estimate.value, estimate.p, estimate.p_robust) == (None, None, None)
    assert estimate.note == "not identified: coincides with projector[none]"
    assert (found.fit.rank, found.fit.n_columns) == (25, 26)
    assert set(found.fit.not_identified) == {artefacts.GENERATIVE, "projector[none]"}


def test_the_printed_p_values_of_generative_objectives_are_those_of_a_pseudo_inverse() -> None:
    found = list(artefacts.generative_artefacts(PUBLISHED).values())
    assert [one.p for one in found] == pytest.approx([1.765e-4, 3.131e-4, 2.01e-6, 1.18e-5, 0.553], rel=0.01)
    assert agrees_with("3e-4", found[1].p or 0.0)  # Section 5.3.4; Appendix D.4 prints 1e-4
    assert (found[0].value or 0.0) > 500.0  # a thousand percentage points, which no error can have
    assert all("artefact" in one.note for one in found)


def test_a_missing_projector_that_counts_as_none_makes_generative_objectives_identified_and_not_significant() -> None:
    merged = PUBLISHED.frame.assign(
        projection1_arch=lambda one: one["projection1_arch"].fillna("identity"),
        projection2_arch=lambda one: one["projection2_arch"].fillna(one["projection1_arch"]),
    )
    known = PUBLISHED.why_missing.assign(projection1_arch="", projection2_arch="")
    table = StudyTable(merged, known, False, (), {})
    estimate = global_linear_effect(table, "ssl_mode", "usability").estimate(artefacts.GENERATIVE)
    assert estimate.p == pytest.approx(0.553, abs=1e-3)
    assert artefacts.generative_artefacts(table) == {}


def test_a_pseudo_inverse_says_the_same_of_what_is_identified() -> None:
    found = global_linear_effect(PUBLISHED, "ssl_mode", "usability")
    transform = found.estimate("ssl_mode[transform]")
    for shifts in ({}, {"year": 2000.0}):
        same = artefacts.pseudo_inverse(found.fit, "ssl_mode[transform]", shifts=shifts)
        assert (same.value, same.p, same.ci_low) == pytest.approx((transform.value, transform.p, transform.ci_low))
        assert same.note == ""


def terms_of(found: LinearEffect) -> set[str]:
    return {str(term).partition("[")[0].removeprefix("log(").removesuffix(")") for term in found.fit.design}


def test_controls_that_a_treatment_is_made_of_are_left_out() -> None:
    architecture = terms_of(global_linear_effect(PUBLISHED, "architecture", "probe_gen"))
    assert architecture.isdisjoint({"n_parameters", "family", "z_dim", "patch_size"})
    objective = terms_of(global_linear_effect(PUBLISHED, "objective", "probe_gen"))
    assert "objective" in objective and "ssl_mode" not in objective
    assert "z_dim" not in terms_of(global_linear_effect(PUBLISHED, "train_rank", "usability"))
    assert {"n_parameters", "family"} <= terms_of(global_linear_effect(PUBLISHED, "z_dim", "usability"))
    assert {name for tied in TIED.values() for name in tied} <= set(CONTROLS)


def test_rows_are_left_out_with_their_reasons() -> None:
    cells = rows()
    cells["e0"] |= {"usability": NOT_PUBLISHED}
    cells["e1"] |= {"projection1_arch": NOT_APPLICABLE, "projection2_arch": NOT_APPLICABLE}
    cells["e2"] |= {"projection1_arch": NOT_PUBLISHED, "projection2_arch": NOT_PUBLISHED}
    cells["e3"] |= {"projection2_arch": NOT_APPLICABLE, "family": "convnext"}
    table = table_of(cells)
    found = global_linear_effect(table, "epochs", "usability")
    assert (found.used, found.left_out) == (118, {"usability not published": 1, "projector not published": 1})
    assert "projector[none]" in found.fit.design  # no projector is a level, an unknown one is not
    vit = global_linear_effect(table, "family", "usability", levels=("resnet", "vit"))
    assert (vit.used, vit.left_out["family is neither resnet nor vit"]) == (117, 1)


def test_numbers_enter_as_logarithms_but_for_dates() -> None:
    assert [one.term for one in global_linear_effect(planted(), "year", "usability").estimates] == ["year"]
    assert [one.term for one in global_linear_effect(planted(), "epochs", "usability", log=False).estimates] == [
        "epochs"
    ]


def test_truth_values_and_errors_in_percent_have_their_units() -> None:
    cells = {
        name: one | {"is_official": int(name[1:]) % 2 == 0, "train_test": 30.0 + int(name[1:]) % 7}
        for name, one in rows().items()
    }
    (estimate,) = global_linear_effect(table_of(cells), "is_official", "train_test").estimates
    assert (estimate.term, estimate.unit) == ("is_official", "percentage points true against false")


@pytest.mark.parametrize(
    ("treatment", "outcome", "how", "message"),
    [
        ("z_dim", "usability", {}, "z_dim never varies among the 120 encoders .* it is always 2048"),
        ("family", "usability", {"levels": ("resnet", "convnext")}, "family is never convnext .*expected resnet and"),
        ("ssl_mode", "usability", {}, "ssl_mode never varies .*it is always contrastive"),
        ("epochs", "epochs", {}, "expected another column of numbers"),
        ("epochs", "family", {}, "expected another column of numbers"),
        (
            "epochs",
            "probe_gen",
            {},
            "None of the 120 encoders of the table has probe_gen, epochs .*probe_gen is missing most often, for 120",
        ),
    ],
)
def test_a_treatment_that_cannot_be_judged_is_refused(
    treatment: str, outcome: str, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        global_linear_effect(planted(), treatment, outcome, **how)


def test_a_control_that_nobody_has_is_named() -> None:
    cells = {
        encoder: {name: cell for name, cell in own.items() if name != "batch_size"} for encoder, own in rows().items()
    }
    del cells["e0"]["epochs"]
    with pytest.raises(
        QueryError, match=r"batch_size is missing most often, for 120 of them; .*leave that control out"
    ):
        global_linear_effect(table_of(cells), "z_dim", "usability")


def test_too_few_rows_are_refused() -> None:
    few = table_of(dict(list(rows().items())[:5]))
    with pytest.raises(QueryError, match="Only 5 encoders have usability, epochs and every control"):
        global_linear_effect(few, "epochs", "usability")


def test_a_number_without_a_logarithm_is_refused() -> None:
    cells = rows()
    cells["e0"] |= {"epochs": 0.0}
    with pytest.raises(QueryError, match="epochs is 0 for an encoder and has no logarithm"):
        global_linear_effect(table_of(cells), "epochs", "usability")


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        (("epoch", "usability"), {}),
        (("epochs", "usable"), {}),
        (("epochs", "usability"), {"without": ("zdim",)}),
        (("epochs", "usability"), {"references": {"zdim": "a"}}),
        (("epochs", "usability"), {"projectors": ("p",)}),
    ],
)
def test_an_unknown_name_is_refused(arguments: tuple[str, str], how: dict[str, Any]) -> None:
    with pytest.raises(UnknownName):
        global_linear_effect(planted(), *arguments, **how)
    with pytest.raises(UnknownName, match="term of epochs"):
        global_linear_effect(planted(), "epochs", "usability").estimate("epochs")
