"""Other features of the same encoder as numbers: their dimensions, their tokens, their norm, and their weights."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tests.each import for_each
from tests.encoder_checks import blocks_that_pass_on, random_images
from tests.published import EARLY
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import PROJECTED, derive_card, infer_transformer, list_representations
from zoo.cards.schema import NOT_APPLICABLE, EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.build import replace_pooling
from zoo.errors import BuildError, QueryError
from zoo.loading import hash_architecture

SMALL = {"embed_dim": 32, "depth": 5, "num_heads": 2}
IMAGES = random_images(2, 32)


def networks() -> dict[str, EncoderCard]:
    """Of all transformers one card for each kind of network and each size; patches and images of any size are one."""
    found: dict[str, EncoderCard] = {}
    for card in EARLY:
        if infer_transformer(card) is not None:
            kind = re.sub(r"_patch[0-9]+|_[0-9]+$", "", card.architecture.backbone)
            has_projection = card.representation.layer in (*PROJECTED, "pred")
            sizes = [card.architecture.options.get(option) for option in ("embed_dim", "depth")]
            found.setdefault(f"{kind} {has_projection} {sizes}", card)
    return {card.id: card for card in found.values()}


@for_each(networks().values(), name=lambda card: card.id)
def test_every_offered_representation_has_the_dimensions_that_are_stated(card: EncoderCard) -> None:
    """Without the work of the blocks, which test_encoders_catalogue.py has done by every network."""
    own = build_encoder(card, device="meta")
    px, hash_of_own = card.preprocess.crop_px, hash_architecture(own)
    for other, how in list_representations(card).items():
        encoder = own if other == card.id else replace_pooling(own, load_catalogue()[other])
        with blocks_that_pass_on(encoder):
            assert encoder(torch.empty(2, 3, px, px, device="meta")).shape == (2, how.dim), other
        assert encoder.dim == how.dim
        assert hash_architecture(encoder) == hash_of_own
        assert sum(tensor.numel() for tensor in encoder.parameters()) == card.architecture.n_parameters
    assert len(own.backbone.blocks) == infer_transformer(card).n_blocks


def small_card(
    backbone: str, *, layer: Any = "cls", dim: int = 32, order: Any = NOT_APPLICABLE, **options: Any
) -> EncoderCard:
    """A card of a small transformer of timm on images of 32 px in patches of 8."""
    base = load_catalogue()["dino_vitS16_last"]
    return replace(
        base,
        architecture=replace(
            base.architecture,
            backbone=f"timm:{backbone}",
            options=SMALL | {"img_size": 32, "patch_size": 8} | options,
        ),
        representation=replace(base.representation, layer=layer, dim=dim, order=order),
    )


def own_encoder(card: EncoderCard) -> Encoder:
    """With random weights of which each matters, norms and biases too."""
    encoder = build_encoder(card)
    source = torch.Generator().manual_seed(3)
    for parameter in encoder.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=source) * 0.2)
    return encoder


def features_of(own: Encoder, card: EncoderCard, features: str, layers: Any = None) -> torch.Tensor:
    return replace_pooling(own, derive_card(card, features=features, layers=layers))(IMAGES)


PLAIN = {
    "vit": small_card("vit_small_patch16_224"),
    "registers": small_card("vit_small_patch16_224", reg_tokens=4),
    "clip": small_card("vit_base_patch32_clip_quickgelu_224", layer="proj", dim=24),
    "quantised": small_card("vit_base_patch32_clip_quickgelu_224", layer="pred", dim=24),
    "beit": small_card("beit_base_patch16_224"),
}


@for_each(PLAIN)
def test_tokens_are_those_of_timm_after_the_final_norm(kind: str) -> None:
    card, own = PLAIN[kind], own_encoder(PLAIN[kind])
    backbone: Any = own.backbone
    assert isinstance(backbone.norm, nn.LayerNorm)
    found = backbone.forward_intermediates(
        IMAGES, indices=[0, 2, 4], return_prefix_tokens=True, norm=True, output_fmt="NLC", intermediates_only=True
    )
    patches, class_tokens = [block for block, _ in found], [prefix[:, 0] for _, prefix in found]
    averages = [tokens.mean(dim=1) for tokens in patches]
    assert patches[0].shape == (2, 16, 32)
    both = [token for pair in zip(class_tokens, averages, strict=True) for token in pair]
    assert torch.equal(features_of(own, card, "cls", [0, 2, 4]), torch.cat(class_tokens, dim=1))
    assert torch.equal(features_of(own, card, "avg", [4, 0, 2]), torch.cat(averages, dim=1))
    assert torch.equal(features_of(own, card, "cls+avg", [0, 2, -1]), torch.cat(both, dim=1))
    assert torch.equal(features_of(own, card, "avg:2"), averages[1])
    last = backbone.forward_features(IMAGES)
    assert torch.allclose(features_of(own, card, "avg"), last[:, backbone.num_prefix_tokens :].mean(dim=1))


@for_each(
    [
        ("cls", 32, NOT_APPLICABLE, "4xcls", 128),
        ("4xcls", 128, NOT_APPLICABLE, "cls", 32),
        ("cls+avg", 64, "concatenated", "cls", 32),
        ("proj", 24, NOT_APPLICABLE, "proj+cls", 56),
        ("proj+cls", 56, "concatenated", "proj", 24),
    ],
    arguments=5,
)
def test_what_a_card_takes_is_the_same_when_it_is_derived_from_another(
    layer: Any, dim: int, order: Any, start: Any, start_dim: int
) -> None:
    backbone = "vit_base_patch32_clip_quickgelu_224"
    by_card = own_encoder(small_card(backbone, layer=layer, dim=dim, order=order))
    other = small_card(backbone, layer=start, dim=start_dim, order="concatenated")
    card = derive_card(other, features=layer)
    assert (card.representation.layer, card.representation.dim, card.representation.order) == (layer, dim, order)
    own = build_encoder(other)
    own.load_state_dict(by_card.state_dict())
    assert torch.equal(replace_pooling(own, card)(IMAGES), by_card(IMAGES))


def test_an_average_next_to_a_class_token_is_not_interleaved() -> None:
    card = small_card("vit_small_patch16_224", layer="cls+avg", dim=64, order="interleaved")
    own = own_encoder(card)
    assert derive_card(card, features="avg+cls") is card
    other = replace(card, representation=replace(card.representation, layer="cls", dim=32, order=NOT_APPLICABLE))
    concatenated = features_of(own, other, "cls+avg")
    assert torch.equal(own(IMAGES)[:, 0::2], concatenated[:, :32])
    assert torch.equal(own(IMAGES)[:, 1::2], concatenated[:, 32:])


@for_each(
    [
        small_card("beit_base_patch16_224", layer="avgpool"),
        small_card("vit_base_patch16_224", layer="avgpool", global_pool="avg"),
        small_card("vit_base_patch16_224", layer="avgpool", global_pool="avg", reg_tokens=2),
        small_card("vit_base_patch16_224", layer="avgpool", global_pool="avg", class_token=False),
    ],
    name=lambda card: card.architecture.backbone,
)
def test_a_norm_behind_the_pooling_stays_behind_it(card: EncoderCard) -> None:
    own = own_encoder(card)
    backbone: Any = own.backbone
    assert isinstance(backbone.norm, nn.Identity) and isinstance(backbone.fc_norm, nn.LayerNorm)
    assert derive_card(card, features="avg") is card
    outputs: list[torch.Tensor] = []
    hooks = [block.register_forward_hook(lambda *call: outputs.append(call[-1])) for block in backbone.blocks]
    own_features = own(IMAGES)
    for hook in hooks:
        hook.remove()
    n_prefix = backbone.num_prefix_tokens
    by_hand = [backbone.fc_norm(tokens[:, n_prefix:].mean(dim=1)) for tokens in outputs]
    assert torch.allclose(by_hand[-1], own_features, atol=1e-6)
    assert torch.allclose(features_of(own, card, "avg", 2), torch.cat(by_hand[-2:], dim=1), atol=1e-6)
    if "cls" in infer_transformer(card).words:
        assert torch.allclose(features_of(own, card, "cls:1"), backbone.fc_norm(outputs[1][:, 0]), atol=1e-6)
    else:
        with pytest.raises(QueryError, match="offers avg of its blocks 0 to 4"):
            derive_card(card, features="cls")


def test_blocks_after_the_last_one_asked_for_are_not_computed() -> None:
    own = own_encoder(PLAIN["vit"])
    before = features_of(own, PLAIN["vit"], "cls", [0, 1])
    for block in own.backbone.blocks[2:]:
        block.register_forward_hook(lambda *call: pytest.fail("computed a block that nobody asked for"))
    assert torch.equal(features_of(own, PLAIN["vit"], "cls", [0, 1]), before)


def test_quantised_features_keep_their_parameters_when_others_are_taken() -> None:
    own = own_encoder(PLAIN["quantised"])
    other = replace_pooling(own, derive_card(PLAIN["quantised"], features="proj"))
    assert list(other.state_dict()) == list(own.state_dict())
    assert other.pooling.scaling is own.pooling.scaling
    assert torch.equal(other(IMAGES), own.backbone.head(own.backbone.forward_features(IMAGES)[:, 0]))
    assert not torch.equal(other(IMAGES), own(IMAGES))
    again = pickle.loads(pickle.dumps(other))
    assert torch.equal(again(IMAGES), other(IMAGES))


def test_a_card_that_is_wrong_about_its_network_is_refused_in_one_sentence() -> None:
    own = own_encoder(PLAIN["vit"])
    deep = small_card("vit_small_patch16_224", depth=12)
    with pytest.raises(BuildError, match=r"found the layer 'cls:7'.* has 5 blocks of tokens; correct the options"):
        replace_pooling(own, derive_card(deep, features="cls", layers=[7]))
    wide = small_card("vit_small_patch16_224", embed_dim=64, dim=64)
    with pytest.raises(BuildError, match=r"found 128 dimensions, expected 64 .* tokens of 32; correct embed_dim"):
        replace_pooling(own, derive_card(wide, features="cls+avg"))
    with pytest.raises(BuildError, match="'torchvision:resnet50' has 0 blocks of tokens"):
        replace_pooling(build_encoder(load_catalogue()["simclr_rn50"], device="meta"), load_catalogue()["simclr_rn50"])
