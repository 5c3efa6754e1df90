"""What the paper says of types of objectives; each statement stands above what decides it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.importance import Importance, mean_by_value
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Claims
from zoo.studies.tables import interval
from zoo.studies.trees import STEADY, Choice, Trees, claim_of_way, error_of

HIGH = ("generative", "transform")
ALIKE = ("contrastive", "hierarchical", "siamese")
SIGNIFICANT = 0.05
FEWEST = 7  # encoders of an objective in Figure 24
PROJECTOR = ("projection2_arch", "projection_nparameters_hidden")  # as the trees know it
FIGURE_22 = (("transform", "raises", ()), ("generative", "raises", PROJECTOR), ("clustering", "lowers", ()))
FIGURE_24 = (  # objective, outcome, as printed
    ("clip", "usability", "particularly good"),
    ("clip", "train_test", "particularly good"),
    ("moco", "train-nperclass-3_test", "good"),
    ("simclr", "train_test", "weak"),
    ("simclr", "train-nperclass-3_test", "weak"),
)


def claims_of(
    means: Sequence[Estimate], pairs: Sequence[Estimate], fixed: Mapping[str, Sequence[Estimate]], trees: Trees
) -> list[Claim]:
    """All claims.

    ``means`` are usability by type, the lowest first, ``pairs`` differences between types; ``fixed`` has differences to
    contrastive encoders by what is held fixed, in words.
    """
    tests = [claim for mode in HIGH for claim in of_tests.judged(mode, pairs, fixed["nothing"], mode=mode.capitalize())]
    figure_22 = [
        claim_of_way(
            Choice(words=f"a {mode} objective", feature="ssl_mode", levels=(mode,), tied=tied),
            "usability",
            way,
            trees,
            source="Appendix D.4, Figure 22",
        )
        for mode, way, tied in FIGURE_22
    ]
    figure_24 = [
        claim
        for name, outcome, paper in FIGURE_24
        for claim in of_objectives.judged(trees, name, outcome, paper, name=name, error=error_of(outcome), paper=paper)
    ]
    return [
        *of_means.judged(means, pairs),
        *tests,
        *of_the_edge.judged(fixed),
        *figure_22,
        *of_clustering.judged(trees),
        *figure_24,
    ]


of_means = Claims(source="Section 5.3.4, Figure 12")


@of_means(
    "Generative and transformation-predicting objectives have the highest mean usability error",
    paper="the two highest bars",
)
def generative_and_transform_are_highest(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> Answer:
    return Answer(
        ours=", ".join(f"{one.term} {one.value:.1f}" for one in means[::-1]),
        holds={one.term for one in means[-2:]} == set(HIGH),
        reason="another type has as high a mean",
    )


@of_means("Contrastive, hierarchical and siamese objectives give similar usability", paper="similar")
def three_types_are_alike(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> Answer:
    alike = [one.p_adjusted for one in pairs if set(one.term.split(" - ")) <= set(ALIKE) and one.p_adjusted is not None]
    if not alike:
        raise QueryError(f"The table has too few encoders of {', '.join(ALIKE)} to compare two of these types.")
    return Answer(
        ours=f"no pair differs: smallest false-discovery rate {min(alike):.2f}",
        holds=min(alike) > SIGNIFICANT,
        reason="a pair of these types differs",
    )


@of_means("Clustering objectives have a slight edge in mean usability", paper="the lowest bar")
def clustering_is_lowest(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> Answer:
    return Answer(
        ours=", then ".join(f"{one.term} {one.value:.1f}" for one in means[:2]),
        holds=means[0].term == "clustering",
        reason="another type has the lowest mean",
    )


of_tests = Claims(source="Section 5.3.4, Appendix D.4")


@of_tests("{mode} objectives are less usable than those of each other type", paper="less usable")
def a_type_is_less_usable(mode: str, pairs: Sequence[Estimate], plain: Sequence[Estimate]) -> Answer:
    """Differs from each of the others, by a test that lets types vary differently."""
    tests = [one for one in pairs if mode in one.term.split(" - ") and set(one.term.split(" - ")) != set(HIGH)]
    rates = [one.p_adjusted for one in tests if one.p_adjusted is not None]
    if not rates:
        raise QueryError(f"The table has too few {mode} encoders with a usability error to test.")
    classical = next(one.p for one in plain if one.term.startswith(f"{mode} - "))
    worse = all(one.term.startswith(mode) for one in tests)  # the higher mean stands first
    return Answer(
        ours=f"largest false-discovery rate of Welch's tests {max(rates):.2g}",
        holds=worse and max(rates) < SIGNIFICANT,
        held_as_the_paper_did=worse and classical is not None and classical < SIGNIFICANT,
        reason=f"p = {classical:.0e} against contrastive in a linear model, which takes all types to vary alike; "
        "these few vary far more, and Welch's test allows for it",
    )


of_the_edge = Claims(source="Appendix D.4")


@of_the_edge("Clustering objectives significantly improve usability", paper="significantly")
def clustering_improves_usability(fixed: Mapping[str, Sequence[Estimate]]) -> Answer:
    found = [one for words in ("nothing", "year") for one in fixed[words] if one.term.startswith("clustering - ")]
    if len(found) < 2:
        raise QueryError("The table has no clustering encoder with a usability error.")
    below = [one.ci_high is not None and one.ci_high < 0 for one in found]
    return Answer(
        ours=f"against contrastive {interval(found[0])}; at equal year {interval(found[1])}",
        holds=all(below),
        held_as_the_paper_did=below[0],
        reason="clustering encoders are newer, and at equal year the interval includes 0",
    )


of_clustering = Claims(source="Section 5.3.4, Figure 13")


@of_clustering("Which clustering objective it is changes the full-shot error little", paper="at most 1 point")
def clustering_objectives_differ_little(trees: Trees) -> Answer:
    found = trees.of("train_test")
    inside = set(found.values.loc[found.values["ssl_mode"] == "clustering", "objective"])
    means = {one.term: one for one in mean_by_value(found, "objective") if one.term in inside}
    sizes = {name: abs(one.value or 0.0) for name, one in means.items()}
    several = [name for name, one in means.items() if one.n >= FEWEST]
    if not several:
        raise QueryError(f"The table has no clustering objective of at least {FEWEST} encoders.")
    worst, any_worst = max(several, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    over = sorted((name for name in sizes if sizes[name] > 1.0), key=sizes.__getitem__, reverse=True)
    alone = f"one encoder{' each' * (len(over) > 1)}, of {' and '.join(over)}"
    return Answer(
        ours=f"largest mean |SHAP value| {sizes[any_worst]:.2f}, of {any_worst} (n = {means[any_worst].n})",
        rests_on=alone if over and all(means[name].n == 1 for name in over) else "",
        holds=sizes[any_worst] <= 1.0,
        held_as_the_paper_did=sizes[worst] <= 1.0,
        value=sizes[any_worst],
        reason=f"{sizes[worst]:.2f} at most (of {worst}) among those of at least {FEWEST} encoders, the only ones "
        "that the paper interprets",
    )


of_objectives = Claims(source="Appendix D.4, Figure 24")


@of_objectives("By SHAP, {name} is {paper} for the {error}", paper="{paper}")
def an_objective_stands_out(trees: Trees, name: str, outcome: str, paper: str) -> Answer:
    """Good is a mean SHAP value below 0 in the best quarter of objectives, weak one above 0 in the worst."""
    names = [one.term for one in mean_by_value(trees.of(outcome), "objective") if one.n >= FEWEST]
    if name not in names:
        raise QueryError(f"Fewer than {FEWEST} {name} encoders have a {error_of(outcome)}.")

    def ranked(found: Importance) -> tuple[list[Estimate], int, bool]:
        order = [one for one in mean_by_value(found, "objective") if one.term in names]
        place = [one.term for one in order].index(name)
        value, some = order[place].value or 0.0, math.ceil(len(order) / 4)
        holds = (value > 0 and place >= len(order) - some) if paper == "weak" else (value < 0 and place < some)
        return order, place, holds

    order, place, holds = ranked(trees.of(outcome))
    again = [ranked(part)[2] for part in trees.again[outcome]]
    return Answer(
        ours=f"mean SHAP value {order[place].value:+.2f}, place {place + 1} of {len(order)}; {paper} in "
        f"{sum(again)} of {len(again)} refits",
        value=order[place].value,
        holds=holds and sum(again) >= STEADY * len(again),
        reason=f"the best is {order[0].term} ({order[0].value:+.2f}), the worst {order[-1].term} "
        f"({order[-1].value:+.2f})",
    )
