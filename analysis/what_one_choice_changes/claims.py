"""What the paper says of single design choices; each statement stands above what decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.controlled import ControlledEffect, controlled_effect
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Claims, number_claim, undone_by_hc3
from zoo.studies.tables import probability, read_printed

from .tables import short

PRINTED = read_printed(Path(__file__).with_name("printed.tsv"))
PROJECTOR = "projection2_arch"
WORDS = {"z_dim": "log dimensions", PROJECTOR: "an MLP against no projector", "epochs": "log epochs"}
SIGNIFICANT = 0.05
TYPICAL = 2 / 3  # share of pairs from which "typically" is said
FEW_SHOT = "train-nperclass-3_test"
Effect = Callable[..., ControlledEffect]


@dataclass(frozen=True, slots=True)
class Found:
    """What the claims are held against."""

    table: StudyTable
    effect: Effect  # of a treatment on an outcome, each encoder once
    as_printed: Effect  # of the encoders that the paper's numbers are of, with rows repeated as in the published code
    tested: Sequence[Estimate]  # every effect, with its false-discovery rate


def claims_of(found: Found) -> list[Claim]:
    """All claims: the printed numbers, then the statements."""
    return [*(printed_number(found, row) for row in PRINTED), *of_choices.judged(found)]


# Printed numbers


def printed_number(found: Found, row: Mapping[str, str]) -> Claim:
    """One number of ``printed.tsv`` beside ours, which for dimensions and projectors is of encoders with every risk."""
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
        caveat = undone_by_hc3(ours.estimate(level)) if what.startswith("p-value") else ""
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
    """Why a printed number is not ours, from what differs between the computations.

    ``theirs`` has rows repeated, ``of_all`` is of all encoders with the outcome; ``bound`` is one that a p-value is
    printed to be below.
    """
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
        return f"a misprint of {misprint_of}: an effect of {effect} has p {probability(estimate.p)}"
    return f"no encoder is counted twice here, and the effect is {effect}, p {probability(estimate.p)}"


# Statements

of_choices = Claims(source="Section 5.3")


@of_choices(
    "More dimensions of one ViT lower its usability error and raise its probe generalization error",
    source="Section 5.3.1, Figure 8",
    paper="a tradeoff",
)
def dimensions_trade_one_for_the_other(found: Found) -> Answer:
    table = found.table
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


@of_choices("Fewer dimensions lower the 3-shot error", source="Section 5.3.1, Appendix D.1", paper="improve")
def fewer_dimensions_improve_few_shot(found: Found) -> Answer:
    estimate = found.effect("z_dim", FEW_SHOT).estimate()
    return Answer(
        ours=short(estimate),
        holds=is_significant(estimate, 1),
        value=estimate.value,
        reason="the effect is not significant",
    )


@of_choices("More views mostly improve usability", source="Section 5.3.2, Figure 9b", paper="mostly usability")
def views_improve_usability(found: Found) -> Answer:
    effect = found.effect("nviews", "usability")
    usability, probe = effect.estimate(), found.effect("nviews", "probe_gen").estimate()
    rate = next(one.p_adjusted for one in found.tested if (one.term, one.outcome) == (usability.term, "usability"))
    mostly = abs(usability.value or 0.0) > abs(probe.value or 0.0)
    return Answer(
        ours=f"usability {short(usability)}, false-discovery rate {probability(rate)}; probe generalization "
        f"{short(probe)}; {effect.n_encoders} encoders in {effect.n_groups} groups",
        holds=is_significant(usability, -1) and mostly,
        value=usability.value,
        reason="the effect on usability is not significant, or the other one is larger",
    )


@of_choices("More views can also improve probe generalization", source="Section 5.3.2, Figure 9b", paper="can help")
def views_can_improve_probe_generalization(found: Found) -> Answer:
    changes = found.effect("nviews", "probe_gen").changes()
    better = int((changes < 0).sum())
    return Answer(
        ours=f"lower in {better} of {len(changes)} groups",
        holds=better > 0,
        value=better,
        reason="it is lower in no group",
    )


@of_choices("An MLP projector improves usability", source="Section 5.3.3, Figure 11", paper="improves")
def projectors_improve_usability(found: Found) -> Answer:
    return an_mlp_improves(found, "usability", share=1.0)


@of_choices(
    "An MLP projector typically improves probe generalization", source="Appendix D.3, Figure 11", paper="typically"
)
def projectors_typically_improve_probe_generalization(found: Found) -> Answer:
    return an_mlp_improves(found, "probe_gen", share=TYPICAL)


@of_choices(
    "Longer training improves encoder generalization of some encoders and worsens that of others",
    source="Appendix D.5, Figure 25",
    paper="not very clear",
)
def training_moves_encoder_generalization_both_ways(found: Found) -> Answer:
    changes = found.effect("epochs", "enc_gen").changes()
    better, worse = int((changes < 0).sum()), int((changes > 0).sum())
    return Answer(
        ours=f"lower in {better} groups, higher in {worse}",
        holds=better > 0 and worse > 0,
        reason="it goes the same way in every group",
    )


@of_choices(
    "Pretraining on ImageNet-22k worsens probe generalization",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="worsens",
)
def more_data_worsen_probe_generalization(found: Found) -> Answer:
    return more_data_move(found, "probe_gen", 1)


@of_choices(
    "Pretraining on ImageNet-22k worsens encoder generalization",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="worsens",
)
def more_data_worsen_encoder_generalization(found: Found) -> Answer:
    return more_data_move(found, "enc_gen", 1)


@of_choices(
    "Pretraining on ImageNet-22k can improve usability",
    source="Section 5.3.2, Appendix D.2, Figure 21",
    paper="can improve",
)
def more_data_can_improve_usability(found: Found) -> Answer:
    return more_data_move(found, "usability", -1)


def an_mlp_improves(found: Found, outcome: str, *, share: float) -> Answer:
    """Whether an MLP lowers an outcome in a share of the pairs with a linear or no projector."""
    effect = found.effect(PROJECTOR, outcome)
    changes = pd.concat([effect.changes(level, "mlp") for level in ("linear", "identity")])
    better = int((changes < 0).sum())
    linear = short(found.effect(PROJECTOR, outcome, reference="linear").estimate("mlp"))
    return Answer(
        ours=f"lower in {better} of {len(changes)} pairs; than with a linear one {linear}",
        value=better,
        holds=better > 0 and better >= share * len(changes),
        reason="in fewer pairs",
    )


def more_data_move(found: Found, outcome: str, sign: int) -> Answer:
    """Whether ImageNet-22k moves an outcome one way in every pair with ImageNet-1K."""
    effect = found.effect("pretraining_data", outcome)
    changes, estimate = effect.changes("ImageNet-1K", "ImageNet-22K"), effect.estimate("ImageNet-22K")
    as_said = int((changes * sign > 0).sum())
    return Answer(
        ours=f"in {as_said} of {len(changes)} pairs; {short(estimate)}",
        value=estimate.value,
        holds=as_said == len(changes) > 0,
        reason="it is not so in every pair",
    )


def is_significant(estimate: Estimate, sign: int) -> bool:
    """True if the effect has the sign and is significant."""
    significant = estimate.p is not None and estimate.p < SIGNIFICANT
    return significant and estimate.value is not None and estimate.value * sign > 0
