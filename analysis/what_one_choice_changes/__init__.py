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

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.analysis.columns import COMPONENTS, OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.controlled import CORE_COLUMNS, VARIED_TOGETHER, ControlledEffect, controlled_effect
from zoo.analysis.ols import adjusted
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Findings, answered, number_claim, undone_by_hc3
from zoo.studies.running import StudyOptions
from zoo.studies.tables import probability, read_printed

from . import tables
from .figures import controlled_figures
from .tables import short

Effect = Callable[..., ControlledEffect]
SIGNIFICANT = 0.05
TYPICAL = 2 / 3  # share of pairs from which "typically" is said
COMPLETE = "encoders with every component"
FEW_SHOT = "train-nperclass-3_test"
DATA = "Section 5.3.2, Appendix D.2, Figure 21"
PROJECTOR = "projection2_arch"
SHOWN = ("z_dim", PROJECTOR, "epochs", "nviews", "pretraining_data")  # in the paper
OTHERS = (name for name in CORE_COLUMNS if name not in SHOWN and name not in VARIED_TOGETHER)
TREATMENTS = (*SHOWN, *(name for name in OTHERS if name != "other"))  # remarks in free text are no single choice
FAMILY = "all choices and risks of the controlled analysis"
PRINTED = read_printed(Path(__file__).with_name("printed.tsv"))
WORDS = {"z_dim": "log dimensions", PROJECTOR: "an MLP against no projector", "epochs": "log epochs"}
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
    def printed(treatment: str, outcome: str, *, repeated: bool = True) -> ControlledEffect:
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
    pairs = _repeated(printed)
    return Findings(
        claims=[*(_number(effect, printed, row) for row in PRINTED), *_statements(table, effect, estimates)],
        estimates=[
            *estimates,
            *_against_linear(effect),
            *_of_complete(effect, pairs),
            *(one for _, repeated in pairs for one in repeated.estimates),
        ],
        tables=[
            tables.overview_table(effects, TREE_OUTCOMES),
            tables.estimates_table(effects, estimates),
            tables.repetition_table(pairs),
        ],
        figures=controlled_figures(table),
        rows=tables.rows_used(effects),
        notes=[*NOTES, *_lonely(effect), _surviving(estimates), *_unanswered(unanswered)],
    )


def _repeated(printed: Effect) -> list[tuple[ControlledEffect, ControlledEffect]]:
    """Effects of what varies with other columns, of encoders with every component: each once, and as published."""
    pairs = []
    for treatment in ("z_dim", PROJECTOR):
        for outcome in ("usability", "probe_gen"):
            try:
                pairs.append((printed(treatment, outcome, repeated=False), printed(treatment, outcome)))
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


def _unanswered(reasons: dict[tuple[str, str], str]) -> list[str]:
    never = [one for one in TREATMENTS if all((one, outcome) in reasons for outcome in TREE_OUTCOMES)]
    some = [f"{one} on {OUTCOMES[outcome].label.lower()}" for one, outcome in reasons if one not in never]
    named = ", ".join([*never, *some])
    if not named:
        return []
    return [f"No effect can be judged of {named}: too few encoders differ in it alone, or a value has no logarithm."]


def _quantity(found: ControlledEffect, level: str | None, what: str) -> float | None:
    estimate = found.estimate(level)
    if what == "standard error":
        return found.standard_error(level)
    return estimate.p if what.startswith("p-value") else estimate.value


