"""Where the weights of an encoder can be had: its own file and its companions, from the best place to the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .encoders import Encoder
from .encoders.layouts import layout_named
from .metadata import EncoderCard, Missing
from .provenance import architecture_hash
from .weights import store
from .weights.places import portable


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place from which an encoder can be had, and how the file there is laid out."""

    places: tuple[str, ...]  # the file itself, then its companions
    layout: str
    sha256: str | None  # of the file, where the card knows it
    size_bytes: int | None
    key: str
    mirrored_key: str = ""  # under which a mirror has them, where that is another one: paths do not travel


def candidates(card: EncoderCard, encoder: Encoder, *, weights: str | None = None) -> list[Candidate]:
    """Where the weights of an encoder can be had, the best place first.

    Parameters
    ----------
    card : EncoderCard
    encoder : Encoder
        As the card builds it, with or without weights.
    weights : str, optional
        The user's own place, instead of those of the card.
    """
    known = card.weights
    given = (known.url, *known.mirrors) if weights is None else (weights,)
    architecture = architecture_hash(encoder)
    found = []
    for place in given:
        if isinstance(place, Missing):
            continue
        layout = _layout_of(card, place)
        files = (place, *known.companions)
        version = layout_named(layout).version
        key, mirrored_key = (
            store.record_key(
                [store.kept_name(name(file)) for file in files],
                layout=layout,
                layout_version=version,
                architecture=architecture,
            )
            for name in (str, portable)
        )
        found.append(
            Candidate(
                places=files,
                layout=layout,
                sha256=_value(known.sha256) if place == known.url else None,
                size_bytes=_value(known.size_bytes) if place == known.url else None,
                key=key,
                mirrored_key=mirrored_key,
            )
        )
    return found


def _layout_of(card: EncoderCard, place: str) -> str:
    converter = card.weights.converter
    if isinstance(converter, Missing) or place.startswith(store.REGISTERED):
        return "zoo"
    is_rewritten = place.startswith("timm:") and converter not in ("clip", "openclip", "lossyless")
    return "timm" if is_rewritten else converter


def _value(fact: Any) -> Any:
    return None if isinstance(fact, Missing) else fact
