"""Do metrics that need no labels predict how well a probe does?

Claim: the effective rank of the features goes with accuracy among runs of one method, and choosing hyper-parameters by
it costs at most 1.4 points (RankMe); LiDAR orders encoders better than RankMe and costs less (LiDAR); uniformity alone
says nothing (Kendall .03), alignment little (.26), and CLID orders 28 checkpoints best (.75), adding to what ImageNet
accuracy says of other data sets (.74 against .71; CLID).

Expected, of 142 published encoders, which are not those of the papers: Kendall of the effective dimensionality with
full-shot accuracy .55 [.38, .71] within objectives and .21 [.03, .43] over all; uniformity .08 [-.15, .30], alignment
.19 [-.04, .35], contrast .21 [-.04, .42]. Choosing among encoders that differ in one choice by the effective
dimensionality costs .86 points [.33, 1.65], which is 46 % [1, 80] of the way from a choice at random to the oracle's;
uniformity 1.30, alignment 1.66. Beside 3-shot accuracy no statistic adds anything.

Of tiny encoders of the pocket, whose rows are in results/measured: on shapes (15) RankMe .30 [.05, .76], LiDAR -.14
[-.69, .21], cluster learnability -.17 [-.78, .03], CLID -.10 [-.33, .18], rotation prediction .61 [.49, 1.00] and
one-shot accuracy .85 [.56, 1.00]; on digits (15) cluster learnability .68 [.33, .94], CLID .35 [-.37, .43]. Other
measured populations add themselves when results/ has their rows.

Command: zoo study label_free_vs_probe
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import Resampling
from zoo.analysis.label_free import (
    DIMENSION,
    PUBLISHED,
    RESNETS,
    Measured,
    Population,
    clid_of,
    measured_populations,
    measured_rows,
    published_population,
    resnets_of,
)
from zoo.analysis.label_free_agreement import Predictions, joint_correlations, predictions, setting_correlations
from zoo.analysis.table import FEWEST, StudyTable
from zoo.errors import QueryError
from zoo.results.printed import clid_checkpoints, published_label_free
from zoo.studies.findings import Claim, Findings
from zoo.studies.running import StudyOptions

from . import tables
from .claims import Held, measured_claims, printed_claims, rank_claims, regret_claims, uniformity_claims
from .figures import file_key, grid_figure, label_free_figures

CHECKPOINTS = "published encoders among the 28 of CLID"
RANK = "correlation_rank"  # of those that were published for most encoders
FEW_SHOT = "3-shot"
NOTES = (
    "No population here is that of a paper: RankMe and LiDAR trained runs that differ in hyper-parameters alone, and "
    "took embeddings behind the projector; published statistics are of representations, of encoders that differ in "
    "many things at once. That a number differs does not show either to be wrong.",
    "Published statistics have no RankMe, LiDAR, dimension or learnability; the rank of the correlation matrix stands "
    "for the effective rank.",
    "Metrics and accuracies are measured once an encoder; their own errors are in no interval. The more encoders a "
    "group has, the more the oracle's choice owes to luck.",
    "Intervals over few clusters or groups are too short: with 5 to 8 of them they cover 81 to 87 % instead of 95 %.",
    "W-CLID of an encoder has weights that were fitted on the others, which pulls its correlation below 0 (to about "
    "-.2) where nothing can be told.",
    "What goes with a metric is not what it brings about: nothing was changed on purpose.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Correlations, joint ranks and selections of every population with metrics and accuracies."""
    measured = measured_populations(measured_rows(with_mine=table.with_mine, exclude_wrong=table.corrected))
    published = published_population(table)
    populations = [published, resnets_of(published), _checkpoints(published), *measured.populations]
    asked = [one for one in populations if len(one) >= FEWEST and len(one.predictors.columns)]
    found: dict[str, Predictions] = {}
    for step, population in enumerate(asked):
        options.progress(population.name, step, len(asked))
        found[population.name] = predictions(population, seed=options.seed)
    if not found:
        raise QueryError(
            f"{len(published)} encoders of the table have a statistic of their features and a full-shot error, and "
            f"results/ has none measured; expected at least {FEWEST}, so choose a larger table."
        )
    joint = _joint(published, measured.populations, options.seed)
    grids = _grids(measured, options.seed)
    statistics = ("pearson", "spearman", "kendall")
    correlations = [one for statistic in statistics for one in published_label_free(statistic=statistic)]
    return Findings(
        claims=_claims(found, measured, joint, grids),
        estimates=[
            *(one for own in found.values() for one in own.estimates()),
            *(one for own in joint.values() for one in own),
            *(one for own in grids.values() for one in own),
        ],
        tables=[
            *(tables.correlations_table(one) for one in found.values()),
            *(tables.settings_table(one) for one in found.values()),
            *([tables.joint_table(joint)] if joint else []),
            *(tables.selection_table(one) for one in found.values()),
            tables.printed_table(correlations, found),
            tables.recovered_table(published_label_free(statistic="recovered_accuracy")),
            *([tables.grid_table([one for own in grids.values() for one in own])] if grids else []),
        ],
        figures=[
            *label_free_figures({file_key(name): one for name, one in found.items()}),
            *(grid_figure(file_key(dataset), own) for dataset, own in grids.items()),
        ],
        rows=[row for name, one in found.items() for row in tables.rows_of(one.population, one)],
        notes=[
            *NOTES,
            _placed(published),
            *measured.refused.values(),
            *(f"{one.name}: {sentence}" for one in measured.populations for sentence in one.unanswered),
        ],
    )


