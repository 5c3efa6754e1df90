"""All cards as :class:`~zoo.cards.schema.EncoderCard` values, and the cache of content that was read and checked.

A card file is TOML: ``[defaults]`` holds what the family shares, ``[encoders.ID]`` what one encoder adds or changes,
and ``like = "ID"`` inside an encoder starts from another encoder instead of from the defaults alone.

Beside the cards of the files, which are those that are listed and counted, there is one for every other set of features
that an encoder offers; :mod:`zoo.cards.representations` says how they are named.

Reading and checking all cards takes longer than a listing should, so the checked facts are cached by :func:`compiled`,
and so is what is derived from results. The copy is JSON, for a cache file must not run code. Its name is made of the
content of every source and of the modules that check them, so that a changed file or a changed rule is another name;
its first line is a checksum of the rest, so that a damaged copy is made again. A cache that cannot be read or written
costs time and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ..errors import CardError, QueryError, UnknownName, warn
from ..files import cache_folder, content_files, content_folder, replaced
from .representations import MARK, derived, own_id
from .schema import (
    Architecture,
    EncoderCard,
    Erratum,
    Licence,
    Missing,
    Objective,
    Paper,
    Preprocess,
    Pretraining,
    Projector,
    Provenance,
    Reported,
    Representation,
    Weights,
)

_MOST_COPIES = 8  # of one kind: other homes, other versions
_ZOO = Path(__file__).parents[1]


def compiled(kind: str, sources: Mapping[Path, bytes], rules: Iterable[str], make: Callable[[], Any]) -> Any:
    """What ``make`` returns, from the cached copy if there is one for these sources and rules.

    ``kind`` begins the name of the copy, ``sources`` is the content of every file that ``make`` reads, ``rules`` names
    the packages and modules of the zoo that decide what it returns. That must survive a round trip through JSON. Errors
    of ``make`` pass through, and nothing is written then.
    """
    path = cache_folder() / f"{kind}-{_key(sources, rules)}.json"
    value = _read(path)
    if value is None:
        value = make()
        _write(path, kind, value)
    return value


def _key(sources: Mapping[Path, bytes], rules: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    paths = [path for name in rules for path in (sorted((_ZOO / name).glob("*.py")) or [_ZOO / f"{name}.py"])]
    modules = {path: path.read_bytes() for path in paths}
    for path, content in [*modules.items(), *sources.items()]:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


def _read(path: Path) -> Any:
    try:
        checksum, _, body = path.read_bytes().partition(b"\n")
    except OSError:  # missing or unreadable
        return None
    return json.loads(body) if checksum == _checksum(body) else None


def _write(path: Path, kind: str, value: Any) -> None:
    body = json.dumps(value, separators=(",", ":")).encode()
    try:
        with replaced(path) as file:
            file.write(_checksum(body) + b"\n" + body)
        copies = sorted(path.parent.glob(f"{kind}-*.json"), key=lambda copy: copy.stat().st_mtime, reverse=True)
        for old in copies[_MOST_COPIES:]:
            old.unlink(missing_ok=True)
    except OSError:  # a full or read-only disk, or another process that was quicker
        return


RULES = ("errors", "files", "cards")  # modules whose change makes a cached copy of cards worthless

_PARTS: dict[str, type] = {
    "objective": Objective,
    "architecture": Architecture,
    "projector": Projector,
    "representation": Representation,
    "pretraining": Pretraining,
    "preprocess": Preprocess,
    "weights": Weights,
    "licence": Licence,
    "paper": Paper,
    "reported": Reported,
    "provenance": Provenance,
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

        Raises UnknownName, or QueryError if the encoder does not have such features.
        """
        id_part, mark, features = name.partition(MARK) if isinstance(name, str) else ("", "", "")
        encoder = self._by_folded.get(id_part.casefold())
        if encoder is None:
            raise UnknownName("encoder", id_part or name, self._facts, hint="Run 'zoo list' to see them all.")
        return derived(self._of_file(encoder), features=features).id if mark else encoder

    def __getitem__(self, name: str) -> EncoderCard:
        encoder = self.id_of(name)
        card = self._of_file(own_id(encoder))
        return card if encoder == card.id else derived(card, features=encoder.partition(MARK)[2])

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
    """Every card of the zoo and of the user's folder; a file that has changed is read again.

    A card of the user's that is wrong is left out with a :class:`~zoo.errors.ContentWarning` that names file, encoder,
    field, value and what was expected; so is a file that cannot be read. A wrong shipped card raises CardError.
    """
    cards = _catalogue(tuple(map(_stamp, content_files("metadata", ".toml"))))
    warn(cards.left_out)
    return cards


def own_card(card: EncoderCard) -> EncoderCard:
    """The card of the encoder itself, in place of that of other features of it."""
    return card if MARK not in card.id else catalogue()[own_id(card.id)]


def read_card_files() -> dict[Path, bytes]:
    """Content of every card file, the shipped ones first, without those of the user's that cannot be read."""
    return _contents(content_files("metadata", ".toml"))[0]


@lru_cache(maxsize=4)
def _catalogue(stamps: tuple[_Stamp, ...]) -> Catalogue:
    sources, unreadable = _contents(path for path, _, _ in stamps)

    def make() -> dict[str, Any]:
        from .reading import parse_cards  # the checker is only needed when a card has changed

        facts, left_out = parse_cards(sources, frozenset(path for path in sources if _is_of_user(path)))
        return {"facts": facts, "left_out": left_out}

    checked = compiled("cards", sources, RULES, make)
    return Catalogue(checked["facts"], [*unreadable, *checked["left_out"]])


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)
    except OSError:  # such as a broken link, which reading refuses
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
            if not _is_of_user(path):
                raise CardError(sentence) from error
            unreadable.append(f"{sentence.removesuffix('.')}, for it is left out.")
    return contents, unreadable


def _is_of_user(path: Path) -> bool:
    return not path.is_relative_to(content_folder("metadata"))


def build_card(facts: Mapping[str, Any]) -> EncoderCard:
    """A card from checked facts: TOML values, missing ones still in words."""
    parts = {name: part(**_values(facts[name])) for name, part in _PARTS.items()}
    return EncoderCard(
        id=facts["id"],
        family=facts["family"],
        released=_MISSING.get(facts["released"], facts["released"]),
        errata=tuple(Erratum(**_values(erratum)) for erratum in facts["errata"]),
        **parts,
    )


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of one table as Python values; without a function call for each of the 15,000 facts, for speed."""
    return {
        key: _MISSING.get(value, value) if type(value) is str else tuple(value) if type(value) is list else value
        for key, value in table.items()
    }
