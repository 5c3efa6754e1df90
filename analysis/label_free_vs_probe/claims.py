"""What the papers of RankMe, LiDAR and CLID claim of label-free metrics, held against populations that are not theirs.

A printed number is *compatible* if it lies within our 95 % interval and that is narrow enough to leave something out,
as :mod:`.claims` has it for every number of other encoders than ours. A statement agrees if it holds on our encoders,
beyond chance where there is an interval. Everything else is *not reproducible*, also where our encoders show the
opposite beyond chance: they are not those of the paper, so that nothing here corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zoo.analysis.estimates import Estimate
from zoo.analysis.label_free_populations import needs_labels, title_of
from zoo.analysis.label_free_predictions import ANY, OVERALL, Predictions
from zoo.analysis.label_free_selection import REGRET
from zoo.analysis.populations import FEWEST
from zoo.errors import QueryError
from zoo.publishedlabelfree import PAPERS, PrintedNumber
from zoo.studies.findings import NOT_AVAILABLE, WIDEST, Answer, Claim, answered, number_claim
from zoo.studies.tables import interval

from .tables import printed_regrets, printed_text, text_of

Held = Predictions | str
"""What a claim is held against, or a sentence on why there is nothing."""
_PAPER_OF = {identifier: title for title, identifier in PAPERS.items()}
_OTHERS = "it is of other encoders than ours, so that nothing tells which of both is closer to the truth"


def printed_claims(printed: Iterable[PrintedNumber], populations: Sequence[Predictions]) -> list[Claim]:
    """Each printed correlation with ImageNet accuracy, beside that of the largest population that has the metric."""
    return [_printed_claim(one, populations) for one in printed]


def rank_claims(held: Held, where: str, metric: str) -> list[Claim]:
    """That a rank predicts among runs of one method, and better than among all encoders."""
    title = title_of(metric)

    def within() -> Answer:
        found = _of(held)
        return _beyond_chance(_known(found.within_of(metric), f"{title} of encoders of one objective", where),
                              "tau within an objective")  # fmt: skip

    def better() -> Answer:
        found = _of(held)
        inside = _known(found.within_of(metric), f"{title} of encoders of one objective", where)
        overall = _known(found.correlation(metric, "Kendall"), title, where)
        return Answer(
            ours=f"tau {_cell(inside)} within an objective, {_cell(overall)} over all", value=inside.value,
            holds=(inside.value or 0.0) > (overall.value or 0.0),
            reason="tau within an objective is no higher than over all of them",
        )  # fmt: skip

    return [
        answered(f"A higher rank goes with higher accuracy among runs of one method ({title}, {where})",
                 source="RankMe, section 3.2, Figures 1 and 2", paper="improved by a higher rank", answer=within),
        answered(f"Rank tells more among runs of one method than among all encoders ({title}, {where})",
                 source="RankMe, section 3.1", paper="only to compare runs of a given method", answer=better),
    ]  # fmt: skip


def uniformity_claims(held: Held, where: str, printed: Iterable[PrintedNumber]) -> list[Claim]:
    """That uniformity alone says nothing, and alignment more; ``printed`` are correlations of both."""
    cells = {(one.metric, one.statistic): printed_text(one) for one in printed}

    def nothing() -> Answer:
        found = _of(held)
        tau = _known(found.correlation("uniformity", "Kendall"), "uniformity", where)
        clear = _clear(tau)
        return Answer(ours=f"tau {_cell(tau)}, {tau.n} encoders", value=tau.value, holds=not clear,
                      reason="it orders these encoders beyond chance, which are others than the 28")  # fmt: skip

    def more() -> Answer:
        found = _of(held)
        return _beyond_chance(_known(found.difference("alignment", "uniformity"), "both", where), "difference of tau")

    pair = (f"{name} {cells['uniformity', name.lower()]}" for name in ("Pearson", "Kendall"))
    against = f"Kendall {cells['alignment', 'kendall']} against {cells['uniformity', 'kendall']}"
    return [
        answered(f"Uniformity alone does not tell which encoder is better ({where})", source="CLID, Table 1",
                 paper=", ".join(pair), answer=nothing),
        answered(f"Alignment tells more than uniformity ({where})", source="CLID, Table 1", paper=against, answer=more),
    ]  # fmt: skip


def best_claim(held: Held, where: str, metric: str, *, source: str, paper: str) -> Claim:
    """That one predictor orders encoders better than every other one."""

    def answer() -> Answer:
        found = _of(held)
        own = _known(found.correlation(metric, "Kendall"), title_of(metric), where)
        others = {
            other: one
            for other in found.population.choosers
            if other != metric and not needs_labels(other) and (one := found.difference(metric, other)) is not None
        }
        if not others:
            raise QueryError(f"No other metric of {where} can be held against {title_of(metric)}; measure some.")
        nearest = min(others, key=lambda other: others[other].value or 0.0)
        margin = others[nearest]
        return Answer(
            ours=f"tau {_cell(own)}; ahead of {title_of(nearest)}, the nearest of {len(others)}, by {_cell(margin)}",
            value=own.value, holds=(margin.value or 0.0) > 0,
            reason=f"{title_of(nearest)} orders these {margin.n} encoders better, which are not the paper's",
        )  # fmt: skip

    words = f"{title_of(metric)} orders encoders better than every other metric without labels ({where})"
    return answered(words, source=source, paper=paper, answer=answer)


def ahead_claim(held: Held, where: str, first: str, second: str, *, source: str, paper: str) -> Claim:
    """That one metric orders encoders better than another."""

    def answer() -> Answer:
        found = _of(held)
        both = f"{title_of(first)} and {title_of(second)}"
        return _beyond_chance(_known(found.difference(first, second), both, where), "difference of tau")

    return answered(f"{title_of(first)} orders encoders better than {title_of(second)} ({where})", source=source,
                    paper=paper, answer=answer)  # fmt: skip


def regret_claim(held: Held, where: str, metric: str, printed: Sequence[PrintedNumber], *, of: str = ANY) -> Claim:
    """That choosing by a rank costs no more than the largest loss that is printed."""
    most = max(printed_regrets(printed, "rankme"))

    def answer() -> Answer:
        found = _of(held)
        chosen = found.selection(metric, of)
        if chosen is None:
            raise QueryError(f"No two of {where} with {title_of(metric)} differ in one choice; measure some that do.")
        regret = chosen.estimate(REGRET)
        high = regret.ci_high
        return Answer(
            ours=f"{text_of(chosen)} over {len(chosen.picks)} groups", value=regret.value,
            holds=high is not None and high <= most,
            reason=f"the interval of the mean regret reaches beyond the {most:.1f} points",
        )  # fmt: skip

    return answered(f"Choosing one hyper-parameter without labels costs at most {most:.1f} points of accuracy "
                    f"({title_of(metric)}, {where})", source="RankMe, Figure 1 (bottom), ImageNet",
                    paper=f"at most {most:.1f} points", answer=answer)  # fmt: skip


def cheaper_claim(held: Held, where: str, first: str, second: str, *, source: str, paper: str) -> Claim:
    """That choices by one metric cost less than by another."""

    def answer() -> Answer:
        found = _of(held)
        kind = ANY if found.selection(first, ANY) and found.selection(second, ANY) else OVERALL
        one, two = found.selection(first, kind), found.selection(second, kind)
        if one is None or two is None:
            raise QueryError(f"{where.capitalize()} lack {title_of(first)} or {title_of(second)}; measure both.")
        ours, theirs = one.estimate(REGRET).value or 0.0, two.estimate(REGRET).value or 0.0
        return Answer(
            ours=f"regret {text_of(one)} against {text_of(two)}, {len(one.picks)} groups", value=ours,
            holds=ours < theirs, reason="it costs no less on these encoders, which are too few to tell more",
        )  # fmt: skip

    return answered(f"Choosing by {title_of(first)} costs less than by {title_of(second)} ({where})", source=source,
                    paper=paper, answer=answer)  # fmt: skip


def joint_claim(where: str, joint: Sequence[Estimate], metric: str, *, printed: Sequence[PrintedNumber]) -> Claim:
    """That a metric adds to the accuracy that is known already."""
    values = {one.metric: printed_text(one) for one in printed if one.target == "ood-average"}
    paper = (
        f"average Kendall {values[metric]} against {values['oracle']}" if {metric, "oracle"} <= set(values) else "adds"
    )

    def answer() -> Answer:
        added = next((one for one in joint if one.term.startswith(f"{metric} with ") and " - " in one.term), None)
        return _beyond_chance(_known(added, title_of(metric), where), "added to tau")

    return answered(f"The joint rank with {title_of(metric)} predicts better than the first accuracy alone ({where})",
                    source="CLID, Table 3", paper=paper, answer=answer)  # fmt: skip


def grid_claim(where: str, estimates: Sequence[Estimate]) -> Claim:
    """That few neighbours are better."""
    pearson = {tuple(int(part.partition("=")[2]) for part in one.term.split(", ")): one
               for one in estimates if one.method.startswith("Pearson") and one.value is not None}  # fmt: skip

    def answer() -> Answer:
        by_clusters: dict[int, dict[int, float]] = {}
        for (n_clusters, k), one in pearson.items():
            by_clusters.setdefault(n_clusters, {})[k] = one.value or 0.0
        rows = [own for own in by_clusters.values() if len(own) > 1]
        if not rows:
            raise QueryError(
                f"No rows of results/ have cluster learnability of {where} with several numbers of neighbours, each "
                "under a protocol that names k and n_clusters; measure some."
            )
        better = sum(own[min(own)] >= own[max(own)] for own in rows)
        return Answer(
            ours=f"with {better} of {len(rows)} numbers of clusters", holds=better == len(rows), value=float(better),
            reason="with some numbers of clusters more neighbours predict better",
        )  # fmt: skip

    return answered(
        "CLID with fewer neighbours correlates more with accuracy", source="CLID, section 3.4, Figure 2",
        paper="decreasing the number of neighbours leads to a better predictor", answer=answer,
    )  # fmt: skip


def _printed_claim(one: PrintedNumber, populations: Sequence[Predictions]) -> Claim:
    """Beside the same correlation of the largest population that has it."""
    statistic, printed = one.statistic.capitalize(), printed_text(one)
    name, source = (
        f"{statistic} of {title_of(one.metric)} with accuracy is {printed}",
        f"{_PAPER_OF[one.paper]}, {one.table}",
    )
    measured = [
        (ours, found.population.name) for found in populations
        if (ours := found.correlation(one.metric, statistic)) is not None and ours.value is not None
        and ours.ci_low is not None and ours.ci_high is not None
    ]  # fmt: skip
    if not measured:
        reason = f"No population here has {title_of(one.metric)} of at least {FEWEST} encoders; measure some."
        return number_claim(name, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=reason)
    ours, where = max(measured, key=lambda pair: pair[0].n)
    reason = _OTHERS
    if (ours.ci_high or 0.0) - (ours.ci_low or 0.0) > WIDEST:
        reason = "so few encoders that the interval holds nearly everything"
    return number_claim(
        name, source=source, printed=printed, ours=ours.value, interval=(ours.ci_low, ours.ci_high),
        shown=f"{_cell(ours)}, {ours.n} {where}", reason=reason,
    )  # fmt: skip


def _of(held: Held) -> Predictions:
    if isinstance(held, str):
        raise QueryError(held)
    return held


def _beyond_chance(estimate: Estimate, what: str) -> Answer:
    low, high = estimate.ci_low, estimate.ci_high
    if low is None or high is None:
        reason = f"there is no interval: {estimate.note or 'too few vary'}"
    elif high >= 0:
        reason = "the interval holds 0, so these encoders do not tell"
    else:
        reason = "it is the other way round on these encoders, which are not the paper's"
    return Answer(
        ours=f"{what} {_cell(estimate)}, {estimate.n} encoders", value=estimate.value,
        holds=low is not None and low > 0, reason=reason,
    )  # fmt: skip


def _known(estimate: Estimate | None, what: str, where: str) -> Estimate:
    if estimate is None or estimate.value is None:
        why = estimate.note if estimate is not None and estimate.note else "too few of them have it"
        raise QueryError(f"Of {where}, {what} cannot be held against accuracy ({why}); measure more.")
    return estimate


def _clear(estimate: Estimate) -> bool:
    low, high = estimate.ci_low, estimate.ci_high
    return low is not None and high is not None and not low <= 0 <= high


def _cell(estimate: Estimate) -> str:
    return interval(estimate, digits=2, signed=False)
