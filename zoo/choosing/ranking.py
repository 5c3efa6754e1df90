"""All encoders that may be used, ranked by the error to expect on images like the user's.

``zoo recommend`` and the site's page of choices show it. Encoders trained with ImageNet's labels have no rank, for what
is known of them flatters them; nor have gated ones and those of special kinds of images unless they are asked for: they
are named beside.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..cards.catalogue import catalogue
from ..cards.gates import GATED, OF_NATURAL_IMAGES, domain_of
from ..cards.schema import EncoderCard, Missing
from .constraints import NOT_GONE, Constraints, Filter, LeftOut, filtered, filters
from .expectations import Expected, Images, difficulties, expected_errors

FLATTERING = "trained with ImageNet's labels, which flatter it"
_TIE = 0.05  # probability to be better than the first up to which an encoder counts as worse
_SPECIAL = {"pathology H&E": "pathology", "earth RGB": "satellite"}  # what cards and data sets call the same images
_POCKET = "shipped:"


@dataclass(frozen=True, slots=True)
class Ranked:
    """An encoder, what is expected of it, and its rank by that."""

    card: EncoderCard
    expected: Expected
    rank: int
    is_tie: bool  # with the first: the chance that it is better is above one in twenty


@dataclass(frozen=True, slots=True)
class Beside:
    """An encoder that would rank among those shown, and why it has no rank."""

    card: EncoderCard
    expected: Expected
    why: str  # gated, or of special images


@dataclass(frozen=True, slots=True)
class Ranking:
    """Encoders in the order of their expected errors."""

    images: Images
    ranked: list[Ranked]
    beside: list[Beside]  # by rising expected error
    left_out: LeftOut
    why_nobody: str  # "" if anybody is ranked
    level_sd: float  # standard deviation of the difficulty of such images, in log odds, which moves all errors alike

    @property
    def n_ties(self) -> int:
        """Encoders that share the first place."""
        return sum(one.is_tie for one in self.ranked)


@dataclass(frozen=True, slots=True)
class _Candidate:
    card: EncoderCard
    expected: Expected


def ranking(
    n_labels: int,
    n_classes: int,
    images: Images,
    constraints: Constraints | None = None,
    *,
    include_gone: bool = False,
) -> Ranking:
    """Encoders by the error to expect on these images with so many labels of so many classes.

    QueryError where the numbers cannot be meant. Ties take errors of encoders as independent.
    """
    limits = constraints or Constraints()
    cards = catalogue()
    known = expected_errors({name: cards[name] for name in cards}, n_labels, n_classes, images=images)
    everyone = [_Candidate(cards[name], one) for name, one in known.items() if not is_of_pocket(cards[name])]
    conditions = [*filters(limits), *([] if include_gone else [NOT_GONE])]
    conditions.append(Filter(FLATTERING, lambda one: not one.card.saw_labels))
    conditions.append(Filter("weights of another network", lambda one: one.card.weights.availability != "unfit"))
    kept, left_out, why_nobody = filtered(everyone, conditions, {})
    asked = limits.where or ""
    special: list[Beside] = []
    for one in kept:
        if one.card.weights.availability in GATED and not re.search(r"\baccess\b", asked):
            special.append(Beside(one.card, one.expected, "gated"))
        elif not fits(one.card, images) and not re.search(r"\bdomain\b", asked):
            special.append(Beside(one.card, one.expected, f"for {domain_of(one.card)} images"))
    names = {one.card.id for one in special}
    ordered = sorted(
        (one for one in kept if one.card.id not in names), key=lambda one: (one.expected.odds, one.card.id)
    )
    if kept and not ordered:
        ordered, special = sorted(kept, key=lambda one: one.expected.odds), []
    first = ordered[0].expected if ordered else None
    return Ranking(
        images=images,
        ranked=[
            Ranked(one.card, one.expected, place, first is not None and _may_be_better(one.expected, first))
            for place, one in enumerate(ordered, start=1)
        ],
        beside=sorted(special, key=lambda one: one.expected.odds),
        left_out=left_out,
        why_nobody=why_nobody,
        level_sd=difficulties()[images.column].sd,
    )


def fits(card: EncoderCard, images: Images) -> bool:
    """Whether an encoder is for images of a kind: natural ones are for all, special ones for theirs."""
    own = domain_of(card)
    return own in OF_NATURAL_IMAGES or (bool(images.domain) and _SPECIAL.get(own, own) == images.domain)


def is_of_pocket(card: EncoderCard) -> bool:
    """Whether an encoder is one of the tiny ones that come with the zoo, or of an experiment with them."""
    url = card.weights.url
    return card.family == "randomised" or (not isinstance(url, Missing) and url.startswith(_POCKET))


def _may_be_better(one: Expected, first: Expected) -> bool:
    if one is first:
        return True
    sd = math.hypot(one.sd, first.sd)
    better = 0.5 * math.erfc((one.odds - first.odds) / (sd * math.sqrt(2))) if sd else 0.0
    return better > _TIE
