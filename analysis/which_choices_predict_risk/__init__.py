"""Which design choices predict the risks of an encoder, and which way?

Claim: boosted trees of 14 design choices explain 89.59, 68.17, 87.26, 41.35, 86.05 and 92.48 % of the test variance of
approximation, usability, probe generalization, encoder generalization, full-shot and 3-shot error (Table 6); their SHAP
values show which choices matter (Figures 7, 9a, 10, 17, 18, 20) and which way (Table 3).

Expected: by the paper's definition, from the square of the mean of the folds' errors, at least 83, 66, 85, 33, 85 and
92 %. That definition flatters: a fold has 4 to 6 encoders, and the mean of root-mean-square errors is below the root of
their mean square. Pooled over the folds the trees explain at least 68, 58, 80, 10, 77 and 84 %. The directions of
Table 3 agree but for those of generative objectives, whose effect the trees put on the missing projector.

Command: zoo study which_choices_predict_risk
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zoo.analysis.columns import OUTCOMES, STUDY_COLUMNS, TREE_OUTCOMES, Estimate
from zoo.analysis.importance import ExplainedVariance, Importance, explained_variance
from zoo.analysis.table import StudyTable
from zoo.analysis.trees import TREE_FEATURES, read_stored_tuning
from zoo.errors import QueryError
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import (
    NOT_AVAILABLE,
    WIDEST,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    answer_in_sentence,
    number_claim,
)
from zoo.studies.running import StudyOptions
from zoo.studies.shap import draw_choice
from zoo.studies.tables import build_cross_table
from zoo.studies.trees import (
    ARROWS,
    TreeChoice,
    Trees,
    build_tuned_files,
    claim_of_way,
    describe_outcome,
    find_effect_direction,
    fit_trees,
    get_tree_settings,
    tune_trees,
)

from .drawing import draw_bars, draw_swarms

OPTIONS = ("tune", "n_trials", "n_workers")
REPEATS = {"filtered": 1, "few": 3}  # the paper has one division into 30 folds; three depend less on chance
N_SUBSAMPLES = 8
NOTES = (
    "The arrows of Table 3 were read from the text of the paper, which does not tell much better from better.",
    "SHAP values describe what trees rely on, not what would happen if a choice were made otherwise. Choices that come "
    "together (ViT and AdamW; generative objective and no projector) share their credit as the trees happen to split.",
    "Trees that explain little, as those of encoder generalization do, have SHAP values that say little.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Explained variance before and after filtering, and what the SHAP values of the trees say of each choice."""
    tuned = {name: tune_trees(table, TREE_OUTCOMES, options, features=name) for name in SETS}
    settings = {name: get_tree_settings(own) for name, own in tuned.items()}
    explained = explained_variances(table, TREE_OUTCOMES, options, repeats=REPEATS, parameters=settings)
    after = fit_trees(table, TREE_OUTCOMES, options, parameters=settings["few"], n_subsamples=N_SUBSAMPLES)
    before = fit_trees(
        table,
        TREE_OUTCOMES,
        options,
        features="filtered",
        parameters=settings["filtered"],
        n_subsamples=N_SUBSAMPLES,
        again_for=TREE_OUTCOMES[:4],
    )
    trees = {"few": after, "filtered": before}
    nested = [] if options.tune else nested_percentages([*SETS], TREE_OUTCOMES)
    effects = [_effect(one, trees[one.features]) for one in (*OTHER_WAYS, *TABLE_3)]
    means = {OUTCOMES[outcome].label: found.estimates for outcome, found in after.fitted.items()}
    return Findings(
        claims=claims_of(explained, trees),
        answer=answer_in_sentence(lambda: _answer(explained, after)),
        estimates=[
            *(_of_set(one, found.features) for found in explained.found.values() for one in found.estimates),
            *nested,
            *(
                _of_set(one, found.features)
                for models in (after, before)
                for found in models.fitted.values()
                for one in found.estimates
            ),
            *(one for one in effects if one is not None),
        ],
        tables=[
            explained_table(explained, TREE_OUTCOMES, TABLE_6, SETS, nested),
            _table_3(after),
            build_cross_table(
                "Mean absolute SHAP value (Figure 18)",
                "choice",
                means,
                signed=False,
                note="In points of each outcome [95 %: which encoders are averaged over].",
            ),
        ],
        figures=figures_of(after),
        rows=after.rows(table),
        files=build_tuned_files(table, *tuned.values()),
        notes=[*NOTES, *after.notes],
    )


