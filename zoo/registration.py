"""Encoders of the user: a checkpoint becomes a card in the user's folder, with its weights next to it.

    $ZOO_HOME/weights/                              converted weights, laid out as zoo.weights.store says
    $ZOO_HOME/metadata/registered/ID/FAMILY.toml    the card, with every fact written out

A card is complete: it does not change when the encoder it was made like gets another card. What is registered is never
changed either; a new version is a new id. Cards and records name weights by their content and contain no path, so that
the folder may be moved.

What makes the features (architecture, representation, preprocessing) is that of the encoder it was made like, for its
weights would not fit otherwise. How it was trained, by whom and under which licence is "not published" unless it is
stated or inherited on purpose.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .cards.catalogue import build_card, load_catalogue, read_card_files
from .cards.reading import PARTS, TOP_LEVEL, check_facts, check_id
from .cards.representations import MARK
from .cards.schema import EncoderCard, Missing
from .cards.writing import extract_facts, format_card_toml
from .encoders import build_empty_encoder
from .encoders.layouts import get_layout
from .encoders.layouts.lora import parse_lora
from .encoders.preprocess import build_preprocess
from .errors import QueryError, StoreError, ZooError, find_nearest_names
from .files import get_user_folder, lock_file, make_new_folder, require_regular, synchronise_folder
from .loading import (
    convert_candidate,
    discard,
    format_registered_location,
    get_registered_store,
    list_user_files,
    list_weights_sources,
    store_weights,
)
from .regression_check import compute_recording, get_recording_path, keep_recording, require_finite
from .results.reading import read_files
from .results.recording import build_file_stem, get_provenance_path
from .weights import maintenance, store
from .weights.locations import format_location, is_path, resolve_source

Facts = dict[str, Any]
_COMMENT = "Registered with SSL Zoo. What is registered is not changed: a new version is a new id."
_UNKNOWN = Missing.NOT_PUBLISHED.value
_NONE = Missing.NOT_APPLICABLE.value
_PATIENCE_S = 600.0  # while another process registers an encoder, whatever its size

INHERITABLE = {
    "pretraining": ("objective", "projector", "pretraining"),
    "licence": ("licence",),
    "paper": ("paper",),
}
"""What a new encoder may inherit from the one it is made like -> the parts of the card with these facts."""


def register(
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    like: str,
    name: str,
    facts: Mapping[str, Any] | None = None,
    inherit: Collection[str] = (),
    layout: str | None = None,
    checkpoint_key: str | None = None,
    merge_lora: str = "",
) -> EncoderCard:
    """Makes an encoder of the zoo from a user's checkpoint.

    Parameters
    ----------
    weights : path or address, or a list of them
        The checkpoint; a list gives the file and its companions.
    like : str
        Id of the encoder that has the same architecture, features and preprocessing.
    name : str
        Id of the new encoder.
    facts : mapping, optional
        What is known of it, by dotted name: ``{"pretraining.epochs": 100}``. ``"not published"`` and
        ``"not applicable"`` are values. What is neither stated nor inherited is not published.
    inherit : collection of str, optional
        Keys of :data:`INHERITABLE`: what is true of the new encoder because it is true of ``like``. ``"pretraining"``
        is how it was trained, with objective and projector.
    layout : str, optional
        Of the file; without it that of ``like`` is tried, then those of the libraries, then all the others.
    checkpoint_key : str, optional
        Which of several encoders in the file is meant, as for :func:`zoo.load`.
    merge_lora : str, optional
        LoRA matrices are merged into the weights: by their scale, alpha / r; by peft's ``adapter_config.json``; or by
        the folder with that and the matrices, for a file that has only the weights.

    Returns
    -------
    EncoderCard
        Of the new encoder, from now on in every listing.

    Raises
    ------
    QueryError
        If the id is taken, be it by the same encoder with other content, or something is to be inherited that cannot
        be; nothing is changed.
    CardError
        If a fact breaks the schema.
    WeightsUnavailable, WeightsRefused, StoreError, DataError
        As for the weights of any encoder; nothing is left behind.
    """
    places = list_user_files(weights)
    model = load_catalogue()[like]
    check_id("A new encoder", name)
    merged = extract_facts(model)
    path = resolve_source(places[0]).path if is_path(places[0]) else None
    _forget(merged, origin=format_location(places[0]) if path is None else path.name, inherit=inherit)
    for field, value in (facts or {}).items():
        _set(merged, field, value)
    draft = _card(name, model.family, merged)
    if layout:
        get_layout(layout)
    encoder = build_empty_encoder(draft)
    knows_method = draft.objective.name is not Missing.NOT_PUBLISHED
    meant = replace(model, objective=draft.objective) if knows_method else model  # is student or teacher published
    files = tuple(os.path.abspath(resolve_source(place).path or place) if is_path(place) else place for place in places)
    (choice,) = list_weights_sources(
        meant, encoder, weights=files, checkpoint_key=checkpoint_key or "", layout=layout or ""
    )
    lora, is_given = parse_lora(merge_lora) if merge_lora else None, "architecture.options" in (facts or {})
    if choice.search is not None:
        search = replace(choice.search, lora=lora, like=like, is_network_given=is_given)
        choice = replace(choice, search=search)

    with _exclusive_lock(), convert_candidate(draft, encoder, choice) as (tensors, origins, reading, found):
        if found is not draft:
            encoder = build_empty_encoder(found)
            n_parameters = sum(parameter.numel() for parameter in encoder.parameters())
            draft = replace(found, architecture=replace(found.architecture, n_parameters=n_parameters))
            merged |= {part: extract_facts(draft)[part] for part in ("architecture", "preprocess", "representation")}
        if name in load_catalogue():
            return _same(load_catalogue()[name], draft, origins[0].sha256, reading)
        stored = store_weights(
            get_registered_store(),
            name,
            tensors,
            encoder=encoder,
            origins=origins,
            layout=choice.layout,
            is_registered=True,
            reading=reading,
        )
        try:
            encoder.load_state_dict(stored.tensors(remedy="register it again"), assign=True)
            recording = compute_recording(stored, encoder, build_preprocess(draft.preprocess))
            require_finite(draft, recording)
            url = format_registered_location(stored.record.sha256)
            urls = load_catalogue().column("weights.url")
            first = next((one for one, known in urls.items() if known == url), _NONE)
            size = stored.record.size_bytes
            merged["weights"] |= {"url": url, "sha256": stored.record.sha256, "size_bytes": size, "same_file_as": first}
            merged["weights"]["note"] += f" {reading}"
            card = _written(_card(name, model.family, merged), merged)
        except ZooError:
            if stored.is_new and name not in load_catalogue():  # it is there if only making its name lasting has failed
                discard(stored)
            raise
        try:
            keep_recording(card, recording)
        except ZooError:
            _remove(card)
            raise
        _restore_rows(card)
    return card


def read_facts(path: Path) -> Facts:
    """Facts by dotted name, from a TOML or JSON file that is written like a card.

    A table is a part of the card (``[pretraining]``); dotted names at the top (``"pretraining.epochs"``) are understood
    too.
    """
    suffix = path.suffix.casefold()
    if suffix not in (".toml", ".json"):
        raise QueryError(f"The file of facts is {path.name!r}, expected one that ends in .toml or .json.")
    try:
        require_regular(path)
        text = path.read_text(encoding="utf-8-sig")
        document = tomllib.loads(text) if suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise QueryError(f"The file of facts {path} cannot be read ({error.strerror}); correct the path.") from error
    except ValueError as error:
        raise QueryError(f"The file of facts {path} is no {suffix[1:].upper()} ({error}); correct it.") from error
    if not isinstance(document, dict):
        raise QueryError(f"The file of facts {path} holds {type(document).__name__}, expected tables of facts.")
    facts: Facts = {}
    for part, value in document.items():
        if isinstance(value, dict) and part in PARTS:
            facts |= {f"{part}.{name}": fact for name, fact in value.items()}
        else:
            facts[part] = value
    for field, value in facts.items():
        if value is None:
            raise QueryError(
                f"The file of facts {path} has null for {field!r}; say {_UNKNOWN!r} or {_NONE!r}, or leave it out."
            )
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterResult:
    """What was done to unregister an encoder."""

    encoder: str
    freed_bytes: int
    kept_rows: tuple[Path, ...]  # files of its results, which no listing reads any more
    n_rows: int  # in them
    stray_rows: tuple[Path, ...]  # the user's other files that name it; their rows are ignored from now on


def require_registered(names: Sequence[str]) -> list[EncoderCard]:
    """The cards of registered encoders; refused if one was not registered, or others depend on it."""
    cards = load_catalogue()
    wanted = {card.id: card for card in (cards[name] for name in names)}
    for card in wanted.values():
        if _card_folder(card) is None:
            raise QueryError(
                f"{card.id!r} was not registered; expected an encoder of {get_registered_folder()}, so remove its card "
                "by hand if it is your own."
            )
    for other in cards.values():
        needed = other.weights.same_file_as
        if other.id not in wanted and needed in wanted:
            raise QueryError(
                f"{other.id!r} reads the weights of {needed!r}; name both, or unregister {other.id!r} first."
            )
    for path, encoder, needed in _own_likes():
        if needed in wanted and encoder not in wanted:
            raise QueryError(f"The card of {encoder!r} in {path} is like {needed!r}; give it facts of its own first.")
    return list(wanted.values())


def unregister(names: Sequence[str]) -> list[UnregisterResult]:
    """Removes registered encoders: cards, checks, and the weights that no other encoder reads.

    Their results stay, under a name that no listing reads; registering the same weights under the same id restores
    them. Lock files have no lines of registered weights.
    """
    cards = require_registered(names)
    cards.sort(key=lambda card: isinstance(card.weights.same_file_as, Missing))  # those that others need come last
    done = []
    try:
        for card in cards:
            with _exclusive_lock():
                freed = _remove(card)
                kept_rows, n_rows = _set_rows_aside(card)
                get_recording_path(card).unlink(missing_ok=True)
            stray = _files_naming(card)
            done.append(
                UnregisterResult(
                    encoder=card.id, freed_bytes=freed, kept_rows=kept_rows, n_rows=n_rows, stray_rows=stray
                )
            )
    except OSError as error:
        raise StoreError(
            f"{error.filename} cannot be moved or removed ({error.strerror}); make {get_user_folder()} writable."
        ) from error
    return done


def get_registered_folder() -> Path:
    """Where the cards of registered encoders are."""
    return get_user_folder() / "metadata" / "registered"


def _forget(facts: Facts, *, origin: str, inherit: Collection[str]) -> None:
    """Removes the facts that are true of the model encoder and not, as far as is known, of the new one."""
    for what in inherit:
        if what not in INHERITABLE:
            expected = ", ".join(map(repr, INHERITABLE))
            raise QueryError(f"There is nothing named {what!r} to inherit; expected one of {expected}.")
    inherited = {part for what in inherit for part in INHERITABLE[what]}
    for parts in INHERITABLE.values():
        for part in parts:
            if part not in inherited:
                facts[part] = dict.fromkeys(facts[part], _UNKNOWN)
    facts["licence"]["published"] = _NONE
    facts["reported"] = dict.fromkeys(facts["reported"], _UNKNOWN)
    facts["provenance"] = dict.fromkeys(facts["provenance"], _UNKNOWN) | {"url": origin}
    facts["released"] = _UNKNOWN
    facts["errata"] = []
    facts["weights"] = {
        "availability": "open",
        "url": format_registered_location("0" * 64),  # until the weights are converted
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
        close = find_nearest_names(field, [name for name in known if not name.startswith("weights.")], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ", such as 'pretraining.epochs'."
        raise QueryError(f"There is no fact {field!r} of a registered encoder to set{hint}")
    if name:
        facts[part][name] = value
    else:
        facts[part] = value


def _card(name: str, family: str, facts: Facts) -> EncoderCard:
    checked = check_facts(f"A new encoder {name!r}", {key: facts[key] for key in facts if key in TOP_LEVEL})
    return build_card({"id": name, "family": family, **checked})


def find_registered_record(card: EncoderCard) -> store.WeightsRecord | None:
    """The record of the weights of a registered encoder; None if it is not registered."""
    records = (
        record
        for _, record in store.iterate_weights_records(get_registered_store())
        if record and record.sha256 == card.weights.sha256
    )
    return next(records, None)


def _same(
    existing: EncoderCard, draft: EncoderCard, source_sha256: str, reading: store.FileReading | None
) -> EncoderCard:
    """The encoder that has this id already, if all facts agree; otherwise refuses."""
    record = find_registered_record(existing)
    alike = replace(existing, weights=draft.weights, provenance=draft.provenance) == draft
    is_file = record is not None and record.origins[0].sha256 == source_sha256
    before = reading and replace(reading, notes=())  # as earlier versions have recorded it
    if record is not None and is_file and alike and record.reading in (None, reading, before):
        return existing
    if record is None:
        there = f"an encoder of the family {existing.family!r}"
    elif alike and is_file:
        there = f"read otherwise: {str(record.reading).removesuffix('.')}"
    elif alike:
        there = f"made from a file with sha256 {record.origins[0].sha256}, not {source_sha256}"
    else:
        there = "an encoder with other facts"
    raise QueryError(
        f"The id {existing.id!r} is taken: it is {there}, and what is registered is never changed; choose another id."
    )


@contextmanager
def _exclusive_lock() -> Iterator[None]:
    """One process registers at a time."""
    try:
        with lock_file(get_registered_folder() / ".lock", patience_s=_PATIENCE_S):
            yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or get_registered_folder()} cannot be written ({error.strerror}); make "
            f"{get_user_folder()} writable or set ZOO_HOME."
        ) from error


def _card_folder(card: EncoderCard) -> Path | None:
    """The folder of a registered card; None if there is none."""
    for path in get_registered_folder().glob("*/*.toml"):
        if path.parent.name.casefold() == card.id.casefold() and path.stem == card.family:
            return path.parent
    return None


def _remove(card: EncoderCard) -> int:
    """Removes a registered card, and its weights unless another encoder reads them; the bytes that are freed."""
    folder = _card_folder(card)
    if folder is not None:
        aside = folder.parent / f".{folder.name}-{os.urandom(8).hex()}.tmp"
        os.rename(folder, aside)
        synchronise_folder(folder.parent)
        shutil.rmtree(aside, ignore_errors=True)
    if card.weights.url in load_catalogue().column("weights.url").values():
        return 0
    stored = maintenance.list_store_records(maintenance.WeightsStore(kind="registered", folder=get_registered_store()))
    return maintenance.remove([one for one in stored if one.record and one.record.origins[0].place == card.weights.url])


def _files_of_rows(card: EncoderCard) -> tuple[Path, Path]:
    """The files of ``zoo.results.recording`` for an encoder: rows and their provenance."""
    rows = get_user_folder() / "results" / "measured" / f"{build_file_stem(card.id)}.csv"
    return rows, get_provenance_path(rows)


def _aside(path: Path, card: EncoderCard) -> Path:
    """Name of the results of an unregistered encoder: the hash of its weights is part of it."""
    return path.with_name(f"{path.name}.unregistered-{str(card.weights.sha256)[:12]}")


def _set_rows_aside(card: EncoderCard) -> tuple[tuple[Path, ...], int]:
    """Renames the results of an encoder, so that no encoder of the same id takes them over."""
    moved, n_rows = [], 0
    with lock_file(get_user_folder() / "results" / ".lock"):
        for path in _files_of_rows(card):
            if path.exists():
                if path.suffix == ".csv":
                    n_rows = max(0, len(path.read_bytes().splitlines()) - 1)
                os.replace(path, _aside(path, card))
                moved.append(_aside(path, card))
    return tuple(moved), n_rows


def _restore_rows(card: EncoderCard) -> None:
    """Restores the name of the results of an unregistered encoder with the same weights."""
    for path in _files_of_rows(card):
        if _aside(path, card).exists() and not path.exists():
            os.replace(_aside(path, card), path)


def _files_naming(card: EncoderCard) -> tuple[Path, ...]:
    """Results files of the user that name an encoder."""
    names = (f"{card.id},".lower().encode(), f"{card.id}{MARK}".lower().encode())
    home = get_user_folder().resolve()
    return tuple(
        path
        for path, content in read_files(".csv").items()
        if path.resolve().is_relative_to(home) and any(line.startswith(names) for line in content.lower().splitlines())
    )


def _own_likes() -> Iterator[tuple[Path, str, str]]:
    """File, encoder and the encoder that it is like, of the user's cards; without those that are left out."""
    known = load_catalogue()
    for path, content in read_card_files().items():
        if path.is_relative_to(get_user_folder()):
            try:
                encoders = tomllib.loads(content.decode("utf-8-sig")).get("encoders", {})
            except ValueError:  # a broken file, of which the catalogue warns
                continue
            for encoder, facts in encoders.items() if isinstance(encoders, dict) else ():
                if encoder in known and isinstance(facts, dict) and isinstance(facts.get("like"), str):
                    yield path, encoder, facts["like"]


def _written(card: EncoderCard, facts: Facts) -> EncoderCard:
    target = get_registered_folder() / card.id.casefold()
    try:
        with make_new_folder(target) as folder, open(folder / f"{card.family}.toml", "xb") as file:
            file.write(format_card_toml(card.id, facts, comment=_COMMENT).encode())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise StoreError(
            f"{target} is in the way of the card of {card.id!r} and holds no readable card of that id; move it away."
        ) from error
    except OSError as error:
        raise StoreError(
            f"The card of {card.id!r} cannot be written to {target} ({error.strerror}); make {get_user_folder()} "
            "writable or set ZOO_HOME."
        ) from error
    return load_catalogue()[card.id]
