"""Do metrics that need no labels predict how well a probe does?

Claim: the effective rank of the features goes with accuracy among runs of one method, and choosing hyper-parameters by
it costs at most 1.4 points (RankMe); LiDAR orders encoders better than RankMe and costs less (LiDAR); uniformity alone
says nothing (Kendall .03), alignment little (.26), and CLID orders 28 checkpoints best (.75), adding to what ImageNet
accuracy says of other data sets (.74 against .71; CLID).

Expected, of 142 published encoders, which are not those of the papers: Kendall of the effective dimensionality with
full-shot accuracy .55 [.38, .71] within objectives and .21 [.03, .43] over all; uniformity .08 [-.15, .30], alignment
.19 [-.04, .35], contrast .21 [-.04, .42]. Choosing among encoders that differ in one choice by the effective
dimensionality costs .86 points [.33, 1.65], which is 46 % [1, 80] of the way from a choice at random to the oracle's;
uniformity 1.30, alignment 1.66. Given 3-shot accuracy no statistic adds anything.

Of toy encoders, whose rows are in results/measured: on shapes (15) RankMe .30 [.05, .76], LiDAR -.14
[-.69, .21], cluster learnability -.17 [-.78, .03], CLID -.10 [-.33, .18], rotation prediction .61 [.49, 1.00] and
one-shot accuracy .85 [.56, 1.00]; on digits (15) cluster learnability .68 [.33, .94], CLID .35 [-.37, .43]. Other
measured populations add themselves when results/ has their rows.

Command: zoo study label_free_vs_probe
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH, Resampling
from zoo.analysis.label_free import get_metric_title, needs_labels, read_measured_rows
from zoo.analysis.table import FEWEST, StudyTable
from zoo.errors import QueryError
from zoo.results.paper_tables import PAPERS, PrintedNumber, read_clid_checkpoints, read_printed_label_free
from zoo.results.values import Row
from zoo.studies.findings import (
    NOT_AVAILABLE,
    WIDEST,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_unsigned

from . import tables
from .agreement import (
    ANY,
    OVERALL,
    REGRET,
    Predictions,
    joint_correlations,
    predictions,
    setting_correlations,
)
from .populations import (
    DIMENSION,
    PUBLISHED,
    RESNETS,
    MeasuredPopulations,
    MetricPopulation,
    build_measured_populations,
    compute_clid,
    load_published_population,
    select_resnet50s,
)
from .tables import file_key, grid_figure, label_free_figures, printed_regrets, printed_text, text_of

CHECKPOINTS = "published encoders among the 28 of CLID"
RANK = "correlation_rank"  # of those that were published for most encoders
FEW_SHOT = "3-shot"
NOTES = (
    "No population here is that of a paper: RankMe and LiDAR trained runs that differ in hyper-parameters alone, and "
    "took embeddings behind the projector; published statistics are of representations, of encoders that differ in "
    "many things at once. That a number differs does not show either to be wrong.",
    "Published statistics have no RankMe, LiDAR, dimension or learnability; the rank of the correlation matrix stands "
    "for the effective rank.",
    "Metrics and accuracies are measured once per encoder; their own errors are in no interval. The more encoders a "
    "group has, the more the oracle's choice owes to luck.",
    "Intervals over few clusters or groups are too short: with 5 to 8 of them they cover 81 to 87 % instead of 95 %.",
    "W-CLID of an encoder has weights that were fitted on the others, which pulls its correlation below 0 (to about "
    "-.2) where nothing can be told.",
    "What goes with a metric is not what it brings about: nothing was changed on purpose.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Correlations, joint ranks and selections of every population with metrics and accuracies."""
    measured = _measured(tuple(read_measured_rows(with_mine=table.with_mine, exclude_wrong=table.corrected)))
    published = load_published_population(table)
    populations = [published, select_resnet50s(published), _checkpoints(published), *measured.populations]
    asked = [one for one in populations if len(one) >= FEWEST and len(one.predictors.columns)]
    found: dict[str, Predictions] = {}
    for step, population in enumerate(asked):
        options.progress(population.name, step, len(asked))
        found[population.name] = _predictions(population, options.seed)
    if not found:
        raise QueryError(
            f"{len(published)} encoders of the table have a statistic of their features and a full-shot error, and "
            f"results/ has none measured; expected at least {FEWEST}, so choose a larger table."
        )
    joint = _joint(published, measured.populations, options.seed)
    grids = _grids(measured, options.seed)
    statistics = ("pearson", "spearman", "kendall")
    correlations = [one for statistic in statistics for one in read_printed_label_free(statistic=statistic)]
    return Findings(
        claims=_claims(found, measured, joint, grids),
        answer=answer_in_sentence(lambda: _answer(found.get(published.name))),
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
            tables.recovered_table(read_printed_label_free(statistic="recovered_accuracy")),
            *([tables.grid_table([one for own in grids.values() for one in own])] if grids else []),
        ],
        figures=[
            *label_free_figures({file_key(name): one for name, one in found.items()}),
            *(grid_figure(dataset, own) for dataset, own in grids.items()),
        ],
        rows=[row for name, one in found.items() for row in tables.rows_of(one.population, one)],
        notes=[
            *NOTES,
            _placed(published),
            *measured.refused.values(),
            *(f"{one.name}: {sentence}" for one in measured.populations for sentence in one.unanswered),
        ],
    )


