"""From a card to a module that turns images into features.

>>> from zoo.cards.catalogue import load_catalogue
>>> from zoo.encoders import build_encoder
>>> encoder = build_encoder(load_catalogue()["simclr_rn50"], device="meta")
>>> sum(parameter.numel() for parameter in encoder.parameters())
23508032

A new backbone is one function and its name in the table ``BACKBONES`` of ``resnet`` or ``timm_models``; any ResNet of
torchvision and any model of timm need neither. A new value of ``representation.layer`` is one function in ``encoder``
and one entry of ``LAYERS`` in :mod:`zoo.cards.schema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports, require_extra

with require_extra("models", needed_for="Building an encoder"):
    import torch  # noqa: F401 (who asks for a module of this package is told what is missing)

if TYPE_CHECKING:
    from .build import build_empty_encoder as build_empty_encoder
    from .build import build_encoder as build_encoder
    from .encoder import Encoder as Encoder
else:  # torchvision, which building needs, takes as long to import as torch
    names = {"build": ["build_empty_encoder", "build_encoder"], "encoder": ["Encoder"]}
    __getattr__, __dir__, __all__ = make_lazy_exports(__name__, names)
