"""All cards as :class:`~zoo.cards.schema.EncoderCard` values, and the cache of content that was read and checked.

A card file is TOML: ``[defaults]`` holds what the family shares, ``[encoders.ID]`` what one encoder adds or changes,
and ``like = "ID"`` inside an encoder starts from another encoder. Reading and checking them is what
:mod:`zoo.cards.content_cache` saves, with a copy for the shipped cards and one for the user's; in addition to every
card a copy has the facts of all cards that listings show, a column each, so that a listing builds no card.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import fields
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import CardError, QueryError, UnknownName, warn, warn_name_note
from ..files import (
    get_content_folder,
    get_user_folder,
    list_content_files,
    list_content_names,
    make_cached_lookup,
    read_contents,
    use_shipped_only,
)
from .content_cache import CachedContent, Stamp, load_cached_content, read_stamp
from .representations import MARK, derive_card, get_base_id, is_feature_spec
from .schema import (
    COLUMNS,
    LINEAGE,
    NOT_RECORDED,
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
    find_commercial_use,
)
from .search import EncoderFinder, format_search_names

LIST = "Run 'zoo list' to see them all."
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
_BLANK = {name: {field.name: NOT_RECORDED for field in fields(part)} for name, part in _PARTS.items()}
_MISSING = {reason.value: reason for reason in Missing}
_LISTED = dict.fromkeys([
    *(column.field for column in COLUMNS), "family", "licence.code", "licence.timm", "weights.availability",
    "weights.gate", "weights.authors_availability", "weights.size_bytes", "weights.url",
    "pretraining.domain", "pretraining.magnification", "pretraining.image_sets", "pretraining.n_images",
    "pretraining.n_samples_seen", "architecture.n_registers", "architecture.native_px", "architecture.size_step_px",
    *(f"provenance.{field}" for field in LINEAGE), "provenance.superseded_by",
])  # fmt: skip
"""Facts that listings show, a column each."""


PLACES = ("timm:", "hf:")
"""Beginnings of names that are places of weights rather than ids."""

_MAKER = "zoo.encoders.unlisted"  # makes cards for such names; a text, for it stands above this package
_UNLISTED: dict[str, EncoderCard] = {}  # cards that it has made in this process, by folded id
_HUB_PLACE = (
    r"(?i:hf:)([\w.-]+/[\w.-]+?)(?:@([^/@]+))?(?:/.*)?$"
    r"|https://huggingface\.co/(?P<page>[\w.-]+/[\w.-]+)(?:/(?:resolve|blob|tree)/(?P<revision>[^/]+))?(?:/.*)?$"
)
_SEPARATORS = re.compile(r"[\W_]+")


class Catalogue(Mapping[str, EncoderCard]):
    """All cards by id, in the order of their files; lookups ignore case, unknown ids list the nearest ones.

    A name of other features of an encoder (``dino_vitS16@cls:9+10+11``) is looked up like an id, and listed nowhere. So
    is a place at timm or on the Hugging Face Hub (``timm:ARCH.TAG``, ``hf:ORG/NAME``): it stands for the encoder whose
    card has it, or for one whose card :mod:`zoo.encoders.unlisted` makes of what they say. Encoders of an experiment,
    of a card file with ``listed = false``, are looked up too; they are listed by :attr:`with_unlisted` alone.
    """

    def __init__(self, parts: Sequence[CachedContent], *, with_unlisted: bool = False) -> None:
        self._parts = parts  # of the shipped cards, then of the user's
        self._every: dict[str, str] = {encoder.casefold(): encoder for encoder in self._joined("ids")}
        self._hidden = frozenset(() if with_unlisted else self._joined("unlisted ids"))
        self._by_folded = {folded: encoder for folded, encoder in self._every.items() if encoder not in self._hidden}
        self._cards: dict[str, EncoderCard] = {}
        self._columns: dict[str, dict[str, Any]] = {}

    @property
    def own(self) -> tuple[str, ...]:
        """Ids of the user's encoders."""
        return tuple(encoder for parts in self._parts[1:] for encoder in parts["ids"] if encoder not in self._hidden)

    @property
    def digests(self) -> tuple[str, ...]:
        """Change with the content of the shipped card files and, if there are any, of the user's."""
        return tuple(parts.digest for parts in self._parts)

    def _joined(self, part: str) -> list[Any]:
        return [value for parts in self._parts for value in parts[part]]

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each card or file of the user's that is wrong."""
        return tuple(self._joined("left out"))

    @cached_property
    def experiments(self) -> tuple[str, ...]:
        """Families of the encoders of experiments that are not listed."""
        families = self.with_unlisted.column("family")
        return tuple(dict.fromkeys(families[encoder] for encoder in families if encoder in self._hidden))

    @cached_property
    def with_unlisted(self) -> Catalogue:
        """The same cards, with those of experiments among those that are listed."""
        return Catalogue(self._parts, with_unlisted=True)

    def lists(self, encoder: str) -> bool:
        """False of an encoder of an experiment, by its id or that of other features of it, unless these are listed."""
        return not self.find_unlisted([encoder])

    def find_unlisted(self, encoders: Iterable[str]) -> list[str]:
        """Those of some encoders, by id or that of other features of them, that are not listed."""
        return [one for one in encoders if one.partition(MARK)[0] in self._hidden]

    def listing(self, encoders: Iterable[str]) -> Catalogue:
        """These cards if all of the encoders, by id, are among those that are listed; else :attr:`with_unlisted`."""
        return self if all(one.casefold() in self._by_folded for one in encoders) else self.with_unlisted

    @cached_property
    def finder(self) -> EncoderFinder:
        """What finds encoders by what people call them."""
        return EncoderFinder(self.column("names"))

    def column(self, field: str) -> Mapping[str, Any]:
        """A fact of every card by id, by its dotted name; ``n_errata`` and ``names`` are facts too."""
        if field not in self._columns:
            part = f"column {field}"
            if part in self._parts[0]:
                values = _values(dict(zip(self._every.values(), self._joined(part), strict=True)))
                values = {encoder: NOT_RECORDED if values[encoder] is None else values[encoder] for encoder in self}
            else:
                values = {encoder: card.fact(field) for encoder, card in self.items()}
            self._columns[field] = values
        return self._columns[field]

    def id_of(self, name: str) -> str:
        """The id as it is published, from any spelling of its case; of other features, the one spelling of their name.

        Raises UnknownName, or QueryError if the encoder does not have such features.
        """
        id_part, mark, features = _parse_id(name) if isinstance(name, str) else ("", "", "")
        encoder = self._known(id_part)
        if encoder is None:
            raise UnknownName(
                "encoder", id_part or name, self, hint=LIST, nearest=self.finder.nearest(id_part) if id_part else None
            )
        return derive_card(self._of_file(encoder), features=features).id if mark else encoder

    def _known(self, name: str) -> str | None:
        """The id of a name or place without features; None if there is none, without a search for others like it."""
        folded = name.casefold()
        encoder = self._every.get(folded)
        if encoder is None and folded.startswith(PLACES):
            encoder = self._id_at(name)
        if encoder is None and folded in _UNLISTED:
            encoder = _UNLISTED[folded].id
        return encoder

    def __getitem__(self, name: str) -> EncoderCard:
        if isinstance(name, str) and name in self._cards:  # an id, whose card was read before
            return self._cards[name]
        encoder = self.id_of(name)
        card = self._of_file(get_base_id(encoder))
        return card if encoder == card.id else derive_card(card, features=encoder.partition(MARK)[2])

    def _id_at(self, place: str) -> str:
        """The encoder whose weights are at this place of timm or of the Hub; one without a card gets one now."""
        found = [card for card in self._cards_naming(place) if isinstance(card.weights.same_file_as, Missing)]
        if len(found) > 1:
            listed = ", ".join(card.id for card in found[:8]) + (", ..." if len(found) > 8 else "")
            raise QueryError(f"The place {place!r} holds {len(found)} encoders, {listed}; name one of them.")
        if found:
            warn_name_note(f"{place} is {found[0].id!r}, which has a card.")
            return found[0].id
        card: EncoderCard = import_module(_MAKER).load_unlisted_card(place)
        return card.id

    def _cards_naming(self, place: str) -> Iterator[EncoderCard]:
        """Cards that say this place, without a file of it; at the Hub without a revision, or with the same."""
        scheme, _, rest = place.partition(":")
        wanted, revision = _at_hub(place) if scheme.casefold() == "hf" else (place.casefold(), "")
        line = " ".join(_SEPARATORS.sub(" ", rest.partition(MARK)[0].casefold()).split())
        for encoder, names in self.column("names").items():
            if line not in names:
                continue
            card = self._of_file(encoder)
            known = card.weights
            for said in (known.url, known.authors_url, *known.mirrors):
                if isinstance(said, Missing):
                    continue
                is_same = (said.casefold(), "") if scheme.casefold() == "timm" else _at_hub(said)
                recorded = is_same[1] or ("" if isinstance(known.revision, Missing) else known.revision)
                if is_same[0] == wanted and revision in ("", recorded):
                    yield card
                    break

    def _of_file(self, encoder: str) -> EncoderCard:
        if encoder.casefold() in _UNLISTED and encoder.casefold() not in self._every:
            return _UNLISTED[encoder.casefold()]
        if encoder not in self._cards:
            part = f"card {encoder}"
            self._cards[encoder] = build_card(next(parts[part] for parts in self._parts if part in parts))
        return self._cards[encoder]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        id_part, mark, _ = _parse_id(name)
        try:
            return self._known(id_part) is not None and (not mark or bool(self.id_of(name)))
        except (UnknownName, QueryError):
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_folded.values())

    def items(self) -> ItemsView[str, EncoderCard]:
        return self._read_all().items()

    def values(self) -> ValuesView[EncoderCard]:
        return self._read_all().values()

    def _read_all(self) -> dict[str, EncoderCard]:
        """All cards, those that nobody has asked for yet read at once."""
        for parts in self._parts:
            lacking = [f"card {encoder}" for encoder in self if encoder not in self._cards]
            for part, facts in parts.select(lacking).items():
                self._cards[part.removeprefix("card ")] = build_card(facts)
        return {encoder: self._cards[encoder] for encoder in self}

    def __len__(self) -> int:
        return len(self._by_folded)


