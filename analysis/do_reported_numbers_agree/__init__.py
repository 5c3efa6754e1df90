"""Do accuracies that others reported agree with measured ones, with each other, and across protocols?

Claim: numbers of papers, model cards and leaderboards stand in one column, as if a reported linear accuracy were what
the same probe would find, as if who reports more were better, and as if k-NN or fine-tuning ordered encoders alike. MAE
(arXiv:2111.06377, Section 4.3) calls the results of linear probing and fine-tuning largely uncorrelated.

Expected: over 113 encoders reported linear accuracies are 1.33 points above those of the published probe (0.8 to 2.1),
with a standard deviation of 2.4; both order encoders alike (tau .92), but of two that are reported at most half a point
apart the better one is told hardly more often than by a coin (60 %), of two that are 1 to 2 points apart 91 times in
100. The kinds of objective differ in bias, from 0.5 points to 1.6, and those that predict a transformation are 3 to 18
points above, too few for an estimate. Who evaluates the same weights in the same way prints the same within 0.12
points. k-NN orders encoders much as linear probes do (tau .89), fine-tuning less (.49). What nobody measured here
(k-NN, attentive, zero-shot, fine-tuned) has no counterpart, and nothing is said of it.

Command: zoo study do_reported_numbers_agree
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.analysis.reported_agreement import FEWEST_PAIRS
from zoo.analysis.table import StudyTable, require_encoders
from zoo.results.reported_values import PROTOCOLS, ReportedNumber
from zoo.studies.findings import Findings, Rows
from zoo.studies.running import StudyOptions

from .claims import Found, claims_of
from .figures import agreement_figure, protocols_figure
from .pairs import (
    Pairs,
    believable,
    by_mode,
    estimates_of,
    pairs_between_sources,
    pairs_of_protocols,
    pairs_with_measured,
    same_order,
    two_sources,
    within_clusters,
)
from .tables import kinds_table, order_table, protocols_table, sources_table

GAPS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 100.0)  # percentage points between two reported accuracies


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Reported against measured, source against source, protocol against protocol."""
    require_encoders(table)
    numbers = believable()
    measured = pairs_with_measured(table, numbers)
    modes = by_mode(measured["linear"], table)
    protocols = pairs_of_protocols(numbers)
    sources = two_sources(numbers)
    between = pairs_between_sources(sources)
    several = [pairs for pairs in protocols if pairs.n_clusters > 1]  # one source says nothing of others
    estimates = {
        pairs.name: estimates_of(pairs, seed=options.seed) for pairs in (*measured.values(), *modes, *several, between)
    }
    order = same_order(measured["linear"], GAPS, seed=options.seed)
    within = {
        pairs.name: one for pairs in several if (one := within_clusters(pairs, seed=options.seed)) and pairs.are_enough
    }
    found = Found(
        measured=measured, protocols=protocols, sources=sources, order=order, estimates=estimates, within=within
    )
    figures = [agreement_figure(measured["linear"], table, order)] if measured["linear"].are_enough else []
    drawn = [pairs for pairs in several if pairs.are_enough][:2]
    figures += [protocols_figure(drawn, sources)] if drawn else []
    return Findings(
        claims=claims_of(found),
        estimates=[*(one for some in estimates.values() for one in some), *order, *within.values()],
        tables=[
            kinds_table("Reported minus measured accuracy", [*measured.values()], estimates, what="kind of number"),
            kinds_table("Reported linear accuracy minus measured, by kind of objective", modes, estimates, what="kind"),
            order_table(order),
            protocols_table(protocols, estimates, within),
            sources_table(sources),
        ],
        figures=figures,
        rows=_rows(table, measured, protocols, sources),
        notes=_notes(measured, protocols, numbers),
    )


def _rows(
    table: StudyTable, measured: Mapping[str, Pairs], protocols: Sequence[Pairs], sources: Sequence[object]
) -> list[Rows]:
    rows = []
    for pairs in measured.values():
        if len(pairs) and pairs.name != "own head":
            n = len(table) - len(pairs)
            why = f"no {pairs.name} accuracy reported, or an erratum excludes the measurement"
            rows.append(
                Rows(part=f"reported against measured, {pairs.name}", used=len(pairs), left_out={why: n} if n else {})
            )
    rows.append(Rows(part="supervised networks, own head against linear probe", used=len(measured["own head"])))
    rows += [Rows(part=f"two protocols, {pairs.name}", used=len(pairs)) for pairs in protocols]
    return [*rows, Rows(part="two sources of one number", used=len(sources), unit="pairs")]


def _notes(measured: Mapping[str, Pairs], protocols: Sequence[Pairs], numbers: Sequence[ReportedNumber]) -> list[str]:
    n_encoders = len({one.encoder for one in numbers})
    both = {encoder for pairs in measured.values() for encoder in pairs.first.index}
    notes = [
        f"{len(both)} of the {n_encoders} encoders with a reported number were measured here. The others are newer and "
        "larger: nothing shows that bias and spread are the same for them.",
        "Who reported chose the layer, the size of the images, the augmentations and the sweep, and mostly does not "
        "say which; what part of a difference each of them makes is not identified.",
        f"Fewer than {FEWEST_PAIRS} pairs get no estimate, and neither do protocols that one source alone compares. "
        "Doubtful numbers, and measurements that an erratum excludes, make no pair.",
    ]
    by_protocol: dict[str, set[str]] = {}
    for one in numbers:
        if one.is_of_imagenet:
            by_protocol.setdefault(PROTOCOLS[one.protocol].short, set()).add(one.encoder)
    alone = [f"{name} ({len(some)})" for name, some in by_protocol.items() if not len(measured.get(name, ()))]
    if alone:
        notes.append(f"Without any measurement to hold them against, by encoders: {', '.join(alone)}.")
    single = [f"{pairs.name} ({len(pairs)}, {pairs.clusters.iloc[0]})" for pairs in protocols if pairs.n_clusters == 1]
    if single:
        notes.append(f"Compared by one source alone, and so not identified: {'; '.join(single)}.")
    return notes
