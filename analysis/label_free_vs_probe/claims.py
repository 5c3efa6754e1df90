"""What the papers of RankMe, LiDAR and CLID claim of label-free metrics, held against populations that are not theirs.

A printed number is *compatible* if it lies within our 95 % interval and that is narrow enough to leave something out,
as is every number of other encoders than ours (:mod:`zoo.studies.findings`). A statement agrees if it holds on our
encoders, beyond chance where there is an interval. Everything else is *not reproducible*, also where our encoders show
the opposite beyond chance: they are not those of the paper, so that nothing here corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zoo.analysis.columns import Estimate
from zoo.analysis.label_free import needs_labels, title_of
from zoo.analysis.label_free_agreement import ANY, OVERALL, REGRET, Predictions
from zoo.analysis.table import FEWEST
from zoo.errors import QueryError
from zoo.results.printed import PAPERS, PrintedNumber
from zoo.studies.findings import NOT_AVAILABLE, WIDEST, Answer, Claim, Claims, excludes_zero, number_claim
from zoo.studies.tables import interval

from .tables import printed_regrets, printed_text, text_of

OURS = "measured encoders"
_PAPER_OF = {identifier: title for title, identifier in PAPERS.items()}
_OTHERS = "it is of other encoders than ours, so that nothing tells which of both is closer to the truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What statements are held against."""

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
    """Each printed correlation with ImageNet accuracy, beside that of the largest population that has the metric."""
    return [printed_claim(one, populations) for one in printed]


# Uniformity and alignment; their printed correlations are filled in by uniformity_claims

of_uniformity = Claims(source="CLID, Table 1")


@of_uniformity("Uniformity alone does not tell which encoder is better ({where})", paper="{uniformity}")
def uniformity_says_nothing(held: Held) -> Answer:
    tau = known(held.found.correlation("uniformity", "Kendall"), "uniformity", held.where)
    return Answer(
        ours=f"tau {cell(tau)}, {tau.n} encoders",
        value=tau.value,
        holds=not excludes_zero(tau),
        reason="it orders these encoders beyond chance, which are others than the 28",
    )


@of_uniformity("Alignment tells more than uniformity ({where})", paper="{against}")
def alignment_tells_more(held: Held) -> Answer:
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
def accuracy_rises_with_the_rank(held: Held, metric: str) -> Answer:
    inside = known(held.found.within_of(metric), f"{title_of(metric)} of encoders of one objective", held.where)
    return beyond_chance(inside, "tau within an objective")


@of_a_rank(
    "Rank tells more among runs of one method than among all encoders ({metric}, {where})",
    source="RankMe, section 3.1",
    paper="only to compare runs of a given method",
)
def the_rank_tells_more_within_a_method(held: Held, metric: str) -> Answer:
    title = title_of(metric)
    inside = known(held.found.within_of(metric), f"{title} of encoders of one objective", held.where)
    overall = known(held.found.correlation(metric, "Kendall"), title, held.where)
    return Answer(
        ours=f"tau {cell(inside)} within an objective, {cell(overall)} over all",
        value=inside.value,
        holds=(inside.value or 0.0) > (overall.value or 0.0),
        reason="tau within an objective is no higher than over all of them",
    )


def rank_claims(held: Held, metric: str) -> list[Claim]:
    """The statements on the rank, of one metric that measures it."""
    return of_a_rank.judged(held, metric, metric=title_of(metric), where=held.where)


of_a_choice = Claims(source="RankMe, Figure 1 (bottom), ImageNet")


@of_a_choice(
    "Choosing one hyper-parameter without labels costs at most {most} points of accuracy ({metric}, {where})",
    paper="at most {most} points",
)
def a_choice_costs_little(held: Held, metric: str, most: float) -> Answer:
    chosen = held.found.selection(metric, ANY)
    if chosen is None:
        raise QueryError(f"No two of {held.where} with {title_of(metric)} differ in one choice; measure some that do.")
    regret = chosen.estimate(REGRET)
    return Answer(
        ours=f"{text_of(chosen)} over {len(chosen.picks)} groups",
        value=regret.value,
        holds=regret.ci_high is not None and regret.ci_high <= most,
        reason=f"the interval of the mean regret reaches beyond the {most:.1f} points",
    )


def regret_claims(held: Held, metric: str, printed: Sequence[PrintedNumber]) -> list[Claim]:
    """The statement on choosing by a rank, with the largest loss that is printed."""
    most = max(printed_regrets(printed, "rankme"))
    return of_a_choice.judged(held, metric, most, metric=title_of(metric), where=held.where, most=f"{most:.1f}")


# Metrics that were measured here, against each other

of_measured = Claims(source="RankMe, Figure 1 (bottom)")


@of_measured(f"Choosing by RankMe costs less than by alpha-ReQ ({OURS})", paper="outperforms on average")
def rankme_chooses_better_than_alpha_req(held: Held) -> Answer:
    return costs_less(held, "rankme", "alpha_req")


