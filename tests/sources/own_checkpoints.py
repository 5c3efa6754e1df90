"""What training scripts and libraries save around a network, written by hand like files that they have written.

timm 1.0.31 (``utils/checkpoint_saver.py``), DeiT (``main.py``), PyTorch Lightning 2.6.6 (a Trainer's checkpoint, with
and without ``WeightAveraging``), lightly 1.6 (``examples/pytorch_lightning`` and ``benchmarks/imagenet``), solo-learn
(``solo/methods``).
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections import OrderedDict
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

State = dict[str, Tensor]


def under(prefix: str, state: Mapping[str, Tensor]) -> State:
    """The state of a module as its parent has it."""
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def classifier(name: str, width: int) -> State:
    return {f"{name}.weight": torch.ones(7, width), f"{name}.bias": torch.ones(7)}


def mlp(name: str) -> State:
    """A projection head, a linear layer and a norm with its statistics."""
    return under(
        f"{name}.",
        {
            "layers.0.weight": torch.ones(4, 4),
            "layers.1.weight": torch.ones(4),
            "layers.1.bias": torch.ones(4),
            "layers.1.running_mean": torch.ones(4),
            "layers.1.running_var": torch.ones(4),
            "layers.1.num_batches_tracked": torch.tensor(3),
        },
    )


def _optimizer(state: Mapping[str, Tensor]) -> dict[str, Any]:
    moments = {
        number: {"step": torch.tensor(3.0), "exp_avg": torch.zeros_like(tensor), "exp_avg_sq": torch.ones_like(tensor)}
        for number, tensor in enumerate(state.values())
    }
    group = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "foreach": None, "params": list(moments)}
    return {"state": moments, "param_groups": [group]}


def timm_train(state: State, average: State | None = None) -> dict[str, Any]:
    """``train.py`` of timm."""
    content = {
        "epoch": 3,
        "arch": "vit_tiny",
        "optimizer": _optimizer(state),
        "version": 2,
        "args": argparse.Namespace(model="vit_tiny", lr=0.1, scale=[0.08, 1.0], model_kwargs={}, distributed=False),
        "amp_scaler": {"scale": 65536.0, "growth_factor": 2.0, "_growth_tracker": 0},
        "state_dict": OrderedDict(state),
    }
    if average is not None:
        content["state_dict_ema"] = OrderedDict(average)
    saver = {"checkpoint_files": [], "best_epoch": None, "best_metric": None, "pending": (3, 71.5)}
    return content | {"metric": 71.5, "saver": saver}


def deit_main(state: State, average: State) -> dict[str, Any]:
    """``main.py`` of DeiT, and of what follows it."""
    return {
        "model": OrderedDict(state),
        "optimizer": _optimizer(state),
        "lr_scheduler": {"base_values": [0.1], "metric": None},
        "epoch": 3,
        "model_ema": OrderedDict(average),
        "scaler": {"scale": 65536.0, "_growth_tracker": 0},
        "args": argparse.Namespace(model="deit_tiny", output_dir=pathlib.PurePosixPath("/data")),
    }


def _progress(*names: str) -> dict[str, Any]:
    return {kind: dict.fromkeys(names, 2) for kind in ("current", "total")}


def lightning(state: State, hyper_parameters: Any = None) -> dict[str, Any]:
    """What Lightning's Trainer saves of a module with one optimizer, a schedule and two callbacks."""
    loop = {"state_dict": {}, "epoch_progress": _progress("ready", "started", "processed", "completed")}
    best = {
        "monitor": None,
        "best_model_score": None,
        "best_model_path": "/data/epoch=0.ckpt",
        "dirpath": "/data",
        "best_k_models": {},
        "kth_value": torch.tensor(torch.inf),
    }
    stopping = {"wait_count": 0, "stopped_epoch": 0, "best_score": torch.tensor(torch.inf), "patience": 3}
    content = {
        "epoch": 1,
        "global_step": 2,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": OrderedDict(state),
        "loops": {"fit_loop": loop, "validate_loop": {"batch_progress": _progress("ready") | {"is_last_batch": False}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': None, 'mode': 'min', 'every_n_train_steps': 0}": best,
            "EarlyStopping{'monitor': 'x', 'mode': 'min'}": stopping,
        },
        "optimizer_states": [_optimizer(state)],
        "lr_schedulers": [{"T_max": 3, "base_lrs": [0.1], "last_epoch": 1, "_last_lr": [0.05], "lr_lambdas": [None]}],
    }
    if hyper_parameters is not None:
        content |= {"hparams_name": "kwargs", "hyper_parameters": hyper_parameters}
    return content


def lightning_averaged(current: State, average: State) -> dict[str, Any]:
    """The same with the callback ``WeightAveraging``, which puts the average where the network was."""
    averaging = {"current_model_state": OrderedDict(current), "averaging_state": {"n_averaged": torch.tensor(1)}}
    content = lightning(average) | averaging
    content["callbacks"]["WeightAveraging"] = {"latest_update_step": 1}
    return content


def stand_in(monkeypatch: pytest.MonkeyPatch, dotted: str) -> type:
    """An empty class of this name, so that pickles of its objects have the name that a library's have."""
    module, _, name = dotted.rpartition(".")
    made = type(name, (), {"__module__": module})
    if module == "__main__":
        monkeypatch.setattr(sys.modules[module], name, made, raising=False)
        return made
    parts = module.split(".")
    for n in range(1, len(parts) + 1):
        part = ".".join(parts[:n])
        if part not in sys.modules:  # PyTorch stays what it is
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
    monkeypatch.setattr(sys.modules[module], name, made, raising=False)
    return made
