"""Layouts of transformers that were trained on images alone: ViTs under timm's names or their own, and Swins."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .steps import (
    Layout,
    Misfit,
    State,
    build_layouts,
    drop_tensors,
    fuse_qkv,
    get_nested,
    has_nested,
    rename_tensors,
    require_none,
    require_state_dict,
    strip_ddp_prefix,
    strip_prefix,
)


def convert_dino(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone; or the training script's checkpoint, of which the authors evaluate the teacher.

    Source: facebookresearch/dino, ``main_dino.py`` and ``MultiCropWrapper`` in ``utils.py``. Only the teacher of a
    network with BatchNorm is wrapped for distributed training.
    """
    return _teacher(content, "head.") if has_nested(content, "teacher") else require_state_dict(content)


def convert_ibot(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released teacher or student with its head; a backbone that the authors' script extracted; or a full checkpoint.

    Source: bytedance/ibot, ``main_ibot.py`` and ``extract_backbone_weights.py``. A student has, beyond its teacher, the
    embedding that it sees in place of a masked patch.
    """
    if has_nested(content, "teacher"):
        return _teacher(content, "head.")
    state = require_state_dict(content, "state_dict")
    return drop_tensors(state, "head.", "masked_embed")


def convert_mugs(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released teacher; a backbone that the authors' script extracted; or a full checkpoint.

    The relation block gathers an image's neighbours during training and plays no part in its own features. Source:
    sail-sg/mugs, ``main.py``, ``src/model.py`` and ``extract_backbone_weights_for_finetuning.py``.
    """
    if has_nested(content, "teacher"):
        state = _teacher(content, "instance_head.", "local_group_head.", "group_head.")
    else:
        state = require_state_dict(content, "state_dict")
    return drop_tensors(state, "relation_blocks.")


def convert_mae(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released encoder, with or without its decoder; the training script's checkpoint; or timm's copy, which is flat.

    Source: facebookresearch/mae, ``models_mae.py`` and ``save_model`` in ``util/misc.py``, which unwraps the model.
    """
    state = require_state_dict(content, "model")
    return drop_tensors(state, "decoder_", "mask_token")


def convert_msn(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/msn, ``src/msn_train.py``, which sets the projection head as ``fc`` and may set ``pred``.
    """
    return drop_tensors(strip_ddp_prefix(require_state_dict(get_nested(content, "target_encoder"))), "fc.", "pred.")


def convert_ijepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/ijepa, ``src/train.py``; the positions are in the file, though they are not trained.
    """
    return strip_ddp_prefix(require_state_dict(get_nested(content, "target_encoder")))


def convert_beit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released or saved BEiT or BEiT-v2 after pretraining; DeepSpeed puts it under ``module``.

    One table of relative position biases serves all blocks there, and is copied to each, for that is how timm and the
    authors' fine-tuning hold it. Fine-tuned files have a table a block, and are refused for their classifier. Source:
    microsoft/unilm, ``modeling_pretrain.py``, ``utils.py`` and ``run_class_finetuning.py`` of beit and beit2.
    """
    state = require_state_dict(get_nested(content, "module" if has_nested(content, "module") else "model"))
    state = drop_tensors(state, "mask_token", "lm_head.", "cls_pt_layers.", "cls_pt_norm.", "cls_pt_lm_head.")
    return copy_shared_positions(state, target)


def copy_shared_positions(state: State, target: Mapping[str, Tensor]) -> State:
    """A table of relative positions that all blocks share, copied to each block that the encoder has one for."""
    name_of_shared = "rel_pos_bias.relative_position_bias_table"
    result = drop_tensors(state, endings=("relative_position_index",))
    shared = result.pop(name_of_shared, None)
    if shared is not None:
        for name in target:
            if name.endswith(".relative_position_bias_table"):
                if name in result:
                    raise Misfit(f"found {name_of_shared!r} and {name!r}, expected one of them")
                result[name] = shared.clone()  # tensors of a state dict may not share memory
    return result


def _teacher(content: Any, *heads: str) -> State:
    return strip_prefix(strip_ddp_prefix(require_state_dict(get_nested(content, "teacher"))), "backbone.", beside=heads)


_BLOCK = r"^blocks\.(\d+)\."


def convert_dinov2(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A backbone of DINOv2's code, alone or with the heads of its training; or a student that such a backbone teaches.

    Blocks may be in chunks, each of which counts them from the start of the network. A last norm that the encoder has
    not is one that the training did not reach. Source: facebookresearch/dinov2, ``models/vision_transformer.py``;
    valeoai/Franca, ``hub/backbones.py``; naver/unic and naver/dune, ``load_student_encoder_from_checkpoint``.
    """
    if has_nested(content, "teacher"):
        state = strip_ddp_prefix(require_state_dict(get_nested(content, "teacher")))
        state = strip_prefix(state, "backbone.", beside=("dino_head.", "ibot_head."))
    elif has_nested(content, "model"):
        state = rename_tensors(require_state_dict(get_nested(content, "model")), (r"^(module\.|_orig_mod\.)+", ""))
        state = strip_prefix(state, "encoder.", beside=("lp.", "projectors.", "teacher_norms."))
        state = rename_tensors(state, (r"^_orig_mod\.", ""))
    else:
        state = require_state_dict(content)
    state = rename_tensors(
        drop_tensors(state, "mask_token"),
        (r"^blocks\.\d+\.(\d+)\.", r"blocks.\1."),
        (r"\.mlp\.w12\.", ".mlp.fc1."),
        (r"\.mlp\.w3\.", ".mlp.fc2."),
        (r"^register_tokens$", "reg_token"),
    )
    return _placed(state if "norm.weight" in target else drop_tensors(state, "norm."), target)


def convert_transformers_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """Vision transformers of transformers: ViT, DeiT, BEiT and its like, DINOv2 with or without registers; Theia's.

    Source: huggingface/transformers, ``modeling_vit.py``, ``modeling_data2vec_vision.py``, ``modeling_dinov2.py`` and
    ``modeling_dinov2_with_registers.py``; theaiinstitute/theia, ``models/backbones.py``.
    """
    state = require_state_dict(content)
    if any(name.startswith("backbone.model.") for name in state):
        state = strip_prefix(state, "backbone.model.", beside=("translator.",))
    state = rename_tensors(state, (r"^(vit|deit|dinov2|data2vec_vision)\.(?=embeddings|encoder|layernorm|pooler)", ""))
    state = drop_tensors(state, "pooler.", "classifier.", "embeddings.mask_token")
    state = rename_tensors(
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
        (_BLOCK + r"attention\.attention\.([qkv])\w*\.", r"blocks.\1.split.\2."),
        (_BLOCK + r"attention\.output\.dense\.", r"blocks.\1.attn.proj."),
        (_BLOCK + r"intermediate\.dense\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"output\.dense\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"mlp\.weights_in\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"mlp\.weights_out\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"layer_scale([12])\.lambda1$", r"blocks.\1.ls\2.gamma"),
        (_BLOCK + r"lambda_([12])$", r"blocks.\1.gamma_\2"),
    )
    return _placed(copy_shared_positions(fuse_qkv(state), target), target)


def convert_mmpretrain_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MMSelfSup 1.x or MMPretrain, which is what was released.

    The parts that fuse the outputs of blocks during MFF's training, and the mask token, are no part of the encoder.
    Source: open-mmlab/mmpretrain, ``backbones/vision_transformer.py``, ``backbones/beit.py`` and ``selfsup``.
    """
    beside = ("neck.", "head.", "target_generator.", "teacher.", "momentum_encoder.", "data_preprocessor.")
    state = strip_prefix(
        strip_ddp_prefix(require_state_dict(get_nested(content, "state_dict"))), "backbone.", beside=beside
    )
    state = drop_tensors(state, "mask_token", "proj_layers.", "proj_weights")
    state = rename_tensors(
        state,
        (r"^layers\.(\d+)\.", r"blocks.\1."),
        (_BLOCK + r"ln([12])\.", r"blocks.\1.norm\2."),
        (_BLOCK + r"ffn\.layers\.0\.0\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"ffn\.layers\.1\.", r"blocks.\1.mlp.fc2."),
        (r"^ln1\.", "norm."),
        (r"^patch_embed\.projection\.", "patch_embed.proj."),
    )
    return copy_shared_positions(state, target)


def convert_eva(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released EVA after masked image modelling, or after its fine-tuning, whose classifier is left out.

    It has the names of BEiT, in half precision. Source: baaivision/EVA, ``modeling_pretrain.py`` and
    ``modeling_finetune.py`` of EVA-01.
    """
    return drop_tensors(convert_beit(content, target=target), "head.", "decoder_")


def convert_simmim_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of SimMIM on a vision transformer, which has the names of BEiT.

    Source: microsoft/SimMIM, ``models/simmim.py`` and ``models/vision_transformer.py``.
    """
    state = strip_prefix(
        strip_ddp_prefix(require_state_dict(get_nested(content, "model"))), "encoder.", beside=("decoder.",)
    )
    return copy_shared_positions(drop_tensors(state, "mask_token"), target)


def convert_lightly_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A checkpoint of lightly's benchmarks, whose backbones are timm's; the teacher is evaluated where there is one.

    Source: lightly-ai/lightly, ``benchmarks/imagenet/vitb16`` and ``masked_vision_transformer_timm.py``.
    """
    state = require_state_dict(get_nested(content, "state_dict"))
    prefix = "teacher_backbone." if any(name.startswith("teacher_backbone.") for name in state) else "backbone."
    inner = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    if not inner:
        raise Misfit(f"found no tensor whose name starts with {prefix!r}")
    return drop_tensors(rename_tensors(inner, (r"^vit\.", "")), "mask_token", "head.")


def convert_torchvision_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's vision transformers, for timm's, which are the same networks.

    Source: torchvision, ``models/vision_transformer.py``, whose first version named the two layers of an MLP.
    """
    block = r"^encoder\.layers\.(?:encoder_)?layer_(\d+)\."
    return rename_tensors(
        drop_tensors(require_state_dict(content), "heads."),
        (r"^class_token$", "cls_token"),
        (r"^encoder\.pos_embedding$", "pos_embed"),
        (r"^conv_proj\.", "patch_embed.proj."),
        (r"^encoder\.ln\.", "norm."),
        (block + r"ln_([12])\.", r"blocks.\1.norm\2."),
        (block + r"self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
        (block + r"self_attention\.out_proj\.", r"blocks.\1.attn.proj."),
        (block + r"mlp\.(?:linear_1|0)\.", r"blocks.\1.mlp.fc1."),
        (block + r"mlp\.(?:linear_2|3)\.", r"blocks.\1.mlp.fc2."),
    )


def convert_swag(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released vision transformer of SWAG, with its classifier or without. Source: facebookresearch/SWAG, ``models``.

    It is the network of torchvision with positions first in their tensor.
    """
    state = convert_torchvision_vit(drop_tensors(require_state_dict(content), "head."), target=target)
    if "pos_embed" in state:
        state["pos_embed"] = state["pos_embed"].transpose(0, 1)  # (tokens, 1, width) -> (1, tokens, width)
    return state


def convert_mim_refiner(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released refined encoder. Source: ml-jku/MIM-Refiner, ``hub``; BenediktAlkin/KappaModules, ``vit``.

    Positions are a map, without one for the class token; those of data2vec 2.0 have their norms after each branch.
    """
    state = rename_tensors(
        require_state_dict(get_nested(content, "state_dict")),
        (r"^cls_tokens\.tokens$", "cls_token"),
        (r"^pos_embed\.embed$", "pos_embed"),
        (r"^embed_norm\.", "norm_pre."),
    )
    if "pos_embed" in state and state["pos_embed"].ndim == 4:
        state["pos_embed"] = state["pos_embed"].flatten(1, 2)  # (1, rows, columns, width) -> (1, patches, width)
    return state


def convert_data2vec2(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released data2vec 2.0 of images, of which the student is taken; or one that was fine-tuned.

    The first blocks may belong to the encoder of the modality. Source: facebookresearch/fairseq,
    ``data2vec/models/data2vec2.py``, ``modalities/images.py`` and ``mae_image_classification.py``.
    """
    model = get_nested(content, "model")
    if isinstance(model, Mapping):
        model = {name: value for name, value in model.items() if name != "_ema"}  # the teacher, a state dict in it
    state = require_state_dict(model)
    if any(name.startswith("model.") for name in state):
        state = {name.removeprefix("model."): tensor for name, tensor in drop_tensors(state, "head.").items()}
    here = "modality_encoders.IMAGE."
    state = drop_tensors(
        state, f"{here}decoder.", f"{here}alibi", f"{here}encoder_mask", "recon_proj.", "shared_decoder.", "center"
    )
    first = rf"^{re.escape(here)}context_encoder\.blocks\.(\d+)\."
    n_first = len({match[1] for name in state if (match := re.match(first, name))})
    state = {
        re.sub(_BLOCK, lambda match: f"blocks.{int(match[1]) + n_first}.", name): tensor
        for name, tensor in state.items()
    }
    return rename_tensors(
        state,
        (first, r"blocks.\1."),
        (rf"^{re.escape(here)}extra_tokens$", "cls_token"),
        (rf"^{re.escape(here)}fixed_positional_encoder\.(positions|pos_embed)$", "pos_embed"),
        (rf"^{re.escape(here)}local_encoder\.proj\.", "patch_embed.proj."),
        (rf"^{re.escape(here)}context_encoder\.norm\.", "norm_pre."),
    )


def convert_aim(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released trunk of AIM or AIMv2, whose head is another file or is left out.

    Positions are sines and cosines that are computed for the size of the image; those of the encoder's own size are.
    Source: apple/ml-aim, ``aim/v1/torch`` and ``aim/v2/torch``.
    """
    state = drop_tensors(require_state_dict(content), "head.", "mask_token")
    state = rename_tensors(
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


def convert_radio(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released RADIO without heads and adaptors. Source: NVlabs/RADIO, ``hubconf.py``, ``vit_patch_generator.py``.

    One table of positions, for 2048 pixels, is scaled to the size of the image; to the encoder's own size, here. Class
    tokens of several teachers are followed by registers; all but the first are registers of timm's network.
    """
    whole = require_state_dict(
        get_nested(content, "state_dict_ema" if has_nested(content, "state_dict_ema") else "state_dict")
    )
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


def convert_sam(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """SAM's image tower, from its own file or from one of micro-sam, with a decoder of its own or without.

    Source: facebookresearch/segment-anything, ``modeling``; computational-cell-analytics/micro-sam, ``util.py``.
    """
    content = get_nested(content, "model_state") if has_nested(content, "model_state") else content
    state = rename_tensors(require_state_dict(content), (r"^sam\.", ""))
    tower = strip_prefix(state, "image_encoder.", beside=("prompt_encoder.", "mask_decoder."))
    return rename_tensors(tower, (r"\.mlp\.lin([12])\.", r".mlp.fc\1."))


def convert_vjepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of V-JEPA, which is what was released; the target encoder is what is probed.

    Of V-JEPA 2.1, whose students have an average over time in its place, the parts for videos are left out. It turns
    pairs of neighbouring channels, which are put half a head apart here; what marks an image is added to its patches.
    Source: facebookresearch/jepa, ``evals/image_classification_frozen/eval.py`` and ``MultiMaskWrapper``;
    facebookresearch/vjepa2, ``src/hub/backbones.py`` and ``app/vjepa_2_1/models``.
    """
    key = "ema_encoder" if has_nested(content, "ema_encoder") else "target_encoder"
    state = rename_tensors(require_state_dict(get_nested(content, key)), (r"^module\.", ""), (r"^backbone\.", ""))
    if "img_mod_embed" not in state:
        return state
    frame = ("patch_embed_img.proj.weight", "patch_embed_img.proj.bias")
    missing = [name for name in frame if name not in state]
    require_none(("is missing", missing))
    kernel, bias, mark = (state.pop(name) for name in (*frame, "img_mod_embed"))
    apart = torch.arange(64).reshape(32, 2).T.flatten()  # all sizes have heads of 64 channels
    for name, tensor in state.items():
        if ".attn.qkv." in name and len(tensor) % (3 * 64) == 0:
            heads = tensor.reshape(3, -1, 64, *tensor.shape[1:])  # of queries, keys and values
            state[name] = torch.cat((heads[:2, :, apart], heads[2:])).flatten(0, 2)
    state = rename_tensors(drop_tensors(state, "patch_embed.", "video_mod_embed"), (r"^norms_block\.3\.", "norm."))
    return drop_tensors(state, "norms_block.") | {
        "patch_embed.proj.weight": kernel.squeeze(2),  # (width, 3, 1 frame, px, px)
        "patch_embed.proj.bias": bias + mark.flatten(),
    }


def convert_pixio(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released Pixio, of whose eight class tokens seven are timm's registers.

    Source: facebookresearch/pixio, ``pixio/pixio.py``.
    """
    state = require_state_dict(content)
    tokens = state.get("cls_token")
    if tokens is None or tokens.ndim != 3:
        raise Misfit("'cls_token' is missing or no row of tokens")
    return state | {"cls_token": tokens[:, :1], "reg_token": tokens[:, 1:]}


def convert_capi(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released CAPI, whose predictor and clusters are left out. Source: facebookresearch/capi, ``model.py``.

    The rates of its rotary positions are stored with every block, and were not trained; others than CAPI's are refused.
    """
    from ..vit_models import compute_rotations  # timm, which few layouts need

    whole = require_state_dict(content)
    inner = {name.removeprefix("backbone."): tensor for name, tensor in whole.items() if name.startswith("backbone.")}
    state = drop_tensors(inner or whole, "decoder.", "mask_token")
    for name in [name for name in state if name.endswith(".rope.freqs")]:
        rates = state.pop(name)
        if rates.ndim != 2 or not torch.allclose(rates.float(), compute_rotations(rates.shape[-1]), rtol=1e-2):
            raise Misfit(f"{name!r} has other rates than CAPI's rotary positions")
    state = rename_tensors(
        state,
        (r"^registers$", "reg_token"),
        (r"^patch_embed\.", "patch_embed.proj."),
        (r"^encoder\.blocks\.(\d+)\.", r"blocks.\1."),
        (_BLOCK + r"residual([12])\.norm\.", r"blocks.\1.norm\2."),
        (_BLOCK + r"residual1\.fn\.proj\.", r"blocks.\1.attn.proj."),
        (_BLOCK + r"residual1\.fn\.([qkv])_proj\.", r"blocks.\1.split.\2."),
        (_BLOCK + r"residual2\.fn\.", r"blocks.\1.mlp."),
    )
    if "reg_token" in state and state["reg_token"].ndim == 2:
        state["reg_token"] = state["reg_token"][None]
    return fuse_qkv(state)


def _waves(*, n: int, width: int) -> Tensor:
    """Sines and cosines of the column, then of the row, of a square of patches; float32 (1, n, width)."""
    side = round(n**0.5)
    if side * side != n or width % 4:
        raise Misfit(f"found positions for {n} patches of {width} channels, expected a square and a multiple of 4")
    rates = 1.0 / 10_000 ** (torch.arange(width // 4, dtype=torch.float32) / (width / 4))
    rows, columns = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    angles = [places.reshape(-1, 1) * rates for places in (columns, rows)]
    return torch.cat([wave for angle in angles for wave in (angle.sin(), angle.cos())], dim=1)[None]


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


def convert_simmim(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, whose decoder is a convolution. Source: microsoft/SimMIM, ``models/simmim.py``."""
    state = strip_prefix(
        strip_ddp_prefix(require_state_dict(get_nested(content, "model"))), "encoder.", beside=("decoder.",)
    )
    return rename_original_swin(drop_tensors(state, "mask_token"))


def convert_moby(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, of a Swin or a DeiT; the online encoder is what is evaluated.

    Source: SwinTransformer/Transformer-SSL, ``models/moby.py`` and ``moby_main.py``.
    """
    heads = ("encoder_k.", "projector.", "projector_k.", "predictor.", "queue")
    return rename_original_swin(
        strip_prefix(strip_ddp_prefix(require_state_dict(get_nested(content, "model"))), "encoder.", beside=heads)
    )


def convert_esvit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint; the teacher is what is evaluated. A ResNet-50 is wrapped twice, a Swin is not.

    Source: microsoft/esvit, ``main_esvit.py`` and ``MultiCropWrapper`` in ``utils.py``.
    """
    state = drop_tensors(strip_ddp_prefix(require_state_dict(get_nested(content, "teacher"))), "head.", "head_dense.")
    if any(name.startswith("backbone.") for name in state):
        return strip_prefix(state, "backbone.backbone.")
    return rename_original_swin(state)


def convert_ibot_swin(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """As iBOT's other files. Source: bytedance/ibot, ``models/swin_transformer.py``."""
    return rename_original_swin(convert_ibot(content, target=target))


def convert_ctranspath(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The released file. Source: Xiyue-Wang/TransPath, ``get_features_CTransPath.py``, for an early timm."""
    return rename_original_swin(strip_ddp_prefix(require_state_dict(get_nested(content, "model"))))


def rename_original_swin(state: State) -> State:
    """timm's names for those of the original Swin, without a classifier."""
    state = drop_tensors(state, "head.", "fc.", endings=("position_index", "attn_mask"))
    merges = sorted({name.split(".")[1] for name in state if ".downsample." in name})
    if merges and "0" not in merges:
        raise Misfit(f"found 'layers.{merges[0]}.downsample' without 'layers.0.downsample', expected an original Swin")
    return {_next_stage(name): tensor for name, tensor in state.items()}


def _next_stage(name: str) -> str:
    parts = name.split(".")
    if parts[0] in ("layers", "stages") and parts[2:3] == ["downsample"]:
        parts[1] = str(int(parts[1]) + 1)
    return ".".join(parts)


def convert_satlas(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released model: a backbone of torchvision, wrapped once or more, with a feature pyramid and heads of tasks.

    Source: allenai/satlaspretrain_models, ``adjust_state_dict_prefix`` in ``utils.py`` and ``models/backbones.py``.
    """
    state = strip_prefix(
        strip_ddp_prefix(require_state_dict(content)), "backbone.", beside=("intermediates.", "heads.", "head.")
    )
    while any(name.startswith("backbone.") for name in state):
        state = strip_prefix(state, "backbone.")
    if any(name.startswith("resnet.") for name in state):
        state = strip_prefix(state, "resnet.")
    return drop_tensors(state, "fc.", "head.", "norm.")


def rename_mmpretrain_swin(state: State) -> State:
    """timm's names for OpenMMLab's Swin, which gathers the four patches of a merge in another order; or its MixMIM."""
    state = rename_tensors(
        drop_tensors(state, "mask_token", endings=("position_index",)),
        (r"^stages\.", "layers."),
        (r"^patch_embed\.projection\.", "patch_embed.proj."),
        (r"^absolute_pos_embed$", "patch_embed.norm.positions"),
        (r"\.ln([12])\.", r".norm\1."),
        (r"\.attn\.w_msa\.", ".attn."),
        (r"\.ffn\.layers\.0\.0\.", ".mlp.fc1."),
        (r"\.ffn\.layers\.1\.", ".mlp.fc2."),
        (r"^norm3\.", "norm."),
    )
    merged = {name: _patch_first(tensor) if ".downsample." in name else tensor for name, tensor in state.items()}
    positions = "patch_embed.norm.positions"
    if positions in merged:
        side = round(merged[positions].shape[1] ** 0.5)
        merged[positions] = merged[positions].reshape(1, side, side, -1)  # rows, columns, channels
    return {_next_stage(name): tensor for name, tensor in merged.items()}


def _patch_first(tensor: Tensor) -> Tensor:
    """Channels in the last dimension by patch rather than patches by channel: (row, column) 00, 10, 01, 11."""
    patches = tensor.reshape(*tensor.shape[:-1], -1, 4)  # (..., channels, patches row by row)
    return patches[..., [0, 2, 1, 3]].transpose(-1, -2).reshape(tensor.shape)


LAYOUTS: dict[str, Layout] = {
    **build_layouts(convert_dino, convert_ibot, convert_mugs, convert_mae, convert_msn, convert_ijepa, convert_beit),
    **build_layouts(
        convert_dinov2, convert_transformers_vit, convert_mmpretrain_vit, convert_simmim_vit, convert_lightly_vit
    ),
    **build_layouts(
        convert_torchvision_vit,
        convert_swag,
        convert_mim_refiner,
        convert_data2vec2,
        convert_vjepa,
        convert_pixio,
        convert_sam,
    ),
    **build_layouts(convert_simmim, convert_moby, convert_esvit, convert_ibot_swin, convert_ctranspath, convert_satlas),
    **build_layouts(convert_eva, convert_aim, convert_radio, convert_capi, half=True),
}
