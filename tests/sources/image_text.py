"""Image towers that were trained with texts: their files, and what is done to their tokens, as plain functions.

Weights come under the plain names of :mod:`.vit_dialects`, and are written as each source names them.
"""

from __future__ import annotations

import argparse
import io
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double
from .vit_dialects import respelled
from .vit_forward import affine, exact_gelu, layer_norm, patches, with_class_token
from .vit_names import Shapes, State, linear_shapes, norm_shapes

TEXT = {"logit_scale": torch.ones(()), "text.transformer.weight": torch.ones(2)}  # next to an image tower


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def pooler_shapes(width: int, dim: int, *, has_bias: bool = True) -> Shapes:
    """CoCa's pooling of tokens with three queries, under plain names."""
    shapes: Shapes = {"query": (3, dim), **norm_shapes("norm_q", dim), **norm_shapes("norm_kv", width)}
    for name, n_in in (("q", dim), ("k", width), ("v", width), ("out", dim)):
        shapes |= linear_shapes(name, n_in, dim, bias=has_bias)
    return shapes | norm_shapes("norm", dim)


def first_answer(tokens: Tensor, pooler: State, *, n_heads: int) -> Tensor:
    """What the first query gets of the tokens (n, tokens, width): (n, dim)."""
    weights = in_double(pooler)
    tokens = layer_norm(tokens, affine(weights, "norm_kv"), eps=1e-5)
    queries = layer_norm(weights["query"], affine(weights, "norm_q"), eps=1e-5)
    q, k, v = (F.linear(x, *affine(weights, name)) for x, name in ((queries[None], "q"), (tokens, "k"), (tokens, "v")))
    answer = F.linear(mixed(q.expand(len(tokens), -1, -1), k, v, n_heads=n_heads), *affine(weights, "out"))
    return layer_norm(answer, affine(weights, "norm"), eps=1e-5)[:, 0]