def _parse_id(name: str) -> tuple[str, str, str]:
    """Encoder, mark and features of a name; a place on the Hub may have a revision behind a mark before them."""
    encoder, mark, rest = name.partition(MARK)
    if not mark or not name.casefold().startswith("hf:") or is_feature_spec(rest):
        return encoder, mark, rest
    revision, mark, features = rest.partition(MARK)
    return f"{encoder}{MARK}{revision}", mark, features


def _at_hub(place: str) -> tuple[str, str]:
    """Repository and revision of a place on the Hub, folded; of another place nothing."""
    match = re.match(_HUB_PLACE, place)
    if match is None:
        return "", ""
    revision = match[2] or match["revision"] or ""
    return f"hf:{match[1] or match['page']}".casefold(), "" if revision == "main" else revision


def adopt(card: EncoderCard) -> EncoderCard:
    """Makes the catalogue of this process know a card that is in no file; returns the one that is known."""
    return _UNLISTED.setdefault(card.id.casefold(), card)


def get_unlisted(name: str) -> EncoderCard | None:
    """The card in no file with this id, if :func:`adopt` was given one."""
    return _UNLISTED.get(get_base_id(name).casefold())


@make_cached_lookup
def load_catalogue() -> Catalogue:
    """Every card of the zoo and of the user's folder; a file that has changed is read again.

    A card of the user's that is wrong is left out with a :class:`~zoo.errors.ContentWarning` that names file, encoder,
    field, value and what was expected; so is a file that cannot be read. A wrong shipped card raises CardError.
    """
    cards = _catalogue(tuple(map(read_stamp, list_content_names("metadata", ".toml"))))
    warn(cards.left_out)
    return cards


