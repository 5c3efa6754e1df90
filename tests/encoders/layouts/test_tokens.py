"""Transformers under names of their own: files as their sources write them give the features of their sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from safetensors.torch import save

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources import in_double, saved
from tests.sources.vit_dialects import (
    Kind,
    State,
    as_aim,
    as_capi,
    as_data2vec2,
    as_dinov2,
    as_mmpretrain,
    as_radio,
    as_refiner,
    as_swag,
    as_transformers,
    capi_tokens,
    clip_tokens,
    dinov3_tokens,
    shapes_of,
    tokens,
    vjepa21_tokens,
    weights_of,
)
from tests.sources.vit_forward import affine, beit, cls, layer_norm
from tests.sources.vit_names import Size, beit_shapes, filled, norm_shapes
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import Encoder
from zoo.encoders.layouts import get_layout
from zoo.encoders.layouts.steps import Misfit
from zoo.errors import QueryError, WeightsRefused

SIZE = Size(64, 4, 4, 16, image_px=64)
GATED = replace(SIZE, mlp_width=176)  # 4 * 64 * 2 / 3, rounded up to a multiple of 8
PLAIN = Kind()
IMAGES = exact_images(2, SIZE.image_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How a source writes a network, the card that reads such files, and the network in timm's words."""

    like: str
    write: Callable[[State], Any]
    kind: Kind = PLAIN
    backbone: str = "timm:vit_small_patch16_224"
    options: dict[str, Any] = field(default_factory=dict)
    average: bool = False


def beside(state: State, name: str) -> State:
    return state | {name: torch.ones(2)}


DINOV2 = "timm:vit_giant_patch14_dinov2"
REGISTERS = Kind(n_registers=4, has_scales=True, is_gated=True)
SOURCES = {
    "Web-SSL": Source(
        like="webssl_dino1b_full2b_224",
        kind=Kind(has_scales=True, is_gated=True),
        write=lambda w: as_dinov2(w, chunk=2, is_gated=True),
        backbone=DINOV2,
        options={"mlp_ratio": 5.5},
    ),
    "Franca, with its heads": Source(
        like="franca_vitL14_in21k",
        kind=Kind(has_scales=True, is_gated=True),
        write=lambda w: {
            "teacher": {
                f"module.{name}": tensor
                for name, tensor in beside(
                    {f"backbone.{name}": each for name, each in as_dinov2(w, chunk=4, is_gated=True).items()},
                    "ibot_head.last_layer.weight",
                ).items()
            }
        },
        backbone=DINOV2,
        options={"mlp_ratio": 5.5},
    ),
    "DUNE, whose last norm was not trained": Source(
        like="dune_vitB14_336",
        kind=Kind(n_registers=4, has_scales=True, norms_last=False),
        write=lambda w: {
            "model": beside(
                {f"module.encoder.{name}": each for name, each in as_dinov2(w, chunk=4, is_gated=False).items()},
                "module.projectors.dino2.layer.weight",
            )
            | {"module.encoder.norm.weight": torch.ones(64), "module.encoder.norm.bias": torch.zeros(64)}
        },
        backbone="timm:vit_base_patch14_reg4_dinov2",
        options={"final_norm": False},
    ),
    "Hibou": Source(
        like="hibou_vitB14",
        kind=REGISTERS,
        write=lambda w: as_transformers(w, dinov2=True) | {"embeddings.mask_token": torch.ones(1, 64)},
        backbone="timm:vit_giant_patch14_reg4_dinov2",
        options={"mlp_ratio": 5.5},
    ),
    "Phikon": Source(
        like="phikon_vitB16",
        write=lambda w: beside(as_transformers(w, dinov2=False), "pooler.dense.weight"),
    ),
    "Theia, without class token": Source(
        like="theia_vitS16_cdiv",
        kind=Kind(has_class_token=False),
        write=lambda w: beside(
            {f"backbone.model.{name}": each for name, each in as_transformers(w, dinov2=False).items()},
            "translator.backbone_adapter.weight",
        ),
        options={"class_token": False},
        average=True,
    ),
    "MMPretrain": Source(like="mff_vitB16_ep800_mm", write=as_mmpretrain),
    "SWAG": Source(like="swag_vitB16", write=as_swag),
    "MIM-Refiner": Source(
        like="mimrefiner_mae_vitL16",
        kind=Kind(has_class_position=False),
        write=as_refiner,
        options={"no_embed_class": True},
    ),
    "AIM": Source(
        like="aim_600M14_dfn2b",
        kind=Kind(has_class_token=False, has_biases=False, norms_patches=True, positions=False),
        write=as_aim,
        options={"class_token": False, "qkv_bias": False, "proj_bias": False, "embed_norm_layer": "layernorm"},
        average=True,
    ),
    "lightly's iBOT": Source(
        like="ibot_vits16_ep100_lightly",
        kind=Kind(has_scales=True),
        write=lambda w: {
            "state_dict": beside({f"teacher_backbone.vit.{name}": each for name, each in w.items()}, "criterion.center")
            | {f"student_backbone.vit.{name}": torch.zeros_like(each) for name, each in w.items()}
            | {"teacher_backbone.mask_token": torch.ones(1, 1, 64)}
        },
        options={"init_values": 1e-5},
    ),
    "lightly's LeJEPA": Source(
        like="lejepa_vits16_ep100_lightly",
        write=lambda w: {"state_dict": {f"backbone.{name}": each for name, each in w.items()}},
    ),
    "MoBY": Source(
        like="moby_vits16_ep300",
        write=lambda w: {
            "model": beside({f"encoder.{name}": each for name, each in w.items()}, "queue1")
            | {f"encoder_k.{name}": torch.zeros_like(each) for name, each in w.items()}
        },
    ),
}


