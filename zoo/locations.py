"""Where the weights of an encoder can be had: its own file and its companions, from the best place to the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .encoders import Encoder
from .encoders.layouts import layout_named, published_role
from .encoders.layouts.wrappers import Role
from .errors import QueryError
from .metadata import EncoderCard, Missing
from .provenance import architecture_hash
from .weights import store
from .weights.places import portable


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """How a user's own file is searched for the encoder; a published file is not searched."""

    checkpoint_key: str = ""  # which of several encoders in it is meant
    role: Role = ""  # which of student and teacher the method publishes
    is_layout_given: bool = False  # by the user, so that no other layout is tried

    @property
    def selection(self) -> str:
        """What of it the converted weights depend on."""
        return f"key {self.checkpoint_key}" if self.checkpoint_key else self.role


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place from which an encoder can be had, and how the file there is laid out."""

    places: tuple[str, ...]  # the file itself, then its companions
    layout: str
    sha256: str | None  # of the file, where the card knows it
    size_bytes: int | None
    key: str
    own: Own | None = None  # of a user's own file
    key_alone: str = ""  # of a user's own file that needs no companion, for it holds all of the encoder
    mirrored_key: str = ""  # under which a mirror has them, where that is another one: paths do not travel

    @property
    def keys(self) -> tuple[str, ...]:
        """Under which the converted weights may be kept."""
        return tuple(dict.fromkeys(key for key in (self.key, self.key_alone, self.mirrored_key) if key))


def candidates(
    card: EncoderCard, encoder: Encoder, *, weights: Sequence[str] = (), checkpoint_key: str = "", layout: str = ""
) -> list[Candidate]:
    """Where the weights of an encoder can be had, the best place first.

    Parameters
    ----------
    card : EncoderCard
    encoder : Encoder
        As the card builds it, with or without weights.
    weights : sequence of str
        The user's own places instead of those of the card: of the file, then of its companions, as far as they are not
        those of the card.
    checkpoint_key, layout : str
        Of the user's own file: which encoder in it is meant, and how it is laid out; empty for what the card says.

    Raises
    ------
    QueryError
        If there are more files than the encoder is made of.
    """
    known = card.weights
    given: tuple[Any, ...] = tuple(weights[:1]) or (known.url, *known.mirrors)
    own = None
    if weights:
        role = published_role(card.objective.name)
        own = Own(checkpoint_key=checkpoint_key, role=role, is_layout_given=bool(layout))
    architecture = architecture_hash(encoder)
    found = []
    for place in given:
        if isinstance(place, Missing):
            continue
        chosen = layout or _layout_of(card, place)
        companions = known.companions
        if weights:
            n = layout_named(chosen).n_companions
            if len(weights) > 1 + n:
                raise QueryError(
                    f"Found {len(weights)} files of weights for {card.id!r}, expected {'1 or 2' if n else 1} for the "
                    f"layout {chosen!r}."
                )
            companions = (*weights[1:], *known.companions[len(weights) - 1 :])[:n]
        files = (place, *companions)
        key = partial(
            store.record_key,
            layout=chosen,
            layout_version=layout_named(chosen).version,
            architecture=architecture,
            selection=own.selection if own else "",
        )
        names = list(map(store.kept_name, files))
        found.append(
            Candidate(
                places=files,
                layout=chosen,
                own=own,
                sha256=_value(known.sha256) if place == known.url else None,
                size_bytes=_value(known.size_bytes) if place == known.url else None,
                key=key(names),
                key_alone=key(names[:1]) if len(weights) == 1 < len(files) else "",
                mirrored_key=key([store.kept_name(portable(file)) for file in files]),
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