@of_measured(
    f"LiDAR orders encoders better than RankMe ({OURS})",
    source="LiDAR, Tables 1, 5, 7 to 9",
    paper="consistently higher tau",
)
def lidar_orders_better_than_rankme(held: Held) -> Answer:
    return orders_better(held, "lidar", "rankme")


@of_measured(
    f"Choosing by LiDAR costs less than by RankMe ({OURS})",
    source="LiDAR, Tables 3, 6, 8 and 10",
    paper="improved hyper-parameter selection",
)
def lidar_chooses_better_than_rankme(held: Held) -> Answer:
    return costs_less(held, "lidar", "rankme")


@of_measured(
    f"CLID orders encoders better than every other metric without labels ({OURS})",
    source="CLID, section 3.3, Table 1",
    paper="the highest correlation",
)
def clid_orders_best(held: Held) -> Answer:
    return orders_best(held, "clid")


@of_measured(
    f"The joint rank with CLID predicts better than the first accuracy alone ({OURS}, accuracy on another data set)",
    source="CLID, Table 3",
    paper="{joint}",
)
def clid_adds_to_a_known_accuracy(held: Held) -> Answer:
    added = next((one for one in held.joint if one.term.startswith("clid with ") and " - " in one.term), None)
    return beyond_chance(known(added, "CLID", f"{OURS}, accuracy on another data set"), "added to tau")


@of_measured(
    "CLID with fewer neighbours correlates more with accuracy",
    source="CLID, section 3.4, Figure 2",
    paper="decreasing the number of neighbours leads to a better predictor",
)
def fewer_neighbours_are_better(held: Held) -> Answer:
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
    return Answer(
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


def orders_better(held: Held, first: str, second: str) -> Answer:
    """Whether one metric goes with accuracy more than another, beyond chance."""
    both = f"{title_of(first)} and {title_of(second)}"
    return beyond_chance(known(held.found.difference(first, second), both, held.where), "difference of tau")


def orders_best(held: Held, metric: str) -> Answer:
    """Whether one metric goes with accuracy more than every other one without labels."""
    found = held.found
    own = known(found.correlation(metric, "Kendall"), title_of(metric), held.where)
    others = {
        other: one
        for other in found.population.choosers
        if other != metric and not needs_labels(other) and (one := found.difference(metric, other)) is not None
    }
    if not others:
        raise QueryError(f"No other metric of {held.where} can be held against {title_of(metric)}; measure some.")
    nearest = min(others, key=lambda other: others[other].value or 0.0)
    margin = others[nearest]
    return Answer(
        ours=f"tau {cell(own)}; ahead of {title_of(nearest)}, the nearest of {len(others)}, by {cell(margin)}",
        value=own.value,
        holds=(margin.value or 0.0) > 0,
        reason=f"{title_of(nearest)} orders these {margin.n} encoders better, which are not the paper's",
    )


def costs_less(held: Held, first: str, second: str) -> Answer:
    """Whether choices by one metric cost less accuracy than choices by another."""
    found = held.found
    kind = ANY if found.selection(first, ANY) and found.selection(second, ANY) else OVERALL
    one, two = found.selection(first, kind), found.selection(second, kind)
    if one is None or two is None:
        raise QueryError(f"{held.where.capitalize()} lack {title_of(first)} or {title_of(second)}; measure both.")
    ours, theirs = one.estimate(REGRET).value or 0.0, two.estimate(REGRET).value or 0.0
    return Answer(
        ours=f"regret {text_of(one)} against {text_of(two)}, {len(one.picks)} groups",
        value=ours,
        holds=ours < theirs,
        reason="it costs no less on these encoders, which are too few to tell more",
    )


def printed_claim(one: PrintedNumber, populations: Sequence[Predictions]) -> Claim:
    """Beside the same correlation of the largest population that has it."""
    statistic, printed = one.statistic.capitalize(), printed_text(one)
    name = f"{statistic} of {title_of(one.metric)} with accuracy is {printed}"
    source = f"{_PAPER_OF[one.paper]}, {one.table}"
    correlations = [(found.correlation(one.metric, statistic), found.population.name) for found in populations]
    measured = [
        (ours, where)
        for ours, where in correlations
        if ours is not None and None not in (ours.value, ours.ci_low, ours.ci_high)
    ]
    if not measured:
        reason = f"No population here has {title_of(one.metric)} of at least {FEWEST} encoders; measure some."
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
        shown=f"{cell(ours)}, {ours.n} {where}",
        reason=reason,
    )


def beyond_chance(estimate: Estimate, what: str) -> Answer:
    """Holds if the estimate lies above 0 with its whole interval."""
    low, high = estimate.ci_low, estimate.ci_high
    if low is None or high is None:
        reason = f"there is no interval: {estimate.note or 'too few vary'}"
    elif high >= 0:
        reason = "the interval holds 0, so these encoders do not tell"
    else:
        reason = "it is the other way round on these encoders, which are not the paper's"
    return Answer(
        ours=f"{what} {cell(estimate)}, {estimate.n} encoders",
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


def cell(estimate: Estimate) -> str:
    return interval(estimate, digits=2, signed=False)
