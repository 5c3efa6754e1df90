"""Which constructor a card's ``architecture.backbone`` names.

``torchvision:NAME`` is a ResNet of torchvision, ``timm:NAME`` any model of timm, and ``zoo:NAME`` what neither has;
``architecture.options`` are the keyword arguments of the constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from torch import nn

from ..errors import BuildError
from ..metadata import EncoderCard
from ..optional import requires_extra
from . import resnet
from .pooling import TOKEN_LAYERS, projection_dim

Constructor: TypeAlias = Callable[..., tuple[nn.Module, int]]


def build_backbone(card: EncoderCard) -> tuple[nn.Module, int]:
    """The backbone of a card with random weights, and its width.

    Returns
    -------
    module : nn.Module
        Without classifier; with CLIP's projection as ``head`` where the card's layer needs it.
    width : int
        Channels of the last feature map, or of one token.

    Raises
    ------
    BuildError
        If the card names no known backbone, or its options or its layer do not fit it.
    """
    constructor = _constructor(card)
    options = dict(card.architecture.options)
    reads_tokens = card.representation.layer in TOKEN_LAYERS
    if reads_tokens and card.architecture.backbone.startswith("timm:"):
        options = {"global_pool": ""} | options  # models that average would drop the final norm of the tokens
    try:
        module, width = constructor(**options)
    except (TypeError, ValueError) as error:
        raise BuildError(
            f"Encoder {card.id!r}, field 'architecture.backbone': {card.architecture.backbone!r} cannot be built with "
            f"the options {card.architecture.options} ({error}); correct the card."
        ) from error
    obstacle = ""
    if reads_tokens and not getattr(module, "num_prefix_tokens", 0):
        obstacle = "has no class token"
    elif card.representation.layer == "avgpool" and getattr(module, "global_pool", None) == "token":
        obstacle = "gives its class token unless the options say global_pool = 'avg'"
    if obstacle:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.layer': found {card.representation.layer!r}, but "
            f"{card.architecture.backbone!r} {obstacle}; correct the card."
        )
    n_projected = projection_dim(card, width=width)
    if n_projected:
        module.head = nn.Linear(width, n_projected, bias=False)
        nn.init.normal_(module.head.weight, std=width**-0.5)  # as CLIP starts it
    return module, width


def _constructor(card: EncoderCard) -> Constructor:
    backbone = card.architecture.backbone
    library, _, name = backbone.partition(":")
    if library == "torchvision":
        return partial(resnet.torchvision_resnet, name)
    if backbone in resnet.BACKBONES:
        return resnet.BACKBONES[backbone]
    with requires_extra("models", needed_for=f"The encoder {card.id!r}"):
        from . import timm_models  # half a second to import, which ResNets need not pay
    if library == "timm":
        return partial(timm_models.timm_model, name)
    if backbone in timm_models.BACKBONES:
        return timm_models.BACKBONES[backbone]
    known = ", ".join(sorted(resnet.BACKBONES | timm_models.BACKBONES))
    raise BuildError(
        f"Encoder {card.id!r}, field 'architecture.backbone': found {backbone!r}, expected torchvision:NAME, "
        f"timm:NAME or one of {known}; correct the card."
    )