def load_reduced(source: Source, content: Any, *, size: Size) -> Encoder:
    options = {
        "embed_dim": size.width,
        "depth": size.depth,
        "num_heads": size.n_heads,
        "patch_size": size.patch_px,
        "img_size": size.image_px,
    }
    is_safe = load_catalogue()[source.like].weights.format == "safetensors"
    encoder, _ = load_served(
        source.like,
        save(content) if is_safe else saved(content, legacy=False),
        filename="model.safetensors" if is_safe else "checkpoint.pth",
        architecture={"backbone": source.backbone, "options": options | source.options},
        dim=size.width,
        crop_px=size.image_px,
    )
    return encoder.double()


@for_each(SOURCES)
def test_every_file_of_a_source_gives_the_features_of_its_source(name: str) -> None:
    source = SOURCES[name]
    size = GATED if source.kind.is_gated else SIZE
    weights = weights_of(source.kind, size, seed=1)
    content = source.write(weights)
    if isinstance(content, dict) and load_catalogue()[source.like].weights.format == "safetensors":
        content = {key: tensor.contiguous().clone() for key, tensor in content.items()}
    expected = tokens(weights, IMAGES, source.kind, n_heads=size.n_heads)
    features = load_reduced(source, content, size=size)(IMAGES)
    n_before = source.kind.has_class_token + source.kind.n_registers
    tolerance = SAME if source.kind.positions else 1e-6  # sines and cosines that are computed are of single precision
    assert (
        relative_difference(expected[:, n_before:].mean(1) if source.average else expected[:, 0], features) < tolerance
    )


POST_NORM = Kind(has_class_position=False, norms_first=True, norms_last=False, is_post_norm=True)


@for_each(
    [
        ("data2vec2_vitB16", lambda weights: as_data2vec2(weights, n_first=2)),
        ("data2vec2_vitL16", lambda weights: as_data2vec2(weights, n_first=0)),
        ("mimrefiner_d2v2_vitL16", as_refiner),
    ],
    arguments=2,
)
def test_norms_after_the_branches_give_the_features_of_data2vec_2(like: str, write: Callable[[State], Any]) -> None:
    weights = weights_of(POST_NORM, SIZE, seed=2)
    source = Source(like=like, write=write, backbone="zoo:vit_post_norm", options={"size": "base"})
    features = load_reduced(source, write(weights), size=SIZE)(IMAGES)
    expected = tokens(weights, IMAGES, POST_NORM, n_heads=SIZE.n_heads)[:, 0]
    assert relative_difference(expected, features) < SAME
    norms_before = tokens(weights, IMAGES, replace(POST_NORM, is_post_norm=False), n_heads=SIZE.n_heads)[:, 0]
    assert relative_difference(norms_before, expected) > 0.3


