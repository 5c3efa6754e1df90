"""The controlled analysis: what is grouped, what is recovered, and where the printed p-values come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_table
from zoo.analysis.columns import COMPONENTS
from zoo.analysis.controlled import CORE_COLUMNS, controlled_effect, controlled_groups
from zoo.analysis.table import StudyTable, table_of
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import agrees_with

PUBLISHED = shipped_table()
COMPLETE = PUBLISHED.only(
    PUBLISHED.frame.dropna(subset=[outcome.column for outcome in COMPONENTS]).index, because="a component is missing"
)
SLOPE = -2.5  # of the planted population, percentage points per unit of log(epochs)


def planted(*, n_groups: int = 40, noise: float = 0.5, seed: int = 0) -> StudyTable:
    """Groups of three encoders: longer training helps, but what trains long is worse to begin with.

    The level of a group rises by 6 points per unit of its log epochs, so a pooled fit finds a positive slope.
    """
    random = np.random.default_rng(seed)
    rows: dict[str, dict[str, Any]] = {}
    for group in range(n_groups):
        usual = np.exp(random.uniform(4.0, 7.0))
        level = 10.0 + 6.0 * np.log(usual)
        for member, factor in enumerate((0.5, 1.0, 2.0)):
            epochs = usual * factor
            usability = level + SLOPE * np.log(epochs) + random.normal(0.0, noise)
            rows[f"g{group}_{member}"] = {
                "objective": f"objective_{group % 7}",
                "architecture": "resnet50",
                "year": 2015 + group % 8,
                "batch_size": 100.0 + group,
                "epochs": epochs,
                "usability": usability,
            }
    return table_of(rows)


def pair(first: dict[str, Any], second: dict[str, Any]) -> StudyTable:
    """Two encoders that are alike but for these cells."""
    same = {"objective": "simclr", "architecture": "resnet50", "z_dim": 2048.0, "epochs": 100.0}
    return table_of({"a": {**same, "usability": 3.0, **first}, "b": {**same, "usability": 2.0, **second}})


def test_a_planted_effect_is_recovered_where_a_pooled_fit_has_the_wrong_sign() -> None:
    table = planted()
    estimate = controlled_effect(table, "epochs", "usability").estimate()
    pooled = smf.ols("usability ~ np.log(epochs)", table.frame).fit().params["np.log(epochs)"]
    assert pooled > 1.0
    assert estimate.value == pytest.approx(SLOPE, abs=0.25)
    assert estimate.ci_low is not None and estimate.ci_high is not None
    assert estimate.ci_low < SLOPE < estimate.ci_high < 0.0
    assert (estimate.term, estimate.outcome, estimate.method, estimate.n) == (
        "log(epochs)",
        "usability",
        "controlled",
        120,
    )
    assert estimate.unit == "percentage points per unit of log(epochs)"


def test_the_interval_holds_the_planted_effect_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(60):
        estimate = controlled_effect(planted(n_groups=8, noise=2.0, seed=seed), "epochs", "usability").estimate()
        assert estimate.ci_low is not None and estimate.ci_high is not None
        held += estimate.ci_low < SLOPE < estimate.ci_high
    assert held >= 51  # 57 of 60 are expected; fewer than 51 would come up once in 1,400 times


@pytest.mark.parametrize("outcome", ["usability", "probe_gen", "train_test"])
@pytest.mark.parametrize("as_the_paper_did", [False, True])
def test_a_fit_is_that_of_statsmodels_called_directly(outcome: str, as_the_paper_did: bool) -> None:
    found = controlled_effect(PUBLISHED, "z_dim", outcome, as_the_paper_did=as_the_paper_did)
    direct = smf.ols("y ~ C(group) + np.log(z_dim)", found.rows.rename(columns={outcome: "y"})).fit()
    estimate = found.estimate()
    assert estimate.value == pytest.approx(direct.params["np.log(z_dim)"], rel=1e-8)
    assert estimate.p == pytest.approx(direct.pvalues["np.log(z_dim)"], rel=1e-6)
    assert found.standard_error() == pytest.approx(direct.bse["np.log(z_dim)"], rel=1e-8)
    assert found.fit.residual_df == direct.df_resid


def test_levels_of_a_category_are_those_of_statsmodels_against_the_reference_that_is_asked_for() -> None:
    found = controlled_effect(PUBLISHED, "projection2_arch", "usability", reference="linear")
    term = "C(projection2_arch, Treatment('linear'))[T.mlp]"
    direct = smf.ols("usability ~ C(group) + C(projection2_arch, Treatment('linear'))", found.rows).fit()
    assert found.reference == "linear"
    assert found.estimate("mlp").value == pytest.approx(direct.params[term], rel=1e-8)
    assert found.estimate("mlp").unit == "percentage points mlp against linear"


@pytest.mark.parametrize(
    ("treatment", "level", "outcome", "coefficient", "p"),
    [  # printed in the paper: Appendix D.1, Section 5.3.3, Appendix D.3
        ("z_dim", None, "usability", "-3.9", "4e-9"),
        ("z_dim", None, "probe_gen", "3.8", "2e-9"),
        ("projection2_arch", "mlp", "usability", None, "9e-12"),
        ("projection2_arch", "mlp", "probe_gen", None, "5e-3"),
    ],
)
def test_repeated_rows_give_the_printed_numbers(
    treatment: str, level: str | None, outcome: str, coefficient: str | None, p: str
) -> None:
    estimate = controlled_effect(COMPLETE, treatment, outcome, as_the_paper_did=True).estimate(level)
    assert estimate.p is not None and estimate.value is not None
    assert agrees_with(p, estimate.p)
    assert coefficient is None or agrees_with(coefficient, estimate.value)
    assert "rows repeated" in estimate.method


def test_distinct_rows_of_dimensions_meet_the_bars() -> None:
    """Bars: coefficient in [-4.0, -3.6] and p < 1e-3, of 25 encoders in 10 groups."""
    found = controlled_effect(PUBLISHED, "z_dim", "usability")
    estimate = found.estimate()
    assert estimate.value is not None and estimate.p is not None
    assert -4.0 < estimate.value < -3.6
    assert estimate.p < 1e-3
    assert (found.n_encoders, found.n_groups, found.varied) == (25, 10, ("z_dim", "z_layer"))
    assert found.rows.index.is_unique
    assert found.n_encoders + sum(found.left_out.values()) == len(PUBLISHED)


def test_distinct_rows_of_the_projector_meet_the_bars() -> None:
    """Bars: about -12.9 with p about 6e-3 on usability, of 9 encoders; not significant on probe generalization."""
    usability = controlled_effect(PUBLISHED, "projection2_arch", "usability")
    assert usability.estimate("mlp").value == pytest.approx(-12.9, abs=0.05)
    assert usability.estimate("mlp").p == pytest.approx(6e-3, abs=5e-4)
    assert (usability.n_encoders, usability.reference) == (9, "identity")
    probe = controlled_effect(PUBLISHED, "projection2_arch", "probe_gen").estimate("mlp")
    assert probe.p is not None and probe.p > 0.05


def test_epochs_have_the_printed_coefficient_and_standard_error_and_not_the_misprinted_p() -> None:
    """Appendix D.5: -1.37 +- 0.55, and p 2e-3, where 2e-2 is meant."""
    found = controlled_effect(PUBLISHED, "epochs", "usability")
    assert agrees_with("-1.37", found.estimate().value or 0.0)
    assert agrees_with("0.55", found.standard_error())
    assert agrees_with("2e-2", found.estimate().p or 1.0)


def test_a_group_differs_in_nothing_but_the_varied_columns() -> None:
    groups = controlled_groups(PUBLISHED, ["z_dim", "z_layer"])
    fixed = [name for name in CORE_COLUMNS if name not in ("z_dim", "z_layer")]
    cells = PUBLISHED.frame.loc[groups.index, fixed].astype(object)
    cells = cells.where(cells.notna(), "missing")
    for _, members in groups.groupby("group"):
        assert (cells.loc[members.index].nunique() == 1).all()
        assert members["n_varying"].nunique() == 1
    per_group = groups.groupby("group")[["z_dim", "z_layer"]].nunique().gt(1).sum(axis=1)
    assert (groups.groupby("group")["n_varying"].first() == per_group).all()
    assert groups["n_varying"].min() == 1


def test_a_missing_cell_is_a_value_of_its_own() -> None:
    def groups(first: Any, second: Any) -> pd.DataFrame:
        return controlled_groups(
            pair({"nviews": 2.0, "finetuning_data": first}, {"nviews": 8.0, "finetuning_data": second}), "nviews"
        )

    assert len(groups(NOT_APPLICABLE, NOT_APPLICABLE)) == 2
    assert len(groups(NOT_PUBLISHED, NOT_PUBLISHED)) == 2
    assert groups(NOT_APPLICABLE, "mscoco").empty
    assert groups(NOT_APPLICABLE, NOT_PUBLISHED).empty


def test_a_choice_that_does_not_apply_is_a_level_and_an_unknown_one_is_left_out() -> None:
    cells = [("mlp", 2.0), (NOT_APPLICABLE, 5.0), ("mlp", 2.5), (NOT_APPLICABLE, 5.3), (NOT_PUBLISHED, 9.0)]
    rows = {
        f"e{place}": {"objective": f"o{min(place // 2, 1)}", "projection2_arch": cell, "usability": value}
        for place, (cell, value) in enumerate(cells)
    }
    found = controlled_effect(table_of(rows), "projection2_arch", "usability")
    assert found.estimate("not applicable").value == pytest.approx(2.9)
    assert found.reference == "mlp"
    assert found.left_out == {"projection2_arch missing": 1}


def test_groups_in_which_only_what_comes_along_varies_say_nothing_of_the_treatment() -> None:
    found = controlled_effect(PUBLISHED, "projection2_arch", "usability")
    members = PUBLISHED.frame.loc[found.rows.index, "objective"]
    assert "dissl" in set(PUBLISHED.frame.loc[controlled_groups(PUBLISHED, found.varied).index, "objective"])
    assert "dissl" not in set(members)


def test_changes_inside_groups_go_from_the_smallest_to_the_largest_value() -> None:
    changes = controlled_effect(planted(noise=0.0), "epochs", "usability").changes()
    assert len(changes) == 40
    assert changes.to_numpy() == pytest.approx(SLOPE * np.log(4.0))
    by_level = controlled_effect(PUBLISHED, "pretraining_data", "probe_gen").changes("ImageNet-1K", "ImageNet-22K")
    assert sorted(by_level.index) == ["jigsaw_rn50", "rotnet_rn50_in1k"]
    assert (by_level > 0).all()  # Figure 21


def test_a_choice_that_cannot_be_judged_is_refused_in_one_sentence() -> None:
    with pytest.raises(QueryError, match="weight_decay varies in no group of the 146 encoders with it and usability"):
        controlled_effect(PUBLISHED, "weight_decay", "usability")
    with pytest.raises(QueryError, match="has 2 encoders in 1 groups and no residual to judge it by"):
        controlled_effect(PUBLISHED, "objective", "usability")
    with pytest.raises(QueryError, match="z_dim varies in no group of the 0 encoders with it and probe_gen"):
        controlled_effect(planted(n_groups=2), "z_dim", "probe_gen")


def test_wrong_requests_are_refused_in_one_sentence() -> None:
    with pytest.raises(UnknownName, match=r"no column of the study table named 'epoch'; did you mean epochs"):
        controlled_effect(PUBLISHED, "epoch", "usability")
    with pytest.raises(UnknownName, match="usabilty"):
        controlled_effect(PUBLISHED, "epochs", "usabilty")
    with pytest.raises(UnknownName, match="layer"):
        controlled_groups(PUBLISHED, ["z_dim", "layer"])
    with pytest.raises(QueryError, match="outcome objective, which holds text; expected numbers"):
        controlled_effect(PUBLISHED, "epochs", "objective")
    with pytest.raises(QueryError, match="outcome z_dim, which is a choice"):
        controlled_effect(PUBLISHED, "epochs", "z_dim")
    with pytest.raises(QueryError, match="pretraining_data is no number and has no logarithm"):
        controlled_effect(PUBLISHED, "pretraining_data", "usability", log=True)
    with pytest.raises(QueryError, match="nviews is 0 in some rows and has no logarithm there; pass log=False"):
        controlled_effect(pair({"nviews": 0.0}, {"nviews": 2.0}), "nviews", "usability")
    with pytest.raises(
        QueryError, match=r"level 'big' of projection2_arch, expected one of projection2_arch\[linear\]"
    ):
        controlled_effect(PUBLISHED, "projection2_arch", "usability").estimate("big")
    with pytest.raises(QueryError, match="0 columns that may vary"):
        controlled_groups(PUBLISHED, [])