def _answer(found: Predictions | None) -> str:
    over_all = None if found is None else found.correlation(RANK, "Kendall")
    within = None if found is None else found.within_of(RANK)
    if over_all is None or within is None:
        raise QueryError("Too few published encoders of the table have an effective dimensionality; add some.")
    n_high = (require_value(over_all) >= HIGH) + (require_value(within) >= HIGH)
    return (
        f"{('Hardly', 'In part', 'Yes')[n_high]}: effective dimensionality orders {over_all.n} published encoders "
        f"like their accuracy by Kendall's tau {format_statement(over_all)}, those of one objective by "
        f"{format_statement(within)}."
    )


@cache  # a report asks twice, with two tables of encoders that mostly share the measured rows
def _measured(rows: tuple[Row, ...]) -> MeasuredPopulations:
    return build_measured_populations(rows)


@cache
def _predictions(population: MetricPopulation, seed: int) -> Predictions:
    return predictions(population, seed=seed)


def _placed(published: MetricPopulation) -> str:
    """How many of the checkpoints of the CLID paper have a card, and how many of them published statistics."""
    rows = read_clid_checkpoints()
    carded = [one.encoder for one in rows if one.encoder]
    others = ", ".join(one.name for one in rows if not one.encoder)
    n = len(_checkpoints(published))
    return (
        f"{len(carded)} of the {len(rows)} checkpoints of CLID have a card here, and {n} of these have published "
        f"statistics and an accuracy, so that only they are in a population. Which weights are meant is not told of "
        f"{others}."
    )


def _checkpoints(published: MetricPopulation) -> MetricPopulation:
    """The published encoders that are among the checkpoints of the CLID paper."""
    ids = [one.encoder for one in read_clid_checkpoints() if one.encoder]
    return published.only(ids, name=CHECKPOINTS, because="not among the 28")


def _joint(published: MetricPopulation, measured: Sequence[MetricPopulation], seed: int) -> dict[str, list[Estimate]]:
    """What each metric adds to an accuracy that is known: with few labels, and on another data set."""
    found: dict[str, list[Estimate]] = {}
    pairs: list[tuple[MetricPopulation, Hashable, Hashable]] = [(published, FEW_SHOT, published.oracle.name)]
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


def _grids(measured: MeasuredPopulations, seed: int) -> dict[str, list[Estimate]]:
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
                combine=partial(compute_clid, dimension),
                resampling=Resampling(clusters=population.objectives, seed=seed),
            )
    return found


def _claims(
    found: Mapping[str, Predictions],
    measured: MeasuredPopulations,
    joint: Mapping[str, Sequence[Estimate]],
    grids: Mapping[str, Sequence[Estimate]],
) -> list[Claim]:
    table_1 = read_printed_label_free(paper="CLID", table="Table 1")
    figure_1 = read_printed_label_free(paper="RankMe", statistic="recovered_accuracy", target="imagenet-1k")
    table_3 = read_printed_label_free(paper="CLID", statistic="kendall_of_joint_rank")
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


def _main(found: Mapping[str, Predictions], measured: MeasuredPopulations) -> tuple[Predictions | str, str, str]:
    """The measured population that claims are held against: most of its encoders were pretrained on its data set."""
    if not measured.populations:
        reasons = " ".join(measured.refused.values())
        return reasons or "No encoder of results/ has a label-free metric and an accuracy; measure some.", "", ""

    def at_home(one: MetricPopulation) -> int:
        return int((one.facts.frame["pretraining_data"] == one.dataset).sum())

    chosen = max(measured.populations, key=at_home)
    missing = f"fewer than {FEWEST} {chosen.name} share a metric; measure more"
    return found.get(chosen.name, missing), chosen.name, chosen.dataset


