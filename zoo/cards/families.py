"""Families of encoders at a glance: how many encoders and networks, and what they have in common.

A network is what its encoders' files share: method, architecture and data of pretraining. Its variants differ in the
size of their input, in how long or on what else they were trained, or in the features that are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .catalogue import Catalogue
from .schema import Missing

_OF_A_NETWORK = (
    "family", "objective.name", "architecture.name", "architecture.patch_size_px", "pretraining.dataset",
)  # fmt: skip


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


def families(cards: Catalogue, among: Iterable[str] | None = None) -> list[Family]:
    """All families in the order of their names; of some encoders, if their ids are given."""
    of: dict[str, list[tuple[str, ...]]] = {}
    family = cards.column("family")
    for network in networks(cards, list(cards) if among is None else list(among)):
        of.setdefault(family[network[0]], []).append(network)
    return [Family(name, tuple(of[name]), cards) for name in sorted(of)]


def networks(cards: Catalogue, encoders: Sequence[str]) -> list[tuple[str, ...]]:
    """The encoders in groups, each the variants of one network, in the order of their first ones.

    The shortest id leads its group, for ids of variants say what is different.
    """
    columns = [cards.column(field) for field in _OF_A_NETWORK]
    groups: dict[tuple[Any, ...], list[str]] = {}
    for encoder in encoders:
        groups.setdefault(tuple(column[encoder] for column in columns), []).append(encoder)
    leading = [(min(group, key=len), group) for group in groups.values()]
    return [(leader, *(encoder for encoder in group if encoder != leader)) for leader, group in leading]
