"""Every encoder of the catalogue is built, on the meta device where weights take no memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest
import torch

from zoo.cards import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import LAYOUTS
from zoo.locations import candidates
from zoo.metadata import EncoderCard, Missing
from zoo.weights.places import source

from .encoder_checks import reduced_transformer


def same_network() -> dict[str, list[EncoderCard]]:
    """Cards by everything that a network is built from: what they share needs to be built once."""
    groups = defaultdict(list)
    for card in catalogue().values():
        architecture, representation = card.architecture, card.representation
        options = sorted(architecture.options.items())
        key = (architecture.backbone, options, representation, card.preprocess.crop_px)
        groups[repr(key)].append(card)
    return {cards[0].id: cards for cards in groups.values()}


NETWORKS = same_network()


@dataclass(frozen=True, slots=True)
class Network:
    """A network on the meta device, and the cards that it is built from."""

    cards: list[EncoderCard]
    encoder: Encoder


@pytest.fixture(params=NETWORKS, scope="module")
def network(request: pytest.FixtureRequest) -> Network:
    cards = NETWORKS[request.param]
    return Network(cards, build_encoder(cards[0], device="meta"))


def test_an_encoder_is_what_its_card_says(network: Network) -> None:
    cards, encoder = network.cards, network.encoder
    dim, px = cards[0].representation.dim, cards[0].preprocess.crop_px
    features = encoder(torch.empty(2, 3, px, px, device="meta"))
    assert features.shape == (2, dim)
    assert features.dtype == torch.float32
    assert {tensor.device.type for tensor in encoder.state_dict().values()} == {"meta"}
    n_parameters = sum(parameter.numel() for parameter in encoder.parameters())
    assert {card.id: card.architecture.n_parameters for card in cards} == {card.id: n_parameters for card in cards}


def test_every_card_names_places_and_layouts_that_exist(network: Network) -> None:
    for card in network.cards:
        places = [] if card.is_untrained else [card.weights.url, *card.weights.mirrors, *card.weights.companions]
        assert not any(isinstance(place, Missing) for place in places)
        kinds = {(place.startswith("shipped:"), source(place).kind) for place in places}
        assert kinds <= {(True, "path"), (False, "http"), (False, "hub")}, card.id
        found = candidates(card, network.encoder)
        assert bool(found) == (not card.is_untrained), card.id
        assert {choice.layout for choice in found} <= LAYOUTS.keys()


def test_every_card_is_among_the_networks_that_are_built() -> None:
    assert {card.id for cards in NETWORKS.values() for card in cards} == set(catalogue())


SMALL_MEMBERS = [
    "simclr_rn50",
    "byol_rn50_bs4096",
    "init_rn50_d512",
    "dino_vitS16",
    "mocov3_vitS_ep300",
    "clip_rn50",
    "clip_vitB32",
    "openclip_vitB32",
    "lossyless_vitb32_b01",
    "beit_vitB16_pt22k",
    "vicregl_convnexts_alpha09",
]


@pytest.mark.parametrize("name", SMALL_MEMBERS)
def test_a_member_of_every_family_runs_at_the_size_of_its_card(name: str) -> None:
    card = catalogue()[name]
    if card.architecture.family == "vit":
        card = reduced_transformer(card, depth=5, width=192)
    px = card.preprocess.crop_px
    images = torch.randn(1, 3, px, px, generator=torch.Generator().manual_seed(0))
    encoder = build_encoder(card)
    features = encoder(images)
    assert features.shape == (1, card.representation.dim)
    assert torch.isfinite(features).all()
    assert features.std() > 0
    assert torch.equal(features, encoder(images))
