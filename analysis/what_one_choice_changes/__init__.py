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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.analysis.columns import COMPONENTS, OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.controlled import CORE_COLUMNS, VARIED_TOGETHER, ControlledEffect, controlled_effect
from zoo.analysis.linear import adjust_discovery_rates
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import (
    NOT_AVAILABLE,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    answer_in_sentence,
    describe_hc3_change,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_p_value, read_printed

from .tables import controlled_figures, estimates_table, overview_table, repetition_table, rows_used, short

COMPLETE = "encoders with every component"
PROJECTOR = "projection2_arch"
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
    """Controlled effects of every choice on every risk, and the printed ones next to them."""
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
    estimates = adjust_discovery_rates([one for found in effects for one in found.estimates], family=FAMILY)
    pairs = _repeated(as_printed)
    return Findings(
        claims=claims_of(Found(table, effect, as_printed, estimates)),
        answer=answer_in_sentence(lambda: _answer(effect)),
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


def _answer(effect: Effect) -> str:
    usability, probe, mlp = effect("z_dim", "usability"), effect("z_dim", "probe_gen"), effect(PROJECTOR, "usability")
    first, second = (math.log(2) * require_value(one.estimate()) for one in (usability, probe))
    return (
        f"All else equal, twice the dimensions change usability error by {first:+.1f} points ({usability.n_encoders} "
        f"encoders), probe generalization error by {second:+.1f} ({probe.n_encoders}); an MLP projector, usability "
        f"error by {require_value(mlp.estimate('mlp')):+.1f} ({mlp.n_encoders})."
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


PRINTED = read_printed(Path(__file__).with_name("printed.tsv"))
WORDS = {"z_dim": "log dimensions", PROJECTOR: "an MLP against no projector", "epochs": "log epochs"}
SIGNIFICANT = 0.05
TYPICAL = 2 / 3  # share of pairs from which "typically" is said
FEW_SHOT = "train-nperclass-3_test"
Effect = Callable[..., ControlledEffect]


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable
    effect: Effect  # of a treatment on an outcome, each encoder once
    as_printed: Effect  # of the encoders that the paper's numbers are of, with rows repeated as in the published code
    tested: Sequence[Estimate]  # every effect, with its false-discovery rate


def claims_of(found: Found) -> list[Claim]:
    """All claims: the printed numbers, then the statements."""
    return [*(printed_number(found, row) for row in PRINTED), *of_choices.judged(found)]


# Printed numbers


def printed_number(found: Found, row: Mapping[str, str]) -> Claim:
    """One number of ``printed.tsv`` next to ours, for dimensions and projectors of encoders with every risk."""
    treatment, level, outcome, what = row["treatment"], row["level"] or None, row["outcome"], row["what"]
    printed, source, misprint_of, caveat = row["printed"], row["source"], row["meant"] or None, ""
    claim = f"Effect of {WORDS[treatment]} on {OUTCOMES[outcome].label.lower()}: {what}"
    try:
        ours = found.as_printed(treatment, outcome, repeated=False)
        theirs = found.as_printed(treatment, outcome)
        value, repeated = quantity(ours, level, what), quantity(theirs, level, what)
        reason = why_it_differs(
            ours,
            theirs,
            found.effect(treatment, outcome),
            level=level,
            misprint_of=misprint_of,
            bound=float(printed[1:]) if printed.startswith("<") else None,
        )
        caveat = describe_hc3_change(ours.estimate(level)) if what.startswith("p-value") else ""
    except QueryError as error:
        return number_claim(claim, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    return number_claim(
        claim,
        source=source,
        printed=printed,
        ours=value,
        as_the_paper_did=repeated,
        misprint_of=misprint_of,
        cut_off=row["cut_off"] == "yes",
        reason=reason,
        caveat=caveat,
    )


def quantity(effect: ControlledEffect, level: str | None, what: str) -> float | None:
    """The coefficient, standard error or p-value of an effect."""
    if what == "standard error":
        return effect.standard_error(level)
    estimate = effect.estimate(level)
    return estimate.p if what.startswith("p-value") else estimate.value


def why_it_differs(
    ours: ControlledEffect,
    theirs: ControlledEffect,
    of_all: ControlledEffect,
    *,
    level: str | None,
    bound: float | None,
    misprint_of: str | None,
) -> str:
    """Why a printed number is not ours: ``theirs`` has rows repeated, ``of_all`` all encoders with the outcome."""
    estimate, error = ours.estimate(level), ours.standard_error(level)
    if theirs.fit.n > theirs.n_encoders:
        reason = (
            f"the published code counted {theirs.n_encoders} encoders {theirs.fit.n} times, once for each column that "
            f"varies in their group ({theirs.fit.residual_df} residual degrees of freedom instead of "
            f"{ours.fit.residual_df}), which gives {short(theirs.estimate(level))}; each once: {short(estimate)}"
        )
        if bound is not None and all((one.estimate(level).p or 0.0) >= bound for one in (ours, theirs)):
            reason += f"; neither is below {bound:.0e}" + (
                f", and the appendix prints {misprint_of}" if misprint_of else ""
            )
        if of_all.n_encoders != ours.n_encoders:
            reason += f"; all {of_all.n_encoders} encoders with this risk give {short(of_all.estimate(level))}"
        return reason
    effect = f"{estimate.value:.3f} +- {error:.3f} with {ours.fit.residual_df} degrees of freedom"
    if misprint_of is not None:
        return f"a misprint of {misprint_of}: an effect of {effect} has p {format_p_value(estimate.p)}"
    return f"no encoder is counted twice here, and the effect is {effect}, p {format_p_value(estimate.p)}"


# Statements

of_choices = Claims(source="Section 5.3")


@of_choices(
    "More dimensions of one ViT lower its usability error and raise its probe generalization error",
    source="Section 5.3.1, Figure 8",
    paper="a tradeoff",
)
def dimensions_trade_one_for_the_other(found: Found) -> ClaimAnswer:
    table = found.table
    vits = table.only(table.frame.index[table.frame["family"] == "vit"], because="no ViT")
    usable = vits.only(vits.complete("usability", "probe_gen").index, because="a component is missing")
    usability, probe = (controlled_effect(usable, "z_dim", one).changes() for one in ("usability", "probe_gen"))
    trading = int(((usability < 0) & (probe > 0)).sum())
    return ClaimAnswer(
        ours=f"in {trading} of {len(usability)} networks",
        holds=trading == len(usability),
        value=trading,
        reason="one network does not trade the one for the other",
    )


@of_choices("Fewer dimensions lower the 3-shot error", source="Section 5.3.1, Appendix D.1", paper="improve")
def fewer_dimensions_improve_few_shot(found: Found) -> ClaimAnswer:
    estimate = found.effect("z_dim", FEW_SHOT).estimate()
    return ClaimAnswer(
        ours=short(estimate),
        holds=is_significant(estimate, 1),
        value=estimate.value,
        reason="the effect is not significant",
    )


@of_choices("More views mostly improve usability", source="Section 5.3.2, Figure 9b", paper="mostly usability")
def views_improve_usability(found: Found) -> ClaimAnswer:
    effect = found.effect("nviews", "usability")
    usability, probe = effect.estimate(), found.effect("nviews", "probe_gen").estimate()
    rate = next(one.p_adjusted for one in found.tested if (one.term, one.outcome) == (usability.term, "usability"))
    mostly = abs(usability.value or 0.0) > abs(probe.value or 0.0)
    return ClaimAnswer(
        ours=f"usability {short(usability)}, false-discovery rate {format_p_value(rate)}; probe generalization "
        f"{short(probe)}; {effect.n_encoders} encoders in {effect.n_groups} groups",
        holds=is_significant(usability, -1) and mostly,
        value=usability.value,
        reason="the effect on usability is not significant, or the other one is larger",
    )


@of_choices("More views can also improve probe generalization", source="Section 5.3.2, Figure 9b", paper="can help")
def views_can_improve_probe_generalization(found: Found) -> ClaimAnswer:
    changes = found.effect("nviews", "probe_gen").changes()
    better = int((changes < 0).sum())
    return ClaimAnswer(
        ours=f"lower in {better} of {len(changes)} groups",
        holds=better > 0,
        value=better,
        reason="it is lower in no group",
    )


@of_choices("An MLP projector improves usability", source="Section 5.3.3, Figure 11", paper="improves")
def projectors_improve_usability(found: Found) -> ClaimAnswer:
    return an_mlp_improves(found, "usability", share=1.0)


@of_choices(
    "An MLP projector typically improves probe generalization", source="Appendix D.3, Figure 11", paper="typically"
)
def projectors_typically_improve_probe_generalization(found: Found) -> ClaimAnswer:
    return an_mlp_improves(found, "probe_gen", share=TYPICAL)


@of_choices(
    "Longer training improves encoder generalization of some encoders and worsens that of others",
    source="Appendix D.5, Figure 25",
    paper="not very clear",
)
def training_moves_encoder_generalization_both_ways(found: Found) -> ClaimAnswer:
    changes = found.effect("epochs", "enc_gen").changes()
    better, worse = int((changes < 0).sum()), int((changes > 0).sum())
    return ClaimAnswer(
        ours=f"lower in {better} groups, higher in {worse}",
        holds=better > 0 and worse > 0,
        reason="it goes the same way in every group",
    )


@of_choices(
    "Pretraining on ImageNet-22k worsens probe generalization",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="worsens",
)
def more_data_worsen_probe_generalization(found: Found) -> ClaimAnswer:
    return more_data_move(found, "probe_gen", 1)


@of_choices(
    "Pretraining on ImageNet-22k worsens encoder generalization",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="worsens",
)
def more_data_worsen_encoder_generalization(found: Found) -> ClaimAnswer:
    return more_data_move(found, "enc_gen", 1)


@of_choices(
    "Pretraining on ImageNet-22k can improve usability",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="can improve",
)
def more_data_can_improve_usability(found: Found) -> ClaimAnswer:
    return more_data_move(found, "usability", -1)


def an_mlp_improves(found: Found, outcome: str, *, share: float) -> ClaimAnswer:
    """Whether an MLP lowers an outcome in a share of the pairs with a linear or no projector."""
    effect = found.effect(PROJECTOR, outcome)
    changes = pd.concat([effect.changes(level, "mlp") for level in ("linear", "identity")])
    better = int((changes < 0).sum())
    linear = short(found.effect(PROJECTOR, outcome, reference="linear").estimate("mlp"))
    return ClaimAnswer(
        ours=f"lower in {better} of {len(changes)} pairs; than with a linear one {linear}",
        value=better,
        holds=better > 0 and better >= share * len(changes),
        reason="in fewer pairs",
    )


def more_data_move(found: Found, outcome: str, sign: int) -> ClaimAnswer:
    """Whether ImageNet-22k moves an outcome one way in every pair with ImageNet-1K."""
    effect = found.effect("pretraining_data", outcome)
    changes, estimate = effect.changes("ImageNet-1K", "ImageNet-22K"), effect.estimate("ImageNet-22K")
    as_said = int((changes * sign > 0).sum())
    return ClaimAnswer(
        ours=f"in {as_said} of {len(changes)} pairs; {short(estimate)}",
        value=estimate.value,
        holds=as_said == len(changes) > 0,
        reason="it is not so in every pair",
    )


def is_significant(estimate: Estimate, sign: int) -> bool:
    """True if the effect has the sign and is significant."""
    significant = estimate.p is not None and estimate.p < SIGNIFICANT
    return significant and estimate.value is not None and estimate.value * sign > 0
