"""What do design choices change on average, the others held equal?

Claim: ViTs improve probe generalization, more parameters improve usability and approximation, more dimensions trade
usability for probe generalization (Section 5.3); projectors, augmentations and effective dimensionality improve
usability, generative and transformation-predicting objectives worsen it (Appendix D). By the global linear analysis:
one linear model a choice and a risk, with the main other choices and likely confounders as controls.

Expected: ViT on probe generalization -7.3, p 9e-8; log parameters on approximation p 4e-17, on usability p .31 (printed
4e-17 for both); log dimensions on usability p 7e-4, on probe generalization p 1.4e-9 (both printed < 1e-9); MLP
projector on usability -8.6 +- 2.6, p 1e-3; log projector parameters -.07 +- .31, p .82 (printed -.68 +- .28, p 2e-2,
which is of those beyond the projector's first layer); log augmentations -5.3, p 4e-2; log effective dimensionality
p 6e-8; transformation-predicting objectives p 1e-2; linear projector on effective dimensionality p 3e-9, opposite to
what is said. Generative objectives: not identified (printed p 1e-4 and 3e-4), for these encoders and no others lack a
projector.

Command: zoo study what_choices_change_on_average
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from zoo.analysis.columns import COMPONENTS, OUTCOMES, STUDY_COLUMNS, TREE_OUTCOMES, Estimate
from zoo.analysis.linear import LinearEffect, adjust_discovery_rates, global_linear_effect
from zoo.analysis.table import StudyTable, study_table
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import (
    NOT_AVAILABLE,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    answer_in_sentence,
    describe_hc3_change,
    format_statement,
    number_claim,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_effect_unit, format_estimate, format_p_value, read_printed

from .tables import (
    CHOICES,
    GENERATIVE,
    SIGNIFICANT,
    artefact_records,
    artefact_table,
    effect_figure,
    estimates_table,
    fragile_notes,
    generative_artefacts,
    overview_table,
    rank_figure,
    rows_used,
    surviving_note,
    unanswered_notes,
    unidentified_notes,
)

FAMILY = "main choices and risks of the global linear analysis"
HOW: dict[str, dict[str, Any]] = {
    "family": {"levels": ("resnet", "vit")},
    "optimizer": {"references": {"optimizer": "sgd"}},
}
PROJECTOR, HIDDEN, ALL_OF_IT = "projection2_arch", "projection_nparameters_hidden", "projection_nparameters"
TREATMENTS = (
    "z_dim", "n_parameters", "family", "patch_size", "nviews", "n_augmentations", "epochs", "batch_size", PROJECTOR,
    HIDDEN, "ssl_mode", "optimizer",
)  # fmt: skip
NOTES = (
    "Coefficients of logarithms are per unit of the natural logarithm; figure and tables show them per doubling.",
    "Approximation is a property of the architecture, measured on its supervised twin: choices that leave the "
    "architecture alone can only seem to change it, through what they go along with.",
    "The p-values 6e-8 (effective dimensionality) and 4e-2 (augmentations) are printed as of the controlled analysis; "
    "they are of the global linear one, as the text around the second says.",
    "Effects are assumed to add up, and confounders that nobody wrote down are not controlled for.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Global linear effects of the main choices on every risk, and the printed ones next to them."""

    @cache
    def effect(treatment: str, outcome: str) -> LinearEffect:
        if treatment == ALL_OF_IT:
            return _of_all_parameters(table, outcome)
        return global_linear_effect(table, treatment, outcome, **HOW.get(treatment, {}))

    effects, unanswered = {}, {}
    for step, treatment in enumerate(TREATMENTS):
        options.progress("choices", step, len(TREATMENTS))
        for outcome in TREE_OUTCOMES:
            try:
                effects[treatment, outcome] = effect(treatment, outcome)
            except QueryError as error:
                unanswered[treatment, outcome] = str(error)
    estimates = adjust_discovery_rates([one for found in effects.values() for one in found.estimates], family=FAMILY)
    further, artefacts, ranks = _further(effect), artefacts_of(table), rank_figure(table)
    tests = [found.test for found in effects.values() if found.test is not None]
    return Findings(
        claims=claims_of(Found(table, effect)),
        answer=answer_in_sentence(lambda: _answer(effect)),
        estimates=[
            *estimates,
            *tests,
            *(one for found in further for one in found.estimates),
            *artefact_records(artefacts),
        ],
        tables=[
            overview_table(estimates, TREE_OUTCOMES, CHOICES),
            estimates_table(estimates, effects),
            *([artefact_table(artefacts)] if artefacts else []),
        ],
        figures=[effect_figure(estimates, COMPONENTS, CHOICES), *([ranks] if ranks else [])],
        rows=rows_used([*effects.values(), *further]),
        notes=[
            *NOTES,
            *fragile_notes(_printed(effect)),
            surviving_note(estimates),
            *unidentified_notes(estimates),
            *_sizes_of_projectors(table),
            *unanswered_notes(unanswered),
        ],
    )


