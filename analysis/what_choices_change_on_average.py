"""What do design choices change on average, the others held equal?

Claim: ViTs improve probe generalization, more parameters improve usability and approximation, more dimensions trade
usability for probe generalization (Section 5.3); projectors, augmentations and effective dimensionality improve
usability, generative and transformation-predicting objectives worsen it (Appendix D). By the global linear analysis:
one linear model a choice and a risk, with the main other choices and likely confounders as controls.

Expected: ViT on probe generalization -7.3, p 9e-8; log parameters on approximation p 4e-17, on usability p .31 (printed
4e-17 for both); log dimensions on usability p 7e-4, on probe generalization p 1.4e-9 (both printed < 1e-9); MLP
projector on usability -8.6 +- 2.6, p 1e-3; log hidden projector parameters -.68 +- .28, p 2e-2; log augmentations -5.3,
p 4e-2; log effective dimensionality p 6e-8; transformation-predicting objectives p 1e-2; linear projector on effective
dimensionality p 3e-9, of the opposite sign than is said. Generative objectives: not identified (printed p 1e-4 and
3e-4), for these encoders and no others lack a projector.

Command: zoo study what_choices_change_on_average
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from zoo.analysis.estimates import Estimate
from zoo.analysis.linear import LinearEffect, global_linear_effect
from zoo.analysis.linear_artefact import GENERATIVE, generative_artefacts
from zoo.analysis.ols import adjusted
from zoo.analysis.outcomes import COMPONENTS, OUTCOMES, TREE_OUTCOMES
from zoo.analysis.table import StudyTable, study_table
from zoo.errors import QueryError, UnknownName
from zoo.studies.answers import NOT_AVAILABLE, Answer, answered
from zoo.studies.claims import agrees_with, number_claim
from zoo.studies.controlled_tables import probability, short
from zoo.studies.findings import Claim, Findings
from zoo.studies.linear_figures import (
    CHOICES,
    SIGNIFICANT,
    artefact_table,
    effect_figure,
    estimates_table,
    fragile_notes,
    overview_table,
    rank_figure,
    rows_used,
    surviving_note,
    unanswered_notes,
    unidentified_notes,
)
from zoo.studies.options import StudyOptions

Effect = Callable[[str, str], LinearEffect]
FAMILY = "main choices and risks of the global linear analysis"
NOT_BELOW, BELOW = "p is not below .05", "p is below .05"
PROJECTOR, HIDDEN, ALL_OF_IT = "projection2_arch", "projection_nparameters_hidden", "projection_nparameters"
MLP, LINEAR, TRANSFORM = f"{PROJECTOR}[mlp]", f"{PROJECTOR}[linear]", "ssl_mode[transform]"
HOW: dict[str, dict[str, Any]] = {
    "family": {"levels": ("resnet", "vit")}, "optimizer": {"references": {"optimizer": "sgd"}},
}  # fmt: skip
TREATMENTS = ("z_dim", "n_parameters", "family", "patch_size", "nviews", "n_augmentations", "epochs", "batch_size",
              PROJECTOR, HIDDEN, "ssl_mode", "optimizer")  # fmt: skip
PRINTED = (  # treatment, term, outcome, what, printed, source
    ("family", "family[vit]", "probe_gen", "p-value", "9e-8", "Section 5.3.3"),
    ("n_parameters", "log(n_parameters)", "approx", "p-value", "4e-17", "Section 5.3.3"),
    ("n_parameters", "log(n_parameters)", "usability", "p-value", "4e-17", "Section 5.3.3"),
    ("z_dim", "log(z_dim)", "usability", "p-value", "<1e-9", "Section 5.3.1"),
    ("z_dim", "log(z_dim)", "probe_gen", "p-value", "<1e-9", "Section 5.3.1"),
    ("train_rank", "log(train_rank)", "usability", "p-value", "6e-8", "Appendix D.1, Figure 19b"),
    ("n_augmentations", "log(n_augmentations)", "usability", "coefficient", "-5.3", "Appendix D.2"),
    ("n_augmentations", "log(n_augmentations)", "usability", "p-value", "4e-2", "Appendix D.2"),
    (PROJECTOR, MLP, "usability", "coefficient", "-8.6", "Appendix D.3"),
    (PROJECTOR, MLP, "usability", "standard error", "2.6", "Appendix D.3"),
    (PROJECTOR, MLP, "usability", "p-value", "1e-3", "Appendix D.3"),
    (HIDDEN, f"log({HIDDEN})", "usability", "coefficient", "-0.68", "Appendix D.3"),
    (HIDDEN, f"log({HIDDEN})", "usability", "standard error", "0.28", "Appendix D.3"),
    (HIDDEN, f"log({HIDDEN})", "usability", "p-value", "2e-2", "Appendix D.3"),
    (PROJECTOR, LINEAR, "train_rank", "p-value", "3e-9", "Appendix D.3"),
    ("ssl_mode", TRANSFORM, "usability", "p-value", "1e-2", "Appendix D.4"),
)  # fmt: skip
WORDS = {
    "family[vit]": "ViTs, not ResNets,", "log(n_parameters)": "log parameters", "log(z_dim)": "log dimensions",
    "log(train_rank)": "log effective dimensionality", "log(n_augmentations)": "log augmentations",
    MLP: "an MLP projector, not none,", f"log({HIDDEN})": "log hidden projector parameters",
    LINEAR: "a linear projector, not none,", TRANSFORM: "transformation-predicting objectives",
}  # fmt: skip
GENERATIVE_P = (1e-4, 3e-4)  # printed in Appendix D.4 and in Section 5.3.4
NOTES = (
    "Coefficients of logarithms are per unit of the natural logarithm; figure and tables show them per doubling.",
    "Approximation is a property of the architecture, measured on its supervised twin: choices that leave the "
    "architecture alone can only seem to change it, through what they go along with.",
    "The p-values 6e-8 (effective dimensionality) and 4e-2 (augmentations) are printed as of the controlled analysis; "
    "they are of the global linear one, as the text around the second says.",
    "Effects are assumed to add up, and confounders that nobody wrote down are not controlled for.",
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Global linear effects of the main choices on every risk, and the printed ones beside them."""

    @cache
    def effect(treatment: str, outcome: str) -> LinearEffect:
        return global_linear_effect(table, treatment, outcome, **HOW.get(treatment, {}))

    effects, unanswered = {}, {}
    for step, treatment in enumerate(TREATMENTS):
        options.progress("choices", step, len(TREATMENTS))
        for outcome in TREE_OUTCOMES:
            try:
                effects[treatment, outcome] = effect(treatment, outcome)
            except QueryError as error:
                unanswered[treatment, outcome] = str(error)
    estimates = adjusted([one for found in effects.values() for one in found.estimates], family=FAMILY)
    further, artefacts, ranks = _further(effect), _artefacts(table), rank_figure(table)
    tests = [found.test for found in effects.values() if found.test is not None]
    return Findings(
        claims=[*(_number(table, effect, *row) for row in PRINTED), *_statements(table, effect)],
        estimates=[*estimates, *tests, *(one for found in further for one in found.estimates),
                   *(one.described(method=f"pseudo-inverse, {how}") for how, one in artefacts.items())],
        tables=[overview_table(estimates, TREE_OUTCOMES, CHOICES), estimates_table(estimates, effects),
                *([artefact_table(artefacts)] if artefacts else [])],
        figures=[effect_figure(estimates, COMPONENTS, CHOICES), *([ranks] if ranks else [])],
        rows=rows_used([*effects.values(), *further]),
        notes=[*NOTES, *fragile_notes(_printed(effect)), surviving_note(estimates), *unidentified_notes(estimates),
               *_sizes_of_projectors(table), *unanswered_notes(unanswered)],
    )  # fmt: skip