OURS = "measured encoders"
_PAPER_OF = {identifier: title for title, identifier in PAPERS.items()}
_OTHERS = "it is of other encoders than ours, so that nothing tells which of both is closer to the truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    predictions: Predictions | str  # of one population, or a sentence on why there are none
    where: str = OURS  # how the population is called in the statements
    joint: Sequence[Estimate] = ()  # what its metrics add to a known accuracy, of an accuracy on another data set
    grid: Sequence[Estimate] = ()  # correlations of CLID by setting of cluster learnability

    @property
    def found(self) -> Predictions:
        """The predictions; QueryError with the reason if there are none."""
        if isinstance(self.predictions, str):
            raise QueryError(self.predictions)
        return self.predictions


def printed_claims(printed: Iterable[PrintedNumber], populations: Sequence[Predictions]) -> list[Claim]:
    """Each printed correlation with ImageNet accuracy, next to that of the largest population that has the metric."""
    return [printed_claim(one, populations) for one in printed]


# Uniformity and alignment; their printed correlations are filled in by uniformity_claims

of_uniformity = Claims(source="CLID, Table 1")


@of_uniformity("Uniformity alone does not tell which encoder is better ({where})", paper="{uniformity}")
def uniformity_says_nothing(held: Held) -> ClaimAnswer:
    tau = known(held.found.correlation("uniformity", "Kendall"), "uniformity", held.where)
    return ClaimAnswer(
        ours=f"tau {format_unsigned(tau)}, {tau.n} encoders",
        value=tau.value,
        holds=not has_interval_without_zero(tau),
        reason="it orders these encoders beyond chance, which are others than the 28",
    )


@of_uniformity("Alignment tells more than uniformity ({where})", paper="{against}")
def alignment_tells_more(held: Held) -> ClaimAnswer:
    return beyond_chance(
        known(held.found.difference("alignment", "uniformity"), "both", held.where), "difference of tau"
    )


def uniformity_claims(held: Held, printed: Iterable[PrintedNumber]) -> list[Claim]:
    """The statements on uniformity, with the printed correlations of both."""
    cells = {(one.metric, one.statistic): printed_text(one) for one in printed}
    return of_uniformity.judged(
        held,
        where=held.where,
        uniformity=f"Pearson {cells['uniformity', 'pearson']}, Kendall {cells['uniformity', 'kendall']}",
        against=f"Kendall {cells['alignment', 'kendall']} against {cells['uniformity', 'kendall']}",
    )


# The effective rank, by RankMe or by what was published in its stead

of_a_rank = Claims(source="RankMe, section 3")


@of_a_rank(
    "A higher rank goes with higher accuracy among runs of one method ({metric}, {where})",
    source="RankMe, section 3.2, Figures 1 and 2",
    paper="improved by a higher rank",
)
def accuracy_rises_with_the_rank(held: Held, metric: str) -> ClaimAnswer:
    inside = known(held.found.within_of(metric), f"{get_metric_title(metric)} of encoders of one objective", held.where)
    return beyond_chance(inside, "tau within an objective")


@of_a_rank(
    "Rank tells more among runs of one method than among all encoders ({metric}, {where})",
    source="RankMe, section 3.1",
    paper="only to compare runs of a given method",
)
def the_rank_tells_more_within_a_method(held: Held, metric: str) -> ClaimAnswer:
    title = get_metric_title(metric)
    inside = known(held.found.within_of(metric), f"{title} of encoders of one objective", held.where)
    overall = known(held.found.correlation(metric, "Kendall"), title, held.where)
    return ClaimAnswer(
        ours=f"tau {format_unsigned(inside)} within an objective, {format_unsigned(overall)} over all",
        value=inside.value,
        holds=(inside.value or 0.0) > (overall.value or 0.0),
        reason="tau within an objective is no higher than over all of them",
    )


def rank_claims(held: Held, metric: str) -> list[Claim]:
    """The statements on the rank, of one metric that measures it."""
    return of_a_rank.judged(held, metric, metric=get_metric_title(metric), where=held.where)


of_a_choice = Claims(source="RankMe, Figure 1 (bottom), ImageNet")


