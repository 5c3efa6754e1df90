"""Encoders of the user's own: a checkpoint becomes a card in the user's folder, and its weights lie beside it.

    $ZOO_HOME/weights/                              converted weights, laid out as zoo.weights.store says
    $ZOO_HOME/metadata/registered/ID/FAMILY.toml    the card, with every fact written out

A card stands on its own: it does not change when the encoder it was made like gets another card. What is registered is
never changed either; a new version is a new id.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from .atomic import replaced
from .cardchecks import PARTS, TOP_LEVEL, check_facts, check_id
from .cards import build_card, catalogue
from .content import user_folder
from .drift import compare_features, recording_path
from .encoders import Encoder, build_empty_encoder
from .encoders.layouts import layout_named
from .errors import QueryError, StoreError, ZooError, nearest_names
from .loading import places_of
from .locations import candidates
from .metadata import EncoderCard, Missing
from .preprocess import build_preprocess
from .pretrained import converted, own_store
from .provenance import Found, discard, keep, registered_place
from .weights import store
from .weights.places import shown

Facts = dict[str, Any]
_UNKNOWN = Missing.NOT_PUBLISHED.value
_NONE = Missing.NOT_APPLICABLE.value


def register(
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    like: str,
    name: str,
    facts: Mapping[str, Any] | None = None,
    layout: str | None = None,
    checkpoint_key: str | None = None,
) -> EncoderCard:
    """Makes an encoder of the zoo from a checkpoint of one's own.

    Parameters
    ----------
    weights : path or address, or a list of them
        The checkpoint; a list gives the file and its companions.
    like : str
        Id of the encoder that has the same architecture.
    name : str
        Id of the new encoder.
    facts : mapping, optional
        What differs, by dotted name: ``{"pretraining.epochs": 100}``. ``"not published"`` and ``"not applicable"`` are
        values. Accuracies, licence of the weights, month and errata of ``like`` are not taken over.
    layout : str, optional
        Of the file; without it that of ``like`` is tried, then those of the libraries.
    checkpoint_key : str, optional
        Which of several encoders in the file is meant, as for :func:`zoo.load`.

    Returns
    -------
    EncoderCard
        Of the new encoder, from now on in every listing.

    Raises
    ------
    QueryError
        If the id is taken, be it by the same encoder with other content; nothing is changed.
    CardError
        If a fact breaks the schema.
    WeightsUnavailable, WeightsRefused, StoreError, DataError
        As for the weights of any encoder.
    """
    places = places_of(weights)
    model = catalogue()[like]
    check_id("A new encoder", name)
    merged = _facts_of(model)
    _forget(merged, where=shown(places[0]))
    for field, value in (facts or {}).items():
        _set(merged, field, value)
    draft = _card(name, model.family, merged)
    if layout:
        layout_named(layout)
    encoder = build_empty_encoder(draft)
    meant = replace(model, objective=draft.objective)  # which says whether student or teacher is meant
    (choice,) = candidates(meant, encoder, weights=places, checkpoint_key=checkpoint_key or "", layout=layout or "")
    with converted(draft, encoder, choice) as (tensors, origins, reading):
        if name in catalogue():
            return _same(catalogue()[name], draft, origins[0].sha256, reading)
        found = keep(
            own_store(),
            name,
            tensors,
            encoder=encoder,
            origins=origins,
            layout=choice.layout,
            is_registered=True,
            reading=reading,
        )
    merged["weights"] |= _place_of(found)
    merged["weights"]["note"] += f" {reading}"
    card = _card(name, model.family, merged)
    try:
        _record_features(card, found, encoder)
        return _written(card, merged)
    except ZooError:
        if not _card_path(card).exists():  # it is there if only making its name lasting has failed
            recording_path(card).unlink(missing_ok=True)
            if found.is_new:
                discard(found)
        raise


def registered_folder() -> Path:
    """Where the cards of registered encoders are."""
    return user_folder() / "metadata" / "registered"


def _facts_of(card: EncoderCard) -> Facts:
    """Everything a card says, as TOML would hold it."""
    facts: Facts = {}
    for part in PARTS:
        value = getattr(card, part)
        facts[part] = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return facts


def _plain(value: Any) -> Any:
    if isinstance(value, Missing):
        return value.value
    return list(value) if isinstance(value, tuple) else deepcopy(value)


def _forget(facts: Facts, *, where: str) -> None:
    """What is true of the encoder that served as a model and not of the new one."""
    facts["reported"] = dict.fromkeys(facts["reported"], _UNKNOWN)
    facts["licence"] |= {"weights": _UNKNOWN, "published": _NONE}
    facts["provenance"] = {"url": where, "official": False, "industry": False, "extracted": False}
    facts["released"] = _UNKNOWN
    facts["errata"] = []
    facts["weights"] = {
        "availability": "open",
        "url": registered_place("0" * 64),  # until the weights are converted
        "mirrors": [],
        "companions": [],
        "same_file_as": _NONE,
        "sha256": _UNKNOWN,
        "size_bytes": _UNKNOWN,
        "format": "safetensors",
        "converter": "zoo",
        "note": f"Registered on {datetime.datetime.now(tz=datetime.UTC).date().isoformat()}.",
    }


def _set(facts: Facts, field: str, value: Any) -> None:
    part, _, name = field.partition(".")
    known = [f"{part}.{name}" for part, kind in PARTS.items() for name in kind.__dataclass_fields__] + ["released"]
    if field not in known or part == "weights":
        close = nearest_names(field, [name for name in known if not name.startswith("weights.")], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ", such as 'pretraining.epochs'."
        raise QueryError(f"There is no fact {field!r} of a registered encoder to set{hint}")
    if name:
        facts[part][name] = value
    else:
        facts[part] = value


def _card(name: str, family: str, facts: Facts) -> EncoderCard:
    checked = check_facts(f"A new encoder {name!r}", {key: facts[key] for key in facts if key in TOP_LEVEL})
    return build_card({"id": name, "family": family, **checked})


def record_of(card: EncoderCard) -> store.Record | None:
    """Where the weights of a registered encoder came from, and how its file was read; None if it is not registered."""
    found = (record for _, record in store.records(own_store()) if record and record.sha256 == card.weights.sha256)
    return next(found, None)


def _same(existing: EncoderCard, draft: EncoderCard, source_sha256: str, reading: store.Reading | None) -> EncoderCard:
    """The encoder that has this id already, if it is the very same one."""
    own = record_of(existing)
    alike = replace(existing, weights=draft.weights, provenance=draft.provenance) == draft
    is_file = own is not None and own.origins[0].sha256 == source_sha256
    if own is not None and is_file and alike and own.reading in (None, reading):
        return existing
    if own is None:
        found = f"an encoder of the family {existing.family!r}"
    elif alike and is_file:
        found = f"read otherwise: {str(own.reading).removesuffix('.')}"
    elif alike:
        found = f"made from a file with sha256 {own.origins[0].sha256}, not {source_sha256}"
    else:
        found = "an encoder with other facts"
    raise QueryError(
        f"The id {existing.id!r} is taken: it is {found}, and what is registered is never changed; choose another id."
    )


def _record_features(card: EncoderCard, found: Found, encoder: Encoder) -> None:
    """For ``zoo check``; in place of what an encoder of this id, if there ever was one, has left."""
    encoder.load_state_dict(found.tensors(remedy="register it again"), assign=True)
    compare_features(card, found, encoder, build_preprocess(card.preprocess), record=True)


def _place_of(found: Found) -> Facts:
    record = found.record
    url = registered_place(record.sha256)
    first = next((card.id for card in catalogue().values() if card.weights.url == url), _NONE)
    return {"url": url, "sha256": record.sha256, "size_bytes": record.size_bytes, "same_file_as": first}


def _card_path(card: EncoderCard) -> Path:
    return registered_folder() / card.id / f"{card.family}.toml"


def _written(card: EncoderCard, facts: Facts) -> EncoderCard:
    path = _card_path(card)
    try:
        with replaced(path, must_be_new=True) as file:
            file.write(_toml(card.id, facts).encode())
    except FileExistsError as error:
        raise QueryError(
            f"The id {card.id!r} has been taken by another process just now; choose another id."
        ) from error
    except OSError as error:
        raise StoreError(
            f"The card {path} cannot be written ({error.strerror}); make {user_folder()} writable or set ZOO_HOME."
        ) from error
    return catalogue()[card.id]


def _toml(name: str, facts: Facts) -> str:
    """A card file; JSON's texts, numbers, booleans and lists are TOML's as well."""
    lines = [
        "# Registered with SSL Zoo. What is registered is not changed: a new version is a new id.",
        f"\n[encoders.{name}]",
        f"released = {_toml_value(facts['released'])}",
        "errata = []",
    ]
    for part in PARTS:
        lines.append(f"\n[encoders.{name}.{part}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in facts[part].items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
