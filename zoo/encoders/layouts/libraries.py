"""Layouts of libraries: files that already have the names that are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, State, below, state_dict, without


def torchvision(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """torchvision's ResNets."""
    return without(state_dict(content), "fc.")


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
    "timm": Layout(convert=timm),
    "zoo": Layout(convert=zoo),
}
