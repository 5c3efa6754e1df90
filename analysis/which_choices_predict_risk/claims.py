"""What the paper says of the choices that predict risk; each statement stands above what decides it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.analysis.columns import TREE_OUTCOMES
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Claims, number_claim
from zoo.studies.trees import Choice, Trees, claim_of_way, error_of

from .explained import Explained, claim_of_number, of_definition

SETS = {"filtered": "before filtering", "few": "after filtering"}  # 26 and 14 choices
FULL, FEW = "train_test", "train-nperclass-3_test"
TABLE_3_OUTCOMES = ("usability", "probe_gen", FULL, FEW)
PRINTED: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("printed.toml").read_text(encoding="utf-8"))
TABLE_6: Mapping[str, Mapping[str, str]] = PRINTED["table_6"]  # set of choices -> outcome -> percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedWay:
    """Which way a choice moves an outcome, as it is printed."""

    choice: Choice
    outcome: str
    way: str
    source: str
    features: str = "few"  # which choices the trees know


def choice_of(printed: Mapping[str, Any]) -> Choice:
    """A choice as the data file has it."""
    parts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in printed.items()
    }
    return Choice(**parts)


TABLE_3 = [
    PrintedWay(choice=choice_of(row["choice"]), outcome=outcome, way=row.get(outcome, ""), source="Table 3")
    for row in PRINTED["table_3"]
    for outcome in TABLE_3_OUTCOMES
]
OTHER_WAYS = [
    PrintedWay(choice=choice_of(one["choice"]), outcome=outcome, way=one["way"], source=one["source"], features=name)
    for name in ("few", "filtered")
    for one in PRINTED["ways"][name]
    for outcome in one["outcomes"]
]


def claims_of(explained: Explained, trees: Mapping[str, Trees]) -> list[Claim]:
    """All claims; ``trees`` are by the set of choices that they know."""
    after = trees["few"]
    return [
        *(
            claim_of_number(explained, name, outcome, number, words=SETS[name])
            for name, numbers in TABLE_6.items()
            for outcome, number in numbers.items()
        ),
        *(
            claim
            for outcome, number in TABLE_6["few"].items()
            for claim in of_definition.judged(explained, "few", outcome, error=error_of(outcome), printed=number)
        ),
        *of_variance.judged(explained),
        *(
            claim_of_way(one.choice, one.outcome, one.way, trees[one.features], source=one.source)
            for one in (*TABLE_3, *OTHER_WAYS)
            if one.way
        ),
        *(claim for one in PRINTED["most"] for claim in claims_of_most(after, **one)),
        *of_all_components.judged(after),
        claim_of_figure_20(after, FEW, printed="4", words="improves 3-shot accuracy"),
        claim_of_figure_20(after, FULL, printed="1", words="lowers full-shot accuracy"),
    ]


of_variance = Claims(source="Appendix C.4")


@of_variance("Filtering to 14 choices does not lower the explained variance", paper="without decreasing")
def filtering_costs_nothing(explained: Explained) -> Answer:
    changes = {
        outcome: explained.of("few", outcome).pooled - explained.of("filtered", outcome).pooled
        for outcome in TREE_OUTCOMES
    }
    mean, worst = float(np.mean([*changes.values()])), min(changes, key=changes.__getitem__)
    return Answer(
        ours=f"pooled, {mean:+.1f} points on average",
        value=mean,
        holds=mean > -1.0,
        reason=f"the {error_of(worst)} loses most, {changes[worst]:+.1f} points",
    )


@of_variance("Encoder generalization is explained least, then usability", paper="struggle, and to a lesser extent")
def encoder_generalization_is_explained_least(explained: Explained) -> Answer:
    pooled = {outcome: explained.of("few", outcome).pooled for outcome in TREE_OUTCOMES}
    ordered = sorted(pooled, key=lambda outcome: pooled[outcome])
    return Answer(
        ours="least: " + ", ".join(f"{error_of(outcome)} {pooled[outcome]:.0f} %" for outcome in ordered[:3]),
        holds=ordered[:2] == ["enc_gen", "usability"],
        reason="the order differs",
    )


of_most = Claims(source="Appendix D, Figure 18")


@of_most("By SHAP, the {error} is {how} impacted by {words}", paper="{how} impacted")
def some_choices_matter_most(trees: Trees, outcome: str, how: str, features: Sequence[str]) -> Answer:
    """Mostly is taken for over half of the sum of mean absolute SHAP values, also for over an equal share."""
    means = trees.of(outcome).mean_absolute
    share = float(means[list(features)].sum() / means.sum())
    least = 0.5 if how == "mostly" else len(features) / len(means)
    largest = ", ".join(map(str, means.index[:4]))
    return Answer(
        ours=f"{100 * share:.0f} % of the sum; largest: {largest}",
        value=share,
        holds=share > least,
        reason=f"that is not over {100 * least:.0f} %",
    )


def claims_of_most(trees: Trees, *, outcome: str, how: str, words: str, features: Sequence[str]) -> list[Claim]:
    """That some choices impact an outcome mostly, or also."""
    return of_most.judged(trees, outcome, how, features, error=error_of(outcome), how=how, words=words)


of_all_components = Claims(source="Appendix D, Figure 18")


@of_all_components("By SHAP, dimensionality and projector are important for all components", paper="important")
def dimensionality_and_projector_matter_everywhere(trees: Trees) -> Answer:
    """Important is taken for more than an equal share of the sum of mean absolute SHAP values."""
    choices = {
        "dimensionality": ["z_dim"],
        "projector": ["projection2_arch", "projection_nparameters_hidden"],
    }
    shares = []  # of an equal share
    for words, features in choices.items():
        for outcome in TREE_OUTCOMES[:4]:
            means = trees.of(outcome).mean_absolute
            share = float(means[features].sum() / means.sum() * len(means) / len(features))
            shares.append((share, words, outcome))
    least, words, outcome = min(shares)
    return Answer(
        ours=f"least: {words} for the {error_of(outcome)}, {least:.2f} of an equal share",
        value=least,
        holds=least > 1,
        reason="it has less than an equal share there",
    )


def claim_of_figure_20(trees: Trees, outcome: str, *, printed: str, words: str) -> Claim:
    """The largest SHAP value of a small dimensionality, in points of accuracy."""
    found, largest = trees.fitted.get(outcome), None
    if found is not None:
        shap = found.shap.loc[found.values["z_dim"] < found.values["z_dim"].median(), "z_dim"]
        largest = float(-shap.min() if outcome == FEW else shap.max())
    return number_claim(
        f"By SHAP, a low dimensionality {words} by up to so many points",
        source="Appendix D.1, Figure 20",
        printed=printed,
        ours=largest,
        shown=NOT_AVAILABLE if largest is None else None,
        reason=trees.refused.get(outcome, "the largest SHAP value of one encoder hangs on the trees' settings"),
    )
