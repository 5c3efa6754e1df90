"""CLIP's and OpenCLIP's towers: three ways to name one transformer, half precision, projections, and ResNets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources import saved
from tests.sources.clip_checkpoints import (
    clip_resnet,
    clip_resnet_shapes,
    clip_text_shapes,
    clip_vit_shapes,
    in_half,
    openclip_training,
    projected,
    quantised,
    rate_file,
    torchscript_archive,
)
from tests.sources.vit_forward import (
    clip_vit,
    cls,
    cls_then_average,
    exact_gelu,
    four_cls,
    quick_gelu,
)
from tests.sources.vit_names import REDUCED, State, filled
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, hash_parameters
from zoo.errors import WeightsRefused

N_PROJECTED = 48
N_HEADS = REDUCED.n_heads
SHAPES = clip_vit_shapes(REDUCED, projection=N_PROJECTED) | clip_text_shapes(projection=N_PROJECTED)
WEIGHTS = filled(SHAPES, seed=1)
HALF = in_half(WEIGHTS)  # as OpenAI does it, which leaves out norms and embeddings
IMAGES = exact_images(2, 224)
QUICK, EXACT = "vit_base_patch32_clip_quickgelu_224", "vit_base_patch32_clip_224"
OPTIONS = {"embed_dim": REDUCED.width, "depth": REDUCED.depth, "num_heads": N_HEADS, "patch_size": REDUCED.patch_px}


def halved(weights: State) -> State:
    return {name: tensor.half() for name, tensor in weights.items()}


@cache
def tokens_of(which: str) -> list[Tensor]:
    weights = {"quick, half": HALF, "quick, all half": halved(WEIGHTS)}.get(which, WEIGHTS)
    return clip_vit(weights, IMAGES, activation=exact_gelu if which == "exact" else quick_gelu, n_heads=N_HEADS)


FEATURES: Mapping[str, Callable[[list[Tensor]], Tensor]] = {
    "cls": cls,
    "4xcls": four_cls,
    "cls+avg": cls_then_average,
    "proj": lambda seen: projected(cls(seen), WEIGHTS),
    "proj+cls": lambda seen: torch.cat((cls(seen), projected(cls(seen), WEIGHTS)), dim=1),
}
LIKE = {
    ("clip", "cls"): "clip_vitB32",
    ("clip", "4xcls"): "clip_vitL14_px336_extractS",
    ("clip", "cls+avg"): "clip_vitL14_px336_extractB",
    ("clip", "proj"): "clip_vitL14_px336_extractPred",
    ("clip", "proj+cls"): "clip_vitL14_px336_extractPredCls",
    ("openclip", "cls"): "openclip_vitB32",
    ("openclip", "4xcls"): "openclip_vitG14_extractS",
    ("openclip", "cls+avg"): "openclip_vitH14_extractB",
    ("openclip", "proj"): "openclip_vitG14_extractPred",
}


def copy_by_timm(weights: State, name: str) -> State:
    """What timm's own conversion and its own network make of the weights: how its copies came about."""
    model = timm.create_model(name, num_classes=N_PROJECTED, **OPTIONS)
    model.load_state_dict(checkpoint_filter_fn(dict(weights), model))
    return dict(model.state_dict())


def load_reduced(like: str, content: bytes, *, backbone: str, dim: int, companions: tuple[bytes, ...] = ()) -> Encoder:
    architecture: dict[str, Any] = {"backbone": f"timm:{backbone}", "options": OPTIONS}
    encoder, _ = load_served(like, content, companions=companions, architecture=architecture, dim=dim, crop_px=224)
    assert all(parameter.dtype == torch.float32 for parameter in encoder.parameters())
    return encoder.double()


