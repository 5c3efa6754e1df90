"""Building: seeds, devices, gradients, and what is said when a card cannot be built."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch

from tests.each import for_each
from tests.encoder_checks import random_images
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import NOT_APPLICABLE, EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.errors import BuildError

RESNET = load_catalogue()["simclr_rn50"]
TRANSFORMER = load_catalogue()["dino_vitS16_last"]


def architecture(card: EncoderCard, **changes: Any) -> EncoderCard:
    return replace(card, architecture=replace(card.architecture, **changes))


def representation(card: EncoderCard, **changes: Any) -> EncoderCard:
    return replace(card, representation=replace(card.representation, **changes))


def flat(encoder: Encoder) -> torch.Tensor:
    return torch.cat([parameter.flatten() for parameter in encoder.parameters()])


def test_keys_are_those_of_the_library_behind_one_prefix() -> None:
    assert "backbone.layer1.0.conv1.weight" in build_encoder(RESNET, device="meta").state_dict()
    assert "backbone.blocks.0.attn.qkv.weight" in build_encoder(TRANSFORMER, device="meta").state_dict()
    last_block = build_encoder(load_catalogue()["init_rn50_d4096"], device="meta").state_dict()
    assert "backbone.avgpool.0.conv3.weight" in last_block
    quantised = build_encoder(load_catalogue()["lossyless_vitb32_b01"], device="meta").state_dict()
    assert {key for key in quantised if not key.startswith("backbone.")} == {
        "pooling.scaling",
        "pooling.biasing",
        "pooling.medians",
    }


WRONG = {
    "unknown library": (architecture(RESNET, backbone="keras:resnet50"), "'architecture.backbone'.*'keras:resnet50'"),
    "unknown backbone": (architecture(RESNET, backbone="zoo:resnet50_wider"), "zoo:resnet50_wide"),
    "unknown to timm": (architecture(TRANSFORMER, backbone="timm:vit_tiny_patch99"), "no model vit_tiny_patch99"),
    "unknown to torchvision": (architecture(RESNET, backbone="torchvision:resnet51"), "resnet51"),
    "no resnet": (architecture(RESNET, backbone="torchvision:vgg11"), "vgg11 is no ResNet"),
    "unknown option": (architecture(RESNET, options={"depth": 3}), "'depth'"),
    "unknown option of timm": (architecture(TRANSFORMER, options={"n_heads": 3}), "'n_heads'"),
    "weights by the back door": (architecture(TRANSFORMER, options={"pretrained": True}), "'pretrained'"),
    "impossible width": (architecture(RESNET, backbone="zoo:resnet50_wide", options={"width": 0}), "width is 0"),
    "missing option": (architecture(RESNET, backbone="zoo:resnet50_wide"), "'width'"),
    "impossible residual": (
        architecture(RESNET, backbone="zoo:resnet50_last_block", options={"dim": 512, "residual": True}),
        "multiple of 2048",
    ),
    "unknown size": (architecture(RESNET, backbone="zoo:convnext_norm_first", options={"size": "tiny"}), "'tiny'"),
    "wrong dimensions": (representation(TRANSFORMER, dim=768), "'representation.dim': found 768, expected 384"),
    "wrong dimensions of four": (representation(TRANSFORMER, layer="4xcls"), "expected 1536"),
    "no class token": (representation(RESNET, layer="cls"), "'representation.layer'.*no class token"),
    "no average": (representation(TRANSFORMER, layer="avgpool"), "'representation.layer'.*global_pool = 'avg'"),
    "no order": (representation(TRANSFORMER, layer="cls+avg", dim=768, order=NOT_APPLICABLE), "'representation.order'"),
    "nothing to project": (representation(TRANSFORMER, layer="proj+cls", dim=384), "more than the 384"),
}


@for_each(WRONG)
def test_a_card_that_cannot_be_built_says_which_field_is_wrong(case: str) -> None:
    card, expected = WRONG[case]
    with pytest.raises(BuildError, match=expected) as caught:
        build_encoder(card, device="meta")
    assert str(caught.value).startswith(f"Encoder {card.id!r}, field '")


@pytest.mark.usefixtures("slim_resnets")
@pytest.mark.parametrize("card", [RESNET, architecture(TRANSFORMER, options={"depth": 2})], ids=lambda card: card.id)
def test_a_seed_is_a_set_of_weights_and_leaves_the_global_random_state_alone(card: EncoderCard) -> None:
    first = flat(build_encoder(card, seed=7))
    torch.manual_seed(1234)  # what was drawn before does not matter
    before = torch.get_rng_state()
    assert torch.equal(first, flat(build_encoder(card, seed=7)))
    assert not torch.equal(first, flat(build_encoder(card, seed=8)))
    build_encoder(card, device="meta")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.usefixtures("slim_resnets")
def test_an_encoder_evaluates_without_gradients_unless_they_are_asked_for() -> None:
    encoder = build_encoder(RESNET)
    assert not any(module.training for module in encoder.modules())
    assert not encoder(random_images(2, 64)).requires_grad
    images = random_images(2, 64).requires_grad_()
    encoder(images).sum().backward()
    assert images.grad is not None and images.grad.abs().max() > 0
    encoder.requires_grad_().train()(random_images(2, 64)).sum().backward()
    assert encoder.backbone.conv1.weight.grad.abs().max() > 0


@for_each(["dino_vitS16_extractB", "lossyless_vitb32_b01", "byol_rn50_bs4096"])
def test_an_encoder_survives_pickling(name: str) -> None:
    card = load_catalogue()[name]
    encoder = build_encoder(card, device="meta")
    again = pickle.loads(pickle.dumps(encoder))
    assert again(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, card.representation.dim)
    assert list(again.state_dict()) == list(encoder.state_dict())


def test_a_missing_library_is_named_with_its_extra_and_a_resnet_needs_no_timm(
    run_apart: Callable[..., CompletedProcess[str]], repository: Any
) -> None:
    script = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
    del sys.modules[name]
sys.modules["timm"] = None
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import build_encoder
from zoo.errors import MissingExtra
build_encoder(load_catalogue()["simclr_rn50"], device="meta")
try:
    build_encoder(load_catalogue()["dino_vitS16"], device="meta")
except MissingExtra as error:
    print(error)
"""
    done = run_apart(script, path=[repository], warm=True)
    assert "'timm'" in done.stdout and "extra [models]" in done.stdout, done.stderr
