"""Hashes of what turns images into features: the weights of an encoder, and a preprocessing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..errors import DataError
from ..optional import requires_extra

with requires_extra("models", needed_for="Computing features"):
    import torch

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_LIBRARIES = ("builtins", "timm", "torch", "torchvision", "zoo")  # whose classes say what they do by their name
_PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict)


def weights_hash(encoder: torch.nn.Module) -> str:
    """Of names, types, shapes and bytes of every tensor in the state dict; the device does not matter."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(encoder.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy())  # as bytes, for numpy has no bfloat16
    return digest.hexdigest()


def code_hash(network: torch.nn.Module) -> str:
    """Of what a network does that neither its tensors nor its own words tell: functions that it holds, such as a
    pooling, and the code and plain attributes of modules that are of no library.

    Code is that of this version of Python; what it calls is known by name only.
    """
    digest = blake2b(digest_size=16)
    for name, module in network.named_modules():
        for text in _own_texts(module):
            digest.update(f"{name}\0{_ADDRESS.sub('', text)}\0".encode())
    return digest.hexdigest()


def _own_texts(module: torch.nn.Module) -> Iterator[str]:
    own = [kind for kind in type(module).__mro__ if kind.__module__.partition(".")[0] not in _LIBRARIES]
    for kind in own:
        yield f"{kind.__module__}.{kind.__qualname__}"
        yield from (_function_text(one) for _, one in sorted(vars(kind).items()) if isinstance(one, FunctionType))
    for name, value in sorted(vars(module).items()):
        if isinstance(value, FunctionType | MethodType | partial):
            yield f"{name} {_callable_text(value)}"
        elif own and isinstance(value, _PLAIN) and not name.startswith("_") and name != "training":
            yield f"{name} {value!r}"


def _callable_text(one: object) -> str:
    if isinstance(one, partial):
        return f"{_callable_text(one.func)} {one.args!r} {sorted(one.keywords.items())!r}"
    if isinstance(one, MethodType):
        return _callable_text(one.__func__)
    return _function_text(one) if isinstance(one, FunctionType) else repr(one)


def preprocess_hash(preprocess: Callable[[Any], torch.Tensor]) -> str:
    """Of what a preprocessing says of itself, which is all that torchvision's transforms do; of a function its code.

    The code of a function is that of this version of Python, with its defaults and what it closes over; what it calls
    is known by name only.

    Raises
    ------
    DataError
        If it says where in memory it is instead of what it does, so that nobody could tell it from another one.
    """
    text = _function_text(preprocess) if isinstance(preprocess, FunctionType) else repr(preprocess)
    if _ADDRESS.search(text):
        raise DataError(
            f"The preprocessing {text[:200]!r} does not say what it does, so that its features could be mistaken for "
            "those of another; give it a __repr__ with all its settings, or make it a plain function."
        )
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _function_text(function: FunctionType) -> str:
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items(), *held]
    return f"{function.__module__}.{function.__qualname__} {_code_text(function.__code__)} {parts!r}"


def _code_text(code: CodeType) -> str:
    """What a function does, without where its source is."""
    return f"{code.co_code.hex()} {code.co_names} {[_constant_text(part) for part in code.co_consts]}"


def _constant_text(part: object) -> str:
    if isinstance(part, CodeType):
        return _code_text(part)
    return repr(sorted(map(repr, part))) if isinstance(part, frozenset) else repr(part)  # a set has no order
