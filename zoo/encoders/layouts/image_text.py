"""Layouts of image towers that were trained with texts, apart from CLIP's and OpenCLIP's own.

Towers of timm stand under a prefix beside text tower, projections and heads; others have names of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .contrastive import openclip
from .steps import Layout, Misfit, State, below, holds, nested, renamed, state_dict, unwrapped, without

_CLIP_TEXT = ("transformer.", "token_embedding.", "positional_embedding", "ln_final.", "text_projection", "logit_scale")


def slip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint of SLIP, and of its CLIP and SimCLR, which is what was released.

    The image tower is timm's; the projection to the space shared with text and the head of the loss between views
    stand beside it. Source: facebookresearch/SLIP, ``models.py`` and the saving in ``main.py``.
    """
    beside = (*_CLIP_TEXT, "image_projection", "image_mlp.")
    return below(unwrapped(state_dict(nested(content, "state_dict"))), "visual.", beside=beside)


def maws_clip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """MAWS' image tower with the text tower that was aligned with it; released as the state dict of both.

    Source: facebookresearch/maws, ``maws/model.py``.
    """
    beside = ("text_encoder.", "text_tokenizer.", "vision_projection", "text_projection", "logit_scale")
    return below(state_dict(content), "vision_encoder.", beside=beside)