def _answer(effect: Effect) -> str:
    vit, mlp = effect("family", "probe_gen").estimate("family[vit]"), effect(PROJECTOR, "usability").estimate(MLP)

    def how(one: Estimate, risk: str) -> str:
        is_less = require_value(one) < 0
        return (
            f"{format_statement(one, 1, unit='points', is_turned=is_less)} {'less' if is_less else 'more'} {risk} error"
        )

    return (
        f"Others held equal, ViTs have {how(vit, 'probe generalization')} than ResNets; an MLP projector goes with "
        f"{how(mlp, 'usability')} than none."
    )


def _printed(effect: Effect) -> list[Estimate]:
    """Effects whose p-values are printed, as what they are said to be of and as what they are of."""
    found = []
    terms = [(row["treatment"], row["term"], row["outcome"]) for row in PRINTED if row["what"] == "p-value"]
    for treatment, term, outcome in (*terms, (HIDDEN, f"log({HIDDEN})", "usability")):
        with suppress(QueryError, UnknownName):  # the claim about it says why
            found.append(effect(treatment, outcome).estimate(term))
    return found


def _further(effect: Effect) -> list[LinearEffect]:
    """Effects that only claims are about."""
    found = []
    for treatment, outcome in (
        ("train_rank", "usability"),
        (PROJECTOR, "train_rank"),
        (PROJECTOR, "trainrealaug_alignment"),
        ("n_classes", "usability"),
        ("n_classes", "probe_gen"),
        (ALL_OF_IT, "usability"),
    ):
        with suppress(QueryError):  # the claim about it says why
            found.append(effect(treatment, outcome))
    return found


def _of_all_parameters(table: StudyTable, outcome: str) -> LinearEffect:
    """Without encoders whose projector has no parameters: 0 has no logarithm."""
    none = table.frame.index[table.frame[ALL_OF_IT] == 0]
    some = table.only(table.frame.index.difference(none), because="a projector without parameters")
    found = global_linear_effect(some, ALL_OF_IT, outcome)
    return replace(found, left_out={**found.left_out, **({f"{ALL_OF_IT} is 0": len(none)} if len(none) else {})})


def _sizes_of_projectors(table: StudyTable) -> list[str]:
    try:
        both = global_linear_effect(table, HIDDEN, "usability", projectors=(PROJECTOR, "projection1_arch"))
    except QueryError:
        return []
    return [
        "With the hidden parameters of the projector, the second projector alone is a control, for so the printed "
        f"coefficient comes out; with the fallback of other models it is {described(both, f'log({HIDDEN})')}."
    ]


Effect = Callable[[str, str], LinearEffect]  # of a treatment on an outcome
MLP, LINEAR, TRANSFORM = f"{PROJECTOR}[mlp]", f"{PROJECTOR}[linear]", "ssl_mode[transform]"
PRINTED = read_printed(Path(__file__).with_name("printed.tsv"))
GENERATIVE_P = (1e-4, 3e-4)  # printed in Appendix D.4 and in Section 5.3.4
WORDS = {
    "family[vit]": "ViTs, not ResNets,",
    "log(n_parameters)": "log parameters",
    "log(z_dim)": "log dimensions",
    "log(train_rank)": "log effective dimensionality",
    "log(n_augmentations)": "log augmentations",
    MLP: "an MLP projector, not none,",
    f"log({ALL_OF_IT})": "log projector parameters",
    LINEAR: "a linear projector, not none,",
    TRANSFORM: "transformation-predicting objectives",
}


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable
    effect: Effect


