"""From a card to a module that turns images into features.

>>> from zoo.cards.catalogue import catalogue
>>> from zoo.encoders import build_encoder
>>> encoder = build_encoder(catalogue()["simclr_rn50"], device="meta")
>>> sum(parameter.numel() for parameter in encoder.parameters())
23508032

A new backbone is one function and its name in the table ``BACKBONES`` of ``resnet`` or ``timm_models``; any ResNet of
torchvision and any model of timm need neither. A new value of ``representation.layer`` is one function in ``encoder``
and one entry of ``LAYERS`` in :mod:`zoo.cards.schema`.
"""

from __future__ import annotations

from ..optional import requires_extra

with requires_extra("models", needed_for="Building an encoder"):
    from .build import build_empty_encoder, build_encoder
    from .encoder import Encoder

__all__ = ["Encoder", "build_empty_encoder", "build_encoder"]
