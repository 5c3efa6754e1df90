"""BYOL's checkpoints as its training pickles them, and its network as Haiku computes it: channels last, padded SAME."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from . import in_double, modules_that_exist
from .resnet_forward import Draw

Modules = dict[str, dict[str, Any]]
DEPTHS, GROUP_CHANNELS = (3, 4, 6, 3), (256, 512, 1024, 2048)
NETWORK = "res_net50/~/"


class ExperimentState(NamedTuple):
    online_params: Any
    target_params: Any
    online_state: Any
    target_state: Any
    opt_state: Any


class ScaleByLarsState(NamedTuple):
    mu: Any


class AddWeightDecayState(NamedTuple):
    pass


class FlatMapping:
    """Haiku's immutable mapping, as a pickle sees it: a class that is called with a dict."""

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        self.mapping = dict(mapping)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mapping,)


_CLASSES = {
    ExperimentState: ("byol.byol_experiment", "_ByolExperimentState"),
    ScaleByLarsState: ("byol.utils.optimizers", "ScaleByLarsState"),
    AddWeightDecayState: ("byol.utils.optimizers", "AddWeightDecayState"),
    FlatMapping: ("haiku._src.data_structures", "FlatMapping"),
}
for _class, (_module, _name) in _CLASSES.items():
    _class.__module__, _class.__qualname__ = _module, _name


