"""Finding encoders by what people call them, and their families and networks at a glance.

An encoder answers to its id, its family, its method, the names of its network and weights at timm and on the Hugging
Face Hub, its architecture and size in words, the organisation that published it, and what it was pretrained on. Case
and separators do not count, so that ``SigLIP-2``, ``siglip 2`` and ``siglip2`` are the same. Of several words all must
be met; one that finds nothing as a whole (``facebook/dinov2-base``) is taken as several. A word with a wild card
(``dino*``) is compared with the whole id.

A word may stand anywhere in an id; in everything else it begins a word there, lest ``1k`` find ``ImageNet-21K``. A part
of ids, with its separators (``dino_vits``), is that part alone.

A network is what files of encoders share: method, architecture and data of pretraining. Its variants differ in the size
of their input, in how long or on what else they were trained, or in the features that are taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import find_nearest_names
from .schema import Missing

if TYPE_CHECKING:
    from .catalogue import Catalogue

_OF_A_NETWORK = (
    "family", "objective.name", "architecture.name", "architecture.patch_size_px", "pretraining.dataset",
)  # fmt: skip
_MISSING = frozenset(reason.value for reason in Missing)
_PLACES = (
    r"(?:timm|torchvision|transformers|package|shipped):(.+)|hf:([^/]+/[^/]+)|https://huggingface\.co/([^/]+/[^/]+)"
)
_FACTS = (
    "architecture.name", "architecture.exact", "pretraining.dataset", "pretraining.finetuning_dataset",
    "pretraining.image_sets", "pretraining.domain", "objective.variant",
)  # fmt: skip
_PLACE_FACTS = ("weights.url", "weights.mirrors", "weights.authors_url", "architecture.backbone")
_SEPARATORS = re.compile(r"[\W_]+")
_SIZED = r"(?:vit|deit|beit|swin(?:v2)?|convnext(?:v2)?|xcit|hiera)([ntsblhg])(?:\W|\d|d|$)"
_SIZES = {"n": "nano", "t": "tiny", "s": "small", "b": "base", "l": "large", "h": "huge", "g": "giant"}
_PREFIXES = r"(?i)^(?:https://huggingface\.co/|hf-hub:|hf:|timm:|timm/)+"
_MAKER = r"https://(?:github\.com|huggingface\.co)/([^/]+)/"
_ALSO = {  # values of cards, with other words that people look for
    "facebookresearch": "facebook meta fair", "google-research": "google brain", "google-deepmind": "google",
    "deepmind": "google", "nvlabs": "nvidia", "baaivision": "baai", "ucsc-vlaa": "ucsc", "sail-sg": "sea ai lab",
    "mlfoundations": "openclip laion", "pathology h&e": "histology histopathology medical tissue",
    "earth rgb": "satellite aerial remote sensing geospatial earth observation",
    "retina": "fundus ophthalmology medical",
    "radiology": "medical x-ray ct", "skin": "dermatology medical", "microscopy": "cells biology", "humans": "people",
}  # fmt: skip


def is_glob(word: str) -> bool:
    """True if the text has a wild card."""
    return any(mark in word for mark in "*?[")


def format_search_names(facts: Mapping[str, Any]) -> str:
    """What an encoder answers to, from the checked facts of its card: a line each, the id, family and method first."""
    whole = [facts["id"], facts["family"], *_texts(facts, "objective.name")]
    sizes = [_SIZES[match[1]] for text in _texts(facts, "architecture.name") if (match := re.match(_SIZED, text))]

    def is_of_size(text: str) -> bool:
        """False of the network of another size of which options make this one."""
        named = set(_SIZES.values()).intersection(_SEPARATORS.split(text))
        return not sizes or not named or not named.isdisjoint(sizes)

    places = [
        match[match.lastindex or 0]
        for field in _PLACE_FACTS
        for text in _texts(facts, field)
        if (match := re.match(_PLACES, text)) and (field != "architecture.backbone" or is_of_size(text))
    ]
    others = [text for field in _FACTS for text in _texts(facts, field)]
    others += sizes
    others += [match[1] for text in _texts(facts, "provenance.url") if (match := re.match(_MAKER, text))]
    others += [also for text in others if (also := _ALSO.get(text.casefold()))]
    lines = [" ".join(_SEPARATORS.sub(" ", text.casefold()).split()) for text in [*places, *others]]
    return "\n".join(dict.fromkeys([*(_folded(text) for text in whole), "", *lines]))


def _texts(facts: Mapping[str, Any], field: str) -> list[str]:
    part, _, name = field.partition(".")
    value = facts[part].get(name)
    return [text for text in (value if isinstance(value, list) else [value]) if text and text not in _MISSING]


def _folded(text: str) -> str:
    return _SEPARATORS.sub("", text.casefold())


def _split(words: Iterable[str]) -> list[str]:
    return [re.sub(_PREFIXES, "", part) or part for word in words for part in word.split()]


class EncoderFinder:
    """Encoders by what they answer to: :func:`format_search_names` by id."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def find(self, words: Iterable[str]) -> list[str]:
        """Ids that meet every word: first those that are called so or whose family is, then those of such a method.

        Where all words together name something wholly (``dino v3``), they are one.
        """
        split = _split(words)
        joined = _folded("".join(split))
        if any(joined in self._whole(encoder) for encoder in self._names):
            split = [joined]
        found: Sequence[str] = list(self._names)
        for word in split:
            of_word: Sequence[str] = self._meeting(word, found)
            if not of_word and not is_glob(word) and not self._meeting(word, list(self._names)):
                of_word = found
                for part in _SEPARATORS.sub(" ", word).split():
                    of_word = self._meeting(part, of_word)
            found = of_word
        named = set(map(_folded, split))
        return sorted(found, key=lambda encoder: self._place(encoder, named))

    def count(self, word: str) -> int:
        """How many encoders a word finds."""
        return len(self._meeting(word, list(self._names)))

    def nearest(self, name: str, *, n: int = 5) -> tuple[str, ...]:
        """Ids that somebody may mean who wrote ``name``, best first; none if nothing is like it."""
        if not _folded(name):
            return ()
        found = self.find([name])
        if not found:  # with the nearest family or method in the place of each word that is none
            parts = _SEPARATORS.sub(" ", name).split()
            parts = [*chain.from_iterable(self.instead_of([part], cutoff=0.7)[:1] or (part,) for part in parts)]
            found, name = self.find(parts), "_".join(parts)
        return tuple(dict.fromkeys([*find_nearest_names(name, found or self._names, n=n), *found]))[:n]

    def instead_of(self, words: Iterable[str], *, cutoff: float = 0.5) -> tuple[str, ...]:
        """Families and methods that look like those words that no encoder meets."""
        everything = list(self._names)
        unmet = [word for word in _split(words) if not is_glob(word) and not self._meeting(word, everything)]
        known = dict.fromkeys(name for encoder in self._names for name in self._whole(encoder)[1:]) if unmet else ()
        return tuple(
            dict.fromkeys(like for word in unmet for like in find_nearest_names(word, known, n=3, cutoff=cutoff))
        )

    def _place(self, encoder: str, named: set[str]) -> int:
        """0 if one of the names is the id or family, 1 if one is the method, 2 if part of the id, 3 if none is."""
        (own, *families), methods = self._whole(encoder)[:2], self._whole(encoder)[2:]
        if named & {own, *families}:
            return 0
        return 1 if named & {*methods} else 2 if any(name in own for name in named) else 3

    def _whole(self, encoder: str) -> list[str]:
        return self._names[encoder].partition("\n\n")[0].split("\n")

    def _meeting(self, word: str, among: Sequence[str]) -> list[str]:
        if is_glob(word):
            from fnmatch import fnmatchcase

            folded = word.casefold()
            return [encoder for encoder in among if fnmatchcase(encoder.casefold(), folded)]
        text = _folded(word)
        if not text:  # separators alone
            return list(among)
        folded = word.casefold()
        if _SEPARATORS.search(word) and any(folded in encoder.casefold() for encoder in self._names):
            return [encoder for encoder in among if folded in encoder.casefold()]
        begins = re.compile(rf"(?:^|\s){' ?'.join(map(re.escape, text))}")
        names = self._names
        return [one for one in among if text in names[one].partition("\n")[0] or begins.search(names[one])]


