"""What holds of every card, whoever published the encoder."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from pathlib import Path

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import LAYERS, NOT_APPLICABLE, EncoderCard, Missing

CARDS = [*load_catalogue().values()]
EVERY_CARD = for_each(CARDS, name=lambda card: card.id)
LOCATION = re.compile(
    r"""https://[^\s/]+/\S+                                    # one file on a web server
      | timm:[a-z0-9_]+\.[a-z0-9_]+                            # a tag always, what timm means without one has changed
      | torchvision:\w+_Weights\.\w+
      | hf:[\w.-]+/[\w.-]+(/[^\s/][^/]*)*                      # folders of a repository may have spaces
      | package:\w+/\S+                                       # a file of a Python package
      | shipped:pocket/\w+\.safetensors                       # comes with the zoo
    """,
    re.VERBOSE,
)


@EVERY_CARD
def test_an_erratum_says_something_else_than_the_card_and_says_why_in_a_sentence(card: EncoderCard) -> None:
    for erratum in card.errata:
        assert erratum.published != card.fact(erratum.field)
        assert re.fullmatch(r"[A-Zt0-9].{15,}\.", erratum.reason), erratum  # timm is written small
    fields = [erratum.field for erratum in card.errata]
    assert len(fields) == len(set(fields))


@EVERY_CARD
def test_tokens_need_patches_and_a_pair_of_them_an_order(card: EncoderCard) -> None:
    layer = LAYERS[card.representation.layer]
    assert not layer.tokens or isinstance(card.architecture.patch_size_px, int) or card.architecture.family == "hybrid"
    assert (card.representation.order is NOT_APPLICABLE) == ("+" not in layer.tokens)
    grid, step = card.patch_grid, card.architecture.size_step_px
    if grid is not None and isinstance(step, int):
        assert card.architecture.native_px % step == 0, (card.architecture.native_px, step)


@EVERY_CARD
def test_addresses_are_well_formed(card: EncoderCard) -> None:
    weights = card.weights
    locations = [place for place in (weights.url, *weights.mirrors, *weights.companions) if isinstance(place, str)]
    assert [location for location in locations if not LOCATION.fullmatch(location)] == []
    assert len(locations) == len(set(locations))
    assert isinstance(card.paper.url, Missing) or card.paper.url.startswith("https://")
    ours = "scripts/train_pocket.py" if card.family == "pocket" else ""
    assert card.provenance.url == ours or card.provenance.url.startswith("https://")


@EVERY_CARD
def test_who_is_let_in_is_said_where_weights_are_not_open(card: EncoderCard) -> None:
    if card.weights.availability in ("gated", "by request"):
        assert isinstance(card.weights.gate, str)
    if card.is_untrained:
        assert card.weights.availability is NOT_APPLICABLE
    else:
        assert card.weights.availability is not NOT_APPLICABLE


def test_one_data_set_has_one_name() -> None:
    named = {
        *chain.from_iterable(
            card.pretraining.image_sets for card in CARDS if isinstance(card.pretraining.image_sets, tuple)
        )
    }
    folded = Counter(re.sub("[^a-z0-9]", "", name.lower()) for name in named)
    assert [name for name in named if folded[re.sub("[^a-z0-9]", "", name.lower())] > 1] == []


def test_encoders_that_read_one_file_say_so_and_agree_on_how_it_was_trained() -> None:
    by_url: dict[str, list[EncoderCard]] = {}
    for card in CARDS:
        if isinstance(card.weights.url, str):
            by_url.setdefault(card.weights.url, []).append(card)
    for cards in (cards for cards in by_url.values() if len(cards) > 1):
        owners = [card for card in cards if not isinstance(card.weights.same_file_as, str)]
        assert len(owners) == 1
        for card in cards:
            assert card is owners[0] or card.weights.same_file_as == owners[0].id
            assert (card.objective, card.projector, card.pretraining, card.licence, card.weights.mirrors) == (
                owners[0].objective,
                owners[0].projector,
                owners[0].pretraining,
                owners[0].licence,
                owners[0].weights.mirrors,
            )


def test_every_card_file_opens_with_what_the_method_is(repository: Path) -> None:
    for path in sorted((repository / "metadata").glob("*.toml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("# "), path.name
