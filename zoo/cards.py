"""Reads the card files, once, into :class:`~zoo.metadata.EncoderCard` values.

A card file is TOML: ``[defaults]`` holds what the family shares, ``[encoders.ID]`` what one encoder adds or changes,
and ``like = "ID"`` inside an encoder starts from another encoder of the same file instead of from the defaults alone.

Reading and checking 204 cards takes longer than a listing should, so the checked facts are kept as JSON in the cache
folder under a name made of the content of every card file and of the schema: a changed file is a new name, and a cache
that cannot be written costs time and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from . import metadata
from .content import cache_folder, content_files
from .errors import UnknownName
from .metadata import EncoderCard, Erratum, Missing

_PARTS: dict[str, type] = {
    "objective": metadata.Objective,
    "architecture": metadata.Architecture,
    "projector": metadata.Projector,
    "representation": metadata.Representation,
    "pretraining": metadata.Pretraining,
    "preprocess": metadata.Preprocess,
    "weights": metadata.Weights,
    "licence": metadata.Licence,
    "paper": metadata.Paper,
    "reported": metadata.Reported,
    "provenance": metadata.Provenance,
}
_MISSING = {reason.value: reason for reason in Missing}


class Catalogue(Mapping[str, EncoderCard]):
    """All cards by id, in the order of their files; lookups ignore case, unknown ids list the nearest ones."""

    def __init__(self, facts: dict[str, dict[str, Any]]) -> None:
        self._facts = facts
        self._by_folded = {encoder.casefold(): encoder for encoder in facts}
        self._cards: dict[str, EncoderCard] = {}

    def id_of(self, name: str) -> str:
        """The id as it is published, from any spelling of its case.

        Raises
        ------
        UnknownName
            If no encoder is called that.
        """
        try:
            return self._by_folded[name.casefold()]
        except KeyError:
            raise UnknownName("encoder", name, self._facts, hint="Run 'zoo list' to see them all.") from None

    def __getitem__(self, name: str) -> EncoderCard:
        encoder = self.id_of(name)
        if encoder not in self._cards:
            self._cards[encoder] = build_card(self._facts[encoder])
        return self._cards[encoder]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.casefold() in self._by_folded

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def catalogue() -> Catalogue:
    """Every card of the zoo and of the user's own folder.

    Raises
    ------
    CardError
        If a file is unreadable or a card is wrong; names file, encoder, field, what was found, what was expected.
    """
    return _catalogue(tuple(content_files("metadata", ".toml")))


@lru_cache(maxsize=4)
def _catalogue(files: tuple[Path, ...]) -> Catalogue:
    sources = {path: path.read_bytes() for path in files}
    compiled = cache_folder() / f"cards-{_content_key(sources)}.json"
    facts = _read_compiled(compiled)
    if facts is None:
        from .cardfiles import parse_cards  # the checker is only needed when a card has changed

        facts = parse_cards(sources)
        _write_compiled(compiled, facts)
    return Catalogue(facts)


def build_card(facts: Mapping[str, Any]) -> EncoderCard:
    """A card from facts that have been checked: TOML values, missing ones still in words."""
    parts = {name: part(**_values(facts[name])) for name, part in _PARTS.items()}
    return EncoderCard(
        id=facts["id"],
        family=facts["family"],
        released=_MISSING.get(facts["released"], facts["released"]),
        errata=tuple(Erratum(**_values(erratum)) for erratum in facts["errata"]),
        **parts,
    )


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of one table as Python values; written without a call for each of the 15,000 facts, which shows."""
    return {
        key: _MISSING.get(value, value) if type(value) is str else tuple(value) if type(value) is list else value
        for key, value in table.items()
    }


def _content_key(sources: Mapping[Path, bytes]) -> str:
    digest = blake2b(digest_size=16)
    package = Path(__file__).parent
    schema = [package / "metadata.py", package / "cardfiles.py"]
    for path, content in [*((path, path.read_bytes()) for path in schema), *sources.items()]:
        digest.update(f"{path.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _read_compiled(path: Path) -> dict[str, dict[str, Any]] | None:
    try:
        compiled: dict[str, dict[str, Any]] = json.loads(path.read_bytes())
    except (OSError, ValueError):  # absent, unreadable or damaged: parse the cards again
        return None
    return compiled


def _write_compiled(path: Path, facts: dict[str, dict[str, Any]]) -> None:
    import tempfile  # 4 ms that only a changed card has to pay

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(facts, file, separators=(",", ":"))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        for old in path.parent.glob("cards-*.json"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:  # a read-only or full disk: the next start parses again
        return