def _answer(explained: Explained, trees: Trees) -> str:
    full = explained.of("few", FULL)
    first, second = (STUDY_COLUMNS[one].label.lower() for one in trees.of(FULL).mean_absolute.index[:2])
    return (
        f"{len(TREE_FEATURES['few'])} choices explain {full.pooled:.0f} % ({full.pooled_ci_low:.0f} to "
        f"{full.pooled_ci_high:.0f}) of the variance of the full-shot error of encoders left out (n {full.n}), most "
        f"by {first} and {second}."
    )


def _of_set(one: Estimate, features: str) -> Estimate:
    """The estimate, with the number of choices that its trees know."""
    return one.described(method=f"{one.method}, {len(TREE_FEATURES[features])} choices")


def _effect(printed: PrintedWay, trees: Trees) -> Estimate | None:
    """The effect behind a printed way; None if it cannot be computed, for which the claim has the reason."""
    try:
        effect = find_effect_direction(printed.choice, printed.outcome, trees).effect
        return _of_set(effect, trees.of(printed.outcome).features)
    except QueryError:
        return None


def _table_3(trees: Trees) -> FindingsTable:
    rows: dict[str, list[str]] = {}
    for one in TABLE_3:
        cells = rows.setdefault(one.choice.words, [one.choice.words])
        try:
            found = find_effect_direction(one.choice, one.outcome, trees)
            cells.append(f"{ARROWS.get(one.way, '·')} / {ARROWS[found.found]} {found.effect.value:+.2f}")
        except QueryError:
            cells.append(NOT_AVAILABLE)
    return FindingsTable(
        title="Effects of choices (Table 3)",
        headers=["with", *(OUTCOMES[one].label for one in TABLE_3_OUTCOMES)],
        rows=[*rows.values()],
        note="Printed arrow / our arrow and mean SHAP value with the choice minus without, in points; down is better. "
        "The paper prints the first row for fewer dimensions, so its arrows are turned round here. A point: no arrow "
        "is printed, or below 1 % of the outcome's mean.",
    )


SETS = {"filtered": "before filtering", "few": "after filtering"}  # 26 and 14 choices
FULL, FEW = "train_test", "train-nperclass-3_test"
TABLE_3_OUTCOMES = ("usability", "probe_gen", FULL, FEW)
PRINTED: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("printed.toml").read_text(encoding="utf-8"))
TABLE_6: Mapping[str, Mapping[str, str]] = PRINTED["table_6"]  # set of choices -> outcome -> percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedWay:
    """Which way a choice moves an outcome, as it is printed."""

    choice: TreeChoice
    outcome: str
    way: str
    source: str
    features: str = "few"  # which choices the trees know


def choice_of(printed: Mapping[str, Any]) -> TreeChoice:
    """A choice as the data file has it."""
    parts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in printed.items()
    }
    return TreeChoice(**parts)


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
            for claim in of_definition.judged(
                explained, "few", outcome, error=describe_outcome(outcome), printed=number
            )
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
def filtering_costs_nothing(explained: Explained) -> ClaimAnswer:
    changes = {
        outcome: explained.of("few", outcome).pooled - explained.of("filtered", outcome).pooled
        for outcome in TREE_OUTCOMES
    }
    mean, worst = float(np.mean([*changes.values()])), min(changes, key=changes.__getitem__)
    return ClaimAnswer(
        ours=f"pooled, {mean:+.1f} points on average",
        value=mean,
        holds=mean > -1.0,
        reason=f"the {describe_outcome(worst)} loses most, {changes[worst]:+.1f} points",
    )


