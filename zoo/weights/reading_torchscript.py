"""A TorchScript archive as a state dict: its classes are inert, and so are the modules made of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .reading_inert import Budget, Inert, Refusal

_NAME_BYTES = 100  # what a name takes beside its characters
_MOST_DEPTH = 100


def flattened(content: Any, *, budget: Budget) -> dict[str, Tensor]:
    """The tensors of a scripted or traced module by their dotted names, like its ``state_dict()``.

    Which attributes are parameters and buffers only the archive's code says, which is not read: a plain tensor
    attribute comes with them.

    Raises
    ------
    Refusal
        If it is no module, holds itself, or has a name with a dot in it.
    """
    if type(content) is not Inert:
        raise Refusal("its TorchScript archive does not hold a module")
    tensors: dict[str, Tensor] = {}
    waiting: list[tuple[str, Inert, int]] = [("", content, 0)]
    while waiting:
        prefix, module, depth = waiting.pop()
        inner: list[tuple[str, Inert, int]] = []
        for name, value in module.attributes.items():
            budget.spend(_NAME_BYTES + len(prefix) + len(name))  # a module that is met often has as many names
            if depth > _MOST_DEPTH:
                raise Refusal("it holds modules in modules without end")
            if isinstance(value, Tensor):
                if prefix + name in tensors or "." in name:
                    raise Refusal("its modules have names that do not tell them apart")
                tensors[prefix + name] = value
            elif type(value) is Inert:
                inner.append((f"{prefix}{name}.", value, depth + 1))
        waiting.extend(reversed(inner))
    return tensors
