"""``zoo recommend --by reported-...``, and what the other ranking says of encoders that nobody measured here.

Reported numbers rank only where the user asks for it, and the table says that they are reported: by which recipe, and
how well such numbers told the order of encoders where both are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from ..analysis.reported_agreement import FEWEST_PAIRS, Agreement, agreement_of, chosen_numbers, pairs_with_measured
from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing
from ..results.facts import DOUBTFUL, REPORTED, points, reported_mark, short_number
from ..results.reported import Preferred, preferred_numbers, reported_numbers
from ..results.reported_values import PROTOCOLS, ReportedNumber
from ..results.wording import how
from .output import print_json, print_notes, print_table, record, wrapped

BY = ("reported-linear", "reported-knn", "reported-attentive", "reported-zero-shot")
"""Protocols that say something of frozen features."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ReportedCandidate:
    """An encoder and its reported number."""

    card: EncoderCard
    number: ReportedNumber


def reported_candidates(protocol: str, no_candidates: Collection[str]) -> list[ReportedCandidate]:
    """Encoders with a number of that protocol, best first; without those of the modes ``no_candidates``."""
    cards = catalogue()
    found = [
        ReportedCandidate(cards[encoder], number)
        for encoder, number in chosen_numbers(reported_numbers(), protocol).items()
        if cards[encoder].objective.mode not in no_candidates
    ]
    return sorted(found, key=lambda one: (-one.number.value, one.card.id))


def print_by_reported(
    protocol: str,
    ranked: Sequence[ReportedCandidate],
    *,
    top: int,
    n_labels: int | None,
    measured: Mapping[str, float],
    left_out: Mapping[str, list[str]],
    as_json: bool,
) -> None:
    """The ranking by a reported number; ``measured`` has errors of our linear probe with ``n_labels``, by encoder."""
    pairs = pairs_with_measured(protocol)
    agreement = agreement_of(pairs)
    if as_json:
        print_json(_document(protocol, ranked, top, n_labels, measured, left_out, agreement, len(pairs)))
        return
    shown, short = ranked[:top], PROTOCOLS[protocol].short
    title = f"Top-1 accuracy on ImageNet-1K as reported ({protocol}), percent, higher is better; not measured here."
    click.echo(click.style(wrapped(title), bold=True) + "\n")
    errors = [f"{points(measured[one.card.id])}" if one.card.id in measured else "?" for one in shown]
    head = "error here" if n_labels is None else f"error, {n_labels:,}"
    rows = [
        [
            str(_rank(ranked, one)),
            one.card.id,
            one.number.printed + (DOUBTFUL if one.number.doubt else REPORTED),
            how(one.number),
            error,
            short_number(one.card.architecture.n_parameters),
            str(one.card.representation.dim),
            "?" if isinstance(one.card.licence.weights, Missing) else one.card.licence.weights,
        ]
        for one, error in zip(shown, errors, strict=True)
    ]
    heads = ["rank", "encoder", short, "how", head, "parameters", "dim", "licence"]
    if not any(row[3] for row in rows):
        heads, rows = [*heads[:3], *heads[4:]], [[*row[:3], *row[4:]] for row in rows]
    numbers = [place for place, name in enumerate(heads) if name in ("rank", short, head, "parameters", "dim")]
    print_table(heads, rows, right=numbers)
    click.echo("\n" + "\n".join(map(wrapped, _how_sure(protocol, agreement, len(pairs), n_labels))))
    gone = ", ".join(f"{len(encoders)} ({reason})" for reason, encoders in left_out.items())
    notes = [f"{len(shown)} of {len(ranked)} encoders{f'; left out: {gone}' if gone else ''}"]
    notes.append(f"{REPORTED}  reported    ?  not measured here    zoo show NAME says who measured, and where")
    notes += [f"{DOUBTFUL}  {one.card.id}: {one.number.doubt}" for one in shown if one.number.doubt]
    print_notes(notes)


def _rank(ranked: Sequence[ReportedCandidate], one: ReportedCandidate) -> int:
    return 1 + sum(other.number.value > one.number.value for other in ranked)