def get_base_card(card: EncoderCard) -> EncoderCard:
    """The card of the encoder itself, in place of that of other features of it."""
    return card if MARK not in card.id else load_catalogue()[get_base_id(card.id)]


def read_card_files() -> dict[Path, bytes]:
    """Content of every card file, the shipped ones first, without those of the user's that cannot be read."""
    return read_contents(list_content_files("metadata", ".toml"), "metadata", CardError, [])


@lru_cache(maxsize=4)
def _catalogue(stamps: tuple[Stamp, ...]) -> Catalogue:
    folder = str(get_content_folder("metadata"))
    shipped = _shipped(tuple(one for one in stamps if one[0].startswith(folder)))
    own_stamps = [one for one in stamps if not one[0].startswith(folder)]
    if not own_stamps:
        return Catalogue([shipped])
    unreadable: list[str] = []

    def read() -> dict[Path, bytes]:
        return read_contents((Path(path) for path, *_ in own_stamps), "metadata", CardError, unreadable)

    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        facts, left_out = parse_own_cards(sources)
        return _as_parts(facts, [*unreadable, *left_out])

    of = get_user_folder()
    return Catalogue(
        [shipped, load_cached_content("own_cards", own_stamps, RULES, read, make, of=of, beside=shipped.digest)]
    )


