"""Files of transformers and of CLIP that are not exactly what they must be: refused, and the message names why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.each import for_each
from tests.sources.clip_checkpoints import (
    clip_resnet_shapes,
    clip_text_shapes,
    clip_vit_shapes,
    openclip_training,
    rate_file,
)
from tests.sources.vit_checkpoints import dino_training, mocov3_training, msn_training, mugs_training, under
from tests.sources.vit_names import Size, State, beit_shapes, filled, vit_shapes
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, get_layout, hash_parameters
from zoo.errors import WeightsRefused

SIZE = Size(32, 4, 4, 16, image_px=32)
PROJECTED = 24
ENCODER = {"embed_dim": 32, "depth": 4, "num_heads": 4, "patch_size": 16, "img_size": 32}
PLAIN = "blocks.2.mlp.fc1.weight"
OF_CLIP = "visual.transformer.resblocks.2.mlp.c_fc.weight"
OF_CLIPS_RESNET = "visual.layer3.0.conv1.weight"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, where in it the network is, and one tensor of it under the source's and under the encoder's name."""

    like: str
    contents: Callable[[], list[Any]]
    path: tuple[str, ...] = ()
    prefix: str = ""
    source: str = PLAIN
    name: str = PLAIN
    which: int = 0
    options: tuple[tuple[str, Any], ...] = tuple(ENCODER.items())

    def state(self, contents: list[Any]) -> dict[str, Tensor]:
        """The innermost dictionary, to be changed in place."""
        state = contents[self.which]
        for key in self.path:
            state = state[key]
        return state

    @property
    def key(self) -> str:
        return self.prefix + self.source


def plain() -> State:
    return filled(vit_shapes(SIZE), seed=1)


def clip() -> State:
    return filled(clip_vit_shapes(SIZE, projection=PROJECTED) | clip_text_shapes(projection=PROJECTED), seed=1)


def resnet_of_clip() -> State:
    shapes = clip_resnet_shapes((3, 4, 6, 3), width=16, projection=PROJECTED, image_px=224)
    return filled(shapes | clip_text_shapes(projection=PROJECTED), seed=1)


SAMPLES = {
    "dino": Sample("dino_vitS16_last", lambda: [plain()]),
    "dino, training": Sample(
        "dino_vitS16_last",
        lambda: [dino_training(plain(), plain(), width=32, batch_norm=True)],
        ("teacher",),
        "module.backbone.",
    ),
    "ibot": Sample("ibot_vitS16", lambda: [{"state_dict": plain()}], ("state_dict",)),
    "mugs": Sample("mugs_vits16_ep100", lambda: [mugs_training(plain(), plain(), width=32)], ("teacher",), "backbone."),
    "mae": Sample("mae_vitB16", lambda: [{"model": plain()}], ("model",)),
    "msn": Sample(
        "msn_vits16_ep800",
        lambda: [msn_training(plain(), plain(), width=32)],
        ("target_encoder",),
        "module.",
    ),
    "mocov3": Sample(
        "mocov3_vitS_ep300",
        lambda: [mocov3_training(plain(), plain(), width=32)],
        ("state_dict",),
        "module.base_encoder.",
    ),
    "beit": Sample("beit_vitB16_pt22k", lambda: [{"model": filled(beit_shapes(SIZE, version=1), seed=1)}], ("model",)),
    "clip": Sample("clip_vitB32", lambda: [clip()], source=OF_CLIP),
    "clip, resnet": Sample(
        "clip_rn50",
        lambda: [resnet_of_clip()],
        source=OF_CLIPS_RESNET,
        name="stages.2.0.conv1_1x1.conv.weight",
        options=(("width_factor", 0.25),),
    ),
    "openclip": Sample(
        "openclip_vitH14_extractPred",
        lambda: [openclip_training(clip())],
        ("state_dict",),
        "module.",
        source=OF_CLIP,
    ),
    "lossyless": Sample(
        "lossyless_vitb32_b01",
        lambda: [rate_file(PROJECTED, seed=1), clip()],
        source="scaling",
        name="pooling.scaling",
    ),
    "lossyless, companion": Sample(
        "lossyless_vitb32_b01",
        lambda: [rate_file(PROJECTED, seed=1), clip()],
        source=OF_CLIP,
        which=1,
    ),
}
DIMS = {"clip_rn50": 512, "openclip_vitH14_extractPred": PROJECTED, "lossyless_vitb32_b01": PROJECTED}


@cache
def encoder_for(like: str, options: tuple[tuple[str, Any], ...]) -> Encoder:
    card = load_catalogue()[like]
    architecture = replace(card.architecture, options=dict(options))
    representation = replace(card.representation, dim=DIMS.get(like, 32))
    return build_encoder(replace(card, architecture=architecture, representation=representation))


