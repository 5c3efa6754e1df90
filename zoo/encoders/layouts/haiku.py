"""The layout of BYOL, which was trained with Haiku: modules in modules, and channels last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .steps import Layout, Misfit, State, holds, nested, state_dict, without

_NETWORK = re.compile(r"res_net\d+/~/")
_HEADS = ("projector/", "predictor/", "classifier")
_BLOCK = re.compile(r"block_group_(\d)/~/block_(\d+)/~/")
_STEM = {
    "initial_conv": "conv1",
    "initial_conv_1": "conv1",  # so numbered where the class that it inherits from had made one before
    "initial_batchnorm": "bn1",
    "initial_batchnorm_1": "bn1",
}
_IN_BLOCK = {
    "conv_0": "conv1",
    "conv_1": "conv2",
    "conv_2": "conv3",
    "batchnorm_0": "bn1",
    "batchnorm_1": "bn2",
    "batchnorm_2": "bn3",
    "shortcut_conv": "downsample.0",
    "shortcut_batchnorm": "downsample.1",
}
_PARAMETERS = {"w": "weight", "scale": "weight", "offset": "bias"}
_STATISTICS = {"mean_ema": "running_mean", "var_ema": "running_var"}


def byol(content: Any, *, target: Mapping[str, Tensor]) -> State:
    """The online network of a training's checkpoint; or that network under torchvision's names, as others converted it.

    The statistics of a norm are its averages, which are corrected for their start at zero; ``hidden`` and ``counter``,
    from which they are computed, stand beside them. Source: google-deepmind/deepmind-research, ``byol_experiment.py``
    and ``utils/checkpointing.py`` of byol; Haiku, ``ResNet`` and ``ExponentialMovingAverage``.
    """
    if not holds(content, "experiment_state"):
        return without(state_dict(content), "fc.")
    state: State = {}
    for module, parameters in _modules(nested(content, "experiment_state", "online_params")):
        for name, tensor in parameters.items():
            _add(state, module, _renamed(name, _PARAMETERS, where=module), tensor)
    for path, values in _modules(nested(content, "experiment_state", "online_state")):
        module, _, statistic = path.rpartition("/~/")
        _add(state, module, _renamed(statistic, _STATISTICS, where=path), nested(values, "average"))
    return state


def _modules(modules: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The modules of the network by their names in it, without the heads."""
    if not isinstance(modules, Mapping):
        raise Misfit(f"found {type(modules).__name__}, expected modules by name")
    inner = []
    for path, values in modules.items():
        network = _NETWORK.match(path)
        if network and isinstance(values, Mapping):
            inner.append((path[network.end() :], values))
        elif not path.startswith(_HEADS):
            raise Misfit(f"found the module {path!r}, expected names that start with 'res_net50/~/' or with a head's")
    return inner


def _add(state: State, module: str, name: str, value: Any) -> None:
    block = _BLOCK.match(module)
    if block:
        group, number = map(int, block.groups())
        inner = _renamed(module[block.end() :], _IN_BLOCK, where=module)
        full = f"layer{group + 1}.{number}.{inner}.{name}"
    else:
        full = f"{_renamed(module, _STEM, where=module)}.{name}"
    if full in state:
        raise Misfit(f"found two tensors for {full!r}")
    if not isinstance(value, Tensor) or value.ndim not in (1, 4):
        raise Misfit(f"found no tensor of 1 or 4 dimensions for {full!r}")
    if value.numel() == value.shape[-1]:
        value = value.flatten()  # of a norm, (1, 1, 1, channels)
    state[full] = value.permute(3, 2, 0, 1) if value.ndim == 4 else value  # height, width, in, out -> out, in, ...


def _renamed(name: str, names: Mapping[str, str], *, where: str) -> str:
    if name not in names:
        raise Misfit(f"found {name!r} in the module {where!r}, expected {', '.join(names)}")
    return names[name]


LAYOUTS: dict[str, Layout] = {"byol": Layout(convert=byol)}