def _how_sure(protocol: str, agreement: Agreement | None, n_pairs: int, n_labels: int | None) -> list[str]:
    lines = [
        f"{protocol}: {PROTOCOLS[protocol].meaning}. Recipes differ between those who reported: layers, sizes of "
        "images, augmentations, sweeps."
    ]
    if agreement is None:
        lines.append(
            f"How such numbers go with the published linear probe is not known: {n_pairs} encoders have both, and "
            f"fewer than {FEWEST_PAIRS} say nothing."
        )
    else:
        told = [
            f"{one.share:.0%} that are {_gap(one.more_than, one.at_most)} apart"
            for one in agreement.concordances
            if one.share is not None
        ]
        lines.append(
            f"Of the {agreement.n} encoders with both, nine in ten reported accuracies differ from that of the "
            f"published linear probe by {points(agreement.low)} to {agreement.high:+.1f} points. Of two encoders, it "
            f"agrees which is better for {', '.join(told)}."
        )
    if protocol != "reported-zero-shot":
        fewer = "" if n_labels is None else f", and nothing of {n_labels:,}"
        lines.append(f"These are accuracies with all labels of ImageNet-1K: they say nothing of other data{fewer}.")
    return lines


def _gap(low: float, high: float) -> str:
    if low == 0:
        return f"at most {high:g} point{'s' * (high != 1)}"
    return f"more than {low:g} points" if high >= 100 else f"{low:g} to {high:g} points"


def _document(
    protocol: str,
    ranked: Sequence[ReportedCandidate],
    top: int,
    n_labels: int | None,
    measured: Mapping[str, float],
    left_out: Mapping[str, list[str]],
    agreement: Agreement | None,
    n_pairs: int,
) -> dict[str, Any]:
    records = []
    for one in ranked[:top]:
        card = one.card
        facts = {
            "n_parameters": card.architecture.n_parameters,
            "z_dim": card.representation.dim,
            "licence": card.licence.weights,
            "availability": card.weights.availability,
        }
        known = {"rank": _rank(ranked, one), "encoder": card.id, "reported": asdict(one.number)}
        records.append({**known, "error_measured": measured.get(card.id), **record(facts)})
    return {
        "by": protocol,
        "n_labels": n_labels,
        "unit": "percent",
        "n_candidates": len(ranked),
        "n_pairs_with_measured": n_pairs,
        "agreement_with_measured": None if agreement is None else asdict(agreement),
        "left_out": [
            {"reason": reason, "n": len(encoders), "names": encoders} for reason, encoders in left_out.items()
        ],
        "encoders": records,
    }


def not_ranked(known: Collection[str], no_candidates: Collection[str], keeps: Iterable[Any]) -> list[EncoderCard]:
    """Encoders of which nothing was measured, so that no measurement ranks them, and that pass the user's filters."""
    return [
        card
        for encoder, card in catalogue().items()
        if encoder not in known
        and card.objective.mode not in no_candidates
        and all(one.keeps(_OfCard(card)) for one in keeps)
    ]


@dataclass(frozen=True, slots=True)
class _OfCard:
    card: EncoderCard


def not_ranked_notes(cards: Sequence[EncoderCard]) -> list[str]:
    """What is known of encoders that were not measured: the best reported numbers, protocol by protocol."""
    if not cards:
        return []
    reported = preferred_numbers()
    ids = [card.id for card in cards]
    known = [encoder for encoder in ids if set(BY) & set(reported.get(encoder, {}))]
    lines = [
        f"not ranked, for they were not measured on ImageNet-1K: {len(ids)}; others reported numbers of {len(known)}"
    ]
    for protocol in BY:
        best = _best(ids, reported, protocol)
        if best:
            named = ", ".join(f"{encoder} {one.printed}{reported_mark(one)}" for encoder, one in best[:_MOST_NAMED])
            more = f" and {len(best) - _MOST_NAMED} more" if len(best) > _MOST_NAMED else ""
            lines.append(f"{REPORTED}  {protocol}, accuracy: {named}{more}; --by {protocol} shows them")
    return lines


def not_ranked_document(cards: Sequence[EncoderCard], top: int) -> dict[str, Any]:
    """The same as JSON, with ``top`` encoders a protocol."""
    reported = preferred_numbers()
    ids = [card.id for card in cards]
    return {
        "n": len(ids),
        "reported": {
            protocol: [
                {"encoder": encoder, "accuracy": one.value, "doubtful": one.is_doubtful} for encoder, one in best[:top]
            ]
            for protocol in BY
            if (best := _best(ids, reported, protocol))
        },
    }


def _best(
    ids: Sequence[str], reported: Mapping[str, Mapping[str, Preferred]], protocol: str
) -> list[tuple[str, Preferred]]:
    found = [(encoder, reported[encoder][protocol]) for encoder in ids if protocol in reported.get(encoder, {})]
    return sorted(found, key=lambda pair: (-pair[1].value, pair[0]))