@of_a_choice(
    "Choosing one hyper-parameter without labels costs at most {most} points of accuracy ({metric}, {where})",
    paper="at most {most} points",
)
def a_choice_costs_little(held: Held, metric: str, most: float) -> ClaimAnswer:
    chosen = held.found.selection(metric, ANY)
    if chosen is None:
        raise QueryError(
            f"No two of {held.where} with {get_metric_title(metric)} differ in one choice; measure some that do."
        )
    regret = chosen.estimate(REGRET)
    return ClaimAnswer(
        ours=f"{text_of(chosen)} over {len(chosen.picks)} groups",
        value=regret.value,
        holds=regret.ci_high is not None and regret.ci_high <= most,
        reason=f"the interval of the mean regret reaches beyond the {most:.1f} points",
    )


def regret_claims(held: Held, metric: str, printed: Sequence[PrintedNumber]) -> list[Claim]:
    """The statement on choosing by a rank, with the largest loss that is printed."""
    most = max(printed_regrets(printed, "rankme"))
    return of_a_choice.judged(held, metric, most, metric=get_metric_title(metric), where=held.where, most=f"{most:.1f}")


# Metrics that were measured here, against each other

of_measured = Claims(source="RankMe, Figure 1 (bottom)")


@of_measured(f"Choosing by RankMe costs less than by alpha-ReQ ({OURS})", paper="outperforms on average")
def rankme_chooses_better_than_alpha_req(held: Held) -> ClaimAnswer:
    return costs_less(held, "rankme", "alpha_req")


