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
from typing import Any

from zoo.analysis.columns import COMPONENTS, TREE_OUTCOMES, Estimate
from zoo.analysis.linear import LinearEffect, global_linear_effect
from zoo.analysis.ols import adjusted
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError, UnknownName
from zoo.studies.findings import Findings
from zoo.studies.running import StudyOptions

from .artefacts import artefact_records
from .claims import ALL_OF_IT, HIDDEN, PRINTED, PROJECTOR, Effect, Found, artefacts_of, claims_of, described
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
        claims=claims_of(Found(table, effect)),
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
        f"coefficient comes out; with the fallback of other models it is {described(both, f'log({HIDDEN})')}."
    ]