def _number(effect: Effect, printed: Effect, row: Mapping[str, str]) -> Claim:
    """One printed number beside ours; ``row`` is one of :data:`PRINTED`."""
    treatment, level, outcome, what = row["treatment"], row["level"] or None, row["outcome"], row["what"]
    number, source, misprint_of, caveat = row["printed"], row["source"], row["meant"] or None, ""
    claim = f"Effect of {WORDS[treatment]} on {OUTCOMES[outcome].label.lower()}: {what}"
    try:
        # the printed numbers of choices that vary with other columns are of encoders with every component, so ours too
        ours, theirs = printed(treatment, outcome, repeated=False), printed(treatment, outcome)
        value, repeated = _quantity(ours, level, what), _quantity(theirs, level, what)
        reason = tables.why_it_differs(
            ours,
            theirs,
            effect(treatment, outcome),
            level=level,
            misprint_of=misprint_of,
            bound=float(number[1:]) if number.startswith("<") else None,
        )
        caveat = undone_by_hc3(ours.estimate(level)) if what.startswith("p-value") else ""
    except QueryError as error:
        return number_claim(claim, source=source, printed=number, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    return number_claim(
        claim,
        source=source,
        printed=number,
        ours=value,
        as_the_paper_did=repeated,
        misprint_of=misprint_of,
        cut_off=row["cut_off"] == "yes",
        reason=reason,
        caveat=caveat,
    )


def _statements(table: StudyTable, effect: Effect, tested: Sequence[Estimate]) -> list[Claim]:
    def trade_off() -> Answer:
        vits = table.only(table.frame.index[table.frame["family"] == "vit"], because="no ViT")
        usable = vits.only(vits.complete("usability", "probe_gen").index, because="a component is missing")
        usability, probe = (controlled_effect(usable, "z_dim", one).changes() for one in ("usability", "probe_gen"))
        trading = int(((usability < 0) & (probe > 0)).sum())
        return Answer(
            ours=f"in {trading} of {len(usability)} networks",
            holds=trading == len(usability),
            value=trading,
            reason="one network does not trade the one for the other",
        )

    def few_shot() -> Answer:
        estimate = effect("z_dim", FEW_SHOT).estimate()
        return Answer(
            ours=short(estimate), holds=_is(estimate, 1), value=estimate.value, reason="the effect is not significant"
        )

    def views() -> Answer:
        found = effect("nviews", "usability")
        usability, probe = found.estimate(), effect("nviews", "probe_gen").estimate()
        rate = next(one.p_adjusted for one in tested if (one.term, one.outcome) == (usability.term, "usability"))
        mostly = abs(usability.value or 0.0) > abs(probe.value or 0.0)
        ours = (
            f"usability {short(usability)}, false-discovery rate {probability(rate)}; probe generalization "
            f"{short(probe)}; {found.n_encoders} encoders in {found.n_groups} groups"
        )
        return Answer(
            ours=ours,
            holds=_is(usability, -1) and mostly,
            value=usability.value,
            reason="the effect on usability is not significant, or the other one is larger",
        )

    def views_and_probe() -> Answer:
        changes = effect("nviews", "probe_gen").changes()
        better = int((changes < 0).sum())
        return Answer(
            ours=f"lower in {better} of {len(changes)} groups",
            holds=better > 0,
            value=better,
            reason="it is lower in no group",
        )

    def projector(outcome: str, share: float) -> Answer:
        found = effect(PROJECTOR, outcome)
        changes = pd.concat([found.changes(level, "mlp") for level in ("linear", "identity")])
        better = int((changes < 0).sum())
        linear = short(effect(PROJECTOR, outcome, reference="linear").estimate("mlp"))
        return Answer(
            ours=f"lower in {better} of {len(changes)} pairs; than with a linear one {linear}",
            value=better,
            holds=better > 0 and better >= share * len(changes),
            reason="in fewer pairs",
        )

    def encoder_generalization() -> Answer:
        changes = effect("epochs", "enc_gen").changes()
        better, worse = int((changes < 0).sum()), int((changes > 0).sum())
        return Answer(
            ours=f"lower in {better} groups, higher in {worse}",
            holds=better > 0 and worse > 0,
            reason="it goes the same way in every group",
        )

    def more_data(outcome: str, sign: int) -> Answer:
        found = effect("pretraining_data", outcome)
        changes, estimate = found.changes("ImageNet-1K", "ImageNet-22K"), found.estimate("ImageNet-22K")
        as_said = int((changes * sign > 0).sum())
        return Answer(
            ours=f"in {as_said} of {len(changes)} pairs; {short(estimate)}",
            value=estimate.value,
            holds=as_said == len(changes) > 0,
            reason="it is not so in every pair",
        )

    dimensions, figure_9b, typical = "Section 5.3.1, Figure 8", "Section 5.3.2, Figure 9b", "Appendix D.3, Figure 11"
    rows: Sequence[tuple[str, str, str, Callable[[], Answer]]] = [
        (
            "More dimensions of one ViT lower its usability error and raise its probe generalization error",
            dimensions,
            "a tradeoff",
            trade_off,
        ),
        ("Fewer dimensions lower the 3-shot error", "Section 5.3.1, Appendix D.1", "improve", few_shot),
        ("More views mostly improve usability", figure_9b, "mostly usability", views),
        ("More views can also improve probe generalization", figure_9b, "can help", views_and_probe),
        (
            "An MLP projector improves usability",
            "Section 5.3.3, Figure 11",
            "improves",
            lambda: projector("usability", 1.0),
        ),
        (
            "An MLP projector typically improves probe generalization",
            typical,
            "typically",
            lambda: projector("probe_gen", TYPICAL),
        ),
        (
            "Longer training improves encoder generalization of some encoders and worsens that of others",
            "Appendix D.5, Figure 25",
            "not very clear",
            encoder_generalization,
        ),
        (
            "Pretraining on ImageNet-22k worsens probe generalization",
            DATA,
            "worsens",
            lambda: more_data("probe_gen", 1),
        ),
        (
            "Pretraining on ImageNet-22k worsens encoder generalization",
            DATA,
            "worsens",
            lambda: more_data("enc_gen", 1),
        ),
        ("Pretraining on ImageNet-22k can improve usability", DATA, "can improve", lambda: more_data("usability", -1)),
    ]
    return [answered(claim, source=source, paper=paper, answer=answer) for claim, source, paper, answer in rows]


def _is(estimate: Estimate, sign: int) -> bool:
    """True if the effect has the sign and is significant."""
    significant = estimate.p is not None and estimate.p < SIGNIFICANT
    return significant and estimate.value is not None and estimate.value * sign > 0
