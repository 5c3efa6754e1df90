"""From the name of an encoder to the encoder and its preprocessing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from .cards import catalogue, own_card
from .drift import remember_features
from .encoders import Encoder, build_empty_encoder, build_encoder
from .encoders.build import with_features
from .encoders.layouts import require_fit
from .errors import DataError, QueryError
from .metadata import EncoderCard
from .optional import requires_extra
from .preprocess import build_preprocess
from .pretrained import obtain, own_store, remedy
from .provenance import Found, discard
from .representations import derived
from .weights.environment import weights_folder
from .weights.places import shown

with requires_extra("models", needed_for="Loading an encoder"):
    import torch


def load(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    checkpoint_key: str | None = None,
    layout: str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    features: str | None = None,
    layers: int | Iterable[int] | None = None,
) -> tuple[torch.nn.Module, Any]:
    """An encoder and its preprocessing; see :func:`zoo.load`."""
    card = catalogue()[name]
    if features is not None or layers is not None:
        card = derived(card, features=features, layers=layers)
    places = places_of(weights)
    if places and not pretrained:
        raise QueryError(
            f"Found weights={shown(places[0])!r} and pretrained=False for {card.id!r}, expected one of the two."
        )
    if (checkpoint_key or layout) and not places:
        option = "checkpoint_key" if checkpoint_key else "layout"
        raise QueryError(f"Found {option} without weights for {card.id!r}; it is about a file of your own, give both.")
    preprocess = build_preprocess(card.preprocess)
    target = torch.get_default_device() if device is None else torch.device(device)
    if not pretrained or target.type == "meta" or (card.is_untrained and not places):
        return build_encoder(card, seed=seed, device=target), preprocess
    own = own_card(card)
    encoder, found = trained(own, weights=places, checkpoint_key=checkpoint_key or "", layout=layout or "")
    encoder = encoder.to(target)
    if found.is_new and not places:
        try:
            remember_features(own, found, encoder, preprocess)  # its own features, whichever are asked for
        except DataError:  # finite weights, and features that are not
            discard(found)
            raise
    return encoder if card is own else with_features(encoder, card), preprocess


def places_of(weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None) -> tuple[str, ...]:
    """The user's own files as places: one, or a file and its companions; none for None."""
    if weights is None:
        return ()
    given = (weights,) if isinstance(weights, (str, os.PathLike)) else tuple(weights)
    if not given or not all(isinstance(place, (str, os.PathLike)) for place in given):
        raise QueryError(f"Found weights={weights!r}, expected a path, an address, or a list of them.")
    return tuple(os.fspath(place) for place in given)


def trained(
    card: EncoderCard, *, weights: Sequence[str] = (), checkpoint_key: str = "", layout: str = ""
) -> tuple[Encoder, Found]:
    """An encoder with its trained weights, on the CPU, and where they came from.

    Parameters
    ----------
    card : EncoderCard
        Of a trained encoder; of other features of one, the weights are those of the encoder.
    weights : sequence of str
        Paths or addresses of the user's own checkpoint and its companions, instead of the places of the card.
    checkpoint_key, layout : str
        Of the user's own checkpoint, as for :func:`zoo.load`.

    Raises
    ------
    WeightsUnavailable, WeightsRefused, StoreError, BuildError, MissingExtra
    """
    own = own_card(card)
    encoder = build_empty_encoder(own)
    found = obtain(own, encoder, weights=weights, checkpoint_key=checkpoint_key, layout=layout)
    state = found.tensors(remedy=remedy(found, name=own.id))
    is_ours = found.path.is_relative_to(weights_folder() / "tensors") or found.path.is_relative_to(own_store())
    require_fit(state, encoder, what=str(found.path), is_trusted=is_ours)  # a mirror was made by somebody
    encoder.load_state_dict(state, assign=True)
    encoder = encoder.requires_grad_(False)
    encoder.reading = found.record.reading
    return encoder if card is own else with_features(encoder, card), found
