"""Licences: what the table says, which ids a card may name, and what follows for commercial use."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.licenses import canonicalize_license_expression

import zoo
from tests.card_text import VALID
from tests.each import for_each
from zoo.cards.catalogue import build_card, load_catalogue
from zoo.cards.licences import (
    LICENCES,
    LicenceTerms,
    describe_licence,
    get_commercial_use,
    parse_licence_ids,
    resolve_licence_label,
)
from zoo.cards.reading import parse_cards
from zoo.cards.schema import EncoderCard, Missing
from zoo.errors import CardError

FIELD = 'weights = "Apache-2.0"'


def card(licence: str, *, own: bool = True) -> EncoderCard:
    path = Path("mine.toml")
    text = VALID.replace(FIELD, f'weights = "{licence}"', 1)
    facts, left_out = parse_cards({path: text.encode()}, {} if own else None)
    if left_out:
        raise CardError(left_out[0])
    return build_card(facts["tiny_vitS16"])


@for_each(load_catalogue().values(), name=lambda one: one.id)
def test_every_licence_of_a_card_is_in_the_table(one: EncoderCard) -> None:
    stated = [text for text in (one.licence.weights, one.licence.code) if not isinstance(text, Missing)]
    assert all(name in LICENCES for text in stated for name in parse_licence_ids(text))
    assert (one.commercial_use == "unknown") == (one.licence.weights in (zoo.NOT_PUBLISHED, Missing.NOT_RECORDED))


@for_each(LICENCES.values(), name=lambda terms: terms.id)
def test_every_licence_of_the_table_is_an_id_with_a_line_in_plain_words_and_an_address(terms: LicenceTerms) -> None:
    assert canonicalize_license_expression(terms.id) == terms.id
    assert terms.url.startswith("https://")
    assert 20 < len(terms.summary) < 120
    assert not terms.summary.endswith(".")
    assert resolve_licence_label(terms.at_timm or terms.id.casefold()) == terms.id


@for_each(
    [
        ("MIT AND CC-BY-NC-4.0", "no"),
        ("MIT OR CC-BY-NC-4.0", "yes"),
        ("(MIT OR CC-BY-NC-4.0) AND GPL-3.0-only", "conditions"),
        ("MIT OR (CC-BY-NC-4.0 AND GPL-3.0-only)", "yes"),
        ("((MIT))", "yes"),
        ("GPL-3.0-only WITH GCC-exception-3.1", "conditions"),
        ("Zlib", "unknown"),
        ("MIT AND LicenseRef-Mine", "unknown"),
        ("CC-BY-NC-4.0 AND LicenseRef-Mine", "no"),
    ],
    arguments=2,
)
def test_of_an_expression_counts_what_all_of_it_allows(expression: str, use: str) -> None:
    assert canonicalize_license_expression(expression) == expression
    assert get_commercial_use(expression) == use
    assert card(expression).commercial_use == use


@pytest.mark.parametrize(
    ("licence", "named"),
    [
        ("unknown", ["licence.weights", "'unknown'", "not published"]),
        ("Apache", ["'Apache'", "'Apache-2.0'", "LicenseRef-NAME"]),
        ("DINOv3", ["'LicenseRef-DINOv3'"]),
        ("LicenseRef-dinov3", ["'LicenseRef-DINOv3' in its own spelling"]),
        ("MIT OR LicenseRef-apple.amlr", ["'LicenseRef-apple-amlr' in its own spelling"]),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_an_unknown_licence_is_refused_in_one_sentence_with_the_nearest(
    licence: str, named: list[str], own: bool
) -> None:
    with pytest.raises(CardError) as refusal:
        card(licence, own=own)
    message = str(refusal.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert all(words in message for words in named)


def test_terms_of_ones_own_are_for_ones_own_cards_alone() -> None:
    mine = card("LicenseRef-Our-Laboratory")
    assert (mine.licence.weights, mine.commercial_use) == ("LicenseRef-Our-Laboratory", "unknown")
    assert describe_licence("LicenseRef-Our-Laboratory") == "not one that the zoo knows: read its text"
