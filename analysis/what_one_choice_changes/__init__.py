"""What does one design choice change when all others are the same?

Claim: more dimensions improve usability at the expense of probe generalization (Sections 5.3.1, D.1; Figures 8, 19a);
more views mostly improve usability (5.3.2; Figure 9b); an MLP projector improves usability, and often probe
generalization (5.3.3; Figure 11); longer training improves usability, and somewhat probe generalization (D.5; Figure
25); pretraining on ImageNet-22k worsens both generalizations (D.2; Figure 21). By the controlled analysis: encoders
that are equal in every core choice but one.

Expected: log dimensions on usability -3.82, p 2e-4 (25 encoders, 10 groups; printed -3.9, p 4e-9) and on probe
generalization +3.75, p 2e-4 (the same encoders; printed 3.8, p 2e-9; +3.10, p 7e-7 of all 51 with this risk); MLP
against no projector on usability -12.9, p 6e-3 (9 encoders; printed p 9e-12) and on probe generalization p .3 (printed
5e-3); log epochs on usability -1.37 +- .55, p .024 (printed 2e-3). The published code counted an encoder once for each
column that varies in its group. Repeating that gives each printed p-value but the last, a misprint of 2e-2.

Command: zoo study what_one_choice_changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from zoo.analysis.columns import COMPONENTS, OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.controlled import CORE_COLUMNS, VARIED_TOGETHER, ControlledEffect, controlled_effect
from zoo.analysis.ols import adjusted
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

from .claims import PROJECTOR, SIGNIFICANT, Effect, Found, claims_of
from .figures import controlled_figures
from .tables import estimates_table, overview_table, repetition_table, rows_used

COMPLETE = "encoders with every component"
SHOWN = ("z_dim", PROJECTOR, "epochs", "nviews", "pretraining_data")  # in the paper
OTHERS = (name for name in CORE_COLUMNS if name not in SHOWN and name not in VARIED_TOGETHER)
TREATMENTS = (*SHOWN, *(name for name in OTHERS if name != "other"))  # remarks in free text are no single choice
FAMILY = "all choices and risks of the controlled analysis"
NOTES = (
    "Numbers enter as natural logarithms, decided beforehand. The paper took the logarithm or the number, whichever is "
    "best; every coefficient that it prints here is of a logarithm.",
    "A coefficient of a logarithm is the change for a factor of 2.72; a doubling changes 0.69 of it.",
    "Approximation is a property of the architecture, measured on its supervised twin, so what leaves the architecture "
    "alone leaves it the same exactly, by construction.",
    "The caption printed below Figure 25 speaks of the projection head; what it shows is the number of epochs.",
    "Equal in the core choices is not equal in everything: seeds, code and the hidden projector differ, and nothing "
    "here is a randomised experiment.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Controlled effects of every choice on every risk, and the printed ones beside them."""
    complete = table.only(
        table.frame.dropna(subset=[outcome.column for outcome in COMPONENTS]).index, because="a component is missing"
    )

    @cache
    def effect(treatment: str, outcome: str, **how: Any) -> ControlledEffect:
        return controlled_effect(table, treatment, outcome, **how)

    @cache
    def as_printed(treatment: str, outcome: str, *, repeated: bool = True) -> ControlledEffect:
        # printed numbers of choices that vary with other columns are of encoders with every component
        chosen = complete if treatment in VARIED_TOGETHER else table
        return controlled_effect(chosen, treatment, outcome, as_the_paper_did=repeated)

    effects, unanswered = [], {}
    for step, treatment in enumerate(TREATMENTS):
        options.progress("choices", step, len(TREATMENTS))
        for outcome in TREE_OUTCOMES:
            try:
                effects.append(effect(treatment, outcome))
            except QueryError as error:
                unanswered[treatment, outcome] = str(error)
    estimates = adjusted([one for found in effects for one in found.estimates], family=FAMILY)
    pairs = _repeated(as_printed)
    return Findings(
        claims=claims_of(Found(table, effect, as_printed, estimates)),
        estimates=[
            *estimates,
            *_against_linear(effect),
            *_of_complete(effect, pairs),
            *(one for _, repeated in pairs for one in repeated.estimates),
        ],
        tables=[
            overview_table(effects, TREE_OUTCOMES),
            estimates_table(effects, estimates),
            repetition_table(pairs),
        ],
        figures=controlled_figures(table),
        rows=rows_used(effects),
        notes=[*NOTES, *_lonely(effect), _surviving(estimates), *_unanswered(unanswered)],
    )


def _repeated(as_printed: Effect) -> list[tuple[ControlledEffect, ControlledEffect]]:
    """Effects of what varies with other columns, of encoders with every component: each once, and as published."""
    pairs = []
    for treatment in ("z_dim", PROJECTOR):
        for outcome in ("usability", "probe_gen"):
            try:
                pairs.append((as_printed(treatment, outcome, repeated=False), as_printed(treatment, outcome)))
            except QueryError:
                continue  # the claim about it says why
    return pairs


def _of_complete(effect: Effect, pairs: Sequence[tuple[ControlledEffect, ControlledEffect]]) -> list[Estimate]:
    """Effects that claims are held against, where they are of fewer encoders than have the risk."""
    fewer = [once for once, _ in pairs if once.n_encoders < effect(once.treatment, once.outcome).n_encoders]
    return [one.described(method=f"controlled, {COMPLETE}") for once in fewer for one in once.estimates]


def _against_linear(effect: Effect) -> list[Estimate]:
    """What an MLP does that a linear projector does not: a contrast of effects of the family, so it is not in it."""
    try:
        found = [effect(PROJECTOR, outcome, reference="linear").estimate("mlp") for outcome in TREE_OUTCOMES]
    except QueryError:
        return []
    return [one.described(term=f"{PROJECTOR}[mlp vs linear]") for one in found]


def _lonely(effect: Effect) -> list[str]:
    """Levels of the projector that a single encoder has, on which everything about them rests."""
    try:
        levels = effect(PROJECTOR, "usability").rows[PROJECTOR]
    except QueryError:
        return []
    alone = [(level, levels.index[levels == level][0]) for level in levels.unique() if (levels == level).sum() == 1]
    return [
        f"What the projector {level!r} does rests on one encoder, {encoder}; other groups compare other projectors. So "
        "no HC3 interval can be had."
        for level, encoder in alone
    ]


def _surviving(estimates: Sequence[Estimate]) -> str:
    tested = [one for one in estimates if one.p_adjusted is not None]
    left = [one for one in tested if one.p_adjusted is not None and one.p_adjusted < SIGNIFICANT]
    robust = [one for one in left if one.p_robust is not None and one.p_robust < SIGNIFICANT]
    named = ", ".join(f"{one.term} on {OUTCOMES[one.outcome].label.lower()}" for one in robust) or "none"
    return (
        f"Of {len(tested)} tests, {len(left)} have a false-discovery rate below {SIGNIFICANT:.0%}, and {len(robust)} "
        f"of these an HC3 p-value below it too: {named}."
    )


def _unanswered(reasons: Mapping[tuple[str, str], str]) -> list[str]:
    never = [one for one in TREATMENTS if all((one, outcome) in reasons for outcome in TREE_OUTCOMES)]
    some = [f"{one} on {OUTCOMES[outcome].label.lower()}" for one, outcome in reasons if one not in never]
    named = ", ".join([*never, *some])
    if not named:
        return []
    return [f"No effect can be judged of {named}: too few encoders differ in it alone, or a value has no logarithm."]