# For each file: what writes it, which tokens it has, and what is read from them.
OPENAI: Mapping[str, tuple[Callable[[], bytes], str, str]] = {
    "TorchScript in half precision": (lambda: torchscript_archive(HALF), "quick, half", "cls"),
    "copy by timm": (lambda: save(copy_by_timm(WEIGHTS, QUICK)), "quick", "proj+cls"),
    "copy by timm in half precision": (lambda: save(halved(copy_by_timm(WEIGHTS, QUICK))), "quick, all half", "4xcls"),
    "copy by OpenCLIP": (lambda: save(WEIGHTS), "quick", "proj"),
    "copy by OpenCLIP, pickled in half precision": (lambda: saved(HALF, legacy=False), "quick, half", "cls+avg"),
}
OPENCLIP: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "released": (lambda: save(WEIGHTS), "proj"),
    "released, pickled": (lambda: saved(WEIGHTS, legacy=False), "cls"),
    "copy by timm": (lambda: save(copy_by_timm(WEIGHTS, EXACT)), "cls+avg"),
    "training": (lambda: saved(openclip_training(WEIGHTS), legacy=False), "4xcls"),
    "training, one process": (lambda: saved(openclip_training(WEIGHTS, wrapped=False), legacy=False), "cls"),
}


@for_each(OPENAI)
def test_every_file_of_openais_weights_gives_the_features_of_its_source(name: str) -> None:
    write, tokens, layer = OPENAI[name]
    reference = FEATURES[layer](tokens_of(tokens))
    encoder = load_reduced(LIKE["clip", layer], write(), backbone=QUICK, dim=reference.shape[1])
    assert relative_difference(reference, encoder(IMAGES)) < SAME


@for_each(OPENCLIP)
def test_every_file_of_openclip_gives_the_features_of_its_source(name: str) -> None:
    write, layer = OPENCLIP[name]
    reference = FEATURES[layer](tokens_of("exact"))
    encoder = load_reduced(LIKE["openclip", layer], write(), backbone=EXACT, dim=reference.shape[1])
    assert relative_difference(reference, encoder(IMAGES)) < SAME


FINE_TUNED: Mapping[str, tuple[Callable[[], bytes], str, str]] = {  # what writes a file, its tokens, the network
    "bioclip_vitB16": (lambda: saved(WEIGHTS, legacy=False), "exact", EXACT),
    "bioclip2_vitL14": (lambda: save(WEIGHTS), "exact", EXACT),
    "bioclip2_5_vitH14": (lambda: save(WEIGHTS), "exact", EXACT),
    "monet_vitL14": (lambda: saved(HALF, legacy=False), "quick, half", QUICK),
    "farl_vitB16_ep16": (lambda: saved(farl_training(WEIGHTS), legacy=False), "quick", QUICK),
}


def farl_training(weights: State) -> dict[str, Any]:
    """A checkpoint with the layers that read hidden patches, by the names of FaRL's code."""
    hidden = ["lm_transformer.resblocks.0.ln_1.weight", "ln_lm.weight", "ln_lm.bias", "lm_head.weight", "mask_token"]
    return {"state_dict": weights | {f"visual.{name}": torch.ones(REDUCED.width) for name in hidden}}


@for_each(FINE_TUNED)
def test_files_of_clips_of_organisms_skin_and_faces_give_the_projection(name: str) -> None:
    write, tokens, backbone = FINE_TUNED[name]
    assert load_catalogue()[name].architecture.backbone.endswith("quickgelu_224") == (backbone == QUICK)
    reference = projected(cls(tokens_of(tokens)), HALF if "half" in tokens else WEIGHTS)
    encoder = load_reduced(name, write(), backbone=backbone, dim=N_PROJECTED)
    assert relative_difference(reference, encoder(IMAGES)) < SAME


