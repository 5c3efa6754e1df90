"""Files of vision transformers, nested, prefixed and pickled as the sources' own training scripts do it."""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .vit_names import (
    Shapes,
    State,
    batch_norm_shapes,
    block_shapes,
    filled,
    linear_shapes,
    norm_shapes,
    prefixed,
)

N_PROTOTYPES = 64  # 65536 and 8192 there, which would only make files large
SCALER = {
    "scale": 65536.0,
    "growth_factor": 2.0,
    "backoff_factor": 0.5,
    "growth_interval": 2000,
    "_growth_tracker": 1871,
}


def optimizer_state(weights: Mapping[str, Tensor], **groups: Any) -> dict[str, Any]:
    """Of a real AdamW after one step; the smallest parameters alone, for the moments double a file."""
    numbers = sorted((tensor for tensor in weights.values() if tensor.is_floating_point()), key=Tensor.numel)
    small = [tensor.clone().requires_grad_() for tensor in numbers[:8]]
    optimizer = torch.optim.AdamW([{"params": small[:4], **groups}, {"params": small[4:], "weight_decay": 0.0}])
    for parameter in small:
        parameter.grad = torch.full_like(parameter, 0.01)
    optimizer.step()
    return optimizer.state_dict()


def under(prefix: str, state: Mapping[str, Tensor]) -> State:
    return OrderedDict((prefix + name, tensor) for name, tensor in state.items())


def head_of_dino(width: int, *, last_layers: tuple[str, ...] = ("last_layer",)) -> Shapes:
    """Three linear layers and prototypes, whose lengths and directions are kept apart by weight normalisation."""
    shapes = linear_shapes("mlp.0", width, 128) | linear_shapes("mlp.2", 128, 128) | linear_shapes("mlp.4", 128, 32)
    for layer in last_layers:
        shapes |= {f"{layer}.weight_g": (N_PROTOTYPES, 1), f"{layer}.weight_v": (N_PROTOTYPES, 32)}
    return shapes


def dino_training(teacher: State, student: State, *, width: int, batch_norm: bool) -> dict[str, Any]:
    """``main_dino.py``: the student is always wrapped, the teacher only if it has BatchNorm to synchronise."""
    head = head_of_dino(width)
    in_student = under("backbone.", student) | filled(prefixed("head.", head), seed=11)
    in_teacher = under("backbone.", teacher) | filled(prefixed("head.", head), seed=12)
    return {
        "student": under("module.", in_student),
        "teacher": under("module.", in_teacher) if batch_norm else in_teacher,
        "optimizer": optimizer_state(in_student),
        "epoch": 800,
        "args": argparse.Namespace(arch="vit_small", patch_size=16, global_crops_scale=(0.25, 1.0), dist_url="env://"),
        "dino_loss": OrderedDict(center=torch.zeros(1, N_PROTOTYPES)),
        "fp16_scaler": SCALER,
    }


def ibot_released(weights: State, *, width: int, student: bool = False) -> dict[str, Any]:
    """The teacher with its head; a student also has the embedding of masked patches."""
    head = head_of_dino(width, last_layers=("last_layer", "last_layer2"))
    masked: Shapes = {"masked_embed": (1, width)} if student else {}
    return {"state_dict": weights | filled(prefixed("head.", head) | masked, seed=13)}


def ibot_training(teacher: State, student: State, *, width: int) -> dict[str, Any]:
    """``main_ibot.py``: DINO's, with masked patches in the student and a second centre in the loss."""
    head = prefixed("head.", head_of_dino(width, last_layers=("last_layer", "last_layer2")))
    in_student = under("backbone.", student | filled({"masked_embed": (1, width)}, seed=14)) | filled(head, seed=15)
    return {
        "student": under("module.", in_student),
        "teacher": under("backbone.", teacher) | filled(head, seed=16),
        "optimizer": optimizer_state(in_student),
        "epoch": 800,
        "args": argparse.Namespace(arch="vit_small", pred_ratio=[0.0, 0.3], shared_head=True, norm_in_head=None),
        "ibot_loss": OrderedDict(center=torch.zeros(1, N_PROTOTYPES), center2=torch.zeros(1, 1, N_PROTOTYPES)),
        "fp16_scaler": SCALER,
    }


def relation_block(width: int) -> Shapes:
    """What gathers an image's neighbours in Mugs: one more block."""
    at = "relation_blocks.0"
    return block_shapes(at, width, 4 * width) | linear_shapes(f"{at}.attn.qkv", width, 3 * width)


def mugs_released(weights: State, *, width: int) -> dict[str, Any]:
    return {"state_dict": weights | filled(relation_block(width), seed=17)}


