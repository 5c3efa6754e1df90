"""Every encoder of the catalogue is built, on the meta device where weights take no memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

from tests.each import for_each
from tests.encoder_checks import blocks_that_pass_on, reduced_transformer
from tests.meta import KnownShapes
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import Transformer, infer_network
from zoo.cards.schema import EncoderCard, Missing
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import LAYOUTS
from zoo.errors import QueryError
from zoo.loading import list_weights_sources
from zoo.weights.locations import resolve_source


def same_network() -> dict[str, list[list[EncoderCard]]]:
    """Cards by the network that they are built from, and in it by the features that are taken; by id of the first.

    Cards that share both are built once; of those that share the network, the first alone runs it as a whole.
    """
    groups: dict[str, dict[str, list[EncoderCard]]] = defaultdict(lambda: defaultdict(list))
    for card in load_catalogue().values():
        architecture = card.architecture
        network = architecture.backbone, sorted(architecture.options.items()), card.preprocess.crop_px
        groups[repr(network)][repr(card.representation)].append(card)
    return {next(iter(group.values()))[0].id: list(group.values()) for group in groups.values()}


WIDTHS = {  # channels of maps whose mean passes more layers, or none, before it is the features
    "sup_mobilenetv3L_miil_in21k": 960,
    "openclip_coca_vitB32_laion2b": 768,
    "openclip_coca_vitL14_laion2b": 1024,
    "conch_v1_vitB16": 768,
    "conch_v1_5_vitL16": 1024,
    "keep_vitL16": 1024,
    "plip_vitB32": 768,
    "jigsaw_alexnet": 256,
    "colorization_alexnet": 256,
    "rotnet_alexnet": 256,
    "deepcluster_alexnet": 256,
}

NETWORKS = same_network()
N_PARTS = 4  # so that they are spread over processes; about 25 s of one core together, for a thousand cards


@pytest.mark.parametrize("part", range(N_PARTS))
def test_an_encoder_is_what_its_card_says_and_every_card_names_places_and_layouts_that_exist(part: int) -> None:
    @for_each([*NETWORKS.values()][part::N_PARTS], name=lambda groups: groups[0][0].id)
    def check(groups: list[list[EncoderCard]]) -> None:
        for number, cards in enumerate(groups):
            encoder = build_encoder(cards[0], device="meta")
            check_network(cards, encoder, n_run=1 if number == 0 else 0)
            check_maps(cards[0], encoder)
            for card in cards:
                check_places(card, encoder)

    check()


def check_network(cards: list[EncoderCard], encoder: Encoder, *, n_run: int) -> None:
    """Of timm's blocks that keep the shape of their tokens so many are run: the others are like the first."""
    dim = cards[0].representation.dim
    with only_blocks(cards[0], encoder, n_run):
        features = encoder(images_of(cards[0]))
    assert features.shape == (2, dim), cards[0].id
    assert features.dtype == torch.float32
    assert {tensor.device.type for tensor in encoder.state_dict(keep_vars=True).values()} == {"meta"}
    n_parameters = sum(parameter.numel() for parameter in encoder.parameters())
    assert {card.id: card.architecture.n_parameters for card in cards} == {card.id: n_parameters for card in cards}


def check_maps(card: EncoderCard, encoder: Encoder) -> None:
    network, images = infer_network(card), images_of(card)
    with only_blocks(card, encoder, 0):
        n, width, rows, columns = encoder.maps(images).shape
        assert (n, rows) == (2, columns) and rows > 1, card.id
        expected = network.width if isinstance(network, Transformer) else encoder.dim
        assert width == WIDTHS.get(card.id, expected), card.id
        if network is None or network.n_blocks is None:
            with pytest.raises(QueryError, match=r"Found layer=0, but the zoo does not know the blocks"):
                encoder.maps(images, 0)
            return
        block = network.n_blocks // 2
        widths = [network.width] * (block + 1) if isinstance(network, Transformer) else network.stages.of_blocks
        n, width, rows, columns = encoder.maps(images, block).shape
        assert (n, rows, width) == (2, columns, widths[block]) and rows > 1, card.id


def images_of(card: EncoderCard) -> torch.Tensor:
    px = card.preprocess.crop_px
    return torch.empty(2, len(card.preprocess.mean), px, px, device="meta")


@contextmanager
def only_blocks(card: EncoderCard, encoder: Encoder, n_run: int) -> Iterator[None]:
    """Inside, so many of the blocks of timm's transformers are run, whose tokens keep their shape."""
    is_transformer = card.architecture.backbone.startswith("timm:") and hasattr(encoder.backbone, "num_prefix_tokens")
    with blocks_that_pass_on(encoder, after=n_run) if is_transformer else nullcontext(), KnownShapes():
        yield


def check_places(card: EncoderCard, encoder: Encoder) -> None:
    places = [] if card.is_untrained else [card.weights.url, *card.weights.mirrors, *card.weights.companions]
    assert not any(isinstance(place, Missing) for place in places)
    kinds = {(place.startswith(("shipped:", "package:")), resolve_source(place).kind) for place in places}
    assert kinds <= {(True, "path"), (False, "http"), (False, "hub")}, card.id
    found = list_weights_sources(card, encoder)
    assert bool(found) == (not card.is_untrained), card.id
    assert {choice.layout for choice in found} <= LAYOUTS.keys()


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


@for_each(SMALL_MEMBERS)
def test_a_member_of_every_family_runs_at_the_size_of_its_card(name: str) -> None:
    card = load_catalogue()[name]
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