@dataclass(frozen=True, slots=True)
class Family:
    """The encoders of one family."""

    name: str
    networks: tuple[tuple[str, ...], ...]  # ids of the variants of each
    cards: Catalogue

    @property
    def encoders(self) -> tuple[str, ...]:
        """Their ids, network by network."""
        return tuple(encoder for network in self.networks for encoder in network)

    def values(self, field: str) -> Counter[Any]:
        """How many encoders have which value of a fact, the most frequent first; missing ones count too."""
        column = self.cards.column(field)
        return Counter(dict(Counter(column[encoder] for encoder in self.encoders).most_common()))

    def known(self, field: str) -> list[Any]:
        """Values of a fact without missing ones, the most frequent first."""
        return [value for value in self.values(field) if not isinstance(value, Missing)]


def list_families(cards: Catalogue, among: Iterable[str] | None = None) -> list[Family]:
    """All families in the order of their names; of some encoders, if their ids are given."""
    of: dict[str, list[tuple[str, ...]]] = {}
    family = cards.column("family")
    for network in group_networks(cards, list(cards) if among is None else list(among)):
        of.setdefault(family[network[0]], []).append(network)
    return [Family(name, tuple(of[name]), cards) for name in sorted(of)]


def group_networks(cards: Catalogue, encoders: Sequence[str]) -> list[tuple[str, ...]]:
    """The encoders in groups, each the variants of one network, in the order of their first ones.

    The shortest id leads its group, for ids of variants say what is different.
    """
    columns = [cards.column(field) for field in _OF_A_NETWORK]
    groups: dict[tuple[Any, ...], list[str]] = {}
    for encoder in encoders:
        groups.setdefault(tuple(column[encoder] for column in columns), []).append(encoder)
    leading = [(min(group, key=len), group) for group in groups.values()]
    return [(leader, *(encoder for encoder in group if encoder != leader)) for leader, group in leading]
