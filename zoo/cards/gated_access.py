"""What a card says of licence and access, in words: who is given weights, where to ask, what is open instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .catalogue import load_catalogue
from .licences import FREEDOM, describe_licence, find_licence_text, get_commercial_use, resolve_licence_label
from .representations import get_base_id
from .schema import LINEAGE, EncoderCard, Missing, format_fact, list_named_encoders

GATED = ("gated", "by request")
_PAGE = "https://huggingface.co/{}"
_NATURAL = "natural"
OF_NATURAL_IMAGES = (_NATURAL, "video", "humans")
"""Kinds of images that encoders were trained on which serve for natural ones."""


_SPECIAL = {
    "pathology H&E": ("pathology",),
    "earth RGB": ("satellite",),
    "medical": ("medical", "radiology", "skin", "pathology", "retina", "microscopy"),
}


def get_image_domains(card: EncoderCard) -> tuple[str, ...]:
    """The special kinds of images that an encoder is for, in the words of data sets; () of natural ones, for all."""
    own = get_domain(card)
    return () if own in OF_NATURAL_IMAGES else _SPECIAL.get(own, (own,))


def get_domain(card: EncoderCard) -> str:
    """The kind of images that an encoder is for; where it is not recorded, natural ones."""
    domain = card.pretraining.domain
    return _NATURAL if isinstance(domain, Missing) else domain


def list_image_kinds(cards: Iterable[EncoderCard]) -> list[str]:
    """:func:`get_domain` of several encoders."""
    return [get_domain(card) for card in cards]


def find_nearest_open(card: EncoderCard, cards: Mapping[str, EncoderCard]) -> EncoderCard | None:
    """The open encoder that comes nearest to one whose weights are not; None if there is none.

    An encoder of the same domain comes first, then one of natural images; among those one of the same family, then of
    the same objective, then of the same mode; among those the one whose number of parameters has the ratio nearest to
    1. Encoders that come with the zoo are too small, and the user's own are no advice.
    """

    def distance(other: EncoderCard) -> tuple[int, int, float, str]:
        domains = [get_domain(card), _NATURAL, get_domain(other)]
        kinships = [
            other.family == card.family,
            _same(other.objective.name, card.objective.name),
            _same(other.objective.mode, card.objective.mode),
            True,
        ]
        size = abs(math.log(other.architecture.n_parameters / card.architecture.n_parameters))
        return domains.index(get_domain(other)), kinships.index(True), size, other.id

    offered = [other for other in cards.values() if other.id != card.id and _is_offered(other)]
    return min(offered, key=distance, default=None)


def _same(one: object, other: object) -> bool:
    return not isinstance(one, Missing) and one == other


def _is_offered(card: EncoderCard) -> bool:
    url = card.weights.url
    is_elsewhere = not isinstance(url, Missing) and not url.startswith(("shipped:", "zoo:"))
    return card.weights.availability == "open" and is_elsewhere and not card.is_untrained


def suggest_open_encoder(card: EncoderCard, cards: Mapping[str, EncoderCard]) -> str:
    """Which open encoder is nearest, as the end of a sentence; "" if there is none."""
    near = find_nearest_open(card, cards)
    if near is None:
        return ""
    licence = near.licence.weights
    known = [] if isinstance(licence, Missing) else [licence]
    if get_domain(near) != get_domain(card):
        known.append(f"for {get_domain(near)} images, as no open one is for {get_domain(card)}")
    about = f" ({', '.join(known)})" if known else ""
    return f"the nearest open encoder is {near.id!r}{about}"


def describe_access_request(card: EncoderCard) -> str:
    """Who is given the weights, and the page at which to ask."""
    gate, url = card.weights.gate, card.weights.url
    if not isinstance(gate, Missing) and "https://" in gate:
        return gate
    who = "" if isinstance(gate, Missing) else f"{gate}; "
    page = card.provenance.url
    if not isinstance(url, Missing) and url.startswith("hf:"):
        page = _PAGE.format("/".join(url.removeprefix("hf:").partition("@")[0].split("/")[:2]))
    return f"{who}ask at {page}"


def describe_access(card: EncoderCard) -> str:
    """Who may have the weights, in words; of two copies, which one is loaded and how it is with the other."""
    weights = card.weights
    if isinstance(weights.availability, Missing):
        return weights.availability.value
    words = (
        f"{weights.availability}: {describe_access_request(card)}"
        if weights.availability in GATED
        else weights.availability
    )
    if isinstance(weights.authors_url, Missing):
        return words
    theirs = weights.authors_availability
    how = "" if isinstance(theirs, Missing) else f" is {theirs}"
    gate = "" if theirs not in GATED or isinstance(weights.gate, Missing) else f" ({weights.gate})"
    return f"{words} at {weights.url}, which is loaded; the authors' own copy at {weights.authors_url}{how}{gate}"


def list_lineage(card: EncoderCard) -> dict[str, Sequence[str]]:
    """The encoders from which one descends, and those that descend from it, by words that precede them."""
    found: dict[str, Sequence[str]] = {}
    for field, (down, up) in LINEAGE.items():
        found[down] = list_named_encoders(card.fact(f"provenance.{field}"))
        all_said = load_catalogue().column(f"provenance.{field}")
        found[up] = [one for one, said in all_said.items() if get_base_id(card.id) in list_named_encoders(said)]
    return {words: names for words, names in found.items() if names}


def list_inherited_terms(card: EncoderCard) -> Iterator[str]:
    """A sentence where a teacher, or what training started from, is known to be under a licence that allows less."""
    cards, own = load_catalogue(), format_fact(card.licence.weights)
    limit = FREEDOM.index(get_commercial_use(own)) + (get_commercial_use(own) == "conditions")  # others may be stricter
    for field, (words, _) in LINEAGE.items():
        said = []
        for one in (name for name in list_named_encoders(card.fact(f"provenance.{field}")) if name in cards):
            licence = cards[one].licence.weights
            if isinstance(licence, str) and licence != own and FREEDOM.index(get_commercial_use(licence)) < limit:
                said.append(f"{one} under {licence} ({describe_licence(licence)})")
        if said:
            doubt = f"whether these terms reach to this encoder, whose licence is {own}, is not known here"
            yield f"{words} {', '.join(said)}: {doubt}; ask its authors."


def list_licence_remarks(card: EncoderCard) -> list[str]:
    """Where somebody could take another licence for that of the weights, or it may not be all: a sentence each."""
    licence = card.licence
    facts = (licence.weights, licence.code, licence.timm)
    weights, code, timm = (None if isinstance(fact, Missing) else fact for fact in facts)
    found = [*list_inherited_terms(card)]
    if weights is None:
        return found
    if timm is not None and resolve_licence_label(timm) != weights:
        found.append(
            f"timm labels its copy {resolve_licence_label(timm)}; what its authors say, {weights}, is meant here."
        )
    if code is not None and FREEDOM.index(get_commercial_use(code)) > FREEDOM.index(get_commercial_use(weights)):
        found.append(f"The code is under {code}; the weights are under {weights}, which allows less.")
    return found


def describe_licence_terms(card: EncoderCard) -> dict[str, Any]:
    """What the licence of the weights means, where its text is, and where another could be taken for it."""
    licence = card.licence.weights
    known = None if isinstance(licence, Missing) else licence
    return {
        "commercial_use": card.commercial_use,
        "summary": known and describe_licence(known),
        "text": (known and find_licence_text(known)) or None,
        "remarks": list_licence_remarks(card),
    }
