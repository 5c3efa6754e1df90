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

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, product

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import beyond_selection, correlation_change, pareto_front, rank_correlations
from zoo.analysis.groups import PARTS, best_fraction_of_each, risks_of_best
from zoo.analysis.table import StudyTable, require_encoders
from zoo.errors import QueryError
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions
from zoo.studies.tables import doubts, rows_used

from .claims import RECENT, SETTINGS, Found, claims_of
from .figures import correlations_figure, full_against_few_figure, pairs_figure, settings_figure, tradeoff_figure
from .tables import (
    FEATURES,
    FULL,
    SHOWN,
    THREE,
    accuracy_estimates,
    best_of_years_table,
    costs_of_choosing,
    costs_table,
    features_table,
    front_table,
    winners_table,
)
from .winners import TABLE_2, members

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
    best = best_fraction_of_each(complete, "year", by=FULL, fraction=BEST)
    few = best_fraction_of_each(complete[complete["year"] >= RECENT], "year", by=FULL, fraction=FEW)
    recent = imagenet.only(few.index, because=f"not among the best 10 % of a year since {RECENT}")
    estimates, missing = _estimated(table, imagenet, recent, options.seed)
    costs = costs_of_choosing(table)
    front = pareto_front(table.frame, FULL, THREE)
    return Findings(
        claims=claims_of(Found(table, best, estimates)),
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


def _estimated(
    table: StudyTable, imagenet: StudyTable, recent: StudyTable, seed: int
) -> tuple[dict[str, Sequence[Estimate]], list[str]]:
    """Every estimate that claims need, by what it is of; and why some could not be made."""
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
