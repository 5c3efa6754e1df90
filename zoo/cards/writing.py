"""Cards as TOML: of registered encoders, and of encoders without a card that were measured.

Rows of results outlast what timm or the Hub say of an encoder: the first row of an encoder without a card brings its
card into the user's folder, complete, so that every reader finds it without library and network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..files import get_user_folder, replace_file
from .catalogue import get_unlisted
from .schema import EncoderCard, Missing

Facts = dict[str, Any]


def extract_facts(card: EncoderCard) -> Facts:
    """Everything a card says, as TOML would hold it, part by part."""
    facts: Facts = {}
    for part in fields(card):
        value = getattr(card, part.name)
        if is_dataclass(value):
            facts[part.name] = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return facts


def _plain(value: Any) -> Any:
    if isinstance(value, Missing):
        return value.value
    return list(value) if isinstance(value, tuple) else deepcopy(value)


def format_card_toml(name: str, facts: Mapping[str, Any], *, comment: str, family: str = "") -> str:
    """A card file of one encoder, from all its facts; JSON's texts, numbers, booleans and lists are TOML's as well."""
    lines = [
        f"# {comment}",
        *([f"family = {_toml_value(family)}"] if family else []),
        f"\n[encoders.{name}]",
        f"released = {_toml_value(facts['released'])}",
        "errata = []",
    ]
    for part, table in facts.items():
        if isinstance(table, dict):
            lines.append(f"\n[encoders.{name}.{part}]")
            lines += [f"{key} = {_toml_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def format_card_file(card: EncoderCard, *, comment: str) -> str:
    """A card file with this card, complete by itself."""
    facts = extract_facts(card) | {"released": _plain(card.released)}
    return format_card_toml(card.id, facts, comment=comment, family=card.family)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def save_cards(names: Iterable[str]) -> list[Path]:
    """Writes the cards of those encoders that are in no file into the user's folder; what is there stays."""
    written = []
    for card in {one.id: one for one in map(get_unlisted, names) if one is not None}.values():
        path = get_user_folder() / "metadata" / "unlisted" / f"{card.id}.toml"
        if path.exists():
            continue
        comment = (
            "Kept when its first row was recorded, for it was in no card file here: made of what its library says, or "
            "merged; what nobody has recorded is left open."
        )
        try:
            with replace_file(path) as file:
                file.write(format_card_file(card, comment=comment).encode())
        except OSError as error:
            raise StoreError(
                f"The card of {card.id!r} cannot be written to {path} ({error.strerror}); make {get_user_folder()} "
                "writable or set ZOO_HOME."
            ) from error
        written.append(path)
    return written
