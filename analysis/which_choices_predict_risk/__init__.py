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

from collections.abc import Sequence
from functools import partial

import numpy as np

from zoo.analysis.estimates import Estimate
from zoo.analysis.outcomes import OUTCOMES, TREE_OUTCOMES
from zoo.analysis.table import StudyTable
from zoo.analysis.tree_features import TREE_FEATURES
from zoo.errors import QueryError
from zoo.evaluation.drawing import Figure
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Findings, Table, answered, number_claim
from zoo.studies.running import StudyOptions
from zoo.studies.tables import cross_table
from zoo.studies.trees import (
    ARROWS,
    Choice,
    Trees,
    claim_of_way,
    error_of,
    fitted_trees,
    settings_of,
    tuned_files,
    tuned_trees,
    way_of,
)

from .explained import (
    Explained,
    claim_of_definition,
    claim_of_number,
    explained_table,
    explained_variances,
    nested_percentages,
)
from .figures import draw_choice, draw_choices, draw_importances

SETS = {"filtered": "before filtering", "few": "after filtering"}  # 26 and 14 choices
REPEATS = {"filtered": 1, "few": 3}  # the paper has one division into 30 folds; three depend less on chance
TABLE_6 = {
    "filtered": ("96.10", "65.46", "86.41", "43.52", "85.28", "92.69"),
    "few": ("89.59", "68.17", "87.26", "41.35", "86.05", "92.48"),
}  # in the order of TREE_OUTCOMES
N_SUBSAMPLES = 8
FULL, FEW = "train_test", "train-nperclass-3_test"
TABLE_3_OUTCOMES = ("usability", "probe_gen", FULL, FEW)
DIMENSIONS = Choice(words="more dimensions", feature="z_dim")
VIT = Choice(words="a ViT", feature="family", levels=("vit",))
PARAMETERS = Choice(words="more parameters", feature="n_parameters")
MLP = Choice(words="an MLP projector", feature="projection2_arch", levels=("mlp",))
EPOCHS = Choice(words="more epochs", feature="epochs")
LARGER_BATCH = Choice(words="larger batches", feature="batch_size")
CLASSES = Choice(words="more classes of a clustering objective", feature="n_classes")
IMAGENET_22K = Choice(words="ImageNet-22K", feature="pretraining_data", levels=("ImageNet-22K",))
SMALLER_PATCHES = Choice(words="smaller patches of ViTs", feature="patch_size", smaller=True, family="vit")
DOWN = ("lowers",) * 4
TABLE_3 = (  # printed for fewer dimensions, here for more; the text of Section 5.3.3 says what two empty cells mean
    (DIMENSIONS, ("lowers", "raises", "lowers", "raises")),
    (Choice(words="more views", feature="nviews"), DOWN),
    (VIT, ("no worse", *DOWN[1:])),
    (PARAMETERS, ("lowers", "little", *DOWN[2:])),
    (MLP, DOWN),
    (Choice(words="a generative objective", feature="ssl_mode", levels=("generative",),
            tied=("projection2_arch", "projection_nparameters_hidden")), ("raises", "lowers", "raises", "lowers")),
    (EPOCHS, DOWN),
    (Choice(words="Adam or AdamW", feature="optimizer", levels=("adam", "adamw")), ("", *DOWN[1:])),
)  # fmt: skip
OTHER_WAYS = (  # choice, outcomes, way, where it is printed
    (PARAMETERS, ("approx",), "lowers", "Section 5.3.3, Figure 10b"),
    (PARAMETERS, ("enc_gen",), "little", "Section 5.3.3, Figure 10b"),
    (Choice(words="more kinds of augmentations", feature="n_augmentations"), ("usability",), "lowers", "Figure 17b"),
    (MLP, ("approx", "enc_gen"), "lowers", "Appendix D.3, Figure 17e"),
    (Choice(words="more hidden projector parameters", feature="projection_nparameters_hidden"), ("usability",),
     "lowers", "Appendix D.3, Figure 17f"),
    (SMALLER_PATCHES, TREE_OUTCOMES, "lowers", "Appendix D.3, Figure 17i"),
    (IMAGENET_22K, ("probe_gen", "enc_gen"), "raises", "Appendix D.2, Figure 17j"),
    (EPOCHS, ("enc_gen",), "raises", "Appendix D.5, Figure 17k"),
)  # fmt: skip
NOTES = (
    "The arrows of Table 3 were read from the text of the paper, which does not tell much better from better.",
    "SHAP values describe what trees lean on, not what would happen if a choice were made otherwise. Choices that come "
    "together (ViT and AdamW; generative objective and no projector) share their credit as the trees happen to split.",
    "Trees that explain little, as those of encoder generalization do, have SHAP values that say little.",
)
OTHER_WAYS_BEFORE = (  # of choices that only the trees before filtering know
    (LARGER_BATCH, TREE_OUTCOMES[:4], "lowers", "Appendix D.5, Figure 17m"),
    (CLASSES, ("usability",), "lowers", "Appendix D.6, Figure 17n"),
    (CLASSES, ("probe_gen",), "raises", "Appendix D.6, Figure 17n"),
)  # fmt: skip
MOST = (  # outcome, as printed, by what, features; Appendix D and Figure 18
    ("usability", "mostly", "dimensionality, projector and objective",
     ("z_dim", "projection2_arch", "projection_nparameters_hidden", "objective", "ssl_mode")),
    ("probe_gen", "mostly", "dimensionality, architecture and optimizer",
     ("z_dim", "architecture", "family", "optimizer")),
    ("approx", "mostly", "the architecture", ("n_parameters", "family", "z_dim", "architecture")),
    ("enc_gen", "also", "augmentations and views", ("n_augmentations", "nviews")),
)  # fmt: skip
FIGURE_17 = ("z_dim", "n_augmentations", "nviews", "ssl_mode", "projection2_arch", "projection_nparameters_hidden",
             "family", "n_parameters", "patch_size", "pretraining_data", "epochs", "optimizer", "batch_size",
             "n_classes")  # fmt: skip
