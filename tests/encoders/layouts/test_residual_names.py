"""Names and shapes of every encoder that is read from files of ResNets or ConvNeXts, at full size, without numbers."""

from __future__ import annotations

import re

import pytest

from tests.sources.residual_convnext import SIZES, convnext_tensors
from tests.sources.residual_files import SOURCES, last_block_tensors
from tests.sources.resnet_forward import SHAPES, Draw, State, resnet_tensors
from zoo.cards.catalogue import catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import build_encoder
from zoo.encoders.layouts import layout_named

LAYOUTS = {source.layout for source in SOURCES}
CARDS = [
    card
    for card in catalogue().values()
    if card.weights.converter in LAYOUTS
    and card.architecture.family in ("resnet", "convnext")
    and not card.architecture.exact.endswith("without norm")  # in test_convolutional.py
]
KINDS = {(card.weights.converter, card.architecture.exact, repr(card.architecture)): card for card in CARDS}


def source_tensors(card: EncoderCard) -> State:
    """The network of a card as its source names it, on the meta device."""
    draw, exact = Draw(device="meta"), card.architecture.exact
    if exact in SIZES:
        return convnext_tensors(SIZES[exact], draw)
    network, _, dim = exact.partition("d") if exact[-1].isdigit() else (exact, "", "")
    return resnet_tensors(SHAPES[network], draw) | (last_block_tensors(int(dim), draw) if dim else {})


@pytest.mark.parametrize("card", KINDS.values(), ids=lambda card: card.id)
def test_the_sources_files_have_exactly_the_tensors_of_the_encoder(card: EncoderCard) -> None:
    target = {
        name.removeprefix("backbone."): tensor
        for name, tensor in build_encoder(card, device="meta").state_dict().items()
    }
    weights = source_tensors(card)
    parameters = (tensor for name, tensor in weights.items() if not re.search("running|num_batches", name))
    assert sum(tensor.numel() for tensor in parameters) == card.architecture.n_parameters
    for source in SOURCES:
        if source.layout == card.weights.converter:
            content = source.content(weights, Draw(device="meta"))
            state = layout_named(source.layout).convert(content, target=target)
            counters = {name for name in target if name.endswith("num_batches_tracked")}
            assert state.keys() | counters == target.keys(), source.name
            for name, tensor in state.items():
                assert tensor.shape == target[name].shape, (source.name, name)
                assert tensor.dtype == target[name].dtype, (source.name, name)
