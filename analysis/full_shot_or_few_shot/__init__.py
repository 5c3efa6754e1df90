"""Which encoders are best with all labels, which with few, and do their risks tell?

Claim: the best encoder with all labels is never the best with three a class (Table 2); smaller features of the same
encoder help with few labels and give the best 1 % accuracy of all (Table 4); with fewer labels the best encoders have
less probe generalization and more usability error (Figure 5a); the best of every year trade one off against the other
(Figures 6 and 31).

Expected: Tables 2 and 4 at their printed decimal. Of the best 20 %, probe generalization falls from 13.6 to 12.3 points
and usability rises from 2.4 to 4.0 between full-shot and 3-shot. Kendall's tau of probe generalization with the 3-shot
error is 0.48, of usability with the full-shot error 0.44. Within years, all encoders trade usability off against probe
generalization (tau -0.30), and weakly so all together (-0.16), where the paper sees none, though not for certain when
whole objectives are drawn. The curves of the best 20 % of each year (-0.30) and of the best 10 % (-0.54) are no
evidence of it, for choosing encoders by the sum of both makes such a curve by itself (-0.34 and -0.37).

Command: zoo study full_shot_or_few_shot
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise, product

import pandas as pd

from zoo.analysis.columns import ERRORS, OUTCOMES, Estimate
from zoo.analysis.groups import PARTS
from zoo.analysis.table import StudyTable, require_encoders
from zoo.errors import QueryError
from zoo.studies.findings import (
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    agrees_at_precision,
    answer_in_sentence,
    find_estimate,
    format_like_printed,
    has_interval_without_zero,
    require_estimates,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import count_rows_used, describe_errata, format_with_interval

from .best import estimate_risks_of_best, select_best_fractions
from .figures import correlations_figure, full_against_few_figure, pairs_figure, settings_figure, tradeoff_figure
from .tables import (
    ANY_FEATURES,
    FEATURES,
    FULL,
    ONE,
    SHOWN,
    TABLE_2,
    THREE,
    WINNERS,
    PrintedFeatures,
    PrintedWinner,
    accuracies_of,
    accuracy_estimates,
    best_of_years_table,
    costs_of_choosing,
    costs_table,
    describe_accuracy,
    features_table,
    front_table,
    members,
    winner,
    winners_table,
)
from .tradeoffs import beyond_selection, correlation_change, pareto_front, rank_correlations

BEST, FEW = 0.2, 0.1  # best 20 % in Figures 5a and 6, best 10 % since 2019 in Figure 31b
CHANGES = {
    "probe_gen ranks few-shot more than full-shot": (("probe_gen", THREE), ("probe_gen", FULL)),
    "usability ranks full-shot more than few-shot": (("usability", FULL), ("usability", THREE)),
    "probe_gen ranks few-shot more than usability does": (("probe_gen", THREE), ("usability", THREE)),
    "usability ranks full-shot more than probe_gen does": (("usability", FULL), ("probe_gen", FULL)),
}


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """The winners by category and setting, the risks of the best, and rank correlations of risks and errors."""
    require_encoders(table)
    imagenet = table.only(
        table.frame.index[table.frame["pretraining_data"] == "ImageNet-1K"], because="not pretrained on ImageNet-1K"
    )
    complete = imagenet.frame.dropna(subset=["year", FULL, *PARTS])
    best = select_best_fractions(complete, "year", by=FULL, fraction=BEST)
    few = select_best_fractions(complete[complete["year"] >= RECENT], "year", by=FULL, fraction=FEW)
    recent = imagenet.only(few.index, because=f"not among the best 10 % of a year since {RECENT}")
    estimates, missing = _estimated(table, imagenet, recent, options.seed)
    costs = costs_of_choosing(table)
    front = pareto_front(table.frame, FULL, THREE)
    return Findings(
        claims=claims_of(Found(table, best, estimates)),
        answer=answer_in_sentence(lambda: _answer(table, estimates)),
        estimates=[
            *accuracy_estimates(table),
            *(one for several in estimates.values() for one in several),
            *(one for row in costs for one in row[1:]),
        ],
        tables=[
            winners_table(table),
            features_table(table),
            costs_table(costs),
            front_table(front),
            best_of_years_table(best),
        ],
        figures=[
            settings_figure(estimates["best 20 %"], SETTINGS, BEST),
            tradeoff_figure(best, since=RECENT),
            pairs_figure(
                "all_pairs_of_risks",
                "Pairs of risks, all ImageNet-1K encoders (Figure 31a)",
                imagenet.frame,
                estimates["pairs, all"],
            ),
            pairs_figure(
                "best_pairs_of_risks",
                f"Pairs of risks, best 10 % of each year since {RECENT} (Figure 31b)",
                recent.frame,
                estimates["pairs, best"],
            ),
            correlations_figure(estimates["ranks"], SETTINGS),
            full_against_few_figure(table.frame, THREE),
        ],
        rows=[
            *(
                count_rows_used(
                    f"Table 2, {one.name}",
                    table.only(members(table, one).index, because="another category"),
                    *SHOWN,
                    of=table,
                )
                for one in TABLE_2
            ),
            count_rows_used("Figure 5a", table, *SETTINGS, *PARTS),
            count_rows_used("Figures 6 and 31", imagenet, "year", FULL, *PARTS, of=table),
        ],
        notes=[
            "The last category of Table 2 holds published features only; the best at full-shot and at 1 % have others.",
            "Winners are single encoders that differ in many choices; their intervals hold the test images alone.",
            "Rank correlations take encoders as independent, which versions of one are not: p-values flatter.",
            "Usability and probe generalization share the probe's training error with opposite signs, so some of their "
            "tradeoff is in their definition.",
            *describe_errata(
                [*table.frame.index[table.frame.index.isin([row.encoder for row in FEATURES])], *best.index]
            ),
            *dict.fromkeys(missing),
        ],
    )


def _answer(table: StudyTable, estimates: Mapping[str, Sequence[Estimate]]) -> str:
    best = [str(table.frame[setting].idxmin()) for setting in (FULL, THREE)]
    tau = require_estimates(estimates["full-shot and 3-shot"], "both errors")[0]
    tells = [
        max((find_estimate(estimates["ranks"], part, setting) for part in PARTS), key=require_value)
        for setting in (FULL, THREE)
    ]
    names = list(dict.fromkeys(OUTCOMES[one.term].label.lower() for one in tells))
    return (
        f"{best[0]} with all labels, {best[1]} with three a class; both orders have tau {require_value(tau):.2f} (n "
        f"{tau.n}), and {' and '.join(names)} tells them best (tau {require_value(tells[0]):.2f} and "
        f"{require_value(tells[1]):.2f})."
    )


def _estimated(
    table: StudyTable, imagenet: StudyTable, recent: StudyTable, seed: int
) -> tuple[dict[str, Sequence[Estimate]], list[str]]:
    """Every estimate that claims need, by what it is of; and why some could not be made."""
    pairs = list(combinations(PARTS, 2))
    parts: dict[str, Callable[[], Sequence[Estimate]]] = {
        "best 20 %": lambda: estimate_risks_of_best(table, SETTINGS, PARTS, fraction=BEST, seed=seed),
        "best 10 %": lambda: estimate_risks_of_best(table, SETTINGS, PARTS, fraction=FEW, seed=seed),
        "best 30 %": lambda: estimate_risks_of_best(table, SETTINGS, PARTS, fraction=0.3, seed=seed),
        "ranks": lambda: rank_correlations(
            table, list(product(PARTS, SETTINGS)), family="components with errors", seed=seed
        ),
        "full-shot and 3-shot": lambda: rank_correlations(table, [(FULL, THREE)], family="one test", seed=seed),
        "pairs, all": lambda: rank_correlations(imagenet, pairs, family="Figure 31a", seed=seed),
        "pairs, all, by objective": lambda: rank_correlations(
            imagenet, pairs, family="Figure 31a", drawn="objective", seed=seed, n_resamples=4_000
        ),
        "pairs, best": lambda: rank_correlations(recent, pairs, family="Figure 31b", seed=seed),
        "chosen 20 %": lambda: beyond_selection(imagenet, "usability", "probe_gen", fraction=BEST, seed=seed),
        "all of a year": lambda: beyond_selection(imagenet, "usability", "probe_gen", fraction=1.0, seed=seed),
        "chosen 10 %": lambda: beyond_selection(imagenet, "usability", "probe_gen", fraction=FEW, seed=seed),
    }
    for name, (first, second) in CHANGES.items():
        parts[name] = partial(_change, table, first, second, seed)
    estimates: dict[str, Sequence[Estimate]] = {}
    missing = []
    for name, estimate in parts.items():
        try:
            estimates[name] = estimate()
        except QueryError as error:
            estimates[name] = []
            missing.append(str(error))
    return estimates, missing


def _change(table: StudyTable, first: tuple[str, str], second: tuple[str, str], seed: int) -> list[Estimate]:
    """How much the correlation of one pair exceeds that of another, over encoders and over whole objectives."""
    return [
        correlation_change(table, first, second, drawn=drawn, seed=seed, n_resamples=4_000)
        for drawn in (None, "objective")
    ]


SETTINGS = tuple(outcome.column for outcome in ERRORS)
RECENT, NOW = 2019, 2022
NAMED = ("msn_vitb4_ep300", "msn_vitl7_ep200", "mugs_vitl16_ep250")  # "best-performing models for 2022"
SEEN = -0.1  # Kendall's tau of the pairs of one year, below which a figure shows a tradeoff curve


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable
    best: pd.DataFrame  # the best 20 % of each year, pretrained on ImageNet-1K
    estimates: Mapping[str, Sequence[Estimate]]  # by what they are of; empty where the table has too few encoders


def claims_of(found: Found) -> list[Claim]:
    """All claims, in the order of the paper's tables and sections."""
    winners = [
        of_a_winner.judged(found.table, row, row=row, best_at=" and ".join(map(describe_accuracy, row.best_at)))
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
def the_printed_encoder_wins(table: StudyTable, row: PrintedWinner) -> ClaimAnswer:
    winners = list(dict.fromkeys(winner(table, row.category, setting).encoder for setting in row.best_at))
    accuracies = accuracies_of(table, winners[0])
    million = float(table.frame["n_parameters"][winners[0]]) / 1e6
    same = len(winners) == 1 and all_agree(row.accuracies, accuracies)
    return ClaimAnswer(
        ours=f"{' and '.join(winners)}, {million:.0f}M: {all_beside(row.accuracies, accuracies)}",
        holds=same and agrees_at_precision(row.million_parameters, million),
        held_as_the_paper_did=same,
        reason="its accuracies are those printed, its card has another number of parameters"
        if same
        else "another encoder of the table is better in this category",
    )


of_winners = Claims(source="Section 5.2.2, Table 2")


@of_winners("The best encoder in full-shot is never the best in 3-shot (5 categories)", paper="never")
def no_encoder_wins_both(table: StudyTable) -> ClaimAnswer:
    both = [
        category.name
        for category in TABLE_2
        if winner(table, category, FULL).encoder == winner(table, category, THREE).encoder
    ]
    return ClaimAnswer(
        ours=f"different encoders in {len(TABLE_2) - len(both)} of {len(TABLE_2)} categories",
        holds=not both,
        value=float(len(TABLE_2) - len(both)),
        reason=f"the same encoder in {', '.join(both)}",
    )


# Table 4: other features of the same encoders

of_features = Claims(source="Table 4")


@of_features("Table 4, {row.name}, {extracted}", paper="{row.dimensions} dimensions: {row.shown}")
def the_printed_features_are_in_the_table(table: StudyTable, row: PrintedFeatures) -> ClaimAnswer:
    accuracies = accuracies_of(table, row.encoder)
    dimensions, extracted = float(table.frame["z_dim"][row.encoder]), bool(table.frame["is_our_extract"][row.encoder])
    same = (
        agrees_at_precision(row.dimensions, dimensions)
        and extracted is row.ours
        and all_agree(row.accuracies, accuracies)
    )
    return ClaimAnswer(
        ours=f"{row.encoder}, {dimensions:g} dimensions: {all_beside(row.accuracies, accuracies)}",
        holds=same,
        reason="the table has other values for these features",
    )


of_smaller_features = Claims(source="Section 5.3.1, Table 4")


@of_smaller_features("Features of fewer dimensions improve few-shot accuracy (both pairs of Table 4)", paper="improve")
def smaller_features_improve_few_shot(table: StudyTable) -> ClaimAnswer:
    gains = []
    for large, small in zip(FEATURES[::2], FEATURES[1::2], strict=True):
        before, after = accuracies_of(table, large.encoder), accuracies_of(table, small.encoder)
        gains.append([new - old for old, new in zip(before, after, strict=True)])
    shown = "; ".join(f"{one:+.1f} at 1 % and {three:+.1f} at 3-shot" for _, one, three in gains)
    return ClaimAnswer(
        ours=shown, holds=all(min(one, three) > 0 for _, one, three in gains), reason="not in both pairs"
    )


@of_smaller_features("Smaller features of OpenCLIP are the best of all encoders at 1 %", paper="best")
def smaller_features_are_best_at_one_percent(table: StudyTable) -> ClaimAnswer:
    published, small = FEATURES[2], FEATURES[3]
    best = winner(table, ANY_FEATURES, ONE)
    dimensions = table.frame["z_dim"].reindex([published.encoder, small.encoder])
    lead = "" if best.margin is None else f", {best.margin:.2f} points ahead of {best.runner_up}"
    accuracy = 100 - best.error
    return ClaimAnswer(
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
def probe_generalization_falls_with_fewer_labels(found: Found) -> ClaimAnswer:
    return moves_steadily(found, "probe_gen", -1)


@of_settings(
    "Usability error of the best 20 % rises with fewer labels", source="Section 5.2.1, Figure 5a", paper="increases"
)
def usability_rises_with_fewer_labels(found: Found) -> ClaimAnswer:
    return moves_steadily(found, "usability", 1)


@of_settings("Low probe generalization goes with low 3-shot error", paper="better in few-shot")
def probe_generalization_ranks_few_shot(found: Found) -> ClaimAnswer:
    return ranks(found, "probe_gen", THREE)


@of_settings("Low usability error goes with low full-shot error", paper="better in full-shot")
def usability_ranks_full_shot(found: Found) -> ClaimAnswer:
    return ranks(found, "usability", FULL)


@of_settings("Probe generalization ranks encoders more alike in 3-shot than in full-shot", paper="sample efficiency")
def probe_generalization_ranks_few_shot_more(found: Found) -> ClaimAnswer:
    return ranks_more(found, "probe_gen ranks few-shot more than full-shot")


@of_settings("Usability ranks encoders more alike in full-shot than in 3-shot", paper="bias")
def usability_ranks_full_shot_more(found: Found) -> ClaimAnswer:
    return ranks_more(found, "usability ranks full-shot more than few-shot")


def moves_steadily(found: Found, part: str, sign: int) -> ClaimAnswer:
    """Whether the mean of a component over the best 20 % goes one way from each setting to the next."""
    means = [find_estimate(found.estimates["best 20 %"], f"best 20 % by {setting}", part) for setting in SETTINGS]
    change = find_estimate(found.estimates["best 20 %"], f"best 20 % by {THREE} - by {FULL}", part)
    values = [sign * (mean.value or 0.0) for mean in means]
    steady = all(later - earlier > -1e-6 for earlier, later in pairwise(values))
    shown = ", ".join(f"{mean.value:.1f}" for mean in means)
    return ClaimAnswer(
        ours=f"{shown} points; change {format_with_interval(change)}, n = {change.n}",
        value=change.value,
        holds=steady and has_interval_without_zero(change),
        reason="the interval of the change includes 0, or it is not steady",
    )


def ranks(found: Found, part: str, setting: str) -> ClaimAnswer:
    """Whether a component and the error of a setting order encoders alike."""
    tau = find_estimate(found.estimates["ranks"], part, setting)
    return ClaimAnswer(
        ours=f"tau {format_with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=tau.ci_low is not None and tau.ci_low > 0,
        reason="the interval includes 0",
    )


def ranks_more(found: Found, change: str) -> ClaimAnswer:
    """Whether one correlation exceeds another, when encoders are drawn and when whole objectives are."""
    by_encoder, by_objective = require_estimates(found.estimates[change], "the components and errors")
    return ClaimAnswer(
        ours=f"tau {format_with_interval(by_encoder)} higher, n = {by_encoder.n}; objectives drawn "
        f"[{by_objective.ci_low:.2f}, {by_objective.ci_high:.2f}]",
        value=by_encoder.value,
        holds=(by_encoder.value or 0.0) > 0
        and has_interval_without_zero(by_encoder)
        and has_interval_without_zero(by_objective),
        reason="the rows do not show it: the interval of the difference includes 0, or it has the other sign",
    )


# Usability against probe generalization

of_tradeoffs = Claims(source="Section 5.2.2")


@of_tradeoffs(f"The best of {NOW} include {', '.join(NAMED)}", source="Appendix F.5, Figure 6", paper="include")
def the_named_encoders_are_among_the_best(found: Found) -> ClaimAnswer:
    those = found.best.index[found.best["year"] == NOW]
    if those.empty:
        raise QueryError(f"No ImageNet-1K encoder of {NOW} has all components, expected the best of them.")
    gone = [encoder for encoder in NAMED if encoder not in those]
    return ClaimAnswer(
        ours=f"{len(NAMED) - len(gone)} of {len(NAMED)} are among the best {len(those)} of {NOW}",
        holds=not gone,
        reason=f"not {' and '.join(gone)}",
    )


@of_tradeoffs(
    "Decreasing usability error tends to increase probe generalization (ImageNet-1K, within years)",
    paper="tends to increase",
)
def they_are_traded_within_years(found: Found) -> ClaimAnswer:
    *years, observed, _, beyond = require_estimates(found.estimates["all of a year"], "usability and probe_gen")
    return ClaimAnswer(
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
def the_best_of_each_year_trade_off(found: Found) -> ClaimAnswer:
    return exceeds_selection(found, "chosen 20 %")


@of_tradeoffs("All ImageNet-1K encoders together show no tradeoff", source="Appendix F.5, Figure 31a", paper="none")
def no_pair_of_components_is_traded(found: Found) -> ClaimAnswer:
    taus = require_estimates(found.estimates["pairs, all"], "the components")
    by_objective = found.estimates["pairs, all, by objective"]
    lowest = min(taus, key=lambda tau: tau.value or 0.0)
    drawn = find_estimate(by_objective, lowest.term, lowest.outcome)
    against = [tau for tau in taus if false_discovery_rate(tau) < 0.05 and (tau.value or 0.0) < 0]
    names = " and ".join(f"{tau.term} goes against {tau.outcome}" for tau in against)
    sure = [tau for tau in against if has_interval_without_zero(find_estimate(by_objective, tau.term, tau.outcome))]
    return ClaimAnswer(
        ours=f"lowest of {len(taus)} tau: {lowest.term} with {lowest.outcome} {format_with_interval(lowest)}, "
        f"n = {lowest.n}, false-discovery rate {false_discovery_rate(lowest):.3f}",
        value=lowest.value,
        holds=not against,
        contradicted=bool(sure),
        reason=f"{names}: weakly (tau {format_with_interval(lowest)}), and "
        f"{'' if has_interval_without_zero(drawn) else 'un'}certain "
        f"when whole objectives are drawn [{drawn.ci_low:.2f}, {drawn.ci_high:.2f}]",
    )


@of_tradeoffs(
    f"The best 10 % since {RECENT} show the usability/probe generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="tradeoff",
)
def the_recent_best_trade_off(found: Found) -> ClaimAnswer:
    return exceeds_selection(found, "chosen 10 %")


@of_tradeoffs(
    f"The best 10 % since {RECENT} show a glimpse of an approximation/probe generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="glimpse",
)
def the_recent_best_trade_approximation_for_probe_generalization(found: Found) -> ClaimAnswer:
    tau = find_estimate(found.estimates["pairs, best"], "approx", "probe_gen")
    return ClaimAnswer(
        ours=f"tau {format_with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=is_negative(tau),
        reason="the interval includes 0",
    )


@of_tradeoffs(
    f"The best 10 % since {RECENT} show no approximation/encoder generalization tradeoff",
    source="Appendix F.5, Figure 31b",
    paper="none",
)
def the_recent_best_do_not_trade_approximation_for_encoder_generalization(found: Found) -> ClaimAnswer:
    tau = find_estimate(found.estimates["pairs, best"], "approx", "enc_gen")
    return ClaimAnswer(
        ours=f"tau {format_with_interval(tau)}, n = {tau.n}",
        value=tau.value,
        holds=not is_negative(tau),
        contradicted=is_negative(tau),
        reason="they go against each other",
    )


def exceeds_selection(found: Found, chosen: str) -> ClaimAnswer:
    """Whether the best of each year lie on a tradeoff curve, beyond the one that choosing them makes by itself."""
    *years, observed, alone, beyond = require_estimates(found.estimates[chosen], "usability and probe_gen")
    shown = ", ".join(f"{year.value:.2f} ({year.term}, n = {year.n})" for year in years)
    p = beyond.p if beyond.p is not None else 1.0
    seen = (observed.value or 0.0) < SEEN
    return ClaimAnswer(
        ours=f"together tau {observed.value:.2f}, by choosing alone {format_with_interval(alone)}, p {p:.2f}",
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
    return all(agrees_at_precision(one, value) for one, value in zip(printed, values, strict=True))


def all_beside(printed: Sequence[str], values: Sequence[float]) -> str:
    return " / ".join(format_like_printed(one, value) for one, value in zip(printed, values, strict=True))
