"""From a card to an encoder with random weights, or with none.

``architecture.backbone`` names the constructor: ``torchvision:NAME`` is a ResNet of torchvision, ``timm:NAME`` any
model of timm, ``transformers:MODEL_TYPE`` a vision backbone of transformers, and ``zoo:NAME`` what none of them has;
``architecture.options`` are the constructor's keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..cards.catalogue import get_base_card
from ..cards.schema import LAYERS, EncoderCard
from ..errors import BuildError
from ..optional import require_extra
from . import resnet
from .encoder import Encoder, QuantisedProjection, build_derived_pooling, build_pooling, get_projection_dim

Constructor: TypeAlias = Callable[..., tuple[nn.Module, int]]


def build_backbone(card: EncoderCard) -> tuple[nn.Module, int]:
    """The backbone of a card with random weights and without classifier, and its width.

    The width is the number of channels of the last feature map, or of one token. CLIP's projection is the ``head``
    where the card's layer needs it. BuildError if the backbone is unknown, or its options or its layer do not fit it.
    """
    constructor = _constructor(card)
    options = dict(card.architecture.options)
    reads_tokens = bool(LAYERS[card.representation.layer].tokens)
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
    reads_prefix = LAYERS[card.representation.layer].tokens not in ("", "avg")
    if reads_prefix and not getattr(module, "num_prefix_tokens", 0):
        obstacle = "has no class token"
    elif card.representation.layer == "avgpool" and getattr(module, "global_pool", None) == "token":
        obstacle = "gives its class token unless the options say global_pool = 'avg'"
    if obstacle:
        raise BuildError(
            f"Encoder {card.id!r}, field 'representation.layer': found {card.representation.layer!r}, but "
            f"{card.architecture.backbone!r} {obstacle}; correct the card."
        )
    if not reads_tokens and card.architecture.backbone.startswith("timm:"):
        width = getattr(module, "head_hidden_size", width)  # what timm pools may pass one more layer
    if card.representation.layer == "pooled":
        width = getattr(module, "pooled_features", width)  # RADIO of transformers joins class tokens
    n_projected = get_projection_dim(card, width=width)
    if n_projected:
        module.head = nn.Linear(width, n_projected, bias=False)
        nn.init.normal_(module.head.weight, std=width**-0.5)  # as CLIP starts it
    return module, width


def _constructor(card: EncoderCard) -> Constructor:
    backbone = card.architecture.backbone
    library, _, name = backbone.partition(":")
    if library == "torchvision":
        return partial(resnet.build_torchvision_resnet, name)
    if backbone in resnet.BACKBONES:
        return resnet.BACKBONES[backbone]
    if library == "transformers":
        with require_extra("transformers", needed_for=f"The encoder {card.id!r}"):
            from . import transformers_models
        return partial(transformers_models.build_transformers_model, name)
    with require_extra("models", needed_for=f"The encoder {card.id!r}"):
        from . import timm_models  # slow to import, and not needed for ResNets
    if library == "timm":
        return partial(timm_models.build_timm_model, name)
    if backbone in timm_models.BACKBONES:
        return timm_models.BACKBONES[backbone]
    known = ", ".join(sorted(resnet.BACKBONES | timm_models.BACKBONES))
    raise BuildError(
        f"Encoder {card.id!r}, field 'architecture.backbone': found {backbone!r}, expected torchvision:NAME, "
        f"timm:NAME, transformers:MODEL_TYPE or one of {known}; correct the card."
    )


def build_encoder(card: EncoderCard, *, seed: int = 0, device: torch.device | str | None = None) -> Encoder:
    """The encoder that a card describes, with random weights.

    Parameters
    ----------
    card : EncoderCard
    seed : int
        The same seed gives the same weights on every device; the global random state is neither read nor changed.
    device : device or str, optional
        Where the encoder ends up; by default torch's default device. On ``"meta"`` nothing is allocated, drawn or
        computed, whatever the size.

    Returns
    -------
    Encoder
        In eval mode; parameters require no gradient.

    Raises
    ------
    BuildError
        If the card names something that cannot be built; says which field.
    MissingExtra
        If timm is needed and not installed.
    """
    target = torch.get_default_device() if device is None else torch.device(device)
    if target.type == "meta":
        with torch.device("meta"), _UnfilledParameters():
            return _built(card)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every accelerator
        encoder = _built(card)
    return encoder.to(target)


def build_empty_encoder(card: EncoderCard) -> Encoder:
    """The encoder that a card describes, on the CPU, its parameters allocated and not yet filled.

    For loading: drawing random numbers takes most of the time of :func:`build_encoder`. Buffers, such as BEiT's table
    of relative positions, which no file holds, have their values.

    Raises
    ------
    BuildError, MissingExtra
        As :func:`build_encoder`.
    """
    with torch.device("cpu"), _UnfilledParameters():
        return _built(card)


def replace_pooling(encoder: Encoder, card: EncoderCard) -> Encoder:
    """The same backbone with the features of a card that :mod:`zoo.cards.representations` has derived.

    Names and shapes of the state dict stay the same, so that weights of one are weights of both.
    """
    pooling = build_derived_pooling(card, encoder.backbone)
    if isinstance(encoder.pooling, QuantisedProjection):
        quantised = copy(encoder.pooling)  # shares the parameters
        quantised.instead, pooling = pooling, quantised
    other = Encoder(encoder.backbone, pooling, dim=card.representation.dim).eval()
    other.reading, other.interpolated_px, other.px = encoder.reading, encoder.interpolated_px, encoder.px
    other.card = replace(card, preprocess=card.preprocess if encoder.card is None else encoder.card.preprocess)
    return other


def _built(card: EncoderCard) -> Encoder:
    whole = get_base_card(card)
    if whole is not card:  # architecture and weights as in ``card``, which may have been changed
        whole = replace(card, id=whole.id, representation=whole.representation)
    backbone, width = build_backbone(whole)
    encoder = Encoder(backbone, build_pooling(whole, width=width), dim=whole.representation.dim)
    encoder = encoder.eval().requires_grad_(False)
    encoder.px, encoder.card = whole.preprocess.crop_px, whole
    return encoder if whole is card else replace_pooling(encoder, card)


_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]


class _UnfilledParameters(TorchFunctionMode):
    """Skips whatever would write numbers into a parameter: ``torch.nn.init``, methods in place, ``.data``."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        written = kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0] if args else None
        name = getattr(func, "__name__", "")
        if func == _DATA and isinstance(written, nn.Parameter):
            return torch.empty_like(written, device="meta")  # whatever is written there is lost
        in_place = name.endswith("_") and not name.startswith("__") and name != "requires_grad_"
        if in_place and isinstance(written, nn.Parameter):
            return written
        return func(*args, **(kwargs or {}))
