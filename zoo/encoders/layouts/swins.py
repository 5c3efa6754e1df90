"""Layouts of Swin Transformers, whose authors merge patches at the end of a stage, where timm does at the start.

The names of the original Swin are shared by all but OpenMMLab. Tables of what follows from the window (which relative
position two patches have, which may see each other after a shift) lie in most files and are left out, for the network
computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, Misfit, State, below, nested, renamed, state_dict, unwrapped, without
from .transformers import ibot


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
    state = {name: tensor for name, tensor in state.items() if not name.endswith(("position_index", "attn_mask"))}
    merges = sorted({name.split(".")[1] for name in state if ".downsample." in name})
    if merges and "0" not in merges:
        raise Misfit(f"found 'layers.{merges[0]}.downsample' without 'layers.0.downsample', expected an original Swin")
    state = {name: tensor for name, tensor in state.items() if not name.startswith(("head.", "fc."))}
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
    state = without(state, "mask_token")
    state = {name: tensor for name, tensor in state.items() if not name.endswith("position_index")}
    state = renamed(
        state,
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
    "simmim": Layout(convert=simmim),
    "moby": Layout(convert=moby),
    "esvit": Layout(convert=esvit),
    "ibot_swin": Layout(convert=ibot_swin),
    "ctranspath": Layout(convert=ctranspath),
    "satlas": Layout(convert=satlas),
}