def tips(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """TIPS' image tower, an archive of arrays under DINOv2's names.

    There the class token has a position of its own and the register has none; timm adds positions to patches alone.
    Source: google-deepmind/tips, ``pytorch/image_encoder.py``.
    """
    state = without(state_dict(content), "mask_token")
    for name in ("cls_token", "pos_embed", "register_tokens"):
        if name not in state:
            raise Misfit(f"the tensor {name!r} is missing")
    positions = state["pos_embed"]
    state["cls_token"] = state["cls_token"] + positions[:, :1]
    state["pos_embed"] = positions[:, 1:]
    return renamed(
        state,
        (r"^register_tokens$", "reg_token"),
        (r"^(blocks\.\d+\.mlp)\.w12\.", r"\1.fc1."),
        (r"^(blocks\.\d+\.mlp)\.w3\.", r"\1.fc2."),
    )


def tinyclip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """TinyCLIP's ResNets: OpenCLIP's names, below ``_image_encoder`` where each tower was wrapped by itself.

    Source: wkcn/TinyCLIP, ``convert_to_new_checkpoint`` in ``src/open_clip/model.py``.
    """
    state = state_dict(nested(content, "state_dict") if holds(content, "state_dict") else content)
    state = {name.replace("module.", ""): tensor for name, tensor in state.items()}
    if any(name.startswith("_image_encoder.") for name in state):
        state = below(state, "_image_encoder.", beside=("_text_encoder.", "_logit_scale."))
    return openclip(state, target=target)


def imagebind(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """ImageBind's tower of images and videos; those of other modalities are left out.

    It takes two frames at a time, and an image is two equal ones: one convolution with the sum of both kernels. Source:
    facebookresearch/ImageBind, ``imagebind/models/imagebind_model.py`` and ``multimodal_preprocessors.py``.
    """
    parts = {"modality_preprocessors": "", "modality_trunks": "", "modality_heads": "head."}
    state: State = {}
    for name, tensor in state_dict(content).items():
        part, _, rest = name.partition(".")
        if part not in (*parts, "modality_postprocessors"):
            raise Misfit(f"found the tensor {name!r}, expected names that start with {' or '.join(map(repr, parts))}")
        if part in parts and rest.startswith("vision."):
            state[parts[part] + rest.removeprefix("vision.")] = tensor
    kernel = "rgbt_stem.proj.1.weight"
    if kernel not in state or state[kernel].ndim != 5:
        raise Misfit("the convolution of the image tower is missing or not one of several frames")
    state[kernel] = state[kernel].sum(dim=2)
    return renamed(
        state,
        (r"^rgbt_stem\.proj\.1\.", "patch_embed.proj."),
        (r"^pos_embedding_helper\.", ""),
        (r"^pre_transformer_layer\.0\.", "norm_pre."),
        (r"^(blocks\.\d+)\.attn\.in_proj_", r"\1.attn.qkv."),
        (r"^(blocks\.\d+)\.attn\.out_proj\.", r"\1.attn.proj."),
        (r"^(blocks\.\d+)\.norm_([12])\.", r"\1.norm\2."),
        (r"^head\.0\.", "norm."),
        (r"^head\.2\.", "head."),
    )


def conch(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """CONCH's image tower, with the text tower and the captioner or, version 1.5, alone.

    Source: mahmoodlab/CONCH, ``conch/open_clip_custom/vision_tower.py``; mahmoodlab/TRIDENT, ``conchv1_5.py``.
    """
    state = state_dict(content)
    if any(name.startswith("visual.") for name in state):
        state = below(state, "visual.", beside=("text.", "text_decoder.", "logit_scale"))
    state = without(state, "attn_pool_caption.", "ln_caption.", "proj_contrast")
    state = renamed(
        state,
        (r"^trunk\.", ""),
        (r"^ln_contrast\.", "attn_pool.norm."),
        (r"^attn_pool_contrast\.", "attn_pool."),
        (r"^attn_pool\.ln_q\.", "attn_pool.norm_q."),
        (r"^attn_pool\.ln_k\.", "attn_pool.norm_kv."),
        (r"^attn_pool\.attn\.([qkv])_proj_weight$", r"attn_pool.\1.weight"),
        (r"^attn_pool\.attn\.out_proj\.", "attn_pool.proj."),
        (r"^attn_pool\.to_q\.", "attn_pool.q."),
        (r"^attn_pool\.to_out\.", "attn_pool.proj."),
    )
    if (biases := state.pop("attn_pool.attn.in_proj_bias", None)) is not None:
        state |= {f"attn_pool.{part}.bias": bias for part, bias in zip("qkv", biases.chunk(3), strict=True)}
    if (both := state.pop("attn_pool.to_kv.weight", None)) is not None:
        state |= {f"attn_pool.{part}.weight": rows for part, rows in zip("kv", both.chunk(2), strict=True)}
        state["pos_embed"] = _positions_of_conch(state, target)
    return state


def _positions_of_conch(state: State, target: Mapping[str, Tensor]) -> Tensor:
    """Positions as version 1.5 has them at every forward pass, for twice the side that it was built for.

    DINO's way: a bicubic enlargement whose factor is a tenth of a patch too large.
    """
    positions = state.get("pos_embed", torch.empty(0))
    n_stored, n_wanted = (
        math.isqrt(max(0, tensor.shape[1] - 1)) if tensor.ndim == 3 else 0
        for tensor in (positions, target["pos_embed"])
    )
    if n_stored == 0 or n_stored == n_wanted:
        return positions
    grid = positions[:, 1:].reshape(1, n_stored, n_stored, -1).permute(0, 3, 1, 2)
    factor = (n_wanted + 0.1) / n_stored
    grid = torch.nn.functional.interpolate(grid, scale_factor=(factor, factor), mode="bicubic")
    return torch.cat((positions[:, :1], grid.flatten(2).transpose(1, 2)), dim=1)


def keep(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """KEEP's image tower, which is timm's, and the two layers after it; the text tower is a BERT.

    Source: Astaxanthin/KEEP on the Hugging Face Hub, ``modeling_keep.py``.
    """
    state = {re.sub(r"^visual_head\.", "visual.head.", name): tensor for name, tensor in state_dict(content).items()}
    return below(state, "visual.", beside=("text.", "logit_scale"))


def musk(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """MUSK's network, of which images pass the branches A of every layer; those of texts are left out.

    Its positions are counted from two. Source: lilab-stanford/MUSK, ``musk/modeling.py`` and ``musk/torchscale``.
    """
    state = below(state_dict(content), "beit3.", beside=("vision_head.", "language_head.", "logit_scale"))
    state = {name: tensor for name, tensor in state.items() if ".B." not in name}
    state = renamed(
        without(state, "text_embed.", "vision_embed.mask_token"),
        (r"\.A\.", "."),
        (r"^vision_embed\.cls_token$", "cls_token"),
        (r"^vision_embed\.", "patch_embed."),
        (r"^encoder\.embed_positions\.weight$", "pos_embed"),
        (r"^encoder\.layer_norm\.", "norm."),
        (r"^encoder\.layers\.", "blocks."),
        (r"\.self_attn_layer_norm\.", ".norm1."),
        (r"\.final_layer_norm\.", ".norm2."),
        (r"\.self_attn\.inner_attn_ln\.", ".attn.norm."),
        (r"\.self_attn\.out_proj\.", ".attn.proj."),
        (r"\.ffn\.ffn_layernorm\.", ".mlp.norm."),
        (r"\.ffn\.", ".mlp."),
    )
    for name in [name for name in state if ".self_attn.q_proj." in name]:
        parts = [name.replace(".q_proj.", f".{part}_proj.") for part in "qkv"]
        if missing := [part for part in parts if part not in state]:
            raise Misfit(f"the tensor {missing[0]!r} is missing")
        state[name.replace(".self_attn.q_proj.", ".attn.qkv.")] = torch.cat([state.pop(part) for part in parts])
    if "pos_embed" in state:
        state["pos_embed"] = state["pos_embed"][None, 2:]
    return state


LAYOUTS: dict[str, Layout] = {
    "slip": Layout(convert=slip),
    "maws_clip": Layout(convert=maws_clip, half=True),
    "tips": Layout(convert=tips),
    "imagebind": Layout(convert=imagebind),
    "conch": Layout(convert=conch),
    "keep": Layout(convert=keep),
    "musk": Layout(convert=musk, half=True),
    "tinyclip": Layout(convert=tinyclip),
}
