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

import numpy as np
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import OUTCOMES, STUDY_COLUMNS, TREE_OUTCOMES, Estimate
from zoo.analysis.groups import estimate_group_means
from zoo.analysis.importance import Importance, get_shap_values
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.evaluation.drawing import (
    MODE_COLOURS,
    Figure,
    draw_legend_below,
    make_figure,
    make_palette,
    plot_groups,
    write_panel_letters,
)
from zoo.studies.findings import (
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
)
from zoo.studies.running import StudyOptions
from zoo.studies.shap import draw_choice, plot_shap_scatter
from zoo.studies.tables import build_cross_table, format_estimate, label_risk_axis
from zoo.studies.trees import (
    STEADY,
    TreeChoice,
    Trees,
    build_tuned_files,
    claim_of_way,
    describe_outcome,
    fit_trees,
    get_tree_settings,
    tune_trees,
)

from .differences import compare_group_means, estimate_adjusted_differences

OPTIONS = ("tune", "n_trials", "n_workers")
ENCODER = ("year", "family", "n_parameters", "z_dim", "epochs")
LOGGED = ("n_parameters", "z_dim", "epochs")
FIXED = {  # in words -> columns that are held fixed, what their missing cells count as
    "nothing": ((), {}),
    "year": (("year",), {}),
    "year, encoder, epochs": (ENCODER, {}),
    "year, encoder, epochs, projector": ((*ENCODER, "projection1_arch"), {}),
    "the same, no projector called identity": ((*ENCODER, "projection1_arch"), {"projection1_arch": "identity"}),
}
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
    "A SHAP value describes what trees rely on. Choices that come together (objective, projector, year, architecture, "
    "data) share their credit, so a small value is no proof of a small effect.",
    "Encoders of one method resemble each other more than chance would have it, so intervals of means are too narrow "
    "rather than too wide.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Means and differences of usability by type of objective, and SHAP values of types and objectives."""
    means = estimate_group_means(table, "usability", "ssl_mode")
    pairs = compare_group_means(table, "usability", "ssl_mode")
    fixed = {
        words: estimate_adjusted_differences(
            table,
            "usability",
            "ssl_mode",
            reference="contrastive",
            fixed=columns,
            logged=LOGGED,
            missing=missing,
        )
        for words, (columns, missing) in FIXED.items()
    }
    clustering = table.only(table.frame.index[table.frame["ssl_mode"] == "clustering"], because="not clustering")
    within, at_equal, reference = _within(clustering)
    names = {one.term for one in within}
    tuned = tune_trees(table, TREE_OUTCOMES, options)
    trees = fit_trees(
        table, TREE_OUTCOMES, options, parameters=get_tree_settings(tuned), n_subsamples=8, again_for=SHOWN
    )
    shares = {outcome: average_by_value(found, "objective") for outcome, found in trees.fitted.items()}
    frequent = {OUTCOMES[outcome].label: [one for one in found if one.n >= FEWEST] for outcome, found in shares.items()}
    types = [average_by_value(found, "ssl_mode") for outcome, found in trees.fitted.items() if outcome == "usability"]
    left_out = table.n_left_out("usability", "ssl_mode")
    return Findings(
        claims=claims_of(means, pairs, fixed, trees),
        answer=answer_in_sentence(lambda: _answer(means)),
        estimates=[
            *means,
            *pairs,
            *(one for held in fixed.values() for one in held),
            *within,
            *at_equal,
            *(one for found in (*types, *shares.values()) for one in found),
        ],
        tables=[
            estimate_table(
                "Usability error by type of objective (Figures 12 and 23a)",
                "type",
                means,
                signed=False,
                note="Percentage points; lower is better.",
            ),
            estimate_table(
                "Differences between types",
                "types",
                pairs,
                note=f"Percentage points of usability error; Welch's test of each pair ({len(pairs)}), "
                "corrected by Benjamini and Hochberg.",
            ),
            build_cross_table(
                "Differences to contrastive encoders with other columns held fixed",
                "types",
                fixed,
                digits=1,
                note="Percentage points of usability error [95 %], linear models; encoder: family, "
                "logarithms of parameters and dimensions.",
            ),
            build_cross_table(
                "Mean SHAP value of the objective (Figure 24)",
                "objective",
                frequent,
                note=f"Points; negative is better. Objectives with at least {FEWEST} encoders that have the outcome.",
            ),
            estimate_table("Full-shot error of clustering objectives, in percent", "objective", within, signed=False),
            build_cross_table(
                "What the clustering objective adds to the full-shot error (Figure 13)",
                "objective",
                {
                    "mean SHAP value": [one for one in shares.get("train_test", ()) if one.term in names],
                    f"linear model, minus {reference}": at_equal,
                },
                note=EQUAL,
            ),
        ],
        figures=figures_of(table, means, trees),
        rows=[
            RowsUsed(part="usability by type of objective", used=sum(one.n for one in means), left_out=left_out),
            *trees.rows(table),
        ],
        files=build_tuned_files(table, tuned, name="tuned_trees_of_objectives.toml"),
        notes=[*NOTES, *trees.notes],
    )


