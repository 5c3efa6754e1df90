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
from functools import partial
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

from zoo.analysis.columns import ERRORS, Estimate
from zoo.analysis.correlations import beyond_selection, correlation_change, pareto_front, rank_correlations
from zoo.analysis.groups import PARTS, TABLE_2, best_fraction_of_each, members, risks_of_best
from zoo.analysis.table import StudyTable, require_encoders
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, Findings, answered, excludes_zero, one_of, some_of
from zoo.studies.running import StudyOptions
from zoo.studies.tables import doubts, rows_used, with_interval

from .figures import correlations_figure, full_against_few_figure, pairs_figure, settings_figure, tradeoff_figure
from .printed import (
    FEATURES,
    FULL,
    SHOWN,
    THREE,
    accuracy_estimates,
    costs_of_choosing,
    feature_claims,
    features_report,
    winner_claims,
    winners_report,
)
from .tables import best_of_years_table, costs_table, encoders_table

if TYPE_CHECKING:
    import pandas as pd


SETTINGS = tuple(outcome.column for outcome in ERRORS)
BEST, FEW, RECENT, NOW = 0.2, 0.1, 2019, 2022  # best 20 % in Figures 5a and 6, best 10 % since 2019 in Figure 31b
NAMED = ("msn_vitb4_ep300", "msn_vitl7_ep200", "mugs_vitl16_ep250")  # "best-performing models for 2022"
CHANGES = {
    "probe_gen ranks few-shot more than full-shot": (("probe_gen", THREE), ("probe_gen", FULL)),
    "usability ranks full-shot more than few-shot": (("usability", FULL), ("usability", THREE)),
    "probe_gen ranks few-shot more than usability does": (("probe_gen", THREE), ("usability", THREE)),
    "usability ranks full-shot more than probe_gen does": (("usability", FULL), ("probe_gen", FULL)),
}
TRADED = -0.1  # a tau below this, over the pairs of encoders of one year, is a curve that can be seen in a figure
Found = Mapping[str, Sequence[Estimate]]


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """The winners by category and setting, the risks of the best, and rank correlations of risks and errors."""
    require_encoders(table)
    imagenet = table.only(
        table.frame.index[table.frame["pretraining_data"] == "ImageNet-1K"], because="not pretrained on ImageNet-1K"
    )
    complete = imagenet.frame.dropna(subset=["year", FULL, *PARTS])
    best = best_fraction_of_each(complete, "year", by=FULL, fraction=BEST)
    few = best_fraction_of_each(complete[complete["year"] >= RECENT], "year", by=FULL, fraction=FEW)
    recent = imagenet.only(few.index, because=f"not among the best 10 % of a year since {RECENT}")
    found, missing = _estimated(table, imagenet, recent, options.seed)
    costs = costs_of_choosing(table)
    front = pareto_front(table.frame, FULL, THREE)
    return Findings(
        claims=[
            *winner_claims(table),
            *feature_claims(table),
            *_claims_of_settings(found),
            *_claims_of_tradeoffs(best, found),
        ],
        estimates=[
            *accuracy_estimates(table),
            *(one for several in found.values() for one in several),
            *(one for row in costs for one in row[1:]),
        ],
        tables=[
            winners_report(table),
            features_report(table),
            costs_table(costs),
            encoders_table(
                f"The {len(front)} encoders that no other one beats in both full-shot and 3-shot",
                front,
                SHOWN,
                note="Accuracy in percent, higher is better.",
            ),
            best_of_years_table(best, FULL),
        ],
        figures=[
            settings_figure(found["best 20 %"], SETTINGS, BEST),
            tradeoff_figure(best, since=RECENT),
            pairs_figure(
                "all_pairs_of_risks",
                "Pairs of risks, all ImageNet-1K encoders (Figure 31a)",
                imagenet.frame,
                found["pairs, all"],
            ),
            pairs_figure(
                "best_pairs_of_risks",
                f"Pairs of risks, best 10 % of each year since {RECENT} (Figure 31b)",
                recent.frame,
                found["pairs, best"],
            ),
            correlations_figure(found["ranks"], SETTINGS),
            full_against_few_figure(table.frame, THREE),
        ],
        rows=[
            *(
                rows_used(
                    f"Table 2, {one.name}",
                    table.only(members(table, one).index, because="another category"),
                    *SHOWN,
                    of=table,
                )
                for one in TABLE_2
            ),
            rows_used("Figure 5a", table, *SETTINGS, *PARTS),
            rows_used("Figures 6 and 31", imagenet, "year", FULL, *PARTS, of=table),
        ],
        notes=[
            "The last category of Table 2 holds published features only; the best at full-shot and at 1 % have others.",
            "Winners are single encoders that differ in many choices; their intervals hold the test images alone.",
            "Rank correlations take encoders as independent, which versions of one are not: p-values flatter.",
            "Usability and probe generalization share the probe's training error with opposite signs, so some of their "
            "tradeoff is in their definition.",
            *doubts([*table.frame.index[table.frame.index.isin([row.encoder for row in FEATURES])], *best.index]),
            *dict.fromkeys(missing),
        ],
    )