def mixed(q: Tensor, k: Tensor, v: Tensor, *, n_heads: int) -> Tensor:
    """Attention of several heads, each (n, tokens, width)."""
    q, k, v = (x.unflatten(-1, (n_heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)


def as_openclip(state: State, **more: Tensor) -> State:
    """OpenCLIP's own towers, next to a text tower with a prefix."""
    tower = respelled(
        state,
        (r"^cls_token$", "class_embedding"),
        (r"^pos_embed$", "positional_embedding"),
        (r"^patch_embed\.proj\.", "conv1."),
        (r"^norm_pre\.", "ln_pre."),
        (r"^norm\.", "ln_post."),
        (r"\.norm([12])\.", r".ln_\1."),
        (r"\.attn\.qkv\.", ".attn.in_proj_"),
        (r"\.attn\.proj\.", ".attn.out_proj."),
        (r"\.mlp\.fc1\.", ".mlp.c_fc."),
        (r"\.mlp\.fc2\.", ".mlp.c_proj."),
        (r"^blocks\.", "transformer.resblocks."),
    )
    tower["class_embedding"] = tower["class_embedding"].flatten()
    tower["positional_embedding"] = tower["positional_embedding"][0]
    return {f"visual.{name}": tensor for name, tensor in (tower | more).items()} | TEXT


def as_multihead(pooler: State) -> State:
    """The pooling as PyTorch's attention with keys and values of another width names it; the norm after it stays."""
    named = respelled(
        pooler,
        (r"^norm_q\.", "ln_q."),
        (r"^norm_kv\.", "ln_k."),
        (r"^([qkv])\.weight$", r"attn.\1_proj_weight"),
        (r"^out\.", "attn.out_proj."),
    )
    named["attn.in_proj_bias"] = torch.cat([named.pop(f"{part}.bias") for part in "qkv"])
    return named


def as_perceiver(pooler: State) -> State:
    """The pooling as CONCH v1.5 names it."""
    named = respelled(
        pooler, (r"^norm_q\.", "ln_q."), (r"^norm_kv\.", "ln_k."), (r"^q\.", "to_q."), (r"^out\.", "to_out.")
    )
    named["to_kv.weight"] = torch.cat([named.pop(f"{part}.weight") for part in "kv"])
    return named


def as_slip(state: State) -> dict[str, Any]:
    """The training's checkpoint."""
    beside = {
        "image_projection": torch.ones(2),
        "image_mlp.bn1.running_mean": torch.ones(2),
        "logit_scale": torch.ones(()),
    }
    whole = {f"visual.{name}": tensor for name, tensor in state.items()} | beside
    wrapped = {f"module.{name}": tensor for name, tensor in whole.items()}
    return {"epoch": 25, "state_dict": wrapped, "optimizer": {}, "args": argparse.Namespace(model="SLIP_VITS16")}


def as_tips(state: State, *, is_gated: bool) -> bytes:
    """An archive of arrays under DINOv2's names; the class token has a position of its own there."""
    rules = [(r"\.mlp\.fc1\.", ".mlp.w12."), (r"\.mlp\.fc2\.", ".mlp.w3.")] if is_gated else []
    named = respelled(state, (r"^reg_token$", "register_tokens"), *rules) | {"mask_token": torch.ones(1, 2)}
    file = io.BytesIO()
    np.savez(file, **{name: tensor.numpy() for name, tensor in named.items()})
    return file.getvalue()


def as_imagebind(state: State, projection: Tensor) -> State:
    """Two frames, of which the kernels are added for an image; towers of other modalities as well."""
    named = respelled(
        state,
        (r"^(cls_token)$", r"modality_preprocessors.vision.\1"),
        (r"^(pos_embed)$", r"modality_preprocessors.vision.pos_embedding_helper.\1"),
        (r"^patch_embed\.proj\.", "modality_preprocessors.vision.rgbt_stem.proj.1."),
        (r"^norm_pre\.", "modality_trunks.vision.pre_transformer_layer.0."),
        (r"^norm\.", "modality_heads.vision.0."),
        (r"\.norm([12])\.", r".norm_\1."),
        (r"\.attn\.qkv\.", ".attn.in_proj_"),
        (r"\.attn\.proj\.", ".attn.out_proj."),
        (r"^blocks\.", "modality_trunks.vision.blocks."),
    )
    kernel = named["modality_preprocessors.vision.rgbt_stem.proj.1.weight"]
    first = torch.randn(kernel.shape, generator=torch.Generator().manual_seed(5))
    named["modality_preprocessors.vision.rgbt_stem.proj.1.weight"] = torch.stack((first, kernel - first), dim=2)
    others = {
        "modality_trunks.audio.blocks.0.weight": torch.ones(1),
        "modality_postprocessors.text.1.log": torch.ones(1),
    }
    return named | {"modality_heads.vision.2.weight": projection} | others


def musk_shapes(width: int, depth: int, *, patch_px: int, n_patches: int) -> Shapes:
    """MUSK's branch of images, under its names; two positions come before those that are used."""
    shapes: Shapes = {
        "vision_embed.cls_token": (1, 1, width),
        "vision_embed.proj.weight": (width, 3, patch_px, patch_px),
        "vision_embed.proj.bias": (width,),
        "encoder.embed_positions.A.weight": (n_patches + 3, width),
        **norm_shapes("encoder.layer_norm.A", width),
    }
    for number in range(depth):
        at = f"encoder.layers.{number}"
        shapes |= norm_shapes(f"{at}.self_attn_layer_norm.A", width) | norm_shapes(f"{at}.final_layer_norm.A", width)
        for part in ("q", "k", "v", "out"):
            shapes |= linear_shapes(f"{at}.self_attn.{part}_proj.A", width, width)
        shapes |= norm_shapes(f"{at}.self_attn.inner_attn_ln.A", width)
        shapes |= linear_shapes(f"{at}.ffn.A.fc1", width, 4 * width) | linear_shapes(
            f"{at}.ffn.A.fc2", 4 * width, width
        )
        shapes |= norm_shapes(f"{at}.ffn.A.ffn_layernorm", 4 * width)
    return shapes


def musk_file(state: State) -> State:
    """With the branch of texts and both heads."""
    texts = {name.replace(".A.", ".B."): torch.ones_like(tensor) for name, tensor in state.items() if ".A." in name}
    whole = {f"beit3.{name}": tensor for name, tensor in (state | texts).items()}
    return whole | {
        "beit3.text_embed.weight": torch.ones(2),
        "vision_head.weight": torch.ones(2),
        "logit_scale": torch.ones(1),
    }


def musk(state: State, images: Tensor, *, n_heads: int) -> Tensor:
    """The class token at the end: every branch of a layer is normed once more before its last linear layer."""
    weights = in_double(state)
    x = with_class_token(
        patches(images.double(), *affine(weights, "vision_embed.proj")), weights["vision_embed.cls_token"]
    )
    x = x + weights["encoder.embed_positions.A.weight"][2:]
    depth = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layers."))
    for at in (f"encoder.layers.{number}" for number in range(depth)):
        normed = layer_norm(x, affine(weights, f"{at}.self_attn_layer_norm.A"), eps=1e-5)
        q, k, v = (F.linear(normed, *affine(weights, f"{at}.self_attn.{part}_proj.A")) for part in "qkv")
        inner = layer_norm(
            mixed(q, k, v, n_heads=n_heads), affine(weights, f"{at}.self_attn.inner_attn_ln.A"), eps=1e-5
        )
        x = x + F.linear(inner, *affine(weights, f"{at}.self_attn.out_proj.A"))
        normed = layer_norm(x, affine(weights, f"{at}.final_layer_norm.A"), eps=1e-5)
        hidden = exact_gelu(F.linear(normed, *affine(weights, f"{at}.ffn.A.fc1")))
        inner = layer_norm(hidden, affine(weights, f"{at}.ffn.A.ffn_layernorm"), eps=1e-5)
        x = x + F.linear(inner, *affine(weights, f"{at}.ffn.A.fc2"))
    return layer_norm(x, affine(weights, "encoder.layer_norm.A"), eps=1e-5)[:, 0]
