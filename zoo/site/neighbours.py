"""Which encoders are near an encoder: of its network, of its method, and in error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ..cards.finding import networks
from ..cards.representations import own_id
from ..cards.schema import Missing
from ..results.facts import points, short_number
from .contents import Contents, Entry

MOST = 5
"""Of each kind that are named."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A near encoder."""

    entry: Entry
    how: str  # what tells it from the one whose neighbour it is


@dataclass(frozen=True, slots=True)
class Near:
    """Neighbours of one kind, the nearest first."""

    title: str
    found: tuple[Neighbour, ...]
    n_more: int  # further ones that are not named

    def compared(self, entry: Entry) -> str:
        """The end of the address of ``compare.html`` that shows the encoder beside these."""
        ids = [entry.id, *(one.entry.id for one in self.found)]
        return urlencode({"e": ",".join(ids[:MOST])})


class Neighbours:
    """Groups of the encoders of a site, made once for all pages."""

    def __init__(self, contents: Contents) -> None:
        self._entries = contents.entries
        everybody = list(contents.entries.values())
        self._by_network = _grouped(everybody, _network)
        self._by_method = _grouped(everybody, lambda entry: entry.card.objective.name)
        self._variants: dict[str, tuple[str, ...]] = {}
        of_own: dict[str, list[str]] = {}  # other features are of the network of the encoder itself
        for one in contents.entries:
            of_own.setdefault(own_id(one), []).append(one)
        if everybody:
            for group in networks(everybody[0].subject.cards, list(of_own)):
                variants = tuple(one for own in group for one in of_own[own])
                self._variants.update(dict.fromkeys(variants, variants))
        self._errors = sorted((error, entry.id) for entry in everybody if (error := full_shot_error(entry)) is not None)

    def of(self, entry: Entry) -> list[Near]:
        """The neighbours of an encoder by kind; kinds without any are left out."""
        card = entry.card
        variants = [self._entries[one] for one in self._variants[entry.id] if one != entry.id]
        among = {entry.id, *(one.id for one in variants)}
        network = [one for one in self._by_network[_network(entry)] if one.id not in among]
        method = [one for one in self._by_method[card.objective.name] if one.id not in among]
        if isinstance(card.objective.name, Missing):
            method = []
        network.sort(key=lambda one: (_gap(one, entry), one.id))
        method.sort(key=lambda one: (_size_gap(one, entry), _gap(one, entry), one.id))
        size = card.architecture.name
        kinds = [
            ("Variants of it: another input, training or features", variants, _variant),
            (f"Same network ({size}), trained otherwise", network, _trained),
            (f"Same method ({card.objective.name}), other networks or data", method, _sized),
        ]
        found = [_near(title, some, entry, how) for title, some, how in kinds if some]
        nearest = self._nearest_in_error(entry)
        if nearest:
            found.append(Near("Nearest in measured error (ImageNet-1K, all labels)", nearest, 0))
        return found

    def _nearest_in_error(self, entry: Entry) -> tuple[Neighbour, ...]:
        error = full_shot_error(entry)
        if error is None:
            return ()
        at = bisect_left(self._errors, (error, entry.id))
        near = [one for one in self._errors[max(0, at - MOST) : at + MOST + 1] if one[1] != entry.id]
        near.sort(key=lambda one: (abs(one[0] - error), one[1]))
        return tuple(Neighbour(self._entries[one], f"{_signed(other - error)} points") for other, one in near[:MOST])


def full_shot_error(entry: Entry) -> float | None:
    """The error of a linear probe on ImageNet-1K with all labels, in percent; None without one to believe."""
    return entry.right.errors.get("100%") if entry.right else None


def _grouped(entries: Iterable[Entry], key: Callable[[Entry], Any]) -> dict[Any, list[Entry]]:
    groups: dict[Any, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def _network(entry: Entry) -> tuple[Any, ...]:
    architecture = entry.card.architecture
    return architecture.family, architecture.name, architecture.patch_size_px


def _gap(one: Entry, other: Entry) -> float:
    """Difference of errors; where one is not known, more than any."""
    errors = full_shot_error(one), full_shot_error(other)
    if errors[0] is None:
        return math.inf
    return errors[0] if errors[1] is None else abs(errors[0] - errors[1])


def _size_gap(one: Entry, other: Entry) -> float:
    return abs(math.log(one.card.architecture.n_parameters / other.card.architecture.n_parameters))


def _near(title: str, some: list[Entry], entry: Entry, how: Callable[[Entry, Entry], str]) -> Near:
    named = tuple(Neighbour(one, how(one, entry)) for one in some[:MOST])
    return Near(title, named, len(some) - len(named))


def _variant(one: Entry, entry: Entry) -> str:
    ours, theirs = entry.card, one.card
    differs = [
        text
        for text, value in (
            (f"{theirs.preprocess.crop_px} px", theirs.preprocess.crop_px != ours.preprocess.crop_px),
            (f"{theirs.representation.layer}", theirs.representation.layer != ours.representation.layer),
            (f"{theirs.representation.dim} features", theirs.representation.dim != ours.representation.dim),
            (f"{_word(theirs.pretraining.epochs)} epochs", theirs.pretraining.epochs != ours.pretraining.epochs),
            (
                f"then {_word(theirs.pretraining.finetuning_dataset)}",
                theirs.pretraining.finetuning_dataset != ours.pretraining.finetuning_dataset,
            ),
        )
        if value and "not " not in text
    ]
    return ", ".join([*differs, *_error(one)])


def _trained(one: Entry, entry: Entry) -> str:
    card = one.card
    known = [card.objective.name, card.pretraining.dataset]
    return ", ".join([*(text for text in known if not isinstance(text, Missing)), *_error(one)])


def _sized(one: Entry, entry: Entry) -> str:
    return ", ".join([f"{short_number(one.card.architecture.n_parameters)} parameters", *_error(one)])


def _error(one: Entry) -> list[str]:
    error = full_shot_error(one)
    return [] if error is None else [f"{points(error)} % error"]


def _word(value: Any) -> str:
    return value.value if isinstance(value, Missing) else str(value)


def _signed(difference: float) -> str:
    """A difference with its sign, also of 0."""
    text = points(difference)
    return text if text.startswith("-") else f"+{text}"