@of_variance("Encoder generalization is explained least, then usability", paper="struggle, and to a lesser extent")
def encoder_generalization_is_explained_least(explained: Explained) -> ClaimAnswer:
    pooled = {outcome: explained.of("few", outcome).pooled for outcome in TREE_OUTCOMES}
    ordered = sorted(pooled, key=lambda outcome: pooled[outcome])
    return ClaimAnswer(
        ours="least: " + ", ".join(f"{describe_outcome(outcome)} {pooled[outcome]:.0f} %" for outcome in ordered[:3]),
        holds=ordered[:2] == ["enc_gen", "usability"],
        reason="the order differs",
    )


of_most = Claims(source="Appendix D, Figure 18")


@of_most("By SHAP, the {error} is {how} impacted by {words}", paper="{how} impacted")
def some_choices_matter_most(trees: Trees, outcome: str, how: str, features: Sequence[str]) -> ClaimAnswer:
    """Mostly is taken for over half of the sum of mean absolute SHAP values, also for over an equal share."""
    means = trees.of(outcome).mean_absolute
    share = float(means[list(features)].sum() / means.sum())
    least = 0.5 if how == "mostly" else len(features) / len(means)
    largest = ", ".join(map(str, means.index[:4]))
    return ClaimAnswer(
        ours=f"{100 * share:.0f} % of the sum; largest: {largest}",
        value=share,
        holds=share > least,
        reason=f"that is not over {100 * least:.0f} %",
    )


def claims_of_most(trees: Trees, *, outcome: str, how: str, words: str, features: Sequence[str]) -> list[Claim]:
    """That some choices impact an outcome mostly, or also."""
    return of_most.judged(trees, outcome, how, features, error=describe_outcome(outcome), how=how, words=words)


of_all_components = Claims(source="Appendix D, Figure 18")


