"""From the name of an encoder to the encoder and its preprocessing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .cards import catalogue, own_card
from .drift import remember_features
from .encoders import Encoder, build_empty_encoder, build_encoder
from .encoders.build import with_features
from .encoders.layouts import require_fit
from .errors import DataError, MissingExtra, QueryError
from .metadata import EncoderCard
from .preprocess import build_preprocess
from .pretrained import obtain, own_store, remedy
from .provenance import Found, discard
from .representations import derived
from .weights.environment import weights_folder
from .weights.places import shown

try:
    import torch
except ModuleNotFoundError as error:
    raise MissingExtra("torch", extra="models", needed_for="Loading an encoder") from error


def load(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    features: str | None = None,
    layers: int | Iterable[int] | None = None,
) -> tuple[torch.nn.Module, Any]:
    """An encoder and its preprocessing; see :func:`zoo.load`."""
    card = catalogue()[name]
    if features is not None or layers is not None:
        card = derived(card, features=features, layers=layers)
    place = None if weights is None else os.fspath(weights)
    if place is not None and not pretrained:
        raise QueryError(
            f"Found weights={shown(place)!r} and pretrained=False for {card.id!r}, expected one of the two."
        )
    preprocess = build_preprocess(card.preprocess)
    target = torch.get_default_device() if device is None else torch.device(device)
    if not pretrained or target.type == "meta" or (card.is_untrained and place is None):
        return build_encoder(card, seed=seed, device=target), preprocess
    own = own_card(card)
    encoder, found = trained(own, weights=place)
    encoder = encoder.to(target)
    if found.is_new and place is None:
        try:
            remember_features(own, found, encoder, preprocess)  # its own features, whichever are asked for
        except DataError:  # finite weights, and features that are not
            discard(found)
            raise
    return encoder if card is own else with_features(encoder, card), preprocess


def trained(card: EncoderCard, *, weights: str | None = None) -> tuple[Encoder, Found]:
    """An encoder with its trained weights, on the CPU, and where they came from.

    Parameters
    ----------
    card : EncoderCard
        Of a trained encoder; of other features of one, the weights are those of the encoder.
    weights : str, optional
        A path or an address of the user's own checkpoint, instead of the places of the card.

    Raises
    ------
    WeightsUnavailable, WeightsRefused, StoreError, BuildError, MissingExtra
    """
    own = own_card(card)
    encoder = build_empty_encoder(own)
    found = obtain(own, encoder, weights=weights)
    state = found.tensors(remedy=remedy(found, name=own.id))
    is_ours = found.path.is_relative_to(weights_folder() / "tensors") or found.path.is_relative_to(own_store())
    require_fit(state, encoder, what=str(found.path), is_trusted=is_ours)  # a mirror was made by somebody
    encoder.load_state_dict(state, assign=True)
    encoder = encoder.requires_grad_(False)
    return encoder if card is own else with_features(encoder, card), found
