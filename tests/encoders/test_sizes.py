"""Images of another size than the card's: the same features as timm's and transformers' own ways to take them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch
from torch import Tensor

import zoo
from tests.each import for_each
from tests.encoders.test_transformers_models import SMALL
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import build_encoder
from zoo.encoders.sizes import derive_sized_card, preprocess_at, resize_encoder
from zoo.errors import DataError, NameNote, QueryError

VIT = "timm:test_vit.r160_in1k"


def images(px: int) -> Tensor:
    return torch.randn(2, 3, px, px, generator=torch.Generator().manual_seed(px))


@pytest.mark.filterwarnings("ignore::zoo.errors.NameNote")
@torch.no_grad()
def test_a_transformer_has_the_features_of_timms_own_change_of_size() -> None:
    encoder, preprocess = zoo.load(VIT, pretrained=False, seed=4, px=224)
    native, _ = zoo.load(VIT, pretrained=False, seed=4)
    reference = timm.create_model("test_vit", num_classes=0).eval()
    reference.load_state_dict(native.backbone.state_dict())
    reference.set_input_size(224)
    torch.testing.assert_close(encoder(images(224)), reference(images(224)), rtol=0, atol=1e-5)
    assert preprocess.transforms[2].size == (224, 224)
    assert preprocess.transforms[1].size == round(168 * 224 / 160)
    assert "px=224, positions interpolated from 160 px" in repr(encoder)
    assert "interpolated" not in repr(native)
    averages, _ = zoo.load(VIT, pretrained=False, seed=4, px=224, features="cls+avg")
    assert averages(images(224)).shape == (2, 128)
    assert torch.equal(averages(images(224))[:, :64], encoder(images(224)))
    assert averages.interpolated_px == (160, 224)


def test_interpolated_positions_are_told_once_and_only_when_there_are_any() -> None:
    with pytest.warns(NameNote, match=r"position embeddings of 'timm_test_vit_r160_in1k' are for 160 px, .* to 192 px"):
        zoo.load(VIT, pretrained=False, px=192)
    zoo.load(VIT, pretrained=False, px=160)
    with torch.no_grad():
        encoder, _ = zoo.load("timm:test_resnet.r160_in1k", pretrained=False, px=96)
        assert encoder(images(96)).ndim == 2
        assert encoder.interpolated_px is None


def with_backbone(name: str, **options: object) -> EncoderCard:
    """A card of a small network of transformers."""
    card = load_catalogue()["dino_vitS16_last"]
    architecture = replace(card.architecture, backbone=name, options=SMALL | options, size_step_px=zoo.NOT_RECORDED)
    preprocess = replace(card.preprocess, crop_px=32, resize_px=36)
    representation = replace(card.representation, dim=48)
    return replace(card, architecture=architecture, preprocess=preprocess, representation=representation)


@pytest.mark.filterwarnings("ignore::zoo.errors.NameNote")
@torch.no_grad()
def test_a_network_of_transformers_is_told_to_interpolate() -> None:
    card = with_backbone("transformers:vit")
    encoder = build_encoder(card, seed=4)
    larger = resize_encoder(encoder, card, derive_sized_card(card, 48))
    own = larger.backbone.network(pixel_values=images(48), interpolate_pos_encoding=True).last_hidden_state[:, 0]
    torch.testing.assert_close(larger(images(48)), own, rtol=0, atol=1e-6)
    assert larger.interpolated_px == (32, 48)


@for_each(
    [
        (VIT, 200, "expected 160 or a multiple of 16, such as 192 or 208"),
        (VIT, 0, "expected a whole number of pixels from 1"),
        (VIT, True, "expected a whole number of pixels from 1"),
        ("timm:hiera_tiny_224.mae", 256, "whose network takes images of 224 px alone; leave out px"),
    ],
    arguments=3,
)
def test_a_size_that_it_cannot_take_is_refused_with_the_sizes_that_it_can(name: str, px: int, expected: str) -> None:
    with pytest.raises(QueryError, match=expected):
        zoo.load(name, pretrained=False, px=px)


def test_the_scale_before_the_crop_changes_with_the_crop() -> None:
    preprocess = load_catalogue()["dino_vitS16"].preprocess
    assert (preprocess.resize_px, preprocess.crop_px) == (256, 224)
    larger = preprocess_at(preprocess, 448)
    assert (larger.resize_px, larger.crop_px) == (512, 448)


@for_each(["vit", "dinov2", "radio", "siglip2_vision_model", "aimv2_vision_model"])
@torch.no_grad()
def test_networks_of_transformers_refuse_images_of_another_size_than_theirs(model_type: str) -> None:
    options = {"vit": {}, "dinov2": {}, "radio": {"patch_dim": 192}, "siglip2_vision_model": {"num_patches": 16}}
    without = {"dinov2": "intermediate_size", "radio": "intermediate_size", "siglip2_vision_model": "image_size"}
    card = with_backbone(f"transformers:{model_type}", **options.get(model_type, {}))
    kept = {name: value for name, value in card.architecture.options.items() if name != without.get(model_type)}
    layer = "avg" if model_type.endswith("vision_model") else "cls"
    card = replace(
        card,
        architecture=replace(card.architecture, options=kept),
        representation=replace(card.representation, layer=layer),
    )
    encoder = build_encoder(card, seed=4)
    assert encoder(images(32)).shape == (2, 48)
    for call in (encoder, encoder.maps):
        with pytest.raises(DataError, match=r"\(2, 3, 48, 48\), expected .*32.*load the encoder with px"):
            call(images(48))
