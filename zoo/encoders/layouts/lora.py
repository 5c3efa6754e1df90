"""LoRA: low-rank matrices A and B that were trained in addition to the weights, merged into them on request.

A weight becomes W + scale * B A, with the scale alpha / r, or alpha / sqrt(r) where LoRA is rank-stabilised. Source:
huggingface/peft, ``tuners/lora/layer.py``, ``utils/save_and_load.py``; microsoft/LoRA, ``loralib/layers.py``.
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
from ...weights.locations import hash_file
from .steps import State
from .wrappers import clean_names, find_state_dicts

_MATRIX = re.compile(r"(?P<layer>.+)\.lora_(?P<which>[AB])(?:\.(?!weight$|bias$)(?P<adapter>[^.]+))?(?:\.weight)?")
_CONFIG, _ADAPTER = "adapter_config.json", "adapter_model.safetensors"
_NOT_MERGED = ("use_dora", "lora_bias", "layer_replication", "target_parameters", "use_qalora")
_SAME_BASE = ("gaussian", "eva", "orthogonal")  # starts of peft that leave the weights of the network as they were
_PREFIX = "base_model.model."
_REMEDY = "merge it where it was trained, as peft's merge_and_unload() does, and save the state dict"

_STATISTICS = (
    "running statistics of batch norm are those of the network's file, for adapters have none: if it was trained in "
    f"train mode, {_REMEDY}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """How matrices are merged."""

    scale: float | None = None  # None: by the configuration
    config: Mapping[str, Any] = field(default_factory=dict)  # of peft
    adapter: Path | None = None  # the file with the matrices, if they are not next to the weights

    def scale_of(self, layer: str, rank: int) -> float:
        """What B A of a layer is multiplied by."""
        if self.scale is not None:
            return self.scale
        r, alpha = (
            next((value for key, value in patterns.items() if re.fullmatch(rf"(?:.*\.)?(?:{key})", layer)), otherwise)
            for patterns, otherwise in (
                (self.config.get("rank_pattern") or {}, self.config["r"]),
                (self.config.get("alpha_pattern") or {}, self.config["lora_alpha"]),
            )
        )
        if r != rank:
            raise WeightsRefused(f"The LoRA matrices of {layer!r} are of rank {rank}, but {_CONFIG} says {r}.")
        return float(alpha) / (math.sqrt(rank) if self.config.get("use_rslora") else rank)


def parse_lora(how: str) -> Lora:
    """From what the user says: the scale alpha / r, peft's configuration, or the folder with it and the matrices.

    QueryError if it is none of them; WeightsRefused if the configuration has what is not merged here.
    """
    if re.fullmatch(r"\d*\.?\d+(e-?\d+)?", how):
        return Lora(scale=float(how))
    path = Path(how).expanduser()
    try:
        config = json.loads((path / _CONFIG if path.is_dir() else path).read_bytes())
        kind, _, _ = config["peft_type"], float(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise QueryError(
            f"Found {how!r} to merge LoRA by, expected its scale (alpha / r), peft's {_CONFIG}, or the folder with it "
            f"and {_ADAPTER} ({type(error).__name__}: {error})."
        ) from error
    strange = [f"{name} = {config[name]!r}" for name in _NOT_MERGED if config.get(name)]
    start = config.get("init_lora_weights")
    if path.is_dir() and isinstance(start, str) and start not in _SAME_BASE:  # has changed the weights of the network
        strange.append(f"init_lora_weights = {start!r}")
    if strange or kind != "LORA":
        raise WeightsRefused(f"{how} is of {', '.join(strange) or kind}, which is not merged here; {_REMEDY}.")
    adapter = path / _ADAPTER if (path / _ADAPTER).exists() else path / "adapter_model.bin"
    return Lora(config=config, adapter=adapter if path.is_dir() else None)


def require_no_lora(content: Any, *, what: str) -> None:
    """WeightsRefused for matrices that nobody has asked to merge."""
    for state in _states(content):
        if names := [name for name in state if ".lora_" in name]:
            raise WeightsRefused(
                f"The file of {what} has {len(names)} LoRA tensors that are not merged, such as {names[0]!r}: say "
                f"--merge-lora SCALE (alpha / r) or {_CONFIG}; if it has these alone, give the file of the network "
                f"and --merge-lora with the folder of {_CONFIG} and {_ADAPTER}."
            )


def merge_lora(content: Any, lora: Lora, *, what: str) -> tuple[Any, str]:
    """The state dicts of a file with merged weights, by path, and what was done; WeightsRefused for what cannot be."""
    beside, said = {}, ""
    if lora.adapter is not None:
        (adapter,) = _states(read_checkpoint(lora.adapter, what=f"the LoRA of {what}").content)
        beside = {name.removeprefix(_PREFIX): tensor for name, tensor in adapter.items()}
        said = f" of {lora.adapter.name} ({hash_file(lora.adapter)[0][:8]})"
    scales: dict[str, list[float]] = {}
    merged = {}
    notes = []
    for path, state in find_state_dicts(clean_names(content)):
        merged["/".join(path)] = _merged(state, beside, lora, scales, what)
        notes += _unreached(state | beside)
        if beside and _n_statistics(beside) < _n_statistics(state):
            notes.append(_STATISTICS)
    if not scales:
        raise WeightsRefused(
            f"The file of {what} has no weights that LoRA matrices{said} belong to; give their network."
        )
    found = [scale for each in scales.values() for scale in each]
    at = " to ".join(f"{scale:g}" for scale in sorted({min(found), max(found)}))
    of = " and ".join(f"{len(each)} {kind}" for kind, each in scales.items())
    done = f"LoRA{said} of {of} is merged with the scale {at}"
    return merged.get("", merged), "; ".join(dict.fromkeys([done, *notes]))


def _unreached(state: State) -> list[str]:
    """A note on layers whose B is still the 0 that it starts with."""
    seconds = {m["layer"]: b for name, b in state.items() if (m := _MATRIX.fullmatch(name)) and m["which"] == "B"}
    idle = [layer for layer, b in seconds.items() if not b.any()]
    if not idle:
        return []
    first = idle[0].removeprefix(_PREFIX)
    return [
        f"the matrices of {len(idle)} of {len(seconds)} layers, such as {first!r}, are 0, so that training did not "
        "reach them: networks that read a weight without calling its layer leave LoRA out (qkv of timm's BEiT and "
        "EVA, out_proj of torch's attention)"
    ]


def _n_statistics(state: State) -> int:
    return sum(name.endswith("running_mean") for name in state)


def _states(content: Any) -> Iterator[State]:
    return (state for _, state in find_state_dicts(clean_names(content)))


def _merged(state: State, beside: State, lora: Lora, scales: dict[str, list[float]], what: str) -> State:
    """A state dict with the matrices in it, or with those of an adapter, merged; without any it is as it was."""
    layers = [match["layer"] for name in beside if (match := _MATRIX.fullmatch(name))]
    ends = [
        name.removesuffix(f"{layers[0]}.weight") for name in state if layers and name.endswith(f"{layers[0]}.weight")
    ]
    if beside and not (ends and all(f"{ends[0]}{layer}.weight" in state for layer in layers)):
        return state
    state = state | {f"{ends[0]}{name}": tensor for name, tensor in beside.items()}  # also what was trained as a whole
    pairs: dict[tuple[str, str], dict[str, Tensor]] = {}
    for name in list(state):
        if match := _MATRIX.fullmatch(name):
            pairs.setdefault((match["layer"], match["adapter"] or ""), {})[match["which"]] = state.pop(name)
    if not pairs:
        return state
    result = {
        re.sub(r"\.base_layer\.|\.modules_to_save\.[^.]+\.", ".", name): tensor
        for name, tensor in state.items()
        if ".original_module." not in name
    }
    left = [name for name in result if ".lora_" in name]
    if left or len({adapter for _, adapter in pairs}) > 1:
        strange = repr(left[0]) if left else "several adapters"
        raise WeightsRefused(f"The LoRA of {what} has {strange}, which is not merged here; {_REMEDY}.")
    for (layer, _), matrices in pairs.items():
        weight = result.get(f"{layer}.weight")
        if len(matrices) != 2 or weight is None:
            raise WeightsRefused(f"The LoRA of {what} lacks the weight, A or B of {layer!r}; {_REMEDY}.")
        a, b = matrices["A"].float(), matrices["B"].float()
        scale = lora.scale_of(layer, b.shape[1])
        result[f"{layer}.weight"] = weight.float() + scale * _product(a, b, weight.shape, layer, lora)
        is_of_two = len(a) == 2 * b.shape[1]  # of which loralib has no word in the file
        scales.setdefault("layers, taken as queries and values," if is_of_two else "layers", []).append(scale)
    return result


def _product(a: Tensor, b: Tensor, shape: torch.Size, layer: str, lora: Lora) -> Tensor:
    """B A in the shape of the weight, A (groups * r, ...), B (outputs, r, ...).

    Loralib's MergedLinear has a group for each of queries, keys and values; two are those of queries and of values.
    """
    n_groups, third = len(a) // b.shape[1], shape[0] // 3
    if n_groups == 1:
        product = b.flatten(1) @ a.flatten(1)
        product = product.T if lora.config.get("fan_in_fan_out") else product
        if product.shape[0] == shape[0] and product.numel() == shape.numel():
            return product.reshape(shape)
    places = {2: (0, 2), 3: (0, 1, 2)}.get(n_groups, ())
    if places and len(b) == n_groups * third and a.shape[1:] == shape[1:]:
        change = torch.zeros(shape)
        for place, its_a, its_b in zip(places, a.chunk(n_groups), b.chunk(n_groups), strict=True):
            change[place * third : (place + 1) * third] = its_b @ its_a
        return change
    raise WeightsRefused(
        f"The LoRA matrices of {layer!r}, {tuple(a.shape)} and {tuple(b.shape)}, do not make a weight of "
        f"{tuple(shape)}; {_REMEDY}."
    )
