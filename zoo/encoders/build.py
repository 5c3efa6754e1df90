"""From a card to an encoder with random weights, or with none."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..cards import own_card
from ..metadata import EncoderCard
from .backbones import build_backbone
from .encoder import Encoder
from .pooling import QuantisedProjection, build_pooling, other_pooling


def build_encoder(card: EncoderCard, *, seed: int = 0, device: torch.device | str | None = None) -> Encoder:
    """The encoder that a card describes, with random weights.

    Parameters
    ----------
    card : EncoderCard
    seed : int
        The same seed gives the same weights on every device; the global random state is neither read nor changed.
    device : device or str, optional
        Where the encoder ends up; torch's default device if nothing is said. On ``"meta"`` nothing is allocated or
        computed, whatever the size.

    Returns
    -------
    Encoder
        In eval mode; parameters ask for no gradient.

    Raises
    ------
    BuildError
        If the card names something that cannot be built; says which field.
    MissingExtra
        If timm is needed and not installed.
    """
    target = torch.get_default_device() if device is None else torch.device(device)
    with torch.random.fork_rng(devices=[]), torch.device("meta" if target.type == "meta" else "cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every accelerator
        encoder = _built(card)
    return encoder.to(target)


def build_empty_encoder(card: EncoderCard) -> Encoder:
    """The encoder that a card describes, on the CPU, its parameters allocated and not yet filled.

    For whoever loads all of them at once: random numbers are what takes most of the time of :func:`build_encoder`.
    Buffers, such as BEiT's table of relative positions, which no file holds, are what they must be.

    Raises
    ------
    BuildError, MissingExtra
        As :func:`build_encoder`.
    """
    with torch.device("cpu"), _UnfilledParameters():
        return _built(card)


def with_features(encoder: Encoder, card: EncoderCard) -> Encoder:
    """The same backbone with the features of a card that :mod:`zoo.representations` has derived.

    Parameters
    ----------
    encoder : Encoder
        Of the card that it was derived from.
    card : EncoderCard

    Returns
    -------
    Encoder
        Shares the backbone; its state dict has the same names and shapes, so that weights of one are weights of both.

    Raises
    ------
    BuildError
        If the backbone does not have such features.
    """
    own = encoder.pooling
    pooling = other_pooling(card, encoder.backbone)
    if isinstance(own, QuantisedProjection):
        own = copy(own)  # shares the parameters
        own.instead, pooling = pooling, own
    other = Encoder(encoder.backbone, pooling, dim=card.representation.dim).eval()
    other.reading = encoder.reading
    return other


def _built(card: EncoderCard) -> Encoder:
    own = own_card(card)
    if own is not card:
        own = replace(card, id=own.id, representation=own.representation)  # of what was asked for, as it may be changed
    backbone, width = build_backbone(own)
    encoder = Encoder(backbone, build_pooling(own, width=width), dim=own.representation.dim)
    encoder = encoder.eval().requires_grad_(False)
    return encoder if own is card else with_features(encoder, card)


_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]


class _UnfilledParameters(TorchFunctionMode):
    """Leaves out whatever would write numbers into a parameter: ``torch.nn.init``, methods in place, ``.data``."""

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