SMALL_FIGURES = (  # name, figure, feature, outcomes, normalised
    ("dimensions", "Figure 7", "z_dim", TABLE_3_OUTCOMES, True),
    ("views", "Figure 9a", "nviews", TABLE_3_OUTCOMES, True),
    ("family", "Figure 10a", "family", TREE_OUTCOMES, True),
    ("parameters", "Figure 10b", "n_parameters", TREE_OUTCOMES, True),
    ("dimensions_by_setting", "Figure 20", "z_dim", (FULL, FEW), False),
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Explained variance before and after filtering, and what the SHAP values of the trees say of each choice."""
    tuned = {name: tuned_trees(table, TREE_OUTCOMES, options, features=name) for name in SETS}
    settings = {name: settings_of(own) for name, own in tuned.items()}
    explained = explained_variances(table, TREE_OUTCOMES, options, repeats=REPEATS, parameters=settings)
    trees = fitted_trees(table, TREE_OUTCOMES, options, parameters=settings["few"], n_subsamples=N_SUBSAMPLES)
    before = fitted_trees(table, TREE_OUTCOMES, options, features="filtered", parameters=settings["filtered"],
                          n_subsamples=N_SUBSAMPLES, again_for=TREE_OUTCOMES[:4])  # fmt: skip
    nested = [] if options.tune else nested_percentages([*SETS], TREE_OUTCOMES)
    others = [(models, choice, outcome, way, source)
              for models, statements in ((trees, OTHER_WAYS), (before, OTHER_WAYS_BEFORE))
              for choice, outcomes, way, source in statements for outcome in outcomes]  # fmt: skip
    effects = [_effect(choice, outcome, models) for models, choice, outcome, _, _ in others]
    effects += [_effect(choice, outcome, trees) for choice, _ in TABLE_3 for outcome in TABLE_3_OUTCOMES]
    return Findings(
        claims=[
            *(claim_of_number(explained, name, outcome, number, words=SETS[name])
              for name, numbers in TABLE_6.items() for outcome, number in zip(TREE_OUTCOMES, numbers, strict=True)),
            *(claim_of_definition(explained, "few", outcome, number)
              for outcome, number in zip(TREE_OUTCOMES, TABLE_6["few"], strict=True)),
            _claim_of_filtering(explained), _claim_of_struggling(explained),
            *(claim_of_way(choice, outcome, way, trees, source="Table 3")
              for choice, ways in TABLE_3 for outcome, way in zip(TABLE_3_OUTCOMES, ways, strict=True) if way),
            *(claim_of_way(choice, outcome, way, models, source=source)
              for models, choice, outcome, way, source in others),
            *(_claim_of_most(trees, *statement) for statement in MOST),
            _claim_of_all_components(trees), *_claims_of_figure_20(trees),
        ],
        estimates=[*(_of_set(one, found.features) for found in explained.found.values() for one in found.estimates),
                   *nested,
                   *(_of_set(one, found.features) for models in (trees, before) for found in models.fitted.values()
                     for one in found.estimates), *(one for one in effects if one is not None)],
        tables=[explained_table(explained, TREE_OUTCOMES, TABLE_6, SETS, nested), _table_3(trees),
                cross_table("Mean absolute SHAP value (Figure 18)", "choice", {
                    OUTCOMES[outcome].label: found.estimates for outcome, found in trees.fitted.items()
                }, signed=False, note="In points of each outcome [95 %: which encoders are averaged over].")],
        figures=_figures(table, trees, before),
        rows=trees.rows(table),
        files=tuned_files(table, *tuned.values()),
        notes=[*NOTES, *trees.notes],
    )  # fmt: skip


def _of_set(one: Estimate, features: str) -> Estimate:
    return one.described(method=f"{one.method}, {len(TREE_FEATURES[features])} choices")


def _effect(choice: Choice, outcome: str, trees: Trees) -> Estimate | None:
    try:
        return _of_set(way_of(choice, outcome, trees).effect, trees.of(outcome).features)
    except QueryError:  # the claim tells the reason
        return None


def _claim_of_filtering(explained: Explained) -> Claim:
    def answer() -> Answer:
        both = [(explained.of("few", outcome).pooled, explained.of("filtered", outcome).pooled, outcome)
                for outcome in TREE_OUTCOMES]  # fmt: skip
        change = float(np.mean([few - filtered for few, filtered, _ in both]))
        worst = min(both, key=lambda one: one[0] - one[1])
        return Answer(
            ours=f"pooled, {change:+.1f} points on average", value=change, holds=change > -1.0,
            reason=f"the {error_of(worst[2])} loses most, {worst[0] - worst[1]:+.1f} points",
        )  # fmt: skip

    return answered("Filtering to 14 choices does not lower the explained variance", source="Appendix C.4",
                    paper="without decreasing", answer=answer)  # fmt: skip


def _claim_of_struggling(explained: Explained) -> Claim:
    def answer() -> Answer:
        pooled = {outcome: explained.of("few", outcome).pooled for outcome in TREE_OUTCOMES}
        ordered = sorted(pooled, key=lambda outcome: pooled[outcome])
        return Answer(
            ours="least: " + ", ".join(f"{error_of(outcome)} {pooled[outcome]:.0f} %" for outcome in ordered[:3]),
            holds=ordered[:2] == ["enc_gen", "usability"], reason="the order differs",
        )  # fmt: skip

    return answered("Encoder generalization is explained least, then usability", source="Appendix C.4",
                    paper="struggle, and to a lesser extent", answer=answer)  # fmt: skip


def _claim_of_most(trees: Trees, outcome: str, how: str, words: str, features: Sequence[str]) -> Claim:
    """Mostly is taken for over half of the sum of mean absolute SHAP values, also for over an equal share."""

    def answer() -> Answer:
        means = trees.of(outcome).mean_absolute
        share = float(means[list(features)].sum() / means.sum())
        least = 0.5 if how == "mostly" else len(features) / len(means)
        largest = ", ".join(map(str, means.index[:4]))
        return Answer(ours=f"{100 * share:.0f} % of the sum; largest: {largest}", value=share, holds=share > least,
                      reason=f"that is not over {100 * least:.0f} %")  # fmt: skip

    return answered(f"By SHAP, the {error_of(outcome)} is {how} impacted by {words}", source="Appendix D, Figure 18",
                    paper=f"{how} impacted", answer=answer)  # fmt: skip


def _claim_of_all_components(trees: Trees) -> Claim:
    """Important is taken for more than an equal share of the sum of mean absolute SHAP values."""

    def answer() -> Answer:
        least = []
        for features in (("z_dim",), ("projection2_arch", "projection_nparameters_hidden")):
            for outcome in TREE_OUTCOMES[:4]:
                means = trees.of(outcome).mean_absolute
                ratio = float(means[list(features)].sum() / means.sum() * len(means) / len(features))
                least.append((ratio, "dimensionality" if len(features) == 1 else "projector", outcome))
        ratio, words, outcome = min(least)
        return Answer(ours=f"least: {words} for the {error_of(outcome)}, {ratio:.2f} of an equal share", value=ratio,
                      holds=ratio > 1, reason="it has less than an equal share there")  # fmt: skip

    return answered("By SHAP, dimensionality and projector are important for all components",
                    source="Appendix D, Figure 18", paper="important", answer=answer)  # fmt: skip


def _claims_of_figure_20(trees: Trees) -> list[Claim]:
    """The largest SHAP values of small dimensionalities, in accuracy points."""
    claims = []
    for outcome, printed, words in ((FEW, "4", "improves 3-shot accuracy"), (FULL, "1", "lowers full-shot accuracy")):
        found, largest = trees.fitted.get(outcome), None
        if found is not None:
            shap = found.shap.loc[found.values["z_dim"] < found.values["z_dim"].median(), "z_dim"]
            largest = float(-shap.min() if outcome == FEW else shap.max())
        claims.append(number_claim(
            f"By SHAP, a low dimensionality {words} by up to so many points", source="Appendix D.1, Figure 20",
            printed=printed, ours=largest, shown=NOT_AVAILABLE if largest is None else None,
            reason=trees.refused.get(outcome, "the largest SHAP value of one encoder hangs on the trees' settings"),
        ))  # fmt: skip
    return claims


def _table_3(trees: Trees) -> Table:
    rows = []
    for choice, printed in TABLE_3:
        cells = [choice.words]
        for outcome, way in zip(TABLE_3_OUTCOMES, printed, strict=True):
            try:
                found = way_of(choice, outcome, trees)
                cells.append(f"{ARROWS.get(way, '·')} / {ARROWS[found.found]} {found.effect.value:+.2f}")
            except QueryError:
                cells.append(NOT_AVAILABLE)
        rows.append(cells)
    return Table(
        title="Effects of choices (Table 3)", headers=["with", *(OUTCOMES[one].label for one in TABLE_3_OUTCOMES)],
        rows=rows,
        note="Printed arrow / our arrow and mean SHAP value with the choice minus without, in points; down is better. "
        "The paper prints the first row for fewer dimensions, so its arrows are turned round here. A point: no arrow "
        "is printed, or below 1 % of the outcome's mean.",
    )  # fmt: skip


def _figures(table: StudyTable, trees: Trees, before: Trees) -> list[Figure]:
    if not trees.fitted:
        return []
    counts = {outcome: f"{OUTCOMES[outcome].label} {found.n}" for outcome, found in trees.fitted.items()}
    panels = [(name, [*(trees if name in TREE_FEATURES["few"] else before).fitted.values()]) for name in FIGURE_17]
    figures = [
        Figure(name="most_important", title="Most important choices (Figure 18)",
               caption="Mean absolute SHAP value of the eight most important choices for each outcome, with the number "
               "of encoders. Axes differ in scale.",
               draw=partial(draw_importances, [*trees.fitted.values()])),
        Figure(name="all_choices", title="Impact of choices (Figure 17)",
               caption="SHAP values as shares of the mean outcome, each point an encoder "
               f"({', '.join(counts.values())}); negative is better. Axes differ in scale: "
               "what is far apart in one panel is close together in another. Batch size and classes are from the trees "
               "before filtering.",
               draw=partial(draw_choices, panels, table)),
    ]  # fmt: skip
    for name, where, feature, outcomes, normalised in SMALL_FIGURES:
        found = [trees.fitted[outcome] for outcome in outcomes if outcome in trees.fitted]
        if found:
            figures.append(Figure(
                name=name, title=f"Impact of {table.column(feature).label} ({where})",
                caption=f"SHAP values {'as shares of the mean outcome' if normalised else 'in percentage points'}, "
                f"each point an encoder ({', '.join(counts[one.outcome] for one in found)}). Negative is better.",
                draw=partial(draw_choice, found, feature, table, normalised=normalised),
            ))  # fmt: skip
    return figures
