"""Layouts of libraries: files that already have the names that are wanted, or other names for the same network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, State, below, renamed, state_dict, without


def torchvision(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's ResNets."""
    return without(state_dict(content), "fc.")


def torchvision_children(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """``nn.Sequential(*resnet.children())`` of torchvision's ResNets, with or without pool and classifier.

    The numbers are those of the children: 2 and 3 are activation and pool. Source: lightly, the examples for PyTorch
    Lightning.
    """
    stages = tuple((rf"^{number}\.", f"layer{number - 3}.") for number in (4, 5, 6, 7))
    return without(
        renamed(state_dict(content), (r"^0\.", "conv1."), (r"^1\.", "bn1."), *stages, (r"^9\.", "fc.")), "fc."
    )


def torchvision_vit(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's vision transformers, for timm's, which are the same networks.

    Source: torchvision, ``models/vision_transformer.py``, whose first version named the two layers of an MLP.
    """
    block = r"^encoder\.layers\.encoder_layer_(\d+)\."
    return without(
        renamed(
            state_dict(content),
            (r"^class_token$", "cls_token"),
            (r"^encoder\.pos_embedding$", "pos_embed"),
            (r"^conv_proj\.", "patch_embed.proj."),
            (r"^encoder\.ln\.", "norm."),
            (block + r"ln_([12])\.", r"blocks.\1.norm\2."),
            (block + r"self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
            (block + r"self_attention\.out_proj\.", r"blocks.\1.attn.proj."),
            (block + r"mlp\.(?:linear_1|0)\.", r"blocks.\1.mlp.fc1."),
            (block + r"mlp\.(?:linear_2|3)\.", r"blocks.\1.mlp.fc2."),
        ),
        "heads.",
    )


def timm(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """timm's own files, also of weights that timm has copied: the classifier's name depends on the architecture."""
    return without(state_dict(content), "fc.", "head.fc.", "head.weight", "head.bias")


def zoo(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The zoo's: the state dict of an encoder, or of its backbone alone where the pooling has no weights."""
    state = state_dict(content)
    if not any(name.startswith("backbone.") for name in state):
        return state
    pooling = {name: tensor for name, tensor in state.items() if name.startswith("pooling.")}
    return below(state, "backbone.", beside=("pooling.",)) | pooling


LAYOUTS: dict[str, Layout] = {
    "torchvision": Layout(convert=torchvision),
    "torchvision_children": Layout(convert=torchvision_children),
    "torchvision_vit": Layout(convert=torchvision_vit),
    "timm": Layout(convert=timm),
    "zoo": Layout(convert=zoo),
}
