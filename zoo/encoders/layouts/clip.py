"""Layouts of image towers that were trained with texts: CLIP's and OpenCLIP's, and those of other projects."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import (
    Layout,
    Misfit,
    State,
    build_layouts,
    drop_tensors,
    fuse_qkv,
    get_nested,
    rename_tensors,
    require_state_dict,
    strip_ddp_prefix,
    strip_prefix,
)
from .transformers import convert_dinov2

_TEXT_TOWER = (
    *("transformer.", "token_embedding.", "positional_embedding", "ln_final.", "text_projection", "logit_scale"),
)
_NEWER_TEXT_TOWER = (*_TEXT_TOWER, "text.", "text_decoder.", "logit_bias")  # with the captioner of CoCa
_ARCHIVED_NUMBERS = ("input_resolution", "context_length", "vocab_size")  # facts that OpenAI stored as tensors

_BLOCK = r"^transformer\.resblocks\.(\d+)\."
_TRANSFORMER = (
    (r"^class_embedding$", "cls_token"),
    (r"^positional_embedding$", "pos_embed"),
    (r"^conv1\.", "patch_embed.proj."),
    (r"^ln_pre\.", "norm_pre."),
    (r"^ln_post\.", "norm."),
    (r"^proj$", "head.weight"),
    (_BLOCK + r"ln_([12])\.", r"blocks.\1.norm\2."),
    (_BLOCK + r"attn\.in_proj_", r"blocks.\1.attn.qkv."),
    (_BLOCK + r"attn\.out_proj\.", r"blocks.\1.attn.proj."),
    (_BLOCK + r"mlp\.c_fc\.", r"blocks.\1.mlp.fc1."),
    (_BLOCK + r"mlp\.c_proj\.", r"blocks.\1.mlp.fc2."),
)
_POOLER = (
    (r"^ln_post\.", "attn_pool.norm."),
    (r"^attn_pool\.ln_q\.", "attn_pool.norm_q."),
    (r"^attn_pool\.ln_k\.", "attn_pool.norm_kv."),
    (r"^attn_pool\.attn\.([qkv])_proj_weight$", r"attn_pool.\1.weight"),
    (r"^attn_pool\.attn\.out_proj\.", "attn_pool.proj."),
)
_RESNET = (
    (r"^conv([123])\.", r"stem.conv\1.conv."),
    (r"^bn([123])\.", r"stem.conv\1.bn."),
    *((rf"^layer{stage + 1}\.", f"stages.{stage}.") for stage in range(4)),
    (r"^(stages\.\d\.\d+)\.conv([13])\.", r"\1.conv\2_1x1.conv."),
    (r"^(stages\.\d\.\d+)\.conv2\.", r"\1.conv2_kxk.conv."),
    (r"^(stages\.\d\.\d+)\.bn([13])\.", r"\1.conv\2_1x1.bn."),
    (r"^(stages\.\d\.\d+)\.bn2\.", r"\1.conv2_kxk.bn."),
    (r"^(stages\.\d\.\d+)\.downsample\.0\.", r"\1.shortcut.conv.conv."),
    (r"^(stages\.\d\.\d+)\.downsample\.1\.", r"\1.shortcut.conv.bn."),
    (r"^attnpool\.positional_embedding$", "head.pos_embed"),
    (r"^attnpool\.([qkv])_proj\.", r"head.\1."),
    (r"^attnpool\.c_proj\.", "head.proj."),
)


def convert_clip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """OpenAI's weights: the tensors of the TorchScript archive, timm's copy of them, or OpenCLIP's.

    Source: openai/CLIP, ``clip/model.py``.
    """
    return _image_tower(content, target, beside=(*_TEXT_TOWER, *_ARCHIVED_NUMBERS))


def convert_openclip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """OpenCLIP's weights: the released file, timm's copy of it, or the training script's checkpoint.

    Text towers of other libraries, and that of CoCa with its captioner, stand below ``text.`` and ``text_decoder.``.
    OpenAI's archives are refused, for their networks have another activation. Source: mlfoundations/open_clip,
    ``model.py``, ``coca_model.py``, ``transformer.py`` and the saving in ``main.py``.
    """
    return _image_tower(content, target, beside=_NEWER_TEXT_TOWER)


def convert_farl(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """FaRL's CLIP without the layers for hidden patches. Source: FacePerceiver/FaRL, ``farl/network/farl/model.py``."""
    state = require_state_dict(get_nested(content, "state_dict"))
    hidden = ("visual.lm_transformer.", "visual.ln_lm.", "visual.lm_head.", "visual.mask_token")
    return convert_clip(drop_tensors(state, *hidden), target=target)