def converted(sample: Sample, contents: list[Any]) -> State:
    encoder = encoder_for(sample.like, sample.options)
    layout = str(load_catalogue()[sample.like].weights.converter)
    return convert(contents, encoder, layout=layout, what="the sample", untrained=lambda: hash_parameters(encoder))


def initial_of(sample: Sample) -> Tensor:
    state = encoder_for(sample.like, sample.options).state_dict()
    return state[sample.name if sample.name in state else f"backbone.{sample.name}"]


EVERY_SAMPLE = for_each(SAMPLES.values(), name=lambda sample: f"{sample.like} {sample.prefix}{sample.which}")


@EVERY_SAMPLE
def test_a_sample_is_taken_and_one_with_tensors_missing_or_too_many_is_not(sample: Sample) -> None:
    contents = sample.contents()
    state = converted(sample, contents)
    assert state.keys() == encoder_for(sample.like, sample.options).state_dict().keys()
    pointers = [tensor.data_ptr() for tensor in state.values() if tensor.numel() > 1]
    assert len(set(pointers)) == len(pointers)
    inner, last = sample.state(contents), sample.source.rpartition(".")[2]
    for surplus in (sample.key.removesuffix(last) + "surplus", "surplus", "module.surplus", "backbone.surplus"):
        inner[surplus] = torch.zeros(3)
        with pytest.raises(WeightsRefused, match=r"surplus|expected names that start with 'module\.'"):
            converted(sample, contents)
        del inner[surplus]
    del inner[sample.key]
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' is missing"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_half_precision_is_widened_where_its_source_releases_it_and_refused_elsewhere(sample: Sample) -> None:
    contents = sample.contents()
    state = sample.state(contents)
    state[sample.key] = state[sample.key].half()
    if get_layout(str(load_catalogue()[sample.like].weights.converter)).half:
        widened = converted(sample, contents)
        name = sample.name if sample.name.startswith("pooling.") else f"backbone.{sample.name}"
        assert torch.equal(widened[name], state[sample.key].float())
    else:
        with pytest.raises(WeightsRefused, match=f"'{sample.name}' is float16, expected float32"):
            converted(sample, contents)


@EVERY_SAMPLE
def test_another_network_or_no_network_is_refused(sample: Sample) -> None:
    others: list[Any] = [{"epoch": 3}, {"model_state": plain()}, [plain()], {}, under("trunk.", plain())]
    for content in others:
        contents = sample.contents()
        contents[sample.which] = content
        with pytest.raises(WeightsRefused, match="do not fit"):
            converted(sample, contents)


def nan(tensor: Tensor) -> Tensor:
    wrong = tensor.clone()
    wrong.view(-1)[3] = torch.nan
    return wrong


CHANGES: list[tuple[str, str, Any, str]] = [  # sample, tensor, what it becomes (None: it goes), and what is said
    ("mae", PLAIN, lambda t: torch.cat((t, t)), f"'{PLAIN}' has shape"),
    ("mae", PLAIN, Tensor.double, f"'{PLAIN}' is float64, expected float32"),
    ("mae", PLAIN, nan, f"'{PLAIN}' has 1 numbers of"),
    ("mae", PLAIN, lambda t: t / 0, f"'{PLAIN}' has .* not finite"),
    ("mae", "fc_norm.bias", lambda t: torch.ones(32), r"'fc_norm\.bias' is left over"),
    ("msn", "norm.weight", lambda t: torch.ones(32), r"'norm\.weight'"),
    ("lossyless", "entropy_bottleneck.quantiles", lambda t: torch.zeros(PROJECTED, 3), "lower, median and upper"),
    ("clip", "visual.proj", None, r"'visual\.proj' is missing"),
]


@for_each(CHANGES, arguments=4)
def test_a_tensor_that_cannot_be_of_the_network_is_named(name: str, key: str, change: Any, said: str) -> None:
    contents = SAMPLES[name].contents()
    state = SAMPLES[name].state(contents)
    tensor = state.pop(key, None)
    if change is not None:
        state[key] = change(tensor)
    with pytest.raises(WeightsRefused, match=said):
        converted(SAMPLES[name], contents)


def test_a_tensor_as_it_was_before_training_is_refused() -> None:
    contents = SAMPLES["mae"].contents()
    SAMPLES["mae"].state(contents)[PLAIN] = initial_of(SAMPLES["mae"]).clone()
    with pytest.raises(WeightsRefused, match=f"'{PLAIN}' is as it was before training"):
        converted(SAMPLES["mae"], contents)
