"""Features of encoders that timm builds are those of timm's own network, at the size of the card and at another.

A small network of each kind, with random numbers everywhere: what timm's network gives by itself where the card takes
what it pools, and the tokens of its last feature map where the card takes the class token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import derive_card
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.build import replace_pooling

SAME = 1e-5
"""Of the mean magnitude of the features: float32, and some hundred operations in another order."""

SMALL: dict[str, Any] = {"depth": 2, "embed_dim": 96, "num_heads": 3}
KINDS: dict[str, tuple[str, Mapping[str, Any]]] = {  # encoder: another backbone ("" for its own), options
    "dinov2_vitS14_reg4": ("", SMALL),
    "dinov3_vitS16_lvd1689m": ("", SMALL),
    "siglip2_vitB16_224": ("", SMALL),
    "aimv2_vitL14_224": ("", SMALL),
    "fcmae_convnextv2A": ("", {}),
    "openclip_rn50_cc12m": ("", {}),
    "beit_vitB16_pt22k_ft22k_ft1k": ("", SMALL),
    "beit3_vitB16": ("", SMALL),
    "eva02_vitB14_mim_in22k": ("", SMALL),
    "mae_hieraT": ("", {}),
    "ijepa_vitH14_in1k": ("", SMALL),
    "mobileclip_s0": ("", {}),
    "pe_core_vitT16_384": ("", {"depth": 2}),
    "paligemma_vitSO400M14_224_pt": ("", SMALL),
    "cradio_v3_vitB16": ("", SMALL),
    "tipsv2_vitB14": ("", SMALL),
    "sapiens2_vitB16": ("", SMALL | {"num_kv_heads": 3}),
    "sam_vitB16": ("", SMALL | {"global_attn_indexes": ()}),
    "sam2_hieraT_2pt1": ("", {}),
    "seer_regnety32gf": ("timm:regnety_002", {}),
    "sup_swinT_in1k": ("", {}),
    "dino_resmlp12": ("", {}),
    "vitamin_S_224": ("", {}),
    "siglip2_vitB16_naflex": ("", SMALL),
    "sup_mobilenetv3L_miil_in21k": ("timm:mobilenetv3_small_050", {}),
}


def small(name: str) -> EncoderCard:
    """The card of a small network of the same kind."""
    card = load_catalogue()[name]
    backbone, options = KINDS[name]
    architecture = replace(
        card.architecture,
        backbone=backbone or card.architecture.backbone,
        options={**({} if backbone else card.architecture.options), **options},
    )
    with torch.device("meta"):
        module: Any = timm.create_model(
            architecture.backbone.removeprefix("timm:"), num_classes=0, **architecture.options
        )
    width = module.num_features if card.representation.layer in ("cls", "avg") else module.head_hidden_size
    return replace(card, architecture=architecture, representation=replace(card.representation, dim=width))


def timms(card: EncoderCard, state: Mapping[str, Tensor], **options: Any) -> nn.Module:
    """timm's network with the same weights, as timm builds it unless told otherwise."""
    own = {key: value for key, value in card.architecture.options.items() if key != "dynamic_img_size"}
    module: nn.Module = timm.create_model(
        card.architecture.backbone.removeprefix("timm:"), num_classes=0, **(own | options)
    )
    module.load_state_dict(state)
    return module.eval().requires_grad_(False)


def with_random_numbers(card: EncoderCard) -> Encoder:
    encoder = build_encoder(card)
    source = torch.Generator().manual_seed(0)
    for name, tensor in encoder.state_dict().items():
        if name.endswith("running_var") or (name.endswith("weight") and tensor.ndim == 1):
            tensor.uniform_(0.6, 1.4, generator=source)
        elif name.endswith(("running_mean", "bias")):
            tensor.uniform_(-0.3, 0.3, generator=source)
        elif tensor.is_floating_point() and tensor.ndim > 1:
            tensor.normal_(0, max(tensor[0].numel(), 1) ** -0.5, generator=source)
    return encoder


def images(px: int) -> Tensor:
    return torch.randn(2, 3, px, px, generator=torch.Generator().manual_seed(1))


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().mean())


def tokens_of(card: EncoderCard, module: Any, batch: Tensor) -> Tensor:
    """The features of a card from timm's network."""
    if card.representation.layer == "cls":
        features: Tensor = module.forward_features(batch)[:, 0]
        return features
    pooled: Tensor = module(batch)
    return pooled


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))  # so that they are spread over processes
def test_features_are_those_of_timms_network(part: int) -> None:
    for_each([*KINDS][part::3])(check_features)()


@torch.no_grad()
def check_features(name: str) -> None:
    card = small(name)
    encoder = with_random_numbers(card)
    module = timms(card, encoder.backbone.state_dict())
    native, step, crop = card.architecture.native_px, card.architecture.size_step_px, card.preprocess.crop_px
    if native == crop or not isinstance(native, int):
        batch = images(crop if isinstance(native, int) or not isinstance(step, int) else min(crop, 256 // step * step))
        features = encoder(batch)
        assert features.shape == (2, card.representation.dim)
        assert difference(features, tokens_of(card, module, batch)) < SAME
    if not isinstance(step, int) or not hasattr(module, "set_input_size"):
        return
    for px in {crop, 224 // step * step} - {native}:
        module.set_input_size(img_size=px)  # resamples the position embeddings, once
        batch = images(px)
        assert difference(encoder(batch), tokens_of(card, module, batch)) < SAME, px


@pytest.mark.slow
@torch.no_grad()
@for_each(["siglip2_vitB16_224", "beit_vitB16_pt22k_ft22k_ft1k", "eva02_vitB14_mim_in22k", "dinov3_vitS16_lvd1689m"])
def test_the_mean_of_the_last_patch_tokens_can_be_asked_of_encoders_with_other_features(name: str) -> None:
    card = small(name)
    encoder = with_random_numbers(card)
    other = derive_card(card, features="avg")
    assert other.representation.dim == encoder.backbone.num_features
    batch = images(card.preprocess.crop_px)
    backbone: Any = encoder.backbone
    tokens = backbone.forward_features(batch)[:, backbone.num_prefix_tokens :].mean(dim=1)
    assert difference(replace_pooling(encoder, other)(batch), backbone.fc_norm(tokens)) < SAME
