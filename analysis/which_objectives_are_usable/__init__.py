"""Which self-supervised objectives give features that a linear probe can use?

Claim: generative objectives and those that predict a transformation have a high usability error; the other types are
alike, with a slight edge for clustering (Figures 12, 22, 23). Which clustering objective hardly matters (Figure 13).
CLIP is good for usability and full-shot, MoCo for few-shot, SimCLR is weak (Figure 24).

Expected: mean usability error 3.7 for clustering (43 encoders), 5.6 hierarchical (13), 6.0 siamese (19), 6.9
contrastive (57), 15.6 generative (9), 35.3 transform (5). The order agrees. That generative objectives are worse rests
on 9 encoders between 0.8 and 41 points, which have no projector while all others have one: the table cannot tell the
objective from the projector.

Command: zoo study which_objectives_are_usable
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from zoo.analysis.estimates import Estimate
from zoo.analysis.group_means import adjusted_differences, group_differences, group_means
from zoo.analysis.importance import Importance
from zoo.analysis.outcomes import OUTCOMES, TREE_OUTCOMES
from zoo.analysis.shap_directions import mean_by_value
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import Answer, Claim, Findings, Rows, answered
from zoo.studies.running import StudyOptions
from zoo.studies.tables import cross_table, estimate_table, interval
from zoo.studies.trees import (
    STEADY,
    Choice,
    Trees,
    claim_of_way,
    error_of,
    fitted_trees,
    settings_of,
    tuned_files,
    tuned_trees,
)

from .figures import draw_by_year, draw_means, draw_objectives, draw_types

HIGH = ("generative", "transform")
ALIKE = ("contrastive", "hierarchical", "siamese")
SIGNIFICANT = 0.05
FEWEST = 7  # encoders of an objective in Figure 24
SHOWN = ("usability", "probe_gen", "train_test", "train-nperclass-3_test")  # in Figure 13
ENCODER = ("year", "family", "n_parameters", "z_dim", "epochs")
LOGGED = ("n_parameters", "z_dim", "epochs")
FIXED = {  # in words -> columns that are held fixed, what their missing cells count as
    "nothing": ((), {}),
    "year": (("year",), {}),
    "year, encoder, epochs": (ENCODER, {}),
    "year, encoder, epochs, projector": ((*ENCODER, "projection1_arch"), {}),
    "the same, no projector called identity": ((*ENCODER, "projection1_arch"), {"projection1_arch": "identity"}),
}
PROJECTOR = ("projection2_arch", "projection_nparameters_hidden")  # as the trees know it
FIGURE_22 = (("transform", "raises", ()), ("generative", "raises", PROJECTOR), ("clustering", "lowers", ()))
FIGURE_24 = (  # objective, outcome, as printed
    ("clip", "usability", "particularly good"), ("clip", "train_test", "particularly good"),
    ("moco", "train-nperclass-3_test", "good"),
    ("simclr", "train_test", "weak"), ("simclr", "train-nperclass-3_test", "weak"),
)  # fmt: skip
EQUAL = (
    "Points; negative is better. The linear model holds year, family, patch size and the logarithms of parameters, "
    "dimensions, epochs and views fixed; objectives of one encoder rest on that one."
)
NOTES = (
    "The effect of generative objectives is not identified: they alone have no projector, so any share of the "
    "difference may be the projector's. The last two columns of the table of differences show how much hangs on what a "
    "missing projector is taken for.",
    "Encoders that predict a transformation are from 2015 to 2018, when hardly any other was made: their difference at "
    "equal year extrapolates a straight line.",
    "A SHAP value describes what trees lean on. Choices that come together (objective, projector, year, architecture, "
    "data) share their credit, so a small value is no proof of a small effect.",
    "Encoders of one method resemble each other more than chance would have it, so intervals of means are too narrow "
    "rather than too wide.",
)  # fmt: skip


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Means and differences of usability by type of objective, and SHAP values of types and objectives."""
    means = group_means(table, "usability", "ssl_mode")
    pairs = group_differences(table, "usability", "ssl_mode")
    fixed = {
        words: adjusted_differences(table, "usability", "ssl_mode", reference="contrastive", fixed=columns,
                                    logged=LOGGED, missing=missing)
        for words, (columns, missing) in FIXED.items()
    }  # fmt: skip
    clustering = table.only(table.frame.index[table.frame["ssl_mode"] == "clustering"], because="not clustering")
    within, at_equal, reference = _within(clustering)
    names = {one.term for one in within}
    tuned = tuned_trees(table, TREE_OUTCOMES, options)
    trees = fitted_trees(table, TREE_OUTCOMES, options, parameters=settings_of(tuned), n_subsamples=8, again_for=SHOWN)
    shares = {outcome: mean_by_value(found, "objective") for outcome, found in trees.fitted.items()}
    types = [mean_by_value(found, "ssl_mode") for outcome, found in trees.fitted.items() if outcome == "usability"]
    left_out = table.n_left_out("usability", "ssl_mode")
    return Findings(
        claims=[
            *_claims_of_means(means, pairs), *(_claim_of_tests(mode, pairs, fixed["nothing"]) for mode in HIGH),
            _claim_of_the_edge(fixed),
            *(claim_of_way(Choice(words=f"a {mode} objective", feature="ssl_mode", levels=(mode,), tied=tied),
                           "usability", way, trees, source="Appendix D.4, Figure 22")
              for mode, way, tied in FIGURE_22),
            _claim_of_clustering(trees), *(_claim_of_objective(trees, *printed) for printed in FIGURE_24),
        ],
        estimates=[*means, *pairs, *(one for held in fixed.values() for one in held), *within, *at_equal,
                   *(one for found in (*types, *shares.values()) for one in found)],
        tables=[
            estimate_table("Usability error by type of objective (Figures 12 and 23a)", "type", means, signed=False,
                           note="Percentage points; lower is better."),
            estimate_table("Differences between types", "types", pairs,
                           note=f"Percentage points of usability error; Welch's test of each pair ({len(pairs)}), "
                           "corrected by Benjamini and Hochberg."),
            cross_table("Differences to contrastive encoders with other columns held fixed", "types", fixed, digits=1,
                        note="Percentage points of usability error [95 %], linear models; encoder: family, "
                        "logarithms of parameters and dimensions."),
            cross_table("Mean SHAP value of the objective (Figure 24)", "objective", {
                OUTCOMES[outcome].label: [one for one in found if one.n >= FEWEST] for outcome, found in shares.items()
            }, note=f"Points; negative is better. Objectives with at least {FEWEST} encoders that have the outcome."),
            estimate_table("Full-shot error of clustering objectives, in percent", "objective", within, signed=False),
            cross_table("What the clustering objective adds to the full-shot error (Figure 13)", "objective",
                        {"mean SHAP value": [one for one in shares.get("train_test", ()) if one.term in names],
                         f"linear model, minus {reference}": at_equal}, note=EQUAL),
        ],
        figures=_figures(table, means, trees),
        rows=[Rows(part="usability by type of objective", used=sum(one.n for one in means), left_out=left_out),
              *trees.rows(table)],
        files=tuned_files(table, tuned, name="tuned_trees_of_objectives.toml"),
        notes=[*NOTES, *trees.notes],
    )  # fmt: skip


