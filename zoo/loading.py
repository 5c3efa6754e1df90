"""From the name of an encoder to the encoder and its preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cards import catalogue
from .encoders import build_encoder
from .errors import WeightsUnavailable
from .metadata import EncoderCard, Missing
from .preprocess import build_preprocess

if TYPE_CHECKING:
    import torch


def load(
    name: str, *, pretrained: bool = True, seed: int = 0, device: str | torch.device | None = None
) -> tuple[torch.nn.Module, Any]:
    """An encoder and its preprocessing; see :func:`zoo.load`."""
    card = catalogue()[name]
    if pretrained and not card.is_untrained:
        raise WeightsUnavailable(_why_unavailable(card))
    return build_encoder(card, seed=seed, device=device), build_preprocess(card.preprocess)


def _why_unavailable(card: EncoderCard) -> str:
    remedy = "pass pretrained=False for the architecture with random weights"
    if card.weights.availability == "gone":
        return f"The weights of {card.id!r} are gone from the only place that had them ({card.weights.url}); {remedy}."
    place = "an unknown place" if isinstance(card.weights.url, Missing) else card.weights.url
    return (
        f"The weights of {card.id!r} ({place}) cannot be had yet, because this version of the zoo "
        f"builds encoders but does not fetch weights; {remedy}."
    )