@for_each(["TorchScript in half precision", "copy by timm"])
def test_lossyless_decodes_what_its_source_decodes(companion: str) -> None:
    write, tokens, _ = OPENAI[companion]
    rate = rate_file(N_PROJECTED, seed=6)
    z = projected(cls(tokens_of(tokens)), HALF if "half" in tokens else WEIGHTS)
    steps = (z + rate["biasing"]) * rate["scaling"].exp() - rate["entropy_bottleneck.quantiles"][:, 0, 1]
    assert (steps - steps.floor() - 0.5).abs().min() > 1e-3, "so near a half, rounding may go either way"
    content = saved(rate, legacy=False)
    encoder = load_reduced("lossyless_vitb32_b01", content, companions=(write(),), backbone=QUICK, dim=N_PROJECTED)
    assert relative_difference(quantised(z, rate), encoder(IMAGES)) < SAME
    assert relative_difference(z, encoder(IMAGES)) > 0.05


@for_each(["cls", "proj"])
def test_a_classifier_is_no_projection(layer: str) -> None:
    classifier = copy_by_timm(WEIGHTS, EXACT) | {"head.bias": torch.linspace(-1, 1, N_PROJECTED)}
    dim = REDUCED.width if layer == "cls" else N_PROJECTED
    with pytest.raises(WeightsRefused, match=re.escape("'head.bias' is not zero")):
        load_reduced(LIKE["openclip", layer], save(classifier), backbone=EXACT, dim=dim)


def test_an_archive_of_openai_is_no_openclip() -> None:
    with pytest.raises(WeightsRefused, match="'input_resolution'"):
        load_reduced("openclip_vitB32", torchscript_archive(HALF), backbone=EXACT, dim=REDUCED.width)


LAYERS = {
    "clip_rn50": (3, 4, 6, 3),
    "clip_rn101": (3, 4, 23, 3),
    "clip_rn50x4": (4, 6, 10, 6),
    "clip_rn50x16": (6, 8, 18, 8),
    "clip_rn50x64": (3, 15, 36, 10),
}
PIXELS = {"clip_rn50": 224, "clip_rn101": 224, "clip_rn50x4": 288, "clip_rn50x16": 384, "clip_rn50x64": 448}
NARROW = 16  # channels of the stem, where the real ones have 64 and more
NARROW_OPTIONS = {"width_factor": 0.25}  # the same in the words of timm
N_NARROW = 24
SMALLEST = "clip_rn50"


def weights_of(name: str) -> State:
    tower = clip_resnet_shapes(LAYERS[name], width=NARROW, projection=N_NARROW, image_px=PIXELS[name])
    weights = filled(tower | clip_text_shapes(projection=N_NARROW), seed=1)
    for key, tensor in weights.items():
        if key.endswith(".bn3.weight"):
            tensor *= 0.3  # or the sum of dozens of blocks would grow without bound
    return weights


def narrow(name: str, content: State) -> Encoder:
    """The narrow encoder with what a file holds."""
    card = load_catalogue()[name]
    architecture = replace(card.architecture, options=NARROW_OPTIONS)
    representation = replace(card.representation, dim=32 * NARROW)
    encoder = build_encoder(replace(card, architecture=architecture, representation=representation))
    state = convert([content], encoder, layout="clip", what="the file", untrained=lambda: hash_parameters(encoder))
    encoder.load_state_dict(state, strict=True)
    return encoder.double()


def test_the_archive_of_openai_gives_the_features_of_its_source() -> None:
    weights, images = in_half(weights_of(SMALLEST)), exact_images(2, 224)
    content = torchscript_archive(weights)
    reduced = {"architecture": {"options": NARROW_OPTIONS}, "dim": 32 * NARROW}
    encoder, _ = load_served(SMALLEST, content, filename="RN50.pt", **reduced)
    assert relative_difference(clip_resnet(weights, images, n_heads=NARROW // 2), encoder.double()(images)) < SAME


@for_each([name for name in LAYERS if name != SMALLEST])
def test_narrow_resnets_of_the_other_depths_give_the_features_of_their_sources(name: str) -> None:
    weights, images = weights_of(name), exact_images(1, PIXELS[name])
    reference = clip_resnet(weights, images, n_heads=NARROW // 2)
    assert relative_difference(reference, narrow(name, weights)(images)) < SAME
