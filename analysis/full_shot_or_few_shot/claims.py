"""What the paper says of the best encoders by number of labels; each statement stands above what decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from zoo.analysis.columns import ERRORS, Estimate
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Claims, agrees_with, beside, excludes_zero, one_of, some_of
from zoo.studies.tables import accuracy_label, with_interval

from .tables import FEATURES, FULL, ONE, THREE, WINNERS, PrintedFeatures, PrintedWinner, accuracies_of
from .winners import ANY_FEATURES, TABLE_2, winner

if TYPE_CHECKING:
    import pandas as pd


SETTINGS = tuple(outcome.column for outcome in ERRORS)
RECENT, NOW = 2019, 2022
NAMED = ("msn_vitb4_ep300", "msn_vitl7_ep200", "mugs_vitl16_ep250")  # "best-performing models for 2022"
SEEN = -0.1  # Kendall's tau of the pairs of one year, below which a figure shows a tradeoff curve


@dataclass(frozen=True, slots=True)
class Found:
    """What the statements are held against."""

    table: StudyTable
    best: pd.DataFrame  # the best 20 % of each year, pretrained on ImageNet-1K
    estimates: Mapping[str, Sequence[Estimate]]  # by what they are of; empty where the table has too few encoders


def claims_of(found: Found) -> list[Claim]:
    """All claims, in the order of the paper's tables and sections."""
    winners = [
        of_a_winner.judged(found.table, row, row=row, best_at=" and ".join(map(accuracy_label, row.best_at)))
        for row in WINNERS
    ]
    features = [
        of_features.judged(
            found.table, row, row=row, extracted="features of this paper" if row.ours else "published features"
        )
        for row in FEATURES
    ]
    return [
        *(claim for row in winners for claim in row),
        *of_winners.judged(found.table),
        *(claim for row in features for claim in row),
        *of_smaller_features.judged(found.table),
        *of_settings.judged(found),
        *of_tradeoffs.judged(found),
    ]


# Table 2: the best encoders

of_a_winner = Claims(source="Table 2")


@of_a_winner(
    "Table 2, {row.category.name}: best at {best_at}", paper="{row.name}, {row.million_parameters}M: {row.shown}"
)
def the_printed_encoder_wins(table: StudyTable, row: PrintedWinner) -> Answer:
    winners = list(dict.fromkeys(winner(table, row.category, setting).encoder for setting in row.best_at))
    accuracies = accuracies_of(table, winners[0])
    million = float(table.frame["n_parameters"][winners[0]]) / 1e6
    same = len(winners) == 1 and all_agree(row.accuracies, accuracies)
    return Answer(
        ours=f"{' and '.join(winners)}, {million:.0f}M: {all_beside(row.accuracies, accuracies)}",
        holds=same and agrees_with(row.million_parameters, million),
        held_as_the_paper_did=same,
        reason="its accuracies are those printed, its card has another number of parameters"
        if same
        else "another encoder of the table is better in this category",
    )


of_winners = Claims(source="Section 5.2.2, Table 2")


@of_winners("The best encoder in full-shot is never the best in 3-shot (5 categories)", paper="never")
def no_encoder_wins_both(table: StudyTable) -> Answer:
    both = [
        category.name
        for category in TABLE_2
        if winner(table, category, FULL).encoder == winner(table, category, THREE).encoder
    ]
    return Answer(
        ours=f"different encoders in {len(TABLE_2) - len(both)} of {len(TABLE_2)} categories",
        holds=not both,
        value=float(len(TABLE_2) - len(both)),
        reason=f"the same encoder in {', '.join(both)}",
    )


# Table 4: other features of the same encoders

of_features = Claims(source="Table 4")


@of_features("Table 4, {row.name}, {extracted}", paper="{row.dimensions} dimensions: {row.shown}")
def the_printed_features_are_in_the_table(table: StudyTable, row: PrintedFeatures) -> Answer:
    accuracies = accuracies_of(table, row.encoder)
    dimensions, extracted = float(table.frame["z_dim"][row.encoder]), bool(table.frame["is_our_extract"][row.encoder])
    same = agrees_with(row.dimensions, dimensions) and extracted is row.ours and all_agree(row.accuracies, accuracies)
    return Answer(
        ours=f"{row.encoder}, {dimensions:g} dimensions: {all_beside(row.accuracies, accuracies)}",
        holds=same,
        reason="the table has other values for these features",
    )


of_smaller_features = Claims(source="Section 5.3.1, Table 4")


@of_smaller_features("Features of fewer dimensions improve few-shot accuracy (both pairs of Table 4)", paper="improve")
def smaller_features_improve_few_shot(table: StudyTable) -> Answer:
    gains = []
    for large, small in zip(FEATURES[::2], FEATURES[1::2], strict=True):
        before, after = accuracies_of(table, large.encoder), accuracies_of(table, small.encoder)
        gains.append([new - old for old, new in zip(before, after, strict=True)])
    shown = "; ".join(f"{one:+.1f} at 1 % and {three:+.1f} at 3-shot" for _, one, three in gains)
    return Answer(ours=shown, holds=all(min(one, three) > 0 for _, one, three in gains), reason="not in both pairs")