def byol_tensors(draw: Draw, *, stem: str = "initial_conv", bottleneck: float = 1.0) -> tuple[Modules, Modules]:
    """Parameters and state of BYOL's ResNet-50 by module: weights are (height, width, in, out), norms (1, 1, 1, n)."""
    parameters: Modules = {}
    state: Modules = {}

    def conv(name: str, px: int, n_in: int, n_out: int, *, gain: float = 1.0) -> None:
        bound = gain * (6 / (px * px * n_in)) ** 0.5
        parameters[f"{NETWORK}{name}"] = {"w": draw.between(-bound, bound, px, px, n_in, n_out)}

    def norm(name: str, n: int, *, scale: float = 1.0) -> None:
        parameters[f"{NETWORK}{name}"] = {
            "scale": draw.between(0.6 * scale, 1.4 * scale, 1, 1, 1, n),
            "offset": draw.between(-0.2, 0.2, 1, 1, 1, n),
        }
        for average, low, high in (("mean_ema", -0.2, 0.2), ("var_ema", 0.6, 1.4)):
            hidden = draw.between(2 * low, 2 * high, 1, 1, 1, n)  # before it is corrected for its start at zero
            counter = torch.tensor(300_000, dtype=torch.int32, device=draw.device)
            average_tensor = draw.between(low, high, 1, 1, 1, n)
            state[f"{NETWORK}{name}/~/{average}"] = {"average": average_tensor, "counter": counter, "hidden": hidden}

    conv(stem, 7, 3, 64)
    norm("initial_batchnorm", 64)
    n_in = 64
    for group, (depth, n_out) in enumerate(zip(DEPTHS, GROUP_CHANNELS, strict=True)):
        for block in range(depth):
            at, n_inner = f"block_group_{group}/~/block_{block}/~/", int(n_out // 4 * bottleneck)
            if block == 0:
                conv(f"{at}shortcut_conv", 1, n_in, n_out, gain=0.5)
                norm(f"{at}shortcut_batchnorm", n_out)
            for number, (px, inner, outer) in enumerate(
                ((1, n_in, n_inner), (3, n_inner, n_inner), (1, n_inner, n_out))
            ):
                conv(f"{at}conv_{number}", px, inner, outer)
                norm(f"{at}batchnorm_{number}", outer, scale=0.3 if number == 2 else 1.0)
            n_in = n_out
    return parameters, state


def heads(draw: Draw) -> tuple[Modules, Modules]:
    """Projector, predictor and classifier."""
    parameters: Modules = {"classifier": {"w": draw.between(-1, 1, 2048, 10), "b": draw.between(-1, 1, 10)}}
    state: Modules = {}
    for name, n_in in (("projector", 2048), ("predictor", 16)):
        parameters[f"{name}/linear"] = {"w": draw.between(-1, 1, n_in, 48), "b": draw.between(-1, 1, 48)}
        parameters[f"{name}/batch_norm"] = {"scale": draw.between(0.5, 1, 48), "offset": draw.between(-1, 1, 48)}
        parameters[f"{name}/linear_1"] = {"w": draw.between(-1, 1, 48, 16)}
        for average in ("mean_ema", "var_ema"):
            counter = torch.tensor(300_000, dtype=torch.int32, device=draw.device)
            values = {"hidden": draw.between(0.5, 1, 48), "average": draw.between(0.5, 1, 48), "counter": counter}
            state[f"{name}/batch_norm/~/{average}"] = values
    return parameters, state


def byol_experiment(parameters: Modules, state: Modules, draw: Draw) -> dict[str, Any]:
    """The state of a training; the target network has other norms, and shares the rest to keep files small."""
    more_parameters, more_state = heads(draw)
    online, online_state = parameters | more_parameters, state | more_state
    other = {
        module: {name: value if name == "w" else draw.between(0.4, 0.6, *value.shape) for name, value in values.items()}
        for module, values in (online | online_state).items()
    }
    target = {module: other[module] for module in online}
    experiment = {
        "online_params": online,
        "target_params": target,
        "online_state": online_state,
        "target_state": {module: other[module] for module in online_state},
        "opt_state": [{}, {"mu": target}, {}],
    }
    return {"experiment_state": experiment, "step": 312_500, "rng": torch.tensor([0, 42])}


def byol_file(content: Mapping[str, Any], *, numpy_1: bool = True) -> bytes:
    """The pickle of a training's checkpoint: a named tuple of Haiku's mappings of numpy's arrays.

    ``numpy_1`` with the names that numpy had until version 2, as in the files of 2020.
    """
    experiment = content["experiment_state"]
    arrays: dict[int, Any] = {}  # by identity of the tensor: pickle writes what it meets again once
    fields = {name: _frozen(experiment[name], arrays) for name in ExperimentState._fields[:-1]}
    optimizer = (AddWeightDecayState(), ScaleByLarsState(_frozen(experiment["opt_state"][1]["mu"], arrays)))
    written = {
        "experiment_state": ExperimentState(**fields, opt_state=optimizer),
        "step": content["step"],
        "rng": content["rng"].numpy().astype(np.uint32),
    }
    modules: dict[str, dict[str, Any]] = {}
    for written_class, (module, name) in _CLASSES.items():
        modules.setdefault(module, {})[name] = written_class
    with modules_that_exist(modules):
        pickled = pickle.dumps(written, protocol=2)
    return pickled.replace(b"numpy._core.", b"numpy.core.") if numpy_1 else pickled


def _frozen(modules: Modules, arrays: dict[int, Any]) -> FlatMapping:
    return FlatMapping(
        {
            module: FlatMapping({name: arrays.setdefault(id(value), value.numpy()) for name, value in values.items()})
            for module, values in modules.items()
        }
    )


def byol_features(
    parameters: Modules, state: Modules, images: Tensor, *, stem: str = "initial_conv", symmetric: bool = False
) -> Tensor:
    """Features (n, 2048) of images (n, 3, px, px); ``symmetric`` pads as torchvision does, which BYOL does not."""
    parameters, state = ({name: in_double(own) for name, own in part.items()} for part in (parameters, state))

    def windows(x: Tensor, size: int, stride: int, value: float) -> Tensor:
        sides = []
        for px in (x.shape[2], x.shape[1]):
            total = max((math.ceil(px / stride) - 1) * stride + size - px, 0)
            sides += [size // 2, size // 2] if symmetric else [total // 2, total - total // 2]
        x = F.pad(x, (0, 0, *sides), value=value)
        return x.unfold(1, size, stride).unfold(2, size, stride)  # (n, px, px, channels, size, size)

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight: Tensor = parameters[f"{NETWORK}{name}"]["w"]
        if weight.shape[0] == 1:
            return x[:, ::stride, ::stride] @ weight[0, 0]
        return torch.einsum("nyxcij,ijco->nyxo", windows(x, weight.shape[0], stride, 0.0), weight)

    def norm(x: Tensor, name: str) -> Tensor:
        values: dict[str, Tensor] = parameters[f"{NETWORK}{name}"]
        mean: Tensor = state[f"{NETWORK}{name}/~/mean_ema"]["average"]
        variance: Tensor = state[f"{NETWORK}{name}/~/var_ema"]["average"]
        return (x - mean) * torch.rsqrt(variance + 1e-5) * values["scale"] + values["offset"]

    x = norm(conv(images.double().permute(0, 2, 3, 1), stem, 2), "initial_batchnorm").relu()
    x = windows(x, 3, 2, -math.inf).amax(dim=(4, 5))
    for group, depth in enumerate(DEPTHS):
        for block in range(depth):
            at = f"block_group_{group}/~/block_{block}/~/"
            stride = 2 if group and block == 0 else 1
            out = norm(conv(x, f"{at}conv_0"), f"{at}batchnorm_0").relu()
            out = norm(conv(out, f"{at}conv_1", stride), f"{at}batchnorm_1").relu()
            out = norm(conv(out, f"{at}conv_2"), f"{at}batchnorm_2")
            if block == 0:
                x = norm(conv(x, f"{at}shortcut_conv", stride), f"{at}shortcut_batchnorm")
            x = (x + out).relu()
    return x.mean(dim=(1, 2))
