"""Layouts of vision transformers whose files have names of their own, for timm's networks that compute the same.

Renames, the fusion of queries, keys and values, and the position of the class token, which timm adds to the token where
register tokens follow it. What a file computes instead of holding (sines and cosines of positions) is computed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..vit_models import turns
from .steps import Layout, Misfit, State, below, holds, nested, renamed, state_dict, unwrapped, without
from .transformers import beit, shared_positions

_BLOCK = r"^blocks\.(\d+)\."


def dinov2(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A backbone of DINOv2's code, alone or with the heads of its training; or a student that such a backbone teaches.

    Blocks may be in chunks, each of which counts them from the start of the network. A last norm that the encoder has
    not is one that the training did not reach. Source: facebookresearch/dinov2, ``models/vision_transformer.py``;
    valeoai/Franca, ``hub/backbones.py``; naver/unic and naver/dune, ``load_student_encoder_from_checkpoint``.
    """
    if holds(content, "teacher"):
        state = unwrapped(state_dict(nested(content, "teacher")))
        state = below(state, "backbone.", beside=("dino_head.", "ibot_head."))
    elif holds(content, "model"):
        state = renamed(state_dict(nested(content, "model")), (r"^(module\.|_orig_mod\.)+", ""))
        state = below(state, "encoder.", beside=("lp.", "projectors.", "teacher_norms."))
        state = renamed(state, (r"^_orig_mod\.", ""))
    else:
        state = state_dict(content)
    state = renamed(
        without(state, "mask_token"),
        (r"^blocks\.\d+\.(\d+)\.", r"blocks.\1."),
        (r"\.mlp\.w12\.", ".mlp.fc1."),
        (r"\.mlp\.w3\.", ".mlp.fc2."),
        (r"^register_tokens$", "reg_token"),
    )
    return _placed(state if "norm.weight" in target else without(state, "norm."), target)