@lru_cache(maxsize=2)
def _shipped(stamps: tuple[Stamp, ...]) -> CachedContent:
    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        from .reading import parse_cards  # the checker is only needed when a card has changed

        return _as_parts(*parse_cards(sources))

    def read() -> dict[Path, bytes]:
        return read_contents((Path(path) for path, *_ in stamps), "metadata", CardError, [])

    return load_cached_content("cards", stamps, RULES, read, make, of=get_content_folder("metadata"))


def parse_own_cards(sources: Mapping[Path, bytes]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Checked facts of cards in addition to the shipped ones, by id, and a sentence for each that is wrong."""
    from .reading import parse_cards

    with use_shipped_only():
        parts = _shipped(tuple(map(read_stamp, list_content_names("metadata", ".toml"))))
    urls = [url or NOT_RECORDED.value for url in parts["column weights.url"]]
    files = map(Path, parts["files"])
    return parse_cards(sources, dict(zip(parts["ids"], zip(files, urls, strict=True), strict=True)))


def _as_parts(facts: Mapping[str, dict[str, Any]], left_out: Sequence[str]) -> dict[str, Any]:
    """All cards as the copy has them: the columns of listings, then each card by itself."""
    listings = [_listing(one) for one in facts.values()]
    names = [f"column {field}" for field in (*_LISTED, "commercial_use", "n_errata", "names")]
    return {
        "ids": list(facts),
        "unlisted ids": [encoder for encoder, one in facts.items() if not one["listed"]],
        "files": [one["file"] for one in facts.values()],
        "left out": left_out,
        **{name: [one[number] for one in listings] for number, name in enumerate(names)},
        **{f"card {encoder}": _without_unrecorded(one) for encoder, one in facts.items()},
    }


def _listing(facts: Mapping[str, Any]) -> list[Any]:
    """The columns of listings, of one card; None for what nobody has recorded, most of what there is."""
    listed = []
    for field in _LISTED:
        part, _, name = field.partition(".")
        value = facts[part][name] if name else facts[part]
        listed.append(None if value == NOT_RECORDED.value else value)
    licence = facts["licence"]["weights"]
    use = find_commercial_use(_MISSING.get(licence, licence))
    use_or_reason = use.value if isinstance(use, Missing) else use
    return [*listed, use_or_reason, len(facts["errata"]), format_search_names(facts)]


def _without_unrecorded(facts: Mapping[str, Any]) -> dict[str, Any]:
    parts = {
        part: {name: value for name, value in facts[part].items() if value != NOT_RECORDED.value} for part in _PARTS
    }
    return {**facts, **parts}


def build_card(facts: Mapping[str, Any]) -> EncoderCard:
    """A card from checked facts: TOML values, missing ones still in words; what is not there is not recorded."""
    parts = {name: part(**(_BLANK[name] | _values(facts[name]))) for name, part in _PARTS.items()}
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
