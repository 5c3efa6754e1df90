"""From a card to an encoder with random weights, or with none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..metadata import EncoderCard
from .backbones import build_backbone
from .encoder import Encoder
from .pooling import build_pooling


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


def _built(card: EncoderCard) -> Encoder:
    backbone, width = build_backbone(card)
    encoder = Encoder(backbone, build_pooling(card, width=width), dim=card.representation.dim)
    return encoder.eval().requires_grad_(False)


class _UnfilledParameters(TorchFunctionMode):
    """Leaves out whatever would write numbers into a parameter: ``torch.nn.init`` and methods that work in place."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        written = kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0] if args else None
        name = getattr(func, "__name__", "")
        in_place = name.endswith("_") and not name.startswith("__") and name != "requires_grad_"
        if in_place and isinstance(written, nn.Parameter):
            return written
        return func(*args, **(kwargs or {}))