def _within(clustering: StudyTable) -> tuple[Sequence[Estimate], Sequence[Estimate], str]:
    """Clustering objectives: mean full-shot errors, differences to the most frequent one at equal encoder, that one."""
    if clustering.frame["train_test"].isna().all():
        return (), (), "none"
    means = group_means(clustering, "train_test", "objective")
    reference = max(means, key=lambda one: (one.n, one.term)).term
    found = adjusted_differences(clustering, "train_test", "objective", reference=reference,
                                 fixed=(*ENCODER, "nviews", "patch_size"), logged=(*LOGGED, "nviews"))  # fmt: skip
    return means, [one.described(term=one.term.removesuffix(f" - {reference}")) for one in found], reference


def _claims_of_means(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> list[Claim]:
    ordered = [one.term for one in means]
    alike = [one.p_adjusted for one in pairs if set(one.term.split(" - ")) <= set(ALIKE) and one.p_adjusted is not None]

    def similar() -> Answer:
        if not alike:
            raise QueryError(f"The table has too few encoders of {', '.join(ALIKE)} to compare two of these types.")
        return Answer(ours=f"no pair differs: smallest false-discovery rate {min(alike):.2f}",
                      holds=min(alike) > SIGNIFICANT, reason="a pair of these types differs")  # fmt: skip

    return [
        answered(
            "Generative and transformation-predicting objectives have the highest mean usability error",
            source="Section 5.3.4, Figure 12", paper="the two highest bars",
            answer=lambda: Answer(ours=", ".join(f"{one.term} {one.value:.1f}" for one in means[::-1]),
                                  holds=set(ordered[-2:]) == set(HIGH), reason="another type has as high a mean"),
        ),
        answered("Contrastive, hierarchical and siamese objectives give similar usability",
                 source="Section 5.3.4, Figure 12", paper="similar", answer=similar),
        answered(
            "Clustering objectives have a slight edge in mean usability",
            source="Section 5.3.4, Figure 12", paper="the lowest bar",
            answer=lambda: Answer(ours=", then ".join(f"{one.term} {one.value:.1f}" for one in means[:2]),
                                  holds=ordered[0] == "clustering", reason="another type has the lowest mean"),
        ),
    ]  # fmt: skip


def _claim_of_tests(mode: str, pairs: Sequence[Estimate], plain: Sequence[Estimate]) -> Claim:
    """Whether a type differs from each of the others, by a test that lets types vary differently."""

    def answer() -> Answer:
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
        )  # fmt: skip

    return answered(f"{mode.capitalize()} objectives are less usable than those of each other type",
                    source="Section 5.3.4, Appendix D.4", paper="less usable", answer=answer)  # fmt: skip


