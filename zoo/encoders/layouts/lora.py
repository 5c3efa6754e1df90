"""LoRA: low-rank matrices that were trained beside the weights of a network, merged into them on request.

A weight W of a layer becomes W + scale * B A, where the scale is alpha / r, or alpha / sqrt(r) with rank-stabilised LoRA.
Source: huggingface/peft, ``tuners/lora/layer.py`` and ``utils/save_and_load.py``; microsoft/LoRA, ``loralib/layers.py``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import QueryError, WeightsRefused
from ...weights.checkpoints import read_checkpoint
from .steps import State
from .wrappers import cleaned, state_dicts

_MATRIX = re.compile(r"(?P<layer>.+)\.lora_(?P<which>[AB])(?:\.(?!weight$)(?P<adapter>[^.]+))?(?:\.weight)?")
_OF_LORA = re.compile(r"(?:^|[._])lora_|\.(?:hada_w|lokr_w|oft_|boft_|ia3_|vera_lambda)")
_SAVED = re.compile(r"\.modules_to_save\.[^.]+\.")
_PEFT = re.compile(r"^base_model\.model\.")
_FILES = ("adapter_model.safetensors", "adapter_model.bin")
_CONFIG = "adapter_config.json"
_SAME_BASE = ("gaussian", "eva", "orthogonal")  # starts of peft that leave the weights of the network as they were
_PLAIN = {"bias": "none", "use_dora": False, "lora_bias": False, "layer_replication": None, "target_parameters": None}
_REMEDY = "merge it where it was trained (peft's merge_and_unload) and save the state dict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """How the matrices are merged."""

    scale: float | None = None  # None: from the configuration
    config: Mapping[str, Any] = field(default_factory=dict)  # of peft
    adapter: Path | None = None  # the file with the matrices, if they are not beside the weights
    parts: str = ""  # of queries, keys and values in one weight, those that have matrices: "qv"

    def scale_of(self, layer: str, rank: int) -> float:
        """What B A of a layer is multiplied by."""
        if self.scale is not None:
            return self.scale
        stated = _of_layer(self.config, "rank_pattern", layer, self.config.get("r"))
        if stated != rank:
            raise WeightsRefused(f"The LoRA matrices of {layer!r} are of rank {rank}, but {_CONFIG} says {stated}.")
        alpha = float(_of_layer(self.config, "alpha_pattern", layer, self.config["lora_alpha"]))
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)


def lora_of(how: str, *, parts: str = "") -> Lora:
    """From what the user says: the scale alpha / r, the configuration of peft, or the folder of both.

    QueryError if it is none of them; WeightsRefused if the configuration has what cannot be merged.
    """
    try:
        scale = float(how)
        if math.isfinite(scale):
            return Lora(scale=scale, parts=parts)
    except ValueError:
        pass
    path = Path(how).expanduser()
    config = path / _CONFIG if path.is_dir() else path
    try:
        facts = json.loads(config.read_bytes())
        kind, numbers = facts["peft_type"], (float(facts["r"]), float(facts["lora_alpha"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise QueryError(
            f"Found {how!r} to merge LoRA by, expected its scale (alpha / r, a number), peft's {_CONFIG}, or the folder "
            f"with it and {_FILES[0]} ({type(error).__name__}: {error})."
        ) from error
    strange = [name for name, plain in _PLAIN.items() if facts.get(name) not in (plain, None)]
    if kind != "LORA" or strange or not all(map(math.isfinite, numbers)):
        raise WeightsRefused(
            f"{config} is of {strange[0] + ' = ' + repr(facts[strange[0]]) if strange else kind}, which is not merged "
            f"here; {_REMEDY}."
        )
    adapter = next((path / name for name in _FILES if path.is_dir() and (path / name).is_file()), None)
    if path.is_dir() and adapter is None:
        raise QueryError(f"{path} has no {_FILES[0]}; give the folder that peft has saved.")
    start = facts.get("init_lora_weights", True)
    if adapter is not None and isinstance(start, str) and start.lower() not in _SAME_BASE:
        raise WeightsRefused(f"{config} starts from {start!r}, which has changed the weights of the network; {_REMEDY}.")
    return Lora(config=facts, adapter=adapter, parts=parts)


def _of_layer(config: Mapping[str, Any], pattern: str, layer: str, otherwise: Any) -> Any:
    """A setting of a layer, by the first pattern of its name, as peft looks it up."""
    for key, value in (config.get(pattern) or {}).items():
        if re.fullmatch(rf"(?:.*\.)?(?:{key})", layer):
            return value
    return otherwise


def require_no_lora(content: Any, *, what: str) -> None:
    """WeightsRefused for matrices that nobody has asked to merge."""
    for state in _all_state_dicts(content):
        if names := [name for name in state if _OF_LORA.search(name)]:
            raise WeightsRefused(
                f"The file of {what} has {len(names)} LoRA tensors that are not merged into the weights, such as "
                f"{names[0]!r}: say --merge-lora {_CONFIG} (or the folder of it, if the weights are in another file "
                "than the matrices), or --merge-lora SCALE, which is alpha / r of the training."
            )


def merge_lora(content: Any, lora: Lora, *, what: str) -> tuple[Any, str]:
    """The content with merged weights, and what was done in words; WeightsRefused for what cannot be merged."""
    beside: State = {}
    if lora.adapter is not None:
        beside = {_PEFT.sub("", name): tensor for state in _all_state_dicts(_read(lora.adapter, what)) for name, tensor in state.items()}
    done: list[float] = []
    merged = _through(content, lambda state: _merged(state, beside, lora, done, what=what))
    if not done:
        raise WeightsRefused(
            f"The file of {what} has no weights that the LoRA matrices{' of ' + str(lora.adapter) if beside else ''} "
            "belong to; check that this is the network that they were trained on."
        )
    scales = sorted(set(done))
    said = f"{scales[0]:g}" if len(scales) == 1 else f"{scales[0]:g} to {scales[-1]:g}"
    return merged, f"LoRA of {len(done)} layers is merged with the scale {said}"


def _read(path: Path, what: str) -> Any:
    return read_checkpoint(path, what=f"the LoRA of {what}").content


def _all_state_dicts(content: Any) -> Iterator[State]:
    return (state for _, state in state_dicts(cleaned(content)))


def _through(content: Any, change: Any) -> Any:
    """The content with every state dict changed."""
    found = {path: change(state) for path, state in state_dicts(cleaned(content))}
    if () in found:
        return found[()]
    result: dict[str, Any] = {}
    for path, state in found.items():
        here = result
        for key in path[:-1]:
            here = here.setdefault(key, {})
        here[path[-1]] = state
    return result


def _merged(state: State, beside: State, lora: Lora, done: list[float], *, what: str) -> State:
    """A state dict with the matrices in it, or with those of an adapter, merged; without them it is as it was."""
    state = dict(state)
    at = ""
    if beside and not any(_MATRIX.fullmatch(name) for name in state):
        layers = [match["layer"] for name in beside if (match := _MATRIX.fullmatch(name))]
        ends = [name for name in state if layers and name.endswith(f"{layers[0]}.weight")]
        at = next((name.removesuffix(f"{layers[0]}.weight") for name in ends), "")
        if not all(f"{at}{layer}.weight" in state for layer in layers):
            return state
        state |= {f"{at}{name}": tensor for name, tensor in beside.items()}  # what was trained whole replaces what is there
    pairs: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name in list(state):
        if match := _MATRIX.fullmatch(name):
            pairs.setdefault((match["layer"], match["adapter"] or ""), {})[match["which"]] = state.pop(name)
    if not pairs:
        return state
    adapters = sorted({adapter for _, adapter in pairs})
    if len(adapters) > 1:
        raise WeightsRefused(f"The file of {what} has several adapters of LoRA: {', '.join(adapters)}; {_REMEDY}.")
    originals = [name for name in state if ".original_module." in name]
    state = {_SAVED.sub(".", name): tensor for name, tensor in state.items() if name not in originals}
    state = {name.replace(".base_layer.", "."): tensor for name, tensor in state.items()}
    if left := [name for name in state if _OF_LORA.search(name)]:
        raise WeightsRefused(f"The file of {what} has {left[0]!r}, which is not merged here; {_REMEDY}.")
    for (layer, _), matrices in pairs.items():
        name = f"{layer}.weight"
        if len(matrices) != 2 or name not in state:
            raise WeightsRefused(f"The file of {what} has not all of {layer!r}: its weight and the LoRA matrices A and B.")
        scale = lora.scale_of(_PEFT.sub("", layer.removeprefix(at)), matrices["B"].shape[1])
        change = _change(matrices["A"].float(), matrices["B"].float(), state[name].shape, lora, layer)
        state[name] = state[name].float() + scale * change
        done.append(scale)
    return state


def _change(a: Tensor, b: Tensor, shape: torch.Size, lora: Lora, layer: str) -> Tensor:
    """B A in the shape of the weight; A is (groups * r, ...), B (outputs, r, ...)."""
    n_groups = a.shape[0] // b.shape[1]
    if n_groups == 1 and b.flatten(1).shape[1] == b.shape[1]:
        product = b.flatten(1) @ a.flatten(1)
        if lora.config.get("fan_in_fan_out"):
            product = product.T
        if product.numel() == shape.numel() and (product.shape[0] == shape[0] or len(shape) > 2):
            return product.reshape(shape)
    third = shape[0] // 3
    parts = lora.parts or ("qkv" if n_groups == 3 else "")
    if a.shape[0] == n_groups * b.shape[1] and b.shape[0] == n_groups * third and len(shape) == 2:
        if len(parts) != n_groups or not set(parts) <= set("qkv"):
            raise WeightsRefused(
                f"The LoRA matrices of {layer!r} are for {n_groups} of queries, keys and values (loralib's MergedLinear): "
                "say which by --lora-parts, such as qv."
            )
        change = torch.zeros(shape)
        each = zip(sorted(parts, key="qkv".index), a.chunk(n_groups), b.chunk(n_groups), strict=True)
        for part, its_a, its_b in each:
            at = "qkv".index(part) * third
            change[at : at + third] = its_b @ its_a
        return change
    raise WeightsRefused(
        f"The LoRA matrices of {layer!r} have the shapes {tuple(a.shape)} and {tuple(b.shape)}, which do not make the "
        f"shape {tuple(shape)} of its weight; {_REMEDY}."
    )
