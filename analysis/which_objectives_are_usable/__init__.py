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

from collections.abc import Sequence

from zoo.analysis.columns import OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.groups import adjusted_differences, group_differences, group_means
from zoo.analysis.importance import mean_by_value
from zoo.analysis.table import StudyTable
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions
from zoo.studies.tables import cross_table, estimate_table
from zoo.studies.trees import fitted_trees, settings_of, tuned_files, tuned_trees

from .claims import FEWEST, claims_of
from .figures import SHOWN, figures_of

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
    "A SHAP value describes what trees lean on. Choices that come together (objective, projector, year, architecture, "
    "data) share their credit, so a small value is no proof of a small effect.",
    "Encoders of one method resemble each other more than chance would have it, so intervals of means are too narrow "
    "rather than too wide.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Means and differences of usability by type of objective, and SHAP values of types and objectives."""
    means = group_means(table, "usability", "ssl_mode")
    pairs = group_differences(table, "usability", "ssl_mode")
    fixed = {
        words: adjusted_differences(
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
    tuned = tuned_trees(table, TREE_OUTCOMES, options)
    trees = fitted_trees(table, TREE_OUTCOMES, options, parameters=settings_of(tuned), n_subsamples=8, again_for=SHOWN)
    shares = {outcome: mean_by_value(found, "objective") for outcome, found in trees.fitted.items()}
    frequent = {OUTCOMES[outcome].label: [one for one in found if one.n >= FEWEST] for outcome, found in shares.items()}
    types = [mean_by_value(found, "ssl_mode") for outcome, found in trees.fitted.items() if outcome == "usability"]
    left_out = table.n_left_out("usability", "ssl_mode")
    return Findings(
        claims=claims_of(means, pairs, fixed, trees),
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
            cross_table(
                "Differences to contrastive encoders with other columns held fixed",
                "types",
                fixed,
                digits=1,
                note="Percentage points of usability error [95 %], linear models; encoder: family, "
                "logarithms of parameters and dimensions.",
            ),
            cross_table(
                "Mean SHAP value of the objective (Figure 24)",
                "objective",
                frequent,
                note=f"Points; negative is better. Objectives with at least {FEWEST} encoders that have the outcome.",
            ),
            estimate_table("Full-shot error of clustering objectives, in percent", "objective", within, signed=False),
            cross_table(
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
            Rows(part="usability by type of objective", used=sum(one.n for one in means), left_out=left_out),
            *trees.rows(table),
        ],
        files=tuned_files(table, tuned, name="tuned_trees_of_objectives.toml"),
        notes=[*NOTES, *trees.notes],
    )


def _within(clustering: StudyTable) -> tuple[Sequence[Estimate], Sequence[Estimate], str]:
    """Clustering objectives: mean full-shot errors, differences to the most frequent one at equal encoder, that one."""
    if clustering.frame["train_test"].isna().all():
        return (), (), "none"
    means = group_means(clustering, "train_test", "objective")
    reference = max(means, key=lambda one: (one.n, one.term)).term
    found = adjusted_differences(
        clustering,
        "train_test",
        "objective",
        reference=reference,
        fixed=(*ENCODER, "nviews", "patch_size"),
        logged=(*LOGGED, "nviews"),
    )
    return means, [one.described(term=one.term.removesuffix(f" - {reference}")) for one in found], reference
