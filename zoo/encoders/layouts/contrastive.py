"""Layouts of CLIP and OpenCLIP, and of what is built on them.

There are four ways to name one image tower. OpenAI's archives and OpenCLIP's files have it below ``visual.``, beside
the text tower, under OpenAI's names or, of a network that OpenCLIP takes from timm, below ``visual.trunk.`` under
timm's; timm's copies have it alone, under timm's names. What timm takes for a classifier is the projection to the space
shared with text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor

from .steps import Layout, Misfit, State, below, holds, nested, state_dict, unwrapped, without

Renames: TypeAlias = tuple[tuple[str, str], ...]
"""Regular expressions of whole names, and what the names become."""

_TEXT_TOWER = (
    "transformer.",
    "token_embedding.",
    "positional_embedding",
    "ln_final.",
    "text_projection",
    "logit_scale",
)
_NEWER_TEXT_TOWER = (*_TEXT_TOWER, "text.", "text_decoder.", "logit_bias")  # with the captioner of CoCa
_ARCHIVED_NUMBERS = ("input_resolution", "context_length", "vocab_size")  # facts that OpenAI stored as tensors

_TRANSFORMER: Renames = (
    (r"class_embedding", r"cls_token"),
    (r"positional_embedding", r"pos_embed"),
    (r"conv1\.weight", r"patch_embed.proj.weight"),
    (r"ln_pre\.(weight|bias)", r"norm_pre.\1"),
    (r"ln_post\.(weight|bias)", r"norm.\1"),
    (r"proj", r"head.weight"),
    (r"transformer\.resblocks\.(\d+)\.ln_([12])\.(weight|bias)", r"blocks.\1.norm\2.\3"),
    (r"transformer\.resblocks\.(\d+)\.attn\.in_proj_(weight|bias)", r"blocks.\1.attn.qkv.\2"),
    (r"transformer\.resblocks\.(\d+)\.attn\.out_proj\.(weight|bias)", r"blocks.\1.attn.proj.\2"),
    (r"transformer\.resblocks\.(\d+)\.mlp\.c_fc\.(weight|bias)", r"blocks.\1.mlp.fc1.\2"),
    (r"transformer\.resblocks\.(\d+)\.mlp\.c_proj\.(weight|bias)", r"blocks.\1.mlp.fc2.\2"),
)
_POOLER: Renames = (
    (r"attn_pool\.query", r"attn_pool.query"),
    (r"attn_pool\.ln_q\.(weight|bias)", r"attn_pool.norm_q.\1"),
    (r"attn_pool\.ln_k\.(weight|bias)", r"attn_pool.norm_kv.\1"),
    (r"attn_pool\.attn\.([qkv])_proj_weight", r"attn_pool.\1.weight"),
    (r"attn_pool\.attn\.in_proj_bias", r"attn_pool.in_proj_bias"),
    (r"attn_pool\.attn\.out_proj\.(weight|bias)", r"attn_pool.proj.\1"),
    (r"ln_post\.(weight|bias)", r"attn_pool.norm.\1"),
)

_STATISTICS = r"(weight|bias|running_mean|running_var|num_batches_tracked)"
_RESNET: Renames = (
    (r"conv([123])\.weight", r"stem.conv\1.conv.weight"),
    (rf"bn([123])\.{_STATISTICS}", r"stem.conv\1.bn.\2"),
    *(
        (rf"layer{stage + 1}\.(\d+)\.{module}", rf"stages.{stage}.\1.{renamed}")
        for stage in range(4)
        for module, renamed in (
            (r"conv([13])\.weight", r"conv\2_1x1.conv.weight"),
            (r"conv2\.weight", r"conv2_kxk.conv.weight"),
            (rf"bn([13])\.{_STATISTICS}", r"conv\2_1x1.bn.\3"),
            (rf"bn2\.{_STATISTICS}", r"conv2_kxk.bn.\2"),
            (r"downsample\.0\.weight", r"shortcut.conv.conv.weight"),
            (rf"downsample\.1\.{_STATISTICS}", r"shortcut.conv.bn.\2"),
        )
    ),
    (r"attnpool\.positional_embedding", r"head.pos_embed"),
    (r"attnpool\.([qkv])_proj\.(weight|bias)", r"head.\1.\2"),
    (r"attnpool\.c_proj\.(weight|bias)", r"head.proj.\1"),
)


def clip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """OpenAI's weights: the tensors of the TorchScript archive, timm's copy of them, or OpenCLIP's.

    Source: openai/CLIP, ``clip/model.py``.
    """
    return _image_tower(content, target, beside=(*_TEXT_TOWER, *_ARCHIVED_NUMBERS))


def openclip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """OpenCLIP's weights: the released file, timm's copy of it, or the training script's checkpoint.

    Text towers of other libraries, and that of CoCa with its captioner, stand below ``text.`` and ``text_decoder.``.
    OpenAI's archives are refused, for their networks have another activation. Source: mlfoundations/open_clip,
    ``model.py``, ``coca_model.py``, ``transformer.py`` and the saving in ``main.py``.
    """
    return _image_tower(content, target, beside=_NEWER_TEXT_TOWER)


def lossyless(content: Any, clip_content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The compressor of lossyless, and the CLIP that it compresses as companion.

    Of the entropy bottleneck only the medians affect the features; everything else below it is for the bit rate.
    Source: YannDubs/lossyless, ``hub/compressor.py``; CompressAI, ``EntropyBottleneck``.
    """
    rate = state_dict(content)
    bottleneck = below(rate, "entropy_bottleneck.", beside=("scaling", "biasing"))
    quantiles = bottleneck.get("quantiles")
    if quantiles is None or quantiles.ndim != 3 or quantiles.shape[1:] != (1, 3):
        found = "none" if quantiles is None else f"shape {tuple(quantiles.shape)}"
        raise Misfit(f"'entropy_bottleneck.quantiles': found {found}, expected lower, median and upper, (dim, 1, 3)")
    compressor = {name: tensor for name, tensor in rate.items() if not name.startswith("entropy_bottleneck.")}
    compressor["medians"] = quantiles[:, 0, 1]
    return clip(clip_content, target=target) | {f"pooling.{name}": tensor for name, tensor in compressor.items()}


