"""What ``zoo show`` says of a licence and of access beyond the facts of a card: in plain words, and what is meant."""

from __future__ import annotations

from ..cards.catalogue import catalogue
from ..cards.gates import GATED, access_words, advice, licence_terms
from ..cards.licences import commercial_words
from ..cards.schema import EncoderCard, Missing
from .output import entry


def term_lines(card: EncoderCard, part: str) -> list[str]:
    """Lines to follow the facts of the part ``licence`` or ``weights`` of a card; none for another part."""
    if part == "licence":
        return _licence_lines(card)
    return _access_lines(card) if part == "weights" else []


def _licence_lines(card: EncoderCard) -> list[str]:
    terms, use = licence_terms(card), card.commercial_use
    lines = [] if isinstance(use, Missing) else entry("commercial use", commercial_words(use))
    lines += entry("in plain words", terms["summary"]) if terms["summary"] else []
    lines += entry("text", terms["text"]) if terms["text"] else []
    for remark in terms["remarks"]:
        lines += entry("note", remark)
    return lines


def _access_lines(card: EncoderCard) -> list[str]:
    words = access_words(card)
    is_plain = words == card.weights.availability or isinstance(card.weights.availability, Missing)
    lines = [] if is_plain else entry("access", words)
    if card.weights.availability in GATED and (near := advice(card, catalogue())):
        lines += entry("instead", near)
    return lines
