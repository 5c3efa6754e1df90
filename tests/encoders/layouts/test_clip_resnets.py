"""CLIP's ResNets: OpenAI's archives and timm's copies give what the attention pool of their source mixes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import timm
import torch
from safetensors.torch import save
from timm.models.byobnet import checkpoint_filter_fn

from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources.clip_checkpoints import clip_resnet_shapes, clip_text_shapes, in_half, torchscript_archive
from tests.sources.clip_forward import clip_resnet
from tests.sources.vit_names import State, filled
from zoo.cards.catalogue import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, fingerprints, layout_named
from zoo.errors import WeightsRefused

LAYERS = {
    "clip_rn50": (3, 4, 6, 3),
    "clip_rn101": (3, 4, 23, 3),
    "clip_rn50x4": (4, 6, 10, 6),
    "clip_rn50x16": (6, 8, 18, 8),
    "clip_rn50x64": (3, 15, 36, 10),
}
PIXELS = {"clip_rn50": 224, "clip_rn101": 224, "clip_rn50x4": 288, "clip_rn50x16": 384, "clip_rn50x64": 448}
BACKBONES = {name: f"resnet{name.removeprefix('clip_rn')}_clip" for name in LAYERS}
NARROW = 16  # channels of the stem, where the real ones have 64 and more
OPTIONS = {"width_factor": 0.25}  # the same in the words of timm
N_PROJECTED = 24
SMALLEST = "clip_rn50"


def weights_of(name: str) -> State:
    tower = clip_resnet_shapes(LAYERS[name], width=NARROW, projection=N_PROJECTED, image_px=PIXELS[name])
    weights = filled(tower | clip_text_shapes(projection=N_PROJECTED), seed=1)
    for key, tensor in weights.items():
        if key.endswith(".bn3.weight"):
            tensor *= 0.3  # or the sum of dozens of blocks would grow without bound
    return weights


def copy_by_timm(weights: State, name: str) -> State:
    model = timm.create_model(BACKBONES[name], num_classes=N_PROJECTED, **OPTIONS)
    model.load_state_dict(checkpoint_filter_fn(dict(weights), model))
    return dict(model.state_dict())


def narrow(name: str, content: State) -> Encoder:
    """The narrow encoder with what a file holds."""
    card = catalogue()[name]
    architecture = replace(card.architecture, options=OPTIONS)
    representation = replace(card.representation, dim=32 * NARROW)
    encoder = build_encoder(replace(card, architecture=architecture, representation=representation))
    state = convert([content], encoder, layout="clip", what="the file", untrained=lambda: fingerprints(encoder))
    encoder.load_state_dict(state, strict=True)
    return encoder.double()


def test_the_archive_of_openai_gives_the_features_of_its_source() -> None:
    weights, images = in_half(weights_of(SMALLEST)), exact_images(2, 224)
    content = torchscript_archive(weights)
    reduced = {"architecture": {"options": OPTIONS}, "dim": 32 * NARROW}
    encoder, _ = load_served(SMALLEST, content, filename="RN50.pt", **reduced)
    assert relative_difference(clip_resnet(weights, images, n_heads=NARROW // 2), encoder.double()(images)) < SAME


def test_the_copy_of_timm_gives_the_features_of_its_source() -> None:
    weights, images = weights_of(SMALLEST), exact_images(2, 224)
    content = save(copy_by_timm(weights, SMALLEST))
    encoder, _ = load_served(SMALLEST, content, architecture={"options": OPTIONS}, dim=32 * NARROW)
    assert relative_difference(clip_resnet(weights, images, n_heads=NARROW // 2), encoder.double()(images)) < SAME


@pytest.mark.parametrize("name", [name for name in LAYERS if name != SMALLEST])
def test_narrow_resnets_of_the_other_depths_give_the_features_of_their_sources(name: str) -> None:
    weights, images = weights_of(name), exact_images(1, PIXELS[name])
    reference = clip_resnet(weights, images, n_heads=NARROW // 2)
    assert relative_difference(reference, narrow(name, weights)(images)) < SAME


@pytest.mark.parametrize("name", LAYERS)
def test_timm_converts_to_the_same_tensors(name: str) -> None:
    weights = weights_of(name)
    model = timm.create_model(BACKBONES[name], num_classes=N_PROJECTED, **OPTIONS)
    by_timm = checkpoint_filter_fn(dict(weights), model)
    converted = layout_named("clip").convert(weights, target=by_timm)
    assert converted.keys() == by_timm.keys() == model.state_dict().keys()
    assert all(torch.equal(converted[key], tensor) for key, tensor in by_timm.items())


def test_the_projection_to_the_space_of_text_is_left_out() -> None:
    weights = weights_of(SMALLEST)
    assert {f"visual.attnpool.c_proj.{part}" for part in ("weight", "bias")} < weights.keys()
    names = narrow(SMALLEST, weights).state_dict().keys()
    assert not [name for name in names if name.startswith("backbone.head.proj")]


def test_statistics_of_the_file_are_those_of_the_encoder() -> None:
    weights = weights_of(SMALLEST)
    state = narrow(SMALLEST, weights).state_dict()
    for source, here in (("visual.bn1", "stem.conv1"), ("visual.layer2.0.downsample.1", "stages.1.0.shortcut.conv")):
        for part in ("running_mean", "running_var", "num_batches_tracked"):
            assert torch.equal(state[f"backbone.{here}.bn.{part}"], weights[f"{source}.{part}"])


def test_a_transformer_is_no_resnet() -> None:
    weights = {"visual.class_embedding": torch.ones(8), "visual.proj": torch.ones(8, 4)}
    with pytest.raises(WeightsRefused, match="is missing"):
        narrow(SMALLEST, weights)