def _image_tower(content: Any, target: Mapping[str, Tensor], *, beside: tuple[str, ...]) -> State:
    state = unwrapped(state_dict(nested(content, "state_dict") if holds(content, "state_dict") else content))
    if any(name.startswith("visual.trunk.") for name in state):
        return _trunk(below(state, "visual.", beside=beside))
    if any(name.startswith("visual.") for name in state):
        state = below(state, "visual.", beside=beside)
        state = _transformer(state, target) if "class_embedding" in state else _translated(state, _RESNET)
    return _fitting_projection(state, target)


def _trunk(tower: State) -> State:
    # networks of timm, with a linear layer behind them as projection; nothing is read from that
    return without(below(tower, "trunk.", beside=("head.proj.",)), "head.weight", "head.bias", "head.fc.")


def _transformer(tower: State, target: Mapping[str, Tensor]) -> State:
    if "proj" not in tower:
        raise Misfit("the tensor 'visual.proj' is missing")
    pools = "attn_pool.query" in tower
    state = _translated(tower, (*_POOLER, *_TRANSFORMER) if pools else _TRANSFORMER)
    if pools:
        # one of the queries is for the loss between images and texts, the others are for the captioner
        state["attn_pool.query"] = state["attn_pool.query"][:1]
        biases = state.pop("attn_pool.in_proj_bias").chunk(3)
        state |= {f"attn_pool.{part}.bias": bias for part, bias in zip("qkv", biases, strict=True)}
    if "fc_norm.weight" in target:  # the norm follows the average
        state = {re.sub(r"^norm\.", "fc_norm.", name): tensor for name, tensor in state.items()}
    added_axes = {"cls_token": (None, None), "pos_embed": (None,)}
    state = {name: tensor[added_axes.get(name, ())] for name, tensor in state.items()}
    state["head.weight"] = state["head.weight"].transpose(0, -1)  # (width, proj) -> (proj, width)
    return state


def _translated(state: State, renames: Renames) -> State:
    result: State = {}
    for name, tensor in state.items():
        for pattern, replacement in renames:
            if match := re.fullmatch(pattern, name):
                result[match.expand(replacement)] = tensor
                break
        else:
            raise Misfit(f"found the tensor 'visual.{name}', which no image tower of CLIP has")
    return result


def _fitting_projection(state: State, target: Mapping[str, Tensor]) -> State:
    # CLIP's projection has no bias; timm adds one of zeros, and one that is not zero gives a classifier away
    bias = state.pop("head.bias", None)
    if bias is not None and bias.any():
        raise Misfit("'head.bias' is not zero, expected a projection to the space shared with text, not a classifier")
    projection = ("head.proj.weight", "head.proj.bias") if "head.pos_embed" in target else ("head.weight",)
    return {name: tensor for name, tensor in state.items() if name in target or name not in projection}


LAYOUTS: dict[str, Layout] = {
    "clip": Layout(convert=clip, half=True, reads_timm_copies=True),
    "openclip": Layout(convert=openclip, half=True, reads_timm_copies=True),
    "lossyless": Layout(convert=lossyless, half=True, n_companions=1, reads_timm_copies=True),
}
