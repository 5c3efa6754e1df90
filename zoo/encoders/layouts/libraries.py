"""How timm itself reads a file: without the classifier, and with the names that its networks have today."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .steps import Misfit, State

_CLASSIFIERS = ("fc.", "head.fc.", "head.weight", "head.bias")  # of networks that do not say what theirs is called
_ERRORS = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
_POSITIONS = ("pos_embed", "positional_embedding", "position_embedding", "relative_position_bias_table")


def without_classifier(state: State, target: Mapping[str, Tensor], backbone: nn.Module | None) -> State:
    """The tensors without those of a classifier that the encoder does not have."""
    named = getattr(backbone, "pretrained_cfg", None) or {}
    names = named.get("classifier") or ()
    names = (names,) if isinstance(names, str) else tuple(names)
    parents = (name.rpartition(".")[0] for name in names)  # a norm beside the classifier goes with it
    whole = [f"{parent}." for parent in parents if parent and not any(key.startswith(f"{parent}.") for key in target)]
    prefixes = (*_CLASSIFIERS, *(f"{name}." for name in names), *whole)
    return {name: tensor for name, tensor in state.items() if name in target or not name.startswith(prefixes)}


def as_timm_reads(state: State, target: Mapping[str, Tensor], backbone: nn.Module) -> State:
    """The tensors by the names that timm gives them when it loads such a file; unchanged if it changes none.

    Timm would fit position embeddings to another size of images: here they must have the size of the network's.
    """
    rename = _renaming(backbone)
    if rename is None:
        return state
    counts = {_n_positions(tensor) for name, tensor in target.items() if name.endswith(_POSITIONS)}
    n_prefix = int(
        getattr(backbone, "num_prefix_tokens", 0)
    )  # whose positions a file may have, and timm add to the token
    for name, tensor in state.items():
        if not name.endswith(_POSITIONS) or not counts:
            continue
        if all(abs(_n_positions(tensor) - count) > n_prefix for count in counts):
            raise Misfit(f"{name!r} has shape {tuple(tensor.shape)}, which is for images of another size")
    return _renamed(rename, state, backbone)


def _n_positions(tensor: Tensor) -> int:
    return tensor.numel() // tensor.shape[-1] if tensor.ndim else 0


def for_another_size(state: State, backbone: nn.Module) -> State:
    """The tensors of a network of timm, position embeddings interpolated to the size that this one is built for."""
    rename = _renaming(backbone)
    return state if rename is None else _renamed(rename, state, backbone)


def _renamed(rename: Any, state: State, backbone: nn.Module) -> State:
    try:
        changed = rename(dict(state), backbone)
    except _ERRORS as error:  # of a function that expects files of one project
        raise Misfit(f"timm cannot read it as a file of this network ({type(error).__name__}: {error})") from error
    return {name: tensor for name, tensor in changed.items() if isinstance(tensor, Tensor)}


def _renaming(backbone: nn.Module) -> Any:
    """The function by which timm changes the names of a file; None if it has none."""
    config = getattr(backbone, "pretrained_cfg", None) or {}
    models = sys.modules.get("timm.models")
    if models is None or not config.get("architecture"):
        return None
    module = sys.modules[models.model_entrypoint(config["architecture"]).__module__]
    return getattr(module, "checkpoint_filter_fn", None)
