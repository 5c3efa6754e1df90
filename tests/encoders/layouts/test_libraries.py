"""Files of timm, of torchvision and of the zoo itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save
from torch import Tensor, nn

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.published import EARLY
from tests.sources import saved
from tests.sources.residual_convnext import SIZES, TIMM, convnext_features, convnext_tensors
from tests.sources.resnet_forward import (
    SHAPES,
    Draw,
    State,
    assert_same,
    largest_difference,
    resnet_features,
    resnet_tensors,
)
from tests.sources.vit_forward import cls_by_average, four_cls, vit
from tests.sources.vit_names import REDUCED, SMALL, Size, filled, vit_shapes, without_memory
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import EncoderCard
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, get_layout, hash_parameters
from zoo.encoders.transformers_models import build_transformers_model
from zoo.errors import WeightsRefused

IMAGES = exact_images(2, 224)
TIMMS_SIZES = {
    "vits16": SMALL,
    "vitb8": Size(768, 12, 12, 8),
    "vitb16": Size(768, 12, 12, 16),
    "vitb32": Size(768, 12, 12, 32),
    "vitl16": Size(1024, 24, 16, 16),
}


def classifier(name: str, n: int, *, device: str = "cpu") -> State:
    return Draw(device=device).linear(name, n, 1000)


@pytest.mark.usefixtures("slim_resnets")
@torch.no_grad()
def test_torchvisions_resnet50_has_the_features_that_its_weights_give() -> None:
    weights = resnet_tensors(SHAPES["resnet50 slim"], Draw())
    encoder, _ = load_served("sup_rn50", saved(weights | classifier("fc", 2048), legacy=True), crop_px=64)
    assert_same(encoder.double()(IMAGES), resnet_features(weights, IMAGES))


@torch.no_grad()
@for_each([("sup_vitS16_dino", 4, four_cls), ("sup_vitS16_dino_extractB", 2, cls_by_average)], arguments=3)
def test_every_layer_of_timms_transformers_has_the_features_that_its_weights_give(
    like: str, n_widths: int, features: Callable[[list[Tensor]], Tensor]
) -> None:
    weights = filled(vit_shapes(REDUCED), seed=0)
    reduced = {"embed_dim": REDUCED.width, "depth": REDUCED.depth, "num_heads": REDUCED.n_heads}
    encoder, _ = load_served(
        like,
        save(weights | classifier("head", REDUCED.width)),
        filename="model.safetensors",
        architecture={"options": reduced},
        dim=n_widths * REDUCED.width,
    )
    reference = features(vit(weights, IMAGES, n_heads=REDUCED.n_heads))
    assert relative_difference(reference, encoder.double()(IMAGES)) < SAME


@torch.no_grad()
def test_timms_convnext_pools_before_it_normalises() -> None:
    size = SIZES["atto"]
    weights = convnext_tensors(size, Draw(), names=TIMM, scaled=True)
    encoder, _ = load_served(
        "sup_convnextS",
        save(weights | classifier("head.fc", size.widths[-1])),
        filename="model.safetensors",
        architecture={"backbone": "timm:convnext_atto", "options": {"conv_mlp": False}},
        crop_px=64,
        dim=size.widths[-1],
    )
    found = encoder.double()(IMAGES)
    assert_same(found, convnext_features(weights, IMAGES, size, names=TIMM, pool_first=True))
    assert largest_difference(found, convnext_features(weights, IMAGES, size, names=TIMM)) > 0.1  # here 2.1


@cache
def network() -> State:
    return resnet_tensors(SHAPES["resnet50 thin"], Draw()) | Draw(seed=1).linear("fc", 2048, 1000)


@cache
def thin_encoder() -> Encoder:
    card = load_catalogue()["sup_rn50"]
    return build_encoder(replace(card, architecture=replace(card.architecture, options={"width_per_group": 1})))


def converted(layout: str, changes: State, *, removed: str = "") -> State:
    """What a library's file of a thin ResNet-50 becomes; the zoo's has a prefix and no classifier."""
    content = network() | changes
    content.pop(removed, None)
    if layout == "zoo":
        content = {f"backbone.{name}": tensor for name, tensor in content.items() if not name.startswith("fc.")}
    return convert(
        [content], thin_encoder(), layout=layout, what="a file", untrained=lambda: hash_parameters(thin_encoder())
    )


@for_each(["torchvision", "timm", "zoo"])
def test_every_tensor_is_taken_as_it_is(layout: str) -> None:
    state = converted(layout, {})
    assert state.keys() == thin_encoder().state_dict().keys()
    assert all(torch.equal(tensor, network()[name.removeprefix("backbone.")]) for name, tensor in state.items())


WRONG: list[tuple[str, Callable[..., Tensor | None], str]] = [
    ("layer1.0.conv1.weight", lambda t: None, r"'layer1\.0\.conv1\.weight' is missing"),
    ("layer1.0.conv4.weight", lambda t: torch.ones(1), r"'layer1\.0\.conv4\.weight' is left over"),
    ("bn1.bias", lambda t: t[:32], r"'bn1\.bias' has shape \(32,\), expected \(64,\)"),
    ("bn1.bias", torch.zeros_like, r"'bn1\.bias' is as it was before training"),
]


@for_each([(layout, *wrong) for layout in ("torchvision", "timm", "zoo") for wrong in WRONG], arguments=4)
def test_a_file_that_is_not_exactly_the_encoder_is_refused(
    layout: str, name: str, wrong: Callable[[Tensor | None], Tensor | None], message: str
) -> None:
    tensor = wrong(network().get(name))
    with pytest.raises(WeightsRefused, match=message):
        converted(layout, {} if tensor is None else {name: tensor}, removed=name if tensor is None else "")


@for_each(["torchvision", "timm", "zoo"])
def test_what_is_no_state_dict_of_a_library_is_refused(layout: str) -> None:
    contents: list[Any] = [{}, {"model": network()}, {"backbone.conv1.weight": torch.ones(1), "fc": 1}, None]
    for content in contents:
        with pytest.raises(WeightsRefused, match=f"as files of the layout '{layout}' do"):
            convert([content], thin_encoder(), layout=layout, what="a file", untrained=dict)


@for_each(["sup_rn50", "sup_vitB32", "vicregl_convnexts_alpha09", "lossyless_vitb32_b005"])
def test_the_zoos_own_file_is_the_state_dict_of_an_encoder(name: str) -> None:
    state = build_encoder(load_catalogue()[name], device="meta").state_dict()
    target = {key.removeprefix("backbone."): tensor for key, tensor in state.items()}
    assert get_layout("zoo").convert(dict(state), target=target) == target
    if not any(key.startswith("pooling.") for key in state):
        assert get_layout("zoo").convert(dict(target), target=target) == target


CARDS = [card for card in EARLY if card.weights.converter in ("timm", "torchvision")]


@for_each(CARDS, name=lambda card: card.id)
def test_the_libraries_files_have_exactly_the_tensors_of_the_encoder(card: EncoderCard) -> None:
    """At full size and without numbers, by the names that their authors chose."""
    state = build_encoder(card, device="meta").state_dict()
    target = {key.removeprefix("backbone."): tensor for key, tensor in state.items()}
    exact, draw = card.architecture.exact, Draw(device="meta")
    if exact in SHAPES:
        content = resnet_tensors(SHAPES[exact], draw) | draw.linear("fc", 2048, 1000)
    elif exact in SIZES:
        content = convnext_tensors(SIZES[exact], draw, names=TIMM, scaled=True)
        content |= draw.linear("head.fc", SIZES[exact].widths[-1], 1000)
    else:
        size = TIMMS_SIZES[exact.split()[0]]
        content = without_memory(vit_shapes(size)) | draw.linear("head", size.width, 1000)
    converted = get_layout(str(card.weights.converter)).convert(content, target=target)
    assert converted.keys() == target.keys()
    assert all(tensor.shape == target[name].shape for name, tensor in converted.items())


@for_each(["microsam_lm_vitB16", "microsam_em_vitL16"])
@torch.no_grad()
def test_a_file_of_sam_or_micro_sam_gives_what_timm_makes_of_its_image_tower(like: str) -> None:
    small = {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 2, "global_attn_indexes": [1], "window_size": 3}
    theirs = timm.create_model("samvit_base_patch16", num_classes=0, **small).eval()
    for name, parameter in theirs.named_parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) * 0.1)
    tower = {f"image_encoder.{name.replace('.mlp.fc', '.mlp.lin')}": each for name, each in theirs.state_dict().items()}
    tower |= {"mask_decoder.iou_token.weight": torch.ones(2), "prompt_encoder.no_mask_embed.weight": torch.ones(2)}
    training = {"model_state": {f"sam.{name}": each for name, each in tower.items()}, "decoder_state": {}}
    images = exact_images(2, 64).float()
    for content in (tower, training):
        options = {"backbone": "timm:samvit_base_patch16", "options": small}
        encoder, _ = load_served(like, saved(content, legacy=False), architecture=options, crop_px=64)
        assert relative_difference(theirs(images), encoder(images)) < 1e-6
        assert relative_difference(theirs.forward_features(images).mean(dim=(2, 3)), encoder(images)) < 1e-5
    with pytest.raises(WeightsRefused, match=r"expected names that start with 'image_encoder\.'"):
        load_served(like, saved(tower | {"head.weight": torch.ones(2)}, legacy=False), architecture=options, crop_px=64)


def of_transformers(like: str, **options: Any) -> tuple[nn.Module, dict[str, Any]]:
    """A small network of transformers like that of a card, with every number drawn, and how a card describes it."""
    backbone = load_catalogue()[like].architecture.backbone
    network, _ = build_transformers_model(backbone.removeprefix("transformers:"), **options)
    drawn = filled({name: tuple(each.shape) for name, each in network.state_dict().items()}, seed=1)
    network.load_state_dict(drawn)
    return network.eval(), {"backbone": backbone, "options": options}


BLOCKS = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}


@for_each([("mlcd_vitL14_336", 1), ("mlcd_vitbigG14_336", 2)], arguments=2)
@torch.no_grad()
def test_a_file_of_transformers_may_be_in_parts(like: str, n_parts: int) -> None:
    act = load_catalogue()[like].architecture.options["hidden_act"]
    network, architecture = of_transformers(like, image_size=56, patch_size=14, hidden_act=act, **BLOCKS)
    whole = {f"vision_model.{name.removeprefix('network.')}": each for name, each in network.state_dict().items()}
    parts = [save(dict(list(whole.items())[number::n_parts])) for number in range(n_parts)]
    facts: dict[str, Any] = {"architecture": architecture, "dim": 48, "crop_px": 56}
    encoder, _ = load_served(like, parts[0], companions=parts[1:], filename="model.safetensors", **facts)
    images = exact_images(2, 56).float()
    assert relative_difference(network(images), encoder(images)) < 1e-6
    if n_parts > 1:
        with pytest.raises(WeightsRefused, match="is missing"):
            load_served(like, parts[0], filename="model.safetensors", **facts)


@torch.no_grad()
def test_the_trunk_of_sam_3_is_found_within_its_file() -> None:
    about = {"image_size": 112, "pretrain_image_size": 56, "window_size": 4, "global_attn_indexes": [1]}
    network, architecture = of_transformers("sam3_vitLplus14", **about, **BLOCKS)
    trunk = "detector_model.vision_encoder.backbone."
    content = {trunk + name.removeprefix("network."): each for name, each in network.state_dict().items()}
    content |= {
        f"{name}.weight": torch.ones(2) for name in ("detector_model.text_projection", "tracker_model.layers.0")
    }
    facts: dict[str, Any] = {"architecture": architecture, "dim": 48, "crop_px": 112}
    encoder, _ = load_served("sam3_vitLplus14", save(content), filename="model.safetensors", **facts)
    images = exact_images(2, 112).float()
    assert relative_difference(network.network(pixel_values=images).last_hidden_state.mean(1), encoder(images)) < 1e-6
