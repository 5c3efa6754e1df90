"""The paper's statements in words about average effects, judged by the global linear analysis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from zoo.analysis.columns import COMPONENTS, STUDY_COLUMNS, Estimate
from zoo.analysis.linear import GENERATIVE, LinearEffect, generative_artefacts, global_linear_effect
from zoo.analysis.table import StudyTable, study_table
from zoo.errors import QueryError
from zoo.studies.findings import Answer, Claim, answered, undone_by_hc3
from zoo.studies.tables import interval, per, probability

from .figures import SIGNIFICANT

Effect = Callable[[str, str], LinearEffect]
_PROJECTOR = "projection2_arch"
_MLP, _LINEAR = f"{_PROJECTOR}[mlp]", f"{_PROJECTOR}[linear]"
_GENERATIVE_P = (1e-4, 3e-4)  # printed in Appendix D.4 and in Section 5.3.4


def statements(table: StudyTable, effect: Effect) -> list[Claim]:
    """The paper's statements in words, judged by effects of the table; ``effect`` takes a treatment and an outcome."""

    def generative() -> Answer:
        estimate = effect("ssl_mode", "usability").estimate(GENERATIVE)
        if estimate.value is not None:
            return _effect(estimate, 1)
        found, (low, high) = list(artefacts_of(published(table)).values()), _GENERATIVE_P
        p = [one.p or 0.0 for one in found]
        came_out = bool(p) and all(
            low <= float(f"{one:.0e}") <= high for one in p[:2]
        )  # as precise as they are printed
        reason = f"the rows cannot tell, for the column {estimate.note.partition(': ')[2]}"
        if p:
            first, second, shifted, _, other = map(probability, p)
            reason += (
                f"; a program that takes the pseudo-inverse prints p {first} or {second}, by the projector that "
                f"counts, but {shifted} if years count from 2000 and {other} with another reference level, so "
                "none means anything"
            )
        return Answer(ours="not identified", holds=False, held_as_the_paper_did=came_out, reason=reason)

    def linear_projector() -> Answer:
        found = effect(_PROJECTOR, "train_rank")
        estimate, levels = _tested(found.estimate(_LINEAR)), [one.term for one in found.estimates]
        none = found.used - int(found.fit.design[levels].to_numpy().sum())
        return Answer(
            ours=_shown(estimate),
            holds=_is(estimate, 1),
            value=estimate.value,
            contradicted=_is(estimate, -1),
            caveat=undone_by_hc3(estimate),
            reason=f"the effect with the printed p-value is a fall, not a rise, against the {none} encoders without a "
            "projector",
        )

    def mlp_or_linear() -> Answer:
        reference = {_PROJECTOR: "linear"}
        estimate = _tested(global_linear_effect(table, _PROJECTOR, "train_rank", references=reference).estimate(_MLP))
        return Answer(
            ours=_shown(estimate),
            holds=not _is(estimate),
            value=estimate.value,
            contradicted=_is(estimate),
            caveat=undone_by_hc3(estimate),
            reason="there is a significant difference",
        )

    def no_effect(treatment: str, *outcomes: str) -> Answer:
        found = [effect(treatment, outcome) for outcome in outcomes]
        tests = [_tested(one.test or one.estimates[0]) for one in found]
        ours = "; ".join(f"{_label(one.outcome)} {_levels(one)}" for one in found)
        significant = [_label(one.outcome) for one in tests if _is(one)]
        return Answer(
            ours=ours,
            holds=not significant,
            contradicted=bool(significant),
            reason=f"there is a significant effect on {' and '.join(significant)}",
        )

    def vit() -> Answer:
        estimate = _tested(effect("family", "usability").estimate("family[vit]"))
        worse = _is(estimate, 1)
        return Answer(
            ours=_shown(estimate),
            holds=not worse,
            value=estimate.value,
            contradicted=worse,
            caveat=undone_by_hc3(estimate),
            reason="the usability error of ViTs is significantly larger",
        )

    def dimensions(outcome: str, sign: int) -> Answer:
        estimate = _tested(effect("z_dim", outcome).estimate("log(z_dim)"))
        return _effect(estimate, sign)

    def clustering() -> Answer:
        modes = table.frame["ssl_mode"]
        two = replace(table, frame=table.frame.assign(ssl_mode=modes.where(modes == "clustering", "other")))
        found = global_linear_effect(two, "ssl_mode", "usability", references={"ssl_mode": "other"})
        return _effect(_tested(found.estimate("ssl_mode[clustering]")), -1)

    rows: Sequence[tuple[str, str, str, Callable[[], Answer]]] = [
        ("Generative objectives are less usable", "Section 5.3.4, Appendix D.4", "p 3e-4, p 1e-4", generative),
        (
            "Clustering objectives significantly improve usability, against all others",
            "Appendix D.4",
            "significantly",
            clustering,
        ),
        ("More dimensions improve usability", "Appendix D.1", "significant", lambda: dimensions("usability", -1)),
        (
            "More dimensions worsen probe generalization",
            "Appendix D.1",
            "significant",
            lambda: dimensions("probe_gen", 1),
        ),
        ("ViTs do not worsen usability", "Section 5.3.3", "do not worsen", vit),
        (
            "Larger encoders do not change generalization",
            "Section 5.3.3",
            "without impact",
            lambda: no_effect("n_parameters", "probe_gen", "enc_gen"),
        ),
        (
            "A linear projector improves effective dimensionality, against none",
            "Appendix D.3",
            "improves (p 3e-9)",
            linear_projector,
        ),
        (
            "An MLP projector does not differ from a linear one in effective dimensionality",
            "Appendix D.3",
            "not significantly different",
            mlp_or_linear,
        ),
        (
            "Projectors do not change the alignment of augmentations",
            "Appendix D.3",
            "no significant impact",
            lambda: no_effect(_PROJECTOR, "trainrealaug_alignment"),
        ),
        (
            "The effect of larger batches is not significant",
            "Appendix D.5",
            "not significant",
            lambda: no_effect("batch_size", *(one.column for one in COMPONENTS)),
        ),
        (
            "The effect of more classes of the objective is not significant",
            "Appendix D.6",
            "not significant",
            lambda: no_effect("n_classes", "usability", "probe_gen"),
        ),
    ]
    return [answered(claim, source=source, paper=paper, answer=answer) for claim, source, paper, answer in rows]


