"""Reads card files: lays defaults, ``like`` and own facts over each other, and holds the cards against each other.

Every refusal is one sentence: file, encoder, field, what was found, what was expected.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

from .cardchecks import MISSING_WORDS, Facts, check_facts, check_id, shown
from .errors import CardError

_BY_CONTENT = "zoo:"  # registered weights, of which two processes may make two cards at once


def parse_cards(sources: Mapping[Path, bytes]) -> dict[str, Facts]:
    """Checked facts by encoder id, from the content of card files.

    Raises
    ------
    CardError
        At the first card that breaks the schema.
    """
    return parse_cards_with_own(sources, frozenset())[0]


def parse_cards_with_own(sources: Mapping[Path, bytes], own: Collection[Path]) -> tuple[dict[str, Facts], list[str]]:
    """Checked facts by encoder id, and a sentence for each card or file of the user's that is wrong and left out.

    Parameters
    ----------
    sources : mapping of Path to bytes
        Content of every card file, the shipped ones first.
    own : collection of Path
        Those of the user; any other must be right.

    Raises
    ------
    CardError
        At the first other card that breaks the schema.
    """
    refused = _Refused(own)
    files = _Files(sources, refused)
    cards: dict[str, Facts] = {}
    for encoder, path in files.of.items():
        where = f"{path}: encoder {encoder!r}"
        with refused.of(path):
            cards[encoder] = {"id": encoder, "family": path.stem, **check_facts(where, files.merged(encoder))}
    _check_shared_weights(cards, files.of, refused)
    return cards, refused.sentences


class _Refused:
    """What is wrong in the user's own files, where it does not end everything."""

    def __init__(self, own: Collection[Path]) -> None:
        self.own = own
        self.sentences: list[str] = []

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """Ends the block at a CardError, and goes on after it if the file is the user's own."""
        try:
            yield
        except CardError as error:
            if path not in self.own:
                raise
            self.sentences.append(f"{str(error).removesuffix('.')}; it is left out.")


class _Files:
    """The documents as they are written, and which of them defines which encoder."""

    def __init__(self, sources: Mapping[Path, bytes], refused: _Refused) -> None:
        self.documents: dict[Path, Facts] = {}
        self.of: dict[str, Path] = {}
        folded: dict[str, str] = {}
        for path, content in sources.items():
            with refused.of(path):
                self.documents[path] = _document(path, content)
            for encoder in self.documents.get(path, {}).get("encoders", ()):
                with refused.of(path):
                    self._add(encoder, path, folded)

    def _add(self, encoder: str, path: Path, folded: dict[str, str]) -> None:
        check_id(str(path), encoder)
        other = folded.setdefault(encoder.casefold(), encoder)
        if other in self.of:
            raise CardError(
                f"{path}: encoder {encoder!r} is already defined as {other!r} in {self.of[other]} "
                "(ids are compared without case); give one of them another id."
            )
        self.of[encoder] = path

    def merged(self, encoder: str, above: tuple[str, ...] = ()) -> Facts:
        """All facts of an encoder, unchecked: those of the one it is like, the file's defaults, its own.

        The defaults of a file come in once: an encoder that is like a neighbour has them through that neighbour.
        """
        path = self.of[encoder]
        document = self.documents[path]
        own = document["encoders"][encoder]
        if not isinstance(own, dict):
            raise CardError(f"{path}: encoder {encoder!r} is {shown(own)}, expected a table of facts.")
        like = own.get("like")
        facts: Facts = {}
        if like is not None:
            above = (*above, encoder)
            if not isinstance(like, str) or like not in self.of or like in above:
                raise CardError(
                    f"{path}: encoder {encoder!r}, field 'like': found {shown(like)}, "
                    "expected the id of another encoder, without a circle."
                )
            facts = self.merged(like, above)
        if like is None or self.of[like] != path:
            _merge(facts, document.get("defaults", {}))
        _merge(facts, {key: value for key, value in own.items() if key != "like"})
        return facts


def _document(path: Path, content: bytes) -> Facts:
    try:
        document = tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CardError(f"{path} is not readable as TOML ({error}); correct the file or restore it.") from error
    unknown = set(document) - {"defaults", "encoders"}
    if unknown:
        raise CardError(f"{path}: unknown table {min(unknown)!r}, expected only [defaults] and [encoders.ID].")
    for name in ("defaults", "encoders"):
        if not isinstance(document.get(name, {}), dict):
            raise CardError(f"{path}: {name!r} is {shown(document[name])}, expected a table.")
    if not document.get("encoders"):
        raise CardError(f"{path}: holds no encoder, expected at least one table [encoders.ID].")
    return document


def _merge(into: Facts, table: Facts) -> None:
    """Tables add to the tables below them, errata to the errata; any other value replaces the one below."""
    for key, value in table.items():
        below = into.get(key)
        if key == "errata" and isinstance(value, list) and isinstance(below, list):
            fields = [erratum.get("field") for erratum in value if isinstance(erratum, dict)]
            kept = [old for old in below if not isinstance(old, dict) or old.get("field") not in fields]
            into[key] = kept + deepcopy(value)
        elif key != "options" and isinstance(value, dict) and isinstance(below, dict):
            _merge(below, value)
        else:
            into[key] = deepcopy(value)


def _check_shared_weights(cards: dict[str, Facts], of: Mapping[str, Path], refused: _Refused) -> None:
    """Two encoders may use one file only if a card says so; what is refused is no card any more."""
    n_before = -1
    while n_before != len(cards):  # again without what was refused, for another card may name it
        n_before = len(cards)
        first_with: dict[str, str] = {}
        for encoder in list(cards):
            n_refused = len(refused.sentences)
            with refused.of(of[encoder]):
                _check_weights_of(encoder, cards, of, first_with)
            if len(refused.sentences) > n_refused:
                del cards[encoder]


def _check_weights_of(
    encoder: str, cards: Mapping[str, Facts], of: Mapping[str, Path], first_with: dict[str, str]
) -> None:
    facts = cards[encoder]
    weights = facts["weights"]
    same, url = weights["same_file_as"], weights["url"]
    where = f"{of[encoder]}: encoder {encoder!r}"
    if same not in MISSING_WORDS:
        if same not in cards or cards[same]["weights"]["url"] != url:
            raise CardError(
                f"{where}, field 'weights.same_file_as': found {same!r}, "
                "expected an encoder whose weights.url is the same."
            )
        return
    if url in MISSING_WORDS or url.startswith(_BY_CONTENT):
        return
    explained = any(erratum["field"] in ("weights", "weights.url") for erratum in facts["errata"])
    if url in first_with and not explained:
        raise CardError(
            f"{where}, field 'weights.url': found the file that {first_with[url]!r} has already, "
            "expected another one, 'weights.same_file_as' or an erratum."
        )
    first_with.setdefault(url, encoder)
