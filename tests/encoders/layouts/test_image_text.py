"""Image towers that were trained with texts: files as their sources write them give the features of their sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import transformers
from safetensors.torch import load as read
from safetensors.torch import save
from torch import Tensor

from tests.each import for_each
from tests.encoder_checks import SAME, exact_images, relative_difference
from tests.encoders.layouts.served import load_served
from tests.sources import in_double, saved
from tests.sources.clip_checkpoints import clip_resnet, clip_resnet_shapes
from tests.sources.image_text import (
    TEXT,
    as_imagebind,
    as_multihead,
    as_openclip,
    as_perceiver,
    as_slip,
    as_tips,
    first_answer,
    musk,
    musk_file,
    musk_shapes,
    pooler_shapes,
    tanh_gelu,
)
from tests.sources.vit_dialects import Kind, State, tokens, weights_of
from tests.sources.vit_forward import affine, exact_gelu, layer_norm
from tests.sources.vit_names import Size, filled, linear_shapes
from zoo.encoders import Encoder
from zoo.errors import WeightsRefused

SIZE = Size(64, 2, 4, 16, image_px=64)
IMAGES = exact_images(2, SIZE.image_px)
OPTIONS = {"embed_dim": 64, "depth": 2, "num_heads": 4, "patch_size": 16, "img_size": 64}
PLAIN = "timm:vit_small_patch16_224"  # norms with an epsilon of 1e-6, as the forward here has them
N_POOLED = 32


def load(like: str, content: Any, *, backbone: str = PLAIN, dim: int = 64, px: int = 64, **options: Any) -> Encoder:
    """An encoder like a published one, reduced; ``content`` is what torch saves, or the bytes of another file."""
    content = content if isinstance(content, bytes) else saved(content, legacy=False)
    architecture = {"backbone": backbone, "options": options}
    return load_served(like, content, architecture=architecture, dim=dim, crop_px=px)[0].double()


def without_patch_bias(kind: Kind) -> State:
    return {name: each for name, each in weights_of(kind, SIZE, seed=1).items() if name != "patch_embed.proj.bias"}


@for_each(
    [("openvision_vitS16_224", exact_gelu, {}), ("clipa_vitL14_224_datacomp1b", tanh_gelu, {"act_layer": "gelu_tanh"})],
    arguments=3,
)
def test_the_average_before_the_norm_is_that_of_clipa_and_openvision(like: str, activation: Any, options: Any) -> None:
    kind = Kind(norms_last=False, activation=activation)
    weights = without_patch_bias(Kind(activation=activation))
    average = tokens(weights, IMAGES, kind, n_heads=4)[:, 1:].mean(1)
    expected = layer_norm(average, affine(in_double(weights), "norm"), eps=1e-6)
    content = as_openclip(weights, proj=torch.ones(64, 8))
    options = OPTIONS | {"name": PLAIN.removeprefix("timm:"), "global_pool": "avg"} | options
    encoder = load(like, content, backbone="zoo:vit_without_patch_bias", **options)
    assert relative_difference(expected, encoder(IMAGES)) < SAME
    with pytest.raises(WeightsRefused, match=r"patch_embed\.proj\.bias"):
        load(like, content | {"visual.conv1.bias": torch.ones(64)}, backbone="zoo:vit_without_patch_bias", **options)


def test_an_image_tower_alone_gives_the_average_after_the_norm_of_openvision_2() -> None:
    weights = without_patch_bias(Kind())
    tower = {name.removeprefix("visual."): each for name, each in as_openclip(weights, proj=torch.ones(64, 8)).items()}
    tower = {name: each for name, each in tower.items() if name not in TEXT}
    options = OPTIONS | {"name": PLAIN.removeprefix("timm:"), "global_pool": "avg", "fc_norm": False}
    encoder = load("openvision2_vitL14_224", tower, backbone="zoo:vit_without_patch_bias", **options)
    expected = tokens(weights, IMAGES, Kind(), n_heads=4)[:, 1:].mean(1)
    assert relative_difference(expected, encoder(IMAGES)) < SAME


@for_each(["openclip_coca_vitB32_laion2b", "conch_v1_vitB16", "conch_v1_5_vitL16"])
def test_the_answer_of_the_first_query_is_that_of_coca(like: str) -> None:
    is_openclip, is_newer = like.startswith("openclip"), like.startswith("conch_v1_5")
    kind = Kind(norms_first=is_openclip, norms_last=not is_openclip, has_scales=is_newer)
    weights = without_patch_bias(kind) if is_openclip else weights_of(kind, SIZE, seed=1)
    pooler = filled(pooler_shapes(64, N_POOLED, has_bias=not is_newer), seed=2)
    options = OPTIONS | {"pooled_dim": N_POOLED}
    if is_openclip:
        named = {f"attn_pool.{name}": each for name, each in as_multihead(pooler).items()}
        named = {name.replace("attn_pool.norm.", "ln_post."): each for name, each in named.items()}
        content = as_openclip(weights, proj=torch.ones(N_POOLED, 8), **named) | {"text_decoder.weight": torch.ones(1)}
        options |= {"name": "vit_base_patch16_clip_224", "norm_layer": "layernorm"}
    else:
        pooler["query"] = pooler["query"][:1]
        named = as_perceiver(pooler) if is_newer else as_multihead(pooler)
        tower = {f"trunk.{name}": each for name, each in weights.items()}
        tower |= {f"attn_pool_contrast.{name}": each for name, each in named.items()}
        tower = {name.replace("attn_pool_contrast.norm.", "ln_contrast."): each for name, each in tower.items()}
        beside = {"proj_contrast": torch.ones(1), "ln_caption.bias": torch.ones(1)}
        content = tower if is_newer else {f"visual.{name}": each for name, each in (tower | beside).items()} | TEXT
        options |= {"name": "vit_base_patch16_224", "final_norm": True}
        options |= {"has_bias": False, "init_values": 1.0} if is_newer else {}
    expected = first_answer(tokens(weights, IMAGES, kind, n_heads=4), pooler, n_heads=8)
    encoder = load(like, content, backbone="zoo:coca_vit", dim=N_POOLED, **options)
    assert relative_difference(expected, encoder(IMAGES)) < SAME


def test_positions_of_conch_1_5_are_enlarged_as_its_source_does_it() -> None:
    kind, twice = Kind(has_scales=True), exact_images(1, 128)
    weights, pooler = weights_of(kind, SIZE, seed=1), filled(pooler_shapes(64, N_POOLED, has_bias=False), seed=2)
    tower = {f"trunk.{name}": each for name, each in weights.items()}
    tower |= {
        f"attn_pool_contrast.{name}": each
        for name, each in as_perceiver(pooler | {"query": pooler["query"][:1]}).items()
    }
    tower = {name.replace("attn_pool_contrast.norm.", "ln_contrast."): each for name, each in tower.items()}
    options = OPTIONS | {"name": "vit_base_patch16_224", "final_norm": True, "has_bias": False, "init_values": 1.0}
    options |= {"pooled_dim": N_POOLED, "img_size": 128}
    encoder = load("conch_v1_5_vitL16", tower, backbone="zoo:coca_vit", dim=N_POOLED, px=128, **options)
    grid = weights["pos_embed"][:, 1:].reshape(1, 4, 4, 64).permute(0, 3, 1, 2)
    larger = F.interpolate(grid, scale_factor=(8.1 / 4, 8.1 / 4), mode="bicubic").permute(0, 2, 3, 1).reshape(1, 64, 64)
    weights["pos_embed"] = torch.cat((weights["pos_embed"][:, :1], larger), dim=1)
    expected = first_answer(tokens(weights, twice, kind, n_heads=4), pooler, n_heads=8)
    assert relative_difference(expected, encoder(twice)) < 1e-5  # the enlargement is of single precision


def test_towers_of_timm_next_to_texts_give_their_class_token() -> None:
    weights = weights_of(Kind(), SIZE, seed=1)
    expected = tokens(weights, IMAGES, Kind(), n_heads=4)[:, 0]
    trunk = {f"visual.trunk.{name}": each for name, each in weights.items()}
    aligned = {f"vision_encoder.{name}": each for name, each in weights.items()}
    files = {
        "slip_vitS16_yfcc15m_ep25": as_slip(weights),
        "maws_clip_vitB16_xlmrb": aligned | {"vision_projection": torch.ones(2), "text_encoder.w": torch.ones(2)},
        "mobileclip_vitL14": trunk | {"visual.trunk.head.weight": torch.ones(2), "text.w": torch.ones(2)},
        "openclip_vitB32_laion2b_e16": trunk
        | {"visual.head.proj.weight": torch.ones(2, 2), "logit_scale": torch.ones(())},
    }
    for like, content in files.items():
        assert relative_difference(expected, load(like, content, **OPTIONS)(IMAGES)) < SAME, like
    projection = torch.randn(24, 64, generator=torch.Generator().manual_seed(3))
    encoder = load("biomedclip_vitB16", trunk | TEXT | {"visual.head.proj.weight": projection}, dim=24, **OPTIONS)
    assert relative_difference(expected @ projection.double().T, encoder(IMAGES)) < SAME
    with pytest.raises(WeightsRefused, match=r"head\.weight"):
        load("biomedclip_vitB16", trunk | TEXT, dim=24, **OPTIONS)


SMALL = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 16}
SMALL_TEXTS = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}


@for_each(["plip_vitB32", "medsiglip_vitSO400M14_448", "chexagent_vitL16_512", "rad_dino_vitB14"])
@torch.no_grad()
def test_a_file_as_transformers_writes_it_gives_what_its_own_model_makes_of_an_image(like: str, tmp_path: Path) -> None:
    tower = SMALL | {"image_size": SIZE.image_px}
    backbone, dim = {"plip_vitB32": ("clip_vision_model", 24)}.get(like, ("siglip_vision_model", 48))
    torch.manual_seed(1)
    model: Any
    if like == "rad_dino_vitB14":
        sizes = {name: each for name, each in tower.items() if name != "intermediate_size"}
        model = transformers.Dinov2Model(transformers.Dinov2Config(**sizes))
        options = {"name": "vit_base_patch14_dinov2", "embed_dim": 48, "depth": 2, "num_heads": 4, "patch_size": 16}
        backbone, options = "zoo:dinov2", options | {"img_size": SIZE.image_px}
    elif like == "plip_vitB32":
        texts = SMALL_TEXTS | {"projection_dim": dim}
        model = transformers.CLIPModel(
            transformers.CLIPConfig(vision_config=tower, text_config=texts, projection_dim=dim)
        )
        backbone, options = f"transformers:{backbone}", tower
    else:
        model = transformers.SiglipModel(transformers.SiglipConfig(vision_config=tower, text_config=SMALL_TEXTS))
        backbone, options = f"transformers:{backbone}", tower
    for parameter in model.parameters():  # biases of nought would hide that one is missing
        parameter.add_(torch.randn(parameter.shape) * 0.02)
    model.save_pretrained(tmp_path / like)
    content: Any = (tmp_path / like / "model.safetensors").read_bytes()
    if like == "plip_vitB32":  # a pickle of 2023, when numbers of positions were stored
        content = read(content) | {"vision_model.embeddings.position_ids": torch.arange(17)[None]}
    encoder = load(like, content, backbone=backbone, dim=dim, **options)
    model = model.eval().double()
    if like == "rad_dino_vitB14":
        expected = model(pixel_values=IMAGES).last_hidden_state[:, 0]
    else:
        expected = model.get_image_features(pixel_values=IMAGES)
        expected = getattr(expected, "pooler_output", expected)
    assert relative_difference(expected, encoder(IMAGES)) < 1e-6  # the norm of transformers may be of single precision


def test_the_two_layers_after_the_class_token_are_those_of_keep() -> None:
    kind = Kind(has_scales=True)
    weights = weights_of(kind, SIZE, seed=1)
    head = filled(linear_shapes("0", 64, 24) | linear_shapes("2", 24, 24), seed=2)
    content = {f"visual.{name}": each for name, each in weights.items()} | TEXT
    content |= {f"visual_head.{name}": each for name, each in head.items()}
    options = OPTIONS | {"name": "vit_large_patch16_224", "head_dim": 24, "init_values": 1e-5}
    encoder = load("keep_vitL16", save(content), backbone="zoo:vit_with_mlp_head", dim=24, **options)
    token, doubled = tokens(weights, IMAGES, kind, n_heads=4)[:, 0], in_double(head)
    expected = F.linear(exact_gelu(F.linear(token, *affine(doubled, "0"))), *affine(doubled, "2"))
    assert relative_difference(expected, encoder(IMAGES)) < SAME


@for_each([False, True])
def test_an_archive_of_arrays_gives_the_first_class_token_of_tips(is_gated: bool) -> None:
    kind = Kind(n_registers=1, has_scales=True, is_gated=is_gated)
    size = replace(SIZE, mlp_width=176) if is_gated else SIZE
    weights = weights_of(kind, size, seed=1)
    name = "vit_giant_patch14_reg1_tipsv2" if is_gated else "vit_base_patch14_reg1_tipsv2"
    options = OPTIONS | ({"mlp_ratio": 5.5} if is_gated else {})
    encoder = load("tips_vitB14_hr", as_tips(weights, is_gated=is_gated), backbone=f"timm:{name}", **options)
    assert relative_difference(tokens(weights, IMAGES, kind, n_heads=4)[:, 0], encoder(IMAGES)) < SAME


def test_an_image_is_two_equal_frames_for_imagebind() -> None:
    kind = Kind(norms_first=True)
    weights, projection = without_patch_bias(kind), torch.randn(24, 64, generator=torch.Generator().manual_seed(3))
    options = OPTIONS | {"norm_layer": "layernorm"}
    content = as_imagebind(weights, projection)
    encoder = load("imagebind_vitH14", content, backbone="timm:vit_base_patch16_clip_224", dim=24, **options)
    expected = tokens(weights, IMAGES, kind, n_heads=4)[:, 0] @ projection.double().T
    assert relative_difference(expected, encoder(IMAGES)) < 1e-6  # the kernels are added in single precision


def test_the_branch_of_images_is_that_of_musk() -> None:
    weights: State = filled(musk_shapes(64, 2, patch_px=16, n_patches=16), seed=1)
    content = save({name: each.contiguous() for name, each in musk_file(weights).items()})
    encoder = load("musk_beit3_vitL16", content, backbone="timm:beit3_base_patch16_224", **OPTIONS)
    expected: Tensor = musk(weights, IMAGES, n_heads=4)
    assert relative_difference(expected, encoder(IMAGES)) < SAME


@for_each([16, 12])  # timm makes 16 channels of 12
def test_a_resnet_of_tinyclip_is_clips_of_another_width(width: int) -> None:
    weights = filled(clip_resnet_shapes((3, 4, 6, 3), width=width, projection=8, image_px=224), seed=1)
    content = {f"_image_encoder.module.{name}": each for name, each in weights.items()}
    content |= {"_text_encoder.module.ln_final.bias": torch.ones(1), "_logit_scale.module.logit_scale": torch.ones(())}
    like, backbone = "tinyclip_rn30m_laion400m", "zoo:clip_resnet"
    encoder = load(like, {"state_dict": content}, backbone=backbone, dim=32 * width, px=224, width=width)
    images = exact_images(1, 224)
    assert relative_difference(clip_resnet(weights, images, n_heads=width // 2), encoder(images)) < SAME