def artefacts_of(table: StudyTable) -> dict[str, Estimate]:
    """What a pseudo-inverse says of generative objectives; empty if the model cannot be fitted."""
    try:
        return generative_artefacts(table)
    except QueryError:
        return {}  # the claim about it says why


def published(table: StudyTable) -> StudyTable:
    """The rows as published, which printed numbers are of; a table made elsewhere is its own."""
    return study_table() if table.corrected or table.mine else table


def _effect(estimate: Estimate, sign: int) -> Answer:
    """The answer to a statement that there is an effect of this sign."""
    opposite = _is(estimate, -sign)
    reason = "there is a significant effect the other way" if opposite else "the effect is not significant"
    return Answer(
        ours=_shown(estimate),
        holds=_is(estimate, sign),
        value=estimate.value,
        contradicted=opposite,
        caveat=undone_by_hc3(estimate),
        reason=f"{reason}: its p-value is {probability(estimate.p)}",
    )


def _tested(estimate: Estimate) -> Estimate:
    """The estimate, if it has a p-value."""
    if estimate.p is None:
        raise QueryError(f"The effect of {estimate.term} on {estimate.outcome} has no p-value here: {estimate.note}.")
    return estimate


def _is(estimate: Estimate, sign: int = 0) -> bool:
    """True if the effect is significant and has the sign, if one is asked for."""
    return (estimate.value or 0.0) * sign >= 0 and estimate.p is not None and estimate.p < SIGNIFICANT


def _levels(found: LinearEffect) -> str:
    """Every effect of a treatment, with what they are together if they are several."""
    if found.test is None:
        return _shown(found.estimates[0])
    return f"joint p {probability(found.test.p)}, {', '.join(_shown(one) for one in found.estimates)}"


def _shown(estimate: Estimate) -> str:
    """ "+2.8 [-2.5, +8.0] vit against resnet, p 0.3": what a p-value leaves open is in the interval."""
    if estimate.p is None or estimate.ci_low is None or estimate.ci_high is None:
        return f"{per(estimate)}: {estimate.note}"
    digits = max(0, 2 - math.floor(math.log10(estimate.ci_high - estimate.ci_low)))
    unit = per(estimate).removeprefix("dimensionless ")
    return f"{interval(estimate, digits=digits)} {unit}, p {probability(estimate.p)}"


def _label(outcome: str) -> str:
    return STUDY_COLUMNS[outcome].label.lower()