def test_a_fine_tuned_data2vec_2_gives_the_normed_average_of_its_source() -> None:
    weights = weights_of(POST_NORM, SIZE, seed=2)
    norm = filled(norm_shapes("fc_norm", SIZE.width), seed=3)
    student = {name: each for name, each in as_data2vec2(weights, n_first=0)["model"].items() if name != "_ema"}
    content = {"model": {f"model.{name}": each for name, each in student.items()} | norm | {"head.bias": torch.ones(2)}}
    source = Source(
        like="data2vec2_vitB16_ft1k",
        write=lambda state: state,
        backbone="zoo:vit_post_norm",
        options={"size": "base", "is_finetuned": True},
    )
    average = tokens(weights, IMAGES, POST_NORM, n_heads=SIZE.n_heads)[:, 1:].mean(1)
    expected = layer_norm(average, affine(in_double(norm), "fc_norm"), eps=1e-6)
    assert relative_difference(expected, load_reduced(source, content, size=SIZE)(IMAGES)) < SAME


def test_an_image_is_shown_to_vjepa_as_a_clip_of_equal_frames() -> None:
    size = replace(SIZE, depth=3)
    shapes = shapes_of(Kind(has_class_token=False, has_class_position=False), size)
    shapes["patch_embed.proj.weight"] = (size.width, 3, 2, 16, 16)
    shapes["pos_embed"] = (1, 2 * size.side**2, size.width)
    weights, other = filled(shapes, seed=4), filled(shapes, seed=5)
    content = {
        "encoder": {f"module.backbone.{name}": tensor for name, tensor in other.items()},
        "target_encoder": {f"module.backbone.{name}": tensor for name, tensor in weights.items()},
    }
    source = Source(
        like="vjepa_vitL16_224",
        write=lambda state: state,
        backbone="zoo:vit_of_clips",
        options={"name": "vit_large_patch16_224", "n_frames": 4, "n_in_tubelet": 2},
    )
    expected = clip_tokens(weights, IMAGES, n_heads=size.n_heads, n_frames=4).mean(1)
    assert relative_difference(expected, load_reduced(source, content, size=size)(IMAGES)) < SAME


@for_each([("vjepa2_1_vitB16_384", "ema_encoder"), ("vjepa2_1_vitg16_384", "target_encoder")], arguments=2)
def test_an_image_is_one_frame_for_vjepa_2_1(like: str, key: str) -> None:
    size = Size(128, 3, 2, 16, image_px=64)  # heads of 64 channels
    shapes = shapes_of(Kind(has_class_token=False, positions=False, norms_last=False), size)
    kernel = shapes.pop("patch_embed.proj.weight")
    shapes |= {"patch_embed.proj.weight": (128, 3, 2, 16, 16), "patch_embed_img.proj.weight": (128, 3, 1, *kernel[2:])}
    shapes |= {"patch_embed_img.proj.bias": (128,), "img_mod_embed": (1, 1, 128), "video_mod_embed": (1, 1, 128)}
    for number in range(4):
        shapes |= norm_shapes(f"norms_block.{number}", 128)
    weights, other = filled(shapes, seed=4), filled(shapes, seed=5)
    content = {"encoder": {f"module.backbone.{name}": tensor for name, tensor in other.items()}, "epoch": 3}
    content[key] = {f"module.backbone.{name}": tensor for name, tensor in weights.items()}
    options = {"name": "vit_base_patch16_224"}
    source = Source(like=like, write=lambda state: state, backbone="zoo:vjepa21", options=options)
    expected = vjepa21_tokens(weights, IMAGES, n_heads=size.n_heads).mean(1)
    assert relative_difference(expected, load_reduced(source, content, size=size)(IMAGES)) < 1e-6  # angles are single


def test_a_vjepa_2_1_without_patches_of_images_and_a_pixio_without_class_tokens_are_refused() -> None:
    with pytest.raises(Misfit, match=r"'patch_embed_img\.proj\.bias' is missing"):
        get_layout("vjepa").convert({"ema_encoder": {"img_mod_embed": torch.ones(1, 1, 64)}}, target={})
    with pytest.raises(Misfit, match="'cls_token' is missing or no row of tokens"):
        get_layout("pixio").convert({"cls_token": torch.ones(64)}, target={})


