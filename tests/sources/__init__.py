"""Checkpoints as the training scripts write them, and what their networks compute, without any library's model.

A module here describes sources: the names and shapes of what they save, what stands next to it, and the forward pass on
those names. Nothing of :mod:`zoo`, timm or torchvision is used, so that a mistake made there cannot be made here too.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch


def in_double(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same numbers in float64, in which a forward pass is exact to what an encoder is held against."""
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


@contextmanager
def modules_that_exist(modules: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Modules by name, with their content, that can be imported meanwhile: pickling looks up what it refers to."""
    added, set_on = [], []
    for path, content in modules.items():
        names = path.split(".")
        for depth in range(1, len(names) + 1):
            name = ".".join(names[:depth])
            if name not in sys.modules:
                sys.modules[name] = ModuleType(name)
                added.append(name)
        for attribute, value in content.items():
            setattr(sys.modules[path], attribute, value)
            set_on.append((sys.modules[path], attribute))
    try:
        yield
    finally:
        for module, attribute in set_on:
            delattr(module, attribute)
        for name in added:
            del sys.modules[name]


def saved(content: Any, *, legacy: bool) -> bytes:
    """What ``torch.save`` writes; ``legacy`` as it did until version 1.5, without a zip archive."""
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()