def claims_of(found: Found) -> list[Claim]:
    """All claims: the printed numbers, then the statements."""
    return [*(printed_number(found, row) for row in PRINTED), *of_averages.judged(found)]


# Printed numbers


def printed_number(found: Found, row: Mapping[str, str]) -> Claim:
    """One number of ``printed.tsv`` next to ours."""
    term, outcome, what = row["term"], row["outcome"], row["what"]
    label = OUTCOMES[outcome].label.lower() if outcome in OUTCOMES else found.table.column(outcome).label
    claim = f"Effect of {WORDS[term]} on {label}: {what}".replace(",:", ":")
    printed, source = row["printed"], row["source"]
    try:
        effect = found.effect(row["treatment"], outcome)
        ours = quantity(effect, term, what)
        caveat = describe_hc3_change(effect.estimate(term)) if what == "p-value" else ""
        theirs, reason = as_the_paper_did(found, effect, term, what)
    except (QueryError, UnknownName) as error:
        return number_claim(claim, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    return number_claim(
        claim, source=source, printed=printed, ours=ours, as_the_paper_did=theirs, reason=reason, caveat=caveat
    )


def as_the_paper_did(found: Found, effect: LinearEffect, term: str, what: str) -> tuple[float | None, str]:
    """The number by the computation that is printed, where it is another one than ours; and why both may differ."""
    treatment, outcome = effect.treatment, effect.outcome
    reason = f"ours is {described(effect, term)}"
    if (treatment, outcome) == ("n_parameters", "usability"):  # one p-value is printed for both
        theirs = global_linear_effect(published(found.table), treatment, "approx").estimate(term).p
        return theirs, (
            f"the printed p-value is that of approximation, where the published rows give {format_p_value(theirs)}; of "
            f"usability {reason}"
        )
    if treatment == ALL_OF_IT:
        hidden = found.effect(HIDDEN, outcome)
        return quantity(hidden, f"log({HIDDEN})", what), (
            "what is printed is of the parameters beyond the projector's first layer, "
            f"{described(hidden, f'log({HIDDEN})')}; of all its parameters, as the text says, {reason}"
        )
    if treatment == "z_dim":
        freer = global_linear_effect(found.table, treatment, outcome, without=("n_parameters",)).estimate(term)
        reason += f"; with the encoder's parameters left out of the controls p would be {format_p_value(freer.p)}"
    return None, reason


def quantity(effect: LinearEffect, term: str, what: str) -> float | None:
    """The coefficient, standard error or p-value of a term."""
    if what == "standard error":
        return effect.standard_error(term)
    return effect.estimate(term).p if what == "p-value" else effect.estimate(term).value


def described(effect: LinearEffect, term: str) -> str:
    """``"-8.6 +- 2.6 with p 0.0014, of 106 encoders"``, or why there is no such number."""
    estimate, error = effect.estimate(term), effect.standard_error(term)
    if estimate.value is None or error is None:
        return estimate.note
    return f"{estimate.value:.3g} +- {error:.2g} with p {format_p_value(estimate.p)}, of {effect.used} encoders"


# Statements

of_averages = Claims(source="Appendix D")


@of_averages("Generative objectives are less usable", source="Section 5.3.4, Appendix D.4", paper="p 3e-4, p 1e-4")
def generative_objectives_are_less_usable(found: Found) -> ClaimAnswer:
    estimate = found.effect("ssl_mode", "usability").estimate(GENERATIVE)
    if estimate.value is not None:
        return effect_has_sign(estimate, 1)
    # The rows do not identify the effect: judge what a pseudo-inverse makes of it, as precisely as it is printed.
    low, high = GENERATIVE_P
    p = [one.p or 0.0 for one in artefacts_of(published(found.table)).values()]
    came_out = bool(p) and all(low <= float(f"{one:.0e}") <= high for one in p[:2])
    reason = f"the rows cannot tell, for the column {estimate.note.partition(': ')[2]}"
    if p:
        first, second, shifted, _, other = map(format_p_value, p)
        reason += (
            f"; a program that takes the pseudo-inverse prints p {first} or {second}, by the projector that "
            f"counts, but {shifted} if years count from 2000 and {other} with another reference level, so "
            "none means anything"
        )
    return ClaimAnswer(ours="not identified", holds=False, held_as_the_paper_did=came_out, reason=reason)


@of_averages(
    "Clustering objectives significantly improve usability, against all others",
    source="Appendix D.4",
    paper="significantly",
)
def clustering_improves_usability(found: Found) -> ClaimAnswer:
    modes = found.table.frame["ssl_mode"]
    two = replace(found.table, frame=found.table.frame.assign(ssl_mode=modes.where(modes == "clustering", "other")))
    effect = global_linear_effect(two, "ssl_mode", "usability", references={"ssl_mode": "other"})
    return effect_has_sign(with_p(effect.estimate("ssl_mode[clustering]")), -1)


@of_averages("More dimensions improve usability", source="Appendix D.1", paper="significant")
def dimensions_improve_usability(found: Found) -> ClaimAnswer:
    return effect_has_sign(with_p(found.effect("z_dim", "usability").estimate("log(z_dim)")), -1)


@of_averages("More dimensions worsen probe generalization", source="Appendix D.1", paper="significant")
def dimensions_worsen_probe_generalization(found: Found) -> ClaimAnswer:
    return effect_has_sign(with_p(found.effect("z_dim", "probe_gen").estimate("log(z_dim)")), 1)


@of_averages("ViTs do not worsen usability", source="Section 5.3.3", paper="do not worsen")
def vits_do_not_worsen_usability(found: Found) -> ClaimAnswer:
    estimate = with_p(found.effect("family", "usability").estimate("family[vit]"))
    worse = is_significant(estimate, 1)
    return ClaimAnswer(
        ours=shown(estimate),
        holds=not worse,
        value=estimate.value,
        contradicted=worse,
        caveat=describe_hc3_change(estimate),
        reason="the usability error of ViTs is significantly larger",
    )


@of_averages("Larger encoders do not change generalization", source="Section 5.3.3", paper="without impact")
def size_does_not_change_generalization(found: Found) -> ClaimAnswer:
    return no_effect(found, "n_parameters", "probe_gen", "enc_gen")


@of_averages(
    "A linear projector improves effective dimensionality, against none",
    source="Appendix D.3",
    paper="improves (p 3e-9)",
)
def linear_projectors_raise_the_rank(found: Found) -> ClaimAnswer:
    effect = found.effect(PROJECTOR, "train_rank")
    estimate, levels = with_p(effect.estimate(LINEAR)), [one.term for one in effect.estimates]
    none = effect.used - int(effect.fit.design[levels].to_numpy().sum())
    return ClaimAnswer(
        ours=shown(estimate),
        holds=is_significant(estimate, 1),
        value=estimate.value,
        contradicted=is_significant(estimate, -1),
        caveat=describe_hc3_change(estimate),
        reason=f"the effect with the printed p-value is a fall, not a rise, against the {none} encoders without a "
        "projector",
    )


@of_averages(
    "An MLP projector does not differ from a linear one in effective dimensionality",
    source="Appendix D.3",
    paper="not significantly different",
)
def mlp_and_linear_projectors_have_one_rank(found: Found) -> ClaimAnswer:
    against_linear = global_linear_effect(found.table, PROJECTOR, "train_rank", references={PROJECTOR: "linear"})
    estimate = with_p(against_linear.estimate(MLP))
    return ClaimAnswer(
        ours=shown(estimate),
        holds=not is_significant(estimate),
        value=estimate.value,
        contradicted=is_significant(estimate),
        caveat=describe_hc3_change(estimate),
        reason="there is a significant difference",
    )


@of_averages(
    "Projectors do not change the alignment of augmentations", source="Appendix D.3", paper="no significant impact"
)
def projectors_do_not_change_alignment(found: Found) -> ClaimAnswer:
    return no_effect(found, PROJECTOR, "trainrealaug_alignment")


@of_averages("The effect of larger batches is not significant", source="Appendix D.5", paper="not significant")
def batches_have_no_effect(found: Found) -> ClaimAnswer:
    return no_effect(found, "batch_size", *(one.column for one in COMPONENTS))


@of_averages(
    "The effect of more classes of the objective is not significant", source="Appendix D.6", paper="not significant"
)
def classes_have_no_effect(found: Found) -> ClaimAnswer:
    return no_effect(found, "n_classes", "usability", "probe_gen")


def effect_has_sign(estimate: Estimate, sign: int) -> ClaimAnswer:
    """Whether an effect is significant and has a sign."""
    opposite = is_significant(estimate, -sign)
    reason = "there is a significant effect the other way" if opposite else "the effect is not significant"
    return ClaimAnswer(
        ours=shown(estimate),
        holds=is_significant(estimate, sign),
        value=estimate.value,
        contradicted=opposite,
        caveat=describe_hc3_change(estimate),
        reason=f"{reason}: its p-value is {format_p_value(estimate.p)}",
    )


def no_effect(found: Found, treatment: str, *outcomes: str) -> ClaimAnswer:
    """Whether a treatment, all of its levels together, has no significant effect on any of some outcomes."""
    effects = [found.effect(treatment, outcome) for outcome in outcomes]
    tests = [with_p(one.test or one.estimates[0]) for one in effects]
    significant = [label_of(one.outcome) for one in tests if is_significant(one)]
    return ClaimAnswer(
        ours="; ".join(f"{label_of(one.outcome)} {all_levels(one)}" for one in effects),
        holds=not significant,
        contradicted=bool(significant),
        reason=f"there is a significant effect on {' and '.join(significant)}",
    )


def artefacts_of(table: StudyTable) -> dict[str, Estimate]:
    """What a pseudo-inverse says of generative objectives; empty if the model cannot be fitted."""
    try:
        return generative_artefacts(table)
    except QueryError:
        return {}  # the claim about it says why


def published(table: StudyTable) -> StudyTable:
    """The rows as published, which printed numbers are of; a planted table is taken as it is."""
    return study_table() if table.corrected or table.mine else table


def with_p(estimate: Estimate) -> Estimate:
    """The estimate, if it has a p-value."""
    if estimate.p is None:
        raise QueryError(f"The effect of {estimate.term} on {estimate.outcome} has no p-value here: {estimate.note}.")
    return estimate


def is_significant(estimate: Estimate, sign: int = 0) -> bool:
    """True if the effect is significant and has the sign, if one is asked for."""
    return (estimate.value or 0.0) * sign >= 0 and estimate.p is not None and estimate.p < SIGNIFICANT


def all_levels(effect: LinearEffect) -> str:
    """Every effect of a treatment, with what they are together if they are several."""
    if effect.test is None:
        return shown(effect.estimates[0])
    return f"joint p {format_p_value(effect.test.p)}, {', '.join(shown(one) for one in effect.estimates)}"


def shown(estimate: Estimate) -> str:
    """``"+2.8 [-2.5, +8.0] vit against resnet, p 0.3"``: what a p-value leaves open is in the interval."""
    if estimate.p is None or estimate.ci_low is None or estimate.ci_high is None:
        return f"{format_effect_unit(estimate)}: {estimate.note}"
    digits = max(0, 2 - math.floor(math.log10(estimate.ci_high - estimate.ci_low)))
    unit = format_effect_unit(estimate).removeprefix("dimensionless ")
    return f"{format_estimate(estimate, digits=digits)} {unit}, p {format_p_value(estimate.p)}"


def label_of(outcome: str) -> str:
    return STUDY_COLUMNS[outcome].label.lower()