def test_pixio_pools_the_mean_of_eight_class_tokens_that_have_positions() -> None:
    kind = Kind(n_registers=7, has_class_position=False)
    weights = weights_of(kind, SIZE, seed=8)
    positions = filled({"of_classes": (1, 8, SIZE.width)}, seed=9)["of_classes"]
    content = {name: tensor for name, tensor in weights.items() if name != "reg_token"}
    content["cls_token"] = torch.cat((weights["cls_token"], weights["reg_token"]), dim=1)
    content["pos_embed"] = torch.cat((positions, weights["pos_embed"]), dim=1)
    source = Source(like="pixio_vitB16", write=lambda state: state, backbone="zoo:pixio")
    weights["cls_token"] = weights["cls_token"] + positions[:, :1].double()
    weights["reg_token"] = weights["reg_token"] + positions[:, 1:].double()
    expected = tokens(weights, IMAGES, kind, n_heads=SIZE.n_heads)[:, :8].mean(1)
    assert relative_difference(expected, load_reduced(source, content, size=SIZE)(IMAGES)) < SAME


@for_each([("dinov3_vitT16_lightly", False), ("dinov3_vitT16_lightly_v2", True)], arguments=2)
def test_a_network_of_dinov3_by_lightly_gives_its_class_token_or_the_mean_of_its_patches(
    like: str, is_average: bool
) -> None:
    shapes = shapes_of(Kind(n_registers=4, has_scales=True, positions=False), SIZE)
    shapes["storage_tokens"] = shapes.pop("reg_token")
    weights = filled(shapes, seed=10)
    beside = {"rope_embed.periods": torch.ones(4), "mask_token": torch.ones(1, 64)}
    beside |= {f"blocks.{number}.attn.qkv.bias_mask": torch.full((192,), torch.nan) for number in range(SIZE.depth)}
    source = Source(like=like, write=lambda state: state, backbone="timm:vit_tiny_patch16_dinov3_qkvb")
    features = load_reduced(source, weights | beside, size=SIZE)(IMAGES)
    expected = dinov3_tokens(weights, IMAGES, n_heads=SIZE.n_heads)
    assert relative_difference(expected[:, 5:].mean(1) if is_average else expected[:, 0], features) < 1e-6


def test_radio_has_several_class_tokens_and_positions_of_a_larger_image() -> None:
    kind = Kind(n_registers=7, has_class_position=False, norms_last=False)
    weights = weights_of(kind, SIZE, seed=7)
    weights["patch_embed.proj.bias"] = torch.zeros_like(weights["patch_embed.proj.bias"])
    source = Source(
        like="radio_v2_5_vitB16",
        write=lambda state: as_radio(state, side=4 * SIZE.side),
        backbone="zoo:vit_without_patch_bias",
        options={"name": "vit_base_patch16_224", "reg_tokens": 7, "no_embed_class": True, "final_norm": False},
    )
    content = source.write(weights)
    features = load_reduced(source, content, size=SIZE)(IMAGES)
    assert relative_difference(tokens(weights, IMAGES, kind, n_heads=SIZE.n_heads)[:, 0], features) < SAME
    content["state_dict"]["base_model.patch_generator.cls_token.token"] = torch.ones(9, SIZE.width)
    with pytest.raises(WeightsRefused, match="reg_token"):
        load_reduced(source, content, size=SIZE)


@for_each(
    [
        ("cls_token.token", None, r"'base_model\.patch_generator\.cls_token\.token' is missing"),
        ("pos_embed", torch.ones(1, 15, 64), "found 15 positions, expected those of a square"),
    ],
    arguments=3,
)
def test_a_radio_without_a_part_or_of_another_form_is_refused(name: str, tensor: Any, message: str) -> None:
    weights = weights_of(Kind(n_registers=7, has_class_position=False, norms_last=False), SIZE, seed=7)
    content = as_radio(weights, side=SIZE.side)
    part = f"base_model.patch_generator.{name}"
    del content["state_dict"][part]
    content["state_dict"] |= {} if tensor is None else {part: tensor}
    target = {"patch_embed.proj.weight": weights["patch_embed.proj.weight"], "pos_embed": weights["pos_embed"]}
    with pytest.raises(Misfit, match=message):
        get_layout("radio").convert(content, target=target)


def capi_shapes(size: Size) -> dict[str, tuple[int, ...]]:
    shapes = shapes_of(Kind(has_class_token=False, n_registers=16, has_biases=False, positions=False), size)
    return {
        name: shape for name, shape in shapes.items() if "norm" not in name or name.endswith(("1.weight", "2.weight"))
    }


