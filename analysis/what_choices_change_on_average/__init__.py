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

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from zoo.analysis.columns import COMPONENTS, OUTCOMES, TREE_OUTCOMES, Estimate
from zoo.analysis.linear import LinearEffect, artefact_records, global_linear_effect
from zoo.analysis.ols import adjusted
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import NOT_AVAILABLE, Claim, Findings, number_claim, undone_by_hc3
from zoo.studies.running import StudyOptions
from zoo.studies.tables import probability, read_printed

from .claims import Effect, artefacts_of, published, statements
from .figures import CHOICES, effect_figure, rank_figure
from .tables import (
    artefact_table,
    estimates_table,
    fragile_notes,
    overview_table,
    rows_used,
    surviving_note,
    unanswered_notes,
    unidentified_notes,
)

FAMILY = "main choices and risks of the global linear analysis"
PROJECTOR, HIDDEN, ALL_OF_IT = "projection2_arch", "projection_nparameters_hidden", "projection_nparameters"
MLP, LINEAR, TRANSFORM = f"{PROJECTOR}[mlp]", f"{PROJECTOR}[linear]", "ssl_mode[transform]"
HOW: dict[str, dict[str, Any]] = {
    "family": {"levels": ("resnet", "vit")},
    "optimizer": {"references": {"optimizer": "sgd"}},
}
TREATMENTS = (
    "z_dim",
    "n_parameters",
    "family",
    "patch_size",
    "nviews",
    "n_augmentations",
    "epochs",
    "batch_size",
    PROJECTOR,
    HIDDEN,
    "ssl_mode",
    "optimizer",
)
PRINTED = read_printed(Path(__file__).with_name("printed.tsv"))
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
    estimates = adjusted([one for found in effects.values() for one in found.estimates], family=FAMILY)
    further, artefacts, ranks = _further(effect), artefacts_of(table), rank_figure(table)
    tests = [found.test for found in effects.values() if found.test is not None]
    return Findings(
        claims=[*(_number(table, effect, **row) for row in PRINTED), *statements(table, effect)],
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


def _number(
    table: StudyTable, effect: Effect, treatment: str, term: str, outcome: str, what: str, printed: str, source: str
) -> Claim:
    label = OUTCOMES[outcome].label.lower() if outcome in OUTCOMES else table.column(outcome).label
    claim, theirs = f"Effect of {WORDS[term]} on {label}: {what}".replace(",:", ":"), None
    caveat = ""
    try:
        found = effect(treatment, outcome)
        ours, reason = _quantity(found, term, what), f"ours is {_described(found, term)}"
        caveat = undone_by_hc3(found.estimate(term)) if what == "p-value" else ""
        if (treatment, outcome) == ("n_parameters", "usability"):  # one p-value is printed for both
            theirs = global_linear_effect(published(table), treatment, "approx").estimate(term).p
            reason = (
                f"the printed p-value is that of approximation, where the published rows give "
                f"{probability(theirs)}; of usability {reason}"
            )
        if treatment == ALL_OF_IT:
            hidden = effect(HIDDEN, outcome)
            theirs = _quantity(hidden, f"log({HIDDEN})", what)
            beyond = _described(hidden, f"log({HIDDEN})")
            reason = (
                f"what is printed is of the parameters beyond the projector's first layer, {beyond}; of all its "
                f"parameters, as the text says, {reason}"
            )
        if treatment == "z_dim":
            freer = global_linear_effect(table, treatment, outcome, without=("n_parameters",)).estimate(term)
            reason += f"; with the encoder's parameters left out of the controls p would be {probability(freer.p)}"
    except (QueryError, UnknownName) as error:
        return number_claim(claim, source=source, printed=printed, ours=None, shown=NOT_AVAILABLE, reason=str(error))
    return number_claim(
        claim, source=source, printed=printed, ours=ours, as_the_paper_did=theirs, reason=reason, caveat=caveat
    )


def _quantity(found: LinearEffect, term: str, what: str) -> float | None:
    if what == "standard error":
        return found.standard_error(term)
    return found.estimate(term).p if what == "p-value" else found.estimate(term).value


def _described(found: LinearEffect, term: str) -> str:
    estimate, error = found.estimate(term), found.standard_error(term)
    if estimate.value is None or error is None:
        return estimate.note
    return f"{estimate.value:.3g} +- {error:.2g} with p {probability(estimate.p)}, of {found.used} encoders"


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
        "Beside the hidden parameters of the projector, the second projector alone is a control, for so the printed "
        f"coefficient comes out; with the fallback of other models it is {_described(both, f'log({HIDDEN})')}."
    ]