@of_smaller_features("Smaller features of OpenCLIP are the best of all encoders at 1 %", paper="best")
def smaller_features_are_best_at_one_percent(table: StudyTable) -> Answer:
    published, small = FEATURES[2], FEATURES[3]
    best = winner(table, ANY_FEATURES, ONE)
    dimensions = table.frame["z_dim"].reindex([published.encoder, small.encoder])
    lead = "" if best.margin is None else f", {best.margin:.2f} points ahead of {best.runner_up}"
    accuracy = 100 - best.error
    return Answer(
        ours=f"{best.encoder}: {accuracy:.2f} % accuracy, best of {best.n}{lead}",
        value=accuracy,
        holds=best.encoder == small.encoder and bool(dimensions.iloc[1] < dimensions.iloc[0]),
        reason="another encoder of the table is better at 1 %",
    )


# Risks by number of labels

of_settings = Claims(source="Section 5.2.1")


@of_settings(
    "Probe generalization of the best 20 % falls with fewer labels",
    source="Section 5.2.1, Figure 5a",
    paper="decreases",
)
def probe_generalization_falls_with_fewer_labels(found: Found) -> Answer:
    return moves_steadily(found, "probe_gen", -1)


@of_settings(
    "Usability error of the best 20 % rises with fewer labels", source="Section 5.2.1, Figure 5a", paper="increases"
)
def usability_rises_with_fewer_labels(found: Found) -> Answer:
    return moves_steadily(found, "usability", 1)


@of_settings("Low probe generalization goes with low 3-shot error", paper="better in few-shot")
def probe_generalization_ranks_few_shot(found: Found) -> Answer:
    return ranks(found, "probe_gen", THREE)


@of_settings("Low usability error goes with low full-shot error", paper="better in full-shot")
def usability_ranks_full_shot(found: Found) -> Answer:
    return ranks(found, "usability", FULL)


@of_settings("Probe generalization ranks encoders more alike in 3-shot than in full-shot", paper="sample efficiency")
def probe_generalization_ranks_few_shot_more(found: Found) -> Answer:
    return ranks_more(found, "probe_gen ranks few-shot more than full-shot")


@of_settings("Usability ranks encoders more alike in full-shot than in 3-shot", paper="bias")
def usability_ranks_full_shot_more(found: Found) -> Answer:
    return ranks_more(found, "usability ranks full-shot more than few-shot")


def moves_steadily(found: Found, part: str, sign: int) -> Answer:
    """Whether the mean of a component over the best 20 % goes one way from each setting to the next."""
    means = [one_of(found.estimates["best 20 %"], f"best 20 % by {setting}", part) for setting in SETTINGS]
    change = one_of(found.estimates["best 20 %"], f"best 20 % by {THREE} - by {FULL}", part)
    values = [sign * (mean.value or 0.0) for mean in means]
    steady = all(later - earlier > -1e-6 for earlier, later in pairwise(values))
    shown = ", ".join(f"{mean.value:.1f}" for mean in means)
    return Answer(
        ours=f"{shown} points; change {with_interval(change)}, n = {change.n}",
        value=change.value,
        holds=steady and excludes_zero(change),
        reason="the interval of the change includes 0, or it is not steady",
    )


def ranks(found: Found, part: str, setting: str) -> Answer:
    """Whether a component and the error of a setting order encoders alike."""
    tau = one_of(found.estimates["ranks"], part, setting)
    return Answer(
        ours=f"tau {with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=tau.ci_low is not None and tau.ci_low > 0,
        reason="the interval includes 0",
    )


def ranks_more(found: Found, change: str) -> Answer:
    """Whether one correlation exceeds another, when encoders are drawn and when whole objectives are."""
    by_encoder, by_objective = some_of(found.estimates[change], "the components and errors")
    return Answer(
        ours=f"tau {with_interval(by_encoder)} higher, n = {by_encoder.n}; objectives drawn "
        f"[{by_objective.ci_low:.2f}, {by_objective.ci_high:.2f}]",
        value=by_encoder.value,
        holds=(by_encoder.value or 0.0) > 0 and excludes_zero(by_encoder) and excludes_zero(by_objective),
        reason="the rows do not show it: the interval of the difference includes 0, or it has the other sign",
    )


# Usability against probe generalization

of_tradeoffs = Claims(source="Section 5.2.2")


@of_tradeoffs(f"The best of {NOW} include {', '.join(NAMED)}", source="Appendix F.5, Figure 6", paper="include")
def the_named_encoders_are_among_the_best(found: Found) -> Answer:
    those = found.best.index[found.best["year"] == NOW]
    if those.empty:
        raise QueryError(f"No ImageNet-1K encoder of {NOW} has all components, expected the best of them.")
    gone = [encoder for encoder in NAMED if encoder not in those]
    return Answer(
        ours=f"{len(NAMED) - len(gone)} of {len(NAMED)} are among the best {len(those)} of {NOW}",
        holds=not gone,
        reason=f"not {' and '.join(gone)}",
    )