def test_capi_turns_patches_and_registers_as_its_source_does() -> None:
    size = replace(SIZE, depth=3)
    weights = filled(capi_shapes(size), seed=6)
    source = Source(like="capi_vitL14_in1k", write=as_capi, backbone="zoo:capi")
    features = load_reduced(source, as_capi(weights), size=size)(IMAGES)
    expected = capi_tokens(weights, IMAGES, n_heads=size.n_heads)[:, 16:].mean(1)
    assert relative_difference(expected, features) < 1e-6  # angles are computed in single precision


def test_other_rates_of_rotary_positions_than_capis_are_refused() -> None:
    content = as_capi(filled(capi_shapes(SIZE), seed=6)) | {
        "backbone.encoder.blocks.0.residual1.fn.rope.freqs": torch.ones(2, 16)
    }
    with pytest.raises(Misfit, match="has other rates than CAPI's rotary positions"):
        get_layout("capi").convert(content, target={})


def test_capi_refuses_an_image_that_is_no_square() -> None:
    encoder = load_reduced(
        Source(like="capi_vitL14_in1k", write=as_capi, backbone="zoo:capi", options={"dynamic_img_size": True}),
        as_capi(filled(capi_shapes(SIZE), seed=6)),
        size=SIZE,
    )
    with pytest.raises(QueryError, match="was given 8 patches, expected those of a square image"):
        encoder(torch.zeros(1, 3, 32, 64, dtype=torch.float64))


@for_each(["simmim_vitB16_ep800", "beit_vitb16_ep300_mm", "data2vec_vitB16"])
def test_a_table_of_positions_for_all_blocks_is_read_as_beits_is(like: str) -> None:
    size = replace(SIZE, depth=3)
    shapes = beit_shapes(size, version=1)
    weights = filled({name: shape for name, shape in shapes.items() if not name.startswith("lm_head.")}, seed=3)
    match like.partition("_")[0]:
        case "simmim":
            content: Any = {"model": {f"encoder.{name}": tensor for name, tensor in weights.items()}}
        case "beit":
            content = as_mmpretrain(weights)
        case _:
            content = as_data2vec(weights)
    source = Source(like=like, write=lambda state: state, backbone="timm:beit_base_patch16_224")
    features = load_reduced(source, content, size=size)(IMAGES)
    expected = beit(weights, IMAGES, n_heads=size.n_heads)[-1]
    is_class_token = load_catalogue()[like].representation.layer == "cls"
    assert relative_difference(cls([expected]) if is_class_token else expected[:, 1:].mean(1), features) < SAME


def as_data2vec(weights: State) -> State:
    """The Hub's copy: queries, keys and values apart, and no bias of the keys."""
    fused = {}
    for name, tensor in weights.items():
        if name.endswith(("attn.q_bias", "attn.v_bias")):
            word = "query" if "q_bias" in name else "value"
            fused[name.replace(f"attn.{name[-6]}_bias", f"attention.attention.{word}.bias")] = tensor
        elif "gamma_" in name:
            fused[name.replace("gamma_", "lambda_")] = tensor
        else:
            fused[name] = tensor
    state = as_transformers({name: tensor for name, tensor in fused.items() if name != "mask_token"}, dinov2=False)
    return {name.replace("rel_pos_bias.", "encoder.relative_position_bias."): each for name, each in state.items()}


def test_eva_is_half_precision_and_its_classifier_and_decoder_are_left_out() -> None:
    layout = get_layout("eva")
    state = {"norm.weight": torch.ones(2), "head.weight": torch.ones(1), "decoder_embed.weight": torch.ones(1)}
    assert layout.half
    assert layout.convert({"module": state | {"lm_head.weight": torch.ones(1)}}, target={}).keys() == {"norm.weight"}


def test_queries_without_keys_or_values_are_refused() -> None:
    state = as_transformers(weights_of(PLAIN, SIZE, seed=1), dinov2=False)
    del state["encoder.layer.2.attention.attention.value.weight"]
    with pytest.raises(Misfit, match=r"weight of the values of 'blocks\.2' is missing"):
        get_layout("transformers_vit").convert(state, target={})


def test_positions_of_patches_that_are_no_square_are_refused() -> None:
    with pytest.raises(Misfit, match="found positions for 15 patches of 64 channels, expected a square"):
        get_layout("aim").convert({"norm": torch.ones(1)}, target={"pos_embed": torch.empty(1, 15, 64)})