def _claim_of_the_edge(fixed: Mapping[str, Sequence[Estimate]]) -> Claim:
    def answer() -> Answer:
        found = [one for words in ("nothing", "year") for one in fixed[words] if one.term.startswith("clustering - ")]
        if len(found) < 2:
            raise QueryError("The table has no clustering encoder with a usability error.")
        below = [one.ci_high is not None and one.ci_high < 0 for one in found]
        return Answer(
            ours=f"against contrastive {interval(found[0])}; at equal year {interval(found[1])}",
            holds=all(below), held_as_the_paper_did=below[0],
            reason="clustering encoders are newer, and at equal year the interval includes 0",
        )  # fmt: skip

    return answered("Clustering objectives significantly improve usability", source="Appendix D.4",
                    paper="significantly", answer=answer)  # fmt: skip


def _claim_of_clustering(trees: Trees) -> Claim:
    """Figure 13."""

    def answer() -> Answer:
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
            holds=sizes[any_worst] <= 1.0, held_as_the_paper_did=sizes[worst] <= 1.0, value=sizes[any_worst],
            reason=f"{sizes[worst]:.2f} at most (of {worst}) among those of at least {FEWEST} encoders, the only ones "
            "that the paper interprets",
        )  # fmt: skip

    return answered("Which clustering objective it is changes the full-shot error little",
                    source="Section 5.3.4, Figure 13", paper="at most 1 point", answer=answer)  # fmt: skip


