"""Files of transformers and of CLIP that are not exactly what they must be: refused, and the message names why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.sources.vit_checkpoints import dino_training, mocov3_training, msn_training, mugs_training
from tests.sources.vit_names import Size, State, beit_shapes, filled, vit_shapes
from zoo.cards.catalogue import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, fingerprints, layout_named
from zoo.errors import WeightsRefused

SIZE = Size(32, 4, 4, 16, image_px=32)
PROJECTED = 24
ENCODER = {"embed_dim": 32, "depth": 4, "num_heads": 4, "patch_size": 16, "img_size": 32}
PLAIN = "blocks.2.mlp.fc1.weight"
OF_CLIP = "visual.transformer.resblocks.2.mlp.c_fc.weight"
OF_CLIPS_RESNET = "visual.layer3.0.conv1.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
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
    "dino": Sample(like="dino_vitS16_last", contents=lambda: [plain()]),
    "dino, training": Sample(
        like="dino_vitS16_last",
        contents=lambda: [dino_training(plain(), plain(), width=32, batch_norm=True)],
        path=("teacher",),
        prefix="module.backbone.",
    ),
    "ibot": Sample(like="ibot_vitS16", contents=lambda: [{"state_dict": plain()}], path=("state_dict",)),
    "mugs": Sample(
        like="mugs_vits16_ep100",
        contents=lambda: [mugs_training(plain(), plain(), width=32)],
        path=("teacher",),
        prefix="backbone.",
    ),
    "mae": Sample(like="mae_vitB16", contents=lambda: [{"model": plain()}], path=("model",)),
    "msn": Sample(
        like="msn_vits16_ep800",
        contents=lambda: [msn_training(plain(), plain(), width=32)],
        path=("target_encoder",),
        prefix="module.",
    ),
    "mocov3": Sample(
        like="mocov3_vitS_ep300",
        contents=lambda: [mocov3_training(plain(), plain(), width=32)],
        path=("state_dict",),
        prefix="module.base_encoder.",
    ),
    "beit": Sample(
        like="beit_vitB16_pt22k",
        contents=lambda: [{"model": filled(beit_shapes(SIZE, version=1), seed=1)}],
        path=("model",),
    ),
    "clip": Sample(like="clip_vitB32", contents=lambda: [clip()], source=OF_CLIP),
    "clip, resnet": Sample(
        like="clip_rn50",
        contents=lambda: [resnet_of_clip()],
        source=OF_CLIPS_RESNET,
        name="stages.2.0.conv1_1x1.conv.weight",
        options=(("width_factor", 0.25),),
    ),
    "openclip": Sample(
        like="openclip_vitH14_extractPred",
        contents=lambda: [openclip_training(clip())],
        path=("state_dict",),
        prefix="module.",
        source=OF_CLIP,
    ),
    "lossyless": Sample(
        like="lossyless_vitb32_b01",
        contents=lambda: [rate_file(PROJECTED, seed=1), clip()],
        source="scaling",
        name="pooling.scaling",
    ),
    "lossyless, companion": Sample(
        like="lossyless_vitb32_b01",
        contents=lambda: [rate_file(PROJECTED, seed=1), clip()],
        source=OF_CLIP,
        which=1,
    ),
}
DIMS = {"clip_rn50": 512, "openclip_vitH14_extractPred": PROJECTED, "lossyless_vitb32_b01": PROJECTED}


@cache
def encoder_for(like: str, options: tuple[tuple[str, Any], ...]) -> Encoder:
    card = catalogue()[like]
    architecture = replace(card.architecture, options=dict(options))
    representation = replace(card.representation, dim=DIMS.get(like, 32))
    return build_encoder(replace(card, architecture=architecture, representation=representation))


def converted(sample: Sample, contents: list[Any]) -> State:
    encoder = encoder_for(sample.like, sample.options)
    layout = str(catalogue()[sample.like].weights.converter)
    return convert(contents, encoder, layout=layout, what="the sample", untrained=lambda: fingerprints(encoder))


def initial_of(sample: Sample) -> Tensor:
    state = encoder_for(sample.like, sample.options).state_dict()
    return state[sample.name if sample.name in state else f"backbone.{sample.name}"]


EVERY_SAMPLE = for_each(SAMPLES.values(), name=lambda sample: f"{sample.like} {sample.prefix}{sample.which}")


@EVERY_SAMPLE
def test_the_sample_itself_is_taken(sample: Sample) -> None:
    state = converted(sample, sample.contents())
    assert state.keys() == encoder_for(sample.like, sample.options).state_dict().keys()
    pointers = [tensor.data_ptr() for tensor in state.values() if tensor.numel() > 1]
    assert len(set(pointers)) == len(pointers)


@EVERY_SAMPLE
def test_a_missing_tensor_is_named(sample: Sample) -> None:
    contents = sample.contents()
    del sample.state(contents)[sample.key]
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' is missing"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_a_tensor_too_many_is_named(sample: Sample) -> None:
    contents = sample.contents()
    last = sample.source.rpartition(".")[2]
    sample.state(contents)[sample.key.removesuffix(last) + "surplus"] = torch.zeros(3)
    with pytest.raises(WeightsRefused, match="surplus"):
        converted(sample, contents)


@pytest.mark.parametrize("beside", ["surplus", "module.surplus", "backbone.surplus"])
@EVERY_SAMPLE
def test_a_tensor_beside_the_network_is_named(sample: Sample, beside: str) -> None:
    contents = sample.contents()
    sample.state(contents)[beside] = torch.zeros(3)
    with pytest.raises(WeightsRefused, match=r"surplus|expected names that start with 'module\.'"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_another_shape_is_named(sample: Sample) -> None:
    contents = sample.contents()
    state = sample.state(contents)
    state[sample.key] = torch.cat((state[sample.key], state[sample.key]))
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' has shape"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_double_precision_is_refused(sample: Sample) -> None:
    contents = sample.contents()
    state = sample.state(contents)
    state[sample.key] = state[sample.key].double()
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' is float64, expected float32"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_half_precision_is_widened_where_its_source_releases_it_and_refused_elsewhere(sample: Sample) -> None:
    contents = sample.contents()
    state = sample.state(contents)
    state[sample.key] = state[sample.key].half()
    if layout_named(str(catalogue()[sample.like].weights.converter)).half:
        widened = converted(sample, contents)
        name = sample.name if sample.name.startswith("pooling.") else f"backbone.{sample.name}"
        assert torch.equal(widened[name], state[sample.key].float())
    else:
        with pytest.raises(WeightsRefused, match=f"'{sample.name}' is float16, expected float32"):
            converted(sample, contents)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@EVERY_SAMPLE
def test_numbers_that_are_not_finite_are_refused(sample: Sample, number: float) -> None:
    contents = sample.contents()
    sample.state(contents)[sample.key].view(-1)[3] = number
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' has 1 numbers of"):
        converted(sample, contents)


@EVERY_SAMPLE
def test_a_tensor_as_it_was_before_training_is_refused(sample: Sample) -> None:
    contents = sample.contents()
    sample.state(contents)[sample.key] = initial_of(sample).clone()
    with pytest.raises(WeightsRefused, match=f"'{sample.name}' is as it was before training"):
        converted(sample, contents)


def other_nestings() -> Iterator[tuple[Any, str]]:
    yield {"epoch": 3}, "epoch"
    yield {"model_state": plain()}, "model_state"
    yield [plain()], "list"
    yield {}, "nothing|missing"
    yield {"trunk." + name: tensor for name, tensor in plain().items()}, "trunk"


@pytest.mark.parametrize(("content", "found"), list(other_nestings()))
@EVERY_SAMPLE
def test_a_file_that_is_laid_out_otherwise_is_refused_with_what_was_found(
    sample: Sample, content: Any, found: str
) -> None:
    contents = sample.contents()
    contents[sample.which] = content
    with pytest.raises(WeightsRefused, match=f"(?s)do not fit .*({found}|missing)"):
        converted(sample, contents)


def test_only_prefixes_that_all_names_have_are_taken_off() -> None:
    sample = SAMPLES["msn"]
    contents = sample.contents()
    state = sample.state(contents)
    state["norm.weight"] = state.pop("module.norm.weight")
    with pytest.raises(WeightsRefused, match=r"'norm\.weight'"):
        converted(sample, contents)


@pytest.mark.parametrize("names", ["fc_norm", "head"])
def test_a_fine_tuned_mae_is_refused(names: str) -> None:
    sample = SAMPLES["mae"]
    contents = sample.contents()
    sample.state(contents).update(filled({f"{names}.weight": (32,), f"{names}.bias": (32,)}, seed=2))
    with pytest.raises(WeightsRefused, match=rf"'{names}\.bias' is left over"):
        converted(sample, contents)


@pytest.mark.parametrize("shape", [(PROJECTED, 3), (PROJECTED, 1, 2)])
def test_quantiles_of_another_shape_have_no_medians(shape: tuple[int, ...]) -> None:
    sample = SAMPLES["lossyless"]
    contents = sample.contents()
    contents[0]["entropy_bottleneck.quantiles"] = torch.zeros(shape)
    with pytest.raises(WeightsRefused, match=r"expected lower, median and upper"):
        converted(sample, contents)


def test_clip_without_its_projection_is_refused_even_where_it_is_left_out() -> None:
    contents = SAMPLES["clip"].contents()
    del contents[0]["visual.proj"]
    with pytest.raises(WeightsRefused, match=r"'visual\.proj' is missing"):
        converted(SAMPLES["clip"], contents)
