"""Tables and notes of the global linear analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.analysis.columns import OUTCOMES, Estimate
from zoo.analysis.linear import LinearEffect
from zoo.studies.findings import Rows, Table
from zoo.studies.tables import interval, probability

from .figures import SIGNIFICANT, Effects, _robust, per_doubling


def overview_table(estimates: Sequence[Estimate], outcomes: Sequence[str], labels: Mapping[str, str]) -> Table:
    """One row a choice, one column an outcome: effect per doubling or per level, with the classical interval."""
    known = {(one.term, one.outcome): per_doubling(one) for one in estimates}
    shown = [term for term in labels if any((term, outcome) in known for outcome in outcomes)]
    cells = [
        [interval(known[term, one], digits=2) if (term, one) in known else "" for one in outcomes] for term in shown
    ]
    return Table(
        title="Effects of main choices, others held equal",
        headers=["choice", *(OUTCOMES[one].label for one in outcomes)],
        rows=[[labels[term], *row] for term, row in zip(shown, cells, strict=True)],
        note="Percentage points with classical 95 % intervals, negative is better; 2x is a doubling.",
    )


def estimates_table(estimates: Sequence[Estimate], effects: Effects) -> Table:
    """One row an estimate, with both kinds of interval, the false-discovery rate and the size of the model."""
    size = {(term.term, found.outcome): found.fit for found in effects.values() for term in found.estimates}
    rows = []
    for raw in estimates:
        one, fit = per_doubling(raw), size[raw.term, raw.outcome]
        rows.append(
            [
                one.term.removeprefix("log(").removesuffix(")") if one.term.startswith("log(") else one.term,
                OUTCOMES[one.outcome].label,
                one.unit.partition(" per ")[2] or one.unit.removeprefix("percentage points "),
                interval(one, digits=2),
                probability(one.p),
                probability(one.p_adjusted),
                _robust(one),
                probability(one.p_robust),
                str(one.n),
                f"{fit.rank} of {fit.n_columns}",
                one.note,
            ]
        )
    return Table(
        title="All estimates of main choices",
        headers=[
            "term",
            "risk",
            "per",
            "effect [95 % interval]",
            "p",
            "false-discovery rate",
            "HC3 interval",
            "HC3 p",
            "encoders",
            "rank of columns",
            "note",
        ],
        rows=rows,
        note="Percentage points, negative is better. False-discovery rate by Benjamini and Hochberg, over this table.",
    )


def artefact_table(artefacts: Mapping[str, Estimate]) -> Table:
    """What a pseudo-inverse says of a term that is not identified: one row a way to write the model."""
    term = next(iter(artefacts.values())).term
    return Table(
        title=f"What a pseudo-inverse says of {term}, which is not identified",
        headers=["how the model is written", "coefficient", "p"],
        rows=[[how, interval(one), probability(one.p)] for how, one in artefacts.items()],
        note="But for the second row it is one and the same model, and fits equally well.",
    )


def surviving_note(estimates: Sequence[Estimate]) -> str:
    """How many tests have a small false-discovery rate, and a small robust p-value too."""
    left = [one for one in estimates if one.p_adjusted is not None and one.p_adjusted < SIGNIFICANT]
    robust = [one for one in left if one.p_robust is not None and one.p_robust < SIGNIFICANT]
    return (
        f"Of {sum(one.p_adjusted is not None for one in estimates)} tests of main choices, {len(left)} have a "
        f"false-discovery rate below {SIGNIFICANT:.0%}, and {len(robust)} of these an HC3 p-value below it too."
    )


def fragile_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Effects whose significance does not survive standard errors that allow for unequal variances, in a sentence."""
    lost = [
        f"{one.term} on {one.outcome} (p {probability(one.p)}, HC3 {probability(one.p_robust) or 'none'})"
        for one in estimates
        if one.p is not None and one.p < SIGNIFICANT and (one.p_robust is None or one.p_robust >= SIGNIFICANT)
    ]
    if not lost:
        return []
    return [f"Significant by the classical p-value, but not with HC3 standard errors: {', '.join(lost)}."]


def unidentified_notes(estimates: Sequence[Estimate]) -> list[str]:
    """One sentence a term that is not identified, with the outcomes."""
    notes: dict[str, list[str]] = {}
    for one in estimates:
        if one.value is None:
            notes.setdefault(f"{one.term} is {one.note}", []).append(one.outcome)
    return [f"{note} (models of {', '.join(outcomes)})." for note, outcomes in notes.items()]


def unanswered_notes(reasons: Mapping[tuple[str, str], str]) -> list[str]:
    """One sentence a choice without some effect, with the first reason; by (treatment, outcome)."""
    notes = []
    for treatment in dict.fromkeys(one for one, _ in reasons):
        outcomes = [outcome for one, outcome in reasons if one == treatment]
        notes.append(f"No effect of {treatment} on {', '.join(outcomes)}: {reasons[treatment, outcomes[0]]}")
    return notes


def rows_used(effects: Sequence[LinearEffect]) -> list[Rows]:
    """Which rows each choice used, choices and outcomes with the same ones together."""
    models: dict[tuple[str, int, tuple[tuple[str, int], ...]], list[str]] = {}
    for found in effects:
        models.setdefault((found.treatment, found.used, tuple(_left_out(found).items())), []).append(found.outcome)
    together: dict[tuple[str, int, tuple[tuple[str, int], ...]], list[str]] = {}
    for (treatment, used, left_out), outcomes in models.items():
        together.setdefault((", ".join(dict.fromkeys(outcomes)), used, left_out), []).append(treatment)
    return [
        Rows(part=f"{', '.join(treatments)} on {outcomes}", used=used, left_out=dict(left_out))
        for (outcomes, used, left_out), treatments in together.items()
    ]


def _left_out(found: LinearEffect) -> dict[str, int]:
    """Reasons in words that outcomes share."""
    return {reason.replace(f"{found.outcome} ", "outcome ", 1): number for reason, number in found.left_out.items()}