def transformers_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """Vision transformers of transformers: ViT, DeiT, BEiT and its kin, DINOv2 with and without registers; and Theia's.

    Source: huggingface/transformers, ``modeling_vit.py``, ``modeling_data2vec_vision.py``, ``modeling_dinov2.py`` and
    ``modeling_dinov2_with_registers.py``; theaiinstitute/theia, ``models/backbones.py``.
    """
    state = state_dict(content)
    if any(name.startswith("backbone.model.") for name in state):
        state = below(state, "backbone.model.", beside=("translator.",))
    state = renamed(state, (r"^(vit|deit|dinov2|data2vec_vision)\.(?=embeddings|encoder|layernorm|pooler)", ""))
    state = without(state, "pooler.", "classifier.", "embeddings.mask_token")
    state = {name: tensor for name, tensor in state.items() if not name.endswith("relative_position_index")}
    state = renamed(
        state,
        (r"^embeddings\.cls_token$", "cls_token"),
        (r"^embeddings\.register_tokens$", "reg_token"),
        (r"^embeddings\.position_embeddings$", "pos_embed"),
        (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
        (r"^encoder\.relative_position_bias\.", "rel_pos_bias."),
        (r"^encoder\.layer\.(\d+)\.", r"blocks.\1."),
        (r"^layernorm\.", "norm."),
        (_BLOCK + r"layernorm_before\.", r"blocks.\1.norm1."),
        (_BLOCK + r"layernorm_after\.", r"blocks.\1.norm2."),
        (_BLOCK + r"attention\.output\.dense\.", r"blocks.\1.attn.proj."),
        (_BLOCK + r"intermediate\.dense\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"output\.dense\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"mlp\.weights_in\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"mlp\.weights_out\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"layer_scale([12])\.lambda1$", r"blocks.\1.ls\2.gamma"),
        (_BLOCK + r"lambda_([12])$", r"blocks.\1.gamma_\2"),
    )
    return _placed(shared_positions(_fused(state), target), target)


def mmpretrain_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MMSelfSup 1.x or MMPretrain, which is what was released.

    The parts that fuse the outputs of blocks during MFF's training, and the mask token, are no part of the encoder.
    Source: open-mmlab/mmpretrain, ``backbones/vision_transformer.py``, ``backbones/beit.py`` and ``selfsup``.
    """
    beside = ("neck.", "head.", "target_generator.", "teacher.", "momentum_encoder.", "data_preprocessor.")
    state = below(unwrapped(state_dict(nested(content, "state_dict"))), "backbone.", beside=beside)
    state = without(state, "mask_token", "proj_layers.", "proj_weights")
    state = {name: tensor for name, tensor in state.items() if not name.endswith("relative_position_index")}
    state = renamed(
        state,
        (r"^layers\.(\d+)\.", r"blocks.\1."),
        (_BLOCK + r"ln([12])\.", r"blocks.\1.norm\2."),
        (_BLOCK + r"ffn\.layers\.0\.0\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"ffn\.layers\.1\.", r"blocks.\1.mlp.fc2."),
        (r"^ln1\.", "norm."),
        (r"^patch_embed\.projection\.", "patch_embed.proj."),
    )
    return shared_positions(state, target)


def eva(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released EVA after masked image modelling, or after its fine-tuning, whose classifier is left out.

    It has the names of BEiT, in half precision. Source: baaivision/EVA, ``modeling_pretrain.py`` and
    ``modeling_finetune.py`` of EVA-01.
    """
    return without(beit(content, target=target), "head.", "decoder_")


def simmim_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of SimMIM on a vision transformer, which has the names of BEiT.

    Source: microsoft/SimMIM, ``models/simmim.py`` and ``models/vision_transformer.py``.
    """
    state = below(unwrapped(state_dict(nested(content, "model"))), "encoder.", beside=("decoder.",))
    state = {name: tensor for name, tensor in state.items() if not name.endswith("relative_position_index")}
    return shared_positions(without(state, "mask_token"), target)


def lightly_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of lightly's benchmarks, whose backbones are timm's; the teacher is evaluated where there is one.

    Source: lightly-ai/lightly, ``benchmarks/imagenet/vitb16`` and ``masked_vision_transformer_timm.py``.
    """
    state = state_dict(nested(content, "state_dict"))
    prefix = "teacher_backbone." if any(name.startswith("teacher_backbone.") for name in state) else "backbone."
    inner = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    if not inner:
        raise Misfit(f"found no tensor whose name starts with {prefix!r}")
    return without(renamed(inner, (r"^vit\.", "")), "mask_token", "head.")


def swag(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released vision transformer of SWAG, with its classifier or without. Source: facebookresearch/SWAG, ``models``.

    It is the network of torchvision with positions first in their tensor.
    """
    layer = r"^encoder\.layers\.layer_(\d+)\."
    state = renamed(
        without(state_dict(content), "head."),
        (r"^class_token$", "cls_token"),
        (r"^encoder\.pos_embedding$", "pos_embed"),
        (r"^conv_proj\.", "patch_embed.proj."),
        (r"^encoder\.ln\.", "norm."),
        (layer + r"ln_([12])\.", r"blocks.\1.norm\2."),
        (layer + r"self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
        (layer + r"self_attention\.out_proj\.", r"blocks.\1.attn.proj."),
        (layer + r"mlp\.linear_([12])\.", r"blocks.\1.mlp.fc\2."),
    )
    if "pos_embed" in state:
        state["pos_embed"] = state["pos_embed"].transpose(0, 1)  # (tokens, 1, width) -> (1, tokens, width)
    return state


def mim_refiner(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released refined encoder. Source: ml-jku/MIM-Refiner, ``hub``; BenediktAlkin/KappaModules, ``vit``.

    Positions are a map, without one for the class token; those of data2vec 2.0 have their norms after each branch.
    """
    state = renamed(
        state_dict(nested(content, "state_dict")),
        (r"^cls_tokens\.tokens$", "cls_token"),
        (r"^pos_embed\.embed$", "pos_embed"),
        (r"^embed_norm\.", "norm_pre."),
    )
    if "pos_embed" in state and state["pos_embed"].ndim == 4:
        state["pos_embed"] = state["pos_embed"].flatten(1, 2)  # (1, rows, columns, width) -> (1, patches, width)
    return state


def data2vec2(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released data2vec 2.0 of images, of which the student is taken; or one that was fine-tuned.

    The first blocks may belong to the encoder of the modality. Source: facebookresearch/fairseq,
    ``data2vec/models/data2vec2.py``, ``modalities/images.py`` and ``mae_image_classification.py``.
    """
    model = nested(content, "model")
    if isinstance(model, Mapping):
        model = {name: value for name, value in model.items() if name != "_ema"}  # the teacher, a state dict in it
    state = state_dict(model)
    if any(name.startswith("model.") for name in state):
        state = {name.removeprefix("model."): tensor for name, tensor in without(state, "head.").items()}
    here = "modality_encoders.IMAGE."
    state = without(
        state, f"{here}decoder.", f"{here}alibi", f"{here}encoder_mask", "recon_proj.", "shared_decoder.", "center"
    )
    first = rf"^{re.escape(here)}context_encoder\.blocks\.(\d+)\."
    n_first = len({match[1] for name in state if (match := re.match(first, name))})
    state = {
        re.sub(_BLOCK, lambda match: f"blocks.{int(match[1]) + n_first}.", name): tensor
        for name, tensor in state.items()
    }
    return renamed(
        state,
        (first, r"blocks.\1."),
        (rf"^{re.escape(here)}extra_tokens$", "cls_token"),
        (rf"^{re.escape(here)}fixed_positional_encoder\.(positions|pos_embed)$", "pos_embed"),
        (rf"^{re.escape(here)}local_encoder\.proj\.", "patch_embed.proj."),
        (rf"^{re.escape(here)}context_encoder\.norm\.", "norm_pre."),
    )


def aim(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released trunk of AIM or AIMv2, whose head is another file or is left out.

    Positions are sines and cosines that are computed for the size of the image; those of the encoder's own size are.
    Source: apple/ml-aim, ``aim/v1/torch`` and ``aim/v2/torch``.
    """
    state = without(state_dict(content), "head.", "mask_token")
    state = renamed(
        state,
        (r"^preprocessor\.patchifier\.", "patch_embed."),
        (r"^preprocessor\.pos_embed$", "pos_embed"),
        (r"^trunk\.blocks\.(\d+)\.", r"blocks.\1."),
        (_BLOCK + r"norm_([12])\.", r"blocks.\1.norm\2."),
        (r"^trunk\.post_trunk_norm\.", "norm."),
    )
    for name in [name for name in state if name.endswith(".mlp.fc3.weight")]:  # the gate of AIMv2, which timm has apart
        at = name.removesuffix("fc3.weight")
        state[f"{at}fc1_g.weight"], state[f"{at}fc1_x.weight"] = state.pop(f"{at}fc1.weight"), state.pop(name)
    wanted = target.get("pos_embed")
    if wanted is not None and "pos_embed" not in state:
        state["pos_embed"] = _waves(n=wanted.shape[1], width=wanted.shape[2])
    return state


def radio(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released RADIO without heads and adaptors. Source: NVlabs/RADIO, ``hubconf.py``, ``vit_patch_generator.py``.

    One table of positions, for 2048 pixels, is scaled to the size of the image; to the encoder's own size, here. Class
    tokens of several teachers are followed by registers; all but the first are registers of timm's network.
    """
    whole = state_dict(nested(content, "state_dict_ema" if holds(content, "state_dict_ema") else "state_dict"))
    base = "base_model."
    state = {name.removeprefix(base): tensor for name, tensor in whole.items() if name.startswith(base)}
    made = {
        name: state.pop(f"patch_generator.{name}", None) for name in ("pos_embed", "embedder.weight", "cls_token.token")
    }
    table, kernel, tokens = made.values()
    wanted_kernel, wanted_table = target.get("patch_embed.proj.weight"), target.get("pos_embed")
    if table is None or kernel is None or tokens is None or wanted_kernel is None or wanted_table is None:
        missing = next((name for name, tensor in made.items() if tensor is None), "pos_embed")
        raise Misfit(f"the tensor '{base}patch_generator.{missing}' is missing")
    sides = [math.isqrt(each.shape[1]) for each in (table, wanted_table)]
    if sides[0] ** 2 != table.shape[1] or kernel.numel() != wanted_kernel.numel():
        raise Misfit(
            f"found {table.shape[1]} positions, expected those of a square, and patches as large as the encoder's"
        )
    grid = table.float().reshape(1, sides[0], sides[0], -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(sides[1], sides[1]), mode="bilinear", align_corners=False)
    state["pos_embed"] = grid.flatten(2).transpose(1, 2)
    state["patch_embed.proj.weight"] = kernel.reshape(wanted_kernel.shape)
    state["cls_token"], state["reg_token"] = tokens[None, :1], tokens[None, 1:]
    return state


def vjepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of V-JEPA, which is what was released; the target encoder is what is probed.

    Source: facebookresearch/jepa, ``evals/image_classification_frozen/eval.py`` and ``MultiMaskWrapper``.
    """
    return renamed(state_dict(nested(content, "target_encoder")), (r"^module\.", ""), (r"^backbone\.", ""))


def capi(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released CAPI, whose predictor and clusters are left out. Source: facebookresearch/capi, ``model.py``.

    The rates of its rotary positions are stored with every block, and were not trained; others than CAPI's are refused.
    """
    whole = state_dict(content)
    state = {
        name.removeprefix("backbone."): tensor for name, tensor in whole.items() if name.startswith("backbone.")
    } or whole
    state = without(state, "decoder.", "mask_token")
    for name in [name for name in state if name.endswith(".rope.freqs")]:
        rates = state.pop(name)
        if rates.ndim != 2 or not torch.allclose(rates.float(), turns(rates.shape[-1]), rtol=1e-2):
            raise Misfit(f"{name!r} has other rates than CAPI's rotary positions")
    state = renamed(
        state,
        (r"^registers$", "reg_token"),
        (r"^patch_embed\.", "patch_embed.proj."),
        (r"^encoder\.blocks\.(\d+)\.", r"blocks.\1."),
        (_BLOCK + r"residual([12])\.norm\.", r"blocks.\1.norm\2."),
        (_BLOCK + r"residual1\.fn\.proj\.", r"blocks.\1.attn.proj."),
        (_BLOCK + r"residual1\.fn\.([qkv])_proj\.", r"blocks.\1.attention.attention.\2."),
        (_BLOCK + r"residual2\.fn\.", r"blocks.\1.mlp."),
        (r"\.attention\.attention\.q\.", ".attention.attention.query."),
        (r"\.attention\.attention\.k\.", ".attention.attention.key."),
        (r"\.attention\.attention\.v\.", ".attention.attention.value."),
    )
    if "reg_token" in state and state["reg_token"].ndim == 2:
        state["reg_token"] = state["reg_token"][None]
    return _fused(state)


def _waves(*, n: int, width: int) -> Tensor:
    """Sines and cosines of the column, then of the row, of a square of patches; float32 (1, n, width)."""
    side = round(n**0.5)
    if side * side != n or width % 4:
        raise Misfit(f"found positions for {n} patches of {width} channels, expected a square and a multiple of 4")
    rates = 1.0 / 10_000 ** (torch.arange(width // 4, dtype=torch.float32) / (width / 4))
    rows, columns = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    angles = [places.reshape(-1, 1) * rates for places in (columns, rows)]
    return torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)[None]


def _fused(state: State) -> State:
    """Queries, keys and values of a block as one tensor; apart, two biases without that of the keys are BEiT's."""
    result = dict(state)
    for name in state:
        match = re.fullmatch(_BLOCK[1:] + r"attention\.attention\.query\.(weight|bias)", name)
        if match is None:
            continue
        number, kind = match.groups()
        at = f"blocks.{number}.attention.attention."
        parts = {word: result.pop(f"{at}{word}.{kind}", None) for word in ("query", "key", "value")}
        query, key, value = parts.values()
        if query is not None and key is not None and value is not None:
            result[f"blocks.{number}.attn.qkv.{kind}"] = torch.cat([query, key, value])
        elif kind == "bias" and query is not None and key is None and value is not None:
            result |= {f"blocks.{number}.attn.q_bias": query, f"blocks.{number}.attn.v_bias": value}
        else:
            missing = next(word for word, tensor in parts.items() if tensor is None)
            raise Misfit(f"the tensor '{at}{missing}.{kind}' is missing")
    return result


def _placed(state: State, target: Mapping[str, Tensor]) -> State:
    """With the position of the class token where the encoder has it: in the table, in the token, or nowhere."""
    result = dict(state)
    if "cls_token" not in target:
        result.pop("cls_token", None)
    table, wanted = result.get("pos_embed"), target.get("pos_embed")
    if table is not None and wanted is not None and table.ndim == 3 and table.shape[1] == wanted.shape[1] + 1:
        result["pos_embed"] = table[:, 1:]
        if "cls_token" in result:
            result["cls_token"] = result["cls_token"] + table[:, :1]
    return result


LAYOUTS: dict[str, Layout] = {
    "dinov2": Layout(convert=dinov2),
    "transformers_vit": Layout(convert=transformers_vit),
    "mmpretrain_vit": Layout(convert=mmpretrain_vit),
    "eva": Layout(convert=eva, half=True),
    "simmim_vit": Layout(convert=simmim_vit),
    "lightly_vit": Layout(convert=lightly_vit),
    "swag": Layout(convert=swag),
    "mim_refiner": Layout(convert=mim_refiner),
    "data2vec2": Layout(convert=data2vec2),
    "aim": Layout(convert=aim, half=True),
    "radio": Layout(convert=radio, half=True),
    "vjepa": Layout(convert=vjepa),
    "capi": Layout(convert=capi, half=True),
}