def _claim_of_objective(trees: Trees, name: str, outcome: str, paper: str) -> Claim:
    """Figure 24: good is a mean SHAP value below 0 in the best quarter of objectives, weak one above 0 in the worst."""

    def ranked(found: Importance, names: Sequence[str]) -> tuple[list[Estimate], int, bool]:
        order = [one for one in mean_by_value(found, "objective") if one.term in names]
        place = [one.term for one in order].index(name)
        value, some = order[place].value or 0.0, math.ceil(len(order) / 4)
        holds = (value > 0 and place >= len(order) - some) if paper == "weak" else (value < 0 and place < some)
        return order, place, holds

    def answer() -> Answer:
        names = [one.term for one in mean_by_value(trees.of(outcome), "objective") if one.n >= FEWEST]
        if name not in names:
            raise QueryError(f"Fewer than {FEWEST} {name} encoders have a {error_of(outcome)}.")
        order, place, holds = ranked(trees.of(outcome), names)
        again = [ranked(part, names)[2] for part in trees.again[outcome]]
        return Answer(
            ours=f"mean SHAP value {order[place].value:+.2f}, place {place + 1} of {len(order)}; {paper} in "
            f"{sum(again)} of {len(again)} refits",
            value=order[place].value, holds=holds and sum(again) >= STEADY * len(again),
            reason=f"the best is {order[0].term} ({order[0].value:+.2f}), the worst {order[-1].term} "
            f"({order[-1].value:+.2f})",
        )  # fmt: skip

    return answered(f"By SHAP, {name} is {paper} for the {error_of(outcome)}", source="Appendix D.4, Figure 24",
                    paper=paper, answer=answer)  # fmt: skip


def _figures(table: StudyTable, means: Sequence[Estimate], trees: Trees) -> list[Figure]:
    n = sum(one.n for one in means)
    figures = [
        Figure(name="usability_by_type", title="Usability error by type of objective (Figures 12 and 23a)",
               caption=f"Usability error in percentage points, lower is better, of {n} encoders, each a point, their "
               "number in brackets; diamonds are means with 95 % intervals.",
               draw=partial(draw_means, table, means, outcome="usability", by="ssl_mode")),
        Figure(name="usability_by_year", title="How the year and the type of objective go together",
               caption=f"Usability error of {n} encoders in percentage points, lower is better, by the year of their "
               "method; types stand side by side within the band of a year.",
               draw=partial(draw_by_year, table, outcome="usability", by="ssl_mode")),
    ]  # fmt: skip
    if "usability" in trees.fitted:
        found = trees.fitted["usability"]
        panels = (("type of objective", ("ssl_mode",)), ("projector", PROJECTOR))
        figures.append(Figure(
            name="shap_of_types", title="SHAP values by type of objective (Figures 22 and 23b)",
            caption=f"SHAP values on the usability error of {found.n} encoders, of (a) the type and (b) the projector "
            "(its architecture and hidden parameters, added), which generative encoders lack.",
            draw=partial(draw_types, found, table, panels),
        ))  # fmt: skip
    counts = table.frame["objective"].value_counts()
    clustering = table.frame.loc[table.frame["ssl_mode"] == "clustering", "objective"].value_counts()
    for name, title, names, outcomes, fewest, columns in (
        ("clustering_objectives", "Clustering objectives (Figure 13)", clustering, SHOWN, 1, 2),
        ("objectives", "Objectives (Figure 24)", counts[counts >= FEWEST], TREE_OUTCOMES, FEWEST, 3),
    ):
        models = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if models and len(names):
            figures.append(Figure(
                name=name, title=title, caption="SHAP values of the objective, each point one of "
                + ", ".join(f"{one.n} ({OUTCOMES[one.outcome].label})" for one in models) + " encoders"
                + (f"; rows of fewer than {fewest} are empty." if fewest > 1 else "."),
                draw=partial(draw_objectives, models, [str(one) for one in names.index], table, fewest=fewest,
                             n_columns=columns, one_scale=columns == 2),
            ))  # fmt: skip
    return figures