def _number(
    table: StudyTable, effect: Effect, treatment: str, term: str, outcome: str, what: str, printed: str, source: str
) -> Claim:
    label = OUTCOMES[outcome].label.lower() if outcome in OUTCOMES else table.column(outcome).label
    claim, theirs = f"Effect of {WORDS[term]} on {label}: {what}".replace(",:", ":"), None
    try:
        found = effect(treatment, outcome)
        ours, reason = _quantity(found, term, what), _described(found, term)
        if (treatment, outcome) == ("n_parameters", "usability"):  # one p-value is printed for both
            theirs = global_linear_effect(_published(table), treatment, "approx").estimate(term).p
            reason = f"of approximation the published rows give p {probability(theirs)}; on usability it is {reason}"
        if treatment == "z_dim":
            freer = global_linear_effect(table, treatment, outcome, without=("n_parameters",)).estimate(term)
            reason += f"; without the encoder's parameters as a control its p is {probability(freer.p)}"
    except (QueryError, UnknownName) as error:
        return number_claim(claim, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    return number_claim(claim, source=source, printed=printed, ours=ours, as_the_paper_did=theirs, reason=reason)


def _quantity(found: LinearEffect, term: str, what: str) -> float | None:
    if what == "standard error":
        return found.standard_error(term)
    return found.estimate(term).p if what == "p-value" else found.estimate(term).value


def _described(found: LinearEffect, term: str) -> str:
    estimate, error = found.estimate(term), found.standard_error(term)
    if estimate.value is None or error is None:
        return estimate.note
    return f"{estimate.value:.3g} +- {error:.2g} with p {probability(estimate.p)}, of {found.used} encoders"


def _statements(table: StudyTable, effect: Effect) -> list[Claim]:
    def generative() -> Answer:
        estimate = effect("ssl_mode", "usability").estimate(GENERATIVE)
        if estimate.value is not None:
            return Answer(ours=short(estimate), holds=_is(estimate, 1), value=estimate.value, reason=NOT_BELOW)
        found, (low, high) = list(_artefacts(_published(table)).values()), GENERATIVE_P
        p = [one.p or 0.0 for one in found]
        printed = bool(p) and all(low <= float(f"{one:.0e}") <= high for one in p[:2])  # as precise as they are printed
        reason = f"the rows cannot tell it apart: it {estimate.note.partition(': ')[2]}"
        if p:
            first, second, shifted, _, other = map(probability, p)
            reason += (f"; a pseudo-inverse of the published rows gives p {first} or {second}, by the projector that "
                       f"counts, {shifted} if years count from 2000, {other} with another reference level")  # fmt: skip
        return Answer(ours="not identified", holds=False, held_as_the_paper_did=printed, reason=reason)

    def linear_projector() -> Answer:
        found = effect(PROJECTOR, "train_rank")
        estimate, levels = _tested(found.estimate(LINEAR)), [one.term for one in found.estimates]
        none = found.used - int(found.fit.design[levels].to_numpy().sum())
        return Answer(
            ours=f"{short(estimate)} dimensions", holds=_is(estimate, 1), value=estimate.value,
            held_as_the_paper_did=agrees_with("3e-9", estimate.p or 0.0),
            reason=f"the effect with the printed p-value is a fall, against the {none} encoders without a projector",
        )  # fmt: skip

    def mlp_or_linear() -> Answer:
        reference = {PROJECTOR: "linear"}
        estimate = _tested(global_linear_effect(table, PROJECTOR, "train_rank", references=reference).estimate(MLP))
        return Answer(ours=f"{short(estimate)} dimensions", holds=not _is(estimate), value=estimate.value, reason=BELOW)

    def no_effect(treatment: str, *outcomes: str) -> Answer:
        found = [effect(treatment, outcome) for outcome in outcomes]
        shown = [_tested(one.test or one.estimates[0]) for one in found]
        words = [OUTCOMES[one.outcome].label.lower() if one.outcome in OUTCOMES else one.outcome for one in found]
        p = [f"{word} p {probability(one.p)}" for word, one in zip(words, shown, strict=True)]
        return Answer(ours=", ".join(p), holds=not any(_is(one) for one in shown), reason="a p is below .05")

    def vit() -> Answer:
        estimate = _tested(effect("family", "usability").estimate("family[vit]"))
        return Answer(ours=short(estimate), holds=not _is(estimate, 1), value=estimate.value, reason=BELOW)

    def dimensions(outcome: str, sign: int) -> Answer:
        estimate = _tested(effect("z_dim", outcome).estimate("log(z_dim)"))
        return Answer(ours=short(estimate), holds=_is(estimate, sign), value=estimate.value, reason=NOT_BELOW)

    def clustering() -> Answer:
        modes = table.frame["ssl_mode"]
        two = replace(table, frame=table.frame.assign(ssl_mode=modes.where(modes == "clustering", "other")))
        found = global_linear_effect(two, "ssl_mode", "usability", references={"ssl_mode": "other"})
        estimate = _tested(found.estimate("ssl_mode[clustering]"))
        return Answer(ours=short(estimate), holds=_is(estimate, -1), value=estimate.value, reason=NOT_BELOW)

    rows: Sequence[tuple[str, str, str, Callable[[], Answer]]] = [
        ("Generative objectives are less usable", "Section 5.3.4, Appendix D.4", "p 3e-4, p 1e-4", generative),
        ("Clustering objectives significantly improve usability, against all others", "Appendix D.4", "significantly",
         clustering),
        ("More dimensions improve usability", "Appendix D.1", "significant", lambda: dimensions("usability", -1)),
        ("More dimensions worsen probe generalization", "Appendix D.1", "significant",
         lambda: dimensions("probe_gen", 1)),
        ("ViTs do not worsen usability", "Section 5.3.3", "do not worsen", vit),
        ("Larger encoders do not change generalization", "Section 5.3.3", "without impact",
         lambda: no_effect("n_parameters", "probe_gen", "enc_gen")),
        ("A linear projector improves effective dimensionality, against none", "Appendix D.3", "improves (p 3e-9)",
         linear_projector),
        ("An MLP projector does not differ from a linear one in effective dimensionality", "Appendix D.3",
         "not significantly different", mlp_or_linear),
        ("Projectors do not change the alignment of augmentations", "Appendix D.3", "no significant impact",
         lambda: no_effect(PROJECTOR, "trainrealaug_alignment")),
        ("The effect of larger batches is not significant", "Appendix D.5", "not significant",
         lambda: no_effect("batch_size", *(one.column for one in COMPONENTS))),
        ("The effect of more classes of the objective is not significant", "Appendix D.6", "not significant",
         lambda: no_effect("n_classes", "usability", "probe_gen")),
    ]  # fmt: skip
    return [answered(claim, source=source, paper=paper, answer=answer) for claim, source, paper, answer in rows]


def _published(table: StudyTable) -> StudyTable:
    return study_table() if table.corrected or table.mine else table


def _artefacts(table: StudyTable) -> dict[str, Estimate]:
    try:
        return generative_artefacts(table)
    except QueryError:
        return {}  # the claim about it says why


def _printed(effect: Effect) -> list[Estimate]:
    """Effects whose p-values are printed."""
    found = []
    for treatment, term, outcome, what, _, _ in PRINTED:
        with suppress(QueryError, UnknownName):  # the claim about it says why
            found += [effect(treatment, outcome).estimate(term)] if what == "p-value" else []
    return found


def _further(effect: Effect) -> list[LinearEffect]:
    """Effects that only claims are about."""
    found = []
    for treatment, outcome in (("train_rank", "usability"), (PROJECTOR, "train_rank"),
                               (PROJECTOR, "trainrealaug_alignment"), ("n_classes", "usability"),
                               ("n_classes", "probe_gen")):  # fmt: skip
        with suppress(QueryError):  # the claim about it says why
            found.append(effect(treatment, outcome))
    return found


def _tested(estimate: Estimate) -> Estimate:
    """The estimate, if it has a p-value."""
    if estimate.p is None:
        raise QueryError(f"The effect of {estimate.term} on {estimate.outcome} has no p-value here: {estimate.note}.")
    return estimate


def _is(estimate: Estimate, sign: int = 0) -> bool:
    """True if the effect is significant and has the sign, if one is asked for."""
    return (estimate.value or 0.0) * sign >= 0 and estimate.p is not None and estimate.p < SIGNIFICANT


def _sizes_of_projectors(table: StudyTable) -> list[str]:
    some = table.only(table.frame.index[table.frame[ALL_OF_IT] > 0], because="no projector parameters")
    try:
        whole = _described(global_linear_effect(some, ALL_OF_IT, "usability"), f"log({ALL_OF_IT})")
        both = global_linear_effect(table, HIDDEN, "usability", projectors=(PROJECTOR, "projection1_arch"))
    except QueryError:
        return []
    return [
        "The text says projection parameters; what is printed is of those beyond the projector's first layer. The "
        f"effect of all of them is {whole}. Beside the hidden ones the second projector alone is a control, for so the "
        f"printed coefficient comes out; with the fallback of other models it is {_described(both, f'log({HIDDEN})')}."
    ]


if __name__ == "__main__":
    from zoo.cli import main

    main("study", __file__)