@of_measured(
    f"LiDAR orders encoders better than RankMe ({OURS})",
    source="LiDAR, Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_orders_better_than_rankme(held: Held) -> ClaimAnswer:
    return orders_better(held, "lidar", "rankme")


@of_measured(
    f"Choosing by LiDAR costs less than by RankMe ({OURS})",
    source="LiDAR, Tables 3, 6, 8 and 10",
    paper="improved hyper-parameter selection",
)
def lidar_chooses_better_than_rankme(held: Held) -> ClaimAnswer:
    return costs_less(held, "lidar", "rankme")


@of_measured(
    f"CLID orders encoders better than every other metric without labels ({OURS})",
    source="CLID, section 3.3, Table 1",
    paper="the highest correlation",
)
def clid_orders_best(held: Held) -> ClaimAnswer:
    return orders_best(held, "clid")


@of_measured(
    f"The joint rank with CLID predicts better than the first accuracy alone ({OURS}, accuracy on another data set)",
    source="CLID, Table 3",
    paper="{joint}",
)
def clid_adds_to_a_known_accuracy(held: Held) -> ClaimAnswer:
    added = next((one for one in held.joint if one.term.startswith("clid with ") and " - " in one.term), None)
    return beyond_chance(known(added, "CLID", f"{OURS}, accuracy on another data set"), "added to tau")


@of_measured(
    "CLID with fewer neighbours correlates more with accuracy",
    source="CLID, section 3.4, Figure 2",
    paper="decreasing the number of neighbours leads to a better predictor",
)
def fewer_neighbours_are_better(held: Held) -> ClaimAnswer:
    by_clusters: dict[int, dict[int, float]] = {}
    for one in held.grid:
        if one.method.startswith("Pearson") and one.value is not None:
            n_clusters, k = (int(part.partition("=")[2]) for part in one.term.split(", "))
            by_clusters.setdefault(n_clusters, {})[k] = one.value
    rows = [by_k for by_k in by_clusters.values() if len(by_k) > 1]
    if not rows:
        raise QueryError(
            f"No rows of results/ have cluster learnability of {OURS} with several numbers of neighbours, each "
            "under a protocol that names k and n_clusters; measure some."
        )
    better = sum(by_k[min(by_k)] >= by_k[max(by_k)] for by_k in rows)
    return ClaimAnswer(
        ours=f"with {better} of {len(rows)} numbers of clusters",
        holds=better == len(rows),
        value=float(better),
        reason="with some numbers of clusters more neighbours predict better",
    )


def measured_claims(held: Held, printed: Sequence[PrintedNumber]) -> list[Claim]:
    """The statements on measured encoders; ``printed`` are the averages of the joint ranks."""
    values = {one.metric: printed_text(one) for one in printed if one.target == "ood-average"}
    both = {"clid", "oracle"} <= set(values)
    return of_measured.judged(
        held, joint=f"average Kendall {values['clid']} against {values['oracle']}" if both else "adds"
    )


# What several statements ask


def orders_better(held: Held, first: str, second: str) -> ClaimAnswer:
    """Whether one metric goes with accuracy more than another, beyond chance."""
    both = f"{get_metric_title(first)} and {get_metric_title(second)}"
    return beyond_chance(known(held.found.difference(first, second), both, held.where), "difference of tau")


def orders_best(held: Held, metric: str) -> ClaimAnswer:
    """Whether one metric goes with accuracy more than every other one without labels."""
    found = held.found
    own = known(found.correlation(metric, "Kendall"), get_metric_title(metric), held.where)
    others = {
        other: one
        for other in found.population.choosers
        if other != metric and not needs_labels(other) and (one := found.difference(metric, other)) is not None
    }
    if not others:
        raise QueryError(
            f"No other metric of {held.where} can be held against {get_metric_title(metric)}; measure some."
        )
    nearest = min(others, key=lambda other: others[other].value or 0.0)
    margin = others[nearest]
    return ClaimAnswer(
        ours=f"tau {format_unsigned(own)}; ahead of {get_metric_title(nearest)}, the nearest of {len(others)}, "
        f"by {format_unsigned(margin)}",
        value=own.value,
        holds=(margin.value or 0.0) > 0,
        reason=f"{get_metric_title(nearest)} orders these {margin.n} encoders better, which are not the paper's",
    )


def costs_less(held: Held, first: str, second: str) -> ClaimAnswer:
    """Whether choices by one metric cost less accuracy than choices by another."""
    found = held.found
    kind = ANY if found.selection(first, ANY) and found.selection(second, ANY) else OVERALL
    one, two = found.selection(first, kind), found.selection(second, kind)
    if one is None or two is None:
        raise QueryError(
            f"{held.where.capitalize()} lack {get_metric_title(first)} or {get_metric_title(second)}; measure both."
        )
    ours, theirs = one.estimate(REGRET).value or 0.0, two.estimate(REGRET).value or 0.0
    return ClaimAnswer(
        ours=f"regret {text_of(one)} against {text_of(two)}, {len(one.picks)} groups",
        value=ours,
        holds=ours < theirs,
        reason="it costs no less on these encoders, which are too few to tell more",
    )


def printed_claim(one: PrintedNumber, populations: Sequence[Predictions]) -> Claim:
    """Next to the same correlation of the largest population that has it."""
    statistic, printed = one.statistic.capitalize(), printed_text(one)
    name = f"{statistic} of {get_metric_title(one.metric)} with accuracy is {printed}"
    source = f"{_PAPER_OF[one.paper]}, {one.table}"
    correlations = [(found.correlation(one.metric, statistic), found.population.name) for found in populations]
    measured = [
        (ours, where)
        for ours, where in correlations
        if ours is not None and None not in (ours.value, ours.ci_low, ours.ci_high)
    ]
    if not measured:
        reason = f"No population here has {get_metric_title(one.metric)} of at least {FEWEST} encoders; measure some."
        return number_claim(name, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=reason)
    ours, where = max(measured, key=lambda pair: pair[0].n)
    reason = _OTHERS
    if (ours.ci_high or 0.0) - (ours.ci_low or 0.0) > WIDEST:
        reason = "so few encoders that the interval holds nearly everything"
    return number_claim(
        name,
        source=source,
        printed=printed,
        ours=ours.value,
        interval=(ours.ci_low, ours.ci_high),
        shown=f"{format_unsigned(ours)}, {ours.n} {where}",
        reason=reason,
    )


def beyond_chance(estimate: Estimate, what: str) -> ClaimAnswer:
    """Holds if the estimate lies above 0 with its whole interval."""
    low, high = estimate.ci_low, estimate.ci_high
    if low is None or high is None:
        reason = f"there is no interval: {estimate.note or 'too few vary'}"
    elif high >= 0:
        reason = "the interval holds 0, so these encoders do not tell"
    else:
        reason = "it is the other way round on these encoders, which are not the paper's"
    return ClaimAnswer(
        ours=f"{what} {format_unsigned(estimate)}, {estimate.n} encoders",
        value=estimate.value,
        holds=low is not None and low > 0,
        reason=reason,
    )


def known(estimate: Estimate | None, what: str, where: str) -> Estimate:
    """The estimate, if it has a value."""
    if estimate is None or estimate.value is None:
        why = estimate.note if estimate is not None and estimate.note else "too few of them have it"
        raise QueryError(f"Of {where}, {what} cannot be held against accuracy ({why}); measure more.")
    return estimate
