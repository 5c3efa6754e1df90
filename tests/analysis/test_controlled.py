"""The controlled analysis: what is grouped, what is recovered, and where the printed p-values come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from tests.shipped import shipped_table
from zoo.analysis.controlled import CORE_COLUMNS, controlled_effect, find_controlled_groups
from zoo.analysis.table import StudyTable, build_table
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED
from zoo.errors import QueryError, UnknownName

PUBLISHED = shipped_table()
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
    return build_table(rows)


def pair(first: dict[str, Any], second: dict[str, Any]) -> StudyTable:
    """Two encoders that are alike but for these cells."""
    same = {"objective": "simclr", "architecture": "resnet50", "z_dim": 2048.0, "epochs": 100.0}
    return build_table({"a": {**same, "usability": 3.0, **first}, "b": {**same, "usability": 2.0, **second}})


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


def test_levels_of_a_category_are_those_of_statsmodels_against_the_reference_that_is_asked_for() -> None:
    found = controlled_effect(PUBLISHED, "projection2_arch", "usability", reference="linear")
    term = "C(projection2_arch, Treatment('linear'))[T.mlp]"
    direct = smf.ols("usability ~ C(group) + C(projection2_arch, Treatment('linear'))", found.rows).fit()
    assert found.reference == "linear"
    assert found.estimate("mlp").value == pytest.approx(direct.params[term], rel=1e-8)
    assert found.estimate("mlp").unit == "percentage points mlp against linear"


def test_a_group_differs_in_nothing_but_the_varied_columns() -> None:
    groups = find_controlled_groups(PUBLISHED, ["z_dim", "z_layer"])
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
        return find_controlled_groups(
            pair({"nviews": 2.0, "finetuning_data": first}, {"nviews": 8.0, "finetuning_data": second}), ["nviews"]
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
    found = controlled_effect(build_table(rows), "projection2_arch", "usability")
    assert found.estimate("not applicable").value == pytest.approx(2.9)
    assert found.reference == "mlp"
    assert found.left_out == {"projection2_arch missing": 1}


def test_wrong_requests_are_refused_in_one_sentence() -> None:
    with pytest.raises(UnknownName, match=r"no column of the study table named 'epoch'; did you mean epochs"):
        controlled_effect(PUBLISHED, "epoch", "usability")
    with pytest.raises(UnknownName, match="usabilty"):
        controlled_effect(PUBLISHED, "epochs", "usabilty")
    with pytest.raises(UnknownName, match="layer"):
        find_controlled_groups(PUBLISHED, ["z_dim", "layer"])
    with pytest.raises(QueryError, match="outcome objective, which holds text; expected numbers"):
        controlled_effect(PUBLISHED, "epochs", "objective")
    with pytest.raises(QueryError, match="outcome z_dim, which is a choice"):
        controlled_effect(PUBLISHED, "epochs", "z_dim")
    with pytest.raises(QueryError, match="nviews has the value 0 and no logarithm"):
        controlled_effect(pair({"nviews": 0.0}, {"nviews": 2.0}), "nviews", "usability")
    with pytest.raises(
        QueryError, match=r"level 'big' of projection2_arch, expected one of projection2_arch\[linear\]"
    ):
        controlled_effect(PUBLISHED, "projection2_arch", "usability").estimate("big")