def convert_lossyless(content: Any, clip_content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The compressor of lossyless, and the CLIP that it compresses as companion.

    Of the entropy bottleneck only the medians affect the features; everything else below it is for the bit rate.
    Source: YannDubs/lossyless, ``hub/compressor.py``; CompressAI, ``EntropyBottleneck``.
    """
    rate = require_state_dict(content)
    bottleneck = strip_prefix(rate, "entropy_bottleneck.", beside=("scaling", "biasing"))
    quantiles = bottleneck.get("quantiles")
    if quantiles is None or quantiles.ndim != 3 or quantiles.shape[1:] != (1, 3):
        found = "none" if quantiles is None else f"shape {tuple(quantiles.shape)}"
        raise Misfit(f"'entropy_bottleneck.quantiles': found {found}, expected lower, median and upper, (dim, 1, 3)")
    compressor = {name: tensor for name, tensor in rate.items() if not name.startswith("entropy_bottleneck.")}
    compressor["medians"] = quantiles[:, 0, 1]
    return convert_clip(clip_content, target=target) | {
        f"pooling.{name}": tensor for name, tensor in compressor.items()
    }


def _image_tower(content: Any, target: Mapping[str, Tensor], *, beside: tuple[str, ...]) -> State:
    state = strip_ddp_prefix(require_state_dict(content, "state_dict"))
    if any(name.startswith("visual.trunk.") for name in state):  # of timm, with a linear layer behind as projection
        tower = strip_prefix(state, "visual.", beside=beside)
        trunk = drop_tensors(
            strip_prefix(tower, "trunk.", beside=("head.proj.",)), "head.weight", "head.bias", "head.fc."
        )
        is_wanted = "head.weight" in target and "head.proj.weight" in tower
        return trunk | ({"head.weight": tower["head.proj.weight"]} if is_wanted else {})
    is_alone = "class_embedding" in state  # the image tower, without a text tower next to it
    if is_alone or any(name.startswith("visual.") for name in state):
        state = state if is_alone else strip_prefix(state, "visual.", beside=beside)
        state = _transformer(state, target) if "class_embedding" in state else rename_tensors(state, *_RESNET)
    return _fitting_projection(state, target)


def _transformer(tower: State, target: Mapping[str, Tensor]) -> State:
    if "proj" not in tower:
        raise Misfit("the tensor 'visual.proj' is missing")
    pools = "attn_pool.query" in tower
    state = rename_tensors(tower, *(_POOLER if pools else ()), *_TRANSFORMER)
    if pools:
        # one of the queries is for the loss between images and texts, the others are for the captioner
        state["attn_pool.query"] = state["attn_pool.query"][:1]
        state = _pooler_biases(state)
    if "fc_norm.weight" in target:  # the norm follows the average
        state = rename_tensors(state, (r"^norm\.", "fc_norm."))
    added_axes = {"cls_token": (None, None), "pos_embed": (None,)}
    state = {name: tensor[added_axes.get(name, ())] for name, tensor in state.items()}
    state["head.weight"] = state["head.weight"].transpose(0, -1)  # (width, proj) -> (proj, width)
    return state


def _pooler_biases(state: State) -> State:
    """With the biases of the queries, keys and values of a pooler apart."""
    biases = state.pop("attn_pool.attn.in_proj_bias", None)
    parts = () if biases is None else zip("qkv", biases.chunk(3), strict=True)
    return state | {f"attn_pool.{part}.bias": bias for part, bias in parts}


def _fitting_projection(state: State, target: Mapping[str, Tensor]) -> State:
    # CLIP's projection has no bias; timm adds one of zeros, and one that is not zero gives a classifier away
    bias = state.pop("head.bias", None)
    if bias is not None and bias.any():
        raise Misfit("'head.bias' is not zero, expected a projection to the space shared with text, not a classifier")
    projection = ("head.proj.weight", "head.proj.bias") if "head.pos_embed" in target else ("head.weight",)
    return {name: tensor for name, tensor in state.items() if name in target or name not in projection}


def convert_slip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint of SLIP, and of its CLIP and SimCLR, which is what was released.

    The image tower is timm's; the projection to the space shared with text and the head of the loss between views
    stand next to it. Source: facebookresearch/SLIP, ``models.py`` and the saving in ``main.py``.
    """
    beside = (*_TEXT_TOWER, "image_projection", "image_mlp.")
    return strip_prefix(
        strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict"))), "visual.", beside=beside
    )


def convert_maws_clip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """MAWS' image tower with the text tower that was aligned with it; released as the state dict of both.

    Source: facebookresearch/maws, ``maws/model.py``.
    """
    beside = ("text_encoder.", "text_tokenizer.", "vision_projection", "text_projection", "logit_scale")
    return strip_prefix(require_state_dict(content), "vision_encoder.", beside=beside)


def convert_tips(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """TIPS' image tower, an archive of arrays under DINOv2's names.

    There the class token has a position of its own and the register has none. Source: google-deepmind/tips,
    ``pytorch/image_encoder.py``.
    """
    return convert_dinov2(require_state_dict(content), target=target)


def convert_tinyclip(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """TinyCLIP's ResNets: OpenCLIP's names, below ``_image_encoder`` where each tower was wrapped by itself.

    Source: wkcn/TinyCLIP, ``convert_to_new_checkpoint`` in ``src/open_clip/model.py``.
    """
    state = rename_tensors(require_state_dict(content, "state_dict"), (r"module\.", ""))
    if any(name.startswith("_image_encoder.") for name in state):
        state = strip_prefix(state, "_image_encoder.", beside=("_text_encoder.", "_logit_scale."))
    return convert_openclip(state, target=target)


def convert_imagebind(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """ImageBind's tower of images and videos; those of other modalities are left out.

    It takes two frames at a time, and an image is two equal ones: one convolution with the sum of both kernels. Source:
    facebookresearch/ImageBind, ``imagebind/models/imagebind_model.py`` and ``multimodal_preprocessors.py``.
    """
    parts = {"modality_preprocessors": "", "modality_trunks": "", "modality_heads": "head."}
    state: State = {}
    for name, tensor in require_state_dict(content).items():
        part, _, rest = name.partition(".")
        if part not in (*parts, "modality_postprocessors"):
            raise Misfit(f"found the tensor {name!r}, expected names that start with {' or '.join(map(repr, parts))}")
        if part in parts and rest.startswith("vision."):
            state[parts[part] + rest.removeprefix("vision.")] = tensor
    kernel = "rgbt_stem.proj.1.weight"
    if kernel not in state or state[kernel].ndim != 5:
        raise Misfit("the convolution of the image tower is missing or not one of several frames")
    state[kernel] = state[kernel].sum(dim=2)
    return rename_tensors(
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


def convert_conch(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """CONCH's image tower, with the text tower and the captioner or, version 1.5, alone.

    Source: mahmoodlab/CONCH, ``conch/open_clip_custom/vision_tower.py``; mahmoodlab/TRIDENT, ``conchv1_5.py``.
    """
    state = require_state_dict(content)
    if any(name.startswith("visual.") for name in state):
        state = strip_prefix(state, "visual.", beside=("text.", "text_decoder.", "logit_scale"))
    state = drop_tensors(state, "attn_pool_caption.", "ln_caption.", "proj_contrast")
    state = rename_tensors(
        state,
        (r"^trunk\.", ""),
        (r"^ln_contrast\.", "ln_post."),
        (r"^attn_pool_contrast\.", "attn_pool."),
        (r"^attn_pool\.to_q\.", "attn_pool.q."),
        (r"^attn_pool\.to_out\.", "attn_pool.proj."),
        *_POOLER,
    )
    state = _pooler_biases(state)
    both = state.pop("attn_pool.to_kv.weight", None)
    if both is not None:  # version 1.5, which enlarges its positions at every forward pass, as DINOv2 does
        state |= {f"attn_pool.{part}.weight": rows for part, rows in zip("kv", both.chunk(2), strict=True)}
        positions, wanted = state.get("pos_embed"), target["pos_embed"]
        if positions is not None and positions.ndim == 3:
            n_stored, n_wanted = (math.isqrt(max(0, tensor.shape[1] - 1)) for tensor in (positions, wanted))
            if n_stored:
                from ..vit_models import interpolate_dinov2_positions  # timm, which few layouts need

                state["pos_embed"] = interpolate_dinov2_positions(positions, (n_stored, n_stored), (n_wanted, n_wanted))
    return state


def convert_keep(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """KEEP's image tower, which is timm's, and the two layers after it; the text tower is a BERT.

    Source: Astaxanthin/KEEP on the Hugging Face Hub, ``modeling_keep.py``.
    """
    state = {
        re.sub(r"^visual_head\.", "visual.head.", name): tensor for name, tensor in require_state_dict(content).items()
    }
    return strip_prefix(state, "visual.", beside=("text.", "logit_scale"))


def convert_musk(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """MUSK's network, of which images pass the branches A of every layer; those of texts are left out.

    Its positions are counted from two. Source: lilab-stanford/MUSK, ``musk/modeling.py`` and ``musk/torchscale``.
    """
    state = strip_prefix(
        require_state_dict(content), "beit3.", beside=("vision_head.", "language_head.", "logit_scale")
    )
    state = {name: tensor for name, tensor in state.items() if ".B." not in name}
    state = rename_tensors(
        drop_tensors(state, "text_embed.", "vision_embed.mask_token"),
        (r"\.A\.", "."),
        (r"^vision_embed\.cls_token$", "cls_token"),
        (r"^vision_embed\.", "patch_embed."),
        (r"^encoder\.embed_positions\.weight$", "pos_embed"),
        (r"^encoder\.layer_norm\.", "norm."),
        (r"^encoder\.layers\.", "blocks."),
        (r"\.self_attn_layer_norm\.", ".norm1."),
        (r"\.final_layer_norm\.", ".norm2."),
        (r"\.self_attn\.inner_attn_ln\.", ".attn.norm."),
        (r"\.self_attn\.([qkv])_proj\.", r".split.\1."),
        (r"\.self_attn\.out_proj\.", ".attn.proj."),
        (r"\.ffn\.ffn_layernorm\.", ".mlp.norm."),
        (r"\.ffn\.", ".mlp."),
    )
    if "pos_embed" in state:
        state["pos_embed"] = state["pos_embed"][None, 2:]
    return fuse_qkv(state)


LAYOUTS: dict[str, Layout] = {
    **build_layouts(convert_clip, convert_openclip, half=True, reads_timm_copies=True),
    **build_layouts(convert_farl, half=True),
    **build_layouts(convert_lossyless, half=True, n_companions=1, reads_timm_copies=True),
    **build_layouts(convert_slip, convert_tips, convert_imagebind, convert_conch, convert_keep, convert_tinyclip),
    **build_layouts(convert_maws_clip, convert_musk, half=True),
}
