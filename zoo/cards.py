"""Reads the card files, once, into :class:`~zoo.metadata.EncoderCard` values.

A card file is TOML: ``[defaults]`` holds what the family shares, ``[encoders.ID]`` what one encoder adds or changes,
and ``like = "ID"`` inside an encoder starts from another encoder instead of from the defaults alone.

Beside the cards of the files, which are those that are listed and counted, there is one for every other set of features
that an encoder offers; :mod:`zoo.representations` says how they are named.

Reading and checking 204 cards takes longer than a listing should, so the checked facts are kept by :mod:`zoo.compiled`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import metadata
from .compiled import compiled
from .errors import CardError, QueryError, UnknownName, warn
from .files import content_files, content_folder
from .metadata import EncoderCard, Erratum, Missing
from .representations import MARK, derived, own_id

# modules whose change makes a compiled copy worthless
RULES = ("metadata", "cards", "cardfiles", "cardchecks", "representations", "tokens")

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
_Stamp = tuple[Path, int, int]  # file, time of change in ns, bytes


class Catalogue(Mapping[str, EncoderCard]):
    """All cards by id, in the order of their files; lookups ignore case, unknown ids list the nearest ones.

    A name of other features of an encoder (``dino_vitS16@cls:9+10+11``) is looked up like an id, and listed nowhere.
    """

    def __init__(self, facts: dict[str, dict[str, Any]], left_out: Sequence[str] = ()) -> None:
        self._facts = facts
        self.left_out = tuple(left_out)  # a sentence for each card or file of the user's that is wrong
        self._by_folded = {encoder.casefold(): encoder for encoder in facts}
        self._cards: dict[str, EncoderCard] = {}

    def id_of(self, name: str) -> str:
        """The id as it is published, from any spelling of its case; of other features, the one spelling of their name.

        Raises
        ------
        UnknownName
            If no encoder is called that.
        QueryError
            If the encoder does not have such features.
        """
        own, mark, features = name.partition(MARK) if isinstance(name, str) else ("", "", "")
        encoder = self._by_folded.get(own.casefold())
        if encoder is None:
            raise UnknownName("encoder", own or name, self._facts, hint="Run 'zoo list' to see them all.")
        return derived(self._of_file(encoder), features=features).id if mark else encoder

    def __getitem__(self, name: str) -> EncoderCard:
        encoder = self.id_of(name)
        own = self._of_file(own_id(encoder))
        return own if encoder == own.id else derived(own, features=encoder.partition(MARK)[2])

    def _of_file(self, encoder: str) -> EncoderCard:
        if encoder not in self._cards:
            self._cards[encoder] = build_card(self._facts[encoder])
        return self._cards[encoder]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self.id_of(name))
        except (UnknownName, QueryError):
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def catalogue() -> Catalogue:
    """Every card of the zoo and of the user's own folder; a file that has changed is read again.

    A card of the user's that is wrong is left out with a :class:`~zoo.errors.ContentWarning` that names file, encoder,
    field, what was found and what was expected; so is a file that cannot be read.

    Raises
    ------
    CardError
        If a shipped file is unreadable or a card in it is wrong.
    ContentError
        If a folder of cards is missing or cannot be listed.
    """
    found = _catalogue(tuple(map(_stamp, card_files())))
    warn(found.left_out)
    return found


def own_card(card: EncoderCard) -> EncoderCard:
    """The card of the encoder itself, in place of that of other features of it."""
    return card if MARK not in card.id else catalogue()[own_id(card.id)]


def card_files() -> list[Path]:
    """Every card file, the shipped ones first."""
    return content_files("metadata", ".toml")


def read_card_files() -> dict[Path, bytes]:
    """Content of every card file, without those of the user's that cannot be read.

    Raises
    ------
    CardError
        If a shipped one cannot be read.
    """
    return _contents(card_files())[0]


@lru_cache(maxsize=4)
def _catalogue(stamps: tuple[_Stamp, ...]) -> Catalogue:
    sources, unreadable = _contents(path for path, _, _ in stamps)

    def make() -> dict[str, Any]:
        from .cardfiles import parse_cards_with_own  # the checker is only needed when a card has changed

        facts, left_out = parse_cards_with_own(sources, frozenset(path for path in sources if _is_own(path)))
        return {"facts": facts, "left_out": left_out}

    kept = compiled("cards", sources, RULES, make)
    return Catalogue(kept["facts"], [*unreadable, *kept["left_out"]])


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)
    except OSError:  # such as a link to nowhere; reading says more
        return path, -1, -1
    return path, status.st_mtime_ns, status.st_size


def _contents(paths: Iterable[Path]) -> tuple[dict[Path, bytes], list[str]]:
    """Content by file, and a sentence for each of the user's that cannot be read."""
    contents, unreadable = {}, []
    for path in paths:
        try:
            contents[path] = path.read_bytes()
        except OSError as error:
            sentence = f"The card file {path} cannot be read ({error.strerror}); make it readable or remove it."
            if not _is_own(path):
                raise CardError(sentence) from error
            unreadable.append(f"{sentence.removesuffix('.')}, for it is left out.")
    return contents, unreadable


def _is_own(path: Path) -> bool:
    return not path.is_relative_to(content_folder("metadata"))


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