@of_all_components("By SHAP, dimensionality and projector are important for all components", paper="important")
def dimensionality_and_projector_matter_everywhere(trees: Trees) -> ClaimAnswer:
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
    return ClaimAnswer(
        ours=f"least: {words} for the {describe_outcome(outcome)}, {least:.2f} of an equal share",
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


SAME = 1.0  # percentage points of explained variance by which two definitions may differ and be called the same


@dataclass(frozen=True, slots=True)
class Explained:
    """Explained variance by set of features and outcome, and why an outcome has none."""

    found: Mapping[tuple[str, str], ExplainedVariance]
    refused: Mapping[tuple[str, str], str]  # the sentence of the error

    def of(self, features: str, outcome: str) -> ExplainedVariance:
        """That of one outcome; QueryError with the reason if it could not be computed."""
        if (features, outcome) not in self.found:
            raise QueryError(self.refused.get((features, outcome), f"Nobody asked for the trees of {outcome}."))
        return self.found[features, outcome]


def explained_variances(
    table: StudyTable,
    outcomes: Sequence[str],
    options: StudyOptions,
    *,
    repeats: Mapping[str, int],
    parameters: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Explained:
    """Cross-validation of each outcome with each set of features, by given or stored settings."""
    found: dict[tuple[str, str], ExplainedVariance] = {}
    refused: dict[tuple[str, str], str] = {}
    tasks = [(features, outcome) for features in repeats for outcome in outcomes]
    for step, (features, outcome) in enumerate(tasks):
        options.progress("explained variance", step, len(tasks))
        try:
            found[features, outcome] = explained_variance(
                table,
                outcome,
                features=features,
                parameters=parameters.get(features, {}).get(outcome),
                seed=options.seed,
                n_repeats=repeats[features],
                n_workers=options.n_workers,
            )
        except QueryError as error:
            refused[features, outcome] = str(error)
    return Explained(found, refused)


def nested_percentages(features: Sequence[str], outcomes: Sequence[str]) -> list[Estimate]:
    """The stored percentages of nested tuning on the published rows, by outcome and set of features."""
    found = []
    for name in features:
        for outcome in outcomes:
            try:
                stored = read_stored_tuning(outcome, name)
            except QueryError:  # no settings are stored
                continue
            for definition in ("by_fold", "pooled"):
                if f"nested_{definition}" in stored:
                    found.append(
                        Estimate(
                            term=f"explained variance, {definition.replace('_', ' ')}",
                            n=int(stored["n"]),
                            value=float(stored[f"nested_{definition}"]),
                            unit="percent",
                            outcome=outcome,
                            method=f"boosted trees, nested tuning, {len(TREE_FEATURES[name])} choices",
                            note="of the published rows; each fold is predicted with settings searched without it",
                        )
                    )
    return found


def chance_of_folds(found: ExplainedVariance) -> tuple[float, float]:
    """95 % interval of the paper's percentage over other folds, from the spread of the folds' errors."""
    mean = statistics.fmean(found.fold_errors)
    half = 1.96 * statistics.stdev(found.fold_errors) / math.sqrt(found.n_folds)
    variance = mean**2 / (1 - found.by_fold / 100)
    return 100 * (1 - (mean + half) ** 2 / variance), 100 * (1 - max(mean - half, 0.0) ** 2 / variance)


def claim_of_number(explained: Explained, features: str, outcome: str, printed: str, *, words: str) -> Claim:
    """A printed percentage next to ours, by the paper's definition; the interval is over other folds."""
    claim = f"Percentage of variance explained {words}, by the paper's definition: {describe_outcome(outcome)}"
    try:
        found = explained.of(features, outcome)
    except QueryError as error:
        return number_claim(claim, source="Table 6", printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    low, high = chance_of_folds(found)
    return number_claim(
        claim,
        source="Table 6",
        printed=printed,
        ours=found.by_fold,
        interval=(low, high),
        widest=100 * WIDEST,
        shown=f"{found.by_fold:.2f} (other folds: {low:.0f} to {high:.0f})",
        reason=f"the printed models were trained on another, older set of encoders; ours on {found.n}",
    )


of_definition = Claims(source="Table 6, Appendix C.4")


@of_definition("Table 6 gives the percentage of explained test variance: {error}", paper="{printed}")
def the_percentage_is_of_test_variance(explained: Explained, features: str, outcome: str) -> ClaimAnswer:
    """Explained test variance is that of all encoders out of fold, pooled."""
    found = explained.of(features, outcome)
    least, most = found.n // found.n_folds, -(-found.n // found.n_folds)
    sizes = f"{least} or {most} encoders" if least < most else f"{most} encoder{'' if most == 1 else 's'}"
    return ClaimAnswer(
        ours=f"pooled {_pooled(found)}",
        value=found.pooled,
        holds=found.by_fold - found.pooled < SAME,
        contradicted=found.by_fold - found.pooled >= SAME,
        reason=f"the mean of root-mean-square errors, of folds of {sizes}, is below the root of their "
        f"mean square, which turns {found.pooled:.1f} into {found.by_fold:.1f}",
    )


def explained_table(
    explained: Explained,
    outcomes: Sequence[str],
    printed: Mapping[str, Mapping[str, str]],
    words: Mapping[str, str],
    nested: Sequence[Estimate],
) -> FindingsTable:
    """Table 6 with both definitions, and what nested tuning leaves of the pooled one."""
    strict = {(one.method, one.outcome): f"{one.value:.1f}" for one in nested if one.term.endswith("pooled")}
    rows = []
    for features, numbers in printed.items():
        for outcome in outcomes:
            number = numbers[outcome]
            found = explained.found.get((features, outcome))
            cells = ["not available"] * 2 + [""]
            if found is not None:
                cells = [f"{found.by_fold:.2f}", _pooled(found), str(found.n)]
            method = f"boosted trees, nested tuning, {len(TREE_FEATURES[features])} choices"
            if strict:
                cells.insert(2, strict.get((method, outcome), ""))
            rows.append([OUTCOMES[outcome].label, words[features], number, *cells])
    column = ["pooled, nested"] if strict else []
    said = "Nested: pooled, of the published rows, with settings searched without the fold. " if strict else ""
    return FindingsTable(
        title="Percentage of variance that trees explain of encoders left out (Table 6)",
        headers=["outcome", "choices", "printed", "same definition", "pooled [95 %]", *column, "encoders"],
        rows=rows,
        note="Same definition as printed: 1 - (mean of the folds' RMSE)^2 / variance. Pooled: 1 - mean squared error / "
        f"variance. {said}Folds are drawn among all encoders, so relatives of an encoder are mostly in training, "
        "and the settings were searched on the same encoders.",
    )


def _pooled(found: ExplainedVariance) -> str:
    return f"{found.pooled:.1f} [{found.pooled_ci_low:.1f}, {found.pooled_ci_high:.1f}]"


ROWS = {  # outcomes as rows of a swarm, where room is scarce
    "approx": "Approximation",
    "usability": "Usability",
    "probe_gen": "Probe gen.",
    "enc_gen": "Encoder gen.",
    "train_test": "Full-shot error",
    "train-nperclass-3_test": "3-shot error",
}
TICKS = {  # facts as labels of bars, where room is scarce
    "z_dim": "dimensions",
    "n_parameters": "parameters",
    "projection2_arch": "projector",
    "projection_nparameters_hidden": "hidden proj. param.",
    "pretraining_data": "data",
    "ssl_mode": "objective type",
    "family": "family",
}


SMALL_FIGURES = (  # name, figure, feature, outcomes
    ("dimensions", "Figure 7", "z_dim", TABLE_3_OUTCOMES),
    ("views", "Figure 9a", "nviews", TABLE_3_OUTCOMES),
    ("family", "Figure 10a", "family", TREE_OUTCOMES),
    ("parameters", "Figure 10b", "n_parameters", TREE_OUTCOMES),
    ("dimensions_by_setting", "Figure 20", "z_dim", (FULL, FEW)),
)


def figures_of(trees: Trees) -> list[Figure]:
    if not trees.fitted:
        return []
    found = [*trees.fitted.values()]
    counts = {one.outcome: f"{OUTCOMES[one.outcome].label} {one.n}" for one in found}
    titles = [ROWS[one.outcome] for one in found]
    names = {str(feature) for one in found for feature in one.shap}
    labels = {name: TICKS.get(name, STUDY_COLUMNS[name].label) for name in names}
    figures = [
        Figure(
            name="most_important",
            title="Most important choices (Figure 18)",
            caption="Mean absolute SHAP value of the eight most important choices for each outcome, with the number "
            "of encoders; the last bar is the sum of the others. Axes differ in scale.",
            draw=partial(draw_bars, found, titles, labels),
        ),
        Figure(
            name="all_choices",
            title="Impact of choices (Figure 17)",
            caption=f"SHAP values in percentage points, each point an encoder ({', '.join(counts.values())}); negative "
            "is better. Blue are small numbers and red large ones, grey are choices that are no numbers. Axes differ "
            "in scale.",
            draw=partial(draw_swarms, found, titles, labels),
            data=partial(shap_rows, found),
        ),
    ]
    for name, where, feature, outcomes in SMALL_FIGURES:
        chosen = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if chosen:
            label = STUDY_COLUMNS[feature].label
            unit = "" if feature == "family" else " [number]"
            figure = Figure(
                name=name,
                title=f"Impact of {label} ({where})",
                caption=f"SHAP values in percentage points, each point an encoder "
                f"({', '.join(counts[one.outcome] for one in chosen)}). Negative is better.",
                draw=partial(
                    draw_choice, chosen, [ROWS[one.outcome] for one in chosen], feature, label=f"{label}{unit}"
                ),
            )
            figures.append(figure)
    return figures


def shap_rows(found: Sequence[Importance]) -> list[list[object]]:
    """Every SHAP value with its encoder, outcome and choice; headers first."""
    rows: list[list[object]] = [["encoder", "outcome", "choice", "value", "shap"]]
    for one in found:
        for feature in one.shap:
            cells = zip(one.shap.index, one.values[feature].astype(object), one.shap[feature], strict=True)
            rows += [
                [encoder, one.outcome, feature, "" if value != value else value, f"{share:.6g}"]
                for encoder, value, share in cells
            ]
    return rows