@of_tradeoffs(
    "Decreasing usability error tends to increase probe generalization (ImageNet-1K, within years)",
    paper="tends to increase",
)
def they_are_traded_within_years(found: Found) -> Answer:
    *years, observed, _, beyond = some_of(found.estimates["all of a year"], "usability and probe_gen")
    return Answer(
        ours=f"tau {observed.value:.2f} over all encoders of a year [{beyond.ci_low:.2f}, {beyond.ci_high:.2f}], "
        f"n = {observed.n}, {len(years)} years, p {beyond.p:.3f}",
        value=observed.value,
        holds=(beyond.value or 0.0) < 0 and (beyond.p or 0.0) < 0.05,
        reason="they are unrelated within years",
    )


@of_tradeoffs(
    "At every point in time, the best 20 % form a usability/probe generalization tradeoff",
    source="Section 5.2.2, Figure 6",
    paper="tradeoff curve",
)
def the_best_of_each_year_trade_off(found: Found) -> Answer:
    return exceeds_selection(found, "chosen 20 %")


@of_tradeoffs("All ImageNet-1K encoders together show no tradeoff", source="Appendix F.5, Figure 31a", paper="none")
def no_pair_of_components_is_traded(found: Found) -> Answer:
    taus = some_of(found.estimates["pairs, all"], "the components")
    by_objective = found.estimates["pairs, all, by objective"]
    lowest = min(taus, key=lambda tau: tau.value or 0.0)
    drawn = one_of(by_objective, lowest.term, lowest.outcome)
    against = [tau for tau in taus if false_discovery_rate(tau) < 0.05 and (tau.value or 0.0) < 0]
    names = " and ".join(f"{tau.term} goes against {tau.outcome}" for tau in against)
    sure = [tau for tau in against if excludes_zero(one_of(by_objective, tau.term, tau.outcome))]
    return Answer(
        ours=f"lowest of {len(taus)} tau: {lowest.term} with {lowest.outcome} {with_interval(lowest)}, "
        f"n = {lowest.n}, false-discovery rate {false_discovery_rate(lowest):.3f}",
        value=lowest.value,
        holds=not against,
        contradicted=bool(sure),
        reason=f"{names}: weakly (tau {with_interval(lowest)}), and {'' if excludes_zero(drawn) else 'un'}certain "
        f"when whole objectives are drawn [{drawn.ci_low:.2f}, {drawn.ci_high:.2f}]",
    )


@of_tradeoffs(
    f"The best 10 % since {RECENT} show the usability/probe generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="tradeoff",
)
def the_recent_best_trade_off(found: Found) -> Answer:
    return exceeds_selection(found, "chosen 10 %")


@of_tradeoffs(
    f"The best 10 % since {RECENT} show a glimpse of an approximation/probe generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="glimpse",
)
def the_recent_best_trade_approximation_for_probe_generalization(found: Found) -> Answer:
    tau = one_of(found.estimates["pairs, best"], "approx", "probe_gen")
    return Answer(
        ours=f"tau {with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=is_negative(tau),
        reason="the interval includes 0",
    )


@of_tradeoffs(
    f"The best 10 % since {RECENT} show no approximation/encoder generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="none",
)
def the_recent_best_do_not_trade_approximation_for_encoder_generalization(found: Found) -> Answer:
    tau = one_of(found.estimates["pairs, best"], "approx", "enc_gen")
    return Answer(
        ours=f"tau {with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=not is_negative(tau),
        contradicted=is_negative(tau),
        reason="they go against each other",
    )


def exceeds_selection(found: Found, chosen: str) -> Answer:
    """Whether the best of each year lie on a tradeoff curve, beyond the one that choosing them makes by itself."""
    *years, observed, alone, beyond = some_of(found.estimates[chosen], "usability and probe_gen")
    shown = ", ".join(f"{year.value:.2f} ({year.term}, n = {year.n})" for year in years)
    p = beyond.p if beyond.p is not None else 1.0
    seen = (observed.value or 0.0) < SEEN
    return Answer(
        ours=f"together tau {observed.value:.2f}, by choosing alone {with_interval(alone)}, p {p:.2f}",
        value=observed.value,
        holds=seen and (beyond.value or 0.0) < 0 and p < 0.05,
        held_as_the_paper_did=seen,
        reason="choosing encoders for a low sum of both makes such a curve by itself, so it is no evidence; by "
        f"year tau is {shown}"
        if seen
        else f"there is no such curve: tau over all years is not below {SEEN:g}",
    )


def is_negative(tau: Estimate) -> bool:
    """True if the whole interval lies below 0."""
    return tau.ci_high is not None and tau.ci_high < 0


def false_discovery_rate(tau: Estimate) -> float:
    return 1.0 if tau.p_adjusted is None else tau.p_adjusted


def all_agree(printed: Sequence[str], values: Sequence[float]) -> bool:
    return all(agrees_with(one, value) for one, value in zip(printed, values, strict=True))


def all_beside(printed: Sequence[str], values: Sequence[float]) -> str:
    return " / ".join(beside(one, value) for one, value in zip(printed, values, strict=True))
