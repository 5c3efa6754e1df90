"""From a card to an encoder with random weights."""

from __future__ import annotations

import torch

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
        backbone, width = build_backbone(card)
        encoder = Encoder(backbone, build_pooling(card, width=width), dim=card.representation.dim)
    return encoder.eval().requires_grad_(False).to(target)
