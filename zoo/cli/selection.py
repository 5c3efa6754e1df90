"""Which encoders a verb speaks of, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cards import catalogue
from ..metadata import Missing
from ..results import Summary, summaries
from .facts import Fact, Subject, value_of

if TYPE_CHECKING:
    from .where import Condition


def subjects(
    names: Iterable[str], *, with_risks: bool, exclude_wrong: bool = False, dataset: str | None = None
) -> list[Subject]:
    """Encoders by name, in that order, with risks on ImageNet-1K or another data set; ids are compared without case."""
    cards = catalogue()
    risks = summaries if dataset is None else partial(summaries, dataset=dataset)
    measured: Mapping[str, Summary] = risks() if with_risks else {}
    counting = risks(exclude_wrong=True) if with_risks and exclude_wrong else measured
    return [Subject(card, measured.get(card.id), counting.get(card.id)) for card in (cards[name] for name in names)]


def left_out(among: Iterable[Subject]) -> list[str]:
    """A note that names the encoders whose wrong measurements do not count here."""
    names = [subject.card.id for subject in among if subject.is_wrong and subject.summary != subject.measured]
    return [f"measured wrongly and left out: {', '.join(names)}"] if names else []


def matching(pattern: str | None) -> list[str]:
    """Ids that match a glob, or contain a text, without regard to case; all of them for None or an empty text."""
    ids = list(catalogue())
    if not pattern:
        return ids
    folded = pattern.casefold()
    if any(mark in pattern for mark in "*?["):
        from fnmatch import fnmatchcase

        return [encoder for encoder in ids if fnmatchcase(encoder.casefold(), folded)]
    return [encoder for encoder in ids if folded in encoder.casefold()]


def satisfying(condition: Condition, among: Sequence[Subject]) -> list[Subject]:
    """Those for which the condition is true."""
    return [subject for subject in among if condition.holds(partial(value_of, subject))]


def sorted_by(fact: Fact, among: Sequence[Subject], *, descending: bool) -> list[Subject]:
    """By one column, texts without regard to case, missing values always last."""

    def key(subject: Subject) -> Any:
        value = fact.of(subject)
        if isinstance(value, str):
            return value.casefold()
        return value

    known = [subject for subject in among if not isinstance(fact.of(subject), Missing)]
    unknown = [subject for subject in among if isinstance(fact.of(subject), Missing)]
    return sorted(known, key=key, reverse=descending) + unknown
