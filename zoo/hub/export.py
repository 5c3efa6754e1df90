"""Writes an encoder as a folder for the Hugging Face Hub: ``model.safetensors``, ``config.json`` and ``README.md``.

The weights are the converted ones, byte for byte; the facts in ``config.json`` are what is needed to build and use the
encoder, and the source of the weights; the README is the model card. The folder is written next to its place and
renamed. An earlier export is replaced only if it is unchanged, and is restored after a crash.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ..cards.representations import MARK, get_base_id
from ..cards.schema import EncoderCard, Missing
from ..errors import QueryError, StoreError, WeightsRefused
from ..files import replace_file, replace_folder
from ..loading import StoredWeights
from ..version import __version__
from ..weights.locations import format_location, format_portable_location, hash_file, strip_url_keys
from ..weights.store import WeightsRecord, format_recorded_name
from .modelcard import build_model_card

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
FORMAT = "zoo-export-1"
_CHECKSUM = "config_sha256"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _config_bytes(facts: dict[str, Any]) -> bytes:
    """``config.json``: the facts, and at their end the SHA-256 of the same file without that line."""
    return _json(facts | {_CHECKSUM: hashlib.sha256(_json(facts)).hexdigest()})


def _difference(folder: Path, card: EncoderCard) -> str | None:
    """How a folder differs from an unchanged export of this encoder; None if it does not."""
    names = {entry.name for entry in folder.iterdir()}
    if others := sorted(names - {WEIGHTS, CONFIG, CARD}):
        return f"it holds {others[0]!r}"
    if missing := sorted({WEIGHTS, CONFIG, CARD} - names):
        return f"it lacks {missing[0]!r}"
    try:
        content = (folder / CONFIG).read_bytes()
        config = json.loads(content)
        facts = {key: value for key, value in config.items() if key != _CHECKSUM}
        if (facts["format"], facts["encoder"]) != (FORMAT, card.id):
            return f"it is one of {facts['encoder']!r}"
        if _config_bytes(facts) != content:  # so that spaces, order and repeated names count too
            return f"{CONFIG} was changed since"
        for name, sha256 in ((CARD, facts["model_card_sha256"]), (WEIGHTS, facts["weights"]["sha256"])):
            if hash_file(folder / name)[0] != sha256:
                return f"{name} was changed since"
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return f"{CONFIG} cannot be read, or is of another kind"
    return None


_BUILT_FROM = ("architecture", "representation", "preprocess", "licence")  # parts of the card


def export_to_hub_folder(card: EncoderCard, found: StoredWeights, folder: Path) -> list[Path]:
    """Writes the folder of a trained encoder; returns the paths of weights, facts and model card.

    ``folder`` is absent, empty, or an unchanged earlier export of the same encoder, which is replaced; if writing fails
    it stays as it was. The same card, weights and results give the same bytes.
    """
    require_exportable(card, folder)
    _require_own_weights(card, found.record)
    target = Path(os.path.realpath(folder))
    text = str(build_model_card(card, found.record)).encode()
    config = _config(card, found.record, checksum=hashlib.sha256(text).hexdigest())
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    try:
        with replace_file(temporary / WEIGHTS) as file, open(found.path, "rb") as source:
            shutil.copyfileobj(source, file)
        if hash_file(temporary / WEIGHTS)[0] != found.record.sha256:
            raise WeightsRefused(
                f"The weights {found.path} are damaged (their SHA-256 differs from their name); run 'zoo verify', "
                "and nothing was exported."
            )
        for name, content in ((CONFIG, _config_bytes(config)), (CARD, text)):
            with replace_file(temporary / name) as file:
                file.write(content)
        replace_folder(temporary, target)
    except OSError as error:
        raise StoreError(
            f"{card.id!r} cannot be exported to {target} ({error.strerror or error}); nothing was changed there: "
            f"{found.record.size_bytes / 1e6:,.0f} MB are needed, in a folder that can be written and renamed."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return [target / name for name in (WEIGHTS, CONFIG, CARD)]


def require_exportable(card: EncoderCard, folder: Path) -> None:
    """Refuses an encoder without weights, and a folder with content that an export would lose."""
    if MARK in card.id:
        raise QueryError(
            f"{card.id!r} names other features of an encoder, and a folder holds all of it; export "
            f"{get_base_id(card.id)!r}."
        )
    if card.is_untrained:
        raise QueryError(
            f"{card.id!r} is random by definition and has no weights to export; its id and a seed are all."
        )
    target = Path(os.path.realpath(folder))
    if not os.path.lexists(folder):
        return
    if not target.is_dir():
        raise QueryError(f"{folder} is no folder, expected one to export to; choose another name.")
    if target == Path.cwd():
        raise QueryError(f"{folder} is the current folder, which cannot be replaced; name a folder below it.")
    try:
        obstacle = _difference(target, card) if any(target.iterdir()) else None
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be listed ({error.strerror}); make it readable.") from error
    if obstacle:
        raise QueryError(
            f"{folder} is no earlier export of {card.id!r} ({obstacle}), and nothing is overwritten; "
            "choose another folder."
        )


def _require_own_weights(card: EncoderCard, record: WeightsRecord) -> None:
    place = record.origins[0].place
    own = [url for url in (card.weights.url, *card.weights.mirrors) if not isinstance(url, Missing)]
    if place not in own and place not in map(
        format_recorded_name, own
    ):  # as a record keeps an address that holds a key
        raise QueryError(
            f"Found weights of {card.id!r} from {format_location(place)}, expected one of the places of its card, for "
            "licence and results are of those; register other weights with 'zoo register' and export that encoder."
        )


def _config(card: EncoderCard, record: WeightsRecord, *, checksum: str) -> dict[str, Any]:
    """Facts under their names in the card; missing ones are null, and ``missing`` has the reasons."""
    missing: dict[str, str] = {}
    facts = {part: _plain(getattr(card, part), part, missing) for part in _BUILT_FROM}
    url = card.provenance.url
    return {
        "format": FORMAT,
        "encoder": card.id,
        "family": card.family,
        "zoo_version": __version__,
        **facts,
        "weights": {"file": WEIGHTS, "layout": "zoo", "sha256": record.sha256, "size_bytes": record.size_bytes},
        "provenance": {
            "released_at": format_location(url) if url.startswith(("http://", "https://")) else None,
            "sources": [
                {
                    "place": format_location(format_portable_location(origin.place)),
                    "sha256": origin.sha256,
                    "size_bytes": origin.size_bytes,
                    "format": origin.format,
                }
                for origin in record.origins
            ],
            "layout": record.layout,
            "layout_version": record.layout_version,
            "converted": record.created,
            "versions": record.versions,
        },
        "missing": missing,
        "model_card_sha256": checksum,
    }


def _plain(value: Any, where: str, missing: dict[str, str]) -> Any:
    if isinstance(value, Missing):
        missing[where] = value.value
        return None
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name), f"{where}.{one.name}", missing) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item, f"{where}.{key}", missing) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, where, missing) for item in value]
    return strip_url_keys(value) if isinstance(value, str) else value
