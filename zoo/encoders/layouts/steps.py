"""Building blocks of layouts. Every step names what it expects, and refuses the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

State: TypeAlias = dict[str, Tensor]
Converter: TypeAlias = Callable[..., State]
"""``(content, *companions, target)`` -> tensors by name.

``content`` is that of the file, each companion that of a further file of the card. ``target``, a :class:`Target`, has
the encoder's tensors by the names that are wanted; those of the backbone come without ``backbone.``.
"""


class Target(dict[str, Tensor]):
    """The tensors that are wanted, and the backbone that they are of, for libraries that rename tensors themselves."""

    def __init__(self, tensors: Mapping[str, Tensor], backbone: nn.Module) -> None:
        super().__init__(tensors)
        self.backbone = backbone


class Misfit(Exception):
    """A file is not laid out as its layout says: found, expected. Becomes a sentence of ``WeightsRefused``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the files of one source are laid out.

    ``version`` counts changes of the function: weights that an older version has converted are converted again.
    ``half``: the source releases half precision, which is widened; any other published file must have the encoder's
    types. ``n_companions`` further files are needed. ``reads_timm_copies``: timm's copies of these files need this
    layout too; its copies of other sources are read with the layout ``timm``.
    """

    convert: Converter
    version: int = 1
    half: bool = False
    n_companions: int = 0
    reads_timm_copies: bool = False


def build_layouts(*converters: Converter, **options: Any) -> dict[str, Layout]:
    """Layouts by the names of their functions without ``convert_``, all with the same options."""
    return {
        converter.__name__.removeprefix("convert_"): Layout(convert=converter, **options) for converter in converters
    }


def get_nested(content: Any, *path: str) -> Any:
    """The value under keys in keys."""
    for depth, key in enumerate(path):
        if not isinstance(content, Mapping) or key not in content:
            found = _keys(content) if isinstance(content, Mapping) else type(content).__name__
            raise Misfit(f"found {found}, expected the key {'/'.join(path[: depth + 1])!r}")
        content = content[key]
    return content


def has_nested(content: Any, *path: str) -> bool:
    """True if there is a value under keys in keys."""
    for key in path:
        if not isinstance(content, Mapping) or key not in content:
            return False
        content = content[key]
    return True


def require_state_dict(content: Any, key: str = "") -> State:
    """The content as tensors by name; what is under a key, if there is one."""
    if key and has_nested(content, key):
        content = content[key]
    if not isinstance(content, Mapping):
        raise Misfit(f"found {type(content).__name__}, expected tensors by name")
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise Misfit(f"found {type(tensor).__name__} under {name!r}, expected tensors by name")
    return dict(content)


def strip_prefix(state: State, prefix: str, *, beside: tuple[str, ...] = ()) -> State:
    """The tensors whose names start with ``prefix``, without it; other names must start with one of ``beside``."""
    inner: State = {}
    for name, tensor in state.items():
        if name.startswith(prefix):
            inner[name.removeprefix(prefix)] = tensor
        elif not name.startswith(beside):
            expected = " or ".join(map(repr, (prefix, *beside)))
            raise Misfit(f"found the tensor {name!r}, expected names that start with {expected}")
    if not inner:
        raise Misfit(f"found {_keys(state)}, expected names that start with {prefix!r}")
    return inner


def drop_tensors(state: State, *prefixes: str, endings: tuple[str, ...] = ()) -> State:
    """The tensors whose names start with no prefix and end with no ending: the drops that a layout declares."""
    return {name: tensor for name, tensor in state.items() if not (name.startswith(prefixes) or name.endswith(endings))}


def strip_ddp_prefix(state: State) -> State:
    """Without the prefix of DistributedDataParallel, which all names have or none."""
    return strip_prefix(state, "module.") if any(name.startswith("module.") for name in state) else state


def rename_tensors(state: State, *rules: tuple[str, str]) -> State:
    """Names after regular expressions, one after the other; two tensors may not end up under one name."""
    result: State = {}
    for name, tensor in state.items():
        new = name
        for pattern, replacement in rules:
            new = re.sub(pattern, replacement, new)
        if new in result:
            raise Misfit(f"found two tensors for {new!r}")
        result[new] = tensor
    return result


def require_names(state: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    """Misfit if a tensor is missing or left over."""
    require_none(("is missing", [*(target.keys() - state)]), ("is left over", [*(state.keys() - target)]))


def require_none(*kinds: tuple[str, list[str]]) -> None:
    """Misfit that names the first tensor of the first kind that there is."""
    for kind, names in kinds:
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise Misfit(f"the tensor {min(names)!r} {kind}{more}")


def fuse_qkv(state: State) -> State:
    """Queries, keys and values of a block, under ``BLOCK.split.q.`` and so on, as one tensor.

    A bias of queries and one of values, without one of keys, are BEiT's.
    """
    result = {name: tensor for name, tensor in state.items() if ".split." not in name}
    for name, query in state.items():
        block, _, kind = name.partition(".split.q.")
        if not kind:
            continue
        key, value = (state.get(f"{block}.split.{part}.{kind}") for part in "kv")
        if value is None or (key is None and kind != "bias"):
            raise Misfit(f"the {kind} of the {'values' if value is None else 'keys'} of {block!r} is missing")
        if key is None:
            result |= {f"{block}.attn.q_bias": query, f"{block}.attn.v_bias": value}
        else:
            result[f"{block}.attn.qkv.{kind}"] = torch.cat([query, key, value])
    return result


def hash_tensor(tensor: Tensor) -> bytes:
    """A hash of the numbers of a tensor on the CPU."""
    return blake2b(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, digest_size=16).digest()


def hash_tensors(tensors: Mapping[str, Tensor], names: Iterable[str] | None = None) -> dict[str, bytes]:
    """Hashes of the numbers of tensors by their names, of all or of some; an empty one has none."""
    several = ((name, tensors[name]) for name in (tensors if names is None else names))
    return {name: hash_tensor(tensor) for name, tensor in several if tensor.numel()}


def _keys(mapping: Mapping[Any, Any]) -> str:
    keys = [str(key)[:60] for key in list(mapping)[:4]]
    return f"the keys {', '.join(map(repr, keys))}{', ...' if len(mapping) > 4 else ''}" if keys else "nothing"
