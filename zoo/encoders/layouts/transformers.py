"""Layouts of vision transformers that were trained on images alone.

All of them name their tensors as timm does; they differ in where a file has them, and in what lies beside them. DINO's
files are of a ResNet-50 too, under torchvision's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, Misfit, State, below, holds, nested, state_dict, unwrapped, without


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
    state = state_dict(nested(content, "state_dict") if holds(content, "state_dict") else content)
    return without(state, "head.", "masked_embed")


def mugs(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released teacher; a backbone that the authors' script extracted; or a full checkpoint.

    The relation block gathers an image's neighbours during training and plays no part in its own features. Source:
    sail-sg/mugs, ``main.py``, ``src/model.py`` and ``extract_backbone_weights_for_finetuning.py``.
    """
    if holds(content, "teacher"):
        state = _teacher(content, "instance_head.", "local_group_head.", "group_head.")
    else:
        state = state_dict(nested(content, "state_dict") if holds(content, "state_dict") else content)
    return without(state, "relation_blocks.")


def mae(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """A released encoder, with or without its decoder; the training script's checkpoint; or timm's copy, which is flat.

    Source: facebookresearch/mae, ``models_mae.py`` and ``save_model`` in ``util/misc.py``, which unwraps the model.
    """
    state = state_dict(nested(content, "model") if holds(content, "model") else content)
    return without(state, "decoder_", "mask_token")


def msn(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/msn, ``src/msn_train.py``, which sets the projection head as ``fc`` and may set ``pred``.
    """
    return without(unwrapped(state_dict(nested(content, "target_encoder"))), "fc.", "pred.")


def ijepa(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The training script's checkpoint, which is what was released; the authors evaluate the target encoder.

    Source: facebookresearch/ijepa, ``src/train.py``; it has the positions too, though they are not trained.
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
    state = {name: tensor for name, tensor in state.items() if not name.endswith("relative_position_index")}
    return shared_positions(state, target)


def shared_positions(state: State, target: Mapping[str, Tensor]) -> State:
    """A table of relative positions that all blocks share, copied to each block that the encoder has one for."""
    name_of_shared, result = "rel_pos_bias.relative_position_bias_table", dict(state)
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


LAYOUTS: dict[str, Layout] = {
    "dino": Layout(convert=dino),
    "ibot": Layout(convert=ibot),
    "mugs": Layout(convert=mugs),
    "mae": Layout(convert=mae),
    "msn": Layout(convert=msn),
    "ijepa": Layout(convert=ijepa),
    "beit": Layout(convert=beit),
}