def _estimated(table: StudyTable, imagenet: StudyTable, recent: StudyTable, seed: int) -> tuple[Found, list[str]]:
    pairs = list(combinations(PARTS, 2))
    parts: dict[str, Callable[[], Sequence[Estimate]]] = {
        "best 20 %": lambda: risks_of_best(table, SETTINGS, PARTS, fraction=BEST, seed=seed),
        "best 10 %": lambda: risks_of_best(table, SETTINGS, PARTS, fraction=FEW, seed=seed),
        "best 30 %": lambda: risks_of_best(table, SETTINGS, PARTS, fraction=0.3, seed=seed),
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
    found: dict[str, Sequence[Estimate]] = {}
    missing = []
    for name, estimates in parts.items():
        try:
            found[name] = estimates()
        except QueryError as error:
            found[name] = []
            missing.append(str(error))
    return found, missing


def _change(table: StudyTable, first: tuple[str, str], second: tuple[str, str], seed: int) -> list[Estimate]:
    """How much the correlation of one pair exceeds that of another, over encoders and over whole objectives."""
    return [
        correlation_change(table, first, second, drawn=drawn, seed=seed, n_resamples=4_000)
        for drawn in (None, "objective")
    ]


def _claims_of_settings(found: Found) -> list[Claim]:
    def moves(part: str, sign: int) -> Answer:
        means = [one_of(found["best 20 %"], f"best 20 % by {setting}", part) for setting in SETTINGS]
        change = one_of(found["best 20 %"], f"best 20 % by {THREE} - by {FULL}", part)
        values = [sign * (mean.value or 0.0) for mean in means]
        steady = all(later - earlier > -1e-6 for earlier, later in pairwise(values))
        shown = ", ".join(f"{mean.value:.1f}" for mean in means)
        return Answer(
            ours=f"{shown} points; change {with_interval(change)}, n = {change.n}",
            value=change.value,
            holds=steady and excludes_zero(change),
            reason="the interval of the change includes 0, or it is not steady",
        )

    def ranks(part: str, setting: str) -> Answer:
        tau = one_of(found["ranks"], part, setting)
        return Answer(
            ours=f"tau {with_interval(tau)}, n = {tau.n}",
            value=tau.value,
            holds=tau.ci_low is not None and tau.ci_low > 0,
            reason="the interval includes 0",
        )

    def more(name: str) -> Answer:
        by_encoder, by_objective = some_of(found[name], "the components and errors")
        return Answer(
            ours=f"tau {with_interval(by_encoder)} higher, n = {by_encoder.n}; objectives drawn "
            f"[{by_objective.ci_low:.2f}, {by_objective.ci_high:.2f}]",
            value=by_encoder.value,
            holds=(by_encoder.value or 0.0) > 0 and excludes_zero(by_encoder) and excludes_zero(by_objective),
            reason="the rows do not show it: the interval of the difference includes 0, or it has the other sign",
        )

    source, figure = "Section 5.2.1", "Section 5.2.1, Figure 5a"
    return [
        answered(
            "Probe generalization of the best 20 % falls with fewer labels",
            source=figure,
            paper="decreases",
            answer=lambda: moves("probe_gen", -1),
        ),
        answered(
            "Usability error of the best 20 % rises with fewer labels",
            source=figure,
            paper="increases",
            answer=lambda: moves("usability", 1),
        ),
        answered(
            "Low probe generalization goes with low 3-shot error",
            source=source,
            paper="better in few-shot",
            answer=lambda: ranks("probe_gen", THREE),
        ),
        answered(
            "Low usability error goes with low full-shot error",
            source=source,
            paper="better in full-shot",
            answer=lambda: ranks("usability", FULL),
        ),
        answered(
            "Probe generalization ranks encoders more alike in 3-shot than in full-shot",
            source=source,
            paper="sample efficiency",
            answer=lambda: more("probe_gen ranks few-shot more than full-shot"),
        ),
        answered(
            "Usability ranks encoders more alike in full-shot than in 3-shot",
            source=source,
            paper="bias",
            answer=lambda: more("usability ranks full-shot more than few-shot"),
        ),
    ]


def _claims_of_tradeoffs(best: pd.DataFrame, found: Found) -> list[Claim]:
    def named() -> Answer:
        those = best.index[best["year"] == NOW]
        if those.empty:
            raise QueryError(f"No ImageNet-1K encoder of {NOW} has all components, expected the best of them.")
        gone = [encoder for encoder in NAMED if encoder not in those]
        return Answer(
            ours=f"{len(NAMED) - len(gone)} of {len(NAMED)} are among the best {len(those)} of {NOW}",
            holds=not gone,
            reason=f"not {' and '.join(gone)}",
        )

    def curve(name: str) -> Answer:
        *years, observed, alone, beyond = some_of(found[name], "usability and probe_gen")
        shown = ", ".join(f"{year.value:.2f} ({year.term}, n = {year.n})" for year in years)
        p = beyond.p if beyond.p is not None else 1.0
        seen = (observed.value or 0.0) < TRADED
        return Answer(
            ours=f"together tau {observed.value:.2f}, by choosing alone {with_interval(alone)}, p {p:.2f}",
            value=observed.value,
            holds=seen and (beyond.value or 0.0) < 0 and p < 0.05,
            held_as_the_paper_did=seen,
            reason=f"choosing encoders for a low sum of both makes such a curve by itself, so it is no evidence; by "
            f"year tau is {shown}"
            if seen
            else f"there is no such curve: tau over all years is not below {TRADED:g}",
        )

    def no_tradeoff() -> Answer:
        taus = some_of(found["pairs, all"], "the components")
        lowest = min(taus, key=lambda tau: tau.value or 0.0)
        drawn = one_of(found["pairs, all, by objective"], lowest.term, lowest.outcome)
        against = [tau for tau in taus if _rate(tau) < 0.05 and (tau.value or 0.0) < 0]
        names = " and ".join(f"{tau.term} goes against {tau.outcome}" for tau in against)
        sure = [
            tau for tau in against if excludes_zero(one_of(found["pairs, all, by objective"], tau.term, tau.outcome))
        ]
        return Answer(
            ours=f"lowest of {len(taus)} tau: {lowest.term} with {lowest.outcome} {with_interval(lowest)}, "
            f"n = {lowest.n}, false-discovery rate {_rate(lowest):.3f}",
            value=lowest.value,
            holds=not against,
            contradicted=bool(sure),
            reason=f"{names}: weakly (tau {with_interval(lowest)}), and {'' if excludes_zero(drawn) else 'un'}certain "
            f"when whole objectives are drawn [{drawn.ci_low:.2f}, {drawn.ci_high:.2f}]",
        )

    def best_pair(first: str, second: str, *, traded: bool) -> Answer:
        tau = one_of(found["pairs, best"], first, second)
        against = tau.ci_high is not None and tau.ci_high < 0
        return Answer(
            ours=f"tau {with_interval(tau)}, n = {tau.n}",
            value=tau.value,
            holds=against is traded,
            contradicted=against is not traded and not traded,
            reason="the interval includes 0" if traded else "they go against each other",
        )

    def within_years() -> Answer:
        *years, observed, _, beyond = some_of(found["all of a year"], "usability and probe_gen")
        return Answer(
            ours=f"tau {observed.value:.2f} over all encoders of a year [{beyond.ci_low:.2f}, {beyond.ci_high:.2f}], "
            f"n = {observed.n}, {len(years)} years, p {beyond.p:.3f}",
            value=observed.value,
            holds=(beyond.value or 0.0) < 0 and (beyond.p or 0.0) < 0.05,
            reason="they are unrelated within years",
        )

    appendix = "Appendix F.5, Figure 31"
    return [
        answered(
            f"The best of {NOW} include {', '.join(NAMED)}",
            source="Appendix F.5, Figure 6",
            paper="include",
            answer=named,
        ),
        answered(
            "Decreasing usability error tends to increase probe generalization (ImageNet-1K, within years)",
            source="Section 5.2.2",
            paper="tends to increase",
            answer=within_years,
        ),
        answered(
            "At every point in time, the best 20 % form a usability/probe generalization tradeoff",
            source="Section 5.2.2, Figure 6",
            paper="tradeoff curve",
            answer=lambda: curve("chosen 20 %"),
        ),
        answered(
            "All ImageNet-1K encoders together show no tradeoff",
            source=f"{appendix}a",
            paper="none",
            answer=no_tradeoff,
        ),
        answered(
            f"The best 10 % since {RECENT} show the usability/probe generalization tradeoff",
            source=f"{appendix}b",
            paper="tradeoff",
            answer=lambda: curve("chosen 10 %"),
        ),
        answered(
            f"The best 10 % since {RECENT} show a glimpse of an approximation/probe generalization tradeoff",
            source=f"{appendix}b",
            paper="glimpse",
            answer=lambda: best_pair("approx", "probe_gen", traded=True),
        ),
        answered(
            f"The best 10 % since {RECENT} show no approximation/encoder generalization tradeoff",
            source=f"{appendix}b",
            paper="none",
            answer=lambda: best_pair("approx", "enc_gen", traded=False),
        ),
    ]


def _rate(tau: Estimate) -> float:
    return 1.0 if tau.p_adjusted is None else tau.p_adjusted
