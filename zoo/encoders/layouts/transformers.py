"""Layouts of transformers that were trained on images alone: ViTs under timm's names or their own, and Swins."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..vit_models import turns
from .steps import (
    Layout,
    Misfit,
    State,
    below,
    fused,
    holds,
    layouts,
    nested,
    renamed,
    require_none,
    state_dict,
    unwrapped,
    without,
)


def dino(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released backbone; or the training script's checkpoint, of which the authors evaluate the teacher.

    Source: facebookresearch/dino, ``main_dino.py`` and ``MultiCropWrapper`` in ``utils.py``. Only the teacher of a
    network with BatchNorm is wrapped for distributed training.
    """
    return _teacher(content, "head.") if holds(content, "teacher") else state_dict(content)


def ibot(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released teacher or student with its head; a backbone that the authors' script extracted; or a full checkpoint.

    Source: bytedance/ibot, ``main_ibot.py`` and ``extract_backbone_weights.py``. A student has, beyond its teacher, the
    embedding that it sees in place of a masked patch.
    """
    if holds(content, "teacher"):
        return _teacher(content, "head.")
    state = state_dict(content, "state_dict")
    return without(state, "head.", "masked_embed")


def mugs(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released teacher; a backbone that the authors' script extracted; or a full checkpoint.

    The relation block gathers an image's neighbours during training and plays no part in its own features. Source:
    sail-sg/mugs, ``main.py``, ``src/model.py`` and ``extract_backbone_weights_for_finetuning.py``.
    """
    if holds(content, "teacher"):
        state = _teacher(content, "instance_head.", "local_group_head.", "group_head.")
    else:
        state = state_dict(content, "state_dict")
    return without(state, "relation_blocks.")


def mae(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released encoder, with or without its decoder; the training script's checkpoint; or timm's copy, which is flat.

    Source: facebookresearch/mae, ``models_mae.py`` and ``save_model`` in ``util/misc.py``, which unwraps the model.
    """
    state = state_dict(content, "model")
    return without(state, "decoder_", "mask_token")


def msn(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/msn, ``src/msn_train.py``, which sets the projection head as ``fc`` and may set ``pred``.
    """
    return without(unwrapped(state_dict(nested(content, "target_encoder"))), "fc.", "pred.")


def ijepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/ijepa, ``src/train.py``; the positions are in the file, though they are not trained.
    """
    return unwrapped(state_dict(nested(content, "target_encoder")))


def beit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released or saved BEiT or BEiT-v2 after pretraining; DeepSpeed puts it under ``module``.

    One table of relative position biases serves all blocks there, and is copied to each, for that is how timm and the
    authors' fine-tuning hold it. Fine-tuned files have a table a block, and are refused for their classifier. Source:
    microsoft/unilm, ``modeling_pretrain.py``, ``utils.py`` and ``run_class_finetuning.py`` of beit and beit2.
    """
    state = state_dict(nested(content, "module" if holds(content, "module") else "model"))
    state = without(state, "mask_token", "lm_head.", "cls_pt_layers.", "cls_pt_norm.", "cls_pt_lm_head.")
    return shared_positions(state, target)


def shared_positions(state: State, target: Mapping[str, Tensor]) -> State:
    """A table of relative positions that all blocks share, copied to each block that the encoder has one for."""
    name_of_shared = "rel_pos_bias.relative_position_bias_table"
    result = without(state, endings=("relative_position_index",))
    shared = result.pop(name_of_shared, None)
    if shared is not None:
        for name in target:
            if name.endswith(".relative_position_bias_table"):
                if name in result:
                    raise Misfit(f"found {name_of_shared!r} and {name!r}, expected one of them")
                result[name] = shared.clone()  # tensors of a state dict may not share memory
    return result


def _teacher(content: Any, *heads: str) -> State:
    return below(unwrapped(state_dict(nested(content, "teacher"))), "backbone.", beside=heads)


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
        (_BLOCK + r"attention\.attention\.([qkv])\w*\.", r"blocks.\1.split.\2."),
        (_BLOCK + r"attention\.output\.dense\.", r"blocks.\1.attn.proj."),
        (_BLOCK + r"intermediate\.dense\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"output\.dense\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"mlp\.weights_in\.", r"blocks.\1.mlp.fc1."),
        (_BLOCK + r"mlp\.weights_out\.", r"blocks.\1.mlp.fc2."),
        (_BLOCK + r"layer_scale([12])\.lambda1$", r"blocks.\1.ls\2.gamma"),
        (_BLOCK + r"lambda_([12])$", r"blocks.\1.gamma_\2"),
    )
    return _placed(shared_positions(fused(state), target), target)


def mmpretrain_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of MMSelfSup 1.x or MMPretrain, which is what was released.

    The parts that fuse the outputs of blocks during MFF's training, and the mask token, are no part of the encoder.
    Source: open-mmlab/mmpretrain, ``backbones/vision_transformer.py``, ``backbones/beit.py`` and ``selfsup``.
    """
    beside = ("neck.", "head.", "target_generator.", "teacher.", "momentum_encoder.", "data_preprocessor.")
    state = below(unwrapped(state_dict(nested(content, "state_dict"))), "backbone.", beside=beside)
    state = without(state, "mask_token", "proj_layers.", "proj_weights")
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


def torchvision_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's vision transformers, for timm's, which are the same networks.

    Source: torchvision, ``models/vision_transformer.py``, whose first version named the two layers of an MLP.
    """
    block = r"^encoder\.layers\.(?:encoder_)?layer_(\d+)\."
    return renamed(
        without(state_dict(content), "heads."),
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


def swag(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released vision transformer of SWAG, with its classifier or without. Source: facebookresearch/SWAG, ``models``.

    It is the network of torchvision with positions first in their tensor.
    """
    state = torchvision_vit(without(state_dict(content), "head."), target=target)
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


def sam(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """SAM's image tower, from its own file or from one of micro-sam, with a decoder of its own or without.

    Source: facebookresearch/segment-anything, ``modeling``; computational-cell-analytics/micro-sam, ``util.py``.
    """
    content = nested(content, "model_state") if holds(content, "model_state") else content
    state = renamed(state_dict(content), (r"^sam\.", ""))
    tower = below(state, "image_encoder.", beside=("prompt_encoder.", "mask_decoder."))
    return renamed(tower, (r"\.mlp\.lin([12])\.", r".mlp.fc\1."))


def vjepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint of V-JEPA, which is what was released; the target encoder is what is probed.

    Of V-JEPA 2.1, whose students have an average over time in its place, the parts for videos are left out. It turns
    pairs of neighbouring channels, which are put half a head apart here; what marks an image is added to its patches.
    Source: facebookresearch/jepa, ``evals/image_classification_frozen/eval.py`` and ``MultiMaskWrapper``;
    facebookresearch/vjepa2, ``src/hub/backbones.py`` and ``app/vjepa_2_1/models``.
    """
    key = "ema_encoder" if holds(content, "ema_encoder") else "target_encoder"
    state = renamed(state_dict(nested(content, key)), (r"^module\.", ""), (r"^backbone\.", ""))
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
    state = renamed(without(state, "patch_embed.", "video_mod_embed"), (r"^norms_block\.3\.", "norm."))
    return without(state, "norms_block.") | {
        "patch_embed.proj.weight": kernel.squeeze(2),  # (width, 3, 1 frame, px, px)
        "patch_embed.proj.bias": bias + mark.flatten(),
    }


def pixio(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released Pixio, of whose eight class tokens seven are timm's registers.

    Source: facebookresearch/pixio, ``pixio/pixio.py``.
    """
    state = state_dict(content)
    tokens = state.get("cls_token")
    if tokens is None or tokens.ndim != 3:
        raise Misfit("'cls_token' is missing or no row of tokens")
    return state | {"cls_token": tokens[:, :1], "reg_token": tokens[:, 1:]}


def capi(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released CAPI, whose predictor and clusters are left out. Source: facebookresearch/capi, ``model.py``.

    The rates of its rotary positions are stored with every block, and were not trained; others than CAPI's are refused.
    """
    whole = state_dict(content)
    inner = {name.removeprefix("backbone."): tensor for name, tensor in whole.items() if name.startswith("backbone.")}
    state = without(inner or whole, "decoder.", "mask_token")
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
        (_BLOCK + r"residual1\.fn\.([qkv])_proj\.", r"blocks.\1.split.\2."),
        (_BLOCK + r"residual2\.fn\.", r"blocks.\1.mlp."),
    )
    if "reg_token" in state and state["reg_token"].ndim == 2:
        state["reg_token"] = state["reg_token"][None]
    return fused(state)


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


def simmim(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, whose decoder is a convolution. Source: microsoft/SimMIM, ``models/simmim.py``."""
    state = below(unwrapped(state_dict(nested(content, "model"))), "encoder.", beside=("decoder.",))
    return original_swin(without(state, "mask_token"))


def moby(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint, of a Swin or a DeiT; the online encoder is what is evaluated.

    Source: SwinTransformer/Transformer-SSL, ``models/moby.py`` and ``moby_main.py``.
    """
    heads = ("encoder_k.", "projector.", "projector_k.", "predictor.", "queue")
    return original_swin(below(unwrapped(state_dict(nested(content, "model"))), "encoder.", beside=heads))


def esvit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A training's checkpoint; the teacher is what is evaluated. A ResNet-50 is wrapped twice, a Swin is not.

    Source: microsoft/esvit, ``main_esvit.py`` and ``MultiCropWrapper`` in ``utils.py``.
    """
    state = without(unwrapped(state_dict(nested(content, "teacher"))), "head.", "head_dense.")
    if any(name.startswith("backbone.") for name in state):
        return below(state, "backbone.backbone.")
    return original_swin(state)


def ibot_swin(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """As iBOT's other files. Source: bytedance/ibot, ``models/swin_transformer.py``."""
    return original_swin(ibot(content, target=target))


def ctranspath(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The released file. Source: Xiyue-Wang/TransPath, ``get_features_CTransPath.py``, for an early timm."""
    return original_swin(unwrapped(state_dict(nested(content, "model"))))


def original_swin(state: State) -> State:
    """timm's names for those of the original Swin, without a classifier."""
    state = without(state, "head.", "fc.", endings=("position_index", "attn_mask"))
    merges = sorted({name.split(".")[1] for name in state if ".downsample." in name})
    if merges and "0" not in merges:
        raise Misfit(f"found 'layers.{merges[0]}.downsample' without 'layers.0.downsample', expected an original Swin")
    return {_next_stage(name): tensor for name, tensor in state.items()}


def _next_stage(name: str) -> str:
    parts = name.split(".")
    if parts[0] in ("layers", "stages") and parts[2:3] == ["downsample"]:
        parts[1] = str(int(parts[1]) + 1)
    return ".".join(parts)


def satlas(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released model: a backbone of torchvision, wrapped once or more, beside a feature pyramid and heads of tasks.

    Source: allenai/satlaspretrain_models, ``adjust_state_dict_prefix`` in ``utils.py`` and ``models/backbones.py``.
    """
    state = below(unwrapped(state_dict(content)), "backbone.", beside=("intermediates.", "heads.", "head."))
    while any(name.startswith("backbone.") for name in state):
        state = below(state, "backbone.")
    if any(name.startswith("resnet.") for name in state):
        state = below(state, "resnet.")
    return without(state, "fc.", "head.", "norm.")


def mmpretrain_swin(state: State) -> State:
    """timm's names for OpenMMLab's Swin, which gathers the four patches of a merge in another order; or its MixMIM."""
    state = renamed(
        without(state, "mask_token", endings=("position_index",)),
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
    **layouts(dino, ibot, mugs, mae, msn, ijepa, beit),
    **layouts(dinov2, transformers_vit, mmpretrain_vit, simmim_vit, lightly_vit),
    **layouts(torchvision_vit, swag, mim_refiner, data2vec2, vjepa, pixio, sam),
    **layouts(simmim, moby, esvit, ibot_swin, ctranspath, satlas),
    **layouts(eva, aim, radio, capi, half=True),
}