def _placed(published: Population) -> str:
    """How many of the checkpoints of the CLID paper have a card, and how many of them published statistics."""
    rows = clid_checkpoints()
    carded = [one.encoder for one in rows if one.encoder]
    others = ", ".join(one.name for one in rows if not one.encoder)
    n = len(_checkpoints(published))
    return (
        f"{len(carded)} of the {len(rows)} checkpoints of CLID have a card here, and {n} of these have published "
        f"statistics and an accuracy, so that only they are in a population. Which weights are meant is not told of "
        f"{others}."
    )


def _checkpoints(published: Population) -> Population:
    """The published encoders that are among the checkpoints of the CLID paper."""
    ids = [one.encoder for one in clid_checkpoints() if one.encoder]
    return published.only(ids, name=CHECKPOINTS, because="not among the 28")


def _joint(published: Population, measured: Sequence[Population], seed: int) -> dict[str, list[Estimate]]:
    """What each metric adds to an accuracy that is known: with few labels, and on another data set."""
    found: dict[str, list[Estimate]] = {}
    pairs: list[tuple[Population, Hashable, Hashable]] = [(published, FEW_SHOT, published.oracle.name)]
    pairs += [(one, one.oracle.name, name) for one in measured for name in one.accuracies if " on " in str(name)]
    for source, first, target in pairs:
        if {first, target} <= set(source.accuracies):
            own = joint_correlations(
                source.predictors[source.choosers],
                source.accuracies[first],
                source.accuracies[target],
                population=source.name,
                resampling=Resampling(clusters=source.objectives, seed=seed),
            )
            if own:
                found[f"{source.name}: {first} -> {target}"] = own
    return found


def _grids(measured: Measured, seed: int) -> dict[str, list[Estimate]]:
    """Correlations of CLID by setting of cluster learnability, of each data set that has several settings."""
    found = {}
    for population in measured.populations:
        grid = measured.grids[population.dataset]
        if len(grid) > 1 and DIMENSION in population.values:
            dimension = population.values[DIMENSION]
            found[population.dataset] = setting_correlations(
                grid,
                population.oracle,
                population=population.name,
                combine=partial(clid_of, dimension),
                resampling=Resampling(clusters=population.objectives, seed=seed),
            )
    return found


def _claims(
    found: Mapping[str, Predictions],
    measured: Measured,
    joint: Mapping[str, Sequence[Estimate]],
    grids: Mapping[str, Sequence[Estimate]],
) -> list[Claim]:
    table_1 = published_label_free(paper="CLID", table="Table 1")
    figure_1 = published_label_free(paper="RankMe", statistic="recovered_accuracy", target="imagenet-1k")
    table_3 = published_label_free(paper="CLID", statistic="kendall_of_joint_rank")
    missing = f"fewer than {FEWEST} encoders of the table have a statistic of their features and a full-shot error"
    published = Held(predictions=found.get(PUBLISHED, missing), where=PUBLISHED)
    resnets = Held(predictions=found.get(RESNETS, missing), where=RESNETS)
    main, name, dataset = _main(found, measured)
    transfer = next((own for where, own in joint.items() if name and where.startswith(f"{name}: ")), ())
    ours = Held(predictions=main, joint=transfer, grid=grids.get(dataset, ()))
    return [
        *printed_claims(table_1, list(found.values())),
        *uniformity_claims(published, table_1),
        *rank_claims(published, RANK),
        *rank_claims(resnets, RANK),
        *regret_claims(published, RANK, figure_1),
        *rank_claims(ours, "rankme"),
        *regret_claims(ours, "rankme", figure_1),
        *measured_claims(ours, table_3),
    ]


def _main(found: Mapping[str, Predictions], measured: Measured) -> tuple[Predictions | str, str, str]:
    """The measured population that claims are held against: most of its encoders were pretrained on its data set."""
    if not measured.populations:
        reasons = " ".join(measured.refused.values())
        return reasons or "No encoder of results/ has a label-free metric and an accuracy; measure some.", "", ""

    def at_home(one: Population) -> int:
        return int((one.facts.frame["pretraining_data"] == one.dataset).sum())

    chosen = max(measured.populations, key=at_home)
    missing = f"fewer than {FEWEST} {chosen.name} share a metric; measure more"
    return found.get(chosen.name, missing), chosen.name, chosen.dataset
