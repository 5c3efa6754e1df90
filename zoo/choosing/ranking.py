"""All encoders that may be used, ranked by the error to expect on images like the user's.

``zoo recommend`` and the site's page of choices show it. Encoders trained with ImageNet's labels have no rank, for what
is known of them flatters them; nor, with few labels, those of whose objective nobody probed any with few. Nor have
gated ones and those of special kinds of images unless they are asked for: they are named beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ..analysis.label_budget import N_CLASSES, check_n_labels, describe_labels_per_class
from ..cards.catalogue import load_catalogue
from ..cards.gated_access import GATED, get_domain, get_image_domains
from ..cards.notebooks import NotebookTable, Record
from ..cards.schema import EncoderCard, Missing, format_fact
from ..errors import QueryError, format_count
from ..results.evidence import list_datasets
from ..results.reported import select_preferred_accuracies
from ..results.values import IMAGENET
from .constraints import NOT_GONE, Constraints, Filter, LeftOut, apply_filters, build_filters
from .expectations import ExpectedError, Images, estimate_errors, read_difficulties

FLATTERING = "trained with ImageNet's labels, which flatter it"
UNTOLD = "no few-label number of their objective"
"""Why an encoder has no rank where labels are far fewer than probes of its objective ever had."""
NOBODY = "nobody measured a probe on {} images: errors are those on others, and those of encoders made for them"
TIE = 0.1
"""Probability to be better than the first up to which an encoder counts as worse."""
DEVIATES = NormalDist().inv_cdf(1 - TIE)
"""Standard deviations of their difference, from which on one of two encoders is worse."""
_POCKET = "shipped:"
_N_NAMED = 3  # encoders in a sentence


@dataclass(frozen=True, slots=True)
class RankedEncoder:
    """An encoder, what is expected of it, and its rank by that."""

    card: EncoderCard
    expected: ExpectedError
    rank: int
    is_tie: bool  # with the first: the chance that it is better is above one in ten, by numbers of its own


@dataclass(frozen=True, slots=True)
class Beside:
    """An encoder that would rank among those shown, and why it has no rank."""

    card: EncoderCard
    expected: ExpectedError
    why: str  # gated, or of special images


@dataclass(frozen=True, slots=True)
class Ranking(NotebookTable):
    """Encoders in the order of their expected errors; a table in a notebook, with ``.df`` and ``.plot()``."""

    n_labels: int
    n_classes: int
    images: Images
    ranked: list[RankedEncoder]
    beside: list[Beside]  # by rising expected error
    left_out: LeftOut
    why_nobody: str  # "" if anybody is ranked
    level_sd: float  # standard deviation of the difficulty of such images, in log odds, which moves all errors alike

    @property
    def n_ties(self) -> int:
        """Encoders that share the first place."""
        return sum(one.is_tie for one in self.ranked)

    @property
    def unprobed(self) -> list[str]:
        """Encoders that share the first place with others and of which no linear probe on ImageNet-1K is known."""
        reported = select_preferred_accuracies()
        probed = ("measured here", "another protocol", "these images")
        tied = [one for one in self.ranked if one.is_tie and one.expected.basis not in probed]
        names = [one.card.id for one in tied if "reported-linear" not in reported.get(one.card.id, {})]
        return names if self.n_ties > 1 else []

    @property
    def cautions(self) -> list[str]:
        """Sentences on what is not known: the kind of images, and what would tell those in the first place apart."""
        lines = []
        if self.images.is_unmeasured:
            made = [f"{one.card.id} (rank {one.rank})" for one in self.ranked if get_image_domains(one.card)]
            lines.append(f"{NOBODY.format(self.images.domain)} ({_some(made) or 'none is left'}) rest on kin")
        if self.n_ties > 1 and self.images.dataset != IMAGENET:
            lines.append("what would separate them: a probe on such images, as by the command below")
        elif names := self.unprobed:
            of_them = "any" if len(names) == self.n_ties else f"{len(names)} of them ({_some(names)})"
            lines.append(f"what would separate them: a linear probe; none on ImageNet-1K is known of {of_them}")
        kin = [one for one in self.ranked if one.expected.basis == "kin"]
        n_kin = sum(not one.is_tie and not is_worse(one.expected, self.ranked[0].expected) for one in kin)
        if kin and len(kin) == len(self.ranked):
            lines.append("of none of them is any number known: the order is that of their kin")
        elif n_kin:
            lines.append(f"{n_kin} more may be as good, of which no number is known (kin)")
        return lines

    def _records(self) -> Iterator[Record]:
        for one in self.ranked:
            low, high = one.expected.interval
            yield {
                "rank": one.rank,
                "encoder": one.card.id,
                "error_percent": one.expected.error,
                "ci_low_percent": low,
                "ci_high_percent": high,
                "ties_with_first": one.is_tie,
                "rests_on": one.expected.basis,
                "n_parameters": one.card.architecture.n_parameters,
                "dim": one.card.representation.dim,
                "licence": format_fact(one.card.licence.weights),
            }

    @property
    def title(self) -> str:
        """What is expected, on which images."""
        a_class = describe_labels_per_class(self.n_labels, self.n_classes)
        return f"Expected error of a linear probe on {self.images.words}, {a_class}, percent"

    def _caption(self) -> str:
        return self.title

    def _notes(self) -> list[str]:
        first = f"{format_count(len(self.ranked), 'encoder')}, {self.n_ties:,} tied with the first; 90 % intervals."
        return [first, *(f"{one}." for one in self.cautions)]


@dataclass(frozen=True, slots=True)
class _RankingCandidate:
    card: EncoderCard
    expected: ExpectedError


def _is_told(one: object) -> bool:
    return not (isinstance(one, _RankingCandidate) and one.expected.is_untold)


def rank_encoders(
    n_labels: int,
    n_classes: int,
    images: Images,
    constraints: Constraints | None = None,
    *,
    include_gone: bool = False,
) -> Ranking:
    """Encoders by the error to expect on these images with so many labels of so many classes.

    QueryError where the numbers cannot be meant.
    """
    limits = constraints or Constraints()
    cards = load_catalogue()
    known = estimate_errors({name: cards[name] for name in cards}, n_labels, n_classes, images=images)
    everyone = [_RankingCandidate(cards[name], one) for name, one in known.items() if not is_of_pocket(cards[name])]
    conditions = [*build_filters(limits), *([] if include_gone else [NOT_GONE])]
    conditions.append(Filter(FLATTERING, lambda one: not one.card.saw_labels))
    conditions.append(Filter(UNTOLD, _is_told))
    conditions.append(Filter("weights of another network", lambda one: one.card.weights.availability != "unfit"))
    kept, left_out, why_nobody = apply_filters(everyone, conditions, {})
    asked = limits.where or ""
    special: list[Beside] = []
    for one in kept:
        if one.card.weights.availability in GATED and not re.search(r"\baccess\b", asked):
            special.append(Beside(one.card, one.expected, "gated"))
        elif not is_suited(one.card, images) and not re.search(r"\bdomain\b", asked):
            special.append(Beside(one.card, one.expected, f"for {get_domain(one.card)} images"))
    names = {one.card.id for one in special}
    ordered = sorted(
        (one for one in kept if one.card.id not in names), key=lambda one: (one.expected.odds, one.card.id)
    )
    if kept and not ordered:
        ordered, special = sorted(kept, key=lambda one: one.expected.odds), []
    first = ordered[0].expected if ordered else None
    return Ranking(
        n_labels=n_labels,
        n_classes=n_classes,
        images=images,
        ranked=[
            RankedEncoder(one.card, one.expected, place, is_tied(one.expected, first or one.expected))
            for place, one in enumerate(ordered, start=1)
        ],
        beside=sorted(special, key=lambda one: one.expected.odds),
        left_out=left_out,
        why_nobody=why_nobody,
        level_sd=read_difficulties()[images.column].sd,
    )


def recommend(
    n_labels: int,
    n_classes: int | None = None,
    *,
    like: str | None = None,
    domain: str | None = None,
    constraints: Constraints | None = None,
    include_gone: bool = False,
) -> Ranking:
    """Encoders by the error to expect, percent, of a linear probe with ``n_labels`` images, as ``zoo recommend`` does.

    The images are like a data set (``like``), of a kind such as "satellite" (``domain``), or those of ImageNet-1K;
    ``n_classes`` is by default that of the data set. ``include_gone`` ranks encoders without weights, too.

    Raises
    ------
    QueryError
        If the numbers cannot be meant, or the number of classes is not known.
    UnknownName
        If there is no data set or domain of that name.
    """
    images = Images.named(like, domain) if like or domain else Images(IMAGENET, "natural")
    if n_classes is None and images.dataset:
        n_classes = list_datasets()[images.dataset].n_classes
    if n_classes is None:
        raise QueryError(f"Got no number of classes, expected n_classes for {images.words}.")
    if images.dataset == IMAGENET and n_classes == N_CLASSES:
        check_n_labels(n_labels)
    return rank_encoders(n_labels, n_classes, images, constraints, include_gone=include_gone)


def is_suited(card: EncoderCard, images: Images) -> bool:
    """Whether an encoder is for images of a kind: natural ones are for all, special ones for theirs."""
    kinds = get_image_domains(card)
    return not kinds or images.domain in kinds


def is_of_pocket(card: EncoderCard) -> bool:
    """Whether an encoder is one of the tiny ones that come with the zoo, or of an experiment with them."""
    url = card.weights.url
    return card.family == "randomised" or (not isinstance(url, Missing) and url.startswith(_POCKET))


def is_worse(one: ExpectedError, other: ExpectedError) -> bool:
    """Whether one encoder is worse than another beyond a tie."""
    return one.odds > other.odds and one.odds - other.odds >= DEVIATES * one.sd_from(other)


def is_tied(one: ExpectedError, first: ExpectedError) -> bool:
    """Whether an encoder shares the first place, by numbers of its own."""
    return one is first or (one.basis != "kin" and not is_worse(one, first))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_N_NAMED]) + " ..." * (len(names) > _N_NAMED)