def mugs_training(teacher: State, student: State, *, width: int) -> dict[str, Any]:
    """``main.py``: three heads, of which the student's two have predictors; memories; three losses by their names."""
    group = prefixed("group_head.", head_of_dino(width))
    group = {name.replace("head.mlp.", "head.projector."): shape for name, shape in group.items()}
    heads: Shapes = dict(group)
    predictors: Shapes = {}
    for head in ("instance_head", "local_group_head"):
        for layer, n_in, n_out in ((0, width, 128), (2, 128, 128), (4, 128, 32)):
            heads |= linear_shapes(f"{head}.projector.{layer}", n_in, n_out, bias=False)
        for layer, n_in, n_out in ((0, 32, 256), (2, 256, 32)):
            predictors |= linear_shapes(f"{head}.predictor.{layer}", n_in, n_out, bias=False)
    relation = relation_block(width)
    in_student = under("backbone.", student | filled(relation, seed=18)) | filled(heads | predictors, seed=19)
    memory = {f"block.queue_{part}": torch.zeros(16, width) for part in "qkv"}
    memory["block.queue_ptr"] = torch.zeros(1, dtype=torch.int64)
    return {
        "student": under("module.", in_student),
        "teacher": under("backbone.", teacher | filled(relation, seed=20)) | filled(heads, seed=21),
        "student_mem": OrderedDict(memory),
        "teacher_mem": OrderedDict(memory),
        "optimizer": optimizer_state(in_student, name="patch_embed", apply_wd=True),
        "epoch": 100,
        "args": argparse.Namespace(arch="vit_small", loss_weights=[1.0, 1.0, 1.0], ddpjob=False),
        "instance-sup.": OrderedDict(queue=torch.zeros(32, 16), queue_ptr=torch.zeros(1, dtype=torch.int64)),
        "local-group-sup.": OrderedDict(queue=torch.zeros(32, 16), queue_ptr=torch.zeros(1, dtype=torch.int64)),
        "group-sup.": OrderedDict(center=torch.zeros(1, N_PROTOTYPES)),
    }


def mae_decoder(*, width: int, n_tokens: int, patch_px: int) -> Shapes:
    shapes: Shapes = {"mask_token": (1, 1, 32), "decoder_pos_embed": (1, n_tokens, 32)}
    shapes |= linear_shapes("decoder_embed", width, 32) | linear_shapes("decoder_pred", 32, 3 * patch_px**2)
    for number in range(2):
        at = f"decoder_blocks.{number}"
        shapes |= block_shapes(at, 32, 128) | linear_shapes(f"{at}.attn.qkv", 32, 96)
    return shapes | norm_shapes("decoder_norm", 32)


def mae_training(weights: State, *, width: int, n_tokens: int, patch_px: int) -> dict[str, Any]:
    """``save_model`` of ``util/misc.py``: unwrapped, with the decoder next to the encoder."""
    model = weights | filled(mae_decoder(width=width, n_tokens=n_tokens, patch_px=patch_px), seed=22)
    arguments = argparse.Namespace(model="mae_vit_base_patch16", mask_ratio=0.75, norm_pix_loss=True, blr=1.5e-4)
    return {
        "model": OrderedDict(model),
        "optimizer": optimizer_state(model),
        "epoch": 1599,
        "scaler": SCALER,
        "args": arguments,
    }


def msn_training(target: State, anchor: State, *, width: int, wrapped: bool = True) -> dict[str, Any]:
    """``save_checkpoint`` of ``src/msn_train.py``; wrapped if there was more than one process."""
    head: Shapes = linear_shapes("fc.fc1", width, 128) | batch_norm_shapes("fc.bn1", 128)
    head |= linear_shapes("fc.fc2", 128, 128) | batch_norm_shapes("fc.bn2", 128) | linear_shapes("fc.fc3", 128, 32)
    prefix = "module." if wrapped else ""
    anchored = anchor | filled(head, seed=23)
    return {
        "encoder": under(prefix, anchored),
        "opt": optimizer_state(anchored, WD_exclude=True, LARS_exclude=True),
        "prototypes": torch.zeros(N_PROTOTYPES, 32),
        "target_encoder": under(prefix, target | filled(head, seed=24)),
        "epoch": 800,
        "loss": 5.71,
        "batch_size": 32,
        "world_size": 16 if wrapped else 1,
        "lr": 0.001,
        "temperature": 0.1,
    }


def mocov3_training(base: State, momentum: State, *, width: int, wrapped: bool = True) -> dict[str, Any]:
    """``main_moco.py`` with a ViT: the projector stands where the classifier was."""
    head: Shapes = {}
    for layer, n_in, n_out in ((0, width, 128), (3, 128, 128), (6, 128, 32)):
        head |= linear_shapes(f"head.{layer}", n_in, n_out, bias=False)
        head |= batch_norm_shapes(f"head.{layer + 1}", n_out, affine=layer < 6)
    predictor = linear_shapes("predictor.0", 32, 128, bias=False) | batch_norm_shapes("predictor.1", 128)
    predictor |= linear_shapes("predictor.3", 128, 32, bias=False) | batch_norm_shapes("predictor.4", 32, affine=False)
    model = under("base_encoder.", base | filled(head, seed=25))
    model |= under("momentum_encoder.", momentum | filled(head, seed=26)) | filled(predictor, seed=27)
    return {
        "epoch": 300,
        "arch": "vit_small",
        "state_dict": under("module." if wrapped else "", model),
        "optimizer": optimizer_state(model),
        "scaler": SCALER,
    }


def beit_training(weights: State) -> dict[str, Any]:
    """``save_model`` of ``utils.py``; the released files hold ``model`` alone."""
    return {
        "model": OrderedDict(weights),
        "optimizer": optimizer_state(weights, lr_scale=1.0),
        "epoch": 799,
        "scaler": SCALER,
        "args": argparse.Namespace(model="beit_base_patch16_224_8k_vocab", rel_pos_bias=True, opt_betas=[0.9, 0.98]),
    }


def beit_of_deepspeed(weights: State) -> dict[str, Any]:
    """What DeepSpeed's engine saves in place of that."""
    return {"module": OrderedDict(weights), "lr_scheduler": None, "global_steps": 5, "dp_world_size": 16, "epoch": 799}