def _answer(means: Sequence[Estimate]) -> str:
    best, *_, worst = [one for one in means if one.n >= FEWEST_OF_A_TYPE]
    return (
        f"{best.term.capitalize()} objectives: {format_statement(best, 1, unit='points')} of usability error on "
        "average, over "
        f"{best.n} encoders; least usable are {worst.term} objectives, {format_statement(worst, 1)}, over {worst.n}."
    )


def _within(clustering: StudyTable) -> tuple[Sequence[Estimate], Sequence[Estimate], str]:
    """Clustering objectives: mean full-shot errors, differences to the most frequent one at equal encoder, that one."""
    if clustering.frame["train_test"].isna().all():
        return (), (), "none"
    means = estimate_group_means(clustering, "train_test", "objective")
    reference = max(means, key=lambda one: (one.n, one.term)).term
    found = estimate_adjusted_differences(
        clustering,
        "train_test",
        "objective",
        reference=reference,
        fixed=(*ENCODER, "nviews", "patch_size"),
        logged=(*LOGGED, "nviews"),
    )
    return means, [one.described(term=one.term.removesuffix(f" - {reference}")) for one in found], reference


HIGH = ("generative", "transform")
ALIKE = ("contrastive", "hierarchical", "siamese")
SIGNIFICANT = 0.05
FEWEST_OF_A_TYPE = 5  # encoders of a type of objective that a sentence names
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
            TreeChoice(words=f"a {mode} objective", feature="ssl_mode", levels=(mode,), tied=tied),
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
        for claim in of_objectives.judged(
            trees, name, outcome, paper, name=name, error=describe_outcome(outcome), paper=paper
        )
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
def generative_and_transform_are_highest(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> ClaimAnswer:
    return ClaimAnswer(
        ours=", ".join(f"{one.term} {one.value:.1f}" for one in means[::-1]),
        holds={one.term for one in means[-2:]} == set(HIGH),
        reason="another type has as high a mean",
    )


@of_means("Contrastive, hierarchical and siamese objectives give similar usability", paper="similar")
def three_types_are_alike(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> ClaimAnswer:
    alike = [one.p_adjusted for one in pairs if set(one.term.split(" - ")) <= set(ALIKE) and one.p_adjusted is not None]
    if not alike:
        raise QueryError(f"The table has too few encoders of {', '.join(ALIKE)} to compare two of these types.")
    return ClaimAnswer(
        ours=f"no pair differs: smallest false-discovery rate {min(alike):.2f}",
        holds=min(alike) > SIGNIFICANT,
        reason="a pair of these types differs",
    )


@of_means("Clustering objectives have a slight edge in mean usability", paper="the lowest bar")
def clustering_is_lowest(means: Sequence[Estimate], pairs: Sequence[Estimate]) -> ClaimAnswer:
    return ClaimAnswer(
        ours=", then ".join(f"{one.term} {one.value:.1f}" for one in means[:2]),
        holds=means[0].term == "clustering",
        reason="another type has the lowest mean",
    )


of_tests = Claims(source="Section 5.3.4, Appendix D.4")


@of_tests("{mode} objectives are less usable than those of each other type", paper="less usable")
def a_type_is_less_usable(mode: str, pairs: Sequence[Estimate], plain: Sequence[Estimate]) -> ClaimAnswer:
    """Differs from each of the others, by a test that lets types vary differently."""
    tests = [one for one in pairs if mode in one.term.split(" - ") and set(one.term.split(" - ")) != set(HIGH)]
    rates = [one.p_adjusted for one in tests if one.p_adjusted is not None]
    if not rates:
        raise QueryError(f"The table has too few {mode} encoders with a usability error to test.")
    classical = next(one.p for one in plain if one.term.startswith(f"{mode} - "))
    worse = all(one.term.startswith(mode) for one in tests)  # the higher mean stands first
    return ClaimAnswer(
        ours=f"largest false-discovery rate of Welch's tests {max(rates):.2g}",
        holds=worse and max(rates) < SIGNIFICANT,
        held_as_the_paper_did=worse and classical is not None and classical < SIGNIFICANT,
        reason=f"p = {classical:.0e} against contrastive in a linear model, which takes all types to vary alike; "
        "these few vary far more, and Welch's test allows for it",
    )


of_the_edge = Claims(source="Appendix D.4")


@of_the_edge("Clustering objectives significantly improve usability", paper="significantly")
def clustering_improves_usability(fixed: Mapping[str, Sequence[Estimate]]) -> ClaimAnswer:
    found = [one for words in ("nothing", "year") for one in fixed[words] if one.term.startswith("clustering - ")]
    if len(found) < 2:
        raise QueryError("The table has no clustering encoder with a usability error.")
    below = [one.ci_high is not None and one.ci_high < 0 for one in found]
    return ClaimAnswer(
        ours=f"against contrastive {format_estimate(found[0])}; at equal year {format_estimate(found[1])}",
        holds=all(below),
        held_as_the_paper_did=below[0],
        reason="clustering encoders are newer, and at equal year the interval includes 0",
    )


of_clustering = Claims(source="Section 5.3.4, Figure 13")


@of_clustering("Which clustering objective it is changes the full-shot error little", paper="at most 1 point")
def clustering_objectives_differ_little(trees: Trees) -> ClaimAnswer:
    found = trees.of("train_test")
    inside = set(found.values.loc[found.values["ssl_mode"] == "clustering", "objective"])
    means = {one.term: one for one in average_by_value(found, "objective") if one.term in inside}
    sizes = {name: abs(one.value or 0.0) for name, one in means.items()}
    several = [name for name, one in means.items() if one.n >= FEWEST]
    if not several:
        raise QueryError(f"The table has no clustering objective of at least {FEWEST} encoders.")
    worst, any_worst = max(several, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    over = sorted((name for name in sizes if sizes[name] > 1.0), key=sizes.__getitem__, reverse=True)
    alone = f"one encoder{' each' * (len(over) > 1)}, of {' and '.join(over)}"
    return ClaimAnswer(
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
def an_objective_stands_out(trees: Trees, name: str, outcome: str, paper: str) -> ClaimAnswer:
    """Good is a mean SHAP value below 0 in the best quarter of objectives, weak one above 0 in the worst."""
    names = [one.term for one in average_by_value(trees.of(outcome), "objective") if one.n >= FEWEST]
    if name not in names:
        raise QueryError(f"Fewer than {FEWEST} {name} encoders have a {describe_outcome(outcome)}.")

    def ranked(found: Importance) -> tuple[list[Estimate], int, bool]:
        order = [one for one in average_by_value(found, "objective") if one.term in names]
        place = [one.term for one in order].index(name)
        value, some = order[place].value or 0.0, math.ceil(len(order) / 4)
        holds = (value > 0 and place >= len(order) - some) if paper == "weak" else (value < 0 and place < some)
        return order, place, holds

    order, place, holds = ranked(trees.of(outcome))
    again = [ranked(part)[2] for part in trees.again[outcome]]
    return ClaimAnswer(
        ours=f"mean SHAP value {order[place].value:+.2f}, place {place + 1} of {len(order)}; {paper} in "
        f"{sum(again)} of {len(again)} refits",
        value=order[place].value,
        holds=holds and sum(again) >= STEADY * len(again),
        reason=f"the best is {order[0].term} ({order[0].value:+.2f}), the worst {order[-1].term} "
        f"({order[-1].value:+.2f})",
    )


_GROUP_STEP = 0.13  # years between the columns of two groups of one year
SHOWN = ("usability", "probe_gen", "train_test", "train-nperclass-3_test")  # in Figure 13


def figures_of(table: StudyTable, means: Sequence[Estimate], trees: Trees) -> list[Figure]:
    """All figures; ``means`` are those of usability by type."""
    n = sum(one.n for one in means)
    figures = [
        Figure(
            name="usability_by_type",
            title="Usability error by type of objective (Figures 12 and 23a)",
            caption=f"Usability error in percentage points, lower is better, of {n} encoders, each a point, their "
            "number in brackets; diamonds are means with 95 % intervals.",
            draw=partial(draw_means, table, means, outcome="usability", by="ssl_mode"),
        ),
        Figure(
            name="usability_by_year",
            title="How the year and the type of objective go together",
            caption=f"Usability error of {n} encoders in percentage points, lower is better, by the year of their "
            "method; types stand side by side within the band of a year.",
            draw=partial(draw_by_year, table, outcome="usability", by="ssl_mode"),
        ),
    ]
    if "usability" in trees.fitted:
        found = trees.fitted["usability"]
        panels = (("type of objective", ("ssl_mode",)), ("projector", PROJECTOR))
        types = Figure(
            name="shap_of_types",
            title="SHAP values by type of objective (Figures 22 and 23b)",
            caption=f"SHAP values on the usability error of {found.n} encoders, of (a) the type and (b) the projector "
            "(its architecture and hidden parameters, added), which generative encoders lack.",
            draw=partial(draw_types, found, panels),
        )
        figures.append(types)
    counts = table.frame["objective"].value_counts()
    clustering = table.frame.loc[table.frame["ssl_mode"] == "clustering", "objective"].value_counts()
    for name, title, names, outcomes, fewest in (
        ("clustering_objectives", "Clustering objectives (Figure 13)", clustering, SHOWN, 1),
        ("objectives", "Objectives (Figure 24)", counts[counts >= FEWEST], TREE_OUTCOMES, FEWEST),
    ):
        models = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if models and len(names):
            shown = ", ".join(f"{one.n} ({OUTCOMES[one.outcome].label})" for one in models)
            ending = f"; objectives of fewer than {fewest} are left out." if fewest > 1 else "."
            objectives = Figure(
                name=name,
                title=title,
                caption=f"SHAP values of the objective, each point one of {shown} encoders{ending}",
                draw=partial(
                    draw_choice,
                    models,
                    [OUTCOMES[one.outcome].label for one in models],
                    "objective",
                    label="",
                    only=[str(one) for one in names.index],
                ),
            )
            figures.append(objectives)
    return figures


def draw_means(table: StudyTable, means: Sequence[Estimate], *, outcome: str, by: str) -> Drawing:
    """Every encoder as a point, a row per group, with the group's mean and its interval."""
    rows = table.complete(outcome, by)
    drawing, (axes,) = make_figure(height=0.42 * len(means) + 0.6)
    for position, mean in enumerate(means):
        own = rows.loc[rows[by].astype(str) == mean.term, outcome]
        values = own.to_numpy(float)
        moves = np.random.default_rng(position).uniform(-0.25, 0.25, len(values))
        colour = make_palette([mean.term], MODE_COLOURS)[mean.term][0]
        axes.scatter(values, position + moves, s=9, c=colour, linewidths=0, alpha=0.55, zorder=2)
        if mean.ci_low is not None and mean.ci_high is not None:
            axes.plot([mean.ci_low, mean.ci_high], [position, position], color="black", linewidth=1.1, zorder=3)
        axes.scatter(
            [mean.value or 0.0], [position], s=34, marker="D", c=colour, edgecolors="black", linewidths=0.9, zorder=4
        )
    axes.set_yticks(range(len(means)), [f"{mean.term} ({mean.n})" for mean in means])
    axes.set_ylim(len(means) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(label_risk_axis(outcome))
    return drawing


def draw_by_year(table: StudyTable, *, outcome: str, by: str) -> Drawing:
    """Every encoder by the year of its method, which is a band; the groups of a year stand side by side within it."""
    rows = table.complete(outcome, by, "year")
    drawing, (axes,) = make_figure(height=3.3)
    years = rows["year"].to_numpy(float)
    order = sorted(rows[by].astype(str).unique(), key=lambda group: -int((rows[by] == group).sum()))
    rows = rows.iloc[np.argsort([order.index(str(group)) for group in rows[by]], kind="stable")]
    groups = [str(group) for group in rows[by]]
    present = {year: set(own) for year, own in rows[by].astype(str).groupby(rows["year"].astype(float))}
    places = {year: [group for group in order if group in own] for year, own in present.items()}
    x = [
        year + _GROUP_STEP * (places[year].index(group) - (len(places[year]) - 1) / 2)
        for year, group in zip(rows["year"].astype(float), groups, strict=True)
    ]
    plot_groups(axes, x, rows[outcome].astype(float).tolist(), groups, colours=MODE_COLOURS, size=13)
    every = range(int(years.min()), int(years.max()) + 1)
    for year in every[::2]:
        axes.axvspan(year - 0.5, year + 0.5, color="#F3F3F3", zorder=0, linewidth=0)
    counts = rows["year"].astype(int).value_counts()
    axes.set_xticks(every, [f"{year}\nn = {counts.get(year, 0)}" for year in every])
    axes.set_xlim(every[0] - 0.5, every[-1] + 0.5)
    axes.grid(visible=False, axis="x")
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("year of publication of the method")
    axes.set_ylabel(label_risk_axis(outcome))
    draw_legend_below(drawing, axes, n_columns=3)
    return drawing


def draw_types(found: Importance, panels: Sequence[tuple[str, Sequence[str]]]) -> Drawing:
    """SHAP values by type of objective: a panel a group of features, whose values are added."""
    drawing, axes = make_figure(height=2.9, n_columns=len(panels))
    modes = found.values["ssl_mode"]
    order = found.shap["ssl_mode"].groupby(modes.astype(object)).mean().sort_values().index
    places = [encoder for mode in order for encoder in found.shap.index[modes == mode]]
    for one, (title, features) in zip(axes, panels, strict=True):
        shares = found.shap.loc[places, list(features)].sum(axis=1).rename(title)
        plot_shap_scatter(one, shares, modes[places])
        one.set_ylabel(f"SHAP value of the {title} [points]\nnegative is better")
    write_panel_letters(axes)
    return drawing


def average_by_value(importance: Importance, feature: str) -> tuple[Estimate, ...]:
    """Mean SHAP value of a feature by its own values, lowest first; terms are the values."""
    shap, values = get_shap_values(importance, feature), importance.values[feature].astype(object)
    known = values[values.notna()].astype(str)
    unit, outcome = STUDY_COLUMNS[importance.outcome].unit, importance.outcome
    label = Estimate(term="", n=0, unit=unit, outcome=outcome, method=f"mean SHAP value of {feature}")
    means = []
    for value in sorted(known.unique()):
        chosen = shap[(values.astype(str) == value).to_numpy(bool)]
        means.append(label.with_value(chosen.mean(), term=value, n=len(chosen)))
    return tuple(sorted(means, key=lambda one: (one.value or 0.0, one.term)))


def estimate_table(
    title: str, term: str, estimates: Sequence[Estimate], *, note: str = "", signed: bool = True
) -> FindingsTable:
    """One row an estimate: term, value, interval, p, false-discovery rate and n; empty columns are left out."""
    headers = [term, "value [95 % interval]", "p", "false-discovery rate", "encoders"]
    rows = [
        [
            one.term,
            format_estimate(one, signed=signed),
            *("" if p is None else f"{p:.2g}" for p in (one.p, one.p_adjusted)),
            str(one.n),
        ]
        for one in estimates
    ]
    used = [place for place in range(len(headers)) if place < 2 or any(row[place] for row in rows)]
    return FindingsTable(
        title=title,
        headers=[headers[place] for place in used],
        rows=[[row[place] for place in used] for row in rows],
        note=note,
    )
